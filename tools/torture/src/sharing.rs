//! How trials share the time that there is: by what each lacks of its goal, pass after pass; and once nothing is lacking,
//! in equal parts, for seeds that nobody has tried.

use std::time::Duration;

/// A share below this is not worth beginning.
const SHARE_MIN: Duration = Duration::from_secs(1);

/// How fast something is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// So many …
    pub count: u64,
    /// … in so many seconds.
    pub duration_s: u64,
}

impl Rate {
    /// How long so many take.
    pub fn time_of(self, count: u64) -> Duration {
        let ms = u128::from(count) * u128::from(self.duration_s) * 1_000 / u128::from(self.count.max(1));
        Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
    }
}

/// Something that can make use of time.
pub trait Part {
    /// Why it cannot go on.
    type Error;

    /// How long it takes to its goal, as far as is known; zero once that is reached.
    fn need(&self) -> Duration;

    /// Goes on for at most about so long: up to the goal, and where that is reached until the time is over. How
    /// long that was.
    ///
    /// # Errors
    /// When it cannot go on.
    fn run(&mut self, share: Duration) -> Result<Duration, Self::Error>;
}

/// The share of each: by need, and equal parts where nobody needs anything.
pub fn shares(time: Duration, needs: &[Duration]) -> Vec<Duration> {
    let whole: u128 = needs.iter().map(Duration::as_millis).sum();
    let share = |need: &Duration| {
        let (part, whole) = if whole == 0 { (1, needs.len() as u128) } else { (need.as_millis(), whole) };
        Duration::from_millis(u64::try_from(time.as_millis() * part / whole).unwrap_or(u64::MAX))
    };
    needs.iter().map(share).collect()
}

/// Gives all of the time to the parts, in turn. What one leaves of its share is for those after it; what the last one leaves
/// is for another pass.
///
/// # Errors
/// The first error of a part.
pub fn spend<P: Part>(time: Duration, parts: &mut [P]) -> Result<(), P::Error> {
    let mut rest = time;
    loop {
        let has_need = parts.iter().any(|part| !part.need().is_zero());
        let mut is_spent = false;
        for index in 0..parts.len() {
            let needs: Vec<Duration> = parts[index..].iter().map(Part::need).collect();
            // Goals that were reached in this pass do not ask for more in the midst of it.
            let share = if has_need && needs[0].is_zero() { Duration::ZERO } else { shares(rest, &needs)[0] };
            if share >= SHARE_MIN {
                rest = rest.saturating_sub(parts[index].run(share)?.max(Duration::from_millis(1)));
                is_spent = true;
            }
        }
        if !is_spent || !has_need {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn shares_follow_the_needs() {
        for (time, needs, expected) in [
            (s(60), &[s(10), s(20)][..], &[s(20), s(40)][..]),
            (s(60), &[s(100), s(0), s(200)], &[s(20), s(0), s(40)]),
            (s(60), &[s(0), s(0), s(0)], &[s(20), s(20), s(20)]),
            (s(0), &[s(7)], &[s(0)]),
            (s(9), &[], &[]),
        ] {
            assert_eq!(shares(time, needs), expected, "{needs:?}");
        }
    }

    #[test]
    fn a_rate_tells_how_long_something_takes() {
        let rate = Rate { count: 28_226, duration_s: 1_177 };
        assert_eq!(rate.time_of(100_000), Duration::from_millis(4_169_914));
        assert_eq!(rate.time_of(0), Duration::ZERO);
        assert_eq!(Rate { count: 0, duration_s: 3 }.time_of(2), s(6));
    }

    /// A trial whose goal is said to take `said`, and takes `takes`.
    struct Invented {
        said: Duration,
        takes: Duration,
        worked: Duration,
        runs: Vec<Duration>,
    }

    impl Invented {
        const fn new(said_s: u64, takes_s: u64) -> Self {
            Self { said: s(said_s), takes: s(takes_s), worked: Duration::ZERO, runs: Vec::new() }
        }

        fn lacks(&self) -> Duration {
            self.takes.saturating_sub(self.worked)
        }
    }

    impl Part for Invented {
        type Error = Infallible;

        fn need(&self) -> Duration {
            // What was seen counts for more than what was said.
            if self.worked.is_zero() { self.said } else { self.lacks() }
        }

        fn run(&mut self, share: Duration) -> Result<Duration, Infallible> {
            let spent = if self.lacks().is_zero() { share } else { share.min(self.lacks()) };
            self.worked += spent;
            self.runs.push(spent);
            Ok(spent)
        }
    }

    fn spent(time: Duration, mut parts: Vec<Invented>) -> Vec<Invented> {
        let Ok(()) = spend(time, &mut parts);
        parts
    }

    /// The costs of November 2026, from nothing: the two long ones once ended at 38 % and 93 % with a third of the
    /// time left.
    #[test]
    fn all_goals_are_reached_where_there_is_time_for_all() {
        for said in [[1_333, 3_450, 1_480, 58, 280, 81], [1, 1, 1, 1, 1, 1], [3_000, 1_000, 90, 900, 9, 9]] {
            let takes = [1_333, 3_450, 1_480, 58, 280, 81];
            let parts = said.into_iter().zip(takes).map(|(said, takes)| Invented::new(said, takes)).collect();
            let parts = spent(s(115 * 60), parts);
            assert!(parts.iter().all(|part| part.lacks().is_zero()), "{said:?}");
        }
    }

    #[test]
    fn too_little_time_is_shared_by_need_and_used_up() {
        let parts = spent(s(300), vec![Invented::new(400, 400), Invented::new(200, 200)]);
        let worked: Vec<_> = parts.iter().map(|part| part.worked).collect();
        assert_eq!(worked, [s(200), s(100)]);
    }

    #[test]
    fn goals_that_are_met_leave_the_time_to_new_seeds() {
        let mut parts = vec![Invented::new(0, 0), Invented::new(0, 0), Invented::new(40, 40)];
        parts[0].worked = s(9);
        parts[1].worked = s(9);
        let parts = spent(s(100), parts);
        let runs: Vec<_> = parts.iter().map(|part| part.runs.clone()).collect();
        // First what is lacking; then a third of the rest for each.
        assert_eq!(runs, [vec![s(20)], vec![s(20)], vec![s(40), s(20)]]);
    }

    #[test]
    fn an_end_comes_even_where_nothing_can_be_done() {
        assert!(
            spent(Duration::from_millis(1_500), vec![Invented::new(9, 9), Invented::new(9, 9)])[0]
                .runs
                .is_empty()
        );
        assert!(spent(s(9), Vec::new()).is_empty());
    }
}
