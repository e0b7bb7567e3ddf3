//! The URL grammar: one pass over the bytes that records every fault and the positions of the parts.
//!
//! It is RFC 3986 restricted to what all readers agree on. General-purpose parsers silently decode, fold, drop or convert text; ERC-8257 §6
//! compares bytes, so anything they would change is a fault here.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use super::ip;
use crate::finding::Span;

/// Longest label of a host name: RFC 1035 §2.3.4.
pub const MAX_LABEL_BYTES: usize = 63;

/// Longest host name as text: the 255 octets of RFC 1035 §2.3.4, minus the first length and the root.
pub const MAX_HOST_BYTES: usize = 253;

/// A violation of the URL grammar and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UrlError {
    /// The kind of violation.
    pub kind: FaultKind,
    /// The affected bytes of the text.
    pub span: Span,
}

/// The kinds of violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// The text is empty.
    Empty,
    /// No scheme: a relative reference or a bare host.
    NoScheme,
    /// A scheme other than `https`.
    NotHttps,
    /// No `//` after the scheme.
    NoAuthority,
    /// The host is empty.
    EmptyHost,
    /// There is a user name or a password before the host.
    UserInfo,
    /// The host has characters outside ASCII.
    HostNotAscii,
    /// The host has a percent sign.
    HostPercent,
    /// The host has a character other than letters, digits, hyphens, dots and underscores.
    HostCharacter,
    /// The host has an underscore, which DNS allows and host names do not.
    HostUnderscore,
    /// Two dots in a row, or a dot at the start of the host.
    EmptyLabel,
    /// A dot at the end of the host.
    TrailingDot,
    /// A part of the host is longer than [`MAX_LABEL_BYTES`].
    LabelTooLong,
    /// A part of the host starts or ends with a hyphen.
    LabelHyphen,
    /// The host is longer than [`MAX_HOST_BYTES`].
    HostTooLong,
    /// An `xn--` part that is not valid Punycode of a valid label.
    InvalidPunycode,
    /// The host ends in a number but is not an IPv4 address.
    NumericTopLabel,
    /// An IPv4 address in another form than four plain decimals.
    Ipv4NotCanonical,
    /// Brackets without an IPv6 address, or an IPv6 address without brackets.
    Ipv6Invalid,
    /// An IPv6 address that is not in the form of RFC 5952.
    Ipv6NotCanonical,
    /// An IP address outside the public internet.
    NonPublicAddress,
    /// A colon without a port.
    PortEmpty,
    /// A port with something other than digits.
    PortNotANumber,
    /// A port with a leading zero.
    PortLeadingZero,
    /// Port 0.
    PortZero,
    /// A port above 65535.
    PortTooLarge,
    /// A space, tab or line break.
    Whitespace,
    /// A control character.
    Control,
    /// A backslash.
    Backslash,
    /// Braces or angle brackets: an unfilled template.
    Template,
    /// A character outside ASCII, after the host.
    NonAscii,
    /// A percent sign without two hexadecimal digits.
    PercentTriplet,
    /// A character that RFC 3986 does not allow here.
    Character,
    /// A `.` or `..` segment, or an encoded form of one.
    DotSegment,
    /// The scheme has upper-case letters.
    SchemeUpperCase,
    /// The host has upper-case letters.
    HostUpperCase,
    /// Port 443 is explicit.
    DefaultPort,
    /// An apostrophe in the query, which browsers encode.
    QueryApostrophe,
}

/// Who must reject a kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Producers and consumers must reject it.
    Hard,
    /// Consumers fix it by rules G1 and G2; producers must fix it before publishing.
    Normalisation,
    /// It does not break the rules of ERC-8257 for an endpoint, but clients differ in what they send; producers must avoid it.
    Encoding,
}

