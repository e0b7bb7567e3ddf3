//! Chain-agnostic identifiers: CAIP-2 chains, CAIP-10 accounts, CAIP-19 assets, and references to registered tools.
//!
//! The full grammars are checked. On `eip155` chains ERC-8257 §3 asks for more: decimal chain ids and lowercase addresses. The address
//! rules of other namespaces are not known here; only the format of such identifiers is checked, and [`AccountId::is_evm`] and
//! [`AssetId::is_evm`] return false for them.

use std::fmt;

use alloy_primitives::{Address, U256};

use crate::checked::Context;
use crate::codes::{self, Code};
use crate::finding::{Finding, Fix};
use crate::json::Value;

/// The namespace of EVM chains.
pub(crate) const EVM_NAMESPACE: &str = "eip155";

/// The asset namespace of tools (ERC-8257 Tool ID Scope).
pub(crate) const TOOL_NAMESPACE: &str = "erc8257";

/// Longest namespace of a chain or an asset: CAIP-2, CAIP-19.
pub(crate) const MAX_NAMESPACE_CHARS: usize = 8;

/// Shortest namespace of a chain or an asset: CAIP-2, CAIP-19.
pub(crate) const MIN_NAMESPACE_CHARS: usize = 3;

/// Longest chain reference: CAIP-2.
pub(crate) const MAX_REFERENCE_CHARS: usize = 32;

/// Longest account address and asset reference: CAIP-10, CAIP-19.
pub const MAX_ADDRESS_CHARS: usize = 128;

/// Longest token id: CAIP-19, the digits of 2^256 - 1.
pub(crate) const MAX_TOKEN_ID_CHARS: usize = 78;

/// Why a text is not a valid identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CaipError {
    /// The text is empty.
    Empty,
    /// Not `namespace:reference`.
    ChainShape,
    /// The chain's namespace breaks CAIP-2.
    Namespace,
    /// The chain's reference breaks CAIP-2.
    Reference,
    /// An `eip155` reference that is not a plain positive decimal number up to 2^64 - 1.
    EvmChain,
    /// Not `namespace:reference:address`.
    AccountShape,
    /// The address breaks CAIP-10.
    AccountAddress,
    /// Not `chain/namespace:reference`.
    AssetShape,
    /// The asset's namespace breaks CAIP-19.
    AssetNamespace,
    /// The asset's reference breaks CAIP-19.
    AssetReference,
    /// The token id breaks CAIP-19.
    TokenId,
    /// Not 0x and 40 hexadecimal digits.
    EvmAddress,
    /// Valid except for upper-case digits; lower case fixes it.
    UppercaseHex,
    /// The zero address.
    ZeroAccount,
    /// A `slip44` reference that is not a plain decimal number.
    Slip44,
    /// Not a reference to a tool.
    ToolShape,
    /// Mixed case with a wrong ERC-55 checksum.
    ToolChecksum,
    /// The tool id is not a plain decimal number.
    ToolId,
    /// The tool id is 0.
    ToolIdZero,
}

/// A chain: CAIP-2.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId {
    text: String,
    namespace: usize,
}

impl ChainId {
    /// Parses a chain.
    pub fn parse(text: &str) -> Result<Self, CaipError> {
        let namespace = chain(text)?;
        Ok(Self { text: text.to_owned(), namespace })
    }

    /// The namespace, such as `eip155`.
    pub fn namespace(&self) -> &str {
        &self.text[..self.namespace]
    }

    /// The reference, such as `8453`.
    pub fn reference(&self) -> &str {
        &self.text[self.namespace + 1..]
    }

    /// The chain id of an EVM chain.
    pub fn evm_id(&self) -> Option<u64> {
        (self.namespace() == EVM_NAMESPACE).then(|| self.reference().parse().ok()).flatten()
    }

    /// The identifier as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// An account on a chain: CAIP-10.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId {
    text: String,
    namespace: usize,
    chain: usize,
}

