//! Codes of calling a tool: why a client does not send, sign or accept something.

super::codes! {
    NOT_VERIFIED = "call.not_verified", Error, "ERC-8257 §7; Pricing Staleness and Payment Safety" {
        "the tool failed verification",
        "A tool is verified again before each call. Nothing is sent if its manifest, hash, origin or creator does not verify at that moment, even if it verified earlier.",
        "run `toolcrib verify` on the tool to see the failing check; call again once its creator has fixed it",
    }
    NO_CHAIN = "call.no_chain", Error, "Toolcrib settings" {
        "no RPC node is configured for the chain of the tool or payment",
        "A tool is verified against its registry, and a payment with unknown outcome is looked up on its chain. Both need an RPC node for that chain.",
        "configure an RPC node for that chain in the settings",
    }
    NO_WALLET = "call.no_wallet", Error, "Invocation guide, Tool Invocation Flow" {
        "the tool requires a signature, but no wallet is configured",
        "Gated and paid tools require an EIP-3009 signature. Without a wallet only open tools can be called.",
        "configure a wallet in the settings, or call an open tool",
    }
    INPUT = "call.input", Error, "ERC-8257 §2 inputs" {
        "the input does not match the tool's schema",
        "The manifest defines the input of the tool. The tool would refuse an input that violates the schema, possibly after the payment.",
        "correct the input as the violations describe",
    }
    INPUT_TOO_LARGE = "call.input_too_large", Error, "Toolcrib limits" {
        "the input is too large",
        "Inputs are limited to 1 MiB of JSON, which schema validators and tools accept.",
        "send a smaller input, or a reference to the data",
    }
    INPUT_NOT_A_QUERY = "call.input_not_a_query", Error, "Invocation guide, GET tools" {
        "the input cannot be sent as query parameters",
        "A tool that is called with GET takes its input as query parameters: strings, numbers and booleans at the top level. There is no standard encoding for lists, objects and null.",
        "leave these fields out, or call the tool with POST",
    }
    SCHEMA_UNUSABLE = "call.schema_unusable", Error, "ERC-8257 §2; Manifest Parser Hardening" {
        "a schema of the manifest is not usable",
        "Inputs and outputs are validated against the manifest. If a schema cannot be compiled safely, the input is sent and the output accepted without validation. That needs consent.",
        "tell the creator (`toolcrib lint` reports the error), or call with --allow-unchecked",
    }
    FIXED_VALUES = "call.fixed_values", Error, "ERC-8257 Schema default and const Injection" {
        "the tool's schema has `const` values that you have not acknowledged",
        "A `const` in the schema makes every caller send a value that the creator chose, such as an address or a flag. The caller must review and acknowledge it.",
        "review the values, then acknowledge them with --ack-const",
    }
    PRICING_UNKNOWN = "call.pricing_unknown", Error, "ERC-8257 §3 Pricing" {
        "the tool has a price that this client cannot pay",
        "The manifest prices calls in protocols or tokens that this client does not support: transfers that must be sent first, native coins, or tokens outside the built-in table. An unknown price does not mean free.",
        "use another client that supports one of these protocols, or ask the creator for an x402 entry in USDC",
    }
    REDIRECTED = "call.redirected", Error, "Toolcrib egress policy" {
        "the tool answers with a redirect, which is not followed",
        "The manifest authorises only the endpoint that it names. A payment must not be forwarded to a server that a redirect names.",
        "tell the creator to respond at the endpoint itself",
    }
    REFUSED = "call.refused", Error, "Invocation guide, Tool Invocation Flow" {
        "the tool refused the call",
        "The response is neither a result nor a 402 challenge. If a payment was sent, it is listed, and counts as spent until the chain shows that it was not.",
        "read the server's code and message; correct the input or try later",
    }
    CHALLENGE = "call.challenge", Error, "x402 v1 §5; x402 v2 §5" {
        "the 402 challenge is malformed, so nothing was signed",
        "A payment is signed only for an unambiguous challenge. The findings list the errors of this one.",
        "report the findings to the creator; `toolcrib probe` shows the same",
    }
    NO_PAYABLE_OFFER = "call.no_payable_offer", Error, "x402 exact scheme on EVM; Toolcrib" {
        "this client supports none of the payment offers",
        "This client pays with the scheme `exact` and EIP-3009 authorizations, in USDC from the built-in table, on EVM chains, to an account that can receive it, and for a limited time.",
        "ask the operator to add an offer of that kind",
    }
    TERMS_DIFFER = "call.terms_differ", Error, "ERC-8257 Pricing Staleness and Payment Safety" {
        "the payment terms differ from the manifest",
        "A different amount (even a lower one), token, network or recipient is a change of the price. It is signed only with explicit consent to exactly the new terms.",
        "compare the terms, then call again with consent to exactly those terms, or do not call",
    }
    FREE_ASKS_MONEY = "call.free_asks_money", Error, "ERC-8257 §3 Pricing" {
        "a tool that its manifest declares free asks for a payment",
        "A manifest without prices, or with the price 0, declares calls free. An endpoint that asks for money is misconfigured or dishonest.",
        "consent to exactly these terms only if you know the reason, and call again",
    }
    OPERATOR_UNKNOWN = "call.operator_unknown", Error, "Invocation guide, Cross-tool replay" {
        "the endpoint asks for a proof of identity to an unknown account",
        "A zero-value authorization proves the caller's identity to the account in `to`. A server that relays another operator's challenge could impersonate the caller there, so this client signs only for the creator, the recipient of a price of 0, or an operator that is pinned for this tool.",
        "if the creator confirms that account as the tool's operator, pin it for this tool and call again",
    }
    NOT_CONSENTED = "call.not_consented", Error, "Toolcrib spend policy" {
        "the URL asks for a payment that was not allowed",
        "An endpoint without a manifest is paid only up to the amount and to the recipients that you name, or on terms that you accept exactly.",
        "name the amount and the recipient, if you want to pay",
    }
    OTHER_NETWORK = "call.other_network", Error, "Toolcrib spend policy" {
        "the payment is asked for on another network",
        "Only payments on the requested network are signed. A tool on a test network is never paid with real money, nor the reverse; otherwise a server could make a test cost money by naming another network.",
        "request the network that the server names, or accept exactly these terms",
    }
    MIXED_NETWORKS = "call.mixed_networks", Error, "Toolcrib spend policy" {
        "the endpoint accepts both test and real money",
        "The order of the server's offers must not decide which of the two is paid.",
        "choose the network to pay on",
    }
    NOT_APPROVED = "call.not_approved", Error, "Toolcrib spend policy" {
        "the call was not approved",
        "The amount is above the limit for payments without confirmation, and the confirmation was declined, or there was no terminal to ask on. Without a terminal nothing is paid unless the user's settings define spending limits.",
        "confirm on a terminal, approve in advance with --yes or --max-price, or set spend.ask_above in the user's settings",
    }
    IDENTITY_NOT_APPROVED = "call.identity_not_approved", Error, "Toolcrib spend policy" {
        "the proof of identity was not approved",
        "The tool identifies callers by account, which a zero-value authorization proves. It moves no money, but it reveals the calling account to the recipient. The confirmation was declined, or there was no terminal to ask on.",
        "confirm on a terminal, approve in advance with --yes, or set spend.ask_identity = false in the user's settings",
    }
    ABOVE_MAX_PRICE = "call.above_max_price", Error, "Toolcrib spend policy" {
        "the price is above the maximum for this call",
        "The call was made with a maximum price, and the tool costs more.",
        "raise the maximum price, or do not call",
    }
    FUNDS = "call.funds", Error, "x402 exact scheme on EVM" {
        "the wallet balance is too low for the price",
        "The tool refuses a payment that cannot settle. The balance of the wallet covers none of the supported offers.",
        "fund the wallet with the token on one of the listed chains",
    }
    CHANGED_MEANWHILE = "call.changed_meanwhile", Error, "ERC-8257 Pricing Staleness and Payment Safety" {
        "the manifest changed while the payment was being approved",
        "The tool was verified again after the approval, and its manifest differs from the approved one. Nothing was signed.",
        "call again and review the new terms",
    }
    PAYMENT_REFUSED = "call.payment_refused", Error, "Invocation guide, Tool Invocation Flow" {
        "the tool rejected the payment",
        "The response to the paid request asks for payment again. Only one payment is ever signed per call. The authorization that was sent can still be settled until it expires, so it counts as spent until the chain shows that it was not.",
        "read the server's code; run `toolcrib payments resolve` once the payment has expired",
    }
    INDETERMINATE = "call.indeterminate", Error, "Toolcrib spend ledger" {
        "the payment was sent, and its outcome is unknown",
        "No clear response came back after the payment was sent. It may have settled. It is recorded, counts as spent, and must not be repeated blindly.",
        "run `toolcrib payments resume` to collect the result with the same payment, or `toolcrib payments resolve` to check the chain",
    }
    DENIED = "call.denied", Error, "Invocation guide, Access Control" {
        "access denied: the wallet does not meet the tool's requirements",
        "A predicate gates the tool, and the caller does not meet it. The missing requirements are listed as far as they can be read from the chain.",
        "meet the requirements, or use another wallet",
    }
    OUTPUT = "call.output", Error, "ERC-8257 §2 outputs" {
        "the output does not match the tool's schema",
        "The output violates the output schema of the manifest. It is not returned as a result, because consumers rely on the schema.",
        "read the violations and report them to the creator; a paid call is recorded in the ledger",
    }
    OUTPUT_NOT_JSON = "call.output_not_json", Error, "ERC-8257 §2 outputs" {
        "the output is not JSON",
        "Tools respond in JSON. The response has a success status, but its body is not JSON.",
        "tell the creator; a paid call is recorded in the ledger",
    }
    NO_RECEIPT = "call.no_receipt", Warning, "x402 v1 HTTP transport; x402 v2 HTTP transport" {
        "the response to a paid call has no receipt",
        "The tool returned a result, but the server did not say how the payment settled. It counts as spent.",
        "run `toolcrib payments resolve` to check the chain",
    }
    RECEIPT = "call.receipt", Warning, "x402 v1 §5.3; x402 v2 §5.3" {
        "the receipt does not match this payment",
        "The receipt is a claim of the server, and this one names another network, payer or amount, or no transaction. The payment counts as spent.",
        "run `toolcrib payments resolve` to check the chain",
    }
    RECEIPT_UNCONFIRMED = "call.receipt_unconfirmed", Warning, "x402 v1 §5.3; x402 v2 §5.3" {
        "the chain does not show the settlement that the receipt names",
        "The receipt names a transaction that the RPC node does not have, or the node did not answer in time. The transaction may be mined later or may not exist. The payment stays open and counts as spent.",
        "run `toolcrib payments resolve` in a minute to check the chain again",
    }
    RECEIPT_CONTRADICTED = "call.receipt_contradicted", Warning, "x402 v1 §5.3; x402 v2 §5.3" {
        "the transaction that the receipt names did not settle this payment",
        "The transaction is onchain, but it reverted or did not transfer this payment. The receipt is wrong. The payment stays open and counts as spent until the chain shows its outcome.",
        "run `toolcrib payments resolve` to check the chain, and tell the creator of the tool",
    }
    NOT_RECORDED = "call.not_recorded", Warning, "Toolcrib spend ledger" {
        "the outcome of the payment could not be written to the ledger",
        "The payment was made, and the response arrived. The ledger still records the payment as signed, so the budget is correct, but not its outcome.",
        "fix the ledger, then run `toolcrib payments resolve` to check the chain",
    }
    PAID_NOT_SERVED = "call.paid_not_served", Error, "x402 v1 §5.3; Toolcrib spend ledger" {
        "the payment settled, but the tool returned no result",
        "The server accepted the payment and then failed. The ledger has the payment and the data to redeem its result. A new call would pay again.",
        "run `toolcrib payments resume` once the tool works again; this does not pay twice",
    }
    SERVED_UNPAID = "call.served_unpaid", Hint, "ERC-8257 §3 Pricing" {
        "the tool did not charge its price",
        "The manifest states a price, but the endpoint did not ask for it. Nothing was paid.",
        "nothing to do; you may tell the creator",
    }
    NOT_RESUMABLE = "call.not_resumable", Error, "Toolcrib spend ledger" {
        "the payment cannot be sent again",
        "A payment can be sent again only if it was signed, was not released, and its request is still in the ledger. Requests are kept for as long as servers keep results.",
        "check the chain with `toolcrib payments resolve`, or make a new call",
    }
    SETTING = "call.setting", Error, "Toolcrib settings" {
        "a header or URL of the call is invalid",
        "A header to send, or the URL that results from the input, is not valid.",
        "correct the setting that the message names",
    }
    SIGN_IN_REFUSED = "call.sign_in_refused", Error, "x402 extension sign-in-with-x; EIP-4361" {
        "the server rejected the sign-in message",
        "A sign-in message was signed for this server, but the server asks for one again. Nothing was paid, and the message is valid for a few minutes at most.",
        "read the server's code and message; check this machine's clock and the network of the account",
    }
}
