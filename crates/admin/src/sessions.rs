//! `/sessions`: login and logout of users by password and second factor. `/self/password`: change of the password.

use std::fmt;
use std::net::IpAddr;

use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;
use upesi_engine::Clock as _;
use upesi_ledger::command::{
    AuditedCommand, Authority, CredentialAction, CredentialActionKind, OperatorAction,
};
use upesi_ledger::{
    AdminOutcome, AdminRefusal, AuditActor, AuditedReply, Change, OPERATOR_NAME_BYTES_MAX, OperatorRoles,
    SealedSecret, UserCredential,
};
use upesi_types::text::has_hidden;

use super::call::Segments;
use crate::access::{
    CredentialKind, IDLE_MS, PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN, Password, Permission, Seed, Session,
    SessionOrigin, Token, UnsealedSecret, UserRegistry, address_of, base32, cookie, device_uri, id_of,
    step_of,
};
use crate::body::{Fields, JsonBody};
use crate::call::{Call, Parameters};
use crate::change::submit;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::{Instant, empty, json, ok};

/// Name of the caller's own session in a path.
const CURRENT: &str = "current";

/// A session of a user.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    pub session_id: Box<str>,
    pub operator: Box<str>,
    pub address: String,
    pub opened_date: Instant,
    pub used_date: Instant,
    /// Time of the last code, or of the login with an identity provider.
    pub code_date: Instant,
    /// Time of the session's end, unless a request extends it before.
    pub expiration: Instant,
    pub is_current: bool,
}

