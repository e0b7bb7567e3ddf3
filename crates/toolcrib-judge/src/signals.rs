//! Signals: signs that an origin, a registration or a predicate was taken over, or is not what it seems.
//!
//! Every function takes plain facts and returns findings. A signal is not a verdict: none of them fails one of the four checks, and the
//! severity reflects how often the sign is harmless. If an earlier snapshot is needed but missing, or a fact is unknown, there is no
//! finding.
//!
//! Other crates gather the facts (chain, name servers, TLS); [`crate::drift`] compares complete snapshots.

use std::collections::BTreeSet;
use std::net::IpAddr;

use alloy_primitives::{Address, B256};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::registry::{Erc165, Requirements};
use toolcrib_core::time::format_rfc3339;
use toolcrib_core::tool::Logic;
use toolcrib_core::url::HttpsUrl;

/// How long nothing must have happened for a change to be suspicious: half a year. Active tools change more often, and domains are
/// registered by the year.
pub(crate) const QUIET_SECONDS: i64 = 180 * 86_400;

/// Most other registrations in a finding. The rest is counted.
pub const MAX_NAMED: usize = 5;

/// The relevant properties of a server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The start of its validity.
    pub not_before: UnixTime,
    /// The organisation of the issuer. Not the name of the intermediate, which changes with every renewal.
    pub issuer: String,
    /// The names in it.
    pub names: Vec<String>,
}

/// Compares a certificate with the time of the registration and with the earlier one.
///
/// Certificates are valid for 90 days or less at most issuers, so one that is newer than the registration is a hint. It becomes a warning
/// if issuer or names changed too.
pub fn certificate(registered: UnixTime, now: &Certificate, earlier: Option<&Certificate>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let changed = earlier.map(|earlier| certificate_changes(earlier, now)).unwrap_or_default();
    let is_changed = !changed.is_empty();
    if now.not_before > registered {
        let (from, since) = (date(now.not_before), date(registered));
        findings.push(
            Finding::new(codes::takeover::CERTIFICATE_YOUNGER)
                .severity(if is_changed { Severity::Warning } else { Severity::Hint })
                .message(format!("the certificate is valid from {from}, after the tool was registered at {since}"))
                .expected(format!("not after {since}"))
                .got(from),
        );
    }
    if is_changed {
        findings.push(Finding::new(codes::takeover::CERTIFICATE_CHANGED).message(changed));
    }
    findings
}

/// Compares the name servers of the domain, earlier and now. If some of them stayed, it is a hint: providers rename their servers.
pub fn name_servers(earlier: &[String], now: &[String]) -> Option<Finding> {
    let (before, after) = (names(earlier), names(now));
    if before.is_empty() || after.is_empty() || before == after {
        return None;
    }
    let severity = if before.is_disjoint(&after) { Severity::Warning } else { Severity::Hint };
    Some(Finding::new(codes::takeover::NAME_SERVERS_CHANGED).severity(severity).expected(joined(&before)).got(joined(&after)))
}

/// Compares the addresses of the host, earlier and now. Reported only if none stayed.
pub fn addresses(earlier: &[IpAddr], now: &[IpAddr]) -> Option<Finding> {
    let before: BTreeSet<_> = earlier.iter().map(|address| address.to_canonical().to_string()).collect();
    let after: BTreeSet<_> = now.iter().map(|address| address.to_canonical().to_string()).collect();
    (!before.is_empty() && !after.is_empty() && before.is_disjoint(&after))
        .then(|| Finding::new(codes::takeover::ADDRESSES_CHANGED).expected(joined(&before)).got(joined(&after)))
}

/// Compares the metadata URI, earlier and now: whether the tool moved to another origin. Texts that are not `https` URLs have no origin and
/// are reported by other rules.
pub fn origin(earlier: &str, now: &str) -> Option<Finding> {
    let (before, after) = (HttpsUrl::parse(earlier).ok()?, HttpsUrl::parse(now).ok()?);
    (!before.same_origin(&after)).then(|| {
        Finding::new(codes::takeover::ORIGIN_CHANGED).expected(before.origin().to_string()).got(after.origin().to_string())
    })
}

