//! Signatures made before a run: an RSA signature takes longer than all that a hub does about a transfer, so load whose
//! messages are signed as they leave would measure its own signing.

use std::time::Duration;

use hashbrown::HashMap;
use upesi_http::{Bytes, Method};
use upesi_jws::Message;
use upesi_types::Timestamp;

use crate::dfsp::Dfsp;
use crate::message::{self, Family, IdText};
use crate::payer::{Originator, transfer_id};
use crate::secured::Signing;
use crate::upstream::Resource;

/// Bytes of the digests that are signed.
const DIGEST_BYTES: usize = 32;

type Digest = [u8; DIGEST_BYTES];
type Signature = Box<[u8]>;

/// Signatures by the digest of what they sign, and the instants that the messages name.
#[derive(Debug)]
pub(crate) struct Ahead {
    signatures: HashMap<Digest, Signature, foldhash::fast::RandomState>,
    /// When the prepares expire.
    pub expiration: Timestamp,
    /// When the payees say that they completed.
    pub completed_at: Timestamp,
}

impl Ahead {
    pub fn find(&self, digest: &[u8]) -> Option<&[u8]> {
        let digest: &Digest = digest.try_into().ok()?;
        self.signatures.get(digest).map(|signature| &**signature)
    }
}

/// A transfer to come: its number, and the indexes of payer and payee.
pub type Coming = (u64, usize, usize);

impl Originator {
    /// Makes the signatures of transfers to come, of their prepares and of their fulfilments, on so many threads. All
    /// of these prepares expire that long from now. Returns how many signatures were made: none without signatures, or
    /// if it was done before.
    ///
    /// # Panics
    /// A thread panicked.
    pub fn sign_ahead(&self, coming: &[Coming], threads: usize, valid: Duration) -> usize {
        let Some(signing) = &self.shared.signing else { return 0 };
        let now = message::now();
        let expiration = now.plus_ms(i64::try_from(valid.as_millis()).unwrap_or(i64::MAX));
        let mut ahead = Ahead { signatures: HashMap::default(), expiration, completed_at: now };
        let parts = coming.chunks(coming.len().div_ceil(threads.max(1)).max(1));
        let sign = |part: &[Coming]| -> Vec<(Digest, Signature)> {
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

    fn signatures(&self, signing: &Signing, ahead: &Ahead, coming: Coming) -> Vec<(Digest, Signature)> {
        let (number, payer, payee) = coming;
        let (payer, payee) = (&self.shared.dfsps[payer], &self.shared.dfsps[payee]);
        let id = transfer_id(self.options.seed, self.options.nonce, number);
        let id_text = IdText::new(&id);
        let prepare = self.body(&id, payer, payee, &self.terms, ahead.expiration);
        let fulfilment = self.shared.secret.fulfilment(&id);
        let fulfil = message::fulfil_body(
            Family::Transfers,
            &fulfilment,
            ahead.completed_at,
            payee.settings().flavour,
        );
        let messages = [
            (payer, payee, Method::POST, Resource::Transfers, prepare),
            (payee, payer, Method::PUT, Resource::Transfer(&id_text), fulfil),
        ];
        let sign =
            |(sender, receiver, method, resource, body): (&Dfsp, &Dfsp, Method, Resource<'_>, Bytes)| {
                let (_, uri) = self.shared.way(receiver.name.as_str(), resource);
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
