//! Keys, certificates, anchors and CRLs in PEM files, checked before they are used.

mod peers;
mod signing_key;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use upesi_keys::{KeyError, Keys, Mount, PrivateKeyLocation, read_limited, without_byte_order_mark};
use x509_parser::prelude::{CertificateRevocationList, FromDer};

pub(crate) use self::peers::PeerDirectory;
use self::signing_key::HandshakeKey;
use crate::chain::parse;
use crate::facts::{CertificateFacts, number_in_hexadecimal};
use crate::issuer::Anchor;
use crate::provider;

/// Maximum size of a file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Number of seconds after its `nextUpdate` when a CRL becomes stale.
pub const CRL_GRACE_S: i64 = 24 * 3600;

/// Reason why files cannot be used. The files in effect stay in effect.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that is missing or unreadable.
    #[error("{file}: {source}")]
    Read { file: PathBuf, source: std::io::Error },
    /// A file that is larger than any valid one.
    #[error("{file} is larger than {FILE_BYTES_MAX} bytes")]
    TooLarge { file: PathBuf },
    /// Other users may read a private key.
    #[error("{file} contains a private key that every user of this machine can read; run: chmod 600 {file}")]
    KeyIsPublic { file: PathBuf },
    /// The content of the file is invalid.
    #[error("{file} {problem}")]
    Content {
        file: PathBuf,
        /// Description of the fault.
        problem: String,
    },
    /// A key of a token that cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The parts do not match each other.
    #[error("{0}")]
    Unusable(String),
}

/// A certificate chain and its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, then its intermediates, in PEM.
    pub certificate_file: PathBuf,
    /// The private key, in PEM; no other user may read the file. Or a key of a token: `pkcs11:token=…;object=…`.
    pub key_file: PathBuf,
}

/// Trusted authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// Certificates of the authorities, in PEM.
    pub anchors_file: PathBuf,
    /// Revocation lists of these authorities, in PEM. If set, every certificate of a chain needs a list.
    pub crl_file: Option<PathBuf>,
    /// Whether certificates are rejected if their list is past its `nextUpdate`.
    pub refuses_stale_crls: bool,
}

/// The files of outbound connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    /// Trust anchors for servers.
    pub servers: Trust,
    /// The certificate for servers that require one.
    pub identity: Option<Identity>,
}

/// Kind of something that expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFileKind {
    /// The hub's own certificate, or an intermediate that it sends.
    Certificate,
    /// An authority's certificate.
    Anchor,
    /// A revocation list.
    Crl,
}

impl TlsFileKind {
    /// Kind as a label of a metric.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Anchor => "anchor",
            Self::Crl => "crl",
        }
    }
}

/// Something in effect that expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiringItem {
    pub kind: TlsFileKind,
    /// Subject of a certificate, issuer of a list.
    pub name: String,
    /// Serial number of a certificate, number of a list.
    pub serial: String,
    /// End of validity, in seconds since 1970.
    pub not_after_s: i64,
}

impl ExpiringItem {
    fn of(kind: TlsFileKind, facts: &CertificateFacts) -> Self {
        let (name, serial) = (facts.subject.clone(), facts.serial.clone());
        Self { kind, name, serial, not_after_s: facts.not_after_s }
    }
}

/// Seconds since 1970, by the clock that is used for certificates.
pub fn present_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The bytes of files, and a digest over all of them, which shows changes.
#[derive(Default)]
pub(crate) struct Contents {
    digest: Sha256,
    /// Mounted secrets are read in one version.
    mount: Mount,
}

impl Contents {
    /// Loads from files; repeats this once if a mounted secret changed meanwhile.
    pub(crate) fn load<T>(build: impl Fn(&mut Self) -> Result<T, TlsError>) -> Result<T, TlsError> {
        const CHANGES_MAX: usize = 3;
        for _ in 0..CHANGES_MAX {
            let mut contents = Self::default();
            let built = build(&mut contents);
            if built.is_ok() || !contents.mount.has_changed() {
                return built;
            }
        }
        build(&mut Self::default())
    }

