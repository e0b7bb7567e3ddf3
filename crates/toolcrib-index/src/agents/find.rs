//! Search for agents: words and filters over the list.
//!
//! One statement reads the small row of every listed name and compares texts with `LIKE`. The cost is linear in the list, which has at
//! most [`MAX_NAMES`](super::MAX_NAMES) names, so there is no full-text index; pagination uses a position in the order. Verified agents
//! come first, then those whose name or domain has all the words, then the newest.

use std::fmt;

use alloy_primitives::keccak256;
use base64ct::{Base64UrlUnpadded, Encoding as _};
use toolcrib_core::agent::vocabulary::is_id;
use toolcrib_core::agent::{AgtDomain, PricingModel};
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{FromRow as _, Row, Value};
use toolcrib_store::{row, sql};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::model::{AgentAnswer, AgentChange, AgentView};
use super::tables::LAST_CHANGE;
use super::writing::MAX_CHANGES;
use crate::{Error, Index};

/// The maximum number of agents on one page.
pub const MAX_AGENTS: usize = 200;

/// The maximum length of a query in characters: a name and a sentence.
pub const MAX_QUERY_CHARS: usize = 300;

/// The maximum number of words of a query that are used. The statement has a parameter for each.
pub const MAX_QUERY_WORDS: usize = 6;

/// The maximum length of the searched text in characters: a domain twice, a name and a description.
const MAX_FOLDED_CHARS: usize = 1_000;

/// The maximum length of a cursor. Those that this index issues have at most 120 characters.
const MAX_CURSOR_CHARS: usize = 200;

/// The first byte of a cursor. A cursor of another version is rejected.
const CURSOR_VERSION: u8 = 1;

/// A search for agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentQuery {
    /// Words that the name, the domain or the description must have, all of them.
    pub words: Option<String>,
    /// Only agents with this capability.
    pub capability: Option<String>,
    /// Only agents that speak this protocol.
    pub protocol: Option<String>,
    /// Only agents with this pricing model.
    pub pricing: Option<PricingModel>,
    /// Only agents that are free, or cost at most this price.
    pub max_price: Option<MaxPrice>,
    /// Also agents that are not verified and conformant. Filters do not match their claims.
    pub include_unverified: bool,
    /// Only agents after this cursor.
    pub after: Option<AgentCursor>,
    /// The maximum number of agents.
    pub limit: usize,
}

/// A maximum price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxPrice {
    /// Millionths of the currency. Units are not converted: the comparison uses the number in the manifest.
    pub micro: u64,
    /// The currency, case-insensitive.
    pub currency: String,
}

/// A page of a list of agents.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentPage {
    /// The agents.
    pub agents: Vec<AgentView>,
    /// Where it continues; `None` at the end.
    pub next: Option<AgentCursor>,
}

/// A pagination cursor: after one agent, for one query. Its text needs no escaping in a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCursor {
    /// A checksum of the query that it belongs to.
    query: u32,
    score: u8,
    newest_at: i64,
    domain: String,
}

impl AgentCursor {
    /// Parses a cursor.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_CURSOR_CHARS {
            return Err(Error::Cursor);
        }
        let bytes = Base64UrlUnpadded::decode_vec(text).map_err(|_| Error::Cursor)?;
        Self::read(&bytes).ok_or(Error::Cursor)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let ([CURSOR_VERSION, score @ 0..=3], rest) = bytes.split_first_chunk::<2>()? else { return None };
        let (query, rest) = rest.split_first_chunk::<4>()?;
        let (newest_at, domain) = rest.split_first_chunk::<8>()?;
        let domain = AgtDomain::parse(std::str::from_utf8(domain).ok()?).ok()?;
        Some(Self {
            query: u32::from_be_bytes(*query),
            score: *score,
            newest_at: i64::from_be_bytes(*newest_at),
            domain: domain.as_str().to_owned(),
        })
    }
}

