//! A search index.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, RwLock};

use crate::model::{ToolKey, ToolView};
use crate::search::{Cursor, Hit, MAX_LIMIT, SearchPage, SearchQuery, Sort};
use crate::{Error, Index, feed};

/// Where and how to search.
#[derive(Clone, Debug, Default)]
pub struct SearchOptions {
    /// The folder that the index of words is kept in. It belongs to one process. Without one it is kept in memory and made anew at each start.
    pub folder: Option<PathBuf>,
    /// A folder with a static embedding: `*.safetensors` and `tokenizer.json`.
    pub embedding: Option<PathBuf>,
}

/// Search over an index. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Search {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    index: Index,
    cursor: AtomicI64,
    tools: RwLock<BTreeMap<ToolKey, ToolView>>,
}

impl Search {
    /// Opens it. Nothing is found before [`Search::catch_up`], but for what a kept folder has.
    pub async fn open(index: Index, _options: SearchOptions) -> Result<Self, Error> {
        Ok(Self { inner: Arc::new(Inner { index, cursor: AtomicI64::new(0), tools: RwLock::default() }) })
    }

    /// Applies all changes that are not in it yet, and says how many.
    pub async fn catch_up(&self) -> Result<usize, Error> {
        let mut applied = 0;
        loop {
            let cursor = self.cursor();
            let changes = self.inner.index.changes(cursor, feed::MAX_PAGE).await?;
            let Some(last) = changes.last() else { return Ok(applied) };
            let mut keys: Vec<ToolKey> = changes.iter().map(|change| change.key).collect();
            keys.sort();
            keys.dedup();
            let views = self.inner.index.tools(&keys).await?;
            let mut tools = self.inner.tools.write().unwrap_or_else(|poisoned| poisoned.into_inner());
            for key in &keys {
                tools.remove(key);
            }
            tools.extend(views.into_iter().map(|view| (view.row.key, view)));
            applied += changes.len();
            self.inner.cursor.store(last.seq, Ordering::Release);
        }
    }

    /// The number of the last change that is in it.
    pub fn cursor(&self) -> i64 {
        self.inner.cursor.load(Ordering::Acquire)
    }

    /// Searches. It takes milliseconds of a processor and waits for nothing.
    pub fn run(&self, query: &SearchQuery) -> Result<SearchPage, Error> {
        let tools = self.inner.tools.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let words: Vec<String> =
            query.text.iter().flat_map(|text| text.split_whitespace()).map(|word| word.to_lowercase()).collect();
        let text = |view: &ToolView| {
            let manifest = view.listing.as_ref().and_then(|listing| listing.manifest.as_ref());
            manifest
                .map(|manifest| format!("{} {} {}", manifest.name, manifest.description, manifest.tags.join(" ")).to_lowercase())
        };
        let mut hits: Vec<(bool, u64, ToolKey)> = Vec::new();
        for view in tools.values().filter(|view| query.include_unverified || view.is_listed()) {
            let text = text(view).unwrap_or_default();
            let found = words.iter().filter(|word| text.contains(word.as_str())).count() as u64;
            if words.is_empty() || found > 0 {
                let score = match query.sort {
                    Sort::Relevance => found,
                    Sort::Newest => u64::try_from(view.row.registered.time.seconds()).unwrap_or_default(),
                    Sort::MostUsed => view.usage.ranking_payers,
                };
                hits.push((view.is_listed(), score, view.row.key));
            }
        }
        hits.sort_by(|a, b| b.cmp(a));
        let total = Some(hits.len() as u64);
        let start = query
            .cursor
            .as_ref()
            .map_or(Ok(0), |cursor| cursor.0.as_slice().try_into().map(u64::from_be_bytes).map_err(|_| Error::Cursor))?;
        let start = usize::try_from(start).map_err(|_| Error::Cursor)?;
        let limit = query.limit.clamp(1, MAX_LIMIT);
        let next = (hits.len() > start.saturating_add(limit)).then(|| Cursor(((start + limit) as u64).to_be_bytes().to_vec()));
        let hits = hits.into_iter().skip(start).take(limit);
        let hits = hits.map(|(_, score, key)| Hit { key, score: score as f32, explanation: None }).collect();
        Ok(SearchPage { hits, next, total, facets: None })
    }
}
