//! A flame graph as one self-contained SVG file. The whole process is on top, below it are the threads, and then the
//! functions by caller. The width is the share of CPU time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crate::stacks::Profile;

const WIDTH_PX: u64 = 1200;
const MARGIN_PX: u64 = 10;
const ROW_PX: u64 = 17;
const HEAD_PX: u64 = 64;
/// Average width of a letter, in hundredths of a pixel.
const LETTER_HUNDREDTHS: u64 = 670;
/// Minimum width of a frame, in hundredths of a pixel; narrower ones are left out.
const HUNDREDTHS_MIN: u64 = 10;

/// Colours by the origin of a function, which prefixes of its name show.
const ORIGINS: [(&str, &str, &[&str]); 4] = [
    ("this product", "#f2a154", &["upesi"]),
    ("HTTP, runtime", "#8db8de", &["tokio", "hyper", "http", "mio", "axum", "tower", "httparse", "bytes"]),
    ("standard library", "#b9cdb0", &["std", "core", "alloc", "hashbrown", "rustix", "serde", "memchr"]),
    ("C library and others", "#d2cfc8", &[]),
];
const THREAD_COLOUR: &str = "#cbb7e0";

#[derive(Debug, Default)]
struct Node {
    count: u64,
    children: BTreeMap<Arc<str>, Node>,
}

impl Node {
    fn of(profile: &Profile) -> Self {
        let mut root = Self::default();
        for (stack, count) in &profile.stacks {
            root.count += count;
            let mut node = &mut root;
            for name in stack {
                node = node.children.entry(name.clone()).or_default();
                node.count += count;
            }
        }
        root
    }

    fn depth(&self) -> u64 {
        self.children.values().map(|child| child.depth() + 1).max().unwrap_or(0)
    }
}

/// Draws the graph below a title and a line about the profile.
pub(crate) fn draw(profile: &Profile, title: &str) -> String {
    let root = Node::of(profile);
    let height = HEAD_PX + (root.depth() + 1) * ROW_PX + 30;
    let mut svg = String::with_capacity(64 * 1024);
    // Writing into a String does not fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH_PX} {height}\" width=\"100%\" \
         font-family=\"system-ui, sans-serif\" font-size=\"11\">\n<title>{title}</title>\n\
         <style>g.f{{cursor:pointer}} g.f:hover rect{{stroke:#333}} g.f text{{pointer-events:none}} \
         g.found rect{{fill:#d94f8a}} g.above rect{{opacity:.5}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{MARGIN_PX}\" y=\"20\" font-size=\"15\" font-weight=\"600\">{title}</text>\n\
         <text x=\"{MARGIN_PX}\" y=\"37\" fill=\"#444\">{about}</text>\n",
        title = escape(title),
        about = escape(&about(profile)),
    );
    legend(&mut svg);
    let mut canvas = Canvas { svg, total: root.count.max(1) };
    canvas.frame("all threads", &root, 0, 0, THREAD_COLOUR);
    canvas.children(&root, 0, 1);
    svg = canvas.svg;
    let _ = write!(
        svg,
        "<text id=\"note\" x=\"{MARGIN_PX}\" y=\"{}\" fill=\"#444\">Click a frame \
         to enlarge it, or the top row to show all frames. Type to search, Escape clears.</text>\n<script><![CDATA[{SCRIPT}]]></script>\n</svg>\n",
        height - 10
    );
    svg
}

fn about(profile: &Profile) -> String {
    let cpu = profile.cpu_time();
    let lost = match profile.lost {
        0 => String::new(),
        lost => format!(", {lost} samples lost because the buffer was full"),
    };
    if profile.hertz == 0 {
        return format!(
            "{} samples of CPU time within {} s. Width is CPU time; waiting uses none.",
            profile.samples,
            seconds(profile.duration)
        );
    }
    format!(
        "{} s of CPU time within {} s; {} samples, {} for each second of CPU time{lost}. \
         Width is CPU time; waiting uses none.",
        seconds(cpu),
        seconds(profile.duration),
        profile.samples,
        profile.hertz
    )
}

fn seconds(duration: Duration) -> String {
    format!("{}.{:02}", duration.as_secs(), duration.subsec_millis() / 10)
}

fn legend(svg: &mut String) {
    let threads = [("threads", THREAD_COLOUR)];
    let origins = ORIGINS.iter().map(|(name, colour, _)| (*name, *colour));
    for (index, (name, colour)) in threads.into_iter().chain(origins).enumerate() {
        let x = MARGIN_PX + index as u64 * 150;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"45\" width=\"11\" height=\"11\" fill=\"{colour}\"/><text x=\"{}\" y=\"54\">{name}</text>",
            x + 16
        );
    }
}

