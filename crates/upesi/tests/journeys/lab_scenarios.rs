//! Scenario files from the command line: run, sweep, search, compare, report, merge.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const SMALL: &str = r#"
title = "Small"
operation = "transfers"
[dfsps]
count = 2
[load]
users = 2
[time]
warm_up = "100ms"
measured = "1200ms"
slices = 2
[hub.settings]
"engine.batch_commands_max" = 64
"#;

fn upesi(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_upesi")).args(arguments).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The output of a command that must exit with `code`.
fn ended(code: i32, arguments: &[&str]) -> (String, String) {
    let output = upesi(arguments);
    let printed = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (printed(&output.stdout), printed(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{stdout}\n{stderr}");
    (stdout, stderr)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn write(directory: &Path, name: &str, contents: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, contents).unwrap();
    text(&path).to_owned()
}

#[test]
fn scenario_with_flags_has_a_complete_result() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "small.toml", SMALL);
    let out = directory.path().join("out");
    ended(0, &["lab", "run", &file, "--vus", "3", "--out", text(&out)]);
    let result = json(&out.join("result.json"));
    assert_eq!((&result["name"], &result["title"]), (&"small".into(), &"Small".into()));
    assert_eq!(result["options"]["load"]["closed"]["users"], 3);
    assert_eq!(result["options"]["hub_arguments"][0], "--set=engine.batch_commands_max=64");
    assert_eq!(result["repetitions"].as_array().map(Vec::len), Some(2));
    for pointer in [
        "/environment/storage/filesystem",
        "/environment/build/profile",
        "/environment/durability",
        "/latency_ms/p9999",
        "/latency_ms/share_over_1s",
        "/histogram/buckets/0/1",
        "/processes/0/context_switches_voluntary",
        "/window/seconds",
    ] {
        assert!(result.pointer(pointer).is_some_and(|value| !value.is_null()), "{pointer}");
    }
    let stage = |name: &str| {
        let stages = result["stages"].as_array().unwrap();
        stages
            .iter()
            .find(|stage| stage["stage"] == name)
            .unwrap_or_else(|| panic!("{name}: {stages:?}"))
            .clone()
    };
    for name in ["prepare", "fulfil", "journal_sync", "engine", "notification"] {
        assert!(stage(name)["operations"].as_u64().unwrap() > 0, "{name}");
    }
    assert!(stage("engine")["batch_mean"].as_f64().unwrap() >= 1.0);
}

#[test]
fn sweep_results_can_be_reported_and_compared() {
    let directory = tempfile::tempdir().unwrap();
    let sweep = format!("{SMALL}\n[sweep]\n\"load.users\" = [1, 2]\n");
    let file = write(directory.path(), "swept.toml", &sweep);
    let out = directory.path().join("out");
    let (table, _) = ended(0, &["lab", "run", &file, "--duration", "400ms", "--out", text(&out)]);
    assert!(table.contains("swept"), "{table}");
    let suite = json(&out.join("suite.json"));
    assert_eq!(suite["runs"], serde_json::json!(["swept,users-1", "swept,users-2"]));
    assert_eq!((&suite["plots"][0]["x"], &suite["failures"]), (&"users".into(), &serde_json::json!([])));
    let one = out.join("swept,users-1");
    assert_eq!(json(&one.join("result.json"))["parameters"]["users"], 1);
    let page = directory.path().join("page.html");
    ended(0, &["lab", "report", text(&out), "--html", text(&page)]);
    assert!(page.is_file() && out.join("report.html").is_file());
    let (rows, _) = ended(0, &["lab", "report", text(&out), "--markdown"]);
    assert!(rows.contains('|'), "{rows}");
    ended(0, &["lab", "compare", text(&one), text(&out.join("swept,users-2"))]);
    let merged = directory.path().join("merged");
    ended(0, &["lab", "merge", text(&one), text(&one), "--out", text(&merged)]);
    let twice = json(&merged.join("result.json"))["completed"].as_u64().unwrap();
    assert_eq!(twice, 2 * json(&one.join("result.json"))["completed"].as_u64().unwrap());
    ended(0, &["lab", "report", text(&merged)]);
}

/// A run of an operation with some settlement, whose audit must hold. Returns its result.
fn settled_run(sections: &str, operation: &str) -> Value {
    settled_run_with(["", ""], sections, operation)
}

/// Like `settled_run`, with additions at the head of the file and in its section of DFSPs.
fn settled_run_with([head, dfsps]: [&str; 2], sections: &str, operation: &str) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let scenario = SMALL
        .replace("\"transfers\"", &format!("\"{operation}\""))
        .replace("count = 2", &format!("count = 3\n{dfsps}"));
    let file = write(directory.path(), "settled.toml", &format!("{head}{scenario}{sections}"));
    let out = directory.path().join("out");
    ended(0, &["lab", "run", &file, "--out", text(&out)]);
    let result = json(&out.join("result.json"));
    assert_eq!(
        (&result["audit"]["ok"], &result["audit"]["findings"]),
        (&true.into(), &serde_json::json!([]))
    );
    assert!(result["completed"].as_u64() > Some(0), "{result}");
    result
}

