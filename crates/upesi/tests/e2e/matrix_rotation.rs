//! Group G of the matrix: keys, certificates, authorities and lists are replaced under load, or cannot be used, and no
//! valid message fails. Payments use both existing and new connections. Each message is signed, and each receiver
//! verifies it. Wrong clocks: `wrong_clock.rs`; a provider's keys: `upesi-admin`, `oidc`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use upesi_jws::{KeyRing, PrivateKey, SIGNATURE};
use upesi_pki::{Authority, KeyKind, SigningKey, Usage};
use upesi_tls::present_s;

use crate::common;
use crate::common::World;
use crate::common::dfsp::Dfsp;
use crate::common::message::{Message, Sent, Terms};
use crate::common::secure::{Caller, Pki};
use crate::common::signed::{Keys, is_genuine, signed_by};

/// Replacements and faults under load, and faults at a start.
const CASES_MIN: usize = 120;

// ---- the load ----

/// Certificates and keys of a payer and its payee.
struct Side {
    payer: Caller,
    payee: Caller,
    payer_key: PrivateKey,
}

/// Payments from greenbank to bluewallet until they are stopped.
struct Load {
    sides: [Mutex<Arc<Side>>; 2],
    payee_key: PrivateKey,
    /// Keys that receivers use to verify.
    ring: Mutex<Arc<KeyRing>>,
    stops: AtomicBool,
    paid: [AtomicUsize; 2],
    failed: Mutex<Vec<String>>,
}

fn expect(answer: Result<common::dfsp::Answer, upesi_http::SendError>, status: u16) -> Result<(), String> {
    match answer {
        Ok(answer) if answer.status == status => Ok(()),
        other => Err(format!("{other:?} instead of {status}")),
    }
}

impl Load {
    fn new(sides: [Side; 2], payee_key: PrivateKey, ring: KeyRing) -> Self {
        Self {
            sides: sides.map(|side| Mutex::new(Arc::new(side))),
            payee_key,
            ring: Mutex::new(Arc::new(ring)),
            stops: AtomicBool::new(false),
            paid: Default::default(),
            failed: Mutex::default(),
        }
    }

