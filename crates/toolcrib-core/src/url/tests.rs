use proptest::prelude::*;

use super::*;
use crate::finding::Mode;
use crate::json::{self, Limits};

/// The kinds of all faults of `text`.
fn kinds(text: &str) -> Vec<FaultKind> {
    HttpsUrl::faults(text).into_iter().map(|fault| fault.kind).collect()
}

#[track_caller]
fn refused(text: &str, kind: FaultKind) {
    let kinds = kinds(text);
    assert!(kinds.contains(&kind), "{text:?}: {kind:?} is not in {kinds:?}");
    assert_eq!(kind.level(), Level::Hard);
    assert!(HttpsUrl::parse(text).is_err(), "{text:?}");
}

/// Expects a fault that producers must avoid and consumers accept.
#[track_caller]
fn left_to_readers(text: &str, kind: FaultKind) {
    assert_eq!((kinds(text), kind.level()), (vec![kind], Level::Encoding), "{text:?}");
    assert_eq!(HttpsUrl::parse(text).map(|url| url.to_string()).as_deref(), Ok(text));
    assert_eq!(HttpsUrl::parse_exact(text).map_err(|fault| fault.kind), Err(kind), "{text:?}");
}

#[track_caller]
fn accepted(text: &str) -> HttpsUrl {
    match HttpsUrl::parse_exact(text) {
        Ok(url) => url,
        Err(fault) => panic!("{text:?}: {fault:?}"),
    }
}

/// Runs `check` on a JSON string and returns the URL and the findings.
fn checked(source: &str, mode: Mode) -> (Option<HttpsUrl>, Vec<Finding>) {
    let document = json::read(source.as_bytes(), Limits::default()).document.expect("JSON");
    let mut context = Context::new(mode);
    let url = check(document.root(), document.root().as_str().expect("a string"), &mut context);
    (url, context.findings.into_sorted())
}

fn codes_of(text: &str, mode: Mode) -> Vec<&'static str> {
    let mut source = String::new();
    crate::canon::write_string(text, &mut source);
    checked(&source, mode).1.iter().map(|finding| finding.code.id()).collect()
}

#[test]
fn parts() {
    let url = accepted("https://tools.example.com:8443/a/B?q=1?2#f/?3");
    assert_eq!(url.host(), "tools.example.com");
    assert_eq!((url.port(), url.explicit_port()), (8443, Some(8443)));
    assert_eq!((url.path(), url.query(), url.fragment()), ("/a/B", Some("q=1?2"), Some("f/?3")));
    assert_eq!(url.origin().to_string(), "https://tools.example.com:8443");

    let url = accepted("https://ex.com");
    assert_eq!((url.path(), url.query(), url.fragment(), url.port(), url.explicit_port()), ("", None, None, 443, None));
    assert_eq!(url.origin().to_string(), "https://ex.com");
    assert_eq!(accepted("https://ex.com?").query(), Some(""));
    assert_eq!(accepted("https://ex.com#?").fragment(), Some("?"));
    assert_eq!(accepted("https://ex.com#a").query(), None);
    assert_eq!(accepted("https://[2606:4700::1111]:8443/").host(), "[2606:4700::1111]");
    assert_eq!(accepted("https://[2606:4700::1111]/").host_ip(), "2606:4700::1111".parse().ok());
    assert_eq!(accepted("https://8.8.8.8/").host_ip(), "8.8.8.8".parse().ok());
}

// req: URL-007, URL-008
#[test]
fn normalisation_touches_scheme_host_and_port_only() {
    for (text, normal) in [
        ("HTTPS://EX.com:443/A", "https://ex.com/A"),
        ("https://ex.com:8443/%7eA", "https://ex.com:8443/%7eA"),
        ("Https://ex.com", "https://ex.com"),
        ("https://EX.COM:443?Q#F", "https://ex.com?Q#F"),
        ("https://XN--BCHER-KVA.example/", "https://xn--bcher-kva.example/"),
        ("https://[2606:4700::ABCD]/", "https://[2606:4700::abcd]/"),
    ] {
        assert_eq!(HttpsUrl::parse(text).as_ref().map(HttpsUrl::normalized), Ok(normal), "{text}");
        assert_eq!(text == normal, HttpsUrl::parse_exact(text).is_ok(), "{text}");
        assert_eq!(accepted(normal).normalized(), normal);
    }
}

