//! Settlement windows and settlements: requests of operators, and checks of stories.

use upesi_ledger::command::{
    AdvanceItem, CoverItem, NewSettlement, SettlementAbort, SettlementAdvance, SettlementCover,
};
use upesi_ledger::{Account, AccountId, AdminCommand, Settlement, SettlementId, SettlementState, WindowId};

use super::Story;
use super::words::{Parsed, Words};

impl Story {
    /// `close window 1`, with `because REASON`.
    pub(super) fn close_window(&self, words: &mut Words) -> Parsed<AdminCommand> {
        let reason = reason(words)?;
        words.next("window")?;
        Ok(AdminCommand::CloseWindow { id: window(&words.next("a number")?)?, reason })
    }

    /// `settle 1 2 by MODEL`, with `because REASON`.
    pub(super) fn create_settlement(&self, words: &mut Words) -> Parsed<AdminCommand> {
        let reason = reason(words)?;
        let model = words.option("by")?.ok_or("by which model?")?.into();
        let mut windows = Vec::new();
        while !words.is_empty() {
            windows.push(window(&words.next("a window")?)?);
        }
        Ok(AdminCommand::CreateSettlement(NewSettlement { model, reason, windows }))
    }

    /// `advance 1 RECORDED greenbank bluewallet`, `advance 1 RECORDED all`, with `because REASON`, `reference REF`. An
    /// account is `OWNER`, `OWNER/TYPE/CURRENCY` or a number, after `as OWNER:` for another participant.
    pub(super) fn advance_settlement(&self, words: &mut Words) -> Parsed<AdminCommand> {
        let reason = reason(words)?;
        let external_reference: Option<Box<str>> = words.option("reference")?.map(Into::into);
        let id = settlement(&words.next("a settlement")?)?;
        let state = state(&words.next("a state")?)?;
        let mut accounts = Vec::new();
        if words.next_if("all") {
            let settlement = self.twin.live.settlement(id).ok_or("unknown settlement")?;
            let all = settlement.accounts.iter().filter_map(|item| self.twin.live.account(item.account));
            accounts.extend(all.map(|account| (account.participant.number(), account.id.number())));
        }
        while !words.is_empty() {
            let word = words.next("an account")?;
            let (owner, path) = word.split_once(':').map_or((None, word.as_str()), |(a, b)| (Some(a), b));
            let account = self.settled_account(path)?;
            let found = self.twin.live.account(account).map(|account| account.participant);
            let owner = owner.map(|owner| self.participant(owner)).transpose()?.map(|owner| owner.id);
            let participant = owner.or(found).map_or(0, |id| id.number());
            accounts.push((participant, account.number()));
        }
        let item = |(participant, account)| AdvanceItem {
            participant,
            account,
            state,
            reason: reason.clone(),
            external_reference: external_reference.clone(),
        };
        let items = accounts.into_iter().map(item).collect();
        Ok(AdminCommand::AdvanceSettlement(SettlementAdvance { id, items }))
    }

    /// `cover 1 greenbank w1 bluewallet d1`, with `because REASON`, `reference REF`: accounts, each with the id of its
    /// movement of funds.
    pub(super) fn move_cover(&mut self, words: &mut Words) -> Parsed<AdminCommand> {
        let reason = reason(words)?;
        let external_reference: Option<Box<str>> = words.option("reference")?.map(Into::into);
        let id = settlement(&words.next("a settlement")?)?;
        let mut items = Vec::new();
        while !words.is_empty() {
            let account = self.settled_account(&words.next("an account")?)?;
            let participant = self.twin.live.account(account).map_or(0, |found| found.participant.number());
            let funds = self.id(&words.next("a movement of funds")?);
            let (account, reason) = (account.number(), reason.clone());
            let external_reference = external_reference.clone();
            items.push(CoverItem { participant, account, funds, reason, external_reference });
        }
        Ok(AdminCommand::MoveCover(SettlementCover { id, items }))
    }

    /// `abort-settlement 1`, with `because REASON`, `reference REF`.
    pub(super) fn abort_settlement(&self, words: &mut Words) -> Parsed<AdminCommand> {
        let reason = reason(words)?;
        let external_reference = words.option("reference")?.map(Into::into);
        let id = settlement(&words.next("a settlement")?)?;
        Ok(AdminCommand::AbortSettlement(SettlementAbort { id, reason, external_reference }))
    }

    fn settled_account(&self, path: &str) -> Parsed<AccountId> {
        match path.parse().ok().and_then(AccountId::new) {
            Some(number) => Ok(number),
            None if path.contains('/') => self.account_path(path),
            None => self.account_path(&format!("{path}/POSITION/KES")),
        }
    }

    /// `window 1 CLOSED "end of day" KES POSITION CLOSED, …`: state, reason, contents.
    pub(super) fn window_line(&self, words: &mut Words) -> Parsed<(String, String)> {
        let id = window(&words.next("a window")?)?;
        let Some(window) = self.twin.live.window(id) else { return Ok((rest(words)?, "unknown".to_owned())) };
        let contents = window.contents.iter().map(|content| {
            let kind = self.twin.live.account_type_name(content.kind);
            let id = content.id;
            format!("{id} {} {kind} {}", content.currency, content.state.as_str())
        });
        let mut line = vec![format!("{} {}", window.state.as_str(), window.reason).trim().to_owned()];
        line.extend(contents);
        Ok((rest(words)?, line.join(", ")))
    }

