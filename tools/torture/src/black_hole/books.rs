//! Books of the lost DFSP: the callbacks that the hub owes it according to its transfers, and the received callbacks.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::mpsc;
use upesi_http::Method;
use upesi_sim::{Direction, SeenMessage};
use upesi_types::FspId;

/// Maximum number of reported violations.
const TOLD_MAX: usize = 20;

/// A callback, by its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Post,
    Put,
    Patch,
    Error,
}

#[derive(Clone, Copy, Debug)]
struct TakenCallback {
    kind: Kind,
    body_hash: u64,
}

impl TakenCallback {
    /// Whether another callback is the same. A transfer can fail for a payee more than once for different reasons: it
    /// expired, and then its fulfilment came too late.
    fn is_again(self, other: Self) -> bool {
        self.kind == other.kind && (self.kind != Kind::Error || self.body_hash == other.body_hash)
    }
}

/// The end of a transfer, according to the callback to its payer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferEnd {
    Committed,
    Expired,
}

#[derive(Debug, Default)]
struct Account {
    /// Whether the lost DFSP is the payer; `None` while no 202 is known.
    is_payer: Option<bool>,
    end: Option<TransferEnd>,
    taken: Vec<TakenCallback>,
}

#[derive(Debug, Default)]
struct Entries {
    accounts: HashMap<String, Account>,
    violations: Vec<String>,
}

/// The expected and the received callbacks of the lost DFSP.
#[derive(Debug, Default)]
pub struct Books {
    /// Whether the hub confirms a commit to its payee.
    confirms: bool,
    entries: Mutex<Entries>,
}

/// The result of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BooksVerdict {
    /// Transfers with the lost DFSP that were answered 202.
    pub transfers: u64,
    /// Callbacks that the hub owed the lost DFSP for these transfers, according to their ends.
    pub owed: u64,
    /// Owed callbacks that the lost DFSP accepted, each counted once, and the answers to its late messages. These
    /// answers do not follow from the callbacks to other DFSPs.
    pub delivered: u64,
    pub repeated: u64,
    /// Owed callbacks that never came, and transfers with an end that no DFSP received.
    pub missing: u64,
    /// Transfers whose callbacks came in a different order than they were created.
    pub out_of_order: u64,
    /// Violations in words, up to a limit.
    pub violations: Vec<String>,
}

impl Books {
    /// Creates empty books. `confirms` is true if the hub confirms a commit to its payee.
    pub fn new(confirms: bool) -> Self {
        Self { confirms, ..Self::default() }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the hub answered a transfer with 202.
    pub fn accept(&self, id: String, is_payer: bool) {
        self.entries().accounts.entry(id).or_default().is_payer = Some(is_payer);
    }

    /// Records that the payer of a transfer received its end.
    pub fn end(&self, id: String, end: TransferEnd) {
        self.entries().accounts.entry(id).or_default().end = Some(end);
    }

    /// Records another violation.
    pub fn violate(&self, what: String) {
        let violations = &mut self.entries().violations;
        if violations.len() < TOLD_MAX {
            violations.push(what);
        }
    }

    /// Records the messages that the lost DFSP receives, until all senders are dropped.
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
        let taken = TakenCallback { kind, body_hash: hasher.finish() };
        self.entries().accounts.entry(id).or_default().taken.push(taken);
    }

    /// Compares the owed with the received callbacks.
    pub fn verdict(&self) -> BooksVerdict {
        let mut entries = self.entries();
        let mut verdict =
            BooksVerdict { violations: mem::take(&mut entries.violations), ..BooksVerdict::default() };
        for (id, account) in &entries.accounts {
            account.judge(id, self.confirms, &mut verdict);
        }
        verdict.violations.sort();
        verdict.violations.truncate(TOLD_MAX);
        verdict
    }
}

/// The transfer that a callback is about, and its kind.
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
    fn judge(&self, id: &str, confirms: bool, verdict: &mut BooksVerdict) {
        let Some(is_payer) = self.is_payer else {
            // The payer never received the 202, but it may have received the callback about the end.
            return;
        };
        verdict.transfers += 1;
        let kinds = self.kinds(id, verdict);
        let Some(end) = self.end else {
            verdict.missing += 1;
            return verdict
                .violations
                .push(format!("{id}: its payer received nothing; the lost DFSP received {kinds:?}"));
        };
        let owed = owed(is_payer, end, confirms);
        let missing: Vec<Kind> = owed.iter().copied().filter(|kind| !kinds.contains(kind)).collect();
        verdict.owed += owed.len() as u64;
        verdict.missing += missing.len() as u64;
        // A message that a payee sends after the deadline is answered as well.
        let is_answer =
            |kind| !is_payer && end == TransferEnd::Expired && matches!(kind, Kind::Error | Kind::Put);
        let surplus: Vec<Kind> =
            kinds.iter().copied().filter(|kind| !owed.contains(kind) && !is_answer(*kind)).collect();
        if !missing.is_empty() || !surplus.is_empty() {
            verdict.violations.push(format!("{id}: {end:?}, owed {owed:?}, received {kinds:?}"));
        } else if kinds.first() != owed.first() {
            verdict.out_of_order += 1;
            verdict.violations.push(format!("{id}: its callbacks came in the order {kinds:?}"));
        }
    }

    /// The kinds of callbacks that came, in order, without repetitions.
    fn kinds(&self, id: &str, verdict: &mut BooksVerdict) -> Vec<Kind> {
        let mut first: Vec<TakenCallback> = Vec::new();
        for taken in &self.taken {
            match first.iter().find(|known| known.is_again(*taken)) {
                None => first.push(*taken),
                Some(known) => {
                    verdict.repeated += 1;
                    if known.body_hash != taken.body_hash {
                        verdict
                            .violations
                            .push(format!("{id}: {:?} was repeated with other bytes", taken.kind));
                    }
                }
            }
        }
        verdict.delivered += first.len() as u64;
        first.iter().map(|taken| taken.kind).collect()
    }
}

