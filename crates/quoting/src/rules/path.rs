//! The subset of JSONPath that rules use.

use super::decimal;
use super::json::Json;

/// A path such as `$.payer.partyIdInfo.fspId` or `$.accounts[?(@.ledgerAccountType == 'POSITION')].currency`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path {
    steps: Vec<Step>,
    /// Whether it may find several values, so that the result is always a list.
    is_plural: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Name(String),
    Index(usize),
    Every,
    /// Items that match all of these.
    Filter(Vec<Test>),
}

#[derive(Clone, Debug, PartialEq)]
struct Test {
    name: String,
    is_equal: bool,
    literal: Json,
}

impl Path {
    /// The fact itself.
    pub(crate) const fn root() -> Self {
        Self { steps: Vec::new(), is_plural: false }
    }

    /// Parses a path. Errors name the part that is not understood.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut rest = text.strip_prefix('$').ok_or("a path begins with $")?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = read_step(rest)?;
            steps.push(step);
            rest = after;
        }
        let is_plural = steps.iter().any(|step| matches!(step, Step::Every | Step::Filter(_)));
        Ok(Self { steps, is_plural })
    }

    /// The result in a value: with `[*]` or a filter always a list, which may be empty; otherwise one value or nothing.
    pub(crate) fn find(&self, root: &Json) -> Option<Json> {
        let mut found = vec![root];
        for step in &self.steps {
            found = found.into_iter().flat_map(|value| step.apply(value)).collect();
        }
        match self.is_plural {
            true => Some(Json::Array(found.into_iter().cloned().collect())),
            false => found.first().map(|value| (*value).clone()),
        }
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Json) -> Vec<&'a Json> {
        match (self, value) {
            (Self::Name(name), Json::Object(members)) => members.get(name).into_iter().collect(),
            (Self::Index(index), Json::Array(items)) => items.get(*index).into_iter().collect(),
            (Self::Every, Json::Array(items)) => items.iter().collect(),
            (Self::Every, Json::Object(members)) => members.values().collect(),
            (Self::Filter(tests), Json::Array(items)) => {
                items.iter().filter(|item| tests.iter().all(|test| test.holds(item))).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Test {
    /// A number and the text of a number are equal here, as in JavaScript, the origin of the filters.
    fn holds(&self, item: &Json) -> bool {
        let found = match item {
            Json::Object(members) => members.get(&self.name),
            _ => None,
        };
        let equal = found.is_some_and(|found| {
            let decimals = found.decimal().zip(self.literal.decimal());
            *found == self.literal
                || decimals
                    .and_then(|(found, literal)| decimal::compare_decimals(found, literal))
                    .is_some_and(|order| order.is_eq())
        });
        equal == self.is_equal
    }
}

fn read_step(text: &str) -> Result<(Step, &str), String> {
    if let Some(rest) = text.strip_prefix('.') {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        return match &rest[..end] {
            "" => Err(format!("'{text}' names nothing")),
            "*" => Ok((Step::Every, &rest[end..])),
            name => Ok((Step::Name(name.to_owned()), &rest[end..])),
        };
    }
    let inner = text.strip_prefix('[').ok_or_else(|| format!("'{text}' is not a valid step of a path"))?;
    if let Some(filter) = inner.strip_prefix("?(") {
        let end = end_outside_quotes(filter, ")]").ok_or_else(|| format!("'{text}' has no )] at its end"))?;
        return Ok((Step::Filter(read_tests(&filter[..end])?), &filter[end + 2..]));
    }
    let end = end_outside_quotes(inner, "]").ok_or_else(|| format!("'{text}' has no ] at its end"))?;
    let (step, rest) = (&inner[..end], &inner[end + 1..]);
    let step = if step == "*" {
        Step::Every
    } else if let Some(name) = unquote(step) {
        Step::Name(name.to_owned())
    } else {
        Step::Index(step.parse().map_err(|_| format!("'[{step}]' is neither a name, an index nor a filter"))?)
    };
    Ok((step, rest))
}

fn read_tests(filter: &str) -> Result<Vec<Test>, String> {
    let mut tests = Vec::new();
    let mut rest = Some(filter);
    while let Some(text) = rest {
        let (test, after) = match end_outside_quotes(text, "&&") {
            Some(end) => (&text[..end], Some(&text[end + 2..])),
            None => (text, None),
        };
        tests.push(read_test(test.trim())?);
        rest = after;
    }
    Ok(tests)
}

fn read_test(text: &str) -> Result<Test, String> {
    let refuse = || format!("'{text}' is not of the form @.name == 'text' or @.name != 1");
    let operand = text.strip_prefix("@.").ok_or_else(refuse)?;
    let end = operand.find(['=', '!', ' ']).ok_or_else(refuse)?;
    let (name, rest) = (&operand[..end], operand[end..].trim_start());
    let (is_equal, literal) = ["===", "!==", "==", "!="]
        .iter()
        .find_map(|sign| Some((sign.starts_with('='), rest.strip_prefix(sign)?.trim())))
        .ok_or_else(refuse)?;
    let literal = match (unquote(literal), literal) {
        (Some(text), _) => Json::text(text),
        (None, "true") => Json::Bool(true),
        (None, "false") => Json::Bool(false),
        (None, number) if decimal::is_decimal(number) => Json::Number(number.into()),
        _ => return Err(refuse()),
    };
    if name.is_empty() {
        return Err(refuse());
    }
    Ok(Test { name: name.to_owned(), is_equal, literal })
}

/// The text between quotes of either kind. Escapes are not supported.
fn unquote(text: &str) -> Option<&str> {
    ['\'', '"'].iter().find_map(|quote| {
        let inner = text.strip_prefix(*quote)?.strip_suffix(*quote)?;
        (!inner.contains(*quote)).then_some(inner)
    })
}

/// The first position of `end` outside of quotes.
fn end_outside_quotes(text: &str, end: &str) -> Option<usize> {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, _) if text[at..].starts_with(end) => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(path: &str) -> Option<Json> {
        let value = r#"{"a":{"b":[{"c":"1"},{"c":"2","d":true}]},"x-y":"z","e":[],
            "accounts":[{"kind":"POSITION","on":1,"of":"USD"},{"kind":"POSITION","on":0,"of":"KES"},
                        {"kind":"a]b&&c)]","on":"1","of":"EUR"}]}"#;
        let path = Path::read(path).unwrap_or_else(|problem| panic!("{path}: {problem}"));
        path.find(&Json::read(value).unwrap())
    }

    #[test]
    fn paths_find_values_or_nothing() {
        for (path, expected) in [
            ("$.a.b[0].c", Some(r#""1""#)),
            ("$['a'][\"b\"][1]['d']", Some("true")),
            ("$.x-y", Some(r#""z""#)),
            ("$.a.b[2].c", None),
            ("$.a.b.c", None),
            ("$.nothing", None),
            ("$.a.b[*].c", Some(r#"["1","2"]"#)),
            ("$.a.b[*].d", Some("[true]")),
            ("$.a.*[0].c", Some(r#"["1"]"#)),
            ("$.e[*]", Some("[]")),
            ("$.nothing[*]", Some("[]")),
            ("$.accounts[?(@.kind == 'POSITION')].of", Some(r#"["USD","KES"]"#)),
            ("$.accounts[?(@.kind == \"POSITION\" && @.on  == 1)].of", Some(r#"["USD"]"#)),
            ("$.accounts[?(@.on===1)].of", Some(r#"["USD","EUR"]"#)),
            ("$.accounts[?(@.kind != 'POSITION')].of", Some(r#"["EUR"]"#)),
            ("$.accounts[?(@.kind == 'a]b&&c)]')].of", Some(r#"["EUR"]"#)),
            ("$.accounts[?(@.missing != 1)].of", Some(r#"["USD","KES","EUR"]"#)),
        ] {
            assert_eq!(find(path), expected.map(|text| Json::read(text).unwrap()), "{path}");
        }
        assert!(matches!(find("$"), Some(Json::Object(_))));
    }

    #[test]
    fn invalid_paths_are_rejected() {
        for path in [
            "",
            "a.b",
            "$a",
            "$.",
            "$..a",
            "$.a[",
            "$.a[x]",
            "$.a[-1]",
            "$.a[0:2]",
            "$.a['b]",
            "$.a[?(@.b)]",
            "$.a[?(@.b > 1)]",
            "$.a[?(b == 1)]",
            "$.a[?(@.b == c)]",
            "$.a[?(@. == 1)]",
            "$.a[?(@.b == 1]",
        ] {
            assert!(Path::read(path).is_err(), "{path}");
        }
    }
}
