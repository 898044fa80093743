//! Converts a request to a ledger command, and the engine's reply to an answer.

use std::mem::take;

use upesi_delivery::{Accepted, Request};
use upesi_engine::{Payload, SubmitError};
use upesi_fspiop::body::{BulkItem, BulkItemResult, BulkTransferState, CompletionFault, TransferState};
use upesi_fspiop::{Ids, Message, PathId, Resource, SyncError, Version, fingerprint, message};
use upesi_ledger::command::{
    Abort, AbortBulk, AbortConversion, AskedMoney, BulkCommand, ConversionCommand, Fulfil, FulfilBulk,
    FulfilConversion, FulfilState, Fulfilment, Get, GetBulk, GetConversion, Prepare, PrepareBulk,
    PrepareConversion,
};
use upesi_ledger::{
    AskedItem, BULK_ITEMS_MAX, Cause, Command, ItemResult, NewItems, PublicBulkState, Refusal, Reply,
    ResourceId,
};
use upesi_types::{BulkId, ConversionId, ErrorCode, TransferId};

/// The command of a request about transfers, FX transfers or bulk transfers, and its payload for the journal.
///
/// Errors: 501 for any other request.
pub fn into_command(mut request: Request) -> Result<(Command, Payload), SyncError> {
    let (headers, body) = (take(&mut request.headers), take(&mut request.body));
    let resource = request.resource();
    let command = match (resource, request.with_ids(())) {
        (Resource::FxTransfers, (request, Ids::Family)) => prepare_conversion(request, &body)?,
        (Resource::FxTransfers, (request, Ids::Id(id))) => {
            about_conversion(request, transfer_ref(id), &body)?
        }
        (Resource::BulkTransfers, (request, Ids::Family)) => prepare_bulk(request, &body)?,
        (Resource::BulkTransfers, (request, Ids::Id(id))) => about_bulk(request, transfer_ref(id), &body)?,
        (_, (request, Ids::Family)) => prepare(request, &body)?,
        (_, (request, Ids::Id(id))) => about(request, transfer_ref(id), &body)?,
        (_, (_, Ids::Party(_) | Ids::Providers(_))) => return Err(SyncError::not_implemented()),
    };
    Ok((command, Payload { headers, body }))
}

/// A percent-encoded transfer id is decoded. Any other text stays as it was written, and is answered by an error
/// callback under that very path.
fn transfer_ref(id: PathId) -> ResourceId {
    match id {
        PathId::Plain(id) | PathId::Text { id: Some(id), .. } => ResourceId::Id(id),
        PathId::Text { text, id: None } => ResourceId::Text(text),
    }
}

fn prepare(request: Request<()>, body: &[u8]) -> Result<Command, SyncError> {
    let Message::Prepare(prepare) = request.message else { return Err(SyncError::not_implemented()) };
    Ok(Command::Prepare(Prepare {
        id: prepare.transfer_id,
        source: request.parties.source,
        destination: request.parties.destination,
        payer: prepare.payer,
        payee: prepare.payee,
        amount: prepare.amount,
        currency: prepare.currency,
        condition: prepare.condition,
        expires_at: prepare.expires_at,
        fingerprint: fingerprint(body),
        extensions: prepare.extensions,
    }))
}

fn about(request: Request<()>, transfer: ResourceId, body: &[u8]) -> Result<Command, SyncError> {
    let (source, destination) = (request.parties.source, request.parties.destination);
    Ok(match request.message {
        Message::Fulfil(fulfil) => Command::Fulfil(Fulfil {
            transfer,
            source,
            destination,
            state: state(fulfil.transfer_state),
            may_reserve: request.version.is_some_and(Version::allows_reserved),
            fulfilment: fulfil.fulfilment.map_or(Fulfilment::Missing, Fulfilment::Preimage),
            fingerprint: fingerprint(body),
            extensions: fulfil.extensions.map(String::into_boxed_str),
        }),
        Message::Abort(message::Abort { code, description }) => Command::Abort(Abort {
            transfer,
            source,
            destination,
            code,
            description,
            fingerprint: fingerprint(body),
        }),
        Message::Other => Command::Get(Get { transfer, source, is_proxied: request.parties.proxied }),
        _ => return Err(SyncError::not_implemented()),
    })
}

pub(crate) const fn state(said: TransferState) -> FulfilState {
    match said {
        TransferState::Received => FulfilState::Received,
        TransferState::Reserved => FulfilState::Reserved,
        TransferState::Committed => FulfilState::Committed,
        TransferState::Aborted => FulfilState::Aborted,
    }
}

// Converts a request about `/bulkTransfers` to a ledger command.

const _: () = assert!(upesi_fspiop::body::BULK_ITEMS_MAX == BULK_ITEMS_MAX, "a bulk transfer has one limit");

