//! A host with one tool in its own folder.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use toolcrib_fetch::Untrusted;
use toolcrib_host::local::audit::{Options, SyncPolicy};
use toolcrib_host::local::permissions::Grant;
use toolcrib_host::local::secrets::SecretStore;
use toolcrib_host::local::{CallError, CallRequest, CallResult, Event, Events, Host, HostSettings, LoadedTool};

use crate::local_support::private_folder;
use toolcrib_testkit::clock::MovingClock;
use toolcrib_testkit::local_tools::closed;

/// The id of the tool.
pub(crate) const TOOL: &str = "thing";

/// A host whose only tool is allowed.
pub(crate) struct OneTool {
    pub(crate) host: Host,
    pub(crate) folder: TempDir,
    limit: Duration,
}

/// A manifest with one function `run` that accepts any arguments.
pub(crate) fn manifest(more: Json) -> Json {
    let mut manifest = json!({
        "id": TOOL, "name": "Thing", "description": "For tests.", "version": "1.0.0",
        "functions": [{"name": "run", "description": "Runs.", "parameters": {"type": "object"}}],
    });
    for (key, value) in more.as_object().unwrap() {
        manifest[key] = value.clone();
    }
    manifest
}

impl OneTool {
    /// Creates a host with the tool, these additional files, and this client for remote servers.
    pub(crate) fn new(manifest: &Json, files: &[(&str, &[u8])], secrets: &[(&str, &str)], remote: Option<Untrusted>) -> Self {
        let folder = private_folder();
        let tool = folder.path().join("tools").join(TOOL);
        fs::create_dir_all(&tool).unwrap();
        fs::write(tool.join("manifest.json"), manifest.to_string()).unwrap();
        for (name, bytes) in files {
            fs::write(tool.join(name), bytes).unwrap();
        }
        let state = folder.path().join("state");
        let variables =
            secrets.iter().map(|(name, value)| (SecretStore::variable_name(TOOL, name).unwrap(), (*value).to_owned()));
        let roots = vec![folder.path().join("tools")];
        let closed = closed(roots, &state, Arc::new(MovingClock::new()), Options::default().with_sync(SyncPolicy::Never));
        let settings = HostSettings {
            secrets: closed.secrets.with_environment(variables),
            remote: remote.unwrap_or(closed.remote),
            ..closed
        };
        let host = Host::open(settings).unwrap();
        assert!(host.tools().problems().is_empty(), "{:?}", host.tools().problems());
        let one = Self { host, folder, limit: Duration::from_secs(20) };
        one.host.permissions().grant(Grant::allow(TOOL, one.tool().content())).unwrap();
        one
    }

    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    pub(crate) fn tool(&self) -> Arc<LoadedTool> {
        Arc::clone(&self.host.tools().tools()[TOOL])
    }

    pub(crate) async fn call(&self, arguments: Json) -> Result<CallResult, CallError> {
        self.call_with(arguments, Events::default()).await
    }

    /// Calls the function, and returns its events and the result.
    pub(crate) async fn call_and_listen(&self, arguments: Json) -> (Result<CallResult, CallError>, Vec<Event>) {
        let (sender, mut receiver) = mpsc::channel(1_000);
        let result = self.call_with(arguments, Events::new(sender)).await;
        let mut events = Vec::new();
        while let Ok(event) = receiver.try_recv() {
            events.push(event);
        }
        (result, events)
    }

    async fn call_with(&self, arguments: Json, events: Events) -> Result<CallResult, CallError> {
        let request = CallRequest {
            tool: TOOL,
            function: "run",
            arguments,
            caller: "cli",
            interactive: false,
            approval: None,
            limit: Some(self.limit),
            events,
        };
        self.host.call(request).await
    }

    /// The code id of a failed call.
    #[track_caller]
    pub(crate) fn code(result: &Result<CallResult, CallError>) -> &'static str {
        match result {
            Ok(result) => panic!("a result: {}", result.value),
            Err(error) => error.code().id(),
        }
    }

    /// All files that the host wrote.
    pub(crate) fn written(&self) -> String {
        let mut texts = String::new();
        let mut open = vec![self.folder.path().join("state")];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                match entry.path() {
                    path if path.is_dir() => open.push(path),
                    path => texts.push_str(&String::from_utf8_lossy(&fs::read(path).unwrap())),
                }
            }
        }
        texts
    }
}
