//! A private certificate authority.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// An authority that only tests trust.
#[derive(Debug)]
pub struct Authority {
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates an authority with a new key.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { der: certificate.der().clone(), issuer: Issuer::new(params, key) }
    }

    /// Returns the certificate of the authority.
    pub fn der(&self) -> CertificateDer<'static> {
        self.der.clone()
    }

    /// Issues a certificate for names or addresses, valid from 2000 to 2100.
    pub fn leaf(&self, names: &[&str]) -> Leaf {
        self.leaf_with(names, |_| {})
    }

    /// Issues a certificate that is valid from 1 January of one year to 1 January of another.
    pub fn leaf_between(&self, names: &[&str], from: i32, to: i32) -> Leaf {
        self.leaf_with(names, |params| {
            params.not_before = rcgen::date_time_ymd(from, 1, 1);
            params.not_after = rcgen::date_time_ymd(to, 1, 1);
        })
    }

    /// A certificate that is modified by `change`.
    pub fn leaf_with(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Leaf {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(2100, 1, 1);
        params.use_authority_key_identifier_extension = true;
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Leaf { chain: vec![certificate.der().clone(), self.der()], key: key.serialize_der() }
    }
}

/// A certificate with its key.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// The certificate and that of its authority.
    pub chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
}

impl Leaf {
    /// Returns the private key.
    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.clone().into())
    }
}
