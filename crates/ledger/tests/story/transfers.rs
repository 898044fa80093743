//! Requests of DFSPs and of the delivery of callbacks.

use sha2::{Digest, Sha256};
use upesi_ledger::command::{Abort, Expire, Fulfil, FulfilState, Fulfilment, Get, Prepare};
use upesi_ledger::{CallbackKey, Command, Fingerprint, ParticipantId, ResourceId};
use upesi_types::{Amount, AmountError, ErrorCode, FspId, TransferId, UnfitAmount};

use super::words::{Parsed, Words};
use super::{Story, words};

/// Id, sender and receiver of a PUT.
pub(super) type PutOf = (ResourceId, FspId, Option<FspId>);

/// Content of an error PUT: `5104 "account frozen"`, with `body`.
pub(super) fn error_of(words: &mut Words) -> Parsed<(ErrorCode, Box<str>, Fingerprint)> {
    let body = words.option("body")?;
    let number = words.next("an error code")?;
    let description = words.next("a description")?;
    let fingerprint = words::digest(&format!("{number} {description} {body:?}"));
    let code = number.parse().ok().and_then(ErrorCode::from_number).ok_or("no error code")?;
    Ok((code, description.into(), fingerprint))
}

impl Story {
    /// A request of a DFSP or a delivery report, if the verb is one.
    pub(super) fn transfer_command(&mut self, verb: &str, words: &mut Words) -> Parsed<Option<Command>> {
        Ok(Some(match verb {
            "prepare" => Command::Prepare(self.prepare(words)?),
            "resend" => Command::Prepare(self.resend(words)?),
            "fulfil" => Command::Fulfil(self.fulfil(words)?),
            "abort" => Command::Abort(self.abort(words)?),
            "get" => Command::Get(self.get(words)?),
            "tick" => Command::Tick,
            "expire" => {
                let reason =
                    words.option("because")?.unwrap_or_else(|| "the payee is gone".to_owned()).into();
                let transfer = self.id(&words.next("a transfer")?);
                Command::Expire(Expire { transfer, reason })
            }
            "delivered" => Command::Delivered(self.owed(words)?),
            "redeliver" => Command::Redeliver(self.owed(words)?),
            "park" => {
                let key = *self.owed(words)?.first().ok_or("nothing is owed to it")?;
                Command::Park { key, attempts: 5, reason: "connection refused".into() }
            }
            _ => return Ok(None),
        }))
    }

    /// `prepare t1 greenbank → bluewallet 125.5 KES`, with `from`, `to`, `expires`, `no condition`, `extension`,
    /// `body`.
    fn prepare(&mut self, words: &mut Words) -> Parsed<Prepare> {
        let body = words.option("body")?;
        let from = words.option("from")?;
        let to_nobody = words.flag("to", "nobody");
        let to = words.option("to")?;
        let expires = words.option("expires")?.unwrap_or_else(|| "12:01:00".to_owned());
        let extensions = extension(words)?;
        let has_condition = !words.flag("no", "condition");
        let name = words.next("a transfer")?;
        let payer = words.name()?;
        words.next_if("→");
        let payee = words.name()?;
        let text = words.next("an amount")?;
        let currency = words.currency()?;
        let said = format!(
            "{name} {payer} {payee} {text} {currency} {expires} {has_condition} {extensions:?} {body:?}"
        );
        let id = self.id(&name);
        let prepare = Prepare {
            id,
            source: from.map_or(Ok(payer), |name| words::name(&name))?,
            destination: match to {
                Some(name) => Some(words::name(&name)?),
                None => (!to_nobody).then_some(payee),
            },
            payer,
            payee,
            amount: wire_amount(&text)?,
            currency,
            condition: has_condition.then(|| Sha256::digest(preimage(id)).into()),
            expires_at: words::instant(&expires)?,
            fingerprint: words::digest(&said),
            extensions,
        };
        self.prepares.entry(id).or_insert_with(|| prepare.clone());
        Ok(prepare)
    }

    /// `resend t1`: the first prepare of that id again, optionally `from` another sender.
    fn resend(&mut self, words: &mut Words) -> Parsed<Prepare> {
        let from = words.option("from")?;
        let id = self.id(&words.next("a transfer")?);
        let mut prepare = self.prepares.get(&id).cloned().ok_or("nothing to resend")?;
        if let Some(from) = from {
            prepare.source = words::name(&from)?;
        }
        Ok(prepare)
    }