fn colour(name: &str) -> &'static str {
    let name = name.trim_start_matches(['<', '&', '*', '(', '[']);
    let is_from = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    let found = ORIGINS.iter().find(|(_, _, starts)| is_from(starts));
    found.or(ORIGINS.last()).map_or(THREAD_COLOUR, |(_, colour, _)| colour)
}

struct Canvas {
    svg: String,
    total: u64,
}

impl Canvas {
    /// Draws the children of a node that begins `start` samples from the left.
    fn children(&mut self, node: &Node, start: u64, row: u64) {
        let mut at = start;
        for (name, child) in &node.children {
            if self.hundredths(child.count) >= HUNDREDTHS_MIN {
                let colour = if row == 1 { THREAD_COLOUR } else { colour(name) };
                self.frame(name, child, at, row, colour);
                self.children(child, at, row + 1);
            }
            at += child.count;
        }
    }

    fn hundredths(&self, samples: u64) -> u64 {
        samples * (WIDTH_PX - 2 * MARGIN_PX) * 100 / self.total
    }

    fn frame(&mut self, name: &str, node: &Node, start: u64, row: u64, colour: &str) {
        let (x, width) = (MARGIN_PX * 100 + self.hundredths(start), self.hundredths(node.count));
        let y = HEAD_PX + row * ROW_PX;
        let per_mille = node.count * 1000 / self.total;
        let letters = usize::try_from((width.saturating_sub(400)) / LETTER_HUNDREDTHS).unwrap_or(0);
        let _ = writeln!(
            self.svg,
            "<g class=\"f\" data-s=\"{start}\" data-n=\"{count}\" data-r=\"{row}\"><title>{name}\n{count} samples, {}.{} %</title>\
             <rect x=\"{}.{:02}\" y=\"{y}\" width=\"{}.{:02}\" height=\"{}\" fill=\"{colour}\" rx=\"1\"/>\
             <text x=\"{}.{:02}\" y=\"{}\">{}</text></g>",
            per_mille / 10,
            per_mille % 10,
            x / 100,
            x % 100,
            width / 100,
            width % 100,
            ROW_PX - 1,
            (x + 300) / 100,
            (x + 300) % 100,
            y + 12,
            escape(&fitting(name, letters)),
            count = node.count,
            name = escape(name),
        );
    }
}

/// The name, truncated to this many letters; empty if too few letters fit.
fn fitting(name: &str, letters: usize) -> String {
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    if letters < 4 {
        return String::new();
    }
    name.chars().take(letters - 1).chain(['…']).collect()
}

/// Escapes text for XML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Enlarges a frame on a click, and marks the frames that match the search.
const SCRIPT: &str = r"
const frames = [...document.querySelectorAll('g.f')].map(g => ({
  g, rect: g.querySelector('rect'), text: g.querySelector('text'),
  name: g.querySelector('title').textContent.split('\n')[0],
  start: +g.dataset.s, count: +g.dataset.n, row: +g.dataset.r }));
const left = 10, width = 1180, letter = 6.7;
function show(root) {
  const scale = width / root.count;
  for (const f of frames) {
    const above = f.row < root.row && f.start <= root.start && f.start + f.count >= root.start + root.count;
    const inside = f.row >= root.row && f.start >= root.start && f.start + f.count <= root.start + root.count;
    f.g.style.display = above || inside ? '' : 'none';
    f.g.classList.toggle('above', above);
    const x = above ? left : left + (f.start - root.start) * scale, w = above ? width : f.count * scale;
    f.rect.setAttribute('x', x); f.rect.setAttribute('width', w); f.text.setAttribute('x', x + 3);
    const letters = Math.floor((w - 4) / letter);
    f.text.textContent = f.name.length <= letters ? f.name : letters < 4 ? '' : f.name.slice(0, letters - 1) + '…';
  }
}
for (const f of frames) f.g.addEventListener('click', () => show(f));
const note = document.getElementById('note'), help = note.textContent;
let wanted = '';
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'Escape') wanted = '';
  else if (event.key === 'Backspace') wanted = wanted.slice(0, -1);
  else if (event.key.length === 1) wanted += event.key;
  else return;
  event.preventDefault();
  let share = 0, end = -1;
  for (const f of frames) {
    const found = wanted !== '' && f.name.toLowerCase().includes(wanted.toLowerCase());
    f.g.classList.toggle('found', found);
    if (found && f.start >= end) { share += f.count; end = f.start + f.count; }
  }
  note.textContent = wanted === '' ? help : `“${wanted}” and what it calls: ${(100 * share / frames[0].count).toFixed(1)} %`;
});
";
