//! Metadata URIs: the well-known path, and the binding of a manifest to the origin of its endpoint.
//!
//! This is check 2 of ERC-8257 §7 with the rules W1 to W3 of §6. All `require` lines are checked, so that an author with three mistakes
//! gets three findings.

use std::fmt;

use super::lint::is_under;
use super::{FaultKind, HttpsUrl, MAX_URL_BYTES, Origin, UrlError};
use crate::codes::{self, Code};
use crate::finding::Finding;
use crate::slug::{self, Slug};

/// The start of the path of every metadata URI.
pub const PATH_PREFIX: &str = "/.well-known/ai-tool/";

/// The end of the path of every metadata URI.
pub const PATH_SUFFIX: &str = ".json";

/// A metadata URI that follows §6.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WellKnown {
    url: HttpsUrl,
    slug: Slug,
}

impl WellKnown {
    /// Parses a metadata URI as found on chain, and normalises it by G1 to G3. Returns all faults.
    pub fn parse(metadata_uri: &str) -> Result<Self, Vec<WellKnownFault>> {
        let (url, path) = dissect(metadata_uri);
        match (url, path) {
            (Ok(url), Ok(slug)) => Ok(Self { url, slug }),
            (Ok(_), Err(faults)) => Err(faults),
            (Err(fault), _) => Err(vec![fault]),
        }
    }

    /// The origin that serves the manifest.
    pub fn origin(&self) -> Origin {
        self.url.origin()
    }

    /// The slug.
    pub const fn slug(&self) -> &Slug {
        &self.slug
    }

    /// The normalised URL.
    pub const fn url(&self) -> &HttpsUrl {
        &self.url
    }
}

/// Returns the metadata URI of a tool: the only URL at which its manifest may be served.
///
/// ```
/// use toolcrib_core::slug::Slug;
/// use toolcrib_core::url::{Origin, well_known::metadata_uri};
///
/// let origin = Origin::parse("https://opensea.io").unwrap();
/// let slug = Slug::parse("search").unwrap();
/// assert_eq!(metadata_uri(&origin, &slug), "https://opensea.io/.well-known/ai-tool/search.json");
/// ```
pub fn metadata_uri(origin: &Origin, slug: &Slug) -> String {
    format!("{origin}{PATH_PREFIX}{slug}{PATH_SUFFIX}")
}

/// Check 2 of §7: the metadata URI is on the origin of the endpoint, at the well-known path. Returns the slug, or a finding for each
/// `require` line that fails.
///
/// The type of `endpoint` guarantees that it is https and normalised. Findings have no pointer: the URI is not in the manifest.
pub fn check_origin_binding(metadata_uri: &str, endpoint: &HttpsUrl) -> Result<Slug, Vec<Finding>> {
    let (url, path) = dissect(metadata_uri);
    let url = match url {
        Ok(url) => url,
        Err(fault) => return Err(vec![fault.finding(metadata_uri)]),
    };
    let mut findings = Vec::new();
    if url.host() != endpoint.host() {
        findings.push(
            Finding::new(codes::url::ORIGIN_HOST)
                .message(describe_move(url.host(), endpoint.host()))
                .expected(endpoint.host())
                .got(url.host()),
        );
    }
    if url.port() != endpoint.port() {
        findings.push(Finding::new(codes::url::ORIGIN_PORT).expected(endpoint.port().to_string()).got(url.port().to_string()));
    }
    match path {
        Ok(slug) if findings.is_empty() => Ok(slug),
        Ok(_) => Err(findings),
        Err(faults) => {
            // The order of the pseudo-code: query and fragment, origin, path.
            let (first, last): (Vec<_>, Vec<_>) =
                faults.iter().partition(|fault| matches!(fault, WellKnownFault::Query | WellKnownFault::Fragment));
            let as_findings =
                |faults: Vec<&WellKnownFault>| faults.into_iter().map(|fault| fault.finding(metadata_uri)).collect();
            let mut all: Vec<Finding> = as_findings(first);
            all.append(&mut findings);
            let mut path_findings: Vec<Finding> = as_findings(last);
            all.append(&mut path_findings);
            Err(all)
        }
    }
}

/// Why a text is not a metadata URI.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WellKnownFault {
    /// Not https.
    NotHttps,
    /// Longer than the registry permits; holds the number of bytes.
    TooLong(usize),
    /// Not a well-formed URL.
    Malformed(UrlError),
    /// There is a `?`.
    Query,
    /// There is a `#`.
    Fragment,
    /// The path does not start with [`PATH_PREFIX`].
    Prefix,
    /// The path does not end with [`PATH_SUFFIX`].
    Suffix,
    /// The slug is invalid.
    Slug(slug::SlugError),
}

impl WellKnownFault {
    /// The code of this fault.
    pub const fn code(&self) -> Code {
        match self {
            Self::NotHttps => codes::url::METADATA_NOT_HTTPS,
            Self::TooLong(_) => codes::url::METADATA_TOO_LONG,
            // ERC-8257 §7 has a separate reason for it.
            Self::Malformed(UrlError { kind: FaultKind::HostNotAscii, .. }) => codes::url::METADATA_NOT_ACE,
            Self::Malformed(_) => codes::url::METADATA_MALFORMED,
            Self::Query => codes::url::METADATA_QUERY,
            Self::Fragment => codes::url::METADATA_FRAGMENT,
            Self::Prefix => codes::url::WELL_KNOWN_PREFIX,
            Self::Suffix => codes::url::WELL_KNOWN_SUFFIX,
            Self::Slug(fault) => fault.code(),
        }
    }

