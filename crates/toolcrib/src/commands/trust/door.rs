//! The HTTP client for untrusted servers, from the command line.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use toolcrib_core::codes;
use toolcrib_directory::Directory;
use toolcrib_fetch::SystemClock;
use toolcrib_fetch::{Concurrency, DevWorld, Untrusted};
use toolcrib_verify::Verifier;

use crate::onchain::dev_folder;
use crate::outcome::Failure;

/// Largest certificate file that is read. A certificate has about two kilobytes.
const MAX_CA_BYTES: u64 = 65_536;

/// How strangers' servers are reached.
#[derive(Args, Clone, Debug)]
pub(crate) struct EgressArgs {
    /// Certificate authority of `toolcrib dev`, PEM
    ///
    /// Trusted only for hosts below localhost of tools on chain 31337 [default: `dev/ca.pem` in the user's state folder, if it
    /// exists].
    #[arg(long, value_name = "FILE")]
    pub(crate) dev_ca: Option<PathBuf>,
}

impl EgressArgs {
    /// Builds the client.
    pub(crate) fn open(&self) -> Result<Untrusted, Failure> {
        self.open_with(Concurrency::default())
    }

    /// Builds a client for images, with separate concurrency limits, so that slow images do not delay verification.
    pub(crate) fn open_for_images(&self) -> Result<Untrusted, Failure> {
        self.open_with(Directory::IMAGE_FETCHES)
    }

    fn open_with(&self, concurrency: Concurrency) -> Result<Untrusted, Failure> {
        let mut builder = Untrusted::builder(SystemClock).concurrency(concurrency);
        if let Some(world) = self.dev_world()? {
            builder = builder.dev(world);
        }
        builder.build().map_err(|error| Failure::new(error.code(), error.to_string()))
    }

    fn dev_world(&self) -> Result<Option<DevWorld>, Failure> {
        let pem = match &self.dev_ca {
            Some(path) => Some(
                read(path)?.ok_or_else(|| Failure::new(codes::cli::NOT_FOUND, format!("{} does not exist", path.display())))?,
            ),
            None => match dev_folder() {
                Ok(folder) => read(&folder.join("ca.pem"))?,
                // Without a home folder there is no development environment either.
                Err(_) => None,
            },
        };
        pem.map(|pem| DevWorld::from_pem(&pem)).transpose().map_err(|error| Failure::new(error.code(), error.to_string()))
    }
}

/// Returns a verifier with that client.
pub(crate) fn verifier(reach: &EgressArgs) -> Result<Verifier, Failure> {
    let gatherer = concat!("toolcrib ", env!("CARGO_PKG_VERSION"));
    Ok(Verifier::new(reach.open()?, Arc::new(SystemClock), gatherer))
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let mut bytes = Vec::new();
    match fs::File::open(path).and_then(|file| file.take(MAX_CA_BYTES).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(Failure::new(codes::cli::UNREADABLE, format!("cannot read {}: {error}", path.display()))),
    }
}
