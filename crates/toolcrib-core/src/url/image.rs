//! What a page may do with a URI from a manifest: show it as an icon, link to it, or neither.
//!
//! Browsers ignore whitespace before a scheme, tabs and line breaks inside it, and its case. The classification recognises all of these,
//! and accepts none of them: a URI that is not plainly of an allowed kind is rejected.

use super::grammar::{self, FaultKind, Faults};
use super::{HttpsUrl, UrlError};

/// Image types that a data URI may declare: those that ERC-8257 names. None of them can contain scripts.
const DATA_TYPES: &[(&str, ImageMime)] =
    &[("image/png", ImageMime::Png), ("image/jpeg", ImageMime::Jpeg), ("image/webp", ImageMime::Webp)];

/// Longest scheme that is read. The longest relevant one has ten letters; browsers know none beyond this.
const MAX_SCHEME_CHARS: usize = 32;

/// A manifest's URI of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImageUri;

/// The kind of an image URI.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageKind {
    /// `https`. Show it through a proxy, or at least without a referrer.
    Https(HttpsUrl),
    /// `ipfs`. Resolve it through your own gateway.
    Ipfs,
    /// A data URI with an allowed image type.
    DataImage(ImageMime),
    /// Plain `http`: dropped unless the operator opted in, and then only through a proxy and without a referrer.
    Http,
    /// Show a placeholder instead.
    Refused(ImageRejection),
}

/// An image type that a data URI may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageMime {
    /// `image/png`
    Png,
    /// `image/jpeg`
    Jpeg,
    /// `image/webp`
    Webp,
}

/// Why an image is not displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImageRejection {
    /// `javascript:` or `vbscript:`: a script.
    Script,
    /// `file:`: it reads the user's files.
    File,
    /// `blob:` or `filesystem:`: it belongs to another page.
    Blob,
    /// `data:` with an HTML or XML type: it can run scripts.
    DataHtml,
    /// `data:image/svg+xml`: it can contain scripts.
    DataSvg,
    /// `data:` with any other type, or none.
    DataOther,
    /// Another scheme.
    Scheme,
    /// No scheme.
    Relative,
    /// An accepted scheme with a malformed rest.
    Malformed(Option<UrlError>),
}

impl ImageUri {
    /// Classifies an image URI.
    ///
    /// ```
    /// use toolcrib_core::url::image::{ImageKind, ImageUri, ImageRejection};
    ///
    /// assert!(matches!(ImageUri::classify("https://example.com/icon.png"), ImageKind::Https(_)));
    /// assert_eq!(ImageUri::classify(" JavaScript:alert(1)"), ImageKind::Refused(ImageRejection::Script));
    /// ```
    pub fn classify(text: &str) -> ImageKind {
        let Some((scheme, rest)) = scheme_as_browsers_read_it(text) else {
            return ImageKind::Refused(ImageRejection::Relative);
        };
        // A URI that needs normalisation is rejected, but classified as what it would become.
        let plain = text.bytes().all(|b| b.is_ascii_graphic());
        let refused = match scheme.as_str() {
            "https" => {
                return match HttpsUrl::parse(text) {
                    Ok(url) => ImageKind::Https(url),
                    Err(fault) => ImageKind::Refused(ImageRejection::Malformed(Some(fault))),
                };
            }
            "http" if plain => return ImageKind::Http,
            "ipfs" if plain && is_ipfs(text, rest) => return ImageKind::Ipfs,
            "data" => match data_type(&text[rest..]) {
                Ok(mime) if plain => return ImageKind::DataImage(mime),
                Ok(_) => ImageRejection::Malformed(None),
                Err(refusal) => refusal,
            },
            "javascript" | "vbscript" | "livescript" | "mocha" => ImageRejection::Script,
            "file" => ImageRejection::File,
            "blob" | "filesystem" => ImageRejection::Blob,
            "http" | "ipfs" => ImageRejection::Malformed(None),
            _ => ImageRejection::Scheme,
        };
        ImageKind::Refused(refused)
    }
}

/// How a URL from a manifest may appear on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkKind {
    /// As a link, with `rel="noopener noreferrer"`.
    Link,
    /// As a link only after the user agreed: plain http can be modified in transit.
    AskFirst,
    /// As text, never as a link.
    TextOnly,
}

