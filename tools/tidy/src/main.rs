//! The commands of the house rules that a developer runs: `make prose` and `make format`.

#![allow(clippy::print_stdout, reason = "the output of a command")]

use std::collections::BTreeSet;
use std::process::ExitCode;

use upesi_tidy::change::Change;
use upesi_tidy::prose::{CONSTRUCTIONS, Counter};
use upesi_tidy::{spelling, tree, width, wrap};

const HELP: &str = "\
upesi-tidy prose [--change REVISION] [--list CONSTRUCTION|all] [--limits]
    Counts the constructions that make English hard to read.
    --change REVISION    only on the lines that were added since a revision
    --list CONSTRUCTION  prints the lines that have a construction, or any
    --limits             fails if a construction exceeds its limit
upesi-tidy format
    Wraps the comments and pages that are too wide.
upesi-tidy misspellings FILE
    Prints the list of misspellings for the words of the tree, from src/word_codegen.rs of the crate typos-dict.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["prose", options @ ..] => prose(options),
        ["format"] => format(),
        ["misspellings", file] => misspellings(file),
        _ => Err(HELP.to_owned()),
    };
    match done {
        Ok(code) => code,
        Err(message) => {
            eprintln!("{}", message.trim_end());
            ExitCode::from(64)
        }
    }
}

fn prose(mut options: &[&str]) -> Result<ExitCode, String> {
    let (mut change, mut list, mut has_limits) = (None, None, false);
    loop {
        options = match options {
            [] => break,
            ["--change", revision, rest @ ..] => {
                change = Some(Change::since(revision)?);
                rest
            }
            ["--list", name, rest @ ..] => {
                list = Some(*name);
                rest
            }
            ["--limits", rest @ ..] => {
                has_limits = true;
                rest
            }
            _ => return Err(HELP.to_owned()),
        };
    }
    let is_known = |name| name == "all" || CONSTRUCTIONS.iter().any(|construction| construction.name == name);
    if let Some(name) = list.filter(|name| !is_known(*name)) {
        return Err(format!("no construction is called {name}"));
    }
    let count = Counter::default().count(change.as_ref());
    if let Some(wanted) = list {
        for hit in &count.hits {
            let name = CONSTRUCTIONS[hit.construction].name;
            if wanted == "all" || wanted == name {
                println!("{}:{}: {name}: {}", hit.path.display(), hit.line, hit.text.trim());
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", count.table());
    let mut constructions = CONSTRUCTIONS.iter().enumerate();
    let is_over = constructions.any(|(index, construction)| count.exceeds(index, construction.limit));
    Ok(if has_limits && is_over { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn format() -> Result<ExitCode, String> {
    for path in tree::files(&["rs", "md"]) {
        if tree::is_foreign(&path) {
            continue;
        }
        let text = tree::read(&path);
        let is_page = path.extension().is_some_and(|ending| ending == "md");
        let wrapped = if is_page {
            wrap::page(&text, width::PROSE_WIDTH_MAX)
        } else {
            wrap::source(&text, width::COMMENT_WIDTH_MAX)
        };
        if wrapped != text {
            std::fs::write(tree::root().join(&path), wrapped)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            println!("{}: wrapped", path.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn misspellings(file: &str) -> Result<ExitCode, String> {
    let source = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let files = tree::files(&["rs", "md"]).into_iter().filter(|path| !tree::is_foreign(path));
    let texts: Vec<String> = files.map(|path| tree::read(&path)).collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    let used: BTreeSet<String> =
        lines.flat_map(spelling::checked_words).map(str::to_ascii_lowercase).collect();
    print!("{}", spelling::list(&used, &source));
    Ok(ExitCode::SUCCESS)
}
