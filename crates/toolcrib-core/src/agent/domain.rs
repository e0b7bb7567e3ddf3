//! `.agt` names and their token ids.
//!
//! A name has exactly two labels. Freename hashes the bytes of the label without lowercasing or mapping, so that every spelling except one
//! is a different token. [`AgtDomain::parse`] accepts only that canonical spelling, which manifests must use; [`AgtDomain::from_input`]
//! accepts what people type.

use std::fmt;

use alloy_primitives::{U256, keccak256};
use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

/// Longest label: RFC 1035 §2.3.4.
pub const MAX_LABEL_BYTES: usize = 63;

/// Longest accepted input. A DNS name has 253 bytes; Unicode text may need a few more for the same name.
const MAX_INPUT_BYTES: usize = 1024;

/// The top-level name, without a dot.
pub(crate) const TLD: &str = "agt";

/// A `.agt` name in canonical form: one lowercase LDH label (an `xn--` one for Unicode) and `agt`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgtDomain {
    text: String,
}

impl AgtDomain {
    /// Parses a name that must already be canonical, as in a manifest.
    ///
    /// ```
    /// use toolcrib_core::agent::AgtDomain;
    ///
    /// let domain = AgtDomain::parse("exampleagent.agt").expect("canonical");
    /// assert_eq!(domain.sld(), "exampleagent");
    /// assert!(AgtDomain::parse("ExampleAgent.agt").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, DomainFault> {
        if text.len() > MAX_INPUT_BYTES {
            return Err(DomainFault::LabelTooLong);
        }
        if !text.is_ascii() {
            return Err(DomainFault::Unicode { canonical: Self::from_input(text).ok() });
        }
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(DomainFault::UpperCase { canonical: Self::from_input(text).ok() });
        }
        if let Some(rest) = text.strip_suffix('.').filter(|rest| !rest.is_empty()) {
            return Err(DomainFault::TrailingDot { canonical: Self::parse_labels(rest).ok() });
        }
        Self::parse_labels(text)
    }

    /// Parses a name as people write it: any case, Unicode, a trailing dot. Use it for names that a user enters, never for names inside a
    /// manifest.
    pub fn from_input(text: &str) -> Result<Self, DomainFault> {
        if text.len() > MAX_INPUT_BYTES {
            return Err(DomainFault::LabelTooLong);
        }
        let text = text.strip_suffix('.').unwrap_or(text);
        let ascii = Uts46::new()
            .to_ascii(text.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Ignore)
            .map_err(|_| Self::parse_labels(text).err().unwrap_or(DomainFault::NotLdh))?;
        Self::parse_labels(&ascii)
    }

    /// Parses lowercase ASCII without a trailing dot.
    fn parse_labels(text: &str) -> Result<Self, DomainFault> {
        if text == TLD {
            return Err(DomainFault::TldAlone);
        }
        let Some((sld, tld)) = text.rsplit_once('.') else { return Err(DomainFault::NoTld) };
        if tld != TLD {
            return Err(DomainFault::OtherTld);
        }
        if sld.is_empty() {
            return Err(DomainFault::EmptyLabel);
        }
        if sld.contains('.') {
            return Err(DomainFault::SubName);
        }
        if sld.len() > MAX_LABEL_BYTES {
            return Err(DomainFault::LabelTooLong);
        }
        let ldh = sld.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if !ldh || sld.starts_with('-') || sld.ends_with('-') {
            return Err(DomainFault::NotLdh);
        }
        if sld.starts_with("xn--") && !is_a_label(sld) {
            return Err(DomainFault::BadALabel);
        }
        Ok(Self { text: text.to_owned() })
    }

    /// The name, such as `exampleagent.agt`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The label before `.agt`.
    pub fn sld(&self) -> &str {
        self.text.strip_suffix(".agt").unwrap_or(&self.text)
    }

    /// The Unicode form of an `xn--` label for display, or `None` if the name has none. Untrusted text.
    pub fn unicode(&self) -> Option<String> {
        let (shown, result) = Uts46::new().to_unicode(self.text.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast);
        (result.is_ok() && shown != self.text).then(|| shown.into_owned())
    }

    /// The token of this name in the Freename registry (.agt 1.0 §4 Verification, step 6).
    pub fn token_id(&self) -> U256 {
        fns_token_id(TLD, self.sld())
    }
}

impl fmt::Display for AgtDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for AgtDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgtDomain({})", self.text)
    }
}

