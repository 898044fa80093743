//! The public keys of all participants.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::files::{self, KeyFileError, Section};
use crate::public_key::PublicKey;

/// Most keys of one participant: the previous, the present and the next one.
const KEYS_MAX: usize = 3;
/// Most participants.
const PARTICIPANTS_MAX: usize = 10_000;
const SUFFIX: &str = "pem";

/// The public keys of participants.
#[derive(Debug, Default)]
pub struct KeyRing {
    /// By the participant's name in lower case.
    keys: HashMap<String, Vec<PublicKey>>,
    allows_es256: bool,
}

impl KeyRing {
    /// Reads a directory of files `NAME.pem`, each with up to three public keys or certificates of the participant with
    /// that name. Keys on P-256 are refused unless they are allowed. Other files are passed over.
    ///
    /// # Errors
    /// A file cannot be read, or has no usable key: a participant whose key is wrong must not be one without a key.
    pub fn load(directory: &Path, allows_es256: bool) -> Result<Self, KeyFileError> {
        let mut ring = Self { keys: HashMap::new(), allows_es256 };
        for entry in fs::read_dir(directory).map_err(KeyFileError::read(directory))? {
            let path = entry.map_err(KeyFileError::read(directory))?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).filter(|name| !name.starts_with('.'));
            let Some(name) = name.filter(|_| path.extension().is_some_and(|suffix| suffix == SUFFIX)) else {
                continue;
            };
            let keys = ring.read(&path)?;
            if ring.keys.len() >= PARTICIPANTS_MAX {
                let problem = format!("has keys of more than {PARTICIPANTS_MAX} participants");
                return Err(KeyFileError::content(directory, problem));
            }
            if ring.keys.insert(name.to_ascii_lowercase(), keys).is_some() {
                let problem = format!("has two files for {name}, which differ in case only");
                return Err(KeyFileError::content(directory, problem));
            }
        }
        Ok(ring)
    }

    fn read(&self, path: &Path) -> Result<Vec<PublicKey>, KeyFileError> {
        let refused = |problem: String| KeyFileError::content(path, problem);
        let mut keys = Vec::new();
        for section in files::sections(path, &files::read(path)?)? {
            let key = match section {
                Section::Public(der) => PublicKey::from_spki(&der),
                Section::Certificate(der) => PublicKey::from_certificate(&der),
                Section::Private(_) | Section::RsaPrivate(_) => {
                    Err("holds a private key: this directory is for public ones".to_owned())
                }
            };
            let key = key.map_err(refused)?;
            if key.is_elliptic() && !self.allows_es256 {
                return Err(refused("has a P-256 key, and jws.es256 is off".to_owned()));
            }
            keys.push(key);
        }
        match keys.len() {
            0 => Err(refused("has no public key in PEM (BEGIN PUBLIC KEY or BEGIN CERTIFICATE)".to_owned())),
            1..=KEYS_MAX => Ok(keys),
            more => Err(refused(format!("has {more} keys; a participant has at most {KEYS_MAX}"))),
        }
    }

    /// The keys of a participant, in the order of its file.
    pub(crate) fn of(&self, name: &str) -> Option<&[PublicKey]> {
        self.keys.get(&name.to_ascii_lowercase()).map(Vec::as_slice)
    }

    /// How many participants have keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether nobody has a key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}
