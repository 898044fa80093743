//! Instants and their two wire forms: ISO 8601 in bodies, IMF-fixdate in the `Date` header.

use core::fmt;
use core::time::Duration;

const NS_PER_MS: i64 = 1_000_000;
const MS_PER_SECOND: i64 = 1_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// An instant in nanoseconds since 1970-01-01T00:00:00Z. It prints as `2031-04-01T12:00:30.000Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);
    /// The latest instant, in the year 2262. It is later than every instant that occurs.
    pub const MAX: Self = Self(i64::MAX);

    /// Creates an instant from nanoseconds since the epoch.
    pub const fn from_ns(ns: i64) -> Self {
        Self(ns)
    }

    /// Creates an instant from milliseconds since the epoch, saturating at the ends of the range.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms.saturating_mul(NS_PER_MS))
    }

    /// Nanoseconds since the epoch.
    pub const fn as_ns(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since the epoch.
    pub const fn as_ms(self) -> i64 {
        self.0.div_euclid(NS_PER_MS)
    }

    /// Adds `ms` milliseconds, saturating at the ends of the range.
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(NS_PER_MS)))
    }

    /// Milliseconds from `earlier` to this instant; negative if `earlier` is later.
    pub const fn ms_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0) / NS_PER_MS
    }

    /// Duration from `earlier` to this instant; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        let ns = self.0.saturating_sub(earlier.0);
        Duration::from_nanos(u64::try_from(ns).unwrap_or_default())
    }

    /// Reads the FSPIOP DateTime form: an existing date, exactly three digits of milliseconds, and `Z` or `±HH:MM`.
    /// Years after 2261 are read as [`Timestamp::MAX`].
    pub fn parse_iso(text: &str) -> Option<Self> {
        let (fraction, zone) = fraction_and_zone(text.as_bytes().get(19..)?)?;
        if fraction.len() == 3 { parse(text.as_bytes(), fraction, zone) } else { None }
    }

    /// Reads an RFC 3339 instant. Unlike [`Timestamp::parse_iso`], it allows zero to nine digits of the second's
    /// fraction. Digits after milliseconds are ignored. Years before 1677 are read as the earliest instant.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let (fraction, zone) = fraction_and_zone(text.as_bytes().get(19..)?)?;
        if fraction.len() <= 9 { parse(text.as_bytes(), fraction, zone) } else { None }
    }

    /// Reads the strict IMF-fixdate form `Tue, 01 Apr 2031 12:00:00 GMT`: a two-digit day, the correct weekday and the
    /// letters GMT.
    pub fn parse_http_date(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 29 || &bytes[3..5] != b", " || &bytes[25..] != b" GMT" {
            return None;
        }
        let blank_or_colon = [(7, b' '), (11, b' '), (16, b' '), (19, b':'), (22, b':')];
        if blank_or_colon.iter().any(|&(at, byte)| bytes[at] != byte) {
            return None;
        }
        let name = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2]];
        let month = MONTHS.iter().position(|month| **month == name(8))? as i64 + 1;
        let (day, year) = (decimal(&bytes[5..7])?, decimal(&bytes[12..16])?);
        let (hour, minute, second) =
            (decimal(&bytes[17..19])?, decimal(&bytes[20..22])?, decimal(&bytes[23..25])?);
        if day == 0 || day > days_in_month(year, month) || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let days = days_from_civil(year, month, day);
        if *WEEKDAYS[(days + 4).rem_euclid(7) as usize] != name(0) {
            return None;
        }
        Some(Self::from_ms((days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second) * MS_PER_SECOND))
    }

    /// The IMF-fixdate form for a `Date` header, always 29 characters.
    pub fn http_date(self) -> HttpDate {
        HttpDate(self)
    }
}

/// Prints an instant as `Tue, 01 Apr 2031 12:00:00 GMT`.
#[derive(Clone, Copy, Debug)]
pub struct HttpDate(Timestamp);

const WEEKDAYS: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

