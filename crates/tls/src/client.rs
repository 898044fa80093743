//! TLS of outbound connections, to DFSPs, oracles and others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ClientConfig;
use rustls::client::WebPkiServerVerifier;
use rustls::sign::SingleCertAndKey;
use upesi_keys::Keys;

use crate::chain::LimitedServers;
use crate::facts::CertificateFacts;
use crate::files::{ClientFiles, Contents, ExpiringItem, PeerDirectory, TlsError};
use crate::issuer::authorities;
use crate::{Protocols, provider};

/// TLS of outbound connections: to all peers or, as [`Self::of`] returns it, to one. Clones share their state.
#[derive(Clone, Debug)]
pub struct ClientTls {
    shared: Arc<Inner>,
    /// `None`: for all peers without files of their own.
    peer: Option<Arc<str>>,
}

#[derive(Debug)]
struct Inner {
    files: ClientFiles,
    own: Option<PeerDirectory>,
    keys: Keys,
    protocols: Protocols,
    in_force: RwLock<FilesInForce>,
    /// Number of changes so far.
    generation: AtomicU64,
    /// Reasons why files of single peers could not be used at the start, by the peers' names.
    unusable: BTreeMap<String, String>,
}

#[derive(Debug)]
struct FilesInForce {
    of_all: FileInForce,
    /// Peers that have or had files of their own.
    of_peers: BTreeMap<String, OfPeer>,
}

#[derive(Clone, Debug)]
struct FileInForce {
    in_force: Arc<InForce>,
    /// The generation since which it has been in effect.
    since: u64,
}

#[derive(Clone, Debug)]
enum OfPeer {
    Own(FileInForce),
    /// The peer's files have been unusable from the start: connections are refused.
    Unusable(u64),
    /// The peer's files were removed in this generation.
    Removed(u64),
}

#[derive(Debug)]
struct InForce {
    digest: [u8; 32],
    authorities: Vec<CertificateFacts>,
    config: Arc<ClientConfig>,
    stock: Vec<ExpiringItem>,
}

/// The peer's own files cannot be used, and no earlier ones are in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the TLS files of this peer cannot be used")]
pub struct Unusable;

impl ClientTls {
    /// Loads the files, including the key. For HTTP/1.1 only.
    pub fn load(files: ClientFiles) -> Result<Self, TlsError> {
        Self::load_with(files, Keys::in_files(), Protocols::default())
    }

    /// Loads the files; the key may also be in a token.
    pub fn load_with(files: ClientFiles, keys: Keys, protocols: Protocols) -> Result<Self, TlsError> {
        Self::load_with_own(files, None, keys, protocols)
    }

    /// Loads the files, with a directory of files of single peers: `NAME.anchors.pem`, and optionally `NAME.crl.pem`,
    /// `NAME.pem` and `NAME.key`. For a peer with anchors of its own, no other anchors are used. A peer whose files
    /// cannot be used is in [`Self::unusable_at_start`], and connections to it are refused.
    pub fn load_with_own(
        files: ClientFiles,
        directory: Option<PathBuf>,
        keys: Keys,
        protocols: Protocols,
    ) -> Result<Self, TlsError> {
        let own = directory.map(PeerDirectory);
        let part = |files: &ClientFiles| {
            let in_force = Arc::new(InForce::load(files, &keys, protocols)?);
            Ok::<_, TlsError>(FileInForce { in_force, since: 0 })
        };
        let of_all = part(&files)?;
        let (mut of_peers, mut unusable) = (BTreeMap::new(), BTreeMap::new());
        if let Some(own) = &own {
            for (peer, files) in own.files(&files)? {
                let of_peer = match files.and_then(|files| part(&files)) {
                    Ok(part) => OfPeer::Own(part),
                    Err(error) => {
                        unusable.insert(peer.clone(), error.to_string());
                        OfPeer::Unusable(0)
                    }
                };
                of_peers.insert(peer, of_peer);
            }
        }
        let in_force = RwLock::new(FilesInForce { of_all, of_peers });
        let generation = AtomicU64::new(0);
        let shared = Arc::new(Inner { files, own, keys, protocols, in_force, generation, unusable });
        Ok(Self { shared, peer: None })
    }

    /// Peers whose own files could not be used at the start, with the reasons: connections to them are refused.
    pub fn unusable_at_start(&self) -> &BTreeMap<String, String> {
        &self.shared.unusable
    }

    /// TLS for one peer: with its own files if it has some, otherwise with the common ones. The choice is made again
    /// for each connection.
    #[must_use]
    pub fn of(&self, peer: &str) -> Self {
        Self { shared: Arc::clone(&self.shared), peer: Some(peer.into()) }
    }

    /// Loads the files again, and applies the valid ones. `true` if anything changed: earlier connections then
    /// have an earlier [`Self::generation`].
    ///
    /// # Errors
    /// The first of the files that cannot be used; the others are applied.
    pub fn reload(&self) -> Result<bool, TlsError> {
        self.reload_if(|_| Ok(()))
    }

    /// Loads the files again, but applies them only if their common authorities are accepted.
    pub fn reload_if(
        &self,
        accepts: impl FnOnce(&[CertificateFacts]) -> Result<(), TlsError>,
    ) -> Result<bool, TlsError> {
        let (of_all, of_peers) = (self.reload_all(accepts), self.reload_peers());
        Ok(of_all? | of_peers?)
    }

    fn reload_all(
        &self,
        accepts: impl FnOnce(&[CertificateFacts]) -> Result<(), TlsError>,
    ) -> Result<bool, TlsError> {
        let shared = &self.shared;
        let before = self.read(|everything| Arc::clone(&everything.of_all.in_force));
        let after = shared.load(&shared.files, Some(&*before))?;
        if before.digest == after.digest {
            return Ok(false);
        }
        accepts(&after.authorities)?;
        let since = shared.next_generation();
        self.write(|everything| everything.of_all = FileInForce { in_force: Arc::new(after), since });
        Ok(true)
    }

