//! Writes a `[networks.NAME]` table into a settings file. Comments, order and everything else in the file stay as they are.

use std::fs;
use std::path::{Path, PathBuf};

use alloy_primitives::Address;
use clap::ValueEnum;
use toml_edit::{DocumentMut, Item, Table, TableLike, Value, table, value};
use toolcrib_chain::network::{Network, Source};
use toolcrib_chain::rpc::NodeUrl;
use toolcrib_core::codes;
use toolcrib_files::AtomicFile;

use crate::outcome::Failure;
use crate::settings::{self, PROJECT_FILE};

/// The settings file that an entry is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// The user's own settings file
    User,
    /// The project's toolcrib.toml, which others may read
    Project,
    /// No file
    None,
}

/// An entry to write.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    name: String,
    path: PathBuf,
    of_project: bool,
    network: Network,
    /// Node URLs that contain no key.
    rpc_urls: Vec<String>,
    /// Whether a URL was omitted, because a part of it may be a key.
    pub(crate) leaves_out_urls: bool,
}

/// The change that a record makes to its file.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    before: Option<String>,
    after: String,
    /// The registry that the entry has now, if it differs.
    pub(crate) replaces: Option<String>,
}

impl Change {
    /// Whether the file contains everything already.
    pub(crate) fn is_empty(&self) -> bool {
        self.before.as_ref() == Some(&self.after)
    }
}

impl Record {
    /// Returns an entry for a network with its registry and predicates. Refuses names that are taken.
    pub(crate) fn new(name: &str, target: Target, network: Network, nodes: &[NodeUrl]) -> Result<Option<Self>, Failure> {
        let (path, of_project) = match target {
            Target::None => return Ok(None),
            Target::User => (settings::user_file().ok_or_else(no_home)?, false),
            Target::Project => (settings::project_file().unwrap_or_else(|| PathBuf::from(PROJECT_FILE)), true),
        };
        Network::check_name(name, network.chain_id).map_err(|fault| {
            Failure::new(codes::cli::USAGE, format!("`{name}` is not a valid network name: {fault}")).hint("give another --name")
        })?;
        // A project must not define a name of the user's file; with both, the settings could not be read.
        let is_elsewhere =
            Network::added().iter().any(|added| added.name == name && matches!(added.source, Source::User(_)) == of_project);
        if is_elsewhere {
            let what = format!("the network `{name}` is in the other settings file");
            return Err(Failure::new(codes::cli::USAGE, what).hint("give another --name, or another --save"));
        }
        let rpc_urls: Vec<_> = nodes.iter().filter_map(NodeUrl::without_secrets).collect();
        let leaves_out_urls = rpc_urls.len() < nodes.len();
        Ok(Some(Self { name: name.to_owned(), path, of_project, network, rpc_urls, leaves_out_urls }))
    }

    /// The name of the entry.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the change. The new text was parsed to check that it is valid.
    pub(crate) fn change(&self) -> Result<Change, Failure> {
        let before = settings::read_text(&self.path)?;
        let unusable = |what: String| Failure::new(codes::cli::SETTINGS, format!("{}: {what}", self.path.display()));
        let mut document: DocumentMut =
            before.as_deref().unwrap_or_default().parse().map_err(|_| unusable("not a TOML file".to_owned()))?;
        let no_table = || unusable(format!("networks.{} is not a table", self.name));
        let networks = document.entry("networks").or_insert_with(implicit_table).as_table_like_mut().ok_or_else(no_table)?;
        let entry = networks.entry(&self.name).or_insert_with(table).as_table_like_mut().ok_or_else(no_table)?;
        if let Some(chain) =
            entry.get("chain_id").and_then(Item::as_integer).filter(|chain| u64::try_from(*chain) != Ok(self.network.chain_id))
        {
            let what = format!("networks.{} has chain {chain}, not chain {}", self.name, self.network.chain_id);
            return Err(unusable(what).hint("give another --name"));
        }
        let chain_id = i64::try_from(self.network.chain_id)
            .map_err(|_| unusable("the chain id is too large for a settings file".to_owned()))?;
        let registry = self.network.registry.map(spelt);
        let replaces =
            entry.get("registry").and_then(Item::as_str).filter(|old| !same(old, registry.as_deref())).map(str::to_owned);
        set(entry, "chain_id", chain_id.into());
        match &self.rpc_urls[..] {
            _ if entry.contains_key("rpc_url") => {}
            [] => {}
            [only] => set(entry, "rpc_url", only.into()),
            several => set(entry, "rpc_url", Value::Array(several.iter().collect())),
        }
        if let Some(registry) = registry {
            set(entry, "registry", registry.into());
        }
        match self.network.registry_code {
            Some(hash) => set(entry, "registry_code", hash.to_string().into()),
            None => drop(entry.remove("registry_code")),
        }
        let predicates = entry.entry("predicates").or_insert_with(table).as_table_like_mut().ok_or_else(no_table)?;
        for (name, at) in self.network.predicates.iter() {
            set(predicates, name, spelt(at).into());
        }
        let after = document.to_string();
        settings::check_text(&after, &self.path, self.of_project)?;
        Ok(Change { before, after, replaces })
    }

