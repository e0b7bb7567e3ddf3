//! Search, in process: an index of words beside the database, fed from the change feed and thrown away at will.

mod query;

pub use query::{Cursor, Explanation, Facet, Facets, Filters, Hit, MAX_LIMIT, MAX_QUERY_CHARS, SearchPage, SearchQuery, Sort};
