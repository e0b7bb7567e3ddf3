//! Calling for an account that has delegated to the caller's.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_signer_local::PrivateKeySigner;
use alloy_sol_types::SolValue;
use serde_json::{Value, json};
use toolcrib_chain::delegate::DELEGATE_REGISTRY;
use toolcrib_gate::{Context, Gate, Handler, PaidGate, Rates, Tool, ToolError, Tools};
use toolcrib_store::replay::{Limits, MemoryReplay, ReplayStore};
use toolcrib_x402::Version;

use crate::till::{USDC_ON_BASE, of_the_price, priced, till};
use crate::world::{
    HttpResponse, Input, ORIGIN, Output, Runs, World, authorization, base_domain, code, counting, creator, deploy, fresh, header,
    holder, manifest, post, serve, sign, stranger, transact_as,
};
use toolcrib_testkit::clock::MovingClock;

/// A chain with a registry of delegations.
struct Delegations {
    world: World,
    registry: Address,
    id: U256,
}

impl Delegations {
    async fn start() -> Self {
        let world = World::start().await;
        let id = world.tool_for_holders().await;
        let registry = deploy(&world.devchain, code("TestDelegateRegistry", &[]));
        Self { world, registry, id }
    }

    /// Says something to the registry of delegations.
    fn say(&self, from: &PrivateKeySigner, function: &str, arguments: &[u8]) {
        let data = [&keccak256(function)[..4], arguments].concat();
        transact_as(&self.world.devchain, from.address(), Some(self.registry), &data.into());
    }

    fn delegate(&self, from: &PrivateKeySigner, to: Address, rights: B256, enable: bool) {
        self.say(from, "delegateAll(address,bytes32,bool)", &(to, rights, enable).abi_encode());
    }
}

/// Whom each call was made for.
type For = Arc<Mutex<Vec<(Option<Address>, Option<Address>)>>>;

fn telling(name: &str, gate: impl Into<Gate>, told: &For) -> Tool<Handler> {
    let told = told.clone();
    Tool::new(manifest(name)).gate(gate).handler(move |input: Input, context: Context| {
        told.lock().expect("no panic").push((context.caller().map(|caller| caller.account), context.delegated_for()));
        async move { Ok::<_, ToolError>(Output::new(&input.text, context.caller())) }
    })
}

fn tools(store: &Arc<MemoryReplay>) -> Tools {
    Tools::new(ORIGIN).shared_store(store.clone()).rates(Rates { per_address: None, ..Rates::default() })
}

fn memory() -> Arc<MemoryReplay> {
    Arc::new(MemoryReplay::new(Limits::default()))
}

/// Calls with a new signature, and these values of the header.
async fn call(at: SocketAddr, path: &str, signer: &PrivateKeySigner, delegate_for: &[&str]) -> HttpResponse {
    let challenges = post(at, path, &[], &json!({})).await.challenges();
    let mut signed = authorization(signer, fresh());
    signed.value = challenges[0].accepts[0].amount;
    let value = header(&challenges, Version::V1, signed, sign(signer, &signed, &base_domain()));
    let mut headers = vec![("X-PAYMENT", value.as_str())];
    headers.extend(delegate_for.iter().map(|account| ("X-Delegate-For", *account)));
    post(at, path, &headers, &json!({"text": "one two"})).await
}

#[tokio::test]
async fn a_delegate_uses_the_access_of_the_holder() {
    let chain = Delegations::start().await;
    let (told, store) = (For::default(), memory());
    let at = serve(tools(&store).tool(telling("word-count", chain.world.gate(chain.id).delegation(chain.registry), &told))).await;
    let account = holder().address().to_checksum(None);
    let denied = |code: &str| (403, code.to_owned());

    assert_eq!(call(at, "/word-count", stranger(), &[]).await.verdict(), denied("access.denied"));
    let answer = call(at, "/word-count", stranger(), &[&account]).await;
    assert_eq!(answer.verdict(), denied("access.not_delegated"));
    assert_eq!(answer.json()["delegateFor"], json!(account));
    assert_eq!(answer.json()["account"], json!(stranger().address().to_checksum(None)));
    assert_eq!(answer.json()["delegateRegistry"], json!(chain.registry.to_checksum(None)));
    // Less than everything is not everything.
    let token = (stranger().address(), chain.world.token, chain.id, B256::ZERO, true).abi_encode();
    chain.say(holder(), "delegateERC721(address,address,uint256,bytes32,bool)", &token);
    chain.delegate(holder(), stranger().address(), keccak256("something"), true);
    assert_eq!(call(at, "/word-count", stranger(), &[&account]).await.verdict(), denied("access.not_delegated"));
    assert!(told.lock().expect("no panic").is_empty());
    assert_eq!(store.counts().await.expect("memory").entries(), 0, "a no gives the signature back");

    chain.delegate(holder(), stranger().address(), B256::ZERO, true);
    let answer = call(at, "/word-count", stranger(), &[&account]).await;
    assert_eq!((answer.status, &answer.json()["caller"]), (200, &json!(stranger().address().to_checksum(None))));
    assert_eq!(call(at, "/word-count", stranger(), &[&account.to_lowercase()]).await.status, 200, "any spelling");
    // The header is what makes a delegate, and whoever has access needs none.
    assert_eq!(call(at, "/word-count", stranger(), &[]).await.verdict(), denied("access.denied"));
    assert_eq!(call(at, "/word-count", holder(), &[]).await.status, 200);
    let seen = [
        (Some(stranger().address()), Some(holder().address())),
        (Some(stranger().address()), Some(holder().address())),
        (Some(holder().address()), None),
    ];
    assert_eq!(*told.lock().expect("no panic"), seen);

    // A holder of nothing cannot give it away.
    chain.delegate(stranger(), holder().address(), B256::ZERO, true);
    let answer = call(at, "/word-count", holder(), &[&stranger().address().to_checksum(None)]).await;
    assert_eq!(answer.verdict(), denied("access.denied"));
    assert_eq!(answer.json()["account"], json!(stranger().address().to_checksum(None)), "the predicate was asked for the holder");
    chain.delegate(holder(), stranger().address(), B256::ZERO, false);
    assert_eq!(call(at, "/word-count", stranger(), &[&account]).await.verdict(), denied("access.not_delegated"), "taken back");
}

