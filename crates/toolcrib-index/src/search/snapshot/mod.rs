//! Search snapshots in an object store: a new process begins with one instead of reading the whole database.
//!
//! ```text
//! <database>/snapshots/<format>/latest.json     the manifest: what the snapshot is, its cursor, its files with sizes and hashes
//! <database>/snapshots/<format>/files/<sha256>  files of the engine, named by their content
//! ```
//!
//! Files never change, so a snapshot uploads only files that the previous one did not have. The manifest is replaced last, and only if it
//! is still the one that the publisher read: a publisher that was overtaken, or that died, leaves the existing snapshot. Files of the
//! previous snapshot are kept for an hour, for readers in progress.
//!
//! A reader checks a snapshot before it is used: format, schema, database, position in the feed, number and sizes of files, every hash. A
//! snapshot that does not match is logged with a code, and search is built from the database.

mod fetch;
mod manifest;
mod publish;

pub use publish::{PublishOptions, Published, Publisher};

pub(super) use fetch::fetch;

use tantivy::schema::Schema;
use toolcrib_store::objects::{Objects, hash_of, name_of};

use crate::{Error, Index};

/// The location of snapshots. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Snapshots {
    objects: Objects,
}

impl Snapshots {
    /// Creates a location in an object store, next to the evidence of the same database.
    pub const fn new(objects: Objects) -> Self {
        Self { objects }
    }

    /// Returns the part of the store for one database, and one format with its schema.
    async fn place(&self, index: &Index, format: &str, schema: &Schema) -> Result<SnapshotLocation, Error> {
        let identity = alloy_primitives::hex::encode(index.identity().await?);
        let schema = serde_json::to_vec(schema).map_err(|_| Error::Corrupt { what: "schema of search" })?;
        let schema = name_of(&hash_of(&schema));
        let folder = name_of(&hash_of(format!("{format}\n{schema}").as_bytes()))[..16].to_owned();
        let root = self.objects.below(&format!("{identity}/snapshots"));
        Ok(SnapshotLocation { objects: root.below(&folder), root, folder, identity, format: format.to_owned(), schema })
    }
}

/// The location of the snapshots of one database in one format, and what their manifests must contain.
#[derive(Debug)]
struct SnapshotLocation {
    /// The folder of all formats.
    root: Objects,
    objects: Objects,
    folder: String,
    identity: String,
    format: String,
    schema: String,
}
