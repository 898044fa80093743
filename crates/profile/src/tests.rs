//! Profiles of this test process, and drawings of small ones.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::*;

fn small() -> Profile {
    let stack = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
    Profile {
        stacks: [
            (stack(&["engine", "upesi_engine::run", "core::fmt::write"]), 1),
            (stack(&["engine", "upesi_engine::run"]), 2),
            (stack(&["edge", "<tokio::Task<a;b> as Poll>::poll"]), 1),
        ]
        .into(),
        samples: 4,
        lost: 0,
        hertz: 100,
        duration: Duration::from_secs(2),
    }
}

#[test]
fn stacks_are_folded_into_lines() {
    let folded = small().folded();
    let lines: Vec<_> = folded.lines().collect();
    let expected = [
        "edge;<tokio::Task<a:b> as Poll>::poll 1",
        "engine;upesi_engine::run 2",
        "engine;upesi_engine::run;core::fmt::write 1",
    ];
    assert_eq!(lines, expected);
    assert_eq!(small().threads(), [("engine".into(), 3), ("edge".into(), 1)]);
    assert_eq!(small().cpu_time(), Duration::from_millis(40));
}

#[test]
fn flame_graph_has_a_box_per_frame_as_wide_as_its_share() {
    let svg = small().flame_graph("A <hub>");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("<title>A &lt;hub&gt;</title>"), "{svg}");
    assert_eq!(svg.matches("<g class=\"f\"").count(), 6);
    // The engine has three of four samples: 885 of 1180 pixels, after the quarter of the other thread.
    let engine = svg.lines().position(|line| line.contains("<title>engine")).unwrap();
    let text = svg.lines().nth(engine + 1).unwrap();
    assert!(
        text.starts_with("3 samples, 75.0 %</title><rect x=\"305.00\"") && text.contains("width=\"885.00\""),
        "{text}"
    );
    assert!(svg.contains("&lt;tokio::Task&lt;a;b&gt; as Poll&gt;::poll"), "{svg}");
    assert!(!svg.contains("http://www.w3.org/1999") && !svg.contains("href"), "it needs nothing else");
}

#[test]
fn folded_stacks_draw_the_same_graph() {
    let again = Profile::from_folded(&small().folded(), Duration::from_secs(2));
    assert_eq!((again.samples, again.folded()), (4, small().folded()));
    let svg = again.flame_graph("A hub");
    assert_eq!(svg.matches("<g class=\"f\"").count(), 6);
    assert!(svg.contains("4 samples of CPU time within 2.00 s."), "{svg}");
}

#[test]
fn flame_graph_of_an_empty_profile_has_one_frame() {
    let svg = Profile::default().flame_graph("");
    assert_eq!(svg.matches("<g class=\"f\"").count(), 1);
}

#[test]
fn profile_of_invalid_duration_is_rejected() {
    for seconds in [0, SECONDS_MAX + 1, u64::MAX] {
        assert!(matches!(profile(seconds, || true), Err(ProfileError::Seconds)), "{seconds}");
    }
}

#[inline(never)]
fn known_by_this_name(stop: &AtomicBool) -> u64 {
    let mut sum = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        for number in 0..10_000_u64 {
            sum = black_box(sum.wrapping_mul(31).wrapping_add(number));
        }
        // Allocations, so that the handler interrupts the allocator as well.
        drop(black_box(vec![sum; 16]));
    }
    sum
}

/// Takes a profile, and waits while another one is running.
fn patiently() -> Result<Profile, ProfileError> {
    loop {
        match profile(1, || true) {
            Err(ProfileError::Busy) => thread::yield_now(),
            other => return other,
        }
    }
}

/// A profile shows a busy thread with its name and its function, and the process continues unharmed. A second profile
/// waits for the first.
#[test]
fn profile_shows_a_busy_thread_and_its_function() {
    let stop = Arc::new(AtomicBool::new(false));
    let worker = {
        let stop = Arc::clone(&stop);
        thread::Builder::new().name("busy-3".to_owned()).spawn(move || known_by_this_name(&stop)).unwrap()
    };
    let second = thread::spawn(patiently);
    let first = patiently();
    let mut taken: Vec<_> = [first, second.join().unwrap()].into_iter().filter_map(Result::ok).collect();
    assert!(!taken.is_empty());
    let found = taken.remove(0);
    stop.store(true, Ordering::Relaxed);
    worker.join().unwrap();
    let seen = |(stack, _): &(&stacks::Stack, &u64)| {
        &*stack[0] == "busy" && stack.iter().any(|name| name.ends_with("known_by_this_name"))
    };
    let whole = |(stack, _): &(&stacks::Stack, &u64)| stack.len() > 3;
    let samples: u64 = found.stacks.iter().filter(seen).filter(whole).map(|(_, count)| count).sum();
    assert!(samples > 0 && found.samples > 0, "{}", found.folded());
    assert_eq!(found.stacks.values().sum::<u64>(), found.samples);
}

/// A profile of another test may be running, which also ends this one immediately.
#[test]
fn profile_that_is_not_wanted_ends_immediately() {
    let ended = profile(SECONDS_MAX, || false);
    assert!(matches!(ended, Err(ProfileError::Abandoned | ProfileError::Busy)), "{ended:?}");
}
