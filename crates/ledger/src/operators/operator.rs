//! Operators: the accounts of the admin API that the hub manages itself.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Debug, Display, Formatter};

use OperatorRole as R;
use upesi_types::{Timestamp, hex};

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::ids::ParticipantId;
use crate::base::show::{Names, PrintedValue, Show};
use crate::base::stored::{Stored, stored_struct};
use crate::operators::user_credential::UserCredential;

/// Maximum number of operators of a hub.
pub const OPERATORS_MAX: usize = 1_000;
/// Maximum number of credentials of an operator.
pub const CREDENTIALS_MAX: usize = 8;
pub const OPERATOR_NAME_BYTES_MAX: usize = 64;
/// Longest lifetime of a token, in days.
pub const TOKEN_DAYS_MAX: i64 = 366;
/// Longest lifetime of an enrolment token, in hours.
pub const ENROLMENT_HOURS_MAX: i64 = 72;

/// A role of an operator. The admin API defines the permissions of each role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperatorRole {
    /// Reads data.
    Viewer,
    /// Reads metrics and health.
    Monitor,
    /// Searches transfers and redelivers callbacks.
    Support,
    /// Manages participants, endpoints, bindings and windows.
    Operations,
    /// Approves proposals of operations.
    OperationsApprover,
    /// Manages funds, limits and settlement.
    Treasury,
    /// Approves proposals of the treasury.
    TreasuryApprover,
    /// Manages bindings and the process.
    SecurityOfficer,
    /// Manages operators, their roles and credentials.
    IamAdmin,
    /// Reads everything, including the audit trail.
    Auditor,
    /// A user at a DFSP, with read access to the DFSP's own data.
    DfspUser,
    /// A program at a DFSP, which reads the DFSP's own data.
    DfspMachine,
}

impl OperatorRole {
    /// Every role, in the order of the stored numbers.
    pub const ALL: [Self; 12] = [
        R::Viewer,
        R::Monitor,
        R::Support,
        R::Operations,
        R::OperationsApprover,
        R::Treasury,
        R::TreasuryApprover,
        R::SecurityOfficer,
        R::IamAdmin,
        R::Auditor,
        R::DfspUser,
        R::DfspMachine,
    ];

    /// The role's name, as operators write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Monitor => "monitor",
            Self::Support => "support",
            Self::Operations => "operations",
            Self::OperationsApprover => "operations-approver",
            Self::Treasury => "treasury",
            Self::TreasuryApprover => "treasury-approver",
            Self::SecurityOfficer => "security-officer",
            Self::IamAdmin => "iam-admin",
            Self::Auditor => "auditor",
            Self::DfspUser => "dfsp-user",
            Self::DfspMachine => "dfsp-machine",
        }
    }

    /// Finds the role with a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Whether the role is for users and programs of a DFSP, which see only the DFSP's own data.
    pub const fn is_of_dfsp(self) -> bool {
        matches!(self, Self::DfspUser | Self::DfspMachine)
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// Pairs of roles that no operator can have together. Proposers do not approve, managers of operators do not move
/// money, and auditors change nothing.
pub const EXCLUSIONS: &[(OperatorRole, OperatorRole)] = &[
    (R::Operations, R::OperationsApprover),
    (R::Treasury, R::TreasuryApprover),
    (R::IamAdmin, R::Operations),
    (R::IamAdmin, R::OperationsApprover),
    (R::IamAdmin, R::Treasury),
    (R::IamAdmin, R::TreasuryApprover),
    (R::Auditor, R::Support),
    (R::Auditor, R::Operations),
    (R::Auditor, R::OperationsApprover),
    (R::Auditor, R::Treasury),
    (R::Auditor, R::TreasuryApprover),
    (R::Auditor, R::SecurityOfficer),
    (R::Auditor, R::IamAdmin),
];

/// A set of roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperatorRoles(u16);

impl OperatorRoles {
    /// Whether the set contains a role.
    pub const fn has(self, role: OperatorRole) -> bool {
        self.0 & role.bit() != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The roles in the set, in order.
    pub fn iter(self) -> impl Iterator<Item = OperatorRole> {
        OperatorRole::ALL.into_iter().filter(move |role| self.has(*role))
    }

    /// Two roles in the set that cannot be combined, if any.
    pub fn excluded(self) -> Option<(OperatorRole, OperatorRole)> {
        EXCLUSIONS.iter().copied().find(|(one, other)| self.has(*one) && self.has(*other))
    }
}

impl FromIterator<OperatorRole> for OperatorRoles {
    fn from_iter<I: IntoIterator<Item = OperatorRole>>(roles: I) -> Self {
        Self(roles.into_iter().fold(0, |bits, role| bits | role.bit()))
    }
}

impl Display for OperatorRoles {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (index, role) in self.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { ", " }, role.name())?;
        }
        Ok(())
    }
}

