//! Scales and their ticks.

use crate::report::figures::grouped;

/// How values are laid out along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// Equal distances are equal differences.
    Linear {
        /// The value at the start.
        low: f64,
        /// The value at the end.
        high: f64,
    },
    /// Equal distances are equal ratios.
    Log {
        /// The value at the start; positive.
        low: f64,
        /// The value at the end.
        high: f64,
    },
}

impl Scale {
    /// From zero to a little above the largest value, ending on a tick.
    pub fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        let high = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let high = if high > 0.0 { high } else { 1.0 };
        let step = nice_step(high / 5.0);
        Self::Linear { low: 0.0, high: (high / step - 1e-9).ceil() * step }
    }

    /// From a tick below the smallest positive value to one above the largest.
    pub fn log(values: impl Iterator<Item = f64>) -> Self {
        let positive = values.filter(|value| *value > 0.0 && value.is_finite());
        let (low, high) =
            positive.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        if high <= 0.0 {
            return Self::Log { low: 0.1, high: 10.0 };
        }
        let (low, high) = (nice_below(low), nice_above(high));
        Self::Log { low, high: if high / low < 5.0 { low * 10.0 } else { high } }
    }

    /// Where a value is, from 0 at the start to 1 at the end; outside values are held at the ends.
    pub fn place(&self, value: f64) -> f64 {
        let (part, whole) = match *self {
            Self::Linear { low, high } => (value - low, high - low),
            Self::Log { low, high } => ((value.max(f64::MIN_POSITIVE) / low).ln(), (high / low).ln()),
        };
        if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// About `count` round values.
    pub fn ticks(&self, count: usize) -> Vec<f64> {
        match *self {
            Self::Linear { low, high } => {
                let step = nice_step((high - low) / count.max(1) as f64);
                let first = (low / step - 1e-9).ceil();
                let steps = ((high / step + 1e-9).floor() - first).max(0.0) as usize;
                (0..=steps.min(50)).map(|index| (first + index as f64) * step).collect()
            }
            Self::Log { low, high } => {
                let decades = (high / low).log10();
                let all = log_ticks(low, high, &[1.0, 2.0, 5.0]);
                if all.len() <= count.max(3) + 2 {
                    return all;
                }
                let stride = (decades / count.max(1) as f64).ceil().max(1.0) as usize;
                log_ticks(low, high, &[1.0]).into_iter().step_by(stride).collect()
            }
        }
    }
}

fn log_ticks(low: f64, high: f64, mantissas: &[f64]) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let decades = (first..=last).map(|exponent| 10_f64.powi(exponent));
    let values = decades.flat_map(|decade| mantissas.iter().map(move |mantissa| mantissa * decade));
    values.filter(|value| *value >= low * 0.999 && *value <= high * 1.001).collect()
}

/// The round number (1, 2, 2.5 or 5 times a power of ten) that is at least as large.
fn nice_step(step: f64) -> f64 {
    if step.is_nan() || step <= 0.0 {
        return 1.0;
    }
    let decade = 10_f64.powf(step.log10().floor());
    let mantissa = step / decade;
    let round =
        [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|round| *round >= mantissa - 1e-9).unwrap_or(10.0);
    round * decade
}

fn nice_below(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0].into_iter().find(|round| round * decade <= value * 1.000_001).unwrap_or(1.0) * decade
}

fn nice_above(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().find(|round| round * decade >= value * 0.999_999).unwrap_or(10.0)
        * decade
}

/// A tick's number with no more digits than it has.
pub(crate) fn round_number(value: f64) -> String {
    let decimals = (0..6).find(|&decimals| {
        let scaled = value.abs() * 10_f64.powi(decimals);
        (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0)
    });
    grouped(value, decimals.unwrap_or(6) as usize)
}

/// A tick that is a time in milliseconds.
pub(crate) fn round_milliseconds(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        magnitude if magnitude < 0.999 => format!("{} µs", round_number((value * 1e6).round() / 1e3)),
        magnitude if magnitude < 999.0 => format!("{} ms", round_number(value)),
        _ => format!("{} s", round_number(value / 1e3)),
    }
}

/// An axis of a plot: its scale, its ticks by place, and its name with the unit.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub scale: Scale,
    pub ticks: Vec<(f64, String)>,
    pub name: String,
}

