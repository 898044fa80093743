//! Scheme rules over quote requests: refuse some, send others elsewhere.
//!
//! The rules are a JSON list in the form that hubs know:
//!
//! ```json
//! [{ "title": "no more than 1000 USD",
//!    "conditions": { "all": [
//!      { "fact": "operation", "operator": "equal", "value": "quoteRequest" },
//!      { "fact": "payload", "path": "$.amount.currency", "operator": "equal", "value": "USD" },
//!      { "fact": "payload", "path": "$.amount.amount", "operator": "greaterThan", "value": 1000 } ] },
//!    "event": { "type": "INVALID_QUOTE_REQUEST",
//!               "params": { "FSPIOPError": "PAYER_LIMIT_ERROR", "message": "above the limit of the scheme" } } }]
//! ```
//!
//! They are read and checked as a whole at the start ([`Rules::parse`]); without rules nothing of a request is parsed
//! for them. The crate's README has the reference.

mod decimal;
mod facts;
mod json;
mod operator;
mod path;
mod read;

use std::sync::Arc;

use upesi_delivery::relayed::ErrorInformation;
use upesi_http::HeaderMap;
use upesi_types::{ErrorCode, FspId};

use facts::Fact;
pub(crate) use facts::Facts;
use json::Json;
use operator::Operator;
use path::Path;
pub use read::RulesError;

/// Most rules of a file.
pub const RULES_MAX: usize = 1_000;
/// Largest rules file, in bytes.
pub const RULES_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting of `all` and `any`.
pub const CONDITION_LEVELS_MAX: usize = 8;

/// The rules of a scheme, highest priority first.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Arc<[Rule]>,
}

#[derive(Debug)]
struct Rule {
    title: Box<str>,
    priority: i64,
    condition: Condition,
    event: Event,
}

#[derive(Debug)]
enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Test(Test),
}

#[derive(Debug)]
struct Test {
    fact: Fact,
    path: Path,
    operator: Operator,
    value: Operand,
}

#[derive(Debug)]
enum Operand {
    Constant(Json),
    Fact(Fact, Path),
}

#[derive(Debug)]
enum Event {
    Refuse(ErrorInformation),
    Reroute { receiver: FspId, headers: Option<Arc<HeaderMap>> },
}

/// What the rules say of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Pass,
    /// Its sender gets this error.
    Refuse(ErrorInformation),
    /// It goes to somebody else, with these headers beside its own.
    Reroute { receiver: FspId, headers: Option<Arc<HeaderMap>> },
}

impl Rules {
    /// Reads a rules file. Errors name the rule and the field that is wrong; one wrong rule refuses all.
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        let mut rules = read::rules(text)?;
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
        Ok(Self { rules: rules.into() })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Judges a request. A refusal beats a new destination, the first refusal in order of priority beats the others;
    /// two rules that name a destination are a mistake that the sender is told as 2001.
    pub(crate) fn judge(&self, facts: &Facts) -> Verdict {
        let mut verdict = Verdict::Pass;
        let mut several = None;
        for rule in self.rules.iter().filter(|rule| rule.condition.holds(facts)) {
            match (&rule.event, &verdict) {
                (Event::Refuse(error), _) => return Verdict::Refuse(error.clone()),
                (Event::Reroute { receiver, headers }, Verdict::Pass) => {
                    verdict = Verdict::Reroute { receiver: *receiver, headers: headers.clone() };
                }
                (Event::Reroute { .. }, _) => several = Some(&rule.title),
            }
        }
        if let Some(title) = several {
            tracing::error!(
                rule = &**title,
                "two quoting rules name a destination for one request; refused it"
            );
            let detail = "several rules name a destination for the quote";
            return Verdict::Refuse(ErrorInformation::new(ErrorCode::INTERNAL, detail));
        }
        verdict
    }
}

impl Condition {
    fn holds(&self, facts: &Facts) -> bool {
        match self {
            Self::All(conditions) => conditions.iter().all(|condition| condition.holds(facts)),
            Self::Any(conditions) => conditions.iter().any(|condition| condition.holds(facts)),
            Self::Test(test) => test.holds(facts),
        }
    }
}

impl Test {
    fn holds(&self, facts: &Facts) -> bool {
        let found = self.path.find(facts.get(self.fact));
        match &self.value {
            Operand::Constant(value) => self.operator.holds(found.as_ref(), Some(value)),
            Operand::Fact(fact, path) => {
                let value = path.find(facts.get(*fact));
                self.operator.holds(found.as_ref(), value.as_ref())
            }
        }
    }
}

#[cfg(test)]
mod tests;
