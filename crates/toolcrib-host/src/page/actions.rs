//! Handles forms of the page. After a change, the browser is redirected to the page that shows it.

use std::sync::Arc;

use axum::extract::{Extension, Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use toolcrib_core::codes;

use super::forms::Form;
use super::guard::forged;
use super::refusal::PageRejection;
use super::session::Signed;
use super::{Shared, blocking, see_other, views};
use crate::local::permissions::{Decision, RuleId};
use crate::local::{ChangeError, LoadedTool};

/// The client name in the audit log.
const CLIENT: &str = "page";

/// Makes a change, if the form belongs to this session.
pub(super) async fn change(
    State(shared): State<Arc<Shared>>,
    Extension(signed): Extension<Signed>,
    Path(what): Path<String>,
    request: Request,
) -> Response {
    let form = match Form::read(request).await {
        Ok(form) => form,
        Err(refusal) => return refusal.into_response(),
    };
    if !form.get("csrf").is_some_and(|given| signed.csrf.is(given)) {
        return forged("its form is not of this session").into_response();
    }
    if what == "end" {
        shared.session.end();
        return views::ended();
    }
    blocking(move || apply(&shared, &what, form)).await
}

fn apply(shared: &Shared, what: &str, mut form: Form) -> Result<Response, PageRejection> {
    let host = &*shared.host;
    match what {
        "enable" => {
            let tool = form.text("tool")?.to_owned();
            let is_enabled = host.enable(&tool, CLIENT)?;
            Ok(shared.done(Some(&tool), if is_enabled { "enabled" } else { "denied-by-policy" }, ""))
        }
        "disable" => {
            let tool = shared.tool(form.text("tool")?)?;
            host.disable(&tool, CLIENT)?;
            Ok(shared.done(Some(tool.id()), "disabled", ""))
        }
        "permission" => {
            let tool = shared.seen(&form)?;
            let decision = match form.text("decision")? {
                "allow" => Decision::Allow,
                "ask" => Decision::Ask,
                "deny" => Decision::Deny,
                _ => return Err(PageRejection::form("the decision is not allow, ask or deny")),
            };
            let changed = host.replace_rule(&tool, form.text("function")?, decision, CLIENT);
            changed.map_err(|error| PageRejection::from(error).back(&shared.page_of(tool.id())))?;
            Ok(shared.done(Some(tool.id()), "permission", "#functions"))
        }
        "revoke" => {
            let rule: RuleId = form.text("rule")?.parse().map_err(ChangeError::from)?;
            let rule = host.revoke_rule(rule, CLIENT).map_err(|error| PageRejection::from(error).back(&shared.at("/rules")))?;
            let from_rules = form.get("from") == Some("rules");
            Ok(shared.done(rule.tool.as_deref().filter(|_| !from_rules), "revoked", "#rules"))
        }
        "credential" => {
            let tool = shared.seen(&form)?;
            let value = form.take("value")?;
            let changed = host.set_secret(&tool, form.text("name")?, &value, CLIENT);
            changed.map_err(|error| PageRejection::from(error).back(&shared.page_of(tool.id())))?;
            Ok(shared.done(Some(tool.id()), "credential", "#credentials"))
        }
        "remove-credential" => {
            let tool = form.text("tool")?;
            host.unset_secret(tool, form.text("name")?, CLIENT)?;
            Ok(shared.done(Some(tool), "removed", "#credentials"))
        }
        "rebind" => {
            let tool = shared.seen(&form)?;
            let changed = host.rebind_secrets(&tool, CLIENT);
            changed.map_err(|error| PageRejection::from(error).back(&shared.page_of(tool.id())))?;
            Ok(shared.done(Some(tool.id()), "rebound", "#credentials"))
        }
        _ => Err(PageRejection::new(StatusCode::NOT_FOUND, codes::host::PAGE_FORM).message("there is no such form")),
    }
}

impl Shared {
    /// The URL path of a page.
    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// The URL path of the page of a loaded tool.
    pub(super) fn page_of(&self, tool: &str) -> String {
        self.at(&format!("/tools/{tool}"))
    }

    /// A loaded tool.
    pub(super) fn tool(&self, id: &str) -> Result<Arc<LoadedTool>, PageRejection> {
        let tools = self.host.tools();
        tools.tools().get(id).cloned().ok_or_else(|| PageRejection::unknown("there is no such tool").back(&self.at("/")))
    }

    /// The tool of a form, which must have the content that the user saw.
    fn seen(&self, form: &Form) -> Result<Arc<LoadedTool>, PageRejection> {
        let tool = self.tool(form.text("tool")?)?;
        if form.text("content")? == tool.content().to_string() {
            return Ok(tool);
        }
        Err(PageRejection::new(StatusCode::CONFLICT, codes::host::PAGE_STALE).back(&self.page_of(tool.id())))
    }

    /// Redirects to the page that shows a change: that of the tool if it is loaded, otherwise that of all rules.
    fn done(&self, tool: Option<&str>, what: &str, place: &str) -> Response {
        let tool = tool.filter(|tool| self.host.tools().tools().contains_key(*tool));
        let page = tool.map_or_else(|| self.at("/rules"), |tool| self.page_of(tool));
        see_other(&format!("{page}?done={what}{place}"))
    }
}
