//! The entry point of exports, and their shared code.

use serde_json::{Map, Value as Json};
use toolcrib_core::agent::{AgentManifest, Protocol};
use toolcrib_core::codes::{Code, agent as code};
use toolcrib_core::finding::{Finding, Findings, Severity};
use toolcrib_core::time::format_rfc3339;

use super::urls::{Schemes, publishable};
use super::{A2aEndpoint, ExportOptions, Format, a2a, aid, ensip, erc8004, mcp_registry, text};

/// The URI of the A2A extension that names the manifest a card was made from. It is described in `docs/agents-bridges.md`.
pub const PROVENANCE_EXTENSION: &str = "https://github.com/toolcrib/toolcrib/blob/main/docs/agents-bridges.md#provenance";

/// A manifest in another format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The text, ending with a line feed.
    pub text: String,
    /// The usual name of the file.
    pub file_name: &'static str,
    /// The media type of the text.
    pub media_type: &'static str,
    /// What was left out, truncated or filled in. The pointers refer to the manifest.
    pub findings: Vec<Finding>,
}

/// A manifest that cannot be expressed in a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot export to {format}: {}", reason.message)]
pub struct ExportError {
    /// The format.
    pub format: Format,
    /// The reason.
    pub reason: Box<Finding>,
    /// Other findings before it.
    pub findings: Vec<Finding>,
}

impl ExportError {
    /// Returns the code of this error.
    pub fn code(&self) -> Code {
        self.reason.code
    }
}

/// Exports a manifest. The same manifest and options always give the same text.
///
/// The caller must check whether the manifest is verified: an export of a forged manifest is a forged export.
pub fn export(manifest: &AgentManifest, format: Format, options: &ExportOptions) -> Result<Export, ExportError> {
    let mut job = Job { manifest, options, findings: Findings::new() };
    let text = match format {
        Format::A2a => a2a::export(&mut job),
        Format::Erc8004 => erc8004::export(&mut job),
        Format::McpRegistry => mcp_registry::export(&mut job),
        Format::Ensip26 => ensip::export(&mut job),
        Format::Aid => aid::export(&mut job),
    };
    let findings = job.findings.into_sorted();
    match text {
        Ok(text) => Ok(Export { text, file_name: format.file_name(), media_type: format.media_type(), findings }),
        Err(reason) => Err(ExportError { format, reason, findings }),
    }
}

/// The text of an export, or the reason why there is none.
pub(super) type Outcome = Result<String, Box<Finding>>;

/// An export in progress.
pub(super) struct Job<'j> {
    pub(super) manifest: &'j AgentManifest,
    pub(super) options: &'j ExportOptions,
    pub(super) findings: Findings,
}

/// An endpoint of the manifest that may be published.
pub(super) struct Endpoint<'j> {
    pub(super) protocol: Protocol<'j>,
    /// Its index in `protocols`.
    pub(super) index: usize,
    pub(super) url: String,
}

impl<'j> Job<'j> {
    pub(super) fn note(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// The display name, or the label of the domain.
    pub(super) fn name(&mut self) -> String {
        match self.manifest.name().map(str::trim).filter(|name| !name.is_empty()) {
            Some(name) => name.to_owned(),
            None => {
                let label = self.manifest.domain().sld().to_owned();
                self.note(about(code::BRIDGE_FILLED, "/name").message("the manifest has no name: its label is used").got(&label));
                label
            }
        }
    }

    /// The description, or the domain.
    pub(super) fn description(&mut self) -> String {
        match self.manifest.description().map(str::trim).filter(|text| !text.is_empty()) {
            Some(text) => text.to_owned(),
            None => {
                let domain = self.manifest.domain().to_string();
                let message = "the manifest has no description: its domain is used";
                self.note(about(code::BRIDGE_FILLED, "/description").message(message).got(&domain));
                domain
            }
        }
    }

    /// `text` within `max` code points, with a finding if it was truncated.
    pub(super) fn shortened(&mut self, pointer: &str, text: String, max: usize) -> String {
        let Some(cut) = text::cut_chars(&text, max) else { return text };
        self.note(
            about(code::BRIDGE_SHORTENED, pointer)
                .expected(format!("at most {max} characters"))
                .got(toolcrib_core::text::code_points(&text).to_string()),
        );
        cut
    }

    /// A URL of the manifest, if it is present and may be published.
    pub(super) fn url(&mut self, pointer: &str, text: Option<&str>) -> Option<String> {
        match publishable(text?, Schemes::Https) {
            Ok(url) => Some(url),
            Err(finding) => {
                self.note(Finding { pointer: pointer.to_owned(), ..*finding });
                None
            }
        }
    }

    /// The website, if there is one that may be published.
    pub(super) fn website(&mut self) -> Option<String> {
        self.url("/website", self.manifest.website())
    }

    /// The icon, if there is one that may be published.
    pub(super) fn icon(&mut self) -> Option<String> {
        self.url("/icon", self.manifest.icon())
    }

    /// A URL from the options, which must be valid.
    pub(super) fn option_url(&self, option: &str, text: &str) -> Result<String, Box<Finding>> {
        publishable(text, Schemes::Https).map_err(|finding| {
            let message = format!("the option {option} is not usable: expected a public https URL");
            Box::new(Finding { code: code::BRIDGE_OPTION, severity: Severity::Error, message, ..*finding })
        })
    }

    /// The endpoints of the manifest that may be published; the others become findings. `wanted` selects protocols by id.
    pub(super) fn endpoints(&mut self, schemes: Schemes, wanted: impl Fn(&str) -> bool) -> Vec<Endpoint<'j>> {
        let mut endpoints: Vec<Endpoint<'j>> = Vec::new();
        for (index, protocol) in self.manifest.protocols().enumerate().filter(|(_, protocol)| wanted(protocol.id())) {
            match publishable(protocol.endpoint(), schemes) {
                Ok(url) => endpoints.push(Endpoint { protocol, index, url }),
                Err(finding) => self.note(Finding { pointer: endpoint_pointer(index), ..*finding }),
            }
        }
        endpoints
    }

