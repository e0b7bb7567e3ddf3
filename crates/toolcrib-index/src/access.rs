//! Checks on the chain whether an account may call tools, for a page of tools at once.
//!
//! Open tools need no check. For the others the registry is called: many tools in one call where the chain has the usual multicall
//! contract, one by one elsewhere, within a time limit. What did not answer in that time is reported as unknown. A yes is not a promise:
//! the tool's server checks access again on each call.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::time::Duration;

use alloy_primitives::{Address, Bytes, U256, address};
use alloy_sol_types::{SolCall, sol};
use futures_util::stream::{self, StreamExt};
use toolcrib_chain::abi::IToolRegistry;
use toolcrib_chain::registry::{ACCESS_GAS, AccessResult, Registry};
use toolcrib_chain::rpc::{BoundedCall, CallOutcome, Chain};

use crate::model::{ToolKey, ToolView};
use crate::{Chains, Error, Index};

/// The maximum number of tools in one check: those of one page.
pub const MAX_CANDIDATES: usize = 200;

/// The maximum wait for all results together: a user waits for the page.
pub const TIME_LIMIT: Duration = Duration::from_secs(3);

/// The multicall contract, at the same address wherever it is deployed.
pub const MULTICALL3: Address = address!("cA11bde05977b3631167028862bE2a173976CA11");

/// Tools in one multicall. Nodes cap the gas of an `eth_call`, public ones at 50 million.
const CHUNK: usize = 20;

/// Concurrent calls to one chain: what public nodes accept.
const AT_ONCE: usize = 8;

/// The maximum size of one tool's result in bytes: two words plus the encoding of the array around them.
const ANSWER_BYTES: usize = 256;

sol! {
    interface IMulticall3 {
        struct Call3 {
            address target;
            bool allowFailure;
            bytes callData;
        }
        struct Result {
            bool success;
            bytes returnData;
        }
        function aggregate3(Call3[] calls) external payable returns (Result[] memory returnData);
    }
}

/// Yes, no or unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tristate {
    /// Yes.
    Yes,
    /// No.
    No,
    /// Not known: the chain is not followed or did not answer in time, the predicate does not work, or the price is in an unknown asset.
    Unknown,
}

/// The result for one tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolAccess {
    /// The tool.
    pub key: ToolKey,
    /// Whether its predicate grants access to the account.
    pub access: Tristate,
    /// Whether a call costs no more than the budget. Yes without a budget.
    pub budget: Tristate,
}

impl ToolAccess {
    /// Whether the account has access and the price is within the budget.
    pub const fn callable(&self) -> Tristate {
        match (self.access, self.budget) {
            (Tristate::No, _) | (_, Tristate::No) => Tristate::No,
            (Tristate::Yes, Tristate::Yes) => Tristate::Yes,
            _ => Tristate::Unknown,
        }
    }
}

/// The results for some tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callable {
    /// One for each requested tool, in the same order. A tool that is not in the index has none.
    pub answers: Vec<ToolAccess>,
    /// Whether a result is unknown, or fewer tools were checked than requested.
    pub partial: bool,
}

/// Checks whether an account may call these tools, at most [`MAX_CANDIDATES`], for at most `budget` micro-dollars (millionths of a dollar)
/// a call.
pub async fn callable(
    index: &Index,
    chains: &Chains,
    wallet: Address,
    keys: &[ToolKey],
    budget: Option<u64>,
) -> Result<Callable, Error> {
    let views = index.tools(&keys[..keys.len().min(MAX_CANDIDATES)]).await?;
    let answers = answers(chains, wallet, &views, budget).await;
    let partial = keys.len() > MAX_CANDIDATES || answers.iter().any(|answer| answer.callable() == Tristate::Unknown);
    Ok(Callable { answers, partial })
}

/// Returns one result for each of these tools, in their order.
pub(crate) async fn answers(chains: &Chains, wallet: Address, views: &[ToolView], budget: Option<u64>) -> Vec<ToolAccess> {
    let mut found: HashMap<ToolKey, Tristate> = HashMap::with_capacity(views.len());
    let mut gated: BTreeMap<u64, Vec<&ToolView>> = BTreeMap::new();
    for view in views {
        if !view.row.is_active() {
            found.insert(view.row.key, Tristate::No);
        } else if view.row.predicate.is_none() {
            found.insert(view.row.key, Tristate::Yes);
        } else {
            gated.entry(view.tool.chain).or_default().push(view);
        }
    }
    // Loops instead of closures over references: the compiler cannot prove that the futures of such closures are `Send`.
    let mut asked = Vec::with_capacity(gated.len());
    for (chain, views) in &gated {
        asked.extend(chains.get(*chain).map(|chain| ask(chain, wallet, views)));
    }
    for answers in futures_util::future::join_all(asked).await {
        found.extend(answers);
    }
    let answer = |view: &ToolView| ToolAccess {
        key: view.row.key,
        access: found.get(&view.row.key).copied().unwrap_or(Tristate::Unknown),
        budget: budget.map_or(Tristate::Yes, |budget| within(view, budget)),
    };
    views.iter().map(answer).collect()
}

