//! Queries for resources.

use std::collections::HashMap;

use alloy_primitives::B256;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::url::HttpsUrl;
use toolcrib_store::database::{FromRow as _, Row, Value};
use toolcrib_store::{row, sql};

use super::model::{ClaimView, ResourceView, comparable};
use crate::model::{RegistryId, ToolKey, ToolView};
use crate::moderation::Moderation;
use crate::{Error, Index, ListPosition, MAX_TOOLS, Order, text_key};

/// A query for a list of resources.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceList {
    /// The order.
    pub order: Order,
    /// Only resources after this position.
    pub after: Option<ListPosition>,
    /// The maximum number of resources.
    pub limit: usize,
}

/// A page of a list of resources.
#[derive(Clone, Debug)]
pub struct ResourcePage {
    /// The resources. Those with the same endpoint as a verified tool are left out.
    pub resources: Vec<ResourceView>,
    /// The position of the last row that was read, left out or not: where the list continues.
    pub last: Option<ListPosition>,
    /// Whether there are more rows.
    pub has_more: bool,
}

row! {
    struct ResourceRow<'r> from "r" {
        id: i64,
        url: String,
        tool_name: &'r str,
        first_seen_at: UnixTime,
        updated_at: UnixTime,
        probe: Option<&'r str>,
        identity: B256,
    }
}

row! {
    /// What a facilitator claims about a resource.
    struct ClaimRow<'r> from "e" {
        resource: i64,
        origin: String = "f.origin",
        seen_at: UnixTime,
        claim: &'r str,
    }
}

const SELECT: &str = sql!(
    "SELECT ",
    ResourceRow::COLUMNS,
    ", m.action, m.reason, m.notice, m.at FROM index_bazaar_resource r
    LEFT JOIN index_moderation_resource m ON m.identity = r.identity"
);

impl Index {
    /// Returns a page of the list of resources, without those that the operator blocked or hid.
    pub async fn list_resources(&self, list: &ResourceList) -> Result<ResourcePage, Error> {
        let limit = list.limit.clamp(1, MAX_TOOLS);
        let (sign, direction) = match list.order {
            Order::Newest => ("<", "DESC"),
            Order::Oldest => (">", "ASC"),
        };
        let (condition, values) = match list.after {
            None => (String::new(), Vec::new()),
            Some(after) => {
                let values =
                    vec![Value::Integer(after.registered_at.seconds()), Value::Integer(number_after(&after, list.order))];
                (format!(" AND (r.first_seen_at, r.id) {sign} ($1, $2)"), values)
            }
        };
        let sql = format!(
            "{SELECT} WHERE r.listed AND m.identity IS NULL{condition}
            ORDER BY r.first_seen_at {direction}, r.id {direction} LIMIT {}",
            limit + 1
        );
        let rows = self.database().fetch_made(sql, &values).await?;
        let last = match rows.iter().take(limit).next_back() {
            Some(row) => {
                let registered_at = row.get("first_seen_at")?;
                Some(ListPosition { registered_at, key: ResourceView::key_of(row.get("id")?) })
            }
            None => None,
        };
        let resources = self.resource_views(rows.iter().take(limit)).await?;
        Ok(ResourcePage { resources: self.without_tools(resources).await?, last, has_more: rows.len() > limit })
    }

    /// Returns the resources among these keys, in their order, without those that no facilitator lists, those that the operator blocked or
    /// hid, and those with the same endpoint as a verified tool: the tool is shown instead.
    pub async fn resources(&self, keys: &[ToolKey]) -> Result<Vec<ResourceView>, Error> {
        let mut found = self.resources_by(keys.iter().filter_map(ToolKey::resource)).await?;
        found.retain(|view| view.moderation.is_none());
        self.without_tools(found).await
    }

    /// Returns the same including those with the same endpoint as a verified tool: that set changes without a change of the resource.
    pub(crate) async fn resources_for_search(&self, keys: &[ToolKey]) -> Result<Vec<ResourceView>, Error> {
        let mut found = Vec::new();
        for part in keys.chunks(MAX_TOOLS) {
            found.extend(self.resources_by(part.iter().filter_map(ToolKey::resource)).await?);
        }
        found.retain(|view| view.moderation.is_none());
        Ok(found)
    }

    /// Returns one resource, even if it is unlisted because of a tool, blocked or hidden.
    pub async fn resource(&self, id: i64) -> Result<Option<ResourceView>, Error> {
        Ok(self.resources_by([id].into_iter()).await?.pop())
    }

