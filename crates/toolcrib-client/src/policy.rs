//! The spend policy: what is paid without approval, what needs approval, and what is never paid.

use alloy_primitives::Address;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::url::Origin;

use crate::ledger::Spend;
use crate::{SpendError, Usdc};

/// Limits on spending. Amounts are dollars of USDC over all chains; times are the last hour and the last 24 hours, not calendar days.
///
/// The defaults let an agent try tools: a call costs at most 0.10 (what stock clients allow), an hour 0.50, a day 1.00, one recipient or
/// tool a day 0.50, and above 0.02 approval is needed. All lists are empty. In settings:
///
/// ```
/// let policy: toolcrib_client::SpendPolicy = toml::from_str(r#"
///     per_call = "0.25"
///     per_day = "5"
///     ask_above = "0.05"
///     deny_recipients = ["0x000000000000000000000000000000000000dead"]
/// "#).unwrap();
/// assert_eq!(policy.per_call.to_string(), "0.25");
/// assert_eq!(policy.per_hour, toolcrib_client::SpendPolicy::default().per_hour);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SpendPolicy {
    /// The most that one call may cost. Consent does not raise it.
    pub per_call: Usdc,
    /// The most in the last hour.
    pub per_hour: Usdc,
    /// The most in the last 24 hours.
    pub per_day: Usdc,
    /// The most to one recipient in the last 24 hours.
    pub per_recipient_day: Usdc,
    /// The most for one tool in the last 24 hours; for a URL without a manifest, for its origin.
    pub per_tool_day: Usdc,
    /// The most in one token of one chain in the last 24 hours.
    pub per_asset_day: Usdc,
    /// Amounts above this need approval.
    pub ask_above: Usdc,
    /// Whether a proof of identity, which moves no money, needs approval. By default it does not, except in the command line.
    pub ask_identity: Option<bool>,
    /// Only these recipients are paid; all if absent.
    pub allow_recipients: Option<Vec<Address>>,
    /// These recipients are never paid.
    pub deny_recipients: Vec<Address>,
    /// Only these tools are paid for; all if absent.
    #[serde(with = "texts::optional")]
    pub allow_tools: Option<Vec<ToolRef>>,
    /// These tools are never paid for.
    #[serde(with = "texts")]
    pub deny_tools: Vec<ToolRef>,
    /// Only servers of these origins are paid; all if absent.
    #[serde(with = "texts::optional")]
    pub allow_origins: Option<Vec<Origin>>,
    /// Servers of these origins are never paid.
    #[serde(with = "texts")]
    pub deny_origins: Vec<Origin>,
    /// Only payments on these chains are signed; all built-in chains if absent.
    pub chains: Option<Vec<u64>>,
}

impl Default for SpendPolicy {
    fn default() -> Self {
        Self {
            per_call: Usdc::micro(100_000),
            per_hour: Usdc::micro(500_000),
            per_day: Usdc::micro(1_000_000),
            per_recipient_day: Usdc::micro(500_000),
            per_tool_day: Usdc::micro(500_000),
            per_asset_day: Usdc::micro(1_000_000),
            ask_above: Usdc::micro(20_000),
            ask_identity: None,
            allow_recipients: None,
            deny_recipients: Vec::new(),
            allow_tools: None,
            deny_tools: Vec::new(),
            allow_origins: None,
            deny_origins: Vec::new(),
            chains: None,
        }
    }
}

impl SpendPolicy {
    /// Checks the lists and the limit for one call. Budgets need the ledger.
    pub fn check(&self, spend: &Spend) -> Result<(), SpendError> {
        if self.deny_recipients.contains(&spend.recipient) || lacks(self.allow_recipients.as_deref(), &spend.recipient) {
            return Err(SpendError::Recipient { recipient: spend.recipient });
        }
        let tool_is_out = match &spend.tool {
            Some(tool) => self.deny_tools.contains(tool) || lacks(self.allow_tools.as_deref(), tool),
            // With a list of tools, a URL without a manifest is not allowed.
            None => self.allow_tools.is_some(),
        };
        if tool_is_out {
            return Err(SpendError::Tool { tool: spend.tool });
        }
        if self.deny_origins.contains(&spend.origin) || lacks(self.allow_origins.as_deref(), &spend.origin) {
            return Err(SpendError::Origin { origin: spend.origin.to_string() });
        }
        if lacks(self.chains.as_deref(), &spend.chain) {
            return Err(SpendError::Chain { chain: spend.chain });
        }
        if spend.amount > self.per_call {
            return Err(SpendError::PerCall { amount: spend.amount, limit: self.per_call });
        }
        Ok(())
    }

    /// Whether an amount needs approval.
    pub fn asks(&self, amount: Usdc) -> bool {
        amount > self.ask_above
    }
}

/// Whether there is a list, and `item` is not on it.
fn lacks<T: PartialEq>(list: Option<&[T]>, item: &T) -> bool {
    list.is_some_and(|list| !list.contains(item))
}

