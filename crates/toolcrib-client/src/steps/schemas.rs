//! The schemas of a tool as far as they can be applied, and what cannot be validated because one of them cannot.

use serde_json::Value as Json;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::finding::Finding;
use toolcrib_core::json;
use toolcrib_core::schema::{Echo, MAX_INSTANCE_BYTES, Validator};
use toolcrib_core::tool::ToolManifest;

use crate::approver::ApprovalRequest;
use crate::{CallError, Client, Consent};

/// A schema that cannot be applied safely, so that nothing is validated against it. The standard keeps such a tool listed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unchecked {
    /// `inputs` or `outputs`.
    pub which: &'static str,
    /// Why. Contains untrusted text.
    pub findings: Vec<Finding>,
}

/// The compiled schemas of a tool.
pub(super) struct Schemas {
    inputs: Option<Validator>,
    pub(super) outputs: Option<Validator>,
    pub(super) unchecked: Vec<Unchecked>,
}

impl Schemas {
    pub(super) fn of(manifest: &ToolManifest) -> Self {
        let mut unchecked = Vec::new();
        let mut compile = |schema: Option<json::Value<'_>>, which| match schema.map(Validator::compile).transpose() {
            Ok(validator) => validator,
            Err(findings) => {
                unchecked.push(Unchecked { which, findings });
                None
            }
        };
        let (inputs, outputs) = (compile(manifest.inputs(), "inputs"), compile(manifest.outputs(), "outputs"));
        Self { inputs, outputs, unchecked }
    }

    /// Validates the input, if there is a schema that can be applied.
    pub(super) fn check_input(&self, input: &Json) -> Result<(), CallError> {
        let bytes = input.to_string().len();
        if bytes > MAX_INSTANCE_BYTES {
            return Err(CallError::InputTooLarge { bytes });
        }
        let violations = self.inputs.as_ref().map_or_else(Vec::new, |schema| schema.violations(input, Echo::Values));
        if violations.is_empty() { Ok(()) } else { Err(CallError::Input { violations }) }
    }
}

/// Returns the validator of outputs; `None` if the schema cannot be applied.
pub(crate) fn outputs_of(manifest: &ToolManifest) -> Option<Validator> {
    manifest.outputs().and_then(|schema| Validator::compile(schema).ok())
}

impl Client {
    /// Gets approval of what cannot be validated.
    pub(super) async fn accept_unchecked(
        &self,
        tool: ToolRef,
        unchecked: Vec<Unchecked>,
        consent: &Consent,
    ) -> Result<(), CallError> {
        if unchecked.is_empty() || consent.unchecked {
            return Ok(());
        }
        if self.inner.approver.approve(&ApprovalRequest::Unchecked { tool, parts: &unchecked }).await {
            return Ok(());
        }
        Err(CallError::Schema { parts: unchecked })
    }
}
