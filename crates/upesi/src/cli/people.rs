//! `upesi admin enrol`, `login`, `logout`, `sessions` and `password`: logins of users with a password.

use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::path::PathBuf;

use clap::Args;
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use serde::Deserialize;
use serde_json::{Value, json};
use upesi_admin::replace_private;
use upesi_client::admin_api::AdminError;
use upesi_http::Method;
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_process::terminal::note;
use upesi_types::text::path;

use super::admin::{hand_out, is_open, warn_of_open_hub};
use super::calls::{Calls, ListOptions, instant_cell};
use super::hub::{HubArguments, connect, failure, read_token, runtime};
use super::table::{Cell, Column, Table};

const JSON: &str = "application/json";
/// Number of attempts to type a code at a terminal.
const CODES_TRIED_MAX: u32 = 3;
/// Maximum length of a line of stdin, in bytes.
const LINE_BYTES_MAX: u64 = 4_096;

/// Arguments of `upesi admin invite`.
#[derive(Args, Clone, Debug)]
pub struct InviteArguments {
    /// Name of the operator.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Validity of the enrolment token in hours: 1 to 72.
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    pub hours: u32,
    /// Write the token to this file instead of printing it. The file must not exist.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Reason, for the second person who approves the change.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi admin enrol`.
#[derive(Args, Clone, Debug)]
pub struct EnrolArguments {
    /// File with the enrolment token.
    #[arg(long, value_name = "FILE")]
    pub enrolment: PathBuf,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi admin login`.
#[derive(Args, Clone, Debug)]
pub struct LoginArguments {
    /// Name of the operator.
    #[arg(value_name = "NAME", required_unless_present = "renew")]
    pub name: Option<String>,
    /// Enter password and code again in the session of the token file, to approve for another five minutes.
    #[arg(long, conflicts_with = "name")]
    pub renew: bool,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi admin sessions`.
#[derive(Args, Clone, Debug)]
pub struct SessionsArguments {
    /// End this session.
    #[arg(long, value_name = "SESSION")]
    pub end: Option<String>,
    #[command(flatten)]
    pub options: ListOptions,
}

/// Reads a secret: hidden input at the terminal, or the next line of stdin.
fn ask_hidden(what: &str) -> Result<String, Failure> {
    if !io::stdin().is_terminal() {
        return next_line(what);
    }
    let answer = rpassword::prompt_password(format!("{what}: "));
    answer.map_err(|error| Failure::new(Exit::InputOutput, format!("the terminal: {error}")))
}

fn ask_code() -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        eprint!("Code: ");
    }
    next_line("the code")
}

fn next_line(what: &str) -> Result<String, Failure> {
    let mut line = String::new();
    // The rest of a longer line stays in the buffer of stdin.
    match io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line) {
        Ok(0) => Err(Failure::new(Exit::NoInput, format!("stdin ended before {what}"))),
        Ok(_) => Ok(line.trim_end_matches(['\r', '\n']).to_owned()),
        Err(error) => Err(Failure::new(Exit::InputOutput, format!("stdin: {error}"))),
    }
}

/// Reads a new password. At a terminal, the user enters it twice.
fn ask_new_password() -> Result<String, Failure> {
    let chosen = ask_hidden("New password (12 characters or more)")?;
    if io::stdin().is_terminal() && ask_hidden("Repeat the password")? != chosen {
        return Err(Failure::new(Exit::Usage, "the two passwords differ"));
    }
    Ok(chosen)
}

fn text<'a>(answer: &'a Value, name: &str) -> Result<&'a str, Failure> {
    let missing = || Failure::new(Exit::Failure, format!("the hub's response has no {name}"));
    answer[name].as_str().ok_or_else(missing)
}

/// Creates an enrolment token for an operator. If there is a body for the operator, creates the operator first.
pub(super) fn invite(arguments: InviteArguments, operator: Option<&Value>) -> Outcome {
    if let Some(file) = arguments.out.as_deref().filter(|file| file.exists()) {
        return Err(Failure::new(Exit::CannotCreate, format!("{} already exists", file.display())));
    }
    let out = arguments.out.clone();
    let made = make_invitation(arguments, operator)?;
    hand_out(text(&made, "token")?, out.as_deref())
}