    fn run(&self, world: &World, number: usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        while !self.stops.load(Ordering::SeqCst) {
            let side = Arc::clone(&self.sides[number].lock().unwrap());
            if let Err(fault) = runtime.block_on(self.pay(world, &side)) {
                self.failed.lock().unwrap().push(format!("{number}: {fault}"));
            }
            self.paid[number].fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A payment, and a query that the hub answers with its own message.
    async fn pay(&self, world: &World, side: &Side) -> Result<(), String> {
        let ring = || Arc::clone(&self.ring.lock().unwrap());
        let (payer, payee) = (world.dfsp("greenbank"), world.dfsp("bluewallet"));
        let id = world.new_id();
        let terms = Terms { amount: "0.01".to_owned(), ..Terms::new(&id, world.now()) };
        let prepare = signed_by(Message::prepare(&terms), &side.payer_key).into_sent();
        expect(side.payer.send(&prepare).await, 202)?;
        is_genuine(&payee.next(&id), &ring())?;
        let fulfil = signed_by(Message::fulfil(&id, "COMMITTED"), &self.payee_key).into_sent();
        expect(side.payee.send(&fulfil).await, 200)?;
        is_genuine(&payer.next(&id), &ring())?;
        let question = Message::get(&id, "greenbank").without(SIGNATURE).into_sent();
        expect(side.payer.send(&question).await, 202)?;
        is_genuine(&payer.next(&id), &ring())
    }

    /// Waits until each side has made a whole payment, and checks that none has failed.
    fn goes_on(&self, world: &World, what: &str) {
        let paid = || self.paid.each_ref().map(|count| count.load(Ordering::SeqCst));
        let before = paid();
        world.until(&true, || paid().iter().zip(&before).all(|(now, before)| *now >= before + 2));
        let failed = self.failed.lock().unwrap();
        assert!(failed.is_empty(), "{what}: {failed:?}");
    }

    fn send_by(&self, sides: [Side; 2]) {
        for (place, side) in self.sides.iter().zip(sides) {
            *place.lock().unwrap() = Arc::new(side);
        }
    }
}

// ---- the hub ----

/// A scheme with everything that can be replaced.
struct Scene {
    pki: Pki,
    /// The authority that greenbank made for itself.
    green: Pki,
    keys: Keys,
    blocked: PathBuf,
    own: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let (mut pki, mut green, keys) = (Pki::new(), Pki::new(), Keys::new());
        green.issue(Usage::Server, "greenbank-server");
        pki.issue(Usage::Server, "other");
        let (blocked, own) = (pki.file("blocked"), pki.file("own"));
        fs::write(&blocked, "").unwrap();
        fs::create_dir(&own).unwrap();
        let mut scene = Self { pki, green, keys, blocked, own };
        fs::copy(scene.green.file("ca.pem"), scene.own.join("greenbank.anchors.pem")).unwrap();
        scene.renew_at_greenbank();
        scene.make_signing_key("next");
        scene
    }

    /// Issues the hub's certificate of greenbank's authority again.
    fn renew_at_greenbank(&mut self) {
        self.green.issue(Usage::Client, "hub-at-greenbank");
        for ending in ["pem", "key"] {
            let made = self.green.file(&format!("hub-at-greenbank.{ending}"));
            fs::copy(made, self.own.join(format!("greenbank.{ending}"))).unwrap();
        }
    }

    /// Makes a signature key in a directory of its own.
    fn make_signing_key(&self, name: &str) -> SigningKey {
        SigningKey::make(&self.keys.path(&format!("made-{name}")), name, KeyKind::Rsa2048).unwrap()
    }

    fn next_key(&self) -> PathBuf {
        self.keys.path("made-next").join("next.key")
    }

    fn world(&mut self, more: &[(&str, &str)]) -> World {
        let text = |path: &Path| path.display().to_string();
        let given = [
            ("jws.mode", "enforce".to_owned()),
            ("jws.keys_dir", text(&self.keys.path("public"))),
            ("jws.signing_key_file", text(&self.keys.path("own").join("Hub.key"))),
            ("jws.next_key_file", text(&self.next_key())),
            ("outbound_tls.own_directory", text(&self.own)),
            ("tls.blocked_file", text(&self.blocked)),
            ("tls.reload_interval_s", "3600".to_owned()),
        ];
        let mut settings: Vec<_> = given.iter().map(|(key, value)| (*key, &**value)).collect();
        settings.extend_from_slice(more);
        let mut world = self.pki.world(&["greenbank", "bluewallet"], &settings);
        let green = Dfsp::start_secured("greenbank", self.green.server("greenbank-server"));
        world.set_endpoints("greenbank", &green.base_url());
        world.dfsps.insert("greenbank".to_owned(), green);
        world
    }

    /// Sides with existing and with new connections. Greenbank has these certificates and this key.
    fn sides(&self, world: &World, certificates: [&str; 2], key: &PrivateKey) -> [Side; 2] {
        let address = world.fspiop();
        let side = |payer, payee| Side { payer, payee, payer_key: key.clone() };
        [
            side(
                self.pki.caller(Some(certificates[0]), address),
                self.pki.caller(Some("bluewallet"), address),
            ),
            side(
                self.pki.caller_anew(Some(certificates[1]), address),
                self.pki.caller_anew(Some("bluewallet"), address),
            ),
        ]
    }

    fn load(&self, world: &World) -> Load {
        let key = self.keys.of("greenbank");
        let sides = self.sides(world, ["greenbank"; 2], &key);
        Load::new(sides, self.keys.of("bluewallet"), self.keys.ring())
    }
}

/// Runs `work` during the load. Returns the load's number of payments.
fn under_load(world: &World, load: &Load, work: impl FnOnce()) -> usize {
    std::thread::scope(|scope| {
        let payers = [0, 1].map(|number| scope.spawn(move || load.run(world, number)));
        // A failure must not wait for the load.
        let stop = Stop(load);
        work();
        drop(stop);
        payers.into_iter().for_each(|payer| payer.join().unwrap());
    });
    load.paid.iter().map(|count| count.load(Ordering::SeqCst)).sum()
}

struct Stop<'a>(&'a Load);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stops.store(true, Ordering::SeqCst);
    }
}

