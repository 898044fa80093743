//! Plots of lines, drawn as SVG once for wide and once for narrow pages, with the values beside them for the script.

use serde_json::json;

use super::axis::Axis;
use super::markup::Markup;

/// Colours of the style sheet for series.
pub(crate) const COLOURS: usize = 6;
/// Narrowest distance of two labels, in pixels.
const LABEL_PX: f64 = 14.0;
/// Room for labels to the right of plots that are as wide as the page, in pixels.
const WIDE_RIGHT_PX: f64 = 84.0;

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stroke {
    /// As a line.
    Solid,
    /// As a thin line behind the others.
    Faint,
    /// As a dashed line: what was asked for.
    Dashed,
    /// As a line with a dot at each point.
    Dotted,
    /// As columns from the floor, each this share of the plot wide.
    Columns(f64),
}

/// A point: its values, and the same as a person reads them.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub x: f64,
    pub y: f64,
    pub x_text: String,
    pub y_text: String,
    /// Ends of the interval, where there is one.
    pub range: Option<(f64, f64)>,
}

/// A line.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub name: String,
    pub colour: usize,
    pub stroke: Stroke,
    /// Points in order; `None` breaks the line.
    pub points: Vec<Option<Point>>,
}

impl Series {
    fn present(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().flatten()
    }
}

/// A plot.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub title: String,
    /// What a reader shall see in it.
    pub note: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// Parts along the horizontal axis that do not count.
    pub shaded: Vec<(f64, f64)>,
    /// Whether it takes the width of the page.
    pub wide: bool,
    /// Plots of one group show the same place at once.
    pub group: String,
}

struct Frame {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Whether labels stand beside the ends of the lines.
    labels: bool,
}

impl Frame {
    fn x(&self, place: f64) -> f64 {
        self.left + place * (self.width - self.left - self.right)
    }

    fn y(&self, place: f64) -> f64 {
        self.height - self.bottom - place * (self.height - self.top - self.bottom)
    }
}

/// A coordinate, to a tenth of a pixel.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

impl Plot {
    /// The plot as a figure of the page; nothing where there is nothing to draw.
    pub fn markup(&self) -> Markup {
        let mut markup = Markup::new();
        if self.series.iter().all(|series| series.present().next().is_none()) {
            return markup;
        }
        let class = if self.wide { "plot full" } else { "plot" };
        markup.put(
            "<figure class=\"{}\" data-group=\"{}\"><figcaption><b>{}</b>",
            &[&class, &self.group, &self.title],
        );
        if !self.note.is_empty() {
            markup.put(" <span>{}</span>", &[&self.note]);
        }
        markup.raw("</figcaption>");
        if self.series.len() > 1 {
            markup.raw("<div class=\"legend\">");
            for (index, series) in self.series.iter().enumerate() {
                markup.put(
                    "<button type=\"button\" data-series=\"{}\" class=\"c{}\"><i></i>{}</button>",
                    &[&index, &(series.colour % COLOURS), &series.name],
                );
            }
            markup.raw("</div>");
        }
        let width = if self.wide { 1000.0 } else { 488.0 };
        let label = self.series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
        // Letters of the labels are about 7 pixels wide.
        let beside = label.min(22) as f64 * 7.0 + 12.0;
        let labels = self.series.len() > 1;
        // Plots below each other end at the same place, whether or not they have labels.
        let right = match (self.wide, labels) {
            (true, _) => beside.max(WIDE_RIGHT_PX),
            (false, true) => beside,
            (false, false) => 14.0,
        };
        let bottom = if self.x.name.is_empty() { 22.0 } else { 40.0 };
        let height = if self.wide { 128.0 + bottom } else { 230.0 + bottom };
        let wide = Frame { width, height, left: 58.0, right, top: 10.0, bottom, labels };
        let narrow = Frame {
            width: 343.0,
            height: 170.0 + bottom,
            left: 52.0,
            right: 12.0,
            top: 10.0,
            bottom,
            labels: false,
        };
        self.draw(&mut markup, &wide, "on-wide");
        self.draw(&mut markup, &narrow, "on-narrow");
        markup.data(&self.values());
        markup.raw("</figure>");
        markup
    }

    fn draw(&self, markup: &mut Markup, frame: &Frame, class: &'static str) {
        markup.put(
            "<svg class=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" data-box=\"{} {} {} {}\" data-w=\"{}\">",
            &[
                &class,
                &px(frame.width),
                &px(frame.height),
                &self.title,
                &px(frame.x(0.0)),
                &px(frame.x(1.0)),
                &px(frame.y(1.0)),
                &px(frame.y(0.0)),
                &px(frame.width),
            ],
        );
        for &(from, to) in &self.shaded {
            let (from, to) = (frame.x(self.x.scale.place(from)), frame.x(self.x.scale.place(to)));
            let height = frame.y(0.0) - frame.y(1.0);
            markup.put(
                "<rect class=\"shaded\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                &[&px(from), &px(frame.y(1.0)), &px((to - from).max(0.0)), &px(height)],
            );
        }
        self.draw_axes(markup, frame);
        // What was asked for and the worst lie behind what was found.
        for back in [true, false] {
            for (index, series) in self.series.iter().enumerate() {
                if matches!(series.stroke, Stroke::Faint | Stroke::Dashed) == back {
                    self.draw_series(markup, frame, index, series);
                }
            }
        }
        if frame.labels {
            self.draw_labels(markup, frame);
        }
        markup.raw("<g class=\"hover\"></g></svg>");
    }

