//! The names of a function at each target (API or registry).
//!
//! A model sees `id_function`, because its list of tools is flat. A registry sees the slug `id-function`. Every target has its own grammar
//! and limit; [`exposed_name`] applies both, and [`collisions`] finds functions that get the same name.

use std::collections::BTreeMap;
use std::fmt;

/// Longest `id`, function name and credential name.
pub(crate) const PART_MAX: usize = 64;

/// Longest recommended `id`: it leaves a function 23 characters within [`EXPOSED_MAX`].
pub(crate) const ID_ADVISED: usize = 40;

/// Longest exposed name: the smallest limit among the APIs through which models call.
pub const EXPOSED_MAX: usize = 64;

/// Longest recommended exposed name: it leaves room for the prefix of clients (`mcp__server__`), which counts as well.
pub const EXPOSED_ADVISED: usize = 40;

/// An API or registry in which a function has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Functions of the `OpenAI` API.
    OpenAi,
    /// Tools of the Anthropic API.
    Anthropic,
    /// Function declarations of the Gemini API.
    Gemini,
    /// Tools of a Model Context Protocol server.
    Mcp,
    /// The slug of an ERC-8257 manifest: `/.well-known/ai-tool/<slug>.json`.
    ErcSlug,
}

impl Target {
    /// All targets.
    pub const ALL: [Self; 5] = [Self::OpenAi, Self::Anthropic, Self::Gemini, Self::Mcp, Self::ErcSlug];

    /// Most characters of a name.
    pub const fn limit(self) -> usize {
        match self {
            // Both APIs answer 400 to longer names.
            Self::OpenAi | Self::Anthropic => 64,
            // Gemini FunctionDeclaration.name; MCP tool names.
            Self::Gemini | Self::Mcp => 128,
            // ERC-8257 §6.
            Self::ErcSlug => 64,
        }
    }

    /// The names that this target accepts, as a regular expression without the limit.
    pub const fn grammar(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Anthropic => "[A-Za-z0-9_-]+",
            Self::Gemini => "[A-Za-z_][A-Za-z0-9_.:-]*",
            Self::Mcp => "[A-Za-z0-9_.-]+",
            Self::ErcSlug => "[a-z0-9]([a-z0-9-]*[a-z0-9])?",
        }
    }

    /// Whether `name` follows the grammar of this target; its length is not checked.
    pub fn accepts(self, name: &str) -> bool {
        let rest = |extra: &[u8]| name.bytes().all(|b| b.is_ascii_alphanumeric() || extra.contains(&b));
        match self {
            Self::OpenAi | Self::Anthropic => !name.is_empty() && rest(b"_-"),
            Self::Gemini => name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && rest(b"_.:-"),
            Self::Mcp => !name.is_empty() && rest(b"_.-"),
            Self::ErcSlug => is_slug(name),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenAi => "OpenAI",
            Self::Anthropic => "Anthropic",
            Self::Gemini => "Gemini",
            Self::Mcp => "MCP",
            Self::ErcSlug => "ERC-8257",
        })
    }
}

/// Why a function has no valid name at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The tool's `id` is not valid.
    Id,
    /// The function's name is not valid.
    Function,
    /// The joined name is longer than the target accepts.
    TooLong {
        /// The length of the name in characters.
        length: usize,
        /// The limit of the target in characters.
        limit: usize,
    },
    /// The joined name does not follow the target's grammar.
    Grammar,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id => f.write_str("the id of the tool is not valid"),
            Self::Function => f.write_str("the name of the function is not valid"),
            Self::TooLong { length, limit } => write!(f, "the name has {length} characters, the limit is {limit}"),
            Self::Grammar => f.write_str("the name has characters that the target does not allow"),
        }
    }
}

impl std::error::Error for NameError {}

