//! The parts of an installation fit the binary: the unit, its settings, the container file.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use upesi_process::exit::Exit;
use upesi_settings::{CATALOGUE, Setting, Sources, load};

const BINARY: &str = env!("CARGO_BIN_EXE_upesi");
/// Path of the binary in the packaged files.
const INSTALLED: &str = "/usr/bin/upesi";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("UPESI_")) {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// The values of each key of the unit. A key may occur more than once.
fn unit() -> BTreeMap<String, Vec<String>> {
    let mut values = BTreeMap::<_, Vec<_>>::new();
    let text = read("packaging/upesi.service");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    for (key, value) in lines.filter_map(|line| line.split_once('=')) {
        values.entry(key.to_owned()).or_default().push(value.to_owned());
    }
    values
}

fn one(key: &str) -> String {
    let unit = unit();
    let [value] = &unit[key][..] else { panic!("{key} stands {} times", unit[key].len()) };
    value.clone()
}

/// Output of `upesi config` for the arguments of a `serve`.
fn settings_of(serve: &[&str]) -> String {
    let [first, rest @ ..] = serve else { panic!("no command") };
    assert_eq!(*first, "serve");
    let arguments: Vec<&str> = ["config"].into_iter().chain(rest.iter().copied()).collect();
    let output = run(&arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn unit_starts_the_binary_with_valid_arguments() {
    let command = one("ExecStart");
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[0], INSTALLED);
    assert_eq!(words[1..], ["serve", "--config", "/etc/upesi/upesi.toml"]);
    let file = root().join("packaging/upesi.toml");
    let settings = settings_of(&["serve", "--config", file.to_str().unwrap()]);
    let state = format!("/var/lib/{}", one("StateDirectory"));
    assert_eq!(one("WorkingDirectory"), state);
    assert!(settings.contains(&format!("dir = \"{state}\"")), "{settings}");
    assert_guarded(&settings);
    // Only the hub's user can read its data.
    assert_eq!(one("StateDirectoryMode"), "0700");
}

/// The packaged settings authenticate operators, call no private address, and create no ledger by themselves.
fn assert_guarded(settings: &str) {
    for setting in ["authentication = \"required\"", "addresses = \"public\"", "must_exist = true"] {
        assert!(settings.contains(setting), "{setting}: {settings}");
    }
}

/// Starts a hub, and stops it when it serves. Returns its exit code if it ended by itself, and its log.
fn started(arguments: &[&str]) -> (Option<i32>, String) {
    let mut hub = command(arguments).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = String::new();
    for line in BufReader::new(hub.stderr.take().unwrap()).lines().map_while(Result::ok) {
        log += &line;
        if line.contains("the hub is serving") {
            hub.kill().unwrap();
            break;
        }
    }
    (hub.wait().unwrap().code(), log)
}

/// A first installation by docs/install.md, and a later start with the directory of a volume that is not mounted.
#[test]
fn packaged_settings_start_on_an_initialised_ledger() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let here = |text: &str, data: &str| {
        let ports = ["127.0.0.1:4000", "127.0.0.1:4001", "0.0.0.0:4000", "0.0.0.0:4001"];
        let text = text.replace("/var/lib/upesi", data);
        ports.iter().fold(text, |text, port| text.replace(port, "127.0.0.1:0"))
    };
    let words = instructions().iter().find_map(|line| line.strip_prefix("CMD ").map(str::to_owned));
    let of_container: Vec<String> = serde_json::from_str(&here(&words.unwrap(), &at("container"))).unwrap();
    fs::write(at("upesi.toml"), here(&read("packaging/upesi.toml"), &at("unit"))).unwrap();
    let of_unit = ["serve".to_owned(), "--config".to_owned(), at("upesi.toml")];
    for (data, serve) in [(at("unit"), of_unit.to_vec()), (at("container"), of_container)] {
        let serve: Vec<&str> = serve.iter().map(String::as_str).collect();
        let is_refused = || {
            let (code, log) = started(&serve);
            code == Some(66) && log.contains("mount its volume")
        };
        fs::create_dir(&data).unwrap();
        assert!(is_refused(), "{serve:?} on an empty directory");
        assert!(run(&["init", &data]).status.success());
        let (_, log) = started(&serve);
        assert!(log.contains("the hub is serving"), "{serve:?}: {log}");
        fs::rename(&data, format!("{data}-volume")).unwrap();
        fs::create_dir(&data).unwrap();
        assert!(is_refused(), "{serve:?} without its volume");
    }
}

#[test]
fn unit_has_suitable_limits_and_restarts() {
    let settings = load(&Sources::default()).unwrap().settings;
    let files: u64 = one("LimitNOFILE").parse().unwrap();
    assert!(files >= 2 * settings.fspiop.connections_max, "{files} files");
    let stop_s: u64 = one("TimeoutStopSec").parse().unwrap();
    assert!(Duration::from_secs(stop_s) >= 2 * settings.shutdown.drain_deadline_ms, "{stop_s} s to stop");
    assert_eq!(one("Restart"), "on-failure");
    // A restart would only repeat these errors. The others pass by themselves, or when the disk is repaired.
    let in_vain = [Exit::Usage, Exit::Data, Exit::NoInput, Exit::Software, Exit::CannotCreate];
    let expected: Vec<String> = in_vain.iter().map(|exit| exit.code().to_string()).collect();
    assert_eq!(one("RestartPreventExitStatus").split(' ').collect::<Vec<_>>(), expected);
    for key in
        ["NoNewPrivileges", "ProtectHome", "PrivateTmp", "MemoryDenyWriteExecute", "RestrictNamespaces"]
    {
        assert_eq!(one(key), "yes", "{key}");
    }
    assert_eq!((one("ProtectSystem"), one("User")), ("strict".to_owned(), "upesi".to_owned()));
}

/// The settings of a node fit its unit and the compose file's brokers.
#[test]
fn packaged_settings_of_a_node_are_valid() {
    let file = root().join("packaging/cluster/upesi.toml");
    let settings = settings_of(&["serve", "--config", file.to_str().unwrap()]);
    let state = format!("dir = \"/var/lib/{}\"", one("StateDirectory"));
    assert_guarded(&settings);
    let of_log = "log = \"kafka\"";
    for setting in [
        &*state,
        of_log,
        "listen = \"0.0.0.0:4002\"",
        "brokers = [\"kafka-1:9092\", \"kafka-2:9092\", \"kafka-3:9092\"]",
    ] {
        assert!(settings.contains(setting), "{setting}: {settings}");
    }
    // Settings that the chart and the compose file set by variables.
    let compose = read("packaging/cluster/compose.yaml");
    let helpers = read("packaging/kubernetes/upesi/templates/_helpers.tpl");
    let known: Vec<String> = CATALOGUE.iter().map(Setting::variable).collect();
    for text in [&compose, &helpers] {
        let words = text.split(|letter: char| !(letter.is_ascii_uppercase() || letter == '_'));
        let named: Vec<&str> = words.filter(|word| word.starts_with("UPESI__")).collect();
        assert!(named.len() > 4, "{named:?}");
        for name in named {
            assert!(known.iter().any(|variable| variable == name), "{name}");
        }
    }
}

/// The brokers of the compose file have the settings of the machines' brokers. The image uses `KAFKA_NODE_ID` for
/// `node.id`.
#[test]
fn compose_file_matches_the_settings_of_brokers() {
    // Settings of each single broker, and the data directory of the image.
    let apart = ["node.id", "advertised.listeners", "log.dirs"];
    let text = read("packaging/cluster/compose.yaml");
    let of_compose: BTreeMap<String, String> = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("KAFKA_")?.split_once(": "))
        .map(|(key, value)| (key.to_lowercase().replace('_', "."), value.trim_matches('"').to_owned()))
        .filter(|(key, _)| !apart.contains(&&**key) && key != "heap.opts")
        .collect();
    let text = read("packaging/cluster/kafka.properties");
    let of_file: BTreeMap<String, String> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(key, _)| !key.starts_with('#') && !apart.contains(key))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    assert!(of_file.len() > 15, "{of_file:?}");
    assert_eq!(of_compose, of_file);
}

