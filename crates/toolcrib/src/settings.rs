//! Settings, in order of precedence: flag, environment, project file, user file, default. All are resolved here.

use std::env::VarError;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::{env, fmt, fs, io};

use clap::ValueEnum;
use serde::Deserialize;
use toolcrib_client::SpendPolicy;
use toolcrib_core::codes;
use toolcrib_store::Location;

use crate::cli::{Color, Format, Role, word};
use crate::env as names;
use crate::networks::{self, Custom, Entries};
use crate::outcome::Failure;
use crate::secrets;

/// The name of the project file, searched in the working folder and its parents.
pub(crate) const PROJECT_FILE: &str = "toolcrib.toml";

/// Largest settings file that is read. A dozen short lines are usual.
const MAX_BYTES: u64 = 65_536;

/// Settings from the command line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    /// `--color`
    pub(crate) color: Option<Color>,
    /// `--format`
    pub(crate) format: Option<Format>,
    /// `--deny-warnings`
    pub(crate) deny_warnings: Option<bool>,
    /// `--as`
    pub(crate) role: Option<Role>,
}

/// Every setting with its origin.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// When to colour.
    pub(crate) color: Setting<Color>,
    /// How `lint` prints.
    pub(crate) format: Setting<Format>,
    /// Whether warnings count as errors.
    pub(crate) deny_warnings: Setting<bool>,
    /// Producer or consumer rules.
    pub(crate) role: Setting<Role>,
    /// Spending limits of calls.
    pub(crate) spend: Setting<SpendPolicy>,
    /// The directory to query for tools.
    pub(crate) directory: Setting<Option<String>>,
    /// The folder of a static embedding for search.
    pub(crate) embedding: Setting<Option<PathBuf>>,
    /// Read replicas of an index's database.
    pub(crate) read_stores: Setting<Vec<Location>>,
    /// Networks in addition to the built-in ones: the user's, then the project's.
    pub(crate) networks: Vec<Custom>,
    /// The settings files that were searched, and whether they exist.
    pub(crate) files: Vec<(PathBuf, bool)>,
}

/// A value and where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T> {
    /// The value.
    pub(crate) value: T,
    /// Where it comes from.
    pub(crate) origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An option on the command line.
    Flag(&'static str),
    /// An environment variable.
    Environment(&'static str),
    /// `toolcrib.toml`.
    ProjectFile(PathBuf),
    /// The user's file.
    UserFile(PathBuf),
    /// The built-in default.
    Default,
}

impl Origin {
    /// The name of this origin in JSON.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Flag(_) => "flag",
            Self::Environment(_) => "environment",
            Self::ProjectFile(_) => "project_file",
            Self::UserFile(_) => "user_file",
            Self::Default => "default",
        }
    }

    /// The flag, variable or file.
    pub(crate) fn detail(&self) -> Option<String> {
        match self {
            Self::Flag(name) | Self::Environment(name) => Some((*name).to_owned()),
            Self::ProjectFile(path) | Self::UserFile(path) => Some(path.display().to_string()),
            Self::Default => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::ProjectFile(path) => write!(f, "project file {}", path.display()),
            Self::UserFile(path) => write!(f, "user file {}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Resolves all settings.
pub(crate) fn resolve(flags: Flags) -> Result<Settings, Failure> {
    let mut files = Vec::new();
    let mut layers = Vec::new();
    let mut spend = Setting { value: SpendPolicy::default(), origin: Origin::Default };
    let (mut user_networks, mut project_networks) = (Vec::new(), Vec::new());
    if let Some(path) = project_file() {
        if let Some(mut file) = load(&path)? {
            // An untrusted project must not change the user's spending limits.
            if file.spend.is_some() {
                let what = format!("{}: spending limits can only be set in the user's settings file", path.display());
                return Err(Failure::new(codes::cli::SETTINGS, what));
            }
            // Nor receive the user's API key by choosing the directory.
            if file.directory.is_some() {
                let what = format!("{}: the directory can only be set in the user's settings file", path.display());
                return Err(Failure::new(codes::cli::SETTINGS, what));
            }
            // Nor make a directory load an embedding from the project.
            if file.embedding.is_some() {
                let what = format!("{}: the embedding can only be set in the user's settings file", path.display());
                return Err(Failure::new(codes::cli::SETTINGS, what));
            }
            // Nor choose the database from which the user's directory answers.
            if file.read_stores.is_some() {
                let what = format!("{}: read replicas can only be set in the user's settings file", path.display());
                return Err(Failure::new(codes::cli::SETTINGS, what));
            }
            project_networks = networks::read(std::mem::take(&mut file.networks), &path, true)?;
            layers.push((Origin::ProjectFile(path.clone()), file));
        }
        files.push((path, true));
    }
    if let Some(path) = user_file() {
        let found = load(&path)?;
        files.push((path.clone(), found.is_some()));
        if let Some(mut file) = found {
            if let Some(policy) = file.spend.take() {
                spend = Setting { value: policy, origin: Origin::UserFile(path.clone()) };
            }
            user_networks = networks::read(std::mem::take(&mut file.networks), &path, false)?;
            layers.push((Origin::UserFile(path), file));
        }
    }
    networks::check_project(&project_networks, &user_networks)?;
    user_networks.append(&mut project_networks);
    let no_color = env::var_os(names::NO_COLOR).is_some_and(|value| !value.is_empty());
    let without_color = if no_color { Some((Color::Never, Origin::Environment(names::NO_COLOR))) } else { None };
    Ok(Settings {
        color: decide(
            ("--color", flags.color),
            (names::TOOLCRIB_COLOR, variable(names::TOOLCRIB_COLOR, named)?),
            &layers,
            |file| file.color,
            without_color.unwrap_or((Color::Auto, Origin::Default)),
        ),
        format: decide(
            ("--format", flags.format),
            (names::TOOLCRIB_FORMAT, variable(names::TOOLCRIB_FORMAT, named)?),
            &layers,
            |file| file.format,
            (Format::Human, Origin::Default),
        ),
        deny_warnings: decide(
            ("--deny-warnings", flags.deny_warnings),
            (names::TOOLCRIB_DENY_WARNINGS, variable(names::TOOLCRIB_DENY_WARNINGS, truth)?),
            &layers,
            |file| file.deny_warnings,
            (false, Origin::Default),
        ),
        role: decide(
            ("--as", flags.role),
            (names::TOOLCRIB_AS, variable(names::TOOLCRIB_AS, named)?),
            &layers,
            |file| file.role,
            (Role::Producer, Origin::Default),
        ),
        spend,
        directory: directory(&layers)?,
        embedding: embedding(&layers),
        read_stores: read_stores(&layers)?,
        networks: user_networks,
        files,
    })
}

/// Whether to colour a stream.
pub(crate) fn colored(color: Color, is_terminal: bool) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => is_terminal && env::var_os(names::TERM).is_none_or(|term| term != "dumb"),
    }
}

/// A settings file. Both files accept the same keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    color: Option<Color>,
    format: Option<Format>,
    deny_warnings: Option<bool>,
    #[serde(rename = "as")]
    role: Option<Role>,
    /// Only in the user's file.
    directory: Option<String>,
    /// Only in the user's file.
    embedding: Option<PathBuf>,
    /// Only in the user's file.
    spend: Option<SpendPolicy>,
    /// Only in the user's file.
    read_stores: Option<Vec<String>>,
    #[serde(default)]
    networks: Entries,
}

