//! The page: one file that loads nothing. Its tables read without the script; the script draws the plots.

mod plots;
mod run_section;
mod sections;
mod table;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use self::table::{Cell, Markup, table, terms};
use super::suite::{claims, lengths, sections};
use crate::report::compare;
use crate::report::figures::{capitalised, milliseconds, minute, number};
use crate::report::input::Results;
use crate::report::published::Beside;
use crate::report::run::{Run, plain};
use crate::report::text::figures;

const STYLE: &str = concat!(include_str!("html/uplot/uPlot.min.css"), include_str!("html/page.css"));
/// uPlot with its licence, and what the page makes of it.
const SCRIPT: &str = concat!(
    "/*!\n",
    include_str!("html/uplot/LICENSE"),
    "*/\n",
    include_str!("html/uplot/uPlot.iife.min.js"),
    "\n",
    include_str!("html/page.js")
);
/// Most runs whose lines are told apart in one plot.
const OVERLAID_MAX: usize = plots::COLOURS;
/// Up to this many runs are shown unfolded.
const OPEN_MAX: usize = 2;

/// Words that a page must explain, and their meaning for somebody who runs a payment scheme and no computers.
const GLOSSARY: [(&str, &str); 14] = [
    (
        "Throughput",
        "How many operations were completed in each second. It says how many payments a country can make at the same time.",
    ),
    (
        "Latency",
        "How long one operation took, from the moment it should have started until the payer's side knew the outcome.",
    ),
    (
        "p50, p99, p99.9",
        "p99 = 99 of 100 payments were faster than this. p50 is the middle one. The average hides the slow ones; the percentiles show them.",
    ),
    (
        "Slowest",
        "The single slowest operation. One in a million; interesting for finding causes, not for promises.",
    ),
    (
        "± and interval",
        "Measuring twice never gives the same figure. The interval says where the true one lies, with 95 % confidence.",
    ),
    (
        "Real, within noise",
        "A difference is real when its interval does not contain zero; otherwise chance alone could have made it. \"Within these runs\" is less: both sides were run once, and a machine that was slower at one moment than at another makes such a difference too.",
    ),
    (
        "Ratio to the baseline",
        "The hub's throughput divided by that of a program that only passes messages on, measured in turn with it. What slows the machine slows both, so it tells two hubs apart more surely than their throughput does.",
    ),
    (
        "Virtual user (closed load)",
        "Somebody who pays, waits for the outcome, and pays again at once. More users, more load; a slow hub slows them down.",
    ),
    (
        "Arrival rate (open load)",
        "Payments arrive at a set rate whether or not the hub keeps up, as customers do. Waiting in a queue counts as latency.",
    ),
    (
        "Waiting in the hub",
        "What the hub has taken in and not yet passed on. Ingress: requests that wait for their answer from the ledger. Engine: of these, what still has to be decided. Callbacks: answers that wait to be sent to a participant. Relays: questions that are being passed on.",
    ),
    (
        "Durable",
        "What was acknowledged survives a power cut, because it was on disk before the acknowledgement.",
    ),
    (
        "Audit",
        "After the run every balance at the hub is compared with the participants' own books, and every accepted request must have exactly one outcome.",
    ),
    ("Valid", "The machine that made the load kept up, so that the figures are the hub's and not its own."),
    (
        "CPU each",
        "Processor time for one operation. 100 µs means that one core could do ten thousand a second if it did nothing else.",
    ),
];

/// Parts in the order in which they are read: what a link to each ends with, its heading, its content.
#[derive(Debug, Default)]
struct Parts(Vec<(String, String, Markup)>);

impl Parts {
    /// Adds a part that has its own heading; nothing, if it is empty.
    fn add(&mut self, id: &str, heading: &str, body: &Markup) {
        if !body.is_empty() {
            self.0.push((id.to_owned(), heading.to_owned(), body.clone()));
        }
    }

    /// Adds what a part consists of; nothing, if it is empty.
    fn section(&mut self, id: &str, heading: &str, content: &Markup) {
        if !content.is_empty() {
            let mut body = Markup::new();
            body.put("<section><h2>{}</h2>", &[&heading]).add(content).raw("</section>");
            self.add(id, heading, &body);
        }
    }

