//! Search, in process: an index of words beside the database, fed from the change feed and thrown away at will.

mod common;
mod cursor;
mod document;
mod embedding;
mod engine;
mod facets;
mod filter;
mod held;
mod query;
mod rank;
mod run;
mod shelf;
mod snapshot;
mod spelling;
mod words;

pub use cursor::Cursor;
pub use engine::{Reputation, Search, SearchOptions, SearchStart};
pub use facets::MAX_COUNTED;
pub use query::{Explanation, Facet, Facets, Filters, Hit, MAX_LIMIT, MAX_QUERY_CHARS, SearchPage, SearchQuery, Sort, Source};
pub use run::MAX_RANKED;
pub use snapshot::{PublishOptions, Published, Publisher, Snapshots};
