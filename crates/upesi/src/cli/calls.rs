//! Admin API calls of the commands for operators' daily work.

use std::fmt::Write as _;

use clap::Args;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::Runtime;
use upesi_client::admin_api::{AdminApi, AdminError, ApiAmount};
use upesi_http::{Bytes, Method};
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_process::terminal::note;
use upesi_process::times::{Zone, ZoneArguments};
use upesi_types::text::{Escaped, url_part};
use upesi_types::{Amount, Timestamp};

use super::hub::{HubArguments, connect, failure, reason};
use super::table::{Cell, ListArguments, Table};

/// Number of items per API call of a search.
const PAGE: usize = 1_000;
/// Number of additional rows that a search may hold before it sorts and truncates them.
const SLACK: usize = 10_000;

/// Output options for a single object, and the hub to call.
#[derive(Args, Clone, Debug)]
pub struct ShowOptions {
    /// Print the hub's response as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub zone: ZoneArguments,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Output options for a list, and the hub to call.
#[derive(Args, Clone, Debug)]
pub struct ListOptions {
    #[command(flatten)]
    pub list: ListArguments,
    #[command(flatten)]
    pub zone: ZoneArguments,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Reason of a change, and the hub to call.
#[derive(Args, Clone, Debug)]
pub struct ChangeOptions {
    /// Reason of the change, recorded in the audit trail.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: String,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// A page of a list.
#[derive(Deserialize)]
pub(super) struct Page {
    #[serde(alias = "callbacks", alias = "entries", alias = "transfers")]
    pub items: Vec<Box<RawValue>>,
    pub next: Option<String>,
}

/// An amount with its currency in a response.
#[derive(Deserialize)]
pub(super) struct Money {
    pub amount: ApiAmount,
    pub currency: String,
}

impl Money {
    /// The amount with its currency.
    pub fn text(&self) -> String {
        shown_amount(self.amount.0, &self.currency)
    }
}

/// The admin API of one hub.
pub struct Calls {
    api: AdminApi,
    runtime: Runtime,
}

impl Calls {
    /// The API of the hub that the arguments select.
    ///
    /// # Errors
    /// 64 if the hub cannot be called with these arguments.
    pub fn to(hub: HubArguments) -> Result<Self, Failure> {
        let (api, runtime) = connect(hub)?;
        Ok(Self { api, runtime })
    }

    /// The API of the hub, with the reason for a change.
    ///
    /// # Errors
    /// As [`Self::to`].
    pub fn for_change(ChangeOptions { reason, hub }: ChangeOptions) -> Result<Self, Failure> {
        Ok(Self::to(hub)?.because(&reason))
    }

    /// Sets the reason for changes.
    pub fn because(self, reason: &str) -> Self {
        Self { api: self.api.with_reason(reason), ..self }
    }

    /// The text of a response.
    pub fn text(&self, path: &str) -> Result<String, Failure> {
        let bytes = self.runtime.block_on(self.api.get_bytes(path)).map_err(|error| failure(&error))?;
        String::from_utf8(bytes.into()).map_err(|_| not_understood(path, "it is not UTF-8"))
    }

    /// Prints the text of a response, and a line feed.
    pub fn print(&self, path: &str) -> Outcome {
        done(&self.text(path)?)
    }

    /// The text of a response with any status, and whether the status is a success.
    pub fn any(&self, path: &str) -> Result<(bool, String), Failure> {
        let (status, bytes) =
            self.runtime.block_on(self.api.get_any(path)).map_err(|error| failure(&error))?;
        let text = String::from_utf8(bytes.into()).map_err(|_| not_understood(path, "it is not UTF-8"))?;
        Ok((status.is_success(), text))
    }

    /// A parsed response.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.runtime.block_on(self.api.get(path)).map_err(|error| failure(&error))
    }

    /// The items of an array, each with its JSON text.
    pub fn items<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<(T, String)>, Failure> {
        items(path, self.get(path)?)
    }

