//! A tool's whole life cycle, and every predicate, with the real contracts on a real node.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, SolValue};
use futures_util::TryStreamExt;
use toolcrib_chain::predicate::{
    AccessProofPredicate, CompositeOp, CompositePredicate, CompositeTerm, Erc20Gate, Erc20Predicate, Erc721Predicate,
    Erc1155Gate, Erc1155Predicate, Limits, Meaning, MerklePredicate, REQUIREMENTS_GAS, Requirements, SubscriptionGate,
    SubscriptionPredicate, TraitGate, TraitPredicate, check_registry, introspect, proof_kind, registry_of,
};
use toolcrib_chain::registry::{AccessResult, EventFilter, Registry, RegistryEvent, ToolState};
use toolcrib_chain::rpc::{BoundedCall, CallOutcome, Chain};
use toolcrib_chain::settlement::Trail;
use toolcrib_chain::sign::{
    AccessProof, Domain, StrictSignature, TransferAuthorization, TransferKind, check_domain, check_signature,
};
use toolcrib_chain::transaction::Call;
use toolcrib_chain::wallet::{DEV_ACCOUNTS, LocalWallet, Scope, Wallet};
use toolcrib_core::money::Amount;
use toolcrib_core::registry::RequirementKind;
use toolcrib_x402::Authorization;

use toolcrib_testkit::nodes::{Node, deploy, send, set_code};

const HOLDER: Address = DEV_ACCOUNTS[3];
const STRANGER: Address = DEV_ACCOUNTS[4];

struct World {
    _node: Node,
    chain: Chain,
    registry: Registry,
    creator: LocalWallet,
}

/// Constructor arguments of a token.
fn named() -> Vec<u8> {
    ("Test", "T").abi_encode_params()
}

impl World {
    /// A registry on each kind of node.
    async fn each() -> Vec<Self> {
        let mut worlds = Vec::new();
        for node in Node::each(31_337).await {
            let chain = node.chain().await;
            let address = deploy(&chain, "ToolRegistry", &[]).await;
            let registry = Registry::new(chain.clone(), address);
            worlds.push(Self { _node: node, chain, registry, creator: LocalWallet::development(0).expect("a phrase") });
        }
        worlds
    }

    async fn write(&self, call: Call) {
        self.chain.send(&self.creator, &call, Duration::from_secs(20)).await.expect("mined");
    }

    /// Registers a tool with a predicate.
    async fn tool(&self, predicate: Option<Address>) -> U256 {
        self.write(self.registry.register("https://tools.example/x", B256::repeat_byte(1), predicate)).await;
        self.registry.tool_count().await.expect("a number")
    }

    /// Deploys a predicate that is bound to the registry.
    async fn predicate(&self, name: &str) -> Address {
        deploy(&self.chain, name, &self.registry.address().abi_encode()).await
    }

    async fn access(&self, id: U256, account: Address, data: Bytes) -> AccessResult {
        self.registry.access(id, account, data).await.expect("an answer")
    }

    /// Calls a function of a test contract that is missing in the bindings.
    async fn call(&self, to: Address, signature: &str, arguments: Vec<u8>) {
        let selector = &alloy_primitives::keccak256(signature)[..4];
        send(&self.chain, Some(to), [selector, &arguments].concat().into()).await;
    }

    async fn meanings(&self, predicate: Address, id: U256) -> Vec<Meaning> {
        let seen = introspect(&self.chain, predicate, id).await.expect("an answer");
        assert!(seen.codes().is_empty(), "{:?}", seen.codes());
        let Requirements::Listed { entries, .. } = seen.requirements else { panic!("{seen:?}") };
        entries.iter().map(Meaning::from).collect()
    }
}

// req: REG-001, REG-002, REG-003, REG-017, REG-018, REG-019, REG-020, REG-021, REG-029
#[tokio::test]
async fn the_life_of_a_tool() {
    for world in World::each().await {
        the_life_of_a_tool_on(world).await;
    }
}

