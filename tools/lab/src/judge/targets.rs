//! Compares the targets of a run with the measured values.

use crate::plan::targets::{Target, TargetKind};
use crate::result::LabResult;
use crate::result::schema::TargetCheck;

impl TargetKind {
    #[expect(clippy::float_arithmetic, reason = "shares of measurements; no money")]
    fn measured(self, result: &LabResult) -> f64 {
        let latency = &result.latency_ms;
        let ended = (result.completed + result.failed).max(1) as f64;
        match self {
            Self::P50 => latency.p50,
            Self::P95 => latency.p95,
            Self::P99 => latency.p99,
            Self::P999 => latency.p999,
            Self::Max => latency.max,
            Self::Settlement => result.settlement.map_or(0.0, |settled| settled.slowest_ms as f64),
            Self::OverOneSecond => latency.share_over_1s * 1e3,
            Self::Failed => result.failed as f64 * 1e3 / ended,
            Self::Lost => result.lost as f64,
            Self::Throughput => result.throughput_per_s,
        }
    }
}

impl Target {
    /// Compares the target with the measured value. Latencies of a run without completed operations meet no target.
    pub(crate) fn check(&self, result: &LabResult) -> TargetCheck {
        let (measured, limit) = (self.kind.measured(result), self.limit);
        let met = match self.kind {
            TargetKind::P50 | TargetKind::P95 | TargetKind::P99 | TargetKind::P999 | TargetKind::Max => {
                measured < limit && result.completed > 0
            }
            TargetKind::Settlement => {
                measured <= limit && result.settlement.is_some_and(|settled| settled.settlements > 0)
            }
            TargetKind::OverOneSecond | TargetKind::Failed | TargetKind::Lost => measured <= limit,
            TargetKind::Throughput => measured >= limit,
        };
        TargetCheck { name: self.kind.key().into(), limit, measured, met }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::latency::LatencyMs;

    #[test]
    fn targets_are_met_up_to_their_bound() {
        let result = LabResult {
            latency_ms: LatencyMs { p99: 999.0, share_over_1s: 0.01, ..LatencyMs::default() },
            completed: 990,
            failed: 10,
            lost: 1,
            throughput_per_s: 200.0,
            ..LabResult::new()
        };
        for (kind, limit, met) in [
            (TargetKind::P99, 1_000.0, true),
            (TargetKind::P99, 999.0, false),
            (TargetKind::OverOneSecond, 10.0, true),
            (TargetKind::OverOneSecond, 9.0, false),
            (TargetKind::Failed, 10.0, true),
            (TargetKind::Failed, 9.9, false),
            (TargetKind::Lost, 0.0, false),
            (TargetKind::Lost, 1.0, true),
            (TargetKind::Throughput, 200.0, true),
            (TargetKind::Throughput, 200.1, false),
        ] {
            assert_eq!(Target { kind, limit }.check(&result).met, met, "{} {limit}", kind.key());
        }
        let nothing = LabResult::new();
        assert!(!Target { kind: TargetKind::P50, limit: 10.0 }.check(&nothing).met);
    }
}
