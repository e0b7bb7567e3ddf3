//! Proven usage, and above all what does not count: on two nodes and on both engines.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_signer_local::PrivateKeySigner;
use alloy_sol_types::SolValue;
use serde_json::json;
use toolcrib_chain::wallet::LocalWallet;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::codes::{Code, usage as code};
use toolcrib_devchain::accounts::dev_signers;
use toolcrib_fetch::SystemClock;
use toolcrib_index::feed::Kinds;
use toolcrib_index::model::{ToolKey, UsageTotals};
use toolcrib_index::search::{Search, SearchOptions, SearchQuery};
use toolcrib_index::usage::{self, NOT_FOUND_SECONDS, PENDING_SECONDS, Receipt, SKEW_SECONDS};
use toolcrib_index::{Chains, Index};
use toolcrib_x402::recipient::EndpointBinding;
use toolcrib_x402::usage::{Subject, Submission, UsageProof};
use toolcrib_x402::{Authorization, Signature, Spelling};

use crate::stage::{LOCAL, PRICE, REGISTRY, Sold, Stage, authorization, price, put};
use toolcrib_testkit::databases::{Backend, TestStore};

/// An index with one tool for sale, and the chain that it is paid on.
struct Shop {
    _place: TestStore,
    index: Index,
    chains: Chains,
    key: ToolKey,
}

const CREATOR: Address = Address::repeat_byte(0xc0);

fn alice() -> &'static PrivateKeySigner {
    &dev_signers()[1]
}

fn bob() -> &'static PrivateKeySigner {
    &dev_signers()[2]
}

impl Shop {
    /// One on each engine, with the first tool in it.
    async fn each(stage: &Stage) -> Vec<Self> {
        let mut shops = Vec::new();
        for backend in [Backend::SqliteFile, Backend::Postgres] {
            let Some(place) = TestStore::new(backend).await else { continue };
            let index = Index::open(place.database().await).await.expect("an index");
            let key = put(&index, &Sold::new(1, CREATOR, stage.token.address)).await;
            shops.push(Self { _place: place, index, chains: Chains::from_iter([stage.chain.clone()]), key });
        }
        shops
    }

    async fn submit(&self, report: &Submission) -> Receipt {
        self.submit_at(report, SystemClock.now()).await
    }

    async fn submit_at(&self, report: &Submission, now: UnixTime) -> Receipt {
        usage::submit(&self.index, &self.chains, report, now).await.expect("judged")
    }

    /// Checks that a report is not counted, for this reason.
    #[track_caller]
    fn refused(&self, report: &Submission, expected: Code) -> impl Future<Output = ()> {
        self.refused_at(report, expected, SystemClock.now())
    }

    #[track_caller]
    fn refused_at(&self, report: &Submission, expected: Code, now: UnixTime) -> impl Future<Output = ()> {
        let at = std::panic::Location::caller();
        async move {
            let before = self.all_totals().await;
            let last = self.index.last_change().await.expect("a number");
            let receipt = self.submit_at(report, now).await;
            assert_eq!((receipt.verified, receipt.code), (false, Some(expected)), "{at}");
            assert_eq!(self.all_totals().await, before, "{at}");
            assert_eq!(self.index.last_change().await.expect("a number"), last, "{at}");
        }
    }

    async fn totals(&self, id: u64) -> UsageTotals {
        let tool = ToolRef { chain: LOCAL, registry: REGISTRY, id: U256::from(id) };
        self.index.tool(&tool).await.expect("readable").expect("a tool").usage
    }

    async fn all_totals(&self) -> i64 {
        const SUM: &str = "SELECT COALESCE(CAST(SUM(paid_calls + payers + ranking_payers + volume + signed_calls) AS BIGINT), 0)
            FROM index_usage_total";
        self.index.database().fetch_optional(SUM, &[]).await.expect("readable").expect("a row").scalar::<i64>().expect("a number")
    }
}

