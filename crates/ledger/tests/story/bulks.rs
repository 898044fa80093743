//! Requests of payers and payees about bulk transfers.

use sha2::{Digest, Sha256};
use upesi_ledger::command::{AbortBulk, BulkCommand, FulfilBulk, GetBulk, PrepareBulk};
use upesi_ledger::{
    AskedItem, Bulk, Cause, Command, ItemResult, ItemState, NewItems, PublicBulkState, Refusal,
};
use upesi_types::{BulkId, Currency, ErrorCode, TransferId};

use super::Story;
use super::transfers::{PutOf, error_of, preimage, wire_amount};
use super::words::{self, Parsed, Words};

/// Maximum number of steps that `steps` takes.
const STEPS_MAX: usize = 300;

impl Story {
    /// A request about a bulk transfer, if the verb is one.
    pub(super) fn bulk_command(&mut self, verb: &str, words: &mut Words) -> Parsed<Option<BulkCommand>> {
        Ok(Some(match verb {
            "bulk" => BulkCommand::Prepare(Box::new(self.new_bulk(words)?)),
            "rebulk" => {
                let from = words.option("from")?;
                let id = BulkId::new(self.id(&words.next("a bulk")?));
                let mut prepare = self.bulks.get(&id).cloned().ok_or("nothing to resend")?;
                if let Some(from) = from {
                    prepare.source = words::name(&from)?;
                }
                BulkCommand::Prepare(Box::new(prepare))
            }
            "bulk-fulfil" => BulkCommand::Fulfil(Box::new(self.fulfil_bulk(words)?)),
            "bulk-abort" => {
                let (bulk, source, destination) = self.put_bulk(words)?;
                let (code, description, fingerprint) = error_of(words)?;
                BulkCommand::Abort(AbortBulk { bulk, source, destination, code, description, fingerprint })
            }
            "bulk-get" => {
                let source = words::name(&words.option("from")?.ok_or("from whom?")?)?;
                BulkCommand::Get(GetBulk { bulk: self.transfer_ref(&words.next("a bulk")?), source })
            }
            _ => return Ok(None),
        }))
    }

