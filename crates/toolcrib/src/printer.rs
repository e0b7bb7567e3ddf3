//! Output: results go to stdout, everything else goes to stderr.
//!
//! All output goes through [`Printer`], which knows whether to colour, whether to be quiet, and whether the result is a JSON envelope.
//! Escape untrusted input with [`shown`] before passing it here. JSON is escaped when it is written.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};
use toolcrib_core::text::escape_for_display;

use crate::outcome::{Exit, Failure};

/// Version of the JSON envelope. It changes when the meaning of a field changes or a field is removed, not when one is added.
const SCHEMA_VERSION: u32 = 1;

/// Writes results and notes.
#[derive(Debug)]
pub(crate) struct Printer {
    out: io::BufWriter<io::Stdout>,
    json: bool,
    quiet: bool,
    verbose: bool,
    paint_out: Paint,
    paint_err: Paint,
    /// Whether the result is one line of JSON per event.
    streams: bool,
    errors: Vec<Message>,
    warnings: Vec<Message>,
    /// How to get the result again if it cannot be written.
    if_lost: Option<String>,
}

/// Output options.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutputOptions {
    /// The result is a JSON envelope.
    pub(crate) json: bool,
    /// No notes on stderr.
    pub(crate) quiet: bool,
    /// More notes on stderr.
    pub(crate) verbose: bool,
    /// Colours on stdout and stderr.
    pub(crate) color: (bool, bool),
}

/// An entry of `errors` or `warnings` in the envelope.
#[derive(Debug, Serialize)]
struct Message {
    code: &'static str,
    message: String,
    hint: String,
}

impl From<&Failure> for Message {
    fn from(failure: &Failure) -> Self {
        Self { code: failure.code.id(), message: failure.message.clone(), hint: failure.what_next().to_owned() }
    }
}

#[derive(Debug, Serialize)]
struct Envelope<'a> {
    schema_version: u32,
    success: bool,
    data: &'a Value,
    errors: &'a [Message],
    warnings: &'a [Message],
}

impl Printer {
    /// A printer on the process's own stdout and stderr.
    pub(crate) fn new(manner: OutputOptions) -> Self {
        Self {
            out: io::BufWriter::new(io::stdout()),
            json: manner.json,
            quiet: manner.quiet,
            verbose: manner.verbose,
            paint_out: Paint { on: manner.color.0 && !manner.json },
            paint_err: Paint { on: manner.color.1 },
            streams: false,
            errors: Vec::new(),
            warnings: Vec::new(),
            if_lost: None,
        }
    }

    /// Sets how to get the result again if it cannot be written, for results that were paid for.
    pub(crate) fn if_lost(&mut self, how: String) {
        self.if_lost = Some(how);
    }

    /// How to get the result again, for results that were paid for.
    pub(crate) fn recovery(&self) -> Option<&str> {
        self.if_lost.as_deref()
    }

    /// Whether the result is a JSON envelope.
    pub(crate) const fn json(&self) -> bool {
        self.json
    }

    /// Whether `--verbose` was given.
    pub(crate) const fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Whether `--quiet` was given.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// The colours of stdout.
    pub(crate) const fn paint(&self) -> Paint {
        self.paint_out
    }

    /// The colours of stderr.
    pub(crate) const fn paint_err(&self) -> Paint {
        self.paint_err
    }

    /// Writes text of the result. Does nothing if the result is an envelope.
    pub(crate) fn result(&mut self, text: &str) -> io::Result<()> {
        if self.json { Ok(()) } else { self.out.write_all(text.as_bytes()) }
    }

