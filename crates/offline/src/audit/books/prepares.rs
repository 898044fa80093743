//! Checks whether a prepare was rightly reserved or rejected, by the auditor's own rule: from its request, if the
//! journal has it, and the auditor's books.

use upesi_delivery::rejection;
use upesi_ledger::{
    AbortKind, Aborted, CallbackContent, LedgerAccountTypeId, ParticipantId, Transfer, TransferState,
};
use upesi_types::Amount;

use super::Books;
use crate::audit::bodies::PrepareBody;
use crate::audit::entry::decimal;
use crate::audit::judge::RecordContext;
use crate::audit::request::Request;

/// Error codes (FSPIOP API v1.1 §7.6), and Mojaloop's for a lack of cover.
const VALIDATION: u16 = 3100;
const LIQUIDITY: u16 = 4001;
const LIMIT: u16 = 4200;
const SETTLEMENT: u16 = 6000;

impl Books {
    /// The reason why a rejected prepare should not have been rejected, if there is one.
    pub(super) fn judge_refusal(&self, place: RecordContext<'_>, request: &Request<'_>) -> Vec<String> {
        let transfer = request.transfer;
        let mut findings = Vec::new();
        let mut find = |text: String| {
            findings.push(format!("record {}: transfer {} {text}", place.seq, transfer.id));
        };
        let TransferState::Aborted(end) = &transfer.state else {
            find("is committed without having been reserved".to_owned());
            return findings;
        };
        let Aborted { kind, cause, .. } = &**end;
        let code = rejection::cause(cause).0;
        let is_right = match (kind, code.number()) {
            (AbortKind::Invalid, VALIDATION) => self.is_invalid(place, request),
            (AbortKind::Rejected, LIQUIDITY) => self.room(transfer).is_some_and(|room| room.over_cover()),
            (AbortKind::Rejected, LIMIT) => {
                self.room(transfer).is_some_and(|room| room.over_cap() && !room.over_cover())
            }
            (AbortKind::Rejected, SETTLEMENT) => self.scheme.settlement_type(transfer.currency).is_none(),
            _ => false,
        };
        if !is_right {
            find(format!("is rejected as {} with {code} without a reason", kind.as_str()));
        }
        if let Some(sender) = request.source.and_then(|name| self.scheme.participant_named(name)) {
            let callbacks =
                place.about(transfer.id, sender, |content| matches!(content, CallbackContent::Error(..)));
            if callbacks != 1 {
                find(format!("is rejected, but its sender is notified {callbacks} times, not once"));
            }
        }
        findings
    }

    /// Whether a prepare violates a rule. For a request without a body, the record has the readable parts.
    fn is_invalid(&self, place: RecordContext<'_>, request: &Request<'_>) -> bool {
        let transfer = request.transfer;
        let Some(source) = request.source else { return true };
        let body = request.body.as_ref();
        let said = |from: fn(&PrepareBody) -> &Option<String>, id: Option<ParticipantId>| match body {
            Some(body) => from(body).clone(),
            None => id.and_then(|id| self.scheme.name_of(id)),
        };
        let payer = said(|body| &body.payer, transfer.payer);
        let payee = said(|body| &body.payee, transfer.payee);
        let units = body.map_or(Some(request.units()), |body| body.units);
        let has_condition = body.map_or(transfer.condition != [0; 32], |body| body.condition.is_some());
        let broken = [
            payer.as_deref() != Some(source),
            request.destination.is_some_and(|name| payee.as_deref() != Some(name)),
            units.is_none_or(|units| units <= 0 || units > i128::from(Amount::MAX.units())),
            !has_condition,
            transfer.expires_at < place.time,
            // The maximum is a setting, which the journal does not contain.
            transfer.expires_at > place.time.plus_ms(SHORTEST_VALIDITY_MS),
            same_name(payer.as_deref(), payee.as_deref()),
            transfer
                .payer
                .zip(transfer.payee)
                .is_some_and(|(payer, payee)| self.scheme.liable(payer) == self.scheme.liable(payee)),
            transfer.payer.is_none_or(|payer| !self.scheme.is_active(payer)),
            self.is_unable(self.fx_transfers.debtor(transfer), transfer),
            self.is_unable(transfer.payee, transfer),
            self.fx_transfers.forbids(transfer, place.time),
            self.fx_transfers.was_abandoned(transfer),
        ];
        broken.contains(&true) || self.leaves_the_range(transfer)
    }

