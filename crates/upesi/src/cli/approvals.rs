//! `upesi admin approvals`, `approve`, `reject` and `withdraw`: what waits for a second person.

use serde_json::{Value, json};
use upesi_hub::exit::{Exit, Failure, Outcome, write_out};
use upesi_hub::scheme::admin_api::AdminApi;

use super::admin::{ApprovalsArguments, HubArguments, connect, failure};

/// Lists approvals, or shows one.
pub(super) fn list(arguments: ApprovalsArguments) -> Outcome {
    let ApprovalsArguments { id, all, json, hub } = arguments;
    let (api, runtime) = connect(hub)?;
    if let Some(id) = id {
        let found: Value =
            runtime.block_on(api.get(&format!("/approvals/{id}"))).map_err(|error| failure(&error))?;
        return write_out(&format!("{found:#}\n"));
    }
    let found = runtime.block_on(pages(&api, all))?;
    if json {
        return write_out(&format!("{:#}\n", Value::from(found)));
    }
    write_out(&found.iter().map(line).collect::<String>())
}

async fn pages(api: &AdminApi, all: bool) -> Result<Vec<Value>, Failure> {
    let state = if all { "" } else { "pending" };
    let mut found = Vec::new();
    let mut after = "0".to_owned();
    loop {
        let path = format!("/approvals?state={state}&after={after}");
        let mut page: Value = api.get(&path).await.map_err(|error| failure(&error))?;
        match page["approvals"].take() {
            Value::Array(items) => found.extend(items),
            _ => return Err(Failure::new(Exit::Failure, format!("{path}: the answer is not understood"))),
        }
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return Ok(found),
        }
    }
}

fn line(approval: &Value) -> String {
    let text = |name: &str| approval[name].as_str().unwrap_or_default();
    let change = format!("{}: {} → {}", text("object"), text("before"), text("after"));
    let result = approval["result"].as_str().map(|result| format!(", {result}")).unwrap_or_default();
    format!(
        "{} {}{result} until {} {} {change}, by {}: {}\n",
        approval["approvalId"],
        text("state"),
        text("expiration"),
        text("action"),
        text("maker"),
        text("reason")
    )
}

/// Decides about some, and prints what came of each.
pub(super) fn decide(ids: &[u64], verb: &str, comment: Option<String>, hub: HubArguments) -> Outcome {
    let (api, runtime) = connect(hub)?;
    let body = comment.map_or_else(|| json!({}), |comment| json!({"comment": comment})).to_string();
    let mut last = None;
    for id in ids {
        let path = format!("/approvals/{id}/{verb}");
        match runtime.block_on(api.post::<Value>(&path, "application/json", body.clone().into())) {
            Ok(decided) => {
                write_out(&line(&decided))?;
                if decided["state"] == "failed" {
                    last = Some(Failure::new(Exit::Failure, format!("approval {id} was not executed")));
                }
            }
            Err(error) => {
                eprintln!("upesi: {error}");
                last = Some(failure(&error));
            }
        }
    }
    last.map_or(Ok(()), Err)
}