impl LinkKind {
    /// Classifies a URL.
    pub fn classify(text: &str) -> Self {
        match scheme_as_browsers_read_it(text) {
            Some((scheme, _)) if scheme == "https" && HttpsUrl::parse(text).is_ok() => Self::Link,
            Some((scheme, _)) if scheme == "http" && text.bytes().all(|b| b.is_ascii_graphic()) => Self::AskFirst,
            _ => Self::TextOnly,
        }
    }
}

/// Returns the scheme in lower case and the position after its colon, parsed as WHATWG URL does: leading C0 controls and spaces are
/// skipped; tabs and line breaks are ignored everywhere.
fn scheme_as_browsers_read_it(text: &str) -> Option<(String, usize)> {
    let trimmed = text.trim_start_matches(|c: char| c <= ' ');
    let offset = text.len() - trimmed.len();
    let mut scheme = String::new();
    for (at, c) in trimmed.char_indices() {
        match c {
            '\t' | '\n' | '\r' => {}
            ':' if !scheme.is_empty() => return Some((scheme, offset + at + 1)),
            'a'..='z' | 'A'..='Z' => scheme.push(c.to_ascii_lowercase()),
            '0'..='9' | '+' | '-' | '.' if !scheme.is_empty() => scheme.push(c),
            _ => return None,
        }
        if scheme.len() > MAX_SCHEME_CHARS {
            return None;
        }
    }
    None
}

/// Whether the text after `ipfs:` is `//<cid>[/path]`, without segments that leave the content.
fn is_ipfs(text: &str, rest: usize) -> bool {
    let Some(after) = text.get(rest..).and_then(|rest| rest.strip_prefix("//")) else { return false };
    let length = after.bytes().position(|b| !b.is_ascii_alphanumeric()).unwrap_or(after.len());
    let mut faults = Faults::default();
    let path = rest + 2 + length;
    let ends_well = matches!(text.as_bytes().get(path), None | Some(b'/' | b'?' | b'#'));
    grammar::rest(text, path, &mut faults);
    length > 0 && ends_well && faults.list.iter().all(|fault| fault.kind == FaultKind::QueryApostrophe)
}

