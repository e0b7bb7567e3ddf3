//! Several TXT sources, asked concurrently.

use std::fmt;

use alloy_primitives::Address;
use futures_util::future::join_all;
use toolcrib_chain::rpc::Chain;
use toolcrib_core::agent::AgtDomain;
use toolcrib_fetch::Configured;

use super::dns::{DnsSettings, DnsSource};
use super::{DohJsonSource, FileSource, FnsSource, FreenameSource, SettingError, SourceList, SourceSetting};
use crate::evidence::TxtAnswer;
use crate::source::TxtSource;

/// The clients and settings that sources are built with.
#[derive(Clone, Debug)]
pub struct SourceContext {
    /// The HTTP client for configured services.
    pub http: Configured,
    /// Policy, anchors and limits of DNS. Each source has its own servers.
    pub dns: DnsSettings,
    /// The chain and the registry of names; `fns` requires them.
    pub fns: Option<(Chain, Address)>,
}

/// The TXT sources of a resolution, in the order of the settings.
pub struct TxtSources(Vec<Box<dyn TxtSource>>);

impl TxtSources {
    /// Builds the configured sources.
    pub fn build(settings: &SourceList, context: &SourceContext) -> Result<Self, SettingError> {
        settings.as_slice().iter().map(|setting| build(setting, context)).collect::<Result<Vec<_>, _>>().map(Self)
    }

    /// Uses these sources.
    pub fn new(sources: Vec<Box<dyn TxtSource>>) -> Self {
        Self(sources)
    }

    /// Asks all sources concurrently and returns their responses, in the order of the sources.
    pub async fn lookup_all(&self, domain: &AgtDomain) -> Vec<TxtAnswer> {
        join_all(self.0.iter().map(|source| source.lookup(domain))).await
    }

    /// The sources, for a [`Resolver`](crate::Resolver).
    pub fn into_sources(self) -> Vec<Box<dyn TxtSource>> {
        self.0
    }

    /// The names of the sources.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|source| source.name())
    }
}

impl fmt::Debug for TxtSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

fn build(setting: &SourceSetting, context: &SourceContext) -> Result<Box<dyn TxtSource>, SettingError> {
    Ok(match setting {
        SourceSetting::Dns(servers) => {
            let mut settings = context.dns.clone();
            settings.servers.clone_from(servers);
            Box::new(DnsSource::new(settings)?)
        }
        SourceSetting::DohJson(url) => Box::new(DohJsonSource::new(context.http.clone(), url.clone())),
        SourceSetting::Freename(url) => Box::new(FreenameSource::new(context.http.clone(), url.clone())),
        SourceSetting::Fns => {
            let Some((chain, registry)) = &context.fns else {
                return Err(SettingError::new("the source fns needs a node of the chain of the registry"));
            };
            Box::new(FnsSource::new(chain.clone(), *registry))
        }
        SourceSetting::File(path) => Box::new(FileSource::new(path)),
    })
}
