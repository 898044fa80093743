//! The imports between the modules of each crate follow the rules, and each rule detects violations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use upesi_tidy::imports::{self, Graph, Order};
use upesi_tidy::tree;

/// Maximum number of modules that import each other.
const CYCLE_MODULES_MAX: usize = 2;

/// Crates with larger cycles, each with the size of the largest. The numbers may only become smaller.
///
/// In `admin`, a change answers with the approval that it waits for, and an approval makes changes.
const LARGE_CYCLES: &[(&str, usize)] = &[("admin", 3)];

fn none_of(mistakes: &[String]) {
    assert!(mistakes.is_empty(), "{} mistakes:\n{}", mistakes.len(), mistakes.join("\n"));
}

/// The folders of the crates, each with the root of its modules.
fn crates(sources: &BTreeMap<PathBuf, String>) -> BTreeMap<PathBuf, PathBuf> {
    let mut roots = BTreeMap::new();
    for path in sources.keys() {
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        let [wing, name, source, file] = parts.as_slice() else { continue };
        // A library has precedence over the program beside it.
        if source == "src" && (file == "lib.rs" || file == "main.rs") {
            roots.entry(Path::new(&**wing).join(&**name)).or_insert_with(|| path.clone());
        }
    }
    roots
}

/// The crates of the tree by name.
fn graphs() -> BTreeMap<String, (PathBuf, Graph)> {
    let read = |path: PathBuf| {
        let text = tree::read(&path);
        (path, text)
    };
    let sources: BTreeMap<PathBuf, String> = tree::files(&["rs"]).into_iter().map(read).collect();
    let named = |(folder, root): (PathBuf, PathBuf)| {
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        (name, (folder, Graph::read(&sources, &root)))
    };
    crates(&sources).into_iter().map(named).collect()
}

#[test]
fn modules_import_in_order_and_without_large_cycles() {
    let graphs = graphs();
    assert!(graphs.len() > 20, "{:?}", graphs.keys());
    let mut mistakes = Vec::new();
    let readmes = tree::files(&["md"]).into_iter().filter(|path| path.ends_with("README.md"));
    let mut orders = 0;
    for readme in readmes {
        let Some((folder, graph)) = graphs.values().find(|(folder, _)| readme.starts_with(folder)) else {
            continue;
        };
        if let Some(order) = imports::order(&readme, &tree::read(&readme), &folder.join("src")) {
            mistakes.extend(imports::against_order(graph, &order));
            orders += 1;
        }
    }
    assert!(orders > 0, "no README declares an order");
    let graphs = graphs.into_iter().map(|(name, (_, graph))| (name, graph)).collect();
    mistakes.extend(imports::too_large(&graphs, CYCLE_MODULES_MAX, LARGE_CYCLES));
    none_of(&mistakes);
}

/// A crate of these files.
fn crate_of(files: &[(&str, &str)]) -> Graph {
    let sources =
        files.iter().map(|(path, text)| (Path::new("a/src").join(path), (*text).to_owned())).collect();
    Graph::read(&sources, Path::new("a/src/lib.rs"))
}

/// The arrows of a crate, each as `FROM > TO NAME`.
fn arrows(files: &[(&str, &str)]) -> Vec<String> {
    let text = |arrow: imports::Arrow| {
        let text = format!("{} > {} {}", arrow.from.join("::"), arrow.to.join("::"), arrow.name);
        text.trim_end().to_owned()
    };
    crate_of(files).arrows().into_iter().map(text).collect()
}

const ROOT: (&str, &str) = ("lib.rs", "mod low;\nmod high;\npub use low::Low;\n");

#[test]
fn imports_and_paths_anywhere_are_arrows() {
    for (code, expected) in [
        ("use crate::low::{self, Low as Other};", &["high > low", "high > low Low"][..]),
        ("use super::low::{\n    deep::Deep,\n    *,\n};", &["high > low", "high > low::deep Deep"]),
        ("fn f(a: crate::low::Low) { let _ = a; }", &["high > low Low"]),
        ("fn f() { println!(\"{}\", crate::low::number()); }", &["high > low number"]),
        ("#[arg(value_parser = crate::low::number)]\nstruct A;", &["high > low number"]),
        ("mod inner { use super::super::low::Low; }", &["high > low Low"]),
        (
            "fn f() { use crate::low::Low; }\nfn g() -> impl Sized + use<> { crate::low::number() }",
            &["high > low Low", "high > low number"],
        ),
        // A re-export leads to the module that defines the item.
        ("use crate::Low;", &["high > low Low"]),
        ("use crate::low::Shown;", &["high > low::deep Shown"]),
        ("use crate::low;\nuse low::Low;", &["high > low", "high > low Low"]),
        // No arrows: other crates, the own module, tests, comments and texts.
        ("use std::fmt;\nuse self::Own;\nstruct Own;", &[]),
        ("#[cfg(test)]\nmod tests { use crate::low::Low; }", &[]),
        ("#[cfg(all(test, unix))]\nuse crate::low::Low;", &[]),
        ("#[cfg(test)]\nfn f<A: Sized, B>(a: crate::low::Low) where A: Sized, B: Sized {}", &[]),
        ("struct A { #[cfg(test)] low: crate::low::Low, b: u8 }", &[]),
        ("// use crate::low::Low;\nconst A: &str = \"crate::low::Low\";", &[]),
    ] {
        let low = ("low/mod.rs", "mod deep;\npub use deep::*;\npub struct Low;\npub fn number() {}");
        let deep = ("low/deep.rs", "pub struct Deep;\npub struct Shown;");
        assert_eq!(arrows(&[ROOT, ("high.rs", code), low, deep]), expected, "{code}");
    }
}

