//! Names owned by a Safe, with the Safe contracts installed by `interop/agt-safe`, on development chains.

use alloy_primitives::{Address, B256, Bytes, U256, address, hex, keccak256};
use alloy_sol_types::{SolCall, SolValue as _, sol};
use serde_json::{Value, json};
use toolcrib_agent::evidence::ContractRead;
use toolcrib_agent::report::SignedBy;
use toolcrib_agent::{AgentPolicy, AgentState};
use toolcrib_chain::fns::FNS_CHAIN_ID;
use toolcrib_core::agent::signing::SigningPayload;

use crate::chain::{Node, fns, report, resolver};
use crate::fixture::*;

/// The addresses of the singleton and its handler.
const SINGLETON: Address = address!("41675C099F32341bf84BFc5382aF534df5C7461a");
const HANDLER: Address = address!("fd0732Dc9E303f09fCEf3a7388Ad10A83459Ec99");

sol! {
    interface ISafe {
        function setup(address[] owners, uint256 threshold, address to, bytes data, address fallbackHandler, address paymentToken,
            uint256 payment, address paymentReceiver) external;
    }
}

fn artifact(path: &str, part: &str) -> Option<Vec<u8>> {
    let folder = toolcrib_testkit::safe()?.join("node_modules/@safe-global/safe-contracts/build/artifacts/contracts");
    let text = std::fs::read(folder.join(path)).expect("an artifact");
    let artifact: Value = serde_json::from_slice(&text).expect("JSON");
    Some(hex::decode(artifact[part].as_str().expect("bytecode")).expect("hex"))
}

/// Deploys a Safe with these owners. `None` if the contracts are not installed.
async fn safe(node: &Node, owners: Vec<Address>, threshold: u64) -> Option<Address> {
    node.set_code(SINGLETON, artifact("Safe.sol/Safe.json", "deployedBytecode")?).await;
    let handler = "handler/CompatibilityFallbackHandler.sol/CompatibilityFallbackHandler.json";
    node.set_code(HANDLER, artifact(handler, "deployedBytecode")?).await;
    let proxy = artifact("proxies/SafeProxy.sol/SafeProxy.json", "bytecode")?;
    let receipt = node.send(None, [proxy, SINGLETON.abi_encode()].concat()).await;
    let safe: Address = serde_json::from_value(receipt["contractAddress"].clone()).expect("an address");
    let setup = ISafe::setupCall {
        owners,
        threshold: U256::from(threshold),
        to: Address::ZERO,
        data: Bytes::new(),
        fallbackHandler: HANDLER,
        paymentToken: Address::ZERO,
        payment: U256::ZERO,
        paymentReceiver: Address::ZERO,
    };
    node.send(Some(safe), setup.abi_encode()).await;
    Some(safe)
}

/// The EIP-712 message that the owners of a Safe sign for a digest: `SafeMessage(bytes message)`.
fn safe_message(safe: Address, digest: B256) -> B256 {
    let domain = keccak256("EIP712Domain(uint256 chainId,address verifyingContract)");
    let domain = keccak256((domain, U256::from(FNS_CHAIN_ID), safe).abi_encode());
    let message = keccak256((keccak256("SafeMessage(bytes message)"), keccak256(digest.abi_encode())).abi_encode());
    keccak256([&[0x19, 0x01], domain.as_slice(), message.as_slice()].concat())
}

/// The digest of a manifest of the Safe, and the manifest with a signature.
fn manifest(safe: Address, sign: impl FnOnce(B256) -> Vec<u8>) -> String {
    let mut fields = fields(json!({"owner": safe.to_checksum(None)}));
    let digest = SigningPayload::of(&document(&fields.to_string())).expect("canonical").digest();
    fields["signature"] = Value::String(hex::encode_prefixed(sign(digest)));
    fields.to_string()
}

fn allowed() -> AgentPolicy {
    AgentPolicy { allow_contract_owner: true, ..AgentPolicy::default() }
}

// req: AGT-018
#[tokio::test]
async fn a_safe_with_one_signature_needs_the_flag() {
    for node in Node::each(FNS_CHAIN_ID).await {
        node.place_registry().await;
        let Some(safe) = safe(&node, vec![owner(), other()], 1).await else { return };
        node.mint(safe).await;
        let signed = manifest(safe, |digest| signature_of(safe_message(safe, digest), &keys().0).to_vec());
        let strict = report(&resolver(&signed, fns(&node))).await;
        assert_failed(&strict, AgentState::InvalidSignature, "agent.signer_not_owner", Some(5));
        let extended = report(&resolver(&signed, fns(&node)).policy(allowed())).await;
        assert_verified(&extended);
        assert_eq!((extended.signed_by, extended.holder), (Some(SignedBy::Contract), Some(safe)));
        // A Safe accepts only signatures of its owners over its own message: not one over the digest, and not one of another account.
        let plain = manifest(safe, |digest| signature_of(digest, &keys().0).to_vec());
        let elsewhere = manifest(safe, |digest| signature_of(safe_message(other(), digest), &keys().0).to_vec());
        for refused in [plain, elsewhere] {
            let resolution = resolver(&refused, fns(&node)).policy(allowed()).resolve(&domain(NAME)).await;
            assert_failed(&resolution.report, AgentState::InvalidSignature, "agent.signer_not_owner", Some(5));
            assert_eq!(resolution.evidence.owner.expect("read").contract, Some(ContractRead::Rejected));
        }
    }
}

// req: AGT-018
#[tokio::test]
async fn several_signatures_of_a_safe_are_not_one_signature() {
    for node in Node::each(FNS_CHAIN_ID).await {
        node.place_registry().await;
        let Some(safe) = safe(&node, vec![owner(), other()], 2).await else { return };
        node.mint(safe).await;
        // In the order of the owners, as the Safe requires.
        let both = manifest(safe, |digest| {
            let mut signers = [(owner(), keys().0), (other(), keys().1)];
            signers.sort_by_key(|(account, _)| *account);
            signers.iter().flat_map(|(_, key)| signature_of(safe_message(safe, digest), key)).collect()
        });
        // `eth_sign` has its own recovery id there, and a message that was signed onchain has an empty signature.
        let eth_sign = manifest(safe, |digest| {
            let mut signature = signature_of(safe_message(safe, digest), &keys().0);
            signature[64] += 4;
            signature.to_vec()
        });
        let onchain = manifest(safe, |_| Vec::new());
        for (text, code) in
            [(both, "agent.signature_malformed"), (eth_sign, "agent.signature_v"), (onchain, "agent.signature_placeholder")]
        {
            let resolution = resolver(&text, fns(&node)).policy(allowed()).resolve(&domain(NAME)).await;
            assert_failed(&resolution.report, AgentState::InvalidSignature, code, Some(4));
            assert_eq!(resolution.evidence.owner.expect("read").contract, None, "the contract is not asked");
        }
        // One of two signatures is not enough.
        let one = manifest(safe, |digest| signature_of(safe_message(safe, digest), &keys().0).to_vec());
        let resolution = resolver(&one, fns(&node)).policy(allowed()).resolve(&domain(NAME)).await;
        assert_failed(&resolution.report, AgentState::InvalidSignature, "agent.signer_not_owner", Some(5));
    }
}
