//! Times in operators' input and output: one parser for all commands, and one zone for reading and printing.
//!
//! 1. A flag is parsed into a [`ParsedTime`]: an instant, a local time, or a time before the present.
//! 2. [`ZoneArguments`] select the zone: `--utc`, `--zone`, or the local one (`TZ`, `/etc/localtime`).
//! 3. [`ParsedTime::at`] returns the instant. [`Zone::show`] prints an instant in a form that [`when`] can read.

use std::sync::Arc;

use clap::Args;
use tz::TimeZone;
use upesi_engine::{Clock as _, SystemClock};
use upesi_types::Timestamp;
use upesi_types::text::Escaped;

const MS_PER_SECOND: i64 = 1_000;
const MS_PER_DAY: i64 = 86_400 * MS_PER_SECOND;
/// Suffixes of a time before the present, with their length in seconds.
const UNITS: [(char, i64); 5] = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400), ('w', 7 * 86_400)];
/// Days before today, by name.
const DAYS: [(&str, i64); 2] = [("today", 0), ("yesterday", 1)];
const HOW: &str = "write it as 2026-11-21, 2026-11-21T09:39, 2026-11-21T09:39:53.250Z, 2026-11-21T12:39+03:00, \
                   yesterday, or as a time before now such as 30m, 2h or 7d";

/// A parsed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedTime {
    /// With its zone.
    At(Timestamp),
    /// Without a zone, stored as if it were UTC.
    Local(Timestamp),
    /// Milliseconds before the present.
    Ago(i64),
    /// Start of a day: number of days before today.
    Day(i64),
}

/// Parses a time.
///
/// # Errors
/// States the accepted forms.
pub fn when(text: &str) -> Result<ParsedTime, String> {
    let days = DAYS.iter().find(|(name, _)| *name == text).map(|(_, days)| ParsedTime::Day(*days));
    let now = (text == "now").then_some(ParsedTime::Ago(0));
    days.or(now).or_else(|| ago(text)).or_else(|| written(text)).ok_or_else(|| HOW.to_owned())
}

fn ago(text: &str) -> Option<ParsedTime> {
    let unit = text.chars().last()?;
    let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let count: u32 = text.strip_suffix(unit)?.parse().ok()?;
    Some(ParsedTime::Ago(i64::from(count) * seconds * MS_PER_SECOND))
}

/// A date, or a date with the time of day: its seconds, milliseconds and zone may be left out.
fn written(text: &str) -> Option<ParsedTime> {
    if text.len() == "2026-11-21".len() {
        return Timestamp::parse_iso(&format!("{text}T00:00:00.000Z")).map(ParsedTime::Local);
    }
    let (date, rest) = text.split_at_checked(10)?;
    let rest = rest.strip_prefix(['T', ' '])?;
    let zone_at = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let (time, zone) = rest.split_at(zone_at);
    let time = match time.len() {
        5 => format!("{time}:00.000"),
        8 => format!("{time}.000"),
        _ => time.to_owned(),
    };
    let instant = |zone: &str| Timestamp::parse_iso(&format!("{date}T{time}{zone}"));
    if zone.is_empty() { instant("Z").map(ParsedTime::Local) } else { instant(zone).map(ParsedTime::At) }
}

impl ParsedTime {
    /// The instant. If a local time occurs twice, the first occurrence is used. A local time that the clock skips is
    /// read as if the clock had not been set forward.
    pub fn at(self, zone: &Zone, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Local(local) => zone.instant_of(local),
            Self::Ago(ms) => now.plus_ms(-ms),
            Self::Day(days) => {
                let local_ms = zone.local_time(now).as_ms();
                let midnight = local_ms - local_ms.rem_euclid(MS_PER_DAY) - days * MS_PER_DAY;
                zone.instant_of(Timestamp::from_ms(midnight))
            }
        }
    }
}

/// A time zone.
#[derive(Clone, Debug)]
pub struct Zone(Arc<TimeZone>);

impl Zone {
    /// UTC.
    pub fn utc() -> Self {
        Self(Arc::new(TimeZone::utc()))
    }

    /// Parses a zone by name, such as `Africa/Nairobi`, or by the text of `TZ`, such as `EAT-3`.
    ///
    /// # Errors
    /// If the system does not have the zone.
    pub fn parse(name: &str) -> Result<Self, String> {
        let found = match name {
            "UTC" => Ok(TimeZone::utc()),
            _ => TimeZone::from_posix_tz(name),
        };
        found.map(|zone| Self(Arc::new(zone))).map_err(|_| {
            "this system has no such time zone; write it as Africa/Nairobi, or as EAT-3 for three hours east of UTC"
                .to_owned()
        })
    }

