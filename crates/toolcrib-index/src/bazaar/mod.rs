//! The Bazaar: resources that x402 facilitators list and that are not in a registry.
//!
//! [`CatalogueFollower`] walks through the catalogue of each configured facilitator, [`Prober`] requests the resources themselves to learn
//! their price, and [`Index::resources`](crate::Index::resources) and related methods read the results. Any seller who was paid once
//! through a facilitator can write to its catalogue, so nothing in it is verified: its claims and the results of probes are stored
//! separately.
//!
//! Leases work as those of agents do: a random token and an expiry in the row of a facilitator or a resource, so that any number of
//! processes share the work. A resource that disappears is unlisted after [`BazaarOptions::grace`], when it was missing from at least
//! [`MISSED_WALKS`] complete walks; a walk that fails or ends early unlists nothing.

mod census;
mod model;
mod options;
mod page;
mod probe;
mod read;
mod tables;
mod walk;

pub use census::{BazaarCensus, FacilitatorState};
pub use model::{CatalogueClaim, ClaimView, ProbeFacts, ResourceView};
pub use options::{BazaarOptions, MISSED_WALKS};
pub use probe::{ProbeRound, Prober};
pub use read::{ResourceList, ResourcePage};
pub(crate) use tables::MIGRATIONS;
pub use walk::{CatalogueFollower, Facilitator, Walk, WalkEnd};

/// The random token of a worker.
type Token = [u8; 16];

fn token() -> Result<Token, crate::Error> {
    let mut token = [0; 16];
    getrandom::fill(&mut token).map_err(|_| crate::Error::Corrupt { what: "source of randomness" })?;
    Ok(token)
}
