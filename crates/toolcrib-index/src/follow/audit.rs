//! How a follower handles logs that may be missing: it does not advance past a gap, and reads indexed blocks again.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use alloy_primitives::{B256, U256};
use tokio::time::Instant;
use toolcrib_chain::Error as ChainError;
use toolcrib_chain::registry::LogPage;
use toolcrib_chain::rpc::Header;
use toolcrib_store::database::Value;

use super::completeness::{MissingId, advance_rescan, count_omitted, numbering, request_rescan, set_complete, set_incomplete};
use super::repair::{repair, retain_missing};
use super::reread::{Care, Findings, add};
use super::source::merge;
use super::state::State;
use super::{FollowOptions, Follower, Step};
use crate::Error;
use crate::model::ToolKey;

/// The longest pause before differing tools are compared again, and before a rescan with contradictory responses is repeated.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3_600);

/// The minimum time between full rescans caused by blocks near the head, whose logs nodes often have late.
const TIP_RESCANS: Duration = Duration::from_secs(24 * 3_600);

/// A follower's state of its completeness checks.
#[derive(Debug)]
pub(super) struct Audit {
    /// The last tool compared in this pass.
    pub(super) cursor: U256,
    /// When the next pass begins.
    pub(super) next_pass: Instant,
    /// Whether this process has compared all tools once.
    pub(super) is_compared: bool,
    /// Tools that differ.
    pub(super) wrong: BTreeSet<U256>,
    /// Tools that differ from the registry.
    pub(super) recheck: (Instant, Duration),
    /// When they are compared again, and the last pause.
    pub(super) counts: Option<bool>,
    /// Whether the node can compare many tools in one call.
    pub(super) is_batched: bool,
    /// Whether a node was caught omitting logs: until the rescan is finished, ranges are read twice.
    is_wary: bool,
    /// The smallest number of logs in a truncated response.
    cap: Option<usize>,
    /// Blocks in doubt by hash, with their number and since when.
    doubts: HashMap<B256, (u64, Instant)>,
    /// Whether responses contradicted each other during this rescan.
    is_disputed: bool,
    /// When a rescan may continue, and the pause before the next one if this one fails.
    rescan: (Instant, Duration),
    /// When blocks near the head last caused a rescan.
    tip_rescan: Option<Instant>,
    /// Whether the database may still have a record that logs are missing.
    may_be_incomplete: bool,
    /// The id for which blocks below the checkpoint were last read again, and when.
    reread: Option<(U256, Instant)>,
    /// The number of ranges read so far, to choose those that are read twice.
    ranges: u64,
}

impl Audit {
    pub(super) fn new(options: &FollowOptions) -> Self {
        let now = Instant::now();
        Self {
            cursor: U256::ZERO,
            next_pass: now,
            is_compared: false,
            wrong: BTreeSet::new(),
            recheck: (now, options.poll),
            counts: None,
            is_batched: true,
            is_wary: false,
            cap: None,
            doubts: HashMap::new(),
            is_disputed: false,
            rescan: (now, options.rescan_pause),
            tip_rescan: None,
            may_be_incomplete: true,
            reread: None,
            ranges: 0,
        }
    }
}

/// Where logs were missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapPosition {
    /// Near the head, where nodes often have logs late.
    Tip,
    /// In old blocks, which every node should have.
    Past,
}

impl Follower {
    /// Returns how carefully the next range of old blocks is read.
    pub(super) fn care(&mut self) -> Care {
        self.audit.ranges += 1;
        let second = self.options.second_reads > 0 && self.audit.ranges.is_multiple_of(self.options.second_reads);
        Care { second: second || self.audit.is_wary, cap: self.audit.cap, ..self.headers() }
    }

    /// Returns which headers of a range are compared.
    fn headers(&self) -> Care {
        let blocks = self.audit.doubts.values().map(|(block, _)| *block).collect();
        Care { headers: self.options.headers_per_range, blocks, ..Care::default() }
    }

    /// Checks that the logs of a range skip no tool id, and otherwise asks other nodes and requests smaller ranges. Logs missing below the
    /// range are added to the index.
    pub(super) async fn check_numbers(&mut self, from: u64, to: u64, page: &mut LogPage) -> Result<(), Error> {
        if !self.options.numbering {
            return Ok(());
        }
        let Err(missing) = numbering(self.state()?.highest, &page.logs) else { return Ok(()) };
        self.find_numbers(from, to, page, missing, missing.id).await
    }