    /// The zone of `TZ`, else of the system; UTC if it cannot be read, as in other programs.
    pub fn local() -> Self {
        let found = match std::env::var("TZ") {
            Ok(name) if !name.is_empty() => Self::parse(&name).ok(),
            _ => TimeZone::local().ok().map(|zone| Self(Arc::new(zone))),
        };
        found.unwrap_or_else(Self::utc)
    }

    /// Seconds that local time is ahead of UTC.
    fn offset_s(&self, at: Timestamp) -> i64 {
        let found = self.0.find_local_time_type(at.as_ms().div_euclid(MS_PER_SECOND));
        found.map_or(0, |kind| i64::from(kind.ut_offset()))
    }

    /// Local time, as if it were UTC.
    fn local_time(&self, at: Timestamp) -> Timestamp {
        at.plus_ms(self.offset_s(at) * MS_PER_SECOND)
    }

    fn instant_of(&self, local: Timestamp) -> Timestamp {
        // A zone is less than a day from UTC, so one of both offsets is right.
        let offsets = [-MS_PER_DAY, MS_PER_DAY].map(|ms| self.offset_s(local.plus_ms(ms)));
        let readings = offsets.map(|offset_s| local.plus_ms(-offset_s * MS_PER_SECOND));
        let fits = |reading: &&Timestamp| self.local_time(**reading) == local;
        *readings.iter().filter(fits).min().unwrap_or(&readings[0])
    }

    /// An instant, such as `2026-11-21 12:39:53+03:00`, or with `Z` for UTC.
    pub fn show(&self, at: Timestamp) -> String {
        let local = self.local_time(at).to_string();
        format!("{} {}{}", &local[..10], &local[11..19], self.suffix(at))
    }

    /// An instant with milliseconds.
    pub fn show_ms(&self, at: Timestamp) -> String {
        let local = self.local_time(at).to_string();
        format!("{} {}{}", &local[..10], &local[11..23], self.suffix(at))
    }

    /// An instant of the admin API, in the form of [`Self::show`]. Any other text is returned escaped.
    pub fn show_text(&self, text: &str) -> String {
        Timestamp::parse_iso(text).map_or_else(|| Escaped(text).to_string(), |at| self.show(at))
    }

    /// The day of an instant, such as `2026-11-21`.
    pub fn day_of(&self, at: Timestamp) -> String {
        self.local_time(at).to_string()[..10].to_owned()
    }

    fn suffix(&self, at: Timestamp) -> String {
        let minutes = self.offset_s(at).div_euclid(60);
        let sign = if minutes < 0 { '-' } else { '+' };
        match minutes.unsigned_abs() {
            0 => "Z".to_owned(),
            minutes => format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60),
        }
    }
}

/// The time zone for reading and printing times.
#[derive(Args, Clone, Debug, Default)]
pub struct ZoneArguments {
    /// Show times in UTC, and read times without a zone as UTC, instead of the local zone (TZ).
    #[arg(long)]
    pub utc: bool,
    /// Use this zone instead, such as Africa/Nairobi.
    #[arg(long, value_name = "ZONE", value_parser = Zone::parse, conflicts_with = "utc")]
    pub zone: Option<Zone>,
}

impl ZoneArguments {
    /// The selected zone, else the local one.
    pub fn chosen(&self) -> Zone {
        match (&self.zone, self.utc) {
            (Some(zone), _) => zone.clone(),
            (None, true) => Zone::utc(),
            (None, false) => Zone::local(),
        }
    }

