//! Accounts with code: they verify their signatures themselves if the operator has configured a node, and only then.

use std::net::SocketAddr;
use std::sync::Arc;

use alloy_primitives::{Address, Bytes, U256, hex, keccak256};
use alloy_signer_local::PrivateKeySigner;
use alloy_sol_types::SolValue;
use serde_json::json;
use toolcrib_chain::deploy::deploy_test_assets;
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};
use toolcrib_chain::sign::Domain;
use toolcrib_chain::wallet::LocalWallet;
use toolcrib_gate::{Gate, LocalSettlement, PaidGate, Rates, SetupError, Tools};
use toolcrib_store::replay::{Limits, MemoryReplay, ReplayStore};
use toolcrib_x402::{Authorization, Challenge, Signature, Version, asset as tokens, read_header};

use crate::till::{PRICE, asset, of_the_price, priced, till};
use crate::world::{
    HttpResponse, ORIGIN, Runs, World, authorization, code, counting, creator, deploy, fresh, header, holder, post, serve, sign,
    stranger, transact_as,
};

/// A contract that accepts every signature: it answers every call with the selector of ERC-1271.
const YES: [u8; 16] = hex!("631626ba7e60e01b60005260206000f3");

/// The chain of the tests, where something is signed for as well.
fn local() -> Domain {
    let token = tokens::usdc(31_337).expect("listed");
    Domain::new(token.name, token.version, U256::from(token.chain), token.address)
}

async fn challenge(at: SocketAddr, path: &str) -> Challenge {
    let answer = post(at, path, &[], &json!({})).await;
    read_header(answer.header("payment-required").expect("version 2")).challenge.expect("a challenge")
}

async fn pay(at: SocketAddr, path: &str, signed: Authorization, by: Signature) -> HttpResponse {
    let challenge = challenge(at, path).await;
    let value = header(&[challenge.clone(), challenge], Version::V2, signed, by);
    post(at, path, &[("PAYMENT-SIGNATURE", &value)], &json!({"text": "one two"})).await
}

fn tools(store: &Arc<MemoryReplay>) -> Tools {
    Tools::new(ORIGIN).shared_store(store.clone()).rates(Rates { per_address: None, ..Rates::default() })
}

fn of(account: Address) -> Authorization {
    Authorization { from: account, ..authorization(holder(), fresh()) }
}

fn by(signer: &PrivateKeySigner, signed: &Authorization) -> Signature {
    sign(signer, signed, &local())
}

/// A wallet that the stranger's key signs for.
fn wallet(world: &World) -> Address {
    deploy(&world.devchain, code("TestSmartWallet", &stranger().address().abi_encode()))
}

fn mint(world: &World, to: Address, token: u64) {
    let mint = [&keccak256("mint(address,uint256)")[..4], &(to, U256::from(token)).abi_encode()].concat();
    transact_as(&world.devchain, creator(), Some(world.token), &mint.into());
}