// req: URL-012, URL-013
#[test]
fn other_schemes() {
    for text in [
        "http://ex.com",
        "data:text/html,x",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "ftp://ex.com",
        "ipfs://Qm/",
        "httpss://ex.com",
        "wss://ex.com",
    ] {
        refused(text, FaultKind::NotHttps);
    }
    for text in ["//ex.com", "ex.com", "/path", "ex.com:8443/x", "localhost:3000", "?x", "://ex.com", "1https://ex.com"] {
        refused(text, FaultKind::NoScheme);
    }
    for text in ["https:ex.com", "https:/ex.com", "https:", "https:\\\\ex.com"] {
        refused(text, FaultKind::NoAuthority);
    }
    refused("", FaultKind::Empty);
    refused(" \n", FaultKind::Empty);
}

// req: URL-009
#[test]
fn hosts() {
    for text in ["https://bücher.example", "https://ex\u{3002}com", "https://ex\u{200d}.com/", "https://ｅx.com"] {
        refused(text, FaultKind::HostNotAscii);
    }
    for text in ["https://%65x.com", "https://b%C3%BCcher.example", "https://[fe80::1%25eth0]/"] {
        refused(text, FaultKind::HostPercent);
    }
    for text in ["https://user@ex.com", "https://user:pass@ex.com", "https://@ex.com", "https://ex.com@evil.com/"] {
        refused(text, FaultKind::UserInfo);
    }
    for text in ["https://", "https:///path", "https://?q", "https://:443/"] {
        refused(text, FaultKind::EmptyHost);
    }
    for text in ["https://a!b.com", "https://a*b.com", "https://ex.com,/", "https://[2606:4700::1]x/"] {
        refused(text, FaultKind::HostCharacter);
    }
    for text in ["https://a_b.com", "https://_a.com/", "https://a_.com:8443/"] {
        left_to_readers(text, FaultKind::HostUnderscore);
    }
    refused("https://ex.com./", FaultKind::TrailingDot);
    for text in ["https://.ex.com/", "https://a..com", "https://./", "https://a../"] {
        refused(text, FaultKind::EmptyLabel);
    }
    for text in ["https://-a.com", "https://a-.com", "https://a.-", "https://-", "https://a.b-"] {
        refused(text, FaultKind::LabelHyphen);
    }
    for text in ["https://xn--a.com", "https://xn--a-ecp.ru", "https://xn--0.example", "https://XN--A.com"] {
        refused(text, FaultKind::InvalidPunycode);
    }
    for text in [
        "https://xn--bcher-kva.example",
        "https://a--b.com",
        "https://ab--cd.com",
        "https://0.com",
        "https://1.2.3.com",
        "https://a",
    ] {
        accepted(text);
    }
    let label = "a".repeat(MAX_LABEL_BYTES);
    accepted(&format!("https://{label}.com"));
    accepted(&format!("https://com.{label}"));
    refused(&format!("https://{label}a.com"), FaultKind::LabelTooLong);
    refused(&format!("https://com.{label}a"), FaultKind::LabelTooLong);
    let longest = format!("{label}.{label}.{label}.{}", &label[..61]);
    assert_eq!(longest.len(), MAX_HOST_BYTES);
    accepted(&format!("https://{longest}/"));
    refused(&format!("https://{longest}a/"), FaultKind::HostTooLong);
}

