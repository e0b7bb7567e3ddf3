//! The causes that the explainer knows, and their repairs.
//!
//! A cause never contains text of a manifest: labels come from the caller, everything else from this file.

use std::fmt;

use alloy_primitives::B256;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes::{self, Code};

use super::write::UnicodeForm;

/// How a candidate relates to the served file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// Another version of the same manifest: from a git history, or from earlier evidence.
    Version,
    /// The author's own file, which should be served.
    Local,
    /// The manifest of another tool.
    OtherTool,
}

/// Why the hashes differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The served content cannot be the manifest, regardless of the commitment.
    Served(NotAManifest),
    /// The manifest of another tool is served: the candidate with this label.
    ServesOtherTool(String),
    /// The committed value cannot be the hash of a manifest.
    Commitment(OddHash),
    /// Another file was committed, with the correct hash.
    OtherFile {
        /// The label of the candidate.
        label: String,
        /// How it relates to the served file.
        relation: Relation,
    },
    /// A file was hashed incorrectly.
    Recipe {
        /// The label of the candidate; `None` for the served file.
        label: Option<String>,
        /// The mistakes, in order. Never empty.
        slips: Vec<HashMistake>,
    },
}

impl Cause {
    /// The code of the cause; of the first mistake, if there are several.
    pub fn code(&self) -> Code {
        match self {
            Self::Served(what) => what.code(),
            Self::ServesOtherTool(_) => codes::explain::SERVES_OTHER_TOOL,
            Self::Commitment(what) => what.code(),
            Self::OtherFile { relation, .. } => match relation {
                Relation::Version => codes::explain::OLDER_VERSION,
                Relation::Local => codes::explain::LOCAL_FILE,
                Relation::OtherTool => codes::explain::OTHER_TOOL,
            },
            Self::Recipe { slips, .. } => slips.first().map_or(codes::explain::UNEXPLAINED, |slip| slip.code()),
        }
    }

    /// The label of the committed candidate, if it was one.
    pub fn committed(&self) -> Option<&str> {
        match self {
            Self::OtherFile { label, .. } => Some(label),
            Self::Recipe { label, .. } => label.as_deref(),
            _ => None,
        }
    }
}

/// One sentence without full stop. It contains labels unescaped: escape it for display.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Served(_) | Self::Commitment(_) => f.write_str(self.code().title()),
            Self::ServesOtherTool(label) | Self::OtherFile { label, .. } => write!(f, "{}: {label}", self.code().title()),
            Self::Recipe { label, slips } => {
                match label {
                    None => f.write_str("the served manifest was committed")?,
                    Some(label) => write!(f, "{label} was committed")?,
                }
                for (at, slip) in slips.iter().enumerate() {
                    write!(f, "{} {slip}", if at == 0 { "," } else { " and" })?;
                }
                Ok(())
            }
        }
    }
}

/// Why a server's response cannot be the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotAManifest {
    /// Nothing but whitespace.
    Empty,
    /// HTML.
    Html,
    /// A JSON object that reports an error.
    ErrorObject,
    /// Not a JSON object.
    NoObject,
    /// More bytes than a manifest is allowed to have.
    TooLarge,
}

impl NotAManifest {
    const fn code(self) -> Code {
        match self {
            Self::Empty => codes::explain::EMPTY_BODY,
            Self::Html => codes::explain::ERROR_PAGE,
            Self::ErrorObject => codes::explain::ERROR_OBJECT,
            Self::NoObject => codes::explain::NOT_A_MANIFEST,
            Self::TooLarge => codes::explain::TOO_LARGE,
        }
    }
}

/// A committed value that cannot be the hash of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OddHash {
    /// All zeros.
    Zero,
    /// A small number, or one byte repeated.
    Placeholder,
    /// The hash of the empty string, of `{}` or of `null`.
    OfNothing,
    /// The hash of the text of metadataURI.
    OfUri,
}

impl OddHash {
    const fn code(self) -> Code {
        match self {
            Self::Zero => codes::explain::ZERO,
            Self::Placeholder => codes::explain::PLACEHOLDER,
            Self::OfNothing => codes::explain::OF_EMPTY_INPUT,
            Self::OfUri => codes::explain::OF_URI,
        }
    }
}

