//! Checks the wording of all texts: banned phrases, and constructions that make English hard to read.
//!
//! A construction is counted per 100,000 words of the whole tree, and has a limit.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use crate::change::Change;
use crate::texts::texts;
use crate::tree;

/// Banned phrases, and their replacements.
pub const BANNED: &[(&str, &str)] = &[
    ("the reference hub", "Mojaloop"),
    ("the community's", "Mojaloop's"),
    ("/// Which.", "a noun phrase, or nothing"),
    ("/// Whose.", "a noun phrase, or nothing"),
    ("/// How.", "a noun phrase, or nothing"),
    ("/// Why.", "a noun phrase, or nothing"),
    ("TODO", "an issue"),
    ("FIXME", "an issue"),
];

/// A construction that makes a sentence hard to read.
#[derive(Debug)]
pub struct Construction {
    /// Its name on the command line.
    pub name: &'static str,
    /// A regular expression. Only ASCII has letters and word boundaries.
    expression: &'static str,
    /// The words to write instead.
    pub instead: &'static str,
    /// Maximum number of hits per 100,000 words.
    pub limit: usize,
}

/// The limits are a little above the highest counts of three large Rust projects (restate, linkerd2-proxy, slatedb).
pub const CONSTRUCTIONS: &[Construction] = &[
    Construction {
        name: "what-clause",
        expression: r"\b[Ww]hat (is|was|are|were|does|do|did|has|had|came|comes|became|becomes|must|may|can|will|it|they)\b",
        instead: "a noun: the outcome, the value, the reason",
        limit: 30,
    },
    Construction {
        name: "where-for-if",
        expression: r"\b[Ww]here (there|it|they|that|no|none|nothing|one|some|others?)\b",
        instead: "if, when",
        limit: 15,
    },
    Construction {
        name: "is-told",
        expression: r"\b(is|are|was|were|be|been) (said|told|asked|called for)\b",
        instead: "reports, returns, logs, rejects, queries",
        limit: 30,
    },
    Construction {
        name: "nobody",
        expression: r"\b([Nn]obody|[Ss]omebody|[Aa]nybody|[Ww]hoever|[Ww]homever)\b",
        instead: "the role: client, DFSP, operator, user",
        limit: 10,
    },
    Construction {
        name: "gives-tells",
        expression: r"\b(gives|tells|told|tell)\b",
        instead: "returns, reports, sends, shows",
        limit: 30,
    },
    Construction {
        name: "who-as-noun",
        expression: r"(^|[.;:,(|] ?)([Ww]ho|[Ww]hose|[Ww]hom) (is|has|may|calls|asks|sends|guesses|approves|leads|reads|waits|[a-z]+s)\b",
        instead: "the role",
        limit: 10,
    },
    Construction {
        name: "those-that",
        expression: r"\b([Tt]hose (that|of|who)|[Tt]hat of|[Tt]he ones? (that|who)|[Tt]he same (of|as|for|by))\b",
        instead: "the noun again",
        limit: 30,
    },
    Construction {
        name: "relative-for-noun",
        expression: r"\b(node|hub|one|nodes|hubs)s? that (leads?|follows?)\b|\ba hub alone\b",
        instead: "leader, follower, standalone hub",
        limit: 2,
    },
    Construction {
        name: "germanic",
        expression: r"\b(is|are|was|were) no [a-z]+\b|\bno more\b|\bany more\b|\bleads no\b",
        instead: "is not a …, no longer",
        limit: 50,
    },
    Construction {
        name: "archaic",
        expression: r"\b(anew|lest|for ever|thereof|whereof|hitherto|thence|whence|henceforth|besides|likewise|anyhow|thus far|at once of)\b",
        instead: "again, forever, also, immediately",
        limit: 8,
    },
    Construction {
        name: "pronoun-opening",
        expression: r"^(It|They|Those|Them|That|These|Its|Their) (is|are|was|were|has|have|does|do|of|that|can|may|will|would|[a-z]+s)\b",
        instead: "the name of the thing",
        limit: 35,
    },
    Construction {
        name: "of-which",
        expression: r"\b(by|of|to|from|for|with|in|on|at) (which|whom|whose)\b",
        instead: "a second sentence",
        limit: 45,
    },
];

