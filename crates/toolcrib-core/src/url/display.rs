//! How a host is displayed to people.
//!
//! ERC-8257 requires a display policy such as UTS #39. Toolcrib's policy: a name is shown in its own script if each of its labels satisfies
//! the Highly Restrictive level (one script, or Latin with Japanese, Chinese or Korean), has only characters of the General Security
//! Profile, uses one set of digits, and does not look like ASCII. Every other name is shown as `xn--`, with a finding that says why. The
//! address itself is always the ASCII form; do not use this module to compare origins.
//!
//! It does not check whether a host imitates a particular well-known one. Callers that know the expected host use [`confusable_with`].

use std::collections::BTreeSet;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};
use unicode_script::{Script, UnicodeScript};
use unicode_security::{GeneralSecurityProfile, MixedScript};

use super::to_ascii;
use crate::codes::{self, Code};
use crate::finding::Finding;
use crate::text::escape_for_display;

/// A host as it is displayed, and the findings about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDisplay {
    /// The text to display. It has no characters that move a cursor or change the direction of text.
    pub text: String,
    /// The host in ASCII and lower case, which is resolved and compared.
    pub ascii: String,
    /// The host in Unicode, if it has labels in another form than ASCII that can be decoded. It is displayed only if it equals
    /// [`HostDisplay::text`].
    pub unicode: Option<String>,
    /// Why the host is shown as `xn--`; empty if it is harmless.
    pub findings: Vec<Finding>,
}

/// Decides how to display a host, given in ASCII or in Unicode.
///
/// ```
/// use toolcrib_core::url::display_host;
///
/// assert_eq!(display_host("xn--bcher-kva.example").text, "bücher.example");
/// let imitation = display_host("xn--80ak6aa92e.com");
/// assert_eq!(imitation.text, "xn--80ak6aa92e.com");
/// assert_eq!(imitation.findings[0].code.id(), "url.confusable_host");
/// ```
pub fn display_host(host: &str) -> HostDisplay {
    let lower = host.to_ascii_lowercase();
    if lower.is_ascii() && !lower.split('.').any(|label| label.starts_with("xn--")) {
        return HostDisplay { text: escape_for_display(&lower), ascii: lower, unicode: None, findings: Vec::new() };
    }
    let Some((ascii, unicode)) = decode(&lower) else {
        let text = lower.escape_default().to_string();
        let finding = Finding::new(codes::url::INVALID_PUNYCODE).got(&lower);
        return HostDisplay { ascii: text.clone(), text, unicode: None, findings: vec![finding] };
    };
    if unicode == ascii {
        return HostDisplay { text: ascii.clone(), ascii, unicode: None, findings: Vec::new() };
    }
    let mut findings: Vec<Finding> = Vec::new();
    let top = unicode.rsplit('.').next().unwrap_or_default();
    for label in unicode.split('.').filter(|label| !label.is_ascii()) {
        for (code, message) in faults(label, top) {
            // One finding of each kind suffices for a host.
            if findings.iter().all(|finding| finding.code != code) {
                findings.push(Finding::new(code).message(message).got(&ascii));
            }
        }
    }
    // If directions mix, the order of the labels on screen depends on the text around the host.
    let is_shown = findings.is_empty() && !mixes_directions(&unicode);
    HostDisplay { text: if is_shown { unicode.clone() } else { ascii.clone() }, ascii, unicode: Some(unicode), findings }
}

/// The skeleton of a host: hosts with the same skeleton can be confused.
///
/// It is the skeleton of UTS #39 §4, plus rules for hosts only: they are in lower case, small capitals resemble small letters, and so do a
/// few sequences. For comparison only; a skeleton is not a host.
fn skeleton(host: &str) -> String {
    let lower = host.to_lowercase();
    let unicode =
        if lower.is_ascii() && !lower.contains("xn--") { lower } else { decode(&lower).map_or(lower, |(_, unicode)| unicode) };
    let mut out = String::with_capacity(unicode.len());
    // The table returns capitals for some digits, such as O for zero.
    for c in unicode_security::skeleton(&unicode).flat_map(char::to_lowercase) {
        match TWINS.iter().find(|(twins, _)| twins.contains(c)) {
            Some((_, ascii)) => out.push_str(ascii),
            None => out.push(c),
        }
    }
    out.replace("vv", "w")
}

