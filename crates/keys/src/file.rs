//! Keys in files: PEM.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::{fmt, io};

use aws_lc_rs::digest::Digest;
use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384,
    RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use rustls_pki_types::pem::{PemObject, SectionKind};

use crate::KeyError;
use crate::key::{Hash, Key, KeyFamily, NotSigned, Scheme};
use crate::limited::read_opened;
use crate::pem::pem_text;

/// Maximum size of a file.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// A private key that was read from a file.
pub struct FileKey {
    pair: KeyPair,
    public: Vec<u8>,
}

enum KeyPair {
    Rsa(Box<RsaKeyPair>),
    P256(Box<EcdsaKeyPair>),
}

/// A section of a PEM file that is a private key.
enum Section {
    /// `PRIVATE KEY` (PKCS #8).
    Pkcs8(Vec<u8>),
    /// `RSA PRIVATE KEY` (PKCS #1).
    Pkcs1(Vec<u8>),
}

impl PemObject for Section {
    fn from_pem(kind: SectionKind, der: Vec<u8>) -> Option<Self> {
        match kind {
            SectionKind::PrivateKey => Some(Self::Pkcs8(der)),
            SectionKind::RsaPrivateKey => Some(Self::Pkcs1(der)),
            _ => None,
        }
    }
}

impl FileKey {
    /// Loads a private key in PEM: RSA of 2,048 bits or more, or P-256. Other users must not be able to read the file.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let text = pem_text(&read_private(path)?);
        let sections = Section::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
        let sections =
            sections.map_err(|error| KeyError::content(path, format!("is not valid PEM: {error:?}")))?;
        let pair = match &*sections {
            [Section::Pkcs1(der)] => RsaKeyPair::from_der(der).map(Box::new).map(KeyPair::Rsa),
            [Section::Pkcs8(der)] => match RsaKeyPair::from_pkcs8(der) {
                Ok(pair) => Ok(KeyPair::Rsa(Box::new(pair))),
                Err(_) => EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der)
                    .map(Box::new)
                    .map(KeyPair::P256),
            },
            _ => {
                let problem = "does not have one private key in PEM (BEGIN PRIVATE KEY)";
                return Err(KeyError::content(path, problem));
            }
        };
        let unusable = "has a private key that is neither RSA (2,048 bits or more) nor P-256";
        let pair = pair.map_err(|_| KeyError::content(path, unusable))?;
        let public = pair.public().ok_or_else(|| KeyError::content(path, unusable))?;
        Ok(Self { pair, public })
    }
}

impl KeyPair {
    fn public(&self) -> Option<Vec<u8>> {
        let der: PublicKeyX509Der<'_> = match self {
            Self::Rsa(pair) => pair.public_key().as_der().ok()?,
            Self::P256(pair) => pair.public_key().as_der().ok()?,
        };
        Some(der.as_ref().to_vec())
    }
}

impl Key for FileKey {
    fn kind(&self) -> KeyFamily {
        match self.pair {
            KeyPair::Rsa(_) => KeyFamily::Rsa,
            KeyPair::P256(_) => KeyFamily::P256,
        }
    }

    fn public(&self) -> &[u8] {
        &self.public
    }

    fn sign(&self, scheme: Scheme, digest: &Digest) -> Result<Vec<u8>, NotSigned> {
        let encoding: &'static dyn RsaEncoding = match scheme {
            Scheme::P256 => {
                let KeyPair::P256(pair) = &self.pair else { return Err(NotSigned) };
                return Ok(pair.sign_digest(digest).map_err(|_| NotSigned)?.as_ref().to_vec());
            }
            Scheme::Pkcs1(Hash::Sha256) => &RSA_PKCS1_SHA256,
            Scheme::Pkcs1(Hash::Sha384) => &RSA_PKCS1_SHA384,
            Scheme::Pkcs1(Hash::Sha512) => &RSA_PKCS1_SHA512,
            Scheme::Pss(Hash::Sha256) => &RSA_PSS_SHA256,
            Scheme::Pss(Hash::Sha384) => &RSA_PSS_SHA384,
            Scheme::Pss(Hash::Sha512) => &RSA_PSS_SHA512,
        };
        let KeyPair::Rsa(pair) = &self.pair else { return Err(NotSigned) };
        let mut signature = vec![0; pair.public_modulus_len()];
        pair.sign_digest(encoding, digest, &mut signature).map_err(|_| NotSigned)?;
        Ok(signature)
    }
}

impl fmt::Debug for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileKey").field(&self.kind()).finish()
    }
}

/// Reads a secret. If the path is a link, the mode of its target is checked.
///
/// # Errors
/// The file is missing, too large, or readable by every user of the machine.
pub fn read_private(path: &Path) -> Result<Vec<u8>, KeyError> {
    let file = File::open(path).map_err(KeyError::read(path))?;
    let metadata = file.metadata().map_err(KeyError::read(path))?;
    if metadata.permissions().mode() & 0o007 != 0 {
        return Err(KeyError::IsPublic { path: path.to_owned() });
    }
    read_opened(file, FILE_BYTES_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            KeyError::content(path, format!("is larger than {FILE_BYTES_MAX} bytes"))
        }
        _ => KeyError::read(path)(error),
    })
}
