//! `upesi settlement models`: settlement models and the currencies that they govern.

use clap::Args;
use serde::Deserialize;
use upesi_client::admin_api::ApiFlag;
use upesi_process::exit::Outcome;

use super::calls::Calls;
use super::hub::HubArguments;
use super::table::{Cell, Column, ListArguments, Table};

/// Arguments of `upesi settlement models`.
#[derive(Args, Clone, Debug)]
pub struct ModelsArguments {
    #[command(flatten)]
    pub list: ListArguments,
    #[command(flatten)]
    pub hub: HubArguments,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    name: String,
    is_active: ApiFlag,
    settlement_granularity: String,
    settlement_delay: String,
    currency: Option<String>,
    ledger_account_type_id: String,
    settlement_account_type_id: String,
}

const COLUMNS: &[Column] = &[
    Column::text("model"),
    Column::text("state"),
    Column::text("currency"),
    Column::text("granularity"),
    Column::text("delay"),
    Column::text("accounts"),
    Column::text("cover"),
];

/// Lists the settlement models.
pub fn list(ModelsArguments { list, hub }: ModelsArguments) -> Outcome {
    let mut table = Table::new(COLUMNS);
    for (model, json) in Calls::to(hub)?.items::<Model>("/settlementModels")? {
        let cells = vec![
            Cell::text(&model.name),
            Cell::text(if model.is_active.0 { "active" } else { "inactive" }),
            Cell::optional(model.currency.as_deref()),
            Cell::text(&model.settlement_granularity),
            Cell::text(&model.settlement_delay),
            Cell::text(&model.ledger_account_type_id),
            Cell::text(&model.settlement_account_type_id),
        ];
        table.add(cells, json);
    }
    table.print(&list, "model")
}
