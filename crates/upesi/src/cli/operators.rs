//! `upesi admin operators`: the operators of the admin port, with their credentials.

use clap::Args;
use serde::Deserialize;
use upesi_hub::exit::Outcome;
use upesi_hub::times::ZoneArguments;

use super::calls::{Calls, instant_cell};
use super::hub::HubArguments;
use super::table::{Cell, Column, ListArguments, Table};

/// Arguments of `upesi admin operators`.
#[derive(Args, Clone, Debug)]
pub struct OperatorsArguments {
    #[command(flatten)]
    pub list: ListArguments,
    #[command(flatten)]
    pub zone: ZoneArguments,
    #[command(flatten)]
    pub hub: HubArguments,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Operator {
    name: String,
    roles: Vec<String>,
    participant: Option<String>,
    is_active: bool,
    credentials: Vec<Credential>,
}

#[derive(Deserialize)]
struct Credential {
    id: i64,
    kind: String,
    expiration: Option<String>,
}

const PATH: &str = "/operators";

const COLUMNS: &[Column] = &[
    Column::text("operator"),
    Column::text("state"),
    Column::text("roles"),
    Column::text("dfsp"),
    Column::number("credential"),
    Column::text("kind"),
    Column::text("ends"),
];

/// Lists operators, a line per credential.
pub fn list(OperatorsArguments { list, zone, hub }: OperatorsArguments) -> Outcome {
    let (calls, zone) = (Calls::to(hub)?, zone.chosen());
    if list.json {
        return calls.print(PATH);
    }
    let mut table = Table::new(COLUMNS);
    for (operator, json) in calls.items::<Operator>(PATH)? {
        let of_operator = [
            Cell::text(&operator.name),
            Cell::text(if operator.is_active { "active" } else { "inactive" }),
            Cell::text(&operator.roles.join(" ")),
            Cell::optional(operator.participant.as_deref()),
        ];
        let mut credentials = operator.credentials.iter().map(|one| {
            [Cell::number(one.id), Cell::text(&one.kind), instant_cell(one.expiration.as_deref(), &zone)]
        });
        let none = || [Cell::empty(), Cell::empty(), Cell::empty()];
        let first = credentials.next().unwrap_or_else(none);
        for credential in std::iter::once(first).chain(credentials) {
            table.add([&of_operator[..], &credential].concat(), json.clone());
        }
    }
    table.print(&list, "operator")
}
