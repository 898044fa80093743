//! What a hub with a history is to reach.

use super::report::{Curve, Row};
use crate::judge::objective::{Objective, ObjectiveResult};

const MB: f64 = 1e6;

fn last(curve: &Curve, of: impl Fn(&Row) -> f64) -> f64 {
    curve.rows.last().map_or(f64::INFINITY, of)
}

fn most(curve: &Curve, of: impl Fn(&Row) -> f64) -> f64 {
    curve.rows.iter().map(of).fold(0.0, f64::max)
}

const THROUGHPUT: Objective<Curve> =
    Objective::at_least("throughput with the whole history", "% of an empty hub's, in turn", 85.0, |curve| {
        curve.rows.last().and_then(Row::part_of_empty).map_or(0.0, |part| part * 100.0)
    });

const ALWAYS: [Objective<Curve>; 3] = [
    Objective::at_most("memory of the hub", "MB at most, at any step", 1_000.0, |curve| {
        most(curve, |row| row.hub_rss_most() as f64 / MB)
    }),
    Objective::at_most("restart", "s to serving, at any step", 5.0, |curve| {
        most(curve, |row| row.restart_ms as f64 / 1e3)
    }),
    Objective::at_most("disk beyond the journal", "bytes per transfer at the end", 300.0, |curve| {
        last(curve, Row::disk_each)
    }),
];

const UPKEEP: Objective<Curve> =
    Objective::at_least("served during upkeep", "% of what is due, in the worst task", 95.0, |curve| {
        curve.upkeep.as_ref().map_or(0.0, |upkeep| upkeep.served_least() * 100.0)
    });

/// The curve judged by what it has: throughput and upkeep are left out where they were not asked for.
pub(super) fn judge(curve: &Curve) -> Vec<ObjectiveResult> {
    let throughput = (curve.load_s > 0).then_some(&THROUGHPUT);
    let upkeep = curve.upkeep.is_some().then_some(&UPKEEP);
    let aims = throughput.into_iter().chain(&ALWAYS).chain(upkeep);
    aims.map(|aim| ObjectiveResult::of(aim, std::slice::from_ref(curve))).collect()
}