    pub(crate) fn read(&mut self, file: &Path) -> Result<Vec<u8>, TlsError> {
        let failed = |source| TlsError::Read { file: file.to_owned(), source };
        let pinned = self.mount.pin(file);
        let bytes = read_limited(&pinned, FILE_BYTES_MAX).map_err(|error| match error.kind() {
            std::io::ErrorKind::FileTooLarge => TlsError::TooLarge { file: file.to_owned() },
            _ => failed(error),
        })?;
        self.note(&bytes);
        match without_byte_order_mark(&bytes) {
            Cow::Borrowed(text) if text.len() == bytes.len() => Ok(bytes),
            text => Ok(text.into_owned()),
        }
    }

    /// Reads a private key. If the path is a link, the mode of its target is checked.
    fn read_key(&mut self, file: &Path) -> Result<Vec<u8>, TlsError> {
        use std::os::unix::fs::PermissionsExt as _;
        let metadata = std::fs::metadata(self.mount.pin(file));
        let metadata = metadata.map_err(|source| TlsError::Read { file: file.to_owned(), source })?;
        if metadata.permissions().mode() & 0o007 != 0 {
            return Err(TlsError::KeyIsPublic { file: file.to_owned() });
        }
        self.read(file)
    }

    fn note(&mut self, bytes: &[u8]) {
        self.digest.update((bytes.len() as u64).to_le_bytes());
        self.digest.update(bytes);
    }

    pub(crate) fn digest(&self) -> [u8; 32] {
        self.digest.clone().finalize().into()
    }
}

fn content(file: &Path, problem: impl Into<String>) -> TlsError {
    TlsError::Content { file: file.to_owned(), problem: problem.into() }
}

fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(content(file, "has no certificate in PEM (BEGIN CERTIFICATE)")),
        Err(error) => Err(content(file, format!("is not valid PEM: {error:?}"))),
    }
}

fn facts_of(file: &Path, certificate: &[u8]) -> Result<CertificateFacts, TlsError> {
    CertificateFacts::read(certificate).map_err(|error| content(file, error.to_string()))
}

/// A chain with its key, and the parts of it that expire.
pub(crate) type LoadedIdentity = (Arc<CertifiedKey>, Vec<ExpiringItem>);

impl Identity {
    pub(crate) fn load(&self, contents: &mut Contents, keys: &Keys) -> Result<LoadedIdentity, TlsError> {
        let chain = certificates(&self.certificate_file, &contents.read(&self.certificate_file)?)?;
        let facts = chain.iter().map(|der| facts_of(&self.certificate_file, der));
        let stock = facts.map(|facts| Ok(ExpiringItem::of(TlsFileKind::Certificate, &facts?)));
        let stock = stock.collect::<Result<Vec<_>, TlsError>>()?;
        let place = self.key_file.to_str().map(PrivateKeyLocation::parse).transpose();
        let place = place.map_err(|error| TlsError::Unusable(error.to_string()))?;
        let certified = match place {
            Some(place @ PrivateKeyLocation::Token(_)) => {
                let key = keys.open(&place)?;
                contents.note(key.public());
                let certified = CertifiedKey::new(chain, Arc::new(HandshakeKey(key)));
                certified.keys_match().map(|()| certified)
            }
            Some(PrivateKeyLocation::File(_)) | None => {
                let key = PrivateKeyDer::from_pem_slice(&contents.read_key(&self.key_file)?);
                let problem = "has no private key in PEM (BEGIN PRIVATE KEY)";
                let key = key.map_err(|_| content(&self.key_file, problem))?;
                CertifiedKey::from_der(chain, key, &provider())
            }
        };
        Ok((Arc::new(certified.map_err(|error| self.refused(&error))?), stock))
    }

    /// The fault, if the library rejects chain and key.
    fn refused(&self, error: &rustls::Error) -> TlsError {
        let (certificate, key) = (self.certificate_file.display(), self.key_file.display());
        match error {
            rustls::Error::InconsistentKeys(_) => TlsError::Unusable(format!(
                "the key in {key} does not belong to the certificate in {certificate}"
            )),
            error => TlsError::Unusable(format!("{certificate} with {key} cannot be used: {error}")),
        }
    }
}

