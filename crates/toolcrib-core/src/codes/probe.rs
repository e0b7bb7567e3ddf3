//! Codes of the live probe: what an endpoint answers when it is called without payment, beside what its manifest says.

super::codes! {
    NO_ANSWER = "probe.no_answer", Error, "Invocation guide, Tool Invocation Flow" {
        "the endpoint does not answer",
        "No HTTP answer came back, so nothing can be said about prices.",
        "check that the service runs and that its name resolves; then probe again",
    }
    NOT_FOUND = "probe.not_found", Error, "Invocation guide, Tool Invocation Flow" {
        "there is nothing at the endpoint",
        "Callers send POST to the endpoint of the manifest. A 404 there is a wrong path, a route for another method, or a route that a price of zero left out.",
        "serve the tool at the endpoint, or correct the endpoint in the manifest and register its new hash",
    }
    METHOD_NOT_ALLOWED = "probe.method_not_allowed", Error, "Invocation guide, Tool Invocation Flow" {
        "the endpoint does not take POST",
        "The invocation flow starts with a plain POST, and a manifest cannot say otherwise. Clients that know only POST cannot call the tool.",
        "accept POST with a JSON body at the endpoint",
    }
    REDIRECT = "probe.redirect", Error, "Toolcrib egress policy" {
        "the endpoint redirects",
        "Callers must not follow: the manifest vouches for the endpoint that it names and for no other.",
        "answer at the endpoint itself, or name the final URL in the manifest",
    }
    SERVER_ERROR = "probe.server_error", Error, "Invocation guide, Tool Invocation Flow" {
        "the endpoint fails",
        "A call without payment is the first step of every invocation and must not be a failure of the server.",
        "look at the server's log; answer 402 before any other work",
    }
    REFUSED = "probe.refused", Warning, "Invocation guide, Tool Invocation Flow" {
        "the endpoint refuses the call before it says what it wants",
        "A caller learns what to sign from the 402. When input is checked first, a call without the right input never gets that far, and neither does this probe.",
        "answer 402 to every call without payment, whatever its body",
    }
    WRONG_CONTENT_TYPE = "probe.wrong_content_type", Warning, "Invocation guide, How It Works" {
        "the answer is not declared as JSON",
        "Tools answer in JSON. Careful clients do not parse what claims to be something else.",
        "send Content-Type: application/json",
    }
    NO_CHALLENGE = "probe.no_challenge", Error, "Invocation guide, Tool Invocation Flow" {
        "the endpoint asks for payment or proof without saying which",
        "The answer holds no x402 challenge: neither a PAYMENT-REQUIRED header nor a JSON body with accepts. Callers do not know what to sign.",
        "add the challenge to the answer, in both versions",
    }
    UNEXPECTED_SUCCESS = "probe.unexpected_success", Error, "ERC-8257 §3 Pricing; Invocation guide, Access Control" {
        "the endpoint serves without payment or proof",
        "The manifest states a price or an access rule, and the endpoint does not enforce it. Either the gate is open by mistake or the manifest is wrong.",
        "put the gate in front of the handler, or remove the price or access rule from the manifest",
    }
    NEEDLESS_CHALLENGE = "probe.needless_challenge", Warning, "ERC-8257 §3 Pricing; Invocation guide, Access Control" {
        "an open tool without a price asks for a signature",
        "The manifest states neither price nor access rule, so callers expect to be served at once and many cannot sign.",
        "drop the challenge, or state the price or access rule in the manifest",
    }
    ASKS_MORE = "probe.asks_more", Error, "ERC-8257 §3 Pricing; Pricing Staleness and Payment Safety" {
        "the endpoint asks for money where the manifest states none",
        "A manifest without pricing, or with a price of zero, tells callers that calls are free. Careful clients refuse to pay.",
        "state the price in the manifest and register its new hash, or stop asking",
    }
    PRICE_DIFFERS = "probe.price_differs", Error, "ERC-8257 Pricing Staleness and Payment Safety" {
        "the endpoint asks for another amount than the manifest",
        "Callers compare both before they sign, and every difference needs a person's consent, a lower price too.",
        "make the gate and the manifest agree; a changed manifest needs its new hash registered",
    }
    ASSET_DIFFERS = "probe.asset_differs", Error, "ERC-8257 Pricing Staleness and Payment Safety" {
        "the endpoint asks for another asset than the manifest",
        "The same number of another token is another price. Callers refuse to sign.",
        "make the gate and the manifest agree; check the token's address on this network",
    }
    NETWORK_DIFFERS = "probe.network_differs", Error, "ERC-8257 Pricing Staleness and Payment Safety" {
        "the endpoint asks for payment on another network than the manifest",
        "Callers hold funds on the network that the manifest names. A testnet setting left in the gate looks like this.",
        "make the gate and the manifest agree",
    }
    PAY_TO_DIFFERS = "probe.pay_to_differs", Error, "ERC-8257 Pricing Staleness and Payment Safety" {
        "the endpoint names another payee than the manifest",
        "Whoever controls the endpoint would be paid instead of the recipient that the creator published. Careful clients refuse, and the creator sees no error.",
        "set the gate's payTo to the manifest's recipient, or publish the new recipient and register the new hash",
    }
    NOT_OFFERED = "probe.not_offered", Error, "ERC-8257 §3 Pricing" {
        "the endpoint does not offer a price of the manifest",
        "Callers take the first entry that they support. If the endpoint does not accept it they cannot pay.",
        "add the offer to the gate, or remove the entry from the manifest",
    }
    EXTRA_OFFER = "probe.extra_offer", Warning, "ERC-8257 §3 Pricing" {
        "the endpoint offers a way to pay that the manifest does not state",
        "Careful clients ignore offers without an entry of the manifest behind them.",
        "add an entry to pricing, or remove the offer from the gate",
    }
    OPERATOR_UNSTATED = "probe.operator_unstated", Warning, "Invocation guide, Tool Invocation Flow" {
        "the manifest does not name the account that callers identify themselves to",
        "A free tool's challenge binds the caller's signature to payTo. It is not the creator and no recipient in the manifest, so callers cannot tell whether the signature would be of use at somebody else's tool.",
        "use the creator's address as payTo, or add an entry with amount \"0\" and this recipient to pricing",
    }
}
