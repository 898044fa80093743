//! The public keys of all participants.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use upesi_types::{Timestamp, hex};

use crate::algorithm::Algorithm;
use crate::files::{self, KeyFileError, Section};
use crate::public_key::PublicKey;

/// Maximum number of keys of one participant: the previous, the current and the next one.
const KEYS_MAX: usize = 3;
/// Maximum number of participants.
const PARTICIPANTS_MAX: usize = 10_000;
const SUFFIX: &str = "pem";

/// The public keys of participants.
#[derive(Debug, Default)]
pub struct KeyRing {
    /// By the participant's name in lower case.
    keys: HashMap<String, Vec<ValidKey>>,
    /// Files that cannot be used, by the participant's name in lower case.
    unusable: BTreeMap<String, KeyFileError>,
    allows_es256: bool,
}

/// A key and its validity.
#[derive(Clone, Debug)]
pub(crate) struct ValidKey {
    key: Arc<PublicKey>,
    from: Option<Timestamp>,
    /// End of its validity, exclusive.
    until: Option<Timestamp>,
}

/// Validity of a key at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validity {
    /// The key is not valid yet.
    Early,
    Valid,
    /// The key has expired.
    Over,
}

/// A key that is stored elsewhere than in a file.
#[derive(Clone, Copy, Debug)]
pub struct RecordedKey<'a> {
    /// The participant's name.
    pub participant: &'a str,
    /// X.509 `SubjectPublicKeyInfo` in DER.
    pub public_key: &'a [u8],
    /// SHA-256 of the public key.
    pub sha256: [u8; 32],
    /// Start of its validity, if it has one.
    pub from: Option<Timestamp>,
    /// End of its validity, exclusive, if it has one.
    pub until: Option<Timestamp>,
}

/// Data about keys that is stored elsewhere than in files.
#[derive(Debug, Default)]
pub struct Records<'a> {
    pub keys: Vec<RecordedKey<'a>>,
    /// SHA-256 of revoked keys, which are never valid, wherever they are.
    pub revoked: HashSet<[u8; 32]>,
    /// By a participant's name in lower case, the end of the validity of its keys in files, exclusive.
    pub files_until: HashMap<String, Timestamp>,
}

/// A key of a ring, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyView {
    /// The participant's name in lower case.
    pub participant: String,
    /// X.509 `SubjectPublicKeyInfo` in DER.
    pub public_key: Box<[u8]>,
    /// SHA-256 of the public key.
    pub sha256: [u8; 32],
    /// Start of its certificate's validity, if there is one.
    pub from: Option<Timestamp>,
    /// The first instant after its certificate's validity, if there is one.
    pub until: Option<Timestamp>,
}

