//! WebAssembly components (WASI 0.2) without ambient authority.
//!
//! - `output`: stdout and stderr of a component.
//! - `store`: the resources of one call.
//!
//! A component is a command (`wasi:cli/run`). Each call runs in a new instance, which reads the message of a program from stdin and writes
//! one line to stdout. It gets no command-line arguments, variables or network, and only the folders that its manifest declares and its
//! data folder. Compiled code is kept only in memory, because a file could be replaced.

mod output;
mod store;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value as Json;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use toolcrib_core::codes;
use toolcrib_process::Containment;
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, Store, Trap, UpdateDeadline};
use wasmtime_wasi::I32Exit;
use wasmtime_wasi::p2::add_to_linker_async;
use wasmtime_wasi::p2::bindings::CommandPre;

use self::output::{Ended, Lines, Log};
use self::store::Instance;
use super::{Events, Invocation, MAX_RESULT_BYTES, RunError, Runtime};

/// Largest component. Compilation takes time and memory in proportion, and cannot be interrupted.
const MAX_COMPONENT_BYTES: u64 = 64 << 20;

/// How often a computing component yields to the host, which limits how late a timeout is noticed.
const TICK: Duration = Duration::from_millis(10);

/// Settings of a [`WasmRuntime`].
pub(crate) struct WasmSettings {
    /// The component.
    pub(crate) file: PathBuf,
    /// The folders that are visible to the component, under their own names.
    pub(crate) folders: Vec<VisibleFolder>,
    /// Most bytes of all its memories together.
    pub(crate) memory: usize,
    /// Most concurrent calls.
    pub(crate) concurrent: usize,
}

/// A folder that is visible to a component.
#[derive(Clone, Debug)]
pub(crate) struct VisibleFolder {
    pub(crate) path: PathBuf,
    pub(crate) may_write: bool,
}

/// Runs a component.
pub(crate) struct WasmRuntime {
    settings: WasmSettings,
    places: Semaphore,
    /// The compiled component, or why compilation failed. Computed once, since the file never changes.
    compiled: Arc<OnceLock<Result<CommandPre<Instance>, String>>>,
}

impl WasmRuntime {
    pub(crate) fn new(settings: WasmSettings) -> Self {
        let places = Semaphore::new(settings.concurrent.max(1));
        Self { settings, places, compiled: Arc::default() }
    }

    /// The compiled component. Cancelling a call does not stop the compiler: the next one finds its result.
    async fn command(&self) -> Result<CommandPre<Instance>, RunError> {
        let (compiled, file) = (Arc::clone(&self.compiled), self.settings.file.clone());
        let made = tokio::task::spawn_blocking(move || compiled.get_or_init(|| compile(&file)).clone()).await;
        let failed = |what: String| RunError::new(codes::host::START_FAILED, format!("the component cannot be compiled: {what}"));
        made.map_err(|error| failed(error.to_string()))?.map_err(failed)
    }

    async fn run(&self, call: &Invocation, events: &Events, deadline: Instant) -> Result<Json, RunError> {
        let command = self.command().await?;
        let (lines, log) = (Lines::new(events.clone()), Log::new(events.clone()));
        let instance = Instance::new(&self.settings, call.message(1).as_bytes(), &lines, &log)
            .map_err(|error| RunError::new(codes::host::START_FAILED, format!("a folder cannot be opened: {error}")))?;
        let mut store = Store::new(command.engine(), instance);
        store.limiter(|instance| &mut instance.limits);
        store.set_epoch_deadline(1);
        // Timers alone would fire late: the component runs on the thread that drives them.
        store.epoch_deadline_callback(move |_| {
            Ok(if Instant::now() < deadline { UpdateDeadline::Yield(1) } else { UpdateDeadline::Interrupt })
        });
        let _ticker = Ticker::start(command.engine())?;
        let guest = async {
            let command = command.instantiate_async(&mut store).await?;
            command.wasi_cli_run().call_run(&mut store).await
        };
        // Output after the answer is not awaited.
        let ended = tokio::select! {
            biased;
            () = lines.finished() => None,
            ended = guest => Some(ended),
        };
        match lines.take() {
            Some(Ended::Answer(answer)) => return answer,
            Some(Ended::TooLong) => {
                let message = format!("a line has more than {MAX_RESULT_BYTES} bytes");
                return Err(RunError::new(codes::host::RESULT_TOO_LARGE, message));
            }
            None => {}
        }
        if Instant::now() >= deadline {
            return Err(timeout(call));
        }
        let limits = &store.data().limits;
        let status = match ended {
            _ if limits.was_exceeded() => format!("it needs more than {} MiB of memory", self.settings.memory >> 20),
            Some(Ok(_)) | None => "it returned".to_owned(),
            Some(Err(error)) => match (error.downcast_ref::<I32Exit>(), error.downcast_ref::<Trap>()) {
                (Some(exit), _) => format!("exit status {}", exit.0),
                (_, Some(trap)) => trap.to_string(),
                _ => error.to_string(),
            },
        };
        let message = format!("the component ended before it answered ({status}){}", log.tail());
        Err(RunError::new(codes::host::PROCESS_ENDED, message))
    }
}

