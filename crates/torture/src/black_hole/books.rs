//! What the lost DFSP is owed by what it was answered, and what it got, in which order.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::mpsc;
use upesi_http::Method;
use upesi_sim::{Direction, SeenMessage};
use upesi_types::FspId;

/// Violations that are told.
const TOLD_MAX: usize = 20;

/// A callback, by what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The transfer, for the payee.
    Post,
    /// How it ended, for the payer.
    Put,
    /// How it ended, for the payee.
    Patch,
    /// That it failed.
    Error,
}

/// A callback that was taken.
#[derive(Clone, Copy, Debug)]
struct Taken {
    kind: Kind,
    body_hash: u64,
}

impl Taken {
    /// Whether another one is the same callback. A transfer can fail to a payee more than once, for different reasons: it ran
    /// out, and then its fulfilment came too late.
    fn is_again(self, other: Self) -> bool {
        self.kind == other.kind && (self.kind != Kind::Error || self.body_hash == other.body_hash)
    }
}

#[derive(Debug, Default)]
struct Account {
    /// Whether the lost DFSP pays; `None` while its 202 is not known of.
    is_payer: Option<bool>,
    taken: Vec<Taken>,
}

#[derive(Debug, Default)]
struct Entries {
    accounts: HashMap<String, Account>,
    violations: Vec<String>,
}

/// The lost DFSP's transfers.
#[derive(Debug, Default)]
pub struct Books(Mutex<Entries>);

/// What the books come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Transfers with the lost DFSP that were answered 202.
    pub transfers: u64,
    /// Callbacks that it took, repetitions left out.
    pub delivered: u64,
    /// Callbacks that it took again.
    pub repeated: u64,
    /// Transfers of which it got nothing, or not how they ended.
    pub missing: u64,
    /// Transfers whose callbacks came in another order than they were made.
    pub out_of_order: u64,
    /// What was wrong, in words, as far as there is room.
    pub violations: Vec<String>,
}

impl Books {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hub has answered a transfer with 202.
    pub fn accept(&self, id: String, is_payer: bool) {
        self.entries().accounts.entry(id).or_default().is_payer = Some(is_payer);
    }

    /// Notes something else that is wrong.
    pub fn violate(&self, what: String) {
        let violations = &mut self.entries().violations;
        if violations.len() < TOLD_MAX {
            violations.push(what);
        }
    }

    /// Enters what the lost DFSP receives, until nobody can send any more.
    pub async fn enter(self: Arc<Self>, lost: FspId, mut seen: mpsc::Receiver<SeenMessage>) {
        while let Some(message) = seen.recv().await {
            let is_taken = message.status.is_some_and(|status| status.is_success());
            if message.dfsp == lost && message.direction == Direction::Received && is_taken {
                self.take(&message.method, &message.path, &message.body);
            }
        }
    }

    fn take(&self, method: &Method, path: &str, body: &[u8]) {
        let Some((id, kind)) = callback(method, path, body) else {
            return self.violate(format!("an unknown callback: {method} {path}"));
        };
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        let taken = Taken { kind, body_hash: hasher.finish() };
        self.entries().accounts.entry(id).or_default().taken.push(taken);
    }

    /// Closes the books.
    pub fn verdict(&self) -> Verdict {
        let mut entries = self.entries();
        let mut verdict = Verdict { violations: mem::take(&mut entries.violations), ..Verdict::default() };
        for (id, account) in &entries.accounts {
            account.judge(id, &mut verdict);
        }
        verdict.violations.sort();
        verdict.violations.truncate(TOLD_MAX);
        verdict
    }
}

/// Which transfer a callback is about, and what it says.
fn callback(method: &Method, path: &str, body: &[u8]) -> Option<(String, Kind)> {
    let rest = path.strip_prefix("/transfers")?;
    if rest.is_empty() {
        let body: Value = serde_json::from_slice(body).ok()?;
        let id = body["transferId"].as_str()?.to_owned();
        return (*method == Method::POST).then_some((id, Kind::Post));
    }
    let rest = rest.strip_prefix('/')?;
    let (id, kind) = match (method, rest.split_once('/')) {
        (&Method::PUT, None) => (rest, Kind::Put),
        (&Method::PATCH, None) => (rest, Kind::Patch),
        (&Method::PUT, Some((id, "error"))) => (id, Kind::Error),
        _ => return None,
    };
    Some((id.to_owned(), kind))
}

