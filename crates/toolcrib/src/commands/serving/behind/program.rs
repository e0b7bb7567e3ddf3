//! A program as backend: one process per call, the input on its stdin and the output on its stdout.
//!
//! No shell is involved, and data of a caller never becomes an argument, a variable or a file name. The program does not inherit the
//! environment; it gets only the variables that the operator lists. It runs in its own process group, which is killed as a whole when the
//! call ends for any reason; on Linux, together with processes that have left the group (see [`toolcrib_process`]).

use std::ffi::OsString;
use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use toolcrib_core::codes;
use toolcrib_gate::{Context, MAX_OUTPUT_BYTES, ToolError};
use toolcrib_process::{Limits, ProgramSpec, SandboxMode};

use super::output;
use crate::env;
use crate::outcome::Failure;
use crate::printer::shown;

/// Variables that a program always gets: to find other programs, its own settings, and the language.
const KEPT: [&str; 3] = ["PATH", "HOME", "LANG"];

/// Prefixes of the gate's own variables, which no program gets: keys, passwords, and URLs that contain keys.
const WITHHELD: [&str; 2] = ["TOOLCRIB_", env::RPC_URL];

/// Most bytes of a program's stderr that are logged per call: enough for a stack trace, but no flood.
const MAX_STDERR_BYTES: usize = 8 * 1024;

/// How long to wait for the remaining stderr of a program that has ended.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// The program from the command line.
#[derive(Clone, Debug)]
pub(crate) struct ProgramSettings<'a> {
    /// The program.
    pub(crate) program: &'a Path,
    /// Its arguments, the same for every call.
    pub(crate) arguments: &'a [OsString],
    /// Variables that it gets in addition to the usual three.
    pub(crate) pass_env: &'a [String],
    /// Whether its input includes the caller.
    pub(crate) envelope: bool,
}

/// A program of the operator.
pub(crate) struct Program {
    spec: ProgramSpec,
    envelope: bool,
}

impl Program {
    /// Finds the program, so that a misspelt one fails at the start and not at the first call.
    pub(crate) fn new(settings: &ProgramSettings<'_>) -> Result<Self, Failure> {
        let is_withheld = |name: &&String| WITHHELD.iter().any(|prefix| name.to_ascii_uppercase().starts_with(prefix));
        if let Some(name) = settings.pass_env.iter().find(is_withheld) {
            return Err(Failure::new(codes::cli::USAGE, format!("{name} is a variable of the gate, which is never passed on"))
                .hint("give the program its own secret under another name"));
        }
        let names = KEPT.into_iter().chain(settings.pass_env.iter().map(String::as_str));
        let variables = names.filter_map(|name| Some((name.into(), std::env::var_os(name)?))).collect();
        let path = find(settings.program).ok_or_else(|| {
            Failure::new(codes::cli::NOT_FOUND, format!("program {} not found", settings.program.display()))
                .hint("give a path or a name in PATH; give each argument with --arg")
        })?;
        // The gate starts all its processes here.
        toolcrib_process::adopt_orphans();
        let spec = ProgramSpec {
            program: path,
            arguments: settings.arguments.to_vec(),
            environment: variables,
            folder: None,
            // The operator chose the program and its privileges, so it is not sandboxed.
            sandbox: SandboxMode::Off,
            limits: Limits::UNLIMITED,
        };
        Ok(Self { spec, envelope: settings.envelope })
    }

    /// One call.
    pub(super) async fn call(&self, input: Value, context: &Context) -> Result<Value, ToolError> {
        let document = if self.envelope { envelope(input, context) } else { input };
        let mut running = toolcrib_process::spawn(&self.spec, None)
            .map_err(|error| ToolError::internal(format!("the command could not be started: {error}")))?;
        let stdin = running.stdin.take();
        let stdout = running.stdout.take().ok_or_else(|| ToolError::internal("the command has no stdout"))?;
        let slug = context.slug().to_owned();
        let mut complaints = Complaints(running.stderr.take().map(|stderr| tokio::spawn(complain(stderr, slug))));
        let (bytes, ()) = futures_util::future::join(capped(stdout), give(stdin, document.to_string())).await;
        let bytes = bytes?;
        let ended = running.wait().await.map_err(|error| ToolError::internal(error.to_string()))?;
        complaints.finish().await;
        if !ended.status.success() {
            return Err(ToolError::internal(format!("the command ended with {}", ended.status)));
        }
        output(&bytes)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.program.display().fmt(f)
    }
}

/// Omits arguments and variables, which may contain secrets.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("path", &self.spec.program).finish_non_exhaustive()
    }
}

/// The task that logs the stderr of a program. Dropping it aborts the task.
struct Complaints(Option<JoinHandle<()>>);

impl Complaints {
    /// Waits for the remaining stderr of a program that has ended.
    async fn finish(&mut self) {
        if let Some(task) = self.0.as_mut() {
            let _ = timeout(LAST_WORDS, task).await;
        }
    }
}

impl Drop for Complaints {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// The input and the caller, for programs that use both.
fn envelope(input: Value, context: &Context) -> Value {
    let caller =
        context.caller().map(|caller| json!({ "account": caller.account.to_checksum(None), "isBound": caller.is_bound }));
    json!({ "input": input, "caller": caller, "slug": context.slug(), "tool": context.tool().map(|tool| tool.to_string()) })
}

/// Writes the input. A program may choose not to read it.
async fn give(stdin: Option<ChildStdin>, text: String) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(text.as_bytes()).await;
        let _ = stdin.shutdown().await;
    }
}

/// Reads to the end, or stops at the limit.
async fn capped(from: impl AsyncRead + Unpin) -> Result<Vec<u8>, ToolError> {
    let mut bytes = Vec::new();
    from.take(MAX_OUTPUT_BYTES as u64 + 1).read_to_end(&mut bytes).await?;
    if bytes.len() > MAX_OUTPUT_BYTES {
        return Err(ToolError::internal(format!("the output has more than {MAX_OUTPUT_BYTES} bytes")));
    }
    Ok(bytes)
}

/// Logs the stderr of a program, line by line, escaped, up to the limit. The rest is read and discarded, so that the program is not
/// blocked.
async fn complain(mut stderr: ChildStderr, slug: String) {
    let (mut line, mut left) = (Vec::new(), MAX_STDERR_BYTES);
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        let taken = buffer.get(..read.min(left)).unwrap_or_default();
        let was_open = left > 0;
        left -= taken.len();
        for byte in taken {
            if *byte == b'\n' {
                say(&slug, &line);
                line.clear();
            } else {
                line.push(*byte);
            }
        }
        if was_open && left == 0 {
            say(&slug, &line);
            say(&slug, "… (truncated)".as_bytes());
            line.clear();
        }
    }
    if !line.is_empty() {
        say(&slug, &line);
    }
}

fn say(slug: &str, line: &[u8]) {
    let text = String::from_utf8_lossy(line);
    // Stderr may be closed.
    let _ = writeln!(std::io::stderr().lock(), "{slug}: {}", shown(text.trim_end_matches('\r')));
}

/// The program to run: a path as it is, a name as found in PATH.
fn find(program: &Path) -> Option<PathBuf> {
    let is_program = |path: &Path| path.is_file();
    if program.components().count() > 1 || program.is_absolute() {
        // Absolute, since a relative path would mean another file after a change of the working folder.
        return std::path::absolute(program).ok().filter(|path| is_program(path));
    }
    let folders = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| is_program(path))?;
    std::path::absolute(found).ok()
}
