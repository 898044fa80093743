//! `upesi position` and `upesi cap`: positions and net debit caps.

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;
use upesi_client::admin_api::{ApiAmount, ApiFlag};
use upesi_http::Method;
use upesi_process::exit::{Failure, Outcome};
use upesi_process::values::{currency, dfsp_name};
use upesi_types::text::path;
use upesi_types::{Amount, Currency, FspId};

use super::calls::{Calls, ChangeOptions, done, percent_cell, shown_amount};
use super::hub::HubArguments;
use super::table::{Cell, Column, ListArguments, Table};

const BASIS_POINTS_PER_PERCENT: i64 = 100;
/// The default alarm of a cap in percent, as the hub sets it for a new DFSP.
const ALARM_PERCENT_DEFAULT: &str = "10";

/// Arguments of `upesi position`.
#[derive(Args, Clone, Debug)]
pub struct PositionArguments {
    /// Only this DFSP.
    #[arg(value_name = "DFSP", value_parser = dfsp_name)]
    pub dfsp: Option<FspId>,
    /// Only positions in this currency.
    #[arg(long, value_name = "CODE", value_parser = currency)]
    pub currency: Option<Currency>,
    /// Only positions that use at least this percentage of the lower of cap and cover.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(i64).range(0..=10_000))]
    pub above: Option<i64>,
    #[command(flatten)]
    pub list: ListArguments,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Subcommands of `upesi cap`.
#[derive(Debug, Subcommand)]
pub enum CapCommand {
    /// List net debit caps.
    List(CapListArguments),
    /// Set a net debit cap.
    ///
    /// One person may lower it. A second person must approve a raise.
    Set(CapSetArguments),
}

/// Arguments of `upesi cap list`.
#[derive(Args, Clone, Debug)]
pub struct CapListArguments {
    /// Only this DFSP.
    #[arg(value_name = "DFSP", value_parser = dfsp_name)]
    pub dfsp: Option<FspId>,
    #[command(flatten)]
    pub list: ListArguments,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi cap set`.
#[derive(Args, Clone, Debug)]
pub struct CapSetArguments {
    /// The DFSP.
    #[arg(value_name = "DFSP", value_parser = dfsp_name)]
    pub dfsp: FspId,
    /// The currency.
    #[arg(value_name = "CODE", value_parser = currency)]
    pub currency: Currency,
    /// The cap. 0 stops the DFSP's payments.
    #[arg(value_name = "AMOUNT", value_parser = not_negative)]
    pub amount: Amount,
    /// Alarm threshold of the position, as a percentage of the lower of cap and cover; by default unchanged.
    #[arg(long, value_name = "PERCENT", value_parser = not_negative)]
    pub alarm: Option<Amount>,
    #[command(flatten)]
    pub change: ChangeOptions,
}

fn not_negative(text: &str) -> Result<Amount, String> {
    let amount = Amount::parse_decimal(text).map_err(|error| format!("{text} {error}"))?;
    if amount.is_negative() { Err("give 0 or more".to_owned()) } else { Ok(amount) }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Position {
    participant: String,
    currency: String,
    is_active: ApiFlag,
    position: ApiAmount,
    cover: ApiAmount,
    cap: Option<ApiAmount>,
    reserved: ApiAmount,
    utilisation_basis_points: Option<i64>,
}

#[derive(Deserialize)]
struct Cap {
    /// Missing if the caps of a single DFSP are listed.
    #[serde(default)]
    name: String,
    currency: String,
    limit: CapValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CapValue {
    value: ApiAmount,
    alarm_percentage: ApiAmount,
}

const POSITIONS: &[Column] = &[
    Column::text("dfsp"),
    Column::text("currency"),
    Column::number("position"),
    Column::number("cap"),
    Column::number("cover"),
    Column::number("used"),
    Column::number("reserved"),
    Column::text("state"),
];

const POSITIONS_PATH: &str = "/positions";

/// Lists positions, the highest use first.
pub fn positions(arguments: PositionArguments) -> Outcome {
    let PositionArguments { dfsp, currency, above, list, hub } = arguments;
    let mut table = Table::new(POSITIONS);
    for (found, json) in Calls::to(hub)?.items::<Position>(POSITIONS_PATH)? {
        let used = found.utilisation_basis_points;
        let is_meant = dfsp.is_none_or(|dfsp| dfsp.as_str() == found.participant)
            && currency.is_none_or(|currency| currency.as_str() == found.currency)
            && above.is_none_or(|above| used.is_some_and(|used| used >= above * BASIS_POINTS_PER_PERCENT));
        if is_meant {
            table.add(position_cells(&found), json);
        }
    }
    table.print(&list, "-used")
}

fn position_cells(found: &Position) -> Vec<Cell> {
    vec![
        Cell::text(&found.participant),
        Cell::text(&found.currency),
        Cell::amount(found.position.0),
        Cell::optional_amount(found.cap.map(|cap| cap.0)),
        Cell::amount(found.cover.0),
        percent_cell(found.utilisation_basis_points),
        Cell::amount(found.reserved.0),
        Cell::text(if found.is_active.0 { "active" } else { "suspended" }),
    ]
}

const CAPS: &[Column] =
    &[Column::text("dfsp"), Column::text("currency"), Column::number("cap"), Column::number("alarm")];

/// Lists caps, or sets one.
pub fn caps(command: CapCommand) -> Outcome {
    match command {
        CapCommand::List(CapListArguments { dfsp, list, hub }) => {
            let mut table = Table::new(CAPS);
            for (found, json) in Calls::to(hub)?.items::<Cap>("/participants/limits")? {
                if dfsp.is_some_and(|dfsp| dfsp.as_str() != found.name) {
                    continue;
                }
                let alarm = found.limit.alarm_percentage.0;
                let cells = vec![
                    Cell::text(&found.name),
                    Cell::text(&found.currency),
                    Cell::amount(found.limit.value.0),
                    Cell::shown(alarm.units(), format!("{alarm} %")),
                ];
                table.add(cells, json);
            }
            table.print(&list, "dfsp")
        }
        CapCommand::Set(CapSetArguments { dfsp, currency, amount, alarm, change }) => {
            let calls = Calls::for_change(change)?;
            let path = path(&["participants", dfsp.as_str(), "limits"]);
            let alarm = match alarm {
                Some(alarm) => alarm.to_string(),
                None => present_alarm(&calls, &path, currency)?,
            };
            let limit = json!({
                "type": "NET_DEBIT_CAP",
                "value": amount.to_string(),
                "alarmPercentage": alarm,
            });
            let body = json!({"currency": currency.as_str(), "limit": limit});
            calls.send(Method::PUT, &path, &body)?;
            let cap = shown_amount(amount, currency.as_str());
            done(&format!("the net debit cap of {dfsp} is {cap}, with an alarm at {alarm} %"))
        }
    }
}

fn present_alarm(calls: &Calls, path: &str, currency: Currency) -> Result<String, Failure> {
    let mut caps = calls.items::<Cap>(path)?.into_iter().map(|(cap, _)| cap);
    let present = caps.find(|cap| cap.currency == currency.as_str());
    Ok(present
        .map_or_else(|| ALARM_PERCENT_DEFAULT.to_owned(), |cap| cap.limit.alarm_percentage.0.to_string()))
}
