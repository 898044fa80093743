//! The overview: is it the hub, one DFSP, or one pair? And what waits for a person?

use std::collections::BTreeMap;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use upesi_admin::reads::{Health, LaneReport, PositionSummary, health, lane_reports, position_summaries};
use upesi_admin::{AdminContext, ApiError};
use upesi_engine::{Availability, RequestKind, ResponseTimes};
use upesi_ledger::{Ledger, ParticipantId, Totals, WindowState};
use upesi_types::Timestamp;

use super::lane::{lane_tone, lane_word};
use super::position::{free, position_bar, position_tone, used_cell};
use super::transfers::term;
use super::verdict::{Pair, Verdict, verdict};
use crate::page::{Frame, PageCall, Section, Stamp, html, participant_url, url};
use crate::show;
use crate::table::{Cell, Column, Table, Tone};
use crate::words::{Words, fill};

/// Maximum number of DFSPs in a row or column of the heat map.
const HEAT_MAX: usize = 24;
/// Number of positions that the overview shows, the highest use first.
const POSITIONS_SHOWN: usize = 8;
/// Response times of a slow and of a very slow DFSP.
const SLOW_MS: u64 = 1_000;
const VERY_SLOW_MS: u64 = 5_000;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    words: &'static Words,
    /// The state of the payments; `None` if the caller may not see the traffic.
    verdict: Option<Verdict>,
    links: Vec<(String, String)>,
    tiles: Vec<Tile>,
    heat: Option<Heat>,
    /// `None` if the hub cannot answer.
    waiting: Option<Vec<Waiting>>,
    dfsps: Option<Table>,
    positions: Option<Table>,
}

/// A figure.
struct Tile {
    label: &'static str,
    value: String,
    note: String,
    tone: Tone,
    href: Option<&'static str>,
}

/// Something that waits for a person.
struct Waiting {
    tone: Tone,
    text: String,
    href: &'static str,
}

/// Shares of failed requests, by sender (rows) and receiver (columns).
struct Heat {
    receivers: Vec<String>,
    rows: Vec<(String, Vec<HeatCell>)>,
    /// Number of DFSPs that are not shown.
    left_out: usize,
}

/// A cell of the heat map.
struct HeatCell {
    class: &'static str,
    text: String,
    title: String,
    href: Option<String>,
}

/// What the ledger says.
struct LedgerFigures {
    totals: Totals,
    pending: usize,
    parked: usize,
    proposals: Option<(usize, Option<Timestamp>)>,
    settlement: Option<SettlementFigures>,
    positions: Option<Vec<PositionSummary>>,
    lanes: Option<Vec<LaneReport>>,
}

/// The state of the settlement.
struct SettlementFigures {
    /// Number and start of the open window.
    open: Option<(u32, Timestamp)>,
    open_transfers: u64,
    /// Number of windows that are closed and not in a settlement.
    unsettled: usize,
    /// Number of settlements that have not ended.
    settlements: usize,
}

impl SettlementFigures {
    fn of(ledger: &Ledger) -> Self {
        let windows = ledger.windows();
        let open = windows.iter().rev().find(|window| window.state == WindowState::Open);
        Self {
            open: open.map(|window| (window.id.0, window.created_at)),
            open_transfers: ledger.open_window_transfers(),
            unsettled: windows.iter().filter(|window| window.state.can_be_settled()).count(),
            settlements: ledger.settlements().iter().filter(|settlement| !settlement.is_final()).count(),
        }
    }
}

