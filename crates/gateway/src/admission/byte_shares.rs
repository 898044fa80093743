//! Byte rate limit of each DFSP: limits the bytes of all its bodies.
//!
//! A request costs one update of its sender's own number, without a lock. New requests and finishing requests have
//! separate rate limits, so that a flood of new requests does not delay the finishing ones of the same sender.

use std::sync::atomic::{AtomicU64, Ordering};

use upesi_admission::{Class, SourceId};

/// Number of senders with their own rate limit. If there are more, some share one.
const SENDERS: usize = 4_096;
/// Ticks per nanosecond. Time is counted in fractions of a nanosecond so that a byte at a high rate costs more than
/// zero.
const TICKS_PER_NS: u64 = 16;
/// Maximum credit of a sender: the bytes of one second.
const SAVED_TICKS: u64 = 1_000_000_000 * TICKS_PER_NS;

#[derive(Debug)]
pub(super) struct ByteShares {
    /// Cost of a byte, in 65,536ths of a tick; 0 without a limit.
    byte_ticks_q16: u64,
    used_until: Box<[UsedUntil]>,
}

/// Time until which a sender's rate is used up, by [`Class`], in ticks since the start. Each sender has a cache line of
/// its own, so that workers do not wait for each other's writes.
#[derive(Debug, Default)]
#[repr(align(64))]
struct UsedUntil([AtomicU64; 2]);

impl ByteShares {
    /// `bytes_per_s` applies to each sender; 0 means no limit.
    pub(super) fn new(bytes_per_s: u64) -> Self {
        let second = u128::from(SAVED_TICKS) << 16;
        let byte_ticks = second.checked_div(bytes_per_s.into()).map_or(0, |ticks| ticks.max(1));
        let senders = if byte_ticks > 0 { SENDERS } else { 0 };
        Self {
            byte_ticks_q16: u64::try_from(byte_ticks).unwrap_or(u64::MAX),
            used_until: (0..senders).map(|_| UsedUntil::default()).collect(),
        }
    }

    /// Whether there is a limit.
    pub(super) fn are_bounded(&self) -> bool {
        self.byte_ticks_q16 > 0
    }

    /// Whether a body of `bytes` bytes is within its sender's rate limit; if so, the bytes are charged. The last body
    /// may exceed the limit.
    pub(super) fn take(&self, class: Class, source: SourceId, bytes: u64, now_ns: u64) -> bool {
        let now = now_ns.saturating_mul(TICKS_PER_NS);
        let (cost, saved) = (self.cost(bytes), now.saturating_add(SAVED_TICKS));
        let take = |until: u64| (until < saved).then(|| until.max(now).saturating_add(cost));
        self.of(class, source).is_none_or(|used| used.fetch_update(ORDER, ORDER, take).is_ok())
    }

    /// Charges an accepted body for `bytes` more bytes than it announced.
    pub(super) fn charge(&self, class: Class, source: SourceId, bytes: u64, now_ns: u64) {
        let (now, cost) = (now_ns.saturating_mul(TICKS_PER_NS), self.cost(bytes));
        if let Some(used) = self.of(class, source) {
            let _ = used.fetch_update(ORDER, ORDER, |until| Some(until.max(now).saturating_add(cost)));
        }
    }

    fn cost(&self, bytes: u64) -> u64 {
        let ticks = (u128::from(bytes) * u128::from(self.byte_ticks_q16)) >> 16;
        u64::try_from(ticks).unwrap_or(u64::MAX).max(1)
    }

    fn of(&self, class: Class, source: SourceId) -> Option<&AtomicU64> {
        let place = usize::try_from(source.0).unwrap_or(0).checked_rem(self.used_until.len())?;
        Some(&self.used_until[place].0[class as usize])
    }
}

const ORDER: Ordering = Ordering::Relaxed;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SECOND_NS: u64 = 1_000_000_000;
    const DFSP: SourceId = SourceId(7);

    /// Sends bodies of one size, a million times per second, as long as they are accepted. Returns the bytes.
    fn sent(shares: &ByteShares, body_bytes: u64, seconds: u64) -> u64 {
        let times = (0..seconds * 1_000_000).map(|us| us * 1_000);
        times.filter(|now_ns| shares.take(Class::New, DFSP, body_bytes, *now_ns)).count() as u64 * body_bytes
    }

    /// The limit applies to bodies of any size.
    #[test]
    fn byte_rate_allows_one_second_of_saved_bytes() {
        let rate = 16 * MIB;
        for body_bytes in [300, 1_000, 16 * 1024, 16 * 1024 + 1, MIB] {
            let sent = sent(&ByteShares::new(rate), body_bytes, 3);
            let most = (rate * 4 + body_bytes).min(3_000_000 * body_bytes);
            let least = most - 2 * body_bytes - most / 100;
            assert!((least..=most).contains(&sent), "{body_bytes}: {sent} of {most}");
        }
    }

    #[test]
    fn each_sender_and_class_has_its_own_rate() {
        let shares = ByteShares::new(MIB);
        while shares.take(Class::New, DFSP, 10_000, 0) {}
        assert!(shares.take(Class::Finishing, DFSP, 10_000, 0));
        assert!(shares.take(Class::New, SourceId(8), 10_000, 0));
        assert!(!shares.take(Class::New, DFSP, 1, 0));
        while shares.take(Class::Finishing, DFSP, 10_000, 0) {}
        assert!(!shares.take(Class::Finishing, DFSP, 1, 0));
        assert!(shares.take(Class::New, DFSP, 1, SECOND_NS / 10));
    }

    #[test]
    fn unannounced_bytes_are_charged_later() {
        let shares = ByteShares::new(MIB);
        assert!(shares.take(Class::New, DFSP, 1, 0));
        shares.charge(Class::New, DFSP, 10 * MIB, 0);
        assert!(!shares.take(Class::New, DFSP, 1, 9 * SECOND_NS));
        assert!(shares.take(Class::New, DFSP, 1, 9 * SECOND_NS + 1_000));
    }

    #[test]
    fn extreme_rates_and_times_neither_overflow_nor_block_a_sender() {
        let unbounded = ByteShares::new(0);
        assert!(!unbounded.are_bounded() && unbounded.take(Class::New, DFSP, u64::MAX, u64::MAX));
        unbounded.charge(Class::New, DFSP, u64::MAX, 0);
        let fast = ByteShares::new(u64::MAX);
        assert!((0..1_000_000).all(|_| fast.take(Class::New, DFSP, 64 * MIB, 0)));
        let slow = ByteShares::new(1);
        assert!(slow.take(Class::New, DFSP, 10, 0) && !slow.take(Class::New, DFSP, 10, 8 * SECOND_NS));
        assert!(slow.take(Class::New, DFSP, 10, 10 * SECOND_NS));
        assert!(slow.take(Class::New, SourceId(u32::MAX), u64::MAX, 0));
        // The hub has been running for a year.
        let late = ByteShares::new(MIB);
        assert!(late.take(Class::New, DFSP, 2 * MIB, 365 * 86_400 * SECOND_NS));
        assert!(!late.take(Class::New, DFSP, 1, 365 * 86_400 * SECOND_NS));
    }
}
