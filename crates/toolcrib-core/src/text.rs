//! Text: normalisation, invisible characters, and safe display.

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc, is_nfc_quick};
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Whether `text` is in Unicode Normalization Form C.
pub(crate) fn is_normalized(text: &str) -> bool {
    text.is_ascii()
        || match is_nfc_quick(text.chars()) {
            IsNormalized::Yes => true,
            IsNormalized::No => false,
            IsNormalized::Maybe => is_nfc(text),
        }
}

/// `text` in Unicode Normalization Form C.
pub fn normalize(text: &str) -> String {
    text.nfc().collect()
}

/// The number of Unicode code points.
pub fn code_points(text: &str) -> usize {
    text.chars().count()
}

/// The first control character (general category Cc) other than those in `allowed`.
pub(crate) fn first_control(text: &str, allowed: &[char]) -> Option<char> {
    text.chars().find(|c| c.is_control() && !allowed.contains(c))
}

/// Whether Unicode has not assigned this code point.
pub(crate) fn is_unassigned(c: char) -> bool {
    !c.is_ascii() && c.general_category() == GeneralCategory::Unassigned
}

/// Whether this character is invisible but changes the text around it: zero-width and direction controls, other format characters (general
/// category Cf), and letters and marks that have no glyph.
///
/// The joiners U+200C and U+200D do not count: emoji and several scripts need them. Nor do the variation selectors U+FE0E and U+FE0F, which
/// follow emoji.
pub fn is_invisible(c: char) -> bool {
    !c.is_ascii()
        && !matches!(c, '\u{200C}' | '\u{200D}')
        && (c.general_category() == GeneralCategory::Format || is_drawn_as_nothing(c))
}

/// `Default_Ignorable_Code_Point` outside Cf, without U+FE0E and U+FE0F; and the Braille blank, which looks like a space. A name can
/// consist of fillers only, and variation selectors can hide a text that only machines read.
const fn is_drawn_as_nothing(c: char) -> bool {
    matches!(
        c,
        '\u{34F}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180D}' | '\u{180F}'
            | '\u{2800}' | '\u{3164}' | '\u{FE00}'..='\u{FE0D}' | '\u{FFA0}' | '\u{E0100}'..='\u{E01EF}'
    )
}

/// Escapes what must not reach a terminal, a log or a page unescaped: control, format, separator and unassigned characters and those
/// without a glyph become `\u{…}`. Ordinary text of every script stays readable.
///
/// ```
/// use toolcrib_core::text::escape_for_display;
///
/// assert_eq!(escape_for_display("red \u{1b}[31m"), "red \\u{1b}[31m");
/// assert_eq!(escape_for_display("naïve 日本"), "naïve 日本");
/// ```
pub fn escape_for_display(text: &str) -> String {
    use std::fmt::Write;

    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let category =
            if c.is_ascii() && !c.is_ascii_control() { GeneralCategory::UppercaseLetter } else { c.general_category() };
        match category {
            GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::Surrogate
            | GeneralCategory::PrivateUse
            | GeneralCategory::Unassigned => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            _ if is_drawn_as_nothing(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: CANON-003
    #[test]
    fn tables_are_unicode_16_or_later() {
        assert!(unicode_normalization::UNICODE_VERSION >= (16, 0, 0), "{:?}", unicode_normalization::UNICODE_VERSION);
    }

    #[test]
    fn nfc_is_told_from_nfd() {
        assert!(is_normalized("caf\u{e9}"));
        assert!(!is_normalized("cafe\u{301}"));
        assert_eq!(normalize("cafe\u{301}"), "caf\u{e9}");
        // Singleton decompositions are never NFC, although they look like a single character.
        assert!(!is_normalized("\u{212B}"));
    }

    #[test]
    fn display_never_passes_a_terminal_escape_or_a_direction_mark() {
        let hostile = "a\u{1b}]0;x\u{7}\u{202e}b\u{200b}c\u{feff}\u{85}\u{2028}\r\n";
        let shown = escape_for_display(hostile);
        assert!(shown.chars().all(|c| !c.is_control() && !is_invisible(c)), "{shown}");
        assert!(shown.starts_with("a\\u{1b}]0;x\\u{7}\\u{202e}b"));
    }

    #[test]
    fn invisible_does_not_mean_joiner() {
        assert!(is_invisible('\u{202E}') && is_invisible('\u{200B}') && is_invisible('\u{FEFF}'));
        assert!(!is_invisible('\u{200D}') && !is_invisible('é'));
    }

    // req: RENDER-001
    #[test]
    fn a_name_of_blanks_is_seen_as_one() {
        for c in ['\u{3164}', '\u{115F}', '\u{FFA0}', '\u{34F}', '\u{2800}', '\u{FE00}', '\u{E0100}', '\u{E01EF}', '\u{E0041}'] {
            assert!(is_invisible(c), "{:x}", u32::from(c));
            assert_eq!(escape_for_display(&c.to_string()), format!("\\u{{{:x}}}", u32::from(c)));
        }
        // Emoji keep their selector, Korean its letters, accents their position.
        for text in ["\u{2764}\u{FE0F}", "\u{d55c}\u{ae00}", "e\u{301}"] {
            assert_eq!(escape_for_display(text), text);
        }
    }
}
