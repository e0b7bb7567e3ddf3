//! The owner: an EIP-55 address. Producers get stricter rules than consumers.

use alloy_primitives::Address;

use crate::checked::Context;
use crate::codes;
use crate::finding::{Finding, Fix, Severity};
use crate::json::Value;

/// The spelling of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spelling {
    /// A valid EIP-55 checksum, or no letter that could carry one.
    Checksummed,
    /// All letters in one case: no checksum.
    OneCase,
    /// Mixed case with a wrong checksum: a digit may be wrong.
    WrongChecksum,
}

/// Parses `0x` and 40 hexadecimal digits, and returns how they are spelled.
///
/// ```
/// use toolcrib_core::agent::owner::{Spelling, parse};
///
/// let (address, spelling) = parse("0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266").expect("an address");
/// assert_eq!(spelling, Spelling::OneCase);
/// assert_eq!(address.to_checksum(None), "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
/// ```
pub fn parse(text: &str) -> Option<(Address, Spelling)> {
    let digits = text.strip_prefix("0x")?;
    if digits.len() != 40 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let address: Address = text.parse().ok()?;
    let has = |test: fn(&u8) -> bool| digits.as_bytes().iter().any(test);
    let spelling = if address.to_checksum(None) == text {
        Spelling::Checksummed
    } else if has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) {
        Spelling::WrongChecksum
    } else {
        Spelling::OneCase
    };
    Some((address, spelling))
}

/// Checks the `owner` field.
pub(super) fn check(value: Value<'_>, text: &str, context: &mut Context) -> Option<Address> {
    let Some((address, spelling)) = parse(text) else {
        let mut finding =
            Finding::new(codes::agent::OWNER_MALFORMED).at(value).expected("0x and 40 hexadecimal digits").got(text);
        if super::is_elided(text) {
            finding = finding.message("the owner is a shortened address");
        }
        context.report(finding);
        return None;
    };
    if address.is_zero() {
        context.report(Finding::new(codes::agent::OWNER_ZERO).at(value));
        return None;
    }
    match spelling {
        Spelling::Checksummed => {}
        Spelling::OneCase => context.report(
            Finding::new(codes::agent::OWNER_NOT_CHECKSUMMED)
                .at(value)
                .severity(context.mode.strict(Severity::Warning))
                .expected(address.to_checksum(None))
                .got(text)
                .fix(Fix::replace_string(value, "write the owner with its checksum", &address.to_checksum(None))),
        ),
        Spelling::WrongChecksum => {
            context.report(
                Finding::new(codes::agent::OWNER_CHECKSUM)
                    .at(value)
                    .expected(format!("{}, if every digit is correct", address.to_checksum(None)))
                    .got(text),
            );
            return None;
        }
    }
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: AGT-006
    #[test]
    fn spellings_of_an_address() {
        use Spelling::*;
        for (text, expected) in [
            // The examples of EIP-55, of all four kinds.
            ("0x52908400098527886E0F7030069857D2E4169EE7", Some(Checksummed)),
            ("0xde709f2102306220921060314715629080e2fb77", Some(Checksummed)),
            ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", Some(Checksummed)),
            ("0x0000000000000000000000000000000000000001", Some(Checksummed)),
            ("0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", Some(OneCase)),
            ("0x5AAEB6053F3E94C9B9A09F33669435E7EF1BEAED", Some(OneCase)),
            ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD", Some(WrongChecksum)),
            ("0x912D39E13b0bDAe2C5Cf5D0E2f9F4B38aE9c7f6a", Some(WrongChecksum)),
            ("0x912D39E13B0BdAE2C5cf5d0e2f9f4B38aE9C7f6A", Some(Checksummed)),
            ("0X5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", None),
            ("5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", None),
            ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAe", None),
            ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAedd", None),
            ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeg", None),
            ("0xABCD1234...", None),
            (" 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", None),
            ("vitalik.eth", None),
            ("", None),
        ] {
            assert_eq!(parse(text).map(|(_, spelling)| spelling), expected, "{text}");
        }
    }
}
