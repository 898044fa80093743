//! Which participants have to sign their messages.

use std::collections::HashMap;

/// What a message without its sender's signature meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignatureMode {
    /// Nothing: signatures are not looked at.
    Off,
    /// It is taken and counted, so that an operator sees who is not ready.
    Warn,
    /// It is refused with 3105.
    Enforce,
}

impl SignatureMode {
    /// Its name in settings and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warn => "warn",
            Self::Enforce => "enforce",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Off, Self::Warn, Self::Enforce].into_iter().find(|mode| mode.name() == name)
    }
}

/// The mode of each participant.
#[derive(Clone, Debug)]
pub struct SignatureModes {
    mode: SignatureMode,
    /// By the participant's name in lower case.
    exceptions: HashMap<String, SignatureMode>,
}

impl SignatureModes {
    /// Reads the mode of all, and exceptions such as `greenbank=warn, bluebank=off`.
    ///
    /// # Errors
    /// What is wrong with the exceptions.
    pub fn read(mode: &str, exceptions: &str) -> Result<Self, String> {
        let mut modes = Self {
            mode: SignatureMode::parse(mode).unwrap_or(SignatureMode::Off),
            exceptions: HashMap::new(),
        };
        for item in exceptions.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let read = item.split_once('=').and_then(|(name, mode)| {
                let name = upesi_types::FspId::parse(name.trim())?;
                Some((name.as_str().to_ascii_lowercase(), SignatureMode::parse(mode.trim())?))
            });
            let Some((name, mode)) = read else {
                return Err(format!(
                    "{item:?}: give a participant and off, warn or enforce, such as greenbank=warn"
                ));
            };
            if modes.exceptions.insert(name, mode).is_some() {
                return Err(format!("{item:?}: this participant is there twice"));
            }
        }
        Ok(modes)
    }

    /// The mode of a participant.
    pub fn of(&self, name: &str) -> SignatureMode {
        if self.exceptions.is_empty() {
            return self.mode;
        }
        self.exceptions.get(&name.to_ascii_lowercase()).copied().unwrap_or(self.mode)
    }

    /// Whether the signatures of any participant are looked at.
    pub fn verifies_any(&self) -> bool {
        self.mode != SignatureMode::Off || self.exceptions.values().any(|mode| *mode != SignatureMode::Off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_by_participant_however_its_name_is_written() {
        let modes = SignatureModes::read("enforce", "greenbank=warn, BlueBank = off,").unwrap();
        let found = ["GREENBANK", "bluebank", "redbank"].map(|name| modes.of(name));
        assert_eq!(found, [SignatureMode::Warn, SignatureMode::Off, SignatureMode::Enforce]);
        assert!(modes.verifies_any());
        assert!(SignatureModes::read("off", "greenbank=warn").unwrap().verifies_any());
        assert!(!SignatureModes::read("off", "greenbank=off").unwrap().verifies_any());
        assert!(!SignatureModes::read("off", "").unwrap().verifies_any());
    }

    #[test]
    fn what_is_no_exception_is_named() {
        for wrong in ["greenbank", "greenbank=on", "=warn", "greenbank=warn=off"] {
            let refused = SignatureModes::read("off", &format!("redbank=off, {wrong}")).unwrap_err();
            assert_eq!(
                refused,
                format!("{wrong:?}: give a participant and off, warn or enforce, such as greenbank=warn")
            );
        }
        let twice = SignatureModes::read("off", "greenbank=off,GREENBANK=warn").unwrap_err();
        assert_eq!(twice, "\"GREENBANK=warn\": this participant is there twice");
    }
}
