//! Brokers that require TLS, a certificate or a login, and permissions: the settings of the nodes, and the message for
//! each mistake.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use tempfile::TempDir;
use upesi_pki::{Authority, KeyKind, Order, Usage};
use upesi_testsupport::broker::Broker;
use upesi_tls::present_s;

use super::support_crash::scene::World;
use crate::support_crash::hub::{Hub, PATIENCE, SERVING, upesi};
use crate::support_crash::scene::block_on;
use crate::support_crash::verdict;
use crate::{follows, metrics, nodes, stops, told};

const PASSWORD: &str = "canary-of-the-brokers";
const WRONG: &str = "canary-that-is-wrong";
const DAY_S: i64 = 86_400;
const TRANSFERS: u64 = 60;

/// An authority and its certificates.
struct Scheme {
    authority: Authority,
    directory: PathBuf,
}

impl Scheme {
    fn new(directory: PathBuf) -> Self {
        let authority = Authority::init(&directory, "brokers", present_s(), 30, KeyKind::P256).unwrap();
        Self { authority, directory }
    }

    fn issue(&mut self, order: Order) {
        self.authority.issue(&Order { replaces: true, ..order }).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }

    /// The settings of a node with a client certificate.
    fn mutual(&self, name: &str) -> Vec<String> {
        let anchors = format!("broker_tls.anchors_file={}", self.path("ca.pem"));
        let own = [("certificate_file", "pem"), ("key_file", "key")].map(|(setting, ending)| {
            format!("broker_tls.{setting}={}", self.path(&format!("{name}.{ending}")))
        });
        [vec!["broker_tls.mode=mutual".to_owned(), anchors], own.to_vec()].concat()
    }

    /// The settings of a node with a login.
    fn login(&self, mechanism: &str, password: &str) -> Vec<String> {
        let file = private(&self.directory, &format!("{mechanism}-{}", password.len()), password);
        let of_sasl = [("mechanism", mechanism), ("username", "hub"), ("password_file", &file)]
            .map(|(setting, value)| format!("broker_sasl.{setting}={value}"));
        let anchors = format!("broker_tls.anchors_file={}", self.path("ca.pem"));
        [vec!["broker_tls.mode=tls".to_owned(), anchors], of_sasl.to_vec()].concat()
    }
}

