//! Runs programs.
//!
//! Each process handles one call at a time, so that cancelling a call kills its processes and no other call. Warm processes are kept in a
//! stack: the most recently used one is reused first, and those below it end after their idle time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value as Json;
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use toolcrib_core::codes;
use toolcrib_process::{Containment, Ended, Launcher, ProgramSpec, Running, spawn};

use super::backoff::Backoff;
use super::speech::{NoReply, Protocol, Speech};
use super::{Events, Invocation, MAX_RESULT_BYTES, RunError, Runtime};
use crate::local::secrets::Secret;

/// Time between the request to exit and the kill.
const GRACE: Duration = Duration::from_secs(2);

/// Bytes of stderr that are kept for error messages: enough for a stack trace.
const STDERR_BYTES: usize = 8 * 1024;

/// How many times longer an encoded form of a secret can be: each byte as `\u0000`.
const LONGEST_FORM: usize = 6;

/// Lines of stderr in an error message.
const STDERR_LINES: usize = 5;

/// Settings of a [`ProcessRuntime`].
pub(crate) struct ProcessSettings {
    pub(crate) spec: ProgramSpec,
    pub(crate) launcher: Option<Launcher>,
    pub(crate) protocol: Protocol,
    /// How long an idle process is kept. Zero starts one per call.
    pub(crate) keep_alive: Duration,
    /// Most concurrent calls.
    pub(crate) concurrent: usize,
}

/// Runs a program.
pub(crate) struct ProcessRuntime {
    settings: ProcessSettings,
    places: Semaphore,
    idle: Arc<Mutex<Idle>>,
    backoff: Backoff,
    containment: Mutex<Option<Containment>>,
}

/// Idle processes, the longest idle one first.
#[derive(Default)]
struct Idle {
    workers: VecDeque<Worker>,
    /// Whether the task that ends idle processes is running.
    is_reaped: bool,
}

/// A process that is idle or handles a call.
struct Worker {
    running: Running,
    speech: Speech,
    stderr: Arc<Mutex<Tail>>,
    reader: JoinHandle<()>,
    /// Additional variables that the program was started with.
    variables: BTreeMap<String, Arc<Secret>>,
    calls: u64,
    idle_since: Instant,
}

/// A worker that handles a call. Dropping it ends the process: first a request to exit, then a kill.
struct Busy(Option<Worker>);

impl ProcessRuntime {
    pub(crate) fn new(settings: ProcessSettings) -> Self {
        let places = Semaphore::new(settings.concurrent.max(1));
        Self { settings, places, idle: Arc::default(), backoff: Backoff::default(), containment: Mutex::default() }
    }

