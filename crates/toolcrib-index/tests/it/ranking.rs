//! Ranking signals, each through the public search: whether it counts, in the right direction, and within its limit.

use alloy_primitives::Address;
use proptest::prelude::*;
use toolcrib_index::Index;
use toolcrib_index::feed::{self, Kinds};
use toolcrib_index::listing::Life;
use toolcrib_index::model::RegistryId;
use toolcrib_index::moderation::{Decision, Step, Subject};
use toolcrib_index::search::{Explanation, Hit, Reputation, Search, SearchOptions, SearchQuery, Sort};
use toolcrib_store::database::Value;

use crate::search::write_embedding;
use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::samples::{NOW, Sample, put};

const DAY: i64 = 86_400;

/// A tool like the others: the same words, and the same ranking signals.
fn like_others(id: u64) -> Sample {
    let registered = NOW.seconds() - 300 * DAY;
    let updated = Some(NOW.seconds() - 100 * DAY);
    let creator = Address::left_padding_from(&id.to_be_bytes());
    let sample = Sample::new(id, "weather", "Tells the weather of a city for the next days.");
    Sample { registered, updated, creator, payers: 20, creator_payers: 30, health: (100, 90), ..sample }
}

async fn index() -> (Index, RegistryId) {
    let place = TestStore::new(Backend::SqliteMemory).await.expect("a place");
    let index = Index::open(place.database().await).await.expect("an index");
    let registry = index.add_registry(8453, Address::repeat_byte(1), 0).await.expect("a registry").id;
    (index, registry)
}

async fn searching(index: &Index, options: SearchOptions) -> Search {
    let search = Search::open(index.clone(), options).await.expect("search");
    search.catch_up().await.expect("caught up");
    search
}

fn hits(search: &Search, words: Option<&str>) -> Vec<Hit> {
    let text = words.map(str::to_owned);
    search.run(&SearchQuery { text, limit: 200, explain: true, ..SearchQuery::default() }).expect("a page").hits
}

/// Returns the parts of a score, by name.
fn shares(hit: &Hit) -> Vec<(&'static str, f32)> {
    let Explanation { text, meaning, trust, usage, creator, health, age, recency, reputation, corrected: _ } =
        hit.explanation.as_ref().expect("an explanation");
    let named = [
        ("text", *text),
        ("meaning", meaning.unwrap_or_default()),
        ("trust", *trust),
        ("usage", *usage),
        ("creator", *creator),
        ("health", *health),
        ("age", *age),
        ("recency", *recency),
        ("reputation", *reputation),
    ];
    named.to_vec()
}

/// The parts add up to the score, except for rounding.
fn adds_up(hit: &Hit) -> bool {
    let parts = hit.explanation.as_ref().expect("an explanation");
    let sum: f32 = shares(hit).into_iter().map(|(_, share)| share).sum();
    (sum - hit.score).abs() <= 1e-5 * hit.score.abs().max(1.0)
        && (parts.sum() - hit.score).abs() <= 1e-5 * hit.score.abs().max(1.0)
}

/// Checks that tools that differ in one signal only are ranked best first, with and without words, and that the explanation says why.
///
/// Equal tools are ordered last first, so a signal without weight reverses the order, as does one with the wrong sign.
async fn decides(signal: &str, best_first: Vec<Sample>, reputation: Option<Reputation>) {
    let (index, registry) = index().await;
    put(&index, registry, &best_first).await;
    let search = searching(&index, SearchOptions { reputation, ..SearchOptions::default() }).await;
    let expected: Vec<u64> = best_first.iter().map(|sample| sample.id).collect();
    assert!(expected.is_sorted() && expected.len() >= 3, "{signal}: ids rise");
    for words in [Some("what will the weather be tomorrow"), None] {
        let hits = hits(&search, words);
        let found: Vec<u64> = hits.iter().map(|hit| hit.key.id.to()).collect();
        assert_eq!(found, expected, "{signal} with {words:?}");
        for pair in hits.windows(2) {
            assert!(pair[0].score > pair[1].score, "{signal} with {words:?}: {pair:?}");
            for ((name, better), (_, worse)) in shares(&pair[0]).into_iter().zip(shares(&pair[1])) {
                if name == signal {
                    assert!(better > worse, "{signal} with {words:?}: {better} and {worse}");
                } else {
                    assert_eq!(better, worse, "{signal} with {words:?}: {name} is the same");
                }
            }
        }
        assert!(hits.iter().all(adds_up), "{hits:?}");
    }
}

/// Tools like the others, each changed by one of `values`.
fn with<T: Clone>(values: &[T], change: impl Fn(&mut Sample, T)) -> Vec<Sample> {
    let samples = values.iter().zip(1..).map(|(value, id)| {
        let mut sample = like_others(id);
        change(&mut sample, value.clone());
        sample
    });
    samples.collect()
}

