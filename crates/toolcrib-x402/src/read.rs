//! The common parts of parsing both versions: the message, the offers, and the checks of each field.

use alloy_primitives::{Address, address};
use toolcrib_core::caip::ChainId;
use toolcrib_core::checked::Context;
use toolcrib_core::codes::{self, Code, x402 as code};
use toolcrib_core::finding::{Finding, Findings, Mode, Severity};
use toolcrib_core::hex::{self, Hex};
use toolcrib_core::json::{self, Array, Kind, Limits, Object, Value};
use toolcrib_core::money::{self, Amount};

use super::{
    ChainAddress, Challenge, EXACT, Extra, LONG_TIMEOUT_SECONDS, MAX_ADDRESS_CHARS, MAX_BODY_BYTES, MAX_OFFERS, Members, Offer,
    Raw, Reading, Version, asset, header, network, v1, v2,
};

/// Parses the body of a response, where version 1 belongs.
pub fn read_body(bytes: &[u8]) -> Reading {
    read(bytes, ChallengeSource::Body)
}

/// Parses the value of a `PAYMENT-REQUIRED` header, where version 2 belongs.
pub fn read_header(value: &str) -> Reading {
    let finding = match header::decode(value) {
        Ok(bytes) => return read(&bytes, ChallengeSource::Header),
        Err(header::HeaderError::TooLong) => Finding::new(code::HEADER_TOO_LONG)
            .expected(format!("at most {} bytes", header::MAX_BYTES))
            .got(format!("{} bytes", value.len())),
        Err(fault) => Finding::new(code::BASE64).message(fault.to_string()).got(value),
    };
    Reading { challenge: None, findings: vec![finding] }
}

/// Parses a challenge from JSON of a transport other than HTTP, such as the result of an MCP call, in the version of its `x402Version`.
pub fn read_json(bytes: &[u8]) -> Reading {
    read(bytes, ChallengeSource::Anywhere)
}

/// Parses offers of either version outside a challenge, each separately: those that lack an essential part are left out without a finding.
/// The network shows the version of an offer, because catalogues mix them.
pub(super) fn read_offers(list: Array<'_>) -> Vec<Offer> {
    let read = |element: Value<'_>| {
        let entry = element.as_object()?;
        let is_chain = entry.get("network")?.as_str()?.contains(':');
        let mut reader = Reader::new(&CHALLENGE);
        if is_chain { v2::read_offer(&mut reader, entry) } else { v1::read_offer(&mut reader, entry) }
    };
    list.iter().take(MAX_OFFERS).filter_map(read).collect()
}

/// The place of a challenge, which implies its version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChallengeSource {
    Body,
    Header,
    Anywhere,
}

fn read(bytes: &[u8], place: ChallengeSource) -> Reading {
    let limits = Limits { max_bytes: MAX_BODY_BYTES, max_depth: json::MAX_DEPTH };
    let read = json::read(bytes, limits);
    let mut reader = Reader::new(&CHALLENGE);
    reader.context.findings.extend(json_findings(read.findings, &CHALLENGE));
    let challenge = read.document.as_ref().and_then(|document| reader.root(document.root(), place));
    Reading { challenge, findings: reader.context.findings.into_sorted() }
}

/// The codes for problems of a message, specific to one kind of message.
pub(super) struct Words {
    pub(super) not_json: Code,
    pub(super) duplicate_key: Code,
    pub(super) too_large: Code,
    pub(super) too_deep: Code,
    pub(super) not_an_object: Code,
    pub(super) field_missing: Code,
    pub(super) wrong_type: Code,
    pub(super) null_field: Code,
}

const CHALLENGE: Words = Words {
    not_json: code::NOT_JSON,
    duplicate_key: code::DUPLICATE_KEY,
    too_large: code::TOO_LARGE,
    too_deep: code::TOO_DEEP,
    not_an_object: code::NOT_AN_OBJECT,
    field_missing: code::FIELD_MISSING,
    wrong_type: code::WRONG_TYPE,
    null_field: code::NULL_FIELD,
};

