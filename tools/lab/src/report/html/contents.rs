//! The parts of the page, and a table of contents where it is long.

use super::markup::Markup;

/// Parts in the order in which they are read.
#[derive(Debug, Default)]
pub(crate) struct Parts(Vec<Part>);

#[derive(Debug)]
struct Part {
    /// What a link to it ends with.
    id: String,
    heading: String,
    body: Markup,
}

impl Parts {
    /// Adds a part that has its own heading; nothing, where it is empty.
    pub fn add(&mut self, id: &str, heading: &str, body: &Markup) {
        if !body.is_empty() {
            self.0.push(Part { id: id.to_owned(), heading: heading.to_owned(), body: body.clone() });
        }
    }

    /// Adds what a part consists of; nothing, where it is empty.
    pub fn section(&mut self, id: &str, heading: &str, content: &Markup) {
        if !content.is_empty() {
            let mut body = Markup::new();
            body.put("<section><h2>{}</h2>", &[&heading]).add(content).raw("</section>");
            self.add(id, heading, &body);
        }
    }

    /// All of them, with links to each on top where the page is long.
    pub fn markup(&self, is_long: bool) -> Markup {
        let mut markup = Markup::new();
        if is_long {
            markup.raw("<nav class=\"contents\" aria-label=\"On this page\"><ul>");
            for part in &self.0 {
                markup.put("<li><a href=\"#{}\">{}</a></li>", &[&part.id, &part.heading]);
            }
            markup.raw("</ul></nav>");
        }
        for part in &self.0 {
            markup.put("<div class=\"part\" id=\"{}\">", &[&part.id]).add(&part.body).raw("</div>");
        }
        markup
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_page_links_to_every_part_that_has_something_to_say() {
        let mut content = Markup::new();
        content.raw("<p>x</p>");
        let mut parts = Parts::default();
        parts.section("first", "A & B", &content);
        parts.section("second", "Nothing", &Markup::new());
        assert_eq!(
            parts.markup(true).into_string(),
            "<nav class=\"contents\" aria-label=\"On this page\"><ul><li><a href=\"#first\">A &amp; B</a></li></ul></nav>\
             <div class=\"part\" id=\"first\"><section><h2>A &amp; B</h2><p>x</p></section></div>"
        );
        assert!(!parts.markup(false).into_string().contains("<nav"));
    }
}
