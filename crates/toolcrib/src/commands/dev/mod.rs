//! `dev` and `chain dev`: a local development environment.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use toolcrib_chain::network::LOCAL_CHAIN_ID;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::wallet::{LocalWallet, Wallet};
use toolcrib_core::clock::Clock as _;
use toolcrib_core::codes;
use toolcrib_devchain::{Authority, AuthorityError};
use toolcrib_directory::keys::Keys;
use toolcrib_directory::{DirectoryServer, Options, Rate, ServerConfig};
use toolcrib_fetch::SystemClock;
use toolcrib_gate::{ConfiguredUrl, Gate, LocalSettlement, Origins, Server, Tls, Tools, Usage};
use toolcrib_index::Index;
use toolcrib_index::work::WorkOptions;
use toolcrib_store::replay::{MemoryReplay, ReplayStore};

use self::chain::{ChainArguments, Interrupts, World, ready, wait};
use self::samples::{SAMPLES, Sample, SampleAccess};
use self::stage::Registered;
use crate::commands::discovery::StoreArgs;
use crate::commands::hosting::directory;
use crate::commands::hosting::engine::{Engine, EngineArgs, KEEP_CHANGES_DAYS, LogChecks};
use crate::commands::hosting::followed::Following;
use crate::commands::trust::door::{EgressArgs, verifier};
use crate::onchain::{dev_folder, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

pub(crate) mod chain;
mod samples;
mod stage;

/// The account that sends settlements. Its index is far from the accounts that users experiment with.
const SETTLER: u32 = 9;

/// How often certificates are renewed. They are valid for a month.
const RENEW_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// How often the verification queue is polled: short, because a user is waiting.
const LOOK_POLL: Duration = Duration::from_millis(200);

/// Hourly request limit of the key with which the sample tools report usage: more than is ever sent by hand.
const KEY_RATE: u32 = 1_000_000;

/// How long that key is valid, in seconds: longer than a development environment runs.
const KEY_SECONDS: i64 = 365 * 24 * 60 * 60;

/// Most errors of tools that wait to be printed. More are dropped: the terminal is the slowest part.
const MAX_FAULTS: usize = 64;

/// Arguments of `dev`.
#[derive(Args, Debug)]
pub(crate) struct Dev {
    #[command(flatten)]
    pub(crate) chain: ChainArguments,
    /// Port of the sample tools; 0 picks a free one
    #[arg(long, default_value_t = 8443)]
    pub(crate) tools_port: u16,
    /// Port of the directory; 0 picks a free one
    #[arg(long, default_value_t = 8257)]
    pub(crate) directory_port: u16,
}

/// Starts a chain, three tools and a directory, and prints examples to try.
pub(crate) async fn run(arguments: &Dev, printer: &mut Printer) -> Result<Done, Stop> {
    let interrupts = Interrupts::listen();
    let world = World::start(&arguments.chain).await?;
    // Clients resolve names below localhost only for tools of the local chain id, and without a registry there are no tools.
    let has_tools = arguments.chain.chain_id == LOCAL_CHAIN_ID && !arguments.chain.bare;
    let fair = if has_tools { Some(DevServices::set_up(&world, arguments).await?) } else { None };
    world.settle_down();

    let mut data = world.data();
    printer.result(&world.lines())?;
    if let Some(fair) = &fair {
        printer.result(&fair.lines())?;
        data.extend(fair.data());
    }
    printer.flush()?;
    let data = Value::Object(data);
    printer.event(&ready(&data))?;
    match fair {
        Some(fair) => {
            printer.note(&fair.advice(&world))?;
            fair.serve(arguments.chain.exit_after, interrupts, printer).await?;
        }
        None => {
            printer.note("\nno tools: they need chain 31337 and its registry\nPress Ctrl-C to stop.")?;
            wait(arguments.chain.exit_after, interrupts).await;
        }
    }
    world.end()?;
    Ok(Done::new(Exit::Yes, data))
}

/// Everything beside the chain: the tools, the engine of their index, and the directory.
struct DevServices {
    tools: SampleServer,
    engine: Engine,
    server: DirectoryServer,
}

impl DevServices {
    async fn set_up(world: &World, arguments: &Dev) -> Result<Self, Stop> {
        let registry = Registry::of(world.chain.clone()).map_err(failed)?;
        let index = StoreArgs { store: Some("memory".to_owned()), ..StoreArgs::default() }.open().await?;
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.directory_port));
        let chains = [world.chain.clone()].into_iter().collect();
        let unusable = |error: AuthorityError| Failure::new(error.code(), error.to_string());
        let authority = Authority::open(&dev_folder()?, &SystemClock).map_err(unusable)?;
        let reach = EgressArgs { dev_ca: Some(authority.path().to_owned()) };
        let config = ServerConfig { images: Some(reach.open_for_images()?), ..config() };
        let server = directory::open(listen, &index, chains, config).await?;
        let usage = usage(&index, &server).await?;
        let tools = SampleServer::set_up(world, &registry, arguments.tools_port, &usage, authority).await?;
        let following = Following { chain: world.chain.clone(), registry: registry.address(), first_block: 0 };
        let verifier = verifier(&reach)?;
        let work = WorkOptions { poll: LOOK_POLL, ..WorkOptions::default() };
        let doing = EngineArgs { workers: 4, no_follow: false, keep_changes: KEEP_CHANGES_DAYS, checks: LogChecks::default() };
        let engine = Engine::start(&index, &[following], verifier, None, &doing, work);
        Ok(Self { tools, engine, server })
    }

    fn lines(&self) -> String {
        let url = self.server.url();
        format!("{}directory {url}\nmcp {url}/mcp\n", self.tools.lines())
    }

    fn data(&self) -> Vec<(String, Value)> {
        let url = self.server.url();
        let mut data = Vec::from(self.tools.data());
        data.extend([("directory".to_owned(), url.as_str().into()), ("mcp".to_owned(), format!("{url}/mcp").into())]);
        data
    }

    fn advice(&self, world: &World) -> String {
        let (program, url) = (program(), self.server.url());
        let mut text = self.tools.advice(world);
        text += &format!("\nThe directory, in a browser: {url}\n");
        text += &format!("  {program} tools search --query 'how many words' --directory {url}\n");
        text += &format!("  curl '{url}/api/v2/tools/search?query=sunrise'\n");
        text += &format!("MCP server: {url}/mcp\n");
        text + "\nThe keys of the ten accounts are public: never send them anything of value.\nPress Ctrl-C to stop."
    }

    /// Serves until stopped, then waits for running calls and settlements, unless Ctrl-C is pressed again.
    async fn serve(self, seconds: Option<u64>, interrupts: Interrupts, printer: &mut Printer) -> Result<(), Stop> {
        let Self { tools, engine, server } = self;
        let (stop, stopped) = oneshot::channel::<()>();
        let directory = tokio::spawn(server.serve(async move { stopped.await.unwrap_or_default() }));
        let served = tools.serve(seconds, interrupts, printer).await;
        // The tools' last usage reports have arrived by now.
        let _ = stop.send(());
        engine.stop().await;
        let _ = directory.await;
        served
    }
}

