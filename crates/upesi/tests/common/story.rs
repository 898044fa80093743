//! Stories about transfers: each sender's message, and every callback that follows, in a few words a line.
//!
//! ```text
//! story Its subject
//!   admin PUT /participants/redmoney {"isActive":false}   a request of an operator that succeeds
//!   greenbank POST amount=125.5                           a prepare, accepted; more words change it, see `prepare`
//!   → bluewallet POST sent                                the next callback: the message as it was sent
//!   bluewallet PUT RESERVED fulfilment=wrong              a fulfil; see `fulfil`
//!   bluewallet ERROR 5104 account frozen                  an abort; see `abort`
//!   = 400 3100                                            the answer to the message before, if it is rejected
//!   → greenbank PUT {"transferState":"RESERVED"}          a message of the hub; <time> and <f> are filled in
//!   → bluewallet PUT copy                                 the payee's own body back from the hub
//!   → greenbank ERROR 3303 Transfer expired               an error of the hub
//!   later 31 s                                            time passes; it causes the next callbacks
//!   end COMMITTED                                         the final state, queried by every DFSP; no other callback
//! ```
//!
//! A story is about one transfer, of 10 KES from greenbank to bluewallet unless its first prepare contains other terms.
//! `end` also checks that no other callback came. Callbacks about one transfer keep their order, so the answers to the
//! queries are the next ones only if the story contains every callback. `end` also checks the story's effect on
//! positions.

use std::collections::BTreeMap;

use upesi_types::{Amount, Timestamp};

use super::World;
use super::message::{Message, OTHER_PREIMAGE, Sent, Terms, base64url, condition, fulfilment};
use super::oracle::{Expected, Place, check};

const DFSPS: [&str; 3] = ["greenbank", "bluewallet", "redmoney"];

/// The part of a text under the heading `# name`: stories or dialogues that are played in one world.
pub fn part<'t>(text: &'t str, name: &str) -> &'t str {
    let parts = text.split("\n# ").map(|part| part.trim_start_matches("# "));
    let mut parts = parts.filter_map(|part| part.strip_prefix(name)?.strip_prefix("\n\n"));
    let part = parts.next().unwrap_or_else(|| panic!("{name:?} is not a part"));
    assert_eq!(parts.next(), None, "{name:?} is there twice");
    part
}

/// Plays stories, one after the other. Panics at the first line that does not hold.
pub fn tell(world: &World, text: &str) {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let title = line.strip_prefix("story ").unwrap_or_else(|| panic!("{line:?} is outside of a story"));
        let length = lines[at + 1..].iter().take_while(|line| !line.starts_with("story ")).count();
        let mut story = Story::begin(world, title);
        let steps = &lines[at + 1..=at + length];
        assert!(steps.last().is_some_and(|line| line.starts_with("end ")), "{title:?} has no end");
        for (index, line) in steps.iter().enumerate() {
            story.line = (*line).to_owned();
            story.step(line, steps.get(index + 1).copied());
        }
        at += length + 1;
    }
}

struct Story<'w> {
    world: &'w World,
    title: String,
    line: String,
    since: Timestamp,
    id: String,
    terms: Option<Terms>,
    positions: BTreeMap<&'static str, Amount>,
    /// Subject and cause of the next callbacks.
    about: String,
    cause: Option<Sent>,
    /// Completion time of the transfer, from the first callback.
    completed: Option<String>,
}

impl Drop for Story<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the story {:?} at the line\n  {}", self.title, self.line);
        }
    }
}

/// The words after a verb: `key=value` and plain ones.
struct Words<'t>(Vec<&'t str>);

impl<'t> Words<'t> {
    fn of(text: &'t str) -> Self {
        Self(text.split_whitespace().collect())
    }

    fn value(&mut self, key: &str) -> Option<&'t str> {
        let at =
            self.0.iter().position(|word| word.split_once('=').is_some_and(|(found, _)| found == key))?;
        self.0.remove(at).split_once('=').map(|(_, value)| value)
    }

    fn has(&mut self, word: &str) -> bool {
        let at = self.0.iter().position(|found| *found == word);
        at.map(|at| self.0.remove(at)).is_some()
    }

    fn finish(self) {
        assert!(self.0.is_empty(), "unknown words {:?}", self.0);
    }
}

