//! Access gates from the command line.

use std::path::PathBuf;

use alloy_primitives::{Address, B256, U256};
use clap::Args;
use toolcrib_author::gas;
use toolcrib_author::plan::Gate;
use toolcrib_chain::predicate::MerklePredicate;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::wallet::Wallet;
use toolcrib_core::codes;
use toolcrib_core::registry::known::known_fault;

use crate::input::Source;
use crate::kinds::parse_address;
use crate::onchain::failed;
use crate::outcome::{Failure, Stop};
use crate::printer::Printer;

/// Who may use a tool. Nothing given means everybody.
#[derive(Args, Clone, Debug)]
#[group(multiple = true)]
pub(crate) struct GateArguments {
    /// Allow holders of this ERC-721 collection; repeatable
    #[arg(long, value_name = "0x…", conflicts_with_all = ["erc20_gate", "erc1155_gate", "subscription_gate", "allowlist", "access_predicate"])]
    pub(crate) nft_gate: Vec<String>,
    /// Allow holders of these ERC-1155 tokens; repeatable
    #[arg(long, value_name = "0x…:ID,ID", conflicts_with_all = ["erc20_gate", "subscription_gate", "allowlist", "access_predicate"])]
    pub(crate) erc1155_gate: Vec<String>,
    /// Allow holders of this ERC-20 token
    #[arg(long, value_name = "0x…", requires = "min", conflicts_with_all = ["subscription_gate", "allowlist", "access_predicate"])]
    pub(crate) erc20_gate: Option<String>,
    /// Minimum balance for --erc20-gate, in base units
    #[arg(long, alias = "erc20-min-balance", value_name = "N", requires = "erc20_gate")]
    pub(crate) min: Option<String>,
    /// Allow subscribers of this subscription NFT
    #[arg(long, value_name = "0x…", conflicts_with_all = ["allowlist", "access_predicate"])]
    pub(crate) subscription_gate: Option<String>,
    /// Minimum tier for --subscription-gate
    #[arg(long, value_name = "N", requires = "subscription_gate", default_value_t = 0)]
    pub(crate) min_tier: u8,
    /// Allow holders of an ERC-7496 token with a certain trait value
    #[arg(long, value_name = "0x…", requires = "trait_key", conflicts_with_all = ["all_of", "any_of", "allowlist", "access_predicate"])]
    pub(crate) trait_gate: Option<String>,
    /// Trait key for --trait-gate: 32 bytes in hex
    #[arg(long, value_name = "0x…", requires = "trait_value")]
    pub(crate) trait_key: Option<String>,
    /// Accepted value for --trait-gate: 32 bytes in hex; repeatable
    #[arg(long, value_name = "0x…")]
    pub(crate) trait_value: Vec<String>,
    /// Allow accounts that all these predicates allow; `!` negates one
    #[arg(long, value_name = "[!]0x…", conflicts_with_all = ["any_of", "allowlist", "access_predicate"])]
    pub(crate) all_of: Vec<String>,
    /// Allow accounts that any of these predicates allows; `!` negates one
    #[arg(long, value_name = "[!]0x…", conflicts_with_all = ["allowlist", "access_predicate"])]
    pub(crate) any_of: Vec<String>,
    /// Allow the accounts in this file, one per line
    #[arg(long, value_name = "FILE", conflicts_with = "access_predicate")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Use this predicate, which is configured elsewhere
    #[arg(long, value_name = "0x…")]
    pub(crate) access_predicate: Option<String>,
    /// Predicate contract to use instead of the network's
    #[arg(long, value_name = "0x…", conflicts_with = "access_predicate")]
    pub(crate) predicate: Option<String>,
}

impl GateArguments {
    /// The gate of the arguments, with the predicates of the registry.
    pub(crate) fn resolve(&self, registry: &Registry) -> Result<Gate, Failure> {
        let gate = self.gate(registry)?;
        if self.predicate.is_some() && !gate.needs_configuration() {
            let what = "--predicate was given without a gate";
            return Err(Failure::new(codes::cli::USAGE, what).hint("give a gate such as --nft-gate, or use --access-predicate"));
        }
        Ok(gate)
    }

