//! Dialogues about parties and quotes: each sender's message, and every message that follows, in a few words a line.
//!
//! ```text
//! dialogue Its subject
//!   admin PUT /participants/redmoney {"isActive":false}    a request of an operator that succeeds
//!   oracle answers 200 {"partyList":[]}                    from now on; so do DFSPs; without a body, an empty one
//!   bluewallet is silent                                   accepts messages and never answers
//!   bluewallet dies                                        and `returns`
//!   hub restarts
//!   later 61 s
//!   greenbank GET /parties/MSISDN/<n> to=bluewallet        a message, accepted; see `send`
//!   = 400 3101 Malformed syntax - …                        the answer to the message before, if it is rejected; its
//!                                                          text and code may be left out
//!   → oracle GET /participants/MSISDN/<n>                  a query of the hub, with the DFSP's headers
//!   → bluewallet GET sent                                  the message as it was sent
//!   → bridge:farbank GET sent                              the same to a proxy, for a DFSP behind it
//!   → redmoney POST sent +x-own:yes                        the same, with a header that a rule adds
//!   → greenbank PUT {"fspId":"bluewallet"}                 a message of the hub, caused by the message before
//!   → greenbank ERROR 3204 Party not found                 the same, on the path of the message with /error
//!   → greenbank LAPSE 3303 Transfer expired                the same, caused by the time instead of a message
//! ```
//!
//! If several messages that follow from one go to different DFSPs, their order in the dialogue is free. A path before
//! the last word states where a message arrives, if it differs from the path of the message that caused it.
//! `<n>` stands for a number, and `<id>`, `<id2>`, `<id3>` for identifiers that only this dialogue uses; `<soon>` and
//! `<past>` for times; `<time>` and `<f>` have the same meaning as in stories. At the end of the dialogue, no work is
//! pending, and the DFSPs have received no other messages.

use upesi_types::Timestamp;

use super::World;
use super::dfsp::{Conduct, Seen, about};
use super::message::{Message, Sent, condition, family, fulfilment, media_type};
use super::oracle::{Expected, Place, check, stays_here};

/// Plays dialogues, one after the other. Panics at the first line that does not hold.
pub fn hold(world: &mut World, text: &str) {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        let title = line.strip_prefix("dialogue ").unwrap_or_else(|| panic!("{line:?} is outside"));
        let mut dialogue = Dialogue::begin(world, title);
        while let Some(line) = lines.next_if(|line| !line.starts_with("dialogue ")) {
            line.clone_into(&mut dialogue.line);
            dialogue.step(line, lines.peek().and_then(|next| next.strip_prefix("= ")));
        }
        "its end".clone_into(&mut dialogue.line);
        dialogue.world.expect_silence();
    }
}

struct Dialogue<'w> {
    world: &'w mut World,
    title: String,
    line: String,
    since: Timestamp,
    ids: [String; 3],
    number: String,
    /// The cause of the next messages.
    cause: Option<Sent>,
}

impl Drop for Dialogue<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the dialogue {:?} at\n  {}", self.title, self.line);
        }
    }
}

impl<'w> Dialogue<'w> {
    fn begin(world: &'w mut World, title: &str) -> Self {
        let ids = std::array::from_fn(|_| world.new_id());
        let number = world.new_number();
        let since = world.now();
        Self { world, title: title.to_owned(), line: String::new(), since, ids, number, cause: None }
    }

    fn step(&mut self, line: &str, answer: Option<&str>) {
        let line = &*self.fill_in(line);
        if let Some(rest) = line.strip_prefix("→ ") {
            return self.expect(rest);
        }
        // The answer was checked when the message was sent.
        if line.starts_with("= ") {
            return;
        }
        let (name, rest) = line.split_once(' ').expect("who does what");
        let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        match (name, verb) {
            ("admin", method) => {
                let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
                self.world.operate(method, path, body);
            }
            ("hub", "restarts") => self.world.restart(),
            ("later", seconds) => self.world.clock.advance(seconds.parse::<i64>().unwrap() * 1_000),
            (name, "answers") => {
                let (status, body) = rest.split_once(' ').unwrap_or((rest, ""));
                let body = body.to_owned().into_bytes();
                self.world.dfsp(name).conduct(Conduct::Says(status.parse().unwrap(), body.into()));
            }
            (name, "is") => self.world.dfsp(name).conduct(Conduct::FallsSilent),
            (name, "dies") => self.world.dfsp_mut(name).die(),
            (name, "returns") => self.world.dfsp_mut(name).revive(),
            (name, method) => self.send(name, method, rest, answer),
        }
    }

