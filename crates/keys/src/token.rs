//! Keys in PKCS #11 tokens: hardware modules, smart cards, SoftHSM. The key never leaves its token.

mod der;
mod pool;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::Digest;
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsPssParams};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::Session;

pub use self::der::ecdsa_signature;
use self::der::{p256_spki, rsa_spki};
use self::pool::Pool;
use crate::KeyError;
use crate::key::{Hash, Key, KeyFamily, NotSigned, Scheme};
use crate::location::TokenKeyName;

/// Settings of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSettings {
    /// The PKCS #11 module of the tokens' vendor, a shared library.
    pub module: PathBuf,
    /// File with the user PIN of the tokens; no other user of the machine may read it.
    pub pin_file: PathBuf,
    /// Maximum number of sessions of each token, and so of concurrent signatures.
    pub sessions_max: usize,
}

/// The tokens of a module.
pub struct Tokens {
    module: Pkcs11,
    settings: TokenSettings,
    /// One for each token in use; their number is limited by the settings.
    pools: Mutex<Vec<Arc<Pool>>>,
}

impl Tokens {
    /// Loads the module.
    ///
    /// # Errors
    /// The module cannot be loaded.
    pub fn open(settings: TokenSettings) -> Result<Self, KeyError> {
        let refused = |error: &Error| KeyError::Token {
            what: settings.module.display().to_string(),
            problem: format!("cannot be loaded as a PKCS #11 module: {error}"),
        };
        let module = Pkcs11::new(&settings.module).map_err(|error| refused(&error))?;
        match module.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
            // Another hub in this process also uses it.
            Ok(()) | Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => {}
            Err(error) => return Err(refused(&error)),
        }
        Ok(Self { module, settings, pools: Mutex::default() })
    }

    pub(crate) const fn sessions_max(&self) -> usize {
        self.settings.sessions_max
    }

    pub(crate) fn sessions(&self) -> usize {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.iter().map(|pool| pool.sessions()).sum()
    }

    pub(crate) fn key(&self, name: &TokenKeyName) -> Result<TokenKey, KeyError> {
        let pool = self.pool(&name.token)?;
        let found =
            pool.with(|session| FoundObject::look(session, name)).map_err(|error| pool.refused(&error))?;
        let problem = match found {
            Ok(FoundObject { handle, kind, public }) => {
                let handle = Mutex::new(handle);
                return Ok(TokenKey { pool, name: name.clone(), handle, kind, public });
            }
            Err(problem) => problem,
        };
        Err(KeyError::Token { what: name.to_string(), problem: problem.to_owned() })
    }

    fn pool(&self, token: &str) -> Result<Arc<Pool>, KeyError> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.iter().find(|pool| pool.token() == token) {
            return Ok(Arc::clone(pool));
        }
        let pool = Arc::new(Pool::new(&self.module, &self.settings, token)?);
        pools.push(Arc::clone(&pool));
        Ok(pool)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("settings", &self.settings).finish_non_exhaustive()
    }
}

pub(crate) struct TokenKey {
    pool: Arc<Pool>,
    name: TokenKeyName,
    /// Its handle, which becomes invalid with the token's last session.
    handle: Mutex<ObjectHandle>,
    kind: KeyFamily,
    public: Vec<u8>,
}

/// A key that was looked for.
struct FoundObject {
    handle: ObjectHandle,
    kind: KeyFamily,
    public: Vec<u8>,
}