    /// The URL of the Agent Card, for formats whose readers expect it as the endpoint of a2a.
    pub(super) fn card_url(&mut self, endpoint: &Endpoint<'_>) -> Result<Option<String>, Box<Finding>> {
        let pointer = endpoint_pointer(endpoint.index);
        match (self.options.a2a_endpoint, self.options.a2a_card.as_deref()) {
            (Some(A2aEndpoint::Card), _) => Ok(Some(endpoint.url.clone())),
            (_, Some(card)) => self.option_url("a2a_card", card).map(Some),
            (Some(A2aEndpoint::Rpc), None) => {
                let message = "the a2a endpoint is left out: it takes calls, and readers expect the URL of an Agent Card";
                self.note(about(code::BRIDGE_DROPPED, pointer).severity(Severity::Warning).message(message));
                Ok(None)
            }
            (None, None) => {
                self.note(about(code::BRIDGE_A2A_KIND, pointer).got(&endpoint.url));
                Ok(Some(endpoint.url.clone()))
            }
        }
    }

    /// Adds findings for protocols that the format does not support.
    pub(super) fn drop_protocols(&mut self, known: impl Fn(&str) -> bool, message: &str) {
        for (index, protocol) in self.manifest.protocols().enumerate().filter(|(_, protocol)| !known(protocol.id())) {
            self.note(about(code::BRIDGE_DROPPED, format!("/protocols/{index}")).message(message).got(protocol.id()));
        }
    }

    /// Adds findings for fields of the manifest that the format does not support.
    pub(super) fn drop_fields(&mut self, fields: &[&str], message: &str) {
        for field in fields {
            if self.manifest.document().root().get(field).is_some() {
                self.note(about(code::BRIDGE_DROPPED, format!("/{field}")).message(message));
            }
        }
        let unknown = self.manifest.document().root().as_object().into_iter().flat_map(toolcrib_core::json::Object::iter);
        let unknown = unknown.filter(|(key, _)| !toolcrib_core::agent::FIELDS.contains(key)).count();
        if unknown > 0 {
            let message = "fields that .agt 1.0 does not know are left out";
            self.note(Finding::new(code::BRIDGE_DROPPED).message(message).got(unknown.to_string()));
        }
    }

    /// The provenance data of an export.
    pub(super) fn provenance(&self) -> Map<String, Json> {
        let mut provenance = Map::new();
        let mut say = |key: &str, value: String| provenance.insert(key.to_owned(), value.into());
        say("domain", self.manifest.domain().to_string());
        say("owner", self.manifest.owner().to_checksum(None));
        if let Some(cid) = &self.options.cid {
            say("manifest", format!("ipfs://{cid}"));
        }
        if let Some(payload) = self.manifest.signing_payload() {
            // The same content can have many CIDs, but only one digest.
            say("digest", payload.digest().to_string());
        }
        if let Some(time) = format_rfc3339(self.manifest.created_at()) {
            say("createdAt", time);
        }
        provenance
    }
}

/// A finding at a pointer in the manifest.
pub(super) fn about(code: Code, pointer: impl Into<String>) -> Finding {
    Finding { pointer: pointer.into(), ..Finding::new(code) }
}

/// The pointer of an endpoint.
pub(super) fn endpoint_pointer(index: usize) -> String {
    format!("/protocols/{index}/endpoint")
}

/// An error for a missing or invalid option.
pub(super) fn option(option: &str, problem: &str) -> Box<Finding> {
    Box::new(Finding::new(code::BRIDGE_OPTION).message(format!("the option {option} is missing or not usable: {problem}")))
}

/// An error because no endpoint is left.
pub(super) fn no_endpoint(message: &str) -> Box<Finding> {
    Box::new(Finding::new(code::BRIDGE_NO_ENDPOINT).message(message))
}

/// JSON with two-space indentation and a final line feed.
pub(super) fn pretty(document: Map<String, Json>) -> String {
    format!("{:#}\n", Json::Object(document))
}
