//! Lookups that go to all proxies, because no directory knows the party.
//!
//! The first proxy that has the party answers the lookup; what the others say afterwards is dropped. Errors are kept
//! back as long as another proxy may still have it; the last one is the answer.

use upesi_fspiop::PartyIdType;
use upesi_ledger::ParticipantId;
use upesi_types::FspId;

/// Proxies that one lookup goes to.
pub(crate) const PROXIES_ASKED_MAX: usize = 16;
/// Questions to proxies that are remembered, answered ones included; the oldest makes way.
pub(crate) const DISCOVERIES_MAX: usize = 16_384;

/// The question of one DFSP about one party.
#[derive(Debug)]
pub(crate) struct Discovery {
    requester: FspId,
    kind: PartyIdType,
    id: Box<str>,
    sub_id: Option<Box<str>>,
    /// The proxies that were asked, and whether each is done with it.
    asked: Vec<(ParticipantId, bool)>,
    is_found: bool,
}

/// What an answer about a party is to who asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reception {
    /// It is passed on. This many lookups waited for it.
    Passes(u64),
    /// It is kept back: another proxy has answered, or may still answer with the party.
    KeptBack,
}

/// What an answer is to a discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It ends the lookups.
    Ends,
    KeptBack,
}

impl Discovery {
    pub(crate) fn new(
        requester: FspId,
        (kind, id, sub_id): (PartyIdType, Box<str>, Option<Box<str>>),
        proxies: &[ParticipantId],
    ) -> Self {
        let asked = proxies.iter().map(|proxy| (*proxy, false)).collect();
        Self { requester, kind, id, sub_id, asked, is_found: false }
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

    /// Hears an answer, of a proxy or of a DFSP of this scheme, which nobody has asked.
    pub(crate) fn hear(&mut self, proxy: Option<ParticipantId>, is_error: bool) -> Verdict {
        let asked = self.asked.iter_mut().find(|(asked, _)| Some(*asked) == proxy);
        let Some((_, is_done)) = asked else { return Verdict::Ends };
        let is_repeated = std::mem::replace(is_done, true);
        if self.is_found || (is_repeated && is_error) {
            return Verdict::KeptBack;
        }
        self.is_found = !is_error;
        if self.is_under_way() { Verdict::KeptBack } else { Verdict::Ends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(number: u32) -> ParticipantId {
        ParticipantId::new(number).unwrap()
    }

    fn discovery() -> Discovery {
        let party = (PartyIdType::Msisdn, "26097".into(), None);
        Discovery::new(FspId::parse("bluebank").unwrap(), party, &[proxy(1), proxy(2)])
    }

    #[test]
    fn the_first_that_has_the_party_answers_and_else_the_last() {
        use Verdict::{Ends, KeptBack};
        type Heard = (u32, bool, Verdict);
        let stories: [&[Heard]; 5] = [
            // Number of the proxy, whether it is an error, what it is.
            &[(1, false, Ends), (2, false, KeptBack), (2, true, KeptBack), (1, false, KeptBack)],
            &[(1, true, KeptBack), (2, false, Ends), (1, false, KeptBack)],
            &[(1, true, KeptBack), (1, true, KeptBack), (2, true, Ends)],
            // It comes to know it after all.
            &[(1, true, KeptBack), (1, false, Ends), (2, true, KeptBack)],
            // Nobody asked it.
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
