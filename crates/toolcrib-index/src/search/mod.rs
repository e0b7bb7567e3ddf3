//! Search, in process: an index of words beside the database, fed from the change feed and thrown away at will.

mod cursor;
mod engine;
mod query;

pub use cursor::Cursor;
pub use engine::{Search, SearchOptions};
pub use query::{Explanation, Facet, Facets, Filters, Hit, MAX_LIMIT, MAX_QUERY_CHARS, SearchPage, SearchQuery, Sort};
