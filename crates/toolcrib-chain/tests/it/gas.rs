//! Access checks at the gas costs of Ethereum and Monad: what the largest configurations need, and the diagnosis if it is too much.
//!
//! The development chain runs the same contracts at both costs. `eth_createAccessList` counts the accounts and slots that a check
//! accesses, so that `toolcrib_core::registry::gas` is compared with an execution, not with itself.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, SolValue};
use serde_json::json;
use toolcrib_chain::abi::IAccessPredicate;
use toolcrib_chain::predicate::{
    CompositeOp, CompositePredicate, CompositeTerm, Diagnosis, Erc20Gate, Erc20Predicate, Erc721Predicate, Erc1155Gate,
    Erc1155Predicate, Limits,
};
use toolcrib_chain::registry::{AccessResult, Registry};
use toolcrib_chain::rpc::{BoundedCall, CallOutcome, Chain};
use toolcrib_chain::wallet::DEV_ACCOUNTS;
use toolcrib_core::registry::gas::{ColdAccess, GasUse, Implementation, TokenCode, erc20, erc721, erc1155};
use toolcrib_core::registry::known::REGISTRY_GAS;

use toolcrib_testkit::nodes::{Node, deploy, dev, send};

const HOLDER: Address = DEV_ACCOUNTS[3];

/// A term of our composite.
const TERM_GAS: u64 = 58_000;

const CODES: [TokenCode; 3] = [TokenCode::Plain, TokenCode::Proxy, TokenCode::Beacon];

struct World {
    _node: Node,
    chain: Chain,
    registry: Registry,
}

impl World {
    /// A registry on a chain with these gas costs.
    async fn new(chain_id: u64, prices: ColdAccess) -> Self {
        let node = Node::priced(chain_id, prices).await;
        let chain = node.chain().await;
        let registry = Registry::new(chain.clone(), deploy(&chain, "ToolRegistry", &[]).await);
        Self { _node: node, chain, registry }
    }

    async fn predicate(&self, name: &str) -> Address {
        deploy(&self.chain, name, &self.registry.address().abi_encode()).await
    }

    async fn tool(&self, predicate: Address) -> U256 {
        let call = self.registry.register("https://tools.example/x", B256::repeat_byte(1), Some(predicate));
        send(&self.chain, Some(call.to), call.data).await;
        self.registry.tool_count().await.expect("a number")
    }

    /// A token contract with this kind of proxy. Each has its own beacon and implementation, so that nothing is warm already.
    async fn token(&self, name: &str, arguments: &[u8], code: TokenCode) -> Address {
        let implementation = deploy(&self.chain, name, arguments).await;
        match code {
            TokenCode::Plain => implementation,
            TokenCode::Proxy => deploy(&self.chain, "TestProxy", &implementation.abi_encode()).await,
            TokenCode::Beacon => {
                let beacon = deploy(&self.chain, "TestBeacon", &implementation.abi_encode()).await;
                deploy(&self.chain, "TestBeaconProxy", &beacon.abi_encode()).await
            }
        }
    }

    async fn call(&self, to: Address, signature: &str, arguments: Vec<u8>) {
        let selector = &alloy_primitives::keccak256(signature)[..4];
        send(&self.chain, Some(to), [selector, &arguments].concat().into()).await;
    }

    /// A tool for holders of any of `count` collections; the holder has a token of the last one.
    async fn erc721(&self, count: u64, code: TokenCode) -> (Address, U256) {
        let predicate = self.predicate("ERC721OwnerPredicate").await;
        let id = self.tool(predicate).await;
        self.set_erc721(predicate, id, count, code).await;
        (predicate, id)
    }

    async fn set_erc721(&self, predicate: Address, id: U256, count: u64, code: TokenCode) {
        let mut collections = Vec::new();
        for _ in 0..count {
            collections.push(self.token("TestERC721", &("T", "T").abi_encode_params(), code).await);
        }
        self.call(collections[collections.len() - 1], "mint(address,uint256)", (HOLDER, U256::ONE).abi_encode()).await;
        let call = Erc721Predicate::new(self.chain.clone(), predicate).set_collections(id, collections);
        send(&self.chain, Some(call.to), call.data).await;
    }