impl FaultKind {
    /// Who must reject this kind of fault.
    pub const fn level(self) -> Level {
        match self {
            Self::SchemeUpperCase | Self::HostUpperCase | Self::DefaultPort => Level::Normalisation,
            Self::HostUnderscore | Self::PercentTriplet | Self::DotSegment | Self::QueryApostrophe => Level::Encoding,
            _ => Level::Hard,
        }
    }
}

/// The faults of one text: each kind once, at its first occurrence. A hostile text cannot make this grow.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) list: Vec<UrlError>,
    seen: u64,
    pub(super) hard: Option<UrlError>,
}

impl Faults {
    fn note(&mut self, kind: FaultKind, span: Range<usize>) {
        let bit = 1 << kind as u32;
        if self.seen & bit == 0 {
            self.seen |= bit;
            let fault = UrlError { kind, span: Span::new(span.start, span.end) };
            self.list.push(fault);
            if self.hard.is_none() && kind.level() == Level::Hard {
                self.hard = Some(fault);
            }
        }
    }
}

/// The positions of the parts of a URL in the scanned text.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) host: Range<usize>,
    pub(super) port: Option<u16>,
    /// The position of the path, or of what follows an empty one.
    pub(super) rest: usize,
    /// The position of `?`.
    pub(super) query: Option<usize>,
    /// The position of `#`.
    pub(super) fragment: Option<usize>,
}

/// Scans a text. `None` if it has no host; otherwise the parts are correct if no fault is hard.
pub(super) fn scan(text: &str, faults: &mut Faults) -> Option<Parts> {
    let bytes = text.as_bytes();
    // Some parsers trim the text before the scheme. This scanner skips it only to report further faults.
    let start = bytes.iter().take_while(|&&b| b <= b' ').count();
    if start > 0 {
        let kind = if bytes[..start].iter().all(u8::is_ascii_whitespace) { FaultKind::Whitespace } else { FaultKind::Control };
        faults.note(kind, 0..start);
    }
    if start == bytes.len() {
        faults.note(FaultKind::Empty, 0..bytes.len());
        return None;
    }
    let authority = scheme(bytes, start, faults)?;
    let end =
        bytes[authority..].iter().position(|b| matches!(b, b'/' | b'?' | b'#' | b'\\')).map_or(bytes.len(), |n| authority + n);
    let after_user = bytes[authority..end].iter().rposition(|&b| b == b'@').map_or(authority, |n| authority + n + 1);
    if after_user > authority {
        faults.note(FaultKind::UserInfo, authority..after_user);
    }
    let (host, port) = host_and_port(text, after_user..end, faults);
    let (query, fragment) = rest(text, end, faults);
    Some(Parts { host, port, rest: end, query, fragment })
}

/// Checks the scheme at `start` and returns the position after `//`.
fn scheme(bytes: &[u8], start: usize, faults: &mut Faults) -> Option<usize> {
    if bytes[start..].starts_with(b"https://") {
        return Some(start + 8);
    }
    let length = bytes[start..].iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')).count();
    let end = start + length;
    if bytes.get(end) != Some(&b':') || !bytes[start].is_ascii_alphabetic() || looks_like_port(&bytes[end + 1..]) {
        faults.note(FaultKind::NoScheme, start..start.max(end));
        return None;
    }
    let name = &bytes[start..end];
    let https = name.eq_ignore_ascii_case(b"https");
    if !https {
        faults.note(FaultKind::NotHttps, start..end);
    } else if name != b"https" {
        faults.note(FaultKind::SchemeUpperCase, start..end);
    }
    if bytes[end + 1..].starts_with(b"//") {
        // For plain http a host follows too and is worth checking; other schemes have their own rules.
        return (https || name.eq_ignore_ascii_case(b"http")).then_some(end + 3);
    }
    if https {
        // The colon and the slash after it, if any. Any other character may follow.
        let slashes = bytes[end + 1..].iter().take(2).take_while(|byte| matches!(byte, b'/' | b'\\')).count();
        faults.note(FaultKind::NoAuthority, end..end + 1 + slashes);
    }
    None
}

