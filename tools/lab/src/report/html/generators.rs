//! The load generators whose results were merged, each by itself.

use super::markup::Markup;
use crate::report::figures::{ABSENT, count, milliseconds, number, or_absent, percent};
use crate::report::run::{Generator, Run, plain};

/// What each generator did alone; nothing where there was one.
pub(crate) fn table(run: &Run) -> Markup {
    let mut markup = Markup::new();
    if run.generators.is_empty() {
        return markup;
    }
    markup.raw(
        "<p class=\"note\">Several machines drove the hub at once; the figures of this page are of all of them together.</p>\
         <div class=\"scroll\"><table><thead><tr><th>load generator</th><th>cores</th><th>per second</th><th>failed</th><th>p50</th>\
         <th>p99</th><th>sent late, p99</th><th>taken by other machines</th><th>valid</th></tr></thead><tbody>",
    );
    for generator in &run.generators {
        markup.put("<tr><th scope=\"row\">{}</th>", &[&generator.name]);
        for cell in cells(generator) {
            markup.put("<td>{}</td>", &[&cell]);
        }
        markup.raw("</tr>");
    }
    markup.raw("</tbody></table></div>");
    markup
}

fn cells(generator: &Generator) -> [String; 8] {
    let absent = || ABSENT.to_owned();
    let valid = generator.validity.as_ref().and_then(|validity| validity.valid);
    [
        generator.environment.get("cores").map_or_else(absent, plain),
        or_absent(generator.throughput_per_s, number),
        generator.failed.map_or_else(absent, count),
        or_absent(generator.latency_ms.p50, milliseconds),
        or_absent(generator.latency_ms.p99, milliseconds),
        or_absent(generator.schedule.as_ref().and_then(|schedule| schedule.lag_ms_p99), milliseconds),
        or_absent(generator.window.as_ref().and_then(|window| window.stolen_share), percent),
        valid.map_or_else(absent, |valid| if valid { "yes" } else { "NO" }.to_owned()),
    ]
}
