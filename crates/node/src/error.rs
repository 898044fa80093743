//! Errors that end the start of a hub, with their exit codes.

use std::fmt;
use std::path::PathBuf;

use upesi_engine::StartError;
use upesi_http::{BindError, WorkersError};
use upesi_jws::KeyFileError;
use upesi_keys::KeyError;
use upesi_offline::directory::{start_exit, store_exit};
use upesi_process::exit::Exit;
use upesi_quoting::QuotingError;
use upesi_tables::TablesError;
use upesi_tls::TlsError;

use super::cluster::error::ClusterError;

/// The reason why a hub does not start.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// A port cannot be listened on.
    #[error("{setting}: {source}")]
    Bind { setting: &'static str, source: BindError },
    /// Worker threads cannot be started.
    #[error(transparent)]
    Workers(#[from] WorkersError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Engine(#[from] StartError),
    /// The store in the data directory cannot be used.
    #[error(transparent)]
    Store(#[from] TablesError),
    /// The system allows too few files and connections.
    #[error("{0}")]
    Descriptors(TooFewDescriptors),
    /// Certificates, keys or lists cannot be used.
    #[error("{section}: {source}")]
    Tls {
        /// Section of the settings that names the files.
        section: &'static str,
        source: TlsError,
    },
    /// Signing keys cannot be used.
    #[error("jws: {0}")]
    Keys(KeyFileError),
    /// The hub's own private key cannot be used.
    #[error("{setting}: {source}")]
    PrivateKey {
        /// Setting of the key, or of its token.
        setting: &'static str,
        source: KeyError,
    },
    /// The data directory was restored with findings about rules that have not been accepted.
    #[error("{0}")]
    NotAccepted(String),
    /// The data directory contains no ledger, although one must exist.
    #[error(
        "{dir} contains no ledger (data.must_exist): mount its volume, or name the right directory; upesi init {dir} creates a new, empty ledger", dir = .0.display()
    )]
    NoLedger(PathBuf),
    /// Settings contradict each other.
    #[error("{0}")]
    Settings(String),
    /// The node cannot follow its cluster's log.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

impl From<QuotingError> for HubError {
    fn from(error: QuotingError) -> Self {
        match error {
            QuotingError::Store(error) => Self::Store(error),
            error @ QuotingError::NoStore => Self::Settings(error.to_string()),
        }
    }
}

impl HubError {
    /// The exit code of a process that cannot start for this reason.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Bind { .. } => Exit::Unavailable,
            Self::Workers(_) | Self::Descriptors(_) => Exit::Temporary,
            Self::Settings(_) | Self::Tls { .. } | Self::Keys(_) | Self::PrivateKey { .. } => Exit::Usage,
            Self::NotAccepted(_) => Exit::Data,
            Self::NoLedger(_) => Exit::NoInput,
            Self::Store(error) => store_exit(error),
            Self::Engine(error) => start_exit(error),
            Self::Cluster(error) => error.exit(),
        }
    }
}

/// The limit does not even allow the minimum number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFewDescriptors {
    pub(super) limit: u64,
    pub(super) needed: u64,
}

impl fmt::Display for TooFewDescriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, needed } = self;
        write!(
            f,
            "this process can open {limit} files and connections, and needs {needed} at least; raise the \
             limit (ulimit -n, LimitNOFILE= in a systemd unit)"
        )
    }
}
