//! A currency conversion and its life: RESERVED, fulfilled by its FXP, then exactly one of COMMITTED and ABORTED, by
//! the outcome of its determining transfer.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::fmt::{self, Formatter};

use upesi_types::{Amount, ConversionId, Currency, Money, Timestamp, TransferId};

use crate::account::AccountId;
use crate::callback::TransferView;
use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::participant::ParticipantId;
use crate::refusal::Cause;
use crate::settlement_model::wire_enum;
use crate::show::{Names, Show, Shown};
use crate::state::Ledger;
use crate::stored::{Stored, stored_struct};
use crate::transfer::{AbortKind, Fingerprint, PublicState, TransferState};
use crate::window::WindowId;

pub(crate) mod ended;
mod table;

pub use table::ConversionTotals;
pub(crate) use table::Conversions;

wire_enum! {
    /// Whose side of the determining transfer a conversion is on.
    ConversionSide {
        /// The payer buys the currency of the transfer. The conversion comes before the transfer.
        Payer = 1 "PAYER",
        /// The payee sells the currency of the transfer. The transfer comes before the conversion.
        Payee = 2 "PAYEE",
    }
}

/// A conversion as the ledger and the archive keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// Identifier chosen by the initiator: the `commitRequestId`.
    pub id: ConversionId,
    /// The transfer whose outcome decides its own; absent when a refused request named none.
    pub determining_transfer: Option<TransferId>,
    /// Whose side of that transfer it is on.
    pub side: ConversionSide,
    /// The DFSP that converts; absent when a refused request named an unknown one.
    pub initiator: Option<ParticipantId>,
    /// The foreign exchange provider; absent when a refused request named an unknown one.
    pub fxp: Option<ParticipantId>,
    /// What the initiator sells; zero when a refused request's amount does not fit the ledger.
    pub source: Money,
    /// What the FXP sells for it; zero likewise.
    pub target: Money,
    /// The position accounts; absent when the request was refused.
    pub accounts: Option<ConversionAccounts>,
    /// SHA-256 of the fulfilment; zero when a refused request gave none.
    pub condition: [u8; 32],
    /// When it lapses; when it was prepared, if a refused request gave none.
    pub expires_at: Timestamp,
    /// When it was prepared.
    pub prepared_at: Timestamp,
    /// Journal sequence of the request, where its headers and body are.
    pub prepare_seq: u64,
    /// Fingerprint of the request.
    pub prepare_fingerprint: Fingerprint,
    /// Preimage of the condition, once the FXP gave it.
    pub fulfilment: Option<[u8; 32]>,
    /// The FXP's PUT that was taken last.
    pub answer: Option<ConversionAnswer>,
    /// Where it stands.
    pub state: ConversionState,
}

/// The position accounts of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversionAccounts {
    /// The initiator's in the source currency.
    pub initiator_source: AccountId,
    /// The initiator's in the target currency, if it is on the payee's side.
    pub initiator_target: Option<AccountId>,
    /// The FXP's in the source currency.
    pub fxp_source: AccountId,
    /// The FXP's in the target currency.
    pub fxp_target: AccountId,
}

/// The FXP's PUT that was taken, to tell resends from modified requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversionAnswer {
    /// Whether it was `PUT …/error`.
    pub is_error: bool,
    /// Fingerprint of its body.
    pub fingerprint: Fingerprint,
}

/// Where a conversion stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversionState {
    /// The amount is reserved; the FXP has been asked.
    Reserved,
    /// The FXP gave the fulfilment. The determining transfer decides.
    Fulfilled,
    /// Committed with the determining transfer. Final.
    Committed {
        /// When.
        at: Timestamp,
        /// The windows of its movements; absent if a hub kept it that did not note them yet.
        windows: Option<LegWindows>,
    },
    /// No position carries it. Final.
    Aborted {
        /// How it came to this; the determining transfer's kind, if that ended it.
        kind: AbortKind,
        /// What the parties are told.
        cause: Cause,
        /// When.
        at: Timestamp,
    },
}

/// The settlement windows of a committed conversion's movements; absent of one that its commit settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LegWindows {
    /// Of the movement that was reserved.
    pub reserved: Option<WindowId>,
    /// Of the further one, on the payee's side.
    pub further: Option<WindowId>,
}