// req: SSRF-001
#[test]
fn addresses() {
    for text in [
        "https://127.1/",
        "https://2852039166/",
        "https://0x7f000001/",
        "https://0177.0.0.1/",
        "https://1.2.3/",
        "https://0x7f.1",
        "https://256.256.256.256",
        "https://08.8.8.8",
        "https://0x",
    ] {
        refused(text, FaultKind::Ipv4NotCanonical);
    }
    for text in ["https://foo.1/", "https://foo.0x1f/", "https://1.2.3.4.foo.09", "https://a.0X"] {
        refused(text, FaultKind::NumericTopLabel);
    }
    for text in [
        "https://127.0.0.1/",
        "https://10.0.0.1",
        "https://169.254.169.254/latest",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://[fd00::1]/",
        "https://0.0.0.0",
    ] {
        refused(text, FaultKind::NonPublicAddress);
    }
    for text in [
        "https://[::1/",
        "https://[]/",
        "https://[g::]/",
        "https://[1.2.3.4]/",
        "https://::1/",
        "https://2606:4700::1111/",
        "https://[2606:4700:::1]/",
    ] {
        refused(text, FaultKind::Ipv6Invalid);
    }
    for text in [
        "https://[2606:4700:0::1111]/",
        "https://[2606:4700:0:0:0:0:0:1111]/",
        "https://[2606:04700::1]/",
        "https://[2606:0470::1]/",
    ] {
        assert!(HttpsUrl::parse(text).is_err(), "{text}");
    }
    refused("https://[2606:4700:0::1111]/", FaultKind::Ipv6NotCanonical);
    // The address is checked for plain http too.
    assert_eq!(kinds("http://2852039166/latest"), [FaultKind::NotHttps, FaultKind::Ipv4NotCanonical]);
    assert_eq!(kinds("http://169.254.169.254/"), [FaultKind::NotHttps, FaultKind::NonPublicAddress]);
}

#[test]
fn ports() {
    for (text, kind) in [
        ("https://ex.com:/", FaultKind::PortEmpty),
        ("https://ex.com:", FaultKind::PortEmpty),
        ("https://ex.com:0", FaultKind::PortZero),
        ("https://ex.com:0443", FaultKind::PortLeadingZero),
        ("https://ex.com:00", FaultKind::PortLeadingZero),
        ("https://ex.com:65536", FaultKind::PortTooLarge),
        ("https://ex.com:99999999999999999999", FaultKind::PortTooLarge),
        ("https://ex.com:+80", FaultKind::PortNotANumber),
        ("https://ex.com:80a", FaultKind::PortNotANumber),
        ("https://ex.com:80:80", FaultKind::PortNotANumber),
        ("https://ex.com: 80", FaultKind::PortNotANumber),
    ] {
        refused(text, kind);
    }
    assert_eq!(accepted("https://ex.com:65535").port(), 65535);
    assert_eq!(accepted("https://ex.com:1/").port(), 1);
    assert_eq!(kinds("https://ex.com:443"), [FaultKind::DefaultPort]);
}

#[test]
fn path_query_and_fragment() {
    accepted("https://ex.com/AZaz09-._~!$&'()*+,;=:@/%00%fF//?AZ-._~!$&()*+,;=:@/?%2e#AZ-._~!$&'()*+,;=:@/?");
    for c in ['"', '^', '`', '|', '[', ']'] {
        for place in ["https://ex.com/", "https://ex.com/?", "https://ex.com/#"] {
            refused(&format!("{place}{c}"), FaultKind::Character);
        }
    }
    refused("https://ex.com/#a#b", FaultKind::Character);
    for text in
        ["https://ex.com/{id}", "https://ex.com/${ID}/x", "https://ex.com/?q=<q>", "https://{host}/", "https://<your-host>/x"]
    {
        refused(text, FaultKind::Template);
    }
    for text in ["https://ex.com/%", "https://ex.com/%2", "https://ex.com/%2g", "https://ex.com/?%PATH%", "https://ex.com/#%%"] {
        left_to_readers(text, FaultKind::PercentTriplet);
    }
    for text in ["https://ex.com/é", "https://ex.com/?q=日", "https://ex.com/#\u{202e}"] {
        refused(text, FaultKind::NonAscii);
    }
    for text in
        [" https://ex.com", "https://ex.com ", "https://ex.com/a b", "https://ex.com/\t", "https://ex\n.com/", "ht\ttps://ex.com"]
    {
        assert!(HttpsUrl::parse(text).is_err(), "{text:?}");
    }
    refused("https://ex.com/a b", FaultKind::Whitespace);
    refused("https://ex.com/\u{0}", FaultKind::Control);
    refused("https://ex.com/\u{7f}", FaultKind::Control);
    for text in ["https://ex.com\\x", "https://ex.com/a\\b", "https://ex.com/?\\"] {
        refused(text, FaultKind::Backslash);
    }
    for text in [
        "https://ex.com/.",
        "https://ex.com/..",
        "https://ex.com/./a",
        "https://ex.com/a/../b",
        "https://ex.com/%2e",
        "https://ex.com/a/.%2E/b",
        "https://ex.com/%2E%2e?x",
        "https://ex.com/a/..#x",
        "https://ex.com/%2E./",
    ] {
        left_to_readers(text, FaultKind::DotSegment);
    }
    for text in [
        "https://ex.com/...",
        "https://ex.com/.a",
        "https://ex.com/a.",
        "https://ex.com/?/../",
        "https://ex.com/#/./",
        "https://ex.com//",
        "https://ex.com/.well-known/x",
    ] {
        accepted(text);
    }
}

