//! Hostile predicates on a real node: none of them grants, crashes or stalls the client, and each has its own status.

use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::SolValue;
use serde_json::json;
use toolcrib_chain::predicate::{
    ADMIN_SLOT, BEACON_SLOT, Erc165, IMPLEMENTATION_SLOT, ProxyKind, Requirements, introspect, upgrades,
};
use toolcrib_chain::registry::{Access, Registry};
use toolcrib_chain::rpc::Chain;
use toolcrib_chain::wallet::DEV_ACCOUNTS;

use crate::node::{Node, deploy, dev, send, set_code};

/// Code that returns these bytes to every call: a short loader, and the bytes behind it.
fn returns(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("short").to_be_bytes();
    // PUSH4 length, DUP1, PUSH1 14, PUSH1 0, CODECOPY, PUSH1 0, RETURN
    let head = [&[0x63][..], &length, &[0x80, 0x60, 14, 0x60, 0, 0x39, 0x60, 0, 0xf3]].concat();
    assert_eq!(head.len(), 14);
    [head, bytes.to_vec()].concat()
}

/// Code that returns so many zero bytes.
fn returns_zeros(count: u32) -> Vec<u8> {
    [&[0x63][..], &count.to_be_bytes(), &[0x60, 0, 0xf3]].concat()
}

/// Code that hands a call with long arguments on to another contract and returns one word of the answer. Questions with short
/// arguments, such as those of ERC-165, it refuses.
fn forwards(to: Address) -> Vec<u8> {
    let refuse_short = [0x60, 0x64, 0x36, 0x10, 0x15, 0x60, 0x0d, 0x57, 0x60, 0, 0x60, 0, 0xfd, 0x5b];
    let head = [0x36, 0x60, 0, 0x60, 0, 0x37, 0x60, 0x20, 0x60, 0, 0x36, 0x60, 0, 0x73];
    [&refuse_short[..], &head, to.as_slice(), &[0x5a, 0xfa, 0x60, 0x20, 0x60, 0, 0xf3]].concat()
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| U256::from(*value).to_be_bytes::<32>()).collect()
}

struct Animal {
    name: &'static str,
    code: Vec<u8>,
    requirements: Option<Requirements>,
    codes: &'static [&'static str],
}

fn zoo(registry: Address) -> Vec<Animal> {
    use Requirements::{Failed, OverLimit};
    const FAILED: &[&str] = &["predicate.not_advertised", "predicate.introspection_failed", "predicate.name_missing"];
    const OVER: &[&str] = &["predicate.not_advertised", "predicate.introspection_over_limit", "predicate.name_missing"];
    let animal = |name, code, requirements, codes| Animal { name, code, requirements: Some(requirements), codes };
    vec![
        animal("reverts", vec![0x60, 0, 0x60, 0, 0xfd], Failed, FAILED),
        animal("burns gas", vec![0x5b, 0x60, 0, 0x56], Failed, FAILED),
        animal("invalid opcode", vec![0xfe], Failed, FAILED),
        animal("returns nothing", vec![0x00], Failed, FAILED),
        animal("returns 2", returns(&words(&[2])), Failed, FAILED),
        animal("returns 31 bytes", returns(&words(&[1])[1..]), Failed, FAILED),
        animal("returns 33 bytes", returns(&[words(&[1]), vec![0]].concat()), Failed, FAILED),
        animal("returns 64 bytes of yes", returns(&words(&[1, 1])), Failed, FAILED),
        animal("returns a huge word", returns(&[0xff; 32]), Failed, FAILED),
        animal("returns a million bytes", returns_zeros(1_000_000), Failed, FAILED),
        animal("returns two million bytes", returns_zeros(2_000_000), OverLimit, OVER),
        animal("returns four thousand million bytes", returns_zeros(u32::MAX), Failed, FAILED),
        animal("recurses into the registry", forwards(registry), Failed, FAILED),
        animal("claims a million requirements", returns(&words(&[64, 0, 1_000_000])), OverLimit, OVER),
        animal("claims a label of 10 MiB", returns(&words(&[64, 0, 1, 32, 0, 96, 96, 10 << 20])), OverLimit, OVER),
        animal("points beyond its answer", returns(&[words(&[64, 0, 1]), vec![0xff; 32]].concat()), Failed, FAILED),
        animal("knows a third logic", returns(&words(&[64, 2, 0])), Failed, FAILED),
    ]
}

async fn register(registry: &Registry, predicate: Address) -> U256 {
    let call = registry.register("https://tools.example/x", B256::repeat_byte(1), Some(predicate));
    send(registry.chain(), Some(registry.address()), call.data).await;
    registry.tool_count().await.expect("a number")
}