/// Returns the name of `function` of the tool `id` at `target`.
///
/// Models get `id_function`; Gemini requires a letter or `_` first, so a leading digit gets the prefix `_`. The slug is `id-function` in
/// lower case with every `_` replaced by `-`.
///
/// ```
/// use toolcrib_core::local::names::{Target, exposed_name};
///
/// assert_eq!(exposed_name("web-search", "find_pages", Target::Mcp).as_deref(), Ok("web-search_find_pages"));
/// assert_eq!(exposed_name("2fa", "code", Target::Gemini).as_deref(), Ok("_2fa_code"));
/// assert_eq!(exposed_name("web-search", "find_pages", Target::ErcSlug).as_deref(), Ok("web-search-find-pages"));
/// ```
pub fn exposed_name(id: &str, function: &str, target: Target) -> Result<String, NameError> {
    if !is_name(id) {
        return Err(NameError::Id);
    }
    if !is_name(function) {
        return Err(NameError::Function);
    }
    let name = match target {
        Target::OpenAi | Target::Anthropic | Target::Mcp => format!("{id}_{function}"),
        Target::Gemini if id.starts_with(|c: char| c.is_ascii_digit()) => format!("_{id}_{function}"),
        Target::Gemini => format!("{id}_{function}"),
        Target::ErcSlug => format!("{id}-{function}").to_ascii_lowercase().replace('_', "-"),
    };
    if name.len() > target.limit() {
        return Err(NameError::TooLong { length: name.len(), limit: target.limit() });
    }
    if target.accepts(&name) { Ok(name) } else { Err(NameError::Grammar) }
}

/// Two functions that have the same name at some targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collision {
    /// Index of the function that came first.
    pub first: usize,
    /// Index of the function that has the same name.
    pub second: usize,
    /// The targets at which the names are equal, with the name.
    pub names: Vec<(Target, String)>,
}

/// Finds functions, given as pairs of tool `id` and function name, that have the same name at some target: `a-b` with `c` and `a` with
/// `b_c` both have the slug `a-b-c`.
///
/// Equal pairs are ignored: those are duplicates at every target. Pairs without a valid name at a target are ignored too.
pub fn collisions<'n>(functions: impl IntoIterator<Item = (&'n str, &'n str)>) -> Vec<Collision> {
    let functions: Vec<_> = functions.into_iter().collect();
    let mut found: BTreeMap<(usize, usize), Vec<(Target, String)>> = BTreeMap::new();
    for target in Target::ALL {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (second, &(id, function)) in functions.iter().enumerate() {
            let Ok(name) = exposed_name(id, function, target) else { continue };
            match seen.get(&name) {
                Some(&first) if functions[first] == (id, function) => {}
                Some(&first) => found.entry((second, first)).or_default().push((target, name)),
                None => {
                    seen.insert(name, second);
                }
            }
        }
    }
    found.into_iter().map(|((second, first), names)| Collision { first, second, names }).collect()
}

