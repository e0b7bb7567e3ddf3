//! A tool that is a program: one process for each call, the input on its stdin and the output on its stdout.
//!
//! No shell is involved, and nothing that a caller sends is ever an argument, a variable or a file name. The program does not get our
//! environment, only the variables that the operator lists. It runs in a process group of its own, which is ended as a whole when the
//! call ends, however it ends; on Linux, together with processes that have left the group ([`cgroup`] where the system
//! allows it, [`strays`] everywhere).

use std::ffi::OsString;
use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

#[cfg(unix)]
use rustix::process::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use toolcrib_core::codes;
use toolcrib_gate::{Context, MAX_OUTPUT_BYTES, ToolError};

use super::output;
#[cfg(target_os = "linux")]
use super::{cgroup, strays};
use crate::env;
use crate::outcome::Failure;
use crate::printer::shown;

/// Variables that a program gets without being listed: to find other programs, its own settings, and the language.
const KEPT: [&str; 3] = ["PATH", "HOME", "LANG"];

/// How the names of the gate's own variables begin, which no program behind it gets: keys, passwords, and URLs that hold keys.
const WITHHELD: [&str; 2] = ["TOOLCRIB_", env::RPC_URL];

/// Bytes of a program's stderr that are shown for one call. Enough for the stack trace of an exception; a flood is no log.
const MAX_STDERR_BYTES: usize = 8 * 1024;

/// How long the last words of a program that has ended are waited for.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// What to run, as the command line says it.
#[derive(Clone, Debug)]
pub(crate) struct ProgramSettings<'a> {
    /// The program.
    pub(crate) program: &'a Path,
    /// Its arguments, the same for every call.
    pub(crate) arguments: &'a [OsString],
    /// Variables that it gets beside the usual three.
    pub(crate) pass_env: &'a [String],
    /// Whether it learns who calls.
    pub(crate) envelope: bool,
}

/// A program of the operator's.
pub(crate) struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    envelope: bool,
    #[cfg(target_os = "linux")]
    groups: Option<cgroup::Groups>,
}

impl Program {
    /// Finds the program, so that a misspelt one is noticed at the start and not by the first caller.
    pub(crate) fn new(settings: &ProgramSettings<'_>) -> Result<Self, Failure> {
        let is_withheld = |name: &&String| WITHHELD.iter().any(|prefix| name.to_ascii_uppercase().starts_with(prefix));
        if let Some(name) = settings.pass_env.iter().find(is_withheld) {
            return Err(Failure::new(codes::cli::USAGE, format!("{name} is the gate's own variable, which no command gets"))
                .hint("give the command a secret of its own under another name"));
        }
        let names = KEPT.into_iter().chain(settings.pass_env.iter().map(String::as_str));
        let variables = names.filter_map(|name| Some((name.into(), std::env::var_os(name)?))).collect();
        let path = find(settings.program).ok_or_else(|| {
            Failure::new(codes::cli::NOT_FOUND, format!("there is no program {}", settings.program.display()))
                .hint("give a path, or a name that is found in PATH; arguments go to --arg, one each")
        })?;
        #[cfg(target_os = "linux")]
        strays::adopt();
        Ok(Self {
            path,
            arguments: settings.arguments.to_vec(),
            variables,
            envelope: settings.envelope,
            #[cfg(target_os = "linux")]
            groups: cgroup::Groups::open(),
        })
    }

    /// One call.
    pub(super) async fn call(&self, input: Value, context: &Context) -> Result<Value, ToolError> {
        let document = if self.envelope { envelope(input, context) } else { input };
        let mut running = self.start(context)?;
        let stdin = running.child.stdin.take();
        let stdout = running.child.stdout.take().ok_or_else(|| ToolError::internal("the command has no stdout"))?;
        let (bytes, ()) = futures_util::future::join(capped(stdout), give(stdin, document.to_string())).await;
        let bytes = bytes?;
        let status = running.ended().await?;
        if !status.success() {
            return Err(ToolError::internal(format!("the command ended with {status}")));
        }
        output(&bytes)
    }

