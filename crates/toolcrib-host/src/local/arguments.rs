//! Validates the arguments of a call against the parameters of a function, with messages that help a model to correct them.

use std::io;

use serde_json::Value as Json;
use toolcrib_core::near;
use toolcrib_core::schema::{Echo, MAX_INSTANCE_BYTES, Validator};

use super::export::restored;

/// Most violations that are reported to a model. It corrects a few and calls again.
const MAX_TOLD: usize = 8;

/// Longest message of one violation, in characters: messages repeat values, and violations of the closest alternative.
const MAX_MESSAGE_CHARS: usize = 600;

/// Validates arguments as [`check`] does. Invalid arguments are validated again without the nulls that stand for absent parameters in
/// strict mode, and replaced if they are valid then. The error is about the original arguments.
pub(crate) fn check_or_restore(arguments: &mut Json, schema: &Json, validator: &Validator) -> Result<(), Vec<String>> {
    let violations = match check(arguments, schema, validator) {
        Ok(()) => return Ok(()),
        Err(violations) => violations,
    };
    let without = restored(schema, arguments).filter(|without| check(without, schema, validator).is_ok());
    *arguments = without.ok_or(violations)?;
    Ok(())
}

/// Validates arguments. The error is the message for the model, one line per violation.
fn check(arguments: &Json, schema: &Json, validator: &Validator) -> Result<(), Vec<String>> {
    if !arguments.is_object() {
        return Err(vec!["the arguments must be a JSON object".to_owned()]);
    }
    let bytes = json_bytes(arguments);
    if bytes > MAX_INSTANCE_BYTES {
        return Err(vec![format!("the arguments have {bytes} bytes, above the limit of {MAX_INSTANCE_BYTES}")]);
    }
    let violations = validator.violations(arguments, Echo::Values);
    if violations.is_empty() {
        return Ok(());
    }
    let mut told: Vec<_> = violations.iter().take(MAX_TOLD).map(|violation| cut(&violation.to_string())).collect();
    told.extend(near_misses(arguments, schema));
    if told.is_empty() {
        told.push("the arguments do not fit the parameters".to_owned());
    }
    Err(told)
}

/// Names of arguments that are not parameters but resemble one. Messages of the validator mention nested names.
fn near_misses(arguments: &Json, schema: &Json) -> Vec<String> {
    let Some(properties) = schema.get("properties").and_then(Json::as_object) else { return Vec::new() };
    let known = || properties.keys().map(String::as_str);
    let is_given = |name: &str| arguments.get(name).is_some();
    let unknown = arguments.as_object().into_iter().flatten().filter(|(name, _)| !properties.contains_key(*name)).take(MAX_TOLD);
    unknown
        .filter_map(|(name, _)| {
            let meant = near::nearest(name, known().filter(|known| !is_given(known)))?;
            Some(cut(&format!("`{name}` is not a parameter; is `{meant}` meant?")))
        })
        .chain((!properties.is_empty()).then(|| cut(&format!("parameters: {}", known().collect::<Vec<_>>().join(", ")))))
        .collect()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The size of a value as JSON in bytes. The text is not stored: it may be far above the limit.
fn json_bytes(value: &Json) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        // Neither the counter nor a JSON value can fail.
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcrib_core::json::{Limits, read};

    use super::*;

    fn told(schema: &Json, arguments: &Json) -> Vec<String> {
        let text = schema.to_string();
        let document = read(text.as_bytes(), Limits::default()).document.expect("JSON");
        let validator = Validator::compile(document.root()).expect("a schema");
        check(arguments, schema, &validator).err().unwrap_or_default()
    }

    // req: LOCAL-008, LOCAL-010
    #[test]
    fn messages_name_the_argument_and_what_was_meant() {
        let shell = json!({
            "type": "object",
            "properties": {"command": {"type": "string"}, "cwd": {"type": "string"}, "timeout": {"type": "number"}},
            "required": ["command"],
        });
        assert!(told(&shell, &json!({"command": "ls"})).is_empty(), "a timeout that is absent stays absent");
        let missing = told(&shell, &json!({"comand": "ls"}));
        assert!(missing.iter().any(|line| line.contains("\"command\" is a required property")), "{missing:?}");
        assert!(missing.iter().any(|line| line == "`comand` is not a parameter; is `command` meant?"), "{missing:?}");
        assert!(missing.iter().any(|line| line == "parameters: command, cwd, timeout"), "{missing:?}");
        let wrong = told(&shell, &json!({"command": 7, "timeout": "30"}));
        assert!(
            wrong.iter().any(|line| line.contains("/timeout")) && wrong.iter().any(|line| line.contains("/command")),
            "{wrong:?}"
        );
        assert_eq!(told(&shell, &json!("ls")), ["the arguments must be a JSON object"]);
        let deep = (0..70).fold(json!({}), |inner, _| json!({"a": inner}));
        assert!(told(&shell, &deep)[0].ends_with("the value nests deeper than 64 levels"));
        let large = told(&shell, &json!({"command": "x".repeat(MAX_INSTANCE_BYTES)}));
        assert!(large[0].contains("above the limit of 1048576"), "{large:?}");
        assert!(told(&shell, &json!({"command": vec!["x"; 10_000]}))[0].chars().count() <= MAX_MESSAGE_CHARS + 1);
    }

    #[test]
    fn alternatives_are_reported_with_the_closest_one() {
        let mail = json!({
            "type": "object",
            "properties": {"to": {"type": "string"}, "body": {"anyOf": [
                {"type": "object", "properties": {"kind": {"const": "text"}, "text": {"type": "string"}}, "required": ["kind", "text"]},
                {"type": "object", "properties": {"kind": {"const": "template"}, "name": {"type": "string"}, "values": {
                    "type": "object", "properties": {"recipient": {"type": "string"}}, "required": ["recipient"],
                }}, "required": ["kind", "name", "values"]},
            ]}},
            "required": ["to", "body"],
        });
        let given = json!({"to": "a@example.com", "body": {"kind": "template", "name": "welcome", "values": {"recipent": "A"}}});
        assert_eq!(
            told(&mail, &given),
            [
                "/body: matches no alternative; closest is alternative 2 of 2 ({kind: template}): /body/values: \"recipient\" is a \
                 required property; did you mean `recipient` instead of `recipent`?",
                "parameters: to, body",
            ]
        );
        // A given parameter is not suggested for another name.
        let twice = told(&mail, &json!({"to": 1, "too": "a", "body": {"kind": "text", "text": ""}}));
        assert!(!twice.iter().any(|line| line.contains("`too`")), "{twice:?}");
    }
}
