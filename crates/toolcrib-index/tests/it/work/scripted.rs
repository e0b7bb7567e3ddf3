//! Made-up verification results: evidence of a verified tool without a chain or a server.

use alloy_primitives::{Address, B256};
use futures_util::future::BoxFuture;
use toolcrib_chain::wallet::DEV_ACCOUNTS;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::UnixTime;
use toolcrib_index::feed::Kinds;
use toolcrib_index::model::ToolRow;
use toolcrib_index::work::{Look, ToolVerifier};
use toolcrib_index::{Error, Index};
use toolcrib_judge::Policy;
use toolcrib_judge::evidence::{Body, ChainReads, ConfigRead, Evidence, Exchange, Method, Response, ToolConfig, ToolState};

use super::{Followed, hash_of, manifest, put, uri};
use toolcrib_testkit::servers::NOW;

/// A verifier that calls a function.
pub(crate) struct Scripted<F>(pub(crate) F);

impl<F> ToolVerifier for Scripted<F>
where
    F: Fn(ToolRef, &ToolRow) -> BoxFuture<'static, Result<Look, Error>> + Send + Sync,
{
    async fn look(&self, tool: ToolRef, row: &ToolRow) -> Result<Look, Error> {
        (self.0)(tool, row).await
    }

    fn can_ask(&self, _: u64) -> bool {
        true
    }
}

/// The host of a made-up tool.
pub(crate) fn host(number: u64) -> String {
    format!("t{number}.example")
}

/// A result with the registration of the index, and the valid manifest of its host.
pub(crate) fn good(tool: ToolRef, row: &ToolRow, at: UnixTime) -> Look {
    let host = row.metadata_uri.trim_start_matches("https://").split('/').next().unwrap_or_default().to_owned();
    let mut evidence = Evidence::new("scripted", at);
    evidence.tool = Some(tool);
    let config = ToolConfig {
        creator: row.creator,
        metadata_uri: row.metadata_uri.clone(),
        manifest_hash: row.manifest_hash,
        access_predicate: row.predicate,
    };
    let config = vec![ConfigRead { block: 7, state: ToolState::Present(config) }];
    evidence.chain = Some(ChainReads { registry_code_hash: None, config, predicate: None, registration: None });
    let mut exchange = Exchange::new(Method::Get, row.metadata_uri.clone(), at);
    exchange.addresses = vec!["5.5.5.5".parse().expect("an address")];
    exchange.connected = Some("5.5.5.5:443".parse().expect("an address"));
    exchange.response = Some(Response {
        status: 200,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: Body(manifest(&host).to_string().into_bytes()),
    });
    evidence.manifest = Some(exchange);
    Look::judged(evidence, &Policy::default())
}

/// Puts made-up tools 1 to `count` into an index, each with a host of its own, all due after the next intake.
pub(crate) async fn fill(index: &Index, count: u64) -> Vec<toolcrib_index::model::ToolKey> {
    let registry = index.add_registry(31_337, Address::repeat_byte(0x26), 0).await.expect("a registry").id;
    let mut keys = Vec::new();
    for number in 1..=count {
        let key = toolcrib_index::model::ToolKey { registry, id: alloy_primitives::U256::from(number) };
        let (host, hash) = (host(number), hash_of(manifest(&host(number)).to_string().as_bytes()));
        put(index, key, &followed(&uri(&host), hash), Kinds::REGISTERED).await;
        keys.push(key);
    }
    keys
}

pub(crate) fn followed(uri: &str, hash: B256) -> Followed<'_> {
    Followed { creator: DEV_ACCOUNTS[0], uri, hash, predicate: None, registered_at: NOW, updated_at: NOW, deregistered_at: None }
}