// req: HARDEN-014, HARDEN-015, HARDEN-016, HARDEN-017, REG-024, REG-025, REG-026
#[tokio::test]
async fn no_hostile_predicate_grants_crashes_or_stalls() {
    for node in Node::each(31_337).await {
        no_hostile_predicate_grants_crashes_or_stalls_on(node).await;
    }
}

async fn no_hostile_predicate_grants_crashes_or_stalls_on(anvil: Node) {
    let chain = anvil.chain().await;
    let registry = deploy(&chain, "ToolRegistry", &[]).await.map(|address| Registry::new(chain.clone(), address));
    let registry_address = registry.as_ref().map_or(Address::repeat_byte(0xaa), Registry::address);
    for (at, animal) in (1..).zip(zoo(registry_address)) {
        let address = Address::with_last_byte(at).wrapping_next();
        set_code(&chain, address, &animal.code).await;
        let started = Instant::now();
        let seen = introspect(&chain, address, U256::from(1)).await.unwrap_or_else(|error| panic!("{}: {error}", animal.name));
        assert!(started.elapsed() < Duration::from_secs(8), "{} took {:?}", animal.name, started.elapsed());
        assert_eq!(seen.erc165, Erc165::NotAdvertised, "{}", animal.name);
        assert_eq!((seen.name, seen.version), (None, None), "{}", animal.name);
        let seen = introspect(&chain, address, U256::from(1)).await.expect("again");
        if let Some(expected) = &animal.requirements {
            assert_eq!(&seen.requirements, expected, "{}", animal.name);
        }
        let codes: Vec<_> = seen.codes().iter().map(|code| code.id()).collect();
        assert_eq!(codes, animal.codes, "{}", animal.name);
        assert!(!seen.is_complete(), "{}", animal.name);
        if let Some(registry) = &registry {
            let id = register(registry, address).await;
            let started = Instant::now();
            let access = registry.access(id, DEV_ACCOUNTS[1], Bytes::new()).await.expect("an answer");
            // The innermost call of the recursion gets too little gas, and the registry's hasAccess makes a plain no of that.
            let expected = if animal.name.starts_with("recurses") { Access::Denied } else { Access::Malfunction };
            assert_eq!(access, expected, "{}", animal.name);
            assert!(started.elapsed() < Duration::from_secs(5), "{} took {:?}", animal.name, started.elapsed());
        }
    }
}

trait Next {
    fn wrapping_next(self) -> Self;
}

impl Next for Address {
    /// Moves an address away from the precompiled contracts.
    fn wrapping_next(mut self) -> Self {
        self.0[0] = 0x20;
        self
    }
}

// req: PRED-028, PRED-015, REG-010, REG-013, REG-030, REG-043
#[tokio::test]
async fn each_state_of_a_predicate_has_its_own_code() {
    for node in Node::each(31_337).await {
        each_state_of_a_predicate_has_its_own_code_on(node).await;
    }
}