/// Files that are not counted: they record the past, or list the constructions.
const NOT_COUNTED: &[&str] = &[
    "docs/decisions",
    "docs/evidence",
    "CHANGELOG.md",
    "tools/tidy/src/prose.rs",
    "tools/tidy/tests/quick/house.rs",
    "tools/tidy/tests/quick/prose.rs",
];

/// A construction in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The index of the construction in [`CONSTRUCTIONS`].
    pub construction: usize,
    pub path: PathBuf,
    /// The number of the line, from 1.
    pub line: usize,
    /// The text of the line, or the literal.
    pub text: String,
}

/// The number of words in texts, and the constructions in them.
#[derive(Debug, Default)]
pub struct Count {
    /// The number of words in all texts.
    pub words: usize,
    /// The constructions in the order of files and lines.
    pub hits: Vec<Hit>,
}

/// The compiled expressions.
pub struct Counter {
    any: RegexSet,
    each: Vec<Regex>,
}

impl Default for Counter {
    fn default() -> Self {
        let expressions = CONSTRUCTIONS.iter().map(|construction| construction.expression);
        let compile =
            |expression| RegexBuilder::new(expression).unicode(false).build().expect("an expression");
        let any = RegexSetBuilder::new(expressions.clone()).unicode(false).build().expect("expressions");
        Self { any, each: expressions.map(compile).collect() }
    }
}

impl Counter {
    /// Adds the texts of a file to a count, or only those on changed lines.
    pub fn add(&self, count: &mut Count, path: &Path, content: &str, change: Option<&Change>) {
        let is_wanted = |line| change.is_none_or(|change| change.contains(path, line));
        for text in texts(path, content).into_iter().filter(|text| is_wanted(text.line)) {
            count.words += text.words.split_whitespace().count();
            for construction in self.any.matches(text.words) {
                let hit =
                    Hit { construction, path: path.to_owned(), line: text.line, text: text.words.to_owned() };
                let times = self.each[construction].find_iter(text.words).count();
                count.hits.extend(std::iter::repeat_n(hit, times));
            }
        }
    }

    /// The count of all files of the tree, or of the lines that a change added.
    pub fn count(&self, change: Option<&Change>) -> Count {
        let mut count = Count::default();
        let is_counted = |path: &&PathBuf| !NOT_COUNTED.iter().any(|name| path.starts_with(name));
        for path in tree::tracked().iter().filter(is_counted).filter(|path| !tree::is_foreign(path)) {
            if let Ok(content) = std::fs::read_to_string(tree::root().join(path)) {
                self.add(&mut count, path, &content, change);
            }
        }
        count
    }
}

impl Count {
    /// The number of hits of a construction.
    pub fn hits_of(&self, construction: usize) -> usize {
        self.hits.iter().filter(|hit| hit.construction == construction).count()
    }

    /// Whether a construction has more hits than this number per 100,000 words.
    pub fn exceeds(&self, construction: usize, per_100_000_words: usize) -> bool {
        self.hits_of(construction) * 100_000 > per_100_000_words * self.words
    }

    /// A line for each construction: its hits, the hits per 100,000 words, its limit.
    pub fn table(&self) -> String {
        let mut table = format!("{} words\n", self.words);
        for (index, construction) in CONSTRUCTIONS.iter().enumerate() {
            let hits = self.hits_of(index);
            let rate = hits * 100_000 / self.words.max(1);
            let over = if self.exceeds(index, construction.limit) { "over" } else { "" };
            let Construction { name, instead, limit, .. } = construction;
            let _ = writeln!(
                table,
                "  {name:18} {hits:6} {rate:6} per 100,000 (limit {limit:3}) {over:4}  write {instead}"
            );
        }
        table
    }

    /// The constructions above their limits, in words.
    pub fn above_limits(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        for (index, Construction { name, instead, limit, .. }) in CONSTRUCTIONS.iter().enumerate() {
            if self.exceeds(index, *limit) {
                mistakes.push(format!(
                    "{name}: more than {limit} per 100,000 words ({} hits in {} words); write {instead}; \
                     `make prose LIST={name}` lists them",
                    self.hits_of(index),
                    self.words
                ));
            }
        }
        mistakes
    }
}

/// The first banned phrase in a text, and its replacement.
pub fn banned(text: &str) -> Option<(&'static str, &'static str)> {
    BANNED.iter().copied().find(|(phrase, _)| text.contains(phrase))
}
