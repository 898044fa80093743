//! Parses a rules file, or returns its first mistake.

use std::collections::BTreeMap;
use std::sync::Arc;

use upesi_delivery::relayed::ErrorInformation;
use upesi_http::{HeaderMap, HeaderName, HeaderValue, header_block};
use upesi_types::{ErrorCode, FspId};

use super::json::Json;
use super::{
    CONDITION_LEVELS_MAX, Condition, Event, Operand, Operator, Path, RULES_BYTES_MAX, RULES_MAX, RequestFact,
    Rule, Test,
};

/// Reason why a rules file is rejected.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The file is larger than [`RULES_BYTES_MAX`].
    #[error("the rules have {bytes} bytes; the maximum is {RULES_BYTES_MAX}")]
    TooLarge { bytes: usize },
    /// The file is not JSON.
    #[error("the rules are not valid JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// The file is not a list of at most [`RULES_MAX`] rules.
    #[error("the rules have to be a list of at most {RULES_MAX} rules, such as []")]
    NotAList,
    /// A rule has a mistake.
    #[error("rule {rule}: {field} {problem}")]
    Field {
        /// The rule, counted from 1, with its title if it has one.
        rule: String,
        /// Position in the rule, such as `conditions.all[0].operator`.
        field: String,
        /// Description of the mistake and of a correct value.
        problem: String,
    },
}

/// A mistake in a rule.
struct Mistake {
    field: String,
    problem: String,
}

pub(super) fn rules(text: &str) -> Result<Vec<Rule>, RulesError> {
    if text.len() > RULES_BYTES_MAX {
        return Err(RulesError::TooLarge { bytes: text.len() });
    }
    let Json::Array(items) = Json::read(text)? else { return Err(RulesError::NotAList) };
    if items.len() > RULES_MAX {
        return Err(RulesError::NotAList);
    }
    let numbered = items.into_iter().enumerate();
    numbered.map(|(index, item)| rule(index, item)).collect()
}

/// The error about a mistake in the rule at an index, with the title of the rule if it has one.
fn located(index: usize, title: &str, mistake: Mistake) -> RulesError {
    let Mistake { field, problem } = mistake;
    let title = if title.is_empty() { String::new() } else { format!(" ('{title}')") };
    RulesError::Field { rule: format!("{}{title}", index + 1), field, problem }
}

fn rule(index: usize, item: Json) -> Result<Rule, RulesError> {
    let Json::Object(mut members) = item else {
        return Err(located(index, "", mistake("it", "has to be an object")));
    };
    let title = match members.remove("title").or_else(|| members.remove("name")) {
        None => String::new(),
        Some(Json::Text(title)) => title.into(),
        Some(_) => return Err(located(index, "", mistake("title", "has to be a text"))),
    };
    read_rule(members, &title).map_err(|mistake| located(index, &title, mistake))
}

fn read_rule(mut members: Members, title: &str) -> Result<Rule, Mistake> {
    let priority = match members.remove("priority") {
        None => 1,
        Some(Json::Number(digits)) => {
            digits.parse().map_err(|_| mistake("priority", "has to be a whole number"))?
        }
        Some(_) => return Err(mistake("priority", "has to be a whole number")),
    };
    let condition = take(&mut members, "", "conditions")?;
    let condition = read_condition(condition, "conditions", 1)?;
    if matches!(condition, Condition::Test(_)) {
        return Err(mistake("conditions", "has to begin with all or any"));
    }
    let event = read_event(take(&mut members, "", "event")?)?;
    refuse_others(&members, "")?;
    Ok(Rule { title: title.into(), priority, condition, event })
}

fn read_condition(value: Json, at: &str, level: usize) -> Result<Condition, Mistake> {
    let mut members = object(value, at)?;
    for (name, build) in [("all", Condition::All as fn(Vec<Condition>) -> Condition), ("any", Condition::Any)]
    {
        let Some(list) = members.remove(name) else { continue };
        let at = join(at, name);
        refuse_others(&members, &at)?;
        if level > CONDITION_LEVELS_MAX {
            return Err(mistake(&at, &format!("is nested deeper than {CONDITION_LEVELS_MAX} levels")));
        }
        let items = match list {
            Json::Array(items) if !items.is_empty() => items,
            _ => return Err(mistake(&at, "has to be a list of at least one condition")),
        };
        let numbered = items.into_iter().enumerate();
        let conditions =
            numbered.map(|(index, item)| read_condition(item, &format!("{at}[{index}]"), level + 1));
        return Ok(build(conditions.collect::<Result<_, _>>()?));
    }
    read_test(members, at).map(Condition::Test)
}

fn read_test(mut members: Members, at: &str) -> Result<Test, Mistake> {
    let fact = read_fact(&mut members, at)?;
    let path = read_path(&mut members, at)?;
    let name = text(take(&mut members, at, "operator")?, &join(at, "operator"))?;
    let operator = Operator::parse(&name)
        .ok_or_else(|| mistake(&join(at, "operator"), &format!("'{name}' is not an operator")))?;
    let value = read_operand(take(&mut members, at, "value")?, operator, &join(at, "value"))?;
    refuse_others(&members, at)?;
    Ok(Test { fact, path, operator, value })
}