    /// Writes the entry atomically. Returns whether the file changed.
    pub(crate) fn write(&self) -> Result<bool, Failure> {
        let change = self.change()?;
        if change.is_empty() {
            return Ok(false);
        }
        let failure = |error: std::io::Error| {
            Failure::new(codes::cli::UNWRITABLE, format!("cannot write {}: {error}", self.path.display()))
                .hint("the contracts are deployed; run the same command again to write the entry")
        };
        // The user's file may be a link, for example into a folder of dotfiles. A link in a project is not followed out of the project.
        let path = match fs::canonicalize(&self.path) {
            Ok(path) if !self.of_project => path,
            _ => self.path.clone(),
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(failure)?;
        }
        let bytes = change.after.as_bytes();
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_file() => {
                let file = AtomicFile::new(&path).permissions(metadata.permissions()).prepare(bytes).map_err(failure)?;
                // Another program may have changed the file since it was read.
                if settings::read_text(&self.path)? != change.before {
                    return Err(Failure::new(codes::cli::CHANGED, format!("{} changed meanwhile", self.path.display())));
                }
                file.replace().map_err(failure)?;
            }
            // The user's file gets private permissions, because users add node URLs with keys to it later.
            _ if !self.of_project => AtomicFile::new(&path).replace(bytes).map_err(failure)?,
            _ => AtomicFile::new(&path).shared().replace(bytes).map_err(failure)?,
        }
        Ok(true)
    }
}

fn no_home() -> Failure {
    Failure::new(codes::cli::USAGE, "no home folder for the user's settings file").hint("set HOME, or give --save project")
}

fn implicit_table() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

/// Sets a value and keeps the comment after it.
fn set(table: &mut dyn TableLike, key: &str, new: Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) if old.clone().decorated("", "").to_string() == new.clone().decorated("", "").to_string() => {}
        Some(old) => {
            let decor = old.decor().clone();
            *old = new;
            *old.decor_mut() = decor;
        }
        None => drop(table.insert(key, value(new))),
    }
}

fn spelt(address: Address) -> String {
    address.to_checksum(None)
}

/// Whether two spellings mean the same address.
fn same(old: &str, new: Option<&str>) -> bool {
    new.is_some_and(|new| new.eq_ignore_ascii_case(old))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(folder: &Path, network: Network) -> Record {
        let path = folder.join("toolcrib.toml");
        let rpc_urls = vec!["https://node.example".to_owned()];
        Record { name: "sepolia".to_owned(), path, of_project: true, network, rpc_urls, leaves_out_urls: false }
    }

    fn sepolia(registry: u8) -> Network {
        let mut network = Network::unlisted(11_155_111);
        network.registry = Some(Address::repeat_byte(registry));
        network.predicates.erc721 = Some(Address::repeat_byte(0x11));
        network
    }

    #[test]
    fn an_entry_is_written_beside_what_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("toolcrib.toml");
        let mine = "# mine\ncolor = \"never\" # not on paper\n\n[networks.sepolia] # test\nchain_id = 11155111\n\
                    rpc_url = \"https://own.example/key\" # secret\nregistry = \"0x0101010101010101010101010101010101010101\" # old\n\
                    testnet = true\n";
        fs::write(&file, mine).expect("written");
        let first = record(folder.path(), sepolia(2));
        let replaces = first.change().expect("readable").replaces;
        assert_eq!(replaces.as_deref(), Some("0x0101010101010101010101010101010101010101"));
        assert!(first.write().expect("written"));
        insta::assert_snapshot!(fs::read_to_string(&file).expect("text"), @r#"
        # mine
        color = "never" # not on paper

        [networks.sepolia] # test
        chain_id = 11155111
        rpc_url = "https://own.example/key" # secret
        registry = "0x0202020202020202020202020202020202020202" # old
        testnet = true

        [networks.sepolia.predicates]
        erc721 = "0x1111111111111111111111111111111111111111"
        "#);
        assert!(!first.write().expect("readable"), "nothing is left to do");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1, "nothing is left behind");
    }

    #[test]
    fn a_new_file_is_made_and_a_broken_one_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("toolcrib.toml");
        assert!(record(folder.path(), sepolia(2)).write().expect("written"));
        let text = fs::read_to_string(&file).expect("text");
        assert!(text.starts_with("[networks.sepolia]\nchain_id = 11155111\nrpc_url = \"https://node.example\"\n"), "{text}");
        for broken in
            ["color = ", "networks = 1\n", "networks.sepolia = 1\n", "[networks.sepolia]\nchain_id = 1\n", "colour = 1\n"]
        {
            fs::write(&file, broken).expect("written");
            assert!(record(folder.path(), sepolia(2)).write().is_err(), "{broken}");
            assert_eq!(fs::read_to_string(&file).expect("text"), broken);
        }
    }

    #[cfg(unix)]
    #[test]
    fn permissions_stay_and_a_projects_link_is_not_followed() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("toolcrib.toml");
        fs::write(&file, "").expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("changed");
        record(folder.path(), sepolia(2)).write().expect("written");
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o640);
        let other = folder.path().join("other.toml");
        fs::write(&other, "# other\n").expect("written");
        fs::remove_file(&file).and_then(|()| symlink(&other, &file)).expect("linked");
        record(folder.path(), sepolia(2)).write().expect("written");
        assert_eq!(fs::read_to_string(&other).expect("text"), "# other\n");
        assert!(fs::symlink_metadata(&file).expect("there").is_file());
    }
}
