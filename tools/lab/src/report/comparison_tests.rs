//! Comparisons of constructed runs: one line per case with the text that a reader must see.

use serde_json::{Value, json};

use super::*;
use crate::plan::metric::Metric;
use crate::report::difference::Judgement;
use crate::report::input::Suite;
use crate::report::run::Run;
use crate::result::suite::{PairFigure, PairResult, SuiteResult};

fn run(label: &str, changes: Value) -> Run {
    let mut value = json!({
        "scenario": "transfers",
        "name": "transfers",
        "unit": "transfer",
        "throughput_per_s": 100.0,
        "latency_ms": {"p50": 1.0, "p99": 10.0},
        "audit": {"ok": true, "performed": true},
        "environment": {"cores": 2, "started_at": label},
    });
    for (name, change) in changes.as_object().unwrap() {
        value[name] = change.clone();
    }
    let mut run = Run::of(value).unwrap();
    run.label = label.to_owned();
    run
}

fn compared(base: Value, other: Value) -> Pair {
    let results = Results { runs: vec![run("old", base), run("new", other)], ..Results::default() };
    compare(&results).unwrap().pairs.remove(0)
}

#[test]
fn verdict_is_worded_by_its_certainty() {
    let base = json!({"repetitions": [99.0, 100.0, 101.0, 100.0]});
    for (other, expected) in [
        (
            json!({"throughput_per_s": 112.0, "repetitions": [111.0, 112.0, 113.0, 112.0]}),
            "“new” is 12 % ± 1.5 % faster than “old”; the difference is real.",
        ),
        (
            json!({"throughput_per_s": 80.0, "repetitions": [79.0, 80.0, 81.0, 80.0]}),
            "“new” is 20 % ± 1.3 % slower than “old”; the difference is real.",
        ),
        (
            json!({"repetitions": [100.0, 101.0, 100.5, 100.5]}),
            "“new” and “old” are the same in throughput for all practical purposes: +0.5 % ± 1.2 %.",
        ),
        (
            json!({"repetitions": [90.0, 100.0, 110.0, 98.0]}),
            "“new” against “old”: any difference in throughput is within the noise: −0.8 % ± 14 %; 20 more \
             repetitions of each would show a difference of 5 %.",
        ),
        (
            json!({"throughput_per_s": 130.0}),
            "“new” is 30 % faster than “old” in one measurement each; without repetitions, this may be \
             noise.",
        ),
        (
            json!({"unit": "lookup"}),
            "“old” counts transfers and “new” counts lookups: the two cannot be compared.",
        ),
        (json!({"throughput_per_s": null}), "“old” and “new” have no throughput in common to compare."),
    ] {
        let verdict = compared(base.clone(), other).verdict;
        assert_eq!(verdict, expected);
    }
}

/// The whole run has the figure of its last part here, which is not typical.
#[test]
fn signs_agree_with_the_figures() {
    let base = json!({"throughput_per_s": 869.0, "repetitions": [1_300.0, 1_250.0, 1_280.0, 869.0]});
    let other = json!({"throughput_per_s": 1_121.0, "repetitions": [980.0, 1_000.0, 1_010.0, 1_121.0]});
    let pair = compared(base.clone(), other.clone());
    let difference = &pair.differences[0];
    assert_eq!(difference.contradicting, Some([869.0, 1_121.0]));
    assert!(difference.relative < 0.0 && difference.other < difference.base, "{difference:?}");
    assert!((difference.other / difference.base - 1.0 - difference.relative).abs() < 1e-9, "{difference:?}");
    let text = crate::report::text::pair(&pair);
    assert!(text.contains("warning: throughput: 869/s and 1,121/s, the figures of the whole runs"), "{text}");
    // For latencies the direction is reversed: the sign follows the means, too.
    for (one, two) in [(&base, &other), (&other, &base)] {
        for difference in compared(one.clone(), two.clone()).differences {
            assert!((difference.other - difference.base) * difference.relative >= 0.0, "{difference:?}");
        }
    }
    let agreeing = compared(base, json!({"throughput_per_s": 700.0, "repetitions": [690.0, 700.0, 710.0]}));
    assert!(agreeing.differences[0].contradicting.is_none() && agreeing.warnings.is_empty());
}

/// A run that was made once, as the lab writes it: its listed repetitions are its own slices.
fn once(rates: [f64; 4]) -> Value {
    let slices = rates.map(|rate| json!({"seconds": 5.0, "throughput_per_s": rate}));
    json!({"throughput_per_s": rates[3], "repetitions": rates, "slices": slices})
}

