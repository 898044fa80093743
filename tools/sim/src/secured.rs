//! Simulated DFSPs that prove who they are: mutual TLS both ways, messages signed and verified.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use upesi_http::{ClientTls, HeaderMap, HeaderName, HeaderValue, Method, ServerTls, Uri, header};
use upesi_jws::{
    Fault, Freshness, KeyError, KeyFileError, KeyRing, Message, PrivateKey, Request, SIGNATURE, verify,
};
use upesi_keys::Keys;
use upesi_pki::Trial;
use upesi_tls::{Protocols, TlsError};
use upesi_types::FspId;

use crate::ahead::Ahead;
use crate::dfsp::{Dfsp, count};
use crate::message::{self, Family};

const FSPIOP_URI: HeaderName = HeaderName::from_static("fspiop-uri");
const FSPIOP_METHOD: HeaderName = HeaderName::from_static("fspiop-http-method");
const SIGNED: HeaderName = HeaderName::from_static(SIGNATURE);

/// How DFSPs prove who they are. The default is not at all.
#[derive(Clone, Debug, Default)]
pub struct SimSecurity {
    /// Mutual TLS in both directions; `None` for plain HTTP.
    pub tls: Option<SimTls>,
    /// Signatures; `None` for unsigned messages, and none is asked for.
    pub signatures: Option<SimSignatures>,
}

/// Mutual TLS of simulated DFSPs.
#[derive(Clone, Debug)]
pub struct SimTls {
    /// The port where all of them are called; callers must have a certificate.
    pub server: ServerTls,
    /// Towards the hub: one for each DFSP, in the order of the configuration.
    pub clients: Vec<ClientTls>,
}

/// Signatures of simulated DFSPs.
#[derive(Clone, Debug)]
pub struct SimSignatures {
    /// By which each DFSP signs, in the order of the configuration.
    pub keys: Vec<Arc<PrivateKey>>,
    /// By which what they receive is verified; all but questions (GET) must be signed.
    pub signers: Arc<KeyRing>,
}

/// Why DFSPs cannot prove who they are.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Signers(#[from] KeyFileError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("{0} is no DFSP of {1}; make the directory for all DFSPs: upesi pki trial")]
    Unknown(FspId, String),
}

impl SimSecurity {
    /// Reads the files of a trial for these DFSPs, which speak these protocols if they have TLS.
    ///
    /// # Errors
    /// A file cannot be used, or the trial was made for other DFSPs.
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
            let signers = Arc::new(KeyRing::load(&trial.signers(), false)?);
            Ok::<_, SecurityError>(SimSignatures { keys, signers })
        };
        Ok(Self {
            tls: tls.map(files).transpose()?,
            signatures: with_signatures.then(signatures).transpose()?,
        })
    }
}

/// Signatures as the simulators make and verify them.
pub(crate) struct Signing {
    signatures: SimSignatures,
    /// Those made before a run.
    pub ahead: OnceLock<Ahead>,
}

impl Signing {
    pub fn new(signatures: SimSignatures) -> Self {
        Self { signatures, ahead: OnceLock::new() }
    }

    /// The key of a DFSP.
    pub fn key(&self, dfsp: &Dfsp) -> &PrivateKey {
        &self.signatures.keys[dfsp.index]
    }

    /// Signs a message. The date of a transfer is not protected, so that its signature can be made ahead; its id makes
    /// a repetition harmless.
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
        let is_transfer = target.rsplit('/').any(|segment| segment == Family::Transfers.name());
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

    /// Whether a message is its sender's, as adapters of DFSPs judge it: by the headers that name method and URI.
    pub fn verify(&self, method: &Method, headers: &HeaderMap, body: &[u8]) -> Result<(), Fault> {
        if *method == Method::GET && !headers.contains_key(SIGNED) {
            return Ok(());
        }
        let uri = headers.get(FSPIOP_URI).and_then(|uri| Uri::try_from(uri.as_bytes()).ok());
        let uri = uri.ok_or(Fault::Unprotected("FSPIOP-URI"))?;
        let request = Request { method, uri: &uri, headers, body, base_path: "" };
        verify(request, &self.signatures.signers, Freshness::Any, message::now())
    }
}

fn method_value(method: &Method) -> HeaderValue {
    HeaderValue::from_str(method.as_str()).unwrap_or_else(|_| HeaderValue::from_static(""))
}