impl Stored for OperatorRoles {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u16(self.0);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        let bits = decoder.u16()?;
        if bits >> OperatorRole::ALL.len() != 0 {
            return Err(DecodeError("unknown role"));
        }
        Ok(Self(bits))
    }
}

impl Show for OperatorRoles {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::List(self.iter().map(|role| PrintedValue::Text(Cow::Borrowed(role.name()))).collect())
    }

    fn describe(&self, _names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A secret that proves that a client is an operator. Only a digest is stored, so the stored secret cannot be used to
/// log in.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// SHA-256 of a token.
    Token([u8; 32]),
    /// SHA-256 of a token that only permits a user to set a password and a second factor.
    Enrolment([u8; 32]),
}

impl Secret {
    /// The kind of the secret.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Token(_) => "token",
            Self::Enrolment(_) => "enrolment",
        }
    }

    /// The digest that identifies the secret.
    pub const fn digest(&self) -> &[u8; 32] {
        match self {
            Self::Token(digest) | Self::Enrolment(digest) => digest,
        }
    }

    /// The beginning of the digest, which identifies the secret in output.
    fn fingerprint(&self) -> String {
        hex(&self.digest()[..4])
    }
}

impl Debug for Secret {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.fingerprint())
    }
}

impl Stored for Secret {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u8(match self {
            Self::Token(_) => 1,
            Self::Enrolment(_) => 2,
        });
        self.digest().encode(encoder);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        match decoder.u8()? {
            1 => Ok(Self::Token(decoder.array()?)),
            2 => Ok(Self::Enrolment(decoder.array()?)),
            _ => Err(DecodeError("unknown kind of credential")),
        }
    }
}

/// A credential of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The credential's number; it is never reused for the same operator.
    pub id: u32,
    /// The secret that proves that a client is the operator.
    pub secret: Secret,
    pub created_at: Timestamp,
    /// The end of the credential's validity.
    pub expires_at: Timestamp,
}

stored_struct! {
    Credential { id, secret, created_at, expires_at }
    Operator { name, roles, participant, is_active, created_at, credentials, next_credential, person }
}

impl Credential {
    /// Whether the credential has expired.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }
}

impl Show for Credential {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Fields(vec![
            ("credentialId", self.id.show()),
            ("kind", PrintedValue::Text(Cow::Borrowed(self.secret.kind()))),
            ("fingerprint", PrintedValue::Text(Cow::Owned(self.secret.fingerprint()))),
            ("expires", self.expires_at.show()),
        ])
    }

    fn describe(&self, _names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.secret.kind(), self.id, self.secret.fingerprint())
    }
}

/// An account of the admin API for a user or a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    pub name: Box<str>,
    pub roles: OperatorRoles,
    /// The DFSP that the operator belongs to; `None` for an operator of the hub.
    pub participant: Option<ParticipantId>,
    /// Whether the operator may do anything.
    pub is_active: bool,
    pub created_at: Timestamp,
    pub credentials: Vec<Credential>,
    /// Number of the operator's next credential.
    pub next_credential: u32,
    /// Password and second factor, if the operator is a user who logs in at the hub.
    pub person: Option<UserCredential>,
}

/// Whether a name is valid for an operator: 1 to 64 of a–z, 0–9 and `. _ - @`, beginning with a letter or digit.
pub fn is_operator_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=OPERATOR_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().next().is_some_and(is_plain)
        && name.bytes().all(|byte| is_plain(byte) || b"._-@".contains(&byte))
}

/// All operators.
#[derive(Clone, Debug, Default)]
pub struct Operators {
    by_name: BTreeMap<Box<str>, Operator>,
    /// The owners of secrets, by digest.
    by_digest: BTreeMap<[u8; 32], Box<str>>,
}

impl Operators {
    pub fn named(&self, name: &str) -> Option<&Operator> {
        self.by_name.get(name)
    }

    /// The operator and its credential for the digest of a token, even if expired or inactive.
    pub fn by_token(&self, digest: &[u8; 32]) -> Option<(&Operator, &Credential)> {
        self.by_digest(digest).filter(|(_, credential)| matches!(credential.secret, Secret::Token(_)))
    }

    /// The operator and its credential for the digest of an enrolment token.
    pub fn by_enrolment(&self, digest: &[u8; 32]) -> Option<(&Operator, &Credential)> {
        self.by_digest(digest).filter(|(_, credential)| matches!(credential.secret, Secret::Enrolment(_)))
    }

    /// The owner of a secret of any kind.
    pub(crate) fn by_digest(&self, digest: &[u8; 32]) -> Option<(&Operator, &Credential)> {
        let operator = self.named(self.by_digest.get(digest)?)?;
        let credential = operator.credentials.iter().find(|one| one.secret.digest() == digest)?;
        Some((operator, credential))
    }

