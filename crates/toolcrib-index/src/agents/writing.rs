//! Leasing names that are due, and writing the results.
//!
//! Results are written in batches: resolutions that finish together share a transaction, so that checking thousands of names again costs
//! few commits. A worker that lost its lease meanwhile writes nothing.

use std::collections::HashMap;

use toolcrib_core::agent::AgtDomain;
use toolcrib_core::agent::pricing::is_amount;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{Bulk, Column, FromRow as _, PerEngine, Transaction, Value};
use toolcrib_store::{row, sql};

use super::events::feed_key;
use super::find::{folded, term};
use super::memory::{self, AgentMemory};
use super::model::{AgentResolution, AgentTrouble, AgentVerdict, bounded_report};
use super::names::title;
use super::tables::COUNT_CHANGE;
use super::worker::{AgentOptions, AgentRound};
use crate::feed::{self, Kinds};
use crate::work::kept::json;
use crate::work::pace::{grown, spread_by};
use crate::{Error, Index};

/// The maximum number of verdict changes stored for one name: a week of a name that flips at every hourly check.
pub const MAX_CHANGES: i64 = 200;

/// The random token of a worker.
pub(super) type Token = [u8; 16];

/// A name that this worker has leased, and what was known about it before.
#[derive(Clone, Debug)]
pub(super) struct AgentJob {
    pub(super) domain: AgtDomain,
    /// The newest verified manifest.
    pub(super) remembered: Option<AgentMemory>,
    /// Consecutive resolutions without a verified result.
    attempts: u32,
    /// The expiry of the lease, which distinguishes two leases of one worker.
    leased_until: i64,
    changes: i64,
    answer: String,
    was_good: bool,
    newest_at: i64,
    digest: Option<Vec<u8>>,
    has_trouble: bool,
}

/// A finished resolution.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) job: AgentJob,
    /// When it began: the verdict is at least that old.
    pub(super) begun: UnixTime,
    pub(super) resolution: AgentResolution,
}

row! {
    /// A name that was leased.
    struct LeasedRow<'r> {
        domain: &'r str,
        attempts: i64,
        changes: i64,
        answer: String,
        good: bool,
        newest_at: i64,
        digest: Option<Vec<u8>>,
        trouble_at: Option<i64>,
    }
}

/// Of those that are due, the one that waits longest goes first. `SKIP LOCKED` leaves rows to others that lease at the same moment.
const LEASE: PerEngine = PerEngine {
    sqlite: sql!(
        "WITH due AS MATERIALIZED (SELECT domain FROM index_agent
            WHERE listed AND due_at <= $3 AND (leased_until IS NULL OR leased_until <= $3) ORDER BY due_at LIMIT $4)
        UPDATE index_agent SET leased_until = $1, lease = $2 WHERE domain IN (SELECT domain FROM due)
        RETURNING ",
        LeasedRow::COLUMNS
    ),
    postgres: sql!(
        "WITH due AS MATERIALIZED (SELECT domain FROM index_agent
            WHERE listed AND due_at <= $3 AND (leased_until IS NULL OR leased_until <= $3) ORDER BY due_at LIMIT $4
            FOR UPDATE SKIP LOCKED)
        UPDATE index_agent SET leased_until = $1, lease = $2 WHERE domain IN (SELECT domain FROM due)
        RETURNING ",
        LeasedRow::COLUMNS
    ),
};

row! {
    /// A name that is leased.
    struct HeldRow {
        domain: String,
        leased_until: Option<i64>,
    }
}

/// Names that a worker still holds, in the order in which everybody locks rows.
const HELD: PerEngine = PerEngine {
    sqlite: sql!("SELECT ", HeldRow::COLUMNS, " FROM index_agent WHERE lease = $1 ORDER BY domain"),
    postgres: sql!("SELECT ", HeldRow::COLUMNS, " FROM index_agent WHERE lease = $1 ORDER BY domain FOR UPDATE"),
};