/// Makes the hub read changed TLS files, which it must accept.
fn is_taken(world: &World) {
    let before = world.metric("upesi_tls_reloads_total");
    world.hub().reload_keys();
    world.until(&true, || world.metric("upesi_tls_reloads_total") > before);
    assert_eq!(world.metric("upesi_tls_reload_failing"), 0);
}

/// The states of the hub's signature keys, as operators see them.
fn hub_keys(world: &World) -> Vec<String> {
    let keys = world.operate("GET", "/signatures/keys", "");
    let states = keys["keys"].as_array().unwrap().iter();
    states.map(|key| key["state"].as_str().unwrap().to_owned()).collect()
}

fn signed_prepare(world: &World, key: &PrivateKey) -> Sent {
    signed_by(Message::prepare(&Terms::new(&world.new_id(), world.now())), key).into_sent()
}

fn append(file: &Path, more: &Path) {
    fs::write(file, [fs::read(file).unwrap(), fs::read(more).unwrap()].concat()).unwrap();
}

// ---- replacements ----

#[test]
fn tls_files_are_replaced_without_a_lost_message() {
    let mut scene = Scene::new();
    for name in ["revoked", "blocked"] {
        scene.pki.issue(Usage::Client, name);
    }
    let mut world = scene.world(&[]);
    let load = scene.load(&world);
    let [revoked, blocked] = ["revoked", "blocked"].map(|name| scene.pki.caller(Some(name), world.fspiop()));
    let is_let_in = |caller: &Caller| world.wait(caller.get("/live")).is_ok();
    under_load(&world, &load, || {
        let step = |what: &str| {
            is_taken(&world);
            load.goes_on(&world, what);
        };
        load.goes_on(&world, "nothing yet");
        assert!(is_let_in(&revoked) && is_let_in(&blocked));
        scene.pki.issue(Usage::Server, "hub");
        step("the hub's certificate");
        scene.pki.issue(Usage::Client, "hub-client");
        step("the hub's certificate towards DFSPs");
        scene.renew_at_greenbank();
        step("the hub's certificate at one DFSP");
        let directory = tempfile::TempDir::new().unwrap();
        Authority::init(directory.path(), "Next", present_s(), 100, KeyKind::P256).unwrap();
        let before = ["ca.pem", "crl.pem"].map(|name| fs::read(scene.pki.file(name)).unwrap());
        for name in ["ca.pem", "crl.pem"] {
            append(&scene.pki.file(name), &directory.path().join(name));
        }
        step("a second authority");
        for (name, bytes) in ["ca.pem", "crl.pem"].into_iter().zip(before) {
            fs::write(scene.pki.file(name), bytes).unwrap();
        }
        step("the second authority is taken out");
        scene.pki.revoke("revoked");
        step("a revocation");
        assert!(!is_let_in(&revoked));
        let entry = scene.pki.authority.entries().iter().find(|entry| entry.name == "blocked").unwrap();
        fs::write(&scene.blocked, format!("spki-sha256:{}\n", entry.spki_sha256)).unwrap();
        step("a block");
        assert!(!is_let_in(&blocked));
        // The authority no longer makes lists. By default the last list stays in use, and operators see its expiry.
        scene.pki.authority.make_list(present_s() - 40 * 86_400, 30).unwrap();
        step("a list that is past its end");
        assert!(!is_let_in(&revoked));
        let metrics = world.admin("GET", "/metrics", "").body;
        let of_list =
            |line: &&str| line.starts_with("upesi_tls_expiry_seconds{place=\"fspiop\",kind=\"crl\"");
        let line = metrics.lines().find(of_list).unwrap();
        assert!(line.rsplit(' ').next().unwrap().starts_with('-'), "{line}");
        scene.pki.authority.make_list(present_s(), 30).unwrap();
        step("a list that is not");
    });
    let peers = world.dfsp("greenbank").peers();
    assert!(peers.iter().all(|name| name == "hub-at-greenbank"), "{peers:?}");
    drop((revoked, blocked, load));
    world.stop_and_audit();
}

