//! The tree follows the house rules, and each rule detects violations.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use upesi_tidy::layers::{self, Layer, Package};
use upesi_tidy::width::{self, COMMENT_WIDTH_MAX, PROSE_WIDTH_MAX};
use upesi_tidy::{prose, spelling, tree};

/// Maximum number of floors in `crates/`, including the command.
const FLOORS_MAX: usize = 8;

fn none_of(mistakes: &[String]) {
    assert!(mistakes.is_empty(), "{} mistakes:\n{}", mistakes.len(), mistakes.join("\n"));
}

fn sources() -> Vec<(PathBuf, String)> {
    let read = |path: PathBuf| {
        let text = tree::read(&path);
        (path, text)
    };
    tree::files(&["rs"]).into_iter().map(read).collect()
}

#[test]
fn crates_use_only_lower_layers() {
    let declared = layers::declared(&tree::read(Path::new("ARCHITECTURE.md")));
    none_of(&layers::mistakes(&declared, &layers::packages()));
    let floors: BTreeSet<_> = declared.values().filter(|layer| **layer != Layer::Tools).collect();
    assert!(floors.len() <= FLOORS_MAX, "{floors:?}");
}

#[test]
fn dependency_on_a_higher_layer_is_found() {
    let page = [
        "## The map",
        "- command",
        "  - `crates/upesi`: it",
        "- L1",
        "  - `hub`: it",
        "    and more",
        "  - `http`: it",
        "- L0",
        "  - `types`: it",
        "- tools",
        "  - `lab`: it",
        "  - `testsupport`: it",
        "## More",
        "- L7",
    ];
    let declared = layers::declared(&page.join("\n"));
    assert_eq!(declared["http"], Layer::Floor(1));
    let package = |name: &str, ships, uses: &[&str]| Package {
        name: name.to_owned(),
        ships,
        uses: uses.iter().map(|name| (*name).to_owned()).collect(),
        tests_use: Vec::new(),
    };
    let all = |hub: &[&str]| {
        [
            package("upesi", true, &["hub", "lab"]),
            package("hub", true, hub),
            package("http", true, &["types"]),
            package("types", true, &[]),
            package("lab", false, &["hub"]),
            package("testsupport", false, &["hub"]),
        ]
    };
    none_of(&layers::mistakes(&declared, &all(&["types"])));
    for wrong in ["http", "lab", "upesi"] {
        assert_eq!(layers::mistakes(&declared, &all(&[wrong])).len(), 1, "{wrong}");
    }
    let mut tested = all(&["types"]);
    tested[3].tests_use = vec!["http".to_owned(), "lab".to_owned()];
    assert_eq!(layers::mistakes(&declared, &tested), ["tests of types use the tool lab"]);
    for index in 0..5 {
        let mut tested = all(&["types"]);
        tested[index].tests_use = vec!["testsupport".to_owned()];
        none_of(&layers::mistakes(&declared, &tested));
        let mut used = all(&["types"]);
        used[index].uses.push("testsupport".to_owned());
        assert_eq!(layers::mistakes(&declared, &used).len(), 1, "{}", used[index].name);
    }
    let moved = [package("types", false, &[]), package("new", true, &[])];
    let one = BTreeMap::from([("types".to_owned(), Layer::Floor(0)), ("old".to_owned(), Layer::Tools)]);
    assert_eq!(layers::mistakes(&one, &moved).len(), 3);
}

/// The mistakes in a line of a comment or a page: its width, if it could be broken, and its words.
fn mistakes_of_line(
    place: &str,
    line: &str,
    words: &str,
    width_max: usize,
    is_breakable: bool,
) -> Vec<String> {
    let is_wide = is_breakable && line.chars().count() > width_max;
    let wide = is_wide.then(|| format!("{place} is wider than {width_max}: run `make format`"));
    let banned =
        prose::banned(words).map(|(phrase, instead)| format!("{place} says {phrase:?}: write {instead}"));
    wide.into_iter().chain(banned).collect()
}

#[test]
fn comments_and_pages_fit_their_width_without_banned_phrases() {
    let mut mistakes = Vec::new();
    for (path, text) in sources().iter().filter(|(path, _)| !path.starts_with("tools/tidy")) {
        for (index, line) in text.lines().enumerate() {
            let Some(comment) = width::comment(line) else { continue };
            let words = comment.trim_start_matches(['/', '!']).trim();
            let is_breakable = words.contains(' ') && !words.starts_with('|');
            let place = format!("{}:{}", path.display(), index + 1);
            mistakes.extend(mistakes_of_line(&place, line, comment, COMMENT_WIDTH_MAX, is_breakable));
        }
    }
    for path in tree::files(&["md"]) {
        for (number, line) in width::prose(&tree::read(&path)) {
            let place = format!("{}:{number}", path.display());
            mistakes.extend(mistakes_of_line(&place, line, line, PROSE_WIDTH_MAX, true));
        }
    }
    none_of(&mistakes);
}

#[test]
fn wide_line_and_banned_phrase_are_found() {
    let wide = "word ".repeat(30);
    assert_eq!(
        mistakes_of_line("a:1", &wide, &wide, 149, true),
        ["a:1 is wider than 149: run `make format`"]
    );
    assert!(mistakes_of_line("a:1", &wide, &wide, 150, true).is_empty());
    assert!(mistakes_of_line("a:1", &wide, &wide, 149, false).is_empty());
    assert_eq!(mistakes_of_line("a:1", "/// Which.", "/// Which.", 120, true).len(), 1);
}