    /// All of them, with links to each on top if the page is long.
    fn markup(&self, is_long: bool) -> Markup {
        let mut markup = Markup::new();
        if is_long {
            markup.raw("<nav class=\"contents\" aria-label=\"On this page\"><ul>");
            for (id, heading, _) in &self.0 {
                markup.put("<li><a href=\"#{}\">{}</a></li>", &[id, heading]);
            }
            markup.raw("</ul></nav>");
        }
        for (id, _, body) in &self.0 {
            markup.put("<div class=\"part\" id=\"{}\">", &[id]).add(body).raw("</div>");
        }
        markup
    }
}

/// The page; published figures beside ours are its first part, where there are some.
pub(crate) fn page(results: &Results, beside: Option<&Beside>) -> String {
    let title = title(results);
    let digest = STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    let mut page = Markup::new();
    page.raw("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    // Should a text ever leave its place all the same, nothing in it may run or be fetched.
    page.put(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{}'\">",
        &[&digest],
    );
    page.put(
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{}</title><style>",
        &[&title],
    );
    page.raw(STYLE).raw("</style></head><body>");
    header(&mut page, results, &title);
    page.raw("<main>").add(&parts(results, beside).markup(results.runs.len() > OPEN_MAX));
    page.raw("</main><footer>Written by <code>upesi lab report</code>. This file loads nothing and can be kept, sent and printed.</footer><script>");
    page.raw(SCRIPT).raw("</script></body></html>\n");
    page.into_string()
}

/// What stands on the page, in the order in which it is read.
fn parts(results: &Results, beside: Option<&Beside>) -> Parts {
    let mut parts = Parts::default();
    if let Some(beside) = beside {
        parts.section("published", "Published figures beside ours", &sections::published(beside));
    }
    // Of one suite the plots come first, and what each part costs after them.
    let one_suite = results.only_suites && results.suites.len() == 1;
    if one_suite {
        suites(&mut parts, results);
    }
    parts.add("claims", "What was to be shown", &claims_part(results));
    if let Ok(comparison) = compare::compare(results)
        && compared(results)
    {
        let heading = if one_suite { "What each part costs" } else { "Verdict" };
        parts.add("verdict", heading, &sections::section(&comparison, heading));
    }
    if !one_suite {
        suites(&mut parts, results);
    }
    if results.runs.len() > 1 {
        parts.section("cpu", "Where the hub's CPU time goes", &looked_into(&results.runs));
        parts.section("runs", "All runs", &overview(results));
        parts.section("side-by-side", "Side by side", &overlays(&results.runs));
    }
    parts.add("details", "Every run by itself", &runs_part(&results.runs));
    parts.add("words", "What the words mean", &glossary());
    parts
}

/// Whether the runs were put side by side to be compared. Of one suite alone only ablations are: the rest are parts of
/// one answer.
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

fn header(page: &mut Markup, results: &Results, title: &str) {
    page.raw("<header><p class=\"brand\">Upesi <span>characterization lab</span><button type=\"button\" id=\"theme\" hidden>Light / dark</button></p>");
    page.put("<h1>{}</h1>", &[&title]);
    let Some(first) = results.runs.first() else {
        page.raw("</header>");
        return;
    };
    if !first.description.is_empty() && results.runs.iter().all(|run| run.description == first.description) {
        page.put("<p class=\"description\">{}</p>", &[&first.description]);
    }
    let facts = facts(&results.runs);
    page.put("<p class=\"facts\">{}</p>", &[&facts.join(" · ")]);
    for length in lengths(results) {
        page.put("<p class=\"facts\">{}</p>", &[&tied(&length)]);
    }
    page.raw("</header>");
}

/// When and where, as far as it is the same for all runs.
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

fn suites(parts: &mut Parts, results: &Results) {
    for (number, suite) in results.suites.iter().enumerate() {
        let mut plots = Markup::new();
        for (index, plot) in suite.file.plots.iter().enumerate() {
            if let Some(plot) = plots::of_suite(plot, results, &format!("sweep-{number}-{index}")) {
                plots.add(&plot.markup());
            }
        }
        let mut body = Markup::new();
        if !plots.is_empty() {
            body.raw("<div class=\"pair\">").add(&plots).raw("</div>");
        }
        for absence in &suite.absences {
            body.put("<p class=\"note\">{}.</p>", &[absence]);
        }
        let heading = if results.suites.len() > 1 { suite.file.title.as_str() } else { "What it depends on" };
        parts.section(&format!("suite-{number}"), heading, &body);
    }
}

/// The hub's CPU time by stage, of every run that was looked into. The flame graphs are with the runs.
fn looked_into(runs: &[Run]) -> Markup {
    let mut markup = Markup::new();
    for (index, run) in runs.iter().enumerate() {
        let shares = sections::shares(run);
        if !shares.is_empty() {
            markup.put("<h3><a href=\"#run-{}\">{}</a></h3>", &[&index, &run.label]).add(&shares);
        }
    }
    markup
}

/// What was to be shown, and what became of it.
fn claims_part(results: &Results) -> Markup {
    let mut part = Markup::new();
    if claims(results).next().is_none() {
        return part;
    }
    part.raw("<section class=\"verdict\"><h2>What was to be shown</h2>");
    for claim in claims(results) {
        part.put(
            "<article><h3>{}</h3><p class=\"lead\">{}</p></article>",
            &[&claim.text, &tied(&capitalised(&claim.words))],
        );
    }
    part.raw("</section>");
    part
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
    let head = [
        "run",
        "per second",
        "p50",
        "p99",
        "p99.9",
        "slowest",
        "failed",
        "lost",
        "CPU each",
        "valid",
        "audit",
    ];
    table(&head, rows)
}

/// Runs drawn over each other, if they are few enough to be told apart.
fn overlays(runs: &[Run]) -> Markup {
    let mut markup = Markup::new();
    if runs.len() <= OVERLAID_MAX {
        let percentiles =
            plots::percentiles(runs, "percentiles").map(|plot| plots::Plot { wide: true, ..plot });
        plots::of_runs(runs, "all").iter().chain(&percentiles).for_each(|plot| {
            markup.add(&plot.markup());
        });
    }
    markup
}

/// Every run; many are folded, and said to be.
fn runs_part(runs: &[Run]) -> Markup {
    let mut part = Markup::new();
    let is_folded = runs.len() > OPEN_MAX;
    if is_folded {
        part.raw(
            "<section class=\"runs\"><h2>Every run by itself</h2><p class=\"note on-screen\">A click unfolds a run; printed is what is \
             unfolded.</p><p class=\"note on-paper\">Left out are the runs that were folded on the screen: unfold them there to print \
             them.</p>",
        );
    }
    for (index, run) in runs.iter().enumerate() {
        run_part(&mut part, run, index, runs);
    }
    if is_folded {
        part.raw("</section>");
    }
    part
}

fn run_part(page: &mut Markup, run: &Run, index: usize, all: &[Run]) {
    let runs = all.len();
    let group = format!("run-{index}");
    if runs == 1 {
        page.put("<div class=\"run\" id=\"{}\">", &[&group]);
        page.add(&run_section::summary(run)).add(&run_section::details(run, &group)).raw("</div>");
        return;
    }
    let open = if runs <= OPEN_MAX { " open" } else { "" };
    page.raw("<details class=\"run\"");
    page.put(" id=\"{}\"{}><summary><h2>{}</h2>", &[&group, &open, &run.label]);
    let throughput =
        run.number("throughput_per_s").map(|value| format!("{} {} per second", number(value), run.units()));
    let tail = run.number("latency_ms.p99").map(|value| format!("p99 {}", milliseconds(value)));
    let facts: Vec<_> = throughput.into_iter().chain(tail).collect();
    page.put("<span>{}</span></summary>", &[&tied(&facts.join(", "))]);
    // What all have in common stands at the top of the page.
    if !run.description.is_empty() && all.iter().any(|other| other.description != run.description) {
        page.put("<p class=\"description\">{}</p>", &[&run.description]);
    }
    page.add(&run_section::summary(run)).add(&run_section::details(run, &group)).raw("</details>");
}

/// A sentence in which no figure is parted from its unit at the end of a line.
fn tied(sentence: &str) -> String {
    let mut text = sentence.replace(" ± ", "\u{a0}±\u{a0}");
    for unit in ["%", "×", "µs", "ms", "s ", "s,", "s.", "min"] {
        for digit in '0'..='9' {
            text = text.replace(&format!("{digit} {unit}"), &format!("{digit}\u{a0}{unit}"));
        }
    }
    text
}

fn glossary() -> Markup {
    let mut part = Markup::new();
    part.raw("<section class=\"glossary\"><h2>What the words mean</h2>");
    part.add(&terms(
        "",
        GLOSSARY.map(|(word, meaning)| [word.to_owned(), meaning.to_owned(), String::new()]),
    ));
    part.raw("</section>");
    part
}