/// Whether two different hosts can be confused.
///
/// ```
/// use toolcrib_core::url::confusable_with;
///
/// assert!(confusable_with("rnarket.example", "market.example"));
/// assert!(!confusable_with("market.example", "MARKET.example"), "the same host");
/// ```
pub fn confusable_with(a: &str, b: &str) -> bool {
    let plain = |host: &str| {
        let lower = host.to_ascii_lowercase();
        decode(&lower).map_or(lower, |(ascii, _)| ascii)
    };
    plain(a) != plain(b) && skeleton(a) == skeleton(b)
}

/// Characters that resemble small ASCII letters and digits in a name, beyond the table of UTS #39, which compares shapes more strictly and
/// distinguishes small capitals from small letters. The left side is the output of that table.
const TWINS: &[(&str, &str)] = &[
    ("\u{138}", "k"),        // к, κ
    ("\u{1d1b}", "t"),       // т
    ("\u{28d}", "rn"),       // м; the table writes m so
    ("\u{29c}", "h"),        // н
    ("\u{299}\u{185}", "b"), // в, ь
    ("\u{3c0}\u{3b7}", "n"), // п, η
    ("\u{3c4}", "t"),        // τ
    ("\u{3c9}", "w"),        // ω
    ("\u{25c}\u{292}", "3"), // з, ӡ
    ("\u{447}", "4"),        // ч
];

/// Latin letters that the table maps to two others, but that are separate letters to their readers.
const OWN_LETTERS: &[char] = &['\u{e6}', '\u{153}'];

/// Cyrillic letters beyond the table that make a word resemble an ASCII one (п, ь). The rest of [`TWINS`] is not used here: with к, т, м, н
/// and в most Russian words would be rejected.
const ALONE: &[(char, char)] = &[('\u{43f}', 'n'), ('\u{44c}', 'b')];

/// Characters that would end the host in a URL.
const SEPARATORS: &[char] = &['.', '/', '\\', ':', '?', '#', '@', '%', '=', '&'];

/// Longest sequence of marks on one letter: UTS #39 §5.4.
const MAX_MARKS: usize = 4;

/// The ASCII and the Unicode form of a host in lower case.
fn decode(host: &str) -> Option<(String, String)> {
    let ascii = to_ascii(host)?;
    let (unicode, valid) = idna::domain_to_unicode(&ascii);
    valid.is_ok().then_some((ascii, unicode))
}

/// The reasons not to show a label in Unicode.
fn faults(label: &str, top: &str) -> Vec<(Code, String)> {
    let mut faults = Vec::new();
    if let Some(c) = label.chars().find(|&c| is_ignorable(c)) {
        faults.push((codes::url::INVISIBLE_IN_HOST, format!("the host has the invisible character {}", named(c))));
    }
    let is_uncommon = |c: &char| !c.is_ascii() && !is_ignorable(*c) && !c.identifier_allowed();
    if let Some(c) = label.chars().find(is_uncommon) {
        faults.push((codes::url::UNCOMMON_CHARACTER, format!("the host has the uncommon character {}", named(c))));
    }
    if !is_highly_restrictive(label) {
        let scripts: BTreeSet<_> = label.chars().map(|c| c.script()).filter(is_real).map(Script::full_name).collect();
        let scripts = scripts.into_iter().collect::<Vec<_>>().join(" and ");
        faults.push((codes::url::MIXED_SCRIPT, format!("a label of the host mixes {scripts} letters")));
    }
    let zeros: BTreeSet<_> = label.chars().filter_map(zero_of).collect();
    if zeros.len() > 1 {
        faults.push((codes::url::MIXED_NUMERALS, codes::url::MIXED_NUMERALS.title().to_owned()));
    }
    if let Some(message) = lookalike(label, top) {
        faults.push((codes::url::CONFUSABLE_HOST, message));
    }
    faults
}

/// Whether the scripts of a label are compatible: UTS #39 §5.2, levels Single Script and Highly Restrictive. Uncommon characters are
/// checked separately.
fn is_highly_restrictive(label: &str) -> bool {
    if label.is_single_script() {
        return true;
    }
    let others: String = label.chars().filter(|c| !c.script_extension().contains_script(Script::Latin)).collect();
    let scripts = others.as_str().resolve_script_set();
    scripts.jpan || scripts.hanb || scripts.kore
}

