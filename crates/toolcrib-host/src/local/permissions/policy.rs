//! The operator's policy file: rules for hosts without a user.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use serde_json::{Number, Value as Json};
use toml::{Table, Value};
use toolcrib_core::near::nearest;
use toolcrib_core::text::escape_for_display;
use toolcrib_core::time::parse_rfc3339;

use super::{ArgumentPattern, Decision, Lifetime, Matcher, PermissionError, Rule, RuleId};
use crate::local::state_file::{Owners, check_private, open_regular, read_open};
use crate::local::{ContentHash, StateFileError};

/// The largest policy file.
pub const MAX_POLICY_BYTES: u64 = 1 << 20;

/// Most rules of a policy file. An operator wrote each one.
pub const MAX_POLICY_RULES: usize = 4_096;

/// The version of the format.
const VERSION: i64 = 1;

const KEYS: [&str; 2] = ["version", "rule"];
const RULE_KEYS: [&str; 6] = ["tool", "function", "decision", "content", "expires", "arguments"];
const PATTERN_KEYS: [&str; 8] = ["pointer", "equals", "one_of", "prefix", "glob", "within", "max", "min"];

/// The rules of an operator. The format is shown in the [module](super).
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Vec<Rule>,
}

impl Policy {
    /// Reads a policy file. It must be a regular file that is owned by this user or root, and writable only by its owner.
    pub fn read(path: &Path) -> Result<Self, PermissionError> {
        let missing = || StateFileError::io("open", path)(std::io::ErrorKind::NotFound.into());
        let (file, metadata) = open_regular(path)?.ok_or_else(missing)?;
        // A policy may be readable by others. Write access would allow everything.
        check_private(&metadata, path, 0o755, Owners::UserOrRoot)?;
        let bytes = read_open(file, &metadata, path, MAX_POLICY_BYTES)?;
        let text = String::from_utf8(bytes).map_err(|_| PermissionError::Policy("it is not UTF-8".to_owned()))?;
        text.parse().map_err(|error| match error {
            PermissionError::Policy(why) => PermissionError::Policy(format!("{}: {why}", path.display())),
            other => other,
        })
    }

    /// The rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    pub(super) fn into_rules(self) -> Vec<Rule> {
        self.rules
    }
}

impl FromStr for Policy {
    type Err = PermissionError;

    fn from_str(text: &str) -> Result<Self, PermissionError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string().trim_end()))?;
        check_keys(&table, &KEYS)?;
        match table.get("version") {
            Some(Value::Integer(VERSION)) => {}
            Some(other) => return Err(wrong(&format!("version is {}; expected {VERSION}", shown(other)))),
            None => return Err(wrong(&format!("`version = {VERSION}` is missing"))),
        }
        let rules: &[Value] = match table.get("rule") {
            None => &[],
            Some(Value::Array(rules)) => rules.as_slice(),
            Some(other) => return Err(wrong(&format!("rule is {}; expected tables `[[rule]]`", shown(other)))),
        };
        if rules.len() > MAX_POLICY_RULES {
            return Err(wrong(&format!("it has {} rules; the limit is {MAX_POLICY_RULES}", rules.len())));
        }
        let rules = rules.iter().zip(1_u64..).map(|(value, number)| {
            rule(value, number).map_err(|error| match error {
                PermissionError::Policy(why) | PermissionError::Rule(why) => wrong(&format!("rule {number}: {why}")),
                other => other,
            })
        });
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }
}

