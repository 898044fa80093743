//! `upesi callback` and `upesi lane`: undelivered callbacks, their redelivery, and the callback lanes of DFSPs.

use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize;
use serde_json::json;
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_process::times::Zone;
use upesi_process::values::dfsp_name;
use upesi_types::FspId;
use upesi_types::text::{Escaped, path, url_part};

use super::calls::{
    Calls, ListOptions, Page, ShowOptions, done, filters, instant_cell, instant_text, items, percent_cell,
};
use super::hub::{HubArguments, reason};
use super::table::{Cell, Column, ListArguments, Table};

/// Number of callbacks per API call.
const PAGE: usize = 1_000;
/// Hundredths of a percent in a whole.
const BASIS_POINTS: i64 = 10_000;

/// Subcommands of `upesi callback`.
#[derive(Debug, Subcommand)]
pub enum CallbackCommand {
    /// List undelivered callbacks, newest first.
    List(CallbackListArguments),
    /// Show one callback.
    Show(ShowArguments),
    /// Redeliver parked callbacks.
    Redeliver(RedeliverArguments),
}

/// Arguments of `upesi callback list`.
#[derive(Args, Clone, Debug)]
pub struct CallbackListArguments {
    /// Only callbacks in this state.
    #[arg(long, value_name = "STATE")]
    pub state: Option<State>,
    /// Only callbacks to this DFSP.
    #[arg(long, value_name = "NAME", value_parser = dfsp_name)]
    pub dfsp: Option<FspId>,
    /// List at most this many callbacks.
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub limit: u32,
    #[command(flatten)]
    pub options: ListOptions,
}

/// Arguments of `upesi callback show`.
#[derive(Args, Clone, Debug)]
pub struct ShowArguments {
    /// Key of the callback, such as 3-47-0.
    #[arg(value_name = "KEY")]
    pub callback: String,
    #[command(flatten)]
    pub options: ShowOptions,
}

/// Arguments of `upesi callback redeliver`.
#[derive(Args, Clone, Debug)]
pub struct RedeliverArguments {
    /// Keys of the callbacks.
    #[arg(value_name = "KEY", required_unless_present_any = ["all", "dfsp"])]
    pub keys: Vec<String>,
    /// All parked callbacks.
    #[arg(long, conflicts_with = "keys")]
    pub all: bool,
    /// All parked callbacks to this DFSP.
    #[arg(long, value_name = "NAME", value_parser = dfsp_name, conflicts_with = "keys")]
    pub dfsp: Option<FspId>,
    /// Reason, recorded in the audit trail.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi lane`.
#[derive(Args, Clone, Debug)]
pub struct LaneArguments {
    /// Only this DFSP.
    #[arg(value_name = "DFSP", value_parser = dfsp_name)]
    pub dfsp: Option<FspId>,
    #[command(flatten)]
    pub list: ListArguments,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// A state of an undelivered callback.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum State {
    /// Not delivered yet, or being retried.
    Pending,
    /// No longer retried, until an operator redelivers it.
    Parked,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Callback {
    key: String,
    participant: String,
    state: String,
    message: Option<String>,
    transfer_id: Option<String>,
    created_date: Option<String>,
    attempts: Option<i64>,
    reason: Option<String>,
    parked_date: Option<String>,
}

#[derive(Deserialize)]
struct RedeliveryAnswer {
    redelivered: u64,
    remaining: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lane {
    participant: Option<String>,
    state: String,
    queued: i64,
    retrying: i64,
    retrying_on_disk: i64,
    in_flight: i64,
    delivered: i64,
    failed: i64,
    parked: i64,
    last_error: Option<String>,
    response_times: ResponseTimes,
}

/// Response times of a DFSP in the last minutes.
#[derive(Deserialize)]
struct ResponseTimes {
    lookups: Option<Answers>,
    quotes: Option<Answers>,
    transfers: Option<Answers>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answers {
    answered: i64,
    failed: i64,
    unanswered: i64,
    undelivered: i64,
    p50_ms: Option<i64>,
    p99_ms: Option<i64>,
}

impl ResponseTimes {
    /// The answers by kind of request.
    fn kinds(&self) -> impl Iterator<Item = (&'static str, &Answers)> {
        let kinds = [("lookup", &self.lookups), ("quote", &self.quotes), ("transfer", &self.transfers)];
        kinds.into_iter().filter_map(|(kind, answers)| Some((kind, answers.as_ref()?)))
    }

