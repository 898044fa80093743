//! Reports of the results in `results.txt`, and of invalid files.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use upesi_lab::FileError;
use upesi_lab::report::{ReportError, compare, markdown, text, write_html};

/// A directory with a file for each part of `results.txt`.
static RESULTS: LazyLock<PathBuf> = LazyLock::new(|| {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lab-results");
    for part in include_str!("results.txt").split("\n=== ").skip(1) {
        let (name, content) = part.split_once('\n').expect("a name and a content");
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
        std::fs::write(path, content).expect("the file");
    }
    directory
});

fn fixture(name: &str) -> PathBuf {
    RESULTS.join(name)
}

fn fixtures(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| fixture(name)).collect()
}

fn page(paths: &[PathBuf]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("report.html");
    write_html(paths, &page).unwrap();
    std::fs::read_to_string(page).unwrap()
}

fn written(directory: &Path, content: &str) -> PathBuf {
    std::fs::write(directory.join("result.json"), content).unwrap();
    directory.to_owned()
}

#[test]
fn comparison_has_size_and_confidence() {
    let comparison = compare(&fixtures(&["before", "after"])).unwrap().to_string();
    assert!(
        comparison.contains("“after” is 12 % ± 1.6 % faster than “before”; the difference is real."),
        "{comparison}"
    );
    assert!(comparison.contains("less CPU per transfer"), "{comparison}");
    let line = comparison.lines().find(|line| line.trim_start().starts_with("after")).unwrap();
    assert_eq!(line.split_whitespace().nth(1), Some("4,603"));
}

#[test]
fn markdown_is_ready_to_paste() {
    let rows = markdown(&fixtures(&["before", "broken"])).unwrap();
    let lines: Vec<_> = rows.lines().collect();
    assert!(lines[0].starts_with("| run | per second |"), "{rows}");
    assert!(lines[2].starts_with("| before | 4,111 | 3.40 ms |"), "{rows}");
    let cells = |line: &str| line.matches(" | ").count();
    assert!(lines[1..4].iter().all(|line| cells(line) == cells(lines[0])), "{rows}");
    assert!(rows.contains("2 cores") && rows.contains("commit 4f0c1aa"), "{rows}");
    assert!(rows.contains("- **broken: the integrity audit failed"), "{rows}");
}