/// Serialises lists of references and origins as lists of strings.
mod texts {
    use super::{Deserialize, Deserializer, Origin, Serialize, Serializer, ToolRef};
    use std::fmt::Display;

    pub(super) trait Text: Display + Sized {
        const EXPECTED: &'static str;
        fn read(text: &str) -> Option<Self>;
    }

    impl Text for ToolRef {
        const EXPECTED: &'static str = "eip155:<chain>/erc8257:<registry>/<id>";
        fn read(text: &str) -> Option<Self> {
            Self::parse(text).ok()
        }
    }

    impl Text for Origin {
        const EXPECTED: &'static str = "https://<host>";
        fn read(text: &str) -> Option<Self> {
            Self::parse(text).ok()
        }
    }

    pub(super) fn serialize<T: Text, S: Serializer>(list: &[T], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().map(ToString::to_string))
    }

    pub(super) fn deserialize<'de, T: Text, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
        read::<T, D>(Vec::<String>::deserialize(deserializer)?)
    }

    fn read<'de, T: Text, D: Deserializer<'de>>(texts: Vec<String>) -> Result<Vec<T>, D::Error> {
        let wrong = || super::custom::<D>(T::EXPECTED);
        texts.iter().map(|text| T::read(text).ok_or_else(wrong)).collect()
    }

    pub(super) mod optional {
        use super::{Deserialize, Deserializer, Serialize, Serializer, Text};

        pub(in super::super) fn serialize<T: Text, S: Serializer>(list: &Option<Vec<T>>, to: S) -> Result<S::Ok, S::Error> {
            list.as_ref().map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>()).serialize(to)
        }

        pub(in super::super) fn deserialize<'de, T: Text, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<T>>, D::Error> {
            Option::<Vec<String>>::deserialize(from)?.map(super::read::<T, D>).transpose()
        }
    }
}

fn custom<'de, D: Deserializer<'de>>(expected: &str) -> D::Error {
    D::Error::custom(format_args!("expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend() -> Spend {
        Spend {
            tool: ToolRef::parse("eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7").ok(),
            origin: Origin::parse("https://tools.example.com").unwrap(),
            chain: 8453,
            asset: Address::repeat_byte(1),
            recipient: Address::repeat_byte(2),
            payer: Address::repeat_byte(3),
            amount: Usdc::micro(100_000),
        }
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut SpendPolicy), code: &str) {
        let mut policy = SpendPolicy::default();
        change(&mut policy);
        assert_eq!(policy.check(&spend()).unwrap_err().code().id(), code);
    }

    #[test]
    fn lists_and_the_cap_of_a_call() {
        assert!(SpendPolicy::default().check(&spend()).is_ok());
        refused(|policy| policy.per_call = Usdc::micro(99_999), "spend.per_call");
        refused(|policy| policy.deny_recipients = vec![spend().recipient], "spend.recipient");
        refused(|policy| policy.allow_recipients = Some(Vec::new()), "spend.recipient");
        refused(|policy| policy.deny_tools = vec![spend().tool.unwrap()], "spend.tool");
        refused(|policy| policy.allow_tools = Some(Vec::new()), "spend.tool");
        refused(|policy| policy.deny_origins = vec![spend().origin], "spend.origin");
        refused(|policy| policy.allow_origins = Some(Vec::new()), "spend.origin");
        refused(|policy| policy.chains = Some(vec![1]), "spend.chain");
        let listed = SpendPolicy { allow_tools: Some(vec![spend().tool.unwrap()]), ..SpendPolicy::default() };
        assert!(listed.check(&spend()).is_ok());
        assert!(listed.check(&Spend { tool: None, ..spend() }).is_err(), "a URL is no listed tool");
    }

    #[test]
    fn amounts_are_asked_about_above_a_threshold() {
        let policy = SpendPolicy { ask_above: Usdc::micro(20_000), ..SpendPolicy::default() };
        for (amount, is_asked) in [(0, false), (19_999, false), (20_000, false), (20_001, true), (u32::MAX.into(), true)] {
            assert_eq!(policy.asks(Usdc::micro(amount)), is_asked, "{amount}");
        }
    }

    #[test]
    fn settings_there_and_back() {
        let policy = SpendPolicy {
            allow_tools: Some(vec![spend().tool.unwrap()]),
            deny_origins: vec![spend().origin],
            ..SpendPolicy::default()
        };
        let text = toml::from_str::<SpendPolicy>(&serde_json::to_string(&policy).unwrap());
        assert!(text.is_err(), "JSON is no TOML");
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<SpendPolicy>(&json).unwrap(), policy, "{json}");
        for wrong in
            ["per_call = 0.1", "per_call = \"-1\"", "deny_tools = [\"7\"]", "deny_origins = [\"tools\"]", "per_week = \"1\""]
        {
            assert!(toml::from_str::<SpendPolicy>(wrong).is_err(), "{wrong}");
        }
    }
}
