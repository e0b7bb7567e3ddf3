//! A serde deserializer from a query to a struct.
//!
//! `serde_urlencoded` reads the pairs in the order of the query, and its errors do not name the parameter. Here the fields are read in the
//! order of their declaration, so that the same request is always rejected for the same parameter, and every error names it.

use std::fmt;

use serde::de::value::{SeqDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::answer::{ApiError, echo};
use crate::parameters::Pairs;

/// Why a query is invalid.
#[derive(Debug)]
pub(crate) enum QueryError {
    /// The error of a value whose parameter is not known yet.
    Value(String),
    Refused(Box<ApiError>),
}

impl QueryError {
    fn refused(name: &str, message: &str) -> Self {
        Self::Refused(Box::new(ApiError::parameter(name, message)))
    }

    /// Adds the name of the parameter.
    fn of(self, name: &str) -> Self {
        match self {
            Self::Value(message) => Self::refused(name, &message),
            refused @ Self::Refused(_) => refused,
        }
    }
}

impl From<QueryError> for ApiError {
    fn from(fault: QueryError) -> Self {
        match fault {
            QueryError::Value(message) => Self::parameter("query string", message),
            QueryError::Refused(refusal) => *refusal,
        }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(message) => f.write_str(message),
            Self::Refused(refusal) => f.write_str(refusal.details.first().map_or("", |detail| &detail.message)),
        }
    }
}

impl std::error::Error for QueryError {}

impl Error for QueryError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Value(message.to_string())
    }

    fn missing_field(name: &'static str) -> Self {
        Self::refused(name, "expected a value")
    }
}

/// How undeclared parameters are handled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undeclared {
    Refused,
    Ignored,
}

/// A query as the fields of a struct.
pub(crate) struct Fields<'a> {
    pairs: &'a Pairs,
    undeclared: Undeclared,
    /// The remaining fields.
    left: std::slice::Iter<'static, &'static str>,
    /// The field whose value comes next.
    name: &'static str,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(pairs: &'a Pairs, undeclared: Undeclared) -> Self {
        Self { pairs, undeclared, left: [].iter(), name: "" }
    }
}

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = QueryError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, QueryError> {
        Err(QueryError::custom("only a struct says which parameters there are"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, QueryError> {
        let undeclared = self.pairs.names().find(|name| self.undeclared == Undeclared::Refused && !fields.contains(name));
        if let Some(name) = undeclared {
            return Err(QueryError::refused(&echo(name), &format!("unknown parameter, expected one of {}", fields.join(", "))));
        }
        visitor.visit_map(Self { left: fields.iter(), ..self })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq
        tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = QueryError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, QueryError> {
        let pairs = self.pairs;
        let Some(name) = self.left.find(|name| pairs.all(name).next().is_some()) else { return Ok(None) };
        self.name = name;
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, QueryError> {
        seed.deserialize(Values { pairs: self.pairs, name: self.name }).map_err(|fault| fault.of(self.name))
    }
}

/// The values of one parameter.
struct Values<'a> {
    pairs: &'a Pairs,
    name: &'static str,
}

impl<'de> Deserializer<'de> for Values<'_> {
    type Error = QueryError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        let mut values = self.pairs.all(self.name);
        let first = values.next().unwrap_or_default();
        if values.next().is_some() {
            return Err(QueryError::custom("it is given twice"));
        }
        visitor.visit_str(first)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_seq(SeqDeserializer::new(self.pairs.all(self.name)))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct tuple
        tuple_struct map struct enum identifier ignored_any
    }
}