impl Account {
    fn judge(&self, id: &str, verdict: &mut Verdict) {
        let Some(is_payer) = self.is_payer else {
            // Its payer never heard the 202, and may have heard of the end all the same.
            return;
        };
        verdict.transfers += 1;
        let mut first: Vec<Taken> = Vec::new();
        for taken in &self.taken {
            match first.iter().find(|known| known.is_again(*taken)) {
                None => first.push(*taken),
                Some(known) => {
                    verdict.repeated += 1;
                    if known.body_hash != taken.body_hash {
                        verdict
                            .violations
                            .push(format!("{id}: {:?} came again with other bytes", taken.kind));
                    }
                }
            }
        }
        verdict.delivered += first.len() as u64;
        let kinds: Vec<Kind> = first.iter().map(|taken| taken.kind).collect();
        let is_complete = if is_payer {
            kinds == [Kind::Put] || (!kinds.is_empty() && kinds.iter().all(|kind| *kind == Kind::Error))
        } else {
            kinds.contains(&Kind::Post)
        };
        if !is_complete {
            verdict.missing += 1;
            verdict.violations.push(format!("{id}: of its callbacks came {kinds:?}"));
        } else if !is_payer && kinds[0] != Kind::Post {
            verdict.out_of_order += 1;
            verdict.violations.push(format!("{id}: its callbacks came as {kinds:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "11436b17-c690-4a30-8505-42a2c4eafb9d";

    fn take(books: &Books, text: &str) {
        let (method, path) = match text {
            "POST" => (Method::POST, "/transfers".to_owned()),
            "PUT" => (Method::PUT, format!("/transfers/{ID}")),
            "PATCH" => (Method::PATCH, format!("/transfers/{ID}")),
            _ => (Method::PUT, format!("/transfers/{ID}/error")),
        };
        books.take(&method, &path, format!(r#"{{"transferId":"{ID}","said":"{text}"}}"#).as_bytes());
    }

    #[test]
    fn what_came_is_held_against_what_was_accepted() {
        // Who it is, what came, and then delivered, repeated, missing, out of order.
        for (is_payer, came, expected) in [
            (true, &["PUT"][..], [1, 0, 0, 0]),
            (true, &["ERROR"], [1, 0, 0, 0]),
            (true, &["PUT", "PUT"], [1, 1, 0, 0]),
            (true, &[], [0, 0, 1, 0]),
            (true, &["PUT", "ERROR"], [2, 0, 1, 0]),
            (false, &["POST"], [1, 0, 0, 0]),
            (false, &["POST", "PATCH"], [2, 0, 0, 0]),
            (false, &["POST", "POST", "ERROR"], [2, 1, 0, 0]),
            (false, &["POST", "EXPIRED", "EXPIRED", "TOO LATE"], [3, 1, 0, 0]),
            (false, &["PATCH"], [1, 0, 1, 0]),
            (false, &["PATCH", "POST"], [2, 0, 0, 1]),
            (false, &[], [0, 0, 1, 0]),
        ] {
            let books = Books::default();
            books.accept(ID.to_owned(), is_payer);
            came.iter().for_each(|text| take(&books, text));
            let verdict = books.verdict();
            let found = [verdict.delivered, verdict.repeated, verdict.missing, verdict.out_of_order];
            assert_eq!((verdict.transfers, found), (1, expected), "{is_payer} {came:?}");
            assert_eq!(verdict.violations.is_empty(), expected[2..] == [0, 0], "{is_payer} {came:?}");
        }
    }

    #[test]
    fn other_bytes_and_unknown_callbacks_are_violations() {
        let books = Books::default();
        books.accept(ID.to_owned(), true);
        let path = format!("/transfers/{ID}");
        [b"1", b"2"].iter().for_each(|body| books.take(&Method::PUT, &path, *body));
        books.take(&Method::DELETE, &path, b"");
        let verdict = books.verdict();
        assert_eq!((verdict.repeated, verdict.violations.len()), (1, 2), "{verdict:?}");
    }

    #[test]
    fn what_nobody_was_answered_counts_for_nothing() {
        let books = Books::default();
        take(&books, "POST");
        assert_eq!(books.verdict(), Verdict::default());
    }
}
