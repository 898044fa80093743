//! Journal records as text, one line each.

use std::fmt::{self, Display, Formatter};

use upesi_delivery::rejection;
use upesi_ledger::{Callback, CallbackContent, Event, Record};

use crate::names::Names;

/// A record as one line: sequence, time, actor, changes, receivers of callbacks, size of the request.
pub fn describe(seq: u64, time: &str, record: &Record<'_>, names: &Names) -> String {
    let mut parts: Vec<String> =
        record.events.iter().map(|event| EventText(event, names).to_string()).collect();
    parts.extend(record.callbacks.iter().map(|callback| describe_callback(callback, names)));
    if parts.is_empty() {
        parts.push("nothing".to_owned());
    }
    let bytes = record.payload.headers.len() + record.payload.body.len();
    let payload = if bytes == 0 { String::new() } else { format!(" ({bytes} bytes)") };
    format!("{seq:>8}  {time}  {}: {}{payload}", record.actor, parts.join("; "))
}

struct EventText<'a>(&'a Event, &'a Names);

impl Display for EventText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.describe(self.1, f)
    }
}

fn describe_callback(callback: &Callback, names: &Names) -> String {
    let target = names.participant(callback.target);
    let what = match &callback.content {
        CallbackContent::ForwardPrepare | CallbackContent::ForwardFulfil | CallbackContent::ForwardAbort => {
            "forwarded".to_owned()
        }
        CallbackContent::ConfirmFulfil | CallbackContent::ConfirmAbort => "confirmed".to_owned(),
        CallbackContent::State(_, view) => view.state.as_str().to_owned(),
        CallbackContent::BulkRequest(request) => format!("a bulk of {} items", request.items.len()),
        CallbackContent::BulkState(view) => {
            format!("{} with {} items", view.state.as_str(), view.items.len())
        }
        CallbackContent::Error(cause) => format!("error {}", rejection::cause(cause).0),
    };
    format!("notify {target} {} {what}", callback.content.method())
}
