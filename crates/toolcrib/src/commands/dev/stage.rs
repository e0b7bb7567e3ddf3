//! Registers the sample tools: account 0 is the creator, other accounts get tokens for the calls.
//!
//! A saved chain has them already, perhaps with another port, so the chain is read first. There is no journal: every step can be seen on
//! the chain, and a journal would outlive a chain that is discarded.

use std::time::Duration;

use alloy_primitives::{Address, Bytes, U256, keccak256};
use futures_util::TryStreamExt;
use toolcrib_author::plan::{Gate, Step};
use toolcrib_author::preflight::{Ready, preflight};
use toolcrib_author::publish::{Decision, Found, Subject};
use toolcrib_chain::deploy;
use toolcrib_chain::registry::{EventFilter, Registry, RegistryEvent, ToolState};
use toolcrib_chain::rpc::{BoundedCall, CallOutcome, Chain};
use toolcrib_chain::transaction::Call;
use toolcrib_chain::wallet::{DEV_ACCOUNTS, Wallet};
use toolcrib_core::canon::Sealed;
use toolcrib_core::codes;
use toolcrib_core::finding::Finding;
use toolcrib_core::tool::ToolManifest;
use toolcrib_core::url::well_known::metadata_uri;

use super::samples::{Sample, SampleAccess};
use crate::onchain::failed;
use crate::outcome::Failure;

/// How long to wait for a transaction. The chain is in this process and mines a block at once.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// What accounts 1 and 2 get if they have less than a dollar: 1,000 dollars, in millionths.
const DOLLARS: u64 = 1_000_000_000;
const A_DOLLAR: u64 = 1_000_000;

/// The token of the test collection that account 1 gets.
const TOKEN_ID: u64 = 1;

/// A registered sample.
#[derive(Debug)]
pub(super) struct Registered {
    pub(super) id: U256,
    pub(super) uri: String,
    pub(super) manifest: Sealed<ToolManifest>,
}

/// Registers a sample that is served at a port, or updates its registration to that port.
pub(super) async fn register(
    registry: &Registry,
    wallet: &dyn Wallet,
    sample: &Sample,
    port: u16,
) -> Result<Registered, Failure> {
    let creator = wallet.address();
    let manifest = sample.manifest(port, creator).map_err(|findings| flawed(sample, &findings))?;
    let uri = metadata_uri(&manifest.endpoint().origin(), &sample_slug(sample)?);
    let ready = preflight(manifest.canonical().as_bytes(), &uri, creator).map_err(|findings| flawed(sample, &findings))?;
    let found = find(registry, creator, sample).await?;
    let subject = Subject { registry, signer: creator, uri: &ready.metadata_uri };
    let (mut tool, steps) = match decide(&subject, found.as_ref(), &ready, &gate(registry, sample)?).await? {
        Decision::Register(steps) => (None, steps),
        Decision::Change(id, steps) => (Some(id), steps),
        Decision::Nothing(id) => (Some(id), Vec::new()),
    };
    for step in steps {
        tool = perform(registry, wallet, &step, tool).await?.or(tool);
    }
    let id = tool.ok_or_else(|| Failure::new(codes::author::NO_TOOL, format!("{} was not registered", sample.slug)))?;
    Ok(Registered { id, uri: ready.metadata_uri, manifest })
}

/// Gives the accounts what calls need: account 1 a token of the collection, accounts 1 and 2 test dollars.
pub(super) async fn endow(chain: &Chain, wallet: &dyn Wallet) -> Result<(), Failure> {
    let (collection, dollars) = (asset("TestERC721")?, asset("TestUSDC")?);
    let token = mint(collection, DEV_ACCOUNTS[1], U256::from(TOKEN_ID));
    // On a saved chain, account 1 may have sold its token on purpose; then it is not minted again.
    if balance(chain, collection, DEV_ACCOUNTS[1]).await?.is_zero() && chain.simulate(wallet.address(), &token).await.is_ok() {
        chain.send(wallet, &token, MAX_WAIT).await.map_err(failed)?;
    }
    for account in &DEV_ACCOUNTS[1..=2] {
        if balance(chain, dollars, *account).await? < U256::from(A_DOLLAR) {
            chain.send(wallet, &mint(dollars, *account, U256::from(DOLLARS)), MAX_WAIT).await.map_err(failed)?;
        }
    }
    Ok(())
}

