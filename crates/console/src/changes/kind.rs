//! The kinds of changes that operators make with forms.

use axum::http::Method;
use upesi_types::text::path;

use super::fields::Field::{self, Alarm, Amount, Comment, Limit, Reason, Reference};
use crate::page::{participant_url, url};
use crate::words::Words;

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Deposit,
    Withdraw,
    PayOut,
    TakeBack,
    Cap,
    Suspend,
    Resume,
    CloseWindow,
    Settle,
    Advance,
    AbortSettlement,
    Redeliver,
    Approve,
    Reject,
    Retract,
}

impl Kind {
    pub const ALL: [Self; 15] = [
        Self::Deposit,
        Self::Withdraw,
        Self::PayOut,
        Self::TakeBack,
        Self::Cap,
        Self::Suspend,
        Self::Resume,
        Self::CloseWindow,
        Self::Settle,
        Self::Advance,
        Self::AbortSettlement,
        Self::Redeliver,
        Self::Approve,
        Self::Reject,
        Self::Retract,
    ];

    /// Its name in the path of its form.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deposit => "deposit",
            Self::Withdraw => "withdraw",
            Self::PayOut => "pay-out",
            Self::TakeBack => "take-back",
            Self::Cap => "cap",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::CloseWindow => "close-window",
            Self::Settle => "settle",
            Self::Advance => "advance",
            Self::AbortSettlement => "abort-settlement",
            Self::Redeliver => "redeliver",
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Retract => "withdraw-proposal",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// The operation that makes the change, and therefore its permission.
    pub const fn operation(self) -> (Method, &'static str) {
        match self {
            Self::Deposit | Self::Withdraw => (Method::POST, "/participants/{name}/accounts/{id}"),
            Self::PayOut | Self::TakeBack => {
                (Method::PUT, "/participants/{name}/accounts/{id}/transfers/{transferId}")
            }
            Self::Cap => (Method::PUT, "/participants/{name}/limits"),
            Self::Suspend | Self::Resume => (Method::PUT, "/participants/{name}"),
            Self::CloseWindow => (Method::POST, "/v2/settlementWindows/{id}"),
            Self::Settle => (Method::POST, "/v2/settlements"),
            Self::Advance | Self::AbortSettlement => (Method::PUT, "/v2/settlements/{id}"),
            Self::Redeliver => (Method::POST, "/callbacks/redeliver"),
            Self::Approve => (Method::POST, "/approvals/{approvalId}/approve"),
            Self::Reject => (Method::POST, "/approvals/{approvalId}/reject"),
            Self::Retract => (Method::POST, "/approvals/{approvalId}/withdraw"),
        }
    }

    /// What the change concerns: fields that the link to the form has, and that an operator does not type.
    pub const fn subject(self) -> &'static [&'static str] {
        match self {
            Self::Deposit | Self::Cap => &["participant", "currency"],
            Self::Withdraw => &["participant", "currency", "account"],
            Self::PayOut | Self::TakeBack => &["participant", "account", "movement"],
            Self::Suspend | Self::Resume => &["participant"],
            Self::CloseWindow => &["window"],
            Self::Settle => &["window", "model"],
            Self::Advance | Self::AbortSettlement => &["settlement"],
            Self::Redeliver => &["dfsp"],
            Self::Approve | Self::Reject | Self::Retract => &["proposal"],
        }
    }

    /// The fields that an operator fills in.
    pub const fn fields(self) -> &'static [Field] {
        match self {
            Self::Deposit | Self::Withdraw => &[Amount, Reference, Reason],
            Self::Cap => &[Limit, Alarm, Reason],
            Self::Redeliver => &[],
            Self::Approve | Self::Retract => &[Comment],
            Self::PayOut
            | Self::TakeBack
            | Self::Suspend
            | Self::Resume
            | Self::CloseWindow
            | Self::Settle
            | Self::Advance
            | Self::AbortSettlement
            | Self::Reject => &[Reason],
        }
    }

    /// Whether it moves funds under an identifier of its own, which makes it happen once.
    pub const fn has_id(self) -> bool {
        matches!(self, Self::Deposit | Self::Withdraw)
    }

    /// Whether it decides about a proposal. Such a change has no preview, because its form shows the proposal.
    pub const fn is_decision(self) -> bool {
        matches!(self, Self::Approve | Self::Reject | Self::Retract)
    }

    /// Whether an effect can be shown before the change.
    pub const fn has_preview(self) -> bool {
        !self.is_decision() && !matches!(self, Self::Redeliver)
    }

    /// The heading of its form, which is also the text of its link.
    pub const fn title(self, words: &Words) -> &'static str {
        match self {
            Self::Deposit => words.change_deposit,
            Self::Withdraw => words.change_withdraw,
            Self::PayOut => words.change_pay_out,
            Self::TakeBack => words.change_take_back,
            Self::Cap => words.change_cap,
            Self::Suspend => words.change_suspend,
            Self::Resume => words.change_resume,
            Self::CloseWindow => words.change_close_window,
            Self::Settle => words.change_settle,
            Self::Advance => words.change_advance,
            Self::AbortSettlement => words.change_abort_settlement,
            Self::Redeliver => words.change_redeliver,
            Self::Approve => words.change_approve,
            Self::Reject => words.change_reject,
            Self::Retract => words.change_retract,
        }
    }

    /// What the operator has to know before.
    pub const fn note(self, words: &Words) -> &'static str {
        match self {
            Self::Deposit => words.note_deposit,
            Self::Withdraw => words.note_withdraw,
            Self::PayOut => words.note_pay_out,
            Self::TakeBack => words.note_take_back,
            Self::Cap => words.note_cap,
            Self::Suspend => words.note_suspend,
            Self::Resume => words.note_resume,
            Self::CloseWindow => words.note_close_window,
            Self::Settle => words.note_settle,
            Self::Advance => words.note_advance,
            Self::AbortSettlement => words.note_abort_settlement,
            Self::Redeliver => words.note_redeliver,
            Self::Approve => words.note_approve,
            Self::Reject => words.note_reject,
            Self::Retract => words.note_retract,
        }
    }

    /// The URL of its form.
    pub fn url(self, subject: &[(&str, &str)]) -> String {
        url(&path(&["console", "changes", self.as_str()]), subject)
    }

    /// The page that shows the result, and the page to which an operator returns.
    pub fn page_after(self, value: impl Fn(&str) -> String) -> String {
        match self {
            Self::Deposit | Self::Withdraw | Self::PayOut | Self::TakeBack => {
                url("/console/funds", &[("participant", &value("participant"))])
            }
            Self::Cap | Self::Suspend | Self::Resume => participant_url(&value("participant")),
            Self::CloseWindow => path(&["console", "windows", &value("window")]),
            Self::Settle => "/console/settlement".to_owned(),
            Self::Advance | Self::AbortSettlement => path(&["console", "settlements", &value("settlement")]),
            Self::Redeliver => "/console/callbacks".to_owned(),
            Self::Approve | Self::Reject | Self::Retract => "/console/approvals".to_owned(),
        }
    }
}
