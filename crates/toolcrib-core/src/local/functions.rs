//! Functions that a model may call: names, parameters and results.

use std::collections::BTreeMap;

use super::names::{EXPOSED_ADVISED, EXPOSED_MAX, NameError, Target, collisions, exposed_name, is_identifier, is_name};
use super::{TextRule, hint_unknown, required_text, runtime};
use crate::checked::Context;
use crate::codes;
use crate::finding::Finding;
use crate::json::{Array, Object, Value};
use crate::schema::{self, Survey, Totals};

/// Most functions. Each brings a schema that is compiled when the tool is loaded; the largest known tool has 66.
pub const MAX_FUNCTIONS: usize = 512;

/// Most functions that a model provider accepts in one request, over all tools.
pub const FUNCTIONS_ADVISED: usize = 128;

/// Longest description of a function, in code points: the limit of the `OpenAI` API.
pub const FUNCTION_DESCRIPTION_MAX: usize = 1024;

/// Longest name of a parameter: the limit of the Anthropic and Gemini APIs.
pub(crate) const PROPERTY_NAME_MAX: usize = 64;

/// Most findings about the parameter names of one function. Usually all of them have the same problem.
const PARAMETER_FINDINGS: usize = 8;

const FIELDS: &[&str] = &["name", "description", "parameters", "outputs", "effects", "timeoutMs"];

const EFFECTS: &[&str] = &["readOnly", "destructive", "idempotent", "openWorld"];

/// The names of the parameters in other formats: MCP, Anthropic, ERC-8257, Gemini.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("inputSchema", "parameters"),
    ("input_schema", "parameters"),
    ("inputs", "parameters"),
    ("params", "parameters"),
    ("parametersJsonSchema", "parameters"),
];

/// Keywords that `OpenAI` and Anthropic reject at the top level of the parameters. The last two are only rejected by `OpenAI`.
const COMBINING: &[&str] = &["oneOf", "anyOf", "allOf", "enum", "not"];

/// Keywords that can describe a property outside `properties`.
const DESCRIBING: &[&str] =
    &["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "patternProperties"];

const FUNCTION_DESCRIPTION: TextRule =
    TextRule { max: FUNCTION_DESCRIPTION_MAX, too_long: codes::local::FUNCTION_DESCRIPTION_LONG, controls: &['\n', '\r', '\t'] };

/// A function that a model may call.
#[derive(Clone, Debug)]
pub struct Function {
    name: String,
    description: String,
    parameters: String,
    survey: Survey,
    outputs: Option<String>,
    effects: Effects,
    timeout_ms: Option<u64>,
}

/// The author's claims about a function's side effects. A missing claim means the worst case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// It modifies nothing.
    pub read_only: Option<bool>,
    /// It may remove or overwrite something.
    pub destructive: Option<bool>,
    /// A repeated call with the same arguments has no further effect.
    pub idempotent: Option<bool>,
    /// It interacts with systems outside this machine.
    pub open_world: Option<bool>,
}

impl Function {
    /// The name; also the name of the handler's export.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The description for the model. Untrusted text.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The source text of the JSON Schema of the arguments.
    pub fn parameters(&self) -> &str {
        &self.parameters
    }

    /// The properties of the schema.
    pub const fn survey(&self) -> &Survey {
        &self.survey
    }

    /// The source text of the JSON Schema of the result, if there is one.
    pub fn outputs(&self) -> Option<&str> {
        self.outputs.as_deref()
    }

    /// The author's claims about side effects. A claim, never a permission.
    pub const fn effects(&self) -> Effects {
        self.effects
    }

    /// The time limit of a call in milliseconds, if the author specified one.
    pub const fn timeout_ms(&self) -> Option<u64> {
        self.timeout_ms
    }
}

/// Checks the required `functions`. Exposed names are checked only if the tool has a valid `id`.
pub(super) fn check(root: Object<'_>, id: Option<&str>, context: &mut Context) -> Option<Vec<Function>> {
    let Some(value) = root.get("functions") else {
        context.report(Finding::new(codes::local::FUNCTIONS_MISSING).at_missing(root.value(), "functions"));
        return None;
    };
    let list = context.array(value)?;
    check_number(value, list, context);
    let mut seen = BTreeMap::new();
    let read: Vec<_> = list
        .iter()
        .take(MAX_FUNCTIONS)
        .enumerate()
        .map(|(index, value)| check_one(value, index, id, &mut seen, context))
        .collect();
    if let Some(id) = id {
        check_collisions(id, seen, context);
    }
    read.into_iter().collect()
}

