//! Authenticated simulated DFSPs: mutual TLS in both directions, and messages that are signed and verified.

use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use upesi_http::{Bytes, ClientTls, HeaderMap, HeaderName, HeaderValue, Method, ServerTls, Uri, header};
use upesi_jws::{
    Freshness, KeyError, KeyFileError, KeyRing, Message, PrivateKey, Request, SIGNATURE, SignatureFault,
    verify,
};
use upesi_keys::Keys;
use upesi_pki::Trial;
use upesi_tls::{Protocols, TlsError};
use upesi_types::{FspId, Timestamp};

use crate::counters::count;
use crate::dfsp::Dfsp;
use crate::message::{self, Family};

const FSPIOP_URI: HeaderName = HeaderName::from_static("fspiop-uri");
const FSPIOP_METHOD: HeaderName = HeaderName::from_static("fspiop-http-method");
const SIGNED: HeaderName = HeaderName::from_static(SIGNATURE);

/// The authentication of DFSPs. There is none by default.
#[derive(Clone, Debug, Default)]
pub struct SimSecurity {
    /// Mutual TLS in both directions; `None` for plain HTTP.
    pub tls: Option<SimTls>,
    /// Signatures; with `None`, messages are unsigned and need no signature.
    pub signatures: Option<SimSignatures>,
}

/// TLS of simulated DFSPs.
#[derive(Clone, Debug)]
pub struct SimTls {
    /// TLS of the port of all DFSPs. Clients must have a certificate.
    pub server: ServerTls,
    /// TLS towards the hub: one for each DFSP, in the order of the configuration.
    pub clients: Vec<ClientTls>,
}

/// The keys for the signatures of simulated DFSPs.
#[derive(Clone, Debug)]
pub struct SimSignatures {
    /// The signing key of each DFSP, in the order of the configuration.
    pub keys: Vec<Arc<PrivateKey>>,
    /// The keys that verify received messages. All except queries (GET) must be signed.
    pub signers: Arc<KeyRing>,
}

/// Files of a trial that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Signers(#[from] KeyFileError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("{0} is not a DFSP of {1}; create the directory for all DFSPs: upesi pki trial")]
    Unknown(FspId, String),
}

impl SimSecurity {
    /// Reads the files of a trial for these DFSPs. With TLS, they offer these protocols. Fails if a file cannot be
    /// used, or the trial was made for other DFSPs.
    pub fn of_trial(
        trial: &Trial,
        names: &[FspId],
        tls: Option<Protocols>,
        with_signatures: bool,
    ) -> Result<Self, SecurityError> {
        let is_known = |name: &FspId| trial.dfsps().iter().any(|(known, _)| known == name.as_str());
        if let Some(name) = names.iter().find(|name| !is_known(name)) {
            return Err(SecurityError::Unknown(*name, trial.directory().display().to_string()));
        }
        let files = |protocols| {
            let keys = Keys::in_files;
            let client = |name: &FspId| ClientTls::load_with(trial.dfsp(name.as_str()), keys(), protocols);
            let clients = names.iter().map(client).collect::<Result<_, _>>()?;
            let server = ServerTls::load_with(trial.dfsps_port(), keys(), protocols)?;
            Ok::<_, SecurityError>(SimTls { server, clients })
        };
        let signatures = || {
            let key = |name: &FspId| PrivateKey::load(&trial.signing_key(name.as_str())).map(Arc::new);
            let keys = names.iter().map(key).collect::<Result<_, _>>()?;
            let signers = Arc::new(KeyRing::load_all(&trial.signers(), false)?);
            Ok::<_, SecurityError>(SimSignatures { keys, signers })
        };
        Ok(Self {
            tls: tls.map(files).transpose()?,
            signatures: with_signatures.then(signatures).transpose()?,
        })
    }
}

