//! Images and floor prices of the NFT collections that gate tools, from a service that the operator chooses.

use std::sync::Arc;

use clap::Args;
use toolcrib_fetch::SystemClock;
use toolcrib_fetch::{Configured, ConfiguredUrl};
use toolcrib_index::facts::{CollectionProvider, OpenSea};

use crate::env;
use crate::outcome::Failure;
use crate::secrets;

/// Who knows collections.
#[derive(Args, Clone, Debug)]
pub(crate) struct CollectionArgs {
    /// Service with the `OpenSea` API v2 for collection images and floor prices
    ///
    /// For example `https://api.opensea.io`. Its key comes from `TOOLCRIB_COLLECTIONS_KEY`.
    #[arg(long, value_name = "URL")]
    pub(crate) collections: Option<String>,
}

impl CollectionArgs {
    /// Connects to the service. Without one, returns `None`; then images and prices are not shown.
    pub(crate) fn provider(&self) -> Result<Option<Arc<dyn CollectionProvider>>, Failure> {
        let Some(text) = &self.collections else { return Ok(None) };
        let failed = |error: toolcrib_fetch::Error| Failure::new(error.code(), format!("--collections: {error}"));
        let url = ConfiguredUrl::from_setting(text).map_err(failed)?;
        let client = Configured::builder(SystemClock).build().map_err(failed)?;
        let key = secrets::var(env::TOOLCRIB_COLLECTIONS_KEY);
        let provider = OpenSea::new(client, url, key.as_deref(), Arc::new(SystemClock)).map_err(failed)?;
        Ok(Some(Arc::new(provider)))
    }
}
