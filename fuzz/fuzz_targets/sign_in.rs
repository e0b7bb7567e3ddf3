//! Sign-in messages (EIP-4361) and wrapped signatures (ERC-6492): what is parsed is written back byte for byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_x402::sign_in::siwe::SignedMessage;
use toolcrib_x402::sign_in::siwx::{EXTENSION, Proposal, SignedIn};
use toolcrib_x402::sign_in::{MAX_MESSAGE_BYTES, Message};
use toolcrib_x402::erc6492::{is_wrapped, unwrap, wrap};
use toolcrib_x402::{Raw, header};

fuzz_target!(|data: &[u8]| {
    if let Ok(Some(wrapped)) = unwrap(data) {
        assert_eq!(wrap(wrapped.factory, wrapped.calldata, wrapped.signature), data, "each signature has one spelling");
        assert!(!is_wrapped(wrapped.signature));
    }
    if let Ok(answer) = SignedIn::read(&header::encode(data)) {
        message(&answer.message);
        assert_eq!(answer.to_header().map(|value| SignedIn::read(&value)), Some(Ok(answer)));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(read) = Message::parse(text) {
        assert_eq!(read.text(), text);
        message(&read);
    }
    if let Some(Ok(signed)) = SignedMessage::read(text) {
        message(&signed.message);
        assert_eq!(SignedMessage::read(&signed.to_header()), Some(Ok(signed)));
    }
    if let Some(value) = Raw::parse(text)
        && let Some(Ok(proposal)) = Proposal::announced(&vec![(EXTENSION.to_owned(), value)])
    {
        let (name, value) = proposal.extension();
        assert_eq!(Raw::parse(value.as_str()).as_ref(), Some(&value), "canonical");
        assert_eq!(Proposal::announced(&vec![(name, value)]), Some(Ok(proposal)));
    }
});

/// A message equals its text, and none of its lines came from another field.
fn message(message: &Message) {
    let text = message.text();
    assert!(text.len() <= MAX_MESSAGE_BYTES && text.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)));
    assert_eq!(Message::parse(text).as_ref(), Ok(message));
    assert_eq!(text.matches("\nURI: ").count(), 1);
}