    /// The instant of a time.
    pub fn instant(&self, when: ParsedTime) -> Timestamp {
        when.at(&self.chosen(), SystemClock.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-21T22:30:00.500Z";

    fn instant(text: &str) -> Timestamp {
        Timestamp::parse_iso(text).unwrap()
    }

    fn read(text: &str, zone: &str) -> String {
        when(text).unwrap().at(&Zone::parse(zone).unwrap(), instant(NOW)).to_string()
    }

    #[test]
    fn times_are_parsed_in_all_forms() {
        for (text, in_utc, in_nairobi) in [
            ("2026-11-21", "2026-11-21T00:00:00.000Z", "2026-11-20T21:00:00.000Z"),
            ("2026-11-21T09:39", "2026-11-21T09:39:00.000Z", "2026-11-21T06:39:00.000Z"),
            ("2026-11-21 09:39", "2026-11-21T09:39:00.000Z", "2026-11-21T06:39:00.000Z"),
            ("2026-11-21T09:39:53", "2026-11-21T09:39:53.000Z", "2026-11-21T06:39:53.000Z"),
            ("2026-11-21T09:39:53.250", "2026-11-21T09:39:53.250Z", "2026-11-21T06:39:53.250Z"),
            ("2026-11-21T09:39Z", "2026-11-21T09:39:00.000Z", "2026-11-21T09:39:00.000Z"),
            ("2026-11-21T09:39:53Z", "2026-11-21T09:39:53.000Z", "2026-11-21T09:39:53.000Z"),
            ("2026-11-21T09:39:53.250Z", "2026-11-21T09:39:53.250Z", "2026-11-21T09:39:53.250Z"),
            ("2026-11-21 12:39:53+03:00", "2026-11-21T09:39:53.000Z", "2026-11-21T09:39:53.000Z"),
            ("2026-11-21T04:39-05:00", "2026-11-21T09:39:00.000Z", "2026-11-21T09:39:00.000Z"),
            ("now", NOW, NOW),
            ("2h", "2026-11-21T20:30:00.500Z", "2026-11-21T20:30:00.500Z"),
            ("90s", "2026-11-21T22:28:30.500Z", "2026-11-21T22:28:30.500Z"),
            ("1w", "2026-11-14T22:30:00.500Z", "2026-11-14T22:30:00.500Z"),
            // Half past one in the night of the 22nd in Nairobi.
            ("today", "2026-11-21T00:00:00.000Z", "2026-11-21T21:00:00.000Z"),
            ("yesterday", "2026-11-20T00:00:00.000Z", "2026-11-20T21:00:00.000Z"),
        ] {
            assert_eq!(read(text, "UTC"), in_utc, "{text}");
            assert_eq!(read(text, "EAT-3"), in_nairobi, "{text}");
        }
        for text in [
            "",
            "tomorrow",
            "2026-11-31",
            "2026-13-01",
            "2026-11-21T",
            "2026-11-21T9:39",
            "2026-11-21T24:00",
            "2026-11-21T09:39:53.2",
            "2026-11-21T09:39+3",
            "21.11.2026",
            "-2h",
            "2.5h",
            "99999999999h",
            "h",
            "2026-11-2é",
        ] {
            assert!(when(text).is_err(), "{text}");
        }
    }

    #[test]
    fn local_times_follow_daylight_saving() {
        // Forward at two o'clock on 29 March, back at three o'clock on 25 October.
        let zone = Zone::parse("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let at = |text| when(text).unwrap().at(&zone, instant(NOW)).to_string();
        assert_eq!(at("2026-03-29T01:30"), "2026-03-29T00:30:00.000Z");
        assert_eq!(at("2026-03-29T02:30"), "2026-03-29T01:30:00.000Z", "skipped");
        assert_eq!(at("2026-03-29T03:30"), "2026-03-29T01:30:00.000Z");
        assert_eq!(at("2026-10-25T02:30"), "2026-10-25T00:30:00.000Z", "the first of two");
        assert_eq!(at("2026-10-25T03:30"), "2026-10-25T02:30:00.000Z");
        assert_eq!(zone.show(instant("2026-07-01T10:00:00.999Z")), "2026-07-01 12:00:00+02:00");
    }

    #[test]
    fn shown_times_round_trip() {
        let at = instant("2026-11-21T22:30:00.500Z");
        for (zone, shown) in [
            ("UTC", "2026-11-21 22:30:00.500Z"),
            ("EAT-3", "2026-11-22 01:30:00.500+03:00"),
            ("NST3:30", "2026-11-21 19:00:00.500-03:30"),
        ] {
            let zone = Zone::parse(zone).unwrap();
            assert_eq!(zone.show_ms(at), shown);
            assert_eq!(when(shown), Ok(ParsedTime::At(at)));
        }
        assert!(Zone::parse("Mars/Olympus").is_err() && Zone::parse("").is_err());
        let zone = Zone::parse("EAT-3").unwrap();
        assert_eq!(zone.show_text("2026-11-21T22:30:00.500Z"), "2026-11-22 01:30:00+03:00");
        assert_eq!(
            (zone.show_text("never\u{1b}"), zone.day_of(at)),
            ("never\\u001b".into(), "2026-11-22".into())
        );
    }
}
