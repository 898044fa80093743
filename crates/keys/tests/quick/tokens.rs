//! Keys in a PKCS #11 token.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    VerificationAlgorithm,
};
use upesi_keys::{FileKey, Hash, Key, KeyFamily, Keys, PrivateKeyLocation, Scheme, TokenSettings, Tokens};
use upesi_pki::KeyKind;
use upesi_testsupport::softhsm::{PIN, SoftHsm};

const SCHEMES: [(Scheme, &dyn VerificationAlgorithm); 7] = [
    (Scheme::Pkcs1(Hash::Sha256), &RSA_PKCS1_2048_8192_SHA256),
    (Scheme::Pkcs1(Hash::Sha384), &RSA_PKCS1_2048_8192_SHA384),
    (Scheme::Pkcs1(Hash::Sha512), &RSA_PKCS1_2048_8192_SHA512),
    (Scheme::Pss(Hash::Sha256), &RSA_PSS_2048_8192_SHA256),
    (Scheme::Pss(Hash::Sha384), &RSA_PSS_2048_8192_SHA384),
    (Scheme::Pss(Hash::Sha512), &RSA_PSS_2048_8192_SHA512),
    (Scheme::P256, &ECDSA_P256_SHA256_FIXED),
];

fn keys(hsm: &SoftHsm, sessions_max: usize) -> Keys {
    let settings = TokenSettings { module: SoftHsm::module(), pin_file: hsm.path("pin"), sessions_max };
    Keys::with_tokens(Tokens::open(settings).unwrap())
}

fn open(keys: &Keys, uri: &str) -> Result<Arc<dyn Key>, String> {
    keys.open(&PrivateKeyLocation::parse(uri).unwrap()).map_err(|error| error.to_string())
}

/// Signs in all schemes. Schemes of the other type of key are rejected.
fn check_schemes(key: &dyn Key) {
    let message = b"{\"a\":1}";
    for (scheme, algorithm) in SCHEMES {
        let signature = key.sign(scheme, &scheme.hash().of(message));
        if (scheme == Scheme::P256) != (key.kind() == KeyFamily::P256) {
            assert!(signature.is_err(), "{scheme:?} by {key:?}");
            continue;
        }
        let public = ParsedPublicKey::new(algorithm, key.public()).unwrap();
        let signature = signature.unwrap();
        assert!(public.verify_sig(message, &signature).is_ok(), "{scheme:?} by {key:?}");
        assert!(public.verify_sig(b"{\"a\":2}", &signature).is_err());
    }
}

#[test]
fn token_keys_sign_like_file_keys() {
    let Some(hsm) = SoftHsm::of_test("tokens::token_keys_sign_like_file_keys") else { return };
    hsm.make_token("hub");
    hsm.make_key("hub", "signing", "01", KeyKind::Rsa2048);
    hsm.make_key("hub", "elliptic", "02", KeyKind::P256);
    hsm.pin_file(&format!("{PIN}\n"));
    let keys = keys(&hsm, 2);
    for (uri, file) in [
        ("pkcs11:token=hub;object=signing", "signing.key"),
        ("pkcs11:token=hub;id=%02", "elliptic.key"),
        ("pkcs11:token=hub;object=elliptic;id=%02;type=private", "elliptic.key"),
    ] {
        let (in_token, in_file) = (open(&keys, uri).unwrap(), FileKey::load(&hsm.path(file)).unwrap());
        assert_eq!((in_token.kind(), in_token.public()), (in_file.kind(), in_file.public()), "{uri}");
        check_schemes(&*in_token);
        check_schemes(&in_file);
    }
}

#[test]
fn many_signers_share_few_token_sessions() {
    let Some(hsm) = SoftHsm::of_test("tokens::many_signers_share_few_token_sessions") else { return };
    hsm.make_token("hub");
    hsm.make_key("hub", "signing", "01", KeyKind::P256);
    hsm.pin_file(PIN);
    let keys = keys(&hsm, 2);
    let key = open(&keys, "pkcs11:token=hub;object=signing").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    check_schemes(&*key);
                    assert!((1..=2).contains(&keys.sessions()), "{} sessions", keys.sessions());
                }
            });
        }
    });
}

#[test]
fn unusable_token_keys_are_reported() {
    let Some(hsm) = SoftHsm::of_test("tokens::unusable_token_keys_are_reported") else { return };
    hsm.make_token("hub");
    hsm.make_key("hub", "one", "01", KeyKind::P256);
    let pin_file = hsm.pin_file("4321");
    let keys = keys(&hsm, 1);
    let refused = |uri: &str| open(&keys, uri).unwrap_err();
    let uri = "pkcs11:token=hub;object=one";
    assert!(refused(uri).starts_with("the token hub: rejected the PIN in"), "{}", refused(uri));
    // A token locks itself after some wrong PINs, and the hub retries continuously.
    for _ in 0..20 {
        assert!(refused(uri).contains("is not tried again until the file changes"));
    }
    fs::set_permissions(&pin_file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refused(uri).contains("every user of this machine can read"));
    hsm.pin_file(PIN);
    check_schemes(&*open(&keys, uri).unwrap());
    for (uri, expected) in [
        ("pkcs11:token=nub;object=one", "the token nub: is not a token of the PKCS #11 module"),
        ("pkcs11:token=hub;object=two", "pkcs11:token=hub;object=two: is not in the token"),
        ("pkcs11:token=hub;object=one;id=%07", "object=one;id=%07: is not in the token"),
    ] {
        assert!(refused(uri).contains(expected), "{}", refused(uri));
    }
    hsm.import("hub", "one", "03", &hsm.path("one.key"));
    assert!(refused(uri).contains("matches several keys; select one with id"), "{}", refused(uri));
    let without = Keys::in_files().open(&PrivateKeyLocation::parse(uri).unwrap()).unwrap_err().to_string();
    assert!(without.contains("set pkcs11.module"), "{without}");
    let settings = TokenSettings { module: hsm.path("one.key"), pin_file: hsm.path("pin"), sessions_max: 1 };
    let error = Tokens::open(settings).unwrap_err().to_string();
    assert!(error.contains("one.key: cannot be loaded as a PKCS #11 module"), "{error}");
}
