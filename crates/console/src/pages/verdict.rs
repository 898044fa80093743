//! The answer to the first question of every incident: is it the hub, one DFSP, or one pair?

use std::collections::{BTreeMap, BTreeSet};

use crate::show;
use crate::table::Tone;
use crate::words::{Words, fill};

/// A pair counts if at least this many requests failed.
const FAILED_MIN: u64 = 3;
/// A pair counts if at least this share of its requests failed, in thousandths.
const PERMILLE_MIN: u64 = 100;

/// The requests of one DFSP to another in the last minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    pub sender: String,
    pub receiver: String,
    pub requests: u64,
    pub failed: u64,
}

impl Pair {
    /// Share of failed requests, in thousandths.
    pub fn permille(&self) -> u64 {
        show::permille(self.failed, self.requests)
    }

    fn fails(&self) -> bool {
        self.failed >= FAILED_MIN && self.permille() >= PERMILLE_MIN
    }
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub tone: Tone,
    pub title: String,
    pub detail: String,
    /// The DFSPs that it names.
    pub names: Vec<String>,
}

impl Verdict {
    fn new(tone: Tone, title: &str, detail: String, names: &[&str]) -> Self {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Self { tone, title: title.to_owned(), detail, names }
    }

    /// The answer of a follower, which leaves the payments to the leader.
    pub fn following(words: &Words) -> Self {
        Self::new(Tone::Plain, words.verdict_following, words.verdict_following_detail.to_owned(), &[])
    }
}

/// Compares the pairs of DFSPs. `faults` are the parts of the hub that prevent payments, and `stopped` the DFSPs that
/// do not take their callbacks.
pub fn verdict(faults: &[String], pairs: &[Pair], stopped: &[String], words: &Words) -> Verdict {
    if !faults.is_empty() {
        return Verdict::new(Tone::Bad, words.verdict_hub, faults.join("; "), &[]);
    }
    let failing = failing_pairs(pairs);
    if failing.is_empty() {
        return without_failing_pairs(pairs, stopped, words);
    }
    let senders: BTreeSet<&str> = failing.iter().map(|pair| &*pair.sender).collect();
    let receivers: BTreeSet<&str> = failing.iter().map(|pair| &*pair.receiver).collect();
    let (requests, failed) =
        failing.iter().fold((0, 0), |(all, bad), pair| (all + pair.requests, bad + pair.failed));
    let counts = fill(
        words.verdict_counts,
        &[("failed", &show::number(failed, words)), ("requests", &show::number(requests, words))],
    );
    let works = |pair: &&Pair| !failing.contains(pair);
    let answers_others = |name: &str| pairs.iter().filter(works).any(|pair| pair.receiver == name);
    let reaches_others = |name: &str| pairs.iter().filter(works).any(|pair| pair.sender == name);
    let title =
        |text: &str, sender: &str, receiver: &str| fill(text, &[("sender", sender), ("receiver", receiver)]);
    if let [only] = failing[..]
        && (answers_others(&only.receiver) || !reaches_others(&only.sender))
    {
        let title = title(words.verdict_pair, &only.sender, &only.receiver);
        return Verdict::new(Tone::Bad, &title, counts, &[&only.sender, &only.receiver]);
    }
    if receivers.len() == 1
        && let Some(receiver) = receivers.first()
    {
        return Verdict::new(Tone::Bad, &title(words.verdict_receiver, "", receiver), counts, &[receiver]);
    }
    if senders.len() == 1
        && let Some(sender) = senders.first()
    {
        return Verdict::new(Tone::Bad, &title(words.verdict_sender, sender, ""), counts, &[sender]);
    }
    if failing.len() * 2 > pairs.len() && receivers.len() > 2 {
        return Verdict::new(Tone::Bad, words.verdict_most, counts, &[]);
    }
    let names: Vec<_> = receivers.into_iter().collect();
    let list = fill(words.verdict_several_detail, &[("names", &names.join(", ")), ("counts", &counts)]);
    Verdict::new(Tone::Bad, words.verdict_several, list, &names)
}

