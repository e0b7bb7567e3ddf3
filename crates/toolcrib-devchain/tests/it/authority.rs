//! The local authority: which certificates it allows, and how its files are handled.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tempfile::TempDir;
use toolcrib_core::clock::{self, FixedClock};
use toolcrib_devchain::{AUTHORITY_DAYS, Authority, CERTIFICATE_DAYS};

const NOW: FixedClock = FixedClock(clock::UnixTime::from_seconds(1_800_000_000));

fn open(folder: &Path) -> Result<Authority, &'static str> {
    Authority::open(folder, &NOW).map_err(|error| error.code().id())
}

fn made() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    open(folder.path()).expect("made");
    folder
}

/// A certificate signed with the authority's key, but not by its code.
pub(crate) fn forged(folder: &Path, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> (Certificate, KeyPair) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    change(&mut params);
    let key = KeyPair::generate().expect("a key");
    (params.signed_by(&key, &issuer(folder)).expect("signed"), key)
}

fn issuer(folder: &Path) -> Issuer<'static, KeyPair> {
    let secret = fs::read_to_string(folder.join("ca-key.pem")).expect("a key file");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "Toolcrib development authority, for localhost only");
    Issuer::new(params, KeyPair::from_pem(&secret).expect("a key"))
}

/// Whether a client that trusts the authority's file accepts a certificate.
fn accepts(folder: &Path, leaf: &Certificate, between: &[CertificateDer<'_>], name: &str) -> Result<(), String> {
    let pem = fs::read(folder.join("ca.pem")).expect("a file");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem).expect("PEM")).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().expect("a verifier");
    let now = u64::try_from(NOW.0.seconds()).expect("after 1970");
    let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
    let name = ServerName::try_from(name).expect("a name");
    verifier.verify_server_cert(leaf.der(), between, &name, &[], at).map(|_| ()).map_err(|error| error.to_string())
}

#[test]
fn it_vouches_for_localhost_and_for_nothing_else() {
    let folder = made();
    let cases = [
        ("word-count.tool.localhost", true),
        ("localhost", true),
        ("example.com", false),
        ("tools.example.com", false),
        ("localhost.example.com", false),
        ("xlocalhost", false),
        ("127.0.0.1", false),
        ("192.0.2.1", false),
        ("::1", false),
    ];
    for (name, is_accepted) in cases {
        let (leaf, _) = forged(folder.path(), &[name], |_| ());
        let accepted = accepts(folder.path(), &leaf, &[], name);
        assert_eq!(accepted.is_ok(), is_accepted, "{name}: {accepted:?}");
        if !is_accepted {
            assert!(accepted.unwrap_err().contains("NameConstraintViolation"), "{name}: for the right reason");
        }
    }
    // An allowed name does not excuse a forbidden one.
    let (leaf, _) = forged(folder.path(), &["a.tool.localhost", "example.com"], |_| ());
    assert!(accepts(folder.path(), &leaf, &[], "a.tool.localhost").is_err());
    // Neither does an intermediate authority.
    let (between, key) = forged(folder.path(), &["b.tool.localhost"], |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, "between");
    });
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "between");
    let below = Issuer::new(params, key);
    let leaf_key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(["example.com".to_owned()]).expect("a name");
    let leaf = leaf.signed_by(&leaf_key, &below).expect("signed");
    let refused = accepts(folder.path(), &leaf, &[between.der().clone()], "example.com");
    assert!(refused.as_ref().is_err_and(|reason| reason.contains("NameConstraintViolation")), "{refused:?}");
}

#[test]
fn it_issues_for_hosts_below_localhost_alone() {
    let folder = made();
    let authority = open(folder.path()).expect("there");
    assert!(authority.tls(["a.tool.localhost", "B.Tool.Localhost"], &NOW).is_ok());
    for host in ["example.com", "localhost", "127.0.0.1", "localhost.example.com", "a.localhost.", ""] {
        let error = authority.tls([host], &NOW).expect_err(host);
        assert_eq!(error.code().id(), "gate.authority_host", "{host}");
    }
    let error = authority.tls(["a b.localhost"], &NOW).expect_err("no name");
    assert_eq!(error.code().id(), "gate.tls_name");
    const { assert!(AUTHORITY_DAYS > CERTIFICATE_DAYS) };
}

#[test]
fn it_is_made_once() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path().join("state/dev");
    let paths: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| open(&at).expect("made or found").path().to_owned())).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(paths.iter().all(|path| *path == at.join("ca.pem")));
    let files = || ["ca.pem", "ca-key.pem"].map(|name| fs::read(at.join(name)).expect("a file"));
    let before = files();
    open(&at).expect("found");
    assert_eq!(files(), before);
    // Interrupted between the two files: the existing key is used.
    fs::remove_file(at.join("ca.pem")).expect("removed");
    fs::write(at.join("ca-key.partial"), "left over").expect("written");
    open(&at).expect("finished");
    assert_eq!(files()[1], before[1]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        for name in ["ca.pem", "ca-key.pem", "ca.lock"] {
            assert_eq!(mode(&at.join(name)), 0o600, "{name}");
        }
        assert_eq!(mode(&at), 0o700);
    }
}

#[test]
fn what_cannot_be_used_is_not_overwritten() {
    let other = made();
    let take = |name: &str| fs::read(other.path().join(name)).expect("a file");
    let (other_ca, other_key) = (take("ca.pem"), take("ca-key.pem"));
    // The same name and key, but without name constraints.
    let boundless = {
        let key = KeyPair::from_pem(std::str::from_utf8(&other_key).expect("text")).expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Toolcrib development authority, for localhost only");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.self_signed(&key).expect("signed").pem().into_bytes()
    };
    type Case<'c> = (&'c [u8], Option<&'c [u8]>, &'c str);
    let cases: [Case<'_>; 8] = [
        (b"", Some(&other_key), "gate.authority_unusable"),
        (b"broken", Some(&other_key), "gate.authority_unusable"),
        (&other_key, Some(&other_key), "gate.authority_unusable"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", Some(&other_key), "gate.authority_unusable"),
        (&boundless, Some(&other_key), "gate.authority_unusable"),
        (&other_ca, None, "gate.authority_unusable"),
        (&other_ca, Some(b"broken"), "gate.authority_unusable"),
        (&[b'x'; 70_000], Some(&other_key), "gate.authority_unreadable"),
    ];
    for (ca, key, code) in cases {
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join("ca.pem"), ca).expect("written");
        if let Some(key) = key {
            fs::write(folder.path().join("ca-key.pem"), key).expect("written");
        }
        assert_eq!(open(folder.path()).expect_err("refused"), code, "{}", String::from_utf8_lossy(&ca[..ca.len().min(40)]));
        assert_eq!(fs::read(folder.path().join("ca.pem")).expect("there"), ca);
        assert_eq!(fs::read(folder.path().join("ca-key.pem")).ok().as_deref(), key);
    }
    // The certificate of one authority and the key of another.
    let mixed = made();
    fs::write(mixed.path().join("ca.pem"), &other_ca).expect("written");
    assert_eq!(open(mixed.path()).expect_err("refused"), "gate.authority_unusable");
    // A file instead of the folder.
    assert_eq!(open(&mixed.path().join("ca.pem")).expect_err("no folder"), "gate.authority_unwritable");
}
