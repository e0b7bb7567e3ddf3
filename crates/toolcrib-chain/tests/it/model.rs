//! Compares the contract with a short model of it and with its events. After random calls all three must
//! agree, and every revert must be the one that the model predicts.

use std::collections::BTreeMap;
use std::time::Duration;

use alloy_primitives::{Address, B256, U256};
use futures_util::StreamExt;
use toolcrib_chain::registry::{EventFilter, Registry, RegistryEvent, ToolConfig, ToolState};
use toolcrib_chain::wallet::{LocalWallet, Wallet};

use toolcrib_testkit::nodes::{Node, deploy};

const CALLS: usize = 120;

/// The expected state of the registry.
#[derive(Default)]
struct Model {
    /// Tools by id; `None` for deregistered ones.
    tools: BTreeMap<u64, Option<ToolConfig>>,
}

#[derive(Clone, Debug)]
enum Action {
    Register { uri: String, hash: B256, predicate: Option<Address> },
    Update { id: u64, uri: String, hash: B256 },
    SetPredicate { id: u64, predicate: Option<Address> },
    Deregister { id: u64 },
}

impl Model {
    /// Applies a call like the registry, or returns the code of its revert. The checks come in this order: the tool exists, the sender is
    /// its creator, then the arguments from left to right.
    fn apply(&mut self, action: &Action, sender: Address, not_a_predicate: Address) -> Result<(), &'static str> {
        match action {
            Action::Register { uri, hash, predicate } => {
                check(uri, *hash)?;
                check_predicate(*predicate, not_a_predicate)?;
                let id = self.tools.len() as u64 + 1;
                let config =
                    ToolConfig { creator: sender, metadata_uri: uri.clone(), manifest_hash: *hash, access_predicate: *predicate };
                self.tools.insert(id, Some(config));
            }
            Action::Update { id, uri, hash } => {
                let tool = self.own(*id, sender)?;
                check(uri, *hash)?;
                (tool.metadata_uri, tool.manifest_hash) = (uri.clone(), *hash);
            }
            Action::SetPredicate { id, predicate } => {
                let tool = self.own(*id, sender)?;
                if tool.access_predicate != *predicate {
                    check_predicate(*predicate, not_a_predicate)?;
                    tool.access_predicate = *predicate;
                }
            }
            Action::Deregister { id } => {
                self.own(*id, sender)?;
                self.tools.insert(*id, None);
            }
        }
        Ok(())
    }

    fn own(&mut self, id: u64, sender: Address) -> Result<&mut ToolConfig, &'static str> {
        match self.tools.get_mut(&id) {
            None => Err("chain.tool_not_found"),
            Some(None) => Err("chain.tool_deregistered"),
            Some(Some(tool)) if tool.creator != sender => Err("chain.not_creator"),
            Some(Some(tool)) => Ok(tool),
        }
    }
}

fn check(uri: &str, hash: B256) -> Result<(), &'static str> {
    if uri.is_empty() || uri.len() > 2_048 {
        return Err("chain.uri_refused");
    }
    if hash.is_zero() { Err("chain.hash_refused") } else { Ok(()) }
}

fn check_predicate(predicate: Option<Address>, not_a_predicate: Address) -> Result<(), &'static str> {
    if predicate == Some(not_a_predicate) { Err("chain.predicate_refused") } else { Ok(()) }
}

/// A deterministic pseudo-random number generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

