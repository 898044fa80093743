//! Operators as commands create them: the first token on the machine itself, other operators with it, users who log in,
//! and secrets that appear only where they are handed out.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use upesi_pki::{KeyKind, SigningKey};
use upesi_types::text::url_part;

use super::{code, text};
use crate::support_command::upesi;

/// A hub that requires authentication of operators.
struct Hub {
    process: Child,
    admin: String,
    log: Arc<Mutex<String>>,
    /// Ends when the log has ended.
    reader: Option<JoinHandle<()>>,
}

impl Hub {
    fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    fn start_with(data: &Path, settings: &[&str]) -> Self {
        let arguments =
            ["serve", "--fspiop", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json"];
        let mut command = upesi(&arguments);
        // Small files, because they are searched byte by byte.
        let small = ["data.reserve_bytes=0", "data.segment_bytes=1048576", "engine.batch_bytes_max=1048576"];
        let small = small.iter().flat_map(|setting| ["--set", setting]);
        command
            .args(small)
            .args(settings.iter().flat_map(|setting| ["--set", setting]))
            .args(["--log-level", "trace", "--set", "admin.authentication=required", "--data"])
            .arg(data);
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let (mut admin, mut seen) = (None, String::new());
        while admin.is_none() {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "the hub ended: {seen}");
            let event: serde_json::Value = serde_json::from_str(&line).expect(&line);
            admin = event["admin"].as_str().map(|address| format!("http://{address}"));
            seen += &line;
        }
        let shared = Arc::new(Mutex::new(seen));
        let written = Arc::clone(&shared);
        let reader = std::thread::spawn(move || {
            for line in log.lines() {
                let mut written = written.lock().unwrap();
                written.push_str(&line.unwrap());
                written.push('\n');
            }
        });
        Self { process, admin: admin.unwrap(), log: shared, reader: Some(reader) }
    }

    /// Waits until the log contains a text.
    fn logs(&self, text: &str) {
        await_that(text, || self.log.lock().unwrap().contains(text));
    }

    /// Stops it and returns its whole log.
    fn stop(mut self) -> String {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
        self.reader.take().unwrap().join().unwrap();
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Polls until the condition holds, up to a time limit.
fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let given_up = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < given_up, "never: {what}");
        std::thread::yield_now();
    }
}

/// Every file below a directory.
fn files(directory: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(fs::read(&path).unwrap()) }
    }
    found
}

fn contains(bytes: &[u8], sought: &str) -> bool {
    bytes.windows(sought.len()).any(|window| window == sought.as_bytes())
}