async fn each_state_of_a_predicate_has_its_own_code_on(anvil: Node) {
    let chain = anvil.chain().await;
    let codes = async |address: Address| -> Vec<&'static str> {
        introspect(&chain, address, U256::from(1)).await.expect("an answer").codes().iter().map(|code| code.id()).collect()
    };
    let nobody = Address::repeat_byte(0x51);
    assert_eq!(codes(nobody).await, ["predicate.no_code"]);

    // Speaks ERC-165 to every question but that for predicates: exactly what the registry's own address does.
    let Some(registry) = deploy(&chain, "ToolRegistry", &[]).await else { return };
    assert_eq!(codes(registry).await[0], "predicate.not_a_predicate");

    let Some(denier) = deploy(&chain, "DenyAllPredicate", &[]).await else { return };
    assert_eq!(codes(denier).await, [""; 0]);
    let seen = introspect(&chain, denier, U256::from(1)).await.expect("an answer");
    assert_eq!(seen.name.as_deref(), Some("DenyAllPredicate"));
    assert!(seen.is_complete() && seen.erc165 == Erc165::Predicate);

    let minimal = [
        &[0x36, 0x3d, 0x3d, 0x37, 0x3d, 0x3d, 0x3d, 0x36, 0x3d, 0x73][..],
        denier.as_slice(),
        &[0x5a, 0xf4, 0x3d, 0x82, 0x80, 0x3e, 0x90, 0x3d, 0x91, 0x60, 0x2b, 0x57, 0xfd, 0x5b, 0xf3],
    ]
    .concat();
    let proxy = Address::repeat_byte(0x52);
    set_code(&chain, proxy, &minimal).await;
    let seen = introspect(&chain, proxy, U256::from(1)).await.expect("an answer");
    assert_eq!(seen.proxy.map(|proxy| (proxy.kind, proxy.target)), Some((ProxyKind::Minimal, denier)));
    assert_eq!(codes(proxy).await, [""; 0], "a minimal proxy stays what it is");

    if let Some(upgradeable) = deploy(&chain, "TestProxy", &denier.abi_encode()).await {
        let seen = introspect(&chain, upgradeable, U256::from(1)).await.expect("an answer");
        assert_eq!(seen.proxy.map(|proxy| (proxy.kind, proxy.target)), Some((ProxyKind::Implementation, denier)));
        let announced = upgrades(&chain, upgradeable, 0, chain.block_number().await.expect("a number")).await.expect("logs");
        assert_eq!(announced.iter().map(|upgrade| upgrade.target).collect::<Vec<_>>(), [denier]);
    }

    for (slot, kind) in
        [(ADMIN_SLOT, ProxyKind::Admin), (BEACON_SLOT, ProxyKind::Beacon), (IMPLEMENTATION_SLOT, ProxyKind::Implementation)]
    {
        dev(&chain, "anvil_setStorageAt", json!([denier, slot, Address::repeat_byte(7).into_word()])).await;
        assert_eq!(codes(denier).await, ["predicate.is_proxy"], "{kind:?}");
        let seen = introspect(&chain, denier, U256::from(1)).await.expect("an answer");
        assert_eq!(seen.proxy.map(|proxy| (proxy.kind, proxy.target)), Some((kind, Address::repeat_byte(7))));
    }
}

// req: REG-043, REG-031, REG-033
#[tokio::test]
async fn a_registry_is_pinned_by_its_code() {
    for node in Node::each(31_337).await {
        a_registry_is_pinned_by_its_code_on(node).await;
    }
}

async fn a_registry_is_pinned_by_its_code_on(anvil: Node) {
    let chain = anvil.chain().await;
    let Some(address) = deploy(&chain, "ToolRegistry", &[]).await else { return };
    let registry = Registry::new(chain.clone(), address);
    let report = registry.inspect().await.expect("a registry");
    assert!(report.is_advertised && report.proxy.is_none());
    assert_eq!(report.name.as_deref(), Some("ToolRegistry"));
    assert!(report.version.is_some());
    registry.check_pin(report.code_hash).await.expect("the pinned code");
    let error = registry.check_pin(B256::ZERO).await.expect_err("another hash");
    assert_eq!(error.code().id(), "chain.registry_code");
    dev(&chain, "anvil_setStorageAt", json!([address, IMPLEMENTATION_SLOT, Address::repeat_byte(7).into_word()])).await;
    let error = registry.check_pin(report.code_hash).await.expect_err("the same code, but a proxy");
    assert_eq!(error.code().id(), "chain.not_a_registry");
    let nobody = Registry::new(chain, Address::repeat_byte(0x53));
    assert_eq!(nobody.inspect().await.expect_err("nobody").code().id(), "chain.not_a_registry");
}

// req: REG-012
#[tokio::test]
async fn a_slow_but_conforming_answer_is_heard() {
    for node in Node::each(31_337).await {
        a_slow_but_conforming_answer_is_heard_on(node).await;
    }
}

async fn a_slow_but_conforming_answer_is_heard_on(anvil: Node) {
    let chain: Chain = anvil.chain().await;
    // Loops until about 29,000 gas are used, then says yes: PUSH2 n; JUMPDEST; PUSH1 1; SWAP1; SUB; DUP1; PUSH1 3; JUMPI; return 1.
    let slow = |rounds: u16| {
        let [high, low] = rounds.to_be_bytes();
        vec![0x61, high, low, 0x5b, 0x60, 1, 0x90, 0x03, 0x80, 0x60, 3, 0x57, 0x60, 1, 0x60, 0, 0x52, 0x60, 0x20, 0x60, 0, 0xf3]
    };
    let (within, beyond) = (Address::repeat_byte(0x61), Address::repeat_byte(0x62));
    // A round costs 26 gas.
    set_code(&chain, within, &slow(1_110)).await;
    set_code(&chain, beyond, &slow(1_400)).await;
    let seen = introspect(&chain, within, U256::from(1)).await.expect("an answer");
    assert_eq!(seen.erc165, Erc165::Predicate);
    let seen = introspect(&chain, beyond, U256::from(1)).await.expect("an answer");
    assert_eq!(seen.erc165, Erc165::NotAdvertised, "36,000 gas are more than ERC-165 allows");
}