pub(crate) fn prepare_bulk(request: Request<()>, body: &[u8]) -> Result<Command, SyncError> {
    let Message::BulkTransfer(asked) = request.message else { return Err(SyncError::not_implemented()) };
    let items = asked.items.into_iter().map(|(id, item)| (id, asked_item(item))).collect();
    // The parser has checked their number and ids.
    let items = NewItems::new(items).map_err(|_| SyncError::new(ErrorCode::VALIDATION, ""))?;
    Ok(Command::Bulk(BulkCommand::Prepare(Box::new(PrepareBulk {
        id: BulkId::new(asked.bulk_transfer_id),
        quote: asked.bulk_quote_id,
        source: request.parties.source,
        destination: request.parties.destination,
        payer: asked.payer,
        payee: asked.payee,
        items,
        expires_at: asked.expiration,
        fingerprint: fingerprint(body),
        extensions: asked.extensions,
    }))))
}

pub(crate) fn about_bulk(request: Request<()>, bulk: ResourceId, body: &[u8]) -> Result<Command, SyncError> {
    let (source, destination) = (request.parties.source, request.parties.destination);
    Ok(Command::Bulk(match request.message {
        Message::BulkFulfil(fulfil) => BulkCommand::Fulfil(Box::new(FulfilBulk {
            bulk,
            source,
            destination,
            state: bulk_state(fulfil.state),
            fault: fulfil.fault.map(fault),
            results: fulfil.results.into_iter().map(item_result).collect(),
            fingerprint: fingerprint(body),
            extensions: fulfil.extensions,
        })),
        Message::Abort(message::Abort { code, description }) => BulkCommand::Abort(AbortBulk {
            bulk,
            source,
            destination,
            code,
            description,
            fingerprint: fingerprint(body),
        }),
        Message::Other => BulkCommand::Get(GetBulk { bulk, source }),
        _ => return Err(SyncError::not_implemented()),
    }))
}

fn asked_item(item: BulkItem) -> AskedItem {
    let BulkItem { amount, currency, ilp_packet, condition, extensions } = item;
    AskedItem { amount, currency, ilp_packet, condition, extensions }
}

const fn bulk_state(said: BulkTransferState) -> PublicBulkState {
    match said {
        BulkTransferState::Received => PublicBulkState::Received,
        BulkTransferState::Pending => PublicBulkState::Pending,
        BulkTransferState::Accepted => PublicBulkState::Accepted,
        BulkTransferState::Processing => PublicBulkState::Processing,
        BulkTransferState::Completed => PublicBulkState::Completed,
        BulkTransferState::Rejected => PublicBulkState::Rejected,
    }
}

const fn fault(found: CompletionFault) -> Refusal {
    match found {
        CompletionFault::InFuture => Refusal::CompletedInFuture,
        CompletionFault::LongAgo => Refusal::CompletedLongAgo,
    }
}

fn item_result((id, result): (TransferId, BulkItemResult)) -> (TransferId, ItemResult) {
    let result = match result {
        BulkItemResult::Fulfil { fulfilment, extensions } => ItemResult::Fulfil { fulfilment, extensions },
        BulkItemResult::Error { code, description } => ItemResult::Abort(Cause::Payee { code, description }),
        BulkItemResult::FulfilmentInvalid => ItemResult::Abort(Refusal::FulfilmentInvalid.into()),
        BulkItemResult::Ambiguous => ItemResult::Abort(Refusal::BulkResultInvalid.into()),
    };
    (id, result)
}

// Converts a request about `/fxTransfers` to a ledger command.

pub(crate) fn prepare_conversion(request: Request<()>, body: &[u8]) -> Result<Command, SyncError> {
    let Message::Conversion(asked) = request.message else { return Err(SyncError::not_implemented()) };
    let money = |side: message::ConversionMoney| AskedMoney { amount: side.amount, currency: side.currency };
    Ok(Command::Conversion(ConversionCommand::Prepare(Box::new(PrepareConversion {
        id: ConversionId::new(asked.commit_request_id),
        determining_transfer: asked.determining_transfer_id,
        source: request.parties.source,
        destination: request.parties.destination,
        initiator: asked.initiating_fsp,
        counter_party: asked.counter_party_fsp,
        source_amount: money(asked.source),
        target_amount: money(asked.target),
        condition: asked.condition,
        expires_at: asked.expires_at,
        fingerprint: fingerprint(body),
    }))))
}

