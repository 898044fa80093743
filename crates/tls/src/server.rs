//! TLS of a listener.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use upesi_keys::Keys;

use crate::blocked::{Blocked, BlockedDigest};
use crate::callers::Callers;
use crate::facts::CertificateFacts;
use crate::files::{Contents, ExpiringItem, Identity, TlsError, Trust};
use crate::issuer::{Anchor, authorities};
use crate::peer::Peer;
use crate::{Protocols, present_s, provider};

/// The files of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// The listener's own certificate.
    pub identity: Identity,
    /// Trusted authorities of clients; `None`: clients need no certificate.
    pub clients: Option<Trust>,
}

/// TLS of a listener. Clones share their state.
#[derive(Clone, Debug)]
pub struct ServerTls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    sources: Sources,
    in_force: RwLock<Arc<InForce>>,
    /// Held while the configuration changes.
    changing: Mutex<()>,
}

#[derive(Debug)]
struct Sources {
    files: ServerFiles,
    blocked_file: Option<PathBuf>,
    keys: Keys,
    protocols: Protocols,
}

#[derive(Debug)]
struct InForce {
    digest: [u8; 32],
    own: Arc<NamedCertificate>,
    library: Option<Arc<dyn ClientCertVerifier>>,
    /// Trusted authorities of clients.
    anchors: Arc<[Anchor]>,
    blocked_in_file: Blocked,
    /// Blocked certificates and keys outside the file.
    blocked: Blocked,
    config: Arc<ServerConfig>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    stock: Vec<ExpiringItem>,
}

impl ServerTls {
    /// Loads the files, including the key. For HTTP/1.1 only.
    pub fn load(files: ServerFiles) -> Result<Self, TlsError> {
        Self::load_with(files, Keys::in_files(), Protocols::default())
    }

    /// Loads the files; the key may also be in a token.
    pub fn load_with(files: ServerFiles, keys: Keys, protocols: Protocols) -> Result<Self, TlsError> {
        Self::load_blocking(files, None, keys, protocols)
    }

    /// Loads the files, with a list of rejected keys and certificates: `spki-sha256:…` or `cert-sha256:…`, one per
    /// line.
    pub fn load_blocking(
        files: ServerFiles,
        blocked_file: Option<PathBuf>,
        keys: Keys,
        protocols: Protocols,
    ) -> Result<Self, TlsError> {
        let sources = Sources { files, blocked_file, keys, protocols };
        let in_force = RwLock::new(Arc::new(InForce::load(&sources, Blocked::default())?));
        Ok(Self(Arc::new(Inner { sources, in_force, changing: Mutex::new(()) })))
    }

    /// Loads the files again, and applies them if they are valid. `true` if anything changed: earlier sessions can then
    /// not be resumed, and open connections should be checked with [`Self::trusts`].
    pub fn reload(&self) -> Result<bool, TlsError> {
        self.reload_if(|_| Ok(()))
    }

    /// Loads the files again, but applies them only if their authorities of clients are accepted.
    pub fn reload_if(
        &self,
        accepts: impl FnOnce(&[CertificateFacts]) -> Result<(), TlsError>,
    ) -> Result<bool, TlsError> {
        let _changing = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.in_force();
        let after = InForce::load(&self.0.sources, before.blocked.clone())?;
        if before.digest == after.digest {
            return Ok(false);
        }
        if let Some(clients) = &self.0.sources.files.clients {
            clients.check_numbers(&before.stock, &after.stock)?;
        }
        accepts(&authorities(&after.anchors))?;
        *self.0.in_force.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(after);
        Ok(true)
    }