/// Applies a scheme by two operators: one proposal and one approval, whatever the file contains.
fn apply_by_two(apply: &[&str], admin: &str, maker: &str, checker: &str) {
    let by = |token: &str, arguments: &[&str]| {
        upesi(&[&["admin"], arguments, &["--admin", admin, "--token-file", token]].concat()).output().unwrap()
    };
    let applied = upesi(apply).env("UPESI_ADMIN_TOKEN_FILE", maker).output().unwrap();
    let told = text(&applied.stderr);
    assert!(code(&applied) == 75 && told.contains(" as one approval: upesi admin approve "), "{applied:?}");
    // A repeated call returns the same approval.
    let again = upesi(apply).env("UPESI_ADMIN_TOKEN_FILE", maker).output().unwrap();
    assert_eq!((code(&again), text(&again.stderr)), (75, told.clone()));
    let listed = by(checker, &["approvals", "--json"]);
    assert_eq!(code(&listed), 0, "{}", text(&listed.stderr));
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    let id = listed[0]["approvalId"].to_string();
    assert!(told.trim_end().ends_with(&format!("upesi admin approve {id} makes them")), "{told}");

    // The proposer sees that it may not decide, and gets one error.
    let (own, others) = (text(&by(maker, &["approvals"]).stdout), text(&by(checker, &["approvals"]).stdout));
    assert!(own.lines().count() == 2 && own.contains("  -       change set \"scheme "), "{own}");
    assert!(others.lines().count() == 2 && others.contains("  yes     change set \"scheme "), "{others}");
    let refused = by(maker, &["approve", &id]);
    assert_eq!(code(&refused), 1);
    assert_eq!(
        text(&refused.stderr).matches("you are not permitted to do this").count(),
        1,
        "{}",
        text(&refused.stderr)
    );

    let diff = text(&by(checker, &["approvals", &id]).stdout);
    assert!(diff.contains("\n    1  ") && diff.contains(" → "), "{diff}");
    let approved = by(checker, &["approve", "--comment", "by the contract", &id]);
    assert_eq!(code(&approved), 0, "{}", text(&approved.stderr));
    let line = text(&approved.stdout);
    assert!(line.lines().count() == 1 && line.starts_with(&format!("{id} executed, ")), "{line}");
    assert_eq!(text(&by(checker, &["approvals"]).stdout), "");
    let first = by(checker, &["approvals", &id, "--json"]);
    assert!(text(&first.stdout).contains("\"decidedBy\": \"approver\""), "{first:?}");
    let unknown = by(checker, &["reject", "9999", "--comment", "no"]);
    assert!(code(&unknown) == 1 && text(&unknown.stderr).matches("3200").count() == 1, "{unknown:?}");
    let applied = upesi(apply).env("UPESI_ADMIN_TOKEN_FILE", maker).output().unwrap();
    assert!(code(&applied) == 0 && text(&applied.stdout).starts_with("= unchanged "), "{applied:?}");
}

/// A changed callback host is one command and one approval.
fn move_by_two(admin: &str, maker: &str, checker: &str) {
    const NEW: &str = "http://new.example:8443/fspiop";
    let by = |token: &str, arguments: &[&str]| {
        upesi(&[arguments, &["--admin", admin, "--token-file", token]].concat()).output().unwrap()
    };
    let moving = ["dfsp", "move", "dfsp-9", NEW, "--reason", "ticket 10, new host"];
    let moved = by(maker, &moving);
    let told = text(&moved.stderr);
    assert_eq!(code(&moved), 75, "{told}");
    assert_eq!(text(&moved.stdout).lines().count(), 29, "{moved:?}");
    let (_, id) =
        told.split_once("have it approved (upesi admin approve ").unwrap_or_else(|| panic!("{told}"));
    let id = id.trim_end().trim_end_matches(')');
    let listed = text(&by(checker, &["admin", "approvals"]).stdout);
    let row = listed.lines().nth(1).unwrap();
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let what = format!("29 endpoints of dfsp-9: 29 at http://127.0.0.1:5100/dfsp-9 → 29 at {NEW}/dfsp-9");
    assert!(row.trim_start().starts_with(id) && row.contains(&what), "{row}");
    assert_eq!(code(&by(checker, &["admin", "approve", id])), 0);
    let shown = text(&by(maker, &["dfsp", "show", "dfsp-9"]).stdout);
    assert_eq!(shown.lines().filter(|line| line.contains(NEW)).count(), 29, "{shown}");
}

/// A device with a second factor. It returns each interval's code once.
struct Device {
    key: hmac::Key,
    step: u64,
}

impl Device {
    fn new(secret: &str) -> Self {
        let digit = |letter: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".iter().position(|one| *one == letter);
        let bits: String = secret.bytes().map(|letter| format!("{:05b}", digit(letter).unwrap())).collect();
        let bytes = (0..bits.len() / 8).map(|at| u8::from_str_radix(&bits[at * 8..at * 8 + 8], 2).unwrap());
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &bytes.collect::<Vec<_>>());
        Self { key, step: 0 }
    }

    /// Three codes are valid at any moment: the codes of the previous, the current and the next interval.
    fn code(&mut self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 30;
        self.step = (self.step + 1).max(now - 1);
        let tag = hmac::sign(&self.key, &self.step.to_be_bytes());
        let at = usize::from(tag.as_ref()[19] & 15);
        let number = u32::from_be_bytes(tag.as_ref()[at..at + 4].try_into().unwrap()) & 0x7fff_ffff;
        format!("{:06}", number % 1_000_000)
    }
}