// req: IDX-009
#[tokio::test(flavor = "multi_thread")]
async fn trust_decides_between_equals() {
    let tiers = ["verifiable", "hardware-attested", "self-attested"];
    decides("trust", with(&tiers, |sample, tier| sample.tier = tier.to_owned()), None).await;
}

// req: IDX-009
#[tokio::test(flavor = "multi_thread")]
async fn accounts_that_paid_decide_between_equals() {
    decides("usage", with(&[9_000, 500, 40, 2, 1, 0], |sample, payers| sample.payers = payers), None).await;
}

// req: IDX-009
#[tokio::test(flavor = "multi_thread")]
async fn creator_activity_decides_between_equals() {
    let payers = [9_000, 600, 500, 40, 2, 1, 0];
    decides("creator", with(&payers, |sample, payers| sample.creator_payers = payers), None).await;
}

// req: IDX-009
#[tokio::test(flavor = "multi_thread")]
async fn health_decides_between_equals() {
    let looks = [(300, 300), (100, 99), (100, 50), (3, 0), (300, 0)];
    decides("health", with(&looks, |sample, looks| sample.health = looks), None).await;
}

// req: IDX-009
#[tokio::test(flavor = "multi_thread")]
async fn age_decides_between_equals() {
    let days = [600, 599, 300, 101];
    decides("age", with(&days, |sample, days| sample.registered = NOW.seconds() - days * DAY), None).await;
}

// req: IDX-009
#[tokio::test(flavor = "multi_thread")]
async fn a_recent_update_decides_between_equals() {
    let days = [1, 2, 90, 299];
    decides("recency", with(&days, |sample, days| sample.updated = Some(NOW.seconds() - days * DAY)), None).await;
}

// req: IDX-009
// req: IDX-011
#[tokio::test(flavor = "multi_thread")]
async fn reputation_decides_between_equals() {
    let given = [Some(1.0), Some(0.7), None, Some(0.2), Some(0.0)];
    let samples = with(&given, |_, _| {});
    let reputation: Reputation = std::sync::Arc::new(move |view| given[view.row.key.id.to::<usize>() - 1]);
    decides("reputation", samples, Some(reputation)).await;
}

/// A tool with the maximum of every signal.
fn best_of_all(id: u64) -> Sample {
    Sample {
        tier: "verifiable".to_owned(),
        payers: 1_000_000,
        creator_payers: 1_000_000,
        health: (300, 300),
        registered: 0,
        updated: Some(NOW.seconds()),
        ..like_others(id)
    }
}

// req: IDX-006
// req: IDX-010
#[tokio::test(flavor = "multi_thread")]
async fn no_signal_lifts_what_is_not_verified_or_not_usable() {
    let (index, registry) = index().await;
    // The minimum of every signal, and last by its key.
    let verified = Sample {
        payers: 0,
        creator_payers: 0,
        health: (300, 0),
        registered: NOW.seconds(),
        updated: Some(0),
        life: Life::Retired("silent".to_owned()),
        ..like_others(1)
    };
    let unverified = Sample { is_verified: false, ..best_of_all(2) };
    let [gone, hidden, blocked] = [3, 4, 5].map(best_of_all);
    put(&index, registry, &[verified, unverified, gone.clone(), hidden.clone(), blocked.clone()]).await;
    let id = gone.key(registry).id_bytes();
    let mut transaction = index.database().begin().await.expect("a transaction");
    let leave = "UPDATE index_tool SET deregistered_block = 9, deregistered_at = 9 WHERE registry = $1 AND tool = $2";
    transaction.execute(leave, &[Value::Integer(registry.0), Value::Bytes(&id)]).await.expect("deregistered");
    feed::record(&mut transaction, &[(gone.key(registry), Kinds::DEREGISTERED)], NOW).await.expect("recorded");
    transaction.commit().await.expect("committed");
    for (sample, step) in [(&hidden, Step::Hide), (&blocked, Step::Block)] {
        let subject = Subject::Tool(sample.key(registry));
        let decision = Decision { subject, step, reason: "abuse", notice: "", actor: "test" };
        assert!(index.moderate(&decision, NOW).await.expect("carried out"));
    }
    let search = searching(&index, SearchOptions { reputation: Some(best_for_unverified()), ..SearchOptions::default() }).await;
    for text in [Some("weather".to_owned()), None] {
        for sort in [Sort::Relevance, Sort::Newest, Sort::MostUsed] {
            let query = SearchQuery { text: text.clone(), sort, limit: 10, ..SearchQuery::default() };
            let ids = |query: &SearchQuery| -> Vec<u64> {
                search.run(query).expect("a page").hits.iter().map(|hit| hit.key.id.to()).collect()
            };
            assert_eq!(ids(&query), [1], "{query:?}");
            let all = ids(&SearchQuery { include_unverified: true, ..query.clone() });
            assert_eq!(all.first(), Some(&1), "{query:?}: {all:?}");
            assert!(all.contains(&2) && !all.contains(&4) && !all.contains(&5), "{query:?}: {all:?}");
        }
    }
}

