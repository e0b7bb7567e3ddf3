//! Drift: changes between two verifications of a tool.
//!
//! A [`Snapshot`] is the result of one verification, small enough to store for every watched tool; [`drift`] compares two. Values that
//! could not be determined are `None` or unknown and never count as a change: an outage is not drift. Store [`Snapshot::carry`] of the
//! newest snapshot, so that an outage cannot hide a change either.
//!
//! The watcher takes snapshots, schedules them and sends notifications.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes::{Code, drift as code};
use toolcrib_core::finding::Severity;

/// The result of one verification of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The tool.
    #[serde(with = "tool_as_text")]
    pub tool: ToolRef,
    /// The block at which the chain was read.
    pub block: Option<u64>,
    /// Whether the tool is registered. If the registry could not be read, there is no snapshot.
    pub registered: bool,
    /// The metadata URI.
    pub metadata_uri: Option<String>,
    /// The hash that the registration commits to.
    #[serde(with = "as_text")]
    pub manifest_hash: Option<B256>,
    /// The account that registered the tool.
    #[serde(with = "as_text")]
    pub creator: Option<Address>,
    /// The access predicate; the zero address when access is open.
    #[serde(with = "as_text")]
    pub predicate: Option<Address>,
    /// The hash of its code; zero when it has none.
    #[serde(with = "as_text")]
    pub predicate_code: Option<B256>,
    /// Its implementation if it is a proxy; the zero address if it is not.
    #[serde(with = "as_text")]
    pub implementation: Option<Address>,
    /// A digest of its requirements.
    #[serde(with = "as_text")]
    pub requirements: Option<B256>,
    /// The served content.
    pub served: Served,
    /// The verdict on the tool.
    pub verdict: Verdict,
    /// The endpoint of the manifest. Untrusted text.
    pub endpoint: Option<String>,
    /// The prices as one text; empty if there are none. Untrusted text.
    pub prices: Option<String>,
    /// The fingerprint of the server's certificate.
    #[serde(with = "as_text")]
    pub certificate: Option<B256>,
}

/// The content that the server returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Served {
    /// There was no request, or it failed for local reasons.
    Unknown,
    /// No response, or an unsuccessful one.
    Unreachable,
    /// Bytes without a canonical form, and so without a hash.
    Unreadable,
    /// A manifest with this hash.
    #[serde(with = "hash_as_text")]
    Manifest(B256),
}

/// The verdict on a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It could not be determined.
    Unknown,
    /// All four checks passed.
    Verified,
    /// A check failed.
    Failed {
        /// The first of the four checks of ERC-8257 §7 that failed.
        check: Option<u8>,
        /// The code of the first error.
        code: String,
    },
}

/// One difference between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The code of the change.
    #[serde(serialize_with = "code_as_id")]
    pub code: Code,
    /// Its severity.
    pub severity: Severity,
    /// The old value. Untrusted text.
    pub before: String,
    /// The new value. Untrusted text.
    pub after: String,
}

impl Snapshot {
    /// A snapshot of a registered tool with only unknown values.
    pub const fn new(tool: ToolRef) -> Self {
        Self {
            tool,
            block: None,
            registered: true,
            metadata_uri: None,
            manifest_hash: None,
            creator: None,
            predicate: None,
            predicate_code: None,
            implementation: None,
            requirements: None,
            served: Served::Unknown,
            verdict: Verdict::Unknown,
            endpoint: None,
            prices: None,
            certificate: None,
        }
    }

    /// Returns this snapshot with unknown values filled in from an earlier one: the state to store.
    ///
    /// Values about one predicate are not used for another.
    #[must_use]
    pub fn carry(mut self, earlier: &Self) -> Self {
        if self.tool != earlier.tool {
            return self;
        }
        fn keep<T: Clone>(value: &mut Option<T>, earlier: &Option<T>) {
            if value.is_none() {
                value.clone_from(earlier);
            }
        }
        keep(&mut self.block, &earlier.block);
        keep(&mut self.metadata_uri, &earlier.metadata_uri);
        keep(&mut self.manifest_hash, &earlier.manifest_hash);
        keep(&mut self.creator, &earlier.creator);
        keep(&mut self.predicate, &earlier.predicate);
        if self.predicate == earlier.predicate {
            keep(&mut self.predicate_code, &earlier.predicate_code);
            keep(&mut self.implementation, &earlier.implementation);
            keep(&mut self.requirements, &earlier.requirements);
        }
        keep(&mut self.endpoint, &earlier.endpoint);
        keep(&mut self.prices, &earlier.prices);
        keep(&mut self.certificate, &earlier.certificate);
        if self.served == Served::Unknown {
            self.served = earlier.served;
        }
        if self.verdict == Verdict::Unknown {
            self.verdict = earlier.verdict.clone();
        }
        self
    }
}

