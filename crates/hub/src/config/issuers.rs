//! The roles that the groups of an identity provider give.

use std::collections::BTreeMap;

use upesi_ledger::Role;

/// Reads `group=role, other=role`; a group may have several roles.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn roles_of_groups(text: &str) -> Result<BTreeMap<String, Vec<Role>>, String> {
    let mut roles = BTreeMap::<String, Vec<Role>>::new();
    for item in listed(text) {
        let pair = item.rsplit_once('=').map(|(group, role)| (group.trim(), role.trim()));
        let (group, role) = pair
            .filter(|(group, _)| !group.is_empty())
            .ok_or_else(|| format!("{item:?}: write GROUP=ROLE, separated by commas"))?;
        let role = Role::parse(role).ok_or_else(|| {
            let names: Vec<_> = Role::ALL.iter().map(|role| role.name()).collect();
            format!("{role:?} is no role; there are {}", names.join(", "))
        })?;
        roles.entry(group.to_owned()).or_default().push(role);
    }
    Ok(roles)
}

/// The items of a list with commas.
pub(crate) fn listed(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_roles() {
        let roles = roles_of_groups(" a=treasury, b c = viewer,a=viewer, x=y=auditor ").unwrap();
        let told: Vec<_> = roles.iter().map(|(group, roles)| format!("{group}: {roles:?}")).collect();
        assert_eq!(told, ["a: [Treasury, Viewer]", "b c: [Viewer]", "x=y: [Auditor]"]);
        assert_eq!(roles_of_groups("").unwrap(), BTreeMap::new());
        for (text, problem) in
            [("a", "write GROUP=ROLE"), ("=viewer", "write GROUP=ROLE"), ("a=king", "is no role")]
        {
            assert!(roles_of_groups(text).unwrap_err().contains(problem), "{text}");
        }
    }
}