async fn the_life_of_a_tool_on(world: World) {
    let registry = &world.registry;
    let start = world.chain.block_number().await.expect("a number") + 1;
    let id = world.tool(None).await;
    assert_eq!(id, U256::from(1));
    let config = registry.config(id).await.expect("there");
    assert_eq!(
        (config.creator, config.manifest_hash, config.access_predicate),
        (world.creator.address(), B256::repeat_byte(1), None)
    );
    assert_eq!(world.access(id, STRANGER, Bytes::from_static(b"ignored")).await, AccessResult::Granted);
    let (uri, hash) = ("https://tools.example/y", B256::repeat_byte(2));
    world.write(registry.update(id, uri, hash)).await;
    let nobody = Address::repeat_byte(0x33);
    world.write(registry.set_predicate(id, Some(nobody))).await;
    assert_eq!(world.access(id, STRANGER, Bytes::new()).await, AccessResult::Malfunction, "an address without code is not open");
    world.write(registry.set_predicate(id, None)).await;
    assert_eq!(registry.tool(id + U256::from(1)).await.expect("an answer"), ToolState::NotFound);
    world.write(registry.deregister(id)).await;
    assert_eq!(registry.tool(id).await.expect("an answer"), ToolState::Deregistered);
    assert_eq!(world.tool(None).await, U256::from(2), "ids are not used again");

    let end = world.chain.block_number().await.expect("a number");
    let pages: Vec<_> =
        registry.events(start, end, EventFilter { id: Some(id), creator: None }).try_collect().await.expect("pages");
    let events: Vec<_> = pages.into_iter().flat_map(|page| page.events).map(|logged| logged.event).collect();
    assert_eq!(
        events,
        [
            RegistryEvent::Registered {
                id,
                creator: world.creator.address(),
                predicate: Address::ZERO,
                uri: "https://tools.example/x".to_owned(),
                hash: B256::repeat_byte(1)
            },
            RegistryEvent::MetadataUpdated { id, uri: uri.to_owned(), hash },
            RegistryEvent::PredicateUpdated { id, predicate: nobody },
            RegistryEvent::PredicateUpdated { id, predicate: Address::ZERO },
            RegistryEvent::Deregistered { id },
        ]
    );
    let by_creator = EventFilter { creator: Some(world.creator.address()), ..EventFilter::default() };
    let pages: Vec<_> = registry.events(start, end, by_creator).try_collect().await.expect("pages");
    assert_eq!(pages.iter().map(|page| page.events.len()).sum::<usize>(), 2);
}

// req: PRED-020, PRED-021, PRED-022
#[tokio::test]
async fn a_signed_proof_opens_the_door_for_its_signer_only() {
    for world in World::each().await {
        a_signed_proof_opens_the_door_for_its_signer_only_on(world).await;
    }
}

async fn a_signed_proof_opens_the_door_for_its_signer_only_on(world: World) {
    let address = world.predicate("AccessProofPredicate").await;
    let predicate = AccessProofPredicate::new(world.chain.clone(), address);
    let id = world.tool(Some(address)).await;
    let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    let wallet = LocalWallet::development(3).expect("a phrase");
    let (proof, domain) = predicate.challenge(&world.registry, id, HOLDER, now + 300).await.expect("bound to the registry");
    assert_eq!(proof, AccessProof { tool_id: id, account: HOLDER, deadline: now + 300 });
    let digest = proof.digest(&domain);
    assert_eq!(predicate.digest(id, HOLDER, proof.deadline).await.expect("an answer"), digest, "as the contract computes it");
    let sign = async |proof: AccessProof, domain: &Domain| {
        let cleared = Scope::impersonated(domain.chain_id().to()).clear(&wallet).expect("allowed");
        wallet.sign_typed_data(&proof.typed_data(domain), cleared).await.expect("signed")
    };
    let signature = sign(proof, &domain).await;
    let data = AccessProofPredicate::data(proof.deadline, &signature);
    assert_eq!(world.access(id, HOLDER, data.clone()).await, AccessResult::Granted);
    assert_eq!(world.access(id, STRANGER, data.clone()).await, AccessResult::Denied, "the proof is its signer's");
    assert_eq!(world.access(id, HOLDER, Bytes::new()).await, AccessResult::Denied);
    assert_eq!(world.access(id, HOLDER, data.slice(..40)).await, AccessResult::Malfunction);
    let other = world.tool(Some(address)).await;
    assert_eq!(world.access(other, HOLDER, data).await, AccessResult::Denied, "the proof is for one tool");
    let late = AccessProof { deadline: now - 60, ..proof };
    let data = AccessProofPredicate::data(late.deadline, &sign(late, &domain).await);
    assert_eq!(world.access(id, HOLDER, data).await, AccessResult::Denied, "the deadline has passed");
    let elsewhere = sign(proof, &AccessProof::domain(1, address)).await;
    assert_eq!(world.access(id, HOLDER, AccessProofPredicate::data(proof.deadline, &elsewhere)).await, AccessResult::Denied);
    assert_eq!(world.meanings(address, id).await, [Meaning::AccessProof { verifier: address }]);
}

