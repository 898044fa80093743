//! Rates of DFSPs over real sockets: guessing of numbers, and signatures that are not their sender's.

use std::fs;

use crate::common::World;
use crate::common::client::Answer;
use crate::common::message::{Message, Terms};
use crate::common::secure::Pki;
use upesi_jws::SIGNATURE;
use upesi_pki::{KeyKind, SigningKey};

/// Whether an answer says that the sender asks too much, and why.
fn is_over(answer: &Answer, detail: &str) -> bool {
    let is_refused = answer.status == 503;
    if is_refused {
        assert!(answer.body.contains("\"errorCode\":\"2005\"") && answer.body.contains(detail), "{answer:?}");
        assert!(answer.head.to_lowercase().contains("retry-after: "), "{answer:?}");
    }
    is_refused
}

fn lookup(number: &str, source: &str) -> Message {
    Message::of("GET", &format!("/parties/MSISDN/{number}"), source, None, "")
}

#[test]
fn whoever_guesses_numbers_is_refused_and_others_go_on() {
    let mut world = World::with_lookups(&[
        ("admission.lookup_misses_per_dfsp", "1"),
        ("admission.exceptions", "bluewallet misses=0"),
    ]);
    let detail = "more lookups of unknown parties per second than this scheme allows a DFSP";
    let ask = |source: &str| world.send(lookup(&world.new_number(), source)).0;
    let refused = (0..1_000).map(|_| ask("greenbank")).find(|answer| is_over(answer, detail));
    assert!(refused.is_some(), "a thousand guesses were answered");
    // Who has no bound, and what is no lookup, is taken.
    for _ in 0..20 {
        assert_eq!(ask("bluewallet").status, 202);
    }
    let before = world.journal();
    world.deliver(Message::prepare(&Terms::new(&world.new_id(), world.now())));
    assert_ne!(world.journal(), before);
    let refusals = "upesi_admission_refused_total{class=\"new\",reason=\"misses\"}";
    assert!(world.metric(refusals) > 0);
    assert!(world.metric("upesi_admission_refused_by_dfsp_total{fsp=\"greenbank\"}") > 0);
    world.stop_and_audit();
}

#[test]
fn wrong_signatures_block_their_sender_and_change_nothing() {
    const WRONG: usize = 120;
    let keys = tempfile::TempDir::new().unwrap();
    for name in ["greenbank", "bluewallet"] {
        let made = SigningKey::make(keys.path(), name, KeyKind::P256).unwrap();
        fs::rename(made.key_file, keys.path().join(format!("{name}.private"))).unwrap();
    }
    let directory = keys.path().display().to_string();
    let settings = [
        ("jws.mode", "enforce"),
        ("jws.es256", "true"),
        ("jws.keys_dir", &*directory),
        ("admission.signature_faults_per_dfsp", "100"),
        ("admission.signature_block_s", "3600"),
    ];
    let mut pki = Pki::new();
    let mut world = pki.world(&["greenbank", "bluewallet"], &settings);
    let caller = |name: &str| pki.caller(Some(name), world.fspiop());
    let (green, blue) = (caller("greenbank"), caller("bluewallet"));
    let before = world.journal();
    let unsigned = |source: &str| {
        let terms = Terms::new(&world.new_id(), world.now());
        Message::prepare(&terms).from(source).header(SIGNATURE, "{}").into_sent()
    };
    let detail = "too many signatures that are not the sender's";
    let mut invalid = 0;
    // A second's worth is refilled while they come, so the block may take some more than the rate.
    let blocked = (0..100 * WRONG).any(|_| {
        let answer = world.wait(green.send(&unsigned("greenbank"))).unwrap();
        invalid += usize::from(answer.status == 400 && answer.body.contains("\"3105\""));
        is_over(&answer, detail)
    });
    assert!(blocked && invalid >= 100, "{invalid} were refused for their signature");
    // Everything of this caller is refused now; another one is judged by its own messages.
    let answer = world.wait(green.send(&unsigned("greenbank"))).unwrap();
    assert!(is_over(&answer, detail), "{answer:?}");
    let retry =
        answer.head.to_lowercase().split("retry-after: ").nth(1).map(|rest| rest.trim()[..4].to_owned());
    assert!(retry.is_some_and(|after| after.starts_with("35") || after.starts_with("36")), "{answer:?}");
    let answer = world.wait(blue.send(&unsigned("bluewallet"))).unwrap();
    assert!(answer.status == 400 && answer.body.contains("\"3105\""), "{answer:?}");
    assert_eq!(world.journal(), before, "nothing was recorded");
    assert_eq!(world.metric("upesi_dfsp_blocks_total{fsp=\"greenbank\"}"), 1);
    assert_eq!(world.metric("upesi_dfsps_blocked"), 1);
    drop((green, blue));
    world.stop_and_audit();
}
