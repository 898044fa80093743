//! An operator's day with a secured hub: TLS with client certificates, tokens, and a saved context instead of flags.
//! Each `upesi` command line of the runbook runs here.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support_command::upesi;
use crate::support_trial::{Running, call, free_port, text};
use serde_json::Value;
use tempfile::TempDir;
use upesi_pki::Trial;

/// Less than the time that commands wait for a hub, and far more than an answer takes.
const AT_ONCE: Duration = Duration::from_secs(8);
const MSISDN: &str = "260001000000001";
/// Three hours east of UTC.
const ZONE: &str = "EAT-3";

/// A hub with TLS on all ports, two DFSPs, and payments.
struct Scheme {
    directory: TempDir,
    ports: [String; 2],
    hub: Option<Running>,
    /// The simulated DFSPs, and the base URL of greenbank.
    dfsps: Option<(Running, String)>,
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

impl Scheme {
    /// Opens the scheme and makes payments while the hub requires only certificates of operators. Afterwards it
    /// requires tokens.
    fn open() -> Self {
        let directory = TempDir::new().unwrap();
        let trial = directory.path().join("trial");
        let made =
            upesi(&["pki", "trial", "--dir", text(&trial), "greenbank", "bluewallet"]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        let mut scheme = Self { directory, ports, hub: None, dfsps: None };
        scheme.serve(&[]);
        scheme.start_dfsps();
        scheme.register();
        for amount in ["12.5", "100", "0.25"] {
            assert!(scheme.pay(amount).contains("COMMITTED"));
        }
        scheme.make_operators();
        scheme
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn trial(&self) -> Trial {
        Trial::open(&self.file("trial")).unwrap()
    }

    /// Starts the hub after an earlier one has ended.
    fn serve(&mut self, settings: &[&str]) {
        self.hub = None;
        let (config, data) = (self.file("trial/hub.toml"), self.file("data"));
        let hub = upesi(&["serve", "--config", text(&config), "--data", text(&data)])
            .args(["--fspiop", &self.ports[0], "--admin", &self.ports[1]])
            .args(["--set", "data.reserve_bytes=0", "--set", "callbacks.deadline_s=2"])
            .args(["--set", "callbacks.request_timeout_ms=1000", "--set", "callbacks.connect_timeout_ms=500"])
            .args(settings.iter().flat_map(|setting| ["--set", setting]))
            .stderr(Stdio::null())
            .spawn();
        self.hub = Some(Running(hub.unwrap()));
    }

    fn start_dfsps(&mut self) {
        let [fspiop, admin] = self.ports.each_ref().map(|port| format!("https://{port}"));
        let trial = self.file("trial");
        let mut dfsps =
            upesi(&["sim", "--trial", text(&trial), "--listen", "127.0.0.1:0", "--currency", "KES"])
                .args(["--hub", &fspiop, "--admin", &admin])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
        let said = BufReader::new(dfsps.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        let mut progress = BufReader::new(dfsps.stderr.take().unwrap()).lines().map_while(Result::ok);
        let base = said.strip_prefix("greenbank ").unwrap_or_else(|| panic!("{said}")).to_owned();
        // The scheme is applied when its last line, the count, is printed.
        assert!(progress.any(|line| line.contains("unchanged")));
        self.dfsps = Some((Running(dfsps), base));
    }

    fn base(&self) -> &str {
        &self.dfsps.as_ref().unwrap().1
    }

    fn register(&self) {
        let url = format!("{}/parties", self.base().replace("greenbank", "bluewallet"));
        let body = r#"{"idType":"MSISDN","idValue":"260001000000001"}"#;
        let answer = call(Some(self.trial().dfsp("bluewallet")), &url, body).unwrap();
        assert!(answer.status.is_success(), "{answer:?}");
    }

    /// A payment from greenbank to bluewallet. Returns the answer of greenbank's simulator.
    fn pay(&self, amount: &str) -> String {
        let body = format!(
            r#"{{"to":{{"idType":"MSISDN","idValue":"{MSISDN}"}},"amount":"{amount}","currency":"KES"}}"#
        );
        let url = format!("{}/payments", self.base());
        let answer = call(Some(self.trial().dfsp("greenbank")), &url, body.leak()).unwrap();
        String::from_utf8(answer.body.to_vec()).unwrap()
    }

    /// Makes a context for an operator with a token. From then on the hub requires tokens.
    fn make_operators(&mut self) {
        self.serve(&["admin.authentication=required", "admin.approvals=off"]);
        let [data, config, first, iam, ops] =
            ["data", "trial/hub.toml", "first.token", "iam.token", "ops.token"].map(|name| self.file(name));
        let sealed = self.run(&[
            "admin",
            "bootstrap",
            "--config",
            text(&config),
            "--data",
            text(&data),
            "--out",
            text(&first),
        ]);
        assert_eq!(code(&sealed), 0, "{}", stderr(&sealed));
        self.add_context("trial", &["--token-file", text(&ops)]);
        let iam_roles = [
            "admin",
            "create",
            "iam",
            "--role",
            "iam-admin",
            "--token-file",
            text(&first),
            "--out",
            text(&iam),
        ];
        // The hub may still be starting.
        let given_up = Instant::now() + crate::support_trial::AMPLE;
        let mut made = self.run(&iam_roles);
        while code(&made) == 69 && Instant::now() < given_up {
            made = self.run(&iam_roles);
        }
        assert_eq!(code(&made), 0, "{}", stderr(&made));
        let roles = ["operations", "treasury", "security-officer", "support", "monitor"];
        let roles: Vec<_> = roles.iter().flat_map(|role| ["--role", role]).collect();
        let create = ["admin", "create", "ops", "--token-file", text(&iam), "--out", text(&ops)];
        let made = self.run(&[&create[..], &roles].concat());
        assert_eq!(code(&made), 0, "{}", stderr(&made));
    }

    fn add_context(&self, name: &str, more: &[&str]) {
        let admin = format!("https://{}", self.ports[1]);
        let files = ["trial/ca.pem", "trial/operators/operator.pem", "trial/operators/operator.key"];
        let [anchors, certificate, key] = files.map(|name| self.file(name));
        let add = ["context", "add", name, "--admin", &admin, "--anchors", text(&anchors)];
        let identity = ["--certificate", text(&certificate), "--key", text(&key)];
        let added = self.run(&[&add[..], &identity, more].concat());
        assert_eq!(code(&added), 0, "{}", stderr(&added));
    }

    /// A command of the operator.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = upesi(arguments);
        command
            .env("XDG_CONFIG_HOME", self.file("config"))
            .env("TZ", ZONE)
            .current_dir(self.directory.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The output of a command that must succeed.
    fn shown(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    }

    fn shown_json(&self, arguments: &[&str]) -> Value {
        let text = self.shown(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
    }

    /// The error of a command that must fail without waiting for a hub.
    fn refused(&self, arguments: &[&str], expected: i32) -> String {
        let begun = Instant::now();
        let output = self.run(arguments);
        assert!(begun.elapsed() < AT_ONCE, "{arguments:?} took {:?}", begun.elapsed());
        assert_eq!(code(&output), expected, "{arguments:?}: {}", stderr(&output));
        stderr(&output)
    }

    /// Polls until the condition holds, up to a time limit.
    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let given_up = Instant::now() + crate::support_trial::AMPLE;
        while !is_so() {
            assert!(Instant::now() < given_up, "never: {what}");
            std::thread::yield_now();
        }
    }
}

#[test]
fn operator_commands_work_on_a_secured_hub() {
    let scheme = Scheme::open();
    contexts_are_saved_and_chosen(&scheme);
    connection_faults_are_reported_with_a_remedy(&scheme);
    payments_are_found_and_described(&scheme);
    dfsps_are_listed_and_changed(&scheme);
    money_is_moved(&scheme);
    slowest_dfsp_is_shown(&scheme);
    undelivered_callbacks_are_sent_again(&scheme);
    process_is_inspected(&scheme);
    times_are_local(&scheme);
    certificates_and_keys_are_looked_at_and_made(&scheme);
    bindings_blocks_and_keys_are_changed(&scheme);
    operators_are_changed(&scheme);
    every_command_of_the_runbook_runs(&scheme);
}

fn contexts_are_saved_and_chosen(scheme: &Scheme) {
    let file = scheme.file("config/upesi/contexts.toml");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let saved = fs::read_to_string(&file).unwrap();
    let token = fs::read_to_string(scheme.file("ops.token")).unwrap();
    assert!(saved.contains("ops.token") && !saved.contains(token.trim()), "{saved}");
    assert_eq!(
        scheme.shown(&["context", "list"]),
        format!("NAME   CURRENT  ADMIN\ntrial  yes      https://{}\n", scheme.ports[1])
    );
    // Another context exists, and is not used.
    let other = ["context", "add", "other", "--admin", "http://127.0.0.1:1"];
    assert!(stderr(&scheme.run(&other)).contains("the current context is still trial"));
    assert!(scheme.refused(&other, 64).contains("use --replace to replace it"));
    assert!(scheme.shown(&["dfsp", "list"]).contains("greenbank"));
    assert!(
        scheme.refused(&["dfsp", "list", "--context", "other"], 69).contains("cannot connect to 127.0.0.1:1")
    );
    let by_variable = scheme.command(&["dfsp", "list"]).env("UPESI_CONTEXT", "other").output().unwrap();
    assert_eq!(code(&by_variable), 69, "{}", stderr(&by_variable));
    assert!(scheme.refused(&["dfsp", "list", "--context", "nowhere"], 64).contains("saved: other, trial"));
    let both = ["dfsp", "list", "--context", "trial", "--admin", "http://127.0.0.1:1"];
    assert!(scheme.refused(&both, 64).contains("cannot be used with"));
    let mut command = scheme.command(&["dfsp", "list"]);
    let output =
        command.env("UPESI_CONTEXT", "trial").env("UPESI_ADMIN_URL", "http://127.0.0.1:1").output().unwrap();
    assert!(code(&output) == 64 && stderr(&output).contains("both set"), "{output:?}");
    // Whatever the current context is, its token is not sent to another address.
    let url = format!("https://{}", scheme.ports[1]);
    let anchors = scheme.file("trial/ca.pem");
    let [certificate, key] =
        ["trial/operators/operator.pem", "trial/operators/operator.key"].map(|name| scheme.file(name));
    let flags = ["--anchors", text(&anchors), "--certificate", text(&certificate), "--key", text(&key)];
    let bare = scheme.refused(&[&["dfsp", "list", "--admin", &url][..], &flags].concat(), 1);
    assert!(bare.contains("the hub requires authentication"), "{bare}");
    // Environment variables are equivalent to flags.
    let mut command = scheme.command(&["dfsp", "list", "--admin", &url]);
    command.env("UPESI_ADMIN_ANCHORS", &anchors).env("UPESI_ADMIN_CERTIFICATE", &certificate);
    command.env("UPESI_ADMIN_KEY", &key).env("UPESI_ADMIN_TOKEN_FILE", scheme.file("ops.token"));
    let output = command.output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));

    assert_eq!(scheme.shown(&["context", "use", "other"]), "");
    assert!(
        scheme
            .shown(&["context", "show"])
            .starts_with("name         other\nadmin        http://127.0.0.1:1\n")
    );
    assert_eq!(scheme.shown(&["context", "remove", "other"]), "");
    assert!(scheme.refused(&["context", "show"], 66).contains("no context is selected"));
    assert_eq!(scheme.shown(&["context", "use", "trial"]), "");
    assert_eq!(scheme.shown_json(&["context", "show", "trial"])["context"]["admin"], url);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(scheme.refused(&["dfsp", "list"], 64).contains("other users can change this file"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
}

fn connection_faults_are_reported_with_a_remedy(scheme: &Scheme) {
    let [fspiop, admin] = scheme.ports.each_ref().map(|port| format!("https://{port}"));
    let anchors = scheme.file("trial/ca.pem");
    let of = |name: &str| [scheme.file(&format!("{name}.pem")), scheme.file(&format!("{name}.key"))];
    let ([operator, operator_key], [dfsp, dfsp_key]) =
        (of("trial/operators/operator"), of("trial/greenbank"));
    for command in [&["dfsp", "list"][..], &["settlement", "show"], &["directory", "get", "MSISDN", "1"]] {
        let at = |more: &[&str], expected| scheme.refused(&[command, more].concat(), expected);
        let said = at(&["--admin", &admin], 64);
        assert!(said.contains("--anchors FILE, UPESI_ADMIN_ANCHORS"), "{said}");
        let said = at(&["--admin", &admin, "--anchors", text(&anchors)], 69);
        assert!(said.contains("--certificate FILE and --key FILE, UPESI_ADMIN_CERTIFICATE"), "{said}");
        let others = scheme.file("trial/operators/ca.pem");
        let said = at(&["--admin", &admin, "--anchors", text(&others)], 69);
        assert!(said.contains("not issued by the authorities in --anchors"), "{said}");
        let identity =
            ["--anchors", text(&anchors), "--certificate", text(&operator), "--key", text(&operator_key)];
        let said = at(&[&["--admin", &fspiop][..], &identity].concat(), 69);
        assert!(said.contains("--admin names the FSPIOP port"), "{said}");
        let identity = ["--anchors", text(&anchors), "--certificate", text(&dfsp), "--key", text(&dfsp_key)];
        let said = at(&[&["--admin", &fspiop][..], &identity].concat(), 64);
        assert!(said.contains("is the FSPIOP port, not the admin port"), "{said}");
        let said = at(&["--admin", &admin, "--anchors", text(&anchors), "--key", text(&dfsp_key)], 64);
        assert!(said.contains("the key needs its certificate: --certificate"), "{said}");
    }
}

fn payments_are_found_and_described(scheme: &Scheme) {
    let found = scheme.shown(&["transfer", "find", "--dfsp", "greenbank"]);
    let amounts = |text: &str| {
        let rows = text.lines().skip(1).map(|line| line.split_whitespace().nth(5).unwrap().to_owned());
        rows.collect::<Vec<_>>()
    };
    assert_eq!(amounts(&found), ["0.25", "100", "12.5"], "{found}");
    assert!(
        found.lines().skip(1).all(|line| line.contains("+03:00") && line.contains("COMMITTED")),
        "{found}"
    );
    assert_eq!(amounts(&scheme.shown(&["transfer", "find", "--sort", "amount"])), ["0.25", "12.5", "100"]);
    assert_eq!(amounts(&scheme.shown(&["transfer", "find", "--sort", "-amount", "--limit", "1"])), ["100"]);
    let in_utc = scheme.shown(&["transfer", "find", "--from", "today", "--amount", "100", "--utc"]);
    assert!(in_utc.lines().count() == 2 && !in_utc.contains("+03:00"), "{in_utc}");
    assert_eq!(scheme.shown(&["transfer", "find", "--payer", "bluewallet"]), "");
    assert_eq!(scheme.shown(&["transfer", "find", "--to", "2026-01-01", "--from", "2025-12-31T23:00Z"]), "");
    assert!(scheme.refused(&["transfer", "find", "--from", "last week"], 64).contains("yesterday"));
    assert!(
        scheme
            .refused(&["transfer", "find", "--sort", "size"], 64)
            .contains("the columns are prepared, transfer")
    );
    let all = scheme.shown_json(&["transfer", "find"]);
    assert_eq!(all.as_array().unwrap().len(), 3);

    let id = all[0]["transferId"].as_str().unwrap();
    let told = scheme.shown(&["transfer", "show", id]);
    for part in [
        "greenbank pays 0.25 KES to bluewallet: COMMITTED since ",
        "; no action is needed; bluewallet got POST /transfers by ",
        "; greenbank got PUT /transfers/{ID} by ",
        "; settlement window 1 is OPEN, not in a settlement yet.\n",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(told.lines().count(), 1, "{told}");
    let whole = scheme.shown_json(&["transfer", "show", id]);
    assert_eq!(whole["transfer"]["transferId"], id);
    assert_eq!(
        (&whole["progress"]["isWhole"], &whole["progress"]["settlement"]["windowId"]),
        (&true.into(), &1.into())
    );
    let unknown = scheme.refused(&["transfer", "show", "00000000-0000-4000-8000-000000000000"], 1);
    assert!(unknown.contains("Transfer 00000000-0000-4000-8000-000000000000 does not exist"), "{unknown}");
}

/// Response times are counted since the last start, and only bluewallet has received requests.
fn slowest_dfsp_is_shown(scheme: &Scheme) {
    assert!(scheme.pay("0.5").contains("COMMITTED"));
    let lanes = scheme.shown(&["lane", "--sort", "-p99"]);
    let rows: Vec<Vec<_>> = lanes.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][8..13], ["P50", "P99", "SLOWEST", "ERRORS", "LAST-ERROR"], "{lanes}");
    let (dfsp, times) = (rows[1][0], &rows[1][8..]);
    let [p50, "ms", p99, "ms", "lookup" | "quote" | "transfer", "0.00", "%", ..] = times[..] else {
        panic!("{lanes}")
    };
    let (p50, p99): (u64, u64) = (p50.parse().unwrap(), p99.parse().unwrap());
    assert!(dfsp == "bluewallet" && p50 <= p99, "{lanes}");
}

fn dfsps_are_listed_and_changed(scheme: &Scheme) {
    let listed = scheme.shown(&["dfsp", "list", "--sort", "dfsp"]);
    let names: Vec<_> = listed.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names, ["DFSP", "bluewallet", "greenbank"], "{listed}");
    let shown = scheme.shown(&["dfsp", "show", "greenbank"]);
    for part in [
        "greenbank  DFSP active since ",
        "\nbinding    spki-sha256:",
        "\nendpoint   FSPIOP_CALLBACK_URL_TRANSFER_POST ",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(scheme.shown_json(&["dfsp", "show", "greenbank"])["participant"]["name"], "greenbank");

    let reason = ["--reason", "ticket 7, as agreed"];
    let suspended = scheme.shown(&[&["dfsp", "suspend", "bluewallet"][..], &reason].concat());
    assert_eq!(suspended, "bluewallet is suspended: the hub rejects its new payments\n");
    assert!(scheme.shown(&["dfsp", "list"]).contains("suspended"));
    assert!(!scheme.pay("1").contains("COMMITTED"));
    assert_eq!(
        scheme.shown(&[&["dfsp", "resume", "bluewallet"][..], &reason].concat()),
        "bluewallet is active\n"
    );
    assert!(scheme.refused(&["dfsp", "suspend", "bluewallet"], 64).contains("--reason"));
    let trail = scheme.shown(&["admin", "trail", "--object", "bluewallet", "--from", "1h"]);
    let rows: Vec<_> = trail.lines().skip(1).collect();
    // The entries are ordered from the newest on, with operator and reason.
    assert!(rows[0].contains("participant.enable") && rows[1].contains("participant.disable"), "{trail}");
    assert!(rows[1].contains(" ops ") && rows[1].ends_with("ticket 7, as agreed"), "{trail}");

    let endpoints = || scheme.shown_json(&["dfsp", "show", "bluewallet"])["endpoints"].clone();
    let before = endpoints();
    let values = |endpoints: &Value| -> Vec<String> {
        endpoints.as_array().unwrap().iter().map(|one| one["value"].as_str().unwrap().to_owned()).collect()
    };
    let plan = [&["dfsp", "move", "bluewallet", "https://new.example:8443", "--plan"][..], &reason].concat();
    let planned = scheme.shown(&plan);
    assert_eq!(endpoints(), before);
    assert_eq!(planned.lines().count(), values(&before).len(), "{planned}");
    scheme.shown(&[&["dfsp", "move", "bluewallet", "https://new.example:8443"][..], &reason].concat());
    assert!(
        values(&endpoints()).iter().all(|value| value.starts_with("https://new.example:8443/")),
        "{}",
        endpoints()
    );
    let origin = values(&before)[0].split('/').take(3).collect::<Vec<_>>().join("/");
    scheme.shown(&[&["dfsp", "move", "bluewallet", &origin][..], &reason].concat());
    assert_eq!(endpoints(), before);
}

fn money_is_moved(scheme: &Scheme) {
    let row = |text: &str, name: &str| -> Vec<String> {
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        line.split_whitespace().map(str::to_owned).collect()
    };
    let reason = ["--reason", "ticket 8, as agreed"];
    let positions = scheme.shown(&["position", "greenbank"]);
    assert_eq!(row(&positions, "greenbank")[..3], ["greenbank", "KES", "112.75"], "{positions}");
    let set = scheme.shown(&[&["cap", "set", "greenbank", "KES", "120"][..], &reason].concat());
    assert!(set.starts_with("the net debit cap of greenbank is 120 KES"), "{set}");
    assert_eq!(row(&scheme.shown(&["cap", "list"]), "greenbank")[2], "120");
    // The position is 112.75 and the cap is 120.
    let near = scheme.shown(&["position", "--above", "90"]);
    assert!(near.lines().count() == 2 && row(&near, "greenbank").contains(&"93.95".to_owned()), "{near}");
    assert_eq!(scheme.shown_json(&["position", "--above", "94"]), Value::Array(Vec::new()));

    let funds = |text: String| row(&text, "bluewallet")[2].clone();
    let before = funds(scheme.shown(&["funds", "list", "bluewallet"]));
    let deposit = ["funds", "deposit", "bluewallet", "KES", "50.5", "--reference", "bank-1"];
    for _ in 0..2 {
        let told = scheme.shown(&[&deposit[..], &reason].concat());
        assert!(told.ends_with("of 50.5 KES of bluewallet: COMMITTED\n"), "{told}");
    }
    let after = funds(scheme.shown(&["funds", "list", "bluewallet"]));
    let units = |text: &str| upesi_types::Amount::parse_decimal(text).unwrap().units();
    assert_eq!(units(&after) - units(&before), units("50.5"), "once, by the bank's reference");
    let withdraw = ["funds", "withdraw", "bluewallet", "KES", "50.5", "--reference", "bank-2"];
    let told = scheme.shown(&[&withdraw[..], &reason].concat());
    let id = told.strip_prefix("withdrawal ").unwrap().split(' ').next().unwrap();
    assert!(told.ends_with(": RESERVED\n"), "{told}");
    scheme.shown(&[&["funds", "commit", "bluewallet", "KES", id][..], &reason].concat());
    let shown = scheme.shown(&["funds", "show", "bluewallet", "KES", id]);
    assert!(shown.contains("is COMMITTED since ") && shown.contains("bank-2"), "{shown}");
    assert_eq!(funds(scheme.shown(&["funds", "list", "bluewallet"])), before);
    let too_much = ["funds", "withdraw", "bluewallet", "KES", "99999999", "--reference", "bank-3"];
    let told = scheme.refused(&[&too_much[..], &reason].concat(), 1);
    assert!(told.contains("ABORTED_REJECTED"), "{told}");
}

fn undelivered_callbacks_are_sent_again(scheme: &Scheme) {
    assert_eq!(scheme.shown(&["callback", "list"]), "");
    let reason = ["--reason", "ticket 9, as agreed"];
    let endpoints = scheme.shown_json(&["dfsp", "show", "greenbank"])["endpoints"].clone();
    let put =
        endpoints.as_array().unwrap().iter().find(|one| one["type"] == "FSPIOP_CALLBACK_URL_TRANSFER_PUT");
    let url = put.unwrap()["value"].as_str().unwrap().strip_suffix("/{{transferId}}").unwrap();
    let nowhere = "https://127.0.0.1:1/transfers";
    scheme.shown(&[&["dfsp", "move", "greenbank", nowhere, "--from", url][..], &reason].concat());
    std::thread::scope(|threads| {
        // The payment is answered when the callback finally arrives.
        threads.spawn(|| scheme.pay("2"));
        scheme.until("parked", || !scheme.shown(&["callback", "list", "--state", "parked"]).is_empty());
        let parked = scheme.shown_json(&["callback", "list", "--dfsp", "greenbank"]);
        let key = parked[0]["key"].as_str().unwrap();
        let shown = scheme.shown(&["callback", "show", key]);
        assert!(shown.contains("state     parked\n") && shown.contains("127.0.0.1:1"), "{shown}");
        let told = scheme.shown(&["transfer", "show", parked[0]["transferId"].as_str().unwrap()]);
        assert!(told.contains(&format!("an operator has to act: upesi callback redeliver {key}")), "{told}");
        assert!(scheme.shown(&["lane", "greenbank"]).contains("127.0.0.1:1"));
        scheme.shown(&[&["dfsp", "move", "greenbank", url, "--from", nowhere][..], &reason].concat());
        let sent = scheme.shown(&["callback", "redeliver", "--dfsp", "greenbank"]);
        assert_eq!(sent, "1 callback is being redelivered\n");
        scheme.until("delivered", || scheme.shown(&["callback", "list"]).is_empty());
    });
}

fn process_is_inspected(scheme: &Scheme) {
    assert!(scheme.shown(&["hub", "health"]).starts_with("OK, version "));
    assert!(scheme.shown(&["hub", "clock"]).contains("the machine's clock is 0 ms from it"));
    assert_eq!(scheme.shown(&["hub", "log-level", "warn"]), "warn\n");
    assert_eq!(scheme.shown(&["hub", "log-level"]), "warn\n");
    let metrics = scheme.shown(&["hub", "metrics", "upesi_position{"]);
    assert!(
        metrics.lines().count() >= 2 && metrics.lines().all(|line| line.contains("upesi_position{")),
        "{metrics}"
    );
    let operators = scheme.shown(&["admin", "operators"]);
    assert!(operators.contains("iam-admin") && operators.contains("treasury"), "{operators}");
}

/// Tables and sentences have the local time zone; JSON has UTC.
fn times_are_local(scheme: &Scheme) {
    let data = scheme.file("data");
    let local = |arguments: &[&str]| {
        let (here, utc) = (scheme.shown(arguments), scheme.shown(&[arguments, &["--utc"]].concat()));
        assert!(here.contains("+03:00") && !utc.contains("+03:00"), "{arguments:?}: {here}{utc}");
    };
    local(&["settlement", "show"]);
    local(&["journal", text(&data), "--limit", "1"]);
    local(&["trail", text(&data), "--limit", "1"]);
    let windows = scheme.shown_json(&["settlement", "show"])["windows"].clone();
    assert!(windows[0]["changedDate"].as_str().unwrap().ends_with('Z'), "{windows}");
    let record = scheme.shown_json(&["journal", text(&data), "--limit", "1"]);
    assert!(record["time"].as_str().unwrap().ends_with('Z'), "{record}");
}

fn certificates_and_keys_are_looked_at_and_made(scheme: &Scheme) {
    let own = scheme.shown(&["pki", "show", "trial/greenbank.pem"]);
    let binding = own.lines().find_map(|line| line.strip_prefix("binding  ")).unwrap();
    assert!(own.starts_with("subject  CN=greenbank\n") && binding.starts_with("spki-sha256:"), "{own}");
    assert!(scheme.shown(&["dfsp", "show", "greenbank"]).contains(&format!("\nbinding    {binding}\n")));
    let hub = scheme.shown(&["pki", "show", "trial/hub.pem", "--json"]);
    let hub: Value = serde_json::from_str(&hub).unwrap();
    assert_eq!(hub.as_array().unwrap().len(), 1, "{hub}");
    assert!(hub[0]["names"].as_array().unwrap().contains(&"localhost".into()), "{hub}");
    assert!(
        scheme.refused(&["pki", "show", "trial/greenbank.key"], 65).contains("has no certificate in PEM")
    );

    let request = ["pki", "request", "yellowbank", "--dir", "yellow"];
    let made = scheme.shown(&request);
    assert_eq!(made, "private key yellow/yellowbank.key\nrequest     yellow/yellowbank.csr\n");
    let mode = fs::metadata(scheme.file("yellow/yellowbank.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(scheme.refused(&request, 73).contains("already exists"));
    let issue = ["pki", "issue", "--dir", "trial", "yellowbank", "--for", "client"];
    let issued = scheme.shown(&[&issue[..], &["--csr", "yellow/yellowbank.csr"]].concat());
    assert!(issued.contains("key         of the request\n"), "{issued}");

    scheme.shown(&["pki", "audit-key", "audit"]);
    let key = upesi_admin::AuditKey::load(&scheme.file("audit.key")).unwrap();
    let public = upesi_admin::AuditPublicKey::load(&scheme.file("audit.pem")).unwrap();
    let checkpoint = key.sign(1, upesi_types::Timestamp::from_ms(0), [7; 32]);
    assert_eq!(checkpoint.verify(&public), Ok(()));
}

fn bindings_blocks_and_keys_are_changed(scheme: &Scheme) {
    let with =
        |arguments: &[&str]| scheme.shown(&[arguments, &["--reason", "ticket 10, as agreed"]].concat());
    let shown = || scheme.shown(&["dfsp", "show", "greenbank"]);
    let gateway = format!("gateway:spki-sha256:{};client=greenbank", "ab".repeat(32));
    for binding in ["san-dns:green.example", "oauth-client:green-client", &gateway] {
        let printed = with(&["dfsp", "bind", "greenbank", binding]);
        assert_eq!(printed, format!("greenbank is bound to {binding}\n"));
        assert!(shown().contains(&format!("\nbinding    {binding}\n")), "{}", shown());
        let printed = with(&["dfsp", "unbind", "greenbank", binding]);
        assert_eq!(printed, format!("greenbank is no longer bound to {binding}\n"));
        assert!(!shown().contains(binding), "{}", shown());
    }
    let reason = ["--reason", "ticket 10"];
    let odd = scheme.refused(&[&["dfsp", "bind", "greenbank", "green.example"][..], &reason].concat(), 64);
    assert!(odd.contains("write it as KIND:VALUE"), "{odd}");
    let unknown = scheme.refused(&[&["dfsp", "bind", "greenbank", "key:1"][..], &reason].concat(), 1);
    assert!(unknown.contains("must be one of [spki-sha256, "), "{unknown}");

    assert_eq!(with(&["block", "add", "participant:greenbank"]), "participant:greenbank is blocked\n");
    assert!(!scheme.pay("0.25").contains("COMMITTED"));
    let blocked = scheme.shown(&["block", "list"]);
    assert!(blocked.ends_with("+03:00  participant  greenbank\n"), "{blocked}");
    let lifted = with(&["block", "lift", "participant:greenbank"]);
    assert_eq!(lifted, "participant:greenbank is no longer blocked\n");
    assert_eq!(scheme.shown_json(&["block", "list"]), Value::Array(Vec::new()));
    scheme.until("paid again", || scheme.pay("0.25").contains("COMMITTED"));

    scheme.shown(&["pki", "signing-key", "next", "--dir", "keys"]);
    let added = scheme.shown(&["dfsp", "signing-key", "greenbank", "keys/next.pem"]);
    let key = added.split_once("  current   sha256:").unwrap().1.split(',').next().unwrap().to_owned();
    assert!(added.contains("+03:00"), "{added}");
    let revoked = with(&["dfsp", "revoke-key", "greenbank", &format!("sha256:{key}")]);
    assert_eq!(revoked, format!("the key {key} of greenbank is revoked\n"));
    assert!(shown().contains(&format!("\nsigns by   sha256:{key} revoked")), "{}", shown());
}

fn operators_are_changed(scheme: &Scheme) {
    let [iam, token] = ["iam.token", "helper.token"].map(|name| scheme.file(name));
    let by_iam = ["--token-file", text(&iam)];
    let reason = ["--reason", "ticket 11, as agreed"];
    let with = |arguments: &[&str]| scheme.shown(&[arguments, &by_iam, &reason].concat());
    let create = ["admin", "create", "helper", "--role", "viewer", "--out", text(&token)];
    scheme.shown(&[&create[..], &by_iam].concat());
    let list = ["dfsp", "list", "--token-file", text(&token)];
    scheme.shown(&list);
    let suspended = with(&["admin", "suspend", "helper"]);
    assert_eq!(suspended, "helper is inactive: its credentials are rejected\n");
    assert!(scheme.refused(&list, 1).contains("the hub requires authentication"));
    assert_eq!(with(&["admin", "resume", "helper"]), "helper is active\n");
    scheme.shown(&list);
    let roles = with(&["admin", "roles", "helper", "--role", "support", "--role", "monitor"]);
    assert_eq!(roles, "helper is support, monitor\n");
    let operators = scheme.shown_json(&[&["admin", "operators"][..], &by_iam].concat());
    let helper = operators.as_array().unwrap().iter().find(|one| one["name"] == "helper").unwrap();
    assert_eq!(helper["roles"].as_array().unwrap().len(), 2, "{helper}");
    let credential = helper["credentials"][0]["id"].to_string();
    let removed = with(&["admin", "remove-credential", "helper", &credential]);
    assert_eq!(removed, format!("credential {credential} of helper is removed\n"));
    scheme.refused(&list, 1);
}

/// The commands of a page, each as code within a line of text.
fn commands(page: &str) -> Vec<String> {
    let spans = page.split('`').skip(1).step_by(2);
    let commands = spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" "));
    commands.filter(|command| command.starts_with("upesi ")).collect()
}

/// Commands that need brokers. Only their flags are checked.
const ELSEWHERE: &str = "upesi cluster ";
/// Commands whose effect depends on the state of the settlement, so the hub may reject them (1).
const BY_STATE: [&str; 3] = ["upesi settlement run ", "upesi settlement advance ", "upesi settlement abort "];

/// Changes of operators, which administrators make.
const BY_IAM: [&str; 2] = ["upesi admin token ", "upesi admin remove-credential "];

/// Runs a command of a page in a shell. Returns whether it succeeded, and its output.
fn typed(scheme: &Scheme, line: &str) -> (bool, String) {
    let script = format!("upesi() {{ command {} \"$@\"; }}\n", env!("CARGO_BIN_EXE_upesi"));
    let command = line
        .replace("settlement run NAME", "settlement run 2026-11-23")
        .replace("NAME", "greenbank")
        .replace("NUMBER", "1")
        .replace("NODE", "2")
        .replace("DIR", text(&scheme.file("data")))
        .replace("FILE", "trial/ca.pem")
        .replace("OPERATOR", "helper")
        .replace('…', "'as the runbook says'");
    let command = match command.contains("CREDENTIAL") {
        true => command.replace("CREDENTIAL", &credential_of_helper(scheme)),
        false => command,
    };
    let is_by_iam = BY_IAM.iter().any(|prefix| line.starts_with(prefix));
    let command = if is_by_iam { format!("{command} --token-file iam.token") } else { command };
    let command = if line.starts_with(ELSEWHERE) { format!("{command} --help") } else { command };
    let output = Command::new("bash")
        .args(["-c", &format!("{script}{command}")])
        .env("XDG_CONFIG_HOME", scheme.file("config"))
        .env("TZ", ZONE)
        .current_dir(scheme.directory.path())
        .output()
        .unwrap();
    let may_be_refused = BY_STATE.iter().any(|prefix| line.starts_with(prefix));
    let is_fine = code(&output) == 0 || may_be_refused && code(&output) == 1;
    (is_fine, format!("{command} ends with {}: {}{}", code(&output), stdout(&output), stderr(&output)))
}

/// The number of the newest credential of the operator that is changed.
fn credential_of_helper(scheme: &Scheme) -> String {
    let operators = scheme.shown_json(&["admin", "operators", "--token-file", "iam.token"]);
    let helper = operators.as_array().unwrap().iter().find(|one| one["name"] == "helper").unwrap();
    helper["credentials"].as_array().unwrap().last().map(|one| one["id"].to_string()).unwrap_or_default()
}

fn every_command_of_the_runbook_runs(scheme: &Scheme) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/runbook.md")).unwrap();
    for other in ["curl", "openssl", "jq "] {
        assert!(!page.contains(other), "the runbook has commands of upesi, and {other}");
    }
    let mut all = commands(&page);
    // Every command is in a place where this test finds it.
    let count = |text: &str| page.matches(text).count();
    let spans = count("`upesi ") + count("`upesi\n");
    assert_eq!((all.len(), count("\n    "), count("```")), (spans, 0, 0), "{all:#?}");
    all.sort();
    all.dedup();
    assert!(all.len() > 30, "{all:#?}");
    // The authority whose list the page renews, and a token that the page removes.
    scheme.shown(&["pki", "init"]);
    scheme.shown(&["admin", "token", "helper", "--token-file", "iam.token", "--out", "helper-2.token"]);
    for line in &all {
        let (is_fine, printed) = typed(scheme, line);
        assert!(is_fine, "{printed}");
        let (is_fine, printed) = typed(scheme, &format!("{line} --no-such-flag"));
        assert!(!is_fine && printed.contains("unexpected argument"), "{printed}");
    }
    for wrong in ["upesi callback list --state sent", "upesi dfsp show nobody", "upesi lanes"] {
        assert!(!typed(scheme, wrong).0, "{wrong}");
    }
}

/// Number of the maker's commands and of the checker's approvals for one change.
#[derive(Debug, PartialEq, Eq)]
struct Took {
    commands: usize,
    approvals: usize,
}

/// The number of the approval in a command's output.
fn approval_in(printed: &str) -> String {
    let (_, rest) = printed.split_once("upesi admin approve ").unwrap_or_else(|| panic!("{printed}"));
    rest.chars().take_while(char::is_ascii_digit).collect()
}

/// The maker repeats a command until nothing is pending. The checker approves in between.
fn by_two(scheme: &Scheme, arguments: &[&str]) -> Took {
    let mut took = Took { commands: 0, approvals: 0 };
    loop {
        let output = scheme.run(arguments);
        took.commands += 1;
        let printed = stderr(&output);
        match code(&output) {
            0 => return took,
            75 => {
                scheme.shown(&["admin", "approve", &approval_in(&printed), "--context", "checker"]);
                took.approvals += 1;
            }
            other => panic!("{arguments:?} ends with {other}: {printed}"),
        }
        assert!(took.approvals <= 4, "{arguments:?}: {printed}");
    }
}

/// A rule for fees, like the one in `docs/settlement.md`.
const FEES: &str = r#"
[[fee_rule]]
name = "WALLET"
currency = "KES"
rate_percent = "0.6"
paid_by = "PAYER"

[[model]]
name = "FEESKES"
currency = "KES"
ledger_account_type = "INTERCHANGE_FEE"
settlement_account_type = "INTERCHANGE_FEE_SETTLEMENT"
"#;

/// The bank fills in its balances. The maker checks the file and applies it.
fn reconcile_by_two(scheme: &Scheme, settlement: &str, [greenbank, bluewallet]: [&str; 2]) -> Took {
    let filled = scheme.file("filled.csv");
    let file = scheme.shown(&["settlement", "report", settlement, "--kind", "bank"]);
    let file = file.replace("greenbank,,,", &format!("greenbank,,{greenbank},"));
    fs::write(&filled, file.replace("bluewallet,,,", &format!("bluewallet,,\"{bluewallet}\","))).unwrap();
    let reconcile = ["settlement", "reconcile", settlement, text(&filled)];
    let checked = scheme.run(&reconcile);
    assert!(code(&checked) == 0 && stderr(&checked).contains("only checked"), "{checked:?}");
    assert!(!stdout(&checked).contains('?'), "the hub expects these balances: {checked:?}");
    let took = by_two(scheme, &[&reconcile[..], &["--apply", "--move-cover"]].concat());
    let shown = scheme.shown(&["settlement", "show", settlement]);
    assert!(shown.contains("\n  SETTLED since "), "{shown}");
    took
}

/// The day of `docs/settlement.md` by a maker and a checker, a new DFSP, and a milder policy.
#[test]
fn two_operators_settle_a_day_by_four_approvals() {
    let mut scheme = Scheme::open();
    let base = scheme.base().replace("greenbank", "{name}");
    let file = fs::read_to_string(scheme.file("trial/scheme.toml")).unwrap();
    let file = file.replace("https://127.0.0.1:5000/{name}", &base);
    fs::write(scheme.file("trial/fees.toml"), format!("{file}{FEES}")).unwrap();
    scheme.shown(&["scheme", "apply", "trial/fees.toml"]);
    assert!(scheme.pay("100").contains("COMMITTED"));
    let [iam, amina] = ["iam.token", "amina.token"].map(|name| scheme.file(name));
    let create = ["admin", "create", "amina", "--token-file", text(&iam), "--out", text(&amina)];
    let roles = ["--role", "operations-approver", "--role", "treasury-approver"];
    scheme.shown(&[&create[..], &roles].concat());
    scheme.add_context("checker", &["--token-file", text(&amina)]);
    let second = ["admin", "create", "iam-2", "--role", "iam-admin", "--token-file", text(&iam)];
    scheme.shown(&[&second[..], &["--out", "iam-2.token"]].concat());
    scheme.serve(&["admin.authentication=required"]);
    scheme.until("the hub serves", || code(&scheme.run(&["hub", "health"])) == 0);

    // greenbank owes 212.75, and fees of 0.6.
    assert_eq!(by_two(&scheme, &["settlement", "run", "day-1"]), Took { commands: 3, approvals: 2 });
    let one = Took { commands: 2, approvals: 1 };
    assert_eq!(reconcile_by_two(&scheme, "1", ["1999787.25", "2,000,212.75"]), one);
    assert_eq!(reconcile_by_two(&scheme, "2", ["1999786.65", "2,000,213.35"]), one);
    for (dfsp, cover) in [("greenbank", "1999786.65"), ("bluewallet", "2000213.35")] {
        let found = scheme.shown_json(&["position", dfsp]);
        let number = |name: &str| found[0][name].to_string();
        assert_eq!((number("position"), number("cover")), ("0".to_owned(), cover.to_owned()), "{found}");
    }
    let count = || scheme.shown_json(&["admin", "approvals", "--all"]).as_array().unwrap().len();
    assert_eq!(count(), 4, "no other approval was needed");

    let issued = scheme.shown(&["pki", "issue", "--dir", "trial", "yellowbank", "--for", "client"]);
    assert!(issued.contains("binding     spki-sha256:"), "{issued}");
    let (head, _) = file.split_once("\n[[dfsp]]").unwrap();
    let new = "\n[[dfsp]]\nname = \"yellowbank\"\ncertificate_files = [\"yellowbank.pem\"]\n";
    fs::write(scheme.file("trial/new.toml"), format!("{head}{new}")).unwrap();
    // The new DFSP has a cap, funds, endpoints and a certificate.
    assert_eq!(by_two(&scheme, &["scheme", "apply", "trial/new.toml"]), one);
    assert_eq!(count(), 5);
    keys_are_replaced_by_two(&scheme);
    a_milder_policy_needs_fewer_approvals(&scheme, &["--token-file", "iam.token"]);
}

/// A new certificate and a new signature key need one approval each, without further flags.
fn keys_are_replaced_by_two(scheme: &Scheme) {
    let one = Took { commands: 2, approvals: 1 };
    scheme.shown(&["pki", "issue", "--dir", "trial", "greenbank-2", "--for", "client"]);
    let rotate = ["dfsp", "rotate-certificate", "greenbank", "trial/greenbank-2.pem"];
    assert_eq!(by_two(scheme, &rotate), one);
    let removed = scheme.shown(&[&rotate[..], &["--finish", "--force"]].concat());
    assert!(removed.contains("\n  removed       spki-sha256:"), "removing needs one person: {removed}");
    scheme.shown(&["pki", "signing-key", "next", "--dir", "keys"]);
    let signing_key = ["dfsp", "signing-key", "greenbank", "keys/next.pem"];
    assert_eq!(by_two(scheme, &signing_key), one);
    assert!(scheme.shown(&signing_key).starts_with("greenbank, already added\n"));
    let trail = scheme.shown(&["admin", "trail", "--object", "greenbank", "--action", "jws"]);
    assert!(trail.contains("; reason: new signing key of greenbank\n"), "{trail}");
}

fn policy<'a>(by_iam: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&["admin", "policy"][..], by_iam, more].concat()
}

fn a_milder_policy_needs_fewer_approvals(scheme: &Scheme, by_iam: &[&'static str]) {
    let deposit = |amount: &str, reference: &str| {
        let money = ["funds", "deposit", "greenbank", "KES", amount, "--reference", reference];
        code(&scheme.run(&[&money[..], &["--reason", "ticket 12, as agreed"]].concat()))
    };
    assert_eq!(deposit("50", "bank-8"), 75);
    let before = scheme.shown(&policy(by_iam, &[]));
    assert!(before.contains("second person  limit.raise\n") && !before.contains("one person"), "{before}");
    let reason = ["--reason", "small deposits, decided on 29 November"];
    // The policy after a change, and whether the change needed the second administrator.
    let changed = |more: &[&'static str]| {
        let output = scheme.run(&policy(by_iam, &[more, &reason].concat()));
        if code(&output) == 75 {
            let id = approval_in(&stderr(&output));
            scheme.shown(&["admin", "approve", &id, "--token-file", "iam-2.token"]);
            return (scheme.shown(&policy(by_iam, &[])), true);
        }
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        (stdout(&output), false)
    };
    let waived = format!("{before}one person     deposits of at most 10000 KES\n");
    assert_eq!(changed(&["--waive", "KES=10000"]), (waived, true), "a milder one");
    assert_eq!((deposit("60", "bank-9"), deposit("10000.5", "bank-10")), (0, 75));
    let (after, has_waited) = changed(&["--no-waiver", "KES", "--second-person", "window.close"]);
    assert!(!has_waited && after.contains("second person  window.close\n"), "{after}");
    assert!(!after.contains("one person"), "{after}");
    assert_eq!(deposit("70", "bank-11"), 75);
    let milder = ["--one-person", "window.close"];
    assert_eq!(changed(&milder), (before, true));
    let again = scheme.refused(&policy(by_iam, &[&milder[..], &reason].concat()), 64);
    assert!(again.contains("one person can already do this"), "{again}");
    assert!(scheme.refused(&policy(by_iam, &["--no-waiver", "KES"]), 64).contains("--reason"));
    let unknown = policy(by_iam, &[&["--second-person", "everything"][..], &reason].concat());
    let unknown = scheme.refused(&unknown, 1);
    assert!(unknown.contains("must be one of ["), "{unknown}");
}
