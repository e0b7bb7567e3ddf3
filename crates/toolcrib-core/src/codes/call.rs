//! Codes of calling a tool: why a client does not send, sign or believe something.

super::codes! {
    NOT_VERIFIED = "call.not_verified", Error, "ERC-8257 §7; Pricing Staleness and Payment Safety" {
        "the tool did not pass verification just now",
        "Nothing is sent to a tool whose manifest, hash, origin or creator does not hold at the moment of the call. What was verified yesterday says nothing about today.",
        "run `toolcrib verify` on the tool to see the failing check; call again once its creator has repaired it",
    }
    NO_CHAIN = "call.no_chain", Error, "Toolcrib settings" {
        "no node is known for the chain of the tool or payment",
        "A tool is verified against its registry, and an unclear payment is looked up on its chain. Both need a node of that chain.",
        "name a node of that chain in the settings",
    }
    NO_WALLET = "call.no_wallet", Error, "Invocation guide, Tool Invocation Flow" {
        "the tool asks for a signature, and there is no wallet",
        "Gated and paid tools want an EIP-3009 signature. Without a wallet only open tools can be called.",
        "name a wallet in the settings, or call an open tool",
    }
    INPUT = "call.input", Error, "ERC-8257 §2 inputs" {
        "the input does not fit the tool's schema",
        "The manifest says what the tool takes. An input that breaks its schema would be refused by the tool, after it was paid where the tool is careless.",
        "correct the input as the violations say",
    }
    INPUT_TOO_LARGE = "call.input_too_large", Error, "Toolcrib limits" {
        "the input is too large to be sent",
        "Inputs are at most 1 MiB of JSON, which is what schema validators and tools take.",
        "send less, or a reference to where the rest is",
    }
    INPUT_NOT_A_QUERY = "call.input_not_a_query", Error, "Invocation guide, GET tools" {
        "the input cannot be sent as a query",
        "A tool that is called with GET takes its input as query parameters: strings, numbers and booleans at the top level. There is no agreed spelling for lists, objects and null.",
        "leave these members out, or call the tool with POST",
    }
    SCHEMA_UNUSABLE = "call.schema_unusable", Error, "ERC-8257 §2; Manifest Parser Hardening" {
        "a schema of the manifest cannot be applied",
        "Inputs and outputs are checked against the manifest. A schema that cannot be compiled safely lets nothing be checked: an input that the tool will refuse is sent, and an output is taken as it comes. That needs consent.",
        "tell the creator (`toolcrib lint` names the fault), or call with --allow-unchecked",
    }
    FIXED_VALUES = "call.fixed_values", Error, "ERC-8257 Schema default and const Injection" {
        "the tool's schema fixes values that nobody has acknowledged",
        "A const in the schema makes every caller send a value that the creator has chosen, such as an address or a flag. It has to be seen and acknowledged by whoever calls.",
        "look at the values, then acknowledge them with --ack-const",
    }
    PRICING_UNKNOWN = "call.pricing_unknown", Error, "ERC-8257 §3 Pricing" {
        "the tool has a price that this client cannot pay",
        "The manifest prices calls by protocols or in tokens that are not supported here: transfers that have to be sent first, native coins, or tokens outside the pinned table. The price is unknown, which is not the same as free.",
        "pay by one of the named protocols with another client, or ask the creator for an x402 entry in USDC",
    }
    REDIRECTED = "call.redirected", Error, "Toolcrib egress policy" {
        "the tool answers with a redirect, which is not followed",
        "The manifest vouches for the endpoint that it names and for no other, and a payment must not travel on to whoever a server points at.",
        "tell the creator to serve at the endpoint itself",
    }
    REFUSED = "call.refused", Error, "Invocation guide, Tool Invocation Flow" {
        "the tool refuses the call",
        "The status is neither a result nor a challenge. Where a payment was sent, it is named, and counts as spent until the chain shows that it was not.",
        "read the server's code and message; correct the input or try later",
    }
    CHALLENGE = "call.challenge", Error, "x402 v1 §5; x402 v2 §5" {
        "the challenge is flawed, so nothing is signed for it",
        "A signature is given only for a challenge that can be read in one way. The findings say what is wrong with this one.",
        "tell the creator what the findings say; `toolcrib probe` shows the same",
    }
    NO_PAYABLE_OFFER = "call.no_payable_offer", Error, "x402 exact scheme on EVM; Toolcrib" {
        "none of the offers can be paid by this client",
        "This client pays by the scheme exact with EIP-3009 authorizations in USDC of the pinned table, on EVM chains, to somebody's account, and for a time that is not absurd.",
        "ask the server for an offer of that kind",
    }
    TERMS_DIFFER = "call.terms_differ", Error, "ERC-8257 Pricing Staleness and Payment Safety" {
        "the endpoint asks for something else than the manifest states",
        "A different amount, lower ones too, another token, network or recipient is a change of the price. It is signed only by explicit consent to exactly the new terms.",
        "compare the terms, then call again with consent to exactly those terms, or do not call",
    }
    FREE_ASKS_MONEY = "call.free_asks_money", Error, "ERC-8257 §3 Pricing" {
        "a tool that is free by its manifest asks for money",
        "A manifest without prices, or with the price 0, says that calls are free. An endpoint that asks for money is misconfigured or dishonest.",
        "call again with consent to exactly those terms only if you know why",
    }
    OPERATOR_UNKNOWN = "call.operator_unknown", Error, "Invocation guide, Cross-tool replay" {
        "the endpoint asks for a proof of identity made out to a stranger",
        "A signature over nothing proves who calls to the account that it names. A server that relays another operator's challenge could act as the caller there, so only the creator, a recipient of the price 0, or an operator pinned for this tool is signed for.",
        "if the creator names that account as the tool's operator, pin it for this tool and call again",
    }
    NOT_CONSENTED = "call.not_consented", Error, "Toolcrib spend policy" {
        "the URL asks for more than was allowed",
        "An endpoint without a manifest is paid only up to the amount and to the recipients that the caller names, or under terms that he agrees to exactly.",
        "name the amount and the recipient if you want to pay them",
    }
    OTHER_NETWORK = "call.other_network", Error, "Toolcrib spend policy" {
        "the payment is asked for on another network",
        "A network that the caller names limits what is signed, and a tool on a test network is not paid with real money, nor the other way round: a server that answers with another network could make a test cost money.",
        "name the network that is asked for, or agree to exactly these terms",
    }
    MIXED_NETWORKS = "call.mixed_networks", Error, "Toolcrib spend policy" {
        "the endpoint takes test money and real money",
        "Which of the two is paid must not depend on the order of the server's list.",
        "name the network to pay on",
    }
    NOT_APPROVED = "call.not_approved", Error, "Toolcrib spend policy" {
        "the call was not approved",
        "The amount is above what is paid without asking, and the answer was no, or there was no terminal to ask at. Without a terminal nothing is paid unless the user's settings have limits of their own.",
        "answer at a terminal, agree beforehand with --yes or --max-price, or set spend.ask_above in the user's settings",
    }
    IDENTITY_NOT_APPROVED = "call.identity_not_approved", Error, "Toolcrib spend policy" {
        "the proof of identity was not approved",
        "The tool lets callers in by account, which a signature over a payment of nothing proves. It moves no money, but it shows the recipient which account calls. The answer was no, or there was no terminal to ask at.",
        "answer at a terminal, agree beforehand with --yes, or set spend.ask_identity = false in the user's settings",
    }
    ABOVE_MAX_PRICE = "call.above_max_price", Error, "Toolcrib spend policy" {
        "the price is above the highest that was named for this call",
        "The call was made with a highest price, and the tool costs more.",
        "name a higher price, or do not call",
    }
    FUNDS = "call.funds", Error, "x402 exact scheme on EVM" {
        "the wallet does not hold what the tool costs",
        "A payment that cannot settle is refused by the tool. None of the offers that could be paid is covered by the balance of the wallet.",
        "put the token into the wallet on one of the named chains",
    }
    CHANGED_MEANWHILE = "call.changed_meanwhile", Error, "ERC-8257 Pricing Staleness and Payment Safety" {
        "the manifest changed while the payment was being approved",
        "Approval took a while, so the tool was verified again, and it is no longer what was approved. Nothing was signed.",
        "call again and look at the new terms",
    }
    PAYMENT_REFUSED = "call.payment_refused", Error, "Invocation guide, Tool Invocation Flow" {
        "the tool does not accept the payment",
        "The answer to the paid request asks for payment again. There is never a second signature for one call. The first one can still be used by whoever has it until it expires, so it counts as spent until the chain shows that it was not.",
        "read the server's code; run `toolcrib payments resolve` once the payment has expired",
    }
    INDETERMINATE = "call.indeterminate", Error, "Toolcrib spend ledger" {
        "the payment was sent, and what came of it is unknown",
        "No clear answer came back after the payment had left. It may have settled. It is recorded, counts as spent, and must not be made again blindly.",
        "run `toolcrib payments resume` to collect the result with the same payment, or `toolcrib payments resolve` to ask the chain",
    }
    DENIED = "call.denied", Error, "Invocation guide, Access Control" {
        "the wallet may not use this tool",
        "The tool is gated by a predicate, and the caller does not meet it. What is missing is listed as far as it can be read from the chain.",
        "get what the requirements ask for, or use another wallet",
    }
    OUTPUT = "call.output", Error, "ERC-8257 §2 outputs" {
        "the output does not fit the tool's schema",
        "The manifest promises a shape, and the answer has another. It is not handed on as a result, since whoever reads it relies on that shape.",
        "look at the violations; a paid call is recorded in the ledger, so take it up with the creator",
    }
    OUTPUT_NOT_JSON = "call.output_not_json", Error, "ERC-8257 §2 outputs" {
        "the output is not JSON",
        "Tools answer in JSON. The answer has a good status and cannot be read.",
        "tell the creator; a paid call is recorded in the ledger",
    }
    NO_RECEIPT = "call.no_receipt", Warning, "x402 v1 HTTP transport; x402 v2 HTTP transport" {
        "the tool served a paid call without a receipt",
        "The result came, and the server does not say how the payment settled. It counts as spent; the chain knows more.",
        "run `toolcrib payments resolve` to ask the chain",
    }
    RECEIPT = "call.receipt", Warning, "x402 v1 §5.3; x402 v2 §5.3" {
        "the receipt does not speak of this payment",
        "A receipt is what the server says, and this one names another network, payer, amount or no transaction. The payment counts as spent; the chain knows more.",
        "run `toolcrib payments resolve` to ask the chain",
    }
    RECEIPT_UNCONFIRMED = "call.receipt_unconfirmed", Warning, "x402 v1 §5.3; x402 v2 §5.3" {
        "the chain does not show the settlement that the receipt names",
        "The receipt names a transaction that the node does not have, or the node did not answer in time. The transaction may be mined later or may not exist. The payment stays open and counts as spent.",
        "run `toolcrib payments resolve` in a minute to ask the chain again",
    }
    RECEIPT_CONTRADICTED = "call.receipt_contradicted", Warning, "x402 v1 §5.3; x402 v2 §5.3" {
        "the transaction that the receipt names did not settle this payment",
        "The transaction is on the chain, and it failed or moved something else than this payment. The receipt is wrong. The payment stays open and counts as spent until the chain shows what became of it.",
        "run `toolcrib payments resolve` to ask the chain, and tell the creator of the tool",
    }
    NOT_RECORDED = "call.not_recorded", Warning, "Toolcrib spend ledger" {
        "the outcome of the payment could not be written into the ledger",
        "The payment was made, and the answer arrived. The ledger still counts the payment as signed, so that the budget is right, but does not know more of it.",
        "repair the ledger, then run `toolcrib payments resolve` to ask the chain",
    }
    PAID_NOT_SERVED = "call.paid_not_served", Error, "x402 v1 §5.3; Toolcrib spend ledger" {
        "the payment settled, and the tool gave no result",
        "The server took the payment and then failed. The payment, and what redeems its result, is in the ledger. A new call would pay again.",
        "run `toolcrib payments resume` once the tool works again; nothing is paid twice",
    }
    SERVED_UNPAID = "call.served_unpaid", Hint, "ERC-8257 §3 Pricing" {
        "the tool served without asking for its price",
        "The manifest states a price, and the endpoint did not ask for it. Nothing was paid.",
        "nothing; tell the creator if you like",
    }
    NOT_RESUMABLE = "call.not_resumable", Error, "Toolcrib spend ledger" {
        "the payment cannot be sent again",
        "Only a payment that was signed, is not released, and whose request is still in the ledger can be presented again. Requests are kept for as long as servers keep results.",
        "ask the chain with `toolcrib payments resolve`, or make a new call",
    }
    SETTING = "call.setting", Error, "Toolcrib settings" {
        "a setting of the call cannot be used",
        "A header that is to be sent, or the URL that the input makes, is not one.",
        "correct the setting that is named",
    }
    SIGN_IN_REFUSED = "call.sign_in_refused", Error, "x402 extension sign-in-with-x; EIP-4361" {
        "the server does not accept the signed message",
        "A message was signed for the server that was called, and it asks again. Nothing was paid, and the message is good for a few minutes at most.",
        "read the server's code and message; check the clock of this machine and the network of the account",
    }
}
