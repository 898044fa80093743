//! The HTML page: one file that loads nothing. Its tables need no script; the script draws the plots.

mod plots;
mod run_section;
mod sections;
mod table;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use self::table::{Cell, Markup, table};
use super::suite::{claims, lengths, sections, verdict};
use crate::figures::{capitalised, milliseconds, minute, number, plain};
use crate::report::comparison;
use crate::report::input::{Results, Suite};
use crate::report::run::Run;
use crate::report::text::{FIGURES, figures};

/// The page's frame. If a text were not escaped correctly, the security policy still prevents it from running or
/// fetching anything.
const PAGE: &str = include_str!("html/page.html");
const STYLE: &str = concat!(include_str!("html/uplot/uPlot.min.css"), include_str!("html/page.css"));
/// uPlot with its licence, and the page's code that uses it.
const SCRIPT: &str = concat!(
    "/*!\n",
    include_str!("html/uplot/LICENSE"),
    "*/\n",
    include_str!("html/uplot/uPlot.iife.min.js"),
    "\n",
    include_str!("html/page.js")
);
/// Terms that the page must explain, for a reader who runs a payment scheme and does not program.
const GLOSSARY: &str = include_str!("html/glossary.html");
/// Maximum number of runs whose lines can be distinguished in one plot.
const OVERLAID_MAX: usize = plots::COLOURS;
/// Maximum number of runs that are shown unfolded.
const OPEN_MAX: usize = 2;

const SUITE_VERDICT: &str = "<section class=\"verdict\"><h2>Verdict</h2>{}</section>";

/// The end of a link to a part of the page, the part's heading, and its content.
type PageSection = (String, String, Markup);

/// A part whose content has its own heading.
fn part(id: &str, heading: &str, content: Markup) -> PageSection {
    (id.to_owned(), heading.to_owned(), content)
}

/// A part with a heading; empty if its content is empty.
fn section(id: &str, heading: &str, content: &Markup) -> PageSection {
    let section = || Markup::of("<section><h2>{}</h2>{}</section>", &[&heading, content]);
    part(id, heading, if content.is_empty() { Markup::default() } else { section() })
}

pub(crate) fn page(results: &Results) -> String {
    let title = title(results);
    let digest = STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    let parts = parts(results);
    let body =
        |(id, _, content): &PageSection| Markup::of("<div class=\"part\" id=\"{}\">{}</div>", &[id, content]);
    let main = [contents(results, &parts)].into_iter().chain(parts.iter().map(body));
    let (header, main) = (header(results, &title), main.collect::<Markup>());
    let (style, script) = (Markup::raw(STYLE), Markup::raw(SCRIPT));
    Markup::of(PAGE, &[&digest, &title, &style, &header, &main, &script]).into_string()
}

/// Links to each part of a long page.
fn contents(results: &Results, parts: &[PageSection]) -> Markup {
    if results.runs.len() <= OPEN_MAX {
        return Markup::default();
    }
    let link = |(id, heading, _): &PageSection| Markup::of("<li><a href=\"#{}\">{}</a></li>", &[id, heading]);
    let links: Markup = parts.iter().map(link).collect();
    links.within("<nav class=\"contents\" aria-label=\"On this page\"><ul>{}</ul></nav>")
}

/// The parts of the page, in the order in which they are read.
fn parts(results: &Results) -> Vec<PageSection> {
    let one_suite = results.only_suites && results.suites.len() == 1;
    let comparison = comparison::compare(results).ok().filter(|_| compared(results));
    let heading = if one_suite { "What each part costs" } else { "Verdict" };
    let compared = comparison.map(|comparison| sections::section(&comparison, heading));
    let mut middle = [
        vec![
            part("claims", "Claims", claims_part(results)),
            part("verdict", heading, compared.unwrap_or_default()),
        ],
        suites(results),
    ];
    // For a single suite, the plots come first, and then the cost of each part.
    if one_suite {
        middle.reverse();
    }
    let mut parts = Vec::new();
    if let ([suite], true) = (results.suites.as_slice(), one_suite) {
        let sentence = |text: String| Markup::of("<p class=\"lead\">{}</p>", &[&tied(&text)]);
        let sentences: Markup = verdict(suite, &results.runs).into_iter().map(sentence).collect();
        parts.push(part("suite-verdict", "Verdict", sentences.within(SUITE_VERDICT)));
    }
    parts.extend(middle.into_iter().flatten());
    if results.runs.len() > 1 {
        parts.push(section("cpu", "Where the hub's CPU time goes", &looked_into(&results.runs)));
        parts.push(section("runs", "All runs", &overview(results)));
        parts.push(section("side-by-side", "Side by side", &overlays(&results.runs)));
    }
    parts.push(part("details", "Every run", runs_part(&results.runs)));
    parts.push(part("words", "Glossary", Markup::raw(GLOSSARY)));
    parts.retain(|(.., content)| !content.is_empty());
    parts
}

