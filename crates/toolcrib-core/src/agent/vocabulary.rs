//! The vocabulary of the specification: protocols, capabilities, authentication schemes and price units.
//!
//! All of these lists are open. A word that is not on them is legal; a hint is reported if it nearly equals a known one.

use std::fmt;

use crate::near;

/// A protocol of .agt 1.0 §3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KnownProtocol {
    /// The id in manifests.
    pub id: &'static str,
    /// A description of the protocol.
    pub description: &'static str,
}

/// A capability of .agt 1.0 §7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KnownCapability {
    /// The id in manifests.
    pub id: &'static str,
    /// The category in which the specification lists it.
    pub category: Category,
    /// A description of the capability.
    pub description: &'static str,
}

/// The categories of capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// Working with natural language.
    Language,
    /// Working with programs.
    Code,
    /// Working with structured data.
    Data,
    /// Search and retrieval.
    SearchAndRetrieval,
    /// Images, audio, video and 3D models.
    Media,
    /// Communication with people and other agents.
    Communication,
    /// Automation of other systems.
    Automation,
    /// Security of systems.
    Security,
}

impl Category {
    /// All categories, in the order of the specification.
    pub const ALL: [Self; 8] = [
        Self::Language,
        Self::Code,
        Self::Data,
        Self::SearchAndRetrieval,
        Self::Media,
        Self::Communication,
        Self::Automation,
        Self::Security,
    ];

