//! The ledger by itself: budgets, states and times.

use alloy_primitives::{Address, B256};
use toolcrib_client::ledger::{
    Evidence, KEEP_DAYS, LEASE_SECONDS, MAX_REDEEMABLE_SECONDS, REDEEMABLE_SECONDS, RESUMABLE_SECONDS, Signing, Spend, State,
};
use toolcrib_client::{Ledger, PaymentId, SpendError, SpendPolicy, Usdc};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::url::Origin;
use toolcrib_x402::Version;

use toolcrib_testkit::databases::{DURABLE, TestStore};

pub(crate) const START: i64 = 1_800_000_000;

pub(crate) fn at(seconds: i64) -> UnixTime {
    UnixTime::from_seconds(START + seconds)
}

pub(crate) fn spend(micro: u64) -> Spend {
    Spend {
        tool: ToolRef::parse("eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7").ok(),
        origin: Origin::parse("https://tools.example.com").unwrap(),
        chain: 8453,
        asset: Address::repeat_byte(1),
        recipient: Address::repeat_byte(2),
        payer: Address::repeat_byte(3),
        amount: Usdc::micro(micro),
    }
}

pub(crate) fn signing(nonce: u8) -> Signing<'static> {
    Signing {
        nonce: B256::repeat_byte(nonce),
        valid_before: START as u64 + 300,
        from_block: 7,
        method: "POST",
        url: "https://tools.example.com/call",
        body: b"{}",
        version: Version::V2,
    }
}

/// A ledger of its own on each engine that there is.
async fn ledgers() -> Vec<(TestStore, Ledger)> {
    let mut ledgers = Vec::new();
    for backend in DURABLE {
        let Some(place) = TestStore::new(backend).await else { continue };
        let ledger = Ledger::open(place.database().await).await.unwrap();
        ledgers.push((place, ledger));
    }
    ledgers
}

/// Reserves until a budget stops it: how often, and which.
async fn fill(ledger: &Ledger, policy: &SpendPolicy, spend: &Spend, now: UnixTime) -> (usize, &'static str) {
    for count in 0.. {
        if let Err(error) = ledger.reserve(spend, policy, now).await {
            return (count, error.code().id());
        }
    }
    unreachable!()
}

#[tokio::test]
async fn every_budget_stops_by_itself() {
    type Change = fn(&mut SpendPolicy);
    let much = Usdc::micro(10_000_000);
    let rows: [(Change, &str); 5] = [
        (|policy| policy.per_hour = Usdc::micro(30_000), "spend.per_hour"),
        (|policy| policy.per_day = Usdc::micro(30_000), "spend.per_day"),
        (|policy| policy.per_recipient_day = Usdc::micro(30_000), "spend.per_recipient"),
        (|policy| policy.per_tool_day = Usdc::micro(30_000), "spend.per_tool"),
        (|policy| policy.per_asset_day = Usdc::micro(30_000), "spend.per_asset"),
    ];
    for (change, code) in rows {
        for (_place, ledger) in ledgers().await {
            let mut policy = SpendPolicy::default();
            (policy.per_hour, policy.per_day, policy.per_recipient_day) = (much, much, much);
            (policy.per_tool_day, policy.per_asset_day) = (much, much);
            change(&mut policy);
            assert_eq!(fill(&ledger, &policy, &spend(10_000), at(0)).await, (3, code));
            // To the last millionth.
            assert_eq!(fill(&ledger, &policy, &spend(1), at(0)).await, (0, code));
            let other = match code {
                "spend.per_recipient" => Spend { recipient: Address::repeat_byte(9), ..spend(10_000) },
                "spend.per_tool" => Spend { tool: None, ..spend(10_000) },
                "spend.per_asset" => Spend { chain: 10, ..spend(10_000) },
                _ => continue,
            };
            ledger.reserve(&other, &policy, at(0)).await.expect("another one has a budget of its own");
        }
    }
}

