//! Permitted client addresses of participants.

use std::collections::BTreeMap;
use std::net::IpAddr;

use upesi_http::Network;

/// Longest prefix of an IPv6 network: clients are identified by the first 64 bits of their address.
pub const IPV6_PREFIX_MAX: u8 = 64;

/// The allowed networks of participants that have a list; other participants may connect from anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressLists(BTreeMap<String, List>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    participant: String,
    networks: Vec<Network>,
}

impl AddressLists {
    /// Adds a network to a participant's list.
    pub fn add(&mut self, participant: &str, network: Network) {
        let list = || List { participant: participant.to_owned(), networks: Vec::new() };
        self.0.entry(participant.to_ascii_lowercase()).or_insert_with(list).networks.push(network);
    }

    /// Whether no participant has a list.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The participant whose list forbids this address, as its list spells it; `None` if the address is allowed. Names
    /// are compared without regard to case, as for senders.
    pub(super) fn forbids(&self, participant: &str, address: Option<IpAddr>) -> Option<&str> {
        // Every request reaches this check, and most hubs have no lists.
        if self.is_empty() {
            return None;
        }
        let list = self.0.get(&participant.to_ascii_lowercase())?;
        let is_allowed = |address| list.networks.iter().any(|network| network.contains(address));
        if address.is_some_and(is_allowed) { None } else { Some(&list.participant) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_list_belongs_to_one_participant_and_all_its_networks_match() {
        let mut lists = AddressLists::default();
        assert!(lists.is_empty() && lists.forbids("greenbank", None).is_none());
        for (name, network) in [
            ("greenbank", "192.0.2.0/24"),
            ("greenbank", "2001:db8:1::/48"),
            ("bluewallet", "198.51.100.7/32"),
        ] {
            lists.add(name, network.parse().unwrap());
        }
        for (name, address, allowed) in [
            ("greenbank", "192.0.2.255", true),
            ("GreenBank", "192.0.2.1", true),
            ("greenbank", "::ffff:192.0.2.1", true),
            ("greenbank", "2001:db8:1:ffff::", true),
            ("greenbank", "192.0.3.0", false),
            ("GREENBANK", "192.0.3.0", false),
            ("greenbank", "2001:db8:2::", false),
            ("greenbank", "::ffff:192.0.3.1", false),
            ("greenbank", "::192.0.2.1", false),
            ("greenbank", "198.51.100.7", false),
            ("bluewallet", "198.51.100.7", true),
            ("bluewallet", "198.51.100.8", false),
            ("redmoney", "198.51.100.8", true),
        ] {
            let forbidden = lists.forbids(name, Some(address.parse().unwrap()));
            // The name is spelled as in the list, because a sender's text must not become a label.
            let expected = (!allowed).then(|| name.to_ascii_lowercase());
            assert_eq!(forbidden, expected.as_deref(), "{name} {address}");
        }
        assert_eq!(lists.forbids("greenbank", None), Some("greenbank"), "an unknown address");
    }
}
