use std::fs;

use rcgen::{CertificateParams, DnType, IsCa, KeyPair};
use tempfile::TempDir;
use upesi_keys::PrivateKeyLocation as Key;
use upesi_pki::{Authority, KeyKind, Order, Usage};
use upesi_settings::{Sources, load};

use super::*;

/// Authorities of DFSPs, operators and nodes, and a hub with a port for each.
struct Place {
    directory: TempDir,
    settings: Settings,
}

impl Place {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        for name in ["dfsps", "operators", "nodes"] {
            let now = present_s();
            let made = Authority::init(&directory.path().join(name), name, now, 100, KeyKind::P256);
            let order = Order::new("hub", Usage::Node, now).with_hosts(&["127.0.0.1"]);
            made.unwrap().issue(&order).unwrap();
        }
        let mut settings = load(&Sources::default()).unwrap().settings;
        let file = |name: &str| directory.path().join(name);
        let (fspiop, admin, nodes) =
            (&mut settings.fspiop_tls.port, &mut settings.admin_tls, &mut settings.cluster_tls);
        (fspiop.mode, admin.mode) = (TlsMode::Mutual, TlsMode::Mutual);
        settings.cluster.listen = Some(([127, 0, 0, 1], 0).into());
        fspiop.anchors_file = Some(file("dfsps/ca.pem"));
        admin.anchors_file = Some(file("operators/ca.pem"));
        nodes.anchors_file = Some(file("nodes/ca.pem"));
        for tls in [fspiop, admin, nodes] {
            tls.certificate_file = Some(file("nodes/hub.pem"));
            tls.key_file = Some(Key::File(file("nodes/hub.key")));
        }
        Self { directory, settings }
    }

    fn load(&self) -> Result<Tls, HubError> {
        Tls::load(&self.settings, &Keys::in_files())
    }

    fn ca(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name).join("ca.pem")).unwrap()
    }

    fn write_ca(&self, name: &str, pem: &str) {
        fs::write(self.directory.path().join(name).join("ca.pem"), pem).unwrap();
    }

    /// Another certificate of an authority, with its key and another name.
    fn reissued(&self, name: &str, as_name: &str) -> String {
        let key = fs::read_to_string(self.directory.path().join(name).join("ca.key")).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, as_name);
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.self_signed(&KeyPair::from_pem(&key).unwrap()).unwrap().pem()
    }
}

#[test]
fn each_port_has_its_own_handshake_thread() {
    let tls = Place::new().load().unwrap();
    let ports = tls.ports().into_iter().filter_map(|(.., secured)| secured);
    let mut workers: Vec<_> = ports.map(|secured| secured.worker.index()).collect();
    workers.sort_unstable();
    assert_eq!(workers, [0, 1, 2], "of DFSPs, operators and nodes");
    tls.shutdown();
}

#[test]
fn authority_of_nodes_cannot_be_another_one_even_if_reissued() {
    let place = Place::new();
    let nodes = place.ca("nodes");
    for (name, as_name) in [("dfsps", "dfsps"), ("dfsps", "x"), ("operators", "operators")] {
        for pem in [place.ca(name), place.reissued(name, as_name), nodes.clone() + &place.ca(name)] {
            place.write_ca("nodes", &pem);
            let refused = place.load().err().map(|error| error.to_string()).unwrap_or_default();
            assert!(refused.contains("use a separate authority for nodes"), "{name}: {refused:?}");
        }
    }
    place.write_ca("nodes", &nodes);
    place.load().unwrap().shutdown();
}

#[test]
fn reload_rejects_the_authority_of_nodes_as_another_one() {
    let place = Place::new();
    let tls = place.load().unwrap();
    let in_force = || tls.ports().map(|(.., secured)| secured.map(|secured| secured.tls.authorities()));
    let before = in_force();
    for (name, of) in [("nodes", "dfsps"), ("nodes", "operators"), ("dfsps", "nodes"), ("operators", "nodes")]
    {
        let sound = place.ca(name);
        place.write_ca(name, &place.reissued(of, of));
        assert!(!tls.reload(), "{name} with the authority of {of}");
        assert!(tls.is_failing.load(Ordering::Relaxed), "{name} with the authority of {of}");
        assert_eq!(in_force(), before);
        place.write_ca(name, &sound);
        assert!(!tls.reload() && !tls.is_failing.load(Ordering::Relaxed));
    }
    // The client side of the nodes' TLS did not change either.
    assert_eq!(tls.to_nodes().unwrap().generation(), 0);
    // An authority's certificate that it has issued again is accepted.
    place.write_ca("nodes", &place.reissued("nodes", "nodes"));
    assert!(tls.reload());
    assert_eq!(tls.to_nodes().unwrap().generation(), 1);
    tls.shutdown();
}
