//! The source of an image, and its path on the directory.

use std::fmt::Write as _;

use alloy_primitives::keccak256;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::url::HttpsUrl;
use toolcrib_core::url::image::{ImageKind, ImageUri};
use toolcrib_index::model::ToolView;
use toolcrib_x402::header;

use crate::view;

/// The prefix of every image path.
pub(crate) const PREFIX: &str = "/images/";

/// Which image of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// `image` of the manifest.
    Icon,
    /// `featuredImage` of the manifest.
    Featured,
}

impl Which {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Icon => "icon",
            Self::Featured => "featured",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Icon, Self::Featured].into_iter().find(|which| which.name() == name)
    }

    /// Returns the URL in the manifest, if the tool is verified: nothing else makes the directory fetch.
    fn url(self, view: &ToolView) -> Option<&str> {
        let manifest = view::manifest(view)?;
        match self {
            Self::Icon => manifest.image.as_deref(),
            Self::Featured => manifest.featured_image.as_deref(),
        }
    }
}

/// The location of an image's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// On a server.
    Server(HttpsUrl),
    /// In the manifest itself.
    Inline(Vec<u8>),
}

impl Source {
    /// Returns the source of a tool's image. `None` if there is none that may be shown.
    pub(crate) fn of(view: &ToolView, which: Which, ipfs_gateway: Option<&str>) -> Option<Self> {
        let url = which.url(view)?;
        match ImageUri::classify(url) {
            ImageKind::Https(url) => Some(Self::Server(url)),
            ImageKind::Ipfs => {
                let path = url.get("ipfs://".len()..)?;
                HttpsUrl::parse(&format!("{}{path}", ipfs_gateway?)).ok().map(Self::Server)
            }
            ImageKind::DataImage(_) => inline(url).map(Self::Inline),
            _ => None,
        }
    }
}

/// Decodes the bytes of a `data:` URL in base64: no other encoding is used for images. Its declared type is ignored; its bytes are
/// checked.
fn inline(url: &str) -> Option<Vec<u8>> {
    let (head, data) = url.split_once(',')?;
    head.to_ascii_lowercase().ends_with(";base64").then_some(())?;
    header::decode(data).ok()
}

/// Returns the path of a tool's image on this directory, if its manifest has one that may be shown. It changes with the URL in the
/// manifest, so that browsers do not show a cached old image.
pub(crate) fn address(view: &ToolView, which: Which) -> Option<String> {
    let url = which.url(view)?;
    if !matches!(ImageUri::classify(url), ImageKind::Https(_) | ImageKind::Ipfs | ImageKind::DataImage(_)) {
        return None;
    }
    let ToolRef { chain, registry, id } = &view.tool;
    let mut address = format!("{PREFIX}{chain}/{registry:#x}/{id}/{}?v=", which.name());
    for byte in &keccak256(url)[..8] {
        let _ = write!(address, "{byte:02x}");
    }
    Some(address)
}