/// One mistake when a file was hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HashMistake {
    /// A byte-order mark at the start of the file was removed before parsing it as JSON.
    MarkDropped,
    /// Of duplicate members only the last was kept.
    DuplicatesDropped,
    /// Members that the standard does not define were removed.
    FieldsStripped {
        /// Also in nested objects.
        nested: bool,
    },
    /// The type of version 1 was inserted.
    TypeInjected,
    /// The type was replaced by this one.
    TypeReplaced(&'static str),
    /// The type was removed.
    TypeRemoved,
    /// Addresses were spelled differently.
    HexCase(HexSites, HexSpelling),
    /// Texts had another normalisation form.
    Unicode(UnicodeForm),
    /// Numbers were not in canonical form.
    Numbers,
    /// The unmodified bytes of the file were hashed.
    RawBytes,
    /// As [`RawBytes`](Self::RawBytes), but with other line endings, or with or without one at the end.
    LineEnds,
    /// As [`RawBytes`](Self::RawBytes), but with a byte-order mark added or removed.
    Mark,
    /// It was serialised with this indentation, in the order of the file.
    Indented(&'static str),
    /// It was serialised without spaces, in the order of the file.
    Minified,
    /// Members were sorted at the root only.
    RootSorted,
    /// Members were sorted by passing their names to `JSON.stringify`, which drops all others at every level.
    RootNames,
    /// It was serialised by Python.
    Python {
        /// With sorted members.
        sorted: bool,
        /// With everything outside ASCII escaped.
        ascii: bool,
    },
    /// A line ending was appended.
    FinalNewline,
    /// SHA-256 was used.
    Sha256,
    /// SHA3-256 was used.
    Sha3,
    /// The bytes were converted to hexadecimal text first.
    HexText,
    /// The hash was hashed again.
    Twice,
    /// The text was ABI-encoded first.
    AbiEncoded,
}

impl HashMistake {
    /// The code of this mistake.
    pub const fn code(self) -> Code {
        match self {
            Self::MarkDropped | Self::Mark => codes::explain::BYTE_ORDER_MARK,
            Self::DuplicatesDropped => codes::explain::DUPLICATE_KEYS,
            Self::FieldsStripped { .. } => codes::explain::FIELDS_STRIPPED,
            Self::TypeInjected => codes::explain::TYPE_INJECTED,
            Self::TypeReplaced(_) => codes::explain::TYPE_PLACEHOLDER,
            Self::TypeRemoved => codes::explain::TYPE_REMOVED,
            Self::HexCase(..) => codes::explain::HEX_CASE,
            Self::Unicode(_) => codes::explain::UNICODE_FORM,
            Self::Numbers => codes::explain::NUMBERS,
            Self::RawBytes => codes::explain::RAW_BYTES,
            Self::LineEnds => codes::explain::LINE_ENDS,
            Self::Indented(_) => codes::explain::PRETTY_PRINTED,
            Self::Minified => codes::explain::MINIFIED,
            Self::RootSorted => codes::explain::ROOT_SORTED,
            Self::RootNames => codes::explain::ROOT_NAMES,
            Self::Python { .. } => codes::explain::PYTHON,
            Self::FinalNewline => codes::explain::FINAL_NEWLINE,
            Self::Sha256 => codes::explain::SHA256,
            Self::Sha3 => codes::explain::SHA3_256,
            Self::HexText => codes::explain::HEX_TEXT,
            Self::Twice => codes::explain::TWICE,
            Self::AbiEncoded => codes::explain::ABI_ENCODED,
        }
    }

    /// Whether it changes the content, so that the result is another document with its own canonical form.
    pub(super) const fn is_content(self) -> bool {
        matches!(
            self,
            Self::MarkDropped
                | Self::DuplicatesDropped
                | Self::FieldsStripped { .. }
                | Self::TypeInjected
                | Self::TypeReplaced(_)
                | Self::TypeRemoved
                | Self::HexCase(..)
                | Self::Unicode(_)
        )
    }
}

impl fmt::Display for HashMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MarkDropped => f.write_str("without its byte-order mark"),
            Self::DuplicatesDropped => f.write_str("with the last of duplicate keys"),
            Self::FieldsStripped { nested: false } => f.write_str("without fields that the standard does not define"),
            Self::FieldsStripped { nested: true } => {
                f.write_str("without fields that the standard does not define, at every level")
            }
            Self::TypeInjected => f.write_str("with `type` filled in"),
            Self::TypeReplaced(kind) => write!(f, "with the `type` {kind}"),
            Self::TypeRemoved => f.write_str("without its `type`"),
            Self::HexCase(sites, spelling) => write!(f, "with {sites} {spelling}"),
            Self::Unicode(UnicodeForm::Nfc) => f.write_str("with composed letters (NFC)"),
            Self::Unicode(UnicodeForm::Nfd) => f.write_str("with decomposed letters (NFD)"),
            Self::Numbers => f.write_str("with numbers as spelled in the file"),
            Self::RawBytes => f.write_str("byte for byte"),
            Self::LineEnds => f.write_str("byte for byte, with other line endings"),
            Self::Mark => f.write_str("byte for byte, but for a byte-order mark"),
            Self::Indented("\t") => f.write_str("indented by tabs"),
            Self::Indented(indent) => write!(f, "indented by {} spaces", indent.len()),
            Self::Minified => f.write_str("minified, in the original key order"),
            Self::RootSorted => f.write_str("with only the top-level keys sorted"),
            Self::RootNames => f.write_str("with only those nested keys that also exist at the top level"),
            Self::Python { sorted, ascii } => {
                f.write_str("as json.dumps of Python writes it")?;
                f.write_str(if *sorted { " with sort_keys" } else { "" })?;
                f.write_str(if *ascii { "" } else { " without ensure_ascii" })
            }
            Self::FinalNewline => f.write_str("with a trailing newline"),
            Self::Sha256 => f.write_str("with SHA-256"),
            Self::Sha3 => f.write_str("with SHA3-256"),
            Self::HexText => f.write_str("as hexadecimal text"),
            Self::Twice => f.write_str("hashed twice"),
            Self::AbiEncoded => f.write_str("ABI-encoded"),
        }
    }
}