/// Runs a command with these lines on stdin.
fn with_lines(arguments: &[&str], lines: &[&str]) -> Output {
    answered(upesi(arguments), lines)
}

/// Runs any command with these lines on stdin.
fn answered(mut command: Command, lines: &[&str]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    for line in lines {
        let _ = writeln!(stdin, "{line}");
    }
    drop(stdin);
    process.wait_with_output().unwrap()
}

/// Sets a password and a second factor with the command. Returns the secret.
fn enrol(admin: &str, enrolment: &str, password: &str) -> (String, Device) {
    enrolled(upesi(&["admin", "enrol", "--enrolment", enrolment, "--admin", admin]), password)
}

/// Like `enrol`, with any command that enrols.
fn enrolled(mut command: Command, password: &str) -> (String, Device) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    writeln!(stdin, "{password}").unwrap();
    let mut uri = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut uri).unwrap();
    let secret = uri.split_once("secret=").expect(&uri).1.split('&').next().unwrap().to_owned();
    let mut device = Device::new(&secret);
    writeln!(stdin, "{}", device.code()).unwrap();
    drop(stdin);
    let ended = process.wait_with_output().unwrap();
    assert_eq!(code(&ended), 0, "{}", text(&ended.stderr));
    (secret, device)
}

/// A user's way, from an administrator's invitation to the end of the session. Returns the secrets that must appear
/// nowhere, and all output of commands after the enrolment.
fn person(directory: &Path, admin: &str, iam: &str) -> (Vec<String>, String) {
    const PASSWORD: &str = "kwa heri ya kuonana";
    const OTHER: &str = "habari za asubuhi leo";
    let at = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let (enrolment, session) = (at("enrolment"), at("session"));
    let make =
        ["admin", "create", "nia", "--role", "viewer", "--person", "--token-file", iam, "--admin", admin];
    let made = upesi(&[&make[..], &["--out", &enrolment]].concat()).output().unwrap();
    assert_eq!(code(&made), 0, "{}", text(&made.stderr));
    let (secret, mut device) = enrol(admin, &enrolment, PASSWORD);
    let to_hub = ["--admin", admin, "--token-file", &session];
    let mut told = String::new();
    let mut run = |arguments: &[&str], lines: &[&str], expected: i32| {
        let output = with_lines(&[&["admin"], arguments, &to_hub].concat(), lines);
        assert_eq!(code(&output), expected, "{arguments:?}: {}", text(&output.stderr));
        told += &(text(&output.stdout) + &text(&output.stderr));
        text(&output.stdout)
    };
    run(&["login", "nia"], &["kwa heri ya kuonanb", "123456"], 1);
    assert!(!Path::new(&session).exists());
    run(&["login", "nia"], &[PASSWORD, &device.code()], 0);
    let mode = fs::metadata(&session).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let token = fs::read_to_string(&session).unwrap();
    let listed: serde_json::Value = serde_json::from_str(&run(&["sessions", "--json"], &[], 0)).unwrap();
    assert_eq!((&listed[0]["operator"], &listed[0]["isCurrent"]), (&"nia".into(), &true.into()));
    run(&["login", "--renew"], &[PASSWORD], 66);
    run(&["password"], &[PASSWORD, "123456", "short"], 1);
    run(&["password"], &[PASSWORD, &device.code(), OTHER], 0);
    assert!(run(&["sessions"], &[], 0).contains("  nia       127.0.0.1  "));
    run(&["logout"], &[], 0);
    assert!(!Path::new(&session).exists());
    fs::write(&session, &token).unwrap();
    Command::new("chmod").args(["600", &session]).status().unwrap();
    run(&["sessions"], &[], 1);
    let enrolment = fs::read_to_string(&enrolment).unwrap();
    let canaries = [PASSWORD, OTHER, &secret, token.trim(), enrolment.trim()].map(str::to_owned);
    (canaries.into(), told)
}

