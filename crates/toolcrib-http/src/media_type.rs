//! The media type of a message body (RFC 9110 §8.3).

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;

/// A media type without its parameters, such as `application/json`. Compared without case.
#[derive(Clone, Copy, Debug)]
pub struct MediaType<'h>(&'h [u8]);

impl<'h> MediaType<'h> {
    /// Parses the first `Content-Type`. `None` if there is none.
    pub fn of(headers: &'h HeaderMap) -> Option<Self> {
        let value = headers.get(CONTENT_TYPE)?.as_bytes();
        Some(Self(value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()))
    }

    /// Returns whether it has this name.
    pub fn is(self, name: &str) -> bool {
        self.0.eq_ignore_ascii_case(name.as_bytes())
    }

    /// Returns whether it is JSON: `application/json`, or a type below `application` that ends in `+json` (RFC 6839 §3.1).
    pub fn is_json(self) -> bool {
        let is_structured = || {
            let start = self.0.get(..12).is_some_and(|start| start.eq_ignore_ascii_case(b"application/"));
            let end = self.0.len().checked_sub(5).and_then(|at| self.0.get(at..));
            start && end.is_some_and(|end| end.eq_ignore_ascii_case(b"+json"))
        };
        self.is("application/json") || is_structured()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn parameters_and_case_do_not_count() {
        let of = |value: &'static str| HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]);
        for json in ["application/json", "Application/JSON; charset=utf-8", " application/json ;x", "application/problem+JSON"] {
            assert!(MediaType::of(&of(json)).is_some_and(MediaType::is_json), "{json}");
        }
        for other in ["", "text/json", "text/x+json", "application/jsonx", "+json", "application/x+json2", "json"] {
            assert!(MediaType::of(&of(other)).is_some_and(|kind| !kind.is_json()), "{other}");
        }
        assert!(MediaType::of(&of("Text/HTML; charset=x")).is_some_and(|kind| kind.is("text/html") && !kind.is("text/htm")));
        assert!(MediaType::of(&HeaderMap::new()).is_none());
    }
}
