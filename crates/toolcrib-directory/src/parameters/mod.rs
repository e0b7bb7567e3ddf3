//! Parameters of requests.
//!
//! Each operation declares its query as a struct of [`Param`]s that derives `Deserialize` and `utoipa::IntoParams`: [`Query`] and the
//! `OpenAPI` document use the same declaration. The type of a field defines what is accepted, its doc comment is the description. The
//! derive macro supports only types without generics, so each field names an alias.
//!
//! Parsing is strict. An invalid parameter is rejected by name, and so is one that is not declared, or given twice where one is expected.
//! Only pages ignore undeclared parameters.

mod kind;
mod path;
mod query;
mod read;

use kind::{Absent, Kind};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toolcrib_core::agent::PricingModel;
use toolcrib_core::tool::Tier;
use toolcrib_index::listing::AccessKind;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

pub(crate) use kind::{Tags, Words};
pub(crate) use path::{address, resource, resource_part, tool};
pub(crate) use query::{Pairs, Query};

/// The value of a parameter. Its kind `K` defines how its text is parsed and how the document describes it.
pub(crate) struct Param<K: Kind>(pub(crate) K::Read);

impl<K: Kind> Param<K> {
    pub(crate) fn value(self) -> K::Read {
        self.0
    }
}

/// The value of an absent parameter.
impl<K: Absent> Default for Param<K> {
    fn default() -> Self {
        Self(K::absent())
    }
}

impl<'de, K: Kind> Deserialize<'de> for Param<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        K::read(&String::deserialize(deserializer)?).map(Self).map_err(D::Error::custom)
    }
}

impl<K: Kind> PartialSchema for Param<K> {
    fn schema() -> RefOr<Schema> {
        K::schema().into()
    }
}

impl<K: Kind> ToSchema for Param<K> {}

/// An account or a contract.
pub(crate) type Account = Param<kind::Account>;

/// A chain by its number or by a name of the pinned table. An empty value is the same as none.
pub(crate) type Chain = Param<kind::Chain>;

/// A price in dollars, in millionths.
pub(crate) type Dollars = Param<kind::Dollars>;

/// An amount of any currency, in millionths.
pub(crate) type Amount = Param<kind::Amount>;

/// An id of the agents' vocabulary, or one in the same format.
pub(crate) type Id = Param<kind::Id>;

/// Yes or no.
pub(crate) type Flag<const DEFAULT: bool> = Param<kind::Flag<DEFAULT>>;

/// An integer within bounds.
pub(crate) type Number<const LEAST: i64, const MOST: i64> = Param<kind::Number<LEAST, MOST>>;

/// An integer within bounds that is `DEFAULT` without the parameter.
pub(crate) type Count<const LEAST: i64, const MOST: i64, const DEFAULT: i64> = Param<kind::Count<LEAST, MOST, DEFAULT>>;

/// A trimmed text up to a maximum number of characters. An empty value is the same as none.
pub(crate) type Text<const MOST: usize> = Param<kind::Text<MOST>>;

/// The cursor of an earlier response. An empty value is the same as none.
pub(crate) type Cursor = Param<kind::Cursor>;

/// The kind of access to a tool.
pub(crate) type Access = Param<AccessKind>;

/// The minimum trust tier.
pub(crate) type LeastTier = Param<Tier>;

/// The pricing model of an agent.
pub(crate) type Pricing = Param<PricingModel>;
