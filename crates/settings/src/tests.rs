//! The sources, their order, and every kind of mistake.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::*;

struct File {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn file(content: &str) -> File {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("upesi.toml");
    std::fs::write(&path, content).unwrap();
    File { _directory: directory, path }
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// The mistakes of a file, without its path: `3: fspiop.workers: give …`.
fn mistakes_of(content: &str) -> Vec<String> {
    let file = file(content);
    let shown = file.path.display().to_string();
    let sources = Sources { file: Some(file.path.clone()), ..Sources::default() };
    let mistakes = load(&sources).map(|_| ()).expect_err(content);
    mistakes
        .iter()
        .map(|mistake| mistake.to_string().replace(&shown, "").trim_start_matches(':').to_owned())
        .collect()
}

fn origin_of<'a>(effective: &'a EffectiveSettings, key: &str) -> &'a ValueOrigin {
    &effective.entries.iter().find(|entry| entry.key == key).unwrap().origin
}

#[test]
fn file_in_another_language_is_reported_as_such() {
    assert_eq!(mistakes_of("fspiop:\n  workers: 2\n"), [" it looks like YAML; settings are TOML"]);
    let made = file("");
    std::fs::write(&made.path, b"\xff\xfe[\0h\0").unwrap();
    let sources = Sources { file: Some(made.path.clone()), ..Sources::default() };
    let mistakes = load(&sources).map(|_| ()).expect_err("UTF-16");
    assert!(mistakes[0].to_string().ends_with("cannot be read: it is text in UTF-16: save it as UTF-8"));
}

#[test]
fn defaults_are_valid_and_have_the_documented_values() {
    let effective = load(&Sources::default()).unwrap();
    let keys = CATALOGUE.iter().filter(|setting| setting.section != DFSP).map(|setting| setting.key.as_str());
    assert!(keys.eq(effective.entries.iter().map(|entry| entry.key.as_str())));
    assert!(effective.entries.iter().all(|entry| entry.origin == ValueOrigin::Default));
    let settings = effective.settings;
    assert_eq!(settings.fspiop.listen, SocketAddr::from(([127, 0, 0, 1], 4000)));
    assert_eq!(settings.admin.listen, SocketAddr::from(([127, 0, 0, 1], 4001)));
    assert_eq!(settings.fspiop.body_bytes_max, 5 * 1024 * 1024);
    assert_eq!(settings.fspiop.head_bytes_max, 64 * 1024);
    assert_eq!(settings.hub.name.as_str(), "Hub");
    assert!(settings.engine.durable);
}

#[test]
fn keys_are_unique_and_have_help() {
    let mut keys: Vec<_> = CATALOGUE.iter().map(|setting| &setting.key).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), CATALOGUE.len());
    for setting in CATALOGUE.iter() {
        assert!(setting.help_text().ends_with('.'), "{}", setting.key);
        assert_eq!(setting.key, format!("{}.{}", setting.section, setting.name));
    }
}

#[test]
fn flags_take_precedence_over_environment_over_file() {
    let file = file("[fspiop]\nlisten = \"127.0.0.1:1\"\nworkers = 1\n\n[log]\nlevel = \"warn\"\n");
    let sources = Sources {
        file: Some(file.path.clone()),
        environment: variables(&[
            ("UPESI__FSPIOP__LISTEN", "127.0.0.1:2"),
            ("UPESI__LOG__LEVEL", "debug"),
            ("PATH", "/bin"),
            ("UPESI_CONFIG", "elsewhere"),
        ]),
        flags: vec![("--fspiop".into(), "fspiop.listen".into(), "127.0.0.1:3".into())],
    };
    let effective = load(&sources).unwrap();
    let path = file.path.display().to_string();
    assert_eq!(effective.settings.fspiop.listen.port(), 3);
    assert_eq!(*origin_of(&effective, "fspiop.listen"), ValueOrigin::Flag("--fspiop".into()));
    assert_eq!(effective.settings.log.level.text(), "debug");
    assert_eq!(*origin_of(&effective, "log.level"), ValueOrigin::Environment("UPESI__LOG__LEVEL".into()));
    assert_eq!(effective.settings.fspiop.workers, 1);
    assert_eq!(*origin_of(&effective, "fspiop.workers"), ValueOrigin::File { path, line: 3 });
    assert_eq!(*origin_of(&effective, "admin.listen"), ValueOrigin::Default);
}