#[test]
fn systemd_accepts_the_units() {
    // The binary is not installed at its path yet.
    verify("upesi.service", &read("packaging/upesi.service").replace(INSTALLED, BINARY));
    let kafka = "/opt/kafka/bin/kafka-server-start.sh";
    verify("kafka.service", &read("packaging/cluster/kafka.service").replace(kafka, BINARY));
}

fn verify(name: &str, unit: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, unit).unwrap();
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output();
    // Not every machine that runs tests has systemd. The keys are checked above.
    let Ok(output) = verified else { return };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.is_empty(), "{text}");
}

/// The lines of the container file, with continued lines joined.
fn instructions() -> Vec<String> {
    let text = read("packaging/Containerfile").replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(str::to_owned).collect()
}

#[test]
fn container_file_copies_all_sources_of_a_build() {
    let lines = instructions();
    let copied: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("COPY "))
        .filter(|rest| !rest.starts_with("--from"))
        .flat_map(|rest| rest.split(' ').take(rest.split(' ').count() - 1))
        .collect();
    for path in &copied {
        assert!(root().join(path).exists(), "{path}");
    }
    // Files that crates include from outside their own directories.
    for (file, path) in [
        ("crates/upesi/src/demo/mod.rs", "examples/scheme.toml"),
        ("tools/lab/src/plan/mod.rs", "scenarios/"),
        ("crates/apidocs/build.rs", "docs/openapi/fspiop.yaml"),
    ] {
        assert!(read(file).contains(path), "{file} no longer needs {path}");
        let top = path.split('/').next().unwrap_or_default();
        assert!(copied.contains(&top), "{path} is not copied");
    }
    let version =
        read("Cargo.toml").lines().find_map(|line| line.strip_prefix("rust-version = ").map(str::to_owned));
    let image = format!("FROM docker.io/library/rust:{}-", version.unwrap().trim_matches('"'));
    assert!(lines[0].starts_with(&image), "{} is not {image}…", lines[0]);
}

