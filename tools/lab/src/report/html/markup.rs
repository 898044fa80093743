//! HTML that cannot be injected into: markup is written by this program only, texts are escaped on their way in.

use std::fmt::{Display, Write};

/// A piece of the page.
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
    /// Nothing.
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

    /// Adds another piece.
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

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text of the piece.
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
