//! Reads the manifests to serve, and options for one of them.

use std::path::Path;

use serde_json::json;
use toolcrib_core::canon::Sealed;
use toolcrib_core::codes;
use toolcrib_core::finding::{Mode, Severity};
use toolcrib_core::slug::Slug;
use toolcrib_core::tool::ToolManifest;

use crate::check::finding_to_json;
use crate::input::Source;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::position::Lines;
use crate::printer::Printer;
use crate::report::human;

/// A manifest to serve.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The manifest.
    pub(crate) manifest: Sealed<ToolManifest>,
    /// The bytes of the file, which are served unchanged.
    pub(crate) bytes: Vec<u8>,
    /// Its slug: the file's name in a folder `.well-known/ai-tool`, otherwise derived from the tool's name.
    pub(crate) slug: Slug,
}

impl Loaded {
    /// Whether the manifest has a price.
    pub(crate) fn is_priced(&self) -> bool {
        self.manifest.value().pricing().iter().any(|price| !price.amount.is_zero())
    }
}

/// Reads the manifests. Reports the rules that prevent one from being served.
pub(crate) fn load(paths: &[impl AsRef<Path>], printer: &mut Printer) -> Result<Vec<Loaded>, Stop> {
    paths.iter().map(|path| load_one(path.as_ref(), printer)).collect()
}

fn load_one(path: &Path, printer: &mut Printer) -> Result<Loaded, Stop> {
    let source = Source::from_argument(path);
    let bytes = source.read()?;
    let name = source.name();
    let checked = ToolManifest::parse(&bytes, Mode::Producer);
    let lines = Lines::new(&bytes);
    for finding in checked.findings.iter().filter(|finding| finding.severity == Severity::Error) {
        printer.complaint(&human::short(finding, &name, &lines, printer.paint_err()))?;
    }
    let manifest = match checked.into_result() {
        Ok(manifest) => manifest,
        Err(findings) => {
            let findings: Vec<_> = findings.iter().map(|finding| finding_to_json(finding, &lines)).collect();
            printer.note("not served: callers could not verify it")?;
            return Err(Done::new(Exit::No, json!({ "served": false, "findings": findings })).into());
        }
    };
    let named = source.place().slug;
    let slug = named.as_deref().map_or_else(|| Slug::derive(manifest.value().name()), Slug::parse);
    let slug = slug.map_err(|fault| Failure::new(fault.code(), format!("{name} has no usable slug: {fault}")))?;
    Ok(Loaded { manifest, bytes, slug })
}

/// The value of an option: `SLUG=VALUE` for one of several tools, or `VALUE` for the others.
pub(crate) fn value_for<'a>(given: &'a [String], slug: &Slug) -> Option<&'a str> {
    let own = given.iter().find_map(|text| named(text).filter(|(name, _)| *name == slug.as_str()).map(|(_, value)| value));
    own.or_else(|| given.iter().find(|text| named(text).is_none()).map(String::as_str))
}

/// Refuses an option for a tool that is not served, and one that is given twice for the same tool.
pub(crate) fn check_names(option: &str, given: &[String], tools: &[Loaded]) -> Result<(), Failure> {
    for (at, text) in given.iter().enumerate() {
        let name = named(text).map(|(name, _)| name);
        if let Some(name) = name.filter(|name| !tools.iter().any(|tool| tool.slug.as_str() == *name)) {
            let slugs: Vec<_> = tools.iter().map(|tool| tool.slug.as_str()).collect();
            return Err(Failure::new(codes::cli::USAGE, format!("{option} is for {name}, which is not among the manifests"))
                .hint(format!("the slugs are {}", slugs.join(", "))));
        }
        if given.iter().take(at).any(|other| named(other).map(|(name, _)| name) == name) {
            return Err(Failure::new(codes::cli::USAGE, format!("{option} is given twice for the same tool")));
        }
    }
    Ok(())
}

/// Parses `SLUG=VALUE`. The part before the first `=` of a URL is not a slug.
fn named(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(name, _)| Slug::parse(name).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_for_one_tool_and_for_all() {
        let given = ["https://a.example/?x=1".to_owned(), "tides=https://b.example/?y=2".to_owned()];
        let slug = |text: &str| Slug::parse(text).expect("a slug");
        assert_eq!(value_for(&given, &slug("tides")), Some("https://b.example/?y=2"));
        assert_eq!(value_for(&given, &slug("winds")), Some("https://a.example/?x=1"));
        assert_eq!(value_for(&given[1..], &slug("winds")), None);
    }
}