fn rule(value: &Value, number: u64) -> Result<Rule, PermissionError> {
    let table = value.as_table().ok_or_else(|| wrong("expected a table"))?;
    check_keys(table, &RULE_KEYS)?;
    let decision = match text(table, "decision")?.ok_or_else(|| wrong("`decision` is missing"))? {
        "allow" => Decision::Allow,
        "ask" => Decision::Ask,
        "deny" => Decision::Deny,
        other => {
            let other = escape_for_display(other);
            return Err(wrong(&format!("decision is `{other}`; expected allow, ask or deny")));
        }
    };
    let tool = match text(table, "tool")?.ok_or_else(|| wrong("`tool` is missing; write \"*\" for every tool"))? {
        "*" => None,
        tool => Some(tool.to_owned()),
    };
    let content = match (text(table, "content")?, decision) {
        (Some("any"), _) | (None, Decision::Ask | Decision::Deny) => None,
        (None, Decision::Allow) => {
            return Err(wrong("`content` is missing: write the content hash that is allowed, or \"any\""));
        }
        (Some(hash), Decision::Allow) => Some(hash.parse::<ContentHash>().map_err(|error| wrong(&format!("content: {error}")))?),
        // A deny or ask rule that ends when the tool changes is a mistake.
        (Some(_), Decision::Ask | Decision::Deny) => {
            return Err(wrong("`content` is for allow rules: deny and ask hold for every content"));
        }
    };
    let expires = match table.get("expires") {
        None => None,
        Some(Value::String(time)) => Some(time.clone()),
        Some(Value::Datetime(time)) => Some(time.to_string()),
        Some(other) => return Err(wrong(&format!("expires is {}; expected a time", shown(other)))),
    };
    let expires = expires.map(|time| parse_rfc3339(&time).map_err(|error| wrong(&format!("expires: {error}")))).transpose()?;
    let arguments: &[Value] = match table.get("arguments") {
        None => &[],
        Some(Value::Array(patterns)) => patterns.as_slice(),
        Some(other) => return Err(wrong(&format!("arguments is {}; expected an array of tables", shown(other)))),
    };
    let rule = Rule {
        id: RuleId::Policy(number),
        tool,
        function: text(table, "function")?.map(str::to_owned),
        decision,
        content,
        arguments: arguments.iter().map(pattern).collect::<Result<_, _>>()?,
        lifetime: Lifetime::Always,
        expires,
        granted_at: None,
        definitions: BTreeMap::new(),
    };
    rule.check()?;
    Ok(rule)
}

fn pattern(value: &Value) -> Result<ArgumentPattern, PermissionError> {
    let table = value.as_table().ok_or_else(|| wrong("an argument pattern is not a table"))?;
    check_keys(table, &PATTERN_KEYS)?;
    let pointer = text(table, "pointer")?.ok_or_else(|| wrong("an argument pattern has no `pointer`"))?;
    let mut matchers = table.iter().filter(|(key, _)| *key != "pointer");
    let (Some((key, value)), None) = (matchers.next(), matchers.next()) else {
        let kinds = PATTERN_KEYS[1..].join(", ");
        return Err(wrong(&format!("an argument pattern needs exactly one of {kinds}")));
    };
    let string =
        || value.as_str().map(str::to_owned).ok_or_else(|| wrong(&format!("{key} is {}; expected a string", shown(value))));
    let matcher = match key.as_str() {
        "equals" => Matcher::Equals(json(value)?),
        "one_of" => {
            let choices = value.as_array().ok_or_else(|| wrong(&format!("one_of is {}; expected an array", shown(value))))?;
            Matcher::OneOf(choices.iter().map(json).collect::<Result<_, _>>()?)
        }
        "prefix" => Matcher::Prefix(string()?),
        "glob" => Matcher::Glob(string()?),
        "within" => Matcher::Within(string()?),
        "max" => Matcher::Max(number(key, value)?),
        _ => Matcher::Min(number(key, value)?),
    };
    ArgumentPattern::new(pointer, matcher)
}

fn json(value: &Value) -> Result<Json, PermissionError> {
    Ok(match value {
        Value::String(text) => Json::String(text.clone()),
        Value::Integer(integer) => Json::from(*integer),
        Value::Float(_) => Json::Number(number("value", value)?),
        Value::Boolean(boolean) => Json::Bool(*boolean),
        Value::Datetime(_) => return Err(wrong("JSON has no dates: write the value as a string")),
        Value::Array(elements) => Json::Array(elements.iter().map(json).collect::<Result<_, _>>()?),
        Value::Table(table) => Json::Object(
            table.iter().map(|(key, value)| Ok((key.clone(), json(value)?))).collect::<Result<_, PermissionError>>()?,
        ),
    })
}

fn number(key: &str, value: &Value) -> Result<Number, PermissionError> {
    let number = match value {
        Value::Integer(integer) => Some(Number::from(*integer)),
        Value::Float(float) => Number::from_f64(*float),
        _ => None,
    };
    number.ok_or_else(|| wrong(&format!("{key} is {}; expected a finite number", shown(value))))
}