    /// Checks the registered tools after a block near the head, with this hash, against the registry's own count.
    pub(super) async fn check_count(&mut self, from: u64, to: u64, hash: B256, page: &mut LogPage) -> Result<(), Error> {
        if !self.options.numbering || self.audit.counts == Some(false) {
            return Ok(());
        }
        let Ok(highest) = numbering(self.state()?.highest, &page.logs) else { return Ok(()) };
        let counted = match self.source.registry().tool_count_at(to).await {
            Ok(counted) => counted,
            // The node does not have the state of the block, which is temporary.
            Err(ChainError::Refused { .. }) => return Ok(()),
            Err(error @ ChainError::Transport { .. }) => return Err(error.into()),
            // Without tools the contract may not be deployed yet.
            Err(_) if highest.is_zero() => return Ok(()),
            Err(error) => {
                if self.audit.counts.is_none() {
                    tracing::warn!(registry = %self.source.registry().address(), %error,
                        "registry has no tool count, missing registrations at the end are not detected");
                    self.audit.counts = Some(false);
                }
                return Ok(());
            }
        };
        self.audit.counts = Some(true);
        if counted != highest && self.source.block(to).await?.hash != hash {
            return Err(Error::Inconsistent { what: "the chain changed during the reads (reorg)" });
        }
        if counted < highest {
            return Err(Error::Inconsistent { what: "the registry's tool count is below the number of registration logs" });
        }
        if counted > highest {
            let what = "the registry's tool count is above the number of registration logs";
            let missing = MissingId { id: highest.saturating_add(U256::from(1)), by: to, what };
            return self.find_numbers(from, to, page, missing, counted).await;
        }
        Ok(())
    }

    /// Searches the registrations from the missing one up to `wanted`, in the range and then below it.
    async fn find_numbers(
        &mut self,
        from: u64,
        to: u64,
        page: &mut LogPage,
        missing: MissingId,
        wanted: U256,
    ) -> Result<(), Error> {
        let (given, predicates) = (page.logs.len(), self.state()?.predicates.all().to_vec());
        let (more, _) = self.source.again(from, to, &predicates).await?;
        let found = add(page, more);
        if found > 0 {
            self.audit.cap = Some(self.audit.cap.map_or(given, |cap| cap.min(given)).max(1));
            self.caught(found, GapPosition::Past).await?;
        }
        let is_there = |state: &State, page: &LogPage| match numbering(state.highest, &page.logs) {
            Ok(highest) => highest >= wanted,
            Err(missing) => missing.id > wanted,
        };
        let first_block = self.state()?.first_block;
        let below = self.registered_at(missing.id.saturating_sub(U256::from(1))).await?.unwrap_or(first_block);
        if !is_there(self.state()?, page) && below < from && self.may_reread(missing.id) {
            let found = self.reread(below, from - 1).await?;
            if found > 0 {
                self.caught(found, GapPosition::Past).await?;
            }
        }
        match numbering(self.state()?.highest, &page.logs) {
            _ if !is_there(self.state()?, page) => Err(Error::Incomplete { what: missing.what, from: below, to: missing.by }),
            Err(next) => Err(Error::Incomplete { what: next.what, from: below, to: next.by }),
            Ok(_) => Ok(()),
        }
    }

    /// Whether to read blocks below again for this id: they can be many, and a response that was wrong a moment ago is probably still
    /// wrong.
    fn may_reread(&mut self, id: U256) -> bool {
        let is_early = |(last, at): &(U256, Instant)| *last == id && at.elapsed() < self.options.rescan_pause;
        if self.audit.reread.as_ref().is_some_and(is_early) {
            return false;
        }
        self.audit.reread = Some((id, Instant::now()));
        true
    }

    /// Returns the block in which a tool was registered.
    async fn registered_at(&mut self, id: U256) -> Result<Option<u64>, Error> {
        const BLOCK: &str = "SELECT registered_block FROM index_tool WHERE registry = $1 AND tool = $2";
        let key = ToolKey { registry: self.registry_id().await?, id };
        let values = [Value::Integer(key.registry.0), Value::Bytes(&key.id_bytes())];
        let row = self.index.database().fetch_optional(BLOCK, &values).await?;
        row.map(|row| Ok(row.scalar()?)).transpose()
    }

    /// Handles the findings of a second read. An error when a header's bloom filter matches events that no node returns.
    pub(super) async fn take_note(&mut self, findings: Findings, place: GapPosition) -> Result<(), Error> {
        if findings.omitted > 0 {
            self.caught(findings.omitted, place).await?;
        }
        let mut given_up = 0;
        for unkept in findings.unkept {
            let (_, since) = *self.audit.doubts.entry(unkept.hash).or_insert_with(|| (unkept.block, Instant::now()));
            if unkept.is_proven || since.elapsed() < self.options.doubt {
                let what = match unkept.is_proven {
                    true => "the receipts of a block do not match its header",
                    false => "the bloom filter of a block header matches events that no RPC node returns",
                };
                return Err(Error::Incomplete { what, from: unkept.block, to: unkept.block });
            }
            tracing::error!(registry = %self.source.registry().address(), block = unkept.block, hash = %unkept.hash,
                "block header bloom filter matches events that no RPC node returns, advancing without them");
            self.audit.doubts.remove(&unkept.hash);
            given_up += 1;
        }
        if given_up > 0 {
            let registry = self.registry_id().await?;
            let mut transaction = self.begin().await?;
            count_omitted(&mut transaction, registry, 0, given_up).await?;
            transaction.commit().await?;
            self.progress.send_modify(|progress| progress.doubtful += given_up);
        }
        Ok(())
    }

