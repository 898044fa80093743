//! The tree keeps the limits of the constructions that make English hard to read, and each construction is found.

use std::path::Path;

use upesi_tidy::change::Change;
use upesi_tidy::prose::{CONSTRUCTIONS, Count, Counter};
use upesi_tidy::texts::texts;

fn count(path: &str, content: &str, change: Option<&Change>) -> Count {
    let mut count = Count::default();
    Counter::default().add(&mut count, Path::new(path), content, change);
    count
}

fn names(count: &Count) -> Vec<&'static str> {
    count.hits.iter().map(|hit| CONSTRUCTIONS[hit.construction].name).collect()
}

#[test]
fn tree_keeps_every_limit() {
    let count = Counter::default().count(None);
    assert!(count.words > 300_000, "{}", count.words);
    let mistakes = count.above_limits();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn constructions_are_found() {
    let sentences = [
        ("what-clause", "The record says what came of the transfer."),
        ("where-for-if", "A default applies where nothing is set."),
        ("is-told", "The DFSP is asked for the outcome."),
        ("nobody", "Nobody may read the key."),
        ("gives-tells", "The call gives the state."),
        ("who-as-noun", "The participants; who sends may not receive."),
        ("those-that", "The errors are those that the hub sends."),
        ("relative-for-noun", "Ask the node that leads."),
        ("germanic", "A proxy is no participant."),
        ("archaic", "The hub reads the file anew."),
        ("pronoun-opening", "It is the state of a transfer."),
        ("of-which", "The state from which a transfer begins."),
    ];
    assert_eq!(
        sentences.map(|(name, _)| name).to_vec(),
        CONSTRUCTIONS.iter().map(|one| one.name).collect::<Vec<_>>()
    );
    for (name, sentence) in sentences {
        assert_eq!(names(&count("a.rs", &format!("    /// {sentence}\n"), None)), [name], "{sentence}");
    }
    assert_eq!(names(&count("a.md", "The hub tells the DFSP; then it tells the operator.", None)).len(), 2);
}

/// A loose limit would be no limit: these are the limits of large Rust projects, per 100,000 words.
#[test]
fn limits_of_constructions_stay_as_they_are() {
    let limits = CONSTRUCTIONS.iter().map(|one| one.limit).collect::<Vec<_>>();
    assert_eq!(limits, [30, 15, 30, 10, 30, 10, 30, 2, 50, 8, 35, 45]);
}

#[test]
fn count_above_the_limit_is_a_mistake() {
    let filler = "word ".repeat(1_000);
    let construction = CONSTRUCTIONS.iter().position(|one| one.name == "archaic").expect("it is there");
    let max = CONSTRUCTIONS[construction].limit;
    let page = |hits: usize| format!("{}\n{}", filler.repeat(100), "anew\n".repeat(hits));
    assert!(count("a.md", &page(max), None).above_limits().is_empty());
    let above = count("a.md", &page(max + 1), None).above_limits();
    assert_eq!(above.len(), 1);
    assert!(above[0].starts_with("archaic: more than 8 per 100,000 words (9 hits in "), "{above:?}");
}

#[test]
fn texts_are_comments_long_literals_and_pages_without_code() {
    let read = |path: &str, content: &str| {
        let texts = texts(Path::new(path), content);
        texts.iter().map(|text| (text.line, text.words.to_owned())).collect::<Vec<_>>()
    };
    let of = |found: &[(usize, &str)]| {
        found.iter().map(|(line, text)| (*line, (*text).to_owned())).collect::<Vec<_>>()
    };
    let source = "//! One.\n    // Two.\nlet x = \"short\"; // not seen\nlet y = \"a long message with \\\" a quote\";\n";
    assert_eq!(
        read("a.rs", source),
        of(&[(1, "One."), (2, "Two."), (4, "a long message with \\\" a quote")])
    );
    let page = "# Title\n\n- item\n```\nfenced\n```\n    code\n| cell |\n";
    assert_eq!(read("a.md", page), of(&[(1, "Title"), (2, ""), (3, "item"), (8, "cell |")]));
    assert_eq!(read("a.toml", "#!/bin/sh\nkey = 1\n# why\n"), of(&[(3, "why")]));
    assert_eq!(read("a.yaml", "summary: a call\nx: 1\n"), of(&[(1, "a call")]));
    assert_eq!(read("Makefile", "# why\n"), of(&[(1, "why")]));
    assert_eq!(read(".ci/run", "# why\n"), of(&[(1, "why")]));
    assert!(read("a.json", "# why\n").is_empty());
}

#[test]
fn only_the_lines_of_a_change_are_counted() {
    let diff = "diff --git a/a.md b/a.md\n--- a/a.md\n+++ b/a.md\n@@ -1,0 +2,2 @@ heading\n+nobody\n+somebody\n@@ -9 +5 @@\n-old\n+new\ndiff --git a/b.md b/b.md\n--- a/b.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n";
    let change = Change::read(diff);
    let lines =
        |path: &str| (1..10).filter(|line| change.contains(Path::new(path), *line)).collect::<Vec<_>>();
    assert_eq!(lines("a.md"), [2, 3, 5]);
    assert!(lines("b.md").is_empty());
    let counted = count("a.md", "nobody\nnobody\nsomebody\nnobody\nnew text\n", Some(&change));
    assert_eq!((counted.words, counted.hits.iter().map(|hit| hit.line).collect::<Vec<_>>()), (4, vec![2, 3]));
}
