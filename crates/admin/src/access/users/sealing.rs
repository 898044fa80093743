//! The secret of a second factor, sealed under a password. The sealing key is derived from the password with Argon2id.
//! So neither of them is stored, and the tag shows whether a password is right. If the hub has a secret outside its
//! data, it is mixed into the key. Then the data alone is not sufficient to try passwords.

use std::fmt;

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{hmac, rand};
use upesi_keys::Secret;
use upesi_ledger::{SEED_BYTES, SealedSecret};
use upesi_types::Timestamp;

/// Minimum number of characters of a password.
pub(crate) const PASSWORD_CHARS_MIN: usize = 12;
/// Maximum length of a password, in bytes.
pub(crate) const PASSWORD_BYTES_MAX: usize = 512;
/// Memory and passes of Argon2id: the second row of OWASP's table, with one lane.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
/// Maximum memory that a stored password may require, so that write access to the journal is not sufficient to exhaust
/// the memory.
const MEMORY_KIB_MAX: u32 = 64 * 1024;
const PASSES_MAX: u32 = 8;

/// A password. It prints as a mask.
#[derive(Clone)]
pub(crate) struct Password(String);

impl Password {
    /// A password for a login.
    pub(crate) fn shown(text: String) -> Option<Self> {
        (text.len() <= PASSWORD_BYTES_MAX).then_some(Self(text))
    }

    /// A newly chosen password; `None` if it is too short. Other rules do not make passwords stronger.
    pub(crate) fn chosen(text: String) -> Option<Self> {
        let is_long = text.chars().count() >= PASSWORD_CHARS_MIN;
        Self::shown(text).filter(|_| is_long)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The secret of a second factor. It prints as a mask.
#[derive(Clone)]
pub(crate) struct Seed([u8; SEED_BYTES]);

impl Seed {
    /// A new secret; `None` if the system returned no random bits.
    pub(crate) fn random() -> Option<Self> {
        let mut bytes = [0; SEED_BYTES];
        rand::fill(&mut bytes).ok()?;
        Some(Self(bytes))
    }

    pub(crate) const fn bytes(&self) -> &[u8; SEED_BYTES] {
        &self.0
    }

    #[cfg(test)]
    pub(crate) const fn of(bytes: [u8; SEED_BYTES]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Seals the secret of an operator under a password and the hub's secret, if it has one; `None` if the system returned
/// no random bits or memory.
pub(crate) fn seal(
    password: &Password,
    hubs: Option<&Secret>,
    operator: &str,
    seed: &Seed,
) -> Option<SealedSecret> {
    let mut salt = [0; 16];
    rand::fill(&mut salt).ok()?;
    let unsealed = SealedSecret { salt, memory_kib: MEMORY_KIB, passes: PASSES, secret: [0; _] };
    let hashed = hash(password, &unsealed)?;
    let key = hubs.map_or_else(|| key(&hashed), |hubs| key(&mix(hubs, &hashed)))?;
    let mut secret = [0; _];
    let (text, tag) = secret.split_at_mut(SEED_BYTES);
    text.copy_from_slice(seed.bytes());
    let made = key.seal_in_place_separate_tag(nonce(), Aad::from(operator), text).ok()?;
    tag.copy_from_slice(made.as_ref());
    Some(SealedSecret { secret, ..unsealed })
}

/// The unsealed secret of an operator.
#[derive(Clone, Debug)]
pub(crate) struct UnsealedSecret {
    pub(crate) seed: Seed,
    /// Whether the hub now has a secret, but had none when this was sealed.
    pub(crate) is_weak: bool,
}

/// Unseals the secret of an operator, if the password is right.
pub(crate) fn open(
    password: &Password,
    hubs: Option<&Secret>,
    operator: &str,
    sealed: &SealedSecret,
) -> Option<UnsealedSecret> {
    if sealed.memory_kib > MEMORY_KIB_MAX || sealed.passes > PASSES_MAX {
        return None;
    }
    let hashed = hash(password, sealed)?;
    let by = |bytes: &[u8; 32]| {
        let mut secret = sealed.secret;
        let opened = key(bytes)?.open_in_place(nonce(), Aad::from(operator), &mut secret).ok()?;
        Some(Seed((&*opened).try_into().ok()?))
    };
    let mixed = hubs.and_then(|hubs| by(&mix(hubs, &hashed)));
    match mixed {
        Some(seed) => Some(UnsealedSecret { seed, is_weak: false }),
        None => by(&hashed).map(|seed| UnsealedSecret { seed, is_weak: hubs.is_some() }),
    }
}

/// Sealed data for an unknown operator, so that the attempt takes equally long.
pub(crate) fn decoy() -> SealedSecret {
    SealedSecret { salt: [0; 16], memory_kib: MEMORY_KIB, passes: PASSES, secret: [0; _] }
}

fn hash(password: &Password, sealed: &SealedSecret) -> Option<[u8; 32]> {
    let params = Params::new(sealed.memory_kib, sealed.passes, 1, None).ok()?;
    let mut hashed = [0; 32];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into(password.0.as_bytes(), &sealed.salt, &mut hashed).ok()?;
    Some(hashed)
}

/// Mixes the hub's secret into the hash of a password, which is useless without it.
fn mix(hubs: &Secret, hashed: &[u8; 32]) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, hubs.bytes()), hashed);
    let mut mixed = [0; 32];
    mixed.copy_from_slice(tag.as_ref());
    mixed
}

fn key(bytes: &[u8; 32]) -> Option<LessSafeKey> {
    Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes).ok()?))
}

