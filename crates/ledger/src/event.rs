//! Events: what a decision changed. The state is the fold of them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, ErrorCode, FspId, Timestamp, TransferId};

use crate::account::{AccountId, LedgerAccountTypeId};
use crate::callback::CallbackKey;
use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::endpoint::EndpointType;
use crate::funds::{FundsDirection, FundsState, FundsTransfer};
use crate::participant::ParticipantId;
use crate::settlement_model::{Delay, Granularity, Interchange, SettlementModel};
use crate::transfer::{AbortKind, Fingerprint, Transfer};

/// A change of state. The instant of the change is that of its journal record, or of [`Event::DecidedAt`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A prepare was reserved, or refused (its state says which).
    TransferPrepared(Transfer),
    /// A reserved transfer was committed.
    TransferCommitted {
        /// Which.
        id: TransferId,
        /// Preimage of the condition.
        fulfilment: [u8; 32],
        /// Fingerprint of the fulfil.
        fingerprint: Fingerprint,
        /// The fulfil's extensions.
        extensions: Option<Box<str>>,
    },
    /// A reserved transfer was aborted.
    TransferAborted {
        /// Which.
        id: TransferId,
        /// How.
        kind: AbortKind,
        /// FSPIOP error code.
        code: ErrorCode,
        /// FSPIOP error description.
        description: Box<str>,
        /// Fingerprint of the PUT that did it.
        fingerprint: Option<Fingerprint>,
        /// Why an operator did it, in the operator's words; absent when none did.
        operator_reason: Option<Box<str>>,
    },
    /// A participant joined.
    ParticipantCreated {
        /// Its identifier, the next one.
        id: ParticipantId,
        /// Its name.
        name: FspId,
        /// Whether it stands for other schemes.
        is_proxy: bool,
    },
    /// A participant was activated or deactivated.
    ParticipantActivitySet {
        /// Which.
        id: ParticipantId,
        /// The new flag.
        is_active: bool,
    },
    /// An account was created.
    AccountCreated {
        /// Its identifier, the next one.
        id: AccountId,
        /// Owner.
        participant: ParticipantId,
        /// Currency.
        currency: Currency,
        /// Type.
        kind: LedgerAccountTypeId,
        /// Whether it is active and opened at once, as hub accounts are.
        is_opened: bool,
    },
    /// An account got its balance row and became active.
    AccountOpened {
        /// Which.
        id: AccountId,
    },
    /// An account was activated or deactivated.
    AccountActivitySet {
        /// Which.
        id: AccountId,
        /// The new flag.
        is_active: bool,
    },
    /// Money moved between two accounts outside a transfer: `amount` is added to one and taken from the other.
    Posted {
        /// Whose balance rises.
        debit: AccountId,
        /// Whose balance falls.
        credit: AccountId,
        /// By how much.
        amount: Amount,
    },
    /// A callback URL or address was set.
    EndpointSet {
        /// Whose.
        participant: ParticipantId,
        /// Which.
        kind: EndpointType,
        /// The value.
        value: Box<str>,
    },
    /// A net debit cap was set.
    LimitSet {
        /// Whose.
        participant: ParticipantId,
        /// In which currency.
        currency: Currency,
        /// The cap.
        value: Amount,
        /// Alarm threshold in hundredths of a percent.
        alarm_basis_points: u16,
    },
    /// A settlement model was created.
    SettlementModelCreated(SettlementModel),
    /// A settlement model was activated or deactivated.
    SettlementModelActivitySet {
        /// Which.
        id: u32,
        /// The new flag.
        is_active: bool,
    },
    /// A ledger account type was created.
    LedgerAccountTypeCreated {
        /// Its identifier, the next one.
        id: LedgerAccountTypeId,
        /// Name.
        name: Box<str>,
        /// Free text.
        description: Box<str>,
        /// Whether it may be used.
        is_active: bool,
        /// Whether settlement models may settle it.
        is_settleable: bool,
    },
    /// Funds were deposited, or a withdrawal was reserved or refused (its state says which).
    FundsPrepared(FundsTransfer),
    /// A reserved withdrawal ended.
    FundsEnded {
        /// Which.
        id: TransferId,
        /// COMMITTED or ABORTED.
        state: FundsState,
        /// Why, in the operator's words.
        reason: Box<str>,
    },
    /// Callbacks were delivered.
    CallbacksDelivered(Vec<CallbackKey>),
    /// A callback was given up until an operator looks.
    CallbackParked {
        /// Which.
        key: CallbackKey,
        /// How often it was tried.
        attempts: u32,
        /// What went wrong last.
        reason: Box<str>,
    },
    /// Parked callbacks were put back into their lanes.
    CallbacksRedelivered(Vec<CallbackKey>),
    /// Retention removed the transfers that finished up to a record: their ids are unknown from here on.
    FinishedRemoved {
        /// The last of the records whose finished transfers are gone.
        to_seq: u64,
    },
    /// First in a record that was decided before its own instant: the journal's time was ahead of the hub's clock.
    DecidedAt(Timestamp),
    /// An operator accepted that the wall clock jumped.
    ClockAccepted {
        /// How far, in milliseconds; negative when it jumped back.
        jump_ms: i64,
        /// Why, in the operator's words.
        reason: Box<str>,
    },
}

