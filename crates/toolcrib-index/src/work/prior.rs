//! The state of a tool before a verdict is derived: its memory, and other registrations of the same URI or endpoint.

use toolcrib_store::database::{Column, FromRow as _};

use super::batch::SETTINGS;
use super::kept::Watch;
pub(super) use crate::facts::duplicates::Subject;
use crate::facts::duplicates::{self, Duplicates};

use crate::model::{IdBytes, ToolKey};
use crate::{Error, Index};

/// The state of a tool before a verdict.
#[derive(Debug, Default)]
pub(super) struct Prior {
    pub(super) watch: Option<Watch>,
    pub(super) duplicates: Duplicates,
}

const WATCHES: &str = "SELECT w.looks, w.memory, v.registry, v.tool FROM UNNEST($1::bigint[], $2::bytea[]) AS v (registry, tool)
    JOIN index_watch w ON w.registry = v.registry AND w.tool = v.tool";

/// Reads it for one tool.
pub(super) async fn read(index: &Index, subject: &Subject) -> Result<Prior, Error> {
    let watch = index.watch(subject.key).await?;
    Ok(Prior { watch, duplicates: duplicates::find(index, subject).await? })
}

/// Reads it for many tools, on PostgreSQL.
pub(super) async fn read_many(index: &Index, subjects: &[Subject]) -> Result<Vec<Prior>, Error> {
    if let [one] = subjects {
        // A transaction costs more than it saves.
        return Ok(vec![read(index, one).await?]);
    }
    let mut transaction = index.database().begin().await?;
    transaction.fetch(SETTINGS, &[]).await?;
    let registries: Vec<i64> = subjects.iter().map(|subject| subject.key.registry.0).collect();
    let ids: Vec<IdBytes> = subjects.iter().map(|subject| subject.key.id_bytes()).collect();
    let ids: Vec<&[u8]> = ids.iter().map(|id| &**id).collect();
    let watches = transaction.fetch_columns(WATCHES, &[Column::Integers(&registries), Column::Bytes(&ids)]).await?;
    let found = duplicates::rows_of_many(&mut transaction, subjects).await?;
    // Nothing was changed.
    transaction.rollback().await?;
    let mut priors = Vec::with_capacity(subjects.len());
    for (subject, rows) in subjects.iter().zip(found) {
        priors.push(Prior { watch: None, duplicates: duplicates::of_rows(index, subject, &rows).await? });
    }
    for row in watches {
        let key = ToolKey::from_row(&row)?;
        let watch = Watch::read(&row)?;
        for (_, prior) in subjects.iter().zip(&mut priors).filter(|(subject, _)| subject.key == key) {
            prior.watch = Some(watch.clone());
        }
    }
    Ok(priors)
}
