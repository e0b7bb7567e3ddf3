//! Images and floor prices from a service with the `OpenSea` API v2.
//!
//! Three requests are needed: the contract's collection, the collection's image, and its statistics. Results are fresh for an hour, and
//! shown for a day when the service does not respond; after an error, a rate limit or a slow response no requests are sent for a while, so
//! that the service never delays the verification of the next tool.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_primitives::Address;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::json::{self, Document, Kind, Value};
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers, Limits};

use super::collection::{CollectionProvider, Provided};

/// The maximum size of a response. Collections with long descriptions, fees and contracts take some twenty kilobytes.
const MAX_BYTES: usize = 256 * 1024;

/// The maximum time for the three requests together. A verification waits for them, so after a slower response no requests are sent for
/// [`PAUSE_SECONDS`].
const ASK_TIME: Duration = Duration::from_secs(3);

/// How long a cached result is shown without a new request. Floor prices move all day, but a directory is not an exchange.
const FRESH_SECONDS: i64 = 3_600;

/// How long a cached result is shown at most when the service does not respond: yesterday's price is useful, last week's misleads.
const STALE_SECONDS: i64 = 86_400;

/// How long no requests are sent after a failure.
const PAUSE_SECONDS: i64 = 60;

/// The longest `Retry-After` that is respected.
const MAX_PAUSE_SECONDS: i64 = 3_600;

/// The maximum number of cached collections, at some hundred bytes each.
const MAX_REMEMBERED: usize = 4_096;

/// The maximum length of a slug. Those of the service have at most some sixty characters.
const MAX_SLUG_BYTES: usize = 128;

/// The maximum number of digits of a price, before and after the decimal point together. Amounts of tokens with eighteen decimals have
/// fewer.
const MAX_DIGITS: usize = 40;

/// The maximum length of a currency symbol.
const MAX_SYMBOL_BYTES: usize = 16;

/// The service's names of chains.
const CHAINS: [(u64, &str); 8] = [
    (1, "ethereum"),
    (10, "optimism"),
    (137, "matic"),
    (360, "shape"),
    (2_741, "abstract"),
    (8_453, "base"),
    (42_161, "arbitrum"),
    (143, "monad"),
];

/// A service with the `OpenSea` API v2.
pub struct OpenSea {
    client: Configured,
    url: ConfiguredUrl,
    headers: Headers,
    clock: Arc<dyn Clock + Send + Sync>,
    state: Mutex<State>,
}

impl fmt::Debug for OpenSea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The headers have the key.
        f.debug_struct("OpenSea").field("url", &self.url).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    known: HashMap<(u64, Address), (Option<Provided>, UnixTime)>,
    /// No request is sent before this time.
    paused_until: Option<UnixTime>,
}

/// Why the service returned no data.
enum OpenSeaError {
    /// It does not know the collection.
    Unknown,
    /// It fails, or its response cannot be parsed: no requests for this number of seconds.
    Fails(i64),
}

impl OpenSea {
    /// Creates a client for the service at a URL, such as `https://api.opensea.io`, with an optional API key. An error when the key is not
    /// a valid header value.
    pub fn new(
        client: Configured,
        url: ConfiguredUrl,
        key: Option<&str>,
        clock: Arc<dyn Clock + Send + Sync>,
    ) -> Result<Self, toolcrib_fetch::Error> {
        let mut headers = Headers::new().with("accept", "application/json")?;
        if let Some(key) = key {
            headers = headers.with("x-api-key", key)?;
        }
        Ok(Self { client, url, headers, clock, state: Mutex::default() })
    }

    async fn read(&self, chain: u64, contract: Address) -> Option<Provided> {
        let name = CHAINS.iter().find(|(number, _)| *number == chain).map(|(_, name)| *name)?;
        let (key, now) = ((chain, contract), self.clock.now());
        let known = {
            let state = self.lock();
            let known = state.known.get(&key).cloned();
            let is_paused = state.paused_until.is_some_and(|until| now < until);
            if is_paused || known.as_ref().is_some_and(|(_, at)| now.since(*at) < FRESH_SECONDS) {
                return known.filter(|(_, at)| now.since(*at) < STALE_SECONDS)?.0;
            }
            known
        };
        let asked = tokio::time::timeout(ASK_TIME, self.ask(name, contract)).await;
        let asked = asked.unwrap_or_else(|_| {
            tracing::warn!(service = %self.url, "collection data comes too slowly");
            Err(OpenSeaError::Fails(PAUSE_SECONDS))
        });
        let mut state = self.lock();
        let provided = match asked {
            Ok(provided) => Some(provided),
            Err(OpenSeaError::Unknown) => None,
            Err(OpenSeaError::Fails(seconds)) => {
                state.paused_until = Some(now.plus(seconds));
                return known.filter(|(_, at)| now.since(*at) < STALE_SECONDS)?.0;
            }
        };
        if state.known.len() >= MAX_REMEMBERED {
            state.known.clear();
        }
        state.known.insert(key, (provided.clone(), now));
        provided
    }

    async fn ask(&self, chain: &str, contract: Address) -> Result<Provided, OpenSeaError> {
        let contract = self.get(&["chain", chain, "contract", &format!("{contract:#x}")]).await?;
        let slug = contract.root().get("collection").and_then(Value::as_str).filter(|slug| is_slug(slug));
        let slug = slug.ok_or(OpenSeaError::Unknown)?;
        let collection = self.get(&["collections", slug]).await?;
        let image = collection.root().get("image_url").and_then(Value::as_str).filter(|image| !image.is_empty());
        let stats = self.get(&["collections", slug, "stats"]).await?;
        Ok(Provided { image: image.map(str::to_owned), floor_price: floor_price(stats.root()) })
    }

