//! The x402 Bazaar in an index: facilitators whose catalogues are followed.

use clap::Args;
use toolcrib_fetch::Configured;
use toolcrib_fetch::SystemClock;
use toolcrib_index::bazaar::{BazaarOptions, Facilitator};

use crate::env;
use crate::outcome::Failure;
use crate::secrets;

/// Most facilitators. Reading a catalogue takes minutes, and one process reads one after the other.
const MAX_FACILITATORS: usize = 32;

/// Which facilitators an index follows.
#[derive(Args, Clone, Debug)]
pub(crate) struct BazaarArgs {
    /// x402 facilitator whose Bazaar to list; repeatable [env: `TOOLCRIB_BAZAAR`]
    ///
    /// Its catalog is read from URL/discovery/resources and never listed as verified. Give URLs with a key in the variable,
    /// comma-separated.
    #[arg(long = "bazaar", value_name = "URL")]
    pub(crate) facilitators: Vec<String>,
    /// Bazaar price probes in parallel and per second; 0 for none
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(0..=64))]
    pub(crate) bazaar_probes: u8,
}

/// What is followed, and how.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) facilitators: Vec<Facilitator>,
    pub(crate) client: Configured,
    pub(crate) options: BazaarOptions,
    pub(crate) is_probing: bool,
}

impl BazaarArgs {
    /// The URLs of the flags, or those of the variable.
    fn urls(&self) -> Vec<String> {
        if !self.facilitators.is_empty() {
            return self.facilitators.clone();
        }
        let setting = secrets::var(env::TOOLCRIB_BAZAAR).unwrap_or_default();
        setting.split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned).collect()
    }

    /// Whether a facilitator is configured.
    pub(crate) fn is_said(&self) -> bool {
        !self.urls().is_empty()
    }

    /// Reads the URLs. `None` without any.
    pub(crate) fn prepare(&self) -> Result<Option<Followed>, Failure> {
        let urls = self.urls();
        if urls.is_empty() {
            return Ok(None);
        }
        if urls.len() > MAX_FACILITATORS {
            let what = format!("{} facilitators are more than {MAX_FACILITATORS}", urls.len());
            return Err(Failure::new(toolcrib_core::codes::cli::USAGE, what));
        }
        // Errors do not contain the URL, which may contain a key.
        let failed = |error: toolcrib_fetch::Error| Failure::new(error.code(), format!("--bazaar: {error}"));
        let facilitators = urls.iter().map(|url| Facilitator::from_setting(url)).collect::<Result<_, _>>().map_err(failed)?;
        let client = Configured::builder(SystemClock).build().map_err(failed)?;
        let options = BazaarOptions { probes: usize::from(self.bazaar_probes), ..BazaarOptions::default() };
        Ok(Some(Followed { facilitators, client, options, is_probing: self.bazaar_probes > 0 }))
    }
}
