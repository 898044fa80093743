//! `/changeSets`: changes that are proposed, approved and applied together.
//!
//! The changes of a set are requests of this API, in order. Each is passed to the handler of its own route, which
//! leaves its command in a [`Collector`] instead of submitting it. So a change follows the same rules and needs the
//! same permission, alone and in a set.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Uri};
use axum::response::Response;
use serde::Serialize;
use tokio::time::sleep;
use tower_service::Service as _;
use upesi_engine::{EngineHandle, Payload, SubmitError};
use upesi_ledger::command::{ApplyNext, AuditedCommand, Authority, OperatorAction};
use upesi_ledger::{
    AdminCommand, AdminOutcome, AdminRefusal, AuditActor, CHANGE_SET_CHANGES_MAX, ChangeSet, Command,
    ProposalState, Reply, SetChange,
};

use crate::access::Caller;
use crate::body::{Field, JsonBody};
use crate::call::Call;
use crate::collector::Collector;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::ok;
use crate::rejection;

/// Maximum length of a set's name and of its reason, in characters.
const NAME_CHARS_MAX: usize = 64;
const REASON_CHARS_MAX: usize = 256;
/// Maximum length of a change's path, with its query.
const PATH_CHARS_MAX: usize = 1_024;
/// Delay before a change is retried while the hub accepts no commands.
const RETRY: Duration = Duration::from_millis(200);

/// Allowed beginnings of paths of changes in a set: they change the ledger.
const ROOTS: [&str; 6] =
    ["/participants", "/blocks", "/settlementModels", "/feeRules", "/ledgerAccountTypes", "/v2"];
const METHODS: [Method; 3] = [Method::POST, Method::PUT, Method::DELETE];

/// All operations, for the changes of a set.
#[derive(Clone, Debug)]
pub(crate) struct Operations(pub(crate) Router);

/// The answer if no approval is pending.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NothingWaits {
    approval_id: Option<u64>,
}

/// Proposes a set. If no change in it needs an approval, nothing is proposed or made.
pub(crate) async fn propose(
    mut call: Call,
    Extension(operations): Extension<Operations>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let name = fields.required("name")?.text_of(1, NAME_CHARS_MAX)?;
    let reason = fields.optional("reason").map(|field| field.text_of(1, REASON_CHARS_MAX)).transpose()?;
    let list = fields.required("changes")?;
    fields.only(&["name", "reason", "changes"])?;
    let asked = list.array(CHANGE_SET_CHANGES_MAX)?;
    if asked.is_empty() {
        return Err(list.refuse("must contain at least 1 items"));
    }
    let mut changes = Vec::with_capacity(asked.len());
    for (at, change) in asked.iter().enumerate() {
        let command = read_change(&call, &operations, change, at + 1).await?;
        changes.push(SetChange::new(command));
    }
    if let Some(reason) = reason {
        call.caller = Arc::new(Caller { reason: Some(reason.into()), ..(*call.caller).clone() });
    }
    let set = AdminCommand::ChangeSet(ChangeSet { name: name.into(), changes });
    let (operator, wanted) = (call.caller.operator.clone(), set.clone());
    let needs_second = call.ask(move |ledger| ledger.needs_second(&operator, &wanted)).await?;
    if needs_second && !call.access.acts_alone(&call.caller) {
        // A proposed set returns the error for pending approvals.
        call.change(set).await?;
    }
    ok(&NothingWaits { approval_id: None })
}

/// Reads a change of a set through its own operation.
async fn read_change(
    call: &Call,
    operations: &Operations,
    change: &Field<'_>,
    number: usize,
) -> Result<AdminCommand, ApiError> {
    let fields = change.object()?;
    let method = fields.required("method")?.one_of(METHODS.iter(), |method| method.as_str())?;
    let path_field = fields.required("path")?;
    let path = path_field.text_of(1, PATH_CHARS_MAX)?;
    let uri: Uri = path.parse().map_err(|_| path_field.refuse("must be the path of an operation"))?;
    let is_of_set = |root: &&str| {
        uri.path().strip_prefix(*root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if uri.authority().is_some() || !ROOTS.iter().any(is_of_set) {
        return Err(path_field.refuse(&format!("must begin with one of [{}]", ROOTS.join(", "))));
    }
    let body = fields.optional("body").map(|field| field.raw().to_owned()).unwrap_or_default();
    fields.only(&["method", "path", "body"])?;
    let collector = Collector::default();
    let caller = Caller { collector: Some(collector.clone()), ..(*call.caller).clone() };
    let mut request = Request::new(Body::from(body));
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri;
    request.headers_mut().insert(CONTENT_TYPE, axum::http::HeaderValue::from_static("application/json"));
    request.extensions_mut().insert(Arc::new(caller));
    // A router is always ready and never fails.
    let Ok(response) = operations.0.clone().call(request).await;
    match collector.take() {
        Some(command) => Ok(command),
        None => Err(refused(&response, number)),
    }
}

/// The error of an operation, with the number of the change.
fn refused(response: &Response, number: usize) -> ApiError {
    let error = response.extensions().get::<ApiError>().filter(|error| error.waiting.is_none());
    let Some(error) = error else {
        let detail = format!("Change {number}: it cannot be part of a change set");
        return ApiError::new(ErrorName::ChangeSetKind, &detail);
    };
    let detail = error.name.code().detail_of(&error.description);
    ApiError { status: error.status, ..ApiError::new(error.name, &format!("Change {number}: {detail}")) }
}

/// The text of a rejection, as a proposal stores it.
pub(crate) fn words(refusal: &AdminRefusal) -> String {
    rejection::describe(refusal)
}

/// Applies an approved set, change by change, until it ends or stops. Several callers may apply a set concurrently. If
/// the hub stops before the set ends, [`continue_change_sets`] continues.
pub(crate) async fn apply(engine: &EngineHandle, id: u64) {
    loop {
        // The entry names the operators who proposed and approved the set.
        let by = AuditActor {
            operator: "hub".into(),
            known_by: "nothing".into(),
            address: None,
            on_behalf_of: None,
            action: "change.set".into(),
            reason: None,
        };
        let act = AuditedCommand {
            by,
            action: OperatorAction::ApplyNext(ApplyNext { id, words }),
            authority: Authority::ALONE,
        };
        let reply = engine.submit(Command::Audited(Box::new(act)), Payload::default()).await;
        match reply.map(Reply::into_outcome) {
            Ok(Some(Ok(AdminOutcome::SetStepped(ProposalState::Applying, _)))) => {}
            Ok(Some(Ok(AdminOutcome::SetStepped(state, _)))) => {
                tracing::info!(approval = id, state = state.as_str(), "a change set was applied");
                return;
            }
            // The set has ended, or stopped.
            Ok(_) => return,
            Err(SubmitError::Busy | SubmitError::Full | SubmitError::HeldUp) => sleep(RETRY).await,
            Err(error) => {
                tracing::warn!(approval = id, %error, "a change set has stopped; approve it again to continue");
                return;
            }
        }
    }
}

/// Continues the sets that were approved before the hub stopped.
pub async fn continue_change_sets(engine: EngineHandle) {
    let Ok(ids) = engine.read(|ledger| ledger.approvals().applying().collect::<Vec<_>>()).await else {
        return;
    };
    for id in ids {
        apply(&engine, id).await;
    }
}
