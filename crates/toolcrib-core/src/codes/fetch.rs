//! Codes of fetching from untrusted servers: what is rejected before a connection, and errors of the connection.
//!
//! Rejections before any connection (egress policy) fail check 2 of ERC-8257 §7, all later errors fail check 1.

use super::Code;

super::codes! {
    PRIVATE_ADDRESS = "fetch.private_address", Error, check 2, "ERC-8257 Malicious Endpoints" {
        "the host resolves to an address that is not on the public internet",
        "Loopback, private, link-local, translated and other special-purpose addresses can point into the reader's network (SSRF). No connection was made.",
        "serve the tool from a public address",
    }
    MIXED_ADDRESSES = "fetch.mixed_addresses", Error, check 2, "ERC-8257 Malicious Endpoints" {
        "the host has both public and non-public addresses",
        "Such a name can direct callers into their own network (DNS rebinding). One non-public address is enough to refuse the host. No connection was made.",
        "remove the non-public addresses from the DNS records of the host",
    }
    PORT_REFUSED = "fetch.port_refused", Error, check 2, "WHATWG Fetch, port blocking" {
        "the port belongs to another protocol",
        "Mail, DNS and file services listen on well-known ports. Web requests to these ports are blocked, as in browsers. No connection was made.",
        "serve the tool on port 443, or on a port that is not on the list of blocked ports",
    }
    LOCALHOST_REFUSED = "fetch.localhost_refused", Error, check 2, "RFC 6761 §6.3" {
        "localhost names are for the development environment only",
        "A name below `localhost` resolves to the reader's own machine. It is allowed only for tools on chain 31337 while the development environment runs.",
        "register a public host, or use the development chain",
    }
    NO_SUCH_HOST = "fetch.no_such_host", Error, check 1, "RFC 8020" {
        "the host does not exist",
        "The name servers returned NXDOMAIN. The domain may have expired, or the name is misspelt.",
        "correct the host, or restore its DNS records",
    }
    DNS_FAILED = "fetch.dns_failed", Error, check 1, "RFC 1035" {
        "the DNS lookup of the host failed",
        "No name server answered in time. The cause may be your own network, so this proves nothing about the tool.",
        "check the network connection and try again",
    }
    NO_ADDRESSES = "fetch.no_addresses", Error, check 1, "RFC 1035" {
        "the host has no addresses",
        "The name exists but has neither an IPv4 nor an IPv6 address.",
        "add an A or AAAA record for the host",
    }
    TOO_MANY_ADDRESSES = "fetch.too_many_addresses", Error, check 1, "Toolcrib limits" {
        "the host has too many addresses",
        "Every address is checked before one is used, so their number is limited. No web server needs this many.",
        "publish fewer addresses for the host",
    }
    CONNECT_REFUSED = "fetch.connect_refused", Error, check 1, "RFC 9293" {
        "the connection was refused",
        "The machine is reachable, but no program listens on the port, or a firewall rejected the connection.",
        "check that the server runs and listens on the port; try again from another network",
    }
    CONNECT_TIMEOUT = "fetch.connect_timeout", Error, check 1, "Toolcrib limits" {
        "the connection timed out",
        "None of the addresses answered. The server may be down, or a firewall drops the packets.",
        "check that the server runs; try again from another network",
    }
    UNREACHABLE = "fetch.unreachable", Error, check 1, "RFC 9293" {
        "the address cannot be reached",
        "There is no route to it from this machine. The cause may be your own network, so this proves nothing about the tool.",
        "check the network connection and try again",
    }
    BUSY = "fetch.busy", Error, check 1, "Toolcrib limits" {
        "too many concurrent requests",
        "Concurrent requests are limited in total and per host, and none of them ended in time. Nothing was sent.",
        "try again later, or send fewer requests at once",
    }
    HANDSHAKE_TIMEOUT = "fetch.handshake_timeout", Error, check 1, "Toolcrib limits" {
        "the TLS handshake timed out",
        "The TCP connection was established, but the server did not complete the handshake.",
        "check the TLS settings and the load of the server",
    }
    NOT_TLS = "fetch.not_tls", Error, check 1, "RFC 8446" {
        "the server does not speak TLS on this port",
        "The server did not send a TLS handshake. Often plain http is served on the port.",
        "serve https on the port, or correct the port",
    }
    TLS_PROTOCOL = "fetch.tls_protocol", Error, check 1, "RFC 8996" {
        "no common TLS version or cipher",
        "Toolcrib supports TLS 1.2 and 1.3 with modern ciphers. Older versions are insecure.",
        "enable TLS 1.3 or 1.2 on the server",
    }
    TLS_FAILED = "fetch.tls_failed", Error, check 1, "RFC 8446" {
        "the TLS connection failed",
        "The server violated the protocol, or closed the connection with an alert. The message has the reason.",
        "check the log of the server",
    }
    ALPN_REFUSED = "fetch.alpn_refused", Error, check 1, "RFC 7301" {
        "the server does not offer HTTP/1.1",
        "The client offered HTTP/1.1 in the handshake (ALPN), and the server refused it or chose another protocol.",
        "enable HTTP/1.1 in addition to newer versions",
    }
    CERTIFICATE_EXPIRED = "fetch.certificate_expired", Error, check 1, "RFC 5280 §4.1.2.5" {
        "the server's certificate has expired",
        "Its validity period has ended, by the clock of this machine.",
        "renew the certificate",
    }
    CERTIFICATE_NOT_YET_VALID = "fetch.certificate_not_yet_valid", Error, check 1, "RFC 5280 §4.1.2.5" {
        "the server's certificate is not valid yet",
        "Its validity period has not begun, by the clock of this machine. The certificate is for a later date, or a clock is wrong.",
        "check the clock of this machine, then the certificate",
    }
    CERTIFICATE_UNKNOWN_ISSUER = "fetch.certificate_unknown_issuer", Error, check 1, "RFC 5280 §6" {
        "the issuer of the server's certificate is not trusted",
        "It is self-signed, was issued by a private authority, or the server does not send the intermediate certificate.",
        "use a certificate of a public authority and serve its full chain",
    }
    CERTIFICATE_WRONG_HOST = "fetch.certificate_wrong_host", Error, check 1, "RFC 9525" {
        "the server's certificate is for another host",
        "None of the names in the certificate matches the requested host.",
        "issue a certificate that names the host",
    }
    CERTIFICATE_INVALID = "fetch.certificate_invalid", Error, check 1, "RFC 5280" {
        "the server's certificate cannot be used",
        "It is revoked, malformed, has an invalid signature, or was issued for another purpose. The message has the reason.",
        "issue a new certificate",
    }
    CLOSED_EARLY = "fetch.closed_early", Error, check 1, "RFC 9112 §8" {
        "the server closed the connection without a response",
        "The connection was closed before the response headers were complete.",
        "check the log of the server",
    }
    READ_TIMEOUT = "fetch.read_timeout", Error, check 1, "Toolcrib limits" {
        "the server stopped sending",
        "The connection was open, but no byte arrived within the read timeout.",
        "check the load of the server",
    }
    TOTAL_TIMEOUT = "fetch.total_timeout", Error, check 1, "Toolcrib limits" {
        "the response took too long",
        "Bytes kept arriving, but too slowly to complete the response within the total time limit.",
        "check the load of the server; serve manifests as static files",
    }
    NOT_HTTP = "fetch.not_http", Error, check 1, "RFC 9112" {
        "the response is not HTTP/1.1",
        "The data does not begin with an HTTP/1.1 status line, or its headers are malformed.",
        "check which program listens on the port",
    }
    HEADERS_TOO_LARGE = "fetch.headers_too_large", Error, check 1, "Toolcrib limits" {
        "the response headers are too large",
        "The status line and headers exceed a limit that honest responses stay far below.",
        "send fewer and shorter headers",
    }
    TOO_MANY_HEADERS = "fetch.too_many_headers", Error, check 1, "Toolcrib limits" {
        "the response has too many headers",
        "The number of headers exceeds a limit that honest responses stay far below.",
        "send fewer headers",
    }
    TOO_MANY_INTERIM = "fetch.too_many_interim", Error, check 1, "RFC 9110 §15.2" {
        "the server sends too many interim responses",
        "Responses with a 1xx status precede the final one. Only a few are skipped.",
        "send the final response",
    }
    BAD_FRAMING = "fetch.bad_framing", Error, check 1, "RFC 9112 §6.3" {
        "the length of the response is ambiguous",
        "Content-Length is repeated, malformed, or contradicts Transfer-Encoding, or a chunk is malformed. Readers would disagree about the body.",
        "send one Content-Length, or chunks without one",
    }
    REDIRECT = "fetch.redirect", Error, check 1, "ERC-8257 §7" {
        "the server redirects",
        "Redirects are never followed, not even on the same host: the URL that is registered onchain must serve the content itself.",
        "serve the file at the URL itself, or change the URL onchain",
    }
    NO_CONTENT = "fetch.no_content", Error, check 1, "ERC-8257 §7" {
        "the response has no content",
        "Status 204 has no body. Only status 200 is accepted.",
        "serve the file with status 200",
    }
    PARTIAL_CONTENT = "fetch.partial_content", Error, check 1, "ERC-8257 §7" {
        "the server sent partial content",
        "The response has status 206 without a range request. Only status 200 is accepted.",
        "serve the whole file with status 200",
    }
    NOT_FOUND = "fetch.not_found", Error, check 1, "ERC-8257 §7" {
        "not found (404 or 410)",
        "The server has no such file. Only status 200 is accepted.",
        "deploy the file at the URL",
    }
    CLIENT_ERROR = "fetch.client_error", Error, check 1, "ERC-8257 §7" {
        "the server refuses the request",
        "The status is 4xx: the file may need a login, a payment, or another permission. A manifest must be publicly readable.",
        "serve the file publicly with status 200",
    }
    SERVER_ERROR = "fetch.server_error", Error, check 1, "ERC-8257 §7" {
        "the server returned an error",
        "The status is 5xx: the server or its upstream failed.",
        "check the log of the server",
    }
    STATUS = "fetch.status", Error, check 1, "ERC-8257 §7" {
        "the status of the response is not 200",
        "Only status 200 is accepted for files.",
        "serve the file with status 200",
    }
    ENCODING_REFUSED = "fetch.encoding_refused", Error, check 1, "RFC 9110 §8.4" {
        "the response is compressed, but compression was not requested",
        "Only uncompressed bodies are accepted: a small compressed body can expand to a huge one, and the hash is computed over the plain bytes.",
        "honour `Accept-Encoding: identity`",
    }
    LENGTH_TOO_LARGE = "fetch.length_too_large", Error, check 1, "ERC-8257 Manifest Parser Hardening" {
        "the declared length is too large",
        "Content-Length exceeds the limit, so the body was not read.",
        "serve a body below the limit",
    }
    BODY_TOO_LARGE = "fetch.body_too_large", Error, check 1, "ERC-8257 Manifest Parser Hardening" {
        "the body is too large",
        "Bytes are counted while they are read. Reading stopped at the limit, and none of the body is used.",
        "serve a body below the limit",
    }
    WIRE_TOO_LARGE = "fetch.wire_too_large", Error, check 1, "Toolcrib limits" {
        "the response used far too many bytes on the wire",
        "Tiny TLS records, tiny chunks or padding make a small response expensive to read. All bytes of the connection are counted, with a generous limit.",
        "send the response in records and chunks of normal size",
    }
    TRUNCATED = "fetch.truncated", Error, check 1, "RFC 9112 §8" {
        "the response is truncated",
        "The connection was closed before the declared length or the last chunk, or without a TLS close_notify where the end of the connection marks the end of the body.",
        "check that Content-Length counts bytes, and that the server closes connections properly",
    }
    LENGTH_MISMATCH = "fetch.length_mismatch", Error, check 1, "RFC 9112 §6.3" {
        "the body is longer than Content-Length",
        "The server sent more bytes than declared. Often the length was counted in characters instead of bytes.",
        "count Content-Length in bytes",
    }
    CONFIGURED_URL = "fetch.configured_url", Error, "Toolcrib settings" {
        "a URL in the settings is not allowed",
        "Services in the settings must use https, or plain http on this machine.",
        "write a complete URL such as https://service.example/path",
    }
    AUTHORITY_UNREADABLE = "fetch.authority_unreadable", Error, "Toolcrib settings" {
        "a certificate authority in the settings cannot be parsed",
        "The bytes are not an X.509 certificate in DER.",
        "configure the certificate of the authority, not its key",
    }
    HEADER_REFUSED = "fetch.header_refused", Error, "RFC 9110 §5" {
        "a request header is not allowed",
        "Its name or value has an invalid character, or only the HTTP client itself may set this header.",
        "correct the name and the value",
    }
}

/// Whether an error may come from the reader's own network or load, so that it says nothing definite about the server.
///
/// Such an exchange never counts as verified; its result is "unknown" instead of "no". A server that accepted the connection and then
/// failed is not covered: from then on the failure is the server's.
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
