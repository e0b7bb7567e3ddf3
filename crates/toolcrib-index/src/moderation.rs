//! Moderation: what the operator blocks or hides and why, and reports of abuse.
//!
//! A rule applies to a tool, to all tools of a creator, later ones included, or to a Bazaar resource. For a blocked one a notice replaces
//! the content; a hidden one is left out of lists and search and can still be requested by reference. Rules are joined to tools and
//! resources on each read, so that processes need no notification. Every decision is in the log, and in the change feed of each tool that
//! it affects.
//!
//! Rules and reports about a resource name it by its identity, the hash of its URL and tool name: its number is valid in this database
//! alone, and a resource that returns after a long absence gets a new one. A resource that leaves its catalogue and comes back is still
//! blocked.

use alloy_primitives::{Address, B256, U256};
use serde::Serialize;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::Migration;
use toolcrib_store::database::{FromRow as _, Row, Transaction, Value};
use toolcrib_store::{row, sql};

use crate::bazaar::ResourceView;
use crate::feed::{self, Kinds};
use crate::model::{RegistryId, ToolKey};
use crate::search::Source;
use crate::{Error, Index};

pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        sql: "CREATE TABLE index_moderation_tool (registry BIGINT NOT NULL, tool BYTES NOT NULL, action TEXT NOT NULL, reason TEXT NOT NULL,
        notice TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (registry, tool));
    CREATE TABLE index_moderation_creator (creator BYTES NOT NULL PRIMARY KEY, action TEXT NOT NULL, reason TEXT NOT NULL,
        notice TEXT NOT NULL, at BIGINT NOT NULL);
    CREATE TABLE index_moderation_log (number BIGINT NOT NULL PRIMARY KEY, at BIGINT NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL,
        subject TEXT NOT NULL, reason TEXT NOT NULL, notice TEXT NOT NULL);
    CREATE TABLE index_abuse_report (number BIGINT NOT NULL PRIMARY KEY, registry BIGINT NOT NULL, tool BYTES NOT NULL, at BIGINT NOT NULL,
        reason TEXT NOT NULL, details TEXT NOT NULL, closed_at BIGINT);
    CREATE INDEX index_abuse_report_tool ON index_abuse_report (registry, tool);",
    },
    Migration {
        version: 2,
        sql: "CREATE TABLE index_moderation_resource (identity BYTES NOT NULL PRIMARY KEY, action TEXT NOT NULL, reason TEXT NOT NULL,
        notice TEXT NOT NULL, at BIGINT NOT NULL);",
    },
];

/// The maximum length of a reason or notice in characters: a few sentences.
pub const MAX_TEXT_CHARS: usize = 1_000;

/// The maximum length of a description of abuse in characters.
pub const MAX_DETAILS_CHARS: usize = 2_000;

/// The maximum number of open reports about one tool. More add no information, and must not fill the database.
pub const MAX_OPEN_REPORTS: i64 = 50;

/// The maximum number of rows in one page of rules, log entries or reports.
pub const MAX_PAGE: i64 = 200;

/// The maximum number of feed changes recorded in one transaction: a creator may have many tools.
const CHANGES: usize = 5_000;

/// What is done to a tool or a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Restriction {
    /// A notice replaces its content.
    Block,
    /// It is left out of lists and search.
    Hide,
}

impl Restriction {
    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Hide => "hide",
        }
    }

    /// Parses the word. One of a later version counts as the stricter restriction.
    fn read(word: &str) -> Self {
        if word == "hide" { Self::Hide } else { Self::Block }
    }
}

/// A rule that applies to a tool or a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moderation {
    /// The restriction.
    pub action: Restriction,
    /// The reason, shown publicly.
    pub reason: String,
    /// The notice that replaces the content.
    pub notice: String,
    /// When the rule was set.
    pub at: UnixTime,
}

row! {
    /// What a rule says.
    struct RuleRow<'r> {
        action: Option<&'r str>,
        reason: Option<String>,
        notice: Option<String>,
        at: Option<UnixTime>,
    }
}

impl Moderation {
    /// Reads the columns `action`, `reason`, `notice` and `at`, which are all empty without a rule.
    pub(crate) fn read(row: &Row) -> Result<Option<Self>, Error> {
        let row = RuleRow::from_row(row)?;
        Ok(row.action.map(|action| Self {
            action: Restriction::read(action),
            reason: row.reason.unwrap_or_default(),
            notice: row.notice.unwrap_or_default(),
            at: row.at.unwrap_or(UnixTime::from_seconds(0)),
        }))
    }
}

