//! The query of a request, and the extractor that parses it into the type of an operation.

use axum::extract::FromRequestParts;
use axum::http::Uri;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use toolcrib_http::form_decode;

use crate::answer::{ApiError, echo};
use crate::parameters::read::{Fields, Undeclared};

/// The maximum size of a query in bytes. Common servers and proxies accept request lines of 8 KiB.
const MAX_QUERY_BYTES: usize = 8 * 1024;

/// The maximum number of parameters in a query, including repetitions.
const MAX_PARAMETERS: usize = 100;

/// Extracts the parameters of an operation, and rejects others. `axum::extract::Query` has less precise errors.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let pairs = Pairs::of(&parts.uri)?;
        Ok(Self(T::deserialize(Fields::of(&pairs, Undeclared::Refused))?))
    }
}

/// Decoded names and values of a query, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs(Vec<(String, String)>);

impl Pairs {
    /// Parses a query. `form_urlencoded` repairs invalid UTF-8; here it is rejected.
    pub(crate) fn of(uri: &Uri) -> Result<Self, ApiError> {
        let query = uri.query().unwrap_or_default();
        if query.len() > MAX_QUERY_BYTES {
            return Err(ApiError::parameter("query string", "it is longer than 8 KiB"));
        }
        let mut pairs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            if pairs.len() == MAX_PARAMETERS {
                return Err(ApiError::parameter("query string", "it has more than 100 parameters"));
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = form_decode(name).ok_or_else(|| ApiError::parameter("query string", "it is not encoded as UTF-8"))?;
            let value = form_decode(value).ok_or_else(|| ApiError::parameter(&echo(&name), "it is not encoded as UTF-8"))?;
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    /// Parses the parameters of a page. Others are ignored: sites that link to pages add parameters of their own.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        Ok(T::deserialize(Fields::of(self, Undeclared::Ignored))?)
    }

    /// Returns the names of all parameters.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Returns all values of a parameter.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a parameter as it is written, to be shown again. `None` for one that is empty or given twice.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let mut values = self.all(name);
        values.next().filter(|value| !value.is_empty() && values.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(query: &str) -> Result<Pairs, ApiError> {
        Pairs::of(&format!("/x?{query}").parse().expect("a URI"))
    }

    #[test]
    fn queries_are_decoded_or_refused() {
        let all = pairs("tags=a&tags=b+c%21&q=%C3%A9&&empty=&bare").expect("a query");
        assert_eq!(all.all("tags").collect::<Vec<_>>(), ["a", "b c!"]);
        assert_eq!((all.text("q"), all.text("empty"), all.text("bare"), all.text("tags")), (Some("é"), None, None, None));
        for (bad, name) in [("a=%ff", "a"), ("a=%f", "a"), ("a=%zz", "a"), ("%ff=a", "query string")] {
            assert_eq!(pairs(bad).expect_err(bad).details[0].parameter.as_deref(), Some(name), "{bad}");
        }
        let many = |count: usize| vec!["a=1"; count].join("&");
        assert!(pairs(&many(MAX_PARAMETERS)).is_ok() && pairs(&many(MAX_PARAMETERS + 1)).is_err());
        let long = |bytes: usize| format!("a={}", "x".repeat(bytes - 2));
        assert!(pairs(&long(MAX_QUERY_BYTES)).is_ok() && pairs(&long(MAX_QUERY_BYTES + 1)).is_err());
    }
}
