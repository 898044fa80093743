//! Claims: what an ablation is to show, decided by the interval of the difference and not by one figure.

use crate::report::Metric;

use super::Mistake;
use super::node::{Node, Value};
use super::section::{Mistakes, Section};
use super::sweep::Variant;
use crate::result::schema::Parameter;

/// That a point is worse than the first one by so much at most.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub text: String,
    /// Which point, by its place in the scenario; never the first.
    pub point: usize,
    pub figure: Metric,
    /// How much worse it may be than the first point, in per cent of it: less throughput, or more of anything else.
    pub at_most_percent: f64,
}

/// The claims of a file.
pub(super) fn claims(node: Option<&Node>, variants: &[Variant], mistakes: &Mistakes) -> Vec<Claim> {
    let Some(node) = node else { return Vec::new() };
    let Value::List(list) = &node.value else {
        let text = "write each claim as [[claim]]".to_owned();
        mistakes.borrow_mut().push(Mistake { line: node.line, text });
        return Vec::new();
    };
    list.iter().filter_map(|node| claim(node, variants, mistakes)).collect()
}

fn claim(node: &Node, variants: &[Variant], mistakes: &Mistakes) -> Option<Claim> {
    let mut section = Section::new("claim", Some(node), mistakes);
    let text = section.text_required("text");
    let ablation = section.text_required("ablation");
    let figure = section.choice("figure", &Metric::ALL.map(Metric::member)).unwrap_or(0);
    let at_most_percent = section.number("at_most_percent");
    if at_most_percent.is_none() {
        section.mistake_at(section.line(), "at_most_percent is missing in [claim]");
    }
    let is_meant =
        |variant: &Variant| variant.parameters.get("ablation") == Some(&Parameter::Text(ablation.clone()));
    let point = variants.iter().position(is_meant).filter(|point| *point > 0);
    if point.is_none() {
        let text = format!(
            "claim.ablation: {ablation:?} is no [[ablation]] after the first, which it is compared with"
        );
        section.mistake_at(section.line(), text);
    }
    Some(Claim { text, point: point?, figure: Metric::ALL[figure], at_most_percent: at_most_percent? })
}
