//! A preview of a job, shown to its operator before anything changes.

use std::fmt::Write;

use upesi_engine::{Clock as _, SystemClock};
use upesi_ledger::WindowState;
use upesi_process::terminal::{confirm, note};
use upesi_process::times::Zone;
use upesi_types::Timestamp;
use upesi_types::text::Escaped;

use super::api::{Content, Model, Sums, Window};
use super::error::{Done, SettlementError};
use super::hub::Hub;
use super::job::{Job, Preview, governing};

impl Job {
    /// Shows a window and its planned settlements, and asks for confirmation if the name contains another day.
    pub(super) async fn preview(&self, hub: &Hub, window: &Window) -> Done<()> {
        let Preview::Shown { is_confirmed } = self.preview else { return Ok(()) };
        let sums = hub.api.sums(window.id).await?;
        // Nothing is closed then.
        if sums.is_empty() {
            return Ok(());
        }
        note(self.describe(window, &sums, (&hub.api.models().await?, &hub.zone)));
        let Some(day) = day_in(&self.name.to_string()) else { return Ok(()) };
        if is_confirmed || days_of(window, SystemClock.now(), &hub.zone).contains(&day) {
            return Ok(());
        }
        let text = format!(
            "{} contains another day than window {}, which opened at {}",
            self.name,
            window.id,
            hub.zone.show_text(&window.created_date)
        );
        let answer = confirm(format!("{text}. Settle it under this name?"));
        let answer = answer.map_err(|error| SettlementError::Stopped(format!("the terminal: {error}")))?;
        match answer {
            Some(true) => Ok(()),
            Some(false) => Err(SettlementError::Stopped("nothing was changed".to_owned())),
            None => Err(SettlementError::Stopped(format!(
                "{text}; nothing was changed: use --yes to settle it under this name"
            ))),
        }
    }

    /// The window, its sums, and the models that settle them.
    fn describe(&self, window: &Window, sums: &Sums, (models, zone): (&[Model], &Zone)) -> String {
        let Self { name, goal, .. } = self;
        let Window { id, created_date, .. } = window;
        let verb = if window.is_open() { "closes window" } else { "settles window" };
        let opened = zone.show_text(created_date);
        let mut text = format!("{name} {verb} {id}, opened at {opened}, and takes it to {}:", goal.as_str());
        for ((currency, kind), sum) in sums {
            let (currency_id, ledger_account_type) = (currency.clone(), kind.clone());
            let mut contents = window.content.iter();
            let found = contents.find(|one| one.currency_id == *currency && one.ledger_account_type == *kind);
            let state = found.map_or(WindowState::Closed.as_str(), |found| &found.state).to_owned();
            let content =
                Content { state, ledger_account_type, currency_id, created_date: created_date.clone() };
            let by = match governing(models, &content) {
                _ if !content.can_be_settled() => content.state.clone(),
                None => "stays, without a model".to_owned(),
                Some(model) if !self.has_model(&model.name) => "stays, by its model".to_owned(),
                Some(model) => format!("by {}", Escaped(&model.name)),
            };
            let plural = if sum.transfers == 1 { "" } else { "s" };
            let kind = Escaped(kind);
            let _ = write!(text, "\n  {currency} {kind}  {sum} in {} transfer{plural}, {by}", sum.transfers);
        }
        text
    }
}

/// Days as `2026-11-26`, both ends included.
struct Days {
    first: String,
    last: String,
}

impl Days {
    fn contains(&self, day: &str) -> bool {
        (self.first.as_str()..=self.last.as_str()).contains(&day)
    }
}

/// The days of a window in a zone, from its opening to its close.
fn days_of(window: &Window, now: Timestamp, zone: &Zone) -> Days {
    let day = |instant: &str| Timestamp::parse_iso(instant).map(|at| zone.day_of(at)).unwrap_or_default();
    let first = day(&window.created_date);
    let closed = window.content.iter().map(|content| day(&content.created_date)).max();
    let last = closed.unwrap_or_else(|| zone.day_of(now)).max(first.clone());
    Days { first, last }
}

/// The day in a name, as `2026-11-26`: written in this form, with other separators, or without.
fn day_in(name: &str) -> Option<String> {
    let bytes = name.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    (0..bytes.len()).filter(|at| *at == 0 || !is_digit(at - 1)).find_map(|at| {
        let rest = &name[at..];
        let separators = if is_digit(at + 4) { 0 } else { 1 };
        let (month, day) = (4 + separators, 6 + 2 * separators);
        let (year, month, day) = (rest.get(..4)?, rest.get(month..month + 2)?, rest.get(day..day + 2)?);
        let written = format!("{year}-{month}-{day}");
        let is_whole = !is_digit(at + 8 + 2 * separators);
        let is_day = Timestamp::parse_rfc3339(&format!("{written}T00:00:00Z")).is_some();
        (is_whole && is_day).then_some(written)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_in_finds_days_in_names() {
        for (name, day) in [
            ("2026-11-26", Some("2026-11-26")),
            ("eod-20261126", Some("2026-11-26")),
            ("eod.2026_11_26.KES", Some("2026-11-26")),
            ("day-1", None),
            ("2026-11", None),
            ("2026-13-26", None),
            ("2026-11-261", None),
            ("12026-11-26", None),
            ("202611260", None),
            ("17-2026-11-26", Some("2026-11-26")),
        ] {
            assert_eq!(day_in(name).as_deref(), day, "{name}");
        }
    }

    fn window(opened: &str, closed: Option<&str>) -> Window {
        let content = |closed| serde_json::json!({"state": "CLOSED", "ledgerAccountType": "POSITION", "currencyId": "KES", "createdDate": closed});
        serde_json::from_value(serde_json::json!({
            "id": 1, "state": "OPEN", "reason": "", "createdDate": opened, "changedDate": opened,
            "content": closed.into_iter().map(content).collect::<Vec<_>>(),
        }))
        .unwrap()
    }

    #[test]
    fn days_of_contain_the_days_when_the_window_was_open() {
        let now = Timestamp::parse_iso("2026-11-26T01:00:00.000Z").unwrap();
        let (opened, closed) = ("2026-11-24T22:00:00.000Z", "2026-11-25T22:00:00.000Z");
        let (utc, nairobi) = (Zone::utc(), Zone::parse("EAT-3").unwrap());
        for (window, zone, days) in [
            (window(opened, None), &utc, &["2026-11-24", "2026-11-25", "2026-11-26"][..]),
            (window(opened, Some(closed)), &utc, &["2026-11-24", "2026-11-25"]),
            (window(opened, Some(closed)), &nairobi, &["2026-11-25", "2026-11-26"]),
            // The hub's clock is ahead of this machine's.
            (window("2026-11-27T00:00:00.000Z", None), &utc, &["2026-11-27"]),
        ] {
            let found = days_of(&window, now, zone);
            for day in 23..29 {
                let day = format!("2026-11-{day}");
                assert_eq!(found.contains(&day), days.contains(&&*day), "{day} of {window:?}");
            }
        }
    }
}
