//! Open and ended proposals.

use askama::Template;
use axum::response::Response;
use upesi_admin::ApiError;
use upesi_admin::reads::{ProposalView, newest_proposals};
use upesi_types::Timestamp;
use upesi_types::text::escape;

use crate::changes::{Kind, links};
use crate::page::{ChangeLink, Frame, PageCall, Section, html};
use crate::show;
use crate::table::{Cell, Column, Table, Tone};
use crate::words::{Words, fill};

/// Number of ended proposals per page.
const PROPOSALS: usize = 100;
/// A proposal that expires within this time is marked.
const SOON_MS: i64 = 3_600_000;

#[derive(Template)]
#[template(path = "approvals.html")]
struct ApprovalsPage {
    frame: Frame,
    words: &'static Words,
    open: Vec<Proposed>,
    ended: Table,
    next: Option<String>,
    is_by_two: bool,
}

/// A proposal that has not ended.
struct Proposed {
    view: ProposalView,
    age: String,
    left: String,
    tone: Tone,
    created: String,
    /// Progress of a change set that was approved.
    progress: Option<String>,
    /// Why the caller may not decide.
    refusal: Option<&'static str>,
    /// The decisions that the caller may make.
    decisions: Vec<ChangeLink>,
}

/// The page of all proposals.
pub async fn show(page: PageCall) -> Result<Response, ApiError> {
    let words = page.words;
    let before = page.parameters.get("before").and_then(|before| before.parse().ok());
    let (stamp, ()) = page.ask(|_| ()).await?;
    let lists = newest_proposals(&page.call, before, PROPOSALS).await?;
    let mut ended = ended_table(&lists.ended, words);
    if let Some(csv) = page.export(stamp, &mut [&mut ended]) {
        return Ok(csv);
    }
    let operator = page.call.caller().operator().to_owned();
    let open = lists.open.into_iter().map(|view| proposed(view, &operator, stamp.at, &page));
    let next = lists.next.map(|before| page.url_with(&[("before", &before.to_string())]));
    let frame = page.frame(Section::Approvals, words.approvals_title, stamp);
    let is_by_two = page.context.access.is_by_two();
    let open = open.collect();
    html(&ApprovalsPage { frame, words, open, ended, next, is_by_two })
}

fn proposed(view: ProposalView, operator: &str, now: Timestamp, page: &PageCall) -> Proposed {
    let words = page.words;
    let left_ms = view.expiration.0.ms_since(now);
    let refusal = match (view.may_decide, &*view.maker == operator) {
        (true, _) => None,
        (false, true) => Some(words.approval_own),
        (false, false) => Some(words.approval_no_right),
    };
    let progress = progress(&view, words);
    let tone = match (view.state, left_ms) {
        ("stopped", _) => Tone::Bad,
        (_, ..SOON_MS) => Tone::Warning,
        _ => Tone::Busy,
    };
    Proposed {
        age: show::duration(now.ms_since(view.created_date.0), words),
        left: show::duration(left_ms, words),
        tone,
        created: show::second(view.created_date.0, words),
        progress,
        refusal,
        decisions: decisions(&view, &*view.maker == operator, page),
        view,
    }
}

/// The maker may withdraw a proposal, and others may decide about it. An approver whose last code is old enters a new
/// one.
fn decisions(view: &ProposalView, is_own: bool, page: &PageCall) -> Vec<ChangeLink> {
    let id = view.approval_id.to_string();
    let subject = [("proposal", &*id)];
    let renews = page.call.caller().must_renew();
    match (is_own, view.may_decide || (renews && view.state == "pending")) {
        (true, _) => links(page, None, &[(Kind::Retract, &subject)]),
        (false, true) => links(page, None, &[(Kind::Approve, &subject), (Kind::Reject, &subject)]),
        (false, false) => Vec::new(),
    }
}

/// How far a change set is applied, and why it stopped.
fn progress(view: &ProposalView, words: &Words) -> Option<String> {
    let set = view.change_set.as_ref().filter(|_| matches!(view.state, "applying" | "stopped"))?;
    let (made, all) = (show::number(set.made.into(), words), show::number(set.changes as u64, words));
    let (made, all) = (("made", &*made), ("all", &*all));
    Some(match set.stopped.as_deref() {
        Some(reason) => fill(words.approval_stopped, &[made, all, ("reason", &escape(reason))]),
        None => fill(words.approval_applying, &[made, all]),
    })
}

fn ended_table(proposals: &[ProposalView], words: &'static Words) -> Table {
    let columns = vec![
        Column::text("proposal", words.column_proposal),
        Column::text("state", words.column_state),
        Column::text("action", words.column_action),
        Column::text("object", words.column_object),
        Column::text("before", words.column_before),
        Column::text("after", words.column_after),
        Column::text("maker", words.column_maker),
        Column::text("decided_by", words.column_decided_by),
        Column::text("decided", words.column_decided),
        Column::text("reason", words.column_reason),
        Column::text("result", words.column_result),
    ];
    let rows = proposals.iter().map(|one| {
        let tone = match one.state {
            "executed" => Tone::Good,
            "rejected" | "failed" => Tone::Bad,
            _ => Tone::Warning,
        };
        vec![
            Cell { rank: Some(one.approval_id.into()), ..Cell::text(&one.approval_id.to_string()) },
            Cell::state(tone, one.state),
            Cell::code(one.action),
            Cell::text(&one.object),
            Cell::text(&one.before),
            Cell::text(&one.after),
            Cell::text(&one.maker),
            Cell::text(one.decided_by.as_deref().unwrap_or_default()),
            Cell::time_or_none(one.decided_date.map(|at| at.0)),
            Cell::text(&one.reason),
            Cell::text(one.comment.as_deref().or(one.result.as_deref()).unwrap_or_default()),
        ]
    });
    Table::new("ended", words.ended_caption, columns, rows.collect(), words).or_else(words.ended_empty)
}
