//! Codes of access predicates: what was learnt about one, or why nothing was.

super::codes! {
    DENIED = "predicate.denied", Error, "ERC-8257 IToolRegistry" {
        "the account does not qualify",
        "The predicate answered, and the answer is no.",
        "read the requirements, meet them, and ask again",
    }
    MALFUNCTION = "predicate.malfunction", Error, "ERC-8257 IToolRegistry" {
        "the predicate does not work",
        "It reverted, ran out of gas, or gave an answer that is not a boolean. That is neither a yes nor a no; the fault lies with the tool, not with the account.",
        "tell the tool's creator; access stays closed until the predicate is replaced",
    }
    NO_CODE = "predicate.no_code", Warning, "ERC-8257 Zero-Code Access Predicates" {
        "the predicate is not deployed yet",
        "There is no code at its address. Nobody has access until there is, and nobody can tell what the code will ask for.",
        "wait for the deployment; creators deploy first and register afterwards",
    }
    NOT_ADVERTISED = "predicate.not_advertised", Warning, "ERC-8257 Predicate Validation at Registration" {
        "the contract does not say that it is a predicate",
        "It does not speak ERC-165. Registries share a function selector with predicates, so a wrong address cannot be told from a right one.",
        "choose a predicate that answers true for interface 0xbdf9dc18",
    }
    NOT_A_PREDICATE = "predicate.not_a_predicate", Error, "ERC-8257 Predicate Validation at Registration" {
        "the contract says that it is something else",
        "It speaks ERC-165 and denies being an access predicate. Registries refuse such an address.",
        "check the address",
    }
    PROXY = "predicate.is_proxy", Warning, "ERC-8257 Predicate Upgradeability" {
        "the predicate is a proxy",
        "Whoever controls it can change the rules of access at any time.",
        "treat its requirements as those of today, and watch for upgrades",
    }
    CODE_CHANGED = "predicate.code_changed", Warning, "ERC-8257 Predicate Upgradeability; Zero-Code Access Predicates" {
        "the code of the predicate is not the one of before",
        "The address is the same and other rules may apply. Code changes when it is deployed late, destroyed and deployed again, or delegated.",
        "look at the requirements again, and trust nothing that was known about the old code",
    }
    UPGRADED = "predicate.upgraded", Warning, "ERC-8257 Predicate Upgradeability" {
        "the predicate was upgraded",
        "It is a proxy, and whoever controls it put another implementation behind it.",
        "look at the requirements again, and trust nothing that was known about the old code",
    }
    COLLECTION_NO_CODE = "predicate.collection_no_code", Warning, "ERC-8257 Marker Interfaces" {
        "a collection that the predicate asks for is not on this chain",
        "There is no contract at its address here. A predicate reads only its own chain, so nobody can meet the requirement; the collection is probably on another one.",
        "creators register the tool on the chain of the collection, or use a predicate that knows about it in another way",
    }
    INTROSPECTION_FAILED = "predicate.introspection_failed", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "the predicate does not tell its requirements",
        "getRequirements reverted, ran out of gas, or returned bytes that do not decode. Access is decided by tryHasAccess alone and may still be granted.",
        "ask the tool's creator what is required",
    }
    INTROSPECTION_OVER_LIMIT = "predicate.introspection_over_limit", Warning, "ERC-8257 Predicate Introspection Hardening" {
        "the predicate's list of requirements is too large",
        "Readers stop at 256 entries, 4,096 bytes of data and 256 bytes of label for each. This is no denial; access is decided by tryHasAccess alone.",
        "ask the tool's creator what is required",
    }
    INCOMPLETE = "predicate.incomplete", Warning, "ERC-8257 getRequirements Is Advisory" {
        "the list of requirements is incomplete",
        "A composite could not read one of its parts and says so with an entry of kind 0x00000000. Meeting the others may not be enough.",
        "confirm with tryHasAccess before relying on the list",
    }
    UNDECODABLE = "predicate.undecodable", Warning, "ERC-8257 Marker Interfaces" {
        "a requirement's data does not have the layout of its kind",
        "The kind is known but its bytes are of another length or have stray bits, so they are shown raw.",
        "ask the tool's creator what is required",
    }
    NAME_MISSING = "predicate.name_missing", Warning, "ERC-8257 IAccessPredicate" {
        "the predicate has no usable name",
        "name() is mandatory, not empty, and read up to 256 bytes. A longer name counts as none.",
        "prefer predicates that name themselves",
    }
}
