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

const THROUGHPUT: Objective<Curve> = Objective {
    name: "throughput with the whole history",
    unit: "% of an empty hub's, in turn",
    is_at_least: true,
    goal: 85.0,
    of: |curve| {
        let row = curve.rows.last();
        row.and_then(Row::part_of_empty).map_or(0.0, |part| part * 100.0)
    },
};

const ALWAYS: [Objective<Curve>; 3] = [
    Objective {
        name: "memory of the hub",
        unit: "MB at most, at any step",
        is_at_least: false,
        goal: 1_000.0,
        of: |curve| most(curve, |row| row.hub_rss_most() as f64 / MB),
    },
    Objective {
        name: "restart",
        unit: "s to serving, at any step",
        is_at_least: false,
        goal: 5.0,
        of: |curve| most(curve, |row| row.restart_ms as f64 / 1e3),
    },
    Objective {
        name: "disk beyond the journal",
        unit: "bytes per transfer at the end",
        is_at_least: false,
        goal: 300.0,
        of: |curve| last(curve, Row::disk_each),
    },
];

const UPKEEP: Objective<Curve> = Objective {
    name: "served during upkeep",
    unit: "% of what is due, in the worst task",
    is_at_least: true,
    goal: 95.0,
    of: |curve| curve.upkeep.as_ref().map_or(0.0, |upkeep| upkeep.served_least() * 100.0),
};

/// The curve judged by what it has: throughput and upkeep are left out where they were not asked for.
pub(super) fn judge(curve: &Curve) -> Vec<ObjectiveResult> {
    let throughput = (curve.load_s > 0).then_some(&THROUGHPUT);
    let upkeep = curve.upkeep.is_some().then_some(&UPKEEP);
    let aims = throughput.into_iter().chain(&ALWAYS).chain(upkeep);
    aims.map(|aim| ObjectiveResult::of(aim, std::slice::from_ref(curve))).collect()
}