fn check_number(value: Value<'_>, list: Array<'_>, context: &mut Context) {
    let count = list.len();
    if count == 0 {
        context.report(Finding::new(codes::local::FUNCTIONS_EMPTY).at(value));
    } else if count > MAX_FUNCTIONS {
        context.report(
            Finding::new(codes::local::FUNCTIONS_TOO_MANY)
                .at(value)
                .expected(format!("at most {MAX_FUNCTIONS}"))
                .got(count.to_string()),
        );
    } else if count > FUNCTIONS_ADVISED {
        context.report(
            Finding::new(codes::local::FUNCTIONS_MANY)
                .at(value)
                .expected(format!("at most {FUNCTIONS_ADVISED}"))
                .got(count.to_string()),
        );
    }
}

fn check_one<'d>(
    value: Value<'d>,
    index: usize,
    id: Option<&str>,
    seen: &mut BTreeMap<&'d str, (usize, Value<'d>)>,
    context: &mut Context,
) -> Option<Function> {
    let object = context.object(value)?;
    let name = context.required(object, "name", object.get("name")).and_then(|value| {
        let name = check_name(value, context)?;
        if seen.contains_key(name) {
            context.report(
                Finding::new(codes::local::FUNCTION_DUPLICATE)
                    .at(value)
                    .message(format!("another function has the name `{name}`"))
                    .got(name),
            );
        } else {
            seen.insert(name, (index, value));
            if let Some(id) = id {
                check_exposed(id, name, value, context);
            }
        }
        Some(name)
    });
    let description = required_text(object, "description", FUNCTION_DESCRIPTION, context);
    let parameters =
        context.required(object, "parameters", object.get("parameters")).and_then(|value| check_parameters(value, context));
    let outputs = object.get("outputs").map(|value| {
        let object = context.object(value)?;
        schema::check(value, &mut Totals::default(), context);
        Some(object.value().source().to_owned())
    });
    let effects = object.get("effects").map_or_else(|| Some(Effects::default()), |value| check_effects(value, context));
    let timeout_ms = object.get("timeoutMs").map(|value| runtime::number(value, 1, runtime::MAX_TIMEOUT_MS, context));
    hint_unknown(object, FIELDS.iter().copied(), OTHER_NAMES, context);
    let (parameters, survey) = parameters?;
    Some(Function {
        name: name?.to_owned(),
        description: description?.to_owned(),
        parameters: parameters.to_owned(),
        survey,
        outputs: match outputs {
            Some(outputs) => Some(outputs?),
            None => None,
        },
        effects: effects?,
        timeout_ms: match timeout_ms {
            Some(timeout) => Some(timeout?),
            None => None,
        },
    })
}

fn check_effects(value: Value<'_>, context: &mut Context) -> Option<Effects> {
    let object = context.object(value)?;
    let mut claim = |key: &str| match object.get(key) {
        Some(value) => context.boolean(value).map(Some),
        None => Some(None),
    };
    let [read_only, destructive, idempotent, open_world] =
        [claim("readOnly"), claim("destructive"), claim("idempotent"), claim("openWorld")];
    hint_unknown(object, EFFECTS.iter().copied(), &[("readOnlyHint", "readOnly"), ("destructiveHint", "destructive")], context);
    Some(Effects { read_only: read_only?, destructive: destructive?, idempotent: idempotent?, open_world: open_world? })
}

fn check_name<'d>(value: Value<'d>, context: &mut Context) -> Option<&'d str> {
    let name = context.string(value)?;
    if !is_name(name) {
        context.report(
            Finding::new(codes::local::FUNCTION_NAME)
                .at(value)
                .expected("1 to 64 letters, digits, `_` and `-`, with a letter or digit first")
                .got(name),
        );
        return None;
    }
    if !is_identifier(name) {
        context
            .report(Finding::new(codes::local::FUNCTION_NOT_IDENTIFIER).at(value).expected("letters, digits and `_`").got(name));
    }
    Some(name)
}

