//! `upesi dfsp`: the DFSPs of the scheme.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;
use upesi_client::admin_api::ApiFlag;
use upesi_http::{Method, Target};
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_process::terminal::note;
use upesi_process::values::dfsp_name;
use upesi_types::FspId;
use upesi_types::text::{Escaped, path};

use super::bindings::{self, BindArguments, RevokeKeyArguments};
use super::calls::{Calls, ChangeOptions, ListOptions, ShowOptions, done, instant_cell, instant_text};
use super::funds::accounts;
use super::rotation::{self, RotateCertificateArguments, SigningKeyArguments};
use super::table::{Cell, Column, Table};

/// The participant that is the hub itself.
const HUB: &str = "Hub";

/// Subcommands of `upesi dfsp`.
#[derive(Debug, Subcommand)]
pub enum DfspCommand {
    /// List the DFSPs.
    List(ListOptions),
    /// Show a DFSP: accounts, caps, bindings, signing keys, endpoints.
    Show(ShowArguments),
    /// Reject new payments of a DFSP, as payer and as payee. Payments in flight still complete.
    Suspend(SuspendArguments),
    /// Accept payments of a suspended DFSP again. A second person must approve it.
    Resume(SuspendArguments),
    /// Change the base URL of a DFSP's endpoints.
    ///
    /// All endpoints are one change, which a second person must approve. Endpoints with another base URL are not
    /// changed.
    Move(MoveArguments),
    /// Bind a new client certificate, and later remove the bindings of the earlier ones.
    ///
    /// In between, both are valid. The DFSP changes over when it is ready, and --finish removes the earlier bindings.
    RotateCertificate(RotateCertificateArguments),
    /// Add a new signing key of a DFSP. The earlier keys expire by themselves after an overlap.
    SigningKey(SigningKeyArguments),
    /// Revoke a signing key of a DFSP, immediately and permanently.
    RevokeKey(RevokeKeyArguments),
    /// Bind a key, a name, a client or a gateway to a DFSP: a client with this proof can act as the DFSP.
    Bind(BindArguments),
    /// Remove a binding: clients can no longer authenticate with it.
    Unbind(BindArguments),
}

/// Arguments of `upesi dfsp show`.
#[derive(Args, Clone, Debug)]
pub struct ShowArguments {
    /// The DFSP.
    #[arg(value_name = "DFSP", value_parser = dfsp_name)]
    pub dfsp: FspId,
    #[command(flatten)]
    pub options: ShowOptions,
}

/// Arguments of `upesi dfsp suspend` and `upesi dfsp resume`.
#[derive(Args, Clone, Debug)]
pub struct SuspendArguments {
    /// The DFSP.
    #[arg(value_name = "DFSP", value_parser = dfsp_name)]
    pub dfsp: FspId,
    #[command(flatten)]
    pub change: ChangeOptions,
}