    /// Rejects clients with these keys and certificates, and authorities in their chains, in addition to those in the
    /// file; replaces the digests of an earlier call. Reads no file. `true` if anything changed, as with
    /// [`Self::reload`].
    pub fn block(&self, digests: impl IntoIterator<Item = BlockedDigest>) -> Result<bool, TlsError> {
        let _changing = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, blocked) = (self.in_force(), digests.into_iter().collect());
        if before.blocked == blocked || before.library.is_none() {
            return Ok(false);
        }
        let after = before.blocking(blocked, self.0.sources.protocols)?;
        *self.0.in_force.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(after);
        Ok(true)
    }

    /// The configuration for a new connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.in_force().config)
    }

    /// Whether clients must have a certificate.
    pub fn is_mutual(&self) -> bool {
        self.0.sources.files.clients.is_some()
    }

    /// Whether a peer would be accepted now: its chain leads to an anchor, and nothing in it has expired or is revoked.
    pub fn trusts(&self, peer: &Peer) -> bool {
        let in_force = self.in_force();
        let (Some(verifier), Some((own, others))) = (&in_force.verifier, peer.chain.split_first()) else {
            return in_force.verifier.is_none();
        };
        let now = Duration::from_secs(u64::try_from(present_s()).unwrap_or(0));
        verifier.verify_client_cert(own, others, UnixTime::since_unix_epoch(now)).is_ok()
    }

    /// The client of a chain that [`Self::config`] has verified, its own certificate first; `None` if that cannot be
    /// parsed.
    pub fn peer(&self, chain: &[CertificateDer<'static>]) -> Option<Peer> {
        Peer::new(chain, &self.in_force().anchors)
    }

    /// The trusted authorities of clients in effect.
    pub fn authorities(&self) -> Vec<CertificateFacts> {
        authorities(&self.in_force().anchors)
    }

    /// All certificates, authorities and lists in effect that expire.
    pub fn stock(&self) -> Vec<ExpiringItem> {
        self.in_force().stock.clone()
    }

    fn in_force(&self) -> Arc<InForce> {
        Arc::clone(&self.0.in_force.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl InForce {
    fn load(sources: &Sources, blocked: Blocked) -> Result<Self, TlsError> {
        Contents::load(|contents| Self::build(sources, blocked.clone(), contents))
    }

    fn build(sources: &Sources, blocked: Blocked, contents: &mut Contents) -> Result<Self, TlsError> {
        let Sources { files, blocked_file, keys, protocols } = sources;
        let (certified, mut stock) = files.identity.load(contents, keys)?;
        let mut anchors = Vec::new();
        let library = match &files.clients {
            None => None,
            Some(clients) => {
                let trust = clients.load(contents)?;
                stock.extend(trust.stock);
                anchors = trust.anchors;
                let builder = WebPkiClientVerifier::builder_with_provider(trust.roots, provider());
                let builder = builder.with_crls(trust.crls);
                let builder = if clients.refuses_stale_crls {
                    builder.enforce_revocation_expiration()
                } else {
                    builder
                };
                let verifier = builder.build().map_err(|error| TlsError::Unusable(error.to_string()))?;
                Some(verifier)
            }
        };
        let file = blocked_file.as_ref().filter(|_| library.is_some());
        let blocked_in_file = file.map(|file| Blocked::load(file, contents)).transpose()?.unwrap_or_default();
        let own = Arc::new(NamedCertificate::new(certified)?);
        let (config, verifier) =
            assemble(&own, library.as_ref(), &blocked_in_file.and(&blocked), *protocols)?;
        let (digest, anchors) = (contents.digest(), anchors.into());
        Ok(Self { digest, own, library, anchors, blocked_in_file, blocked, config, verifier, stock })
    }

    /// Loads the files with this block list in addition to the file's.
    fn blocking(&self, blocked: Blocked, protocols: Protocols) -> Result<Self, TlsError> {
        let all = self.blocked_in_file.and(&blocked);
        let (config, verifier) = assemble(&self.own, self.library.as_ref(), &all, protocols)?;
        Ok(Self {
            digest: self.digest,
            own: Arc::clone(&self.own),
            library: self.library.clone(),
            anchors: Arc::clone(&self.anchors),
            blocked_in_file: self.blocked_in_file.clone(),
            blocked,
            config,
            verifier,
            stock: self.stock.clone(),
        })
    }
}

type Assembled = (Arc<ServerConfig>, Option<Arc<dyn ClientCertVerifier>>);

/// A configuration for clients that a verifier accepts and that are not blocked.
fn assemble(
    own: &Arc<NamedCertificate>,
    library: Option<&Arc<dyn ClientCertVerifier>>,
    blocked: &Blocked,
    protocols: Protocols,
) -> Result<Assembled, TlsError> {
    let verifier = library.map(|library| -> Arc<dyn ClientCertVerifier> {
        Arc::new(Callers { library: Arc::clone(library), blocked: blocked.clone() })
    });
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Unusable(error.to_string()))?;
    let builder = match &verifier {
        Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
        None => builder.with_no_client_auth(),
    };
    // Each configuration has its own session cache, so sessions of another one cannot be resumed.
    let mut config = builder.with_cert_resolver(Arc::clone(own) as _);
    config.alpn_protocols = protocols.names();
    Ok((Arc::new(config), verifier))
}

/// Sends a certificate only to clients that name one of its hosts, or an address. A client that names another host
/// wants another server.
#[derive(Debug)]
struct NamedCertificate {
    certified: Arc<CertifiedKey>,
    /// DNS names of the certificate, in lower case. A certificate without names may be for addresses only, so all
    /// clients receive it.
    names: Vec<String>,
}

impl NamedCertificate {
    fn new(certified: Arc<CertifiedKey>) -> Result<Self, TlsError> {
        let unusable = |error: &dyn std::fmt::Display| TlsError::Unusable(error.to_string());
        let own = certified.end_entity_cert().map_err(|error| unusable(&error))?;
        let mut names = CertificateFacts::read(own).map_err(|error| unusable(&error))?.dns;
        names.iter_mut().for_each(|name| name.make_ascii_lowercase());
        Ok(Self { certified, names })
    }

    /// Whether the certificate covers a name. `*` matches the first label (RFC 9525 §6.3).
    fn is_called(&self, name: &str) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let rest = name.split_once('.').map(|(_, rest)| rest);
        self.names.iter().any(|own| match own.strip_prefix("*.") {
            Some(parent) => rest == Some(parent),
            None => *own == name,
        })
    }
}

impl ResolvesServerCert for NamedCertificate {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_called = hello.server_name().is_none_or(|name| self.names.is_empty() || self.is_called(name));
        is_called.then(|| Arc::clone(&self.certified))
    }
}
