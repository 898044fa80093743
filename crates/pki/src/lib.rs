//! A certificate authority in a directory (L2), for schemes without one and for tests.
//!
//! | file | content |
//! |---|---|
//! | `ca.pem` | the authority's certificate: the anchor for listeners and clients |
//! | `ca.key` | its private key, readable by its owner only |
//! | `crl.pem` | the latest revocation list |
//! | `index.json` | every issued certificate, with its revocation |
//! | `NAME.pem`, `NAME.key` | a certificate, and its key if the authority created it |

mod authority;
mod files;
mod index;
mod order;
mod signing_key;
mod trial;

use std::path::PathBuf;

pub use authority::{Authority, IssuedCertificate};
pub use index::IndexEntry;
pub use order::{KeyKind, Order, Usage};
pub use signing_key::{KeyWithRequest, SigningKey};
pub use trial::Trial;

/// Reason why nothing was issued or changed.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file that cannot be read or written.
    #[error("{file}: {source}")]
    File { file: PathBuf, source: std::io::Error },
    /// The directory already has an authority.
    #[error("{0} already has an authority; choose another directory")]
    Exists(PathBuf),
    /// The directory has no authority.
    #[error("{0} has no authority; create one with: upesi pki init")]
    None(PathBuf),
    /// The index is malformed.
    #[error("{file} is damaged: {problem}")]
    Index {
        file: PathBuf,
        /// Description of the fault.
        problem: String,
    },
    /// The name cannot be a file name.
    #[error(
        "{0:?} is not a valid name; use 1 to 64 letters, digits, dashes, dots and underscores, without a leading dot"
    )]
    Name(String),
    /// There is already a valid certificate with the name.
    #[error("{name} already has a certificate (serial {serial}); revoke it, or use --replace")]
    Taken { name: String, serial: String },
    /// The key already has a certificate.
    #[error(
        "the key of this request already has a certificate, for {name} (serial {serial}); create a new key"
    )]
    KeySeen { name: String, serial: String },
    /// The signing request is for the authority's own key.
    #[error("this request is for the authority's own key; create a new key")]
    OwnKey,
    /// The host is not a name or an address.
    #[error("{0:?} is not a host name or address; a wildcard is the whole first label, as in *.pay.example")]
    Host(String),
    /// The key file already exists.
    #[error("{0} already exists; choose another name or directory, or move it away")]
    KeyExists(PathBuf),
    /// No certificate has this serial number or name.
    #[error("no valid certificate has the serial number or name {0:?}; see: upesi pki list")]
    Unknown(String),
    /// Several certificates have the name.
    #[error("{name} has {count} valid certificates; use a serial number: {serials}")]
    Ambiguous {
        name: String,
        /// Their number.
        count: usize,
        /// Their serial numbers.
        serials: String,
    },
    /// The signing request is invalid.
    #[error("the signing request is rejected: {0}")]
    Request(String),
    /// An error of the library.
    #[error("cannot create the certificate: {0}")]
    Library(#[from] rcgen::Error),
}
