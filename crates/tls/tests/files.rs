//! Rejected files, and the content that stays in effect.

#[path = "files/peers.rs"]
mod peers;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use tempfile::TempDir;
use upesi_pki::{Authority, KeyKind, Order, Usage};
use upesi_tls::{Identity, ServerFiles, ServerTls, TlsFileKind, Trust, present_s};

struct Place {
    directory: TempDir,
    authority: Authority,
}

impl Place {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let authority =
            Authority::init(directory.path(), "Green Scheme", present_s(), 100, KeyKind::P256).unwrap();
        let mut place = Self { directory, authority };
        place.issue("hub");
        place
    }

    fn issue(&mut self, name: &str) {
        self.authority
            .issue(&Order::new(name, Usage::Server, present_s()).with_hosts(&["hub.example"]))
            .unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn files(&self) -> ServerFiles {
        let identity = Identity { certificate_file: self.file("hub.pem"), key_file: self.file("hub.key") };
        let clients = Trust {
            anchors_file: self.file("ca.pem"),
            crl_file: Some(self.file("crl.pem")),
            refuses_stale_crls: false,
        };
        ServerFiles { identity, clients: Some(clients) }
    }
}

#[test]
fn active_certificates_are_listed_with_their_expiry() {
    let place = Place::new();
    let tls = ServerTls::load(place.files()).unwrap();
    let entry = place.authority.entries()[0].clone();
    let stock: Vec<_> =
        tls.stock().into_iter().map(|item| (item.kind, item.name, item.not_after_s)).collect();
    let days = |days: i64| (days - 1) * 86_400..=days * 86_400;
    assert_eq!(stock[0], (TlsFileKind::Certificate, "CN=hub".to_owned(), entry.not_after_s));
    assert_eq!((stock[1].0, &*stock[1].1), (TlsFileKind::Anchor, "CN=Green Scheme"));
    assert!(days(100).contains(&(stock[1].2 - present_s())));
    assert_eq!((stock[2].0, &*stock[2].1), (TlsFileKind::Crl, "CN=Green Scheme"));
    assert!(days(30).contains(&(stock[2].2 - present_s())));
    assert_eq!(tls.stock()[0].serial, entry.serial);
    assert_eq!(tls.stock()[2].serial, "01");
    assert_eq!(stock.len(), 3);
}

#[test]
fn world_readable_key_is_rejected() {
    let place = Place::new();
    for (mode, accepted) in [(0o600, true), (0o640, true), (0o644, false), (0o604, false), (0o602, false)] {
        fs::set_permissions(place.file("hub.key"), fs::Permissions::from_mode(mode)).unwrap();
        let loaded = ServerTls::load(place.files());
        assert_eq!(loaded.is_ok(), accepted, "{mode:o}");
        if let Err(error) = loaded {
            let text = error.to_string();
            assert!(text.contains("every user") && text.contains("chmod 600"), "{text}");
        }
    }
    // Also through a link: the target's mode counts.
    fs::rename(place.file("hub.key"), place.file("elsewhere")).unwrap();
    std::os::unix::fs::symlink(place.file("elsewhere"), place.file("hub.key")).unwrap();
    assert!(ServerTls::load(place.files()).is_err());
}

#[test]
fn unusable_files_are_reported_and_change_nothing() {
    let mut place = Place::new();
    place.issue("other");
    let other = TempDir::new().unwrap();
    Authority::init(other.path(), "Green Scheme", present_s(), 100, KeyKind::P256).unwrap();
    let read = |file: PathBuf| fs::read(file).unwrap();
    let older_list = read(place.file("crl.pem"));
    place.authority.make_list(present_s(), 30).unwrap();
    let tls = ServerTls::load(place.files()).unwrap();
    let in_force = tls.config();
    for (file, content, expected) in [
        ("hub.pem", Some(b"".to_vec()), "hub.pem has no certificate in PEM"),
        ("hub.pem", Some(read(place.file("hub.key"))), "hub.pem has no certificate in PEM"),
        ("hub.pem", None, "hub.pem: No such file"),
        ("hub.key", Some(b"-----BEGIN".to_vec()), "hub.key has no private key in PEM"),
        ("hub.key", Some(read(place.file("other.key"))), "hub.key does not belong to the certificate in"),
        ("ca.pem", Some(b"x".to_vec()), "ca.pem has no certificate in PEM"),
        ("crl.pem", Some(read(place.file("ca.pem"))), "crl.pem has no revocation list in PEM"),
        ("crl.pem", Some(read(other.path().join("crl.pem"))), "has a list that CN=Green Scheme did not sign"),
        ("crl.pem", Some(older_list), "has the list number 0x01 of CN=Green Scheme, but 0x02 is in use"),
    ] {
        let sound = read(place.file(file));
        match content {
            Some(content) => fs::write(place.file(file), content).unwrap(),
            None => fs::remove_file(place.file(file)).unwrap(),
        }
        let error = tls.reload().unwrap_err().to_string();
        assert!(error.contains(expected), "{file}: {error}");
        assert!(std::sync::Arc::ptr_eq(&tls.config(), &in_force), "{file}");
        fs::write(place.file(file), sound).unwrap();
        fs::set_permissions(place.file("hub.key"), fs::Permissions::from_mode(0o600)).unwrap();
        assert!(!tls.reload().unwrap(), "{file} is as before");
    }
}

/// Activates a version of a secret as a Kubernetes mount does: a new directory, then one link replaces another.
fn swap(mount: &std::path::Path, version: &str, files: &[(&str, Vec<u8>)]) {
    let directory = mount.join(version);
    fs::create_dir_all(&directory).unwrap();
    for (name, bytes) in files {
        fs::write(directory.join(name), bytes).unwrap();
        fs::set_permissions(directory.join(name), fs::Permissions::from_mode(0o400)).unwrap();
        let link = mount.join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(std::path::Path::new("..data").join(name), link).unwrap();
        }
    }
    std::os::unix::fs::symlink(version, mount.join("..data_tmp")).unwrap();
    fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
}

#[test]
fn changed_secret_mount_is_reloaded() {
    let mut place = Place::new();
    place.issue("next");
    let mount = TempDir::new().unwrap();
    let of = |name: &str| {
        let read = |ending: &str| fs::read(place.file(&format!("{name}.{ending}"))).unwrap();
        [("hub.pem", read("pem")), ("hub.key", read("key"))]
    };
    swap(mount.path(), "..first", &of("hub"));
    let identity =
        Identity { certificate_file: mount.path().join("hub.pem"), key_file: mount.path().join("hub.key") };
    let tls = ServerTls::load(ServerFiles { identity, ..place.files() }).unwrap();
    let subject = || tls.stock()[0].name.clone();
    assert_eq!(subject(), "CN=hub");
    assert!(!tls.reload().unwrap());
    swap(mount.path(), "..second", &of("next"));
    fs::remove_dir_all(mount.path().join("..first")).unwrap();
    assert!(tls.reload().unwrap());
    assert_eq!(subject(), "CN=next");
    // If a version cannot be used, the previous one stays in effect.
    swap(
        mount.path(),
        "..third",
        &[("hub.pem", of("hub")[0].1.clone()), ("hub.key", of("next")[1].1.clone())],
    );
    assert!(tls.reload().unwrap_err().to_string().contains("does not belong to the certificate"));
    assert_eq!(subject(), "CN=next");
}
