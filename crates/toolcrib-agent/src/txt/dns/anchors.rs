//! DNSSEC trust anchors: public keys of zones that the operator trusts.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use hickory_proto::dnssec::{Algorithm, PublicKeyBuf, TrustAnchors};
use hickory_proto::rr::{LowerName, Name};
use toolcrib_core::codes::{self, Code};

/// Maximum number of anchors. A zone has two during a key rollover.
const MAX_ANCHORS: usize = 32;

/// Maximum length of a key in base64. RSA keys of 4096 bits have 700 characters.
const MAX_KEY_CHARS: usize = 2_048;

/// The configured trust anchors. There are none by default: `.agt` is not in the public DNS root, so the root's keys do not
/// cover it.
#[derive(Clone, Default)]
pub struct Anchors {
    zones: Vec<Name>,
    keys: Option<Arc<TrustAnchors>>,
}

/// A line that is not a DNSKEY record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the trust anchors is not a DNSKEY record: {reason}")]
pub struct AnchorError {
    /// The line number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl AnchorError {
    /// Returns the code of this error.
    pub const fn code(&self) -> Code {
        codes::agent::DNSSEC_ANCHOR
    }
}

impl Anchors {
    /// Whether there are no anchors.
    pub const fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }

    /// Whether an anchor is for a zone that contains the name.
    pub(super) fn cover(&self, name: &Name) -> bool {
        self.zones.iter().any(|zone| zone.zone_of(name))
    }

    pub(super) fn keys(&self) -> Option<Arc<TrustAnchors>> {
        self.keys.clone()
    }
}

impl FromStr for Anchors {
    type Err = AnchorError;

    /// Parses DNSKEY records, one per line, in the format of `dig DNSKEY` and zone files: `agt. 3600 IN DNSKEY 257 3 13 <base64>`.
    /// Empty lines and comments (`;`, `#`) are skipped.
    fn from_str(text: &str) -> Result<Self, AnchorError> {
        let mut zones = Vec::new();
        let mut keys = TrustAnchors::empty();
        for (at, line) in text.lines().enumerate() {
            let line = line.split(';').next().unwrap_or_default().trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (zone, key) = parse_line(line).map_err(|reason| AnchorError { line: at + 1, reason })?;
            if zones.len() >= MAX_ANCHORS {
                return Err(AnchorError { line: at + 1, reason: "there are more anchors than are read" });
            }
            keys.insert_with_name(&key, LowerName::from(&zone));
            zones.push(zone);
        }
        let keys = (!zones.is_empty()).then(|| Arc::new(keys));
        Ok(Self { zones, keys })
    }
}

fn parse_line(line: &str) -> Result<(Name, PublicKeyBuf), &'static str> {
    let mut words = line.split_ascii_whitespace();
    let mut zone = words.next().and_then(|name| Name::from_ascii(name).ok()).ok_or("it begins with the name of a zone")?;
    zone.set_fqdn(true);
    let mut word = words.next();
    // TTL and class are optional, between the name and the type.
    for _ in 0..2 {
        word = match word {
            Some(text) if text.eq_ignore_ascii_case("IN") || text.parse::<u32>().is_ok() => words.next(),
            other => other,
        };
    }
    if !word.is_some_and(|word| word.eq_ignore_ascii_case("DNSKEY")) {
        return Err("the type is not DNSKEY");
    }
    let flags: u16 = words.next().and_then(|word| word.parse().ok()).ok_or("the flags are not a number")?;
    // Zone key (RFC 4034 §2.1.1), and not revoked (RFC 5011 §3).
    if flags & 0x0100 == 0 || flags & 0x0080 != 0 {
        return Err("the flags are not those of a zone key");
    }
    if words.next() != Some("3") {
        return Err("the protocol is not 3");
    }
    let algorithm: u8 = words.next().and_then(|word| word.parse().ok()).ok_or("the algorithm is not a number")?;
    let algorithm = Algorithm::from_u8(algorithm);
    if !algorithm.is_supported() {
        return Err("the algorithm is not supported");
    }
    let text: String = words.collect();
    if text.is_empty() || text.len() > MAX_KEY_CHARS {
        return Err("the key is missing or too long");
    }
    let key = decode_base64(&text).ok_or("the key is not base64")?;
    Ok((zone, PublicKeyBuf::new(key, algorithm)))
}

pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    use base64ct::Encoding as _;
    base64ct::Base64::decode_vec(text).ok()
}

impl fmt::Debug for Anchors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zones: Vec<_> = self.zones.iter().map(ToString::to_string).collect();
        f.debug_tuple("Anchors").field(&zones).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "oJMRESz5E4gYzS/q6XDrvU1qMPYIjCWzJaOau8XNEZeqCYKD5ar0IRd8KqXXFJkqmVfRvMGPmM1x8fGAa2XhSA==";

    #[test]
    fn anchors_cover_their_zone_and_what_is_below() {
        let text = format!("; anchors\nagt. 3600 IN DNSKEY 257 3 13 {KEY} ; KSK\n\nother.example DNSKEY 256 3 15 {KEY}\n");
        let anchors: Anchors = text.parse().unwrap();
        let covers = |name: &str| anchors.cover(&Name::from_ascii(name).unwrap());
        assert!(covers("agt.") && covers("exampleagent.agt.") && covers("EXAMPLEAGENT.AGT.") && covers("a.other.example."));
        assert!(!covers("example.") && !covers("notagt.") && !covers("."));
        assert!(!anchors.is_empty() && anchors.keys().is_some());
        let none: Anchors = "# none\n".parse().unwrap();
        assert!(none.is_empty() && none.keys().is_none() && Anchors::default().is_empty());
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "agt. DS 1 13 2 00".to_owned(),
            format!("agt. IN A 257 3 13 {KEY}"),
            format!("agt. DNSKEY 0 3 13 {KEY}"),
            format!("agt. DNSKEY 385 3 13 {KEY}"),
            format!("agt. DNSKEY 257 2 13 {KEY}"),
            format!("agt. DNSKEY 257 3 1 {KEY}"),
            format!("agt. DNSKEY 257 3 999 {KEY}"),
            "agt. DNSKEY 257 3 13".to_owned(),
            "agt. DNSKEY 257 3 13 !!!!".to_owned(),
            format!("agt. DNSKEY 257 3 13 {}", "A".repeat(MAX_KEY_CHARS + 4)),
            format!("DNSKEY 257 3 13 {KEY}"),
        ] {
            assert!(line.parse::<Anchors>().is_err_and(|error| error.line == 1), "{line}");
        }
        let many = format!("agt. DNSKEY 257 3 13 {KEY}\n").repeat(MAX_ANCHORS + 1);
        assert_eq!(many.parse::<Anchors>().unwrap_err().line, MAX_ANCHORS + 1);
    }
}