// All registries use the same ids. A proof for one registry's tool is not valid for another registry's tool with the same predicate,
// and nothing is signed for a predicate of another registry.
// req: PRED-020
#[tokio::test]
async fn a_proof_for_one_registry_is_worth_nothing_in_another() {
    for world in World::each().await {
        a_proof_for_one_registry_is_worth_nothing_in_another_on(world).await;
    }
}

async fn a_proof_for_one_registry_is_worth_nothing_in_another_on(world: World) {
    let address = world.predicate("AccessProofPredicate").await;
    let predicate = AccessProofPredicate::new(world.chain.clone(), address);
    let id = world.tool(Some(address)).await;
    let other = Registry::new(world.chain.clone(), deploy(&world.chain, "ToolRegistry", &[]).await);
    world.write(other.register("https://tools.example/x", B256::repeat_byte(1), Some(address))).await;
    assert_eq!(other.tool_count().await.expect("a number"), id, "the same id");

    let deadline = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs() + 300;
    let (proof, domain) = predicate.challenge(&world.registry, id, HOLDER, deadline).await.expect("bound to the registry");
    let wallet = LocalWallet::development(3).expect("a phrase");
    let cleared = Scope::impersonated(31_337).clear(&wallet).expect("allowed");
    let signature = wallet.sign_typed_data(&proof.typed_data(&domain), cleared).await.expect("signed");
    let data = AccessProofPredicate::data(deadline, &signature);
    assert_eq!(world.access(id, HOLDER, data.clone()).await, AccessResult::Granted);
    let answer = other.access(id, HOLDER, data.clone()).await.expect("an answer");
    assert_eq!(answer, AccessResult::Malfunction, "not granted, and told from a denial");
    let found = other.explain(id, HOLDER, data, answer).await.expect("a look").expect("a reason");
    assert_eq!(found.code().id(), "predicate.other_registry", "{found}");
    assert!(found.to_string().contains(&world.registry.address().to_string()), "{found}");

    // The other direction: no signature for the other registry's tool that would be valid in the first.
    let error = predicate.challenge(&other, id, HOLDER, deadline).await.expect_err("another registry");
    assert_eq!(error.code().id(), "predicate.other_registry", "{error}");
    check_registry(&world.registry, address).await.expect("its own");
    let error = check_registry(&other, address).await.expect_err("another registry");
    assert_eq!(error.code().id(), "predicate.other_registry", "{error}");
    // A predicate that states no registry is not bound to any.
    let unbound = deploy(&world.chain, "DenyAllPredicate", &[]).await;
    let unbound = AccessProofPredicate::new(world.chain.clone(), unbound);
    let error = unbound.challenge(&world.registry, id, HOLDER, deadline).await.expect_err("bound to nothing");
    assert_eq!(error.code().id(), "predicate.unbound_proof", "{error}");
    // A contract with the same answer to every call states no registry either, even if the answer looks like an address.
    let parrot = Address::repeat_byte(0x55);
    set_code(&world.chain, parrot, &[0x60, 7, 0x60, 0, 0x52, 0x60, 0x20, 0x60, 0, 0xf3]).await;
    assert_eq!(registry_of(&world.chain, parrot).await.expect("an answer"), None);
}

