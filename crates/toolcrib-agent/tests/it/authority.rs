//! A name server in this process, with an unsigned zone and a signed one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64ct::{Base64, Encoding as _};
use hickory_net::runtime::TokioRuntimeProvider;
use hickory_proto::dnssec::crypto::Ed25519SigningKey;
use hickory_proto::dnssec::rdata::DNSKEY;
use hickory_proto::dnssec::{DnssecSigner, PublicKey as _, SigningKey as _};
use hickory_proto::rr::rdata::{CNAME, NS, SOA, TXT};
use hickory_proto::rr::{LowerName, Name, RData, Record};
use hickory_server::Server;
use hickory_server::dnssec::NxProofKind;
use hickory_server::store::in_memory::InMemoryZoneHandler;
use hickory_server::zone_handler::{AxfrPolicy, Catalog, ZoneType};
use tokio::net::{TcpListener, UdpSocket};

use crate::support::{Certificates, POINTER};

/// A zone to serve.
pub(crate) struct Zone {
    handler: InMemoryZoneHandler<TokioRuntimeProvider>,
    origin: Name,
}

impl Zone {
    pub(crate) fn new(origin: &str) -> Self {
        let origin = name(origin);
        let kind = Some(NxProofKind::Nsec);
        let handler = InMemoryZoneHandler::empty(origin.clone(), ZoneType::Primary, AxfrPolicy::Deny, kind);
        let mut zone = Self { handler, origin: origin.clone() };
        let soa = SOA::new(name("ns.test."), name("admin.test."), 1, 3600, 600, 86400, 60);
        zone.add(origin.clone(), RData::SOA(soa));
        zone.add(origin, RData::NS(NS(name("ns.test."))));
        zone
    }

    pub(crate) fn add(&mut self, owner: Name, data: RData) {
        assert!(self.handler.upsert_mut(Record::from_rdata(owner, 300, data), 1), "a record of the zone");
    }

    pub(crate) fn txt(mut self, owner: &str, strings: &[&[u8]]) -> Self {
        self.add(name(owner), RData::TXT(TXT::from_bytes(strings.to_vec())));
        self
    }

    pub(crate) fn alias(mut self, owner: &str, target: &str) -> Self {
        self.add(name(owner), RData::CNAME(CNAME(name(target))));
        self
    }

    /// Signs the zone with this signature validity, and returns its key as a trust anchor.
    pub(crate) fn sign(&mut self, duration: Duration) -> String {
        let key = Ed25519SigningKey::generate_pkcs8().expect("a key");
        let key = Ed25519SigningKey::from_pkcs8(&key).expect("a key");
        let public = key.to_public_key().expect("a public key");
        let dnskey = DNSKEY::from_key(&public);
        let anchor = format!("{} DNSKEY 257 3 15 {}", self.origin, Base64::encode_string(public.public_bytes()));
        let signer = DnssecSigner::new(dnskey, Box::new(key), self.origin.clone(), duration);
        self.handler.add_zone_signing_key_mut(signer).expect("a key of the zone");
        self.handler.secure_zone_mut().expect("a signed zone");
        anchor
    }
}

/// A running server. It is stopped when the test ends.
pub(crate) struct Authority {
    pub(crate) plain: SocketAddr,
    pub(crate) tls: SocketAddr,
    pub(crate) https: SocketAddr,
    pub(crate) certificates: Certificates,
    _server: Server<Catalog>,
}

impl Authority {
    pub(crate) async fn start(zones: Vec<Zone>) -> Self {
        let mut catalog = Catalog::new();
        for zone in zones {
            catalog.upsert(LowerName::from(&zone.origin), vec![Arc::new(zone.handler)]);
        }
        let certificates = Certificates::new();
        let mut server = Server::new(catalog);
        let (udp, tcp, plain) = pair().await;
        server.register_socket(udp);
        server.register_listener(tcp, Duration::from_secs(5), 512);
        let tls = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let https = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addresses = (tls.local_addr().expect("bound"), https.local_addr().expect("bound"));
        let wait = Duration::from_secs(5);
        server.register_tls_listener_with_tls_config(tls, wait, certificates.server_config(b"dot")).expect("a listener");
        let path = "/dns-query".to_owned();
        server
            .register_https_listener_with_tls_config(https, wait, certificates.server_config(b"h2"), None, path)
            .expect("a listener");
        Self { plain, tls: addresses.0, https: addresses.1, certificates, _server: server }
    }
}

/// A UDP socket and a TCP listener with the same port.
pub(crate) async fn pair() -> (UdpSocket, TcpListener, SocketAddr) {
    for _ in 0..50 {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = tcp.local_addr().expect("bound");
        if let Ok(udp) = UdpSocket::bind(address).await {
            return (udp, tcp, address);
        }
    }
    panic!("no port is free for both UDP and TCP");
}

pub(crate) fn name(text: &str) -> Name {
    Name::from_ascii(text).expect("a name")
}

/// The zone that most tests query.
pub(crate) fn zone() -> Zone {
    let (first, second) = POINTER.split_at(20);
    let mut zone = Zone::new("agt.")
        .txt("plain.agt.", &[POINTER.as_bytes()])
        .txt("plain.agt.", &[b"v=spf1 -all"])
        .txt("split.agt.", &[first.as_bytes(), second.as_bytes()])
        .txt("quoted.agt.", &[format!("\"{POINTER}\"").as_bytes()])
        .txt("bytes.agt.", &[b"agt-name=\xff\x00"])
        .txt("long.agt.", &[&[b'a'; 255], &[b'b'; 255], &[b'c'; 90]])
        .alias("alias.agt.", "plain.agt.")
        .alias("outside.agt.", "host.example.")
        .alias("dangling.agt.", "missing.agt.")
        .alias("one.agt.", "two.agt.")
        .alias("two.agt.", "one.agt.");
    let address = hickory_proto::rr::rdata::A::new(192, 0, 2, 1);
    zone.add(name("nodata.agt."), RData::A(address));
    for at in 0..120 {
        zone = zone.txt("many.agt.", &[format!("record {at:03}").as_bytes()]);
    }
    zone
}
