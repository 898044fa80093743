//! Parses metrics strictly by the OpenMetrics text format, without exemplars and timestamps.

use std::collections::{BTreeMap, BTreeSet};

/// Content of an exposition.
#[derive(Debug, Default)]
pub struct Exposition {
    /// Kinds by family.
    pub families: BTreeMap<String, String>,
    /// Values by series with labels, as written.
    pub samples: BTreeMap<String, String>,
}

impl Exposition {
    /// Parses a text. Every fault panics with the line.
    pub fn read(text: &str) -> Self {
        let body = text.strip_suffix("# EOF\n").expect("it ends with # EOF");
        let mut found = Self::default();
        let mut family = String::new();
        let mut helped = BTreeSet::new();
        for line in body.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
                assert!(helped.insert(name.to_owned()), "helped twice: {line}");
                assert!(!help.is_empty() && !help.contains('"'), "{line}");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap_or_else(|| panic!("no type: {line}"));
                assert!(is_name(name), "{line}");
                assert!(["counter", "gauge", "histogram", "unknown", "info"].contains(&kind), "{line}");
                let twice = found.families.insert(name.to_owned(), kind.to_owned());
                assert!(twice.is_none(), "a family in two places: {line}");
                name.clone_into(&mut family);
            } else if let Some(unit) = line.strip_prefix("# UNIT ") {
                assert!(unit.starts_with(&family), "{line}");
            } else {
                found.sample(line, &family);
            }
        }
        found.check_histograms();
        found
    }

    fn sample(&mut self, line: &str, family: &str) {
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("outside of its family: {line}"));
        let fits = match &*self.families[family] {
            "counter" => suffix == "_total",
            "histogram" => ["_bucket", "_sum", "_count"].contains(&suffix),
            "info" => suffix == "_info",
            _ => suffix.is_empty(),
        };
        assert!(fits && is_name(name), "{line}");
        check_labels(labels, line);
        let number = value.strip_prefix('-').unwrap_or(value);
        let digits = number.replace(['.', 'e', '-', '+'], "");
        assert!(!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()), "no number: {line}");
        let twice = self.samples.insert(series.to_owned(), value.to_owned());
        assert!(twice.is_none(), "a series twice: {line}");
    }

    /// The last bucket of a histogram equals its count.
    fn check_histograms(&self) {
        for name in self.families.iter().filter(|(_, kind)| *kind == "histogram").map(|(name, _)| name) {
            let prefix = format!("{name}_bucket{{");
            let buckets = self.samples.range(prefix.clone()..);
            for (series, value) in buckets.take_while(|(series, _)| series.starts_with(&prefix)) {
                let labels = &series[prefix.len()..series.len() - 1];
                if !labels.contains(r#"le="+Inf""#) {
                    continue;
                }
                let labels = labels.replace(r#"le="+Inf","#, "").replace(r#"le="+Inf""#, "");
                let labels = labels.trim_matches(',');
                let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
                let count = format!("{name}_count{labels}");
                assert_eq!(self.samples.get(&count), Some(value), "{count}");
            }
        }
    }

    pub fn value(&self, series: &str) -> &str {
        self.samples.get(series).unwrap_or_else(|| panic!("no {series}"))
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Checks `name="value",…}`, with quotes, backslashes and line breaks in values escaped.
fn check_labels(labels: &str, line: &str) {
    let mut rest = labels;
    let mut names = BTreeSet::new();
    while rest != "}" {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
        assert!(is_name(name) && names.insert(name), "{line}");
        let mut bytes = after.bytes().enumerate();
        let end = loop {
            match bytes.next() {
                Some((_, b'\\')) => {
                    let escaped = bytes.next().map(|(_, byte)| byte);
                    assert!(matches!(escaped, Some(b'\\' | b'"' | b'n')), "{line}");
                }
                Some((at, b'"')) => break at,
                Some(_) => {}
                None => panic!("a label value without end: {line}"),
            }
        };
        rest = &after[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
        assert!(!rest.is_empty(), "labels without end: {line}");
    }
}
