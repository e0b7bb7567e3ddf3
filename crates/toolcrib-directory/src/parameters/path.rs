//! Parameters of a path.

use alloy_primitives::Address;
use axum::http::Uri;
use toolcrib_core::caip::ToolRef;
use toolcrib_http::percent_decode;

use crate::answer::ApiError;
use crate::view::BAZAAR;

/// Returns the tool in a path such as `/api/v2/tools/8453/0x…/7/activity`, after `prefix`. `None` for a source that is not followed.
pub(crate) fn tool(uri: &Uri, prefix: &str) -> Result<Option<ToolRef>, ApiError> {
    let mut parts = uri.path().strip_prefix(prefix).unwrap_or_default().split('/');
    let mut part =
        |name: &str| parts.next().and_then(percent_decode).ok_or_else(|| ApiError::parameter(name, "it is not encoded as UTF-8"));
    let (chain, registry, id) = (part("registry_chain")?, part("registry_addr")?, part("tool_id")?);
    let chain = chain_number(&chain).ok_or_else(|| ApiError::parameter("registry_chain", "expected a chain id"))?;
    if SOURCES.contains(&registry.as_str()) {
        return Ok(None);
    }
    let address =
        address(&registry).ok_or_else(|| ApiError::parameter("registry_addr", "expected 0x and 40 hexadecimal digits"))?;
    let reference = format!("eip155:{chain}/erc8257:{address:#x}/{id}");
    let tool = ToolRef::parse(&reference)
        .map_err(|_| ApiError::parameter("tool_id", "expected a whole number above 0, in decimal digits"))?;
    Ok(Some(tool))
}

/// Sources of the public API without a registry.
pub(crate) const SOURCES: [&str; 2] = [BAZAAR, "x402_bankr"];

/// Returns the number of the resource in a path such as `/api/v2/tools/8453/x402_bazaar/7`, after `prefix`. `None` for another path. The
/// chain is any number: a resource has none of its own.
pub(crate) fn resource(uri: &Uri, prefix: &str) -> Option<i64> {
    resource_at(uri.path().strip_prefix(prefix)?)
}

/// Returns the number of the resource in a path such as `/api/v2/tools/8453/x402_bazaar/7/abuse`, after `prefix` and before `/abuse`.
pub(crate) fn resource_part(uri: &Uri, prefix: &str, part: &str) -> Option<i64> {
    resource_at(uri.path().strip_prefix(prefix)?.strip_suffix(part)?.strip_suffix('/')?)
}

fn resource_at(path: &str) -> Option<i64> {
    let mut parts = path.split('/');
    let (chain, source, id) = (parts.next()?, parts.next()?, parts.next()?);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = is_number(chain) && source == BAZAAR && is_number(id) && !id.starts_with('0');
    (is_plain && parts.next().is_none()).then(|| id.parse().ok()).flatten()
}

pub(super) fn chain_number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|number: &u64| is_plain && i64::try_from(*number).is_ok())
}

/// Parses an address in any case. A checksum is not required: it detects typing mistakes, and here a wrong address finds nothing.
pub(crate) fn address(text: &str) -> Option<Address> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    if digits.len() != 40 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: API-003
    #[test]
    fn paths_name_tools() {
        let of = |path: &str| tool(&path.parse().expect("a URI"), "/t/");
        let address = "0x265BB2DBFC0A8165C9A1941Eb1372F349baD2cf1";
        let found = of(&format!("/t/8453/{address}/7/activity")).expect("a path").expect("a tool");
        assert_eq!(found.to_string(), "eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7");
        assert!(of("/t/8453/x402_bazaar/7").expect("a path").is_none());
        let number = |path: &str| resource(&path.parse().expect("a URI"), "/t/");
        assert_eq!((number("/t/8453/x402_bazaar/7"), number("/t/0/x402_bazaar/12")), (Some(7), Some(12)));
        let part = |path: &str| resource_part(&path.parse().expect("a URI"), "/t/", "abuse");
        assert_eq!(
            (part("/t/0/x402_bazaar/12/abuse"), part("/t/0/x402_bazaar/12"), part("/t/0/x402_bazaar/1/abuse/abuse")),
            (Some(12), None, None)
        );
        for other in [
            "/t/8453/x402_bankr/7",
            "/t/x/x402_bazaar/7",
            "/t/8453/x402_bazaar/07",
            "/t/8453/x402_bazaar/7/report",
            "/t/8453/x402_bazaar/",
        ] {
            assert_eq!(number(other), None, "{other}");
        }
        assert_eq!(number(&format!("/t/1/x402_bazaar/{}", "9".repeat(30))), None);
        for (path, name) in [
            (format!("/t/base/{address}/7"), "registry_chain"),
            (format!("/t/08453/{address}/7"), "registry_chain"),
            ("/t/8453/0x12/7".to_owned(), "registry_addr"),
            (format!("/t/8453/{address}/0"), "tool_id"),
            (format!("/t/8453/{address}/07"), "tool_id"),
            (format!("/t/8453/{address}/-1"), "tool_id"),
            (format!("/t/8453/{address}/%ff"), "tool_id"),
            (format!("/t/8453/{address}/{}", "9".repeat(80)), "tool_id"),
        ] {
            assert_eq!(of(&path).expect_err(&path).details[0].parameter.as_deref(), Some(name), "{path}");
        }
    }
}
