//! The binary from its users' view: stdout, stderr and the exit code.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use crate::support_command::upesi;

fn run(arguments: &[&str]) -> Output {
    upesi(arguments).output().unwrap()
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

/// A hub that is killed when the test ends, if not before.
struct Hub {
    process: Child,
    fspiop: String,
    admin: String,
    /// The lines of its log after it serves.
    log: Receiver<String>,
}

impl Hub {
    /// Starts on free ports, which the log names when it serves.
    fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    fn start_with(data: &Path, settings: &[&str]) -> Self {
        let data = data.to_str().unwrap();
        let arguments = [
            "serve",
            "--data",
            data,
            "--fspiop",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--log-format",
            "json",
        ];
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        let mut process = upesi(&arguments).args(settings).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let (mut fspiop, mut admin) = (String::new(), String::new());
        while fspiop.is_empty() {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "the hub ended: {:?}", process.wait());
            let event: serde_json::Value = serde_json::from_str(&line).expect(&line);
            if let (Some(first), Some(second)) = (event["fspiop"].as_str(), event["admin"].as_str()) {
                (fspiop, admin) = (first.to_owned(), second.to_owned());
            }
        }
        // A full pipe would block the hub.
        let (lines, log_lines) = mpsc::channel();
        std::thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| lines.send(line)));
        Self { process, fspiop, admin, log: log_lines }
    }

    /// Lines of the log up to the first one with this text.
    fn log_until(&self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.contains(text)) {
            let line = self.log.recv_timeout(Duration::from_secs(30));
            lines.push(line.unwrap_or_else(|error| panic!("{text:?} is not logged ({error}): {lines:?}")));
        }
        lines
    }

    /// Asks it to stop, and returns its exit code.
    fn stop(mut self) -> i32 {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.process.wait().unwrap().code().unwrap()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn wrong_usage_exits_64_and_help_exits_0() {
    for arguments in [
        &[][..],
        &["servee"],
        &["serve", "--port", "1"],
        &["audit"],
        &["journal", "x", "--payload"],
        &["lab", "run", "transfers", "--duration", "20"],
        &["lab", "run", "transfers", "--target", "http://127.0.0.1:1"],
        &["lab", "run", "transfers", "--dfsps", "1"],
        &["sim", "--drop-per-mille", "1001", "--listen", "127.0.0.1:0"],
        &["sim", "oracle", "--hang-per-mille", "1001", "--listen", "127.0.0.1:0"],
        &["sim", "oracle", "--rule", "MSISDN"],
        &["sim", "--dfsps", "3", "oracle"],
    ] {
        let output = run(arguments);
        assert_eq!(code(&output), 64, "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{arguments:?}");
        assert_ne!(stderr(&output), "", "{arguments:?}");
    }
    let help = run(&["help"]);
    assert_eq!(code(&help), 0);
    for command in ["serve", "config", "scheme", "settlement", "sim", "lab", "journal", "audit"] {
        assert!(stdout(&help).contains(&format!("\n  {command} ")), "{command}");
        assert_eq!(code(&run(&[command, "--help"])), 0, "{command}");
    }
    assert!(!stdout(&run(&["lab", "--help"])).contains("forwarder"), "it is for the lab itself");
    assert_eq!(stdout(&run(&["help", "scheme", "apply"])), stdout(&run(&["scheme", "apply", "--help"])));
    let unknown = run(&["help", "scheme", "aply"]);
    assert_eq!(code(&unknown), 64);
    assert!(stderr(&unknown).contains("unknown command 'aply'"), "{}", stderr(&unknown));
    assert_eq!(code(&run(&["--version"])), 0);
}

#[test]
fn config_shows_what_serve_would_use() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("upesi.toml");
    std::fs::write(&file, "[fspiop]\nworkers = 3\n").unwrap();
    let file = file.to_str().unwrap();
    let output =
        upesi(&["config", "--config", file, "--set", "hub.on_us_transfers=true", "--admin", "127.0.0.1:9"])
            .env("UPESI__LOG__LEVEL", "warn")
            .output()
            .unwrap();
    assert_eq!((code(&output), stderr(&output).as_str()), (0, ""));
    let lines = stdout(&output);
    let line = |start: &str| lines.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    assert_eq!(line("workers"), format!("workers = 3                                      # {file}:2"));
    assert!(line("on_us_transfers = true").ends_with("# flag --set hub.on_us_transfers=true"));
    assert!(line("level = \"warn\"").ends_with("# env UPESI__LOG__LEVEL"));
    assert!(line("listen = \"127.0.0.1:9\"").ends_with("# flag --admin"));
    assert!(line("listen = \"127.0.0.1:4000\"").ends_with("# default"));
    let reference = run(&["config", "--reference"]);
    assert_eq!(stdout(&reference), upesi_settings::reference(false));
    assert_eq!(code(&run(&["config", "--all"])), 64, "it belongs to the reference");
}

