//! Programs that read and write JSON lines.
//!
//! Each process works on one call at a time, so that ending a call ends its processes and no other call. Processes that are kept warm
//! wait in a stack: the last one used is the first to be used again, and those below it are ended when they were idle for long enough.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use toolcrib_core::codes;
use toolcrib_core::text::escape_for_display;
use toolcrib_process::{Containment, Ended, Launcher, ProgramSpec, Running, spawn};

use super::backoff::Backoff;
use super::lines::{LineError, read_line};
use super::{Event, Events, Invocation, MAX_RESULT_BYTES, RunError, Runtime};

/// How long a program has between the request to end and the end.
const GRACE: Duration = Duration::from_secs(2);

/// Bytes of standard error that are remembered, for error messages. Enough for a stack trace.
const STDERR_BYTES: usize = 8 * 1024;

/// Lines of standard error that an error message repeats.
const STDERR_LINES: usize = 5;

/// Lines that are no answer, for one call. A program that writes more is broken or hostile.
const MAX_OTHER_LINES: usize = 10_000;

/// Longest progress message or log line that is passed on, in characters.
const MAX_EVENT_CHARS: usize = 2_000;

/// What a [`ProcessRuntime`] is made from.
pub(crate) struct ProcessSettings {
    pub(crate) tool: String,
    pub(crate) spec: ProgramSpec,
    pub(crate) launcher: Option<Launcher>,
    /// How long an idle process is kept. Zero starts one for each call.
    pub(crate) keep_alive: Duration,
    /// Calls at the same time.
    pub(crate) concurrent: usize,
}

/// Runs a program.
pub(crate) struct ProcessRuntime {
    settings: ProcessSettings,
    places: Semaphore,
    idle: Arc<Mutex<VecDeque<Worker>>>,
    backoff: Backoff,
    containment: Mutex<Option<Containment>>,
}

/// A process that waits for a call or works on one.
struct Worker {
    running: Running,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    reader: JoinHandle<()>,
    calls: u64,
    idle_since: Instant,
}

/// A worker that belongs to a call. Letting go of it ends it: first politely, then not.
struct Busy(Option<Worker>);

impl ProcessRuntime {
    pub(crate) fn new(settings: ProcessSettings) -> Self {
        let places = Semaphore::new(settings.concurrent.max(1));
        Self { settings, places, idle: Arc::default(), backoff: Backoff::default(), containment: Mutex::default() }
    }

    /// An idle process that still runs, or a new one.
    async fn worker(&self) -> Result<Busy, RunError> {
        loop {
            // Not in the condition of the loop: the lock would be held while it waits.
            let Some(mut worker) = self.idle().pop_back() else { break };
            if worker.is_open().await {
                return Ok(Busy(Some(worker)));
            }
        }
        if let Some(wait) = self.backoff.wait() {
            let message = format!("the tool crashed repeatedly; the next start is in {} ms", wait.as_millis());
            return Err(RunError::new(codes::host::BACKING_OFF, message).retryable());
        }
        let started = Worker::start(&self.settings);
        if started.is_err() {
            self.backoff.crashed();
        }
        let worker = started?;
        *self.containment.lock().unwrap_or_else(PoisonError::into_inner) = Some(worker.running.containment().clone());
        Ok(Busy(Some(worker)))
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, VecDeque<Worker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a process for the next call, and ends it when there is none for long enough.
    fn keep(&self, mut worker: Worker) {
        worker.idle_since = Instant::now();
        let until = worker.idle_since + self.settings.keep_alive;
        self.idle().push_back(worker);
        let idle = Arc::downgrade(&self.idle);
        let keep_alive = self.settings.keep_alive;
        tokio::spawn(async move {
            sleep_until(until).await;
            let Some(idle) = idle.upgrade() else { return };
            let expired: Vec<_> = {
                let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
                let count = idle.iter().take_while(|worker| worker.idle_since.elapsed() >= keep_alive).count();
                idle.drain(..count).collect()
            };
            for worker in expired {
                worker.end().await;
            }
        });
    }
}

#[async_trait]
impl Runtime for ProcessRuntime {
    async fn call(&self, call: Invocation, events: &Events) -> Result<Json, RunError> {
        let deadline = Instant::now() + call.limit;
        let timeout = || RunError::new(codes::host::TIMEOUT, format!("the call took longer than {} ms", call.limit.as_millis()));
        // The semaphore is never closed.
        let Ok(Ok(_place)) = timeout_at(deadline, self.places.acquire()).await else {
            return Err(RunError::new(codes::host::BUSY, "all processes of the tool are busy").retryable());
        };
        let mut busy = self.worker().await?;
        let Some(worker) = busy.0.as_mut() else { return Err(RunError::new(codes::host::START_FAILED, "there is no process")) };
        let Ok(result) = timeout_at(deadline, worker.exchange(&call, events)).await else {
            worker.cancel().await;
            return Err(timeout());
        };
        match &result {
            // The program answered, whatever the answer is.
            result if result.as_ref().map_or_else(RunError::is_answer, |_| true) => {
                self.backoff.answered();
                if let Some(worker) = busy.0.take() {
                    match self.settings.keep_alive.is_zero() {
                        true => worker.end().await,
                        false => self.keep(worker),
                    }
                }
            }
            _ => self.backoff.crashed(),
        }
        result
    }

