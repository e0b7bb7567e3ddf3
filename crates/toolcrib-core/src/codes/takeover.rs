//! Codes of signs that an origin or a registration may have been taken over.

super::codes! {
    CERTIFICATE_YOUNGER = "takeover.certificate_younger", Hint, "ERC-8257 Origin-Binding Limitations" {
        "the certificate is younger than the registration",
        "A new owner of a domain gets a new certificate. Certificates are also renewed every few weeks or months, so this alone proves nothing. If the issuer or the names changed too, the severity is warning.",
        "compare with earlier evidence of this tool, or look the host up in a certificate transparency log",
    }
    CERTIFICATE_CHANGED = "takeover.certificate_changed", Warning, "ERC-8257 Origin-Binding Limitations" {
        "the issuer or the names of the certificate changed",
        "A renewal keeps both. A change means that the site moved to another host, hosting service or owner. Hosting services with one certificate for many customers change its names often.",
        "ask the tool's creator whether the site moved; look the host up in a certificate transparency log",
    }
    NAME_SERVERS_CHANGED = "takeover.name_servers_changed", Warning, "ERC-8257 Origin-Binding Limitations" {
        "the name servers of the domain changed",
        "Control of the name servers is control of the origin. They change when a domain is transferred, sold, or registered again after it expired.",
        "check the registration date of the domain (RDAP, whois), and ask the tool's creator before you trust it again",
    }
    ADDRESSES_CHANGED = "takeover.addresses_changed", Hint, "Toolcrib" {
        "all IP addresses of the host changed",
        "Content delivery networks rotate addresses, so this alone proves nothing. If a DNS record points to an address that its owner gave up, the next holder of the address controls the host.",
        "consider it together with the certificate and the name servers",
    }
    ORIGIN_CHANGED = "takeover.origin_changed", Warning, "ERC-8257 Origin-Binding Limitations" {
        "the tool moved to another origin",
        "The creator changed the registration to another host or port. Earlier evidence about the old origin does not apply to the new one.",
        "verify the tool again, and decide whether you trust the new host",
    }
    UPDATE_AFTER_QUIET = "takeover.update_after_quiet", Warning, "ERC-8257 Origin-Binding Limitations" {
        "the registration changed after a long period without changes",
        "Attackers look for keys and domains that are no longer monitored. A change after months without activity may or may not come from the creator.",
        "verify the tool again, compare the old and the new manifest, and ask the creator",
    }
}
