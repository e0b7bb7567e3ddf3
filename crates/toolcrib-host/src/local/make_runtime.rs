//! Creates the runtime of a tool, by the kind in its manifest.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "wasm")]
use toolcrib_core::local::NetworkRequest;
use toolcrib_core::local::{Runtime as RuntimeBlock, RuntimeKind};

use super::folder::LoadedTool;
use super::host::{Host, unsupported};
use super::runtime::{
    HttpRuntime, McpHttpRuntime, McpHttpSettings, ProcessRuntime, ProcessSettings, Protocol, RunError, Runtime,
};
#[cfg(feature = "wasm")]
use super::runtime::{VisibleFolder, WasmRuntime, WasmSettings};
#[cfg(feature = "wasm")]
use super::sandbox;

/// Default memory of a WebAssembly component, in MiB. Less than for a program, because it contains no language runtime.
#[cfg(feature = "wasm")]
const COMPONENT_MEMORY_MIB: u64 = 256;

/// Default limit of concurrent calls to one tool.
const DEFAULT_CONCURRENT: u64 = 4;

impl Host {
    /// Checks that the program or the server of a tool can be used, and returns its name. Runs and sends nothing.
    pub fn check_runtime(&self, tool: &LoadedTool) -> Result<String, RunError> {
        match self.program(tool)? {
            Some((spec, _)) => {
                let planned = toolcrib_process::plan(&spec, self.settings.launcher.as_ref());
                planned.map_err(|error| RunError::new(error.code(), error.to_string()))?;
                Ok(spec.program.display().to_string())
            }
            None => {
                let place = self.make_runtime(tool)?.place();
                Ok(place.unwrap_or_else(|| "no program".to_owned()))
            }
        }
    }

    /// Creates the runtime of a tool. Starts and sends nothing.
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
            RuntimeKind::Wasm { entry } => return self.component(tool, entry, concurrent),
            RuntimeKind::Exec { .. } | RuntimeKind::Node { .. } | RuntimeKind::McpStdio { .. } => {}
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

    #[cfg(feature = "wasm")]
    fn component(&self, tool: &LoadedTool, entry: &str, concurrent: usize) -> Result<Arc<dyn Runtime>, RunError> {
        let request = tool.manifest().sandbox();
        if *request.network() != NetworkRequest::None {
            return Err(unsupported("WebAssembly components have no network: remove `sandbox.network`".to_owned()));
        }
        let (data, temporary) = self.private_folders(tool)?;
        let folders = self.folders(tool, &data, &temporary);
        let folders = sandbox::folders(request, &folders);
        if let Some((file, _)) = folders.iter().find(|(path, _)| !path.is_dir()) {
            return Err(unsupported(format!("a WebAssembly component is given folders, and {} is none", file.display())));
        }
        let memory = request.memory_mib().unwrap_or(COMPONENT_MEMORY_MIB) << 20;
        Ok(Arc::new(WasmRuntime::new(WasmSettings {
            file: tool.folder().join(entry),
            folders: folders.into_iter().map(|(path, may_write)| VisibleFolder { path, may_write }).collect(),
            memory: usize::try_from(memory).unwrap_or(usize::MAX),
            concurrent,
        })))
    }

    #[cfg(not(feature = "wasm"))]
    fn component(&self, _: &LoadedTool, _: &str, _: usize) -> Result<Arc<dyn Runtime>, RunError> {
        Err(unsupported(
            "this build cannot run WebAssembly components; build one with `cargo install --path crates/toolcrib --features wasm`"
                .to_owned(),
        ))
    }
}
