//! Snapshots of search in an object store: a new process begins with one instead of reading the whole database.
//!
//! ```text
//! <database>/snapshots/<format>/latest.json     the manifest: what the snapshot is, its cursor, its files with sizes and hashes
//! <database>/snapshots/<format>/files/<sha256>  files of the engine, named by their content
//! ```
//!
//! Files never change, so a snapshot uploads what the one before did not have. The manifest is replaced last, and only if it is still the one
//! that the publisher read: a publisher that was overtaken, or that died, leaves the snapshot that was there. Files of the snapshot before
//! stay for an hour, for those who are reading it.
//!
//! What a reader fetches is checked before it is used: format, schema, database, place in the feed, number and sizes of files, every hash.
//! A snapshot that does not fit is named in the log with a code, and search is built from the database.

mod fetch;
mod manifest;
mod publish;

pub use publish::{PublishOptions, Published, Publisher};

pub(super) use fetch::fetch;

use tantivy::schema::Schema;
use toolcrib_store::objects::{Objects, hash_of, name_of};

use crate::{Error, Index};

/// Where snapshots are. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Snapshots {
    objects: Objects,
}

impl Snapshots {
    /// Snapshots in an object store, beside the evidence of the same database.
    pub const fn new(objects: Objects) -> Self {
        Self { objects }
    }

    /// The part of the store for one database, and one format with its schema.
    async fn place(&self, index: &Index, format: &str, schema: &Schema) -> Result<Place, Error> {
        let identity = alloy_primitives::hex::encode(index.identity().await?);
        let schema = serde_json::to_vec(schema).map_err(|_| Error::Corrupt { what: "schema of search" })?;
        let schema = name_of(&hash_of(&schema));
        let folder = name_of(&hash_of(format!("{format}\n{schema}").as_bytes()))[..16].to_owned();
        let root = self.objects.below(&format!("{identity}/snapshots"));
        Ok(Place { objects: root.below(&folder), root, folder, identity, format: format.to_owned(), schema })
    }
}

/// Where the snapshots of one database in one format are, and what their manifests must say.
#[derive(Debug)]
struct Place {
    /// Those of all formats.
    root: Objects,
    objects: Objects,
    folder: String,
    identity: String,
    format: String,
    schema: String,
}
