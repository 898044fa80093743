//! The names of errors: stable words for programs, which do not compare texts.

use upesi_ledger::command::{AdminRefusal, AdvanceFault};
use upesi_types::ErrorCode;

/// Defines the names, each with its meaning, its word on the wire and its code.
macro_rules! names {
    ($($(#[doc = $meaning:literal])+ $variant:ident = $word:literal, $code:ident;)*) => {
        /// The name of an error. Texts and codes may change or be shared by several errors; a name never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ErrorName {
            $($(#[doc = $meaning])+ $variant,)*
        }

        impl ErrorName {
            /// All names, by subject.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The code of the error.
            pub const fn code(self) -> ErrorCode {
                match self { $(Self::$variant => ErrorCode::$code,)* }
            }

            /// Its meaning, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($meaning),+).trim(),)* }
            }
        }
    };
}

names! {
    /// The body, a part of the path, or a parameter is malformed; the text names it.
    Malformed = "malformed", MALFORMED_SYNTAX;
    /// A required member is missing.
    ElementMissing = "element_missing", MISSING_ELEMENT;
    /// The members of a change of a settlement do not fit together.
    SettlementChangeInvalid = "settlement_change_invalid", VALIDATION;
    /// The search needs at least one parameter.
    FilterRequired = "filter_required", VALIDATION;
    /// No object matches the parameters of a search.
    NothingFound = "nothing_found", VALIDATION;
    /// The body is longer than the port accepts.
    BodyTooLarge = "body_too_large", TOO_LARGE_PAYLOAD;
    /// The body did not arrive in time.
    BodyLate = "body_late", SERVER_TIMED_OUT;
    /// The path does not exist.
    PathNotFound = "path_not_found", UNKNOWN_URI;
    /// The path does not have this method.
    MethodNotAllowed = "method_not_allowed", CLIENT;
    /// The request names a host that is not in `admin.allowed_hosts`.
    HostNotAllowed = "host_not_allowed", CLIENT;
    /// A page of another site caused the request, or a form does not prove that it is of the hub.
    SiteNotAllowed = "site_not_allowed", CLIENT;

    /// The hub has an internal error.
    Internal = "internal", INTERNAL;
    /// The archive of finished transfers cannot be read.
    ArchiveUnreadable = "archive_unreadable", INTERNAL;
    /// The journal cannot be read.
    JournalUnreadable = "journal_unreadable", INTERNAL;
    /// The store of parties, oracles and quotes has an error.
    StoreFailed = "store_failed", INTERNAL;
    /// The store of parties, oracles and quotes is not available.
    StoreUnavailable = "store_unavailable", UNAVAILABLE;
    /// The hub is busy.
    Busy = "busy", SERVER_BUSY;
    /// The port has too many connections.
    TooManyConnections = "too_many_connections", SERVER_BUSY;
    /// The hub has no space on its disk.
    DiskFull = "disk_full", UNAVAILABLE;
    /// The brokers of the cluster do not acknowledge records.
    BrokersUnavailable = "brokers_unavailable", UNAVAILABLE;
    /// The hub is stopping.
    Stopping = "stopping", UNAVAILABLE;
    /// This node is a follower; the text names the leader.
    Follower = "follower", UNAVAILABLE;
    /// This node is a follower that has not read its state yet.
    FollowerNotReady = "follower_not_ready", UNAVAILABLE;
    /// The leader could not hand over.
    HandoverFailed = "handover_failed", UNAVAILABLE;
    /// This node is already the leader.
    AlreadyLeader = "already_leader", VALIDATION;
    /// The hub is not a node of a cluster.
    NoCluster = "no_cluster", NOT_IMPLEMENTED;
    /// The hub has no party directory.
    NoDirectory = "no_directory", NOT_IMPLEMENTED;
    /// `admin.profiling` is off.
    ProfilingOff = "profiling_off", NOT_IMPLEMENTED;
    /// This build or processor does not support profiles.
    ProfilingUnsupported = "profiling_unsupported", NOT_IMPLEMENTED;
    /// Another profile is being taken.
    ProfilingBusy = "profiling_busy", SERVER_BUSY;

    /// The client has no valid token.
    Unauthenticated = "unauthenticated", CLIENT;
    /// The address sent too many invalid credentials.
    TooManyWrongCredentials = "too_many_wrong_credentials", SERVER_BUSY;
    /// The operator does not have the permission.
    PermissionMissing = "permission_missing", CLIENT;
    /// The data belongs to another DFSP than the operator's.
    OtherParticipant = "other_participant", CLIENT;
    /// The break-glass token does not permit this change.
    EmergencyOnly = "emergency_only", CLIENT;
    /// `admin.authentication` is off.
    AuthenticationOff = "authentication_off", CLIENT;
    /// The name, password or code is wrong.
    LoginWrong = "login_wrong", CLIENT;
    /// There were too many login attempts; the text has the seconds to wait.
    TooManyLogins = "too_many_logins", SERVER_BUSY;
    /// Other logins are in progress.
    LoginsBusy = "logins_busy", SERVER_BUSY;
    /// The login was not begun in this browser, took too long, or was used before.
    ProviderLoginEnded = "provider_login_ended", VALIDATION;
    /// The identity provider did not log the user in, or the hub rejects its answer.
    ProviderLoginRejected = "provider_login_rejected", CLIENT;
    /// The user of the identity provider has no role in the hub.
    ProviderRoleMissing = "provider_role_missing", CLIENT;
    /// The identity provider does not answer.
    ProviderUnavailable = "provider_unavailable", UNAVAILABLE;
    /// The token of the enrolment is unknown, used or expired.
    EnrolmentInvalid = "enrolment_invalid", CLIENT;
    /// The first code of the second factor is wrong.
    EnrolmentCodeWrong = "enrolment_code_wrong", CLIENT;
    /// The code of the second factor was already used.
    CodeUsed = "code_used", VALIDATION;
    /// The client has no session, or no session of the required kind.
    SessionMissing = "session_missing", VALIDATION;
    /// The operator has no such session.
    SessionNotFound = "session_not_found", ID_NOT_FOUND;

    /// The operator does not exist.
    OperatorNotFound = "operator_not_found", ID_NOT_FOUND;
    /// An operator of this name exists.
    OperatorExists = "operator_exists", CLIENT;
    /// The DFSP of an operator cannot be changed.
    OperatorParticipantFixed = "operator_participant_fixed", VALIDATION;
    /// Roles of a DFSP need a DFSP, and other roles must not have one.
    RoleScopeMismatch = "role_scope_mismatch", VALIDATION;
    /// An operator cannot have both roles.
    RolesExcluded = "roles_excluded", VALIDATION;
    /// The hub has the maximum number of operators.
    TooManyOperators = "too_many_operators", VALIDATION;
    /// The operator has no such credential.
    CredentialNotFound = "credential_not_found", ID_NOT_FOUND;
    /// Another credential has the same token.
    CredentialExists = "credential_exists", VALIDATION;
    /// A token or enrolment must expire in the future and within its maximum lifetime.
    CredentialLifetime = "credential_lifetime", MALFORMED_SYNTAX;
    /// The operator has the maximum number of credentials.
    TooManyCredentials = "too_many_credentials", VALIDATION;
    /// The hub does not sign checkpoints, because `admin.audit_key_file` is not set.
    CheckpointsOff = "checkpoints_off", ID_NOT_FOUND;

    /// The change needs an approval, and therefore a reason.
    ReasonRequired = "reason_required", MALFORMED_SYNTAX;
    /// The approval does not exist, or it ended long ago.
    ApprovalNotFound = "approval_not_found", ID_NOT_FOUND;
    /// The approval is no longer pending.
    ApprovalEnded = "approval_ended", VALIDATION;
    /// Another operator must decide about the operator's own proposal.
    ApprovalOwn = "approval_own", VALIDATION;
    /// Only the operator who made a proposal can withdraw it.
    ApprovalOfAnother = "approval_of_another", VALIDATION;
    /// A pending approval has the same `transferId`.
    ApprovalPending = "approval_pending", VALIDATION;
    /// The operator who made the proposal no longer has the permission.
    MakerNotPermitted = "maker_not_permitted", VALIDATION;
    /// Only a user who has logged in can approve.
    ApproverNotUser = "approver_not_user", CLIENT;
    /// Approving needs a newer login or code of the second factor.
    ApproverLoginOld = "approver_login_old", CLIENT;
    /// Approving needs a login with a second factor.
    ApproverFactorMissing = "approver_factor_missing", CLIENT;
    /// The maximum number of approvals is pending.
    TooManyApprovals = "too_many_approvals", VALIDATION;
    /// The pending changes have their maximum size.
    ApprovalsTooLarge = "approvals_too_large", VALIDATION;
    /// The policy names an action that never needs an approval, or too many currencies.
    PolicyInvalid = "policy_invalid", MALFORMED_SYNTAX;
    /// The change set has no changes, too many, or too many bytes.
    ChangeSetSize = "change_set_size", VALIDATION;
    /// This change cannot be part of a change set.
    ChangeSetKind = "change_set_kind", VALIDATION;
    /// The change set would skip an account of a settlement.
    ChangeSetSkipsAccount = "change_set_skips_account", VALIDATION;
    /// The operator has the maximum number of pending change sets.
    TooManyChangeSets = "too_many_change_sets", VALIDATION;

    /// The participant does not exist.
    ParticipantNotFound = "participant_not_found", ID_NOT_FOUND;
    /// The participant already has the currency.
    ParticipantCurrencyExists = "participant_currency_exists", CLIENT;
    /// The participant has no accounts in the currency.
    ParticipantCurrencyNotFound = "participant_currency_not_found", ID_NOT_FOUND;
    /// The name of another participant differs only in upper and lower case.
    ParticipantNameSimilar = "participant_name_similar", CLIENT;
    /// The scheme has the maximum number of participants.
    TooManyParticipants = "too_many_participants", VALIDATION;
    /// The participant has no such binding.
    BindingNotFound = "binding_not_found", ID_NOT_FOUND;
    /// Another participant has the binding.
    BindingTaken = "binding_taken", CLIENT;
    /// The certificate would belong to a DFSP and to a gateway.
    BindingOfGateway = "binding_of_gateway", CLIENT;
    /// The hub cannot have bindings.
    BindingOfHub = "binding_of_hub", VALIDATION;
    /// The participant has the maximum number of bindings.
    TooManyBindings = "too_many_bindings", VALIDATION;
    /// The block does not exist.
    BlockNotFound = "block_not_found", ID_NOT_FOUND;
    /// The hub cannot be blocked.
    BlockOfHub = "block_of_hub", VALIDATION;
    /// The hub has the maximum number of blocks.
    TooManyBlocks = "too_many_blocks", VALIDATION;
    /// The participant is not a proxy.
    NotAProxy = "not_a_proxy", VALIDATION;
    /// The DFSP is not behind this proxy.
    ProxiedNotFound = "proxied_not_found", ID_NOT_FOUND;
    /// The DFSP is a participant of this scheme, so it cannot be behind a proxy.
    ProxiedIsParticipant = "proxied_is_participant", CLIENT;
    /// The DFSP is behind another proxy.
    ProxiedByAnother = "proxied_by_another", CLIENT;
    /// A DFSP behind a proxy has no accounts, endpoints and bindings of its own.
    ParticipantIsProxied = "participant_is_proxied", CLIENT;
    /// The participant has no such signature key.
    SignatureKeyNotFound = "signature_key_not_found", ID_NOT_FOUND;
    /// Another participant has the signature key.
    SignatureKeyTaken = "signature_key_taken", CLIENT;
    /// The signature key was revoked.
    SignatureKeyRevoked = "signature_key_revoked", VALIDATION;
    /// Another signature key of the participant has not started yet.
    SignatureKeyWaiting = "signature_key_waiting", VALIDATION;
    /// The signature key ends before it starts, or overlaps too long with earlier keys.
    SignatureKeyTimes = "signature_key_times", MALFORMED_SYNTAX;
    /// The hub's own signature keys are in files.
    SignatureKeyOfHub = "signature_key_of_hub", VALIDATION;
    /// The participant has the maximum number of signature keys.
    TooManySignatureKeys = "too_many_signature_keys", VALIDATION;
    /// The participant has the maximum number of revoked signature keys.
    TooManyRevokedKeys = "too_many_revoked_keys", VALIDATION;

    /// The account does not exist.
    AccountNotFound = "account_not_found", VALIDATION;
    /// The account belongs to another participant.
    AccountOfAnother = "account_of_another", VALIDATION;
    /// Only POSITION accounts can be activated and deactivated.
    AccountNotPosition = "account_not_position", VALIDATION;
    /// The account is not a SETTLEMENT account.
    AccountNotSettlement = "account_not_settlement", VALIDATION;
    /// The account has no balance yet; the first limit of the participant is missing.
    AccountNotOpen = "account_not_open", VALIDATION;
    /// The account is inactive.
    AccountInactive = "account_inactive", VALIDATION;
    /// The participant has no POSITION account in the currency.
    PositionAccountNotFound = "position_account_not_found", ID_NOT_FOUND;
    /// The scheme has the maximum number of accounts.
    TooManyAccounts = "too_many_accounts", VALIDATION;
    /// The hub lacks an account that the currency needs.
    HubAccountNotFound = "hub_account_not_found", ADD_PARTY_INFORMATION;
    /// The hub already has the account.
    HubAccountExists = "hub_account_exists", ADD_PARTY_INFORMATION;
    /// This call creates accounts of the hub only.
    HubAccountOnly = "hub_account_only", ADD_PARTY_INFORMATION;
    /// The hub cannot have an account of this type.
    HubAccountTypeNotAllowed = "hub_account_type_not_allowed", ADD_PARTY_INFORMATION;
    /// The participant named for a hub account does not exist.
    HubAccountParticipantNotFound = "hub_account_participant_not_found", ADD_PARTY_INFORMATION;
    /// The hub has no HUB_MULTILATERAL_SETTLEMENT account in the currency.
    HubSettlementAccountNotFound = "hub_settlement_account_not_found", VALIDATION;
    /// The hub has no HUB_RECONCILIATION account in the currency.
    HubReconciliationAccountNotFound = "hub_reconciliation_account_not_found", VALIDATION;
    /// The ledger account type does not exist, or it is inactive.
    AccountTypeNotFound = "account_type_not_found", ADD_PARTY_INFORMATION;
    /// Accounts of this type are not settled.
    AccountTypeNotSettled = "account_type_not_settled", ADD_PARTY_INFORMATION;
    /// A ledger account type of this name exists.
    AccountTypeExists = "account_type_exists", CLIENT;
    /// The hub has the maximum number of ledger account types.
    TooManyAccountTypes = "too_many_account_types", VALIDATION;
    /// The first limit of the participant in the currency is already set.
    LimitExists = "limit_exists", VALIDATION;
    /// The participant has no limit in the currency.
    LimitNotFound = "limit_not_found", ID_NOT_FOUND;
    /// The initial position exceeds the net debit cap.
    InitialPositionBeyondCap = "initial_position_beyond_cap", VALIDATION;
    /// The account of the hub cannot hold the initial position.
    InitialPositionTooLarge = "initial_position_too_large", VALIDATION;
    /// The balance cannot hold the amount.
    BalanceTooLarge = "balance_too_large", VALIDATION;

    /// The account has no such deposit or withdrawal.
    FundsNotFound = "funds_not_found", TRANSFER_NOT_FOUND;
    /// The `transferId` was used for another deposit or withdrawal.
    FundsModified = "funds_modified", MODIFIED_REQUEST;
    /// The `transferId` was used for a transfer.
    FundsIdOfTransfer = "funds_id_of_transfer", MODIFIED_REQUEST;
    /// The account does not belong to this participant and currency.
    FundsAccountMismatch = "funds_account_mismatch", VALIDATION;
    /// The deposit or withdrawal has ended.
    FundsFinal = "funds_final", VALIDATION;
    /// The withdrawal has expired.
    WithdrawalExpired = "withdrawal_expired", TRANSFER_EXPIRED;
    /// The hub has the maximum number of deposits and withdrawals.
    TooManyFunds = "too_many_funds", VALIDATION;

    /// The settlement model does not exist.
    SettlementModelNotFound = "settlement_model_not_found", ID_NOT_FOUND;
    /// A settlement model of this name exists.
    SettlementModelExists = "settlement_model_exists", CLIENT;
    /// Another settlement model governs the currency and account type.
    SettlementModelConflict = "settlement_model_conflict", CLIENT;
    /// This combination of delay, granularity and interchange is not supported.
    SettlementModelUnsupported = "settlement_model_unsupported", CLIENT;
    /// Accounts of this type have their cover on accounts of another type.
    SettlementModelCover = "settlement_model_cover", MALFORMED_SYNTAX;
    /// The currency would have settlement models, but none for POSITION accounts.
    SettlementModelStopsPayments = "settlement_model_stops_payments", CLIENT;
    /// No settlement model governs the currency.
    SettlementModelMissing = "settlement_model_missing", SETTLEMENT;
    /// The hub has the maximum number of settlement models.
    TooManySettlementModels = "too_many_settlement_models", VALIDATION;
    /// The settlement window does not exist.
    WindowNotFound = "window_not_found", VALIDATION;
    /// The settlement window is not open.
    WindowNotOpen = "window_not_open", VALIDATION;
    /// The settlement window contains no transfer.
    WindowEmpty = "window_empty", VALIDATION;
    /// The sums of the settlement window are no longer retained.
    WindowPairsNotRetained = "window_pairs_not_retained", VALIDATION;
    /// The hub has the maximum number of settlement windows.
    TooManyWindows = "too_many_windows", VALIDATION;
    /// Too many closed windows are not settled.
    TooManyUnsettledWindows = "too_many_unsettled_windows", VALIDATION;
    /// The settlement does not exist.
    SettlementNotFound = "settlement_not_found", VALIDATION;
    /// The settlement has no such participant.
    SettlementParticipantNotFound = "settlement_participant_not_found", VALIDATION;
    /// The settlement has no such account.
    SettlementAccountNotFound = "settlement_account_not_found", VALIDATION;
    /// The settlement cannot change to this state.
    SettlementStateNotAllowed = "settlement_state_not_allowed", VALIDATION;
    /// An account of the settlement is committed, so it cannot be aborted.
    SettlementCommitted = "settlement_committed", VALIDATION;
    /// The settlement model is unknown or inactive.
    SettlementModelUnusable = "settlement_model_unusable", VALIDATION;
    /// The settlement model settles each transfer by itself.
    SettlementModelGross = "settlement_model_gross", VALIDATION;
    /// The windows contain nothing that the model can settle now.
    WindowsNotApplicable = "windows_not_applicable", VALIDATION;
    /// The settlement would have too many windows.
    TooManyWindowsOfSettlement = "too_many_windows_of_settlement", VALIDATION;
    /// The hub has the maximum number of settlements, or of accounts in them.
    TooManySettlements = "too_many_settlements", VALIDATION;
    /// The settlement does not have the account that the request names.
    AdvanceAccountNotFound = "advance_account_not_found", CLIENT;
    /// The account in the request belongs to another participant.
    AdvanceAccountOfAnother = "advance_account_of_another", CLIENT;
    /// The request names the account more than once.
    AdvanceAccountRepeated = "advance_account_repeated", CLIENT;
    /// The account of the settlement cannot change to this state now.
    AdvanceStateNotAllowed = "advance_state_not_allowed", CLIENT;
    /// The remaining liquidity cover would be less than the position needs.
    AdvanceCoverMissing = "advance_cover_missing", CLIENT;
    /// The account of a debtor is not finished, so no creditor can be credited.
    AdvanceDebtorUnfinished = "advance_debtor_unfinished", CLIENT;
    /// The participant has no open account for liquidity cover.
    AdvanceCoverAccountNotFound = "advance_cover_account_not_found", CLIENT;
    /// Another deposit or withdrawal has the `transferId`.
    AdvanceFundsIdTaken = "advance_funds_id_taken", CLIENT;
    /// The fee rule does not exist.
    FeeRuleNotFound = "fee_rule_not_found", ID_NOT_FOUND;
    /// A fee rule of this name exists.
    FeeRuleExists = "fee_rule_exists", VALIDATION;
    /// The name, the amounts or the DFSPs of the fee rule violate its rules.
    FeeRuleInvalid = "fee_rule_invalid", VALIDATION;
    /// The fee rule begins in the past, or ends before it begins.
    FeeRuleTimes = "fee_rule_times", VALIDATION;
    /// The hub has the maximum number of fee rules.
    TooManyFeeRules = "too_many_fee_rules", VALIDATION;

    /// The transfer does not exist.
    TransferNotFound = "transfer_not_found", TRANSFER_NOT_FOUND;
    /// The transfer has ended.
    TransferFinal = "transfer_final", VALIDATION;
    /// The transfer of this transaction does not exist.
    TransactionNotFound = "transaction_not_found", ID_NOT_FOUND;
    /// The journal does not have the request of this transfer.
    RequestNotRetained = "request_not_retained", ID_NOT_FOUND;
    /// The quote is not stored.
    QuoteNotFound = "quote_not_found", QUOTE_NOT_FOUND;
    /// The hub stores no quotes, because `quotes.persist` is off.
    QuotesOff = "quotes_off", QUOTE_NOT_FOUND;
    /// No undelivered callback has this key.
    CallbackNotFound = "callback_not_found", ID_NOT_FOUND;
    /// None of the callbacks is parked.
    NothingParked = "nothing_parked", ID_NOT_FOUND;

    /// The party has no such entry in the directory.
    PartyNotFound = "party_not_found", ADD_PARTY_INFORMATION;
    /// Another DFSP is registered for the party.
    PartyTaken = "party_taken", ADD_PARTY_INFORMATION;
    /// The party has the maximum number of entries.
    TooManyPartyEntries = "too_many_party_entries", ADD_PARTY_INFORMATION;
    /// Lines are missing between the accepted lines of the import and this chunk.
    ImportGap = "import_gap", VALIDATION;
    /// The oracle does not exist.
    OracleNotFound = "oracle_not_found", ADD_PARTY_INFORMATION;
    /// Another oracle is active for the type and currency.
    OracleExists = "oracle_exists", ADD_PARTY_INFORMATION;
    /// A value of the oracle is not permitted.
    OracleInvalid = "oracle_invalid", VALIDATION;
    /// The hub has the maximum number of oracles.
    TooManyOracles = "too_many_oracles", ADD_PARTY_INFORMATION;
}

impl ErrorName {
    /// The name of this word; `None` if this version does not know it.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|name| name.as_str() == word)
    }

    /// The error for an operator's rejected command.
    #[expect(clippy::too_many_lines, reason = "one arm per kind of refusal")]
    pub fn of_refusal(refusal: &AdminRefusal) -> Self {
        use AdminRefusal as R;
        match refusal {
            R::ParticipantName
            | R::ParticipantNameUnusable
            | R::EndpointValue
            | R::BindingValue { .. }
            | R::SignatureKeyLength
            | R::LimitNegative
            | R::LimitOrAlarmInvalid
            | R::ModelName
            | R::SettlementTypeNotAllowed
            | R::AccountTypeName
            | R::FundsAmount
            | R::OperatorName => Self::Malformed,
            R::ParticipantUnknown { .. } => Self::ParticipantNotFound,
            R::HubAccountMissing { .. } => Self::HubAccountNotFound,
            R::ParticipantNameInOtherCase => Self::ParticipantNameSimilar,
            R::CurrencyRegistered => Self::ParticipantCurrencyExists,
            R::ModelMissing => Self::SettlementModelMissing,
            R::ParticipantsFull => Self::TooManyParticipants,
            R::AccountsFull => Self::TooManyAccounts,
            R::BindingOfHub => Self::BindingOfHub,
            R::BindingTaken { .. } => Self::BindingTaken,
            R::BindingOfGateway { .. } => Self::BindingOfGateway,
            R::BindingsFull => Self::TooManyBindings,
            R::BindingUnknown => Self::BindingNotFound,
            R::SignatureKeyOfHub => Self::SignatureKeyOfHub,
            R::SignatureKeyTimes => Self::SignatureKeyTimes,
            R::SignatureKeyTaken { .. } => Self::SignatureKeyTaken,
            R::SignatureKeyRevoked => Self::SignatureKeyRevoked,
            R::SignatureKeyNext => Self::SignatureKeyWaiting,
            R::SignatureKeysFull => Self::TooManySignatureKeys,
            R::RevokedKeysFull => Self::TooManyRevokedKeys,
            R::BlockOfHub => Self::BlockOfHub,
            R::BlocksFull => Self::TooManyBlocks,
            R::BlockUnknown => Self::BlockNotFound,
            R::NotAProxy { .. } => Self::NotAProxy,
            R::ProxiedIsParticipant { .. } => Self::ProxiedIsParticipant,
            R::ProxiedByAnother { .. } => Self::ProxiedByAnother,
            R::ProxiedUnknown { .. } => Self::ProxiedNotFound,
            R::IsProxied { .. } => Self::ParticipantIsProxied,
            R::PositionAccountMissing { .. } => Self::PositionAccountNotFound,
            R::AccountsOpened => Self::LimitExists,
            R::HubSettlementAccountMissing { .. } => Self::HubSettlementAccountNotFound,
            R::InitialPositionTooLarge => Self::InitialPositionTooLarge,
            R::InitialPositionBeyondCap => Self::InitialPositionBeyondCap,
            R::LimitMissing { .. } => Self::LimitNotFound,
            R::AccountTypeUnknown | R::LedgerTypeUnknown | R::SettlementTypeUnknown => {
                Self::AccountTypeNotFound
            }
            R::HubAccountParticipantUnknown => Self::HubAccountParticipantNotFound,
            R::HubAccountRegistered => Self::HubAccountExists,
            R::HubAccountForDfsp => Self::HubAccountOnly,
            R::HubAccountTypeNotAllowed => Self::HubAccountTypeNotAllowed,
            R::AccountUnknown => Self::AccountNotFound,
            R::AccountOfAnother => Self::AccountOfAnother,
            R::AccountNotPosition => Self::AccountNotPosition,
            R::AccountUnopened => Self::AccountNotOpen,
            R::ModelCombination { .. } => Self::SettlementModelUnsupported,
            R::TypeNotSettled { .. } => Self::AccountTypeNotSettled,
            R::SettlementTypeOfAnother { .. } => Self::SettlementModelCover,
            R::ModelStopsPositions { .. } => Self::SettlementModelStopsPayments,
            R::ModelExists => Self::SettlementModelExists,
            R::ModelGovernsAlready { .. } => Self::SettlementModelConflict,
            R::ModelsFull => Self::TooManySettlementModels,
            R::ModelUnknown { .. } => Self::SettlementModelNotFound,
            R::AccountTypeExists => Self::AccountTypeExists,
            R::AccountTypesFull => Self::TooManyAccountTypes,
            R::FundsAccountMismatch => Self::FundsAccountMismatch,
            R::FundsModified => Self::FundsModified,
            R::FundsIsTransfer => Self::FundsIdOfTransfer,
            R::FundsAccountInactive => Self::AccountInactive,
            R::FundsFull => Self::TooManyFunds,
            R::ReconciliationAccountMissing { .. } => Self::HubReconciliationAccountNotFound,
            R::AccountNotSettlement => Self::AccountNotSettlement,
            R::BalanceFull => Self::BalanceTooLarge,
            R::FundsUnknown => Self::FundsNotFound,
            R::FundsFinal { .. } => Self::FundsFinal,
            R::WithdrawalExpired => Self::WithdrawalExpired,
            R::TransferUnknown => Self::TransferNotFound,
            R::TransferFinal { .. } => Self::TransferFinal,
            R::WindowUnknown { .. } => Self::WindowNotFound,
            R::WindowNotOpen { .. } => Self::WindowNotOpen,
            R::WindowEmpty { .. } => Self::WindowEmpty,
            R::WindowsFull => Self::TooManyWindows,
            R::WindowsUnsettled => Self::TooManyUnsettledWindows,
            R::SettlementModelUnknown { .. } => Self::SettlementModelUnusable,
            R::SettlementModelGross => Self::SettlementModelGross,
            R::SettlementWindowsMany => Self::TooManyWindowsOfSettlement,
            R::WindowsInapplicable { .. } => Self::WindowsNotApplicable,
            R::SettlementsFull => Self::TooManySettlements,
            R::SettlementUnknown => Self::SettlementNotFound,
            R::SettlementStateChange => Self::SettlementStateNotAllowed,
            R::SettlementCommitted => Self::SettlementCommitted,
            R::FeeRuleName | R::FeeRuleInvalid | R::FeeRuleFiner { .. } => Self::FeeRuleInvalid,
            R::FeeRuleTime => Self::FeeRuleTimes,
            R::FeeRuleExists => Self::FeeRuleExists,
            R::FeeRuleUnknown => Self::FeeRuleNotFound,
            R::FeeRulesFull => Self::TooManyFeeRules,
            R::NothingParked => Self::NothingParked,
            R::OperatorUnknown { .. } => Self::OperatorNotFound,
            R::OperatorFixed => Self::OperatorParticipantFixed,
            R::OperatorScope => Self::RoleScopeMismatch,
            R::RolesExcluded { .. } => Self::RolesExcluded,
            R::OperatorsFull => Self::TooManyOperators,
            R::CredentialLife => Self::CredentialLifetime,
            R::CredentialsFull => Self::TooManyCredentials,
            R::CredentialTaken => Self::CredentialExists,
            R::CredentialUnknown => Self::CredentialNotFound,
            R::CodeUsed => Self::CodeUsed,
            R::NotPermitted { .. } => Self::PermissionMissing,
            R::NotInEmergency => Self::EmergencyOnly,
            R::ProposalReason => Self::ReasonRequired,
            R::ProposalsFull => Self::TooManyApprovals,
            R::ProposalLarge => Self::ApprovalsTooLarge,
            R::ProposalPending { .. } => Self::ApprovalPending,
            R::ProposalUnknown => Self::ApprovalNotFound,
            R::ProposalEnded { .. } => Self::ApprovalEnded,
            R::ProposalOwn => Self::ApprovalOwn,
            R::ProposalOfAnother => Self::ApprovalOfAnother,
            R::ChangeSetSize => Self::ChangeSetSize,
            R::ChangeSetKind => Self::ChangeSetKind,
            R::ChangeSetsFull => Self::TooManyChangeSets,
            R::ChangeSetPassesOver { .. } => Self::ChangeSetSkipsAccount,
            R::ChangeSetChange { refusal, .. } => Self::of_refusal(refusal),
            R::PolicyInvalid => Self::PolicyInvalid,
        }
    }

    /// The error that a settlement's account reports when it is skipped.
    pub(crate) const fn of_advance(fault: AdvanceFault) -> Self {
        match fault {
            AdvanceFault::AccountUnknown => Self::AdvanceAccountNotFound,
            AdvanceFault::AccountOfAnother => Self::AdvanceAccountOfAnother,
            AdvanceFault::AccountRepeated => Self::AdvanceAccountRepeated,
            AdvanceFault::StateNotAllowed => Self::AdvanceStateNotAllowed,
            AdvanceFault::CoverMissing => Self::AdvanceCoverMissing,
            AdvanceFault::PayerUnfinished => Self::AdvanceDebtorUnfinished,
            AdvanceFault::CoverAccountMissing => Self::AdvanceCoverAccountNotFound,
            AdvanceFault::FundsIdTaken => Self::AdvanceFundsIdTaken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_lower_case_words_with_a_meaning() {
        for name in ErrorName::ALL {
            let (word, meaning) = (name.as_str(), name.meaning());
            assert!(word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{word}");
            assert_eq!(ErrorName::parse(word), Some(*name), "{word}");
            assert!(meaning.ends_with('.') && meaning.trim() == meaning, "{word}: {meaning}");
        }
        assert_eq!(ErrorName::parse("no_such_name"), None);
    }
}
