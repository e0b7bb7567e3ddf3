//! Changes TXT records with a user's command, such as the client of a DNS provider.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use alloy_primitives::Bytes;
use async_trait::async_trait;
use futures_util::future::join3;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use toolcrib_core::codes;
use toolcrib_process::{Limits, ProgramSpec, Running, SandboxMode, spawn};

use super::{RecordChange, TxtWriter, WriteError, Written, read_back};
use crate::evidence::TxtLookup;
use crate::source::TxtSource;

/// Default time limit of a command. APIs of DNS providers take seconds.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of bytes read from each output stream. A command that writes more is stopped.
pub const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// Maximum number of characters shown of the output.
const MAX_SHOWN_CHARS: usize = 400;

/// Time for a command to exit by itself after its time limit.
const GRACE: Duration = Duration::from_secs(2);

/// Environment variables that are passed to the command: those for paths, locale and certificates. Keys, node URLs and
/// passwords of this process are in other variables.
const PASSED_VARIABLES: [&str; 11] =
    ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CONFIG_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/// The command and its limits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CommandSettings {
    /// The program, as an absolute path, or a name to find in `PATH`. No shell is used.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Names of further environment variables to pass, such as those with a DNS provider's key.
    pub variables: Vec<String>,
    /// Time limit of the command.
    pub timeout: Duration,
    /// How long the change may take to become visible, if there is a source to read it from.
    pub visible_within: Duration,
}

impl CommandSettings {
    /// Settings for a program with arguments. `None` if there is no program.
    pub fn from_arguments(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Option<Self> {
        let mut arguments = arguments.into_iter().map(Into::into);
        let program = PathBuf::from(arguments.next().filter(|program| !program.is_empty())?);
        let arguments = arguments.collect();
        Some(Self {
            program,
            arguments,
            variables: Vec::new(),
            timeout: COMMAND_TIMEOUT,
            visible_within: Duration::from_secs(30),
        })
    }
}

/// Passes changes to a command as one line of JSON on its standard input:
/// `{"domain":"exampleagent.agt","remove":[{"text":"…","hex":"0x…"}],"add":[…]}`. Exit status 0 means that the change was made.
pub struct CommandWriter {
    name: String,
    settings: CommandSettings,
    read_back: Option<Box<dyn TxtSource>>,
}

impl CommandWriter {
    /// A writer that runs a command, and reads the records from `read_back` afterwards.
    pub fn new(settings: CommandSettings, read_back: Option<Box<dyn TxtSource>>) -> Self {
        // Arguments may contain a key; the program does not.
        Self { name: format!("command:{}", settings.program.display()), settings, read_back }
    }

    async fn run(&self, change: &RecordChange) -> Result<(), WriteError> {
        let mut spec = ProgramSpec::new(self.program()?);
        spec.arguments.clone_from(&self.settings.arguments);
        spec.environment = PASSED_VARIABLES
            .into_iter()
            .chain(self.settings.variables.iter().map(String::as_str))
            .filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
            .collect();
        // The user chose the command, so it runs with the user's permissions.
        spec.sandbox = SandboxMode::Off;
        spec.limits = Limits::UNLIMITED;
        let mut running = spawn(&spec, None).map_err(|error| failed(error.to_string()))?;
        let input = json(change);
        match timeout(self.settings.timeout, talk(&mut running, input)).await {
            Ok(result) => result,
            Err(_) => {
                // Its later output does not matter.
                let _ = running.terminate(GRACE).await;
                Err(failed(format!("the command took longer than {} s", self.settings.timeout.as_secs())))
            }
        }
    }

    fn program(&self) -> Result<PathBuf, WriteError> {
        let program = &self.settings.program;
        if program.is_absolute() {
            return Ok(program.clone());
        }
        if program.components().count() > 1 {
            return std::path::absolute(program).map_err(|error| failed(error.to_string()));
        }
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(program))
            .find(|path| path.is_file())
            .ok_or_else(|| failed(format!("there is no program {} in PATH", program.display())))
    }
}

#[async_trait]
impl TxtWriter for CommandWriter {
    fn name(&self) -> &str {
        &self.name
    }

    async fn write(&self, change: &RecordChange) -> Result<Written, WriteError> {
        // Without a source the existing records are unknown; then the change is checked only against itself.
        let existing = match &self.read_back {
            Some(source) => match source.lookup(&change.domain).await.outcome {
                TxtLookup::Records(records) => records,
                TxtLookup::NoRecords | TxtLookup::NotFound => Vec::new(),
                TxtLookup::Failed { message, .. } => {
                    return Err(WriteError::new(codes::agent::TXT_WRITE_PLAN, format!("the records cannot be read: {message}")));
                }
            },
            None => change.remove.clone(),
        };
        change.applied_to(&existing)?;
        self.run(change).await?;
        let read_back = match &self.read_back {
            Some(source) => Some(read_back(&**source, change, self.settings.visible_within).await?),
            None => None,
        };
        Ok(Written { read_back })
    }
}

impl fmt::Debug for CommandWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CommandWriter").field(&self.name).finish()
    }
}

async fn talk(running: &mut Running, input: String) -> Result<(), WriteError> {
    let (stdin, stdout, stderr) = (running.stdin.take(), running.stdout.take(), running.stderr.take());
    let write = async move {
        if let Some(mut stdin) = stdin {
            // A command may ignore its input, if its arguments are sufficient.
            let _ = stdin.write_all(input.as_bytes()).await;
            let _ = stdin.shutdown().await;
        }
    };
    let ((), output, errors) = join3(write, read(stdout), read(stderr)).await;
    let (Some(output), Some(errors)) = (output, errors) else {
        let _ = running.terminate(GRACE).await;
        return Err(failed(format!("the command wrote more than {MAX_OUTPUT_BYTES} bytes")));
    };
    let ended = running.wait().await.map_err(|error| failed(error.to_string()))?;
    if ended.status.success() {
        return Ok(());
    }
    let said = if errors.trim_ascii().is_empty() { output } else { errors };
    let said: String = String::from_utf8_lossy(&said).trim().chars().take(MAX_SHOWN_CHARS).collect();
    Err(failed(format!("{}: {said}", ended.status)))
}

/// Reads a stream to its end; `None` if it exceeds the limit.
async fn read(stream: Option<impl AsyncRead + Unpin>) -> Option<Vec<u8>> {
    let Some(stream) = stream else { return Some(Vec::new()) };
    let mut bytes = Vec::new();
    // A broken stream counts as ended.
    let _ = stream.take(MAX_OUTPUT_BYTES as u64 + 1).read_to_end(&mut bytes).await;
    (bytes.len() <= MAX_OUTPUT_BYTES).then_some(bytes)
}

fn json(change: &RecordChange) -> String {
    let record = |bytes: &Bytes| {
        let mut fields = serde_json::Map::new();
        if let Ok(text) = std::str::from_utf8(bytes) {
            fields.insert("text".to_owned(), text.into());
        }
        fields.insert("hex".to_owned(), bytes.to_string().into());
        serde_json::Value::Object(fields)
    };
    let list = |records: &[Bytes]| serde_json::Value::Array(records.iter().map(record).collect());
    let value = serde_json::json!({ "domain": change.domain.as_str(), "remove": list(&change.remove), "add": list(&change.add) });
    format!("{value}\n")
}

fn failed(message: impl AsRef<str>) -> WriteError {
    WriteError::new(codes::agent::TXT_COMMAND_FAILED, message)
}