/// Arguments of `upesi dfsp move`.
#[derive(Args, Clone, Debug)]
pub struct MoveArguments {
    /// The DFSP.
    #[arg(value_name = "DFSP", value_parser = dfsp_name)]
    pub dfsp: FspId,
    /// The new base URL, such as https://dfsp.example:8443/fspiop.
    #[arg(value_name = "URL")]
    pub to: String,
    /// The current base URL; by default the scheme, host and port that all endpoints share.
    #[arg(long, value_name = "URL")]
    pub from: Option<String>,
    /// Only print the changes, without making them.
    #[arg(long)]
    pub plan: bool,
    #[command(flatten)]
    pub change: ChangeOptions,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Participant {
    name: String,
    created: String,
    is_active: ApiFlag,
    #[serde(default = "no_flag")]
    is_proxy: ApiFlag,
    proxied_by: Option<String>,
    accounts: Vec<ParticipantAccount>,
}

fn no_flag() -> ApiFlag {
    ApiFlag(false)
}

#[derive(Deserialize)]
struct ParticipantAccount {
    currency: String,
}

#[derive(Deserialize)]
struct Endpoint {
    #[serde(rename = "type")]
    kind: String,
    value: String,
}

#[derive(Deserialize)]
struct Binding {
    kind: String,
    value: String,
}

#[derive(Deserialize)]
struct SignatureKeys {
    keys: Vec<SignatureKey>,
}

#[derive(Deserialize)]
struct SignatureKey {
    sha256: String,
    state: String,
    ends: Option<String>,
}

/// Runs a subcommand.
pub fn run(command: DfspCommand) -> Outcome {
    match command {
        DfspCommand::List(arguments) => list(arguments),
        DfspCommand::Show(arguments) => show(arguments),
        DfspCommand::Suspend(arguments) => set_activity(arguments, false),
        DfspCommand::Resume(arguments) => set_activity(arguments, true),
        DfspCommand::Move(arguments) => move_host(arguments),
        DfspCommand::RotateCertificate(arguments) => rotation::rotate_certificate(arguments),
        DfspCommand::SigningKey(arguments) => rotation::add_signing_key(arguments),
        DfspCommand::RevokeKey(arguments) => bindings::revoke_key(arguments),
        DfspCommand::Bind(arguments) => bindings::bind(arguments),
        DfspCommand::Unbind(arguments) => bindings::unbind(arguments),
    }
}

const COLUMNS: &[Column] = &[
    Column::text("dfsp"),
    Column::text("state"),
    Column::text("currencies"),
    Column::text("kind"),
    Column::text("created"),
];

fn list(ListOptions { list, zone, hub }: ListOptions) -> Outcome {
    let zone = zone.chosen();
    let mut table = Table::new(COLUMNS);
    for (found, json) in Calls::to(hub)?.items::<Participant>("/participants")? {
        if found.name == HUB {
            continue;
        }
        let cells = vec![
            Cell::text(&found.name),
            Cell::text(state(&found)),
            Cell::text(&currencies(&found)),
            Cell::text(&kind(&found)),
            instant_cell(Some(&found.created), &zone),
        ];
        table.add(cells, json);
    }
    table.print(&list, "-created")
}

fn state(found: &Participant) -> &'static str {
    if found.is_active.0 { "active" } else { "suspended" }
}

fn currencies(found: &Participant) -> String {
    let all: BTreeSet<_> = found.accounts.iter().map(|account| account.currency.as_str()).collect();
    all.into_iter().collect::<Vec<_>>().join(" ")
}

fn kind(found: &Participant) -> String {
    match &found.proxied_by {
        Some(proxy) => format!("behind {proxy}"),
        None if found.is_proxy.0 => "proxy".to_owned(),
        None => "DFSP".to_owned(),
    }
}

fn show(ShowArguments { dfsp, options: ShowOptions { json, zone, hub } }: ShowArguments) -> Outcome {
    let calls = Calls::to(hub)?;
    let of = |what: &str| path(&["participants", dfsp.as_str(), what]);
    let whole = path(&["participants", dfsp.as_str()]);
    if json {
        let parts = ["accounts", "limits", "bindings", "signatureKeys", "endpoints"];
        let mut text = format!("{{\"participant\":{}", calls.text(&whole)?);
        for part in parts {
            let _ = write!(text, ",\"{part}\":{}", calls.text(&of(part))?);
        }
        return write_out(&format!("{text}}}\n"));
    }
    let zone = zone.chosen();
    let found: Participant = calls.get(&whole)?;
    let mut text = format!(
        "{}  {} {} since {}\n",
        Escaped(&found.name),
        Escaped(&kind(&found)),
        state(&found),
        instant_text(&found.created, &zone)
    );
    for (account, _) in accounts(&calls, dfsp.as_str())? {
        let (kind, currency) = (Escaped(&account.ledger_account_type), Escaped(&account.currency));
        let _ = writeln!(text, "account    {} {kind} {currency} {}", account.id, account.value.0);
    }
    for (binding, _) in calls.items::<Binding>(&of("bindings"))? {
        let _ = writeln!(text, "binding    {}:{}", Escaped(&binding.kind), Escaped(&binding.value));
    }
    for key in calls.get::<SignatureKeys>(&of("signatureKeys"))?.keys {
        let ends = key.ends.map(|ends| format!(" until {}", instant_text(&ends, &zone))).unwrap_or_default();
        let _ = writeln!(text, "signs by   sha256:{} {}{ends}", Escaped(&key.sha256), Escaped(&key.state));
    }
    for (endpoint, _) in calls.items::<Endpoint>(&of("endpoints"))? {
        let _ = writeln!(text, "endpoint   {} {}", Escaped(&endpoint.kind), Escaped(&endpoint.value));
    }
    write_out(&text)
}

