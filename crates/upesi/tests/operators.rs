//! Operators as the command makes them: the first token on the machine itself, others by it, and no token anywhere but
//! where it is handed out.

#[path = "operators/by_two.rs"]
mod by_two;
mod common;
mod support_command;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};

use support_command::upesi;

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A hub that asks operators who they are.
struct Hub {
    process: Child,
    admin: String,
    /// All that it logged, once it has ended.
    log: Receiver<String>,
}

impl Hub {
    fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    /// With further settings.
    fn start_with(data: &Path, settings: &[&str]) -> Self {
        let arguments =
            ["serve", "--fspiop", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json"];
        let mut command = upesi(&arguments);
        // The files are searched byte by byte.
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
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            log.read_to_string(&mut seen).unwrap();
            let _ = sender.send(seen);
        });
        Self { process, admin: admin.unwrap(), log: receiver }
    }

    /// Ends it and returns all that it logged.
    fn stop(mut self) -> String {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
        self.log.recv().unwrap()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
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

/// Applies a scheme, of which most changes wait for a second person, again and again until all are approved.
fn apply_by_two(apply: &[&str], admin: &str, maker: &str, checker: &str) {
    let by = |token: &str, arguments: &[&str]| {
        upesi(&[&["admin"], arguments, &["--admin", admin, "--token-file", token]].concat()).output().unwrap()
    };
    let mut rounds = 0;
    loop {
        let applied = upesi(apply).env("UPESI_ADMIN_TOKEN_FILE", maker).output().unwrap();
        match code(&applied) {
            0 => break,
            75 => rounds += 1,
            _ => panic!("{}", text(&applied.stderr)),
        }
        assert!(rounds < 8 && text(&applied.stderr).contains("upesi admin approve "), "{applied:?}");
        let listed = by(checker, &["approvals", "--json"]);
        assert_eq!(code(&listed), 0, "{}", text(&listed.stderr));
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        let ids: Vec<_> =
            listed.as_array().unwrap().iter().map(|one| one["approvalId"].to_string()).collect();
        assert!(!ids.is_empty());
        let own = by(maker, &["approve", &ids[0]]);
        assert!(code(&own) == 1 && text(&own.stderr).contains("403"), "{own:?}");
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let approved = by(checker, &[&["approve", "--comment", "by the contract"], &ids[..]].concat());
        assert_eq!(code(&approved), 0, "{}", text(&approved.stderr));
        let lines = text(&approved.stdout);
        assert!(lines.lines().count() == ids.len() && lines.contains(" executed"), "{lines}");
    }
    assert!(rounds > 1, "{rounds}");
    assert_eq!(text(&by(checker, &["approvals"]).stdout), "");
    let first = by(checker, &["approvals", "1"]);
    assert!(text(&first.stdout).contains("\"decidedBy\": \"approver\""), "{first:?}");
    let unknown = by(checker, &["reject", "9999", "--comment", "no"]);
    assert!(code(&unknown) == 1 && text(&unknown.stderr).contains("3200"), "{unknown:?}");
}

#[test]
fn tokens_are_nowhere_but_where_they_are_handed_out() {
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
    // Used once.
    let again = run(&create("other", "iam-admin", &first, &other));
    assert_eq!(code(&again), 1);
    assert!(text(&again.stderr).contains("the hub answered 401"), "{}", text(&again.stderr));
    let both = [&create("deploy", "operations", &iam, &deploy)[..], &["--role", "treasury"]].concat();
    assert_eq!(code(&run(&both)), 0);

    let apply = ["scheme", "apply", scheme.to_str().unwrap(), "--admin", admin];
    let refused = run(&apply);
    assert!(code(&refused) != 0 && text(&refused.stderr).contains("401"), "{}", text(&refused.stderr));
    let iam_cannot = run(&[&apply[..], &["--token-file", &iam]].concat());
    assert!(text(&iam_cannot.stderr).contains("the hub answered 403"), "{}", text(&iam_cannot.stderr));
    let approver = at("approver");
    let both = create("approver", "operations-approver", &iam, &approver);
    assert_eq!(code(&run(&[&both[..], &["--role", "treasury-approver"]].concat())), 0);
    apply_by_two(&apply, admin, &deploy, &approver);
    let token = fs::read_to_string(&deploy).unwrap();
    let unchanged = upesi(&apply).env("UPESI_ADMIN_TOKEN", token.trim()).output().unwrap();
    assert_eq!(text(&unchanged.stdout).lines().count(), 1, "{}", text(&unchanged.stderr));

    // A file that every user may read, or without a token, is refused.
    Command::new("chmod").args(["o+r", &deploy]).status().unwrap();
    let readable = run(&[&apply[..], &["--token-file", &deploy]].concat());
    assert_eq!(code(&readable), 64);
    assert!(text(&readable.stderr).contains("every user of this machine may read it"));
    fs::write(at("empty"), "").unwrap();
    Command::new("chmod").args(["600", &at("empty")]).status().unwrap();
    assert_eq!(code(&run(&[&apply[..], &["--token-file", &at("empty")]].concat())), 64);

    let log = hub.stop();
    let journal = text(&run(&["journal", data_flag, "--json", "--payload"]).stdout);
    assert!(journal.contains("\"operator\":\"deploy\"") && journal.contains("\"onBehalfOf\""), "{journal}");
    assert!(journal.contains("\"type\":\"proposalMade\"") && journal.contains("\"onBehalfOf\":\"deploy\""));
    assert_eq!(code(&run(&["audit", data_flag])), 0);
    let kept = files(&data);
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

/// What a provider's token ends with.
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

/// A provider that cannot be reached stops no start, and is told of. Its tokens are nowhere, either.
#[test]
fn a_provider_that_is_down_is_told_of() {
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
    // Its keys are fetched once it serves.
    while health().is_null() {}
    let detail = health();
    assert!(detail.as_str().unwrap().contains(&format!("cannot connect to {closed}")), "{detail}");
    let token = format!("eyJhbGciOiJSUzI1NiIsImtpZCI6ImsxIn0.eyJpc3MiOiJodHRwOi8veCJ9.{SIGNATURE}");
    let refused = get(&hub, "/self", &format!("authorization: Bearer {token}\r\n"));
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    let log = hub.stop();
    assert!(log.contains("the provider's keys cannot be fetched") && !log.contains(SIGNATURE), "{log}");
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
fn the_trail_is_signed_and_verified() {
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
    let log = Hub::start_with(Path::new(&data), &[&setting]).stop();
    assert!(log.contains("upesi-audit-checkpoint 1 2 "), "{log}");
    fs::write(at("log"), &log).unwrap();

    let run = |arguments: &[&str]| upesi(&[&["audit", "trail", &data], arguments].concat()).output().unwrap();
    let printed = run(&["--json", "--operator", "bootstrap", "--checkpoints", &at("log"), "--key", &public]);
    let told = text(&printed.stderr);
    assert_eq!(code(&printed), 0, "{told}");
    assert_eq!(text(&printed.stdout).lines().count(), 2, "{told}");
    assert!(told.contains("the chain is whole; 2 printed; 1 checkpoints are signed by the key"), "{told}");
    let verified = run(&["--verify"]);
    assert_eq!((code(&verified), &*text(&verified.stdout)), (0, ""));

    fs::write(at("log"), log.replace("upesi-audit-checkpoint 1 2 ", "upesi-audit-checkpoint 1 1 ")).unwrap();
    let forged = run(&["--verify", "--checkpoints", &at("log"), "--key", &public]);
    assert_eq!(code(&forged), 65);
    assert!(text(&forged.stderr).contains("is not signed by this key, or was changed"));
    assert_eq!(code(&run(&["--verify", "--key", &public])), 64);
    assert_eq!(code(&run(&["--verify", "--checkpoints", &at("log"), "--key", &at("none")])), 66);
    assert_eq!(code(&upesi(&["audit", "trail", &at("none")]).output().unwrap()), 66);
    assert_eq!(code(&upesi(&["audit"]).output().unwrap()), 64);
}

#[test]
fn a_key_that_is_at_hand_in_the_data_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("audit.key");
    private_key(&key);
    let data = directory.path().to_str().unwrap();
    let setting = format!("admin.audit_key_file={}", key.display());
    let ports = ["--fspiop", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json"];
    let mut command = upesi(&[&["serve", "--data", data, "--set", &setting], &ports[..]].concat());
    let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
    let (mut log, mut told) = (BufReader::new(process.stderr.take().unwrap()), String::new());
    // Until it ends, or has started.
    while !told.contains("\"admin\":\"") && log.read_line(&mut told).unwrap() > 0 {}
    if told.contains("\"admin\":\"") {
        process.kill().unwrap();
    }
    assert_eq!(process.wait().unwrap().code(), Some(64), "{told}");
    assert!(told.contains("is in the data directory: keep it elsewhere"), "{told}");
}
