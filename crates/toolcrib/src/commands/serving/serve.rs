//! `serve`: gates tools with an upstream server or a program as backend.

use std::ffi::OsString;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolcrib_core::codes;
use toolcrib_gate::{CALL_TIME, InternalError, Rate, Rates, Server, SetupErrors, Tls, Tool, Tools};
use zeroize::Zeroizing;

use super::behind::{Behind, DEFAULT_AT_ONCE, MAX_AT_ONCE, Program, ProgramSettings, Upstream};
use super::gating::Gating;
use super::keeping::Keeping;
use super::manifests::{self, Loaded, check_names, value_for};
use super::telling::NotifyArgs;
use super::{TlsArgs, header_name};
use crate::env;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};
use crate::secrets;

/// Longest time limit of a call, in seconds. Clients do not wait longer, and shutdown waits for every call.
const MAX_SECONDS: u64 = 600;

/// Size of a burst, in seconds at the configured rate: a web page may send several calls at once.
const BURST_SECONDS: f64 = 5.0;

/// Most characters of an error that are logged.
const MAX_FAULT_CHARS: usize = 500;

/// Longest run of letters and digits that is logged. Payments, signatures and keys are longer; addresses and hashes, with their `0x`, are
/// not.
const MAX_WORD: usize = 66;

/// Arguments of `serve`.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Manifests of tools on one origin
    #[arg(value_name = "MANIFEST", required = true)]
    pub(crate) manifests: Vec<PathBuf>,
    /// Forward calls to this server [env: `TOOLCRIB_UPSTREAM`]
    ///
    /// With several manifests, write SLUG=URL.
    #[arg(long, value_name = "[SLUG=]URL")]
    pub(crate) upstream: Vec<String>,
    /// Run this program per call: input on stdin, output on stdout, no shell
    #[arg(long, value_name = "PROGRAM", conflicts_with = "upstream")]
    pub(crate) command: Option<PathBuf>,
    /// Argument of the program; repeatable
    #[arg(long = "arg", value_name = "ARGUMENT", requires = "command", allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
    /// Environment variable to pass besides PATH, HOME and LANG; repeatable
    #[arg(long, value_name = "NAME", requires = "command")]
    pub(crate) pass_env: Vec<String>,
    /// Pass an object with `input`, `caller`, `slug` and `tool`
    #[arg(long, requires = "command")]
    pub(crate) envelope: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// How tools are served, whatever does their work.
#[derive(Args, Debug)]
pub(crate) struct ServerArgs {
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8402")]
    pub(crate) listen: SocketAddr,
    /// Public origin [default: that of the first manifest's endpoint]
    #[arg(long, value_name = "URL")]
    pub(crate) origin: Option<String>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    /// Timeout of a call in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = CALL_TIME.as_secs(), value_parser = clap::value_parser!(u64).range(1..=MAX_SECONDS))]
    pub(crate) time: u64,
    /// Maximum concurrent calls per tool
    #[arg(long, value_name = "N", default_value_t = DEFAULT_AT_ONCE, value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_AT_ONCE)))]
    pub(crate) at_once: u16,
    #[command(flatten)]
    pub(crate) gating: Gating,
    #[command(flatten)]
    pub(crate) keeping: Keeping,
    #[command(flatten)]
    pub(crate) often: RateArgs,
    #[command(flatten)]
    pub(crate) telling: NotifyArgs,
}

/// How often who may call.
#[derive(Args, Clone, Debug)]
pub(crate) struct RateArgs {
    /// Rate limit: calls per second, all callers
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<f64>,
    /// Rate limit: calls per second and client address
    #[arg(long, value_name = "RATE")]
    pub(crate) rate_address: Option<f64>,
    /// Rate limit: calls per second and account
    #[arg(long, value_name = "RATE")]
    pub(crate) rate_account: Option<f64>,
    /// Do not rate limit by address: all calls come through a proxy
    #[arg(long, conflicts_with = "rate_address")]
    pub(crate) behind_proxy: bool,
    /// Header with the client address, set by your proxy
    ///
    /// Use it only if every request comes through the proxy.
    #[arg(long, value_name = "NAME", conflicts_with = "behind_proxy")]
    pub(crate) address_header: Option<String>,
}

/// Serves until Ctrl-C or SIGTERM.
pub(crate) async fn run(arguments: &Serve, printer: &mut Printer) -> Result<Done, Stop> {
    let loaded = manifests::load(&arguments.manifests, printer)?;
    check_names("--upstream", &arguments.upstream, &loaded)?;
    let behind = |tool: &Loaded| arguments.behind(tool);
    serve_tools(&arguments.server, loaded, &behind, printer).await
}

