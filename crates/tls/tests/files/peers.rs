//! Files of single peers: the valid authority, the shown certificate, and the content that stays in effect.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConnection, ServerConnection};
use tempfile::TempDir;
use upesi_keys::Keys;
use upesi_pki::{Authority, KeyKind, Order, Usage};
use upesi_tls::{
    ClientFiles, ClientTls, Identity, Protocols, ServerFiles, ServerTls, TlsError, Trust, present_s,
};

/// Authorities by name, each with a server's and a client's certificate, and a directory of files of single peers.
struct PeerPlace {
    directory: TempDir,
}

impl PeerPlace {
    fn new(names: &[&str]) -> Self {
        let place = Self { directory: TempDir::new().unwrap() };
        for name in names {
            let mut authority =
                Authority::init(&place.file(name), name, present_s(), 100, KeyKind::P256).unwrap();
            let server = Order::new("server", Usage::Server, present_s()).with_hosts(&["dfsp.example"]);
            authority.issue(&server).unwrap();
            let shown = format!("hub-at-{name}");
            authority.issue(&Order::new(&shown, Usage::Client, present_s())).unwrap();
            authority.make_list(present_s(), 30).unwrap();
        }
        fs::create_dir(place.file("own")).unwrap();
        place
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn identity(&self, name: &str) -> Identity {
        Identity {
            certificate_file: self.file(&format!("{name}.pem")),
            key_file: self.file(&format!("{name}.key")),
        }
    }

    fn trust(&self, authority: &str) -> Trust {
        let anchors_file = self.file(&format!("{authority}/ca.pem"));
        Trust { anchors_file, crl_file: None, refuses_stale_crls: false }
    }

    fn load(&self) -> Result<ClientTls, TlsError> {
        let identity = Some(self.identity("scheme/hub-at-scheme"));
        let files = ClientFiles { servers: self.trust("scheme"), identity };
        ClientTls::load_with_own(files, Some(self.file("own")), Keys::in_files(), Protocols::Http1)
    }

    /// Copies a file of an authority to a peer's file.
    fn give(&self, own: &str, from: &str) {
        fs::copy(self.file(from), self.file(&format!("own/{own}"))).unwrap();
    }

    fn take(&self, own: &str) {
        fs::remove_file(self.file(&format!("own/{own}"))).unwrap();
    }

    /// The certificate that a server of this authority is shown, if there is a connection.
    fn connects(&self, tls: &ClientTls, authority: &str) -> Option<String> {
        let identity = self.identity(&format!("{authority}/server"));
        let everybody = self.file("everybody.pem");
        let anchors: Vec<_> = fs::read_dir(self.directory.path())
            .unwrap()
            .filter_map(|entry| fs::read_to_string(entry.unwrap().path().join("ca.pem")).ok())
            .collect();
        fs::write(&everybody, anchors.concat()).unwrap();
        let clients = Trust { anchors_file: everybody, crl_file: None, refuses_stale_crls: false };
        let server = ServerTls::load(ServerFiles { identity, clients: Some(clients) }).unwrap();
        let name = ServerName::try_from("dfsp.example").unwrap();
        let mut client = ClientConnection::new(tls.config().ok()?, name).unwrap();
        let mut server = ServerConnection::new(server.config()).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            server.read_tls(&mut &*bytes).unwrap();
            server.process_new_packets().ok()?;
            let mut bytes = Vec::new();
            server.write_tls(&mut bytes).unwrap();
            client.read_tls(&mut &*bytes).unwrap();
            client.process_new_packets().ok()?;
        }
        let shown = server.peer_certificates().unwrap()[0].to_vec();
        let known = |name: &str| {
            let path = self.file(&format!("{name}/hub-at-{name}.pem"));
            path.exists() && CertificateDer::from_pem_file(path).unwrap().to_vec() == shown
        };
        ["scheme", "green", "blue"].into_iter().find(|name| known(name)).map(str::to_owned)
    }
}

fn shown(name: &str) -> Option<String> {
    Some(name.to_owned())
}

