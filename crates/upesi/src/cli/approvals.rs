//! `upesi admin approvals`, `approve`, `reject` and `withdraw`: approvals of changes by a second person.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_process::terminal::note;
use upesi_process::times::{Zone, ZoneArguments};
use upesi_types::text::{Escaped, url_part};

use super::calls::{Calls, ListOptions, instant_cell, instant_text};
use super::hub::HubArguments;
use super::table::{Cell, Column, Table};

/// Arguments of `upesi admin approvals`.
#[derive(Args, Clone, Debug)]
pub struct ApprovalsArguments {
    /// Show this approval in full.
    #[arg(value_name = "APPROVAL")]
    pub id: Option<u64>,
    /// Include approvals that have been decided or have expired.
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub options: ListOptions,
}

/// Digits of a digest in the text output; JSON has all.
const DIGEST_DIGITS: usize = 16;

const COLUMNS: &[Column] = &[
    Column::number("approval"),
    Column::text("state"),
    Column::text("changes"),
    Column::text("by"),
    Column::text("until"),
    Column::text("decide"),
    Column::text("what"),
    Column::text("reason"),
];

/// Lists approvals, or shows one.
pub(super) fn list_approvals(arguments: ApprovalsArguments) -> Outcome {
    let ApprovalsArguments { id, all, options: ListOptions { list, zone, hub } } = arguments;
    let (calls, zone) = (Calls::to(hub)?, zone.chosen());
    if let Some(id) = id {
        let found: Value = calls.get(&format!("/approvals/{id}"))?;
        return write_out(&if list.json { format!("{found:#}\n") } else { shown(&found, &zone) });
    }
    table(&pages(&calls, all)?, &zone).print(&list, "-approval")
}

/// States of approvals that have not ended.
const OPEN: [&str; 3] = ["pending", "applying", "stopped"];
/// An action whose approval holds several changes.
const CHANGE_SET: &str = "change.set";

fn pages(calls: &Calls, all: bool) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    for state in if all { &[""][..] } else { &OPEN[..] } {
        let mut after = Some("0".to_owned());
        while let Some(from) = after {
            let path = format!("/approvals?state={state}&after={}", url_part(&from));
            let mut page: Value = calls.get(&path)?;
            match page["approvals"].take() {
                Value::Array(items) => found.extend(items),
                _ => {
                    return Err(Failure::new(Exit::Failure, format!("{path}: cannot parse the response")));
                }
            }
            after = page["next"].as_str().map(str::to_owned);
        }
    }
    Ok(found)
}

fn text<'a>(value: &'a Value, name: &str) -> Escaped<'a> {
    Escaped(value[name].as_str().unwrap_or_default())
}

/// Number of changes in an approval, and how many of them were made; `None` for a set that has ended.
fn changes(approval: &Value) -> Option<String> {
    let set = &approval["changeSet"];
    match (set["changes"].as_u64(), set["made"].as_u64()) {
        (Some(all), Some(made)) if made > 0 => Some(format!("{made}/{all}")),
        (Some(all), _) => Some(all.to_string()),
        _ => (approval["action"] != CHANGE_SET).then(|| "1".to_owned()),
    }
}

/// The object with the state before and after the change, or the content of a change set.
fn about(approval: &Value) -> String {
    let (object, before, after) =
        (text(approval, "object"), text(approval, "before"), text(approval, "after"));
    match approval["action"] == CHANGE_SET {
        true => format!("{object}: {after}"),
        false => format!("{object}: {before} → {after}"),
    }
}

/// A row per approval. Approvals that the caller may not decide have a minus.
fn table(approvals: &[Value], zone: &Zone) -> Table {
    let mut table = Table::new(COLUMNS);
    for one in approvals {
        let cells = vec![
            one["approvalId"].as_i64().map_or_else(Cell::empty, Cell::number),
            Cell::optional(one["state"].as_str()),
            Cell::optional(changes(one).as_deref()),
            Cell::optional(one["maker"].as_str()),
            instant_cell(one["expiration"].as_str(), zone),
            Cell::optional((one["mayDecide"] == true).then_some("yes")),
            Cell::text(&about(one)),
            Cell::optional(one["reason"].as_str()),
        ];
        table.add(cells, one.to_string());
    }
    table
}

