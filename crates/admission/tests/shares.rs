//! Properties of shares: not more than the limit, not less if it is requested, and no source at the expense of another.

use proptest::prelude::*;
use upesi_admission::{Denied, ORDINARY_BODY_BYTES_MAX, REQUEST, Shares, SharesConfig, SourceId, cost_of};

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
    fn everybody_gets_the_max_min_fair_share(
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
    fn together_they_get_the_limit_and_no_more(
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
    fn the_state_is_bounded_whoever_asks(ids in prop::collection::vec(any::<u32>(), 1..2_000), max in 1_usize..50) {
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
fn one_that_asks_rarely_is_never_refused_beside_a_flood() {
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
fn without_a_limit_nothing_is_refused() {
    let mut shares = shares(None, 1);
    for id in 0..1_000 {
        assert_eq!(shares.ask(SourceId(id)), Ok(()));
    }
}

#[test]
fn a_quota_holds_where_others_ask_for_nothing() {
    let mut shares = shares(Some(2 * REQUEST), 64);
    let granted = granted(&mut shares, None, &[10, 1]);
    assert_eq!(granted, [2 * MEASURED_INTERVALS, MEASURED_INTERVALS]);
    assert_eq!(shares.ask(SourceId(1)), Ok(()));
    assert_eq!(shares.ask(SourceId(1)), Ok(()));
    assert_eq!(shares.ask(SourceId(1)), Err(Denied::Quota));
    assert_eq!(shares.refused().collect::<Vec<_>>(), [(SourceId(1), 1)]);
}

#[test]
fn a_limit_below_one_request_a_interval_is_kept_over_many() {
    let mut shares = shares(None, 64);
    let granted = granted(&mut shares, Some(REQUEST / 4), &[3]);
    assert!((24..=26).contains(&granted[0]), "{granted:?}");
}

#[test]
fn a_flood_that_ends_leaves_everything_to_the_others() {
    let mut shares = shares(None, 64);
    granted(&mut shares, Some(20 * REQUEST), &[1_000, 15]);
    for _ in 0..40 {
        shares.end_interval(Some(20 * REQUEST), 1);
    }
    for _ in 0..15 {
        assert_eq!(shares.ask(SourceId(2)), Ok(()));
    }
}

// Requests with large bodies: their cost for the sender, without effect on other senders.

const HEAVY: SourceId = SourceId(1);
const MIB: u64 = 1 << 20;

fn taken(shares: &mut Shares, id: SourceId, times: usize, body_bytes: u64) -> usize {
    (0..times).filter(|_| shares.ask_for(id, body_bytes).is_ok()).count()
}

#[test]
fn a_request_counts_once_for_each_portion_of_its_body() {
    let size = ORDINARY_BODY_BYTES_MAX;
    let cases = [(0, 1), (1, 1), (size, 1), (size + 1, 2), (4 * size, 4), (5 * MIB, 320)];
    assert_eq!(cases.map(|(bytes, _)| cost_of(bytes)), cases.map(|(_, requests)| requests * REQUEST));
    assert_eq!(cost_of(u64::MAX) % REQUEST, 0);
}

/// Of 100 requests per interval, one DFSP uses half with requests of 64 portions. Seven others send few requests.
#[test]
fn few_huge_bodies_leave_the_others_their_share() {
    let mut shares = shares(None, 64);
    let (mut heavy_bytes, mut intervals) = (0, 0);
    for interval in 0..400 {
        shares.end_interval(Some(100 * REQUEST), 1);
        let huge = taken(&mut shares, HEAVY, 50, MIB) as u64;
        let others: Vec<_> = (2..9).map(|id| taken(&mut shares, SourceId(id), 8, 1_000)).collect();
        if interval >= 100 {
            assert_eq!(others, [8; 7], "interval {interval}");
            heavy_bytes += huge * MIB;
            intervals += 1;
        }
    }
    // The rest of the 100 portions, in bytes.
    let left = (100 - 7 * 8) * ORDINARY_BODY_BYTES_MAX * intervals;
    assert!(heavy_bytes <= left * 11 / 10, "{heavy_bytes} of {left}");
    assert!(heavy_bytes >= left * 7 / 10, "{heavy_bytes} of {left}");
}

#[test]
fn a_huge_request_is_taken_on_credit_and_paid_back() {
    let mut shares = shares(Some(REQUEST), 64);
    shares.end_interval(None, 1);
    // The requests of a second are saved up, and the last of them may be large.
    assert_eq!(taken(&mut shares, HEAVY, 49, 0), 49);
    assert_eq!(shares.ask_for(HEAVY, 10 * ORDINARY_BODY_BYTES_MAX), Ok(()));
    for interval in 0..9 {
        assert_eq!(shares.ask(HEAVY), Err(Denied::Quota), "interval {interval}");
        shares.end_interval(None, 1);
    }
    shares.end_interval(None, 1);
    assert_eq!(shares.ask(HEAVY), Ok(()));
    assert_eq!(shares.ask(HEAVY), Err(Denied::Quota));
}

#[test]
fn what_was_not_announced_is_owed() {
    let mut shares = shares(Some(10 * REQUEST), 64);
    shares.end_interval(Some(1_000 * REQUEST), 1);
    assert_eq!(shares.ask(HEAVY), Ok(()));
    shares.charge(HEAVY, 100 * MIB);
    assert_eq!(shares.ask(HEAVY), Err(Denied::Quota));
    for _ in 0..1_000 {
        shares.end_interval(Some(1_000 * REQUEST), 1);
    }
    assert_eq!(shares.ask_for(HEAVY, 100_000), Ok(()));
}

#[test]
fn debts_are_not_forgotten_and_end() {
    let mut shares = shares(None, 64);
    for _ in 0..3 {
        shares.end_interval(Some(2 * REQUEST), 1);
        let _ = taken(&mut shares, SourceId(2), 2, 0);
        let _ = shares.ask_for(HEAVY, 1_000 * ORDINARY_BODY_BYTES_MAX);
    }
    for interval in 0..100 {
        shares.end_interval(Some(2 * REQUEST), 1);
        assert!(taken(&mut shares, SourceId(2), 2, 0) >= 1, "interval {interval}");
        assert_eq!(shares.ask(HEAVY), Err(Denied::Share), "interval {interval}");
    }
    // Without a limit there is no debt.
    shares.end_interval(None, 1);
    shares.end_interval(Some(1_000 * REQUEST), 1);
    assert_eq!(shares.ask(HEAVY), Ok(()));
    for _ in 0..2_000 {
        shares.end_interval(None, 1);
    }
    assert_eq!(shares.sources(), 0, "and nobody is remembered for ever");
}