    fn gate(&self, registry: &Registry) -> Result<Gate, Failure> {
        let predicates = &registry.chain().network().predicates;
        let named = self.predicate.as_deref().map(parse_address).transpose()?;
        let known = |predicate: Option<Address>, what: &str| {
            named.or(predicate).ok_or_else(|| {
                let what = format!("the registry {} has no known {what} predicate", registry.address());
                Failure::new(codes::cli::USAGE, what)
                    .hint("name one deployed for it with --predicate, or in the network's entry of the settings")
            })
        };
        if !self.nft_gate.is_empty() {
            let collections = self.nft_gate.iter().map(|text| parse_address(text)).collect::<Result<_, _>>()?;
            return Ok(Gate::Erc721 { predicate: known(predicates.erc721, "ERC-721")?, collections });
        }
        if !self.erc1155_gate.is_empty() {
            let tokens = self.erc1155_gate.iter().map(|text| parse_tokens(text)).collect::<Result<_, _>>()?;
            return Ok(Gate::Erc1155 { predicate: known(predicates.erc1155, "ERC-1155")?, tokens });
        }
        if let (Some(token), Some(min)) = (&self.erc20_gate, &self.min) {
            let min_balance = parse_number(min)?;
            return Ok(Gate::Erc20 { predicate: known(predicates.erc20, "ERC-20")?, token: parse_address(token)?, min_balance });
        }
        if let Some(collection) = &self.subscription_gate {
            return Ok(Gate::Subscription {
                predicate: known(predicates.subscription, "subscription")?,
                collection: parse_address(collection)?,
                min_tier: self.min_tier,
            });
        }
        if let (Some(collection), Some(key)) = (&self.trait_gate, &self.trait_key) {
            let collection = parse_address(collection)?;
            return Ok(Gate::Trait {
                predicate: known(predicates.traits, "trait")?,
                collection,
                traits: collection,
                key: parse_word(key)?,
                values: self.trait_value.iter().map(|value| parse_word(value)).collect::<Result<_, _>>()?,
            });
        }
        let terms = if self.all_of.is_empty() { &self.any_of } else { &self.all_of };
        if !terms.is_empty() {
            let term = |text: &String| match text.strip_prefix('!') {
                Some(negated) => Ok((parse_address(negated)?, true)),
                None => Ok((parse_address(text)?, false)),
            };
            return Ok(Gate::Composite {
                predicate: known(predicates.composite, "composite")?,
                all: !self.all_of.is_empty(),
                terms: terms.iter().map(term).collect::<Result<_, Failure>>()?,
            });
        }
        if let Some(path) = &self.allowlist {
            let root = MerklePredicate::root_of(&read_accounts(path)?)
                .ok_or_else(|| Failure::new(codes::cli::USAGE, "the list has no accounts"))?;
            return Ok(Gate::Merkle { predicate: known(predicates.merkle, "allowlist")?, root });
        }
        Ok(match &self.access_predicate {
            Some(text) => Gate::Predicate(parse_address(text)?),
            None => Gate::Open,
        })
    }
}

/// Checks a gate before a tool is registered behind it: a predicate without code denies every call, and so does one that refuses its
/// configuration; a configuration whose admin account is lost can never be changed.
pub(crate) async fn check(
    gate: &Gate,
    registry: &Registry,
    wallet: &dyn Wallet,
    allow_undeployed: bool,
    printer: &mut Printer,
) -> Result<(), Stop> {
    let Some(predicate) = gate.predicate() else { return Ok(()) };
    fits(gate, registry, printer).await?;
    if registry.chain().code(predicate).await.map_err(failed)?.is_empty() {
        let what = format!("the predicate {predicate} has no code, so the tool would deny every call");
        if !allow_undeployed {
            return Err(Failure::new(codes::predicate::NO_CODE, what)
                .hint("deploy it first, or register anyway with --allow-undeployed")
                .into());
        }
        printer.note(&format!("warning[{}]: {what}; check the salt and the init code", codes::predicate::NO_CODE))?;
    }
    if registry.chain().code(wallet.address()).await.map_err(failed)?.is_empty() {
        printer.note("note: the creator cannot be changed later; a contract wallet can recover from a lost or stolen key, this account cannot")?;
    }
    Ok(())
}

/// Refuses a gate that its predicate would refuse after the registration, and reports known problems of it.
pub(crate) async fn fits(gate: &Gate, registry: &Registry, printer: &mut Printer) -> Result<(), Stop> {
    let Some(predicate) = gate.predicate() else { return Ok(()) };
    if let Some(fault) = known_fault(registry.chain().chain_id(), &predicate, None) {
        printer.note(&format!("warning[{}]: {fault}", fault.code()))?;
    }
    let refused = |error: toolcrib_author::Error| Failure::new(error.code(), error.to_string());
    gate.check_on(registry).await.map_err(refused)?;
    if let Some(warning) = gas::warning(gate, registry).await.map_err(refused)? {
        printer.note(&format!("warning[{}]: {warning}", warning.code()))?;
    }
    Ok(())
}

fn parse_tokens(text: &str) -> Result<(Address, Vec<U256>), Failure> {
    let (collection, ids) = text.split_once(':').ok_or_else(|| {
        Failure::new(codes::cli::USAGE, format!("`{text}` is not a list of tokens")).hint("write COLLECTION:ID,ID")
    })?;
    Ok((parse_address(collection)?, ids.split(',').map(parse_number).collect::<Result<_, _>>()?))
}

fn parse_word(text: &str) -> Result<B256, Failure> {
    text.parse().map_err(|_| Failure::new(codes::cli::USAGE, format!("`{text}` is not 32 bytes in hex")))
}

/// Parses a whole number in decimal digits.
pub(crate) fn parse_number(text: &str) -> Result<U256, Failure> {
    U256::from_str_radix(text, 10).map_err(|_| Failure::new(codes::cli::USAGE, format!("`{text}` is not a whole number")))
}

/// Reads accounts from a file, one per line. Skips empty lines and those that start with #.
fn read_accounts(path: &std::path::Path) -> Result<Vec<Address>, Failure> {
    let source = Source::from_argument(path);
    let bytes = source.read()?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| Failure::new(codes::cli::UNREADABLE, format!("{} is not UTF-8 text", source.name())))?;
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).map(parse_address).collect()
}
