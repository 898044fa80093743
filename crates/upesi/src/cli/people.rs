//! `upesi admin enrol`, `login`, `logout`, `sessions` and `password`: people of the hub's own.

use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use upesi_http::Method;
use upesi_hub::exit::{Exit, Failure, Outcome, write_out};
use upesi_hub::replace_private;
use upesi_hub::scheme::admin_api::{AdminApi, AdminError};
use upesi_hub::terminal::note;
use upesi_types::text::path;

use super::admin::{HubArguments, connect, failure, hand_out, runtime};
use super::tls::read_token;

const JSON: &str = "application/json";
/// How often a code may be mistyped at a terminal.
const CODES_TRIED_MAX: u32 = 3;
/// Longest line of stdin that is read, in bytes.
const LINE_BYTES_MAX: u64 = 4_096;

/// Arguments of `upesi admin invite`.
#[derive(Args, Clone, Debug)]
pub struct InviteArguments {
    /// The operator.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Hours that the enrolment's token is good for; 1 to 72.
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    pub hours: u32,
    /// Write the token to this file, which must not exist, instead of printing it.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Why, for the second person who approves it.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi admin enrol`.
#[derive(Args, Clone, Debug)]
pub struct EnrolArguments {
    /// File with the token of the enrolment.
    #[arg(long, value_name = "FILE")]
    pub enrolment: PathBuf,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi admin login`.
#[derive(Args, Clone, Debug)]
pub struct LoginArguments {
    /// The operator.
    #[arg(value_name = "NAME", required_unless_present = "renew")]
    pub name: Option<String>,
    /// Show password and code again for the session of the token file, to approve for five further minutes.
    #[arg(long, conflicts_with = "name")]
    pub renew: bool,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi admin sessions`.
#[derive(Args, Clone, Debug)]
pub struct SessionsArguments {
    /// End this one.
    #[arg(long, value_name = "SESSION")]
    pub end: Option<String>,
    /// Print JSON.
    #[arg(long, conflicts_with = "end")]
    pub json: bool,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Asks for something that is not to be seen: at the terminal, or as the next line of stdin.
fn ask_hidden(what: &str) -> Result<String, Failure> {
    if !io::stdin().is_terminal() {
        return next_line(what);
    }
    let answer = rpassword::prompt_password(format!("{what}: "));
    answer.map_err(|error| Failure::new(Exit::InputOutput, format!("the terminal: {error}")))
}

/// Asks for a code.
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

/// A password that is chosen: at a terminal it is asked for twice.
fn ask_new_password() -> Result<String, Failure> {
    let chosen = ask_hidden("New password (12 characters or more)")?;
    if io::stdin().is_terminal() && ask_hidden("The same again")? != chosen {
        return Err(Failure::new(Exit::Usage, "the two passwords differ"));
    }
    Ok(chosen)
}

fn text<'a>(answer: &'a Value, name: &str) -> Result<&'a str, Failure> {
    let missing = || Failure::new(Exit::Failure, format!("the hub's answer has no {name}"));
    answer[name].as_str().ok_or_else(missing)
}

/// The API as it is called by who has no token yet.
fn unknown(hub: HubArguments) -> Result<AdminApi, Failure> {
    let HubArguments { admin, tls } = hub;
    AdminApi::with_tls(&admin, tls.load()?).map_err(|error| Failure::new(Exit::Usage, error))
}

/// Makes a token by which an operator enrols, after the operator if there is a body for it.
pub(super) fn invite(arguments: InviteArguments, operator: Option<&Value>) -> Outcome {
    let InviteArguments { name, hours, out, reason, hub } = arguments;
    if let Some(file) = out.as_deref().filter(|file| file.exists()) {
        return Err(Failure::new(Exit::CannotCreate, format!("{}: exists already", file.display())));
    }
    let (api, runtime) = connect(hub)?;
    let api = api.with_reason(&reason.unwrap_or_else(|| format!("operator {name} by upesi admin")));
    let made: Result<Value, AdminError> = runtime.block_on(async {
        if let Some(body) = operator {
            api.post::<Value>("/operators", JSON, body.to_string().into()).await?;
        }
        let hours = json!({"hours": hours}).to_string();
        api.propose(&path(&["operators", &name, "enrolments"]), hours).await
    });
    let made = made.map_err(|error| failure(&error))?;
    if let Some(approval) = made["approvalId"].as_u64() {
        note(format_args!("the token is good once a second person has run `upesi admin approve {approval}`"));
    }
    hand_out(text(&made, "token")?, out.as_deref())
}

/// Takes a password and a second factor.
pub(super) fn enrol(arguments: EnrolArguments) -> Outcome {
    let EnrolArguments { enrolment, hub } = arguments;
    let token = read_token(&enrolment)?.trim().to_owned();
    let (api, runtime) = (unknown(hub)?, runtime()?);
    let password = ask_new_password()?;
    let body = json!({"token": token, "password": password}).to_string();
    let begun: Value =
        runtime.block_on(api.post("/enrolments", JSON, body.into())).map_err(|error| failure(&error))?;
    write_out(&format!("{}\n", text(&begun, "uri")?))?;
    note(format_args!("give {} to an authenticator app, then type its code", text(&begun, "secret")?));
    for tried in 1.. {
        let body = json!({"token": token, "code": ask_code()?}).to_string();
        match runtime.block_on(api.post::<Value>("/enrolments/confirm", JSON, body.into())) {
            Ok(enrolled) => {
                note(format_args!("{} may log in now: upesi admin login", text(&enrolled, "operator")?));
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

/// Opens a session, whose token goes into the token file.
pub(super) fn login(arguments: LoginArguments) -> Outcome {
    let LoginArguments { name, hub, .. } = arguments;
    let Some(name) = name else { return renew(hub) };
    let missing = "say where the session's token goes: --token-file FILE, or UPESI_ADMIN_TOKEN_FILE";
    let file = hub.tls.token_file.clone().ok_or_else(|| Failure::new(Exit::Usage, missing))?;
    let (api, runtime) = (unknown(hub)?, runtime()?);
    let (password, code) = (ask_hidden("Password")?, ask_code()?);
    let body = json!({"operator": name, "password": password, "code": code}).to_string();
    let opened: Value =
        runtime.block_on(api.post("/sessions", JSON, body.into())).map_err(|error| failure(&error))?;
    let refuse = |error| Failure::new(Exit::CannotCreate, format!("{}: {error}", file.display()));
    replace_private(&file, &format!("{}\n", text(&opened, "token")?)).map_err(refuse)?;
    let (id, minutes) = (text(&opened, "sessionId")?, opened["idleSeconds"].as_u64().unwrap_or(0) / 60);
    note(format_args!("session {id} of {name}: it ends after {minutes} minutes without a call"));
    Ok(())
}

fn renew(hub: HubArguments) -> Outcome {
    let (api, runtime) = connect(hub)?;
    let (password, code) = (ask_hidden("Password")?, ask_code()?);
    let body = json!({"password": password, "code": code}).to_string();
    let renewed: Value = runtime
        .block_on(api.post("/sessions/current/code", JSON, body.into()))
        .map_err(|error| failure(&error))?;
    note(format_args!("session {} may approve for five minutes", text(&renewed, "sessionId")?));
    Ok(())
}

/// Ends the session of the token file, and removes that.
pub(super) fn logout(hub: HubArguments) -> Outcome {
    let file = hub.tls.token_file.clone();
    let (api, runtime) = connect(hub)?;
    runtime.block_on(api.send(Method::DELETE, "/sessions/current", "")).map_err(|error| failure(&error))?;
    let Some(file) = file else { return Ok(()) };
    let refuse = |error| Failure::new(Exit::InputOutput, format!("{}: {error}", file.display()));
    fs::remove_file(&file).map_err(refuse)
}

/// Lists sessions, or ends one.
pub(super) fn sessions(arguments: SessionsArguments) -> Outcome {
    let SessionsArguments { end, json, hub } = arguments;
    let (api, runtime) = connect(hub)?;
    if let Some(id) = end {
        let ended = runtime.block_on(api.send(Method::DELETE, &path(&["sessions", &id]), ""));
        return ended.map_err(|error| failure(&error));
    }
    let found: Value = runtime.block_on(api.get("/sessions")).map_err(|error| failure(&error))?;
    if json {
        return write_out(&format!("{found:#}\n"));
    }
    let line = |session: &Value| {
        let text = |name: &str| session[name].as_str().unwrap_or_default().to_owned();
        let current = if session["isCurrent"] == true { ", this one" } else { "" };
        format!(
            "{} {} from {} since {}, last used {}{current}\n",
            text("sessionId"),
            text("operator"),
            text("address"),
            text("openedDate"),
            text("usedDate")
        )
    };
    write_out(&found.as_array().into_iter().flatten().map(line).collect::<String>())
}

/// Another password.
pub(super) fn password(hub: HubArguments) -> Outcome {
    let (api, runtime) = connect(hub)?;
    let (old, code, new) = (ask_hidden("Password")?, ask_code()?, ask_new_password()?);
    let body = json!({"password": old, "code": code, "newPassword": new}).to_string();
    runtime.block_on(api.send(Method::PUT, "/self/password", &body)).map_err(|error| failure(&error))?;
    note(format_args!("the password is another one; other sessions have ended"));
    Ok(())
}
