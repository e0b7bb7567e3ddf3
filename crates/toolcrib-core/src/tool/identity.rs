//! The identity of a tool: type, name, description, endpoint, creator; and version, images, tags.

use alloy_primitives::{Address, address};

use super::Fields;
use crate::checked::Context;
use crate::codes::{self, Code};
use crate::finding::{Edit, Finding, Fix, Mode, Severity, Span};
use crate::hex::{self, Hex};
use crate::json::{Object, Value};
use crate::url::image::{ImageKind, ImageRejection, ImageUri};
use crate::url::{self, HttpsUrl, MAX_URL_BYTES};
use crate::{semver, text};

/// The type of version 1 manifests, compared byte for byte.
pub const TYPE_V1: &str = "https://ercs.ethereum.org/ERCS/erc-8257#tool-manifest-v1";

/// Longest name in code points: ERC-8257 §2.
pub const MAX_NAME: usize = 128;

/// Longest description in code points: ERC-8257 §2.
pub const MAX_DESCRIPTION: usize = 500;

/// Most tags: ERC-8257 §2.
pub const MAX_TAGS: usize = 16;

/// Longest tag: ERC-8257 §2.
const MAX_TAG: usize = 32;

pub(super) fn check_type(root: Object<'_>, fields: &Fields<'_>, context: &mut Context) {
    let Some(value) = fields.r#type else {
        let at = root.value().span().start + 1;
        let comma = if root.is_empty() { "" } else { "," };
        context.report(Finding::new(codes::tool::TYPE_MISSING).at_missing(root.value(), "type").expected(TYPE_V1).fix(Fix {
            title: "add the type".to_owned(),
            edits: vec![Edit { span: Span::new(at, at), replacement: format!("\"type\":\"{TYPE_V1}\"{comma}") }],
        }));
        return;
    };
    let Some(found) = context.string(value) else { return };
    if found == TYPE_V1 {
        return;
    }
    let is_placeholder = found.contains("#tool-manifest-v1") && (found.contains("eip-XXXX") || found.contains("8257"));
    context.report(if is_placeholder {
        Finding::new(codes::tool::TYPE_PLACEHOLDER).at(value).expected(TYPE_V1).got(found).fix(Fix::replace_string(
            value,
            "write the type of version 1",
            TYPE_V1,
        ))
    } else {
        Finding::new(codes::tool::TYPE_UNKNOWN).at(value).expected(TYPE_V1).got(found)
    });
}

pub(super) fn check_texts(root: Object<'_>, fields: &Fields<'_>, context: &mut Context) {
    if let Some((value, name)) = required_string(root, "name", fields.name, context) {
        context.code_points(value, name, 1..=MAX_NAME, codes::tool::NAME_LENGTH);
        check_control(value, name, &[], codes::tool::NAME_CONTROL, context);
        check_displayed(value, name, context);
    }
    if let Some((value, description)) = required_string(root, "description", fields.description, context) {
        check_description(value, description, codes::tool::DESCRIPTION_LENGTH, context);
    }
    if let Some((value, version)) = fields.version.and_then(|value| Some((value, context.string(value)?)))
        && !semver::is_semver(version)
    {
        context.report(Finding::new(codes::tool::VERSION_NOT_SEMVER).at(value).expected("MAJOR.MINOR.PATCH").got(version));
    }
}

/// Checks `description` and `verifiability.description`, which differ only in the code for the length.
pub(super) fn check_description(value: Value<'_>, description: &str, length: Code, context: &mut Context) {
    context.code_points(value, description, 1..=MAX_DESCRIPTION, length);
    check_control(value, description, &['\n', '\r', '\t'], codes::tool::DESCRIPTION_CONTROL, context);
    check_displayed(value, description, context);
}

fn check_control(value: Value<'_>, text: &str, allowed: &[char], code: Code, context: &mut Context) {
    if let Some(control) = text::first_control(text, allowed) {
        context.report(Finding::new(code).at(value).got(format!("U+{:04X}", u32::from(control))));
    }
}

