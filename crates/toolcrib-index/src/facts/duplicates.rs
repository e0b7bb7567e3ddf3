//! Other registrations of the same metadata URI or endpoint.

use alloy_primitives::Address;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::finding::Finding;
use toolcrib_judge::signals::{self, Registered};
use toolcrib_store::database::{Column, FromRow as _, Row, Transaction, Value};
use toolcrib_store::row;

use crate::listing::{Listing, MAX_DUPLICATES};
use crate::model::{IdBytes, ToolKey, ToolView};
use crate::{Error, Index, text_key};

/// Other registrations with the same URI or endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Duplicates {
    pub(crate) same_uri: Vec<ToolKey>,
    pub(crate) same_endpoint: Vec<ToolKey>,
    pub(crate) finding: Option<Finding>,
}

/// The tool that others are compared with.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) key: ToolKey,
    tool: ToolRef,
    creator: Address,
    uri: String,
    /// The endpoint of a verified manifest, normalised.
    endpoint: Option<String>,
}

impl Subject {
    pub(crate) fn of(view: &ToolView, endpoint: Option<&str>) -> Self {
        Self {
            key: view.row.key,
            tool: view.tool,
            creator: view.row.creator,
            uri: view.row.metadata_uri.clone(),
            endpoint: endpoint.map(str::to_owned),
        }
    }
}

/// Rows of other tools.
#[derive(Default)]
pub(crate) struct Others {
    same_uri: Vec<Row>,
    same_endpoint: Vec<Row>,
}

row! {
    /// Another registration.
    struct OtherRow<'r> {
        registry: i64,
        tool: &'r [u8],
        creator: Address,
    }
}

const SAME_URI: &str = "SELECT registry, tool, creator FROM index_tool
    WHERE uri_key = $1 AND uri = $2 AND deregistered_at IS NULL AND NOT (registry = $3 AND tool = $4)
    ORDER BY registered_at, registry, tool LIMIT $5";
const SAME_ENDPOINT: &str = "SELECT l.registry, l.tool, t.creator, l.document FROM index_listing l
    JOIN index_tool t ON t.registry = l.registry AND t.tool = l.tool
    WHERE l.endpoint_key = $1 AND t.deregistered_at IS NULL AND NOT (l.registry = $2 AND l.tool = $3)
    ORDER BY t.registered_at, l.registry, l.tool LIMIT $4";
/// The same for many tools, on PostgreSQL. The last column is the position of the tool.
const SAME_URI_MANY: &str = "SELECT o.registry, o.tool, o.creator, v.place
    FROM UNNEST($1::bigint[], $2::text[], $3::bigint[], $4::bytea[], $5::bigint[]) WITH ORDINALITY AS v (uri_key, uri, registry, tool, most, place)
    CROSS JOIN LATERAL (SELECT t.registry, t.tool, t.creator FROM index_tool t
        WHERE t.uri_key = v.uri_key AND t.uri = v.uri AND t.deregistered_at IS NULL AND NOT (t.registry = v.registry AND t.tool = v.tool)
        ORDER BY t.registered_at, t.registry, t.tool LIMIT v.most) AS o";
const SAME_ENDPOINT_MANY: &str = "SELECT o.registry, o.tool, o.creator, o.document, v.place
    FROM UNNEST($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[]) WITH ORDINALITY AS v (endpoint_key, registry, tool, most, place)
    CROSS JOIN LATERAL (SELECT l.registry, l.tool, t.creator, l.document FROM index_listing l
        JOIN index_tool t ON t.registry = l.registry AND t.tool = l.tool
        WHERE l.endpoint_key = v.endpoint_key AND t.deregistered_at IS NULL AND NOT (l.registry = v.registry AND l.tool = v.tool)
        ORDER BY t.registered_at, l.registry, l.tool LIMIT v.most) AS o";

/// Finds the duplicates of a tool.
pub(crate) async fn find(index: &Index, subject: &Subject) -> Result<Duplicates, Error> {
    let (key, id) = (subject.key, subject.key.id_bytes());
    let most = Value::Integer(MAX_DUPLICATES as i64);
    let uri = subject.uri.as_str();
    let (registry, tool) = (Value::Integer(key.registry.0), Value::Bytes(&id));
    let same_uri =
        index.database().fetch(SAME_URI, &[Value::Integer(text_key(uri)), Value::Text(uri), registry, tool, most]).await?;
    let same_endpoint = match &subject.endpoint {
        Some(endpoint) => {
            index.database().fetch(SAME_ENDPOINT, &[Value::Integer(text_key(endpoint)), registry, tool, most]).await?
        }
        None => Vec::new(),
    };
    of_rows(index, subject, &Others { same_uri, same_endpoint }).await
}

