//! Tables of the page: a heading for each row, figures, and bars between them.

use std::fmt::{Display, Write};

/// A bar in a cell, in parts of the cell's width from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    pub ends: Option<(f64, f64)>,
    /// The place of a line across the bar.
    pub mark: Option<f64>,
    pub class: &'static str,
}

impl Bar {
    fn markup(self) -> Markup {
        let part = |value: f64| if value.is_finite() { value.clamp(0.0, 1.0) * 100.0 } else { 0.0 };
        let ends = self.ends.map(|(from, to)| {
            let (from, to) = (part(from), part(to));
            let [left, width] = [from.min(to), (to - from).abs()].map(|percent| format!("{percent:.2}"));
            Markup::of("<i class=\"{}\" style=\"left:{}%;width:{}%\"></i>", &[&self.class, &left, &width])
        });
        let line = |mark| Markup::of("<u style=\"left:{}%\"></u>", &[&format!("{:.2}", part(mark))]);
        let parts: Markup = ends.into_iter().chain(self.mark.map(line)).collect();
        Markup::of("<span class=\"bar\">{}</span>", &[&parts])
    }
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

    /// A bar from the left edge, `share` of the cell wide.
    pub fn share(share: f64, mark: Option<f64>) -> Self {
        Self::bar(Bar { ends: Some((0.0, share)), mark, class: "" })
    }

    /// Adds a remark below, unless it is empty.
    pub fn with(mut self, small: impl Into<String>) -> Self {
        self.small.push(small.into());
        self.small.retain(|text| !text.is_empty());
        self
    }

    /// Adds a link to a part of the page.
    pub fn linked(self, target: String) -> Self {
        Self { link: Some(target), ..self }
    }

    fn markup(&self, is_heading: bool) -> Markup {
        let text = match &self.link {
            Some(link) => Markup::of("<a href=\"#{}\">{}</a>", &[link, &self.text]),
            None => Markup::text(&self.text),
        };
        let bar = self.bar.map(Bar::markup).unwrap_or_default();
        let small: Markup = self.small.iter().map(|text| Markup::of("<small>{}</small>", &[text])).collect();
        let template = if is_heading {
            "<th scope=\"row\" class=\"{}\">{}{}{}</th>"
        } else {
            "<td class=\"{}\">{}{}{}</td>"
        };
        Markup::of(template, &[&self.class, &text, &bar, &small])
    }
}

/// A table with these headings. The first cell of a row is its heading. A row of one cell is a heading of the following
/// rows. Without rows, the table is empty.
pub(crate) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) -> Markup {
    let heading = |(index, heading): (usize, &&str)| match heading.split_once('…') {
        // The heading of a column of bars names the ends of the scale.
        Some((low, high)) if index > 0 => Markup::of(
            "<th class=\"wide\"><span class=\"ends\"><span>{}</span><span>{}</span></span></th>",
            &[&low, &high],
        ),
        _ => Markup::of("<th>{}</th>", &[heading]),
    };
    let row = |row: Vec<Cell>| match row.as_slice() {
        [only] if head.len() > 1 => Markup::of(
            "<tr><th scope=\"colgroup\" colspan=\"{}\"><b>{}</b></th></tr>",
            &[&head.len(), &only.text],
        ),
        cells => {
            let cells = cells.iter().enumerate().map(|(index, cell)| cell.markup(index == 0));
            cells.collect::<Markup>().within("<tr>{}</tr>")
        }
    };
    let rows: Markup = rows.into_iter().map(row).collect();
    if rows.is_empty() {
        return rows;
    }
    let head: Markup = head.iter().enumerate().map(heading).collect();
    Markup::of(
        "<div class=\"scroll\"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        &[&head, &rows],
    )
}

/// A column of a table: its heading, and the function that creates the cell of an item.
pub(crate) type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> Cell);

/// A table of these columns with a row for each item.
pub(crate) fn columns<'a, T: 'a>(all: impl IntoIterator<Item = &'a T>, columns: &[Column<'_, T>]) -> Markup {
    let head: Vec<&str> = columns.iter().map(|(heading, _)| *heading).collect();
    table(&head, all.into_iter().map(|one| columns.iter().map(|(_, cell)| cell(one)).collect()))
}

