//! TXT sources in flags and settings files.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use toolcrib_core::codes::{self, Code};
use toolcrib_fetch::ConfiguredUrl;

use super::dns::DnsServer;
use super::freename::FREENAME_API;

/// Maximum number of sources for one resolution. There are four kinds on the network.
const MAX_SOURCES: usize = 8;

/// Maximum number of name servers in one source. More would only slow down failures.
const MAX_SERVERS: usize = 8;

/// An invalid source. The setting itself may contain a key and is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SettingError {
    reason: &'static str,
}

impl SettingError {
    pub(crate) const fn new(reason: &'static str) -> Self {
        Self { reason }
    }

    /// Returns the code of this error.
    pub const fn code(&self) -> Code {
        codes::agent::TXT_SETTING
    }
}

/// One TXT source.
///
/// ```
/// use toolcrib_agent::txt::SourceSetting;
///
/// let source: SourceSetting = "dns:udp://127.0.0.1:5353".parse().expect("a source");
/// assert_eq!(source.to_string(), "dns:udp://127.0.0.1:5353");
/// assert!("gopher".parse::<SourceSetting>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceSetting {
    /// `dns`: the operating system's name servers. `dns:<server>,<server>`: these, in the format of [`DnsServer`].
    Dns(Vec<DnsServer>),
    /// `doh-json:<url>`: DNS over HTTPS in JSON.
    DohJson(ConfiguredUrl),
    /// `freename`, or `freename:<url>` for another URL: the resolver of Freename.
    Freename(ConfiguredUrl),
    /// `fns`: the records onchain.
    Fns,
    /// `file:<path>`: a text file with one record per line.
    File(PathBuf),
}

impl FromStr for SourceSetting {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let text = text.trim();
        let (kind, rest) = match text.split_once(':') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (text, None),
        };
        let url = |text: &str| {
            ConfiguredUrl::from_setting(text)
                .map_err(|_| SettingError::new("the URL of a source is https://, or http:// on this machine"))
        };
        match (kind, rest) {
            ("dns", None) => Ok(Self::Dns(Vec::new())),
            ("dns", Some(servers)) => {
                let servers: Vec<DnsServer> = servers.split(',').map(str::parse).collect::<Result<_, _>>()?;
                if servers.len() > MAX_SERVERS {
                    return Err(SettingError::new("a source has at most eight name servers"));
                }
                Ok(Self::Dns(servers))
            }
            ("doh-json", Some(rest)) => url(rest).map(Self::DohJson),
            ("freename", None) => url(FREENAME_API).map(Self::Freename),
            ("freename", Some(rest)) => url(rest).map(Self::Freename),
            ("fns", None) => Ok(Self::Fns),
            ("file", Some(path)) if !path.is_empty() => Ok(Self::File(path.into())),
            _ => Err(SettingError::new("a TXT source is dns, dns:…, doh-json:https://…, freename, fns or file:…")),
        }
    }
}

/// The TXT sources of a resolution: one to eight, separated by spaces or line ends, such as `freename dns:udp://192.0.2.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceList(Vec<SourceSetting>);

impl SourceList {
    /// Creates a list. An error if it is empty, too long, or has duplicates: two responses of one source always agree.
    pub fn new(sources: Vec<SourceSetting>) -> Result<Self, SettingError> {
        if sources.is_empty() || sources.len() > MAX_SOURCES {
            return Err(SettingError::new("there are one to eight TXT sources"));
        }
        if sources.iter().enumerate().any(|(at, source)| sources[..at].contains(source)) {
            return Err(SettingError::new("a TXT source appears twice"));
        }
        Ok(Self(sources))
    }

    /// The sources in order.
    pub fn as_slice(&self) -> &[SourceSetting] {
        &self.0
    }
}

impl FromStr for SourceList {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        Self::new(text.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for SourceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&sources.join(" "))
    }
}

/// Writes the source without paths and queries of URLs, which may contain a key.
impl fmt::Display for SourceSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(servers) if servers.is_empty() => f.write_str("dns"),
            Self::Dns(servers) => {
                let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
                write!(f, "dns:{}", servers.join(","))
            }
            Self::DohJson(url) => write!(f, "doh-json:{url}"),
            Self::Freename(url) if ConfiguredUrl::from_setting(FREENAME_API).is_ok_and(|usual| usual == *url) => {
                f.write_str("freename")
            }
            Self::Freename(url) => write!(f, "freename:{url}"),
            Self::Fns => f.write_str("fns"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_and_shown_without_secrets() {
        for (text, expected) in [
            ("dns", "dns"),
            (" dns:udp://127.0.0.1:5353 ", "dns:udp://127.0.0.1:5353"),
            ("dns:192.0.2.1,tls://dns.example@192.0.2.2", "dns:udp://192.0.2.1,tls://dns.example@192.0.2.2"),
            ("dns:https://dns.example@192.0.2.1/s3cret", "dns:https://dns.example@192.0.2.1"),
            ("doh-json:https://dns.example/resolve?key=s3cret", "doh-json:https://dns.example"),
            ("doh-json:http://127.0.0.1:8053/dns-query", "doh-json:http://127.0.0.1:8053"),
            ("freename", "freename"),
            ("freename:http://127.0.0.1:8080/api", "freename:http://127.0.0.1:8080"),
            ("fns", "fns"),
            ("file:records.txt", "file:records.txt"),
        ] {
            let source: SourceSetting = text.parse().unwrap();
            assert_eq!(source.to_string(), expected, "{text}");
            assert!(!format!("{source:?}").contains("s3cret"));
        }
    }

    #[test]
    fn lists_have_one_to_eight_different_sources() {
        let list: SourceList = " freename\n dns:192.0.2.1  fns ".parse().unwrap();
        assert_eq!(list.to_string(), "freename dns:udp://192.0.2.1 fns");
        assert_eq!(list.as_slice().len(), 3);
        let nine: Vec<String> = (1..10).map(|at| format!("dns:192.0.2.{at}")).collect();
        assert!(nine[..8].join(" ").parse::<SourceList>().is_ok());
        for bad in ["", "dns dns", "dns:192.0.2.1 dns:udp://192.0.2.1:53", "dns, fns", &nine.join(" ")] {
            assert!(bad.parse::<SourceList>().is_err(), "{bad}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let nine = format!("dns:{}", ["192.0.2.1"; 9].join(","));
        for text in [
            "",
            "dns:",
            "dns:x",
            "DNS",
            "doh-json",
            "doh-json:http://dns.example/",
            "freename:",
            "fns:1",
            "file:",
            "ens",
            nine.as_str(),
        ] {
            assert_eq!(text.parse::<SourceSetting>().map_err(|error| error.code()), Err(codes::agent::TXT_SETTING), "{text}");
        }
    }
}