/// The overview, with the panels that the caller may see.
pub async fn show(page: PageCall) -> Result<Response, ApiError> {
    let words = page.words;
    let (sees_lanes, sees_callbacks) = (page.may("/lanes"), page.may("/callbacks"));
    // A stopped engine answers no questions, so its state is read first.
    let serving = page.context.engine.status().serving;
    let of_hub = verdict_of_hub(&serving, &faults(&health(&page.call, &page.context)), words);
    let (stamp, figures) = match (figures(&page).await, of_hub.as_ref()) {
        (Ok(answer), _) => answer,
        (Err(refusal), Some(verdict)) if refusal.status() == StatusCode::SERVICE_UNAVAILABLE => {
            return verdict_alone(&page, verdict.clone());
        }
        (Err(refusal), _) => return Err(refusal),
    };
    let pairs = figures.lanes.as_deref().map(pairs).unwrap_or_default();
    let of_traffic = |lanes: &Vec<LaneReport>| verdict(&[], &pairs, &stopped(lanes), words);
    let verdict = of_hub.or_else(|| figures.lanes.as_ref().map(of_traffic));
    let links = verdict
        .iter()
        .flat_map(|verdict| &verdict.names)
        .filter(|name| page.may_about("/participants/{name}", name));
    let links = links.map(|name| (name.clone(), participant_url(name))).collect();
    let mut tiles = Vec::new();
    if let Some(lanes) = &figures.lanes {
        tiles.push(rate_tile(lanes, &pairs, &page.context, stamp.at, words));
    }
    if page.may("/metrics") {
        tiles.extend(total_tiles(&figures, page.may("/transfers"), words));
    }
    if let Some(settlement) = &figures.settlement {
        tiles.extend(window_tile(settlement, stamp.at, words));
    }
    let mut waiting = Vec::new();
    if sees_callbacks {
        waiting.extend(waiting_callbacks(&figures, words));
    }
    waiting.extend(waiting_settlement(&figures, stamp.at, words));
    let (mut dfsps, mut positions) = (
        figures.lanes.as_deref().map(|lanes| dfsp_table(lanes, words)),
        figures.positions.map(|positions| {
            waiting.extend(waiting_positions(&positions, words));
            position_table(positions, words)
        }),
    );
    let mut heat_table = sees_lanes.then(|| heat_table(&pairs, words));
    let mut tables: Vec<&mut Table> =
        [&mut dfsps, &mut positions, &mut heat_table].into_iter().flatten().collect();
    if let Some(csv) = page.export(stamp, &mut tables) {
        return Ok(csv);
    }
    waiting.sort_by_key(|one| std::cmp::Reverse(one.tone));
    let heat = sees_lanes.then(|| heat(&pairs, page.may("/transfers"), words));
    let frame = page.frame(Section::Overview, words.overview_title, stamp);
    let waiting = Some(waiting);
    html(&Overview { frame, words, verdict, links, tiles, heat, waiting, dfsps, positions })
}

/// The ledger's figures that the caller may see, of one record.
async fn figures(page: &PageCall) -> Result<(Stamp, LedgerFigures), ApiError> {
    let [sees_lanes, sees_approvals, sees_windows, sees_positions] =
        ["/lanes", "/approvals", "/v2/settlementWindows", "/positions"].map(|operation| page.may(operation));
    let lanes = sees_lanes.then(|| page.context.lanes.lanes());
    let summaries = page.context.response_times.summaries(page.now());
    let question = move |ledger: &Ledger| {
        let parked = ledger.outbox().parked_len();
        let pending_proposals = ledger.approvals().pending();
        let proposals = (pending_proposals.len(), pending_proposals.map(|one| one.created_at).min());
        LedgerFigures {
            totals: ledger.totals(),
            pending: ledger.outbox().len() - parked,
            parked,
            proposals: sees_approvals.then_some(proposals),
            settlement: sees_windows.then(|| SettlementFigures::of(ledger)),
            positions: sees_positions.then(|| position_summaries(ledger)),
            lanes: lanes.map(|lanes| lane_reports(ledger, lanes, summaries)),
        }
    };
    page.ask(question).await
}

/// The overview of a hub that answers no questions, with the status of the refused question.
fn verdict_alone(page: &PageCall, verdict: Verdict) -> Result<Response, ApiError> {
    let words = page.words;
    let mut response = html(&Overview {
        frame: page.frame(Section::Overview, words.overview_title, None::<Stamp>),
        words,
        verdict: Some(verdict),
        links: Vec::new(),
        tiles: Vec::new(),
        heat: None,
        waiting: None,
        dfsps: None,
        positions: None,
    })?;
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    Ok(response)
}

