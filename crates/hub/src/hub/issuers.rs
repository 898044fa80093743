//! The identity providers whose tokens the admin port takes, by the settings.

use std::fmt::Write as _;

use upesi_admin::{Issuer, IssuerConfig, UNKNOWN_KEY_INTERVAL};
use upesi_http::{ClientTls, Outbound};
use upesi_tls::{ClientFiles, Trust};

use super::HubError;
use crate::config::{Settings, listed, roles_of_groups};
use crate::exposition::head;

/// A section of the settings.
struct Section<'a> {
    name: &'static str,
    /// What stands before the names of its people.
    label: &'static str,
    issuer: &'a str,
    anchors_file: &'a str,
    audience: &'a str,
    clients: &'a str,
    name_claim: &'a str,
    groups_claim: &'a str,
    roles: &'a str,
    participant_claim: Option<&'a str>,
    approval_age_s: u64,
    approval_methods: &'a str,
}

/// The providers that are named.
///
/// # Errors
/// Files of authorities that cannot be used.
pub(super) fn issuers(settings: &Settings, outbound: &Outbound) -> Result<Vec<Issuer>, HubError> {
    let (staff, dfsps) = (&settings.oidc, &settings.oidc_dfsps);
    let sections = [
        Section {
            name: "oidc",
            label: "oidc",
            issuer: &staff.issuer,
            anchors_file: &staff.anchors_file,
            audience: &staff.audience,
            clients: &staff.clients,
            name_claim: &staff.name_claim,
            groups_claim: &staff.groups_claim,
            roles: &staff.roles,
            participant_claim: None,
            approval_age_s: staff.approval_age_s,
            approval_methods: &staff.approval_methods,
        },
        Section {
            name: "oidc_dfsps",
            label: "dfsp",
            issuer: &dfsps.issuer,
            anchors_file: &dfsps.anchors_file,
            audience: &dfsps.audience,
            clients: &dfsps.clients,
            name_claim: &dfsps.name_claim,
            groups_claim: &dfsps.groups_claim,
            roles: &dfsps.roles,
            participant_claim: Some(&dfsps.participant_claim),
            approval_age_s: 0,
            approval_methods: "",
        },
    ];
    // Who asks nobody asks no provider.
    let is_asked = settings.admin.authentication == "required";
    let named = sections.iter().filter(|section| is_asked && !section.issuer.is_empty());
    named.map(|section| section.issuer(outbound)).collect()
}

/// The metric of the providers, if there are any.
pub(super) fn write(issuers: &[Issuer], text: &mut String) {
    if issuers.is_empty() {
        return;
    }
    let name = "upesi_identity_provider_failing";
    head(
        text,
        name,
        "gauge",
        "1 while the keys of an identity provider cannot be fetched and older ones go on",
    );
    for issuer in issuers {
        let (provider, failing) = (issuer.label(), u64::from(issuer.fault().is_some()));
        // Writing into a String does not fail.
        let _ = writeln!(text, "{name}{{provider=\"{provider}\"}} {failing}");
    }
}

impl Section<'_> {
    fn issuer(&self, outbound: &Outbound) -> Result<Issuer, HubError> {
        Ok(Issuer::new(IssuerConfig {
            label: self.label,
            issuer: self.issuer.to_owned(),
            audience: self.audience.to_owned(),
            clients: listed(self.clients),
            name_claim: self.name_claim.to_owned(),
            groups_claim: self.groups_claim.to_owned(),
            // The settings were checked.
            roles: roles_of_groups(self.roles).unwrap_or_default(),
            participant_claim: self.participant_claim.map(str::to_owned),
            approval_age_s: i64::try_from(self.approval_age_s).ok().filter(|age_s| *age_s > 0),
            approval_methods: listed(self.approval_methods),
            unknown_key_interval: UNKNOWN_KEY_INTERVAL,
            outbound: outbound.clone(),
            tls: self.tls()?,
        }))
    }

    fn tls(&self) -> Result<Option<ClientTls>, HubError> {
        if self.anchors_file.is_empty() {
            return Ok(None);
        }
        let anchors_file = self.anchors_file.into();
        let servers = Trust { anchors_file, crl_file: None, refuses_stale_crls: false };
        let tls = ClientTls::load(ClientFiles { servers, identity: None });
        tls.map(Some).map_err(|error| HubError::Settings(format!("{}.anchors_file: {error}", self.name)))
    }
}