const JUDGED: Bulk = Bulk {
    table: "index_agent",
    columns: &[
        "domain",
        "due_at",
        "attempts",
        "changes",
        "answer",
        "checked_at",
        "expires_at",
        "good",
        "newest_at",
        "digest",
        "terms",
        "title",
        "words",
        "model",
        "currency",
        "price",
    ],
    conflict:
        "ON CONFLICT (domain) DO UPDATE SET due_at = excluded.due_at, attempts = excluded.attempts, changes = excluded.changes,
        answer = excluded.answer, checked_at = excluded.checked_at, expires_at = excluded.expires_at, good = excluded.good,
        newest_at = excluded.newest_at, digest = excluded.digest, terms = excluded.terms, title = excluded.title,
        words = excluded.words, model = excluded.model, currency = excluded.currency, price = excluded.price, trouble = NULL,
        trouble_at = NULL, leased_until = NULL, lease = NULL",
};

/// All fields of the last verdict stay.
const UNREACHED: Bulk = Bulk {
    table: "index_agent",
    columns: &["domain", "due_at", "attempts", "trouble", "trouble_at"],
    conflict:
        "ON CONFLICT (domain) DO UPDATE SET due_at = excluded.due_at, attempts = excluded.attempts, trouble = excluded.trouble,
        trouble_at = excluded.trouble_at, leased_until = NULL, lease = NULL",
};

const DOCUMENT: Bulk = Bulk {
    table: "index_agent_document",
    columns: &["domain", "document", "report"],
    conflict: "ON CONFLICT (domain) DO UPDATE SET document = excluded.document, report = excluded.report",
};

const CHANGE: Bulk = Bulk {
    table: "index_agent_change",
    columns: &["domain", "number", "at", "answer"],
    conflict: "ON CONFLICT (domain, number) DO NOTHING",
};
const CUT_CHANGES: &str = "DELETE FROM index_agent_change WHERE domain = $1 AND number <= $2";

/// Leases at most `count` names that are due.
pub(super) async fn lease(
    index: &Index,
    token: &Token,
    count: usize,
    seconds: i64,
    now: UnixTime,
) -> Result<Vec<AgentJob>, Error> {
    let leased_until = now.plus(seconds).seconds();
    let values = [
        Value::Integer(leased_until),
        Value::Bytes(token),
        Value::Integer(now.seconds()),
        Value::Integer(i64::try_from(count).unwrap_or(1)),
    ];
    let mut transaction = index.database().begin().await?;
    // Planned for each execution: see `fetch_made`.
    let rows = transaction.fetch_made(index.database().pick(LEASE).to_owned(), &values).await?;
    let mut jobs = LeasedRow::from_rows(&rows).map(|row| AgentJob::of(row?, leased_until)).collect::<Result<Vec<_>, _>>()?;
    if !jobs.is_empty() {
        let mut remembered = memory::of_lease(&mut transaction, token).await?;
        jobs.iter_mut().for_each(|job| job.remembered = remembered.remove(job.domain.as_str()));
    }
    transaction.commit().await?;
    Ok(jobs)
}

impl AgentJob {
    fn of(row: LeasedRow<'_>, leased_until: i64) -> Result<Self, Error> {
        Ok(Self {
            domain: AgtDomain::parse(row.domain).map_err(|_| Error::Corrupt { what: "name of an agent" })?,
            remembered: None,
            attempts: u32::try_from(row.attempts).unwrap_or(u32::MAX),
            leased_until,
            changes: row.changes,
            answer: row.answer,
            was_good: row.good,
            newest_at: row.newest_at,
            digest: row.digest,
            has_trouble: row.trouble_at.is_some(),
        })
    }
}

/// What to write about one name, prepared before the transaction begins.
enum Prepared {
    Judged(Box<JudgedRow>),
    Unreached { domain: String, due_at: i64, attempts: i64, trouble: String, at: i64, is_news: bool },
}

struct JudgedRow {
    domain: String,
    due_at: i64,
    attempts: i64,
    changes: i64,
    answer: String,
    checked_at: i64,
    expires_at: i64,
    good: bool,
    newest_at: i64,
    digest: Option<Vec<u8>>,
    terms: String,
    title: String,
    words: String,
    model: String,
    currency: String,
    price: Option<i64>,
    document: String,
    report: Option<String>,
    remember: Option<AgentMemory>,
    is_change: bool,
    is_news: bool,
}

