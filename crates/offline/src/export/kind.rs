//! The kinds of exports, and their columns.

use clap::ValueEnum;
use upesi_types::TransferId;

use crate::export::value::{Column, Type as Of};

/// Kind of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Transfers, including items of bulk transfers.
    #[default]
    Transfers,
    /// FX transfers.
    FxTransfers,
    /// Items of bulk transfers: the bulk transfer of each transfer, and its outcome there.
    BulkItems,
    /// Obligations that each commit added to a settlement window, by the accounts that owe and are owed: of transfers,
    /// movements of FX transfers, and fees. Their sum is the net.
    Obligations,
    /// Net of each account in each content of a closed settlement window, by its settlement if there is one.
    Settlements,
}

const TRANSFERS: &[Column] = &[
    Column::required("transferId", Of::Text),
    Column::optional("payerFsp", Of::Text),
    Column::optional("payeeFsp", Of::Text),
    Column::required("amount", Of::Amount),
    Column::required("currency", Of::Text),
    Column::required("state", Of::Text),
    Column::optional("errorCode", Of::Small),
    Column::optional("errorDescription", Of::Text),
    Column::required("preparedAt", Of::Instant),
    Column::optional("completedAt", Of::Instant),
    Column::required("expiration", Of::Instant),
    Column::required("condition", Of::Hash),
    Column::optional("fulfilment", Of::Hash),
    Column::required("prepareRecord", Of::Number),
    Column::optional("extensions", Of::Text),
    Column::optional("settlementWindowId", Of::Small),
    Column::optional("debtorFsp", Of::Text),
    Column::optional("creditorFsp", Of::Text),
    Column::optional("fees", Of::Text),
];

const FX_TRANSFERS: &[Column] = &[
    Column::required("commitRequestId", Of::Text),
    Column::optional("determiningTransferId", Of::Text),
    Column::required("side", Of::Text),
    Column::optional("initiatingFsp", Of::Text),
    Column::optional("counterPartyFsp", Of::Text),
    Column::required("sourceAmount", Of::Amount),
    Column::required("sourceCurrency", Of::Text),
    Column::required("targetAmount", Of::Amount),
    Column::required("targetCurrency", Of::Text),
    Column::required("state", Of::Text),
    Column::optional("errorCode", Of::Small),
    Column::optional("errorDescription", Of::Text),
    Column::required("preparedAt", Of::Instant),
    Column::optional("completedAt", Of::Instant),
    Column::required("expiration", Of::Instant),
    Column::required("condition", Of::Hash),
    Column::optional("fulfilment", Of::Hash),
    Column::required("prepareRecord", Of::Number),
    Column::optional("sourceSettlementWindowId", Of::Small),
    Column::optional("sourceDebtorFsp", Of::Text),
    Column::optional("sourceCreditorFsp", Of::Text),
    Column::optional("targetSettlementWindowId", Of::Small),
    Column::optional("targetDebtorFsp", Of::Text),
    Column::optional("targetCreditorFsp", Of::Text),
];

const OBLIGATIONS: &[Column] = &[
    Column::required("settlementWindowId", Of::Small),
    Column::required("ledgerAccountType", Of::Text),
    Column::required("currency", Of::Text),
    Column::required("debtorFsp", Of::Text),
    Column::required("debtorAccountId", Of::Small),
    Column::required("creditorFsp", Of::Text),
    Column::required("creditorAccountId", Of::Small),
    Column::required("amount", Of::Amount),
    Column::required("source", Of::Text),
    Column::required("sourceId", Of::Text),
    Column::optional("completedAt", Of::Instant),
];

const BULK_ITEMS: &[Column] = &[
    Column::required("bulkTransferId", Of::Text),
    Column::required("bulkQuoteId", Of::Text),
    Column::optional("item", Of::Small),
    Column::optional("transferId", Of::Text),
    Column::optional("payerFsp", Of::Text),
    Column::optional("payeeFsp", Of::Text),
    Column::required("bulkState", Of::Text),
    Column::required("state", Of::Text),
    Column::optional("errorCode", Of::Small),
    Column::optional("errorDescription", Of::Text),
    Column::required("receivedAt", Of::Instant),
    Column::optional("completedAt", Of::Instant),
    Column::required("expiration", Of::Instant),
    Column::required("bulkRecord", Of::Number),
];

const SETTLEMENTS: &[Column] = &[
    Column::optional("settlementWindowId", Of::Small),
    Column::optional("contentId", Of::Small),
    Column::optional("settlementId", Of::Small),
    Column::optional("settlementModel", Of::Text),
    Column::required("ledgerAccountType", Of::Text),
    Column::required("currency", Of::Text),
    Column::required("fsp", Of::Text),
    Column::required("accountId", Of::Small),
    Column::required("net", Of::Amount),
    Column::required("state", Of::Text),
    Column::optional("externalReference", Of::Text),
    Column::required("reason", Of::Text),
    Column::optional("windowOpenedAt", Of::Instant),
    Column::optional("windowClosedAt", Of::Instant),
    Column::optional("settlementCreatedAt", Of::Instant),
    Column::required("changedAt", Of::Instant),
];

/// Kinds of entries in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Archived {
    Transfers,
    FxTransfers,
    BulkItems,
}

impl Archived {
    pub(super) const ALL: [Self; 3] = [Self::Transfers, Self::FxTransfers, Self::BulkItems];

    /// The kind of an archive entry with this key.
    pub(super) fn of_key(key: TransferId) -> Self {
        if key.as_fx_transfer().is_some() {
            Self::FxTransfers
        } else if key.as_bulk().is_some() {
            Self::BulkItems
        } else {
            Self::Transfers
        }
    }

    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Transfers => Kind::Transfers,
            Self::FxTransfers => Kind::FxTransfers,
            Self::BulkItems => Kind::BulkItems,
        }
    }
}

impl Kind {
    /// The archive entries that it contains; empty if it contains only entries of the ledger.
    pub(super) const fn archived(self) -> &'static [Archived] {
        match self {
            Self::Transfers => &[Archived::Transfers],
            Self::FxTransfers => &[Archived::FxTransfers],
            Self::BulkItems => &[Archived::BulkItems],
            Self::Obligations => &[Archived::Transfers, Archived::FxTransfers],
            Self::Settlements => &[],
        }
    }

    /// The columns, in order, with the same meaning in all formats.
    pub(super) const fn columns(self) -> &'static [Column] {
        match self {
            Self::Transfers => TRANSFERS,
            Self::FxTransfers => FX_TRANSFERS,
            Self::BulkItems => BULK_ITEMS,
            Self::Obligations => OBLIGATIONS,
            Self::Settlements => SETTLEMENTS,
        }
    }

    /// The names of the columns, in order.
    pub fn names(self) -> Vec<&'static str> {
        self.columns().iter().map(|column| column.name).collect()
    }

    /// Prefix of the names of its files.
    pub const fn file_prefix(self) -> &'static str {
        match self {
            Self::Transfers => "transfers",
            Self::FxTransfers => "fxTransfers",
            Self::BulkItems => "bulkItems",
            Self::Obligations => "obligations",
            Self::Settlements => "settlements",
        }
    }

    /// Name of its rows in messages.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Transfers => "transfers",
            Self::FxTransfers => "FX transfers",
            Self::BulkItems => "items of bulk transfers",
            Self::Obligations => "obligations",
            Self::Settlements => "accounts in settlements",
        }
    }
}
