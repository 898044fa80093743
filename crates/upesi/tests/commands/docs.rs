//! The program's output about its settings and exit codes is complete, and pages name only settings that exist.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use upesi_process::exit::Exit;
use upesi_settings::{CATALOGUE, SECTIONS};

/// The fewest words that can describe a setting or an exit code.
const WORDS_MIN: usize = 2;

fn printed(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_upesi")).args(arguments).output().expect("the binary runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The cell at `after` from the end, in the row that begins with `first`.
fn cell<'a>(page: &'a str, first: &str, after: usize) -> &'a str {
    let row = page.lines().find(|line| line.starts_with(&format!("| {first} |")));
    let row = row.unwrap_or_else(|| panic!("{first} is not printed"));
    row.trim_end_matches(" |").rsplit(" | ").nth(after).expect("a cell")
}

fn assert_described(name: &str, text: &str) {
    assert!(text.split_whitespace().count() >= WORDS_MIN, "{name} is not described: {text:?}");
}

#[test]
fn every_setting_is_printed_with_its_meaning() {
    let page = printed(&["config", "--reference", "--all"]);
    assert_eq!(page, upesi_settings::reference(true));
    let sections = SECTIONS.iter().map(|section| (section.name, format!("[{}]", section.name)));
    for (section, title) in sections.chain([("dfsp", "[[dfsp]]".to_owned())]) {
        let (_, part) = page.split_once(&format!("\n## {title}\n\n")).expect("the section is printed");
        let part = part.split("\n## [").next().expect("a part");
        assert_described(section, part.split("\n\n").next().expect("a paragraph"));
        for setting in CATALOGUE.iter().filter(|setting| setting.section == section) {
            assert_described(&setting.key, cell(part, &format!("`{}`", setting.name), 0));
        }
    }
}

#[test]
fn every_exit_code_is_printed_with_meaning_and_remedy() {
    let page = printed(&["help", "exit-codes"]);
    assert_eq!(page, Exit::reference());
    for exit in Exit::ALL {
        let code = exit.code().to_string();
        assert_described(&code, cell(&page, &code, 1));
        assert!(!cell(&page, &code, 0).is_empty(), "{code} has no remedy");
    }
}

/// Pages for operators and DFSPs.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = [root.clone(), root.join("docs"), root.join("docs/resources")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let files = entries.map(|entry| entry.expect("an entry").path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect()
}

/// Text files that may name a setting: pages, tests, packaged files, scenarios, tools.
fn texts_below(folder: &Path, texts: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let ending = name.rsplit('.').next().unwrap_or_default();
        if path.is_dir() {
            if !matches!(&*name, "target" | "node_modules" | "evidence" | "src") {
                texts_below(&path, texts);
            }
        } else if matches!(ending, "md" | "rs" | "toml" | "yaml" | "py") {
            texts.push_str(&fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

#[test]
fn every_setting_is_used_by_a_page_or_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut texts = fs::read_to_string(root.join("README.md")).expect("a page");
    for folder in ["docs", "packaging", "scenarios", "crates", "tools"] {
        texts_below(&root.join(folder), &mut texts);
    }
    let is_part = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
    let words: HashSet<&str> = texts.split(is_part).collect();
    let unused: Vec<_> = CATALOGUE.iter().filter(|setting| !words.contains(setting.name)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

/// Settings that a page names in code style, as `section.name`. Files such as `log.rs` are not settings.
fn settings_named(page: &str) -> impl Iterator<Item = &str> {
    let is_section = |name: &str| name == "dfsp" || SECTIONS.iter().any(|section| section.name == name);
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    page.split('`').skip(1).step_by(2).filter(move |code| {
        let parts = code.split_once('.');
        parts.is_some_and(|(section, name)| {
            is_section(section) && name.len() > 2 && name.chars().all(is_letter)
        })
    })
}

#[test]
fn settings_named_by_pages_exist() {
    let mut count = 0;
    // The change log also names former settings.
    for path in pages().into_iter().filter(|path| !path.ends_with("CHANGELOG.md")) {
        for named in settings_named(&fs::read_to_string(&path).expect("a page")) {
            let is_known = CATALOGUE.iter().any(|setting| setting.key == named);
            assert!(is_known, "{} names {named}, which is not a setting", path.display());
            count += 1;
        }
    }
    assert!(count > 100, "only {count} settings are named");
    assert_eq!(
        settings_named("`tls.x`, `log.rs`, `log.level` and `a.level`").collect::<Vec<_>>(),
        ["log.level"]
    );
}
