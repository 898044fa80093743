//! Callbacks to a DFSP about its transfers.

use std::time::Instant;

use bytes::Bytes;
use upesi_types::TransferId;

use crate::awaited::error_code;
use crate::books::{Delivery, IncomingEvent, OutgoingEvent};
use crate::condition::condition_of;
use crate::counters::count;
use crate::scan;
use crate::settling::{settle_incoming, settle_outgoing};
use crate::shared::SimulatorState;

/// Code of a message that leaves the outcome of a transfer open: a modified request was rejected, and the original
/// remains.
pub(crate) const MODIFIED_REQUEST: &[u8] = b"3106";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallbackMeaning {
    Committed,
    Aborted,
    NothingFinal,
}

fn saying(is_error: bool, body: &[u8]) -> CallbackMeaning {
    if is_error {
        return match scan::text_member(body, b"\"errorCode\"") {
            Some(MODIFIED_REQUEST) => CallbackMeaning::NothingFinal,
            _ => CallbackMeaning::Aborted,
        };
    }
    let state = scan::text_member(body, b"\"transferState\"");
    match state.or_else(|| scan::text_member(body, b"\"conversionState\"")) {
        Some(b"COMMITTED" | b"SETTLED") => CallbackMeaning::Committed,
        Some(b"ABORTED") => CallbackMeaning::Aborted,
        _ => CallbackMeaning::NothingFinal,
    }
}

/// The role of a DFSP in a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Payer,
    Payee,
}

/// Accepts a PUT, PUT error or PATCH. Returns the receiver's role in the transfer, if the receiver knows it.
pub(crate) fn take(
    shared: &SimulatorState,
    receiver: u32,
    id: &TransferId,
    is_error: bool,
    body: &Bytes,
) -> Option<Role> {
    let counters = &shared.dfsp(receiver).counters;
    let saying = saying(is_error, body);
    // In a simulator without a hub, the payer receives the payee's own PUT. So the role depends on the receiver.
    let outgoing = shared.table.with_outgoing(id, |transfer| (transfer.payer, transfer.condition.clone()));
    let pays = outgoing.as_ref().is_some_and(|(payer, _)| *payer == receiver);
    let is_paid = !pays && shared.table.with_incoming(id, |one| one.payee == receiver).unwrap_or(false);
    let role = match (pays, is_paid) {
        (true, _) => Role::Payer,
        (false, true) => Role::Payee,
        (false, false) => return None,
    };
    // The initiator of an FX transfer waits for its fulfilment; its outcome follows from a transfer.
    let waiting = match saying {
        CallbackMeaning::NothingFinal if pays && !is_error => {
            shared.table.with_outgoing(id, |fx_transfer| fx_transfer.fulfilled.take()).flatten()
        }
        _ => None,
    };
    if pays && (saying == CallbackMeaning::Committed || waiting.is_some()) {
        let fulfilment = scan::text_member(body, b"\"fulfilment\"");
        let right = match outgoing.and_then(|(_, condition)| condition) {
            None => fulfilment == Some(&shared.secret.fulfilment(id)[..]),
            Some(condition) => fulfilment.and_then(condition_of) == Some(*condition),
        };
        if !right {
            count(&counters.wrong_fulfilments_received);
        }
    }
    let settled = match (saying, pays) {
        (CallbackMeaning::NothingFinal, _) => {
            count(if waiting.is_some() { &counters.callbacks } else { &counters.callbacks_informative });
            // The load generator may have stopped waiting.
            let _ = waiting.map(|waiting| waiting.send(Instant::now()));
            return Some(role);
        }
        (CallbackMeaning::Committed, true) => settle_outgoing(shared, id, OutgoingEvent::Committed, None),
        (CallbackMeaning::Aborted, true) => {
            let code = if is_error { error_code(body) } else { None };
            settle_outgoing(shared, id, OutgoingEvent::Aborted, code)
        }
        (CallbackMeaning::Committed, false) => settle_incoming(shared, id, IncomingEvent::HubCommitted),
        (CallbackMeaning::Aborted, false) => settle_incoming(shared, id, IncomingEvent::HubAborted),
    };
    match settled {
        Some(Delivery::First) => count(&counters.callbacks),
        Some(Delivery::Repeated) => count(&counters.callbacks_repeated),
        Some(Delivery::Contradiction) => {
            tracing::warn!(transfer = %id, dfsp = %shared.dfsp(receiver).name, ?saying, "a callback contradicts");
            count(&counters.contradictions);
        }
        None => {}
    }
    Some(role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callback_is_read_by_path_and_body() {
        for (is_error, body, expected) in [
            (false, r#"{"transferState":"COMMITTED","fulfilment":"x"}"#, CallbackMeaning::Committed),
            (false, r#"{"transferState":"ABORTED"}"#, CallbackMeaning::Aborted),
            (false, r#"{"transferState":"RESERVED"}"#, CallbackMeaning::NothingFinal),
            (false, "", CallbackMeaning::NothingFinal),
            (
                true,
                r#"{"errorInformation":{"errorCode":"3303","errorDescription":"x"}}"#,
                CallbackMeaning::Aborted,
            ),
            (
                true,
                r#"{"errorInformation":{"errorCode":"3106","errorDescription":"x"}}"#,
                CallbackMeaning::NothingFinal,
            ),
            (true, "garbage", CallbackMeaning::Aborted),
        ] {
            assert_eq!(saying(is_error, body.as_bytes()), expected, "{body}");
        }
    }
}
