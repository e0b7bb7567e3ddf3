//! The words that the specification knows: protocols, capabilities, authentication schemes and price units.
//!
//! All of these lists are open. A word that is not in them is legal; when it is almost one of them, a hint says so.

use std::fmt;

use crate::near;

/// A protocol of .agt 1.0 §3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KnownProtocol {
    /// The id in manifests.
    pub id: &'static str,
    /// What it is.
    pub description: &'static str,
}

/// A capability of .agt 1.0 §7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KnownCapability {
    /// The id in manifests.
    pub id: &'static str,
    /// The group it is listed under.
    pub category: Category,
    /// What an agent with it does.
    pub description: &'static str,
}

/// The groups of capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// Working with natural language.
    Language,
    /// Working with programs.
    Code,
    /// Working with structured data.
    Data,
    /// Finding things.
    SearchAndRetrieval,
    /// Pictures, sound, video and shapes.
    Media,
    /// Talking with people and other agents.
    Communication,
    /// Getting things done in other systems.
    Automation,
    /// Keeping systems safe.
    Security,
}

impl Category {
    /// All groups, in the order of the specification.
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

    /// The heading of the group.
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
    KnownProtocol { id: "a2a", description: "Agent2Agent Protocol: agents that talk to agents" },
    KnownProtocol { id: "http", description: "Plain HTTP interfaces, REST or RPC" },
    KnownProtocol { id: "ws", description: "WebSocket: messages in both directions as they happen" },
    KnownProtocol { id: "grpc", description: "gRPC: typed remote calls over HTTP/2" },
];

/// Hints for the `auth` of a protocol. Any other word may be used.
pub const AUTH_SCHEMES: [&str; 4] = ["none", "bearer", "oauth2", "signed-nonce"];

/// What a price can be charged for. Any other word may be used.
pub const UNITS: [&str; 6] = ["per_request", "per_token_in", "per_token_out", "per_minute", "per_month", "per_session"];

/// The capabilities, in the order of the specification.
pub const CAPABILITIES: [KnownCapability; 69] = {
    use Category::*;
    [
        capability("research", Language, "looks into a question across sources and says where each answer came from"),
        capability("summarization", Language, "makes long texts short"),
        capability("translation", Language, "carries text from one language to another"),
        capability("content-writing", Language, "writes longer texts such as articles and guides"),
        capability("copywriting", Language, "writes advertisements, slogans and product texts"),
        capability("editing", Language, "mends spelling, grammar and style"),
        capability("paraphrasing", Language, "says the same in other words"),
        capability("extraction", Language, "picks names, dates and figures out of free text"),
        capability("classification", Language, "sorts texts by subject, mood or purpose"),
        capability("question-answering", Language, "answers questions from a given text or from what it knows"),
        capability("fact-checking", Language, "compares claims with trustworthy sources"),
        capability("reasoning", Language, "works through problems that take several steps"),
        capability("brainstorming", Language, "comes up with many different ideas"),
        capability("code-generation", Code, "turns a description into a program"),
        capability("code-review", Code, "reads code and points out mistakes and weak spots"),
        capability("code-explanation", Code, "tells people what a piece of code does"),
        capability("debugging", Code, "finds the cause of a fault and mends it"),
        capability("testing", Code, "writes tests, runs them and tells the outcome"),
        capability("refactoring", Code, "improves the form of code and keeps what it does"),
        capability("code-documentation", Code, "writes comments, readme files and reference pages"),
        capability("database-query", Code, "writes, tunes and explains database queries"),
        capability("code-completion", Code, "suggests what to type next in an editor"),
        capability("data-analysis", Data, "applies statistics to tables and says what stands out"),
        capability("data-visualization", Data, "draws charts and dashboards"),
        capability("data-cleaning", Data, "removes duplicates and errors from data"),
        capability("data-transformation", Data, "moves data from one format or schema to another"),
        capability("math", Data, "calculates, with numbers or with symbols"),
        capability("forecasting", Data, "estimates how a series will go on"),
        capability("anomaly-detection", Data, "notices values that do not fit the rest"),
        capability("reporting", Data, "writes orderly reports from data"),
        capability("embedding", Data, "turns texts or pictures into vectors"),
        capability("clustering", Data, "puts similar things together"),
        capability("ranking", Data, "orders things by how well they fit"),
        capability("web-search", SearchAndRetrieval, "looks things up on the public web"),
        capability("semantic-search", SearchAndRetrieval, "finds passages by what they mean"),
        capability("document-search", SearchAndRetrieval, "looks through collections of documents"),
        capability("knowledge-retrieval", SearchAndRetrieval, "fetches facts from a knowledge base for an answer"),
        capability("citation", SearchAndRetrieval, "finds, checks and formats references"),
        capability("image-generation", Media, "makes pictures from a description"),
        capability("image-editing", Media, "changes and improves pictures"),
        capability("image-analysis", Media, "tells what is in a picture"),
        capability("video-generation", Media, "makes video from text or pictures"),
        capability("video-analysis", Media, "tells what happens in a video"),
        capability("audio-transcription", Media, "writes down what is said"),
        capability("audio-generation", Media, "makes speech, music or sounds"),
        capability("ocr", Media, "reads printed or written text in pictures"),
        capability("design", Media, "lays out screens, graphics and pages"),
        capability("3d-modeling", Media, "builds and changes solid models and scenes"),
        capability("chat", Communication, "holds a conversation"),
        capability("email-drafting", Communication, "writes mails for somebody to send"),
        capability("meeting-notes", Communication, "notes what a meeting said and decided"),
        capability("presentation", Communication, "prepares slides"),
        capability("tutoring", Communication, "teaches, step by step"),
        capability("customer-support", Communication, "helps customers with questions and troubles"),
        capability("negotiation", Communication, "leads a dialogue to an agreement"),
        capability("web-scraping", Automation, "takes data from web pages"),
        capability("api-integration", Automation, "connects and drives the interfaces of others"),
        capability("workflow-automation", Automation, "runs processes of several steps by itself"),
        capability("scheduling", Automation, "keeps calendars and reminders"),
        capability("monitoring", Automation, "watches systems and tells when something changes"),
        capability("deployment", Automation, "builds, releases and rolls out software"),
        capability("file-management", Automation, "sorts, moves and converts files"),
        capability("notification", Automation, "sends alerts and messages"),
        capability("data-entry", Automation, "fills in forms"),
        capability("vulnerability-scanning", Security, "searches systems and code for weaknesses"),
        capability("compliance-checking", Security, "checks whether rules and standards are kept"),
        capability("threat-detection", Security, "notices attacks and suspicious behaviour"),
        capability("access-control", Security, "manages who may do what"),
        capability("encryption", Security, "encrypts, decrypts and looks after keys"),
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

/// How a word resembles a known one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resemblance {
    /// Only case or the joints differ: `Code_Review`.
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

/// The known word that `word` was probably meant to be. `None` when it is itself known or like none of them.
///
/// Words below five letters only resemble each other by one added or missing letter: `acp` is not a misspelt `mcp`.
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

/// A letter without its case, and every joint as a hyphen.
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
