//! Whom identity is signed for, where that is not simply the operator.

use std::fmt;

use alloy_primitives::Address;
use toolcrib_core::caip::ToolRef;
use toolcrib_x402::Raw;
use toolcrib_x402::recipient::EndpointBinding;

/// Derives the recipient of signatures over nothing. Never used for money.
pub trait Recipient: fmt::Debug + Send + Sync {
    /// The recipient at an endpoint, as the manifest has it in normalised form.
    fn pay_to(&self, endpoint: &str, tool: ToolRef, operator: Address) -> Address;

    /// What the challenge of version 2 says about it, so that clients can check it before they sign: the name and the value of an
    /// extension.
    fn extension(&self, _endpoint: &str, _tool: ToolRef, _operator: Address) -> Option<(String, Raw)> {
        None
    }
}

/// A recipient that commits to endpoint, tool and operator, as in [`toolcrib_x402::recipient`].
///
/// A signature for it is worth nothing at any other tool, not even one of the same operator. Clients that know nothing of it see an
/// account like any other; those that compare the recipient with the manifest's creator have to know it.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndpointRecipient;

impl Recipient for EndpointRecipient {
    fn pay_to(&self, endpoint: &str, tool: ToolRef, operator: Address) -> Address {
        EndpointBinding { endpoint: endpoint.to_owned(), tool, operator }.pay_to()
    }

    fn extension(&self, endpoint: &str, tool: ToolRef, operator: Address) -> Option<(String, Raw)> {
        Some(EndpointBinding { endpoint: endpoint.to_owned(), tool, operator }.extension())
    }
}
