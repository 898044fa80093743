//! Keys in files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::TempDir;
use upesi_keys::{KeyFamily, Keys, PrivateKeyLocation};
use upesi_pki::{KeyKind, SigningKey};

fn open(path: &Path) -> Result<KeyFamily, String> {
    let opened = Keys::in_files().open(&PrivateKeyLocation::File(path.to_owned()));
    opened.map(|key| key.kind()).map_err(|error| error.to_string())
}

#[test]
fn key_files_are_opened_and_unusable_ones_reported() {
    let directory = TempDir::new().unwrap();
    let make = |name: &str, kind| SigningKey::make(directory.path(), name, kind).unwrap();
    let (rsa, p256) = (make("rsa", KeyKind::Rsa2048), make("p256", KeyKind::P256));
    assert_eq!((open(&rsa.key_file), open(&p256.key_file)), (Ok(KeyFamily::Rsa), Ok(KeyFamily::P256)));
    let file = directory.path().join("file");
    let write = |text: &str| {
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let pem = fs::read_to_string(&p256.key_file).unwrap();
    write(&pem.replace('\n', "\\r\\n"));
    assert_eq!(open(&file), Ok(KeyFamily::P256), "line ends in letters");
    for (text, expected) in [
        (String::new(), "file does not have one private key in PEM"),
        (format!("{pem}{pem}"), "file does not have one private key in PEM"),
        (fs::read_to_string(&p256.public_file).unwrap(), "file does not have one private key in PEM"),
        (pem[..pem.len() / 2].to_owned(), "file is not valid PEM"),
        ("-----BEGIN PRIVATE KEY-----\nAQID\n-----END PRIVATE KEY-----\n".to_owned(), "neither RSA"),
        ("x".repeat(300_000), "is larger than"),
    ] {
        write(&text);
        let error = open(&file).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    fs::set_permissions(&p256.key_file, fs::Permissions::from_mode(0o604)).unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&p256.key_file, &link).unwrap();
    for path in [&p256.key_file, &link] {
        let error = open(path).unwrap_err();
        assert!(error.contains("every user") && error.contains("chmod 600"), "{error}");
    }
    fs::remove_file(&p256.key_file).unwrap();
    assert!(open(&link).unwrap_err().contains("No such file"));
}