impl Prepared {
    fn of(finished: Finished, options: &AgentOptions, now: UnixTime) -> Result<Self, Error> {
        let Finished { job, begun, resolution } = finished;
        let due = |pause: i64| now.plus(pause.saturating_add(spread_by(job.domain.as_str().as_bytes(), pause))).seconds();
        match resolution {
            AgentResolution::Unreachable { step, code } => Ok(Self::Unreached {
                due_at: due(options.after_unreachable(job.attempts)),
                attempts: i64::from(job.attempts.saturating_add(1)),
                trouble: json(&AgentTrouble { step, code }.bounded())?,
                at: now.seconds(),
                is_news: !job.has_trouble,
                domain: job.domain.as_str().to_owned(),
            }),
            AgentResolution::Judged { verdict, report } => {
                let verdict = verdict.bounded();
                let good = verdict.is_good();
                let (pause, attempts) = options.after_verdict(good, job.was_good, job.attempts);
                let answer = json(&verdict.answer())?;
                let is_change = answer != job.answer;
                let digest = verdict.content_digest.map(|digest| digest.to_vec());
                let columns = SearchColumns::of(&job.domain, &verdict);
                Ok(Self::Judged(Box::new(JudgedRow {
                    domain: job.domain.as_str().to_owned(),
                    due_at: due(pause),
                    attempts: i64::from(attempts),
                    changes: job.changes + i64::from(is_change),
                    checked_at: begun.seconds(),
                    expires_at: begun.plus(options.window).seconds(),
                    good,
                    newest_at: newest_at(&job, &verdict, digest.as_deref(), begun),
                    digest,
                    terms: columns.terms,
                    title: columns.title,
                    words: columns.words,
                    model: columns.model,
                    currency: columns.currency,
                    price: columns.price,
                    remember: AgentMemory::of(&verdict, job.remembered.as_ref(), begun),
                    document: json(&verdict)?,
                    report: bounded_report(report),
                    answer,
                    is_change,
                    is_news: is_change || job.has_trouble,
                })))
            }
        }
    }

    fn domain(&self) -> &str {
        match self {
            Self::Judged(row) => &row.domain,
            Self::Unreached { domain, .. } => domain,
        }
    }

    /// Whether the verdict differs from the previous one.
    const fn is_change(&self) -> bool {
        match self {
            Self::Judged(row) => row.is_change,
            Self::Unreached { .. } => false,
        }
    }

    const fn is_news(&self) -> bool {
        match self {
            Self::Judged(row) => row.is_news,
            Self::Unreached { is_news, .. } => *is_news,
        }
    }
}

/// Returns the date of the content: what it states itself, but never later than when it was first seen here, so that a date in the future
/// does not keep an agent at the top.
fn newest_at(job: &AgentJob, verdict: &AgentVerdict, digest: Option<&[u8]>, begun: UnixTime) -> i64 {
    if digest.is_some() && digest == job.digest.as_deref() {
        return job.newest_at;
    }
    match verdict.created_at {
        Some(created_at) => created_at.seconds().min(begun.seconds()),
        None => job.newest_at,
    }
}

/// The columns that searches compare. Agents that are not good have only their name there.
#[derive(Default)]
struct SearchColumns {
    terms: String,
    title: String,
    words: String,
    model: String,
    currency: String,
    price: Option<i64>,
}

impl SearchColumns {
    fn of(domain: &AgtDomain, verdict: &AgentVerdict) -> Self {
        let name = |name: Option<&str>| folded(&title(domain, name));
        let Some(facts) = &verdict.facts else {
            return Self { title: name(None), words: name(None), ..Self::default() };
        };
        let title = name(facts.name.as_deref());
        let words = format!("{title} {}", folded(facts.description.as_deref().unwrap_or_default()));
        let protocols = facts.protocols.iter().map(|protocol| term('p', &protocol.id));
        let terms = protocols.chain(facts.capabilities.iter().map(|id| term('c', id))).collect();
        let pricing = facts.pricing.as_ref();
        let text = |text: Option<&String>| text.map(|text| folded(text)).unwrap_or_default();
        Self {
            terms,
            title,
            words,
            model: text(pricing.map(|pricing| &pricing.model)),
            currency: text(pricing.and_then(|pricing| pricing.currency.as_ref())),
            price: pricing.and_then(|pricing| pricing.amount.as_deref()).and_then(micro),
        }
    }
}

