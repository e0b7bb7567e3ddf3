//! The kinds of parameters: how a text is parsed, and its schema in the document.

use alloy_primitives::Address;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toolcrib_core::agent::PricingModel;
use toolcrib_core::agent::vocabulary::is_id;
use toolcrib_core::money;
use toolcrib_core::tool::Tier;
use toolcrib_index::Order;
use toolcrib_index::listing::AccessKind;
use toolcrib_index::search::Sort;
use toolcrib_x402::network;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::answer::echo;
use crate::parameters::address;
use crate::parameters::path::chain_number;

/// The maximum number of tags in one search: a manifest has no more.
pub(crate) const MAX_TAGS: usize = 16;

/// The maximum length of an id, in characters. Manifests have shorter ones.
const MAX_ID_CHARS: usize = 64;

/// A kind of parameter.
pub(crate) trait Kind {
    /// The type of the parsed value.
    type Read;

    /// Parses the text, or returns what was expected.
    fn read(text: &str) -> Result<Self::Read, String>;

    /// Returns its schema.
    fn schema() -> ObjectBuilder;
}

/// A kind with a default value.
pub(crate) trait Absent: Kind {
    fn absent() -> Self::Read;
}

fn text_of(pattern: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern))
}

/// See [`crate::parameters::Account`].
pub(crate) enum Account {}

impl Kind for Account {
    type Read = Address;

    fn read(text: &str) -> Result<Address, String> {
        address(text).ok_or_else(|| "expected 0x and 40 hexadecimal digits".to_owned())
    }

    fn schema() -> ObjectBuilder {
        text_of("^0x[0-9a-fA-F]{40}$")
    }
}

/// See [`crate::parameters::Chain`].
pub(crate) enum Chain {}

impl Kind for Chain {
    type Read = Option<u64>;

    fn read(text: &str) -> Result<Option<u64>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let named = || network::by_name(&text.to_ascii_lowercase()).and_then(|network| network.chain()?.evm_id());
        let number = chain_number(text).or_else(named);
        number.map(Some).ok_or_else(|| "expected a chain id, or a network name such as base".to_owned())
    }

    fn schema() -> ObjectBuilder {
        ObjectBuilder::new().schema_type(Type::String)
    }
}

impl Absent for Chain {
    fn absent() -> Option<u64> {
        None
    }
}

/// Parses a decimal as millionths.
fn millionths(text: &str) -> Option<u64> {
    let amount = money::Amount::parse_units(text, 6).ok().and_then(|amount| u64::try_from(amount.get()).ok());
    amount.filter(|amount| i64::try_from(*amount).is_ok())
}

/// See [`crate::parameters::Dollars`].
pub(crate) enum Dollars {}

impl Kind for Dollars {
    type Read = u64;

    fn read(text: &str) -> Result<u64, String> {
        millionths(text).ok_or_else(|| "expected dollars such as 0.05, with at most six decimal places".to_owned())
    }

    fn schema() -> ObjectBuilder {
        text_of("^(0|[1-9][0-9]{0,11})(\\.[0-9]{1,6})?$")
    }
}

/// See [`crate::parameters::Amount`].
pub(crate) enum Amount {}

impl Kind for Amount {
    type Read = u64;

    fn read(text: &str) -> Result<u64, String> {
        millionths(text).ok_or_else(|| "expected an amount such as 0.05, with at most six decimal places".to_owned())
    }

    fn schema() -> ObjectBuilder {
        Dollars::schema()
    }
}

/// See [`crate::parameters::Id`].
pub(crate) enum Id {}

impl Kind for Id {
    type Read = String;

    fn read(text: &str) -> Result<String, String> {
        let is_formed = text.len() <= MAX_ID_CHARS && is_id(text);
        let expected = "expected an id: at most 64 lowercase letters and digits, joined by single hyphens";
        is_formed.then(|| text.to_owned()).ok_or_else(|| expected.to_owned())
    }

    fn schema() -> ObjectBuilder {
        text_of("^[a-z0-9]+(-[a-z0-9]+)*$").max_length(Some(MAX_ID_CHARS))
    }
}

/// See [`crate::parameters::Flag`].
pub(crate) enum Flag<const DEFAULT: bool> {}

impl<const DEFAULT: bool> Kind for Flag<DEFAULT> {
    type Read = bool;

    fn read(text: &str) -> Result<bool, String> {
        match text {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(format!("expected true or false, got `{}`", echo(text))),
        }
    }

    fn schema() -> ObjectBuilder {
        ObjectBuilder::new().schema_type(Type::Boolean).default(Some(DEFAULT.into()))
    }
}

impl<const DEFAULT: bool> Absent for Flag<DEFAULT> {
    fn absent() -> bool {
        DEFAULT
    }
}

/// See [`crate::parameters::Number`].
pub(crate) enum Number<const LEAST: i64, const MOST: i64> {}

impl<const LEAST: i64, const MOST: i64> Kind for Number<LEAST, MOST> {
    type Read = i64;

