//! Identity providers whose tokens the ports accept, from the settings.

use std::fmt::Write as _;
use std::path::Path;

use upesi_admin::{Issuer, IssuerConfig};
use upesi_http::{ClientTls, Outbound, WorkerHandle};
use upesi_keys::read_private;
use upesi_oidc::{ClientSecret, LoginClient, Provider, ProviderConfig, UNKNOWN_KEY_INTERVAL};
use upesi_process::exposition::head;
use upesi_settings::{OperatorProvider, Provider as ProviderSettings, Requirement, Settings};
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
        let of_clients = provider_of("oauth", &settings.oauth.provider, &[], outbound)?;
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

/// The provider of a section, and the audience of its tokens.
fn provider_of(
    section: &str,
    provider: &ProviderSettings,
    clients: &[String],
    outbound: &Outbound,
) -> Result<Option<ProviderConfig>, HubError> {
    let Some(issuer) = provider.issuer.clone() else { return Ok(None) };
    let audience = provider.audience.clone();
    Ok(Some(ProviderConfig {
        issuer,
        // The checks of the settings ensure that an issuer has an audience.
        audience: audience
            .ok_or_else(|| HubError::Settings(format!("{section}.issuer needs an audience")))?,
        clients: clients.to_vec(),
        unknown_key_interval: UNKNOWN_KEY_INTERVAL,
        outbound: outbound.clone(),
        tls: provider.anchors_file.as_deref().map(|anchors| tls(section, anchors)).transpose()?,
        login: None,
    }))
}

/// The hub as a client that logs users in to the console.
fn login(
    section: &str,
    label: &str,
    own: &OperatorProvider,
    settings: &Settings,
) -> Result<Option<LoginClient>, HubError> {
    let (Some(id), Some(origin)) = (&own.login_client, settings.admin.allowed_origins.first()) else {
        return Ok(None);
    };
    let secret = own.login_secret_file.as_deref().map(|file| secret(section, file)).transpose()?;
    let redirect_uri = format!("{origin}{}", upesi_console::login_return_path(label));
    Ok(Some(LoginClient { id: id.clone(), secret, scopes: own.login_scopes.clone(), redirect_uri }))
}

/// The secret in a file: one line.
fn secret(section: &str, file: &Path) -> Result<ClientSecret, HubError> {
    let refused = |why: String| HubError::Settings(format!("{section}.login_secret_file: {why}"));
    let bytes = read_private(file).map_err(|error| refused(error.to_string()))?;
    let not_one = || refused(format!("{}: must contain the secret as one line of text", file.display()));
    let text = String::from_utf8(bytes).map_err(|_| not_one())?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    let is_one = !line.is_empty() && !line.contains(char::is_control);
    if is_one { Ok(ClientSecret::new(line.to_owned())) } else { Err(not_one()) }
}

fn tls(section: &str, anchors_file: &Path) -> Result<ClientTls, HubError> {
    let anchors_file = anchors_file.to_owned();
    let servers = Trust { anchors_file, crl_file: None, refuses_stale_crls: false };
    let tls = ClientTls::load(ClientFiles { servers, identity: None });
    tls.map_err(|error| HubError::Settings(format!("{section}.anchors_file: {error}")))
}

/// The providers for operators.
fn issuers(settings: &Settings, outbound: &Outbound) -> Result<Vec<Issuer>, HubError> {
    // Without authentication, no provider is used.
    if settings.admin.authentication == Requirement::Off {
        return Ok(Vec::new());
    }
    // The label is the prefix of its operators' names.
    let sections = [("oidc", "oidc", &settings.oidc), ("oidc_dfsps", "dfsp", &settings.oidc_dfsps)];
    let mut issuers = Vec::new();
    for (section, label, own) in sections {
        let OperatorProvider { provider, clients, name_claim, groups_claim, roles, .. } = own;
        let Some(provider) = provider_of(section, provider, clients, outbound)? else { continue };
        let provider = ProviderConfig { login: login(section, label, own, settings)?, ..provider };
        issuers.push(Issuer::new(IssuerConfig {
            label,
            provider,
            name_claim: name_claim.clone(),
            groups_claim: groups_claim.clone(),
            roles: roles.clone(),
            participant_claim: own.participant_claim.clone(),
            approval_age_s: (own.approval_age_s > 0).then_some(own.approval_age_s),
            approval_methods: own.approval_methods.clone(),
        }));
    }
    Ok(issuers)
}