/// Creates an operator for the user at this terminal, and enrols the user immediately.
pub(super) fn create_here(arguments: InviteArguments, operator: &Value) -> Outcome {
    let hub = arguments.hub.clone();
    let made = make_invitation(arguments, Some(operator))?;
    let token = text(&made, "token")?;
    match made["approvalId"].as_u64() {
        Some(_) => hand_out(token, None),
        None => enrol_by(token, hub),
    }
}

fn make_invitation(arguments: InviteArguments, operator: Option<&Value>) -> Result<Value, Failure> {
    let InviteArguments { name, hours, reason, hub, .. } = arguments;
    let (api, runtime) = connect(hub)?;
    let api = api.with_reason(&reason.unwrap_or_else(|| format!("operator {name} by upesi admin")));
    let is_open = runtime.block_on(is_open(&api));
    let made: Result<Value, AdminError> = runtime.block_on(async {
        if let Some(body) = operator {
            api.post::<Value>("/operators", JSON, body.to_string().into()).await?;
        }
        let hours = json!({"hours": hours}).to_string();
        api.propose(&path(&["operators", &name, "enrolments"]), hours).await
    });
    let made = made.map_err(|error| failure(&error))?;
    if let Some(approval) = made["approvalId"].as_u64() {
        note(format_args!(
            "the token becomes valid once a second person has run `upesi admin approve {approval}`"
        ));
    }
    if is_open {
        warn_of_open_hub();
    }
    Ok(made)
}

/// Sets a password and a second factor.
pub(super) fn enrol(arguments: EnrolArguments) -> Outcome {
    let EnrolArguments { enrolment, hub } = arguments;
    enrol_by(read_token(&enrolment)?.trim(), hub)
}

fn enrol_by(token: &str, hub: HubArguments) -> Outcome {
    let (api, runtime) = (hub.resolve()?.api_without_token()?, runtime()?);
    let password = ask_new_password()?;
    let body = json!({"token": token, "password": password}).to_string();
    let begun: Value =
        runtime.block_on(api.post("/enrolments", JSON, body.into())).map_err(|error| failure(&error))?;
    let uri = text(&begun, "uri")?;
    write_out(&format!("{uri}\n"))?;
    if let Some(drawn) = qr_code(uri).filter(|_| io::stderr().is_terminal()) {
        eprint!("{drawn}");
        note("scan this with an authenticator app");
    }
    note(format_args!("enter {} in an authenticator app, then type its code", text(&begun, "secret")?));
    for tried in 1.. {
        let body = json!({"token": token, "code": ask_code()?}).to_string();
        match runtime.block_on(api.post::<Value>("/enrolments/confirm", JSON, body.into())) {
            Ok(enrolled) => {
                note(format_args!("{} can log in now: upesi admin login", text(&enrolled, "operator")?));
                break;
            }
            Err(error) if tried < CODES_TRIED_MAX && io::stdin().is_terminal() => {
                note(format_args!("{error}"))
            }
            Err(error) => return Err(failure(&error)),
        }
    }
    Ok(())
}

/// A text as a QR code. Each character has two modules, one above the other, in black on white regardless of the
/// terminal's colours. `None` if the text is too long.
fn qr_code(text: &str) -> Option<String> {
    const BLACK_ON_WHITE: &str = "\u{1b}[30;107m";
    const USUAL: &str = "\u{1b}[0m";
    let drawn = QrCode::new(text).ok()?.render::<Dense1x2>().build();
    Some(drawn.lines().map(|line| format!("{BLACK_ON_WHITE}{line}{USUAL}\n")).collect())
}

/// Opens a session and writes its token to the token file.
pub(super) fn login(arguments: LoginArguments) -> Outcome {
    let LoginArguments { name, hub, .. } = arguments;
    let Some(name) = name else { return renew(hub) };
    let missing = "name the file for the session's token: --token-file FILE, or UPESI_ADMIN_TOKEN_FILE";
    let hub = hub.resolve()?;
    let file = hub.session_file().ok_or_else(|| Failure::new(Exit::Usage, missing))?;
    let (api, runtime) = (hub.api_without_token()?, runtime()?);
    let (password, code) = (ask_hidden("Password")?, ask_code()?);
    let body = json!({"operator": name, "password": password, "code": code}).to_string();
    let opened: Value =
        runtime.block_on(api.post("/sessions", JSON, body.into())).map_err(|error| failure(&error))?;
    hub.prepare_session_file()?;
    let refuse = |error| Failure::new(Exit::CannotCreate, format!("{}: {error}", file.display()));
    replace_private(file, &format!("{}\n", text(&opened, "token")?)).map_err(refuse)?;
    let (id, minutes) = (text(&opened, "sessionId")?, opened["idleSeconds"].as_u64().unwrap_or(0) / 60);
    note(format_args!("session {id} of {name}: it ends after {minutes} minutes without an API call"));
    Ok(())
}