#[test]
fn transfers_are_converted_and_settled_during_the_load() {
    for operation in ["transfers", "converted-transfers"] {
        let result = settled_run("[settlement]\nevery = \"300ms\"\n", operation);
        let settled = &result["settlement"];
        assert!(settled["settlements"].as_u64() > Some(1), "{settled}");
        assert!(settled["windows"].as_u64() <= settled["runs"].as_u64(), "{settled}");
    }
    let gross = settled_run("[settlement]\nmodel = \"gross\"\n", "converted-transfers");
    // All of them in both currencies, including FXPs.
    let positions = gross["audit"]["positions"].as_array().unwrap();
    assert_eq!(positions.len(), 2 * (3 + 2), "{positions:?}");
    assert!(
        positions.iter().any(|check| check["currency"] == "XTS" && check["books"] != "0"),
        "{positions:?}"
    );
}

#[test]
fn bulk_transfers_are_answered_and_settled_during_the_load() {
    let result = settled_run_with(["bulk_items = 7\n", ""], "[settlement]\nevery = \"300ms\"\n", "bulks");
    assert_eq!((&result["options"]["bulk_items"], &result["failed"]), (&7.into(), &0.into()), "{result}");
    let accepted = result["audit"]["accepted"].as_u64().unwrap();
    assert_eq!((accepted % 7, &result["audit"]["finished"]), (0, &accepted.into()), "{}", result["audit"]);
    assert!(accepted >= 7 * result["completed"].as_u64().unwrap(), "{accepted} transfers");
    let faults = "[behaviour]\nabort_per_mille = 100\nwrong_fulfilment_per_mille = 50\n\
        duplicate_per_mille = 300\nrepeat_prepare_per_mille = 100\n";
    let result = settled_run_with(["bulk_items = 20\n", ""], faults, "bulks");
    let counters = &result["simulators"];
    for fault in ["aborts_sent", "wrong_fulfilments_sent", "duplicated", "prepares_received"] {
        assert!(counters[fault].as_u64() > Some(0), "{fault}: {counters}");
    }
}