/// Returns the changes between two snapshots, in the order of the fields: chain, server, verdict.
///
/// Nothing is compared if the snapshots are of different tools, if the second is at an older block, or if the tool was removed: the other
/// changes of a removed tool are irrelevant.
pub fn drift(before: &Snapshot, after: &Snapshot) -> Vec<Change> {
    if before.tool != after.tool {
        return vec![Change::new(code::OTHER_TOOL, before.tool, after.tool)];
    }
    if let (Some(first), Some(second)) = (before.block, after.block)
        && second < first
    {
        return vec![Change::new(code::OLDER_BLOCK, first, second)];
    }
    let mut changes = Vec::new();
    match (before.registered, after.registered) {
        (true, true) => {}
        (true, false) => return vec![Change::new(code::DEREGISTERED, "registered", "removed")],
        (false, false) => return changes,
        (false, true) => changes.push(Change::new(code::REGISTRATION_RETURNED, "not registered", "registered")),
    }
    let mut compare = Compare(&mut changes);
    compare.values(code::METADATA_URI_CHANGED, &before.metadata_uri, &after.metadata_uri);
    compare.values(code::HASH_COMMITTED_CHANGED, &before.manifest_hash, &after.manifest_hash);
    compare.values(code::CREATOR_CHANGED, &before.creator, &after.creator);
    if !compare.values(code::PREDICATE_CHANGED, &before.predicate, &after.predicate) {
        // The code of a proxy stays the same when its implementation changes.
        compare.values(code::PREDICATE_UPGRADED, &before.implementation, &after.implementation);
        compare.values(code::PREDICATE_CODE_CHANGED, &before.predicate_code, &after.predicate_code);
        compare.values(code::REQUIREMENTS_CHANGED, &before.requirements, &after.requirements);
    }
    compare.served(before, after);
    compare.values(code::ENDPOINT_CHANGED, &before.endpoint, &after.endpoint);
    compare.values(code::PRICE_CHANGED, &before.prices, &after.prices);
    compare.values(code::CERTIFICATE_CHANGED, &before.certificate, &after.certificate);
    compare.verdicts(&before.verdict, &after.verdict);
    changes
}

struct Compare<'a>(&'a mut Vec<Change>);

impl Compare<'_> {
    /// Compares two values that may both be unknown; returns whether they differ.
    fn values<T: PartialEq + fmt::Display>(&mut self, code: Code, before: &Option<T>, after: &Option<T>) -> bool {
        match (before, after) {
            (Some(before), Some(after)) if before != after => {
                self.0.push(Change::new(code, before, after));
                true
            }
            _ => false,
        }
    }

    fn served(&mut self, before: &Snapshot, after: &Snapshot) {
        let (was, is) = (before.served, after.served);
        let code = match (was, is) {
            (Served::Unknown, _) | (_, Served::Unknown) => return,
            _ if was == is => return,
            (_, Served::Unreachable) => code::UNREACHABLE,
            (Served::Unreachable, _) => code::REACHABLE,
            // The served manifest is now the committed one: an update, or a fix.
            (_, Served::Manifest(hash)) if after.manifest_hash == Some(hash) => return,
            _ => code::SERVED_CHANGED,
        };
        self.0.push(Change::new(code, was, is));
    }

    fn verdicts(&mut self, before: &Verdict, after: &Verdict) {
        let code = match (before, after) {
            (Verdict::Verified, Verdict::Failed { .. }) => code::BECAME_UNVERIFIED,
            (Verdict::Failed { .. }, Verdict::Verified) => code::REPAIRED,
            (Verdict::Failed { .. }, Verdict::Failed { .. }) if before != after => code::FAILURE_CHANGED,
            _ => return,
        };
        self.0.push(Change::new(code, before, after));
    }
}

