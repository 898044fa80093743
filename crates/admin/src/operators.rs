//! `/operators`: the accounts of this API, and `/self`: the caller's own.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_engine::Clock as _;
use upesi_ledger::command::{NewCredential, NewOperator};
use upesi_ledger::{
    AdminCommand, AdminOutcome, AdminRefusal, Credential, ENROLMENT_HOURS_MAX, Ledger, Operator,
    OperatorRole, OperatorRoles, Secret, TOKEN_DAYS_MAX,
};
use upesi_types::FspId;

use super::call::Segments;
use crate::access::{BOOTSTRAP, Permission, Token};
use crate::body::{Fields, JsonBody};
use crate::call::Call;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::{Instant, empty, json, ok};

/// Default lifetime of a token, in days.
const TOKEN_DAYS_DEFAULT: i64 = 90;
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Default lifetime of an enrolment's token, in hours.
const ENROLMENT_HOURS_DEFAULT: i64 = 24;

/// An operator with the credentials, but not their secrets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorView {
    pub name: Box<str>,
    pub roles: Vec<&'static str>,
    pub participant: Option<String>,
    pub is_active: bool,
    pub created_date: Instant,
    pub credentials: Vec<CredentialView>,
}

/// A token, an enrolment or a password.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CredentialView {
    pub id: u32,
    pub kind: &'static str,
    pub created_date: Instant,
    /// End of its validity; passwords do not expire.
    pub expiration: Option<Instant>,
}

impl OperatorView {
    fn of(ledger: &Ledger, operator: &Operator) -> Self {
        let view = |one: &Credential| CredentialView {
            id: one.id,
            kind: one.secret.kind(),
            created_date: Instant(one.created_at),
            expiration: Some(Instant(one.expires_at)),
        };
        let password = operator.person.map(|person| CredentialView {
            id: person.id,
            kind: "password",
            created_date: Instant(person.set_at),
            expiration: None,
        });
        Self {
            name: operator.name.clone(),
            roles: names(operator.roles),
            participant: operator.participant.map(|id| ledger.participant(id).name.to_string()),
            is_active: operator.is_active,
            created_date: Instant(operator.created_at),
            credentials: operator.credentials.iter().map(view).chain(password).collect(),
        }
    }
}

fn names(roles: OperatorRoles) -> Vec<&'static str> {
    roles.iter().map(OperatorRole::name).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SelfView {
    operator: Box<str>,
    known_by: Box<str>,
    participant: Option<String>,
    permissions: Vec<&'static str>,
    /// Whether changes of the caller may need an approval.
    second_person: bool,
}

/// The caller's identity and permissions.
pub(crate) async fn itself(call: Call) -> Result<Response, ApiError> {
    let caller = &call.caller;
    let allowed = Permission::ALL.iter().filter(|permission| caller.may(**permission));
    ok(&SelfView {
        operator: caller.operator.clone(),
        known_by: caller.known_by.clone(),
        participant: caller.participant.map(|name| name.to_string()),
        permissions: allowed.map(|permission| permission.name()).collect(),
        second_person: !call.access.acts_alone(caller),
    })
}

pub(crate) async fn list(call: Call) -> Result<Response, ApiError> {
    ok(&call.ask(operators).await?)
}

/// All operators.
pub fn operators(ledger: &Ledger) -> Vec<OperatorView> {
    ledger.operators().iter().map(|one| OperatorView::of(ledger, one)).collect()
}

pub(crate) async fn get(call: Call, Segments(name): Segments<String>) -> Result<Response, ApiError> {
    show(&call, name, StatusCode::OK).await
}

async fn show(call: &Call, name: String, status: StatusCode) -> Result<Response, ApiError> {
    let wanted = name.clone();
    let view =
        call.ask(move |ledger| ledger.operators().named(&wanted).map(|one| OperatorView::of(ledger, one)));
    json(status, &view.await?.ok_or_else(|| unknown(&name))?)
}

fn unknown(name: &str) -> ApiError {
    AdminRefusal::OperatorUnknown { name: name.into() }.into()
}

fn read_roles(fields: &Fields<'_>) -> Result<Option<OperatorRoles>, ApiError> {
    let Some(field) = fields.optional("roles") else { return Ok(None) };
    let roles = field.array(OperatorRole::ALL.len())?.into_iter();
    let role =
        |item: super::body::Field<'_>| item.one_of(OperatorRole::ALL.iter().copied(), |role| role.name());
    roles.map(role).collect::<Result<OperatorRoles, _>>().map(Some)
}

