//! Compares the cost of a payment's complete signature check with the bare key recovery in it.
//!
//! Both take turns in one process, on the same signatures. The best round of each counts, because noise only adds time.
#![expect(clippy::print_stdout, reason = "the result of a benchmark is what it prints")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, U256, keccak256};
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{Message, SECP256K1};
use toolcrib_chain::network::Network;
use toolcrib_chain::sign::{StrictSignature, TransferAuthorization, TransferKind};
use toolcrib_chain::wallet::{LocalWallet, Scope, Wallet};

/// Signatures of one round.
const COUNT: u64 = 2_000;

/// Number of rounds. The best one counts.
const ROUNDS: usize = 12;

fn main() {
    let domain = Network::find("base").expect("listed").usdc.expect("has USDC").domain(8453);
    let wallet = LocalWallet::development(0).expect("a phrase");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let payments: Vec<_> = (0..COUNT)
        .map(|number| {
            let payment = TransferAuthorization {
                from: wallet.address(),
                to: Address::repeat_byte(7),
                value: U256::from(number),
                valid_after: U256::ZERO,
                valid_before: U256::from(2_000_000_000_u64),
                nonce: keccak256(number.to_be_bytes()),
            };
            let digest = payment.digest(TransferKind::Transfer, &domain);
            let cleared = Scope::impersonated(8453).clear(&wallet).expect("allowed");
            let signature = runtime.block_on(wallet.sign_digest(digest, cleared)).expect("signed");
            (payment, digest, signature.canonical())
        })
        .collect();

    let (mut bare, mut full) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        bare = bare.min(timed(|| {
            for (_, digest, signature) in &payments {
                black_box(recover(digest, signature));
            }
        }));
        full = full.min(timed(|| {
            for (payment, _, signature) in &payments {
                // A server's work for a payment: parse, hash, recover, compare.
                let signature = StrictSignature::from_slice(black_box(signature)).expect("strict");
                signature.check(payment.digest(TransferKind::Transfer, &domain), payment.from).expect("the payer's");
            }
        }));
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / COUNT as f64;
    println!("bare libsecp256k1 recovery  {:7.2} µs", each(bare));
    println!("full EIP-3009 check         {:7.2} µs", each(full));
    println!("ratio                       {:7.2}   (goal: at most 1.30)", full.as_secs_f64() / bare.as_secs_f64());
}

fn timed(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

/// Recovers the public key only: no hashing, no address, no comparison.
fn recover(digest: &B256, signature: &[u8; 65]) -> secp256k1::PublicKey {
    let id = RecoveryId::try_from(i32::from(signature[64]) - 27).expect("0 or 1");
    let signature = RecoverableSignature::from_compact(&signature[..64], id).expect("well-formed");
    SECP256K1.recover_ecdsa(Message::from_digest(digest.0), &signature).expect("a key")
}
