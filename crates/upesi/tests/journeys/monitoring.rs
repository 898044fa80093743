//! Dashboards and alerts use metrics that the hub has, every alert has a section in the runbook, and Grafana's files
//! match their sources. `make docs` writes Grafana's files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::exposition::Exposition;
use crate::common::simulation::Scene;
use serde_json::{Value, json};
use toml::Table;

/// Metrics that appear only after an event. Each is in the source of the hub or of the lab. Metrics of TLS exist only
/// if a port has TLS, and metrics of a cluster only at its nodes.
const ONLY_ONCE: [&str; 45] = [
    "upesi_dfsp_response_seconds",
    "upesi_dfsp_requests_total",
    "upesi_pair_requests",
    "upesi_pair_failed_requests",
    "upesi_archive_held_seconds",
    "upesi_auth_refused_total",
    "upesi_fspiop_refusals_total",
    "upesi_admission_refused_by_dfsp_total",
    "upesi_oracle_request_seconds_bucket",
    "upesi_oracle_breaker",
    "upesi_quoting_refusals_total",
    "upesi_quoting_messages_total",
    "upesi_lookups_total",
    "upesi_relay_messages_total",
    "upesi_jws_faults_total",
    "upesi_jws_reload_failing",
    "upesi_jws_key_expiry_seconds",
    "upesi_jws_key_file_unusable",
    "upesi_caller_certificate_expiry_timestamp_seconds",
    "upesi_operator_token_expiry_seconds",
    "upesi_tls_handshakes_total",
    "upesi_tls_expiry_seconds",
    "upesi_tls_reload_failing",
    "upesi_identity_provider_failing",
    "upesi_proxy_protocol_refused_total",
    "upesi_break_glass_open",
    "upesi_cluster_leads",
    "upesi_cluster_epoch",
    "upesi_cluster_record",
    "upesi_cluster_behind_seconds",
    "upesi_cluster_take_overs_total",
    "upesi_cluster_last_hand_over_timestamp_seconds",
    "upesi_cluster_superseded_total",
    "upesi_cluster_alarming_entries_total",
    "upesi_cluster_broker_errors_total",
    "upesi_cluster_handed_on_total",
    "upesi_cluster_hand_on_repeats_total",
    "upesi_cluster_topic_held",
    "upesi_cluster_couriers",
    "upesi_cluster_unrecorded_ends",
    "upesi_cluster_store_record",
    "upesi_lab_run_valid",
    "upesi_lab_audit_holds",
    "upesi_lab_throughput_per_second",
    "upesi_lab_latency_seconds",
];
/// Series that Prometheus itself adds.
const OF_PROMETHEUS: [&str; 1] = ["up"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn dashboards() -> Vec<(String, Dashboard)> {
    let mut found: Vec<_> = fs::read_dir(root().join("monitoring/dashboards"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, Dashboard::read(&fs::read_to_string(&path).unwrap()))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(found.len(), 5);
    found
}

/// The metrics in a PromQL expression: words with an underscore or a colon that are not functions, and are not in a
/// place for labels.
fn metrics(expression: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut rest = expression;
    while let Some(start) =
        rest.find(|letter: char| letter.is_ascii_alphabetic() || matches!(letter, '{' | '"' | '['))
    {
        rest = &rest[start..];
        if let Some(close) = match rest.as_bytes()[0] {
            b'{' => Some('}'),
            b'[' => Some(']'),
            _ => None,
        } {
            rest = &rest[rest.find(close).unwrap()..];
            continue;
        }
        let end = rest
            .find(|letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '_' | ':'))
            .unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end.max(1));
        rest = behind;
        let is_function = behind.trim_start().starts_with('(');
        if matches!(word, "by" | "on" | "without" | "ignoring") && is_function {
            rest = &behind[behind.find(')').unwrap()..];
        } else if !is_function && (word.contains(['_', ':']) || word == "up") && !word.starts_with("group_") {
            names.insert(word.to_owned());
        }
    }
    names
}

