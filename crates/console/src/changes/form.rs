//! The pages of a form: fields, preview, and the result of the change.

use askama::Template;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use upesi_admin::reads::{Parameters, ProposalView, Segments, proposal};
use upesi_admin::{Accepted, ApiError, ChangePreview, LiquidityEffect, NEXT, PageChange, new_funds_id};
use upesi_ledger::PROPOSAL_REASON_CHARS_MIN;
use upesi_types::text::escape;
use upesi_types::{Amount, Currency};

use super::fields::{Field, money};
use super::kind::Kind;
use super::request::request;
use crate::page::{Frame, LOGIN_AGAIN, PageCall, Section, html, see_other, url};
use crate::show;
use crate::words::{Words, fill};

/// Maximum number of changes of a set that the form for its approval shows.
const CHANGES_SHOWN_MAX: usize = 200;

#[derive(Template)]
#[template(path = "change.html")]
struct ChangePage {
    frame: Frame,
    words: &'static Words,
    kind: Kind,
    /// What the change concerns, in words.
    facts: Vec<(&'static str, String)>,
    /// Fields that the operator does not type.
    hidden: Vec<(String, String)>,
    fields: Vec<ShownField>,
    /// The effect, which the operator confirms. Without it, the page asks for the fields.
    effect: Option<Effect>,
    proposal: Option<Box<ShownProposal>>,
    /// Why the hub rejected the change.
    failure: Option<String>,
    /// Whether the operator must enter password and code again.
    must_renew: bool,
    /// The login at the identity provider, if the operator must log in there again.
    login_again: Option<String>,
    back: String,
}

/// A field with its text.
struct ShownField {
    field: Field,
    text: String,
    /// What is wrong with the text.
    wrong: Option<&'static str>,
    label: &'static str,
    hint: &'static str,
}

/// The effect of a change.
struct Effect {
    object: String,
    before: String,
    after: String,
    refused: Option<String>,
    needs_second: bool,
    /// Cover, cap and free amount, before and after.
    liquidity: Vec<Amounts>,
    /// The typed fields, for a last look.
    typed: Vec<(&'static str, String)>,
}

/// An amount before and after.
struct Amounts {
    label: &'static str,
    before: String,
    after: String,
}

/// A proposal, for a decision about it.
struct ShownProposal {
    view: ProposalView,
    created: String,
    /// The effect now, if it is a single change.
    now: Option<Effect>,
    changes: Vec<upesi_admin::reads::SetChangeView>,
    changes_left_out: usize,
}

impl Effect {
    fn of(preview: ChangePreview, typed: Vec<(&'static str, String)>, words: &'static Words) -> Self {
        let text = |text: &str| escape(text).into_owned();
        Self {
            object: text(&preview.object),
            before: text(&preview.before),
            after: text(&preview.after),
            refused: preview.refused.as_deref().map(text),
            needs_second: preview.needs_second,
            liquidity: preview.liquidity.map(|effect| amounts(&effect, words)).unwrap_or_default(),
            typed,
        }
    }
}

/// Cover, cap and free amount of a participant, before and after a change.
fn amounts(effect: &LiquidityEffect, words: &'static Words) -> Vec<Amounts> {
    let money = |units: i128| show::money(units, effect.currency, words);
    let cap = |cap: Option<Amount>| match cap {
        Some(cap) => money(i128::from(cap.units())),
        None => words.no_limit.to_owned(),
    };
    let [covers, free] = [effect.cover.map(|cover| i128::from(cover.units())), effect.free()];
    let row = |label, [before, after]: [String; 2]| Amounts { label, before, after };
    vec![
        row(words.column_cover, covers.map(money)),
        row(words.column_cap, effect.cap.map(cap)),
        row(words.column_free, free.map(money)),
    ]
}

/// The step of a form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Show the fields.
    Edit,
    /// Show the effect.
    Preview,
    /// Make the change.
    Make,
}

/// The empty form.
pub async fn show(page: PageCall, Segments(kind): Segments<String>) -> Result<Response, ApiError> {
    let kind = parse(&kind)?;
    let mut values: Vec<(&str, String)> = Vec::new();
    for name in kind.subject() {
        values.extend(page.parameters.get(name).map(|value| (*name, value.to_owned())));
    }
    if kind.has_id() {
        values.push(("id", new_funds_id()?.to_string()));
    }
    let form = Parameters::of(values);
    page.check_change(kind.operation(), form.get("participant"))?;
    render(&page, kind, &form, Shown::default()).await
}

/// A sent form: shows the effect, or makes the change.
pub async fn submit(
    page: PageCall,
    Segments(kind): Segments<String>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let kind = parse(&kind)?;
    let body = std::str::from_utf8(&body).map_err(|_| ApiError::malformed("the form is not encoded"))?;
    let form = Parameters::parse(body)?;
    page.check_change(kind.operation(), form.get("participant"))?;
    let step = match form.get("step") {
        Some("edit") => Step::Edit,
        Some("make") => Step::Make,
        _ => Step::Preview,
    };
    let is_complete = fields_of(kind, &form, true, page.words).iter().all(|field| field.wrong.is_none());
    if step == Step::Edit || !is_complete {
        return render(&page, kind, &form, Shown { is_checked: step != Step::Edit, ..Shown::default() })
            .await;
    }
    let change = match request(&page, kind, &form).await {
        Ok(change) => change,
        Err(error) => return rejected(&page, kind, &form, &error).await,
    };
    if step == Step::Preview && kind.has_preview() {
        return match page.operations.preview(&page.call, &page.context, &change).await {
            Ok(preview) if preview.needs_second && is_reason_short(&form) => {
                let shown = Shown { is_checked: true, needs_long_reason: true, ..Shown::default() };
                render(&page, kind, &form, shown).await
            }
            Ok(preview) => {
                let shown = Shown { preview: Some(preview), ..Shown::default() };
                render(&page, kind, &form, shown).await
            }
            Err(error) => rejected(&page, kind, &form, &error).await,
        };
    }
    match make(&page, kind, &form, &change).await {
        Ok(Accepted::Made) => Ok(see_other(&back(kind, &form))),
        Ok(Accepted::Proposed(id)) => Ok(see_other(&format!("/console/approvals#proposal-{id}"))),
        Err(error) => rejected(&page, kind, &form, &error).await,
    }
}

/// Whether the reason is too short for a proposal.
fn is_reason_short(form: &Parameters) -> bool {
    form.get("reason").unwrap_or_default().trim().chars().count() < PROPOSAL_REASON_CHARS_MIN
}

fn parse(kind: &str) -> Result<Kind, ApiError> {
    Kind::parse(kind).ok_or_else(|| ApiError::malformed("this form does not exist"))
}

/// Makes the change. An approver whose last code is old enters password and code in the same form.
async fn make(
    page: &PageCall,
    kind: Kind,
    form: &Parameters,
    change: &PageChange,
) -> Result<Accepted, ApiError> {
    let caller = page.call.caller();
    if kind == Kind::Approve && caller.must_renew() && caller.login_provider().is_none() {
        let value = |name: &str| form.get(name).unwrap_or_default();
        let proof = (value("password"), value("code"));
        return page.operations.make_with_code(&page.call, proof, change).await;
    }
    page.operations.make(&page.call, change).await
}

/// What a form shows besides its fields.
#[derive(Default)]
struct Shown<'a> {
    /// Whether the fields are checked.
    is_checked: bool,
    /// Whether the reason is too short for a second operator.
    needs_long_reason: bool,
    preview: Option<ChangePreview>,
    failure: Option<&'a ApiError>,
}

/// The form again, with the cause and the status of the API.
async fn rejected(
    page: &PageCall,
    kind: Kind,
    form: &Parameters,
    error: &ApiError,
) -> Result<Response, ApiError> {
    let shown = Shown { is_checked: true, failure: Some(error), ..Shown::default() };
    render(page, kind, form, shown).await
}

async fn render(
    page: &PageCall,
    kind: Kind,
    form: &Parameters,
    shown: Shown<'_>,
) -> Result<Response, ApiError> {
    let words = page.words;
    let mut fields = fields_of(kind, form, shown.is_checked, words);
    let reason = fields.iter_mut().find(|field| field.field == Field::Reason);
    reason
        .filter(|_| shown.needs_long_reason)
        .into_iter()
        .for_each(|field| field.wrong = Some(words.wrong_short));
    let has_mistake = fields.iter().any(|field| field.wrong.is_some());
    let (stamp, ()) = page.ask(|_| ()).await?;
    let effect = shown.preview.map(|preview| Effect::of(preview, typed(kind, form, words), words));
    let proposal = if kind.is_decision() { Some(Box::new(read_proposal(page, form).await?)) } else { None };
    let mut hidden = kept(kind, form);
    if effect.is_some() {
        hidden.extend(fields.iter().map(|field| (field.field.as_str().to_owned(), field.text.clone())));
    }
    let caller = page.call.caller();
    let must_renew = kind == Kind::Approve && caller.must_renew();
    let has_provider = caller.login_provider().is_some();
    let answer = ChangePage {
        frame: page.frame(section(kind), kind.title(words), stamp),
        words,
        kind,
        facts: facts(kind, form, words),
        hidden,
        fields,
        effect,
        proposal,
        failure: shown.failure.map(|error| escape(error.description()).into_owned()),
        must_renew: must_renew && !has_provider,
        login_again: (must_renew && has_provider).then(|| url(LOGIN_AGAIN, &[(NEXT, &own_url(kind, form))])),
        back: back(kind, form),
    };
    let mut response = html(&answer)?;
    *response.status_mut() = match shown.failure {
        Some(error) => error.status(),
        None if has_mistake => StatusCode::BAD_REQUEST,
        None => StatusCode::OK,
    };
    Ok(response)
}

/// The URL of the form itself.
fn own_url(kind: Kind, form: &Parameters) -> String {
    let subject = kind.subject().iter().filter_map(|name| Some((*name, form.get(name)?)));
    kind.url(&subject.collect::<Vec<_>>())
}

/// The section of the navigation.
fn section(kind: Kind) -> Section {
    match kind {
        Kind::Deposit | Kind::Withdraw | Kind::PayOut | Kind::TakeBack => Section::Funds,
        Kind::Cap | Kind::Suspend | Kind::Resume => Section::Participants,
        Kind::CloseWindow | Kind::Settle | Kind::Advance | Kind::AbortSettlement => Section::Settlement,
        Kind::Redeliver => Section::Callbacks,
        Kind::Approve | Kind::Reject | Kind::Retract => Section::Approvals,
    }
}

fn back(kind: Kind, form: &Parameters) -> String {
    kind.page_after(|name| form.get(name).unwrap_or_default().to_owned())
}

/// The subject and the identifier of a form, for its hidden fields.
fn kept(kind: Kind, form: &Parameters) -> Vec<(String, String)> {
    let names = kind.subject().iter().copied().chain(kind.has_id().then_some("id"));
    names.filter_map(|name| form.get(name).map(|value| (name.to_owned(), value.to_owned()))).collect()
}

fn currency(form: &Parameters) -> Option<Currency> {
    form.get("currency").and_then(Currency::parse)
}

fn fields_of(kind: Kind, form: &Parameters, is_checked: bool, words: &'static Words) -> Vec<ShownField> {
    let currency = currency(form);
    let field = |field: &Field| {
        let text = form.get(field.as_str()).unwrap_or_default().trim().to_owned();
        let wrong = is_checked.then(|| field.check(&text, currency, words).err()).flatten();
        ShownField { field: *field, text, wrong, label: field.label(words), hint: field.hint(words) }
    };
    kind.fields().iter().map(field).collect()
}

/// What the change concerns, in words.
fn facts(kind: Kind, form: &Parameters, words: &'static Words) -> Vec<(&'static str, String)> {
    let label = |name: &str| match name {
        "participant" | "dfsp" => words.column_dfsp,
        "currency" => words.column_currency,
        "account" => words.column_account,
        "movement" => words.column_movement,
        "window" => words.column_window,
        "model" => words.column_model,
        "settlement" => words.column_settlement,
        _ => words.column_proposal,
    };
    let fact = |name: &&str| Some((label(name), escape(form.get(name)?).into_owned()));
    kind.subject().iter().filter_map(fact).collect()
}

/// The typed fields for a last look: amounts with their separators.
fn typed(kind: Kind, form: &Parameters, words: &'static Words) -> Vec<(&'static str, String)> {
    let text = |field: &Field| {
        let text = form.get(field.as_str()).unwrap_or_default().trim();
        match (field, currency(form)) {
            (Field::Amount | Field::Limit, Some(currency)) => match money(text, Some(currency), words) {
                Ok(amount) => show::money_of(amount, currency, words),
                Err(_) => escape(text).into_owned(),
            },
            (Field::Alarm, _) => fill(words.percent, &[("share", &escape(text))]),
            _ => escape(text).into_owned(),
        }
    };
    kind.fields().iter().map(|field| (field.label(words), text(field))).collect()
}

/// The proposal of a form, with its effect now.
async fn read_proposal(page: &PageCall, form: &Parameters) -> Result<ShownProposal, ApiError> {
    let missing = || ApiError::malformed("this proposal does not exist, or it ended long ago");
    let id = form.get("proposal").and_then(|id| id.parse().ok()).ok_or_else(missing)?;
    let (mut view, preview) = proposal(&page.call, &page.context, id).await?.ok_or_else(missing)?;
    let mut changes = view.change_set.as_mut().and_then(|set| set.diff.take()).unwrap_or_default();
    let changes_left_out = changes.len().saturating_sub(CHANGES_SHOWN_MAX);
    changes.truncate(CHANGES_SHOWN_MAX);
    let now = preview.map(|preview| Effect::of(preview, Vec::new(), page.words));
    Ok(ShownProposal {
        created: show::second(view.created_date.0, page.words),
        view,
        now,
        changes,
        changes_left_out,
    })
}