#[tokio::test]
async fn a_composite_refuses_terms_that_need_different_data_or_serve_another_registry() {
    for world in World::each().await {
        let address = world.predicate("CompositePredicate").await;
        let composite = CompositePredicate::new(world.chain.clone(), address);
        let id = world.tool(Some(address)).await;
        let term = |predicate| CompositeTerm { predicate, is_negated: false };
        let (signed, listed) = (world.predicate("AccessProofPredicate").await, world.predicate("MerkleAllowlistPredicate").await);
        assert_eq!(proof_kind(&world.chain, signed).await.expect("an answer"), Some(RequirementKind::AccessProof.id()));
        assert_eq!(proof_kind(&world.chain, listed).await.expect("an answer"), Some(RequirementKind::MerkleAllowlist.id()));
        let creator = world.creator.address();
        let refused = async |op, terms: &[CompositeTerm]| {
            world.chain.simulate(creator, &composite.set(id, op, terms)).await.map(drop).map_err(|error| error.to_string())
        };
        let error = refused(CompositeOp::All, &[term(signed), term(listed)]).await.expect_err("never grants");
        assert!(error.contains("TermsNeedDifferentData(0, 1)"), "{error}");
        refused(CompositeOp::Any, &[term(signed), term(listed)]).await.expect("one is enough");
        let other = deploy(&world.chain, "ToolRegistry", &[]).await;
        let foreign = deploy(&world.chain, "ERC721OwnerPredicate", &other.abi_encode()).await;
        let error = refused(CompositeOp::Any, &[term(foreign)]).await.expect_err("another registry");
        assert!(error.contains("TermServesAnotherRegistry(0, "), "{error}");
        assert_eq!(proof_kind(&world.chain, foreign).await.expect("an answer"), None);
    }
}

#[tokio::test]
async fn a_list_opens_the_door_for_those_on_it() {
    for world in World::each().await {
        a_list_opens_the_door_for_those_on_it_on(world).await;
    }
}

async fn a_list_opens_the_door_for_those_on_it_on(world: World) {
    let address = world.predicate("MerkleAllowlistPredicate").await;
    let predicate = MerklePredicate::new(world.chain.clone(), address);
    assert_eq!(registry_of(&world.chain, address).await.expect("an answer"), Some(world.registry.address()));
    let id = world.tool(Some(address)).await;
    assert_eq!(predicate.root(id).await.expect("an answer"), None);
    let list = [DEV_ACCOUNTS[1], DEV_ACCOUNTS[2], HOLDER];
    let root = MerklePredicate::root_of(&list).expect("a list");
    world.write(predicate.set_root(id, root)).await;
    assert_eq!(predicate.root(id).await.expect("an answer"), Some(root));
    for account in list {
        assert_eq!(
            world.access(id, account, MerklePredicate::data(&list, account).expect("on the list")).await,
            AccessResult::Granted
        );
    }
    assert_eq!(
        world.access(id, STRANGER, MerklePredicate::data(&list, HOLDER).expect("on the list")).await,
        AccessResult::Denied
    );
    assert_eq!(world.meanings(address, id).await, [Meaning::Merkle { root }]);
    let error = world.chain.simulate(STRANGER, &predicate.set_root(id, root)).await.expect_err("not the creator");
    assert!(error.to_string().contains("CallerIsNotToolCreator"), "{error}");
}

/// Two registries on one chain: a predicate bound to one is refused for the other, and an unbound predicate is accepted for both.
#[tokio::test]
async fn a_predicate_is_bound_to_the_registry_that_it_states() {
    for world in World::each().await {
        let other = Registry::new(world.chain.clone(), deploy(&world.chain, "ToolRegistry", &[]).await);
        let ours = world.predicate("ERC721OwnerPredicate").await;
        check_registry(&world.registry, ours).await.expect("its own registry");
        let error = check_registry(&other, ours).await.expect_err("another registry");
        assert_eq!(error.code().id(), "predicate.other_registry");
        let message = error.to_string();
        assert!(message.contains(&world.registry.address().to_string()), "{message}");
        assert!(message.contains(&other.address().to_string()) && message.contains(&ours.to_string()), "{message}");
        let unbound = deploy(&world.chain, "DenyAllPredicate", &[]).await;
        // PUSH1 1; PUSH1 0; MSTORE; PUSH1 32; PUSH1 0; RETURN: the same answer to every call, including REGISTRY().
        let fallback = Address::repeat_byte(0x21);
        set_code(&world.chain, fallback, &[0x60, 1, 0x60, 0, 0x52, 0x60, 32, 0x60, 0, 0xf3]).await;
        // INVALID uses up all gas.
        let broken = Address::repeat_byte(0x22);
        set_code(&world.chain, broken, &[0xfe]).await;
        for predicate in [unbound, fallback, broken, Address::repeat_byte(0x23)] {
            assert_eq!(registry_of(&world.chain, predicate).await.expect("an answer"), None, "{predicate}");
            check_registry(&other, predicate).await.expect("without REGISTRY()");
        }
    }
}

