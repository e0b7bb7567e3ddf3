//! Serves the tool; `manifest` prints its manifest instead.

use std::error::Error;
use std::path::{Path, PathBuf};

use toolcrib_core::json::pretty;
use toolcrib_devchain::Authority;
use toolcrib_gate::{SystemClock, Tls};
use toolcrib_store::database::{Database, Location};
use toolcrib_store::replay::{Limits, SqlReplay};

use {{crate}}::gate::setting;
use {{crate}}::{ORIGIN, SLUG, gate, manifest, tools};

/// Where to listen, unless LISTEN says otherwise.
const LISTEN: &str = "127.0.0.1:{{port}}";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("manifest") {
        println!("{}", pretty(manifest().value().document().root()).trim_end());
        return Ok(());
    }
    let (gate, takes_calls) = gate::from_env().await?;
    // Used payments are remembered across restarts. TOOLCRIB_STORE names another file, or PostgreSQL for several machines.
    let location = Location::parse(&setting("TOOLCRIB_STORE").unwrap_or_else(|| format!("sqlite:{SLUG}.db")))?;
    let store = SqlReplay::open(Database::open(&location).await?, Limits::default()).await?;
    let server = tools(gate, takes_calls)
        .store(store)
        .on_fault(|fault| eprintln!("{} {}: {:?}", fault.slug, fault.code, fault.detail))
        .build()?;
    for discord in server.check().await {
        eprintln!("warning: {discord}");
    }
    if !takes_calls {
        eprintln!("takes no calls yet: publish the tool, then set TOOL_ID to its number");
    }
    let listener = tokio::net::TcpListener::bind(setting("LISTEN").as_deref().unwrap_or(LISTEN)).await?;
    println!("{ORIGIN}/.well-known/ai-tool/{SLUG}.json");
    let stop = async { drop(tokio::signal::ctrl_c().await) };
    match tls()? {
        Some(tls) => server.serve_tls(listener, tls, stop).await?,
        None => {
            eprintln!("this is plain HTTP at {}: put a proxy with TLS for {ORIGIN} before it", listener.local_addr()?);
            server.serve(listener, stop).await?;
        }
    }
    Ok(())
}

/// The certificate that TLS_CERT and TLS_KEY name; on localhost, one of the development world that `toolcrib dev` has made.
fn tls() -> Result<Option<Tls>, Box<dyn Error>> {
    if let (Some(certificate), Some(key)) = (setting("TLS_CERT"), setting("TLS_KEY")) {
        return Ok(Some(Tls::from_pem(&std::fs::read(certificate)?, &std::fs::read(key)?)?));
    }
    let host = ORIGIN.trim_start_matches("https://").split(':').next().unwrap_or_default();
    let Some(world) = state_folder().map(|folder| folder.join("toolcrib/dev")) else { return Ok(None) };
    if !host.ends_with(".localhost") || !world.join("ca.pem").exists() {
        return Ok(None);
    }
    Ok(Some(Authority::open(&world, &SystemClock)?.tls([host], &SystemClock)?))
}

fn state_folder() -> Option<PathBuf> {
    let state = setting("XDG_STATE_HOME").map(PathBuf::from);
    state.or_else(|| Some(Path::new(&setting("HOME")?).join(".local/state")))
}
