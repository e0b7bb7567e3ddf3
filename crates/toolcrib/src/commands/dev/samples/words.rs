//! Counts the words of a text.

use serde::{Deserialize, Serialize};
use toolcrib_gate::{Context, ToolError};

/// Words read per minute, silently, in most languages that put spaces between words.
const WORDS_PER_MINUTE: usize = 238;

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// The text.
    #[schemars(length(max = 100_000))]
    text: String,
}

#[derive(Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(super) struct Output {
    /// Parts between white space.
    words: usize,
    /// Unicode code points.
    characters: usize,
    /// Lines; the last one counts without a newline at its end.
    lines: usize,
    /// How long it takes to read, in seconds.
    reading_seconds: usize,
}

pub(super) async fn count(input: Input, _: Context) -> Result<Output, ToolError> {
    let words = input.text.split_whitespace().count();
    Ok(Output {
        words,
        characters: input.text.chars().count(),
        lines: input.text.lines().count(),
        reading_seconds: (words * 60).div_ceil(WORDS_PER_MINUTE),
    })
}
