//! TLS of listeners and clients (L1), from files that may change while the hub runs.
//!
//! - [`ServerTls`], [`ClientTls`]: the configuration in effect, and [`reload`](ServerTls::reload) of its files.
//! - [`ClientTls::of`]: TLS for one peer, which may have files of its own.
//! - [`Peer`]: the certificate that a client has proven to hold.
//! - [`CertificateFacts`]: the parts of a certificate that operators and bindings use.
//!
//! The checks of a client certificate begin in `callers.rs`. The limits of its chain are in `chain.rs`, its issuer is
//! in `issuer.rs`, and blocked certificates are in `blocked.rs`. `files.rs` reads and checks the files.
//!
//! Library: rustls with aws-lc-rs; TLS 1.3 and 1.2, cipher suites with forward secrecy only, no early data.

mod blocked;
mod callers;
mod chain;
mod client;
mod facts;
mod files;
mod issuer;
mod peer;
mod server;
mod submitted;

use std::sync::Arc;

pub use blocked::BlockedDigest;
pub use client::{ClientTls, Unusable};
pub use facts::{CertificateFacts, Fingerprint, NotACertificate};
pub use files::{CRL_GRACE_S, ClientFiles, ExpiringItem, Identity, TlsError, TlsFileKind, Trust, present_s};
pub use issuer::VerifiedIssuer;
pub use peer::Peer;
use rustls::crypto::CryptoProvider;
pub use rustls::pki_types::CertificateDer;
pub use server::{ServerFiles, ServerTls};
pub use submitted::{SUBMITTED_BYTES_MAX, read_certificates, read_client_certificate};

/// The name of HTTP/2 over TLS.
pub const HTTP_2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// Protocols that are offered and accepted in a handshake (ALPN, RFC 7301).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocols {
    /// HTTP/1.1 only.
    #[default]
    Http1,
    /// HTTP/2 preferred to HTTP/1.1.
    Http2AndHttp1,
}

impl Protocols {
    fn names(self) -> Vec<Vec<u8>> {
        match self {
            Self::Http1 => vec![HTTP_1_1.to_vec()],
            Self::Http2AndHttp1 => vec![HTTP_2.to_vec(), HTTP_1_1.to_vec()],
        }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