/// A constant, because each key seals only once: its salt is always new.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

// Time-based codes of a second factor: RFC 6238 with SHA-1, six digits and 30 seconds, as in all authenticator apps.

/// Duration of a code's interval, in milliseconds.
const STEP_MS: i64 = 30_000;
/// Digits of a code.
const DIGITS: u32 = 6;
/// The alphabet of RFC 4648 §6.
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The interval of a valid code: the current one, the previous or the next. If several have the same code, it is the
/// latest.
pub(crate) fn step_of(seed: &Seed, code: &str, now: Timestamp) -> Option<u64> {
    if code.len() != DIGITS as usize {
        return None;
    }
    let now = u64::try_from(now.as_ms().div_euclid(STEP_MS)).ok()?;
    let is_right =
        |step: &u64| verify_slices_are_equal(code_at(seed, *step).as_bytes(), code.as_bytes()).is_ok();
    (now.saturating_sub(1)..=now + 1).rev().find(is_right)
}

/// The code of an interval.
fn code_at(seed: &Seed, step: u64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, seed.bytes());
    let tag = hmac::sign(&key, &step.to_be_bytes());
    let bytes = tag.as_ref();
    let offset = usize::from(bytes[bytes.len() - 1] & 0x0f);
    let number = bytes[offset..offset + 4].iter().fold(0, |number: u32, byte| number << 8 | u32::from(*byte));
    format!("{:06}", (number & 0x7fff_ffff) % 10_u32.pow(DIGITS))
}

/// The secret as users type it into an app.
pub(crate) fn base32(seed: &Seed) -> String {
    // 20 bytes are exactly 32 letters.
    let letter = |index: usize| {
        let bit = index * 5;
        let pair = seed.bytes()[bit / 8..].iter().copied().chain([0]).take(2);
        let pair = pair.fold(0_u16, |pair, byte| pair << 8 | u16::from(byte));
        char::from(BASE32[usize::from(pair >> (11 - bit % 8)) & 31])
    };
    (0..seed.bytes().len() * 8 / 5).map(letter).collect()
}