/// Payees convert the money that they receive, alone and after their payers. The audit includes the books of all of
/// them.
#[test]
fn payees_convert_received_money() {
    for (operation, currencies, phases) in
        [("transfers", &["XXX", "XUA"][..], 1), ("converted-transfers", &["XXX", "XTS", "XUA"], 2)]
    {
        let settlement = "[settlement]\nevery = \"300ms\"\n";
        let result = settled_run_with(["", "payees_convert = true"], settlement, operation);
        assert_eq!(result["failed"], 0, "{result}");
        let positions = result["audit"]["positions"].as_array().unwrap();
        assert_eq!(positions.len(), currencies.len() * (3 + 2), "{positions:?}");
        // Payees have nothing left in the currency of the transfers; they were paid in their own.
        let books = |currency: &str, is_fxp: bool| {
            let own = positions.iter().filter(|check| check["currency"] == currency);
            let mut own =
                own.filter(|check| check["participant"].as_str().unwrap().contains("-fx") == is_fxp);
            own.any(|check| check["books"] != "0")
        };
        for currency in ["XXX", "XUA"] {
            assert!(books(currency, true), "{currency}: {positions:?}");
        }
        // In the intermediate currency, either one FXP bought more than it sold and the other sold this difference, or
        // both are at zero.
        let between = positions.iter().filter(|check| check["currency"] == "XTS" && check["books"] != "0");
        let between: Vec<_> = between.map(|check| check["books"].as_str().unwrap()).collect();
        match between[..] {
            [] => {}
            [one, other] => {
                assert_eq!(one.trim_start_matches('-'), other.trim_start_matches('-'), "{positions:?}");
                assert_ne!(one, other, "{positions:?}");
            }
            _ => panic!("{positions:?}"),
        }
        assert!(books("XUA", false), "{positions:?}");
        let fx_transfers = result["simulators"]["conversions_received"].as_u64().unwrap();
        assert!(fx_transfers >= phases * result["completed"].as_u64().unwrap(), "{fx_transfers}");
    }
    let faults =
        "[behaviour]\nabort_per_mille = 150\nwrong_fulfilment_per_mille = 100\nduplicate_per_mille = 300\n";
    let result = settled_run_with(["", "payees_convert = true"], faults, "converted-transfers");
    for fault in ["aborts_sent", "wrong_fulfilments_sent", "duplicated"] {
        assert!(result["simulators"][fault].as_u64() > Some(0), "{fault}: {}", result["simulators"]);
    }
}

#[test]
fn faulty_fxps_leave_sound_books() {
    let faults =
        "[behaviour]\nabort_per_mille = 150\nwrong_fulfilment_per_mille = 100\nduplicate_per_mille = 300\n";
    let result = settled_run(faults, "converted-transfers");
    let counters = &result["simulators"];
    for fault in ["aborts_sent", "wrong_fulfilments_sent", "duplicated", "conversions_received"] {
        assert!(counters[fault].as_u64() > Some(0), "{fault}: {counters}");
    }
    assert!(result["phases"]["conversion"]["exchanges"]["errors"].as_u64() > Some(0), "{}", result["phases"]);
}

/// Data about a hub under load: samples with their stages and threads, and the same data as a graph with boxes below
/// the whole.
fn assert_shows_a_busy_hub(directory: &Path) {
    let shares = json(&directory.join("shares.json"));
    assert_eq!(shares["schema_version"], 1);
    let samples = shares["samples"].as_u64().unwrap();
    assert!(samples > 0, "{shares}");
    for list in ["stages", "threads"] {
        let list = shares[list].as_array().unwrap();
        assert_eq!(list.iter().map(|one| one["samples"].as_u64().unwrap()).sum::<u64>(), samples, "{shares}");
    }
    let graph = std::fs::read_to_string(directory.join("profile.svg")).unwrap();
    assert!(graph.contains(&format!("{samples} samples")), "the graph is of the same samples");
    // All threads, at least one thread, and a function in it.
    assert!(graph.matches("<g class=\"f\"").count() >= 3, "an empty graph: {graph}");
}

#[test]
fn profile_of_a_loaded_hub_shows_its_cpu_time() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let load = ["--dfsps", "2", "--vus", "4", "--warm-up", "500ms", "--duration", "4s"];
    let look = ["lab", "profile", "transfers", "--seconds", "1", "--json", "--out", text(&out)];
    let (printed, _) = ended(0, &[&look[..], &load].concat());
    assert_shows_a_busy_hub(&out);
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(printed, json(&out.join("shares.json")));
    let folded = std::fs::read_to_string(out.join("profile.folded")).unwrap();
    let count = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
    assert_eq!(folded.lines().map(count).sum::<u64>(), printed["samples"].as_u64().unwrap());
    for heap in ["heap-before.json", "heap-after.json"] {
        assert!(json(&out.join(heap))["process"]["resident"].as_u64() > Some(0), "{heap}");
    }
    let result = json(&out.join("result.json"));
    assert!(result["audit"]["ok"] == true && result["completed"].as_u64() > Some(0), "{result}");
    assert!(out.join("report.html").is_file());
}

