//! X.509 certificate chains on P-384, from a pinned root to the certificate that signed a report.
//!
//! Only one profile: version 3, P-384 keys, ECDSA with SHA-384, basic constraints and key usage. Host names, revocation lists (the vendor
//! publishes none for this purpose), policies and cross-signing are not supported; any other critical extension is rejected, as RFC 5280
//! §4.2 requires.
//!
//! Not rustls-webpki: it does not check the key usage of authorities, checks one moment, builds its own path instead of using the one in
//! the report, reports one error, and returns neither names nor times, so that x509-cert would be needed as well.

use p384::ecdsa::signature::Verifier;
use p384::ecdsa::{Signature, VerifyingKey};
use sha2::{Digest, Sha256};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::finding::Finding;
use toolcrib_core::time::format_rfc3339;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::{Decode, Reader, SliceReader};
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage};
use x509_cert::{Certificate as Parsed, Version};

use super::{Root, Signer, lower_hex};

const ECDSA_WITH_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const SECP384R1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");

/// A certificate that follows the profile. Its permitted use is not checked yet.
pub(super) struct Certificate<'a> {
    der: &'a [u8],
    /// The bytes that the issuer signed, as in the source.
    signed: &'a [u8],
    parsed: Parsed,
    key: VerifyingKey,
    signature: Signature,
    is_authority: bool,
    path_length: Option<u8>,
    usage: Option<KeyUsage>,
}

/// Why a certificate or a chain is rejected: a code and one sentence.
pub(super) struct CertificateError {
    code: Code,
    message: String,
}

impl CertificateError {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn finding(&self) -> Finding {
        Finding::new(self.code).message(&self.message)
    }
}

impl<'a> Certificate<'a> {
    /// Parses DER.
    pub(super) fn parse(der: &'a [u8]) -> Result<Self, CertificateError> {
        let fault = |what: &str| CertificateError::new(codes::attestation::CERTIFICATE, what);
        let unreadable = |error| CertificateError::new(codes::attestation::CERTIFICATE, format!("not X.509 in DER: {error}"));
        let parsed = Parsed::from_der(der).map_err(unreadable)?;
        let mut outer = SliceReader::new(der).map_err(unreadable)?;
        let signed = outer
            .sequence(|inner| {
                let signed = inner.tlv_bytes()?;
                inner.tlv_bytes()?;
                inner.tlv_bytes()?;
                Ok(signed)
            })
            .map_err(unreadable)?;
        let body = &parsed.tbs_certificate;
        if body.version != Version::V3 {
            return Err(fault("not version 3"));
        }
        let algorithm = &parsed.signature_algorithm;
        if algorithm.oid != ECDSA_WITH_SHA384 || algorithm.parameters.is_some() || body.signature != *algorithm {
            return Err(fault("not signed by ECDSA with SHA-384"));
        }
        let info = &body.subject_public_key_info;
        let curve = info.algorithm.parameters.as_ref().and_then(|any| any.decode_as::<ObjectIdentifier>().ok());
        if info.algorithm.oid != EC_PUBLIC_KEY || curve != Some(SECP384R1) {
            return Err(fault("the key is not on P-384"));
        }
        let key = info
            .subject_public_key
            .as_bytes()
            .and_then(|point| VerifyingKey::from_sec1_bytes(point).ok())
            .ok_or_else(|| fault("the key is not a point on P-384"))?;
        let signature = parsed
            .signature
            .as_bytes()
            .and_then(|signature| Signature::from_der(signature).ok())
            .ok_or_else(|| fault("the signature is not a DER pair of integers"))?;
        let mut certificate = Self { der, signed, parsed, key, signature, is_authority: false, path_length: None, usage: None };
        certificate.read_extensions()?;
        Ok(certificate)
    }

    /// The public key of the certificate.
    pub(super) const fn key(&self) -> &VerifyingKey {
        &self.key
    }

    /// Whether it is an authority that may sign certificates.
    pub(super) fn may_issue(&self) -> bool {
        self.is_authority && self.usage.as_ref().is_some_and(KeyUsage::key_cert_sign)
    }

    /// The certificate as reports show it.
    pub(super) fn summary(&self) -> Signer {
        let (not_before, not_after) = self.validity();
        Signer {
            subject: self.parsed.tbs_certificate.subject.to_string(),
            sha256: lower_hex(&Sha256::digest(self.der)),
            not_before,
            not_after,
        }
    }