/// Nobody but whoever started it asks this directory anything, so it does not count.
fn config() -> ServerConfig {
    let options = Options {
        anonymous_reads: None,
        anonymous_writes: Rate::per_hour(100_000),
        looks_per_origin: Rate::per_hour(100_000),
        title: "Toolcrib (development)".to_owned(),
        ..Options::default()
    };
    ServerConfig { options, ..ServerConfig::default() }
}

/// The name by which this program was started.
fn program() -> String {
    shown(&std::env::args().next().unwrap_or_else(|| "toolcrib".to_owned()))
}

/// The sample tools on their socket.
struct SampleServer {
    authority: Authority,
    tls: Tls,
    listener: TcpListener,
    origins: Origins,
    tools: Vec<(&'static Sample, Registered, String)>,
    faults: mpsc::Receiver<String>,
}

impl SampleServer {
    async fn set_up(world: &World, registry: &Registry, port: u16, usage: &Usage, authority: Authority) -> Result<Self, Stop> {
        let tls = issue(&authority)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let taken = |error: std::io::Error| {
            Failure::new(codes::gate::BIND, format!("the sample tools cannot listen at {address}: {error}"))
                .hint("stop the other program, or choose another port with --tools-port (0 picks a free one)")
        };
        let listener = TcpListener::bind(address).await.map_err(taken)?;
        let port = listener.local_addr().map_err(taken)?.port();

        stage::endow(&world.chain, &world.wallet).await?;
        let (tell, faults) = mpsc::channel(MAX_FAULTS);
        // A store in memory is enough: only the chain outlives this process, and it knows which payments were settled.
        let store: Arc<dyn ReplayStore> = Arc::new(MemoryReplay::default());
        let (mut servers, mut tools) = (Vec::new(), Vec::new());
        for sample in &SAMPLES {
            let registered = stage::register(registry, &world.wallet, sample, port).await?;
            let server = server(sample, &registered, registry, &world.wallet, store.clone(), tell.clone(), usage)?;
            servers.push(server);
            let reference = registry.reference(registered.id).to_string();
            tools.push((sample, registered, reference));
        }
        let origins = Origins::new(servers).map_err(|errors| refused(&errors))?;
        Ok(Self { authority, tls, listener, origins, tools, faults })
    }