/// Warns about text that the standard allows but that is suspicious when displayed.
fn check_displayed(value: Value<'_>, text: &str, context: &mut Context) {
    if let Some(c) = text.chars().find(|&c| text::is_invisible(c)) {
        context.report(Finding::new(codes::json::INVISIBLE).at(value).got(format!("U+{:04X}", u32::from(c))));
    }
    const LEFT_OVER: [&str; 9] = ["TODO", "FIXME", "YOUR_", "YOUR-", "CHANGEME", "REPLACE_ME", "${", "{{", "Lorem ipsum"];
    if let Some(mark) = LEFT_OVER.iter().find(|mark| text.contains(**mark)) {
        context.report(Finding::new(codes::tool::TEMPLATE_TEXT).at(value).got(*mark));
    }
}

pub(super) fn check_images(fields: &Fields<'_>, context: &mut Context) {
    // `featuredImage` is not a field of the ERC: it is hashed and never fatal for readers (ambiguities of 000 and 001).
    for (value, is_featured) in [(fields.image, false), (fields.featured_image, true)] {
        let Some(value) = value else { continue };
        let lenient = |context: &Context| if is_featured { context.mode.strict(Severity::Warning) } else { Severity::Error };
        let Some(found) = value.as_str() else {
            let severity = lenient(context);
            context.report(
                Finding::new(codes::manifest::WRONG_TYPE)
                    .at(value)
                    .severity(severity)
                    .message("this must be a string")
                    .expected("a string")
                    .got(value.kind().described()),
            );
            continue;
        };
        let length = HttpsUrl::parse(found).map_or(found.len(), |url| url.normalized().len());
        if length > MAX_URL_BYTES {
            let severity = lenient(context);
            context.report(
                Finding::new(codes::tool::IMAGE_LENGTH)
                    .at(value)
                    .severity(severity)
                    .expected(format!("at most {MAX_URL_BYTES} bytes after normalisation"))
                    .got(format!("{length} bytes")),
            );
        }
        match ImageUri::classify(found) {
            // Readers normalise the URL themselves.
            ImageKind::Https(_) if context.mode == Mode::Producer && HttpsUrl::parse_exact(found).is_err() => {
                url::check(value, found, context);
            }
            ImageKind::Https(_) | ImageKind::Ipfs | ImageKind::DataImage(_) => {}
            ImageKind::Refused(ImageRejection::Script | ImageRejection::File | ImageRejection::DataHtml) => {
                let severity = context.mode.strict(Severity::Warning);
                context.report(Finding::new(codes::tool::IMAGE_SCHEME).at(value).severity(severity).got(found));
            }
            _ => context.report(Finding::new(codes::tool::IMAGE_UNSUITABLE).at(value).got(found)),
        }
    }
}

pub(super) fn check_tags(fields: &Fields<'_>, context: &mut Context) {
    let Some((value, tags)) = fields.tags.and_then(|value| Some((value, context.array(value)?))) else { return };
    if tags.len() > MAX_TAGS {
        context.report(
            Finding::new(codes::tool::TAGS_COUNT).at(value).expected(format!("at most {MAX_TAGS}")).got(tags.len().to_string()),
        );
    }
    // Entries beyond the limit are not compared, so comparing each with all before it stays cheap.
    let mut seen: [&str; MAX_TAGS] = [""; MAX_TAGS];
    for (index, element) in tags.iter().take(MAX_TAGS).enumerate() {
        let Some(tag) = context.string(element) else { continue };
        if !is_tag(tag) {
            let finding = Finding::new(codes::tool::TAG_GRAMMAR)
                .at(element)
                .expected("lowercase letters, digits, hyphens; 1 to 32")
                .got(tag);
            let lower = tag.to_ascii_lowercase();
            context.report(if is_tag(&lower) && !tags.iter().take(MAX_TAGS).any(|other| other.as_str() == Some(&lower)) {
                finding.fix(Fix::replace_string(element, "write the tag in lower case", &lower))
            } else {
                finding
            });
        } else if seen[..index].contains(&tag) {
            context.report(Finding::new(codes::tool::TAG_DUPLICATE).at(element).got(tag));
        }
        seen[index] = tag;
    }
}

