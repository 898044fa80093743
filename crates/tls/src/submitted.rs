//! A client certificate that its owner submits before its first connection.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use upesi_keys::without_byte_order_mark;

use crate::chain::check_client;
use crate::facts::CertificateFacts;

/// Maximum size of the PEM of a certificate with its intermediates, in bytes.
pub const SUBMITTED_BYTES_MAX: u64 = 64 * 1024;
const NO_CERTIFICATE: &str = "has no certificate in PEM (BEGIN CERTIFICATE)";

/// The facts of each certificate in a PEM text. Nothing is verified.
///
/// # Errors
/// The fault of the text, as the rest of a sentence.
pub fn read_certificates(pem: &[u8]) -> Result<Vec<CertificateFacts>, String> {
    let pem = without_byte_order_mark(pem);
    let facts = |found: Result<CertificateDer<'_>, _>| {
        let der = found.map_err(|error| format!("is not valid PEM: {error:?}"))?;
        CertificateFacts::read(&der).map_err(|error| error.to_string())
    };
    let all = CertificateDer::pem_slice_iter(&pem).map(facts).collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() { Err(NO_CERTIFICATE.to_owned()) } else { Ok(all) }
}

/// Facts of the first certificate of a PEM text, if clients may use it. Its signature is not verified.
///
/// # Errors
/// The fault, as the rest of a sentence.
pub fn read_client_certificate(pem: &[u8]) -> Result<CertificateFacts, String> {
    let pem = without_byte_order_mark(pem);
    if String::from_utf8_lossy(&pem).contains("PRIVATE KEY") {
        return Err("contains a private key, which must stay with its owner: create a new key".to_owned());
    }
    let first = CertificateDer::pem_slice_iter(&pem).next();
    let der = match first {
        Some(Ok(der)) => der,
        Some(Err(error)) => return Err(format!("is not valid PEM: {error:?}")),
        None => return Err(NO_CERTIFICATE.to_owned()),
    };
    let facts = CertificateFacts::read(&der).map_err(|error| error.to_string())?;
    check_client(&der).map_err(|_| {
        "is not a client certificate: it needs the key usage digitalSignature and the purpose clientAuth"
            .to_owned()
    })?;
    Ok(facts)
}
