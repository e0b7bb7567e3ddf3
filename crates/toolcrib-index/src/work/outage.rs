//! Decides whether servers or this machine's network are the cause when servers do not respond.
//!
//! A verification that failed because of this machine's network must not count against a server. But servers that do not respond prove
//! nothing about this network: any account can register many dead ones. So timeouts only raise the suspicion, and servers that have been
//! listed for a long time decide: while one of them is reachable, the silent servers are down.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Mutex;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{FromRow as _, Value};
use toolcrib_store::sql;

use super::intake::OwnedRow;
use super::look::{Look, ToolVerifier};
use super::site::{network_of, site_of};
use crate::facts::health::ResponseTime;
use crate::model::{ToolKey, ToolRow};
use crate::{Error, Index};

/// The number of consecutive silent sites before this machine's network is suspected.
const SILENT_SITES: usize = 8;

/// The number of networks that they are in: the outage of one hosting provider is not ours.
const SILENT_NETWORKS: usize = 4;

/// A response of any server within this number of seconds shows that this network works.
const RECENT_SECONDS: i64 = 30;

/// Seconds for which the result of probing is cached, so that an outage costs few requests.
const PROBE_SECONDS: i64 = 30;

/// The timeout of one probe.
const PROBE_TIME: Duration = Duration::from_secs(3);

/// The number of servers that are probed, each of another site and another creator.
const PROBES: usize = 8;

/// The number of tools among which they are chosen. Those that were registered first: an attacker cannot buy age.
const CANDIDATES: i64 = 200;

const OLDEST: &str = sql!("SELECT ", OwnedRow::COLUMNS, " FROM index_tool WHERE listed ORDER BY registered_at LIMIT $1");

/// A worker's knowledge about its network.
#[derive(Debug, Default)]
pub(super) struct Outage(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Sites that did not respond since the last response, with their networks, as far as they are counted.
    silent: BTreeMap<String, Option<String>>,
    answered_at: Option<UnixTime>,
    /// When the network was probed, and whether it was down.
    probed: Option<(UnixTime, bool)>,
}

impl Outage {
    /// Returns what a verification says about the server; nothing while this machine's network is down.
    pub(super) async fn answer<L: ToolVerifier>(
        &self,
        look: &Look,
        row: &ToolRow,
        index: &Index,
        looks: &L,
        now: UnixTime,
    ) -> ResponseTime {
        let answer = ResponseTime::of(look.evidence.manifest.as_ref());
        if answer == ResponseTime::NotAsked {
            return answer;
        }
        // Held while probing, so that concurrent verifications do not probe as well.
        let mut state = self.0.lock().await;
        if answer != ResponseTime::None {
            *state = State { answered_at: Some(now), ..State::default() };
            return answer;
        }
        let network = look.evidence.manifest.as_ref().and_then(|exchange| exchange.addresses.first()).map(|ip| network_of(*ip));
        if state.silent.len() < SILENT_SITES.max(SILENT_NETWORKS) * 2 {
            state.silent.extend(site_of(&row.metadata_uri).map(|site| (site, network)));
        }
        if !state.is_suspicious(now) {
            return answer;
        }
        let is_down = match state.probed {
            Some((at, is_down)) if (0..PROBE_SECONDS).contains(&now.since(at)) => is_down,
            _ => {
                let is_down = !reaches_any(index, looks).await;
                tracing::info!(is_down, sites = state.silent.len(), "many servers do not answer, network probed");
                state.probed = Some((now, is_down));
                is_down
            }
        };
        if is_down { ResponseTime::NotAsked } else { answer }
    }
}

impl State {
    fn is_suspicious(&self, now: UnixTime) -> bool {
        let networks: BTreeSet<&String> = self.silent.values().flatten().collect();
        let is_recent = self.answered_at.is_some_and(|at| (0..=RECENT_SECONDS).contains(&now.since(at)));
        self.silent.len() >= SILENT_SITES && networks.len() >= SILENT_NETWORKS && !is_recent
    }
}

/// Returns whether one of the longest-listed servers responds.
async fn reaches_any<L: ToolVerifier>(index: &Index, looks: &L) -> bool {
    let known = match probes(index, looks).await {
        Ok(known) => known,
        Err(error) => {
            tracing::warn!(code = error.code().id(), %error, "servers to probe could not be read");
            return false;
        }
    };
    let mut probes: FuturesUnordered<_> = known.iter().map(|(uri, chain)| looks.reaches(uri, *chain, PROBE_TIME)).collect();
    while let Some(is_reached) = probes.next().await {
        if is_reached {
            return true;
        }
    }
    false
}

/// Returns the servers to probe, with the chains of their tools.
async fn probes<L: ToolVerifier>(index: &Index, looks: &L) -> Result<Vec<(String, u64)>, Error> {
    let (mut owners, mut known) = (BTreeSet::new(), Vec::new());
    for row in OwnedRow::from_rows(&index.database().fetch(OLDEST, &[Value::Integer(CANDIDATES)]).await?) {
        let OwnedRow { registry, tool, creator, uri } = row?;
        let chain = index.reference(ToolKey::from_columns(registry, tool)?).await?.chain;
        let creator = creator.to_vec();
        let Some(site) = site_of(uri) else { continue };
        let is_new = !owners.contains(&creator) && !owners.contains(site.as_bytes());
        if known.len() < PROBES && is_new && looks.can_ask(chain) {
            owners.extend([creator, site.into_bytes()]);
            known.push((uri.to_owned(), chain));
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

    #[test]
    fn silence_of_many_owners_and_networks_is_suspicious() {
        let silent = |sites: usize, networks: usize| State {
            silent: (0..sites).map(|n| (format!("s{n}.example"), Some(format!("5.5.{}.0/24", n % networks)))).collect(),
            ..State::default()
        };
        assert!(silent(8, 4).is_suspicious(NOW));
        assert!(!silent(7, 7).is_suspicious(NOW));
        assert!(!silent(20, 3).is_suspicious(NOW), "one provider");
        let recent = |seconds: i64| State { answered_at: Some(NOW.plus(-seconds)), ..silent(8, 8) };
        assert!(!recent(RECENT_SECONDS).is_suspicious(NOW));
        assert!(recent(RECENT_SECONDS + 1).is_suspicious(NOW));
        assert!(recent(-5).is_suspicious(NOW), "a clock that was set back proves nothing");
    }
}