/// What a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A tool.
    Tool(ToolKey),
    /// All tools of an account, later ones included.
    Creator(Address),
    /// A Bazaar resource, by the hash of its URL and tool name.
    Resource(B256),
}

/// What the operator decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Block it.
    Block,
    /// Unblock it.
    Unblock,
    /// Hide it.
    Hide,
    /// Unhide it.
    Unhide,
}

impl Step {
    /// Every step, with its word.
    pub const WORDS: [(&'static str, Self); 4] =
        [("block", Self::Block), ("unblock", Self::Unblock), ("hide", Self::Hide), ("unhide", Self::Unhide)];

    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Unblock => "unblock",
            Self::Hide => "hide",
            Self::Unhide => "unhide",
        }
    }

    /// Returns the restriction, and whether this step sets or removes it.
    const fn restriction(self) -> (Restriction, bool) {
        match self {
            Self::Block => (Restriction::Block, true),
            Self::Unblock => (Restriction::Block, false),
            Self::Hide => (Restriction::Hide, true),
            Self::Unhide => (Restriction::Hide, false),
        }
    }
}

/// A decision of the operator.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'a> {
    /// What it applies to.
    pub subject: Subject,
    /// The step.
    pub step: Step,
    /// The reason, shown publicly.
    pub reason: &'a str,
    /// The notice that replaces the content.
    pub notice: &'a str,
    /// The account of the operator: the name of an API key, or the command line.
    pub actor: &'a str,
}

/// A rule in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// A tool or a resource by its reference, or a creator by its address.
    pub subject: String,
    /// The restriction.
    #[serde(flatten)]
    pub moderation: Moderation,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogEntry {
    /// Its number, counted from 1.
    pub number: i64,
    /// When the decision was made.
    pub at: UnixTime,
    /// The name of an API key, or the command line.
    pub actor: String,
    /// The step.
    pub action: String,
    /// What it applies to.
    pub subject: String,
    /// The reason.
    pub reason: String,
    /// The notice that replaces the content.
    pub notice: String,
}

/// A report of abuse. Its details are untrusted text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AbuseReport {
    /// Its number, counted from 1.
    pub number: i64,
    /// The tool or resource, by its reference.
    pub tool: String,
    /// When it was received.
    pub at: UnixTime,
    /// The kind of abuse.
    pub reason: String,
    /// The reporter's description.
    pub details: String,
    /// When the operator closed it.
    pub closed_at: Option<UnixTime>,
}

row! {
    /// An entry of the log.
    struct LogRow {
        number: i64,
        at: UnixTime,
        actor: String,
        action: String,
        subject: String,
        reason: String,
        notice: String,
    }
}

row! {
    /// A report of abuse.
    struct ReportRow<'r> {
        number: i64,
        registry: i64,
        tool: &'r [u8],
        at: UnixTime,
        reason: String,
        details: String,
        closed_at: Option<UnixTime>,
    }
}

const SET_TOOL: &str =
    "INSERT INTO index_moderation_tool (registry, tool, action, reason, notice, at) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (registry, tool) DO UPDATE SET action = excluded.action, reason = excluded.reason, notice = excluded.notice,
        at = excluded.at";
const SET_CREATOR: &str = "INSERT INTO index_moderation_creator (creator, action, reason, notice, at) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (creator) DO UPDATE SET action = excluded.action, reason = excluded.reason, notice = excluded.notice, at = excluded.at";
const SET_RESOURCE: &str = "INSERT INTO index_moderation_resource (identity, action, reason, notice, at) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (identity) DO UPDATE SET action = excluded.action, reason = excluded.reason, notice = excluded.notice, at = excluded.at";
const UNSET_TOOL: &str = "DELETE FROM index_moderation_tool WHERE registry = $1 AND tool = $2 AND action = $3";
const UNSET_CREATOR: &str = "DELETE FROM index_moderation_creator WHERE creator = $1 AND action = $2";
const UNSET_RESOURCE: &str = "DELETE FROM index_moderation_resource WHERE identity = $1 AND action = $2";
const LOG: &str = "INSERT INTO index_moderation_log (number, at, actor, action, subject, reason, notice)
    SELECT COALESCE(MAX(number), 0) + 1, $1, $2, $3, $4, $5, $6 FROM index_moderation_log";
