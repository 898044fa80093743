//! Find transfers: one box for identifiers, DFSPs, amounts, states and times.

use askama::Template;
use axum::body::Bytes;
use axum::response::Response;
use upesi_admin::ApiError;
use upesi_admin::reads::{Parameters, TransferPage, TransferView, find_transfers};
use upesi_types::FspId;
use upesi_types::text::escape;

use super::sought::Sought;
pub(super) use super::sought::{explained, term};
use crate::page::{Frame, PageCall, Section, html, participant_url, see_other, transfer_url, url};
use crate::table::{Cell, Column, Table, Tone};
use crate::words::Words;

/// Number of transfers per page.
const TRANSFERS: usize = 100;
/// Maximum length of the text in the search box, in bytes.
const SOUGHT_BYTES_MAX: usize = 512;

#[derive(Template)]
#[template(path = "transfers.html")]
struct TransfersPage {
    frame: Frame,
    words: &'static Words,
    assumed: Vec<(String, &'static str)>,
    not_searched: Vec<(String, &'static str)>,
    /// The reason why nothing was found, if the search was rejected.
    error: Option<String>,
    table: Option<Table>,
    next: Option<String>,
    private: Option<PrivateSearch>,
}

/// A search whose text does not stand in a URL. Its further requests have the text in their bodies.
struct PrivateSearch {
    text: String,
    has_rows: bool,
    /// The cursor of the next page.
    next: Option<String>,
}

/// Takes the text of the search box from the body. If the text may stand in a URL, leads to the page with this URL.
pub async fn search(mut page: PageCall, body: Bytes) -> Result<Response, ApiError> {
    let body = std::str::from_utf8(&body).map_err(|_| ApiError::malformed("the form is not UTF-8"))?;
    page.parameters = Parameters::parse(body)?;
    let text = sought_text(&page);
    let sought = read(&page, &text).await?;
    if !sought.may_be_in_url() {
        return answer(page, sought, text).await;
    }
    let target = match sought.transfer {
        Some(id) => transfer_url(&id.to_string()),
        None => url("/console/transfers", &[("q", &text)]),
    };
    Ok(see_other(&target))
}

/// The transfers that match the text in the URL.
pub async fn list(page: PageCall) -> Result<Response, ApiError> {
    let text = sought_text(&page);
    let sought = read(&page, &text).await?;
    answer(page, sought, text).await
}

fn sought_text(page: &PageCall) -> String {
    page.parameters.get("q").unwrap_or_default().trim().to_owned()
}

async fn read(page: &PageCall, text: &str) -> Result<Sought, ApiError> {
    if text.len() > SOUGHT_BYTES_MAX {
        return Ok(Sought::too_long(page.words));
    }
    let (now, words, text) = (page.now(), page.words, text.to_owned());
    // Operators of a DFSP do not learn which other DFSPs exist.
    let sees_all = page.may("/positions");
    let own = page.call.caller().participant();
    let (_, sought) = page
        .ask(move |ledger| {
            let is_dfsp = |word: &str| {
                FspId::parse(word).is_some_and(|name| {
                    own == Some(name) || sees_all && ledger.participant_named(&name).is_some()
                })
            };
            Sought::read(&text, now, is_dfsp, words)
        })
        .await?;
    Ok(sought)
}

/// The newest matching transfers from a position on. This is one search with a limit, so there may be none in a page
/// that has a successor.
pub(super) async fn newest(
    page: &PageCall,
    filters: &[(&'static str, String)],
    cursor: Option<&str>,
    count: usize,
) -> Result<TransferPage, ApiError> {
    let mut wanted = filters.to_vec();
    wanted.extend([("order", "newest".to_owned()), ("limit", count.to_string())]);
    wanted.extend(cursor.map(|cursor| ("cursor", cursor.to_owned())));
    find_transfers(&page.call, &Parameters::of(wanted)).await
}

/// What a search found, or the reason why it was rejected.
#[derive(Default)]
struct Found {
    error: Option<String>,
    table: Option<Table>,
    /// The cursor of the next page.
    next: Option<String>,
}

async fn find(page: &PageCall, sought: &Sought) -> Result<Found, ApiError> {
    // A search without its unknown words would find too much.
    if !sought.not_searched.is_empty() {
        return Ok(Found::default());
    }
    let words = page.words;
    let page = match newest(page, &sought.filters, page.parameters.get("cursor"), TRANSFERS).await {
        Ok(page) => page,
        Err(refusal) if refusal.status().is_client_error() => {
            let error = Some(escape(refusal.description()).into_owned());
            return Ok(Found { error, ..Found::default() });
        }
        Err(failure) => return Err(failure),
    };
    let next = page.next.map(|next| next.to_string());
    let is_cut = next.is_some() && page.transfers.len() < TRANSFERS;
    let mut table = transfer_table(&page.transfers, words).noted(is_cut.then(|| words.find_cut.to_owned()));
    if next.is_some() {
        table.empty = words.find_go_on.to_owned();
    }
    Ok(Found { error: None, table: Some(table), next })
}

async fn answer(page: PageCall, sought: Sought, text: String) -> Result<Response, ApiError> {
    let words = page.words;
    if let (Some(id), true) = (sought.transfer, sought.not_searched.is_empty()) {
        let target = transfer_url(&id.to_string());
        return Ok(see_other(&target));
    }
    let (stamp, ()) = page.ask(|_| ()).await?;
    let Found { error, mut table, mut next } = find(&page, &sought).await?;
    if let Some(csv) = table.as_mut().and_then(|table| page.export(stamp, &mut [table])) {
        return Ok(csv);
    }
    let mut frame = page.frame(Section::Transfers, words.transfers_title, stamp);
    if !sought.is_personal {
        frame.sought = escape(&text).into_owned();
    }
    let mut private = None;
    if !sought.may_be_in_url()
        && let Some(table) = &mut table
    {
        table.remove_links_of_page();
        private = Some(PrivateSearch { text, has_rows: !table.rows.is_empty(), next: next.take() });
    }
    let next = next.map(|cursor| page.url_with(&[("cursor", &cursor)]));
    let Sought { assumed, not_searched, .. } = sought;
    html(&TransfersPage { frame, words, assumed, not_searched, error, table, next, private })
}

/// A list of transfers.
pub(super) fn transfer_table(transfers: &[TransferView], words: &'static Words) -> Table {
    let columns = vec![
        Column::text("prepared", words.column_prepared),
        Column::text("transfer", words.column_transfer),
        Column::text("payer", words.column_payer),
        Column::text("payee", words.column_payee),
        Column::number("amount", words.column_amount),
        Column::text("currency", words.column_currency),
        Column::text("state", words.column_state),
        Column::text("error", words.column_error),
        Column::number("ms", words.column_took),
    ];
    let rows = transfers.iter().map(|transfer| {
        let party = |party: &Option<upesi_admin::reads::Party>| {
            let name = party.as_ref().map(|party| &*party.name);
            name.map(|name| Cell::text(name).link(participant_url(name))).unwrap_or_default()
        };
        let took = transfer.completed_date.map(|at| at.0.ms_since(transfer.prepared_date.0));
        let error = transfer.error_information.as_ref();
        vec![
            Cell::time(transfer.prepared_date.0),
            Cell::code(&transfer.transfer_id).link(transfer_url(&transfer.transfer_id)),
            party(&transfer.payer),
            party(&transfer.payee),
            Cell::amount(transfer.amount.amount.0, transfer.amount.currency.0, words),
            Cell::text(transfer.amount.currency.0.as_str()),
            state_cell(transfer, words),
            error.map(|error| Cell::text(&error.error_code)).unwrap_or_default(),
            Cell::milliseconds(took.and_then(|ms| u64::try_from(ms).ok()), words),
        ]
    });
    let caption = words.transfers_caption;
    Table::new("transfers", caption, columns, rows.collect(), words).or_else(words.transfers_empty)
}

/// The state of a transfer in plain words.
pub(super) fn state_word(transfer: &TransferView, words: &Words) -> (Tone, &'static str) {
    match transfer.internal_state {
        "RESERVED" => (Tone::Busy, words.transfer_reserved),
        "COMMITTED" => (Tone::Good, words.transfer_committed),
        "EXPIRED_RESERVED" => (Tone::Bad, words.transfer_expired),
        "ABORTED_REJECTED" | "INVALID" => (Tone::Bad, words.transfer_rejected),
        "ABORTED_ERROR" => (Tone::Bad, words.transfer_declined),
        _ => (Tone::Bad, words.transfer_aborted),
    }
}

/// The state of a transfer as a cell; the export has the name of the API.
pub(super) fn state_cell(transfer: &TransferView, words: &Words) -> Cell {
    let (tone, text) = state_word(transfer, words);
    Cell { value: transfer.internal_state.to_owned(), ..Cell::state(tone, text) }
}