/// What a label can be confused with.
fn lookalike(label: &str, top: &str) -> Option<String> {
    let is_host_text = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let mut twin = String::new();
    for c in label.chars() {
        match ALONE.iter().find(|(letter, _)| *letter == c) {
            Some((_, ascii)) => twin.push(*ascii),
            None if c.is_ascii() || OWN_LETTERS.contains(&c) => twin.push(c),
            None => twin.extend(prototype(c)),
        }
    }
    // If the whole name is in another script, including the top-level domain, its letters are not mistaken for Latin ones.
    if is_host_text(&twin) && !shares_script(label, top) {
        return Some(format!("a label of the host looks like `{}`", twin.to_ascii_lowercase()));
    }
    let letters: Vec<char> = label.chars().collect();
    let is_separator = |c: char| !c.is_ascii() && prototype(c).any(|p| SEPARATORS.contains(&p));
    let is_word = |c: Option<&char>| c.is_some_and(|&c| !c.is_ascii() && c.is_alphanumeric() && !is_separator(c));
    for (at, &c) in letters.iter().enumerate() {
        // Between letters of its own script such a character reads correctly: the Katakana no, the Arabic zero.
        if is_separator(c) && !is_word(at.checked_sub(1).and_then(|before| letters.get(before))) && !is_word(letters.get(at + 1))
        {
            return Some(format!("a label of the host has {}, which looks like a separator", named(c)));
        }
    }
    odd_marks(&letters).then(|| "a label of the host has combining marks that look alike".to_owned())
}

/// Marks that overlap: UTS #39 §5.4. A dot above i and j is invisible.
fn odd_marks(letters: &[char]) -> bool {
    let mut run: Vec<char> = Vec::new();
    let mut base = ' ';
    for &c in letters {
        if c.general_category() != GeneralCategory::NonspacingMark {
            base = c;
            run.clear();
            continue;
        }
        if run.contains(&c) || run.len() == MAX_MARKS || (c == '\u{307}' && matches!(base, 'i' | 'j' | 'l' | '\u{131}')) {
            return true;
        }
        run.push(c);
    }
    false
}

fn prototype(c: char) -> impl Iterator<Item = char> {
    let mut buffer = [0; 4];
    unicode_security::skeleton(c.encode_utf8(&mut buffer)).collect::<Vec<_>>().into_iter()
}

/// Whether the top-level label is in the script of this one, and does not look like ASCII either.
fn shares_script(label: &str, top: &str) -> bool {
    let mut both = label.resolve_script_set();
    both.intersect_with(top.resolve_script_set());
    !top.is_ascii() && !both.is_empty() && !unicode_security::skeleton(top).all(|c| c.is_ascii())
}

fn mixes_directions(host: &str) -> bool {
    // The other right-to-left scripts are in limited use and are rejected before.
    let is_rtl = |c: char| matches!(c.script(), Script::Arabic | Script::Hebrew | Script::Thaana);
    let is_rtl_label = |label: &str| label.chars().any(is_rtl);
    host.split('.').any(is_rtl_label) && !host.split('.').all(is_rtl_label)
}

/// Invisible characters: `Default_Ignorable_Code_Point`.
fn is_ignorable(c: char) -> bool {
    !c.is_ascii() && prototype(c).next().is_none()
}

fn is_real(script: &Script) -> bool {
    !matches!(script, Script::Common | Script::Inherited | Script::Unknown)
}

/// The zero of the numeral system of a decimal digit. The digits of a system are ten consecutive code points; where systems are adjacent,
/// as with mathematical digits, they are counted from the first.
fn zero_of(c: char) -> Option<u32> {
    /// The mathematical digits are five systems.
    const LONGEST: u32 = 50;
    let is_digit = |at: u32| {
        char::from_u32(at).is_some_and(|c| {
            if c.is_ascii() { c.is_ascii_digit() } else { c.general_category() == GeneralCategory::DecimalNumber }
        })
    };
    let at = u32::from(c);
    if !is_digit(at) {
        return None;
    }
    let start = (1..LONGEST).map_while(|back| at.checked_sub(back).filter(|&before| is_digit(before))).last().unwrap_or(at);
    Some(at - (at - start) % 10)
}