const TOOLS_OF: &str = "SELECT registry, tool FROM index_tool WHERE creator = $1 ORDER BY registry, tool";
const TOOL_RULES: &str =
    sql!("SELECT registry, tool, ", RuleRow::COLUMNS, " FROM index_moderation_tool ORDER BY at DESC, registry, tool LIMIT $1");
const CREATOR_RULES: &str =
    sql!("SELECT creator, ", RuleRow::COLUMNS, " FROM index_moderation_creator ORDER BY at DESC, creator LIMIT $1");
const RESOURCE_RULES: &str =
    sql!("SELECT identity, ", RuleRow::COLUMNS, " FROM index_moderation_resource ORDER BY at DESC, identity LIMIT $1");
const NUMBER: &str = "SELECT id FROM index_bazaar_resource WHERE identity = $1";
const IDENTITY: &str = "SELECT identity FROM index_bazaar_resource WHERE id = $1";
const ENTRIES: &str =
    sql!("SELECT ", LogRow::COLUMNS, " FROM index_moderation_log WHERE number < $1 ORDER BY number DESC LIMIT $2");
const ADD_REPORT: &str = "INSERT INTO index_abuse_report (number, registry, tool, at, reason, details)
    SELECT COALESCE(MAX(number), 0) + 1, $1, $2, $3, $4, $5 FROM index_abuse_report RETURNING number";
const OPEN_REPORTS: &str = "SELECT COUNT(*) FROM index_abuse_report WHERE registry = $1 AND tool = $2 AND closed_at IS NULL";
const REPORTS: &str = sql!(
    "SELECT ",
    ReportRow::COLUMNS,
    " FROM index_abuse_report WHERE number < $1 AND (closed_at IS NOT NULL) = $2 ORDER BY number DESC LIMIT $3"
);
const CLOSE: &str = "UPDATE index_abuse_report SET closed_at = $2 WHERE number = $1 AND closed_at IS NULL";

/// A reference to a Bazaar resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceRef {
    /// By its number in this database.
    Number(i64),
    /// By the hash of its URL and tool name.
    Identity(B256),
}

impl ResourceRef {
    /// Reads `x402_bazaar/<number>` or `x402_bazaar/0x<identity>`.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.strip_prefix(BAZAAR)?.strip_prefix('/')?;
        if name.starts_with("0x") {
            return name.parse().ok().map(Self::Identity);
        }
        let is_plain = !name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit());
        name.parse().ok().filter(|_| is_plain).map(Self::Number)
    }
}

/// The prefix of references to resources.
const BAZAAR: &str = Source::Bazaar.as_str();

/// The key that reports about a resource are stored under.
fn report_key(identity: B256) -> ToolKey {
    ToolKey { registry: RegistryId::BAZAAR, id: U256::from_be_bytes(identity.0) }
}

fn subject_of_report(key: ToolKey) -> Subject {
    if key.registry == RegistryId::BAZAAR { Subject::Resource(key.id.to_be_bytes().into()) } else { Subject::Tool(key) }
}

impl Index {
    /// Applies and logs a decision. `false` when it changes nothing; then nothing is logged.
    pub async fn moderate(&self, decision: &Decision<'_>, now: UnixTime) -> Result<bool, Error> {
        let (restriction, is_set) = decision.step.restriction();
        let (action, at) = (Value::Text(restriction.as_str()), Value::Integer(now.seconds()));
        let (reason, notice) = (Value::Text(decision.reason), Value::Text(decision.notice));
        // Before the transaction: it may query the database, and an in-memory database has one connection.
        let subject = self.subject(decision.subject).await?;
        let mut transaction = self.database().begin().await?;
        let (changed, keys) = match decision.subject {
            Subject::Tool(key) => {
                let id = key.id_bytes();
                let (registry, tool) = (Value::Integer(key.registry.0), Value::Bytes(&id));
                let changed = match is_set {
                    true => transaction.execute(SET_TOOL, &[registry, tool, action, reason, notice, at]).await?,
                    false => transaction.execute(UNSET_TOOL, &[registry, tool, action]).await?,
                };
                (changed, vec![key])
            }
            Subject::Creator(creator) => {
                let account = Value::Bytes(creator.as_slice());
                let changed = match is_set {
                    true => transaction.execute(SET_CREATOR, &[account, action, reason, notice, at]).await?,
                    false => transaction.execute(UNSET_CREATOR, &[account, action]).await?,
                };
                let rows = transaction.fetch(TOOLS_OF, &[account]).await?;
                let keys = ToolKey::from_rows(&rows).collect::<Result<_, _>>()?;
                (changed, keys)
            }
            Subject::Resource(identity) => {
                let resource = Value::Bytes(identity.as_slice());
                let changed = match is_set {
                    true => transaction.execute(SET_RESOURCE, &[resource, action, reason, notice, at]).await?,
                    false => transaction.execute(UNSET_RESOURCE, &[resource, action]).await?,
                };
                let row = transaction.fetch_optional(NUMBER, &[resource]).await?;
                let key = row.map(|row| row.scalar()).transpose()?.map(ResourceView::key_of);
                (changed, key.into_iter().collect())
            }
        };
        if changed == 0 {
            transaction.rollback().await?;
            return Ok(false);
        }
        let entry = [at, Value::Text(decision.actor), Value::Text(decision.step.as_str()), Value::Text(&subject), reason, notice];
        transaction.execute(LOG, &entry).await?;
        self.tell(transaction, &keys, now).await?;
        Ok(true)
    }