    /// The heading of the category.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Language => "Language",
            Self::Code => "Code",
            Self::Data => "Data",
            Self::SearchAndRetrieval => "Search & Retrieval",
            Self::Media => "Media",
            Self::Communication => "Communication",
            Self::Automation => "Automation",
            Self::Security => "Security",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// The protocols, in the order of the specification.
pub const PROTOCOLS: [KnownProtocol; 5] = [
    KnownProtocol { id: "mcp", description: "Model Context Protocol: tools and context for models" },
    KnownProtocol { id: "a2a", description: "Agent2Agent Protocol: communication between agents" },
    KnownProtocol { id: "http", description: "Plain HTTP interfaces, REST or RPC" },
    KnownProtocol { id: "ws", description: "WebSocket: bidirectional messages in real time" },
    KnownProtocol { id: "grpc", description: "gRPC: typed remote calls over HTTP/2" },
];

/// Known values for the `auth` of a protocol. Any other value may be used.
pub const AUTH_SCHEMES: [&str; 4] = ["none", "bearer", "oauth2", "signed-nonce"];

/// Known units of a price. Any other value may be used.
pub const UNITS: [&str; 6] = ["per_request", "per_token_in", "per_token_out", "per_minute", "per_month", "per_session"];

/// The capabilities, in the order of the specification.
pub const CAPABILITIES: [KnownCapability; 69] = {
    use Category::*;
    [
        capability("research", Language, "researches a question across sources and cites them"),
        capability("summarization", Language, "summarises long texts"),
        capability("translation", Language, "translates text between languages"),
        capability("content-writing", Language, "writes long-form texts such as articles and guides"),
        capability("copywriting", Language, "writes advertisements, slogans and product texts"),
        capability("editing", Language, "corrects spelling, grammar and style"),
        capability("paraphrasing", Language, "paraphrases texts"),
        capability("extraction", Language, "extracts names, dates and numbers from free text"),
        capability("classification", Language, "classifies texts by topic, sentiment or intent"),
        capability("question-answering", Language, "answers questions from a given text or from general knowledge"),
        capability("fact-checking", Language, "checks claims against reliable sources"),
        capability("reasoning", Language, "solves problems in several steps of reasoning"),
        capability("brainstorming", Language, "generates many different ideas"),
        capability("code-generation", Code, "writes programs from a description"),
        capability("code-review", Code, "reviews code for bugs and vulnerabilities"),
        capability("code-explanation", Code, "explains what a piece of code does"),
        capability("debugging", Code, "finds the cause of a bug and fixes it"),
        capability("testing", Code, "writes tests, runs them and reports the results"),
        capability("refactoring", Code, "restructures code without changing its behaviour"),
        capability("code-documentation", Code, "writes comments, README files and reference documentation"),
        capability("database-query", Code, "writes, tunes and explains database queries"),
        capability("code-completion", Code, "completes code in an editor"),
        capability("data-analysis", Data, "analyses tables with statistics and reports the findings"),
        capability("data-visualization", Data, "draws charts and dashboards"),
        capability("data-cleaning", Data, "removes duplicates and errors from data"),
        capability("data-transformation", Data, "converts data between formats or schemas"),
        capability("math", Data, "calculates, with numbers or with symbols"),
        capability("forecasting", Data, "forecasts time series"),
        capability("anomaly-detection", Data, "detects outliers in data"),
        capability("reporting", Data, "writes structured reports from data"),
        capability("embedding", Data, "computes embeddings of texts or images"),
        capability("clustering", Data, "groups similar items"),
        capability("ranking", Data, "ranks items by relevance"),
        capability("web-search", SearchAndRetrieval, "searches the public web"),
        capability("semantic-search", SearchAndRetrieval, "finds passages by meaning"),
        capability("document-search", SearchAndRetrieval, "searches document collections"),
        capability("knowledge-retrieval", SearchAndRetrieval, "retrieves facts from a knowledge base for an answer"),
        capability("citation", SearchAndRetrieval, "finds, checks and formats references"),
        capability("image-generation", Media, "generates images from a description"),
        capability("image-editing", Media, "edits and enhances images"),
        capability("image-analysis", Media, "describes the content of an image"),
        capability("video-generation", Media, "generates video from text or images"),
        capability("video-analysis", Media, "describes what happens in a video"),
        capability("audio-transcription", Media, "transcribes speech"),
        capability("audio-generation", Media, "generates speech, music or sounds"),
        capability("ocr", Media, "reads printed or handwritten text in images"),
        capability("design", Media, "designs user interfaces, graphics and pages"),
        capability("3d-modeling", Media, "creates and edits 3D models and scenes"),
        capability("chat", Communication, "holds a conversation"),
        capability("email-drafting", Communication, "drafts emails"),
        capability("meeting-notes", Communication, "summarises meetings and their decisions"),
        capability("presentation", Communication, "prepares slides"),
        capability("tutoring", Communication, "teaches a subject step by step"),
        capability("customer-support", Communication, "answers customers' questions and solves their problems"),
        capability("negotiation", Communication, "negotiates an agreement in a dialogue"),
        capability("web-scraping", Automation, "extracts data from web pages"),
        capability("api-integration", Automation, "connects and calls third-party APIs"),
        capability("workflow-automation", Automation, "runs multi-step workflows automatically"),
        capability("scheduling", Automation, "keeps calendars and reminders"),
        capability("monitoring", Automation, "monitors systems and reports changes"),
        capability("deployment", Automation, "builds, releases and deploys software"),
        capability("file-management", Automation, "sorts, moves and converts files"),
        capability("notification", Automation, "sends alerts and messages"),
        capability("data-entry", Automation, "fills in forms"),
        capability("vulnerability-scanning", Security, "scans systems and code for vulnerabilities"),
        capability("compliance-checking", Security, "checks compliance with rules and standards"),
        capability("threat-detection", Security, "detects attacks and suspicious behaviour"),
        capability("access-control", Security, "manages identities and permissions"),
        capability("encryption", Security, "encrypts, decrypts and manages keys"),
    ]
};

const fn capability(id: &'static str, category: Category, description: &'static str) -> KnownCapability {
    KnownCapability { id, category, description }
}

/// The known protocol with this id.
pub fn protocol(id: &str) -> Option<&'static KnownProtocol> {
    const { &PROTOCOLS }.iter().find(|known| known.id == id)
}

/// The known capability with this id.
pub fn capability_by_id(id: &str) -> Option<&'static KnownCapability> {
    const { &CAPABILITIES }.iter().find(|known| known.id == id)
}

/// Whether `id` is lowercase and hyphenated: `^[a-z0-9]+(-[a-z0-9]+)*$`.
pub fn is_id(id: &str) -> bool {
    id.split('-').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()))
}

/// The kind of similarity of a word to a known one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resemblance {
    /// Only case or separators differ: `Code_Review`.
    Spelling(&'static str),
    /// A few letters differ: `sumarization`.
    Letters(&'static str),
}

impl Resemblance {
    /// The known word.
    pub const fn known(self) -> &'static str {
        match self {
            Self::Spelling(known) | Self::Letters(known) => known,
        }
    }
}