impl Event {
    /// Appends the stored form: a tag, a length, the fields.
    pub fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u8(self.tag());
        encoder.sized(|encoder| self.encode_fields(encoder));
    }

    const fn tag(&self) -> u8 {
        match self {
            Self::TransferPrepared(_) => 1,
            Self::TransferCommitted { .. } => 2,
            Self::TransferAborted { operator_reason: None, .. } => 3,
            Self::TransferAborted { operator_reason: Some(_), .. } => 4,
            Self::ParticipantCreated { .. } => 10,
            Self::ParticipantActivitySet { .. } => 11,
            Self::AccountCreated { .. } => 12,
            Self::AccountOpened { .. } => 13,
            Self::AccountActivitySet { .. } => 14,
            Self::Posted { .. } => 15,
            Self::EndpointSet { .. } => 16,
            Self::LimitSet { .. } => 17,
            Self::SettlementModelCreated(_) => 18,
            Self::SettlementModelActivitySet { .. } => 19,
            Self::LedgerAccountTypeCreated { .. } => 20,
            Self::FundsPrepared(_) => 21,
            Self::FundsEnded { .. } => 22,
            Self::CallbacksDelivered(_) => 30,
            Self::CallbackParked { .. } => 31,
            Self::CallbacksRedelivered(_) => 32,
            Self::FinishedRemoved { .. } => 40,
            Self::DecidedAt(_) => 41,
            Self::ClockAccepted { .. } => 42,
        }
    }

    /// A short name for people, as `upesi journal` prints it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::TransferPrepared(_) => "TransferPrepared",
            Self::TransferCommitted { .. } => "TransferCommitted",
            Self::TransferAborted { .. } => "TransferAborted",
            Self::ParticipantCreated { .. } => "ParticipantCreated",
            Self::ParticipantActivitySet { .. } => "ParticipantActivitySet",
            Self::AccountCreated { .. } => "AccountCreated",
            Self::AccountOpened { .. } => "AccountOpened",
            Self::AccountActivitySet { .. } => "AccountActivitySet",
            Self::Posted { .. } => "Posted",
            Self::EndpointSet { .. } => "EndpointSet",
            Self::LimitSet { .. } => "LimitSet",
            Self::SettlementModelCreated(_) => "SettlementModelCreated",
            Self::SettlementModelActivitySet { .. } => "SettlementModelActivitySet",
            Self::LedgerAccountTypeCreated { .. } => "LedgerAccountTypeCreated",
            Self::FundsPrepared(_) => "FundsPrepared",
            Self::FundsEnded { .. } => "FundsEnded",
            Self::CallbacksDelivered(_) => "CallbacksDelivered",
            Self::CallbackParked { .. } => "CallbackParked",
            Self::CallbacksRedelivered(_) => "CallbacksRedelivered",
            Self::FinishedRemoved { .. } => "FinishedRemoved",
            Self::DecidedAt(_) => "DecidedAt",
            Self::ClockAccepted { .. } => "ClockAccepted",
        }
    }

    fn encode_fields(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::TransferPrepared(transfer) => transfer.encode(encoder),
            Self::TransferCommitted { id, fulfilment, fingerprint, extensions } => {
                encoder.transfer_id(*id);
                encoder.raw(fulfilment);
                encoder.raw(fingerprint);
                encoder.option(extensions.as_deref(), |encoder, text| encoder.text(text));
            }
            Self::TransferAborted { id, kind, code, description, fingerprint, operator_reason } => {
                encoder.transfer_id(*id);
                encoder.u8(kind.number());
                encoder.u16(code.number());
                encoder.text(description);
                encoder.option(fingerprint.as_ref(), |encoder, bytes| encoder.raw(bytes));
                if let Some(reason) = operator_reason {
                    encoder.text(reason);
                }
            }
            Self::ParticipantCreated { id, name, is_proxy } => {
                encoder.u32(id.number());
                encoder.fsp_id(*name);
                encoder.bool(*is_proxy);
            }
            Self::ParticipantActivitySet { id, is_active } => {
                encoder.u32(id.number());
                encoder.bool(*is_active);
            }
            Self::AccountCreated { id, participant, currency, kind, is_opened } => {
                encoder.u32(id.number());
                encoder.u32(participant.number());
                encoder.currency(*currency);
                encoder.u8(kind.0);
                encoder.bool(*is_opened);
            }
            Self::AccountOpened { id } => encoder.u32(id.number()),
            Self::AccountActivitySet { id, is_active } => {
                encoder.u32(id.number());
                encoder.bool(*is_active);
            }
            Self::Posted { debit, credit, amount } => {
                encoder.u32(debit.number());
                encoder.u32(credit.number());
                encoder.amount(*amount);
            }
            Self::EndpointSet { participant, kind, value } => {
                encoder.u32(participant.number());
                encoder.u8(kind.number());
                encoder.text(value);
            }
            Self::LimitSet { participant, currency, value, alarm_basis_points } => {
                encoder.u32(participant.number());
                encoder.currency(*currency);
                encoder.amount(*value);
                encoder.u16(*alarm_basis_points);
            }
            Self::SettlementModelCreated(model) => model.encode(encoder),
            Self::SettlementModelActivitySet { id, is_active } => {
                encoder.u32(*id);
                encoder.bool(*is_active);
            }
            Self::LedgerAccountTypeCreated { id, name, description, is_active, is_settleable } => {
                encoder.u8(id.0);
                encoder.text(name);
                encoder.text(description);
                encoder.bool(*is_active);
                encoder.bool(*is_settleable);
            }
            Self::FundsPrepared(funds) => funds.encode(encoder),
            Self::FundsEnded { id, state, reason } => {
                encoder.transfer_id(*id);
                encoder.u8(state.number());
                encoder.text(reason);
            }
            Self::CallbacksDelivered(keys) | Self::CallbacksRedelivered(keys) => {
                encoder.list(keys.iter(), |encoder, key| key.encode(encoder));
            }
            Self::DecidedAt(at) => encoder.timestamp(*at),
            Self::ClockAccepted { jump_ms, reason } => {
                encoder.i64(*jump_ms);
                encoder.text(reason);
            }
            Self::CallbackParked { key, attempts, reason } => {
                key.encode(encoder);
                encoder.u32(*attempts);
                encoder.text(reason);
            }
            Self::FinishedRemoved { to_seq } => encoder.u64(*to_seq),
        }
    }

    /// Reads the stored form.
    pub fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        let tag = decoder.u8()?;
        let mut fields = decoder.sized()?;
        let d = &mut fields;
        Ok(match tag {
            1 => Self::TransferPrepared(Transfer::decode(d)?),
            2 => Self::TransferCommitted {
                id: d.transfer_id()?,
                fulfilment: d.array()?,
                fingerprint: d.array()?,
                extensions: d.option(Decoder::boxed_text)?,
            },
            3 | 4 => Self::TransferAborted {
                id: d.transfer_id()?,
                kind: AbortKind::from_number(d.u8()?).ok_or(DecodeError("unknown kind of abort"))?,
                code: ErrorCode::from_number(d.u16()?).ok_or(DecodeError("unknown error code"))?,
                description: d.boxed_text()?,
                fingerprint: d.option(Decoder::array)?,
                operator_reason: if tag == 4 { Some(d.boxed_text()?) } else { None },
            },
            10 => {
                Self::ParticipantCreated { id: d.participant_id()?, name: d.fsp_id()?, is_proxy: d.bool()? }
            }
            11 => Self::ParticipantActivitySet { id: d.participant_id()?, is_active: d.bool()? },
            12 => Self::AccountCreated {
                id: d.account_id()?,
                participant: d.participant_id()?,
                currency: d.currency()?,
                kind: LedgerAccountTypeId(d.u8()?),
                is_opened: d.bool()?,
            },
            13 => Self::AccountOpened { id: d.account_id()? },
            14 => Self::AccountActivitySet { id: d.account_id()?, is_active: d.bool()? },
            15 => Self::Posted { debit: d.account_id()?, credit: d.account_id()?, amount: d.amount()? },
            16 => Self::EndpointSet {
                participant: d.participant_id()?,
                kind: EndpointType::from_number(d.u8()?).ok_or(DecodeError("unknown endpoint type"))?,
                value: d.boxed_text()?,
            },
            17 => Self::LimitSet {
                participant: d.participant_id()?,
                currency: d.currency()?,
                value: d.amount()?,
                alarm_basis_points: d.u16()?,
            },
            18 => Self::SettlementModelCreated(SettlementModel::decode(d)?),
            19 => Self::SettlementModelActivitySet { id: d.u32()?, is_active: d.bool()? },
            20 => Self::LedgerAccountTypeCreated {
                id: LedgerAccountTypeId(d.u8()?),
                name: d.boxed_text()?,
                description: d.boxed_text()?,
                is_active: d.bool()?,
                is_settleable: d.bool()?,
            },
            21 => Self::FundsPrepared(FundsTransfer::decode(d)?),
            22 => Self::FundsEnded {
                id: d.transfer_id()?,
                state: FundsState::from_number(d.u8()?).ok_or(DecodeError("unknown state of funds"))?,
                reason: d.boxed_text()?,
            },
            30 => Self::CallbacksDelivered(d.list(CallbackKey::decode)?),
            31 => Self::CallbackParked {
                key: CallbackKey::decode(d)?,
                attempts: d.u32()?,
                reason: d.boxed_text()?,
            },
            32 => Self::CallbacksRedelivered(d.list(CallbackKey::decode)?),
            40 => Self::FinishedRemoved { to_seq: d.u64()? },
            41 => Self::DecidedAt(d.timestamp()?),
            42 => Self::ClockAccepted { jump_ms: d.i64()?, reason: d.boxed_text()? },
            _ => return Err(DecodeError("unknown event; it was written by a newer version")),
        })
    }
}