#[test]
fn configuration_mistake_stops_before_any_file_is_created() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let data = data.to_str().unwrap();
    let output = run(&["serve", "--data", data, "--set", "fspiop.worker=1", "--fspiop", "nowhere"]);
    assert_eq!(code(&output), 64);
    assert_eq!(
        stderr(&output),
        "upesi: the configuration has 2 mistakes; nothing was started\n  \
         flag --set fspiop.worker=1: \"fspiop.worker\" is not a setting; did you mean \"fspiop.workers\"?\n  \
         flag --fspiop: fspiop.listen: \"nowhere\": give an address with port, such as 127.0.0.1:4000 or [::1]:4000\n"
    );
    assert!(!Path::new(data).exists());
}

#[test]
fn failed_start_has_its_exit_code() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let serve = |data: &Path, fspiop: &str| {
        run(&["serve", "--data", data.to_str().unwrap(), "--fspiop", fspiop, "--admin", "127.0.0.1:0"])
    };
    let hub = Hub::start(&data);
    let second = serve(&data, "127.0.0.1:0");
    assert_eq!(code(&second), 75, "{}", stderr(&second));
    assert!(
        stderr(&second).contains(&format!("is in use by process {}", hub.process.id())),
        "{}",
        stderr(&second)
    );
    let other = directory.path().join("other");
    let taken = serve(&other, &hub.fspiop);
    assert_eq!(code(&taken), 69, "{}", stderr(&taken));
    assert!(
        stderr(&taken).contains(&format!("{} is in use by another process", hub.fspiop)),
        "{}",
        stderr(&taken)
    );
    assert_eq!(hub.stop(), 0);

    let file = directory.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let output = serve(&file, "127.0.0.1:0");
    assert_eq!(code(&output), 73, "{}", stderr(&output));
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");

    let foreign = directory.path().join("foreign");
    std::fs::create_dir_all(foreign.join("journal")).unwrap();
    let output = serve(&foreign, "127.0.0.1:0");
    assert_eq!(code(&output), 65, "{}", stderr(&output));
}

#[test]
fn directory_with_other_files_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    std::fs::write(data.join("photos"), "mine").unwrap();
    let serve =
        ["serve", "--data", data.to_str().unwrap(), "--fspiop", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let output = run(&serve);
    assert_eq!(code(&output), 65, "{}", stderr(&output));
    assert!(stderr(&output).contains("holds \"photos\" and no file FORMAT"), "{}", stderr(&output));
    assert_eq!(std::fs::read_dir(data).unwrap().count(), 1, "nothing was made there");
}

