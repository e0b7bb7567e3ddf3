//! The resources of one call of a component: streams, folders, memory.

use wasmtime::ResourceLimiter;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxView, WasiView};

use super::WasmSettings;
use super::output::{Lines, Log};

/// Most open files, folders and streams of a component.
const MAX_HANDLES: usize = 1_000;

/// Most instances, memories and tables of a component. Compilers make a handful.
const MAX_PARTS: usize = 100;

/// Most elements of all tables together: a table holds functions, and each costs a pointer or two.
const MAX_TABLE_ELEMENTS: usize = 1 << 20;

/// An instance of a component.
pub(super) struct Instance {
    context: WasiCtx,
    handles: ResourceTable,
    pub(super) limits: Limits,
}

impl Instance {
    /// Creates an instance that reads `input` and sees the folders of the settings.
    pub(super) fn new(settings: &WasmSettings, input: &[u8], lines: &Lines, log: &Log) -> wasmtime::Result<Self> {
        let mut builder = WasiCtx::builder();
        builder.stdin(MemoryInputPipe::new(input.to_vec())).stdout(lines.clone()).stderr(log.clone());
        builder.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
        for folder in &settings.folders {
            let permission = if folder.may_write { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
            builder.preopened_dir(&folder.path, folder.path.to_string_lossy(), permission)?;
        }
        let mut handles = ResourceTable::new();
        handles.set_max_capacity(MAX_HANDLES);
        Ok(Self { context: builder.build(), handles, limits: Limits::new(settings.memory) })
    }
}

impl WasiView for Instance {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.context, table: &mut self.handles }
    }
}

/// Limits memory and tables of an instance. The engine limits each memory; this limits all of them together.
pub(super) struct Limits {
    memory: usize,
    used: usize,
    elements: usize,
    was_exceeded: bool,
}

impl Limits {
    const fn new(memory: usize) -> Self {
        Self { memory, used: 0, elements: 0, was_exceeded: false }
    }

    /// Whether the instance exceeded its memory limit.
    pub(super) const fn was_exceeded(&self) -> bool {
        self.was_exceeded
    }
}

impl ResourceLimiter for Limits {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let wanted = self.used.saturating_sub(current).saturating_add(desired);
        let is_within = wanted <= self.memory;
        if is_within {
            self.used = wanted;
        }
        self.was_exceeded |= !is_within;
        Ok(is_within)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let wanted = self.elements.saturating_sub(current).saturating_add(desired);
        let is_within = wanted <= MAX_TABLE_ELEMENTS;
        if is_within {
            self.elements = wanted;
        }
        Ok(is_within)
    }

    fn instances(&self) -> usize {
        MAX_PARTS
    }

    fn tables(&self) -> usize {
        MAX_PARTS
    }

    fn memories(&self) -> usize {
        MAX_PARTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_memories_together_have_one_limit() {
        let mut limits = Limits::new(100);
        assert!(limits.memory_growing(0, 60, None).unwrap(), "the first memory");
        assert!(limits.memory_growing(0, 40, None).unwrap(), "the second one");
        assert!(!limits.was_exceeded());
        assert!(!limits.memory_growing(40, 41, None).unwrap());
        assert!(!limits.memory_growing(0, usize::MAX, None).unwrap());
        assert!(limits.was_exceeded());
        assert!(limits.table_growing(0, MAX_TABLE_ELEMENTS, None).unwrap());
        assert!(!limits.table_growing(0, 1, None).unwrap());
    }
}
