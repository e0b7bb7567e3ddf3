//! `access`: what a caller must hold, as a hint. The predicate onchain decides.

use super::identity::{report_uppercase, required_string};
use crate::checked::Context;
use crate::codes;
use crate::finding::Finding;
use crate::hex::{self, Hex};
use crate::json::{Array, Object, Value};
use crate::registry::RequirementKind;
use crate::url::{self, MAX_URL_BYTES};

/// Most requirements: ERC-8257 Manifest Parser Hardening; the same limit as for predicates.
pub const MAX_REQUIREMENTS: usize = 256;

/// Most decoded bytes of a requirement's data: ERC-8257 Manifest Parser Hardening; the same limit as onchain.
pub const MAX_DATA_BYTES: usize = 4096;

/// Longest label in UTF-8 bytes: ERC-8257 §4; the same limit as onchain.
pub const MAX_LABEL_BYTES: usize = 256;

/// How requirements combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Logic {
    /// All must be met.
    And,
    /// One suffices.
    Or,
}

/// The access block of a conformant manifest.
#[derive(Clone, Copy, Debug)]
pub struct AccessRules<'d> {
    logic: Logic,
    requirements: Array<'d>,
}

impl<'d> AccessRules<'d> {
    pub(super) fn of(value: Value<'d>) -> Option<Self> {
        let logic = parse_logic(value.get("logic")?.as_str()?)?;
        Some(Self { logic, requirements: value.get("requirements")?.as_array()? })
    }

    /// How the requirements combine.
    pub const fn logic(self) -> Logic {
        self.logic
    }

    /// The requirements, in the author's order.
    pub fn requirements(self) -> impl Iterator<Item = Requirement<'d>> {
        self.requirements.iter().filter_map(Requirement::of)
    }
}

/// One requirement of a conformant manifest.
#[derive(Clone, Copy, Debug)]
pub struct Requirement<'d> {
    kind: [u8; 4],
    data: &'d str,
    label: &'d str,
    links: Option<Object<'d>>,
}

impl<'d> Requirement<'d> {
    fn of(value: Value<'d>) -> Option<Self> {
        let Hex::Lower(digits) = Hex::of(value.get("kind")?.as_str()?) else { return None };
        let kind = hex::decode(digits)?.try_into().ok()?;
        let Hex::Lower(data) = Hex::of(value.get("data")?.as_str()?) else { return None };
        Some(Self { kind, data, label: value.get("label")?.as_str()?, links: value.get("links").and_then(Value::as_object) })
    }

    /// The four bytes that identify the requirement type.
    pub const fn kind(self) -> [u8; 4] {
        self.kind
    }

    /// The decoded payload.
    pub fn data(self) -> Vec<u8> {
        hex::decode(self.data).unwrap_or_default()
    }

    /// The hint for people. Untrusted text.
    pub const fn label(self) -> &'d str {
        self.label
    }

    /// Names and URLs of related pages.
    pub fn links(self) -> impl Iterator<Item = (&'d str, &'d str)> {
        self.links.into_iter().flat_map(Object::iter).filter_map(|(name, url)| Some((name, url.as_str()?)))
    }
}

pub(super) fn check(value: Value<'_>, context: &mut Context) {
    let Some(access) = context.object(value) else { return };
    let requirements = access.get("requirements");
    let says_open = |key| access.get(key).and_then(Value::as_str).is_some_and(|word| matches!(word, "open" | "public" | "free"));
    if requirements.is_none() && (access.is_empty() || says_open("type") || says_open("mode") || says_open("logic")) {
        context.report(Finding::new(codes::tool::ACCESS_OPEN).at(value));
        return;
    }
    if let Some((place, logic)) = required_string(access, "logic", access.get("logic"), context)
        && parse_logic(logic).is_none()
    {
        context.report(Finding::new(codes::tool::ACCESS_LOGIC).at(place).expected("AND or OR").got(logic));
    }
    let Some(place) = context.required(access, "requirements", requirements) else { return };
    let Some(list) = context.array(place) else { return };
    if list.is_empty() {
        context.report(Finding::new(codes::tool::ACCESS_EMPTY).at(place));
    }
    if list.len() > MAX_REQUIREMENTS {
        context.report(
            Finding::new(codes::tool::ACCESS_COUNT)
                .at(place)
                .expected(format!("at most {MAX_REQUIREMENTS}"))
                .got(list.len().to_string()),
        );
    }
    for element in list.iter().take(MAX_REQUIREMENTS) {
        if let Some(requirement) = context.object(element) {
            check_requirement(requirement, context);
        }
    }
    super::extensions::check_subfields(access, &["logic", "requirements"], context);
}