#[test]
fn peer_with_its_own_authority_is_not_verified_by_others() {
    let place = PeerPlace::new(&["scheme", "green", "blue"]);
    place.give("greenbank.anchors.pem", "green/ca.pem");
    place.give("greenbank.pem", "green/hub-at-green.pem");
    place.give("greenbank.key", "green/hub-at-green.key");
    place.give("bluewallet.anchors.pem", "blue/ca.pem");
    fs::write(place.file("own/notes.txt"), "for people").unwrap();
    let tls = place.load().unwrap();
    // A peer is verified by its own authority only: the scheme's authority does not apply to it, and its authority does
    // not apply to other peers.
    for (peer, authority, expected) in [
        ("greenbank", "green", shown("green")),
        ("greenbank", "blue", None),
        ("greenbank", "scheme", None),
        ("bluewallet", "blue", shown("scheme")),
        ("bluewallet", "green", None),
        ("bluewallet", "scheme", None),
        ("redcoop", "scheme", shown("scheme")),
        ("redcoop", "green", None),
        ("Greenbank", "green", None),
        ("notes", "scheme", shown("scheme")),
    ] {
        assert_eq!(place.connects(&tls.of(peer), authority), expected, "{peer} of {authority}");
    }
    assert_eq!(place.connects(&tls, "scheme"), shown("scheme"));
    assert_eq!(place.connects(&tls, "green"), None);
    // Each expiring item is listed once: three authorities, two certificates of the hub.
    let mut names: Vec<_> = tls.stock().into_iter().map(|item| item.name).collect();
    names.sort();
    assert_eq!(names, ["CN=blue", "CN=green", "CN=hub-at-green", "CN=hub-at-scheme", "CN=scheme"]);
}

#[test]
fn peer_files_are_reloaded_without_a_restart_and_affect_only_that_peer() {
    let place = PeerPlace::new(&["scheme", "green", "blue"]);
    let tls = place.load().unwrap();
    let (green, red) = (tls.of("greenbank"), tls.of("redcoop"));
    let generations = || (green.generation(), red.generation());
    assert_eq!(generations(), (0, 0));
    assert!(!tls.reload().unwrap());

    place.give("greenbank.anchors.pem", "green/ca.pem");
    assert!(tls.reload().unwrap());
    assert_eq!(place.connects(&green, "green"), shown("scheme"));
    assert_eq!(place.connects(&green, "scheme"), None);
    assert_eq!((generations(), tls.reload().unwrap()), ((1, 0), false));

    // The file contains both authorities while the peer changes, then only the new one.
    let both = [place.file("green/ca.pem"), place.file("blue/ca.pem")].map(|path| fs::read(path).unwrap());
    fs::write(place.file("own/greenbank.anchors.pem"), both.concat()).unwrap();
    assert!(tls.reload().unwrap());
    assert_eq!(["green", "blue"].map(|of| place.connects(&green, of)), [shown("scheme"), shown("scheme")]);
    place.give("greenbank.anchors.pem", "blue/ca.pem");
    assert!(tls.reload().unwrap());
    assert_eq!(["green", "blue"].map(|of| place.connects(&green, of)), [None, shown("scheme")]);
    assert_eq!(generations(), (3, 0));

    place.take("greenbank.anchors.pem");
    assert!(tls.reload().unwrap());
    assert_eq!(["scheme", "blue"].map(|of| place.connects(&green, of)), [shown("scheme"), None]);
    assert_eq!(generations(), (4, 0), "connections of before are not used on");
}