fn named(c: char) -> String {
    format!("U+{:04X}", u32::from(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: &[&str] = &[];

    /// A host in Unicode, whether it is shown so, and the codes of its findings.
    #[track_caller]
    fn check(unicode: &str, shown: bool, expected: &[&str]) {
        let ascii = to_ascii(unicode).unwrap_or_else(|| panic!("{unicode} is no host"));
        for host in [unicode, &ascii, &ascii.to_uppercase()] {
            let display = display_host(host);
            let found: Vec<_> = display.findings.iter().map(|finding| finding.code.id()).collect();
            assert_eq!(found, expected, "{host} ({ascii})");
            assert_eq!(display.ascii, ascii);
            assert_eq!(display.text, if shown { unicode } else { ascii.as_str() }, "{host}");
            assert_eq!(display.unicode.as_deref(), Some(unicode), "{host}");
            assert_eq!(escape_for_display(&display.text), display.text, "{host}");
        }
    }

    // req: RENDER-010
    #[test]
    fn names_in_one_script_are_shown_as_they_are() {
        for host in [
            "b\u{fc}cher.example",
            "stra\u{df}e.de",
            "sm\u{f8}rrebr\u{f8}d.dk",
            "\u{e6}bleskiver.dk",
            "\u{0142}\u{f3}d\u{017a}.pl",
            "\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}.com",            // привет
            "\u{43c}\u{43e}\u{441}\u{43a}\u{432}\u{430}.\u{440}\u{444}", // москва.рф
            "\u{440}\u{43e}\u{441}\u{430}.\u{440}\u{444}",               // роса.рф: twins of Latin, but Cyrillic to the end
            "\u{3b5}\u{3bb}\u{3bb}\u{3ac}\u{3b4}\u{3b1}.gr",
            "\u{65e5}\u{672c}\u{8a9e}.jp",
            "\u{30bd}\u{30cb}\u{30fc}.jp",
            "\u{4e00}\u{30ce}\u{702c}.jp", // the Katakana no among its own
            "\u{d55c}\u{ad6d}.kr",
            "\u{e44}\u{e17}\u{e22}.example",
            "\u{915}\u{92e}\u{932}.in",
        ] {
            check(host, true, NO);
        }
    }

    // req: RENDER-010
    #[test]
    fn latin_may_stand_beside_japanese_chinese_and_korean() {
        check("t\u{30b7}\u{30e3}\u{30c4}.jp", true, NO);
        check("\u{65e5}\u{672c}\u{306e}\u{30c6}abc.jp", true, NO);
        // Bopomofo is compatible with Han, but is in limited use.
        check("abc\u{4e2d}\u{3105}.tw", false, &["url.uncommon_character"]);
        check("abc\u{d55c}\u{6f22}.kr", true, NO);
        // But not those three together.
        check("\u{d55c}\u{306e}.kr", false, &["url.mixed_script"]);
        check("\u{3105}\u{306e}.tw", false, &["url.uncommon_character", "url.mixed_script"]);
    }

    // req: RENDER-010
    #[test]
    fn mixed_scripts_are_shown_in_ascii() {
        check("p\u{430}ypal.com", false, &["url.mixed_script", "url.confusable_host"]);
        check("g\u{3bf}\u{3bf}gle.com", false, &["url.mixed_script", "url.confusable_host"]);
        check("\u{3b1}\u{431}\u{432}.com", false, &["url.mixed_script"]);
        check("abc\u{434}\u{444}.com", false, &["url.mixed_script"]);
        // Moderately Restrictive would allow it.
        check("abc\u{e01}\u{e02}.com", false, &["url.mixed_script"]);
        let message = &display_host("p\u{430}ypal.com").findings[0].message;
        assert_eq!(message, "a label of the host mixes Cyrillic and Latin letters");
    }

    // req: RENDER-010
    #[test]
    fn lookalikes_in_one_script_are_shown_in_ascii() {
        check("\u{430}\u{440}\u{440}\u{4cf}\u{435}.com", false, &["url.confusable_host"]); // apple
        check("\u{440}\u{430}\u{443}\u{440}\u{430}\u{4cf}.com", false, &["url.confusable_host"]);
        check("\u{43e}\u{440}\u{435}\u{43f}.com", false, &["url.confusable_host"]); // open
        check("\u{3bf}\u{3c1}.com", false, &["url.confusable_host"]);
        check("w\u{131}k\u{131}.com", false, &["url.confusable_host"]);
        // The top-level domain does not help if it looks like ASCII itself.
        check("\u{430}\u{440}\u{440}\u{4cf}\u{435}.\u{441}\u{43e}\u{440}", false, &["url.confusable_host"]);
        // One letter without a lookalike makes it readable.
        check("\u{430}\u{440}\u{440}\u{4cf}\u{435}\u{444}.com", true, NO);
        let finding = &display_host("xn--80ak6aa92e.com").findings[0];
        assert_eq!(finding.message, "a label of the host looks like `apple`");
        assert_eq!(finding.got.as_deref(), Some("xn--80ak6aa92e.com"));
    }

    // req: RENDER-010
    #[test]
    fn separators_marks_and_digits() {
        // A Katakana no between Latin letters looks like a slash.
        check("pay\u{30ce}login.jp", false, &["url.confusable_host"]);
        check("a\u{10e7}.com", false, &["url.mixed_script", "url.confusable_host"]);
        check("mi\u{307}x.com", false, &["url.confusable_host"]);
        check("a\u{915}\u{94d}.com", false, &["url.mixed_script"]);
        check("\u{967}2\u{969}.in", false, &["url.mixed_numerals"]);
        check("\u{967}\u{968}\u{969}\u{915}.in", true, NO);
        // A single Thai zero looks like the letter o.
        check("\u{e50}.com", false, &["url.confusable_host"]);
    }

    // req: RENDER-010
    #[test]
    fn invisible_and_uncommon_characters() {
        // A joiner in a position that the script allows, so that the name is valid.
        check("\u{915}\u{94d}\u{200d}\u{937}.in", false, &["url.invisible_in_host"]);
        check("\u{1f4a9}.la", false, &["url.uncommon_character"]);
        check("\u{16a0}\u{16a2}.com", false, &["url.uncommon_character"]);
    }

    #[test]
    fn directions_that_mix_are_shown_in_ascii_without_blame() {
        check("\u{5d0}\u{5d1}\u{5d2}.com", false, NO);
        check("\u{5d0}\u{5d1}\u{5d2}.\u{5d0}\u{5d1}", true, NO);
    }

    #[test]
    fn hosts_without_a_unicode_form() {
        for (host, text) in [("Ex.com", "ex.com"), ("[2001:DB8::1]", "[2001:db8::1]"), ("192.0.2.1", "192.0.2.1"), ("", "")] {
            let display = display_host(host);
            assert_eq!((display.text.as_str(), display.unicode, display.findings), (text, None, vec![]), "{host}");
        }
        // Full-width letters are ASCII after mapping.
        assert_eq!(display_host("\u{ff45}\u{ff58}.com").text, "ex.com");
        for host in ["xn--a", "xn--zzzzzzzz99999999.com", "a\u{202e}b\u{0}", "xn--bcher-kva\u{7}.com"] {
            let display = display_host(host);
            assert!(display.text.chars().all(|c| c.is_ascii() && !c.is_ascii_control()), "{host:?}");
            assert_eq!(display.findings[0].code, codes::url::INVALID_PUNYCODE, "{host:?}");
        }
        assert!(display_host(&"\u{e9}".repeat(100_000)).text.is_ascii());
    }

    #[test]
    fn hosts_that_can_be_taken_for_each_other() {
        let same = [
            ("apple.com", "xn--80ak6aa92e.com"),
            ("paypal.com", "p\u{430}ypal.com"),
            ("market.com", "rnarket.com"),
            ("g00gle.com", "google.com"),
            ("paypa1.com", "paypal.com"),
            ("vvallet.com", "wallet.com"),
            ("mikhota.com", "\u{43c}ikhota.com"),
            ("kt.com", "\u{43a}\u{442}.com"),
            ("open.com", "\u{43e}\u{440}\u{435}\u{43f}.com"),
            ("ab\u{200d}c", "abc"),
        ];
        for (a, b) in same {
            assert!(confusable_with(a, b) && confusable_with(b, a), "{a} {b}: {} {}", skeleton(a), skeleton(b));
        }
        let apart = [
            ("apple.com", "APPLE.com"),
            ("b\u{fc}cher.example", "xn--bcher-kva.example"),
            ("b\u{fc}cher.example", "bucher.example"),
            ("apple.com", "apple.org"),
            ("", ""),
        ];
        for (a, b) in apart {
            assert!(!confusable_with(a, b), "{a} {b}");
        }
    }

    #[test]
    fn the_tables_keep_up_with_the_normaliser() {
        let (major, ..) = unicode_normalization::UNICODE_VERSION;
        assert!(unicode_security::UNICODE_VERSION.0 >= 16 && unicode_security::UNICODE_VERSION.0 >= u64::from(major));
    }
}
