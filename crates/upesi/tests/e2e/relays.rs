//! Effects of relayed messages on other DFSPs: limits, stopped and hanging DFSPs, and reports to operators.

use std::fs;

use upesi_jws::SIGNATURE;
use upesi_pki::{KeyKind, SigningKey};

use crate::common::dfsp::{Answer, Client, Conduct};
use crate::common::exposition::Exposition;
use crate::common::message::{Message, Terms};
use crate::common::secure::Pki;
use crate::common::{AMPLE, World};

const NEVER_PAUSES: (&str, &str) = ("callbacks.breaker_threshold", "1000000");

/// A lookup of greenbank that is forwarded to a DFSP. Returns its subject.
fn ask(world: &World, receiver: &str) -> String {
    let about = format!("ALIAS/{}", world.new_number());
    world.deliver(Message::of("GET", &format!("/parties/{about}"), "greenbank", Some(receiver), ""));
    about
}

/// Everything that one DFSP can still do while another one hangs: a lookup, its answer, a transfer.
fn pays(world: &World, payee: &str) {
    let about = ask(world, payee);
    assert_eq!(world.dfsp(payee).next_attempt(&about).method, "GET");
    let body = r#"{"party":{"partyIdInfo":{"partyIdType":"ALIAS","partyIdentifier":"x"}}}"#;
    world.deliver(Message::of("PUT", &format!("/parties/{about}"), payee, Some("greenbank"), body));
    assert_eq!(world.dfsp("greenbank").next_attempt(&about).text(), body);
    let id = world.new_id();
    let terms = Terms { amount: "1".into(), payee: payee.into(), ..Terms::new(&id, world.now()) };
    world.deliver(Message::prepare(&terms));
    assert_eq!(world.dfsp(payee).next(&id).method, "POST");
    world.deliver(Message::fulfil(&id, "COMMITTED").from(payee));
    assert_eq!(world.dfsp("greenbank").next(&id).method, "PUT");
}

#[test]
fn hanging_dfsp_delays_only_its_own_messages() {
    let world = World::with_lookups(&[
        NEVER_PAUSES,
        ("relay.concurrency_max", "2"),
        ("relay.waiting_max", "3"),
        ("relay.sender_share_percent", "100"),
        ("callbacks.request_timeout_ms", "600000"),
        ("callbacks.concurrency_max", "2"),
    ]);
    world.dfsp("bluewallet").conduct(Conduct::FallsSilent);
    let waiting: Vec<_> = (0..5).map(|_| ask(&world, "bluewallet")).collect();
    // Its limit is reached: further lookups fail at once.
    let full = "Destination communication error - Network error";
    for _ in 0..10 {
        let about = ask(&world, "bluewallet");
        assert!(world.dfsp("greenbank").next_attempt(&about).text().contains(full));
    }
    for _ in 0..10 {
        pays(&world, "redmoney");
    }
    assert_eq!(world.metric("upesi_relay_in_flight"), 5);
    // The DFSP received only the lookups within its limit.
    for about in &waiting {
        let came = world.dfsp("bluewallet").unexpected();
        assert!(came.len() <= 4, "two for each of the two workers: {came:#?}");
        assert!(came.iter().all(|seen| seen.method == "GET"), "{about}");
    }
    assert_eq!(world.position("greenbank"), "10");
}

