//! Identity providers whose tokens the ports accept, from the settings.

use std::fmt::Write as _;

use upesi_admin::{Issuer, IssuerConfig};
use upesi_http::{ClientTls, Outbound, WorkerHandle};
use upesi_oidc::{Provider, ProviderConfig, UNKNOWN_KEY_INTERVAL};
use upesi_process::exposition::head;
use upesi_settings::{Settings, listed, roles_of_groups};
use upesi_tls::{ClientFiles, Trust};

use super::error::HubError;

/// The providers, and the purpose of their tokens.
#[derive(Clone, Debug)]
pub(super) struct Providers {
    /// Providers for operators.
    pub(super) issuers: Vec<Issuer>,
    /// Provider for the clients of DFSPs.
    pub(super) of_clients: Option<Provider>,
}

impl Providers {
    /// Starts the configured providers and fetches their keys from now on.
    ///
    /// # Errors
    /// If files of authorities cannot be used.
    pub(super) fn start(
        settings: &Settings,
        outbound: &Outbound,
        worker: &WorkerHandle,
    ) -> Result<Self, HubError> {
        let oauth = &settings.oauth;
        let access = Access {
            name: "oauth",
            issuer: &oauth.issuer,
            anchors_file: &oauth.anchors_file,
            audience: &oauth.audience,
            clients: "",
        };
        let of_clients = (!oauth.issuer.is_empty()).then(|| access.provider(outbound)).transpose()?;
        let (issuers, of_clients) = (issuers(settings, outbound)?, of_clients.map(Provider::new));
        let all = Self { issuers, of_clients };
        for (_, provider) in all.named() {
            worker.spawn(provider.clone().keep_keys());
        }
        Ok(all)
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, &Provider)> {
        let of_operators = self.issuers.iter().map(|issuer| (issuer.label(), issuer.provider()));
        of_operators.chain(self.of_clients.iter().map(|provider| ("oauth", provider)))
    }

    /// Writes the metric of the providers, if there are any.
    pub(super) fn write(&self, text: &mut String) {
        if self.named().next().is_none() {
            return;
        }
        let name = "upesi_identity_provider_failing";
        head(
            text,
            name,
            "gauge",
            "1 while the keys of an identity provider cannot be fetched and cached keys stay in use",
        );
        for (label, provider) in self.named() {
            let failing = u64::from(provider.fault().is_some());
            // Writing into a String does not fail.
            let _ = writeln!(text, "{name}{{provider=\"{label}\"}} {failing}");
        }
    }
}

/// Connection to the provider of a section, and the audience of its tokens.
struct Access<'a> {
    name: &'static str,
    issuer: &'a str,
    anchors_file: &'a str,
    audience: &'a str,
    clients: &'a str,
}

impl Access<'_> {
    fn provider(&self, outbound: &Outbound) -> Result<ProviderConfig, HubError> {
        Ok(ProviderConfig {
            issuer: self.issuer.to_owned(),
            audience: self.audience.to_owned(),
            clients: listed(self.clients),
            unknown_key_interval: UNKNOWN_KEY_INTERVAL,
            outbound: outbound.clone(),
            tls: self.tls()?,
        })
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

/// A section for operators.
struct Section<'a> {
    access: Access<'a>,
    /// Prefix of its operators' names.
    label: &'static str,
    name_claim: &'a str,
    groups_claim: &'a str,
    roles: &'a str,
    participant_claim: Option<&'a str>,
    approval_age_s: u64,
    approval_methods: &'a str,
}

fn issuers(settings: &Settings, outbound: &Outbound) -> Result<Vec<Issuer>, HubError> {
    let (staff, dfsps) = (&settings.oidc, &settings.oidc_dfsps);
    let sections = [
        Section {
            access: Access {
                name: "oidc",
                issuer: &staff.issuer,
                anchors_file: &staff.anchors_file,
                audience: &staff.audience,
                clients: &staff.clients,
            },
            label: "oidc",
            name_claim: &staff.name_claim,
            groups_claim: &staff.groups_claim,
            roles: &staff.roles,
            participant_claim: None,
            approval_age_s: staff.approval_age_s,
            approval_methods: &staff.approval_methods,
        },
        Section {
            access: Access {
                name: "oidc_dfsps",
                issuer: &dfsps.issuer,
                anchors_file: &dfsps.anchors_file,
                audience: &dfsps.audience,
                clients: &dfsps.clients,
            },
            label: "dfsp",
            name_claim: &dfsps.name_claim,
            groups_claim: &dfsps.groups_claim,
            roles: &dfsps.roles,
            participant_claim: Some(&dfsps.participant_claim),
            approval_age_s: 0,
            approval_methods: "",
        },
    ];
    // Without authentication, no provider is used.
    let is_asked = settings.admin.authentication == "required";
    let named = sections.iter().filter(|section| is_asked && !section.access.issuer.is_empty());
    named.map(|section| section.issuer(outbound)).collect()
}

impl Section<'_> {
    fn issuer(&self, outbound: &Outbound) -> Result<Issuer, HubError> {
        Ok(Issuer::new(IssuerConfig {
            label: self.label,
            provider: self.access.provider(outbound)?,
            name_claim: self.name_claim.to_owned(),
            groups_claim: self.groups_claim.to_owned(),
            // The settings were checked.
            roles: roles_of_groups(self.roles).unwrap_or_default(),
            participant_claim: self.participant_claim.map(str::to_owned),
            approval_age_s: i64::try_from(self.approval_age_s).ok().filter(|age_s| *age_s > 0),
            approval_methods: listed(self.approval_methods),
        }))
    }
}
