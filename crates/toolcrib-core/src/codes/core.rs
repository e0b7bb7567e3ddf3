//! Codes that belong to no manifest kind.

super::codes! {
    TOO_MANY_FINDINGS = "core.too_many_findings", Hint, "Toolcrib limits" {
        "too many findings to show all",
        "At most 256 findings are kept per file. The verdict still takes the others into account.",
        "fix the findings that are shown, and run the check again",
    }
    UNKNOWN_KIND = "core.unknown_kind", Error, "Toolcrib" {
        "the file is JSON, but not a manifest of a known kind",
        "A tool manifest has `endpoint` and `creatorAddress`, an agent manifest has `agt`, a local tool has `functions`. None of these was found.",
        "set the kind with --kind tool, agent or local",
    }
}
