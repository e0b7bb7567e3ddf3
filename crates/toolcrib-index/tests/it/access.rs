//! Checks whether an account may call tools.

use alloy_primitives::{Address, U256, keccak256};
use alloy_sol_types::{SolValue, sol};
use serde_json::json;
use toolcrib_chain::deploy;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::{BoundedCall, CallOutcome};
use toolcrib_chain::wallet::LocalWallet;
use toolcrib_devchain::accounts::dev_signers;
use toolcrib_index::access::{MAX_CANDIDATES, MULTICALL3, Tristate, callable};
use toolcrib_index::{Chains, Index};

use crate::stage::{PRICE, Sold, Stage, price, put_in};
use toolcrib_testkit::databases::{Backend, TestStore};

/// `aggregate3` and nothing else, as the usual contract answers it: each call with all the gas there is, failures allowed.
fn multicall() -> String {
    // At 0: the length of the array (word at 0x24 of calldata) n; answers are written from 0x40 on behind n offsets.
    // Memory: [0x00] 0x20, [0x20] n, then n offsets, then for each: success, 0x40, length, data padded to words.
    let mut code = Assembler::default();
    code.push(&[0x60, 0x20, 0x60, 0x00, 0x52]); // mstore(0, 0x20)
    code.push(&[0x60, 0x24, 0x35, 0x60, 0x20, 0x52]); // mstore(0x20, n)
    code.push(&[0x60, 0x24, 0x35, 0x60, 0x05, 0x1b, 0x60, 0x40, 0x01]); // end = 0x40 + n * 32
    code.push(&[0x60, 0x00]); // i = 0                               | i end
    code.label("loop");
    code.push(&[0x60, 0x24, 0x35, 0x81, 0x10, 0x15]); // !(i < n)
    code.jump("done", 0x57);
    // offset of answer i, from the start of the offsets
    code.push(&[0x60, 0x40, 0x82, 0x03]); // end - 0x40              | o i end
    code.push(&[0x81, 0x60, 0x05, 0x1b, 0x60, 0x40, 0x01, 0x52]); // mstore(0x40 + i*32, o)
    // the place of call i in calldata: 0x44 + calldataload(0x44 + i*32)
    code.push(&[0x80, 0x60, 0x05, 0x1b, 0x60, 0x44, 0x01, 0x35, 0x60, 0x44, 0x01]); // p i end
    // its data: d = p + 0x60 (length), copied behind `end`
    code.push(&[0x80, 0x60, 0x40, 0x01, 0x35, 0x81, 0x01]); // d p i end
    code.push(&[0x80, 0x35]); // len d p i end
    code.push(&[0x80, 0x82, 0x60, 0x20, 0x01, 0x86, 0x37]); // calldatacopy(end, d + 32, len)   | len d p i end
    // call(gas, target, 0, end, len, 0, 0)
    code.push(&[0x60, 0x00, 0x60, 0x00, 0x82, 0x87, 0x60, 0x00, 0x87, 0x35, 0x5a, 0xf1]); // success len d p i end
    code.push(&[0x85, 0x52]); // mstore(end, success)                | len d p i end
    code.push(&[0x50, 0x50, 0x50]); // i end
    code.push(&[0x60, 0x40, 0x82, 0x60, 0x20, 0x01, 0x52]); // mstore(end + 0x20, 0x40)
    code.push(&[0x3d, 0x82, 0x60, 0x40, 0x01, 0x52]); // mstore(end + 0x40, size)
    code.push(&[0x3d, 0x60, 0x00, 0x83, 0x60, 0x60, 0x01, 0x3e]); // returndatacopy(end + 0x60, 0, size)
    // end += 0x60 + padded size
    code.push(&[0x90, 0x60, 0x1f, 0x3d, 0x01, 0x60, 0x05, 0x1c, 0x60, 0x05, 0x1b, 0x60, 0x60, 0x01, 0x01, 0x90]); // i end
    code.push(&[0x60, 0x01, 0x01]); // i += 1
    code.jump("loop", 0x56);
    code.label("done");
    code.push(&[0x50, 0x60, 0x00, 0xf3]); // return(0, end)
    code.finish()
}

