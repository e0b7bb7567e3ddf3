//! Follows the change feed.
//!
//! Search is updated first and cached responses are dropped afterwards, so that a response that is rendered again includes the change.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use toolcrib_index::replicas::Observation;
use toolcrib_index::{Error, Index, feed};

use crate::directory::App;

/// The maximum number of changes that are handled one by one. Beyond it everything counts as changed: a backfill touches all of it anyway.
const MAX_CHANGES: usize = 20 * feed::MAX_PAGE;

/// Time between two deletions of expired keys.
const FORGET_EVERY: Duration = Duration::from_secs(3600);

/// Time between two expiries of listings. Workers do it too; a directory must not need one to stop showing them.
const EXPIRE_EVERY: Duration = Duration::from_secs(60);

/// Time between two reads of the verification queue, for metrics only. Prometheus scrapes every 15 seconds or less often.
const QUEUE_EVERY: Duration = Duration::from_secs(15);

/// Polls the feed. Never returns.
pub(crate) async fn keep_looking(app: &App) {
    let mut forgot: Option<Instant> = None;
    let mut expired: Option<Instant> = None;
    loop {
        if expired.is_none_or(|at| at.elapsed() >= EXPIRE_EVERY) {
            expired = Some(Instant::now());
            match app.queue.expire().await {
                Ok(expired) => app.metrics.saw_expired(expired),
                Err(error) => tracing::warn!(code = %error.code(), "listings could not be expired"),
            }
        }
        if let Err(error) = look(app).await {
            app.metrics.poll_failures.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(code = %error.code(), "change feed could not be read");
        }
        if forgot.is_none_or(|at| at.elapsed() >= FORGET_EVERY) {
            forgot = Some(Instant::now());
            if let Err(error) = app.keys.forget_expired(app.now()).await {
                tracing::warn!(code = %error.code(), "expired keys could not be deleted");
            }
        }
        sleep(Duration::from_millis(app.options.poll_millis.max(10))).await;
    }
}

/// Polls the feed once.
pub(crate) async fn look(app: &App) -> Result<(), Error> {
    let _one = app.looking.lock().await;
    let seen = app.cache.last();
    let observation = app.replicas.observe(seen.max(app.wanted.load(Ordering::Acquire))).await?;
    let Some(replica) = observation.replica.clone() else { return show(app, &observation, seen).await };
    tokio::select! {
        shown = show(app, &observation, seen) => shown,
        // The next poll reads from another one.
        () = replica.broken() => {
            Err(toolcrib_store::Error::Lost { detail: "read replica failed".to_owned() }.into())
        }
    }
}

/// Shows what was observed.
async fn show(app: &App, observation: &Observation, seen: i64) -> Result<(), Error> {
    let (last, source) = (observation.watermark, &observation.source);
    // Searching detects damage, not a change: it must be repaired without one.
    if app.search.cursor() < last || !app.search.is_ready() || !app.has_looked.load(Ordering::Acquire) {
        app.search.catch_up_from(source).await?;
    }
    if seen < 0 {
        // Nothing is cached yet. Everything rendered from here on includes all changes up to here.
        app.cache.all_changed(last);
    } else if seen < last {
        drop_changed(app, source, seen, last).await?;
    }
    app.cache.reached(last);
    app.cache.agents_reached(source.last_agent_change().await?);
    app.news.send_if_modified(|news| std::mem::replace(news, last) != last);
    app.looked_at.store(app.now().seconds(), Ordering::Release);
    app.has_looked.store(true, Ordering::Release);
    look_around(app).await;
    Ok(())
}

/// Reads the state of the rest of the deployment regularly: the length of the queue, which is counted up to a limit and so stays cheap,
/// and the progress of followers.
async fn look_around(app: &App) {
    if !app.options.serves_metrics
        || !app.replicas.has_primary()
        || app.metrics.queue().is_some_and(|(at, _)| at.elapsed() < QUEUE_EVERY)
    {
        return;
    }
    match app.primary.queue_state(app.now()).await {
        Ok(state) => app.metrics.saw_queue(state),
        Err(error) => tracing::warn!(code = %error.code(), "verification queue could not be counted"),
    }
    match app.primary.agent_census(app.now()).await {
        Ok(census) => app.metrics.saw_agents(census),
        Err(error) => tracing::warn!(code = %error.code(), "agents could not be counted"),
    }
    match app.primary.bazaar_census(app.now()).await {
        Ok(census) => app.metrics.saw_bazaar(census),
        Err(error) => tracing::warn!(code = %error.code(), "Bazaar resources could not be counted"),
    }
    match app.primary.registries().await {
        Ok(rows) => app.metrics.saw_registries(rows),
        Err(error) => tracing::warn!(code = %error.code(), "registries could not be read"),
    }
    match app.primary.completeness().await {
        Ok(rows) => app.metrics.saw_completeness(rows),
        Err(error) => tracing::warn!(code = %error.code(), "completeness of registries could not be read"),
    }
}

/// Records the tools that changed after `seen`, up to `last`.
async fn drop_changed(app: &App, source: &Index, seen: i64, last: i64) -> Result<(), Error> {
    if last.saturating_sub(seen) > MAX_CHANGES as i64 {
        app.cache.all_changed(last);
        return Ok(());
    }
    let mut cursor = seen;
    while cursor < last {
        let changes = match source.changes(cursor, feed::MAX_PAGE).await {
            Ok(changes) => changes,
            Err(Error::Forgotten { .. }) => {
                app.cache.all_changed(last);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let Some(newest) = changes.last() else { break };
        cursor = newest.seq;
        let mut resources = Vec::new();
        for change in changes {
            // Cached responses about agents have their own version.
            if change.key.is_agent() {
                continue;
            }
            if change.key.resource().is_some() {
                resources.push(change.key);
                continue;
            }
            let tool = source.reference(change.key).await?;
            app.cache.changed(tool.chain, &format!("{:#x}", tool.registry), &tool.id.to_string(), change.seq);
        }
        // Responses about a tool also show whether a facilitator lists its endpoint.
        for key in source.tools_beside(&resources).await? {
            let tool = source.reference(key).await?;
            app.cache.changed(tool.chain, &format!("{:#x}", tool.registry), &tool.id.to_string(), cursor);
        }
    }
    Ok(())
}