/// The registered sample, whatever its port was before.
async fn find(registry: &Registry, creator: Address, sample: &Sample) -> Result<Option<Found>, Failure> {
    let begins = format!("https://{}:", sample.host());
    let head = registry.chain().block_number().await.map_err(failed)?;
    let filter = EventFilter { creator: Some(creator), ..EventFilter::default() };
    let pages = registry.events(0, head, filter).try_collect::<Vec<_>>().await.map_err(failed)?;
    for logged in pages.into_iter().flat_map(|page| page.events) {
        let RegistryEvent::Registered { id, uri, .. } = logged.event else { continue };
        if !uri.starts_with(&begins) {
            continue;
        }
        if let ToolState::Present(config) = registry.tool(id).await.map_err(failed)?
            && config.metadata_uri.starts_with(&begins)
        {
            return Ok(Some(Found { id, config }));
        }
    }
    Ok(None)
}

/// Returns the remaining steps. A gate that was changed on a saved chain is kept.
async fn decide(subject: &Subject<'_>, found: Option<&Found>, ready: &Ready, gate: &Gate) -> Result<Decision, Failure> {
    let decision = match subject.decide(found, ready, gate).await {
        Err(toolcrib_author::Error::GateDiffers { .. }) => subject.decide(found, ready, &Gate::Open).await,
        decision => decision,
    };
    decision.map_err(|error| Failure::new(error.code(), error.to_string()))
}

/// Sends one transaction. Returns the id of the tool if it is a registration.
async fn perform(registry: &Registry, wallet: &dyn Wallet, step: &Step, tool: Option<U256>) -> Result<Option<U256>, Failure> {
    let call = step.call(registry, tool).map_err(|error| Failure::new(error.code(), error.to_string()))?;
    let receipt = registry.chain().send(wallet, &call, MAX_WAIT).await;
    let receipt = receipt.map_err(|error| failed(registry.explain_refusal(&call, error)))?;
    let logs = receipt.inner.logs().iter().filter(|log| log.address() == registry.address());
    Ok(logs.into_iter().find_map(|log| match RegistryEvent::decode(log) {
        Ok(Some(RegistryEvent::Registered { id, .. })) => Some(id),
        _ => None,
    }))
}

fn gate(registry: &Registry, sample: &Sample) -> Result<Gate, Failure> {
    if sample.access != SampleAccess::Holders {
        return Ok(Gate::Open);
    }
    let predicate = registry.chain().network().predicates.erc721.ok_or_else(|| missing("ERC721OwnerPredicate"))?;
    Ok(Gate::Erc721 { predicate, collections: vec![asset("TestERC721")?] })
}

fn sample_slug(sample: &Sample) -> Result<toolcrib_core::slug::Slug, Failure> {
    toolcrib_core::slug::Slug::parse(sample.slug)
        .map_err(|_| Failure::new(codes::gate::SLUG, format!("{} is not a slug", sample.slug)))
}

fn flawed(sample: &Sample, findings: &[Finding]) -> Failure {
    let first = findings.iter().find(|finding| finding.severity == toolcrib_core::finding::Severity::Error);
    match first {
        Some(finding) => Failure::new(finding.code, format!("{}: {}", sample.slug, finding.message)),
        None => Failure::new(codes::author::NO_TOOL, format!("{} has no manifest", sample.slug)),
    }
}

fn asset(name: &'static str) -> Result<Address, Failure> {
    let assets = deploy::test_assets().unwrap_or_default();
    assets.iter().find(|asset| asset.name == name).map(|asset| asset.address).ok_or_else(|| missing(name))
}

fn missing(name: &str) -> Failure {
    Failure::new(codes::chain::NOT_DEPLOYED, format!("{name} is not deployed on this chain"))
}

/// `mint(address,uint256)`, which every account may call on the test assets.
fn mint(token: Address, to: Address, what: U256) -> Call {
    let data = [&keccak256("mint(address,uint256)")[..4], to.into_word().as_slice(), &what.to_be_bytes::<32>()].concat();
    Call { to: token, data: data.into(), value: U256::ZERO }
}

async fn balance(chain: &Chain, token: Address, of: Address) -> Result<U256, Failure> {
    let data: Bytes = [&keccak256("balanceOf(address)")[..4], of.into_word().as_slice()].concat().into();
    let call = BoundedCall { to: token, data, from: None, gas: None, max_bytes: 32 };
    match chain.call(&call).await.map_err(failed)? {
        CallOutcome::Returned(bytes) => Ok(U256::try_from_be_slice(&bytes).unwrap_or_default()),
        _ => Ok(U256::ZERO),
    }
}
