//! `/api/v2/admin/…`: moderation rules, their log, and reports of abuse. For keys that may be used for moderation.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::extract::{Extension, FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes;
use toolcrib_index::moderation::{self, AbuseReport, Decision, LogEntry, MAX_TEXT_CHARS, ResourceRef, Rule, Step, Subject};
use utoipa::IntoParams;

use crate::answer::{Answer, ApiError, json};
use crate::api::{read_body, read_json};
use crate::directory::App;
use crate::front::{Caller, given_key};
use crate::parameters::{Count, Number, Param, Query, Words, address};
use crate::routing::shows;
use crate::view::time;
use crate::watch as feed;

/// The maximum size of the body: two texts, escaped, and their subject.
const MAX_BYTES: usize = 32 * 1024;

/// Rows per page: up to the maximum of the index, 50 by default.
type Limit = Count<1, MAX_LIMIT, 50>;

const MAX_LIMIT: i64 = moderation::MAX_PAGE;

/// The number of a row.
type Row = Number<1, { i64::MAX }>;

/// The query of the log.
#[derive(Deserialize, IntoParams, Default)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogParameters {
    /// Only those below this number: `next` of the page before.
    #[param(inline)]
    before: Option<Row>,
    /// Entries of a page.
    #[param(inline)]
    limit: Limit,
}

/// The query of reports.
#[derive(Deserialize, IntoParams, Default)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReportsParameters {
    /// Open ones unless said otherwise.
    #[param(inline)]
    state: Option<WantedState>,
    /// Only those below this number: `next` of the page before.
    #[param(inline)]
    before: Option<Row>,
    /// Reports of a page.
    #[param(inline)]
    limit: Limit,
}

/// Whether reports are closed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportState {
    Open,
    Closed,
}

type WantedState = Param<ReportState>;

impl Words for ReportState {
    const WORDS: &'static [(&'static str, Self)] = &[("open", Self::Open), ("closed", Self::Closed)];
}

/// A decision.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    action: String,
    tool: Option<String>,
    creator: Option<String>,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    notice: String,
}

/// What became of a decision.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Decided {
    /// `false` when it was so already.
    pub(crate) changed: bool,
}

/// The rules that hold.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Rules {
    /// Those about creators first, the newest of each kind first.
    pub(crate) rules: Vec<RuleView>,
}

/// A rule.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ModerationRule")]
pub(crate) struct RuleView {
    /// A tool as `eip155:<chain>/erc8257:<registry>/<id>`, the account of a creator, or a resource of the Bazaar as `x402_bazaar/<number>`. One
    /// that no followed catalogue lists any more is named `x402_bazaar/0x<identity>`.
    pub(crate) subject: String,
    /// `block` or `hide`.
    pub(crate) action: &'static str,
    /// Why, for the public.
    pub(crate) reason: String,
    /// What is shown in place of the content.
    pub(crate) notice: String,
    /// Since when.
    pub(crate) at: String,
}

impl From<Rule> for RuleView {
    fn from(rule: Rule) -> Self {
        let moderation::Moderation { action, reason, notice, at } = rule.moderation;
        Self { subject: rule.subject, action: action.as_str(), reason, notice, at: time(at) }
    }
}

/// A page of the log.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Log {
    /// The entries, the newest first.
    pub(crate) entries: Vec<EntryView>,
    /// `before` of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<i64>,
}

/// An entry of the log.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ModerationEntry")]
pub(crate) struct EntryView {
    /// Its number.
    pub(crate) number: i64,
    /// When.
    pub(crate) at: String,
    /// Who: the name of a key, or `command line`.
    pub(crate) actor: String,
    /// `block`, `unblock`, `hide`, `unhide` or `close_report`.
    pub(crate) action: String,
    /// To what.
    pub(crate) subject: String,
    /// Why.
    pub(crate) reason: String,
    /// What is shown in place of the content.
    pub(crate) notice: String,
}

impl From<LogEntry> for EntryView {
    fn from(entry: LogEntry) -> Self {
        let LogEntry { number, at, actor, action, subject, reason, notice } = entry;
        Self { number, at: time(at), actor, action, subject, reason, notice }
    }
}

/// A page of reports.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Reports {
    /// The reports, the newest first.
    pub(crate) reports: Vec<ReportView>,
    /// `before` of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<i64>,
}

/// A report of abuse.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AbuseReport")]
pub(crate) struct ReportView {
    /// Its number.
    pub(crate) number: i64,
    /// The tool, or the resource of the Bazaar, as in rules.
    pub(crate) tool: String,
    /// When it came.
    pub(crate) at: String,
    /// The kind of abuse.
    pub(crate) reason: String,
    /// What the reporter says. Untrusted text.
    pub(crate) details: String,
    /// When it was closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) closed_at: Option<String>,
}

impl From<AbuseReport> for ReportView {
    fn from(report: AbuseReport) -> Self {
        let AbuseReport { number, tool, at, reason, details, closed_at } = report;
        Self { number, tool, at: time(at), reason, details, closed_at: closed_at.map(time) }
    }
}