impl fmt::Display for AgentCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = vec![CURSOR_VERSION, self.score];
        bytes.extend_from_slice(&self.query.to_be_bytes());
        bytes.extend_from_slice(&self.newest_at.to_be_bytes());
        bytes.extend_from_slice(self.domain.as_bytes());
        f.write_str(&Base64UrlUnpadded::encode_string(&bytes))
    }
}

impl AgentQuery {
    /// Returns a checksum of the query, independent of the page.
    fn number(&self) -> u32 {
        let text = format!(
            "{:?} {:?} {:?} {:?} {:?} {}",
            self.words, self.capability, self.protocol, self.pricing, self.max_price, self.include_unverified
        );
        let hash = keccak256(text);
        u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
    }

    /// Returns the `LIKE` pattern for each word parameter. Parameters without a word match everything.
    fn patterns(&self) -> [String; MAX_QUERY_WORDS] {
        let text: String = self.words.iter().flat_map(|words| words.chars()).take(MAX_QUERY_CHARS).collect();
        let text = folded(&text);
        let mut words = text.split_whitespace();
        std::array::from_fn(|_| words.next().map_or_else(|| "%".to_owned(), |word| format!("%{}%", escaped(word))))
    }
}

/// Escapes the characters that are special in `LIKE`.
fn escaped(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        if matches!(c, '%' | '_' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Normalizes text for search: without accents, case and invisible characters.
pub(super) fn folded(text: &str) -> String {
    let plain = text.chars().nfkd().filter(|c| !is_combining_mark(*c)).take(MAX_FOLDED_CHARS);
    plain.map(|c| if c.is_control() { ' ' } else { c }).flat_map(char::to_lowercase).collect()
}

/// Returns a term as the column of terms has it: ids have only letters, digits and hyphens, so nothing needs escaping.
pub(super) fn term(kind: char, id: &str) -> String {
    format!(" {kind}:{id} ")
}

row! {
    /// What is known about a name.
    struct AgentRow<'r> from "a" {
        domain: &'r str,
        listed: bool,
        added_at: UnixTime,
        checked_at: Option<UnixTime>,
        expires_at: Option<UnixTime>,
        trouble: Option<&'r str>,
        trouble_at: Option<UnixTime>,
        document: Option<&'r str> = "d.document",
    }
}

row! {
    struct ChangeRow<'r> {
        at: UnixTime,
        answer: &'r str,
    }
}

const FIND: &str = sql!(
    "SELECT ",
    AgentRow::COLUMNS,
    ", p.score, p.newest_at FROM (
    SELECT domain, score, newest_at FROM (
        SELECT domain, newest_at, CAST(CASE WHEN good AND expires_at > $1 THEN 2 ELSE 0 END
            + CASE WHEN title LIKE $8 ESCAPE '\\' AND title LIKE $9 ESCAPE '\\' AND title LIKE $10 ESCAPE '\\'
                AND title LIKE $11 ESCAPE '\\' AND title LIKE $12 ESCAPE '\\' AND title LIKE $13 ESCAPE '\\' THEN 1 ELSE 0 END
            AS BIGINT) AS score
        FROM index_agent WHERE listed AND ($2 OR (good AND expires_at > $1)) AND terms LIKE $3 AND terms LIKE $4
            AND ($5 = '' OR model = $5) AND ($6 < 0 OR model = 'free' OR (currency = $7 AND price <= $6))
            AND words LIKE $8 ESCAPE '\\' AND words LIKE $9 ESCAPE '\\' AND words LIKE $10 ESCAPE '\\'
            AND words LIKE $11 ESCAPE '\\' AND words LIKE $12 ESCAPE '\\' AND words LIKE $13 ESCAPE '\\') scored
    WHERE score < $14 OR (score = $14 AND (newest_at < $15 OR (newest_at = $15 AND domain < $16)))
    ORDER BY score DESC, newest_at DESC, domain DESC LIMIT $17) p
    JOIN index_agent a ON a.domain = p.domain LEFT JOIN index_agent_document d ON d.domain = p.domain
    ORDER BY p.score DESC, p.newest_at DESC, p.domain DESC"
);