/// Returns whether one of a tool's payment options costs no more than the budget.
fn within(view: &ToolView, budget: u64) -> Tristate {
    let Some(manifest) = view.listing.as_ref().and_then(|listing| listing.manifest.as_ref()) else { return Tristate::Unknown };
    if manifest.prices.is_empty() {
        return Tristate::Yes;
    }
    let costs = |price: &crate::listing::Price| if price.amount == "0" { Some(0) } else { price.micro_usd };
    if manifest.prices.iter().filter_map(costs).any(|cost| cost <= budget) {
        Tristate::Yes
    } else if manifest.prices.iter().all(|price| costs(price).is_some()) {
        Tristate::No
    } else {
        Tristate::Unknown
    }
}

/// Checks the tools of one chain. Tools that are missing from the result did not answer in time.
async fn ask(chain: &Chain, wallet: Address, views: &[&ToolView]) -> Vec<(ToolKey, Tristate)> {
    let end = tokio::time::Instant::now() + TIME_LIMIT;
    let mut found = Vec::with_capacity(views.len());
    let mut left: Vec<&ToolView> = views.to_vec();
    let has_multicall =
        tokio::time::timeout_at(end, chain.code(MULTICALL3)).await.is_ok_and(|code| code.is_ok_and(|code| !code.is_empty()));
    if has_multicall && views.len() > 1 {
        let mut chunks = Vec::with_capacity(views.len().div_ceil(CHUNK));
        for views in views.chunks(CHUNK) {
            chunks.push(async move {
                let answers = tokio::time::timeout_at(end, at_once(chain, wallet, views)).await;
                (views, answers.ok().flatten())
            });
        }
        left.clear();
        let mut chunks = stream::iter(chunks).buffer_unordered(AT_ONCE);
        while let Some((views, answers)) = chunks.next().await {
            let Some(answers) = answers else {
                left.extend(views);
                continue;
            };
            // A call that fails may have used up the gas of those after it, so each no in this batch is checked again.
            let is_disturbed = answers.contains(&None);
            for (view, answer) in views.iter().zip(answers) {
                match answer {
                    Some(true) => found.push((view.row.key, Tristate::Yes)),
                    Some(false) if !is_disturbed => found.push((view.row.key, Tristate::No)),
                    _ => left.push(view),
                }
            }
        }
    }
    let mut single = Vec::with_capacity(left.len());
    for view in left {
        single.push(async move {
            let registry = Registry::new(chain.clone(), view.tool.registry);
            let answer = tokio::time::timeout_at(end, registry.access(view.tool.id, wallet, Bytes::new())).await;
            let may = match answer {
                Ok(Ok(AccessResult::Granted)) => Tristate::Yes,
                Ok(Ok(AccessResult::Denied)) => Tristate::No,
                Ok(Ok(AccessResult::Malfunction) | Err(_)) | Err(_) => Tristate::Unknown,
            };
            (view.row.key, may)
        });
    }
    let mut single = stream::iter(single).buffer_unordered(AT_ONCE);
    while let Some(answer) = single.next().await {
        found.push(answer);
    }
    found
}

/// Checks several tools in one multicall. `None` when the multicall failed; an inner `None` for a tool whose result is not clean.
async fn at_once(chain: &Chain, wallet: Address, views: &[&ToolView]) -> Option<Vec<Option<bool>>> {
    let calls = views.iter().map(|view| {
        let call = IToolRegistry::tryHasAccessCall { toolId: view.tool.id, account: wallet, data: Bytes::new() };
        IMulticall3::Call3 { target: view.tool.registry, allowFailure: true, callData: call.abi_encode().into() }
    });
    let data = IMulticall3::aggregate3Call { calls: calls.collect() }.abi_encode().into();
    let gas = Some(ACCESS_GAS.saturating_mul(views.len() as u64));
    let call = BoundedCall { to: MULTICALL3, data, from: None, gas, max_bytes: 64 + ANSWER_BYTES * views.len() };
    let CallOutcome::Returned(bytes) = chain.call(&call).await.ok()? else { return None };
    let results = IMulticall3::aggregate3Call::abi_decode_returns(&bytes).ok()?;
    (results.len() == views.len()).then(|| results.iter().map(clean).collect())
}

/// Whether access is granted, if the registry and the predicate both worked: the result is exactly two words, the first of them 1.
fn clean(result: &IMulticall3::Result) -> Option<bool> {
    let (ok, granted) = result.returnData.split_at_checked(32).filter(|_| result.success)?;
    let word = |bytes: &[u8]| U256::try_from_be_slice(bytes).filter(|_| bytes.len() == 32);
    match (word(ok)?.try_into().ok()?, word(granted)?.try_into().ok()?) {
        (1_u64, 1_u64) => Some(true),
        (1, 0) => Some(false),
        _ => None,
    }
}
