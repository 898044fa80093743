//! Operators with their roles and credentials, sessions, and the changes that need two operators.

use askama::Template;
use axum::response::Response;
use upesi_admin::ApiError;
use upesi_admin::reads::{OperatorView, PolicyView, SessionView, operators, sessions};
use upesi_types::Timestamp;

use crate::page::{Frame, PageCall, Section, html, participant_url};
use crate::table::{Cell, Column, Table, Tone};
use crate::words::{Words, fill};

/// A credential that ends within this time is marked.
const SOON_MS: i64 = 14 * 24 * 3_600_000;

#[derive(Template)]
#[template(path = "operators.html")]
struct OperatorsPage {
    frame: Frame,
    words: &'static Words,
    operators: Table,
    credentials: Table,
    sessions: Table,
    /// The actions that need a second operator; `None` if the caller may not read the policy.
    policy: Option<PolicyView>,
    is_by_two: bool,
}

/// The page of operators.
pub async fn show(page: PageCall) -> Result<Response, ApiError> {
    let words = page.words;
    let asked = page.ask(|ledger| (operators(ledger), PolicyView::of(ledger.approvals().policy())));
    let (stamp, (all, policy)) = asked.await?;
    let mut operators = operator_table(&all, words);
    let mut credentials = credential_table(&all, stamp.at, words);
    let mut sessions = session_table(&sessions(&page.call), words);
    if let Some(csv) = page.export(stamp, &mut [&mut operators, &mut credentials, &mut sessions]) {
        return Ok(csv);
    }
    let policy = page.may("/approvals/policy").then_some(policy);
    let is_by_two = page.context.access.is_by_two();
    let frame = page.frame(Section::Operators, words.operators_title, stamp);
    html(&OperatorsPage { frame, words, operators, credentials, sessions, policy, is_by_two })
}

fn operator_table(operators: &[OperatorView], words: &'static Words) -> Table {
    let columns = vec![
        Column::text("operator", words.column_operator),
        Column::text("state", words.column_state),
        Column::text("roles", words.column_roles),
        Column::text("dfsp", words.column_dfsp),
        Column::number("credentials", words.column_credentials),
        Column::text("created", words.column_created),
    ];
    let rows = operators.iter().map(|one| {
        let state = match one.is_active {
            true => Cell::state(Tone::Good, words.state_active),
            false => Cell::state(Tone::Warning, words.state_inactive),
        };
        let own = one.participant.as_deref();
        vec![
            Cell::text(&one.name),
            state,
            Cell::text(&one.roles.join(", ")),
            own.map_or_else(Cell::default, |name| Cell::text(name).link(participant_url(name))),
            Cell::number(one.credentials.len() as u64, words),
            Cell::time(one.created_date.0),
        ]
    });
    Table::new("operators", words.operators_caption, columns, rows.collect(), words)
        .or_else(words.operators_empty)
}

fn credential_table(operators: &[OperatorView], now: Timestamp, words: &'static Words) -> Table {
    let columns = vec![
        Column::text("operator", words.column_operator),
        Column::text("credential", words.column_credential),
        Column::text("kind", words.column_kind),
        Column::text("created", words.column_created),
        Column::text("ends", words.column_ends),
    ];
    let all =
        operators.iter().flat_map(|one| one.credentials.iter().map(move |credential| (one, credential)));
    let rows = all.map(|(operator, credential)| {
        vec![
            Cell::text(&operator.name),
            Cell { rank: Some(credential.id.into()), ..Cell::code(&credential.id.to_string()) },
            Cell::text(credential.kind),
            Cell::time(credential.created_date.0),
            Cell::end(credential.expiration.map(|at| at.0), now.plus_ms(SOON_MS), now, words),
        ]
    });
    Table::new("credentials", words.credentials_caption, columns, rows.collect(), words)
        .or_else(words.credentials_empty)
}

fn session_table(sessions: &[SessionView], words: &'static Words) -> Table {
    let columns = vec![
        Column::text("operator", words.column_operator),
        Column::text("session", words.column_session),
        Column::text("address", words.column_address),
        Column::text("opened", words.column_opened),
        Column::text("used", words.column_last_request),
        Column::text("ends", words.column_ends),
    ];
    let rows = sessions.iter().map(|one| {
        let name = match one.is_current {
            true => fill(words.session_own, &[("operator", &one.operator)]),
            false => one.operator.to_string(),
        };
        vec![
            Cell::text(&name),
            Cell::code(&one.session_id),
            Cell::code(&one.address),
            Cell::time(one.opened_date.0),
            Cell::time(one.used_date.0),
            Cell::time(one.expiration.0),
        ]
    });
    Table::new("sessions", words.sessions_caption, columns, rows.collect(), words)
        .or_else(words.sessions_empty)
        .noted(Some(words.sessions_note.to_owned()))
}
