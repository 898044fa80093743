//! Files of single peers: the anchors for one of them, and the certificate for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use super::{ClientFiles, Identity, TlsError, Trust};

/// Maximum number of peers with files of their own.
const PEERS_MAX: usize = 10_000;

const ANCHORS: &str = ".anchors.pem";
const LISTS: &str = ".crl.pem";
const CERTIFICATE: &str = ".pem";
const KEY: &str = ".key";

/// A directory with files of single peers, by their names: `NAME.anchors.pem`, and optionally `NAME.crl.pem`; and
/// `NAME.pem` with `NAME.key`, if there is a separate certificate for the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerDirectory(pub(crate) PathBuf);

/// The files of single peers by name, or the reason why a peer's files cannot be used.
type FilesOfPeers = BTreeMap<String, Result<ClientFiles, TlsError>>;

impl PeerDirectory {
    /// The files of each peer that has some. A peer without a certificate of its own uses the common one.
    ///
    /// # Errors
    /// The directory cannot be read, or has too many files.
    pub(crate) fn files(&self, of_all: &ClientFiles) -> Result<FilesOfPeers, TlsError> {
        let unreadable = |source| TlsError::Read { file: self.0.clone(), source };
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(&self.0).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            // Names that begin with a dot belong to the mount.
            if let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) {
                names.insert(name.to_owned());
            }
        }
        let mut peers = BTreeMap::new();
        for file in &names {
            let endings = [ANCHORS, LISTS, CERTIFICATE, KEY];
            let Some(peer) = endings.iter().find_map(|ending| file.strip_suffix(*ending)) else { continue };
            let has = |ending: &str| names.contains(&format!("{peer}{ending}"));
            if !has(ANCHORS) {
                let problem = format!("has no effect without {peer}{ANCHORS}");
                let error = TlsError::Content { file: self.0.join(file), problem };
                peers.insert(peer.to_owned(), Err(error));
                continue;
            }
            let path = |ending: &str| self.0.join(format!("{peer}{ending}"));
            let servers = Trust {
                anchors_file: path(ANCHORS),
                crl_file: has(LISTS).then(|| path(LISTS)),
                refuses_stale_crls: of_all.servers.refuses_stale_crls,
            };
            let own = || Identity { certificate_file: path(CERTIFICATE), key_file: path(KEY) };
            let identity = if has(CERTIFICATE) || has(KEY) { Some(own()) } else { of_all.identity.clone() };
            peers.insert(peer.to_owned(), Ok(ClientFiles { servers, identity }));
        }
        if peers.len() > PEERS_MAX {
            let problem = format!("has files of more than {PEERS_MAX} peers");
            return Err(TlsError::Content { file: self.0.clone(), problem });
        }
        Ok(peers)
    }
}