/// A volume that is not mounted looks like an empty directory.
#[test]
fn ledger_that_must_exist_is_created_by_init() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let shown = data.to_str().unwrap();
    let must_exist = "data.must_exist=true";
    for is_made in [false, true] {
        if is_made {
            std::fs::create_dir(&data).unwrap();
        }
        let output = run(&["serve", "--data", shown, "--set", must_exist, "--admin", "127.0.0.1:0"]);
        assert_eq!(code(&output), 66, "{}", stderr(&output));
        let expected = format!("{shown} contains no ledger (data.must_exist): mount its volume");
        assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
        assert_eq!(data.exists(), is_made);
    }
    let made = run(&["init", shown]);
    assert_eq!((code(&made), stdout(&made)), (0, format!("{shown} is an empty data directory\n")));
    assert_eq!(Hub::start_with(&data, &[must_exist]).stop(), 0);
    assert_eq!(code(&run(&["init", shown])), 73, "it is not made again");
    let other = directory.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("photos"), "mine").unwrap();
    let other = other.to_str().unwrap();
    assert_eq!(code(&run(&["init", other])), 65);
    let output = run(&["serve", "--data", other, "--set", must_exist, "--admin", "127.0.0.1:0"]);
    assert_eq!(code(&output), 65, "init would not help: {}", stderr(&output));
}

