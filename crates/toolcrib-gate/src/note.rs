//! The record of a settlement that is stored before it begins, from which another process can find the outcome.
//!
//! A payment that meets an offer of this server is determined by what was signed, the token and the version: 223 bytes. As a JSON request
//! to a facilitator it takes more than four times as many, and a database writes each byte several times.

use alloy_primitives::{Address, B256, U256};
use toolcrib_core::money::Amount;
use toolcrib_x402::asset::{self, Token};
use toolcrib_x402::{
    Authorization, EXACT, Extra, FacilitatorRequest, Offer, Payment, Signature, Version, read_facilitator_request,
};

use crate::settle::Due;

/// The first byte of a compact note. JSON never starts with it.
const COMPACT: u8 = 1;

/// Bytes of a compact note before the signature.
const FIXED_BYTES: usize = 2 + 8 + 20 + 20 + 20 + 32 + 8 + 8 + 32 + 8;

/// Encodes a note: compact for the usual offers, a facilitator request for all others. `None` if x402 version 1 has no name for the
/// network.
pub(crate) fn write(due: Due<'_>) -> Option<Vec<u8>> {
    let Due { payment, offer, .. } = due;
    let json = || FacilitatorRequest { payment, offer, resource: None, extensions: &[] }.to_json().map(String::into_bytes);
    compact(payment, offer).or_else(json)
}

/// Decodes a note of either form.
pub(crate) fn read(note: &[u8]) -> Option<(Payment, Offer)> {
    match note.split_first() {
        Some((&COMPACT, rest)) => expand(rest),
        _ => read_facilitator_request(note).ok(),
    }
}

fn compact(payment: &Payment, offer: &Offer) -> Option<Vec<u8>> {
    let token = token(offer.network.evm_id()?, offer.asset.evm_address()?)?;
    let Authorization { from, to, value, valid_after, valid_before, nonce } = &payment.authorization;
    let timeout = offer.max_timeout_seconds.filter(|_| is_usual(payment, offer, token))?;
    let signature = payment.signature.canonical();
    let mut note = Vec::with_capacity(FIXED_BYTES + signature.as_bytes().len());
    note.extend_from_slice(&[COMPACT, payment.version.number()]);
    note.extend_from_slice(&token.chain.to_be_bytes());
    for account in [&token.address, from, to] {
        note.extend_from_slice(account.as_slice());
    }
    note.extend_from_slice(&value.get().to_be_bytes::<32>());
    note.extend_from_slice(&valid_after.to_be_bytes());
    note.extend_from_slice(&valid_before.to_be_bytes());
    note.extend_from_slice(nonce.as_slice());
    note.extend_from_slice(&timeout.to_be_bytes());
    note.extend_from_slice(signature.as_bytes());
    Some(note)
}

fn expand(note: &[u8]) -> Option<(Payment, Offer)> {
    let mut rest = Rest(note);
    let version = match rest.take::<1>()? {
        [1] => Version::V1,
        [2] => Version::V2,
        _ => return None,
    };
    let chain = u64::from_be_bytes(rest.take()?);
    let token = token(chain, Address::new(rest.take()?))?;
    let authorization = Authorization {
        from: Address::new(rest.take()?),
        to: Address::new(rest.take()?),
        value: Amount::new(U256::from_be_bytes(rest.take::<32>()?)),
        valid_after: u64::from_be_bytes(rest.take()?),
        valid_before: u64::from_be_bytes(rest.take()?),
        nonce: B256::new(rest.take()?),
    };
    let timeout = u64::from_be_bytes(rest.take()?);
    let signature = Signature::new(rest.0.to_vec())?;
    let offer = Offer::exact(token, authorization.value, authorization.to, timeout)?;
    Some((Payment::new(version, &offer, authorization, signature, None, Vec::new()), offer))
}

/// Returns a built-in token, which every process knows. Servers with different settings may share a store, and tokens of the settings are
/// not known to all of them.
fn token(chain: u64, address: Address) -> Option<&'static Token> {
    asset::ALL.iter().find(|token| token.chain == chain && token.address == address)
}

