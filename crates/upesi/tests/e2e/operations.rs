//! Work of operators: onboarding, scheme files, health, metrics, the log level.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::dfsp::{Answer, Client, request};
use crate::common::exposition::Exposition;
use crate::common::message::{Message, Terms};
use crate::common::{MODEL, World};
use crate::support_command::upesi;
use crate::{code, common, text};

fn transfer(world: &World, payer: &str, payee: &str) -> String {
    let id = world.new_id();
    let terms = Terms { payer: payer.into(), payee: payee.into(), ..Terms::new(&id, world.now()) };
    world.deliver(Message::prepare(&terms));
    assert_eq!(world.dfsp(payee).next(&id).method, "POST");
    world.deliver(Message::fulfil(&id, "COMMITTED").from(payee).to(payer));
    assert_eq!(world.dfsp(payer).next(&id).method, "PUT");
    id
}

/// A GET to the FSPIOP port.
fn ask(world: &World, path: &str) -> Answer {
    let headers = [("host".to_owned(), "localhost".to_owned())];
    Client::connect(world.fspiop()).exchange(&request(&format!("GET {path}"), &headers, b""))
}

/// Everything that onboarding decides.
fn scheme_of(world: &World) -> Vec<String> {
    let mut texts: Vec<_> = ["/participants", "/participants/limits", "/settlementModels", "/positions"]
        .into_iter()
        .map(|path| world.admin("GET", path, "").body)
        .collect();
    for name in ["Hub", "greenbank", "bluewallet", "redmoney"] {
        for list in ["accounts", "endpoints"] {
            texts.push(world.admin("GET", &format!("/participants/{name}/{list}"), "").body);
        }
    }
    texts
}