/// `alert:` or `record:` with `expr:`. An expression is on the same line or, after `>`, on the following lines with a
/// larger indent.
fn rules(file: &str) -> Vec<(String, String)> {
    let text = read(file);
    let mut found: Vec<(String, String)> = Vec::new();
    let mut folded = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(name) = trimmed.strip_prefix("- alert: ").or_else(|| trimmed.strip_prefix("- record: ")) {
            found.push((name.to_owned(), String::new()));
            folded = false;
        } else if let Some(expression) = trimmed.strip_prefix("expr: ") {
            folded = expression == ">";
            if !folded {
                found.last_mut().unwrap().1 = expression.trim_matches('\'').to_owned();
            }
        } else if folded && line.starts_with("          ") {
            found.last_mut().unwrap().1.push_str(&format!(" {trimmed}"));
        } else {
            folded = false;
        }
    }
    assert!(found.iter().all(|(name, expression)| !expression.is_empty() && !name.is_empty()), "{found:?}");
    found
}

#[test]
fn metrics_finds_names_in_expressions() {
    for (expression, expected) in [
        ("up{job=\"upesi\"} == 0", vec!["up"]),
        ("sum by (a_b, le) (rate(c_d{e_f=~\"$g_h\"}[$__rate_interval])) > 0", vec!["c_d"]),
        ("a_b / on (job, x_y) group_left c:d:e", vec!["a_b", "c:d:e"]),
        ("1 - sum(a_b) and deriv(c_d[1h]) < bool 2", vec!["a_b", "c_d"]),
    ] {
        let expected: BTreeSet<_> = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(metrics(expression), expected, "{expression}");
    }
}

/// A hub with DFSPs, so that lanes and positions exist, has every metric that a rule or a dashboard uses.
#[test]
fn metrics_in_rules_and_dashboards_exist() {
    let scene = Scene::new(&[]);
    // Positions are updated once a second.
    let scrape = || scene.world.admin("GET", "/metrics", "");
    scene.world.until(&true, || scrape().body.contains("\nupesi_position{"));
    let answer = scrape();
    assert_eq!(answer.status, 200);
    let exposition = Exposition::read(&answer.body);
    let series = exposition.samples.keys().map(|series| series.split('{').next().unwrap().to_owned());
    let mut known: BTreeSet<String> = series.collect();
    let sources = [
        read("tools/lab/src/cli/metrics.rs"),
        read("crates/directory/src/metrics.rs"),
        read("crates/node/src/signatures.rs"),
        read("crates/node/src/tls.rs"),
        read("crates/node/src/metrics.rs"),
        read("crates/node/src/issuers.rs"),
        read("crates/node/src/options.rs"),
        read("crates/node/src/node.rs"),
        read("crates/node/src/response_metrics.rs"),
        read("crates/gateway/src/caller.rs"),
        read("crates/gateway/src/caller/certificates.rs"),
    ]
    .into_iter()
    .chain([read("crates/gateway/src/metrics.rs"), read("crates/quoting/src/metrics.rs")])
    .chain([read("crates/delivery/src/relayed/metrics.rs"), read("crates/gateway/src/admission/metrics.rs")])
    .collect::<String>();
    for name in ONLY_ONCE {
        let family = name.trim_end_matches("_total").trim_end_matches("_bucket");
        assert!(sources.contains(&format!("\"{family}\"")), "{name} is in no source");
        known.insert(name.to_owned());
    }
    known.extend(OF_PROMETHEUS.map(str::to_owned));
    let recorded = rules("monitoring/rules/recording.yml");
    known.extend(recorded.iter().map(|(name, _)| name.clone()));
    let asked = dashboards()
        .iter()
        .flat_map(|(_, dashboard)| dashboard.queries())
        .map(|query| (query.panel, query.expression))
        .chain(recorded)
        .chain(rules("monitoring/rules/alerts.yml"))
        .collect::<Vec<_>>();
    assert!(asked.len() > 100, "{}", asked.len());
    for (place, expression) in asked {
        let names = metrics(&expression);
        assert!(!names.is_empty(), "{place}: {expression}");
        for name in names {
            assert!(known.contains(&name), "{place} asks for {name}, which the hub does not have");
        }
    }
    scene.end();
}