#[test]
fn relay_at_its_limit_rejects_and_recovers() {
    let world = World::with_lookups(&[
        NEVER_PAUSES,
        ("relay.in_flight_max", "3"),
        ("relay.sender_share_percent", "100"),
        ("callbacks.request_timeout_ms", "600000"),
    ]);
    world.dfsp("bluewallet").conduct(Conduct::FallsSilent);
    for _ in 0..3 {
        let about = ask(&world, "bluewallet");
        world.dfsp("bluewallet").next_attempt(&about);
    }
    let quote = r#"{"party":{"partyIdInfo":{"partyIdType":"ALIAS","partyIdentifier":"x"}}}"#;
    let error = r#"{"errorInformation":{"errorCode":"5000","errorDescription":"x"}}"#;
    let id = world.new_id();
    let batch = format!(
        r#"{{"requestId":"{id}","partyList":[{{"partyIdType":"ALIAS","partyIdentifier":"x","fspId":"greenbank"}}]}}"#
    );
    for (method, path, body) in [
        ("GET", "/parties/ALIAS/x".to_owned(), ""),
        ("PUT", "/parties/ALIAS/x".to_owned(), quote),
        ("PUT", "/parties/ALIAS/x/error".to_owned(), error),
        ("GET", "/participants/ALIAS/x".to_owned(), ""),
        ("POST", "/participants/ALIAS/x".to_owned(), r#"{"fspId":"greenbank"}"#),
        ("DELETE", "/participants/ALIAS/x".to_owned(), ""),
        ("POST", "/participants".to_owned(), &batch),
        ("GET", format!("/quotes/{id}"), ""),
        ("PUT", format!("/quotes/{id}/error"), error),
        ("GET", format!("/transactionRequests/{id}"), ""),
        ("PUT", format!("/authorizations/{id}/error"), error),
    ] {
        let (answer, _) = world.send(Message::of(method, &path, "greenbank", Some("redmoney"), body));
        let found = (answer.status, answer.error_code(), answer.header("retry-after"));
        assert_eq!(found, (503, Some("2005"), Some("1")), "{method} {path}");
    }
    // Transfers have their own limits.
    let id = world.new_id();
    world.deliver(Message::prepare(&Terms { payee: "redmoney".into(), ..Terms::new(&id, world.now()) }));
    assert_eq!(world.dfsp("redmoney").next(&id).method, "POST");
    world.deliver(Message::fulfil(&id, "COMMITTED").from("redmoney"));
    assert_eq!(world.dfsp("greenbank").next(&id).method, "PUT");
    // Rejected messages had no effect, and new ones are accepted again.
    assert_eq!(world.metric("upesi_relay_in_flight"), 3);
    let mut world = world;
    world.dfsp_mut("bluewallet").die();
    for _ in 0..3 {
        world.until(&0, || world.metric("upesi_relay_in_flight"));
    }
    world.dfsp_mut("bluewallet").revive();
    world.dfsp("bluewallet").conduct(Conduct::Answers(200));
    pays(&world, "bluewallet");
    world.deliver(Message::of("GET", "/participants/ALIAS/x", "greenbank", None, ""));
    assert!(world.dfsp("greenbank").next_attempt("ALIAS/x").text().contains("3204"));
}

#[test]
fn waiting_lookups_are_limited() {
    let all = ("relay.sender_share_percent", "100");
    let world = World::with_lookups(&[("lookup.pending_max", "2"), all]);
    let [first, _] = [ask(&world, "bluewallet"), ask(&world, "bluewallet")];
    let refused = Message::of("GET", "/parties/ALIAS/x", "greenbank", Some("bluewallet"), "");
    let (answer, _) = world.send(refused.clone());
    assert_eq!((answer.status, answer.error_code()), (503, Some("2005")));
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(world.metric("upesi_lookups_pending"), 2);
    let error = r#"{"errorInformation":{"errorCode":"3204","errorDescription":"x"}}"#;
    world.deliver(Message::of(
        "PUT",
        &format!("/parties/{first}/error"),
        "bluewallet",
        Some("greenbank"),
        error,
    ));
    assert_eq!(world.dfsp("greenbank").next_attempt(&first).text(), error);
    world.deliver(refused);
    assert_eq!(world.dfsp("bluewallet").next_attempt("ALIAS/x").method, "GET");
}

/// The hub answers for a DFSP that does not. An answer in time, from any DFSP, ends the lookup. A late answer is
/// forwarded.
#[test]
fn unanswered_lookup_is_answered_by_the_hub() {
    let mut world = World::with_lookups(&[
        ("lookup.deadline_ms", "2000"),
        ("oracles.deadline_ms", "500"),
        ("oracles.connect_timeout_ms", "500"),
    ]);
    let text = |world: &World, about: &str| {
        let seen = world.dfsp("greenbank").next_attempt(about);
        (format!("{} {}", seen.method, seen.path), seen.text().to_owned())
    };
    let answered = ask(&world, "bluewallet");
    let body = r#"{"party":{"partyIdInfo":{"partyIdType":"ALIAS","partyIdentifier":"x"}}}"#;
    let answer =
        |about: &str| Message::of("PUT", &format!("/parties/{about}"), "bluewallet", Some("greenbank"), body);
    world.deliver(answer(&answered));
    assert_eq!(text(&world, &answered), (format!("PUT /parties/{answered}"), body.to_owned()));
    let expired = ask(&world, "bluewallet");
    let error = r#"{"errorInformation":{"errorCode":"3300","errorDescription":"Generic expired error - No answer within 2 s"}}"#;
    assert_eq!(text(&world, &expired), (format!("PUT /parties/{expired}/error"), error.to_owned()));
    world.deliver(answer(&expired));
    assert_eq!(text(&world, &expired), (format!("PUT /parties/{expired}"), body.to_owned()));
    for name in ["bluewallet"] {
        for about in [&answered, &expired] {
            world.dfsp(name).next_attempt(about);
        }
    }
    world.expect_silence();
    assert_eq!(world.metric(r#"upesi_lookups_total{outcome="expired"}"#), 1);
    assert_eq!(world.metric(r#"upesi_lookups_total{outcome="answered"}"#), 1);
    world.stop_and_audit();
}

/// If the error callback also cannot be delivered, only operators can see the failure.
#[test]
fn undeliverable_errors_are_counted() {
    let mut world = World::with_lookups(&[NEVER_PAUSES, ("relay.unasked_answers", "true")]);
    for name in ["greenbank", "bluewallet"] {
        world.dfsp_mut(name).die();
    }
    ask(&world, "bluewallet");
    let error = r#"{"errorInformation":{"errorCode":"5103","errorDescription":"x"}}"#;
    let path = format!("/quotes/{}/error", world.new_id());
    world.deliver(Message::of("PUT", &path, "bluewallet", Some("greenbank"), error));
    world.until(&0, || world.metric("upesi_relay_in_flight"));
    let count = |resource: &str, method: &str, author: &str| {
        let labels =
            format!(r#"resource="{resource}",method="{method}",author="{author}",result="unreachable""#);
        world.metric(&format!("upesi_relay_messages_total{{{labels}}}"))
    };
    for (resource, method, author) in [
        ("parties", "GET", "dfsp"),
        ("parties", "PUT", "hub"),
        ("quotes", "PUT", "dfsp"),
        ("quotes", "PUT", "hub"),
    ] {
        assert_eq!(count(resource, method, author), 1, "{resource} {method} {author}");
    }
    // The metrics are valid, and the lanes show the reason.
    let exposition = Exposition::read(&world.admin("GET", "/metrics", "").body);
    assert!(exposition.families.contains_key("upesi_relay_delivery_seconds"));
    let lanes = world.operate("GET", "/lanes", "");
    for name in ["greenbank", "bluewallet"] {
        let lane = lanes.as_array().unwrap().iter().find(|lane| lane["participant"] == name).unwrap();
        assert!(lane["lastError"].as_str().is_some_and(|error| error.contains("cannot connect")), "{lane}");
    }
}

/// Requests in flight are forwarded before a hub stops.
#[test]
fn stop_waits_for_requests_that_are_being_forwarded() {
    let mut world = World::with_lookups(&[]);
    let mut client = Client::connect(world.fspiop());
    let mut abouts = Vec::new();
    for _ in 0..200 {
        let about = format!("ALIAS/{}", world.new_number());
        let message = Message::of("GET", &format!("/parties/{about}"), "greenbank", Some("bluewallet"), "");
        assert_eq!(client.exchange(&message.into_sent().bytes()).status, 202);
        abouts.push(about);
    }
    world.stop(AMPLE);
    let came = world.dfsp("bluewallet").count();
    assert_eq!(came, abouts.len());
}

/// Resident memory of this process, in MiB.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() / 1024
}

/// A quote with white space in it.
fn large_quote(id: &str, filler: &str) -> String {
    format!(
        concat!(
            r#"{{{filler}"quoteId":"{id}","transactionId":"{id}","#,
            r#""payer":{{"partyIdInfo":{{"partyIdType":"MSISDN","partyIdentifier":"26011","fspId":"greenbank"}}}},"#,
            r#""payee":{{"partyIdInfo":{{"partyIdType":"MSISDN","partyIdentifier":"26097","fspId":"redmoney"}}}},"#,
            r#""amountType":"SEND","amount":{{"amount":"12.5","currency":"KES"}},"#,
            r#""transactionType":{{"scenario":"TRANSFER","initiator":"PAYER","initiatorType":"CONSUMER"}}}}"#
        ),
        filler = filler,
        id = id
    )
}

const QUOTES: u64 = 60;

/// Runs in a process of its own, because the memory of the whole process is measured.
const ALONE: &str = "UPESI_RELAYS_ALONE";

#[test]
fn large_quotes_to_a_silent_dfsp_use_little_memory() {
    if std::env::var_os(ALONE).is_none() {
        let name = "relays::large_quotes_to_a_silent_dfsp_use_little_memory";
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = command.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&ended.stderr));
        return;
    }
    let world = World::with_lookups(&[
        NEVER_PAUSES,
        ("callbacks.request_timeout_ms", "600000"),
        ("admission.bytes_per_dfsp", "0"),
    ]);
    // This DFSP accepts connections and reads nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    world.set_endpoint("bluewallet", "QUOTES", &format!("http://{}", silent.local_addr().unwrap()));
    let filler = " ".repeat(4_900_000);
    let before = resident_mib();
    let (mut most, mut told) = (0, 0_u64);
    for number in 0..QUOTES {
        let id = world.new_id();
        let body = large_quote(&id, &filler).replace("redmoney", "bluewallet");
        world.deliver(Message::of("POST", "/quotes", "greenbank", Some("bluewallet"), &*body));
        drop(body);
        // Three messages fit into the byte limit of a lane. The sender receives an error for each further one.
        if number >= 3 {
            let callback = world.dfsp("greenbank").next_attempt(&id);
            assert!(
                callback.text().contains("Destination communication error - Network error"),
                "{callback:?}"
            );
            assert_eq!(callback.path, format!("/quotes/{id}/error"));
            told += 1;
        }
        most = most.max(resident_mib().saturating_sub(before));
        if number % 20 == 19 {
            pays(&world, "redmoney");
            let id = world.new_id();
            let body = large_quote(&id, &filler);
            world.deliver(Message::of("POST", "/quotes", "greenbank", Some("redmoney"), &*body));
            assert_eq!(world.dfsp("redmoney").next_attempt(&id).text().len(), body.len());
        }
    }
    assert_eq!(told, QUOTES - 3);
    assert_eq!(world.metric("upesi_relay_in_flight"), 3);
    assert!((14_700_000..16_777_216).contains(&world.metric("upesi_relay_bytes")));
    // Including the three messages for redmoney, and messages in transit. All messages together would be 294 MB.
    assert!(most < 120, "{most} MiB more");
}

/// An address that answers every connection with endless `100 Continue`.
fn chatty() -> std::net::SocketAddr {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                while stream.write_all("HTTP/1.1 100 Continue\r\n\r\n".repeat(500).as_bytes()).is_ok() {}
            });
        }
    });
    address
}

