//! `upesi admin`: the hub's operators.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use upesi_hub::exit::{Exit, Failure, Outcome, write_out};
use upesi_hub::scheme::admin_api::{AdminApi, AdminError};
use upesi_hub::terminal::note;
use upesi_hub::times::ZoneArguments;
use upesi_hub::{
    BOOTSTRAP_MINUTES, BREAK_GLASS_MINUTES, BreakGlassError, make_bootstrap, open_break_glass,
    seal_break_glass,
};
use upesi_types::text::path;

use super::approvals::{decide_approvals, list_approvals};
use super::arguments::SettingsArguments;
use super::calls::ListOptions;
use super::hub::read_token;
pub(super) use super::hub::{HubArguments, connect, failure};
use super::operators::{self, OperatorArguments, RemoveCredentialArguments, RolesArguments};
use super::people;
use super::people::{EnrolArguments, InviteArguments, LoginArguments, SessionsArguments};
use super::policy::{self, PolicyArguments};
use super::run::settings;
use super::trail::{self, TrailArguments};

/// How a hub without authentication knows its callers.
const KNOWN_BY_NOTHING: &str = "nothing";
/// Hours that the token of a new person is good for.
const ENROLMENT_HOURS: u32 = 24;

/// Subcommands of `upesi admin`.
#[derive(Debug, Subcommand)]
pub enum AdminCommand {
    /// Make the token by which the first operator is created.
    ///
    /// Runs on the hub's machine, as a user who may write into its data directory; takes the flags of serve. Prints a
    /// token that may only manage operators, is good for 15 minutes, and ends once a token is made with it.
    Bootstrap(BootstrapArguments),
    /// A sealed code for emergencies, and the token that it opens.
    #[command(subcommand)]
    BreakGlass(BreakGlassCommand),
    /// Create an operator and print its token, or write it to a file.
    ///
    /// Roles: viewer, monitor, support, operations, operations-approver, treasury, treasury-approver,
    /// security-officer, iam-admin, auditor; for those of a DFSP dfsp-user and dfsp-machine, with --participant.
    Create(CreateArguments),
    /// Make a further token for an operator.
    Token(TokenArguments),
    /// Make a token by which an operator enrols as a person.
    ///
    /// By it the person takes a password and a second factor, in place of earlier ones.
    Invite(InviteArguments),
    /// Take a password and a second factor, by the token that an administrator made.
    ///
    /// Prints the secret of the second factor as an otpauth:// address. Asks at the terminal; otherwise the lines of
    /// stdin are the password and the code.
    Enrol(EnrolArguments),
    /// Log in by password and second factor; the session's token goes into the token file.
    ///
    /// Asks at the terminal; otherwise the lines of stdin are the password and the code.
    Login(LoginArguments),
    /// End the session of the token file, and remove that file.
    Logout(HubArguments),
    /// List your sessions, or end one; administrators those of all.
    Sessions(SessionsArguments),
    /// Choose another password; other sessions end.
    ///
    /// Asks at the terminal; otherwise the lines of stdin are the password, the code and the new password.
    Password(HubArguments),
    /// List operators with their roles, and their credentials with their ends.
    Operators(ListOptions),
    /// Make an operator inactive: its credentials are not accepted, and its sessions end.
    Suspend(OperatorArguments),
    /// Make an inactive operator active again.
    Resume(OperatorArguments),
    /// Give an operator other roles.
    Roles(RolesArguments),
    /// Remove a token, a password or an enrolment of an operator.
    RemoveCredential(RemoveCredentialArguments),
    /// Show which changes need a second person, or change that.
    ///
    /// The flags change parts of the present policy. One iam-admin makes the policy stricter, two make it milder.
    Policy(PolicyArguments),
    /// List changes and refusals with their operators: the audit trail, the newest entries first.
    ///
    /// Without --from the last 24 hours. `upesi audit trail` verifies the whole on the hub's machine.
    Trail(TrailArguments),
    /// List what waits for a second person, or show one approval with all its changes.
    ///
    /// A line per approval. The column `decide` has a minus for approvals that you may not decide: your own, approvals
    /// of another area, and sets that the hub is applying.
    Approvals(ApprovalsArguments),
    /// Approve what others proposed: the hub makes the changes. A change set that stopped is continued.
    ///
    /// Each is decided on its own; ends with 1 if one was not made.
    Approve(DecideArguments),
    /// Reject what others proposed.
    Reject(RejectArguments),
    /// Take back what you proposed.
    Withdraw(DecideArguments),
}

