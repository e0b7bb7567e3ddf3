//! Converts headers and transactions to revm's types and back.

use alloy_consensus::{Header, Transaction as _};
use alloy_eips::Typed2718;
use alloy_primitives::{Address, B256, Signature, SignatureError, U256};
use alloy_rpc_types_eth::TransactionRequest;
use revm::context::either::Either;
use revm::context::result::{EVMError, ExecutionResult, HaltReason, InvalidTransaction, ResultAndState};
use revm::context::transaction::{RecoveredAuthority, RecoveredAuthorization, SignedAuthorization};
use revm::context::{BlockEnv, CfgEnv, TxEnv};
use revm::context_interface::cfg::gas_params::GasId;
use revm::primitives::hardfork::SpecId;
use revm::{Context, Database, ExecuteEvm, MainBuilder, MainContext};
use toolcrib_core::registry::gas::ColdAccess;

use super::Config;
use super::blocks::{Outcome, Tx};
use super::refusal::Rejection;

/// The hard fork: that of Ethereum since December 2025.
pub(crate) const SPEC: SpecId = SpecId::OSAKA;

/// Maximum gas limit of a transaction (EIP-7825).
pub(crate) const MAX_TX_GAS: u64 = 1 << 24;

/// Gas for a warm account or slot on every known chain: the EVM charges it first, and the rest of a cold access on top.
const WARM: u64 = 100;

/// The configuration for mined transactions.
pub(crate) fn strict(config: &Config) -> CfgEnv {
    let mut cfg = CfgEnv::new_with_spec(SPEC);
    cfg.chain_id = config.chain_id;
    let cold = config.cold_access;
    if cold != ColdAccess::ETHEREUM {
        cfg.gas_params.override_gas([
            (GasId::cold_account_additional_cost(), cold.account.saturating_sub(WARM)),
            (GasId::cold_storage_additional_cost(), cold.slot.saturating_sub(WARM)),
            (GasId::cold_storage_cost(), cold.slot),
        ]);
    }
    cfg
}

/// The configuration for calls, which need neither funds for gas nor a valid nonce, and may come from a contract's address.
pub(crate) fn lenient(config: &Config) -> CfgEnv {
    let mut cfg = strict(config);
    cfg.disable_nonce_check = true;
    cfg.disable_base_fee = true;
    cfg.disable_block_gas_limit = true;
    cfg.disable_eip3607 = true;
    cfg.tx_gas_limit_cap = Some(u64::MAX);
    cfg
}

/// The block environment that code sees.
pub(crate) fn block_env(header: &Header) -> BlockEnv {
    let mut env = BlockEnv {
        number: U256::from(header.number),
        beneficiary: header.beneficiary,
        timestamp: U256::from(header.timestamp),
        gas_limit: header.gas_limit,
        basefee: header.base_fee_per_gas.unwrap_or_default(),
        difficulty: U256::ZERO,
        prevrandao: Some(header.mix_hash),
        ..BlockEnv::default()
    };
    env.set_blob_excess_gas_and_price(0, revm::primitives::eip4844::BLOB_BASE_FEE_UPDATE_FRACTION_PRAGUE);
    env
}

/// Executes one transaction without writing its changes.
pub(crate) fn run<D: Database<Error = std::convert::Infallible>>(
    db: D,
    cfg: CfgEnv,
    block: BlockEnv,
    tx: TxEnv,
) -> Result<ResultAndState, InvalidTransaction> {
    let mut evm = Context::mainnet().with_db(db).with_cfg(cfg).with_block(block).build_mainnet();
    evm.transact(tx).map_err(|error| match error {
        EVMError::Transaction(invalid) => invalid,
        other => InvalidTransaction::Str(other.to_string().into()),
    })
}

/// Converts a signed transaction for the EVM.
pub(crate) fn signed_env(tx: &Tx) -> TxEnv {
    TxEnv {
        tx_type: tx.ty(),
        caller: tx.signer(),
        gas_limit: tx.gas_limit(),
        gas_price: tx.max_fee_per_gas(),
        gas_priority_fee: tx.max_priority_fee_per_gas(),
        kind: tx.kind(),
        value: tx.value(),
        data: tx.input().clone(),
        nonce: tx.nonce(),
        chain_id: tx.chain_id(),
        access_list: tx.access_list().cloned().unwrap_or_default(),
        authorization_list: authorizations(tx.authorization_list().unwrap_or_default()),
        ..TxEnv::default()
    }
}

