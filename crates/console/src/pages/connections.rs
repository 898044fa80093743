//! Certificates, tokens and keys of the participants, blocks, and the keys of the hub.

use askama::Template;
use axum::response::Response;
use upesi_admin::reads::{
    BlockView, Connection, Instant, KeyEntry, KeyState, LaneReport, SignerView, blocks, connections,
    lane_reports, signers,
};
use upesi_admin::{ApiError, HubKey, HubKeyState};
use upesi_ledger::SignatureKeyState;
use upesi_types::Timestamp;

use super::lane::{lane_tone, lane_word};
use crate::page::{Frame, PageCall, Section, html, participant_url};
use crate::show;
use crate::table::{Cell, Column, Table, Tone};
use crate::words::{Words, fill};

/// A key that ends within this time is marked.
const SOON_MS: i64 = 30 * 24 * 3_600_000;

#[derive(Template)]
#[template(path = "connections.html")]
struct ConnectionsPage {
    frame: Frame,
    words: &'static Words,
    participants: Table,
    keys: Table,
    hub_keys: Option<Table>,
    blocks: Table,
}

/// The page of connections, certificates and keys.
pub async fn show(page: PageCall) -> Result<Response, ApiError> {
    let words = page.words;
    let lanes = page.context.lanes.lanes();
    let asked = page
        .ask(move |ledger| (connections(ledger), blocks(ledger), lane_reports(ledger, lanes, Vec::new())));
    let (stamp, (connections, blocked, lanes)) = asked.await?;
    let lanes = if page.may("/lanes") { lanes } else { Vec::new() };
    let signers = signers(&page.call, &page.context).await?;
    let of_hub = page.may("/signatures/keys").then(|| (page.context.hub_keys)());
    let mut participants = participant_table(&connections, &signers, &lanes, stamp.at, words);
    let mut keys = key_table(&signers, stamp.at, words);
    let mut hub_keys = of_hub.map(|keys| hub_key_table(&keys, stamp.at, words));
    let mut blocks = block_table(&blocked, words);
    let mut tables = vec![&mut participants, &mut keys, &mut blocks];
    tables.extend(hub_keys.as_mut());
    if let Some(csv) = page.export(stamp, &mut tables) {
        return Ok(csv);
    }
    let frame = page.frame(Section::Connections, words.connections_title, stamp);
    html(&ConnectionsPage { frame, words, participants, keys, hub_keys, blocks })
}

/// One row for each participant, with what it needs to send requests and to get callbacks.
fn participant_table(
    connections: &[Connection],
    signers: &[SignerView],
    lanes: &[LaneReport],
    now: Timestamp,
    words: &'static Words,
) -> Table {
    let columns = vec![
        Column::text("dfsp", words.column_dfsp),
        Column::text("state", words.column_state),
        Column::text("lane", words.column_lane),
        Column::text("bindings", words.column_bindings),
        Column::text("signature_key", words.column_signature_key),
        Column::text("key_ends", words.column_ends),
        Column::number("endpoints", words.column_endpoints),
        Column::text("behind", words.column_behind),
    ];
    let rows = connections.iter().map(|one| {
        let lane = lanes.iter().find(|lane| lane.participant.as_deref() == Some(&*one.name));
        let lane = lane.map(|lane| Cell::state(lane_tone(lane), lane_word(lane.lane.state(), words)));
        let signer = signers.iter().find(|signer| signer.name == one.name);
        let current = signer.and_then(current_key);
        let state = match one.is_active {
            true => Cell::state(Tone::Good, words.state_active),
            false => Cell::state(Tone::Warning, words.state_inactive),
        };
        let key = match current {
            Some(_) => Cell::state(Tone::Good, words.key_current),
            None => Cell::state(Tone::Warning, words.key_none),
        };
        let proxy = one.proxied_by.as_deref();
        vec![
            Cell::text(&one.name).link(participant_url(&one.name)),
            state,
            lane.unwrap_or_default(),
            bindings(one, words),
            key,
            current.map_or_else(Cell::default, |key| end(key.ends, now, words)),
            Cell::number(one.endpoints as u64, words),
            proxy.map_or_else(Cell::default, |proxy| Cell::text(proxy).link(participant_url(proxy))),
        ]
    });
    Table::new("connections", words.connections_caption, columns, rows.collect(), words)
        .noted(Some(words.connections_note.to_owned()))
}

