//! `upesi funds`: deposits and withdrawals, as the bank has booked them.

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;
use upesi_client::admin_api::{ApiAmount, ApiFlag};
use upesi_client::scheme::ids::derived_id;
use upesi_http::Method;
use upesi_process::exit::{Exit, Failure, Outcome};
use upesi_process::values::{amount, currency, dfsp_name, transfer_id};
use upesi_types::text::{Escaped, path};
use upesi_types::{Amount, Currency, FspId, TransferId};

use super::calls::{Calls, ChangeOptions, Money, ShowOptions, done, instant_text, shown_amount};
use super::hub::{HubArguments, reason};
use super::table::{Cell, Column, ListArguments, Table};

/// The type of the accounts that deposits go to.
const SETTLEMENT: &str = "SETTLEMENT";

/// Subcommands of `upesi funds`.
#[derive(Debug, Subcommand)]
pub enum FundsCommand {
    /// List the funds of DFSPs: the balances of their settlement accounts.
    List(FundsListArguments),
    /// Record a deposit.
    ///
    /// The movement's id is derived from the DFSP, the currency and the bank's reference. Therefore a repeated command
    /// does not book the deposit twice.
    #[command(override_usage = usage_of_move("deposit"))]
    Deposit(MoveArguments),
    /// Reserve a withdrawal, which `commit` or `abort` completes.
    ///
    /// The movement's id is derived from the DFSP, the currency and the bank's reference, as for a deposit.
    #[command(override_usage = usage_of_move("withdraw"))]
    Withdraw(MoveArguments),
    /// Complete a withdrawal that the bank has paid.
    Commit(EndArguments),
    /// Cancel a withdrawal: the funds return to the DFSP.
    Abort(EndArguments),
    /// Show the state of a deposit or withdrawal.
    Show(ShowArguments),
}

/// The usage in two lines, because clap does not wrap it.
fn usage_of_move(command: &str) -> String {
    format!(
        "upesi funds {command} [OPTIONS] <DFSP> <CODE> <AMOUNT>\n       --reference <TEXT> --reason <TEXT>"
    )
}

