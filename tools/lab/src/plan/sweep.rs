//! Sweeps and ablations: one file with several runs that differ in one or two values.

use std::collections::BTreeMap;

use super::section::{Mistakes, Node, Section, Value};
use super::{Mistake, Work};
use crate::plan::metric::Metric;
use crate::plan::parameter::Parameter;
use crate::plan::parameters;
use crate::plan::plot::SuitePlot;

/// Maximum number of runs of one file.
const POINTS_MAX: usize = 200;

/// One run of a scenario file.
#[derive(Clone, Debug)]
pub struct Point {
    /// The parameters that distinguish it from the others; empty if it is the only one.
    pub parameters: BTreeMap<String, Parameter>,
    pub work: Work,
}

impl Point {
    /// Its name in a sentence: `fsync off`, or `2 DFSPs`.
    pub fn name(&self) -> String {
        let part = |(name, value): (&String, &Parameter)| parameters::text(name, &serde_json::json!(value));
        self.parameters.iter().map(part).collect::<Vec<_>>().join(", ")
    }

    /// Its name for a directory: `batch-10,dfsps-4`; empty if it is the only one.
    pub fn label(&self) -> String {
        let part = |(name, value): (&String, &Parameter)| {
            let plain = |character: char| if character.is_alphanumeric() { character } else { '-' };
            format!("{name}-{}", value.to_string().chars().map(plain).collect::<String>())
        };
        self.parameters.iter().map(part).collect::<Vec<_>>().join(",")
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Variant {
    pub parameters: BTreeMap<String, Parameter>,
    pub changes: Vec<(String, Node)>,
}

/// Every combination of the sweep's values, or every ablation; a single variant without changes if there is neither.
pub(super) fn variants(axes: Option<&Node>, ablations: Option<&Node>, mistakes: &Mistakes) -> Vec<Variant> {
    let note = |line: usize, text: &str| mistakes.borrow_mut().push(Mistake { line, text: text.to_owned() });
    let mut variants = vec![Variant::default()];
    for (path, node) in axes.into_iter().flat_map(axes_of) {
        let Value::List(values) = &node.value else {
            note(node.line, &format!("sweep.{path}: give a list of values, such as [1, 10, 100]"));
            continue;
        };
        if values.is_empty() || variants.len() * values.len() > POINTS_MAX {
            note(node.line, &format!("sweep.{path}: give at least one value, and {POINTS_MAX} runs at most"));
            continue;
        }
        let name = path.rsplit('.').next().unwrap_or(&path).to_owned();
        let with = |variant: &Variant, value: &Node| {
            let mut variant = variant.clone();
            variant.parameters.insert(name.clone(), value.parameter());
            variant.changes.push((path.clone(), value.clone()));
            variant
        };
        variants = variants
            .iter()
            .flat_map(|v| values.iter().map(|value| with(v, value)).collect::<Vec<_>>())
            .collect();
    }
    if let Some(node) = ablations {
        let ablations = tables("ablation", node, mistakes).map(ablation).collect();
        if axes.is_some() {
            note(node.line, "a file has a [sweep] or [[ablation]]s, not both");
        } else {
            variants = ablations;
        }
    }
    variants
}

/// The values with their paths, in the order of the file.
pub(super) fn axes_of(node: &Node) -> Vec<(String, &Node)> {
    let mut axes = Vec::new();
    gather(node, "", &mut axes);
    axes.sort_by_key(|(_, node)| node.line);
    axes
}

/// `"load.users" = […]`, `load.users = […]` and `[sweep.load] users = […]` have the same meaning.
fn gather<'file>(node: &'file Node, prefix: &str, axes: &mut Vec<(String, &'file Node)>) {
    for (key, value) in node.entries() {
        let path = format!("{prefix}{key}");
        match value.value {
            Value::Table(_) => gather(value, &format!("{path}."), axes),
            _ => axes.push((path, value)),
        }
    }
}

/// Each `[[name]]` of a file.
fn tables<'file>(
    name: &'static str,
    node: &'file Node,
    mistakes: &'file Mistakes,
) -> impl Iterator<Item = Section<'file>> {
    let list = match &node.value {
        Value::List(list) => &list[..],
        _ => {
            let text = format!("write each {name} as [[{name}]]");
            mistakes.borrow_mut().push(Mistake { line: node.line, text });
            &[]
        }
    };
    list.iter().map(move |node| Section::new(name, Some(node), mistakes))
}

