//! The meaning of a DFSP's rejection of a callback: whether to repeat it, and its description for operators.
//!
//! The standard does not define rejected callbacks. The rule of this hub:
//!
//! | answer | consequence |
//! |---|---|
//! | 408, 425, 429, 5xx | the DFSP may accept it later: repeated with growing delays until `callbacks.deadline_s` |
//! | any other, including 3105 (invalid signature) | not temporary: four repetitions, then parked |
//! | any, to a prepare whose expiration has passed | the payee can no longer fulfil it: no repetition, parked |

use crate::lanes::{Refusal, Repetition};
use upesi_engine::DurableRecord;
use upesi_fspiop::body::{parse_error_body, parse_fx_transfer, parse_prepare};
use upesi_http::StatusCode;
use upesi_ledger::{CallbackContent, CallbackKey, ResourceKind};
use upesi_types::{ErrorCode, Timestamp};

/// The meaning of an answer other than 2xx.
pub(crate) fn refusal(status: StatusCode, body: &[u8]) -> Refusal {
    let is_passing = status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
        );
    let repetition = if is_passing { Repetition::UntilDeadline } else { Repetition::AFewTimes };
    let reason = match parse_error_body(body).ok().map(|error| error.code) {
        None => format!("answered {status}"),
        Some(ErrorCode::INVALID_SIGNATURE) => {
            format!("answered {status} with 3105: the DFSP does not accept the signature")
        }
        Some(code) => format!("answered {status} with {code}"),
    };
    Refusal { reason, repetition, retry_after: None }
}

/// The reason why a rejected callback need not be repeated, if there is one.
pub(crate) fn moot(key: CallbackKey, record: &DurableRecord, now: Timestamp) -> Option<String> {
    let callback = record.callbacks.get(usize::from(key.index))?;
    let body = &record.payload.body;
    let (what, expiration) = match (&callback.content, callback.subject.resource) {
        (CallbackContent::BulkRequest(request), _) => ("bulk transfer", request.expires_at),
        (CallbackContent::ForwardPrepare, ResourceKind::Transfer) => {
            ("transfer", parse_prepare(body).ok()?.expiration)
        }
        (CallbackContent::ForwardPrepare, ResourceKind::FxTransfer) => {
            ("FX transfer", parse_fx_transfer(body).ok()?.expiration?)
        }
        _ => return None,
    };
    (expiration < now).then(|| format!("the {what} has expired"))
}

#[cfg(test)]
mod tests {
    use upesi_engine::Payload;
    use upesi_http::Bytes;
    use upesi_ledger::{Callback, ParticipantId, ResourceId, Subject};

    use super::*;

    #[test]
    fn temporary_rejections_are_repeated_and_permanent_ones_only_a_few_times() {
        for (status, expected) in [
            (408, Repetition::UntilDeadline),
            (425, Repetition::UntilDeadline),
            (429, Repetition::UntilDeadline),
            (500, Repetition::UntilDeadline),
            (501, Repetition::UntilDeadline),
            (503, Repetition::UntilDeadline),
            (599, Repetition::UntilDeadline),
            (302, Repetition::AFewTimes),
            (400, Repetition::AFewTimes),
            (401, Repetition::AFewTimes),
            (404, Repetition::AFewTimes),
            (409, Repetition::AFewTimes),
            (422, Repetition::AFewTimes),
        ] {
            let refusal = refusal(StatusCode::from_u16(status).unwrap(), b"no JSON");
            assert_eq!(refusal.repetition, expected, "{status}");
            assert!(refusal.reason.starts_with(&format!("answered {status}")), "{}", refusal.reason);
            assert!(!refusal.reason.contains("JSON"), "the text of the answer is not copied");
        }
    }

    #[test]
    fn rejection_names_the_error_code() {
        let body = |code: &str| {
            format!(r#"{{"errorInformation":{{"errorCode":"{code}","errorDescription":"secret"}}}}"#)
        };
        for (code, expected) in [
            ("3105", "answered 400 Bad Request with 3105: the DFSP does not accept the signature"),
            ("3100", "answered 400 Bad Request with 3100"),
        ] {
            let refusal = refusal(StatusCode::BAD_REQUEST, body(code).as_bytes());
            assert_eq!((&*refusal.reason, refusal.repetition), (expected, Repetition::AFewTimes));
        }
    }

    #[test]
    fn only_an_expired_prepare_is_moot() {
        let expiration = Timestamp::parse_iso("2031-04-01T10:00:00.000Z").unwrap();
        let body = concat!(
            r#"{"transferId":"aaaaaaaa-5aba-49f1-994d-60d740240046","payerFsp":"green","payeeFsp":"blue","#,
            r#""amount":{"amount":"7.25","currency":"USD"},"ilpPacket":"AAAA","#,
            r#""condition":"f5sqb7tBTWPd5Y8BDFdMm9BJR_MNI4isf8p8n4D5pHA","expiration":"2031-04-01T10:00:00.000Z"}"#
        );
        let fx_transfer = concat!(
            r#"{"commitRequestId":"aaaaaaaa-5aba-49f1-994d-60d740240046","initiatingFsp":"green","#,
            r#""counterPartyFsp":"forex","sourceAmount":{"amount":"1","currency":"USD"},"#,
            r#""targetAmount":{"amount":"2","currency":"KES"},"#,
            r#""condition":"f5sqb7tBTWPd5Y8BDFdMm9BJR_MNI4isf8p8n4D5pHA","expiration":"2031-04-01T10:00:00.000Z"}"#
        );
        let of = |resource, body: &'static str, content| DurableRecord {
            seq: 7,
            time: expiration,
            callbacks: vec![Callback {
                target: ParticipantId::HUB,
                subject: Subject { resource, id: ResourceId::Text("t".into()) },
                content,
            }],
            payload: Payload { headers: Bytes::new(), body: Bytes::from_static(body.as_bytes()) },
            prepared_before: None,
            asker: None,
        };
        let key = CallbackKey { target: ParticipantId::HUB, seq: 7, index: 0 };
        let late = expiration.plus_ms(1);
        for (resource, body, what) in [
            (ResourceKind::Transfer, body, "transfer"),
            (ResourceKind::FxTransfer, fx_transfer, "FX transfer"),
        ] {
            let prepare = of(resource, body, CallbackContent::ForwardPrepare);
            assert_eq!(moot(key, &prepare, expiration), None);
            assert_eq!(moot(key, &prepare, late), Some(format!("the {what} has expired")));
            assert_eq!(moot(CallbackKey { index: 1, ..key }, &prepare, late), None);
            let fulfil = of(resource, body, CallbackContent::ForwardFulfil);
            assert_eq!(moot(key, &fulfil, late), None, "the payer still needs it");
        }
    }
}