/// The secret as apps read it from a QR code.
pub(crate) fn device_uri(seed: &Seed, operator: &str) -> String {
    let operator = operator.replace('@', "%40");
    format!("otpauth://totp/Upesi:{operator}?secret={}&issuer=Upesi", base32(seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(text: &str) -> Password {
        Password::chosen(text.to_owned()).unwrap()
    }

    #[test]
    fn sealed_secret_opens_only_with_the_password_of_its_operator() {
        let seed = Seed::of(*b"12345678901234567890");
        let right = password("correct horse battery");
        let sealed = seal(&right, None, "amina", &seed).unwrap();
        let opened = |password: &Password, operator: &str, sealed: &SealedSecret| {
            open(password, None, operator, sealed).map(|opened| *opened.seed.bytes())
        };
        assert_eq!(opened(&right, "amina", &sealed), Some(*seed.bytes()));
        assert_eq!(opened(&right, "brian", &sealed), None);
        assert_eq!(opened(&password("correct horse batterz"), "amina", &sealed), None);
        let mut changed = sealed;
        changed.secret[3] ^= 1;
        assert_eq!(opened(&right, "amina", &changed), None);
        assert_eq!(opened(&right, "amina", &SealedSecret { passes: 3, ..sealed }), None);
        assert_eq!(opened(&right, "amina", &SealedSecret { memory_kib: MEMORY_KIB_MAX + 1, ..sealed }), None);
        assert_eq!(opened(&right, "amina", &decoy()), None);
        // The stored data contains no part of the secret, and two seals always differ.
        assert!(!sealed.secret.windows(4).any(|part| seed.bytes().windows(4).any(|other| other == part)));
        let again = seal(&right, None, "amina", &seed).unwrap();
        assert!(again.salt != sealed.salt && again.secret != sealed.secret);
    }

    /// A secret of a key that is made for this test.
    fn hubs() -> Secret {
        let directory = tempfile::TempDir::new().unwrap();
        let made =
            upesi_pki::SigningKey::make(directory.path(), "people", upesi_pki::KeyKind::Rsa2048).unwrap();
        let place = upesi_keys::PrivateKeyLocation::parse(made.key_file.to_str().unwrap()).unwrap();
        upesi_keys::Keys::in_files().secret(&place, "a test").unwrap()
    }

    #[test]
    fn sealed_secret_opens_only_with_the_same_secret_of_the_hub() {
        let (seed, right) = (Seed::of(*b"12345678901234567890"), password("correct horse battery"));
        let (hubs, other) = (hubs(), hubs());
        let weak_by = |with: Option<&Secret>, sealed: &SealedSecret| {
            let opened = open(&right, with, "amina", sealed)?;
            assert_eq!(opened.seed.bytes(), seed.bytes());
            Some(opened.is_weak)
        };
        let sealed = seal(&right, Some(&hubs), "amina", &seed).unwrap();
        assert_eq!(weak_by(Some(&hubs), &sealed), Some(false));
        assert_eq!((weak_by(None, &sealed), weak_by(Some(&other), &sealed)), (None, None), "a stolen backup");
        // From a time before the hub had a secret.
        let sealed = seal(&right, None, "amina", &seed).unwrap();
        assert_eq!((weak_by(None, &sealed), weak_by(Some(&hubs), &sealed)), (Some(false), Some(true)));
        assert!(open(&password("correct horse batterz"), Some(&hubs), "amina", &sealed).is_none());
    }

    #[test]
    fn password_must_be_long_and_prints_as_a_mask() {
        for (text, is_good) in [
            ("twelve chars", true),
            ("eleven char", false),
            ("zwölf Zeiche", true),
            ("ääääääääääää", true),
            ("            ", true),
            (&"a".repeat(PASSWORD_BYTES_MAX), true),
            (&"a".repeat(PASSWORD_BYTES_MAX + 1), false),
        ] {
            assert_eq!(Password::chosen(text.to_owned()).is_some(), is_good, "{text}");
        }
        assert_eq!(format!("{:?}{:?}", password("correct horse battery"), Seed::random().unwrap()), "……");
    }

    /// RFC 6238, appendix B; codes of six digits are the ends of its codes. Its last moment is beyond the hub's time.
    #[test]
    fn codes_match_the_vectors_of_rfc_6238() {
        let seed = Seed::of(*b"12345678901234567890");
        for (second, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
        ] {
            let now = Timestamp::from_ms(second * 1_000);
            let step = u64::try_from(second / 30).unwrap();
            assert_eq!(step_of(&seed, code, now), Some(step), "{second}");
            for (after_ms, expected) in
                [(-60_000, None), (-30_000, Some(step)), (30_000, Some(step)), (60_000, None)]
            {
                assert_eq!(step_of(&seed, code, now.plus_ms(after_ms)), expected, "{second} {after_ms}");
            }
            for wrong in ["", "00000", "28708", &format!("0{code}"), &format!("{code} "), "28７08"] {
                assert_eq!(step_of(&seed, wrong, now), None, "{wrong}");
            }
        }
    }

    /// RFC 4648 defines the alphabet. The text is the well-known one of this secret.
    #[test]
    fn secret_is_encoded_as_base32_and_as_uri() {
        let seed = Seed::of(*b"12345678901234567890");
        assert_eq!(base32(&seed), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
        let expected =
            "otpauth://totp/Upesi:amina%40bank?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Upesi";
        assert_eq!(device_uri(&seed, "amina@bank"), expected);
    }
}