/// Parses the URL of a read replica. Errors do not contain the text, since it may contain a password.
pub(crate) fn read_store(text: &str) -> Result<Location, Failure> {
    let location = Location::parse(text).map_err(|error| Failure::new(error.code(), error.to_string()))?;
    if location.is_shared() {
        return Ok(location);
    }
    Err(Failure::new(codes::store::LOCATION, "a read replica must be a PostgreSQL server")
        .hint("write postgres://USER@HOST/DATABASE"))
}

/// The read replicas, if some are configured.
fn read_stores(layers: &[(Origin, File)]) -> Result<Setting<Vec<Location>>, Failure> {
    let (stores, origin) = match secrets::var(names::TOOLCRIB_READ_STORES) {
        Some(text) => (text.split_whitespace().map(str::to_owned).collect(), Origin::Environment(names::TOOLCRIB_READ_STORES)),
        None => {
            let in_file = layers.iter().find_map(|(origin, file)| Some((file.read_stores.clone()?, origin.clone())));
            in_file.unwrap_or((Vec::new(), Origin::Default))
        }
    };
    let value = stores.iter().map(|store| read_store(store)).collect::<Result<_, _>>()?;
    Ok(Setting { value, origin })
}

/// The directory to query, if one is configured.
fn directory(layers: &[(Origin, File)]) -> Result<Setting<Option<String>>, Failure> {
    if let Some(url) = variable(names::TOOLCRIB_DIRECTORY, |text| Ok(text.to_owned()))? {
        return Ok(Setting { value: Some(url), origin: Origin::Environment(names::TOOLCRIB_DIRECTORY) });
    }
    let in_file = layers.iter().find_map(|(origin, file)| Some((origin.clone(), file.directory.clone()?)));
    Ok(match in_file {
        Some((origin, url)) => Setting { value: Some(url), origin },
        None => Setting { value: None, origin: Origin::Default },
    })
}

/// The folder of an embedding, if one is configured. A path need not be Unicode.
fn embedding(layers: &[(Origin, File)]) -> Setting<Option<PathBuf>> {
    if let Some(path) = env::var_os(names::TOOLCRIB_EMBEDDING).filter(|path| !path.is_empty()) {
        return Setting { value: Some(path.into()), origin: Origin::Environment(names::TOOLCRIB_EMBEDDING) };
    }
    let in_file = layers.iter().find_map(|(origin, file)| Some((origin.clone(), file.embedding.clone()?)));
    match in_file {
        Some((origin, path)) => Setting { value: Some(path), origin },
        None => Setting { value: None, origin: Origin::Default },
    }
}