#[test]
fn onboarding_twice_changes_nothing() {
    let mut world = World::new(&[]);
    let before = scheme_of(&world);
    let account = world.account("greenbank", "SETTLEMENT");
    let funds = |id: &str| {
        format!(
            r#"{{"transferId":"{id}","externalReference":"bank","action":"recordFundsIn","reason":"prefund","amount":{{"amount":1,"currency":"KES"}}}}"#
        )
    };
    let deposit = world.new_id();
    let account_path = format!("/participants/greenbank/accounts/{account}");
    world.operate("POST", &account_path, &funds(&deposit));
    let with_deposit = scheme_of(&world);
    assert_ne!(before, with_deposit);
    let limits = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":5000},"initialPosition":0}"#;
    for (path, body) in [
        ("/participants/Hub/accounts", r#"{"currency":"KES","type":"HUB_RECONCILIATION"}"#),
        ("/participants/Hub/accounts", r#"{"currency":"KES","type":"HUB_MULTILATERAL_SETTLEMENT"}"#),
        ("/settlementModels", MODEL),
        ("/participants", r#"{"name":"greenbank","currency":"KES"}"#),
        ("/participants/greenbank/initialPositionAndLimits", limits),
        (&account_path, &funds(&deposit)),
    ] {
        // The hub answers some of these as already done, but none fails.
        let answer = world.admin("POST", path, body);
        assert!(answer.status < 500, "{path}: {answer:?}");
        assert_eq!(scheme_of(&world), with_deposit, "{path}");
    }
    let base_url = world.dfsp("greenbank").base_url();
    world.set_endpoints("greenbank", &base_url);
    assert_eq!(scheme_of(&world), with_deposit);
    world.restart();
    assert_eq!(scheme_of(&world), with_deposit, "after a restart");
    transfer(&world, "greenbank", "bluewallet");
    world.stop_and_audit();
}

fn apply(world: &World, file: &std::path::Path, more: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_upesi"))
        .args(["scheme", "apply", "--admin", &world.admin_url()])
        .args(more)
        .arg(file)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.success(), text)
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story of a hub and its file")]
fn a_scheme_file_makes_a_hub_ready_and_is_idempotent() {
    let mut world = World::bare(&[]);
    for name in ["greenbank", "bluewallet"] {
        world.dfsps.insert(name.into(), common::dfsp::Dfsp::start(name));
    }
    let scheme = |cap: u32| {
        let dfsp = |name: &str| {
            format!("[[dfsp]]\nname = \"{name}\"\nbase_url = \"{}\"\n", world.dfsp(name).base_url())
        };
        format!(
            "name = \"test\"\ncurrencies = [\"KES\"]\n[[model]]\nname = \"DEFERREDNETKES\"\ncurrency = \"KES\"\n\
             [defaults.accounts.KES]\nnet_debit_cap = {cap}\nfunds = \"2000.5\"\n{}{}",
            dfsp("greenbank"),
            dfsp("bluewallet")
        )
    };
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("scheme.toml");
    std::fs::write(&file, scheme(1_000)).unwrap();
    let participants = || world.admin("GET", "/participants", "").body;
    let empty = participants();
    let (ok, plan) = apply(&world, &file, &["--plan"]);
    assert!(ok && plan.contains("greenbank"), "{plan}");
    assert_eq!(participants(), empty, "a plan changes nothing");
    let (ok, made) = apply(&world, &file, &[]);
    assert!(ok, "{made}");
    assert_eq!(plan, made, "the planned changes were made");
    let ready = participants();
    let (ok, again) = apply(&world, &file, &[]);
    assert!(ok && again.starts_with("= unchanged ") && again.lines().count() == 1, "{again}");
    assert_eq!(participants(), ready);
    transfer(&world, "greenbank", "bluewallet");
    // Only the cap differs. The funds stay unchanged although positions moved.
    std::fs::write(&file, scheme(9)).unwrap();
    let (ok, changed) = apply(&world, &file, &[]);
    assert!(ok && changed.lines().filter(|line| line.starts_with('~')).count() == 2, "{changed}");
    let id = world.new_id();
    world.deliver(Message::prepare(&Terms::new(&id, world.now())));
    assert!(world.dfsp("greenbank").next(&id).text().contains(r#""errorCode":"4200""#));
    // Deactivated objects are activated again: the DFSP before its funds, and its caps with the hub's alarm percentage.
    world.operate("PUT", "/settlementModels/DEFERREDNETKES", r#"{"isActive":false}"#);
    world.operate("PUT", "/participants/greenbank", r#"{"isActive":false}"#);
    let limits = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":9,"alarmPercentage":42}}"#;
    world.operate("PUT", "/participants/greenbank/limits", limits);
    let back = scheme(1_000)
        .replace("2000.5", "2500")
        .replace("name = \"greenbank\"\n", "name = \"greenbank\"\nis_active = true\n");
    std::fs::write(&file, &back).unwrap();
    let (ok, changed) = apply(&world, &file, &[]);
    assert!(ok, "{changed}");
    let lines: Vec<_> = changed.lines().filter(|line| !line.starts_with('=')).collect();
    // Higher funds in the file do not lead to a further deposit.
    let deposited = |name: &str| {
        format!(
            "? funds {name} KES: 2000.5 were already deposited for this scheme; record further deposits as the bank books them"
        )
    };
    assert_eq!(
        lines,
        [
            "~ model DEFERREDNETKES inactive → active",
            "~ participant greenbank inactive → active",
            "~ limit greenbank KES 9 → 1000, alarm at 42 %",
            "~ limit bluewallet KES 9 → 1000, alarm at 80 %",
            &deposited("greenbank"),
            &deposited("bluewallet"),
        ]
    );
    let cover = r#"upesi_position_cover{fsp="greenbank",currency="KES"}"#;
    scrape(&world, cover, "2000.5");
    let (ok, again) = apply(&world, &file, &[]);
    let left: Vec<_> = again.lines().filter(|line| !line.starts_with('=')).collect();
    assert!(ok && left == [deposited("greenbank"), deposited("bluewallet")], "{again}");
    transfer(&world, "greenbank", "bluewallet");
    std::fs::write(&file, back.replace("is_active = true", "is_active = false").replace("2500", "2600"))
        .unwrap();
    let (ok, changed) = apply(&world, &file, &[]);
    assert!(ok && changed.contains(&deposited("greenbank")), "{changed}");
    scrape(&world, cover, "2000.5");
    let last = changed.lines().rfind(|line| line.starts_with('~') && line.contains("greenbank"));
    assert_eq!(last, Some("~ participant greenbank active → inactive"), "deactivated last");
    world.stop_and_audit();
}

#[test]
fn both_ports_report_health() {
    let world = World::new(&[]);
    let parts = |body: &str| {
        let health: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(health["status"], "OK", "{body}");
        assert!(health["uptime"].is_number() && health["startTime"].is_string(), "{body}");
        assert_eq!(health["versionNumber"], env!("CARGO_PKG_VERSION"));
        let services = health["services"].as_array().unwrap();
        assert!(services.iter().all(|service| service["status"] == "OK"), "{body}");
        services.iter().map(|service| service["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let answer = ask(&world, "/health");
    assert_eq!(answer.status, 200);
    assert_eq!(parts(&answer.body), ["ledger", "journal", "clock", "broker", "datastore"]);
    let answer = world.admin("GET", "/health", "");
    assert_eq!(answer.status, 200);
    assert_eq!(
        parts(&answer.body),
        ["journal", "archive", "engine", "clock", "store", "datastore", "broker"]
    );
    assert_eq!((ask(&world, "/live").status, &*ask(&world, "/live").body), (200, "OK"));
    assert_eq!(world.admin("GET", "/live", "").status, 200);
    let metadata = ask(&world, "/");
    assert_eq!(metadata.status, 200);
    assert!(metadata.body.contains(r#""hubName":"Hub""#), "{}", metadata.body);
    for answer in [ask(&world, "/nowhere"), world.admin("GET", "/nowhere", "")] {
        assert_eq!((answer.status, answer.error_code()), (404, Some("3002")));
    }
    let headers = [("host".to_owned(), "localhost".to_owned())];
    let dropped = Client::connect(world.fspiop()).exchange(&request("DELETE /endpointcache", &headers, b""));
    assert_eq!(dropped.status, 202);
}

#[test]
fn invalid_log_level_is_rejected() {
    let world = World::bare(&[]);
    for level in ["debug", "info,upesi_delivery=trace", "off"] {
        let answer = world.admin("PUT", "/log-level", &format!(r#"{{"level":"{level}"}}"#));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    for body in [r#"{"level":"loud"}"#, r#"{"level":""}"#, "{}", r#"{"level":7}"#] {
        let answer = world.admin("PUT", "/log-level", body);
        assert_eq!((answer.status, answer.error_code()), (400, Some("3101")), "{body}: {answer:?}");
    }
}

/// Waits until the metrics, which show positions with some delay, have this value.
fn scrape(world: &World, series: &str, value: &str) -> Exposition {
    let read = || Exposition::read(&world.admin("GET", "/metrics", "").body);
    world.until(&Some(value.to_owned()), || read().samples.get(series).cloned());
    read()
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn metrics_are_an_exposition_with_the_names_that_dashboards_know() {
    let world = World::new(&[]);
    for _ in 0..3 {
        transfer(&world, "greenbank", "bluewallet");
    }
    let id = world.new_id();
    world.deliver(Message::prepare(&Terms { amount: "5000".into(), ..Terms::new(&id, world.now()) }));
    assert_eq!(world.dfsp("greenbank").next(&id).method, "PUT");
    world.deliver(Message::get(&id, "greenbank"));
    assert_eq!(world.dfsp("greenbank").next(&id).method, "PUT");
    assert_eq!(world.send(Message::fulfil(&id, "DONE")).0.status, 400);
    world.until(&(0, 0), || world.undelivered());
    let found = scrape(&world, r#"upesi_position{fsp="greenbank",currency="KES"}"#, "30");
    assert_eq!(found.value(r#"upesi_position{fsp="bluewallet",currency="KES"}"#), "-30");
    assert_eq!(found.value(r#"upesi_position_cover{fsp="greenbank",currency="KES"}"#), "3000");
    assert_eq!(found.value(r#"upesi_net_debit_cap{fsp="greenbank",currency="KES"}"#), "5000");
    assert_eq!(found.value(r#"upesi_position_alarm{fsp="greenbank",currency="KES"}"#), "0");
    for name in [
        "moja_ml_transfer_prepare",
        "moja_ml_transfer_fulfil",
        "moja_ml_transfer_fulfil_error",
        "moja_ml_transfer_get",
        "moja_ml_notification_event",
        "moja_ml_notification_event_delivery",
        "moja_cl_transfer_prepare",
        "moja_cl_transfer_fulfil",
        "moja_cl_transfer_get",
        "moja_cl_transfer_position",
        "moja_ml_tx_transfer",
        "moja_ml_tx_transfer_prepare",
        "moja_ml_tx_transfer_fulfil",
        "moja_als_egress_sendRequestToParticipant",
        "upesi_engine_decide_seconds",
        "upesi_engine_wait_seconds",
        "upesi_archive_apply_seconds",
        "upesi_archive_read_seconds",
        "upesi_snapshot_seconds",
    ] {
        assert_eq!(found.families.get(name).map(String::as_str), Some("histogram"), "{name}");
    }
    for (series, value) in [
        ("upesi_transfers_committed", "3"),
        ("upesi_prepares_refused", "1"),
        ("upesi_transfers_reserved", "0"),
        ("upesi_callbacks_undelivered", "0"),
        ("upesi_callbacks_parked", "0"),
        (r#"moja_ml_transfer_prepare_count{serviceName="ml-service",success="true"}"#, "4"),
        (r#"moja_ml_transfer_fulfil_count{serviceName="ml-service",success="true"}"#, "3"),
        (r#"moja_ml_transfer_fulfil_count{serviceName="ml-service",success="false"}"#, "1"),
        // Three commits, the rejection, the answer to the query; three prepares and three copies.
        (r#"upesi_lane_delivered_total{fsp="greenbank"}"#, "5"),
        (r#"upesi_lane_delivered_total{fsp="bluewallet"}"#, "6"),
        (r#"upesi_lane_paused{fsp="greenbank"}"#, "0"),
        (r#"upesi_lane_paused_times_total{fsp="greenbank"}"#, "0"),
        (r#"upesi_lane_catch_ups_total{fsp="greenbank"}"#, "1"),
        (r#"upesi_lane_backlog_failures_total{fsp="greenbank"}"#, "0"),
        ("upesi_archive_filter_ready", "1"),
        ("upesi_archive_read_seconds_count", "0"),
        (
            r#"moja_ml_notification_event_delivery_count{serviceName="ml-handler-notification",success="true",dest="bluewallet"}"#,
            "6",
        ),
        (r#"moja_cl_transfer_prepare_count{serviceName="central-handler-prepare",success="true"}"#, "4"),
        (r#"moja_cl_transfer_fulfil_count{serviceName="central-handler-fulfil",success="true"}"#, "3"),
        (r#"moja_cl_transfer_get_count{serviceName="central-handler-get",success="true"}"#, "1"),
        // Three prepares with their ends, and the rejected one.
        (r#"moja_cl_transfer_position_count{serviceName="central-handler-position",success="true"}"#, "7"),
        (r#"moja_ml_tx_transfer_prepare_count{serviceName="ml-handler-notification",success="true"}"#, "3"),
        (r#"moja_ml_tx_transfer_fulfil_count{serviceName="ml-handler-notification",success="true"}"#, "3"),
    ] {
        assert_eq!(found.value(series), value, "{series}");
    }
    // 30 is more than 0.5 % of the cover, 3000.
    let limits = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":5000,"alarmPercentage":0.5}}"#;
    world.operate("PUT", "/participants/greenbank/limits", limits);
    scrape(&world, r#"upesi_position_alarm{fsp="greenbank",currency="KES"}"#, "1");
    // The metrics show all DFSPs' money, so the FSPIOP port does not serve them.
    let answer = ask(&world, "/metrics");
    assert_eq!((answer.status, answer.error_code()), (404, Some("3002")), "{answer:?}");
    let answer = world.admin("GET", "/metrics", "");
    assert!(answer.header("content-type").is_some_and(|kind| kind.contains("openmetrics")), "{answer:?}");
}

/// The metric shows the cover that prepares are checked against, and no model takes cover from another account.
#[test]
fn cover_comes_from_settlement_accounts() {
    let world = World::new(&[]);
    transfer(&world, "greenbank", "bluewallet");
    let series = r#"upesi_position_cover{fsp="greenbank",currency="KES"}"#;
    let alarm = r#"upesi_position_alarm{fsp="greenbank",currency="KES"}"#;
    assert_eq!(scrape(&world, series, "3000").value(alarm), "0");
    world.operate("PUT", "/settlementModels/DEFERREDNETKES", r#"{"isActive":false}"#);
    // Only settlement accounts cover positions, as for prepares.
    let other = MODEL
        .replace("DEFERREDNETKES", "OTHERCOVER")
        .replace(r#""currency":"KES","#, "")
        .replace(r#"Type":"SETTLEMENT""#, r#"Type":"INTERCHANGE_FEE_SETTLEMENT""#);
    let refused = world.admin("POST", "/settlementModels", &other);
    assert_eq!((refused.status, refused.error_code()), (400, Some("3101")), "{refused:?}");
    world.operate("PUT", "/settlementModels/DEFERREDNETKES", r#"{"isActive":true}"#);
    assert_eq!(scrape(&world, series, "3000").value(alarm), "0");
}

/// A name that cannot be used in a header, a path or a file is rejected when it is created. All other names work
/// everywhere.
#[test]
fn names_of_every_allowed_character_work_everywhere() {
    let mut world = World::new(&[]);
    for odd in [r#"o\"dd\\bank"#, "Green Bank", "=cmd|calc", ".hidden", "a/../b", r"a\u202eb"] {
        let refused =
            world.admin("POST", "/participants", &format!(r#"{{"name":"{odd}","currency":"KES"}}"#));
        assert_eq!((refused.status, refused.error_code()), (400, Some("3101")), "{odd}: {refused:?}");
    }
    let name = "o-dd_B.4nk";
    let dfsp = common::dfsp::Dfsp::start("odd");
    world.operate("POST", "/participants", &format!(r#"{{"name":"{name}","currency":"KES"}}"#));
    let limits = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":7},"initialPosition":0}"#;
    world.operate("POST", &format!("/participants/{name}/initialPositionAndLimits"), limits);
    world.set_endpoints(name, &dfsp.base_url());
    let id = world.new_id();
    let terms = Terms { payee: name.into(), ..Terms::new(&id, world.now()) };
    world.deliver(Message::prepare(&terms).to(name));
    let seen = dfsp.next(&id);
    assert_eq!(seen.header("fspiop-destination"), Some(name));
    world.deliver(Message::fulfil(&id, "RESERVED").from(name));
    assert_eq!(dfsp.next(&id).method, "PATCH");
    world.until(&(0, 0), || world.undelivered());
    let found = scrape(&world, &format!(r#"upesi_position{{fsp="{name}",currency="KES"}}"#), "-10");
    assert_eq!(found.value(&format!(r#"upesi_lane_delivered_total{{fsp="{name}"}}"#)), "2");
    let lanes = world.operate("GET", "/lanes", "");
    assert!(lanes.as_array().unwrap().iter().any(|lane| lane["participant"] == name), "{lanes}");
    world.stop_and_audit();
}

// A day's settlement by two users: one runs the commands, and one approves.

/// The users, with the files of their tokens.
struct Desk {
    admin: String,
    directory: tempfile::TempDir,
}

impl Desk {
    /// Creates a treasurer and an approver. From then on the hub requires authentication.
    fn open(world: &mut World) -> Self {
        world.restart_with(&[("admin.authentication", "required")]);
        let desk = Self { admin: world.admin_url(), directory: tempfile::tempdir().unwrap() };
        let data = world.data().to_str().unwrap();
        let made =
            upesi(&["admin", "bootstrap", "--data", data, "--out"]).arg(desk.file("first")).output().unwrap();
        assert_eq!(code(&made), 0, "{}", text(&made.stderr));
        for (name, role, by) in [
            ("iam", "iam-admin", "first"),
            ("treasurer", "treasury", "iam"),
            ("approver", "treasury-approver", "iam"),
        ] {
            let out = desk.file(name);
            let made =
                desk.by(by, &["admin", "create", name, "--role", role, "--out", out.to_str().unwrap()]);
            assert_eq!(code(&made), 0, "{}", text(&made.stderr));
        }
        desk
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs a command of a user.
    fn by(&self, name: &str, arguments: &[&str]) -> Output {
        let mut command = upesi(arguments);
        command.args(["--admin", &self.admin, "--token-file"]).arg(self.file(name)).output().unwrap()
    }

    /// Repeats a command while it exits with 75, and has its proposals approved in between. Returns the number of
    /// approvals of each round, and the last output.
    fn by_two(&self, arguments: &[&str]) -> (Vec<usize>, String) {
        let mut rounds = Vec::new();
        loop {
            let output = self.by("treasurer", arguments);
            let told = text(&output.stderr);
            match code(&output) {
                0 => return (rounds, text(&output.stdout)),
                75 => {}
                other => panic!("{other}: {told}"),
            }
            let (_, ids) = told.split_once("(upesi admin approve ").unwrap_or_else(|| panic!("{told}"));
            let ids: Vec<&str> = ids.split_once(')').unwrap().0.split(' ').collect();
            assert!(told.trim_end().ends_with("to continue") && rounds.len() < 20, "{told}");
            // A repetition waits for the same approval. Only the first call of a run shows the window that it closes.
            let again = self.by("treasurer", arguments);
            let (what_waits, told_again) = (told.lines().last().unwrap(), text(&again.stderr));
            assert_eq!((code(&again), told_again.lines().last()), (75, Some(what_waits)));
            let comment = ["admin", "approve", "--comment", "seen at the bank"];
            let approved = self.by("approver", &[&comment, &ids[..]].concat());
            assert_eq!(code(&approved), 0, "{}", text(&approved.stderr));
            rounds.push(ids.len());
        }
    }
}

/// The bank's file with balances filled in.
fn fill(file: &Path, balances: &[(&str, &str)]) {
    let mut text = std::fs::read_to_string(file).unwrap();
    for (name, balance) in balances {
        text = text.replace(&format!(" {name},,,"), &format!(" {name},,{balance},"));
    }
    std::fs::write(file, text).unwrap();
}

fn covers_and_caps(world: &World) -> Vec<(String, String)> {
    let of = |name: &str| {
        let accounts = world.operate("GET", &format!("/participants/{name}/accounts"), "");
        let mut accounts = accounts.as_array().unwrap().iter();
        let cover =
            accounts.find(|one| one["ledgerAccountType"] == "SETTLEMENT").unwrap()["value"].to_string();
        let limits = world.operate("GET", &format!("/participants/{name}/limits"), "");
        (cover, limits[0]["limit"]["value"].to_string())
    };
    ["greenbank", "bluewallet", "redmoney"].map(of).to_vec()
}

fn expected(all: &[(&str, &str); 3]) -> Vec<(String, String)> {
    all.iter().map(|(cover, cap)| ((*cover).to_owned(), (*cap).to_owned())).collect()
}

#[test]
fn a_treasury_of_two_closes_settles_and_reconciles() {
    let mut world = World::new(&[]);
    world.trade();
    let desk = Desk::open(&mut world);
    let (rounds, shown) = desk.by_two(&["settlement", "run", "day-1", "--to", "settled"]);
    // First the settlement, then its four stages.
    assert_eq!(rounds, [1; 2]);
    assert!(shown.contains("settlement 1") && shown.contains("  SETTLED since"), "{shown}");

    world.trade();
    let cap = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":100,"alarmPercentage":80}}"#;
    world.restart_with(&[("admin.authentication", "off")]);
    world.operate("PUT", "/participants/bluewallet/limits", cap);
    world.restart_with(&[("admin.authentication", "required")]);
    let desk = Desk { admin: world.admin_url(), ..desk };
    let (rounds, _) = desk.by_two(&["settlement", "close", "2", "--reason", "end of day"]);
    assert!(rounds.is_empty());
    let create = ["settlement", "create", "DEFERREDNETKES", "--window", "2", "--reason", "end of day"];
    let proposed = desk.by("treasurer", &create);
    let told =
        "upesi: 1 change needs a second person: have it approved (upesi admin approve 3), which makes it\n";
    assert_eq!((code(&proposed), &*text(&proposed.stderr)), (75, told));
    let approved = desk.by("approver", &["admin", "approve", "3"]);
    assert_eq!(code(&approved), 0, "{}", text(&approved.stderr));
    let file = desk.file("bank.csv");
    let path = file.to_str().unwrap();
    let written = desk.by("treasurer", &["settlement", "report", "2", "--kind", "bank", "--out", path]);
    assert_eq!(code(&written), 0, "{}", text(&written.stderr));
    fill(&file, &[("greenbank", "2967.75"), ("bluewallet", "3020.5"), ("redmoney", "3011.75")]);
    let (rounds, shown) = desk.by_two(&[
        "settlement",
        "reconcile",
        "2",
        path,
        "--apply",
        "--move-cover",
        "--lower-caps",
        "--raise-caps",
    ]);
    // The lowered caps; RECORDED, RESERVED; greenbank COMMITTED with its withdrawal; both receivers COMMITTED with
    // their deposits; bluewallet's cap; SETTLED.
    assert_eq!(rounds, [1]);
    assert!(shown.starts_with("settlement 2  SETTLED") && !shown.contains("by the hub"), "{shown}");
    world.restart_with(&[("admin.authentication", "off")]);
    let after = expected(&[("-2967.75", "2967.75"), ("-3020.5", "3020.5"), ("-3011.75", "3011.75")]);
    assert_eq!(covers_and_caps(&world), after);
    caps_go_down_first_and_up_last(&world.journal());
    world.stop_and_audit();
}

/// Lowered caps are part of the same approval, and the cover stays.
#[test]
fn caps_alone_are_lowered_by_two_operators() {
    let mut world = World::new(&[]);
    world.trade();
    let desk = Desk::open(&mut world);
    let (rounds, _) = desk.by_two(&["settlement", "run", "day-1", "--to", "recorded"]);
    assert_eq!(rounds, [1; 2]);
    let file = desk.file("bank.csv");
    let path = file.to_str().unwrap();
    let written = desk.by("treasurer", &["settlement", "report", "1", "--kind", "bank", "--out", path]);
    assert_eq!(code(&written), 0, "{}", text(&written.stderr));
    fill(&file, &[("greenbank", "2967.75"), ("bluewallet", "3020.5"), ("redmoney", "3011.75")]);
    let lowered = ["settlement", "reconcile", "1", path, "--apply", "--lower-caps"];
    let (rounds, shown) = desk.by_two(&lowered);
    assert_eq!(rounds, [1]);
    assert!(shown.starts_with("settlement 1  SETTLED"), "{shown}");
    let approved = desk.by("approver", &["admin", "approvals", "3", "--json"]);
    let approved: serde_json::Value = serde_json::from_slice(&approved.stdout).unwrap();
    // Three caps, each once; RECORDED is done, RESERVED, payer and payees COMMITTED, SETTLED.
    assert_eq!(approved["result"], "7 changes were made", "{approved}");
    world.restart_with(&[("admin.authentication", "off")]);
    let after = expected(&[("-3000", "2967.75"), ("-3000", "3020.5"), ("-3000", "3011.75")]);
    assert_eq!(covers_and_caps(&world), after);
    world.stop_and_audit();
}

fn caps_go_down_first_and_up_last(journal: &str) {
    let at = |what: &str| journal.find(what).unwrap_or_else(|| panic!("{what}: {journal}"));
    let at_last = |what: &str| journal.rfind(what).unwrap_or_else(|| panic!("{what}: {journal}"));
    let recorded = at("PS_TRANSFERS_RECORDED, reason bank file of settlement 2");
    let order = [
        at("limit greenbank KES 2967.75"),
        recorded,
        at_last("limit bluewallet KES 3020.5"),
        at_last("state SETTLED, reason bank file of settlement 2"),
    ];
    assert!(order.is_sorted(), "{order:?}");
    assert!(at("limit redmoney KES 3011.75") < recorded);
}