impl Decoder<'_> {
    pub(crate) fn participant_id(&mut self) -> Decoded<ParticipantId> {
        ParticipantId::new(self.u32()?).ok_or(DecodeError("participant 0"))
    }

    pub(crate) fn account_id(&mut self) -> Decoded<AccountId> {
        AccountId::new(self.u32()?).ok_or(DecodeError("account 0"))
    }
}

impl CallbackKey {
    pub(crate) fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.target.number());
        encoder.u64(self.seq);
        encoder.u8(self.index);
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(Self { target: decoder.participant_id()?, seq: decoder.u64()?, index: decoder.u8()? })
    }
}

impl SettlementModel {
    pub(crate) fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.id);
        encoder.text(&self.name);
        encoder.bool(self.is_active);
        encoder.u8(self.granularity.number());
        encoder.u8(self.interchange.number());
        encoder.u8(self.delay.number());
        encoder.option(self.currency, Encoder::currency);
        encoder.bool(self.require_liquidity_check);
        encoder.u8(self.ledger_account_type.0);
        encoder.u8(self.settlement_account_type.0);
        encoder.bool(self.auto_position_reset);
        encoder.timestamp(self.created_at);
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(Self {
            id: decoder.u32()?,
            name: decoder.boxed_text()?,
            is_active: decoder.bool()?,
            granularity: Granularity::from_number(decoder.u8()?).ok_or(DecodeError("unknown granularity"))?,
            interchange: Interchange::from_number(decoder.u8()?).ok_or(DecodeError("unknown interchange"))?,
            delay: Delay::from_number(decoder.u8()?).ok_or(DecodeError("unknown delay"))?,
            currency: decoder.option(Decoder::currency)?,
            require_liquidity_check: decoder.bool()?,
            ledger_account_type: LedgerAccountTypeId(decoder.u8()?),
            settlement_account_type: LedgerAccountTypeId(decoder.u8()?),
            auto_position_reset: decoder.bool()?,
            created_at: decoder.timestamp()?,
        })
    }
}

