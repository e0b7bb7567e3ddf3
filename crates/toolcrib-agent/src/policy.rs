//! A reader's requirements beyond the specification.

use alloy_primitives::Address;
use toolcrib_chain::fns::{FNS_CHAIN_ID, FNS_REGISTRY};
use toolcrib_core::agent::MAX_CLOCK_SKEW_SECONDS;

/// The requirements for judging evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentPolicy {
    /// What to do with a manifest that is older than one verified before.
    pub rollback: Reaction,
    /// What to do with legacy records of a name that had a verified manifest.
    pub downgrade: Reaction,
    /// Accept the signature of a contract that owns the name (ERC-1271). An extension of the specification.
    pub allow_contract_owner: bool,
    /// Whether the owner must have been read onchain. Otherwise nothing is verified: use this for previews.
    pub require_onchain: bool,
    /// Use only TXT responses secured by DNSSEC.
    pub require_dnssec: bool,
    /// Number of seconds that `created_at` may be ahead of the reader's clock without a finding.
    pub max_clock_skew: u32,
    /// The chain of the registry.
    pub chain_id: u64,
    /// The registry of owners.
    pub registry: Address,
}

/// What to do about something suspicious that is not forbidden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reaction {
    /// Nothing.
    Off,
    /// Report a finding.
    #[default]
    Warn,
    /// Report a finding and reject the manifest.
    Fail,
}

impl Reaction {
    /// Parses `off`, `warn` or `fail`.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "off" => Some(Self::Off),
            "warn" => Some(Self::Warn),
            "fail" => Some(Self::Fail),
            _ => None,
        }
    }
}

impl Default for AgentPolicy {
    /// The rules of the specification, with a warning about rollbacks, and rejection of downgrades: legacy records are never verified, so
    /// nothing is lost by rejecting those of a name that had a manifest.
    fn default() -> Self {
        Self {
            rollback: Reaction::Warn,
            downgrade: Reaction::Fail,
            allow_contract_owner: false,
            require_onchain: true,
            require_dnssec: false,
            max_clock_skew: DEFAULT_CLOCK_SKEW,
            chain_id: FNS_CHAIN_ID,
            registry: FNS_REGISTRY,
        }
    }
}

impl AgentPolicy {
    /// A policy for previews without a chain: the result is never verified.
    pub fn preview() -> Self {
        Self { require_onchain: false, ..Self::default() }
    }
}

/// The same value as in the linter.
const DEFAULT_CLOCK_SKEW: u32 = MAX_CLOCK_SKEW_SECONDS as u32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reactions_have_words() {
        assert_eq!(Reaction::parse("off"), Some(Reaction::Off));
        assert_eq!(Reaction::parse("warn"), Some(Reaction::Warn));
        assert_eq!(Reaction::parse("fail"), Some(Reaction::Fail));
        assert_eq!(Reaction::parse("Fail"), None);
        assert_eq!(Reaction::parse(""), None);
    }
}
