//! Codes of the spend policy and its ledger: why no money is committed.

super::codes! {
    PER_CALL = "spend.per_call", Error, "Toolcrib spend policy" {
        "the price exceeds the per-call limit",
        "The spend policy limits the price of a single call, even with consent.",
        "raise per_call in the spend policy if you want to pay this price",
    }
    PER_HOUR = "spend.per_hour", Error, "Toolcrib spend policy" {
        "the hourly spending limit is exceeded",
        "This payment plus those of the last hour, including signed ones and ones with unknown outcome, exceeds the limit.",
        "wait, resolve payments with unknown outcome, or raise per_hour in the spend policy",
    }
    PER_DAY = "spend.per_day", Error, "Toolcrib spend policy" {
        "the daily spending limit is exceeded",
        "This payment plus those of the last 24 hours, including signed ones and ones with unknown outcome, exceeds the limit.",
        "wait, resolve payments with unknown outcome, or raise per_day in the spend policy",
    }
    PER_RECIPIENT = "spend.per_recipient", Error, "Toolcrib spend policy" {
        "the spending limit for this recipient is exceeded",
        "This payment plus those of the last 24 hours to this account exceeds the limit.",
        "wait, or raise per_recipient_day in the spend policy",
    }
    PER_TOOL = "spend.per_tool", Error, "Toolcrib spend policy" {
        "the spending limit for this tool is exceeded",
        "This payment plus those of the last 24 hours for this tool exceeds the limit.",
        "wait, or raise per_tool_day in the spend policy",
    }
    PER_ASSET = "spend.per_asset", Error, "Toolcrib spend policy" {
        "the spending limit for this token is exceeded",
        "This payment plus those of the last 24 hours in this token on this chain exceeds the limit.",
        "wait, or raise per_asset_day in the spend policy",
    }
    RECIPIENT = "spend.recipient", Error, "Toolcrib spend policy" {
        "the spend policy does not allow this recipient",
        "The account is on the deny list, or not on the allow list.",
        "change the lists of recipients in the spend policy if you trust the account",
    }
    TOOL = "spend.tool", Error, "Toolcrib spend policy" {
        "the spend policy does not allow this tool",
        "The tool is on the deny list, or not on the allow list.",
        "change the lists of tools in the spend policy if you trust it",
    }
    ORIGIN = "spend.origin", Error, "Toolcrib spend policy" {
        "the spend policy does not allow this origin",
        "The origin is on the deny list, or not on the allow list.",
        "change the lists of origins in the spend policy if you trust it",
    }
    CHAIN = "spend.chain", Error, "Toolcrib spend policy" {
        "the spend policy does not allow this chain",
        "The policy lists the chains on which payments may be signed, and this chain is not among them.",
        "add the chain to the spend policy, or choose another offer",
    }
    AMOUNT = "spend.amount", Error, "Toolcrib limits" {
        "the amount is too large for the ledger",
        "The ledger counts millionths of a dollar, with at most 1,000,000,000 dollars per payment. A larger payment is never signed.",
        "do not pay this amount",
    }
    RESERVATION_EXPIRED = "spend.reservation_expired", Error, "Toolcrib spend ledger" {
        "the reservation has expired",
        "An amount is reserved for a few minutes before the payment is signed. This reservation has expired, or another process released it, so nothing was signed.",
        "call again",
    }
    NOT_FOUND = "spend.not_found", Error, "Toolcrib spend ledger" {
        "the ledger has no such payment",
        "Payments are kept for 90 days, under an id of 32 hexadecimal digits.",
        "list the payments to find the id",
    }
    STATE = "spend.state", Error, "Toolcrib spend ledger" {
        "the operation is not allowed in the payment's state",
        "A payment changes from reserved to signed, and then to settled, released or unknown. Settled is final.",
        "check the payment's state",
    }
    FULL = "spend.full", Error, "Toolcrib limits" {
        "the ledger is full",
        "The number of payments in the ledger is limited. It refuses new payments instead of removing records.",
        "wait until old payments have been pruned",
    }
    POLICY = "spend.policy", Error, "Toolcrib spend policy" {
        "the spend policy is not valid",
        "An amount, a tool or an origin in the policy cannot be parsed. The policy is refused as a whole, because ignoring a part of it would remove a limit.",
        "correct the value that the message names",
    }
}