    /// `pairs 1 greenbank → bluewallet 100 in 2, …`: the pairs of a window.
    pub(super) fn pairs(&self, words: &mut Words) -> Parsed<(String, String)> {
        let id = window(&words.next("a window")?)?;
        let window = self.twin.live.window(id).ok_or("unknown window")?;
        let pairs = self.twin.live.window_pairs(window);
        let pair = |pair: &upesi_ledger::PairSum| {
            let [payer, payee] = [pair.payer, pair.payee].map(|id| self.shown(id));
            format!("{payer} → {payee} {} in {}", decimal(pair.sum.units), pair.sum.transfers)
        };
        let pairs = pairs.map(|pairs| pairs.iter().map(pair).collect::<Vec<_>>().join(", "));
        Ok((rest(words)?, pairs.map_or("dropped".to_owned(), |pairs| or_none(&pairs))))
    }

    /// `stage 1 PENDING_SETTLEMENT end of day, greenbank 100 PENDING_SETTLEMENT, …`: state, reason, reference,
    /// accounts.
    pub(super) fn stage(&self, words: &mut Words) -> Parsed<(String, String)> {
        let id = settlement(&words.next("a settlement")?)?;
        let Some(settlement) = self.twin.live.settlement(id) else {
            return Ok((rest(words)?, "unknown".to_owned()));
        };
        let accounts = settlement.accounts.iter().map(|account| {
            let owner = self.shown(account.account);
            format!("{owner} {} {}", account.net, account.state.as_str())
        });
        let mut line = vec![head(settlement)];
        line.extend(accounts);
        Ok((rest(words)?, line.join(", ")))
    }

    /// `note 1 greenbank "sent to bank" ref-1`: reason and reference of an account.
    pub(super) fn note(&self, words: &mut Words) -> Parsed<(String, String)> {
        let id = settlement(&words.next("a settlement")?)?;
        let account = self.settled_account(&words.next("an account")?)?;
        let found = self.twin.live.settlement(id).and_then(|settlement| settlement.account(account));
        let found = found.ok_or("the settlement has no such account")?;
        let reference = found.external_reference.as_deref().unwrap_or("none");
        Ok((rest(words)?, format!("{} {reference}", found.reason)))
    }

    /// `remainder 1 greenbank 0.005 in, 0.002 over`: the fractions that an account takes over, and leaves to the next
    /// settlement.
    pub(super) fn remainder(&self, words: &mut Words) -> Parsed<(String, String)> {
        let id = settlement(&words.next("a settlement")?)?;
        let account = self.settled_account(&words.next("an account")?)?;
        let found = self.twin.live.settlement(id).and_then(|settlement| settlement.account(account));
        let found = found.ok_or("the settlement has no such account")?;
        Ok((rest(words)?, format!("{} in, {} over", found.carried_in, found.carried_over)))
    }

    /// The owner of a POSITION account in KES; for other accounts also type and currency.
    fn shown(&self, id: AccountId) -> String {
        let Some(account) = self.twin.live.account(id) else { return id.number().to_string() };
        let Account { participant, currency, kind, .. } = account;
        let owner = self.twin.live.participant(*participant).name;
        match (self.twin.live.account_type_name(*kind), currency.as_str()) {
            ("POSITION", "KES") => owner.to_string(),
            (kind, currency) => format!("{owner}/{kind}/{currency}"),
        }
    }
}

fn head(settlement: &Settlement) -> String {
    let reference = settlement.external_reference.as_ref();
    let reference = reference.map_or(String::new(), |reference| format!(" {reference}"));
    format!("{} {}{reference}", settlement.state.as_str(), settlement.reason)
}

fn window(text: &str) -> Parsed<WindowId> {
    text.parse().map(WindowId).map_err(|_| format!("\"{text}\" is not the number of a window"))
}

fn settlement(text: &str) -> Parsed<SettlementId> {
    text.parse().map(SettlementId).map_err(|_| format!("\"{text}\" is not the number of a settlement"))
}

/// `RECORDED` stands for `PS_TRANSFERS_RECORDED`.
fn state(text: &str) -> Parsed<SettlementState> {
    let long = format!("PS_TRANSFERS_{text}");
    SettlementState::parse(text).or_else(|| SettlementState::parse(&long)).ok_or("no state".to_owned())
}

fn reason(words: &mut Words) -> Parsed<Box<str>> {
    Ok(words.option("because")?.unwrap_or_else(|| "end of day".to_owned()).into())
}

fn rest(words: &mut Words) -> Parsed<String> {
    let mut rest = Vec::new();
    while !words.is_empty() {
        rest.push(words.next("a word")?);
    }
    Ok(rest.join(" "))
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "none".to_owned() } else { text.to_owned() }
}

/// Ten-thousandths as a decimal number of any size.
fn decimal(units: i128) -> String {
    let text = format!("{}.{:04}", units / 10_000, units % 10_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
