//! The limits of the MCP registry's `server.json`, schema 2025-12-11. Exports of local tools and of agents respect them.

use std::ops::RangeInclusive;

/// The schema of the documents.
pub const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";

/// Most characters of the description and of the title.
pub const TEXT_MAX: usize = 100;

/// Shortest and longest name, in characters.
pub const NAME_LENGTH: RangeInclusive<usize> = 3..=200;

/// Most characters of the version.
pub(crate) const VERSION_MAX: usize = 255;

/// Most characters of the URL of an icon.
pub const ICON_MAX: usize = 255;

/// Whether `name` is `namespace/name`: letters, digits, dots and hyphens, then also `_`, within [`NAME_LENGTH`].
///
/// ```
/// use toolcrib_core::server_json::is_server_name;
///
/// assert!(is_server_name("io.github.user/weather"));
/// assert!(!is_server_name("weather"));
/// assert!(!is_server_name("io.github.user/weather/now"));
/// ```
pub fn is_server_name(name: &str) -> bool {
    let is_part =
        |part: &str, extra: &[u8]| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || extra.contains(&b));
    NAME_LENGTH.contains(&name.len())
        && name.split_once('/').is_some_and(|(space, name)| is_part(space, b".-") && is_part(name, b"._-"))
}

/// Whether `version` names one version: not empty, not too long, not `latest`, and not a range such as `^1.2.3` or `1.x`.
///
/// ```
/// use toolcrib_core::server_json::is_exact_version;
///
/// assert!(is_exact_version("1.0.2") && is_exact_version("2026-11-01") && is_exact_version("1.0.0-max"));
/// assert!(!is_exact_version("latest") && !is_exact_version(">=1.2.3") && !is_exact_version("1.x") && !is_exact_version("1.*"));
/// ```
pub fn is_exact_version(version: &str) -> bool {
    let is_wildcard = |part: &str| matches!(part, "x" | "X" | "*");
    let core = version.split(['-', '+']).next().unwrap_or_default();
    (1..=VERSION_MAX).contains(&version.chars().count())
        && !version.eq_ignore_ascii_case("latest")
        && !version.starts_with(['^', '~', '>', '<', '='])
        && !version.contains("||")
        && !version.chars().any(|c| c.is_whitespace() || c.is_control())
        && !core.split('.').any(is_wildcard)
}