    fn fill_in(&self, line: &str) -> String {
        let [id, id2, id3] = &self.ids;
        let mut line = line
            .replace("<quote>", QUOTE)
            .replace("<terms>", TERMS)
            .replace("<bulk>", BULK)
            .replace("<bulk transfer>", BULK_TRANSFER)
            .replace("<bulk terms>", BULK_TERMS)
            .replace("<transfer>", TRANSFER)
            .replace("<fx>", FX)
            .replace("<fx terms>", FX_TERMS)
            .replace("<conversion>", FX_TRANSFER)
            .replace("<request to pay>", REQUEST_TO_PAY);
        // Words at the end of a line change the text before them: `10→11`. In these words `␣` stands for a blank.
        while let Some((rest, last)) = line.rsplit_once(' ')
            && let Some((from, to)) = last.split_once('→').filter(|(from, _)| !from.is_empty())
        {
            assert!(rest.contains(from), "{from} is not in {rest}");
            line = rest.replace(from, to);
        }
        for name in ["greenbank", "bluewallet"] {
            let place = format!("<position of {name}>");
            if line.contains(&place) {
                line = line.replace(&place, &self.world.account(name, "POSITION").to_string());
            }
        }
        line.replace('␣', " ")
            .replace("<n>", &self.number)
            .replace("<id>", id)
            .replace("<id2>", id2)
            .replace("<id3>", id3)
            .replace("<condition>", &condition())
            .replace("<fulfilment>", &fulfilment())
            .replace("<soon>", &self.since.plus_ms(60_000).to_string())
            .replace("<past>", &self.since.plus_ms(-1_000).to_string())
    }

    /// `to=<destination> source=<name> version=<v> -<header> <header>:<value> plain`, then the body.
    fn send(&mut self, name: &str, method: &str, rest: &str, answer: Option<&str>) {
        let method = ["GET", "POST", "PUT", "PATCH", "DELETE"].into_iter().find(|known| *known == method);
        let method = method.unwrap_or_else(|| panic!("{name} does what?"));
        let (head, body) = match rest.find(" {") {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (rest, ""),
        };
        let mut words = head.split_whitespace();
        let mut message = Message::of(method, words.next().expect("a path"), name, None, body);
        for word in words {
            if word == "plain" {
                message.headers.retain(|(name, _)| PLAIN.contains(&&**name));
                continue;
            }
            message = match (word.split_once('='), word.split_once(':')) {
                (Some(("to", to)), _) => message.to(to),
                (Some(("source", source)), _) => message.from(source),
                (Some(("version", version)), _) => message.version(version),
                (_, Some((header, value))) => message.header(header, value),
                _ => message.without(word.strip_prefix('-').unwrap_or_else(|| panic!("{word}?"))),
            };
        }
        let Some(expected) = answer else {
            self.cause = Some(self.world.deliver(message));
            return;
        };
        let (answer, _) = self.world.send(message);
        let (status, error) = expected.split_once(' ').unwrap_or((expected, ""));
        assert_eq!(answer.status.to_string(), status, "{}", answer.body);
        match self.fill_in(error).split_once(' ') {
            Some((code, text)) => assert_eq!(answer.body, error_body(code, text)),
            None if error.is_empty() => assert!(answer.error_code().is_some(), "{}", answer.body),
            None => assert_eq!(answer.error_code(), Some(error), "{}", answer.body),
        }
    }

    fn expect(&mut self, rest: &str) {
        let (name, rest) = rest.split_once(' ').unwrap();
        let (name, receiver) = name.split_once(':').unwrap_or((name, name));
        let (method, rest) = rest.split_once(' ').unwrap();
        let cause = self.cause.clone().expect("a message was sent");
        if name == "oracle" {
            return self.expect_question(method, rest, &cause);
        }
        let is_error = matches!(method, "ERROR" | "LAPSE");
        let (path, what) = match rest.split_once(' ').filter(|(path, _)| path.starts_with('/')) {
            Some((path, what)) => (path.to_owned(), what),
            None if is_error => (error_path(&cause), rest),
            None if rest.starts_with("sent") => (cause.path.clone(), rest),
            None => (cause.path.split('?').next().unwrap().to_owned(), rest),
        };
        let (method, maker) = if is_error {
            ("PUT", Some(&cause).filter(|_| method == "ERROR"))
        } else {
            // Callbacks of bulk transfers contain only data that the hub knows.
            method.strip_prefix("HUB-").map_or((method, Some(&cause)), |method| (method, None))
        };
        let (what, added) = what.split_once(" +").filter(|_| what.starts_with("sent")).unwrap_or((what, ""));
        let body;
        let expected = match what {
            "sent" => Expected::Forwarded(&cause),
            made if made.starts_with('{') => Expected::Made(maker, made),
            error => {
                let (code, text) = error.split_once(' ').expect("a code and a text");
                body = error_body(code, text);
                Expected::Made(maker, &body)
            }
        };
        let about = about(&path, &cause.body).unwrap_or_else(|| panic!("{path} is about nothing"));
        let dfsp = self.world.dfsp(name);
        let seen = dfsp.next_attempt(&about);
        let host = dfsp.address.to_string();
        let (since, now) = (self.since, self.world.now());
        let place = Place { receiver, host, method, path: &path, added: added.split_once(':'), since, now };
        if let Err(fault) = check(&seen, &expected, &place) {
            panic!("{name}: {fault}");
        }
    }

