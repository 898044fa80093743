//! Applies events to transfers and FX transfers: to their states, the books of their DFSPs, and their waiters.

use std::time::Instant;

use upesi_types::{ErrorCode, TransferId};

use crate::books::{Delivery, IncomingEvent, IncomingState, OutgoingEvent, OutgoingState};
use crate::counters::count;
use crate::shared::SimulatorState;
use crate::table::{Finished, TransferOutcome};

/// Applies an event to an outgoing transfer: to its state, its payer's book, and its waiter. Returns the meaning of the
/// message for the transfer; `None` if the transfer is unknown.
pub(crate) fn settle_outgoing(
    shared: &SimulatorState,
    id: &TransferId,
    event: OutgoingEvent,
    error_code: Option<ErrorCode>,
) -> Option<Delivery> {
    let (entry, (from, to, delivery), waiter, (is_fx_transfer, fx_transfer)) =
        shared.table.with_outgoing(id, |transfer| {
            let from = transfer.state;
            let (to, delivery) = from.after(event);
            transfer.state = to;
            let waiter = if to.is_final() { transfer.waiter.take() } else { None };
            if to.is_final() {
                // The waiter for the fulfilment is notified that none will come.
                transfer.fulfilled = None;
            }
            let fx_transfer =
                transfer.fx_transfer.filter(|_| to.is_final() && event != OutgoingEvent::Refused);
            let entry = (transfer.payer, transfer.moved, transfer.bought);
            (entry, (from, to, delivery), waiter, (transfer.is_fx_transfer, fx_transfer))
        })?;
    let (payer, moved, bought) = entry;
    if from != to {
        shared.dfsp(payer).book().move_outgoing(moved, bought, Some(from), to);
        if is_fx_transfer {
            compare_ends(shared, id);
        }
        if let Some(fx_transfer) = fx_transfer {
            settle_outgoing(shared, &fx_transfer, event, error_code);
        }
    }
    if let Some(waiter) = waiter {
        let outcome = if to == OutgoingState::Committed {
            TransferOutcome::Committed
        } else {
            TransferOutcome::Aborted
        };
        // The load generator may have stopped waiting; the books are updated regardless.
        let _ = waiter.send(Finished { outcome, at: Instant::now(), error_code });
    }
    Some(delivery)
}

/// Applies an event to an incoming transfer and its payee's book.
pub(crate) fn settle_incoming(
    shared: &SimulatorState,
    id: &TransferId,
    event: IncomingEvent,
) -> Option<Delivery> {
    let ((payee, received, sold), (from, to, delivery), sale) =
        shared.table.with_incoming(id, |transfer| {
            let from = transfer.state;
            let (to, delivery) = from.after(event);
            transfer.state = to;
            let moved = (transfer.payee, transfer.received, transfer.sold);
            (moved, (from, to, delivery), transfer.fx_transfer)
        })?;
    if from != to {
        shared.dfsp(payee).book().move_incoming(received, sold, Some(from), to);
        let ending = match to {
            IncomingState::Confirmed => Some(OutgoingEvent::Committed),
            IncomingState::Aborted => Some(OutgoingEvent::Aborted),
            _ => None,
        };
        if let Some((sale, ending)) = sale.zip(ending) {
            settle_outgoing(shared, &sale, ending, None);
        }
        if sold.is_some() {
            compare_ends(shared, id);
        }
    }
    Some(delivery)
}

/// Compares the ends of an FX transfer for its initiator and its FXP. If they differ, the hub has contradicted itself.
pub(crate) fn compare_ends(shared: &SimulatorState, id: &TransferId) {
    let bought = shared.table.with_outgoing(id, |fx_transfer| fx_transfer.state);
    let sold = shared.table.with_incoming(id, |fx_transfer| (fx_transfer.payee, fx_transfer.state));
    let (Some(bought), Some((fxp, sold))) = (bought, sold) else { return };
    if matches!(
        (bought, sold),
        (OutgoingState::Committed, IncomingState::Aborted)
            | (OutgoingState::Aborted, IncomingState::Confirmed)
    ) {
        let fxp = shared.dfsp(fxp);
        tracing::warn!(
            fx_transfer = %id, fxp = %fxp.name, ?bought, ?sold,
            "an FX transfer has another outcome than its transfer",
        );
        count(&fxp.counters.contradictions);
    }
}