/// Converts a call for the EVM. Fees are left out, because a call pays nothing.
pub(crate) fn call_env(request: &TransactionRequest, gas: u64, chain_id: u64) -> TxEnv {
    let list = authorizations(request.authorization_list.as_deref().unwrap_or_default());
    let tx_type = match (&request.access_list, list.is_empty()) {
        (_, false) => 4,
        (Some(_), true) => 1,
        (None, true) => 0,
    };
    TxEnv {
        tx_type,
        caller: request.from.unwrap_or_default(),
        gas_limit: gas,
        gas_price: 0,
        kind: request.to.unwrap_or_default(),
        value: request.value.unwrap_or_default(),
        data: request.input.input().cloned().unwrap_or_default(),
        nonce: request.nonce.unwrap_or_default(),
        chain_id: Some(chain_id),
        access_list: request.access_list.clone().unwrap_or_default(),
        authorization_list: list,
        ..TxEnv::default()
    }
}

/// Converts an execution result for the receipt.
pub(crate) fn outcome(result: ExecutionResult) -> Outcome {
    let (success, gas_used, created) = (result.is_success(), result.tx_gas_used(), result.created_address());
    let logs = if success { result.into_logs() } else { Vec::new() };
    Outcome { success, gas_used, logs, created }
}

/// The return data of a call, or its error.
pub(crate) fn answer(result: ExecutionResult) -> Result<alloy_primitives::Bytes, Rejection> {
    match result {
        ExecutionResult::Success { output, .. } => Ok(output.into_data()),
        ExecutionResult::Revert { output, .. } => Err(Rejection::Reverted(output)),
        ExecutionResult::Halt { reason, .. } => Err(Rejection::Halted(halt(&reason))),
    }
}

/// Geth's error message for a halted execution.
pub(crate) fn halt(reason: &HaltReason) -> String {
    match reason {
        HaltReason::OutOfGas(_) => "out of gas".into(),
        HaltReason::OpcodeNotFound | HaltReason::NotActivated => "invalid opcode".into(),
        HaltReason::InvalidFEOpcode => "invalid opcode: INVALID".into(),
        HaltReason::InvalidJump => "invalid jump destination".into(),
        HaltReason::StackUnderflow => "stack underflow".into(),
        HaltReason::StackOverflow => "stack limit reached".into(),
        HaltReason::CreateCollision => "contract address collision".into(),
        HaltReason::CreateContractSizeLimit => "max code size exceeded".into(),
        HaltReason::StateChangeDuringStaticCall => "write protection".into(),
        HaltReason::OutOfFunds => "insufficient balance for transfer".into(),
        HaltReason::CallTooDeep => "max call depth exceeded".into(),
        other => format!("execution halted: {other:?}"),
    }
}

/// Converts an invalid transaction of the EVM to a node's error.
pub(crate) fn refusal(tx: &TxEnv, error: InvalidTransaction) -> Rejection {
    let sender = tx.caller;
    match error {
        InvalidTransaction::NonceTooLow { tx: given, state } => Rejection::NonceTooLow { sender, given, expected: state },
        InvalidTransaction::NonceTooHigh { tx: given, state } => Rejection::NonceTooHigh { sender, given, expected: state },
        InvalidTransaction::LackOfFundForMaxFee { fee, balance } => {
            Rejection::InsufficientFunds { sender, have: *balance, want: *fee }
        }
        InvalidTransaction::CallGasCostMoreThanGasLimit { initial_gas, gas_limit } => {
            Rejection::IntrinsicGas { have: gas_limit, want: initial_gas }
        }
        InvalidTransaction::GasFloorMoreThanGasLimit { gas_floor, gas_limit } => {
            Rejection::IntrinsicGas { have: gas_limit, want: gas_floor }
        }
        InvalidTransaction::PriorityFeeGreaterThanMaxFee => {
            Rejection::TipAboveFeeCap { tip: tx.gas_priority_fee.unwrap_or_default(), cap: tx.gas_price }
        }
        InvalidTransaction::TxGasLimitGreaterThanCap { gas_limit, cap } => Rejection::GasLimit { have: gas_limit, limit: cap },
        InvalidTransaction::CreateInitCodeSizeLimit => Rejection::Invalid("max initcode size exceeded".into()),
        other => Rejection::Invalid(other.to_string()),
    }
}

/// Recovers the signer of a hash. A high s is rejected (EIP-2).
pub(super) fn signer_of(signature: &Signature, hash: B256) -> Result<Address, SignatureError> {
    if signature.normalize_s().is_some() {
        return Err(SignatureError::FromBytes("the s of the signature is in the upper half"));
    }
    signature.recover_address_from_prehash(&hash)
}

fn authorizations(list: &[SignedAuthorization]) -> Vec<Either<SignedAuthorization, RecoveredAuthorization>> {
    list.iter()
        .map(|signed| {
            let authority = signed
                .signature()
                .ok()
                .and_then(|signature| signer_of(&signature, signed.signature_hash()).ok())
                .map_or(RecoveredAuthority::Invalid, RecoveredAuthority::Valid);
            Either::Right(RecoveredAuthorization::new_unchecked(signed.inner().clone(), authority))
        })
        .collect()
}
