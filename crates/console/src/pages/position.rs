//! A position against its limits, for several pages.

use upesi_admin::reads::{Decimal, PositionSummary};
use upesi_types::Amount;

use crate::show;
use crate::table::{Bar, Cell, Mark, Tone};
use crate::words::{Words, fill};

/// The whole of a limit, in hundredths of a percent.
const WHOLE_BASIS_POINTS: i64 = 10_000;

/// The lower of cap and cover.
fn bound(position: &PositionSummary) -> Amount {
    let Decimal(cover) = position.cover;
    position.cap.map_or(cover, |Decimal(cap)| cap.min(cover))
}

/// What the participant may still send, in ten-thousandths.
pub(super) fn free(position: &PositionSummary) -> i128 {
    i128::from(bound(position).units()) - i128::from(position.position.0.units())
}

/// The used share of the limit: above the alarm it is a warning, and from the whole on nothing more can be sent.
pub(super) fn position_tone(position: &PositionSummary) -> Tone {
    let alarm = i64::from(position.alarm_basis_points);
    let is_owing = position.position.0 > Amount::ZERO;
    match position.utilisation_basis_points {
        None if is_owing => Tone::Bad,
        None => Tone::Plain,
        Some(WHOLE_BASIS_POINTS..) => Tone::Bad,
        Some(used) if used >= alarm && used > 0 => Tone::Warning,
        Some(_) => Tone::Plain,
    }
}

pub(super) fn used_cell(position: &PositionSummary, words: &Words) -> Cell {
    let Some(used) = position.utilisation_basis_points else {
        return Cell::text(words.no_limit).toned(position_tone(position));
    };
    Cell::share(u64::try_from(used / 10).unwrap_or(0), words).toned(position_tone(position))
}

/// The size of the position; its side is in [`side_cell`]. The export has the sign of the ledger.
pub(super) fn owed_cell(position: &PositionSummary, words: &Words) -> Cell {
    let (currency, Decimal(owed)) = (position.currency.0, position.position);
    let size = i128::from(owed.units().unsigned_abs());
    Cell { text: show::money(size, currency, words), ..Cell::amount(owed, currency, words) }
}

/// Whether the participant owes or is owed.
pub(super) fn side_cell(position: &PositionSummary, words: &Words) -> Cell {
    Cell::text(match position.position.0.units() {
        0 => "",
        1.. => words.side_owes,
        _ => words.side_is_owed,
    })
}

/// The position against the lower of cap and cover, with a line at this limit and one at the other limit if it is near.
pub(super) fn position_bar(position: &PositionSummary, words: &Words) -> Bar {
    let currency = position.currency.0;
    let units = |Decimal(amount): Decimal| amount.units().max(0);
    let (owed, cover) = (units(position.position), units(position.cover));
    let cap = position.cap.map(units);
    // The limit is at nine tenths of the bar, so that a position above it is visible.
    let whole = (bound(position).units().max(0) / 9).saturating_mul(10).max(owed).max(1);
    let part = |units: i64| u64::try_from(i128::from(units) * 1000 / i128::from(whole)).unwrap_or(0);
    let limits = [(Some(cover), "cover"), (cap, "cap")];
    let near = limits.into_iter().filter_map(|(limit, class)| Some((limit?, class)));
    let near = near.filter(|(limit, _)| *limit <= whole);
    let marks = near.map(|(limit, class)| Mark { at: part(limit).min(994), class }).collect();
    let money = |units: i64| show::money(i128::from(units), currency, words);
    let values = [
        ("position", &*money(owed)),
        ("cover", &money(cover)),
        ("cap", &cap.map_or_else(String::new, money)),
    ];
    let text = if cap.is_some() { words.bar_position_cap } else { words.bar_position };
    let tone = position_tone(position);
    Bar { from: 0, length: part(owed), tone, marks, text: fill(text, &values) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ENGLISH;
    use upesi_admin::reads::{Code, Flag};
    use upesi_types::Currency;

    fn summary(position: &str, cover: &str, cap: Option<&str>, used: Option<i64>) -> PositionSummary {
        let amount = |text: &str| Decimal(Amount::parse_decimal(text).unwrap());
        PositionSummary {
            participant: "greenbank".to_owned(),
            currency: Code(Currency::parse("KES").unwrap()),
            is_active: Flag(true),
            position: amount(position),
            cover: amount(cover),
            cap: cap.map(amount),
            alarm_basis_points: 8_000,
            reserved: amount("0"),
            utilisation_basis_points: used,
        }
    }

    #[test]
    fn position_is_drawn_against_cap_and_cover() {
        let bar = position_bar(&summary("250", "2000", Some("1000"), Some(2_500)), &ENGLISH);
        let marks: Vec<_> = bar.marks.iter().map(|mark| (mark.at, mark.class)).collect();
        assert_eq!((bar.length, &marks[..]), (225, &[(900, "cap")][..]));
        assert_eq!(bar.text, "owes 250.00; cap 1,000.00; cover 2,000.00");
        let bar = position_bar(&summary("1100", "1050", Some("1000"), Some(11_000)), &ENGLISH);
        let marks: Vec<_> = bar.marks.iter().map(|mark| (mark.at, mark.class)).collect();
        assert_eq!((bar.length, &marks[..]), (990, &[(945, "cover"), (900, "cap")][..]));
        let bar = position_bar(&summary("-20", "0", None, None), &ENGLISH);
        assert_eq!((bar.length, bar.text.as_str()), (0, "owes 0.00; cover 0.00"));
    }

    #[test]
    fn position_warns_from_its_alarm_and_is_bad_at_its_limit() {
        for (used, owed, tone) in [
            (Some(7_999), "1", Tone::Plain),
            (Some(8_000), "1", Tone::Warning),
            (Some(10_000), "1", Tone::Bad),
            (None, "0", Tone::Plain),
            (None, "1", Tone::Bad),
        ] {
            assert_eq!(position_tone(&summary(owed, "1", None, used)), tone, "{used:?} {owed}");
        }
    }
}
