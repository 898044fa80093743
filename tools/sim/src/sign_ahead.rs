//! Signatures of future transfers, made before a run.

use std::time::Duration;

use hashbrown::HashMap;
use upesi_http::{Bytes, Method};
use upesi_jws::Message;

use crate::dfsp::Dfsp;
use crate::ids::transfer_id;
use crate::message::{self, Family};
use crate::payer::Originator;
use crate::secured::{Digest, PreparedSignatures, Signature, Signing};

/// A future transfer: its number, and the indexes of payer and payee.
pub type UpcomingTransfer = (u64, usize, usize);

impl Originator {
    /// Makes the signatures of future transfers, for their prepares and fulfilments, on this many threads. All of these
    /// prepares expire that long from now. Returns the number of signatures: 0 without signatures, or if it was done
    /// before. Panics if a thread panicked.
    pub fn sign_ahead(&self, coming: &[UpcomingTransfer], threads: usize, valid: Duration) -> usize {
        let Some(signing) = &self.shared.signing else { return 0 };
        let now = message::now();
        let expiration = now.plus_ms(i64::try_from(valid.as_millis()).unwrap_or(i64::MAX));
        let mut ahead = PreparedSignatures { signatures: HashMap::default(), expiration, completed_at: now };
        let parts = coming.chunks(coming.len().div_ceil(threads.max(1)).max(1));
        let sign = |part: &[UpcomingTransfer]| -> Vec<(Digest, Signature)> {
            part.iter().flat_map(|one| self.signatures(signing, &ahead, *one)).collect()
        };
        let made: Vec<_> = std::thread::scope(|scope| {
            let sign = &sign;
            let signers: Vec<_> = parts.map(|part| scope.spawn(move || sign(part))).collect();
            let join = |signer: std::thread::ScopedJoinHandle<'_, _>| {
                signer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            signers.into_iter().flat_map(join).collect()
        });
        ahead.signatures.extend(made);
        let count = ahead.signatures.len();
        if signing.ahead.set(ahead).is_ok() { count } else { 0 }
    }

    fn signatures(
        &self,
        signing: &Signing,
        ahead: &PreparedSignatures,
        coming: UpcomingTransfer,
    ) -> Vec<(Digest, Signature)> {
        let (number, payer, payee) = coming;
        let (payer, payee) = (&self.shared.dfsps[payer], &self.shared.dfsps[payee]);
        let id = transfer_id(self.options.seed, self.options.nonce, number);
        let prepare = self.body(&id, payer, payee, &self.terms, ahead.expiration);
        let fulfilment = self.shared.secret.fulfilment(&id);
        let fulfil = message::fulfil_body(
            Family::Transfers,
            &fulfilment,
            ahead.completed_at,
            payee.settings().flavour,
        );
        let messages = [
            (payer, payee, Method::POST, "transfers".to_owned(), prepare),
            (payee, payer, Method::PUT, format!("transfers/{id}"), fulfil),
        ];
        let sign = |(sender, receiver, method, path, body): (&Dfsp, &Dfsp, Method, String, Bytes)| {
            let uri = self.shared.way(receiver.name.as_str(), &path).uri;
            let message = Message {
                uri: uri.path(),
                method: method.as_str(),
                source: sender.name.as_str(),
                destination: Some(receiver.name.as_str()),
                date: None,
            };
            let key = signing.key(sender);
            let draft = key.draft(message, &body).ok()?;
            let signature = key.signature(&draft).ok()?;
            Some((draft.digest().try_into().ok()?, signature.into_boxed_slice()))
        };
        messages.into_iter().filter_map(sign).collect()
    }
}
