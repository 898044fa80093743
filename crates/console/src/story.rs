//! The state of a payment in one sentence, for the console and for `upesi transfer show`.

use upesi_types::text::Escaped;

use crate::words::{Words, fill};

/// What the sentence needs. Times and the amount are already written in the reader's form.
#[derive(Clone, Debug)]
pub struct Story<'a> {
    pub payer: Option<&'a str>,
    pub payee: Option<&'a str>,
    pub money: String,
    /// The state that DFSPs see.
    pub public_state: &'a str,
    pub state: &'a str,
    /// Time of the state.
    pub since: String,
    pub expires: String,
    /// Code and description of the cause of an abort.
    pub error: Option<(&'a str, &'a str)>,
    pub operator_reason: Option<&'a str>,
    pub callbacks: Vec<StoryCallback<'a>>,
    /// Whether the journal still has all deliveries.
    pub is_whole: bool,
    pub settlement: Option<StorySettlement<'a>>,
}

/// A callback of the payment.
#[derive(Clone, Debug)]
pub struct StoryCallback<'a> {
    pub key: String,
    pub participant: &'a str,
    pub message: &'a str,
    /// `delivered`, `pending` or `parked`.
    pub state: &'a str,
    pub delivered: Option<String>,
    pub attempts: Option<u32>,
    pub reason: Option<&'a str>,
}

/// The settlement window of the payment, and the settlement of the window.
#[derive(Clone, Debug)]
pub struct StorySettlement<'a> {
    pub window: u32,
    pub window_state: &'a str,
    pub settlement: Option<(u32, &'a str)>,
}

impl Story<'_> {
    /// The whole sentence.
    pub fn sentence(&self, words: &Words) -> String {
        let mut parts = vec![self.headline(words), self.next_step(words)];
        parts.extend(self.callbacks.iter().map(|told| told.text(words)));
        if !self.is_whole {
            parts.push(words.story_not_whole.to_owned());
        }
        parts.push(self.settled(words));
        format!("{}.", parts.join("; "))
    }

    /// Parties, amount, state, and the cause of an abort.
    pub fn headline(&self, words: &Words) -> String {
        let name = |party: Option<&str>| Escaped(party.unwrap_or(words.story_unknown)).to_string();
        let mut text = fill(
            words.story_pays,
            &[
                ("payer", &name(self.payer)),
                ("money", &self.money),
                ("payee", &name(self.payee)),
                ("state", &Escaped(self.state).to_string()),
                ("since", &self.since),
            ],
        );
        if let Some((code, description)) = self.error {
            text.push_str(&format!(" ({} {})", Escaped(code), Escaped(description)));
        }
        if let Some(reason) = self.operator_reason {
            let reason = Escaped(reason).to_string();
            text.push_str(&format!(" {}", fill(words.story_by_operator, &[("reason", &reason)])));
        }
        text
    }

    /// The next step, and who has to make it.
    pub fn next_step(&self, words: &Words) -> String {
        if let Some(parked) = self.callbacks.iter().find(|told| told.state == "parked") {
            let command = format!("upesi callback redeliver {}", Escaped(&parked.key));
            return fill(words.story_operator_acts, &[("command", &command)]);
        }
        if self.callbacks.iter().any(|told| told.state == "pending") {
            return words.story_hub_delivers.to_owned();
        }
        if self.public_state != "RESERVED" {
            return words.story_no_action.to_owned();
        }
        let payee = Escaped(self.payee.unwrap_or(words.story_unknown)).to_string();
        fill(words.story_payee_answers, &[("payee", &payee), ("time", &self.expires)])
    }

    /// The state of its settlement.
    pub fn settled(&self, words: &Words) -> String {
        let Some(StorySettlement { window, window_state, settlement }) = &self.settlement else {
            return match self.public_state {
                "COMMITTED" => words.story_settled_at_once,
                "RESERVED" => words.story_no_window_yet,
                _ => words.story_nothing_to_settle,
            }
            .to_owned();
        };
        let (window, state) = (window.to_string(), Escaped(window_state).to_string());
        let window = fill(words.story_window, &[("window", &window), ("state", &state)]);
        let rest = match settlement {
            Some((id, state)) => {
                let (id, state) = (id.to_string(), Escaped(state).to_string());
                fill(words.story_settlement, &[("settlement", &id), ("state", &state)])
            }
            None => words.story_no_settlement.to_owned(),
        };
        format!("{window}, {rest}")
    }
}

impl StoryCallback<'_> {
    /// Whether and when the message was delivered, or its failed attempts.
    fn text(&self, words: &Words) -> String {
        let (name, message) = (Escaped(self.participant).to_string(), Escaped(self.message).to_string());
        let state = Escaped(self.state).to_string();
        let mut values = vec![("name", &*name), ("message", &*message), ("state", &*state)];
        if self.state == "delivered" {
            return match &self.delivered {
                // The hub records deliveries together, shortly after them.
                Some(at) => {
                    values.push(("time", at));
                    fill(words.story_got_by, &values)
                }
                None => fill(words.story_got, &values),
            };
        }
        let attempts = match self.attempts {
            Some(1) => words.story_one_attempt.to_owned(),
            Some(attempts) => fill(words.story_attempts, &[("attempts", &attempts.to_string())]),
            None => String::new(),
        };
        let reason = match (self.attempts, self.reason) {
            (Some(_), Some(reason)) => format!(" ({})", Escaped(reason)),
            _ => String::new(),
        };
        format!("{}{attempts}{reason}", fill(words.story_is, &values))
    }
}