/// An object with a `fact` refers to the value of that fact; every other value is a literal.
fn read_operand(value: Json, operator: Operator, at: &str) -> Result<Operand, Mistake> {
    match value {
        Json::Object(mut members) if members.contains_key("fact") => {
            let fact = read_fact(&mut members, at)?;
            let path = read_path(&mut members, at)?;
            refuse_others(&members, at)?;
            Ok(Operand::Fact(fact, path))
        }
        value => match operator.problem_with(&value) {
            Some(problem) => Err(mistake(at, problem)),
            None => Ok(Operand::Constant(value)),
        },
    }
}

fn read_fact(members: &mut Members, at: &str) -> Result<RequestFact, Mistake> {
    let name = text(take(members, at, "fact")?, &join(at, "fact"))?;
    let known = "is not one of operation, payer, payee, payload, headers";
    RequestFact::parse(&name).ok_or_else(|| mistake(&join(at, "fact"), &format!("'{name}' {known}")))
}

fn read_path(members: &mut Members, at: &str) -> Result<Path, Mistake> {
    let Some(path) = members.remove("path") else { return Ok(Path::root()) };
    let at = join(at, "path");
    let path = text(path, &at)?;
    Path::read(&path).map_err(|problem| mistake(&at, &format!("'{path}' is not understood: {problem}")))
}

fn read_event(value: Json) -> Result<Event, Mistake> {
    let mut members = object(value, "event")?;
    let kind = text(take(&mut members, "event", "type")?, "event.type")?;
    let mut params = object(take(&mut members, "event", "params")?, "event.params")?;
    refuse_others(&members, "event")?;
    let event = match &*kind {
        "INVALID_QUOTE_REQUEST" => read_refusal(&mut params)?,
        "INTERCEPT_QUOTE" => read_reroute(&mut params)?,
        _ => {
            let problem = format!("'{kind}' is neither INVALID_QUOTE_REQUEST nor INTERCEPT_QUOTE");
            return Err(mistake("event.type", &problem));
        }
    };
    refuse_others(&params, "event.params")?;
    Ok(event)
}

fn read_refusal(params: &mut Members) -> Result<Event, Mistake> {
    let at = "event.params.FSPIOPError";
    let name = match take(params, "event.params", "FSPIOPError")? {
        Json::Number(digits) => digits,
        other => text(other, at)?,
    };
    let code = error_code(&name).ok_or_else(|| {
        mistake(at, &format!("'{name}' is neither a known name such as PAYEE_ERROR nor four digits"))
    })?;
    let message = match params.remove("message") {
        Some(message) => text(message, "event.params.message")?,
        None => "".into(),
    };
    Ok(Event::Refuse(ErrorInformation::new(code, &message)))
}

fn read_reroute(params: &mut Members) -> Result<Event, Mistake> {
    let at = "event.params.rerouteToFsp";
    let name = text(take(params, "event.params", "rerouteToFsp")?, at)?;
    let receiver = FspId::parse(&name).ok_or_else(|| mistake(at, "has to be the name of a participant"))?;
    // Existing files use these two members as comments.
    params.remove("sourceCurrency");
    params.remove("rerouteToFspCurrency");
    let headers = match params.remove("additionalHeaders") {
        Some(headers) => Some(Arc::new(read_headers(headers)?)),
        None => None,
    };
    Ok(Event::Reroute { receiver, headers })
}

/// Headers that address or protect a message: a rule must not set them.
const OWN_HEADERS: [&str; 6] =
    ["fspiop-source", "fspiop-destination", "fspiop-uri", "fspiop-http-method", "fspiop-signature", "date"];