/// Files that have misspelt words, or parts of words, as patterns, examples and mistakes of users, and files with texts
/// in French.
const MISSPELT: [&str; 6] = [
    "console/src/words/french.rs",
    "console/tests/pages/languages.rs",
    "settings/src/tests.rs",
    "tidy/src/prose.rs",
    "tidy/tests/quick/house.rs",
    "upesi/tests/commands/command.rs",
];

/// The misspelt words of a file, each with its line and the right spellings.
fn misspelt(path: &Path, text: &str) -> Vec<String> {
    let of_line = |(index, line)| {
        let place = format!("{}:{}", path.display(), index + 1);
        let mistakes = spelling::misspelt(line).into_iter();
        mistakes.map(move |(word, right)| format!("{place} says {word:?}: write {}", right.join(" or ")))
    };
    text.lines().enumerate().flat_map(of_line).collect()
}

#[test]
fn words_of_sources_and_pages_are_spelt_right() {
    let files = tree::files(&["rs", "md", "toml", "yaml", "yml", "sh"]);
    let own = |path: &PathBuf| !tree::is_foreign(path) && !MISSPELT.iter().any(|name| path.ends_with(name));
    let mistakes = files.into_iter().filter(own).flat_map(|path| misspelt(&path, &tree::read(&path)));
    none_of(&mistakes.collect::<Vec<_>>());
}

#[test]
fn misspelt_word_is_found_in_texts_and_in_names() {
    let at = |line| misspelt(Path::new("a"), line);
    assert_eq!(at("// It is recieved."), ["a:1 says \"recieved\": write received"]);
    for name in
        ["let recieved = 1;", "fn is_recieved()", "struct RecievedOf;", "RECIEVED_MAX", "\"\\nrecieved\""]
    {
        assert_eq!(at(name).len(), 1, "{name}");
    }
    none_of(&at("// All names, such as HTTPServer, receivedAt and is_received, are right."));
}

#[test]
fn prose_is_separated_from_tables_and_code() {
    let page =
        "One line.\n\n| a | b |\n    code that is long\n```\nfenced too\n```\n- [link](x)\n- a sentence\n";
    assert_eq!(width::prose(page).collect::<Vec<_>>(), [(1, "One line."), (9, "- a sentence")]);
    assert!(width::comment("    /// Which.").and_then(prose::banned).is_some());
    assert_eq!(width::comment("let url = \"http://x\";"), None);
}

#[test]
fn source_files_are_part_of_their_crates() {
    let dead = tree::dead_modules(&sources());
    none_of(&dead.iter().map(|path| format!("{} is in no module", path.display())).collect::<Vec<_>>());
    let of = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
    let crate_of = [
        of("crates/a/src/lib.rs", "pub mod used;\n#[path = \"odd/place.rs\"]\nmod x;\n"),
        of("crates/a/src/used/mod.rs", ""),
        of("crates/a/src/odd/place.rs", "// mod forgotten;"),
        of("crates/a/src/forgotten.rs", ""),
        of("crates/a/tests/alone.rs", ""),
        of("crates/a/tests/many/main.rs", "mod one;"),
        of("crates/a/tests/many/one.rs", ""),
        of("crates/a/tests/many/left_out.rs", ""),
    ];
    let dead = ["crates/a/src/forgotten.rs", "crates/a/tests/many/left_out.rs"];
    assert_eq!(tree::dead_modules(&crate_of), dead.map(PathBuf::from));
}

#[test]
fn targets_without_tests_contain_none() {
    let manifests = tree::files(&["toml"]).into_iter().filter(|path| path.ends_with("Cargo.toml"));
    let manifests: Vec<_> = manifests.map(|path| (path.clone(), tree::read(&path))).collect();
    assert_eq!(tree::tests_that_never_run(&manifests, &sources()), BTreeSet::new());
    let of = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
    let manifest =
        "[package]\nname = \"a\"\n\n[lib]\ntest = false\n\n[[bin]]\npath = \"src/main.rs\"\ntest = false\n";
    let manifests = [of("a/Cargo.toml", manifest), of("b/Cargo.toml", "[lib]\npath = \"src/lib.rs\"\n")];
    let test = "#[test]\nfn sum_is_right() {}\n";
    let sources = [
        of("a/src/deep/sum.rs", test),
        of("a/src/lib.rs", "mod deep;"),
        of("a/src/main.rs", "mod more;"),
        of("a/tests/sums.rs", test),
        of("b/src/lib.rs", test),
    ];
    let silent = ["a/src/deep/sum.rs", "a/src/main.rs"].map(PathBuf::from);
    assert_eq!(tree::tests_that_never_run(&manifests, &sources), BTreeSet::from(silent));
}

#[test]
fn links_lead_to_files_and_pages_are_linked() {
    let pages = tree::files(&["md"]);
    let (mut mistakes, mut linked) = (Vec::new(), Vec::new());
    for page in &pages {
        for link in tree::links(&tree::read(page)).iter().filter(|link| !link.is_empty()) {
            let target = tree::root().join(page.parent().expect("a folder")).join(link);
            match target.canonicalize() {
                Ok(target) => linked.push(target),
                Err(_) => mistakes.push(format!("{} links to {link}, which is not there", page.display())),
            }
        }
    }
    for page in pages.iter().filter(|page| page.starts_with("docs")) {
        let path = tree::root().join(page);
        let is_linked = linked.iter().any(|target| *target == path || path.parent() == Some(target));
        if !is_linked {
            mistakes.push(format!("no page links to {}", page.display()));
        }
    }
    none_of(&mistakes);
}

#[test]
fn links_are_read_without_anchors_and_external_ones_are_skipped() {
    let page = "[a](b.md#c), [d](https://e.org/f), [g](#h) and [i](../j.md)";
    assert_eq!(tree::links(page), ["b.md", "../j.md"]);
}
