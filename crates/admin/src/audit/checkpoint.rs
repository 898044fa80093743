//! Checkpoints: the end of the audit trail, signed by the hub, for storage outside the hub's control.

use std::fmt::{self, Display};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use upesi_engine::EngineHandle;
use upesi_keys::{read_limited, without_byte_order_mark};
use upesi_types::{Timestamp, hex, unhex};

/// Maximum size of a key file, in bytes.
const KEY_FILE_BYTES_MAX: u64 = 16 * 1024;
/// Interval of checkpoints in the log, if there are new entries.
const LOG_INTERVAL: Duration = Duration::from_secs(3_600);
/// First words of a checkpoint: its name, and the version of its format.
const WORDS: [&str; 2] = ["upesi-audit-checkpoint", "1"];
/// Prefix of the key in an X.509 public key of Ed25519 (RFC 8410).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Reason why a key could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum AuditKeyError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    /// Other users may read the private key.
    #[error("{0} contains a private key that every user of this machine can read; run: chmod 600 {0}")]
    IsPublic(PathBuf),
    /// The file has no private key of this kind.
    #[error("{0} contains no Ed25519 private key; create one with: upesi pki audit-key NAME")]
    NoPrivateKey(PathBuf),
    /// The file has no public key of this kind.
    #[error(
        "{0} contains no Ed25519 public key; upesi pki audit-key NAME creates it next to the private key"
    )]
    NoPublicKey(PathBuf),
}

fn read(path: &Path, is_private: bool) -> Result<Vec<u8>, AuditKeyError> {
    let refuse = |source| AuditKeyError::Read { path: path.to_owned(), source };
    let metadata = fs::metadata(path).map_err(refuse)?;
    if is_private && metadata.permissions().mode() & 0o007 != 0 {
        return Err(AuditKeyError::IsPublic(path.to_owned()));
    }
    read_limited(path, KEY_FILE_BYTES_MAX).map_err(refuse)
}

/// The key that signs checkpoints. It prints as a mask.
pub struct AuditKey(Ed25519KeyPair);

impl fmt::Debug for AuditKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditKey(…)")
    }
}

impl AuditKey {
    /// Loads the key from a PEM file (PKCS #8), as `upesi pki audit-key` and `openssl genpkey -algorithm ed25519` write
    /// it.
    ///
    /// # Errors
    /// The file cannot be read, may be read by other users, or has no such key.
    pub fn load(path: &Path) -> Result<Self, AuditKeyError> {
        let bytes = read(path, true)?;
        let no_key = || AuditKeyError::NoPrivateKey(path.to_owned());
        let key =
            PrivatePkcs8KeyDer::from_pem_slice(&without_byte_order_mark(&bytes)).map_err(|_| no_key())?;
        Ed25519KeyPair::from_pkcs8(key.secret_pkcs8_der()).map(Self).map_err(|_| no_key())
    }

    /// Signs that the trail has `number` entries, the last with this `chain`.
    pub fn sign(&self, number: u64, at: Timestamp, chain: [u8; 32]) -> Checkpoint {
        let mut made = Checkpoint { number, at, chain, signature: [0; 64] };
        let signature = self.0.sign(made.statement().as_bytes());
        made.signature.copy_from_slice(signature.as_ref());
        made
    }
}

/// The key that verifies checkpoints.
#[derive(Clone, Debug)]
pub struct AuditPublicKey(Vec<u8>);

impl AuditPublicKey {
    /// Loads the key from a PEM file (X.509), as `upesi pki audit-key` and `openssl pkey -pubout` write it.
    ///
    /// # Errors
    /// The file cannot be read, or has no such key.
    pub fn load(path: &Path) -> Result<Self, AuditKeyError> {
        let bytes = read(path, false)?;
        let no_key = || AuditKeyError::NoPublicKey(path.to_owned());
        let key = SubjectPublicKeyInfoDer::from_pem_slice(&without_byte_order_mark(&bytes))
            .map_err(|_| no_key())?;
        key.strip_prefix(&SPKI_PREFIX)
            .filter(|raw| raw.len() == 32)
            .map(|raw| Self(raw.to_vec()))
            .ok_or_else(no_key)
    }
}

/// The signed end of the trail at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Number of entries in the trail.
    pub number: u64,
    /// Time of the signature.
    pub at: Timestamp,
    /// The `chain` of the last entry; zeros if there is none.
    pub chain: [u8; 32],
    signature: [u8; 64],
}

/// Reason why a text is not a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The text does not have the form of a checkpoint.
    #[error("is not a complete checkpoint")]
    Malformed,
    /// Another key signed it, or it was changed.
    #[error("is not signed by this key, or was changed")]
    Signature,
}

impl Checkpoint {
    /// The checkpoint in a line, for example of the log; `None` if it has none.
    pub fn find(line: &str) -> Option<Result<Self, CheckpointError>> {
        let (_, rest) = line.split_once(WORDS[0])?;
        Some(format!("{}{rest}", WORDS[0]).parse())
    }

