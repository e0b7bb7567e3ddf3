//! Descriptions of a tool's sandbox and access for users and models.

use toolcrib_core::local::{NetworkRequest, RuntimeKind};
use toolcrib_core::text::escape_for_display;

use super::folder::LoadedTool;
use super::host::Host;

/// The prefix of the summary of a tool without a sandbox.
const UNSANDBOXED: &str = "UNSANDBOXED";

impl Host {
    /// A short description of how programs of a tool are contained.
    pub fn sandbox_summary(&self, tool: &LoadedTool) -> String {
        match (self.planned_containment(tool), tool.local_server()) {
            (Ok(Some(containment)), _) => containment.summary(),
            (Ok(None), Some(url)) => {
                format!("{UNSANDBOXED}: the server {} runs on this machine by itself", escape_for_display(url))
            }
            (Ok(None), None) => "no program of this machine".to_owned(),
            (Err(error), _) => format!("cannot run: {error}"),
        }
    }

    /// The note about a tool without a sandbox in lists for models: the first part of its summary. `None` for all others.
    pub fn unsandboxed(&self, tool: &LoadedTool) -> Option<String> {
        let summary = self.sandbox_summary(tool);
        let (first, _) = summary.split_once("; ").unwrap_or((&summary, ""));
        first.starts_with(UNSANDBOXED).then(|| first.to_owned())
    }
}

/// What a tool may access, according to its manifest.
pub(crate) fn access(tool: &LoadedTool) -> String {
    if let RuntimeKind::McpHttp { url } | RuntimeKind::Http { url } = tool.runtime() {
        return format!("the server {url}, which gets the arguments; nothing of this machine");
    }
    let request = tool.manifest().sandbox();
    let network = match request.network() {
        NetworkRequest::None => "no network".to_owned(),
        NetworkRequest::Any => "any network".to_owned(),
        NetworkRequest::Ports(ports) => {
            format!("TCP ports {}", ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        }
    };
    // Every tool has its data folder, so `$data` is omitted.
    let list = |paths: &[String]| {
        let named = paths.iter().filter(|path| *path != "$data");
        let named: Vec<_> = named.map(|path| if path == "$tmp" { "temporary files" } else { path.as_str() }).collect();
        if named.is_empty() { "nothing more".to_owned() } else { named.join(", ") }
    };
    if matches!(tool.runtime(), RuntimeKind::Wasm { .. }) {
        return format!("reads {}; writes its data folder, {}; no network", list(request.read()), list(request.write()));
    }
    format!(
        "its own folder and system programs; reads {}; writes its data folder, {}; {network}",
        list(request.read()),
        list(request.write())
    )
}
