//! Patterns for arguments.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::PermissionError;

/// Longest JSON pointer.
pub const MAX_POINTER_BYTES: usize = 512;

/// Longest text of a pattern, and of each value that it compares with.
pub const MAX_PATTERN_BYTES: usize = 65_536;

/// Most values of `one_of`.
pub const MAX_CHOICES: usize = 256;

/// A condition on one argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgumentPattern {
    /// A JSON pointer (RFC 6901) into the arguments: `/command`, `/files/0`, or empty for all arguments. If it points to nothing, the
    /// pattern does not match.
    pub pointer: String,
    /// The condition on the value.
    #[serde(flatten)]
    pub matcher: Matcher,
}

/// A condition on a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Matcher {
    /// Exactly this JSON value. `1` is neither `"1"` nor `1.0`.
    Equals(Value),
    /// Exactly one of these JSON values.
    OneOf(Vec<Value>),
    /// A string that begins with this text.
    Prefix(String),
    /// A string that matches this pattern, where `*` matches any characters, including none and `/`. `\*` is a star and `\\` a backslash.
    /// Nothing else is special. Matching takes time linear in the string.
    Glob(String),
    /// A string with an absolute path that is this folder or is in it, after `.` and `..` are resolved lexically.
    ///
    /// Relative paths do not match, because the tool chooses their base. Symbolic links are not resolved, since they can change before the
    /// tool opens the path; the sandbox limits what the tool can access.
    Within(String),
    /// A number that is at most this one.
    Max(Number),
    /// A number that is at least this one.
    Min(Number),
}

impl ArgumentPattern {
    /// Creates a pattern. Fails if it is invalid.
    pub fn new(pointer: impl Into<String>, matcher: Matcher) -> Result<Self, PermissionError> {
        let pattern = Self { pointer: pointer.into(), matcher };
        pattern.check()?;
        Ok(pattern)
    }

    /// Whether the arguments match.
    pub fn matches(&self, arguments: &Value) -> bool {
        let Some(value) = arguments.pointer(&self.pointer) else { return false };
        match (&self.matcher, value) {
            (Matcher::Equals(expected), value) => value == expected,
            (Matcher::OneOf(choices), value) => choices.contains(value),
            (Matcher::Prefix(prefix), Value::String(text)) => text.starts_with(prefix),
            (Matcher::Glob(pattern), Value::String(text)) => glob(pattern, text),
            (Matcher::Within(folder), Value::String(path)) => is_within(folder, path),
            (Matcher::Max(limit), Value::Number(number)) => is_at_most(number, limit),
            (Matcher::Min(limit), Value::Number(number)) => is_at_most(limit, number),
            _ => false,
        }
    }

    /// Checks what deserialization cannot.
    pub(super) fn check(&self) -> Result<(), PermissionError> {
        let wrong = |why: String| Err(PermissionError::Rule(why));
        let pointer = toolcrib_core::text::escape_for_display(&self.pointer);
        if self.pointer.len() > MAX_POINTER_BYTES {
            return wrong(format!("a pointer has {} bytes; the limit is {MAX_POINTER_BYTES}", self.pointer.len()));
        }
        if !is_pointer(&self.pointer) {
            return wrong(format!("`{pointer}` is not a JSON pointer: expected `/name`, or empty for all arguments"));
        }
        let (texts, choices): (Vec<usize>, _) = match &self.matcher {
            Matcher::Equals(value) => (vec![value.to_string().len()], 1),
            Matcher::OneOf(values) => (values.iter().map(|value| value.to_string().len()).collect(), values.len()),
            Matcher::Prefix(text) | Matcher::Glob(text) | Matcher::Within(text) => (vec![text.len()], 1),
            Matcher::Max(_) | Matcher::Min(_) => (Vec::new(), 1),
        };
        if let Some(length) = texts.into_iter().find(|&length| length > MAX_PATTERN_BYTES) {
            return wrong(format!("the pattern for `{pointer}` has {length} bytes; the limit is {MAX_PATTERN_BYTES}"));
        }
        if choices > MAX_CHOICES {
            return wrong(format!("the pattern for `{pointer}` has {choices} values; the limit is {MAX_CHOICES}"));
        }
        match &self.matcher {
            Matcher::Glob(pattern) if segments(pattern).is_none() => {
                wrong(format!("the glob for `{pointer}` has a backslash before another character than `*` or a backslash"))
            }
            Matcher::Within(folder) if components(folder).is_none() => {
                wrong(format!("the folder for `{pointer}` is not an absolute path"))
            }
            _ => Ok(()),
        }
    }
}