/// Whether `host:` is followed by what looks like a port, so that the "scheme" was a host.
fn looks_like_port(after: &[u8]) -> bool {
    let digits = after.iter().take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && matches!(after.get(digits), None | Some(b'/' | b'?' | b'#'))
}

/// Checks `host[:port]`.
fn host_and_port(text: &str, at: Range<usize>, faults: &mut Faults) -> (Range<usize>, Option<u16>) {
    let bytes = &text.as_bytes()[at.clone()];
    let split = if bytes.first() == Some(&b'[') {
        let Some(close) = bytes.iter().position(|&b| b == b']') else {
            faults.note(FaultKind::Ipv6Invalid, at.clone());
            return (at, None);
        };
        close + 1
    } else {
        let first = bytes.iter().position(|&b| b == b':').unwrap_or(bytes.len());
        if bytes.iter().filter(|&&b| b == b':').count() > 1
            && bytes.iter().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'))
        {
            faults.note(FaultKind::Ipv6Invalid, at.clone());
            return (at, None);
        }
        first
    };
    let host = at.start..at.start + split;
    let port = match &bytes[split..] {
        [] => None,
        [b':', digits @ ..] => port(digits, host.end..at.end, faults),
        _ => {
            faults.note(FaultKind::HostCharacter, host.end..at.end);
            None
        }
    };
    if bytes.first() == Some(&b'[') {
        ipv6(text, host.clone(), faults)
    } else {
        name(text, host.clone(), faults)
    }
    (host, port)
}

/// Checks a port; `span` includes the colon.
fn port(digits: &[u8], span: Range<usize>, faults: &mut Faults) -> Option<u16> {
    let kind = match digits {
        [] => FaultKind::PortEmpty,
        _ if !digits.iter().all(u8::is_ascii_digit) => FaultKind::PortNotANumber,
        [b'0'] => FaultKind::PortZero,
        [b'0', ..] => FaultKind::PortLeadingZero,
        _ => {
            let value = digits.iter().try_fold(0_u16, |value, digit| value.checked_mul(10)?.checked_add(u16::from(digit - b'0')));
            match value {
                None => FaultKind::PortTooLarge,
                Some(443) => {
                    faults.note(FaultKind::DefaultPort, span);
                    return None;
                }
                value => return value,
            }
        }
    };
    faults.note(kind, span);
    None
}

fn ipv6(text: &str, span: Range<usize>, faults: &mut Faults) {
    let inner = &text[span.start + 1..span.end - 1];
    if inner.contains('%') {
        faults.note(FaultKind::HostPercent, span);
        return;
    }
    let Ok(address) = inner.parse::<Ipv6Addr>() else {
        faults.note(FaultKind::Ipv6Invalid, span);
        return;
    };
    if inner.bytes().any(|b| b.is_ascii_uppercase()) {
        faults.note(FaultKind::HostUpperCase, span.clone());
    }
    // The standard library prints all public addresses in the form of RFC 5952.
    let mut canonical = Fixed::<45>::default();
    let printed = std::fmt::Write::write_fmt(&mut canonical, format_args!("{address}")).is_ok();
    if !printed || !canonical.as_bytes().eq_ignore_ascii_case(inner.as_bytes()) {
        faults.note(FaultKind::Ipv6NotCanonical, span.clone());
    }
    if !ip::is_public(address.into()) {
        faults.note(FaultKind::NonPublicAddress, span);
    }
}

