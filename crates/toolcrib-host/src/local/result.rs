//! Results: what a model gets, and what is written to a file.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

/// Most bytes of a result that a model gets. Clients warn or truncate above 40 KB, and the user pays for every byte.
pub const MODEL_RESULT_BYTES: usize = 40_000;

/// Bytes of a larger result that the model gets with the notice.
const EXCERPT_BYTES: usize = 4_000;

/// A result for a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelResult {
    /// The text: a string from the handler, or JSON.
    pub text: String,
    /// The value, if it is a JSON object and small enough.
    pub structured: Option<Json>,
    /// The file with the whole result, if that is too large for a model.
    pub file: Option<PathBuf>,
}

impl ModelResult {
    /// Creates a result for a model; one that is too large is written to a private file in `folder`.
    pub(crate) fn new(value: Json, call_id: &str, folder: &Path) -> io::Result<Self> {
        let (text, structured) = match value {
            Json::String(text) => (text, None),
            value @ Json::Object(_) => (value.to_string(), Some(value)),
            value => (value.to_string(), None),
        };
        if text.len() <= MODEL_RESULT_BYTES {
            return Ok(Self { text, structured, file: None });
        }
        let file = folder.join(format!("{call_id}.{}", if structured.is_some() { "json" } else { "txt" }));
        write_private(&file, text.as_bytes())?;
        let end = (0..=EXCERPT_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        let notice = format!(
            "The result has {} bytes, above the limit of {MODEL_RESULT_BYTES} for a model. The whole result is in {}. It begins:\n\n{}",
            text.len(),
            file.display(),
            &text[..end],
        );
        Ok(Self { text: notice, structured: None, file: Some(file) })
    }
}

/// Writes a new file with access only for its owner.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn small_results_pass_and_large_ones_go_to_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let made = |value: Json, id: &str| ModelResult::new(value, id, folder.path()).unwrap();
        assert_eq!(made(json!("plain"), "a"), ModelResult { text: "plain".into(), structured: None, file: None });
        assert_eq!(made(json!([1]), "b"), ModelResult { text: "[1]".into(), structured: None, file: None });
        assert_eq!(made(json!({"a": 1}), "c").structured, Some(json!({"a": 1})));
        let large = made(json!("é".repeat(MODEL_RESULT_BYTES / 2 + 1)), "d");
        let file = large.file.expect("a file");
        assert_eq!(fs::read_to_string(&file).unwrap().len(), MODEL_RESULT_BYTES + 2);
        assert!(large.text.len() < 5_000 && large.text.contains(&format!("{}", file.display())));
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions()) & 0o777, 0o600);
        assert!(ModelResult::new(json!("x".repeat(50_000)), "d", folder.path()).is_err(), "an existing file is not replaced");
    }
}
