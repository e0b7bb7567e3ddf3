//! Truncates texts to the limits of other formats.

use toolcrib_core::text::code_points;

/// Replaces the end of a truncated text.
const ELLIPSIS: char = '…';

/// `text` truncated to `max` code points, ending with an ellipsis; `None` if it fits.
pub(super) fn cut_chars(text: &str, max: usize) -> Option<String> {
    if code_points(text) <= max {
        return None;
    }
    let kept: String = text.chars().take(max.saturating_sub(1)).collect();
    Some(ended(&kept))
}

/// `text` truncated to `max` bytes of UTF-8, ending with an ellipsis; `None` if it fits.
pub(super) fn cut_bytes(text: &str, max: usize) -> Option<String> {
    if text.len() <= max {
        return None;
    }
    let mut end = max.saturating_sub(ELLIPSIS.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Some(ended(&text[..end]))
}

/// Removes trailing spaces and appends the ellipsis.
fn ended(text: &str) -> String {
    format!("{}{ELLIPSIS}", text.trim_end())
}

/// Turns the id of a capability into words: `code-review` becomes `Code review`.
pub(super) fn words(id: &str) -> String {
    let spaced = id.replace('-', " ");
    let mut characters = spaced.chars();
    characters.next().map(|first| first.to_ascii_uppercase().to_string() + characters.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_their_limit_and_not_before() {
        assert_eq!(cut_chars("abc", 3), None);
        assert_eq!(cut_chars("abcd", 3).as_deref(), Some("ab…"));
        assert_eq!(cut_chars("a cd", 3).as_deref(), Some("a…"));
        assert_eq!(cut_chars("😀😀😀😀", 3).as_deref(), Some("😀😀…"));
        assert_eq!(cut_bytes("abcdef", 6), None);
        assert_eq!(cut_bytes("abcdefg", 6).as_deref(), Some("abc…"));
        // A multi-byte character is never split.
        assert_eq!(cut_bytes("é😀xyz", 8).as_deref(), Some("é…"));
        for max in 0..12 {
            for text in ["", "abcdefghijklmnop", "😀😀😀😀", "ééééééé"] {
                if let Some(cut) = cut_bytes(text, max) {
                    assert!(cut.len() <= max.max(3), "{max}: {cut}");
                }
            }
        }
    }

    #[test]
    fn ids_as_words() {
        assert_eq!(words("code-review"), "Code review");
        assert_eq!(words("3d-modeling"), "3d modeling");
        assert_eq!(words("ocr"), "Ocr");
        assert_eq!(words(""), "");
    }
}