fn is_tag(tag: &str) -> bool {
    let bytes = tag.as_bytes();
    let alphanumeric = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    bytes.len() <= MAX_TAG
        && alphanumeric(bytes.first())
        && alphanumeric(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
}

pub(super) fn check_endpoint(root: Object<'_>, fields: &Fields<'_>, context: &mut Context) -> Option<HttpsUrl> {
    let (value, endpoint) = required_string(root, "endpoint", fields.endpoint, context)?;
    url::check(value, endpoint, context)
}

pub(super) fn check_creator(root: Object<'_>, fields: &Fields<'_>, context: &mut Context) -> Option<Address> {
    let (value, creator) = required_string(root, "creatorAddress", fields.creator, context)?;
    let bad = |finding: Finding| finding.at(value).expected("0x and 40 lowercase hex digits").got(creator);
    let address = match Hex::of(creator) {
        Hex::Lower(digits) if digits.len() == 40 => hex::decode(digits),
        Hex::Upper(digits) if digits.len() == 40 => {
            report_uppercase(value, creator, context);
            hex::decode(digits)
        }
        _ => {
            context.report(bad(Finding::new(codes::tool::CREATOR_GRAMMAR)));
            None
        }
    };
    let address = Address::try_from(address?.as_slice()).ok()?;
    if address.is_zero() {
        context.report(Finding::new(codes::tool::CREATOR_ZERO).at(value));
    } else if is_placeholder(address) {
        let severity = context.mode.strict(Severity::Warning);
        context.report(Finding::new(codes::tool::CREATOR_PLACEHOLDER).at(value).severity(severity).got(creator));
    } else if DOCUMENTATION_ADDRESSES.contains(&address) {
        context.report(Finding::new(codes::tool::CREATOR_EXAMPLE).at(value).got(creator));
    }
    Some(address)
}

/// Addresses in the examples of the ERC, and therefore in many documents and our templates.
const DOCUMENTATION_ADDRESSES: [Address; 2] =
    [address!("abcdefabcdef1234567890abcdefabcdef123456"), address!("abcdef0123456789abcdef0123456789abcdef01")];

/// Reports upper-case digits in a hex field and offers the lowercase form.
pub(super) fn report_uppercase(value: Value<'_>, found: &str, context: &mut Context) {
    let lower = found.to_ascii_lowercase();
    context.report(
        Finding::new(codes::tool::HEX_UPPERCASE).at(value).expected(lower.as_str()).got(found).fix(Fix::replace_string(
            value,
            "write the hex digits in lower case",
            &lower,
        )),
    );
}

/// Addresses that templates contain: burn addresses, precompiles, one repeated digit, consecutive digits.
fn is_placeholder(address: Address) -> bool {
    let bytes = address.as_slice();
    let is_low = bytes[..18].iter().all(|&byte| byte == 0);
    let is_burn = bytes[..2] == [0, 0] && bytes[18..] == [0xde, 0xad];
    let is_repeated = bytes.iter().all(|&byte| byte == bytes[0]) && bytes[0] >> 4 == bytes[0] & 15;
    let is_counting = bytes[..5] == [0x12, 0x34, 0x56, 0x78, 0x90] && bytes[5..10] == bytes[..5] && bytes[10..] == bytes[..10];
    let is_beef = bytes[..4] == [0xde, 0xad, 0xbe, 0xef] && bytes[4..8] == bytes[..4];
    is_low || is_burn || is_repeated || is_counting || is_beef
}

pub(super) fn required_string<'d>(
    object: Object<'d>,
    key: &str,
    found: Option<Value<'d>>,
    context: &mut Context,
) -> Option<(Value<'d>, &'d str)> {
    let value = context.required(object, key, found)?;
    Some((value, context.string(value)?))
}