#[tokio::test]
async fn the_header_is_read_strictly_and_never_passed_over() {
    let chain = Delegations::start().await;
    chain.delegate(holder(), stranger().address(), B256::ZERO, true);
    let (runs, gate) = (Runs::default(), chain.world.gate(chain.id));
    let nowhere = gate.clone().delegation(DELEGATE_REGISTRY);
    let at = serve(
        tools(&memory())
            .tool(counting("delegates", gate.clone().delegation(chain.registry), &runs))
            .tool(counting("nowhere", nowhere, &runs))
            .tool(counting("gated", gate, &runs))
            .tool(counting("identity", Gate::identity(), &runs))
            .tool(priced("paid", USDC_ON_BASE, PaidGate::new(till()), &runs)),
    )
    .await;
    let account = holder().address().to_checksum(None);
    let zero = format!("0x{}", "0".repeat(40));
    let both = format!("{account}, {account}");
    let chained = format!("eip155:31337:{account}");
    for odd in ["", "0x", "0x0", &account[..41], &account[2..], &format!("{account}0"), &zero, &both, &chained, "vitalik.eth"] {
        let verdict = call(at, "/delegates", stranger(), &[odd]).await.verdict();
        assert_eq!(verdict, (400, "access.delegate_for".to_owned()), "{odd:?}");
    }
    let verdict = call(at, "/delegates", stranger(), &[&account, &account]).await.verdict();
    assert_eq!(verdict, (400, "access.delegate_for".to_owned()), "twice");
    for path in ["/gated", "/identity", "/paid"] {
        let verdict = call(at, path, holder(), &[&account]).await.verdict();
        assert_eq!(verdict, (400, "access.no_delegation".to_owned()), "{path}");
    }
    // There is no registry at that address here, which is neither a yes nor a no.
    let verdict = call(at, "/nowhere", stranger(), &[&account]).await.verdict();
    assert_eq!(verdict, (502, "access.unavailable".to_owned()));
    assert_eq!(runs.count(), 0);
    // Who has not proved anything is asked to, whoever is called for.
    assert_eq!(post(at, "/delegates", &[("X-Delegate-For", &account)], &json!({})).await.status, 402);
}

#[tokio::test]
async fn the_delegate_pays_and_the_holder_is_looked_at() {
    let chain = Delegations::start().await;
    let (runs, till, account) = (Runs::default(), till(), holder().address().to_checksum(None));
    let gate = PaidGate::new(till.clone()).predicate(chain.world.gate(chain.id).delegation(chain.registry)).settle_first();
    let clock = MovingClock::new();
    let server = tools(&memory()).clock(clock.clone()).tool(priced("paid", USDC_ON_BASE, gate, &runs)).build();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("bound");
    tokio::spawn(server.expect("sound settings").serve(listener, std::future::pending()));

    assert_eq!(call(at, "/paid", stranger(), &[&account]).await.verdict(), (403, "access.not_delegated".to_owned()));
    assert_eq!((till.settled(), runs.count()), (0, 0), "nothing moved");
    chain.delegate(holder(), stranger().address(), B256::ZERO, true);
    let answer = call(at, "/paid", stranger(), &[&account]).await;
    assert_eq!((answer.status, &answer.json()["caller"]), (200, &json!(stranger().address().to_checksum(None))));
    assert_eq!((till.settled(), runs.count()), (1, 1));

    // A call that was paid for and failed may be made again, but not for somebody else who never agreed.
    let challenges = post(at, "/paid", &[], &json!({})).await.challenges();
    let signed = of_the_price(authorization(stranger(), fresh()));
    let value = header(&challenges, Version::V1, signed, sign(stranger(), &signed, &base_domain()));
    let fail: Value = json!({"text": "fail"});
    let first = post(at, "/paid", &[("X-PAYMENT", &value), ("X-Delegate-For", &account)], &fail).await;
    assert_eq!((first.status, till.settled(), runs.count()), (503, 2, 2));
    let token = first.header("x-tool-retry-token").expect("a token").to_owned();
    clock.advance(210);
    let other = creator().to_checksum(None);
    let retry = [("X-PAYMENT", value.as_str()), ("X-Tool-Retry-Token", token.as_str())];
    for headers in [&retry[..], &[retry[0], retry[1], ("X-Delegate-For", &other)]] {
        let again = post(at, "/paid", headers, &fail).await;
        assert_eq!(again.verdict(), (409, "payment.replayed".to_owned()));
    }
    assert_eq!((till.settled(), runs.count()), (2, 2), "the handler did not run");
    let again = post(at, "/paid", &[retry[0], retry[1], ("X-Delegate-For", &account)], &fail).await;
    assert_eq!((again.status, till.settled(), runs.count()), (503, 2, 3), "the same call runs again, and is not paid for again");
}
