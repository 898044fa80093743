//! `upesi admin approvals`, `approve`, `reject` and `withdraw`: what waits for a second person.

use std::fmt::Write as _;

use serde_json::{Value, json};
use upesi_hub::exit::{Exit, Failure, Outcome, write_out};
use upesi_hub::scheme::admin_api::AdminApi;
use upesi_hub::terminal::note;
use upesi_types::text::{Escaped, url_part};

use super::admin::ApprovalsArguments;
use super::hub::{HubArguments, connect, failure};

/// Digits of a digest in texts; JSON has all.
const DIGEST_DIGITS: usize = 16;

/// Lists approvals, or shows one.
pub(super) fn list_approvals(arguments: ApprovalsArguments) -> Outcome {
    let ApprovalsArguments { id, all, json, hub } = arguments;
    let (api, runtime) = connect(hub)?;
    if let Some(id) = id {
        let found: Value =
            runtime.block_on(api.get(&format!("/approvals/{id}"))).map_err(|error| failure(&error))?;
        return write_out(&if json { format!("{found:#}\n") } else { shown(&found) });
    }
    let found = runtime.block_on(pages(&api, all))?;
    if json {
        return write_out(&format!("{:#}\n", Value::from(found)));
    }
    write_out(&table(&found))
}

/// States of approvals that have not ended.
const OPEN: [&str; 3] = ["pending", "applying", "stopped"];

async fn pages(api: &AdminApi, all: bool) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    for state in if all { &[""][..] } else { &OPEN[..] } {
        let mut after = Some("0".to_owned());
        while let Some(from) = after {
            let path = format!("/approvals?state={state}&after={}", url_part(&from));
            let mut page: Value = api.get(&path).await.map_err(|error| failure(&error))?;
            match page["approvals"].take() {
                Value::Array(items) => found.extend(items),
                _ => {
                    return Err(Failure::new(Exit::Failure, format!("{path}: the answer is not understood")));
                }
            }
            after = page["next"].as_str().map(str::to_owned);
        }
    }
    found.sort_by_key(|approval| approval["approvalId"].as_u64());
    Ok(found)
}

fn text<'a>(value: &'a Value, name: &str) -> Escaped<'a> {
    Escaped(value[name].as_str().unwrap_or_default())
}

/// How many changes an approval is about, and how many of them were made.
fn changes(approval: &Value) -> String {
    let set = &approval["changeSet"];
    match (set["changes"].as_u64(), set["made"].as_u64()) {
        (Some(all), Some(made)) if made > 0 => format!("{made}/{all}"),
        (Some(all), _) => all.to_string(),
        _ => "1".to_owned(),
    }
}

/// The object, with the state before and after; the content of a change set.
fn about(approval: &Value) -> String {
    let (object, before, after) =
        (text(approval, "object"), text(approval, "before"), text(approval, "after"));
    match approval["action"] == "change.set" {
        true => format!("{object}: {after}"),
        false => format!("{object}: {before} → {after}"),
    }
}

/// A row per approval, each column as wide as its longest text.
fn table(approvals: &[Value]) -> String {
    if approvals.is_empty() {
        return String::new();
    }
    let head = ["", "approval", "state", "changes", "by", "until", "what", "reason"].map(str::to_owned);
    let row = |one: &Value| {
        [
            if one["mayDecide"] == true { "" } else { "-" }.to_owned(),
            one["approvalId"].to_string(),
            text(one, "state").to_string(),
            changes(one),
            text(one, "maker").to_string(),
            text(one, "expiration").to_string(),
            about(one),
            text(one, "reason").to_string(),
        ]
    };
    let rows: Vec<_> = std::iter::once(head).chain(approvals.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(width);
    let mut table = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        let _ = writeln!(table, "{}", line.trim_end());
    }
    if approvals.iter().any(|one| one["mayDecide"] != true) {
        table += "- you may not decide this now\n";
    }
    table
}