/// The key that verifies the participant's messages now.
fn current_key(signer: &SignerView) -> Option<&KeyEntry> {
    let is_current = |key: &&KeyEntry| key.state == KeyState::Known(SignatureKeyState::Current);
    signer.keys.iter().find(is_current)
}

/// The kinds of bindings with their counts.
fn bindings(connection: &Connection, words: &Words) -> Cell {
    let mut kinds: Vec<(&'static str, u64)> = Vec::new();
    for binding in &connection.bindings {
        match kinds.iter_mut().find(|(kind, _)| *kind == binding.kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((binding.kind, 1)),
        }
    }
    if kinds.is_empty() {
        let text =
            if connection.proxied_by.is_some() { words.bindings_of_proxy } else { words.bindings_none };
        return Cell::text(text);
    }
    let texts = kinds.iter().map(|(kind, count)| {
        fill(words.bindings_count, &[("kind", kind), ("count", &show::number(*count, words))])
    });
    Cell::text(&texts.collect::<Vec<_>>().join(", "))
}

fn end(at: Option<Instant>, now: Timestamp, words: &Words) -> Cell {
    Cell::end(at.map(|at| at.0), now.plus_ms(SOON_MS), now, words)
}

fn key_table(signers: &[SignerView], now: Timestamp, words: &'static Words) -> Table {
    let columns = vec![
        Column::text("dfsp", words.column_dfsp),
        Column::text("sha256", words.column_key),
        Column::text("state", words.column_state),
        Column::text("source", words.column_source),
        Column::text("starts", words.column_starts),
        Column::text("ends", words.column_ends),
    ];
    let keys = signers.iter().flat_map(|signer| signer.keys.iter().map(move |key| (&signer.name, key)));
    let rows = keys.map(|(name, key)| {
        let (tone, state) = match key.state {
            KeyState::Known(SignatureKeyState::Current) => (Tone::Good, words.key_current),
            KeyState::Known(SignatureKeyState::Next) => (Tone::Busy, words.key_next),
            KeyState::Known(SignatureKeyState::Previous) => (Tone::Plain, words.key_previous),
            KeyState::Known(SignatureKeyState::Retired) => (Tone::Plain, words.key_retired),
            KeyState::Revoked => (Tone::Bad, words.key_revoked),
        };
        let source = if key.source == "file" { words.source_file } else { words.source_ledger };
        vec![
            Cell::text(name).link(participant_url(name)),
            Cell::code(&key.sha256),
            Cell::state(tone, state),
            Cell::text(source),
            Cell::time_or_none(key.starts.map(|at| at.0)),
            end(key.ends, now, words),
        ]
    });
    Table::new("keys", words.keys_caption, columns, rows.collect(), words).or_else(words.keys_empty)
}

fn hub_key_table(keys: &[HubKey], now: Timestamp, words: &'static Words) -> Table {
    let columns = vec![
        Column::text("sha256", words.column_key),
        Column::text("state", words.column_state),
        Column::text("algorithm", words.column_algorithm),
        Column::text("ends", words.column_ends),
    ];
    let rows = keys.iter().map(|key| {
        let (tone, state) = match key.state {
            HubKeyState::Current => (Tone::Good, words.key_current),
            HubKeyState::Next => (Tone::Busy, words.key_next),
            HubKeyState::Previous => (Tone::Plain, words.key_previous),
        };
        vec![
            Cell::code(&key.sha256),
            Cell::state(tone, state),
            Cell::text(key.algorithm),
            end(key.ends, now, words),
        ]
    });
    Table::new("hub-keys", words.hub_keys_caption, columns, rows.collect(), words)
        .or_else(words.hub_keys_empty)
}

fn block_table(blocks: &[BlockView], words: &'static Words) -> Table {
    let columns = vec![
        Column::text("kind", words.column_kind),
        Column::text("value", words.column_value),
        Column::text("since", words.column_since),
    ];
    let rows = blocks.iter().map(|block| {
        vec![Cell::text(block.kind), Cell::code(&block.value), Cell::time(block.created_date.0)]
    });
    Table::new("blocks", words.blocks_caption, columns, rows.collect(), words).or_else(words.blocks_empty)
}
