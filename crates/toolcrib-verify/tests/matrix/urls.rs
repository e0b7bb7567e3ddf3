//! Metadata URIs and endpoints: the grammar, the well-known path, and the origin that both share.

use serde_json::json;
use toolcrib_core::codes::{manifest as m, url};
use toolcrib_judge::Step;

use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    [honest(), refused_uris(), malformed_uris(), endpoints(), origins()].into_iter().flatten().collect()
}

// req: URL-002, URL-004, URL-005, URL-006, URL-007, URL-009, URL-013, VERIFY-001, VERIFY-002
fn honest() -> Vec<Row> {
    let slug = |slug: &str| Row::new(&format!("slug of {} characters: {slug}", slug.len())).uri(&uri_of(slug));
    vec![
        Row::new("an honest tool"),
        Row::new("scheme and host in upper case, port 443")
            .host("norm.example.com")
            .uri("HTTPS://Norm.EXAMPLE.com:443/.well-known/ai-tool/word-count.json")
            .finds(url::METADATA_NOT_NORMALISED),
        Row::new("port 8443 on both sides")
            .uri("https://HOST:8443/.well-known/ai-tool/word-count.json")
            .with("endpoint", json!("https://HOST:8443/word-count")),
        Row::new("port 443 on the endpoint alone")
            .with("endpoint", json!("https://HOST:443/word-count"))
            .finds(url::DEFAULT_PORT),
        Row::new("endpoint in upper case").host("upper.example.com").with("endpoint", json!("HTTPS://UPPER.example.com/A")),
        Row::new("endpoint with path, query and fragment").with("endpoint", json!("https://HOST/p/q?r=1&s=#t")),
        Row::new("endpoint without a path").with("endpoint", json!("https://HOST")),
        slug("a"),
        slug("a-b"),
        slug("a--b"),
        slug("0"),
        slug(&"x".repeat(64)),
        Row::new("host as an A-label")
            .host("xn--bcher-kva.example.org")
            .with("endpoint", json!("https://xn--bcher-kva.example.org/word-count")),
        Row::new("public IPv4 address").host("5.7.0.1").finds(url::IP_HOST),
        Row::new("public IPv6 address").host("[2a00:1450::1]").finds(url::IP_HOST),
    ]
}

fn uri_of(slug: &str) -> String {
    format!("https://HOST/.well-known/ai-tool/{slug}.json")
}

// req: URL-002, URL-004, URL-010, URL-011, URL-012, URL-014, VERIFY-003, VERIFY-007, VERIFY-024
fn refused_uris() -> Vec<Row> {
    [
        ("plain http", "http://HOST/.well-known/ai-tool/word-count.json", url::METADATA_NOT_HTTPS),
        ("ipfs has no origin", "ipfs://bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi", url::METADATA_NOT_HTTPS),
        ("data", "data:application/json;base64,e30=", url::METADATA_NOT_HTTPS),
        ("ftp", "ftp://HOST/.well-known/ai-tool/word-count.json", url::METADATA_NOT_HTTPS),
        ("file", "file:///etc/passwd", url::METADATA_NOT_HTTPS),
        ("javascript", "javascript:alert(1)", url::METADATA_NOT_HTTPS),
        ("no scheme", "//HOST/.well-known/ai-tool/word-count.json", url::METADATA_NOT_HTTPS),
        ("no URL at all", "word-count", url::METADATA_NOT_HTTPS),
        ("metadata service as a number, over http", "http://2852039166/latest/meta-data/", url::METADATA_NOT_HTTPS),
        ("empty query", "https://HOST/.well-known/ai-tool/word-count.json?", url::METADATA_QUERY),
        ("query", "https://HOST/.well-known/ai-tool/word-count.json?a=1", url::METADATA_QUERY),
        ("empty fragment", "https://HOST/.well-known/ai-tool/word-count.json#", url::METADATA_FRAGMENT),
        ("fragment", "https://HOST/.well-known/ai-tool/word-count.json#f", url::METADATA_FRAGMENT),
        ("another path", "https://HOST/ai-tool/word-count.json", url::WELL_KNOWN_PREFIX),
        ("below a folder", "https://HOST/api/.well-known/ai-tool/word-count.json", url::WELL_KNOWN_PREFIX),
        ("double slash", "https://HOST//.well-known/ai-tool/word-count.json", url::WELL_KNOWN_PREFIX),
        ("well-known in upper case", "https://HOST/.Well-Known/ai-tool/word-count.json", url::WELL_KNOWN_PREFIX),
        ("encoded well-known", "https://HOST/%2Ewell-known/ai-tool/word-count.json", url::WELL_KNOWN_PREFIX),
        ("another well-known name", "https://HOST/.well-known/ai-plugin.json", url::WELL_KNOWN_PREFIX),
        ("no path", "https://HOST", url::WELL_KNOWN_PREFIX),
        ("trailing slash", "https://HOST/.well-known/ai-tool/word-count.json/", url::WELL_KNOWN_SUFFIX),
        ("suffix in upper case", "https://HOST/.well-known/ai-tool/word-count.JSON", url::WELL_KNOWN_SUFFIX),
        ("encoded suffix", "https://HOST/.well-known/ai-tool/word-count%2Ejson", url::WELL_KNOWN_SUFFIX),
        ("no suffix", "https://HOST/.well-known/ai-tool/word-count", url::WELL_KNOWN_SUFFIX),
        ("empty slug", "https://HOST/.well-known/ai-tool/.json", url::SLUG_LENGTH),
        ("slug with a hyphen before", "https://HOST/.well-known/ai-tool/-a.json", url::SLUG_GRAMMAR),
        ("slug with a hyphen behind", "https://HOST/.well-known/ai-tool/a-.json", url::SLUG_GRAMMAR),
        ("slug in upper case", "https://HOST/.well-known/ai-tool/A.json", url::SLUG_GRAMMAR),
        ("slug with an underscore", "https://HOST/.well-known/ai-tool/a_b.json", url::SLUG_GRAMMAR),
        ("slug with a dot", "https://HOST/.well-known/ai-tool/a.b.json", url::SLUG_GRAMMAR),
        ("slug with a slash", "https://HOST/.well-known/ai-tool/a/b.json", url::SLUG_GRAMMAR),
        ("encoded slug", "https://HOST/.well-known/ai-tool/%61.json", url::SLUG_GRAMMAR),
    ]
    .into_iter()
    .map(|(name, uri, code)| Row::new(name).uri(uri).refused(2, Step::MetadataUri, code))
    .chain([
        Row::new("slug of 65 characters").uri(&uri_of(&"x".repeat(65))).refused(2, Step::MetadataUri, url::SLUG_LENGTH),
        // The maximum length in the registry.
        Row::new("URI of 2,048 bytes")
            .host("long.example.com")
            .uri(&format!("https://long.example.com/.well-known/ai-tool/{}.json", "x".repeat(2_048 - 50)))
            .refused(2, Step::MetadataUri, url::SLUG_LENGTH),
    ])
    .collect()
}

