//! Tools that require a signed message: the user sees it before it is signed, and nothing else is signed.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};

use serde_json::{Value as Json, json};
use toolcrib_core::clock::UnixTime;
use toolcrib_fetch::Limits;
use toolcrib_host::bridge::APPROVAL_SECONDS;

use crate::calls::{agrees, publish};
use crate::server;
use toolcrib_testkit::mcp_clients::{
    Connected, Does, ERAS, Era, Person, accepted, call, code, connect, data, first_round, params,
};
use toolcrib_testkit::servers::{NOW, Request};
use toolcrib_testkit::tools::sign_in::{HINT, old_gate, site};
use toolcrib_testkit::tools::{CALLER, Counting, Reply, Tool, World, input};
use toolcrib_testkit::x402_peers::Peers;

fn arguments(tool: &Tool) -> Json {
    json!({"reference": tool.reference.to_string(), "input": input()})
}

fn yes() -> Json {
    accepted(json!({"approve": true}))
}

/// Answers the prompt of a round of the newer era, which may lead to another prompt.
async fn answer_round(
    client: &Connected,
    arguments: &Json,
    round: &rmcp::model::InputRequiredResult,
    answer: Json,
) -> rmcp::model::CallToolResponse {
    let key = round.input_requests.as_ref().unwrap().keys().next().unwrap().clone();
    let state = round.request_state.clone().unwrap();
    let params = params("call_tool", arguments).with_input_responses([(key, answer)].into()).with_request_state(state);
    client.call_tool_once(params).await.unwrap()
}

/// The prompt about the message, after the one about the call was approved.
async fn second_round(client: &Connected, arguments: &Json) -> rmcp::model::InputRequiredResult {
    let first = first_round(client, "call_tool", arguments).await;
    match answer_round(client, arguments, &first, yes()).await {
        rmcp::model::CallToolResponse::InputRequired(round) => round,
        other => panic!("{other:?}"),
    }
}