// req: PRED-010
#[tokio::test]
async fn a_composite_joins_predicates_and_never_grants_by_fault() {
    for world in World::each().await {
        a_composite_joins_predicates_and_never_grants_by_fault_on(world).await;
    }
}

async fn a_composite_joins_predicates_and_never_grants_by_fault_on(world: World) {
    let address = world.predicate("CompositePredicate").await;
    let denier = deploy(&world.chain, "DenyAllPredicate", &[]).await;
    let composite = CompositePredicate::new(world.chain.clone(), address);
    let id = world.tool(Some(address)).await;
    let term = |predicate, is_negated| CompositeTerm { predicate, is_negated };
    world.write(composite.set(id, CompositeOp::Any, &[term(denier, true)])).await;
    assert_eq!(composite.op(id).await.expect("an answer"), CompositeOp::Any);
    assert_eq!(composite.terms(id).await.expect("an answer"), [term(denier, true)]);
    assert_eq!(world.access(id, STRANGER, Bytes::new()).await, AccessResult::Granted, "not nobody is everybody");
    world.write(composite.set(id, CompositeOp::All, &[term(denier, false)])).await;
    assert_eq!(world.access(id, STRANGER, Bytes::new()).await, AccessResult::Denied);
    assert_eq!(world.meanings(address, id).await, [Meaning::DenyAll]);
    // A term that reverts, negated.
    let broken = Address::repeat_byte(0x44);
    toolcrib_testkit::nodes::set_code(&world.chain, broken, &[0x60, 0, 0x60, 0, 0xfd]).await;
    world.write(composite.set(id, CompositeOp::Any, &[term(broken, true)])).await;
    assert_ne!(world.access(id, STRANGER, Bytes::new()).await, AccessResult::Granted);
    let seen = introspect(&world.chain, address, id).await.expect("an answer");
    assert!(!seen.is_complete());
    assert_eq!(seen.codes().iter().map(|code| code.id()).collect::<Vec<_>>(), ["predicate.incomplete"]);
}

// req: PRED-009, PRED-030
#[tokio::test]
async fn holders_of_tokens_are_let_in() {
    for world in World::each().await {
        holders_of_tokens_are_let_in_on(world).await;
    }
}

async fn holders_of_tokens_are_let_in_on(world: World) {
    let chain = &world.chain;
    let on721 = world.predicate("ERC721OwnerPredicate").await;
    let on1155 = world.predicate("ERC1155OwnerPredicate").await;
    let on20 = world.predicate("ERC20BalancePredicate").await;
    let nft = deploy(chain, "TestERC721", &named()).await;
    let multi = deploy(chain, "TestERC1155", &"".abi_encode()).await;
    let coin = deploy(chain, "TestERC20", &("Coin", "C", U256::from(6)).abi_encode_params()).await;
    let five = U256::from(5);

    let gate = Erc721Predicate::new(chain.clone(), on721);
    let id = world.tool(Some(on721)).await;
    world.write(gate.set_collections(id, vec![nft])).await;
    assert_eq!(gate.collections(id).await.expect("an answer"), [nft]);
    assert_eq!(world.access(id, HOLDER, Bytes::new()).await, AccessResult::Denied);
    world.call(nft, "mint(address,uint256)", (HOLDER, five).abi_encode()).await;
    assert_eq!(world.access(id, HOLDER, Bytes::new()).await, AccessResult::Granted);
    assert_eq!(world.access(id, STRANGER, Bytes::new()).await, AccessResult::Denied);
    assert_eq!(world.meanings(on721, id).await, [Meaning::Erc721 { collection: nft }]);
    let error = chain.simulate(world.creator.address(), &gate.set_collections(id, vec![nft; 11])).await.expect_err("too many");
    assert!(error.to_string().contains("TooManyCollections(11"), "{error}");

    let gate = Erc1155Predicate::new(chain.clone(), on1155);
    let id = world.tool(Some(on1155)).await;
    let gates = vec![Erc1155Gate { collection: multi, token_ids: vec![U256::from(1), five] }];
    world.write(gate.set_gates(id, gates.clone())).await;
    assert_eq!(gate.gates(id).await.expect("an answer"), gates);
    assert_eq!(world.access(id, HOLDER, Bytes::new()).await, AccessResult::Denied);
    world.call(multi, "mint(address,uint256,uint256)", (HOLDER, five, U256::from(1)).abi_encode()).await;
    assert_eq!(world.access(id, HOLDER, Bytes::new()).await, AccessResult::Granted);
    let meanings = [1, 5].map(|token| Meaning::Erc1155 { collection: multi, token_id: U256::from(token) });
    assert_eq!(world.meanings(on1155, id).await, meanings);

    let gate = Erc20Predicate::new(chain.clone(), on20);
    let id = world.tool(Some(on20)).await;
    assert_eq!(gate.gate(id).await.expect("an answer"), None);
    let wanted = Erc20Gate { token: coin, min_balance: five };
    world.write(gate.set_gate(id, wanted)).await;
    assert_eq!(gate.gate(id).await.expect("an answer"), Some(wanted));
    world.call(coin, "mint(address,uint256)", (HOLDER, U256::from(4)).abi_encode()).await;
    assert_eq!(world.access(id, HOLDER, Bytes::new()).await, AccessResult::Denied);
    world.call(coin, "mint(address,uint256)", (HOLDER, U256::from(1)).abi_encode()).await;
    assert_eq!(world.access(id, HOLDER, Bytes::new()).await, AccessResult::Granted);
    assert_eq!(world.meanings(on20, id).await, [Meaning::Erc20 { token: coin, min_balance: five }]);
}