    /// `fulfil t1 COMMITTED`, with `from`, `to`, `wrong|no fulfilment`, `version`, `extension`, `body`.
    fn fulfil(&mut self, words: &mut Words) -> Parsed<Fulfil> {
        let (transfer, source, destination) = self.put(words)?;
        let body = words.option("body")?;
        let version = words.option("version")?;
        let extensions = extension(words)?;
        let fulfilment = if words.flag("wrong", "fulfilment") {
            Fulfilment::Preimage([0xff; 32])
        } else if words.flag("no", "fulfilment") {
            Fulfilment::Missing
        } else {
            Fulfilment::Preimage(transfer.id().map_or([0; 32], preimage))
        };
        let state = match words.next("a state")?.as_str() {
            "COMMITTED" => FulfilState::Committed,
            "RESERVED" => FulfilState::Reserved,
            "RECEIVED" => FulfilState::Received,
            "ABORTED" => FulfilState::Aborted,
            other => return Err(format!("\"{other}\" is not a state of a fulfil")),
        };
        let fingerprint = words::digest(&format!("{state:?} {fulfilment:?} {extensions:?} {body:?}"));
        let may_reserve = version.as_deref() != Some("1.0");
        Ok(Fulfil { transfer, source, destination, state, may_reserve, fulfilment, fingerprint, extensions })
    }

    /// `abort t1 5104 "account frozen"`, with `from`, `to`, `body`.
    fn abort(&mut self, words: &mut Words) -> Parsed<Abort> {
        let (transfer, source, destination) = self.put(words)?;
        let (code, description, fingerprint) = error_of(words)?;
        Ok(Abort { transfer, source, destination, code, description, fingerprint })
    }

    /// The common words of all PUTs. By default the payee sends them to the payer.
    fn put(&mut self, words: &mut Words) -> Parsed<PutOf> {
        self.put_of("a transfer", words, |story, id| {
            story.prepares.get(&id).map(|prepare| (prepare.payee, prepare.payer))
        })
    }

    /// The common words of a PUT about anything that is prepared. `usual` is its default sender and receiver.
    pub(super) fn put_of(
        &mut self,
        what: &str,
        words: &mut Words,
        usual: impl FnOnce(&Self, TransferId) -> Option<(FspId, FspId)>,
    ) -> Parsed<PutOf> {
        let from = words.option("from")?;
        let to_nobody = words.flag("to", "nobody");
        let to = words.option("to")?;
        let about = self.transfer_ref(&words.next(what)?);
        let usual = about.id().and_then(|id| usual(self, id));
        let source = match from {
            Some(name) => words::name(&name)?,
            None => usual.ok_or("from whom?")?.0,
        };
        let destination = match to {
            Some(name) => Some(words::name(&name)?),
            None => usual.map(|(_, receiver)| receiver).filter(|_| !to_nobody),
        };
        Ok((about, source, destination))
    }

    /// `get t1 from greenbank`, with `by proxy`.
    pub(super) fn get(&mut self, words: &mut Words) -> Parsed<Get> {
        let source = words::name(&words.option("from")?.ok_or("from whom?")?)?;
        let is_proxied = words.flag("by", "proxy");
        let transfer = self.transfer_ref(&words.next("a transfer")?);
        Ok(Get { transfer, source, is_proxied })
    }

    /// `t1` stands for an id, `not-an-id` for itself.
    pub(super) fn transfer_ref(&mut self, text: &str) -> ResourceId {
        if text.contains('-') { ResourceId::parse(text) } else { ResourceId::Id(self.id(text)) }
    }

    /// All undelivered callbacks to a participant, including parked ones. `nobody` stands for callbacks that do not
    /// exist.
    fn owed(&self, words: &mut Words) -> Parsed<Vec<CallbackKey>> {
        let name = words.next("a participant")?;
        if name == "nobody" {
            return Ok(vec![CallbackKey { target: ParticipantId::HUB, seq: 1, index: 9 }]);
        }
        let target = self.participant(&name)?.id;
        let owed = self.twin.live.outbox().iter().map(|(key, _)| key);
        Ok(owed.filter(|key| key.target == target).collect())
    }
}

/// `extension KEY=VALUE`, as the JSON text of an extension array.
fn extension(words: &mut Words) -> Parsed<Option<Box<str>>> {
    let Some(pair) = words.option("extension")? else { return Ok(None) };
    let (key, value) = pair.split_once('=').ok_or("an extension is KEY=VALUE")?;
    Ok(Some(format!(r#"[{{"key":"{key}","value":"{value}"}}]"#).into()))
}

/// An amount as the payer wrote it. An amount that the ledger cannot hold is unchanged.
pub(super) fn wire_amount(text: &str) -> Parsed<Result<Amount, UnfitAmount>> {
    match Amount::parse_wire(text) {
        Err(AmountError::Syntax) => Err(format!("\"{text}\" is not an amount on the wire")),
        other => Ok(other.map_err(|error| UnfitAmount { error, text: text.into() })),
    }
}

/// The secret that fulfils a transfer.
pub(super) fn preimage(id: TransferId) -> [u8; 32] {
    Sha256::digest(id.to_bytes()).into()
}
