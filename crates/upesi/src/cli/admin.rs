//! `upesi admin`: the hub's operators.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use upesi_admin::{
    BOOTSTRAP_MINUTES, BREAK_GLASS_MINUTES, BreakGlassError, make_bootstrap, open_break_glass,
    seal_break_glass,
};
use upesi_client::admin_api::{AdminApi, AdminError};
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_process::terminal::note;
use upesi_process::times::ZoneArguments;
use upesi_types::text::path;

use super::approvals::{ApprovalsArguments, decide_approvals, list_approvals};
use super::calls::ListOptions;
use super::hub::read_token;
pub(super) use super::hub::{HubArguments, connect, failure};
use super::operators::{self, OperatorArguments, RemoveCredentialArguments, RolesArguments};
use super::people;
use super::people::{EnrolArguments, InviteArguments, LoginArguments, SessionsArguments};
use super::policy::{self, PolicyArguments};
use super::settings::{SettingsArguments, settings};
use super::trail::{self, TrailArguments};

/// Value of `knownBy` in `GET /self` on a hub without authentication.
const KNOWN_BY_NOTHING: &str = "nothing";
/// Validity of the enrolment token of a new user, in hours.
const ENROLMENT_HOURS: u32 = 24;

/// Subcommands of `upesi admin`.
#[derive(Debug, Subcommand)]
pub enum AdminCommand {
    /// Create the token that creates the first operator.
    ///
    /// Run it on the hub's machine, as a user who may write to its data directory. It accepts the flags of serve. It
    /// prints a token that can only manage operators. The token expires after 15 minutes, or once another token has
    /// been created with it.
    Bootstrap(BootstrapArguments),
    /// Create a sealed code for emergencies, or use it to open an emergency token.
    #[command(subcommand)]
    BreakGlass(BreakGlassCommand),
    /// Create an operator and print its token, or write the token to a file.
    ///
    /// Roles: viewer, monitor, support, operations, operations-approver, treasury, treasury-approver, security-officer,
    /// iam-admin, auditor. Operators of a DFSP (--participant) can have dfsp-user and dfsp-machine.
    Create(CreateArguments),
    /// Create another token for an operator.
    Token(TokenArguments),
    /// Create an enrolment token for a user.
    ///
    /// With it, the user chooses a password and a second factor, which replace earlier ones.
    Invite(InviteArguments),
    /// Choose a password and set up a second factor, with an enrolment token from an administrator.
    ///
    /// Prints the secret of the second factor as an otpauth:// address. Asks at the terminal; without a terminal, the
    /// lines of stdin are the password and the code.
    Enrol(EnrolArguments),
    /// Log in with password and second factor; the session's token is stored in the token file.
    ///
    /// Asks at the terminal; without a terminal, the lines of stdin are the password and the code.
    Login(LoginArguments),
    /// End the session of the token file, and remove the file.
    Logout(HubArguments),
    /// List your sessions, or end one. Administrators can list and end the sessions of all users.
    Sessions(SessionsArguments),
    /// Change your password; other sessions end.
    ///
    /// Asks at the terminal; without a terminal, the lines of stdin are the password, the code and the new password.
    Password(HubArguments),
    /// List operators with their roles, their credentials and the expiry of each.
    Operators(ListOptions),
    /// Make an operator inactive: its credentials are rejected, and its sessions end.
    Suspend(OperatorArguments),
    /// Make an inactive operator active again.
    Resume(OperatorArguments),
    /// Replace the roles of an operator.
    Roles(RolesArguments),
    /// Remove a token, a password or an enrolment of an operator.
    RemoveCredential(RemoveCredentialArguments),
    /// Show or change which changes need the approval of a second person.
    ///
    /// Each flag changes a part of the current policy. One iam-admin can make the policy stricter. A milder policy
    /// needs two.
    Policy(PolicyArguments),
    /// List the audit trail: changes and rejected attempts with their operators, newest first.
    ///
    /// Without --from, the last 24 hours. `upesi trail` verifies the whole trail on the hub's machine.
    Trail(TrailArguments),
    /// List pending approvals, or show one approval with all its changes.
    ///
    /// Prints one row per approval. The column `decide` has a minus for approvals that you may not decide: your own,
    /// approvals of another area, and sets that the hub is applying.
    Approvals(ApprovalsArguments),
    /// Approve the proposals of other operators: the hub makes the changes. A change set that stopped is continued.
    ///
    /// Each approval is decided on its own. Exits with code 1 if a change was not made.
    Approve(DecideArguments),
    /// Reject proposals of other operators.
    Reject(RejectArguments),
    /// Withdraw your own proposals.
    Withdraw(DecideArguments),
}