fn is_pointer(text: &str) -> bool {
    let escapes = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    (text.is_empty() || text.starts_with('/')) && escapes
}

/// The literal parts between stars. `None` for an unknown escape.
fn segments(pattern: &str) -> Option<Vec<String>> {
    let mut segments = vec![String::new()];
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        let literal = match c {
            '*' => {
                segments.push(String::new());
                continue;
            }
            '\\' => characters.next().filter(|escaped| matches!(escaped, '*' | '\\'))?,
            _ => c,
        };
        if let Some(last) = segments.last_mut() {
            last.push(literal);
        }
    }
    Some(segments)
}

/// Each part is searched once, from the end of the previous match: the leftmost match leaves the most text for the following parts. The
/// search is linear (two-way), so the whole match is.
fn glob(pattern: &str, text: &str) -> bool {
    let Some(segments) = segments(pattern) else { return false };
    let (Some((first, rest)), Some(mut left)) =
        (segments.split_first(), segments.first().and_then(|first| text.strip_prefix(first.as_str())))
    else {
        return false;
    };
    let Some((last, middle)) = rest.split_last() else { return text == first };
    for part in middle {
        let Some(at) = left.find(part.as_str()) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last.as_str())
}

/// The parts of an absolute path after `.` and `..` are resolved. `None` for a relative path and for one with NUL.
fn components(path: &str) -> Option<Vec<&str>> {
    if !path.starts_with('/') || path.contains('\0') {
        return None;
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    Some(parts)
}

fn is_within(folder: &str, path: &str) -> bool {
    match (components(folder), components(path)) {
        (Some(folder), Some(path)) => path.starts_with(&folder),
        _ => false,
    }
}

/// Exact, even for integers that a double cannot represent.
fn is_at_most(number: &Number, limit: &Number) -> bool {
    match (integer(number), integer(limit), number.as_f64(), limit.as_f64()) {
        (Some(number), Some(limit), ..) => number <= limit,
        // Casts of doubles to integers saturate.
        (Some(number), None, _, Some(limit)) => number <= limit.floor() as i128,
        (None, Some(limit), Some(number), _) => number.ceil() as i128 <= limit,
        (None, None, Some(number), Some(limit)) => number <= limit,
        _ => false,
    }
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use toolcrib_testkit::assert_faster_than;

    use super::*;

    fn matches(pointer: &str, matcher: Matcher, arguments: &Value) -> bool {
        ArgumentPattern::new(pointer, matcher).unwrap().matches(arguments)
    }

    fn number(value: Value) -> Number {
        value.as_number().unwrap().clone()
    }

    #[test]
    fn globs_have_one_special_character() {
        for (pattern, text, expected) in [
            ("git *", "git status", true),
            ("git *", "git ", true),
            ("git *", "git", false),
            ("git *", "rgit x", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("**", "anything/at\nall", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*.rs", "src/main.rs", true),
            ("ab*ba", "aba", false),
            (r"\**", "*x", true),
            (r"\**", "x", false),
            (r"a\\b", r"a\b", true),
            ("[a]?", "[a]?", true),
            ("[a]?", "ab", false),
            ("ä*ö", "äxö", true),
        ] {
            assert_eq!(matches("/x", Matcher::Glob(pattern.to_owned()), &json!({"x": text})), expected, "{pattern} {text}");
        }
        for wrong in ["a\\", r"\a", r"\?"] {
            assert!(ArgumentPattern::new("/x", Matcher::Glob(wrong.to_owned())).is_err(), "{wrong}");
        }
    }

    #[test]
    fn globs_take_linear_time() {
        let pattern = ArgumentPattern::new("", Matcher::Glob(format!("{}b", "a*".repeat(5_000)))).unwrap();
        let text = Value::String("a".repeat(1_000_000));
        let found = assert_faster_than(Duration::from_secs(2), "a glob of 5,000 stars over 1 MB", || pattern.matches(&text));
        assert!(!found);
    }

    #[test]
    fn nothing_is_converted() {
        let arguments = json!({"s": "1", "n": 1, "f": 1.0, "b": true, "z": null, "l": ["x"]});
        for (pointer, matcher, expected) in [
            ("/n", Matcher::Equals(json!(1)), true),
            ("/s", Matcher::Equals(json!(1)), false),
            ("/n", Matcher::Equals(json!("1")), false),
            ("/f", Matcher::Equals(json!(1)), false),
            ("/b", Matcher::Equals(json!("true")), false),
            ("/z", Matcher::Equals(json!(null)), true),
            ("/missing", Matcher::Equals(json!(null)), false),
            ("/n", Matcher::Glob("*".to_owned()), false),
            ("/l", Matcher::Glob("*".to_owned()), false),
            ("/l/0", Matcher::Glob("x".to_owned()), true),
            ("/n", Matcher::Prefix(String::new()), false),
            ("/s", Matcher::Prefix(String::new()), true),
            ("/s", Matcher::Max(number(json!(5))), false),
            ("/s", Matcher::OneOf(vec![json!(1), json!("2")]), false),
            ("/s", Matcher::OneOf(vec![json!("2"), json!("1")]), true),
            ("/s", Matcher::OneOf(Vec::new()), false),
            ("", Matcher::Equals(arguments.clone()), true),
        ] {
            assert_eq!(matches(pointer, matcher.clone(), &arguments), expected, "{pointer} {matcher:?}");
        }
    }

    #[test]
    fn numbers_are_compared_exactly() {
        let big = 9_007_199_254_740_993_u64;
        for (value, limit, expected) in [
            (json!(5), json!(5), true),
            (json!(6), json!(5), false),
            (json!(-6), json!(5), true),
            (json!(5.5), json!(5), false),
            (json!(5), json!(5.5), true),
            (json!(6), json!(5.5), false),
            (json!(5.0), json!(5), true),
            (json!(big), json!(big - 1), false),
            (json!(u64::MAX), json!(1e300), true),
            (json!(1e300), json!(u64::MAX), false),
        ] {
            assert_eq!(matches("/x", Matcher::Max(number(limit.clone())), &json!({"x": value})), expected, "{value} {limit}");
        }
        assert!(matches("/x", Matcher::Min(number(json!(0))), &json!({"x": 0})));
        assert!(!matches("/x", Matcher::Min(number(json!(0))), &json!({"x": -1})));
    }

    #[test]
    fn paths_cannot_climb_out() {
        for (path, expected) in [
            ("/data", true),
            ("/data/", true),
            ("/data/a/b", true),
            ("/data/./a/../b", true),
            ("//data//a", true),
            ("/data/../etc/passwd", false),
            ("/data/a/../../etc", false),
            ("/../data/x", true),
            ("/database", false),
            ("/", false),
            ("data/x", false),
            ("../data", false),
            ("", false),
            ("~/x", false),
            ("/data/a\0b", false),
        ] {
            assert_eq!(matches("/p", Matcher::Within("/data".to_owned()), &json!({"p": path})), expected, "{path:?}");
        }
        assert!(matches("/p", Matcher::Within("/".to_owned()), &json!({"p": "/x"})));
        assert!(ArgumentPattern::new("/p", Matcher::Within("data".to_owned())).is_err());
    }

    #[test]
    fn patterns_have_limits_and_one_form_in_json() {
        for pointer in ["command", "/a~", "/a~2", &format!("/{}", "x".repeat(MAX_POINTER_BYTES))] {
            assert!(ArgumentPattern::new(pointer, Matcher::Prefix(String::new())).is_err(), "{pointer}");
        }
        assert!(ArgumentPattern::new("/a~0b~1c", Matcher::Prefix("x".repeat(MAX_PATTERN_BYTES))).is_ok());
        assert!(ArgumentPattern::new("", Matcher::Prefix("x".repeat(MAX_PATTERN_BYTES + 1))).is_err());
        assert!(ArgumentPattern::new("", Matcher::OneOf(vec![json!(1); MAX_CHOICES + 1])).is_err());
        let text = r#"{"pointer":"/command","one_of":["a",1]}"#;
        let pattern: ArgumentPattern = serde_json::from_str(text).unwrap();
        assert_eq!(pattern.matcher, Matcher::OneOf(vec![json!("a"), json!(1)]));
        assert_eq!(serde_json::to_string(&pattern).unwrap(), text);
    }
}
