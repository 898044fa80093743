//! Rules of a scheme for quote requests: reject some, reroute others.
//!
//! The rules are a JSON list in Mojaloop's form:
//!
//! ```json
//! [{ "title": "at most 1000 USD",
//!    "conditions": { "all": [
//!      { "fact": "operation", "operator": "equal", "value": "quoteRequest" },
//!      { "fact": "payload", "path": "$.amount.currency", "operator": "equal", "value": "USD" },
//!      { "fact": "payload", "path": "$.amount.amount", "operator": "greaterThan", "value": 1000 } ] },
//!    "event": { "type": "INVALID_QUOTE_REQUEST",
//!               "params": { "FSPIOPError": "PAYER_LIMIT_ERROR", "message": "above the limit of the scheme" } } }]
//! ```
//!
//! Rules are parsed and checked as a whole at the start ([`Rules::parse`]). Without rules, requests are not parsed for
//! them. The crate's README has the reference.

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

use facts::RequestFact;
pub(crate) use facts::RequestFacts;
use json::Json;
use operator::Operator;
use path::Path;
pub use read::RulesError;

/// Maximum number of rules in a file.
pub const RULES_MAX: usize = 1_000;
/// Maximum size of a rules file, in bytes.
pub const RULES_BYTES_MAX: usize = 1 << 20;
/// Maximum nesting depth of `all` and `any`.
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
    fact: RequestFact,
    path: Path,
    operator: Operator,
    value: Operand,
}

#[derive(Debug)]
enum Operand {
    Constant(Json),
    Fact(RequestFact, Path),
}

#[derive(Debug)]
enum Event {
    Refuse(ErrorInformation),
    Reroute { receiver: FspId, headers: Option<Arc<HeaderMap>> },
}

/// Decision of the rules about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleDecision {
    /// The request is forwarded unchanged.
    Pass,
    /// The sender gets this error.
    Refuse(ErrorInformation),
    /// The request is sent to another participant, with these headers in addition to its own.
    Reroute { receiver: FspId, headers: Option<Arc<HeaderMap>> },
}

impl Rules {
    /// Parses a rules file. Errors name the rule and the wrong field; one wrong rule rejects the whole file.
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        let mut rules = read::rules(text)?;
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
        Ok(Self { rules: rules.into() })
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Applies the rules to a request. A rejection takes precedence over a reroute, and the first rejection in order of
    /// priority over the others. If two rules reroute, the sender gets the error 2001.
    pub(crate) fn judge(&self, facts: &RequestFacts) -> RuleDecision {
        let mut verdict = RuleDecision::Pass;
        let mut several = None;
        for rule in self.rules.iter().filter(|rule| rule.condition.holds(facts)) {
            match (&rule.event, &verdict) {
                (Event::Refuse(error), _) => return RuleDecision::Refuse(error.clone()),
                (Event::Reroute { receiver, headers }, RuleDecision::Pass) => {
                    verdict = RuleDecision::Reroute { receiver: *receiver, headers: headers.clone() };
                }
                (Event::Reroute { .. }, _) => several = Some(&rule.title),
            }
        }
        if let Some(title) = several {
            tracing::error!(
                rule = &**title,
                "two quoting rules name a destination for one request; the request was rejected"
            );
            let detail = "several rules name a destination for the quote";
            return RuleDecision::Refuse(ErrorInformation::new(ErrorCode::INTERNAL, detail));
        }
        verdict
    }
}

impl Condition {
    fn holds(&self, facts: &RequestFacts) -> bool {
        match self {
            Self::All(conditions) => conditions.iter().all(|condition| condition.holds(facts)),
            Self::Any(conditions) => conditions.iter().any(|condition| condition.holds(facts)),
            Self::Test(test) => test.holds(facts),
        }
    }
}