    /// The reason why a participant cannot take part in a transfer: it is missing or inactive, or has no active
    /// account.
    fn is_unable(&self, party: Option<ParticipantId>, transfer: &Transfer) -> bool {
        party.is_none_or(|party| {
            !self.scheme.is_active(party)
                || !self
                    .scheme
                    .account_of(party, transfer.currency, LedgerAccountTypeId::POSITION)
                    .is_some_and(|account| account.is_active)
        })
    }

    /// Whether amounts could exceed their range, however the transfers in flight end.
    fn leaves_the_range(&self, transfer: &Transfer) -> bool {
        let of = |party: Option<ParticipantId>| {
            let account = party.and_then(|party| {
                self.scheme.account_of(party, transfer.currency, LedgerAccountTypeId::POSITION)
            });
            account.map_or(0, |account| account.units.abs())
        };
        let sum = of(transfer.payer) + of(transfer.payee) + self.units_in_flight();
        sum + 2 * i128::from(transfer.amount.units()) > i128::from(Amount::MAX.units())
    }

    /// A payer's position with the transfer, and its limits; `None` without position or governing model.
    fn room(&self, transfer: &Transfer) -> Option<PositionLimits> {
        let (payer, currency) = (self.fx_transfers.debtor(transfer)?, transfer.currency);
        let kind = self.scheme.settlement_type(currency)?;
        let position = self.scheme.account_of(payer, currency, LedgerAccountTypeId::POSITION)?.units;
        Some(PositionLimits {
            position: position + i128::from(transfer.amount.units()),
            cover: self.scheme.account_of(payer, currency, kind).map_or(0, |account| -account.units),
            cap: self.scheme.cap(payer, currency),
        })
    }

    /// Checks that a prepare exceeds neither cover nor cap; reaching either exactly is allowed. The participant must be
    /// active, with active accounts. The books already include the amount.
    pub(super) fn judge_reservation(&self, place: RecordContext<'_>, request: &Request<'_>) -> Vec<String> {
        let transfer = request.transfer;
        let mut findings = Vec::new();
        let mut find = |text: String| {
            findings.push(format!("record {}: transfer {} {text}", place.seq, transfer.id));
        };
        let room =
            self.room(transfer).unwrap_or(PositionLimits { position: request.units(), cover: 0, cap: 0 });
        let room = PositionLimits { position: room.position - request.units(), ..room };
        let position = decimal(room.position);
        if room.over_cover() {
            find(format!("took the payer's position to {position} over its cover {}", decimal(room.cover)));
        } else if room.over_cap() {
            find(format!("took the payer's position to {position} over its cap {}", decimal(room.cap)));
        }
        for (role, party, account) in [
            ("payer", self.fx_transfers.debtor(transfer), transfer.payer_account),
            ("payee", transfer.payee, transfer.payee_account),
        ] {
            let own = party.and_then(|party| {
                self.scheme.account_id_of(party, transfer.currency, LedgerAccountTypeId::POSITION)
            });
            if own != account {
                find(format!("is reserved on an account that is not its {role}'s position"));
            } else if self.is_unable(party, transfer) {
                find(format!("is reserved although its {role} is not active"));
            }
        }
        if self.fx_transfers.forbids(transfer, place.time) {
            find("is reserved although its payer's FX transfer does not permit it".to_owned());
        }
        if transfer.expires_at < place.time {
            find(format!("is reserved although it expired at {}", transfer.expires_at));
        }
        if request
            .source
            .zip(request.body.as_ref())
            .is_some_and(|(source, body)| body.payer.as_deref() != Some(source))
        {
            find("is reserved although its sender is not its payer".to_owned());
        }
        findings
    }
}

/// A payer's position with a transfer, and its limits, in ten-thousandths.
struct PositionLimits {
    position: i128,
    cover: i128,
    cap: i128,
}

impl PositionLimits {
    fn over_cover(&self) -> bool {
        self.position > self.cover
    }

    fn over_cap(&self) -> bool {
        self.position > self.cap
    }
}

/// The smallest value of the setting for the longest validity of a prepare.
const SHORTEST_VALIDITY_MS: i64 = 60_000;

fn same_name(one: Option<&str>, other: Option<&str>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one.eq_ignore_ascii_case(other))
}
