//! `watch`: verifies tools periodically and reports changes.
//!
//! The last observation is in a state file, so changes are noticed even if they happen while `watch` is not running. The file is written
//! after a change was printed and the webhook notified, so that an undelivered change is found again.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use alloy_primitives::B256;
use clap::Args;
use serde_json::{Value, json};
use toolcrib_core::clock::Clock;
use toolcrib_core::codes;
use toolcrib_core::finding::Severity;
use toolcrib_core::time::format_rfc3339;
use toolcrib_fetch::SystemClock;
use toolcrib_files::AtomicFile;
use toolcrib_judge::Policy;
use toolcrib_judge::drift::{Change, Verdict};
use toolcrib_verify::watch::{Comparison, Look, Looked, Memory, Watcher};
use toolcrib_verify::{Onchain, ToolSource};

use super::webhook::Webhook;
use super::{EgressArgs, verifier, verify};
use crate::env;
use crate::onchain::{OnChain, failed, state_dir};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Paint, Printer, shown};
use crate::secrets;

/// Version of the events and of webhook bodies. It changes when the meaning of a field changes or a field is removed.
const EVENT_VERSION: u32 = 1;

/// Most tools that are watched at once. Each sends a few requests per minute to the node.
const MAX_TOOLS: usize = 256;

/// Shortest interval. Onchain changes are seen sooner anyway.
const MIN_INTERVAL: u64 = 5;

/// Largest state file. A tool takes about two kilobytes, a few times that with long addresses and price lists.
const MAX_STATE_BYTES: u64 = 16 << 20;

/// Arguments of `watch`.
#[derive(Args, Debug)]
pub(crate) struct Watch {
    /// Tools: references, or ids with --network [see `help references`]
    #[arg(value_name = "TOOL", required = true, num_args = 1..)]
    pub(crate) tools: Vec<String>,
    /// Seconds between verifications, at least 5
    ///
    /// Changes announced by the chain are verified without waiting.
    #[arg(long, value_name = "SECONDS", default_value_t = toolcrib_judge::DEFAULT_WINDOW,
        value_parser = clap::value_parser!(u64).range(MIN_INTERVAL..=86_400))]
    pub(crate) interval: u64,
    /// Verify once and report changes since the last run
    #[arg(long, conflicts_with = "until_drift")]
    pub(crate) once: bool,
    /// Stop at the first drift, with exit code 1
    #[arg(long)]
    pub(crate) until_drift: bool,
    /// State file [default: `watch.json` in the state folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// POST drift as JSON to this URL [env: `TOOLCRIB_WEBHOOK`]
    ///
    /// https, or http on this machine.
    #[arg(long, value_name = "URL")]
    pub(crate) webhook: Option<String>,
    /// Report drift unless the registered manifest hash is this one; one tool
    #[arg(long, value_name = "0x…")]
    pub(crate) pin: Option<B256>,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) reach: EgressArgs,
}

/// Watches.
pub(crate) async fn run(arguments: &Watch, printer: &mut Printer) -> Result<Done, Stop> {
    let mut post = Post::new(arguments)?;
    let memory = load(&post.path)?;
    let mut sources: Vec<Onchain> = Vec::with_capacity(arguments.tools.len());
    for tool in &arguments.tools {
        let (registry, id) = arguments.onchain.connect_for(tool, printer).await?;
        let source = Onchain::new(registry, id);
        if sources.iter().all(|other| other.tool() != source.tool()) {
            sources.push(source);
        }
    }
    let mut policy = Policy::default();
    policy.pinned_manifest = arguments.pin;
    let interval = Duration::from_secs(arguments.interval);
    let mut watcher = Watcher::new(verifier(&arguments.reach)?, policy, sources, memory, interval);

    let looks = watcher.all().await;
    let mut round = post.round(looks, &mut watcher, printer).await?;
    if arguments.once {
        return Ok(Done::new(round.exit, json!({ "tools": round.tools })));
    }
    let mut drifts = round.drifts;
    let stop = stopped();
    let mut stop = std::pin::pin!(stop);
    while !(arguments.until_drift && drifts > 0) {
        let looks = tokio::select! {
            looks = watcher.next() => looks,
            () = &mut stop => break,
        };
        round = post.round(looks, &mut watcher, printer).await?;
        drifts += round.drifts;
    }
    let exit = if drifts > 0 { Exit::No } else { Exit::Yes };
    Ok(Done::new(exit, json!({ "drifts": drifts })))
}