impl Change {
    fn new(code: Code, before: impl fmt::Display, after: impl fmt::Display) -> Self {
        Self { code, severity: code.severity(), before: before.to_string(), after: after.to_string() }
    }
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown"),
            Self::Unreachable => f.write_str("unreachable"),
            Self::Unreadable => f.write_str("unreadable"),
            Self::Manifest(hash) => write!(f, "{hash}"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown"),
            Self::Verified => f.write_str("verified"),
            Self::Failed { check: Some(check), code } => write!(f, "check {check}: {code}"),
            Self::Failed { check: None, code } => f.write_str(code),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn code_as_id<S: Serializer>(code: &Code, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(code.id())
}

/// Optional addresses and hashes as text. The types have no serde support in this build.
mod as_text {
    use super::*;

    #[expect(clippy::ref_option, reason = "the signature serde asks for")]
    pub(super) fn serialize<T: fmt::Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr,
        T::Err: fmt::Display,
        D: Deserializer<'de>,
    {
        Option::<String>::deserialize(deserializer)?.map(|text| text.parse().map_err(de::Error::custom)).transpose()
    }
}

mod hash_as_text {
    use super::*;

    pub(super) fn serialize<S: Serializer>(value: &B256, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<B256, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

mod tool_as_text {
    use super::*;

    pub(super) fn serialize<S: Serializer>(value: &ToolRef, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ToolRef, D::Error> {
        ToolRef::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        let tool = ToolRef::parse("eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7").unwrap();
        Snapshot {
            block: Some(100),
            metadata_uri: Some("https://a.example/.well-known/ai-tool/x.json".to_owned()),
            manifest_hash: Some(B256::repeat_byte(1)),
            creator: Some(Address::repeat_byte(2)),
            predicate: Some(Address::repeat_byte(3)),
            predicate_code: Some(B256::repeat_byte(4)),
            implementation: Some(Address::ZERO),
            requirements: Some(B256::repeat_byte(5)),
            served: Served::Manifest(B256::repeat_byte(1)),
            verdict: Verdict::Verified,
            endpoint: Some("https://a.example/call".to_owned()),
            prices: Some(String::new()),
            certificate: Some(B256::repeat_byte(6)),
            ..Snapshot::new(tool)
        }
    }

    fn failed(check: u8, code: &str) -> Verdict {
        Verdict::Failed { check: Some(check), code: code.to_owned() }
    }

    #[track_caller]
    fn check(before: impl FnOnce(&mut Snapshot), after: impl FnOnce(&mut Snapshot), expected: &[&str]) -> Vec<Change> {
        let (mut first, mut second) = (snapshot(), snapshot());
        before(&mut first);
        after(&mut second);
        let changes = drift(&first, &second);
        assert_eq!(changes.iter().map(|change| change.code.id()).collect::<Vec<_>>(), expected);
        assert!(changes.iter().all(|change| change.before != change.after && change.severity == change.code.severity()));
        assert_eq!(drift(&second, &second), [], "nothing changed");
        changes
    }

    fn same(_: &mut Snapshot) {}

    // req: VERIFY-019, IDX-003
    #[test]
    fn each_value_has_its_own_event() {
        check(same, same, &[]);
        check(same, |s| s.metadata_uri = Some("https://b.example/".to_owned()), &["drift.metadata_uri_changed"]);
        check(same, |s| s.creator = Some(Address::ZERO), &["drift.creator_changed"]);
        check(same, |s| s.predicate_code = Some(B256::ZERO), &["drift.predicate_code_changed"]);
        check(same, |s| s.implementation = Some(Address::repeat_byte(9)), &["drift.predicate_upgraded"]);
        check(same, |s| s.requirements = Some(B256::ZERO), &["drift.requirements_changed"]);
        check(same, |s| s.endpoint = Some("https://a.example/2".to_owned()), &["drift.endpoint_changed"]);
        check(same, |s| s.certificate = Some(B256::ZERO), &["drift.certificate_changed"]);
        let changes = check(same, |s| s.prices = Some("1 USDC".to_owned()), &["drift.price_changed"]);
        assert_eq!((changes[0].before.as_str(), changes[0].after.as_str()), ("", "1 USDC"));
        // Another predicate has other code, which is not reported separately.
        let other = |s: &mut Snapshot| {
            s.predicate = Some(Address::ZERO);
            s.predicate_code = Some(B256::ZERO);
            s.requirements = Some(B256::ZERO);
        };
        check(same, other, &["drift.predicate_changed"]);
    }

    // req: VERIFY-019
    #[test]
    fn an_update_is_told_from_a_manifest_that_ran_away() {
        let new = B256::repeat_byte(8);
        let update = |s: &mut Snapshot| {
            s.manifest_hash = Some(new);
            s.served = Served::Manifest(new);
        };
        check(same, update, &["drift.hash_committed_changed"]);
        let away = |s: &mut Snapshot| {
            s.served = Served::Manifest(new);
            s.verdict = failed(3, "verify.hash_mismatch");
        };
        let changes = check(same, away, &["drift.served_changed", "drift.became_unverified"]);
        assert_eq!(changes[1].after, "check 3: verify.hash_mismatch");
        assert_eq!(changes[1].severity, Severity::Error);
        check(away, same, &["drift.repaired"]);
        check(away, |s| s.verdict = failed(4, "x.y"), &["drift.failure_changed"]);
        check(same, |s| s.served = Served::Unreadable, &["drift.served_changed"]);
        let dead = |s: &mut Snapshot| s.served = Served::Unreachable;
        check(same, dead, &["drift.unreachable"]);
        check(dead, same, &["drift.reachable"]);
        check(dead, dead, &[]);
    }

    #[test]
    fn removal_ends_the_comparison() {
        let gone = |s: &mut Snapshot| {
            s.registered = false;
            s.verdict = failed(1, "x.y");
            s.served = Served::Unreachable;
        };
        check(same, gone, &["drift.deregistered"]);
        check(gone, |s| s.registered = false, &[]);
        check(|s| s.registered = false, same, &["drift.registration_returned"]);
    }

    #[test]
    fn looks_that_cannot_be_compared() {
        check(same, |s| s.tool.chain = 1, &["drift.other_tool"]);
        let older = |s: &mut Snapshot| {
            s.block = Some(99);
            s.creator = None;
            s.manifest_hash = Some(B256::ZERO);
        };
        check(same, older, &["drift.older_block"]);
        check(same, |s| s.block = Some(100), &[]);
    }

    #[test]
    fn an_outage_neither_makes_nor_hides_drift() {
        let first = snapshot();
        let outage = Snapshot { block: Some(101), ..Snapshot::new(first.tool) };
        assert_eq!(drift(&first, &outage), []);
        let kept = outage.carry(&first);
        assert_eq!(kept, Snapshot { block: Some(101), ..first.clone() });
        let later = Snapshot { block: Some(102), verdict: failed(4, "x.y"), ..snapshot() };
        assert_eq!(drift(&kept, &later)[0].code, code::BECAME_UNVERIFIED);
        // What is known about one predicate does not apply to the next.
        let other = Snapshot { predicate: Some(Address::ZERO), ..Snapshot::new(first.tool) }.carry(&first);
        assert_eq!((other.predicate_code, other.requirements), (None, None));
        let stranger = Snapshot::new(ToolRef { chain: 1, ..first.tool });
        assert_eq!(stranger.clone().carry(&first), stranger);
    }

    #[test]
    fn a_snapshot_survives_a_file() {
        for kept in [
            snapshot(),
            Snapshot::new(snapshot().tool),
            Snapshot { served: Served::Unreachable, verdict: failed(1, "x.y"), registered: false, ..snapshot() },
        ] {
            let text = serde_json::to_string(&kept).unwrap();
            assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), kept, "{text}");
        }
        let text = serde_json::to_string(&snapshot()).unwrap();
        assert!(text.contains(r#""tool":"eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7""#), "{text}");
        for damage in [("0x0101", "0x01"), ("eip155:8453", "8453"), ("true", "1")] {
            assert!(serde_json::from_str::<Snapshot>(&text.replace(damage.0, damage.1)).is_err(), "{damage:?}");
        }
        let change = drift(&snapshot(), &Snapshot { registered: false, ..snapshot() }).remove(0);
        assert_eq!(
            serde_json::to_string(&change).unwrap(),
            r#"{"code":"drift.deregistered","severity":"error","before":"registered","after":"removed"}"#
        );
    }
}
