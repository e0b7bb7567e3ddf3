//! Input documents: files, folders and stdin. Sizes are limited while reading.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, IsTerminal, Read};
use std::path::{Path, PathBuf};

use toolcrib_core::codes;
use toolcrib_core::json::MAX_BYTES;

use crate::kinds::PathHints;
use crate::outcome::Failure;
use crate::printer::Printer;

/// The argument that means stdin.
const STDIN: &str = "-";

/// Folders that never contain the author's manifests: installed packages and build output.
const SKIPPED_FOLDERS: [&str; 2] = ["node_modules", "target"];

/// The only hidden folder that is searched, since tool manifests are served from `.well-known/ai-tool/`.
const WELL_KNOWN: &str = ".well-known";

/// A document to read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl Source {
    /// Returns the source for an argument.
    pub(crate) fn from_argument(path: &Path) -> Self {
        if path == Path::new(STDIN) { Self::Stdin } else { Self::File(path.to_owned()) }
    }

    /// The name for reports. It is untrusted input: escape it for a terminal.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Stdin => "<stdin>".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// What the path says about the manifest: the folder of a `manifest.json`, or the slug of a tool in `.well-known/ai-tool`.
    pub(crate) fn place(&self) -> PathHints {
        let Self::File(path) = self else { return PathHints::default() };
        // Links are followed only if the path as written contains no folder name, as in `../manifest.json`.
        let named =
            std::path::absolute(path).ok().filter(|whole| whole.parent().is_some_and(|folder| folder.file_name().is_some()));
        let Some(whole) = named.or_else(|| fs::canonicalize(path).ok()) else { return PathHints::default() };
        let is_manifest = whole.file_name() == Some(OsStr::new("manifest.json"));
        let folder = whole.parent().filter(|_| is_manifest).and_then(Path::file_name);
        let is_well_known = whole.parent().is_some_and(|folder| folder.ends_with(".well-known/ai-tool"));
        let slug = whole.file_stem().filter(|_| is_well_known);
        let text = |name: &OsStr| name.to_string_lossy().into_owned();
        PathHints { folder: folder.map(text), slug: slug.map(text), metadata_uri: None }
    }

    /// Reads the bytes, at most one more than the size limit of manifests, which is enough to detect that the limit is exceeded.
    pub(crate) fn read(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        let limit = MAX_BYTES as u64 + 1;
        let result = match self {
            Self::Stdin => io::stdin().lock().take(limit).read_to_end(&mut bytes),
            Self::File(path) => fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
        };
        match result {
            Ok(_) => Ok(bytes),
            Err(error) => Err(self.unreadable(&error)),
        }
    }

    fn unreadable(&self, error: &io::Error) -> Failure {
        let name = self.name();
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                Failure::new(codes::cli::NOT_FOUND, format!("{name} does not exist"))
            }
            ErrorKind::IsADirectory => Failure::new(codes::cli::IS_A_FOLDER, format!("{name} is a folder")),
            // Opening a folder on Windows fails with "permission denied".
            _ if matches!(self, Self::File(path) if path.is_dir()) => {
                Failure::new(codes::cli::IS_A_FOLDER, format!("{name} is a folder"))
            }
            _ => Failure::new(codes::cli::UNREADABLE, format!("cannot read {name}: {error}")),
        }
    }
}

/// A source and how it was found.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// The source.
    pub(crate) source: Source,
    /// Whether it was given as an argument; otherwise it was found in a folder.
    pub(crate) named: bool,
}

/// The inputs for the arguments of a command.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// What to read, each once, in order.
    pub(crate) inputs: Vec<Input>,
    /// What could not be found or searched.
    pub(crate) failures: Vec<Failure>,
}

/// Turns arguments into sources. Folders are searched. Without arguments, the working folder is searched.
pub(crate) fn gather(paths: &[PathBuf]) -> Gathered {
    let here = [PathBuf::from(".")];
    let paths = if paths.is_empty() { &here } else { paths };
    let mut gathered = Gathered::default();
    let mut seen = HashSet::new();
    for path in paths {
        let source = Source::from_argument(path);
        if source != Source::Stdin && path.is_dir() {
            walk(path, &mut gathered, &mut seen);
        } else if seen.insert(source.clone()) {
            gathered.inputs.push(Input { source, named: true });
        }
    }
    gathered
}

/// The sources of a command that reads stdin by default.
pub(crate) fn documents(paths: &[PathBuf], printer: &mut Printer) -> io::Result<Vec<Source>> {
    if paths.is_empty() {
        if io::stdin().is_terminal() {
            printer.note("reading from stdin; end with Ctrl-D")?;
        }
        return Ok(vec![Source::Stdin]);
    }
    Ok(paths.iter().map(|path| Source::from_argument(path)).collect())
}

/// Finds the `*.json` files below a folder, by name, files before folders. Links to folders are not followed, so
/// there are no loops.
fn walk(root: &Path, gathered: &mut Gathered, seen: &mut HashSet<Source>) {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(entries) => entries,
            Err(error) => {
                let what = format!("cannot search {}: {error}", folder.display());
                gathered.failures.push(Failure::new(codes::cli::UNREADABLE, what));
                continue;
            }
        };
        let mut names: Vec<_> = entries.into_iter().map(|entry| (entry.file_name(), entry)).collect();
        names.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut below = Vec::new();
        for (name, entry) in names {
            let Ok(file_type) = entry.file_type() else { continue };
            // A prefix `./` would lengthen every path without information.
            let path = if folder == Path::new(".") { PathBuf::from(&name) } else { folder.join(&name) };
            if file_type.is_dir() {
                if is_searched(&name) {
                    below.push(path);
                }
            } else if path.extension() == Some(OsStr::new("json")) && (file_type.is_file() || path.is_file()) {
                let source = Source::File(path);
                if seen.insert(source.clone()) {
                    gathered.inputs.push(Input { source, named: false });
                }
            }
        }
        folders.extend(below.into_iter().rev());
    }
}

fn is_searched(folder: &OsStr) -> bool {
    let name = folder.to_string_lossy();
    name == WELL_KNOWN || !(name.starts_with('.') || SKIPPED_FOLDERS.contains(&&*name))
}
/// Parses a JSON argument: text, `@FILE`, or `-` for stdin.
pub(crate) fn json_argument(text: &str) -> Result<serde_json::Value, Failure> {
    let bytes = match (text, text.strip_prefix('@')) {
        ("-", _) => Source::Stdin.read()?,
        (_, Some(path)) => Source::File(path.into()).read()?,
        (text, None) => text.as_bytes().to_vec(),
    };
    serde_json::from_slice(&bytes).map_err(|error| {
        Failure::new(codes::cli::USAGE, format!("the input is not JSON: {error}"))
            .hint("give JSON text, @FILE for a file, or - for stdin")
    })
}