    /// Returns resources in the order of their numbers, page by page: those after `after`. Those that the operator blocked or hid are left
    /// out.
    pub(crate) async fn scan_resources(&self, after: i64, limit: usize) -> Result<(Vec<ResourceView>, Option<i64>), Error> {
        let sql = format!(
            "{SELECT} WHERE r.listed AND m.identity IS NULL AND r.id > $1 ORDER BY r.id LIMIT {}",
            limit.clamp(1, MAX_TOOLS)
        );
        let rows = self.database().fetch_made(sql, &[Value::Integer(after)]).await?;
        let last = rows.last().map(|row| row.get("id")).transpose()?;
        Ok((self.resource_views(rows.iter()).await?, last))
    }

    /// Returns the resources at these endpoints, by endpoint as it was given. Those that the operator blocked or hid are left out.
    pub async fn resources_at(&self, endpoints: &[&str]) -> Result<HashMap<String, ResourceView>, Error> {
        let urls: Vec<(&str, String)> =
            endpoints.iter().filter_map(|endpoint| Some((*endpoint, comparable(&HttpsUrl::parse(endpoint).ok()?)))).collect();
        if urls.is_empty() {
            return Ok(HashMap::new());
        }
        let keys = urls.iter().map(|(_, url)| text_key(url).to_string()).collect::<Vec<_>>().join(", ");
        let sql = format!(
            "{SELECT} WHERE r.listed AND m.identity IS NULL AND r.endpoint_key IN ({keys}) ORDER BY r.id LIMIT {MAX_TOOLS}"
        );
        let rows = self.database().fetch_made(sql, &[]).await?;
        let views = self.resource_views(rows.iter()).await?;
        let at = |url: &str| views.iter().find(|view| view.url == url && view.tool.is_none()).cloned();
        Ok(urls.into_iter().filter_map(|(endpoint, url)| Some((endpoint.to_owned(), at(&url)?))).collect())
    }

    /// Returns the verified tool at the URL of a resource.
    pub async fn tool_at_resource(&self, resource: &ResourceView) -> Result<Option<ToolView>, Error> {
        let tools = self.tools_at_resources(std::slice::from_ref(resource)).await?;
        Ok(tools.into_iter().rfind(ToolView::is_listed))
    }

    /// Returns tools with the same endpoint as one of these resources, verified or not.
    pub async fn tools_beside(&self, resources: &[ToolKey]) -> Result<Vec<ToolKey>, Error> {
        let ids: Vec<String> = resources.iter().filter_map(ToolKey::resource).map(|id| id.to_string()).collect();
        let mut tools = Vec::new();
        for part in ids.chunks(MAX_TOOLS) {
            let sql = format!(
                "SELECT l.registry, l.tool FROM index_bazaar_resource r JOIN index_listing l ON l.endpoint_key = r.endpoint_key
                WHERE r.id IN ({})",
                part.join(", ")
            );
            for key in ToolKey::from_rows(&self.database().fetch_made(sql, &[]).await?) {
                tools.push(key?);
            }
        }
        Ok(tools)
    }

    async fn resources_by(&self, ids: impl Iterator<Item = i64>) -> Result<Vec<ResourceView>, Error> {
        let ids: Vec<i64> = ids.take(MAX_TOOLS).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let list = ids.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let sql = format!("{SELECT} WHERE r.listed AND r.id IN ({list})");
        let rows = self.database().fetch_made(sql, &[]).await?;
        let mut views: HashMap<i64, ResourceView> =
            self.resource_views(rows.iter()).await?.into_iter().map(|view| (view.id, view)).collect();
        Ok(ids.iter().filter_map(|id| views.remove(id)).collect())
    }

