//! What each role may do.

use upesi_ledger::{Role, Roles};

use super::Permission;
use super::Permission as P;

/// What every role of the hub reads.
const READS: &[Permission] = &[
    P::ParticipantRead,
    P::SettlementRead,
    P::TransferSearch,
    P::TransferRead,
    P::DirectoryRead,
    P::CallbackRead,
    P::ProcessRead,
    P::ProcessMetrics,
    P::ApprovalRead,
];

/// What a role may do besides.
const fn own(role: Role) -> &'static [Permission] {
    match role {
        Role::Viewer => &[],
        Role::OperationsApprover => &[P::ApprovalOperations],
        Role::TreasuryApprover => &[P::ApprovalTreasury],
        Role::Monitor => &[P::ProcessRead, P::ProcessMetrics],
        Role::Support => &[P::TransferMessages, P::PartyRead, P::CallbackRedeliver],
        Role::Operations => &[
            P::ParticipantCreate,
            P::ParticipantEnable,
            P::ParticipantDisable,
            P::AccountCreate,
            P::AccountEnable,
            P::AccountDisable,
            P::EndpointSet,
            P::BindingAdd,
            P::BindingRemove,
            P::JwsAdd,
            P::JwsRevoke,
            P::BlockSet,
            P::BlockLift,
            P::WindowClose,
            P::ModelManage,
            P::TransferEnd,
            P::PartyRead,
            P::PartyManage,
            P::OracleManage,
            P::CallbackRedeliver,
            P::ClusterHandOver,
        ],
        Role::Treasury => &[
            P::LimitRaise,
            P::LimitLower,
            P::FundsIn,
            P::FundsOutReserve,
            P::FundsOutCommit,
            P::FundsOutAbort,
            P::WindowClose,
            P::SettlementCreate,
            P::SettlementAdvance,
            P::SettlementFinalise,
            P::SettlementAbort,
        ],
        Role::SecurityOfficer => &[
            P::ParticipantDisable,
            P::BindingAdd,
            P::BindingRemove,
            P::JwsAdd,
            P::JwsRevoke,
            P::BlockSet,
            P::BlockLift,
            P::ProcessProfile,
            P::ProcessLog,
            P::ProcessClock,
            P::AuditRead,
            P::IamRead,
        ],
        Role::IamAdmin => &[P::IamRead, P::IamUser, P::ApprovalRead, P::ApprovalIam, P::ApprovalPolicy],
        Role::Auditor => &[P::TransferMessages, P::PartyRead, P::AuditRead, P::IamRead],
        Role::DfspUser | Role::DfspMachine => &[P::ParticipantRead, P::TransferSearch, P::TransferRead],
    }
}

/// Whether a role reads what all of the hub's roles read.
const fn reads(role: Role) -> bool {
    !matches!(role, Role::Monitor | Role::IamAdmin | Role::DfspUser | Role::DfspMachine)
}

/// Whether one of the roles has a permission.
pub(crate) fn allow(roles: Roles, permission: Permission) -> bool {
    roles.iter().any(|role| own(role).contains(&permission) || reads(role) && READS.contains(&permission))
}

#[cfg(test)]
mod tests {
    use super::*;
    use upesi_ledger::EXCLUSIONS;

    fn of(role: Role) -> Vec<Permission> {
        let roles = Roles::from_iter([role]);
        Permission::ALL.iter().copied().filter(|permission| allow(roles, *permission)).collect()
    }

    fn is_read(permission: &Permission) -> bool {
        let name = permission.name();
        name.ends_with(".read")
            || ["transfer.search", "transfer.messages", "process.metrics", "process.profile"].contains(&name)
    }

    #[test]
    fn every_permission_is_of_some_role() {
        for permission in Permission::ALL {
            assert!(Role::ALL.iter().any(|role| of(*role).contains(permission)), "{}", permission.name());
        }
    }

    /// What [`EXCLUSIONS`] keeps apart by role is apart by permission.
    #[test]
    fn no_role_moves_money_and_manages_operators_or_audits_and_changes() {
        let moves = |permission: &Permission| {
            ["funds.", "limit.", "settlement."].iter().any(|area| permission.name().starts_with(area))
                && !is_read(permission)
        };
        for role in Role::ALL {
            let all = of(role);
            let manages = all.contains(&Permission::IamUser);
            assert!(!(manages && all.iter().any(moves)), "{role:?}");
            let partners =
                EXCLUSIONS.iter().filter(|(one, _)| *one == Role::Auditor).map(|(_, other)| *other);
            let is_excluded = partners.into_iter().any(|other| other == role);
            assert_eq!(all.iter().any(|permission| !is_read(permission)), is_excluded, "{role:?}");
        }
    }

    #[test]
    fn dfsps_and_monitors_only_read() {
        for role in [Role::DfspUser, Role::DfspMachine, Role::Monitor, Role::Viewer, Role::Auditor] {
            assert!(of(role).iter().all(is_read), "{role:?}");
        }
    }
}
