//! Tools for model APIs.

use serde_json::{Value as Json, json};
use toolcrib_core::codes::export as code;
use toolcrib_core::finding::Finding;
use toolcrib_core::local::{FUNCTION_DESCRIPTION_MAX, FUNCTIONS_ADVISED};
use toolcrib_core::text::code_points;

use super::strict::{self, Budget};
use super::{ExportError, Exposed, Files, Job, Target, pretty};

/// Most strict tools in one request to Anthropic.
const STRICT_TOOLS_MAX: usize = 20;

/// Most optional parameters of all strict tools in one request to Anthropic.
const STRICT_OPTIONAL_MAX: usize = 24;

/// Most union-typed parameters of all strict tools in one request to Anthropic.
const STRICT_UNIONS_MAX: usize = 16;

/// Keywords that the APIs refuse at the root of the parameters. The last two are refused only by `OpenAI`.
const ROOT_REFUSED: [&str; 5] = ["oneOf", "anyOf", "allOf", "enum", "not"];

pub(super) fn export(job: &mut Job<'_>) -> Result<Files, ExportError> {
    let mut tools = Vec::new();
    let mut budget = Budget::default();
    for exposed in job.functions()? {
        let refused = match job.target {
            Target::OpenAi | Target::OpenAiChat => &ROOT_REFUSED[..],
            Target::Anthropic => &ROOT_REFUSED[..3],
            _ => &[],
        };
        if let Some(keyword) = refused.iter().find(|keyword| exposed.schema.contains_key(**keyword)) {
            let finding = Finding::new(code::SCHEMA)
                .message(format!("`{keyword}` at the top of the parameters is refused by {}", job.target));
            job.unsupported(exposed.tool.manifest.id(), exposed.function.name(), finding)?;
            job.reverse.remove(&exposed.name);
            continue;
        }
        tools.push(tool(job, &exposed, &mut budget));
    }
    warn_about_limits(job, tools.len(), &budget);
    let (name, document) = match job.target {
        Target::Gemini => ("gemini.json", json!([{ "functionDeclarations": tools }])),
        Target::Anthropic => ("anthropic.json", Json::Array(tools)),
        Target::OpenAiChat => ("openai-chat.json", Json::Array(tools)),
        _ => ("openai.json", Json::Array(tools)),
    };
    Ok(vec![(name.to_owned(), pretty(&document))])
}

fn tool(job: &mut Job<'_>, exposed: &Exposed<'_>, budget: &mut Budget) -> Json {
    let (id, name) = (exposed.tool.manifest.id(), exposed.function.name());
    let description = exposed.function.description();
    let count = code_points(description);
    if count > FUNCTION_DESCRIPTION_MAX {
        let finding = Finding::new(code::DESCRIPTION)
            .severity(toolcrib_core::finding::Severity::Warning)
            .message("the description is longer than model APIs advise")
            .expected(format!("at most {FUNCTION_DESCRIPTION_MAX} characters"))
            .got(count.to_string());
        job.warn(Some(id), Some(name), finding);
    }
    let plain = Json::Object(exposed.schema.clone());
    let strict = job.options.strict.then(|| match job.target {
        Target::OpenAi | Target::OpenAiChat => strict::openai(&plain),
        Target::Anthropic => strict::anthropic(&plain, budget),
        _ => Err("the target has no strict mode".to_owned()),
    });
    let (schema, is_strict) = match strict {
        Some(Ok(schema)) => (schema, true),
        Some(Err(problem)) => {
            job.warn(
                Some(id),
                Some(name),
                Finding::new(code::NOT_STRICT).message(format!("exported without strict mode: {problem}")),
            );
            (plain, false)
        }
        None => (plain, false),
    };
    match job.target {
        // Without `strict`, the Responses API defaults to strict mode, so it is always set.
        Target::OpenAi => {
            json!({"type": "function", "name": exposed.name, "description": description, "parameters": schema, "strict": is_strict})
        }
        Target::OpenAiChat => json!({"type": "function", "function":
            {"name": exposed.name, "description": description, "parameters": schema, "strict": is_strict}}),
        Target::Gemini => json!({"name": exposed.name, "description": description, "parametersJsonSchema": schema}),
        _ if is_strict => json!({"name": exposed.name, "description": description, "input_schema": schema, "strict": true}),
        _ => json!({"name": exposed.name, "description": description, "input_schema": schema}),
    }
}

fn warn_about_limits(job: &mut Job<'_>, count: usize, budget: &Budget) {
    let openai = matches!(job.target, Target::OpenAi | Target::OpenAiChat);
    if openai && count > FUNCTIONS_ADVISED {
        let finding = Finding::new(code::TOO_MANY).expected(format!("at most {FUNCTIONS_ADVISED}")).got(count.to_string());
        job.warn(None, None, finding);
    }
    let counted = [
        (budget.tools, STRICT_TOOLS_MAX, "strict tools"),
        (budget.optional, STRICT_OPTIONAL_MAX, "optional parameters of strict tools"),
        (budget.unions, STRICT_UNIONS_MAX, "union-typed parameters of strict tools"),
    ];
    for (found, most, what) in counted {
        if found > most {
            let finding = Finding::new(code::STRICT_BUDGET)
                .message(format!("one request has too many {what}"))
                .expected(format!("at most {most}"))
                .got(found.to_string());
            job.warn(None, None, finding);
        }
    }
}