#[test]
fn grafana_files_match_their_sources() {
    for (name, dashboard) in dashboards() {
        let json = dashboard.to_json();
        let panels = json["panels"].as_array().unwrap();
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
        assert_eq!(ids.len(), panels.len(), "{name}");
        let titles: BTreeSet<_> = panels.iter().map(|panel| panel["title"].as_str().unwrap()).collect();
        assert_eq!(titles.len(), panels.len(), "{name}: two panels of one title");
        for panel in panels.iter().filter(|panel| panel["type"] != "row") {
            let place = &panel["gridPos"];
            assert!(place["x"].as_i64().unwrap() + place["w"].as_i64().unwrap() <= 24, "{panel}");
            assert!(panel["description"].as_str().unwrap().ends_with('.'), "{panel}");
            assert!(!panel["fieldConfig"]["defaults"]["unit"].as_str().unwrap().is_empty(), "{panel}");
        }
        let path = root().join(format!("monitoring/grafana/dashboards/{name}.json"));
        if std::env::var_os("UPESI_WRITE_DOCS").is_some() {
            fs::write(&path, format!("{json:#}\n")).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        let found: serde_json::Value = serde_json::from_str(&found).unwrap_or_default();
        assert!(found == json, "{} is out of date: run `make docs`", path.display());
    }
}

#[test]
fn every_alert_has_a_runbook_section_and_two_tests() {
    let alerts: Vec<String> =
        rules("monitoring/rules/alerts.yml").into_iter().map(|(name, _)| name).collect();
    let runbook = read("docs/runbook.md");
    let sections: Vec<&str> = runbook.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(alerts, sections, "the runbook has the alerts in their order");
    for section in runbook.split("\n## ").skip(1) {
        for word in ["**Means**", "**Look**", "**Do**"] {
            assert!(section.contains(word), "{word} is missing in {section}");
        }
    }
    let source = read("monitoring/rules/alerts.yml");
    let tests = read("monitoring/rules/tests/alerts.yml");
    for name in &alerts {
        let anchor = format!("runbook: docs/runbook.md#{}\n", name.to_lowercase());
        assert_eq!(source.matches(&anchor).count(), 1, "{name}");
        for case in ["fires", "stays quiet"] {
            assert_eq!(tests.matches(&format!("- name: {name} {case}\n")).count(), 1, "{name} {case}");
        }
    }
}

/// Time limit for keeping a thread busy, in case the work never ends.
const BUSY_MAX: Duration = Duration::from_secs(20);

/// Runs `act` while a thread of this process, which is also the hub's, is busy. The profile of an idle hub is empty.
fn while_busy<T>(act: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let end = Instant::now() + BUSY_MAX;
            while !is_over.load(Ordering::Relaxed) && Instant::now() < end {
                std::hint::spin_loop();
            }
        });
        let result = act();
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

/// Profiles are available if profiling is on, and not available if the setting turns it off.
#[test]
fn profiles_are_served_if_allowed() {
    let scene = Scene::new(&[]);
    let get = |path: &str| {
        let answer = scene.world.admin("GET", path, "");
        (answer.status, answer.body)
    };
    let (status, heap) = get("/debug/heap");
    assert_eq!(status, 200);
    let heap: serde_json::Value = serde_json::from_str(&heap).unwrap();
    assert_eq!(
        heap["holders"][0],
        serde_json::json!({ "what": "reserved transfers", "count": 0, "bytes": null })
    );
    let (status, folded) = while_busy(|| get("/debug/profile?seconds=1&format=folded"));
    assert_eq!(status, 200);
    let count = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
    assert!(folded.lines().map(count).sum::<u64>() > 0, "something was busy for a second: {folded:?}");
    for wrong in ["/debug/profile?seconds=0", "/debug/profile?seconds=61", "/debug/profile?format=png"] {
        assert_eq!(get(wrong).0, 400, "{wrong}");
    }
    scene.end();
    let scene = Scene::new(&[("admin.profiling", "false")]);
    for path in ["/debug/heap", "/debug/profile?seconds=1"] {
        let answer = scene.world.admin("GET", path, "");
        assert_eq!(answer.status, 501);
        assert!(answer.body.contains("admin.profiling"), "{answer:?}");
    }
    scene.end();
}

/// Runs promtool in a directory of `monitoring/`. It must succeed.
fn promtool(directory: &str, arguments: &[&str]) {
    let mut command = Command::new("promtool");
    let output = command.args(arguments).current_dir(root().join("monitoring").join(directory)).output();
    let output = output.expect("promtool, which `.ci/tools tests` installs");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "promtool {arguments:?}:\n{}", said.concat());
}

