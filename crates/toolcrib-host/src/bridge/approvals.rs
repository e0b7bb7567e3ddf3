//! Pending approvals: the exact call, the caller, and the expiry. Each is used once.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use alloy_primitives::B256;
use toolcrib_client::Terms;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::mcp as code;
use toolcrib_mcp::{Caller, ToolError};

/// Most pending approvals. A user answers one at a time; a model that needs more is misbehaving.
pub const MAX_PENDING: usize = 32;

/// How long an approval can be answered, in seconds: as long as a client may take to get the answer.
pub const APPROVAL_SECONDS: i64 = toolcrib_mcp::ANSWER_LIMIT.as_secs().cast_signed();

/// Everything that an approval of an onchain call is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) tool: ToolRef,
    /// The manifest that was verified when the user was asked.
    pub(crate) manifest: B256,
    /// The input and the HTTP method.
    pub(crate) arguments: B256,
    /// The payment: chain, token, amount and recipient.
    pub(crate) terms: Option<Terms>,
}

/// The id of an approval: 16 random bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ApprovalId(pub(crate) [u8; 16]);

/// Approvals that wait for their answer. In memory only, so none survives a restart of the bridge.
pub(crate) struct Approvals<B>(Mutex<HashMap<ApprovalId, Pending<B>>>);

struct Pending<B> {
    bound: B,
    caller: Caller,
    expires: UnixTime,
}

impl<B> Default for Approvals<B> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<B> fmt::Debug for Approvals<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Approvals({})", self.0.lock().unwrap_or_else(PoisonError::into_inner).len())
    }
}

impl<B> Approvals<B> {
    /// Stores a pending approval before the user is asked.
    pub(crate) fn open(&self, bound: B, caller: Caller, now: UnixTime) -> Result<ApprovalId, ToolError> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|_| ToolError::new(code::INTERNAL))?;
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.retain(|_, pending| pending.expires >= now);
        if pending.len() >= MAX_PENDING {
            return Err(ToolError::new(code::APPROVALS_FULL));
        }
        pending.insert(ApprovalId(id), Pending { bound, caller, expires: now.plus(APPROVAL_SECONDS) });
        Ok(ApprovalId(id))
    }

    /// Uses up an approval in any case. Returns whether it is valid: requested by the same caller, for the same call, and not expired.
    pub(crate) fn take(&self, state: &[u8], bound: &B, caller: &Caller, now: UnixTime) -> Result<(), ToolError>
    where
        B: PartialEq,
    {
        if self.take_bound(state, caller, now)? != *bound {
            return Err(ToolError::new(code::APPROVAL_DIFFERS));
        }
        Ok(())
    }

    /// Whether an approval with this state is pending.
    pub(crate) fn holds(&self, state: &[u8]) -> bool {
        let pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.try_into().is_ok_and(|id: [u8; 16]| pending.contains_key(&ApprovalId(id)))
    }

    /// Like [`take`](Self::take), but returns what the approval is bound to. The caller must compare it.
    pub(crate) fn take_bound(&self, state: &[u8], caller: &Caller, now: UnixTime) -> Result<B, ToolError> {
        let unknown = || ToolError::new(code::APPROVAL_UNKNOWN);
        let id = ApprovalId(state.try_into().map_err(|_| unknown())?);
        let pending = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id).ok_or_else(unknown)?;
        if pending.caller != *caller {
            return Err(unknown());
        }
        if pending.expires < now {
            return Err(ToolError::new(code::APPROVAL_EXPIRED));
        }
        Ok(pending.bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, U256};
    use toolcrib_core::money::Amount;

    const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

    fn bound() -> Bound {
        Bound {
            tool: ToolRef::parse("eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7").unwrap(),
            manifest: B256::repeat_byte(1),
            arguments: B256::repeat_byte(2),
            terms: Some(Terms {
                chain: 8453,
                asset: Address::repeat_byte(3),
                amount: Amount::new(U256::from(10_000)),
                pay_to: Address::repeat_byte(4),
            }),
        }
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut Bound, &mut Caller, &mut UnixTime), id: &str) {
        let (approvals, caller) = (Approvals::default(), Caller::of("test", b"one"));
        let state = approvals.open(bound(), caller, NOW).unwrap().0;
        let (mut shown, mut by, mut at) = (bound(), caller, NOW);
        change(&mut shown, &mut by, &mut at);
        assert_eq!(approvals.take(&state, &shown, &by, at).unwrap_err().code.id(), id);
        let again = approvals.take(&state, &bound(), &caller, NOW).unwrap_err();
        assert_eq!(again.code.id(), "mcp.approval_unknown", "it was used up");
    }

    fn terms(change: impl FnOnce(&mut Terms)) -> impl FnOnce(&mut Bound, &mut Caller, &mut UnixTime) {
        move |bound, _, _| change(bound.terms.as_mut().unwrap())
    }

    #[test]
    fn an_approval_is_for_one_call_of_one_caller() {
        let (approvals, caller) = (Approvals::default(), Caller::of("test", b"one"));
        let state = approvals.open(bound(), caller, NOW).unwrap().0;
        approvals.take(&state, &bound(), &caller, NOW.plus(APPROVAL_SECONDS)).unwrap();
        assert_eq!(approvals.take(&state, &bound(), &caller, NOW).unwrap_err().code, code::APPROVAL_UNKNOWN);

        refused(|bound, _, _| bound.manifest = B256::ZERO, "mcp.approval_differs");
        refused(|bound, _, _| bound.arguments = B256::ZERO, "mcp.approval_differs");
        refused(|bound, _, _| bound.tool.id = U256::from(8), "mcp.approval_differs");
        refused(|bound, _, _| bound.terms = None, "mcp.approval_differs");
        refused(terms(|terms| terms.amount = Amount::new(U256::from(9_999))), "mcp.approval_differs");
        refused(terms(|terms| terms.amount = Amount::new(U256::from(10_001))), "mcp.approval_differs");
        refused(terms(|terms| terms.pay_to = Address::ZERO), "mcp.approval_differs");
        refused(terms(|terms| terms.asset = Address::ZERO), "mcp.approval_differs");
        refused(terms(|terms| terms.chain = 1), "mcp.approval_differs");
        refused(|_, caller, _| *caller = Caller::of("test", b"two"), "mcp.approval_unknown");
        refused(|_, _, now| *now = NOW.plus(APPROVAL_SECONDS + 1), "mcp.approval_expired");
    }

    #[test]
    fn open_questions_are_bounded_and_lapse() {
        let (approvals, caller) = (Approvals::default(), Caller::of("test", b"one"));
        for _ in 0..MAX_PENDING {
            approvals.open(bound(), caller, NOW).unwrap();
        }
        let full = |now| approvals.open(bound(), caller, now).map(drop).map_err(|fault| fault.code.id());
        assert_eq!(full(NOW.plus(APPROVAL_SECONDS)), Err("mcp.approvals_full"));
        assert_eq!(full(NOW.plus(APPROVAL_SECONDS + 1)), Ok(()));
        assert_eq!(approvals.take(b"short", &bound(), &caller, NOW).unwrap_err().code, code::APPROVAL_UNKNOWN);
    }
}