    async fn get(&self, path: &[&str]) -> Result<Document, OpenSeaError> {
        let segments: Vec<String> = ["api", "v2"].iter().chain(path).map(|part| (*part).to_owned()).collect();
        // Segments are constant names, an address and a slug, which are always valid.
        let url = self.url.below(&segments, &[]).map_err(|_| OpenSeaError::Unknown)?;
        let mut limits = Limits::MANIFEST;
        limits.body = MAX_BYTES;
        let exchange = self.client.get(&url, &self.headers, limits).await;
        let Some(response) = exchange.complete() else {
            let code = exchange.failure.as_ref().map(|failure| failure.code.id());
            tracing::warn!(service = %self.url, code, "collection data could not be read");
            return Err(OpenSeaError::Fails(PAUSE_SECONDS));
        };
        match response.status {
            200 => {
                let limits = json::Limits { max_bytes: MAX_BYTES, max_depth: json::MAX_DEPTH };
                let document = json::read_up_to(response.body.as_bytes(), limits, json::MAX_VALUES).document;
                document.filter(|document| document.root().as_object().is_some()).ok_or(OpenSeaError::Fails(PAUSE_SECONDS))
            }
            404 => Err(OpenSeaError::Unknown),
            status => {
                let said = response.headers.iter().find(|(name, _)| name == "retry-after");
                let said = said.and_then(|(_, value)| value.trim().parse::<i64>().ok()).unwrap_or_default();
                tracing::warn!(service = %self.url, status, "collection data could not be read");
                Err(OpenSeaError::Fails(said.clamp(PAUSE_SECONDS, MAX_PAUSE_SECONDS)))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CollectionProvider for OpenSea {
    fn collection(&self, chain: u64, contract: Address) -> BoxFuture<'_, Option<Provided>> {
        self.read(chain, contract).boxed()
    }
}

fn is_slug(slug: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_SLUG_BYTES).contains(&slug.len()) && slug.bytes().all(is_plain)
}

/// Returns the floor price from statistics with its currency, such as `1.25 ETH`. `None` without an offer, and for a value that is not a
/// price.
fn floor_price(stats: Value<'_>) -> Option<String> {
    let total = stats.get("total")?;
    let price = total.get("floor_price")?;
    // The digits as they were sent: a double could not represent all of them.
    let amount = (price.kind() == Kind::Number).then(|| decimal(price.source())).flatten()?;
    let symbol = total.get("floor_price_symbol")?.as_str()?;
    let is_symbol = (1..=MAX_SYMBOL_BYTES).contains(&symbol.len()) && symbol.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_symbol.then(|| format!("{amount} {symbol}"))
}

/// Converts a JSON number to a plain decimal, digit by digit. `None` for zero, for negative numbers, and for too many digits.
fn decimal(number: &str) -> Option<String> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) || digits.bytes().all(|byte| byte == b'0') {
        return None;
    }
    // The position of the decimal point among the digits; it may be outside of them.
    let point = i32::try_from(whole.len()).ok()?.checked_add(exponent)?;
    let bound = i32::try_from(MAX_DIGITS).ok()?;
    if digits.len() > MAX_DIGITS || !(-bound..=bound).contains(&point) {
        return None;
    }
    let (left, right) = match usize::try_from(point) {
        Ok(point) if point <= digits.len() => digits.split_at(point),
        Ok(point) => return plain(&format!("{digits}{}", "0".repeat(point - digits.len())), ""),
        Err(_) => return plain("", &format!("{}{digits}", "0".repeat(point.unsigned_abs() as usize))),
    };
    plain(left, right)
}

fn plain(whole: &str, fraction: &str) -> Option<String> {
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    if whole.len() + fraction.len() > MAX_DIGITS {
        return None;
    }
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_every_digit() {
        for (number, expected) in [
            ("1.25", Some("1.25")),
            ("0.000000000000000001", Some("0.000000000000000001")),
            ("1e-18", Some("0.000000000000000001")),
            ("12.5E2", Some("1250")),
            ("12.345e1", Some("123.45")),
            ("7", Some("7")),
            ("0.10", Some("0.1")),
            ("100", Some("100")),
            ("0.1234567890123456789", Some("0.1234567890123456789")),
            ("0", None),
            ("0.00", None),
            ("-1", None),
            ("1e400", None),
            ("1e-400", None),
            ("1e99999999999", None),
            ("NaN", None),
            ("", None),
            (&"9".repeat(41), None),
        ] {
            assert_eq!(decimal(number).as_deref(), expected, "{number}");
        }
    }

    #[test]
    fn floor_prices_have_a_currency_or_are_absent() {
        let of = |text: &str| {
            let document = json::read(text.as_bytes(), json::Limits::default()).document.expect("JSON");
            floor_price(document.root())
        };
        assert_eq!(of(r#"{"total":{"floor_price":1.50,"floor_price_symbol":"ETH"}}"#).as_deref(), Some("1.5 ETH"));
        for absent in [
            r#"{"total":{"floor_price":"1.5","floor_price_symbol":"ETH"}}"#,
            r#"{"total":{"floor_price":-1.5,"floor_price_symbol":"ETH"}}"#,
            r#"{"total":{"floor_price":0,"floor_price_symbol":"ETH"}}"#,
            r#"{"total":{"floor_price":null,"floor_price_symbol":"ETH"}}"#,
            r#"{"total":{"floor_price":1.5}}"#,
            r#"{"total":{"floor_price":1.5,"floor_price_symbol":"<b>"}}"#,
            r#"{"total":[1.5]}"#,
            r#"[]"#,
        ] {
            assert_eq!(of(absent), None, "{absent}");
        }
    }
}