/// Serves tools until Ctrl-C or SIGTERM. `behind` gives the backend of each.
pub(crate) async fn serve_tools(
    arguments: &ServerArgs,
    loaded: Vec<Loaded>,
    behind: &(dyn Fn(&Loaded) -> Result<Behind, Failure> + Sync),
    printer: &mut Printer,
) -> Result<Done, Stop> {
    #[cfg(target_os = "linux")]
    crate::descriptors::prepare(printer)?;
    arguments.gating.check(&loaded)?;
    let rates = arguments.often.rates()?;
    let tls = arguments.tls.load()?;
    let origin = arguments.origin.clone().or_else(|| Some(loaded.first()?.manifest.value().endpoint().origin().to_string()));
    let origin = origin.unwrap_or_default();
    let mut tools = arguments.telling.usage(Tools::new(&origin).rates(rates).on_fault(log))?;
    if let Some(name) = &arguments.often.address_header {
        tools = tools.address_header(header_name(name)?);
    }
    if let Some(secret) = secrets::var(env::TOOLCRIB_SIGN_IN_KEY) {
        tools = tools.sign_in_key(Zeroizing::new(secret).as_bytes());
    }
    let behind = loaded.iter().map(|tool| if arguments.gating.closed { Ok(Behind::nobody()) } else { behind(tool) });
    let behind = behind.collect::<Result<Vec<_>, _>>()?;
    let gates = arguments.gating.decide(&loaded, false, printer).await?;
    let mut lines = Vec::new();
    for ((tool, behind), decided) in loaded.into_iter().zip(behind).zip(gates) {
        let endpoint = tool.manifest.value().endpoint().to_string();
        lines.push((tool.slug.as_str().to_owned(), endpoint, decided.described, behind.described()));
        let served = Tool::new(tool.manifest).bytes(tool.bytes).slug(tool.slug.as_str()).gate(decided.gate);
        let handler = move |input: Value, context| behind.clone().call(input, context);
        tools = tools.tool(served.time_limit(Duration::from_secs(arguments.time)).handler(handler));
    }
    let (store, store_name) = arguments.keeping.open().await?;
    let server = tools.shared_store(store).build().map_err(|errors| unusable(&errors))?;
    for discord in server.check().await {
        printer.note(&format!("warning[{}]: {}", discord.code(), shown(&discord.to_string())))?;
    }
    let listener = TcpListener::bind(arguments.listen).await;
    let listener = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) =
        listener.map_err(|error| Failure::new(codes::cli::LISTEN, format!("cannot listen at {}: {error}", arguments.listen)))?;
    let counters = arguments.telling.metrics(&server).await?;
    announce(&origin, address, &lines, &store_name, tls.is_some(), printer)?;
    if let Some(counters) = counters {
        printer.note(&format!("metrics at http://{counters}/metrics"))?;
    }
    serve(server, listener, tls).await?;
    Ok(Done::new(Exit::Yes, json!({ "served": true, "address": address.to_string(), "origin": origin })))
}

impl ServerArgs {
    /// Refuses secrets in file descriptors if programs are started: a program inherits descriptors that were opened for this process, and
    /// could read the key.
    pub(crate) fn check_descriptors(&self) -> Result<(), Failure> {
        let signing = &self.gating.paying.signing;
        if signing.key_fd.or(signing.password_fd).or(signing.mnemonic_fd).is_none() {
            return Ok(());
        }
        let what = "the program would inherit the file descriptor of the secret";
        Err(Failure::new(codes::cli::USAGE, what)
            .hint("use a wallet of the keystore with TOOLCRIB_PASSWORD, or TOOLCRIB_PRIVATE_KEY"))
    }
}

impl Serve {
    /// The backend of one tool.
    fn behind(&self, tool: &Loaded) -> Result<Behind, Failure> {
        let (time, at_once) = (Duration::from_secs(self.server.time), self.server.at_once);
        if let Some(program) = &self.command {
            self.server.check_descriptors()?;
            let settings =
                ProgramSettings { program, arguments: &self.arguments, pass_env: &self.pass_env, envelope: self.envelope };
            return Ok(Behind::program(Program::new(&settings)?, at_once));
        }
        let from_environment = secrets::var(env::TOOLCRIB_UPSTREAM);
        let setting = value_for(&self.upstream, &tool.slug).or(from_environment.as_deref()).ok_or_else(|| {
            Failure::new(codes::cli::USAGE, format!("{} has no upstream or program", tool.slug))
                .hint("give --upstream URL or --command PROGRAM")
        })?;
        Ok(Behind::upstream(Upstream::new(setting, time, at_once.into())?, at_once))
    }
}