    /// One line per tool.
    fn lines(&self) -> String {
        let tools = self.tools.iter().map(|(sample, registered, reference)| {
            format!("tool {reference} {} {}\n", sample.access.word(), registered.manifest.endpoint())
        });
        tools.chain([format!("authority {}\n", shown(&self.authority.path().display().to_string()))]).collect()
    }

    fn data(&self) -> [(String, Value); 2] {
        let tools = self.tools.iter().map(|(sample, registered, reference)| {
            json!({
                "slug": sample.slug,
                "tool": reference,
                "id": registered.id.to_string(),
                "access": sample.access.word(),
                "endpoint": registered.manifest.endpoint().to_string(),
                "manifest": registered.uri,
                "example": sample.example(),
            })
        });
        let authority = self.authority.path().display().to_string();
        [("tools".to_owned(), tools.collect()), ("authority".to_owned(), authority.into())]
    }

    /// Commands to try in another terminal.
    fn advice(&self, world: &World) -> String {
        let (program, url) = (program(), world.devchain.http_url());
        let usual = world.chain.network().public_rpc;
        let at = if usual == Some(url.as_str()) { String::new() } else { format!(" --rpc-url {}", shown(&url)) };
        let at = format!("--network local{at}");
        let mut text = "\nThree tools are running:\n".to_owned();
        for (sample, registered, _) in &self.tools {
            text += &format!("  {}  {:16} {}\n", registered.id, sample.slug, sample.access.described());
        }
        text += "\nTry, in another terminal:\n";
        for (sample, registered, _) in &self.tools {
            let id = registered.id;
            text += &format!("  {program} verify {id} {at}\n  {program} probe {id} {at}\n");
            // Account 1 has the token and money.
            let account = if matches!(sample.access, SampleAccess::Open) { "" } else { " --dev-account 1" };
            text += &format!("  {program} call {id} {at}{account} --input '{}'\n", sample.example);
            match sample.access {
                SampleAccess::Open => {
                    let (ca, endpoint) = (self.authority.path().display().to_string(), registered.manifest.endpoint());
                    text += &format!("  curl --cacert {} {endpoint} --json '{}'\n", shown(&ca), sample.example);
                }
                SampleAccess::Holders => {
                    text += &format!("  {program} predicate check {id} {} {at}\n", toolcrib_chain::wallet::DEV_ACCOUNTS[1])
                }
                SampleAccess::Paid => {}
            }
        }
        text
    }