    /// Records the changes in the feed, and commits. If there are very many tools, the remaining changes follow in later transactions: the
    /// rule is in force after the first commit.
    async fn tell(&self, mut transaction: Transaction, keys: &[ToolKey], now: UnixTime) -> Result<(), Error> {
        let changes: Vec<_> = keys.iter().map(|key| (*key, Kinds::MODERATION)).collect();
        let mut parts = changes.chunks(CHANGES);
        if let Some(first) = parts.next() {
            feed::record(&mut transaction, first, now).await?;
        }
        transaction.commit().await?;
        for part in parts {
            let mut transaction = self.database().begin().await?;
            feed::record(&mut transaction, part, now).await?;
            transaction.commit().await?;
        }
        Ok(())
    }

    async fn subject(&self, subject: Subject) -> Result<String, Error> {
        Ok(match subject {
            Subject::Tool(key) => self.reference(key).await?.to_string(),
            Subject::Creator(creator) => format!("{creator:#x}"),
            Subject::Resource(identity) => {
                let row = self.database().fetch_optional(NUMBER, &[Value::Bytes(identity.as_slice())]).await?;
                match row.map(|row| row.scalar::<i64>()).transpose()? {
                    Some(number) => format!("{BAZAAR}/{number}"),
                    // No followed catalogue lists it, or none does any more.
                    None => format!("{BAZAAR}/{identity:#x}"),
                }
            }
        })
    }

    /// Returns the Bazaar resource of a reference, listed or not: `x402_bazaar/<number>`, or `x402_bazaar/0x<identity>`, which rules use
    /// for a resource without a number. `None` for a number without a resource.
    pub async fn resource_subject(&self, reference: ResourceRef) -> Result<Option<Subject>, Error> {
        let number = match reference {
            ResourceRef::Identity(identity) => return Ok(Some(Subject::Resource(identity))),
            ResourceRef::Number(number) => number,
        };
        let row = self.database().fetch_optional(IDENTITY, &[Value::Integer(number)]).await?;
        Ok(row.map(|row| row.scalar().map(Subject::Resource)).transpose()?)
    }

    /// Returns the rules in force, the newest of each kind first.
    pub async fn moderation_rules(&self, limit: i64) -> Result<Vec<Rule>, Error> {
        let limit = [Value::Integer(limit.clamp(1, MAX_PAGE))];
        let mut rules = Vec::new();
        for row in self.database().fetch(CREATOR_RULES, &limit).await? {
            let moderation = Moderation::read(&row)?.ok_or(Error::Corrupt { what: "rule" })?;
            rules.push(Rule { subject: self.subject(Subject::Creator(row.get("creator")?)).await?, moderation });
        }
        for row in self.database().fetch(TOOL_RULES, &limit).await? {
            let moderation = Moderation::read(&row)?.ok_or(Error::Corrupt { what: "rule" })?;
            rules.push(Rule { subject: self.subject(Subject::Tool(ToolKey::from_row(&row)?)).await?, moderation });
        }
        for row in self.database().fetch(RESOURCE_RULES, &limit).await? {
            let moderation = Moderation::read(&row)?.ok_or(Error::Corrupt { what: "rule" })?;
            rules.push(Rule { subject: self.subject(Subject::Resource(row.get("identity")?)).await?, moderation });
        }
        Ok(rules)
    }

