//! Reads the state of an authorization's nonce from the token.

use alloy_sol_types::SolCall;

use super::Trail;
use crate::Error;
use crate::abi::IEIP3009::authorizationStateCall;
use crate::rpc::{BoundedCall, CallOutcome};

/// Gas for the check: one storage read, behind a proxy or two.
const STATE_GAS: u64 = 1_000_000;

impl Trail<'_> {
    /// Returns whether the authorization was used or cancelled, as of the newest block.
    pub async fn is_used(&self) -> Result<bool, Error> {
        self.read_state(self.chain.call(&self.state_call()).await?)
    }

    /// Returns whether the authorization was used or cancelled as of this block. Nodes prune the state of old blocks.
    pub(super) async fn is_used_at(&self, block: u64) -> Result<bool, Error> {
        self.read_state(self.chain.call_at(&self.state_call(), block).await?)
    }

    fn state_call(&self) -> BoundedCall {
        let data = authorizationStateCall { authorizer: self.authorization.from, nonce: self.authorization.nonce };
        BoundedCall { to: self.token, data: data.abi_encode().into(), from: None, gas: Some(STATE_GAS), max_bytes: 32 }
    }

    fn read_state(&self, outcome: CallOutcome) -> Result<bool, Error> {
        let (contract, function) = (self.token, "authorizationState");
        match outcome {
            CallOutcome::Returned(word) => match word.split_last() {
                Some((last @ (0 | 1), rest)) if word.len() == 32 && rest.iter().all(|byte| *byte == 0) => Ok(*last == 1),
                _ => Err(Error::Undecodable { contract, function, length: word.len() }),
            },
            _ => Err(Error::Undecodable { contract, function, length: 0 }),
        }
    }
}
