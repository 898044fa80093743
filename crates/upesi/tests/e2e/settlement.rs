//! `upesi settlement`, as operators use it, with a hub that has processed payments.

mod bank;
mod page;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{code, text};
use crate::common::World;
use crate::common::dfsp::{Answer, Client, request};
use crate::support_command::upesi;

fn settlement_at(admin_url: &str, arguments: &[&str]) -> Output {
    let mut command = upesi(&["settlement"]);
    command.args(arguments).args(["--admin", admin_url, "--wait", "0"]).env("TZ", "UTC");
    command.output().unwrap()
}

/// The output of a command that succeeds.
fn settlement(world: &World, arguments: &[&str]) -> String {
    let output = settlement_at(&world.admin_url(), arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn settlement_json(world: &World, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["--json"]].concat();
    serde_json::from_str(&settlement(world, &arguments)).unwrap()
}

/// Exit code and message of a command that fails.
fn failure(world: &World, arguments: &[&str]) -> (i32, String) {
    let output = settlement_at(&world.admin_url(), arguments);
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    (output.status.code().unwrap(), text(&output.stderr))
}

fn positions(world: &World) -> [String; 3] {
    ["greenbank", "bluewallet", "redmoney"].map(|name| world.position(name))
}

fn no_positions() -> [String; 3] {
    ["0", "0", "0"].map(str::to_owned)
}

/// The text without instants, which differ each time.
fn without_instants(text: &str) -> String {
    const FORMS: [&[u8]; 2] = [b"0000-00-00 00:00:00Z", b"0000-00-00T00:00:00.000Z"];
    let fits = |(found, form): (&u8, &u8)| if *form == b'0' { found.is_ascii_digit() } else { found == form };
    let length_at = |rest: &[u8]| {
        let is_it = |form: &&&[u8]| rest.len() >= form.len() && rest.iter().zip(**form).all(fits);
        FORMS.iter().find(is_it).map(|form| form.len())
    };
    let (mut masked, mut rest) = (String::new(), text);
    let next = |rest: &str| (0..rest.len()).find_map(|at| Some((at, length_at(&rest.as_bytes()[at..])?)));
    while let Some((at, length)) = next(rest) {
        masked += &(rest[..at].to_owned() + "TIME");
        rest = &rest[at + length..];
    }
    masked + rest
}

/// State of the only settlement of an output, and states of its accounts.
fn states(shown: &Value) -> (String, Vec<String>) {
    let [settlement] = &shown["settlements"].as_array().unwrap()[..] else { panic!("{shown}") };
    let text = |value: &Value| value["state"].as_str().unwrap().to_owned();
    (text(settlement), settlement["accounts"].as_array().unwrap().iter().map(text).collect())
}

#[test]
fn window_is_closed_and_settled_step_by_step() {
    let mut world = World::new(&[]);
    let opened = settlement(&world, &["show"]);
    assert_eq!(without_instants(&opened), "window 1  OPEN since TIME\n");
    assert!(!opened.contains("1970"), "it opened when the hub first started: {opened}");
    let (code, error) = failure(&world, &["close", "--reason", "end of day"]);
    assert_eq!((code, &*error), (1, "upesi: Window 1 is empty (3100)\n"));
    world.trade();
    let closed = without_instants(&settlement(&world, &["close", "--reason", "end of day"]));
    assert_eq!(
        closed,
        "window 1  CLOSED since TIME: end of day\n  KES POSITION   CLOSED\nwindow 2  OPEN since TIME\n"
    );
    // A settlement that is named by its number is only shown again.
    let again = without_instants(&settlement(&world, &["close", "1", "--reason", "once more"]));
    assert_eq!(again, "window 1  CLOSED since TIME: end of day\n  KES POSITION   CLOSED\n");
    let created =
        settlement(&world, &["create", "DEFERREDNETKES", "--window", "1", "--reason", "end of day"]);
    assert_eq!(
        without_instants(&created),
        "settlement 1  DEFERREDNETKES of window 1\n  PENDING_SETTLEMENT since TIME: end of day\n  \
         DFSP        account                 net       state                   reference\n  \
         greenbank         3               32.25 KES   PENDING_SETTLEMENT\n  \
         bluewallet        5               -20.5 KES   PENDING_SETTLEMENT\n  \
         redmoney          7              -11.75 KES   PENDING_SETTLEMENT\n"
    );
    let (code, error) = failure(&world, &["create", "DEFERREDNETKES", "--window", "1", "--reason", "again"]);
    assert!(code == 1 && error.contains("Inapplicable windows 1"), "{code} {error}");
    assert_eq!(positions(&world), ["32.25", "-20.5", "-11.75"]);

    let advance = |arguments: &[&str]| {
        let arguments = [&["advance", "1", "--reason", "bank file 17"], arguments].concat();
        states(&settlement_json(&world, &arguments))
    };
    let all = |state: &str| (state.to_owned(), vec![state.to_owned(); 3]);
    // One DFSP alone; the settlement's state changes when the others follow.
    let (state, accounts) = advance(&["--dfsp", "redmoney", "--reference", "bank-1"]);
    assert_eq!(state, "PENDING_SETTLEMENT");
    assert_eq!(accounts, ["PENDING_SETTLEMENT", "PENDING_SETTLEMENT", "PS_TRANSFERS_RECORDED"]);
    assert_eq!(advance(&[]), all("PS_TRANSFERS_RECORDED"));
    assert_eq!(advance(&["--to", "reserved"]), all("PS_TRANSFERS_RESERVED"));
    assert_eq!(positions(&world), ["32.25", "0", "0"]);
    assert_eq!(advance(&["--to", "settled", "--reference", "bank-2"]), all("SETTLED"));
    assert_eq!(positions(&world), no_positions());
    // All accounts have already reached this state.
    assert_eq!(advance(&["--to", "committed"]), all("SETTLED"));

    let shown = settlement_json(&world, &["show", "--window", "1"]);
    let settlement = &shown["settlements"][0];
    assert_eq!(shown["windows"][0]["state"], "SETTLED");
    assert_eq!(
        settlement["accounts"][2],
        json!({
            "dfsp": "redmoney", "accountId": 7, "currency": "KES", "net": "-11.75", "state": "SETTLED",
            "reason": "bank file 17", "externalReference": "bank-2"
        })
    );
    let (code, error) = failure(&world, &["abort", "1", "--reason", "too late"]);
    assert_eq!((code, &*error), (1, "upesi: State change is not allowed (3100)\n"));
    world.stop_and_audit();
}

#[test]
fn aborted_settlement_can_be_created_again() {
    let mut world = World::new(&[]);
    world.trade();
    settlement(&world, &["close", "--reason", "end of day"]);
    settlement(&world, &["create", "DEFERREDNETKES", "--window", "1", "--reason", "end of day"]);
    settlement(&world, &["advance", "1", "--to", "reserved", "--reason", "bank file 17"]);
    let aborted = settlement_json(&world, &["abort", "1", "--reason", "the bank is closed"]);
    assert_eq!(aborted["settlements"][0]["reason"], "the bank is closed");
    assert_eq!(states(&aborted), ("ABORTED".into(), vec!["ABORTED".into(); 3]));
    assert_eq!(positions(&world), ["32.25", "-20.5", "-11.75"]);
    let (code, error) = failure(&world, &["advance", "1", "--reason", "go on"]);
    assert_eq!((code, &*error), (1, "upesi: settlement 1: it was aborted\n"));
    let overview = settlement_json(&world, &["show"]);
    assert_eq!(overview["windows"][0]["state"], "ABORTED");
    assert_eq!(overview["settlements"], json!([]));
    settlement(&world, &["create", "DEFERREDNETKES", "--window", "1", "--reason", "end of day, again"]);
    assert_eq!(states(&settlement_json(&world, &["show"])).0, "PENDING_SETTLEMENT");
    let settled = settlement_json(&world, &["advance", "2", "--to", "settled", "--reason", "bank file 18"]);
    assert_eq!(states(&settled).0, "SETTLED");
    assert_eq!(positions(&world), no_positions());
    world.stop_and_audit();
}

#[test]
fn wrong_numbers_and_names_are_rejected() {
    let world = World::new(&[]);
    world.trade();
    settlement(&world, &["run", "day-1", "--to", "recorded"]);
    for (arguments, expected) in [
        (&["show", "7"][..], "settlement 7 does not exist"),
        (&["show", "--window", "7"], "Window 7 does not exist"),
        (&["close", "7", "--reason", "x"], "Window 7 does not exist"),
        (&["abort", "7", "--reason", "x"], "settlement 7 does not exist"),
        (&["create", "NOSUCH", "--window", "1", "--reason", "x"], "Settlement model not found: NOSUCH"),
        (&["advance", "1", "--dfsp", "absentbank", "--reason", "x"], "participant absentbank does not exist"),
        (&["run", "day-2", "--window", "2"], "window 2 is open: close it first"),
    ] {
        let (code, error) = failure(&world, arguments);
        assert!(code == 1 && error.contains(expected), "{arguments:?}: {code} {error}");
    }
    for arguments in [
        &["close"][..],
        &["create", "DEFERREDNETKES", "--reason", "x"],
        &["advance", "1", "--to", "pending", "--reason", "x"],
        &["run", "a b"],
        &["show", "1", "--window", "1"],
    ] {
        assert_eq!(failure(&world, arguments).0, 64, "{arguments:?}");
    }
    // No hub listens at this address.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = settlement_at(&format!("http://{silent}"), &["show"]);
    assert_eq!(output.status.code(), Some(69), "{}", text(&output.stderr));
}

#[test]
fn repeated_job_does_nothing_twice() {
    let mut world = World::new(&[]);
    let empty = settlement_json(&world, &["run", "day-1"]);
    assert_eq!((&empty["windows"][0]["state"], &empty["settlements"]), (&json!("OPEN"), &json!([])));
    world.trade();
    let held = settlement_json(&world, &["run", "day-1", "--to", "reserved"]);
    assert_eq!(states(&held).0, "PS_TRANSFERS_RESERVED");
    // Later payments belong to the next window, which stays open.
    world.pay("redmoney", "bluewallet", "5.5", "KES");
    let done = settlement_json(&world, &["run", "day-1", "--to", "settled"]);
    assert_eq!(states(&done), ("SETTLED".into(), vec!["SETTLED".into(); 3]));
    assert_eq!(done["windows"][0]["id"], 1);
    let account = &done["settlements"][0]["accounts"][1];
    assert_eq!(
        (&account["reason"], &account["externalReference"]),
        (&json!("settlement run day-1"), &json!("day-1-1-5"))
    );
    assert_eq!(positions(&world), ["0", "-5.5", "5.5"]);
    assert_eq!(settlement_json(&world, &["run", "day-1", "--to", "settled"]), done);
    assert_eq!(positions(&world), ["0", "-5.5", "5.5"]);
    let next = settlement_json(&world, &["run", "day-2"]);
    assert_eq!((&next["windows"][0]["id"], states(&next).1.len()), (&json!(2), 2));
    // After an abort by hand, the same job settles its window again.
    settlement(&world, &["abort", "2", "--reason", "the bank is closed"]);
    let done = settlement_json(&world, &["run", "day-2", "--to", "settled"]);
    assert_eq!((&done["settlements"][0]["id"], states(&done).0), (&json!(3), "SETTLED".to_owned()));
    assert_eq!(positions(&world), no_positions());
    world.stop_and_audit();
}

#[test]
fn job_shows_its_window_and_stops_for_the_bank() {
    let mut world = World::new(&[]);
    world.trade();
    let run = |arguments: &[&str]| {
        let output = settlement_at(&world.admin_url(), &[&["run", "day-1"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        (without_instants(&text(&output.stdout)), without_instants(&text(&output.stderr)))
    };
    let next = "upesi: settlement 1 is not finished: the bank has to act\n  \
                its file: upesi settlement report 1 --kind bank --out FILE\n  \
                to finish with the filled file: upesi settlement reconcile 1 FILE --apply\n  \
                to finish without it: upesi settlement run day-1 --to settled\n";
    let preview = "upesi: day-1 closes window 1, opened at TIME, and takes it to PS_TRANSFERS_RECORDED:\n  \
                   KES POSITION  68.75 in 3 transfers, by DEFERREDNETKES\n";
    let (shown, told) = run(&[]);
    assert_eq!(told, format!("{preview}{next}"));
    assert!(
        shown.contains("settlement 1  DEFERREDNETKES of window 1\n  PS_TRANSFERS_RECORDED since"),
        "{shown}"
    );
    assert_eq!(positions(&world), ["32.25", "-20.5", "-11.75"]);
    // The window is closed, so the same call does nothing more.
    assert_eq!(run(&[]), (shown, next.to_owned()));
    let (shown, told) = run(&["--to", "settled"]);
    assert!(shown.contains("\n  SETTLED since") && told.is_empty(), "{shown}{told}");
    assert_eq!(positions(&world), no_positions());
    world.stop_and_audit();
}

#[test]
fn job_name_with_another_day_must_be_confirmed() {
    let mut world = World::new(&[]);
    world.trade();
    let (code, told) = failure(&world, &["run", "2026-01-23"]);
    let told = without_instants(&told);
    let expected = "upesi: 2026-01-23 contains another day than window 1, which opened at TIME; nothing was changed: use --yes to settle it under this name\n";
    assert!(code == 1 && told.ends_with(expected), "{code} {told}");
    assert!(told.contains("2026-01-23 closes window 1"), "{told}");
    // At a terminal the command asks.
    let typed = |answer: &str| {
        let command = format!(
            "{} settlement run 2026-01-23 --wait 0 --admin {}",
            env!("CARGO_BIN_EXE_upesi"),
            world.admin_url()
        );
        let mut terminal = std::process::Command::new("script");
        terminal.env("TZ", "UTC");
        terminal.args(["-qec", &command, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut terminal = terminal.spawn().unwrap();
        terminal.stdin.as_mut().unwrap().write_all(answer.as_bytes()).unwrap();
        let output = terminal.wait_with_output().unwrap();
        (output.status.code().unwrap(), text(&output.stdout))
    };
    for answer in ["n\n", "\n", "yesterday\n"] {
        let (code, told) = typed(answer);
        let question = "Settle it under this name? [y/N]";
        assert!(code == 1 && told.contains(question) && told.contains("nothing was changed"), "{told}");
    }
    assert_eq!(settlement_json(&world, &["show"])["windows"][0]["state"], "OPEN");
    let (code, told) = typed("y\n");
    assert!(code == 0 && told.contains("PS_TRANSFERS_RECORDED since"), "{told}");
    // The same job continues. A job with another name needs the flag, or the day of the window in its name.
    settlement(&world, &["run", "2026-01-23", "--to", "settled"]);
    world.trade();
    settlement(&world, &["run", "20260124", "--to", "settled", "--yes"]);
    world.trade();
    let today = world.now().to_string();
    settlement(&world, &["run", &today[..10], "--to", "settled"]);
    assert_eq!(positions(&world), no_positions());
    world.stop_and_audit();
}

#[test]
fn empty_window_does_not_hide_unsettled_ones() {
    let mut world = World::new(&[]);
    world.trade();
    settlement(&world, &["close", "--reason", "by hand"]);
    let (code, told) = failure(&world, &["run", "day-1"]);
    assert_eq!(
        (code, &*without_instants(&told)),
        (
            1,
            "upesi: nothing was done: the open window 2 is empty, but other windows are not settled\n\
             window 1 is CLOSED since TIME\n\
             settle one that is CLOSED or ABORTED with --window NUMBER; see upesi settlement show for one that is \
             PENDING_SETTLEMENT\n"
        )
    );
    settlement(&world, &["run", "day-1", "--window", "1"]);
    let (code, told) = failure(&world, &["run", "day-2"]);
    assert!(code == 1 && told.contains("window 1 is PENDING_SETTLEMENT since"), "{code} {told}");
    settlement(&world, &["run", "day-1", "--to", "settled"]);
    assert_eq!(settlement_json(&world, &["run", "day-2"])["settlements"], json!([]));
    assert_eq!(positions(&world), no_positions());
    world.stop_and_audit();
}

#[test]
fn job_settles_each_currency_by_its_model() {
    let mut world = World::new(&[]);
    for name in ["greenbank", "redmoney"] {
        open_in_tzs(&world, name);
    }
    world.trade();
    world.pay("greenbank", "redmoney", "100.75", "TZS");
    let only = settlement_json(&world, &["run", "day-1", "--model", "DEFERREDNETTZS"]);
    assert_eq!(only["settlements"][0]["model"], "DEFERREDNETTZS");
    assert_eq!(only["windows"][0]["state"], "PENDING_SETTLEMENT");
    assert_eq!(positions(&world), ["32.25", "-20.5", "-11.75"]);
    let both = settlement_json(&world, &["run", "day-1", "--to", "settled"]);
    let models: Vec<_> = both["settlements"].as_array().unwrap().iter().map(|one| &one["model"]).collect();
    assert_eq!(models, ["DEFERREDNETTZS", "DEFERREDNETKES"]);
    assert_eq!(both["windows"][0]["state"], "SETTLED");
    assert_eq!(positions(&world), no_positions());

    // Without a model, its content stays unsettled, and stderr reports this.
    world.pay("redmoney", "greenbank", "3", "TZS");
    world.operate("PUT", "/settlementModels/DEFERREDNETTZS", r#"{"isActive":false}"#);
    let output = settlement_at(&world.admin_url(), &["run", "day-2", "--to", "settled"]);
    let told = text(&output.stderr);
    for line in [
        "  TZS POSITION  3 in 1 transfer, stays, without a model\n",
        "upesi: window 2: TZS POSITION stays: no active model of deferred net settlement governs it\n",
    ] {
        assert!(told.contains(line), "{told}");
    }
    assert!(text(&output.stdout).contains("  TZS POSITION   CLOSED\n"), "{}", text(&output.stdout));
    world.operate("PUT", "/settlementModels/DEFERREDNETTZS", r#"{"isActive":true}"#);
    let later = settlement_json(&world, &["run", "day-2", "--to", "settled"]);
    assert_eq!((&later["windows"][0]["state"], states(&later).0), (&json!("SETTLED"), "SETTLED".to_owned()));
    world.stop_and_audit();
}

fn open_in_tzs(world: &World, name: &str) {
    if name == "greenbank" {
        world.open_account(name, "TZS");
    } else {
        world.operate("POST", "/participants", &format!(r#"{{"name":"{name}","currency":"TZS"}}"#));
        let limit = r#"{"currency":"TZS","limit":{"type":"NET_DEBIT_CAP","value":5000},"initialPosition":0}"#;
        world.operate("POST", &format!("/participants/{name}/initialPositionAndLimits"), limit);
    }
    let accounts = world.operate("GET", &format!("/participants/{name}/accounts"), "");
    let is_wanted =
        |account: &&Value| account["ledgerAccountType"] == "SETTLEMENT" && account["currency"] == "TZS";
    let account = accounts.as_array().unwrap().iter().find(is_wanted).unwrap()["id"].clone();
    let funds = json!({
        "transferId": world.new_id(), "externalReference": "bank", "action": "recordFundsIn", "reason": "prefund",
        "amount": {"amount": 3000, "currency": "TZS"}
    });
    world.operate("POST", &format!("/participants/{name}/accounts/{account}"), &funds.to_string());
}

/// A server in front of a hub. For each request it sends the answer of a function, or closes the connection.
fn serve(mut answer: impl FnMut(&[u8]) -> Option<Answer> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            while let Some(Answer { status, body, .. }) =
                read_request(&mut stream).and_then(|request| answer(&request))
            {
                let length = body.len();
                let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}");
                if stream.write_all(text.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    format!("http://{address}")
}

/// Forwards requests up to the one with this number. That request, or its answer, is lost.
fn cut_at(hub: SocketAddr, number: usize, is_answer_lost: bool, count: Arc<AtomicUsize>) -> String {
    serve(move |request| {
        let arrived = count.fetch_add(1, Ordering::SeqCst);
        if arrived > number || (arrived == number && !is_answer_lost) {
            return None;
        }
        let answer = Client::connect(hub).exchange(request);
        (arrived != number).then_some(answer)
    })
}

/// One request for the hub; `None` when the client has gone.
fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&part[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = text(&bytes[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        if bytes.len() < end + 4 + length {
            continue;
        }
        let line = text(&bytes[..end]).lines().next()?.strip_suffix(" HTTP/1.1")?.to_owned();
        let headers = [
            ("host".to_owned(), "localhost".to_owned()),
            ("content-type".to_owned(), "application/json".to_owned()),
        ];
        return Some(request(&line, &headers, &bytes[end + 4..]));
    }
}

/// Whichever request or answer of a job is lost, the next call completes the job, and money has moved once.
#[test]
fn interrupted_job_continues_anywhere() {
    let mut world = World::new(&[]);
    let hub = world.hub().admin_address();
    let mut jobs = 0;
    for number in 0.. {
        let mut is_through = false;
        for is_answer_lost in [false, true] {
            world.trade();
            let name = format!("job-{number}-{is_answer_lost}");
            let count = Arc::new(AtomicUsize::new(0));
            let relay = cut_at(hub, number, is_answer_lost, Arc::clone(&count));
            let cut = settlement_at(&relay, &["run", &name, "--to", "settled"]);
            is_through = cut.status.code() == Some(0);
            if !is_through {
                assert_eq!(cut.status.code(), Some(69), "{}", text(&cut.stderr));
                assert!(count.load(Ordering::SeqCst) > number);
            }
            let done = settlement_json(&world, &["run", &name, "--to", "settled"]);
            jobs += 1;
            assert_eq!(states(&done), ("SETTLED".into(), vec!["SETTLED".into(); 3]), "{name}");
            // One window and one settlement for each job.
            assert_eq!(
                (&done["windows"][0]["id"], &done["settlements"][0]["id"]),
                (&json!(jobs), &json!(jobs))
            );
            assert_eq!(positions(&world), no_positions(), "{name}");
        }
        if is_through {
            assert!(number > 12, "{number}");
            break;
        }
    }
    world.stop_and_audit();
}

#[test]
fn metrics_show_open_and_unsettled_windows() {
    let world = World::new(&[]);
    let hour_ms = 3_600_000;
    let count = |series: &str, count: u64| world.until(&count, || world.metric(series));
    let at_least = |series: &str, seconds: u64| {
        world.until(&true, || world.metric(series) >= seconds);
        assert!(world.metric(series) < seconds + 3_600, "{series}");
    };
    count(r#"upesi_settlement_windows{state="OPEN"}"#, 1);
    world.clock.advance(hour_ms);
    world.trade();
    count("upesi_settlement_open_transfers", 3);
    world.clock.advance(hour_ms);
    // Not older than the settlement model: before it no transfer can commit.
    at_least("upesi_settlement_open_seconds", 2 * 3_600);
    settlement(&world, &["close", "--reason", "end of day"]);
    count("upesi_settlement_open_transfers", 0);
    count("upesi_settlement_open_seconds", 0);
    count(r#"upesi_settlement_windows{state="CLOSED"}"#, 1);
    world.clock.advance(3 * hour_ms);
    at_least("upesi_settlement_waiting_seconds", 3 * 3_600);
    settlement(&world, &["create", "DEFERREDNETKES", "--window", "1", "--reason", "end of day"]);
    count("upesi_settlement_waiting_seconds", 0);
    count(r#"upesi_settlements{state="PENDING_SETTLEMENT"}"#, 1);
    for (what, kept, max) in
        [("windows", 2, 100_000), ("settlements", 1, 100_000), ("accounts", 3, 1_000_000)]
    {
        count(&format!("upesi_settlement_kept{{what=\"{what}\"}}"), kept);
        count(&format!("upesi_settlement_kept_max{{what=\"{what}\"}}"), max);
    }
    world.clock.advance(4 * hour_ms);
    at_least("upesi_settlement_unchanged_seconds", 4 * 3_600);
    settlement(&world, &["advance", "1", "--to", "settled", "--reason", "bank file 17"]);
    count("upesi_settlement_unchanged_seconds", 0);
    count(r#"upesi_settlements{state="SETTLED"}"#, 1);
    count(r#"upesi_settlement_windows{state="SETTLED"}"#, 1);
    world.pay("greenbank", "redmoney", "2.5", "KES");
    // The second window is as old as the close of the first one.
    at_least("upesi_settlement_open_seconds", 7 * 3_600);
}

/// The report of a settlement, as lines.
fn report(world: &World, arguments: &[&str]) -> Vec<String> {
    settlement(world, &[&["report"], arguments].concat()).lines().map(str::to_owned).collect()
}

#[test]
fn reports_equal_the_sums_of_the_windows() {
    let mut world = World::new(&[]);
    world.trade();
    world.pay("bluewallet", "greenbank", "1000.25", "KES");
    settlement(&world, &["close", "--reason", "noon"]);
    world.pay("greenbank", "bluewallet", "2.5", "KES");
    settlement(&world, &["close", "--reason", "end of day"]);
    let create = ["create", "DEFERREDNETKES", "--window", "1", "--window", "2", "--reason", "end of day"];
    settlement(&world, &create);
    // Later payments are in no report.
    world.pay("redmoney", "greenbank", "77", "KES");
    let multilateral = report(&world, &["1"]);
    assert_eq!(
        multilateral[..5],
        [
            "report,multilateral",
            "report-version,1",
            "settlement,1",
            "model,DEFERREDNETKES",
            "state,PENDING_SETTLEMENT"
        ]
    );
    assert_eq!(multilateral[6], "windows,1 2");
    assert_eq!(multilateral[9..11], ["transfers,5", "rows,3"]);
    assert_eq!(
        multilateral[11..],
        [
            "",
            "participant,currency,net amount",
            "bluewallet,KES,977.25",
            "greenbank,KES,-965.5",
            "redmoney,KES,-11.75"
        ]
    );
    assert_eq!(
        report(&world, &["1", "--kind", "dfsp", "--dfsp", "greenbank"])[13..],
        [
            "net debtor,net creditor,currency,total sent,total received,net amount,window",
            "bluewallet,greenbank,KES,43,1000.25,-957.25,all",
            "bluewallet,greenbank,KES,40.5,1000.25,-959.75,1",
            "greenbank,bluewallet,KES,2.5,0,2.5,2",
            "redmoney,greenbank,KES,0,8.25,-8.25,all",
            "redmoney,greenbank,KES,0,8.25,-8.25,1"
        ]
    );
    assert_eq!(
        report(&world, &["1", "--kind", "matrix"])[12..],
        [
            "KES sender by receiver,bluewallet,greenbank,redmoney,total sent",
            "bluewallet,0,1000.25,20,1020.25",
            "greenbank,43,0,0,43",
            "redmoney,0,8.25,0,8.25",
            "total received,43,1008.5,20,1071.5",
            "aggregated net,977.25,-965.5,-11.75,0"
        ]
    );
    reports_go_to_files(&world);
    world.stop_and_audit();
}

fn reports_go_to_files(world: &World) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bank.csv");
    let out = file.to_str().unwrap();
    assert_eq!(settlement(world, &["report", "1", "--kind", "bank", "--out", out]), "");
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "Settlement ID,1\r\nSettlement Completed Date,\r\nSettlement Completed Time,\r\nTimezone,UTC\r\n\r\n\
         Participant (PayerFSP Identifier),Participant (Bank Identifier),Balance,Settlement Transfer,Currency\r\n\
         3 5 bluewallet,,,977.25,KES\r\n2 3 greenbank,,,-965.5,KES\r\n4 7 redmoney,,,-11.75,KES\r\n"
    );
    let sheet = directory.path().join("bank.XLSX");
    assert_eq!(settlement(world, &["report", "1", "--kind", "bank", "--out", sheet.to_str().unwrap()]), "");
    assert!(std::fs::read(&sheet).unwrap().starts_with(b"PK\x03\x04"));
    let (code, error) = failure(world, &["reconcile", "1", sheet.to_str().unwrap()]);
    assert!(code == 65 && error.contains("row 7: the balance is empty"), "{code} {error}");
    assert_eq!(failure(world, &["report", "1", "--out", directory.path().to_str().unwrap()]).0, 73);
    assert_eq!(failure(world, &["report", "1", "--kind", "dfsp"]).0, 64);
    let (code, error) = failure(world, &["report", "1", "--kind", "dfsp", "--dfsp", "absentbank"]);
    assert!(code == 1 && error.contains("absentbank has no account in it"), "{code} {error}");
    assert_eq!(failure(world, &["report", "2"]).0, 1);
}

/// A hub whose pairs do not match the nets of its settlement.
#[test]
fn report_of_wrong_sums_is_rejected() {
    let world = World::new(&[]);
    world.trade();
    settlement(&world, &["run", "day-1"]);
    let hub = world.hub().admin_address();
    let relay = serve(move |request| {
        let mut answer = Client::connect(hub).exchange(request);
        answer.body =
            answer.body.replace(r#""amount":40.5,"transfers":1"#, r#""amount":40.25,"transfers":1"#);
        Some(answer)
    });
    let file = world.data().join("report.csv");
    let output = settlement_at(&relay, &["report", "1", "--out", file.to_str().unwrap()]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(65), String::new()));
    let expected = "upesi: settlement 1: the figures are inconsistent\n\
        account 3: net of its pairs is 32, net of the settlement is 32.25\n\
        account 5: net of its pairs is -20.25, net of the settlement is -20.5\n";
    assert_eq!(text(&output.stderr), expected);
    assert!(!file.exists());
}

// Jobs are identified by their names, whatever else happens.

/// More settlements than a search returns.
const SINCE: usize = 1_001;

#[test]
fn job_is_found_among_many_later_settlements() {
    let mut world = World::new(&[]);
    world.trade();
    let done = settlement_json(&world, &["run", "day-1", "--to", "settled"]);
    world.trade();
    world.operate("POST", "/v2/settlementWindows/2", r#"{"state":"CLOSED","reason":"end of day"}"#);
    let create = r#"{"settlementModel":"DEFERREDNETKES","reason":"a trial","settlementWindows":[{"id":2}]}"#;
    for number in 2..=SINCE + 1 {
        world.operate("POST", "/v2/settlements", create);
        let abort = r#"{"state":"ABORTED","reason":"of the bank"}"#;
        world.operate("PUT", &format!("/v2/settlements/{number}"), abort);
    }
    // Money that another run would settle.
    world.trade();
    assert_eq!(settlement_json(&world, &["run", "day-1", "--to", "settled"]), done);
    assert_eq!(settlement_json(&world, &["show", "--window", "3"])["windows"][0]["state"], "OPEN");
    // All settlements of a name are found, page by page.
    world.operate("POST", "/v2/settlements", &create.replace("a trial", "settlement run trial"));
    let trial = settlement_json(&world, &["run", "trial", "--to", "settled"]);
    assert_eq!(trial["settlements"][0]["id"], json!(SINCE + 2));
    assert_eq!((&trial["windows"][0]["id"], states(&trial).0), (&json!(2), "SETTLED".to_owned()));
    world.stop_and_audit();
}

/// A job closes its window. Before it continues, an operator settles a part of the window by hand.
#[test]
fn window_partly_settled_by_hand_still_belongs_to_the_job() {
    let mut world = World::new(&[]);
    for name in ["greenbank", "redmoney"] {
        open_in_tzs(&world, name);
    }
    world.trade();
    world.pay("greenbank", "redmoney", "100.75", "TZS");
    world.operate("POST", "/v2/settlementWindows/1", r#"{"state":"CLOSED","reason":"settlement run day-1"}"#);
    settlement_json(&world, &["create", "DEFERREDNETTZS", "--window", "1", "--reason", "by hand"]);
    world.trade();
    let done = settlement_json(&world, &["run", "day-1", "--to", "settled"]);
    assert_eq!(
        (&done["windows"][0]["id"], &done["windows"][0]["state"]),
        (&json!(1), &json!("PENDING_SETTLEMENT"))
    );
    let [own] = &done["settlements"].as_array().unwrap()[..] else { panic!("{done}") };
    assert_eq!((&own["model"], &own["state"]), (&json!("DEFERREDNETKES"), &json!("SETTLED")));
    assert_eq!(settlement_json(&world, &["show", "--window", "2"])["windows"][0]["state"], "OPEN");
    world.stop_and_audit();
}