    /// Returns decisions before a number, the newest first.
    pub async fn moderation_log(&self, before: Option<i64>, limit: i64) -> Result<Vec<LogEntry>, Error> {
        let values = [before.unwrap_or(i64::MAX), limit.clamp(1, MAX_PAGE)].map(Value::Integer);
        let read = |row: LogRow| {
            let LogRow { number, at, actor, action, subject, reason, notice } = row;
            LogEntry { number, at, actor, action, subject, reason, notice }
        };
        LogRow::from_rows(&self.database().fetch(ENTRIES, &values).await?).map(|row| Ok(read(row?))).collect()
    }

    /// Stores a report of abuse and returns its number. `None` when this tool has the maximum number of open reports already.
    pub async fn report_abuse(&self, key: ToolKey, reason: &str, details: &str, now: UnixTime) -> Result<Option<i64>, Error> {
        self.report(key, reason, details, now).await
    }

    /// Stores a report of abuse about a Bazaar resource in the same way.
    pub async fn report_resource_abuse(
        &self,
        resource: &ResourceView,
        reason: &str,
        details: &str,
        now: UnixTime,
    ) -> Result<Option<i64>, Error> {
        self.report(report_key(resource.identity), reason, details, now).await
    }

    async fn report(&self, key: ToolKey, reason: &str, details: &str, now: UnixTime) -> Result<Option<i64>, Error> {
        let id = key.id_bytes();
        let (registry, tool) = (Value::Integer(key.registry.0), Value::Bytes(&id));
        let mut transaction = self.database().begin().await?;
        let open = transaction.fetch_optional(OPEN_REPORTS, &[registry, tool]).await?;
        if open.ok_or(Error::Corrupt { what: "count" })?.scalar::<i64>()? >= MAX_OPEN_REPORTS {
            transaction.rollback().await?;
            return Ok(None);
        }
        let values = [registry, tool, Value::Integer(now.seconds()), Value::Text(reason), Value::Text(details)];
        let row = transaction.fetch_optional(ADD_REPORT, &values).await?.ok_or(Error::Corrupt { what: "report" })?;
        let number = row.scalar()?;
        transaction.commit().await?;
        Ok(Some(number))
    }

    /// Returns reports of abuse before a number, the newest first.
    pub async fn abuse_reports(&self, is_closed: bool, before: Option<i64>, limit: i64) -> Result<Vec<AbuseReport>, Error> {
        let limit = Value::Integer(limit.clamp(1, MAX_PAGE));
        let values = [Value::Integer(before.unwrap_or(i64::MAX)), Value::Boolean(is_closed), limit];
        let mut reports = Vec::new();
        for row in ReportRow::from_rows(&self.database().fetch(REPORTS, &values).await?) {
            let row = row?;
            let key = ToolKey::from_columns(row.registry, row.tool)?;
            reports.push(AbuseReport {
                number: row.number,
                tool: self.subject(subject_of_report(key)).await?,
                at: row.at,
                reason: row.reason,
                details: row.details,
                closed_at: row.closed_at,
            });
        }
        Ok(reports)
    }

    /// Closes a report of abuse, and logs it. `false` when there is no open report with this number.
    pub async fn close_report(&self, number: i64, actor: &str, now: UnixTime) -> Result<bool, Error> {
        let mut transaction = self.database().begin().await?;
        let at = Value::Integer(now.seconds());
        if transaction.execute(CLOSE, &[Value::Integer(number), at]).await? == 0 {
            transaction.rollback().await?;
            return Ok(false);
        }
        let subject = format!("report {number}");
        let entry =
            [at, Value::Text(actor), Value::Text("close_report"), Value::Text(&subject), Value::Text(""), Value::Text("")];
        transaction.execute(LOG, &entry).await?;
        transaction.commit().await?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_resources_are_read_or_refused() {
        let hash = B256::repeat_byte(0x0a);
        for (text, expected) in [
            ("x402_bazaar/7".to_owned(), Some(ResourceRef::Number(7))),
            (format!("x402_bazaar/{hash:#x}"), Some(ResourceRef::Identity(hash))),
            ("x402_bazaar/07".to_owned(), None),
            ("x402_bazaar/+7".to_owned(), None),
            ("x402_bazaar/".to_owned(), None),
            ("x402_bazaar/0x12".to_owned(), None),
            ("x402_bankr/7".to_owned(), None),
            (format!("x402_bazaar/{}", "9".repeat(30)), None),
        ] {
            assert_eq!(ResourceRef::parse(&text), expected, "{text}");
        }
        assert_eq!(subject_of_report(report_key(hash)), Subject::Resource(hash));
    }
}