    /// Handles a node that omitted logs that another response had: everything that it returned before is read again.
    pub(super) async fn caught(&mut self, omitted: u64, place: GapPosition) -> Result<(), Error> {
        let (registry, first_block) = (self.registry_id().await?, self.state()?.first_block);
        let tip = self.audit.tip_rescan.filter(|at| place == GapPosition::Tip && at.elapsed() < TIP_RESCANS);
        let mut transaction = self.begin().await?;
        count_omitted(&mut transaction, registry, omitted, 0).await?;
        if tip.is_none() {
            request_rescan(&mut transaction, registry, first_block).await?;
        }
        transaction.commit().await?;
        tracing::warn!(registry = %self.source.registry().address(), chain = self.source.chain().chain_id(), omitted,
            "RPC node omitted logs that another response had");
        self.progress.send_modify(|progress| progress.missed += omitted);
        if tip.is_none() {
            self.audit.is_wary = true;
            if place == GapPosition::Tip {
                self.audit.tip_rescan = Some(Instant::now());
            }
        }
        Ok(())
    }

    /// Requests a full rescan, and reads ranges twice until it is finished.
    pub(super) async fn distrust(&mut self) -> Result<(), Error> {
        let (registry, first_block) = (self.registry_id().await?, self.state()?.first_block);
        let mut transaction = self.begin().await?;
        request_rescan(&mut transaction, registry, first_block).await?;
        transaction.commit().await?;
        self.audit.is_wary = true;
        Ok(())
    }

    /// Records that logs are missing, for metrics and operators.
    pub(super) async fn report_incomplete(&mut self, what: &'static str, from: u64, to: u64) -> Result<(), Error> {
        let registry = self.registry_id().await?;
        if self.state.is_none() {
            self.state = Some(State::load(self.index.database(), registry).await?);
        }
        let first_block = self.state()?.first_block;
        let mut transaction = self.begin().await?;
        set_incomplete(&mut transaction, registry, what, self.options.clock.now()).await?;
        request_rescan(&mut transaction, registry, first_block).await?;
        transaction.commit().await?;
        tracing::error!(registry = %self.source.registry().address(), chain = self.source.chain().chain_id(), from, to,
            code = toolcrib_core::codes::index::INCOMPLETE.id(), reason = what, "logs missing, not advancing past them");
        (self.audit.is_wary, self.audit.may_be_incomplete) = (true, true);
        self.progress.send_modify(|progress| progress.incomplete = true);
        Ok(())
    }

    /// Does a part of the work below the checkpoint in each step: compares tools with the registry, and reads blocks again.
    pub(super) async fn look_back(&mut self) -> Result<Step, Error> {
        self.compare_tools().await?;
        let registry = self.registry_id().await?;
        if !self.state()?.has_begun() {
            return Ok(Step::Idle);
        }
        match self.index.rescan_of(registry).await? {
            Some(from) if self.audit.rescan.0 <= Instant::now() => {
                self.rescan(from).await?;
                Ok(Step::Advanced)
            }
            Some(_) => Ok(Step::Idle),
            None => {
                // After a restart only a comparison of all tools shows that those that were wrong no longer are.
                let is_compared = self.audit.is_compared
                    || self.options.audited_tools == 0
                    || self.audit.counts == Some(false)
                    || self.state()?.highest.is_none();
                if self.audit.may_be_incomplete && is_compared && self.audit.wrong.is_empty() {
                    let mut transaction = self.begin().await?;
                    set_complete(&mut transaction, registry).await?;
                    transaction.commit().await?;
                    self.audit.may_be_incomplete = false;
                    self.progress.send_modify(|progress| progress.incomplete = false);
                }
                Ok(Step::Idle)
            }
        }
    }