// req: URL-009, URL-010, URL-014, VERIFY-003, VERIFY-007, SSRF-001
fn malformed_uris() -> Vec<Row> {
    let path = ".well-known/ai-tool/word-count.json";
    let with_host = |name: &str, authority: &str, says: &str| {
        Row::new(name).uri(&format!("https://{authority}/{path}")).says(says).refused(
            2,
            Step::MetadataUri,
            url::METADATA_MALFORMED,
        )
    };
    let mut rows = vec![
        with_host("U-label host", "b\u{fc}cher.example", url::HOST_NOT_ASCII.title()).refused(
            2,
            Step::MetadataUri,
            url::METADATA_NOT_ACE,
        ),
        with_host("full-width host", "\u{ff45}xample.com", url::HOST_NOT_ASCII.title()).refused(
            2,
            Step::MetadataUri,
            url::METADATA_NOT_ACE,
        ),
        with_host("encoded host", "%65xample.com", url::HOST_PERCENT.title()),
        with_host("broken punycode", "xn--a.example.com", url::INVALID_PUNYCODE.title()),
        with_host("user and host", "user@HOST", url::USERINFO.title()),
        with_host("user, password and host", "HOST:443@evil.example.com", url::USERINFO.title()),
        with_host("empty user", "@HOST", url::USERINFO.title()),
        with_host("trailing dot", "HOST.", url::TRAILING_DOT.title()),
        with_host("empty label", "a..example.com", url::EMPTY_LABEL.title()),
        with_host("empty host", "", url::EMPTY_HOST.title()),
        with_host("label of 64 characters", &format!("{}.example.com", "a".repeat(64)), url::LABEL_TOO_LONG.title()),
        with_host("port 0", "HOST:0", url::PORT_ZERO.title()),
        with_host("port 65536", "HOST:65536", url::PORT_TOO_LARGE.title()),
        with_host("empty port", "HOST:", url::PORT_EMPTY.title()),
        with_host("port with a zero before", "HOST:08443", url::PORT_LEADING_ZERO.title()),
        with_host("port in letters", "HOST:https", url::PORT_NOT_A_NUMBER.title()),
        with_host("decimal IPv4", "2130706433", url::IPV4_NOT_CANONICAL.title()),
        with_host("octal IPv4", "0177.0.0.1", url::IPV4_NOT_CANONICAL.title()),
        with_host("hexadecimal IPv4", "0x7f000001", url::IPV4_NOT_CANONICAL.title()),
        with_host("short IPv4", "127.1", url::IPV4_NOT_CANONICAL.title()),
        with_host("host that ends in a number", "a.b.1", url::NUMERIC_TOP_LABEL.title()),
        with_host("IPv6 with a zone", "[fe80::1%25eth0]", url::HOST_PERCENT.title()),
        with_host("IPv6 with a bare zone", "[fe80::1%eth0]", url::HOST_PERCENT.title()),
        with_host("IPv6 not in its short form", "[2a00:0:0:0:0:0:0:1]", url::IPV6_NOT_CANONICAL.title()),
        with_host("IPv6 without its bracket", "[::1", url::IPV6_INVALID.title()),
        with_host("backslash", "HOST\\@evil.example.com", url::BACKSLASH.title()),
        with_host("space", "HOST .example.com", url::WHITESPACE.title()),
        with_host("tab", "HO\tST", url::WHITESPACE.title()),
        with_host("line feed", "HOST\n", url::WHITESPACE.title()),
        // NUL in a registry's text is replaced by U+FFFD, because databases do not accept it; so is invalid UTF-8.
        with_host("NUL", "HOST\0", url::HOST_NOT_ASCII.title()).refused(2, Step::MetadataUri, url::METADATA_NOT_ACE),
        with_host("escape sequence", "HOST\u{1b}[2J", url::CONTROL.title()),
    ];
    for literal in [
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "[64:ff9b::a00:1]",
        "[2002:a00:1::]",
        "[fd00::1]",
        "[fe80::1]",
        "[ff02::1]",
    ] {
        rows.push(with_host(&format!("literal {literal}"), literal, url::NON_PUBLIC_ADDRESS.title()));
    }
    for (name, uri) in [
        ("letters outside ASCII in the path", "https://HOST/.well-known/ai-tool/w\u{f6}rter.json"),
        ("one slash after the scheme", "https:/HOST/.well-known/ai-tool/word-count.json"),
        ("placeholder", "https://HOST/.well-known/ai-tool/{slug}.json"),
        ("space before", " https://HOST/.well-known/ai-tool/word-count.json"),
        ("line feed behind", "https://HOST/.well-known/ai-tool/word-count.json\n"),
    ] {
        rows.push(Row::new(name).uri(uri).refused(2, Step::MetadataUri, url::METADATA_MALFORMED));
    }
    for (name, uri) in [
        ("dot segment", "https://HOST/.well-known/ai-tool/./word-count.json"),
        ("two dots", "https://HOST/.well-known/ai-tool/../ai-tool/word-count.json"),
        ("encoded dots", "https://HOST/.well-known/ai-tool/%2e%2e/word-count.json"),
    ] {
        rows.push(Row::new(name).uri(uri).refused(2, Step::MetadataUri, url::SLUG_GRAMMAR));
    }
    rows.push(Row::new("underscore in the host").host("a_b.example.com"));
    rows
}

