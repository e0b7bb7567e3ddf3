//! An MCP server to import: how to start or reach it, and its credentials.

use toolcrib_core::local::{NetworkRequest, names};
use toolcrib_core::secrets::kind_of_secret;
use toolcrib_core::slug::Slug;

use super::ImportError;

/// Most arguments of a command, and most variables of its environment.
pub(super) const MAX_ITEMS: usize = 64;

/// Longest argument, URL or value.
pub(super) const MAX_TEXT: usize = 8_192;

/// Prefixes of variables that make a program load other code.
const REFUSED_BEGINNINGS: [&str; 5] = ["LD_", "DYLD_", "PYTHON", "GIT_", "BASH_FUNC_"];

/// Variables that make a program load other code, or that the host sets.
const REFUSED: [&str; 19] = [
    "BASH_ENV",
    "CLASSPATH",
    "ENV",
    "GCONV_PATH",
    "GEM_HOME",
    "GEM_PATH",
    "HOME",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PATH",
    "PERL5LIB",
    "PERL5OPT",
    "PROMPT_COMMAND",
    "RUBYLIB",
    "RUBYOPT",
    "SHELLOPTS",
    "_JAVA_OPTIONS",
];

/// Words in names of variables, arguments and headers that indicate a secret.
const SECRET_WORDS: [&str; 14] = [
    "apikey",
    "auth",
    "bearer",
    "cookie",
    "credential",
    "dsn",
    "key",
    "passphrase",
    "passwd",
    "password",
    "private",
    "secret",
    "session",
    "token",
];

/// How to reach a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// A program that speaks MCP over stdio. The first element is the program: `./file` in the folder, or a name found in PATH. It runs in
    /// the folder of the tool.
    Command(Vec<String>),
    /// A URL, over HTTP.
    Url(String),
}

/// A credential of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCredential {
    /// The name of the credential.
    pub name: String,
    /// The label for users.
    pub label: String,
    /// Help for the user.
    pub description: Option<String>,
    /// Whether the server needs it to work.
    pub required: bool,
    /// Whether its value is secret.
    pub secret: bool,
    /// The environment variable for it.
    pub env: Option<String>,
    /// The HTTP header for it.
    pub header: Option<String>,
}

/// An MCP server that is imported as a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServer {
    /// The id of the tool.
    pub id: String,
    /// The display name.
    pub name: String,
    /// The description.
    pub description: String,
    /// Its semantic version.
    pub version: String,
    /// How to reach it.
    pub transport: Transport,
    /// Its credentials.
    pub credentials: Vec<ServerCredential>,
    /// Its sandbox grants.
    pub grants: Grants,
}

/// What the sandbox of a server grants in addition to its folders and system programs. Configurations and bundles do not declare it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Files and folders with read access, as in `sandbox.read` of a manifest.
    pub read: Vec<String>,
    /// Files and folders with write access, as in `sandbox.write`.
    pub write: Vec<String>,
    /// Network access.
    pub network: NetworkRequest,
}

impl McpServer {
    /// Sets an id other than the one derived from the name.
    pub fn with_id(self, id: &str) -> Result<Self, ImportError> {
        if names::is_name(id) {
            Ok(Self { id: id.to_owned(), ..self })
        } else {
            Err(ImportError::Name { name: id.to_owned(), problem: "it is not an id" })
        }
    }
}

/// Whether a text of a configuration contains a placeholder of its client: `${input:key}`, `${env:KEY}`, `${workspaceFolder}`.
pub(super) fn is_placeholder(text: &str) -> bool {
    text.contains("${")
}

/// Checks that an argument or URL is literal, without placeholders of a client.
pub(super) fn check_expanded(text: &str) -> Result<(), ImportError> {
    match text.split_once("${") {
        None => Ok(()),
        Some((_, rest)) => Err(ImportError::Variable { name: rest.split('}').next().unwrap_or_default().to_owned() }),
    }
}

/// Derives an id from a name.
pub(super) fn id_of(name: &str) -> Result<String, ImportError> {
    let refused = |problem| ImportError::Name { name: name.to_owned(), problem };
    let slug = Slug::derive(name).map_err(|_| refused("nothing is left of it as an id, or it is too long"))?;
    if names::is_name(slug.as_str()) { Ok(slug.as_str().to_owned()) } else { Err(refused("it is not an id")) }
}

