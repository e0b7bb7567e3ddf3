//! Compares the endpoint of a registered tool with the endpoint of an agent.

use serde::Serialize;

use crate::url::HttpsUrl;

/// The relation of a tool's endpoint to an agent's endpoint, closest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointRelation {
    /// The same URL.
    Same,
    /// A URL below the path of the agent's endpoint.
    Below,
    /// Another URL of the same origin.
    SameOrigin,
}

impl EndpointRelation {
    /// Compares two endpoints. Returns `None` if their origins differ.
    pub fn of(agent: &HttpsUrl, tool: &HttpsUrl) -> Option<Self> {
        if agent.origin() != tool.origin() {
            return None;
        }
        // An empty path and the root are one resource (RFC 9110 §4.2.3).
        let path = |url: &HttpsUrl| if url.path().is_empty() { "/".to_owned() } else { url.path().to_owned() };
        let (above, below) = (path(agent), path(tool));
        if above == below && agent.query() == tool.query() {
            return Some(Self::Same);
        }
        let above = above.trim_end_matches('/');
        // If the agent's path is the root, every path would be below it.
        let is_below = !above.is_empty() && below.strip_prefix(above).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1);
        Some(if is_below { Self::Below } else { Self::SameOrigin })
    }

    /// The name used in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Below => "below",
            Self::SameOrigin => "same_origin",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_compared_by_origin_path_and_query() {
        let place = |agent: &str, tool: &str| {
            let url = |text: &str| HttpsUrl::parse(text).expect("a URL");
            EndpointRelation::of(&url(agent), &url(tool)).map(EndpointRelation::as_str)
        };
        let agent = "https://a.example/mcp";
        for (tool, expected) in [
            ("https://a.example/mcp", Some("same")),
            ("https://A.example:443/mcp", Some("same")),
            ("https://a.example/mcp?x=1", Some("same_origin")),
            ("https://a.example/mcp/rain", Some("below")),
            ("https://a.example/mcp/", Some("same_origin")),
            ("https://a.example/mcpx", Some("same_origin")),
            ("https://a.example/", Some("same_origin")),
            ("https://a.example:444/mcp", None),
            ("https://b.example/mcp", None),
        ] {
            assert_eq!(place(agent, tool), expected, "{tool}");
        }
        assert_eq!(place("https://a.example", "https://a.example/"), Some("same"));
        assert_eq!(place("https://a.example/", "https://a.example/x"), Some("same_origin"), "at the root all would be below");
    }
}