/// Subcommands of `upesi admin break-glass`.
#[derive(Debug, Subcommand)]
pub enum BreakGlassCommand {
    /// Create a break-glass code, which replaces an earlier one and ends an open token.
    ///
    /// Run it on the hub's machine, as a user who may write to its data directory. It accepts the flags of serve.
    Seal(BootstrapArguments),
    /// Open an emergency token with the code. A code can be used once.
    ///
    /// For 60 minutes, the token can read, disable participants and accounts, remove bindings, redeliver callbacks, set
    /// the log level, and reactivate an inactive administrator.
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

/// Arguments of `upesi admin approve` and `upesi admin withdraw`.
#[derive(Args, Clone, Debug)]
pub struct DecideArguments {
    /// Numbers of the approvals.
    #[arg(value_name = "APPROVAL", required = true)]
    pub ids: Vec<u64>,
    /// Comment, recorded in the audit trail.
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
    /// Numbers of the approvals.
    #[arg(value_name = "APPROVAL", required = true)]
    pub ids: Vec<u64>,
    /// Reason, which the proposer can read.
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
    /// Write the token to this file instead of printing it. The file must not exist.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The settings of serve.
    #[command(flatten)]
    pub settings: SettingsArguments,
}

/// The hub to call, and options of the token.
#[derive(Args, Clone, Debug)]
pub struct CallArguments {
    /// Validity of the token in days: 1 to 366.
    #[arg(long, value_name = "DAYS", default_value_t = 90)]
    pub days: u32,
    /// Write the token to this file instead of printing it. The file must not exist.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Reason, for the second person who approves the change.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi admin create`.
#[derive(Args, Clone, Debug)]
pub struct CreateArguments {
    /// Name of the operator.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Role of the operator. May be repeated.
    #[arg(long = "role", value_name = "ROLE", required = true)]
    pub roles: Vec<String>,
    /// DFSP of the operator.
    #[arg(long, value_name = "NAME")]
    pub participant: Option<String>,
    /// The operator is a user: print an enrolment token, which is valid for a day, instead of a token for API calls.
    #[arg(long)]
    pub person: bool,
    /// The user is present: enrol immediately instead of printing the token.
    #[arg(long, requires = "person", conflicts_with = "out")]
    pub enrol: bool,
    #[command(flatten)]
    pub call: CallArguments,
}

/// Arguments of `upesi admin token`.
#[derive(Args, Clone, Debug)]
pub struct TokenArguments {
    /// Name of the operator.
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
                "this token can create operators for {BOOTSTRAP_MINUTES} minutes, or until a token has been created with it"
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
            note(format_args!("keep this code in a sealed envelope; it opens one emergency token"));
            hand_out(&code, out.as_deref())
        }
        BreakGlassCommand::Open(OpenArguments {
            code,
            to: BootstrapArguments { out, settings: arguments },
        }) => {
            let settings = settings(&arguments)?.settings;
            let token = open_break_glass(&settings.data.dir, &read_token(&code)?).map_err(failed)?;
            note(format_args!(
                "this token is valid for {BREAK_GLASS_MINUTES} minutes; the audit trail records all its actions"
            ));
            hand_out(&token, out.as_deref())
        }
    }
}

/// Creates a token for an operator. If there is a body for the operator, creates the operator first.
fn make_token(name: &str, operator: Option<&Value>, call: CallArguments) -> Outcome {
    let CallArguments { days, out, reason, hub } = call;
    if let Some(file) = out.as_deref().filter(|file| file.exists()) {
        return Err(Failure::new(Exit::CannotCreate, format!("{} already exists", file.display())));
    }
    let (api, runtime) = connect(hub)?;
    let api = api.with_reason(&reason.unwrap_or_else(|| format!("operator {name} by upesi admin")));
    // The first new token invalidates the token of `bootstrap`, so this must be checked before.
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
        note(format_args!(
            "the token becomes valid once a second person has run `upesi admin approve {approval}`"
        ));
    }
    let token = made["token"]
        .as_str()
        .ok_or_else(|| Failure::new(Exit::Failure, "the hub's response has no token"))?;
    hand_out(token, out.as_deref())
}

/// Whether a hub has no authentication, so that tokens have no effect.
pub(super) async fn is_open(api: &AdminApi) -> bool {
    let found: Result<Value, AdminError> = api.get("/self").await;
    found.is_ok_and(|caller| caller["knownBy"] == KNOWN_BY_NOTHING)
}

pub(super) fn warn_of_open_hub() {
    note(
        "this hub has no authentication, so any client can do anything: the token has no effect until the hub has \
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
