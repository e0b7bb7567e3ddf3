//! Builds the client from the command line: HTTP client, wallet, ledger and policy.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use toolcrib_chain::network::Source;
use toolcrib_chain::rpc::Chain;
use toolcrib_chain::wallet::Wallet;
use toolcrib_client::{Client, ClientBuilder, Ledger, SpendPolicy, Usdc};
use toolcrib_core::codes;
use toolcrib_fetch::SystemClock;
use toolcrib_store::{Database, Location};

use super::asking::Terminal;
use super::outcome::spend_failure;
use crate::commands::trust::{EgressArgs, verifier};
use crate::env;
use crate::onchain::{Signing, state_dir};
use crate::outcome::{Failure, Stop};
use crate::secrets;
use crate::settings::Settings;

/// Where payments are kept.
#[derive(Args, Clone, Debug)]
pub(crate) struct SpendArgs {
    /// Payment ledger file [default: `spend.db` in the state folder]
    #[arg(long, value_name = "PATH")]
    pub(crate) ledger: Option<PathBuf>,
}

impl SpendArgs {
    /// Opens the ledger, or creates it.
    pub(crate) async fn open(&self) -> Result<Ledger, Failure> {
        let path = match &self.ledger {
            Some(path) => path.clone(),
            None => {
                let folder = state_dir()?;
                std::fs::create_dir_all(&folder).map_err(|error| {
                    Failure::new(codes::cli::OUTPUT, format!("cannot create the folder {}: {error}", folder.display()))
                })?;
                folder.join("spend.db")
            }
        };
        let database = Database::open(&Location::file(path)).await;
        let database = database.map_err(|error| Failure::new(error.code(), error.to_string()))?;
        Ledger::open(database).await.map_err(|error| spend_failure(&error))
    }

    /// A client without wallet and chains.
    pub(crate) async fn client(&self, reach: &EgressArgs, settings: &Settings) -> Result<ClientBuilder, Stop> {
        let ledger = self.open().await?;
        let builder = Client::builder(verifier(reach)?, reach.open()?, ledger, Arc::new(SystemClock));
        Ok(builder.policy(settings.spend.value.clone()).approver(Arc::new(Terminal::default())))
    }
}

/// Adds a wallet, if one is given or in the environment, and a chain, whose network prompts show.
pub(crate) fn equipped(builder: ClientBuilder, signing: &Signing, chain: Option<Chain>) -> Result<Client, Failure> {
    let builder = match chain {
        Some(chain) => builder.approver(Arc::new(Terminal::on(chain.clone()))).chain(chain),
        None => builder,
    };
    Ok(with_wallet(builder, signing)?.build())
}

/// Requires approval of every amount and proof of identity on a network that a project's file defines, because its node decides which
/// tools appear genuine.
pub(crate) fn cautious(mut policy: SpendPolicy, chain: &Chain) -> SpendPolicy {
    if matches!(chain.network().source, Source::Project(_)) {
        policy.ask_above = Usdc::ZERO;
        policy.ask_identity = Some(true);
    }
    policy
}

/// Adds a wallet, if one is given or in the environment.
pub(crate) fn with_wallet(builder: ClientBuilder, signing: &Signing) -> Result<ClientBuilder, Failure> {
    Ok(match wallet(signing)? {
        Some(wallet) => builder.wallet(wallet),
        None => builder,
    })
}

/// The wallet of the arguments. Open tools need none.
fn wallet(signing: &Signing) -> Result<Option<Arc<dyn Wallet>>, Failure> {
    let Signing { wallet, key_fd, mnemonic_fd, dev_account, .. } = signing;
    let is_named = wallet.is_some() || key_fd.is_some() || mnemonic_fd.is_some() || dev_account.is_some();
    if !is_named && secrets::var(env::TOOLCRIB_PRIVATE_KEY).is_none() {
        return Ok(None);
    }
    Ok(Some(signing.open()?.into()))
}