#[test]
fn stale_revocation_list_stops_new_clients_if_configured() {
    let mut scene = Scene::new();
    let world = scene.world(&[("tls.crl_stale", "refuse")]);
    let load = scene.load(&world);
    under_load(&world, &load, || load.goes_on(&world, "a list in its time"));
    scene.pki.authority.make_list(present_s() - 40 * 86_400, 30).unwrap();
    is_taken(&world);
    let refused = world.wait(scene.pki.caller(Some("greenbank"), world.fspiop()).get("/live"));
    assert!(refused.is_err(), "{refused:?}");
    let counted = "upesi_tls_handshakes_total{port=\"fspiop\",outcome=\"no_list\"}";
    world.until(&true, || world.metric(counted) > 0);
    scene.pki.authority.make_list(present_s(), 30).unwrap();
    is_taken(&world);
    let load = scene.load(&world);
    under_load(&world, &load, || load.goes_on(&world, "a new list"));
}

#[test]
fn signature_keys_are_replaced_without_a_rejected_message() {
    let mut scene = Scene::new();
    let mut world = scene.world(&[]);
    let load = scene.load(&world);
    let public = |name: &str| scene.keys.path("public").join(format!("{name}.pem"));
    let made = scene.make_signing_key("second");
    let second = PrivateKey::load(&made.key_file).unwrap();
    let first = scene.keys.of("greenbank");
    let receivers = |files: &[(&str, &Path)]| {
        let ring = tempfile::TempDir::new().unwrap();
        for (name, file) in files {
            let place = ring.path().join(format!("{name}.pem"));
            if place.exists() { append(&place, file) } else { fs::copy(file, place).map(drop).unwrap() }
        }
        *load.ring.lock().unwrap() = Arc::new(KeyRing::load(ring.path(), false).unwrap());
    };
    let own = |name: &str| scene.keys.path("own").join(format!("{name}.pem"));
    let (next_key, next_public) = (scene.next_key(), scene.next_key().with_extension("pem"));
    let [green, blue, hub] = ["greenbank", "bluewallet", "Hub"].map(own);
    let caller = scene.pki.caller(Some("greenbank"), world.fspiop());
    let status = |key: &PrivateKey| world.wait(caller.send(&signed_prepare(&world, key))).unwrap().status;
    // An additional file shows when the directory has been read again.
    let read_again = |participants: u64| {
        let marker = public("violet");
        if participants == 3 { fs::copy(&blue, marker).map(drop) } else { fs::remove_file(marker) }.unwrap();
        world.hub().reload_keys();
        world.until(&participants, || world.metric("upesi_jws_participants"));
    };
    under_load(&world, &load, || {
        load.goes_on(&world, "nothing yet");
        // A DFSP's rotation: both keys, then signatures by the new key, then only the new key.
        append(&public("greenbank"), &made.public_file);
        read_again(3);
        let all = [("greenbank", &*green), ("greenbank", &*made.public_file), ("bluewallet", &blue)];
        receivers(&[&all[..], &[("Hub", &hub), ("Hub", &next_public)]].concat());
        load.goes_on(&world, "both keys of a DFSP");
        load.send_by(scene.sides(&world, ["greenbank"; 2], &second));
        load.goes_on(&world, "the second key signs");
        fs::copy(&made.public_file, public("greenbank")).unwrap();
        read_again(2);
        load.goes_on(&world, "the first key is gone");
        assert_eq!((status(&first), status(&second)), (400, 202));
        // The hub's rotation: the key is shown, then it signs, then receivers remove the earlier one.
        assert_eq!(hub_keys(&world), ["next", "current"]);
        fs::rename(&next_key, scene.keys.path("own").join("Hub.key")).unwrap();
        world.hub().reload_keys();
        world.until(&vec!["current".to_owned(), "previous".to_owned()], || hub_keys(&world));
        load.goes_on(&world, "the hub's next key signs");
        receivers(&[&all[1..], &[("Hub", &next_public)]].concat());
        load.goes_on(&world, "the hub's key of before is forgotten");
    });
    assert_eq!(
        world.metric("upesi_jws_faults_total{fsp=\"bluewallet\",reason=\"mismatch\",mode=\"enforce\"}"),
        0
    );
    drop((caller, load));
    world.stop_and_audit();
}

