//! Forms: bodies and queries in `application/x-www-form-urlencoded`, read within limits and wiped after use.
//!
//! A field may be a credential, so every value is a [`Secret`]. Copies in the buffers of the kernel and of the HTTP library cannot be
//! wiped.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use axum::body::HttpBody as _;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use tokio::time::timeout;
use toolcrib_core::codes;
use toolcrib_http::{MediaType, form_decode_into, form_fields};
use zeroize::Zeroizing;

use super::refusal::PageRejection;
use crate::local::secrets::{MAX_SECRET_BYTES, Secret};

/// Largest form: a credential with every byte percent-encoded, and the other fields.
pub(super) const MAX_FORM_BYTES: usize = 3 * MAX_SECRET_BYTES + 4_096;

/// Most fields of a form. The largest one of the page has five.
const MAX_FIELDS: usize = 16;

/// Time limit for receiving a form.
const MAX_TIME: Duration = Duration::from_secs(30);

/// A submitted form.
#[derive(Debug, Default)]
pub(super) struct Form(Vec<(Secret, Secret)>);

impl Form {
    /// Reads the body of a request.
    pub(super) async fn read(request: Request) -> Result<Self, PageRejection> {
        let announced = announced(&request)?;
        let body = request.into_body();
        let reading = async {
            // Allocated at its full size: a growing vector leaves its earlier contents in memory.
            let mut bytes = Zeroizing::new(Vec::with_capacity(announced.unwrap_or(MAX_FORM_BYTES)));
            let mut body = pin!(body);
            while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
                let Ok(frame) = frame else { return Err(PageRejection::form("it broke off")) };
                let Ok(chunk) = frame.into_data() else { continue };
                if chunk.len() > MAX_FORM_BYTES - bytes.len() {
                    return Err(too_large());
                }
                bytes.extend_from_slice(&chunk);
            }
            Ok(bytes)
        };
        let bytes = timeout(MAX_TIME, reading).await.unwrap_or_else(|_| Err(PageRejection::form("it did not arrive in time")))?;
        Self::parse(&bytes)
    }

    /// Parses encoded fields. Each may occur once.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, PageRejection> {
        let mut form = Self::default();
        for (name, value) in form_fields(bytes) {
            let (Some(name), Some(value)) = (decode(name), decode(value)) else {
                return Err(PageRejection::form("its encoding is broken"));
            };
            if form.0.len() >= MAX_FIELDS || form.get(name.expose()).is_some() {
                return Err(PageRejection::form("it has too many fields"));
            }
            form.0.push((name, value));
        }
        Ok(form)
    }

    /// An optional field.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own.expose() == name).map(|(_, value)| value.expose())
    }

    /// A required field.
    pub(super) fn text(&self, name: &str) -> Result<&str, PageRejection> {
        self.get(name).ok_or_else(|| PageRejection::form(&format!("the field {name} is missing")))
    }

    /// Removes and returns a field.
    pub(super) fn take(&mut self, name: &str) -> Result<Secret, PageRejection> {
        let place = self.0.iter().position(|(own, _)| own.expose() == name);
        let place = place.ok_or_else(|| PageRejection::form(&format!("the field {name} is missing")))?;
        Ok(self.0.swap_remove(place).1)
    }
}

/// Checks the content type of a form, and returns its length if it is stated.
fn announced(request: &Request) -> Result<Option<usize>, PageRejection> {
    if !MediaType::of(request.headers()).is_some_and(|kind| kind.is("application/x-www-form-urlencoded")) {
        return Err(PageRejection::form("its type is not application/x-www-form-urlencoded"));
    }
    let length = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if length.is_some_and(|length| length > MAX_FORM_BYTES) { Err(too_large()) } else { Ok(length) }
}

fn too_large() -> PageRejection {
    PageRejection::new(StatusCode::PAYLOAD_TOO_LARGE, codes::host::PAGE_FORM)
        .message(format!("the form has more than {MAX_FORM_BYTES} bytes"))
}

/// Decodes a name or a value. `None` if the encoding is invalid or the text is not UTF-8.
fn decode(encoded: &[u8]) -> Option<Secret> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(encoded.len()));
    form_decode_into(encoded, &mut bytes)?;
    Secret::from_utf8(std::mem::take(&mut *bytes))
}

#[cfg(test)]
mod tests {
    use toolcrib_http::percent_encode;

    use super::*;

    fn parsed(text: &str) -> Option<Form> {
        Form::parse(text.as_bytes()).ok()
    }

    #[test]
    fn fields_are_decoded() {
        let mut form = parsed("a=1&&b=x+y%2B%c3%A4&empty=&bare").expect("a form");
        assert_eq!(
            (form.get("a"), form.get("b"), form.get("empty"), form.get("bare")),
            (Some("1"), Some("x y+ä"), Some(""), Some(""))
        );
        assert_eq!(form.get("c"), None);
        assert_eq!(form.take("b").expect("a value").expose(), "x y+ä");
        assert!(form.text("b").is_err() && form.take("b").is_err());
        assert_eq!(
            parsed(&format!("q={}", percent_encode("a b&=\u{202e}ä~"))).expect("a form").get("q"),
            Some("a b&=\u{202e}ä~")
        );
    }

    #[test]
    fn broken_and_repeated_fields_are_refused() {
        let many: String = (0..=MAX_FIELDS).map(|number| format!("f{number}=1&")).collect();
        for wrong in ["a=%", "a=%4", "a=%zz", "a=%ff", "%c3=1", "a=1&a=2", "a=%+1", &many] {
            assert!(parsed(wrong).is_none(), "{wrong}");
        }
    }
}
