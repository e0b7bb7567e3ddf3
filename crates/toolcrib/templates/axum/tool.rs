//! The tool itself: what it takes, what it gives, and what it does.
//!
//! The manifest's schemas are made from these types, descriptions included, so a change here is a change of the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib_gate::{Context, ToolError};

/// What a caller sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The text to look at.
    #[schemars(length(min = 1, max = 10_000))]
    pub text: String,
}

/// What a caller gets.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// How many words the text has.
    pub words: u32,
    /// The longest of them; the first, if there are several.
    pub longest: String,
}

/// Answers one call. The input is valid under its schema, and the gate granted access.
pub async fn answer(input: Input, _context: Context) -> Result<Output, ToolError> {
    let mut longest = "";
    let mut words = 0;
    for word in input.text.split_whitespace() {
        words += 1;
        if word.chars().count() > longest.chars().count() {
            longest = word;
        }
    }
    if words == 0 {
        // The caller reads this. Any other error is a fault, which the caller is not told about.
        return Err(ToolError::refused("there are no words in this text"));
    }
    Ok(Output { words, longest: longest.to_owned() })
}
