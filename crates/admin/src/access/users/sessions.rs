//! Sessions of users: in memory, limited in time and number.

use std::collections::BTreeMap;
use std::net::IpAddr;

use upesi_ledger::OperatorRoles;
use upesi_types::{FspId, Timestamp, hex};

use super::super::Token;

/// Time after which an idle session ends.
pub(crate) const IDLE_MS: i64 = 15 * 60_000;
/// Maximum duration of a session.
const ABSOLUTE_MS: i64 = 10 * 3_600_000;
/// Maximum age of the last code for approvals.
pub(crate) const FACTOR_MS: i64 = 5 * 60_000;
/// Maximum number of sessions of an operator; the oldest ends.
const SESSIONS_OF_OPERATOR_MAX: usize = 8;
/// Maximum number of all sessions; the one that was idle for longest ends. The number of users of an identity provider
/// is not limited by the ledger.
const SESSIONS_MAX: usize = 4_096;

/// How a session was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionOrigin {
    /// By a password, with its number. The session ends with that password.
    Password(u32),
    /// By an identity provider.
    Provider(ProviderLogin),
}

/// A login at an identity provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProviderLogin {
    /// The provider's label.
    pub(crate) provider: &'static str,
    /// The user's DFSP.
    pub(crate) participant: Option<FspId>,
    /// Time at which the user authenticated there (`auth_time`), in seconds since 1970, if the provider reports it.
    pub(crate) authenticated_at_s: Option<i64>,
    /// Methods of that authentication (`amr`).
    pub(crate) methods: Box<[Box<str>]>,
}

/// A session of a logged-in user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// Its id: the beginning of its token's digest.
    pub(crate) id: Box<str>,
    pub(crate) operator: Box<str>,
    pub(crate) origin: SessionOrigin,
    /// The roles of the operator at the login. The session of a password ends when they change.
    pub(crate) roles: OperatorRoles,
    /// Address of the login.
    pub(crate) address: IpAddr,
    pub(crate) opened_at: Timestamp,
    pub(crate) used_at: Timestamp,
    /// Time of the last code, or of the login with an identity provider.
    pub(crate) factor_at: Timestamp,
}

impl Session {
    /// Time of the session's end, unless a request extends it before.
    pub(crate) fn ends_at(&self) -> Timestamp {
        self.used_at.plus_ms(IDLE_MS).min(self.opened_at.plus_ms(ABSOLUTE_MS))
    }

    /// Whether the last code is recent enough to approve.
    pub(crate) fn may_approve(&self, now: Timestamp) -> bool {
        now.ms_since(self.factor_at) <= FACTOR_MS
    }
}

pub(crate) fn id_of(token: &Token) -> Box<str> {
    hex(&token.digest()[..6]).into()
}

/// All sessions, by the digests of their tokens.
#[derive(Debug, Default)]
pub(super) struct Sessions(BTreeMap<[u8; 32], Session>);

impl Sessions {
    pub(super) fn open(&mut self, token: &Token, session: Session) {
        self.0.retain(|_, known| known.ends_at() > session.opened_at);
        let own = |known: &Session| known.operator == session.operator;
        while self.0.values().filter(|known| own(known)).count() >= SESSIONS_OF_OPERATOR_MAX {
            let own = self.0.iter().filter(|(_, known)| own(known));
            let Some(oldest) = own.min_by_key(|(_, known)| known.used_at).map(|(digest, _)| *digest) else {
                break;
            };
            self.0.remove(&oldest);
        }
        if self.0.len() >= SESSIONS_MAX {
            let oldest = self.0.iter().min_by_key(|(_, known)| known.used_at).map(|(digest, _)| *digest);
            oldest.map(|digest| self.0.remove(&digest));
        }
        self.0.insert(token.digest(), session);
    }