/// The callbacks that one transfer owes, in order. A payer receives the end. A payee first receives the transfer. If
/// the transfer commits and the hub confirms commits, the payee receives the confirmation. If it expires, the payee
/// receives the error, as the payer does.
const fn owed(is_payer: bool, end: TransferEnd, confirms: bool) -> &'static [Kind] {
    match (is_payer, end) {
        (true, TransferEnd::Committed) => &[Kind::Put],
        (true, TransferEnd::Expired) => &[Kind::Error],
        (false, TransferEnd::Committed) if confirms => &[Kind::Post, Kind::Put],
        (false, TransferEnd::Committed) => &[Kind::Post],
        (false, TransferEnd::Expired) => &[Kind::Post, Kind::Error],
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

    /// Numbers of callbacks of one transfer that are owed, delivered, repeated, missing and out of order, and the
    /// number of reported violations.
    fn judged(confirms: bool, is_payer: bool, end: Option<TransferEnd>, came: &[&str]) -> ([u64; 5], usize) {
        let books = Books::new(confirms);
        books.accept(ID.to_owned(), is_payer);
        came.iter().for_each(|text| take(&books, text));
        if let Some(end) = end {
            books.end(ID.to_owned(), end);
        }
        let BooksVerdict { transfers, owed, delivered, repeated, missing, out_of_order, violations } =
            books.verdict();
        assert_eq!(transfers, 1);
        ([owed, delivered, repeated, missing, out_of_order], violations.len())
    }

    #[test]
    fn received_callbacks_are_compared_with_the_end() {
        const COMMITTED: Option<TransferEnd> = Some(TransferEnd::Committed);
        const EXPIRED: Option<TransferEnd> = Some(TransferEnd::Expired);
        // Party, end, received callbacks; then owed, delivered, repeated, missing, out of order; words.
        for (is_payer, end, came, expected, words) in [
            (true, COMMITTED, &["PUT"][..], [1, 1, 0, 0, 0], 0),
            (true, EXPIRED, &["ERROR"], [1, 1, 0, 0, 0], 0),
            (true, COMMITTED, &["PUT", "PUT"], [1, 1, 1, 0, 0], 0),
            (true, COMMITTED, &[], [1, 0, 0, 1, 0], 1),
            (true, COMMITTED, &["ERROR"], [1, 1, 0, 1, 0], 1),
            (true, COMMITTED, &["PUT", "ERROR"], [1, 2, 0, 0, 0], 1),
            (true, None, &["PUT"], [0, 1, 0, 1, 0], 1),
            (false, COMMITTED, &["POST"], [1, 1, 0, 0, 0], 0),
            (false, COMMITTED, &["POST", "ERROR"], [1, 2, 0, 0, 0], 1),
            (false, COMMITTED, &["POST", "PATCH"], [1, 2, 0, 0, 0], 1),
            (false, COMMITTED, &[], [1, 0, 0, 1, 0], 1),
            (false, EXPIRED, &["POST", "EXPIRED"], [2, 2, 0, 0, 0], 0),
            (false, EXPIRED, &["POST", "POST", "EXPIRED"], [2, 2, 1, 0, 0], 0),
            (false, EXPIRED, &["POST", "EXPIRED", "EXPIRED", "TOO LATE"], [2, 3, 1, 0, 0], 0),
            // The transfer expired, and the payee was not notified.
            (false, EXPIRED, &["POST"], [2, 1, 0, 1, 0], 1),
            (false, EXPIRED, &["EXPIRED"], [2, 1, 0, 1, 0], 1),
            (false, EXPIRED, &["EXPIRED", "POST"], [2, 2, 0, 0, 1], 1),
            (false, EXPIRED, &[], [2, 0, 0, 2, 0], 1),
        ] {
            let found = judged(false, is_payer, end, came);
            assert_eq!(found, (expected, words), "{is_payer} {end:?} {came:?}");
        }
    }

    #[test]
    fn confirmation_is_owed_if_the_hub_confirms() {
        let committed = Some(TransferEnd::Committed);
        assert_eq!(judged(true, false, committed, &["POST", "PUT"]), ([2, 2, 0, 0, 0], 0));
        assert_eq!(judged(true, false, committed, &["POST"]), ([2, 1, 0, 1, 0], 1));
        assert_eq!(judged(true, false, committed, &["PUT", "POST"]), ([2, 2, 0, 0, 1], 1));
        assert_eq!(judged(false, false, committed, &["POST", "PUT"]), ([1, 2, 0, 0, 0], 1));
    }

    #[test]
    fn other_bytes_and_unknown_callbacks_are_violations() {
        let books = Books::default();
        books.accept(ID.to_owned(), true);
        books.end(ID.to_owned(), TransferEnd::Committed);
        let path = format!("/transfers/{ID}");
        [b"1", b"2"].iter().for_each(|body| books.take(&Method::PUT, &path, *body));
        books.take(&Method::DELETE, &path, b"");
        let verdict = books.verdict();
        assert_eq!((verdict.repeated, verdict.violations.len()), (1, 2), "{verdict:?}");
    }

    #[test]
    fn unanswered_transfer_owes_no_callback() {
        let books = Books::default();
        take(&books, "POST");
        assert_eq!(books.verdict(), BooksVerdict::default());
    }
}
