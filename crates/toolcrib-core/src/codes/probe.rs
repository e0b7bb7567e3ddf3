//! Codes of the live probe: how an endpoint responds to a call without payment, compared with its manifest.

super::codes! {
    NO_ANSWER = "probe.no_answer", Error, "Invocation guide, Tool Invocation Flow" {
        "the endpoint does not answer",
        "There was no HTTP response, so the price is unknown.",
        "check that the service runs and that its host name resolves, then probe again",
    }
    NOT_FOUND = "probe.not_found", Error, "Invocation guide, Tool Invocation Flow" {
        "the endpoint returns 404",
        "Callers send POST to the endpoint of the manifest. Causes of a 404 are a wrong path, a route for another method, or middleware that adds no route for a price of zero.",
        "serve the tool at the endpoint, or correct the endpoint in the manifest and register its new hash",
    }
    METHOD_NOT_ALLOWED = "probe.method_not_allowed", Error, "Invocation guide, Tool Invocation Flow" {
        "the endpoint does not accept POST",
        "The invocation flow starts with a plain POST, and a manifest cannot declare another method. Clients that support only POST cannot call the tool.",
        "accept POST with a JSON body at the endpoint",
    }
    REDIRECT = "probe.redirect", Error, "Toolcrib egress policy" {
        "the endpoint redirects",
        "Callers must not follow redirects: the manifest authorises only the endpoint that it names.",
        "respond at the endpoint itself, or write the final URL in the manifest",
    }
    SERVER_ERROR = "probe.server_error", Error, "Invocation guide, Tool Invocation Flow" {
        "the endpoint returns a server error",
        "A call without payment is the first step of every invocation, and must not cause a server error.",
        "check the server's log; respond with 402 before any other work",
    }
    REFUSED = "probe.refused", Warning, "Invocation guide, Tool Invocation Flow" {
        "the endpoint refuses the call before sending a 402 challenge",
        "A caller learns from the 402 challenge what to sign. If the input is validated first, a call without valid input, such as this probe, never gets the challenge.",
        "respond with 402 to every call without payment, regardless of its body",
    }
    WRONG_CONTENT_TYPE = "probe.wrong_content_type", Warning, "Invocation guide, How It Works" {
        "the Content-Type of the response is not JSON",
        "Tools respond in JSON. Careful clients do not parse a response of another type.",
        "send Content-Type: application/json",
    }
    NO_CHALLENGE = "probe.no_challenge", Error, "Invocation guide, Tool Invocation Flow" {
        "the 402 response has no x402 challenge",
        "It has neither a PAYMENT-REQUIRED header nor a JSON body with `accepts`, so callers do not know what to sign.",
        "add the challenge to the response, in both x402 versions",
    }
    UNEXPECTED_SUCCESS = "probe.unexpected_success", Error, "ERC-8257 §3 Pricing; Invocation guide, Access Control" {
        "the endpoint serves without payment or proof of identity",
        "The manifest states a price or an access rule, but the endpoint does not enforce it. Either the gate is not active or the manifest is wrong.",
        "put the gate in front of the handler, or remove the price or access rule from the manifest",
    }
    NEEDLESS_CHALLENGE = "probe.needless_challenge", Warning, "ERC-8257 §3 Pricing; Invocation guide, Access Control" {
        "an open and free tool asks for a signature",
        "The manifest states neither a price nor an access rule, so callers expect a result without signing, and many cannot sign.",
        "remove the challenge, or state the price or access rule in the manifest",
    }
    ASKS_MORE = "probe.asks_more", Error, "ERC-8257 §3 Pricing; Pricing Staleness and Payment Safety" {
        "the endpoint asks for a payment that the manifest does not state",
        "A manifest without pricing, or with a price of zero, declares that calls are free. Careful clients refuse to pay.",
        "state the price in the manifest and register its new hash, or stop charging",
    }
    PRICE_DIFFERS = "probe.price_differs", Error, "ERC-8257 Pricing Staleness and Payment Safety" {
        "the amount differs from the manifest",
        "Callers compare both before they sign, and any difference, even a lower price, needs the user's consent.",
        "use the same amount in the gate and the manifest; register the new hash of a changed manifest",
    }
    ASSET_DIFFERS = "probe.asset_differs", Error, "ERC-8257 Pricing Staleness and Payment Safety" {
        "the asset differs from the manifest",
        "The same amount of another token is another price. Callers refuse to sign.",
        "use the same asset in the gate and the manifest; check the token's address on this network",
    }
    NETWORK_DIFFERS = "probe.network_differs", Error, "ERC-8257 Pricing Staleness and Payment Safety" {
        "the network differs from the manifest",
        "Callers hold funds on the network that the manifest names. Often a testnet setting was left in the gate.",
        "use the same network in the gate and the manifest",
    }
    PAY_TO_DIFFERS = "probe.pay_to_differs", Error, "ERC-8257 Pricing Staleness and Payment Safety" {
        "payTo differs from the recipient in the manifest",
        "The payment would go to another account than the recipient that the creator published. Careful clients refuse to pay, and the creator sees no error.",
        "set the gate's payTo to the manifest's recipient, or publish the new recipient and register the new hash",
    }
    NOT_OFFERED = "probe.not_offered", Error, "ERC-8257 §3 Pricing" {
        "the endpoint does not offer a price entry of the manifest",
        "Callers choose the first entry that they support. If the endpoint does not accept it, they cannot pay.",
        "add the offer to the gate, or remove the entry from the manifest",
    }
    EXTRA_OFFER = "probe.extra_offer", Warning, "ERC-8257 §3 Pricing" {
        "the endpoint has an offer that the manifest does not state",
        "Careful clients ignore offers that have no entry in the manifest.",
        "add an entry to pricing, or remove the offer from the gate",
    }
    OPERATOR_UNSTATED = "probe.operator_unstated", Warning, "Invocation guide, Tool Invocation Flow" {
        "the manifest does not name the operator account (payTo)",
        "A free tool's challenge binds the caller's signature to payTo. This account is neither the creator nor a recipient in the manifest, so callers cannot know whether the signature could be misused at another operator's tool.",
        "use the creator's address as payTo, or add an entry with amount \"0\" and this recipient to pricing",
    }
}