/// Compares the time of an update with that of the previous one (or of the registration).
pub fn update_after_quiet(previous: UnixTime, update: UnixTime) -> Option<Finding> {
    let quiet = update.since(previous);
    (quiet >= QUIET_SECONDS).then(|| {
        Finding::new(codes::takeover::UPDATE_AFTER_QUIET).message(format!(
            "the registration was changed on {} after {} days without changes",
            date(update),
            quiet / 86_400
        ))
    })
}

/// Another registration in an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The tool.
    pub tool: ToolRef,
    /// The account that registered it.
    pub creator: Address,
    /// Its metadata URI.
    pub metadata_uri: String,
    /// The endpoint of its manifest, if it could be read.
    pub endpoint: Option<String>,
}

/// Reports other registrations of the same metadata URI or endpoint. A warning if another account made one of them, a hint if all are of
/// the same creator.
pub fn duplicates<'a>(tool: &Registered, others: impl IntoIterator<Item = &'a Registered>) -> Option<Finding> {
    let (uri, endpoint) = (comparable(&tool.metadata_uri), tool.endpoint.as_deref().map(comparable));
    let mut named: Vec<String> = Vec::new();
    let (mut count, mut strangers) = (0_usize, 0_usize);
    for other in others {
        let is_same = comparable(&other.metadata_uri) == uri
            || (endpoint.is_some() && other.endpoint.as_deref().map(comparable) == endpoint);
        if other.tool == tool.tool || !is_same {
            continue;
        }
        count += 1;
        strangers += usize::from(other.creator != tool.creator);
        if named.len() < MAX_NAMED {
            named.push(format!("{} by {:#x}", other.tool, other.creator));
        }
    }
    if count == 0 {
        return None;
    }
    let more = if count > named.len() { format!(" and {} more", count - named.len()) } else { String::new() };
    Some(
        Finding::new(codes::tool::DUPLICATE_REGISTRATION)
            .severity(if strangers > 0 { Severity::Warning } else { Severity::Hint })
            .message(format!("the same manifest or endpoint is registered as {}{more}", named.join(", "))),
    )
}

/// Compares the manifest hash that a user pinned with the committed one.
pub fn pinned_manifest(pinned: B256, committed: B256) -> Option<Finding> {
    (pinned != committed)
        .then(|| Finding::new(codes::pin::MANIFEST_HASH_CHANGED).expected(pinned.to_string()).got(committed.to_string()))
}

/// Compares the pinned hash of the registry's code with the current one; `None` if there is no code.
pub fn registry_code(pinned: B256, now: Option<B256>) -> Option<Finding> {
    match now {
        Some(now) if now == pinned => None,
        Some(now) => Some(Finding::new(codes::chain::REGISTRY_CODE).expected(pinned.to_string()).got(now.to_string())),
        None => Some(Finding::new(codes::chain::NOT_A_REGISTRY).expected(pinned.to_string()).got("no code")),
    }
}

/// Facts about an access predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predicate {
    /// Its address; zero means open access.
    pub address: Address,
    /// The hash of its code; `None` if it has none.
    pub code_hash: Option<B256>,
    /// Its implementation, if it is a proxy whose code can be replaced.
    pub implementation: Option<Address>,
    /// Its ERC-165 answer.
    pub advertised: Erc165,
}

/// Compares a predicate with an earlier snapshot of the same one. If a tool's predicate was replaced, the address differs, and nothing is
/// compared.
pub fn predicate(now: &Predicate, earlier: Option<&Predicate>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if now.address.is_zero() {
        return findings;
    }
    let about = |code| Finding::new(code).got(format!("{:#x}", now.address));
    match (now.code_hash, now.advertised) {
        (None, _) => findings.push(about(codes::predicate::NO_CODE)),
        (Some(_), Erc165::Predicate) => {}
        (Some(_), Erc165::Other) => findings.push(about(codes::predicate::NOT_A_PREDICATE)),
        (Some(_), Erc165::NotAdvertised) => {
            // The words that ERC-8257 prescribes for indexers.
            findings.push(about(codes::predicate::NOT_ADVERTISED).message("predicate does not advertise IAccessPredicate"));
        }
    }
    if let Some(target) = now.implementation {
        findings.push(about(codes::predicate::PROXY).message(format!("the predicate is a proxy in front of {target:#x}")));
    }
    let Some(earlier) = earlier.filter(|earlier| earlier.address == now.address) else { return findings };
    if earlier.implementation != now.implementation {
        let target = |target: Option<Address>| target.map_or_else(|| "no proxy".to_owned(), |target| format!("{target:#x}"));
        findings.push(
            Finding::new(codes::predicate::UPGRADED).expected(target(earlier.implementation)).got(target(now.implementation)),
        );
    }
    if earlier.code_hash != now.code_hash {
        let hash = |hash: Option<B256>| hash.map_or_else(|| "no code".to_owned(), |hash| hash.to_string());
        findings.push(Finding::new(codes::predicate::CODE_CHANGED).expected(hash(earlier.code_hash)).got(hash(now.code_hash)));
    }
    findings
}

