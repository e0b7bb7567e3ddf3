//! After a 403: what the wallet lacks, read from the chain.

use std::sync::Arc;

use alloy_primitives::{Address, Bytes, U256, keccak256};
use alloy_sol_types::SolValue;
use toolcrib_chain::predicate::{Erc20Gate, Erc20Predicate, Meaning};
use toolcrib_chain::registry::AccessResult;
use toolcrib_client::CallError;

use toolcrib_testkit::servers::{answer, ok};
use toolcrib_testkit::tools::{
    CALLER, CREATOR, Speaks, World, challenge, code, hash_of, input, manifest, offer_of, payment_of, transact, usdc, usual,
};

/// Init code from the committed artifacts.
pub(crate) fn artifact(name: &str, arguments: &[u8]) -> Bytes {
    toolcrib_contracts::artifact(name).expect("a contract").init_code(arguments)
}

// req: PRED-009
#[tokio::test]
async fn what_is_lacking_is_read_from_the_chain() {
    let world = World::start().await;
    let predicate = artifact("ERC20BalancePredicate", &world.registry.address().abi_encode());
    let predicate = transact(&world.devchain, CREATOR, None, &predicate).and_then(|(_, address)| address).expect("a contract");
    let token = artifact("TestERC20", &("Test", "T").abi_encode_params());
    let token = transact(&world.devchain, CREATOR, None, &token).and_then(|(_, address)| address).expect("a contract");
    let (host, endpoint) = ("gated.example.com", "https://gated.example.com/call");
    let bytes = manifest(endpoint).to_string().into_bytes();
    let id = world.register(&format!("https://{host}/.well-known/ai-tool/word-count.json"), hash_of(&bytes), Some(predicate));
    let gate = Erc20Predicate::new(world.registry.chain().clone(), predicate);
    let set = gate.set_gate(id, Erc20Gate { token, min_balance: U256::from(1_000) });
    world.send(CREATOR, set.to, &set.data);
    let server = world.net.honest(host, move |request| {
        if request.path().starts_with("/.well-known/") {
            return ok(&bytes);
        }
        match payment_of(request) {
            None => challenge(Speaks::V2, vec![offer_of(usdc(), 0, CREATOR)]),
            Some(_) => {
                answer("403 Forbidden", "Content-Type: application/json\r\n", br#"{"code": "access.denied", "message": "no"}"#)
            }
        }
    });
    let server = server.await;
    let (client, wallet) = world.client();
    let call = async || match client.call(world.registry.reference(id), &input(), &usual()).await {
        Err(CallError::Denied(denial)) => *denial,
        other => panic!("{}: {other:?}", code(&other)),
    };
    let denial = call().await;
    assert_eq!(denial.words.code.as_deref(), Some("access.denied"));
    assert_eq!((denial.account, denial.predicate, denial.access), (Some(CALLER), Some(predicate), Some(AccessResult::Denied)));
    let [holding] = denial.holdings.as_slice() else { panic!("{denial:?}") };
    assert!(matches!(holding.meaning, Meaning::Erc20 { token: asked, .. } if asked == token), "{holding:?}");
    assert_eq!((holding.needed, holding.held, holding.is_met()), (Some(U256::from(1_000)), Some(U256::ZERO), Some(false)));
    assert!(!denial.is_incomplete && denial.payment.is_none());

    // A server that denies an account to which the chain grants access is detected.
    mint(&world, token, CALLER, 1_000);
    let denial = call().await;
    assert_eq!((denial.access, denial.holdings[0].is_met()), (Some(AccessResult::Granted), Some(true)));
    assert_eq!((wallet.signatures(), world.count().await), (2, 0));
    drop(server);
    let open = world.tool(|_| {}, Arc::new(|_| answer("403 Forbidden", "", b""))).await;
    let error = client.call(open.reference, &input(), &usual()).await.unwrap_err();
    let CallError::Denied(denial) = error else { panic!("{error:?}") };
    assert_eq!((denial.predicate, denial.access), (None, Some(AccessResult::Granted)));
}

fn mint(world: &World, token: Address, to: Address, amount: u64) {
    let data = [&keccak256("mint(address,uint256)")[..4], &(to, U256::from(amount)).abi_encode()].concat();
    world.send(CREATOR, token, &data.into());
}