#[test]
fn replaced_certificate_of_a_dfsp_ends_its_connections() {
    let mut scene = Scene::new();
    let mut world = scene.world(&[]);
    let load = scene.load(&world);
    let key = scene.keys.of("greenbank");
    let entry = scene.pki.authority.entries().iter().find(|entry| entry.name == "greenbank").unwrap();
    let old_key = format!("spki-sha256:{}", entry.spki_sha256);
    let old = scene.pki.caller(Some("greenbank"), world.fspiop());
    let ask =
        || world.wait(old.send(&Message::get(&world.new_id(), "greenbank").without(SIGNATURE).into_sent()));
    let paid = under_load(&world, &load, || {
        assert_eq!(ask().unwrap().status, 202);
        load.goes_on(&world, "the first certificate");
        let new_key = scene.pki.issue(Usage::Client, "greenbank-2");
        world.bind("greenbank", &new_key);
        load.send_by(scene.sides(&world, ["greenbank", "greenbank-2"], &key));
        load.goes_on(&world, "both certificates");
        load.send_by(scene.sides(&world, ["greenbank-2"; 2], &key));
        load.goes_on(&world, "the second certificate");
        world.unbind("greenbank", &old_key);
        load.goes_on(&world, "the first certificate is no longer bound");
        let refused = ask().unwrap();
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(refused.head.contains("connection: close\n"), "{refused:?}");
        load.goes_on(&world, "its connection has ended");
    });
    let (whole, hundredths) = (paid / 100, format!("{:02}", paid % 100));
    let position = format!("{whole}.{hundredths}");
    assert_eq!(world.position("greenbank"), position.trim_end_matches('0').trim_end_matches('.'));
    drop((old, load));
    world.stop_and_audit();
}

// ---- unusable files ----

#[derive(Clone, Copy, Debug)]
enum Fault {
    Missing,
    /// A directory in place of the file, because the user of these tests may read every file.
    Unreadable,
    Empty,
    Nonsense,
    /// The file of another participant.
    Foreign,
    /// Every user of the machine can read it.
    Shown,
}

const OF_LISTS: &[Fault] =
    &[Fault::Missing, Fault::Unreadable, Fault::Empty, Fault::Nonsense, Fault::Foreign];
const OF_KEYS: &[Fault] =
    &[Fault::Missing, Fault::Unreadable, Fault::Empty, Fault::Nonsense, Fault::Foreign, Fault::Shown];
const OF_SIGNERS: &[Fault] =
    &[Fault::Missing, Fault::Unreadable, Fault::Empty, Fault::Nonsense, Fault::Shown];
const OF_ANCHORS: &[Fault] = &[Fault::Missing, Fault::Unreadable, Fault::Empty, Fault::Nonsense];

/// A file, its possible faults, and the file whose place it could take.
struct Victim {
    file: PathBuf,
    faults: &'static [Fault],
    foreign: PathBuf,
    alarm: &'static str,
    /// Whether the file belongs to one DFSP, so that its fault affects only that DFSP.
    is_of_dfsp: bool,
}

const TLS_ALARM: &str = "upesi_tls_reload_failing";
const JWS_ALARM: &str = "upesi_jws_reload_failing";

