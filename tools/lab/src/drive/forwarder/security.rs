//! What the forwarder proves and verifies, where the hub that it is compared with does.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use upesi_http::{ClientTls, HeaderMap, Method, Secured, ServerTls, Uri, Workers};
use upesi_jws::{Fault, Freshness, KeyFileError, KeyRing, Request, verify};
use upesi_pki::{PkiError, Trial};
use upesi_tls::TlsError;
use upesi_types::Timestamp;

use crate::plan::security::Security;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HANDSHAKES_MAX: usize = 4_096;

/// How the forwarder secures its messages. The default is not at all.
#[derive(Debug, Default)]
pub struct ForwarderSecurity {
    port: Option<ServerTls>,
    /// Towards DFSPs.
    pub(super) caller: Option<ClientTls>,
    signers: Option<KeyRing>,
}

/// Files that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UnusableFiles {
    #[error(transparent)]
    Trial(#[from] PkiError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Keys(#[from] KeyFileError),
}

impl ForwarderSecurity {
    /// Reads the files of a trial.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn of_trial(trial: &Trial, security: Security) -> Result<Self, UnusableFiles> {
        let mut this = Self::default();
        if security.is_mutual() {
            this.port = Some(ServerTls::load(trial.port())?);
            this.caller = Some(ClientTls::load(trial.caller())?);
        }
        if security.is_signed() {
            this.signers = Some(KeyRing::load(&trial.signers(), false)?);
        }
        Ok(this)
    }

    /// TLS of the port; handshakes run on the last worker. Connections are kept, so there are few.
    pub(super) fn port(&self, workers: &Workers) -> Option<Secured> {
        Some(Secured {
            tls: self.port.clone()?,
            worker: workers.get(workers.count().saturating_sub(1)).clone(),
            handshake_timeout: HANDSHAKE_TIMEOUT,
            handshakes_max: HANDSHAKES_MAX,
            counts: std::sync::Arc::default(),
        })
    }

    /// Whether a message is its sender's; questions need no signature.
    pub(super) fn verify(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<(), Fault> {
        let Some(keys) = self.signers.as_ref().filter(|_| *method != Method::GET) else { return Ok(()) };
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Timestamp::from_ns(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX));
        let request = Request { method, uri, headers, body, base_path: "" };
        verify(request, keys, Freshness::Any, now)
    }
}