/// The name of a moderation key. Handlers take it first: other callers do not learn what else is wrong with their request.
pub(crate) struct Operator(String);

impl FromRequestParts<Arc<App>> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let Some(key) = given_key(&parts.headers) else {
            return Err(ApiError::new(StatusCode::UNAUTHORIZED, codes::directory::KEY_MISSING));
        };
        match app.keys.find(&key, app.now()).await? {
            Some((_, record)) if record.admin => Ok(Self(record.name)),
            Some(_) => Err(ApiError::new(StatusCode::FORBIDDEN, codes::directory::NOT_ADMIN)),
            None => Err(ApiError::new(StatusCode::UNAUTHORIZED, codes::directory::KEY_UNKNOWN)),
        }
    }
}

pub(crate) async fn rules(_: Operator, State(app): State<Arc<App>>) -> Answer {
    let rules = app.primary.moderation_rules(moderation::MAX_PAGE).await?;
    Ok(json(StatusCode::OK, &Rules { rules: rules.into_iter().map(RuleView::from).collect() }))
}

pub(crate) async fn moderate(
    Operator(actor): Operator,
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let wanted: Wanted = read_json(&app, caller, &headers, body, MAX_BYTES).await?;
    let step = Step::WORDS.into_iter().find(|(word, _)| *word == wanted.action).map(|(_, step)| step);
    let step = step.ok_or_else(|| ApiError::parameter("action", "expected block, unblock, hide or unhide"))?;
    for (name, text) in [("reason", &wanted.reason), ("notice", &wanted.notice)] {
        if text.chars().count() > MAX_TEXT_CHARS {
            return Err(ApiError::parameter(name, format!("it is longer than {MAX_TEXT_CHARS} characters")));
        }
    }
    if matches!(step, Step::Block | Step::Hide) && wanted.reason.trim().is_empty() {
        return Err(ApiError::parameter("reason", "expected a reason, for the public notice and the log"));
    }
    let subject = match (&wanted.tool, &wanted.creator) {
        (Some(tool), None) => {
            if let Some(resource) = ResourceRef::parse(tool) {
                app.primary.resource_subject(resource).await?.ok_or_else(ApiError::not_found)?
            } else {
                let expected = "expected eip155:<chain>/erc8257:<registry>/<id> or x402_bazaar/<number>";
                let tool = ToolRef::parse(tool).map_err(|_| ApiError::parameter("tool", expected))?;
                let view = app.primary.tool(&tool).await?.ok_or_else(ApiError::not_found)?;
                Subject::Tool(view.row.key)
            }
        }
        (None, Some(creator)) => {
            let malformed = || ApiError::parameter("creator", "expected 0x and 40 hexadecimal digits");
            Subject::Creator(address(creator).ok_or_else(malformed)?)
        }
        _ => return Err(ApiError::parameter("tool", "expected either a tool or a creator")),
    };
    let decision = Decision { subject, step, reason: &wanted.reason, notice: &wanted.notice, actor: &actor };
    let changed = app.primary.moderate(&decision, app.now()).await?;
    let cursor = app.primary.last_change().await?;
    // Lists include it before the operator opens one. The handler does not wait for replicas: they are used again when they have the
    // change.
    app.wanted.fetch_max(cursor, Ordering::AcqRel);
    if let Err(error) = feed::look(&app).await {
        tracing::warn!(code = error.code().id(), "decision stored, lists show it after the next read of the change feed");
    }
    Ok(shows(json(StatusCode::OK, &Decided { changed }), Some(cursor)))
}

pub(crate) async fn log(_: Operator, State(app): State<Arc<App>>, Query(asked): Query<LogParameters>) -> Answer {
    let limit = asked.limit.0;
    let entries = app.primary.moderation_log(asked.before.map(Param::value), limit).await?;
    let next = entries.last().map(|last| last.number).filter(|number| entries.len() as i64 == limit && *number > 1);
    Ok(json(StatusCode::OK, &Log { entries: entries.into_iter().map(EntryView::from).collect(), next }))
}

pub(crate) async fn reports(_: Operator, State(app): State<Arc<App>>, Query(asked): Query<ReportsParameters>) -> Answer {
    let limit = asked.limit.0;
    let is_closed = asked.state.map(Param::value) == Some(ReportState::Closed);
    let reports = app.primary.abuse_reports(is_closed, asked.before.map(Param::value), limit).await?;
    let next = reports.last().map(|last| last.number).filter(|number| reports.len() as i64 == limit && *number > 1);
    Ok(json(StatusCode::OK, &Reports { reports: reports.into_iter().map(ReportView::from).collect(), next }))
}

pub(crate) async fn close(
    Operator(actor): Operator,
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    read_body(&app, caller, &headers, body, MAX_BYTES).await?;
    let number = uri.path().strip_prefix("/api/v2/admin/reports/").and_then(|rest| rest.strip_suffix("/close"));
    let number = number.and_then(|number| number.parse().ok());
    let number: i64 = number.ok_or_else(|| ApiError::parameter("report", "expected a report number"))?;
    let changed = app.primary.close_report(number, &actor, app.now()).await?;
    Ok(json(StatusCode::OK, &Decided { changed }))
}
