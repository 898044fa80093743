//! A line of the log. Values of fields may come from outside. Their length is limited, and none of their characters
//! ends the line, moves a terminal's cursor or changes the order of the text.

use std::fmt::{self, Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::registry::LookupSpan;
use upesi_types::text::{escape, is_hidden};

/// Longest text of a field, in bytes; the rest is cut off.
const FIELD_BYTES_MAX: usize = 2_048;

/// The form of a line, which determines how characters are escaped.
#[derive(Clone, Copy)]
enum Form {
    /// A JSON string. Parsing it returns the same text.
    Json,
    /// Text for users. A text that begins with a quote is already escaped.
    Text,
}

/// Writes the text of a field to the line, up to the maximum length.
struct LimitedText<'a> {
    line: &'a mut dyn fmt::Write,
    form: Form,
    left: usize,
    left_out: usize,
}

impl<'a> LimitedText<'a> {
    fn write(line: &'a mut dyn fmt::Write, form: Form, text: fmt::Arguments<'_>) -> fmt::Result {
        let mut bounded = Self { line, form, left: FIELD_BYTES_MAX, left_out: 0 };
        bounded.write_fmt(text)?;
        match bounded.left_out {
            0 => Ok(()),
            count => write!(bounded.line, "… ({count} more bytes)"),
        }
    }

    fn escape(&mut self, letter: char) -> fmt::Result {
        match (self.form, letter) {
            (Form::Json, '"' | '\\') => write!(self.line, "\\{letter}"),
            (_, _) if is_hidden(letter) => self.line.write_str(&escape(letter.encode_utf8(&mut [0; 4]))),
            _ => self.line.write_char(letter),
        }
    }
}

impl fmt::Write for LimitedText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            match self.left.checked_sub(letter.len_utf8()) {
                Some(left) if self.left_out == 0 => {
                    self.left = left;
                    self.escape(letter)?;
                }
                _ => self.left_out += letter.len_utf8(),
            }
        }
        Ok(())
    }
}

/// A line of JSON: time, level, the event's fields, target.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        writer.write_str("{\"timestamp\":\"")?;
        SystemTime.format_time(&mut writer)?;
        write!(writer, "\",\"level\":\"{}\"", metadata.level())?;
        let mut members = Members { line: &mut writer, outcome: Ok(()) };
        event.record(&mut members);
        members.outcome?;
        writeln!(writer, ",\"target\":\"{}\"}}", metadata.target())
    }
}

struct Members<'a, 'writer> {
    line: &'a mut Writer<'writer>,
    outcome: fmt::Result,
}

impl Members<'_, '_> {
    fn text(&mut self, field: &Field, text: fmt::Arguments<'_>) {
        self.outcome = self.outcome.and_then(|()| {
            write!(self.line, ",\"{}\":\"", name_of(field))?;
            LimitedText::write(self.line, Form::Json, text)?;
            self.line.write_char('"')
        });
    }

    fn plain(&mut self, field: &Field, value: &dyn fmt::Display) {
        self.outcome = self.outcome.and_then(|()| write!(self.line, ",\"{}\":{value}", name_of(field)));
    }
}

/// The name of a field; a field named like a keyword has a prefix in the code.
fn name_of(field: &Field) -> &'static str {
    let name = field.name();
    name.strip_prefix("r#").unwrap_or(name)
}

impl Visit for Members<'_, '_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        match value.is_finite() {
            true => self.plain(field, &value),
            false => self.plain(field, &"null"),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.plain(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.plain(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.plain(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field, format_args!("{value:?}"));
    }
}

/// The fields of a text line: the message, then `name=value`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextFields;

impl<'writer> FormatFields<'writer> for TextFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut words = Words { line: &mut writer, is_first: true, outcome: Ok(()) };
        fields.record(&mut words);
        words.outcome
    }
}

struct Words<'a, 'writer> {
    line: &'a mut Writer<'writer>,
    is_first: bool,
    outcome: fmt::Result,
}

