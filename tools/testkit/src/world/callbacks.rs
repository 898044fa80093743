//! Callbacks on their way to DFSPs and back.

use serde_json::Value;
use upesi_delivery::lanes::{CallbackKey, Done, Refusal, Repetition};
use upesi_types::TransferId;

use super::World;
use super::event::Event;
use crate::auditor::Told;
use crate::message::Request;

/// How long a slow DFSP takes to answer.
const SLOW_LEAST_US: u64 = 400_000;
const SLOW_MOST_US: u64 = 2_500_000;
/// Error codes that say that a transfer has ended: expired, refused for want of cover or by the cap.
const FINAL_CODES: [&str; 3] = ["3303", "4001", "4200"];
const NOT_FOUND_CODE: &str = "3208";

impl World {
    /// A callback leaves the hub.
    pub(super) fn callback_leaves(&mut self, sending: u64, key: CallbackKey, request: Request) {
        self.counts.callbacks += 1;
        let to = self.recipient(&request);
        self.say(format_args!("hub calls {to:?} {sending}: {key:?} {} {}", request.method, request.path));
        if let Some(to) = to {
            self.auditor.callback_left(key, to, &request);
        }
        if request.method == http::Method::POST
            && let Some(id) = transfer_of(&request).or_else(|| first_item_of(&request))
        {
            self.ambush_in_flight(id);
        }
        let life = self.life;
        let timeout = self.tuning.courier.request_timeout.as_micros() as u64;
        let unanswered = Done::Unreachable("no answer".to_owned());
        self.after(timeout, Event::CallbackAnswered { life, number: sending, done: unanswered });
        self.travel(|| Event::Callback { life, number: sending, key, request: Box::new(request.clone()) });
    }

    /// A callback reaches a DFSP, which takes it, fails, or is not there.
    pub(super) fn callback(&mut self, life: u64, sending: u64, key: CallbackKey, request: &Request) {
        let Some(to) = self.recipient(request).filter(|to| *to < self.dfsps.len()) else { return };
        let condition = self.dfsps[to].condition(self.now_us);
        if condition.is_dead {
            return;
        }
        let mut latency = self.between(100, 2_000);
        let done = if condition.is_failing {
            Done::Refused(Refusal {
                reason: "answered 503".to_owned(),
                repetition: Repetition::UntilDeadline,
            })
        } else {
            if condition.is_slow {
                latency = self.between(SLOW_LEAST_US, SLOW_MOST_US);
            }
            self.auditor.outside.callback_taken(key);
            self.counts.callbacks_taken += 1;
            self.take_callback(to, request);
            Done::Delivered
        };
        self.say(format_args!("dfsp{to} answers {sending}: {done:?}"));
        if self.plan.faults.network && self.is_troubled() && self.random.one_in(20) {
            self.counts.callback_answers_lost += 1;
            return self.note_fault();
        }
        self.after(latency, Event::CallbackAnswered { life, number: sending, done });
    }

    /// What a DFSP makes of a callback.
    fn take_callback(&mut self, to: usize, request: &Request) {
        let body = body_of(request);
        let mut parts = request.path.split('/').skip(1);
        let family = parts.next();
        if family == Some("bulkTransfers") {
            let id = parts.next().and_then(TransferId::parse);
            return self.take_bulk(to, (id, parts.next() == Some("error")), request, &body);
        }
        let is_conversion = family == Some("fxTransfers");
        let Some(id) = parts.next() else {
            if is_conversion {
                let seen = upesi_fspiop::fingerprint(&request.body);
                return self.take_conversion(to, &body, seen);
            }
            return transfer_of(request).into_iter().for_each(|id| self.take_prepare(to, id, request));
        };
        let Some(id) = TransferId::parse(id) else { return };
        let is_error = parts.next() == Some("error");
        let code = body["errorInformation"]["errorCode"].as_str().unwrap_or_default();
        let state = if is_conversion { &body["conversionState"] } else { &body["transferState"] };
        let state = state.as_str().unwrap_or_default();
        if is_conversion && state == "RESERVED" {
            self.take_fulfilment(to, id);
        }
        self.auditor.outside.told(id, to, |told: &mut Told| match (is_error, state) {
            (true, _) if code == NOT_FOUND_CODE => told.unknown = true,
            (true, _) => told.aborted |= FINAL_CODES.contains(&code),
            (false, "COMMITTED") => (told.committed, told.is_final) = (true, true),
            (false, "ABORTED") => (told.aborted, told.is_final) = (true, true),
            (false, _) => {}
        });
    }

    fn take_prepare(&mut self, to: usize, id: TransferId, request: &Request) {
        self.auditor.outside.forwarded(id, to, request, &mut self.auditor.findings);
        self.answer_prepare(to, id);
    }

    /// The answer of a DFSP reaches the hub, or the hub has waited long enough.
    pub(super) fn callback_answered(&mut self, sending: u64, done: Done) {
        let now_us = self.now_us;
        let Some(hub) = &mut self.hub else { return };
        if hub.answered(sending, done, now_us) {
            self.after_hub(true);
        }
    }
}

fn body_of(request: &Request) -> Value {
    serde_json::from_slice(&request.body).unwrap_or_default()
}

/// The transfer that a prepare is for.
fn transfer_of(request: &Request) -> Option<TransferId> {
    body_of(request)["transferId"].as_str().and_then(TransferId::parse)
}

/// The first transfer of the bulk that a payee is asked for.
fn first_item_of(request: &Request) -> Option<TransferId> {
    body_of(request)["individualTransfers"][0]["transferId"].as_str().and_then(TransferId::parse)
}