#[test]
fn slices_of_one_run_are_not_repetitions() {
    let base = || once([99.0, 100.0, 101.0, 100.0]);
    for (other, expected) in [
        (
            once([111.0, 112.0, 113.0, 112.0]),
            "“new” is 12 % ± 1.5 % faster than “old” within these runs. This rests on single runs. The interval does not \
             contain the machine's changes over time: repeat both runs in turn (--repetitions) before you \
             decide.",
        ),
        (
            once([100.0, 101.0, 100.5, 100.5]),
            "“new” and “old” are the same in throughput within these runs: +0.5 % ± 1.2 %. This rests on \
             single runs.",
        ),
        (
            once([90.0, 100.0, 110.0, 98.0]),
            "“new” against “old”: any difference in throughput is within the noise of these runs: −0.8 % ± 14 %. \
             This rests on single runs.",
        ),
    ] {
        let pair = compared(base(), other);
        assert!(pair.verdict.starts_with(expected), "{}", pair.verdict);
        assert!(!pair.verdict.contains("the difference is real"), "{}", pair.verdict);
        assert!(pair.differences[0].within_run);
        assert!(!crate::report::text::pair(&pair).contains("  real\n"));
    }
    // The same slices of the median of several runs do not count against the repetitions.
    let several = |mut value: Value, repetitions: [f64; 3]| {
        value["repetitions"] = json!(repetitions);
        value
    };
    let faster = several(once([111.0, 112.0, 113.0, 112.0]), [111.0, 112.0, 113.0]);
    let repeated = compared(several(base(), [99.0, 100.0, 101.0]), faster.clone());
    assert!(repeated.verdict.ends_with("; the difference is real."), "{}", repeated.verdict);
    assert!(compared(base(), faster).verdict.contains("single runs"), "one side alone was repeated");
}

#[test]
fn repetitions_take_precedence_over_seconds() {
    let repeated = |latencies: [f64; 3]| {
        let rows: Vec<_> = (1..=60).map(|t| json!({"t": t, "completed": 100, "p99_ms": 9.0})).collect();
        json!({
            "repetitions": [99.0, 100.0, 101.0],
            "repeated": {"latency_ms.p99": latencies},
            "latency_ms": {"p99": 9.0},
            "timeline": {"interval_s": 1, "rows": rows},
        })
    };
    let pair = compared(repeated([9.9, 10.0, 10.1]), repeated([19.9, 20.0, 20.1]));
    let tail = pair.differences.iter().find(|difference| difference.metric == Metric::Tail).unwrap();
    assert!((tail.relative - 1.0).abs() < 0.01 && tail.judgement == Judgement::Real, "{tail:?}");
    assert!(!tail.within_run && (tail.base, tail.other) == (10.0, 20.0), "medians: {tail:?}");
    assert!(
        pair.verdict.contains("Also: p99 100 %") && !pair.verdict.contains("these runs"),
        "{}",
        pair.verdict
    );
}

/// A run with a baseline that took turns with it.
fn beside(name: &str, rates: [f64; 4], baseline: f64) -> Value {
    let mut value = once(rates);
    let slices = rates.map(|_| json!({"throughput_per_s": baseline}));
    value["baseline"] = json!({"name": name, "throughput_per_s": baseline, "slices": slices});
    value["ratio"] = json!(rates[3] / baseline);
    value
}

#[test]
fn ratio_separates_the_machine_from_the_hub() {
    let base = || beside("forwarder", [99.0, 100.0, 101.0, 100.0], 200.0);
    let ratio = |pair: &Pair| pair.differences.iter().find(|of| of.metric == Metric::Ratio).cloned();
    // Everything is slower by a fifth, including the baseline.
    let pair = compared(base(), beside("forwarder", [79.0, 80.0, 81.0, 80.0], 160.0));
    let found = ratio(&pair).unwrap();
    assert_eq!((found.judgement, found.base, found.other), (Judgement::Same, 0.5, 0.5));
    assert!(pair.verdict.starts_with("“new” is 20 % ± 1.3 % slower than"), "{}", pair.verdict);
    assert!(pair.verdict.ends_with("the machine may be the cause."), "{}", pair.verdict);
    // Only the hub is slower.
    let pair = compared(base(), beside("forwarder", [79.0, 80.0, 81.0, 80.0], 200.0));
    let found = ratio(&pair).unwrap();
    assert!(found.judgement == Judgement::Real && !found.is_better() && found.within_run, "{found:?}");
    assert!(pair.verdict.contains("Also: ratio to the baseline 20 % ± 1.3 % lower"), "{}", pair.verdict);
    assert!(
        crate::report::text::pair(&pair).contains("real within these runs"),
        "{}",
        crate::report::text::pair(&pair)
    );
    let repeated = json!({"ratio": 0.5, "repeated": {"ratio": [0.49, 0.5, 0.51]}});
    assert!(!ratio(&compared(repeated.clone(), repeated)).unwrap().within_run);
    // Ratios to different baselines cannot be compared.
    let other = beside("sims-only", [79.0, 80.0, 81.0, 80.0], 160.0);
    assert!(ratio(&compared(base(), other)).is_none());
    assert!(ratio(&compared(base(), once([1.0, 2.0, 3.0, 4.0]))).is_none());
}

