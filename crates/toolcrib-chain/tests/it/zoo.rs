//! Hostile predicates on a real node: none of them grants access, crashes or stalls the client, and each has its own code.

use std::time::Instant;

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolError, SolValue};
use serde_json::json;
use toolcrib_chain::predicate::{
    ADMIN_SLOT, BEACON_SLOT, Erc165, IMPLEMENTATION_SLOT, InitCode, Opaque, Pin, ProxyKind, Requirements, introspect, upgrades,
};
use toolcrib_chain::registry::{AccessResult, Registry};
use toolcrib_chain::rpc::Chain;
use toolcrib_chain::wallet::DEV_ACCOUNTS;

use toolcrib_testkit::nodes::{Node, deploy, dev, send, set_code};

/// Code that returns these bytes from every call: a short loader, followed by the bytes.
fn returns(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("short").to_be_bytes();
    // PUSH4 length, DUP1, PUSH1 14, PUSH1 0, CODECOPY, PUSH1 0, RETURN
    let head = [&[0x63][..], &length, &[0x80, 0x60, 14, 0x60, 0, 0x39, 0x60, 0, 0xf3]].concat();
    assert_eq!(head.len(), 14);
    [head, bytes.to_vec()].concat()
}

/// Code that returns `count` zero bytes.
fn returns_zeros(count: u32) -> Vec<u8> {
    [&[0x63][..], &count.to_be_bytes(), &[0x60, 0, 0xf3]].concat()
}

/// Code that forwards calls with long arguments to another contract and returns one word of its return data. Calls with short
/// arguments, such as those of ERC-165, revert.
fn forwards(to: Address) -> Vec<u8> {
    let refuse_short = [0x60, 0x64, 0x36, 0x10, 0x15, 0x60, 0x0d, 0x57, 0x60, 0, 0x60, 0, 0xfd, 0x5b];
    let head = [0x36, 0x60, 0, 0x60, 0, 0x37, 0x60, 0x20, 0x60, 0, 0x36, 0x60, 0, 0x73];
    [&refuse_short[..], &head, to.as_slice(), &[0x5a, 0xfa, 0x60, 0x20, 0x60, 0, 0xf3]].concat()
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| U256::from(*value).to_be_bytes::<32>()).collect()
}

/// Code that returns true from every short call, such as those of ERC-165, and reverts the others.
fn claims_everything() -> Vec<u8> {
    vec![
        0x60, 0x64, 0x36, 0x10, 0x60, 0x0c, 0x57, 0x60, 0, 0x60, 0, 0xfd, 0x5b, 0x60, 1, 0x60, 0, 0x52, 0x60, 0x20, 0x60, 0, 0xf3,
    ]
}

/// Code that loops `rounds` times, at 26 gas each, and then returns true: PUSH2 n; JUMPDEST; PUSH1 1; SWAP1; SUB; DUP1; PUSH1 3;
/// JUMPI; return 1.
fn slow(rounds: u16) -> Vec<u8> {
    let [high, low] = rounds.to_be_bytes();
    vec![0x61, high, low, 0x5b, 0x60, 1, 0x90, 0x03, 0x80, 0x60, 3, 0x57, 0x60, 1, 0x60, 0, 0x52, 0x60, 0x20, 0x60, 0, 0xf3]
}

struct Animal {
    name: &'static str,
    code: Vec<u8>,
    /// The expected result of an access check.
    access: &'static str,
    /// The expected result of reading the requirements.
    requirements: &'static str,
    /// The code that tells it from the others.
    own: &'static str,
}

