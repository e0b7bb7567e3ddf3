//! Trouble after the wallet was asked: the error names the payment, and a result that arrived is handed on.

use std::sync::Arc;

use alloy_primitives::{Address, B256};
use async_trait::async_trait;
use serde_json::json;
use toolcrib_chain::sign::StrictSignature;
use toolcrib_chain::wallet::{Cleared, LocalWallet, Wallet, WalletError};
use toolcrib_client::ledger::State;
use toolcrib_store::{Database, Location};

use toolcrib_testkit::servers::answer;
use toolcrib_testkit::tools::{
    Counting, Reply, Speaks, World, challenge, code, input, offer, payment_of, priced, result, served, settle, usual,
};

/// A wallet that may have signed, and whose answer is lost.
#[derive(Debug)]
struct Unheard(LocalWallet);

#[async_trait]
impl Wallet for Unheard {
    fn address(&self) -> Address {
        self.0.address()
    }

    fn description(&self) -> String {
        self.0.description()
    }

    async fn sign_digest(&self, _: B256, _: Cleared) -> Result<StrictSignature, WalletError> {
        Err(std::io::Error::other("the cable was pulled").into())
    }
}

#[tokio::test]
async fn a_wallet_that_may_have_signed_leaves_the_payments_name() {
    let world = World::start().await;
    let tool = world.tool(priced, Arc::new(|_| challenge(Speaks::V2, vec![offer()]))).await;
    let client = world.builder().wallet(Arc::new(Unheard(toolcrib_testkit::tools::caller()))).build();
    let result = client.call(tool.reference, &input(), &usual()).await;
    assert_eq!(code(&result), "wallet.io");
    let error = result.unwrap_err();
    let id = error.payment().expect("the payment that may exist");
    assert!(error.to_string().contains(&id.to_string()), "{error}");
    assert_eq!(world.ledger.entry(id).await.unwrap().state, State::Signed, "it counts as spent");
    assert!(tool.calls().iter().all(|call| payment_of(call).is_none()), "nothing was sent");
}

/// Takes the ledger away: nothing can be written any more.
async fn break_ledger(world: &World) {
    let path = world.folder.path().join("spend.db");
    let location = Location::parse(&format!("sqlite:{}", path.display())).unwrap();
    let database = Database::open(&location).await.unwrap();
    database.execute("ALTER TABLE client_spend RENAME TO client_gone", &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_fails_after_paying_does_not_cost_the_result() {
    for (what, expected) in [("result", "ok"), ("refusal", "call.refused"), ("nothing", "call.indeterminate")] {
        let world = Arc::new(World::start().await);
        let its_world = Arc::downgrade(&world);
        let reply: Reply = Arc::new(move |request| {
            let Some(payment) = payment_of(request) else { return challenge(Speaks::V2, vec![offer()]) };
            let world = its_world.upgrade().unwrap();
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(break_ledger(&world)));
            match what {
                "result" => served(&payment, settle(&world.devchain, &payment).unwrap(), &result()),
                "refusal" => answer("400 Bad Request", "Content-Type: application/json\r\n", b"{}"),
                _ => Vec::new(),
            }
        });
        let tool = world.tool(priced, reply).await;
        let wallet = Counting::new();
        let client = world.builder().wallet(wallet.clone()).build();
        let result = client.call(tool.reference, &input(), &usual()).await;
        assert_eq!((code(&result), wallet.signatures()), (expected, 1), "{what}: {result:?}");
        match result {
            Ok(called) => {
                assert_eq!(called.output, Some(json!({"words": 3})));
                let codes: Vec<_> = called.findings.iter().map(|finding| finding.code.id()).collect();
                assert_eq!(codes, ["call.not_recorded"]);
                assert_eq!(called.paid.unwrap().state, State::Signed, "the last that the ledger knows");
            }
            Err(error) => assert!(error.payment().is_some(), "{what}: {error}"),
        }
    }
}
