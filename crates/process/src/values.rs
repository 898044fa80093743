//! Parsers for the values of flags.

use std::net::SocketAddr;
use std::time::Duration;

use upesi_http::too_large_port;
use upesi_types::{Amount, Currency, FspId, TransferId};

/// Default time that commands wait for a hub, in seconds.
pub const WAIT_DEFAULT: &str = "10";
/// Maximum time that commands wait for a hub, in seconds: a day.
const WAIT_SECONDS_MAX: u64 = 24 * 3600;

/// A number of seconds to wait for a hub.
///
/// # Errors
/// States the expected form.
pub fn wait(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds <= WAIT_SECONDS_MAX);
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| format!("give a number of seconds up to {WAIT_SECONDS_MAX}"))
}

/// A decimal amount above zero.
///
/// # Errors
/// If the text is not an amount above zero.
pub fn amount(text: &str) -> Result<Amount, String> {
    match Amount::parse_decimal(text) {
        Ok(amount) if amount > Amount::ZERO => Ok(amount),
        Ok(_) => Err("give an amount above zero".to_owned()),
        Err(error) => Err(format!("{text} {error}")),
    }
}

/// A currency code.
///
/// # Errors
/// If the text is not a currency code.
pub fn currency(text: &str) -> Result<Currency, String> {
    Currency::parse(text).ok_or_else(|| "give an ISO 4217 code in capitals, such as KES".to_owned())
}

/// The name of a DFSP.
///
/// # Errors
/// States the form of a name.
pub fn dfsp_name(text: &str) -> Result<FspId, String> {
    let fits = |name: &FspId| (2..=30).contains(&name.as_str().len());
    FspId::parse(text).filter(fits).ok_or_else(|| "give a name of 2 to 30 printable characters".to_owned())
}

/// The id of a transfer.
///
/// # Errors
/// States the form of an id.
pub fn transfer_id(text: &str) -> Result<TransferId, String> {
    TransferId::parse(text).ok_or_else(|| "give a UUID in lower case or a ULID in capitals".to_owned())
}

/// An address with port.
///
/// # Errors
/// States the expected form.
pub fn socket_address(text: &str) -> Result<SocketAddr, String> {
    let wanted = || format!("give an address with port, such as 127.0.0.1:5000{}", why_no_port(text));
    text.parse().map_err(|_| wanted())
}

/// Addition to the error text for an invalid address: that its port is too large, or nothing.
pub fn why_no_port(address: &str) -> String {
    let port = too_large_port(address);
    port.map_or_else(String::new, |port| format!("; {port} is over 65535, the last port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_currencies_and_names_are_checked() {
        assert_eq!(amount("2.50").map(|amount| amount.to_string()), Ok("2.5".to_owned()));
        for text in ["0", "-1", "", "1e3", "1.00001"] {
            assert!(amount(text).is_err(), "{text}");
        }
        assert!(currency("KES").is_ok() && currency("kes").is_err());
        assert!(dfsp_name("greenbank").is_ok() && dfsp_name("x").is_err());
    }

    #[test]
    fn port_that_is_too_large_is_reported() {
        assert_eq!(socket_address("[::1]:65535"), Ok("[::1]:65535".parse().unwrap()));
        let wanted = "give an address with port, such as 127.0.0.1:5000";
        for text in ["127.0.0.1", "localhost:5000", "127.0.0.1:", "[::1]:x5"] {
            assert_eq!(socket_address(text), Err(wanted.to_owned()), "{text}");
        }
        for text in ["127.0.0.1:65536", "[::1]:65536"] {
            let expected = format!("{wanted}; 65536 is over 65535, the last port");
            assert_eq!(socket_address(text), Err(expected), "{text}");
        }
    }
}