    /// Puts the items of a list with a cursor into a table, which keeps the first `limit` rows in that order. A note
    /// reports how many were found if there are more.
    pub fn search<T: DeserializeOwned>(
        &self,
        (path, query): (&str, &str),
        cells: impl Fn(&T) -> Vec<Cell>,
        (table, limit, order): (&mut Table, u32, &str),
    ) -> Outcome {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let (mut cursor, mut found, mut unsorted) = (String::new(), 0, 0);
        loop {
            let page: Page = self.get(&format!("{path}?limit={PAGE}{query}{cursor}"))?;
            for (item, json) in items::<T>(path, page.items)? {
                table.add(cells(&item), json);
                (found, unsorted) = (found + 1, unsorted + 1);
            }
            if unsorted > SLACK {
                table.keep(limit, order)?;
                unsorted = 0;
            }
            match page.next {
                Some(next) => cursor = format!("&cursor={}", url_part(&next)),
                None => break,
            }
        }
        table.keep(limit, order)?;
        if found > limit {
            note(format_args!("{limit} of {found} are shown; use --limit to show more"));
        }
        Ok(())
    }

    /// Makes a change.
    ///
    /// # Errors
    /// 75 if a second person has to approve it.
    pub fn send(&self, method: Method, path: &str, body: &Value) -> Outcome {
        self.runtime.block_on(self.api.send(method, path, &body.to_string())).map_err(|error| waiting(&error))
    }

    /// Removes an object.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn delete(&self, path: &str) -> Outcome {
        self.runtime.block_on(self.api.send(Method::DELETE, path, "")).map_err(|error| waiting(&error))
    }

    /// Makes a change, and parses the response.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Failure> {
        let body = Bytes::from(body.to_string());
        let answer = self.runtime.block_on(self.api.post(path, "application/json", body));
        answer.map_err(|error| waiting(&error))
    }
}

/// The items of an array, each with its JSON text.
pub(super) fn items<T: DeserializeOwned>(
    path: &str,
    array: Vec<Box<RawValue>>,
) -> Result<Vec<(T, String)>, Failure> {
    let item = |raw: Box<RawValue>| match serde_json::from_str(raw.get()) {
        Ok(item) => Ok((item, raw.get().to_owned())),
        Err(error) => Err(not_understood(path, error)),
    };
    array.into_iter().map(item).collect()
}

/// Query parameters, without the first one. Parameters without a value are omitted.
pub(super) fn filters<const N: usize>(filters: [(&str, Option<String>); N]) -> String {
    let mut query = String::new();
    for (name, value) in filters {
        if let Some(value) = value {
            // Writing into a String cannot fail.
            let _ = write!(query, "&{name}={}", url_part(&value));
        }
    }
    query
}

fn not_understood(path: &str, reason: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Failure, format!("{path}: cannot parse the hub's response ({reason})"))
}

/// A pending change has not been made yet, but is not a mistake.
fn waiting(error: &AdminError) -> Failure {
    match error {
        AdminError::Waiting { approval, .. } => Failure::new(
            Exit::Temporary,
            format!("the change needs a second person: have it approved (upesi admin approve {approval})"),
        ),
        other => failure(other),
    }
}

/// An instant of the hub's response as a cell in a time zone.
pub(super) fn instant_cell(text: Option<&str>, zone: &Zone) -> Cell {
    match text.and_then(Timestamp::parse_iso) {
        Some(at) => Cell::instant(at, zone.show(at)),
        None => Cell::optional(text),
    }
}

/// An instant of the hub's response with milliseconds, for a sentence.
pub(super) fn instant_text(text: &str, zone: &Zone) -> String {
    Timestamp::parse_iso(text).map_or_else(|| Escaped(text).to_string(), |at| zone.show_ms(at))
}

/// Hundredths of a percent as a cell in percent.
pub(super) fn percent_cell(basis_points: Option<i64>) -> Cell {
    basis_points.map_or_else(Cell::empty, |points| {
        Cell::shown(points, format!("{}.{:02} %", points / 100, points.unsigned_abs() % 100))
    })
}

/// Prints a line that confirms a change.
pub(super) fn done(text: &str) -> Outcome {
    write_out(&format!("{text}\n"))
}

/// An amount of the hub's response as text.
pub(super) fn shown_amount(amount: Amount, currency: &str) -> String {
    format!("{amount} {}", Escaped(currency))
}