/// The pairs that count as failing: by themselves, or because all requests to their receiver, or else of their sender,
/// fail too often together.
fn failing_pairs(pairs: &[Pair]) -> Vec<&Pair> {
    let by = |name: fn(&Pair) -> &str| {
        let mut sums = BTreeMap::<&str, Pair>::new();
        for pair in pairs {
            let sum = sums.entry(name(pair)).or_default();
            sum.requests += pair.requests;
            sum.failed += pair.failed;
        }
        sums.retain(|_, sum| sum.fails());
        sums
    };
    let (receivers, senders) = (by(|pair| &pair.receiver), by(|pair| &pair.sender));
    let is_failing = |pair: &&Pair| {
        let is_of_failing = match receivers.is_empty() {
            false => receivers.contains_key(&*pair.receiver),
            true => senders.contains_key(&*pair.sender),
        };
        pair.fails() || pair.failed > 0 && is_of_failing
    };
    pairs.iter().filter(is_failing).collect()
}

fn without_failing_pairs(pairs: &[Pair], stopped: &[String], words: &Words) -> Verdict {
    let names: Vec<_> = stopped.iter().map(String::as_str).collect();
    match &names[..] {
        [] if pairs.is_empty() => {
            Verdict::new(Tone::Plain, words.verdict_quiet, words.verdict_quiet_detail.to_owned(), &[])
        }
        [] => {
            let (requests, failed) = pairs
                .iter()
                .fold((0, 0), |(requests, failed), pair| (requests + pair.requests, failed + pair.failed));
            let values =
                [("failed", &*show::number(failed, words)), ("requests", &show::number(requests, words))];
            Verdict::new(Tone::Good, words.verdict_good, fill(words.verdict_counts, &values), &[])
        }
        [only] => {
            let title = fill(words.verdict_stopped, &[("receiver", only)]);
            Verdict::new(Tone::Warning, &title, words.verdict_stopped_detail.to_owned(), &[only])
        }
        _ => {
            let detail = fill(words.verdict_stopped_names, &[("names", &names.join(", "))]);
            Verdict::new(Tone::Warning, words.verdict_stopped_several, detail, &names)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ENGLISH;

    /// The title for pairs such as `a b 10 5`: sender, receiver, requests, failed requests.
    fn title(pairs: &[&str], stopped: &[&str]) -> String {
        let pair = |text: &&str| {
            let parts: Vec<_> = text.split(' ').collect();
            let number = |at: usize| parts[at].parse().unwrap();
            Pair {
                sender: parts[0].into(),
                receiver: parts[1].into(),
                requests: number(2),
                failed: number(3),
            }
        };
        let pairs: Vec<_> = pairs.iter().map(pair).collect();
        let stopped: Vec<_> = stopped.iter().map(|name| (*name).to_owned()).collect();
        verdict(&[], &pairs, &stopped, &ENGLISH).title
    }

    #[test]
    fn verdict_names_the_hub_one_dfsp_or_one_pair() {
        for (pairs, stopped, expected) in [
            (&[][..], &[][..], "No payments at the moment"),
            (&["a b 1000 9", "b a 50 2"], &[], "Payments flow"),
            (&["a b 10 5", "a c 10 0", "c b 10 0"], &[], "One pair: requests of a to b fail"),
            (&["a b 10 5", "c b 10 9", "b a 10 0"], &[], "One DFSP: requests to b fail"),
            (&["a b 10 5", "a c 10 0"], &[], "One DFSP: requests to b fail"),
            (&["a b 10 5", "a c 10 5", "b c 10 0"], &[], "One DFSP: requests of a fail"),
            (&["a b 10 5", "c d 10 5", "b a 9 0", "d c 9 0"], &[], "Several DFSPs fail"),
            (
                &["a b 9 5", "b c 9 5", "c a 9 5", "c b 9 0"],
                &[],
                "Most pairs fail: look at the hub and the network first",
            ),
            (&["a b 9 2", "c b 9 2", "d b 9 1", "b a 9 0"], &[], "One DFSP: requests to b fail"),
            (
                &["a b 20 2", "a c 20 2", "a d 20 2", "b c 80 0", "c d 80 0", "d b 80 0"],
                &[],
                "One DFSP: requests of a fail",
            ),
            (&["a b 10 2", "b a 10 0", "c b 90 0"], &["b"], "One DFSP: b does not take its callbacks"),
            (&["a b 10 0"], &["b", "c"], "Several DFSPs do not take their callbacks"),
        ] {
            assert_eq!(title(pairs, stopped), expected, "{pairs:?} {stopped:?}");
        }
        let faults = ["journal: the disk is full".to_owned()];
        let of_hub = verdict(&faults, &[], &[], &ENGLISH);
        assert_eq!((of_hub.tone, &*of_hub.title), (Tone::Bad, "The hub accepts no payments"));
        assert_eq!(of_hub.detail, faults[0]);
    }
}