    /// Writes a document unchanged to pipes and files. For a terminal, it is escaped if it contains control characters.
    pub(crate) fn document(&mut self, text: &str) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        if io::stdout().is_terminal() {
            let lines: Vec<_> = text.split('\n').map(shown).collect();
            let safe = lines.join("\n");
            if safe != text {
                self.note("some characters are escaped, because stdout is a terminal")?;
            }
            return self.out.write_all(safe.as_bytes());
        }
        self.out.write_all(text.as_bytes())
    }

    /// Writes one JSON value as the result in every format: SARIF and schemas.
    pub(crate) fn json_document(&mut self, value: &impl Serialize) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        self.write_json(value)
    }

    /// Writes one event of a command that runs until it is stopped: with `--json` as a line that is flushed at once. From then on, the
    /// envelope is one line as well.
    pub(crate) fn event(&mut self, event: &Value) -> io::Result<()> {
        if !self.json {
            return Ok(());
        }
        self.streams = true;
        self.write_json(event)?;
        self.out.flush()
    }

    /// Flushes the output, for long-running commands.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the result: writes the envelope if `--json` was given, and flushes.
    pub(crate) fn finish(&mut self, exit: Exit, data: &Value) -> io::Result<()> {
        if self.json {
            let errors = std::mem::take(&mut self.errors);
            let warnings = std::mem::take(&mut self.warnings);
            let success = exit == Exit::Yes;
            self.write_json(&Envelope { schema_version: SCHEMA_VERSION, success, data, errors: &errors, warnings: &warnings })?;
        }
        self.out.flush()
    }

    /// Reports an error.
    pub(crate) fn failure(&mut self, failure: &Failure) -> io::Result<()> {
        if self.json {
            self.errors.push(failure.into());
            return Ok(());
        }
        self.failure_as_text(failure)
    }

    /// Reports an error on stderr, whatever the output format, for errors of writing to stdout.
    pub(crate) fn failure_as_text(&mut self, failure: &Failure) -> io::Result<()> {
        let paint = self.paint_err;
        let text = format!(
            "{}: {}\n{}: {}\n",
            paint.error(&format!("error[{}]", failure.code)),
            shown(&failure.message),
            paint.hint("hint"),
            shown(failure.what_next()),
        );
        self.stderr(&text)
    }

    /// Adds to `warnings` of the envelope. Without an envelope, the caller prints the warning itself.
    pub(crate) fn warn_in_envelope(&mut self, warning: &Failure) {
        if self.json {
            self.warnings.push(warning.into());
        }
    }

    /// Writes escaped lines that say why there is no result.
    pub(crate) fn complaint(&mut self, text: &str) -> io::Result<()> {
        self.stderr(text)
    }

    /// Writes escaped lines that are not part of the result. Does nothing with `--quiet`.
    pub(crate) fn aside(&mut self, text: &str) -> io::Result<()> {
        if self.quiet { Ok(()) } else { self.stderr(text) }
    }

    /// Writes one escaped line that is not part of the result. Does nothing with `--quiet`.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        self.aside(&format!("{text}\n"))
    }

    /// Writes one escaped line with `--verbose`.
    pub(crate) fn detail(&mut self, text: &str) -> io::Result<()> {
        if self.verbose { self.stderr(&format!("{text}\n")) } else { Ok(()) }
    }

    /// Writes to stderr, after flushing stdout so that the order is kept.
    fn stderr(&mut self, text: &str) -> io::Result<()> {
        // If stdout failed, stderr must still be written.
        let flushed = self.out.flush();
        match io::stderr().write_all(text.as_bytes()) {
            // A closed stderr is not an error, because the result may still be read.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => flushed,
            other => other.and(flushed),
        }
    }

    fn write_json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let written = if self.streams {
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut self.out, Harmless(CompactFormatter)))
        } else {
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut self.out, Harmless(PrettyFormatter::new())))
        };
        written.map_err(io::Error::from)?;
        self.out.write_all(b"\n")
    }
}

/// Escapes untrusted input for one line of a terminal: a tab becomes a space, the rest is escaped.
pub(crate) fn shown(text: &str) -> String {
    escape_for_display(&if text.contains('\t') { Cow::Owned(text.replace('\t', " ")) } else { Cow::Borrowed(text) })
}

/// JSON without characters that could control a terminal: they are written as `\uXXXX`, which every JSON parser reads as the same text.
struct Harmless<F>(F);

impl<F: Formatter> Formatter for Harmless<F> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.bytes().all(|byte| (0x20..0x7F).contains(&byte)) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut buffer = [0; 4];
        for c in fragment.chars() {
            let text: &str = c.encode_utf8(&mut buffer);
            if escape_for_display(text) == text {
                writer.write_all(text.as_bytes())?;
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

/// Colours, or none. Output is readable without them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// Text in the colour of errors.
    pub(crate) fn error(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    /// Text in the colour of warnings.
    pub(crate) fn warning(self, text: &str) -> String {
        self.wrap("1;33", text)
    }

    /// Text in the colour of hints.
    pub(crate) fn hint(self, text: &str) -> String {
        self.wrap("1;36", text)
    }

    /// Text in the colour of success.
    pub(crate) fn good(self, text: &str) -> String {
        self.wrap("1;32", text)
    }

    /// Text in the colour of line numbers, bars and arrows.
    pub(crate) fn frame(self, text: &str) -> String {
        self.wrap("1;34", text)
    }

    /// Bold text.
    pub(crate) fn strong(self, text: &str) -> String {
        self.wrap("1", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_every_character_and_passes_none_that_a_terminal_obeys() {
        let hostile = "é 日本 \u{9b}31m \u{202e}x\u{200b} \u{7f} \u{e0001} \u{1b}";
        let mut out = Vec::new();
        let formatter = Harmless(PrettyFormatter::new());
        hostile.serialize(&mut serde_json::Serializer::with_formatter(&mut out, formatter)).expect("writes to memory");
        let text = String::from_utf8(out).expect("JSON is UTF-8");
        assert_eq!(escape_for_display(&text), text);
        assert!(text.contains("é 日本"), "ordinary text stays readable: {text}");
        assert_eq!(serde_json::from_str::<String>(&text).expect("valid JSON"), hostile);
    }

    #[test]
    fn shown_text_is_one_harmless_line() {
        assert_eq!(shown("a\tb\nc\u{1b}[0m"), "a b\\u{a}c\\u{1b}[0m");
    }
}
