//! Checks the imports between the modules of a crate: their order, and cycles among them.
//!
//! An arrow leads from a module to another module of its crate that it imports from, or whose path it writes
//! (`crate::…`, `super::…`, `self::…`, also inside macros). Rules of the graph:
//!
//! - A module is a file. The uses of an inline `mod` count for its file.
//! - Tests do not count: items under `#[cfg(test)]`, and files of `mod`s under it.
//! - An import through a re-export leads to the module that defines the item. If no module of the crate defines a name
//!   in its text (for example, a macro defines it), the arrow leads to the module where the search ends.
//! - A module and the modules below it have no arrows between them, because the one contains the others.
//!
//! A README in a crate's folder, or in a folder of its modules, can declare the order of the modules beside each other:
//! the lines after [`ORDER_SENTENCE`].

mod cycles;
mod graph;
pub(crate) mod tokens;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use cycles::{Cycle, cycles};
pub use graph::{Arrow, Graph};

/// The sentence of a README before the order of modules: indented lines with `<` between the names.
pub const ORDER_SENTENCE: &str = "A module imports only from modules before it:";

/// The path of a module, without the crate: `["plan", "read"]`; empty for the crate's root.
pub type ModulePath = Vec<String>;

/// The order of modules beside each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub readme: PathBuf,
    /// The module that contains them.
    pub parent: ModulePath,
    /// The modules in their order.
    pub names: Vec<String>,
}

/// The order that a README declares, if it declares one. `sources` is the folder of the crate's sources.
pub fn order(readme: &Path, text: &str, sources: &Path) -> Option<Order> {
    let lines = text.lines().skip_while(|line| line.trim() != ORDER_SENTENCE).skip(1);
    let block = lines.skip_while(|line| line.is_empty()).take_while(|line| line.starts_with("    "));
    let block = block.collect::<Vec<_>>().join(" ");
    let names: Vec<String> = block.split('<').map(|name| name.trim().to_owned()).collect();
    let folder = readme.parent()?.strip_prefix(sources).unwrap_or(Path::new(""));
    let parent = folder.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    (!block.is_empty()).then(|| Order { readme: readme.to_owned(), parent, names })
}

/// The arrows against an order, and modules that are missing in it or in the crate.
pub fn against_order(graph: &Graph, order: &Order) -> Vec<String> {
    let readme = order.readme.display();
    let modules = graph.children(&order.parent);
    let missing = modules.iter().filter(|name| !order.names.contains(name));
    let gone = order.names.iter().filter(|name| !modules.contains(name));
    let mut mistakes: Vec<String> =
        missing.map(|name| format!("{readme}: the order of modules lacks {name}")).collect();
    mistakes.extend(
        gone.map(|name| format!("{readme}: the order of modules names {name}, which is not a module")),
    );
    let place = |name: &String| order.names.iter().position(|known| known == name);
    for arrow in graph.arrows() {
        let Some((from, to)) = arrow.beside_each_other(&order.parent) else { continue };
        if place(from).zip(place(to)).is_some_and(|(from, to)| to > from) {
            mistakes.push(format!("{arrow}, but {to} is after {from} in {readme}"));
        }
    }
    mistakes
}

/// The cycles with more modules than allowed, and exceptions that are larger than needed.
///
/// `exceptions` are crates with larger cycles than `modules_max`, and the size of the largest.
pub fn too_large(
    graphs: &BTreeMap<String, Graph>,
    modules_max: usize,
    exceptions: &[(&str, usize)],
) -> Vec<String> {
    let mut mistakes = Vec::new();
    for (name, graph) in graphs {
        let found = cycles(graph);
        let largest = found.iter().map(|cycle| cycle.modules.len()).max().unwrap_or(0);
        let exception = exceptions.iter().find(|(known, _)| known == name).map(|(_, size)| *size);
        let allowed = exception.unwrap_or(modules_max);
        let large = found.iter().filter(|cycle| cycle.modules.len() > allowed);
        mistakes.extend(large.map(|cycle| format!("{name}: {cycle}; at most {allowed} are allowed")));
        if exception.is_some() && largest <= modules_max {
            mistakes.push(format!("{name} no longer has a large cycle of imports: remove its exception"));
        } else if exception.is_some_and(|size| largest < size) {
            mistakes.push(format!(
                "the largest cycle of imports of {name} has {largest} modules: lower its exception"
            ));
        }
    }
    let is_gone = |name: &&str| !graphs.contains_key(*name);
    let gone = exceptions.iter().map(|(name, _)| *name).filter(is_gone);
    mistakes.extend(gone.map(|name| format!("{name} has an exception, but it is not a crate")));
    mistakes
}
