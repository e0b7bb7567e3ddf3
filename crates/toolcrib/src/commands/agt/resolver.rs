//! Builds a resolver from options: TXT sources, gateways, name registry, memory and policy.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use toolcrib_agent::ipfs::{CarFile, GatewayLimits, Gateways, LocalFile, WalkLimits};
use toolcrib_agent::memory::FileMemory;
use toolcrib_agent::policy::Reaction;
use toolcrib_agent::source::{ContentSource, TxtSource};
use toolcrib_agent::txt::dns::{Anchors, DnsSettings, DnssecPolicy};
use toolcrib_agent::txt::{SourceContext, SourceList, SourceSetting, TxtSources};
use toolcrib_agent::{AgentPolicy, Resolver};
use toolcrib_chain::fns::{FNS_CHAIN_ID, FNS_REGISTRY, Fns, ReadHeight};
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::Chain;
use toolcrib_core::codes;
use toolcrib_fetch::SystemClock;
use toolcrib_fetch::{Configured, ConfiguredUrl};

use crate::env;
use crate::onchain::{config_of, failed, node_variable, state_dir};
use crate::outcome::Failure;
use crate::secrets;

/// Default source of TXT records. `.agt` is not in the public root of DNS; most names have their records at Freename.
const DEFAULT_SOURCE: &str = "freename";

/// Default gateways. They are not trusted: every block is checked.
const DEFAULT_GATEWAYS: [&str; 4] = ["https://gateway.pinata.cloud", "https://w3s.link", "https://ipfs.io", "https://dweb.link"];

/// The file of verified names, in the state folder.
const MEMORY_FILE: &str = "agents.json";

/// Where an agent is looked up.
#[derive(Args, Clone, Debug)]
pub(crate) struct SourceArgs {
    /// TXT source; repeatable, all must agree [default: freename]
    ///
    /// One of dns, `dns:SERVER`, `doh-json:URL`, freename, fns, `file:PATH`.
    #[arg(long = "source", value_name = "SOURCE")]
    pub(crate) sources: Vec<String>,
    /// IPFS gateway, untrusted; repeatable [default: four public gateways]
    #[arg(long = "gateway", value_name = "URL")]
    pub(crate) gateways: Vec<String>,
    /// Read the manifest from a file or CAR archive instead of gateways
    #[arg(long, value_name = "FILE", conflicts_with = "gateways")]
    pub(crate) content: Option<PathBuf>,
    /// Polygon RPC nodes, comma-separated [env: `RPC_URL_137`, `RPC_URL`]
    #[arg(long, value_name = "URL")]
    pub(crate) rpc_url: Option<String>,
    /// Read the holder at the latest finalized block
    #[arg(long)]
    pub(crate) finalized: bool,
    /// How to validate DNSSEC
    #[arg(long, value_name = "WHEN", default_value = "prefer")]
    pub(crate) dnssec: DnssecArg,
    /// File with trust anchors: DNSKEY records, one per line
    #[arg(long, value_name = "FILE")]
    pub(crate) trust_anchors: Option<PathBuf>,
    /// Time limit per name, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) timeout: u64,
}

/// What a reader asks for beyond the specification.
#[derive(Args, Clone, Debug)]
pub(crate) struct PolicyArgs {
    /// Reaction to a manifest older than one verified before
    #[arg(long, value_name = "WHAT", default_value = "warn")]
    pub(crate) rollback: ReactionArg,
    /// Reaction to legacy records of a name that had a verified manifest
    #[arg(long, value_name = "WHAT", default_value = "fail")]
    pub(crate) downgrade: ReactionArg,
    /// Accept signatures of contract holders (ERC-1271), an extension
    #[arg(long)]
    pub(crate) allow_contract_owner: bool,
    /// Skip reading the holder onchain; the result is never verified
    #[arg(long)]
    pub(crate) preview: bool,
    /// Do not read or write the memory of verified names
    #[arg(long)]
    pub(crate) no_memory: bool,
}

/// How much DNSSEC is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DnssecArg {
    /// Do not validate
    Off,
    /// Validate names below a trust anchor
    Prefer,
    /// Accept only secure answers
    Require,
}

/// What to do about something suspicious.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReactionArg {
    /// Report it
    Warn,
    /// Reject the name
    Fail,
    /// Ignore it
    Off,
}

impl From<ReactionArg> for Reaction {
    fn from(argument: ReactionArg) -> Self {
        match argument {
            ReactionArg::Warn => Self::Warn,
            ReactionArg::Fail => Self::Fail,
            ReactionArg::Off => Self::Off,
        }
    }
}

impl PolicyArgs {
    /// The policy of these options.
    pub(crate) fn policy(&self, dnssec: DnssecArg) -> AgentPolicy {
        AgentPolicy {
            rollback: self.rollback.into(),
            downgrade: self.downgrade.into(),
            allow_contract_owner: self.allow_contract_owner,
            require_onchain: !self.preview,
            require_dnssec: dnssec == DnssecArg::Require,
            ..AgentPolicy::default()
        }
    }

