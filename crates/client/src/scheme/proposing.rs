//! A plan as one change set with a single approval.

use std::io::Write;

use serde::Deserialize;
use serde_json::json;
use upesi_http::Method;
use upesi_ledger::CHANGE_SET_CHANGES_MAX;
use upesi_process::exit::{Failure, write_to};
use upesi_types::text::path;

use super::apply::{ApiCall, calls_of};
use super::plan::{Change, Plan};
use crate::admin_api::{AdminApi, AdminError, admin_failure};

/// Maximum size of the calls of one set in bytes: the hub stores them with the state before each, in 512 KiB.
const CALL_BYTES_MAX: usize = 256 * 1024;
/// Maximum length of a set's name, in characters.
const NAME_CHARS_MAX: usize = 64;

/// The answer about the caller.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallerAnswer {
    second_person: bool,
}

/// The answer to a change set.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProposalAnswer {
    approval_id: Option<u64>,
}

/// A plan, or the beginning of one, that needs an approval.
pub(super) struct PendingPlan {
    pub(super) approval: u64,
    /// Number of the plan's changes in it, from the first on.
    pub(super) changes: usize,
}

/// Whether changes of the caller may need an approval. Hubs without change sets do not report this.
pub(crate) async fn has_second_person(api: &AdminApi) -> bool {
    api.get::<CallerAnswer>("/self").await.is_ok_and(|itself| itself.second_person)
}

/// Proposes calls as one change set; `None` if nothing in it needs an approval.
pub(crate) async fn propose_calls(
    api: &AdminApi,
    (name, reason): (&str, &str),
    calls: &[ApiCall],
) -> Result<Option<u64>, AdminError> {
    let name: String = name.chars().take(NAME_CHARS_MAX).collect();
    let calls: Vec<_> = calls.iter().map(ApiCall::to_json).collect();
    let (name, reason) = (json!(name), json!(reason));
    let body = format!(r#"{{"name":{name},"reason":{reason},"changes":[{}]}}"#, calls.join(","));
    let proposed: ProposalAnswer = api.propose("/changeSets", body).await?;
    Ok(proposed.approval_id)
}

/// Proposes a plan. If it is larger than a change set may be, only its beginning is proposed, because later changes may
/// depend on it.
pub(super) async fn propose(
    api: &AdminApi,
    scheme: &str,
    plan: &Plan,
    output: Option<&mut (dyn Write + Send)>,
) -> Result<Option<PendingPlan>, Failure> {
    let (calls, changes) = first_calls(scheme, &plan.changes);
    let (name, reason) = (format!("scheme {scheme}"), format!("upesi scheme apply, scheme {scheme}"));
    let proposed = propose_calls(api, (&name, &reason), &calls).await;
    let proposed = proposed.map_err(|error| admin_failure(&error))?;
    let Some(approval) = proposed else { return Ok(None) };
    if let Some(output) = output {
        for change in &plan.changes[..changes] {
            write_to(output, &format!("… {}\n", change.line()))?;
        }
    }
    Ok(Some(PendingPlan { approval, changes }))
}

/// As many calls as one set may have, and the number of their changes. All endpoints of a participant are one call.
fn first_calls(scheme: &str, changes: &[Change]) -> (Vec<ApiCall>, usize) {
    let (mut calls, mut made, mut bytes) = (Vec::new(), 0, 0);
    while made < changes.len() {
        let (next, count) = next_calls(scheme, &changes[made..]);
        bytes += next.iter().map(|call| call.path.len() + call.body.len()).sum::<usize>();
        let is_full = calls.len() + next.len() > CHANGE_SET_CHANGES_MAX || bytes > CALL_BYTES_MAX;
        if is_full && !calls.is_empty() {
            break;
        }
        calls.extend(next);
        made += count;
    }
    (calls, made)
}

/// The calls of the first change, and the number of their changes.
fn next_calls(scheme: &str, changes: &[Change]) -> (Vec<ApiCall>, usize) {
    let Change::Endpoint { name, .. } = &changes[0] else { return (calls_of(scheme, &changes[0]), 1) };
    let endpoints = changes.iter().map_while(|change| match change {
        Change::Endpoint { name: other, kind, to, .. } if other == name => {
            Some(json!({"type": kind, "value": to}))
        }
        _ => None,
    });
    let endpoints: Vec<_> = endpoints.collect();
    let count = endpoints.len();
    let body = json!({"endpoints": endpoints}).to_string();
    (vec![ApiCall { method: Method::PUT, path: path(&["participants", name, "endpoints"]), body }], count)
}