    /// Reads one range of a rescan.
    async fn rescan(&mut self, from: u64) -> Result<(), Error> {
        let registry = self.registry_id().await?;
        let Ok(end) = u64::try_from(self.state()?.checkpoint) else { return Ok(()) };
        let to = end.min(from.saturating_add(self.pace.span() - 1));
        if from <= to {
            let predicates = self.state()?.predicates.all().to_vec();
            let (mut page, disputed) = self.source.again(from, to, &predicates).await?;
            self.audit.is_disputed |= disputed > 0;
            let headers = self.source.headers(self.headers().headers_of(from, to)?).await?;
            let findings = self.source.settle(&headers, &mut page, &predicates).await?;
            self.audit.is_disputed |= findings.omitted > 0;
            let unkept = Findings { omitted: 0, ..findings };
            self.take_note(unkept, GapPosition::Past).await?;
            let added = self.add_missing(from, to, page, Some(from)).await?;
            if added > 0 {
                tracing::warn!(registry = %self.source.registry().address(), from, to, added, "rescan found missing logs");
                let mut transaction = self.begin().await?;
                count_omitted(&mut transaction, registry, added, 0).await?;
                transaction.commit().await?;
                self.progress.send_modify(|progress| progress.missed += added);
            }
        }
        let next = to.max(from.saturating_sub(1)) + 1;
        self.progress.send_modify(|progress| progress.rescanned = next);
        if next <= end {
            return Ok(());
        }
        let mut transaction = self.begin().await?;
        advance_rescan(&mut transaction, registry, next, None).await?;
        transaction.commit().await?;
        if std::mem::take(&mut self.audit.is_disputed) {
            // Nodes contradicted each other, so the result is not final.
            let pause = self.audit.rescan.1;
            self.audit.rescan = (Instant::now() + pause, (pause * 2).min(LONGEST_WAIT));
            tracing::warn!(registry = %self.source.registry().address(), seconds = pause.as_secs(),
                "contradicting answers during a rescan, retrying");
            return self.distrust().await;
        }
        (self.audit.is_wary, self.audit.cap) = (false, None);
        self.audit.doubts.clear();
        self.audit.rescan.1 = self.options.rescan_pause;
        Ok(())
    }

    /// Reads indexed blocks again, and adds missing logs. Returns their number.
    async fn reread(&mut self, from: u64, to: u64) -> Result<u64, Error> {
        let mut added = 0;
        let mut next = from;
        while next <= to {
            let end = to.min(next.saturating_add(self.pace.span() - 1));
            let predicates = self.state()?.predicates.all().to_vec();
            let (page, _) = self.source.again(next, end, &predicates).await?;
            added += self.add_missing(next, end, page, None).await?;
            next = end + 1;
        }
        Ok(added)
    }

    /// Adds the logs of a range that are not in the index. With `rescan`, the rescan at that block continues after the range.
    pub(super) async fn add_missing(&mut self, from: u64, to: u64, mut page: LogPage, rescan: Option<u64>) -> Result<u64, Error> {
        let registry = self.registry_id().await?;
        let state = self.state()?.clone();
        let checkpoint = u64::try_from(state.checkpoint).unwrap_or_default();
        let mut known = state.predicates.clone();
        let named = known.learn_earlier(&page.logs);
        let mut last = to;
        for named in &named {
            // From the block where it was first named to the block from which its upgrades were requested.
            let until = named.had.map_or(checkpoint, |(block, _)| block);
            last = last.max(until);
            let more = self.source.upgrades(named.place.0, until, &[named.predicate]).await?;
            merge(&mut page, more);
        }
        page.logs.retain(|log| known.counts(log) && log.block <= checkpoint);
        retain_missing(self.index.database(), registry, (from, last), &mut page.logs).await?;
        self.check_blocks(&mut page).await?;
        self.source.fill_times(&mut page.logs, &[]).await?;
        let added = page.logs.len() as u64;
        if added == 0 && rescan.is_none() {
            return Ok(0);
        }
        // Tools are folded again from their histories.
        self.prepare_reading().await?;
        let mut transaction = self.begin().await?;
        if let Some(at) = rescan {
            advance_rescan(&mut transaction, registry, at, Some(to + 1)).await?;
        }
        if added > 0 {
            repair(&mut transaction, registry, &page.logs, &named, self.options.clock.now()).await?;
        }
        transaction.commit().await?;
        if added > 0 {
            self.state = Some(State::load(self.index.database(), registry).await?);
        }
        Ok(added)
    }

    /// Checks that logs to be added belong to blocks of the chain, and removes those that a header rules out.
    async fn check_blocks(&mut self, page: &mut LogPage) -> Result<(), Error> {
        let mut blocks: Vec<u64> = page.logs.iter().map(|log| log.block).collect();
        blocks.dedup();
        let headers = self.source.headers(blocks).await?;
        let headers: HashMap<u64, Header> = headers.into_iter().map(|header| (header.number, header)).collect();
        if page.logs.iter().any(|log| headers.get(&log.block).is_none_or(|header| header.hash != log.block_hash)) {
            return Err(Error::Inconsistent { what: "a log belongs to another block than the header" });
        }
        let registry = self.source.registry();
        page.logs.retain(|log| headers.get(&log.block).is_some_and(|header| !registry.is_ruled_out(header, log)));
        Ok(())
    }
}