impl Visit for Words<'_, '_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.outcome = self.outcome.and_then(|()| {
            if !std::mem::take(&mut self.is_first) {
                self.line.write_char(' ')?;
            }
            if field.name() != "message" {
                let (italic, plain) =
                    if self.line.has_ansi_escapes() { ("\u{1b}[3m", "\u{1b}[0m") } else { ("", "") };
                write!(self.line, "{italic}{}{plain}=", name_of(field))?;
            }
            LimitedText::write(self.line, Form::Text, format_args!("{value:?}"))
        });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io;
    use std::sync::{Arc, LazyLock, Mutex};

    use tracing::Dispatch;
    use tracing_subscriber::fmt::MakeWriter;
    use tracing_subscriber::layer::SubscriberExt as _;
    use upesi_testsupport::hostile_texts::{Random, text};
    use upesi_types::text::is_hidden;

    use super::super::{LogFormat, lines};

    const SEEDS: u64 = 60;

    /// Lines in memory.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Log {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    /// A second subscriber. While a subscriber is the only one of the process, a test that changes the log level asks
    /// the subscriber of its own thread whether events are recorded, and so silences this thread.
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(tracing_subscriber::registry()));

    pub(in crate::logging) fn logged(format: LogFormat, event: impl FnOnce()) -> String {
        LazyLock::force(&SECOND);
        let log = Log::default();
        let subscriber = tracing_subscriber::registry().with(lines(format, log.clone(), false));
        tracing::subscriber::with_default(subscriber, event);
        let text = log.0.lock().unwrap().clone();
        String::from_utf8(text).unwrap()
    }

    /// Possible content of targets, names and reasons from outside.
    const HOSTILE: [&str; 7] = [
        "\n2031-04-01T10:00:00Z  INFO forged",
        "\r\u{1b}[2K\u{1b}[1Aapproved",
        "\u{9b}31m\u{7}\u{8}\u{7f}",
        "\u{202e}desrever\u{2066}\u{200f}",
        "\u{2028}\u{2029}\u{feff}\u{e0041}",
        "\",\"level\":\"forged\\",
        "\u{0}",
    ];

    #[test]
    fn external_text_is_escaped() {
        for format in [LogFormat::Json, LogFormat::Pretty] {
            for text in HOSTILE {
                let line =
                    logged(format, || tracing::info!(path = text, %text, error = ?text, "told of {text}"));
                let (line, end) = line.split_at(line.len() - 1);
                assert_eq!(end, "\n");
                let is_shown = |letter: char| !letter.is_control() && !super::is_hidden(letter);
                assert!(line.chars().all(is_shown), "{text:?}: {line:?}");
                if format == LogFormat::Json {
                    let read: serde_json::Value = serde_json::from_str(line).unwrap();
                    assert_eq!((&read["path"], &read["text"]), (&text.into(), &text.into()), "{line}");
                    assert_eq!(
                        (&read["level"], &read["error"]),
                        (&"INFO".into(), &format!("{text:?}").into())
                    );
                    assert_eq!(read["message"], format!("told of {text}"));
                }
            }
        }
    }

    #[test]
    fn long_field_is_truncated_with_the_omitted_length() {
        let long = "é".repeat(40_000);
        for format in [LogFormat::Json, LogFormat::Pretty] {
            let line = logged(format, || tracing::warn!(path = long, %long, error = ?long, "told"));
            assert!(line.len() < 4 * super::FIELD_BYTES_MAX, "{}", line.len());
            assert!(line.contains("… (77952 more bytes)"), "{line}");
        }
    }

    #[test]
    fn ordinary_values_are_unchanged() {
        let event = || {
            tracing::info!(
                r#type = "a b",
                count = 7_u64,
                below = -7_i64,
                is = true,
                share = 0.5,
                none = f64::NAN,
                "told"
            );
        };
        let line = logged(LogFormat::Json, event);
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(line.starts_with("{\"timestamp\":\"20"), "{line}");
        let target = module_path!();
        let expected = serde_json::json!({
            "timestamp": read["timestamp"], "level": "INFO", "message": "told", "type": "a b", "count": 7, "below": -7,
            "is": true, "share": 0.5, "none": null, "target": target,
        });
        assert_eq!(read, expected);
        let line = logged(LogFormat::Pretty, event);
        let fields = r#"told type="a b" count=7 below=-7 is=true share=0.5 none=NaN"#;
        assert!(line.ends_with(&format!("  INFO {target}: {fields}\n")), "{line}");
    }

    #[test]
    fn external_text_cannot_forge_fields_or_lines() {
        for seed in 0..SEEDS {
            let hostile = text(&mut Random(seed));
            for format in [LogFormat::Json, LogFormat::Pretty] {
                let line = logged(format, || {
                    tracing::warn!(path = %hostile, quoted = ?hostile, "rejected {hostile}");
                });
                assert_eq!(line.matches('\n').count(), 1, "seed {seed}: {line}");
                let hidden: Vec<char> =
                    line.chars().filter(|char| is_hidden(*char) && *char != '\n').collect();
                assert!(hidden.is_empty(), "seed {seed}: {hidden:?} in {line}");
            }
        }
    }
}