/// Returns the token id of a second-level Freename name: keccak256 of the bytes of the top-level label (unhashed, without a dot) followed
/// by the 32 bytes of keccak256 of the second-level label.
///
/// The labels are hashed as they are. `sld` must be an A-label in lower case.
pub(crate) fn fns_token_id(tld: &str, sld: &str) -> U256 {
    let mut preimage = Vec::with_capacity(tld.len() + 32);
    preimage.extend_from_slice(tld.as_bytes());
    preimage.extend_from_slice(keccak256(sld).as_slice());
    U256::from_be_bytes(keccak256(preimage).0)
}

/// Why a text is not a canonical `.agt` name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DomainFault {
    /// There is no dot, and the text is not `agt` either.
    NoTld,
    /// The text is the top-level name itself.
    TldAlone,
    /// The name is under another top-level name.
    OtherTld,
    /// The label before `.agt` is empty.
    EmptyLabel,
    /// The name has more than two labels; subdomains are not tokens.
    SubName,
    /// The label has more than [`MAX_LABEL_BYTES`].
    LabelTooLong,
    /// The label has characters other than letters, digits and inner hyphens.
    NotLdh,
    /// An `xn--` label that is not the encoding of any Unicode label.
    BadALabel,
    /// Upper case letters.
    UpperCase {
        /// The canonical spelling.
        canonical: Option<AgtDomain>,
    },
    /// A dot at the end.
    TrailingDot {
        /// The canonical spelling.
        canonical: Option<AgtDomain>,
    },
    /// Unicode instead of an `xn--` label.
    Unicode {
        /// The canonical spelling.
        canonical: Option<AgtDomain>,
    },
}

impl DomainFault {
    /// One sentence that says what is wrong.
    pub const fn described(&self) -> &'static str {
        match self {
            Self::NoTld => "the name does not end in .agt",
            Self::TldAlone => "`agt` is the top-level domain, not the name of an agent",
            Self::OtherTld => "the top-level domain of the name is not agt",
            Self::EmptyLabel => "there is no label before .agt",
            Self::SubName => "a name has exactly two labels; subdomains are not tokens",
            Self::LabelTooLong => "the label is longer than 63 bytes",
            Self::NotLdh => "a label has letters, digits and inner hyphens only",
            Self::BadALabel => "the xn-- label is not the encoding of any valid Unicode label",
            Self::UpperCase { .. } => "the name has upper-case letters, which give another token id",
            Self::TrailingDot { .. } => "the name ends with a dot",
            Self::Unicode { .. } => "the name is Unicode text instead of its xn-- form",
        }
    }

    /// Returns the canonical spelling if the text has one.
    pub const fn canonical(&self) -> Option<&AgtDomain> {
        match self {
            Self::UpperCase { canonical } | Self::TrailingDot { canonical } | Self::Unicode { canonical } => canonical.as_ref(),
            _ => None,
        }
    }
}

impl fmt::Display for DomainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.described())
    }
}

impl std::error::Error for DomainFault {}