#[test]
fn duplicate_prepares_are_answered_and_move_money_once() {
    let directory = tempfile::tempdir().unwrap();
    let twice = "[behaviour]\nrepeat_prepare_per_mille = 500\n[hub.settings]";
    let file = write(directory.path(), "twice.toml", &SMALL.replace("[hub.settings]", twice));
    let out = directory.path().join("out");
    ended(0, &["lab", "run", &file, "--out", text(&out)]);
    let result = json(&out.join("result.json"));
    assert_eq!(result["options"]["behaviour"]["repeat_prepare_per_mille"], 500);
    let counted = |name: &str| result["simulators"][name].as_u64().unwrap();
    assert!(counted("prepares_sent_twice") > 0, "{result}");
    // Callbacks report the state: reserved, or the outcome.
    assert!(counted("callbacks_informative") + counted("callbacks_repeated") > 0, "{result}");
    assert_eq!((&result["audit"]["ok"], &result["audit"]["doubled"]), (&true.into(), &0.into()));
    assert_eq!(counted("prepares_received"), result["audit"]["accepted"].as_u64().unwrap());
}

#[test]
fn suite_profiles_a_run_and_joins_three_loads() {
    let directory = tempfile::tempdir().unwrap();
    let open = SMALL.replace("users = 2", "shape = \"open\"\nrate_per_s = 50");
    write(directory.path(), "small.toml", &open);
    let three: String = ["lookups", "quotes", "transfers"]
        .map(|name| format!("[[parallel]]\noperation = \"{name}\"\nshape = \"open\"\nrate_per_s = 20\n"))
        .concat();
    let parallel = "title = \"Three\"\nparties = 20\n[dfsps]\ncount = 2\n[time]\nwarm_up = \"100ms\"\nmeasured = \"1s\"\n";
    write(directory.path(), "three.toml", &format!("{parallel}{three}"));
    let suite = "title = \"S\"\n[[run]]\nscenario = \"small.toml\"\nprofile = true\n[[run]]\nscenario = \"three.toml\"\n";
    let suite = write(directory.path(), "suite.toml", suite);
    let out = directory.path().join("out");
    ended(0, &["lab", "suite", &suite, "--out", text(&out)]);
    assert_shows_a_busy_hub(&out.join("small"));
    assert!(!out.join("three/shares.json").exists());
    let three = json(&out.join("three/result.json"));
    let operations: Vec<_> =
        three["loads"].as_array().unwrap().iter().map(|load| &load["operation"]).collect();
    assert_eq!(operations, ["lookups", "quotes", "transfers"]);
    assert!(three["audit"]["ok"] == true && three["completed"].as_u64() > Some(0), "{three}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("Loads at the same time"));
    let cpu = page.split_once("id=\"cpu\"").unwrap().1.split_once("id=\"runs\"").unwrap().0;
    assert!(cpu.contains("<a href=\"#run-0\">small</a>") && !cpu.contains("three"), "{cpu}");
    let (_, stderr) = ended(64, &["lab", "run", text(&directory.path().join("three.toml")), "--vus", "2"]);
    assert!(stderr.contains("loads in parallel are 2 to 8 open loops"), "{stderr}");
}

#[test]
fn ablations_alternate_with_the_first_point_and_claims_are_judged() {
    let directory = tempfile::tempdir().unwrap();
    let turns = "[[ablation]]\nname = \"as shipped\"\n[[ablation]]\nname = \"small batches\"\n\
                 set = { \"hub.settings.engine.batch_commands_max\" = 8 }\n\
                 [[claim]]\ntext = \"Small batches are not a thousand times slower\"\nablation = \"small batches\"\n\
                 at_most_percent = 100000\n";
    let file = write(directory.path(), "turns.toml", &format!("repetitions = 2\n{SMALL}{turns}"));
    let out = directory.path().join("out");
    let short = ["--duration", "1500ms", "--slices", "1", "--out", text(&out)];
    let (table, stderr) = ended(0, &[&["lab", "run", &file][..], &short].concat());
    assert!(stderr.contains("5 of 5: turns,ablation-as-shipped"), "{stderr}");
    assert!(table.contains("took turns") && table.contains("a thousand times slower:\n  holds: "), "{table}");
    let suite = json(&out.join("suite.json"));
    assert_eq!((&suite["pairs"][0]["base"], &suite["pairs"][0]["other"]), (&0.into(), &1.into()));
    let throughput = &suite["pairs"][0]["figures"][0];
    assert_eq!(throughput["base"].as_array().map(Vec::len), Some(2));
    assert!(
        throughput["difference"]["low"].as_f64().unwrap()
            <= throughput["difference"]["high"].as_f64().unwrap()
    );
    assert_eq!(suite["claims"][0]["verdict"], "holds");
    assert!(out.join("turns,ablation-as-shipped/repetition-3/result.json").is_file());
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("<h2>Claims</h2>") && page.contains("turn by turn"));
    let (rows, _) = ended(0, &["lab", "report", text(&out), "--markdown"]);
    assert!(rows.contains("| small batches | as shipped |"), "{rows}");
}

