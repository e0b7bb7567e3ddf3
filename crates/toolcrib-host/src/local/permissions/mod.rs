//! Permissions: which function may be called with which arguments, bound to the content of its tool.
//!
//! A [`Request`] is compared with all [`Rule`]s, and the [`Verdict`] is allow, ask or deny:
//!
//! 1. A matching **deny** rule wins over everything, whatever its arguments and age.
//! 2. Else a matching **allow** rule of the same content hash wins. One for another content hash never counts.
//! 3. Else the verdict is **ask** if a person can be asked, and **deny** if not. That holds for explicit ask rules, for changed tools, for
//!    arguments that no allow rule covers, and for tools without rules.
//!
//! A rule with more argument patterns has no precedence: what a deny rule covers cannot be allowed by a longer rule.
//!
//! Rules come from three places: `permissions.json` (approvals "always", private, replaced atomically under a lock), this process (approvals
//! "once" and "for this session"), and an optional [`Policy`] file of an operator, for hosts without a person:
//!
//! ```
//! use toolcrib_host::local::permissions::Policy;
//!
//! let policy: Policy = r#"
//! version = 1
//!
//! [[rule]]
//! tool = "datetime"              # "*" for every tool
//! decision = "allow"             # allow, ask or deny
//! content = "any"                # or "sha256:…"; allow rules must have it
//!
//! [[rule]]
//! tool = "shell"
//! function = "execute"           # left out: every function
//! decision = "allow"
//! content = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
//! expires = "2030-01-01T00:00:00Z"
//! arguments = [
//!     { pointer = "/command", one_of = ["git status", "git log"] },
//!     { pointer = "/cwd", within = "/home/ann/work" },
//!     { pointer = "/timeout", max = 60000 },
//! ]
//!
//! [[rule]]
//! tool = "*"
//! function = "delete"
//! decision = "deny"
//! "#.parse().unwrap();
//! assert_eq!(policy.rules().len(), 3);
//! ```
//!
//! Argument patterns compare JSON values with JSON values and convert nothing. They know nothing about shells: `glob = "git *"` also matches
//! `git status; rm -rf ~`. Prefer `equals` and `one_of` for commands, and let the sandbox limit what a command can reach.

mod decide;
mod definition;
mod error;
mod pattern;
mod policy;
mod rule;
mod store;

pub use decide::{Reason, Request, Verdict};
pub use definition::{Changed, Definition, MAX_DESCRIPTION_BYTES};
pub use error::PermissionError;
pub use pattern::{ArgumentPattern, MAX_CHOICES, MAX_PATTERN_BYTES, MAX_POINTER_BYTES, Matcher};
pub use policy::{MAX_POLICY_BYTES, MAX_POLICY_RULES, Policy};
pub use rule::{Decision, Grant, Lifetime, MAX_PATTERNS, Rule, RuleId};
pub use store::{MAX_FILE_BYTES, MAX_RULES, PERMISSIONS_FILE, Permissions};
