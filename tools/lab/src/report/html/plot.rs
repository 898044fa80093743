//! Plots: the page carries their values as JSON, and its script draws them with uPlot.

use serde_json::{Value, json};

use super::markup::Markup;

/// Colours of the style sheet for series.
pub(crate) const COLOURS: usize = 6;

/// The horizontal axis.
#[derive(Clone, Debug)]
pub(crate) enum Axis {
    Time,
    /// Percentiles by the nines: 1 is p90, 2 is p99.
    Nines,
    /// Numbers, by ratio if they are far apart.
    Numbers {
        name: String,
        is_log: bool,
    },
    /// Words, at 0, 1, 2 and so on.
    Words {
        name: String,
        words: Vec<String>,
    },
}

/// A line: a name, how it looks (`line`, `faint`, `dashed`, `points` or `columns`), and its points.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    pub name: String,
    pub colour: usize,
    pub stroke: &'static str,
    pub points: Vec<(f64, Option<f64>)>,
    /// Intervals of the points, where there are any.
    pub ranges: Vec<Option<(f64, f64)>>,
}

impl Series {
    pub fn count(&self) -> usize {
        self.points.iter().filter(|(_, y)| y.is_some_and(f64::is_finite)).count()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub title: String,
    pub note: String,
    pub x: Axis,
    /// The unit of the values, and whether they are laid out by ratio.
    pub unit: &'static str,
    pub is_log: bool,
    pub series: Vec<Series>,
    /// Parts along the horizontal axis that do not count.
    pub shaded: Vec<(f64, f64)>,
    /// Whether it takes the width of the page.
    pub wide: bool,
    /// Plots of one group over time show the same second at once.
    pub group: String,
}

impl Plot {
    /// The plot as a figure of the page; nothing if there is nothing to draw.
    pub fn markup(&self) -> Markup {
        let mut markup = Markup::new();
        if self.series.iter().all(|series| series.count() == 0) {
            return markup;
        }
        let class = if self.wide { "plot full" } else { "plot" };
        markup.put(
            "<figure class=\"{}\"><figcaption><b>{}</b> <span>{}</span></figcaption>",
            &[&class, &self.title, &self.note],
        );
        markup.data(&self.values()).raw("</figure>");
        markup
    }

    fn values(&self) -> Value {
        let x = match &self.x {
            Axis::Time => json!({ "kind": "time", "name": "seconds" }),
            Axis::Nines => json!({ "kind": "nines", "name": "percentile" }),
            Axis::Numbers { name, is_log } => json!({ "kind": "numbers", "name": name, "log": is_log }),
            Axis::Words { name, words } => json!({ "kind": "words", "name": name, "words": words }),
        };
        // A curve of logarithms has no place for nothing.
        let is_shown = |y: &f64| y.is_finite() && (!self.is_log || *y > 0.0);
        let series = self.series.iter().map(|series| {
            let mut points: Vec<(f64, Option<f64>, Value)> = (series.points.iter().enumerate())
                .map(|(place, (x, y))| (*x, y.filter(is_shown), json!(series.ranges.get(place))))
                .collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            points.dedup_by(|later, earlier| later.0 == earlier.0);
            json!({
                "name": series.name,
                "colour": series.colour % COLOURS,
                "stroke": series.stroke,
                "x": points.iter().map(|point| rounded(point.0)).collect::<Vec<_>>(),
                "y": points.iter().map(|point| point.1.map(rounded)).collect::<Vec<_>>(),
                "ranges": if series.ranges.is_empty() { Value::Null } else { points.into_iter().map(|point| point.2).collect() },
            })
        });
        json!({
            "x": x,
            "unit": self.unit,
            "log": self.is_log,
            "series": series.collect::<Vec<_>>(),
            "shaded": self.shaded,
            "group": self.group,
        })
    }
}

/// To four digits behind the point: more than a page shows.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
