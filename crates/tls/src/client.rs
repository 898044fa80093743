//! TLS towards DFSPs and oracles.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ClientConfig;
use rustls::client::WebPkiServerVerifier;
use rustls::sign::SingleCertAndKey;
use upesi_keys::Keys;

use crate::files::{Contents, Identity, Stock, TlsError, Trust};
use crate::{HTTP_1_1, provider};

/// The files of outbound connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    /// Whose certificates servers must have.
    pub servers: Trust,
    /// The certificate for servers that ask for one.
    pub identity: Option<Identity>,
}

/// TLS of outbound connections. Clones share what is in force.
#[derive(Clone, Debug)]
pub struct ClientTls(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    files: ClientFiles,
    keys: Keys,
    in_force: RwLock<Arc<InForce>>,
    generation: AtomicU64,
}

#[derive(Debug)]
struct InForce {
    digest: [u8; 32],
    config: Arc<ClientConfig>,
    stock: Vec<Stock>,
}

impl ClientTls {
    /// Reads the files, of which the key is one.
    pub fn load(files: ClientFiles) -> Result<Self, TlsError> {
        Self::load_with(files, Keys::in_files())
    }

    /// Reads the files; the key may be elsewhere.
    pub fn load_with(files: ClientFiles, keys: Keys) -> Result<Self, TlsError> {
        let in_force = RwLock::new(Arc::new(InForce::load(&files, &keys)?));
        Ok(Self(Arc::new(Shared { files, keys, in_force, generation: AtomicU64::new(0) })))
    }

    /// Reads the files again, and puts them in force if they are sound. `true` if anything changed: connections of
    /// before are then of an earlier [`Self::generation`].
    pub fn reload(&self) -> Result<bool, TlsError> {
        let before = self.in_force();
        let after = InForce::load(&self.0.files, &self.0.keys)?;
        if before.digest == after.digest {
            return Ok(false);
        }
        self.0.files.servers.check_numbers(&before.stock, &after.stock)?;
        *self.0.in_force.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(after);
        self.0.generation.fetch_add(1, Ordering::Release);
        Ok(true)
    }

    /// The configuration for a new connection.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.in_force().config)
    }

    /// How often the files have changed.
    pub fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    /// Everything in force that expires.
    pub fn stock(&self) -> Vec<Stock> {
        self.in_force().stock.clone()
    }

    fn in_force(&self) -> Arc<InForce> {
        Arc::clone(&self.0.in_force.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PartialEq for ClientTls {
    /// Whether both are the same one.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ClientTls {}

impl InForce {
    fn load(files: &ClientFiles, keys: &Keys) -> Result<Self, TlsError> {
        Contents::load(|contents| Self::build(files, keys, contents))
    }

    fn build(files: &ClientFiles, keys: &Keys, contents: &mut Contents) -> Result<Self, TlsError> {
        let trust = files.servers.load(contents)?;
        let mut stock = trust.stock;
        let builder =
            WebPkiServerVerifier::builder_with_provider(trust.roots, provider()).with_crls(trust.crls);
        let builder =
            if files.servers.refuses_stale_crls { builder.enforce_revocation_expiration() } else { builder };
        let verifier = builder.build().map_err(|error| TlsError::Unusable(error.to_string()))?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Unusable(error.to_string()))?
            .with_webpki_verifier(verifier);
        let mut config = match &files.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (certified, own) = identity.load(contents, keys)?;
                stock.extend(own);
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
            }
        };
        config.alpn_protocols = vec![HTTP_1_1.to_vec()];
        Ok(Self { digest: contents.digest(), config: Arc::new(config), stock })
    }
}
