//! Whether a registration is active or abandoned.

use toolcrib_core::clock::UnixTime;

use crate::listing::Life;
use crate::model::{ToolRow, UsageTotals};

/// After how long without any change a tool may be stale: a year. It hides nothing.
pub const STALE_SECONDS: i64 = 365 * 86_400;

/// The reason of a tool that its creator deregistered.
pub const DEREGISTERED: &str = "deregistered";
/// The reason of a tool whose predicate denies access to every account.
pub const ALWAYS_DENY: &str = "always_deny";

pub(crate) fn life(row: &ToolRow, usage: &UsageTotals, is_always_deny: bool, now: UnixTime) -> Life {
    if row.deregistered.is_some() {
        return Life::Retired(DEREGISTERED.to_owned());
    }
    if is_always_deny {
        return Life::Retired(ALWAYS_DENY.to_owned());
    }
    let last = usage.last_at.map_or(row.updated.time, |used| used.max(row.updated.time));
    if now.since(last) >= STALE_SECONDS { Life::MaybeStale } else { Life::Active }
}
