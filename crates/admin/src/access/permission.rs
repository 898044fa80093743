//! All permissions, the permission for each change of the ledger, and the permissions of each role.

use upesi_ledger::{AdminAction, Area, OperatorRole, OperatorRoles};

use self::Permission as P;

/// Rows are `Name "name";`.
macro_rules! permissions {
    ($($(#[$doc:meta])* $name:ident $text:literal;)*) => {
        /// A permission for operations.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Permission {
            $($(#[$doc])* $name,)*
        }

        impl Permission {
            /// All permissions.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Name in documents and in the audit trail.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

permissions! {
    ParticipantRead "participant.read";
    ParticipantCreate "participant.create";
    ParticipantEnable "participant.enable";
    ParticipantDisable "participant.disable";
    /// Accounts of the hub.
    AccountCreate "account.create";
    AccountEnable "account.enable";
    AccountDisable "account.disable";
    EndpointSet "endpoint.set";
    BindingAdd "binding.add";
    BindingRemove "binding.remove";
    /// Public keys for participants' signatures.
    JwsAdd "jws.add";
    JwsRevoke "jws.revoke";
    /// Block certificates, keys and participants, or lift a block.
    BlockSet "block.set";
    BlockLift "block.lift";
    /// Raise a net debit cap, or set the first one.
    LimitRaise "limit.raise";
    LimitLower "limit.lower";
    FundsIn "funds.in";
    FundsOutReserve "funds.out.reserve";
    FundsOutCommit "funds.out.commit";
    FundsOutAbort "funds.out.abort";
    SettlementRead "settlement.read";
    WindowClose "window.close";
    SettlementCreate "settlement.create";
    SettlementAdvance "settlement.advance";
    SettlementFinalise "settlement.finalise";
    SettlementAbort "settlement.abort";
    /// Settlement models, ledger account types, fee rules.
    ModelManage "model.manage";
    TransferSearch "transfer.search";
    TransferRead "transfer.read";
    /// Contents of messages: quotes and ILP packets, with personal data.
    TransferMessages "transfer.messages";
    TransferEnd "transfer.end";
    DirectoryRead "directory.read";
    /// The DFSPs that serve parties.
    PartyRead "party.read";
    PartyManage "party.manage";
    OracleManage "oracle.manage";
    CallbackRead "callback.read";
    CallbackRedeliver "callback.redeliver";
    ProcessRead "process.read";
    ProcessMetrics "process.metrics";
    ProcessProfile "process.profile";
    ProcessLog "process.log";
    ProcessClock "process.clock";
    /// Hand leadership to another node of a cluster.
    ClusterHandOver "cluster.hand-over";
    /// Pending approvals, and the policy of approvals.
    ApprovalRead "approval.read";
    /// Approve and reject proposals of the area operations.
    ApprovalOperations "approval.operations";
    ApprovalTreasury "approval.treasury";
    ApprovalIam "approval.iam";
    /// The policy: changes that need an approval.
    ApprovalPolicy "approval.policy";
    /// Propose several changes together. Each needs its own permission.
    ChangeSet "change.set";
    AuditRead "audit.read";
    IamRead "iam.read";
    /// Operators, their roles and credentials.
    IamUser "iam.user";
}

/// The permission for a change of the ledger.
pub(crate) const fn permission_of(action: AdminAction) -> Permission {
    use AdminAction as A;
    use Permission as P;
    match action {
        A::ParticipantCreate => P::ParticipantCreate,
        A::ParticipantEnable => P::ParticipantEnable,
        A::ParticipantDisable => P::ParticipantDisable,
        A::AccountCreate => P::AccountCreate,
        A::AccountEnable => P::AccountEnable,
        A::AccountDisable => P::AccountDisable,
        A::EndpointSet => P::EndpointSet,
        A::BindingAdd => P::BindingAdd,
        A::BindingRemove => P::BindingRemove,
        A::SignatureKeyAdd => P::JwsAdd,
        A::SignatureKeyRevoke => P::JwsRevoke,
        A::BlockSet => P::BlockSet,
        A::BlockLift => P::BlockLift,
        A::LimitRaise => P::LimitRaise,
        A::LimitLower => P::LimitLower,
        A::FundsIn => P::FundsIn,
        A::FundsOutReserve => P::FundsOutReserve,
        A::FundsOutCommit => P::FundsOutCommit,
        A::FundsOutAbort => P::FundsOutAbort,
        A::WindowClose => P::WindowClose,
        A::SettlementCreate => P::SettlementCreate,
        A::SettlementAdvance => P::SettlementAdvance,
        A::SettlementFinalise => P::SettlementFinalise,
        A::SettlementAbort => P::SettlementAbort,
        A::ModelManage => P::ModelManage,
        A::ProcessClock => P::ProcessClock,
        A::IamUser => P::IamUser,
        A::ApprovalPolicy => P::ApprovalPolicy,
        A::ChangeSet => P::ChangeSet,
    }
}

/// The permission to decide about a proposal.
pub(crate) const fn permission_to_decide(area: Area) -> Permission {
    match area {
        Area::Operations => Permission::ApprovalOperations,
        Area::Treasury => Permission::ApprovalTreasury,
        Area::Iam => Permission::ApprovalIam,
    }
}

// The permissions of each role.

/// The read permissions of every role of the hub.
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

/// The additional permissions of a role.
const fn own(role: OperatorRole) -> &'static [Permission] {
    match role {
        OperatorRole::Viewer => &[],
        OperatorRole::OperationsApprover => &[P::ApprovalOperations],
        OperatorRole::TreasuryApprover => &[P::ApprovalTreasury],
        OperatorRole::Monitor => &[P::ProcessRead, P::ProcessMetrics],
        OperatorRole::Support => &[P::TransferMessages, P::PartyRead, P::CallbackRedeliver],
        OperatorRole::Operations => &[
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
            P::ChangeSet,
        ],
        OperatorRole::Treasury => &[
            P::ChangeSet,
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
        OperatorRole::SecurityOfficer => &[
            P::ChangeSet,
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
        OperatorRole::IamAdmin => {
            &[P::IamRead, P::IamUser, P::ApprovalRead, P::ApprovalIam, P::ApprovalPolicy]
        }
        OperatorRole::Auditor => &[P::TransferMessages, P::PartyRead, P::AuditRead, P::IamRead],
        OperatorRole::DfspUser | OperatorRole::DfspMachine => {
            &[P::ParticipantRead, P::TransferSearch, P::TransferRead]
        }
    }
}

/// Whether a role has the read permissions of the hub's roles.
const fn reads(role: OperatorRole) -> bool {
    !matches!(
        role,
        OperatorRole::Monitor | OperatorRole::IamAdmin | OperatorRole::DfspUser | OperatorRole::DfspMachine
    )
}

pub(crate) fn roles_allow(roles: OperatorRoles, permission: Permission) -> bool {
    roles.iter().any(|role| own(role).contains(&permission) || reads(role) && READS.contains(&permission))
}

#[cfg(test)]
mod tests {
    use upesi_ledger::EXCLUSIONS;

    use super::*;

    /// The audit trail and the policy use the same names of actions as the roles.
    #[test]
    fn permission_has_the_name_of_its_action() {
        for action in AdminAction::ALL {
            assert_eq!(permission_of(*action).name(), action.name());
        }
    }

    fn of(role: OperatorRole) -> Vec<Permission> {
        let roles = OperatorRoles::from_iter([role]);
        Permission::ALL.iter().copied().filter(|permission| roles_allow(roles, *permission)).collect()
    }

    fn is_read(permission: &Permission) -> bool {
        let name = permission.name();
        name.ends_with(".read")
            || ["transfer.search", "transfer.messages", "process.metrics", "process.profile"].contains(&name)
    }

    #[test]
    fn permission_belongs_to_at_least_one_role() {
        for permission in Permission::ALL {
            assert!(
                OperatorRole::ALL.iter().any(|role| of(*role).contains(permission)),
                "{}",
                permission.name()
            );
        }
    }

    /// Permissions separate what [`EXCLUSIONS`] separates by role.
    #[test]
    fn roles_separate_money_from_operators_and_audit_from_changes() {
        let moves = |permission: &Permission| {
            ["funds.", "limit.", "settlement."].iter().any(|area| permission.name().starts_with(area))
                && !is_read(permission)
        };
        for role in OperatorRole::ALL {
            let all = of(role);
            let manages = all.contains(&Permission::IamUser);
            assert!(!(manages && all.iter().any(moves)), "{role:?}");
            let partners =
                EXCLUSIONS.iter().filter(|(one, _)| *one == OperatorRole::Auditor).map(|(_, other)| *other);
            let is_excluded = partners.into_iter().any(|other| other == role);
            assert_eq!(all.iter().any(|permission| !is_read(permission)), is_excluded, "{role:?}");
        }
    }

    #[test]
    fn roles_of_dfsps_and_monitors_only_read() {
        for role in [
            OperatorRole::DfspUser,
            OperatorRole::DfspMachine,
            OperatorRole::Monitor,
            OperatorRole::Viewer,
            OperatorRole::Auditor,
        ] {
            assert!(of(role).iter().all(is_read), "{role:?}");
        }
    }
}
