use super::*;

fn stages(list: &[(u32, u64)]) -> Vec<Stage> {
    list.iter().map(|&(level, ms)| Stage { level, length: Duration::from_millis(ms) }).collect()
}

fn load(start_per_s: u32, list: &[(u32, u64)], poisson: bool) -> Load {
    Load::Arrivals { start_per_s, stages: stages(list), poisson, outstanding_max: 10 }
}

fn times(load: &Load, seed: u64, until: Duration) -> Vec<Duration> {
    arrivals(load, seed).unwrap().take_while(|time| *time < until).collect()
}

#[test]
fn constant_arrivals_do_not_drift() {
    assert_eq!(due(0, 3), Duration::ZERO);
    assert_eq!(due(3, 3), Duration::from_secs(1));
    assert_eq!(due(3_000_000, 3), Duration::from_secs(1_000_000));
    assert_eq!(due(1, 1_000_000), Duration::from_micros(1));
}

#[test]
fn a_level_moves_along_lines_and_stays() {
    // 5 → 600 → 1,000 users, as published for Mojaloop.
    let profile = Profile::new(5, &stages(&[(600, 90_000), (1_000, 120_000)]));
    for (ms, level) in
        [(0, 5.0), (45_000, 302.5), (90_000, 600.0), (150_000, 800.0), (210_000, 1_000.0), (999_000, 1_000.0)]
    {
        assert!((profile.level_at(Duration::from_millis(ms)) - level).abs() < 1e-9, "{ms}");
    }
}

#[test]
fn even_arrivals_follow_the_area_under_the_rate() {
    let second = Duration::from_secs(1);
    for (start, list, seconds, expected) in [
        (100, &[][..], 10, 1_000),
        (0, &[(100, 10_000)], 10, 500),
        (100, &[(0, 10_000)], 10, 500),
        // A spike: 50/s, up within a second, held, down.
        (50, &[(50, 5_000), (1_000, 1_000), (1_000, 5_000), (50, 1_000)], 20, 250 + 525 + 5_000 + 525 + 400),
        // Nothing, then something.
        (0, &[(0, 2_000), (10, 0), (10, 1_000)], 4, 20),
    ] {
        let times = times(&load(start, list, false), 1, second * seconds);
        assert!(times.is_sorted(), "{list:?}");
        assert!(times.len().abs_diff(expected) <= 1, "{list:?}: {} instead of {expected}", times.len());
    }
    // A rate that ends at nothing ends the arrivals.
    let ending = arrivals(&load(10, &[(0, 1_000)], false), 1).unwrap().take(100).count();
    assert!((5..=6).contains(&ending), "{ending}");
}

#[test]
fn the_same_seed_gives_the_same_schedule_and_another_seed_another() {
    for poisson in [false, true] {
        for (start, list) in [(500, &[][..]), (10, &[(400, 700), (400, 300), (20, 500)])] {
            let load = load(start, list, poisson);
            for seed in 0..50 {
                let first = times(&load, seed, Duration::from_secs(2));
                assert_eq!(first, times(&load, seed, Duration::from_secs(2)), "seed {seed}");
                assert!(first.is_sorted(), "seed {seed}");
                let other = times(&load, seed + 1, Duration::from_secs(2));
                assert_eq!(first == other, !poisson, "seed {seed}");
            }
        }
    }
}

#[test]
fn poisson_arrivals_have_the_rate_and_spread_of_their_kind() {
    for seed in 0..20 {
        let times = times(&load(1_000, &[], true), seed, Duration::from_secs(20));
        // 20,000 expected with a standard deviation of 141.
        assert!(times.len().abs_diff(20_000) < 800, "{} arrivals, seed {seed}", times.len());
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // An exponential distribution's deviation is its mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.1, "seed {seed}");
    }
}
