//! Requests with large bodies: their cost for the sender, without effect on other senders.

use upesi_admission::{ORDINARY_BODY_BYTES_MAX, REQUEST, ShareRejection, Shares, SourceId, cost_of};

use super::shares;

const HEAVY: SourceId = SourceId(1);
const MIB: u64 = 1 << 20;

fn taken(shares: &mut Shares, id: SourceId, times: usize, body_bytes: u64) -> usize {
    (0..times).filter(|_| shares.ask_for(id, body_bytes).is_ok()).count()
}

#[test]
fn large_request_counts_once_per_portion_of_its_body() {
    let size = ORDINARY_BODY_BYTES_MAX;
    let cases = [(0, 1), (1, 1), (size, 1), (size + 1, 2), (4 * size, 4), (5 * MIB, 320)];
    assert_eq!(cases.map(|(bytes, _)| cost_of(bytes)), cases.map(|(_, requests)| requests * REQUEST));
    assert_eq!(cost_of(u64::MAX) % REQUEST, 0);
}

/// Of 100 requests per interval, one DFSP uses half with requests of 64 portions. Seven others send few requests.
#[test]
fn huge_bodies_leave_other_sources_their_share() {
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
fn huge_request_is_accepted_on_credit_and_repaid() {
    let mut shares = shares(Some(REQUEST), 64);
    shares.end_interval(None, 1);
    // The requests of a second are saved up, and the last of them may be large.
    assert_eq!(taken(&mut shares, HEAVY, 49, 0), 49);
    assert_eq!(shares.ask_for(HEAVY, 10 * ORDINARY_BODY_BYTES_MAX), Ok(()));
    for interval in 0..9 {
        assert_eq!(shares.ask(HEAVY), Err(ShareRejection::Quota), "interval {interval}");
        shares.end_interval(None, 1);
    }
    shares.end_interval(None, 1);
    assert_eq!(shares.ask(HEAVY), Ok(()));
    assert_eq!(shares.ask(HEAVY), Err(ShareRejection::Quota));
}

#[test]
fn unannounced_part_of_a_body_becomes_a_debt() {
    let mut shares = shares(Some(10 * REQUEST), 64);
    shares.end_interval(Some(1_000 * REQUEST), 1);
    assert_eq!(shares.ask(HEAVY), Ok(()));
    shares.charge(HEAVY, 100 * MIB);
    assert_eq!(shares.ask(HEAVY), Err(ShareRejection::Quota));
    for _ in 0..1_000 {
        shares.end_interval(Some(1_000 * REQUEST), 1);
    }
    assert_eq!(shares.ask_for(HEAVY, 100_000), Ok(()));
}

#[test]
fn debts_persist_until_repaid_or_the_limit_ends() {
    let mut shares = shares(None, 64);
    for _ in 0..3 {
        shares.end_interval(Some(2 * REQUEST), 1);
        let _ = taken(&mut shares, SourceId(2), 2, 0);
        let _ = shares.ask_for(HEAVY, 1_000 * ORDINARY_BODY_BYTES_MAX);
    }
    for interval in 0..100 {
        shares.end_interval(Some(2 * REQUEST), 1);
        assert!(taken(&mut shares, SourceId(2), 2, 0) >= 1, "interval {interval}");
        assert_eq!(shares.ask(HEAVY), Err(ShareRejection::Share), "interval {interval}");
    }
    // The end of the limit also ends debts.
    shares.end_interval(None, 1);
    shares.end_interval(Some(1_000 * REQUEST), 1);
    assert_eq!(shares.ask(HEAVY), Ok(()));
    for _ in 0..2_000 {
        shares.end_interval(None, 1);
    }
    assert_eq!(shares.sources(), 0, "idle sources are forgotten");
}