// req: URL-009, URL-013, URL-014, VERIFY-003, VERIFY-007, SSRF-001
fn endpoints() -> Vec<Row> {
    let at = |name: &str, endpoint: &str, code| {
        Row::new(&format!("endpoint: {name}")).with("endpoint", json!(endpoint)).refused(2, Step::Endpoint, code)
    };
    vec![
        at("http", "http://HOST/word-count", url::NOT_HTTPS),
        at("data", "data:text/html,x", url::NOT_HTTPS),
        at("javascript", "javascript:alert(1)", url::NOT_HTTPS),
        at("file", "file:///etc/passwd", url::NOT_HTTPS),
        at("no scheme", "HOST/word-count", url::NO_SCHEME),
        at("empty", "", url::EMPTY),
        at("U-label host", "https://b\u{fc}cher.example/x", url::HOST_NOT_ASCII),
        at("encoded host", "https://%65xample.com/x", url::HOST_PERCENT),
        at("user", "https://user@HOST/x", url::USERINFO),
        at("trailing dot", "https://HOST./x", url::TRAILING_DOT),
        at("port 0", "https://HOST:0/x", url::PORT_ZERO),
        at("private address", "https://10.0.0.1/x", url::NON_PUBLIC_ADDRESS),
        at("decimal address", "https://2130706433/x", url::IPV4_NOT_CANONICAL),
        at("placeholder", "https://HOST/{id}", url::TEMPLATE),
        Row::new("endpoint: missing").without("endpoint").refused(2, Step::Endpoint, m::FIELD_MISSING),
        Row::new("endpoint: a number").with("endpoint", json!(7)).refused(2, Step::Endpoint, m::WRONG_TYPE),
        Row::new("endpoint: a list").with("endpoint", json!(["https://HOST/x"])).refused(2, Step::Endpoint, m::WRONG_TYPE),
    ]
}

// req: URL-004, URL-005, URL-014, VERIFY-001, VERIFY-003, VERIFY-007
fn origins() -> Vec<Row> {
    let at = |name: &str, endpoint: &str, code| {
        Row::new(&format!("origin: {name}")).with("endpoint", json!(endpoint)).refused(2, Step::Origin, code)
    };
    vec![
        at("another host", "https://elsewhere.example.com/x", url::ORIGIN_HOST),
        at("a subdomain", "https://api.HOST/x", url::ORIGIN_HOST),
        at("the parent", "https://example.com/x", url::ORIGIN_HOST),
        at("host as a prefix", "https://HOST.evil.example/x", url::ORIGIN_HOST),
        at("another port", "https://HOST:8443/x", url::ORIGIN_PORT),
        Row::new("origin: port 8443 on the URI alone").uri("https://HOST:8443/.well-known/ai-tool/word-count.json").refused(
            2,
            Step::Origin,
            url::ORIGIN_PORT,
        ),
        at("another host, and another creator too", "https://elsewhere.example.com/x", url::ORIGIN_HOST).by(1),
    ]
}
