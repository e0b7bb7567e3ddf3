//! Signature and token checks that need the chain.

use alloy_primitives::{Address, B256, Bytes};
use alloy_sol_types::SolCall;
use toolcrib_x402::erc6492;

use super::counterfactual::{DEPLOYMENT_GAS, Simulated, simulate_deployed};
use super::{Domain, SignatureError, StrictSignature};
use crate::Error;
use crate::abi::{IEIP3009, IERC1271};
use crate::rpc::{BoundedCall, CallOutcome, Chain};

/// Gas for an account to verify a signature: several keys and a module or two.
pub(crate) const ERC1271_GAS: u64 = 1_000_000;

/// Maximum length of a signature that is sent to an account. Multi-signature accounts need 65 bytes for each owner.
const MAX_SIGNATURE_BYTES: usize = 8_192;

/// Checks a signature of an account with or without code.
///
/// If the account has code, only ERC-1271 decides; there is no fallback to recovery, because an account with an EIP-7702 delegation
/// may have meant to retire its key. If the account has no code and the signature contains the call that deploys it
/// (ERC-6492), the deployment is simulated and the account is asked there. Nothing is sent to the chain.
pub async fn check_signature(chain: &Chain, account: Address, digest: B256, signature: &[u8]) -> Result<(), Error> {
    if signature.len() > MAX_SIGNATURE_BYTES {
        return Err(SignatureError::Length(signature.len()).into());
    }
    let wrapped = erc6492::unwrap(signature).map_err(SignatureError::Wrapper)?;
    let has_code = !chain.code(account).await?.is_empty();
    let signature = match wrapped {
        None if !has_code => return Ok(StrictSignature::from_slice(signature)?.check(digest, account)?),
        None => signature,
        Some(wrapped) => wrapped.signature,
    };
    let data: Bytes =
        IERC1271::isValidSignatureCall { hash: digest, signature: Bytes::copy_from_slice(signature) }.abi_encode().into();
    let refused = SignatureError::Contract { account };
    if let Some(wrapped) = wrapped.filter(|_| !has_code) {
        let gas = DEPLOYMENT_GAS.saturating_add(ERC1271_GAS);
        return match simulate_deployed(chain, &wrapped, account, data, gas).await? {
            Simulated::Returned(bytes) if is_agreed_value(&bytes) => Ok(()),
            Simulated::NotDeployed => Err(SignatureError::NotDeployable { account, factory: wrapped.factory }.into()),
            // A call to an address without code succeeds and returns nothing.
            Simulated::Returned(bytes) if bytes.is_empty() => {
                Err(SignatureError::NotDeployable { account, factory: wrapped.factory }.into())
            }
            Simulated::Returned(_) | Simulated::Reverted(_) => Err(refused.into()),
        };
    }
    let call = BoundedCall { to: account, data, from: None, gas: Some(ERC1271_GAS), max_bytes: 32 };
    match chain.call(&call).await? {
        CallOutcome::Returned(bytes) if is_agreed_value(&bytes) => Ok(()),
        _ => Err(refused.into()),
    }
}

/// Compares a token's own domain separator with the pinned one.
pub async fn check_domain(chain: &Chain, domain: &Domain) -> Result<(), Error> {
    let token = domain.contract();
    let data = IEIP3009::DOMAIN_SEPARATORCall {}.abi_encode().into();
    let call = BoundedCall { to: token, data, from: None, gas: Some(ERC1271_GAS), max_bytes: 32 };
    let expected = domain.separator();
    let got = match chain.call(&call).await? {
        CallOutcome::Returned(bytes) if bytes.len() == 32 => B256::from_slice(&bytes),
        _ => B256::ZERO,
    };
    if got == expected { Ok(()) } else { Err(Error::DomainMismatch { token, expected, got }) }
}

/// Whether the return data is ERC-1271's magic value: the function's selector, left-aligned in one word.
pub(crate) fn is_agreed_value(bytes: &[u8]) -> bool {
    const AGREED: [u8; 4] = [0x16, 0x26, 0xba, 0x7e];
    bytes
        .split_first_chunk::<4>()
        .is_some_and(|(head, rest)| *head == AGREED && rest.len() == 28 && rest.iter().all(|&byte| byte == 0))
}