impl<'w> Story<'w> {
    fn begin(world: &'w World, title: &str) -> Self {
        let id = world.new_id();
        let since = world.now();
        let mut story = Self {
            world,
            title: title.to_owned(),
            line: String::new(),
            since,
            about: id.clone(),
            id,
            terms: None,
            positions: BTreeMap::new(),
            cause: None,
            completed: None,
        };
        story.positions = story.positions_now();
        story
    }

    fn positions_now(&self) -> BTreeMap<&'static str, Amount> {
        let position = |name| Amount::parse_decimal(&self.world.position(name)).unwrap();
        DFSPS.into_iter().map(|name| (name, position(name))).collect()
    }

    fn step(&mut self, line: &str, next: Option<&str>) {
        if let Some(rest) = line.strip_prefix("→ ") {
            return self.expect(rest);
        }
        // The answers were checked when the message was sent.
        if line.starts_with("= ") {
            return;
        }
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "admin" => self.operate(rest),
            "later" => self.later(rest),
            "end" => self.end(rest),
            name => {
                let answer = next.and_then(|next| next.strip_prefix("= "));
                self.send(name, rest, answer);
            }
        }
    }

    fn operate(&self, rest: &str) {
        let mut parts = rest.splitn(3, ' ');
        let (method, path) = (parts.next().unwrap(), parts.next().unwrap());
        // An account is written as its owner and kind.
        let path = match path.split_once("/accounts/") {
            Some((owner, kind)) => {
                let name = owner.rsplit('/').next().unwrap();
                format!("{owner}/accounts/{}", self.world.account(name, kind))
            }
            None => path.to_owned(),
        };
        self.world.operate(method, &path, parts.next().unwrap_or_default());
    }

    fn later(&mut self, rest: &str) {
        let (count, unit) = rest.split_once(' ').unwrap();
        let factor = if unit == "s" { 1_000 } else { 1 };
        self.cause = None;
        self.world.clock.advance(count.parse::<i64>().unwrap() * factor);
    }

    // ---- messages ----

    fn send(&mut self, name: &str, rest: &str, answer: Option<&str>) {
        let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut words = Words::of(rest);
        self.about = words.value("id").map_or_else(|| self.id.clone(), str::to_owned);
        let source = words.value("source").unwrap_or(name).to_owned();
        let message = match verb {
            "POST" => self.prepare(name, &mut words),
            "PUT" => self.fulfil(&mut words),
            "ERROR" => self.abort(&mut words),
            "GET" => Message::get(&self.about, name),
            "PATCH" => Message { method: "PATCH", ..Message::fulfil(&self.about, "COMMITTED") },
            _ => panic!("no such step"),
        };
        let mut message = message.from(&source);
        message = match words.value("to") {
            Some("-") => message.without("fspiop-destination"),
            Some(to) => message.to(to),
            None => message,
        };
        if let Some(version) = words.value("version") {
            message = message.version(version);
        }
        if words.has("accept") {
            message = message.header("accept", "application/vnd.interoperability.transfers+json;version=2.0");
        }
        if let Some(proxy) = words.value("proxy") {
            message = message.header("fspiop-proxy", proxy);
        }
        words.finish();
        let sent = match answer {
            None => self.world.deliver(message),
            Some(expected) => {
                let (answer, sent) = self.world.send(message);
                let found = format!("{} {}", answer.status, answer.error_code().unwrap_or_default());
                assert_eq!(found, expected, "{answer:?}");
                sent
            }
        };
        self.cause = Some(sent);
    }

    /// Reads
    /// `amount= currency= payer= payee= expires=<seconds from now> extension=<key>:<value> condition=<any> note=<any>`,
    /// `spaced`. The first prepare decides the terms. Later prepares repeat them, except for their own words.
    fn prepare(&mut self, name: &str, words: &mut Words<'_>) -> Message {
        let now = self.world.now();
        let mut terms = self.terms.clone().unwrap_or_else(|| {
            let payee = if name == "bluewallet" { "greenbank" } else { "bluewallet" };
            Terms { payer: name.into(), payee: payee.into(), ..Terms::new(&self.id, now) }
        });
        for (key, field) in [
            ("amount", &mut terms.amount),
            ("currency", &mut terms.currency),
            ("payer", &mut terms.payer),
            ("payee", &mut terms.payee),
        ] {
            if let Some(value) = words.value(key) {
                value.clone_into(field);
            }
        }
        if let Some(seconds) = words.value("expires") {
            terms.expires = now.plus_ms(seconds.parse::<i64>().unwrap() * 1_000);
        }
        terms.extensions = words.value("extension").map(extension_list).or(terms.extensions);
        self.terms.get_or_insert_with(|| terms.clone());
        let mut body = terms.body();
        if let Some(note) = words.value("note") {
            body = body.replace('☕', note);
        }
        if let Some(other) = words.value("condition") {
            body = body.replace(&condition(), other);
        }
        if words.has("spaced") {
            body = body.replace("\":\"", "\" :\r\n\t\"");
        }
        Message::prepare(&terms).body(body)
    }

    /// Reads a state, then
    /// `fulfilment=wrong|none|spare-bits extension=<key>:<value> note=<any> completed=<seconds from now>`.
    fn fulfil(&self, words: &mut Words<'_>) -> Message {
        let state = words.0.remove(0);
        let message = Message::fulfil(&self.about, state);
        let mut body = String::from_utf8(message.body.clone()).unwrap();
        match words.value("fulfilment") {
            Some("wrong") => body = body.replace(&fulfilment(), &base64url(&OTHER_PREIMAGE)),
            Some("none") => body = format!(r#"{{"transferState":"{state}"}}"#),
            Some("spare-bits") => body = body.replace(&fulfilment(), &with_spare_bits(&fulfilment())),
            Some(other) => panic!("fulfilment={other}"),
            None => {}
        }
        let mut more = String::new();
        if let Some(extension) = words.value("extension") {
            more += &format!(r#","extensionList":{}"#, extension_list(extension));
        }
        if let Some(note) = words.value("note") {
            more += &format!(r#","note":"{note}""#);
        }
        if let Some(seconds) = words.value("completed") {
            let completed = self.world.now().plus_ms(seconds.parse::<i64>().unwrap() * 1_000);
            more += &format!(r#","completedTimestamp":"{completed}""#);
        }
        message.body(body.replacen('}', &format!("{more}}}"), 1))
    }

    /// Reads a code and a description. Words of the form `key=value` are not part of the description.
    fn abort(&self, words: &mut Words<'_>) -> Message {
        let is_text = |word: &&str| !word.contains('=');
        let code = words.0.remove(0);
        let description: Vec<_> = words.0.iter().copied().filter(is_text).collect();
        words.0.retain(|word| word.contains('='));
        Message::abort(&self.about, code, &description.join(" "))
    }

    // ---- callbacks ----

    fn expect(&mut self, rest: &str) {
        let mut parts = rest.splitn(3, ' ');
        let (name, method, what) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        let what = &*self.fill_in(what);
        let cause = self.cause.clone();
        let sent = || cause.as_ref().expect("a message was sent");
        let body;
        let expected = match what {
            "sent" => Expected::Forwarded(sent()),
            "copy" => Expected::Copy(sent()),
            _ if method == "ERROR" => {
                let (code, text) = what.split_once(' ').unwrap();
                body =
                    format!(r#"{{"errorInformation":{{"errorCode":"{code}","errorDescription":"{text}"}}}}"#);
                Expected::Made(cause.as_ref(), &body)
            }
            template => Expected::Made(cause.as_ref(), template),
        };
        self.take(name, method, &expected);
    }

    /// `<expires>` stands for the transfer's expiration.
    fn fill_in(&self, text: &str) -> String {
        match &self.terms {
            Some(terms) => text.replace("<expires>", &terms.expires.to_string()),
            None => text.to_owned(),
        }
    }

    fn take(&mut self, name: &str, method: &str, expected: &Expected<'_>) {
        let dfsp = self.world.dfsp(name);
        let seen = dfsp.next(&self.about);
        let id = &self.about;
        let (method, path) = match method {
            "POST" => ("POST", "/transfers".to_owned()),
            "ERROR" => ("PUT", format!("/transfers/{id}/error")),
            method => (method, format!("/transfers/{id}")),
        };
        let place = Place {
            receiver: name,
            host: dfsp.address.to_string(),
            method,
            path: &path,
            added: None,
            since: self.since,
            now: self.world.now(),
        };
        match check(&seen, expected, &place) {
            Err(fault) => panic!("{name}: {fault}"),
            Ok(None) => {}
            Ok(Some(time)) => {
                let first = self.completed.get_or_insert_with(|| time.clone());
                assert_eq!(*first, time, "a transfer ends once");
            }
        }
    }

    // ---- the end ----

    /// Reads `unknown`, or a state with its details: the cause of ABORTED, the extension (`key:value`) of others, or
    /// the whole body.
    fn end(&mut self, rest: &str) {
        let (state, detail) = rest.split_once(' ').unwrap_or((rest, ""));
        self.about = self.id.clone();
        let terms = self.terms.clone();
        let is_party =
            |name: &str| terms.as_ref().is_some_and(|terms| terms.payer == name || terms.payee == name);
        let body = state_body(state, &self.fill_in(detail));
        for name in DFSPS {
            let sent = self.world.deliver(Message::get(&self.id, name));
            let error = |code: &str, text: &str| {
                format!(r#"{{"errorInformation":{{"errorCode":"{code}","errorDescription":"{text}"}}}}"#)
            };
            let (method, body) = if state == "unknown" {
                let text = "Transfer ID not found - Provided Transfer ID was not found on the server.";
                ("ERROR", error("3208", text))
            } else if is_party(name) {
                ("PUT", body.clone())
            } else {
                ("ERROR", error("3000", "Generic client error"))
            };
            self.take(name, method, &Expected::Made(Some(&sent), &body));
        }
        self.check_positions(state, terms.as_ref());
        if state == "RESERVED" {
            // The transfer must not expire during a later story.
            let terms = terms.as_ref().expect("a transfer");
            let abort = Message::abort(&self.id, "5000", "the story is over");
            self.world.deliver(abort.from(&terms.payee).to(&terms.payer));
        }
    }

    fn check_positions(&self, state: &str, terms: Option<&Terms>) {
        let mut expected = self.positions.clone();
        if let (Some(terms), "COMMITTED" | "RESERVED") = (terms, state) {
            let amount = Amount::parse_decimal(&terms.amount).unwrap();
            if let Some(payer) = expected.get_mut(&*terms.payer) {
                *payer = payer.checked_add(amount).unwrap();
            }
            if state == "COMMITTED"
                && let Some(payee) = expected.get_mut(&*terms.payee)
            {
                *payee = payee.checked_sub(amount).unwrap();
            }
        }
        assert_eq!(self.positions_now(), expected, "positions");
    }
}

/// The body of the answer to a `GET`.
fn state_body(state: &str, detail: &str) -> String {
    if detail.starts_with('{') {
        return detail.to_owned();
    }
    let extensions = match detail {
        "" => String::new(),
        cause if state == "ABORTED" => {
            format!(r#""extensionList":{{"extension":[{{"key":"cause","value":"{cause}"}}]}},"#)
        }
        item => format!(r#""extensionList":{},"#, extension_list(item)),
    };
    let (time, fulfilment) = match state {
        "COMMITTED" => (r#""completedTimestamp":"<time>","#, r#""fulfilment":"<f>","#),
        "ABORTED" => (r#""completedTimestamp":"<time>","#, ""),
        _ => ("", ""),
    };
    format!(r#"{{{time}{extensions}{fulfilment}"transferState":"{state}"}}"#)
}

/// The same 32 bytes as another text: 43 characters have two bits more than the bytes. Here both spare bits are set.
fn with_spare_bits(text: &str) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (all_but_last, last) = text.split_at(text.len() - 1);
    let value = DIGITS.iter().position(|digit| *digit == last.as_bytes()[0]).expect("base64url");
    format!("{all_but_last}{}", char::from(DIGITS[value | 0b11]))
}

fn extension_list(item: &str) -> String {
    let (key, value) = item.split_once(':').expect("key:value");
    format!(r#"{{"extension":[{{"key":"{key}","value":"{value}"}}]}}"#)
}
