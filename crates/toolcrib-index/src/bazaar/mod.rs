//! The Bazaar: resources that x402 facilitators list, which no registry knows.
//!
//! [`CatalogueFollower`] walks through the catalogue of each configured facilitator, [`Prober`] asks the resources themselves what they
//! cost, and [`Index::resources`](crate::Index::resources) and its neighbours read what is known. A catalogue is written by any seller that was paid
//! once through its facilitator, so nothing in it is ever verified: what it claims and what a probe was told are kept apart.
//!
//! Leases work as those of agents do: a random token and an end in the row of a facilitator or a resource, so that any number of processes
//! share the work. A resource that vanishes is unlisted after [`BazaarOptions::grace`], when at least [`MISSED_WALKS`] complete walks did not
//! meet it; a walk that fails or ends early unlists nothing.

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

/// The secret of a worker.
type Token = [u8; 16];

fn token() -> Result<Token, crate::Error> {
    let mut token = [0; 16];
    getrandom::fill(&mut token).map_err(|_| crate::Error::Corrupt { what: "source of randomness" })?;
    Ok(token)
}