impl AccountId {
    /// Parses an account. The zero address is rejected: no key can receive there.
    pub fn parse(text: &str) -> Result<Self, CaipError> {
        if text.is_empty() {
            return Err(CaipError::Empty);
        }
        let (chain_text, address) = text.rsplit_once(':').ok_or(CaipError::AccountShape)?;
        if !chain_text.contains(':') {
            return Err(CaipError::AccountShape);
        }
        let namespace = chain(chain_text)?;
        if !is_loose(address, MAX_ADDRESS_CHARS) {
            return Err(CaipError::AccountAddress);
        }
        if &text[..namespace] == EVM_NAMESPACE {
            evm_address(address)?;
        }
        // A hexadecimal zero is not an account in any namespace.
        if address.strip_prefix("0x").is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b == b'0')) {
            return Err(CaipError::ZeroAccount);
        }
        Ok(Self { text: text.to_owned(), namespace, chain: chain_text.len() })
    }

    /// The chain, such as `eip155:8453`.
    pub fn chain(&self) -> &str {
        &self.text[..self.chain]
    }

    /// The namespace of the chain.
    pub fn namespace(&self) -> &str {
        &self.text[..self.namespace]
    }

    /// The reference of the chain.
    pub fn reference(&self) -> &str {
        &self.text[self.namespace + 1..self.chain]
    }

    /// The address on that chain.
    pub fn address(&self) -> &str {
        &self.text[self.chain + 1..]
    }

    /// Whether the chain is an EVM chain, so that the address was checked too.
    pub fn is_evm(&self) -> bool {
        self.namespace() == EVM_NAMESPACE
    }

    /// The chain id of the EVM chain.
    pub fn evm_chain_id(&self) -> Option<u64> {
        self.is_evm().then(|| self.reference().parse().ok()).flatten()
    }

    /// The address on an EVM chain. Compare these and not texts, because addresses from elsewhere come in any case.
    pub fn evm_address(&self) -> Option<Address> {
        self.is_evm().then(|| self.address().parse().ok()).flatten()
    }

    /// The identifier as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// An asset on a chain, or one token of it: CAIP-19.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssetId {
    text: String,
    namespace: usize,
    chain: usize,
    asset_namespace: usize,
    asset_end: usize,
}

impl AssetId {
    /// Parses an asset.
    pub fn parse(text: &str) -> Result<Self, CaipError> {
        if text.is_empty() {
            return Err(CaipError::Empty);
        }
        let (chain_text, asset) = text.split_once('/').ok_or(CaipError::AssetShape)?;
        let namespace = chain(chain_text)?;
        let (asset_type, token_id) = match asset.split_once('/') {
            Some((asset_type, token_id)) => (asset_type, Some(token_id)),
            None => (asset, None),
        };
        let (asset_namespace, reference) = asset_type.split_once(':').ok_or(CaipError::AssetShape)?;
        if !is_namespace(asset_namespace) {
            return Err(CaipError::AssetNamespace);
        }
        if !is_loose(reference, MAX_ADDRESS_CHARS) {
            return Err(CaipError::AssetReference);
        }
        if token_id.is_some_and(|id| !is_loose(id, MAX_TOKEN_ID_CHARS)) {
            return Err(CaipError::TokenId);
        }
        if &text[..namespace] == EVM_NAMESPACE {
            match asset_namespace {
                "erc20" | "erc721" | "erc1155" => evm_address(reference)?,
                "slip44" if !is_decimal(reference) => return Err(CaipError::Slip44),
                _ => {}
            }
        }
        let chain = chain_text.len();
        let asset_namespace = chain + 1 + asset_namespace.len();
        Ok(Self { text: text.to_owned(), namespace, chain, asset_namespace, asset_end: chain + 1 + asset_type.len() })
    }

    /// The chain, such as `eip155:8453`.
    pub fn chain(&self) -> &str {
        &self.text[..self.chain]
    }

    /// The namespace of the chain.
    pub fn namespace(&self) -> &str {
        &self.text[..self.namespace]
    }

    /// The reference of the chain.
    pub fn reference(&self) -> &str {
        &self.text[self.namespace + 1..self.chain]
    }

    /// The namespace of the asset, such as `erc20`.
    pub fn asset_namespace(&self) -> &str {
        &self.text[self.chain + 1..self.asset_namespace]
    }

    /// The reference of the asset, such as the address of a token.
    pub fn asset_reference(&self) -> &str {
        &self.text[self.asset_namespace + 1..self.asset_end]
    }