#[test]
fn module_has_no_arrow_to_modules_below_it() {
    let files = [
        ("lib.rs", "mod a;\nstruct Own;"),
        ("a.rs", "mod b;\nuse b::B;\nstruct A;"),
        ("a/b.rs", "use super::A;\nuse crate::Own;\npub struct B;"),
    ];
    assert_eq!(arrows(&files), Vec::<String>::new());
}

fn order_of(names: &[&str]) -> Order {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Order { readme: PathBuf::from("a/README.md"), parent: Vec::new(), names }
}

#[test]
fn arrow_against_the_order_is_reported_with_line_and_modules() {
    let files =
        [ROOT, ("low.rs", "pub struct Low;\nuse crate::high::High;"), ("high.rs", "pub struct High;")];
    let graph = crate_of(&files);
    assert_eq!(
        imports::against_order(&graph, &order_of(&["low", "high"])),
        ["a/src/low.rs:2: low uses high (High), but high is after low in a/README.md"]
    );
    assert_eq!(imports::against_order(&graph, &order_of(&["high", "low"])), Vec::<String>::new());
    assert_eq!(
        imports::against_order(&graph, &order_of(&["high", "old"])),
        [
            "a/README.md: the order of modules lacks low",
            "a/README.md: the order of modules names old, which is not a module"
        ]
    );
}

#[test]
fn order_in_a_folder_concerns_its_own_modules() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a/mod.rs", "mod one;\nmod two;"),
        ("a/one.rs", "use super::two::Two;"),
        ("a/two.rs", "pub struct Two;"),
    ];
    let graph = crate_of(&files);
    let text = format!("# A\n\n{}\n\n    one <\n    two\n\nMore.\n", imports::ORDER_SENTENCE);
    let order = imports::order(Path::new("a/src/a/README.md"), &text, Path::new("a/src")).unwrap();
    assert_eq!(order.parent, ["a"]);
    assert_eq!(order.names, ["one", "two"]);
    assert_eq!(
        imports::against_order(&graph, &order),
        ["a/src/a/one.rs:1: a::one uses a::two (Two), but two is after one in a/src/a/README.md"]
    );
    let of_crate = imports::order(Path::new("a/README.md"), &text, Path::new("a/src")).unwrap();
    assert!(of_crate.parent.is_empty());
    assert_eq!(imports::order(Path::new("a/README.md"), "# A\n", Path::new("a/src")), None);
}

/// The mistakes of a crate whose modules are `a`, `b` and so on, each with the modules that it uses.
fn cycles_of(uses: &[&str], exceptions: &[(&str, usize)]) -> Vec<String> {
    let names: Vec<String> = ('a'..).take(uses.len()).map(String::from).collect();
    let root: String = names.iter().map(|name| format!("mod {name};\n")).collect();
    let mut files = vec![("lib.rs".to_owned(), root)];
    for (name, uses) in names.iter().zip(uses) {
        let text: String = uses.chars().map(|used| format!("use crate::{used}::Item;\n")).collect();
        files.push((format!("{name}.rs"), text + "pub struct Item;\n"));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let graphs = BTreeMap::from([("one".to_owned(), crate_of(&files))]);
    imports::too_large(&graphs, 2, exceptions)
}

#[test]
fn too_large_cycle_is_found() {
    let nothing = Vec::<String>::new();
    assert_eq!(cycles_of(&["b", "c", ""], &[]), nothing);
    assert_eq!(cycles_of(&["b", "a", "ab"], &[]), nothing, "two may import each other");
    let found = cycles_of(&["b", "c", "a", "a"], &[]);
    assert_eq!(
        found,
        [[
            "one: 3 modules import each other: a, b, c",
            "    a/src/a.rs:1: a uses b (Item)",
            "    a/src/b.rs:1: b uses c (Item)",
            "    a/src/c.rs:1: c uses a (Item); at most 2 are allowed",
        ]
        .join("\n")]
    );
}

#[test]
fn exception_that_is_too_large_is_found() {
    let three = ["b", "c", "a"];
    assert_eq!(cycles_of(&three, &[("one", 3)]), Vec::<String>::new());
    assert_eq!(
        cycles_of(&three, &[("one", 4)]),
        ["the largest cycle of imports of one has 3 modules: lower its exception"]
    );
    assert_eq!(
        cycles_of(&["b", "a"], &[("one", 3)]),
        ["one no longer has a large cycle of imports: remove its exception"]
    );
    assert_eq!(cycles_of(&[""], &[("two", 3)]), ["two has an exception, but it is not a crate"]);
    assert_eq!(cycles_of(&["b", "c", "d", "a"], &[("one", 3)]).len(), 1);
}

#[test]
fn cycle_of_folders_without_a_cycle_of_files_is_found() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod c;"),
        ("a/mod.rs", "mod x;\nmod y;"),
        ("a/x.rs", "use crate::b::x::Item;\n"),
        ("a/y.rs", "pub struct Item;"),
        ("b/mod.rs", "pub mod x;\nmod y;"),
        ("b/x.rs", "pub struct Item;"),
        ("b/y.rs", "use crate::c::Item;"),
        ("c.rs", "use crate::a::y::Item as Other;\npub struct Item;"),
    ];
    let found = imports::cycles(&crate_of(&files));
    let modules: Vec<Vec<String>> =
        found.iter().map(|cycle| cycle.modules.iter().map(|path| path.join("::")).collect()).collect();
    assert_eq!(modules, [["a", "b", "c"]]);
}