/// Reads rows of other tools for many tools, in their order, on PostgreSQL.
pub(crate) async fn rows_of_many(transaction: &mut Transaction, subjects: &[Subject]) -> Result<Vec<Others>, Error> {
    let mut found: Vec<Others> = subjects.iter().map(|_| Others::default()).collect();
    let registries: Vec<i64> = subjects.iter().map(|subject| subject.key.registry.0).collect();
    let ids: Vec<IdBytes> = subjects.iter().map(|subject| subject.key.id_bytes()).collect();
    let ids: Vec<&[u8]> = ids.iter().map(|id| &**id).collect();
    let most = vec![MAX_DUPLICATES as i64; subjects.len()];
    let (registries, ids, most) = (Column::Integers(&registries), Column::Bytes(&ids), Column::Integers(&most));
    let keys: Vec<i64> = subjects.iter().map(|subject| text_key(&subject.uri)).collect();
    let uris: Vec<&str> = subjects.iter().map(|subject| subject.uri.as_str()).collect();
    let columns = [Column::Integers(&keys), Column::Texts(&uris), registries, ids, most];
    for row in transaction.fetch_columns(SAME_URI_MANY, &columns).await? {
        let place = row.get("place")?;
        at(&mut found, place)?.same_uri.push(row);
    }
    // A tool without an endpoint has a NULL key, which equals nothing.
    let keys: Vec<Option<i64>> = subjects.iter().map(|subject| subject.endpoint.as_deref().map(text_key)).collect();
    for row in transaction.fetch_columns(SAME_ENDPOINT_MANY, &[Column::OptionalIntegers(&keys), registries, ids, most]).await? {
        let place = row.get("place")?;
        at(&mut found, place)?.same_endpoint.push(row);
    }
    Ok(found)
}

/// Returns the entry at a position; PostgreSQL counts from one.
fn at(found: &mut [Others], place: i64) -> Result<&mut Others, Error> {
    let place = usize::try_from(place - 1).ok();
    place.and_then(|place| found.get_mut(place)).ok_or(Error::Corrupt { what: "place of a duplicate" })
}

/// Converts rows to the duplicates of a tool.
pub(crate) async fn of_rows(index: &Index, subject: &Subject, rows: &Others) -> Result<Duplicates, Error> {
    let mut found = Duplicates::default();
    let mut others = Vec::new();
    for row in &rows.same_uri {
        let Some((key, creator)) = index.unreadable().skip("index_tool", row, read(row))? else { continue };
        found.same_uri.push(key);
        let (tool, metadata_uri) = (index.reference(key).await?, subject.uri.clone());
        others.push(Registered { tool, creator, metadata_uri, endpoint: None });
    }
    for row in &rows.same_endpoint {
        let read = read(row).and_then(|read| Ok((read, Listing::read(row.get("document")?)?)));
        let Some(((key, creator), listing)) = index.unreadable().skip("index_listing", row, read)? else { continue };
        // The key is a part of a hash, so the full endpoint is compared as well.
        if listing.manifest.is_some_and(|manifest| Some(&manifest.endpoint) == subject.endpoint.as_ref()) {
            found.same_endpoint.push(key);
            let (tool, endpoint) = (index.reference(key).await?, subject.endpoint.clone());
            others.push(Registered { tool, creator, metadata_uri: listing.metadata_uri, endpoint });
        }
    }
    let own = Registered {
        tool: subject.tool,
        creator: subject.creator,
        metadata_uri: subject.uri.clone(),
        endpoint: subject.endpoint.clone(),
    };
    found.finding = signals::duplicates(&own, &others);
    Ok(found)
}

fn read(row: &Row) -> Result<(ToolKey, Address), Error> {
    let row = OtherRow::from_row(row)?;
    Ok((ToolKey::from_columns(row.registry, row.tool)?, row.creator))
}
