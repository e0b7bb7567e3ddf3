//! Where an image comes from, and under which address the directory serves it.

use std::fmt::Write as _;

use alloy_primitives::keccak256;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::url::HttpsUrl;
use toolcrib_core::url::image::{ImageKind, ImageUri};
use toolcrib_index::model::ToolView;
use toolcrib_x402::header;

use crate::view;

/// What every address of an image begins with.
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

    /// What the manifest says, if the tool is verified: nothing else makes the directory fetch.
    fn url(self, view: &ToolView) -> Option<&str> {
        let manifest = view::manifest(view)?;
        match self {
            Self::Icon => manifest.image.as_deref(),
            Self::Featured => manifest.featured_image.as_deref(),
        }
    }
}

/// Where the bytes of an image are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// On a server.
    Server(HttpsUrl),
    /// In the manifest itself.
    Inline(Vec<u8>),
}

impl Source {
    /// The source of a tool's image. `None` where there is none that may be shown.
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

/// The bytes of a `data:` URL, in base64: no other encoding is used for images. What type it declares does not matter; its bytes do.
fn inline(url: &str) -> Option<Vec<u8>> {
    let (head, data) = url.split_once(',')?;
    head.to_ascii_lowercase().ends_with(";base64").then_some(())?;
    header::decode(data).ok()
}

/// The address of a tool's image here, if its manifest names one that may be shown. It changes with what the manifest says, so that a
/// browser that keeps the old image asks for the new one.
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
