//! Parameters in a query and in a path.
//!
//! Every value is read strictly: what cannot be read is refused by name, and a parameter that stands twice where one is meant is refused
//! too. Parameters that are not known are passed over, since clients of the public interface may send some of theirs.

use alloy_primitives::Address;
use axum::http::Uri;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::money::Amount;
use toolcrib_x402::network;

use crate::answer::{Refusal, echo};
use crate::view::BAZAAR;

/// Bytes of a query at most. Common servers and proxies take request lines of 8 KiB.
pub(crate) const MAX_QUERY_BYTES: usize = 8 * 1024;

/// Parameters of a query at most, repetitions counted.
pub(crate) const MAX_PARAMETERS: usize = 100;

/// The parameters of a query, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(crate) fn of(uri: &Uri) -> Result<Self, Refusal> {
        let query = uri.query().unwrap_or_default();
        if query.len() > MAX_QUERY_BYTES {
            return Err(Refusal::parameter("query string", "it is longer than 8 KiB"));
        }
        let mut pairs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            if pairs.len() == MAX_PARAMETERS {
                return Err(Refusal::parameter("query string", "it has more than 100 parameters"));
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decoded(name, true).ok_or_else(|| Refusal::parameter("query string", "it is not encoded as UTF-8"))?;
            let value = decoded(value, true).ok_or_else(|| Refusal::parameter(&echo(&name), "it is not encoded as UTF-8"))?;
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The value of a free text that stands at most once. An empty one is as good as none.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut values = self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let first = values.next();
        if values.next().is_some() {
            return Err(Refusal::parameter(name, "it stands twice"));
        }
        Ok(first.filter(|value| !value.is_empty()))
    }

    /// A whole number within bounds.
    pub(crate) fn number(&self, name: &str, least: i64, most: i64) -> Result<Option<i64>, Refusal> {
        let Some(text) = self.formed(name)? else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        let is_plain = !text.starts_with('+');
        number.filter(|_| is_plain).map(Some).ok_or_else(|| {
            Refusal::parameter(name, format!("expected a whole number from {least} to {most}, got `{}`", echo(text)))
        })
    }

    /// The value of a parameter that has a form. An empty one does not have it.
    pub(crate) fn formed(&self, name: &str) -> Result<Option<&str>, Refusal> {
        self.text(name)?;
        Ok(self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()))
    }

    /// Yes or no.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Refusal> {
        match self.formed(name)? {
            None => Ok(None),
            Some("true" | "1") => Ok(Some(true)),
            Some("false" | "0") => Ok(Some(false)),
            Some(text) => Err(Refusal::parameter(name, format!("expected true or false, got `{}`", echo(text)))),
        }
    }

    /// One of some words.
    pub(crate) fn word<T>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, Refusal>
    where
        T: Clone,
    {
        let Some(text) = self.formed(name)? else { return Ok(None) };
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| value.clone());
        found.map(Some).ok_or_else(|| {
            let expected: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            Refusal::parameter(name, format!("expected one of {}, got `{}`", expected.join(", "), echo(text)))
        })
    }

    /// An account or a contract.
    pub(crate) fn address(&self, name: &str) -> Result<Option<Address>, Refusal> {
        let Some(text) = self.formed(name)? else { return Ok(None) };
        address(text).map(Some).ok_or_else(|| Refusal::parameter(name, "expected 0x and 40 hexadecimal digits"))
    }

    /// A chain by its number or by a name of the pinned table.
    pub(crate) fn chain(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let named = || network::by_name(&text.to_ascii_lowercase()).and_then(|network| network.chain()?.evm_id());
        chain_number(text)
            .or_else(named)
            .map(Some)
            .ok_or_else(|| Refusal::parameter(name, "expected the number of a chain, or a name such as base"))
    }

    /// Dollars as a decimal, in millionths.
    pub(crate) fn dollars(&self, name: &str) -> Result<Option<u64>, Refusal> {
        self.decimal(name, "expected dollars such as 0.05, with at most six digits after the point")
    }

    /// An amount of any currency as a decimal, in millionths.
    pub(crate) fn millionths(&self, name: &str) -> Result<Option<u64>, Refusal> {
        self.decimal(name, "expected an amount such as 0.05, with at most six digits after the point")
    }

    fn decimal(&self, name: &str, expected: &str) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.formed(name)? else { return Ok(None) };
        let amount = Amount::parse_units(text, 6).ok().and_then(|amount| u64::try_from(amount.get()).ok());
        amount.filter(|amount| i64::try_from(*amount).is_ok()).map(Some).ok_or_else(|| Refusal::parameter(name, expected))
    }
}