    /// The memory of verified names, unless it is turned off.
    pub(crate) fn memory(&self) -> Result<Option<FileMemory>, Failure> {
        if self.no_memory {
            return Ok(None);
        }
        let memory = FileMemory::open(state_dir()?.join(MEMORY_FILE));
        memory.map(Some).map_err(|error| Failure::new(error.code(), error.to_string()))
    }
}

impl SourceArgs {
    /// The resolver of these options.
    pub(crate) fn resolver(&self, policy: &PolicyArgs) -> Result<Resolver, Failure> {
        let chain = self.chain()?;
        let mut resolver = Resolver::new(self.content()?, Arc::new(SystemClock), gatherer())
            .policy(policy.policy(self.dnssec))
            .deadline(Duration::from_secs(self.timeout));
        for source in self.txt(&chain)? {
            resolver = resolver.txt_source(Arc::from(source));
        }
        if !policy.preview {
            let height = if self.finalized { ReadHeight::Finalized } else { ReadHeight::Latest };
            resolver = resolver.owners(Arc::new(Fns::new(chain).map_err(failed)?.with_height(height)));
        }
        if let Some(memory) = policy.memory()? {
            resolver = resolver.memory(Arc::new(memory));
        }
        Ok(resolver)
    }

    /// The TXT sources.
    pub(crate) fn txt(&self, chain: &Chain) -> Result<Vec<Box<dyn TxtSource>>, Failure> {
        let words = if self.sources.is_empty() { vec![DEFAULT_SOURCE.to_owned()] } else { self.sources.clone() };
        let unusable = |error: toolcrib_agent::txt::SettingError| Failure::new(error.code(), error.to_string());
        let settings = words.iter().map(|word| word.parse::<SourceSetting>()).collect::<Result<_, _>>().and_then(SourceList::new);
        let settings = settings.map_err(unusable)?;
        let mut dns = DnsSettings::default();
        dns.dnssec = match self.dnssec {
            DnssecArg::Off => DnssecPolicy::Off,
            DnssecArg::Prefer => DnssecPolicy::Prefer,
            DnssecArg::Require => DnssecPolicy::Require,
        };
        if let Some(path) = &self.trust_anchors {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::new(codes::cli::UNREADABLE, format!("cannot read {}: {error}", path.display())))?;
            dns.anchors = text.parse::<Anchors>().map_err(|error| Failure::new(error.code(), error.to_string()))?;
        }
        let context = SourceContext { http: http()?, dns, fns: Some((chain.clone(), FNS_REGISTRY)) };
        Ok(TxtSources::build(&settings, &context).map_err(unusable)?.into_sources())
    }

    /// The chain of the registry. Sends no request yet.
    pub(crate) fn chain(&self) -> Result<Chain, Failure> {
        let network = Network::by_id(FNS_CHAIN_ID).cloned().unwrap_or_else(|| Network::unlisted(FNS_CHAIN_ID));
        let from_environment = node_variable(FNS_CHAIN_ID).or_else(|| secrets::var(env::RPC_URL));
        let config = config_of(&network, self.rpc_url.as_deref().or(from_environment.as_deref()))?;
        Chain::lazy(config).map_err(failed)
    }

    fn content(&self) -> Result<Arc<dyn ContentSource>, Failure> {
        if let Some(path) = &self.content {
            let is_archive = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("car"));
            return Ok(if is_archive {
                Arc::new(CarFile::new(path, WalkLimits::default()))
            } else {
                Arc::new(LocalFile::new(path, WalkLimits::default()))
            });
        }
        let given: Vec<&str> = self.gateways.iter().map(String::as_str).collect();
        let gateways = if given.is_empty() { DEFAULT_GATEWAYS.to_vec() } else { given };
        let gateways = gateways.into_iter().map(url).collect::<Result<_, _>>()?;
        let gateways = Gateways::new(http()?, gateways, GatewayLimits::default()).map_err(unusable)?;
        Ok(Arc::new(gateways))
    }
}

/// The HTTP client for services that the user configured.
pub(crate) fn http() -> Result<Configured, Failure> {
    Configured::builder(SystemClock).build().map_err(unusable)
}

/// Parses a URL that the user configured.
pub(crate) fn url(text: &str) -> Result<ConfiguredUrl, Failure> {
    ConfiguredUrl::from_setting(text).map_err(unusable)
}

fn unusable(error: toolcrib_fetch::Error) -> Failure {
    Failure::new(error.code(), error.to_string())
}

/// The name of this program in evidence.
pub(crate) fn gatherer() -> String {
    format!("toolcrib {}", env!("CARGO_PKG_VERSION"))
}