#[test]
fn results_of_two_generators_are_merged() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_upesi"));
    let data = directory.path().join("data");
    let starting = upesi_lab::HubProcess::start(binary, &data, &[], None);
    let hub = runtime.block_on(starting).unwrap();
    let (fspiop, admin) = (hub.fspiop_url(), hub.admin_url());
    let outs = ["1", "2"].map(|instance| directory.path().join(instance));
    std::thread::scope(|scope| {
        for (instance, out) in ["1", "2"].into_iter().zip(&outs) {
            let hub = ["--target", &fspiop, "--admin", &admin, "--role", "load", "--instance", instance];
            let small = ["--parties", "50", "--dfsps", "3", "--vus", "2", "--out", text(out)];
            let short = ["--warm-up", "500ms", "--duration", "1500ms"];
            let arguments = [&["lab", "run", "payments"][..], &hub, &small, &short].concat();
            let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
            scope.spawn(move || {
                ended(0, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
            });
        }
    });
    let merged = directory.path().join("merged");
    ended(0, &["lab", "merge", text(&outs[0]), text(&outs[1]), "--out", text(&merged)]);
    let merged = json(&merged.join("result.json"));
    let completed = outs.each_ref().map(|out| json(&out.join("result.json"))["completed"].as_u64().unwrap());
    assert!(completed.iter().all(|completed| *completed > 0), "{completed:?}");
    assert_eq!(merged["completed"], completed[0] + completed[1]);
    let names: Vec<_> =
        merged["audit"]["positions"].as_array().unwrap().iter().map(|at| &at["participant"]).collect();
    assert_eq!(names, ["dfsp1-1", "dfsp1-2", "dfsp1-3", "dfsp2-1", "dfsp2-2", "dfsp2-3"]);
    assert_eq!(
        (&merged["options"]["load"]["closed"]["users"], &merged["options"]["dfsps"]),
        (&4.into(), &6.into())
    );
    for pointer in [
        "/phases/agreement/latency_ms/p99",
        "/timeline/rows/0/p9999_ms",
        "/timeline/rows/0/share_over_1s",
        "/timeline/rows/0/queue_engine",
        "/timeline/rows/0/queue_callbacks",
        "/generators/1/environment/cores",
    ] {
        assert!(merged.pointer(pointer).is_some_and(serde_json::Value::is_number), "{pointer}: {merged}");
    }
}

#[test]
fn breakpoint_search_uses_a_fresh_hub_per_probe() {
    let directory = tempfile::tempdir().unwrap();
    let search = "[breakpoint]\nstart_per_s = 20\nprobes_max = 2\n[targets]\nlost = 0\n";
    let contents = format!("test = \"breakpoint\"\n{SMALL}{search}");
    let file = write(directory.path(), "search.toml", &contents);
    let out = directory.path().join("out");
    // Whether a rate is met depends on other programs on this machine.
    upesi(&["lab", "run", &file, "--duration", "500ms", "--slices", "1", "--out", text(&out)]);
    let probes = json(&out.join("result.json"))["breakpoint"]["probes"].as_array().unwrap().clone();
    assert_eq!(probes.len(), 2);
    for probe in probes {
        let directory = out.join("probes").join(format!("rate-{}", probe["rate_per_s"]));
        assert!(directory.join("result.json").is_file(), "{probe}");
    }
}

/// A search among rates that all miss the targets.
const HOPELESS: &str =
    "[breakpoint]\nstart_per_s = 20\nprobes_max = 2\n[targets]\nthroughput_per_s = 100000\n";