fn paid(id: u64, caller: Address, transaction: B256) -> Submission {
    Submission {
        subject: Subject::Tool(ToolRef { chain: LOCAL, registry: REGISTRY, id: U256::from(id) }),
        latency_ms: Some(12),
        chain: None,
        proof: UsageProof::Settlement { caller, transaction, chain: LOCAL },
    }
}

fn signed(stage: &Stage, id: u64, signer: &PrivateKeySigner, authorization: Authorization) -> Submission {
    let signature = Signature::new(stage.sign(signer, &authorization)).expect("65 bytes");
    let spelling = Spelling::usual(&authorization, &signature);
    let caller = authorization.from;
    Submission { proof: UsageProof::Authorization { caller, authorization, signature, spelling }, ..paid(id, caller, B256::ZERO) }
}

// req: USAGE-008
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_counts_once() {
    for stage in Stage::each().await {
        let hash = stage.pay(alice(), CREATOR, PRICE).await;
        let again = stage.pay(alice(), CREATOR, 3 * PRICE).await;
        let other = stage.pay(bob(), CREATOR, PRICE).await;
        for shop in Shop::each(&stage).await {
            let report = paid(1, alice().address(), hash);
            let first = shop.submit(&report).await;
            assert_eq!((first.verified, first.code, first.verification_type), (true, None, "x402_settlement"));
            let changes = shop.index.changes(0, 10).await.expect("changes");
            assert_eq!(changes.len(), 1);
            assert_eq!((changes[0].key, changes[0].kinds.names().collect::<Vec<_>>()), (shop.key, vec!["usage"]));
            // By endpoint, later, and many concurrently: the same call.
            let by_endpoint = Submission {
                subject: Subject::Endpoint("https://tools.example.com:443/1".to_owned()),
                latency_ms: None,
                ..report.clone()
            };
            assert_eq!(shop.submit(&by_endpoint).await, first);
            assert_eq!(shop.submit(&report).await, first);
            assert_eq!(shop.totals(1).await.paid_calls, 1);
            let reports = [paid(1, alice().address(), again), paid(1, bob().address(), other)];
            let many = (0..8).map(|n| shop.submit(&reports[n % 2]));
            let receipts = futures_util::future::join_all(many).await;
            assert!(receipts.iter().all(|receipt| receipt.verified && receipt.code.is_none()), "{receipts:?}");
            let totals = shop.totals(1).await;
            assert_eq!((totals.paid_calls, totals.payers, totals.ranking_payers), (3, 2, 2));
            assert_eq!((totals.volume, totals.signed_calls), (5 * PRICE, 0));
            let (calls, more) = shop.index.activity(shop.key, false, 2, 0).await.expect("activity");
            assert_eq!((calls.len(), more), (2, true));
            let (rest, more) = shop.index.activity(shop.key, false, 2, 2).await.expect("activity");
            assert_eq!((rest.len(), more), (1, false));
            let call = calls.iter().chain(&rest).find(|call| call.tx_hash == Some(hash)).expect("the first");
            assert_eq!(
                (call.id.as_str(), call.kind, call.attribution, call.paid),
                (&*first.id, "x402_settlement", "verified", true)
            );
            assert_eq!((call.caller, call.seller, call.asset), (alice().address(), CREATOR, Some(stage.token.address)));
            assert_eq!((call.amount.as_deref(), call.chain_id), (Some("10000"), LOCAL));
            let unknown = ToolKey { id: U256::from(77), ..shop.key };
            let stats = shop
                .index
                .payment_stats(&[(unknown, UsageTotals::default()), (shop.key, totals)], SystemClock.now())
                .await
                .expect("sums");
            assert_eq!(stats[0], Default::default());
            assert_eq!((stats[1].total_payments, stats[1].volume, stats[1].unique_buyers), (3, 5 * PRICE, 2));
            assert_eq!((stats[1].payments_last_24h, stats[1].payments_last_7d), (3, 3));
            let stats = shop.index.payment_stats(&[(shop.key, totals)], SystemClock.now().plus(2 * 86_400)).await.expect("sums");
            assert_eq!((stats[0].payments_last_24h, stats[0].payments_last_7d), (0, 3));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_proves_nothing_is_not_counted() {
    for stage in Stage::each().await {
        let token = stage.token.address;
        let good = stage.pay(alice(), CREATOR, PRICE).await;
        let elsewhere = stage.pay(alice(), Address::repeat_byte(0xee), PRICE).await;
        let little = stage.pay(alice(), CREATOR, PRICE - 1).await;
        let data = [&keccak256("transfer(address,uint256)")[..4], &(CREATOR, U256::from(PRICE)).abi_encode()].concat();
        let wallet = LocalWallet::development(1).expect("a development account");
        let plain = stage.send_as(&wallet, token, data.into()).await;
        // Signed by another account: the token rejects it, and the transaction fails.
        let forged = {
            let authorization = authorization(alice().address(), CREATOR, PRICE);
            let mut data = stage.payment(alice(), CREATOR, PRICE).to_vec();
            let nonce = data.len() - 32 * 3 - 32 * 2;
            data[nonce..nonce + 32].copy_from_slice(authorization.nonce.as_slice());
            stage.send_blindly(token, data.into()).await
        };
        stage.mined(forged).await;
        for shop in Shop::each(&stage).await {
            let from = alice().address();
            shop.refused(&paid(1, from, elsewhere), code::WRONG_RECIPIENT).await;
            shop.refused(&paid(1, from, little), code::TOO_LITTLE).await;
            shop.refused(&paid(1, from, plain), code::NO_AUTHORIZATION).await;
            shop.refused(&paid(1, from, forged), code::REVERTED).await;
            shop.refused(&paid(1, bob().address(), good), code::NO_AUTHORIZATION).await;
            shop.refused(&paid(9, from, good), code::TOOL_UNKNOWN).await;
            // Another chain: one that is not followed, and one that the tool is not sold on.
            let on = |chain| Submission {
                proof: UsageProof::Settlement { caller: from, transaction: good, chain },
                ..paid(1, from, good)
            };
            shop.refused(&on(8453), code::CHAIN_UNKNOWN).await;
            // A token of the tool's own is not trusted, whatever it logs.
            let own = Address::repeat_byte(0x99);
            put(&shop.index, &Sold::new(2, CREATOR, own)).await;
            shop.refused(&paid(2, from, good), code::TOKEN_UNKNOWN).await;
            let mut abroad = price(token, CREATOR, PRICE);
            abroad.chain = Some(8453);
            abroad.recipient = abroad.recipient.replace("31337", "8453");
            put(&shop.index, &Sold { prices: vec![abroad], ..Sold::new(3, CREATOR, token) }).await;
            shop.refused(&paid(3, from, good), code::NO_PRICE).await;
            // Another protocol, and a free tool.
            let mut other = price(token, CREATOR, PRICE);
            other.protocol = "mpp".to_owned();
            put(&shop.index, &Sold { prices: vec![other], ..Sold::new(4, CREATOR, token) }).await;
            shop.refused(&paid(4, from, good), code::NO_PRICE).await;
            put(&shop.index, &Sold::new(5, CREATOR, token).to(token, CREATOR, 0)).await;
            shop.refused(&paid(5, from, good), code::NO_PRICE).await;
            // Not verified, and registered after the payment.
            put(&shop.index, &Sold { verified: false, ..Sold::new(6, CREATOR, token) }).await;
            shop.refused(&paid(6, from, good), code::TOOL_NOT_LISTED).await;
            let late = Sold { registered_at: SystemClock.now().seconds() + 3_600, ..Sold::new(7, CREATOR, token) };
            put(&shop.index, &late).await;
            shop.refused(&paid(7, from, good), code::TOO_EARLY).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_do_not_pay_themselves_up() {
    for stage in Stage::each().await {
        let token = stage.token.address;
        let (owner, till) = (alice().address(), bob().address());
        let by_creator = stage.pay(alice(), till, PRICE).await;
        let by_recipient = stage.pay(bob(), till, PRICE).await;
        for shop in Shop::each(&stage).await {
            let key = put(&shop.index, &Sold::new(2, owner, token).to(token, till, PRICE)).await;
            shop.refused(&paid(2, owner, by_creator), code::SELF_PAYMENT).await;
            shop.refused(&paid(2, till, by_recipient), code::SELF_PAYMENT).await;
            shop.refused(&paid(2, owner, by_creator), code::SELF_PAYMENT).await;
            assert!(shop.index.activity(key, false, 10, 0).await.expect("activity").0.is_empty());
            let (calls, _) = shop.index.activity(key, true, 10, 0).await.expect("activity");
            assert_eq!(calls.iter().map(|call| call.attribution).collect::<Vec<_>>(), ["creator"; 2]);
            let signature = signed(&stage, 2, alice(), authorization(owner, owner, 0));
            shop.refused(&signature, code::SELF_PAYMENT).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_belongs_to_one_tool() {
    for stage in Stage::each().await {
        let token = stage.token.address;
        let from = alice().address();
        let one = stage.pay(alice(), CREATOR, PRICE).await;
        let two = stage.pay(alice(), CREATOR, 2 * PRICE).await;
        let till = Address::repeat_byte(0x11);
        let till_paid = stage.pay(alice(), till, PRICE).await;
        for shop in Shop::each(&stage).await {
            // Two tools of one owner: the price decides.
            put(&shop.index, &Sold::new(2, CREATOR, token).to(token, CREATOR, 2 * PRICE)).await;
            shop.refused(&paid(2, from, one), code::TOO_LITTLE).await;
            shop.refused(&paid(1, from, two), code::OTHER_TOOL).await;
            assert!(shop.submit(&paid(2, from, two)).await.verified);
            // At the same price, the first proof gets it.
            put(&shop.index, &Sold::new(3, CREATOR, token)).await;
            assert!(shop.submit(&paid(3, from, one)).await.verified);
            shop.refused(&paid(1, from, one), code::ALREADY_COUNTED).await;
            // Another owner's tool that names the same account gets nothing of it.
            let thief = Address::repeat_byte(0xbd);
            put(&shop.index, &Sold::new(4, thief, token).to(token, CREATOR, PRICE)).await;
            shop.refused(&paid(4, from, one), code::OTHER_TOOL).await;
            // If the account has registered nothing, the first registration gets it.
            let late = Sold { registered_at: 9_000, ..Sold::new(5, thief, token).to(token, till, PRICE) };
            put(&shop.index, &late).await;
            put(&shop.index, &Sold::new(6, CREATOR, token).to(token, till, PRICE)).await;
            shop.refused(&paid(5, from, till_paid), code::OTHER_TOOL).await;
            assert!(shop.submit(&paid(6, from, till_paid)).await.verified);
            let counted: Vec<_> = [1, 2, 3, 4, 5, 6].to_vec();
            let mut calls = Vec::new();
            for id in counted {
                calls.push(shop.totals(id).await.paid_calls);
            }
            assert_eq!(calls, [0, 1, 1, 0, 0, 1]);
            // An endpoint of two tools is ambiguous.
            let same = Sold { endpoint: "https://tools.example.com/1".to_owned(), ..Sold::new(8, thief, token) };
            put(&shop.index, &same).await;
            for (endpoint, expected) in [
                ("https://tools.example.com/1", code::TOOL_AMBIGUOUS),
                ("https://tools.example.com/none", code::TOOL_UNKNOWN),
                ("not a URL", code::TOOL_UNKNOWN),
            ] {
                let report = Submission { subject: Subject::Endpoint(endpoint.to_owned()), ..paid(1, from, one) };
                shop.refused(&report, expected).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_batch_each_authorization_has_its_own_transfer() {
    for stage in Stage::each().await {
        let token = stage.token.address;
        let nothing = Address::repeat_byte(0xee);
        let calls: Vec<Bytes> = vec![
            stage.payment(bob(), CREATOR, 2 * PRICE),
            // Used up for a payment of zero, before the payment of another account.
            stage.payment(alice(), nothing, 0),
            stage.payment(alice(), nothing, PRICE),
            stage.payment(&dev_signers()[3], CREATOR, PRICE),
        ];
        let batch = stage.batch(&calls).await;
        let twice = stage.batch(&[stage.payment(alice(), CREATOR, PRICE), stage.payment(alice(), CREATOR, PRICE)]).await;
        // Two authorizations, one of them over zero, and one payment.
        let covered = stage.batch(&[stage.payment(alice(), CREATOR, 0), stage.payment(alice(), CREATOR, PRICE)]).await;
        for shop in Shop::each(&stage).await {
            shop.refused(&paid(1, alice().address(), batch), code::WRONG_RECIPIENT).await;
            assert!(shop.submit(&paid(1, bob().address(), batch)).await.verified);
            assert!(shop.submit(&paid(1, dev_signers()[3].address(), batch)).await.verified);
            shop.refused(&paid(1, dev_signers()[4].address(), batch), code::NO_AUTHORIZATION).await;
            assert_eq!(shop.totals(1).await.volume, 3 * PRICE);
            // One report, one call: the second payment is left for another tool's report, and there is no third.
            assert!(shop.submit(&paid(1, alice().address(), twice)).await.verified);
            put(&shop.index, &Sold::new(2, CREATOR, token)).await;
            put(&shop.index, &Sold::new(3, CREATOR, token)).await;
            assert!(shop.submit(&paid(2, alice().address(), twice)).await.verified);
            shop.refused(&paid(3, alice().address(), twice), code::ALREADY_COUNTED).await;
            assert!(shop.submit(&paid(1, alice().address(), twice)).await.verified, "sent again, it is the same call");
            assert!(shop.submit(&paid(1, alice().address(), covered)).await.verified);
            shop.refused(&paid(2, alice().address(), covered), code::ALREADY_COUNTED).await;
            assert_eq!(shop.totals(1).await.paid_calls, 4);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_final_waits() {
    for stage in Stage::each().await {
        let public = stage.public().await;
        let mut shops = Shop::each(&stage).await;
        for shop in &mut shops {
            shop.chains = Chains::from_iter([public.clone()]);
        }
        let from = alice().address();
        let now = SystemClock.now();
        stage.dev("evm_setAutomine", json!([false])).await;
        let data = stage.payment(alice(), CREATOR, PRICE);
        let hash = stage.send_blindly(stage.token.address, data).await;
        for shop in &shops {
            shop.refused_at(&paid(1, from, hash), code::NOT_FOUND, now).await;
            shop.refused_at(&paid(1, from, B256::repeat_byte(0xaa)), code::NOT_FOUND, now).await;
        }
        stage.dev("evm_mine", json!([])).await;
        stage.dev("evm_setAutomine", json!([true])).await;
        stage.mined(hash).await;
        for shop in &shops {
            shop.refused_at(&paid(1, from, hash), code::NOT_FINAL, now).await;
            assert_eq!(usage::settle_pending(&shop.index, &shop.chains, now).await.expect("looked"), 0, "not yet");
            let soon = now.plus(30);
            assert_eq!(usage::settle_pending(&shop.index, &shop.chains, soon).await.expect("looked"), 2);
            assert_eq!(usage::settle_pending(&shop.index, &shop.chains, soon).await.expect("looked"), 0, "each has its time");
            assert_eq!(shop.all_totals().await, 0);
        }
        stage.dev("anvil_mine", json!(["0x41"])).await;
        for shop in &shops {
            // The node is unavailable for a while: nothing is lost.
            let gone = toolcrib_chain::rpc::NodeUrl::parse("http://127.0.0.1:1").expect("a URL");
            let config = toolcrib_chain::rpc::ChainConfig::new(public.network(), vec![gone]).expect("a node");
            let gone = Chains::from_iter([toolcrib_chain::rpc::Chain::lazy(config).expect("not connected yet")]);
            assert_eq!(usage::settle_pending(&shop.index, &gone, now.plus(120)).await.expect("looked"), 2);
            assert_eq!(shop.all_totals().await, 0);
            let later = now.plus(NOT_FOUND_SECONDS);
            assert_eq!(usage::settle_pending(&shop.index, &shop.chains, later).await.expect("looked"), 2);
            let totals = shop.totals(1).await;
            assert_eq!((totals.paid_calls, totals.ranking_payers), (1, 1));
            assert!(shop.submit(&paid(1, from, hash)).await.verified);
            // The invented one was given up.
            let end = now.plus(2 * PENDING_SECONDS);
            assert_eq!(usage::settle_pending(&shop.index, &shop.chains, end).await.expect("looked"), 0);
        }
    }
}

// req: USAGE-006, USAGE-007
#[tokio::test(flavor = "multi_thread")]
async fn signatures_over_nothing_never_rank() {
    let stage = &Stage::each().await[0];
    let token = stage.token.address;
    let from = alice().address();
    for shop in Shop::each(stage).await {
        let till = Address::repeat_byte(0x11);
        put(&shop.index, &Sold::new(2, Address::repeat_byte(0xbd), token).to(token, till, 0)).await;
        let report = signed(stage, 1, alice(), authorization(from, CREATOR, 0));
        let first = shop.submit(&report).await;
        assert_eq!((first.verified, first.code, first.verification_type), (true, None, "eip3009_authorization"));
        assert_eq!(shop.submit(&report).await, first);
        let tool = ToolRef { chain: LOCAL, registry: REGISTRY, id: U256::from(1) };
        let bound = EndpointBinding { endpoint: "https://tools.example.com/1".to_owned(), tool, operator: CREATOR };
        assert!(shop.submit(&signed(stage, 1, alice(), authorization(from, bound.pay_to(), 0))).await.verified);
        assert!(shop.submit(&signed(stage, 2, alice(), authorization(from, till, 0))).await.verified);
        let totals = shop.totals(1).await;
        assert_eq!((totals.signed_calls, totals.paid_calls, totals.payers, totals.ranking_payers), (2, 0, 0, 0));
        let (calls, _) = shop.index.activity(shop.key, false, 10, 0).await.expect("activity");
        assert_eq!((calls.len(), calls[0].paid, calls[0].tx_hash), (2, false, None));
        // Another account's signature, another recipient, another tool's binding, another chain, an expired and a future validity.
        let at = |change: &dyn Fn(&mut Authorization)| {
            let mut authorization = authorization(from, CREATOR, 0);
            change(&mut authorization);
            authorization
        };
        let time = SystemClock.now().seconds() as u64;
        shop.refused(&signed(stage, 1, bob(), at(&|_| {})), code::SIGNATURE).await;
        shop.refused(&signed(stage, 1, alice(), at(&|a| a.to = till)), code::SIGNED_FOR_ANOTHER).await;
        shop.refused(&signed(stage, 2, alice(), at(&|a| a.to = bound.pay_to())), code::SIGNED_FOR_ANOTHER).await;
        let elsewhere = Submission { chain: Some(8453), ..signed(stage, 1, alice(), at(&|_| {})) };
        shop.refused(&elsewhere, code::SIGNATURE).await;
        let nowhere = Submission { chain: Some(360), ..signed(stage, 1, alice(), at(&|_| {})) };
        shop.refused(&nowhere, code::CHAIN_UNKNOWN).await;
        shop.refused(&signed(stage, 1, alice(), at(&|a| a.valid_before = time - SKEW_SECONDS - 1)), code::OUT_OF_TIME).await;
        shop.refused(&signed(stage, 1, alice(), at(&|a| a.valid_after = time + SKEW_SECONDS + 60)), code::OUT_OF_TIME).await;
        let money = signed(stage, 1, alice(), authorization(from, CREATOR, 5));
        shop.refused(&money, code::VALUE_NOT_ZERO).await;
    }
}

/// Returns the part of the creator signal in a tool's score.
async fn creator_share(search: &Search, key: ToolKey) -> f32 {
    search.catch_up().await.expect("caught up");
    let page = search.run(&SearchQuery { limit: 20, explain: true, ..SearchQuery::default() }).expect("a page");
    let hit = page.hits.into_iter().find(|hit| hit.key == key).expect("listed");
    hit.explanation.expect("an explanation").creator
}

// req: IDX-009
#[tokio::test(flavor = "multi_thread")]
async fn creators_are_known_by_the_accounts_that_paid_any_of_their_tools() {
    for stage in Stage::each().await {
        let (carol, owner) = (&dev_signers()[3], &dev_signers()[4]);
        let till = carol.address();
        let to_first = stage.pay(alice(), CREATOR, PRICE).await;
        let to_second = stage.pay(alice(), till, PRICE).await;
        let of_bob = stage.pay(bob(), CREATOR, PRICE).await;
        let of_till = stage.pay(carol, CREATOR, PRICE).await;
        let of_owner = stage.pay(owner, CREATOR, PRICE).await;
        let to_self = stage.pay(owner, owner.address(), PRICE).await;
        for shop in Shop::each(&stage).await {
            let token = stage.token.address;
            let second = put(&shop.index, &Sold::new(2, CREATOR, token).to(token, till, PRICE)).await;
            put(&shop.index, &Sold::new(3, owner.address(), token)).await;
            let search = Search::open(shop.index.clone(), SearchOptions::default()).await.expect("search");
            assert_eq!(creator_share(&search, second).await, 0.0);
            let mut last = shop.index.last_change().await.expect("a number");
            let mut seen = async || {
                let changes = shop.index.changes(last, 10).await.expect("changes");
                last = shop.index.last_change().await.expect("a number");
                let mut all: Vec<_> = changes.iter().map(|change| (change.key.id.to::<u64>(), change.kinds)).collect();
                all.sort_by_key(|(id, _)| *id);
                all
            };
            let payers = async |id| shop.totals(id).await.creator_payers;

            assert!(shop.submit(&paid(1, alice().address(), to_first)).await.verified);
            assert_eq!((payers(1).await, payers(2).await, payers(3).await), (1, 1, 0));
            assert_eq!(seen().await, [(1, Kinds::USAGE), (2, Kinds::FACTS)], "the other tool is worth more");
            let one = creator_share(&search, second).await;
            assert!(one > 0.0, "search learns of it");

            assert!(shop.submit(&paid(2, alice().address(), to_second)).await.verified);
            assert_eq!((payers(1).await, payers(2).await, shop.totals(2).await.ranking_payers), (1, 1, 1), "each account once");
            assert_eq!(seen().await, [(2, Kinds::USAGE)]);
            assert_eq!(creator_share(&search, second).await, one);

            assert!(shop.submit(&paid(1, bob().address(), of_bob)).await.verified);
            assert_eq!((payers(1).await, payers(2).await), (2, 2));
            assert_eq!(seen().await, [(1, Kinds::USAGE), (2, Kinds::FACTS)]);
            let two = creator_share(&search, second).await;
            assert!(two > one);

            // A third account is not a doubling: other tools stay as they are.
            assert!(shop.submit(&paid(1, owner.address(), of_owner)).await.verified);
            assert_eq!((payers(1).await, payers(2).await), (3, 3));
            assert_eq!(seen().await, [(1, Kinds::USAGE)]);
            assert_eq!(creator_share(&search, second).await, two);

            // A creator cannot raise its own number, neither by paying itself nor through the recipient of another of its tools.
            assert!(shop.submit(&paid(1, till, of_till)).await.verified);
            assert_eq!((payers(1).await, payers(2).await), (3, 3));
            assert_eq!(seen().await, [(1, Kinds::USAGE)]);
            shop.refused(&paid(3, owner.address(), to_self), code::SELF_PAYMENT).await;
            assert_eq!(payers(3).await, 0);

            // A rebuilt search index agrees with one that followed the feed.
            let fresh = Search::open(shop.index.clone(), SearchOptions::default()).await.expect("search");
            assert_eq!(creator_share(&fresh, second).await, two);
        }
    }
}
