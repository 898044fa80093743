//! TLS (L1): what listeners and clients prove and check, read from files that may change while the hub runs.
//!
//! - [`ServerTls`], [`ClientTls`]: the configuration in force, and [`reload`](ServerTls::reload) of its files.
//! - [`Peer`]: the certificate that a caller has proven to hold.
//! - [`Facts`]: what of a certificate operators and bindings look at.
//!
//! Library: rustls with aws-lc-rs; TLS 1.3 and 1.2, suites with forward secrecy only, no early data.

mod client;
mod facts;
mod files;
mod peer;
mod provided;
mod server;

pub use client::{ClientFiles, ClientTls};
pub use facts::{Facts, NotACertificate};
pub use files::{CRL_GRACE_S, Identity, Kind, Stock, TlsError, Trust, present_s};
pub use peer::Peer;
pub use server::{ServerFiles, ServerTls};

pub use rustls::pki_types::CertificateDer;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// The only application protocol that is offered and accepted.
const HTTP_1_1: &[u8] = b"http/1.1";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