#[test]
fn search_without_rate_fails_and_skips_dependent_runs() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "search.toml", &format!("test = \"breakpoint\"\n{SMALL}{HOPELESS}"));
    let part = SMALL.replace("users = 2", "shape = \"open\"\nrate_per_s = 20\npercent_of_breakpoint = 200");
    write(directory.path(), "part.toml", &part);
    let suite = "title = \"Both\"\n[[run]]\nscenario = \"./search.toml\"\nset = { \"time.measured\" = \"500ms\" }\n\
                 [[run]]\nscenario = \"./part.toml\"\n";
    let file = write(directory.path(), "both.toml", suite);
    let out = directory.path().join("out");
    let (table, stderr) = ended(1, &["lab", "suite", &file, "--out", text(&out)]);
    assert!(stderr.contains("the search found no rate that meets every target, not even "), "{stderr}");
    let skipped = "part: skipped: it needs 200 % of the highest rate that meets the targets";
    assert!(table.contains(skipped) && stderr.contains(skipped), "{table}{stderr}");
    assert!(std::fs::read_to_string(out.join("report.html")).unwrap().contains(skipped));
    let suite = json(&out.join("suite.json"));
    assert_eq!((&suite["failures"][0]["run"], &suite["not_passed"][0]), (&"part".into(), &"search".into()));
    assert!(suite["failings"]["search"][0].as_str().unwrap().starts_with("the target throughput_per_s"));
    assert!(!out.join("part").exists());
}

#[test]
fn soak_with_invalid_figures_fails_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    // More than one operation is in flight, which is not allowed here.
    let load = "shape = \"open\"\nrate_per_s = 20000\noutstanding_max = 1";
    let contents = SMALL.replace("users = 2", load).replace("slices = 2", "slices = 1");
    let file = write(directory.path(), "soak.toml", &format!("test = \"soak\"\n{contents}"));
    let out = directory.path().join("out");
    let (table, stderr) = ended(1, &["lab", "run", &file, "--out", text(&out)]);
    assert!(
        stderr.contains("the figures of this soak are not valid: the load generator skipped"),
        "{stderr}"
    );
    assert!(stderr.contains("the load was held for 0 s of the requested 1 s"), "{stderr}");
    assert!(table.contains("2020 programme") && table.contains("not judged"), "{table}");
    let result = json(&out.join("result.json"));
    let checked = result["thresholds"]["checked"].as_array().unwrap();
    let held = checked.iter().find(|check| check["name"] == "sustained_s").unwrap();
    assert_eq!((&held["met"], &held["value"]), (&false.into(), &0.0.into()));
    assert_eq!(result["drift"]["held_s"], 0.0);
}

#[test]
fn options_unsuitable_for_a_running_hub_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_upesi"));
    let data = directory.path().join("data");
    let hub = runtime.block_on(upesi_lab::HubProcess::start(binary, &data, &[], None)).unwrap();
    let (fspiop, admin, pid) = (hub.fspiop_url(), hub.admin_url(), hub.pid().to_string());
    write(directory.path(), "hub.toml", SMALL.split("[hub.settings]").next().unwrap());
    write(directory.path(), "settings.toml", SMALL);
    let suite = "title = \"Two\"\n[[run]]\nscenario = \"./hub.toml\"\n[[run]]\nscenario = \"./settings.toml\"\n\
                 question = \"Do small batches help?\"\n";
    let file = write(directory.path(), "two.toml", suite);
    let out = directory.path().join("out");
    let target = ["--target", &fspiop, "--target-quotes", &fspiop, "--admin", &admin, "--metrics", &admin];
    let rest = ["--target-pid", &pid, "--out", text(&out)];
    let (table, stderr) = ended(0, &[&["lab", "suite", &file][..], &target, &rest].concat());
    let left_out = "settings (Do small batches help?): it needs a hub of its own, with other settings";
    assert!(table.contains(&format!("Left out: {left_out}")), "{table}");
    assert!(stderr.contains("settings is skipped"), "{stderr}");
    assert!(std::fs::read_to_string(out.join("report.html")).unwrap().contains(left_out));
    assert_eq!(json(&out.join("suite.json"))["left_out"][0]["scenario"], "settings");
    let result = json(&out.join("hub/result.json"));
    assert_eq!(result["environment"]["hub"]["quotes"], fspiop.as_str());
    assert!(result["hub"]["rss_mb"].as_f64().unwrap() > 0.0);
    assert!(result["stages"].as_array().unwrap().iter().any(|stage| stage["stage"] == "prepare"));
}