    fn start(&self, context: &Context) -> Result<Running, ToolError> {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let failed = |error| ToolError::internal(format!("the command could not be started: {error}"));
        #[cfg(target_os = "linux")]
        let spawned = strays::start(|| {
            command.spawn().map(|child| {
                let id = child.id();
                (child, id)
            })
        });
        #[cfg(not(target_os = "linux"))]
        let spawned = command.spawn();
        let mut child = spawned.map_err(failed)?;
        #[cfg(target_os = "linux")]
        let mut group = None;
        #[cfg(target_os = "linux")]
        if let Some(process) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            group = self.groups.as_ref().and_then(|groups| groups.enter(process));
            crate::descriptors::lower(process);
        }
        let slug = context.slug().to_owned();
        let complaints = child.stderr.take().map(|stderr| tokio::spawn(complain(stderr, slug)));
        Ok(Running {
            child,
            complaints,
            #[cfg(target_os = "linux")]
            group,
        })
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

/// Neither arguments nor variables: either may hold a secret.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A program that runs. Whoever lets go of it ends it, and all that it started.
struct Running {
    child: Child,
    complaints: Option<JoinHandle<()>>,
    /// Everything that the program has started since it runs.
    #[cfg(target_os = "linux")]
    group: Option<cgroup::Group>,
}

impl Running {
    /// Waits for its end, then ends whatever it left behind.
    async fn ended(&mut self) -> Result<ExitStatus, ToolError> {
        // Seen but not yet collected, the process keeps its number: the signal cannot meet somebody else's group.
        #[cfg(unix)]
        if let Some(process) = self.process() {
            let seen = tokio::task::spawn_blocking(move || {
                use rustix::process::{WaitId, WaitIdOptions, waitid};
                // An interruption by a signal is no end of the process.
                let interrupted = || {
                    let seen = waitid(WaitId::Pid(process), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
                    matches!(seen, Err(rustix::io::Errno::INTR))
                };
                while interrupted() {}
            });
            // It fails only when the runtime ends, and then nothing is waited for.
            let _ = seen.await;
        }
        self.end_group();
        #[cfg(unix)]
        let process = self.process();
        let status = self.child.wait().await?;
        #[cfg(unix)]
        end_strays(process);
        if let Some(complaints) = self.complaints.as_mut() {
            let _ = timeout(LAST_WORDS, complaints).await;
        }
        Ok(status)
    }

    #[cfg(unix)]
    fn process(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()?).ok()?)
    }

    /// Ends the group, unless the process was collected: its number may be another's by now.
    fn end_group(&self) {
        #[cfg(target_os = "linux")]
        if let Some(group) = &self.group {
            group.kill();
        }
        #[cfg(unix)]
        if let Some(process) = self.process() {
            // Nothing left to end is what we want.
            let _ = rustix::process::kill_process_group(process, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end_group();
        if let Some(complaints) = &self.complaints {
            complaints.abort();
        }
        // Still there, unless it was waited for.
        #[cfg(unix)]
        if let Some(process) = self.process() {
            end_strays(Some(process));
        }
        // Removing a group waits for its processes, which are ending.
        #[cfg(target_os = "linux")]
        if let (Some(group), Ok(runtime)) = (self.group.take(), tokio::runtime::Handle::try_current()) {
            drop(runtime.spawn_blocking(|| drop(group)));
        }
    }
}

/// Ends what a program has left behind outside its group, without holding anybody up.
#[cfg(unix)]
fn end_strays(program: Option<Pid>) {
    #[cfg(target_os = "linux")]
    {
        let end = move || {
            if let Some(program) = program {
                strays::forget(program);
            }
            strays::end_all();
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(end)),
            Err(_) => end(),
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = program;
}

/// The input and who calls, for programs that want both.
fn envelope(input: Value, context: &Context) -> Value {
    let caller =
        context.caller().map(|caller| json!({ "account": caller.account.to_checksum(None), "isBound": caller.is_bound }));
    json!({ "input": input, "caller": caller, "slug": context.slug(), "tool": context.tool().map(|tool| tool.to_string()) })
}

/// Writes the input. A program that does not read it may have its reasons.
async fn give(stdin: Option<ChildStdin>, text: String) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(text.as_bytes()).await;
        let _ = stdin.shutdown().await;
    }
}

/// Reads everything, or stops at the limit.
async fn capped(from: impl AsyncRead + Unpin) -> Result<Vec<u8>, ToolError> {
    let mut bytes = Vec::new();
    from.take(MAX_OUTPUT_BYTES as u64 + 1).read_to_end(&mut bytes).await?;
    if bytes.len() > MAX_OUTPUT_BYTES {
        return Err(ToolError::internal(format!("the output has more than {MAX_OUTPUT_BYTES} bytes")));
    }
    Ok(bytes)
}

/// Shows what a program says on its stderr, line by line, escaped, up to the limit. The rest is read and forgotten, so that the
/// program is not held up by it.
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
            say(&slug, "… and more, which is not shown".as_bytes());
            line.clear();
        }
    }
    if !line.is_empty() {
        say(&slug, &line);
    }
}

fn say(slug: &str, line: &[u8]) {
    let text = String::from_utf8_lossy(line);
    // Nobody may be listening.
    let _ = writeln!(std::io::stderr().lock(), "{slug}: {}", shown(text.trim_end_matches('\r')));
}

/// The program that would be run: a path as it is, a name as PATH finds it.
fn find(program: &Path) -> Option<PathBuf> {
    let is_program = |path: &Path| path.is_file();
    if program.components().count() > 1 || program.is_absolute() {
        // Absolute, since a relative path means another file after a change of folder.
        return std::path::absolute(program).ok().filter(|path| is_program(path));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| is_program(path))
}