/// From the beginning to a login: only the file of the first token is named, and no approval is needed.
#[test]
fn three_commands_log_in_the_first_user() {
    const PASSWORD: &str = "kwa heri ya kuonana";
    let directory = tempfile::tempdir().unwrap();
    let (data, first) = (directory.path().join("data"), directory.path().join("first"));
    let (data, first) = (data.to_str().unwrap(), first.to_str().unwrap());
    let hub = Hub::start(Path::new(data));
    let command = |arguments: &[&str]| {
        let mut command = upesi(arguments);
        command.env("XDG_CONFIG_HOME", directory.path()).env("UPESI_ADMIN_URL", &hub.admin);
        command
    };
    let made = command(&["admin", "bootstrap", "--data", data, "--out", first]).output().unwrap();
    assert_eq!(code(&made), 0, "{}", text(&made.stderr));
    let create =
        ["admin", "create", "nia", "--role", "iam-admin", "--person", "--enrol", "--token-file", first];
    let (_, mut device) = enrolled(command(&create), PASSWORD);
    let opened = answered(command(&["admin", "login", "nia"]), &[PASSWORD, &device.code()]);
    assert_eq!(code(&opened), 0, "{}", text(&opened.stderr));

    let session = directory.path().join("upesi").join(format!("{}.session", url_part(&hub.admin)));
    assert_eq!(fs::metadata(&session).unwrap().permissions().mode() & 0o777, 0o600);
    let listed = command(&["admin", "operators"]).output().unwrap();
    assert!(code(&listed) == 0 && text(&listed.stdout).contains("nia"), "{listed:?}");
    // The session is valid for this address only.
    let elsewhere = command(&["admin", "operators", "--admin", &format!("{}/", hub.admin)]).output().unwrap();
    let refused = text(&elsewhere.stderr);
    assert!(code(&elsewhere) == 1 && refused.contains("the hub requires authentication"), "{refused}");
    assert_eq!(code(&command(&["admin", "logout"]).output().unwrap()), 0);
    assert!(!session.exists());
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story of a hub and its operators")]
fn tokens_appear_only_where_they_are_handed_out() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let scheme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scheme.toml");
    let hub = Hub::start(&data);
    let admin = hub.admin.as_str();
    let mut told = String::new();
    let mut run = |arguments: &[&str]| {
        let output = upesi(arguments).output().unwrap();
        told += &(text(&output.stdout) + &text(&output.stderr));
        output
    };
    let (first, iam, deploy, other) = (at("first"), at("iam"), at("deploy"), at("other"));
    let data_flag = data.to_str().unwrap();
    assert_eq!(code(&run(&["admin", "bootstrap", "--data", data_flag, "--out", &first])), 0);
    let create = |name, role, by, out| {
        ["admin", "create", name, "--role", role, "--admin", admin, "--token-file", by, "--out", out]
    };
    let made = run(&create("iam", "iam-admin", &first, &iam));
    assert_eq!(code(&made), 0, "{}", text(&made.stderr));
    // The token can be used once.
    let again = run(&create("other", "iam-admin", &first, &other));
    assert_eq!(code(&again), 1);
    assert!(
        text(&again.stderr).contains("the hub requires authentication: log in"),
        "{}",
        text(&again.stderr)
    );
    let (canaries, said) = person(directory.path(), admin, &iam);
    let both = [&create("deploy", "operations", &iam, &deploy)[..], &["--role", "treasury"]].concat();
    assert_eq!(code(&run(&both)), 0);

    let apply = ["scheme", "apply", scheme.to_str().unwrap(), "--admin", admin];
    let refused = run(&apply);
    assert!(
        code(&refused) != 0 && text(&refused.stderr).contains("the hub requires authentication"),
        "{}",
        text(&refused.stderr)
    );
    let iam_cannot = run(&[&apply[..], &["--token-file", &iam]].concat());
    assert!(
        text(&iam_cannot.stderr).contains("you are not permitted to do this: needs the permission"),
        "{}",
        text(&iam_cannot.stderr)
    );
    let approver = at("approver");
    let both = create("approver", "operations-approver", &iam, &approver);
    assert_eq!(code(&run(&[&both[..], &["--role", "treasury-approver"]].concat())), 0);
    apply_by_two(&apply, admin, &deploy, &approver);
    // One new DFSP with its cap, funds and endpoints: the two commands in `apply_by_two`, and one approval.
    let more = at("more.toml");
    let file = fs::read_to_string(&scheme).unwrap() + "\n[[dfsp]]\nname = \"dfsp-9\"\n";
    fs::write(&more, file).unwrap();
    apply_by_two(&["scheme", "apply", &more, "--admin", admin], admin, &deploy, &approver);
    // The callback host has changed.
    let file = fs::read_to_string(&more).unwrap().replace("127.0.0.1:5000/{name}", "127.0.0.1:5100/{name}");
    fs::write(&more, file).unwrap();
    apply_by_two(&["scheme", "apply", &more, "--admin", admin], admin, &deploy, &approver);
    let token = fs::read_to_string(&deploy).unwrap();
    let unchanged = upesi(&["scheme", "apply", &more, "--admin", admin])
        .env("UPESI_ADMIN_TOKEN", token.trim())
        .output()
        .unwrap();
    assert_eq!(text(&unchanged.stdout).lines().count(), 1, "{}", text(&unchanged.stderr));
    move_by_two(admin, &deploy, &approver);

    // A file that every user can read, or a file without a token, is rejected.
    Command::new("chmod").args(["o+r", &deploy]).status().unwrap();
    let readable = run(&[&apply[..], &["--token-file", &deploy]].concat());
    assert_eq!(code(&readable), 64);
    assert!(text(&readable.stderr).contains("every user of this machine can read it"));
    fs::write(at("empty"), "").unwrap();
    Command::new("chmod").args(["600", &at("empty")]).status().unwrap();
    assert_eq!(code(&run(&[&apply[..], &["--token-file", &at("empty")]].concat())), 64);

    let log = hub.stop();
    let trail = text(&run(&["trail", data_flag]).stdout);
    assert!(trail.contains("session.open") && trail.contains("enrolment.use"), "{trail}");
    let journal = text(&run(&["journal", data_flag, "--json", "--payload"]).stdout);
    assert!(journal.contains("\"operator\":\"deploy\"") && journal.contains("\"onBehalfOf\""), "{journal}");
    // The three sets and the changed host are the only approvals, and each change of a set names its set.
    assert_eq!(trail.matches(" → proposed: ").count(), 4, "{trail}");
    assert!(trail.contains(", by change set 1, 1 of ") && !trail.contains("REFUSED participant"), "{trail}");
    assert!(journal.contains("\"type\":\"proposalMade\"") && journal.contains("\"onBehalfOf\":\"deploy\""));
    assert_eq!(code(&run(&["audit", data_flag])), 0);
    let kept = files(&data);
    for canary in &canaries {
        for (place, text) in
            [("the log", &log), ("the journal", &journal), ("what is said", &said), ("the trail", &trail)]
        {
            assert!(!text.contains(canary), "{canary} is in {place}");
        }
        assert!(!kept.iter().any(|file| contains(file, canary)), "{canary} is in the data directory");
    }
    for name in [&first, &iam, &deploy, &approver] {
        let token = fs::read_to_string(name).unwrap();
        let secret = token.trim().strip_prefix("upesi_").unwrap();
        assert_eq!(secret.len(), 43);
        for (place, text) in [("the log", &log), ("the journal", &journal), ("what commands print", &told)] {
            assert!(!text.contains(secret), "{name} is in {place}");
        }
        assert!(!kept.iter().any(|file| contains(file, secret)), "{name} is in the data directory");
    }
}

