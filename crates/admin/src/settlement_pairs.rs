//! `/v2/settlementWindows/{id}/pairs`: what the DFSPs of a window owe each other, pair by pair.

use std::fmt;

use axum::response::Response;
use serde::{Serialize, Serializer};
use upesi_ledger::{AccountId, AdminRefusal, Ledger, Pair, Sum, WindowId};

use crate::call::Call;
use crate::error::ApiError;
use crate::extract::{Parameters, Segments};
use crate::json::{number as digits, ok};
use crate::settlement_windows::{number, refuse};

const PAIRS_DEFAULT: usize = 1_000;
const PAIRS_MAX: usize = 10_000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PairsView {
    settlement_window_id: u32,
    pairs: Vec<PairView>,
    next: Option<PairKey>,
}

/// The committed transfers from one account to another.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PairView {
    payer: PartyView,
    payee: PartyView,
    currency: String,
    ledger_account_type: String,
    amount: WideDecimal,
    transfers: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PartyView {
    name: String,
    participant_id: u32,
    account_id: u32,
}

/// A sum as a JSON number; it may have more digits than an amount.
struct WideDecimal(Sum);

impl Serialize for WideDecimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        digits(self.0.to_string(), serializer)
    }
}

/// A pair by its accounts, such as `3-5`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PairKey(AccountId, AccountId);

impl PairKey {
    fn of(pair: &Pair) -> Self {
        Self(pair.payer, pair.payee)
    }

    fn parse(text: &str) -> Option<Self> {
        let (payer, payee) = text.split_once('-')?;
        Some(Self(AccountId::new(payer.parse().ok()?)?, AccountId::new(payee.parse().ok()?)?))
    }
}

impl fmt::Display for PairKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0.number(), self.1.number())
    }
}

impl Serialize for PairKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A page of a window's pairs, in order of accounts. Those of the open window grow meanwhile.
pub(crate) async fn list(
    Call(context): Call,
    Segments(id): Segments<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.only(&["limit", "after"])?;
    let id = WindowId(number(&id, "id")?);
    let limit = parameters.count("limit", PAIRS_DEFAULT, PAIRS_MAX)?;
    let malformed = || ApiError::malformed("\"after\" must be the \"next\" of the page before");
    let after = parameters.get("after").map(|text| PairKey::parse(text).ok_or_else(malformed)).transpose()?;
    let page = context.ask(move |ledger| {
        let Some(window) = ledger.window(id) else {
            return Err(ApiError::from(AdminRefusal::WindowUnknown { window: id }));
        };
        let pairs = ledger.window_pairs(window);
        let pairs = pairs.ok_or_else(|| refuse(&format!("The sums of window {id} are no longer kept")))?;
        Ok(page(ledger, id, &pairs, after, limit))
    });
    ok(&page.await??)
}

fn page(ledger: &Ledger, id: WindowId, pairs: &[Pair], after: Option<PairKey>, limit: usize) -> PairsView {
    let begin = after.map_or(0, |after| pairs.partition_point(|pair| PairKey::of(pair) <= after));
    let rest = &pairs[begin..];
    let shown = &rest[..limit.min(rest.len())];
    PairsView {
        settlement_window_id: id.0,
        pairs: shown.iter().filter_map(|pair| PairView::of(ledger, pair)).collect(),
        next: shown.last().filter(|_| shown.len() < rest.len()).map(PairKey::of),
    }
}

impl PairView {
    fn of(ledger: &Ledger, pair: &Pair) -> Option<Self> {
        let account = ledger.account(pair.payer)?;
        Some(Self {
            payer: PartyView::of(ledger, pair.payer)?,
            payee: PartyView::of(ledger, pair.payee)?,
            currency: account.currency.to_string(),
            ledger_account_type: ledger.account_type_name(account.kind).to_owned(),
            amount: WideDecimal(pair.sum),
            transfers: pair.sum.transfers,
        })
    }
}

impl PartyView {
    fn of(ledger: &Ledger, id: AccountId) -> Option<Self> {
        let participant = ledger.account(id)?.participant;
        let name = ledger.participant(participant).name.to_string();
        Some(Self { name, participant_id: participant.number(), account_id: id.number() })
    }
}
