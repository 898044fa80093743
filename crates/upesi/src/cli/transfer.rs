//! `upesi transfer`: a search for payments, and the state of one payment in a sentence.

use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize;
use upesi_console::story::{Story, StoryCallback, StorySettlement};
use upesi_process::exit::{Outcome, write_out};
use upesi_process::times::{ParsedTime, Zone, when};
use upesi_process::values::{amount, currency, dfsp_name, transfer_id};
use upesi_types::text::path;
use upesi_types::{Amount, Currency, FspId, TransferId};

use super::calls::{Calls, ListOptions, Money, ShowOptions, filters, instant_cell, instant_text};
use super::table::{Cell, Column, Table};

const RESERVED: &str = "RESERVED";
const COMMITTED: &str = "COMMITTED";

/// Subcommands of `upesi transfer`.
#[derive(Debug, Subcommand)]
pub enum TransferCommand {
    /// Find transfers by DFSP, time, amount and state, newest first.
    ///
    /// Without --from, the last 24 hours.
    Find(FindArguments),
    /// Show the state of a payment in one sentence.
    ///
    /// The sentence contains the parties, the amount, the state, the next step, each callback with its delivery or
    /// failed attempts, the settlement window and the settlement.
    Show(ShowArguments),
}

/// Arguments of `upesi transfer find`.
#[derive(Args, Clone, Debug)]
pub struct FindArguments {
    /// Payer or payee.
    #[arg(long, value_name = "NAME", value_parser = dfsp_name)]
    pub dfsp: Option<FspId>,
    /// The payer.
    #[arg(long, value_name = "NAME", value_parser = dfsp_name)]
    pub payer: Option<FspId>,
    /// The payee.
    #[arg(long, value_name = "NAME", value_parser = dfsp_name)]
    pub payee: Option<FspId>,
    /// The state.
    #[arg(long, value_name = "STATE", ignore_case = true)]
    pub state: Option<State>,
    /// Only transfers that were prepared at this time or later: 2026-11-21, 2026-11-21T09:39, yesterday, 2h.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = when)]
    pub from: ParsedTime,
    /// Only transfers that were prepared before this time.
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub to: Option<ParsedTime>,
    /// The exact amount.
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    pub amount: Option<Amount>,
    /// The currency.
    #[arg(long, value_name = "CODE", value_parser = currency)]
    pub currency: Option<Currency>,
    /// Show at most this many transfers, in the order of the list.
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
    #[command(flatten)]
    pub options: ListOptions,
}

/// Arguments of `upesi transfer show`.
#[derive(Args, Clone, Debug)]
pub struct ShowArguments {
    /// The transfer.
    #[arg(value_name = "ID", value_parser = transfer_id)]
    pub id: TransferId,
    #[command(flatten)]
    pub options: ShowOptions,
}

/// A state of a transfer.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum State {
    /// Waiting for the payee.
    Reserved,
    /// Paid.
    Committed,
    /// Not paid, for any reason.
    Aborted,
    /// Not paid: the payee did not answer in time.
    Expired,
    /// Not paid: rejected because of insufficient cover or the net debit cap.
    Rejected,
}

