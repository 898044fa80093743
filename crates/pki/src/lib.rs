//! A certificate authority in a directory (L2), for a scheme that has none and for tests.
//!
//! | file | content |
//! |---|---|
//! | `ca.pem` | the authority's certificate: the anchor for listeners and clients |
//! | `ca.key` | its private key, readable by its owner only |
//! | `crl.pem` | the latest revocation list |
//! | `index.json` | every certificate issued, with its revocation |
//! | `NAME.pem`, `NAME.key` | a certificate, and its key if that was made here |

mod authority;
mod trial;

use std::path::PathBuf;

pub use authority::{Authority, Entry, Issued, KeyKind, KeyWithRequest, Order, SigningKey, Usage};
pub use trial::Trial;

/// Why nothing was issued or changed.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file that cannot be read or written.
    #[error("{file}: {source}")]
    File {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A directory that has an authority already.
    #[error("{0} already has an authority; choose another directory")]
    Exists(PathBuf),
    /// A directory without an authority.
    #[error("{0} has no authority; create one with: upesi pki init")]
    None(PathBuf),
    /// The index cannot be understood.
    #[error("{file} is damaged: {problem}")]
    Index {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A name that cannot be a file's.
    #[error(
        "{0:?} is not a valid name; use 1 to 64 letters, digits, dashes, dots and underscores, without a leading dot"
    )]
    Name(String),
    /// A name that a valid certificate has.
    #[error("{name} already has a certificate (serial {serial}); revoke it, or use --replace")]
    Taken {
        /// The name.
        name: String,
        /// Its serial number.
        serial: String,
    },
    /// A key that was certified before.
    #[error(
        "the key of this request already has a certificate, for {name} (serial {serial}); create a new key"
    )]
    KeySeen {
        /// The name.
        name: String,
        /// Its serial number.
        serial: String,
    },
    /// A signing request by the authority's own key.
    #[error("this request is for the authority's own key; create a new key")]
    OwnKey,
    /// A host that is not a name or an address.
    #[error("{0:?} is not a host name or address; a wildcard is the whole first label, as in *.pay.example")]
    Host(String),
    /// A key that would be replaced.
    #[error("{0} already exists; choose another name or directory, or move it away")]
    KeyExists(PathBuf),
    /// Nothing issued has this serial number or name.
    #[error("no valid certificate has the serial number or name {0:?}; see: upesi pki list")]
    Unknown(String),
    /// A name that several certificates have.
    #[error("{name} has {count} valid certificates; use a serial number: {serials}")]
    Ambiguous {
        /// The name.
        name: String,
        /// How many.
        count: usize,
        /// Their serial numbers.
        serials: String,
    },
    /// A signing request that is not sound.
    #[error("the signing request is rejected: {0}")]
    Request(String),
    /// The library refused.
    #[error("cannot create the certificate: {0}")]
    Library(#[from] rcgen::Error),
}