/// Checks a host name or an IPv4 address.
fn name(text: &str, span: Range<usize>, faults: &mut Faults) {
    let bytes = &text.as_bytes()[span.clone()];
    if bytes.is_empty() {
        faults.note(FaultKind::EmptyHost, span);
        return;
    }
    let before = faults.list.len();
    let (mut upper, mut punycode, mut label) = (false, false, 0);
    for (i, &b) in bytes.iter().enumerate() {
        let at = span.start + i;
        match b {
            b'a'..=b'z' | b'0'..=b'9' => {}
            b'A'..=b'Z' => upper = true,
            b'-' => {
                // A hyphen at the start or end of a label; other hyphens are between two other bytes.
                if i == label || matches!(bytes.get(i + 1), None | Some(b'.')) {
                    faults.note(FaultKind::LabelHyphen, at..at + 1);
                }
                punycode |= i == label + 3 && bytes[label..i].eq_ignore_ascii_case(b"xn-");
            }
            b'.' => {
                if i == label {
                    faults.note(FaultKind::EmptyLabel, at..at + 1);
                } else if i + 1 == bytes.len() {
                    faults.note(FaultKind::TrailingDot, at..at + 1);
                }
                if i - label > MAX_LABEL_BYTES {
                    faults.note(FaultKind::LabelTooLong, span.start + label..at);
                }
                label = i + 1;
            }
            0x80.. => faults.note(FaultKind::HostNotAscii, span.clone()),
            b'%' => faults.note(FaultKind::HostPercent, at..at + 1),
            b'_' => faults.note(FaultKind::HostUnderscore, at..at + 1),
            _ => match misfit(b) {
                FaultKind::Character => faults.note(FaultKind::HostCharacter, at..at + 1),
                FaultKind::Template => faults.note(FaultKind::Template, template(text, at)),
                kind => faults.note(kind, at..at + 1),
            },
        }
    }
    if bytes.len() - label > MAX_LABEL_BYTES {
        faults.note(FaultKind::LabelTooLong, span.start + label..span.end);
    }
    if bytes.len() > MAX_HOST_BYTES {
        faults.note(FaultKind::HostTooLong, span.clone());
    }
    if upper {
        faults.note(FaultKind::HostUpperCase, span.clone());
    }
    let well_formed = faults.list[before..].iter().all(|fault| fault.kind.level() != Level::Hard);
    let host = &text[span.clone()];
    if is_ipv4_number(&bytes[label..]) {
        match host.parse::<Ipv4Addr>() {
            Ok(address) if !ip::is_public(address.into()) => faults.note(FaultKind::NonPublicAddress, span),
            Ok(_) => {}
            Err(_) if bytes.split(|&b| b == b'.').all(is_ipv4_number) => faults.note(FaultKind::Ipv4NotCanonical, span),
            Err(_) => faults.note(FaultKind::NumericTopLabel, span.start + label..span.end),
        }
    } else if punycode && well_formed {
        // The lengths were checked above, so the decoder has little to do.
        let valid = idna::domain_to_ascii_cow(host.as_bytes(), idna::AsciiDenyList::URL);
        if !valid.is_ok_and(|ascii| ascii.eq_ignore_ascii_case(host)) {
            faults.note(FaultKind::InvalidPunycode, span);
        }
    }
}

/// Whether WHATWG URL parses a label as a number of an IPv4 address: decimal, octal or hexadecimal.
fn is_ipv4_number(label: &[u8]) -> bool {
    match label {
        [b'0', b'x' | b'X', hex @ ..] => hex.iter().all(u8::is_ascii_hexdigit),
        [] => false,
        _ => label.iter().all(u8::is_ascii_digit),
    }
}

