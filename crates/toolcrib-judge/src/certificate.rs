//! The properties of a server's certificate that may indicate a takeover.
//!
//! The fetcher has verified the certificate. Here it is only parsed, as a record of its issuer, names and validity.

use toolcrib_core::clock::UnixTime;
use x509_cert::Certificate as Parsed;
use x509_cert::der::Decode;
use x509_cert::der::asn1::{PrintableStringRef, Utf8StringRef};
use x509_cert::der::oid::db::rfc4519::{COMMON_NAME, ORGANIZATION_NAME};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::signals::Certificate;

/// Most names that are kept. Shared hosting puts about a hundred on one certificate.
pub const MAX_NAMES: usize = 256;

/// Parses a DER certificate; `None` if it is not one.
pub fn read(der: &[u8]) -> Option<Certificate> {
    let parsed = Parsed::from_der(der).ok()?;
    let body = &parsed.tbs_certificate;
    let seconds = body.validity.not_before.to_unix_duration().as_secs();
    let names = body
        .get::<SubjectAltName>()
        .ok()
        .flatten()
        .map(|(_, names)| names.0)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|name| match name {
            GeneralName::DnsName(name) => Some(name.to_string()),
            _ => None,
        })
        .take(MAX_NAMES)
        .collect();
    Some(Certificate { not_before: UnixTime::from_seconds(i64::try_from(seconds).ok()?), issuer: issuer(&parsed), names })
}

/// The organisation of the issuer, or its common name if there is none.
fn issuer(parsed: &Parsed) -> String {
    [ORGANIZATION_NAME, COMMON_NAME]
        .into_iter()
        .find_map(|wanted| {
            let set = parsed.tbs_certificate.issuer.0.iter().flat_map(|part| part.0.iter());
            set.filter(|attribute| attribute.oid == wanted).find_map(|attribute| {
                let value = &attribute.value;
                let utf8 = value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str().to_owned());
                utf8.or_else(|_| value.decode_as::<PrintableStringRef<'_>>().map(|text| text.as_str().to_owned())).ok()
            })
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_has_no_facts() {
        assert!(read(b"").is_none());
        assert!(read(&[0x30, 0x03, 0x02, 0x01, 0x01]).is_none());
    }
}
