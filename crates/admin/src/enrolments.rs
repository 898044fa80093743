//! `/enrolments`: a person takes a password and a second factor, by the token that an administrator made.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_engine::Clock as _;
use upesi_ledger::command::{Deed, Entrance, EntranceKind};
use upesi_ledger::{AdminRefusal, Attribution};

use crate::access::{Seed, Token, address_of, base32, step_of, uri};
use crate::body::{Fields, JsonBody};
use crate::call::Call;
use crate::context::AdminContext;
use crate::error::ApiError;
use crate::json::json;
use crate::sessions::{busy, enter, people, read_chosen, read_code, too_often, wrong};

/// As the audit trail has it.
const ACTION: &str = "enrolment.use";

#[derive(Serialize)]
struct BegunView {
    operator: Box<str>,
    /// The secret of the second factor, shown this once: as people type it, and as apps read it from a picture.
    secret: String,
    uri: String,
}

#[derive(Serialize)]
struct EnrolledView {
    operator: Box<str>,
}

fn read_token(fields: &Fields<'_>) -> Result<Token, ApiError> {
    let field = fields.required("token")?;
    Token::received(&field.text()?).ok_or_else(|| field.refuse("must be the token of an enrolment"))
}

fn refused() -> ApiError {
    wrong("There is no such enrolment, or it was used or expired")
}

/// Keeps in the audit trail that somebody came with a token that is none.
async fn failed(context: &AdminContext, operator: &str, why: &str) {
    let by = Attribution { operator: operator.into(), ..context.caller.attribution_of(ACTION, None) };
    context.access.record_refusal(&context.engine, by, "enrolment".to_owned(), why).await;
}

/// Takes a password, and answers with the secret of a second factor. Nothing changes until its first code is shown.
pub(crate) async fn begin(Call(context): Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let (token, password) = (read_token(&fields)?, read_chosen(&fields, "password")?);
    fields.only(&["token", "password"])?;
    let people = people(&context)?;
    let (now, address) = (context.engine.clock().now(), address_of(context.caller.address.as_deref()));
    let digest = token.digest();
    let found = context.ask(move |ledger| {
        let (operator, credential) = ledger.operators().by_enrolment(&digest)?;
        let is_good = operator.is_active && !credential.has_expired(now);
        is_good.then(|| (operator.name.clone(), credential.id))
    });
    let Some((operator, credential)) = found.await? else {
        // No account is concerned: the address alone waits.
        people.begin("", address, now).map_err(too_often)?;
        failed(&context, "nobody", "no such enrolment").await;
        return Err(refused());
    };
    let seed = Seed::random().ok_or_else(ApiError::no_random_bits)?;
    let sealed = people.seal(password, &operator, address, seed.clone()).await.map_err(|_| busy())?;
    let sealed = sealed.ok_or_else(ApiError::no_random_bits)?;
    let view = BegunView { operator: operator.clone(), secret: base32(&seed), uri: uri(&seed, &operator) };
    people.begin_enrolment(&token, (operator, credential), (sealed, seed), now);
    json(StatusCode::CREATED, &view)
}

/// Takes the first code, by which password and second factor become those of the operator.
pub(crate) async fn confirm(Call(context): Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let (token, code) = (read_token(&fields)?, read_code(&fields)?);
    fields.only(&["token", "code"])?;
    let people = people(&context)?;
    let (now, address) = (context.engine.clock().now(), address_of(context.caller.address.as_deref()));
    let Some(begun) = people.enrolment(&token, now) else {
        people.begin("", address, now).map_err(too_often)?;
        failed(&context, "nobody", "no enrolment was begun").await;
        return Err(refused());
    };
    people.begin(&begun.operator, address, now).map_err(too_often)?;
    let Some(code_step) = step_of(&begun.seed, &code, now) else {
        failed(&context, &begun.operator, "wrong code").await;
        return Err(wrong("The code is wrong: compare the clock of the device"));
    };
    let kind = EntranceKind::Enrol { token: token.digest(), sealed: begun.sealed };
    let by = Attribution {
        operator: begun.operator.clone(),
        known_by: format!("enrolment {}", begun.credential).into(),
        ..context.caller.attribution_of(ACTION, None)
    };
    let entrance = Entrance { operator: begun.operator.clone(), code_step, kind };
    match enter(&context, by, Deed::Enter(entrance)).await? {
        Ok(_) => {}
        Err(AdminRefusal::CredentialUnknown | AdminRefusal::OperatorUnknown { .. }) => {
            people.end_enrolment(&token);
            failed(&context, &begun.operator, "the enrolment was taken back or has expired").await;
            return Err(refused());
        }
        Err(refusal) => return Err(refusal.into()),
    }
    people.end_enrolment(&token);
    people.succeeded(&begun.operator, address);
    people.end_sessions(|session| session.operator == begun.operator);
    json(StatusCode::CREATED, &EnrolledView { operator: begun.operator })
}