    fn reload_peers(&self) -> Result<bool, TlsError> {
        let shared = &self.shared;
        let Some(own) = &shared.own else { return Ok(false) };
        let found = own.files(&shared.files)?;
        let names: BTreeSet<String> = found.keys().cloned().collect();
        let before = self.read(|everything| everything.of_peers.clone());
        let (mut changes, mut failed) = (Vec::new(), None);
        for (peer, files) in found {
            let known = match before.get(&peer) {
                Some(OfPeer::Own(part)) => Some(&*part.in_force),
                _ => None,
            };
            match files.and_then(|files| shared.load(&files, known)) {
                Ok(after) if known.is_some_and(|before| before.digest == after.digest) => {}
                Ok(after) => {
                    let part = FileInForce { in_force: Arc::new(after), since: shared.next_generation() };
                    changes.push((peer, OfPeer::Own(part)));
                }
                Err(error) => {
                    failed = failed.or(Some(error));
                    if known.is_none() && !matches!(before.get(&peer), Some(OfPeer::Unusable(_))) {
                        changes.push((peer, OfPeer::Unusable(shared.next_generation())));
                    }
                }
            }
        }
        let is_gone =
            |(peer, part): &(&String, &OfPeer)| !names.contains(*peer) && !matches!(part, OfPeer::Removed(_));
        for (peer, _) in before.iter().filter(is_gone) {
            changes.push((peer.clone(), OfPeer::Removed(shared.next_generation())));
        }
        let has_changed = !changes.is_empty();
        self.write(|everything| everything.of_peers.extend(changes));
        failed.map_or(Ok(has_changed), Err)
    }

    /// The configuration for a new connection.
    ///
    /// # Errors
    /// The peer has files of its own that cannot be used.
    pub fn config(&self) -> Result<Arc<ClientConfig>, Unusable> {
        self.read(|everything| match everything.of(self.peer.as_deref()) {
            Some(OfPeer::Own(part)) => Ok(Arc::clone(&part.in_force.config)),
            Some(OfPeer::Unusable(_)) => Err(Unusable),
            Some(OfPeer::Removed(_)) | None => Ok(Arc::clone(&everything.of_all.in_force.config)),
        })
    }

    /// Generation of the files for new connections; it only increases.
    pub fn generation(&self) -> u64 {
        self.read(|everything| match everything.of(self.peer.as_deref()) {
            Some(OfPeer::Own(part)) => part.since,
            Some(OfPeer::Unusable(since)) => *since,
            Some(OfPeer::Removed(since)) => everything.of_all.since.max(*since),
            None => everything.of_all.since,
        })
    }

    /// All certificates, authorities and lists in effect that expire, each once.
    pub fn stock(&self) -> Vec<ExpiringItem> {
        let mut all: Vec<ExpiringItem> = Vec::new();
        self.read(|everything| {
            let own = everything.of_peers.values().filter_map(|of_peer| match of_peer {
                OfPeer::Own(part) => Some(part),
                OfPeer::Unusable(_) | OfPeer::Removed(_) => None,
            });
            for part in std::iter::once(&everything.of_all).chain(own) {
                for item in &part.in_force.stock {
                    if !all.contains(item) {
                        all.push(item.clone());
                    }
                }
            }
        });
        all
    }

    fn read<T>(&self, what: impl FnOnce(&FilesInForce) -> T) -> T {
        what(&self.shared.in_force.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, change: impl FnOnce(&mut FilesInForce)) {
        change(&mut self.shared.in_force.write().unwrap_or_else(PoisonError::into_inner));
    }
}

impl FilesInForce {
    fn of(&self, peer: Option<&str>) -> Option<&OfPeer> {
        self.of_peers.get(peer?)
    }
}

impl Inner {
    /// Loads files that may replace those in effect.
    fn load(&self, files: &ClientFiles, before: Option<&InForce>) -> Result<InForce, TlsError> {
        let after = InForce::load(files, &self.keys, self.protocols)?;
        if let Some(before) = before.filter(|before| before.digest != after.digest) {
            files.servers.check_numbers(&before.stock, &after.stock)?;
        }
        Ok(after)
    }

    fn next_generation(&self) -> u64 {
        self.generation.fetch_add(1, Ordering::AcqRel) + 1
    }
}

impl PartialEq for ClientTls {
    /// Whether both share their state.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared) && self.peer == other.peer
    }
}

impl Eq for ClientTls {}

impl InForce {
    fn load(files: &ClientFiles, keys: &Keys, protocols: Protocols) -> Result<Self, TlsError> {
        Contents::load(|contents| Self::build(files, keys, protocols, contents))
    }

    fn build(
        files: &ClientFiles,
        keys: &Keys,
        protocols: Protocols,
        contents: &mut Contents,
    ) -> Result<Self, TlsError> {
        let trust = files.servers.load(contents)?;
        let (mut stock, authorities) = (trust.stock, authorities(&trust.anchors));
        let builder =
            WebPkiServerVerifier::builder_with_provider(trust.roots, provider()).with_crls(trust.crls);
        let builder =
            if files.servers.refuses_stale_crls { builder.enforce_revocation_expiration() } else { builder };
        let verifier = builder.build().map_err(|error| TlsError::Unusable(error.to_string()))?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Unusable(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(LimitedServers(verifier)));
        let mut config = match &files.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (certified, own) = identity.load(contents, keys)?;
                stock.extend(own);
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
            }
        };
        config.alpn_protocols = protocols.names();
        Ok(Self { digest: contents.digest(), authorities, config: Arc::new(config), stock })
    }
}