/// Returns an amount in millionths, rounded up, so that an agent never costs more than a filter says. A value too large for the type is
/// clamped to the maximum.
fn micro(amount: &str) -> Option<i64> {
    if !is_amount(amount) {
        return None;
    }
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
    let (kept, rest) = fraction.split_at(fraction.len().min(6));
    // The digits were validated: a value that does not parse is too large.
    let scaled = whole.parse::<i64>().ok().and_then(|whole| whole.checked_mul(1_000_000));
    let part: i64 = format!("{kept:0<6}").parse().unwrap_or_default();
    let up = i64::from(rest.bytes().any(|byte| byte != b'0'));
    Some(scaled.and_then(|scaled| scaled.checked_add(part + up)).unwrap_or(i64::MAX))
}

/// Writes the results of some names in one transaction.
pub(super) async fn write(
    index: &Index,
    token: &Token,
    finished: Vec<Finished>,
    options: &AgentOptions,
    now: UnixTime,
) -> Result<AgentRound, Error> {
    let mut round = AgentRound::default();
    let mut prepared = Vec::with_capacity(finished.len());
    for finished in finished {
        let leased_until = finished.job.leased_until;
        prepared.push((leased_until, Prepared::of(finished, options, now)?));
    }
    prepared.sort_by(|(_, one), (_, other)| one.domain().cmp(other.domain()));
    let mut transaction = index.database().begin().await?;
    let rows = transaction.fetch(index.database().pick(HELD), &[Value::Bytes(token)]).await?;
    let mut held = HashMap::with_capacity(rows.len());
    for row in HeldRow::from_rows(&rows) {
        let row = row?;
        held.insert(row.domain, row.leased_until);
    }
    let all = prepared.len();
    // Each name once: a second result of the same lease does not exist, and one of an older lease has another expiry.
    let ours: Vec<Prepared> = prepared
        .into_iter()
        .filter(|(leased_until, row)| held.remove(row.domain()) == Some(Some(*leased_until)))
        .map(|(_, row)| row)
        .collect();
    round.lost = all - ours.len();
    let judged: Vec<&JudgedRow> =
        ours.iter().filter_map(|row| if let Prepared::Judged(row) = row { Some(&**row) } else { None }).collect();
    round.judged = judged.len();
    round.unreachable = ours.len() - judged.len();
    round.changed = judged.iter().filter(|row| row.is_change).count();
    write_judged(&mut transaction, &judged).await?;
    write_unreached(&mut transaction, &ours).await?;
    if ours.iter().any(Prepared::is_news) {
        transaction.execute(COUNT_CHANGE, &[]).await?;
    }
    let changed = ours.iter().filter(|row| row.is_change()).filter_map(|row| AgtDomain::parse(row.domain()).ok());
    let events: Vec<_> = changed.map(|domain| (feed_key(&domain), Kinds::VERIFICATION)).collect();
    if !events.is_empty() {
        feed::record(&mut transaction, &events, now).await?;
    }
    transaction.commit().await?;
    Ok(round)
}

async fn write_judged(transaction: &mut Transaction, rows: &[&JudgedRow]) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    fn texts<'r>(rows: &[&'r JudgedRow], of: fn(&'r JudgedRow) -> &'r str) -> Vec<&'r str> {
        rows.iter().map(|row| of(row)).collect()
    }
    let numbers = |of: fn(&JudgedRow) -> i64| rows.iter().map(|row| of(row)).collect::<Vec<i64>>();
    let domains = texts(rows, |row| &row.domain);
    let good: Vec<bool> = rows.iter().map(|row| row.good).collect();
    let digests: Vec<Option<&[u8]>> = rows.iter().map(|row| row.digest.as_deref()).collect();
    let checked: Vec<Option<i64>> = rows.iter().map(|row| Some(row.checked_at)).collect();
    let prices: Vec<Option<i64>> = rows.iter().map(|row| row.price).collect();
    let columns = [
        Column::Texts(&domains),
        Column::Integers(&numbers(|row| row.due_at)),
        Column::Integers(&numbers(|row| row.attempts)),
        Column::Integers(&numbers(|row| row.changes)),
        Column::Texts(&texts(rows, |row| &row.answer)),
        Column::OptionalIntegers(&checked),
        Column::Integers(&numbers(|row| row.expires_at)),
        Column::Booleans(&good),
        Column::Integers(&numbers(|row| row.newest_at)),
        Column::OptionalBytes(&digests),
        Column::Texts(&texts(rows, |row| &row.terms)),
        Column::Texts(&texts(rows, |row| &row.title)),
        Column::Texts(&texts(rows, |row| &row.words)),
        Column::Texts(&texts(rows, |row| &row.model)),
        Column::Texts(&texts(rows, |row| &row.currency)),
        Column::OptionalIntegers(&prices),
    ];
    transaction.insert_many(&JUDGED, &columns).await?;
    let reports: Vec<Option<&str>> = rows.iter().map(|row| row.report.as_deref()).collect();
    let documents = texts(rows, |row| &row.document);
    let columns = [Column::Texts(&domains), Column::Texts(&documents), Column::OptionalTexts(&reports)];
    transaction.insert_many(&DOCUMENT, &columns).await?;
    let memories: Vec<_> =
        rows.iter().filter_map(|row| row.remember.as_ref().map(|memory| (row.domain.as_str(), memory))).collect();
    memory::write(transaction, &memories).await?;
    let changed: Vec<&JudgedRow> = rows.iter().copied().filter(|row| row.is_change).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let changes: Vec<i64> = changed.iter().map(|row| row.changes).collect();
    let times: Vec<i64> = changed.iter().map(|row| row.checked_at).collect();
    let columns = [
        Column::Texts(&texts(&changed, |row| &row.domain)),
        Column::Integers(&changes),
        Column::Integers(&times),
        Column::Texts(&texts(&changed, |row| &row.answer)),
    ];
    transaction.insert_many(&CHANGE, &columns).await?;
    for row in changed.iter().filter(|row| row.changes > MAX_CHANGES) {
        let values = [Value::Text(&row.domain), Value::Integer(row.changes - MAX_CHANGES)];
        transaction.execute(CUT_CHANGES, &values).await?;
    }
    Ok(())
}