    /// The id of one token of the asset.
    pub fn token_id(&self) -> Option<&str> {
        self.text.get(self.asset_end + 1..)
    }

    /// Whether the chain is an EVM chain.
    pub fn is_evm(&self) -> bool {
        self.namespace() == EVM_NAMESPACE
    }

    /// The chain id of the EVM chain.
    pub fn evm_chain_id(&self) -> Option<u64> {
        self.is_evm().then(|| self.reference().parse().ok()).flatten()
    }

    /// The contract of an ERC-20, ERC-721 or ERC-1155 token on an EVM chain.
    pub fn evm_address(&self) -> Option<Address> {
        let is_token = matches!(self.asset_namespace(), "erc20" | "erc721" | "erc1155");
        (self.is_evm() && is_token).then(|| self.asset_reference().parse().ok()).flatten()
    }

    /// The identifier as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// A tool: its chain, its registry and its id there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolRef {
    /// The chain id of the EVM chain.
    pub chain: u64,
    /// The registry.
    pub registry: Address,
    /// The id in that registry; never 0.
    pub id: U256,
}

impl ToolRef {
    /// Parses `eip155:<chain>/erc8257:<registry>/<id>`. The registry may be in lower case or carry its ERC-55 checksum; [`fmt::Display`]
    /// writes lower case.
    ///
    /// ```
    /// use toolcrib_core::caip::ToolRef;
    ///
    /// let tool = ToolRef::parse("eip155:8453/erc8257:0x265BB2DBFC0A8165C9A1941Eb1372F349baD2cf1/7").unwrap();
    /// assert_eq!(tool.to_string(), "eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7");
    /// ```
    pub fn parse(text: &str) -> Result<Self, CaipError> {
        if text.is_empty() {
            return Err(CaipError::Empty);
        }
        let mut parts = text.split('/');
        let (Some(chain_text), Some(registry), Some(id), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return Err(CaipError::ToolShape);
        };
        let chain_id = chain_text.strip_prefix("eip155:").ok_or(CaipError::ToolShape)?;
        let registry = registry.strip_prefix("erc8257:").ok_or(CaipError::ToolShape)?;
        let chain = evm_chain(chain_id)?;
        match evm_address(registry) {
            Ok(()) => {}
            Err(CaipError::UppercaseHex) if Address::parse_checksummed(registry, None).is_err() => {
                return Err(CaipError::ToolChecksum);
            }
            Err(CaipError::UppercaseHex) => {}
            Err(fault) => return Err(fault),
        }
        let registry = registry.parse().map_err(|_| CaipError::EvmAddress)?;
        if id.len() > MAX_TOKEN_ID_CHARS || !is_decimal(id) {
            return Err(CaipError::ToolId);
        }
        let id = U256::from_str_radix(id, 10).map_err(|_| CaipError::ToolId)?;
        if id.is_zero() { Err(CaipError::ToolIdZero) } else { Ok(Self { chain, registry, id }) }
    }
}

impl fmt::Display for ToolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `{:x}` of an address is lowercase hexadecimal without checksum.
        write!(f, "{EVM_NAMESPACE}:{}/{TOOL_NAMESPACE}:{:#x}/{}", self.chain, self.registry, self.id)
    }
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for AssetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl CaipError {
    /// The code of this error.
    pub const fn code(self) -> Code {
        use codes::caip as code;
        match self {
            Self::Empty => code::EMPTY,
            Self::ChainShape => code::CHAIN_SHAPE,
            Self::Namespace => code::NAMESPACE,
            Self::Reference => code::REFERENCE,
            Self::EvmChain => code::EVM_CHAIN,
            Self::AccountShape => code::ACCOUNT_SHAPE,
            Self::AccountAddress => code::ACCOUNT_ADDRESS,
            Self::AssetShape => code::ASSET_SHAPE,
            Self::AssetNamespace => code::ASSET_NAMESPACE,
            Self::AssetReference => code::ASSET_REFERENCE,
            Self::TokenId => code::TOKEN_ID,
            Self::EvmAddress => code::EVM_ADDRESS,
            Self::UppercaseHex => code::UPPERCASE_HEX,
            Self::ZeroAccount => code::ZERO_ACCOUNT,
            Self::Slip44 => code::SLIP44,
            Self::ToolShape => code::TOOL_SHAPE,
            Self::ToolChecksum => code::TOOL_CHECKSUM,
            Self::ToolId => code::TOOL_ID,
            Self::ToolIdZero => code::TOOL_ID_ZERO,
        }
    }
}

