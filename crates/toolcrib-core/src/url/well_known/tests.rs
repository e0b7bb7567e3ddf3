use super::*;

fn endpoint(text: &str) -> HttpsUrl {
    HttpsUrl::parse(text).expect("an endpoint")
}

/// The ids of the findings of check 2.
fn binding(metadata_uri: &str, at: &str) -> Vec<&'static str> {
    match check_origin_binding(metadata_uri, &endpoint(at)) {
        Ok(_) => Vec::new(),
        Err(findings) => {
            assert!(!findings.is_empty());
            findings.iter().map(|finding| finding.code.id()).collect()
        }
    }
}

// req: URL-001, URL-004, URL-006
#[test]
fn good_bindings() {
    for (uri, at, slug) in [
        ("https://weather-oracle.example.com/.well-known/ai-tool/weather.json", "https://weather-oracle.example.com", "weather"),
        ("https://opensea.io/.well-known/ai-tool/search.json", "https://opensea.io/api/search?x=1#f", "search"),
        ("HTTPS://Tools.Example.com:443/.well-known/ai-tool/x.json", "https://tools.example.com/api", "x"),
        ("https://h.com:8443/.well-known/ai-tool/a--b.json", "https://h.com:8443/", "a--b"),
    ] {
        assert_eq!(check_origin_binding(uri, &endpoint(at)).map(|slug| slug.to_string()), Ok(slug.to_owned()), "{uri}");
        let parsed = WellKnown::parse(uri).expect("a metadata URI");
        assert_eq!(metadata_uri(&parsed.origin(), parsed.slug()), parsed.url().normalized());
        assert_eq!(lint_normalisation(uri, &parsed).is_some(), uri.starts_with("HTTPS"));
    }
}

// req: URL-004, URL-005, URL-010, URL-011, URL-012, URL-014
#[test]
fn one_code_for_each_require_line() {
    let long = format!("https://h.com/.well-known/ai-tool/{}.json", "a".repeat(65));
    for (uri, expected) in [
        ("http://h.com/.well-known/ai-tool/x.json", "url.metadata_not_https"),
        ("ipfs://Qm/.well-known/ai-tool/x.json", "url.metadata_not_https"),
        ("data:application/json,1", "url.metadata_not_https"),
        ("//h.com/.well-known/ai-tool/x.json", "url.metadata_not_https"),
        ("", "url.metadata_not_https"),
        ("https://user@h.com/.well-known/ai-tool/x.json", "url.metadata_malformed"),
        ("https://h.com/./.well-known/ai-tool/x.json", "url.well_known_prefix"),
        ("https://h.com/.well-known/ai-tool/./x.json", "url.slug_grammar"),
        ("https://bücher.example/.well-known/ai-tool/x.json", "url.metadata_not_ace"),
        ("https://h.com/.well-known/ai-tool/x.json?", "url.metadata_query"),
        ("https://h.com/.well-known/ai-tool/x.json?a=1", "url.metadata_query"),
        ("https://h.com/.well-known/ai-tool/x.json#", "url.metadata_fragment"),
        ("https://sub.h.com/.well-known/ai-tool/x.json", "url.origin_host"),
        ("https://h.com:8443/.well-known/ai-tool/x.json", "url.origin_port"),
        ("https://h.com/ai-tool/x.json", "url.well_known_prefix"),
        ("https://h.com//.well-known/ai-tool/x.json", "url.well_known_prefix"),
        ("https://h.com/.Well-Known/ai-tool/x.json", "url.well_known_prefix"),
        ("https://h.com/.well-known/ai-tool/x.json/", "url.well_known_suffix"),
        ("https://h.com/.well-known/ai-tool/x%2Ejson", "url.well_known_suffix"),
        ("https://h.com/.well-known/ai-tool/x.JSON", "url.well_known_suffix"),
        ("https://h.com/.well-known/ai-tool/X.json", "url.slug_grammar"),
        ("https://h.com/.well-known/ai-tool/a/b.json", "url.slug_grammar"),
        ("https://h.com/.well-known/ai-tool/%61.json", "url.slug_grammar"),
        ("https://h.com/.well-known/ai-tool/-a.json", "url.slug_grammar"),
        ("https://h.com/.well-known/ai-tool/.json", "url.slug_length"),
        (&long, "url.slug_length"),
    ] {
        assert_eq!(binding(uri, "https://h.com/api"), [expected], "{uri}");
        let check = Code::find(expected).expect("declared").info().check;
        assert_eq!(check, Some(2), "{expected}");
        let on_its_own = WellKnown::parse(uri);
        assert_eq!(on_its_own.is_ok(), expected.starts_with("url.origin_"), "{uri}");
    }
}

// req: URL-014
#[test]
fn all_failures_are_given_in_the_order_of_the_rules() {
    assert_eq!(
        binding("https://h.com:1/api/manifest?x#y", "https://api.h.com/"),
        [
            "url.metadata_query",
            "url.metadata_fragment",
            "url.origin_host",
            "url.origin_port",
            "url.well_known_prefix",
            "url.well_known_suffix"
        ]
    );
}

#[test]
fn the_length_cap_counts_bytes() {
    let uri = |bytes: usize| format!("https://h.com/{}", "a".repeat(bytes - "https://h.com/".len()));
    assert!(!WellKnown::parse(&uri(MAX_URL_BYTES)).expect_err("refused").contains(&WellKnownFault::TooLong(MAX_URL_BYTES)));
    assert_eq!(WellKnown::parse(&uri(MAX_URL_BYTES + 1)), Err(vec![WellKnownFault::TooLong(MAX_URL_BYTES + 1)]));
}

#[test]
fn moves_and_prefixes_are_named() {
    let message = |uri: &str, at: &str| check_origin_binding(uri, &endpoint(at)).expect_err("refused")[0].message.clone();
    for (uri, at, says) in [
        ("https://www.h.com/.well-known/ai-tool/x.json", "https://h.com", "`www.`"),
        ("https://h.com/.well-known/ai-tool/x.json", "https://api.h.com", "endpoint is on a subdomain"),
        ("https://docs.h.com/.well-known/ai-tool/x.json", "https://h.com", "manifest is on a subdomain"),
        ("https://a.h.com/.well-known/ai-tool/x.json", "https://b.h.com", "sibling"),
        ("https://tool.vercel.app/.well-known/ai-tool/x.json", "https://tool.xyz", "custom domain"),
        ("https://a.vercel.app/.well-known/ai-tool/x.json", "https://b.vercel.app", "unrelated"),
        ("https://a.com/.well-known/ai-tool/x.json", "https://b.com", "unrelated"),
        ("https://h.com/agent/.well-known/ai-tool/x.json", "https://h.com", "it is preceded by `/agent`"),
        ("https://h.com/.WELL-known/ai-tool/x.json", "https://h.com", "lower case"),
        ("https://h.com/.well-known/agent/x.json", "https://h.com", "the well-known name in the path is not `ai-tool`"),
        ("https://h.com/api/manifest.json", "https://h.com", "another route"),
    ] {
        let message = message(uri, at);
        assert!(message.contains(says), "{uri} {at}: {message}");
    }
}