/// Writes a file that only its owner can read. Returns its path.
fn private(directory: &Path, name: &str, content: &str) -> String {
    let file = directory.join(name);
    std::fs::write(&file, format!("{content}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file.to_str().unwrap().to_owned()
}

/// A broker with three listeners: for itself, for clients with certificates, for clients with logins. Returns the
/// settings for the last two ports.
fn secured(directory: &Path, scheme: &mut Scheme) -> (Broker, [String; 2]) {
    scheme.issue(Order::new("broker", Usage::Server, present_s()).with_hosts(&["127.0.0.1"]));
    let both = ["key", "pem"]
        .map(|ending| std::fs::read_to_string(scheme.path(&format!("broker.{ending}"))).unwrap());
    let keystore = private(&scheme.directory, "broker.both", &both.concat());
    let anchors = scheme.path("ca.pem");
    let mut listeners = Default::default();
    let users =
        ["SCRAM-SHA-256", "SCRAM-SHA-512"].map(|kind| format!("{kind}=[name=hub,password={PASSWORD}]"));
    let broker = Broker::start_with(directory, &users.join(" "), |first, further| {
        let [ssl, sasl] = [further, further + 1].map(|port| format!("127.0.0.1:{port}"));
        let all = format!(
            "PLAINTEXT://127.0.0.1:{first},CONTROLLER://127.0.0.1:{},SSL://{ssl},SASL_SSL://{sasl}",
            first + 1
        );
        listeners = [ssl, sasl];
        let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
        let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required";
        let jaas =
            |name: &str, module: &str| format!("listener.name.sasl_ssl.{name}.sasl.jaas.config={module}");
        vec![
            format!("listeners={all}"),
            format!("advertised.listeners={all}"),
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL".into(),
            "ssl.keystore.type=PEM".into(),
            format!("ssl.keystore.location={keystore}"),
            "ssl.truststore.type=PEM".into(),
            format!("ssl.truststore.location={anchors}"),
            "listener.name.ssl.ssl.client.auth=required".into(),
            "ssl.principal.mapping.rules=RULE:^.*CN=([^,]+).*$/$1/,DEFAULT".into(),
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512".into(),
            jaas("plain", &format!("{plain} user_hub=\"{PASSWORD}\";")),
            jaas("scram-sha-256", scram),
            jaas("scram-sha-512", scram),
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer".into(),
            // The broker itself, and the client that sets permissions here.
            "super.users=User:ANONYMOUS".into(),
        ]
    });
    (broker, listeners)
}

/// The permissions of docs/cluster.md.
fn permit(broker: &Broker) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kafka/brokers");
    let topic = ["--topic", "upesi-journal", "--operation", "Create", "--operation", "Write"];
    let topic = [&topic[..], &["--operation", "DescribeConfigs"]].concat();
    let group = vec!["--group", "upesi-", "--resource-pattern-type", "prefixed"];
    for on in [topic, group] {
        let mut command = Command::new(&script);
        command.args(["tool", "org.apache.kafka.tools.AclCommand", "--bootstrap-server", &broker.addresses]);
        command.args([
            "--add",
            "--allow-principal",
            "User:hub",
            "--operation",
            "Read",
            "--operation",
            "Describe",
        ]);
        let output = command.args(["--operation", "Delete"]).args(on).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Revokes the hubs' write permission, or restores it.
fn let_write(broker: &Broker, may: bool) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kafka/brokers");
    let mut command = Command::new(script);
    command.args(["tool", "org.apache.kafka.tools.AclCommand", "--bootstrap-server", &broker.addresses]);
    command.args(if may { &["--add"][..] } else { &["--remove", "--force"] });
    command.args(["--allow-principal", "User:hub", "--topic", "upesi-journal", "--operation", "Write"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Serial number of a node's certificate for the brokers, from its metrics.
fn shown(world: &World, kind: &str) -> String {
    let text = metrics(world);
    let begin = format!("upesi_tls_expiry_seconds{{place=\"brokers\",kind=\"{kind}\"");
    let line = text.lines().find(|line| line.starts_with(&begin));
    let line = line.unwrap_or_else(|| panic!("{begin} is not in {text}"));
    line.split("serial=").nth(1).unwrap_or_default().split_whitespace().next().unwrap_or_default().to_owned()
}

/// Number of broker failures that a node has counted.
fn failures(world: &World) -> u64 {
    let text = metrics(world);
    let found = text.lines().find_map(|line| line.strip_prefix("upesi_cluster_broker_errors_total "));
    found.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no count in {text}"))
}

/// A leader without write permission logs this, retries, and continues when it has the permission again.
fn is_denied_for_a_while(broker: &Broker, world: &World, hub: &mut Hub) {
    let before = failures(world);
    let_write(broker, false);
    assert!(hub.logs("do not permit this node to write to the topic"), "{}", hub.log.join("\n"));
    let_write(broker, true);
    assert!(failures(world) > before, "denials are not counted");
}

/// Output of `create-topic` with these settings.
fn asked(data: &Path, brokers: &str, settings: &[String]) -> (Option<i32>, String) {
    let mut command = upesi();
    command.args(["cluster", "create-topic", "--set", "cluster.log=kafka", "--set", "cluster.replicas=1"]);
    command.args(["--set", &format!("cluster.brokers={brokers}"), "--data"]).arg(data);
    let output = command.args(settings.iter().flat_map(|setting| ["--set", setting])).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), text)
}

/// Each of these mistakes waits ten seconds for an answer that does not come.
fn mistakes_are_named(data: &Path, scheme: &mut Scheme, [ssl, sasl]: &[String; 2]) {
    let other = Scheme::new(data.join("other"));
    scheme.issue(Order { days: 1, ..Order::new("late", Usage::Client, present_s() - 10 * DAY_S) });
    let foreign =
        [&scheme.mutual("hub")[..], &[format!("broker_tls.anchors_file={}", other.path("ca.pem"))]].concat();
    let open = scheme.login("PLAIN", "open");
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(scheme.path("PLAIN-4"), mode).unwrap();
    let by_name = ssl.replace("127.0.0.1", "localhost");
    let cases = [
        (ssl, foreign, 69, "certificate verify failed"),
        (&by_name, scheme.mutual("hub"), 69, "certificate verify failed"),
        (ssl, Vec::new(), 69, "another security.protocol"),
        (ssl, scheme.login("PLAIN", PASSWORD)[..2].to_vec(), 69, "ertificate"),
        (ssl, scheme.mutual("late"), 64, "late.pem has expired: renew it"),
        (ssl, scheme.mutual("nothing"), 64, "nothing.pem"),
        (sasl, scheme.login("PLAIN", WRONG), 69, "uthentication failed"),
        (sasl, scheme.login("SCRAM-SHA-512", WRONG), 69, "uthentication failed"),
        (sasl, open, 64, "every user"),
    ];
    std::thread::scope(|threads| {
        for (brokers, settings, code, words) in &cases {
            threads.spawn(move || {
                let told = asked(data, brokers, settings);
                assert_eq!((told.0, told.1.contains(words)), (Some(*code), true), "{settings:?}: {}", told.1);
                assert!(!told.1.contains("canary"), "{}", told.1);
            });
        }
    });
}

#[test]
fn nodes_authenticate_at_brokers_and_mistakes_are_reported() {
    let directory = TempDir::new().unwrap();
    let at = directory.path();
    let mut scheme = Scheme::new(at.join("pki"));
    let (broker, listeners) = secured(at, &mut scheme);
    scheme.issue(Order::new("hub", Usage::Client, present_s()));
    let [ssl, sasl] = &listeners;
    let (code, text) = asked(at, ssl, &scheme.mutual("hub"));
    assert_eq!((code, text.contains("authorization failed")), (Some(69), true), "{text}");
    permit(&broker);
    for (brokers, settings) in [
        (ssl, scheme.mutual("hub")),
        (sasl, scheme.login("PLAIN", PASSWORD)),
        (sasl, scheme.login("SCRAM-SHA-256", PASSWORD)),
        (sasl, scheme.login("SCRAM-SHA-512", PASSWORD)),
    ] {
        let (code, text) = asked(at, brokers, &settings);
        assert_eq!(
            (code, &*text),
            (Some(0), "the topic upesi-journal has the required settings\n"),
            "{settings:?}"
        );
    }
    mistakes_are_named(at, &mut scheme, &listeners);

    let mut worlds = nodes(at, &broker.addresses);
    let by = [(ssl, scheme.mutual("hub")), (sasl, scheme.login("SCRAM-SHA-512", PASSWORD))];
    for (world, (brokers, settings)) in worlds.iter_mut().zip(by) {
        let own = [format!("cluster.brokers={brokers}"), "cluster.trim_interval_s=1".to_owned()];
        let own = own
            .into_iter()
            .chain(["tls.reload_interval_s=1", "cluster.topic=upesi-journal"].map(str::to_owned));
        let leaked = own.chain(settings).map(|setting| -> &'static str { setting.leak() });
        world.settings.extend(leaked);
    }
    let mut leader = worlds[0].start();
    leader.serves();
    let mut load = block_on(worlds[0].load(1));
    let mut standby = follows(&worlds[1]);
    let serial = shown(&worlds[0], "certificate");
    assert!(!shown(&worlds[1], "anchor").is_empty());
    load.start();
    load.wait_for_accepted(TRANSFERS);
    // A renewed certificate is used without a restart.
    scheme.issue(Order::new("hub", Usage::Client, present_s()));
    assert!(leader.logs("reloaded the changed TLS and SASL files"), "{}", leader.log.join("\n"));
    let since = Instant::now();
    while shown(&worlds[0], "certificate") == serial {
        assert!(since.elapsed() < PATIENCE, "the metrics show the certificate of before: {serial}");
        std::thread::yield_now();
    }
    load.wait_for_accepted(TRANSFERS);
    let (code, text) = told(&worlds[1], &["cluster", "status"]);
    assert_eq!((code, text.contains("leader    node 0")), (Some(0), true), "{text}");
    leader.kill();
    assert!(standby.logs(SERVING), "{}", standby.log.join("\n"));
    load.wait_for_accepted(TRANSFERS);
    is_denied_for_a_while(&broker, &worlds[1], &mut standby);
    load.wait_for_accepted(TRANSFERS);
    let accepted = block_on(verdict::all_agree(&worlds[1].admin(), &mut load));
    stops(standby);
    verdict::copy_agrees(&worlds[1].data, &accepted);
    let (code, text) = told(&worlds[1], &["config"]);
    assert_eq!(code, Some(0), "{text}");
    for log in worlds.iter().map(|world| std::fs::read_to_string(world.log.as_ref().unwrap()).unwrap()) {
        assert!(!log.contains(PASSWORD), "the password is in the log: {log}");
    }
    assert!(!text.contains(PASSWORD), "{text}");
}