/// Compares the access block of a manifest with the requirements of the predicate (`None`: open access, no predicate). Pass only lists that
/// were read: an unknown list is not a difference.
///
/// A manifest may omit the block. Order does not count, nor does the logic of fewer than two requirements.
pub fn access(manifest: Option<&Requirements>, onchain: Option<&Requirements>) -> Option<Finding> {
    let Requirements::Listed { logic: stated_logic, .. } = manifest? else { return None };
    let differs = |message: String| Some(Finding::new(codes::access::DIFFERS_FROM_CHAIN).message(message));
    let Some(onchain) = onchain else {
        return differs("the manifest has an access block, but the tool is open to everyone".to_owned());
    };
    let Requirements::Listed { logic, .. } = onchain else { return None };
    if onchain.has_unread() {
        return None;
    }
    // Labels are text for people and are not compared.
    let sorted = |list: &Requirements| {
        let mut entries: Vec<_> = list.entries().iter().map(|entry| (entry.kind, entry.data.clone())).collect();
        entries.sort_unstable();
        entries
    };
    let (ours, theirs) = (manifest.map(sorted).unwrap_or_default(), sorted(onchain));
    if ours != theirs {
        let missing = theirs.iter().filter(|entry| ours.binary_search(entry).is_err()).count();
        let extra = ours.iter().filter(|entry| theirs.binary_search(entry).is_err()).count();
        return differs(format!(
            "the manifest lacks {missing} requirements of the predicate, and has {extra} that the predicate does not list"
        ));
    }
    if ours.len() > 1 && stated_logic != logic {
        let word = |logic| if logic == Logic::And { "all" } else { "one" };
        return differs(format!(
            "the manifest requires {} of the requirements, the predicate {}",
            word(*stated_logic),
            word(*logic)
        ));
    }
    None
}

/// Reports contracts of requirements without code on the predicate's chain; each is given with whether it has code.
pub fn collections(chain: u64, contracts: impl IntoIterator<Item = (Address, bool)>) -> Vec<Finding> {
    contracts
        .into_iter()
        .filter(|(_, has_code)| !has_code)
        .map(|(address, _)| {
            Finding::new(codes::predicate::COLLECTION_NO_CODE)
                .message(format!("there is no contract at {address:#x} on chain {chain}"))
                .got(format!("{address:#x}"))
        })
        .collect()
}

/// The differences between two certificates; empty for a plain renewal.
fn certificate_changes(earlier: &Certificate, now: &Certificate) -> String {
    let mut changes = Vec::new();
    if !earlier.issuer.trim().eq_ignore_ascii_case(now.issuer.trim()) {
        changes.push(format!("the issuer was `{}` and is `{}`", earlier.issuer, now.issuer));
    }
    let (before, after) = (names(&earlier.names), names(&now.names));
    if before != after {
        changes.push(format!("the names were {} and are {}", joined(&before), joined(&after)));
    }
    changes.join("; ")
}

/// Host names in lower case, without the final dot and without duplicates.
fn names(list: &[String]) -> BTreeSet<String> {
    list.iter().map(|name| name.trim().trim_end_matches('.').to_ascii_lowercase()).filter(|name| !name.is_empty()).collect()
}

fn joined(list: &BTreeSet<String>) -> String {
    let mut text = list.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if list.len() > MAX_NAMED {
        text.push_str(&format!(" and {} more", list.len() - MAX_NAMED));
    }
    text
}

/// A URL in the form that is compared: normalised if it is valid.
fn comparable(url: &str) -> String {
    HttpsUrl::parse(url).map_or_else(|_| url.to_owned(), |url| url.normalized().to_owned())
}

fn date(time: UnixTime) -> String {
    format_rfc3339(time).unwrap_or_else(|| time.to_string())
}

#[cfg(test)]
mod tests;
