//! Networks and money over MCP: what is signed, what the user sees, and which budget is charged.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use toolcrib_client::Usdc;
use toolcrib_client::ledger::Spend;
use toolcrib_core::url::Origin;
use toolcrib_x402::asset;
use toolcrib_x402::asset::Token;

use crate::server;
use toolcrib_testkit::mcp_clients::{Does, ERAS, Person, call, code, connect, data};
use toolcrib_testkit::servers::NOW;
use toolcrib_testkit::tools::{
    CALLER, CHAIN, Counting, PRICE, RECIPIENT, Speaks, Tool, World, challenge, entry, input, offer_of, payment_of, result, roomy,
    served, settle, shop, usdc,
};

fn token(chain: u64) -> &'static Token {
    asset::find(chain, asset::usdc(chain).unwrap().address).unwrap()
}

fn arguments(tool: &Tool) -> Json {
    json!({"reference": tool.reference.to_string(), "input": input()})
}

fn agrees() -> Person {
    Person::new(Does::Fills(json!({"approve": true})))
}

/// A tool with these prices in its manifest, at an endpoint that accepts all of them.
async fn priced_on(world: &World, chains: &'static [u64]) -> Tool {
    let pricing: Vec<_> = chains.iter().map(|chain| entry("x402", *chain, token(*chain).address, PRICE, RECIPIENT)).collect();
    let devchain = world.devchain.clone();
    let reply: toolcrib_testkit::tools::Reply = Arc::new(move |request| match payment_of(request) {
        None => challenge(Speaks::V2, chains.iter().map(|chain| offer_of(token(*chain), PRICE, RECIPIENT)).collect()),
        Some(payment) => served(&payment, settle(&devchain, &payment).expect("paid here"), &result()),
    });
    world.tool(move |manifest| manifest["pricing"] = json!(pricing), reply).await
}

/// The text of an error, with its details.
fn text(result: &Result<rmcp::model::CallToolResult, rmcp::ServiceError>) -> String {
    result.as_ref().unwrap().content[0].as_text().unwrap().text.clone()
}

