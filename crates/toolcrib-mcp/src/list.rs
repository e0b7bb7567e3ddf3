//! The tool list: built once, or again whenever the toolbox changes.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::Value as Json;
use tokio::sync::watch;
use toolcrib_core::schema::Validator;

use crate::json::compile;
use crate::listable::{Side, listable};
use crate::server::SetupError;
use crate::toolbox::{Effect, ToolSpec, Toolbox, is_name};

/// The tools at one time.
pub(crate) struct Listed {
    /// The toolbox's generation when the list was built.
    generation: u64,
    pub(crate) tools: Vec<Tool>,
    pub(crate) validators: BTreeMap<String, Validator>,
}

/// The current list of a toolbox.
pub(crate) struct List {
    toolbox: Arc<dyn Toolbox>,
    changes: Option<watch::Receiver<u64>>,
    current: RwLock<Arc<Listed>>,
}

impl List {
    /// Builds the first list. In a fixed list, an unlistable tool is an error, because the caller is its author. In a list that
    /// changes, such a tool is left out, so that the others stay available.
    pub(crate) fn new(toolbox: Arc<dyn Toolbox>) -> Result<Self, SetupError> {
        let changes = toolbox.changes();
        let listed = match &changes {
            None => read(&*toolbox, 0, Err)?,
            Some(changes) => read_lenient(&*toolbox, *changes.borrow()),
        };
        Ok(Self { toolbox, changes, current: RwLock::new(Arc::new(listed)) })
    }

    /// Whether the list can change.
    pub(crate) const fn is_dynamic(&self) -> bool {
        self.changes.is_some()
    }

    /// A receiver that wakes up when the list changes.
    pub(crate) fn changes(&self) -> Option<watch::Receiver<u64>> {
        let mut changes = self.changes.clone()?;
        changes.mark_unchanged();
        Some(changes)
    }

    /// The current list.
    pub(crate) fn current(&self) -> Arc<Listed> {
        let current = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        let Some(generation) = self.changes.as_ref().map(|changes| *changes.borrow()) else { return current };
        if generation == current.generation {
            return current;
        }
        let made = Arc::new(read_lenient(&*self.toolbox, generation));
        let mut kept = self.current.write().unwrap_or_else(PoisonError::into_inner);
        // Two callers may have built it concurrently; an older list never replaces a newer one.
        if kept.generation <= generation {
            *kept = Arc::clone(&made);
        }
        made
    }
}

fn read_lenient(toolbox: &dyn Toolbox, generation: u64) -> Listed {
    let listed = read(toolbox, generation, |error| {
        tracing::warn!(%error, "tool left out of the list");
        Ok(())
    });
    // The closure above never fails.
    listed.unwrap_or_else(|_: SetupError| Listed { generation, tools: Vec::new(), validators: BTreeMap::new() })
}

/// Builds the list. `refuse` decides what an unlistable tool means for the others.
fn read(
    toolbox: &dyn Toolbox,
    generation: u64,
    refuse: impl Fn(SetupError) -> Result<(), SetupError>,
) -> Result<Listed, SetupError> {
    let mut specs = toolbox.tools();
    specs.sort_by(|a, b| a.name.cmp(&b.name));
    let mut validators = BTreeMap::new();
    let mut tools = Vec::with_capacity(specs.len());
    for spec in specs {
        match prepare(spec, &validators) {
            Ok((name, tool, validator)) => {
                validators.insert(name, validator);
                tools.push(tool);
            }
            Err(error) => refuse(error)?,
        }
    }
    Ok(Listed { generation, tools, validators })
}

fn prepare(spec: ToolSpec, others: &BTreeMap<String, Validator>) -> Result<(String, Tool, Validator), SetupError> {
    let validator = compile(&spec.input).map_err(|findings| SetupError::Schema {
        name: spec.name.clone(),
        reason: findings.first().map_or_else(String::new, |finding| finding.message.clone()),
    })?;
    if !is_name(&spec.name) || others.contains_key(&spec.name) {
        return Err(SetupError::Name { name: spec.name });
    }
    Ok((spec.name.clone(), tool(spec)?, validator))
}

fn tool(spec: ToolSpec) -> Result<Tool, SetupError> {
    let listed = |schema: &Json, side| match listable(schema, side) {
        Ok(schema) => Ok(Arc::new(schema)),
        Err(reason) => Err(SetupError::Schema { name: spec.name.clone(), reason }),
    };
    let mut tool = Tool::new(spec.name.clone(), spec.description.clone(), listed(&spec.input, Side::Input)?);
    tool.title = Some(spec.title.clone());
    tool.output_schema = spec.output.as_ref().map(|schema| listed(schema, Side::Output)).transpose()?;
    tool.annotations = Some(match spec.effect {
        Effect::Reads => ToolAnnotations::new().read_only(true).idempotent(true).open_world(false),
        Effect::Fetches => ToolAnnotations::new().read_only(true).idempotent(true).open_world(true),
        Effect::Acts => ToolAnnotations::new().read_only(false).destructive(true).idempotent(false).open_world(true),
        Effect::Claimed { read_only, destructive, idempotent, open_world } => {
            ToolAnnotations::new().read_only(read_only).destructive(destructive).idempotent(idempotent).open_world(open_world)
        }
    });
    Ok(tool)
}
