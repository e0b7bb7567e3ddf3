//! Codes of fetching from strangers' servers: what is refused before a connection, and what can go wrong with one.
//!
//! Refusals before any connection (egress policy) fail check 2 of ERC-8257 §7, everything later fails check 1.

use super::Code;

super::codes! {
    PRIVATE_ADDRESS = "fetch.private_address", Error, check 2, "ERC-8257 Malicious Endpoints" {
        "the host leads to an address that is not on the public internet",
        "Loopback, private, link-local, translated and other special addresses lead into the reader's own network. No connection was made.",
        "serve the tool from a public address",
    }
    MIXED_ADDRESSES = "fetch.mixed_addresses", Error, check 2, "ERC-8257 Malicious Endpoints" {
        "the host has public and non-public addresses at once",
        "A name that answers with both can send its callers into their own network at will. One bad answer refuses the host; no connection was made.",
        "remove the non-public addresses from the DNS records of the host",
    }
    PORT_REFUSED = "fetch.port_refused", Error, check 2, "WHATWG Fetch, port blocking" {
        "the port belongs to another protocol",
        "Mail, name and file services listen on well-known ports, and browsers refuse to send web requests there for the same reason. No connection was made.",
        "serve the tool on port 443, or on a port that is not on the list of blocked ports",
    }
    LOCALHOST_REFUSED = "fetch.localhost_refused", Error, check 2, "RFC 6761 §6.3" {
        "localhost names are for the development world only",
        "A name below `localhost` means the reader's own machine. It is followed only for tools on chain 31337 while the development world runs.",
        "register a public host, or use the development chain",
    }
    NO_SUCH_HOST = "fetch.no_such_host", Error, check 1, "RFC 8020" {
        "the host does not exist",
        "The name servers answered that there is no such name. The domain may have expired, or the name is misspelt.",
        "correct the host, or restore its DNS records",
    }
    DNS_FAILED = "fetch.dns_failed", Error, check 1, "RFC 1035" {
        "the host could not be looked up",
        "No name server gave an answer in time. This may be your own network, so nothing is concluded about the tool.",
        "check the network connection and try again",
    }
    NO_ADDRESSES = "fetch.no_addresses", Error, check 1, "RFC 1035" {
        "the host has no addresses",
        "The name exists but has neither an IPv4 nor an IPv6 address.",
        "add an A or AAAA record for the host",
    }
    TOO_MANY_ADDRESSES = "fetch.too_many_addresses", Error, check 1, "Toolcrib limits" {
        "the host has more addresses than are looked at",
        "Every address must be checked before one is used. A list this long is no web server's.",
        "publish fewer addresses for the host",
    }
    CONNECT_REFUSED = "fetch.connect_refused", Error, check 1, "RFC 9293" {
        "the connection was refused",
        "The machine answered, but nothing listens on the port, or a firewall on the way said no.",
        "check that the server runs and listens on the port; try again from another network",
    }
    CONNECT_TIMEOUT = "fetch.connect_timeout", Error, check 1, "Toolcrib limits" {
        "no connection was made in time",
        "None of the addresses answered. The server may be down, or a network on the way drops the packets.",
        "check that the server runs; try again from another network",
    }
    UNREACHABLE = "fetch.unreachable", Error, check 1, "RFC 9293" {
        "the address cannot be reached",
        "There is no route to it from here. This may be your own network, so nothing is concluded about the tool.",
        "check the network connection and try again",
    }
    BUSY = "fetch.busy", Error, check 1, "Toolcrib limits" {
        "too many requests are under way",
        "Requests in all and to one host are limited, and no place became free in time. Nothing was sent.",
        "try again later, or ask for less at once",
    }
    HANDSHAKE_TIMEOUT = "fetch.handshake_timeout", Error, check 1, "Toolcrib limits" {
        "the server did not finish the TLS handshake in time",
        "The connection stood, but the server did not come to the end of the handshake.",
        "check the TLS settings and the load of the server",
    }
    NOT_TLS = "fetch.not_tls", Error, check 1, "RFC 8446" {
        "the server does not speak TLS on this port",
        "The bytes that came are not a TLS handshake. Often plain http is served on the port.",
        "serve https on the port, or correct the port",
    }
    TLS_PROTOCOL = "fetch.tls_protocol", Error, check 1, "RFC 8996" {
        "no version or cipher of TLS suits both sides",
        "TLS 1.2 and 1.3 with modern ciphers are spoken here. Older versions are broken.",
        "turn on TLS 1.3 or 1.2 on the server",
    }
    TLS_FAILED = "fetch.tls_failed", Error, check 1, "RFC 8446" {
        "the TLS connection failed",
        "The server broke the protocol, or ended the connection with an alert. The message has the reason.",
        "look into the log of the server",
    }
    ALPN_REFUSED = "fetch.alpn_refused", Error, check 1, "RFC 7301" {
        "the server does not offer HTTP/1.1",
        "HTTP/1.1 was asked for by name in the handshake, and the server refused it or chose another protocol.",
        "turn on HTTP/1.1 beside the newer versions",
    }
    CERTIFICATE_EXPIRED = "fetch.certificate_expired", Error, check 1, "RFC 5280 §4.1.2.5" {
        "the server's certificate has expired",
        "Its time is over, so it proves nothing any more. The clock of this machine was used to decide.",
        "renew the certificate",
    }
    CERTIFICATE_NOT_YET_VALID = "fetch.certificate_not_yet_valid", Error, check 1, "RFC 5280 §4.1.2.5" {
        "the server's certificate is not valid yet",
        "Its time has not begun. Either it was made for later, or a clock is wrong.",
        "check the clock of this machine, then the certificate",
    }
    CERTIFICATE_UNKNOWN_ISSUER = "fetch.certificate_unknown_issuer", Error, check 1, "RFC 5280 §6" {
        "the server's certificate was issued by nobody who is trusted",
        "It is self-signed, comes from a private authority, or the server forgets to send the certificate between its own and the root.",
        "use a certificate of a public authority and serve its whole chain",
    }
    CERTIFICATE_WRONG_HOST = "fetch.certificate_wrong_host", Error, check 1, "RFC 9525" {
        "the server's certificate is for another host",
        "None of the names in the certificate is the host that was asked for.",
        "issue a certificate that names the host",
    }
    CERTIFICATE_INVALID = "fetch.certificate_invalid", Error, check 1, "RFC 5280" {
        "the server's certificate cannot be used",
        "It is revoked, malformed, badly signed, or made for another purpose. The message has the reason.",
        "issue a new certificate",
    }
    CLOSED_EARLY = "fetch.closed_early", Error, check 1, "RFC 9112 §8" {
        "the server closed the connection without an answer",
        "The connection ended before the head of an answer was complete.",
        "look into the log of the server",
    }
    READ_TIMEOUT = "fetch.read_timeout", Error, check 1, "Toolcrib limits" {
        "the server stopped sending",
        "The connection stood, but no byte came for longer than is waited.",
        "check the load of the server",
    }
    TOTAL_TIMEOUT = "fetch.total_timeout", Error, check 1, "Toolcrib limits" {
        "the answer took too long as a whole",
        "Bytes kept coming, too slowly to reach the end in time.",
        "check the load of the server; serve manifests as static files",
    }
    NOT_HTTP = "fetch.not_http", Error, check 1, "RFC 9112" {
        "the answer is not HTTP/1.1",
        "What came over TLS does not begin as an HTTP/1.1 answer, or its head is malformed.",
        "check what listens on the port",
    }
    HEADERS_TOO_LARGE = "fetch.headers_too_large", Error, check 1, "Toolcrib limits" {
        "the head of the answer is too large",
        "Status line and headers are read up to a limit that no honest answer comes near.",
        "send fewer and shorter headers",
    }
    TOO_MANY_HEADERS = "fetch.too_many_headers", Error, check 1, "Toolcrib limits" {
        "the answer has too many headers",
        "Headers are counted up to a limit that no honest answer comes near.",
        "send fewer headers",
    }
    TOO_MANY_INTERIM = "fetch.too_many_interim", Error, check 1, "RFC 9110 §15.2" {
        "the server sends interim answers without end",
        "Answers with a status of 1xx announce another one. A few are skipped; a flood is not.",
        "send the final answer",
    }
    BAD_FRAMING = "fetch.bad_framing", Error, check 1, "RFC 9112 §6.3" {
        "it is not clear where the answer ends",
        "Its length is given twice, malformed, contradicted by its transfer encoding, or its chunks are malformed. Readers would disagree about the bytes.",
        "send one Content-Length, or chunks without one",
    }
    REDIRECT = "fetch.redirect", Error, check 1, "ERC-8257 §7" {
        "the server redirects",
        "A redirect is never followed, not even on the same host: the place that is named onchain must have the bytes.",
        "serve the file at the URL itself, or change the URL onchain",
    }
    NO_CONTENT = "fetch.no_content", Error, check 1, "ERC-8257 §7" {
        "the server says that there is nothing to read",
        "Status 204 has no body. Only status 200 is accepted.",
        "serve the file with status 200",
    }
    PARTIAL_CONTENT = "fetch.partial_content", Error, check 1, "ERC-8257 §7" {
        "the server sent a part only",
        "Status 206 was not asked for. Only status 200 is accepted.",
        "serve the whole file with status 200",
    }
    NOT_FOUND = "fetch.not_found", Error, check 1, "ERC-8257 §7" {
        "there is nothing at the URL",
        "The server answered that it has no such file. Only status 200 is accepted.",
        "deploy the file at the URL",
    }
    CLIENT_ERROR = "fetch.client_error", Error, check 1, "ERC-8257 §7" {
        "the server refuses the request",
        "A status of 4xx: the file may need a login, a payment, or other permission. A manifest must be readable by everybody.",
        "serve the file to everybody with status 200",
    }
    SERVER_ERROR = "fetch.server_error", Error, check 1, "ERC-8257 §7" {
        "the server has an error",
        "A status of 5xx: the server, or what stands behind it, does not work at the moment.",
        "look into the log of the server",
    }
    STATUS = "fetch.status", Error, check 1, "ERC-8257 §7" {
        "the status of the answer is not 200",
        "Only status 200 is accepted for files.",
        "serve the file with status 200",
    }
    ENCODING_REFUSED = "fetch.encoding_refused", Error, check 1, "RFC 9110 §8.4" {
        "the answer is compressed although this was not asked for",
        "Only the bytes themselves are accepted: a small compressed answer can become a huge one, and the hash is over the plain bytes.",
        "honour `Accept-Encoding: identity`",
    }
    LENGTH_TOO_LARGE = "fetch.length_too_large", Error, check 1, "ERC-8257 Manifest Parser Hardening" {
        "the announced length is larger than allowed",
        "The Content-Length says that the body is over the limit, so none of it was read.",
        "serve less than the limit",
    }
    BODY_TOO_LARGE = "fetch.body_too_large", Error, check 1, "ERC-8257 Manifest Parser Hardening" {
        "the body is larger than allowed",
        "Bytes are counted while they are read. Reading stopped at the limit and nothing of the body is used.",
        "serve less than the limit",
    }
    WIRE_TOO_LARGE = "fetch.wire_too_large", Error, check 1, "Toolcrib limits" {
        "far more bytes came than the answer needs",
        "Tiny records, tiny chunks or padding make a small answer cost a lot of work. The bytes of the connection are counted, and the limit leaves ample room.",
        "send the answer in records and chunks of ordinary size",
    }
    TRUNCATED = "fetch.truncated", Error, check 1, "RFC 9112 §8" {
        "the answer broke off",
        "The connection ended before the announced length or the last chunk, or without the closing message of TLS where the end of the connection is the end of the body.",
        "check that the length is counted in bytes and that the server closes connections properly",
    }
    LENGTH_MISMATCH = "fetch.length_mismatch", Error, check 1, "RFC 9112 §6.3" {
        "more bytes came than were announced",
        "The Content-Length is smaller than what was sent. Often it was counted in characters instead of bytes.",
        "count the length in bytes",
    }
    CONFIGURED_URL = "fetch.configured_url", Error, "Toolcrib settings" {
        "a URL in the settings cannot be used",
        "Services that you name in the settings are reached over https, or over plain http on this machine.",
        "write a complete URL such as https://service.example/path",
    }
    AUTHORITY_UNREADABLE = "fetch.authority_unreadable", Error, "Toolcrib settings" {
        "a certificate authority in the settings cannot be read",
        "The bytes are not an X.509 certificate in DER.",
        "give the certificate of the authority, not its key",
    }
    HEADER_REFUSED = "fetch.header_refused", Error, "RFC 9110 §5" {
        "a header cannot be sent",
        "Its name or value has a character that headers cannot have, or it is one that only the client itself may set.",
        "correct the name and the value",
    }
}

/// Whether a code may come from the reader's own network or load, so that it says nothing definite about the other side.
///
/// Such an exchange still never counts as verified; it means "could not tell" instead of "no". A server that accepted the
/// connection and then failed is not excused: from then on the failure is its own.
pub fn is_transient(code: Code) -> bool {
    [DNS_FAILED, CONNECT_REFUSED, CONNECT_TIMEOUT, UNREACHABLE, BUSY].contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: VERIFY-007
    #[test]
    fn refusals_are_check_two_and_definite() {
        for code in [PRIVATE_ADDRESS, MIXED_ADDRESSES, PORT_REFUSED, LOCALHOST_REFUSED] {
            assert_eq!(code.info().check, Some(2), "{code}");
            assert!(!is_transient(code), "{code}");
        }
        assert_eq!(ALL.iter().filter(|code| code.info().check == Some(2)).count(), 4);
        assert_eq!(ALL.iter().filter(|code| code.info().check.is_none()).count(), 3, "settings only");
        assert!(is_transient(DNS_FAILED) && !is_transient(NO_SUCH_HOST));
        assert_eq!(ALL.iter().filter(|code| is_transient(**code)).count(), 5);
    }
}