/// A movement of a conversion: the debtor owes the creditor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversionLeg {
    /// The account whose position rises.
    pub debtor: AccountId,
    /// The account whose position falls.
    pub creditor: AccountId,
    /// How much of what.
    pub money: Money,
}

impl Conversion {
    /// Whether it waits for its FXP or its determining transfer.
    pub const fn is_live(&self) -> bool {
        matches!(self.state, ConversionState::Reserved | ConversionState::Fulfilled)
    }

    /// The state that DFSPs see.
    pub const fn public_state(&self) -> PublicState {
        match self.state {
            ConversionState::Reserved | ConversionState::Fulfilled => PublicState::Reserved,
            ConversionState::Committed { .. } => PublicState::Committed,
            ConversionState::Aborted { .. } => PublicState::Aborted,
        }
    }

    /// When it reached its final state.
    pub const fn completed_at(&self) -> Option<Timestamp> {
        match self.state {
            ConversionState::Reserved | ConversionState::Fulfilled => None,
            ConversionState::Committed { at, .. } | ConversionState::Aborted { at, .. } => Some(at),
        }
    }

    /// Whether a participant is its initiator or its FXP.
    pub fn has_party(&self, participant: ParticipantId) -> bool {
        self.initiator == Some(participant) || self.fxp == Some(participant)
    }

    /// What a party is told when it asks. Hub-made messages about conversions carry no extensions but the cause.
    pub fn view(&self) -> TransferView {
        let cause = match &self.state {
            ConversionState::Aborted { cause, .. } => Some(cause.clone()),
            _ => None,
        };
        TransferView {
            state: self.public_state(),
            completed_at: self.completed_at(),
            fulfilment: self.fulfilment.filter(|_| cause.is_none()),
            extensions: None,
            cause,
        }
    }

    /// The movement that is reserved while it is live: of the initiator's source amount on the payer's side, of the
    /// FXP's target amount on the payee's. `None` when it was refused.
    pub fn reserved_leg(&self) -> Option<ConversionLeg> {
        self.legs().map(|(reserved, _)| reserved)
    }

    /// The reserved movement, and the further one of its commit. On the payer's side the FXP pays the target amount by
    /// the determining transfer; on the payee's side the payee passes on what that transfer brings.
    pub(crate) fn legs(&self) -> Option<(ConversionLeg, Option<ConversionLeg>)> {
        let accounts = self.accounts?;
        let sale = ConversionLeg {
            debtor: accounts.initiator_source,
            creditor: accounts.fxp_source,
            money: self.source,
        };
        Some(match (self.side, accounts.initiator_target) {
            (ConversionSide::Payee, Some(creditor)) => {
                let purchase = ConversionLeg { debtor: accounts.fxp_target, creditor, money: self.target };
                (purchase, Some(sale))
            }
            _ => (sale, None),
        })
    }

    /// The accounts whose balance its end may lower, with the amounts.
    pub(crate) fn pending_credits(&self) -> impl Iterator<Item = (AccountId, Amount)> {
        self.legs().into_iter().flat_map(|(reserved, further)| {
            let amount = reserved.money.amount;
            let further = further.map(|leg| (leg.creditor, leg.money.amount));
            [(reserved.debtor, amount), (reserved.creditor, amount)].into_iter().chain(further)
        })
    }
}

impl Stored for ConversionState {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::Reserved => encoder.u8(0),
            Self::Fulfilled => encoder.u8(1),
            Self::Committed { at, windows } => {
                encoder.u8(if windows.is_some() { 4 } else { 2 });
                encoder.timestamp(*at);
                windows.iter().for_each(|windows| windows.encode(encoder));
            }
            Self::Aborted { kind, cause, at } => {
                encoder.u8(3);
                kind.encode(encoder);
                cause.encode(encoder);
                encoder.timestamp(*at);
            }
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(match decoder.u8()? {
            0 => Self::Reserved,
            1 => Self::Fulfilled,
            2 => Self::Committed { at: decoder.timestamp()?, windows: None },
            4 => Self::Committed { at: decoder.timestamp()?, windows: Some(Stored::decode(decoder)?) },
            3 => Self::Aborted {
                kind: Stored::decode(decoder)?,
                cause: Stored::decode(decoder)?,
                at: decoder.timestamp()?,
            },
            _ => return Err(DecodeError("unknown state of conversion")),
        })
    }
}

stored_struct! {
    LegWindows { reserved, further }
}