#[test]
fn container_starts_the_binary_without_privileges() {
    let lines = instructions();
    let find = |name: &str| {
        let found = lines.iter().filter_map(|line| line.strip_prefix(name)).next_back();
        found.unwrap_or_else(|| panic!("no {name}")).trim()
    };
    let list = |name: &str| serde_json::from_str::<Vec<String>>(find(name)).unwrap();
    assert_eq!(list("ENTRYPOINT "), [INSTALLED]);
    let command = list("CMD ");
    let settings = settings_of(&command.iter().map(String::as_str).collect::<Vec<_>>());
    for setting in ["dir = \"/var/lib/upesi\"", "listen = \"0.0.0.0:4000\"", "listen = \"0.0.0.0:4001\""] {
        assert!(settings.contains(setting), "{setting}: {settings}");
    }
    assert_guarded(&settings);
    assert!(find("RUN groupadd ").contains("--mode 0700 /var/lib/upesi"));
    assert_eq!((find("USER "), find("VOLUME ")), ("10001:10001", "/var/lib/upesi"));
    assert!(find("HEALTHCHECK ").contains("GET /live HTTP/1.1"));
}

#[test]
fn health_check_of_the_container_queries_the_hub() {
    let lines = instructions();
    let check = lines.iter().find_map(|line| line.strip_prefix("HEALTHCHECK ")).unwrap();
    let (_, check) = check.split_once("CMD ").unwrap();
    let words: Vec<String> = serde_json::from_str(check).unwrap();
    let ask = |status: &'static str| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let answering = std::thread::spawn(move || {
            use std::io::{BufRead, BufReader, Write};
            let (mut stream, _) = listener.accept().unwrap();
            // bash writes line by line. All lines are read, because closing early would reset the connection.
            let (mut request, mut reader) = (String::new(), BufReader::new(&stream));
            while !request.ends_with("\r\n\r\n") && reader.read_line(&mut request).unwrap() > 0 {}
            stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes()).unwrap();
            request
        });
        let [program, arguments @ ..] = &words[..] else { panic!("{words:?}") };
        let arguments = arguments.iter().map(|word| word.replace("4001", &port));
        let checked = Command::new(program).args(arguments).status().unwrap();
        (checked.success(), answering.join().unwrap())
    };
    let (is_healthy, request) = ask("200 OK");
    assert!(is_healthy);
    assert!(request.starts_with("GET /live HTTP/1.1\r\nHost: 127.0.0.1:"), "{request:?}");
    assert!(request.ends_with("\r\nConnection: close\r\n\r\n"), "{request:?}");
    assert!(!ask("502 Bad Gateway").0);
}