/// Text output of an approval, with the state before and after each change.
fn shown(approval: &Value, zone: &Zone) -> String {
    let mut shown = line(approval, zone);
    let digest = approval["digest"].as_str().unwrap_or_default();
    let digest = digest.get(..DIGEST_DIGITS).unwrap_or(digest);
    let _ = writeln!(shown, "  digest sha256:{}…", Escaped(digest));
    if let (Some(by), Some(at)) = (approval["decidedBy"].as_str(), approval["decidedDate"].as_str()) {
        let _ = writeln!(shown, "  decided by {} at {}", Escaped(by), instant_text(at, zone));
    }
    if let Some(why) = approval["changeSet"]["stopped"].as_str() {
        let _ = writeln!(shown, "  stopped: {}", Escaped(why));
    }
    let made = approval["changeSet"]["made"].as_u64().filter(|made| *made > 0);
    if let Some(made) = made {
        let _ = writeln!(shown, "  {made} changes were made; remaining changes:");
    }
    for change in approval["changeSet"]["diff"].as_array().into_iter().flatten() {
        let number = change["number"].as_u64().unwrap_or_default();
        let (action, about) = (text(change, "action").to_string(), about(change));
        let _ = writeln!(shown, "{number:>5}  {action:<19}  {about}");
        if let Some(why) = change["refused"].as_str() {
            let _ = writeln!(shown, "       would be rejected now: {}", Escaped(why));
        }
    }
    shown
}