    fn read(text: &str) -> Result<i64, String> {
        let number = text.parse().ok().filter(|number| (LEAST..=MOST).contains(number) && !text.starts_with('+'));
        number.ok_or_else(|| format!("expected a whole number from {LEAST} to {MOST}, got `{}`", echo(text)))
    }

    fn schema() -> ObjectBuilder {
        ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(LEAST)).maximum(Some(MOST))
    }
}

/// See [`crate::parameters::Count`].
pub(crate) enum Count<const LEAST: i64, const MOST: i64, const DEFAULT: i64> {}

impl<const LEAST: i64, const MOST: i64, const DEFAULT: i64> Kind for Count<LEAST, MOST, DEFAULT> {
    type Read = i64;

    fn read(text: &str) -> Result<i64, String> {
        Number::<LEAST, MOST>::read(text)
    }

    fn schema() -> ObjectBuilder {
        Number::<LEAST, MOST>::schema().default(Some(DEFAULT.into()))
    }
}

impl<const LEAST: i64, const MOST: i64, const DEFAULT: i64> Absent for Count<LEAST, MOST, DEFAULT> {
    fn absent() -> i64 {
        DEFAULT
    }
}

/// See [`crate::parameters::Text`].
pub(crate) enum Text<const MOST: usize> {}

impl<const MOST: usize> Kind for Text<MOST> {
    type Read = Option<String>;

    fn read(text: &str) -> Result<Option<String>, String> {
        let text = text.trim();
        if text.chars().count() > MOST {
            return Err(format!("it is longer than {MOST} characters"));
        }
        Ok(Some(text).filter(|text| !text.is_empty()).map(str::to_owned))
    }

    fn schema() -> ObjectBuilder {
        ObjectBuilder::new().schema_type(Type::String).max_length(Some(MOST))
    }
}

impl<const MOST: usize> Absent for Text<MOST> {
    fn absent() -> Option<String> {
        None
    }
}

/// See [`crate::parameters::Cursor`].
pub(crate) enum Cursor {}

impl Kind for Cursor {
    type Read = Option<String>;

    fn read(text: &str) -> Result<Option<String>, String> {
        Ok(Some(text).filter(|text| !text.is_empty()).map(str::to_owned))
    }

    fn schema() -> ObjectBuilder {
        ObjectBuilder::new().schema_type(Type::String)
    }
}

impl Absent for Cursor {
    fn absent() -> Option<String> {
        None
    }
}

/// A value that is one of some words.
pub(crate) trait Words: Clone + 'static {
    /// All words, with their values.
    const WORDS: &'static [(&'static str, Self)];
}

impl<W: Words> Kind for W {
    type Read = W;

    fn read(text: &str) -> Result<W, String> {
        let found = W::WORDS.iter().find(|(word, _)| *word == text).map(|(_, value)| value.clone());
        found.ok_or_else(|| {
            let expected: Vec<_> = W::WORDS.iter().map(|(word, _)| *word).collect();
            format!("expected one of {}, got `{}`", expected.join(", "), echo(text))
        })
    }

    fn schema() -> ObjectBuilder {
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(W::WORDS.iter().map(|(word, _)| *word)))
    }
}

impl Words for AccessKind {
    const WORDS: &'static [(&'static str, Self)] = &Self::WORDS;
}

impl Words for Order {
    const WORDS: &'static [(&'static str, Self)] = &[("newest", Self::Newest), ("oldest", Self::Oldest)];
}

impl Words for Sort {
    const WORDS: &'static [(&'static str, Self)] =
        &[("relevance", Self::Relevance), ("newest", Self::Newest), ("most_used", Self::MostUsed)];
}

impl Words for Tier {
    const WORDS: &'static [(&'static str, Self)] = &[
        (Self::SelfAttested.as_str(), Self::SelfAttested),
        (Self::HardwareAttested.as_str(), Self::HardwareAttested),
        (Self::Verifiable.as_str(), Self::Verifiable),
    ];
}

impl Words for PricingModel {
    const WORDS: &'static [(&'static str, Self)] = &[
        (Self::Free.as_str(), Self::Free),
        (Self::Freemium.as_str(), Self::Freemium),
        (Self::Paid.as_str(), Self::Paid),
        (Self::Contact.as_str(), Self::Contact),
    ];
}

/// Lower-case tags: several parameters, or one with commas.
#[derive(Debug, Default)]
pub(crate) struct Tags(pub(crate) Vec<String>);

impl<'de> Deserialize<'de> for Tags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = Vec::<String>::deserialize(deserializer)?;
        let tags = values.iter().flat_map(|tags| tags.split(',')).map(str::trim).filter(|tag| !tag.is_empty());
        let tags: Vec<String> = tags.map(str::to_lowercase).collect();
        if tags.len() > MAX_TAGS {
            return Err(D::Error::custom(format!("more than {MAX_TAGS} tags")));
        }
        Ok(Self(tags))
    }
}

impl PartialSchema for Tags {
    fn schema() -> RefOr<Schema> {
        ArrayBuilder::new().items(ObjectBuilder::new().schema_type(Type::String)).max_items(Some(MAX_TAGS)).into()
    }
}

impl ToSchema for Tags {}