#[test]
fn promtool_accepts_the_rules_and_their_tests_pass() {
    promtool(".", &["check", "config", "prometheus.yml"]);
    promtool("rules/tests", &["test", "rules", "alerts.yml"]);
}

// A dashboard as written (`monitoring/dashboards/*.toml`), and in Grafana's format.

/// Columns of Grafana's grid.
const COLUMNS: i64 = 24;
const WIDTH_DEFAULT: i64 = 8;
const KINDS: [&str; 3] = ["timeseries", "stat", "bargauge"];
/// Units of Grafana that dashboards use.
const UNITS: [&str; 9] = ["none", "short", "percentunit", "ops", "reqps", "s", "bytes", "Bps", "bool_yes_no"];

/// A query with its name.
struct Query {
    pub panel: String,
    pub expression: String,
}

struct Dashboard {
    pub source: Table,
}

fn text<'table>(table: &'table Table, name: &str) -> &'table str {
    table.get(name).and_then(toml::Value::as_str).unwrap_or_else(|| panic!("no {name} in {table}"))
}

fn tables<'table>(table: &'table Table, name: &str) -> Vec<&'table Table> {
    let list =
        table.get(name).and_then(toml::Value::as_array).unwrap_or_else(|| panic!("no {name} in {table}"));
    list.iter().map(|entry| entry.as_table().unwrap()).collect()
}

impl Dashboard {
    pub fn read(source: &str) -> Self {
        Self { source: source.parse().unwrap() }
    }

    pub fn uid(&self) -> &str {
        text(&self.source, "uid")
    }

    pub fn queries(&self) -> Vec<Query> {
        let mut found = Vec::new();
        for row in tables(&self.source, "row") {
            for panel in tables(row, "panel") {
                for query in tables(panel, "query") {
                    found.push(Query {
                        panel: format!("{} / {}", self.uid(), text(panel, "title")),
                        expression: text(query, "expr").to_owned(),
                    });
                }
            }
        }
        found
    }