fn line(approval: &Value, zone: &Zone) -> String {
    let result = approval["result"].as_str();
    let result = result.map(|result| format!(", {}", Escaped(result))).unwrap_or_default();
    let until = match approval["state"].as_str().is_some_and(|state| OPEN.contains(&state)) {
        true => format!(" until {}", instant_text(approval["expiration"].as_str().unwrap_or_default(), zone)),
        false => String::new(),
    };
    let action = match approval["action"] == CHANGE_SET {
        true => String::new(),
        false => format!("{} ", text(approval, "action")),
    };
    format!(
        "{} {}{until}{result}: {action}{}, by {}: {}\n",
        approval["approvalId"].as_u64().unwrap_or_default(),
        text(approval, "state"),
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
    (zone, hub): (ZoneArguments, HubArguments),
) -> Outcome {
    let (calls, zone) = (Calls::to(hub)?, zone.chosen());
    let body = comment.map_or_else(|| json!({}), |comment| json!({"comment": comment}));
    let mut failures = Vec::new();
    for id in ids {
        match calls.post::<Value>(&format!("/approvals/{id}/{verb}"), &body) {
            Ok(decided) => {
                write_out(&line(&decided, &zone))?;
                failures.extend(incomplete(*id, &decided));
            }
            Err(failure) => failures.push(failure),
        }
    }
    // The command ends with the last one, which is then also printed.
    let last = failures.pop();
    for failure in failures {
        note(format_args!("{}", failure.message));
    }
    last.map_or(Ok(()), Err)
}

/// The failure to report for an approval that was decided but not executed.
fn incomplete(id: u64, decided: &Value) -> Option<Failure> {
    let text = match decided["state"].as_str() {
        Some("failed") => format!("approval {id} was not executed"),
        Some("stopped") => {
            let why = text(&decided["changeSet"], "stopped");
            format!("approval {id} stopped: {why}; approve it again to continue, or reject it")
        }
        Some("applying") => {
            format!("the hub is still applying approval {id}: upesi admin approvals {id} shows the progress")
        }
        _ => return None,
    };
    Some(Failure::new(Exit::Failure, text))
}

#[cfg(test)]
mod tests {
    use upesi_testsupport::hostile_texts::{self, Random};
    use upesi_types::text::is_hidden;

    use super::*;

    fn set() -> Value {
        json!({
            "approvalId": 17, "state": "stopped", "action": CHANGE_SET, "mayDecide": true,
            "object": "change set scheme demo, 34 changes", "before": "none", "after": "34 limit.raise",
            "maker": "deploy", "expiration": "2026-11-22T09:39:53.000Z", "reason": "ticket 7",
            "digest": "0123456789abcdef0123", "changeSet": {
                "name": "scheme demo", "changes": 34, "made": 33, "stopped": "3100 no",
                "diff": [{
                    "number": 34, "action": "limit.raise", "object": "net debit cap of greenbank in KES",
                    "before": "5", "after": "6", "refused": "3100 no",
                }],
            },
        })
    }

    fn single() -> Value {
        json!({
            "approvalId": 18, "state": "executed", "action": "limit.raise", "mayDecide": false,
            "object": "net debit cap of greenbank in KES", "before": "5", "after": "6\u{1b}[2J",
            "maker": "amina", "expiration": "2026-11-22T09:40:00.000Z", "reason": "as agreed",
            "digest": "00", "decidedBy": "brian", "decidedDate": "2026-11-21T10:00:00.000Z",
        })
    }

    /// One row per change set and per single change. Changes that the operator may not decide are marked. Times are in
    /// the local time zone.
    #[test]
    fn table_has_a_row_per_change_set() {
        let zone = Zone::parse("EAT-3").unwrap();
        let expected = "\
APPROVAL  STATE     CHANGES  BY      UNTIL                      DECIDE  WHAT                                                REASON
      17  stopped   33/34    deploy  2026-11-22 12:39:53+03:00  yes     change set scheme demo, 34 changes: 34 limit.raise  ticket 7
      18  executed  1        amina   2026-11-22 12:40:00+03:00  -       net debit cap of greenbank in KES: 5 → 6\\u001b[2J   as agreed
";
        assert_eq!(table(&[set(), single()], &zone).to_text(), expected);
    }

    #[test]
    fn approval_is_shown_with_its_remaining_changes() {
        let zone = Zone::parse("EAT-3").unwrap();
        let expected = "\
17 stopped until 2026-11-22 12:39:53.000+03:00: change set scheme demo, 34 changes: 34 limit.raise, by deploy: ticket 7
  digest sha256:0123456789abcdef…
  stopped: 3100 no
  33 changes were made; remaining changes:
   34  limit.raise          net debit cap of greenbank in KES: 5 → 6
       would be rejected now: 3100 no
";
        assert_eq!(shown(&set(), &zone), expected);
        let expected = "\
18 executed: limit.raise net debit cap of greenbank in KES: 5 → 6\\u001b[2J, by amina: as agreed
  digest sha256:00…
  decided by brian at 2026-11-21 13:00:00.000+03:00
";
        assert_eq!(shown(&single(), &zone), expected);
    }

    /// Every text of an approval and of its changes, as a hostile operator may write it.
    fn hostile(random: &mut Random) -> Value {
        let mut approval = set();
        approval["approvalId"] = 7.into();
        for field in [
            "state",
            "expiration",
            "action",
            "object",
            "before",
            "after",
            "maker",
            "reason",
            "result",
            "digest",
            "decidedBy",
            "decidedDate",
        ] {
            approval[field] = hostile_texts::text(random).into();
        }
        for field in ["name", "stopped"] {
            approval["changeSet"][field] = hostile_texts::text(random).into();
        }
        for field in ["action", "object", "before", "after", "refused"] {
            approval["changeSet"]["diff"][0][field] = hostile_texts::text(random).into();
        }
        approval
    }

    #[test]
    fn hostile_texts_cannot_add_lines_to_an_approval() {
        let zone = Zone::utc();
        for seed in 0..200 {
            let approval = hostile(&mut Random(seed));
            let texts = [
                (line(&approval, &zone), 1),
                (shown(&approval, &zone), 7),
                (table(&[approval.clone(), approval], &zone).to_text(), 3),
            ];
            for (text, lines) in texts {
                assert_eq!(text.matches('\n').count(), lines, "seed {seed}: {text:?}");
                assert!(text.ends_with('\n'), "seed {seed}: {text:?}");
                let is_hostile = |char: char| char != '\n' && is_hidden(char);
                assert!(!text.chars().any(is_hostile), "seed {seed}: {text:?}");
            }
        }
    }

    /// A rejection during the application of a set is reported once. A set that was applied has no failure.
    #[test]
    fn incomplete_approval_is_a_failure() {
        assert!(incomplete(17, &json!({"state": "executed"})).is_none());
        let stopped = incomplete(17, &set()).unwrap();
        let expected = "approval 17 stopped: 3100 no; approve it again to continue, or reject it";
        assert_eq!((stopped.exit, stopped.message.as_str()), (Exit::Failure, expected));
    }
}