#[tokio::test]
async fn subscribers_and_owners_of_traits_are_let_in() {
    for world in World::each().await {
        subscribers_and_owners_of_traits_are_let_in_on(world).await;
    }
}

async fn subscribers_and_owners_of_traits_are_let_in_on(world: World) {
    let chain = &world.chain;
    let on_subscription = world.predicate("SubscriptionPredicate").await;
    let on_trait = world.predicate("TraitGatedPredicate").await;
    let subscription = deploy(chain, "TestSubscriptionNFT", &named()).await;
    let traits = deploy(chain, "TestTraitsNFT", &named()).await;
    let gate = SubscriptionPredicate::new(chain.clone(), on_subscription);
    assert_eq!(gate.registry().await.expect("an answer"), world.registry.address());
    let id = world.tool(Some(on_subscription)).await;
    let wanted = SubscriptionGate { collection: subscription, min_tier: 2 };
    world.write(gate.set_gate(id, wanted)).await;
    assert_eq!(gate.gate(id).await.expect("an answer"), Some(wanted));
    assert_eq!(world.access(id, HOLDER, Bytes::new()).await, AccessResult::Denied);
    let status = gate.status(id, HOLDER).await.expect("an answer");
    assert_eq!((status.has_token, status.required_tier, status.is_active), (false, 2, false));
    world.call(subscription, "subscribe(address,uint8,uint64)", (HOLDER, U256::from(2), u64::MAX).abi_encode()).await;
    assert_eq!(world.access(id, HOLDER, Bytes::new()).await, AccessResult::Granted);
    let status = gate.status(id, HOLDER).await.expect("an answer");
    assert_eq!((status.has_token, status.tier, status.expiration, status.is_active), (true, 2, u64::MAX, true));
    assert_eq!(world.meanings(on_subscription, id).await, [Meaning::Subscription { collection: subscription, min_tier: 2 }]);

    let gate = TraitPredicate::new(chain.clone(), on_trait);
    let id = world.tool(Some(on_trait)).await;
    assert_eq!(gate.gate(id).await.expect("an answer"), None);
    let wanted = TraitGate {
        collection: traits,
        traits,
        key: B256::repeat_byte(1),
        values: vec![B256::repeat_byte(2), B256::repeat_byte(3)],
    };
    world.write(gate.set_gate(id, wanted.clone())).await;
    assert_eq!(gate.gate(id).await.expect("an answer"), Some(wanted.clone()));
    assert_eq!(world.access(id, HOLDER, TraitPredicate::data(U256::from(1))).await, AccessResult::Denied);
    world.call(traits, "mint(address,uint256)", (HOLDER, U256::from(1)).abi_encode()).await;
    world.call(traits, "defineTrait(bytes32)", wanted.key.abi_encode()).await;
    world.call(traits, "setTrait(uint256,bytes32,bytes32)", (U256::from(1), wanted.key, wanted.values[1]).abi_encode()).await;
    assert_eq!(world.access(id, HOLDER, TraitPredicate::data(U256::from(1))).await, AccessResult::Granted);
    assert_eq!(world.access(id, STRANGER, TraitPredicate::data(U256::from(1))).await, AccessResult::Denied);
    let meaning = Meaning::Trait { collection: traits, traits, key: wanted.key, values: wanted.values };
    assert_eq!(world.meanings(on_trait, id).await, [meaning]);
}