fn read_headers(value: Json) -> Result<HeaderMap, Mistake> {
    let at = "event.params.additionalHeaders";
    let mut headers = HeaderMap::new();
    for (name, value) in object(value, at)? {
        let at = join(at, &name);
        let value = text(value, &at)?;
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| mistake(&at, "is not a valid header name"))?;
        if header_block::is_not_passed_on(name.as_str()) || OWN_HEADERS.contains(&name.as_str()) {
            return Err(mistake(&at, "is a header that the hub itself writes"));
        }
        let value = HeaderValue::from_str(&value).map_err(|_| mistake(&at, "is not a valid header value"))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

type Members = BTreeMap<String, Json>;

fn mistake(field: &str, problem: &str) -> Mistake {
    Mistake { field: field.to_owned(), problem: problem.to_owned() }
}

fn join(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

fn object(value: Json, at: &str) -> Result<Members, Mistake> {
    match value {
        Json::Object(members) => Ok(members),
        _ => Err(mistake(at, "has to be an object")),
    }
}

fn text(value: Json, at: &str) -> Result<Box<str>, Mistake> {
    match value {
        Json::Text(text) => Ok(text),
        _ => Err(mistake(at, "has to be a text")),
    }
}

fn take(members: &mut Members, at: &str, name: &str) -> Result<Json, Mistake> {
    members.remove(name).ok_or_else(|| mistake(&join(at, name), "is missing"))
}

/// Rejects unknown fields, because a misspelt field would silently change the meaning of a rule.
fn refuse_others(members: &Members, at: &str) -> Result<(), Mistake> {
    match members.keys().next() {
        Some(name) => Err(mistake(&join(at, name), "is not known here")),
        None => Ok(()),
    }
}

/// Names of error codes in rules files; four digits are also accepted.
const CODE_NAMES: [(&str, ErrorCode); 36] = [
    ("COMMUNICATION_ERROR", ErrorCode::COMMUNICATION),
    ("DESTINATION_COMMUNICATION_ERROR", ErrorCode::DESTINATION_COMMUNICATION),
    ("SERVER_ERROR", ErrorCode::SERVER),
    ("INTERNAL_SERVER_ERROR", ErrorCode::INTERNAL),
    ("NOT_IMPLEMENTED", ErrorCode::NOT_IMPLEMENTED),
    ("SERVICE_CURRENTLY_UNAVAILABLE", ErrorCode::UNAVAILABLE),
    ("SERVER_BUSY", ErrorCode::SERVER_BUSY),
    ("CLIENT_ERROR", ErrorCode::CLIENT),
    ("VALIDATION_ERROR", ErrorCode::VALIDATION),
    ("MALFORMED_SYNTAX", ErrorCode::MALFORMED_SYNTAX),
    ("MISSING_ELEMENT", ErrorCode::MISSING_ELEMENT),
    ("TOO_MANY_ELEMENTS", ErrorCode::TOO_MANY_ELEMENTS),
    ("ID_NOT_FOUND", ErrorCode::ID_NOT_FOUND),
    ("DESTINATION_FSP_ERROR", ErrorCode::DESTINATION_FSP),
    ("PAYER_FSP_ID_NOT_FOUND", ErrorCode::PAYER_FSP_NOT_FOUND),
    ("PAYEE_FSP_ID_NOT_FOUND", ErrorCode::PAYEE_FSP_NOT_FOUND),
    ("PARTY_NOT_FOUND", ErrorCode::PARTY_NOT_FOUND),
    ("QUOTE_EXPIRED", ErrorCode::QUOTE_EXPIRED),
    ("PAYER_ERROR", ErrorCode::PAYER),
    ("PAYER_FSP_INSUFFICIENT_LIQUIDITY", ErrorCode::PAYER_INSUFFICIENT_LIQUIDITY),
    ("PAYER_REJECTION", ErrorCode::PAYER_REJECTION),
    ("PAYER_FSP_UNSUPPORTED_TXN_TYPE", ErrorCode::PAYER_UNSUPPORTED_TYPE),
    ("PAYER_UNSUPPORTED_CURRENCY", ErrorCode::PAYER_UNSUPPORTED_CURRENCY),
    ("PAYER_LIMIT_ERROR", ErrorCode::PAYER_LIMIT),
    ("PAYER_PERMISSION_ERROR", ErrorCode::PAYER_PERMISSION),
    ("PAYER_BLOCKED_ERROR", ErrorCode::PAYER_BLOCKED),
    ("PAYEE_ERROR", ErrorCode::PAYEE),
    ("PAYEE_FSP_INSUFFICIENT_LIQUIDITY", ErrorCode::PAYEE_INSUFFICIENT_LIQUIDITY),
    ("PAYEE_REJECTION", ErrorCode::PAYEE_REJECTION),
    ("PAYEE_REJECTED_QUOTE", ErrorCode::PAYEE_REJECTED_QUOTE),
    ("PAYEE_FSP_UNSUPPORTED_TXN_TYPE", ErrorCode::PAYEE_UNSUPPORTED_TYPE),
    ("PAYEE_FSP_REJECTED_QUOTE", ErrorCode::PAYEE_FSP_REJECTED_QUOTE),
    ("PAYEE_UNSUPPORTED_CURRENCY", ErrorCode::PAYEE_UNSUPPORTED_CURRENCY),
    ("PAYEE_LIMIT_ERROR", ErrorCode::PAYEE_LIMIT),
    ("PAYEE_PERMISSION_ERROR", ErrorCode::PAYEE_PERMISSION),
    ("PAYEE_BLOCKED_ERROR", ErrorCode::PAYEE_BLOCKED),
];

fn error_code(name: &str) -> Option<ErrorCode> {
    let named = CODE_NAMES.iter().find(|(known, _)| *known == name).map(|(_, code)| *code);
    let is_number = name.len() == 4 && name.bytes().all(|byte| byte.is_ascii_digit());
    let number = if is_number { name.parse().ok() } else { None };
    named.or_else(|| number.and_then(ErrorCode::from_number).filter(|code| code.is_known_to_api()))
}