pub(crate) fn about_conversion(
    request: Request<()>,
    conversion: ResourceId,
    body: &[u8],
) -> Result<Command, SyncError> {
    let (source, destination) = (request.parties.source, request.parties.destination);
    Ok(Command::Conversion(match request.message {
        Message::ConversionFulfil(fulfil) => ConversionCommand::Fulfil(FulfilConversion {
            conversion,
            source,
            destination,
            state: state(fulfil.conversion_state),
            fulfilment: fulfil.fulfilment.map_or(Fulfilment::Missing, Fulfilment::Preimage),
            fingerprint: fingerprint(body),
        }),
        Message::Abort(message::Abort { code, description }) => ConversionCommand::Abort(AbortConversion {
            conversion,
            source,
            destination,
            code,
            description,
            fingerprint: fingerprint(body),
        }),
        Message::Other => {
            ConversionCommand::Get(GetConversion { conversion, source, is_proxied: request.parties.proxied })
        }
        _ => return Err(SyncError::not_implemented()),
    }))
}

// Converts the engine's reply to an answer.

/// The answer to the sender for the engine's reply. Internal details are logged and never sent.
pub fn outcome(reply: Result<Reply, SubmitError>) -> Result<Accepted, SyncError> {
    match reply {
        Ok(Reply::Accepted) => Ok(Accepted),
        Ok(Reply::UnknownSender(name)) => {
            let detail = format!("invalid fspiop-source header: no participant '{name}'");
            Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, &detail))
        }
        Ok(Reply::NeedsArchive | Reply::Admin(_) | Reply::Act(_)) => {
            tracing::error!("the engine returned a reply that is impossible for an FSPIOP request");
            Err(SyncError::new(ErrorCode::INTERNAL, ""))
        }
        Err(SubmitError::Busy) => Err(SyncError::new(ErrorCode::SERVER_BUSY, "try again later")),
        Err(SubmitError::Full | SubmitError::HeldUp | SubmitError::Stopped) => {
            Err(SyncError::new(ErrorCode::UNAVAILABLE, ""))
        }
        Err(SubmitError::Archive(reason) | SubmitError::Journal(reason)) => {
            tracing::error!(%reason, "cannot read the transfer from disk");
            Err(SyncError::new(ErrorCode::INTERNAL, ""))
        }
    }
}

#[cfg(test)]
mod tests {
    use upesi_fspiop::headers::Parties;
    use upesi_fspiop::{Method, Route};
    use upesi_ledger::AdminOutcome;
    use upesi_types::FspId;

    use super::*;

    const ID: &str = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d";

    fn request(line: &str, version: Version, body: &str) -> Request {
        let (method, path) = line.split_once(' ').unwrap();
        let Route { operation, segments } = Route::resolve(Method::parse(method), path).unwrap();
        let parties = Parties {
            source: FspId::parse("bluewallet").unwrap(),
            destination: FspId::parse("greenbank"),
            proxied: line.starts_with("GET"),
        };
        Request {
            operation,
            ids: segments.check(operation.resource(), false).unwrap(),
            query: None,
            parties,
            version: Some(version),
            message: Message::read(operation, body.as_bytes()).unwrap(),
            headers: b"x-own: 1\r\n"[..].into(),
            body: body.to_owned().into(),
            reply_to: upesi_engine::ReplyTo::Dfsp,
        }
    }

    #[test]
    fn ids_are_ids_however_they_are_encoded_and_other_texts_stay() {
        let id = TransferId::parse(ID).unwrap();
        for (segment, expected) in [
            (ID, ResourceId::Id(id)),
            (&ID.replacen('5', "%35", 1), ResourceId::Id(id)),
            ("any%20text", ResourceId::Text("any%20text".into())),
        ] {
            let request = request(&format!("GET /transfers/{segment}"), Version::V1_1, "kept");
            let (command, payload) = into_command(request).unwrap();
            let Command::Get(get) = command else { panic!("{command:?}") };
            assert_eq!((get.transfer, get.is_proxied), (expected, true), "{segment}");
            assert_eq!((&*payload.headers, &*payload.body), (&b"x-own: 1\r\n"[..], &b"kept"[..]));
        }
    }

    #[test]
    fn a_fulfil_may_reserve_from_version_1_1_on() {
        let body = r#"{"transferState":"RESERVED"}"#;
        for (version, may_reserve) in [(Version::V1_0, false), (Version::V1_1, true), (Version::V2_0, true)] {
            let request = request(&format!("PUT /transfers/{ID}"), version, body);
            let (command, _) = into_command(request).unwrap();
            let Command::Fulfil(fulfil) = command else { panic!("{command:?}") };
            assert_eq!((fulfil.state, fulfil.may_reserve), (FulfilState::Reserved, may_reserve));
            assert_eq!((fulfil.source.as_str(), fulfil.fulfilment), ("bluewallet", Fulfilment::Missing));
            assert_eq!(fulfil.fingerprint, fingerprint(body.as_bytes()));
        }
    }