#[derive(Default)]
struct Assembler {
    code: Vec<u8>,
    labels: Vec<(&'static str, u8)>,
    jumps: Vec<(usize, &'static str)>,
}

impl Assembler {
    fn push(&mut self, bytes: &[u8]) {
        self.code.extend(bytes);
    }

    fn label(&mut self, name: &'static str) {
        self.labels.push((name, self.code.len() as u8));
        self.code.push(0x5b);
    }

    fn jump(&mut self, name: &'static str, instruction: u8) {
        self.jumps.push((self.code.len() + 1, name));
        self.code.extend([0x60, 0, instruction]);
    }

    fn finish(mut self) -> String {
        for (place, name) in self.jumps {
            self.code[place] = self.labels.iter().find(|(label, _)| *label == name).expect("a label").1;
        }
        format!("0x{}", alloy_primitives::hex::encode(self.code))
    }
}

sol! {
    struct Call3 {
        address target;
        bool allowFailure;
        bytes callData;
    }
    struct Answer3 {
        bool success;
        bytes returnData;
    }
}

/// Whether the multicall contract of this file works: two calls of a contract that returns 1, three bytes of them data that it ignores.
async fn granted_at_once(stage: &Stage, open: Address) -> bool {
    let call = Call3 { target: open, allowFailure: true, callData: vec![1, 2, 3].into() };
    let data = [&keccak256("aggregate3((address,bool,bytes)[])")[..4], &vec![call.clone(), call].abi_encode()].concat().into();
    let call = BoundedCall { to: MULTICALL3, data, from: None, gas: None, max_bytes: 4_096 };
    let CallOutcome::Returned(bytes) = stage.chain.call(&call).await.expect("an answer") else { return false };
    let Ok(answers) = Vec::<Answer3>::abi_decode(&bytes) else { return false };
    answers.len() == 2 && answers.iter().all(|answer| answer.success && answer.returnData.last() == Some(&1))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chain_says_who_may_call() {
    for stage in Stage::each().await {
        let wallet = LocalWallet::development(0).expect("a development account");
        let contracts = deploy::contracts().expect("the files fit each other");
        for contract in &contracts {
            if stage.chain.code(contract.address).await.expect("an answer").is_empty() {
                stage.send_as(&wallet, contract.call().to, contract.call().data).await;
            }
        }
        let at = |name: &str| contracts.iter().find(|contract| contract.name == name).expect("listed").address;
        let (registry, deny) = (at("ToolRegistry"), at("DenyAllPredicate"));
        let proofs = at("ERC721OwnerPredicate");
        // A predicate that burns all its gas, and one that grants access to every account.
        let burner = Address::repeat_byte(0xb1);
        stage.dev("anvil_setCode", json!([burner, "0x5b600056"])).await;
        let open = Address::repeat_byte(0x01);
        stage.dev("anvil_setCode", json!([open, "0x600160005260206000f3"])).await;
        let there = Registry::new(stage.chain.clone(), registry);
        let mut sold = Vec::new();
        for (n, predicate) in [None, Some(deny), Some(open), Some(burner), Some(proofs), Some(open)].into_iter().enumerate() {
            let call = there.register(&format!("https://tools.example.com/{n}.json"), [7; 32].into(), None);
            stage.send_as(&wallet, call.to, call.data).await;
            let id = there.tool_count().await.expect("a number");
            if let Some(predicate) = predicate {
                let call = there.set_predicate(id, Some(predicate));
                stage.send_as(&wallet, call.to, call.data).await;
            }
            let registered = there.config(id).await.expect("a tool").access_predicate;
            assert_eq!(registered, predicate, "tool {id}");
            sold.push(Sold { predicate, ..Sold::new(id.to(), Address::repeat_byte(0xc0), stage.token.address) });
        }
        for backend in [Backend::SqliteFile, Backend::Postgres] {
            let Some(place) = TestStore::new(backend).await else { continue };
            let index = Index::open(place.database().await).await.expect("an index");
            let chains = Chains::from_iter([stage.chain.clone()]);
            let mut keys = Vec::new();
            for sold in &sold {
                keys.push(put_in(&index, registry, sold).await);
            }
            let account = dev_signers()[1].address();
            let expected = [Tristate::Yes, Tristate::No, Tristate::Yes, Tristate::Unknown, Tristate::No, Tristate::Yes];
            for code in ["0x".to_owned(), multicall()] {
                stage.dev("anvil_setCode", json!([MULTICALL3, code])).await;
                assert_eq!(granted_at_once(&stage, open).await, code != "0x");
                let answer = callable(&index, &chains, account, &keys, None).await.expect("asked");
                assert_eq!(answer.answers.iter().map(|answer| answer.access).collect::<Vec<_>>(), expected, "{code}");
                assert!(answer.partial);
                let some: Vec<_> = [0, 1, 2, 4, 5].map(|n: usize| keys[n]).to_vec();
                assert!(!callable(&index, &chains, account, &some, None).await.expect("asked").partial);
            }
            // Invalid results of a contract at that address are not trusted.
            stage.dev("anvil_setCode", json!([MULTICALL3, "0x600160005260206000f3"])).await;
            let answer = callable(&index, &chains, account, &keys, None).await.expect("asked");
            assert_eq!(answer.answers.iter().map(|answer| answer.access).collect::<Vec<_>>(), expected);
            stage.dev("anvil_setCode", json!([MULTICALL3, "0x"])).await;
            // A chain that is not followed: access to gated tools is unknown, open tools are open.
            let answer = callable(&index, &Chains::default(), account, &keys, None).await.expect("asked");
            assert_eq!((answer.answers[0].access, answer.answers[1].access), (Tristate::Yes, Tristate::Unknown));
            let many = vec![keys[0]; MAX_CANDIDATES + 1];
            let answer = callable(&index, &chains, account, &many, None).await.expect("asked");
            assert_eq!((answer.answers.len(), answer.partial), (MAX_CANDIDATES, true));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_is_held_against_the_price() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(place) = TestStore::new(backend).await else { continue };
        let index = Index::open(place.database().await).await.expect("an index");
        let token = Address::repeat_byte(0x70);
        let dollars = |amount: u64| crate::stage::Sold {
            prices: vec![toolcrib_index::listing::Price { micro_usd: Some(amount), ..price(token, token, amount) }],
            ..Sold::new(amount, token, token)
        };
        let tools = [
            dollars(PRICE),
            dollars(PRICE + 1),
            Sold { prices: Vec::new(), ..Sold::new(3, token, token) },
            Sold::new(4, token, token),
            Sold::new(5, token, token).to(token, token, 0),
        ];
        let mut keys = Vec::new();
        for sold in &tools {
            keys.push(put_in(&index, Address::repeat_byte(0x82), sold).await);
        }
        keys.push(toolcrib_index::model::ToolKey { id: U256::from(99), ..keys[0] });
        let answer = callable(&index, &Chains::default(), Address::ZERO, &keys, Some(PRICE)).await.expect("asked");
        let may: Vec<_> = answer.answers.iter().map(|answer| answer.callable()).collect();
        assert_eq!(may, [Tristate::Yes, Tristate::No, Tristate::Yes, Tristate::Unknown, Tristate::Yes]);
        assert!(answer.partial);
    }
}
