//! The day of `docs/settlement.md`, typed into a shell: each command has the output that the page shows.
//!
//! `UPESI_WRITE_DOCS=1` writes the outputs into the page.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use super::{code, text, upesi};
use crate::common::World;
use crate::common::dfsp::Dfsp;

/// Separator of the commands' outputs.
const MARK: &str = "\u{1e}";
/// Texts that begin a day, and the payment before it: indexes of payer and payee, amount.
const NEXT_DAYS: [(&str, (usize, usize, &str)); 2] =
    [("## As one job", (1, 0, "75")), ("A name may contain a day", (0, 2, "20"))];
const DFSPS: [&str; 3] = ["dfsp-1", "dfsp-2", "dfsp-3"];

/// A command, and the output that the page shows below it.
struct Typed {
    command: String,
    shown: String,
    /// Lines of the output in the page.
    lines: Range<usize>,
}

/// The commands of a page, in order.
fn read(page: &str) -> Vec<Typed> {
    let mut all: Vec<Typed> = Vec::new();
    let mut is_shown = false;
    for (number, line) in page.lines().enumerate() {
        let Some(line) = line.strip_prefix("    ").or_else(|| line.is_empty().then_some("")) else {
            is_shown = false;
            continue;
        };
        if let Some(command) = line.strip_prefix("$ ") {
            let (command, lines) = (command.to_owned(), number + 1..number + 1);
            all.push(Typed { command, shown: String::new(), lines });
            is_shown = true;
        } else if let Some(typed) = all.last_mut().filter(|_| is_shown) {
            if let Some(more) = line.strip_prefix("> ") {
                typed.command += &format!("\n{more}");
                typed.lines = number + 1..number + 1;
            } else if !line.is_empty() {
                let blank = "\n".repeat(number - typed.lines.end);
                typed.shown += &format!("{blank}{line}\n");
                typed.lines.end = number + 1;
            }
        }
    }
    for typed in &mut all {
        typed.shown = typed.shown.trim_end().to_owned();
    }
    all
}

/// Output of each command, in a shell whose `curl` and `upesi` call this hub.
fn printed(world: &World, directory: &Path, typed: &[Typed]) -> Vec<String> {
    let admin = world.hub().admin_address();
    let mut script = format!(
        "exec 2>&1\nexport TZ=EAT-3 UPESI_ADMIN_URL=http://{admin}\ncurl() {{ command curl \"${{@/localhost:4001/{admin}}}\"; }}\n\
         upesi() {{ command {} \"$@\"; }}\n",
        env!("CARGO_BIN_EXE_upesi")
    );
    for Typed { command, shown, .. } in typed {
        // Files that no command wrote, such as the bank file, contain the text of the page.
        if let Some(name) = command.strip_prefix("cat ") {
            fs::write(directory.join(name), format!("{shown}\n")).unwrap();
        }
        script += &format!("printf '{MARK}'\n{command}\n");
    }
    let output = Command::new("bash").arg("-c").arg(&script).current_dir(directory).output().unwrap();
    let text = text(&output.stdout);
    let parts: Vec<_> =
        text.split(MARK).skip(1).map(|part| part.replace('\r', "").trim_end().to_owned()).collect();
    assert_eq!(parts.len(), typed.len(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    parts
}

/// The text with masked instants, which differ each time.
fn masked(text: &str) -> String {
    const INSTANTS: [&[u8]; 2] = [b"0000-00-00T00:00:00.000Z", b"0000-00-00 00:00:00+03:00"];
    let mut bytes = text.as_bytes().to_vec();
    let fits = |found: &u8, model: &u8| if *model == b'0' { found.is_ascii_digit() } else { found == model };
    for start in 0..bytes.len() {
        for instant in INSTANTS {
            let Some(found) = bytes.get_mut(start..start + instant.len()) else { continue };
            let is_instant = found.iter().zip(instant).all(|(found, model)| fits(found, model));
            if is_instant && !found.starts_with(b"1970") {
                found.copy_from_slice(instant);
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// The scheme of `first-payment.md` with the fees of the page. The test simulates the DFSPs.
fn open(world: &mut World, page: &str, directory: &Path) {
    let (_, fees) = page.split_once("    [[fee_rule]]\n").unwrap();
    let fees =
        fees.lines().map_while(|line| line.strip_prefix("    ").or_else(|| line.is_empty().then_some("")));
    let fees = fees.collect::<Vec<_>>().join("\n");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scheme.toml");
    let file = directory.join("scheme.toml");
    fs::write(&file, format!("{}\n[[fee_rule]]\n{fees}\n", fs::read_to_string(example).unwrap())).unwrap();
    let apply = ["scheme", "apply", file.to_str().unwrap(), "--admin", &world.admin_url(), "--wait", "0"];
    let applied = upesi(&apply).output().unwrap();
    assert_eq!(code(&applied), 0, "{}", text(&applied.stderr));
    for name in DFSPS {
        let dfsp = Dfsp::start(name);
        world.set_endpoints(name, &dfsp.base_url());
        world.dfsps.insert(name.to_owned(), dfsp);
    }
}

#[test]
fn settlement_page_shows_real_output() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settlement.md");
    let page = fs::read_to_string(&path).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut world = World::bare(&[]);
    open(&mut world, &page, directory.path());
    for (payer, payee, amount) in [(0, 1, "500"), (0, 1, "250.5"), (1, 2, "300"), (2, 0, "120.25")] {
        world.pay(DFSPS[payer], DFSPS[payee], amount, "KES");
    }
    let all = read(&page);
    let (mut found, mut rest) = (Vec::new(), &all[..]);
    for (begin, (payer, payee, amount)) in NEXT_DAYS {
        let begin = page[..page.find(begin).unwrap()].lines().count();
        let (day, next_day) = rest.split_at(rest.partition_point(|typed| typed.lines.start < begin));
        found.extend(printed(&world, directory.path(), day));
        world.pay(DFSPS[payer], DFSPS[payee], amount, "KES");
        rest = next_day;
    }
    found.extend(printed(&world, directory.path(), rest));
    assert!(all.len() > 20, "{}", all.len());
    if std::env::var_os("UPESI_WRITE_DOCS").is_some() {
        fs::write(&path, with_outputs(&page, &all, &found)).unwrap();
        return;
    }
    for (Typed { command, shown, .. }, found) in all.iter().zip(&found) {
        assert_eq!(masked(found), masked(shown), "docs/settlement.md: {command}");
    }
    world.stop_and_audit();
}

/// The page with other outputs below its commands.
fn with_outputs(page: &str, typed: &[Typed], outputs: &[String]) -> String {
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    for (Typed { lines: range, .. }, output) in typed.iter().zip(outputs).rev() {
        let output = output.lines().map(|line| format!("    {line}").trim_end().to_owned());
        lines.splice(range.clone(), output);
    }
    lines.join("\n") + "\n"
}