#[test]
fn empty_ledger_is_reported_until_it_has_a_dfsp() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let hub = Hub::start(&data);
    let warned = hub.log_until("the ledger is empty");
    assert!(warned.last().unwrap().contains(r#""level":"WARN""#), "{warned:?}");
    let reports = |hub: &Hub| {
        [&hub.fspiop, &hub.admin].map(|address| {
            let health = exchange(address, "GET /health", "");
            assert!(health.starts_with("HTTP/1.1 200 OK"), "{health}");
            health.contains(r#""ledger":"empty""#)
        })
    };
    assert_eq!(reports(&hub), [true, true]);
    let shown = |hub: &Hub| stdout(&run(&["hub", "health", "--admin", &format!("http://{}", hub.admin)]));
    assert!(shown(&hub).contains("\n  the ledger is empty: there is no DFSP\n"), "{}", shown(&hub));
    let body = r#"{"currency":"KES","type":"HUB_RECONCILIATION"}"#;
    assert_eq!(ask(&hub.admin, "POST /participants/Hub/accounts", body), "HTTP/1.1 201 Created");
    assert_eq!(reports(&hub), [true, true], "the hub is no DFSP");
    let body = r#"{"currency":"KES","type":"HUB_MULTILATERAL_SETTLEMENT"}"#;
    assert_eq!(ask(&hub.admin, "POST /participants/Hub/accounts", body), "HTTP/1.1 201 Created");
    let model = r#"{"name":"NET","settlementGranularity":"NET","settlementInterchange":"MULTILATERAL","settlementDelay":"DEFERRED","requireLiquidityCheck":true,"ledgerAccountType":"POSITION","autoPositionReset":true,"currency":"KES","settlementAccountType":"SETTLEMENT"}"#;
    assert_eq!(ask(&hub.admin, "POST /settlementModels", model), "HTTP/1.1 201 Created");
    let body = r#"{"name":"greenbank","currency":"KES"}"#;
    assert_eq!(ask(&hub.admin, "POST /participants", body), "HTTP/1.1 201 Created");
    assert_eq!(reports(&hub), [false, false]);
    assert!(!shown(&hub).contains("empty"), "{}", shown(&hub));
    assert_eq!(hub.stop(), 0);
    let hub = Hub::start(&data);
    assert_eq!(reports(&hub), [false, false], "nor after a restart");
    assert_eq!(hub.stop(), 0);
}

fn bytes_below(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let bytes = |path: &Path| if path.is_dir() { bytes_below(path) } else { path.metadata().unwrap().len() };
    entries.map(|entry| bytes(&entry.path())).sum()
}

/// A backup leaves out the free space of segments, and a hub continues from it.
#[test]
fn backup_of_a_small_hub_is_small_and_shows_progress() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (data, backup, restored) = (at("data"), at("backup"), at("restored"));
    let hub = Hub::start(Path::new(&data));
    let scheme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scheme.toml");
    let admin = format!("http://{}", hub.admin);
    let applied = run(&["scheme", "apply", scheme.to_str().unwrap(), "--admin", &admin]);
    assert_eq!(code(&applied), 0, "{}", stderr(&applied));
    let made = run(&["backup", "--data", &data, "--to", &backup]);
    assert_eq!((code(&made), &*stderr(&made)), (0, ""), "no progress without a terminal");
    let bytes = bytes_below(Path::new(&backup));
    assert!(bytes < 4 << 20, "{bytes} bytes: {}", stdout(&made));
    assert_eq!(hub.stop(), 0);

    let auditing =
        ["reading the journal", "replaying records", "rehearsing a start", "comparing the archive"];
    let exported = at("out.csv");
    for (arguments, steps) in [
        (
            format!("backup --data {data} --to {}", at("third")),
            vec!["collecting the files of the data directory", "copying files"],
        ),
        (
            format!("restore --from {backup} --data {restored}"),
            [&["restoring files"][..], &auditing[..]].concat(),
        ),
        (format!("audit {data}"), auditing.to_vec()),
        (format!("export --data {data} --format csv --out {exported}"), vec!["exporting"]),
    ] {
        let command = format!("{} {arguments}", env!("CARGO_BIN_EXE_upesi"));
        let mut script = Command::new("script");
        let shown = script.args(["-qefc", &command, "/dev/null"]).env("TERM", "xterm").output().unwrap();
        let text = stdout(&shown);
        assert_eq!(code(&shown), 0, "{text}");
        for step in steps {
            assert!(text.contains(step), "{step}: {text}");
        }
    }
    let hub = Hub::start(Path::new(&restored));
    let limit = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":77,"alarmPercentage":10}}"#;
    assert_eq!(ask(&hub.admin, "PUT /participants/dfsp-1/limits", limit), "HTTP/1.1 200 OK");
    assert_eq!(hub.stop(), 0);
    let audited = run(&["audit", &restored]);
    assert_eq!(code(&audited), 0, "{}{}", stdout(&audited), stderr(&audited));
    // The next backup is equally small.
    assert_eq!(code(&run(&["backup", "--data", &restored, "--to", &at("second")])), 0);
    assert!(bytes_below(Path::new(&at("second"))) < 4 << 20);
}

/// The first line of an answer. The connection is closed afterwards.
fn ask(address: &str, line: &str, body: &str) -> String {
    exchange(address, line, body).lines().next().unwrap_or_default().to_owned()
}

fn exchange(address: &str, line: &str, body: &str) -> String {
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The old and the new level, if a line of the log reports a change of the level.
fn log_level_change(line: &str) -> Option<(String, String)> {
    let (what, from, to) = change(line)?;
    (what == "log level").then_some((from, to))
}

#[test]
fn log_level_change_applies_to_the_running_hub() {
    let directory = tempfile::tempdir().unwrap();
    let hub = Hub::start(&directory.path().join("data"));
    let set_level = |level: &str| {
        let body = format!(r#"{{"level":"{level}"}}"#);
        assert_eq!(ask(&hub.admin, "PUT /log-level", &body), "HTTP/1.1 200 OK", "{level}");
    };
    // Rejected requests are logged at `debug`. Each is rejected because of its method or path, so that they differ.
    let refuse =
        |line: &str, status: &str| assert_eq!(ask(&hub.fspiop, line, "{}"), format!("HTTP/1.1 {status}"));
    refuse("POST /transfers", "400 Bad Request");
    set_level("info,upesi_gateway=debug");
    refuse("PATCH /transfers/x", "501 Not Implemented");
    let lines = hub.log_until("rejected a request");
    assert!(lines.last().unwrap().contains("PATCH"), "{lines:?}");
    set_level("off");
    refuse("POST /transfers", "400 Bad Request");
    set_level("debug");
    refuse("GET /transfers/x", "400 Bad Request");
    let lines = hub.log_until("rejected a request");
    assert!(lines.last().unwrap().contains("GET"), "{lines:?}");
    assert_eq!(
        ask(&hub.admin, "PUT /log-level", r#"{"level":"upesi_couriers=debug"}"#),
        "HTTP/1.1 400 Bad Request"
    );
    // Each change is logged, at the level that is in effect for the line.
    let changes: Vec<_> = lines.iter().filter_map(|line| log_level_change(line)).collect();
    let steps = [("info,upesi_gateway=debug", "off"), ("off", "debug")];
    assert_eq!(changes, steps.map(|(from, to)| (from.to_owned(), to.to_owned())));
    assert_eq!(hub.stop(), 0);
}

#[test]
fn changes_of_operators_are_logged_with_old_and_new_value() {
    let directory = tempfile::tempdir().unwrap();
    let scheme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scheme.toml");
    let hub = Hub::start(&directory.path().join("data"));
    let admin = format!("http://{}", hub.admin);
    let applied = run(&["scheme", "apply", scheme.to_str().unwrap(), "--admin", &admin]);
    assert_eq!(code(&applied), 0, "{}", stderr(&applied));
    let limit =
        r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":5000.5,"alarmPercentage":12.5}}"#;
    let endpoint = r#"{"type":"FSPIOP_CALLBACK_URL_QUOTES","value":"http://127.0.0.1:5001"}"#;
    let oracle = r#"{"oracleIdType":"MSISDN","endpoint":{"value":"http://127.0.0.1:1","endpointType":"URL"},"currency":"KES"}"#;
    let moved = r#"{"oracleIdType":"MSISDN","endpoint":{"value":"http://127.0.0.1:2","endpointType":"URL"}}"#;
    for (line, body, status) in [
        ("PUT /participants/dfsp-1/limits", limit, "200 OK"),
        // The same request again changes nothing, and is not logged.
        ("PUT /participants/dfsp-1/limits", limit, "200 OK"),
        ("POST /participants/dfsp-1/endpoints", endpoint, "201 Created"),
        ("PUT /participants/dfsp-2", r#"{"isActive":false}"#, "200 OK"),
        // A rejected request, which is not a change.
        ("PUT /participants/nobody", r#"{"isActive":false}"#, "400 Bad Request"),
        ("POST /oracles", oracle, "201 Created"),
        ("PUT /oracles/1", moved, "204 No Content"),
        ("DELETE /oracles/1", "", "204 No Content"),
        ("PUT /settlementModels/DEFERREDNETKES", r#"{"isActive":false}"#, "200 OK"),
    ] {
        assert_eq!(ask(&hub.admin, line, body), format!("HTTP/1.1 {status}"), "{line}");
    }
    let lines = hub.log_until(r#"DEFERREDNETKES","from":"active""#);
    // First come the scheme's own changes.
    let mut changes = lines
        .iter()
        .filter_map(|line| change(line))
        .skip_while(|(what, _, to)| !(what == "net debit cap of dfsp-1 in KES" && to.starts_with("5000.5")));
    for (what, from, to) in [
        ("net debit cap of dfsp-1 in KES", "1000000, alarm at 80 %", "5000.5, alarm at 12.50 %"),
        (
            "endpoint FSPIOP_CALLBACK_URL_QUOTES of dfsp-1",
            "http://127.0.0.1:5000/dfsp-1",
            "http://127.0.0.1:5001",
        ),
        ("participant dfsp-2", "active", "inactive"),
        ("a new oracle", "none", "MSISDN in KES at http://127.0.0.1:1"),
        ("oracle 1", "MSISDN in KES at http://127.0.0.1:1", "MSISDN in KES at http://127.0.0.1:2"),
        ("oracle 1", "MSISDN in KES at http://127.0.0.1:2", "none"),
        ("settlement model DEFERREDNETKES", "active", "inactive"),
    ] {
        assert_eq!(changes.next(), Some((what.to_owned(), from.to_owned(), to.to_owned())), "{lines:#?}");
    }
    let first: Vec<_> = lines.iter().filter_map(|line| change(line)).collect();
    for (what, from, to) in [
        ("account HUB_RECONCILIATION of Hub in KES", "none", "open"),
        ("settlement model DEFERREDNETKES", "none", "NET MULTILATERAL DEFERRED of POSITION for KES"),
        ("participant dfsp-1 in KES", "none", "a participant"),
        ("net debit cap of dfsp-8 in KES", "none", "500000.5"),
    ] {
        let wanted = (what.to_owned(), from.to_owned(), to.to_owned());
        assert!(first.contains(&wanted), "{wanted:?}: {first:#?}");
    }
    let is_deposit = |(what, from, to): &(String, String, String)| {
        what.starts_with("deposit ")
            && what.ends_with(" of dfsp-1, 2000000 KES")
            && (from.as_str(), to.as_str()) == ("none", "COMMITTED")
    };
    assert!(first.iter().any(is_deposit), "{first:#?}");
    assert_eq!(hub.stop(), 0);
}

/// The changed object, with the value before and after, if a line of the log reports an operator's change.
fn change(line: &str) -> Option<(String, String, String)> {
    let event: serde_json::Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| event[key].as_str().map(str::to_owned);
    (event["message"] == "an operator's change").then_some(())?;
    Some((text("what")?, text("from")?, text("to")?))
}

#[test]
fn hub_applies_a_scheme_stops_in_order_and_can_be_audited() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let path = data.to_str().unwrap();
    let scheme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scheme.toml");
    let scheme = scheme.to_str().unwrap();
    let hub = Hub::start(&data);
    let admin = format!("http://{}", hub.admin);
    let plan = run(&["scheme", "apply", scheme, "--admin", &admin, "--plan"]);
    let applied = run(&["scheme", "apply", scheme, "--admin", &admin]);
    assert_eq!((code(&plan), code(&applied)), (0, 0), "{}", stderr(&applied));
    assert_eq!(stdout(&plan), stdout(&applied));
    let made = stdout(&applied).lines().filter(|line| line.starts_with('+')).count();
    let again = run(&["scheme", "apply", scheme, "--admin", &admin]);
    // `is_active = true` of one DFSP was true from the start.
    assert_eq!(stdout(&again), format!("= unchanged {}\n", made + 1));
    let live = run(&["audit", path]);
    assert_eq!(code(&live), 75);
    assert_eq!(code(&run(&["audit", path, "--allow-live"])), 0);
    assert_eq!(hub.stop(), 0);

    let audit = run(&["audit", path, "--json"]);
    assert_eq!(code(&audit), 0, "{}", stdout(&audit));
    let report: serde_json::Value = serde_json::from_str(&stdout(&audit)).unwrap();
    assert_eq!(report["ok"], true);
    assert_eq!(report["fundsMovements"], 8);
    let journal = run(&["journal", path]);
    let lines = stdout(&journal);
    assert_eq!(code(&journal), 0);
    assert_eq!(lines.lines().count() as u64, report["records"]["lastSeq"].as_u64().unwrap());
    assert!(lines.contains("limit dfsp-8 KES 500000.5"), "{lines}");

    let segment = std::fs::read_dir(data.join("journal")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[5000] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    let audit = run(&["audit", path]);
    assert_eq!(code(&audit), 65);
    assert!(stdout(&audit).contains("NOT SOUND"), "{}", stdout(&audit));
    assert_eq!(stderr(&audit).lines().count(), 1);
    let output = run(&["serve", "--data", path, "--fspiop", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    assert_eq!(code(&output), 65, "{}", stderr(&output));
    assert_eq!(std::fs::read(&segment).unwrap(), bytes, "nothing is overwritten");
}

#[test]
fn version_names_the_commit() {
    let (version, commit) = (env!("CARGO_PKG_VERSION"), upesi_process::version::commit());
    let built_from = commit.unwrap_or("debug build");
    assert_eq!(stdout(&run(&["--version"])), format!("upesi {version} ({built_from})\n"));
}

#[test]
fn help_creates_completions_and_man_pages() {
    for (shell, expected) in
        [("bash", "complete -F _upesi"), ("zsh", "#compdef upesi"), ("fish", "complete -c upesi")]
    {
        let output = run(&["help", "completions", shell]);
        assert_eq!(code(&output), 0);
        assert!(stdout(&output).contains(expected), "{shell}");
        assert!(stdout(&output).contains("allow-live"), "{shell}: an option of a subcommand");
    }
    assert_eq!(code(&run(&["help", "completions", "tcsh"])), 64);
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("share/man1");
    let output = run(&["help", "man", "--out", out.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let count = std::fs::read_dir(&out).unwrap().count();
    assert_eq!(stdout(&output), format!("{count} pages written to {}\n", out.display()));
    let page = std::fs::read_to_string(out.join("upesi-scheme-apply.1")).unwrap();
    assert!(page.starts_with(".ie") || page.contains(".TH"), "{page}");
    // There is a file in place of the directory.
    let page = out.join("upesi.1");
    assert_eq!(code(&run(&["help", "man", "--out", page.to_str().unwrap()])), 73);
}

#[test]
fn old_spelling_works_and_prints_the_new_one() {
    for (old, new, shown, exit) in [
        (&["exit-codes"][..], &["help", "exit-codes"][..], "help exit-codes", 0),
        (&["completions", "fish"], &["help", "completions", "fish"], "help completions", 0),
        (&["audit", "trail", "--help"], &["trail", "--help"], "trail", 0),
        (&["audit", "trail", "/nowhere/data"], &["trail", "/nowhere/data"], "trail", 66),
        (
            &["audit", "verify", "/nowhere/export"],
            &["trail", "verify", "/nowhere/export"],
            "trail verify",
            66,
        ),
        (&["scheme", "help", "apply"], &["help", "scheme", "apply"], "help scheme", 0),
    ] {
        let [before, now] = [old, new].map(run);
        assert_eq!((code(&before), code(&now)), (exit, exit), "{old:?}: {}", stderr(&before));
        assert_eq!(stdout(&before), stdout(&now), "{old:?}");
        let errors = stderr(&before);
        let (note, rest) = errors.split_once('\n').unwrap();
        let expected = format!("is now `upesi {shown}`; the old spelling works for one more release");
        assert!(note.ends_with(&expected), "{note}");
        assert_eq!(rest, stderr(&now), "{old:?}");
    }
}

/// Without a terminal, the width is the variable's.
#[test]
fn help_is_wrapped_to_the_width_of_the_terminal() {
    for arguments in [&["help"][..], &["help", "serve"]] {
        for (columns, width) in [("80", 80), ("100", 100), ("300", 110)] {
            let output = upesi(arguments).env("COLUMNS", columns).output().unwrap();
            let widest = stdout(&output).lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= width && widest + 15 > width, "{arguments:?} at {columns}: {widest}");
        }
    }
}

#[test]
fn unknown_variable_is_rejected_by_every_command() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let data = data.to_str().unwrap();
    for arguments in [
        &["config"][..],
        &["serve", "--data", data],
        &["scheme", "apply", "/nowhere/scheme.toml"],
        &["audit", data],
    ] {
        let output = upesi(arguments).env("UPESI_ADMIN_ULR", "http://prod:4001").output().unwrap();
        assert_eq!(code(&output), 64, "{arguments:?}");
        let expected = "env UPESI_ADMIN_ULR: this variable has no effect; did you mean UPESI_ADMIN_URL?";
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
    assert!(!Path::new(data).exists());
    // Variables of our tools, and variables that a cluster sets for a service named upesi, are not reported as
    // mistakes.
    let command = &mut upesi(&["config"]);
    command.env("UPESI_COMMIT", "abc").env("UPESI_PORT", "tcp://10.0.0.1:4000");
    assert_eq!(code(&command.output().unwrap()), 0);
}

#[test]
fn token_of_a_hub_without_authentication_causes_a_note() {
    let directory = tempfile::tempdir().unwrap();
    let hub = Hub::start(&directory.path().join("data"));
    let admin = format!("http://{}", hub.admin);
    let warning = "this hub has no authentication, so any client can do anything: the token has no effect";
    for arguments in [
        &["admin", "create", "deploy", "--role", "viewer"][..],
        &["admin", "token", "deploy"],
        &["admin", "create", "amina", "--role", "viewer", "--person"],
    ] {
        let output = run(&[arguments, &["--admin", &admin]].concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert!(stderr(&output).contains(warning), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output).lines().count(), 1, "the token");
    }
}

#[test]
fn sim_without_hub_exits() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let hub = format!("http://{silent}");
    let output = run(&["sim", "--dfsps", "1", "--listen", "127.0.0.1:0", "--hub", &hub, "--wait", "1"]);
    assert_eq!(code(&output), 69);
    assert!(stdout(&output).starts_with("dfsp-1 http://127.0.0.1:"), "{}", stdout(&output));
    let expected = format!("no hub answered at {hub} within 1 s: cannot connect");
    assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
}

#[test]
fn missing_input_has_its_exit_code() {
    assert_eq!(code(&run(&["audit", "/nowhere/data"])), 66);
    assert_eq!(code(&run(&["journal", "/nowhere/data"])), 66);
    assert_eq!(code(&run(&["scheme", "apply", "/nowhere/scheme.toml"])), 66);
    let output = run(&["serve", "--config", "/nowhere/upesi.toml"]);
    assert_eq!(code(&output), 64);
    assert!(stderr(&output).contains("/nowhere/upesi.toml: cannot be read"), "{}", stderr(&output));
}

#[test]
fn endless_file_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let authority = directory.path().join("pki").display().to_string();
    let (backup, target) = (directory.path().join("backup"), directory.path().join("target"));
    std::fs::create_dir(&backup).unwrap();
    std::os::unix::fs::symlink("/dev/zero", backup.join("backup.json")).unwrap();
    let (backup, target) = (backup.display().to_string(), target.display().to_string());
    assert_eq!(code(&run(&["pki", "init", "--dir", &authority])), 0);
    for (arguments, expected) in [
        (&["scheme", "apply", "/dev/zero"][..], 65),
        (&["pki", "issue", "x", "--for", "client", "--dir", &authority, "--csr", "/dev/zero"], 65),
        (&["directory", "import", "/dev/zero"], 66),
        (&["trail", "verify", "/dev/zero"], 65),
        (&["serve", "--config", "/dev/zero"], 64),
        (&["restore", "--from", &backup, "--data", &target], 66),
        (&["directory", "get", "MSISDN", "1", "--token-file", "/dev/zero"], 64),
    ] {
        let output = run(arguments);
        assert_eq!(code(&output), expected, "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn sim_shows_what_its_dfsps_receive_and_send() {
    let hub = "http://127.0.0.1:1";
    let arguments = ["sim", "--show", "--dfsps", "1", "--listen", "127.0.0.1:0", "--hub", hub, "--wait", "0"];
    let mut process = upesi(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    let base = lines.next().unwrap();
    let address = base.strip_prefix("dfsp-1 http://").unwrap().strip_suffix("/dfsp-1").unwrap();
    let long = "A".repeat(300);
    let body = format!(r#"{{"ilpPacket":"{long}"}}"#);
    let length = body.len();
    let request = format!(
        "PUT /dfsp-1/quotes/5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d HTTP/1.1\r\nhost: dfsp\r\nconnection: close\r\n\
         fspiop-source: dfsp-2\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let shown: Vec<_> = lines.by_ref().take(5).collect();
    assert_eq!(
        shown,
        [
            "  Agreement: the payee's DFSP sets the cost, the other terms and a condition",
            "",
            // A message without a date is rejected, as by a strict adapter, and nevertheless shown.
            "   1.    0.00 ms  hub ──▶ dfsp-1   PUT /quotes/5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d   ◀ 400",
            "       fspiop-source: dfsp-2",
            &format!("         ilpPacket: \"{long}\""),
        ]
    );
    // The last message is shown although the process is stopped at once.
    let answer = ask(address, "PUT /dfsp-1/quotes/last", "{}");
    assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    let pid = process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(process.wait().unwrap().code(), Some(0));
    let rest: Vec<_> = lines.collect();
    assert!(
        rest.iter().any(|line| line.contains("PUT /dfsp-1/quotes/last") || line.contains("PUT /quotes/last")),
        "{rest:?}"
    );
}
