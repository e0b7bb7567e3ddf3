//! Positional parameters.

use alloy_primitives::U256;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::RpcError;

/// The parameters of one request, taken from the front.
#[derive(Debug)]
pub(crate) struct Params {
    values: std::vec::IntoIter<Value>,
    taken: usize,
}

impl Params {
    /// Parses the parameters: a list, or absent.
    pub(crate) fn new(value: Option<Value>) -> Result<Self, RpcError> {
        let values = match value {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(values)) => values,
            Some(_) => return Err(RpcError::params("params must be an array")),
        };
        Ok(Self { values: values.into_iter(), taken: 0 })
    }

    /// The next parameter, which is required.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Result<T, RpcError> {
        let place = self.taken;
        match self.raw() {
            None => Err(RpcError::params(format!("missing value for required argument {place}"))),
            Some(value) => read(value, place),
        }
    }

    /// The next parameter; `None` if it is missing or null.
    pub(crate) fn optional<T: DeserializeOwned>(&mut self) -> Result<Option<T>, RpcError> {
        let place = self.taken;
        match self.raw() {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(value, place).map(Some),
        }
    }

    /// The next parameter, undecoded.
    pub(crate) fn raw(&mut self) -> Option<Value> {
        self.taken += 1;
        self.values.next()
    }
}

fn read<T: DeserializeOwned>(value: Value, place: usize) -> Result<T, RpcError> {
    T::deserialize(value).map_err(|error| RpcError::params(format!("invalid argument {place}: {error}")))
}

/// A number in any notation that tools use: `5`, `"5"`, `"0x5"`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loose(pub(crate) U256);

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        U256::deserialize(deserializer).map(Self)
    }
}

impl Loose {
    /// As a 64-bit number.
    pub(crate) fn u64(self) -> Result<u64, RpcError> {
        u64::try_from(self.0).map_err(|_| RpcError::params(format!("{} is too large", self.0)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_come_in_three_ways() {
        for value in [json!(255), json!("255"), json!("0xff"), json!("0x00ff")] {
            let mut params = Params::new(Some(json!([value]))).unwrap();
            assert_eq!(params.next::<Loose>().unwrap().u64().unwrap(), 255, "{value}");
        }
        for value in [json!(-1), json!("x"), json!([]), json!(1.5)] {
            let mut params = Params::new(Some(json!([value]))).unwrap();
            assert_eq!(params.next::<Loose>().unwrap_err().code, -32602, "{value}");
        }
        let mut params = Params::new(Some(json!(["0x10000000000000000"]))).unwrap();
        assert!(params.next::<Loose>().unwrap().u64().is_err());
    }

    #[test]
    fn parameters_are_a_list() {
        assert_eq!(Params::new(Some(json!({}))).unwrap_err().code, -32602);
        assert!(Params::new(None).unwrap().next::<u64>().unwrap_err().message.contains("missing value for required argument 0"));
        assert_eq!(Params::new(Some(json!([null]))).unwrap().optional::<u64>().unwrap(), None);
    }
}
