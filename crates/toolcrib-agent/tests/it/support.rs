//! Shared code of several test modules.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::Bytes;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use toolcrib_agent::evidence::TxtLookup;
use toolcrib_agent::txt::dns::{DnsServer, DnsSettings, DnsSource};
use toolcrib_core::agent::AgtDomain;
/// The system clock, for checking certificates and TSIG signatures.
pub(crate) use toolcrib_fetch::SystemClock;

/// The pointer in most test zones.
pub(crate) const POINTER: &str = "agt-manifest=ipfs://bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4";

/// The name in the certificates of test servers.
pub(crate) const SERVER_NAME: &str = "dns.test";

pub(crate) fn domain(text: &str) -> AgtDomain {
    AgtDomain::parse(text).expect("a name")
}

/// Settings with one server and short timeouts.
pub(crate) fn settings(server: &str) -> DnsSettings {
    let mut settings = DnsSettings::default();
    settings.servers = vec![server.parse::<DnsServer>().expect("a server")];
    settings.query_timeout = Duration::from_millis(1_500);
    settings.lookup_timeout = Duration::from_secs(8);
    // A loaded machine may lose a round.
    settings.attempts = 2;
    settings
}

pub(crate) fn source(settings: DnsSettings) -> DnsSource {
    DnsSource::new(settings).expect("a source")
}

pub(crate) fn records(values: &[&[u8]]) -> TxtLookup {
    TxtLookup::Records(values.iter().map(|value| Bytes::copy_from_slice(value)).collect())
}

/// The records in byte order, because DNS returns them in any order.
pub(crate) fn sorted(outcome: TxtLookup) -> TxtLookup {
    match outcome {
        TxtLookup::Records(mut records) => {
            records.sort();
            TxtLookup::Records(records)
        }
        other => other,
    }
}

/// The code of a failed lookup.
pub(crate) fn code(outcome: &TxtLookup) -> &str {
    match outcome {
        TxtLookup::Failed { code, .. } => code,
        other => panic!("not failed: {other:?}"),
    }
}

/// A certificate authority with one certificate for [`SERVER_NAME`].
pub(crate) struct Certificates {
    pub(crate) authority: CertificateDer<'static>,
    pub(crate) chain_pem: String,
    pub(crate) key_pem: String,
    chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        let authority = params.self_signed(&key).expect("a certificate");
        let issuer = Issuer::new(params, key);
        let mut leaf = CertificateParams::new(vec![SERVER_NAME.to_owned()]).expect("a name");
        leaf.not_before = rcgen::date_time_ymd(2000, 1, 1);
        leaf.not_after = rcgen::date_time_ymd(2100, 1, 1);
        let leaf_key = KeyPair::generate().expect("a key");
        let leaf = leaf.signed_by(&leaf_key, &issuer).expect("a certificate");
        Self {
            authority: authority.der().clone(),
            chain_pem: leaf.pem(),
            key_pem: leaf_key.serialize_pem(),
            chain: vec![leaf.der().clone()],
            key: leaf_key.serialize_der(),
        }
    }

    pub(crate) fn server_config(&self, protocol: &[u8]) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), PrivateKeyDer::Pkcs8(self.key.clone().into()))
            .expect("a certificate");
        config.alpn_protocols = vec![protocol.to_vec()];
        Arc::new(config)
    }
}