impl RateArgs {
    fn rates(&self) -> Result<Rates, Failure> {
        let mut rates = Rates::default();
        if let Some(rate) = self.rate {
            rates.global = parse("--rate", rate)?;
        }
        if let Some(rate) = self.rate_address {
            rates.per_address = Some(parse("--rate-address", rate)?);
        }
        if self.behind_proxy {
            rates.per_address = None;
        }
        if let Some(rate) = self.rate_account {
            rates.per_account = parse("--rate-account", rate)?;
        }
        Ok(rates)
    }
}

fn parse(option: &str, rate: f64) -> Result<Rate, Failure> {
    if !rate.is_finite() || rate <= 0.0 || rate > f64::from(u16::MAX) * 16.0 {
        return Err(Failure::new(codes::cli::USAGE, format!("{option} is {rate}, expected a number above 0")));
    }
    let burst = (rate * BURST_SECONDS).ceil().max(1.0);
    // The check above ensures the range.
    let burst = u32::try_from(burst as i64).unwrap_or(u32::MAX);
    Ok(Rate::new(burst, rate))
}

/// Converts errors of building a server.
pub(super) fn unusable(errors: &SetupErrors) -> Failure {
    let code = errors.0.first().map_or(codes::cli::USAGE, toolcrib_gate::SetupError::code);
    Failure::new(code, errors.to_string())
}

fn announce(
    origin: &str,
    address: SocketAddr,
    lines: &[(String, String, String, String)],
    store: &str,
    is_tls: bool,
    printer: &mut Printer,
) -> Result<(), Stop> {
    let scheme = if is_tls { "https" } else { "http" };
    printer.result(&format!("serving {} at {scheme}://{address}\n", shown(origin)))?;
    for (slug, endpoint, gate, behind) in lines {
        printer.result(&format!("{slug}  {}  {}  {}\n", shown(endpoint), shown(gate), shown(behind)))?;
    }
    let tools: Vec<_> = lines
        .iter()
        .map(|(slug, endpoint, gate, behind)| json!({ "slug": slug, "endpoint": endpoint, "gate": gate, "behind": behind }))
        .collect();
    let event = json!({ "event": "listening", "address": address.to_string(), "origin": origin, "tls": is_tls, "tools": tools, "store": store });
    printer.event(&event)?;
    printer.flush()?;
    printer.note(&format!("replay store: {}; all servers of these tools must share it", shown(store)))?;
    if !is_tls {
        printer.note("note: serving plain HTTP; callers need a TLS proxy for the origin")?;
    }
    Ok(printer.note("press Ctrl-C to stop")?)
}

/// Serves until stopped, then waits for running calls.
async fn serve(server: Server, listener: TcpListener, tls: Option<Tls>) -> Result<(), Failure> {
    let served = match tls {
        Some(tls) => server.serve_tls(listener, tls, stopped()).await,
        None => server.serve(listener, stopped()).await,
    };
    served.map_err(|error| Failure::new(codes::cli::LISTEN, format!("serving ended: {error}")))
}

/// Returns at the next Ctrl-C or SIGTERM.
pub(crate) async fn stopped() {
    let interrupted = async {
        if tokio::signal::ctrl_c().await.is_err() {
            // If Ctrl-C cannot be caught, it ends the process.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = interrupted => {}
        () = terminated() => {}
    }
}

#[cfg(unix)]
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};

    let heard = match signal(SignalKind::terminate()) {
        Ok(mut terminated) => terminated.recv().await,
        Err(_) => None,
    };
    if heard.is_none() {
        std::future::pending().await
    }
}

#[cfg(not(unix))]
async fn terminated() {
    std::future::pending().await
}

/// Logs one line per error.
fn log(fault: &InternalError<'_>) {
    let detail: String = redacted(fault.detail).chars().take(MAX_FAULT_CHARS).collect();
    // Stderr may be closed.
    let _ = writeln!(std::io::stderr().lock(), "fault {} {}: {}", fault.slug, fault.code, shown(&detail));
}

/// Removes words that are as long as a payment, a signature or a key.
fn redacted(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '-' | '_');
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let is_key = word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        if word.len() > MAX_WORD || is_key {
            out += &format!("({} characters)", word.len());
        } else {
            out += word;
        }
        let end = after.find(is_part).unwrap_or(after.len());
        let (between, after) = after.split_at(end);
        out += between;
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_not_logged() {
        let hash = format!("0x{}", "ab".repeat(32));
        let signature = format!("0x{}", "cd".repeat(65));
        assert_eq!(redacted(&format!("in {hash}: {signature}!")), format!("in {hash}: (132 characters)!"));
        assert_eq!(redacted(&"ab".repeat(32)), "(64 characters)");
        assert_eq!(redacted("eyJ4NDAy".repeat(20).as_str()), "(160 characters)");
        assert_eq!(redacted("é, a plain\u{1b} text"), "é, a plain\u{1b} text");
        assert_eq!(redacted(""), "");
    }
}