/// The answer if this node accepts no payments. For a follower, this is not a fault.
fn verdict_of_hub(serving: &Availability, faults: &[String], words: &Words) -> Option<Verdict> {
    if *serving == Availability::Following {
        return Some(Verdict::following(words));
    }
    (!faults.is_empty()).then(|| verdict(faults, &[], &[], words))
}

/// The parts of the hub that do not work; none while payments are accepted.
fn faults(health: &Health) -> Vec<String> {
    if health.takes_payments {
        return Vec::new();
    }
    let down = health.services.iter().filter(|service| service.detail.is_some());
    let fault = |service: &upesi_admin::reads::Service| {
        format!("{}: {}", service.name, service.detail.as_deref().unwrap_or_default())
    };
    let faults: Vec<_> = down.map(fault).collect();
    if faults.is_empty() { vec![health.status.to_owned()] } else { faults }
}

fn pairs(lanes: &[LaneReport]) -> Vec<Pair> {
    let of_lane = |lane: &LaneReport| {
        let receiver = lane.participant.clone()?;
        let pairs = lane.responses.as_ref()?.pairs.iter().zip(&lane.askers);
        let pair = |(pair, sender): (&upesi_engine::PairSummary, &Option<String>)| {
            Some(Pair {
                sender: sender.clone()?,
                receiver: receiver.clone(),
                requests: pair.requests,
                failed: pair.failed,
            })
        };
        Some(pairs.filter_map(pair).collect::<Vec<_>>())
    };
    lanes.iter().filter_map(of_lane).flatten().collect()
}

/// The DFSPs whose lanes deliver nothing.
fn stopped(lanes: &[LaneReport]) -> Vec<String> {
    let stopped = lanes.iter().filter(|lane| lane_tone(lane) == Tone::Bad);
    stopped.filter_map(|lane| lane.participant.clone()).collect()
}

/// Requests of a kind that were answered in the last minutes, and all of them.
fn answered(lanes: &[LaneReport], wanted: RequestKind) -> (u64, u64) {
    let kinds = lanes.iter().filter_map(|lane| lane.responses.as_ref()).flat_map(|summary| &summary.kinds);
    let of_kind = kinds.filter(|kind| kind.kind == wanted);
    of_kind.fold((0, 0), |(answered, all), kind| {
        (answered + kind.recent[0], all + kind.recent.iter().sum::<u64>())
    })
}

/// The time that the counters cover: the previous minutes and the current one, but not before the start.
fn covered_ms(context: &AdminContext, now: Timestamp) -> u64 {
    let minutes = ResponseTimes::MINUTES as i64 - 1;
    let counted = minutes * 60_000 + now.as_ms().rem_euclid(60_000);
    let up = i64::try_from(context.started.elapsed().as_millis()).unwrap_or(i64::MAX);
    u64::try_from(counted.min(up)).unwrap_or(0).max(1_000)
}

fn rate_tile(
    lanes: &[LaneReport],
    pairs: &[Pair],
    context: &AdminContext,
    now: Timestamp,
    words: &Words,
) -> Tile {
    let (answered, _) = answered(lanes, RequestKind::Transfer);
    let tenths = answered.saturating_mul(10_000) / covered_ms(context, now);
    let (requests, failed) =
        pairs.iter().fold((0, 0), |(all, bad), pair| (all + pair.requests, bad + pair.failed));
    let share = show::share(show::permille(failed, requests), words);
    Tile {
        label: words.tile_rate,
        value: show::tenths(tenths, words),
        note: fill(words.tile_rate_note, &[("share", &share)]),
        tone: Tone::Plain,
        href: None,
    }
}

