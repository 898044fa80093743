//! Properties of shares: not more than the limit, not less if it is requested, and no source at the expense of another.

mod large_bodies;

use proptest::prelude::*;
use upesi_admission::{REQUEST, ShareRejection, Shares, SharesConfig, SourceId};

/// Intervals until demand is known and saved credit is spent.
const SETTLING_INTERVALS: u64 = 100;
const MEASURED_INTERVALS: u64 = 100;

fn shares(quota_per_source: Option<u64>, sources_max: usize) -> Shares {
    Shares::new(SharesConfig { quota_per_source, sources_max })
}

/// Source `n + 1` sends `demands[n]` requests per interval, alternating with the others. Returns the number of granted
/// requests of each in the measured intervals.
fn granted(shares: &mut Shares, quota: Option<u64>, demands: &[u64]) -> Vec<u64> {
    let mut granted = vec![0; demands.len()];
    for interval in 0..SETTLING_INTERVALS + MEASURED_INTERVALS {
        let most = demands.iter().max().copied().unwrap_or(0);
        for round in 0..most {
            for (index, _) in demands.iter().enumerate().filter(|(_, demand)| round < **demand) {
                let is_granted = shares.ask(SourceId(index as u32 + 1)).is_ok();
                granted[index] += u64::from(is_granted && interval >= SETTLING_INTERVALS);
            }
        }
        shares.end_interval(quota, 1);
    }
    granted
}

/// The result of max-min fairness by its definition: fill all equally until the quota or the demand is met.
fn max_min(quota: u64, demands: &[u64]) -> Vec<u64> {
    let demands: Vec<u64> = demands.iter().map(|demand| demand * REQUEST).collect();
    let mut given = vec![0; demands.len()];
    let mut left = quota;
    loop {
        let hungry: Vec<usize> = (0..demands.len()).filter(|index| given[*index] < demands[*index]).collect();
        let part = left / hungry.len().max(1) as u64;
        if hungry.is_empty() || part == 0 {
            return given;
        }
        for index in hungry {
            let more = part.min(demands[index] - given[index]);
            given[index] += more;
            left -= more;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn source_gets_its_max_min_fair_share(
        demands in prop::collection::vec(0_u64..200, 1..12),
        quota in 1_u64..600,
    ) {
        let quota = quota * REQUEST;
        let granted = granted(&mut shares(None, 64), Some(quota), &demands);
        let fair = max_min(quota, &demands);
        for (index, (granted, fair)) in granted.iter().zip(&fair).enumerate() {
            let fair = fair * MEASURED_INTERVALS / REQUEST;
            // Saved credit, and rounding.
            let slack = fair / 10 + 10;
            prop_assert!(granted.abs_diff(fair) <= slack, "source {index}: {granted} of {fair}, {demands:?}, {quota}");
        }
    }

    #[test]
    fn sources_together_get_exactly_the_limit(
        demands in prop::collection::vec(0_u64..200, 1..12),
        quota in 1_u64..600,
    ) {
        let total: u64 = granted(&mut shares(None, 64), Some(quota * REQUEST), &demands).iter().sum();
        let asked: u64 = demands.iter().sum();
        let right = quota.min(asked) * MEASURED_INTERVALS;
        prop_assert!(total <= right + right / 20 + 10, "{total} of {right}");
        prop_assert!(total + right / 20 + 10 >= right, "{total} of {right}");
    }

    #[test]
    fn shares_remember_a_limited_number_of_sources(ids in prop::collection::vec(any::<u32>(), 1..2_000), max in 1_usize..50) {
        let mut shares = shares(Some(REQUEST), max);
        for (index, id) in ids.iter().enumerate() {
            let _ = shares.ask(SourceId(*id));
            // The source that stands for all others may be additional.
            prop_assert!(shares.sources() <= max + 1);
            if index % 100 == 0 {
                shares.end_interval(Some(10 * REQUEST), 1);
            }
        }
        for _ in 0..200 {
            shares.end_interval(None, 1);
        }
        prop_assert_eq!(shares.sources(), 0);
    }
}

#[test]
fn rare_sender_is_never_rejected_during_a_flood() {
    let mut shares = shares(None, 64);
    let (flood, rare) = (SourceId(1), SourceId(2));
    for interval in 0..2_000 {
        for _ in 0..1_000 {
            let _ = shares.ask(flood);
        }
        if interval % 50 == 0 && interval > 0 {
            assert_eq!(shares.ask(rare), Ok(()), "interval {interval}");
        }
        shares.end_interval(Some(10 * REQUEST), 1);
    }
}

#[test]
fn shares_without_a_limit_accept_everything() {
    let mut shares = shares(None, 1);
    for id in 0..1_000 {
        assert_eq!(shares.ask(SourceId(id)), Ok(()));
    }
}

#[test]
fn quota_applies_even_if_other_sources_are_idle() {
    let mut shares = shares(Some(2 * REQUEST), 64);
    let granted = granted(&mut shares, None, &[10, 1]);
    assert_eq!(granted, [2 * MEASURED_INTERVALS, MEASURED_INTERVALS]);
    assert_eq!(shares.ask(SourceId(1)), Ok(()));
    assert_eq!(shares.ask(SourceId(1)), Ok(()));
    assert_eq!(shares.ask(SourceId(1)), Err(ShareRejection::Quota));
    assert_eq!(shares.refused().collect::<Vec<_>>(), [(SourceId(1), 1)]);
}

#[test]
fn limit_below_one_request_per_interval_holds_over_many_intervals() {
    let mut shares = shares(None, 64);
    let granted = granted(&mut shares, Some(REQUEST / 4), &[3]);
    assert!((24..=26).contains(&granted[0]), "{granted:?}");
}

#[test]
fn ended_flood_leaves_the_capacity_to_others() {
    let mut shares = shares(None, 64);
    granted(&mut shares, Some(20 * REQUEST), &[1_000, 15]);
    for _ in 0..40 {
        shares.end_interval(Some(20 * REQUEST), 1);
    }
    for _ in 0..15 {
        assert_eq!(shares.ask(SourceId(2)), Ok(()));
    }
}