/// The code is made and opened on the hub's machine, and the metric shows that a token is valid.
#[test]
fn break_glass_is_opened_on_the_machine() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (data, code_file, token_file) = (at("data"), at("code"), at("token"));
    let hub = Hub::start(Path::new(&data));
    let first = at("first");
    assert_eq!(code(&upesi(&["admin", "bootstrap", "--data", &data, "--out", &first]).output().unwrap()), 0);
    let glass = |arguments: &[&str]| {
        upesi(&[&["admin", "break-glass"], arguments, &["--data", &data]].concat()).output().unwrap()
    };
    assert_eq!(code(&glass(&["seal", "--out", &code_file])), 0);
    let monitor = at("monitor");
    let make =
        ["admin", "create", "prometheus", "--role", "monitor", "--token-file", &first, "--admin", &hub.admin];
    assert_eq!(code(&upesi(&[&make[..], &["--out", &monitor]].concat()).output().unwrap()), 0);
    let bearer =
        |file: &str| format!("authorization: Bearer {}\r\n", fs::read_to_string(file).unwrap().trim());
    // The text of metrics is made once per interval.
    let until = |line: &str| await_that(line, || get(&hub, "/metrics", &bearer(&monitor)).contains(line));
    until("upesi_break_glass_open 0");
    until("upesi_admin_credentials_rejected_total{credential=\"unknown\"} 0\n");
    assert!(get(&hub, "/self", "authorization: Bearer wrong\r\n").contains("401"));
    until("upesi_admin_credentials_rejected_total{credential=\"unknown\"} 1\n");
    let opened = glass(&["open", "--code", &code_file, "--out", &token_file]);
    assert_eq!(code(&opened), 0, "{}", text(&opened.stderr));
    until("upesi_break_glass_open 1");
    let itself = get(&hub, "/self", &bearer(&token_file));
    assert!(itself.contains("\"operator\":\"break-glass\""), "{itself}");
    let again = glass(&["open", "--code", &code_file]);
    assert!(code(&again) == 1 && text(&again.stderr).contains("it was used"), "{again:?}");
    let log = hub.stop();
    let trail = text(&upesi(&["trail", &data, "--action", "emergency"]).output().unwrap().stdout);
    assert!(trail.contains("break-glass: sealed → in use"), "{trail}");
    let kept = files(Path::new(&data));
    for file in [&code_file, &token_file] {
        let secret = fs::read_to_string(file).unwrap();
        assert!(
            !log.contains(secret.trim()) && !kept.iter().any(|kept| contains(kept, secret.trim())),
            "{file}"
        );
    }
}

