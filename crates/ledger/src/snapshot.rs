//! Snapshots: the whole state as bytes, so that a restart replays only what came after.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::account::{Account, AccountId, LedgerAccountType, LedgerAccountTypeId};
use crate::callback::CallbackKey;
use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::config::LedgerConfig;
use crate::endpoint::EndpointType;
use crate::funds::{FundsState, FundsTransfer};
use crate::outbox::Parked;
use crate::participant::{AccountRef, Limit, Participant, ParticipantId};
use crate::settlement_model::SettlementModel;
use crate::state::{Ledger, Totals};
use crate::transfer::{Transfer, TransferState};

/// Why a snapshot could not be read.
pub type SnapshotError = DecodeError;

/// Version of the snapshot format, in its first byte.
const FORMAT: u8 = 2;
/// Without `removed_to`.
const FORMAT_WITHOUT_REMOVALS: u8 = 1;

impl Ledger {
    /// Appends the state. Equal states give equal bytes.
    pub fn encode_snapshot(&self, buffer: &mut Vec<u8>) {
        let encoder = &mut Encoder(buffer);
        encoder.u8(FORMAT);
        encoder.u64(self.last_seq);
        encoder.timestamp(self.last_time);
        encoder.u64(self.removed_to);
        for total in [
            self.totals.reserved,
            self.totals.refused,
            self.totals.committed,
            self.totals.aborted,
            self.totals.expired,
        ] {
            encoder.u64(total);
        }
        encoder
            .list(self.account_types.iter(), |encoder, kind| encoder.sized(|encoder| kind.encode(encoder)));
        encoder.list(self.models.iter(), |encoder, model| encoder.sized(|encoder| model.encode(encoder)));
        encoder.list(self.participants.iter(), |encoder, item| encoder.sized(|encoder| item.encode(encoder)));
        encoder
            .list(self.accounts.iter(), |encoder, account| encoder.sized(|encoder| account.encode(encoder)));
        encoder.list(self.funds.values(), |encoder, funds| encoder.sized(|encoder| funds.encode(encoder)));
        let mut reserved: Vec<_> = self.transfers.reserved().collect();
        reserved.sort_unstable_by_key(|transfer| transfer.prepare_seq);
        encoder.list(reserved.into_iter(), |encoder, transfer| {
            encoder.sized(|encoder| transfer.encode(encoder))
        });
        let finished: Vec<_> = self.transfers.finished().collect();
        encoder.list(finished.into_iter(), |encoder, (seq, transfer)| {
            encoder.u64(seq);
            encoder.sized(|encoder| transfer.encode(encoder));
        });
        let outbox: Vec<_> = self.outbox.iter().collect();
        encoder.list(outbox.into_iter(), |encoder, (key, entry)| {
            key.encode(encoder);
            encoder.option(entry.parked.as_deref(), |encoder, parked| {
                encoder.timestamp(parked.at);
                encoder.u32(parked.attempts);
                encoder.text(&parked.reason);
            });
        });
    }