fn check_requirement(requirement: Object<'_>, context: &mut Context) {
    let kind = required_string(requirement, "kind", requirement.get("kind"), context).and_then(|(value, text)| {
        let digits = hex_field(
            value,
            text,
            context,
            |digits| digits.len() == 8,
            codes::tool::KIND_GRAMMAR,
            "0x and 8 lowercase hex digits",
        )?;
        if digits == "00000000" {
            context.report(Finding::new(codes::tool::KIND_UNKNOWN_SENTINEL).at(value));
        }
        <[u8; 4]>::try_from(hex::decode(digits)?).ok()
    });
    if let Some((value, text)) = required_string(requirement, "data", requirement.get("data"), context)
        && let Some(digits) = hex_field(
            value,
            text,
            context,
            |digits| digits.len().is_multiple_of(2),
            codes::tool::DATA_GRAMMAR,
            "0x and pairs of lowercase hex digits",
        )
    {
        let length = digits.len() / 2;
        if length > MAX_DATA_BYTES {
            context.report(
                Finding::new(codes::tool::DATA_LENGTH)
                    .at(value)
                    .expected(format!("at most {MAX_DATA_BYTES} bytes"))
                    .got(format!("{length} bytes")),
            );
        } else if let Some(known) = kind.and_then(RequirementKind::from_id)
            && !hex::decode(digits).is_some_and(|data| known.fits(&data))
        {
            context.report(
                Finding::new(codes::tool::DATA_LAYOUT)
                    .at(value)
                    .message(format!("the data does not have the layout of {}", known.marker().trim_end_matches("()"))),
            );
        }
    }
    if let Some((value, label)) = required_string(requirement, "label", requirement.get("label"), context)
        && label.len() > MAX_LABEL_BYTES
    {
        context.report(
            Finding::new(codes::tool::LABEL_LENGTH)
                .at(value)
                .expected(format!("at most {MAX_LABEL_BYTES} bytes"))
                .got(format!("{} bytes", label.len())),
        );
    }
    if let Some(links) = requirement.get("links").and_then(|value| context.object(value)) {
        check_links(links, context);
    }
    super::extensions::check_subfields(requirement, &["kind", "data", "label", "links"], context);
}

fn check_links(links: Object<'_>, context: &mut Context) {
    for (name, value) in links.iter() {
        if name.len() > MAX_URL_BYTES {
            context.report(too_long(context.place_key(Finding::new(codes::tool::LINK_LENGTH), value), name.len()));
        }
        let Some(link) = context.string(value) else { continue };
        if link.len() > MAX_URL_BYTES {
            context.report(too_long(context.place(Finding::new(codes::tool::LINK_LENGTH), value), link.len()));
        } else if link.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
            url::check(value, link, context);
        } else {
            let finding = Finding::new(codes::tool::LINK_NOT_HTTPS).expected("https://…").got(link);
            context.report(context.place(finding, value));
        }
    }
}

fn too_long(finding: Finding, length: usize) -> Finding {
    finding.expected(format!("at most {MAX_URL_BYTES} bytes")).got(format!("{length} bytes"))
}

/// Returns the digits of a hex field that follows its grammar. Upper case has its own code, everything else gets `code`.
pub(super) fn hex_field<'d>(
    value: Value<'d>,
    text: &'d str,
    context: &mut Context,
    fits: fn(&str) -> bool,
    code: codes::Code,
    expected: &str,
) -> Option<&'d str> {
    match Hex::of(text) {
        Hex::Lower(digits) if fits(digits) => Some(digits),
        Hex::Upper(digits) if fits(digits) => {
            report_uppercase(value, text, context);
            Some(digits)
        }
        _ => {
            context.report(Finding::new(code).at(value).expected(expected).got(text));
            None
        }
    }
}

fn parse_logic(text: &str) -> Option<Logic> {
    match text {
        "AND" => Some(Logic::And),
        "OR" => Some(Logic::Or),
        _ => None,
    }
}