/// Converts findings of the JSON reader to the codes of this kind of message: its own codes are about manifests.
fn json_findings(findings: Findings, words: &'static Words) -> impl Iterator<Item = Finding> {
    findings.into_sorted().into_iter().map(|mut finding| {
        let own = match finding.code {
            c if c == codes::json::DUPLICATE_KEY => words.duplicate_key,
            c if c == codes::json::TOO_LARGE => words.too_large,
            c if c == codes::json::TOO_DEEP => words.too_deep,
            c if c == codes::core::TOO_MANY_FINDINGS => return finding,
            _ => words.not_json,
        };
        // The message describes the case; if it is only the old code's title, it becomes the title of the new one.
        if finding.message == finding.code.title() && own != words.not_json {
            own.title().clone_into(&mut finding.message);
        }
        finding.code = own;
        finding.fix = None;
        finding
    })
}

/// Parses a message that is one JSON object. The result of `read` counts only if no finding is an error; JSON that is not strict never
/// reaches it.
pub(super) fn read_message<T>(
    bytes: &[u8],
    max_bytes: usize,
    words: &'static Words,
    read: impl FnOnce(&mut Reader, Object<'_>) -> Option<T>,
) -> (Option<T>, Vec<Finding>) {
    let reading = json::read(bytes, Limits { max_bytes, max_depth: json::MAX_DEPTH });
    let mut reader = Reader::new(words);
    reader.context.findings.extend(json_findings(reading.findings, words));
    let message = match reading.document.as_ref().filter(|document| document.is_canonicalisable()) {
        Some(document) => match document.root().as_object() {
            Some(object) => read(&mut reader, object),
            None => {
                let root = document.root();
                reader.report(Finding::new(words.not_an_object).got(root.kind().described()), root);
                None
            }
        },
        None => None,
    };
    let has_errors = reader.context.findings.has_errors();
    (message.filter(|_| !has_errors), reader.context.findings.into_sorted())
}

/// Parses values and collects findings about them.
pub(super) struct Reader {
    context: Context,
    words: &'static Words,
}

/// The consequence of a missing field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// No client can pay.
    Must,
    /// Stock clients fail.
    Should,
    /// No consequence.
    May,
}

impl Reader {
    fn new(words: &'static Words) -> Self {
        Self { context: Context::new(Mode::Consumer), words }
    }

    fn root(&mut self, root: Value<'_>, place: ChallengeSource) -> Option<Challenge> {
        let Some(object) = root.as_object() else {
            self.report(Finding::new(self.words.not_an_object).got(root.kind().described()), root);
            return None;
        };
        let version = self.version(object, place)?;
        let error = self.string(object, "error", Need::May).map(str::to_owned);
        Some(match version {
            Version::V1 => Challenge {
                version,
                error,
                resource: None,
                accepts: self.accepts(object, v1::read_offer),
                extensions: Vec::new(),
            },
            Version::V2 => Challenge {
                version,
                error,
                resource: v2::read_resource(self, object),
                accepts: self.accepts(object, v2::read_offer),
                extensions: v2::read_extensions(self, object),
            },
        })
    }