/// The tool that a path such as `/api/v2/tools/8453/0x…/7/activity` is about, after `prefix`. `None` for a source that is not followed.
pub(crate) fn tool(uri: &Uri, prefix: &str) -> Result<Option<ToolRef>, Refusal> {
    let mut parts = uri.path().strip_prefix(prefix).unwrap_or_default().split('/');
    let mut part = |name: &str| {
        parts.next().and_then(|part| decoded(part, false)).ok_or_else(|| Refusal::parameter(name, "it is not encoded as UTF-8"))
    };
    let (chain, registry, id) = (part("registry_chain")?, part("registry_addr")?, part("tool_id")?);
    let chain = chain_number(&chain).ok_or_else(|| Refusal::parameter("registry_chain", "expected the number of a chain"))?;
    if SOURCES.contains(&registry.as_str()) {
        return Ok(None);
    }
    let address =
        address(&registry).ok_or_else(|| Refusal::parameter("registry_addr", "expected 0x and 40 hexadecimal digits"))?;
    let reference = format!("eip155:{chain}/erc8257:{address:#x}/{id}");
    let tool = ToolRef::parse(&reference)
        .map_err(|_| Refusal::parameter("tool_id", "expected a whole number above 0, in decimal digits"))?;
    Ok(Some(tool))
}

/// Sources of the public interface that no registry is behind.
pub(crate) const SOURCES: [&str; 2] = [BAZAAR, "x402_bankr"];

/// The number of the resource that a path such as `/api/v2/tools/8453/x402_bazaar/7` is about, after `prefix`. `None` for another path.
/// The chain is any number: a resource has none of its own.
pub(crate) fn resource(uri: &Uri, prefix: &str) -> Option<i64> {
    resource_at(uri.path().strip_prefix(prefix)?)
}

/// The number of the resource that a path such as `/api/v2/tools/8453/x402_bazaar/7/abuse` is about, after `prefix` and before `/abuse`.
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

fn chain_number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|number: &u64| is_plain && i64::try_from(*number).is_ok())
}

/// An address in any case. A checksum is not asked for: it guards typing, and here a wrong address finds nothing.
pub(crate) fn address(text: &str) -> Option<Address> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    if digits.len() != 40 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    digits.parse().ok()
}

/// Decodes percent signs, and in a query plus signs.
pub(crate) fn decoded(text: &str, is_form: bool) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' if is_form => out.push(b' '),
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                out.push(u8::try_from(high * 16 + low).ok()?);
            }
            other => out.push(other),
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(query: &str) -> Parameters {
        Parameters::of(&format!("/x?{query}").parse().expect("a URI")).expect("parameters")
    }

    #[test]
    fn values_are_read_or_refused_by_name() {
        let all = parameters("limit=20&tags=a&tags=b+c%21&flag=true&chain=base&price=0.05&empty=");
        assert_eq!(all.number("limit", 1, 200).expect("a number"), Some(20));
        assert_eq!(all.all("tags").collect::<Vec<_>>(), ["a", "b c!"]);
        assert_eq!(all.flag("flag").expect("a flag"), Some(true));
        assert_eq!(all.chain("chain").expect("a chain"), Some(8453));
        assert_eq!(all.dollars("price").expect("dollars"), Some(50_000));
        assert_eq!(all.text("empty").expect("nothing"), None);
        for bad in [
            "limit=0",
            "limit=201",
            "limit=abc",
            "limit=",
            "limit=+1",
            "limit=1&limit=2",
            "limit=1.5",
            "limit=99999999999999999999",
        ] {
            let refusal = parameters(bad).number("limit", 1, 200).expect_err(bad);
            assert_eq!(refusal.details[0].parameter.as_deref(), Some("limit"), "{bad}");
        }
        for bad in ["creator=", "creator=&creator=0x1111111111111111111111111111111111111111", "creator=0x"] {
            assert!(parameters(bad).address("creator").is_err(), "{bad}");
        }
        assert!(parameters("flag=").flag("flag").is_err() && parameters("sort=").word("sort", &[("a", 1)]).is_err());
        for bad in ["price=", "price=-1", "price=1e3", "price=.5", "price=0.0000001", "price=99999999999999999999"] {
            assert!(parameters(bad).dollars("price").is_err(), "{bad}");
        }
        assert!(Parameters::of(&"/x?a=%ff".parse().expect("a URI")).is_err());
        assert!(Parameters::of(&"/x?a=%f".parse().expect("a URI")).is_err());
    }

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
