//! `upesi admin operators`, `suspend`, `resume`, `roles` and `remove-credential`: operators of the admin port and their
//! credentials.

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use upesi_http::Method;
use upesi_process::exit::Outcome;
use upesi_types::text::{Escaped, path};

use super::calls::{Calls, ChangeOptions, ListOptions, done, instant_cell};
use super::table::{Cell, Column, Table};

/// Arguments of `upesi admin suspend` and `upesi admin resume`.
#[derive(Args, Clone, Debug)]
pub struct OperatorArguments {
    /// Name of the operator.
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub change: ChangeOptions,
}

/// Arguments of `upesi admin roles`.
#[derive(Args, Clone, Debug)]
pub struct RolesArguments {
    /// New role of the operator. May be repeated; the roles replace the earlier ones.
    #[arg(long = "role", value_name = "ROLE", required = true)]
    pub roles: Vec<String>,
    #[command(flatten)]
    pub operator: OperatorArguments,
}

/// Arguments of `upesi admin remove-credential`.
#[derive(Args, Clone, Debug)]
pub struct RemoveCredentialArguments {
    #[command(flatten)]
    pub operator: OperatorArguments,
    /// Number of the credential, as `upesi admin operators` lists it.
    #[arg(value_name = "ID")]
    pub credential: u64,
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

/// Lists operators, one row per credential.
pub fn list(ListOptions { list, zone, hub }: ListOptions) -> Outcome {
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

/// Makes an operator inactive, or active again.
pub fn set_activity(arguments: OperatorArguments, is_active: bool) -> Outcome {
    let state = if is_active { "active" } else { "inactive: its credentials are rejected" };
    update(arguments, &json!({"isActive": is_active}), state)
}

/// Sets the roles of an operator.
pub fn set_roles(RolesArguments { roles, operator }: RolesArguments) -> Outcome {
    update(operator, &json!({"roles": roles}), &roles.join(", "))
}

fn update(OperatorArguments { name, change }: OperatorArguments, body: &Value, state: &str) -> Outcome {
    Calls::for_change(change)?.send(Method::PUT, &path(&["operators", &name]), body)?;
    done(&format!("{} is {}", Escaped(&name), Escaped(state)))
}

/// Removes a token, a password or an enrolment of an operator.
pub fn remove_credential(
    RemoveCredentialArguments { operator, credential }: RemoveCredentialArguments,
) -> Outcome {
    let OperatorArguments { name, change } = operator;
    let path = path(&["operators", &name, "credentials", &credential.to_string()]);
    Calls::for_change(change)?.delete(&path)?;
    done(&format!("credential {credential} of {} is removed", Escaped(&name)))
}