/// Derives the name of a credential from that of a variable, header or setting.
pub(super) fn credential_name(name: &str) -> Result<String, ImportError> {
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    let name = name.trim_matches('_');
    if names::is_name(name) {
        Ok(name.to_owned())
    } else {
        Err(ImportError::Name { name: name.to_owned(), problem: "it is not the name of a credential" })
    }
}

/// Checks the name of an environment variable.
pub(super) fn check_variable(name: &str) -> Result<(), ImportError> {
    let refused = |problem| Err(ImportError::Environment { name: name.to_owned(), problem });
    let is_name = name.len() <= 128
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !is_name {
        return refused("expected letters, digits and `_`");
    }
    let upper = name.to_ascii_uppercase();
    if REFUSED.contains(&upper.as_str()) || REFUSED_BEGINNINGS.iter().any(|beginning| upper.starts_with(beginning)) {
        return refused("it changes which code a program loads, or is set by the host");
    }
    Ok(())
}

/// Whether a name indicates a secret.
pub(super) fn announces_secret(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    SECRET_WORDS.iter().any(|word| plain.contains(word))
}

/// Whether a value looks like a secret: a key in a known format, or a URL with a password.
pub(super) fn looks_secret(value: &str) -> bool {
    let has_password = value.split_once("://").is_some_and(|(_, rest)| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    });
    has_password || kind_of_secret(value, true).is_some()
}

/// Checks a command: the program, and that no argument contains a secret.
pub(super) fn check_command(command: &[String]) -> Result<(), ImportError> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(ImportError::Command { command: String::new(), problem: "it is empty" });
    };
    let refused = |problem| Err(ImportError::Command { command: program.clone(), problem });
    if arguments.len() > MAX_ITEMS || command.iter().any(|part| part.len() > MAX_TEXT || part.contains('\0')) {
        return refused("it has too many or too long arguments, or a NUL");
    }
    match program.strip_prefix("./") {
        Some(path) if path.is_empty() || path.split('/').any(|part| matches!(part, "" | "." | "..")) => {
            return refused("it leaves the folder");
        }
        Some(_) => {}
        None if program.is_empty() || program.contains(['/', '\\']) || program.starts_with('-') => {
            return refused("expected a file of the folder, or the name of a program without its folder");
        }
        None => {}
    }
    let mut announced = false;
    for (index, argument) in arguments.iter().enumerate() {
        let secret = ImportError::Secret { place: format!("argument {} of the command", index + 1) };
        // `--api-key value` and `--api-key=value`. A flag alone, such as `--no-auth`, has no value.
        let (flag, value) = match argument.split_once('=') {
            Some((flag, value)) if flag.starts_with('-') => (Some(flag), Some(value)),
            _ if argument.starts_with('-') => (Some(argument.as_str()), None),
            _ => (None, Some(argument.as_str())),
        };
        let announces = flag.is_some_and(announces_secret);
        match value {
            Some(value) if looks_secret(value) => return Err(secret),
            Some(value) if (announces || flag.is_none() && announced) && is_opaque(value) => return Err(secret),
            _ => {}
        }
        announced = announces && value.is_none();
    }
    Ok(())
}

/// Whether the value of a flag that indicates a secret can be one: not a path, a number or a short word.
fn is_opaque(value: &str) -> bool {
    value.len() >= 8 && !value.contains(['/', '\\', ' ']) && !value.bytes().all(|b| b.is_ascii_digit())
}

/// Checks the URL of a server: http or https, without a secret.
pub(super) fn check_url(url: &str) -> Result<(), ImportError> {
    let usable = url.len() <= MAX_TEXT
        && (url.starts_with("https://") || url.starts_with("http://"))
        && !url.chars().any(|c| c.is_control() || c.is_whitespace());
    if !usable {
        return Err(ImportError::Entry("expected a url with http or https".to_owned()));
    }
    let authority = url.split("://").nth(1).unwrap_or_default().split(['/', '?', '#']).next().unwrap_or_default();
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let has_secret = authority.contains('@')
        || looks_secret(url)
        || query
            .split(['&', '#'])
            .any(|pair| pair.split_once('=').is_some_and(|(name, value)| announces_secret(name) && !value.is_empty()));
    if has_secret { Err(ImportError::Secret { place: "the url".to_owned() }) } else { Ok(()) }
}
