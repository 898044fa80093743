//! Rounds nets to amounts that a bank can pay, and manages the remainders that settlements carry over.
//!
//! A bank moves whole units of a currency, but transfers may have finer amounts. A settlement rounds the nets of a
//! currency so that they still sum to zero. The rest of an account's net stays in its position. The next settlement of
//! the account's currency and type takes it over.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use upesi_types::Amount;

use crate::base::ids::AccountId;

/// Rounds amounts to whole units. The results sum to zero, as the given amounts do, and each differs from its amount by
/// less than a unit. All amounts are rounded down; then those with the largest remainders get one unit each until the
/// sum is zero.
pub(crate) fn whole_units(amounts: &BTreeMap<AccountId, i128>, unit: i128) -> BTreeMap<AccountId, i128> {
    let mut rounded: BTreeMap<_, _> =
        amounts.iter().map(|(id, units)| (*id, units - units.rem_euclid(unit))).collect();
    let lacking = -rounded.values().sum::<i128>() / unit;
    let mut by_remainder: Vec<_> = amounts.iter().map(|(id, units)| (units.rem_euclid(unit), *id)).collect();
    by_remainder.sort_unstable_by_key(|(remainder, id)| (-remainder, *id));
    let lacking = usize::try_from(lacking).unwrap_or(0);
    for (_, id) in by_remainder.into_iter().take(lacking) {
        if let Some(units) = rounded.get_mut(&id) {
            *units += unit;
        }
    }
    rounded
}

/// Adds remainders to the carried ones. Each remainder is below one unit of its currency.
pub(crate) fn add(
    carried: &mut BTreeMap<AccountId, Amount>,
    more: impl Iterator<Item = (AccountId, Amount)>,
) {
    for (account, amount) in more.filter(|(_, amount)| *amount != Amount::ZERO) {
        let sum = carried.remove(&account).unwrap_or(Amount::ZERO).checked_add(amount);
        let Some(sum) = sum else { panic!("account {} carries too much", account.number()) };
        if sum != Amount::ZERO {
            carried.insert(account, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(number: u32) -> AccountId {
        AccountId::new(number).unwrap_or_else(|| unreachable!("accounts count from 1"))
    }

    /// For all amounts, sums stay zero, and no amount changes by a whole unit.
    #[test]
    fn amounts_of_whole_units_sum_to_zero() {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i128::from(state >> 40) - (1 << 23)
        };
        for unit in [1, 10, 100, 10_000] {
            for count in 2..40 {
                let mut amounts: BTreeMap<_, _> =
                    (2..=count).map(|number| (account(number), random())).collect();
                let rest = -amounts.values().sum::<i128>();
                amounts.insert(account(1), rest);
                let rounded = whole_units(&amounts, unit);
                assert_eq!(rounded.values().sum::<i128>(), 0, "{amounts:?}");
                for (id, units) in &rounded {
                    assert!(
                        units % unit == 0 && (units - amounts[id]).abs() < unit,
                        "{units} of {amounts:?}"
                    );
                }
                assert!(unit > 1 || rounded == amounts);
            }
        }
    }
}