fn total_tiles(figures: &LedgerFigures, sees_transfers: bool, words: &Words) -> Vec<Tile> {
    let Totals { reserved, committed, aborted, expired, refused, .. } = figures.totals;
    let number = |count| show::number(count, words);
    let in_flight = reserved.saturating_sub(committed + aborted);
    vec![
        Tile {
            label: words.tile_in_flight,
            value: number(in_flight),
            note: words.tile_in_flight_note.to_owned(),
            tone: Tone::Plain,
            href: sees_transfers.then_some("/console/transfers?q=state%3Areserved"),
        },
        Tile {
            label: words.tile_committed,
            value: number(committed),
            note: fill(
                words.tile_committed_note,
                &[
                    ("aborted", &number(aborted.saturating_sub(expired))),
                    ("expired", &number(expired)),
                    ("rejected", &number(refused)),
                ],
            ),
            tone: Tone::Plain,
            href: sees_transfers.then_some("/console/transfers"),
        },
    ]
}

fn window_tile(settlement: &SettlementFigures, now: Timestamp, words: &Words) -> Option<Tile> {
    let (window, opened) = settlement.open?;
    let age = show::duration(now.ms_since(opened), words);
    Some(Tile {
        label: words.tile_window,
        value: show::number(settlement.open_transfers, words),
        note: fill(words.tile_window_note, &[("window", &window.to_string()), ("age", &age)]),
        tone: Tone::Plain,
        href: Some("/console/settlement"),
    })
}

fn waiting_callbacks(figures: &LedgerFigures, words: &Words) -> Vec<Waiting> {
    let of = |count: usize, one: &'static str, many: &'static str, tone| {
        (count > 0).then(|| Waiting {
            tone,
            text: counted(count as u64, one, many, words),
            href: "/console/callbacks",
        })
    };
    let parked = of(figures.parked, words.waiting_parked_one, words.waiting_parked, Tone::Bad);
    let pending = of(figures.pending, words.waiting_pending_one, words.waiting_pending, Tone::Plain);
    parked.into_iter().chain(pending).collect()
}

fn waiting_settlement(figures: &LedgerFigures, now: Timestamp, words: &Words) -> Vec<Waiting> {
    const HOUR_MS: i64 = 3_600_000;
    let mut waiting = Vec::new();
    if let Some((count @ 1.., Some(oldest))) = figures.proposals {
        let age_ms = now.ms_since(oldest);
        let text = counted(count as u64, words.waiting_approval_one, words.waiting_approvals, words);
        waiting.push(Waiting {
            tone: if age_ms > HOUR_MS { Tone::Warning } else { Tone::Busy },
            text: format!(
                "{text} {}",
                fill(words.waiting_oldest, &[("age", &show::duration(age_ms, words))])
            ),
            href: "/console/approvals",
        });
    }
    let Some(settlement) = &figures.settlement else { return waiting };
    for (count, one, many) in [
        (settlement.unsettled, words.waiting_window_one, words.waiting_windows),
        (settlement.settlements, words.waiting_settlement_one, words.waiting_settlements),
    ] {
        if count > 0 {
            let text = counted(count as u64, one, many, words);
            waiting.push(Waiting { tone: Tone::Busy, text, href: "/console/settlement" });
        }
    }
    waiting
}

fn waiting_positions(positions: &[PositionSummary], words: &Words) -> Option<Waiting> {
    let tones = positions.iter().map(position_tone).filter(|tone| *tone >= Tone::Warning);
    let (count, worst) = tones.fold((0, Tone::Plain), |(count, worst), tone| (count + 1, worst.max(tone)));
    (count > 0).then(|| Waiting {
        tone: worst,
        text: counted(count, words.waiting_position_one, words.waiting_positions, words),
        href: "/console/participants?show=problems",
    })
}

fn counted(count: u64, one: &str, many: &str, words: &Words) -> String {
    fill(if count == 1 { one } else { many }, &[("count", &show::number(count, words))])
}