    fn containment(&self) -> Option<Containment> {
        self.containment.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn shutdown(&self) {
        let workers: Vec<_> = self.idle().drain(..).collect();
        for worker in workers {
            worker.end().await;
        }
    }
}

impl Worker {
    fn start(settings: &ProcessSettings) -> Result<Self, RunError> {
        let failed = |what: &dyn std::fmt::Display| {
            RunError::new(codes::host::START_FAILED, format!("the program could not be started: {what}")).retryable()
        };
        let mut running = spawn(&settings.spec, settings.launcher.as_ref()).map_err(|error| failed(&error))?;
        let pipes = (running.stdin.take(), running.stdout.take(), running.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { return Err(failed(&"it has no pipes")) };
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let reader = tokio::spawn(read_stderr(stderr, settings.tool.clone(), Arc::clone(&tail)));
        let idle_since = Instant::now();
        Ok(Self { running, stdin, stdout: BufReader::new(stdout), stderr: tail, reader, calls: 0, idle_since })
    }

    /// Whether the program still has its output open. One that ended while it was idle does not.
    async fn is_open(&mut self) -> bool {
        tokio::select! {
            biased;
            bytes = self.stdout.fill_buf() => bytes.is_ok_and(|bytes| !bytes.is_empty()),
            () = std::future::ready(()) => true,
        }
    }

    /// Sends a call, and reads lines until one of them answers it.
    async fn exchange(&mut self, call: &Invocation, events: &Events) -> Result<Json, RunError> {
        self.calls += 1;
        let id = self.calls;
        let message = call.message(id);
        // A program may answer before it has read everything; whether it reads at all is seen from its answer.
        let (sent, answer) = tokio::join!(self.stdin.write_all(message.as_bytes()), answer(&mut self.stdout, id, events));
        match answer {
            Ok(answer) => answer,
            Err(LineError::TooLong) => {
                Err(RunError::new(codes::host::RESULT_TOO_LARGE, format!("a line has more than {MAX_RESULT_BYTES} bytes")))
            }
            Err(LineError::End | LineError::Broken) => Err(self.ended(sent.err()).await),
        }
    }

    /// What is known about a program that ended without an answer.
    async fn ended(&mut self, sent: Option<std::io::Error>) -> RunError {
        let _ = tokio::time::timeout(Duration::from_millis(200), &mut self.reader).await;
        let status = match tokio::time::timeout(Duration::from_millis(500), self.running.wait()).await {
            Ok(Ok(Ended { exceeded: Some(limit), .. })) => limit.to_string(),
            Ok(Ok(ended)) => ended.status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => sent.map_or_else(|| "it closed its output".to_owned(), |error| format!("it does not read: {error}")),
        };
        let tail: Vec<u8> = self.stderr.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let tail = String::from_utf8_lossy(&tail);
        let tail: Vec<_> = tail.lines().rev().take(STDERR_LINES).collect();
        let tail: String = tail.into_iter().rev().map(|line| format!("; {}", line.trim())).collect();
        let code = if self.calls == 1 { codes::host::START_FAILED } else { codes::host::PROCESS_ENDED };
        RunError::new(code, format!("the program ended before it answered ({status}){tail}"))
    }

    /// Asks the program to stop working on its call. It is ended afterwards in any case.
    async fn cancel(&mut self) {
        let message = format!("{}\n", json!({ "cancel": self.calls }));
        let _ = tokio::time::timeout(Duration::from_millis(50), self.stdin.write_all(message.as_bytes())).await;
    }

    /// Ends the process and everything it started.
    async fn end(self) {
        let Self { mut running, stdin, reader, .. } = self;
        // The end of its input is the polite request.
        drop(stdin);
        let _ = running.terminate(GRACE).await;
        reader.abort();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let Some(worker) = self.0.take() else { return };
        // Without a runtime, letting go of the process kills it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(worker.end());
        }
    }
}

/// Reads lines until the one that answers the call `id`.
async fn answer(stdout: &mut BufReader<ChildStdout>, id: u64, events: &Events) -> Result<Result<Json, RunError>, LineError> {
    let mut line = Vec::new();
    for _ in 0..MAX_OTHER_LINES {
        line.clear();
        read_line(stdout, &mut line, MAX_RESULT_BYTES).await?;
        let Ok(Json::Object(mut message)) = serde_json::from_slice::<Json>(&line) else {
            // Many programs print; that is a log.
            events.send(Event::Log(cut(&String::from_utf8_lossy(&line))));
            continue;
        };
        if message.get("id").and_then(Json::as_u64) != Some(id) {
            continue;
        }
        if let Some(result) = message.remove("result") {
            return Ok(Ok(result));
        }
        if let Some(error) = message.get("error") {
            return Ok(Err(RunError::reported(error)));
        }
        if let Some(progress) = message.get("progress").and_then(Json::as_f64) {
            let text = message.get("message").and_then(Json::as_str).map(cut);
            events.send(Event::Progress { progress, total: message.get("total").and_then(Json::as_f64), message: text });
        } else if let Some(log) = message.get("log") {
            events.send(Event::Log(cut(log.as_str().unwrap_or(&log.to_string()))));
        }
    }
    Ok(Err(RunError::new(codes::host::PROTOCOL, format!("more than {MAX_OTHER_LINES} lines without an answer"))))
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_EVENT_CHARS).collect()
}

/// Logs what a program says on standard error, and remembers the end of it.
async fn read_stderr(mut stderr: ChildStderr, tool: String, tail: Arc<Mutex<VecDeque<u8>>>) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        let bytes = buffer.get(..read).unwrap_or_default();
        tracing::debug!(tool, "stderr: {}", escape_for_display(String::from_utf8_lossy(bytes).trim_end()));
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend(bytes);
        let beyond = tail.len().saturating_sub(STDERR_BYTES);
        tail.drain(..beyond);
    }
}
