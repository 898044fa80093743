//! Closed windows and their settlements as rows: a row per account of a content, in each settlement of it.

use std::io;

use upesi_ledger::{
    AccountId, Content, Ledger, Net, ParticipantId, Settlement, SettlementAccount, Window, WindowState,
};
use upesi_types::{Amount, Timestamp};

use super::value::{Row, Value};
use super::{Period, Table};

/// A content in its window.
type ContentInWindow<'a> = (&'a Window, &'a Content);

/// Net of an account.
#[derive(Clone, Copy)]
struct Entry<'a> {
    account: AccountId,
    units: i128,
    standing: ContentState<'a>,
}

#[derive(Clone, Copy)]
enum ContentState<'a> {
    /// The content is not in a settlement.
    Closed(ContentInWindow<'a>),
    /// The window is unknown if the settlement took several contents, and one has lost its sums.
    Settled { settlement: &'a Settlement, item: &'a SettlementAccount, place: Option<ContentInWindow<'a>> },
}

/// Writes the requested rows, and ends the table.
pub(super) fn export(
    ledger: &Ledger,
    wanted_window: Option<u32>,
    period: Period,
    party: Option<ParticipantId>,
    mut table: Table,
) -> io::Result<u64> {
    entries(ledger, &mut |entry| {
        let is_of = |party| ledger.account(entry.account).is_some_and(|account| account.participant == party);
        let is_of_window = |wanted| entry.place().is_some_and(|(window, _)| window.id.0 == wanted);
        let is_asked = period.contains(entry.changed_at())
            && wanted_window.is_none_or(is_of_window)
            && party.is_none_or(is_of);
        if is_asked { table.add_row(entry.row(ledger)?) } else { Ok(()) }
    })?;
    table.finish()
}

/// All entries: first of settlements, including aborted ones, then contents without a settlement.
fn entries<'a>(ledger: &'a Ledger, add: &mut dyn FnMut(Entry<'a>) -> io::Result<()>) -> io::Result<()> {
    for settlement in ledger.settlements() {
        of_settlement(ledger, settlement, add)?;
    }
    for window in ledger.windows() {
        for content in window.contents.iter().filter(|content| content.state == WindowState::Closed) {
            let place = (window, content);
            content.nets.iter().try_for_each(|net| add(Entry::of(net, ContentState::Closed(place))))?;
        }
    }
    Ok(())
}

fn of_settlement<'a>(
    ledger: &'a Ledger,
    settlement: &'a Settlement,
    add: &mut dyn FnMut(Entry<'a>) -> io::Result<()>,
) -> io::Result<()> {
    let contents = settlement.contents.iter().filter_map(|place| {
        let window = ledger.window(place.window)?;
        Some((window, window.contents.iter().find(|content| content.id == place.content)?))
    });
    let contents: Vec<_> = contents.collect();
    // Sums over several windows cannot be separated once one of them has lost its sums.
    if contents.iter().any(|(window, _)| window.pairs.is_none()) {
        let place = (contents.len() == 1).then(|| contents[0]);
        return settlement.accounts.iter().try_for_each(|item| {
            let standing = ContentState::Settled { settlement, item, place };
            add(Entry { account: item.account, units: item.net.units().into(), standing })
        });
    }
    for place in contents {
        for net in &place.1.nets {
            let Some(item) = settlement.account(net.account) else { continue };
            add(Entry::of(net, ContentState::Settled { settlement, item, place: Some(place) }))?;
        }
    }
    Ok(())
}

impl<'a> Entry<'a> {
    fn of(net: &Net, standing: ContentState<'a>) -> Self {
        Self { account: net.account, units: net.units, standing }
    }

    fn place(&self) -> Option<ContentInWindow<'a>> {
        match self.standing {
            ContentState::Closed(place) => Some(place),
            ContentState::Settled { place, .. } => place,
        }
    }

    fn changed_at(&self) -> Timestamp {
        match self.standing {
            ContentState::Closed((_, content)) => content.changed_at,
            ContentState::Settled { item, .. } => item.changed_at,
        }
    }

    fn row(&self, ledger: &'a Ledger) -> io::Result<Row<'a>> {
        let wrong = |text: &str| {
            io::Error::new(io::ErrorKind::InvalidData, format!("account {}: {text}", self.account.number()))
        };
        let account = ledger.account(self.account).ok_or_else(|| wrong("it is unknown"))?;
        let net = i64::try_from(self.units).ok().and_then(Amount::from_units);
        let net = net.ok_or_else(|| wrong("its net has more digits than an amount"))?;
        let owner = ledger.participant(account.participant);
        let (settlement, state, reference, reason) = match self.standing {
            ContentState::Closed((window, content)) => (None, content.state.as_str(), None, &*window.reason),
            ContentState::Settled { settlement, item, .. } => {
                (Some(settlement), item.state.as_str(), item.external_reference.as_deref(), &*item.reason)
            }
        };
        let model = settlement.and_then(|one| ledger.models().iter().find(|model| model.id == one.model));
        let place = self.place();
        let number = |number: u32| Value::Number(number.into());
        Ok(vec![
            Value::of(place, |(window, _)| number(window.id.0)),
            Value::of(place, |(_, content)| number(content.id.0)),
            Value::of(settlement, |settlement| number(settlement.id.0)),
            Value::of(model, |model| Value::text(&*model.name)),
            Value::text(ledger.account_type_name(account.kind)),
            Value::text(account.currency.to_string()),
            Value::text(owner.name.to_string()),
            number(account.id.number()),
            Value::Amount(net),
            Value::text(state),
            Value::of(reference, Value::text),
            Value::text(reason),
            Value::of(place, |(window, _)| Value::Instant(window.created_at)),
            Value::of(place, |(_, content)| Value::Instant(content.created_at)),
            Value::of(settlement, |settlement| Value::Instant(settlement.created_at)),
            Value::Instant(self.changed_at()),
        ])
    }
}
