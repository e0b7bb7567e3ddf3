//! A resolver and a connector that record requests.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use tokio::net::TcpStream;
use toolcrib_fetch::{Connect, Resolve, ResolveError};

/// Resolves only configured hosts. Clones share the configuration and the record.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<State>>);

type Answer = Result<Vec<IpAddr>, ResolveError>;

#[derive(Debug, Default)]
struct State {
    answers: HashMap<String, Vec<Answer>>,
    routes: HashMap<IpAddr, Route>,
    lookups: Vec<String>,
    dialled: Vec<SocketAddr>,
}

#[derive(Clone, Copy, Debug)]
enum Route {
    To(SocketAddr),
    Fail(io::ErrorKind),
    Silent,
}

impl Recorder {
    /// Configures a host with fixed addresses.
    pub fn host(&self, host: &str, addresses: &[&str]) {
        self.answers(host, vec![Ok(parse(addresses))]);
    }

    /// Configures a host whose answers come one after the other; the last one is repeated.
    pub fn answers(&self, host: &str, answers: Vec<Answer>) {
        self.state().answers.insert(host.to_owned(), answers);
    }

    /// Configures a host whose lookup never ends.
    pub fn never(&self, host: &str) {
        self.answers(host, Vec::new());
    }

    /// Connects an address to a server on loopback, whatever the port.
    pub fn route(&self, address: &str, to: SocketAddr) {
        assert!(to.ip().is_loopback());
        self.state().routes.insert(parse(&[address])[0], Route::To(to));
    }

    /// Makes connections to an address fail.
    pub fn fail(&self, address: &str, kind: io::ErrorKind) {
        self.state().routes.insert(parse(&[address])[0], Route::Fail(kind));
    }

    /// Makes connections to an address hang.
    pub fn silent(&self, address: &str) {
        self.state().routes.insert(parse(&[address])[0], Route::Silent);
    }

    /// Returns the names that were looked up.
    pub fn lookups(&self) -> Vec<String> {
        self.state().lookups.clone()
    }

    /// Returns the addresses to which a connection was requested.
    pub fn dialled(&self) -> Vec<SocketAddr> {
        self.state().dialled.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panicked in here")
    }
}

/// Parses addresses.
pub fn parse(addresses: &[&str]) -> Vec<IpAddr> {
    addresses.iter().map(|address| address.parse().expect("an address")).collect()
}

#[async_trait]
impl Resolve for Recorder {
    async fn resolve(&self, host: &str) -> Answer {
        let answer = {
            let mut state = self.state();
            state.lookups.push(host.to_owned());
            match state.answers.get_mut(host) {
                None => Some(Err(ResolveError::NoSuchHost)),
                Some(answers) if answers.len() > 1 => Some(answers.remove(0)),
                Some(answers) => answers.first().cloned(),
            }
        };
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Connect for Recorder {
    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let route = {
            let mut state = self.state();
            state.dialled.push(address);
            state.routes.get(&address.ip()).copied()
        };
        match route {
            Some(Route::To(server)) => TcpStream::connect(server).await,
            Some(Route::Fail(kind)) => Err(kind.into()),
            Some(Route::Silent) => std::future::pending().await,
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }
}
