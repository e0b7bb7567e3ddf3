//! The index that one request reads: a replica, or the primary.
//!
//! The middleware chooses for each request (`routing.rs`), so that one response comes from one database. Handlers with a [`Reader`] use
//! its `index`; for writes, and for reads that must see them, they use `primary` of the [`App`].

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use toolcrib_index::Index;
use toolcrib_index::work::Queue;

use crate::directory::App;

/// The database that was chosen for a request.
#[derive(Clone)]
pub(crate) struct Chosen(pub(crate) Index);

/// The app, and the index that a request reads.
#[derive(Clone)]
pub(crate) struct Reader {
    app: Arc<App>,
    pub(crate) index: Index,
}

impl Reader {
    /// Creates a reader of the primary.
    pub(crate) fn of_primary(app: &Arc<App>) -> Self {
        Self { app: Arc::clone(app), index: app.primary.clone() }
    }

    /// Returns the verification queue, for reading.
    pub(crate) fn queue(&self) -> Queue {
        self.app.queue.on(self.index.clone())
    }

    /// Returns the state that outlives the request.
    pub(crate) fn shared(&self) -> &Arc<App> {
        &self.app
    }

    /// Returns a reader for a later read of a long-running task: another database may have to be chosen by then.
    pub(crate) fn refreshed(&self) -> Self {
        let newest = self.app.replicas.candidates(self.app.cache.last()).into_iter().next();
        let index = newest.map_or_else(|| self.app.primary.clone(), |replica| replica.index().clone());
        Self { app: Arc::clone(&self.app), index }
    }
}

impl Deref for Reader {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

impl FromRequestParts<Arc<App>> for Reader {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Infallible> {
        let index = parts.extensions.get::<Chosen>().map_or_else(|| app.primary.clone(), |chosen| chosen.0.clone());
        Ok(Self { app: Arc::clone(app), index })
    }
}