#[test]
fn values_of_every_kind_are_read_from_a_file() {
    let file = file(
        "[data]\ndir = \"/var/lib/upesi\"\nsegment_bytes = 0x10_0000\nkeep_segments = \"needed\"\n\
         [engine]\nbatch_bytes_max = 65_536\ndurable = false\n\
         [fspiop]\nversions_accepted = [\"1.1\", \"2.0\"]\nversion_default = \"2.0\"\n\
         [hub]\nname = \"switch\"\n",
    );
    let settings = load(&Sources { file: Some(file.path.clone()), ..Sources::default() }).unwrap().settings;
    assert_eq!(settings.data.dir, PathBuf::from("/var/lib/upesi"));
    assert_eq!(settings.data.segment_bytes, 1 << 20);
    assert_eq!(settings.data.keep_segments, KeepSegments::Needed);
    assert!(!settings.engine.durable);
    assert_eq!(settings.fspiop.version_default.to_string(), "2.0");
    assert_eq!(settings.hub.name.as_str(), "switch");
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn mistakes_in_a_file_are_reported_with_their_lines() {
    for (content, expected) in [
        (
            "[fspiop]\nworker = 2\n",
            vec!["2: \"fspiop.worker\" is not a setting; did you mean \"fspiop.workers\"?"],
        ),
        ("[fspiop]\ntls = true\n", vec!["2: \"fspiop.tls\" is not a setting; `upesi config` lists them all"]),
        (
            "[fspiop]\nhostname = \"x\"\n",
            vec!["2: \"fspiop.hostname\" is not a setting; did you mean \"admin.hostname\"?"],
        ),
        ("\n[fspoip]\nworkers = 2\n", vec!["2: [fspoip] is not a section; did you mean [fspiop]?"]),
        (
            "[kafka]\n",
            vec![
                "1: [kafka] is not a section; the sections are data, archive, store, fspiop, admin, oidc, oidc_dfsps, oauth, security, cluster, cluster_tls, broker_tls, broker_sasl, fspiop_tls, \
                admin_tls, metrics_tls, outbound_tls, outbound, jws, pkcs11, tls, hub, engine, admission, callbacks, relay, lookup, oracles, quotes, log, metrics, shutdown",
            ],
        ),
        ("workers = 2\n", vec!["1: \"workers\" is outside any section; write it under [fspiop]"]),
        ("fspiop = 1\n", vec!["1: \"fspiop\" is a section: write [fspiop] on a line of its own"]),
        ("[fspiop]\nworkers = 257\n", vec!["2: fspiop.workers: give a whole number from 0 to 256"]),
        ("[fspiop]\nworkers = -1\n", vec!["2: fspiop.workers: give a whole number from 0 to 256"]),
        (
            "[fspiop]\nworkers = \"2\"\n",
            vec!["2: fspiop.workers: give a whole number from 0 to 256, without quotes"],
        ),
        (
            "[fspiop]\nworkers = 1.5\n",
            vec!["2: fspiop.workers: give a whole number from 0 to 256, not a number with a fraction"],
        ),
        ("[engine]\ndurable = 1\n", vec!["2: engine.durable: give true or false, not a number"]),
        (
            "[fspiop]\nlisten = \"localhost:4000\"\n",
            vec![
                "2: fspiop.listen: \"localhost:4000\": give an address with port, such as 127.0.0.1:4000 or [::1]:4000",
            ],
        ),
        (
            "[fspiop]\nlisten = \"127.0.0.1:70000\"\n",
            vec![
                "2: fspiop.listen: \"127.0.0.1:70000\": give an address with port, such as 127.0.0.1:4000 or [::1]:4000; 70000 is over 65535, the last port",
            ],
        ),
        (
            "[metrics]\nlisten = ':70000'\n[cluster]\nbrokers = 'a:9092, b:70000'\nlisten = '0.0.0.0:70001'\n\
             nodes = '1=a:4003,2=b:65536'\naddress = 'https://a:70002/'\n[admin]\n\
             allowed_origins = 'https://ops.example:70003'\nallowed_hosts = '::1, ops.example:65535'\n",
            vec![
                "9: admin.allowed_origins: \"https://ops.example:70003\" cannot be reached; 70003 is over 65535, the last port",
                "7: cluster.address: \"https://a:70002/\" cannot be reached; 70002 is over 65535, the last port",
                "4: cluster.brokers: \"b:70000\" cannot be reached; 70000 is over 65535, the last port",
                "5: cluster.listen: \"0.0.0.0:70001\": give an address with port, such as 127.0.0.1:4000 or [::1]:4000; 70001 is over 65535, the last port",
                "6: cluster.nodes: \"2=b:65536\" cannot be reached; 65536 is over 65535, the last port",
                "2: metrics.listen: \":70000\": give an address with port, such as 127.0.0.1:4000 or [::1]:4000; 70000 is over 65535, the last port",
            ],
        ),
        (
            "[fspiop]\nlisten = 4000\n",
            vec![
                "2: fspiop.listen: give an address with port, such as 127.0.0.1:4000 or [::1]:4000, not a number",
            ],
        ),
        (
            "[hub]\nname = \"\"\n",
            vec!["2: hub.name: \"\": give a name of 2 to 30 printable ASCII characters"],
        ),
        (
            "[hub]\nfunds_out_guard = \"none\"\n",
            vec!["2: hub.funds_out_guard: \"none\": give one of position, settlement-account"],
        ),
        (
            "[fspiop]\nversions_accepted = [1.1]\n",
            vec![
                "2: fspiop.versions_accepted: give a list of versions, such as 1.0,1.1, not an array with values that are not strings",
            ],
        ),
        (
            "[log]\nlevel = \"loud\"\n",
            vec![
                "2: log.level: \"loud\" is not a level: write off, error, warn, info, debug or trace, or directives such as info,upesi_delivery=debug",
            ],
        ),
        // Several mistakes at once, in the order of the file's syntax, its keys, its values, and contradictions.
        (
            "[fspiop]\nworker = 2\nlisten = \"nowhere\"\n[callbacks]\nbackoff_max_ms = 100\n",
            vec![
                "2: \"fspiop.worker\" is not a setting; did you mean \"fspiop.workers\"?",
                "3: fspiop.listen: \"nowhere\": give an address with port, such as 127.0.0.1:4000 or [::1]:4000",
                "5: callbacks.backoff_max_ms = 100 is too low for callbacks.backoff_min_ms = 200 (default)",
            ],
        ),
    ] {
        assert_eq!(mistakes_of(content), expected, "{content}");
    }
}

#[test]
fn syntax_error_is_reported_with_its_line() {
    let mistakes = mistakes_of("[fspiop]\nworkers = \nlisten = \"127.0.0.1:1\"\n[fspiop]\n");
    assert_eq!(mistakes.len(), 2, "{mistakes:?}");
    assert!(mistakes[0].starts_with("2: "), "{mistakes:?}");
    assert!(mistakes[1].starts_with("4: "), "{mistakes:?}");
}

#[test]
fn contradictions_name_both_settings() {
    for (content, expected) in [
        (
            "[admin]\nlisten = \"127.0.0.1:4000\"\n",
            "2: fspiop.listen = 127.0.0.1:4000 and admin.listen = 127.0.0.1:4000 need different ports",
        ),
        (
            "[fspiop]\nlisten = \"0.0.0.0:4001\"\n",
            "2: fspiop.listen = 0.0.0.0:4001 and admin.listen = 127.0.0.1:4001 need different ports",
        ),
        (
            "[fspiop]\nversion_default = \"3.0\"\n",
            "2: fspiop.version_default = 3.0 is not among fspiop.versions_accepted",
        ),
        (
            "[callbacks]\nrequest_timeout_ms = 5000\ndeadline_s = 4\n",
            "2: callbacks.request_timeout_ms = 5000 is too high for callbacks.deadline_s = 4 (:3)",
        ),
        (
            "[engine]\nqueue_commands_max = 100\n",
            "2: engine.queue_commands_max = 100 is too low for engine.batch_commands_max = 4096 (default)",
        ),
        ("[fspiop_tls]\nmode = \"tls\"\n", "2: fspiop_tls.mode = tls needs fspiop_tls.certificate_file"),
        (
            "[admin_tls]\nmode = \"mutual\"\ncertificate_file = \"c\"\nkey_file = \"k\"\n",
            "2: admin_tls.mode = mutual needs admin_tls.anchors_file",
        ),
        (
            "[outbound_tls]\nanchors_file = \"a\"\nkey_file = \"k\"\n",
            "3: outbound_tls.key_file needs outbound_tls.certificate_file",
        ),
        ("[outbound_tls]\ncrl_file = \"l\"\n", "2: outbound_tls.crl_file needs outbound_tls.anchors_file"),
        (
            "[jws]\nsigning_key_file = \"pkcs11:token=hub\"\n",
            "2: jws.signing_key_file: pkcs11:token=hub: a key in a token is pkcs11:token=LABEL;object=LABEL, or with \
             id=%01 instead of the object",
        ),
        (
            "[jws]\nnext_key_file = \"pkcs11:token=hub;object=k\"\n",
            "2: jws.next_key_file names a token, which needs pkcs11.module",
        ),
        (
            "[pkcs11]\nmodule = \"m\"\n[jws]\nsigning_key_file = \"pkcs11:token=hub;object=k\"\n",
            "4: jws.signing_key_file names a token, which needs pkcs11.pin_file",
        ),
        (
            "[admin]\npeople_key_file = \"pkcs11:token=hub;object=k\"\n",
            "2: admin.people_key_file names a token, which needs pkcs11.module",
        ),
        ("[outbound_tls]\nhttps_only = true\n", "2: outbound_tls.https_only needs outbound_tls.anchors_file"),
    ] {
        assert_eq!(mistakes_of(content), [expected], "{content}");
    }
    // Port 0 twice results in two different ports.
    let free = file("[admin]\nlisten = \"127.0.0.1:0\"\n[fspiop]\nlisten = \"127.0.0.1:0\"\n");
    assert!(load(&Sources { file: Some(free.path.clone()), ..Sources::default() }).is_ok());
}

#[test]
fn own_directory_needs_the_files_of_all_dfsps() {
    let content = "[outbound_tls]\nown_directory = \"d\"\n";
    assert_eq!(mistakes_of(content), ["2: outbound_tls.own_directory needs outbound_tls.anchors_file"]);
}

#[test]
fn batch_must_fit_into_an_entry_of_the_log() {
    let content = |bytes: u32| format!("[engine]\nbatch_bytes_max = {bytes}\n[cluster]\nlog = \"kafka\"\n");
    let expected =
        "2: engine.batch_bytes_max = 11534337 is too high for the log of a cluster: at most 11534336";
    assert_eq!(mistakes_of(&content(11_534_337)), [expected]);
    let fits = file(&content(11_534_336));
    assert!(load(&Sources { file: Some(fits.path.clone()), ..Sources::default() }).is_ok());
}

/// Texts that look like one address and are another one, or none.
const ODD_PLACES: [(&str, &str); 6] = [
    ("1=hub-1:0", "a URL's port must be a number from 1 to 65535 without leading zeros"),
    ("1=hub-1:+80", "a URL's port must be a number from 1 to 65535 without leading zeros"),
    ("1=127.1:4003", "an IPv4 address in a URL must be four decimal numbers, such as 192.0.2.1"),
    ("1={host}:4003", "a URL may not have placeholders in its host or port"),
    ("1=hub-1/x:4003", "give a node's number and address, such as 1=hub-1.example:4003"),
    ("1=hub-1?x:4003", "give a node's number and address, such as 1=hub-1.example:4003"),
];

#[test]
fn cluster_listen_needs_tls_and_an_entry_in_nodes() {
    let port = "[cluster]\nlog = \"kafka\"\nlisten = \"127.0.0.1:4003\"\nnode = 1\n";
    let tls = "[cluster_tls]\ncertificate_file = \"c\"\nkey_file = \"k\"\nanchors_file = \"a\"\n";
    let with = |nodes: &str| format!("{port}nodes = \"{nodes}\"\n{tls}");
    for (content, expected) in [
        (
            "[cluster]\nlisten = \"here\"\n",
            "2: cluster.listen: \"here\": give an address with port, such as 127.0.0.1:4000 or [::1]:4000",
        ),
        (
            "[cluster]\nlisten = \"0.0.0.0:0\"\n",
            "2: cluster.listen = 0.0.0.0:0 has port 0, but other nodes need a fixed port",
        ),
        (
            "[cluster]\nlisten = \"127.0.0.1:4003\"\n",
            "2: cluster.listen = 127.0.0.1:4003 is only for nodes of a cluster: set cluster.log",
        ),
        (port, "3: cluster.listen = 127.0.0.1:4003 needs cluster_tls.certificate_file"),
        (&format!("{port}{tls}"), "3: cluster.listen = 127.0.0.1:4003 needs cluster.nodes"),
        (&with("2=b:4003"), "5: cluster.nodes: this node (1) is not listed"),
        (&with("1=b:4003, 1=c:4003"), "5: cluster.nodes: \"1=c:4003\": node 1 is named twice"),
        (
            &with("1=hub-1"),
            "5: cluster.nodes: \"1=hub-1\": give a node's number and address, such as 1=hub-1.example:4003",
        ),
    ] {
        assert_eq!(mistakes_of(content), [expected], "{content}");
    }
    for (place, expected) in ODD_PLACES {
        assert_eq!(mistakes_of(&with(place)), [format!("5: cluster.nodes: {place:?}: {expected}")]);
    }
    let right = file(&with("1=hub-1:4003, 2=[::1]:4003"));
    assert!(load(&Sources { file: Some(right.path.clone()), ..Sources::default() }).is_ok());
}

#[test]
fn broker_settings_must_be_complete() {
    let login = "[broker_sasl]\nmechanism = 'PLAIN'\nusername = 'hub'\npassword_file = 'p'\n";
    let tls = "[broker_tls]\nmode = 'tls'\nanchors_file = 'a'\n";
    for (content, expected) in [
        ("[broker_tls]\nmode = 'tls'\n", "2: broker_tls.mode = tls needs broker_tls.anchors_file"),
        (
            "[broker_tls]\nmode = 'mutual'\nanchors_file = 'a'\n",
            "2: broker_tls.mode = mutual needs broker_tls.certificate_file",
        ),
        (
            "[broker_tls]\nmode = 'mutual'\nanchors_file = 'a'\ncertificate_file = 'c'\n",
            "2: broker_tls.mode = mutual needs broker_tls.key_file",
        ),
        (
            "[broker_tls]\nkey_file = 'pkcs11:token=hub;object=k'\n",
            "2: broker_tls.key_file must be a file: the brokers' client cannot use a token",
        ),
        (
            "[broker_sasl]\nmechanism = 'SCRAM-SHA-256'\n",
            "2: broker_sasl.mechanism = SCRAM-SHA-256 needs broker_sasl.username",
        ),
        (
            "[broker_sasl]\nmechanism = 'SCRAM-SHA-512'\nusername = 'hub'\n",
            "2: broker_sasl.mechanism = SCRAM-SHA-512 needs broker_sasl.password_file",
        ),
        (login, "2: broker_sasl.mechanism = PLAIN needs broker_tls.mode = tls or mutual"),
    ] {
        assert_eq!(mistakes_of(content), [expected], "{content}");
    }
    for content in [tls, &format!("{tls}{login}"), &login.replace("PLAIN", "SCRAM-SHA-512")] {
        let sound = file(content);
        assert!(load(&Sources { file: Some(sound.path.clone()), ..Sources::default() }).is_ok(), "{content}");
    }
    // A node with the production profile.
    let login = login.replace("PLAIN", "SCRAM-SHA-512");
    for (brokers, is_enough) in [
        ("", false),
        (tls, false),
        (&*login, false),
        (&format!("{tls}{login}"), true),
        ("[broker_tls]\nmode = 'mutual'\nanchors_file = 'a'\ncertificate_file = 'c'\nkey_file = 'k'\n", true),
    ] {
        let content =
            format!("[security]\nprofile = 'production'\n{SECURED}[cluster]\nlog = 'kafka'\n{brokers}");
        let kept = file(&content);
        let is_ok = load(&Sources { file: Some(kept.path.clone()), ..Sources::default() }).is_ok();
        assert_eq!(is_ok, is_enough, "{brokers}");
    }
}

#[test]
fn contradictions_of_identity_providers_are_reported() {
    for (content, expected) in [
        ("[oidc]\nissuer = \"https://id.example\"\n", "2: oidc.issuer needs oidc.audience"),
        (
            "[oidc]\naudience = \"a\"\nissuer = \"https://id.example\"\n",
            "3: oidc.issuer needs oidc.anchors_file",
        ),
        (
            "[oidc]\naudience = \"a\"\nissuer = \"http://id.example\"\n",
            "3: oidc.issuer: \"http://id.example\": give a URL with https://, or with http:// on this machine",
        ),
        ("[oidc]\nlogin_client = \"hub\"\n", "2: oidc.login_client needs oidc.issuer"),
        ("[oidc]\nlogin_secret_file = \"/a\"\n", "2: oidc.login_secret_file needs oidc.login_client"),
        (
            "[oidc]\naudience = \"a\"\nissuer = \"http://127.0.0.1:1\"\nlogin_client = \"hub\"\n",
            "4: oidc.login_client needs admin.allowed_origins, which begins with the address of the console",
        ),
        (
            "[oidc]\naudience = \"a\"\nissuer = \"http://127.0.0.1:1\"\nlogin_client = \"hub\"\n\
             [admin]\nallowed_origins = \"http://hub.example, https://hub.example\"\n",
            "4: oidc.login_client needs https:// in the first of admin.allowed_origins, not http://hub.example, \
             except on this machine",
        ),
        (
            "[oidc]\naudience = \"a\"\nissuer = \"http://127.0.0.1:1\"\nlogin_client = \"hub\"\n\
             login_scopes = \"profile, a b\"\n[admin]\nallowed_origins = \"http://127.0.0.1:4001\"\n",
            "5: oidc.login_scopes: \"a b\" is not the name of a scope",
        ),
        (
            "[oidc]\naudience = \"a\"\nissuer = \"http://127.0.0.1:1\"\nroles = \"a=dfsp-user\"\n",
            "4: oidc.roles: dfsp-user is not a role for users of this section",
        ),
        (
            "[oidc_dfsps]\nissuer = \"http://127.0.0.1:1\"\naudience = \"a\"\n\
             [oidc]\naudience = \"a\"\nissuer = \"http://127.0.0.1:1\"\n",
            "2: oidc_dfsps.issuer must differ from oidc.issuer: a provider belongs to one section only",
        ),
        (
            "[oidc_dfsps]\naudience = \"a\"\nissuer = \"http://127.0.0.1:1\"\nroles = \"a=viewer\"\n",
            "4: oidc_dfsps.roles: viewer is not a role for users of this section",
        ),
        (
            "[oidc_dfsps]\naudience = \"a\"\nissuer = \"http://127.0.0.1:1\"\nparticipant_claim = \"\"\n",
            "3: oidc_dfsps needs oidc_dfsps.participant_claim",
        ),
        ("[oauth]\nissuer = \"http://127.0.0.1:1\"\n", "2: oauth.issuer needs oauth.audience"),
        (
            "[oauth]\naudience = \"a\"\nissuer = \"https://id.example\"\n",
            "3: oauth.issuer needs oauth.anchors_file",
        ),
        (
            "[oauth]\naudience = \"a\"\nissuer = \"http://id.example\"\n",
            "3: oauth.issuer: \"http://id.example\": give a URL with https://, or with http:// on this machine",
        ),
        (
            "[oauth]\naudience = \"a\"\nissuer = \"http://127.0.0.1:1\"\n\
             [oidc]\naudience = \"a\"\nissuer = \"http://127.0.0.1:1\"\n",
            "3: oauth.issuer needs an oauth.audience that differs from the audience of operators' tokens of this provider",
        ),
    ] {
        assert_eq!(mistakes_of(content), [expected], "{content}");
    }
}

#[test]
fn oauth_and_oidc_may_have_the_same_provider() {
    let content = "[oauth]\naudience = \"a\"\nissuer = \"http://127.0.0.1:1\"\n\
                   [oidc]\naudience = \"b\"\nissuer = \"http://127.0.0.1:1\"\n";
    let both = file(content);
    assert!(load(&Sources { file: Some(both.path.clone()), ..Sources::default() }).is_ok());
}

#[test]
fn proxy_protocol_from_accepts_networks() {
    let of = |text: &str| mistakes_of(&format!("[fspiop]\nproxy_protocol_from = \"{text}\"\n"));
    let mistakes = of("10.0.3.0/24, balancer");
    assert!(mistakes[0].starts_with("2: fspiop.proxy_protocol_from: "), "{mistakes:?}");
    assert_eq!(mistakes.len(), 1);
    let sound = file("[fspiop]\nproxy_protocol_from = \"10.0.3.0/24, fd00:3::/64\"\n");
    assert!(load(&Sources { file: Some(sound.path.clone()), ..Sources::default() }).is_ok());
}

#[test]
fn mistakes_in_environment_and_flags_are_reported() {
    let sources = Sources {
        file: None,
        environment: variables(&[
            ("UPESI__FSPIOP__LISTEM", "127.0.0.1:2"),
            ("UPESI__FSPIOP__WORKERS", "many"),
            ("UPESI__X", "1"),
        ]),
        flags: vec![
            ("--set fspiop.port=1".into(), "fspiop.port".into(), "1".into()),
            ("--admin".into(), "admin.listen".into(), "4001".into()),
        ],
    };
    let mistakes = load(&sources).map(|_| ()).unwrap_err();
    assert_eq!(
        describe(&mistakes),
        "the configuration has 5 mistakes; nothing was started\n  \
         env UPESI__FSPIOP__LISTEM: this variable has no effect; did you mean UPESI__FSPIOP__LISTEN?\n  \
         env UPESI__X: this variable has no effect; write UPESI__SECTION__NAME; `upesi config` lists them all\n  \
         flag --set fspiop.port=1: \"fspiop.port\" is not a setting; `upesi config` lists them all\n  \
         env UPESI__FSPIOP__WORKERS: fspiop.workers: \"many\": give a whole number from 0 to 256\n  \
         flag --admin: admin.listen: \"4001\": give an address with port, such as 127.0.0.1:4000 or [::1]:4000"
    );
}

#[test]
fn missing_file_is_a_mistake() {
    let sources = Sources { file: Some("/nowhere/upesi.toml".into()), ..Sources::default() };
    let mistakes = load(&sources).map(|_| ()).unwrap_err();
    assert_eq!(
        mistakes[0].to_string(),
        "/nowhere/upesi.toml: cannot be read: No such file or directory (os error 2)"
    );
}

#[test]
fn printed_toml_has_the_same_effect() {
    let sources = Sources {
        environment: variables(&[
            ("UPESI__FSPIOP__WORKERS", "3"),
            ("UPESI__DATA__DIR", "with \"quotes\" \\ and é"),
            ("UPESI__FSPIOP__PROXY_PROTOCOL_FROM", "10.0.3.0/24, fd00:3::/64"),
            ("UPESI__OIDC__ROLES", "hub leads=treasury-approver, hub leads=viewer"),
            ("UPESI__DFSP__GREENBANK__SIGNATURES", "warn"),
        ]),
        ..Sources::default()
    };
    let effective = load(&sources).unwrap();
    let printed = to_toml(&effective);
    assert!(
        printed.contains("workers = 3                                      # env UPESI__FSPIOP__WORKERS\n"),
        "{printed}"
    );
    assert!(printed.starts_with("[data]\n"), "{printed}");
    for line in [
        "proxy_protocol_from = [\"10.0.3.0/24\", \"fd00:3::/64\"]",
        "roles = { \"hub leads\" = [\"treasury-approver\", \"viewer\"] }",
        "[[dfsp]]\nname = \"GREENBANK\"\nsignatures = \"warn\" ",
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    let again = file(&printed);
    let read = load(&Sources { file: Some(again.path.clone()), ..Sources::default() }).unwrap();
    let values = |effective: &EffectiveSettings| {
        let pair = |entry: &SettingValue| (entry.key.clone(), entry.value.clone());
        effective.entries.iter().map(pair).collect::<Vec<_>>()
    };
    assert_eq!(values(&read), values(&effective));
}

#[test]
fn json_contains_the_origin() {
    let sources =
        Sources { environment: variables(&[("UPESI__FSPIOP__WORKERS", "3")]), ..Sources::default() };
    let json: serde_json::Value = serde_json::from_str(&to_json(&load(&sources).unwrap())).unwrap();
    let entry = json.as_array().unwrap().iter().find(|entry| entry["key"] == "fspiop.workers").unwrap();
    assert_eq!(
        *entry,
        serde_json::json!({
            "key": "fspiop.workers",
            "value": 3,
            "origin": {"kind": "environment", "name": "UPESI__FSPIOP__WORKERS"},
        })
    );
}

const SECURED: &str = "[data]
must_exist = true
[fspiop_tls]
mode = 'mutual'
certificate_file = 'c'
key_file = 'k'
anchors_file = 'a'
crl_file = 'r'
[admin_tls]
mode = 'tls'
certificate_file = 'c'
key_file = 'k'
[outbound_tls]
anchors_file = 'a'
crl_file = 'r'
https_only = true
[jws]
mode = 'enforce'
keys_dir = 'd'
signing_key_file = 's'
[admin]
authentication = 'required'
approvers = 'people'
people_key_file = 'p'
audit_key_file = 'u'
[fspiop]
diagnostics = false
[admission]
lookup_misses_per_dfsp = 5
[outbound]
addresses = 'public'
";

const BY_TLS: &str = "[metrics_tls]\nmode = 'tls'\ncertificate_file = 'c'\nkey_file = 'k'\n";
const OIDC: &str = "[oidc]\nissuer = 'https://id.example'\nanchors_file = 'a'\naudience = 'hub'\n";

#[test]
fn transfer_validity_is_limited_by_default_only_in_production() {
    let limit = |text: &str| {
        let made = file(text);
        let sources = Sources { file: Some(made.path.clone()), ..Sources::default() };
        load(&sources).unwrap().settings.transfer_validity_max().map(|limit| limit.as_secs())
    };
    let production = "[security]\nprofile = 'production'\n";
    let missing = mistakes_of(production);
    let names: Vec<_> = missing.iter().map(|text| text.rsplit(' ').next().unwrap()).collect();
    let production = format!("{production}relaxed = '{}'\n", names.join(","));
    for (text, expected) in [
        ("", None),
        ("[hub]\ntransfer_validity_max_s = 5\n", Some(5)),
        (&*production, Some(86_400)),
        (&format!("{production}[hub]\ntransfer_validity_max_s = 172800\n"), Some(172_800)),
    ] {
        assert_eq!(limit(text), expected, "{text}");
    }
}

#[test]
fn production_reports_each_missing_requirement_and_can_waive_it() {
    assert_eq!(load(&Sources::default()).unwrap().settings.security.profile, Profile::Development);
    let production = "[security]\nprofile = 'production'\n";
    let mistakes = mistakes_of(production);
    assert_eq!(mistakes.len(), 13, "{mistakes:?}");
    let names: Vec<_> = mistakes.iter().map(|text| text.rsplit(' ').next().unwrap()).collect();
    let all = names.join(",");
    let relaxed = file(&format!("{production}relaxed = '{all}'\n"));
    let settings =
        load(&Sources { file: Some(relaxed.path.clone()), ..Sources::default() }).unwrap().settings;
    assert_eq!(missing_for_production(&settings), names);
    let secured = file(&format!("{production}{SECURED}"));
    let settings =
        load(&Sources { file: Some(secured.path.clone()), ..Sources::default() }).unwrap().settings;
    assert_eq!(missing_for_production(&settings), [""; 0]);
    // Each of its lines is needed.
    for (line, without, name) in [
        ("mode = 'tls'", "mode = 'plain'", "admin-tls"),
        ("https_only = true", "https_only = false", "callbacks-tls"),
        ("mode = 'enforce'", "mode = 'warn'", "signatures"),
        ("[outbound]", "[[dfsp]]\nname = 'greenbank'\nsignatures = 'off'\n[outbound]", "signatures"),
        ("signing_key_file = 's'", "signing_key_file = ''", "signing"),
        ("'required'", "'off'", "admin-authentication"),
        ("'required'", "'required'\napprovals = 'off'", "admin-approvals"),
        ("'people'", "'any'", "admin-approvers"),
        ("diagnostics = false", "diagnostics = true", "diagnostics"),
        ("'public'", "'any'", "outbound-addresses"),
        ("[outbound]", "[metrics]\nlisten = '192.0.2.1:9100'\n[outbound]", "metrics-tls"),
        ("[outbound]", "[metrics]\nlisten = '0.0.0.0:9100'\n[outbound]", "metrics-tls"),
        ("crl_file = 'r'\n[admin_tls]", "[admin_tls]", "revocation-lists"),
        ("crl_file = 'r'\nhttps_only", "https_only", "revocation-lists"),
        ("mode = 'tls'", "mode = 'mutual'\nanchors_file = 'a'", "revocation-lists"),
        ("people_key_file = 'p'", "", "people-key"),
        ("audit_key_file = 'u'", "", "audit-key"),
        ("audit_key_file", "allowed_hosts = 'ops.example, *'\naudit_key_file", "allowed-hosts"),
        ("lookup_misses_per_dfsp = 5", "", "lookup-misses"),
        ("must_exist = true", "", "must-exist"),
        ("[outbound]", "[[dfsp]]\nname = 'greenbank'\nlookup_misses_per_s = 0\n[outbound]", "lookup-misses"),
        ("diagnostics", "proxy_protocol_from = '0.0.0.0/0'\ndiagnostics", "proxy-protocol"),
        ("diagnostics", "proxy_protocol_from = '10.0.3.0/24, ::/0'\ndiagnostics", "proxy-protocol"),
        ("'public'", "'public'\nnetworks = '0.0.0.0/0'", "outbound-networks"),
        ("'public'", "'public'\nnetworks = '0.0.0.0/1, 128.0.0.0/1'", "outbound-networks"),
        ("'public'", "'public'\nnetworks = '10.0.0.0/8, ::/0'", "outbound-networks"),
        (
            "[outbound]",
            &format!("{BY_TLS}[metrics]\nlisten = '192.0.2.1:9100'\n[outbound]"),
            "metrics-clients",
        ),
        ("[outbound]", &format!("{OIDC}[outbound]"), "oidc-approvals"),
        ("[outbound]", &format!("{OIDC}approval_methods = 'mfa'\n[outbound]"), "oidc-approvals"),
        ("[outbound]", &format!("{OIDC}approval_age_s = 300\n[outbound]"), "oidc-approvals"),
        ("crl_file = 'r'\n[admin_tls]", "crl_file = 'r'\nbindings_required = false\n[admin_tls]", "bindings"),
    ] {
        let changed = format!("{production}{}", SECURED.replacen(line, without, 1));
        let mistakes = mistakes_of(&changed);
        assert!(
            mistakes.len() == 1 && mistakes[0].ends_with(&format!("security.relaxed = {name}")),
            "{line} {without}: {mistakes:?}"
        );
    }
    let unknown = mistakes_of("[security]\nrelaxed = 'admin-tsl, signing'\n");
    assert!(unknown.len() == 1 && unknown[0].ends_with("did you mean admin-tls?"), "{unknown:?}");
}

/// Metrics with mutual TLS, or on this machine; small networks; required proofs of a login.
#[test]
fn production_accepts_other_secure_values() {
    let production = "[security]\nprofile = 'production'\n";
    let mutual = BY_TLS.replace("'tls'", "'mutual'") + "anchors_file = 'a'\ncrl_file = 'r'\n";
    for (line, with) in [
        ("[outbound]", "[metrics]\nlisten = '127.0.0.1:9100'\n[outbound]"),
        ("[outbound]", "[metrics]\nlisten = '[::1]:9100'\n[outbound]"),
        ("[outbound]", &format!("{mutual}[metrics]\nlisten = '192.0.2.1:9100'\n[outbound]")),
        ("addresses = 'public'", "networks = '10.0.0.0/8, fd00::/8'"),
        ("diagnostics", "proxy_protocol_from = '10.0.3.0/24, fd00:3::/64'\ndiagnostics"),
        ("audit_key_file", "allowed_hosts = ['ops.example']\naudit_key_file"),
        ("[outbound]", "[[dfsp]]\nname = 'greenbank'\nsignatures = 'enforce'\n[outbound]"),
        ("[outbound]", &format!("{OIDC}approval_methods = 'mfa'\napproval_age_s = 300\n[outbound]")),
        ("mode = 'tls'", "mode = 'mutual'\nanchors_file = 'a'\ncrl_file = 'r'"),
    ] {
        let served = file(&format!("{production}{}", SECURED.replacen(line, with, 1)));
        let loaded = load(&Sources { file: Some(served.path.clone()), ..Sources::default() });
        assert!(loaded.is_ok(), "{with}: {:?}", loaded.map(drop));
    }
}

/// Outside development, callbacks go to public addresses only, unless an operator allows others.
#[test]
fn outbound_guard_is_off_only_in_development() {
    let production = format!("[security]\nprofile = 'production'\nrelaxed = 'outbound-addresses'\n{SECURED}");
    for (content, is_guarded) in [
        ("", false),
        ("[outbound]\naddresses = 'public'\n", true),
        (&*production.replace("addresses = 'public'\n", ""), true),
        (&production.replace("'public'", "'profile'"), true),
        (&production.replace("'public'", "'any'"), false),
    ] {
        let kept = file(content);
        let settings =
            load(&Sources { file: Some(kept.path.clone()), ..Sources::default() }).unwrap().settings;
        assert_eq!(settings.is_outbound_guarded(), is_guarded, "{content}");
    }
}

#[test]
fn invalid_origins_are_reported() {
    assert_eq!(
        mistakes_of("[admin]\nallowed_origins = 'https://portal.example, portal.example'\n"),
        ["2: admin.allowed_origins: \"portal.example\" is not an origin; write https://portal.example"]
    );
}

/// Settings of single DFSPs come from tables, variables and flags.
#[test]
fn dfsp_settings_of_all_sources_are_joined() {
    let file = file(
        "[[dfsp]]\nname = \"greenbank\"\nnetworks = [\"192.0.2.0/24\", \"2001:db8:7::/48\"]\n\
         lookups_per_s = 50\nsignatures = \"warn\"\n\n[[dfsp]]\nname = \"blue.bank\"\nregistrations_per_s = 7\n",
    );
    let sources = Sources {
        file: Some(file.path.clone()),
        environment: variables(&[
            ("UPESI__DFSP__GREENBANK__SIGNATURES", "off"),
            ("UPESI__DFSP__REDBANK__NETWORKS", "198.51.100.7/32, 203.0.113.0/24"),
        ]),
        flags: vec![(
            "--set dfsp.Blue.Bank.lookup_misses_per_s=5".into(),
            "dfsp.Blue.Bank.lookup_misses_per_s".into(),
            "5".into(),
        )],
    };
    let effective = load(&sources).unwrap();
    let [green, blue, red] = &effective.settings.dfsps[..] else { panic!("{effective:?}") };
    let names = [green, blue, red].map(|dfsp| dfsp.name.to_string());
    assert_eq!(names, ["greenbank", "blue.bank", "REDBANK"]);
    let networks = |dfsp: &Dfsp| dfsp.settings.networks.as_ref().map_or(0, Vec::len);
    assert_eq!([green, blue, red].map(networks), [2, 0, 2]);
    let DfspSettings { signatures, lookups_per_s, lookup_misses_per_s, .. } = &green.settings;
    assert_eq!(
        (*signatures, *lookups_per_s, *lookup_misses_per_s),
        (Some(SignatureMode::Off), Some(50), None)
    );
    let DfspSettings { registrations_per_s, lookup_misses_per_s, signature_faults_per_s, .. } =
        &blue.settings;
    assert_eq!(
        (*registrations_per_s, *lookup_misses_per_s, *signature_faults_per_s),
        (Some(7), Some(5), None)
    );
    let variable = ValueOrigin::Environment("UPESI__DFSP__GREENBANK__SIGNATURES".into());
    assert_eq!(*origin_of(&effective, "dfsp.greenbank.signatures"), variable);
    assert_eq!(effective.entries.iter().filter(|entry| entry.key.starts_with("dfsp.")).count(), 6);
}

#[test]
fn mistakes_in_dfsp_settings_are_reported() {
    let table = |line: &str| format!("[[dfsp]]\nname = \"greenbank\"\n{line}\n");
    for (content, expected) in [
        ("[dfsp]\nname = \"greenbank\"\n", "1: write [[dfsp]], one table for each DFSP, with its name"),
        ("dfsp = [\"greenbank\"]\n", "1: write [[dfsp]], one table for each DFSP, with its name"),
        (
            "[[dfsp]]\nsignatures = \"warn\"\n",
            "1: [[dfsp]] needs the name of the DFSP, such as name = \"greenbank\"",
        ),
        ("[[dfsp]]\nname = \"\"\n", "1: dfsp: \"\": give a name of 1 to 32 printable ASCII characters"),
        (
            &table("\"x.signatures\" = \"off\""),
            "3: [[dfsp]] has no \"x.signatures\"; did you mean \"signatures\"?",
        ),
        (&table("signature = \"warn\""), "3: [[dfsp]] has no \"signature\"; did you mean \"signatures\"?"),
        (
            &table("signatures = \"wran\""),
            "3: dfsp.greenbank.signatures: \"wran\": give one of off, warn, enforce; did you mean warn?",
        ),
        (
            &table("lookups_per_s = \"many\""),
            "3: dfsp.greenbank.lookups_per_s: give a whole number from 0 to 10000000, without quotes",
        ),
        (
            &table("networks = \"2001:db8::/65\""),
            "3: dfsp.greenbank.networks: \"2001:db8::/65\": an IPv6 network of a DFSP has a prefix of at most 64 bits",
        ),
        (
            &table("networks = \"\""),
            "3: dfsp.greenbank.networks: the value is empty; omit it to use the setting of all DFSPs",
        ),
        // An empty list does not open the port to all addresses.
        (
            &table("networks = []"),
            "3: dfsp.greenbank.networks: give a list of networks, such as 10.20.0.0/16",
        ),
        (
            &format!("{}[[dfsp]]\nname = \"GreenBank\"\n", table("")),
            "4: [[dfsp]]: \"GreenBank\" is listed twice",
        ),
    ] {
        assert_eq!(mistakes_of(content), [expected], "{content}");
    }
    let flag = |key: &str| {
        let flags = vec![("--set".into(), key.into(), "warn".into())];
        describe(&load(&Sources { flags, ..Sources::default() }).unwrap_err())
    };
    assert!(flag("dfsp.signatures").contains("dfsp.signatures: write dfsp.NAME.signatures"));
    assert!(flag("dfsp.greenbank.signature").contains("did you mean \"signatures\"?"));
}

#[test]
fn former_settings_name_their_successors() {
    for (content, expected) in [
        (
            "[fspiop]\naddress_lists = \"greenbank=192.0.2.0/24\"\n",
            "2: \"fspiop.address_lists\" is no longer a setting: write `networks` in the DFSP's table [[dfsp]], or UPESI__DFSP__NAME__NETWORKS",
        ),
        (
            "[jws]\nexceptions = \"greenbank=warn\"\n",
            "2: \"jws.exceptions\" is no longer a setting: write `signatures` in the DFSP's table [[dfsp]], or UPESI__DFSP__NAME__SIGNATURES",
        ),
        (
            "[store]\ncache_bytes = 16777216\n",
            "2: \"store.cache_bytes\" is no longer a setting: delete it; the hub has a fixed value",
        ),
    ] {
        assert_eq!(mistakes_of(content), [expected], "{content}");
    }
    let environment = variables(&[("UPESI__ADMISSION__EXCEPTIONS", "greenbank lookups=50")]);
    let mistakes = load(&Sources { environment, ..Sources::default() }).map(|_| ()).unwrap_err();
    let text = mistakes[0].to_string();
    assert!(
        text.starts_with("env UPESI__ADMISSION__EXCEPTIONS: this variable no longer has an effect: write "),
        "{text}"
    );
    assert!(text.contains("UPESI__DFSP__NAME__LOOKUPS_PER_S") && mistakes.len() == 1, "{text}");
}

/// A wrong value of a setting that guards access is a mistake, also beside other mistakes.
#[test]
fn wrong_value_never_becomes_a_default() {
    for content in [
        "[admin]\nauthentication = \"requird\"\n",
        "[admin]\nallowed_origins = \"portal\"\n",
        "[fspiop]\nproxy_protocol_from = [\"10.0.3.0\"]\n",
        "[fspiop_tls]\nmode = \"mutal\"\n",
        "[outbound]\naddresses = \"pubic\"\n",
        "[outbound]\nports = [\"443\", \"0\"]\n",
        "[jws]\nmode = \"enforced\"\n",
        "[oidc]\nroles = { leads = \"king\" }\n",
        "[oidc]\nroles = { leads = 1 }\n",
        "[tls]\ncrl_stale = \"refused\"\n",
        "[security]\nprofile = \"prodution\"\n",
    ] {
        let mistakes = mistakes_of(content);
        assert!(mistakes.len() == 1 && mistakes[0].starts_with("2: "), "{content}: {mistakes:?}");
    }
}

#[test]
fn section_omits_the_settings_that_it_fixes() {
    let has = |key: &str| CATALOGUE.iter().any(|setting| setting.key == key);
    assert!(has("admin_tls.mode") && has("broker_tls.mode") && !has("cluster_tls.mode"));
    assert!(has("cluster_tls.crl_file") && !has("broker_tls.crl_file"));
    assert!(has("oidc_dfsps.participant_claim") && !has("oidc.participant_claim"));
    assert!(has("oidc.approval_age_s") && !has("oidc_dfsps.approval_age_s"));
    let settings = load(&Sources::default()).unwrap().settings;
    assert_eq!((settings.cluster_tls.mode, settings.admin_tls.mode), (TlsMode::Mutual, TlsMode::Plain));
    assert_eq!(settings.oidc.participant_claim, None);
    assert_eq!(mistakes_of("[cluster_tls]\nmode = \"tls\"\n").len(), 1);
}

/// A first installation reads a few screens.
#[test]
fn reference_shows_at_most_seventy_settings() {
    let basic = CATALOGUE.iter().filter(|setting| !setting.is_expert).count();
    assert!((40..=70).contains(&basic), "{basic}");
    let (short, all) = (reference(false), reference(true));
    let rows = |page: &str| page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!((rows(&short), rows(&all)), (basic, CATALOGUE.len()));
    assert!(
        short.contains("`upesi config --reference --all` shows all.") && !short.contains("## [shutdown]")
    );
    assert!(all.contains("\n## [[dfsp]]\n") && all.contains("\n## [shutdown]\n"));
}
