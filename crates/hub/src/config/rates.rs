//! Rates of single DFSPs.

use std::collections::HashMap;

use upesi_gateway::RateLimits;
use upesi_types::FspId;

/// Reads rates such as `greenbank lookups=50 misses=5; bluebank registrations=0`; what is not named is that of all.
/// The names are in lower case.
///
/// # Errors
/// What is wrong.
pub(crate) fn rate_exceptions(text: &str, of_all: RateLimits) -> Result<HashMap<String, RateLimits>, String> {
    let mut exceptions = HashMap::new();
    for item in text.split(';').map(str::trim).filter(|item| !item.is_empty()) {
        let Some((name, limits)) = exception(item, of_all) else {
            return Err(format!(
                "{item:?}: give a participant and its rates, such as greenbank lookups=50 misses=5"
            ));
        };
        if exceptions.insert(name, limits).is_some() {
            return Err(format!("{item:?}: this participant is there twice"));
        }
    }
    Ok(exceptions)
}

fn exception(item: &str, of_all: RateLimits) -> Option<(String, RateLimits)> {
    let (name, rates) = item.split_once(char::is_whitespace)?;
    let (name, mut limits) = (FspId::parse(name)?, of_all);
    for word in rates.split_whitespace() {
        let (rate, value) = word.split_once('=')?;
        let value = value.parse().ok()?;
        match rate {
            "lookups" => limits.lookups = value,
            "misses" => limits.misses = value,
            "registrations" => limits.registrations = value,
            "signature_faults" => limits.signature_faults = value,
            _ => return None,
        }
    }
    Some((name.as_str().to_ascii_lowercase(), limits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_is_as_for_all() {
        let of_all = RateLimits { lookups: 1, misses: 2, registrations: 3, signature_faults: 4 };
        let read = rate_exceptions(" GreenBank lookups=50 misses=0 ; blue registrations=7;", of_all).unwrap();
        assert_eq!(read["greenbank"], RateLimits { lookups: 50, misses: 0, ..of_all });
        assert_eq!(read["blue"], RateLimits { registrations: 7, ..of_all });
        assert_eq!(read.len(), 2);
        for wrong in
            ["greenbank lookups", "greenbank lookups=x", "greenbank lookups=-1", "a b=1", "greenbank"]
        {
            assert!(rate_exceptions(wrong, of_all).is_err(), "{wrong}");
        }
    }
}