/// The DFSPs with their answers and lanes, problems first.
fn dfsp_table(lanes: &[LaneReport], words: &'static Words) -> Table {
    let columns = vec![
        Column::text("dfsp", words.column_dfsp),
        Column::text("lane", words.column_lane),
        Column::number("waiting", words.column_waiting),
        Column::number("requests", words.column_requests),
        Column::number("failed_percent", words.column_failed),
        Column::number("lookup_p99_ms", words.column_lookup_p99),
        Column::number("quote_p99_ms", words.column_quote_p99),
        Column::number("transfer_p99_ms", words.column_transfer_p99),
        Column::text("last_error", words.column_last_error),
    ];
    let is_dfsp = |lane: &&LaneReport| lane.participant.is_some() && lane.lane.target != ParticipantId::HUB;
    let mut lanes: Vec<_> = lanes.iter().filter(is_dfsp).collect();
    lanes.sort_by_key(|lane| std::cmp::Reverse((lane_tone(lane), slowest(lane))));
    let rows = lanes.into_iter().map(|lane| dfsp_row(lane, words)).collect();
    let note = fill(words.dfsps_note, &[("minutes", &ResponseTimes::MINUTES.to_string())]);
    Table::new("dfsps", words.dfsps_caption, columns, rows, words).noted(Some(note))
}

fn slowest(lane: &LaneReport) -> Option<u64> {
    let kinds = lane.responses.iter().flat_map(|summary| &summary.kinds);
    kinds.filter_map(|kind| kind.p99).map(whole_ms).max()
}

fn dfsp_row(lane: &LaneReport, words: &Words) -> Vec<Cell> {
    let name = lane.participant.as_deref().unwrap_or_default();
    let kinds = lane.responses.as_ref().map(|summary| &*summary.kinds).unwrap_or_default();
    let (requests, failed) = kinds.iter().fold((0, 0), |(all, bad), kind| {
        let sum = kind.recent.iter().sum::<u64>();
        (all + sum, bad + sum - kind.recent[0])
    });
    let time = |wanted| {
        let kind = kinds.iter().find(|kind| kind.kind == wanted);
        let p99 = kind.and_then(|kind| kind.p99).map(whole_ms);
        let tone = match p99 {
            Some(VERY_SLOW_MS..) => Tone::Bad,
            Some(SLOW_MS..) => Tone::Warning,
            _ => Tone::Plain,
        };
        Cell::milliseconds(p99, words).toned(tone)
    };
    let status = &lane.lane;
    let waiting = (status.queued + status.retrying + status.retrying_on_disk + status.in_flight) as u64;
    let share = match show::permille(failed, requests) {
        _ if requests == 0 => Cell::default(),
        permille @ 100.. => Cell::share(permille, words).toned(Tone::Bad),
        permille @ 10.. => Cell::share(permille, words).toned(Tone::Warning),
        permille => Cell::share(permille, words),
    };
    vec![
        Cell::text(name).link(participant_url(name)),
        Cell::state(lane_tone(lane), lane_word(status.state(), words)),
        Cell::number(waiting, words),
        Cell::number(requests, words),
        share,
        time(RequestKind::Lookup),
        time(RequestKind::Quote),
        time(RequestKind::Transfer),
        Cell::text(status.last_error.as_deref().unwrap_or_default()),
    ]
}

