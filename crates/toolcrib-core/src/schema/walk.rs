//! One pass over a schema: counts, the type of every keyword, patterns, prefilled values, and lints.

use super::keyword::{Apply, Keyword, classify, near_miss};
use super::pattern::{self, FlawKind};
use super::{MAX_DEPTH, MAX_NODES, MAX_PATTERNS_SIZE, MAX_PATTERNS_WORK, MAX_PREFILLED, Prefilled, Survey, Totals, graph};
use crate::checked::Context;
use crate::codes::{self, Code};
use crate::finding::{Finding, Mode, Severity};
use crate::json::{self, Array, Kind, Object, Value};

/// Most findings about one schema. Each needs a walk from the root for its pointer, so a hostile schema could otherwise make the pass
/// quadratic. The first error is always reported.
const MAX_FINDINGS: usize = 64;

/// Most unknown keywords that are compared with the known ones. Ordinary schemas have a handful.
const MAX_TYPO_CHECKS: usize = 256;

/// Depth of JSON containers beyond which a reader that counts brackets may reject a schema.
const STRICT_DEPTH: usize = MAX_DEPTH;
const STRICT_CONTAINERS: usize = MAX_NODES;

/// The pass over one schema.
pub(super) struct Walk<'a> {
    totals: &'a mut Totals,
    context: &'a mut Context,
    survey: Survey,
    too_deep: bool,
    /// The node limit was exceeded: nothing more is checked.
    stopped: bool,
    /// Whether only the keywords of a schema are checked and not its subschemas.
    shallow: bool,
    reported: usize,
    has_errors: bool,
    has_refs: bool,
    unevaluated: usize,
    embedded_id: bool,
    pattern_size: u32,
    pattern_work: u32,
    patterns_over: bool,
    typo_checks: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn run(root: Value<'_>, totals: &'a mut Totals, context: &'a mut Context) -> Survey {
        let mut walk = Walk {
            totals,
            context,
            survey: Survey::default(),
            too_deep: false,
            stopped: false,
            shallow: false,
            reported: 0,
            has_errors: false,
            has_refs: false,
            unevaluated: 0,
            embedded_id: false,
            pattern_size: 0,
            pattern_work: 0,
            patterns_over: false,
            typo_checks: 0,
        };
        let containers = root.containers();
        if !walk.fits(root, containers.1) {
            return walk.survey;
        }
        if let Some(object) = root.as_object() {
            walk.field_map(object);
        }
        walk.schema(root, 1);
        walk.survey.expanded = walk.survey.nodes as u64;
        if !walk.stopped && !walk.too_deep {
            // Without references, only nested `unevaluated…` can multiply work.
            if walk.has_refs || walk.unevaluated > 1 {
                walk.shallow = true;
                graph::check(root, &mut walk);
            }
        }
        if !walk.stopped && !walk.too_deep {
            walk.containers(root, containers);
        }
        walk.survey
    }

    /// Whether the schema is small enough to check. The values of `enum`, `const` and unknown keywords do not count as subschemas, but
    /// compiling a validator copies them.
    fn fits(&mut self, root: Value<'_>, depth: usize) -> bool {
        let size = root.size();
        if depth > json::MAX_DEPTH {
            self.report(codes::schema::TOO_DEEP, |finding| {
                finding.at(root).expected(format!("at most {} nested arrays and objects", json::MAX_DEPTH))
            });
        } else if size > json::MAX_VALUES {
            self.report(codes::schema::TOO_MANY_NODES, |finding| {
                finding.at(root).expected(format!("at most {} values and keys", json::MAX_VALUES)).got(format!("{size}"))
            });
        } else {
            return true;
        }
        false
    }

    /// Reports a finding created by `make`, unless there were too many. The first error, and the first finding that forbids compiling, are
    /// always reported.
    pub(super) fn report(&mut self, code: Code, make: impl FnOnce(Finding) -> Finding) {
        let severity = severity(code, self.context.mode);
        let is_first_error = severity == Severity::Error && !self.has_errors;
        let is_first_bar = bars_validator(code) && !self.survey.bars_validator;
        self.has_errors |= is_first_error;
        self.survey.bars_validator |= is_first_bar;
        if self.reported >= MAX_FINDINGS && !is_first_error && !is_first_bar {
            return;
        }
        self.reported += 1;
        let finding = make(Finding::new(code));
        let milder = finding.severity.min(severity);
        self.context.report(finding.severity(milder));
    }

    /// Whether there are references within the schema.
    pub(super) const fn has_refs(&self) -> bool {
        self.has_refs
    }

    /// Whether a subschema has its own `$id`.
    pub(super) const fn has_embedded_id(&self) -> bool {
        self.embedded_id
    }

    /// Whether some subschema lies beyond the depth limit.
    pub(super) const fn is_too_deep(&self) -> bool {
        self.too_deep
    }

    /// Stores the expanded size after following references.
    pub(super) const fn set_expanded(&mut self, expanded: u64) {
        self.survey.expanded = expanded;
    }

    /// Checks a schema at `level`. Returns whether the pass continues.
    pub(super) fn schema(&mut self, value: Value<'_>, level: usize) -> bool {
        if self.stopped {
            return false;
        }
        let object = match value.kind() {
            Kind::Object => value.as_object(),
            Kind::Bool => None,
            kind => {
                self.report(codes::schema::NOT_A_SCHEMA, |finding| {
                    finding.at(value).expected("an object or a boolean").got(kind.described())
                });
                return true;
            }
        };
        self.survey.nodes += 1;
        self.totals.nodes += 1;
        if self.totals.nodes > MAX_NODES {
            self.stopped = true;
            if !std::mem::replace(&mut self.totals.over_reported, true) {
                self.report(codes::schema::TOO_MANY_NODES, |finding| {
                    finding.at(value).expected(format!("at most {MAX_NODES} subschemas over all schemas of the manifest"))
                });
            }
            return false;
        }
        self.survey.depth = self.survey.depth.max(level);
        if level > MAX_DEPTH {
            if !std::mem::replace(&mut self.too_deep, true) {
                self.report(codes::schema::TOO_DEEP, |finding| {
                    finding.at(value).expected(format!("at most {MAX_DEPTH} levels of subschemas"))
                });
            }
            return true;
        }
        let Some(object) = object else { return true };
        let mut unknown = 0_usize;
        for (key, member) in object.iter() {
            match classify(key) {
                Keyword::Unknown => unknown += 1,
                keyword => self.keyword(keyword, key, member, level),
            }
        }
        if unknown > 0 {
            self.typos(object, unknown);
        }
        !self.stopped
    }

    fn subschema(&mut self, value: Value<'_>, level: usize) {
        if !self.shallow {
            self.schema(value, level + 1);
        } else if !matches!(value.kind(), Kind::Object | Kind::Bool) {
            // It is not visited as a node of its own, so its type is checked here.
            self.schema(value, level + 1);
        }
    }

    fn keyword(&mut self, keyword: Keyword, key: &str, value: Value<'_>, level: usize) {
        match keyword {
            Keyword::One(apply) => {
                self.unevaluated += usize::from(key.starts_with("uneval"));
                match value.as_array() {
                    Some(list) if apply == Apply::Items => {
                        self.report(codes::schema::LEGACY_FORM, |finding| {
                            finding
                                .at(value)
                                .message("an array under `items` is called `prefixItems` since 2020-12")
                                .expected("one schema for all items, or `prefixItems`")
                                .got("an array")
                        });
                        list.iter().for_each(|item| self.subschema(item, level));
                    }
                    _ => self.subschema(value, level),
                }
            }
            Keyword::List(_) => match value.as_array() {
                Some(list) if !list.is_empty() => list.iter().for_each(|item| self.subschema(item, level)),
                _ => self.misshapen(key, value, "an array of at least one schema"),
            },
            Keyword::Map(apply) => self.map(apply, key, value, level),
            Keyword::Dependencies => self.dependencies(key, value, level),
            Keyword::Type => self.types(value),
            Keyword::Required => match value.kind() {
                Kind::Bool => self.report(codes::schema::LEGACY_FORM, |finding| {
                    finding
                        .at(value)
                        .message("`required` is a list of property names in the schema of the object, not a flag of a property")
                        .expected("an array of property names beside `properties`")
                        .got(value.source())
                }),
                _ => self.names(key, value),
            },
            Keyword::DependentRequired => match value.as_object() {
                Some(map) => map.iter().for_each(|(_, names)| self.names(key, names)),
                None => self.misshapen(key, value, "an object whose values are arrays of property names"),
            },
            Keyword::Pattern => match value.as_str() {
                Some(text) => self.pattern(text, value, false),
                None => self.misshapen(key, value, "a regular expression as a string"),
            },
            Keyword::Default => self.prefilled("default", value),
            Keyword::Const => self.prefilled("const", value),
            Keyword::Number => self.shape(key, value, value.kind() == Kind::Number, "a number"),
            Keyword::MultipleOf => {
                self.shape(key, value, value.as_f64().is_some_and(|number| number > 0.0), "a number greater than 0");
            }
            Keyword::Exclusive => match value.kind() {
                Kind::Bool => self.report(codes::schema::LEGACY_FORM, |finding| {
                    finding
                        .at(value)
                        .message(format!("a boolean `{key}` is draft-04; in 2020-12 it is the bound itself"))
                        .expected("a number")
                        .got(value.source())
                }),
                kind => self.shape(key, value, kind == Kind::Number, "a number"),
            },
            Keyword::NonNegative => {
                let fits = value.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0);
                self.shape(key, value, fits, "a whole number, 0 or more");
            }
            Keyword::Boolean => self.shape(key, value, value.kind() == Kind::Bool, "true or false"),
            Keyword::Text => self.shape(key, value, value.kind() == Kind::String, "a string"),
            Keyword::Array => self.shape(key, value, value.kind() == Kind::Array, "an array"),
            Keyword::Ref => self.reference(key, value),
            Keyword::Id => {
                let fits = value.as_str().is_some_and(|id| id.find('#').is_none_or(|at| at + 1 == id.len()));
                self.shape(key, value, fits, "a URI without a fragment, as a string");
                self.embedded_id |= level > 1 && fits;
            }
            Keyword::Schema => self.dialect(key, value),
            Keyword::Anchor => {
                self.shape(key, value, value.as_str().is_some_and(is_anchor), "a name of letters, digits, - _ and .");
            }
            Keyword::Vocabulary => {
                let fits = value.as_object().is_some_and(|map| map.iter().all(|(_, on)| on.kind() == Kind::Bool));
                self.shape(key, value, fits, "an object whose values are booleans");
            }
            Keyword::Legacy(now) => {
                if key.starts_with('$') {
                    let fits = value.as_str().is_some_and(|text| key != "$recursiveAnchor" || is_anchor(text));
                    self.shape(key, value, fits, "a string");
                }
                self.report(codes::schema::LEGACY_KEYWORD, |finding| {
                    finding.at_key(value).message(format!("`{key}` has no effect in 2020-12")).expected(now)
                });
            }
            Keyword::Unknown => {}
        }
    }

    fn map(&mut self, apply: Apply, key: &str, value: Value<'_>, level: usize) {
        let Some(map) = value.as_object() else {
            return self.misshapen(key, value, "an object whose values are schemas");
        };
        if key == "definitions" {
            self.report(codes::schema::LEGACY_KEYWORD, |finding| {
                finding
                    .at_key(value)
                    .severity(Severity::Hint)
                    .message("`definitions` is called `$defs` since 2019-09; references to it still work")
                    .expected("$defs")
            });
        }
        for (name, member) in map.iter() {
            if apply == Apply::Pattern {
                self.pattern(name, member, true);
            }
            self.subschema(member, level);
            if self.stopped {
                return;
            }
        }
    }

    fn dependencies(&mut self, key: &str, value: Value<'_>, level: usize) {
        let Some(map) = value.as_object() else {
            return self.misshapen(key, value, "an object whose values are schemas or arrays of property names");
        };
        self.report(codes::schema::LEGACY_KEYWORD, |finding| {
            finding
                .at_key(value)
                .message("`dependencies` was split in 2019-09; validators may ignore it")
                .expected("dependentRequired and dependentSchemas")
        });
        for (_, member) in map.iter() {
            match member.kind() {
                Kind::Array => self.names(key, member),
                _ => self.subschema(member, level),
            }
        }
    }

    fn types(&mut self, value: Value<'_>) {
        const SHAPE: &str = "a type name, or an array of different type names";
        let mut seen = 0_u8;
        let single = value.as_str().map(|_| value);
        let list = value.as_array();
        if single.is_none() && list.is_none_or(Array::is_empty) {
            return self.misshapen("type", value, SHAPE);
        }
        for item in single.into_iter().chain(list.into_iter().flat_map(Array::iter)) {
            let Some(name) = item.as_str() else { return self.misshapen("type", item, "a type name") };
            let bit = match name {
                "string" => 1,
                "object" => 2,
                "number" => 4,
                "integer" => 8,
                "array" => 16,
                "boolean" => 32,
                "null" => 64,
                _ => return self.unknown_type(item, name),
            };
            if seen & bit != 0 {
                return self.misshapen("type", item, SHAPE);
            }
            seen |= bit;
        }
    }

    fn unknown_type(&mut self, value: Value<'_>, name: &str) {
        self.report(codes::schema::UNKNOWN_TYPE, |finding| {
            let finding = finding.at(value).got(name);
            match meant_type(name) {
                Some(meant) => {
                    finding.message("this is not one of the seven type names; did you mean the expected form?").expected(meant)
                }
                None => finding.expected("array, boolean, integer, null, number, object or string"),
            }
        });
    }

    /// Checks an array of distinct strings.
    fn names(&mut self, key: &str, value: Value<'_>) {
        const SHAPE: &str = "an array of property names";
        let Some(list) = value.as_array() else { return self.misshapen(key, value, SHAPE) };
        if let Some(other) = list.iter().find(|item| item.kind() != Kind::String) {
            return self.misshapen(key, other, "a property name");
        }
        let twice = if list.len() <= 16 {
            list.iter().enumerate().find(|(at, item)| list.iter().take(*at).any(|before| before.as_str() == item.as_str()))
        } else {
            let mut sorted: Vec<_> = list.iter().enumerate().collect();
            sorted.sort_by_key(|(at, item)| (item.as_str(), *at));
            sorted.windows(2).find(|pair| pair[0].1.as_str() == pair[1].1.as_str()).map(|pair| pair[1])
        };
        if let Some((_, item)) = twice {
            self.report(codes::schema::KEYWORD_SHAPE, |finding| {
                finding
                    .at(item)
                    .message(format!("`{key}` names the same property twice"))
                    .expected("each name once")
                    .got(item.as_str().unwrap_or_default())
            });
        }
    }

    fn pattern(&mut self, text: &str, value: Value<'_>, is_key: bool) {
        let flaw = match pattern::scan(text) {
            Ok(cost) => {
                self.pattern_size = self.pattern_size.saturating_add(cost.size);
                self.pattern_work = self.pattern_work.saturating_add(cost.work);
                let over = self.pattern_size > MAX_PATTERNS_SIZE || self.pattern_work > MAX_PATTERNS_WORK;
                if !over || std::mem::replace(&mut self.patterns_over, true) {
                    return;
                }
                pattern::Flaw { kind: FlawKind::TooLarge, at: 0, what: "all patterns of the schema together are too large" }
            }
            Err(flaw) => flaw,
        };
        let code = match flaw.kind {
            FlawKind::Malformed => codes::schema::PATTERN_MALFORMED,
            FlawKind::NotLinear => codes::schema::PATTERN_NOT_LINEAR,
            FlawKind::Unsupported => codes::schema::PATTERN_UNSUPPORTED,
            FlawKind::TooLarge => codes::schema::PATTERN_TOO_LARGE,
        };
        self.report(code, |finding| {
            let finding = if is_key { finding.at_key(value) } else { finding.at(value) };
            finding.message(format!("{}, at byte {} of the pattern", flaw.what, flaw.at)).got(text)
        });
    }

    fn prefilled(&mut self, keyword: &'static str, value: Value<'_>) {
        if self.survey.prefilled.len() < MAX_PREFILLED {
            let (pointer, span, value) = (value.pointer(), value.span(), value.source().to_owned());
            self.survey.prefilled.push(Prefilled { pointer, keyword, value, span });
        } else {
            self.survey.prefilled_more += 1;
        }
    }

    fn reference(&mut self, key: &str, value: Value<'_>) {
        match value.as_str() {
            None => self.misshapen(key, value, "a reference such as #/$defs/name"),
            Some(target) if target.is_empty() || target.starts_with('#') => self.has_refs = true,
            Some(target) => self.report(codes::schema::REMOTE_REF, |finding| {
                finding.at(value).expected("a reference within this schema, such as #/$defs/name").got(target)
            }),
        }
    }

    fn dialect(&mut self, key: &str, value: Value<'_>) {
        let Some(uri) = value.as_str() else { return self.misshapen(key, value, "the URI of a metaschema") };
        let plain = uri.strip_suffix('#').unwrap_or(uri);
        let plain = plain.strip_prefix("https://").or_else(|| plain.strip_prefix("http://")).unwrap_or(plain);
        let draft = match plain {
            "json-schema.org/draft/2020-12/schema" => return,
            "json-schema.org/draft/2019-09/schema" => "2019-09",
            "json-schema.org/draft-07/schema" => "draft-07",
            "json-schema.org/draft-06/schema" => "draft-06",
            "json-schema.org/draft-04/schema" => "draft-04",
            "json-schema.org/draft-03/schema" => "draft-03",
            _ => {
                return self.report(codes::schema::UNKNOWN_DIALECT, |finding| finding.at(value).got(uri));
            }
        };
        self.report(codes::schema::OTHER_DRAFT, |finding| {
            finding
                .at(value)
                .message(format!("the schema names {draft}, but it is read as 2020-12"))
                .expected("https://json-schema.org/draft/2020-12/schema")
                .got(uri)
        });
    }

    fn shape(&mut self, key: &str, value: Value<'_>, fits: bool, expected: &str) {
        if !fits {
            self.misshapen(key, value, expected);
        }
    }

    #[cold]
    fn misshapen(&mut self, key: &str, value: Value<'_>, expected: &str) {
        self.report(codes::schema::KEYWORD_SHAPE, |finding| {
            let got = match value.kind() {
                Kind::Number | Kind::String => value.source(),
                Kind::Array if value.as_array().is_some_and(Array::is_empty) => "an empty array",
                kind => kind.described(),
            };
            finding.at(value).message(format!("`{key}` takes {expected}")).expected(expected).got(got)
        });
    }

    /// Hints at unknown keywords that nearly equal a known one, if at least one keyword is known.
    #[cold]
    fn typos(&mut self, object: Object<'_>, unknown: usize) {
        if unknown == object.len() {
            return;
        }
        for (key, member) in object.iter() {
            if self.typo_checks >= MAX_TYPO_CHECKS {
                return;
            }
            if classify(key) != Keyword::Unknown {
                continue;
            }
            self.typo_checks += 1;
            if let Some(meant) = near_miss(key).filter(|&meant| object.get(meant).is_none()) {
                self.report(codes::schema::KEYWORD_TYPO, |finding| finding.at_key(member).expected(meant).got(key));
            }
        }
    }

    /// Whether the root is a map from field names to types or descriptions instead of a schema.
    fn field_map(&mut self, root: Object<'_>) {
        let mut fields = 0_usize;
        for (key, member) in root.iter() {
            // A field may have the name `title` or `description`; then its value is the name of a type.
            let is_field = match classify(key) {
                Keyword::Unknown => !key.starts_with("x-"),
                Keyword::Text => member.as_str().is_some_and(|text| is_type(text) || meant_type(text).is_some()),
                _ => return,
            };
            if !is_field || !matches!(member.kind(), Kind::String | Kind::Object) {
                return;
            }
            fields += 1;
        }
        if fields > 0 {
            self.report(codes::schema::FIELD_MAP, |finding| {
                finding.at(root.value()).expected("JSON Schema keywords such as type and properties")
            });
        }
    }

    /// The lint for readers that count brackets and not subschemas.
    fn containers(&mut self, root: Value<'_>, (count, depth): (usize, usize)) {
        if depth > STRICT_DEPTH {
            self.report(codes::schema::DEEP_CONTAINERS, |finding| {
                finding.at(root).expected(format!("at most {STRICT_DEPTH}")).got(format!("{depth}"))
            });
        }
        if count > STRICT_CONTAINERS {
            self.report(codes::schema::MANY_CONTAINERS, |finding| {
                finding.at(root).expected(format!("at most {STRICT_CONTAINERS}")).got(format!("{count}"))
            });
        }
    }
}