#[tokio::test]
async fn a_tool_on_a_test_network_is_not_paid_with_real_money() {
    let world = World::start().await;
    let tool = priced_on(&world, &[8453]).await;
    for era in ERAS {
        let (client, wallet) = world.client();
        let person = agrees();
        let session = connect(&server(&world, client, "any_tool = true\nmax_price = \"1\""), era, person.clone()).await;
        let refused = call(&session, "call_tool", arguments(&tool)).await;
        assert_eq!((code(&refused).as_str(), wallet.signatures()), ("call.other_network", 0), "{era:?}");
        let text = text(&refused);
        for part in ["Base (eip155:8453, real money)", "(eip155:31337, test money)"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(person.questions().is_empty(), "nobody is asked about what cannot be");
    }
    assert_eq!((tool.calls().len(), world.count().await), (0, 0));
}

#[tokio::test]
async fn a_network_that_is_named_limits_what_is_signed() {
    let world = World::start().await;
    let (elsewhere, both) = (priced_on(&world, &[84_532]).await, priced_on(&world, &[84_532, CHAIN]).await);
    for era in ERAS {
        let wallet = Counting::new();
        let client = world.builder().wallet(wallet.clone()).only_chain(CHAIN).build();
        let person = agrees();
        let session = connect(&server(&world, client, ""), era, person.clone()).await;
        let refused = call(&session, "call_tool", arguments(&elsewhere)).await;
        assert_eq!((code(&refused).as_str(), wallet.signatures()), ("call.other_network", 0), "{era:?}");
        assert!(person.questions().is_empty());
        // If there is a choice, the price on the given network is shown and paid.
        let paid = data(call(&session, "call_tool", arguments(&both)).await);
        let shown = paid["paid"]["shown"].as_str().unwrap().to_owned();
        assert!(shown.contains("(eip155:31337, test money)"), "{shown}");
        let questions = person.questions();
        assert!(matches!(questions.as_slice(), [question] if question.contains(&shown)), "{questions:?}");
        assert_eq!(wallet.signatures(), 1);
    }
}

#[tokio::test]
async fn the_question_and_the_answer_name_network_token_amount_and_kind_of_money() {
    let world = World::start().await;
    let tool =
        world.tool(toolcrib_testkit::tools::priced, shop(&world.devchain, Speaks::V2, toolcrib_testkit::tools::offer())).await;
    for era in ERAS {
        let (client, _) = world.client();
        let person = agrees();
        let session = connect(&server(&world, client, ""), era, person.clone()).await;
        let called = data(call(&session, "call_tool", arguments(&tool)).await);
        let shown = called["paid"]["shown"].as_str().unwrap();
        for part in ["0.01 USDC on ", "(eip155:31337, test money)", &RECIPIENT.to_string()] {
            assert!(shown.contains(part), "{part} in {shown}");
            assert!(person.questions()[0].contains(part), "{part} in {:?}", person.questions());
        }
        assert_eq!(called["paid"]["evidence"], "chain", "{era:?}");
    }
}

#[tokio::test]
async fn the_question_says_what_is_signed_and_with_which_account() {
    let world = World::start().await;
    let paid =
        world.tool(toolcrib_testkit::tools::priced, shop(&world.devchain, Speaks::V2, toolcrib_testkit::tools::offer())).await;
    // A free tool that requires a proof of identity.
    let asking =
        world.tool(|_| {}, shop(&world.devchain, Speaks::V2, offer_of(token(8453), 0, toolcrib_testkit::tools::CREATOR))).await;
    for (tool, signature) in [
        (&paid, format!("Signs: this payment, with account {CALLER}, to {RECIPIENT}")),
        (&asking, format!("then a proof of identity for this tool, with account {CALLER}")),
    ] {
        let (client, wallet) = world.client();
        let person = agrees();
        let session = connect(&server(&world, client, ""), ERAS[0], person.clone()).await;
        data(call(&session, "call_tool", arguments(tool)).await);
        assert_eq!(wallet.signatures(), 1, "it does sign");
        assert!(person.questions()[0].contains(&signature), "{signature} in {:?}", person.questions());
    }
    let client = world.builder().build();
    let person = agrees();
    let session = connect(&server(&world, client, ""), ERAS[0], person.clone()).await;
    assert_eq!(code(&call(&session, "call_tool", arguments(&asking)).await), "call.no_wallet");
    assert!(person.questions()[0].contains("Signs: nothing; there is no wallet"), "{:?}", person.questions());
}

#[tokio::test]
async fn test_money_and_real_money_have_budgets_of_their_own() {
    let world = World::start().await;
    let tool =
        world.tool(toolcrib_testkit::tools::priced, shop(&world.devchain, Speaks::V2, toolcrib_testkit::tools::offer())).await;
    let mut policy = roomy();
    policy.per_hour = Usdc::micro(2 * PRICE);
    let real = Spend {
        tool: None,
        origin: Origin::parse("https://tools.example.com").unwrap(),
        chain: 8453,
        asset: token(8453).address,
        recipient: RECIPIENT,
        payer: CALLER,
        amount: Usdc::micro(PRICE),
    };
    // The hourly budget of real money is used up.
    for _ in 0..2 {
        world.ledger.reserve(&real, &policy, NOW).await.unwrap();
    }
    assert_eq!(world.ledger.reserve(&real, &policy, NOW).await.unwrap_err().code().id(), "spend.per_hour");
    let wallet = Counting::new();
    let client = world.builder().wallet(wallet.clone()).policy(policy.clone()).build();
    let person = agrees();
    let session = connect(&server(&world, client, ""), ERAS[0], person.clone()).await;
    for _ in 0..2 {
        data(call(&session, "call_tool", arguments(&tool)).await);
    }
    let refused = call(&session, "call_tool", arguments(&tool)).await;
    assert_eq!((code(&refused).as_str(), wallet.signatures(), person.questions().len()), ("spend.per_hour", 2, 2));
    assert!(text(&refused).contains("test money"), "{}", text(&refused));
    assert_eq!(world.ledger.test_totals(NOW).await.unwrap().hour, Usdc::micro(2 * PRICE));
    assert_eq!(world.ledger.totals(NOW).await.unwrap().hour, Usdc::micro(2 * PRICE));
    assert_eq!(usdc().chain, CHAIN);
}