impl KeyRing {
    /// Reads a directory of files `NAME.pem`, each with up to three public keys or certificates of the participant with
    /// that name. Keys on P-256 are rejected unless they are allowed. Other files are ignored. A participant whose file
    /// cannot be used is in [`Self::unusable`], and has no key; other participants are not affected.
    ///
    /// # Errors
    /// The directory cannot be read, or has too many files.
    pub fn load(directory: &Path, allows_es256: bool) -> Result<Self, KeyFileError> {
        let mut ring = Self::empty(allows_es256);
        let mut names: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for entry in fs::read_dir(directory).map_err(KeyFileError::read(directory))? {
            let path = entry.map_err(KeyFileError::read(directory))?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).filter(|name| !name.starts_with('.'));
            let Some(name) = name.filter(|_| path.extension().is_some_and(|suffix| suffix == SUFFIX)) else {
                continue;
            };
            names.entry(name.to_ascii_lowercase()).or_default().push(path);
            if names.len() > PARTICIPANTS_MAX {
                let problem = format!("has keys of more than {PARTICIPANTS_MAX} participants");
                return Err(KeyFileError::content(directory, problem));
            }
        }
        for (name, paths) in names {
            let read = match &*paths {
                [path] => ring.read(path),
                _ => {
                    let problem = format!("has two files for {name}, which differ in case only");
                    Err(KeyFileError::content(directory, problem))
                }
            };
            match read {
                Ok(keys) => drop(ring.keys.insert(name, keys)),
                Err(error) => drop(ring.unusable.insert(name, error)),
            }
        }
        Ok(ring)
    }

    /// Reads a directory like [`Self::load`], but every file must be usable.
    ///
    /// # Errors
    /// The directory or one of its files cannot be used.
    pub fn load_all(directory: &Path, allows_es256: bool) -> Result<Self, KeyFileError> {
        let mut ring = Self::load(directory, allows_es256)?;
        match ring.unusable.pop_first() {
            Some((_, error)) => Err(error),
            None => Ok(ring),
        }
    }

    /// Files that cannot be used, by the names of their participants in lower case.
    pub const fn unusable(&self) -> &BTreeMap<String, KeyFileError> {
        &self.unusable
    }

    /// Retains the keys of an earlier ring for participants whose file has become unusable.
    pub fn keep_unusable(&mut self, earlier: &Self) {
        for name in self.unusable.keys() {
            if let Some(keys) = earlier.keys.get(name) {
                self.keys.insert(name.clone(), keys.clone());
            }
        }
    }

    /// The end of a participant's last key; `None` if one has no end, or there is none.
    pub fn last_end(&self, name: &str) -> Option<Timestamp> {
        let ends = self.of(name)?.iter().map(|held| held.until);
        ends.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// A ring without keys.
    pub fn empty(allows_es256: bool) -> Self {
        Self { allows_es256, ..Self::default() }
    }

    fn read(&self, path: &Path) -> Result<Vec<ValidKey>, KeyFileError> {
        let refused = |problem: String| KeyFileError::content(path, problem);
        let mut keys = Vec::new();
        for section in files::sections(path, &files::read(path)?)? {
            let (key, valid_s) = match section {
                Section::Public(der) => PublicKey::from_der(&der).map(|key| (key, None)),
                Section::Certificate(der) => {
                    PublicKey::from_certificate(&der).map(|(key, valid_s)| (key, Some(valid_s)))
                }
                Section::Private(_) | Section::RsaPrivate(_) => {
                    Err("contains a private key; this directory is for public keys".to_owned())
                }
            }
            .map_err(refused)?;
            if key.is_elliptic() && !self.allows_es256 {
                return Err(refused("has a P-256 key, and jws.es256 is off".to_owned()));
            }
            keys.push(ValidKey::of_file(key, valid_s));
        }
        match keys.len() {
            0 => Err(refused("has no public key in PEM (BEGIN PUBLIC KEY or BEGIN CERTIFICATE)".to_owned())),
            1..=KEYS_MAX => Ok(keys),
            more => Err(refused(format!("has {more} keys; a participant has at most {KEYS_MAX}"))),
        }
    }

    /// Combines these keys, which are from files, with keys that are stored elsewhere. A key that is stored for one
    /// participant is ignored in another one's file. Keys that were parsed for an earlier ring are not parsed again.
    ///
    /// Also returns the stored keys that cannot be used, in hexadecimal.
    pub fn with(&self, records: &Records<'_>, earlier: &Self) -> (Self, Vec<String>) {
        let mut keys: HashMap<String, Vec<ValidKey>> = HashMap::new();
        let mut unusable = Vec::new();
        let known: HashMap<[u8; 32], &Arc<PublicKey>> =
            earlier.keys.values().flatten().map(|held| (*held.key.sha256(), &held.key)).collect();
        for recorded in &records.keys {
            let known = known.get(&recorded.sha256).map(|key| Arc::clone(key));
            let key = known.or_else(|| PublicKey::from_der(recorded.public_key).ok().map(Arc::new));
            match key.filter(|key| !key.is_elliptic() || self.allows_es256) {
                Some(key) => {
                    let held = ValidKey { key, from: recorded.from, until: recorded.until };
                    keys.entry(recorded.participant.to_ascii_lowercase()).or_default().push(held);
                }
                None => unusable.push(hex(&recorded.sha256)),
            }
        }
        let kept: HashSet<[u8; 32]> = records.keys.iter().map(|recorded| recorded.sha256).collect();
        for (name, from_file) in &self.keys {
            let end = records.files_until.get(name).copied();
            let counts = |held: &&ValidKey| {
                !kept.contains(held.key.sha256()) && !records.revoked.contains(held.key.sha256())
            };
            let ended =
                |held: &ValidKey| ValidKey { until: held.until.into_iter().chain(end).min(), ..held.clone() };
            keys.entry(name.clone()).or_default().extend(from_file.iter().filter(counts).map(ended));
        }
        keys.retain(|_, held| !held.is_empty());
        (Self { keys, unusable: self.unusable.clone(), allows_es256: self.allows_es256 }, unusable)
    }

    /// The keys of a participant, in the order of its file.
    pub(crate) fn of(&self, name: &str) -> Option<&[ValidKey]> {
        self.keys.get(&name.to_ascii_lowercase()).map(Vec::as_slice)
    }

    /// All keys.
    pub fn views(&self) -> impl Iterator<Item = KeyView> {
        self.keys.iter().flat_map(|(name, keys)| {
            keys.iter().map(|held| KeyView {
                participant: name.clone(),
                public_key: held.key.der().into(),
                sha256: *held.key.sha256(),
                from: held.from,
                until: held.until,
            })
        })
    }

    /// Number of participants with keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no participant has a key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

impl ValidKey {
    /// A key, and the validity of its certificate, both ends in seconds since 1970.
    fn of_file(key: PublicKey, valid_s: Option<(i64, i64)>) -> Self {
        let at = |seconds: i64| Timestamp::from_ms(seconds.saturating_mul(1_000));
        let (from, until) = valid_s.map(|(from, to)| (at(from), at(to.saturating_add(1)))).unzip();
        Self { key: Arc::new(key), from, until }
    }

    /// The key, if its signatures may use this algorithm, and its validity at that time.
    pub(crate) fn fitting(&self, algorithm: Algorithm, now: Timestamp) -> Option<(Validity, &PublicKey)> {
        self.key.fits(algorithm).then(|| (self.validity(now), &*self.key))
    }

    fn validity(&self, now: Timestamp) -> Validity {
        if self.until.is_some_and(|until| until <= now) {
            Validity::Over
        } else if self.from.is_some_and(|from| now < from) {
            Validity::Early
        } else {
            Validity::Valid
        }
    }
}
