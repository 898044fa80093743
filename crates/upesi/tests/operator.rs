//! An operator's day on a secured hub: TLS with client certificates, tokens, and a saved context instead of flags. Each
//! `upesi` command line of the runbook runs here.

mod support_command;
mod support_trial;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support_command::upesi;
use support_trial::{Running, call, free_port, text};
use tempfile::TempDir;
use upesi_pki::Trial;

/// Less than commands wait for a hub that does not answer, and far more than an answer takes.
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
    /// Opens the scheme and makes payments while the hub asks operators for certificates only; then it asks for tokens.
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

    /// Starts the hub, after an earlier one has ended.
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

    /// A payment from greenbank to bluewallet; returns what greenbank's simulator says of it.
    fn pay(&self, amount: &str) -> String {
        let body = format!(
            r#"{{"to":{{"idType":"MSISDN","idValue":"{MSISDN}"}},"amount":"{amount}","currency":"KES"}}"#
        );
        let url = format!("{}/payments", self.base());
        let answer = call(Some(self.trial().dfsp("greenbank")), &url, body.leak()).unwrap();
        String::from_utf8(answer.body.to_vec()).unwrap()
    }

    /// Makes a context for an operator who has a token. The hub asks for tokens from then on.
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
        let given_up = Instant::now() + support_trial::AMPLE;
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

    /// The error of a command that fails without waiting for a hub.
    fn refused(&self, arguments: &[&str], expected: i32) -> String {
        let begun = Instant::now();
        let output = self.run(arguments);
        assert!(begun.elapsed() < AT_ONCE, "{arguments:?} took {:?}", begun.elapsed());
        assert_eq!(code(&output), expected, "{arguments:?}: {}", stderr(&output));
        stderr(&output)
    }

    /// Asks again until something is so, within a limit.
    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let given_up = Instant::now() + support_trial::AMPLE;
        while !is_so() {
            assert!(Instant::now() < given_up, "never: {what}");
            std::thread::yield_now();
        }
    }
}

#[test]
fn an_operators_day_on_a_secured_hub() {
    let scheme = Scheme::open();
    contexts_are_saved_and_chosen(&scheme);
    faults_are_named_at_once(&scheme);
    payments_are_found_and_told(&scheme);
    dfsps_are_listed_and_changed(&scheme);
    money_is_moved(&scheme);
    undelivered_callbacks_are_sent_again(&scheme);
    the_process_is_looked_at(&scheme);
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
    // Another one is there, and not used.
    let other = ["context", "add", "other", "--admin", "http://127.0.0.1:1"];
    assert!(stderr(&scheme.run(&other)).contains("the current context is still trial"));
    assert!(scheme.refused(&other, 64).contains("--replace replaces it"));
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
    // Whatever the current context is, its token does not go to another address.
    let url = format!("https://{}", scheme.ports[1]);
    let anchors = scheme.file("trial/ca.pem");
    let [certificate, key] =
        ["trial/operators/operator.pem", "trial/operators/operator.key"].map(|name| scheme.file(name));
    let flags = ["--anchors", text(&anchors), "--certificate", text(&certificate), "--key", text(&key)];
    let bare = scheme.refused(&[&["dfsp", "list", "--admin", &url][..], &flags].concat(), 1);
    assert!(bare.contains("401"), "{bare}");
    // Variables do what flags do.
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
    assert!(scheme.refused(&["context", "show"], 66).contains("no context is chosen"));
    assert_eq!(scheme.shown(&["context", "use", "trial"]), "");
    assert_eq!(scheme.shown_json(&["context", "show", "trial"])["context"]["admin"], url);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(scheme.refused(&["dfsp", "list"], 64).contains("others may write it"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
}

fn faults_are_named_at_once(scheme: &Scheme) {
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
        assert!(said.contains("not of the authorities in --anchors"), "{said}");
        let identity =
            ["--anchors", text(&anchors), "--certificate", text(&operator), "--key", text(&operator_key)];
        let said = at(&[&["--admin", &fspiop][..], &identity].concat(), 69);
        assert!(said.contains("--admin names the port for DFSPs"), "{said}");
        let identity = ["--anchors", text(&anchors), "--certificate", text(&dfsp), "--key", text(&dfsp_key)];
        let said = at(&[&["--admin", &fspiop][..], &identity].concat(), 64);
        assert!(said.contains("is the port for DFSPs, not the admin port"), "{said}");
        let said = at(&["--admin", &admin, "--anchors", text(&anchors), "--key", text(&dfsp_key)], 64);
        assert!(said.contains("the key needs its certificate: --certificate"), "{said}");
    }
}

fn payments_are_found_and_told(scheme: &Scheme) {
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
            .contains("sort by one of prepared, transfer")
    );
    let all = scheme.shown_json(&["transfer", "find"]);
    assert_eq!(all.as_array().unwrap().len(), 3);

    let id = all[0]["transferId"].as_str().unwrap();
    let told = scheme.shown(&["transfer", "show", id]);
    for part in [
        "greenbank pays 0.25 KES to bluewallet: COMMITTED since ",
        "; no action is needed; bluewallet got POST /transfers by ",
        "; greenbank got PUT /transfers/{ID} by ",
        "; settlement window 1 is OPEN, in no settlement yet.\n",
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
    assert!(unknown.contains("There is no transfer"), "{unknown}");
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
    assert_eq!(suspended, "bluewallet is suspended: the hub refuses its new payments\n");
    assert!(scheme.shown(&["dfsp", "list"]).contains("suspended"));
    assert!(!scheme.pay("1").contains("COMMITTED"));
    assert_eq!(
        scheme.shown(&[&["dfsp", "resume", "bluewallet"][..], &reason].concat()),
        "bluewallet is active\n"
    );
    assert!(scheme.refused(&["dfsp", "suspend", "bluewallet"], 64).contains("--reason"));
    let trail = scheme.shown(&["admin", "trail", "--object", "bluewallet", "--from", "1h"]);
    let rows: Vec<_> = trail.lines().skip(1).collect();
    // The newest first, with who and why.
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
    // 112.75 of 120.
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
        // It is answered when the callback comes in the end.
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
        assert_eq!(sent, "1 callback is sent again\n");
        scheme.until("delivered", || scheme.shown(&["callback", "list"]).is_empty());
    });
}

