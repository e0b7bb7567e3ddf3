//! Transactions that succeed, and every way to fail.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256};
use serde_json::json;
use toolcrib_chain::Error;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::Chain;
use toolcrib_chain::transaction::Call;
use toolcrib_chain::wallet::{ChainKind, DEV_ACCOUNTS, LocalWallet, Scope, Secret, Wallet};

use toolcrib_testkit::nodes::{Node, deploy, dev, set_balance};

const PATIENCE: Duration = Duration::from_secs(20);

fn own_wallet() -> LocalWallet {
    LocalWallet::from_key(&Secret::new("7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d".to_owned()), "test")
        .expect("a key")
}

fn gift(to: Address) -> Call {
    Call { to, data: Bytes::new(), value: U256::from(1) }
}

#[track_caller]
fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> &'static str {
    result.map_or_else(|error| error.code().id(), |value| panic!("no error but {value:?}"))
}

#[tokio::test]
async fn the_steps_can_be_repeated_without_doing_anything_twice() {
    for node in Node::each(31_337).await {
        the_steps_can_be_repeated_without_doing_anything_twice_on(node).await;
    }
}

async fn the_steps_can_be_repeated_without_doing_anything_twice_on(anvil: Node) {
    let chain = anvil.chain().await;
    let wallet = LocalWallet::development(0).expect("a phrase");
    let prepared = chain.prepare(wallet.address(), &gift(Address::repeat_byte(1))).await.expect("prepared");
    assert!(prepared.most_cost() > U256::from(prepared.gas_limit));
    let signed = chain.sign(&wallet, &prepared).await.expect("signed");
    assert_eq!(chain.sign(&wallet, &prepared).await.expect("signed").hash, signed.hash, "the same each time");
    // The stored transaction is sufficient to resume after an interruption.
    let kept: toolcrib_chain::transaction::Signed =
        serde_json::from_str(&serde_json::to_string(&signed).expect("JSON")).expect("the same");
    dev(&chain, "evm_setAutomine", json!([false])).await;
    chain.broadcast(&kept).await.expect("sent");
    chain.broadcast(&kept).await.expect("sent again while it waits");
    dev(&chain, "evm_mine", json!([])).await;
    chain.broadcast(&kept).await.expect("sent again when it is mined");
    let receipt = chain.wait(&kept, PATIENCE, |_| {}).await.expect("mined");
    assert_eq!(receipt.transaction_hash, signed.hash);
}

#[tokio::test]
async fn refusals_have_codes() {
    for node in Node::each(31_337).await {
        refusals_have_codes_on(node).await;
    }
}

async fn refusals_have_codes_on(anvil: Node) {
    let chain = anvil.chain().await;
    let wallet = LocalWallet::development(2).expect("a phrase");
    let prepared = chain.prepare(wallet.address(), &gift(Address::repeat_byte(1))).await.expect("prepared");

    // Another transaction used the nonce.
    chain.send(&wallet, &gift(Address::repeat_byte(2)), PATIENCE).await.expect("mined");
    let signed = chain.sign(&wallet, &prepared).await.expect("signed");
    assert_eq!(code(chain.broadcast(&signed).await), "chain.nonce_too_low");
    assert_eq!(code(chain.wait(&signed, PATIENCE, |_| {}).await), "chain.replaced");

    // Another transaction replaces a pending one.
    dev(&chain, "evm_setAutomine", json!([false])).await;
    let first = chain.prepare(wallet.address(), &gift(Address::repeat_byte(1))).await.expect("prepared");
    let signed = chain.sign(&wallet, &first).await.expect("signed");
    chain.broadcast(&signed).await.expect("sent");
    assert_eq!(code(chain.wait(&signed, Duration::from_millis(1), |_| {}).await), "chain.not_mined");
    let mut cheaper = first.clone();
    cheaper.call = gift(Address::repeat_byte(3));
    let cheap = chain.sign(&wallet, &cheaper).await.expect("signed");
    assert_eq!(code(chain.broadcast(&cheap).await), "chain.underpriced");
    let mut dearer = cheaper.clone();
    dearer.max_fee_per_gas *= 3;
    dearer.max_priority_fee_per_gas = dearer.max_priority_fee_per_gas * 3 + 10;
    let dear = chain.sign(&wallet, &dearer).await.expect("signed");
    chain.broadcast(&dear).await.expect("takes its place");
    dev(&chain, "evm_mine", json!([])).await;
    assert_eq!(code(chain.wait(&signed, PATIENCE, |_| {}).await), "chain.replaced");
    chain.wait(&dear, PATIENCE, |_| {}).await.expect("mined");
    dev(&chain, "evm_setAutomine", json!([true])).await;

    // Insufficient funds: detected while preparing, or by the node if the balance dropped in between.
    let poor = own_wallet();
    assert_eq!(code(chain.prepare(poor.address(), &gift(Address::repeat_byte(1))).await), "chain.no_funds");
    set_balance(&chain, poor.address(), U256::from(10).pow(U256::from(18))).await;
    let prepared = chain.prepare(poor.address(), &gift(Address::repeat_byte(1))).await.expect("prepared");
    set_balance(&chain, poor.address(), U256::from(1)).await;
    let signed = chain.sign(&poor, &prepared).await.expect("signed");
    assert_eq!(code(chain.broadcast(&signed).await), "chain.no_funds");

    // For another chain, or with another account's wallet.
    let mut elsewhere = prepared.clone();
    elsewhere.chain_id = 1;
    assert_eq!(code(chain.sign(&poor, &elsewhere).await), "chain.wrong_chain");
    assert_eq!(code(chain.sign(&wallet, &prepared).await), "chain.signature_wrong_signer");
}

