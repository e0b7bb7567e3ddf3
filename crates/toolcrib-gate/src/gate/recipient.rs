//! Recipients (`payTo`) of identity signatures, where that is not simply the operator.

use std::fmt;

use alloy_primitives::Address;
use toolcrib_core::caip::ToolRef;
use toolcrib_x402::Raw;
use toolcrib_x402::recipient::EndpointBinding;

/// Derives the recipient of identity signatures. Never used for payments.
pub trait Recipient: fmt::Debug + Send + Sync {
    /// Returns the recipient for an endpoint, given in the manifest's normalised form.
    fn pay_to(&self, endpoint: &str, tool: ToolRef, operator: Address) -> Address;

    /// Returns the name and the value of an x402 extension of version 2 that describes the recipient, so that clients can check it before
    /// they sign.
    fn extension(&self, _endpoint: &str, _tool: ToolRef, _operator: Address) -> Option<(String, Raw)> {
        None
    }
}

/// A recipient that commits to endpoint, tool and operator, as in [`toolcrib_x402::recipient`].
///
/// A signature for it is useless at any other tool, even one of the same operator. Clients that do not know this scheme see an ordinary
/// account; clients that compare the recipient with the manifest's creator have to know it.
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