/// Whether `text` may be an `id`, a function name or a credential name: `[A-Za-z0-9][A-Za-z0-9_-]{0,63}`.
///
/// It has no separators, dots or blanks, so it is safe as a folder, a member and a part of a tool name.
pub fn is_name(text: &str) -> bool {
    text.len() <= PART_MAX
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Whether `text` is a slug of any length: lower-case letters, digits and inner hyphens (ERC-8257 §6).
pub fn is_slug(text: &str) -> bool {
    let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = text.bytes().next().is_some_and(lower) && text.bytes().next_back().is_some_and(lower);
    ends && text.bytes().all(|b| lower(b) || b == b'-')
}

/// Whether `text` is an identifier in the languages of handlers: usable as an export, a method or a symbol.
pub fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Variables, in upper case, that control what a program loads, runs or trusts. They are never set for a tool.
const LOADER_VARIABLES: &[&str] = &[
    "BASH_ENV",
    "ENV",
    "GCONV_PATH",
    "GIT_SSH_COMMAND",
    "HOME",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "LOCPATH",
    "PATH",
    "PERL5LIB",
    "PERL5OPT",
    "PERLLIB",
    "RUBYLIB",
    "RUBYOPT",
    "SHELL",
    "SHELLOPTS",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "USER",
];

/// Prefixes of such variables.
const LOADER_PREFIXES: &[&str] = &["BASH_FUNC_", "DYLD_", "LD_", "MALLOC_", "NODE_", "NPM_CONFIG_", "PYTHON", "TOOLCRIB_"];

/// Whether an environment variable controls what a program loads or runs. `name` is in upper case.
pub(crate) fn is_loader_variable(name: &str) -> bool {
    LOADER_VARIABLES.contains(&name) || LOADER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(id: &str, function: &str, target: Target, wanted: Result<&str, NameError>) {
        assert_eq!(exposed_name(id, function, target).as_deref(), wanted.as_ref().map(|name| *name), "{id} {function} {target}");
    }

    #[test]
    fn names_at_every_target() {
        for target in [Target::OpenAi, Target::Anthropic, Target::Gemini, Target::Mcp] {
            check("shell", "execute", target, Ok("shell_execute"));
            check("my-tool", "doSomething", target, Ok("my-tool_doSomething"));
        }
        check("my-tool", "doSomething", Target::ErcSlug, Ok("my-tool-dosomething"));
        check("a", "b_c", Target::ErcSlug, Ok("a-b-c"));
        check("2fa", "code", Target::OpenAi, Ok("2fa_code"));
        check("2fa", "code", Target::Gemini, Ok("_2fa_code"));
        check("2fa", "code", Target::ErcSlug, Ok("2fa-code"));
        check("a", "b_", Target::ErcSlug, Err(NameError::Grammar));
        check("a", "b_", Target::Mcp, Ok("a_b_"));
    }

    #[test]
    fn limits_of_every_target() {
        let part = |length: usize| "x".repeat(length);
        for target in [Target::OpenAi, Target::Anthropic, Target::ErcSlug] {
            assert!(exposed_name(&part(31), &part(32), target).is_ok(), "64 characters, {target}");
            check(&part(32), &part(32), target, Err(NameError::TooLong { length: 65, limit: 64 }));
        }
        for target in [Target::Gemini, Target::Mcp] {
            assert!(exposed_name(&part(63), &part(64), target).is_ok(), "128 characters, {target}");
            check(&part(64), &part(64), target, Err(NameError::TooLong { length: 129, limit: 128 }));
        }
        // The prefix counts towards the limit.
        let digit = format!("1{}", part(62));
        assert!(exposed_name(&digit, &part(63), Target::Gemini).is_ok());
        check(&digit, &part(64), Target::Gemini, Err(NameError::TooLong { length: 129, limit: 128 }));
        assert_eq!(Target::ALL.into_iter().map(Target::limit).min(), Some(EXPOSED_MAX));
    }

    // req: LOCAL-003
    #[test]
    fn parts_must_be_names() {
        for bad in ["", "_a", "-a", "a/b", "..", "a.b", "a b", "é", "a\n", "a\u{0}", "a:b"] {
            check(bad, "f", Target::Mcp, Err(NameError::Id));
            check("a", bad, Target::Mcp, Err(NameError::Function));
        }
        assert!(is_name(&"a".repeat(PART_MAX)) && !is_name(&"a".repeat(PART_MAX + 1)));
    }

    // req: URL-002
    #[test]
    fn slugs() {
        for good in ["a", "0", "a-b", "a--b", "2fa", "web-search"] {
            assert!(is_slug(good), "{good}");
        }
        for bad in ["", "-", "-a", "a-", "A", "a_b", "a.b", "é"] {
            assert!(!is_slug(bad), "{bad}");
        }
    }

    #[test]
    fn collisions_name_the_targets() {
        assert!(collisions([("a", "b"), ("a", "c"), ("b", "b")]).is_empty());
        assert!(collisions([("a", "b"), ("a", "b")]).is_empty(), "duplicates are another matter");

        let slug_only = collisions([("a-b", "c"), ("x", "y"), ("a", "b_c")]);
        assert_eq!(slug_only, [Collision { first: 0, second: 2, names: vec![(Target::ErcSlug, "a-b-c".to_owned())] }]);

        let everywhere = collisions([("a_b", "c"), ("a", "b_c")]);
        assert_eq!(everywhere.len(), 1);
        assert_eq!(everywhere[0].names.iter().map(|(target, _)| *target).collect::<Vec<_>>(), Target::ALL);

        let case = collisions([("a", "getX"), ("a", "getx"), ("a", "getX")]);
        assert_eq!(case.iter().map(|c| (c.first, c.second)).collect::<Vec<_>>(), [(0, 1)]);
    }
}