impl fmt::Display for HttpDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_ms().div_euclid(MS_PER_SECOND);
        let (days, second_of_day) =
            (seconds.div_euclid(SECONDS_PER_DAY), seconds.rem_euclid(SECONDS_PER_DAY));
        let (year, month, day) = civil_from_days(days);
        let text = |name: &'static [u8; 3]| core::str::from_utf8(name).unwrap_or_default();
        let weekday = text(WEEKDAYS[(days + 4).rem_euclid(7) as usize]);
        let month = text(MONTHS[month as usize - 1]);
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        write!(f, "{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.as_ms();
        let (seconds, ms) = (ms.div_euclid(MS_PER_SECOND), ms.rem_euclid(MS_PER_SECOND));
        let (days, second_of_day) =
            (seconds.div_euclid(SECONDS_PER_DAY), seconds.rem_euclid(SECONDS_PER_DAY));
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let mut put = |at: usize, width: usize, mut value: i64| {
            for position in (at..at + width).rev() {
                text[position] = b'0' + (value % 10) as u8;
                value /= 10;
            }
        };
        put(0, 4, year);
        put(5, 2, month);
        put(8, 2, day);
        put(11, 2, hour);
        put(14, 2, minute);
        put(17, 2, second);
        put(20, 3, ms);
        f.write_str(core::str::from_utf8(&text).unwrap_or_default())
    }
}

/// Splits the digits of a second's fraction from the zone after them.
fn fraction_and_zone(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let Some(rest) = rest.strip_prefix(b".") else { return Some((b"", rest)) };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then(|| rest.split_at(digits))
}