#[test]
fn every_fault_is_collected_and_placed() {
    let text = "HTTP://User@Ex_ample..com:0/a b/../{id}?%zz#|";
    let faults = HttpsUrl::faults(text);
    let found: Vec<_> = faults.iter().map(|fault| (fault.kind, &text[fault.span.start..fault.span.end])).collect();
    assert_eq!(
        found,
        [
            (FaultKind::NotHttps, "HTTP"),
            (FaultKind::UserInfo, "User@"),
            (FaultKind::PortZero, ":0"),
            (FaultKind::HostUnderscore, "_"),
            (FaultKind::EmptyLabel, "."),
            (FaultKind::HostUpperCase, "Ex_ample..com"),
            (FaultKind::Whitespace, " "),
            (FaultKind::DotSegment, ".."),
            (FaultKind::Template, "{id}"),
            (FaultKind::PercentTriplet, "%"),
            (FaultKind::Character, "|"),
        ]
    );
}

#[test]
fn each_kind_is_reported_once() {
    assert_eq!(HttpsUrl::faults(&format!("https://ex.com/{}", "é \\{".repeat(100_000))).len(), 4);
    assert_eq!(HttpsUrl::faults(&format!("https://{}", ".é-".repeat(100_000))).len(), 4);
}

// req: URL-008, TRUST-015
#[test]
fn producers_must_mend_what_consumers_only_note() {
    let source = r#""HTTPS://Tools.Ex-ample.com:443/X?a='b'""#;
    let (url, findings) = checked(source, Mode::Consumer);
    assert_eq!(url.expect("usable").normalized(), "https://tools.ex-ample.com/X?a='b'");
    assert_eq!(findings.len(), 4);
    assert!(findings.iter().all(|finding| finding.severity == Severity::Warning), "{findings:?}");

    let (_, findings) = checked(source, Mode::Producer);
    assert!(findings.iter().all(|finding| finding.severity == Severity::Error), "{findings:?}");
    let mut fixed = source.to_owned();
    for finding in findings.iter().rev() {
        for edit in finding.fix.iter().flat_map(|fix| &fix.edits) {
            fixed.replace_range(edit.span.start..edit.span.end, &edit.replacement);
        }
    }
    assert_eq!(fixed, r#""https://tools.ex-ample.com/X?a='b'""#);
}

#[test]
fn a_string_with_escapes_is_fixed_as_a_whole_and_once() {
    let (_, findings) = checked(r#""HTTPS:\/\/Tools.ex-ample.com:443""#, Mode::Producer);
    let fixes: Vec<_> = findings.iter().filter_map(|finding| finding.fix.as_ref()).collect();
    assert_eq!(findings.len(), 3);
    assert_eq!(fixes.len(), 1);
    assert_eq!(fixes[0].edits[0].replacement, r#""https://tools.ex-ample.com""#);
}

#[test]
fn findings_say_what_would_be_right() {
    let (url, findings) = checked(r#""https://bücher.example""#, Mode::Consumer);
    assert!(url.is_none());
    assert_eq!(findings[0].expected.as_deref(), Some("xn--bcher-kva.example"));
    let (_, findings) = checked(r#""https://10.1.2.3/""#, Mode::Consumer);
    assert_eq!(findings[0].message, "the IP address is private (10.0.0.0/8, RFC 1918)");
    assert_eq!(findings[0].span, Some(Span::new(9, 17)));
}

#[test]
fn lints() {
    for (text, code) in [
        ("https://localhost/x", "url.reserved_host"),
        ("https://tool.local/x", "url.reserved_host"),
        ("https://a.internal", "url.reserved_host"),
        ("https://a.test", "url.reserved_host"),
        ("https://x.localhost:3000/", "url.reserved_host"),
        ("https://intranet7/", "url.dotless_host"),
        ("https://example.com/", "url.example_host"),
        ("https://tools.example/", "url.example_host"),
        ("https://api.your-domain.com/", "url.placeholder_host"),
        ("https://abc.trycloudflare.com/", "url.ephemeral_host"),
        ("https://abc.eu.ngrok.io/", "url.ephemeral_host"),
        ("https://webhook.site/x", "url.ephemeral_host"),
        ("https://gist.githubusercontent.com/x", "url.ephemeral_host"),
        ("https://169.254.169.254.nip.io/x", "url.ephemeral_host"),
        ("https://xyz-3000.app.github.dev/", "url.ephemeral_host"),
        ("https://paste.rs/abc", "url.ephemeral_host"),
        ("https://tool-git-main-team.vercel.app/", "url.preview_host"),
        ("https://deploy-preview-7--tool.netlify.app/", "url.preview_host"),
        ("https://a1b2c3d4.tool.pages.dev/", "url.preview_host"),
        ("https://tool-pr-12.onrender.com/", "url.preview_host"),
        ("https://tool-pr-12-abcd.up.railway.app/", "url.preview_host"),
        ("https://tool--beta-x1y2z3.web.app/", "url.preview_host"),
        ("https://xn--80ak6aa92e.com/", "url.confusable_host"),
        ("https://8.8.8.8/", "url.ip_host"),
        ("https://ex.com/users/:id/x", "url.template_segment"),
        ("https://ex.com/x#a$(calc)", "url.shell_text"),
        ("https://ex.com/x#a';b", "url.shell_text"),
        ("https://ex.com/x;calc;", "url.shell_text"),
        ("https://ex.com/?a=1&&curl", "url.shell_text"),
    ] {
        assert_eq!(codes_of(text, Mode::Producer), [code], "{text}");
    }
    for text in [
        "https://ex.com/a;id=1",
        "https://notngrok.com/",
        "https://tool.vercel.app/",
        "https://digit-al.vercel.app/",
        "https://tool.netlify.app/",
        "https://tool.pages.dev/",
        "https://tool-pr-agency.onrender.com/",
        "https://vercel.app/",
        "https://xn--bcher-kva.de/",
        "https://myexample.com/",
        "https://ex.com/a:b",
        "https://ex.com/:1",
        "https://ex.com/?$filter=a&$expand=x($select=y;$top=1)",
        "https://ex.com/Products('7')",
    ] {
        assert_eq!(codes_of(text, Mode::Producer), [] as [&str; 0], "{text}");
    }
}

// req: MAN-008
#[test]
fn length_counts_after_normalisation() {
    let check = |text: &str| {
        let source = format!("\"{text}\"");
        let document = json::read(source.as_bytes(), Limits::default()).document.expect("JSON");
        let mut context = Context::new(Mode::Consumer);
        check_length(document.root(), HttpsUrl::parse(text).expect("a URL").normalized(), &mut context);
        context.findings.is_empty()
    };
    let path = |bytes: usize| "a".repeat(bytes - "https://ex.com/".len());
    assert!(check(&format!("https://ex.com/{}", path(MAX_URL_BYTES))));
    assert!(!check(&format!("https://ex.com/{}", path(MAX_URL_BYTES + 1))));
    let padded = format!("https://ex.com:443/{}", path(MAX_URL_BYTES));
    assert_eq!(padded.len(), MAX_URL_BYTES + 4);
    assert!(check(&padded));
}

// req: URL-005, URL-006
#[test]
fn origins() {
    let same = |a: &str, b: &str| {
        let (a, b) = (HttpsUrl::parse(a).expect("a URL"), HttpsUrl::parse(b).expect("a URL"));
        assert_eq!(a.same_origin(&b), a.origin() == b.origin());
        a.same_origin(&b)
    };
    assert!(same("https://h.com/p?q=1#f", "HTTPS://H.com:443"));
    assert!(same("https://h.com:8443/", "https://h.com:8443"));
    assert!(!same("https://h.com:8443/", "https://h.com"));
    assert!(!same("https://sub.h.com/", "https://h.com"));
    assert_eq!(Origin::parse("https://H.com:443").map(|origin| origin.to_string()), Ok("https://h.com".to_owned()));
    assert!(Origin::parse("https://h.com/").is_err());
}

/// Texts close to URLs: correct parts and nearly correct ones, in the right order.
fn near_url() -> impl Strategy<Value = String> {
    let scheme = prop_oneof![8 => Just("https://"), 1 => Just("HTTPS://"), 1 => Just("http://"), 1 => Just("https:/")];
    let host = prop_oneof![
        4 => "[a-z0-9.-]{1,20}",
        2 => "[a-zA-Z0-9]{1,5}(\\.[a-z]{2,4}){1,2}",
        1 => "xn--[a-z0-9-]{1,10}\\.com",
        1 => "[0-9]{1,3}(\\.[0-9]{1,3}){1,3}",
        1 => "\\[[0-9a-f:]{2,20}\\]",
        1 => "0x[0-9a-f]{0,8}",
        1 => "[ -~]{1,12}",
        1 => "\\PC{1,6}",
    ];
    let port = prop_oneof![4 => Just(String::new()), 1 => ":[0-9]{0,6}"];
    let rest = prop_oneof![
        4 => "(/[a-zA-Z0-9._~!$&'()*+,;=:@%-]{0,6}){0,4}(\\?[a-z0-9=&'/?%~-]{0,8})?(#[a-z0-9/?!]{0,6})?",
        1 => "[/?#][ -~]{0,20}",
        1 => "(/(%2[eE]|\\.){0,3}){1,3}",
        1 => "/\\PC{0,8}",
    ];
    (scheme, host, port, rest).prop_map(|(scheme, host, port, rest)| format!("{scheme}{host}{port}{rest}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    // req: URL-007
    #[test]
    fn normalisation_is_idempotent(text in near_url()) {
        if let Ok(url) = HttpsUrl::parse(&text) {
            let again = HttpsUrl::parse(url.normalized());
            prop_assert_eq!(again.as_ref().map(HttpsUrl::normalized), Ok(url.normalized()));
            prop_assert_eq!(again.ok(), Some(url));
        }
    }

    #[test]
    fn whatwg_agrees_with_whatever_producers_may_write(text in near_url()) {
        if let Ok(url) = HttpsUrl::parse_exact(&text) {
            prop_assert_eq!(agrees_with_whatwg(&url), Ok(()));
            prop_assert_eq!(url.normalized(), &text);
        }
    }

    #[test]
    fn spans_lie_inside_the_text(text in prop_oneof![any::<String>(), near_url()]) {
        for fault in HttpsUrl::faults(&text) {
            prop_assert!(fault.span.start <= fault.span.end && fault.span.end <= text.len(), "{:?}", fault);
        }
        let _ = image::ImageUri::classify(&text);
        let _ = well_known::WellKnown::parse(&text);
        let shown = display_host(&text).text;
        prop_assert_eq!(crate::text::escape_for_display(&shown), shown.as_str());
        prop_assert!(!confusable_with(&text, &text));
        let _ = codes_of(&text, Mode::Producer);
    }
}

/// Compares with the `url` crate: scheme, host and port equal, and the text prints unchanged.
fn agrees_with_whatwg(url: &HttpsUrl) -> Result<(), String> {
    let theirs = ::url::Url::parse(url.normalized()).map_err(|error| format!("{url}: {error}"))?;
    let printed = theirs.as_str();
    let mut expected = url.normalized().to_owned();
    if url.path().is_empty() {
        expected.insert(url.path, '/');
    }
    let same = theirs.scheme() == "https"
        && theirs.host_str() == Some(url.host())
        && theirs.port() == url.explicit_port()
        && theirs.username().is_empty()
        && theirs.password().is_none()
        && printed == expected;
    if same { Ok(()) } else { Err(format!("{url} became {printed}")) }
}

#[test]
fn faults_lie_on_characters() {
    for text in [
        "https:\u{58b}x",
        "https:/\u{58b}x",
        "https:/a\u{58b}",
        "https:\\\u{58b}",
        "https://\u{58b}:\u{58b}/%\u{58b}",
        "\u{58b}:/",
        "https:",
    ] {
        for fault in HttpsUrl::faults(text) {
            let (start, end) = (fault.span.start, fault.span.end);
            assert!(text.get(start..end).is_some(), "{text:?}: {fault:?}");
        }
    }
}