    /// Returns the finding about this fault of `metadata_uri`.
    pub fn finding(&self, metadata_uri: &str) -> Finding {
        let finding = Finding::new(self.code()).got(metadata_uri);
        match self {
            Self::Malformed(fault) => finding.message(format!("the metadata URI is not well-formed: {}", fault.code().title())),
            Self::TooLong(bytes) => finding.message(format!("the metadata URI has {bytes} bytes, the limit is {MAX_URL_BYTES}")),
            Self::Prefix => finding.message(describe_path(metadata_uri)).expected(format!("{PATH_PREFIX}<slug>{PATH_SUFFIX}")),
            Self::Slug(fault) => finding.message(fault.to_string()),
            Self::NotHttps | Self::Query | Self::Fragment | Self::Suffix => finding,
        }
    }
}

impl fmt::Display for WellKnownFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(fault) => write!(f, "{}: {}", self.code().title(), fault),
            Self::Slug(fault) => fault.fmt(f),
            _ => f.write_str(self.code().title()),
        }
    }
}

impl std::error::Error for WellKnownFault {}

/// Reports a registered URI that readers must normalise before they can compare it.
pub fn lint_normalisation(metadata_uri: &str, parsed: &WellKnown) -> Option<Finding> {
    (metadata_uri != parsed.url.normalized())
        .then(|| Finding::new(codes::url::METADATA_NOT_NORMALISED).expected(parsed.url.normalized()).got(metadata_uri))
}

/// Returns the URL or its fault, and the slug or the faults of path, query and fragment.
fn dissect(metadata_uri: &str) -> (Result<HttpsUrl, WellKnownFault>, Result<Slug, Vec<WellKnownFault>>) {
    let url = match HttpsUrl::parse(metadata_uri) {
        _ if metadata_uri.len() > MAX_URL_BYTES => Err(WellKnownFault::TooLong(metadata_uri.len())),
        Ok(url) => Ok(url),
        Err(UrlError { kind: FaultKind::NotHttps | FaultKind::NoScheme | FaultKind::Empty, .. }) => Err(WellKnownFault::NotHttps),
        Err(fault) => Err(WellKnownFault::Malformed(fault)),
    };
    let path = url.as_ref().map_err(|_| Vec::new()).and_then(|url| {
        let mut faults = Vec::new();
        if url.query().is_some() {
            faults.push(WellKnownFault::Query);
        }
        if url.fragment().is_some() {
            faults.push(WellKnownFault::Fragment);
        }
        let after_prefix = url.path().strip_prefix(PATH_PREFIX);
        if after_prefix.is_none() {
            faults.push(WellKnownFault::Prefix);
        }
        if !url.path().ends_with(PATH_SUFFIX) {
            faults.push(WellKnownFault::Suffix);
        }
        // Without prefix and suffix the slug cannot be determined.
        match after_prefix.and_then(|path| path.strip_suffix(PATH_SUFFIX)).map(Slug::parse) {
            Some(Ok(slug)) if faults.is_empty() => Ok(slug),
            Some(Err(fault)) => {
                faults.push(WellKnownFault::Slug(fault));
                Err(faults)
            }
            _ => Err(faults),
        }
    });
    (url, path)
}

/// Hosting platforms that give every project a host name, from which projects later move to a custom domain.
const PLATFORMS: &[&str] = &[
    "vercel.app",
    "netlify.app",
    "workers.dev",
    "pages.dev",
    "onrender.com",
    "fly.dev",
    "railway.app",
    "herokuapp.com",
    "github.io",
    "web.app",
    "run.app",
    "deno.dev",
    "replit.app",
    "azurewebsites.net",
    "amazonaws.com",
];

/// Describes how two different hosts differ: the most frequent mistakes.
fn describe_move(metadata: &str, endpoint: &str) -> String {
    let on_platform = |host: &str| PLATFORMS.iter().any(|platform| is_under(host, platform));
    let why = if metadata.strip_prefix("www.") == Some(endpoint) || endpoint.strip_prefix("www.") == Some(metadata) {
        "they differ in `www.`, so they are different origins"
    } else if is_under(endpoint, metadata) {
        "the endpoint is on a subdomain, which is a different origin"
    } else if is_under(metadata, endpoint) {
        "the manifest is on a subdomain, which is a different origin"
    } else if on_platform(metadata) != on_platform(endpoint) {
        "one is a host name of a hosting platform, the other a custom domain; update the registration after such a move"
    } else if shares_parent(metadata, endpoint) {
        "they are sibling subdomains, which are different origins"
    } else {
        "they are unrelated hosts"
    };
    format!("the manifest is on {metadata}, the endpoint on {endpoint}: {why}")
}

/// Whether both names are below one name of at least two labels.
fn shares_parent(a: &str, b: &str) -> bool {
    match (a.split_once('.'), b.split_once('.')) {
        (Some((_, a)), Some((_, b))) => a == b && a.contains('.') && !PLATFORMS.contains(&a),
        _ => false,
    }
}

/// Describes the mistake in a path with a wrong start.
fn describe_path(metadata_uri: &str) -> String {
    let parsed = HttpsUrl::parse(metadata_uri);
    let path = parsed.as_ref().map_or("", HttpsUrl::path);
    if let Some(at) = path.find(PATH_PREFIX) {
        format!("the well-known path is not at the root of the origin: it is preceded by `{}`", &path[..at])
    } else if path.to_ascii_lowercase().contains(PATH_PREFIX) {
        "the well-known path is not in lower case".to_owned()
    } else if path.contains("/.well-known/") {
        "the well-known name in the path is not `ai-tool`".to_owned()
    } else if path.is_empty() || path == "/" {
        "the metadata URI is the origin itself, without the well-known path".to_owned()
    } else {
        "the manifest is served from another route instead of the well-known path".to_owned()
    }
}

#[cfg(test)]
mod tests;
