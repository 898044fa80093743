//! Adds and removes DFSPs of other schemes behind the proxies in front of them.

use upesi_types::FspId;

use crate::base::ids::ParticipantId;
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::scheme::participant::Participant;

type Outcome = Result<AdminOutcome, AdminRefusal>;

impl Ledger {
    pub(crate) fn decide_add_proxied(&self, proxy: &FspId, name: &FspId, out: &mut Decision) -> Outcome {
        let found = self.known_participant(proxy)?;
        if !found.is_proxy {
            return Err(AdminRefusal::NotAProxy { name: *proxy });
        }
        if !(2..=30).contains(&name.as_str().len()) {
            return Err(AdminRefusal::ParticipantName);
        }
        let proxy = found.id;
        let participant = match self.participant_named(name) {
            Some(existing) => match self.proxy_of(existing.id) {
                Some(known) if known == proxy => return Ok(AdminOutcome::AlreadyDone),
                Some(other) => {
                    let proxy = self.participant(other).name;
                    return Err(AdminRefusal::ProxiedByAnother { name: *name, proxy });
                }
                None if takes_part(existing) => {
                    return Err(AdminRefusal::ProxiedIsParticipant { name: *name });
                }
                None => existing.id,
            },
            None if self.participant_id_ignoring_case(name).is_some() => {
                return Err(AdminRefusal::ParticipantNameInOtherCase);
            }
            None if FspId::parse_new(name.as_str()).is_none() => {
                return Err(AdminRefusal::ParticipantNameUnusable);
            }
            None if self.participants().len() >= self.config.limits.participants => {
                return Err(AdminRefusal::ParticipantsFull);
            }
            None => {
                let id = self.next_participant_id();
                out.events.push(Event::ParticipantCreated { id, name: *name, is_proxy: false });
                id
            }
        };
        out.events.push(Event::ProxiedAdded { participant, proxy });
        Ok(AdminOutcome::Done)
    }

    pub(crate) fn decide_remove_proxied(&self, proxy: &FspId, name: &FspId, out: &mut Decision) -> Outcome {
        let proxy_id = self.known_participant(proxy)?.id;
        let participant = self.known_participant(name)?.id;
        if self.proxy_of(participant) != Some(proxy_id) {
            return Err(AdminRefusal::ProxiedUnknown { name: *name, proxy: *proxy });
        }
        out.events.push(Event::ProxiedRemoved { participant, proxy: proxy_id });
        Ok(AdminOutcome::Done)
    }

    /// Checks that a participant is not behind a proxy. A DFSP behind a proxy has no accounts, endpoints or bindings of
    /// its own.
    pub(crate) fn check_not_proxied(&self, found: Option<&Participant>) -> Result<(), AdminRefusal> {
        let proxied = found.and_then(|one| Some((one.name, self.proxy_of(one.id)?)));
        match proxied {
            Some((name, proxy)) => Err(AdminRefusal::IsProxied { name, proxy: self.participant(proxy).name }),
            None => Ok(()),
        }
    }
}

/// Whether a participant takes part in this scheme directly.
fn takes_part(participant: &Participant) -> bool {
    participant.id == ParticipantId::HUB
        || participant.is_proxy
        || !participant.accounts.is_empty()
        || !participant.bindings.is_empty()
}
