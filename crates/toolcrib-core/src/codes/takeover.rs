//! Codes of signs that an origin or a registration may have come into other hands.

super::codes! {
    CERTIFICATE_YOUNGER = "takeover.certificate_younger", Hint, "ERC-8257 Origin-Binding Limitations" {
        "the certificate is younger than the registration",
        "Whoever takes over a domain gets a new certificate. Certificates are renewed every few weeks or months anyway, so this alone proves nothing; it weighs more when the issuer or the names changed too, and is then a warning.",
        "compare with earlier evidence of this tool, or look the host up in a certificate transparency log",
    }
    CERTIFICATE_CHANGED = "takeover.certificate_changed", Warning, "ERC-8257 Origin-Binding Limitations" {
        "the certificate has another issuer or other names than before",
        "A plain renewal keeps both. A change means that the site moved to another host or service, or to another owner. Hosting services that put many customers into one certificate change its names often.",
        "ask the tool's creator whether the site moved; look the host up in a certificate transparency log",
    }
    NAME_SERVERS_CHANGED = "takeover.name_servers_changed", Warning, "ERC-8257 Origin-Binding Limitations" {
        "the name servers of the domain changed",
        "Whoever controls the name servers controls the origin. They change when a domain is moved, sold, or registered anew after it expired.",
        "look up when the domain was last registered, and ask the tool's creator before you trust it again",
    }
    ADDRESSES_CHANGED = "takeover.addresses_changed", Hint, "Toolcrib" {
        "the host has none of the addresses it had before",
        "Networks that deliver content rotate addresses, so this alone proves nothing. A name that points at an address somebody gave up can be taken by the next who gets it.",
        "weigh it together with the certificate and the name servers",
    }
    ORIGIN_CHANGED = "takeover.origin_changed", Warning, "ERC-8257 Origin-Binding Limitations" {
        "the tool moved to another origin",
        "The creator's key pointed the registration at another host or port. What was known about the old origin says nothing about the new one.",
        "verify the tool again and decide about the new host",
    }
    UPDATE_AFTER_QUIET = "takeover.update_after_quiet", Warning, "ERC-8257 Origin-Binding Limitations" {
        "the registration was changed after a long quiet time",
        "A key or a domain that nobody watches is what a thief looks for. A change after months of silence may be the creator's, or not.",
        "verify the tool again, compare the old and the new manifest, and ask the creator",
    }
}