    async fn serve(self, seconds: Option<u64>, mut interrupts: Interrupts, printer: &mut Printer) -> Result<(), Stop> {
        let Self { authority, tls, listener, origins, mut faults, .. } = self;
        let (stop, stopped) = oneshot::channel::<()>();
        let mut stop = Some(stop);
        let serving = origins.serve_tls(listener, tls.clone(), async move { stopped.await.unwrap_or_default() });
        let mut serving = std::pin::pin!(serving);
        let mut waiting = std::pin::pin!(wait(seconds, interrupts.clone()));
        let mut renewal = Instant::now() + RENEW_EVERY;
        loop {
            tokio::select! {
                served = &mut serving => {
                    return served.map_err(|error| Failure::new(codes::gate::BIND, format!("the sample tools stopped: {error}")).into());
                }
                () = &mut waiting, if stop.is_some() => {
                    let _ = stop.take().map(|stop| stop.send(()));
                    interrupts.forget();
                }
                () = interrupts.heard(), if stop.is_none() => return Ok(()),
                Some(fault) = faults.recv() => printer.note(&fault)?,
                () = sleep_until(renewal) => {
                    tls.reload(&issue(&authority)?);
                    renewal += RENEW_EVERY;
                }
            }
        }
    }
}

fn issue(authority: &Authority) -> Result<Tls, Failure> {
    let hosts: Vec<_> = SAMPLES.iter().map(Sample::host).collect();
    let issued = authority.tls(hosts.iter().map(String::as_str), &SystemClock);
    issued.map_err(|error| Failure::new(error.code(), error.to_string()))
}

fn server(
    sample: &Sample,
    registered: &Registered,
    registry: &Registry,
    creator: &LocalWallet,
    store: Arc<dyn ReplayStore>,
    tell: mpsc::Sender<String>,
    usage: &Usage,
) -> Result<Server, Failure> {
    let manifest = registered.manifest.clone();
    let origin = manifest.endpoint().origin().to_string();
    let tool = sample.tool(manifest);
    let tool = match sample.access {
        SampleAccess::Open => tool,
        SampleAccess::Holders => tool.gate(Gate::predicate(registry.clone(), registered.id)),
        SampleAccess::Paid => {
            let settler = LocalWallet::development(SETTLER).map_err(|error| failed(error.into()))?;
            let settlement = LocalSettlement::new(Arc::new(settler), [registry.chain().clone()]).recipients([creator.address()]);
            tool.gate(Gate::paid(settlement).tool(registry.reference(registered.id)))
        }
    };
    let tools = Tools::new(&origin).tool(tool).shared_store(store).clock(SystemClock).on_fault(move |fault| {
        let _ = tell.try_send(format!("{}: {} ({})", fault.slug, shown(fault.detail), fault.code));
    });
    tools.usage(usage.clone()).build().map_err(|errors| refused(&errors))
}

/// Where the tools report their use: to the directory, with a key of its own, since it refuses keys that it did not issue.
async fn usage(index: &Index, server: &DirectoryServer) -> Result<Usage, Failure> {
    let refused = |error: toolcrib_store::Error| Failure::new(error.code(), error.to_string());
    let keys = Keys::open(index.database().clone()).await.map_err(refused)?;
    let issued = keys.issue(Some("sample tools"), KEY_RATE, KEY_RATE, KEY_SECONDS, SystemClock.now()).await.map_err(refused)?;
    let unusable = |error: toolcrib_fetch::Error| Failure::new(error.code(), error.to_string());
    let reports = ConfiguredUrl::from_setting(&format!("{}/api/v2/tools/usage", server.url())).map_err(unusable)?;
    Usage::new(reports, &issued.key).map_err(unusable)
}

fn refused(errors: &toolcrib_gate::SetupErrors) -> Failure {
    let code = errors.0.first().map_or(codes::gate::SCHEMA, toolcrib_gate::SetupError::code);
    Failure::new(code, errors.to_string())
}