/// Reads `2031-04-01T12:00:30` from the first bytes of a text, with the given fraction and zone.
fn parse(bytes: &[u8], fraction: &[u8], zone: &[u8]) -> Option<Timestamp> {
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if separators.iter().any(|&(at, byte)| bytes.get(at) != Some(&byte)) {
        return None;
    }
    let number = |from: usize, to: usize| decimal(bytes.get(from..to)?);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let digit = |at: usize| fraction.get(at).map_or(0, |digit| i64::from(digit - b'0'));
    let ms = digit(0) * 100 + digit(1) * 10 + digit(2);
    let offset_minutes = match zone {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (decimal(&[*h1, *h2])?, decimal(&[*m1, *m2])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 60 + minutes) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    let is_date = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = days_from_civil(year, month, day);
    let seconds = days * SECONDS_PER_DAY + hour * 3600 + (minute - offset_minutes) * 60 + second;
    Some(Timestamp::from_ms(seconds * MS_PER_SECOND + ms))
}

fn decimal(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}

fn is_leap_year(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap_year(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar, counted in 400-year eras that begin in March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn iso_instants_round_trip() {
        for (text, ms) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2031-04-01T12:00:30.000Z", 1_932_811_230_000),
            ("2000-02-29T23:59:59.999Z", 951_868_799_999),
            ("1969-12-31T23:59:59.999Z", -1),
        ] {
            let instant = Timestamp::parse_iso(text).expect(text);
            assert_eq!(instant.as_ms(), ms, "{text}");
            assert_eq!(instant.to_string(), text);
        }
        let offset = Timestamp::parse_iso("2031-04-01T14:30:30.000+02:30").unwrap();
        assert_eq!(offset.to_string(), "2031-04-01T12:00:30.000Z");
        assert_eq!(Timestamp::parse_iso("9999-12-31T23:59:59.999Z"), Some(Timestamp::MAX));
    }

    #[test]
    fn malformed_iso_instants_are_refused() {
        for text in [
            "",
            "2031-04-01",
            "2031-04-01T12:00:30Z",
            "2031-04-01T12:00:30.00Z",
            "2031-04-01T12:00:30.0000Z",
            "2031-04-01T12:00:30.000",
            "2031-02-29T12:00:30.000Z",
            "2031-13-01T12:00:30.000Z",
            "2031-00-01T12:00:30.000Z",
            "2031-04-31T12:00:30.000Z",
            "2031-04-01T24:00:00.000Z",
            "2031-04-01T12:60:00.000Z",
            "2031-04-01T12:00:30.000+0200",
            "2031-04-01T12:00:30.000+24:00",
            "2031-04-01 12:00:30.000Z",
            "20é1-04-01T12:00:30.000Z",
        ] {
            assert_eq!(Timestamp::parse_iso(text), None, "{text}");
        }
    }

    #[test]
    fn instants_of_rfc_3339_may_lack_milliseconds() {
        for (text, expected) in [
            ("2031-04-01T12:00:30Z", "2031-04-01T12:00:30.000Z"),
            ("2031-04-01T12:00:30.000Z", "2031-04-01T12:00:30.000Z"),
            ("2031-04-01T12:00:30.25Z", "2031-04-01T12:00:30.250Z"),
            ("2031-04-01T12:00:30.123999999Z", "2031-04-01T12:00:30.123Z"),
            ("2031-04-01T14:30:30+02:30", "2031-04-01T12:00:30.000Z"),
            ("2031-04-01T09:30:30.5-02:30", "2031-04-01T12:00:30.500Z"),
        ] {
            let instant = Timestamp::parse_rfc3339(text).expect(text);
            assert_eq!(instant.to_string(), expected, "{text}");
        }
        let earliest = Timestamp::parse_rfc3339("1000-01-01T00:00:00Z").unwrap();
        assert!(earliest < Timestamp::parse_iso("1677-10-01T00:00:00.000Z").unwrap(), "{earliest}");
        assert_eq!(Timestamp::parse_rfc3339("9999-12-31T23:59:59Z"), Some(Timestamp::MAX));
        for text in [
            "",
            "2031-04-01",
            "2031-04-01T12:00Z",
            "2031-04-01T12:00:30",
            "2031-04-01T12:00:30.Z",
            "2031-04-01T12:00:30.1234567890Z",
            "2031-02-29T12:00:30Z",
            "2031-04-01T12:00:30z",
            "2031-04-01 12:00:30Z",
            "2031-04-01T12:00:30 Z",
        ] {
            assert_eq!(Timestamp::parse_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn http_dates_round_trip_and_are_strict() {
        let text = "Tue, 01 Apr 2031 12:00:00 GMT";
        let instant = Timestamp::parse_http_date(text).unwrap();
        assert_eq!(instant.http_date().to_string(), text);
        assert_eq!(instant.to_string(), "2031-04-01T12:00:00.000Z");
        for text in [
            "",
            "Mon, 01 Apr 2031 12:00:00 GMT",
            "Tue, 1 Apr 2031 12:00:00 GMT",
            "Tue, 01 Apr 2031 12:00:00 UTC",
            "Tue, 31 Apr 2031 12:00:00 GMT",
            "Tue, 01 Apr 2031 24:00:00 GMT",
            "Tue, 01 apr 2031 12:00:00 GMT",
            "tue, 01 Apr 2031 12:00:00 GMT",
        ] {
            assert_eq!(Timestamp::parse_http_date(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_round_trips() {
        for days in -146_097..146_097 {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
            assert!(day >= 1 && day <= days_in_month(year, month));
        }
    }

    #[test]
    fn durations_are_whole_milliseconds_and_saturate() {
        let at = Timestamp::from_ns;
        for (earlier, later, ms) in [
            (at(0), at(0), 0),
            (at(1), at(1_000_000), 0),
            (at(1), at(1_000_001), 1),
            (at(5_000_000), at(2_000_000), -3),
            (at(i64::MIN), Timestamp::MAX, i64::MAX / NS_PER_MS),
        ] {
            assert_eq!(later.ms_since(earlier), ms, "{} since {}", later.as_ns(), earlier.as_ns());
        }
    }

    #[test]
    fn elapsed_time_since_a_future_instant_is_zero() {
        let at = Timestamp::from_ns;
        for (earlier, later, ns) in [
            (1, 1_000_000, 999_999),
            (-5, 5, 10),
            (3, 3, 0),
            (5, 2, 0),
            (i64::MIN, i64::MAX, i64::MAX as u64),
        ] {
            assert_eq!(at(later).since(at(earlier)), Duration::from_nanos(ns), "{later} since {earlier}");
        }
    }
}