const REPORT: &str = "SELECT report FROM index_agent_document WHERE domain = $1";
const CHANGES: &str =
    sql!("SELECT ", ChangeRow::COLUMNS, " FROM index_agent_change WHERE domain = $1 ORDER BY number DESC LIMIT $2");

row! {
    struct CountRow {
        listed: i64 = "COUNT(*)",
        good: i64 = "COALESCE(SUM(CASE WHEN good AND expires_at > $1 THEN 1 ELSE 0 END), 0)",
    }
}

const COUNT: &str = sql!("SELECT ", CountRow::COLUMNS, " FROM index_agent WHERE listed");

impl Index {
    /// Finds agents, one page at a time.
    pub async fn find_agents(&self, query: &AgentQuery, now: UnixTime) -> Result<AgentPage, Error> {
        let limit = query.limit.clamp(1, MAX_AGENTS);
        let number = query.number();
        if query.after.as_ref().is_some_and(|after| after.query != number) {
            return Err(Error::Cursor);
        }
        let wanted = |kind: char, id: &Option<String>| match id {
            // Text that is not an id matches no row: the pattern matches no column.
            Some(id) if is_id(id) => format!("%{}%", term(kind, id)),
            Some(_) => "?".to_owned(),
            None => "%".to_owned(),
        };
        let (capability, protocol) = (wanted('c', &query.capability), wanted('p', &query.protocol));
        let currency = query.max_price.as_ref().map(|price| folded(&price.currency)).unwrap_or_default();
        let price = query.max_price.as_ref().map_or(-1, |price| i64::try_from(price.micro).unwrap_or(i64::MAX));
        let patterns = query.patterns();
        let after = query.after.as_ref();
        let mut values = vec![
            Value::Integer(now.seconds()),
            Value::Boolean(query.include_unverified),
            Value::Text(&capability),
            Value::Text(&protocol),
            Value::Text(query.pricing.map_or("", PricingModel::as_str)),
            Value::Integer(price),
            Value::Text(&currency),
        ];
        values.extend(patterns.iter().map(|pattern| Value::Text(pattern)));
        values.extend([
            // Scores are below 4.
            Value::Integer(after.map_or(i64::MAX, |after| i64::from(after.score))),
            Value::Integer(after.map_or(i64::MAX, |after| after.newest_at)),
            Value::Text(after.map_or("", |after| after.domain.as_str())),
            Value::Integer(limit as i64 + 1),
        ]);
        let rows = self.database().fetch(FIND, &values).await?;
        let mut agents = Vec::with_capacity(limit);
        for row in rows.iter().take(limit) {
            agents.extend(self.unreadable().skip_named("index_agent", || name(row), read(row))?);
        }
        let last = rows.get(limit - 1).filter(|_| rows.len() > limit);
        let next = last.map(|row| {
            Ok::<_, Error>(AgentCursor {
                query: number,
                score: u8::try_from(row.get::<i64>("score")?).map_err(|_| Error::Corrupt { what: "score" })?,
                newest_at: row.get("newest_at")?,
                domain: row.get("domain")?,
            })
        });
        Ok(AgentPage { agents, next: next.transpose()? })
    }

    /// Returns everything that is known about a name. `None` for one that was never listed.
    pub async fn agent(&self, domain: &AgtDomain) -> Result<Option<AgentView>, Error> {
        let sql = format!(
            "SELECT {} FROM index_agent a LEFT JOIN index_agent_document d ON d.domain = a.domain WHERE a.domain = $1",
            AgentRow::COLUMNS
        );
        let rows = self.database().fetch_made(sql, &[Value::Text(domain.as_str())]).await?;
        rows.first().map(read).transpose()
    }

    /// Returns the report behind the verdict about a name, as JSON.
    pub async fn agent_report(&self, domain: &AgtDomain) -> Result<Option<String>, Error> {
        let row = self.database().fetch_optional(REPORT, &[Value::Text(domain.as_str())]).await?;
        Ok(row.map(|row| row.scalar::<Option<String>>()).transpose()?.flatten())
    }