/// Whether the runs are a comparison. In a single suite only ablations are compared; the other runs answer one question
/// together.
fn compared(results: &Results) -> bool {
    results.only_suites || (results.suites.is_empty() && results.runs.len() > 1)
}

fn title(results: &Results) -> String {
    match (results.suites.as_slice(), results.runs.as_slice()) {
        ([suite], _) if results.only_suites => suite.file.title.clone(),
        (_, [run]) => capitalised(run.title()),
        (_, [first, rest @ ..]) if rest.iter().all(|run| run.title() == first.title()) => {
            format!("{}: {} runs compared", first.title(), rest.len() + 1)
        }
        (suites, _) if results.only_suites => format!("{} suites compared", suites.len()),
        (_, runs) => format!("{} runs compared", runs.len()),
    }
}

/// The title, and the common properties of all runs: purpose, time and place.
fn header(results: &Results, title: &str) -> Markup {
    let runs = &results.runs;
    let description = runs.first().map_or("", |first| first.description.as_str());
    let is_shared = runs.iter().all(|run| run.description == description);
    let description = Markup::text(if is_shared { description } else { "" });
    let lengths = lengths(results).into_iter().map(|length| tied(&length));
    let facts = [facts(runs).join(" · ")].into_iter().chain(lengths);
    let facts = facts.map(|text| Markup::text(&text).within("<p class=\"facts\">{}</p>"));
    Markup::of(
        "<header><p class=\"brand\">Upesi <span>characterization lab</span><button type=\"button\" id=\"theme\" hidden>Light / \
         dark</button></p><h1>{}</h1>{}{}</header>",
        &[&title, &description.within("<p class=\"description\">{}</p>"), &facts.collect::<Markup>()],
    )
}

/// Time and place, as far as all runs share them.
fn facts(runs: &[Run]) -> Vec<String> {
    let shared = |name: &str| {
        let mut texts =
            runs.iter().map(|run| run.environment.get(name).map(plain).filter(|text| !text.is_empty()));
        let first = texts.next()??;
        texts.all(|text| text.as_ref() == Some(&first)).then_some(first)
    };
    let start = runs.iter().filter_map(|run| run.environment.get("started_at").map(plain)).min();
    let start = start.filter(|text| !text.is_empty()).map(|text| minute(&text));
    let memory = shared("memory_mb").and_then(|text| text.parse::<f64>().ok());
    let facts = [
        start,
        shared("cpu"),
        shared("cores").map(|cores| format!("{cores} cores")),
        memory.map(|memory| format!("{} GiB", number(memory / 1024.0))),
        shared("version").map(|version| format!("version {version}")),
        shared("commit").map(|commit| format!("commit {}", commit.chars().take(12).collect::<String>())),
    ];
    facts.into_iter().flatten().collect()
}

/// The plots of each suite, and its missing parts.
fn suites(results: &Results) -> Vec<PageSection> {
    let of_suite = |(number, suite): (usize, &Suite)| {
        let plots =
            suite.file.plots.iter().enumerate().filter_map(|(index, plot)| {
                plots::of_suite(plot, results, &format!("sweep-{number}-{index}"))
            });
        let plots: Markup = plots.map(|plot| plot.markup()).collect();
        let absences =
            suite.absences.iter().map(|absence| Markup::of("<p class=\"note\">{}.</p>", &[absence]));
        let content = [plots.within("<div class=\"pair\">{}</div>")].into_iter().chain(absences);
        let has_others = results.suites.len() > 1;
        let heading = if has_others { suite.file.title.as_str() } else { "Effect of the parameters" };
        section(&format!("suite-{number}"), heading, &content.collect())
    };
    results.suites.iter().enumerate().map(of_suite).collect()
}

