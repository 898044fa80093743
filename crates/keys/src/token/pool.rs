//! A small number of sessions of a token, shared by all signers.

use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use cryptoki::context::Pkcs11;
use cryptoki::error::{Error, RvError};
use cryptoki::session::{Session, UserType};
use cryptoki::types::AuthPin;

use super::TokenSettings;
use crate::KeyError;
use crate::file::read_private;

/// The sessions of one token.
pub(super) struct Pool {
    module: Pkcs11,
    token: String,
    pin_file: PathBuf,
    sessions_max: usize,
    seats: Mutex<SessionSlots>,
    freed: Condvar,
}

#[derive(Default)]
struct SessionSlots {
    idle: Vec<Session>,
    /// Number of sessions, idle and in use.
    open: usize,
    /// Digest of a PIN that the token rejected. Some more attempts with it would lock the token.
    refused_pin: Option<Vec<u8>>,
}

/// Reason why an operation in a session failed.
pub(super) enum Failure {
    /// The PIN file cannot be used.
    Pin(KeyError),
    /// The token has already rejected this PIN.
    RefusedPin,
    /// No token has the label.
    NoToken,
    /// Several tokens have the label.
    SeveralTokens,
    Module(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Module(error)
    }
}

/// Whether an error concerns the session or the token, and not the operation.
pub(super) fn is_session_lost(error: &Error) -> bool {
    use RvError::{
        CryptokiNotInitialized, DeviceError, DeviceRemoved, SessionClosed, SessionHandleInvalid,
        TokenNotPresent, UserNotLoggedIn,
    };
    matches!(
        error,
        Error::Pkcs11(
            CryptokiNotInitialized
                | DeviceError
                | DeviceRemoved
                | SessionClosed
                | SessionHandleInvalid
                | TokenNotPresent
                | UserNotLoggedIn,
            _
        )
    )
}

impl Pool {
    pub(super) fn new(module: &Pkcs11, settings: &TokenSettings, token: &str) -> Result<Self, KeyError> {
        Ok(Self {
            module: module.clone(),
            token: token.to_owned(),
            pin_file: settings.pin_file.clone(),
            sessions_max: settings.sessions_max.max(1),
            seats: Mutex::default(),
            freed: Condvar::new(),
        })
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    pub(super) fn sessions(&self) -> usize {
        self.seats().open
    }

    /// Performs an operation in a session, and waits for one if all are in use. If the session was lost, repeats it
    /// once in a new one.
    pub(super) fn with<T>(&self, ask: impl Fn(&Session) -> Result<T, Error>) -> Result<T, Failure> {
        let mut session = self.take();
        for is_last in [false, true] {
            let open = match session {
                Some(open) => open,
                None => match self.log_in() {
                    Ok(open) => open,
                    Err(failure) => {
                        self.give_back(None);
                        return Err(failure);
                    }
                },
            };
            match ask(&open) {
                Err(error) if is_session_lost(&error) => {
                    // Earlier sessions are also lost. Closing them may fail, which does not matter.
                    drop(open);
                    self.forget_idle();
                    if is_last {
                        self.give_back(None);
                        return Err(error.into());
                    }
                    session = None;
                }
                answer => {
                    self.give_back(Some(open));
                    return answer.map_err(Failure::from);
                }
            }
        }
        unreachable!("the last turn returns")
    }

    /// The error with a description of the failure.
    pub(super) fn refused(&self, failure: &Failure) -> KeyError {
        let pin_file = self.pin_file.display();
        let problem = match failure {
            Failure::Pin(error) => error.to_string(),
            Failure::RefusedPin => {
                format!("rejected the PIN in {pin_file}, which is not tried again until the file changes")
            }
            Failure::NoToken => "is not a token of the PKCS #11 module (pkcs11.module)".to_owned(),
            Failure::SeveralTokens => "is the label of several tokens".to_owned(),
            Failure::Module(Error::Pkcs11(RvError::PinIncorrect | RvError::PinInvalid, _)) => {
                format!("rejected the PIN in {pin_file}")
            }
            Failure::Module(error) => error.to_string(),
        };
        KeyError::Token { what: format!("the token {}", self.token), problem }
    }

    /// An idle session, or permission to open one.
    fn take(&self) -> Option<Session> {
        let mut seats = self.seats();
        while seats.idle.is_empty() && seats.open >= self.sessions_max {
            seats = self.freed.wait(seats).unwrap_or_else(PoisonError::into_inner);
        }
        let session = seats.idle.pop();
        seats.open += usize::from(session.is_none());
        session
    }

    /// Returns a session, or the permission.
    fn give_back(&self, session: Option<Session>) {
        let mut seats = self.seats();
        match session {
            Some(session) => seats.idle.push(session),
            None => seats.open -= 1,
        }
        drop(seats);
        self.freed.notify_one();
    }

    fn forget_idle(&self) {
        let mut seats = self.seats();
        let lost = std::mem::take(&mut seats.idle);
        seats.open -= lost.len();
        drop(seats);
        self.freed.notify_all();
    }

    fn seats(&self) -> MutexGuard<'_, SessionSlots> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_in(&self) -> Result<Session, Failure> {
        let mut slots = Vec::new();
        for slot in self.module.get_slots_with_token()? {
            if self.module.get_token_info(slot)?.label() == self.token {
                slots.push(slot);
            }
        }
        let slot = match *slots {
            [slot] => slot,
            [] => return Err(Failure::NoToken),
            _ => return Err(Failure::SeveralTokens),
        };
        let pin = read_private(&self.pin_file).map_err(Failure::Pin)?;
        let fingerprint = digest(&SHA256, &pin).as_ref().to_vec();
        if self.seats().refused_pin.as_ref() == Some(&fingerprint) {
            return Err(Failure::RefusedPin);
        }
        let pin = AuthPin::from(String::from_utf8_lossy(&pin).trim_end_matches(['\r', '\n']).to_owned());
        let session = self.module.open_ro_session(slot)?;
        match session.login(UserType::User, Some(&pin)) {
            // All sessions of a process share one login.
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(session),
            Err(error) => {
                if matches!(error, Error::Pkcs11(RvError::PinIncorrect | RvError::PinInvalid, _)) {
                    self.seats().refused_pin = Some(fingerprint);
                }
                Err(error.into())
            }
        }
    }
}
