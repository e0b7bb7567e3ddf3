//! A thousand registrations in sequence, each in its own block: on our development chain and, if
//! `TOOLCRIB_ANVIL` is set, on anvil. They are signed beforehand and sent over HTTP, in turns; the best round of each counts.
#![expect(clippy::print_stdout, reason = "the result of a benchmark is what it prints")]

use std::time::{Duration, Instant};

use alloy_primitives::B256;
use toolcrib_chain::deploy::{deploy, with_our_contracts};
use toolcrib_chain::network::Network;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::{Chain, ChainConfig};
use toolcrib_chain::transaction::Signed;
use toolcrib_chain::wallet::{LocalWallet, Wallet};
use toolcrib_devchain::Devchain;
use toolcrib_fetch::SystemClock;
use toolcrib_testkit::Anvil;

const REGISTRATIONS: u64 = 1_000;
const ROUNDS: usize = 3;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let began = Instant::now();
            let devchain = Devchain::builder(SystemClock).spawn().await.expect("a chain");
            ours.push(round(&devchain.http_url(), began).await);
            let began = Instant::now();
            if let Some(anvil) = Anvil::start(&[]) {
                theirs.push(round(&anvil.url, began).await);
            }
        }
        let best = |rounds: &[(Duration, Duration)]| {
            (rounds.iter().map(|round| round.0).min(), rounds.iter().map(|round| round.1).min())
        };
        let (start, all) = best(&ours);
        println!("ours:  first answer {start:?}, {REGISTRATIONS} registrations {all:?}");
        if theirs.is_empty() {
            println!("skipped: no anvil to compare with");
            return;
        }
        let (anvil_start, anvil_all) = best(&theirs);
        println!("anvil: first answer {anvil_start:?}, {REGISTRATIONS} registrations {anvil_all:?}");
        let ratio = |theirs: Option<Duration>, ours: Option<Duration>| {
            theirs.zip(ours).map_or(0.0, |(theirs, ours)| theirs.as_secs_f64() / ours.as_secs_f64())
        };
        println!("anvil / ours: start {:.1}x, registrations {:.2}x", ratio(anvil_start, start), ratio(anvil_all, all));
    });
}

/// Returns the time to the first response, and the time of all registrations.
async fn round(url: &str, began: Instant) -> (Duration, Duration) {
    let network = with_our_contracts(Network::find("local").expect("built in"));
    let chain = Chain::connect(ChainConfig::from_setting(&network, Some(url)).expect("a URL")).await.expect("answers");
    let first = began.elapsed();
    let wallet = LocalWallet::development(0).expect("a phrase");
    deploy(&chain, &wallet, |_, _| {}).await.expect("deployed");
    let registry = Registry::of(chain.clone()).expect("there");
    let call = registry.register("https://tools.example/.well-known/ai-tool/x.json", B256::repeat_byte(1), None);
    let mut prepared = chain.prepare(wallet.address(), &call).await.expect("prepared");
    let mut signed: Vec<Signed> = Vec::new();
    for _ in 0..REGISTRATIONS {
        signed.push(chain.sign(&wallet, &prepared).await.expect("signed"));
        prepared.nonce += 1;
    }
    let start = Instant::now();
    for transaction in &signed {
        chain.broadcast(transaction).await.expect("sent");
    }
    // Anvil responds before it has mined; stop the clock when the last registration is in a block.
    while registry.tool_count().await.expect("a number").to::<u64>() < REGISTRATIONS {
        assert!(start.elapsed() < Duration::from_secs(60), "not all were mined");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (first, start.elapsed())
}
