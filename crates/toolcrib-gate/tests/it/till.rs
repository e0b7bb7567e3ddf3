//! A paid tool with scripted settlement, for tests of other things than settling.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use alloy_primitives::{Address, B256, U256};
use async_trait::async_trait;
use toolcrib_core::finding::Finding;
use toolcrib_core::money::Amount;
use toolcrib_core::tool::ToolBuilder;
use toolcrib_gate::{Context, Due, Found, Gate, Handler, Journal, Outcome, Record, Settle, Tool, ToolError, Verdict};
use toolcrib_x402::{Authorization, Offer, Signature};

use crate::world::{Input, ORIGIN, Output, Runs, creator};

pub(crate) const PRICE: u64 = 20_000;
pub(crate) const TRANSACTION: B256 = B256::repeat_byte(0xaa);
pub(crate) const USDC_ON_BASE: &str = "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913";

/// Settles everything, unless told otherwise for the next time.
#[derive(Debug, Default)]
pub(crate) struct Till {
    next: Mutex<Option<Outcome>>,
    settled: AtomicUsize,
    signature: Mutex<Option<Signature>>,
}

impl Till {
    pub(crate) fn next(&self, outcome: Outcome) {
        *self.next.lock().expect("no panic") = Some(outcome);
    }

    /// The signature of the last payment that it was asked to settle.
    pub(crate) fn signature(&self) -> Option<Signature> {
        self.signature.lock().expect("no panic").clone()
    }

    /// How often it was asked to settle.
    pub(crate) fn settled(&self) -> usize {
        self.settled.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Settle for Till {
    async fn check(&self, _: &[Offer]) -> Vec<Finding> {
        Vec::new()
    }

    async fn verify(&self, _: Due<'_>) -> Verdict {
        Verdict::Good { from_block: None }
    }

    async fn settle(&self, due: Due<'_>, _: Option<u64>, _: &dyn Journal) -> Outcome {
        self.settled.fetch_add(1, Ordering::SeqCst);
        *self.signature.lock().expect("no panic") = Some(due.payment.signature.clone());
        self.next.lock().expect("no panic").take().unwrap_or(Outcome::Settled { transaction: TRANSACTION })
    }

    async fn look_up(&self, _: Due<'_>, _: &Record) -> Found {
        Found::Open
    }
}

/// A tool at `/<name>` that counts words for [`PRICE`] of an asset, paid to the creator.
pub(crate) fn priced(name: &str, asset: &str, gate: impl Into<Gate>, runs: &Runs) -> Tool<Handler> {
    let chain = asset.split('/').next().expect("a chain");
    let builder = ToolBuilder::new(name, "Counts the words of a text.", &format!("{ORIGIN}/{name}"), creator());
    let builder = builder.price(&PRICE.to_string(), asset, &format!("{chain}:{:#x}", creator()), "x402");
    let manifest = builder.inputs::<Input>().outputs::<Output>().build().expect("a manifest without errors").manifest;
    let runs = runs.clone();
    Tool::new(manifest).gate(gate).handler(move |input: Input, context: Context| {
        runs.add();
        async move {
            if input.text == "fail" {
                return Err(ToolError::unavailable("not today"));
            }
            Ok(Output::new(&input.text, context.caller()))
        }
    })
}

/// An authorization of the price.
pub(crate) fn of_the_price(authorization: Authorization) -> Authorization {
    Authorization { value: Amount::new(U256::from(PRICE)), ..authorization }
}

pub(crate) fn till() -> Arc<Till> {
    Arc::default()
}

/// The token of the development chain, as manifests name it.
pub(crate) fn asset(chain: u64, token: Address) -> String {
    format!("eip155:{chain}/erc20:{token:#x}")
}