    /// Reads a state back.
    pub fn decode_snapshot(bytes: &[u8], config: LedgerConfig) -> Result<Self, SnapshotError> {
        let d = &mut Decoder(bytes);
        let format = d.u8()?;
        if ![FORMAT, FORMAT_WITHOUT_REMOVALS].contains(&format) {
            return Err(DecodeError("unknown snapshot format; it was written by a newer version"));
        }
        let mut ledger = Self::new(config);
        ledger.last_seq = d.u64()?;
        ledger.last_time = d.timestamp()?;
        ledger.removed_to = if format == FORMAT { d.u64()? } else { 0 };
        ledger.totals = Totals {
            reserved: d.u64()?,
            refused: d.u64()?,
            committed: d.u64()?,
            aborted: d.u64()?,
            expired: d.u64()?,
        };
        ledger.account_types = d.list(|d| LedgerAccountType::decode(&mut d.sized()?))?;
        ledger.models = d.list(|d| SettlementModel::decode(&mut d.sized()?))?;
        ledger.participants = d.list(|d| Participant::decode(&mut d.sized()?))?;
        let hub = ledger.participants.first_mut().ok_or(DecodeError("a snapshot without hub"))?;
        hub.name = ledger.config.hub_name;
        ledger.names.clear();
        ledger.names.extend(ledger.participants.iter().map(|participant| (participant.name, participant.id)));
        ledger.accounts = d.list(|d| Account::decode(&mut d.sized()?))?;
        let funds = d.list(|d| FundsTransfer::decode(&mut d.sized()?))?;
        let reserved_funds = funds.iter().filter(|funds| funds.state == FundsState::Reserved);
        ledger.funds_deadlines = reserved_funds.map(|funds| (funds.expires_at, funds.id)).collect();
        ledger.funds = funds.into_iter().map(|funds| (funds.id, funds)).collect::<BTreeMap<_, _>>();
        for transfer in d.list(|d| Transfer::decode(&mut d.sized()?))? {
            ledger.restore(transfer.prepare_seq, transfer, true)?;
        }
        for (seq, transfer) in d.list(|d| Ok((d.u64()?, Transfer::decode(&mut d.sized()?)?)))? {
            ledger.restore(seq, transfer, false)?;
        }
        let outbox = d.list(|d| {
            let key = CallbackKey::decode(d)?;
            let read_parked = |d: &mut Decoder<'_>| {
                Ok(Parked { at: d.timestamp()?, attempts: d.u32()?, reason: d.boxed_text()? })
            };
            Ok((key, d.option(read_parked)?))
        })?;
        for (key, parked) in outbox {
            ledger.outbox.insert(key, parked);
        }
        d.finish()?;
        ledger.check_references()?;
        Ok(ledger)
    }

    fn restore(&mut self, seq: u64, transfer: Transfer, is_reserved: bool) -> Decoded<()> {
        if (transfer.state == TransferState::Reserved) != is_reserved {
            return Err(DecodeError("a transfer is listed under another state"));
        }
        if self.transfers.get(transfer.id).is_some() {
            return Err(DecodeError("a transfer is listed twice"));
        }
        self.transfers.insert(seq, transfer);
        Ok(())
    }

    /// Everything that is referred to exists, so that the rules may index without asking.
    fn check_references(&self) -> Decoded<()> {
        let participant = |id: ParticipantId| id.index() < self.participants.len();
        let account = |id: AccountId| id.index() < self.accounts.len();
        let are_numbered = self.participants.iter().enumerate().all(|(at, item)| item.id.index() == at)
            && self.accounts.iter().enumerate().all(|(at, item)| item.id.index() == at)
            && self.account_types.iter().enumerate().all(|(at, item)| usize::from(item.id.0) == at + 1)
            && self.models.iter().enumerate().all(|(at, item)| item.id as usize == at + 1);
        if !are_numbered {
            return Err(DecodeError("it numbers its items with gaps"));
        }
        let mut transfers = self.reserved_transfers().chain(self.finished_transfers());
        let are_known = self.accounts.iter().all(|item| participant(item.participant))
            && self.participants.iter().flat_map(|item| &item.accounts).all(|item| account(item.id))
            && self.funds.values().all(|item| account(item.account) && account(item.hub_account))
            && self
                .reserved_transfers()
                .all(|item| item.payer_account.is_some() && item.payee_account.is_some())
            && transfers.all(|item| {
                [item.payer, item.payee].into_iter().flatten().all(participant)
                    && [item.payer_account, item.payee_account].into_iter().flatten().all(account)
            })
            && self.outbox.iter().all(|(key, _)| participant(key.target));
        if are_known { Ok(()) } else { Err(DecodeError("it refers to something that it does not contain")) }
    }
}

impl LedgerAccountType {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u8(self.id.0);
        encoder.text(&self.name);
        encoder.text(&self.description);
        encoder.bool(self.is_active);
        encoder.bool(self.is_settleable);
    }

    fn decode(d: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(Self {
            id: LedgerAccountTypeId(d.u8()?),
            name: d.boxed_text()?,
            description: d.boxed_text()?,
            is_active: d.bool()?,
            is_settleable: d.bool()?,
        })
    }
}

impl Participant {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.id.number());
        encoder.fsp_id(self.name);
        encoder.bool(self.is_active);
        encoder.bool(self.is_proxy);
        encoder.timestamp(self.created_at);
        encoder.list(self.accounts.iter(), |encoder, account| {
            encoder.currency(account.currency);
            encoder.u8(account.kind.0);
            encoder.u32(account.id.number());
        });
        encoder.list(self.limits.iter(), |encoder, limit| {
            encoder.currency(limit.currency);
            encoder.amount(limit.value);
            encoder.u16(limit.alarm_basis_points);
        });
        encoder.list(self.endpoints.iter(), |encoder, (kind, value)| {
            encoder.u8(kind.number());
            encoder.text(value);
        });
    }

    fn decode(d: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(Self {
            id: ParticipantId::new(d.u32()?).ok_or(DecodeError("participant 0"))?,
            name: d.fsp_id()?,
            is_active: d.bool()?,
            is_proxy: d.bool()?,
            created_at: d.timestamp()?,
            accounts: d.list(|d| {
                Ok(AccountRef {
                    currency: d.currency()?,
                    kind: LedgerAccountTypeId(d.u8()?),
                    id: d.account_id()?,
                })
            })?,
            limits: d.list(|d| {
                Ok(Limit { currency: d.currency()?, value: d.amount()?, alarm_basis_points: d.u16()? })
            })?,
            endpoints: d.list(|d| {
                let kind = EndpointType::from_number(d.u8()?).ok_or(DecodeError("unknown endpoint type"))?;
                Ok((kind, d.boxed_text()?))
            })?,
        })
    }
}

impl Account {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.id.number());
        encoder.u32(self.participant.number());
        encoder.currency(self.currency);
        encoder.u8(self.kind.0);
        encoder.bool(self.is_active);
        encoder.bool(self.is_opened);
        encoder.amount(self.balance);
        encoder.amount(self.pending_credits);
        encoder.timestamp(self.created_at);
        encoder.timestamp(self.changed_at);
    }

    fn decode(d: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(Self {
            id: d.account_id()?,
            participant: d.participant_id()?,
            currency: d.currency()?,
            kind: LedgerAccountTypeId(d.u8()?),
            is_active: d.bool()?,
            is_opened: d.bool()?,
            balance: d.amount()?,
            pending_credits: d.amount()?,
            created_at: d.timestamp()?,
            changed_at: d.timestamp()?,
        })
    }
}
