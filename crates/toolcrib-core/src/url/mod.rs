//! HTTPS URLs: a strict ASCII grammar.
//!
//! ERC-8257 compares URLs byte by byte after three small rules (§6, G1 to G3), so nothing may be decoded, folded or converted. [`HttpsUrl`]
//! accepts only text that every careful reader parses in the same way: in producer mode an accepted text is one that WHATWG parsers print
//! unchanged. Nothing here resolves a name or opens a connection.
//!
//! - [`display`]: how a host is displayed, and which hosts look alike.
//! - [`ip`]: which addresses are public.
//! - [`well_known`]: metadata URIs, slugs and origin binding (check 2).
//! - [`image`]: what a page may do with an image or link.

pub mod display;
mod grammar;
pub mod image;
pub mod ip;
mod lint;
pub mod well_known;

use std::fmt;
use std::net::IpAddr;

pub use display::{HostDisplay, confusable_with, display_host};
pub use grammar::{FaultKind, Level, MAX_HOST_BYTES, MAX_LABEL_BYTES, UrlError};
use grammar::{Faults, Parts};

use crate::checked::Context;
use crate::codes::{self, Code};
use crate::finding::{Edit, Finding, Fix, Severity, Span};
use crate::json::Value;

/// Longest metadata URI and image URL in bytes, after normalisation: ERC-8257 §2 Optional Fields and Metadata URI
/// Length Cap.
pub const MAX_URL_BYTES: usize = 2_048;

/// The default port of `https`.
pub const DEFAULT_PORT: u16 = 443;

const PREFIX: &str = "https://";

/// An `https` URL that follows the strict grammar, normalised by rules G1 and G2 (G3 is part of the grammar).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpsUrl {
    normalized: String,
    host_end: usize,
    port: Option<u16>,
    path: usize,
    query: Option<usize>,
    fragment: Option<usize>,
}

impl HttpsUrl {
    /// Parses a URL as a consumer: upper case in scheme and host and port 443 are normalised.
    ///
    /// ```
    /// use toolcrib_core::url::HttpsUrl;
    ///
    /// let url = HttpsUrl::parse("HTTPS://Tools.Example.com:443/Api?q=1").unwrap();
    /// assert_eq!(url.normalized(), "https://tools.example.com/Api?q=1");
    /// assert!(HttpsUrl::parse("https://bücher.example").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let mut faults = Faults::default();
        let parts = grammar::scan(text, &mut faults);
        match (faults.hard, parts) {
            (None, Some(parts)) => Ok(Self::build(text, &parts)),
            (Some(fault), _) => Err(fault),
            // The scanner records a hard fault whenever it returns no parts.
            (None, None) => Err(UrlError { kind: FaultKind::Empty, span: Span::new(0, text.len()) }),
        }
    }

    /// Parses a URL as a producer: the text must already be normalised.
    pub fn parse_exact(text: &str) -> Result<Self, UrlError> {
        let mut faults = Faults::default();
        let parts = grammar::scan(text, &mut faults);
        match (faults.hard.or_else(|| faults.list.first().copied()), parts) {
            (None, Some(parts)) => Ok(Self::build(text, &parts)),
            (Some(fault), _) => Err(fault),
            (None, None) => Err(UrlError { kind: FaultKind::Empty, span: Span::new(0, text.len()) }),
        }
    }

    /// All faults of a text, in the order found, each kind once.
    pub fn faults(text: &str) -> Vec<UrlError> {
        let mut faults = Faults::default();
        grammar::scan(text, &mut faults);
        faults.list
    }

    fn build(text: &str, parts: &Parts) -> Self {
        let mut normalized = String::with_capacity(text.len());
        normalized.push_str(PREFIX);
        normalized.push_str(&text[parts.host.clone()]);
        normalized.make_ascii_lowercase();
        let host_end = normalized.len();
        if let Some(port) = parts.port {
            // Writing to a string cannot fail.
            let _ = fmt::Write::write_fmt(&mut normalized, format_args!(":{port}"));
        }
        let path = normalized.len();
        normalized.push_str(&text[parts.rest..]);
        let moved = |at: usize| at - parts.rest + path;
        Self { host_end, port: parts.port, path, query: parts.query.map(moved), fragment: parts.fragment.map(moved), normalized }
    }

    /// The URL with scheme and host in lower case and without port 443. Otherwise unchanged.
    pub fn normalized(&self) -> &str {
        &self.normalized
    }

    /// The host in lower case; IPv6 addresses are in brackets.
    pub fn host(&self) -> &str {
        &self.normalized[PREFIX.len()..self.host_end]
    }

    /// The host as an address, if it is one.
    pub fn host_ip(&self) -> Option<IpAddr> {
        let host = self.host();
        match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => inner.parse().ok().map(IpAddr::V6),
            None => host.parse().ok().map(IpAddr::V4),
        }
    }

    /// The port that a connection uses.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(DEFAULT_PORT)
    }

    /// The port, unless it is 443.
    pub const fn explicit_port(&self) -> Option<u16> {
        self.port
    }

    /// The path, as written; may be empty.
    pub fn path(&self) -> &str {
        &self.normalized[self.path..self.query.or(self.fragment).unwrap_or(self.normalized.len())]
    }

    /// The text after `?`, which may be empty.
    pub fn query(&self) -> Option<&str> {
        self.query.map(|at| &self.normalized[at + 1..self.fragment.unwrap_or(self.normalized.len())])
    }

    /// The text after `#`, which may be empty.
    pub fn fragment(&self) -> Option<&str> {
        self.fragment.map(|at| &self.normalized[at + 1..])
    }

    /// The origin: scheme, host and port.
    pub fn origin(&self) -> Origin {
        Origin { host: self.host().to_owned(), port: self.port() }
    }

    /// Findings about the URL although it is legal: temporary, preview, reserved, placeholder and lookalike hosts, unfilled parameters,
    /// shell commands. For URLs outside a document, such as those onchain.
    pub fn lints(&self) -> Vec<Finding> {
        lint::findings(self).collect()
    }

    /// Whether both URLs have the same origin.
    pub fn same_origin(&self, other: &Self) -> bool {
        self.host() == other.host() && self.port() == other.port()
    }
}

