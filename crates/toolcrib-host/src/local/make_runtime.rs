//! What runs the functions of a tool, by the kind that its manifest names.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_core::local::{Runtime as RuntimeBlock, RuntimeKind};

use super::folder::LoadedTool;
use super::host::{Host, unsupported};
use super::runtime::{
    HttpRuntime, McpHttpRuntime, McpHttpSettings, ProcessRuntime, ProcessSettings, Protocol, RunError, Runtime,
};

/// Calls of one tool at the same time unless its manifest says otherwise.
const DEFAULT_CONCURRENT: u64 = 4;

impl Host {
    /// Checks that the program or the server of a tool can be used, and names it. Runs and sends nothing.
    pub fn check_runtime(&self, tool: &LoadedTool) -> Result<String, RunError> {
        match self.program(tool)? {
            Some((spec, _)) => Ok(spec.program.display().to_string()),
            None => {
                let place = self.make_runtime(tool)?.place();
                Ok(place.unwrap_or_else(|| "no program".to_owned()))
            }
        }
    }

    /// Makes the runtime of a tool. Starts and sends nothing.
    pub(super) fn make_runtime(&self, tool: &LoadedTool) -> Result<Arc<dyn Runtime>, RunError> {
        let block = tool.manifest().runtime();
        let concurrent = block.and_then(RuntimeBlock::max_concurrent).unwrap_or(DEFAULT_CONCURRENT);
        let concurrent = usize::try_from(concurrent).unwrap_or(1);
        match tool.runtime() {
            RuntimeKind::Http { url } => return Ok(Arc::new(HttpRuntime::new(self.settings.http.clone(), url)?)),
            RuntimeKind::McpHttp { url } => {
                return Ok(Arc::new(McpHttpRuntime::new(McpHttpSettings {
                    url,
                    network: tool.manifest().sandbox().network(),
                    local: self.settings.http.clone(),
                    remote: self.settings.remote.clone(),
                    concurrent,
                })?));
            }
            _ => {}
        }
        let Some((spec, keep_alive)) = self.program(tool)? else {
            return Err(unsupported("this build cannot run the kind of runtime that the manifest names".to_owned()));
        };
        Ok(Arc::new(ProcessRuntime::new(ProcessSettings {
            spec,
            launcher: self.settings.launcher.clone(),
            protocol: match tool.runtime() {
                RuntimeKind::McpStdio { .. } => Protocol::Mcp,
                _ => Protocol::Lines,
            },
            keep_alive: block.and_then(RuntimeBlock::keep_alive).map_or(keep_alive, Duration::from_secs),
            concurrent,
        })))
    }
}