// req: GATE-003, GATE-004
// attack: T10
#[tokio::test]
async fn a_contract_says_itself_whether_it_has_signed() {
    let world = World::start().await;
    let (id, runs, store) = (world.tool_for_holders().await, Runs::default(), Arc::new(MemoryReplay::new(Limits::default())));
    let chain = world.registry.chain().clone();
    let asking = world.gate(id).identity_chain(31_337).contract_accounts(chain);
    let plain = world.gate(id).identity_chain(31_337);
    let at = serve(tools(&store).tool(counting("asking", asking, &runs)).tool(counting("plain", plain, &runs))).await;
    let wallet = wallet(&world);
    mint(&world, wallet, 1_000);

    let signed = of(wallet);
    let answer = pay(at, "/asking", signed, by(stranger(), &signed)).await;
    assert_eq!((answer.status, &answer.json()["caller"]), (200, &json!(wallet.to_checksum(None))), "{answer:?}");
    assert_eq!(pay(at, "/asking", signed, by(stranger(), &signed)).await.status, 409, "once");
    // Without a node the owner's key is not the account.
    let signed = of(wallet);
    let refused = |code: &str| (402, code.to_owned());
    assert_eq!(pay(at, "/plain", signed, by(stranger(), &signed)).await.verdict(), refused("chain.signature_wrong_signer"));
    // Another key than the owner's, and a random one.
    assert_eq!(pay(at, "/asking", signed, by(holder(), &signed)).await.verdict(), refused("chain.contract_signature"));
    let nobody = Signature::new(vec![7; 100]).expect("long enough");
    assert_eq!(pay(at, "/asking", signed, nobody.clone()).await.verdict(), refused("chain.contract_signature"));
    assert_eq!(pay(at, "/plain", signed, nobody.clone()).await.verdict(), refused("chain.signature_length"));

    // An account without code is recovered as ever, and held to the shape of its signatures.
    let signed = of(holder().address());
    let good = by(holder(), &signed);
    assert_eq!(pay(at, "/asking", signed, nobody.clone()).await.verdict(), refused("chain.signature_length"));
    assert_eq!(pay(at, "/asking", signed, by(stranger(), &signed)).await.verdict(), refused("chain.signature_wrong_signer"));
    let mut odd = good.as_bytes().to_vec();
    odd[64] = 29;
    let odd = Signature::new(odd).expect("65 bytes");
    assert_eq!(pay(at, "/asking", signed, odd.clone()).await.verdict(), refused("chain.signature_v"));
    assert_eq!(pay(at, "/plain", signed, odd.clone()).await.verdict(), refused("chain.signature_v"));
    assert_eq!(pay(at, "/asking", signed, high(&good)).await.verdict(), refused("chain.signature_high_s"));
    assert_eq!(pay(at, "/asking", signed, good).await.status, 200);

    // What a contract takes for a signature is its own affair, but what looks like a wrapper (ERC-6492) has to be one.
    let easy = Address::repeat_byte(0x1e);
    world.devchain.set_code(easy, Bytes::from_static(&YES));
    mint(&world, easy, 1_001);
    let wrapped = Signature::new([vec![7; 96], [0x64, 0x92].repeat(16)].concat()).expect("long enough");
    assert_eq!(pay(at, "/asking", of(easy), wrapped.clone()).await.verdict(), refused("chain.signature_wrapper"));
    assert_eq!(pay(at, "/plain", of(easy), wrapped).await.verdict(), refused("chain.signature_erc6492"));
    assert_eq!(pay(at, "/asking", of(easy), odd).await.status, 200);
    assert_eq!(pay(at, "/asking", of(easy), nobody).await.status, 200);
    assert_eq!(runs.count(), 4);
}

/// The same signature with s in the upper half.
fn high(signature: &Signature) -> Signature {
    let order = U256::from_be_bytes(hex!("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"));
    let mut bytes = signature.as_bytes().to_vec();
    let s = order - U256::from_be_slice(&bytes[32..64]);
    bytes[32..64].copy_from_slice(&s.to_be_bytes::<32>());
    bytes[64] = 55 - bytes[64];
    Signature::new(bytes).expect("65 bytes")
}