impl fmt::Display for HttpsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.normalized)
    }
}

impl AsRef<str> for HttpsUrl {
    fn as_ref(&self) -> &str {
        &self.normalized
    }
}

/// An origin as RFC 6454 defines it. The scheme is always `https`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    host: String,
    port: u16,
}

impl Origin {
    /// Parses an origin: an `https` URL with nothing after host and port.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let url = HttpsUrl::parse(text)?;
        let extra = url.normalized.len() - url.path;
        if extra > 0 {
            return Err(UrlError { kind: FaultKind::Character, span: Span::new(text.len() - extra, text.len()) });
        }
        Ok(url.origin())
    }

    /// The host in lower case; IPv6 addresses are in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.host)?;
        if self.port == DEFAULT_PORT { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

/// Checks a URL field and reports all faults and lints. `None` if it is not usable.
///
/// Producers get errors for what readers normalise or accept: see [`Level`].
pub fn check(value: Value<'_>, text: &str, context: &mut Context) -> Option<HttpsUrl> {
    let mut faults = Faults::default();
    let parts = grammar::scan(text, &mut faults);
    let url = parts.filter(|_| faults.hard.is_none()).map(|parts| HttpsUrl::build(text, &parts));
    let mut replaced_whole = false;
    for fault in &faults.list {
        let severity = match fault.kind.level() {
            Level::Hard => Severity::Error,
            Level::Normalisation | Level::Encoding => context.mode.strict(Severity::Warning),
        };
        let mut finding = context.place(fault.finding(text), value).severity(severity);
        let place = inside(value, text, fault.span);
        if let Some(span) = place {
            finding = finding.at_span(span);
        }
        if let Some(fix) = fix(value, text, *fault, url.as_ref()).filter(|_| place.is_some() || !replaced_whole) {
            replaced_whole |= place.is_none();
            finding = finding.fix(fix);
        }
        context.report(finding);
    }
    let url = url?;
    for finding in lint::findings(&url) {
        // A draft has example hosts in every URL. Reporting it once suffices.
        let is_said = finding.code == codes::url::EXAMPLE_HOST
            && context.findings.as_slice().iter().any(|other| other.code == codes::url::EXAMPLE_HOST);
        if !is_said {
            context.report(context.place(finding, value));
        }
    }
    Some(url)
}

/// Reports [`codes::url::TOO_LONG`] if a normalised URL has more than [`MAX_URL_BYTES`] bytes.
pub fn check_length(value: Value<'_>, normalized: &str, context: &mut Context) {
    if normalized.len() > MAX_URL_BYTES {
        context.report(
            Finding::new(codes::url::TOO_LONG)
                .at(value)
                .expected(format!("at most {MAX_URL_BYTES} bytes after normalisation"))
                .got(format!("{} bytes", normalized.len())),
        );
    }
}

/// The ASCII form of a host in Unicode, for display and advice only. The longest host has 253 ASCII characters, and each character outside
/// ASCII takes up to four bytes here: longer text is not converted.
fn to_ascii(host: &str) -> Option<String> {
    if host.len() > MAX_HOST_BYTES * 4 {
        return None;
    }
    idna::domain_to_ascii_cow(host.as_bytes(), idna::AsciiDenyList::URL).ok().map(std::borrow::Cow::into_owned)
}

impl UrlError {
    /// The code of this fault.
    pub const fn code(&self) -> Code {
        self.kind.code()
    }

    /// Returns a finding about this fault of `text`. The finding has no position yet.
    pub fn finding(&self, text: &str) -> Finding {
        let finding = Finding::new(self.code());
        let part = text.get(self.span.start..self.span.end).unwrap_or(text);
        match self.kind {
            FaultKind::NotHttps => finding.expected("https").got(part),
            FaultKind::HostNotAscii => {
                let finding = finding.got(part);
                match to_ascii(part) {
                    Some(ascii) => finding.expected(ascii),
                    None => finding,
                }
            }
            FaultKind::NonPublicAddress => {
                let address = part.trim_matches(['[', ']']).parse::<IpAddr>().ok();
                let finding = finding.got(part);
                match address.and_then(ip::refused) {
                    Some(range) => {
                        finding.message(format!("the IP address is {} ({}, {})", range.name, range.network, range.reference))
                    }
                    None => finding,
                }
            }
            FaultKind::Ipv6NotCanonical => {
                let address = part.trim_matches(['[', ']']).parse::<std::net::Ipv6Addr>().ok();
                let finding = finding.got(part);
                match address {
                    Some(address) => finding.expected(format!("[{address}]")),
                    None => finding,
                }
            }
            FaultKind::SchemeUpperCase => finding.expected("https").got(part),
            FaultKind::HostUpperCase => finding.expected(part.to_ascii_lowercase()).got(part),
            FaultKind::Empty => finding,
            _ => finding.got(part),
        }
    }
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code().title())
    }
}

