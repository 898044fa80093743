//! Intervals of repeated measurements, by Student's and Welch's t, and by Student's t of paired differences.
//!
//! Everything is a function of its arguments: no random numbers, so the same files always give the same verdict.

/// The confidence of every interval that is not said to have another.
pub const CONFIDENCE: f64 = 0.95;
/// How probable it shall be that a difference which is there is also seen, when repetitions are advised.
pub const POWER: f64 = 0.8;
/// More repetitions than this are not advised: something else is wrong then.
pub const REPETITIONS_MAX: usize = 1_000;

/// A value and where it lies with the confidence that was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub centre: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// The larger of the distances from the estimate to an end.
    pub fn half_width(&self) -> f64 {
        (self.high - self.centre).max(self.centre - self.low)
    }

    /// Whether a value is inside.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The mean; `None` of none.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The variance of a sample, divided by one less than its size; `None` of fewer than two.
pub fn variance(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some(squares / (values.len() - 1) as f64)
}

/// Student's interval of the mean; `None` of fewer than two values.
pub fn mean_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    let centre = mean(values)?;
    let error = (variance(values)? / values.len() as f64).sqrt();
    let half = student_quantile(f64::midpoint(1.0, confidence), (values.len() - 1) as f64) * error;
    Some(Interval { centre, low: centre - half, high: centre + half })
}

/// Welch's interval of how much `other` differs from `base`, relative to `base` (0.12 is 12 % more).
///
/// Computed on logarithms, so that the answer does not depend on which of the two is the base, and speeds and times are
/// treated alike. `None` when either has fewer than two values or one that is not positive.
pub fn relative_difference(base: &[f64], other: &[f64], confidence: f64) -> Option<Interval> {
    let (base, other) = (logarithms(base)?, logarithms(other)?);
    let difference = mean(&other)? - mean(&base)?;
    let (error, freedom) = welch(&base, &other)?;
    let half = student_quantile(f64::midpoint(1.0, confidence), freedom) * error;
    let relative = |logarithm: f64| logarithm.exp() - 1.0;
    Some(Interval {
        centre: relative(difference),
        low: relative(difference - half),
        high: relative(difference + half),
    })
}

/// Student's interval of how much `other` differs from `base`, relative to `base`, where the two were measured beside
/// each other, one pair after the other: what moves both sides of a pair alike, such as a busy neighbour, falls out.
///
/// Computed on logarithms. `None` of fewer than two pairs, sides of different lengths, or a value that is not positive.
pub fn paired_difference(base: &[f64], other: &[f64], confidence: f64) -> Option<Interval> {
    let interval = mean_interval(&paired_logarithms(base, other)?, confidence)?;
    let relative = |logarithm: f64| logarithm.exp() - 1.0;
    Some(Interval {
        centre: relative(interval.centre),
        low: relative(interval.low),
        high: relative(interval.high),
    })
}

/// How many pairs are needed in all to see a relative difference `effect` with [`POWER`], if their spread stays what it
/// was. `None` when the spread is unknown or more than [`REPETITIONS_MAX`] would be needed.
pub fn pairs_to_tell(base: &[f64], other: &[f64], effect: f64, confidence: f64) -> Option<usize> {
    let spread = variance(&paired_logarithms(base, other)?)?;
    let effect = effect.ln_1p();
    (2..=REPETITIONS_MAX).find(|&pairs| {
        let freedom = (pairs - 1) as f64;
        let quantiles =
            student_quantile(f64::midpoint(1.0, confidence), freedom) + student_quantile(POWER, freedom);
        quantiles * (spread / pairs as f64).sqrt() <= effect
    })
}

fn paired_logarithms(base: &[f64], other: &[f64]) -> Option<Vec<f64>> {
    if base.len() != other.len() {
        return None;
    }
    let (base, other) = (logarithms(base)?, logarithms(other)?);
    Some(base.iter().zip(&other).map(|(base, other)| other - base).collect())
}

/// How many repetitions each of two sides needs in all to see a relative difference `effect` with [`POWER`], if their
/// spread stays what it was. `None` when the spread is unknown or more than [`REPETITIONS_MAX`] would be needed.
pub fn repetitions_to_tell(base: &[f64], other: &[f64], effect: f64, confidence: f64) -> Option<usize> {
    let (base, other) = (logarithms(base)?, logarithms(other)?);
    let spread = variance(&base)? + variance(&other)?;
    let effect = effect.ln_1p();
    (2..=REPETITIONS_MAX).find(|&repetitions| {
        let freedom = (2 * (repetitions - 1)) as f64;
        let error = (spread / repetitions as f64).sqrt();
        let quantiles =
            student_quantile(f64::midpoint(1.0, confidence), freedom) + student_quantile(POWER, freedom);
        quantiles * error <= effect
    })
}

fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    values.iter().map(|&value| (value > 0.0 && value.is_finite()).then(|| value.ln())).collect()
}

/// Standard error of the difference of two means, and its degrees of freedom by Welch and Satterthwaite.
fn welch(base: &[f64], other: &[f64]) -> Option<(f64, f64)> {
    let part = |values: &[f64]| Some(variance(values)? / values.len() as f64);
    let (first, second) = (part(base)?, part(other)?);
    let square = first + second;
    let freedom = |part: f64, values: &[f64]| part.powi(2) / (values.len() - 1) as f64;
    let below = freedom(first, base) + freedom(second, other);
    // Without any spread the interval has no width, whatever the degrees of freedom.
    let freedom = if below > 0.0 { square.powi(2) / below } else { 1.0 };
    Some((square.sqrt(), freedom.max(1.0)))
}

/// The quantile of Student's distribution: the value that a share `probability` is below, for degrees of freedom of one
/// or more.
pub fn student_quantile(probability: f64, freedom: f64) -> f64 {
    if probability < 0.5 {
        return -student_quantile(1.0 - probability, freedom);
    }
    let (mut low, mut high) = (0.0, 1.0);
    while student_share_below(high, freedom) < probability && high < 1e9 {
        low = high;
        high *= 2.0;
    }
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if student_share_below(middle, freedom) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The share of Student's distribution below a value that is not negative.
fn student_share_below(value: f64, freedom: f64) -> f64 {
    let tail = incomplete_beta(freedom / (freedom + value * value), freedom / 2.0, 0.5);
    1.0 - tail / 2.0
}

/// The regularised incomplete beta function, by its continued fraction (Lentz's method).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast only on this side; the other follows by symmetry.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    let bounded = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / bounded(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / bounded(1.0 + even * d);
        c = bounded(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / bounded(1.0 + odd * d);
        c = bounded(1.0 + odd / c);
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-14 {
            break;
        }
    }
    front * fraction
}

/// The logarithm of the gamma function of a positive number: Stirling's series, after moving up to where it is exact.
fn log_gamma(mut x: f64) -> f64 {
    let mut shift = 0.0;
    while x < 12.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let square = x * x;
    let series =
        (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1_260.0 - 1.0 / (1_680.0 * square)) / square) / square) / x;
    shift + (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
