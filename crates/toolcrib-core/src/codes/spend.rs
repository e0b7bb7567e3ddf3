//! Codes of the spend policy and its ledger: why no money is committed.

super::codes! {
    PER_CALL = "spend.per_call", Error, "Toolcrib spend policy" {
        "the call costs more than one call may",
        "The policy caps what a single call may cost, whatever was consented to.",
        "raise per_call in the spend policy if you mean to pay this much",
    }
    PER_HOUR = "spend.per_hour", Error, "Toolcrib spend policy" {
        "the budget of this hour is used up",
        "Payments of the last hour, with those that are signed or unclear, and this one together exceed the policy.",
        "wait, resolve unclear payments, or raise per_hour in the spend policy",
    }
    PER_DAY = "spend.per_day", Error, "Toolcrib spend policy" {
        "the budget of this day is used up",
        "Payments of the last 24 hours, with those that are signed or unclear, and this one together exceed the policy.",
        "wait, resolve unclear payments, or raise per_day in the spend policy",
    }
    PER_RECIPIENT = "spend.per_recipient", Error, "Toolcrib spend policy" {
        "the budget for this recipient is used up",
        "Payments of the last 24 hours to this account and this one together exceed the policy.",
        "wait, or raise per_recipient_day in the spend policy",
    }
    PER_TOOL = "spend.per_tool", Error, "Toolcrib spend policy" {
        "the budget for this tool is used up",
        "Payments of the last 24 hours for this tool and this one together exceed the policy.",
        "wait, or raise per_tool_day in the spend policy",
    }
    PER_ASSET = "spend.per_asset", Error, "Toolcrib spend policy" {
        "the budget for this token is used up",
        "Payments of the last 24 hours in this token of this chain and this one together exceed the policy.",
        "wait, or raise per_asset_day in the spend policy",
    }
    RECIPIENT = "spend.recipient", Error, "Toolcrib spend policy" {
        "the policy does not let this recipient be paid",
        "The account is on the list of those that are never paid, or not on the list of those that may be.",
        "change the lists of recipients in the spend policy if you trust the account",
    }
    TOOL = "spend.tool", Error, "Toolcrib spend policy" {
        "the policy does not let this tool be paid",
        "The tool is on the list of those that are never paid, or not on the list of those that may be.",
        "change the lists of tools in the spend policy if you trust it",
    }
    ORIGIN = "spend.origin", Error, "Toolcrib spend policy" {
        "the policy does not let this origin be paid",
        "The server is on the list of those that are never paid, or not on the list of those that may be.",
        "change the lists of origins in the spend policy if you trust it",
    }
    CHAIN = "spend.chain", Error, "Toolcrib spend policy" {
        "the policy does not let this chain be paid on",
        "The policy names the chains on which payments may be signed, and this is none of them.",
        "add the chain to the spend policy, or pay by another offer",
    }
    AMOUNT = "spend.amount", Error, "Toolcrib limits" {
        "the amount cannot be counted by the ledger",
        "The ledger counts millionths of a dollar and takes at most a thousand million dollars at once. Nothing above is ever signed for.",
        "do not pay this",
    }
    LAPSED = "spend.lapsed", Error, "Toolcrib spend ledger" {
        "the reservation has lapsed",
        "Money is reserved for a few minutes before it is signed away. This reservation is over, or another process has ended it, so nothing is signed.",
        "call again",
    }
    NOT_FOUND = "spend.not_found", Error, "Toolcrib spend ledger" {
        "the ledger has no such payment",
        "Payments are kept for ninety days under an id of 32 hexadecimal digits.",
        "list the payments to find the id",
    }
    STATE = "spend.state", Error, "Toolcrib spend ledger" {
        "the payment is not in a state that allows this",
        "A payment goes from reserved to signed and from there to settled, released or unknown; what is settled stays settled.",
        "look at the payment's state",
    }
    FULL = "spend.full", Error, "Toolcrib limits" {
        "the ledger is full",
        "The ledger keeps a bounded number of payments. Rather than forgetting one it refuses new ones.",
        "wait until old payments have been pruned",
    }
    POLICY = "spend.policy", Error, "Toolcrib spend policy" {
        "the spend policy cannot be read",
        "An amount, a tool or an origin in the policy is not one. A policy that is half understood would protect by halves.",
        "correct the value that is named",
    }
}