impl SessionView {
    fn of(session: &Session, current: Option<&Session>) -> Self {
        Self {
            session_id: session.id.clone(),
            operator: session.operator.clone(),
            address: session.address.to_string(),
            opened_date: Instant(session.opened_at),
            used_date: Instant(session.used_at),
            code_date: Instant(session.factor_at),
            expiration: Instant(session.ends_at()),
            is_current: current.is_some_and(|current| current.id == session.id),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OpenedView {
    /// Shown only once.
    token: String,
    idle_seconds: i64,
    #[serde(flatten)]
    session: SessionView,
}

/// A user in the ledger.
struct LedgerUser {
    person: UserCredential,
    roles: OperatorRoles,
}

/// A login attempt: name, address, password and code.
struct Attempt {
    operator: String,
    address: IpAddr,
    password: Password,
    code: String,
    /// Action in the audit trail.
    action: &'static str,
}

/// A user whose password and code were right.
struct VerifiedUser {
    known: LedgerUser,
    opened: UnsealedSecret,
    code_step: u64,
}

/// The hub's own users, if there can be any.
pub(crate) fn people(call: &Call) -> Result<&UserRegistry, ApiError> {
    let detail = "This hub has no authentication, because admin.authentication is off";
    call.access.people().ok_or_else(|| ApiError::new(ErrorName::AuthenticationOff, detail))
}

/// A code as typed, with or without a space in the middle.
fn parse_code(text: &str) -> Option<String> {
    let code: String = text.chars().filter(|letter| *letter != ' ').collect();
    let is_code = code.len() == 6 && code.bytes().all(|digit| digit.is_ascii_digit());
    is_code.then_some(code)
}

pub(crate) fn read_code(fields: &Fields<'_>) -> Result<String, ApiError> {
    let field = fields.required("code")?;
    parse_code(&field.secret()?).ok_or_else(|| field.refuse("must have 6 digits"))
}

fn read_shown(fields: &Fields<'_>) -> Result<Password, ApiError> {
    let field = fields.required("password")?;
    let refuse = || field.refuse(&format!("must be {PASSWORD_BYTES_MAX} bytes at most"));
    Password::shown(field.secret()?).ok_or_else(refuse)
}

/// A newly chosen password.
pub(crate) fn read_chosen(fields: &Fields<'_>, name: &str) -> Result<Password, ApiError> {
    let field = fields.required(name)?;
    let refuse = || {
        let (least, most) = (PASSWORD_CHARS_MIN, PASSWORD_BYTES_MAX);
        field.refuse(&format!("must have at least {least} characters and at most {most} bytes"))
    };
    Password::chosen(field.secret()?).ok_or_else(refuse)
}

/// Error 401. It does not reveal which part was wrong.
pub(crate) fn wrong(name: ErrorName, what: &str) -> ApiError {
    ApiError { status: StatusCode::UNAUTHORIZED, ..ApiError::new(name, what) }
}

/// Error after too many attempts.
pub(crate) fn too_often(wait_s: u64) -> ApiError {
    let text = format!("Too many attempts: try again in {wait_s} s");
    ApiError { status: StatusCode::SERVICE_UNAVAILABLE, ..ApiError::new(ErrorName::TooManyLogins, &text) }
}

/// Error while other logins are in progress.
pub(crate) fn busy() -> ApiError {
    ApiError::new(ErrorName::LoginsBusy, "Other logins are in progress: try again")
}

/// Performs an action without a permission, with its entry in the audit trail.
pub(crate) async fn enter(
    call: &Call,
    by: AuditActor,
    action: OperatorAction,
) -> Result<Result<AdminOutcome, AdminRefusal>, ApiError> {
    Ok(match submit(&call.engine, AuditedCommand { by, action, authority: Authority::ALONE }).await? {
        AuditedReply::Made { outcome, .. } => Ok(outcome),
        AuditedReply::Rejected { refusal, .. } => Err(refusal),
    })
}

impl Attempt {
    fn by(&self, call: &Call, known: Option<&LedgerUser>) -> AuditActor {
        let caller = &call.caller;
        let known_by = match (&caller.session, known) {
            (Some(_), _) => caller.known_by.clone(),
            (None, Some(known)) => format!("password {}", known.person.id).into(),
            (None, None) => "nothing".into(),
        };
        let operator = if known.is_some() { self.operator.as_str() } else { "nobody" };
        AuditActor { operator: operator.into(), known_by, ..caller.attribution_of(self.action, None) }
    }

    /// Counts the failure, and records it in the audit trail. An unknown name is left out, because it may be a
    /// password.
    async fn failed(&self, call: &Call, known: Option<&LedgerUser>, why: &str) {
        call.access.count_rejected(CredentialKind::Password);
        let object = match known {
            Some(_) => format!("login of operator {}", self.operator),
            None => "login of an unknown user".to_owned(),
        };
        let by = self.by(call, known);
        let is_proven = call.caller.is_proven();
        call.access.record_refusal(&call.engine, is_proven, by, object, why).await;
    }

    /// Verifies password and code. After too many attempts, neither is checked.
    async fn verify(&self, call: &Call) -> Result<VerifiedUser, ApiError> {
        let people = people(call)?;
        let name = self.operator.clone();
        let known = call.ask(move |ledger| {
            let operator = ledger.operators().named(&name).filter(|operator| operator.is_active)?;
            Some(LedgerUser { person: operator.person?, roles: operator.roles })
        });
        let known = known.await?;
        let now = call.engine.clock().now();
        if let Err(wait_s) = people.begin(&self.operator, self.address, now) {
            self.failed(call, known.as_ref(), "too many attempts").await;
            return Err(too_often(wait_s));
        }
        let sealed = known.as_ref().map(|known| known.person.sealed);
        let opened = people.open(self.password.clone(), &self.operator, self.address, sealed).await;
        let opened = opened.map_err(|_| busy())?;
        let now = call.engine.clock().now();
        let code_step = opened.as_ref().and_then(|opened| step_of(&opened.seed, &self.code, now));
        match (known, opened, code_step) {
            (Some(known), Some(opened), Some(code_step)) => Ok(VerifiedUser { known, opened, code_step }),
            (known, opened, _) => {
                let why = match (&known, opened) {
                    (None, _) => "no such user",
                    (_, None) => "wrong password",
                    (_, Some(_)) => "wrong code",
                };
                self.failed(call, known.as_ref(), why).await;
                Err(wrong(ErrorName::LoginWrong, "Name, password or code is wrong"))
            }
        }
    }

    /// Seals the second factor again with the hub's secret, if it is sealed without.
    async fn sealed_anew(
        &self,
        call: &Call,
        proven: &VerifiedUser,
    ) -> Result<Option<SealedSecret>, ApiError> {
        if !proven.opened.is_weak {
            return Ok(None);
        }
        let (password, seed) = (self.password.clone(), proven.opened.seed.clone());
        let sealed = people(call)?.seal(password, &self.operator, self.address, seed).await;
        sealed.map_err(|_| busy())?.ok_or_else(ApiError::no_random_bits).map(Some)
    }

    /// Marks the code as used, with its entry in the audit trail.
    async fn use_code(
        &self,
        call: &Call,
        proven: &VerifiedUser,
        kind: CredentialActionKind,
    ) -> Result<(), ApiError> {
        let by = self.by(call, Some(&proven.known));
        let operator = self.operator.as_str().into();
        let action =
            OperatorAction::Credential(CredentialAction { operator, code_step: proven.code_step, kind });
        match enter(call, by, action).await? {
            Ok(_) => {
                people(call)?.succeeded(&self.operator, self.address);
                Ok(())
            }
            Err(refusal) => {
                let why = match refusal {
                    AdminRefusal::CodeUsed => "the code was used before",
                    _ => "the operator was changed meanwhile",
                };
                self.failed(call, Some(&proven.known), why).await;
                Err(wrong(ErrorName::LoginWrong, "Name, password or code is wrong"))
            }
        }
    }
}

/// Name, password and code, as a user typed them.
pub struct Login {
    operator: String,
    password: Password,
    code: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

impl Login {
    /// Reads the fields `operator`, `password` and `code` of a form.
    ///
    /// # Errors
    /// A field is missing or malformed. This counts as no attempt.
    pub fn of_form(form: &Parameters) -> Result<Self, ApiError> {
        let refuse = |name: &str, rule: &str| ApiError::malformed(&format!("\"{name}\" {rule}"));
        let operator = form.required("operator")?;
        if has_hidden(operator) || operator.chars().count() > OPERATOR_NAME_BYTES_MAX {
            return Err(refuse("operator", "must be the name of an operator"));
        }
        let password = Password::shown(form.required("password")?.to_owned());
        let too_long = || refuse("password", &format!("must be {PASSWORD_BYTES_MAX} bytes at most"));
        let code = parse_code(form.required("code")?);
        Ok(Self {
            operator: operator.to_owned(),
            password: password.ok_or_else(too_long)?,
            code: code.ok_or_else(|| refuse("code", "must have 6 digits"))?,
        })
    }
}

/// A session that a login has opened.
#[derive(Debug)]
pub struct OpenedSession {
    token: Token,
    session: Session,
}

impl OpenedSession {
    pub(crate) const fn new(token: Token, session: Session) -> Self {
        Self { token, session }
    }

    /// The header `Set-Cookie` that stores the session in a browser.
    ///
    /// # Errors
    /// The token is no valid cookie, which is a fault of the hub.
    pub fn into_cookie(self) -> Result<HeaderValue, ApiError> {
        cookie::set(self.token).ok_or_else(|| ApiError::internal("The session cannot be stored in a cookie"))
    }
}

/// Opens a session. It is always a new one, with a new token.
///
/// # Errors
/// Name, password or code is wrong; there were too many attempts; other logins are in progress; or the hub cannot
/// record the login.
pub async fn log_in(call: &Call, login: Login) -> Result<OpenedSession, ApiError> {
    let Login { operator, password, code } = login;
    let address = address_of(call.caller.address.as_deref());
    let attempt = Attempt { operator, address, password, code, action: "session.open" };
    let proven = attempt.verify(call).await?;
    let token = Token::session().ok_or_else(ApiError::no_random_bits)?;
    let id = id_of(&token);
    let change = Change::new(format!("session {id} of operator {}", attempt.operator), "none", "open");
    let credential = proven.known.person.id;
    let sealed = attempt.sealed_anew(call, &proven).await?;
    attempt.use_code(call, &proven, CredentialActionKind::Session { credential, change, sealed }).await?;
    let now = call.engine.clock().now();
    let credential =
        if sealed.is_some() { credential_of(call, &attempt.operator).await? } else { credential };
    let session = Session {
        id,
        origin: SessionOrigin::Password(credential),
        operator: attempt.operator.into(),
        roles: proven.known.roles,
        address: attempt.address,
        opened_at: now,
        used_at: now,
        factor_at: now,
    };
    people(call)?.open_session(&token, session.clone());
    Ok(OpenedSession { token, session })
}

pub(crate) async fn open(call: Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let login = Login {
        operator: fields.required("operator")?.text_of(1, OPERATOR_NAME_BYTES_MAX)?,
        password: read_shown(&fields)?,
        code: read_code(&fields)?,
    };
    fields.only(&["operator", "password", "code"])?;
    let OpenedSession { token, session } = log_in(&call, login).await?;
    let view = SessionView::of(&session, Some(&session));
    let opened = OpenedView { token: token.reveal(), idle_seconds: IDLE_MS / 1_000, session: view };
    json(StatusCode::CREATED, &opened)
}

fn own(call: &Call) -> Result<Session, ApiError> {
    let detail = "The caller has not logged in at the hub";
    call.caller.session.clone().ok_or_else(|| ApiError::new(ErrorName::SessionMissing, detail))
}

/// The caller's session that a password has opened, with the number of the password.
fn own_by_password(call: &Call) -> Result<(Session, u32), ApiError> {
    let session = call.caller.session.clone();
    let detail = "The caller has not logged in with a password";
    let missing = || ApiError::new(ErrorName::SessionMissing, detail);
    let session = session.ok_or_else(missing)?;
    match session.origin {
        SessionOrigin::Password(credential) => Ok((session, credential)),
        SessionOrigin::Provider(_) => Err(missing()),
    }
}

/// The sessions that have not ended: all of them if the caller may read operators, otherwise its own.
pub(crate) async fn list(call: Call) -> Result<Response, ApiError> {
    ok(&sessions(&call))
}

/// The caller's own sessions, or all if the caller may see the operators.
pub fn sessions(call: &Call) -> Vec<SessionView> {
    let Some(people) = call.access.people() else { return Vec::new() };
    let caller = &call.caller;
    let sees_all = caller.may(Permission::IamRead);
    let sessions = people.sessions(call.engine.clock().now()).into_iter();
    let seen = sessions.filter(|session| sees_all || session.operator == caller.operator);
    seen.map(|session| SessionView::of(&session, caller.session.as_ref())).collect()
}

/// Ends a session: the caller's own, or any if the caller may manage operators.
pub(crate) async fn end(call: Call, Segments(id): Segments<String>) -> Result<Response, ApiError> {
    let id = if id == CURRENT { own(&call)?.id } else { id.into() };
    end_session(&call, &id).await?;
    empty(StatusCode::NO_CONTENT)
}

/// Ends the caller's own session. Returns the header `Set-Cookie` that removes it from the browser.
///
/// # Errors
/// The caller has no session, or the hub cannot record its end.
pub async fn log_out(call: &Call) -> Result<HeaderValue, ApiError> {
    end_session(call, &own(call)?.id).await?;
    Ok(cookie::REMOVED)
}

async fn end_session(call: &Call, id: &str) -> Result<(), ApiError> {
    let people = people(call)?;
    let now = call.engine.clock().now();
    let found = people.sessions(now).into_iter().find(|session| &*session.id == id);
    let is_own = |session: &Session| session.operator == call.caller.operator;
    let found = found.filter(|session| is_own(session) || call.caller.may(Permission::IamUser));
    let unknown = || ApiError::new(ErrorName::SessionNotFound, &format!("You have no session {id}"));
    let found = found.ok_or_else(unknown)?;
    let change = Change::new(format!("session {id} of operator {}", found.operator), "open", "ended");
    let by = call.caller.attribution_of("session.end", None);
    enter(call, by, OperatorAction::External(change)).await?.map_err(ApiError::from)?;
    people.end_sessions(|session| &*session.id == id);
    Ok(())
}

/// A login attempt of a caller with a session.
fn again(
    call: &Call,
    fields: &Fields<'_>,
    names: &[&str],
    action: &'static str,
) -> Result<((Session, u32), Attempt), ApiError> {
    let password = read_shown(fields)?;
    let code = read_code(fields)?;
    fields.only(names)?;
    let (session, credential) = own_by_password(call)?;
    let address = address_of(call.caller.address.as_deref());
    let attempt = Attempt { operator: session.operator.to_string(), address, password, code, action };
    Ok(((session, credential), attempt))
}

/// Verifies password and code again, to allow approvals for some further minutes.
pub(crate) async fn renew(call: Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let names = ["password", "code"];
    let ((session, credential), attempt) = again(&call, &fields, &names, "session.renew")?;
    let proven = attempt.verify(&call).await?;
    let before = session.factor_at.to_string();
    let change = Change::new(format!("last code of session {}", session.id), before, "now");
    let kind = CredentialActionKind::Session { credential, change, sealed: None };
    attempt.use_code(&call, &proven, kind).await?;
    let now = call.engine.clock().now();
    people(&call)?.change_session(&session.id, |session| session.factor_at = now);
    let renewed = Session { factor_at: now, ..session };
    ok(&SessionView::of(&renewed, Some(&renewed)))
}

/// Sets another password for the same second factor. Other sessions of the user end.
pub(crate) async fn set_password(call: Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let chosen = read_chosen(&fields, "newPassword")?;
    let names = ["password", "code", "newPassword"];
    let ((session, credential), attempt) = again(&call, &fields, &names, "self.password")?;
    let proven = attempt.verify(&call).await?;
    let people = people(&call)?;
    let sealed = people.seal(chosen, &attempt.operator, attempt.address, proven.opened.seed.clone()).await;
    let sealed: SealedSecret = sealed.map_err(|_| busy())?.ok_or_else(ApiError::no_random_bits)?;
    let kind = CredentialActionKind::SetPassword { credential, sealed };
    attempt.use_code(&call, &proven, kind).await?;
    follow(&call, &session).await?;
    empty(StatusCode::NO_CONTENT)
}

/// Binds the caller's session to the new password; all others of the user end.
async fn follow(call: &Call, session: &Session) -> Result<(), ApiError> {
    let credential = credential_of(call, &session.operator).await?;
    let people = people(call)?;
    people.change_session(&session.id, |session| session.origin = SessionOrigin::Password(credential));
    people.end_sessions(|other| other.operator == session.operator && other.id != session.id);
    Ok(())
}

/// Number of a user's password; 0, which is never assigned, if it was removed meanwhile.
async fn credential_of(call: &Call, operator: &str) -> Result<u32, ApiError> {
    let name = operator.to_owned();
    let found = call.ask(move |ledger| ledger.operators().named(&name)?.person.map(|person| person.id));
    Ok(found.await?.unwrap_or_default())
}

// `/enrolments`: a user sets a password and a second factor, with the token that an administrator created.

/// Action in the audit trail.
const ENROLMENT: &str = "enrolment.use";

#[derive(Serialize)]
struct BegunView {
    operator: Box<str>,
    /// The secret of the second factor, shown only once: for typing, and for a QR code.
    secret: String,
    uri: String,
}

#[derive(Serialize)]
struct EnrolledView {
    operator: Box<str>,
}

fn read_token(fields: &Fields<'_>) -> Result<Token, ApiError> {
    let field = fields.required("token")?;
    Token::received(&field.secret()?).ok_or_else(|| field.refuse("must be the token of an enrolment"))
}

fn enrolment_refused() -> ApiError {
    wrong(ErrorName::EnrolmentInvalid, "This enrolment does not exist, or was used, or has expired")
}

/// Records the use of an invalid token in the audit trail.
async fn enrolment_failed(call: &Call, operator: &str, why: &str) {
    let by = AuditActor { operator: operator.into(), ..call.caller.attribution_of(ENROLMENT, None) };
    let is_proven = call.caller.is_proven();
    call.access.record_refusal(&call.engine, is_proven, by, "enrolment".to_owned(), why).await;
}

/// Accepts a password, and returns the secret of a second factor. Nothing changes until its first code is shown.
pub(crate) async fn begin_enrolment(call: Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let (token, password) = (read_token(&fields)?, read_chosen(&fields, "password")?);
    fields.only(&["token", "password"])?;
    let people = people(&call)?;
    let (now, address) = (call.engine.clock().now(), address_of(call.caller.address.as_deref()));
    let digest = token.digest();
    let found = call.ask(move |ledger| {
        let (operator, credential) = ledger.operators().by_enrolment(&digest)?;
        let is_good = operator.is_active && !credential.has_expired(now);
        is_good.then(|| (operator.name.clone(), credential.id))
    });
    let Some((operator, credential)) = found.await? else {
        // The attempt has no account yet, so only the address is delayed.
        people.begin("", address, now).map_err(too_often)?;
        enrolment_failed(&call, "nobody", "no such enrolment").await;
        return Err(enrolment_refused());
    };
    let seed = Seed::random().ok_or_else(ApiError::no_random_bits)?;
    let sealed = people.seal(password, &operator, address, seed.clone()).await.map_err(|_| busy())?;
    let sealed = sealed.ok_or_else(ApiError::no_random_bits)?;
    let view =
        BegunView { operator: operator.clone(), secret: base32(&seed), uri: device_uri(&seed, &operator) };
    people.begin_enrolment(&token, (operator, credential), (sealed, seed), now);
    json(StatusCode::CREATED, &view)
}

/// Accepts the first code. The operator then has this password and second factor.
pub(crate) async fn confirm_enrolment(call: Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let (token, code) = (read_token(&fields)?, read_code(&fields)?);
    fields.only(&["token", "code"])?;
    let people = people(&call)?;
    let (now, address) = (call.engine.clock().now(), address_of(call.caller.address.as_deref()));
    let Some(begun) = people.enrolment(&token, now) else {
        people.begin("", address, now).map_err(too_often)?;
        enrolment_failed(&call, "nobody", "no enrolment was begun").await;
        return Err(enrolment_refused());
    };
    people.begin(&begun.operator, address, now).map_err(too_often)?;
    let Some(code_step) = step_of(&begun.seed, &code, now) else {
        enrolment_failed(&call, &begun.operator, "wrong code").await;
        let detail = "The code is wrong: check the clock of the device";
        return Err(wrong(ErrorName::EnrolmentCodeWrong, detail));
    };
    let kind = CredentialActionKind::Enrol { token: token.digest(), sealed: begun.sealed };
    let by = AuditActor {
        operator: begun.operator.clone(),
        known_by: format!("enrolment {}", begun.credential).into(),
        ..call.caller.attribution_of(ENROLMENT, None)
    };
    let entrance = CredentialAction { operator: begun.operator.clone(), code_step, kind };
    match enter(&call, by, OperatorAction::Credential(entrance)).await? {
        Ok(_) => {}
        Err(AdminRefusal::CredentialUnknown | AdminRefusal::OperatorUnknown { .. }) => {
            people.end_enrolment(&token);
            enrolment_failed(&call, &begun.operator, "the enrolment was removed or has expired").await;
            return Err(enrolment_refused());
        }
        Err(refusal) => return Err(refusal.into()),
    }
    people.end_enrolment(&token);
    people.succeeded(&begun.operator, address);
    people.end_sessions(|session| session.operator == begun.operator);
    json(StatusCode::CREATED, &EnrolledView { operator: begun.operator })
}