fn best_for_unverified() -> Reputation {
    std::sync::Arc::new(|view| Some(if view.is_listed() { 0.0 } else { 1.0 }))
}

#[tokio::test(flavor = "multi_thread")]
async fn all_signals_together_do_not_lift_what_fits_half_as_well() {
    let (index, registry) = index().await;
    let fitting = Sample { payers: 0, creator_payers: 0, health: (300, 0), registered: NOW.seconds(), ..like_others(1) };
    let other =
        Sample { name: "pictures".to_owned(), description: "Draws the weather as a picture.".to_owned(), ..best_of_all(2) };
    put(&index, registry, &[fitting, other]).await;
    let search = searching(&index, SearchOptions::default()).await;
    let hits = hits(&search, Some("weather of a city for the next days"));
    assert_eq!(hits.iter().map(|hit| hit.key.id.to()).collect::<Vec<u64>>(), [1, 2], "{hits:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn retired_tools_gain_nothing_by_age_updates_creator_or_reputation() {
    let (index, registry) = index().await;
    let retired = Sample { life: Life::Retired("nobody may".to_owned()), ..best_of_all(1) };
    put(&index, registry, &[retired, best_of_all(2)]).await;
    let reputation: Reputation = std::sync::Arc::new(|_| Some(1.0));
    let search = searching(&index, SearchOptions { reputation: Some(reputation), ..SearchOptions::default() }).await;
    let hits = hits(&search, None);
    assert_eq!(hits.iter().map(|hit| hit.key.id.to()).collect::<Vec<u64>>(), [2, 1]);
    let gains = |hit: &Hit| -> Vec<bool> { shares(hit).into_iter().map(|(_, share)| share > 0.0).collect() };
    // In the order of `shares`: text and meaning, trust and usage, creator, health, age, recency, reputation.
    assert_eq!(gains(&hits[0]), [false, false, true, true, true, true, true, true, true]);
    assert_eq!(gains(&hits[1]), [false, false, true, true, false, true, false, false, false]);
}

fn any_sample(id: u64) -> impl Strategy<Value = Sample> {
    let names = prop::sample::select(vec!["weather", "outlook 🌧", "gold price", "getWeather", "moon 🌙"]);
    let texts =
        prop::sample::select(vec!["Tells the weather.", "Current price of gold in a city.", "What comes ☔ tomorrow", ""]);
    let tiers = prop::sample::select(vec!["self-attested", "hardware-attested", "verifiable", "unheard-of"]);
    let numbers = (0_u64..100_000, 0_u64..100_000, 0_u32..337, 0_u32..337);
    let times = (0_i64..2_000_000_000, 0_i64..2_000_000_000);
    (names, texts, tiers, numbers, times, any::<(bool, bool)>()).prop_map(
        move |(name, text, tier, (payers, creator_payers, looks, answered), (registered, updated), (is_verified, is_retired))| {
            Sample {
                tier: tier.to_owned(),
                payers,
                creator_payers,
                health: (looks, answered),
                registered,
                updated: Some(updated),
                is_verified,
                life: if is_retired { Life::Retired("silent".to_owned()) } else { Life::Active },
                creator: Address::left_padding_from(&id.to_be_bytes()),
                ..Sample::new(id, name, text)
            }
        },
    )
}

fn any_samples() -> impl Strategy<Value = Vec<Sample>> {
    (1_u64..30).prop_flat_map(|count| (1..=count).map(any_sample).collect::<Vec<_>>())
}

proptest! {
    // Each case fills two indexes.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_parts_of_a_score_add_up(samples in any_samples(), given in prop::option::of(-1.0_f32..2.0)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let results = runtime.block_on(async {
            let (index, registry) = index().await;
            put(&index, registry, &samples).await;
            let model = tempfile::tempdir().expect("a folder");
            write_embedding(model.path());
            let mut results = Vec::new();
            for embedding in [None, Some(model.path().to_owned())] {
                let reputation: Reputation = std::sync::Arc::new(move |_| given);
                let options = SearchOptions { embedding, reputation: Some(reputation), ..SearchOptions::default() };
                let search = searching(&index, options).await;
                for text in [None, Some("weather outlook ☔"), Some("wether in a city"), Some("price")] {
                    for sort in [Sort::Relevance, Sort::Newest, Sort::MostUsed] {
                        let text = text.map(str::to_owned);
                        let query =
                            SearchQuery { text, sort, limit: 200, explain: true, include_unverified: true, ..SearchQuery::default() };
                        results.extend(search.run(&query).expect("a page").hits);
                    }
                }
            }
            results
        });
        prop_assert!(results.len() >= 2 * 3 * samples.len(), "everything is found without words");
        for hit in &results {
            prop_assert!(adds_up(hit), "{:?}", hit);
            prop_assert!(shares(hit).into_iter().all(|(_, share)| share.is_finite() && share >= 0.0), "{:?}", hit);
        }
    }
}