/// Whether the offer is exactly what [`Offer::exact`] makes of the token and the payment.
fn is_usual(payment: &Payment, offer: &Offer, token: &Token) -> bool {
    let Offer { scheme, network, asset: _, amount, pay_to, max_timeout_seconds: _, extra, resource, output_schema, other } =
        offer;
    let is_plain = |extra: &Extra| {
        let Extra { name, version, transfer_method, payment_flow, other } = extra;
        name.as_deref() == Some(token.name)
            && version.as_deref() == Some(token.version)
            && transfer_method.is_none()
            && payment_flow.is_none()
            && other.is_empty()
    };
    scheme == EXACT
        && *network == payment.network
        && *amount == payment.authorization.value
        && pay_to.evm_address() == Some(payment.authorization.to)
        && extra.as_ref().is_some_and(is_plain)
        && resource.is_none()
        && output_schema.is_none()
        && other.is_empty()
}

/// The bytes that are not decoded yet.
struct Rest<'n>(&'n [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_x402::Raw;

    use super::*;

    fn offer() -> Offer {
        let token = asset::usdc(8453).expect("pinned");
        Offer::exact(&token, Amount::new(U256::from(1_000)), Address::repeat_byte(7), 300).expect("an EVM chain")
    }

    fn payment(version: Version, offer: &Offer, signature: Vec<u8>) -> Payment {
        let authorization = Authorization {
            from: Address::repeat_byte(9),
            to: Address::repeat_byte(7),
            value: offer.amount,
            valid_after: 1,
            valid_before: 1_800_000_000,
            nonce: B256::repeat_byte(5),
        };
        let signature = Signature::new(signature).expect("long enough");
        Payment::new(version, offer, authorization, signature, None, Vec::new())
    }

    fn due<'p>(payment: &'p Payment, offer: &'p Offer) -> Due<'p> {
        Due { payment, offer, resource: None, extensions: &[], request: None }
    }

    #[test]
    fn a_compact_note_reads_as_the_request_would() {
        let offer = offer();
        // Of an account, with both encodings of v, and of a contract.
        for signature in [vec![27; 65], [vec![1; 64], vec![0]].concat(), vec![3; 500]] {
            for version in [Version::V1, Version::V2] {
                let payment = payment(version, &offer, signature.clone());
                let note = write(due(&payment, &offer)).expect("a note");
                assert_eq!((note[0], note.len()), (COMPACT, FIXED_BYTES + signature.len()));
                let request = FacilitatorRequest { payment: &payment, offer: &offer, resource: None, extensions: &[] };
                let (asked, _) = read_facilitator_request(request.to_json().expect("a request").as_bytes()).expect("sound");
                assert_eq!(read(&note), Some((asked, offer.clone())), "{version}");
            }
        }
    }

    #[test]
    fn other_offers_are_written_as_requests() {
        let mut other = offer();
        other.other.push(("x".to_owned(), Raw::parse("1").expect("JSON")));
        let mut extra = offer();
        extra.extra.iter_mut().for_each(|extra| extra.payment_flow = Some("authorization".to_owned()));
        let mut timeless = offer();
        timeless.max_timeout_seconds = None;
        for offer in [other, extra, timeless] {
            let payment = payment(Version::V2, &offer, vec![27; 65]);
            let note = write(due(&payment, &offer)).expect("a note");
            assert_eq!(note[0], b'{');
            assert_eq!(read(&note).map(|(_, read)| read.amount), Some(offer.amount), "{offer:?}");
        }
    }

    #[test]
    fn broken_notes_are_not_read() {
        let offer = offer();
        let note = write(due(&payment(Version::V2, &offer, vec![27; 65]), &offer)).expect("a note");
        for length in 0..note.len() {
            assert_eq!(read(&note[..length]), None, "{length} bytes");
        }
        for (at, byte) in [(0, 2), (1, 3), (9, 0), (10, 0)] {
            let mut broken = note.clone();
            broken[at] = byte;
            assert_eq!(read(&broken), None, "byte {at}");
        }
    }
}