// ERC-1271 accounts verify their own signatures; the token's domain is compared with ours.
#[tokio::test]
async fn payments_are_checked_against_the_token_and_the_account() {
    for world in World::each().await {
        payments_are_checked_against_the_token_and_the_account_on(world).await;
    }
}

async fn payments_are_checked_against_the_token_and_the_account_on(world: World) {
    let chain = &world.chain;
    let usdc = deploy(chain, "TestUSDC", &("USD Coin", "2").abi_encode_params()).await;
    let domain = Domain::new("USD Coin", "2", U256::from(31_337), usdc);
    let other = check_domain(chain, &Domain::new("USDC", "2", U256::from(31_337), usdc)).await;
    assert_eq!(other.expect_err("another name").code().id(), "chain.domain_mismatch");
    check_domain(chain, &domain).await.expect("the token's own");
    let authorization = Authorization {
        from: HOLDER,
        to: STRANGER,
        value: Amount::default(),
        valid_after: 0,
        valid_before: u64::MAX,
        nonce: B256::repeat_byte(7),
    };
    let payment = TransferAuthorization::from(&authorization);
    let trail = Trail { chain, token: usdc, authorization: &authorization };
    let wallet = LocalWallet::development(3).expect("a phrase");
    let digest = payment.digest(TransferKind::Transfer, &domain);
    let cleared = Scope::of(chain).await.expect("known").clear(&wallet).expect("allowed");
    let signature: StrictSignature = wallet.sign_digest(digest, cleared).await.expect("signed");
    check_signature(chain, HOLDER, digest, &signature.canonical()).await.expect("an account without code");
    let error = check_signature(chain, STRANGER, digest, &signature.canonical()).await.expect_err("somebody else");
    assert_eq!(error.code().id(), "chain.signature_wrong_signer");
    // The token accepts our signature.
    assert!(!trail.is_used().await.expect("an answer"));
    let arguments = (
        (payment.from, payment.to, payment.value, payment.valid_after, payment.valid_before),
        (payment.nonce, U256::from(signature.v()), signature.r(), signature.s()),
    )
        .abi_encode();
    let signature_of = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)";
    world.call(usdc, signature_of, arguments).await;
    assert!(trail.is_used().await.expect("an answer"));

    // An account with code that returns yes, no, or too many bytes.
    let account = Address::repeat_byte(0x71);
    let says = |word: [u8; 32]| [&[0x7f][..], &word, &[0x60, 0, 0x52, 0x60, 0x20, 0x60, 0, 0xf3]].concat();
    let mut yes = [0; 32];
    yes[..4].copy_from_slice(&[0x16, 0x26, 0xba, 0x7e]);
    toolcrib_testkit::nodes::set_code(chain, account, &says(yes)).await;
    check_signature(chain, account, digest, b"anything").await.expect("it says yes");
    let undeployed = [&[0; 96][..], &[0x64, 0x92].repeat(16)].concat();
    let error = check_signature(chain, account, digest, &undeployed).await.expect_err("refused by name");
    assert_eq!(error.code().id(), "chain.signature_wrapper");
    let mut dirty = yes;
    dirty[31] = 1;
    for word in [dirty, [0; 32], [0xff; 32]] {
        toolcrib_testkit::nodes::set_code(chain, account, &says(word)).await;
        let error = check_signature(chain, account, digest, &signature.canonical()).await.expect_err("it does not say yes");
        assert_eq!(error.code().id(), "chain.contract_signature");
    }
    // An account with an EIP-7702 delegation decides too: its key's signature alone is not enough.
    toolcrib_testkit::nodes::set_code(chain, HOLDER, &[0x60, 0, 0x60, 0, 0xfd]).await;
    let error = check_signature(chain, HOLDER, digest, &signature.canonical()).await.expect_err("no falling back");
    assert_eq!(error.code().id(), "chain.contract_signature");
}