/// After a restore, the trail has an entry about it, once.
#[test]
fn restore_is_in_the_trail() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (data, backup, restored) = (at("data"), at("backup"), at("restored"));
    let hub = Hub::start(Path::new(&data));
    let run = |arguments: &[&str]| {
        let output = upesi(arguments).output().unwrap();
        assert_eq!(code(&output), 0, "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let first = at("first");
    run(&["admin", "bootstrap", "--data", &data, "--out", &first]);
    run(&["admin", "create", "iam", "--role", "iam-admin", "--token-file", &first, "--admin", &hub.admin]);
    hub.stop();
    run(&["backup", "--data", &data, "--to", &backup]);
    run(&["restore", "--from", &backup, "--data", &restored]);
    for _ in 0..2 {
        let hub = Hub::start(Path::new(&restored));
        await_that("the mark is gone", || !Path::new(&restored).join("restored").exists());
        hub.stop();
        let trail = run(&["trail", &restored]);
        assert_eq!(trail.matches("restored from a backup that ends with record").count(), 1, "{trail}");
    }
    assert!(!run(&["trail", &data]).contains("restored"));
}

/// The last part of a provider's token.
const SIGNATURE: &str = "c2lnbmVkLWJ5LXRoZS1wcm92aWRlcg";

/// The answer to a GET with further lines in its head.
fn get(hub: &Hub, path: &str, lines: &str) -> String {
    let mut stream = TcpStream::connect(hub.admin.strip_prefix("http://").unwrap()).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{lines}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// An unreachable provider does not prevent a start, and is reported. Its tokens also appear nowhere.
#[test]
fn unreachable_provider_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let issuer = format!("oidc.issuer=http://{closed}");
    let settings = [&*issuer, "oidc.audience=upesi-admin", "oidc.roles=hub-viewers=viewer"];
    let hub = Hub::start_with(&data, &settings);
    let health = || {
        let answer = get(&hub, "/health", "");
        let body: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        let services = body["services"].as_array().unwrap();
        services.iter().find(|one| one["name"] == "identity provider").unwrap()["detail"].clone()
    };
    // The provider's keys are fetched after the hub serves.
    while health().is_null() {}
    let detail = health();
    assert!(detail.as_str().unwrap().contains(&format!("cannot connect to {closed}")), "{detail}");
    let token = format!("eyJhbGciOiJSUzI1NiIsImtpZCI6ImsxIn0.eyJpc3MiOiJodHRwOi8veCJ9.{SIGNATURE}");
    let refused = get(&hub, "/self", &format!("authorization: Bearer {token}\r\n"));
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    let log = hub.stop();
    assert!(log.contains("cannot fetch the provider's keys") && !log.contains(SIGNATURE), "{log}");
    assert!(!files(&data).iter().any(|file| contains(file, SIGNATURE)));
}

/// Keys that RFC 8410 prints.
const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

fn private_key(file: &Path) {
    fs::write(file, PRIVATE).unwrap();
    Command::new("chmod").arg("600").arg(file).status().unwrap();
}

#[test]
fn trail_is_signed_and_verified() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (data, key, public, iam) = (at("data"), at("audit.key"), at("audit.pub"), at("iam"));
    private_key(Path::new(&key));
    fs::write(&public, PUBLIC).unwrap();
    let first = at("first");
    let setting = format!("admin.audit_key_file={key}");
    let hub = Hub::start_with(Path::new(&data), &[&setting]);
    assert_eq!(code(&upesi(&["admin", "bootstrap", "--data", &data, "--out", &first]).output().unwrap()), 0);
    let admin = hub.admin.clone();
    let create = ["admin", "create", "iam", "--role", "iam-admin", "--admin", &admin, "--token-file", &first];
    let made = upesi(&[&create[..], &["--out", &iam]].concat()).output().unwrap();
    assert_eq!(code(&made), 0, "{}", text(&made.stderr));
    hub.stop();
    // The log of the second start has a checkpoint of both entries.
    let hub = Hub::start_with(Path::new(&data), &[&setting]);
    hub.logs("upesi-audit-checkpoint 1 2 ");
    let log = hub.stop();
    fs::write(at("log"), &log).unwrap();

    let run = |arguments: &[&str]| upesi(&[&["trail", &data], arguments].concat()).output().unwrap();
    let printed = run(&["--json", "--operator", "bootstrap", "--checkpoints", &at("log"), "--key", &public]);
    let told = text(&printed.stderr);
    assert_eq!(code(&printed), 0, "{told}");
    assert_eq!(text(&printed.stdout).lines().count(), 2, "{told}");
    assert!(told.contains("the chain is intact; 2 printed; 1 checkpoints have a valid signature"), "{told}");
    let verified = run(&["--verify"]);
    assert_eq!((code(&verified), &*text(&verified.stdout)), (0, ""));

    fs::write(at("log"), log.replace("upesi-audit-checkpoint 1 2 ", "upesi-audit-checkpoint 1 1 ")).unwrap();
    let forged = run(&["--verify", "--checkpoints", &at("log"), "--key", &public]);
    assert_eq!(code(&forged), 65);
    assert!(text(&forged.stderr).contains("is not signed by this key, or was changed"));
    assert_eq!(code(&run(&["--verify", "--key", &public])), 64);
    assert_eq!(code(&run(&["--verify", "--checkpoints", &at("log"), "--key", &at("none")])), 66);
    assert_eq!(code(&upesi(&["trail", &at("none")]).output().unwrap()), 66);
    assert_eq!(code(&upesi(&["audit"]).output().unwrap()), 64);
}