    fn version(&mut self, object: Object<'_>, place: ChallengeSource) -> Option<Version> {
        let Some(value) = object.get("x402Version") else {
            let finding = Finding::new(code::VERSION_MISSING).at_missing(object.value(), "x402Version");
            // The short challenge of the invocation guide has no version and is version 1.
            return match place {
                ChallengeSource::Body => {
                    self.context.report(finding);
                    Some(Version::V1)
                }
                ChallengeSource::Header => {
                    self.context.report(finding.severity(Severity::Error));
                    Some(Version::V2)
                }
                ChallengeSource::Anywhere => {
                    self.context.report(finding.severity(Severity::Error));
                    None
                }
            };
        };
        let version = match value.as_u64() {
            Some(1) => Version::V1,
            Some(2) => Version::V2,
            _ => {
                self.report(Finding::new(code::VERSION_UNKNOWN).expected("the number 1 or 2").got(value.source()), value);
                // Quoted numbers are common, so parsing continues to find further problems.
                match value.as_str() {
                    Some("1") => Version::V1,
                    Some("2") => Version::V2,
                    _ => return None,
                }
            }
        };
        match (place, version) {
            (ChallengeSource::Body, Version::V2) => self.report(Finding::new(code::V2_IN_BODY), value),
            (ChallengeSource::Header, Version::V1) => self.report(Finding::new(code::V1_IN_HEADER), value),
            _ => {}
        }
        Some(version)
    }

