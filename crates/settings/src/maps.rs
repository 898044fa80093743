//! Kinds of settings whose values are maps: a TOML table, or a text such as `a=x, b=y`.

use std::collections::BTreeMap;

use upesi_http::{Origin, Target, check_address, too_large_port};
use upesi_ledger::OperatorRole;
use upesi_process::values::why_no_port;

use super::kind::Kind;
use super::raw::Raw;

/// The address of each node of a cluster, by the node's number.
#[derive(Debug)]
pub struct Nodes;

impl Kind for Nodes {
    type Value = BTreeMap<u32, Origin>;

    fn wanted() -> String {
        "a node's number and address, such as 1=hub-1.example:4003".to_owned()
    }

    fn read(raw: &Raw) -> Result<Self::Value, String> {
        let wanted = Self::wanted();
        let mut nodes = BTreeMap::new();
        for (number, address) in raw.pairs(&wanted)? {
            let item = format!("{number}={address}");
            let key = number.parse().map_err(|_| format!("{item:?}: give {wanted}"))?;
            let address = node_address(&item, address)?;
            if nodes.insert(key, address).is_some() {
                return Err(format!("{item:?}: node {number} is named twice"));
            }
        }
        Ok(nodes)
    }

    fn show(value: &Self::Value) -> toml::Value {
        let shown = value.iter().map(|(number, origin)| {
            let (open, close) = if origin.host().contains(':') { ("[", "]") } else { ("", "") };
            (number.to_string(), format!("{open}{}{close}:{}", origin.host(), origin.port()))
        });
        shown.collect::<BTreeMap<_, _>>().into()
    }
}

/// A host with a port.
fn node_address(item: &str, address: &str) -> Result<Origin, String> {
    let refused = || format!("{item:?}: give {}", Nodes::wanted());
    if too_large_port(address).is_some() {
        return Err(format!("{item:?} cannot be reached{}", why_no_port(address)));
    }
    let (_, port) = address.rsplit_once(':').ok_or_else(refused)?;
    port.parse::<u16>().map_err(|_| refused())?;
    let url = format!("https://{address}");
    let target = check_address(&url).and_then(|()| Target::parse(&url));
    let target = target.map_err(|error| format!("{item:?}: {error}"))?;
    if target.path != "/" {
        return Err(refused());
    }
    Ok(target.origin)
}

/// The roles of the users of each group of an identity provider.
#[derive(Debug)]
pub struct RolesOfGroups;

impl Kind for RolesOfGroups {
    type Value = BTreeMap<String, Vec<OperatorRole>>;

    fn wanted() -> String {
        "a group and its role, such as hub-treasury=treasury".to_owned()
    }

    fn read(raw: &Raw) -> Result<Self::Value, String> {
        let mut roles = BTreeMap::<String, Vec<OperatorRole>>::new();
        for (group, role) in raw.pairs(&Self::wanted())? {
            let role = OperatorRole::parse(role).ok_or_else(|| {
                let names: Vec<_> = OperatorRole::ALL.iter().map(|role| role.name()).collect();
                format!("{role:?} is not a role; the roles are {}", names.join(", "))
            })?;
            roles.entry(group.to_owned()).or_default().push(role);
        }
        Ok(roles)
    }

    fn show(value: &Self::Value) -> toml::Value {
        let names = |roles: &Vec<OperatorRole>| roles.iter().map(|role| role.name()).collect::<Vec<_>>();
        value.iter().map(|(group, roles)| (group.clone(), names(roles))).collect::<BTreeMap<_, _>>().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_of_groups_are_parsed() {
        let text = Raw::Plain(" a=treasury, b c = viewer,a=viewer, x=y=auditor ".to_owned());
        let of_table = |(group, roles): (&str, &[&str])| {
            (group.to_owned(), roles.iter().map(|role| (*role).to_owned()).collect())
        };
        let entries: [(&str, &[&str]); 3] =
            [("a", &["treasury", "viewer"]), ("b c", &["viewer"]), ("x=y", &["auditor"])];
        for raw in [text, Raw::Table(entries.map(of_table).to_vec())] {
            let roles = RolesOfGroups::read(&raw).unwrap();
            let told: Vec<_> = roles.iter().map(|(group, roles)| format!("{group}: {roles:?}")).collect();
            assert_eq!(told, ["a: [Treasury, Viewer]", "b c: [Viewer]", "x=y: [Auditor]"]);
        }
        assert_eq!(RolesOfGroups::read(&Raw::Plain(String::new())).unwrap(), BTreeMap::new());
        for (text, problem) in [
            ("a", "\"a\": give a group and its role"),
            ("=viewer", "\"=viewer\": give a group and its role"),
            ("a=king", "\"king\" is not a role"),
        ] {
            let refused = RolesOfGroups::read(&Raw::Plain(text.to_owned())).unwrap_err();
            assert!(refused.contains(problem), "{text}: {refused}");
        }
        let refused = RolesOfGroups::read(&Raw::Flag(true)).unwrap_err();
        assert_eq!(refused, "give a group and its role, such as hub-treasury=treasury, not a boolean");
    }

    #[test]
    fn nodes_round_trip() {
        let shown = |raw: &Raw| Nodes::show(&Nodes::read(raw).unwrap()).to_string();
        let written = "{ 1 = \"hub-1.example:443\", 2 = \"[::1]:4003\" }";
        assert_eq!(shown(&Raw::Plain("2=[::1]:4003, 1=hub-1.example:443".to_owned())), written);
        let table = [("1", "hub-1.example:443"), ("2", "[::1]:4003")];
        let table = table.map(|(number, address)| (number.to_owned(), vec![address.to_owned()]));
        assert_eq!(shown(&Raw::Table(table.to_vec())), written);
    }
}