#[test]
fn mistakes_are_reported_with_their_lines_before_any_start() {
    let directory = tempfile::tempdir().unwrap();
    let wrong = write(directory.path(), "wrong.toml", &SMALL.replace("users = 2", "users = 0\nuser = 2"));
    let (stdout, stderr) = ended(64, &["lab", "run", &wrong]);
    assert_eq!(stdout, "");
    assert!(stderr.contains("wrong.toml:7: load.users: give a whole number"), "{stderr}");
    assert!(stderr.contains("wrong.toml:8: \"user\" is unknown in [load]"), "{stderr}");
    let setting = write(directory.path(), "setting.toml", &SMALL.replace("commands_max", "command_max"));
    let (_, stderr) = ended(64, &["lab", "run", &setting]);
    assert!(stderr.contains("did you mean \"engine.batch_commands_max\""), "{stderr}");
    let right = write(directory.path(), "right.toml", SMALL);
    let target = ["--target", "http://127.0.0.1:1", "--admin", "http://127.0.0.1:1"];
    let (_, stderr) = ended(64, &[&["lab", "run", &right][..], &target].concat());
    assert!(stderr.contains("configures the hub that it starts"), "{stderr}");
    ended(64, &["lab", "run", "no-such-scenario"]);
    ended(64, &["lab", "suite", "no-such-suite"]);
    ended(64, &["lab", "run", "journal-alone", "--vus", "3"]);
    ended(64, &["lab", "run", "transfers", "--role", "load"]);
    ended(66, &["lab", "run", "/nonexistent/scenario.toml"]);
    ended(66, &["lab", "merge", "/nonexistent/a", "/nonexistent/b"]);
}

#[test]
fn built_in_scenarios_are_listed_and_can_be_copied() {
    let (list, _) = ended(0, &["lab", "list"]);
    let scenarios: Value = serde_json::from_str(&ended(0, &["lab", "list", "--json"]).0).unwrap();
    assert!(scenarios.as_array().unwrap().len() > 30 && list.contains("transfers-skewed"));
    let (described, _) = ended(0, &["lab", "describe", "journal-alone"]);
    assert!(described.contains("batch-1000,durable-false: stage journal alone"), "{described}");
    let directory = tempfile::tempdir().unwrap();
    let (copy, _) = ended(0, &["lab", "describe", "transfers-mixed", "--toml"]);
    let file = write(directory.path(), "copy.toml", &copy);
    let (described, _) = ended(0, &["lab", "describe", &file]);
    assert!(described.starts_with("copy: Transfers with every kind of fault"), "{described}");
}

#[test]
fn secured_run_has_secured_baselines() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "small.toml", SMALL);
    let out = directory.path().join("out");
    let secured = ["--tls", "mutual", "--jws", "enforce", "--sign-ahead", "20"];
    let arguments = ["lab", "run", &file, "--baseline", "sims-only,forwarder", "--out", text(&out)];
    let temporary = directory.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_upesi"));
    let output = command.args(arguments).args(secured).env("TMPDIR", &temporary).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let result = json(&out.join("result.json"));
    let security = serde_json::json!({"tls": "mutual", "jws": "enforce", "sign_ahead": 20});
    assert_eq!(result["options"]["security"], security);
    let count = |name: &str| result["simulators"][name].as_u64().unwrap();
    // Both messages of the first transfers were signed in advance. All later ones were signed when they were sent.
    assert_eq!(count("signatures_made_ahead"), 2 * 20);
    assert!(count("signatures_made") > 0 && count("signatures_refused") == 0, "{}", result["simulators"]);
    for baseline in [&result["baseline"], &result["more_baselines"][0]] {
        assert!(baseline["completed"].as_u64().is_some_and(|completed| completed > 0), "{baseline}");
    }
    // The keys that were made for the run are removed.
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}