    /// The JSON model, version 39 of its schema.
    pub fn to_json(&self) -> Value {
        let mut layout = Layout { panels: Vec::new(), x: 0, y: 0, height: 0 };
        for row in tables(&self.source, "row") {
            layout.row(text(row, "title"));
            tables(row, "panel").into_iter().for_each(|panel| layout.panel(panel));
        }
        json!({
            "uid": self.uid(),
            "title": text(&self.source, "title"),
            "description": text(&self.source, "description"),
            "tags": ["upesi"],
            "schemaVersion": 39,
            "version": 1,
            "editable": true,
            "graphTooltip": 1,
            "refresh": "10s",
            "time": { "from": "now-30m", "to": "now" },
            "timezone": "browser",
            "annotations": { "list": [] },
            "links": [{
                "type": "dashboards", "title": "Upesi", "tags": ["upesi"], "asDropdown": true,
                "includeVars": true, "keepTime": true, "targetBlank": false, "icon": "external link", "tooltip": "", "url": "",
            }],
            "templating": { "list": [
                { "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0 },
                {
                    "name": "instance", "label": "Hub", "type": "query", "hide": 0, "refresh": 2, "sort": 1,
                    "datasource": source(), "includeAll": true, "multi": true, "allValue": ".*",
                    "query": "label_values(upesi_journal_seq, instance)",
                    "current": { "selected": true, "text": "All", "value": "$__all" },
                },
            ] },
            "panels": layout.panels,
        })
    }
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

struct Layout {
    panels: Vec<Value>,
    x: i64,
    y: i64,
    /// Height of the current line of panels.
    height: i64,
}

impl Layout {
    fn id(&self) -> usize {
        self.panels.len() + 1
    }

    fn line_break(&mut self) {
        self.y += self.height;
        (self.x, self.height) = (0, 0);
    }

    fn row(&mut self, title: &str) {
        self.line_break();
        self.panels.push(json!({
            "id": self.id(), "type": "row", "title": title, "collapsed": false, "panels": [],
            "gridPos": { "x": 0, "y": self.y, "w": COLUMNS, "h": 1 },
        }));
        self.y += 1;
    }

    fn panel(&mut self, panel: &Table) {
        let kind = panel.get("kind").and_then(toml::Value::as_str).unwrap_or("timeseries");
        assert!(KINDS.contains(&kind), "{kind}");
        let unit = text(panel, "unit");
        assert!(UNITS.contains(&unit), "{unit}");
        let number = |name: &str| panel.get(name).and_then(toml::Value::as_integer);
        let width = number("width").unwrap_or(WIDTH_DEFAULT);
        let height = if kind == "stat" { 4 } else { 8 };
        if self.x + width > COLUMNS {
            self.line_break();
        }
        let mut defaults = json!({
            "unit": unit,
            "color": { "mode": if kind == "timeseries" { "palette-classic" } else { "thresholds" } },
            "thresholds": { "mode": "absolute", "steps": steps(panel) },
            "mappings": mappings(panel),
            "min": 0,
            "custom": custom(panel, kind),
        });
        if kind != "timeseries" {
            defaults.as_object_mut().unwrap().remove("custom");
        }
        if let Some(max) = number("max") {
            defaults["max"] = max.into();
        }
        if panel.get("below_zero").and_then(toml::Value::as_bool).unwrap_or(false) {
            defaults.as_object_mut().unwrap().remove("min");
        }
        let position = json!({ "x": self.x, "y": self.y, "w": width, "h": height });
        self.panels.push(json!({
            "id": self.id(), "type": kind, "title": text(panel, "title"), "description": text(panel, "about"),
            "datasource": source(), "gridPos": position, "targets": targets(panel),
            "fieldConfig": { "defaults": defaults, "overrides": [] },
            "options": options(kind),
        }));
        self.x += width;
        self.height = self.height.max(height);
    }
}

fn targets(panel: &Table) -> Vec<Value> {
    let letters = 'A'..='Z';
    let target = |(query, letter): (&Table, char)| {
        json!({
            "refId": letter.to_string(), "datasource": source(), "editorMode": "code", "range": true,
            "expr": text(query, "expr"), "legendFormat": text(query, "legend"),
        })
    };
    tables(panel, "query").into_iter().zip(letters).map(target).collect()
}

fn steps(panel: &Table) -> Vec<Value> {
    let Some(given) = panel.get("thresholds") else {
        return vec![json!({ "color": "green", "value": null })];
    };
    let step = |(index, step): (usize, &toml::Value)| {
        let pair = step.as_array().unwrap();
        let value = match &pair[0] {
            _ if index == 0 => Value::Null,
            toml::Value::Integer(number) => (*number).into(),
            toml::Value::Float(number) => (*number).into(),
            other => panic!("{other} is not a threshold"),
        };
        json!({ "color": pair[1].as_str().unwrap(), "value": value })
    };
    given.as_array().unwrap().iter().enumerate().map(step).collect()
}

fn mappings(panel: &Table) -> Vec<Value> {
    let Some(values) = panel.get("values").and_then(toml::Value::as_table) else { return Vec::new() };
    let option = |(index, (value, words)): (usize, (&String, &toml::Value))| {
        (value.clone(), json!({ "index": index, "text": words.as_str().unwrap() }))
    };
    let options: serde_json::Map<_, _> = values.iter().enumerate().map(option).collect();
    vec![json!({ "type": "value", "options": options })]
}

fn custom(panel: &Table, kind: &str) -> Value {
    let is_stacked = panel.get("stack").and_then(toml::Value::as_bool).unwrap_or(false);
    if kind != "timeseries" {
        return Value::Null;
    }
    json!({
        "drawStyle": "line", "lineWidth": 1, "fillOpacity": if is_stacked { 25 } else { 8 }, "showPoints": "never",
        "spanNulls": false, "stacking": { "mode": if is_stacked { "normal" } else { "none" }, "group": "A" },
    })
}

fn options(kind: &str) -> Value {
    let reduce = json!({ "calcs": ["lastNotNull"], "fields": "", "values": false });
    match kind {
        "stat" => json!({
            "reduceOptions": reduce, "colorMode": "value", "graphMode": "area", "justifyMode": "auto", "textMode": "auto",
            "orientation": "auto",
        }),
        "bargauge" => json!({
            "reduceOptions": reduce, "displayMode": "basic", "orientation": "horizontal", "showUnfilled": true,
            "valueMode": "color",
        }),
        _ => json!({
            "legend": { "displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": ["mean", "max"] },
            "tooltip": { "mode": "multi", "sort": "desc" },
        }),
    }
}