// req: REG-003, REG-005, REG-007, REG-013, REG-017, REG-018, REG-019, REG-020, REG-021, REG-022, IDX-014
#[tokio::test]
async fn contract_model_and_events_agree() {
    let Some(node) = Node::each(31_337).await.into_iter().next() else { return };
    let chain = node.chain().await;
    for seed in [1, 8_257, 402] {
        let address = deploy(&chain, "ToolRegistry", &[]).await;
        let deny = deploy(&chain, "DenyAllPredicate", &[]).await;
        let registry = Registry::new(chain.clone(), address);
        let wallets: Vec<_> = (1..4).map(|index| LocalWallet::development(index).expect("a phrase")).collect();
        // Open access, an account without code, a real predicate, and a contract that is not a predicate: the registry itself.
        let predicates = [None, Some(Address::repeat_byte(0x77)), Some(deny), Some(address)];
        let (mut dice, mut model) = (Dice(seed), Model::default());
        let (mut done, mut refused) = (0, 0);
        for step in 0..CALLS {
            let wallet = &wallets[dice.below(3) as usize];
            let action = draw(&mut dice, model.tools.len() as u64, &predicates);
            let call = match &action {
                Action::Register { uri, hash, predicate } => registry.register(uri, *hash, *predicate),
                Action::Update { id, uri, hash } => registry.update(U256::from(*id), uri, *hash),
                Action::SetPredicate { id, predicate } => registry.set_predicate(U256::from(*id), *predicate),
                Action::Deregister { id } => registry.deregister(U256::from(*id)),
            };
            let foreseen = model.apply(&action, wallet.address(), address);
            let got = chain.send(wallet, &call, Duration::from_secs(20)).await.map(|_| ()).map_err(|error| error.code().id());
            assert_eq!(got, foreseen, "seed {seed}, step {step}: {action:?}");
            *if got.is_ok() { &mut done } else { &mut refused } += 1;
        }
        assert!(done > 20 && refused > 20, "both sides were tried: {done} and {refused}");
        compare(&registry, &model).await;
    }
}

async fn compare(registry: &Registry, model: &Model) {
    let latest = registry.chain().block_number().await.expect("a number");
    let mut told: BTreeMap<u64, Option<ToolConfig>> = BTreeMap::new();
    let mut pages = std::pin::pin!(registry.events(0, latest, EventFilter::default()));
    while let Some(page) = pages.next().await {
        for logged in page.expect("readable").events {
            let present = |id: &U256| id.to::<u64>();
            match logged.event {
                RegistryEvent::Registered { id, creator, predicate, uri, hash } => {
                    let access_predicate = Some(predicate).filter(|predicate| !predicate.is_zero());
                    let config = ToolConfig { creator, metadata_uri: uri, manifest_hash: hash, access_predicate };
                    assert!(told.insert(present(&id), Some(config)).is_none(), "ids are never used twice");
                }
                RegistryEvent::MetadataUpdated { id, uri, hash } => {
                    let tool = told.get_mut(&present(&id)).and_then(Option::as_mut).expect("registered before");
                    (tool.metadata_uri, tool.manifest_hash) = (uri, hash);
                }
                RegistryEvent::PredicateUpdated { id, predicate } => {
                    let tool = told.get_mut(&present(&id)).and_then(Option::as_mut).expect("registered before");
                    tool.access_predicate = Some(predicate).filter(|predicate| !predicate.is_zero());
                }
                RegistryEvent::Deregistered { id } => {
                    told.insert(present(&id), None).expect("registered before");
                }
                event => panic!("an event that the model does not know: {event:?}"),
            }
        }
    }
    assert_eq!(told, model.tools, "the events tell the same");
    assert_eq!(registry.tool_count().await.expect("a number"), U256::from(model.tools.len()));
    for (id, expected) in &model.tools {
        let state = registry.tool(U256::from(*id)).await.expect("an answer");
        let expected = expected.clone().map_or(ToolState::Deregistered, ToolState::Present);
        assert_eq!(state, expected, "the contract says the same of {id}");
    }
    let beyond = U256::from(model.tools.len() + 1);
    assert_eq!(registry.tool(beyond).await.expect("an answer"), ToolState::NotFound);
}

fn draw(dice: &mut Dice, tools: u64, predicates: &[Option<Address>]) -> Action {
    let uri = match dice.below(8) {
        0 => String::new(),
        1 => "x".repeat(2_049),
        2 => "x".repeat(2_048),
        n => format!("https://tools.example/{n}"),
    };
    let hash = if dice.below(8) == 0 { B256::ZERO } else { B256::with_last_byte(1 + dice.below(3) as u8) };
    let predicate = predicates[dice.below(predicates.len() as u64) as usize];
    // Sometimes an id that was never assigned.
    let id = dice.below(tools + 2);
    match dice.below(6) {
        0..=1 => Action::Register { uri, hash, predicate },
        2 => Action::Update { id, uri, hash },
        3..=4 => Action::SetPredicate { id, predicate },
        _ => Action::Deregister { id },
    }
}
