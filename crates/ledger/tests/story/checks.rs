//! Checks of stories between their steps.

use upesi_ledger::{Account, Participant, ParticipantId, SignatureKey, TransferState};
use upesi_types::{FspId, Timestamp};

use super::words::{self, Parsed, Words};
use super::{Story, print};

impl Story {
    /// Compares an expectation with the state. The error contains both.
    pub(super) fn check(&mut self, what: &str, words: &mut Words) -> Parsed<()> {
        let (wanted, got) = match what {
            "position" => self.balance(words.name()?, "POSITION", words)?,
            "settlement" => self.balance(words.name()?, "SETTLEMENT", words)?,
            "balance" => {
                let (name, kind) = (words.name()?, words.next("a type")?);
                self.balance(name, &kind, words)?
            }
            "state" => self.state(words)?,
            "conversion" => self.fx_transfer_state(words)?,
            "bulk-state" => self.bulk_state(words)?,
            "reason" => self.reason(words)?,
            "funds" => {
                let id = self.id(&words.next("a movement of funds")?);
                let state = self.twin.live.funds(id).map_or("unknown", |funds| funds.state.as_str());
                (words.next("a state")?, state.to_owned())
            }
            "cap" => {
                let (name, cap) = (words.name()?, words.amount()?);
                let limit =
                    self.participant(name.as_str())?.limit(words.currency()?).map(|limit| limit.value);
                (cap.to_string(), limit.map_or("none".to_owned(), |limit| limit.to_string()))
            }
            "accounts" => self.accounts(words)?,
            "bindings" => {
                let owner = self.participant(words.name()?.as_str())?;
                let bindings: Vec<_> = owner.bindings.iter().map(ToString::to_string).collect();
                (words.next("a list")?, bindings.join(", "))
            }
            "blocks" => {
                let blocks: Vec<_> = self.twin.live.blocks().keys().map(ToString::to_string).collect();
                (words.next("a list")?, blocks.join(", "))
            }
            "keys" => {
                let id = self.participant(words.name()?.as_str())?.id;
                (words.next("a list")?, self.signature_keys(id))
            }
            "fees" => {
                let totals = self.twin.live.totals();
                let got = format!("{} charged, {} not charged", totals.fees, totals.fees_not_charged);
                (rest(words)?, got)
            }
            "results-ignored" => {
                (words.next("a number")?, self.twin.live.bulk_totals().results_ignored.to_string())
            }
            "participants" => (words.next("a number")?, self.twin.live.participants().len().to_string()),
            "owed" => {
                let target = self.participant(words.name()?.as_str())?.id;
                let owed = self.twin.live.outbox().pending(target, None).count();
                (words.next("a number")?, owed.to_string())
            }
            "window" => self.window_line(words)?,
            "pairs" => self.pairs(words)?,
            "stage" => self.stage(words)?,
            "note" => self.note(words)?,
            "remainder" => self.remainder(words)?,
            "approval" => self.approval(words)?,
            "parked" => (words.next("a number")?, self.twin.live.outbox().parked_len().to_string()),
            _ => return Err("no such step".to_owned()),
        };
        if wanted == got { Ok(()) } else { Err(format!("- {wanted}\n    + {got}")) }
    }

    /// `keys greenbank "K1 previous until 12:00:30, K2 current, K0 revoked; files until 12:00:30"`, at the time of the
    /// next step.
    fn signature_keys(&self, owner: ParticipantId) -> String {
        let Some(keys) = self.twin.live.signature_keys().of(owner) else { return String::new() };
        let shown = |key: &SignatureKey| {
            let name = String::from_utf8_lossy(&key.public_key.0);
            let state = keys.state_of(key, self.clock).as_str();
            let end = key.ends_at.filter(|_| !key.has_ended(self.clock));
            format!("{name} {state}{}", until(end))
        };
        let revoked = keys.revoked.iter().map(|_| "one revoked".to_owned());
        let all: Vec<_> = keys.keys.iter().map(shown).chain(revoked).collect();
        format!("{}; files{}", all.join(", "), until(keys.files_end_at))
    }

    pub(super) fn participant(&self, name: &str) -> Parsed<&Participant> {
        let found = self.twin.live.participant_named(&words::name(name)?);
        found.ok_or_else(|| format!("there is no {name}"))
    }

    fn balance(&self, name: FspId, kind: &str, words: &mut Words) -> Parsed<(String, String)> {
        let wanted = words.amount()?;
        let id = self.account_id(&name, kind, words.currency()?)?;
        let balance = self.twin.live.account(id).ok_or("no account")?.balance;
        Ok((wanted.to_string(), balance.to_string()))
    }

    /// `state t1 EXPIRED_RESERVED`; `unknown` if it is neither in memory nor in the archive.
    fn state(&mut self, words: &mut Words) -> Parsed<(String, String)> {
        let id = self.id(&words.next("a transfer")?);
        let found = self.twin.live.transfer(id).or_else(|| self.twin.archive.get(&id));
        Ok((words.next("a state")?, found.map_or("unknown", print::state).to_owned()))
    }

    /// `reason t1 "the payee is gone"`: an operator's reason for ending it; `none` if no operator did.
    fn reason(&mut self, words: &mut Words) -> Parsed<(String, String)> {
        let id = self.id(&words.next("a transfer")?);
        let found = self.twin.live.transfer(id).or_else(|| self.twin.archive.get(&id));
        let reason = match found.map(|transfer| &transfer.state) {
            Some(TransferState::Aborted(end)) => end.operator_reason.as_deref(),
            _ => None,
        };
        Ok((words.next("a reason")?, reason.unwrap_or("none").to_owned()))
    }

    /// `accounts greenbank POSITION KES active, SETTLEMENT KES inactive`.
    fn accounts(&self, words: &mut Words) -> Parsed<(String, String)> {
        let owner = self.participant(words.name()?.as_str())?;
        let wanted = rest(words)?;
        let shown = |account: &Account| {
            let flag = if account.is_active { "active" } else { "inactive" };
            format!("{} {} {flag}", self.twin.live.account_type_name(account.kind), account.currency)
        };
        let accounts = owner.accounts.iter().filter_map(|account| self.twin.live.account(account.id));
        Ok((wanted, accounts.map(shown).collect::<Vec<_>>().join(", ")))
    }
}

fn until(end: Option<Timestamp>) -> String {
    end.map_or_else(String::new, |end| format!(" until {}", words::time_of_day(end)))
}

/// The remaining words.
fn rest(words: &mut Words) -> Parsed<String> {
    let mut rest = Vec::new();
    while !words.is_empty() {
        rest.push(words.next("a word")?);
    }
    Ok(rest.join(" "))
}
