//! Calls whose tool requires only a signed message (EIP-4361).
//!
//! The message is known only after the tool was called, and a part of it comes from the server. Therefore the user is asked a second time,
//! and sees account, site, resource, network, statement, expiry and the whole text. Exactly the message that was shown is signed: in the
//! newer era of the protocol, where the call ends with the prompt, it is stored here until the answer arrives.

use std::fmt::Write as _;

use toolcrib_client::{CallError, PreparedSignIn, SignInRequest, SignInTerms};
use toolcrib_core::codes::mcp as code;
use toolcrib_core::text::escape_for_display;
use toolcrib_mcp::{Asker, Prompt, Reply, Returned, Stop, ToolError};

use super::approvals::{APPROVAL_SECONDS, Bound};
use super::onchain::{Onchain, Refused, approval_form, is_approved, reply};

/// A sign-in that waits for the user's answer, and its call.
pub(super) struct WaitingSignIn {
    bound: Bound,
    prepared: PreparedSignIn,
}

impl Onchain {
    /// Asks the user to sign a tool's message, and continues if the answer comes within this call.
    pub(super) async fn sign_in(&self, bound: Bound, request: SignInRequest, asker: &Asker) -> Result<Reply, Refused> {
        let prepared = self.client.prepare_sign_in(request)?;
        if self.unattended.allows_sign_in(bound.tool) {
            return Ok(reply(&bound, self.client.complete_sign_in(prepared).await?));
        }
        let domain = prepared.terms().domain.clone();
        let message = message(&bound, prepared.terms(), &self.client.facts(prepared.terms().chain));
        // If no user can be asked, nothing is stored.
        let state = match asker.can_ask() {
            true => self
                .sign_ins
                .open(WaitingSignIn { bound, prepared }, *asker.caller(), self.clock.now())
                .map_err(Stop::from)?
                .0
                .to_vec(),
            false => Vec::new(),
        };
        let question = Prompt { name: "sign_in", message, form: approval_form("Sign the message above"), state };
        let returned = asker.ask(question).await.map_err(|stop| match stop.fault() {
            // The tool was called already, so the error must not say that nothing was sent.
            Some(fault) if fault.code == code::DECLINED => not_approved(domain),
            _ => stop.into(),
        })?;
        self.answered_sign_in(&returned, |asked| *asked == bound, asker).await
    }

    /// Uses up the answer to the prompt about a message: if the user agreed and the call is the same, signs the message and calls again
    /// with it.
    pub(super) async fn answered_sign_in(
        &self,
        returned: &Returned,
        is_this: impl FnOnce(&Bound) -> bool,
        asker: &Asker,
    ) -> Result<Reply, Refused> {
        let taken = self.sign_ins.take_bound(&returned.state, asker.caller(), self.clock.now());
        let WaitingSignIn { bound, prepared } = taken.map_err(Stop::from)?;
        if !is_this(&bound) {
            return Err(Stop::from(ToolError::new(code::APPROVAL_DIFFERS)).into());
        }
        if !is_approved(&returned.answer) {
            return Err(not_approved(prepared.terms().domain.clone()));
        }
        Ok(reply(&bound, self.client.complete_sign_in(prepared).await?))
    }
}

/// The user refused to sign a message.
fn not_approved(domain: String) -> Refused {
    CallError::SignInNotApproved { domain }.into()
}

/// The text of the prompt. All server text is escaped, and the message is indented, so that none of its lines imitates a line of the
/// prompt.
fn message(bound: &Bound, terms: &SignInTerms, facts: &[(&str, String)]) -> String {
    let shown = escape_for_display;
    let mut message = format!(
        "Sign in with this message? No money moves. The site learns which account calls.\n\nAccount: {}\nSite: {}\nFor: {}\nNetwork: {}\n",
        terms.account,
        shown(&terms.domain),
        shown(&terms.uri),
        shown(&terms.network()),
    );
    let _ = writeln!(message, "Statement of the site: {}", terms.statement.as_deref().map_or_else(|| "none".to_owned(), shown));
    let _ = writeln!(message, "Expires: {}", terms.expires.as_deref().map_or_else(|| "not stated".to_owned(), shown));
    let _ = writeln!(message, "Tool: {}", bound.tool);
    for (label, value) in facts {
        let _ = writeln!(message, "Chain {label}: {}", shown(value));
    }
    message.push_str("The message, as it is signed:\n");
    for line in terms.text.split('\n') {
        let _ = writeln!(message, "  {}", shown(line));
    }
    let _ = write!(message, "Manifest: {}\nThe answer counts for {} minutes, once.", bound.manifest, APPROVAL_SECONDS / 60);
    message
}
