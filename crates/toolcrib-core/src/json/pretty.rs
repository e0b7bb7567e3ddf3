//! Indented output for files that people edit.

use super::{Kind, Value, write_number};
use crate::canon::write_string;

/// Writes `value` with two spaces of indentation, members in source order and a line feed at the end.
///
/// This changes only the layout: the canonical form, and so the hash, stays the same.
pub fn pretty(value: Value<'_>) -> String {
    let mut out = String::with_capacity(value.source().len() * 2);
    write(value, 0, &mut out);
    out.push('\n');
    out
}

fn write(value: Value<'_>, level: usize, out: &mut String) {
    match value.kind() {
        Kind::Null | Kind::Bool => out.push_str(value.source()),
        Kind::Number => write_number(value.as_f64().unwrap_or(0.0), out),
        Kind::String => write_string(value.as_str().unwrap_or_default(), out),
        Kind::Array => {
            let elements = value.as_array().into_iter().flat_map(super::Array::iter);
            list(['[', ']'], level, elements, out, write);
        }
        Kind::Object => {
            let members = value.as_object().into_iter().flat_map(super::Object::iter);
            list(['{', '}'], level, members, out, |(key, member), level, out| {
                write_string(key, out);
                out.push_str(": ");
                write(member, level, out);
            });
        }
    }
}

fn list<T>(
    [open, close]: [char; 2],
    level: usize,
    items: impl Iterator<Item = T>,
    out: &mut String,
    item: impl Fn(T, usize, &mut String),
) {
    out.push(open);
    let mut any = false;
    for each in items {
        out.push_str(if any { ",\n" } else { "\n" });
        out.extend(std::iter::repeat_n("  ", level + 1));
        item(each, level + 1, out);
        any = true;
    }
    if any {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", level));
    }
    out.push(close);
}