/// Anchors and lists, and the parts of them that expire.
pub(crate) struct LoadedTrust {
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) anchors: Vec<Anchor>,
    pub(crate) crls: Vec<CertificateRevocationListDer<'static>>,
    pub(crate) stock: Vec<ExpiringItem>,
}

impl Trust {
    pub(crate) fn load(&self, contents: &mut Contents) -> Result<LoadedTrust, TlsError> {
        let found = certificates(&self.anchors_file, &contents.read(&self.anchors_file)?)?;
        let (mut roots, mut anchors, mut stock) = (RootCertStore::empty(), Vec::new(), Vec::new());
        for certificate in found {
            let refused = |error| content(&self.anchors_file, format!("has an unusable authority: {error}"));
            roots.add(certificate.clone()).map_err(refused)?;
            let facts = facts_of(&self.anchors_file, &certificate)?;
            stock.push(ExpiringItem::of(TlsFileKind::Anchor, &facts));
            anchors.push(Anchor { certificate, facts });
        }
        let crls = match &self.crl_file {
            None => Vec::new(),
            Some(file) => load_crls(file, &contents.read(file)?, &anchors, &mut stock)?,
        };
        Ok(LoadedTrust { roots: Arc::new(roots), anchors, crls, stock })
    }

    /// Checks that no list in effect would be replaced by an older one, which could undo a revocation.
    pub(crate) fn check_numbers(
        &self,
        before: &[ExpiringItem],
        after: &[ExpiringItem],
    ) -> Result<(), TlsError> {
        let lists = |stock: &'_ [ExpiringItem]| -> Vec<ExpiringItem> {
            stock.iter().filter(|item| item.kind == TlsFileKind::Crl).cloned().collect()
        };
        let after = lists(after);
        for old in lists(before) {
            let mut newer = after.iter().filter(|new| new.name == old.name);
            if let Some(new) = newer.find(|new| is_lower(&new.serial, &old.serial)) {
                let file = self.crl_file.clone().unwrap_or_default();
                let problem = format!(
                    "has the list number 0x{} of {}, but 0x{} is in use; the number of a list must not decrease",
                    new.serial, new.name, old.serial
                );
                return Err(TlsError::Content { file, problem });
            }
        }
        Ok(())
    }
}

/// Whether a number in hexadecimal, without leading zeros, is lower than another.
fn is_lower(number: &str, than: &str) -> bool {
    (number.len(), number) < (than.len(), than)
}

/// Loads lists. A list of an anchor must have that anchor's signature. A list of another authority is verified together
/// with a certificate of that authority, which a forged list makes invalid.
fn load_crls(
    file: &Path,
    pem: &[u8],
    anchors: &[Anchor],
    stock: &mut Vec<ExpiringItem>,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let found: Result<Vec<CertificateRevocationListDer<'static>>, _> =
        CertificateRevocationListDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| content(file, format!("is not valid PEM: {error:?}")))?;
    if found.is_empty() {
        return Err(content(file, "has no revocation list in PEM (BEGIN X509 CRL)"));
    }
    let authorities: Vec<_> = anchors.iter().filter_map(|anchor| parse(&anchor.certificate)).collect();
    for der in &found {
        let (_, list) = CertificateRevocationList::from_der(der)
            .map_err(|_| content(file, "has a revocation list that cannot be read"))?;
        let mut issuers = authorities
            .iter()
            .filter(|authority| authority.subject().as_raw() == list.issuer().as_raw())
            .peekable();
        let is_of_anchor = issuers.peek().is_some();
        if is_of_anchor && !issuers.any(|authority| list.verify_signature(authority.public_key()).is_ok()) {
            return Err(content(file, format!("has a list that {} did not sign", list.issuer())));
        }
        let number =
            list.crl_number().map(|number| number_in_hexadecimal(&number.to_bytes_be())).unwrap_or_default();
        stock.push(ExpiringItem {
            kind: TlsFileKind::Crl,
            name: list.issuer().to_string(),
            serial: number,
            not_after_s: list.next_update().map_or(i64::MAX, |time| time.timestamp()),
        });
    }
    Ok(found)
}
