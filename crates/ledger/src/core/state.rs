//! The state of the ledger. Only events change it; `fold.rs` applies them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use upesi_types::{Amount, FspId, Timestamp, TransferId};

use crate::base::ids::{AccountId, LedgerAccountTypeId, ParticipantId};
use crate::core::config::LedgerConfig;
use crate::core::outbox::Outbox;
use crate::money::account::{Account, LedgerAccountType, SEEDED_TYPES};
use crate::money::bulk::table::Bulks;
use crate::money::fee::FeeRule;
use crate::money::funds::{FundsTransfer, OpenWithdrawals};
use crate::money::fx_transfer::table::FxTransfers;
use crate::money::transfer_table::TransferTable;
use crate::operators::approvals::Approvals;
use crate::operators::operator::Operators;
use crate::operators::trail::Trail;
use crate::scheme::block::Block;
use crate::scheme::participant::Participant;
use crate::scheme::signature_key::SignatureKeys;
use crate::settlement::model::SettlementModel;
use crate::settlement::settlements::Settlement;
use crate::settlement::window::Windows;

/// Totals of transfers since the ledger began, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Prepares that were reserved.
    pub reserved: u64,
    /// Prepares that were rejected.
    pub refused: u64,
    /// Reserved transfers that were committed.
    pub committed: u64,
    /// Reserved transfers that were aborted, including expired ones.
    pub aborted: u64,
    /// Aborted transfers that expired.
    pub expired: u64,
    /// Commits that were settled immediately and are in no window. The count includes movements of FX transfers.
    pub settled_at_once: u64,
    /// Fees that committed transfers owe.
    pub fees: u64,
    /// Fees of rules that apply to committed transfers but could not be charged.
    pub fees_not_charged: u64,
}

/// The whole state of a scheme's money.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub(crate) config: LedgerConfig,
    pub(crate) participants: Vec<Participant>,
    pub(crate) names: HashMap<FspId, ParticipantId, FixedState>,
    /// The proxies of participants behind one.
    pub(crate) proxies: BTreeMap<ParticipantId, ParticipantId>,
    pub(crate) signature_keys: SignatureKeys,
    /// Blocks in force, with the time when each was set.
    pub(crate) blocks: BTreeMap<Block, Timestamp>,
    pub(crate) accounts: Vec<Account>,
    /// The operator who requested each account, if its record states it.
    pub(crate) creators: BTreeMap<AccountId, Box<str>>,
    pub(crate) account_types: Vec<LedgerAccountType>,
    pub(crate) models: Vec<SettlementModel>,
    pub(crate) transfers: TransferTable,
    pub(crate) fx_transfers: FxTransfers,
    pub(crate) bulks: Bulks,
    pub(crate) funds: BTreeMap<TransferId, FundsTransfer>,
    pub(crate) withdrawals: OpenWithdrawals,
    pub(crate) windows: Windows,
    pub(crate) settlements: Vec<Settlement>,
    /// Amounts below the currency's smallest unit that settled accounts owe or are owed. The next settlement takes them
    /// over.
    pub(crate) carried: BTreeMap<AccountId, Amount>,
    pub(crate) fee_rules: Vec<FeeRule>,
    pub(crate) outbox: Outbox,
    pub(crate) operators: Operators,
    pub(crate) approvals: Approvals,
    pub(crate) trail: Trail,
    pub(crate) totals: Totals,
    /// The last record whose finished transfers retention has removed.
    pub(crate) removed_to: u64,
    /// The records after `removed_to` that end divisions of the archive, in order.
    pub(crate) divisions: Vec<u64>,
    /// The nodes that deliver callbacks.
    pub(crate) couriers: Vec<u32>,
    pub(crate) last_seq: u64,
    pub(crate) last_time: Timestamp,
}

impl Ledger {
    /// Creates a scheme that has only its hub and the seeded ledger account types.
    pub fn new(config: LedgerConfig) -> Self {
        let (hash_seed, limits) = (config.hash_seed, config.limits);
        let mut ledger = Self {
            config,
            participants: Vec::new(),
            names: HashMap::with_hasher(FixedState::with_seed(hash_seed)),
            proxies: BTreeMap::new(),
            signature_keys: SignatureKeys::default(),
            blocks: BTreeMap::new(),
            accounts: Vec::new(),
            creators: BTreeMap::new(),
            account_types: Vec::new(),
            models: Vec::new(),
            transfers: TransferTable::new(hash_seed),
            fx_transfers: FxTransfers::new(hash_seed),
            bulks: Bulks::new(hash_seed),
            funds: BTreeMap::new(),
            withdrawals: OpenWithdrawals::default(),
            windows: Windows::new(hash_seed, limits.pairs),
            settlements: Vec::new(),
            carried: BTreeMap::new(),
            fee_rules: Vec::new(),
            outbox: Outbox::default(),
            operators: Operators::default(),
            approvals: Approvals::default(),
            trail: Trail::default(),
            totals: Totals::default(),
            removed_to: 0,
            divisions: Vec::new(),
            couriers: Vec::new(),
            last_seq: 0,
            last_time: Timestamp::EPOCH,
        };
        let hub = Participant::new(ParticipantId::HUB, ledger.config.hub_name, Timestamp::EPOCH);
        ledger.names.insert(hub.name, hub.id);
        ledger.participants.push(hub);
        for (index, (name, description, is_settleable)) in SEEDED_TYPES.into_iter().enumerate() {
            ledger.account_types.push(LedgerAccountType {
                id: LedgerAccountTypeId(index as u8 + 1),
                name: name.into(),
                description: description.into(),
                is_active: true,
                is_settleable,
            });
        }
        ledger
    }

    /// Sets the opening time of the first window until a record states it. Changes nothing if there are records.
    pub fn show_first_window_opened(&mut self, at: Timestamp) {
        if self.last_seq == 0 {
            self.windows.set_first_opened(at);
        }
    }
}