/// Returns at Ctrl-C or SIGTERM.
async fn stopped() {
    #[cfg(unix)]
    if let Ok(mut term) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = term.recv() => {}
        }
        return;
    }
    // If Ctrl-C cannot be caught, it ends the process.
    drop(tokio::signal::ctrl_c().await);
}

/// Where changes are reported.
struct Post {
    path: PathBuf,
    webhook: Option<Webhook>,
    /// Whether this is a single verification, whose result is one envelope.
    once: bool,
}

/// The result of one round of verifications.
struct Round {
    exit: Exit,
    drifts: usize,
    tools: Vec<Value>,
}

impl Post {
    fn new(arguments: &Watch) -> Result<Self, Failure> {
        if arguments.tools.len() > MAX_TOOLS {
            return Err(usage(
                &format!("at most {MAX_TOOLS} tools can be watched by one command"),
                "start a second command for the rest",
            ));
        }
        if arguments.pin.is_some() && arguments.tools.len() > 1 {
            return Err(usage("--pin is the hash of one manifest", "watch one tool, or omit it"));
        }
        let setting = arguments.webhook.clone().or_else(|| secrets::var(env::TOOLCRIB_WEBHOOK));
        let path = match &arguments.state {
            Some(path) => path.clone(),
            None => state_dir()?.join("watch.json"),
        };
        Ok(Self { path, webhook: setting.as_deref().map(Webhook::new).transpose()?, once: arguments.once })
    }

    /// Prints the changes, notifies the webhook, and saves the state.
    async fn round(&mut self, looks: Vec<Look>, watcher: &mut Watcher<Onchain>, printer: &mut Printer) -> Result<Round, Stop> {
        let mut round = Round { exit: Exit::Yes, drifts: 0, tools: Vec::with_capacity(looks.len()) };
        let before = watcher.memory().clone();
        for Look { tool, outcome } in looks {
            let tool = tool.to_string();
            let looked = match outcome {
                Ok(looked) => looked,
                Err(error) => {
                    round.exit = Exit::CouldNotTell;
                    let failure = failed(error);
                    let event = event("could_not_tell", &tool, &json!({ "code": failure.code.id(), "message": failure.message }));
                    self.say(&event, "", printer)?;
                    self.complain(&failure, printer)?;
                    round.tools.push(event);
                    continue;
                }
            };
            let exit = exit_of(&looked);
            let drifts = looked.drift().count();
            let kind = match (drifts, exit) {
                (1.., _) => "drift",
                (0, Exit::CouldNotTell) => "could_not_tell",
                _ if looked.seen == Comparison::First => "first",
                _ if looked.changes().next().is_some() => "change",
                _ => "same",
            };
            let event = event(kind, &tool, &details(&looked));
            let is_news = self.once || !matches!(looked.seen, Comparison::Same | Comparison::Older) || kind == "drift";
            if is_news {
                self.say(&event, &text(&tool, &looked, printer.paint()), printer)?;
            } else if kind == "could_not_tell" {
                // In the human format, it goes to stderr.
                self.say(&event, "", printer)?;
            }
            if exit == Exit::CouldNotTell {
                self.complain(&reason(&looked), printer)?;
            }
            let mut is_told = true;
            if let (Some(webhook), 1..) = (&self.webhook, drifts)
                && let Err(failure) = webhook.tell(&event).await
            {
                is_told = false;
                self.warn(&failure, printer)?;
            }
            if is_told {
                watcher.keep(looked);
            }
            round.exit = round.exit.max(exit);
            round.drifts += drifts;
            round.tools.push(event);
        }
        if *watcher.memory() != before {
            save(&self.path, watcher.memory())?;
        }
        Ok(round)
    }

    fn say(&self, event: &Value, text: &str, printer: &mut Printer) -> Result<(), Stop> {
        printer.result(text)?;
        if !self.once {
            printer.event(event)?;
        }
        Ok(printer.flush()?)
    }

    /// Reports an error. With `--once` it is an error of the command; in a stream of events it is a warning, since watching continues.
    fn complain(&self, failure: &Failure, printer: &mut Printer) -> Result<(), Stop> {
        if self.once {
            return Ok(printer.failure(failure)?);
        }
        self.warn(failure, printer)
    }

    fn warn(&self, failure: &Failure, printer: &mut Printer) -> Result<(), Stop> {
        if self.once {
            printer.warn_in_envelope(failure);
        }
        let label = printer.paint_err().warning(&format!("warning[{}]", failure.code));
        Ok(printer.complaint(&format!("{label}: {}\n", shown(&failure.message)))?)
    }
}