    /// The same for ERC-1155, with this number of token ids for each collection; the holder has the last token of the last one.
    async fn erc1155(&self, ids: &[usize], code: TokenCode) -> (Address, U256) {
        let predicate = self.predicate("ERC1155OwnerPredicate").await;
        let id = self.tool(predicate).await;
        let mut gates = Vec::new();
        for count in ids {
            let collection = self.token("TestERC1155", &"".abi_encode(), code).await;
            gates.push(Erc1155Gate { collection, token_ids: (1..=*count as u64).map(U256::from).collect() });
        }
        let last = gates.last().expect("a collection").clone();
        let minted = (HOLDER, last.token_ids[last.token_ids.len() - 1], U256::ONE).abi_encode();
        self.call(last.collection, "mint(address,uint256,uint256)", minted).await;
        let call = Erc1155Predicate::new(self.chain.clone(), predicate).set_gates(id, gates);
        send(&self.chain, Some(call.to), call.data).await;
        (predicate, id)
    }

    async fn erc20(&self, code: TokenCode) -> (Address, U256) {
        let predicate = self.predicate("ERC20BalancePredicate").await;
        let id = self.tool(predicate).await;
        let token = self.token("TestERC20", &("T", "T", U256::from(6)).abi_encode_params(), code).await;
        self.call(token, "mint(address,uint256)", (HOLDER, U256::from(5)).abi_encode()).await;
        let gate = Erc20Gate { token, min_balance: U256::from(5) };
        let call = Erc20Predicate::new(self.chain.clone(), predicate).set_gate(id, gate);
        send(&self.chain, Some(call.to), call.data).await;
        (predicate, id)
    }

    fn question(&self, id: U256) -> Bytes {
        IAccessPredicate::hasAccessCall { toolId: id, account: HOLDER, data: Bytes::new() }.abi_encode().into()
    }

    /// Whether the predicate grants access with this gas for its execution.
    async fn grants(&self, predicate: Address, id: U256, gas: u64) -> bool {
        let data = self.question(id);
        let calldata: u64 = data.iter().map(|&byte| if byte == 0 { 4 } else { 16 }).sum();
        let margin = self.chain.network().call_overhead - 21_000;
        let call = BoundedCall {
            to: predicate,
            data,
            from: Some(self.registry.address()),
            gas: Some(gas + calldata - margin),
            max_bytes: 32,
        };
        let outcome = self.chain.call(&call).await.expect("an answer");
        matches!(outcome, CallOutcome::Returned(bytes) if bytes[..] == U256::ONE.to_be_bytes::<32>())
    }

    /// The minimum gas with which the predicate grants access.
    async fn needed(&self, predicate: Address, id: U256) -> u64 {
        let (mut low, mut high) = (5_000, 2_000_000);
        assert!(self.grants(predicate, id, high).await, "with much gas it grants");
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.grants(predicate, id, middle).await { high = middle } else { low = middle }
        }
        high
    }

    /// The number of accounts and slots that a check accesses cold, according to the node.
    async fn touched(&self, predicate: Address, id: U256) -> (u64, u64) {
        let request = json!({ "from": self.registry.address(), "to": predicate, "data": self.question(id), "gas": "0x1e8480" });
        let answer = dev(&self.chain, "eth_createAccessList", json!([request, "latest"])).await;
        let list = answer["accessList"].as_array().expect("a list");
        // The registry already pays for the access to the predicate.
        let accounts = list.iter().filter(|entry| entry["address"] != json!(predicate)).count();
        let slots = list.iter().map(|entry| entry["storageKeys"].as_array().map_or(0, Vec::len)).sum::<usize>();
        (accounts as u64, slots as u64)
    }

    /// Compares an estimate with the node's count and with the gas that the check needs.
    async fn check(&self, label: &str, (predicate, id): (Address, U256), prices: ColdAccess, estimate: GasUse) -> u64 {
        assert_eq!(self.touched(predicate, id).await, (estimate.accounts, estimate.slots), "{label}: accounts and slots");
        let needed = self.needed(predicate, id).await;
        let estimated = estimate.at(prices);
        eprintln!("{label}: needs {needed}, estimated {estimated}, {} accounts, {} slots", estimate.accounts, estimate.slots);
        assert!(needed <= estimated, "{label}: {needed} is above the estimate {estimated}");
        assert!(estimated * 100 <= needed * 112, "{label}: the estimate {estimated} is far above {needed}");
        let granted = self.registry.access(id, HOLDER, Bytes::new()).await.expect("an answer") == AccessResult::Granted;
        assert_eq!(granted, needed <= REGISTRY_GAS, "{label}: the registry gives {REGISTRY_GAS}");
        needed
    }
}

