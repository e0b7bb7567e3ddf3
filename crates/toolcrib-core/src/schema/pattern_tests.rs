use super::*;

/// The scanner's result as a word: `ok` or the kind of the flaw.
fn verdict(pattern: &str) -> &'static str {
    match scan(pattern).map_err(|flaw| flaw.kind) {
        Ok(_) => "ok",
        Err(FlawKind::Malformed) => "malformed",
        Err(FlawKind::NotLinear) => "not linear",
        Err(FlawKind::Unsupported) => "unsupported",
        Err(FlawKind::TooLarge) => "too large",
    }
}

/// Patterns of every kind, with the scanner's result.
pub(super) const TABLE: &[(&str, &str)] = &[
    // Ordinary patterns.
    ("", "ok"),
    ("^0x[0-9a-fA-F]{40}$", "ok"),
    ("^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", "ok"),
    (r"^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z?)?$", "ok"),
    (r"^https?:\/\/[\w.\-]+(:\d+)?(\/\S*)?$", "ok"),
    ("(a+)+$", "ok"),
    ("a|b||", "ok"),
    ("()", "ok"),
    ("(?:a|b)*?c+?d??e{2,3}?", "ok"),
    ("(?<year>[0-9]{4})-(?<month>[0-9]{2})", "ok"),
    ("(?i:abc)(?s-m:.)(?-i:x)", "ok"),
    (r"[\]\[\\^-]", "ok"),
    ("[[a]", "ok"),
    ("[a-]", "ok"),
    ("[-a]", "ok"),
    ("[^a-z]", "ok"),
    ("[a&&b~~c]", "ok"),
    (r"\x41\u0041\u{1F600}\cJ\t\n\v\f\r", "ok"),
    (r"\.\*\+\?\(\)\[\]\{\}\|\^\$\/\-\_\,\ ", "ok"),
    (r"^\p{L}[\p{Lu}\p{Script=Greek}]\P{Nd}\p{General_Category=Letter}$", "ok"),
    (r"\bword\B", "ok"),
    ("日本{2}", "ok"),
    ("x{0}", "ok"),
    ("x{3,}", "ok"),
    // Not regular expressions.
    ("(", "malformed"),
    (")", "malformed"),
    ("(?", "malformed"),
    ("(?#x)", "malformed"),
    ("(?P<n>a)", "malformed"),
    ("(?i)a", "malformed"),
    ("(?x:a)", "malformed"),
    ("(?ii:a)", "malformed"),
    ("(?-:a)", "malformed"),
    ("(?i-:a)", "malformed"),
    ("(?<>a)", "malformed"),
    ("(?<1a>a)", "malformed"),
    ("(?<a", "malformed"),
    ("[", "malformed"),
    ("[a", "malformed"),
    ("[z-a]", "malformed"),
    (r"[\w-z]", "malformed"),
    (r"[a-\d]", "malformed"),
    ("]", "malformed"),
    ("a}", "malformed"),
    ("{", "malformed"),
    ("a{", "malformed"),
    ("a{x}", "malformed"),
    ("a{,3}", "malformed"),
    ("a{ 2 }", "malformed"),
    ("a{3,2}", "malformed"),
    ("*a", "malformed"),
    ("a**", "malformed"),
    ("a{2}{3}", "malformed"),
    ("a*+", "malformed"),
    ("^*", "malformed"),
    (r"\b+", "malformed"),
    ("(|*)", "malformed"),
    ("\\", "malformed"),
    ("[\\", "malformed"),
    (r"\a", "malformed"),
    (r"\A\z", "malformed"),
    (r"\e", "malformed"),
    (r"\c1", "malformed"),
    (r"\x4", "malformed"),
    (r"\u12", "malformed"),
    (r"\u{}", "malformed"),
    (r"\u{110000}", "malformed"),
    (r"\u{12", "malformed"),
    (r"\01", "malformed"),
    (r"\pL", "malformed"),
    (r"\p{Nonsense}", "malformed"),
    (r"\p{sc=}", "malformed"),
    (r"\k", "malformed"),
    (r"[\k]", "malformed"),
    (r"[\1]", "malformed"),
    // A more severe flaw wins at any position.
    ("(?=a)(", "malformed"),
    ("x{99999}(?=a)", "not linear"),
    // Backtracking.
    (r"(a)\1", "not linear"),
    (r"(?<n>a)\k<n>", "not linear"),
    ("(?=a)", "not linear"),
    ("(?!a)b", "not linear"),
    ("(?<=a)b", "not linear"),
    ("(?<!a)b", "not linear"),
    ("^(?=.*[A-Z])(?=.*[0-9]).{8,}$", "not linear"),
    ("(?=a)*", "malformed"),
    // Other dialects of regular expressions interpret these differently.
    ("[]", "unsupported"),
    ("[^]", "unsupported"),
    (r"[\b]", "unsupported"),
    (r"\0", "unsupported"),
    (r"\<a\>", "unsupported"),
    (r"\ud83d\ude00", "unsupported"),
    ("(?<a$>x)", "unsupported"),
    ("(?<a>x)|(?<a>y)", "unsupported"),
    ("\\\u{2028}", "unsupported"),
    // Size.
    ("x{10000}", "ok"),
    ("x{10001}", "too large"),
    ("(x{99}){100}", "ok"),
    ("(x{100}){100}", "too large"),
    ("(x{1000}){1000}", "too large"),
    ("((((x{10}){10}){10}){10}){10}", "too large"),
    ("x{99999999999999999999}", "too large"),
    (r"\p{L}{200}", "ok"),
    (r"\p{L}{300}", "too large"),
];

// req: HARDEN-008
#[test]
fn every_kind_of_pattern_gets_its_verdict() {
    for (pattern, wanted) in TABLE {
        assert_eq!(verdict(pattern), *wanted, "{pattern}: {:?}", scan(pattern));
    }
}

#[test]
fn group_and_name_limits_are_exact() {
    let nested = |n: usize| format!("{}x{}", "(".repeat(n), ")".repeat(n));
    assert_eq!(verdict(&nested(MAX_GROUPS)), "ok");
    assert_eq!(verdict(&nested(MAX_GROUPS + 1)), "too large");
    assert_eq!(verdict(&nested(100_000)), "too large");
    assert_eq!(verdict(&"(".repeat(100_000)), "malformed");
    let named = |n: usize| (0..n).map(|i| format!("(?<n{i}>x)")).collect::<String>();
    assert_eq!(verdict(&named(MAX_NAMES)), "ok");
    assert_eq!(verdict(&named(MAX_NAMES + 1)), "too large");
}

#[test]
fn the_place_of_a_flaw_is_named() {
    assert_eq!(scan("ab(cd").map_err(|flaw| flaw.at), Err(5));
    assert_eq!(scan(r"é\1").map_err(|flaw| flaw.at), Err(2));
    assert_eq!(scan("a[b").map_err(|flaw| flaw.at), Err(1));
}

#[test]
fn work_grows_with_the_square_of_class_escapes() {
    let work = |n: usize| scan(&r"\s".repeat(n)).expect("small").work;
    assert!(work(1) < 1_000);
    assert!(work(200) > 100 * work(10));
}

proptest::proptest! {
    #[test]
    fn no_text_upsets_the_scanner(pattern in r"[\[\](){}*+?|^$\\.,:<>=!a-c0-9dpkux\-é]{0,40}") {
        let _ = scan(&pattern);
    }
}
