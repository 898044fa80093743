//! Find transfers: one box for identifiers, DFSPs, amounts, states and times.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse as _, Response};
use upesi_admin::ApiError;
use upesi_admin::reads::{Parameters, TransferView, find_transfers};
use upesi_types::text::escape;
use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

use crate::page::{Frame, PageCall, Section, html, participant_url, transfer_url, url};
use crate::table::{Cell, Column, Table, Tone};
use crate::words::{Words, fill};

/// Number of transfers per page.
const TRANSFERS: usize = 100;
/// Maximum number of transfers that one search returns.
const FOUND_MAX: usize = 1_000;
/// Maximum number of searches for one period.
const SEARCHES_MAX: usize = 5;
/// The periods that are searched, one after the other: a minute, an hour, a day, a month.
const PERIODS_MS: [i64; 4] = [60_000, 3_600_000, 86_400_000, 31 * 86_400_000];
/// Maximum length of the text in the search box, in bytes.
const SOUGHT_BYTES_MAX: usize = 512;
/// A bare number with this many digits is a telephone number or an account, and not an amount.
const PERSONAL_DIGITS: usize = 8;

/// An unknown word with this many digits in a row may contain a telephone number or an account.
const PERSONAL_RUN: usize = 7;

/// A text of the search box, understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sought {
    /// A transfer, if the text is its identifier.
    transfer: Option<TransferId>,
    /// Parameters of `GET /transfers`.
    filters: Vec<(&'static str, String)>,
    /// The words without a key, each with its assumed meaning.
    assumed: Vec<(String, &'static str)>,
    /// The words that cannot be searched, each with the reason. Personal ones never become part of a URL.
    not_searched: Vec<(String, &'static str)>,
    is_personal: bool,
}

/// Splits a text at spaces. Quotes keep a value with spaces together; a doubled quote is a quote.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                chars.next();
                word.push('"');
            }
            '"' => is_quoted = !is_quoted,
            char if char.is_whitespace() && !is_quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            char => word.push(char),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// A key and its value as the search box reads them.
pub(super) fn term(key: &str, value: &str) -> String {
    if value.contains([' ', '"']) {
        return format!("{key}:\"{}\"", value.replace('"', "\"\""));
    }
    format!("{key}:{value}")
}

impl Sought {
    fn read(text: &str, now: Timestamp, is_dfsp: impl Fn(&str) -> bool, words: &Words) -> Self {
        let mut sought = Self::default();
        for word in split(text) {
            sought.add(&word, now, &is_dfsp, words);
        }
        sought
    }

    fn add(&mut self, word: &str, now: Timestamp, is_dfsp: impl Fn(&str) -> bool, words: &Words) {
        let key = word.split_once(':').map(|(key, value)| (key.to_lowercase(), value));
        if let Some((key, value)) = &key
            && is_party_of_key(key, value, now, &is_dfsp)
        {
            return self.add_personal(word, words);
        }
        let filter = match key.as_ref().map(|(key, value)| (&**key, *value)) {
            Some((_, "")) => return,
            Some(("payer", name)) => Some(("payer", name.to_owned())),
            Some(("payee", name)) => Some(("payee", name.to_owned())),
            Some(("dfsp" | "fsp", name)) => Some(("fsp", name.to_owned())),
            Some(("amount", amount)) => Some(("amount", amount.replace(',', ""))),
            Some(("currency", code)) => Some(("currency", code.to_uppercase())),
            Some(("state", state)) => Some(("state", state_name(state))),
            Some(("from", time)) => Some(("from", time_of(time, now))),
            Some(("to", time)) => Some(("to", time_of(time, now))),
            Some(("id" | "transfer", id)) => return self.add_bare(id, is_dfsp, words),
            Some(("window" | "settlement" | "code" | "quote" | "slower", _)) => {
                return self.not_searched.push((word.to_owned(), words.find_no_index));
            }
            Some(("party" | "phone" | "msisdn", _)) => return self.add_personal(word, words),
            Some(_) | None => None,
        };
        match filter {
            Some(filter) => self.filters.push(filter),
            None => self.add_bare(word, is_dfsp, words),
        }
    }

    /// Adds a word without a key. Its form determines its meaning.
    fn add_bare(&mut self, word: &str, is_dfsp: impl Fn(&str) -> bool, words: &Words) {
        let without_commas = word.replace(',', "");
        let is_state =
            ["reserved", "committed", "aborted", "expired", "rejected"].contains(&&*word.to_lowercase());
        if let Some(id) = TransferId::parse(word) {
            self.transfer = Some(id);
        } else if is_dfsp(word) {
            self.filters.push(("fsp", word.to_owned()));
            self.assumed.push((word.to_owned(), words.find_is_dfsp));
        } else if is_party(word) {
            self.add_personal(word, words);
        } else if Amount::parse_decimal(&without_commas).is_ok() {
            self.filters.push(("amount", without_commas));
            self.assumed.push((word.to_owned(), words.find_is_amount));
        } else if let Some(currency) = Currency::parse(&word.to_uppercase()) {
            self.filters.push(("currency", currency.to_string()));
            self.assumed.push((word.to_owned(), words.find_is_currency));
        } else if is_state {
            self.filters.push(("state", state_name(word)));
            self.assumed.push((word.to_owned(), words.find_is_state));
        } else if has_personal_run(word) {
            self.add_personal(word, words);
        } else {
            self.not_searched.push((word.to_owned(), words.find_unknown));
        }
    }

    fn add_personal(&mut self, word: &str, words: &Words) {
        self.is_personal = true;
        // The identifier itself is not repeated.
        let last: Vec<char> = word.chars().rev().take(3).collect();
        let masked: String = "•••".chars().chain(last.into_iter().rev()).collect();
        self.not_searched.push((masked, words.find_no_party_index));
    }
}

/// Whether a word may identify a party: a telephone number, an account or an address.
fn is_party(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_number = word.chars().all(|char| char.is_ascii_digit() || "+-() ".contains(char));
    let is_iban = digits >= PERSONAL_DIGITS
        && word.len() >= 15
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && word.bytes().take(2).all(|byte| byte.is_ascii_alphabetic());
    is_number && (digits >= PERSONAL_DIGITS || word.starts_with('+')) || word.contains('@') || is_iban
}

/// Whether the value of a key may identify a party. It does not if it is what its key says.
fn is_party_of_key(key: &str, value: &str, now: Timestamp, is_dfsp: impl Fn(&str) -> bool) -> bool {
    let is_meant = match key {
        "payer" | "payee" | "dfsp" | "fsp" => is_dfsp(value),
        "amount" => Amount::parse_decimal(&value.replace(',', "")).is_ok(),
        "from" | "to" => Timestamp::parse_rfc3339(&time_of(value, now)).is_some(),
        "id" | "transfer" => TransferId::parse(value).is_some(),
        _ => false,
    };
    !is_meant && is_party(value)
}

/// Whether a word contains a long row of digits.
fn has_personal_run(word: &str) -> bool {
    word.split(|char: char| !char.is_ascii_digit()).any(|digits| digits.len() >= PERSONAL_RUN)
}

/// The state as `GET /transfers` names it.
fn state_name(text: &str) -> String {
    match text.to_lowercase().as_str() {
        "expired" => "EXPIRED_RESERVED".to_owned(),
        "rejected" => "ABORTED_REJECTED".to_owned(),
        _ => text.to_uppercase(),
    }
}

/// A date, an instant, or a time before now such as `2h`, as an instant. Other texts stay, and are rejected later.
fn time_of(text: &str, now: Timestamp) -> String {
    let before = text.split_at_checked(text.len().saturating_sub(1)).and_then(|(count, unit)| {
        let minutes = match unit {
            "m" => 1,
            "h" => 60,
            "d" => 24 * 60,
            _ => return None,
        };
        count.parse::<u32>().ok().map(|count| i64::from(count) * minutes * 60_000)
    });
    match before {
        Some(ms) => now.plus_ms(-ms).to_string(),
        None if text.len() == 10 => format!("{text}T00:00:00Z"),
        None if text.len() == 16 => format!("{text}:00Z"),
        None => text.to_owned(),
    }
}

#[derive(Template)]
#[template(path = "transfers.html")]
struct TransfersPage {
    frame: Frame,
    words: &'static Words,
    assumed: Vec<(String, &'static str)>,
    not_searched: Vec<(String, &'static str)>,
    /// The reason why nothing was found, if the search was rejected.
    error: Option<String>,
    table: Option<Table>,
    next: Option<String>,
}

/// Takes the text of the search box from the body, and leads to a page whose URL has no personal data.
pub async fn search(page: PageCall, body: String) -> Result<Response, ApiError> {
    let parameters = Parameters::parse(&body)?;
    let text = parameters.get("q").unwrap_or_default().trim().to_owned();
    let sought = read(&page, &text).await?;
    // A word that was not understood may be personal, so it does not become part of a URL either.
    if !sought.not_searched.is_empty() {
        let shown = if sought.is_personal { "" } else { &text };
        return answer(page, sought, shown).await;
    }
    let target = match sought.transfer {
        Some(id) => transfer_url(&id.to_string()),
        None => url("/console/transfers", &[("q", &text)]),
    };
    Ok((StatusCode::SEE_OTHER, [(LOCATION, target)]).into_response())
}

/// The transfers that match the text in the URL.
pub async fn list(page: PageCall) -> Result<Response, ApiError> {
    let text = page.parameters.get("q").unwrap_or_default().trim().to_owned();
    let sought = read(&page, &text).await?;
    let shown = if sought.is_personal { "" } else { &text };
    answer(page, sought, shown).await
}

async fn read(page: &PageCall, text: &str) -> Result<Sought, ApiError> {
    if text.len() > SOUGHT_BYTES_MAX {
        return Ok(Sought {
            not_searched: vec![("…".to_owned(), page.words.find_too_long)],
            ..Sought::default()
        });
    }
    let (now, words, text) = (page.now(), page.words, text.to_owned());
    // Operators of a DFSP do not learn which other DFSPs exist.
    let sees_all = page.may("/positions");
    let (_, sought) = page
        .ask(move |ledger| {
            let is_dfsp = |word: &str| {
                sees_all && FspId::parse(word).is_some_and(|name| ledger.participant_named(&name).is_some())
            };
            Sought::read(&text, now, is_dfsp, words)
        })
        .await?;
    Ok(sought)
}

/// The newest transfers, and the time to continue before.
pub(super) struct Newest {
    pub(super) transfers: Vec<TransferView>,
    before: Option<Timestamp>,
    /// Whether the search ended before it had examined all transfers of the period.
    is_cut: bool,
}

/// The matching transfers, as far as a limited number of searches finds them, and whether there may be more.
async fn collect(
    page: &PageCall,
    mut wanted: Vec<(&'static str, String)>,
) -> Result<(Vec<TransferView>, bool), ApiError> {
    let mut transfers = Vec::new();
    for _ in 0..SEARCHES_MAX {
        let found = find_transfers(&page.call, &Parameters::of(wanted.clone())).await?;
        transfers.extend(found.transfers);
        let Some(next) = found.next else { return Ok((transfers, false)) };
        if transfers.len() >= FOUND_MAX {
            break;
        }
        wanted.retain(|(name, _)| *name != "cursor");
        wanted.push(("cursor", next.to_string()));
    }
    Ok((transfers, true))
}

/// Finds the newest matching transfers. The search of the API begins with the oldest ones in memory, so this function
/// searches the last minute first, and then longer periods until there are enough.
pub(super) async fn newest(
    page: &PageCall,
    filters: &[(&'static str, String)],
    before: Option<Timestamp>,
    count: usize,
) -> Result<Newest, ApiError> {
    let end = before.unwrap_or_else(|| page.now());
    let mut best = Newest { transfers: Vec::new(), before: None, is_cut: false };
    for period in PERIODS_MS.map(Some).into_iter().chain([None]) {
        let mut wanted: Vec<_> = filters.to_vec();
        wanted.push(("limit", FOUND_MAX.to_string()));
        if let Some(before) = before {
            wanted.retain(|(name, _)| *name != "to");
            wanted.push(("to", before.to_string()));
        }
        let begin = period.map(|ms| end.plus_ms(-ms));
        let from = filters.iter().find(|(name, _)| *name == "from").map(|(_, from)| from.as_str());
        let is_all = begin
            .is_none_or(|begin| from.and_then(Timestamp::parse_rfc3339).is_some_and(|from| from >= begin));
        if let Some(begin) = begin.filter(|_| !is_all) {
            wanted.retain(|(name, _)| *name != "from");
            wanted.push(("from", begin.to_string()));
        }
        let (mut transfers, is_cut) = collect(page, wanted).await?;
        // A cut search may lack the newest ones. The shorter period has them, if it found any.
        if is_cut && !best.transfers.is_empty() {
            break;
        }
        transfers.sort_by_key(|transfer| std::cmp::Reverse(transfer.prepared_date.0));
        // Instants in a URL have milliseconds, so a page ends between two of them.
        let ms = |transfer: &TransferView| transfer.prepared_date.0.as_ms();
        let last_ms = transfers.get(count.saturating_sub(1)).map_or(i64::MIN, ms);
        let shown = transfers.iter().position(|transfer| ms(transfer) < last_ms).unwrap_or(transfers.len());
        let is_more = shown < transfers.len() || is_cut || !is_all;
        transfers.truncate(shown);
        let oldest = transfers.last().map(|transfer| Timestamp::from_ms(ms(transfer)));
        let before = if transfers.is_empty() { begin } else { oldest };
        best = Newest { before: before.filter(|_| is_more), transfers, is_cut };
        if is_all || is_cut || best.transfers.len() >= count {
            break;
        }
    }
    Ok(best)
}

async fn answer(page: PageCall, sought: Sought, text: &str) -> Result<Response, ApiError> {
    let words = page.words;
    let (stamp, ()) = page.ask(|_| ()).await?;
    if let (Some(id), true) = (sought.transfer, sought.not_searched.is_empty()) {
        let target = transfer_url(&id.to_string());
        return Ok((StatusCode::SEE_OTHER, [(LOCATION, target)]).into_response());
    }
    let (mut table, mut error, mut next) = (None, None, None);
    // A search without its unknown words would find too much.
    if sought.not_searched.is_empty() {
        let before = page.parameters.get("before").and_then(Timestamp::parse_rfc3339);
        match newest(&page, &sought.filters, before, TRANSFERS).await {
            Ok(found) => {
                let note = found.is_cut.then(|| words.find_cut.to_owned());
                table = Some(transfer_table(&found.transfers, words).noted(note));
                next = found.before.map(|before| page.url_with(&[("before", &before.to_string())]));
            }
            Err(refusal) if refusal.status().is_client_error() => {
                error = Some(escape(refusal.description()).into_owned());
            }
            Err(failure) => return Err(failure),
        }
    }
    if let Some(csv) = table.as_mut().and_then(|table| page.export(stamp, &mut [table])) {
        return Ok(csv);
    }
    let mut frame = page.frame(Section::Transfers, words.transfers_title, stamp);
    frame.sought = escape(text).into_owned();
    if next.is_some()
        && let Some(table) = &mut table
    {
        table.empty = words.find_go_on.to_owned();
    }
    let Sought { assumed, not_searched, .. } = sought;
    html(&TransfersPage { frame, words, assumed, not_searched, error, table, next })
}

/// A list of transfers.
pub(super) fn transfer_table(transfers: &[TransferView], words: &'static Words) -> Table {
    let columns = vec![
        Column::text("prepared", words.column_prepared),
        Column::text("transfer", words.column_transfer),
        Column::text("payer", words.column_payer),
        Column::text("payee", words.column_payee),
        Column::number("amount", words.column_amount),
        Column::text("currency", words.column_currency),
        Column::text("state", words.column_state),
        Column::text("error", words.column_error),
        Column::number("ms", words.column_took),
    ];
    let rows = transfers.iter().map(|transfer| {
        let party = |party: &Option<upesi_admin::reads::Party>| {
            let name = party.as_ref().map(|party| &*party.name);
            name.map(|name| Cell::text(name).link(participant_url(name))).unwrap_or_default()
        };
        let took = transfer.completed_date.map(|at| at.0.ms_since(transfer.prepared_date.0));
        let error = transfer.error_information.as_ref();
        vec![
            Cell::time(transfer.prepared_date.0),
            Cell::code(&transfer.transfer_id).link(transfer_url(&transfer.transfer_id)),
            party(&transfer.payer),
            party(&transfer.payee),
            Cell::amount(transfer.amount.amount.0, transfer.amount.currency.0, words),
            Cell::text(transfer.amount.currency.0.as_str()),
            state_cell(transfer, words),
            error.map(|error| Cell::text(&error.error_code)).unwrap_or_default(),
            Cell::milliseconds(took.and_then(|ms| u64::try_from(ms).ok()), words),
        ]
    });
    let caption = words.transfers_caption;
    Table::new("transfers", caption, columns, rows.collect(), words).or_else(words.transfers_empty)
}

/// The state of a transfer in plain words.
pub(super) fn state_word(transfer: &TransferView, words: &Words) -> (Tone, &'static str) {
    match transfer.internal_state {
        "RESERVED" => (Tone::Busy, words.transfer_reserved),
        "COMMITTED" => (Tone::Good, words.transfer_committed),
        "EXPIRED_RESERVED" => (Tone::Bad, words.transfer_expired),
        "ABORTED_REJECTED" | "INVALID" => (Tone::Bad, words.transfer_rejected),
        "ABORTED_ERROR" => (Tone::Bad, words.transfer_declined),
        _ => (Tone::Bad, words.transfer_aborted),
    }
}

/// The state of a transfer as a cell; the export has the name of the API.
pub(super) fn state_cell(transfer: &TransferView, words: &Words) -> Cell {
    let (tone, text) = state_word(transfer, words);
    Cell { value: transfer.internal_state.to_owned(), ..Cell::state(tone, text) }
}

/// What the page says about a word.
fn explained((word, meaning): &(String, &'static str)) -> String {
    fill(meaning, &[("word", &escape(word))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ENGLISH;

    fn read(text: &str) -> Sought {
        let now = Timestamp::parse_iso("2031-04-01T10:00:00.000Z").unwrap();
        Sought::read(text, now, |name| name == "greenbank" || name == "Blue Wallet", &ENGLISH)
    }

    fn filters(text: &str) -> Vec<String> {
        let sought = read(text);
        assert!(sought.not_searched.is_empty(), "{sought:?}");
        sought.filters.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    #[test]
    fn search_box_understands_keys_and_bare_words() {
        for (text, expected) in [
            ("", &[][..]),
            ("amount:100 state:aborted", &["amount=100", "state=ABORTED"]),
            ("1,250.00 kes expired", &["amount=1250.00", "currency=KES", "state=EXPIRED_RESERVED"]),
            ("greenbank", &["fsp=greenbank"]),
            ("payer:greenbank payee:\"Blue Wallet\"", &["payer=greenbank", "payee=Blue Wallet"]),
            ("amount:12345678", &["amount=12345678"]),
            ("from:2h", &["from=2031-04-01T08:00:00.000Z"]),
            (
                "from:2031-03-31 to:2031-04-01T09:30",
                &["from=2031-03-31T00:00:00Z", "to=2031-04-01T09:30:00Z"],
            ),
        ] {
            assert_eq!(filters(text), expected, "{text}");
        }
        let id = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d";
        assert_eq!(read(id).transfer.unwrap().to_string(), id);
        assert_eq!(term("payee", "a \"b\""), "payee:\"a \"\"b\"\"\"");
        assert_eq!(filters(&term("payee", "a \"b\"")), ["payee=a \"b\""]);
    }

    #[test]
    fn search_box_says_what_it_cannot_search_and_masks_parties() {
        for personal in [
            "260001000000001",
            "+260-001",
            "amina@example.org",
            "party:MSISDN/12",
            "KE12345678901234",
            "payer:+260001000000001",
            "payee:260001000000001",
            "tel:+260001000000001",
            "id:+260001000000001",
            "window:+260001000000001",
            "amount:+260001000000001",
            "from:260001000000001",
            "tel:msisdn:+260001000000001",
            "tel2600010",
        ] {
            let sought = read(personal);
            assert!(sought.is_personal && sought.filters.is_empty(), "{sought:?}");
            let shown = explained(&sought.not_searched[0]);
            assert!(!shown.contains(personal) && shown.contains("•••"), "{shown}");
        }
        for (text, reason) in [
            ("window:3", ENGLISH.find_no_index),
            ("purple", ENGLISH.find_unknown),
            ("colour:red", ENGLISH.find_unknown),
            ("tel260001", ENGLISH.find_unknown),
        ] {
            assert_eq!(read(text).not_searched, [(text.to_owned(), reason)]);
            assert!(!read(text).is_personal, "{text}");
        }
    }
}
