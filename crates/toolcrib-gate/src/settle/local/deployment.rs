//! Payers whose wallet is not deployed yet (ERC-6492): it is deployed first, through factories that the operator has allowed.

use alloy_primitives::{Address, Bytes, U256};
use tokio::time::sleep;
use toolcrib_chain::Error;
use toolcrib_chain::rpc::{BoundedCall, CallOutcome, Chain};
use toolcrib_chain::sign::{DEPLOYMENT_GAS, Simulated, simulate_deployed};
use toolcrib_chain::transaction::Call;
use toolcrib_x402::Payment;
use toolcrib_x402::erc6492::{self, Wrapped};

use super::{BROADCAST_PAUSE, Lane, LocalSettlement, Stop};

/// Gas limit of one deployment. Common factories take 150,000 to 500,000.
pub const MAX_DEPLOYMENT_GAS: u64 = 1_000_000;

/// How often a node is asked for a wallet whose deployment was mined, five times a second.
const LAG_ATTEMPTS: u32 = 50;

/// The code that stock facilitators use.
const FACTORY_NOT_ALLOWED: &str = "eip6492_factory_not_allowed";
const DEPLOYMENT_FAILED: &str = "smart_wallet_deployment_failed";

/// Returns the call that deploys a wallet.
pub(super) fn call(wrapped: Wrapped<'_>) -> Call {
    Call { to: wrapped.factory, data: Bytes::copy_from_slice(wrapped.calldata), value: U256::ZERO }
}

impl LocalSettlement {
    /// Returns how the payer's wallet is deployed, if it has to be and may be.
    pub(super) fn deployment<'p>(&self, payment: &'p Payment, has_code: bool) -> Result<Option<Wrapped<'p>>, Stop> {
        let wrapped = erc6492::unwrap(payment.signature.as_bytes()).map_err(|_| Stop::Never("invalid_signature"))?;
        match wrapped.filter(|_| !has_code) {
            Some(wrapped) if !self.factories.contains(&wrapped.factory) => Err(Stop::Never(FACTORY_NOT_ALLOWED)),
            deployment => Ok(deployment),
        }
    }

    /// Simulates a transfer, after the deployment if there is one.
    pub(super) async fn simulate(
        &self,
        chain: &Chain,
        deployment: Option<&Wrapped<'_>>,
        transfer: &BoundedCall,
    ) -> Result<CallOutcome, Stop> {
        let Some(wrapped) = deployment else { return Ok(chain.call(transfer).await?) };
        let gas = DEPLOYMENT_GAS.saturating_add(self.max_gas);
        Ok(match simulate_deployed(chain, wrapped, transfer.to, transfer.data.clone(), gas).await? {
            Simulated::NotDeployed => return Err(Stop::Never(DEPLOYMENT_FAILED)),
            Simulated::Reverted(data) => CallOutcome::Reverted(data),
            Simulated::Returned(data) => CallOutcome::Returned(data),
        })
    }

    /// Deploys a wallet and waits until its code is visible. Nothing of the payer moves, so its payment can be used again if it fails
    /// afterwards.
    pub(super) async fn deploy(&self, lane: &Lane, call: &Call, account: Address) -> Result<(), Stop> {
        let chain = &lane.chain;
        let prepared = match chain.prepare(self.wallet.address(), call).await {
            Ok(prepared) => prepared,
            // Another sender may have deployed it first.
            Err(Error::Reverted(_)) if has_code(chain, account).await? => return Ok(()),
            Err(Error::Reverted(_)) => return Err(Stop::Never(DEPLOYMENT_FAILED)),
            Err(error) => return Err(error.into()),
        };
        if prepared.gas_limit > MAX_DEPLOYMENT_GAS {
            return Err(Stop::Never("too_much_gas"));
        }
        if prepared.most_cost() > self.max_fee {
            return Err(Stop::Later(format!("a deployment may cost {} wei, the cap is {}", prepared.most_cost(), self.max_fee)));
        }
        let signed = self.send(lane, prepared, None).await?;
        // Half of a settlement's time: the transfer comes after it.
        let mined = chain.wait(&signed, self.receipt_time / 2, |_| {}).await;
        for _ in 0..LAG_ATTEMPTS {
            if has_code(chain, account).await? {
                return Ok(());
            }
            match mined {
                // Nodes behind one URL lag behind each other.
                Ok(_) => sleep(BROADCAST_PAUSE).await,
                Err(Error::Failed { .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Err(Stop::Never(DEPLOYMENT_FAILED))
    }
}

async fn has_code(chain: &Chain, account: Address) -> Result<bool, Error> {
    Ok(!chain.code(account).await?.is_empty())
}
