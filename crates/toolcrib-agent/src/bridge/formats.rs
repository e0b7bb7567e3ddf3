//! The export formats.

use std::fmt;
use std::str::FromStr;

/// An export format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// An A2A 1.0 Agent Card.
    A2a,
    /// An ERC-8004 registration file.
    Erc8004,
    /// `server.json` of the MCP registry.
    McpRegistry,
    /// ENS text records: ENSIP-26, and ENSIP-25 if registrations are given.
    Ensip26,
    /// DNS TXT records of Agent Identity and Discovery.
    Aid,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 5] = [Self::A2a, Self::Erc8004, Self::McpRegistry, Self::Ensip26, Self::Aid];

    /// The id on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::A2a => "a2a",
            Self::Erc8004 => "erc8004",
            Self::McpRegistry => "mcp-registry",
            Self::Ensip26 => "ensip26",
            Self::Aid => "aid",
        }
    }

    /// A description of the format in one line.
    pub const fn description(self) -> &'static str {
        match self {
            Self::A2a => "Agent Card of the A2A protocol, version 1.0",
            Self::Erc8004 => "registration file of the ERC-8004 identity registry",
            Self::McpRegistry => "server.json of the MCP registry, for an agent with an mcp endpoint",
            Self::Ensip26 => "ENS text records of an agent (ENSIP-26, ENSIP-25)",
            Self::Aid => "DNS TXT records of Agent Identity and Discovery, as zone file lines",
        }
    }

    /// The usual name of the file.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::A2a => "agent-card.json",
            Self::Erc8004 => "agent-registration.json",
            Self::McpRegistry => "server.json",
            Self::Ensip26 => "ens-records.json",
            Self::Aid => "aid.zone",
        }
    }

    /// The media type of the text.
    pub const fn media_type(self) -> &'static str {
        match self {
            // RFC 4027.
            Self::Aid => "text/dns",
            _ => "application/json",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not the id of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format: expected one of a2a, erc8004, mcp-registry, ensip26, aid")]
pub struct UnknownFormat;

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.as_str() == text).ok_or(UnknownFormat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_found_by_its_id() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
            assert!(UnknownFormat.to_string().contains(format.as_str()), "{format} is missing in the error");
            assert!(!format.description().is_empty() && format.description().len() < 80);
        }
        assert_eq!("A2A".parse::<Format>(), Err(UnknownFormat));
        assert_eq!("".parse::<Format>(), Err(UnknownFormat));
    }
}
