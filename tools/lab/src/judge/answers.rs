//! The audit of lookups and quotes: every accepted query must be answered exactly once, and rightly.

use upesi_sim::Counters;

use crate::judge::audit::counted;
use crate::result::audit::{AnswerCheck, AuditSummary};
use crate::result::exchanges::Exchanges;

/// The evidence about queries and answers after everything came to rest.
#[derive(Clone, Debug, Default)]
pub struct AnswersEvidence {
    /// The phases that consist of queries, by name, with the outcomes of their requests.
    pub phases: Vec<(&'static str, Exchanges)>,
    pub counters: Counters,
}

impl AnswersEvidence {
    fn sum(&self, count: impl Fn(&Exchanges) -> u64) -> u64 {
        self.phases.iter().map(|(_, exchanges)| count(exchanges)).sum()
    }

    /// Queries that the DFSPs dropped or rejected on purpose, so that no answer is possible.
    const fn excused(&self) -> u64 {
        self.counters.dropped + self.counters.http_errors
    }

    /// Accepted queries whose answer has not come, not even late.
    const fn unanswered_of(&self, late: u64) -> u64 {
        late.saturating_sub(self.counters.answers_unasked)
    }

    /// Accepted queries that should still be answered.
    pub fn missing(&self) -> u64 {
        self.unanswered_of(self.sum(|phase| phase.late)).saturating_sub(self.excused())
    }

    /// Answers without any query. An answer is unexpected if it is late, or if the hub accepted its query although the
    /// sender got no response. DFSPs with the fault `duplicate` answer twice.
    fn doubled(&self) -> u64 {
        let explained = self.sum(|phase| phase.late + phase.originated.unanswered) + self.counters.duplicated;
        self.counters.answers_unasked.saturating_sub(explained)
    }

    /// Errors that no DFSP sent or caused.
    fn unexplained_errors(&self) -> u64 {
        let explained = self.counters.error_answers_sent + self.excused();
        self.sum(|phase| phase.errors).saturating_sub(explained)
    }

    fn findings(&self) -> impl Iterator<Item = String> {
        counted([
            (self.missing(), "accepted queries were never answered"),
            (self.doubled(), "answers repeat an earlier answer to their query"),
            (self.sum(|phase| phase.wrong), "answers are wrong: other party, DFSP, amount or condition"),
            (self.unexplained_errors(), "queries were answered with an error that no DFSP sent"),
        ])
    }

    fn checks(&self) -> Vec<AnswerCheck> {
        let check = |(phase, exchanges): &(&'static str, Exchanges)| AnswerCheck {
            phase: (*phase).into(),
            accepted: exchanges.originated.accepted,
            right: exchanges.completed,
            errors: exchanges.errors,
            wrong: exchanges.wrong,
            late: exchanges.late,
        };
        self.phases.iter().map(check).collect()
    }
}

impl AuditSummary {
    /// Adds the audit of answers. If no money moves, the answers count as the accepted and finished operations.
    #[must_use]
    pub fn with_answers(mut self, evidence: &AnswersEvidence, moves_money: bool) -> Self {
        let late = evidence.sum(|phase| phase.late);
        let lost = evidence.unanswered_of(late);
        if !moves_money {
            self.accepted = evidence.sum(|phase| phase.originated.accepted);
            self.in_flight = lost;
            self.finished = self.accepted.saturating_sub(lost);
        }
        self.lost += lost;
        self.doubled += evidence.doubled();
        self.answers = evidence.checks();
        self.findings.extend(evidence.findings());
        self.ok = self.findings.is_empty();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::exchanges::GeneratorCounts;

    fn good() -> AnswersEvidence {
        let discovery = Exchanges {
            originated: GeneratorCounts { sent: 12, accepted: 10, refused: 1, unanswered: 1 },
            completed: 10,
            ..Exchanges::default()
        };
        let originated = GeneratorCounts { sent: 10, accepted: 10, ..GeneratorCounts::default() };
        let agreement = Exchanges { originated, completed: 10, ..Exchanges::default() };
        AnswersEvidence {
            phases: vec![("discovery", discovery), ("agreement", agreement)],
            counters: Counters { answers_received: 20, answers_sent: 20, ..Counters::default() },
        }
    }

    fn judged(evidence: &AnswersEvidence, moves_money: bool) -> AuditSummary {
        let transfers = AuditSummary { ok: true, accepted: 7, finished: 7, ..AuditSummary::default() };
        transfers.with_answers(evidence, moves_money)
    }

    #[test]
    fn one_right_answer_per_query_passes() {
        let summary = judged(&good(), false);
        assert!(summary.ok, "{:?}", summary.findings);
        assert_eq!((summary.accepted, summary.finished, summary.in_flight, summary.lost), (20, 20, 0, 0));
        assert_eq!((&*summary.answers[1].phase, summary.answers[1].right), ("agreement", 10));
        let summary = judged(&good(), true);
        assert_eq!((summary.accepted, summary.finished, summary.lost), (7, 7, 0));
    }

    #[test]
    fn each_fault_of_the_hub_is_found() {
        type Fault = fn(&mut AnswersEvidence);
        fn ends(evidence: &mut AnswersEvidence, end: impl Fn(&mut Exchanges) -> &mut u64) {
            let agreement = &mut evidence.phases[1].1;
            agreement.completed -= 1;
            *end(agreement) += 1;
        }
        let faults: [(Fault, &str); 4] = [
            (|evidence| ends(evidence, |quotes| &mut quotes.late), "never answered"),
            // One unexpected answer may belong to the query that got no response.
            (|evidence| evidence.counters.answers_unasked = 2, "1 answers repeat an earlier answer"),
            (|evidence| ends(evidence, |quotes| &mut quotes.wrong), "wrong"),
            (|evidence| ends(evidence, |quotes| &mut quotes.errors), "no DFSP sent"),
        ];
        for (fault, text) in faults {
            let mut evidence = good();
            fault(&mut evidence);
            let summary = judged(&evidence, true);
            assert!(!summary.ok);
            assert!(summary.findings.iter().any(|finding| finding.contains(text)), "{:?}", summary.findings);
        }
    }

    #[test]
    fn deliberate_faults_of_dfsps_are_excused() {
        let purposes: [fn(&mut AnswersEvidence); 4] = [
            |evidence| {
                evidence.phases[0].1.late = 1;
                evidence.counters.dropped = 1;
            },
            // Too late, yet answered.
            |evidence| {
                evidence.phases[0].1.late = 1;
                evidence.counters.answers_unasked = 1;
            },
            |evidence| {
                evidence.phases[0].1.errors = 2;
                evidence.counters.error_answers_sent = 1;
                evidence.counters.http_errors = 1;
            },
            |evidence| {
                evidence.counters.answers_unasked = 3;
                evidence.counters.duplicated = 2;
            },
        ];
        for (number, purpose) in purposes.into_iter().enumerate() {
            let mut evidence = good();
            purpose(&mut evidence);
            assert_eq!(judged(&evidence, false).findings, Vec::<String>::new(), "{number}");
        }
    }
}