#[tokio::test]
async fn windows_move_on() {
    for (_place, ledger) in ledgers().await {
        let mut policy = SpendPolicy::default();
        (policy.per_hour, policy.per_day) = (Usdc::micro(20_000), Usdc::micro(30_000));
        let take = async |time: i64| match ledger.reserve(&spend(10_000), &policy, at(time)).await {
            Ok(id) => {
                ledger.sign(id, &signing(1), at(time)).await.unwrap();
                "ok"
            }
            Err(error) => error.code().id(),
        };
        assert_eq!(take(0).await, "ok");
        assert_eq!(take(1).await, "ok");
        assert_eq!(take(3_599).await, "spend.per_hour");
        assert_eq!(take(3_600).await, "ok", "the first is an hour ago");
        assert_eq!(take(7_300).await, "spend.per_day");
        assert_eq!(take(86_399).await, "spend.per_day");
        assert_eq!(take(86_400).await, "ok", "the first is a day ago");
        // A clock that was set back finds the later payments still counted.
        assert_eq!(take(-50).await, "spend.per_hour");
    }
}

#[tokio::test]
async fn states_lead_on_one_way() {
    for (_place, ledger) in ledgers().await {
        let policy = SpendPolicy::default();
        let state = async |id: PaymentId| ledger.entry(id).await.unwrap().state;
        let id = ledger.reserve(&spend(10_000), &policy, at(0)).await.unwrap();
        assert_eq!(
            ledger.settle(id, None, Evidence::Chain, "", at(0)).await.unwrap_err().code().id(),
            "spend.state",
            "nothing was signed"
        );
        ledger.sign(id, &signing(1), at(1)).await.unwrap();
        assert_eq!(ledger.sign(id, &signing(1), at(1)).await.unwrap_err().code().id(), "spend.reservation_expired", "once");
        ledger.attach(id, "the payment", Some(B256::repeat_byte(5)), at(1)).await.unwrap();
        ledger.unknown(id, None, "no answer", at(2)).await.unwrap();
        assert_eq!(state(id).await, State::Unknown);
        ledger.settle(id, Some(B256::repeat_byte(6)), Evidence::Chain, "seen", at(3)).await.unwrap();
        assert_eq!(ledger.unknown(id, None, "", at(4)).await.unwrap_err().code().id(), "spend.state", "settled is settled");
        assert_eq!(state(id).await, State::Settled);
        let text = format!("{:?}", ledger.entry(id).await.unwrap());
        assert!(!text.contains("the payment"), "{text}");

        // A reservation lapses: it does not count, and cannot be signed any more.
        let late = ledger.reserve(&spend(10_000), &policy, at(10)).await.unwrap();
        assert_eq!(ledger.totals(at(10 + LEASE_SECONDS - 1)).await.unwrap().day, Usdc::micro(20_000));
        assert_eq!(ledger.totals(at(10 + LEASE_SECONDS)).await.unwrap().day, Usdc::micro(10_000));
        assert_eq!(
            ledger.sign(late, &signing(2), at(10 + LEASE_SECONDS)).await.unwrap_err().code().id(),
            "spend.reservation_expired"
        );
        let nobody = PaymentId::parse("00000000000000000000000000000000").unwrap();
        assert!(matches!(ledger.entry(nobody).await, Err(SpendError::NotFound { .. })));
        assert!(PaymentId::parse("0").is_none() && PaymentId::parse(&"G".repeat(32)).is_none());
        assert_eq!(PaymentId::parse(&id.to_string()), Some(id));
    }
}

#[tokio::test]
async fn old_payments_are_pruned() {
    for (_place, ledger) in ledgers().await {
        let policy = SpendPolicy::default();
        for day in 0..5 {
            let id = ledger.reserve(&spend(10_000), &policy, at(day * 86_400)).await.unwrap();
            ledger.sign(id, &signing(1), at(day * 86_400)).await.unwrap();
        }
        ledger.reserve(&spend(1), &policy, at((KEEP_DAYS + 2) * 86_400 + 1)).await.unwrap();
        let left = ledger.newest(100).await.unwrap();
        assert_eq!(left.len(), 3, "those of the first three days are gone");
    }
}

