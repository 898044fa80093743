//! A day of the lab: all kinds of events of its story have happened, and the same seed plans the same day.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;
use upesi_client::admin_api::AdminApi;

use crate::demo::Interrupted;
use crate::support_command::upesi;

fn plan(seed: &str, transfers: &str) -> Value {
    let output = upesi(&["lab", "day", "--plan", "--seed", seed, "--transfers", transfers]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Starts a day that keeps its hub running, and reads its summary.
fn day(out: &str) -> (Interrupted, Value) {
    let arguments = ["lab", "day", "--seed", "5", "--transfers", "60", "--out", out, "--json", "--keep"];
    let child = upesi(&arguments).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let mut day = Interrupted(child);
    let mut text = String::new();
    for line in BufReader::new(day.0.stdout.take().unwrap()).lines().map_while(Result::ok) {
        text += &line;
        if line == "}" {
            break;
        }
    }
    (day, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

async fn read(api: &AdminApi, path: &str) -> Value {
    api.get(path).await.unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value}"))
}

fn states(list: &Value) -> BTreeSet<&str> {
    rows(list).iter().filter_map(|object| object["state"].as_str()).collect()
}

#[test]
fn seed_determines_the_plan_of_a_day() {
    let one = plan("5", "60");
    assert_eq!(one, plan("5", "60"));
    assert_ne!(one["digest"], plan("6", "60")["digest"]);
    assert!(rows(&one["payments"]).len() > 60);
    let refused = upesi(&["lab", "day", "--transfers", "49"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(64));
}

#[tokio::test]
async fn small_day_has_everything_that_its_story_tells() {
    let directory = tempfile::tempdir().unwrap();
    let (mut day, summary) = day(directory.path().join("day").to_str().unwrap());
    assert_eq!((&summary["seed"], &summary["plan"]), (&5.into(), &plan("5", "60")["digest"]));
    let api = AdminApi::new(summary["admin"].as_str().unwrap()).unwrap();

    transfers_have_every_end(&api).await;
    money_has_moved_in_every_way(&api).await;
    operators_have_worked(&api).await;

    let console = api.get_bytes("/console").await.unwrap();
    assert!(String::from_utf8_lossy(&console).contains("greenbank"), "it opens without a login");
    assert!(day.end().success());
    let data = summary["data"].as_str().unwrap();
    let audit = upesi(&["audit", data]).output().unwrap();
    assert!(audit.status.success(), "{audit:?}");
}

async fn transfers_have_every_end(api: &AdminApi) {
    let page = read(api, "/transfers?limit=1000").await;
    assert_eq!(page["next"], Value::Null, "one page suffices for a small day");
    let mut ends = BTreeMap::<(&str, &str, &str), u64>::new();
    for transfer in rows(&page["transfers"]) {
        let text = |pointer: &str| transfer.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let end = (text("/payer/name"), text("/internalState"), text("/errorInformation/errorCode"));
        *ends.entry(end).or_default() += 1;
    }
    for end in [
        ("greenbank", "COMMITTED", ""),
        ("greenbank", "RESERVED", ""),
        ("greenbank", "INVALID", "3100"),
        ("farmersacco", "ABORTED_REJECTED", "4001"),
        ("metropay", "ABORTED_REJECTED", "4200"),
        ("bluewallet", "ABORTED_ERROR", "5104"),
        ("bluewallet", "EXPIRED_RESERVED", "3303"),
    ] {
        assert!(ends.contains_key(&end), "{end:?} is not among {ends:?}");
    }
    let currencies: BTreeSet<_> =
        rows(&page["transfers"]).iter().filter_map(|one| one["amount"]["currency"].as_str()).collect();
    assert_eq!(currencies, BTreeSet::from(["KES", "UGX", "USD"]));
    let suspended = read(api, "/participants/farmersacco").await;
    assert!(matches!(suspended["isActive"], Value::Bool(false) | Value::Number(_)), "{suspended}");
    assert_ne!(suspended["isActive"], 1);
}

async fn money_has_moved_in_every_way(api: &AdminApi) {
    // Only FX transfers move the position of forexhouse. It receives KES, and sells UGX.
    let positions = read(api, "/participants/forexhouse/positions").await;
    let position = |currency: &str| {
        let row = rows(&positions).iter().find(|row| row["currency"] == currency);
        row.and_then(|row| row["value"].as_f64()).unwrap_or_else(|| panic!("{positions}"))
    };
    assert!(position("KES") < 0.0 && position("UGX") > 0.0, "{positions}");
    let windows = read(api, "/v2/settlementWindows?fromDateTime=1970-01-01T00:00:00.000Z").await;
    assert!(states(&windows).is_superset(&BTreeSet::from(["OPEN", "SETTLED"])), "{windows}");
    let settlements = read(api, "/v2/settlements?fromDateTime=1970-01-01T00:00:00.000Z").await;
    assert_eq!(states(&settlements), BTreeSet::from(["SETTLED", "PS_TRANSFERS_RECORDED"]));
    let callbacks = read(api, "/callbacks?state=parked&fsp=coopbank").await;
    assert!(!rows(&callbacks["callbacks"]).is_empty(), "{callbacks}");
}

async fn operators_have_worked(api: &AdminApi) {
    let approvals = read(api, "/approvals?limit=1000").await;
    assert_eq!(states(&approvals["approvals"]), BTreeSet::from(["executed", "pending", "rejected"]));
    for approval in rows(&approvals["approvals"]) {
        let (maker, decider) = (&approval["maker"], &approval["decidedBy"]);
        assert!(maker == "deploy" && (decider == "amina" || decider.is_null()), "{approval}");
    }
    let actions = rows(&approvals["approvals"]).iter().filter_map(|one| one["action"].as_str());
    let actions: BTreeSet<_> = actions.collect();
    for action in ["change.set", "funds.in", "funds.out.reserve", "funds.out.commit", "limit.raise"] {
        assert!(actions.contains(action), "{action} is not among {actions:?}");
    }
    let trail = read(api, "/audit?limit=1000").await.to_string();
    for done in ["limit.lower", "participant.disable", "refused"] {
        assert!(trail.contains(done), "{done}: {trail}");
    }
}