#[test]
fn comparison_with_a_failed_run_has_a_warning() {
    for (change, doubt, warning) in [
        (
            json!({"validity": {"valid": false, "findings": ["lagged"]}}),
            "Do not rely on this: “new” is not valid.",
            "new: the run is not valid: lagged",
        ),
        (
            json!({"audit": {"ok": false, "findings": ["1 lost"]}}),
            "Do not rely on this: “new” failed its audit.",
            "new: the integrity audit failed: 1 lost",
        ),
    ] {
        let pair = compared(json!({}), change);
        assert!(pair.verdict.starts_with(doubt), "{}", pair.verdict);
        assert_eq!(pair.warnings, [warning]);
    }
}

#[test]
fn other_differences_of_the_runs_are_reported() {
    for (base, other, warning) in [
        (
            json!({"durable": true}),
            json!({"durable": false}),
            "durability differs: old has durable, new has not durable",
        ),
        (
            json!({"environment": {"durability": "fsync"}}),
            json!({"environment": {"durability": "none"}}),
            "durability differs: old has fsync, new has none",
        ),
        (
            json!({}),
            json!({"environment": {"cores": 4}}),
            "the machines differ in cores: old has 2, new has 4",
        ),
        (json!({}), json!({"name": "lookups"}), "the scenarios differ: transfers is not lookups"),
        (json!({}), json!({"lost": 2}), "new: 2 accepted requests have no outcome"),
        (json!({}), json!({"audit": null}), "new: no integrity audit was made"),
        (
            json!({"options": {"dfsps": 2}}),
            json!({"options": {"dfsps": 8}}),
            "the load differs in dfsps: 2 and 8",
        ),
    ] {
        assert_eq!(compared(base, other).warnings, [warning]);
    }
    let varied = json!({"options": {"dfsps": 8}, "parameters": {"dfsps": 8}});
    let base = json!({"options": {"dfsps": 2}, "parameters": {"dfsps": 2}});
    assert!(compared(base, varied).warnings.is_empty(), "a sweep varies it on purpose");
    let dates = compared(json!({}), json!({"environment": {"cores": 2, "commit": "abc", "version": "2"}}));
    assert!(dates.warnings.is_empty(), "different builds are compared on purpose: {:?}", dates.warnings);
}

#[test]
fn requested_rate_is_not_a_finding() {
    let open = |throughput: f64, p99: f64| {
        let rows: Vec<_> = (1..=60)
            .map(|t| json!({"t": t, "completed": throughput as u64, "p99_ms": p99 + f64::from(t % 3) * 0.1}))
            .collect();
        json!({
            "throughput_per_s": throughput,
            "latency_ms": {"p99": p99},
            "schedule": {"valid": true},
            "timeline": {"interval_s": 1, "rows": rows},
        })
    };
    let pair = compared(open(100.0, 10.0), open(120.0, 8.0));
    assert_eq!(pair.decided_by, Some(Metric::Tail));
    assert!(pair.verdict.starts_with("“new”: p99 is 20 %"), "{}", pair.verdict);
    assert!(pair.verdict.contains("before you decide"), "one run each: {}", pair.verdict);
    assert!(pair.differences.iter().all(|difference| difference.within_run || difference.interval.is_none()));
}

