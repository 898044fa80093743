//! `GET /transfers`: transfers by party, time, amount and state.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::response::Response;
use serde::Serialize;
use upesi_engine::{ArchivePosition, NewestPosition, Search, SearchPosition};
use upesi_ledger::{AbortKind, Ledger, ParticipantId, PublicState, Transfer, TransferState};
use upesi_types::{Amount, Currency, Timestamp, TransferId};

use super::call::{Parameters, participant_name};
use crate::call::Call;
use crate::error::ApiError;
use crate::json::ok;
use crate::transfers::{TransferView, parties_of, view};

/// Default number of transfers per page.
const PAGE_DEFAULT: usize = 100;
/// Maximum number of transfers per page.
const PAGE_MAX: usize = 1_000;
/// Maximum number of transfers that one call examines.
const LOOKED_AT_MAX: usize = 100_000;
/// The parameters.
const NAMES: [&str; 11] =
    ["fsp", "payer", "payee", "state", "from", "to", "amount", "currency", "order", "limit", "cursor"];

/// A page of found transfers.
#[derive(Serialize)]
pub struct Page {
    pub transfers: Vec<TransferView>,
    /// The `cursor` of the next page; absent at the end.
    pub next: Option<Cursor>,
}

/// End of a page. In the usual order: `r.…` among the reserved transfers, `f.…` among the finished ones in memory,
/// `a.…` in the archive. In the order from the newest on: `j.…` in the journal, and `o.…` among those that are older.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cursor {
    Usual(SearchPosition),
    Newest(NewestPosition),
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usual(place) => write_place(*place, f),
            Self::Newest(NewestPosition::Recorded(before)) => write!(f, "j.{before}"),
            Self::Newest(NewestPosition::Older { begin, place }) => {
                write!(f, "o.{begin}.")?;
                write_place(*place, f)
            }
        }
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let parts: Vec<&str> = text.split('.').collect();
        Ok(match parts[..] {
            ["j", before] => Self::Newest(NewestPosition::Recorded(before.parse().map_err(|_| ())?)),
            ["o", begin, ref place @ ..] => {
                let (begin, place) = (begin.parse().map_err(|_| ())?, read_place(place)?);
                Self::Newest(NewestPosition::Older { begin, place })
            }
            ref place => Self::Usual(read_place(place)?),
        })
    }
}

fn write_place(place: SearchPosition, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match place {
        SearchPosition::Reserved(None) => f.write_str("r"),
        SearchPosition::Reserved(Some((deadline, slot))) => write!(f, "r.{}.{slot}", deadline.as_ns()),
        SearchPosition::Finished(seq, passed) => write!(f, "f.{seq}.{passed}"),
        SearchPosition::Archived(ArchivePosition { division, after: None }) => write!(f, "a.{division}"),
        SearchPosition::Archived(ArchivePosition { division, after: Some(id) }) => {
            write!(f, "a.{division}.{id}")
        }
    }
}

fn read_place(parts: &[&str]) -> Result<SearchPosition, ()> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| ());
    Ok(match parts {
        ["r"] => SearchPosition::Reserved(None),
        ["r", deadline, slot] => {
            let deadline = Timestamp::from_ns(deadline.parse().map_err(|_| ())?);
            SearchPosition::Reserved(Some((deadline, slot.parse().map_err(|_| ())?)))
        }
        ["f", seq, passed] => SearchPosition::Finished(number(seq)?, passed.parse().map_err(|_| ())?),
        ["a", division] => {
            SearchPosition::Archived(ArchivePosition { division: number(division)?, after: None })
        }
        ["a", division, id] => {
            let after = Some(TransferId::parse(id).ok_or(())?);
            SearchPosition::Archived(ArchivePosition { division: number(division)?, after })
        }
        _ => return Err(()),
    })
}

impl Serialize for Cursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Filter for a transfer's state.
#[derive(Clone, Copy)]
enum WantedState {
    Public(PublicState),
    Aborted(AbortKind),
}

impl WantedState {
    fn parse(text: &str) -> Result<Self, ApiError> {
        let public = [PublicState::Reserved, PublicState::Committed, PublicState::Aborted];
        let found = public.into_iter().find(|state| state.as_str() == text).map(Self::Public);
        let found = found.or_else(|| AbortKind::parse(text).map(Self::Aborted));
        found.ok_or_else(|| {
            let names = public.iter().map(|state| state.as_str());
            let names: Vec<_> = names.chain(AbortKind::ALL.iter().map(|kind| kind.as_str())).collect();
            ApiError::malformed(&format!("\"state\" must be one of [{}]", names.join(", ")))
        })
    }

    fn is_of(self, transfer: &Transfer) -> bool {
        match self {
            Self::Public(state) => transfer.public_state() == state,
            Self::Aborted(wanted) => {
                matches!(&transfer.state, TransferState::Aborted(end) if end.kind == wanted)
            }
        }
    }
}

/// The filters of a search.
struct SearchFilters {
    /// The DFSP of the calling operator.
    own: Option<ParticipantId>,
    fsp: Option<ParticipantId>,
    payer: Option<ParticipantId>,
    payee: Option<ParticipantId>,
    state: Option<WantedState>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    amount: Option<Amount>,
    currency: Option<Currency>,
}