fn decide<T: Copy>(
    (flag, flagged): (&'static str, Option<T>),
    (variable, in_environment): (&'static str, Option<T>),
    layers: &[(Origin, File)],
    pick: impl Fn(&File) -> Option<T>,
    (otherwise, fallback): (T, Origin),
) -> Setting<T> {
    if let Some(value) = flagged {
        return Setting { value, origin: Origin::Flag(flag) };
    }
    if let Some(value) = in_environment {
        return Setting { value, origin: Origin::Environment(variable) };
    }
    // NO_COLOR is an environment variable, so it takes precedence over the files.
    if let Origin::Environment(_) = fallback {
        return Setting { value: otherwise, origin: fallback };
    }
    for (origin, file) in layers {
        if let Some(value) = pick(file) {
            return Setting { value, origin: origin.clone() };
        }
    }
    Setting { value: otherwise, origin: fallback }
}

/// The nearest project file at or above the working folder.
pub(crate) fn project_file() -> Option<PathBuf> {
    let here = env::current_dir().ok()?;
    here.ancestors().map(|folder| folder.join(PROJECT_FILE)).find(|path| path.is_file())
}

/// The path of the user's settings. Relative paths are ignored, as the XDG specification requires.
pub(crate) fn user_file() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(names::XDG_CONFIG_HOME)
        .or_else(|| if cfg!(windows) { absolute(names::APPDATA) } else { None })
        .or_else(|| absolute(names::HOME).map(|home| home.join(".config")))?;
    Some(base.join("toolcrib").join("config.toml"))
}

/// The data folders, the user's before those for all users. Relative paths are ignored, as the XDG specification requires.
pub(crate) fn data_folders() -> Vec<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let own = absolute(names::XDG_DATA_HOME)
        .or_else(|| if cfg!(windows) { absolute(names::APPDATA) } else { None })
        .or_else(|| absolute(names::HOME).map(|home| home.join(".local/share")));
    let usual = if cfg!(windows) { "" } else { "/usr/local/share:/usr/share" };
    let all = env::var_os(names::XDG_DATA_DIRS).filter(|all| !all.is_empty()).unwrap_or_else(|| usual.into());
    let machine = env::split_paths(&all).filter(|path| path.is_absolute());
    own.into_iter().chain(machine).map(|folder| folder.join("toolcrib")).collect()
}

/// Reads a settings file. Returns `None` if it does not exist.
fn load(path: &Path) -> Result<Option<File>, Failure> {
    let failure = |what: String| Failure::new(codes::cli::SETTINGS, format!("{}: {what}", path.display()));
    let Some(text) = read_text(path)? else { return Ok(None) };
    parse(&text).map(Some).map_err(failure)
}

/// Parses a settings file. The error names the line.
fn parse(text: &str) -> Result<File, String> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(0, |span| text.as_bytes()[..span.start.min(text.len())].split(|b| *b == b'\n').count());
        let what = error.message().replace('\n', " ");
        if line == 0 { what } else { format!("line {line}: {what}") }
    })
}

/// Checks that [`resolve`] accepts a text from this file, including its networks.
pub(crate) fn check_text(text: &str, path: &Path, of_project: bool) -> Result<(), Failure> {
    if text.len() as u64 > MAX_BYTES {
        return Err(Failure::new(codes::cli::SETTINGS, format!("a settings file has at most {MAX_BYTES} bytes")));
    }
    let file = parse(text).map_err(|what| Failure::new(codes::cli::SETTINGS, format!("{}: {what}", path.display())))?;
    networks::read(file.networks, path, of_project).map(drop)
}

/// Reads a settings file as text. Returns `None` if it does not exist.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, Failure> {
    match read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(Failure::new(codes::cli::SETTINGS, format!("{}: {error}", path.display()))),
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("a settings file has at most {MAX_BYTES} bytes")));
    }
    Ok(text)
}

/// The value of an environment variable. An empty one counts as unset.
fn variable<T>(name: &'static str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, Failure> {
    let text = match env::var(name) {
        Ok(text) if !text.is_empty() => text,
        Ok(_) | Err(VarError::NotPresent) => return Ok(None),
        Err(VarError::NotUnicode(_)) => {
            return Err(Failure::new(codes::cli::SETTINGS, format!("environment variable {name} is not valid Unicode")));
        }
    };
    parse(&text)
        .map(Some)
        .map_err(|takes| Failure::new(codes::cli::SETTINGS, format!("environment variable {name} is `{text}`, expected {takes}")))
}

fn named<T: ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, false).map_err(|_| {
        let all: Vec<_> = T::value_variants().iter().map(|value| format!("`{}`", word(value))).collect();
        all.join(", ")
    })
}

fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("`true` or `false`".to_owned()),
    }
}