    /// Verifies the signature with a key.
    ///
    /// # Errors
    /// The signature is wrong.
    pub fn verify(&self, key: &AuditPublicKey) -> Result<(), CheckpointError> {
        let verified = UnparsedPublicKey::new(&ED25519, &key.0);
        verified.verify(self.statement().as_bytes(), &self.signature).map_err(|_| CheckpointError::Signature)
    }

    fn statement(&self) -> String {
        let Self { number, at, chain, .. } = self;
        format!("{} {} {number} {at} {}", WORDS[0], WORDS[1], hex(chain))
    }
}

impl Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.statement(), URL_SAFE_NO_PAD.encode(self.signature))
    }
}

impl FromStr for Checkpoint {
    type Err = CheckpointError;

    /// Text after the signature is ignored.
    fn from_str(text: &str) -> Result<Self, CheckpointError> {
        let mut words = text.split(' ');
        let mut next = || words.next().ok_or(CheckpointError::Malformed);
        let malformed = CheckpointError::Malformed;
        if [next()?, next()?] != WORDS {
            return Err(malformed);
        }
        let number = next()?.parse().map_err(|_| malformed)?;
        let at = Timestamp::parse_iso(next()?).ok_or(malformed)?;
        let chain = unhex(next()?).ok_or(malformed)?;
        let signature = next()?;
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        let end = signature.find(|letter| !is_letter(letter)).unwrap_or(signature.len());
        let signature = URL_SAFE_NO_PAD.decode(&signature[..end]).map_err(|_| malformed)?;
        let signature = signature.try_into().map_err(|_| malformed)?;
        Ok(Self { number, at, chain, signature })
    }
}

/// Logs a checkpoint immediately and then every hour, whenever the trail has grown. Systems that collect the log
/// collect them, too. Never ends.
pub async fn log_checkpoints(engine: EngineHandle, key: Arc<AuditKey>) {
    let mut due = tokio::time::interval(LOG_INTERVAL);
    let mut logged = None;
    loop {
        due.tick().await;
        match super::sign_end(&engine, &key).await {
            Ok(made) if logged != Some(made.number) => {
                logged = Some(made.number);
                tracing::info!(checkpoint = %made, "signed checkpoint of the audit trail");
            }
            Ok(_) => {}
            Err(error) => {
                tracing::error!(error = error.description, "cannot create a checkpoint of the audit trail");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> (AuditKey, AuditPublicKey) {
        use aws_lc_rs::signature::KeyPair as _;
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let public = AuditPublicKey(pair.public_key().as_ref().to_vec());
        (AuditKey(pair), public)
    }

    #[test]
    fn checkpoint_round_trips_and_every_part_is_signed() {
        let (key, public) = key();
        let made = key.sign(12, Timestamp::from_ms(1_932_811_200_000), [0xab; 32]);
        let text = made.to_string();
        assert_eq!(text.parse(), Ok(made.clone()), "{text}");
        assert_eq!(made.verify(&public), Ok(()));
        for line in [format!(r#"{{"checkpoint":"{text}","x":1}}"#), format!("INFO checkpoint={text} more")] {
            assert_eq!(Checkpoint::find(&line), Some(Ok(made.clone())), "{line}");
        }
        assert_eq!(Checkpoint::find("nothing of it"), None);
        assert_eq!(Checkpoint::find(&text[..text.len() - 2]), Some(Err(CheckpointError::Malformed)));
        for changed in [
            Checkpoint { number: 13, ..made.clone() },
            Checkpoint { at: Timestamp::from_ms(0), ..made.clone() },
            Checkpoint { chain: [0xac; 32], ..made.clone() },
            Checkpoint { signature: [1; 64], ..made.clone() },
        ] {
            assert_eq!(changed.verify(&public), Err(CheckpointError::Signature), "{changed}");
        }
        let other = Ed25519KeyPair::from_seed_unchecked(&[8; 32]).unwrap();
        let theirs = AuditKey(other).sign(12, made.at, made.chain);
        assert_eq!(theirs.verify(&public), Err(CheckpointError::Signature));
    }

    #[test]
    fn key_file_that_is_public_or_invalid_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key.pem");
        assert!(matches!(AuditKey::load(&path), Err(AuditKeyError::Read { .. })));
        fs::write(&path, "no key").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(AuditKey::load(&path), Err(AuditKeyError::IsPublic(_))));
        assert!(matches!(AuditPublicKey::load(&path), Err(AuditKeyError::NoPublicKey(_))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(AuditKey::load(&path), Err(AuditKeyError::NoPrivateKey(_))));
        fs::write(&path, vec![b'a'; 20_000]).unwrap();
        assert!(matches!(AuditKey::load(&path), Err(AuditKeyError::Read { .. })));
    }
}