/// Returns the known word that `word` was probably meant to be. `None` if `word` is itself known or is not similar to any.
///
/// A word with fewer than five letters is similar to another only if one letter was added or removed: `acp` is not a misspelt `mcp`.
pub fn resembles(word: &str, known: impl Iterator<Item = &'static str> + Clone) -> Option<Resemblance> {
    if word.len() > near::MAX_WORD || !word.is_ascii() || known.clone().any(|candidate| candidate == word) {
        return None;
    }
    let word = word.as_bytes();
    let same = |candidate: &str| {
        word.len() == candidate.len() && word.iter().zip(candidate.as_bytes()).all(|(&a, &b)| plain(a) == plain(b))
    };
    if let Some(found) = known.clone().find(|candidate| same(candidate)) {
        return Some(Resemblance::Spelling(found));
    }
    let plain_word: Vec<_> = word.iter().copied().map(plain).collect();
    let mut best: Option<(usize, &'static str)> = None;
    for candidate in known.filter(|candidate| candidate.len() <= near::MAX_WORD) {
        let allowed = match word.len().min(candidate.len()) {
            0..2 => continue,
            2..5 if word.len() == candidate.len() => continue,
            2..8 => 1,
            _ => 2,
        };
        if word.len().abs_diff(candidate.len()) > allowed {
            continue;
        }
        let distance = near::slips(&plain_word, &candidate.bytes().map(plain).collect::<Vec<_>>());
        if distance <= allowed && best.is_none_or(|(found, _)| distance < found) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, found)| Resemblance::Letters(found))
}

/// Maps a letter to lower case and every separator to a hyphen.
const fn plain(byte: u8) -> u8 {
    match byte {
        b'_' | b' ' | b'.' => b'-',
        byte => byte.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    // req: AGT-012
    #[test]
    fn the_table_has_69_capabilities_in_8_categories() {
        let count = |category| CAPABILITIES.iter().filter(|known| known.category == category).count();
        assert_eq!(Category::ALL.map(count), [13, 9, 11, 5, 10, 7, 9, 5]);
        let ids: BTreeSet<_> = CAPABILITIES.iter().map(|known| known.id).collect();
        assert_eq!(ids.len(), 69, "ids are unique");
        assert!(ids.iter().all(|id| is_id(id)));
        assert!(ids.contains("3d-modeling") && ids.contains("ocr"));
        let texts: BTreeSet<_> = CAPABILITIES.iter().map(|known| known.description).collect();
        assert_eq!(texts.len(), 69, "descriptions are unique");
        assert_eq!(capability_by_id("ocr").map(|known| known.category), Some(Category::Media));
        assert_eq!(capability_by_id("search"), None, "a later draft has it; this one does not");
        assert!(protocol("mcp").is_some() && protocol("MCP").is_none());
    }

    // req: AGT-010, AGT-011
    #[test]
    fn ids_are_lowercase_and_hyphenated() {
        for id in ["mcp", "a2a", "3d-modeling", "my-proto", "a", "1", "a-b-c"] {
            assert!(is_id(id), "{id}");
        }
        for id in ["", "-", "-x", "x-", "a--b", "MCP", "my_proto", "my proto", "é", "a.b", "a/b", "a\n"] {
            assert!(!is_id(id), "{id:?}");
        }
    }

    // req: AGT-012
    #[test]
    fn near_misses() {
        use Resemblance::*;
        let capabilities = || CAPABILITIES.iter().map(|known| known.id);
        let protocols = || PROTOCOLS.iter().map(|known| known.id);
        for (word, expected) in [
            ("sumarization", Some(Letters("summarization"))),
            ("summarisation", Some(Letters("summarization"))),
            ("reserach", Some(Letters("research"))),
            ("Code_Review", Some(Spelling("code-review"))),
            ("code review", Some(Spelling("code-review"))),
            ("OCR", Some(Spelling("ocr"))),
            ("3d-modelling", Some(Letters("3d-modeling"))),
            ("summarization", None),
            ("log-analysis", None),
            ("weather", None),
            ("", None),
            ("é", None),
        ] {
            assert_eq!(resembles(word, capabilities()), expected, "{word}");
        }
        for (word, expected) in [
            ("MCP", Some(Spelling("mcp"))),
            ("https", Some(Letters("http"))),
            ("wss", Some(Letters("ws"))),
            ("acp", None),
            ("x", None),
            ("nostr", None),
        ] {
            assert_eq!(resembles(word, protocols()), expected, "{word}");
        }
        assert_eq!(resembles("per-request", UNITS.into_iter()), Some(Spelling("per_request")));
        assert_eq!(resembles("per_requests", UNITS.into_iter()), Some(Letters("per_request")));
        assert_eq!(resembles(&"a".repeat(100_000), capabilities()), None);
    }
}