impl Axis {
    /// An axis with round ticks.
    pub fn new(scale: Scale, count: usize, format: fn(f64) -> String, name: impl Into<String>) -> Self {
        let ticks = scale.ticks(count).into_iter().map(|value| (scale.place(value), format(value))).collect();
        Self { scale, ticks, name: name.into() }
    }

    /// Time since the start, in the unit that gives round ticks.
    pub fn time(seconds: f64) -> Self {
        let (unit, name) = match seconds {
            seconds if seconds <= 240.0 => (1.0, "seconds"),
            seconds if seconds <= 4.0 * 3600.0 => (60.0, "minutes"),
            _ => (3600.0, "hours"),
        };
        let scale = Scale::Linear { low: 0.0, high: seconds.max(1.0) };
        let in_unit = Scale::Linear { low: 0.0, high: seconds.max(1.0) / unit };
        let ticks =
            in_unit.ticks(8).into_iter().map(|value| (in_unit.place(value), round_number(value))).collect();
        Self { scale, ticks, name: format!("{name} since the start") }
    }

    /// Shares of the operations, each nine as wide as the one before: 90 %, 99 %, 99.9 % …
    pub fn percentiles(nines: f64) -> Self {
        let nines = nines.clamp(1.0, 7.0);
        let scale = Scale::Linear { low: 0.0, high: nines };
        let named = [
            (0.0, "0 %"),
            (0.5, "50 %"),
            (0.9, "90 %"),
            (0.99, "99 %"),
            (0.999, "99.9 %"),
            (0.9999, "99.99 %"),
        ];
        let more = [(0.99999, "99.999 %"), (0.999_999, "99.9999 %"), (0.999_999_9, "99.99999 %")];
        let ticks = named.into_iter().chain(more).map(|(share, name)| (nines_of(share), name.to_owned()));
        let ticks = ticks.filter(|(nines_here, _)| *nines_here <= nines + 1e-9);
        let ticks = ticks.map(|(nines_here, name)| (scale.place(nines_here), name)).collect();
        Self { scale, ticks, name: "share of operations that were faster".to_owned() }
    }
}

/// How many nines a share has: 0.99 has two.
pub(crate) fn nines_of(share: f64) -> f64 {
    -(1.0 - share).max(1e-12).log10()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_on_round_values_and_hold_what_is_outside() {
        for (largest, high) in [(3_440.0, 4_000.0), (0.42, 0.5), (1.0, 1.0), (0.0, 1.0), (9_999.0, 10_000.0)]
        {
            let Scale::Linear { high: found, .. } = Scale::from_zero([largest].into_iter()) else { panic!() };
            assert!((found - high).abs() < 1e-9, "{largest}: {found}, not {high}");
        }
        let log = Scale::log([0.35, 33.9, f64::NAN, 0.0].into_iter());
        assert_eq!(log, Scale::Log { low: 0.2, high: 50.0 });
        assert_eq!(log.place(0.0), 0.0);
        assert_eq!(log.place(1e9), 1.0);
        assert!((log.place(10.0) - (50.0_f64.ln() / 250.0_f64.ln())).abs() < 1e-9);
        assert_eq!(Scale::log(std::iter::empty()), Scale::Log { low: 0.1, high: 10.0 });
    }

    #[test]
    fn ticks_are_round_and_few() {
        let texts =
            |scale: Scale, count| scale.ticks(count).into_iter().map(round_number).collect::<Vec<_>>();
        assert_eq!(
            texts(Scale::Linear { low: 0.0, high: 4_000.0 }, 4),
            ["0", "1,000", "2,000", "3,000", "4,000"]
        );
        assert_eq!(texts(Scale::Linear { low: 0.0, high: 0.5 }, 5), ["0", "0.1", "0.2", "0.3", "0.4", "0.5"]);
        assert_eq!(texts(Scale::Log { low: 1.0, high: 50.0 }, 5), ["1", "2", "5", "10", "20", "50"]);
        assert_eq!(
            texts(Scale::Log { low: 1.0, high: 100_000.0 }, 5),
            ["1", "10", "100", "1,000", "10,000", "100,000"]
        );
        let axis = Axis::percentiles(3.4);
        assert_eq!(axis.ticks.last().unwrap().1, "99.9 %");
        assert_eq!(Axis::time(3_600.0).ticks.last().unwrap().1, "60");
        for (value, text) in [(0.05, "50 µs"), (0.5, "500 µs"), (2.0, "2 ms"), (5_000.0, "5 s"), (0.0, "0")]
        {
            assert_eq!(round_milliseconds(value), text);
        }
    }
}