impl Test {
    fn holds(&self, facts: &RequestFacts) -> bool {
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
mod tests {
    use super::*;

    const PAYLOAD: &str = r#"{"amount":{"amount":"12.5","currency":"USD"},"amountType":"SEND","note":"","count":3,
    "big":"100000000000000000001","payer":{"partyIdInfo":{"fspId":"bluebank"},"supportedCurrencies":["USD","KES"]},
    "flags":[true],"nothing":null}"#;
    const PAYER: &str = r#"{"name":"bluebank","isActive":1,"accounts":[
    {"ledgerAccountType":"POSITION","currency":"USD","isActive":1},
    {"ledgerAccountType":"POSITION","currency":"KES","isActive":1},
    {"ledgerAccountType":"POSITION","currency":"EUR","isActive":0},
    {"ledgerAccountType":"SETTLEMENT","currency":"USD"}]}"#;
    const PAYEE: &str = r#"{"name":"greenbank","isActive":1,"accounts":[
    {"ledgerAccountType":"POSITION","currency":"USD","isActive":1}]}"#;
    const HEADERS: &str = r#"{"fspiop-source":"bluebank","fspiop-destination":"greenbank","x-hops":"2"}"#;

    const EVENT: &str =
        r#"{"type":"INVALID_QUOTE_REQUEST","params":{"FSPIOPError":"PAYEE_ERROR","message":"no"}}"#;
    const TEST: &str = r#"{"fact":"operation","operator":"equal","value":"quoteRequest"}"#;

    fn facts() -> RequestFacts {
        RequestFacts::for_test(
            [r#""quoteRequest""#, PAYER, PAYEE, PAYLOAD, HEADERS].map(|text| Json::read(text).unwrap()),
        )
    }

    fn lines(table: &str) -> impl Iterator<Item = &str> {
        table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
    }

    fn refusal(code: ErrorCode, message: &str) -> RuleDecision {
        RuleDecision::Refuse(ErrorInformation::new(code, message))
    }

    fn judge(rules: &[(&str, &str)]) -> RuleDecision {
        let rules: Vec<String> = rules
            .iter()
            .map(|(more, event)| format!(r#"{{"conditions":{{"all":[{TEST}]}},{more}"event":{event}}}"#))
            .collect();
        Rules::parse(&format!("[{}]", rules.join(","))).unwrap().judge(&facts())
    }

    #[test]
    fn conditions_are_evaluated() {
        let mut used = Vec::new();
        for line in lines(include_str!("conditions.txt")) {
            let (expected, condition) = line.split_once(' ').unwrap();
            let rules = format!(r#"[{{"conditions":{{"all":[{condition}]}},"event":{EVENT}}}]"#);
            let rules = Rules::parse(&rules).unwrap_or_else(|error| panic!("{condition}: {error}"));
            let refused = rules.judge(&facts()) == refusal(ErrorCode::PAYEE, "no");
            assert_eq!(refused, expected == "yes", "{condition}");
            used.extend(
                Operator::ALL
                    .iter()
                    .filter(|operator| condition.contains(&format!(r#""operator":"{}""#, operator.as_str()))),
            );
        }
        for operator in Operator::ALL {
            assert!(used.contains(&operator), "{operator:?} is in no line");
        }
    }

    #[test]
    fn mistake_is_reported_and_rejects_the_whole_file() {
        for line in lines(include_str!("mistakes.txt")) {
            let (expected, rules) = line.split_once('|').unwrap();
            let rules = rules.replace("EVENT", EVENT).replace("TEST", TEST);
            let error = Rules::parse(&rules).map(|rules| rules.len()).unwrap_err().to_string();
            let expected = expected.trim();
            assert!(
                error == expected || (expected.ends_with(':') && error.starts_with(expected)),
                "{error}\n{line}"
            );
        }
    }

    #[test]
    fn rules_files_have_a_maximum_size() {
        let rule = format!(r#"{{"conditions":{{"all":[{TEST}]}},"event":{EVENT}}}"#);
        let rules = |count| format!("[{}]", vec![rule.as_str(); count].join(","));
        assert_eq!(Rules::parse(&rules(RULES_MAX)).unwrap().len(), RULES_MAX);
        assert!(matches!(Rules::parse(&rules(RULES_MAX + 1)), Err(RulesError::NotAList)));
        let blank = " ".repeat(RULES_BYTES_MAX);
        assert!(matches!(Rules::parse(&format!("[]{blank}")), Err(RulesError::TooLarge { .. })));
    }

    #[test]
    fn first_rejection_takes_precedence_over_a_reroute() {
        let payee = EVENT;
        let limit = r#"{"type":"INVALID_QUOTE_REQUEST","params":{"FSPIOPError":4200}}"#;
        let reroute = r#"{"type":"INTERCEPT_QUOTE","params":{"rerouteToFsp":"fxp","sourceCurrency":"EUR",
        "rerouteToFspCurrency":"XOF","additionalHeaders":{"X-Hop":"1"}}}"#;
        let to_fxp = RuleDecision::Reroute {
            receiver: FspId::parse("fxp").unwrap(),
            headers: Some(Arc::new(HeaderMap::from_iter([("x-hop".parse().unwrap(), "1".parse().unwrap())]))),
        };
        assert_eq!(Rules::default().judge(&facts()), RuleDecision::Pass);
        assert_eq!(judge(&[("", payee), ("", limit)]), refusal(ErrorCode::PAYEE, "no"));
        assert_eq!(judge(&[("", limit), ("", payee)]), refusal(ErrorCode::PAYER_LIMIT, ""));
        assert_eq!(judge(&[("", payee), (r#""priority":2,"#, limit)]), refusal(ErrorCode::PAYER_LIMIT, ""));
        assert_eq!(judge(&[(r#""name":"n","#, reroute)]), to_fxp);
        assert_eq!(judge(&[("", reroute), ("", payee)]), refusal(ErrorCode::PAYEE, "no"));
        let ambiguous = "several rules name a destination for the quote";
        assert_eq!(judge(&[("", reroute), ("", reroute)]), refusal(ErrorCode::INTERNAL, ambiguous));
    }

    #[test]
    fn values_nested_too_deep_count_as_null() {
        let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        let Json::Array(_) = Json::read(&deep).unwrap() else { panic!("it is a list") };
        let nested = Json::read(&format!(r#"{{"a":{deep}}}"#)).unwrap();
        assert!(Path::read("$.a[0]").unwrap().find(&nested).is_some());
    }
}