fn text<'t>(table: &'t Table, key: &str) -> Result<Option<&'t str>, PermissionError> {
    let not_text = |value: &Value| wrong(&format!("{key} is {}; expected a string", shown(value)));
    table.get(key).map(|value| value.as_str().ok_or_else(|| not_text(value))).transpose()
}

/// An unknown key is an error: ignoring an argument pattern would allow more.
fn check_keys(table: &Table, known: &[&'static str]) -> Result<(), PermissionError> {
    let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let near = nearest(key, known.iter().copied()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    let key = escape_for_display(&key.chars().take(64).collect::<String>());
    Err(wrong(&format!("`{key}` is not a known key{near}")))
}

const fn shown(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a float",
        Value::Boolean(_) => "a boolean",
        Value::Datetime(_) => "a time",
        Value::Array(_) => "an array",
        Value::Table(_) => "a table",
    }
}

fn wrong(why: &str) -> PermissionError {
    PermissionError::Policy(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        match text.parse::<Policy>() {
            Err(error @ PermissionError::Policy(_)) => error.to_string(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn mistakes_are_named() {
        let rule = |rest: &str| format!("version = 1\n[[rule]]\ntool = \"a\"\ndecision = \"deny\"\n{rest}");
        for (text, expected) in [
            (String::new(), "`version = 1` is missing"),
            ("version = 2".to_owned(), "version is an integer; expected 1"),
            ("version = 1\nrules = []".to_owned(), "`rules` is not a known key; did you mean `rule`?"),
            (rule("functoin = \"x\""), "rule 1: `functoin` is not a known key; did you mean `function`?"),
            (rule("zzz = 1"), "rule 1: `zzz` is not a known key"),
            (rule("function = 1"), "function is an integer; expected a string"),
            (rule("function = \"a b\""), "`a b` is not the name of a function"),
            (rule("content = \"any\"\nexpires = 5"), "expires is an integer; expected a time"),
            (rule("content = \"sha256:00\""), "`content` is for allow rules"),
            (rule("arguments = [{ pointer = \"/a\" }]"), "exactly one of equals, one_of"),
            (rule("arguments = [{ pointer = \"/a\", glob = \"x\", prefix = \"y\" }]"), "exactly one of equals, one_of"),
            (rule("arguments = [{ pointer = \"/a\", oneof = [1] }]"), "did you mean `one_of`?"),
            (rule("arguments = [{ pointer = \"a\", equals = 1 }]"), "is not a JSON pointer"),
            (rule("arguments = [{ pointer = \"/a\", max = inf }]"), "expected a finite number"),
            (rule("arguments = [{ pointer = \"/a\", equals = 2020-01-01 }]"), "JSON has no dates"),
            ("version = 1\n[[rule]]\ntool = \"a\"".to_owned(), "`decision` is missing"),
            ("version = 1\n[[rule]]\ndecision = \"deny\"".to_owned(), "`tool` is missing"),
            ("version = 1\n[[rule]]\ntool = \"a\"\ndecision = \"allow\"".to_owned(), "`content` is missing"),
            ("version = 1\n[[rule]]\ntool = \"a\"\ndecision = \"yes\"".to_owned(), "expected allow, ask or deny"),
            ("version = ".to_owned(), "TOML parse error"),
        ] {
            let error = error(&text);
            assert!(error.contains(expected), "{text}\n{error}");
        }
    }

    #[test]
    fn rules_are_read_as_they_are_written() {
        let policy: Policy = r#"
            version = 1
            rule = [
                { tool = "*", decision = "ask" },
                { tool = "a", decision = "allow", content = "any", expires = 2030-01-01T00:00:00Z, arguments = [
                    { pointer = "/x", equals = { a = [1, 2.5, true] } }, { pointer = "/y", min = -1 },
                ] },
            ]
        "#
        .parse()
        .unwrap();
        let [first, second] = policy.rules() else { panic!("{policy:?}") };
        assert_eq!((&first.tool, first.decision, first.id), (&None, Decision::Ask, RuleId::Policy(1)));
        assert_eq!(second.expires.map(|time| time.seconds()), Some(1_893_456_000));
        assert_eq!(second.arguments[0].matcher, Matcher::Equals(serde_json::json!({"a": [1, 2.5, true]})));
        assert_eq!(second.arguments[1].matcher, Matcher::Min(Number::from(-1)));
    }
}
