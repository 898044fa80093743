//! The load of all generators together.

use serde_json::{Map, Value};

/// What adds up over generators.
const SUMMED: [&str; 6] = ["users", "start", "start_per_s", "level", "rate_per_s", "outstanding_max"];

/// Two loads as one; `None` where they do not have the same shape: one open and one closed, or stages of other lengths.
pub(super) fn sum(one: &Value, other: &Value) -> Option<Value> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let same_members = one.len() == other.len();
            let member = |(name, value): (&String, &Value)| {
                let there = other.get(name)?;
                let value = if SUMMED.contains(&name.as_str()) {
                    value.as_u64()?.checked_add(there.as_u64()?)?.into()
                } else {
                    sum(value, there)?
                };
                Some((name.clone(), value))
            };
            let members = one.iter().map(member).collect::<Option<Map<_, _>>>()?;
            same_members.then_some(Value::Object(members))
        }
        (Value::Array(one), Value::Array(other)) => {
            let items = one.iter().zip(other).map(|(one, other)| sum(one, other));
            (one.len() == other.len()).then(|| items.collect::<Option<Vec<_>>>())?.map(Value::Array)
        }
        _ => (one == other).then(|| one.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use std::time::Duration;

    use super::*;
    use crate::plan::load_profile::{Load, Stage};

    fn value(load: &Load) -> Value {
        serde_json::to_value(load).unwrap()
    }

    fn ramping(start: u32, level: u32, seconds: u64) -> Value {
        let stages = vec![Stage { level, length: Duration::from_secs(seconds) }];
        value(&Load::RampingUsers { start, stages })
    }

    fn arrivals(rate: u32, poisson: bool) -> Value {
        value(&Load::Arrivals { start_per_s: rate, stages: Vec::new(), poisson, outstanding_max: 10 })
    }

    #[test]
    fn users_and_rates_add_up_where_the_shape_is_the_same() {
        let closed = |users| value(&Load::Closed { users });
        let open = |rate_per_s| value(&Load::Open { rate_per_s, outstanding_max: 100 });
        assert_eq!(sum(&closed(2), &closed(3)), Some(closed(5)));
        let both = json!({ "open": { "rate_per_s": 30, "outstanding_max": 200 } });
        assert_eq!(sum(&open(10), &open(20)), Some(both));
        assert_eq!(sum(&ramping(1, 5, 9), &ramping(2, 6, 9)), Some(ramping(3, 11, 9)));
        let random = sum(&arrivals(1, true), &arrivals(2, true)).unwrap();
        assert_eq!(random["arrivals"]["start_per_s"], 3);
        for (one, other) in [
            (closed(2), open(2)),
            (ramping(1, 5, 9), ramping(1, 5, 8)),
            (ramping(1, 5, 9), closed(1)),
            (arrivals(1, true), arrivals(1, false)),
        ] {
            assert_eq!(sum(&one, &other), None, "{one} {other}");
        }
    }
}