/// Checks path, query and fragment from `start`; returns the positions of `?` and `#`.
pub(super) fn rest(text: &str, start: usize, faults: &mut Faults) -> (Option<usize>, Option<usize>) {
    let bytes = text.as_bytes();
    let (mut query, mut fragment) = (None, None);
    let mut segment = start + 1;
    let mut i = start;
    while i < bytes.len() {
        let b = bytes[i];
        match CLASS[b as usize] {
            Class::Plain => {}
            Class::Slash => {
                if query.is_none() && fragment.is_none() {
                    dot_segment(bytes, segment..i, faults);
                    segment = i + 1;
                }
            }
            Class::Question => {
                if query.is_none() && fragment.is_none() {
                    dot_segment(bytes, segment..i, faults);
                    query = Some(i);
                }
            }
            Class::Hash => {
                if fragment.is_some() {
                    faults.note(FaultKind::Character, i..i + 1);
                } else {
                    if query.is_none() {
                        dot_segment(bytes, segment..i, faults);
                    }
                    fragment = Some(i);
                }
            }
            Class::Percent => {
                if !bytes.get(i + 1..i + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) {
                    faults.note(FaultKind::PercentTriplet, i..i + 1);
                }
            }
            Class::Apostrophe => {
                if query.is_some() && fragment.is_none() {
                    faults.note(FaultKind::QueryApostrophe, i..i + 1);
                }
            }
            Class::Refused => {
                let span = match misfit(b) {
                    FaultKind::Template => template(text, i),
                    FaultKind::NonAscii => i..i + text.get(i..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8),
                    _ => i..i + 1,
                };
                faults.note(misfit(b), span);
            }
        }
        i += 1;
    }
    if query.is_none() && fragment.is_none() {
        dot_segment(bytes, segment..bytes.len(), faults);
    }
    (query, fragment)
}

fn dot_segment(bytes: &[u8], segment: Range<usize>, faults: &mut Faults) {
    const FORMS: [&[u8]; 6] = [b".", b"..", b"%2e", b".%2e", b"%2e.", b"%2e%2e"];
    let Some(text) = bytes.get(segment.clone()) else { return };
    if matches!(text.first(), Some(b'.' | b'%')) && FORMS.iter().any(|form| form.eq_ignore_ascii_case(text)) {
        faults.note(FaultKind::DotSegment, segment);
    }
}

/// The fault for a byte that is not valid anywhere.
const fn misfit(b: u8) -> FaultKind {
    match b {
        b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C => FaultKind::Whitespace,
        0..=0x1F | 0x7F => FaultKind::Control,
        b'\\' => FaultKind::Backslash,
        b'{' | b'}' | b'<' | b'>' => FaultKind::Template,
        0x80.. => FaultKind::NonAscii,
        _ => FaultKind::Character,
    }
}

/// The span of a placeholder that opens (or closes) at `at`.
fn template(text: &str, at: usize) -> Range<usize> {
    /// Longest placeholder that is marked completely.
    const MAX: usize = 64;
    let bytes = text.as_bytes();
    let close = match bytes[at] {
        b'{' => b'}',
        b'<' => b'>',
        _ => return at..at + 1,
    };
    let from = if at > 0 && bytes[at - 1] == b'$' { at - 1 } else { at };
    let end = bytes[at..].iter().take(MAX).position(|&b| b == close).map_or(at + 1, |n| at + n + 1);
    from..end
}

#[derive(Clone, Copy)]
enum Class {
    /// Allowed in path, query and fragment.
    Plain,
    Slash,
    Question,
    Hash,
    Percent,
    Apostrophe,
    Refused,
}

/// RFC 3986 §3.3 to §3.5.
const CLASS: [Class; 256] = {
    let mut table = [Class::Refused; 256];
    let plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&()*+,;=:@";
    let mut i = 0;
    while i < plain.len() {
        table[plain[i] as usize] = Class::Plain;
        i += 1;
    }
    table[b'/' as usize] = Class::Slash;
    table[b'?' as usize] = Class::Question;
    table[b'#' as usize] = Class::Hash;
    table[b'%' as usize] = Class::Percent;
    table[b'\'' as usize] = Class::Apostrophe;
    table
};

/// A buffer on the stack for short ASCII text.
struct Fixed<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Default for Fixed<N> {
    fn default() -> Self {
        Self { bytes: [0; N], length: 0 }
    }
}

impl<const N: usize> Fixed<N> {
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl<const N: usize> std::fmt::Write for Fixed<N> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let free = self.bytes.get_mut(self.length..self.length + text.len()).ok_or(std::fmt::Error)?;
        free.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}