fn the_process_is_looked_at(scheme: &Scheme) {
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

/// The commands of a page, in code or on lines of their own.
fn commands(page: &str) -> Vec<String> {
    let spans = page.split('`').skip(1).step_by(2);
    let mut found = Vec::new();
    for span in spans {
        let command = span.split_whitespace().collect::<Vec<_>>().join(" ");
        if command.starts_with("upesi ") && !found.contains(&command) {
            found.push(command);
        }
    }
    found
}

/// Commands that need brokers, or an authority on this machine: only their flags are checked.
const ELSEWHERE: [&str; 2] = ["upesi cluster ", "upesi pki "];
/// Whether it does something depends on where the settlement stands: the hub may refuse it (1).
const BY_STATE: [&str; 3] = ["upesi settlement run ", "upesi settlement advance ", "upesi settlement abort "];

fn every_command_of_the_runbook_runs(scheme: &Scheme) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/runbook.md")).unwrap();
    assert!(!page.contains("curl ADMIN") && !page.contains("'ADMIN/"), "the runbook has commands, not calls");
    let all = commands(&page);
    assert!(all.len() > 25, "{all:#?}");
    let script = format!("upesi() {{ command {} \"$@\"; }}\n", env!("CARGO_BIN_EXE_upesi"));
    for line in &all {
        let elsewhere = ELSEWHERE.iter().any(|prefix| line.starts_with(prefix));
        let typed = line
            .replace("settlement run NAME", "settlement run 2026-11-23")
            .replace("NAME", "greenbank")
            .replace("NUMBER", "1")
            .replace("NODE", "2")
            .replace("DIR", text(&scheme.file("data")))
            .replace('…', "'as the runbook says'");
        let typed = if elsewhere { format!("{typed} --help") } else { typed };
        let output = Command::new("bash")
            .args(["-c", &format!("{script}{typed}")])
            .env("XDG_CONFIG_HOME", scheme.file("config"))
            .env("TZ", ZONE)
            .current_dir(scheme.directory.path())
            .output()
            .unwrap();
        let may_be_refused = BY_STATE.iter().any(|prefix| line.starts_with(prefix));
        let is_fine = code(&output) == 0 || may_be_refused && code(&output) == 1;
        assert!(is_fine, "{typed} ends with {}: {}{}", code(&output), stdout(&output), stderr(&output));
    }
}