/// Whether a hub with this setting fails to start because of a key in its data directory.
fn is_refused(data: &Path, setting: &str) {
    let data = data.to_str().unwrap();
    let ports = ["--fspiop", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json"];
    let mut command = upesi(&[&["serve", "--data", data, "--set", setting], &ports[..]].concat());
    let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
    let (mut log, mut told) = (BufReader::new(process.stderr.take().unwrap()), String::new());
    // Until it ends or has started.
    while !told.contains("\"admin\":\"") && log.read_line(&mut told).unwrap() > 0 {}
    if told.contains("\"admin\":\"") {
        process.kill().unwrap();
    }
    assert_eq!(process.wait().unwrap().code(), Some(64), "{told}");
    assert!(told.contains("is in the data directory: store it in another directory"), "{told}");
}

#[test]
fn key_in_the_data_directory_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("audit.key");
    private_key(&key);
    is_refused(directory.path(), &format!("admin.audit_key_file={}", key.display()));
    let made = SigningKey::make(directory.path(), "people", KeyKind::Rsa2048).unwrap();
    is_refused(directory.path(), &format!("admin.people_key_file={}", made.key_file.display()));
}

/// The data directory alone, for example from a stolen backup, is not sufficient to try passwords: the key outside it
/// is needed.
#[test]
fn second_factors_are_sealed_under_a_key_outside_the_data() {
    const PASSWORD: &str = "kwa heri ya kuonana";
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let data = directory.path().join("data");
    let key = |name: &str| {
        let made = SigningKey::make(&directory.path().join("keys"), name, KeyKind::Rsa2048).unwrap();
        format!("admin.people_key_file={}", made.key_file.display())
    };
    let (own, other) = (key("own"), key("other"));
    let (first, enrolment, session) = (at("first"), at("enrolment"), at("session"));
    let log_in = |hub: &Hub, device: &mut Device| {
        let to_hub = ["--admin", &hub.admin, "--token-file", &session];
        let output =
            with_lines(&[&["admin", "login", "nia"], &to_hub[..]].concat(), &[PASSWORD, &device.code()]);
        // The session belongs to the hub that opened it.
        let listed = with_lines(&[&["admin", "sessions"], &to_hub[..]].concat(), &[]);
        assert_eq!(code(&output) == 0, code(&listed) == 0, "{output:?} {listed:?}");
        code(&output) == 0
    };
    // Enrolled before there is a key: the first login with a key seals the second factor again.
    let hub = Hub::start(&data);
    let bootstrap = ["admin", "bootstrap", "--data", data.to_str().unwrap(), "--out", &first];
    assert_eq!(code(&upesi(&bootstrap).output().unwrap()), 0);
    let create = ["admin", "create", "nia", "--role", "iam-admin", "--person", "--token-file", &first];
    let made =
        upesi(&[&create[..], &["--admin", &hub.admin, "--out", &enrolment]].concat()).output().unwrap();
    assert_eq!(code(&made), 0, "{}", text(&made.stderr));
    let (_, mut device) = enrol(&hub.admin, &enrolment, PASSWORD);
    hub.stop();
    let hub = Hub::start_with(&data, &[&own]);
    assert!(log_in(&hub, &mut device));
    hub.stop();
    let _ = fs::remove_file(&session);
    for (settings, is_right) in [(&[][..], false), (&[&*other], false), (&[&*own], true)] {
        let (hub, step) = (Hub::start_with(&data, settings), device.step);
        assert_eq!(log_in(&hub, &mut device), is_right, "{settings:?}");
        hub.stop();
        let _ = fs::remove_file(&session);
        // A rejected code is not used up.
        device.step = if is_right { device.step } else { step };
    }
}
