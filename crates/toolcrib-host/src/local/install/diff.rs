//! The changes of an update.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value as Json;
use toolcrib_core::local::LocalManifest;
use toolcrib_core::schema::to_serde;

use crate::local::{ContentHash, EntryKind, FolderEntry, hash_entries};

/// How something changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It is different.
    Changed,
}

/// A file that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// The path within the folder. Untrusted input.
    pub path: String,
    /// How it changed.
    pub change: Change,
    /// Kind and SHA-256 before.
    pub old: Option<FileState>,
    /// Kind and SHA-256 after.
    pub new: Option<FileState>,
}

/// Kind, hash and size of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileState {
    /// Its kind.
    pub kind: EntryKind,
    /// SHA-256 of its content, in hex.
    pub sha256: String,
    /// Its size in bytes.
    pub size: u64,
}

/// A field of the manifest that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// The name of the field. Untrusted input.
    pub field: String,
    /// Its value before.
    pub old: Option<Json>,
    /// Its value after.
    pub new: Option<Json>,
}

/// A function that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionChange {
    /// Its name.
    pub name: String,
    /// How it changed.
    pub change: Change,
    /// The members of the function that changed, such as `description` and `parameters`.
    pub members: Vec<String>,
}

/// The changes of an update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// The content hash before.
    pub old_content: ContentHash,
    /// The content hash after.
    pub new_content: ContentHash,
    /// The version before.
    pub old_version: String,
    /// The version after.
    pub new_version: String,
    /// Files, by path.
    pub files: Vec<FileChange>,
    /// Fields of the manifest other than its functions.
    pub fields: Vec<FieldChange>,
    /// Functions, in the order of their names.
    pub functions: Vec<FunctionChange>,
    /// Functions whose permissions must be granted again. Permissions are bound to the content hash, so after any change these are all
    /// functions.
    pub permissions_asked_again: Vec<String>,
    /// Credentials that must be confirmed again, for the same reason.
    pub credentials_asked_again: Vec<String>,
}

impl Diff {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.old_content == self.new_content
    }

    /// Compares two folders, each given by its entries and its manifest.
    pub(crate) fn of(old: (&[FolderEntry], &LocalManifest), new: (&[FolderEntry], &LocalManifest)) -> Self {
        let (old_content, new_content) = (hash_entries(old.0), hash_entries(new.0));
        let changed = old_content != new_content;
        let asked = |names: Vec<String>| if changed { names } else { Vec::new() };
        Self {
            old_content,
            new_content,
            old_version: old.1.version().to_owned(),
            new_version: new.1.version().to_owned(),
            files: files(old.0, new.0),
            fields: fields(old.1, new.1),
            functions: functions(old.1, new.1),
            permissions_asked_again: asked(new.1.functions().iter().map(|function| function.name().to_owned()).collect()),
            credentials_asked_again: asked(new.1.credentials().iter().map(|credential| credential.name().to_owned()).collect()),
        }
    }
}

/// The sorted keys whose values differ between two maps, with both values.
fn differing<'m, T: PartialEq>(
    old: &'m BTreeMap<String, T>,
    new: &'m BTreeMap<String, T>,
) -> impl Iterator<Item = (String, Option<&'m T>, Option<&'m T>)> {
    let keys: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).cloned().collect();
    keys.into_iter()
        .map(|key| (old.get(&key), new.get(&key), key))
        .filter(|(old, new, _)| old != new)
        .map(|(old, new, key)| (key, old, new))
}

const fn change<T>(old: Option<&T>, new: Option<&T>) -> Change {
    match (old, new) {
        (None, _) => Change::Added,
        (_, None) => Change::Removed,
        _ => Change::Changed,
    }
}

fn files(old: &[FolderEntry], new: &[FolderEntry]) -> Vec<FileChange> {
    let states = |entries: &[FolderEntry]| -> BTreeMap<String, FileState> {
        let state = |entry: &FolderEntry| FileState {
            kind: entry.kind,
            sha256: alloy_primitives::hex::encode(entry.sha256),
            size: entry.size,
        };
        entries.iter().map(|entry| (entry.path.clone(), state(entry))).collect()
    };
    let (old, new) = (states(old), states(new));
    differing(&old, &new)
        .map(|(path, old, new)| FileChange { path, change: change(old, new), old: old.cloned(), new: new.cloned() })
        .collect()
}

fn members(manifest: &LocalManifest) -> BTreeMap<String, Json> {
    match to_serde(manifest.document().root()) {
        Json::Object(members) => members.into_iter().filter(|(key, _)| key != "functions").collect(),
        _ => BTreeMap::new(),
    }
}

fn fields(old: &LocalManifest, new: &LocalManifest) -> Vec<FieldChange> {
    let (old, new) = (members(old), members(new));
    differing(&old, &new).map(|(field, old, new)| FieldChange { field, old: old.cloned(), new: new.cloned() }).collect()
}

fn functions(old: &LocalManifest, new: &LocalManifest) -> Vec<FunctionChange> {
    let by_name = |manifest: &LocalManifest| -> BTreeMap<String, BTreeMap<String, Json>> {
        let functions = match to_serde(manifest.document().root()).get_mut("functions").map(Json::take) {
            Some(Json::Array(functions)) => functions,
            _ => Vec::new(),
        };
        let named = |function: Json| match function {
            Json::Object(members) => Some((members.get("name")?.as_str()?.to_owned(), members.into_iter().collect())),
            _ => None,
        };
        functions.into_iter().filter_map(named).collect()
    };
    let (old, new) = (by_name(old), by_name(new));
    differing(&old, &new)
        .map(|(name, old, new)| {
            let members = match (old, new) {
                (Some(old), Some(new)) => differing(old, new).map(|(member, ..)| member).collect(),
                _ => Vec::new(),
            };
            FunctionChange { name, change: change(old, new), members }
        })
        .collect()
}