    fn draw_axes(&self, markup: &mut Markup, frame: &Frame) {
        let (left, right, floor) = (frame.x(0.0), frame.x(1.0), frame.y(0.0));
        for (place, text) in &self.y.ticks {
            let y = frame.y(*place);
            let class = if *place == 0.0 { "axis" } else { "grid" };
            markup.put(
                "<line class=\"{}\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/><text class=\"tick end\" x=\"{}\" y=\"{}\">{}</text>",
                &[&class, &px(left), &px(right), &px(y), &px(y), &px(left - 7.0), &px(y + 3.5), text],
            );
        }
        if self.y.ticks.first().is_none_or(|(place, _)| *place > 0.0) {
            markup.put(
                "<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>",
                &[&px(left), &px(right), &px(floor), &px(floor)],
            );
        }
        // Where ticks are closer than their texts are wide, some go without a text.
        let mut free_from = f64::NEG_INFINITY;
        for (place, text) in &self.x.ticks {
            let x = frame.x(*place);
            markup.put(
                "<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>",
                &[&px(x), &px(x), &px(floor), &px(floor + 4.0)],
            );
            let half = text.chars().count() as f64 * 3.1;
            // The last text ends with the plot instead of leaving it.
            let x = x.min(frame.width - half);
            if x - half >= free_from {
                markup.put(
                    "<text class=\"tick middle\" x=\"{}\" y=\"{}\">{}</text>",
                    &[&px(x), &px(floor + 17.0), text],
                );
                free_from = x + half + 8.0;
            }
        }
        markup.put(
            "<text class=\"name middle\" x=\"{}\" y=\"{}\">{}</text>",
            &[&px(f64::midpoint(left, right)), &px(floor + 34.0), &self.x.name],
        );
    }

    fn draw_series(&self, markup: &mut Markup, frame: &Frame, index: usize, series: &Series) {
        let class = match series.stroke {
            Stroke::Solid => "line",
            Stroke::Faint => "line faint",
            Stroke::Dashed => "line dashed",
            Stroke::Dotted => "line dotted",
            Stroke::Columns(_) => "none",
        };
        let at = |point: &Point| (frame.x(self.x.scale.place(point.x)), frame.y(self.y.scale.place(point.y)));
        let mut path = String::new();
        let mut pen_is_down = false;
        for point in &series.points {
            let Some(point) = point else {
                pen_is_down = false;
                continue;
            };
            let (x, y) = at(point);
            path.push(if pen_is_down { 'L' } else { 'M' });
            path.push_str(&format!("{} {}", px(x), px(y)));
            pen_is_down = true;
        }
        markup.put(
            "<g class=\"series c{}\" data-series=\"{}\"><path class=\"{}\" d=\"{}\"/>",
            &[&(series.colour % COLOURS), &index, &class, &path],
        );
        for point in series.present() {
            let (x, y) = at(point);
            if let Some((low, high)) = point.range {
                let (low, high) = (frame.y(self.y.scale.place(low)), frame.y(self.y.scale.place(high)));
                markup.put("<path class=\"range\" d=\"M{} {}V{}\"/>", &[&px(x), &px(low), &px(high)]);
            }
            if let Stroke::Columns(share) = series.stroke {
                let width = share * (frame.x(1.0) - frame.x(0.0));
                markup.put(
                    "<rect class=\"column\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                    &[&px(x - width / 2.0), &px(y), &px(width), &px(frame.y(0.0) - y)],
                );
            }
            if series.stroke == Stroke::Dotted {
                markup.put("<circle cx=\"{}\" cy=\"{}\" r=\"3.2\"/>", &[&px(x), &px(y)]);
            }
        }
        markup.raw("</g>");
    }

    /// Labels at the ends of the lines, moved apart where they would overlap.
    fn draw_labels(&self, markup: &mut Markup, frame: &Frame) {
        let last =
            |series: &Series| series.present().last().map(|point| frame.y(self.y.scale.place(point.y)));
        let mut ends: Vec<(usize, f64)> = self
            .series
            .iter()
            .enumerate()
            .filter_map(|(index, series)| Some((index, last(series)?)))
            .collect();
        ends.sort_by(|first, second| first.1.total_cmp(&second.1));
        let mut places: Vec<f64> = Vec::new();
        for (_, y) in &ends {
            let lowest = places.last().map_or(frame.y(1.0) + 4.0, |before| before + LABEL_PX);
            places.push(y.max(lowest));
        }
        // What was pushed below the floor moves the others up again.
        let mut highest = frame.y(0.0);
        for place in places.iter_mut().rev() {
            *place = place.min(highest);
            highest = *place - LABEL_PX;
        }
        for ((index, _), y) in ends.iter().zip(places) {
            let series = &self.series[*index];
            let mut name: String = series.name.chars().take(22).collect();
            if name.len() < series.name.len() {
                name.pop();
                name.push('…');
            }
            markup.put(
                "<text class=\"label c{}\" data-series=\"{}\" x=\"{}\" y=\"{}\">{}</text>",
                &[&(series.colour % COLOURS), index, &px(frame.x(1.0) + 7.0), &px(y + 3.5), &name],
            );
        }
    }

    /// The values for the script: places from 0 to 1, and texts.
    fn values(&self) -> serde_json::Value {
        let place = |value: f64| (value * 1e4).round() / 1e4;
        let series = self.series.iter().map(|series| {
            let points: Vec<_> = series.present().collect();
            json!({
                "n": series.name,
                "c": series.colour % COLOURS,
                "u": points.iter().map(|point| place(self.x.scale.place(point.x))).collect::<Vec<_>>(),
                "v": points.iter().map(|point| place(self.y.scale.place(point.y))).collect::<Vec<_>>(),
                "x": points.iter().map(|point| point.x_text.as_str()).collect::<Vec<_>>(),
                "t": points.iter().map(|point| point.y_text.as_str()).collect::<Vec<_>>(),
            })
        });
        json!(series.collect::<Vec<_>>())
    }
}
