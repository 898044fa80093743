//! Decides which nodes of a cluster deliver callbacks.

use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;

impl Ledger {
    pub(crate) fn decide_couriers(&self, nodes: &[u32], out: &mut Decision) {
        let mut nodes = nodes.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes != self.couriers {
            out.events.push(Event::CouriersSet { nodes });
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use upesi_types::Timestamp;

    use super::*;
    use crate::core::config::LedgerConfig;
    use crate::core::facts::DecisionInput;
    use crate::rules::command::Command;

    #[test]
    fn couriers_are_recorded_once() {
        let mut ledger = Ledger::new(LedgerConfig::default());
        let decide = |ledger: &Ledger, nodes: &[u32]| {
            let mut decision = Decision::default();
            let command = Command::SetCouriers(nodes.to_vec());
            ledger.decide(&command, &DecisionInput::at(Timestamp::from_ms(1)), &mut decision);
            decision.events
        };
        assert_eq!(decide(&ledger, &[]), []);
        let events = decide(&ledger, &[3, 1, 3]);
        assert_eq!(events, [Event::CouriersSet { nodes: vec![1, 3] }]);
        ledger.evolve(1, Timestamp::from_ms(1), events, &[]);
        assert_eq!((ledger.couriers(), decide(&ledger, &[3, 1])), (&[1, 3][..], vec![]));
        let mut bytes = Vec::new();
        ledger.encode_snapshot(&mut bytes);
        let read = Ledger::decode_snapshot(&bytes, LedgerConfig::default()).unwrap();
        assert_eq!(read.couriers(), [1, 3]);
    }
}
