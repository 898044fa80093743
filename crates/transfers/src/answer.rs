//! Converts the engine's reply to an answer.

use upesi_delivery::Accepted;
use upesi_engine::SubmitError;
use upesi_fspiop::SyncError;
use upesi_ledger::Reply;
use upesi_types::ErrorCode;

/// The answer to the sender for the engine's reply. Internal details are logged and never sent.
pub fn outcome(reply: Result<Reply, SubmitError>) -> Result<Accepted, SyncError> {
    match reply {
        Ok(Reply::Accepted) => Ok(Accepted),
        Ok(Reply::UnknownSender(name)) => {
            let detail = format!("invalid fspiop-source header: no participant '{name}'");
            Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, &detail))
        }
        Ok(Reply::NeedsArchive | Reply::Admin(_) | Reply::Audited(_)) => {
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
    use super::*;
    use upesi_ledger::AdminOutcome;

    #[test]
    fn engine_replies_map_to_statuses() {
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
