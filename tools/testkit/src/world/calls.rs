//! Requests of DFSPs on their way to the hub, and the answers, over a faulty network.

use std::sync::Arc;

use serde_json::Value;
use upesi_delivery::lanes::{CallbackKey, Done, Refusal, Repetition};
use upesi_fspiop::SyncError;
use upesi_types::TransferId;

use super::World;
use super::event::Event;
use crate::auditor::{ObservedRequest, PartyKnowledge};
use crate::message::Request;

/// Time that a DFSP waits for an answer.
const CALL_PATIENCE_US: u64 = 1_000_000;
const LATENCY_LEAST_US: u64 = 100;
const LATENCY_MOST_US: u64 = 2_000;
/// Maximum delay of a message in transit.
const DELAY_MOST_US: u64 = 3_000_000;

/// A request whose sender waits for an answer.
#[derive(Debug)]
pub(super) struct Call {
    from: usize,
    request: Arc<Request>,
    seen: ObservedRequest,
    attempt: u32,
    attempts_max: u32,
    is_done: bool,
    /// Whether the journal waited for the request when it arrived first.
    was_awaited: Option<bool>,
}

impl Call {
    /// The sender, the request and the number of attempts, as text.
    pub(super) fn describe(&self) -> String {
        let Self { from, request, attempt, attempts_max, .. } = self;
        let (method, path) = (&request.method, &request.path);
        format!("dfsp{from} {method} {path}, attempt {attempt} of {attempts_max}")
    }
}

impl World {
    /// A DFSP sends a request, and repeats it if the hub does not answer.
    pub(super) fn send(
        &mut self,
        from: usize,
        request: Arc<Request>,
        seen: ObservedRequest,
        attempts_max: u32,
    ) {
        self.auditor.outside.sent(from, &seen, &request);
        self.history.push((self.life, from, Arc::clone(&request), seen.clone()));
        self.send_again(from, request, seen, attempts_max);
    }

    pub(super) fn send_again(
        &mut self,
        from: usize,
        request: Arc<Request>,
        seen: ObservedRequest,
        attempts_max: u32,
    ) {
        let number = self.next_call;
        self.next_call += 1;
        self.say(format_args!("dfsp{from} sends {number}: {} {} {seen:?}", request.method, request.path));
        let call = Call { from, request, seen, attempt: 0, attempts_max, is_done: false, was_awaited: None };
        self.calls.insert(number, call);
        self.attempt(number);
    }

    fn attempt(&mut self, number: u64) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        call.attempt += 1;
        let attempt = call.attempt;
        self.travel(|| Event::Arrive { call: number });
        self.after(CALL_PATIENCE_US, Event::CallTimeout { call: number, attempt });
    }

    /// Transports a message: once, twice or not at all, with a random delay.
    fn travel(&mut self, event: impl Fn() -> Event) {
        let is_troubled = self.plan.faults.network && self.is_troubled();
        if is_troubled && self.random.one_in(20) {
            self.counts.messages_lost += 1;
            return self.note_fault();
        }
        let copies = if is_troubled && self.random.one_in(20) { 2 } else { 1 };
        if copies > 1 {
            self.counts.messages_doubled += 1;
            self.note_fault();
        }
        for _ in 0..copies {
            let latency = if is_troubled && self.random.one_in(15) {
                self.counts.messages_delayed += 1;
                self.note_fault();
                self.between(LATENCY_MOST_US, DELAY_MOST_US)
            } else {
                self.between(LATENCY_LEAST_US, LATENCY_MOST_US)
            };
            self.after(latency, event());
        }
    }

    /// A request reaches the hub, if the hub runs.
    pub(super) fn arrive(&mut self, number: u64) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let (request, seen) = (Arc::clone(&call.request), call.seen.clone());
        call.was_awaited.get_or_insert_with(|| self.auditor.awaits(&seen).is_some());
        self.counts.requests += 1;
        let Some(hub) = &mut self.hub else {
            // The machine refuses the connection, or loses the request.
            return self.travel(|| Event::Answered { call: number, status: None });
        };
        let received = hub.receive(number, &request);
        let is_early = hub.answers_early();
        match received {
            Err(error) => self.answer(number, &seen, Err(error)),
            Ok(()) if is_early => self.answer(number, &seen, Ok(())),
            Ok(()) => {}
        }
        self.after_hub(true);
    }

    /// An answer leaves the hub.
    pub(super) fn leave(&mut self, number: u64, outcome: Result<(), SyncError>) {
        let Some(call) = self.calls.get(&number) else { return };
        let seen = call.seen.clone();
        self.answer(number, &seen, outcome);
    }

    fn answer(&mut self, number: u64, seen: &ObservedRequest, outcome: Result<(), SyncError>) {
        let status = match outcome {
            Ok(()) => {
                self.counts.acknowledged += 1;
                let was_awaited = self.calls.get(&number).and_then(|call| call.was_awaited);
                self.auditor.acknowledged(seen, was_awaited == Some(true));
                202
            }
            Err(error) => {
                self.counts.refused += 1;
                error.status
            }
        };
        self.say(format_args!("hub answers {number}: {status}"));
        self.travel(|| Event::Answered { call: number, status: Some(status) });
    }

    /// An answer reaches the DFSP. A success or a rejection ends the call. If the hub is temporarily unable to answer,
    /// the DFSP sends the request again.
    pub(super) fn answered(&mut self, number: u64, status: Option<u16>) {
        if let (Some(call), Some(status)) = (self.calls.get_mut(&number), status) {
            call.is_done |= status < 500;
        }
    }

    pub(super) fn call_timed_out(&mut self, number: u64, attempt: u32) {
        let Some(call) = self.calls.get(&number) else { return };
        if call.attempt != attempt {
            return;
        }
        if call.is_done || call.attempt >= call.attempts_max {
            self.calls.remove(&number);
            return;
        }
        let from = call.from;
        self.say(format_args!("dfsp{from} repeats {number}"));
        self.attempt(number);
    }
}

