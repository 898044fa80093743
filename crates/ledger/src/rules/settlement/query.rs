//! Queries about settlement models, windows and settlements.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, Timestamp};

use crate::base::ids::{AccountId, LedgerAccountTypeId, SettlementId, WindowId};
use crate::core::state::Ledger;
use crate::settlement::model::SettlementModel;
use crate::settlement::settlements::Settlement;
use crate::settlement::window::{PairSum, Window, WindowState};

impl Ledger {
    /// All settlement models in order of creation.
    pub fn models(&self) -> &[SettlementModel] {
        &self.models
    }

    pub fn model_named(&self, name: &str) -> Option<&SettlementModel> {
        self.models.iter().find(|model| &*model.name == name)
    }

    /// The active models that govern a currency: its own models, or the default models if it has none.
    pub fn models_governing(&self, currency: Currency) -> Vec<&SettlementModel> {
        let active_for = |wanted: Option<Currency>| {
            self.models
                .iter()
                .filter(move |model| model.is_active && model.currency == wanted)
                .collect::<Vec<_>>()
        };
        let own = active_for(Some(currency));
        if own.is_empty() { active_for(None) } else { own }
    }

    /// The model that governs positions in a currency.
    pub(crate) fn position_model(&self, currency: Currency) -> Option<&SettlementModel> {
        let mut has_own = false;
        let mut default = None;
        for model in self.models.iter().filter(|model| model.is_active) {
            let is_position = model.ledger_account_type == LedgerAccountTypeId::POSITION;
            if model.currency == Some(currency) {
                has_own = true;
                if is_position {
                    return Some(model);
                }
            } else if model.currency.is_none() && is_position {
                default = Some(model);
            }
        }
        default.filter(|_| !has_own)
    }

    /// All settlement windows in order of opening; the last one is open.
    pub fn windows(&self) -> &[Window] {
        &self.windows.all
    }

    /// A settlement window.
    pub fn window(&self, id: WindowId) -> Option<&Window> {
        self.windows.get(id)
    }

    /// The opening time of the oldest window with unsettled obligations; `None` if there is none.
    pub fn unsettled_since(&self) -> Option<Timestamp> {
        let is_unsettled = |window: &&Window| match window.state {
            WindowState::Open => !self.windows.is_open_empty(),
            WindowState::Settled => false,
            WindowState::Closed | WindowState::Pending | WindowState::Aborted => !window.contents.is_empty(),
        };
        self.windows().iter().find(is_unsettled).map(|window| window.created_at)
    }

    /// Number of committed transfers in the open window.
    pub fn open_window_transfers(&self) -> u64 {
        self.windows.open_transfers()
    }

    /// The amount that each account owes each other account through a window's transfers, ordered by account. For the
    /// open window, the amounts so far. Returns `None` if a settled window's sums were dropped.
    pub fn window_pairs<'a>(&'a self, window: &'a Window) -> Option<Cow<'a, [PairSum]>> {
        match window.state {
            WindowState::Open => Some(Cow::Owned(self.windows.open_pairs())),
            _ => window.pairs.as_deref().map(Cow::Borrowed),
        }
    }

    /// All settlements in order of creation.
    pub fn settlements(&self) -> &[Settlement] {
        &self.settlements
    }

    pub fn settlement(&self, id: SettlementId) -> Option<&Settlement> {
        self.settlements.get(id.index())
    }

    /// The amounts below their currency's smallest unit that settled accounts owe (positive) or are owed, ordered by
    /// account. The next settlement of the currency takes them over.
    pub fn carried(&self) -> impl Iterator<Item = (AccountId, Amount)> {
        self.carried.iter().map(|(account, amount)| (*account, *amount))
    }
}
