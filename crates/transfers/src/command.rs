//! Converts a request to a ledger command.

mod bulk;
mod fx_transfer;

use std::mem::take;

use upesi_delivery::Request;
use upesi_engine::Payload;
use upesi_fspiop::body::TransferState;
use upesi_fspiop::{Ids, Message, PathId, Resource, SyncError, Version, fingerprint, message};
use upesi_ledger::command::{Abort, Fulfil, FulfilState, Fulfilment, Get, Prepare};
use upesi_ledger::{Command, ResourceId};

use self::bulk::{about_bulk, prepare_bulk};
use self::fx_transfer::{about_fx_transfer, prepare_fx_transfer};

/// The command of a request about transfers, FX transfers or bulk transfers, and its payload for the journal.
///
/// Errors: 501 for any other request.
pub fn into_command(mut request: Request) -> Result<(Command, Payload), SyncError> {
    let (headers, body) = (take(&mut request.headers), take(&mut request.body));
    let resource = request.resource();
    let command = match (resource, request.with_ids(())) {
        (Resource::FxTransfers, (request, Ids::Family)) => prepare_fx_transfer(request, &body)?,
        (Resource::FxTransfers, (request, Ids::Id(id))) => {
            about_fx_transfer(request, transfer_ref(id), &body)?
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

#[cfg(test)]
mod tests {
    use upesi_fspiop::headers::Parties;
    use upesi_fspiop::{Method, Route};
    use upesi_ledger::command::BulkCommand;
    use upesi_ledger::{Cause, ItemResult, PublicBulkState, Refusal};
    use upesi_types::{ErrorCode, TransferId};

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
    fn ids_are_decoded_and_other_texts_unchanged() {
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
    fn bulk_results_become_fulfilments_and_causes() {
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
    fn requests_of_other_resources_are_not_commands() {
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
}