    /// The session of a token; counts as its use. `None` if there is none, or if it has ended.
    pub(super) fn by_token(&mut self, token: &Token, now: Timestamp) -> Option<Session> {
        let digest = token.digest();
        let session = self.0.get_mut(&digest)?;
        if session.ends_at() <= now {
            self.0.remove(&digest);
            return None;
        }
        session.used_at = now.max(session.used_at);
        Some(session.clone())
    }

    /// The sessions that have not ended.
    pub(super) fn list(&self, now: Timestamp) -> Vec<Session> {
        self.0.values().filter(|session| session.ends_at() > now).cloned().collect()
    }

    /// Changes a session; false if there is none.
    pub(super) fn change(&mut self, id: &str, change: impl FnOnce(&mut Session)) -> bool {
        self.0.values_mut().find(|session| *session.id == *id).map(change).is_some()
    }

    /// Ends the sessions that match a condition.
    pub(super) fn end(&mut self, which: impl Fn(&Session) -> bool) {
        self.0.retain(|_, session| !which(session));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_all_sessions_is_limited() {
        let mut sessions = Sessions::default();
        let first = open(&mut sessions, "idle", 0);
        for number in 0..SESSIONS_MAX {
            open(&mut sessions, &format!("user-{number}"), 1);
        }
        assert_eq!(sessions.0.len(), SESSIONS_MAX);
        assert!(sessions.by_token(&first, at(1)).is_none());
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_ms(1_000_000_000 + minute * 60_000)
    }

    fn open(sessions: &mut Sessions, operator: &str, minute: i64) -> Token {
        let token = Token::session().unwrap();
        let session = Session {
            id: id_of(&token),
            operator: operator.into(),
            origin: SessionOrigin::Password(1),
            roles: OperatorRoles::default(),
            address: IpAddr::from([192, 0, 2, 1]),
            opened_at: at(minute),
            used_at: at(minute),
            factor_at: at(minute),
        };
        sessions.open(&token, session);
        token
    }

    #[test]
    fn session_ends_when_idle_and_after_ten_hours() {
        let mut sessions = Sessions::default();
        let (idle, busy) = (open(&mut sessions, "amina", 0), open(&mut sessions, "amina", 0));
        assert!(sessions.by_token(&idle, at(14)).is_some());
        assert!(sessions.by_token(&idle, at(29)).is_none() && sessions.by_token(&idle, at(29)).is_none());
        assert!(sessions.by_token(&busy, at(14)).is_some());
        for minute in (28..600).step_by(14) {
            assert!(sessions.by_token(&busy, at(minute)).is_some(), "{minute}");
        }
        assert_eq!(sessions.list(at(599)).len(), 1);
        assert!(sessions.list(at(600)).is_empty() && sessions.by_token(&busy, at(600)).is_none());
        assert!(sessions.by_token(&Token::session().unwrap(), at(0)).is_none());
    }

    #[test]
    fn sessions_of_an_operator_are_limited_and_ended_ones_removed() {
        let mut sessions = Sessions::default();
        let first = open(&mut sessions, "amina", 0);
        let other = open(&mut sessions, "brian", 0);
        for _ in 0..SESSIONS_OF_OPERATOR_MAX {
            open(&mut sessions, "amina", 1);
        }
        assert!(sessions.by_token(&first, at(1)).is_none() && sessions.by_token(&other, at(1)).is_some());
        assert_eq!(sessions.0.len(), SESSIONS_OF_OPERATOR_MAX + 1);
        open(&mut sessions, "chris", 60);
        assert_eq!(sessions.0.len(), 1);
    }

    #[test]
    fn session_may_approve_within_five_minutes_of_a_code() {
        let mut sessions = Sessions::default();
        let token = open(&mut sessions, "amina", 0);
        let session = sessions.by_token(&token, at(0)).unwrap();
        assert!(session.may_approve(at(5)) && !session.may_approve(at(5).plus_ms(1)));
        assert!(sessions.change(&session.id, |session| session.factor_at = at(5)));
        assert!(sessions.by_token(&token, at(6)).unwrap().may_approve(at(10)));
        assert!(!sessions.change("nosuch", |_| unreachable!()));
    }
}
