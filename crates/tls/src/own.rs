//! Files of single peers: whose certificates one of them may have, and what it is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use crate::client::ClientFiles;
use crate::files::{Identity, TlsError, Trust};

/// Peers with files of their own at most.
const PEERS_MAX: usize = 10_000;

const ANCHORS: &str = ".anchors.pem";
const LISTS: &str = ".crl.pem";
const CERTIFICATE: &str = ".pem";
const KEY: &str = ".key";

/// A directory with files of single peers, by their names: `NAME.anchors.pem`, and perhaps `NAME.crl.pem`; and
/// `NAME.pem` with `NAME.key`, where a peer is shown another certificate than others are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Own(pub(crate) PathBuf);

impl Own {
    /// The files of each peer that has some. What a peer has not of its own, but its anchors, is that of all.
    ///
    /// # Errors
    /// The directory cannot be read, or has files of a peer without its anchors.
    pub(crate) fn files(&self, of_all: &ClientFiles) -> Result<BTreeMap<String, ClientFiles>, TlsError> {
        let unreadable = |source| TlsError::Read { file: self.0.clone(), source };
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(&self.0).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            // Names that begin with a dot are those of a mount.
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
                let problem = format!("is of no use without {peer}{ANCHORS}");
                return Err(TlsError::Content { file: self.0.join(file), problem });
            }
            let path = |ending: &str| self.0.join(format!("{peer}{ending}"));
            let servers = Trust {
                anchors_file: path(ANCHORS),
                crl_file: has(LISTS).then(|| path(LISTS)),
                refuses_stale_crls: of_all.servers.refuses_stale_crls,
            };
            let own = || Identity { certificate_file: path(CERTIFICATE), key_file: path(KEY) };
            let identity = if has(CERTIFICATE) || has(KEY) { Some(own()) } else { of_all.identity.clone() };
            peers.insert(peer.to_owned(), ClientFiles { servers, identity });
        }
        if peers.len() > PEERS_MAX {
            let problem = format!("has files of more than {PEERS_MAX} peers");
            return Err(TlsError::Content { file: self.0.clone(), problem });
        }
        Ok(peers)
    }
}
