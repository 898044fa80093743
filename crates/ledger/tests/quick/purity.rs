//! The pure layers are `no_std`, so that IO, clocks and threads do not compile, and have no floating point.

use std::fs;
use std::path::{Path, PathBuf};

const PURE_CRATES: [&str; 4] = ["types", "fspiop", "ledger", "admission"];
const BANNED_WORDS: [&str; 3] = ["std", "f32", "f64"];

#[test]
fn pure_crates_declare_no_std() {
    for name in PURE_CRATES {
        let library = fs::read_to_string(sources(name).join("lib.rs")).expect("a library");
        assert!(library.lines().any(|line| line == "#![no_std]"), "{name} must begin with #![no_std]");
    }
}

#[test]
fn pure_crates_use_neither_std_nor_floats() {
    for name in PURE_CRATES {
        let mut files = Vec::new();
        collect(&sources(name), &mut files);
        assert!(!files.is_empty());
        for file in files {
            let text = fs::read_to_string(&file).expect("a source file");
            for (index, line) in text.lines().enumerate() {
                if let Some(word) = banned_word(line) {
                    panic!("{}:{}: {word} does not belong into a pure crate", file.display(), index + 1);
                }
            }
        }
    }
}

#[test]
fn banned_words_are_found_where_they_stand_alone() {
    for line in ["use std::fs;", "extern crate std;", "let x: f64 = 1.0;", "(1 as f32)"] {
        assert!(banned_word(line).is_some(), "{line}");
    }
    for line in ["#![no_std]", "//! `std` in prose", "use core::fmt;", "let df64x = 1;"] {
        assert!(banned_word(line).is_none(), "{line}");
    }
}

/// A banned word in the code of a line. Comments may have any word.
fn banned_word(line: &str) -> Option<&'static str> {
    let code = line.split("//").next().unwrap_or_default();
    let mut words = code.split(|character: char| !character.is_alphanumeric() && character != '_');
    words.find_map(|word| BANNED_WORDS.into_iter().find(|banned| *banned == word))
}

fn sources(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src")
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a source directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