/// Minimum time that a slow DFSP takes to answer.
const SLOW_LEAST_US: u64 = 400_000;
const SLOW_MOST_US: u64 = 2_500_000;
/// Error codes that mean that a transfer has ended: expired, rejected for lack of cover, or rejected by the cap.
const FINAL_CODES: [&str; 3] = ["3303", "4001", "4200"];
const NOT_FOUND_CODE: &str = "3208";

impl World {
    pub(super) fn callback_leaves(&mut self, sending: u64, key: CallbackKey, request: Request) {
        self.counts.callbacks += 1;
        let to = self.recipient(&request);
        self.say(format_args!("hub calls {to:?} {sending}: {key:?} {} {}", request.method, request.path));
        if let Some(to) = to {
            let nodes = self.followers() + 1;
            self.auditor.callback_left(key, to, &request, nodes);
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

    /// A former leader sends a callback, and will not receive the answer.
    pub(super) fn former_calls(&mut self, key: CallbackKey, request: &Request) {
        self.say(format_args!("a former leader calls: {key:?} {} {}", request.method, request.path));
        self.auditor.former_calls(key, request);
        self.travel(|| Event::Callback {
            life: u64::MAX,
            number: 0,
            key,
            request: Box::new(request.clone()),
        });
    }

    /// A callback reaches a DFSP, which accepts it, fails, or is down.
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
                retry_after: None,
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

    /// Handles a callback at a DFSP.
    fn take_callback(&mut self, to: usize, request: &Request) {
        let body = body_of(request);
        let mut parts = request.path.split('/').skip(1);
        let family = parts.next();
        if family == Some("bulkTransfers") {
            let id = parts.next().and_then(TransferId::parse);
            return self.take_bulk(to, id, parts.next() == Some("error"), request, &body);
        }
        let is_fx_transfer = family == Some("fxTransfers");
        let Some(id) = parts.next() else {
            if is_fx_transfer {
                let seen = upesi_fspiop::fingerprint(&request.body);
                return self.take_fx_transfer(to, &body, seen);
            }
            return transfer_of(request).into_iter().for_each(|id| self.take_prepare(to, id, request));
        };
        let Some(id) = TransferId::parse(id) else { return };
        let is_error = parts.next() == Some("error");
        let code = body["errorInformation"]["errorCode"].as_str().unwrap_or_default();
        let state = if is_fx_transfer { &body["conversionState"] } else { &body["transferState"] };
        let state = state.as_str().unwrap_or_default();
        if is_fx_transfer && state == "RESERVED" {
            self.take_fulfilment(to, id);
        }
        self.auditor.outside.told(id, to, |told: &mut PartyKnowledge| match (is_error, state) {
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

fn transfer_of(request: &Request) -> Option<TransferId> {
    body_of(request)["transferId"].as_str().and_then(TransferId::parse)
}

/// The first transfer of the bulk transfer that a payee receives.
fn first_item_of(request: &Request) -> Option<TransferId> {
    body_of(request)["individualTransfers"][0]["transferId"].as_str().and_then(TransferId::parse)
}