#[test]
fn dfsp_with_endless_100_continue_delays_no_other() {
    let world = World::with_lookups(&[NEVER_PAUSES, ("callbacks.request_timeout_ms", "600000")]);
    let url = format!("http://{}", chatty());
    world.set_endpoint("bluewallet", "QUOTES", &url);
    world.set_endpoint("bluewallet", "TRANSFER_POST", &format!("{url}/transfers"));
    let id = world.new_id();
    world.deliver(Message::prepare(&Terms { amount: "1".into(), ..Terms::new(&id, world.now()) }));
    for _ in 0..20 {
        let id = world.new_id();
        let body = large_quote(&id, " ").replace("redmoney", "bluewallet");
        world.deliver(Message::of("POST", "/quotes", "greenbank", Some("bluewallet"), &*body));
        let callback = world.dfsp("greenbank").next_attempt(&id);
        assert!(callback.text().contains("Destination communication error - Network error"), "{callback:?}");
        pays(&world, "redmoney");
    }
    let named = "the peer sent more than 8 interim responses (1xx), or 16384 bytes of them, and no answer";
    let last_error = || {
        let lanes = world.operate("GET", "/lanes", "");
        let lane = lanes.as_array().unwrap().iter().find(|lane| lane["participant"] == "bluewallet").unwrap();
        lane["lastError"].as_str().map(|error| error.contains(named))
    };
    world.until(&Some(true), last_error);
    // The hub tries the prepare again.
    world.until(&(1, 0), || world.undelivered());
}

