//! The metrics of DFSPs' response times.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::time::Duration;

use upesi_engine::{DfspSummary, Participants, ResponseOutcome};
use upesi_ledger::ParticipantId;
use upesi_process::exposition::{escape, head};

use super::lane_metrics::seconds;

/// Maximum number of pairs of DFSPs in the metrics.
const PAIRS_SHOWN_MAX: usize = 100;

/// A metric of a pair: name, help, value.
type PairFamily = (&'static str, &'static str, fn(&upesi_engine::PairSummary) -> u64);

/// Writes the metrics of the DFSPs with requests since the start.
pub(super) fn write(text: &mut String, summaries: &[DfspSummary], participants: &Participants) {
    let name_of =
        |id: ParticipantId| participants.name(id).map(|name| escape(name.as_str())).unwrap_or_default();
    let name = "upesi_dfsp_response_seconds";
    head(text, name, "gauge", "Time from a request to a DFSP to its callback, in the last five minutes");
    for of_dfsp in summaries {
        let fsp = name_of(of_dfsp.asked);
        for kind in &of_dfsp.kinds {
            for (quantile, took) in [("0.5", kind.p50), ("0.99", kind.p99)] {
                let Some(took) =
                    took.map(|took: Duration| u64::try_from(took.as_micros()).unwrap_or(u64::MAX))
                else {
                    continue;
                };
                let labels =
                    format!("fsp=\"{fsp}\",request=\"{}\",quantile=\"{quantile}\"", kind.kind.as_str());
                let _ = writeln!(text, "{name}{{{labels}}} {}", seconds(took));
            }
        }
    }
    let name = "upesi_dfsp_requests";
    head(text, name, "counter", "Completed requests to a DFSP, by outcome");
    for of_dfsp in summaries {
        let fsp = name_of(of_dfsp.asked);
        for kind in &of_dfsp.kinds {
            for (outcome, count) in ResponseOutcome::NAMES.iter().zip(kind.since_start) {
                let labels =
                    format!("fsp=\"{fsp}\",request=\"{}\",outcome=\"{outcome}\"", kind.kind.as_str());
                let _ = writeln!(text, "{name}_total{{{labels}}} {count}");
            }
        }
    }
    write_pairs(text, summaries, name_of);
}

/// Writes the metrics of the pairs with the most failures.
fn write_pairs(text: &mut String, summaries: &[DfspSummary], name_of: impl Fn(ParticipantId) -> String) {
    let failing = summaries.iter().flat_map(|of_dfsp| &of_dfsp.pairs).filter(|pair| pair.failed > 0);
    let mut pairs: Vec<_> = failing.collect();
    pairs.sort_by_key(|pair| Reverse(pair.failed));
    pairs.truncate(PAIRS_SHOWN_MAX);
    let families: [PairFamily; 2] = [
        (
            "upesi_pair_requests",
            "Requests between two DFSPs in the last five minutes, for the pairs with the most failures",
            |pair| pair.requests,
        ),
        (
            "upesi_pair_failed_requests",
            "Failed requests between two DFSPs in the last five minutes, for the pairs with the most failures",
            |pair| pair.failed,
        ),
    ];
    for (name, help, value) in families {
        head(text, name, "gauge", help);
        for pair in &pairs {
            let (from, to) = (name_of(pair.asker), name_of(pair.asked));
            let _ = writeln!(text, "{name}{{from=\"{from}\",to=\"{to}\"}} {}", value(pair));
        }
    }
}

#[cfg(test)]
mod tests {
    use upesi_engine::{KindSummary, PairSummary, RequestKind};
    use upesi_ledger::Participant;
    use upesi_types::{FspId, Timestamp};

    use super::*;

    fn id(number: u32) -> ParticipantId {
        ParticipantId::new(number).unwrap()
    }

    fn named(number: u32, name: &str) -> Participant {
        Participant::new(id(number), FspId::parse(name).unwrap(), Timestamp::EPOCH)
    }

    #[test]
    fn each_dfsp_and_the_pairs_with_failures_are_shown() {
        let participants =
            Participants::new(vec![named(1, "Hub"), named(2, "bluewallet"), named(3, "greenbank")], &[]);
        let kind = KindSummary {
            kind: RequestKind::Quote,
            since_start: [7, 1, 2, 0],
            recent: [1, 0, 0, 0],
            p50: Some(Duration::from_millis(12)),
            p99: None,
        };
        let pair = |asker, requests, failed| PairSummary { asker: id(asker), asked: id(3), requests, failed };
        let of_dfsp = |pairs| DfspSummary { asked: id(3), kinds: vec![kind], pairs };
        let mut text = String::new();
        write(&mut text, &[of_dfsp(vec![pair(2, 9, 4), pair(1, 5, 0)])], &participants);
        let samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            r#"upesi_dfsp_response_seconds{fsp="greenbank",request="quote",quantile="0.5"} 0.012000"#,
            r#"upesi_dfsp_requests_total{fsp="greenbank",request="quote",outcome="answered"} 7"#,
            r#"upesi_dfsp_requests_total{fsp="greenbank",request="quote",outcome="failed"} 1"#,
            r#"upesi_dfsp_requests_total{fsp="greenbank",request="quote",outcome="unanswered"} 2"#,
            r#"upesi_dfsp_requests_total{fsp="greenbank",request="quote",outcome="undelivered"} 0"#,
            r#"upesi_pair_requests{from="bluewallet",to="greenbank"} 9"#,
            r#"upesi_pair_failed_requests{from="bluewallet",to="greenbank"} 4"#,
        ];
        assert_eq!(samples, expected);
        let many = (1..=1_000).map(|failed| pair(2, 1_000, failed)).collect();
        text.clear();
        write(&mut text, &[of_dfsp(many)], &participants);
        let failed = text.lines().filter_map(|line| line.strip_prefix("upesi_pair_failed_requests{"));
        let failed: Vec<_> =
            failed.filter_map(|line| line.rsplit_once(' ')).map(|(_, count)| count).collect();
        assert_eq!((failed.len(), failed[0], failed[99]), (100, "1000", "901"), "the most failures");
    }
}
