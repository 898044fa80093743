//! The built-in party directory and the oracles.

use askama::Template;
use axum::response::Response;
use upesi_admin::ApiError;
use upesi_admin::reads::{DirectorySummary, OracleView, directory};

use super::system::bytes;
use crate::page::{Frame, PageCall, Section, html};
use crate::table::{Cell, Column, Table, Tone};
use crate::words::Words;

#[derive(Template)]
#[template(path = "directory.html")]
struct DirectoryPage {
    frame: Frame,
    words: &'static Words,
    facts: Option<Vec<(&'static str, Cell)>>,
    oracles: Table,
}

/// The page of the directory.
pub async fn show(page: PageCall) -> Result<Response, ApiError> {
    let words = page.words;
    let (stamp, ()) = page.ask(|_| ()).await?;
    let found = directory(&page.context);
    let may_see_oracles = page.may("/oracles");
    let oracles = found.as_ref().map(|(_, oracles)| &**oracles).filter(|_| may_see_oracles);
    let mut oracles = oracle_table(oracles.unwrap_or_default(), words);
    if let Some(csv) = page.export(stamp, &mut [&mut oracles]) {
        return Ok(csv);
    }
    let facts = found.map(|(summary, _)| facts(&summary, words));
    let frame = page.frame(Section::Directory, words.directory_title, stamp);
    html(&DirectoryPage { frame, words, facts, oracles })
}

fn facts(summary: &DirectorySummary, words: &Words) -> Vec<(&'static str, Cell)> {
    let state = match summary.is_enabled {
        true => Cell::state(Tone::Good, words.directory_on),
        false => Cell::state(Tone::Plain, words.directory_off),
    };
    vec![
        (words.column_state, state),
        (words.fact_parties, Cell::number(summary.parties_estimate, words)),
        (words.fact_directory_bytes, Cell::text(&bytes(summary.disk_bytes, words))),
    ]
}

fn oracle_table(oracles: &[OracleView], words: &'static Words) -> Table {
    let columns = vec![
        Column::text("oracle", words.column_oracle),
        Column::text("type", words.column_type),
        Column::text("currency", words.column_currency),
        Column::text("default", words.column_default),
        Column::text("address", words.column_address),
    ];
    let rows = oracles.iter().map(|oracle| {
        let currency = oracle.currency.as_deref().unwrap_or(words.oracle_any_currency);
        let default = if oracle.is_default == 1 { words.oracle_default } else { "" };
        vec![
            Cell { rank: Some(oracle.oracle_id.into()), ..Cell::code(&oracle.oracle_id.to_string()) },
            Cell::text(oracle.oracle_id_type),
            Cell::text(currency),
            Cell::text(default),
            Cell::code(&oracle.endpoint.value),
        ]
    });
    Table::new("oracles", words.oracles_caption, columns, rows.collect(), words).or_else(words.oracles_empty)
}