/// Checks that the function has a valid name at every target.
fn check_exposed(id: &str, name: &str, value: Value<'_>, context: &mut Context) {
    let refused: Vec<_> =
        Target::ALL.into_iter().filter_map(|target| Some((target, exposed_name(id, name, target).err()?))).collect();
    let too_long = listed(refused.iter().filter(|(_, why)| matches!(why, NameError::TooLong { .. })).map(|(target, _)| *target));
    let exposed = format!("{id}_{name}");
    if !too_long.is_empty() {
        context.report(
            Finding::new(codes::local::EXPOSED_NAME_TOO_LONG)
                .at(value)
                .message(format!("the name that models see has {} characters, too many for {too_long}", exposed.len()))
                .expected(format!("at most {EXPOSED_MAX} characters in `{id}_{name}`"))
                .got(&exposed),
        );
    } else if exposed.len() > EXPOSED_ADVISED {
        context.report(
            Finding::new(codes::local::EXPOSED_NAME_LONG)
                .at(value)
                .message(format!(
                    "the name that models see has {} characters, which leaves little room for prefixes",
                    exposed.len()
                ))
                .expected(format!("at most {EXPOSED_ADVISED} characters"))
                .got(&exposed),
        );
    }
    let malformed = listed(refused.iter().filter(|(_, why)| *why == NameError::Grammar).map(|(target, _)| *target));
    if !malformed.is_empty() {
        context.report(
            Finding::new(codes::local::SLUG_REFUSED)
                .at(value)
                .message(format!("the function has no valid name for {malformed}"))
                .expected(Target::ErcSlug.grammar())
                .got(format!("{id}-{name}").to_ascii_lowercase().replace('_', "-")),
        );
    }
}

fn check_collisions(id: &str, seen: BTreeMap<&str, (usize, Value<'_>)>, context: &mut Context) {
    let mut functions: Vec<_> = seen.into_iter().collect();
    functions.sort_by_key(|&(_, (index, _))| index);
    for collision in collisions(functions.iter().map(|&(name, _)| (id, name))) {
        let ((first, _), (second, (_, value))) = (functions[collision.first], functions[collision.second]);
        let at = listed(collision.names.iter().map(|(target, _)| *target));
        let shared = collision.names.first().map_or("", |(_, name)| name);
        context.report(
            Finding::new(codes::local::NAME_COLLISION)
                .at(value)
                .message(format!("`{second}` and `{first}` both map to `{shared}` for {at}"))
                .got(second),
        );
    }
}

/// The source text of the parameters, and their properties.
fn check_parameters<'d>(value: Value<'d>, context: &mut Context) -> Option<(&'d str, Survey)> {
    let schema = context.object(value)?;
    match schema.get("type") {
        None => context.report(
            Finding::new(codes::local::PARAMETERS_TYPE)
                .at_missing(value, "type")
                .message("the parameters have no `type`")
                .expected("\"object\""),
        ),
        Some(kind) if kind.as_str() != Some("object") => {
            context.report(Finding::new(codes::local::PARAMETERS_TYPE).at(kind).expected("\"object\"").got(kind.source()));
        }
        Some(_) => {}
    }
    for (keyword, member) in COMBINING.iter().filter_map(|&keyword| Some((keyword, schema.get(keyword)?))) {
        let at = if matches!(keyword, "enum" | "not") { "OpenAI" } else { "OpenAI and Anthropic" };
        context.report(
            Finding::new(codes::local::PARAMETERS_COMBINED)
                .at_key(member)
                .message(format!("`{keyword}` at the top level of the parameters is refused by {at}")),
        );
    }
    check_property_names(schema, context);
    check_required(schema, context);
    // The limits on subschemas apply to one schema given to a validator, so each function starts at zero.
    let survey = schema::check(value, &mut Totals::default(), context);
    Some((value.source(), survey))
}

fn check_property_names(schema: Object<'_>, context: &mut Context) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let refused = properties.into_iter().flat_map(Object::iter).filter_map(|(name, property)| {
        // Only the top level: providers check nothing else.
        let long = name.len() > PROPERTY_NAME_MAX;
        let odd = name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
        (long || odd).then_some((name, property, if long { "Anthropic and Gemini" } else { "Anthropic" }))
    });
    for (name, property, at) in refused.take(PARAMETER_FINDINGS) {
        context.report(
            Finding::new(codes::local::PROPERTY_NAME)
                .at_key(property)
                .message(format!("the name of this parameter is refused by {at}"))
                .expected(format!("1 to {PROPERTY_NAME_MAX} letters, digits, `_`, `.` and `-`"))
                .got(name),
        );
    }
}

fn check_required(schema: Object<'_>, context: &mut Context) {
    if DESCRIBING.iter().any(|keyword| schema.get(keyword).is_some()) {
        return;
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let names = schema.get("required").and_then(Value::as_array);
    let unknown = names
        .into_iter()
        .flat_map(Array::iter)
        .filter_map(|value| Some((value, value.as_str()?)))
        .filter(|(_, name)| properties.is_none_or(|properties| properties.get(name).is_none()));
    for (value, name) in unknown.take(PARAMETER_FINDINGS) {
        context.report(
            Finding::new(codes::local::REQUIRED_UNKNOWN).at(value).expected("the name of a property in `properties`").got(name),
        );
    }
}

/// The targets as a list for a sentence.
fn listed(targets: impl Iterator<Item = Target>) -> String {
    let names: Vec<_> = targets.map(|target| target.to_string()).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}
