//! Tables of the page: a heading for each row, figures, and bars between them.

use std::fmt::{Display, Write};

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

#[derive(Clone, Debug, Default)]
pub(crate) struct Markup(String);

/// Escapes what is written through it.
struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for letter in text.chars() {
            match letter {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // What is no character of HTML would make the page invalid, and a NUL ends it for some readers.
                letter if letter.is_control() && !letter.is_whitespace() => self.0.push('\u{fffd}'),
                letter => self.0.push(letter),
            }
        }
        Ok(())
    }
}

impl Markup {
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a template that is part of this program; each `{}` becomes an argument, escaped for texts and quoted
    /// attributes.
    pub fn put(&mut self, template: &'static str, arguments: &[&dyn Display]) -> &mut Self {
        let mut arguments = arguments.iter();
        for (index, piece) in template.split("{}").enumerate() {
            if index > 0 {
                let argument = arguments.next();
                assert!(argument.is_some(), "a template has an argument for each place: {template}");
                // Writing into a String cannot fail.
                let _ = argument.map(|argument| write!(Escaping(&mut self.0), "{argument}"));
            }
            self.0.push_str(piece);
        }
        assert!(arguments.next().is_none(), "a template has a place for each argument: {template}");
        self
    }

    /// Writes markup without arguments.
    pub fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    pub fn add(&mut self, piece: &Self) -> &mut Self {
        self.0.push_str(&piece.0);
        self
    }

    /// Adds data for the script, as JSON that cannot end its element.
    pub fn data(&mut self, data: &serde_json::Value) -> &mut Self {
        let json = data.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028");
        self.0.push_str("<script type=\"application/json\">");
        self.0.push_str(&json);
        self.0.push_str("</script>");
        self
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_cannot_leave_their_place() {
        let mut markup = Markup::new();
        markup.put("<p title=\"{}\">{}</p>", &[&"\"><script>alert('1')</script>", &"a & b\0"]);
        assert_eq!(
            markup.into_string(),
            "<p title=\"&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;\">a &amp; b\u{fffd}</p>"
        );
        let mut markup = Markup::new();
        markup.data(&serde_json::json!({"name": "</script><script>"}));
        let text = markup.into_string();
        assert_eq!(text.matches('<').count(), 2, "{text}");
    }

    #[test]
    #[should_panic(expected = "an argument for each place")]
    fn a_place_needs_an_argument() {
        Markup::new().put("{} {}", &[&1]);
    }
}