/// Whether `label` decodes to valid Unicode and encodes back to itself. Punycode that decodes to plain ASCII, to
/// unnormalised text or to forbidden characters does not.
fn is_a_label(label: &str) -> bool {
    let uts46 = Uts46::new();
    let (unicode, result) = uts46.to_unicode(label.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast);
    result.is_ok()
        && !unicode.is_ascii()
        && uts46
            .to_ascii(unicode.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Ignore)
            .is_ok_and(|again| again == label)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn fault(text: &str) -> DomainFault {
        AgtDomain::parse(text).expect_err(text)
    }

    // req: AGT-019
    #[test]
    fn token_ids_of_the_published_and_the_computed_vectors() {
        #[track_caller]
        fn check(found: U256, expected: &str) {
            assert_eq!(found.to_string(), expected);
        }
        // Published by Freename for a name of another top-level domain.
        check(
            fns_token_id("metaverse", "cederico"),
            "27852860280769187492768842851433555806350745604062440243777647496936527137670",
        );
        for (name, expected) in [
            ("exampleagent.agt", "59540150336142667550544583641889160517462524862920549582472908425897536620834"),
            ("xn--mnchen-3ya.agt", "89280804892768925150258487288589654136470074653742461005392188744856773792171"),
            ("xn--yp9h.agt", "5304549178477208015633656963312705424870691662300923985802385045751406050960"),
        ] {
            check(AgtDomain::parse(name).expect(name).token_id(), expected);
        }
        assert_eq!(
            format!("{:#x}", fns_token_id("agt", "exampleagent")),
            "0x83a287e66590d5365701d1345f59a53cc04197e83a2cde96935cf2b6b48f8922"
        );
        assert_ne!(fns_token_id("agt", "ExampleAgent"), fns_token_id("agt", "exampleagent"), "nothing is lowercased");
        assert_ne!(fns_token_id(".agt", "exampleagent"), fns_token_id("agt", "exampleagent"), "there is no dot");
    }

    // req: AGT-005
    #[test]
    fn only_the_canonical_spelling_is_a_name() {
        use DomainFault::*;
        for name in ["a.agt", "exampleagent.agt", "my-agent-2.agt", "3d.agt", "a--b.agt", "xn--yp9h.agt", "agt.agt"] {
            assert_eq!(AgtDomain::parse(name).expect(name).as_str(), name);
        }
        for (text, expected) in [
            ("", NoTld),
            ("exampleagent", NoTld),
            ("agt", TldAlone),
            (".agt", EmptyLabel),
            ("example.com", OtherTld),
            ("example.agt.com", OtherTld),
            ("exampleagent.xagt", OtherTld),
            ("a.b.agt", SubName),
            (".b.agt", SubName),
            ("a..agt", SubName),
            ("my_agent.agt", NotLdh),
            ("-a.agt", NotLdh),
            ("a-.agt", NotLdh),
            ("a b.agt", NotLdh),
            (" a.agt", NotLdh),
            ("a\0.agt", NotLdh),
            ("https://a.agt", NotLdh),
            (".", OtherTld),
            ("xn--.agt", NotLdh),
            ("xn--zzzzzzz-.agt", NotLdh),
            ("xn--abc.agt", BadALabel),
            ("xn--99999999.agt", BadALabel),
        ] {
            assert_eq!(fault(text), expected, "{text:?}");
        }
        let label = |bytes| format!("{}.agt", "a".repeat(bytes));
        assert!(AgtDomain::parse(&label(MAX_LABEL_BYTES)).is_ok());
        assert_eq!(fault(&label(MAX_LABEL_BYTES + 1)), LabelTooLong);
        assert_eq!(fault(&label(1_000_000)), LabelTooLong);
    }

    // req: AGT-005
    #[test]
    fn other_spellings_say_the_canonical_one() {
        for (text, canonical) in [
            ("EXAMPLEAGENT.AGT", Some("exampleagent.agt")),
            ("exampleagent.agt.", Some("exampleagent.agt")),
            ("München.agt", Some("xn--mnchen-3ya.agt")),
            ("münchen.agt", Some("xn--mnchen-3ya.agt")),
            ("mu\u{308}nchen.agt", Some("xn--mnchen-3ya.agt")),
            ("🤖.agt", Some("xn--yp9h.agt")),
            ("ｅxample.agt", Some("example.agt")),
            ("A.B.AGT", None),
            ("a.b.agt.", None),
            ("\u{202e}x.agt", None),
        ] {
            let fault = fault(text);
            assert_eq!(fault.canonical().map(AgtDomain::as_str), canonical, "{text:?}: {fault}");
            assert_eq!(AgtDomain::from_input(text).ok().as_ref(), fault.canonical(), "{text:?}");
        }
        assert_eq!(AgtDomain::parse("xn--mnchen-3ya.agt").expect("valid").unicode().as_deref(), Some("münchen.agt"));
        assert_eq!(AgtDomain::parse("munchen.agt").expect("valid").unicode(), None);
        assert_eq!(AgtDomain::from_input("a.b.agt"), Err(DomainFault::SubName));
        assert_eq!(AgtDomain::from_input("agt"), Err(DomainFault::TldAlone));
    }

    proptest! {
        #[test]
        fn what_is_accepted_is_canonical(text in "\\PC{0,20}|[A-Za-z0-9.-]{0,12}\\.agt\\.?|xn--[a-z0-9-]{0,12}\\.agt") {
            if let Ok(domain) = AgtDomain::parse(&text) {
                prop_assert_eq!(domain.as_str(), &text);
                prop_assert_eq!(format!("{}.agt", domain.sld()), &*text);
                prop_assert_eq!(AgtDomain::from_input(&text), Ok(domain));
            }
            if let Ok(domain) = AgtDomain::from_input(&text) {
                let again = AgtDomain::parse(domain.as_str());
                prop_assert_eq!(again, Ok(domain));
            }
        }
    }
}