#[test]
fn hub_starts_with_unusable_files_of_one_peer() {
    let place = PeerPlace::new(&["scheme", "green", "blue"]);
    fs::write(place.file("own/redcoop.anchors.pem"), "x").unwrap();
    fs::write(place.file("own/yellow.key"), "x").unwrap();
    place.give("bluewallet.anchors.pem", "blue/ca.pem");
    let tls = place.load().unwrap();
    let problems: Vec<_> = tls.unusable_at_start().iter().collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].1.ends_with("redcoop.anchors.pem has no certificate in PEM (BEGIN CERTIFICATE)"));
    assert!(problems[1].1.ends_with("yellow.key has no effect without yellow.anchors.pem"));
    // No other authority replaces them, and the other peers can still be called.
    for (peer, authority, expected) in
        [("redcoop", "scheme", None), ("yellow", "scheme", None), ("bluewallet", "blue", shown("scheme"))]
    {
        let connected = tls.of(peer).config().ok().and_then(|_| place.connects(&tls.of(peer), authority));
        assert_eq!(connected, expected, "{peer}");
    }
    assert!(tls.reload().is_err(), "they are reported at each reading");
    place.give("redcoop.anchors.pem", "green/ca.pem");
    place.take("yellow.key");
    assert!(tls.reload().unwrap());
    assert_eq!(place.connects(&tls.of("redcoop"), "green"), shown("scheme"));
    // A byte-order mark is allowed.
    let text = fs::read(place.file("green/ca.pem")).unwrap();
    fs::write(place.file("own/redcoop.anchors.pem"), [b"\xef\xbb\xbf", &*text].concat()).unwrap();
    assert!(tls.reload().unwrap());
    assert_eq!(place.connects(&tls.of("redcoop"), "green"), shown("scheme"));
}

#[test]
fn unusable_peer_files_keep_the_earlier_ones_active() {
    let place = PeerPlace::new(&["scheme", "green", "blue"]);
    place.give("greenbank.anchors.pem", "green/ca.pem");
    place.give("greenbank.crl.pem", "green/crl.pem");
    let tls = place.load().unwrap();
    let in_force = tls.of("greenbank").config().unwrap();
    for (file, content, expected) in [
        ("greenbank.anchors.pem", "", "greenbank.anchors.pem has no certificate in PEM"),
        ("greenbank.crl.pem", "x", "greenbank.crl.pem has no revocation list in PEM"),
        ("greenbank.pem", "x", "greenbank.pem has no certificate in PEM"),
        ("greenbank.key", "x", "greenbank.pem: No such file"),
    ] {
        let path = place.file(&format!("own/{file}"));
        let before = fs::read(&path).ok();
        fs::write(&path, content).unwrap();
        let error = tls.reload().unwrap_err().to_string();
        assert!(error.contains(expected), "{file}: {error}");
        assert!(Arc::ptr_eq(&tls.of("greenbank").config().unwrap(), &in_force), "{file}");
        match before {
            Some(before) => fs::write(&path, before).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        assert!(!tls.reload().unwrap(), "{file} is as before");
    }
    // A list that is older than the present one, or that is removed together with its anchors.
    let mut green = Authority::open(&place.file("green")).unwrap();
    let older = fs::read(place.file("green/crl.pem")).unwrap();
    green.make_list(present_s(), 30).unwrap();
    place.give("greenbank.crl.pem", "green/crl.pem");
    assert!(tls.reload().unwrap());
    fs::write(place.file("own/greenbank.crl.pem"), older).unwrap();
    assert!(tls.reload().unwrap_err().to_string().contains("the number of a list must not decrease"));
    place.take("greenbank.anchors.pem");
    assert!(tls.reload().unwrap_err().to_string().contains("has no effect without greenbank.anchors.pem"));
    assert_eq!(place.connects(&tls.of("greenbank"), "scheme"), None);
    place.give("greenbank.anchors.pem", "green/ca.pem");
    place.give("greenbank.crl.pem", "green/crl.pem");
    assert!(!tls.reload().unwrap());

    // A peer with such files gets no default authority. Valid files of other peers are loaded.
    fs::write(place.file("own/redcoop.anchors.pem"), "x").unwrap();
    place.give("bluewallet.anchors.pem", "blue/ca.pem");
    assert!(tls.reload().is_err());
    assert!(tls.of("redcoop").config().is_err());
    assert_eq!(place.connects(&tls.of("bluewallet"), "blue"), shown("scheme"));
    // The directory is removed: nothing changes.
    fs::rename(place.file("own"), place.file("elsewhere")).unwrap();
    assert!(tls.reload().is_err());
    assert_eq!(place.connects(&tls.of("bluewallet"), "blue"), shown("scheme"));
}