#[async_trait]
impl Runtime for WasmRuntime {
    async fn call(&self, call: Invocation, events: &Events) -> Result<Json, RunError> {
        let deadline = Instant::now() + call.limit;
        // The semaphore is never closed.
        let Ok(Ok(_place)) = timeout_at(deadline, self.places.acquire()).await else {
            return Err(RunError::new(codes::host::BUSY, "the tool has too many calls at the same time").retryable());
        };
        timeout_at(deadline, self.run(&call, events, deadline)).await.unwrap_or_else(|_| Err(timeout(&call)))
    }

    fn containment(&self) -> Option<Containment> {
        Some(Containment::web_assembly())
    }

    fn place(&self) -> Option<String> {
        let name = self.settings.file.file_name().unwrap_or_default();
        Some(format!("the WebAssembly component {}", name.to_string_lossy()))
    }

    async fn shutdown(&self) {}
}

fn timeout(call: &Invocation) -> RunError {
    RunError::new(codes::host::TIMEOUT, format!("the call took longer than {} ms", call.limit.as_millis()))
}

/// The linker of this process, which all components share.
fn linker() -> Result<&'static Linker<Instance>, String> {
    static LINKER: OnceLock<Result<Linker<Instance>, String>> = OnceLock::new();
    let linker = LINKER.get_or_init(|| {
        let mut config = Config::new();
        config.epoch_interruption(true);
        let engine = Engine::new(&config).map_err(|error| error.to_string())?;
        let mut linker = Linker::new(&engine);
        add_to_linker_async(&mut linker).map_err(|error| error.to_string())?;
        Ok(linker)
    });
    linker.as_ref().map_err(Clone::clone)
}

/// Compiles a component. Takes a second per few hundred kilobytes in an unoptimised build.
fn compile(file: &Path) -> Result<CommandPre<Instance>, String> {
    let size = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
    if size > MAX_COMPONENT_BYTES {
        return Err(format!("it has {size} bytes, above the limit of {MAX_COMPONENT_BYTES}"));
    }
    let bytes = std::fs::read(file).map_err(|error| error.to_string())?;
    let linker = linker()?;
    let component = Component::from_binary(linker.engine(), &bytes).map_err(|error| format!("{error:#}"))?;
    let instance = linker.instantiate_pre(&component).map_err(|error| format!("{error:#}"))?;
    CommandPre::new(instance).map_err(|error| format!("it is not a command of wasi:cli: {error:#}"))
}

/// Interrupts components during a call. A separate thread, because a computing component blocks the async runtime.
struct Ticker(Arc<AtomicBool>);

impl Ticker {
    fn start(engine: &Engine) -> Result<Self, RunError> {
        let (is_over, engine) = (Arc::new(AtomicBool::new(false)), engine.clone());
        let thread = std::thread::Builder::new().name("wasm-ticker".to_owned()).spawn({
            let is_over = Arc::clone(&is_over);
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::thread::sleep(TICK);
                    engine.increment_epoch();
                }
            }
        });
        thread.map_err(|error| RunError::new(codes::host::START_FAILED, format!("no thread: {error}")).retryable())?;
        Ok(Self(is_over))
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
