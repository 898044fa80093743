//! Cycles of imports: modules that all lead to each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::ModulePath;
use super::graph::{Arrow, Graph};

/// Modules that all lead to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The modules; in a level of modules beside each other, each stands for all below it.
    pub modules: BTreeSet<ModulePath>,
    /// One way from a module back to itself, as an example.
    pub example: Vec<Arrow>,
}

impl fmt::Display for Cycle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.modules.iter().map(|path| path.join("::")).collect();
        write!(formatter, "{} modules import each other: {}", names.len(), names.join(", "))?;
        self.example.iter().try_for_each(|arrow| write!(formatter, "\n    {arrow}"))
    }
}

/// All cycles of a crate: between files, and between the modules beside each other in one module, each with all below
/// it.
pub fn cycles(graph: &Graph) -> Vec<Cycle> {
    let arrows = graph.arrows();
    let mut levels: BTreeMap<Option<&[String]>, Vec<Step<'_>>> = BTreeMap::new();
    for arrow in &arrows {
        levels.entry(None).or_default().push((arrow.from.clone(), arrow.to.clone(), arrow));
        let common = arrow.from.iter().zip(&arrow.to).take_while(|(from, to)| from == to).count();
        let [from, to] = [&arrow.from, &arrow.to].map(|path| path[..=common].to_vec());
        levels.entry(Some(&arrow.from[..common])).or_default().push((from, to, arrow));
    }
    let mut found: Vec<Cycle> = Vec::new();
    for cycle in levels.values().flat_map(|level| of_level(level)) {
        if !found.iter().any(|known| known.modules == cycle.modules) {
            found.push(cycle);
        }
    }
    found
}

/// An arrow, and the modules between which it leads at some level.
type Step<'all> = (ModulePath, ModulePath, &'all Arrow);

/// Every module with its successors, and an arrow for each.
type Ways<'all> = BTreeMap<&'all ModulePath, BTreeMap<&'all ModulePath, &'all Arrow>>;

fn of_level(arrows: &[Step<'_>]) -> Vec<Cycle> {
    let mut ways: Ways<'_> = BTreeMap::new();
    for (from, to, arrow) in arrows {
        ways.entry(from).or_default().entry(to).or_insert(*arrow);
    }
    let reached: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
        ways.keys().map(|from| (*from, reachable(&ways, from))).collect();
    let mut done: BTreeSet<&ModulePath> = BTreeSet::new();
    let mut cycles = Vec::new();
    for (from, there) in &reached {
        let is_back = |to: &&&ModulePath| reached.get(**to).is_some_and(|back| back.contains(*from));
        let modules: BTreeSet<&ModulePath> = there.iter().filter(is_back).copied().collect();
        if modules.len() > 1 && !done.contains(*from) {
            done.extend(&modules);
            let example = way_back(&ways, from);
            cycles.push(Cycle { modules: modules.into_iter().cloned().collect(), example });
        }
    }
    cycles
}

/// The modules that can be reached from a module.
fn reachable<'all>(ways: &Ways<'all>, from: &ModulePath) -> BTreeSet<&'all ModulePath> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for to in ways.get(module).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(*to) {
                open.push(to);
            }
        }
    }
    reached
}

/// A shortest way from a module back to itself.
fn way_back(ways: &Ways<'_>, from: &ModulePath) -> Vec<Arrow> {
    let mut ends: Vec<(&ModulePath, Vec<Arrow>)> = vec![(from, Vec::new())];
    let mut seen: BTreeSet<&ModulePath> = BTreeSet::new();
    while !ends.is_empty() {
        let mut next = Vec::new();
        for (module, way) in ends {
            for (to, arrow) in ways.get(module).into_iter().flatten() {
                let way: Vec<Arrow> = way.iter().cloned().chain([(*arrow).clone()]).collect();
                if *to == from {
                    return way;
                }
                if seen.insert(to) {
                    next.push((*to, way));
                }
            }
        }
        ends = next;
    }
    Vec::new()
}
