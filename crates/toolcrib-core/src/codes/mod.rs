//! The table of codes.
//!
//! Every finding and every error that Toolcrib reports has one of these. A code is lowercase dotted words, is declared once, and is never
//! reused for something else: retire it instead. `docs/codes.md` is generated from this table.

use std::fmt;

use crate::finding::Severity;

pub mod access;
pub mod agent;
pub mod amount;
pub mod attestation;
pub mod audit;
pub mod author;
pub mod bazaar;
pub mod caip;
pub mod call;
pub mod chain;
pub mod cli;
pub mod core;
pub mod devchain;
pub mod directory;
pub mod drift;
pub mod explain;
pub mod export;
pub mod fetch;
pub mod gate;
pub mod host;
pub mod index;
pub mod install;
pub mod json;
pub mod local;
pub mod manifest;
pub mod mcp;
pub mod objects;
pub mod payment;
pub mod permission;
pub mod pin;
pub mod predicate;
pub mod probe;
pub mod replica;
pub mod sandbox;
pub mod schema;
pub mod secret;
pub mod settlement;
pub mod sign_in;
pub mod spend;
pub mod store;
pub mod takeover;
pub mod tool;
pub mod url;
pub mod usage;
pub mod verify;
pub mod wallet;
pub mod x402;

/// The metadata of a code.
#[derive(Debug)]
pub struct CodeInfo {
    /// The code itself, such as `manifest.type_unknown`.
    pub id: &'static str,
    /// The severity, unless a finding overrides it.
    pub severity: Severity,
    /// One line: what is wrong.
    pub title: &'static str,
    /// The document and section that define the rule.
    pub spec: &'static str,
    /// Why the rule exists and what happens if it is broken.
    pub explanation: &'static str,
    /// The recommended next step.
    pub hint: &'static str,
    /// The step of ERC-8257 §7 consumer verification that such a manifest fails, if any.
    pub check: Option<u8>,
}

/// A code from the table. Two codes are equal when their ids are.
#[derive(Clone, Copy)]
pub struct Code(&'static CodeInfo);

impl Code {
    /// A code with this metadata. Only the tables of this module create codes.
    const fn new(info: &'static CodeInfo) -> Self {
        Self(info)
    }

    /// Looks a code up by its id.
    pub fn find(id: &str) -> Option<Self> {
        all().find(|code| code.id() == id)
    }

    /// The code itself.
    pub const fn id(self) -> &'static str {
        self.0.id
    }

    /// The default severity.
    pub const fn severity(self) -> Severity {
        self.0.severity
    }

    /// One line: what is wrong.
    pub const fn title(self) -> &'static str {
        self.0.title
    }

    /// The metadata of the code.
    pub const fn info(self) -> &'static CodeInfo {
        self.0
    }
}

impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Code {}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({})", self.id())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// All codes, group by group.
pub fn all() -> impl Iterator<Item = Code> {
    [
        core::ALL,
        json::ALL,
        manifest::ALL,
        url::ALL,
        verify::ALL,
        caip::ALL,
        amount::ALL,
        schema::ALL,
        tool::ALL,
        attestation::ALL,
        agent::ALL,
        bazaar::ALL,
        local::ALL,
        host::ALL,
        sandbox::ALL,
        permission::ALL,
        secret::ALL,
        audit::ALL,
        install::ALL,
        export::ALL,
        author::ALL,
        chain::ALL,
        predicate::ALL,
        access::ALL,
        takeover::ALL,
        pin::ALL,
        drift::ALL,
        x402::ALL,
        objects::ALL,
        payment::ALL,
        settlement::ALL,
        sign_in::ALL,
        usage::ALL,
        probe::ALL,
        wallet::ALL,
        cli::ALL,
        devchain::ALL,
        fetch::ALL,
        gate::ALL,
        explain::ALL,
        index::ALL,
        directory::ALL,
        mcp::ALL,
        store::ALL,
        replica::ALL,
        call::ALL,
        spend::ALL,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// Declares the codes of a group and its `ALL` table.
macro_rules! codes {
    ($( $name:ident = $id:literal, $severity:ident $(, check $check:literal)?, $spec:literal {
        $title:literal, $explanation:literal, $hint:literal $(,)?
    } )*) => {
        $(
            #[doc = $title]
            pub const $name: $crate::codes::Code = $crate::codes::Code::new(&$crate::codes::CodeInfo {
                id: $id,
                severity: $crate::finding::Severity::$severity,
                title: $title,
                spec: $spec,
                explanation: $explanation,
                hint: $hint,
                check: $crate::codes::codes!(@check $($check)?),
            });
        )*
        /// The codes of this group, in the order of the table.
        pub const ALL: &[$crate::codes::Code] = &[$($name),*];
    };
    (@check) => { None };
    (@check $check:literal) => { Some($check) };
}
use codes;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_well_formed() {
        let mut seen = HashSet::new();
        for code in all() {
            let id = code.id();
            assert!(seen.insert(id), "{id} is declared twice");
            let parts: Vec<_> = id.split('.').collect();
            assert_eq!(parts.len(), 2, "{id}: one group, one name");
            for part in parts {
                assert!(!part.is_empty(), "{id}");
                assert!(part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{id}");
            }
            assert_eq!(Code::find(id), Some(code));
        }
        assert!(Code::find("json.no_such_code").is_none());
    }

    #[test]
    fn every_code_explains_itself() {
        for code in all() {
            let info = code.info();
            for text in [info.title, info.spec, info.explanation, info.hint] {
                assert!(!text.trim().is_empty(), "{code} lacks a text");
            }
            assert!(!info.title.ends_with('.'), "{code}: a title is not a sentence with a full stop");
            assert!(
                info.title.starts_with(|c: char| !c.is_uppercase()) || info.title.starts_with("JSON"),
                "{code}: titles start lowercase"
            );
            assert!(info.explanation.ends_with('.'), "{code}: an explanation is made of sentences");
        }
    }
}