// req: HARDEN-016, PRED-010, PRED-011
#[tokio::test]
async fn a_composite_of_the_worst_terms_is_read_with_the_gas_that_readers_give() {
    for world in World::each().await {
        let composite = world.predicate("CompositePredicate").await;
        let id = world.tool(Some(composite)).await;
        // Each burns all the gas that it gets.
        let terms = [0x81, 0x82, 0x83].map(Address::repeat_byte);
        for term in terms {
            set_code(&world.chain, term, &[0x5b, 0x60, 0, 0x56]).await;
        }
        let client = CompositePredicate::new(world.chain.clone(), composite);
        let terms = terms.map(|predicate| CompositeTerm { predicate, is_negated: false });
        world.write(client.set(id, CompositeOp::All, &terms)).await;
        let seen = introspect(&world.chain, composite, id).await.expect("an answer");
        let Requirements::Listed { entries, .. } = &seen.requirements else { panic!("{seen:?}") };
        assert_eq!(entries.iter().map(Meaning::from).collect::<Vec<_>>(), vec![Meaning::Unread; 3]);
        assert_eq!(seen.codes().iter().map(|code| code.id()).collect::<Vec<_>>(), ["predicate.incomplete"]);
        // With 60 % of the gas the composite reverts, because it does not call the last term with less than its full budget.
        let data = toolcrib_chain::abi::IAccessPredicate::getRequirementsCall { toolId: id }.abi_encode().into();
        let gas = Some(REQUIREMENTS_GAS / 10 * 6);
        let call = BoundedCall { to: composite, data, from: None, gas, max_bytes: 4_096 };
        let outcome = world.chain.call(&call).await.expect("an answer");
        assert!(matches!(outcome, CallOutcome::Reverted(_)), "{outcome:?}");
    }
}

#[tokio::test]
async fn limits_are_those_of_the_contract_or_ours() {
    for world in World::each().await {
        let ours = Limits::OURS;
        let read = async |name: &str| {
            let address = world.predicate(name).await;
            Limits::read(&world.chain, address, 2).await.expect("limits")
        };
        let erc721 = read("ERC721OwnerPredicate").await;
        assert_eq!(erc721.erc721_collections, ours.erc721_collections, "the constant is that of the contract");
        let erc1155 = read("ERC1155OwnerPredicate").await;
        assert_eq!((erc1155.erc1155_collections, erc1155.token_ids), (ours.erc1155_collections, ours.token_ids));
        assert_eq!(erc1155.token_ids_in_all, Some(6), "two collections leave room for six ids");
        assert_eq!(erc721.token_ids_in_all, None);
        assert_eq!(read("TraitGatedPredicate").await.trait_values, ours.trait_values);
        assert_eq!(read("CompositePredicate").await.terms, ours.terms);
        let check = async |code: &[u8], expected: Limits| {
            let address = Address::repeat_byte(0x91);
            set_code(&world.chain, address, code).await;
            assert_eq!(Limits::read(&world.chain, address, 2).await.expect("limits"), expected);
        };
        // Code that returns its last byte from every call.
        let says = |count: u8| vec![0x60, count, 0x60, 0, 0x52, 0x60, 0x20, 0x60, 0, 0xf3];
        let seven = read_by_all(7);
        check(&says(7), seven).await;
        check(&says(0), ours).await;
        check(&[0x5b, 0x60, 0, 0x56], ours).await;
        // 2^256 - 1 collections.
        check(&[0x60, 0, 0x19, 0x60, 0, 0x52, 0x60, 0x20, 0x60, 0, 0xf3], ours).await;
    }
}

fn read_by_all(count: u64) -> Limits {
    let mut limits = Limits::OURS;
    (limits.erc721_collections, limits.erc1155_collections, limits.token_ids) = (count, count, count);
    (limits.trait_values, limits.terms, limits.token_ids_in_all) = (count, count, Some(count));
    limits
}
