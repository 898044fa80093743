//! Text formats of metrics: OpenMetrics, which the hub writes, and Prometheus' classic format.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use upesi_http::Bytes;

const OPEN_METRICS: &str = "application/openmetrics-text";
const CLASSIC: &str = "text/plain";

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    OpenMetrics,
    /// The classic format of Prometheus, version 0.0.4.
    Classic,
}

impl Format {
    /// The format that a client requests by `Accept`; OpenMetrics without a preference.
    pub(crate) fn requested(headers: &HeaderMap) -> Self {
        let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut weights = [0.0_f32; 2];
        for range in values.flat_map(|value| value.split(',')) {
            let (media_type, parameters) = range.split_once(';').unwrap_or((range, ""));
            let weight = parameters.split(';').find_map(|parameter| parameter.trim().strip_prefix("q="));
            let weight = weight.map_or(1.0, |weight| weight.trim().parse().unwrap_or(0.0));
            let media_type = media_type.trim().to_ascii_lowercase();
            let which = match &*media_type {
                OPEN_METRICS => 0,
                CLASSIC => 1,
                _ => continue,
            };
            weights[which] = weights[which].max(weight);
        }
        let [open, classic] = weights;
        if classic > open { Self::Classic } else { Self::OpenMetrics }
    }

    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Converts a text of OpenMetrics to this format.
    pub(crate) fn of(self, text: Bytes) -> Bytes {
        match self {
            Self::OpenMetrics => text,
            Self::Classic => classic(&String::from_utf8_lossy(&text)).into(),
        }
    }
}

/// The classic format names a family of counters like its samples, with `_total`. Units, exemplars and the end mark are
/// left out.
fn classic(text: &str) -> String {
    let counters: std::collections::BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut converted = String::with_capacity(text.len() + counters.len() * 16);
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (Some(kind @ ("HELP" | "TYPE")), Some(family), Some(rest)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let ending = if counters.contains(family) { "_total" } else { "" };
            let rest = match (kind, rest) {
                ("TYPE", "unknown") => "untyped",
                ("TYPE", "info" | "stateset") => "gauge",
                (_, rest) => rest,
            };
            converted.push_str(&format!("# {kind} {family}{ending} {rest}\n"));
        } else {
            converted.push_str(without_exemplar(line));
            converted.push('\n');
        }
    }
    converted
}

/// A sample without its exemplar. The exemplar begins after the labels, and their values may contain any text.
fn without_exemplar(line: &str) -> &str {
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (at, letter) in line.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '#' if !is_quoted => return line[..at].trim_end(),
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_the_format_that_they_request() {
        use Format::{Classic, OpenMetrics};
        for (accept, expected) in [
            (None, OpenMetrics),
            (Some("*/*"), OpenMetrics),
            (Some("text/plain"), Classic),
            (Some("Text/Plain; version=0.0.4"), Classic),
            (Some("text/plain;version=0.0.4;q=0.5, */*;q=0.1"), Classic),
            (Some("text/html"), OpenMetrics),
            (Some("text/plain;q=0"), OpenMetrics),
            // The headers of Prometheus, with and without OpenMetrics.
            (
                Some(
                    "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4,*/*;q=0.1",
                ),
                OpenMetrics,
            ),
            (Some("text/plain;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4,*/*;q=0.1"), Classic),
            (Some("application/openmetrics-text;q=0.2, text/plain;q=0.3"), Classic),
            (Some("application/openmetrics-text, text/plain"), OpenMetrics),
        ] {
            let mut headers = HeaderMap::new();
            accept.map(|accept| headers.insert(ACCEPT, accept.parse().unwrap()));
            assert_eq!(Format::requested(&headers), expected, "{accept:?}");
        }
        // The header may have several lines.
        let mut headers = HeaderMap::new();
        for accept in ["application/openmetrics-text;q=0.2", "text/plain"] {
            headers.append(ACCEPT, accept.parse().unwrap());
        }
        assert_eq!(Format::requested(&headers), Classic);
    }

    #[test]
    fn the_classic_format_names_counters_as_their_samples() {
        let open = "# HELP upesi_calls Calls.\n# TYPE upesi_calls counter\n# UNIT upesi_calls calls\n\
            upesi_calls_total{fsp=\"a # b\\\" # c\"} 7 # {trace=\"x\"} 1.0\n\
            # HELP upesi_time Time.\n# TYPE upesi_time histogram\nupesi_time_bucket{le=\"1.0\"} 3 # {} 0.5\n\
            upesi_time_sum 1.5\nupesi_time_count 3\n\
            # HELP upesi_build Build.\n# TYPE upesi_build info\nupesi_build_info{version=\"1\"} 1\n\
            # HELP upesi_odd Odd.\n# TYPE upesi_odd unknown\nupesi_odd 1\n# EOF\n";
        let expected = "# HELP upesi_calls_total Calls.\n# TYPE upesi_calls_total counter\n\
            upesi_calls_total{fsp=\"a # b\\\" # c\"} 7\n\
            # HELP upesi_time Time.\n# TYPE upesi_time histogram\nupesi_time_bucket{le=\"1.0\"} 3\n\
            upesi_time_sum 1.5\nupesi_time_count 3\n\
            # HELP upesi_build Build.\n# TYPE upesi_build gauge\nupesi_build_info{version=\"1\"} 1\n\
            # HELP upesi_odd Odd.\n# TYPE upesi_odd untyped\nupesi_odd 1\n";
        assert_eq!(classic(open), expected);
        assert_eq!(Format::OpenMetrics.of(Bytes::from_static(open.as_bytes())), open);
    }
}