// Rate limits of DFSPs over real sockets: guessed numbers, and wrong signatures.

/// Whether an answer says that the sender is over a rate limit, with this reason.
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
fn guessed_lookups_are_rejected_and_others_continue() {
    let mut world = World::with_lookups(&[
        ("admission.lookup_misses_per_dfsp", "1"),
        ("dfsp.bluewallet.lookup_misses_per_s", "0"),
    ]);
    let detail = "more lookups of unknown parties per second than this scheme allows a DFSP";
    let ask = |source: &str| world.send(lookup(&world.new_number(), source)).0;
    let refused = (0..1_000).map(|_| ask("greenbank")).find(|answer| is_over(answer, detail));
    assert!(refused.is_some(), "a thousand guesses were answered");
    // DFSPs without a limit, and messages that are not lookups, are accepted.
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
fn wrong_signatures_block_only_their_sender() {
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
    let detail = "too many invalid signatures";
    let mut invalid = 0;
    // Tokens of a second are refilled meanwhile, so slightly more than the limit may be needed.
    let blocked = (0..100 * WRONG).any(|_| {
        let answer = world.wait(green.send(&unsigned("greenbank"))).unwrap();
        invalid += usize::from(answer.status == 400 && answer.body.contains("\"3105\""));
        is_over(&answer, detail)
    });
    assert!(blocked && invalid >= 100, "{invalid} were refused for their signature");
    // From now on the hub rejects everything from this client. Another client is judged by its own messages.
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
