//! Networks and ports as the settings write them.

use upesi_gateway::{AddressLists, IPV6_PREFIX_MAX};
use upesi_http::{GuardRules, Network, Origin, Target};
use upesi_types::FspId;

/// Reads `NAME=NETWORK` pairs that are separated by commas.
///
/// # Errors
/// What is no such pair.
pub(crate) fn address_lists(text: &str) -> Result<AddressLists, String> {
    let mut lists = AddressLists::default();
    for item in items(text) {
        let wanted = || format!("{item:?}: give a DFSP and a network, such as greenbank=192.0.2.0/24");
        let (name, network) = item.split_once('=').ok_or_else(wanted)?;
        let name = FspId::parse(name.trim()).ok_or_else(wanted)?;
        let network: Network = network.trim().parse().map_err(|error| format!("{error}"))?;
        if network.is_ipv6() && network.prefix() > IPV6_PREFIX_MAX {
            return Err(format!(
                "{item:?}: an IPv6 network of a DFSP has a prefix of at most {IPV6_PREFIX_MAX} bits"
            ));
        }
        lists.add(name.as_str(), network);
    }
    Ok(lists)
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// Reads `NUMBER=HOST:PORT` pairs that are separated by commas.
///
/// # Errors
/// What is no such pair, or a number that comes twice.
pub(crate) fn peers(text: &str) -> Result<Vec<(u32, Origin)>, String> {
    let mut peers: Vec<(u32, Origin)> = Vec::new();
    for item in items(text) {
        let wanted =
            || format!("{item:?}: give a node and where it is reached, such as 1=hub-1.example:4003");
        let (number, place) = item.split_once('=').ok_or_else(wanted)?;
        let number = number.trim().parse().map_err(|_| wanted())?;
        let (_, port) = place.rsplit_once(':').ok_or_else(wanted)?;
        port.trim().parse::<u16>().map_err(|_| wanted())?;
        let target = Target::parse(&format!("https://{}", place.trim()))
            .map_err(|error| format!("{item:?}: {error}"))?;
        if peers.iter().any(|(other, _)| *other == number) {
            return Err(format!("{item:?}: node {number} is named twice"));
        }
        peers.push((number, target.origin));
    }
    Ok(peers)
}

/// Reads networks that are separated by commas.
///
/// # Errors
/// What is no network.
pub(crate) fn networks(text: &str) -> Result<Vec<Network>, String> {
    items(text).map(|item| item.parse::<Network>().map_err(|error| error.to_string())).collect()
}

/// Reads lists that are separated by commas.
///
/// # Errors
/// What is no network, or no port.
pub(crate) fn guard_rules(networks: &str, ports: &str) -> Result<GuardRules, String> {
    let port = |text: &str| {
        let port = text.parse::<u16>().ok().filter(|port| *port > 0);
        port.ok_or_else(|| format!("{text:?} is no port; write numbers from 1 to 65535, such as 443, 8443"))
    };
    Ok(GuardRules {
        networks: self::networks(networks)?,
        ports: items(ports).map(port).collect::<Result<_, _>>()?,
    })
}
