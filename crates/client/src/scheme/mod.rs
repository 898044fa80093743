//! `upesi scheme apply`: brings a hub to the state in a file, through the admin API of any hub.

pub(crate) mod apply;
mod beside;
mod fee_rule;
pub mod file;
pub mod ids;
mod mistakes;
mod plan;
pub(crate) mod proposing;
pub mod reading;
mod section;
pub(crate) mod state;
#[cfg(test)]
mod tests;

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use upesi_http::ClientTls;
use upesi_keys::read_limited_text;
use upesi_process::exit::{Exit, Failure, Outcome, write_to};

use crate::admin_api::{AdminApi, AdminError, AdminToken, admin_exit, admin_failure};
use crate::await_hub::await_admin;
use apply::ApplyError;
use file::Scheme;
use plan::{Change, Plan};
use state::HubState;

/// Options of applying a scheme.
#[derive(Clone, Debug)]
pub struct ApplyOptions {
    pub file: PathBuf,
    /// Base URL of the hub's admin API.
    pub admin_url: String,
    /// TLS for an `https://` URL.
    pub admin_tls: Option<ClientTls>,
    /// The operator's token, if the admin port requires one.
    pub admin_token: Option<AdminToken>,
    /// Time to wait for a hub that does not answer yet.
    pub wait: Duration,
    /// Only show the changes.
    pub plan_only: bool,
    /// Print one JSON object instead of lines.
    pub json: bool,
}

/// Reads a scheme file.
///
/// # Errors
/// 66 if it cannot be read, 65 with every mistake in it.
pub fn read(path: &std::path::Path) -> Result<Scheme, Failure> {
    let shown = path.display().to_string();
    let text = read_limited_text(path, reading::FILE_BYTES_MAX).map_err(|error| {
        let exit = if error.kind() == ErrorKind::FileTooLarge { Exit::Data } else { Exit::NoInput };
        Failure::new(exit, format!("{shown} cannot be read: {error}"))
    })?;
    let directory = path.parent().unwrap_or(std::path::Path::new(""));
    reading::parse_in(directory, &shown, &text)
        .map_err(|mistakes| Failure::new(Exit::Data, mistakes.join("\n")))
}

/// Applies a scheme file. Prints changes as they are made.
///
/// # Errors
/// See [`read`]; 69 if the hub does not answer, 1 if it rejects a change or something cannot be changed.
pub async fn run(options: &ApplyOptions, output: &mut (dyn Write + Send)) -> Outcome {
    apply(&read(&options.file)?, options, output).await
}

/// Applies a scheme from any source; ignores `options.file`.
///
/// # Errors
/// 69 if the hub does not answer, 1 if it rejects a change or something cannot be changed.
pub async fn apply(scheme: &Scheme, options: &ApplyOptions, output: &mut (dyn Write + Send)) -> Outcome {
    let tls = options.admin_tls.clone();
    let api = AdminApi::with_tls(&options.admin_url, tls).map_err(|error| admin_failure(&error))?;
    let api = api.with_token(options.admin_token.clone());
    let api = api.with_reason(&format!("upesi scheme apply, scheme {}", scheme.name));
    await_admin(&options.admin_url, options.admin_tls.as_ref(), options.wait).await?;
    let state = HubState::read(&api, scheme).await.map_err(|error| admin_failure(&error))?;
    let plan = plan::plan(scheme, &state);
    if !plan.conflicts.is_empty() {
        let conflicts = plan.conflicts.join("\n");
        return Err(Failure::new(Exit::Failure, format!("nothing was changed\n{conflicts}")));
    }
    if !options.plan_only && !plan.changes.is_empty() && proposing::has_second_person(&api).await {
        let shown: Option<&mut (dyn Write + Send)> = if options.json { None } else { Some(&mut *output) };
        if let Some(proposed) = proposing::propose(&api, &scheme.name, &plan, shown).await? {
            return waits_as(&plan, &proposed, options, output);
        }
    }
    let PlanProgress { made, failed } = make_all(&api, scheme, &plan, options, output).await?;
    if options.json {
        let waiting = failed.as_ref().and_then(|(_, error)| error.approval());
        write_to(output, &format!("{:#}\n", summary(&plan, made, waiting, options.plan_only)))?;
    } else if failed.is_none() {
        for note in &plan.notes {
            write_to(output, &format!("? {note}\n"))?;
        }
        write_to(output, &format!("= unchanged {}\n", plan.unchanged))?;
    }
    let Some((change, error)) = failed else { return Ok(()) };
    let (line, left) = (change.line(), plan.changes.len() - made);
    Err(match &error {
        ApplyError::Admin(AdminError::Waiting { approval, .. }) => Failure::new(
            Exit::Temporary,
            format!(
                "{made} changes were made, {left} were not; this one needs a second person: {line}\nhave it approved \
                 (upesi admin approve {approval}), then apply the file again"
            ),
        ),
        error => Failure::new(
            if let ApplyError::Admin(error) = error { admin_exit(error) } else { Exit::Failure },
            format!("{made} changes were made, {left} were not; this one failed: {line}\n{error}"),
        ),
    })
}

/// The result for a plan that needs an approval.
fn waits_as(
    plan: &Plan,
    proposed: &proposing::PendingPlan,
    options: &ApplyOptions,
    output: &mut (dyn Write + Send),
) -> Outcome {
    let proposing::PendingPlan { approval, changes } = proposed;
    if options.json {
        write_to(output, &format!("{:#}\n", summary(plan, 0, Some(*approval), false)))?;
    } else {
        for note in &plan.notes {
            write_to(output, &format!("? {note}\n"))?;
        }
        write_to(output, &format!("= unchanged {}\n", plan.unchanged))?;
    }
    let later = plan.changes.len() - changes;
    let more = match later {
        0 => String::new(),
        _ => format!("; apply the file again after that to propose {later} more"),
    };
    let text = format!(
        "{changes} changes need a second person as one approval: upesi admin approve {approval} makes them{more}"
    );
    Err(Failure::new(Exit::Temporary, text))
}

/// Progress of a plan.
struct PlanProgress<'a> {
    made: usize,
    failed: Option<(&'a Change, ApplyError)>,
}

/// Makes the changes in order, up to the first one that is rejected or needs an approval, because later ones may depend
/// on it.
async fn make_all<'a>(
    api: &AdminApi,
    scheme: &Scheme,
    plan: &'a Plan,
    options: &ApplyOptions,
    output: &mut (dyn Write + Send),
) -> Result<PlanProgress<'a>, Failure> {
    let mut made = 0;
    for change in &plan.changes {
        if !options.plan_only
            && let Err(error) = apply::make(api, &scheme.name, change).await
        {
            return Ok(PlanProgress { made, failed: Some((change, error)) });
        }
        made += 1;
        if !options.json {
            write_to(output, &format!("{}\n", change.line()))?;
        }
    }
    Ok(PlanProgress { made, failed: None })
}

fn summary(plan: &Plan, made: usize, waiting: Option<u64>, plan_only: bool) -> Value {
    let changes: Vec<Value> = plan.changes.iter().map(Change::to_json).collect();
    json!({
        "planOnly": plan_only,
        "changes": changes,
        "made": if plan_only { 0 } else { made },
        "waiting": Vec::from_iter(waiting),
        "unchanged": plan.unchanged,
        "notes": plan.notes,
    })
}