/// Making and verifying signatures in the simulators.
pub(crate) struct Signing {
    signatures: SimSignatures,
    /// Signatures that were made before a run.
    pub ahead: OnceLock<PreparedSignatures>,
}

impl Signing {
    pub fn new(signatures: SimSignatures) -> Self {
        Self { signatures, ahead: OnceLock::new() }
    }

    pub fn key(&self, dfsp: &Dfsp) -> &PrivateKey {
        &self.signatures.keys[dfsp.index]
    }

    /// Signs a message. The date of a transfer is not protected, so that its signature can be created in advance. The
    /// transfer's id makes a replay harmless.
    pub fn sign(&self, dfsp: &Dfsp, method: &Method, uri: &Uri, headers: &mut HeaderMap, body: &Bytes) {
        if *method == Method::GET {
            return;
        }
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        match self.signature(dfsp, method, target, headers, body) {
            Some(value) => {
                headers.insert(FSPIOP_METHOD, method_value(method));
                if let Ok(uri) = HeaderValue::from_str(target) {
                    headers.insert(FSPIOP_URI, uri);
                }
                headers.insert(SIGNED, value);
            }
            None => tracing::warn!(dfsp = %dfsp.name, target, "a message could not be signed"),
        }
    }

    fn signature(
        &self,
        dfsp: &Dfsp,
        method: &Method,
        target: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Option<HeaderValue> {
        let text = |name: &HeaderName| headers.get(name)?.to_str().ok();
        let is_transfer = target.rsplit('/').any(|segment| segment == Family::Transfers.as_str());
        let message = Message {
            uri: target,
            method: method.as_str(),
            source: dfsp.name.as_str(),
            destination: text(&message::DESTINATION),
            date: text(&header::DATE).filter(|_| !is_transfer),
        };
        let key = self.key(dfsp);
        let draft = key.draft(message, body).ok()?;
        let counters = &dfsp.counters;
        if let Some(signature) = self.ahead.get().and_then(|ahead| ahead.find(draft.digest())) {
            count(&counters.signatures_made_ahead);
            return draft.with(signature).ok();
        }
        count(&counters.signatures_made);
        let signature = key.signature(&draft).ok()?;
        draft.with(&signature).ok()
    }

    /// Verifies the signature of a message's sender, as DFSPs' adapters do: by the headers that contain method and URI.
    pub fn verify(&self, method: &Method, headers: &HeaderMap, body: &[u8]) -> Result<(), SignatureFault> {
        if *method == Method::GET && !headers.contains_key(SIGNED) {
            return Ok(());
        }
        let uri = headers.get(FSPIOP_URI).and_then(|uri| Uri::try_from(uri.as_bytes()).ok());
        let uri = uri.ok_or(SignatureFault::Unprotected("FSPIOP-URI"))?;
        let request =
            Request { method, uri: &uri, headers, body, base_path: "", accepts_unprotected_date: false };
        verify(request, &self.signatures.signers, Freshness::Any, message::now())
    }
}

fn method_value(method: &Method) -> HeaderValue {
    HeaderValue::from_str(method.as_str()).unwrap_or_else(|_| HeaderValue::from_static(""))
}

const DIGEST_BYTES: usize = 32;

pub(crate) type Digest = [u8; DIGEST_BYTES];
pub(crate) type Signature = Box<[u8]>;

/// Signatures by the digest of the signed content, and the times that the messages contain.
#[derive(Debug)]
pub(crate) struct PreparedSignatures {
    pub signatures: HashMap<Digest, Signature, foldhash::fast::RandomState>,
    /// Expiry of the prepares.
    pub expiration: Timestamp,
    /// The completion time in the payees' answers.
    pub completed_at: Timestamp,
}

impl PreparedSignatures {
    /// The signature of this content, if there is one.
    pub fn find(&self, digest: &[u8]) -> Option<&[u8]> {
        let digest: &Digest = digest.try_into().ok()?;
        self.signatures.get(digest).map(|signature| &**signature)
    }
}
