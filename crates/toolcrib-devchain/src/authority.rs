//! The certificate authority of the development environment: issues certificates for hosts below `localhost`, so that tools on a
//! developer's computer verify exactly like public ones.
//!
//! The authority's certificate restricts itself to these hosts (name constraints, RFC 5280 §4.2.1.10), which is checked each time
//! it is opened. It is never added to any root store: clients that trust it name its file. Only its owner can read the key file;
//! the keys of issued certificates are never written to disk.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, NameConstraints,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::codes::{self, Code};
use toolcrib_files::{AtomicFile, create_private_folder};
use toolcrib_http::{Tls, TlsError};
use zeroize::Zeroizing;

/// Validity of an authority in days. Clients trust its file explicitly, so it need not be short.
pub const AUTHORITY_DAYS: u64 = 3_650;

/// Validity of a certificate in days. Each start issues a new one, so this is how long a server may run without a restart.
pub const CERTIFICATE_DAYS: u64 = 30;

/// Certificates are valid from a day in the past, for clocks that are slow.
const EARLIER: u64 = DAY;
const DAY: u64 = 86_400;

/// The certificate, for clients that trust it.
const CERTIFICATE_FILE: &str = "ca.pem";
/// The key.
const KEY_FILE: &str = "ca-key.pem";
/// Locked while the two files are read or created, so that two processes do not create two authorities.
const LOCK_FILE: &str = "ca.lock";

/// Maximum size of a file. Ours have less than a kilobyte.
const MAX_FILE_BYTES: u64 = 65_536;

/// The authority's name. Verifiers find the issuer of a certificate by it, so it never changes.
const NAME: &str = "Toolcrib development authority, for localhost only";

/// The certificate authority of this computer's development environment.
#[derive(Debug)]
pub struct Authority {
    path: PathBuf,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Opens the authority in a folder, or creates one if there is none. Existing files that are unusable stay unchanged.
    pub fn open(folder: &Path, clock: &dyn Clock) -> Result<Self, AuthorityError> {
        let now = clock.now();
        let (path, key_path) = (folder.join(CERTIFICATE_FILE), folder.join(KEY_FILE));
        create_private_folder(folder).map_err(|error| AuthorityError::unwritable(folder, &error))?;
        let _lock = lock(&folder.join(LOCK_FILE)).map_err(|error| AuthorityError::unwritable(folder, &error))?;
        let (certificate, key) = (read(&path)?, read(&key_path)?);
        let unusable = |what: &str| AuthorityError::Unusable { path: path.clone(), reason: what.to_owned() };
        let key = match (&key, &certificate) {
            (Some(pem), _) => {
                let text = std::str::from_utf8(pem).map_err(|_| unusable("the key is no text"))?;
                KeyPair::from_pem(text).map_err(|_| unusable("the key cannot be read"))?
            }
            (None, Some(_)) => return Err(unusable("its key is missing")),
            (None, None) => {
                let key = KeyPair::generate().map_err(|error| unusable(&error.to_string()))?;
                write(&key_path, &Zeroizing::new(key.serialize_pem()))?;
                key
            }
        };
        let params = authority_params(now);
        let certificate = match certificate {
            Some(pem) => CertificateDer::from_pem_slice(&pem).map_err(|_| unusable("the certificate cannot be read"))?,
            // Created for the first time, or interrupted between the two files before.
            None => {
                let made = params.self_signed(&key).map_err(|error| unusable(&error.to_string()))?;
                write(&path, &made.pem())?;
                made.der().clone()
            }
        };
        let authority = Self { path, certificate, issuer: Issuer::new(params, key) };
        authority.try_out(now)?;
        Ok(authority)
    }

