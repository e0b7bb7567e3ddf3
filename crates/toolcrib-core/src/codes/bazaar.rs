//! Codes of Bazaar catalogues: the `/discovery/resources` lists of x402 facilitators, and their pagination.

super::codes! {
    PAGE = "bazaar.page", Error, "x402 v2 §8 Discovery" {
        "the response is not a catalogue page",
        "A page is a JSON object with a list `items`. Error pages, HTML and other documents contain no listing, so the known listings are kept.",
        "check the facilitator's URL: the list is at <URL>/discovery/resources",
    }
    STATUS = "bazaar.status", Error, "x402 v2 §8 Discovery" {
        "the facilitator refuses to list its resources",
        "Only status 200 has a page. The crawl ends, and the next one starts after an increasing delay, or at the time in `Retry-After`.",
        "check that this facilitator supports discovery; many do not",
    }
    REPEATS = "bazaar.repeats", Warning, "x402 v2 §8 Discovery" {
        "a catalogue page repeats an earlier page",
        "A server that ignores `offset` returns the same page for ever. The crawl stops and counts as incomplete, so no resource is unlisted because of it.",
        "tell the facilitator's operator that `offset` is ignored",
    }
    TOTAL = "bazaar.total", Warning, "x402 v2 §8 Discovery" {
        "a catalogue ends before its stated total",
        "Resources may be missing from it, so none is unlisted because of this crawl.",
        "nothing to do: a resource that has not been seen for a week is unlisted anyway",
    }
    TOO_MANY = "bazaar.too_many", Warning, "Toolcrib limits" {
        "a catalogue is too large",
        "The number of resources per facilitator is limited, so that one facilitator cannot fill the database or delay the others. Resources beyond the limit are not listed.",
        "ask the operator of the index for a larger limit",
    }
    ITEM = "bazaar.item", Warning, "x402 v2 §8 Discovery" {
        "an item of a catalogue is not a strict JSON object",
        "Different programs read duplicate keys, lone surrogates and deep nesting differently. The item is skipped; the others are read.",
        "tell the facilitator's operator which item it is",
    }
    ITEM_TOO_LARGE = "bazaar.item_too_large", Warning, "Toolcrib limits" {
        "an item of a catalogue is too large",
        "A resource with its offers and schemas takes a few kilobytes. The item is skipped; the others are read.",
        "shorten the schemas that the resource declares",
    }
    ITEM_URL = "bazaar.item_url", Warning, "x402 v2 §8 Discovery" {
        "an item of a catalogue has no usable URL",
        "A resource is called over https at a public host. Items with another URL are skipped.",
        "serve the resource over https under a public name",
    }
    ITEM_TYPE = "bazaar.item_type", Warning, "x402 v2 Bazaar extension" {
        "an item of a catalogue is of an unknown type",
        "Known types are `http`, and `mcp` with the name of a tool. Other items are skipped, because no client here can call them.",
        "declare the type of the resource",
    }
    ITEM_OFFERS = "bazaar.item_offers", Warning, "x402 v2 §5.1" {
        "an item of a catalogue has no valid payment offer",
        "The offers state what a call costs. Without one there is nothing to compare with the 402 response of the resource.",
        "list at least one complete offer on a known network",
    }
    METHOD = "bazaar.method", Hint, "Toolcrib" {
        "the resource is not probed, because its method may have side effects",
        "A catalogue is untrusted input: probes are limited to GET and to POST without arguments.",
        "call the resource yourself to learn its price",
    }
    MCP = "bazaar.mcp", Hint, "Toolcrib" {
        "the resource is a tool of an MCP server and is not probed",
        "Its price is stated inside an MCP session, not in the response to a plain HTTP request.",
        "connect with an MCP client to learn its price",
    }
}
