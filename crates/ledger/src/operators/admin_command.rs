//! Operators' changes of the ledger as data: one change, or a set of changes.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::ids::{AccountId, WindowId};
use crate::base::show::{PrintedValue, Show};
use crate::base::stored::{Stored, stored_struct};
use crate::base::table::shown_enum;
use crate::money::changes::{Deposit, FundsEnd, FundsPrepare, NewFeeRule};
use crate::operators::changes::{NewCredential, NewOperator};
use crate::operators::policy::ApprovalPolicy;
use crate::scheme::binding::BindingKind;
use crate::scheme::block::Block;
use crate::scheme::changes::{EndpointValue, NewSignatureKey};
use crate::scheme::endpoint::EndpointType;
use crate::settlement::changes::{
    NewSettlement, NewSettlementModel, SettlementAbort, SettlementAdvance, SettlementCover,
};

shown_enum! {
    /// An operator's change. Names of participants are written as operators write them.
    AdminCommand, "unknown change; it was written by a newer version" {
        /// `POST /participants`: a new DFSP, or a new currency for one.
        1 CreateParticipant {
            /// Name, 2–30 characters.
            name: FspId,
            currency: Currency,
            /// Whether the participant represents other schemes.
            is_proxy: bool,
        };
        /// `PUT /participants/{name}`.
        2 SetParticipantActivity { name: FspId, is_active: bool };
        /// `POST /participants/{name}/endpoints`.
        3 SetEndpoint {
            name: FspId,
            kind as "endpointType": EndpointType,
            /// URL template or address.
            value: Box<str>,
        };
        /// `POST /participants/{name}/bindings`.
        4 AddBinding {
            name: FspId,
            /// The property that the binding checks.
            kind: BindingKind,
            /// The value that it must have.
            value: Box<str>,
        };
        /// `DELETE /participants/{name}/bindings`.
        5 RemoveBinding {
            name: FspId,
            /// The property that the binding checks.
            kind: BindingKind,
            /// The value that it no longer accepts.
            value: Box<str>,
        };
        /// `POST /participants/{proxy}/proxied`.
        6 AddProxied {
            proxy: FspId,
            /// The DFSP behind the proxy.
            name: FspId,
        };
        /// `DELETE /participants/{proxy}/proxied/{name}`.
        7 RemoveProxied {
            proxy: FspId,
            /// The DFSP that was behind the proxy.
            name: FspId,
        };
        /// `POST /participants/{name}/initialPositionAndLimits`.
        8 OpenAccounts {
            name: FspId,
            currency: Currency,
            net_debit_cap: Amount,
            /// The initial position.
            initial_position: Amount,
        };
        /// `PUT /participants/{name}/limits`.
        9 SetLimit {
            name: FspId,
            currency: Currency,
            net_debit_cap: Amount,
            /// Alarm threshold in hundredths of a percent.
            alarm_basis_points: u16,
        };
        /// `POST /participants/{hub}/accounts`.
        10 CreateHubAccount {
            /// Must be the hub.
            name: FspId,
            currency: Currency,
            /// Name of the ledger account type.
            kind as "ledgerAccountType": Box<str>,
        };
        /// `PUT /participants/{name}/accounts/{id}`.
        11 SetAccountActivity { name: FspId, account: AccountId, is_active: bool };
        /// `POST /participants/{name}/accounts/{id}`: funds in, or the first step of funds out.
        12 PrepareFunds(funds: FundsPrepare);
        /// `PUT /participants/{name}/accounts/{id}/transfers/{transferId}`: the second step of funds out.
        13 EndFunds(end: FundsEnd);
        /// `POST /clock/accept`: confirms that the wall clock is correct although it jumped.
        14 AcceptClock {
            reason: Box<str>,
        };
        /// `POST /settlementModels`.
        15 CreateSettlementModel(model: NewSettlementModel);
        /// `PUT /settlementModels/{name}`.
        16 SetSettlementModelActivity { name: Box<str>, is_active: bool };
        /// `POST /settlementWindows/{id}`: closes the open window and opens the next one.
        17 CloseWindow {
            /// The open window.
            id as "settlementWindowId": WindowId,
            reason: Box<str>,
        };
        /// `POST /settlements`.
        18 CreateSettlement(settlement: NewSettlement);
        /// `PUT /settlements/{id}` with accounts.
        19 AdvanceSettlement(advance: SettlementAdvance);
        /// `PUT /settlements/{id}` with the state ABORTED.
        20 AbortSettlement(abort: SettlementAbort);
        /// Creates an interchange fee rule.
        21 CreateFeeRule(rule: NewFeeRule);
        /// Ends an interchange fee rule.
        22 EndFeeRule {
            name: Box<str>,
            /// The end of the rule: it no longer applies from this instant on. If absent, the rule ends now.
            until: Option<Timestamp>,
        };
        /// `POST /ledgerAccountTypes`.
        23 CreateLedgerAccountType {
            /// Name, 2–30 word characters.
            name: Box<str>,
            /// Free text.
            description: Box<str>,
            /// Whether the type may be used.
            is_active: bool,
            /// Whether settlement models may settle it.
            is_settleable: bool,
        };
        /// `POST /operators`, `PUT /operators/{name}`.
        24 SetOperator(operator: NewOperator);
        /// `POST /operators/{name}/tokens`.
        25 AddCredential(credential: NewCredential);
        /// `DELETE /operators/{name}/credentials/{id}`.
        26 RemoveCredential {
            name as "operator": Box<str>,
            id as "credentialId": u32,
        };
        /// `PUT /approvals/policy`.
        27 SetApprovalPolicy(policy: ApprovalPolicy);
        /// `PUT /settlements/{id}/cover`: accounts become COMMITTED and their cover moves, in one record.
        28 MoveCover(cover: SettlementCover);
        /// `POST /participants/{name}/accounts/SETTLEMENT`: funds in, to an account that is determined when this is
        /// decided.
        29 Deposit(deposit: Deposit);
        /// `PUT /participants/{name}/endpoints`: several endpoints of one participant.
        30 SetEndpoints { name: FspId, endpoints: Vec<EndpointValue> };
        /// `POST /changeSets`: changes that are approved together. They are applied one by one.
        31 ChangeSet(set: ChangeSet);
        /// `POST /participants/{name}/signatureKeys`.
        40 AddSignatureKey(key: NewSignatureKey);
        /// `DELETE /participants/{name}/signatureKeys/{sha256}`: the key is permanently rejected from now on.
        41 RevokeSignatureKey {
            name: FspId,
            /// SHA-256 of the key.
            sha256: [u8; 32],
        };
        /// `POST /blocks`.
        42 SetBlock { block: Block };
        /// `DELETE /blocks`.
        43 LiftBlock { block: Block };
    }
}