    #[test]
    fn results_of_a_bulk_become_fulfilments_and_causes() {
        const FULFILMENT: &str = r#""fulfilment":"UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFA""#;
        const ERROR: &str = r#""errorInformation":{"errorCode":"5104","errorDescription":"no"}"#;
        const EXTENSIONS: &str = r#""extensionList":{"extension":[{"key":"paid","value":"yes"}]}"#;
        let results = |members: &[&str]| {
            let result = [&[&*format!(r#""transferId":"{ID}""#)], members].concat().join(",");
            let body =
                format!(r#"{{"bulkTransferState":"COMPLETED","individualTransferResults":[{{{result}}}]}}"#);
            let request = request(&format!("PUT /bulkTransfers/{ID}"), Version::V1_1, &body);
            let (command, _) = into_command(request).unwrap();
            let Command::Bulk(BulkCommand::Fulfil(fulfil)) = command else { panic!("{command:?}") };
            assert_eq!((fulfil.state, &fulfil.fault), (PublicBulkState::Completed, &None));
            let [(id, result)] = <[_; 1]>::try_from(fulfil.results).unwrap();
            assert_eq!(id, TransferId::parse(ID).unwrap());
            result
        };
        let ItemResult::Fulfil { fulfilment, extensions } = results(&[FULFILMENT, EXTENSIONS]) else {
            panic!("a fulfilment")
        };
        assert_eq!((fulfilment[0], extensions.as_deref()), (0x50, Some(r#"[{"key":"paid","value":"yes"}]"#)));
        let code = ErrorCode::from_number(5104).unwrap();
        let declined = Cause::Payee { code, description: "no".into() };
        assert_eq!(results(&[ERROR]), ItemResult::Abort(declined));
        let neither_or_both = ItemResult::Abort(Refusal::BulkResultInvalid.into());
        for members in [&[FULFILMENT, ERROR][..], &[ERROR, FULFILMENT, EXTENSIONS], &[], &[EXTENSIONS]] {
            assert_eq!(results(members), neither_or_both, "{members:?}");
        }
    }

    #[test]
    fn states_and_faults_of_a_bulk_keep_their_meaning() {
        for text in ["RECEIVED", "PENDING", "ACCEPTED", "PROCESSING", "COMPLETED", "REJECTED"] {
            let said = BulkTransferState::parse(text).unwrap();
            assert_eq!(bulk_state(said).as_str(), text);
        }
        assert_eq!(fault(CompletionFault::InFuture), Refusal::CompletedInFuture);
        assert_eq!(fault(CompletionFault::LongAgo), Refusal::CompletedLongAgo);
    }

    #[test]
    fn requests_about_anything_else_are_none() {
        for line in ["GET /parties/MSISDN/1", "DELETE /participants/MSISDN/1"] {
            let refusal = into_command(request(line, Version::V1_1, "")).unwrap_err();
            assert_eq!((refusal.status, refusal.code.number()), (501, 2002), "{line}");
        }
        let mut unread =
            request(&format!("PUT /transfers/{ID}"), Version::V1_1, r#"{"transferState":"ABORTED"}"#);
        unread.message = Message::TransactionRequest { id: TransferId::parse(ID).unwrap() };
        assert_eq!(into_command(unread).unwrap_err().status, 501);
        assert!(Resource::Transfers.moves_money());
    }

    #[test]
    fn the_engines_replies_become_statuses() {
        assert_eq!(outcome(Ok(Reply::Accepted)), Ok(Accepted));
        let ghost = upesi_types::FspId::parse("ghost").unwrap();
        for (reply, status, code) in [
            (Ok(Reply::UnknownSender(ghost)), 400, ErrorCode::MALFORMED_SYNTAX),
            (Ok(Reply::NeedsArchive), 500, ErrorCode::INTERNAL),
            (Ok(Reply::Admin(Ok(AdminOutcome::Done))), 500, ErrorCode::INTERNAL),
            (Err(SubmitError::Busy), 503, ErrorCode::SERVER_BUSY),
            (Err(SubmitError::Full), 503, ErrorCode::UNAVAILABLE),
            (Err(SubmitError::HeldUp), 503, ErrorCode::UNAVAILABLE),
            (Err(SubmitError::Stopped), 503, ErrorCode::UNAVAILABLE),
            (Err(SubmitError::Archive("secret".into())), 500, ErrorCode::INTERNAL),
            (Err(SubmitError::Journal("secret".into())), 500, ErrorCode::INTERNAL),
        ] {
            let error = outcome(reply).unwrap_err();
            assert_eq!((error.status, error.code), (status, code));
            assert!(!error.description.contains("secret"));
        }
    }
}
