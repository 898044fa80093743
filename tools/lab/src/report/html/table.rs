//! Tables of the page: a heading for each row, figures, and bars between them.

use super::markup::Markup;

/// A bar in a cell, in parts of the cell's width from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    pub ends: Option<(f64, f64)>,
    /// The place of a line across it.
    pub mark: Option<f64>,
    pub class: &'static str,
}

/// A cell: a text, or a bar, with remarks in small type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    class: &'static str,
    small: Vec<String>,
    bar: Option<Bar>,
    link: Option<String>,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

impl Cell {
    /// A text with a class of the style sheet.
    pub fn classed(text: impl Into<String>, class: &'static str) -> Self {
        Self { class, ..Self::from(text) }
    }

    pub fn bar(bar: Bar) -> Self {
        Self { bar: Some(bar), class: "wide", ..Self::default() }
    }

    /// Bar from the left edge, `share` of the cell wide.
    pub fn share(share: f64, mark: Option<f64>) -> Self {
        Self::bar(Bar { ends: Some((0.0, share)), mark, class: "" })
    }

    /// With a remark below, unless it is empty.
    pub fn with(mut self, small: impl Into<String>) -> Self {
        self.small.push(small.into());
        self.small.retain(|text| !text.is_empty());
        self
    }

    /// With a link to a part of the page.
    pub fn linked(self, target: String) -> Self {
        Self { link: Some(target), ..self }
    }

    fn write(&self, markup: &mut Markup, is_heading: bool) {
        if is_heading {
            markup.put("<th scope=\"row\" class=\"{}\">", &[&self.class]);
        } else {
            markup.put("<td class=\"{}\">", &[&self.class]);
        }
        match &self.link {
            Some(link) => markup.put("<a href=\"#{}\">{}</a>", &[link, &self.text]),
            None => markup.put("{}", &[&self.text]),
        };
        if let Some(bar) = self.bar {
            let part = |value: f64| if value.is_finite() { value.clamp(0.0, 1.0) * 100.0 } else { 0.0 };
            markup.raw("<span class=\"bar\">");
            if let Some((from, to)) = bar.ends {
                let (from, to) = (part(from), part(to));
                let (left, width) = (format!("{:.2}", from.min(to)), format!("{:.2}", (to - from).abs()));
                markup.put("<i class=\"{}\" style=\"left:{}%;width:{}%\"></i>", &[&bar.class, &left, &width]);
            }
            if let Some(mark) = bar.mark {
                markup.put("<u style=\"left:{}%\"></u>", &[&format!("{:.2}", part(mark))]);
            }
            markup.raw("</span>");
        }
        for small in &self.small {
            markup.put("<small>{}</small>", &[small]);
        }
        markup.raw(if is_heading { "</th>" } else { "</td>" });
    }
}

/// A table with these headings; the first cell of a row is its heading. A row of one cell is a heading over the rows
/// below it.
pub(crate) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) -> Markup {
    let mut markup = Markup::new();
    markup.raw("<div class=\"scroll\"><table><thead><tr>");
    for (index, heading) in head.iter().enumerate() {
        // A heading of a bar's column says what its ends are.
        match heading.split_once('…') {
            Some((low, high)) if index > 0 => markup.put(
                "<th class=\"wide\"><span class=\"ends\"><span>{}</span><span>{}</span></span></th>",
                &[&low, &high],
            ),
            _ => markup.put("<th>{}</th>", &[heading]),
        };
    }
    markup.raw("</tr></thead><tbody>");
    let mut is_empty = true;
    for row in rows {
        is_empty = false;
        match row.as_slice() {
            [only] if head.len() > 1 => {
                markup.put(
                    "<tr><th scope=\"colgroup\" colspan=\"{}\"><b>{}</b></th></tr>",
                    &[&head.len(), &only.text],
                );
            }
            row => {
                markup.raw("<tr>");
                row.iter().enumerate().for_each(|(index, cell)| cell.write(&mut markup, index == 0));
                markup.raw("</tr>");
            }
        }
    }
    markup.raw("</tbody></table></div>");
    if is_empty { Markup::new() } else { markup }
}

/// Names and values one below the other.
pub(crate) fn terms(class: &str, all: impl IntoIterator<Item = [String; 3]>) -> Markup {
    let mut markup = Markup::new();
    markup.put("<dl class=\"{}\">", &[&class]);
    for [name, value, meaning] in all {
        if value.is_empty() {
            continue;
        }
        markup.put("<div><dt>{}</dt><dd>{}</dd>", &[&name, &value]);
        if !meaning.is_empty() {
            markup.put("<dd class=\"meaning\">{}</dd>", &[&meaning]);
        }
        markup.raw("</div>");
    }
    markup.raw("</dl>");
    markup
}

/// Points of a list; nothing of none.
pub(crate) fn findings(all: &[String]) -> Markup {
    let mut markup = Markup::new();
    if !all.is_empty() {
        markup.raw("<ul class=\"findings\">");
        all.iter().for_each(|finding| {
            markup.put("<li>{}</li>", &[finding]);
        });
        markup.raw("</ul>");
    }
    markup
}