/// A payment that cannot be sent again keeps neither its signature nor its input.
#[tokio::test]
async fn old_signatures_are_forgotten() {
    use toolcrib_store::database::Value;
    for (place, ledger) in ledgers().await {
        let policy = SpendPolicy::default();
        let id = ledger.reserve(&spend(10_000), &policy, at(0)).await.unwrap();
        ledger.sign(id, &signing(1), at(0)).await.unwrap();
        ledger.attach(id, "the payment", Some(B256::repeat_byte(5)), at(0)).await.unwrap();
        ledger.unknown(id, None, "", at(1)).await.unwrap();
        let database = place.database().await;
        let kept = async || {
            let rows = database.fetch("SELECT payment FROM client_spend WHERE id = $1", &[Value::Text(&id.to_string())]).await;
            rows.unwrap()[0].scalar::<&str>().unwrap().to_owned()
        };
        ledger.reserve(&spend(1), &policy, at(RESUMABLE_SECONDS)).await.unwrap();
        assert_eq!(kept().await, "the payment");
        ledger.reserve(&spend(1), &policy, at(RESUMABLE_SECONDS + 1)).await.unwrap();
        assert_eq!(kept().await, "");
        assert_eq!(ledger.entry(id).await.unwrap().state, State::Unknown, "what is known of it stays");
    }
}

/// Fifty calls on a development chain leave the budget of real money as it was, and the other way round.
#[tokio::test]
async fn test_money_and_real_money_have_budgets_of_their_own() {
    for (_place, ledger) in ledgers().await {
        let policy = SpendPolicy::default();
        let test = Spend { chain: 31_337, tool: None, ..spend(10_000) };
        let mut taken = 0;
        while ledger.reserve(&test, &policy, at(0)).await.is_ok() {
            taken += 1;
        }
        assert_eq!(taken, 50, "the budget of an hour");
        assert_eq!(ledger.totals(at(0)).await.unwrap().day, Usdc::ZERO);
        assert_eq!(ledger.test_totals(at(0)).await.unwrap().day, Usdc::micro(500_000));
        ledger.reserve(&spend(100_000), &policy, at(0)).await.unwrap();
        assert_eq!(ledger.totals(at(0)).await.unwrap().day, Usdc::micro(100_000));
        assert_eq!(ledger.test_totals(at(0)).await.unwrap().day, Usdc::micro(500_000));
    }
}

/// What redeems a result outlives the settlement for as long as servers keep results.
#[tokio::test]
async fn a_settled_payment_can_be_redeemed_for_an_hour() {
    for (_place, ledger) in ledgers().await {
        let policy = SpendPolicy::default();
        let id = ledger.reserve(&spend(10_000), &policy, at(0)).await.unwrap();
        ledger.sign(id, &signing(1), at(0)).await.unwrap();
        ledger.attach(id, "the payment", Some(B256::repeat_byte(5)), at(0)).await.unwrap();
        ledger.settle(id, Some(B256::repeat_byte(6)), Evidence::Server, "", at(10)).await.unwrap();
        ledger.keep_redemption(id, Some("token"), None, at(10)).await.unwrap();
        ledger.reserve(&spend(1), &policy, at(10 + REDEEMABLE_SECONDS)).await.unwrap();
        assert!(ledger.entry(id).await.unwrap().is_resumable());
        ledger.reserve(&spend(1), &policy, at(11 + REDEEMABLE_SECONDS)).await.unwrap();
        let entry = ledger.entry(id).await.unwrap();
        assert_eq!((entry.is_resumable(), entry.state), (false, State::Settled));
    }
}