// req: GATE-003
// attack: T10
#[tokio::test]
async fn an_account_that_has_lent_itself_code_is_not_recovered() {
    let world = World::start().await;
    let (id, runs, store) = (world.tool_for_holders().await, Runs::default(), Arc::new(MemoryReplay::new(Limits::default())));
    let gate = world.gate(id).identity_chain(31_337).contract_accounts(world.registry.chain().clone());
    let at = serve(tools(&store).tool(counting("word-count", gate, &runs))).await;
    let call = async |signer: &PrivateKeySigner| {
        let signed = of(holder().address());
        pay(at, "/word-count", signed, by(signer, &signed)).await
    };
    assert_eq!(call(holder()).await.status, 200);
    // The token is a contract that knows nothing of ERC-1271, the wallet one that somebody else signs for.
    for (delegate, owner) in [(world.token, None), (wallet(&world), Some(stranger()))] {
        let lent = [&hex!("ef0100")[..], delegate.as_slice()].concat();
        world.devchain.set_code(holder().address(), lent);
        assert_eq!(call(holder()).await.verdict(), (402, "chain.contract_signature".to_owned()), "the key may be retired");
        if let Some(owner) = owner {
            assert_eq!(call(owner).await.status, 200, "the code decides");
        }
    }
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn contracts_pay_too() {
    let world = World::start().await;
    let (id, runs, store) = (world.tool_for_holders().await, Runs::default(), Arc::new(MemoryReplay::new(Limits::default())));
    let (till, chain) = (till(), world.registry.chain().clone());
    let token = tokens::usdc(31_337).expect("listed");
    let usdc = asset(31_337, token.address);
    let gate = || PaidGate::new(till.clone()).contract_accounts(vec![chain.clone()]);
    // With a predicate as well, whose own chain of identity does not matter then.
    let both = PaidGate::new(till.clone()).predicate(world.gate(id).contract_accounts(chain.clone()));
    let at = serve(tools(&store).tool(priced("paid", &usdc, gate(), &runs)).tool(priced("both", &usdc, both, &runs))).await;
    let wallet = wallet(&world);
    let signed = of_the_price(of(wallet));
    assert_eq!(pay(at, "/paid", signed, by(holder(), &signed)).await.verdict().1, "chain.contract_signature");
    assert_eq!((till.settled(), runs.count()), (0, 0));
    let answer = pay(at, "/paid", signed, by(stranger(), &signed)).await;
    assert_eq!((answer.status, &answer.json()["caller"]), (200, &json!(wallet.to_checksum(None))));
    assert_eq!((till.settled(), runs.count()), (1, 1));
    let signed = of_the_price(of(wallet));
    assert_eq!(pay(at, "/both", signed, by(stranger(), &signed)).await.verdict(), (403, "access.denied".to_owned()));
    assert_eq!((till.settled(), runs.count()), (1, 1), "denied before any money moves");
    mint(&world, wallet, 1_000);
    assert_eq!(pay(at, "/both", signed, by(stranger(), &signed)).await.status, 200);
    assert_eq!((till.settled(), runs.count()), (2, 2));
}

// req: GATE-007
#[tokio::test]
async fn the_money_of_a_contract_moves() {
    let world = World::start().await;
    let (chain, runs, store) = (world.registry.chain().clone(), Runs::default(), Arc::new(MemoryReplay::new(Limits::default())));
    deploy_test_assets(&chain, &LocalWallet::development(0).expect("an account")).await.expect("deployed");
    let (token, wallet) = (tokens::usdc(31_337).expect("listed").address, wallet(&world));
    let mint = [&keccak256("mint(address,uint256)")[..4], &(wallet, U256::from(PRICE)).abi_encode()].concat();
    transact_as(&world.devchain, creator(), Some(token), &mint.into());
    let balance = |of: Address| {
        let data: Bytes = [&keccak256("balanceOf(address)")[..4], &of.abi_encode()].concat().into();
        let answer = world.devchain.request("eth_call", json!([{ "to": token, "data": data }, "latest"])).expect("an answer");
        serde_json::from_value::<U256>(answer).expect("a number")
    };
    let before = balance(creator());
    let settle = LocalSettlement::new(Arc::new(LocalWallet::development(5).expect("an account")), [chain.clone()]);
    let gate = Gate::paid(settle.recipients([creator()])).contract_accounts(vec![chain]);
    let at = serve(tools(&store).tool(priced("paid", &asset(31_337, token), gate, &runs))).await;
    // Only its owner's key signs.
    let signed = of_the_price(of(wallet));
    assert_eq!(pay(at, "/paid", signed, by(holder(), &signed)).await.verdict().1, "chain.contract_signature");
    assert_eq!((balance(wallet), runs.count()), (U256::from(PRICE), 0));
    let answer = pay(at, "/paid", signed, by(stranger(), &signed)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!((balance(wallet), balance(creator()), runs.count()), (U256::ZERO, before + U256::from(PRICE), 1));
    // Now it has nothing left.
    let signed = of_the_price(of(wallet));
    assert_eq!(pay(at, "/paid", signed, by(stranger(), &signed)).await.verdict(), (402, "settlement.refused".to_owned()));
    assert_eq!((balance(creator()), runs.count()), (before + U256::from(PRICE), 1));
}

// req: GATE-005
#[tokio::test]
async fn nobody_is_let_in_while_the_chain_does_not_answer() {
    let (runs, store) = (Runs::default(), Arc::new(MemoryReplay::new(Limits::default())));
    let network = Network::by_id(31_337).cloned().unwrap_or_else(|| Network::unlisted(31_337));
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("bound");
    let node = NodeUrl::parse(&format!("http://{gone}")).expect("a URL");
    let chain = Chain::lazy(ChainConfig::new(&network, vec![node]).expect("a node")).expect("a client");
    let gate = Gate::identity().identity_chain(31_337).contract_accounts(chain.clone());
    let at = serve(tools(&store).tool(counting("word-count", gate, &runs))).await;
    let signed = of(holder().address());
    let answer = pay(at, "/word-count", signed, by(holder(), &signed)).await;
    assert_eq!(answer.verdict(), (502, "access.unavailable".to_owned()));
    assert_eq!((runs.count(), store.counts().await.expect("memory").entries()), (0, 0), "not used up");

    // A node that would never be asked is a mistake.
    let errors = tools(&store).tool(counting("word-count", Gate::identity().contract_accounts(chain), &runs)).build();
    let errors = errors.expect_err("nothing is signed for there").0;
    let [SetupError::Challenge { findings, .. }] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(findings[0].code.id(), "gate.contract_chain");
}