/// All files, with a list of an authority that has only the name of ours.
fn victims(scene: &Scene, imposter: &Pki) -> Vec<Victim> {
    let (pki, own) = (&scene.pki, &scene.own);
    let tls = |file, faults, foreign| Victim { file, faults, foreign, alarm: TLS_ALARM, is_of_dfsp: false };
    let jws = |file, faults| Victim { alarm: JWS_ALARM, ..tls(file, faults, PathBuf::new()) };
    let of_dfsp = |victim| Victim { is_of_dfsp: true, ..victim };
    // The next key and the file of a DFSP are optional.
    let (of_next, of_public) = (&OF_SIGNERS[1..], &OF_ANCHORS[1..]);
    // Without a file, no certificate is blocked.
    let of_blocked = &[Fault::Missing, Fault::Unreadable, Fault::Nonsense][..];
    vec![
        tls(pki.file("hub.pem"), OF_LISTS, pki.file("other.pem")),
        tls(pki.file("hub.key"), OF_KEYS, pki.file("other.key")),
        tls(pki.file("ca.pem"), OF_ANCHORS, PathBuf::new()),
        tls(pki.file("crl.pem"), OF_LISTS, imposter.file("crl.pem")),
        tls(pki.file("hub-client.pem"), OF_LISTS, pki.file("other.pem")),
        tls(pki.file("hub-client.key"), OF_KEYS, pki.file("other.key")),
        tls(scene.blocked.clone(), of_blocked, PathBuf::new()),
        of_dfsp(tls(own.join("greenbank.anchors.pem"), OF_ANCHORS, PathBuf::new())),
        of_dfsp(tls(own.join("greenbank.pem"), OF_LISTS, pki.file("other.pem"))),
        of_dfsp(tls(own.join("greenbank.key"), OF_KEYS, pki.file("other.key"))),
        jws(scene.keys.path("own").join("Hub.key"), OF_SIGNERS),
        jws(scene.next_key(), of_next),
        of_dfsp(jws(scene.keys.path("public").join("bluewallet.pem"), of_public)),
    ]
}

/// A file with a fault. The fault is removed when this value is dropped.
struct Spoiled<'a> {
    file: &'a Path,
    bytes: Vec<u8>,
    mode: fs::Permissions,
}

impl<'a> Spoiled<'a> {
    fn by(victim: &'a Victim, fault: Fault) -> Self {
        let file = &*victim.file;
        let (bytes, mode) = (fs::read(file).unwrap(), fs::metadata(file).unwrap().permissions());
        match fault {
            Fault::Missing => fs::remove_file(file).unwrap(),
            Fault::Unreadable => {
                fs::remove_file(file).unwrap();
                fs::create_dir(file).unwrap();
            }
            Fault::Empty => fs::write(file, "").unwrap(),
            Fault::Nonsense => fs::write(file, "nonsense").unwrap(),
            Fault::Foreign => fs::write(file, fs::read(&victim.foreign).unwrap()).unwrap(),
            Fault::Shown => fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap(),
        }
        Self { file, bytes, mode }
    }
}

impl Drop for Spoiled<'_> {
    fn drop(&mut self) {
        if self.file.is_dir() {
            fs::remove_dir(self.file).unwrap();
        }
        fs::write(self.file, &self.bytes).unwrap();
        fs::set_permissions(self.file, self.mode.clone()).unwrap();
    }
}

#[test]
fn unusable_files_raise_the_alarm_and_stop_only_a_start() {
    let mut scene = Scene::new();
    let imposter = Pki::new();
    let mut world = scene.world(&[]);
    let load = scene.load(&world);
    let victims = victims(&scene, &imposter);
    let all = || victims.iter().flat_map(|victim| victim.faults.iter().map(move |fault| (victim, *fault)));
    let cases = 2 * all().count() + 16;
    assert!(cases >= CASES_MIN, "{cases} cases");
    under_load(&world, &load, || {
        load.goes_on(&world, "nothing yet");
        for (victim, fault) in all() {
            let what = format!("{} {fault:?}", victim.file.display());
            let spoiled = Spoiled::by(victim, fault);
            world.hub().reload_keys();
            world.until(&(&*what, 1), || (&*what, world.metric(victim.alarm)));
            load.goes_on(&world, &what);
            drop(spoiled);
            world.hub().reload_keys();
            world.until(&(&*what, 0), || (&*what, world.metric(victim.alarm)));
        }
    });
    drop(load);
    world.stop_and_audit();
    for (victim, fault) in all() {
        let _spoiled = Spoiled::by(victim, fault);
        let refused = world.refusal();
        if victim.is_of_dfsp {
            assert_eq!(refused, None, "{} {fault:?}", victim.file.display());
            continue;
        }
        let name = victim.file.file_name().unwrap().to_str().unwrap();
        let is_named = refused.as_ref().is_some_and(|text| text.contains(name));
        assert!(is_named, "{} {fault:?}: {refused:?}", victim.file.display());
    }
    assert_eq!(world.refusal(), None);
}
