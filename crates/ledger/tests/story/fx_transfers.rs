//! Requests of initiators and FXPs about FX transfers.

use sha2::{Digest, Sha256};
use upesi_ledger::command::{
    AbortFxTransfer, AskedMoney, FulfilFxTransfer, FulfilState, Fulfilment, FxTransferCommand, GetFxTransfer,
    PrepareFxTransfer,
};
use upesi_types::FxTransferId;

use super::transfers::{PutOf, error_of, preimage, wire_amount};
use super::words::{self, Parsed, Words};
use super::{Story, print};

impl Story {
    /// A request about an FX transfer, if the verb is one.
    pub(super) fn fx_transfer_command(
        &mut self,
        verb: &str,
        words: &mut Words,
    ) -> Parsed<Option<FxTransferCommand>> {
        Ok(Some(match verb {
            "convert" => FxTransferCommand::Prepare(Box::new(self.convert(words)?)),
            "reconvert" => {
                let from = words.option("from")?;
                let id = FxTransferId::new(self.id(&words.next("a conversion")?));
                let mut prepare = self.fx_transfers.get(&id).cloned().ok_or("nothing to resend")?;
                if let Some(from) = from {
                    prepare.source = words::name(&from)?;
                }
                FxTransferCommand::Prepare(Box::new(prepare))
            }
            "fx-fulfil" => FxTransferCommand::Fulfil(self.fulfil_fx_transfer(words)?),
            "fx-abort" => FxTransferCommand::Abort(self.abort_fx_transfer(words)?),
            "fx-get" => {
                let source = words::name(&words.option("from")?.ok_or("from whom?")?)?;
                let is_proxied = words.flag("by", "proxy");
                let fx_transfer = self.transfer_ref(&words.next("a conversion")?);
                FxTransferCommand::Get(GetFxTransfer { fx_transfer, source, is_proxied })
            }
            _ => return Ok(None),
        }))
    }

    /// `convert c1 for t1 greenbank → forex 300 BWP → 48000 TZS`, with `from`, `to`, `expires`, `no expiration`,
    /// `no condition`, `body`; `for nothing` names no transfer.
    fn convert(&mut self, words: &mut Words) -> Parsed<PrepareFxTransfer> {
        let body = words.option("body")?;
        let from = words.option("from")?;
        let to = words.option("to")?;
        let transfer = words.option("for")?.ok_or("for which transfer?")?;
        let expires = match words.flag("no", "expiration") {
            true => None,
            false => Some(words.option("expires")?.unwrap_or_else(|| "12:01:00".to_owned())),
        };
        let has_condition = !words.flag("no", "condition");
        let name = words.next("a conversion")?;
        let (initiator, _) = (words.name()?, words.next_if("→"));
        let counter_party = words.name()?;
        let source_amount = money(words)?;
        words.next_if("→");
        let target_amount = money(words)?;
        let id = self.id(&name);
        let determining_transfer = (transfer != "nothing").then(|| self.id(&transfer));
        let said = format!(
            "{name} {transfer} {initiator} {counter_party} {source_amount:?} {target_amount:?} {expires:?} \
             {has_condition} {body:?}"
        );
        let prepare = PrepareFxTransfer {
            id: FxTransferId::new(id),
            determining_transfer,
            source: from.map_or(Ok(initiator), |name| words::name(&name))?,
            destination: Some(to.map_or(Ok(counter_party), |name| words::name(&name))?),
            initiator,
            counter_party,
            source_amount,
            target_amount,
            condition: has_condition.then(|| Sha256::digest(preimage(id)).into()),
            expires_at: expires.map(|time| words::instant(&time)).transpose()?,
            fingerprint: words::digest(&said),
        };
        self.fx_transfers.entry(prepare.id).or_insert_with(|| prepare.clone());
        Ok(prepare)
    }

    /// `fx-fulfil c1 RESERVED`, with `from`, `to`, `wrong|no fulfilment`, `body`.
    fn fulfil_fx_transfer(&mut self, words: &mut Words) -> Parsed<FulfilFxTransfer> {
        let (fx_transfer, source, destination) = self.put_fx_transfer(words)?;
        let body = words.option("body")?;
        let fulfilment = if words.flag("wrong", "fulfilment") {
            Fulfilment::Preimage([0xff; 32])
        } else if words.flag("no", "fulfilment") {
            Fulfilment::Missing
        } else {
            Fulfilment::Preimage(fx_transfer.id().map_or([0; 32], preimage))
        };
        let state = match words.next("a state")?.as_str() {
            "RESERVED" => FulfilState::Reserved,
            "COMMITTED" => FulfilState::Committed,
            "RECEIVED" => FulfilState::Received,
            "ABORTED" => FulfilState::Aborted,
            other => return Err(format!("\"{other}\" is not a state of a fulfil")),
        };
        let fingerprint = words::digest(&format!("{state:?} {fulfilment:?} {body:?}"));
        Ok(FulfilFxTransfer { fx_transfer, source, destination, state, fulfilment, fingerprint })
    }

    /// `fx-abort c1 5000 "no liquidity"`, with `from`, `to`, `body`.
    fn abort_fx_transfer(&mut self, words: &mut Words) -> Parsed<AbortFxTransfer> {
        let (fx_transfer, source, destination) = self.put_fx_transfer(words)?;
        let (code, description, fingerprint) = error_of(words)?;
        Ok(AbortFxTransfer { fx_transfer, source, destination, code, description, fingerprint })
    }

    /// The common words of all PUTs. By default the FXP sends them to the initiator.
    fn put_fx_transfer(&mut self, words: &mut Words) -> Parsed<PutOf> {
        self.put_of("a conversion", words, |story, id| {
            let prepare = story.fx_transfers.get(&FxTransferId::new(id))?;
            Some((prepare.counter_party, prepare.initiator))
        })
    }

    /// `conversion c1 FULFILLED`; `unknown` if it is neither in memory nor in the archive.
    pub(super) fn fx_transfer_state(&mut self, words: &mut Words) -> Parsed<(String, String)> {
        let id = FxTransferId::new(self.id(&words.next("a conversion")?));
        let found = self.twin.live.fx_transfer(id).or_else(|| self.twin.archived_fx_transfers.get(&id));
        Ok((words.next("a state")?, found.map_or("unknown", print::fx_transfer_state).to_owned()))
    }
}

fn money(words: &mut Words) -> Parsed<AskedMoney> {
    let amount = wire_amount(&words.next("an amount")?)?;
    let code = words.next("a currency")?;
    let currency =
        upesi_types::Currency::parse(&code).ok_or_else(|| format!("\"{code}\" is not a currency"))?;
    Ok(AskedMoney { amount, currency })
}
