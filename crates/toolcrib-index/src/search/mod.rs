//! Search, in process: a word index next to the database, fed from the change feed and rebuilt when needed.

mod best;
mod collection;
mod common;
mod cursor;
mod document;
mod embedding;
mod engine;
mod facets;
mod files;
mod filter;
mod held;
mod label;
mod part;
mod query;
mod rank;
mod refine;
mod rerank;
mod run;
mod shelf;
mod snapshot;
mod spelling;
mod steady;
mod terms;
mod usable;
mod words;

pub use collection::{collection_named, slug};
pub use cursor::Cursor;
pub use engine::{Reputation, Search, SearchOptions, SearchStart};
pub use facets::MAX_COUNTED;
pub use query::{Explanation, Facet, Facets, Filters, Hit, MAX_LIMIT, MAX_QUERY_CHARS, SearchPage, SearchQuery, Sort, Source};
pub use run::MAX_RANKED;
pub use snapshot::{PublishOptions, Published, Publisher, Snapshots};
pub use usable::{Usable, UsablePage, usable};