/// For how long is the server's word, within bounds.
#[tokio::test]
async fn a_server_says_how_long_it_keeps_a_result() {
    const MONTH: i64 = 30 * 86_400;
    for (_place, ledger) in ledgers().await {
        let policy = SpendPolicy::default();
        for (said, kept) in [
            (Some(60), 60),
            (Some(7_200), 7_200),
            (Some(MAX_REDEEMABLE_SECONDS), MAX_REDEEMABLE_SECONDS),
            (Some(MONTH), MAX_REDEEMABLE_SECONDS),
            (Some(i64::MAX), MAX_REDEEMABLE_SECONDS),
            (Some(0), REDEEMABLE_SECONDS),
            (Some(-1), REDEEMABLE_SECONDS),
            (None, REDEEMABLE_SECONDS),
        ] {
            let id = ledger.reserve(&spend(10_000), &policy, at(0)).await.unwrap();
            ledger.sign(id, &signing(1), at(0)).await.unwrap();
            ledger.attach(id, "the payment", None, at(0)).await.unwrap();
            ledger.keep_redemption(id, None, said, at(10)).await.unwrap();
            ledger.settle(id, None, Evidence::Server, "", at(10)).await.unwrap();
            // Known once more, later: the time does not begin anew.
            ledger.settle(id, None, Evidence::Chain, "", at(30)).await.unwrap();
            assert_eq!(ledger.entry(id).await.unwrap().redeemable_until, Some(at(10 + kept)), "{said:?}");
            for (after, is_resumable) in [(kept, true), (kept + 1, false)] {
                ledger.reserve(&spend(1), &policy, at(10 + after)).await.unwrap();
                assert_eq!(ledger.entry(id).await.unwrap().is_resumable(), is_resumable, "{said:?}");
            }
        }
    }
}

/// What the chain shows is not replaced by what a server says, and what only a server says gives way to the chain.
#[tokio::test]
async fn the_chain_outranks_the_server() {
    let (stated, shown) = (Some(B256::repeat_byte(6)), Some(B256::repeat_byte(7)));
    for (_place, ledger) in ledgers().await {
        let policy = SpendPolicy::default();
        let signed = async || {
            let id = ledger.reserve(&spend(10), &policy, at(0)).await.unwrap();
            ledger.sign(id, &signing(1), at(0)).await.unwrap();
            id
        };
        let known = async |id| {
            let entry = ledger.entry(id).await.unwrap();
            (entry.state, entry.transaction, entry.evidence())
        };
        let id = signed().await;
        assert_eq!(known(id).await, (State::Signed, None, None));
        ledger.unknown(id, stated, "not seen yet", at(1)).await.unwrap();
        assert_eq!(known(id).await, (State::Unknown, stated, Some(Evidence::Server)));
        ledger.settle(id, shown, Evidence::Chain, "", at(2)).await.unwrap();
        ledger.settle(id, stated, Evidence::Server, "", at(3)).await.unwrap();
        assert_eq!(known(id).await, (State::Settled, shown, Some(Evidence::Chain)));
        // Used for something else: what the server has named is not the transaction.
        let id = signed().await;
        ledger.settle(id, stated, Evidence::Server, "", at(1)).await.unwrap();
        assert_eq!(known(id).await, (State::Settled, stated, Some(Evidence::Server)));
        ledger.settle(id, None, Evidence::Chain, "", at(2)).await.unwrap();
        assert_eq!(known(id).await, (State::Settled, None, Some(Evidence::Chain)));
    }
}

/// Two handles, as of two processes, and fifty calls at once: the budget holds on both engines.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reservations_at_once_keep_the_budget() {
    for (place, first) in ledgers().await {
        let second = Ledger::open(place.database().await).await.unwrap();
        let mut policy = SpendPolicy::default();
        policy.per_hour = Usdc::micro(79_999);
        let mut running = tokio::task::JoinSet::new();
        for call in 0..50 {
            let (ledger, policy) = (if call % 2 == 0 { first.clone() } else { second.clone() }, policy.clone());
            running.spawn(async move { ledger.reserve(&spend(10_000), &policy, at(0)).await });
        }
        let (mut taken, mut refused) = (0, 0);
        while let Some(done) = running.join_next().await {
            match done.unwrap() {
                Ok(_) => taken += 1,
                Err(SpendError::Budget { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((taken, refused), (7, 43), "{place:?}");
    }
}