/// Creates an operator without credentials.
pub(crate) async fn create(call: Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let name = fields.required("name")?.text()?;
    let roles = read_roles(&fields)?.ok_or_else(|| ApiError::malformed("\"roles\" is required"))?;
    let participant = fields.optional("participant").map(|field| field.participant_name()).transpose()?;
    fields.only(&["name", "roles", "participant"])?;
    let wanted = name.clone();
    if call.ask(move |ledger| ledger.operators().named(&wanted).is_some()).await? {
        let taken = format!("Operator '{name}' already exists");
        return Err(ApiError::new(ErrorName::OperatorExists, &taken));
    }
    let new = NewOperator { name: name.as_str().into(), roles, participant, is_active: true };
    call.change(AdminCommand::SetOperator(new)).await?;
    show(&call, name, StatusCode::CREATED).await
}

/// Changes the roles of an operator, or whether it is active.
pub(crate) async fn update(
    call: Call,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let roles = read_roles(&fields)?;
    let is_active = fields.optional("isActive").map(|field| field.flag()).transpose()?;
    fields.only(&["roles", "isActive"])?;
    let wanted = name.clone();
    let known = call.ask(move |ledger| {
        let operator = ledger.operators().named(&wanted)?;
        let participant: Option<FspId> = operator.participant.map(|id| ledger.participant(id).name);
        Some((operator.roles, operator.is_active, participant))
    });
    let (before, was_active, participant) = known.await?.ok_or_else(|| unknown(&name))?;
    let new = NewOperator {
        name: name.as_str().into(),
        roles: roles.unwrap_or(before),
        participant,
        is_active: is_active.unwrap_or(was_active),
    };
    call.change(AdminCommand::SetOperator(new)).await?;
    show(&call, name, StatusCode::OK).await
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TokenView {
    /// Shown only once.
    token: String,
    expiration: Instant,
    /// The approval that activates it, if it needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_id: Option<u64>,
}

/// Creates a token of an operator. Only this answer contains it.
pub(crate) async fn add_token(
    call: Call,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let days = read_life(&body, "days", TOKEN_DAYS_DEFAULT, TOKEN_DAYS_MAX)?;
    let token = Token::random().ok_or_else(ApiError::no_random_bits)?;
    let secret = Secret::Token(token.digest());
    hand_out(&call, name, (token, secret), days * DAY_MS).await
}

/// Creates a token for an enrolment: a user sets a password and a second factor with it, replacing earlier ones.
pub(crate) async fn add_enrolment(
    call: Call,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let hours = read_life(&body, "hours", ENROLMENT_HOURS_DEFAULT, ENROLMENT_HOURS_MAX)?;
    let token = Token::enrolment().ok_or_else(ApiError::no_random_bits)?;
    let secret = Secret::Enrolment(token.digest());
    hand_out(&call, name, (token, secret), hours * HOUR_MS).await
}

/// Lifetime of a requested token.
fn read_life(body: &JsonBody, name: &str, default: i64, max: i64) -> Result<i64, ApiError> {
    let fields = body.fields()?;
    let life = match fields.optional(name) {
        None => default,
        Some(field) => {
            let number = |text: &str| text.parse().ok().filter(|life| (1..=max).contains(life));
            let life = number(&field.decimal()?.to_string());
            life.ok_or_else(|| field.refuse(&format!("must be a whole number from 1 to {max}")))?
        }
    };
    fields.only(&[name])?;
    Ok(life)
}

async fn hand_out(
    call: &Call,
    name: String,
    (token, secret): (Token, Secret),
    life_ms: i64,
) -> Result<Response, ApiError> {
    let expires_at = call.engine.clock().now().plus_ms(life_ms);
    let new = NewCredential { name: name.into(), secret, expires_at };
    let (status, approval_id) = match call.change_or_propose(AdminCommand::AddCredential(new)).await? {
        AdminOutcome::Proposed(id) => (StatusCode::ACCEPTED, Some(id)),
        _ => (StatusCode::CREATED, None),
    };
    if &*call.caller.known_by == BOOTSTRAP {
        call.access.end_bootstrap();
    }
    json(status, &TokenView { token: token.reveal(), expiration: Instant(expires_at), approval_id })
}

pub(crate) async fn remove_credential(
    call: Call,
    Segments((name, id)): Segments<(String, String)>,
) -> Result<Response, ApiError> {
    let id = crate::settlement_windows::number(&id, "id")?;
    call.change(AdminCommand::RemoveCredential { name: name.into(), id }).await?;
    empty(StatusCode::NO_CONTENT)
}