    fn accepts(&mut self, object: Object<'_>, offer: fn(&mut Self, Object<'_>) -> Option<Offer>) -> Vec<Offer> {
        let Some(value) = self.required(object, "accepts", Need::Must) else { return Vec::new() };
        let Some(list) = self.typed(value, Kind::Array, value.as_array()) else { return Vec::new() };
        if list.is_empty() {
            self.report(Finding::new(code::NO_OFFERS), value);
        }
        if list.len() > MAX_OFFERS {
            let finding = Finding::new(code::TOO_MANY_OFFERS).expected(format!("at most {MAX_OFFERS}"));
            self.report(finding.got(list.len().to_string()), value);
        }
        let mut offers = Vec::new();
        for element in list.iter().take(MAX_OFFERS) {
            if let Some(entry) = self.typed(element, Kind::Object, element.as_object()) {
                offers.extend(offer(self, entry));
            }
        }
        offers
    }

    /// Parses the fields that an offer has in both versions, under the names of `version`.
    pub(super) fn offer(&mut self, entry: Object<'_>, version: Version) -> Option<Offer> {
        let scheme = self.required_string(entry, "scheme").map(|(value, scheme)| {
            if scheme != EXACT {
                self.report(Finding::new(code::SCHEME_UNKNOWN).expected(EXACT).got(scheme), value);
            }
            scheme
        });
        let network = self.required_string(entry, "network").and_then(|(value, text)| self.network(value, text, version));
        let amount = self.amount(entry, version);
        let asset = self.required_string(entry, "asset");
        let pay_to = self.required_string(entry, "payTo");
        let (asset, pay_to) = match &network {
            Some(chain) => {
                let asset = asset.and_then(|(value, text)| self.address(value, text, chain));
                let payee = pay_to.and_then(|(value, text)| self.address(value, text, chain).map(|payee| (value, payee)));
                if let Some((value, payee)) = &payee {
                    self.payee(*value, payee, asset.as_ref());
                }
                (asset, payee.map(|(_, payee)| payee))
            }
            None => (None, None),
        };
        let max_timeout_seconds = self.timeout(entry);
        let extra = self.extra(entry);
        let offer = Offer {
            scheme: scheme?.to_owned(),
            network: network?,
            asset: asset?,
            amount: amount?,
            pay_to: pay_to?,
            max_timeout_seconds,
            extra,
            resource: None,
            output_schema: None,
            other: Vec::new(),
        };
        self.domain(entry, &offer);
        Some(offer)
    }

    pub(super) fn network(&mut self, value: Value<'_>, text: &str, version: Version) -> Option<ChainId> {
        let named = network::by_name(text);
        let parsed = ChainId::parse(text);
        match (version, named, parsed) {
            (Version::V1, Some(named), _) => {
                if !named.is_stock {
                    self.report(Finding::new(code::NETWORK_NOT_IN_V1).got(text), value);
                }
                named.chain()
            }
            (Version::V2, _, Ok(chain)) => {
                if chain.evm_id().is_none() {
                    self.report(Finding::new(codes::caip::NAMESPACE_UNVERIFIED).got(text), value);
                }
                Some(chain)
            }
            (Version::V1, None, Ok(chain)) => {
                let name = network::by_chain(&chain).map_or("a network that version 1 has a name for", |named| named.name);
                self.report(Finding::new(code::NETWORK_NAME).expected(name).got(text), value);
                Some(chain)
            }
            (Version::V2, Some(named), Err(_)) => {
                self.report(Finding::new(code::NETWORK_NAME).expected(named.caip2).got(text), value);
                named.chain()
            }
            (_, None, Err(_)) => {
                let finding = Finding::new(code::NETWORK_UNKNOWN).got(text);
                let near =
                    toolcrib_core::near::nearest(text, network::ALL.iter().map(|named| named.name)).and_then(network::by_name);
                let finding = match (version, near) {
                    (Version::V1, Some(near)) => finding.expected(near.name),
                    (Version::V1, None) => finding.expected("a name such as base"),
                    (Version::V2, Some(near)) => finding.expected(near.caip2),
                    (Version::V2, None) => finding.expected("a CAIP-2 identifier such as eip155:8453"),
                };
                self.report(finding, value);
                None
            }
        }
    }

    fn amount(&mut self, entry: Object<'_>, version: Version) -> Option<Amount> {
        let (right, wrong) = match version {
            Version::V1 => ("maxAmountRequired", "amount"),
            Version::V2 => ("amount", "maxAmountRequired"),
        };
        let value = match (entry.get(right), entry.get(wrong)) {
            (Some(value), Some(other)) => {
                if value.as_str() != other.as_str() {
                    let finding = Finding::new(code::AMOUNT_TWICE).expected(value.source()).got(other.source());
                    self.report(finding, other);
                }
                value
            }
            (Some(value), None) => value,
            (None, Some(value)) => {
                let finding = Finding::new(code::AMOUNT_NAME).expected(right).got(wrong);
                let finding = self.context.place_key(finding, value);
                self.context.report(finding);
                value
            }
            (None, None) => {
                self.missing(entry, right, Need::Must);
                return None;
            }
        };
        let text = self.typed(value, Kind::String, value.as_str())?;
        money::check(value, text, &mut self.context)
    }

    pub(super) fn address(&mut self, value: Value<'_>, text: &str, chain: &ChainId) -> Option<ChainAddress> {
        if chain.evm_id().is_none() {
            let is_plain = (1..=MAX_ADDRESS_CHARS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_plain {
                self.report(
                    Finding::new(code::ADDRESS).expected(format!("1 to {MAX_ADDRESS_CHARS} visible characters")).got(text),
                    value,
                );
            }
            return is_plain.then(|| ChainAddress::other(text.to_owned()));
        }
        let address = match Hex::of(text) {
            Hex::Lower(digits) | Hex::Upper(digits) if digits.len() == 40 && text.starts_with("0x") => hex::decode(digits),
            _ => None,
        };
        let Some(address) = address.and_then(|bytes| Address::try_from(bytes.as_slice()).ok()) else {
            self.report(Finding::new(code::ADDRESS).expected("0x and 40 hexadecimal digits").got(text), value);
            return None;
        };
        let checksummed = address.to_checksum(None);
        if text != checksummed {
            let is_lower = matches!(Hex::of(text), Hex::Lower(_));
            let rule = if is_lower { code::ADDRESS_CASE } else { code::ADDRESS_CHECKSUM };
            self.report(Finding::new(rule).expected(checksummed).got(text), value);
        }
        Some(ChainAddress::written(text.to_owned(), Some(address)))
    }

    fn payee(&mut self, value: Value<'_>, payee: &ChainAddress, asset: Option<&ChainAddress>) {
        let Some(address) = payee.evm_address() else { return };
        let reason = if address.is_zero() {
            "payTo is the zero address"
        } else if BURN.contains(&address) {
            "payTo is a burn address"
        } else if asset.is_some_and(|asset| asset.is(payee)) {
            "payTo is the token contract itself"
        } else {
            return;
        };
        self.report(Finding::new(code::PAY_TO_UNSPENDABLE).message(reason).got(payee.as_str()), value);
    }

    fn timeout(&mut self, entry: Object<'_>) -> Option<u64> {
        let value = self.required(entry, "maxTimeoutSeconds", Need::Should)?;
        let seconds = value.as_u64().filter(|&seconds| seconds > 0);
        match seconds {
            None => self.report(Finding::new(code::TIMEOUT).got(value.source()), value),
            Some(seconds) if seconds > LONG_TIMEOUT_SECONDS => {
                let finding = Finding::new(code::TIMEOUT_LONG).expected(format!("at most {LONG_TIMEOUT_SECONDS}"));
                self.report(finding.got(seconds.to_string()), value);
            }
            Some(_) => {}
        }
        seconds
    }

    fn extra(&mut self, entry: Object<'_>) -> Option<Extra> {
        let value = entry.get("extra")?;
        if value.is_null() {
            self.report(Finding::new(self.words.null_field), value);
            return None;
        }
        let object = self.typed(value, Kind::Object, value.as_object())?;
        let mut word = |key, usual, rule| {
            let text = self.string(object, key, Need::May);
            if let (Some(text), Some(value)) = (text, object.get(key))
                && text != usual
            {
                self.report(Finding::new(rule).expected(usual).got(text), value);
            }
            text.map(str::to_owned)
        };
        let transfer_method = word("assetTransferMethod", EIP3009, code::TRANSFER_METHOD);
        let payment_flow = word("paymentFlow", "authorization", code::PAYMENT_FLOW);
        Some(Extra {
            name: self.string(object, "name", Need::May).map(str::to_owned),
            version: self.string(object, "version", Need::May).map(str::to_owned),
            transfer_method,
            payment_flow,
            other: others(object, &["name", "version", "assetTransferMethod", "paymentFlow"]),
        })
    }

    /// Compares the domain that the offer claims with the pinned one.
    fn domain(&mut self, entry: Object<'_>, offer: &Offer) {
        let extra = offer.extra.as_ref();
        let method = extra.and_then(|extra| extra.transfer_method.as_deref());
        if offer.scheme != EXACT || method.is_some_and(|method| method != EIP3009) {
            return;
        }
        let (Some(chain), Some(address)) = (offer.network.evm_id(), offer.asset.evm_address()) else { return };
        let token = asset::find(chain, address);
        if let (None, Some(value)) = (token, entry.get("asset")) {
            let mut finding = Finding::new(code::ASSET_UNKNOWN).got(format!("{} on {}", offer.asset, offer.network));
            if let Some(elsewhere) = asset::ALL.iter().find(|token| token.address == address) {
                finding = finding.message(format!(
                    "this is the address of {} on eip155:{}, another network",
                    elsewhere.symbol, elsewhere.chain
                ));
                finding = finding.severity(Severity::Warning);
            }
            self.report(finding, value);
        }
        let claimed = (extra.and_then(|extra| extra.name.as_deref()), extra.and_then(|extra| extra.version.as_deref()));
        let place = entry.get("extra").unwrap_or_else(|| entry.value());
        match (claimed, token) {
            ((Some(name), Some(version)), Some(token)) if (name, version) != (token.name, token.version) => {
                // A payment of zero is never settled; the wrong name then only fails where it is checked.
                let severity = if offer.amount.is_zero() { Severity::Warning } else { Severity::Error };
                let finding = Finding::new(code::DOMAIN_DIFFERS).severity(severity);
                let finding = finding.expected(format!("name {:?}, version {:?}", token.name, token.version));
                self.report(finding.got(format!("name {name:?}, version {version:?}")), place);
            }
            ((Some(_), Some(_)), _) => {}
            (_, token) => {
                let mut finding = Finding::new(code::DOMAIN_MISSING);
                if let Some(token) = token {
                    finding = finding.expected(format!("name {:?}, version {:?}", token.name, token.version));
                }
                self.report(finding, place);
            }
        }
    }

    /// Parses a URL by the few rules of clients.
    pub(super) fn url(&mut self, object: Object<'_>, key: &str) -> Option<String> {
        let text = self.string(object, key, Need::Should)?;
        let is_scheme = |scheme: &str| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
        };
        let is_url = text.split_once("://").is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty());
        if let (false, Some(value)) = (is_url, object.get(key)) {
            self.report(Finding::new(code::RESOURCE_URL).expected("an absolute URL").got(text), value);
        }
        Some(text.to_owned())
    }

    /// The text of a member. If the field may be missing, `null` counts as missing and is reported.
    pub(super) fn string<'d>(&mut self, object: Object<'d>, key: &str, need: Need) -> Option<&'d str> {
        let value = self.required(object, key, need)?;
        if value.is_null() && need != Need::Must {
            self.report(Finding::new(self.words.null_field), value);
            return None;
        }
        self.typed(value, Kind::String, value.as_str())
    }

    /// The member, or a finding that it is missing.
    pub(super) fn required<'d>(&mut self, object: Object<'d>, key: &str, need: Need) -> Option<Value<'d>> {
        let found = object.get(key);
        if found.is_none() {
            self.missing(object, key, need);
        }
        found
    }

    /// `found`, or a finding that `value` is of the wrong type.
    pub(super) fn typed<T>(&mut self, value: Value<'_>, wanted: Kind, found: Option<T>) -> Option<T> {
        if found.is_none() {
            let finding = Finding::new(self.words.wrong_type).message(format!("this must be {}", wanted.described()));
            self.report(finding.expected(wanted.described()).got(value.kind().described()), value);
        }
        found
    }

    /// Parses a part whose findings matter only partly: those for which `kept` returns false are dropped.
    pub(super) fn apart<T>(&mut self, read: impl FnOnce(&mut Self) -> T, kept: impl Fn(&Finding) -> bool) -> T {
        let mut apart = Self::new(self.words);
        let made = read(&mut apart);
        self.context.findings.extend(apart.context.findings.into_sorted().into_iter().filter(kept));
        made
    }

    /// Parses an amount: `money::check` with findings in this reader.
    pub(super) fn decimal(&mut self, value: Value<'_>, text: &str) -> Option<Amount> {
        money::check(value, text, &mut self.context)
    }

    /// Adds a finding about `value`.
    pub(super) fn report(&mut self, finding: Finding, value: Value<'_>) {
        let finding = self.context.place(finding, value);
        self.context.report(finding);
    }

    pub(super) fn required_string<'d>(&mut self, object: Object<'d>, key: &str) -> Option<(Value<'d>, &'d str)> {
        let text = self.string(object, key, Need::Must)?;
        Some((object.get(key)?, text))
    }

    fn missing(&mut self, object: Object<'_>, key: &str, need: Need) {
        let severity = match need {
            Need::Must => Severity::Error,
            Need::Should => Severity::Warning,
            Need::May => return,
        };
        let mut finding = Finding::new(self.words.field_missing).severity(severity).message(format!("`{key}` is missing"));
        if !self.context.findings.is_full() {
            finding = finding.at_missing(object.value(), key);
        }
        self.context.report(finding);
    }
}

/// The members with other names.
pub(super) fn others(object: Object<'_>, known: &[&str]) -> Members {
    let others = object.iter().filter(|(key, _)| !known.contains(key));
    others.map(|(key, value)| (key.to_owned(), Raw::of(value))).collect()
}

/// The default transfer method of an offer.
pub(super) const EIP3009: &str = "eip3009";

/// Burn addresses.
const BURN: [Address; 2] =
    [address!("000000000000000000000000000000000000dEaD"), address!("dEAD000000000000000042069420694206942069")];