impl Stored for ConversionId {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.transfer_id(self.id());
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        decoder.transfer_id().map(Self::new)
    }
}

impl Stored for Money {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.amount(self.amount);
        encoder.currency(self.currency);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(Self { amount: decoder.amount()?, currency: decoder.currency()? })
    }
}

/// Events carry conversions boxed, so that those of transfers stay small.
impl Stored for Box<Conversion> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        (**self).encode(encoder);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Conversion::decode(decoder).map(Self::new)
    }
}

stored_struct! {
    ConversionAccounts { initiator_source, initiator_target, fxp_source, fxp_target }
    ConversionAnswer { is_error, fingerprint }
    Conversion {
        id, determining_transfer, side, initiator, fxp, source, target, accounts, condition, expires_at, prepared_at,
        prepare_seq, prepare_fingerprint, fulfilment, answer, state,
    }
}

// The section of conversions in a snapshot.

stored_struct! {
    ConversionTotals { reserved, refused, committed, aborted, expired, committed_legs }
}

/// Totals, the live ones oldest first, the ended ones with the records that ended them.
pub(crate) fn write_conversions(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    ledger.conversions.totals().encode(encoder);
    encoder.list(ledger.conversions.live_by_age(), |encoder, item| {
        encoder.sized(|encoder| item.encode(encoder));
    });
    encoder.list(ledger.conversions.finished(), |encoder, (seq, item)| {
        encoder.u64(seq);
        encoder.sized(|encoder| item.encode(encoder));
    });
}

pub(crate) fn read_conversions(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.conversions.totals = Stored::decode(d)?;
    let live: Vec<Conversion> = d.list(|d| Conversion::decode(&mut d.sized()?))?;
    for conversion in live {
        restore(ledger, conversion.prepare_seq, conversion, true)?;
    }
    for (seq, conversion) in d.list(|d| Ok((d.u64()?, Conversion::decode(&mut d.sized()?)?)))? {
        restore(ledger, seq, conversion, false)?;
    }
    Ok(())
}

fn restore(ledger: &mut Ledger, seq: u64, conversion: Conversion, is_live: bool) -> Decoded<()> {
    if conversion.is_live() != is_live {
        return Err(DecodeError("a conversion is listed under another state"));
    }
    let is_known = ledger.conversion(conversion.id).is_some();
    let is_linked = conversion.determining_transfer.is_some_and(|transfer| {
        is_live && ledger.conversions.linked(transfer, conversion.side, conversion.initiator).is_some()
    });
    if is_known || is_linked {
        return Err(DecodeError("a conversion is listed twice"));
    }
    if is_live && !is_whole(&conversion) {
        return Err(DecodeError("a live conversion lacks a party, an account or its transfer"));
    }
    ledger.conversions.insert(seq, Box::new(conversion));
    Ok(())
}

fn is_whole(conversion: &Conversion) -> bool {
    let is_payees = conversion.side == ConversionSide::Payee;
    conversion.determining_transfer.is_some()
        && conversion.initiator.is_some()
        && conversion.fxp.is_some()
        && conversion.accounts.is_some_and(|accounts| accounts.initiator_target.is_some() == is_payees)
}

/// Whether all participants and accounts that conversions name are known.
pub(crate) fn are_references_known(
    ledger: &Ledger,
    is_participant: impl Fn(ParticipantId) -> bool,
    is_account: impl Fn(AccountId) -> bool,
) -> bool {
    let mut all =
        ledger.live_conversions().chain(ledger.finished_conversions().map(|(_, conversion)| conversion));
    let mut payers = ledger.ended_links().map(|(_, payer, _)| payer);
    payers.all(&is_participant)
        && all.all(|conversion| {
            let accounts = conversion.accounts.iter().flat_map(|accounts| {
                let all = [Some(accounts.initiator_source), accounts.initiator_target];
                all.into_iter().flatten().chain([accounts.fxp_source, accounts.fxp_target])
            });
            [conversion.initiator, conversion.fxp].into_iter().flatten().all(&is_participant)
                && accounts.into_iter().all(&is_account)
        })
}

// The invariants of conversions: what they reserve, count and refer to.