fn zoo(registry: Address) -> Vec<Animal> {
    let animal = |name, code, access, requirements, own| Animal { name, code, access, requirements, own };
    let asked = |name, code, access, requirements| animal(name, code, access, requirements, access);
    let listed = |name, code, access, requirements| animal(name, code, access, requirements, requirements);
    let malformed = "predicate.requirements_malformed";
    let long = "predicate.answer_long";
    vec![
        asked("reverts", vec![0x60, 0, 0x60, 0, 0xfd], "predicate.reverted", "predicate.requirements_reverted"),
        asked("burns gas", vec![0x5b, 0x60, 0, 0x56], "predicate.out_of_gas", "predicate.requirements_out_of_gas"),
        asked("invalid opcode", vec![0xfe], "predicate.halted", "predicate.requirements_halted"),
        asked("returns nothing", vec![0x00], "predicate.answer_empty", malformed),
        asked("returns 2", returns(&words(&[2])), "predicate.answer_not_bool", malformed),
        asked("returns a huge word", returns(&[0xff; 32]), "predicate.answer_not_bool", malformed),
        asked("returns 31 bytes", returns(&words(&[1])[1..]), "predicate.answer_short", malformed),
        asked("returns 33 bytes", returns(&[words(&[1]), vec![0]].concat()), long, malformed),
        asked("returns 64 bytes of yes", returns(&words(&[1, 1])), long, malformed),
        asked("returns 5,000 bytes", returns_zeros(5_000), "predicate.answer_huge", malformed),
        // The registry's gas does not pay for that many bytes; the second call with more gas shows them.
        asked("returns a million bytes", returns_zeros(1_000_000), "predicate.answer_huge", malformed),
        asked("returns two million bytes", returns_zeros(2_000_000), "predicate.answer_huge", "predicate.requirements_huge"),
        asked(
            "returns four thousand million bytes",
            returns_zeros(u32::MAX),
            "predicate.out_of_gas",
            "predicate.requirements_out_of_gas",
        ),
        asked("needs 312,000 gas", slow(12_000), "predicate.needs_more_gas", malformed),
        asked("recurses into the registry", forwards(registry), "predicate.reentered", "predicate.requirements_reverted"),
        animal("claims every interface", claims_everything(), "predicate.reverted", malformed, "predicate.lies_about_erc165"),
        listed("claims a million requirements", returns(&words(&[64, 0, 1_000_000])), long, "predicate.too_many_requirements"),
        listed("claims data of 10 MiB", returns(&words(&[64, 0, 1, 32, 0, 96, 96, 10 << 20])), long, "predicate.data_too_long"),
        listed(
            "claims a label of 10 MiB",
            returns(&words(&[64, 0, 1, 32, 0, 96, 128, 0, 10 << 20])),
            long,
            "predicate.label_too_long",
        ),
        listed("points beyond its answer", returns(&[words(&[64, 0, 1]), vec![0xff; 32]].concat()), long, malformed),
        listed("knows a third logic", returns(&words(&[64, 2, 0])), long, malformed),
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
    let registry = Registry::new(chain.clone(), deploy(&chain, "ToolRegistry", &[]).await);
    for (at, animal) in (1..).zip(zoo(registry.address())) {
        let name = animal.name;
        let address = Address::with_last_byte(at).wrapping_next();
        set_code(&chain, address, &animal.code).await;
        let started = Instant::now();
        let seen = introspect(&chain, address, U256::from(1)).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        toolcrib_testkit::assert_not_hung(started, name);
        let is_liar = name == "claims every interface";
        assert_eq!(seen.erc165 == Erc165::Predicate, is_liar, "{name}");
        assert_eq!((&seen.name, &seen.version), (&None, &None), "{name}");
        let class = match seen.requirements {
            Requirements::Failed => "predicate.introspection_failed",
            Requirements::OverLimit => "predicate.introspection_over_limit",
            ref other => panic!("{name}: {other:?}"),
        };
        let claim = if is_liar { "predicate.lies_about_erc165" } else { "predicate.not_advertised" };
        let codes: Vec<_> = seen.codes().iter().map(|code| code.id()).collect();
        assert_eq!(codes, [claim, class, animal.requirements, "predicate.name_missing"], "{name}");
        assert!(!seen.is_complete(), "{name}");
        let id = register(&registry, address).await;
        let started = Instant::now();
        let access = registry.access(id, DEV_ACCOUNTS[1], Bytes::new()).await.expect("an answer");
        // The innermost call of the recursion gets too little gas, and the registry's hasAccess turns that into a plain "no".
        let expected = if name.starts_with("recurses") { AccessResult::Denied } else { AccessResult::Malfunction };
        assert_eq!(access, expected, "{name}");
        let diagnosis = registry.explain(id, DEV_ACCOUNTS[1], Bytes::new(), access).await.expect("a reason");
        let diagnosis = diagnosis.unwrap_or_else(|| panic!("{name}: no reason"));
        assert_eq!(diagnosis.code().id(), animal.access, "{name}: {diagnosis}");
        toolcrib_testkit::assert_not_hung(started, name);
    }
}

/// Each predicate that readers should be able to tell apart has a code of its own.
#[test]
fn each_animal_has_its_own_code() {
    let zoo = zoo(Address::repeat_byte(0xaa));
    let own = |name: &str| zoo.iter().find(|animal| animal.name == name).expect("in the zoo").own;
    let names = [
        "reverts",
        "burns gas",
        "invalid opcode",
        "returns nothing",
        "returns 2",
        "returns 31 bytes",
        "returns 33 bytes",
        "returns a million bytes",
        "needs 312,000 gas",
        "recurses into the registry",
        "claims every interface",
        "claims a million requirements",
        "claims data of 10 MiB",
        "claims a label of 10 MiB",
        "points beyond its answer",
    ];
    let codes: std::collections::HashSet<_> = names.into_iter().map(own).collect();
    assert_eq!(codes.len(), names.len());
}

// req: REG-025, REG-036, PRED-028
#[tokio::test]
async fn a_reason_is_given_and_bounded_and_an_honest_no_has_none() {
    for node in Node::each(31_337).await {
        a_reason_is_given_and_bounded_and_an_honest_no_has_none_on(node).await;
    }
}

async fn a_reason_is_given_and_bounded_and_an_honest_no_has_none_on(anvil: Node) {
    let chain = anvil.chain().await;
    let registry = deploy(&chain, "ToolRegistry", &[]).await;
    let registry = Registry::new(chain.clone(), registry);
    let check = async |code: &[u8], last: u8, expected: Option<&str>| {
        let predicate = Address::with_last_byte(last).wrapping_next();
        set_code(&chain, predicate, code).await;
        let id = register(&registry, predicate).await;
        let answer = registry.access(id, DEV_ACCOUNTS[1], Bytes::new()).await.expect("an answer");
        let found = registry.explain(id, DEV_ACCOUNTS[1], Bytes::new(), answer).await.expect("a look");
        assert_eq!(found.as_ref().map(|found| found.code().id()), expected, "{answer:?}");
        found.map(|found| found.to_string()).unwrap_or_default()
    };
    check(&[], 1, Some("predicate.no_code")).await;
    check(&returns(&words(&[0])), 2, None).await;
    check(&returns(&words(&[1])), 3, None).await;
    // Reverts with a long text that contains an escape character.
    let shouts = |length| {
        let text = alloy_sol_types::Revert::from(format!("\u{1b}[2J{}", "x".repeat(length))).abi_encode();
        let mut code = returns(&text);
        code[13] = 0xfd;
        code
    };
    let said = check(&shouts(1_000), 4, Some("predicate.reverted")).await;
    assert!(said.contains("xxx") && said.len() < 500 && !said.contains('\u{1b}'), "{said}");
    // Asking the registry about another tool is a composition, not a recursion.
    let elsewhere = [
        &[0x60, 0x64, 0x36, 0x10, 0x15, 0x60, 0x0d, 0x57, 0x60, 0, 0x60, 0, 0xfd, 0x5b][..],
        // Forwards the calldata, but with tool id 1, whose predicate has no code.
        &[0x36, 0x60, 0, 0x60, 0, 0x37, 0x60, 1, 0x60, 4, 0x52, 0x60, 0x20, 0x60, 0, 0x36, 0x60, 0, 0x73],
        registry.address().as_slice(),
        &[0x5a, 0xfa, 0x60, 0x20, 0x60, 0, 0xf3],
    ]
    .concat();
    check(&elsewhere, 5, None).await;
    check(&shouts(10_000), 6, Some("predicate.answer_huge")).await;
}

// req: PRED-027
#[tokio::test]
async fn a_predicate_is_pinned_by_more_than_its_running_code() {
    for node in Node::each(31_337).await {
        a_predicate_is_pinned_by_more_than_its_running_code_on(node).await;
    }
}

async fn a_predicate_is_pinned_by_more_than_its_running_code_on(anvil: Node) {
    let chain = anvil.chain().await;
    // Two contracts with the same code, which returns their first storage slot: one grants access to all, one to none.
    let code = [0x60, 0, 0x54, 0x60, 0, 0x52, 0x60, 0x20, 0x60, 0, 0xf3];
    let (open, closed) = (Address::repeat_byte(0x71), Address::repeat_byte(0x72));
    set_code(&chain, open, &code).await;
    set_code(&chain, closed, &code).await;
    let yes = B256::with_last_byte(1);
    dev(&chain, "anvil_setStorageAt", json!([open, B256::ZERO, yes])).await;
    let verdict = async |pin: &Pin, address| {
        let found = pin.check(&chain, address).await.expect("an answer");
        if let Some(found) = &found {
            assert!(!found.to_string().is_empty());
        }
        found.map_or("as pinned", |found| found.code().id())
    };
    let code_hash = alloy_primitives::keccak256(code);
    let runtime = Pin { code_hash, init_code: None, storage: vec![], is_storage_free: false };
    assert_eq!(verdict(&runtime, open).await, "predicate.pin_weak");
    let with_storage = Pin { storage: vec![(B256::ZERO, yes)], ..runtime.clone() };
    assert_eq!(verdict(&with_storage, open).await, "as pinned");
    assert_eq!(verdict(&with_storage, closed).await, "predicate.pin_storage", "equal code, other storage");
    let other = Pin { code_hash: B256::ZERO, ..with_storage.clone() };
    assert_eq!(verdict(&other, open).await, "predicate.pin_code");
    assert_eq!(verdict(&with_storage, Address::repeat_byte(0x73)).await, "predicate.pin_code", "no code at all");
    assert_eq!(verdict(&Pin { is_storage_free: true, ..runtime.clone() }, open).await, "as pinned", "somebody vouches for it");

    let init = InitCode { deployer: Address::repeat_byte(1), salt: B256::ZERO, hash: B256::repeat_byte(2) };
    let made = init.deployer.create2(init.salt, init.hash);
    set_code(&chain, made, &code).await;
    let by_init = Pin { init_code: Some(init), ..runtime.clone() };
    assert_eq!(verdict(&by_init, made).await, "as pinned");
    assert_eq!(verdict(&by_init, open).await, "predicate.pin_init_code");
    // The proxy's own code stays the same while its implementation changes.
    dev(&chain, "anvil_setStorageAt", json!([made, IMPLEMENTATION_SLOT, Address::repeat_byte(7).into_word()])).await;
    assert_eq!(verdict(&by_init, made).await, "predicate.pin_weak");
    let target = vec![(IMPLEMENTATION_SLOT, Address::repeat_byte(7).into_word())];
    assert_eq!(verdict(&Pin { storage: target, ..by_init }, made).await, "as pinned");
}

trait Next {
    fn wrapping_next(self) -> Self;
}

impl Next for Address {
    /// Changes an address so that it is not a precompile.
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

    // A contract that implements ERC-165, but not the interface of predicates, such as the registry.
    let registry = deploy(&chain, "ToolRegistry", &[]).await;
    assert_eq!(codes(registry).await[0], "predicate.not_a_predicate");

    let denier = deploy(&chain, "DenyAllPredicate", &[]).await;
    assert_eq!(codes(denier).await, [""; 0]);
    let seen = introspect(&chain, denier, U256::from(1)).await.expect("an answer");
    assert_eq!(seen.name, Some(Opaque::from("DenyAllPredicate")));
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

    let upgradeable = deploy(&chain, "TestProxy", &denier.abi_encode()).await;
    let seen = introspect(&chain, upgradeable, U256::from(1)).await.expect("an answer");
    assert_eq!(seen.proxy.map(|proxy| (proxy.kind, proxy.target)), Some((ProxyKind::Implementation, denier)));
    let announced = upgrades(&chain, upgradeable, 0, chain.block_number().await.expect("a number")).await.expect("logs");
    assert_eq!(announced.iter().map(|upgrade| upgrade.target).collect::<Vec<_>>(), [denier]);

    for (slot, kind) in
        [(ADMIN_SLOT, ProxyKind::Admin), (BEACON_SLOT, ProxyKind::Beacon), (IMPLEMENTATION_SLOT, ProxyKind::Implementation)]
    {
        dev(&chain, "anvil_setStorageAt", json!([denier, slot, Address::repeat_byte(7).into_word()])).await;
        assert_eq!(codes(denier).await, ["predicate.is_proxy"], "{kind:?}");
        let seen = introspect(&chain, denier, U256::from(1)).await.expect("an answer");
        assert_eq!(seen.proxy.map(|proxy| (proxy.kind, proxy.target)), Some((kind, Address::repeat_byte(7))));
    }
}

// req: REG-043, REG-031, REG-032, REG-033
#[tokio::test]
async fn a_registry_is_pinned_by_its_code() {
    for node in Node::each(31_337).await {
        a_registry_is_pinned_by_its_code_on(node).await;
    }
}

async fn a_registry_is_pinned_by_its_code_on(anvil: Node) {
    let chain = anvil.chain().await;
    let address = deploy(&chain, "ToolRegistry", &[]).await;
    let registry = Registry::new(chain.clone(), address);
    let report = registry.inspect().await.expect("a registry");
    assert!(report.is_advertised && report.proxy.is_none());
    assert_eq!(report.name, Some(Opaque::from("ToolRegistry")));
    assert_eq!(report.codes(), []);
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
    let (within, beyond) = (Address::repeat_byte(0x61), Address::repeat_byte(0x62));
    // About 29,000 gas, and about 36,000.
    set_code(&chain, within, &slow(1_110)).await;
    set_code(&chain, beyond, &slow(1_400)).await;
    let seen = introspect(&chain, within, U256::from(1)).await.expect("an answer");
    assert_eq!(seen.erc165, Erc165::Predicate);
    let seen = introspect(&chain, beyond, U256::from(1)).await.expect("an answer");
    assert_eq!(seen.erc165, Erc165::NotAdvertised, "36,000 gas are more than ERC-165 allows");
}