#[test]
fn page_is_complete_and_loads_nothing() {
    for names in
        [&["after"][..], &["before", "after"], &["before", "broken"], &["suite"], &["suite", "suite"]]
    {
        let page = page(&fixtures(names));
        for loading in ["src=", "href=\"http", "url(", "@import", "fetch(", "XMLHttpRequest", "import("] {
            assert!(!page.contains(loading), "{names:?} has {loading}");
        }
        assert!(page.contains("default-src 'none'"));
        assert_eq!(page.matches("<figure").count(), page.matches("</figure>").count());
        assert_eq!(page.matches("<section").count(), page.matches("</section>").count());
        assert_eq!(page.matches("<details").count(), page.matches("</details>").count());
        assert!(!page.contains("NaN") && !page.contains(">inf"), "{names:?} shows a number that is none");
    }
    assert!(
        page(&fixtures(&["after"])).contains("Copyright (c) 2022 Leon Sorokin"),
        "uPlot comes with its licence"
    );
    let page = page(&fixtures(&["before", "broken"]));
    for expected in [
        "Do not rely on this",
        "Audit failed",
        "Not valid",
        "Thresholds not met</b> <span>27.1 % of the operations failed",
        "Cores full</b> <span>hub and load generator shared 4 cores, idle for 3.0 % of the time",
        "Not durable",
        "DIFFER",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    assert!(!page.contains("Thresholds met"), "a run without thresholds has no badge");
    assert!(self::page(&fixtures(&["after"])).contains("Thresholds met"));
    let rows = upesi_lab::report::markdown(&fixtures(&["after", "broken"])).unwrap();
    assert_eq!(rows.matches("did not meet the thresholds: 27.1 %").count(), 1, "{rows}");
    assert!(rows.contains("shared by hub and load generator, full"), "{rows}");
}

#[test]
fn same_files_produce_the_same_page() {
    let paths = fixtures(&["suite", "before"]);
    assert!(page(&paths) == page(&paths));
}

/// The data of a page's plots.
fn plots(page: &str) -> Vec<serde_json::Value> {
    let parts = page.split("<script type=\"application/json\">").skip(1);
    parts.map(|part| serde_json::from_str(part.split_once("</script>").unwrap().0).unwrap()).collect()
}

fn throughput(name: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(fixture(name).join("result.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap()["throughput_per_s"].clone()
}

#[test]
fn suite_has_its_plots_and_missing_runs() {
    let page = page(&fixtures(&["suite"]));
    for expected in [
        "Position handling by batch size",
        "4 DFSPs",
        "existing transfers",
        "Left no result: never-ran",
        "fsync off",
        "<h2>Verdict</h2><p class=\"lead\">",
        "of the suite is missing: see below.",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    assert!(page.find("<h2>Verdict</h2>") < page.find("id=\"suite-0\""), "it stands first");
    let plots = plots(&page);
    let batches = plots.iter().find(|plot| plot["series"].as_array().unwrap().len() == 3).unwrap();
    assert_eq!((&batches["x"]["kind"], &batches["unit"]), (&"numbers".into(), &"/s".into()), "{batches}");
    for (series, dfsps) in batches["series"].as_array().unwrap().iter().zip([2, 4, 8]) {
        assert_eq!(series["name"], format!("{dfsps} DFSPs"));
        assert_eq!(series["x"], serde_json::json!([1.0, 10.0, 20.0, 40.0, 50.0, 100.0]));
        assert_eq!(series["y"][0], throughput(&format!("suite/position-b1-d{dfsps}")));
        assert_eq!(series["y"][5], throughput(&format!("suite/position-b100-d{dfsps}")));
        assert!(series["ranges"][0].is_array() && series["stroke"] == "points", "{series}");
    }
    let ablations = plots.iter().find(|plot| plot["x"]["kind"] == "words").unwrap();
    assert_eq!(ablations["series"][0]["stroke"], "columns", "what lies between two words means nothing");
    assert_eq!(ablations["series"][0]["y"].as_array().unwrap().len(), 4);
}

#[test]
fn suite_has_its_duration_and_machine() {
    let directory = tempfile::tempdir().unwrap();
    let write = |suite: &serde_json::Value| {
        std::fs::write(directory.path().join("suite.json"), suite.to_string()).unwrap();
        [directory.path().to_owned()]
    };
    let run = fixture("before");
    let mut suite = serde_json::json!({
        "schema_version": 2, "title": "An hour", "runs": [run.to_str().unwrap()],
        "began_at": "2026-11-22T01:55:03.123Z", "ended_at": "2026-11-22T02:47:21.523Z", "took_s": 3138.4, "within_s": 3600.0,
    });
    let paths = write(&suite);
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (rows, table) = (words(markdown(&paths).unwrap()), words(text(&paths).unwrap()));
    assert!(rows.starts_with("Took 52.3 min on 2 cores, "), "{rows}");
    for told in [&rows, &table] {
        assert!(told.contains("from 2026-11-22 01:55 UTC, within the 60.0 min that it may take."), "{told}");
    }
    assert!(page(&paths).contains("Took 52.3\u{a0}min on 2 cores"));
    suite.as_object_mut().unwrap().remove("took_s");
    let paths = write(&suite);
    assert!(markdown(&paths).unwrap().starts_with("| run |") && !page(&paths).contains("Took "));
}

/// A result that was modified.
fn changed(directory: &Path, change: impl Fn(&mut serde_json::Value)) -> PathBuf {
    let text = std::fs::read_to_string(fixture("before/result.json")).unwrap();
    let mut value = serde_json::from_str(&text).unwrap();
    change(&mut value);
    written(directory, &value.to_string())
}

#[test]
fn queues_are_drawn_if_something_waited() {
    let directory = tempfile::tempdir().unwrap();
    let with = |engine: u32, callbacks: u32| {
        let path = changed(directory.path(), |value| {
            for row in value["timeline"]["rows"].as_array_mut().unwrap() {
                (row["queue_engine"], row["queue_callbacks"]) = (engine.into(), callbacks.into());
                row["p95_ms"] = row["p99_ms"].clone();
            }
        });
        page(&[path])
    };
    let queues = |page: &str| page.matches("<b>Waiting in the hub").count();
    assert_eq!([with(0, 0), with(1, 0), with(0, 3)].map(|page| queues(&page)), [0, 1, 1]);
    let names = |page: &str| -> Vec<String> {
        let of = |plot: &serde_json::Value| plot["series"].as_array().unwrap().clone();
        plots(page).iter().flat_map(of).map(|series| series["name"].as_str().unwrap().to_owned()).collect()
    };
    let has = |page: &str, name: &str| names(page).iter().any(|known| known == name);
    assert!(!has(&page(&fixtures(&["before"])), "p95") && has(&with(0, 0), "p95"));
    assert!(!has(&with(0, 7), "engine") && has(&with(5, 7), "callbacks") && has(&with(5, 7), "engine"));
    let page = with(5, 7);
    let queues = plots(&page).into_iter().find(|plot| plot["series"][0]["name"] == "callbacks").unwrap();
    assert!(queues["series"][0]["y"].as_array().unwrap().iter().all(|depth| *depth == 7.0), "{queues}");
    let rows = serde_json::from_str::<serde_json::Value>(
        &std::fs::read_to_string(fixture("before/result.json")).unwrap(),
    )
    .unwrap()["timeline"]["rows"]
        .clone();
    let latency = plots(&page).into_iter().find(|plot| plot["unit"] == "ms").unwrap();
    let p99 =
        latency["series"].as_array().unwrap().iter().find(|series| series["name"] == "p99").unwrap().clone();
    for (place, row) in rows.as_array().unwrap().iter().enumerate() {
        let numbers = |value: [&serde_json::Value; 2]| value.map(|value| value.as_f64().unwrap());
        assert_eq!(
            numbers([&p99["x"][place], &p99["y"][place]]),
            numbers([&row["t"], &row["p99_ms"]]),
            "{place}"
        );
    }
}

#[test]
fn generators_of_a_merged_result_have_rows() {
    let directory = tempfile::tempdir().unwrap();
    let path = changed(directory.path(), |value| {
        let of_each = |name: &str, valid: bool| {
            serde_json::json!({
                "name": name,
                "environment": { "cores": 16 },
                "throughput_per_s": 1234.0,
                "latency_ms": { "p99": 77.0 },
                "validity": { "valid": valid, "findings": [] },
            })
        };
        value["generators"] = serde_json::json!([of_each("instance 1", true), of_each("instance 2", false)]);
    });
    let page = page(&[path]);
    let (_, section) = page.split_once("<h3>Load generators</h3>").unwrap();
    let (section, _) = section.split_once("</section>").unwrap();
    let rows: Vec<_> = section.split("<tr>").filter(|row| row.contains("instance")).collect();
    assert!(rows.len() == 2 && rows[0].contains(">yes</td>") && rows[1].contains(">NO</td>"), "{section}");
    assert!(rows.iter().all(|row| row.contains(">1,234</td>") && row.contains("77.0 ms")), "{section}");
    assert!(!self::page(&fixtures(&["before"])).contains("Load generators"));
}

#[test]
fn long_page_has_contents_and_folded_runs() {
    let page = page(&fixtures(&["suite"]));
    let contents = page.split_once("<nav class=\"contents\"").unwrap().1.split_once("</nav>").unwrap().0;
    for (id, heading) in
        [("suite-0", "Effect of the parameters"), ("runs", "All runs"), ("details", "Every run")]
    {
        assert!(contents.contains(&format!("<a href=\"#{id}\">{heading}</a>")), "{contents}");
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
    assert!(page.contains("<details class=\"run\"") && !page.contains("\" open><summary>"));
    assert!(page.contains("details:not([open]) { display: none; }"), "folded parts are not printed");
    assert!(!page.contains("beforeprint"), "and nothing unfolds it");
}

#[test]
fn profile_of_a_result_is_drawn_by_stage() {
    let directory = tempfile::tempdir().unwrap();
    let run = written(directory.path(), &std::fs::read_to_string(fixture("before/result.json")).unwrap());
    assert!(!page(std::slice::from_ref(&run)).contains("samples of its stacks"));
    let shares = r#"{"schema_version": 1, "samples": 400, "stages": [
        {"stage": "parse <edge>", "samples": 300, "share": 0.75, "error": 0.0424,
         "inside": [{"what": "system calls", "samples": 240, "share": 0.6}, {"what": "own code", "samples": 60, "share": 0.15}]},
        {"stage": "journal", "samples": 100, "share": 0.25, "error": 0.0424, "inside": [{"what": "system calls", "samples": 100, "share": 0.25}]}
    ]}"#;
    std::fs::write(directory.path().join("shares.json"), shares).unwrap();
    let page = page(std::slice::from_ref(&run));
    let (table, _) = page.split_once("from 400 samples of its stacks").unwrap();
    let table = table.rsplit_once("<thead>").unwrap().1;
    assert!(table.contains("<th>samples</th><th>system calls</th><th>own code</th>"), "{table}");
    for (stage, width, cells) in [
        ("parse &lt;edge&gt;", "75.00", ["75 %", "4.2 %", "300", "60 %", "15 %"]),
        ("journal", "25.00", ["25 %", "4.2 %", "100", "25 %", "–"]),
        ("all", "100.00", ["100 %", "", "400", "85 %", "15 %"]),
    ] {
        let heading = format!("<th scope=\"row\" class=\"\">{stage}</th>");
        let row = table.split_once(&heading).unwrap().1.split_once("</tr>").unwrap().0;
        assert!(row.contains(&format!("style=\"left:0.00%;width:{width}%\"")), "{row}");
        assert!(row.ends_with(&cells.map(|cell| format!("<td class=\"\">{cell}</td>")).concat()), "{row}");
    }
    assert!(!page.contains("<img"), "the page must have no flame graph");
    std::fs::write(directory.path().join("profile.svg"), "<svg/>").unwrap();
    let page = self::page(std::slice::from_ref(&run));
    assert!(page.contains("src=\"data:image/svg+xml;base64,PHN2Zy8+\""), "{page}");
    let rows = markdown(std::slice::from_ref(&run)).unwrap();
    assert!(rows.contains("| journal | 25 % | 4.2 % | 100 |"), "{rows}");
    std::fs::write(directory.path().join("profile.svg"), vec![b' '; 600 * 1024]).unwrap();
    assert!(!self::page(std::slice::from_ref(&run)).contains("<img"), "that is too long for a page");
    std::fs::write(directory.path().join("shares.json"), "{\"stages\": 3}").unwrap();
    let error = text(&[run]).unwrap_err();
    assert!(
        matches!(error, ReportError::File(FileError::Malformed { .. }))
            && error.to_string().contains("shares.json"),
        "{error}"
    );
}

/// A result with a text in every member that attempts to end its element.
fn hostile() -> String {
    let attack =
        "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"' onmouseover='alert(3)|`*_<b>";
    let attack = serde_json::to_string(attack).unwrap();
    let text = std::fs::read_to_string(fixture("broken/result.json")).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let attack: serde_json::Value = serde_json::from_str(&attack).unwrap();
    infect(&mut value, &attack);
    value["parameters"] = serde_json::json!({ attack.as_str().unwrap(): attack, "ablation": attack });
    value["environment"][attack.as_str().unwrap()] = attack.clone();
    value.to_string()
}

fn infect(value: &mut serde_json::Value, attack: &serde_json::Value) {
    match value {
        serde_json::Value::String(text) => *text = attack.as_str().unwrap().to_owned(),
        serde_json::Value::Array(values) => values.iter_mut().for_each(|value| infect(value, attack)),
        serde_json::Value::Object(members) => members.values_mut().for_each(|value| infect(value, attack)),
        _ => {}
    }
}

#[test]
fn texts_of_a_file_are_escaped() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let paths = vec![written(first.path(), &hostile()), written(second.path(), &hostile())];
    let suite = tempfile::tempdir().unwrap();
    let runs: Vec<_> = paths.iter().map(|path| path.to_str().unwrap().to_owned()).collect();
    let attack = "</title><script>alert(4)</script>";
    let plot =
        serde_json::json!({"title": attack, "x": "ablation", "series": attack, "y": "throughput_per_s"});
    let file = serde_json::json!({"schema_version": 2, "title": attack, "runs": runs, "plots": [plot]});
    std::fs::write(suite.path().join("suite.json"), file.to_string()).unwrap();
    for paths in [paths[..1].to_vec(), paths.clone(), vec![suite.path().to_owned()]] {
        let page = page(&paths);
        // The page contains only its own script and the data of its plots.
        let (scripts, data) =
            (page.matches("<script").count(), page.matches("<script type=\"application/json\">").count());
        assert_eq!(scripts, data + 1);
        assert_eq!(page.matches("</script>").count(), scripts);
        assert!(
            !page.contains("<img") && !page.contains("<b>alert") && !page.contains("\" onmouseover"),
            "markup leaked"
        );
        assert_eq!(page.matches("</title>").count(), 1);
        // Data is JSON, so an apostrophe has no meaning.
        let markup = page.split("<script type=\"application/json\">");
        let mut markup = markup.map(|part| part.split_once("</script>").map_or(part, |(_, markup)| markup));
        assert!(markup.all(|markup| !markup.contains("' onmouseover")), "a quote leaked");
    }
    let rows = markdown(&paths).unwrap();
    assert!(!rows.replace("\\<", "").contains('<'), "Markdown lets HTML through: {rows}");
}

#[test]
fn page_shows_objectives_that_were_not_judged() {
    let check = |name: &str, met: Option<bool>| serde_json::json!({"name": name, "limit": 200, "measured": 900, "met": met});
    let mut doubtful = check("T1 per second", None);
    doubtful["not_judged"] = "the run is not valid".into();
    let kept_up =
        serde_json::json!({"name": "completed_share_of_due", "limit": 0.99, "value": 0.7, "met": false});
    let result = serde_json::json!({
        "drift": {"rows": [{"name": "p99_ms"}], "programme_2020": [doubtful, check("T2", Some(true))], "kept_up": kept_up},
        "breakpoint": {"probes": [{"rate_per_s": 500, "idle_share": 0.031, "met": true}, {"rate_per_s": 800}]},
        "machine": {"shared": false, "full": false, "words": "the load generator had 4 cores, idle for 60.0 % of the time"},
    });
    let directory = tempfile::tempdir().unwrap();
    let path = written(directory.path(), &result.to_string());
    let page = page(std::slice::from_ref(&path));
    for expected in [
        "T1 per second</th><td class=\"\">200/s</td><td class=\"\">900/s</td><td class=\"\">not judged: the run is not valid<",
        "class=\"met\">met<",
        "completed part of the due operations</th><td class=\"\">99 %</td><td class=\"\">70 %</td><td class=\"alarm\">missed<",
        ">3.1 %</td>",
        "<dd>the load generator had 4 cores, idle for 60.0 % of the time</dd>",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert!(!page.contains("Cores full"));
    assert!(markdown(&[path]).unwrap().contains("of the load generator alone, not full"));
}

#[test]
fn sparse_result_is_reported() {
    for content in [
        "{}",
        "{\"schema_version\": 2, \"name\": \"x\", \"latency_ms\": null, \"timeline\": null, \"histogram\": null}",
        "{\"throughput_per_s\": 0, \"timeline\": {\"interval_s\": 0, \"rows\": [{}, {}]}, \"repetitions\": [0, 0]}",
        "{\"histogram\": {\"buckets\": [[0, 0], [0, 5]]}, \"stages\": [{}], \"processes\": [{}], \"slices\": [{}, {}]}",
        "{\"histogram\": {\"buckets\": [[18446744073709551615, 1]]}, \"timeline\": {\"rows\": [{\"t\": -5, \"p99_ms\": -1}]}}",
        "{\"breakpoint\": {\"probes\": [{}, {\"rate_per_s\": 1}]}, \"drift\": {\"rows\": [{}]}, \"targets\": [{}]}",
        "{\"window\": {\"trimmed_start_s\": 50, \"seconds\": 1}, \"timeline\": {\"rows\": [{\"t\": 1, \"completed\": 1}]}}",
    ] {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let paths = vec![written(first.path(), content), written(second.path(), content)];
        for paths in [&paths[..1], &paths] {
            assert!(page(paths).contains("</html>"), "{content}");
            markdown(paths).unwrap();
        }
        assert!(compare(&paths).is_ok(), "{content}");
    }
}

#[test]
fn unreadable_file_is_reported_with_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let error = |paths: &[PathBuf]| text(paths).unwrap_err();
    assert!(matches!(error(&[]), ReportError::Nothing));
    assert!(matches!(
        error(&[directory.path().join("none")]),
        ReportError::File(FileError::Unreadable { .. })
    ));
    for content in [
        "",
        "{",
        "[]x",
        "{\"throughput_per_s\": \"fast\"}",
        "{\"stages\": 3}",
        "{\"histogram\": {\"buckets\": [[1e300, 1]]}}",
        "{\"timeline\": {\"rows\": [{\"completed\": -3}]}}",
    ] {
        let path = written(directory.path(), content);
        let error = error(&[path]);
        assert!(matches!(error, ReportError::File(FileError::Malformed { .. })), "{content}: {error}");
        assert!(error.to_string().contains("result.json"), "{error}");
    }
    for other in [1, 3] {
        let path = written(directory.path(), &format!("{{\"schema_version\": {other}}}"));
        let error = error(&[path]);
        assert!(
            matches!(error, ReportError::File(FileError::Layout { version, known: 2, .. }) if version == other),
            "{error}"
        );
    }
    let unwritable = write_html(&fixtures(&["after"]), Path::new("/nonexistent/page.html"));
    assert!(matches!(unwritable, Err(ReportError::Unwritable { .. })));
}