fn whole_ms(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// The positions that use most of their limit.
fn position_table(mut positions: Vec<PositionSummary>, words: &'static Words) -> Table {
    let columns = vec![
        Column::text("dfsp", words.column_dfsp),
        Column::text("currency", words.column_currency),
        Column::text("use", words.column_use),
        Column::number("used_percent", words.column_used),
        Column::number("free", words.column_free),
    ];
    positions.retain(|position| position.participant != "Hub");
    positions.sort_by_key(|one| std::cmp::Reverse((position_tone(one), one.utilisation_basis_points)));
    positions.truncate(POSITIONS_SHOWN);
    let row = |position: &PositionSummary| {
        vec![
            Cell::text(&position.participant).link(participant_url(&position.participant)),
            Cell::text(position.currency.0.as_str()),
            Cell::bar(position_bar(position, words)),
            used_cell(position, words),
            Cell::units(free(position), position.currency.0, words),
        ]
    };
    let rows = positions.iter().map(row).collect();
    Table::new("headroom", words.headroom_caption, columns, rows, words)
}

/// The pairs as a list, for the export.
fn heat_table(pairs: &[Pair], words: &'static Words) -> Table {
    let columns = vec![
        Column::text("sender", words.column_sender),
        Column::text("receiver", words.column_receiver),
        Column::number("requests", words.column_requests),
        Column::number("failed", words.column_failed),
        Column::number("failed_percent", words.column_failed),
    ];
    let row = |pair: &Pair| {
        vec![
            Cell::text(&pair.sender),
            Cell::text(&pair.receiver),
            Cell::number(pair.requests, words),
            Cell::number(pair.failed, words),
            Cell::share(pair.permille(), words),
        ]
    };
    Table::new("pairs", words.heat_caption, columns, pairs.iter().map(row).collect(), words)
}

/// The heat map. If there are too many DFSPs, those with the most failed requests are shown.
fn heat(pairs: &[Pair], sees_transfers: bool, words: &Words) -> Heat {
    let mut failed = BTreeMap::<&str, u64>::new();
    for pair in pairs {
        *failed.entry(&pair.sender).or_default() += pair.failed;
        *failed.entry(&pair.receiver).or_default() += pair.failed;
    }
    let mut names: Vec<_> = failed.into_iter().collect();
    names.sort_by_key(|(_, failed)| std::cmp::Reverse(*failed));
    let left_out = names.len().saturating_sub(HEAT_MAX);
    names.truncate(HEAT_MAX);
    let mut names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    let by_names: BTreeMap<_, _> =
        pairs.iter().map(|pair| ((&*pair.sender, &*pair.receiver), pair)).collect();
    let cell = |sender: &str, receiver: &str| {
        let Some(pair) = by_names.get(&(sender, receiver)) else {
            return HeatCell {
                class: "none",
                text: String::new(),
                title: words.heat_none.to_owned(),
                href: None,
            };
        };
        let permille = pair.permille();
        let class = match permille {
            0 => "h0",
            1..10 => "h1",
            10..50 => "h2",
            50..100 => "h3",
            100..500 => "h4",
            _ => "h5",
        };
        let text = match permille {
            0 => "0".to_owned(),
            1..100 => format!("{}{}{}", permille / 10, words.decimal, permille % 10),
            _ => (permille / 10).to_string(),
        };
        let counts = [
            ("failed", &*show::number(pair.failed, words)),
            ("requests", &show::number(pair.requests, words)),
            ("sender", sender),
            ("receiver", receiver),
        ];
        let query = format!("{} {}", term("payer", sender), term("payee", receiver));
        let href = sees_transfers.then(|| url("/console/transfers", &[("q", &query)]));
        HeatCell { class, text, title: fill(words.heat_cell, &counts), href }
    };
    let row = |sender: &&str| {
        let cells = names.iter().map(|receiver| cell(sender, receiver)).collect();
        ((*sender).to_owned(), cells)
    };
    let rows = names.iter().map(row).collect();
    Heat { receivers: names.iter().map(|name| (*name).to_owned()).collect(), rows, left_out }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ENGLISH;

    #[test]
    fn follower_is_calm_and_a_fault_is_not() {
        let of = |serving, faults: &[&str]| {
            let faults: Vec<_> = faults.iter().map(|fault| (*fault).to_owned()).collect();
            verdict_of_hub(&serving, &faults, &ENGLISH).map(|verdict| (verdict.tone, verdict.title))
        };
        let follows = (Tone::Plain, "This node follows the leader".to_owned());
        assert_eq!(of(Availability::Following, &["engine: this node is a follower"]), Some(follows));
        let fault = (Tone::Bad, "The hub accepts no payments".to_owned());
        assert_eq!(of(Availability::HeldUp, &["journal: no broker acknowledges"]), Some(fault));
        assert_eq!(of(Availability::Yes, &[]), None);
    }
}