/// A set of addresses in a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HexSites {
    /// All.
    All,
    /// `creatorAddress`.
    Creator,
    /// Those in `pricing`.
    Pricing,
    /// The address in `asset` or `recipient` of one entry of `pricing`, counted from 0.
    Price(usize),
    /// `kind` and `data` of the requirements in `access`.
    Access,
}

impl fmt::Display for HexSites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all addresses"),
            Self::Creator => f.write_str("creatorAddress"),
            Self::Pricing => f.write_str("the addresses of pricing"),
            Self::Price(index) => write!(f, "an address of pricing/{index}"),
            Self::Access => f.write_str("the requirements of access"),
        }
    }
}

/// The spelling of hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HexSpelling {
    /// In lower case, as in correct manifests.
    Lower,
    /// With an ERC-55 checksum.
    Checksummed,
    /// In upper case.
    Upper,
}

impl fmt::Display for HexSpelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lower => "in lower case",
            Self::Checksummed => "with their checksum",
            Self::Upper => "in upper case",
        })
    }
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// Nothing: the hashes agree.
    Nothing,
    /// Commit the hash of the served manifest.
    UpdateOnchain {
        /// Its correct hash.
        correct_hash: B256,
        /// Whether readers would also reject the served manifest for other reasons, so that those must be fixed first.
        lint_first: bool,
    },
    /// Fix the served manifest: it then matches the commitment, and no transaction is needed.
    MendServed,
    /// Serve the committed version.
    ServeCommitted {
        /// The label of the candidate.
        label: String,
    },
    /// Make the server send the manifest.
    FixServer {
        /// The label of the committed candidate, if it is known.
        label: Option<String>,
    },
    /// Check the tool reference: the tool has no commitment.
    CheckReference,
}

impl Repair {
    /// The commands to run, one after the other, or those that show whether the repair is done.
    ///
    /// `file` is the path of the manifest, quoted for the shell by the caller. Apart from it, commands contain only the reference: no text
    /// of a manifest and no label.
    pub fn commands(&self, reference: Option<&ToolRef>, file: Option<&str>) -> Vec<String> {
        let tool = reference.map_or_else(|| "TOOL".to_owned(), ToolRef::to_string);
        let file = file.unwrap_or("FILE");
        let mend = || format!("toolcrib lint {file} --fix");
        let verify = || format!("toolcrib verify {tool}");
        match self {
            Self::Nothing => Vec::new(),
            Self::UpdateOnchain { lint_first, .. } => {
                let update = format!("toolcrib update {tool} --manifest {file}");
                if *lint_first { vec![mend(), update] } else { vec![update] }
            }
            Self::MendServed => vec![mend(), verify()],
            Self::ServeCommitted { .. } | Self::FixServer { .. } => vec![verify()],
            Self::CheckReference => vec![format!("toolcrib inspect {tool}")],
        }
    }
}

/// One sentence without full stop. It contains labels unescaped: escape it for display.
impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing to do"),
            Self::UpdateOnchain { correct_hash, lint_first: false } => {
                write!(f, "commit {correct_hash}, the hash of the served manifest")
            }
            Self::UpdateOnchain { lint_first: true, .. } => {
                f.write_str("fix the served manifest, which readers refuse in any case, and commit its hash")
            }
            Self::MendServed => f.write_str("fix the served manifest; it then matches the committed hash"),
            Self::ServeCommitted { label } => write!(f, "serve {label}, whose hash is committed"),
            Self::FixServer { label: Some(label) } => write!(f, "make the server send {label}, whose hash is committed"),
            Self::FixServer { label: None } => f.write_str("make the server send the manifest"),
            Self::CheckReference => f.write_str("check the tool id and the chain"),
        }
    }
}
