//! Lookups that query several participants: all proxies, because no directory knows the party, or its DFSPs one after
//! the other.
//!
//! The first participant that has the party answers the lookup; later answers are dropped. Errors are held back while
//! another participant may still have the party; the last error is the answer.

use std::sync::Arc;

use upesi_fspiop::PartyIdType;
use upesi_ledger::ParticipantId;
use upesi_types::FspId;

use crate::directory::PartyRequest;

/// Maximum number of proxies that one lookup queries.
pub(crate) const PROXIES_ASKED_MAX: usize = 16;
/// Number of queries that are remembered, including answered ones; the oldest is dropped.
pub(super) const DISCOVERIES_MAX: usize = 16_384;

/// The query of one DFSP about one party.
#[derive(Debug)]
pub(super) struct Discovery {
    requester: FspId,
    kind: PartyIdType,
    id: Box<str>,
    sub_id: Option<Box<str>>,
    /// The queried participants, each as the liable one, and whether it has answered.
    asked: Vec<(ParticipantId, bool)>,
    /// The DFSPs to query in turn after them, the next one last, each with the liable participant.
    others: Vec<(FspId, ParticipantId)>,
    is_found: bool,
}

/// Handling of an answer about a party.
#[derive(Clone, Debug)]
pub(crate) enum AnswerHandling {
    /// The answer is forwarded. The number counts the lookups that waited for it.
    Passes(u64),
    /// The answer is dropped: another participant has answered, or may still answer with the party.
    KeptBack,
    /// The answer is dropped, and the hub queries this DFSP next.
    AsksNext(FspId, Arc<PartyRequest>),
}

/// Effect of an answer on a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiscoveryStep {
    /// The answer ends the lookups.
    Ends,
    KeptBack,
    /// No queried participant has the party, so the hub queries this DFSP.
    AsksNext(FspId),
}

impl Discovery {
    pub(crate) fn new(
        requester: FspId,
        kind: PartyIdType,
        id: Box<str>,
        sub_id: Option<Box<str>>,
        asked: &[ParticipantId],
        mut others: Vec<(FspId, ParticipantId)>,
    ) -> Self {
        let asked = asked.iter().map(|asked| (*asked, false)).collect();
        others.reverse();
        Self { requester, kind, id, sub_id, asked, others, is_found: false }
    }

    pub(crate) fn is_about(
        &self,
        requester: &FspId,
        kind: PartyIdType,
        id: &str,
        sub_id: Option<&str>,
    ) -> bool {
        self.kind == kind
            && *self.id == *id
            && self.sub_id.as_deref() == sub_id
            && self.requester == *requester
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.is_about(&other.requester, other.kind, &other.id, other.sub_id.as_deref())
    }

    /// Whether an answer may still come.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.is_found && self.asked.iter().any(|(_, is_done)| !is_done)
    }

    /// Processes an answer of any participant.
    pub(crate) fn hear(&mut self, answering: Option<ParticipantId>, is_error: bool) -> DiscoveryStep {
        let asked = self.asked.iter_mut().find(|(asked, _)| Some(*asked) == answering);
        let Some((_, is_done)) = asked else { return DiscoveryStep::Ends };
        let is_repeated = std::mem::replace(is_done, true);
        if self.is_found || (is_repeated && is_error) {
            return DiscoveryStep::KeptBack;
        }
        self.is_found = !is_error;
        match self.is_under_way() {
            true => DiscoveryStep::KeptBack,
            false if self.is_found => DiscoveryStep::Ends,
            false => self.next().map_or(DiscoveryStep::Ends, DiscoveryStep::AsksNext),
        }
    }

    /// The next DFSP to query; it counts as queried from now on.
    pub(super) fn next(&mut self) -> Option<FspId> {
        let (next, liable) = self.others.pop()?;
        // Several DFSPs may be behind one proxy.
        self.asked.retain(|(asked, _)| *asked != liable);
        self.asked.push((liable, false));
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(number: u32) -> ParticipantId {
        ParticipantId::new(number).unwrap()
    }

    fn discovery_of(asked: &[ParticipantId], others: Vec<(FspId, ParticipantId)>) -> Discovery {
        let requester = FspId::parse("bluebank").unwrap();
        Discovery::new(requester, PartyIdType::Msisdn, "26097".into(), None, asked, others)
    }

    fn discovery() -> Discovery {
        discovery_of(&[proxy(1), proxy(2)], Vec::new())
    }

    /// Three DFSPs. The second and the third are behind the same proxy.
    #[test]
    fn owners_are_queried_one_by_one_until_one_has_the_party() {
        let [second, third] = ["farbank", "farwallet"].map(|name| FspId::parse(name).unwrap());
        let others = vec![(second, proxy(2)), (third, proxy(2))];
        let discovery = || discovery_of(&[proxy(1)], others.clone());
        use DiscoveryStep::{AsksNext, Ends, KeptBack};
        type Heard = (u32, bool, DiscoveryStep);
        let stories: [&[Heard]; 4] = [
            // The last one was not queried.
            &[(1, false, Ends), (1, false, KeptBack), (2, false, Ends)],
            &[(1, true, AsksNext(second)), (1, true, KeptBack), (2, false, Ends)],
            &[(1, true, AsksNext(second)), (2, true, AsksNext(third)), (2, true, Ends)],
            // The DFSP knows the party after all.
            &[(1, true, AsksNext(second)), (1, false, Ends), (2, true, KeptBack)],
        ];
        for story in stories {
            let mut discovery = discovery();
            for (number, is_error, verdict) in story {
                assert_eq!(discovery.hear(Some(proxy(*number)), *is_error), *verdict, "{story:?}");
            }
        }
    }

    #[test]
    fn first_proxy_with_the_party_or_the_last_error_ends_the_discovery() {
        use DiscoveryStep::{Ends, KeptBack};
        type Heard = (u32, bool, DiscoveryStep);
        let stories: [&[Heard]; 5] = [
            // Number of the proxy, whether it is an error, and the result.
            &[(1, false, Ends), (2, false, KeptBack), (2, true, KeptBack), (1, false, KeptBack)],
            &[(1, true, KeptBack), (2, false, Ends), (1, false, KeptBack)],
            &[(1, true, KeptBack), (1, true, KeptBack), (2, true, Ends)],
            // The DFSP knows the party after all.
            &[(1, true, KeptBack), (1, false, Ends), (2, true, KeptBack)],
            // The DFSP was not queried.
            &[(3, true, Ends)],
        ];
        for story in stories {
            let mut discovery = discovery();
            for (number, is_error, verdict) in story {
                assert_eq!(discovery.hear(Some(proxy(*number)), *is_error), *verdict, "{story:?}");
            }
        }
        assert_eq!(discovery().hear(None, false), Ends);
    }
}
