//! Other registrations of the same metadata URI or endpoint.

use alloy_primitives::Address;
use toolcrib_core::finding::Finding;
use toolcrib_core::signals::{self, Registered};
use toolcrib_store::database::{Row, Value};

use crate::listing::{Listing, MAX_DUPLICATES};
use crate::model::{ToolKey, ToolView};
use crate::{Error, Index, text_key};

/// Other registrations that look the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Duplicates {
    pub(crate) same_uri: Vec<ToolKey>,
    pub(crate) same_endpoint: Vec<ToolKey>,
    pub(crate) finding: Option<Finding>,
}

const SAME_URI: &str = "SELECT registry, tool, creator FROM index_tool
    WHERE uri_key = $1 AND uri = $2 AND deregistered_at IS NULL AND NOT (registry = $3 AND tool = $4)
    ORDER BY registered_at, registry, tool LIMIT $5";
const SAME_ENDPOINT: &str = "SELECT l.registry, l.tool, t.creator, l.document FROM index_listing l
    JOIN index_tool t ON t.registry = l.registry AND t.tool = l.tool
    WHERE l.endpoint_key = $1 AND t.deregistered_at IS NULL AND NOT (l.registry = $2 AND l.tool = $3)
    ORDER BY t.registered_at, l.registry, l.tool LIMIT $4";

/// Looks for them. `endpoint` is that of a verified manifest, normalised.
pub(crate) async fn find(index: &Index, view: &ToolView, endpoint: Option<&str>) -> Result<Duplicates, Error> {
    let (key, id) = (view.row.key, view.row.key.id_bytes());
    let most = Value::Integer(MAX_DUPLICATES as i64);
    let uri = view.row.metadata_uri.as_str();
    let (registry, tool) = (Value::Integer(key.registry.0), Value::Bytes(&id));
    let mut found = Duplicates::default();
    let mut others = Vec::new();
    for row in index.database().fetch(SAME_URI, &[Value::Integer(text_key(uri)), Value::Text(uri), registry, tool, most]).await? {
        let Some((key, creator)) = index.unreadable().skip("index_tool", &row, read(&row))? else { continue };
        found.same_uri.push(key);
        others.push(Registered { tool: index.reference(key).await?, creator, metadata_uri: uri.to_owned(), endpoint: None });
    }
    if let Some(endpoint) = endpoint {
        let values = [Value::Integer(text_key(endpoint)), registry, tool, most];
        for row in index.database().fetch(SAME_ENDPOINT, &values).await? {
            let read = read(&row).and_then(|read| Ok((read, Listing::read(row.text(3)?)?)));
            let Some(((key, creator), listing)) = index.unreadable().skip("index_listing", &row, read)? else { continue };
            // The key is a part of a hash.
            if listing.manifest.is_some_and(|manifest| manifest.endpoint == endpoint) {
                found.same_endpoint.push(key);
                let (tool, endpoint) = (index.reference(key).await?, Some(endpoint.to_owned()));
                others.push(Registered { tool, creator, metadata_uri: listing.metadata_uri, endpoint });
            }
        }
    }
    let own = Registered {
        tool: view.tool,
        creator: view.row.creator,
        metadata_uri: uri.to_owned(),
        endpoint: endpoint.map(str::to_owned),
    };
    found.finding = signals::duplicates(&own, &others);
    Ok(found)
}

fn read(row: &Row) -> Result<(ToolKey, Address), Error> {
    let creator = Address::try_from(row.bytes(2)?).map_err(|_| Error::Corrupt { what: "creator" })?;
    Ok((ToolKey::from_columns(row.integer(0)?, row.bytes(1)?)?, creator))
}