    /// Returns an idle process that is still running, or a new one.
    async fn worker(&self, variables: &BTreeMap<String, Arc<Secret>>, events: &Events) -> Result<Busy, RunError> {
        loop {
            // Not in the condition of the loop, where the lock would be held across the await.
            let Some(worker) = self.idle().workers.pop_back() else { break };
            let mut busy = Busy(Some(worker));
            // A process with outdated credentials is ended.
            if let Some(worker) = &mut busy.0
                && worker.has(variables)
                && worker.speech.is_open().await
            {
                return Ok(busy);
            }
        }
        if let Some(wait) = self.backoff.wait() {
            let message = format!("the tool crashed repeatedly; the next start is in {} ms", wait.as_millis());
            return Err(RunError::new(codes::host::BACKING_OFF, message).retryable());
        }
        let started = Worker::start(&self.settings, variables, events).await;
        if started.is_err() {
            self.backoff.crashed();
        }
        let worker = started?;
        *self.containment.lock().unwrap_or_else(PoisonError::into_inner) = Some(worker.running.containment().clone());
        Ok(Busy(Some(worker)))
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a process for the next call, until its idle time is over.
    fn keep(&self, mut worker: Worker) {
        worker.idle_since = Instant::now();
        let mut idle = self.idle();
        idle.workers.push_back(worker);
        // One task ends all idle processes. It stops when there are none.
        if !idle.is_reaped {
            idle.is_reaped = true;
            tokio::spawn(reap(Arc::downgrade(&self.idle), self.settings.keep_alive));
        }
    }
}

/// Ends processes that were idle for `keep_alive`, the longest idle ones first, until there are none.
async fn reap(idle: Weak<Mutex<Idle>>, keep_alive: Duration) {
    let mut until = Instant::now() + keep_alive;
    loop {
        sleep_until(until).await;
        let Some(idle) = idle.upgrade() else { return };
        let (expired, next) = {
            let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
            let workers = &mut idle.workers;
            let count = workers.iter().take_while(|worker| worker.idle_since.elapsed() >= keep_alive).count();
            let expired: Vec<_> = workers.drain(..count).collect();
            let next = workers.front().map(|worker| worker.idle_since + keep_alive);
            idle.is_reaped = next.is_some();
            (expired, next)
        };
        for worker in expired {
            worker.end().await;
        }
        match next {
            Some(next) => until = next,
            None => return,
        }
    }
}

#[async_trait]
impl Runtime for ProcessRuntime {
    async fn call(&self, call: Invocation, events: &Events) -> Result<Json, RunError> {
        let deadline = Instant::now() + call.limit;
        let timeout = || RunError::new(codes::host::TIMEOUT, "").within(call.limit);
        // The semaphore is never closed.
        let Ok(Ok(_place)) = timeout_at(deadline, self.places.acquire()).await else {
            return Err(RunError::new(codes::host::BUSY, "all processes of the tool are busy").retryable());
        };
        let Ok(worker) = timeout_at(deadline, self.worker(&call.variables, events)).await else { return Err(timeout()) };
        let mut busy = worker?;
        let Some(worker) = busy.0.as_mut() else { return Err(RunError::new(codes::host::START_FAILED, "there is no process")) };
        let Ok(result) = timeout_at(deadline, worker.exchange(&call, events)).await else {
            worker.speech.cancel(worker.calls).await;
            return Err(timeout());
        };
        match &result {
            // The program answered, so it is kept, whatever the answer is.
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

    /// Uses a separate process, which ends afterwards.
    async fn list_tools(&self, call: Invocation, events: &Events) -> Result<Json, RunError> {
        let listed = async {
            let mut worker = Worker::start(&self.settings, &call.variables, events).await?;
            let listed = match worker.speech.list_tools().await {
                Ok(listed) => listed,
                Err(NoReply::TooLong) => Err(too_long()),
                Err(NoReply::Ended(sent)) => Err(worker.ended(sent, &call, events).await),
            };
            worker.end().await;
            listed
        };
        let listed = tokio::time::timeout(call.limit, listed).await;
        listed.unwrap_or_else(|_| Err(RunError::new(codes::host::TIMEOUT, "").within(call.limit)))
    }

    fn containment(&self) -> Option<Containment> {
        self.containment.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn shutdown(&self) {
        let workers: Vec<_> = self.idle().workers.drain(..).collect();
        for worker in workers {
            worker.end().await;
        }
    }
}

impl Worker {
    async fn start(
        settings: &ProcessSettings,
        variables: &BTreeMap<String, Arc<Secret>>,
        events: &Events,
    ) -> Result<Self, RunError> {
        let failed = |what: &dyn std::fmt::Display| {
            RunError::new(codes::host::START_FAILED, format!("the program could not be started: {what}")).retryable()
        };
        let mut spec = settings.spec.clone();
        spec.environment.extend(variables.iter().map(|(name, secret)| (name.into(), secret.expose().into())));
        let mut running = spawn(&spec, settings.launcher.as_ref()).map_err(|error| failed(&error))?;
        let pipes = (running.stdin.take(), running.stdout.take(), running.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { return Err(failed(&"it has no pipes")) };
        let tail = Arc::new(Mutex::new(Tail::default()));
        let mut reader = tokio::spawn(read_stderr(stderr, Arc::clone(&tail)));
        let idle_since = Instant::now();
        let speech = match Speech::begin(settings.protocol, stdin, stdout).await {
            Ok(speech) => speech,
            Err(error) => {
                let longest = longest(variables.values());
                let (status, words) = last_words(&mut running, &mut reader, &tail, longest, events).await;
                let status = status.map_or_else(String::new, |status| format!(" ({status})"));
                return Err(failed(&format!("{error}{status}{words}")));
            }
        };
        Ok(Self { running, speech, stderr: tail, reader, variables: variables.clone(), calls: 0, idle_since })
    }

    /// Whether the program was started with these variables.
    fn has(&self, variables: &BTreeMap<String, Arc<Secret>>) -> bool {
        let own = self.variables.iter().map(|(name, secret)| (name, secret.expose()));
        own.eq(variables.iter().map(|(name, secret)| (name, secret.expose())))
    }

    /// Makes a call.
    async fn exchange(&mut self, call: &Invocation, events: &Events) -> Result<Json, RunError> {
        self.calls += 1;
        match self.speech.exchange(self.calls, call, events).await {
            Ok(answer) => answer,
            Err(NoReply::TooLong) => Err(too_long()),
            Err(NoReply::Ended(sent)) => Err(self.ended(sent, call, events).await),
        }
    }

    /// The error of a program that exited without an answer.
    async fn ended(&mut self, sent: Option<std::io::Error>, call: &Invocation, events: &Events) -> RunError {
        let Self { running, reader, stderr, .. } = self;
        let (status, tail) = last_words(running, reader, stderr, longest(call.credentials.values()), events).await;
        let status = status.unwrap_or_else(|| {
            sent.map_or_else(|| "it closed its output".to_owned(), |error| format!("it does not read: {error}"))
        });
        let code = if self.calls == 1 { codes::host::START_FAILED } else { codes::host::PROCESS_ENDED };
        RunError::new(code, format!("the program ended before it answered ({status}){tail}"))
    }

    /// Ends the process and all its child processes.
    async fn end(self) {
        let Self { mut running, speech, reader, .. } = self;
        // Closing its stdin requests the exit.
        drop(speech);
        let _ = running.terminate(GRACE).await;
        reader.abort();
    }
}

fn too_long() -> RunError {
    RunError::new(codes::host::RESULT_TOO_LARGE, format!("a line has more than {MAX_RESULT_BYTES} bytes"))
}

/// The length of the longest secret.
fn longest<'s>(secrets: impl Iterator<Item = &'s Arc<Secret>>) -> usize {
    secrets.map(|secret| secret.expose().len()).max().unwrap_or(0)
}

/// How a program exited, if it did, and its last lines of stderr, without secrets of at most `longest` bytes.
async fn last_words(
    running: &mut Running,
    reader: &mut JoinHandle<()>,
    stderr: &Mutex<Tail>,
    longest: usize,
    events: &Events,
) -> (Option<String>, String) {
    let _ = tokio::time::timeout(Duration::from_millis(200), reader).await;
    let status = match tokio::time::timeout(Duration::from_millis(500), running.wait()).await {
        Ok(Ok(Ended { exceeded: Some(limit), .. })) => Some(limit.to_string()),
        Ok(Ok(ended)) => Some(ended.status.to_string()),
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => None,
    };
    let tail = stderr.lock().unwrap_or_else(PoisonError::into_inner).text(longest);
    // Redact before lines are omitted, which may belong to a secret of several lines.
    let tail = events.redact(&tail);
    let tail: Vec<_> = tail.lines().rev().take(STDERR_LINES).collect();
    (status, tail.into_iter().rev().map(|line| format!("; {}", line.trim())).collect())
}

impl Drop for Busy {
    fn drop(&mut self) {
        let Some(worker) = self.0.take() else { return };
        // Without a runtime, dropping the process kills it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(worker.end());
        }
    }
}

/// The end of a program's stderr.
#[derive(Default)]
struct Tail {
    bytes: VecDeque<u8>,
    /// Whether earlier output was dropped.
    is_cut: bool,
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let beyond = self.bytes.len().saturating_sub(STDERR_BYTES);
        self.is_cut |= beyond > 0;
        self.bytes.drain(..beyond);
    }

    /// The text for a call whose longest secret has `longest` bytes. If the beginning was dropped, lines are omitted that may contain the
    /// rest of a secret, which redaction would not find.
    fn text(&self, longest: usize) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let mut rest = bytes.as_slice();
        if self.is_cut {
            let beyond = rest.get(longest.saturating_mul(LONGEST_FORM)..).unwrap_or_default();
            rest = beyond.iter().position(|byte| *byte == b'\n').map_or(&[], |end| &beyond[end + 1..]);
        }
        String::from_utf8_lossy(rest).into_owned()
    }
}

/// Keeps the end of a program's stderr. It is never logged, because it may contain credentials.
async fn read_stderr(mut stderr: ChildStderr, tail: Arc<Mutex<Tail>>) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        tail.lock().unwrap_or_else(PoisonError::into_inner).push(buffer.get(..read).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_beginning_is_gone_lines_that_may_hold_the_rest_of_a_secret_are_left_out() {
        let mut tail = Tail::default();
        tail.push(b"one\ntwo");
        assert_eq!(tail.text(8), "one\ntwo", "nothing is gone");
        tail.push(&[b'x'; STDERR_BYTES]);
        assert_eq!(tail.text(8), "", "no line begins after what may be a secret");
        tail.push(b"\nlast");
        assert_eq!(tail.text(8), "last");
        assert_eq!(tail.text(STDERR_BYTES), "");
    }
}