/// The code of a call that fails in a round.
async fn refused(client: &Connected, arguments: &Json, round: &rmcp::model::InputRequiredResult, answer: Json) -> String {
    match answer_round(client, arguments, round, answer).await {
        rmcp::model::CallToolResponse::Complete(result) => code(&Ok(result)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_user_sees_the_message_before_it_is_signed() {
    let world = World::start().await;
    for (reply, network, statement) in [
        (site(|_| {}), "(eip155:31337, test money)", "Sign in to count words."),
        (site(|offered| offered.chains = vec![8453]), "Base (eip155:8453, real money)", "Sign in to count words."),
        (old_gate(HINT), "(eip155:31337, test money)", "Authenticate to access this tool"),
    ] {
        for era in ERAS {
            let tool = world.tool(|_| {}, reply.clone()).await;
            let (client, wallet) = world.client();
            let person = agrees();
            let session = connect(&server(&world, client, ""), era, person.clone()).await;
            let called = data(call(&session, "call_tool", arguments(&tool)).await);
            assert_eq!(called["untrusted_output"], json!({"words": 3}), "{era:?}");
            assert_eq!((&called["paid"], &called["proved_identity"]), (&Json::Null, &json!(CALLER)));
            assert_eq!(
                (wallet.signatures(), tool.calls().len()),
                (1, 2),
                "one request before the question, one with the signature"
            );
            let questions = person.questions();
            let [_, question] = questions.as_slice() else { panic!("{questions:?}") };
            let domain = tool.endpoint.strip_prefix("https://").unwrap().split('/').next().unwrap();
            for part in [
                format!("Account: {CALLER}\n"),
                format!("Site: {domain}\n"),
                format!("For: {}\n", tool.endpoint),
                network.to_owned(),
                format!("Statement of the site: {statement}\n"),
                "No money moves.".to_owned(),
                format!("Tool: {}\n", tool.reference),
                format!("\n  {domain} wants you to sign in with your Ethereum account:\n"),
                format!("\n  URI: {}\n", tool.endpoint),
            ] {
                assert!(question.contains(&part), "{part} in {question}");
            }
        }
    }
    assert_eq!(world.count().await, 0, "nothing of it is in the ledger");
}

/// Approves the first prompt and does something else with the second.
#[tokio::test]
async fn without_the_users_word_for_the_message_nothing_is_signed() {
    let world = World::start().await;
    let tool = world.tool(|_| {}, site(|_| {})).await;
    let asked = arguments(&tool);
    let (client, wallet) = world.client();
    let server = server(&world, client, "");
    let session = connect(&server, Era::Modern, agrees()).await;
    for no in [json!({"action": "decline"}), json!({"action": "cancel"}), accepted(json!({"approve": false}))] {
        let round = second_round(&session, &asked).await;
        assert_eq!(refused(&session, &asked, &round, no).await, "sign_in.not_approved");
        assert_eq!(refused(&session, &asked, &round, yes()).await, "mcp.approval_unknown", "a no uses the question up");
    }
    // Valid once.
    let round = second_round(&session, &asked).await;
    let answered = answer_round(&session, &asked, &round, yes()).await;
    let rmcp::model::CallToolResponse::Complete(result) = answered else { panic!("{answered:?}") };
    assert_eq!(data(Ok(result))["proved_identity"], json!(CALLER));
    assert_eq!(wallet.signatures(), 1);
    assert_eq!(refused(&session, &asked, &round, yes()).await, "mcp.approval_unknown");
    // First the approval expires, then the message: the site created it when the tool was called.
    let round = second_round(&session, &asked).await;
    world.clock.advance(APPROVAL_SECONDS + 1);
    assert_eq!(refused(&session, &asked, &round, yes()).await, "mcp.approval_expired");
    world.clock.advance(-APPROVAL_SECONDS - 1);
    let soon_over =
        world.tool(|_| {}, site(|offered| offered.expiration_time = Some(toolcrib_testkit::tools::sign_in::at(60)))).await;
    let round = second_round(&session, &arguments(&soon_over)).await;
    world.clock.advance(60);
    assert_eq!(refused(&session, &arguments(&soon_over), &round, yes()).await, "sign_in.expired");
    world.clock.advance(-60);
    assert_eq!(wallet.signatures(), 1);

    // In the older era, a user who approves the call but not the message.
    for (does, answers) in [(Does::Declines, "sign_in.not_approved"), (Does::IsNotAsked, "mcp.elicitation_unsupported")] {
        for era in ERAS {
            let (client, wallet) = world.client();
            // A policy file that allows the call without approval does not approve the message.
            let session = connect(&crate::server(&world, client, "any_tool = true"), era, Person::new(does.clone())).await;
            let before = tool.calls().len();
            assert_eq!(code(&call(&session, "call_tool", asked.clone()).await), answers, "{era:?}");
            assert_eq!((wallet.signatures(), tool.calls().len() - before), (0, 1), "{era:?}");
        }
    }
}

#[tokio::test]
async fn a_policy_file_allows_sign_ins_without_asking() {
    let world = World::start().await;
    let (tool, other) = (world.tool(|_| {}, site(|_| {})).await, world.tool(|_| {}, site(|_| {})).await);
    let named = format!("tools = [\"{}\"]\nsign_in = true", tool.reference);
    for (policy, tool, expected) in [
        (named.as_str(), &tool, "ok"),
        (&named, &other, "mcp.elicitation_unsupported"),
        ("any_tool = true\nsign_in = true", &other, "ok"),
        ("any_tool = true\nmax_price = \"1\"", &tool, "mcp.elicitation_unsupported"),
    ] {
        for era in ERAS {
            let (client, wallet) = world.client();
            let session = connect(&server(&world, client, policy), era, Person::new(Does::IsNotAsked)).await;
            let result = call(&session, "call_tool", arguments(tool)).await;
            match expected {
                "ok" => assert_eq!((&data(result)["proved_identity"], wallet.signatures()), (&json!(CALLER), 1), "{policy}"),
                code_of => assert_eq!((code(&result).as_str(), wallet.signatures()), (code_of, 0), "{policy}"),
            }
        }
    }
}

// attack: T21
#[tokio::test]
async fn an_answer_is_for_this_message_of_this_call() {
    let world = World::start().await;
    let tool = world.tool(|_| {}, site(|_| {})).await;
    let (client, wallet) = world.client();
    let server = server(&world, client, "");
    let session = connect(&server, Era::Modern, agrees()).await;
    let stranger = connect(&server, Era::Modern, agrees()).await;
    let asked = arguments(&tool);
    let round = second_round(&session, &asked).await;
    let mut words = asked.clone();
    words["input"]["text"] = json!("other words");
    for (who, changed) in [(&session, &words), (&stranger, &asked)] {
        let result = toolcrib_testkit::mcp_clients::next_round(who, "call_tool", changed, &round, yes()).await;
        assert_eq!((code(&result).as_str(), wallet.signatures()), ("mcp.state", 0));
    }
    // The tool changes after the user saw the message.
    world.clock.advance(60);
    publish(&world, &tool, |manifest| manifest["description"] = json!("Counts words, differently."));
    assert_eq!(refused(&session, &asked, &round, yes()).await, "call.changed_meanwhile");
    assert_eq!((wallet.signatures(), tool.calls().len()), (0, 1));
    world.clock.advance(-60);

    // Messages that are not about this call are not shown at all.
    for (change, expected) in [
        (site(|offered| offered.domain = "bank.example.com".to_owned()), "sign_in.domain"),
        (site(|offered| offered.uri = "https://bank.example.com/call".to_owned()), "sign_in.uri"),
        (site(|offered| offered.chains = vec![]), "sign_in.chain"),
        (site(|offered| offered.statement = Some("A\nSite: bank.example.com".to_owned())), "sign_in.message"),
    ] {
        let tool = world.tool(|_| {}, change).await;
        for era in ERAS {
            let person = agrees();
            let (client, wallet) = world.client();
            let session = connect(&crate::server(&world, client, ""), era, person.clone()).await;
            assert_eq!(code(&call(&session, "call_tool", arguments(&tool)).await), expected, "{era:?}");
            assert_eq!((wallet.signatures(), person.questions().len()), (0, 1), "{era:?} {expected}");
        }
    }
    // `--network` restricts what is signed.
    let only = world.builder().wallet(wallet.clone()).only_chain(10).build();
    let session = connect(&crate::server(&world, only, "any_tool = true"), Era::Modern, agrees()).await;
    assert_eq!(code(&call(&session, "call_tool", arguments(&tool)).await), "call.other_network");
    assert_eq!(wallet.signatures(), 0);
}

/// Forwards requests to `path` of a program on loopback.
fn forwarding(to: Arc<OnceLock<SocketAddr>>, path: &'static str) -> Reply {
    Arc::new(move |request: &Request| {
        let mut onward = TcpStream::connect(to.get().unwrap()).unwrap();
        let kept = |line: &&str| {
            let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
            !line.is_empty() && !["connection", "accept-encoding"].contains(&name.as_str())
        };
        let headers: Vec<_> = request.head.lines().skip(1).filter(kept).collect();
        let head = format!("{} {path} HTTP/1.1\r\n{}\r\nConnection: close\r\n\r\n", request.method(), headers.join("\r\n"));
        onward.write_all(head.as_bytes()).unwrap();
        onward.write_all(&request.body).unwrap();
        let mut answer = Vec::new();
        onward.read_to_end(&mut answer).unwrap();
        answer
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_calls_tools_at_stock_gates_that_ask_for_a_sign_in() {
    let Some(peers) = Peers::find() else { return };
    let world = World::start().await;
    // Those programs use the real time.
    let real = UnixTime::from_seconds(i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap());
    world.clock.advance(real.since(NOW));
    for (script, path) in [("v2/siwx-server.mjs", "/signed"), ("v2/siwe-server.mjs", "/gated")] {
        let at = Arc::<OnceLock<SocketAddr>>::default();
        let change =
            |manifest: &mut Json| manifest["endpoint"] = json!(manifest["endpoint"].as_str().unwrap().replace("/call", path));
        let tool = world.tool(change, forwarding(at.clone(), path)).await;
        let origin = tool.endpoint.strip_suffix("/call").unwrap();
        let host = origin.strip_prefix("https://").unwrap();
        let settings = [("ORIGIN", origin.to_owned()), ("HOST", host.to_owned()), ("RPC_URL", world.devchain.http_url())];
        let gate = peers.start(script, &settings).await;
        at.set(gate.at).unwrap();
        for era in ERAS {
            let (wallet, person) = (Counting::new(), agrees());
            let client = world.builder().wallet(wallet.clone()).limits(Limits::default(), Limits::default()).build();
            let session = connect(&server(&world, client, ""), era, person.clone()).await;
            let called = data(call(&session, "call_tool", arguments(&tool)).await);
            assert_eq!(called["untrusted_output"], json!({"words": 3, "method": "POST"}), "{script} {era:?}");
            assert_eq!((&called["proved_identity"], wallet.signatures()), (&json!(CALLER), 1), "{script} {era:?}");
            let questions = person.questions();
            assert!(questions.len() == 2 && questions[1].contains(&format!("Site: {host}\n")), "{questions:?}");
        }
        let stats = gate.stats().await;
        assert_eq!(stats["handled"], 2, "{script}: {stats}");
    }
}