    /// The PEM file with its certificate.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Issues certificates for these hosts, each with its own key, valid for [`CERTIFICATE_DAYS`] from now.
    pub fn tls<'h>(&self, hosts: impl IntoIterator<Item = &'h str>, clock: &dyn Clock) -> Result<Tls, AuthorityError> {
        let mut issued = Vec::new();
        for host in hosts {
            if !host.to_ascii_lowercase().ends_with(".localhost") {
                return Err(AuthorityError::Host { host: host.to_owned() });
            }
            let (certificate, key) = self.issue(host, clock.now())?;
            issued.push((host, certificate.pem(), Zeroizing::new(key.serialize_pem())));
        }
        let all = issued.iter().map(|(host, certificate, key)| (*host, certificate.as_bytes(), key.as_bytes()));
        Ok(Tls::with_names(all)?)
    }

    fn issue(&self, host: &str, now: UnixTime) -> Result<(rcgen::Certificate, KeyPair), AuthorityError> {
        let failed = |error: rcgen::Error| AuthorityError::Unusable { path: self.path.clone(), reason: error.to_string() };
        let mut params = CertificateParams::new([host.to_owned()]).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, "Toolcrib development tool");
        set_validity(&mut params, now, CERTIFICATE_DAYS);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok((certificate, key))
    }

    /// Checks that clients that trust the certificate accept certificates issued for localhost, and nothing else. A certificate of
    /// another key fails the first check, one without constraints the second.
    fn try_out(&self, now: UnixTime) -> Result<(), AuthorityError> {
        let unusable = |reason: String| AuthorityError::Unusable { path: self.path.clone(), reason };
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).map_err(|error| unusable(error.to_string()))?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(rustls::crypto::ring::default_provider()));
        let verifier = verifier.build().map_err(|error| unusable(error.to_string()))?;
        let at = rustls::pki_types::UnixTime::since_unix_epoch(since_epoch(now));
        for (host, is_ours) in [("trial.tool.localhost", true), ("tools.example.com", false), ("192.0.2.1", false)] {
            let (leaf, _) = self.issue(host, now)?;
            let name = ServerName::try_from(host).map_err(|error| unusable(error.to_string()))?;
            match verifier.verify_server_cert(leaf.der(), &[], &name, &[], at) {
                Ok(_) if !is_ours => return Err(unusable(format!("it would vouch for {host}"))),
                Err(error) if is_ours => return Err(unusable(format!("it does not vouch for {host}: {error}"))),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Why the local authority could not be opened, or could not issue a certificate.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// A file exists, but cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A file or the folder cannot be written.
    #[error("cannot write {}: {reason}", path.display())]
    Unwritable {
        /// The file or the folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The files are not a certificate authority for localhost.
    #[error("the authority in {} cannot be used: {reason}", path.display())]
    Unusable {
        /// The file of the certificate.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The host is not below `localhost`.
    #[error("{host:?} is not below localhost")]
    Host {
        /// The host.
        host: String,
    },
    /// TLS rejects an issued certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl AuthorityError {
    /// Returns the code of this error.
    pub const fn code(&self) -> Code {
        match self {
            Self::Unreadable { .. } => codes::gate::AUTHORITY_UNREADABLE,
            Self::Unwritable { .. } => codes::gate::AUTHORITY_UNWRITABLE,
            Self::Unusable { .. } => codes::gate::AUTHORITY_UNUSABLE,
            Self::Host { .. } => codes::gate::AUTHORITY_HOST,
            Self::Tls(error) => error.code(),
        }
    }

    fn unwritable(path: &Path, error: &io::Error) -> Self {
        Self::Unwritable { path: path.to_owned(), reason: error.to_string() }
    }
}

/// The contents of the authority's certificate. The issuer is made from it too, because it needs the name and the key identifier method.
fn authority_params(now: UnixTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, NAME);
    set_validity(&mut params, now, AUTHORITY_DAYS);
    // It must not issue further authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![GeneralSubtree::DnsName("localhost".to_owned())],
        // Name constraints do not restrict IP addresses, so exclude all of them.
        excluded_subtrees: vec![
            GeneralSubtree::IpAddress(CidrSubnet::from_v4_prefix([0; 4], 0)),
            GeneralSubtree::IpAddress(CidrSubnet::from_v6_prefix([0; 16], 0)),
        ],
    });
    params
}

/// Sets a validity from a day ago to `days` days from now.
fn set_validity(params: &mut CertificateParams, now: UnixTime, days: u64) {
    let (epoch, now) = (rcgen::date_time_ymd(1970, 1, 1), since_epoch(now));
    params.not_before = epoch + now.saturating_sub(Duration::from_secs(EARLIER));
    params.not_after = epoch + now + Duration::from_secs(days * DAY);
}

fn since_epoch(now: UnixTime) -> Duration {
    Duration::from_secs(u64::try_from(now.seconds()).unwrap_or_default())
}

/// Reads a file; `None` if there is none. It may be a key, so its contents are wiped from memory.
fn read(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, AuthorityError> {
    let unreadable = |reason: String| AuthorityError::Unreadable { path: path.to_owned(), reason };
    let mut bytes = Zeroizing::new(Vec::new());
    match File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)) {
        Ok(count) if count as u64 > MAX_FILE_BYTES => Err(unreadable("it is too large".to_owned())),
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

/// Writes a file atomically that only its owner can read.
fn write(path: &Path, text: &str) -> Result<(), AuthorityError> {
    let replaced = AtomicFile::new(path).under_lock().replace(text.as_bytes());
    replaced.map_err(|error| AuthorityError::unwritable(path, &error))
}

fn lock(path: &Path) -> io::Result<File> {
    let file = private(OpenOptions::new().write(true).create(true).truncate(false)).open(path)?;
    file.lock()?;
    Ok(file)
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}