/// Takes what live conversions reserve from the sums per currency.
pub(crate) fn take_reserved(ledger: &Ledger, sums: &mut BTreeMap<Currency, i128>) {
    for leg in ledger.live_conversions().filter_map(Conversion::reserved_leg) {
        *sums.entry(leg.money.currency).or_default() -= i128::from(leg.money.amount.units());
    }
}

/// Adds what the ends of live conversions may yet credit, per account.
pub(crate) fn add_pending(ledger: &Ledger, pending: &mut BTreeMap<AccountId, i128>) {
    for (account, amount) in ledger.live_conversions().flat_map(Conversion::pending_credits) {
        *pending.entry(account).or_default() += i128::from(amount.units());
    }
}

/// Totals match the conversions in memory; none is left behind by its transfer: while one on the payee's side is live,
/// its transfer is reserved, and one on the payer's side is live only before its transfer ends.
pub(crate) fn check_conversions(ledger: &Ledger, findings: &mut Vec<String>) {
    let totals = ledger.conversion_totals();
    // Wide, because a snapshot may hold any counts.
    let ended = u128::from(totals.committed) + u128::from(totals.aborted);
    if u128::from(totals.reserved) != ended + ledger.live_conversions_len() as u128 {
        findings.push(format!(
            "{} conversions were reserved, but {ended} ended and {} are live",
            totals.reserved,
            ledger.live_conversions_len()
        ));
    }
    for conversion in ledger.live_conversions() {
        let transfer = conversion.determining_transfer.and_then(|id| ledger.transfer(id));
        let is_left_behind = match (conversion.side, transfer) {
            (ConversionSide::Payee, None) => true,
            (ConversionSide::Payee, Some(transfer)) => transfer.state != TransferState::Reserved,
            (ConversionSide::Payer, None) => false,
            // Refused before it reached this conversion: it was somebody else's prepare.
            (ConversionSide::Payer, Some(transfer)) => {
                transfer.payer == conversion.initiator
                    && transfer.payer_account.is_some()
                    && transfer.state != TransferState::Reserved
            }
        };
        if is_left_behind {
            findings.push(format!("conversion {} is live, but its transfer is not", conversion.id));
        }
    }
}

// What is printed of conversions.

impl Show for ConversionId {
    fn show(&self) -> Shown<'_> {
        Shown::Text(Cow::Owned(self.to_string()))
    }
}

impl Show for ConversionAnswer {
    fn show(&self) -> Shown<'_> {
        self.fingerprint.show()
    }
}

impl Show for Box<Conversion> {
    fn show(&self) -> Shown<'_> {
        (**self).show()
    }

    fn describe(&self, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        (**self).describe(names, f)
    }
}

impl Show for Conversion {
    fn show(&self) -> Shown<'_> {
        let mut fields = vec![
            ("commitRequestId", self.id.show()),
            ("determiningTransferId", self.determining_transfer.show()),
            ("side", Shown::Text(Cow::Borrowed(self.side.as_str()))),
            ("initiator", self.initiator.show()),
            ("fxp", self.fxp.show()),
            ("sourceAmount", self.source.amount.show()),
            ("sourceCurrency", self.source.currency.show()),
            ("targetAmount", self.target.amount.show()),
            ("targetCurrency", self.target.currency.show()),
            ("condition", self.condition.show()),
            ("expiration", self.expires_at.show()),
            ("state", Shown::Text(Cow::Borrowed(self.public_state().as_str()))),
        ];
        if let ConversionState::Aborted { kind, cause, .. } = &self.state {
            fields.extend([("kind", kind.show()), ("cause", cause.show())]);
        }
        Shown::Fields(fields)
    }

    fn describe(&self, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        let party =
            |id: Option<ParticipantId>| id.map_or_else(|| "?".to_string(), |id| names.participant(id));
        let (initiator, fxp) = (party(self.initiator), party(self.fxp));
        let (source, target) = (self.source, self.target);
        write!(
            f,
            "{} {initiator} → {fxp} {} {} for {} {} ",
            self.id, source.amount, source.currency, target.amount, target.currency
        )?;
        match &self.state {
            ConversionState::Reserved => write!(f, "RESERVED until {}", self.expires_at),
            ConversionState::Fulfilled => f.write_str("RESERVED and fulfilled"),
            ConversionState::Committed { .. } => f.write_str("COMMITTED"),
            ConversionState::Aborted { kind, cause, .. } => {
                write!(f, "{} {}", kind.as_str(), names.cause(cause))
            }
        }
    }
}