/// Subcommands of `upesi admin break-glass`.
#[derive(Debug, Subcommand)]
pub enum BreakGlassCommand {
    /// Make a code, in place of an earlier one; a token that is open ends.
    ///
    /// Runs on the hub's machine, as a user who may write into its data directory; takes the flags of serve.
    Seal(BootstrapArguments),
    /// Open a token by the code, which is used then.
    ///
    /// For 60 minutes it may read, take participants, accounts and bindings out, have callbacks sent again, set the log
    /// level, and let an administrator in again who was made inactive.
    Open(OpenArguments),
}

/// Arguments of `upesi admin break-glass open`.
#[derive(Args, Clone, Debug)]
pub struct OpenArguments {
    /// File with the code.
    #[arg(long, value_name = "FILE")]
    pub code: PathBuf,
    #[command(flatten)]
    pub to: BootstrapArguments,
}

/// Arguments of `upesi admin approvals`.
#[derive(Args, Clone, Debug)]
pub struct ApprovalsArguments {
    /// Show this one in full.
    #[arg(value_name = "APPROVAL")]
    pub id: Option<u64>,
    /// Those that ended, too.
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub options: ListOptions,
}

/// Arguments of `upesi admin approve` and `upesi admin withdraw`.
#[derive(Args, Clone, Debug)]
pub struct DecideArguments {
    /// The approvals.
    #[arg(value_name = "APPROVAL", required = true)]
    pub ids: Vec<u64>,
    /// What is to be said to it; the audit trail keeps it.
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
    #[command(flatten)]
    pub zone: ZoneArguments,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi admin reject`.
#[derive(Args, Clone, Debug)]
pub struct RejectArguments {
    /// The approvals.
    #[arg(value_name = "APPROVAL", required = true)]
    pub ids: Vec<u64>,
    /// Why; the maker reads it.
    #[arg(long, value_name = "TEXT")]
    pub comment: String,
    #[command(flatten)]
    pub zone: ZoneArguments,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi admin bootstrap`.
#[derive(Args, Clone, Debug)]
pub struct BootstrapArguments {
    /// Write the token to this file, which must not exist, instead of printing it.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The settings of serve.
    #[command(flatten)]
    pub settings: SettingsArguments,
}

/// The hub to call, and where its token goes.
#[derive(Args, Clone, Debug)]
pub struct CallArguments {
    /// Days that the token is good for; 1 to 366.
    #[arg(long, value_name = "DAYS", default_value_t = 90)]
    pub days: u32,
    /// Write the token to this file, which must not exist, instead of printing it.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Why, for the second person who approves it.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi admin create`.
#[derive(Args, Clone, Debug)]
pub struct CreateArguments {
    /// Its name.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// A role. May be repeated.
    #[arg(long = "role", value_name = "ROLE", required = true)]
    pub roles: Vec<String>,
    /// The DFSP whose operator it is.
    #[arg(long, value_name = "NAME")]
    pub participant: Option<String>,
    /// It is a person: print a token by which it enrols within a day, instead of one for calls.
    #[arg(long)]
    pub person: bool,
    /// The person is here: enrol at once instead of printing the token.
    #[arg(long, requires = "person", conflicts_with = "out")]
    pub enrol: bool,
    #[command(flatten)]
    pub call: CallArguments,
}

/// Arguments of `upesi admin token`.
#[derive(Args, Clone, Debug)]
pub struct TokenArguments {
    /// The operator.
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub call: CallArguments,
}

/// Runs a subcommand.
pub fn run(command: AdminCommand) -> Outcome {
    match command {
        AdminCommand::Bootstrap(BootstrapArguments { out, settings: arguments }) => {
            let settings = settings(&arguments)?.settings;
            let token = make_bootstrap(&settings.data.dir)
                .map_err(|error| Failure::new(Exit::CannotCreate, error))?;
            note(format_args!(
                "this token creates operators for {BOOTSTRAP_MINUTES} minutes, until it has made a token"
            ));
            hand_out(&token, out.as_deref())
        }
        AdminCommand::BreakGlass(command) => break_glass(command),
        AdminCommand::Create(CreateArguments { name, roles, participant, person, enrol, call }) => {
            let mut body = json!({"name": name, "roles": roles});
            if let Some(participant) = participant {
                body["participant"] = participant.into();
            }
            if !person {
                return make_token(&name, Some(&body), call);
            }
            let CallArguments { out, reason, hub, .. } = call;
            let invitation = InviteArguments { name, hours: ENROLMENT_HOURS, out, reason, hub };
            if enrol {
                people::create_here(invitation, &body)
            } else {
                people::invite(invitation, Some(&body))
            }
        }
        AdminCommand::Invite(arguments) => people::invite(arguments, None),
        AdminCommand::Enrol(arguments) => people::enrol(arguments),
        AdminCommand::Login(arguments) => people::login(arguments),
        AdminCommand::Logout(hub) => people::logout(hub),
        AdminCommand::Sessions(arguments) => people::sessions(arguments),
        AdminCommand::Password(hub) => people::password(hub),
        AdminCommand::Token(TokenArguments { name, call }) => make_token(&name, None, call),
        AdminCommand::Operators(arguments) => operators::list(arguments),
        AdminCommand::Suspend(arguments) => operators::set_activity(arguments, false),
        AdminCommand::Resume(arguments) => operators::set_activity(arguments, true),
        AdminCommand::Roles(arguments) => operators::set_roles(arguments),
        AdminCommand::RemoveCredential(arguments) => operators::remove_credential(arguments),
        AdminCommand::Policy(arguments) => policy::run(arguments),
        AdminCommand::Trail(arguments) => trail::list(arguments),
        AdminCommand::Approvals(arguments) => list_approvals(arguments),
        AdminCommand::Approve(DecideArguments { ids, comment, zone, hub }) => {
            decide_approvals(&ids, "approve", comment, (zone, hub))
        }
        AdminCommand::Reject(RejectArguments { ids, comment, zone, hub }) => {
            decide_approvals(&ids, "reject", Some(comment), (zone, hub))
        }
        AdminCommand::Withdraw(DecideArguments { ids, comment, zone, hub }) => {
            decide_approvals(&ids, "withdraw", comment, (zone, hub))
        }
    }
}

/// Seals a code, or opens a token.
fn break_glass(command: BreakGlassCommand) -> Outcome {
    let failed = |error: BreakGlassError| {
        let exit = if matches!(error, BreakGlassError::Code) { Exit::Failure } else { Exit::CannotCreate };
        Failure::new(exit, error)
    };
    match command {
        BreakGlassCommand::Seal(BootstrapArguments { out, settings: arguments }) => {
            let settings = settings(&arguments)?.settings;
            let code = seal_break_glass(&settings.data.dir).map_err(failed)?;
            note(format_args!("keep this code in a sealed envelope; it opens one token for an emergency"));
            hand_out(&code, out.as_deref())
        }
        BreakGlassCommand::Open(OpenArguments {
            code,
            to: BootstrapArguments { out, settings: arguments },
        }) => {
            let settings = settings(&arguments)?.settings;
            let token = open_break_glass(&settings.data.dir, &read_token(&code)?).map_err(failed)?;
            note(format_args!(
                "this token is good for {BREAK_GLASS_MINUTES} minutes; all that it does is recorded"
            ));
            hand_out(&token, out.as_deref())
        }
    }
}

/// Makes a token for an operator, which is created before if there is a body for it.
fn make_token(name: &str, operator: Option<&Value>, call: CallArguments) -> Outcome {
    let CallArguments { days, out, reason, hub } = call;
    if let Some(file) = out.as_deref().filter(|file| file.exists()) {
        return Err(Failure::new(Exit::CannotCreate, format!("{}: exists already", file.display())));
    }
    let (api, runtime) = connect(hub)?;
    let api = api.with_reason(&reason.unwrap_or_else(|| format!("operator {name} by upesi admin")));
    // The first token that it makes ends the token of `bootstrap`, so this is asked before.
    let is_open = runtime.block_on(is_open(&api));
    let made: Result<Value, AdminError> = runtime.block_on(async {
        if let Some(body) = operator {
            api.post::<Value>("/operators", "application/json", body.to_string().into()).await?;
        }
        let days = json!({"days": days}).to_string();
        api.propose(&path(&["operators", name, "tokens"]), days).await
    });
    let made = made.map_err(|error| failure(&error))?;
    if is_open {
        warn_of_open_hub();
    }
    if let Some(approval) = made["approvalId"].as_u64() {
        note(format_args!("the token is good once a second person has run `upesi admin approve {approval}`"));
    }
    let token =
        made["token"].as_str().ok_or_else(|| Failure::new(Exit::Failure, "the hub's answer has no token"))?;
    hand_out(token, out.as_deref())
}

/// Whether a hub has no authentication: tokens open nothing there.
pub(super) async fn is_open(api: &AdminApi) -> bool {
    let found: Result<Value, AdminError> = api.get("/self").await;
    found.is_ok_and(|caller| caller["knownBy"] == KNOWN_BY_NOTHING)
}

pub(super) fn warn_of_open_hub() {
    note(
        "this hub has no authentication, and every client may do everything: the token opens nothing until the hub has \
         admin.authentication = \"required\"",
    );
}

/// A token goes to a file that only its owner reads, or to stdout.
pub(super) fn hand_out(token: &str, out: Option<&Path>) -> Outcome {
    let Some(file) = out else { return write_out(&format!("{token}\n")) };
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(file);
    opened
        .and_then(|mut opened| writeln!(opened, "{token}"))
        .map_err(|error| Failure::new(Exit::CannotCreate, format!("{}: {error}", file.display())))
}