impl AdminCommand {
    /// The stored number of change sets.
    pub(crate) const CHANGE_SET_TAG: u8 = 31;

    /// The id of the movement of funds that the command begins.
    pub(crate) fn new_funds(&self) -> Option<TransferId> {
        match self {
            Self::PrepareFunds(funds) => Some(funds.id),
            Self::Deposit(deposit) => Some(deposit.id),
            _ => None,
        }
    }

    /// The command's reason, if it contains one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::PrepareFunds(funds) => Some(&funds.reason),
            Self::Deposit(deposit) => Some(&deposit.reason),
            Self::EndFunds(end) => Some(&end.reason),
            Self::AcceptClock { reason } | Self::CloseWindow { reason, .. } => Some(reason),
            Self::CreateSettlement(new) => Some(&new.reason),
            Self::AbortSettlement(abort) => Some(&abort.reason),
            Self::AdvanceSettlement(advance) => advance.items.first().map(|item| &*item.reason),
            Self::MoveCover(cover) => cover.items.first().map(|item| &*item.reason),
            _ => None,
        }
    }
}

/// Changes that are proposed, approved and applied together, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet {
    /// The maker's description of the set.
    pub name: Box<str>,
    pub changes: Vec<SetChange>,
}

/// A change of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetChange {
    pub command: AdminCommand,
    /// The state before the change when the set was proposed. The hub fills this in.
    pub before: Box<str>,
}

impl SetChange {
    /// Creates a change whose prior state is not known yet.
    pub fn new(command: AdminCommand) -> Self {
        Self { command, before: "".into() }
    }
}

impl AdminCommand {
    /// The changes of a set, or the single change itself.
    pub fn parts(&self) -> impl Iterator<Item = &Self> {
        let (set, own) = match self {
            Self::ChangeSet(set) => (Some(set), None),
            other => (None, Some(other)),
        };
        set.into_iter().flat_map(|set| &set.changes).map(|change| &change.command).chain(own)
    }

    /// Whether the change may be part of a set. Operators, their credentials and the policy are changed individually.
    pub(crate) const fn may_be_in_set(&self) -> bool {
        !matches!(
            self,
            Self::ChangeSet(_)
                | Self::SetOperator(_)
                | Self::AddCredential(_)
                | Self::RemoveCredential { .. }
                | Self::SetApprovalPolicy(_)
                | Self::AcceptClock { .. }
        )
    }
}

stored_struct! {
    ChangeSet { name, changes }
}

impl Stored for SetChange {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.command.encode(encoder);
        self.before.encode(encoder);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        // Otherwise damaged bytes could make the decoder recurse through nested sets without limit.
        let mut ahead = *decoder;
        if ahead.u8()? == AdminCommand::CHANGE_SET_TAG {
            return Err(DecodeError("a change set is part of a change set"));
        }
        Ok(Self { command: Stored::decode(decoder)?, before: Stored::decode(decoder)? })
    }
}

impl ChangeSet {
    /// The set's title in lists and in the audit trail. The name is quoted, because it could look like a number of
    /// changes.
    pub fn title(&self) -> String {
        let Self { name, changes } = self;
        format!("change set {name:?}, {}", counted(changes.len(), "change", "changes"))
    }

    /// Appends the content that the digest covers: name and changes, without the states before them.
    pub(crate) fn encode_content(&self, encoder: &mut Encoder<'_>) {
        self.name.encode(encoder);
        encoder.list(self.changes.iter(), |encoder, change| change.command.encode(encoder));
    }
}

/// A number with its noun.
pub(crate) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl Show for ChangeSet {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Fields(vec![("name", self.name.show()), ("changes", self.changes.show())])
    }
}

impl Show for SetChange {
    fn show(&self) -> PrintedValue<'_> {
        let mut fields = vec![("type", PrintedValue::Text(self.command.name().into()))];
        fields.extend(self.command.fields());
        PrintedValue::Fields(fields)
    }
}