/// The severity of a finding in a mode. ERC-8257 tells readers to reject a manifest for two properties of its schemas: too many levels and
/// too many nodes. Everything else concerns only the author and the callers of the tool.
fn severity(code: Code, mode: Mode) -> Severity {
    let is_limit = code == codes::schema::TOO_DEEP || code == codes::schema::TOO_MANY_NODES;
    if is_limit || mode == Mode::Producer { code.severity() } else { code.severity().min(Severity::Warning) }
}

/// Whether a schema with such a finding must not be compiled, or would be interpreted differently than intended.
fn bars_validator(code: Code) -> bool {
    code.severity() == Severity::Error || code == codes::schema::BRANCHING_RECURSION || code == codes::schema::PATTERN_UNSUPPORTED
}

/// `$anchor` by the metaschema: `^[A-Za-z_][-A-Za-z0-9._]*$`.
fn is_anchor(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
}

fn is_type(name: &str) -> bool {
    matches!(name, "string" | "object" | "number" | "integer" | "array" | "boolean" | "null")
}

/// Returns the type that an author of this type name probably meant.
fn meant_type(name: &str) -> Option<&'static str> {
    Some(match name {
        "int" | "Integer" | "int32" | "int64" | "long" | "uint" => r#""integer""#,
        "float" | "double" | "decimal" | "Number" | "numeric" => r#""number""#,
        "bool" | "Boolean" => r#""boolean""#,
        "str" | "String" | "text" => r#""string""#,
        "list" | "Array" | "tuple" => r#""array""#,
        "dict" | "map" | "Object" | "json" => r#""object""#,
        "none" | "None" | "nil" | "undefined" | "void" | "Null" => r#""null""#,
        "any" | "unknown" | "mixed" => "no `type` at all, which allows every type",
        "address" => r#""string" with "pattern": "^0x[0-9a-fA-F]{40}$""#,
        "bytes" | "hex" | "bytes32" => r#""string" with a pattern such as "^0x[0-9a-fA-F]*$""#,
        "uint256" | "int256" | "bigint" | "wei" => {
            r#""string" with "pattern": "^[0-9]+$", since numbers lose digits beyond 2^53"#
        }
        "date" => r#""string" with "format": "date""#,
        "datetime" | "date-time" | "timestamp" => r#""string" with "format": "date-time""#,
        "url" | "uri" => r#""string" with "format": "uri""#,
        "email" => r#""string" with "format": "email""#,
        "enum" => r#""enum" as a keyword with the allowed values"#,
        "file" | "binary" => r#""string" with "contentEncoding": "base64""#,
        _ => return None,
    })
}