impl State {
    const fn of_api(self) -> &'static str {
        match self {
            Self::Reserved => RESERVED,
            Self::Committed => COMMITTED,
            Self::Aborted => "ABORTED",
            Self::Expired => "EXPIRED_RESERVED",
            Self::Rejected => "ABORTED_REJECTED",
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Transfer {
    transfer_id: String,
    transfer_state: String,
    internal_state: String,
    payer: Option<Party>,
    payee: Option<Party>,
    amount: Money,
    expiration: String,
    prepared_date: String,
    completed_date: Option<String>,
    error_information: Option<ErrorInformation>,
    operator_reason: Option<String>,
}

#[derive(Deserialize)]
struct Party {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorInformation {
    error_code: String,
    error_description: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Progress {
    callbacks: Vec<CallbackRow>,
    is_whole: bool,
    settlement: Option<Settlement>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallbackRow {
    key: String,
    participant: String,
    message: String,
    state: String,
    delivered_date: Option<String>,
    attempts: Option<u32>,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settlement {
    window_id: u32,
    window_state: String,
    settlement_id: Option<u32>,
    settlement_state: Option<String>,
}

/// Runs a subcommand.
pub fn run(command: TransferCommand) -> Outcome {
    match command {
        TransferCommand::Find(arguments) => find(arguments),
        TransferCommand::Show(arguments) => show(arguments),
    }
}

const COLUMNS: &[Column] = &[
    Column::text("prepared"),
    Column::text("transfer"),
    Column::text("payer"),
    Column::text("payee"),
    Column::number("amount"),
    Column::text("currency"),
    Column::text("state"),
    Column::text("completed"),
];

/// Newest first.
const USUAL_ORDER: &str = "-prepared";

fn find(arguments: FindArguments) -> Outcome {
    let query = query(&arguments);
    let FindArguments { limit, options: ListOptions { list, zone, hub }, .. } = arguments;
    let zone = zone.chosen();
    let order = list.sort.as_deref().unwrap_or(USUAL_ORDER);
    let mut table = Table::new(COLUMNS);
    let cells = |transfer: &Transfer| cells(transfer, &zone);
    Calls::to(hub)?.search(("/transfers", &query), cells, (&mut table, limit, order))?;
    table.print(&list, USUAL_ORDER)
}

fn query(arguments: &FindArguments) -> String {
    let FindArguments { dfsp, payer, payee, state, from, to, amount, currency, options, .. } = arguments;
    let name = |name: &Option<FspId>| name.map(|name| name.to_string());
    filters([
        ("fsp", name(dfsp)),
        ("payer", name(payer)),
        ("payee", name(payee)),
        ("state", state.map(|state| state.of_api().to_owned())),
        ("from", Some(options.zone.instant(*from).to_string())),
        ("to", to.map(|to| options.zone.instant(to).to_string())),
        ("amount", amount.map(|amount| amount.to_string())),
        ("currency", currency.map(|currency| currency.to_string())),
    ])
}

fn cells(transfer: &Transfer, zone: &Zone) -> Vec<Cell> {
    let name = |party: &Option<Party>| Cell::optional(party.as_ref().map(|party| party.name.as_str()));
    vec![
        instant_cell(Some(&transfer.prepared_date), zone),
        Cell::text(&transfer.transfer_id),
        name(&transfer.payer),
        name(&transfer.payee),
        Cell::amount(transfer.amount.amount.0),
        Cell::text(&transfer.amount.currency),
        Cell::text(&transfer.internal_state),
        instant_cell(transfer.completed_date.as_deref(), zone),
    ]
}

fn show(ShowArguments { id, options: ShowOptions { json, zone, hub } }: ShowArguments) -> Outcome {
    let calls = Calls::to(hub)?;
    let whole = path(&["transfers", &id.to_string()]);
    let progress = format!("{whole}/progress");
    if json {
        let (transfer, progress) = (calls.text(&whole)?, calls.text(&progress)?);
        return write_out(&format!("{{\"transfer\":{transfer},\n \"progress\":{progress}}}\n"));
    }
    let (transfer, progress) = (calls.get(&whole)?, calls.get(&progress)?);
    write_out(&format!("{}\n", sentence(&transfer, &progress, &zone.chosen())))
}

/// The state of a payment in one sentence.
fn sentence(transfer: &Transfer, progress: &Progress, zone: &Zone) -> String {
    let error = transfer.error_information.as_ref();
    let callback = |told: &'_ CallbackRow| told.delivered_date.as_ref().map(|at| instant_text(at, zone));
    let delivered: Vec<_> = progress.callbacks.iter().map(callback).collect();
    let story = Story {
        payer: transfer.payer.as_ref().map(|party| &*party.name),
        payee: transfer.payee.as_ref().map(|party| &*party.name),
        money: transfer.amount.text(),
        public_state: &transfer.transfer_state,
        state: &transfer.internal_state,
        since: instant_text(transfer.completed_date.as_ref().unwrap_or(&transfer.prepared_date), zone),
        expires: instant_text(&transfer.expiration, zone),
        error: error.map(|error| (&*error.error_code, &*error.error_description)),
        operator_reason: transfer.operator_reason.as_deref(),
        callbacks: progress.callbacks.iter().zip(delivered).map(told).collect(),
        is_whole: progress.is_whole,
        settlement: progress.settlement.as_ref().map(|one| StorySettlement {
            window: one.window_id,
            window_state: &one.window_state,
            settlement: one.settlement_id.zip(one.settlement_state.as_deref()),
        }),
    };
    story.sentence(&upesi_console::ENGLISH)
}

fn told((told, delivered): (&CallbackRow, Option<String>)) -> StoryCallback<'_> {
    StoryCallback {
        key: told.key.clone(),
        participant: &told.participant,
        message: &told.message,
        state: &told.state,
        delivered,
        attempts: told.attempts,
        reason: told.reason.as_deref(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(transfer: &Value, progress: &Value) -> String {
        let zone = Zone::parse("EAT-3").unwrap();
        let read = (transfer.to_string(), progress.to_string());
        sentence(&serde_json::from_str(&read.0).unwrap(), &serde_json::from_str(&read.1).unwrap(), &zone)
    }

    fn transfer(state: &str, completed: Option<&str>) -> Value {
        json!({
            "transferId": "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d",
            "transferState": if state.len() > 9 { "ABORTED" } else { state },
            "internalState": state,
            "payer": {"name": "greenbank", "accountId": 3},
            "payee": {"name": "bluewallet", "accountId": 5},
            "amount": {"amount": "125.5", "currency": "KES"},
            "expiration": "2026-11-21T09:40:21.000Z",
            "preparedDate": "2026-11-21T09:39:53.000Z",
            "completedDate": completed,
            "errorInformation": null,
            "operatorReason": null,
        })
    }

    fn callback(participant: &str, message: &str, state: &str) -> Value {
        let is_delivered = state == "delivered";
        json!({
            "key": "3-20-0",
            "participant": participant,
            "message": message,
            "state": state,
            "deliveredDate": is_delivered.then_some("2026-11-21T09:39:53.012Z"),
            "attempts": (!is_delivered).then_some(7),
            "reason": (!is_delivered).then_some("answered 503"),
        })
    }

    #[test]
    fn sentence_of_a_reserved_payment_names_the_next_step() {
        let reserved = transfer("RESERVED", None);
        let of = |state| {
            json!({
                "callbacks": [callback("bluewallet", "POST /transfers", state)],
                "isWhole": true,
                "settlement": null,
            })
        };
        assert_eq!(
            told(&reserved, &of("delivered")),
            "greenbank pays 125.5 KES to bluewallet: RESERVED since 2026-11-21 12:39:53.000+03:00; bluewallet has to \
             answer before 2026-11-21 12:40:21.000+03:00; bluewallet got POST /transfers by 2026-11-21 \
             12:39:53.012+03:00; it is not in a settlement window yet."
        );
        assert_eq!(
            told(&reserved, &of("parked")),
            "greenbank pays 125.5 KES to bluewallet: RESERVED since 2026-11-21 12:39:53.000+03:00; an operator has to \
             act: upesi callback redeliver 3-20-0; POST /transfers to bluewallet is parked after 7 attempts \
             (answered 503); it is not in a settlement window yet."
        );
        assert!(told(&reserved, &of("pending")).contains("; the hub has to deliver the pending callbacks; "));
    }

    #[test]
    fn sentence_of_an_ended_payment_names_its_settlement() {
        let committed = transfer("COMMITTED", Some("2026-11-21T09:39:54.000Z"));
        let of = |settlement: Value| {
            let told = callback("greenbank", "PUT /transfers/{ID}", "delivered");
            json!({"callbacks": [told], "isWhole": true, "settlement": settlement})
        };
        let open = of(json!({
            "windowId": 3, "windowState": "OPEN", "settlementId": null, "settlementState": null,
        }));
        let end = "; no action is needed; greenbank got PUT /transfers/{ID} by 2026-11-21 12:39:53.012+03:00; settlement \
                   window 3 is OPEN, not in a settlement yet.";
        assert!(told(&committed, &open).ends_with(end), "{}", told(&committed, &open));
        let settled = of(json!({
            "windowId": 3, "windowState": "SETTLED", "settlementId": 2, "settlementState": "SETTLED",
        }));
        assert!(told(&committed, &settled).ends_with("window 3 is SETTLED, settlement 2 is SETTLED."));
        assert!(told(&committed, &of(Value::Null)).ends_with("; it was settled when it was committed."));
        let mut expired = transfer("EXPIRED_RESERVED", Some("2026-11-21T09:40:21.000Z"));
        expired["errorInformation"] =
            json!({"errorCode": "3303", "errorDescription": "Transfer\u{1b}expired"});
        let shown = told(&expired, &json!({"callbacks": [], "isWhole": false, "settlement": null}));
        assert!(shown.contains("(3303 Transfer\\u001bexpired)"), "{shown}");
        assert!(shown.ends_with("times of all deliveries; there is nothing to settle."), "{shown}");
    }
}
