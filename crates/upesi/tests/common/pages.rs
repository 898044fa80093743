//! The exchanges on the pages of `docs/resources`, and those that are refused: what is typed, how the hub answers, and
//! what DFSPs are sent then. They were captured once; here they are played again.

use super::World;
use super::dfsp::about;
use super::message::{Message, family, media_type};

/// In the order in which a reader comes to them; each builds on those before.
const PAGES: [(&str, &str); 10] = [
    ("participants", include_str!("../../../../docs/resources/participants.md")),
    ("parties", include_str!("../../../../docs/resources/parties.md")),
    ("quotes", include_str!("../../../../docs/resources/quotes.md")),
    ("bulkQuotes", include_str!("../../../../docs/resources/bulkQuotes.md")),
    ("services", include_str!("../../../../docs/resources/services.md")),
    ("fxQuotes", include_str!("../../../../docs/resources/fxQuotes.md")),
    ("transactionRequests", include_str!("../../../../docs/resources/transactionRequests.md")),
    ("authorizations", include_str!("../../../../docs/resources/authorizations.md")),
    ("other exchanges", include_str!("other_exchanges.txt")),
    ("refused exchanges", include_str!("refused_exchanges.txt")),
];

/// A message as a page shows it.
struct Shown<'p> {
    line: &'p str,
    /// In order of names, without those that differ each time.
    headers: Vec<(String, String)>,
    body: String,
}

/// A command, the answer to it, and the messages that follow.
struct Exchange<'p> {
    command: &'p str,
    shown: Vec<Shown<'p>>,
}

/// Plays all pages, one after the other; gives how many exchanges there were.
pub fn play(world: &World) -> usize {
    let mut count = 0;
    for (name, page) in PAGES {
        let exchanges = read(page);
        assert!(!exchanges.is_empty(), "{name} has no exchanges");
        for exchange in &exchanges {
            hold(world, exchange).unwrap_or_else(|fault| panic!("{name}: {}\n{fault}", exchange.command));
        }
        count += exchanges.len();
    }
    count
}

fn read(page: &str) -> Vec<Exchange<'_>> {
    let mut exchanges: Vec<Exchange<'_>> = Vec::new();
    let mut is_body = false;
    let mut is_shown = false;
    for line in page.lines() {
        let Some(line) = line.strip_prefix("    ").or_else(|| line.is_empty().then_some("")) else {
            is_shown = false;
            continue;
        };
        if let Some(command) = line.strip_prefix("$ ") {
            exchanges.push(Exchange { command, shown: Vec::new() });
            is_shown = true;
            continue;
        }
        let Some(exchange) = exchanges.last_mut() else { continue };
        if line.starts_with("HTTP/1.1 ") || line.ends_with(" HTTP/1.1") {
            // Also after words in between.
            is_shown = true;
            is_body = false;
            exchange.shown.push(Shown { line, headers: Vec::new(), body: String::new() });
            continue;
        }
        let Some(shown) = exchange.shown.last_mut().filter(|_| is_shown) else { continue };
        match line.split_once(": ") {
            _ if line.is_empty() => is_body = true,
            Some((name, value)) if !is_body => shown.headers.push((name.to_owned(), value.to_owned())),
            _ => shown.body.push_str(line),
        }
    }
    for shown in exchanges.iter_mut().flat_map(|exchange| &mut exchange.shown) {
        shown.headers = comparable(&shown.headers);
    }
    exchanges
}

/// In order of names, without those that differ each time.
fn comparable(headers: &[(String, String)]) -> Vec<(String, String)> {
    let is_constant = |(name, _): &&(String, String)| !["date", "host"].contains(&&**name);
    let mut headers: Vec<_> = headers.iter().filter(is_constant).cloned().collect();
    headers.sort();
    headers
}

fn hold(world: &World, exchange: &Exchange<'_>) -> Result<(), String> {
    let [answer, messages @ ..] = &exchange.shown[..] else { return Err("no answer is shown".into()) };
    let (found, _) = world.send(typed(exchange.command));
    let mut head = found.head.lines();
    let status = head.next().unwrap_or_default();
    let headers = head.filter_map(|line| line.split_once(": "));
    let headers: Vec<_> = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    same("the answer", status, &answer.line.to_ascii_lowercase())?;
    same("its headers", &comparable(&headers), &answer.headers)?;
    same("its body", &found.body, &answer.body)?;
    for message in messages {
        let target = message.line.strip_suffix(" HTTP/1.1").unwrap_or_default();
        // Their base URLs end with their names there.
        let (method, path) = target.split_once(" /").ok_or("a message begins with method and path")?;
        let (name, path) = path.split_once('/').ok_or("a path begins with the name of the DFSP")?;
        let path = format!("/{path}");
        let about = about(&path, message.body.as_bytes()).ok_or("it is about nothing")?;
        let seen = world.dfsp(name).next_attempt(&about);
        same("a message", &(&*seen.method, &*seen.path), &(method, &*path))?;
        same("its headers", &comparable(&seen.headers), &message.headers)?;
        same("its body", seen.text(), &message.body)?;
    }
    world.expect_silence();
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug + ?Sized>(what: &str, found: &T, shown: &T) -> Result<(), String> {
    if found == shown { Ok(()) } else { Err(format!("{what} is\n  {found:?}\nand not\n  {shown:?}")) }
}

/// `[VERSION=2.0 ]fspiop METHOD PATH FROM [TO [BODY]]`, with the headers that the function of the pages adds.
fn typed(command: &str) -> Message {
    let mut words = words(command).into_iter();
    let mut next = || words.next().unwrap_or_default();
    let mut word = next();
    let mut version = "1.1".to_owned();
    if let Some(other) = word.strip_prefix("VERSION=") {
        version = other.to_owned();
        word = next();
    }
    assert_eq!(word, "fspiop", "{command}");
    let (method, path, from, to, body) = (next(), next(), next(), next(), next());
    let method = ["GET", "POST", "PUT", "DELETE"].into_iter().find(|known| *known == method);
    let to = (!to.is_empty()).then_some(&*to);
    let mut message = Message::of(method.expect("a method"), &path, &from, to, body);
    let kept = ["host", "date", "fspiop-source", "fspiop-destination"];
    message.headers.retain(|(name, _)| kept.contains(&&**name));
    let accept = media_type(family(&path), version.split('.').next().unwrap_or_default());
    let is_put = message.method == "PUT";
    message = message.version(&version);
    if is_put { message } else { message.header("accept", &accept) }
}

/// The words of a shell's command; those in single quotes are one.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (index, part) in command.split('\'').enumerate() {
        if index % 2 == 1 {
            words.last_mut().expect("there is one").push_str(part);
            continue;
        }
        for (index, word) in part.split(' ').enumerate() {
            if index > 0 {
                words.push(String::new());
            }
            words.last_mut().expect("there is one").push_str(word);
        }
    }
    words
}