/// The hub's CPU time by stage, for every run with a profile. The flame graphs are with the runs.
fn looked_into(runs: &[Run]) -> Markup {
    let shares = runs.iter().enumerate().map(|(index, run)| (index, run, sections::shares(run)));
    let headed = |(index, run, shares): (usize, &Run, Markup)| {
        Markup::of("<h3><a href=\"#run-{}\">{}</a></h3>{}", &[&index, &run.label, &shares])
    };
    shares.filter(|(.., shares)| !shares.is_empty()).map(headed).collect()
}

/// The claims and their verdicts.
fn claims_part(results: &Results) -> Markup {
    let claims = claims(results).map(|claim| {
        let words = tied(&capitalised(&claim.words));
        Markup::of("<article><h3>{}</h3><p class=\"lead\">{}</p></article>", &[&claim.text, &words])
    });
    claims.collect::<Markup>().within("<section class=\"verdict\"><h2>Claims</h2>{}</section>")
}

fn overview(results: &Results) -> Markup {
    let row = |place: usize| {
        let run = results.runs.get(place)?;
        let figure = |value: String| {
            let class = if matches!(value.as_str(), "NO" | "FAILED") { "alarm" } else { "" };
            Cell::classed(value, class)
        };
        let name = Cell::from(run.label.as_str()).linked(format!("run-{place}"));
        Some([name].into_iter().chain(figures(run).map(figure)).collect())
    };
    let rows = sections(results).into_iter().flat_map(|(heading, places)| {
        let rows: Vec<Vec<Cell>> = places.into_iter().filter_map(row).collect();
        heading.map(|heading| vec![Cell::from(heading)]).into_iter().chain(rows)
    });
    // The term of the glossary.
    table(&FIGURES.map(|name| if name == "max" { "slowest" } else { name }), rows)
}

/// Overlaid plots of the runs, if there are few enough to distinguish them.
fn overlays(runs: &[Run]) -> Markup {
    if runs.len() > OVERLAID_MAX {
        return Markup::default();
    }
    let percentiles = plots::percentiles(runs, "percentiles").map(|plot| plots::Plot { wide: true, ..plot });
    plots::of_runs(runs, "all").iter().chain(&percentiles).map(plots::Plot::markup).collect()
}

/// Every run. If there are many, they are folded, with a note.
fn runs_part(runs: &[Run]) -> Markup {
    let all: Markup = (0..runs.len()).map(|index| run_part(runs, index)).collect();
    if runs.len() <= OPEN_MAX {
        return all;
    }
    all.within(
        "<section class=\"runs\"><h2>Every run</h2><p class=\"note on-screen\">Click a run to unfold it. \
         Only unfolded runs are printed.</p>\
         <p class=\"note on-paper\">Runs that were folded on the screen are left out. Unfold them on the \
         screen to print them.</p>{}</section>",
    )
}

fn run_part(all: &[Run], index: usize) -> Markup {
    let (run, group) = (&all[index], format!("run-{index}"));
    let (summary, details) = (run_section::summary(run), run_section::details(run, &group));
    if all.len() == 1 {
        return Markup::of("<div class=\"run\" id=\"{}\">{}{}</div>", &[&group, &summary, &details]);
    }
    let open = if all.len() <= OPEN_MAX { " open" } else { "" };
    let throughput =
        run.number("throughput_per_s").map(|value| format!("{} {} per second", number(value), run.units()));
    let tail = run.number("latency_ms.p99").map(|value| format!("p99 {}", milliseconds(value)));
    let facts = tied(&throughput.into_iter().chain(tail).collect::<Vec<_>>().join(", "));
    // Common properties are at the top of the page.
    let is_own = all.iter().any(|other| other.description != run.description);
    let description = Markup::text(if is_own { &run.description } else { "" });
    Markup::of(
        "<details class=\"run\" id=\"{}\"{}><summary><h2>{}</h2><span>{}</span></summary>{}{}{}</details>",
        &[
            &group,
            &open,
            &run.label,
            &facts,
            &description.within("<p class=\"description\">{}</p>"),
            &summary,
            &details,
        ],
    )
}

/// A sentence whose figures and units are not separated at the end of a line.
fn tied(sentence: &str) -> String {
    let mut text = sentence.replace(" ± ", "\u{a0}±\u{a0}");
    for unit in ["%", "×", "µs", "ms", "s ", "s,", "s.", "min"] {
        for digit in '0'..='9' {
            text = text.replace(&format!("{digit} {unit}"), &format!("{digit}\u{a0}{unit}"));
        }
    }
    text
}
