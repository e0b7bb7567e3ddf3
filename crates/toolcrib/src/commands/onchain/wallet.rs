//! `wallet`: encrypted key files.

use clap::{Args, Subcommand};
use serde_json::json;
use toolcrib_chain::wallet::{Cost, LocalWallet, Wallet};
use toolcrib_core::codes;

use crate::env;
use crate::onchain::{Signing, failed, from_environment, keystore};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};
use crate::secrets;

/// What to do with wallets.
#[derive(Debug, Subcommand)]
pub(crate) enum WalletCommand {
    /// Create an encrypted wallet with a new key
    New(Named),
    /// Encrypt the key from `TOOLCRIB_PRIVATE_KEY` or --key-fd
    Import(Named),
    /// List wallets
    List,
    /// Show the address that would sign
    Address(Address),
}

/// Arguments of `wallet new` and `wallet import`.
#[derive(Args, Debug)]
pub(crate) struct Named {
    /// Wallet name
    pub(crate) name: String,
    /// Read the password from this file descriptor
    #[arg(long, value_name = "N")]
    pub(crate) password_fd: Option<u32>,
    /// Read the key to import from this file descriptor
    #[arg(long, value_name = "N")]
    pub(crate) key_fd: Option<u32>,
    /// Allow passwords shorter than 12 characters
    #[arg(long)]
    pub(crate) allow_weak_password: bool,
}

/// Shortest password without a warning, in characters. An attacker who has the file tries passwords as fast as machines can.
const MIN_PASSWORD_CHARS: usize = 12;

/// Arguments of `wallet address`.
#[derive(Args, Debug)]
pub(crate) struct Address {
    #[command(flatten)]
    pub(crate) signing: Signing,
}

/// Runs the command.
pub(crate) fn run(command: &WalletCommand, printer: &mut Printer) -> Result<Done, Stop> {
    match command {
        WalletCommand::New(named) => {
            check_name(named)?;
            keep(named, LocalWallet::random().map_err(|error| failed(error.into()))?, printer)
        }
        WalletCommand::Import(named) => {
            check_name(named)?;
            let key = match named.key_fd {
                Some(number) => LocalWallet::from_fd(number),
                None => from_environment(),
            };
            keep(named, key.map_err(|error| failed(error.into()))?, printer)
        }
        WalletCommand::List => {
            let entries = keystore()?.list().map_err(|error| failed(error.into()))?;
            for entry in &entries {
                let address = entry.address.map_or_else(|| "address unknown".to_owned(), |address| address.to_checksum(None));
                printer.result(&format!("{address}  {}\n", shown(&entry.name)))?;
                if entry.is_readable_by_others {
                    printer.note(&format!("warning: others on this machine can read {}", shown(&entry.name)))?;
                }
            }
            let data: Vec<_> = entries.iter().map(|entry| json!({ "name": entry.name, "address": entry.address })).collect();
            Ok(Done::new(Exit::Yes, json!({ "wallets": data })))
        }
        WalletCommand::Address(arguments) => {
            // An address is not a secret: most files contain it beside the key. Whether they match is checked when the key is used.
            let stated = match &arguments.signing.wallet {
                Some(name) => {
                    keystore()?.address_of(name).map_err(|error| failed(error.into()))?.zip(Some(format!("keystore {name}")))
                }
                None => None,
            };
            let (address, description) = match stated {
                Some(stated) => stated,
                None => {
                    let wallet = arguments.signing.open()?;
                    (wallet.address(), wallet.description())
                }
            };
            printer.result(&format!("{}\n", address.to_checksum(None)))?;
            printer.detail(&description)?;
            Ok(Done::new(Exit::Yes, json!({ "address": address, "description": description })))
        }
    }
}

/// Called before asking for a password.
fn check_name(named: &Named) -> Result<(), Failure> {
    keystore()?.check_new(&named.name).map_err(|error| failed(error.into()))
}

fn keep(named: &Named, key: LocalWallet, printer: &mut Printer) -> Result<Done, Stop> {
    let signing = Signing { wallet: None, password_fd: named.password_fd, key_fd: None, mnemonic_fd: None, dev_account: None };
    let password = signing.password("new password")?;
    if password.expose().chars().count() < MIN_PASSWORD_CHARS && !named.allow_weak_password {
        let what = format!("the password has fewer than {MIN_PASSWORD_CHARS} characters");
        return Err(Failure::new(codes::wallet::WEAK_PASSWORD, what).into());
    }
    if named.password_fd.is_none() && secrets::var(env::TOOLCRIB_PASSWORD).is_none() {
        let again = signing.password("repeat the password")?;
        if again.expose() != password.expose() {
            return Err(Failure::new(codes::cli::USAGE, "the two passwords differ").hint("type the same password twice").into());
        }
    }
    let store = keystore()?;
    printer.note("deriving the encryption key of the wallet; this takes a moment")?;
    let wallet = store.import(&named.name, key, &password, Cost::STANDARD).map_err(|error| failed(error.into()))?;
    printer.result(&format!("{}\n", wallet.address().to_checksum(None)))?;
    printer.note(&format!(
        "saved in {}; it cannot be recovered without the password",
        shown(&store.folder().display().to_string())
    ))?;
    Ok(Done::new(Exit::Yes, json!({ "name": named.name, "address": wallet.address() })))
}