impl SearchFilters {
    async fn read(call: &Call, parameters: &Parameters) -> Result<Self, ApiError> {
        let named = ["fsp", "payer", "payee"].map(|name| parameters.get(name).map(str::to_owned));
        let [fsp, payer, payee] = named;
        let own = call.caller.participant.map(|name| name.to_string());
        let participants = call.ask(move |ledger| -> Result<_, ApiError> {
            Ok([known(ledger, fsp)?, known(ledger, payer)?, known(ledger, payee)?, known(ledger, own)?])
        });
        let [fsp, payer, payee, own] = participants.await??;
        let amount = parameters.get("amount").map(|text| {
            Amount::parse_decimal(text)
                .map_err(|_| ApiError::malformed("\"amount\" must be a number in plain decimal digits"))
        });
        Ok(Self {
            own,
            fsp,
            payer,
            payee,
            state: parameters.get("state").map(WantedState::parse).transpose()?,
            from: parameters.instant("from")?,
            to: parameters.instant("to")?,
            amount: amount.transpose()?,
            currency: parameters.currency()?,
        })
    }

    fn is_met_by(&self, transfer: &Transfer) -> bool {
        self.state.is_none_or(|state| state.is_of(transfer)) && self.may_be_met_by(transfer)
    }

    /// Like [`Self::is_met_by`], without regard to the state.
    fn may_be_met_by(&self, transfer: &Transfer) -> bool {
        self.own.is_none_or(|own| transfer.has_party(own))
            && self.fsp.is_none_or(|fsp| transfer.has_party(fsp))
            && self.payer.is_none_or(|payer| transfer.payer == Some(payer))
            && self.payee.is_none_or(|payee| transfer.payee == Some(payee))
            && self.from.is_none_or(|from| transfer.prepared_at >= from)
            && self.to.is_none_or(|to| transfer.prepared_at < to)
            && self.amount.is_none_or(|amount| transfer.amount == amount)
            && self.currency.is_none_or(|currency| transfer.currency == currency)
    }
}

fn known(ledger: &Ledger, name: Option<String>) -> Result<Option<ParticipantId>, ApiError> {
    let Some(name) = name else { return Ok(None) };
    let id = ledger.participant_id(&participant_name(&name)?);
    id.map(Some).ok_or_else(|| ApiError::unknown_participant(&name))
}

pub(crate) async fn list(call: Call, parameters: Parameters) -> Result<Response, ApiError> {
    ok(&find(&call, &parameters).await?)
}

/// Finds transfers with the parameters of `GET /transfers`.
///
/// # Errors
/// A parameter is invalid, too many searches run, or the engine does not answer.
pub async fn find(call: &Call, parameters: &Parameters) -> Result<Page, ApiError> {
    parameters.only(&NAMES)?;
    let limit = parameters.count("limit", PAGE_DEFAULT, PAGE_MAX)?;
    let place = place(parameters)?;
    let wanted = Arc::new(SearchFilters::read(call, parameters).await?);
    let permit = call.searches.permit().await?;
    let may_be = Arc::clone(&wanted);
    let (since, until) = (wanted.from.unwrap_or(Timestamp::EPOCH), wanted.to);
    let search = Search {
        is_sought: Arc::new(move |transfer: &Transfer| wanted.is_met_by(transfer)),
        may_be_sought: Arc::new(move |transfer: &Transfer| may_be.may_be_met_by(transfer)),
        since,
        until,
        limit,
        look_at_max: LOOKED_AT_MAX,
    };
    let (transfers, next) = match place {
        Cursor::Usual(place) => {
            let found = call.engine.find(search, place).await?;
            (found.transfers, found.next.map(Cursor::Usual))
        }
        Cursor::Newest(place) => {
            let found = call.engine.find_newest(search, place).await?;
            (found.transfers, found.next.map(Cursor::Newest))
        }
    };
    drop(permit);
    let views = call.ask(move |ledger| {
        let view_of = |transfer: Transfer| {
            let [payer, payee] = parties_of(ledger, &transfer);
            view(transfer, payer, payee)
        };
        transfers.into_iter().map(view_of).collect()
    });
    Ok(Page { transfers: views.await?, next })
}

/// The position where a page begins.
fn place(parameters: &Parameters) -> Result<Cursor, ApiError> {
    let is_newest = match parameters.get("order") {
        None => false,
        Some("newest") => true,
        Some(_) => return Err(ApiError::malformed("\"order\" must be newest, or absent")),
    };
    let Some(cursor) = parameters.get("cursor") else {
        return Ok(match is_newest {
            true => Cursor::Newest(NewestPosition::START),
            false => Cursor::Usual(SearchPosition::Reserved(None)),
        });
    };
    let place = cursor.parse::<Cursor>().ok().filter(|place| matches!(place, Cursor::Newest(_)) == is_newest);
    place.ok_or_else(|| ApiError::malformed("\"cursor\" must be the \"next\" of a page"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_cursors_round_trip() {
        for text in [
            "r",
            "r.-5.0",
            "r.9223372036854775807.4294967295",
            "f.0.0",
            "f.18446744073709551615.7",
            "a.1",
            "a.17.5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d",
            "a.17.01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "j.18446744073709551615",
            "o.9.r",
            "o.9.f.7.0",
            "o.9.a.17.01ARZ3NDEKTSV4RRFFQ69G5FAV",
        ] {
            assert_eq!(text.parse::<Cursor>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "x",
            "r.1",
            "r.a.1",
            "f.1",
            "f.-1.0",
            "f.1.2.3",
            "a",
            "a.b",
            "a.1.x",
            "a.1.2.3",
            "j",
            "j.-1",
            "j.1.1",
            "o",
            "o.1",
            "o.r",
            "o.1.j.1",
            "o.1.o.1.r",
        ] {
            assert_eq!(text.parse::<Cursor>(), Err(()), "{text}");
        }
    }
}
