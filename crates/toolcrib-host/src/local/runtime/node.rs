//! JavaScript and TypeScript handlers, run by Node.

use std::ffi::OsString;
use std::path::Path;

/// The script that Node runs: it imports the handler, and implements the protocol of `process` for it.
const SHIM: &str = include_str!("shim.mjs");

/// The arguments of Node that run the handler `entry` of the tool in `folder`.
///
/// The shim is an argument instead of a file, so that no file has to be protected. It contains no secret.
pub(crate) fn node_command(folder: &Path, entry: &str, memory_mib: Option<u64>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> =
        vec!["--disable-warning=ExperimentalWarning".into(), "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON".into()];
    if let Some(memory) = memory_mib {
        // By default V8 sizes its heap by the memory of the machine, and would be killed at the limit before it collects garbage.
        arguments.push(format!("--max-old-space-size={}", (memory * 3 / 4).max(16)).into());
    }
    arguments.extend([
        "--input-type=module".into(),
        "--eval".into(),
        SHIM.into(),
        "--".into(),
        folder.join(entry).into_os_string(),
    ]);
    arguments
}
