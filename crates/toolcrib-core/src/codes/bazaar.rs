//! Codes of Bazaar catalogues: what x402 facilitators list at `/discovery/resources`, and walking through it.

super::codes! {
    PAGE = "bazaar.page", Error, "x402 v2 §8 Discovery" {
        "the answer is not a page of a catalogue",
        "A page is a JSON object with a list `items`. Error pages, HTML and other documents tell nothing about what is listed, so what was known before stays.",
        "check the facilitator's URL: the list is at <URL>/discovery/resources",
    }
    STATUS = "bazaar.status", Error, "x402 v2 §8 Discovery" {
        "the facilitator refuses to list its resources",
        "Only status 200 carries a page. The walk ends, and the next one begins after a pause that grows, or when `Retry-After` says.",
        "check that this facilitator supports discovery; many do not",
    }
    REPEATS = "bazaar.repeats", Warning, "x402 v2 §8 Discovery" {
        "a page of a catalogue repeats what was read before",
        "A server that ignores `offset` gives the same page for ever. The walk ends there and does not count as complete, so nothing is unlisted because of it.",
        "tell the facilitator's operator that `offset` is ignored",
    }
    TOTAL = "bazaar.total", Warning, "x402 v2 §8 Discovery" {
        "a catalogue ends before the total that it states",
        "Resources may have been left out, so nothing is unlisted because this walk did not meet it.",
        "nothing is lost: a resource that is not seen for a week is unlisted all the same",
    }
    TOO_MANY = "bazaar.too_many", Warning, "Toolcrib limits" {
        "a catalogue is larger than is read",
        "One facilitator may fill neither the database nor the time of everybody else. What is beyond the limit is not listed.",
        "ask for a larger limit with the size of the catalogue",
    }
    ITEM = "bazaar.item", Warning, "x402 v2 §8 Discovery" {
        "an item of a catalogue is not a strict JSON object",
        "Duplicate keys, lone surrogates and deep nesting read differently in different programs. The item is skipped, the others are read.",
        "tell the facilitator's operator which item it is",
    }
    ITEM_TOO_LARGE = "bazaar.item_too_large", Warning, "Toolcrib limits" {
        "an item of a catalogue is too large",
        "A resource with its offers and schemas takes a few kilobytes. The item is skipped, the others are read.",
        "shorten the schemas that the resource declares",
    }
    ITEM_URL = "bazaar.item_url", Warning, "x402 v2 §8 Discovery" {
        "an item of a catalogue has no URL that can be called",
        "Resources are called over https at a public host. What is neither is skipped.",
        "serve the resource over https under a public name",
    }
    ITEM_TYPE = "bazaar.item_type", Warning, "x402 v2 Bazaar extension" {
        "an item of a catalogue is of an unknown type",
        "Types are `http`, and `mcp` with the name of a tool. What is something else is skipped, since no client here can call it.",
        "declare the type of the resource",
    }
    ITEM_OFFERS = "bazaar.item_offers", Warning, "x402 v2 §5.1" {
        "an item of a catalogue has no payment offer that can be read",
        "The offers say what a call costs. Without one there is nothing to compare with what the resource itself asks for.",
        "list at least one complete offer on a known network",
    }
    METHOD = "bazaar.method", Hint, "Toolcrib" {
        "the resource is not probed, because its method may change something",
        "A catalogue is written by others: requests that it names are limited to GET and to POST without arguments.",
        "call the resource yourself to learn its price",
    }
    MCP = "bazaar.mcp", Hint, "Toolcrib" {
        "the resource is a tool of an MCP server and is not probed",
        "Its price is told inside an MCP session, not in answer to a plain request.",
        "connect with an MCP client to learn its price",
    }
}