#[test]
fn several_runs_with_one_base_have_higher_confidence() {
    let repeated = || json!({"repetitions": [95.0, 100.0, 105.0]});
    let of = |count: usize| {
        let runs = (0..count).map(|index| run(&format!("run {index}"), repeated())).collect();
        compare(&Results { runs, ..Results::default() }).unwrap()
    };
    let (two, five) = (of(2), of(5));
    assert_eq!((two.pairs.len(), five.pairs.len()), (1, 4));
    let width = |comparison: &Comparison| comparison.pairs[0].differences[0].interval.unwrap().half_width();
    assert!(width(&two) < width(&five));
    assert!(two.method().contains("95 % confidence") && five.method().contains("98.75 % confidence"));
    assert!(two.method().contains("did not take turns") && !two.method().contains('\u{2020}'));
    assert!(matches!(compare(&Results::default()), Err(ReportError::Nothing)));
    let alone = Results { runs: vec![run("a", json!({}))], ..Results::default() };
    assert!(matches!(compare(&alone), Err(ReportError::OnlyOne)));
}

fn suite(runs: Vec<usize>) -> Suite {
    Suite { runs, ..Suite::default() }
}

#[test]
fn suites_are_compared_by_run() {
    let batch =
        |batch: u32, throughput: f64| json!({"parameters": {"batch": batch}, "throughput_per_s": throughput});
    let runs = vec![
        run("a1", batch(1, 100.0)),
        run("a10", batch(10, 200.0)),
        run("b10", batch(10, 220.0)),
        run("b20", batch(20, 1.0)),
    ];
    let suites = vec![suite(vec![0, 1]), suite(vec![2, 3])];
    let results = Results { runs, suites, only_suites: true };
    let pairs = compare(&results).unwrap().pairs;
    assert_eq!(pairs.len(), 1);
    assert_eq!(pairs[0].subject.as_deref(), Some("transfers, batch 10"));
    assert_eq!((pairs[0].base.as_str(), pairs[0].other.as_str()), ("a10", "b10"));
    let runs = vec![run("a", batch(1, 1.0)), run("b", batch(2, 1.0))];
    let apart = Results { runs, suites: vec![suite(vec![0]), suite(vec![1])], only_suites: true };
    assert!(matches!(compare(&apart), Err(ReportError::NothingInCommon)));
}

#[test]
fn ablations_of_a_suite_are_compared_with_the_first() {
    let without = |what: &str| json!({"parameters": {"ablation": what}});
    let runs = vec![run("x", json!({})), run("y", without("as shipped")), run("z", without("fsync off"))];
    let results = Results { runs, suites: vec![suite(vec![0, 1, 2])], only_suites: true };
    let pairs = compare(&results).unwrap().pairs;
    assert_eq!(pairs.len(), 1);
    assert_eq!((pairs[0].base.as_str(), pairs[0].other.as_str()), ("as shipped", "fsync off"));
}

#[test]
fn runs_that_took_turns_are_compared_in_pairs() {
    let run_of = |what: &str| run(what, json!({"parameters": {"ablation": what}}));
    let runs = vec![run_of("as shipped"), run_of("fsync off"), run_of("log off")];
    // The machine is half as fast in every second turn, which shows nothing about either side.
    let base = vec![100.0, 50.0, 100.0, 50.0];
    let other = vec![110.0, 55.0, 111.0, 55.0];
    let figure = PairFigure { base, other, ..PairFigure::default() };
    let pairs = vec![PairResult { base: 0, other: 1, figures: vec![figure] }];
    let file = SuiteResult { pairs, ..SuiteResult::default() };
    let suites = vec![Suite { runs: vec![0, 1, 2], file, ..Suite::default() }];
    let results = Results { runs, suites, only_suites: true };
    let comparison = compare(&results).unwrap();
    let [turns, once] = &comparison.pairs[..] else { panic!("two pairs") };
    let [throughput] = &turns.differences[..] else { panic!("one figure") };
    assert_eq!((turns.base.as_str(), turns.other.as_str()), ("as shipped", "fsync off"));
    assert_eq!((throughput.judgement, throughput.pairs), (Judgement::Real, Some(4)));
    assert!((throughput.base, throughput.other) == (75.0, 82.5), "medians: {throughput:?}");
    assert!(throughput.interval.unwrap().half_width() < 0.02, "{throughput:?}");
    assert!(
        turns.verdict.starts_with("“fsync off” is 10 % ± 0.8 % faster than “as shipped”"),
        "{}",
        turns.verdict
    );
    assert_eq!((once.other.as_str(), once.differences[0].pairs), ("log off", None));
    assert!(comparison.method().contains("turn by turn"), "{}", comparison.method());
    assert!(!comparison.method().contains("different times"), "what took no turns has no interval");
}