/// The type that a data URI declares, if it is allowed.
fn data_type(after_scheme: &str) -> Result<ImageMime, ImageRejection> {
    // Browsers reject the URI without a comma; the type must be determined without reading megabytes.
    const MAX_TYPE_BYTES: usize = 64;
    let head = &after_scheme.as_bytes()[..after_scheme.len().min(MAX_TYPE_BYTES)];
    let Some(end) = head.iter().position(|b| matches!(b, b',' | b';')) else { return Err(ImageRejection::DataOther) };
    let declared: String =
        head[..end].iter().filter(|b| !b.is_ascii_whitespace()).map(|&b| char::from(b).to_ascii_lowercase()).collect();
    if let Some((_, mime)) = DATA_TYPES.iter().find(|(name, _)| *name == declared) {
        return if after_scheme.contains(',') { Ok(*mime) } else { Err(ImageRejection::DataOther) };
    }
    Err(match declared.as_str() {
        "image/svg+xml" | "image/svg" => ImageRejection::DataSvg,
        "text/html" | "application/xhtml+xml" | "text/xml" | "application/xml" => ImageRejection::DataHtml,
        _ => ImageRejection::DataOther,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str) -> ImageRejection {
        match ImageUri::classify(text) {
            ImageKind::Refused(refusal) => refusal,
            other => panic!("{text:?} is {other:?}"),
        }
    }

    // req: RENDER-004
    #[test]
    fn what_runs_is_refused_however_it_is_written() {
        for text in [
            "javascript:alert(1)",
            "JavaScript:alert(1)",
            "  javascript:alert(1)",
            "\u{1}\tjava\nscript:x",
            "vbscript:x",
            "VBSCRIPT:x",
        ] {
            assert_eq!(refused(text), ImageRejection::Script, "{text:?}");
        }
        for text in ["file:///etc/passwd", "FILE:///c:/", "\n file:///x", "f\rile:///x"] {
            assert_eq!(refused(text), ImageRejection::File, "{text:?}");
        }
        for text in [
            "data:text/html,<script>",
            "DATA:Text/HTML;base64,AAAA",
            " data:text/html,x",
            "data: text/html,x",
            "da\tta:text/h\ntml,x",
        ] {
            assert_eq!(refused(text), ImageRejection::DataHtml, "{text:?}");
        }
    }

    // req: RENDER-005
    #[test]
    fn http_and_blob_are_told_apart_from_https() {
        assert_eq!(ImageUri::classify("http://example.com/x.png"), ImageKind::Http);
        assert_eq!(ImageUri::classify("HTTP://example.com/x.png"), ImageKind::Http);
        assert_eq!(refused(" http://example.com/x.png"), ImageRejection::Malformed(None));
        assert_eq!(refused("blob:https://example.com/9a8b"), ImageRejection::Blob);
        assert_eq!(refused("Blob:https://example.com/9a8b"), ImageRejection::Blob);
    }

    // req: RENDER-009
    #[test]
    fn data_uris_need_an_allowed_type() {
        assert_eq!(ImageUri::classify("data:image/png;base64,iVBORw0KGgo="), ImageKind::DataImage(ImageMime::Png));
        assert_eq!(ImageUri::classify("DATA:IMAGE/JPEG,%FF"), ImageKind::DataImage(ImageMime::Jpeg));
        assert_eq!(ImageUri::classify("data:image/webp;base64,AA"), ImageKind::DataImage(ImageMime::Webp));
        assert_eq!(refused("data:image/png;base64,AA AA"), ImageRejection::Malformed(None));
        for text in ["data:image/svg+xml,<svg/>", "data:image/SVG+xml;base64,AA", "\tdata:image/svg+xml;utf8,x"] {
            assert_eq!(refused(text), ImageRejection::DataSvg, "{text:?}");
        }
        for text in [
            "data:image/gif;base64,AA",
            "data:application/x,1",
            "data:,x",
            "data:",
            "data:image/png",
            "data:image/png;base64",
            "data:text/plain,x",
        ] {
            assert_eq!(refused(text), ImageRejection::DataOther, "{text:?}");
        }
        assert_eq!(refused(&format!("data:{},x", "a".repeat(100_000))), ImageRejection::DataOther);
    }

    #[test]
    fn ipfs_names_content_and_stays_inside_it() {
        for text in [
            "ipfs://bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi",
            "ipfs://QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG/icon.png",
            "IPFS://Qm1/x",
        ] {
            assert_eq!(ImageUri::classify(text), ImageKind::Ipfs, "{text}");
        }
        for text in [
            "ipfs:Qm1",
            "ipfs://",
            "ipfs:///x",
            "ipfs://Qm1/../x",
            "ipfs://Qm1/%2e%2E/x",
            "ipfs://Qm1@h/x",
            "ipfs://Qm1\\x",
            "ipfs://Qm1/<x>",
            " ipfs://Qm1",
        ] {
            assert_eq!(refused(text), ImageRejection::Malformed(None), "{text}");
        }
    }

    #[test]
    fn the_rest_is_refused() {
        assert!(matches!(ImageUri::classify("https://example.com/x.png"), ImageKind::Https(_)));
        for text in
            [" https://example.com/x.png", "https://10.0.0.1/x.png", "https://user@example.com/", "ht\ttps://example.com/"]
        {
            assert!(matches!(refused(text), ImageRejection::Malformed(Some(_))), "{text:?}");
        }
        for text in ["", "icon.png", "/icon.png", "//example.com/icon.png", ":x", "1a:x"] {
            assert_eq!(refused(text), ImageRejection::Relative, "{text:?}");
        }
        for text in ["ftp://example.com/x", "about:blank", "chrome://x", "ar://x", "intent:x"] {
            assert_eq!(refused(text), ImageRejection::Scheme, "{text:?}");
        }
    }

    // req: RENDER-006
    #[test]
    fn links() {
        assert_eq!(LinkKind::classify("https://example.com/docs"), LinkKind::Link);
        assert_eq!(LinkKind::classify("http://example.com/docs"), LinkKind::AskFirst);
        for text in
            ["javascript:alert(1)", " JAVASCRIPT:alert(1)", "file:///x", "blob:https://x", "https://a b", "mailto:x@y", "docs"]
        {
            assert_eq!(LinkKind::classify(text), LinkKind::TextOnly, "{text:?}");
        }
    }
}
