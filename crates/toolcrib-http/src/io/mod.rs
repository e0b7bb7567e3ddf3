//! The layers between hyper and a socket, from the bottom to the top: [`Stalling`] (a timeout for writes), TLS if there is any, [`Watched`]
//! (how a connection ends), [`Framed`] (the framing of requests).

mod framed;
mod stalling;
mod watched;

pub(crate) use framed::{Framed, Upgraded};
pub(crate) use stalling::Stalling;
pub(crate) use watched::{Closed, Watched};