// The largest configurations fit into a composite's term at Ethereum's costs, and into the registry's gas limit at Monad's, with any
// kind of token proxy.
// req: PRED-014
#[tokio::test]
async fn the_largest_configurations_fit_at_both_prices() {
    let limits = Limits::OURS;
    for prices in [ColdAccess::ETHEREUM, ColdAccess::MONAD] {
        let world = World::new(31_337, prices).await;
        for code in CODES {
            let mut needs = Vec::new();
            for count in [1, limits.erc721_collections] {
                let estimate = erc721(Implementation::Toolcrib, (0..count).map(|_| code));
                let label = format!("{prices:?} {code:?}: 721 x {count}");
                needs.push(world.check(&label, world.erc721(count, code).await, prices, estimate).await);
            }
            for ids in [&[limits.token_ids as usize][..], &[1, 5]] {
                let estimate = erc1155(Implementation::Toolcrib, ids.iter().map(|ids| (code, *ids)));
                let label = format!("{prices:?} {code:?}: 1155, ids {ids:?}");
                needs.push(world.check(&label, world.erc1155(ids, code).await, prices, estimate).await);
            }
            let label = format!("{prices:?} {code:?}: 20");
            needs.push(world.check(&label, world.erc20(code).await, prices, erc20(code)).await);
            let most = needs.into_iter().max().expect("some");
            assert!(most <= REGISTRY_GAS, "{prices:?} {code:?}: {most}");
            assert!(prices != ColdAccess::ETHEREUM || most <= TERM_GAS, "{prices:?} {code:?}: {most}");
        }
    }
}

/// The diagnosis of the registry's answer.
async fn reason(world: &World, id: U256) -> Diagnosis {
    let answer = world.registry.access(id, HOLDER, Bytes::new()).await.expect("an answer");
    assert_eq!(answer, AccessResult::Malfunction);
    world.registry.explain(id, HOLDER, Bytes::new(), answer).await.expect("a look").expect("a reason")
}

// A composite splits the gas, so a term that works on Ethereum runs out on Monad. The diagnosis names the term and the chain.
#[tokio::test]
async fn a_term_that_runs_out_of_gas_on_monad_is_named() {
    let world = World::new(143, ColdAccess::MONAD).await;
    let composite = world.predicate("CompositePredicate").await;
    let id = world.tool(composite).await;
    let term = world.predicate("ERC721OwnerPredicate").await;
    world.set_erc721(term, id, Limits::OURS.erc721_collections, TokenCode::Proxy).await;
    let client = CompositePredicate::new(world.chain.clone(), composite);
    let call = client.set(id, CompositeOp::All, &[CompositeTerm { predicate: term, is_negated: false }]);
    send(&world.chain, Some(call.to), call.data).await;

    let found = reason(&world, id).await;
    assert_eq!(found.code().id(), "predicate.term_needs_more_gas", "{found}");
    let Diagnosis::TermNeedsMoreGas { index, predicate, shortage } = found else { panic!("{found:?}") };
    assert_eq!((index, predicate, shortage.given), (0, term, TERM_GAS));
    let exact = world.needed(term, id).await;
    assert!((exact..=exact + exact / 40).contains(&shortage.needed), "{} where {exact} are needed", shortage.needed);
    assert!(
        found.to_string().contains("Monad charges 10100 gas for the first access to an account and 8100 for a storage slot"),
        "{found}"
    );

    // Without the composite it has enough.
    let call = world.registry.set_predicate(id, Some(term));
    send(&world.chain, Some(call.to), call.data).await;
    assert_eq!(world.registry.access(id, HOLDER, Bytes::new()).await.expect("an answer"), AccessResult::Granted);
}

// A predicate that calls tokens reports their out-of-gas errors as its own revert. It must be told from a broken token.
#[tokio::test]
async fn a_revert_for_lack_of_gas_is_told_from_others() {
    let world = World::new(31_337, ColdAccess { account: 30_000, slot: 25_000 }).await;
    let (predicate, id) = world.erc721(Limits::OURS.erc721_collections, TokenCode::Plain).await;
    let found = reason(&world, id).await;
    assert_eq!(found.code().id(), "predicate.needs_more_gas", "{found}");
    let Diagnosis::NeedsMoreGas(shortage) = &found else { panic!("{found:?}") };
    let exact = world.needed(predicate, id).await;
    assert!(exact > REGISTRY_GAS && (exact..=exact + exact / 40).contains(&shortage.needed), "{shortage:?} {exact}");

    let broken = world.token("TestERC721", &("T", "T").abi_encode_params(), TokenCode::Plain).await;
    let call = Erc721Predicate::new(world.chain.clone(), predicate).set_collections(id, vec![broken]);
    send(&world.chain, Some(call.to), call.data).await;
    toolcrib_testkit::nodes::set_code(&world.chain, broken, &[0x60, 0, 0x60, 0, 0xfd]).await;
    let found = reason(&world, id).await;
    assert!(matches!(&found, Diagnosis::Reverted(_)) && found.to_string().contains("CollectionUnavailable"), "{found}");
}