// req: REG-022
#[tokio::test]
async fn reverts_are_decoded_before_gas_is_spent() {
    for node in Node::each(31_337).await {
        reverts_are_decoded_before_gas_is_spent_on(node).await;
    }
}

async fn reverts_are_decoded_before_gas_is_spent_on(anvil: Node) {
    let chain = anvil.chain().await;
    let address = deploy(&chain, "ToolRegistry", &[]).await;
    let registry = Registry::new(chain.clone(), address);
    let (creator, stranger) = (DEV_ACCOUNTS[0], DEV_ACCOUNTS[1]);
    let hash = B256::repeat_byte(1);
    let refused =
        async |from: Address, call: Call| (code(chain.simulate(from, &call).await), code(chain.prepare(from, &call).await));
    let id = U256::from(1);
    assert_eq!(refused(creator, registry.register("", hash, None)).await, ("chain.uri_refused", "chain.uri_refused"));
    assert_eq!(refused(creator, registry.register(&"x".repeat(2_049), hash, None)).await.0, "chain.uri_refused");
    assert_eq!(refused(creator, registry.register("u", B256::ZERO, None)).await, ("chain.hash_refused", "chain.hash_refused"));
    assert_eq!(refused(creator, registry.register("u", hash, Some(address))).await.0, "chain.predicate_refused");
    assert_eq!(refused(creator, registry.deregister(id)).await.0, "chain.tool_not_found");
    let wallet = LocalWallet::development(0).expect("a phrase");
    chain.send(&wallet, &registry.register(&"x".repeat(2_048), hash, None), PATIENCE).await.expect("mined");
    assert_eq!(refused(stranger, registry.deregister(id)).await, ("chain.not_creator", "chain.not_creator"));
    assert_eq!(refused(stranger, registry.update(id, "u", hash)).await.0, "chain.not_creator");
    // Sent anyway with a manual gas limit, it is mined and reverts.
    let mut prepared = chain.prepare(creator, &registry.deregister(id)).await.expect("prepared");
    prepared.call = registry.deregister(U256::from(99));
    let signed = chain.sign(&wallet, &prepared).await.expect("signed");
    chain.broadcast(&signed).await.expect("sent");
    let error = chain.wait(&signed, PATIENCE, |_| {}).await.expect_err("failed");
    assert!(matches!(error, Error::Failed { .. }), "{error}");
    chain.send(&wallet, &registry.deregister(id), PATIENCE).await.expect("mined");
    assert_eq!(refused(creator, registry.deregister(id)).await.0, "chain.tool_deregistered");
}

#[tokio::test]
async fn on_a_local_chain_with_a_public_number_only_development_accounts_sign() {
    for node in Node::each(8453).await {
        on_a_local_chain_with_a_public_number_only_development_accounts_sign_on(node).await;
    }
}

async fn on_a_local_chain_with_a_public_number_only_development_accounts_sign_on(anvil: Node) {
    let chain: Chain = anvil.chain().await;
    assert_eq!(Scope::of(&chain).await.expect("known").place(), ChainKind::Impersonated);
    let own = own_wallet();
    set_balance(&chain, own.address(), U256::from(10).pow(U256::from(18))).await;
    let error = chain.send(&own, &gift(Address::repeat_byte(1)), PATIENCE).await;
    assert_eq!(code(error), "wallet.dev_chain");
    chain
        .send(&LocalWallet::development(9).expect("a phrase"), &gift(Address::repeat_byte(1)), PATIENCE)
        .await
        .expect("one of the ten");
    let Some(local) = Node::each(31_337).await.into_iter().next() else { return };
    assert_eq!(Scope::of(&local.chain().await).await.expect("known").place(), ChainKind::Development);
}
