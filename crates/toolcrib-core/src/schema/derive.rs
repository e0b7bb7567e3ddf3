//! Schemas from Rust types, for authors who write their tool in Rust.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

/// The JSON Schema of `T` as JSON text: draft 2020-12, parts written in place where the type allows it, without `$schema`
/// and without the type's own name as title.
///
/// Only recursive types need `$defs`. The text is meant for `inputs` and `outputs` of a manifest, or for `parameters` of
/// a function, and passes [`check`](super::check) unless the type itself is beyond its limits.
pub fn schema_of<T: JsonSchema>() -> String {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    if schema.get("title").and_then(serde_json::Value::as_str) == Some(&*T::schema_name()) {
        schema.remove("title");
    }
    schema.to_value().to_string()
}