impl FundsTransfer {
    pub(crate) fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.transfer_id(self.id);
        encoder.u8(self.direction.number());
        encoder.u32(self.participant.number());
        encoder.u32(self.account.number());
        encoder.u32(self.hub_account.number());
        encoder.amount(self.amount);
        encoder.currency(self.currency);
        encoder.text(&self.external_reference);
        encoder.text(&self.reason);
        encoder.option(self.extensions.as_deref(), |encoder, text| encoder.text(text));
        encoder.raw(&self.fingerprint);
        encoder.u8(self.state.number());
        encoder.timestamp(self.created_at);
        encoder.timestamp(self.changed_at);
        encoder.timestamp(self.expires_at);
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(Self {
            id: decoder.transfer_id()?,
            direction: FundsDirection::from_number(decoder.u8()?)
                .ok_or(DecodeError("unknown direction of funds"))?,
            participant: decoder.participant_id()?,
            account: decoder.account_id()?,
            hub_account: decoder.account_id()?,
            amount: decoder.amount()?,
            currency: decoder.currency()?,
            external_reference: decoder.boxed_text()?,
            reason: decoder.boxed_text()?,
            extensions: decoder.option(Decoder::boxed_text)?,
            fingerprint: decoder.array()?,
            state: FundsState::from_number(decoder.u8()?).ok_or(DecodeError("unknown state of funds"))?,
            created_at: decoder.timestamp()?,
            changed_at: decoder.timestamp()?,
            expires_at: decoder.timestamp()?,
        })
    }
}
