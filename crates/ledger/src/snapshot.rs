//! Snapshots: the whole state as bytes, so that a restart replays only what came after.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::account::{Account, LedgerAccountType, LedgerAccountTypeId};
use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::config::LedgerConfig;
use crate::endpoint::EndpointType;
use crate::funds::{FundsState, FundsTransfer};
use crate::notice::NoticeKey;
use crate::outbox::Parked;
use crate::participant::{AccountRef, Limit, Participant, ParticipantId};
use crate::settlement_model::SettlementModel;
use crate::state::{Ledger, Totals};
use crate::transfer::Transfer;

/// Why a snapshot could not be read.
pub type SnapshotError = DecodeError;

/// Version of the snapshot format, in its first byte.
const FORMAT: u8 = 1;

impl Ledger {
    /// Appends the state. Equal states give equal bytes.
    pub fn encode_snapshot(&self, buffer: &mut Vec<u8>) {
        let encoder = &mut Encoder(buffer);
        encoder.u8(FORMAT);
        encoder.u64(self.last_seq);
        encoder.timestamp(self.last_time);
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
        if d.u8()? != FORMAT {
            return Err(DecodeError("unknown snapshot format; it was written by a newer version"));
        }
        let mut ledger = Self::new(config);
        ledger.last_seq = d.u64()?;
        ledger.last_time = d.timestamp()?;
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
            ledger.transfers.insert(transfer.prepare_seq, transfer);
        }
        for (seq, transfer) in d.list(|d| Ok((d.u64()?, Transfer::decode(&mut d.sized()?)?)))? {
            ledger.transfers.insert(seq, transfer);
        }
        let outbox = d.list(|d| {
            let key = NoticeKey::decode(d)?;
            let read_parked = |d: &mut Decoder<'_>| {
                Ok(Parked { at: d.timestamp()?, attempts: d.u32()?, reason: d.boxed_text()? })
            };
            Ok((key, d.option(read_parked)?))
        })?;
        for (key, parked) in outbox {
            ledger.outbox.insert(key, parked);
        }
        d.finish()?;
        Ok(ledger)
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