    fn read_extensions(&mut self) -> Result<(), CertificateError> {
        let unreadable = |_| CertificateError::new(codes::attestation::CERTIFICATE, "an extension cannot be read");
        let extensions = self.parsed.tbs_certificate.extensions.as_deref().unwrap_or_default();
        for (index, extension) in extensions.iter().enumerate() {
            // At most a few hundred extensions fit into a certificate.
            if extensions.iter().take(index).any(|earlier| earlier.extn_id == extension.extn_id) {
                return Err(CertificateError::new(codes::attestation::CERTIFICATE, "an extension occurs twice"));
            }
            let value = extension.extn_value.as_bytes();
            if extension.extn_id == BasicConstraints::OID {
                let constraints = BasicConstraints::from_der(value).map_err(unreadable)?;
                (self.is_authority, self.path_length) = (constraints.ca, constraints.path_len_constraint);
            } else if extension.extn_id == KeyUsage::OID {
                self.usage = Some(KeyUsage::from_der(value).map_err(unreadable)?);
            } else if extension.critical {
                let what = format!("the critical extension {} is not supported", extension.extn_id);
                return Err(CertificateError::new(codes::attestation::CERTIFICATE_CONSTRAINTS, what));
            }
        }
        Ok(())
    }

    fn validity(&self) -> (UnixTime, UnixTime) {
        let validity = &self.parsed.tbs_certificate.validity;
        let seconds = |time: x509_cert::time::Time| {
            UnixTime::from_seconds(i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX))
        };
        (seconds(validity.not_before), seconds(validity.not_after))
    }

    fn is_issued_by(&self, issuer: &Self) -> Result<(), &'static str> {
        if self.parsed.tbs_certificate.issuer != issuer.parsed.tbs_certificate.subject {
            return Err("has an issuer other than the certificate before it");
        }
        issuer.key.verify(self.signed, &self.signature).map_err(|_| "is not signed by the one before it")
    }
}

/// Checks a chain that starts with the root and ends with `leaf`: a pinned root, names and signatures, the permitted use of each
/// certificate, and that all of them are valid at each of `moments`.
///
/// Reports the first fault of each kind. Signatures are checked from the root down, so that without a signed chain at most one is checked.
pub(super) fn check_chain(
    authorities: &[Certificate<'_>],
    leaf: &Certificate<'_>,
    roots: &[Root],
    moments: &[UnixTime],
) -> Vec<CertificateError> {
    let mut faults = Vec::new();
    match authorities.first() {
        Some(root) if roots.iter().any(|pinned| pinned.matches(root.der)) => faults.extend(check_links(authorities, leaf).err()),
        _ => faults.push(CertificateError::new(codes::attestation::ROOT_UNKNOWN, codes::attestation::ROOT_UNKNOWN.title())),
    }
    faults.extend(check_uses(authorities, leaf).err());
    faults.extend(moments.iter().find_map(|&moment| check_validity(authorities, leaf, moment).err()));
    faults
}

fn check_links(authorities: &[Certificate<'_>], leaf: &Certificate<'_>) -> Result<(), CertificateError> {
    let followers = authorities.iter().skip(1).chain([leaf]);
    for (index, (issuer, issued)) in authorities.iter().zip(followers).enumerate() {
        issued.is_issued_by(issuer).map_err(|what| {
            CertificateError::new(codes::attestation::CHAIN, format!("certificate {} of the chain {what}", index + 1))
        })?;
    }
    Ok(())
}

fn check_uses(authorities: &[Certificate<'_>], leaf: &Certificate<'_>) -> Result<(), CertificateError> {
    let fault = |what: String| CertificateError::new(codes::attestation::CERTIFICATE_CONSTRAINTS, what);
    for (index, authority) in authorities.iter().enumerate() {
        if !authority.may_issue() {
            return Err(fault(format!("certificate {index} of the chain may not sign certificates")));
        }
        let below = authorities.len() - index - 1;
        if authority.path_length.is_some_and(|most| usize::from(most) < below) {
            return Err(fault(format!(
                "certificate {index} of the chain has {below} CA certificates below it, more than its path length allows"
            )));
        }
    }
    if leaf.is_authority || leaf.path_length.is_some() {
        return Err(fault("the signing certificate is a CA".to_owned()));
    }
    if !leaf.usage.as_ref().is_some_and(KeyUsage::digital_signature) {
        return Err(fault("the key usage of the signing certificate does not include signatures".to_owned()));
    }
    Ok(())
}

fn check_validity(authorities: &[Certificate<'_>], leaf: &Certificate<'_>, moment: UnixTime) -> Result<(), CertificateError> {
    for (index, certificate) in authorities.iter().chain([leaf]).enumerate() {
        let (from, until) = certificate.validity();
        if !(from..=until).contains(&moment) {
            let text = |time| format_rfc3339(time).unwrap_or_default();
            let what = format!(
                "certificate {index} of the chain is valid from {} to {}, but not at {}",
                text(from),
                text(until),
                text(moment)
            );
            return Err(CertificateError::new(codes::attestation::CERTIFICATE_VALIDITY, what));
        }
    }
    Ok(())
}