    /// The operators, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Operator> {
        self.by_name.values()
    }

    pub(crate) fn set(&mut self, now: Timestamp, changed: OperatorFields) {
        let OperatorFields { name, roles, participant, is_active } = changed;
        match self.by_name.get_mut(&name) {
            Some(operator) => {
                operator.roles = roles;
                operator.is_active = is_active;
            }
            None => {
                let created = Operator {
                    name: name.clone(),
                    roles,
                    participant,
                    is_active,
                    created_at: now,
                    credentials: Vec::new(),
                    next_credential: 1,
                    person: None,
                };
                self.by_name.insert(name, created);
            }
        }
    }

    pub(crate) fn add_credential(&mut self, name: &str, credential: Credential) {
        self.by_digest.insert(*credential.secret.digest(), name.into());
        let operator = self.known(name);
        assert!(credential.id == operator.next_credential, "credentials are numbered without gaps");
        operator.next_credential += 1;
        operator.credentials.push(credential);
    }

    pub(crate) fn remove_credential(&mut self, name: &str, id: u32) {
        let operator = self.known(name);
        let removed = operator.credentials.extract_if(.., |one| one.id == id).next();
        if let Some(credential) = removed {
            self.by_digest.remove(credential.secret.digest());
        }
        let operator = self.known(name);
        operator.person = operator.person.filter(|person| person.id != id);
    }

    pub(crate) fn set_person(&mut self, name: &str, person: UserCredential) {
        let operator = self.known(name);
        assert!(person.id == operator.next_credential, "credentials are numbered without gaps");
        operator.next_credential += 1;
        operator.person = Some(person);
    }

    pub(crate) fn use_code(&mut self, name: &str, code_step: u64) {
        let person = &mut self.known(name).person;
        let person = person.as_mut().unwrap_or_else(|| panic!("operator {name} has no second factor"));
        assert!(code_step > person.code_step, "a code is used once");
        person.code_step = code_step;
    }

    fn known(&mut self, name: &str) -> &mut Operator {
        self.by_name.get_mut(name).unwrap_or_else(|| panic!("operator {name} was never created"))
    }

    pub(crate) fn restore(operators: Vec<Operator>) -> Decoded<Self> {
        let mut restored = Self::default();
        for operator in operators {
            let in_order = restored.by_name.last_key_value().is_none_or(|(last, _)| *last < operator.name);
            if !in_order {
                return Err(DecodeError("it has operators twice or out of order"));
            }
            for digest in operator.credentials.iter().map(|one| one.secret.digest()) {
                if restored.by_digest.insert(*digest, operator.name.clone()).is_some() {
                    return Err(DecodeError("two operators have the same token"));
                }
            }
            restored.by_name.insert(operator.name.clone(), operator);
        }
        Ok(restored)
    }
}

/// The fields of an operator that a change sets.
pub(crate) struct OperatorFields {
    pub(crate) name: Box<str>,
    pub(crate) roles: OperatorRoles,
    pub(crate) participant: Option<ParticipantId>,
    pub(crate) is_active: bool,
}

/// Shows the kind and the beginning of the digest.
impl Show for Secret {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Text(Cow::Owned(alloc::format!("{self:?}")))
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn roles_are_found_by_name_and_bit() {
        for (index, role) in OperatorRole::ALL.into_iter().enumerate() {
            assert_eq!(OperatorRole::parse(role.name()), Some(role));
            assert_eq!(role as usize, index, "{role:?}");
        }
        let roles = OperatorRoles::from_iter([OperatorRole::Treasury, OperatorRole::Viewer]);
        assert_eq!(format!("{roles}"), "viewer, treasury");
        assert_eq!(roles.excluded(), None);
    }

    #[test]
    fn each_pair_of_the_table_is_excluded_and_no_role_alone_is() {
        for (one, other) in EXCLUSIONS {
            assert_eq!(
                OperatorRoles::from_iter([*other, *one, OperatorRole::Viewer]).excluded(),
                Some((*one, *other))
            );
        }
        for role in OperatorRole::ALL {
            assert_eq!(OperatorRoles::from_iter([role]).excluded(), None, "{role:?}");
        }
    }

    #[test]
    fn operator_names_have_restricted_characters() {
        for (name, expected) in [
            ("amina", true),
            ("amina.w@bank-1.example", true),
            ("0", true),
            ("", false),
            ("Amina", false),
            ("-amina", false),
            ("amina w", false),
            ("amína", false),
            (&"a".repeat(64), true),
            (&"a".repeat(65), false),
        ] {
            assert_eq!(is_operator_name(name), expected, "{name}");
        }
    }

    #[test]
    fn secrets_print_as_their_kind_and_the_beginning_of_their_digest() {
        assert_eq!(format!("{:?}", Secret::Token([0xef; 32])), "token efefefef");
    }
}