/// Names and values one below the other, each with its meaning.
pub(crate) fn terms(class: &str, all: impl IntoIterator<Item = [String; 3]>) -> Markup {
    let term = |[name, value, meaning]: [String; 3]| {
        let meaning = Markup::text(&meaning).within("<dd class=\"meaning\">{}</dd>");
        Markup::of("<div><dt>{}</dt><dd>{}</dd>{}</div>", &[&name, &value, &meaning])
    };
    let all: Markup = all.into_iter().filter(|[_, value, _]| !value.is_empty()).map(term).collect();
    Markup::of("<dl class=\"{}\">{}</dl>", &[&class, &all])
}

/// A list of points; empty without points.
pub(crate) fn findings(all: &[String]) -> Markup {
    let points: Markup = all.iter().map(|finding| Markup::of("<li>{}</li>", &[finding])).collect();
    points.within("<ul class=\"findings\">{}</ul>")
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Markup(String);

/// A piece in a template: a text, which is escaped, or markup.
pub(crate) trait Piece {
    fn write_to(&self, page: &mut String);
}

impl<T: Display> Piece for T {
    fn write_to(&self, page: &mut String) {
        // Writing into a String cannot fail.
        let _ = write!(Escaping(page), "{self}");
    }
}

impl Piece for Markup {
    fn write_to(&self, page: &mut String) {
        page.push_str(&self.0);
    }
}

/// Escapes all text that is written through it.
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
                // A character that HTML does not allow would make the page invalid, and some readers stop at a NUL.
                letter if letter.is_control() && !letter.is_whitespace() => self.0.push('\u{fffd}'),
                letter => self.0.push(letter),
            }
        }
        Ok(())
    }
}

impl Markup {
    /// A template of this program. Each `{}` becomes a piece; texts are escaped for elements and quoted attributes.
    pub fn of(template: &'static str, pieces: &[&dyn Piece]) -> Self {
        let places = template.matches("{}").count();
        assert!(places == pieces.len(), "a template has a piece for each place: {template}");
        let mut parts = template.split("{}");
        let mut page = parts.next().unwrap_or_default().to_owned();
        for (piece, part) in pieces.iter().zip(parts) {
            piece.write_to(&mut page);
            page.push_str(part);
        }
        Self(page)
    }

    /// Markup of this program.
    pub fn raw(markup: &'static str) -> Self {
        Self(markup.to_owned())
    }

    pub fn text(text: &str) -> Self {
        Self::of("{}", &[&text])
    }

    /// Data for the script, as JSON that cannot end its element.
    pub fn data(data: &serde_json::Value) -> Self {
        let json = data.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028");
        Self(format!("<script type=\"application/json\">{json}</script>"))
    }

    /// The markup in the only place of a template. Empty markup stays empty.
    pub fn within(self, template: &'static str) -> Self {
        if self.is_empty() { self } else { Self::of(template, &[&self]) }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

impl FromIterator<Self> for Markup {
    fn from_iter<I: IntoIterator<Item = Self>>(pieces: I) -> Self {
        Self(pieces.into_iter().map(|piece| piece.0).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_markup_are_escaped() {
        let attack = "\"><script>alert('1')</script>";
        let markup = Markup::of("<p title=\"{}\">{}</p>", &[&attack, &"a & b\0"]);
        assert_eq!(
            markup.within("<i>{}</i>").into_string(),
            "<i><p title=\"&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;\">a &amp; b\u{fffd}</p></i>"
        );
        let text = Markup::data(&serde_json::json!({"name": "</script><script>"})).into_string();
        assert_eq!(text.matches('<').count(), 2, "{text}");
    }

    #[test]
    fn empty_markup_stays_empty() {
        assert!(Markup::text("").within("<p>{}</p>").is_empty());
        assert!(table(&["name"], []).is_empty());
    }

    #[test]
    #[should_panic(expected = "a piece for each place")]
    fn template_with_too_few_pieces_panics() {
        let _ = Markup::of("{} {}", &[&1]);
    }

    #[test]
    #[should_panic(expected = "a piece for each place")]
    fn template_with_too_many_pieces_panics() {
        let _ = Markup::of("{}", &[&1, &2]);
    }
}
