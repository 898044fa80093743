//! Reasons why a TLS handshake fails, as a value, so that messages can name the remedy.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError};

use super::SendError;
use super::connector::NoTls;

/// A reason why TLS connections fail. Later attempts also fail until files or addresses change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFault {
    /// `https://` without trust anchors.
    NoAnchors,
    /// The server's certificate was not issued under the trust anchors, or is not valid now.
    ServerUntrusted,
    /// The server's certificate names other hosts.
    ServerOfOtherHost,
    /// The server requires a client certificate.
    CertificateRequired,
    /// The server rejects the client certificate.
    CertificateRefused,
    /// The server does not speak TLS.
    NotTls,
}

impl SendError {
    /// The fault, if TLS is the reason for the missing response.
    pub fn tls_fault(&self) -> Option<TlsFault> {
        match self {
            Self::Connect { source, .. } if source.get_ref().is_some_and(|inner| inner.is::<NoTls>()) => {
                Some(TlsFault::NoAnchors)
            }
            Self::Connect { source, .. } => fault(rustls_error(source)?),
            Self::Tls(error) => fault(error),
            _ => None,
        }
    }
}

fn fault(error: &rustls::Error) -> Option<TlsFault> {
    use AlertDescription as Alert;
    match error {
        rustls::Error::AlertReceived(Alert::CertificateRequired) => Some(TlsFault::CertificateRequired),
        rustls::Error::AlertReceived(
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied,
        ) => Some(TlsFault::CertificateRefused),
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => Some(TlsFault::ServerOfOtherHost),
        rustls::Error::InvalidCertificate(_) => Some(TlsFault::ServerUntrusted),
        rustls::Error::InvalidMessage(_) => Some(TlsFault::NotTls),
        _ => None,
    }
}

/// The peer's alert that ended the connection, if an error contains one.
pub(super) fn alert(error: &(dyn Error + 'static)) -> Option<rustls::Error> {
    rustls_error(error).filter(|error| matches!(error, rustls::Error::AlertReceived(_))).cloned()
}

fn rustls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // `io::Error::source` skips the error inside.
        let carried = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match carried {
            Some(carried) => Some(carried),
            None => error.source(),
        };
    }
    None
}