impl FoundObject {
    /// Finds the one private key with a name, or the reason why none can be used.
    fn look(session: &Session, name: &TokenKeyName) -> Result<Result<Self, &'static str>, Error> {
        let of_class = |class| {
            let mut wanted = vec![Attribute::Class(class)];
            wanted.extend(name.object.as_ref().map(|label| Attribute::Label(label.as_bytes().to_vec())));
            wanted.extend(name.id.as_ref().map(|id| Attribute::Id(id.clone())));
            wanted
        };
        let mut keys = session.find_objects(&of_class(ObjectClass::PRIVATE_KEY))?.into_iter();
        let handle = match (keys.next(), keys.next()) {
            (Some(handle), None) => handle,
            (None, _) => return Ok(Err("is not in the token")),
            (Some(_), Some(_)) => return Ok(Err("matches several keys; select one with id=…")),
        };
        let public = session.find_objects(&of_class(ObjectClass::PUBLIC_KEY))?.first().copied();
        let attributes = |wanted: &[AttributeType]| -> Result<Vec<Attribute>, Error> {
            // The public half of an RSA key is also part of the private one.
            let mut found = session.get_attributes(public.unwrap_or(handle), wanted)?;
            if found.len() < wanted.len() {
                found = session.get_attributes(handle, wanted)?;
            }
            Ok(found)
        };
        let is_rsa = session
            .get_attributes(handle, &[AttributeType::KeyType])?
            .contains(&Attribute::KeyType(KeyType::RSA));
        if is_rsa {
            let found = attributes(&[AttributeType::Modulus, AttributeType::PublicExponent])?;
            let [Attribute::Modulus(modulus), Attribute::PublicExponent(exponent)] = &*found else {
                return Ok(Err("has no public key in the token"));
            };
            return Ok(Ok(Self { handle, kind: KeyFamily::Rsa, public: rsa_spki(modulus, exponent) }));
        }
        let found = attributes(&[AttributeType::EcParams, AttributeType::EcPoint])?;
        let [Attribute::EcParams(parameters), Attribute::EcPoint(point)] = &*found else {
            return Ok(Err("is not an RSA key, and has no public key of the same name in the token"));
        };
        Ok(match p256_spki(parameters, point) {
            Some(public) => Ok(Self { handle, kind: KeyFamily::P256, public }),
            None => Err("is neither an RSA key nor one on P-256"),
        })
    }
}

impl Key for TokenKey {
    fn kind(&self) -> KeyFamily {
        self.kind
    }

    fn public(&self) -> &[u8] {
        &self.public
    }

    fn sign(&self, scheme: Scheme, digest: &Digest) -> Result<Vec<u8>, NotSigned> {
        let is_of_kind = matches!(
            (self.kind, scheme),
            (KeyFamily::Rsa, Scheme::Pkcs1(_) | Scheme::Pss(_)) | (KeyFamily::P256, Scheme::P256)
        );
        if !is_of_kind {
            return Err(NotSigned);
        }
        let (mechanism, data) = (mechanism(scheme), to_sign(scheme, digest));
        let handle = || *self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let signed = self.pool.with(|session| match session.sign(&mechanism, handle(), &data) {
            Err(error) if !pool::is_session_lost(&error) => {
                // The key was replaced, or the token was removed for a while: look up the key once more.
                let Ok(found) = FoundObject::look(session, &self.name)? else { return Err(error) };
                if found.public != self.public {
                    return Err(error);
                }
                *self.handle.lock().unwrap_or_else(PoisonError::into_inner) = found.handle;
                session.sign(&mechanism, found.handle, &data)
            }
            signed => signed,
        });
        signed.map_err(|_| NotSigned)
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenKey").field(&self.name).field(&self.kind).finish()
    }
}

fn mechanism(scheme: Scheme) -> Mechanism<'static> {
    let parameters = |hash_alg, mgf, hash: Hash| PkcsPssParams {
        hash_alg,
        mgf,
        s_len: u64::try_from(hash.algorithm().output_len).unwrap_or_default().into(),
    };
    match scheme {
        Scheme::Pkcs1(_) => Mechanism::RsaPkcs,
        Scheme::P256 => Mechanism::Ecdsa,
        Scheme::Pss(hash) => {
            let (hash_alg, mgf) = match hash {
                Hash::Sha256 => (MechanismType::SHA256, PkcsMgfType::MGF1_SHA256),
                Hash::Sha384 => (MechanismType::SHA384, PkcsMgfType::MGF1_SHA384),
                Hash::Sha512 => (MechanismType::SHA512, PkcsMgfType::MGF1_SHA512),
            };
            Mechanism::RsaPkcsPss(parameters(hash_alg, mgf, hash))
        }
    }
}

/// The input for the token: in PKCS #1 v1.5, the identifier of the hash algorithm precedes the digest (RFC 8017 §9.2).
fn to_sign(scheme: Scheme, digest: &Digest) -> Vec<u8> {
    /// The bytes before the number of the hash algorithm.
    const DIGEST_INFO: [u8; 14] =
        [0x30, 0, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];
    let Scheme::Pkcs1(hash) = scheme else { return digest.as_ref().to_vec() };
    let number = match hash {
        Hash::Sha256 => 1,
        Hash::Sha384 => 2,
        Hash::Sha512 => 3,
    };
    let length = u8::try_from(digest.as_ref().len()).unwrap_or_default();
    let mut data = DIGEST_INFO.to_vec();
    data[1] = length + 17;
    data.extend_from_slice(&[number, 0x05, 0x00, 0x04, length]);
    data.extend_from_slice(digest.as_ref());
    data
}
