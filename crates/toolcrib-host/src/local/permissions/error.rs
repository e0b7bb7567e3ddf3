//! Errors of permissions.

use std::path::PathBuf;

use thiserror::Error;
use toolcrib_core::codes::{self, Code};

use super::{MAX_RULES, RuleId};
use crate::local::StateFileError;

/// An error of the permissions. A call that causes one is not made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PermissionError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// A rule that cannot be stored.
    #[error("the rule is not valid: {0}")]
    Rule(String),
    /// No rule has this id.
    #[error("rule {0} does not exist")]
    NotFound(RuleId),
    /// The rule comes from the policy file and cannot be changed.
    #[error("the rule {0} comes from the policy file")]
    ReadOnly(RuleId),
    /// The file is full.
    #[error("the permissions hold the most rules that they may: {MAX_RULES}, in at most {} bytes", super::MAX_FILE_BYTES)]
    TooMany,
    /// The policy file is invalid.
    #[error("the policy is not valid: {0}")]
    Policy(String),
    /// The permissions file has an unexpected format.
    #[error("{} cannot be read: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl PermissionError {
    /// The code of this error.
    pub const fn code(&self) -> Code {
        use codes::permission as code;
        match self {
            Self::File(StateFileError::Busy { .. }) => code::BUSY,
            Self::File(StateFileError::Exposed { .. } | StateFileError::Owner { .. }) => code::EXPOSED,
            Self::File(StateFileError::TooLarge { .. } | StateFileError::NotRegular { .. }) | Self::Malformed { .. } => {
                code::MALFORMED
            }
            Self::File(StateFileError::Io { .. }) => code::STORAGE,
            Self::Rule(_) => code::RULE_INVALID,
            Self::NotFound(_) => code::RULE_NOT_FOUND,
            Self::ReadOnly(_) => code::RULE_READ_ONLY,
            Self::TooMany => code::TOO_MANY,
            Self::Policy(_) => code::POLICY,
        }
    }
}