    /// Returns the changes of the verdict about a name, the newest first.
    pub async fn agent_changes(&self, domain: &AgtDomain, limit: usize) -> Result<Vec<AgentChange>, Error> {
        let limit = i64::try_from(limit).unwrap_or(MAX_CHANGES).min(MAX_CHANGES);
        let rows = self.database().fetch(CHANGES, &[Value::Text(domain.as_str()), Value::Integer(limit)]).await?;
        let read = |row: &Row| {
            let row = ChangeRow::from_row(row)?;
            let answer: AgentAnswer =
                serde_json::from_str(row.answer).map_err(|_| Error::Corrupt { what: "change of a verdict" })?;
            Ok(AgentChange { at: row.at, answer })
        };
        let mut changes = Vec::with_capacity(rows.len());
        for row in &rows {
            changes.extend(self.unreadable().skip_named("index_agent_change", || domain.to_string(), read(row))?);
        }
        Ok(changes)
    }

    /// Returns how many names are listed, and how many of them are verified and conformant.
    pub async fn agent_counts(&self, now: UnixTime) -> Result<(u64, u64), Error> {
        let row = self.database().fetch_optional(COUNT, &[Value::Integer(now.seconds())]).await?;
        let row = row.ok_or(Error::Corrupt { what: "count of agents" })?;
        let count = CountRow::from_row(&row)?;
        Ok((count.listed.unsigned_abs(), count.good.unsigned_abs()))
    }

    /// Returns a number that grows with every change of the list or of a verdict.
    pub async fn last_agent_change(&self) -> Result<i64, Error> {
        let row = self.database().fetch_optional(LAST_CHANGE, &[]).await?;
        Ok(row.ok_or(Error::Corrupt { what: "count of changes" })?.scalar()?)
    }
}

fn name(row: &Row) -> String {
    row.get("domain").unwrap_or_else(|_| "?".to_owned())
}

fn read(row: &Row) -> Result<AgentView, Error> {
    let row = AgentRow::from_row(row)?;
    let trouble = match (row.trouble, row.trouble_at) {
        (Some(text), Some(at)) => {
            let trouble = serde_json::from_str(text).map_err(|_| Error::Corrupt { what: "trouble of an agent" })?;
            Some((trouble, at))
        }
        _ => None,
    };
    let verdict = row.document.map(serde_json::from_str).transpose();
    Ok(AgentView {
        domain: AgtDomain::parse(row.domain).map_err(|_| Error::Corrupt { what: "name of an agent" })?,
        listed: row.listed,
        added_at: row.added_at,
        checked_at: row.checked_at,
        expires_at: row.checked_at.and(row.expires_at),
        verdict: verdict.map_err(|_| Error::Corrupt { what: "verdict about an agent" })?,
        trouble,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_place_survives_its_text(query: u32, score in 0_u8..4, newest_at: i64, label in "[a-z][a-z0-9]{0,62}") {
            let cursor = AgentCursor { query, score, newest_at, domain: format!("{label}.agt") };
            let text = cursor.to_string();
            prop_assert!(text.len() <= MAX_CURSOR_CHARS);
            prop_assert_eq!(AgentCursor::parse(&text).expect("a cursor"), cursor);
        }

        #[test]
        fn other_texts_are_refused_or_read(text in "[A-Za-z0-9_-]{0,220}|.{0,60}") {
            if let Ok(cursor) = AgentCursor::parse(&text) {
                prop_assert!(AgentCursor::parse(&cursor.to_string()).is_ok());
            }
        }
    }

    #[test]
    fn words_are_folded_and_mean_nothing_to_the_database() {
        let query = AgentQuery { words: Some(" Café  100%_x\\ a b c d e f g".to_owned()), ..AgentQuery::default() };
        assert_eq!(query.patterns(), ["%cafe%", "%100\\%\\_x\\\\%", "%a%", "%b%", "%c%", "%d%"]);
        assert_eq!(AgentQuery::default().patterns(), ["%"; MAX_QUERY_WORDS].map(str::to_owned));
        assert_eq!(folded("A\0B\u{301}"), "a b");
    }
}