    /// The hub queries an oracle with the headers of the DFSP's request.
    fn expect_question(&self, method: &str, rest: &str, cause: &Sent) {
        let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
        let about = about(path, body.as_bytes()).unwrap_or_else(|| panic!("{path} is about nothing"));
        let oracle = self.world.dfsp("oracle");
        let seen = oracle.next_attempt(&about);
        assert_eq!((&*seen.method, &*seen.path, seen.text()), (method, path, body));
        check_question(&seen, cause, &oracle.address.to_string());
    }
}

/// Checks for the DFSP's headers, except headers that the hub does not forward.
fn check_question(seen: &Seen, cause: &Sent, host: &str) {
    let mut headers: Vec<_> =
        cause.headers.iter().filter(|(name, _)| !stays_here(&cause.headers, name)).cloned().collect();
    headers.push(("host".into(), host.into()));
    headers.push(("accept-encoding".into(), "identity".into()));
    if !seen.body.is_empty() {
        headers.push(("content-length".into(), seen.body.len().to_string()));
    }
    headers.sort();
    assert_eq!(seen.headers, headers, "the headers of a query to an oracle");
}

/// An error in the form that the hub writes.
pub fn error_body(code: &str, text: &str) -> String {
    assert!(text.chars().count() <= 128, "the schema admits 128 characters: {text}");
    format!(r#"{{"errorInformation":{{"errorCode":"{code}","errorDescription":"{text}"}}}}"#)
}

/// Path of the error about a message.
fn error_path(cause: &Sent) -> String {
    let path = cause.path.split('?').next().unwrap();
    match path.trim_start_matches('/').split_once('/') {
        Some(_) if path.ends_with("/error") => path.to_owned(),
        Some(_) => format!("{path}/error"),
        None => format!("{path}/{}/error", about(path, &cause.body).expect("an id in the body")),
    }
}

/// The required headers of a message. A message that is sent `plain` has only these.
const PLAIN: [&str; 6] = ["host", "content-type", "accept", "date", "fspiop-source", "fspiop-destination"];

/// From greenbank to bluewallet, with an unusual order of members and white space.
const QUOTE: &str = r#"{"quoteId":"<id>", "transactionId":"<id2>","payer":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"254700000001","fspId":"greenbank"}},"payee":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"<n>","fspId":"bluewallet"}},"amountType":"SEND","amount":{"currency":"KES","amount":"10"},"transactionType":{"scenario":"TRANSFER","initiator":"PAYER","initiatorType":"CONSUMER"},"note":"caf\u00e9 ☕","expiration":"<soon>"}"#;

const TERMS: &str = r#"{"transferAmount":{"currency":"KES","amount":"10"}, "payeeReceiveAmount":{"amount":"9.5","currency":"KES"},"expiration":"<soon>","ilpPacket":"AYICexampleilppacket0123","condition":"<condition>"}"#;

const TRANSFER: &str = r#"{"transferId":"<id3>", "payerFsp":"greenbank","payeeFsp":"bluewallet","amount":{"currency":"KES","amount":"10"},"ilpPacket":"AYICexampleilppacket0123","condition":"<condition>","expiration":"<soon>"}"#;

const BULK: &str = r#"{"bulkQuoteId":"<id>", "payer":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"254700000001","fspId":"greenbank"}},"individualQuotes":[{"quoteId":"<id2>","transactionId":"<id3>","payee":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"<n>","fspId":"bluewallet"}},"amountType":"SEND","amount":{"currency":"KES","amount":"10"},"transactionType":{"scenario":"TRANSFER","initiator":"PAYER","initiatorType":"CONSUMER"}}],"expiration":"<soon>"}"#;

const BULK_TERMS: &str = r#"{"individualQuoteResults":[{"quoteId":"<id2>","transferAmount":{"currency":"KES","amount":"10"},"ilpPacket":"AYICexampleilppacket0123","condition":"<condition>"}], "expiration":"<soon>"}"#;

const BULK_TRANSFER: &str = r#"{"bulkTransferId":"<id>", "bulkQuoteId":"<id2>","payerFsp":"greenbank","payeeFsp":"bluewallet","individualTransfers":[{"transferId":"<id2>","transferAmount":{"currency":"KES","amount":"10"},"ilpPacket":"AYICexampleilppacket0123","condition":"<condition>"},{"transferId":"<id3>","transferAmount":{"currency":"KES","amount":"2.5"},"ilpPacket":"AYICexampleilppacket4567","condition":"<condition>","extensionList":{"extension":[{"key":"salary","value":"May"}]}}],"expiration":"<soon>"}"#;

const FX: &str = r#"{"conversionRequestId":"<id>", "conversionTerms":{"conversionId":"<id2>","initiatingFsp":"greenbank","counterPartyFsp":"bluewallet","amountType":"SEND","sourceAmount":{"currency":"KES","amount":"130"},"targetAmount":{"currency":"USD"},"expiration":"<soon>"}}"#;

const FX_TERMS: &str = r#"{"condition":"<condition>", "conversionTerms":{"conversionId":"<id2>","initiatingFsp":"greenbank","counterPartyFsp":"bluewallet","amountType":"SEND","sourceAmount":{"currency":"KES","amount":"130"},"targetAmount":{"currency":"USD","amount":"1"},"expiration":"<soon>"}}"#;

const FX_TRANSFER: &str = r#"{"commitRequestId":"<id2>", "determiningTransferId":"<id3>","initiatingFsp":"greenbank","counterPartyFsp":"forex","sourceAmount":{"currency":"KES","amount":"130"},"targetAmount":{"amount":"1","currency":"USD"},"condition":"<condition>","expiration":"<soon>","amountType":"SEND"}"#;

const REQUEST_TO_PAY: &str = r#"{"transactionRequestId":"<id>", "payee":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"<n>","fspId":"bluewallet"}},"payer":{"partyIdType":"MSISDN","partyIdentifier":"254700000001"},"amount":{"amount":"10","currency":"KES"},"transactionType":{"scenario":"TRANSFER","initiator":"PAYEE","initiatorType":"BUSINESS"}}"#;

// The exchanges on the pages of `docs/resources`, and the rejected ones: the typed commands, the hub's answers, and the
// messages to DFSPs. They were captured once, and are played again here.

/// The pages in reading order. Each one builds on the earlier ones.
const PAGES: [(&str, &str); 9] = [
    ("participants", include_str!("../../../../docs/resources/participants.md")),
    ("parties", include_str!("../../../../docs/resources/parties.md")),
    ("quotes", include_str!("../../../../docs/resources/quotes.md")),
    ("bulkQuotes", include_str!("../../../../docs/resources/bulkQuotes.md")),
    ("services", include_str!("../../../../docs/resources/services.md")),
    ("fxQuotes", include_str!("../../../../docs/resources/fxQuotes.md")),
    ("transactionRequests", include_str!("../../../../docs/resources/transactionRequests.md")),
    ("authorizations", include_str!("../../../../docs/resources/authorizations.md")),
    ("further exchanges", include_str!("exchanges.txt")),
];

/// A message as shown on a page.
struct Shown<'p> {
    line: &'p str,
    /// Sorted by name, without headers that differ each time.
    headers: Vec<(String, String)>,
    body: String,
}