impl std::error::Error for UrlError {}

impl FaultKind {
    /// The code of this kind of fault.
    pub const fn code(self) -> Code {
        use codes::url as code;
        match self {
            Self::Empty => code::EMPTY,
            Self::NoScheme => code::NO_SCHEME,
            Self::NotHttps => code::NOT_HTTPS,
            Self::NoAuthority => code::NO_AUTHORITY,
            Self::EmptyHost => code::EMPTY_HOST,
            Self::UserInfo => code::USERINFO,
            Self::HostNotAscii => code::HOST_NOT_ASCII,
            Self::HostPercent => code::HOST_PERCENT,
            Self::HostCharacter => code::HOST_CHARACTER,
            Self::HostUnderscore => code::HOST_UNDERSCORE,
            Self::EmptyLabel => code::EMPTY_LABEL,
            Self::TrailingDot => code::TRAILING_DOT,
            Self::LabelTooLong => code::LABEL_TOO_LONG,
            Self::LabelHyphen => code::LABEL_HYPHEN,
            Self::HostTooLong => code::HOST_TOO_LONG,
            Self::InvalidPunycode => code::INVALID_PUNYCODE,
            Self::NumericTopLabel => code::NUMERIC_TOP_LABEL,
            Self::Ipv4NotCanonical => code::IPV4_NOT_CANONICAL,
            Self::Ipv6Invalid => code::IPV6_INVALID,
            Self::Ipv6NotCanonical => code::IPV6_NOT_CANONICAL,
            Self::NonPublicAddress => code::NON_PUBLIC_ADDRESS,
            Self::PortEmpty => code::PORT_EMPTY,
            Self::PortNotANumber => code::PORT_NOT_A_NUMBER,
            Self::PortLeadingZero => code::PORT_LEADING_ZERO,
            Self::PortZero => code::PORT_ZERO,
            Self::PortTooLarge => code::PORT_TOO_LARGE,
            Self::Whitespace => code::WHITESPACE,
            Self::Control => code::CONTROL,
            Self::Backslash => code::BACKSLASH,
            Self::Template => code::TEMPLATE,
            Self::NonAscii => code::NON_ASCII,
            Self::PercentTriplet => code::PERCENT_TRIPLET,
            Self::Character => code::CHARACTER,
            Self::DotSegment => code::DOT_SEGMENT,
            Self::SchemeUpperCase => code::SCHEME_UPPER_CASE,
            Self::HostUpperCase => code::HOST_UPPER_CASE,
            Self::DefaultPort => code::DEFAULT_PORT,
            Self::QueryApostrophe => code::QUERY_APOSTROPHE,
        }
    }
}

/// The span of a part of the text in the JSON source; `None` if the string has escapes, which shift the positions.
fn inside(value: Value<'_>, text: &str, part: Span) -> Option<Span> {
    let span = value.span();
    (span.end - span.start == text.len() + 2).then(|| Span::new(span.start + 1 + part.start, span.start + 1 + part.end))
}

/// The fix for a fault that consumers normalise. Each fix changes only its own part, so that all can be applied together; if the source has
/// escapes, the whole string is replaced, once.
fn fix(value: Value<'_>, text: &str, fault: UrlError, url: Option<&HttpsUrl>) -> Option<Fix> {
    let (title, replacement) = match fault.kind {
        FaultKind::SchemeUpperCase => ("lowercase the scheme", "https".to_owned()),
        FaultKind::HostUpperCase => ("lowercase the host", text.get(fault.span.start..fault.span.end)?.to_ascii_lowercase()),
        FaultKind::DefaultPort => ("remove the port", String::new()),
        _ => return None,
    };
    match inside(value, text, fault.span) {
        // Scheme, host and port are plain ASCII without quotes here, so the text needs no escaping.
        Some(span) if replacement.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\')) => {
            Some(Fix { title: title.to_owned(), edits: vec![Edit { span, replacement }] })
        }
        Some(_) => None,
        None => Some(Fix::replace_string(value, "normalise the URL", url?.normalized())),
    }
}

#[cfg(test)]
mod tests;