    /// `bulk b1 greenbank → bluewallet t1:10 t2:20.5:USD t3:5:KES:no-condition`, with `from`, `to`, `expires`, `body`.
    fn new_bulk(&mut self, words: &mut Words) -> Parsed<PrepareBulk> {
        let body = words.option("body")?;
        let (from, to) = (words.option("from")?, words.option("to")?);
        let expires = words.option("expires")?.unwrap_or_else(|| "12:01:00".to_owned());
        let name = words.next("a bulk")?;
        let (payer, _) = (words.name()?, words.next_if("→"));
        let payee = words.name()?;
        let mut said = format!("{name} {payer} {payee} {expires} {body:?}");
        let mut items = Vec::new();
        while !words.is_empty() {
            let item = words.next("an item")?;
            said += &item;
            items.extend(self.asked_items(&item)?);
        }
        let id = self.id(&name);
        let prepare = PrepareBulk {
            id: BulkId::new(id),
            quote: words::transfer_id(&format!("quote of {name}")),
            source: from.map_or(Ok(payer), |name| words::name(&name))?,
            destination: Some(to.map_or(Ok(payee), |name| words::name(&name))?),
            payer,
            payee,
            items: NewItems::new(items).map_err(|fault| format!("no bulk: {fault:?}"))?,
            expires_at: words::instant(&expires)?,
            fingerprint: words::digest(&said),
            extensions: Some(r#"[{"key":"run","value":"7"}]"#.into()),
        };
        self.bulks.entry(prepare.id).or_insert_with(|| prepare.clone());
        Ok(prepare)
    }

    /// `t1:10[:KES[:no-condition]]`; `t*1000:10` stands for t1 to t1000.
    fn asked_items(&mut self, text: &str) -> Parsed<Vec<(TransferId, AskedItem)>> {
        let mut parts = text.split(':');
        let (Some(name), Some(amount)) = (parts.next(), parts.next()) else {
            return Err("an item is ID:AMOUNT".to_owned());
        };
        let currency = Currency::parse(parts.next().unwrap_or("KES")).ok_or("no currency")?;
        let has_condition = parts.next() != Some("no-condition");
        let names = match name.split_once('*') {
            Some((name, count)) => {
                let count: u32 = count.parse().map_err(|_| "no number of items")?;
                (1..=count).map(|number| format!("{name}{number}")).collect()
            }
            None => vec![name.to_owned()],
        };
        let item = |name: String| {
            let id = self.id(&name);
            let asked = AskedItem {
                amount: wire_amount(amount)?,
                currency,
                ilp_packet: "DIICtgAAAAAAD0JAMjAyNDEy".into(),
                condition: has_condition.then(|| Sha256::digest(preimage(id)).into()),
                extensions: None,
            };
            Ok((id, asked))
        };
        names.into_iter().map(item).collect()
    }

    /// `bulk-fulfil b1 COMPLETED t1 t2:wrong t3:5104 t4:nothing`, with `from`, `to`, `body`, `noting KEY=VALUE`,
    /// `completed early`; `all` stands for every item.
    fn fulfil_bulk(&mut self, words: &mut Words) -> Parsed<FulfilBulk> {
        let (bulk, source, destination) = self.put_bulk(words)?;
        let body = words.option("body")?;
        let noted = words.option("noting")?;
        let fault = words.flag("completed", "early").then_some(Refusal::CompletedInFuture);
        let state = PublicBulkState::parse(&words.next("a state")?).ok_or("no state of a bulk")?;
        let mut results = Vec::new();
        let mut said = format!("{state:?} {body:?} {noted:?}");
        while !words.is_empty() {
            let item = words.next("a result")?;
            said += &item;
            let asked = bulk.id().and_then(|id| self.bulks.get(&BulkId::new(id)));
            match asked.filter(|_| item == "all") {
                Some(asked) => {
                    let fulfil = |id| (id, ItemResult::Fulfil { fulfilment: preimage(id), extensions: None });
                    results.extend(asked.items.transfers().map(fulfil));
                }
                None => results.push(self.result(&item)?),
            }
        }
        let extension = |pair: String| {
            let (key, value) = pair.split_once('=').ok_or("an extension is KEY=VALUE")?;
            Ok::<_, String>(format!(r#"[{{"key":"{key}","value":"{value}"}}]"#).into())
        };
        Ok(FulfilBulk {
            bulk,
            source,
            destination,
            state,
            fault,
            results,
            fingerprint: words::digest(&said),
            extensions: noted.map(extension).transpose()?,
        })
    }

    fn result(&mut self, text: &str) -> Parsed<(TransferId, ItemResult)> {
        let (name, said) = text.split_once(':').unwrap_or((text, ""));
        let id = self.id(name);
        let result = match said {
            "" => ItemResult::Fulfil { fulfilment: preimage(id), extensions: None },
            "wrong" => ItemResult::Fulfil { fulfilment: [0xff; 32], extensions: None },
            "noted" => {
                let extensions = Some(r#"[{"key":"paid","value":"yes"}]"#.into());
                ItemResult::Fulfil { fulfilment: preimage(id), extensions }
            }
            "nothing" => ItemResult::Abort(Refusal::BulkResultInvalid.into()),
            code => {
                let code = code.parse().ok().and_then(ErrorCode::from_number).ok_or("no error code")?;
                ItemResult::Abort(Cause::Payee { code, description: "no".into() })
            }
        };
        Ok((id, result))
    }

    /// The common words of all PUTs. By default the payee sends them to the payer.
    fn put_bulk(&mut self, words: &mut Words) -> Parsed<PutOf> {
        self.put_of("a bulk", words, |story, id| {
            let prepare = story.bulks.get(&BulkId::new(id))?;
            Some((prepare.payee, prepare.payer))
        })
    }

    /// Takes all pending steps of bulk transfers, one millisecond each. The next step of the story is on a full second
    /// again.
    pub(super) fn steps(&mut self) -> Vec<String> {
        let (start, pace_ms) = (self.clock, std::mem::replace(&mut self.pace_ms, 1));
        let mut told = Vec::new();
        for _ in 0..STEPS_MAX {
            if self.twin.live.next_bulk_step_bytes().is_none() {
                break;
            }
            told.extend(self.submit(Command::StepBulk));
        }
        self.pace_ms = pace_ms;
        self.clock = start.plus_ms(pace_ms).max(self.clock);
        told
    }

    /// `bulk-state b1 COMPLETED t1 COMMITTED, t2 REFUSED`; `unknown` if it is neither in memory nor in the archive.
    pub(super) fn bulk_state(&mut self, words: &mut Words) -> Parsed<(String, String)> {
        let id = BulkId::new(self.id(&words.next("a bulk")?));
        let mut wanted = Vec::new();
        while !words.is_empty() {
            wanted.push(words.next("a word")?);
        }
        let found = self.twin.live.bulk(id).or_else(|| self.twin.archived_bulks.get(&id));
        let told = found.map_or_else(|| "unknown".to_owned(), |bulk| self.told(bulk));
        Ok((wanted.join(" "), told))
    }

    fn told(&self, bulk: &Bulk) -> String {
        let item = |item: &upesi_ledger::BulkItem| {
            let id = item.transfer.to_string();
            let name = self.names.get(&id).cloned().unwrap_or(id);
            let state = match &item.state {
                ItemState::Waiting => "WAITING",
                ItemState::Refused(_) => "REFUSED",
                ItemState::Accepted => "ACCEPTED",
                ItemState::Committed { .. } => "COMMITTED",
                ItemState::Aborted(_) => "ABORTED",
            };
            format!("{name} {state}")
        };
        let items: Vec<_> = bulk.items.iter().map(item).collect();
        format!("{} {}", bulk.public_state().as_str(), items.join(", ")).trim().to_owned()
    }
}