    /// The kind of request with the longest p99, its p50 and p99, and the share of failed requests of all kinds.
    fn cells(&self) -> [Cell; 4] {
        let slowest = self.kinds().max_by_key(|(_, answers)| answers.p99_ms);
        let ms = |ms: Option<i64>| ms.map_or_else(Cell::empty, |ms| Cell::shown(ms, format!("{ms} ms")));
        let (failed, all) = self.kinds().fold((0, 0), |(failed, all), (_, answers)| {
            let bad = answers.failed + answers.unanswered + answers.undelivered;
            (failed + bad, all + bad + answers.answered)
        });
        // Rounded up: one failure in a million is more than 0.
        let share = (all > 0).then(|| (failed * BASIS_POINTS + all - 1) / all);
        [
            ms(slowest.and_then(|(_, answers)| answers.p50_ms)),
            ms(slowest.and_then(|(_, answers)| answers.p99_ms)),
            Cell::optional(slowest.map(|(kind, _)| kind)),
            percent_cell(share),
        ]
    }
}

/// Runs a subcommand.
pub fn run(command: CallbackCommand) -> Outcome {
    match command {
        CallbackCommand::List(arguments) => list(arguments),
        CallbackCommand::Show(arguments) => show(arguments),
        CallbackCommand::Redeliver(arguments) => redeliver(arguments),
    }
}

const COLUMNS: &[Column] = &[
    Column::text("created"),
    Column::text("key"),
    Column::text("dfsp"),
    Column::text("state"),
    Column::number("attempts"),
    Column::text("message"),
    Column::text("transfer"),
    Column::text("reason"),
];

fn list(arguments: CallbackListArguments) -> Outcome {
    let CallbackListArguments { state, dfsp, limit, options } = arguments;
    let ListOptions { list, zone, hub } = options;
    let (calls, zone) = (Calls::to(hub)?, zone.chosen());
    let state = state.map(|state| match state {
        State::Pending => "pending".to_owned(),
        State::Parked => "parked".to_owned(),
    });
    let filter = filters([("state", state), ("fsp", dfsp.map(|dfsp| dfsp.to_string()))]);
    let mut left = usize::try_from(limit).unwrap_or(usize::MAX);
    let (mut table, mut after) = (Table::new(COLUMNS), String::new());
    while left > 0 {
        let page: Page = calls.get(&format!("/callbacks?limit={}{filter}{after}", PAGE.min(left)))?;
        for (callback, json) in items::<Callback>("/callbacks", page.items)? {
            table.add(cells(&callback, &zone), json);
            left -= 1;
        }
        match page.next {
            Some(next) => after = format!("&after={}", url_part(&next)),
            None => break,
        }
    }
    table.print(&list, "-created")
}

fn cells(callback: &Callback, zone: &Zone) -> Vec<Cell> {
    vec![
        instant_cell(callback.created_date.as_deref(), zone),
        Cell::text(&callback.key),
        Cell::text(&callback.participant),
        Cell::text(&callback.state),
        callback.attempts.map_or_else(Cell::empty, Cell::number),
        Cell::optional(callback.message.as_deref()),
        Cell::optional(callback.transfer_id.as_deref()),
        Cell::optional(callback.reason.as_deref()),
    ]
}

fn show(ShowArguments { callback, options: ShowOptions { json, zone, hub } }: ShowArguments) -> Outcome {
    let calls = Calls::to(hub)?;
    let path = path(&["callbacks", &callback]);
    if json {
        return calls.print(&path);
    }
    let found: Callback = calls.get(&path)?;
    let zone = zone.chosen();
    let instant = |text: &Option<String>| text.as_ref().map(|text| instant_text(text, &zone));
    let lines = [
        ("key", Some(found.key)),
        ("dfsp", Some(found.participant)),
        ("state", Some(found.state)),
        ("message", found.message),
        ("transfer", found.transfer_id),
        ("created", instant(&found.created_date)),
        ("attempts", found.attempts.map(|attempts| attempts.to_string())),
        ("reason", found.reason),
        ("parked", instant(&found.parked_date)),
    ];
    let line = |(name, value): (&str, Option<String>)| Some(format!("{name:<10}{}\n", Escaped(&value?)));
    write_out(&lines.into_iter().filter_map(line).collect::<String>())
}

fn redeliver(arguments: RedeliverArguments) -> Outcome {
    let RedeliverArguments { keys, dfsp, reason, hub, .. } = arguments;
    let body = match (keys.is_empty(), dfsp) {
        (false, _) => json!({"keys": keys}),
        (true, Some(dfsp)) => json!({"all": true, "fsp": dfsp.as_str()}),
        (true, None) => json!({"all": true}),
    };
    let calls = Calls::to(hub)?;
    let calls = match reason {
        Some(reason) => calls.because(&reason),
        None => calls,
    };
    let RedeliveryAnswer { redelivered, remaining } = calls.post("/callbacks/redeliver", &body)?;
    done(&match redelivered {
        1 => "1 callback is being redelivered".to_owned(),
        count => format!("{count} callbacks are being redelivered"),
    })?;
    match remaining {
        0 => Ok(()),
        left => Err(Failure::new(
            Exit::Temporary,
            format!("{left} are still parked: the hub could not accept them"),
        )),
    }
}

const LANES: &[Column] = &[
    Column::text("dfsp"),
    Column::text("state"),
    Column::number("queued"),
    Column::number("retrying"),
    Column::number("in-flight"),
    Column::number("delivered"),
    Column::number("failed"),
    Column::number("parked"),
    Column::number("p50"),
    Column::number("p99"),
    Column::text("slowest"),
    Column::number("errors"),
    Column::text("last-error"),
];

/// Lists lanes, those with the most undelivered callbacks first.
pub fn lanes(LaneArguments { dfsp, list, hub }: LaneArguments) -> Outcome {
    let mut table = Table::new(LANES);
    for (lane, json) in Calls::to(hub)?.items::<Lane>("/lanes")? {
        let name = lane.participant.as_deref();
        if dfsp.is_some_and(|dfsp| Some(dfsp.as_str()) != name) {
            continue;
        }
        let [p50, p99, slowest, errors] = lane.response_times.cells();
        let cells = vec![
            Cell::optional(name),
            Cell::text(&lane.state),
            Cell::number(lane.queued),
            Cell::number(lane.retrying + lane.retrying_on_disk),
            Cell::number(lane.in_flight),
            Cell::number(lane.delivered),
            Cell::number(lane.failed),
            Cell::number(lane.parked),
            p50,
            p99,
            slowest,
            errors,
            Cell::optional(lane.last_error.as_deref()),
        ];
        table.add(cells, json);
    }
    table.print(&list, "-retrying")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: &[Column] =
        &[Column::number("p50"), Column::number("p99"), Column::text("slowest"), Column::number("errors")];

    fn shown(response_times: &str) -> Vec<String> {
        let times: ResponseTimes = serde_json::from_str(response_times).unwrap();
        let mut table = Table::new(TIMES);
        table.add(times.cells().to_vec(), String::new());
        let text = table.to_text();
        let cells = text.lines().last().unwrap().split("  ").map(|cell| cell.trim().to_owned());
        cells.filter(|cell| !cell.is_empty()).collect()
    }

    /// Shows the slowest kind of request, and the share of failed requests of all kinds.
    #[test]
    fn lane_shows_slowest_kind_and_share_of_errors() {
        let times = r#"{"minutes":5,
            "lookups":{"answered":0,"failed":0,"unanswered":1,"undelivered":0},
            "quotes":{"answered":1997,"failed":1,"unanswered":0,"undelivered":0,"p50Ms":4,"p99Ms":2100},
            "transfers":{"answered":1000,"failed":0,"unanswered":0,"undelivered":1,"p50Ms":900,"p99Ms":1000},
            "failuresByAsker":[]}"#;
        assert_eq!(shown(times), ["4 ms", "2100 ms", "quote", "0.10 %"]);
        assert_eq!(shown(r#"{"minutes":5,"failuresByAsker":[]}"#), ["-", "-", "-", "-"]);
        let unanswered = r#"{"lookups":{"answered":0,"failed":0,"unanswered":3,"undelivered":0}}"#;
        assert_eq!(shown(unanswered), ["-", "-", "lookup", "100.00 %"]);
    }
}
