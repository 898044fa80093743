//! Settings that contradict each other although each is right by itself.

use std::collections::BTreeMap;

use super::origin::{Mistake, Origin};
use super::setting::Value;

/// The understood values with where they came from; settings with a mistake are missing.
pub(super) type Understood = BTreeMap<&'static str, (Value, Origin)>;

/// Pairs of which the first must not exceed the second once that is multiplied by the factor (which makes the units
/// equal).
const NOT_ABOVE: &[(&str, &str, u64)] = &[
    ("callbacks.backoff_min_ms", "callbacks.backoff_max_ms", 1),
    ("callbacks.breaker_pause_min_ms", "callbacks.breaker_pause_max_ms", 1),
    ("callbacks.request_timeout_ms", "callbacks.deadline_s", 1000),
    ("callbacks.connect_timeout_ms", "callbacks.request_timeout_ms", 1),
    ("callbacks.concurrency_max", "callbacks.queue_max", 1),
    ("callbacks.retrying_max", "callbacks.queue_max", 1),
    ("engine.batch_commands_max", "engine.queue_commands_max", 1),
    ("engine.batch_bytes_max", "data.segment_bytes", 1),
    // One largest message must fit.
    ("fspiop.transfer_body_bytes_max", "callbacks.queue_bytes_max", 1),
    ("fspiop.body_bytes_max", "fspiop.sender_bodies_bytes_max", 1),
    ("fspiop.sender_bodies_bytes_max", "fspiop.large_bodies_bytes_max", 1),
    ("fspiop.body_bytes_max", "relay.waiting_bytes_max", 1),
    ("relay.waiting_bytes_max", "relay.sender_bytes_max", 1),
    ("relay.sender_bytes_max", "relay.bytes_max", 1),
    ("oracles.deadline_ms", "lookup.deadline_ms", 1),
    ("oracles.connect_timeout_ms", "oracles.deadline_ms", 1),
    ("oracles.breaker_pause_min_ms", "oracles.breaker_pause_max_ms", 1),
];

/// Finds every contradiction.
pub(super) fn contradictions(values: &Understood) -> Vec<Mistake> {
    let mut mistakes: Vec<Mistake> =
        NOT_ABOVE.iter().filter_map(|(low, high, factor)| not_above(values, low, high, *factor)).collect();
    mistakes.extend(same_port(values));
    mistakes.extend(default_version(values));
    mistakes.extend(log_level(values));
    mistakes.extend(quote_rules(values));
    mistakes
}

/// Names the mistake where somebody wrote something: a default is not at fault.
fn not_above(values: &Understood, low: &str, high: &str, factor: u64) -> Option<Mistake> {
    let (Value::Integer(lower), low_origin) = values.get(low)? else { return None };
    let (Value::Integer(upper), high_origin) = values.get(high)? else { return None };
    if *lower <= upper.saturating_mul(factor) {
        return None;
    }
    Some(if *low_origin == Origin::Default {
        let text = format!("{high} = {upper} is too low for {low} = {lower} ({low_origin})");
        Mistake { origin: high_origin.clone(), text }
    } else {
        let text = format!("{low} = {lower} is too high for {high} = {upper} ({high_origin})");
        Mistake { origin: low_origin.clone(), text }
    })
}

fn same_port(values: &Understood) -> Option<Mistake> {
    let (Value::Address(fspiop), fspiop_origin) = values.get("fspiop.listen")? else { return None };
    let (Value::Address(admin), admin_origin) = values.get("admin.listen")? else { return None };
    let overlap = fspiop.ip() == admin.ip() || fspiop.ip().is_unspecified() || admin.ip().is_unspecified();
    if fspiop.port() != admin.port() || fspiop.port() == 0 || !overlap {
        return None;
    }
    let origin = if *admin_origin == Origin::Default { fspiop_origin } else { admin_origin };
    let text = format!("fspiop.listen = {fspiop} and admin.listen = {admin} need different ports");
    Some(Mistake { origin: origin.clone(), text })
}

fn default_version(values: &Understood) -> Option<Mistake> {
    let (Value::Versions(accepted), accepted_origin) = values.get("fspiop.versions_accepted")? else {
        return None;
    };
    let (Value::Version(version), origin) = values.get("fspiop.version_default")? else { return None };
    if accepted.contains(version) {
        return None;
    }
    let origin = if *origin == Origin::Default { accepted_origin } else { origin };
    let text = format!("fspiop.version_default = {version} is not among fspiop.versions_accepted");
    Some(Mistake { origin: origin.clone(), text })
}

fn log_level(values: &Understood) -> Option<Mistake> {
    let (Value::Text(directives), origin) = values.get("log.level")? else { return None };
    let error = crate::logging::check(directives).err()?;
    Some(Mistake { origin: origin.clone(), text: format!("log.level: {error}") })
}

fn quote_rules(values: &Understood) -> Option<Mistake> {
    let (Value::Text(file), origin) = values.get("quotes.rules_file")? else { return None };
    let error = super::quote_rules(file).err()?;
    Some(Mistake { origin: origin.clone(), text: format!("quotes.rules_file = {file}: {error}") })
}