    /// Reads rows together with the claims of facilitators. A row without a claim is left out: another process is unlisting it.
    async fn resource_views(&self, rows: impl Iterator<Item = &Row>) -> Result<Vec<ResourceView>, Error> {
        let mut views = Vec::new();
        for row in rows {
            views.extend(self.unreadable().skip_named("index_bazaar_resource", || name(row), read(row))?);
        }
        if views.is_empty() {
            return Ok(views);
        }
        let list = views.iter().map(|view| view.id.to_string()).collect::<Vec<_>>().join(", ");
        let sql = format!(
            "SELECT {} FROM index_bazaar_entry e
            JOIN index_bazaar_facilitator f ON f.id = e.facilitator WHERE e.resource IN ({list}) ORDER BY e.facilitator",
            ClaimRow::COLUMNS
        );
        let mut claims: HashMap<i64, Vec<ClaimView>> = HashMap::new();
        for row in ClaimRow::from_rows(&self.database().fetch_made(sql, &[]).await?) {
            let ClaimRow { resource, origin, seen_at, claim } = row?;
            let claim = serde_json::from_str(claim).map_err(|_| Error::Corrupt { what: "claim about a resource" });
            let claim = self.unreadable().skip_named("index_bazaar_entry", || resource.to_string(), claim)?;
            let Some(claim) = claim else { continue };
            claims.entry(resource).or_default().push(ClaimView { facilitator: origin, seen_at, claim });
        }
        for view in &mut views {
            view.claims = claims.remove(&view.id).unwrap_or_default();
        }
        views.retain(|view| !view.claims.is_empty());
        Ok(views)
    }

    /// Removes resources with the same endpoint as a verified tool, whether the operator shows the tool or not: blocking or hiding the
    /// tool must not bring its resource into lists.
    async fn without_tools(&self, mut resources: Vec<ResourceView>) -> Result<Vec<ResourceView>, Error> {
        let tools = self.tools_at_resources(&resources).await?;
        let endpoints: Vec<String> = tools.iter().filter_map(endpoint).collect();
        resources.retain(|view| view.tool.is_some() || !endpoints.contains(&view.url));
        Ok(resources)
    }

    /// Returns the verified tools with the same endpoint as one of these resources, moderated or not. An unverified tool replaces no
    /// resource: any account can claim an endpoint.
    async fn tools_at_resources(&self, resources: &[ResourceView]) -> Result<Vec<ToolView>, Error> {
        let urls: Vec<&str> = resources.iter().filter(|view| view.tool.is_none()).map(|view| view.url.as_str()).collect();
        if urls.is_empty() {
            return Ok(Vec::new());
        }
        // Endpoints are stored as manifests write them, and the root path has two spellings.
        let roots = urls.iter().filter_map(|url| url.strip_suffix('/'));
        let keys = urls.iter().copied().chain(roots).map(|url| text_key(url).to_string()).collect::<Vec<_>>().join(", ");
        let sql = format!(
            "SELECT l.registry, l.tool FROM index_listing l JOIN index_tool t ON t.registry = l.registry AND t.tool = l.tool
            WHERE l.endpoint_key IN ({keys}) AND t.listed ORDER BY l.registry, l.tool LIMIT {MAX_TOOLS}"
        );
        let rows = self.database().fetch_made(sql, &[]).await?;
        let keys = ToolKey::from_rows(&rows).collect::<Result<Vec<_>, _>>()?;
        let mut tools = self.tools(&keys).await?;
        // Keys are parts of hashes, so the full URL is compared as well.
        tools.retain(|tool| tool.is_verified() && endpoint(tool).is_some_and(|endpoint| urls.contains(&endpoint.as_str())));
        Ok(tools)
    }
}

/// Returns the endpoint of a verified tool, in the form in which URLs are compared.
fn endpoint(tool: &ToolView) -> Option<String> {
    let manifest = tool.listing.as_ref()?.manifest.as_ref()?;
    HttpsUrl::parse(&manifest.endpoint).ok().map(|url| comparable(&url))
}

/// Returns the number of a resource at or before which no resource of the same second is left.
fn number_after(after: &ListPosition, order: Order) -> i64 {
    match (after.key.resource(), order) {
        (Some(id), _) => id,
        // Resources sort after all registries, and so before them in descending order.
        (None, Order::Newest) => 0,
        (None, Order::Oldest) if after.key.registry < RegistryId::BAZAAR => 0,
        (None, Order::Oldest) => i64::MAX,
    }
}

fn name(row: &Row) -> String {
    row.get("id").map_or_else(|_| "?".to_owned(), |id: i64| id.to_string())
}

fn read(row: &Row) -> Result<ResourceView, Error> {
    let moderation = Moderation::read(row)?;
    let row = ResourceRow::from_row(row)?;
    let probe = row.probe.map(serde_json::from_str).transpose();
    Ok(ResourceView {
        id: row.id,
        url: row.url,
        tool: Some(row.tool_name).filter(|name| !name.is_empty()).map(str::to_owned),
        first_seen_at: row.first_seen_at,
        updated_at: row.updated_at,
        claims: Vec::new(),
        probe: probe.map_err(|_| Error::Corrupt { what: "probe of a resource" })?,
        identity: row.identity,
        moderation,
    })
}