/// Arguments of `upesi funds list`.
#[derive(Args, Clone, Debug)]
pub struct FundsListArguments {
    /// Only this DFSP.
    #[arg(value_name = "DFSP", value_parser = dfsp_name)]
    pub dfsp: Option<FspId>,
    #[command(flatten)]
    pub list: ListArguments,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi funds deposit` and `upesi funds withdraw`.
#[derive(Args, Clone, Debug)]
pub struct MoveArguments {
    /// The DFSP.
    #[arg(value_name = "DFSP", value_parser = dfsp_name)]
    pub dfsp: FspId,
    /// The currency.
    #[arg(value_name = "CODE", value_parser = currency)]
    pub currency: Currency,
    /// The amount, above zero.
    #[arg(value_name = "AMOUNT", value_parser = amount)]
    pub amount: Amount,
    /// The bank's reference of the deposit or withdrawal.
    #[arg(long, value_name = "TEXT")]
    pub reference: String,
    /// Reason, recorded in the audit trail.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: String,
    /// Id of the movement, instead of the id derived from the reference.
    #[arg(long, value_name = "ID", value_parser = transfer_id)]
    pub id: Option<TransferId>,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi funds commit` and `upesi funds abort`.
#[derive(Args, Clone, Debug)]
pub struct EndArguments {
    /// The DFSP.
    #[arg(value_name = "DFSP", value_parser = dfsp_name)]
    pub dfsp: FspId,
    /// The currency.
    #[arg(value_name = "CODE", value_parser = currency)]
    pub currency: Currency,
    /// The id that `withdraw` printed.
    #[arg(value_name = "ID", value_parser = transfer_id)]
    pub id: TransferId,
    #[command(flatten)]
    pub change: ChangeOptions,
}

/// Arguments of `upesi funds show`.
#[derive(Args, Clone, Debug)]
pub struct ShowArguments {
    /// The DFSP.
    #[arg(value_name = "DFSP", value_parser = dfsp_name)]
    pub dfsp: FspId,
    /// The currency.
    #[arg(value_name = "CODE", value_parser = currency)]
    pub currency: Currency,
    /// The id that `deposit` or `withdraw` printed.
    #[arg(value_name = "ID", value_parser = transfer_id)]
    pub id: TransferId,
    #[command(flatten)]
    pub options: ShowOptions,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Account {
    pub id: u32,
    pub ledger_account_type: String,
    pub currency: String,
    pub is_active: ApiFlag,
    pub value: ApiAmount,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Movement {
    action: String,
    transfer_state: String,
    amount: Money,
    external_reference: String,
    reason: String,
    changed_date: String,
}

#[derive(Clone, Copy)]
enum Direction {
    In,
    Out,
}

/// The accounts of a DFSP, each with its JSON text.
pub(super) fn accounts(calls: &Calls, dfsp: &str) -> Result<Vec<(Account, String)>, Failure> {
    calls.items(&path(&["participants", dfsp, "accounts"]))
}

/// The number of the settlement account of a DFSP, which holds its funds.
fn settlement_account(calls: &Calls, dfsp: FspId, currency: Currency) -> Result<String, Failure> {
    let mut accounts = accounts(calls, dfsp.as_str())?.into_iter().map(|(account, _)| account);
    let found = accounts
        .find(|account| account.ledger_account_type == SETTLEMENT && account.currency == currency.as_str());
    let missing = || Failure::new(Exit::NoInput, format!("{dfsp} has no settlement account in {currency}"));
    Ok(found.ok_or_else(missing)?.id.to_string())
}

/// Runs a subcommand.
pub fn run(command: FundsCommand) -> Outcome {
    match command {
        FundsCommand::List(arguments) => list(arguments),
        FundsCommand::Deposit(arguments) => prepare(arguments, Direction::In),
        FundsCommand::Withdraw(arguments) => prepare(arguments, Direction::Out),
        FundsCommand::Commit(arguments) => end(arguments, "recordFundsOutCommit", "is paid"),
        FundsCommand::Abort(arguments) => end(arguments, "recordFundsOutAbort", "has returned to the DFSP"),
        FundsCommand::Show(arguments) => show(arguments),
    }
}

const COLUMNS: &[Column] = &[
    Column::text("dfsp"),
    Column::text("currency"),
    Column::number("funds"),
    Column::number("account"),
    Column::text("state"),
];

#[derive(Deserialize)]
struct ParticipantName {
    name: String,
}

fn list(FundsListArguments { dfsp, list, hub }: FundsListArguments) -> Outcome {
    let calls = Calls::to(hub)?;
    let names = match dfsp {
        Some(dfsp) => vec![dfsp.to_string()],
        None => {
            let all = calls.items::<ParticipantName>("/participants")?.into_iter();
            all.map(|(named, _)| named.name).collect()
        }
    };
    let mut table = Table::new(COLUMNS);
    for name in names {
        for (account, json) in accounts(&calls, &name)? {
            if account.ledger_account_type != SETTLEMENT {
                continue;
            }
            // A balance is what the owner owes: funds are negative.
            let funds = account.value.0.negated();
            let cells = vec![
                Cell::text(&name),
                Cell::text(&account.currency),
                Cell::amount(funds),
                Cell::number(i64::from(account.id)),
                Cell::text(if account.is_active.0 { "active" } else { "suspended" }),
            ];
            table.add(cells, json);
        }
    }
    table.print(&list, "dfsp")
}

fn prepare(arguments: MoveArguments, direction: Direction) -> Outcome {
    let MoveArguments { dfsp, currency, amount, reference, reason, id, hub } = arguments;
    let (action, noun) = match direction {
        Direction::In => ("recordFundsIn", "deposit"),
        Direction::Out => ("recordFundsOutPrepareReserve", "withdrawal"),
    };
    let parts = ["upesi funds", noun, dfsp.as_str(), currency.as_str(), &reference];
    let id = id.unwrap_or_else(|| derived_id(&parts));
    let calls = Calls::to(hub)?.because(&reason);
    let account = settlement_account(&calls, dfsp, currency)?;
    let body = json!({
        "transferId": id.to_string(),
        "externalReference": reference,
        "action": action,
        "reason": reason,
        "amount": {"amount": amount.to_string(), "currency": currency.as_str()},
    });
    calls.send(Method::POST, &path(&["participants", dfsp.as_str(), "accounts", &account]), &body)?;
    let found: Movement = calls.get(&movement_path(dfsp, &account, id))?;
    let money = shown_amount(amount, currency.as_str());
    let state = Escaped(&found.transfer_state);
    match found.transfer_state.as_str() {
        "ABORTED_REJECTED" => Err(Failure::new(
            Exit::Failure,
            format!("the {noun} of {money} of {dfsp} is {state}: {}", Escaped(&found.reason)),
        )),
        _ => done(&format!("{noun} {id} of {money} of {dfsp}: {state}")),
    }
}

fn end(arguments: EndArguments, action: &str, what: &str) -> Outcome {
    let EndArguments { dfsp, currency, id, change } = arguments;
    let body = json!({"action": action, "reason": change.reason});
    let calls = Calls::for_change(change)?;
    let account = settlement_account(&calls, dfsp, currency)?;
    let path = movement_path(dfsp, &account, id);
    calls.send(Method::PUT, &path, &body)?;
    done(&format!("withdrawal {id} of {dfsp} {what}"))
}

fn movement_path(dfsp: FspId, account: &str, id: TransferId) -> String {
    path(&["participants", dfsp.as_str(), "accounts", account, "transfers", &id.to_string()])
}

fn show(arguments: ShowArguments) -> Outcome {
    let ShowArguments { dfsp, currency, id, options: ShowOptions { json, zone, hub } } = arguments;
    let calls = Calls::to(hub)?;
    let path = movement_path(dfsp, &settlement_account(&calls, dfsp, currency)?, id);
    if json {
        return calls.print(&path);
    }
    let found: Movement = calls.get(&path)?;
    done(&format!(
        "{} of {} of {dfsp} is {} since {}; bank's reference {}; {}",
        Escaped(&found.action),
        found.amount.text(),
        Escaped(&found.transfer_state),
        instant_text(&found.changed_date, &zone.chosen()),
        Escaped(&found.external_reference),
        Escaped(&found.reason),
    ))
}