fn renew(hub: HubArguments) -> Outcome {
    let (api, runtime) = connect(hub)?;
    let (password, code) = (ask_hidden("Password")?, ask_code()?);
    let body = json!({"password": password, "code": code}).to_string();
    let renewed: Value = runtime
        .block_on(api.post("/sessions/current/code", JSON, body.into()))
        .map_err(|error| failure(&error))?;
    note(format_args!("session {} can approve for five minutes", text(&renewed, "sessionId")?));
    Ok(())
}

/// Ends the session of the token file, and removes the file.
pub(super) fn logout(hub: HubArguments) -> Outcome {
    let hub = hub.resolve()?;
    let (api, runtime) = (hub.api()?, runtime()?);
    runtime.block_on(api.send(Method::DELETE, "/sessions/current", "")).map_err(|error| failure(&error))?;
    let Some(file) = hub.session_file() else { return Ok(()) };
    let refuse = |error| Failure::new(Exit::InputOutput, format!("{}: {error}", file.display()));
    fs::remove_file(file).map_err(refuse)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Session {
    session_id: String,
    operator: String,
    address: String,
    opened_date: String,
    used_date: String,
    is_current: bool,
}

const SESSIONS: &[Column] = &[
    Column::text("last-used"),
    Column::text("session"),
    Column::text("operator"),
    Column::text("address"),
    Column::text("opened"),
    Column::text("current"),
];

/// Lists sessions, or ends one.
pub(super) fn sessions(arguments: SessionsArguments) -> Outcome {
    let SessionsArguments { end, options: ListOptions { list, zone, hub } } = arguments;
    let (calls, zone) = (Calls::to(hub)?, zone.chosen());
    if let Some(id) = end {
        return calls.send(Method::DELETE, &path(&["sessions", &id]), &json!({}));
    }
    let mut table = Table::new(SESSIONS);
    for (session, json) in calls.items::<Session>("/sessions")? {
        let cells = vec![
            instant_cell(Some(&session.used_date), &zone),
            Cell::text(&session.session_id),
            Cell::text(&session.operator),
            Cell::text(&session.address),
            instant_cell(Some(&session.opened_date), &zone),
            Cell::text(if session.is_current { "this one" } else { "" }),
        ];
        table.add(cells, json);
    }
    table.print(&list, "-last-used")
}

/// Changes the password.
pub(super) fn password(hub: HubArguments) -> Outcome {
    let (api, runtime) = connect(hub)?;
    let (old, code, new) = (ask_hidden("Password")?, ask_code()?, ask_new_password()?);
    let body = json!({"password": old, "code": code, "newPassword": new}).to_string();
    runtime.block_on(api.send(Method::PUT, "/self/password", &body)).map_err(|error| failure(&error))?;
    note(format_args!("the password has been changed; other sessions have ended"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qr_code_is_black_on_white_with_a_margin() {
        let uri = "otpauth://totp/upesi:amina?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=upesi";
        let modules = QrCode::new(uri).unwrap().width();
        let drawn = qr_code(uri).unwrap();
        let lines: Vec<_> = drawn.lines().collect();
        // The margin is four modules on each side.
        assert_eq!(lines.len(), (modules + 8).div_ceil(2));
        let bare = |line: &str| line.replace("\u{1b}[30;107m", "").replace("\u{1b}[0m", "");
        assert!(lines.iter().all(|line| bare(line).chars().count() == modules + 8), "{drawn}");
        assert_eq!(bare(lines[0]).trim(), "");
        // The upper edges of both finder patterns, seven modules wide, and the corners below them.
        let edge = bare(lines[2]);
        assert!(edge.starts_with("    █▀▀▀▀▀█ ") && edge.ends_with(" █▀▀▀▀▀█    "), "{drawn}");
    }
}