fn ablation(mut section: Section<'_>) -> Variant {
    let name = section.text_required("name");
    let changes = section.node("set").map(axes_of).unwrap_or_default();
    Variant {
        parameters: BTreeMap::from([("ablation".to_owned(), Parameter::Text(name))]),
        changes: changes.into_iter().map(|(path, node)| (path, node.clone())).collect(),
    }
}

/// The plots that the file requests; one of throughput if it requests none and has a sweep.
pub(super) fn plots(node: Option<&Node>, variants: &[Variant], mistakes: &Mistakes) -> Vec<SuitePlot> {
    if let Some(node) = node {
        return tables("plot", node, mistakes).map(plot).collect();
    }
    // Every point changes all axes, in the order of the file.
    let axis = |(path, _): &(String, Node)| path.rsplit('.').next().unwrap_or(path).to_owned();
    let mut axes = variants.first().map(|variant| variant.changes.iter().map(axis)).into_iter().flatten();
    let Some(x) = axes.next().filter(|_| variants.len() > 1) else { return Vec::new() };
    if variants.iter().any(|variant| variant.parameters.contains_key("ablation")) {
        return vec![usual_plot("ablation".to_owned(), None)];
    }
    vec![usual_plot(x, axes.next())]
}

fn usual_plot(x: String, series: Option<String>) -> SuitePlot {
    let title = format!("Throughput by {}", parameters::heading(&x));
    SuitePlot { title, x, series, y: "throughput_per_s".to_owned(), runs: Vec::new() }
}

fn plot(mut section: Section<'_>) -> SuitePlot {
    SuitePlot {
        title: section.text_required("title"),
        x: section.text_required("x"),
        series: section.text("series"),
        y: section.text("y").unwrap_or_else(|| "throughput_per_s".to_owned()),
        runs: Vec::new(),
    }
}

/// The claim that a point is at most this much worse than the first one.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub text: String,
    /// The point, as an index in the scenario; never the first.
    pub point: usize,
    pub figure: Metric,
    /// Maximum deterioration, in per cent of the first point: less throughput, or more of any other figure.
    pub at_most_percent: f64,
}

pub(super) fn claims(node: Option<&Node>, variants: &[Variant], mistakes: &Mistakes) -> Vec<Claim> {
    let sections = node.into_iter().flat_map(|node| tables("claim", node, mistakes));
    sections.filter_map(|section| claim(section, variants)).collect()
}

fn claim(mut section: Section<'_>, variants: &[Variant]) -> Option<Claim> {
    let text = section.text_required("text");
    let ablation = section.text_required("ablation");
    let figure = section.choice("figure", &Metric::ALL.map(Metric::member)).unwrap_or(0);
    let at_most_percent = section.number("at_most_percent");
    if at_most_percent.is_none() {
        section.mistake("at_most_percent is missing in [claim]");
    }
    let is_meant =
        |variant: &Variant| variant.parameters.get("ablation") == Some(&Parameter::Text(ablation.clone()));
    let point = variants.iter().position(is_meant).filter(|point| *point > 0);
    if point.is_none() {
        let text = format!(
            "claim.ablation: {ablation:?} is not an [[ablation]] after the first one, which is the base"
        );
        section.mistake(text);
    }
    Some(Claim { text, point: point?, figure: Metric::ALL[figure], at_most_percent: at_most_percent? })
}