async fn write_unreached(transaction: &mut Transaction, rows: &[Prepared]) -> Result<(), Error> {
    let (mut domains, mut due, mut counts, mut troubles, mut times) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        if let Prepared::Unreached { domain, due_at, attempts, trouble, at, .. } = row {
            domains.push(domain.as_str());
            due.push(*due_at);
            counts.push(*attempts);
            troubles.push(Some(trouble.as_str()));
            times.push(Some(*at));
        }
    }
    if domains.is_empty() {
        return Ok(());
    }
    let columns = [
        Column::Texts(&domains),
        Column::Integers(&due),
        Column::Integers(&counts),
        Column::OptionalTexts(&troubles),
        Column::OptionalIntegers(&times),
    ];
    transaction.insert_many(&UNREACHED, &columns).await?;
    Ok(())
}

impl AgentOptions {
    /// Returns the pause after a failed resolution: a minute, doubling up to the interval.
    fn after_unreachable(&self, attempts: u32) -> i64 {
        grown(self.retry, attempts, self.interval)
    }

    /// Returns the pause after a verdict, and the new number of attempts. A name that is no longer good is checked again soon: its owner
    /// may be in the middle of an update.
    fn after_verdict(&self, is_good: bool, was_good: bool, attempts: u32) -> (i64, u32) {
        match (is_good, was_good) {
            (true, _) => (self.interval, 0),
            (false, true) => (self.soon.min(self.interval), 1),
            (false, false) => (grown(self.interval, attempts, self.longest), attempts.saturating_add(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_up() {
        for (amount, expected) in [
            ("0", Some(0)),
            ("0.01", Some(10_000)),
            ("1", Some(1_000_000)),
            ("0.0000001", Some(1)),
            ("0.1234560", Some(123_456)),
            ("0.1234561", Some(123_457)),
            ("9223372036854", Some(9_223_372_036_854_000_000)),
            ("9223372036855", Some(i64::MAX)),
            ("-1", None),
            ("1e3", None),
        ] {
            assert_eq!(micro(amount), expected, "{amount}");
        }
        assert_eq!(micro(&"9".repeat(100)), Some(i64::MAX));
    }

    #[test]
    fn pauses_grow_while_nothing_is_verified() {
        let options = AgentOptions::default();
        assert_eq!(options.after_verdict(true, false, 7), (3_600, 0));
        assert_eq!(options.after_verdict(false, true, 0), (600, 1));
        assert_eq!(options.after_verdict(false, false, 1), (7_200, 2));
        assert_eq!(options.after_verdict(false, false, 30).0, 86_400);
        assert_eq!([0, 1, 5, 40].map(|attempts| options.after_unreachable(attempts)), [60, 120, 1_920, 3_600]);
    }
}