fn set_activity(SuspendArguments { dfsp, change }: SuspendArguments, is_active: bool) -> Outcome {
    let path = path(&["participants", dfsp.as_str()]);
    Calls::for_change(change)?.send(Method::PUT, &path, &json!({"isActive": is_active}))?;
    let state = if is_active { "active" } else { "suspended: the hub rejects its new payments" };
    done(&format!("{dfsp} is {state}"))
}

/// The rest of a URL after its base.
fn split<'a>(value: &'a str, base: &str) -> Option<&'a str> {
    let rest = value.strip_prefix(base.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Scheme, host and port of a URL.
fn origin(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let end = value.len() - rest.len() + rest.find('/').unwrap_or(rest.len());
    value.get(..end)
}

/// The origin that all URLs share.
fn common_origin(endpoints: &[Endpoint]) -> Result<String, Failure> {
    let origins: BTreeSet<_> = endpoints.iter().filter_map(|endpoint| origin(&endpoint.value)).collect();
    let mut all = origins.iter();
    match (all.next(), all.next()) {
        (Some(only), None) => Ok((*only).to_owned()),
        (None, _) => Err(Failure::new(Exit::NoInput, "the DFSP has no endpoint with a URL")),
        (Some(_), Some(_)) => {
            let list = origins.into_iter().collect::<Vec<_>>().join(", ");
            Err(Failure::new(
                Exit::Usage,
                format!("the endpoints have several hosts; select one with --from: {list}"),
            ))
        }
    }
}

fn move_host(arguments: MoveArguments) -> Outcome {
    let MoveArguments { dfsp, to, from, plan, change } = arguments;
    Target::parse(&to).map_err(|error| Failure::new(Exit::Usage, format!("{to}: {error}")))?;
    let calls = Calls::for_change(change)?;
    let path = path(&["participants", dfsp.as_str(), "endpoints"]);
    let endpoints: Vec<Endpoint> = calls.get(&path)?;
    let from = match from {
        Some(from) => from,
        None => common_origin(&endpoints)?,
    };
    let to = to.trim_end_matches('/');
    let (mut moved, mut left) = (Vec::new(), 0);
    for Endpoint { kind, value } in &endpoints {
        let Some(rest) = split(value, &from) else {
            left += 1;
            continue;
        };
        let next = format!("{to}{rest}");
        write_out(&format!("~ endpoint {} {} → {}\n", Escaped(kind), Escaped(value), Escaped(&next)))?;
        moved.push(json!({"type": kind, "value": next}));
    }
    if left > 0 {
        note(format_args!("{left} endpoints do not begin with {from} and are not changed"));
    }
    if moved.is_empty() {
        return Err(Failure::new(Exit::Failure, format!("no endpoint of {dfsp} begins with {from}")));
    }
    // All endpoints together are one change, which needs one approval.
    if plan { Ok(()) } else { calls.send(Method::PUT, &path, &json!({"endpoints": moved})) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(value: &str) -> Endpoint {
        Endpoint { kind: "X".to_owned(), value: value.to_owned() }
    }

    #[test]
    fn split_ends_the_base_where_the_path_begins() {
        for (value, base, rest) in [
            ("http://a:1/transfers", "http://a:1", Some("/transfers")),
            ("http://a:1/transfers", "http://a:1/", Some("/transfers")),
            ("http://a:1/x/transfers/{{id}}", "http://a:1/x", Some("/transfers/{{id}}")),
            ("http://a:12/transfers", "http://a:1", None),
            ("http://a:1", "http://a:1", Some("")),
            ("mailto@example", "http://a:1", None),
        ] {
            assert_eq!(split(value, base), rest, "{value} {base}");
        }
        assert_eq!(origin("https://a.example:8443/x/y"), Some("https://a.example:8443"));
        assert_eq!(origin("http://a"), Some("http://a"));
        assert_eq!(origin("ops@example.org"), None);
    }

    #[test]
    fn common_origin_is_the_host_of_all_endpoints() {
        let same = [endpoint("http://a:1/x"), endpoint("http://a:1/y"), endpoint("ops@example.org")];
        assert_eq!(common_origin(&same).unwrap(), "http://a:1");
        let several = [endpoint("http://a:1/x"), endpoint("http://b:1/y")];
        let failure = common_origin(&several).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.ends_with("--from: http://a:1, http://b:1"), "{failure}");
        assert_eq!(common_origin(&[]).unwrap_err().exit, Exit::NoInput);
    }
}