/// An approval for people, with the state before and after each change.
fn shown(approval: &Value) -> String {
    let mut shown = line(approval);
    let digest = approval["digest"].as_str().unwrap_or_default();
    let digest = digest.get(..DIGEST_DIGITS).unwrap_or(digest);
    let _ = writeln!(shown, "  digest sha256:{}…", Escaped(digest));
    if let (Some(by), Some(at)) = (approval["decidedBy"].as_str(), approval["decidedDate"].as_str()) {
        let _ = writeln!(shown, "  decided by {} at {}", Escaped(by), Escaped(at));
    }
    if let Some(why) = approval["changeSet"]["stopped"].as_str() {
        let _ = writeln!(shown, "  stopped: {}", Escaped(why));
    }
    let made = approval["changeSet"]["made"].as_u64().filter(|made| *made > 0);
    if let Some(made) = made {
        let _ = writeln!(shown, "  {made} changes were made; these are left:");
    }
    for change in approval["changeSet"]["diff"].as_array().into_iter().flatten() {
        let (action, object) = (text(change, "action").to_string(), text(change, "object"));
        let (before, after) = (text(change, "before"), text(change, "after"));
        let number = change["number"].to_string();
        let _ = writeln!(shown, "{number:>5}  {action:<19}  {object}: {before} → {after}");
        if let Some(why) = change["refused"].as_str() {
            let _ = writeln!(shown, "       would be refused now: {}", Escaped(why));
        }
    }
    shown
}

fn line(approval: &Value) -> String {
    let result = approval["result"].as_str();
    let result = result.map(|result| format!(", {}", Escaped(result))).unwrap_or_default();
    format!(
        "{} {}{result} until {} {} {}, by {}: {}\n",
        approval["approvalId"],
        text(approval, "state"),
        text(approval, "expiration"),
        text(approval, "action"),
        about(approval),
        text(approval, "maker"),
        text(approval, "reason")
    )
}

/// Decides about approvals, and prints the outcome of each.
pub(super) fn decide_approvals(
    ids: &[u64],
    verb: &str,
    comment: Option<String>,
    hub: HubArguments,
) -> Outcome {
    let (api, runtime) = connect(hub)?;
    let body = comment.map_or_else(|| json!({}), |comment| json!({"comment": comment})).to_string();
    let mut failures = Vec::new();
    for id in ids {
        let path = format!("/approvals/{id}/{verb}");
        match runtime.block_on(api.post::<Value>(&path, "application/json", body.clone().into())) {
            Ok(decided) => {
                write_out(&line(&decided))?;
                failures.extend(incomplete(*id, &decided));
            }
            Err(error) => failures.push(failure(&error)),
        }
    }
    // The last one is what the command ends with, which is printed, too.
    let last = failures.pop();
    for failure in failures {
        note(format_args!("{}", failure.message));
    }
    last.map_or(Ok(()), Err)
}

/// The failure of an approval that was decided and not executed.
fn incomplete(id: u64, decided: &Value) -> Option<Failure> {
    let text = match decided["state"].as_str() {
        Some("failed") => format!("approval {id} was not executed"),
        Some("stopped") => {
            let why = text(&decided["changeSet"], "stopped");
            format!("approval {id} stopped: {why}; approve it again to continue, or reject it")
        }
        Some("applying") => {
            format!("approval {id} is still applied: upesi admin approvals {id} shows how far")
        }
        _ => return None,
    };
    Some(Failure::new(Exit::Failure, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row per change set and per single change; what the caller may not decide is marked.
    #[test]
    fn the_table_has_a_row_per_change_set() {
        let set = json!({
            "approvalId": 17, "state": "stopped", "action": "change.set", "mayDecide": true,
            "object": "change set scheme demo, 34 changes", "before": "none", "after": "34 limit.raise",
            "maker": "deploy", "expiration": "2026-11-22T09:39:53.000Z", "reason": "ticket 7",
            "changeSet": {"name": "scheme demo", "changes": 34, "made": 3},
        });
        let single = json!({
            "approvalId": 18, "state": "pending", "action": "limit.raise", "mayDecide": false,
            "object": "net debit cap of greenbank in KES", "before": "5", "after": "6\u{1b}[2J",
            "maker": "amina", "expiration": "2026-11-22T09:40:00.000Z", "reason": "as agreed",
        });
        let expected = "   approval  state    changes  by      until                     what                                                reason
   17        stopped  3/34     deploy  2026-11-22T09:39:53.000Z  change set scheme demo, 34 changes: 34 limit.raise  ticket 7
-  18        pending  1        amina   2026-11-22T09:40:00.000Z  net debit cap of greenbank in KES: 5 → 6\\u001b[2J   as agreed
- you may not decide this now
";
        assert_eq!(table(&[set, single]), expected);
        assert_eq!(table(&[]), "");
    }
}