/// Yes: verified and unchanged. No: changed, or not verified. Otherwise: could not tell.
fn exit_of(looked: &Looked) -> Exit {
    match (&looked.snapshot.verdict, &looked.seen) {
        _ if looked.drift().next().is_some() => Exit::No,
        (Verdict::Failed { .. }, _) => Exit::No,
        (Verdict::Unknown, _) | (_, Comparison::Older) => Exit::CouldNotTell,
        (Verdict::Verified, _) if looked.report.pinned == Some(false) => Exit::No,
        (Verdict::Verified, _) => Exit::Yes,
    }
}

fn reason(looked: &Looked) -> Failure {
    if looked.seen == Comparison::Older {
        let code = codes::drift::OLDER_BLOCK;
        return Failure::new(code, code.title());
    }
    verify::unclear(&looked.report)
}

fn event(kind: &str, tool: &str, details: &Value) -> Value {
    let at = format_rfc3339(SystemClock.now());
    let mut event = json!({ "schema_version": EVENT_VERSION, "event": kind, "at": at, "tool": tool });
    if let (Value::Object(event), Value::Object(details)) = (&mut event, details) {
        event.extend(details.clone());
    }
    event
}

fn details(looked: &Looked) -> Value {
    let changes: Vec<_> = looked
        .changes()
        .map(|change| {
            let Change { code, severity, before, after } = change;
            json!({ "code": code.id(), "severity": severity, "title": code.title(), "before": before, "after": after })
        })
        .collect();
    json!({
        "verdict": looked.report.verdict,
        "failed": looked.report.failed,
        "pinned": looked.report.pinned,
        "block": looked.snapshot.block,
        "changes": changes,
    })
}

/// One line per change, or one that says that there is none.
fn text(tool: &str, looked: &Looked, paint: Paint) -> String {
    let mut out = String::new();
    for change in looked.changes() {
        let label = format!("{}[{}]", change.severity, change.code);
        let label = match change.severity {
            Severity::Error => paint.error(&label),
            Severity::Warning => paint.warning(&label),
            Severity::Hint => paint.hint(&label),
        };
        let (before, after) = (shown(&change.before), shown(&change.after));
        out += &format!("{tool}  {label}: {}: {before} -> {after}\n", change.code.title());
    }
    if out.is_empty() {
        let state = match (&looked.snapshot.verdict, &looked.seen) {
            (_, Comparison::Older) => "the node lags behind".to_owned(),
            (verdict, Comparison::First) => format!("{}, seen for the first time", word(verdict)),
            (verdict, _) => format!("{}, nothing changed", word(verdict)),
        };
        out = format!("{tool}  {state}\n");
    }
    out
}

fn word(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Unknown => "could not tell".to_owned(),
        Verdict::Verified => "verified".to_owned(),
        Verdict::Failed { .. } => format!("not verified ({})", shown(&verdict.to_string())),
    }
}

/// Reads the state. A missing file is an empty state; a damaged one is an error.
fn load(path: &Path) -> Result<Memory, Failure> {
    let name = path.display();
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(MAX_STATE_BYTES + 1).read_to_end(&mut bytes)) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Memory::default()),
        Err(error) => return Err(Failure::new(codes::cli::UNREADABLE, format!("cannot read {name}: {error}"))),
    }
    if bytes.len() as u64 > MAX_STATE_BYTES {
        return Err(Failure::new(codes::cli::STATE, format!("{name} is too large for a state file")));
    }
    Memory::from_json(&bytes).map_err(|fault| Failure::new(codes::cli::STATE, format!("{name} is not a state file: {fault}")))
}

/// Writes the state atomically.
fn save(path: &Path, memory: &Memory) -> Result<(), Failure> {
    let unwritable =
        |error: &dyn std::fmt::Display| Failure::new(codes::cli::UNWRITABLE, format!("cannot write {}: {error}", path.display()));
    let text = memory.to_json().map_err(|error| unwritable(&error))?;
    let write = || {
        if let Some(folder) = path.parent().filter(|folder| *folder != Path::new("")) {
            fs::create_dir_all(folder)?;
        }
        AtomicFile::new(path).shared().replace(text.as_bytes())
    };
    write().map_err(|error| unwritable(&error))
}

fn usage(what: &str, hint: &str) -> Failure {
    Failure::new(codes::cli::USAGE, what).hint(hint)
}