impl fmt::Display for CaipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code().title())
    }
}

impl std::error::Error for CaipError {}

/// Checks an asset in a manifest.
pub(crate) fn check_asset(value: Value<'_>, text: &str, context: &mut Context) -> Option<AssetId> {
    let parsed = AssetId::parse(text);
    report(value, text, parsed.as_ref().map(AssetId::is_evm), context);
    parsed.ok()
}

/// Checks an account in a manifest.
pub(crate) fn check_account(value: Value<'_>, text: &str, context: &mut Context) -> Option<AccountId> {
    let parsed = AccountId::parse(text);
    report(value, text, parsed.as_ref().map(AccountId::is_evm), context);
    parsed.ok()
}

fn report(value: Value<'_>, text: &str, outcome: Result<bool, &CaipError>, context: &mut Context) {
    let finding = match outcome {
        Ok(true) => return,
        Ok(false) => context.place(Finding::new(codes::caip::NAMESPACE_UNVERIFIED), value).got(text),
        Err(fault) => {
            let finding = context.place(Finding::new(fault.code()), value).got(text);
            match fault {
                CaipError::UppercaseHex => {
                    let lowercase = lowercase_hex(text);
                    let fix = Fix::replace_string(value, "lowercase the address", &lowercase);
                    finding.expected(lowercase).fix(fix)
                }
                _ => finding,
            }
        }
    };
    context.report(finding);
}

/// Returns an `eip155` identifier that is valid except for [`CaipError::UppercaseHex`] with its address in lower case. What follows the
/// address, such as a token id, is unchanged.
pub(crate) fn lowercase_hex(text: &str) -> String {
    let Some(start) = text.find(":0x").map(|at| at + 3).or_else(|| text.find(":0X").map(|at| at + 1)) else {
        return text.to_owned();
    };
    let end = text[start..].find('/').map_or(text.len(), |at| start + at);
    format!("{}{}{}", &text[..start], text[start..end].to_ascii_lowercase(), &text[end..])
}

/// Checks a chain and returns the length of its namespace.
fn chain(text: &str) -> Result<usize, CaipError> {
    if text.is_empty() {
        return Err(CaipError::Empty);
    }
    let (namespace, reference) = text.split_once(':').ok_or(CaipError::ChainShape)?;
    if !is_namespace(namespace) {
        return Err(CaipError::Namespace);
    }
    let is_reference = (1..=MAX_REFERENCE_CHARS).contains(&reference.len())
        && reference.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if !is_reference {
        return Err(CaipError::Reference);
    }
    if namespace == EVM_NAMESPACE {
        evm_chain(reference)?;
    }
    Ok(namespace.len())
}

fn evm_chain(reference: &str) -> Result<u64, CaipError> {
    if !is_decimal(reference) {
        return Err(CaipError::EvmChain);
    }
    // Chain 0 does not exist: EIP-155 treats a missing id as a transaction that any chain accepts.
    reference.parse().ok().filter(|&id| id > 0).ok_or(CaipError::EvmChain)
}

/// Checks an address: 0x and 40 lowercase hexadecimal digits.
fn evm_address(text: &str) -> Result<(), CaipError> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).ok_or(CaipError::EvmAddress)?;
    if digits.len() != 40 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(CaipError::EvmAddress);
    }
    if text.bytes().any(|b| b.is_ascii_uppercase()) { Err(CaipError::UppercaseHex) } else { Ok(()) }
}

fn is_namespace(text: &str) -> bool {
    (MIN_NAMESPACE_CHARS..=MAX_NAMESPACE_CHARS).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// The characters that CAIP-10 and CAIP-19 allow in addresses, references and token ids.
fn is_loose(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'%'))
}

/// `0`, or digits without a leading zero.
fn is_decimal(text: &str) -> bool {
    text == "0" || (!text.is_empty() && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