/// A command, the answer to it, and the messages that follow.
struct Exchange<'p> {
    command: &'p str,
    shown: Vec<Shown<'p>>,
}

/// Plays all pages, one after the other. Returns the number of exchanges.
pub fn play_pages(world: &World) -> usize {
    let mut count = 0;
    for (name, page) in PAGES {
        let exchanges = read(page);
        assert!(!exchanges.is_empty(), "{name} has no exchanges");
        for exchange in &exchanges {
            hold_exchange(world, exchange)
                .unwrap_or_else(|fault| panic!("{name}: {}\n{fault}", exchange.command));
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

/// Sorted by name, without headers that differ each time, and without `Accept-Encoding`, which the pages leave out.
fn comparable(headers: &[(String, String)]) -> Vec<(String, String)> {
    let changing = ["date", "host", "traceparent", "accept-encoding"];
    let is_constant = |(name, _): &&(String, String)| !changing.contains(&&**name);
    let mut headers: Vec<_> = headers.iter().filter(is_constant).cloned().collect();
    headers.sort();
    headers
}

fn hold_exchange(world: &World, exchange: &Exchange<'_>) -> Result<(), String> {
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
        // On the pages, base URLs end with the DFSPs' names.
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

/// Parses `[VERSION=2.0 ]fspiop METHOD PATH FROM [TO [BODY]]`, and adds the headers that the function of the pages
/// adds.
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

/// The words of a shell command. Text in single quotes is one word.
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
