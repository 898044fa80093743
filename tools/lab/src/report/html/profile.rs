//! The hub's CPU time by stage, if a profile lies beside the result.

use std::collections::BTreeMap;

use super::markup::Markup;
use super::table::{Cell, table};
use crate::report::figures::{ABSENT, count, percent};
use crate::report::run::Run;

/// A row for each stage, with the parts of it by what the processor did there; nothing without a profile.
pub(crate) fn shares(run: &Run) -> Markup {
    let Some(shares) = run.shares.as_ref().filter(|shares| shares.samples > 0) else { return Markup::new() };
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for inside in shares.stages.iter().flat_map(|stage| &stage.inside) {
        *sums.entry(&inside.what).or_default() += inside.share;
    }
    let mut kinds: Vec<(&str, f64)> = sums.into_iter().collect();
    kinds.sort_by(|one, other| other.1.total_cmp(&one.1));
    let rows = shares.stages.iter().map(|stage| {
        let inside = kinds.iter().map(|(kind, _)| {
            let found = stage.inside.iter().find(|inside| inside.what == *kind);
            found.map_or_else(|| ABSENT.to_owned(), |inside| percent(inside.share)).into()
        });
        let figures = [percent(stage.share), percent(stage.error), count(stage.samples)].map(Cell::from);
        [stage.stage.as_str().into(), Cell::share(stage.share, None)]
            .into_iter()
            .chain(figures)
            .chain(inside)
            .collect()
    });
    let all = [percent(1.0), String::new(), count(shares.samples)].into_iter();
    let all = all.chain(kinds.iter().map(|(_, sum)| percent(*sum))).map(Cell::from);
    let all: Vec<Cell> = ["all".into(), Cell::share(1.0, None)].into_iter().chain(all).collect();
    let head: Vec<&str> = ["stage", " … ", "share", "±", "samples"]
        .into_iter()
        .chain(kinds.iter().map(|(kind, _)| *kind))
        .collect();
    let mut markup = table(&head, rows.chain([all]));
    markup.put(
        "<p class=\"note\">The hub's CPU time by stage, from {} samples of its stacks. A sample belongs to the innermost stage that it \
         lies in. ± is half of the share's 95 % interval, if samples are independent.</p>",
        &[&count(shares.samples)],
    );
    markup
}

/// The flame graph of the same samples, folded; nothing if there is none that a page can hold.
pub(crate) fn flame_graph(run: &Run) -> Markup {
    let mut markup = Markup::new();
    if let Some(graph) = &run.flame_graph {
        // As an image it can run nothing and fetch nothing.
        markup.put(
            "<details><summary>The flame graph of the same samples</summary><img alt=\"Flame graph\" style=\"max-width:100%\" \
             src=\"data:image/svg+xml;base64,{}\"></details>",
            &[graph],
        );
    }
    markup
}
