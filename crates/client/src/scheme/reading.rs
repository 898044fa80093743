//! Parses and checks a whole scheme file: every mistake is found before anything is changed.

mod fees;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;
use upesi_http::{Target, check_address};
use upesi_jws::SubmittedKey;
use upesi_ledger::{
    Binding, BindingKind, Delay, EndpointType, Granularity, Interchange, Limits, SettlementModel,
};
use upesi_process::hints::{nearest, other_language};
use upesi_tls::read_client_certificate;
use upesi_types::text::url_part;
use upesi_types::{Amount, Currency, FspId};

use super::beside;
use super::file::{self, AccountTerms, Dfsp, Model, Scheme, SigningKey, SourceLine};
use super::mistakes::Mistakes;
use super::section::{DecimalText, Section};

const NAME_CHARS: std::ops::RangeInclusive<usize> = 2..=30;
/// The account types that can cover positions.
const COVERING_ACCOUNT_TYPES: [&str; 2] = ["SETTLEMENT", "INTERCHANGE_FEE_SETTLEMENT"];

/// Maximum size of a scheme file, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 16 << 20;

/// Parses a scheme file that names no other files. `path` is only shown in messages.
///
/// # Errors
/// Every mistake, one per line, each with file and line, in the order of the file. If the syntax is wrong, only that is
/// reported.
pub fn parse(path: &str, text: &str) -> Result<Scheme, Vec<String>> {
    check_length(path, text)?;
    Reading::new(path, text, None).read(text)
}

/// Parses a scheme file; the files that it names are in this directory or below.
///
/// # Errors
/// See [`parse`].
pub fn parse_in(directory: &Path, path: &str, text: &str) -> Result<Scheme, Vec<String>> {
    check_length(path, text)?;
    Reading::new(path, text, Some(directory)).read(text)
}

fn check_length(path: &str, text: &str) -> Result<(), Vec<String>> {
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(vec![format!("{path}: the file is longer than {FILE_BYTES_MAX} bytes")]);
    }
    Ok(())
}

/// State of parsing a scheme file.
pub(super) struct Reading<'a> {
    path: &'a str,
    /// Directory of the files that it names; without it, it may name none.
    directory: Option<&'a Path>,
    mistakes: Mistakes<'a>,
}

/// A currency's code and the terms of its account; without terms after a mistake.
type AccountEntry = (String, Option<AccountTerms>);

/// Defaults of DFSPs.
#[derive(Default)]
struct Defaults {
    base_url: Option<Spanned<String>>,
    accounts: Vec<AccountEntry>,
    endpoints: Vec<(String, Spanned<String>)>,
}

impl<'a> Reading<'a> {
    fn new(path: &'a str, text: &'a str, directory: Option<&'a Path>) -> Self {
        Self { path, directory, mistakes: Mistakes::new(path, text) }
    }

    /// The scheme, or every mistake in the order of the file.
    fn read(mut self, text: &str) -> Result<Scheme, Vec<String>> {
        let (table, errors) = DeTable::parse_recoverable(text);
        if let Some(language) = other_language(text).filter(|_| !errors.is_empty()) {
            return Err(vec![format!("{}: it looks like {language}; a scheme file is TOML", self.path)]);
        }
        for error in &errors {
            self.mistake(error.span().map_or(0, |span| span.start), error.message().trim_end());
        }
        // The parser's result for a broken line is not reported as another mistake.
        let scheme = errors.is_empty().then(|| self.scheme(Section::new(table.into_inner(), 0)));
        match scheme.flatten() {
            Some(scheme) if self.mistakes.is_empty() => Ok(scheme),
            _ => Err(self.mistakes.into_texts()),
        }
    }

    /// Records a mistake, once.
    fn mistake(&mut self, start: usize, text: impl fmt::Display) {
        self.mistakes.add(start, text);
    }

    fn place(&self, start: usize) -> SourceLine {
        self.mistakes.place(start)
    }

    fn scheme(&mut self, mut file: Section<'_>) -> Option<Scheme> {
        let name = file.required::<String>("name", &mut self.mistakes);
        let hub = file
            .optional::<String>("hub", &mut self.mistakes)
            .unwrap_or_else(|| Spanned::new(0..0, "Hub".to_owned()));
        for name in name.iter().chain([&hub]) {
            self.check_name(name);
        }
        let currencies = self.currencies(&mut file);
        let codes: Vec<Currency> = currencies.iter().map(|(currency, _)| *currency).collect();
        let mut models: Vec<Model> = Vec::new();
        for section in file.sections("model", &mut self.mistakes) {
            let model = self.model(section, &models, &codes);
            models.extend(model);
        }
        let hub_endpoints = file.texts("hub_endpoints", &mut self.mistakes);
        let hub_endpoints = self.endpoints(&hub_endpoints, hub.get_ref());
        let defaults =
            file.section("defaults", &mut self.mistakes).map(|section| self.defaults(section, &codes));
        let dfsps = self.dfsps(&mut file, &hub, &defaults.unwrap_or_default(), &codes);
        let fee_rules = self.fee_rules(&mut file, &codes);
        file.end(&mut self.mistakes);
        let hub_place = self.place(hub.span().start);
        let (name, hub) = (name?.into_inner(), hub.into_inner());
        Some(Scheme { name, hub, hub_place, currencies, models, hub_endpoints, dfsps, fee_rules })
    }

    fn currencies(&mut self, file: &mut Section<'_>) -> Vec<(Currency, SourceLine)> {
        let codes = file.required::<Vec<Spanned<String>>>("currencies", &mut self.mistakes);
        let mut currencies: Vec<(Currency, SourceLine)> = Vec::new();
        for code in codes.map(Spanned::into_inner).unwrap_or_default() {
            let (start, text) = (code.span().start, code.get_ref());
            match Currency::parse(text) {
                None => match Currency::parse(&text.to_uppercase()) {
                    Some(meant) => {
                        self.mistake(start, format!("{text:?} is not a currency code; write it as {meant}"));
                    }
                    None => self.mistake(start, format!("{text:?} is not a currency code (ISO 4217)")),
                },
                Some(currency) if currencies.iter().any(|(known, _)| *known == currency) => {
                    self.mistake(start, format!("{currency} is listed twice"));
                }
                Some(currency) => currencies.push((currency, self.place(start))),
            }
        }
        currencies
    }

    fn check_name(&mut self, name: &Spanned<String>) {
        let text = name.get_ref();
        // Existing participants may have names of an earlier version. The plan checks names of new participants.
        if !NAME_CHARS.contains(&text.len()) || FspId::parse(text).is_none() {
            let rule = "give 2 to 30 printable ASCII characters";
            self.mistake(name.span().start, format!("{text:?} is not a name: {rule}"));
        }
    }

    fn model(
        &mut self,
        mut section: Section<'_>,
        others: &[Model],
        currencies: &[Currency],
    ) -> Option<Model> {
        let start = section.start;
        let name = section.required::<String>("name", &mut self.mistakes);
        let currency = section.optional::<String>("currency", &mut self.mistakes);
        let mut text = |key, default: &str| {
            let given = section.optional::<String>(key, &mut self.mistakes);
            given.map_or_else(|| default.to_owned(), Spanned::into_inner)
        };
        let granularity = text("granularity", Granularity::Net.as_str());
        let interchange = text("interchange", Interchange::Multilateral.as_str());
        let delay = text("delay", Delay::Deferred.as_str());
        let ledger_account_type = text("ledger_account_type", "POSITION");
        let settlement_account_type = text("settlement_account_type", "SETTLEMENT");
        let mut flag =
            |key| section.optional::<bool>(key, &mut self.mistakes).is_none_or(Spanned::into_inner);
        let require_liquidity_check = flag("require_liquidity_check");
        let auto_position_reset = flag("auto_position_reset");
        section.end(&mut self.mistakes);
        let model = Model {
            name: name?.into_inner(),
            place: self.place(start),
            currency: currency.map(Spanned::into_inner),
            granularity,
            interchange,
            delay,
            require_liquidity_check,
            ledger_account_type,
            settlement_account_type,
            auto_position_reset,
        };
        self.check_model(start, &model, others, currencies);
        Some(model)
    }

    fn check_model(&mut self, start: usize, model: &Model, others: &[Model], currencies: &[Currency]) {
        let name = &model.name;
        if !NAME_CHARS.contains(&name.len()) || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            let text = format!("{name:?} is not a valid name of a model: give 2 to 30 letters and digits");
            self.mistake(start, text);
        }
        if others.iter().any(|other| other.name.eq_ignore_ascii_case(name)) {
            self.mistake(
                start,
                format!("model {name:?} is listed twice; names must differ in more than case"),
            );
        }
        let governs_same = |other: &&Model| {
            other.currency == model.currency && other.ledger_account_type == model.ledger_account_type
        };
        if let Some(other) = others.iter().find(governs_same) {
            let what = format!(
                "{} accounts {}",
                model.ledger_account_type,
                model
                    .currency
                    .as_ref()
                    .map_or_else(|| "without a currency".to_owned(), |code| format!("in {code}"))
            );
            self.mistake(start, format!("model {name}: model {} already governs {what}", other.name));
        }
        if let Some(code) = &model.currency
            && !currencies.iter().any(|currency| currency.as_str() == code)
        {
            self.mistake(start, format!("model {name}: {code:?} is not among the scheme's currencies"));
        }
        let covering = &*model.settlement_account_type;
        if !COVERING_ACCOUNT_TYPES.contains(&covering) {
            let known = COVERING_ACCOUNT_TYPES.join(" or ");
            self.mistake(
                start,
                format!("model {name}: settlement_account_type must be {known}, not {covering:?}"),
            );
        }
        if !is_kind_of_settlement(model) {
            let combination = format!("{} {} {}", model.granularity, model.interchange, model.delay);
            self.mistake(
                start,
                format!(
                    "model {name}: {combination} is not a kind of settlement; the kinds are GROSS BILATERAL IMMEDIATE, \
                     GROSS BILATERAL DEFERRED, NET BILATERAL DEFERRED and NET MULTILATERAL DEFERRED"
                ),
            );
        }
    }

    fn defaults(&mut self, mut section: Section<'_>, currencies: &[Currency]) -> Defaults {
        let base_url = section.optional("base_url", &mut self.mistakes);
        let accounts = section.tables("accounts", &mut self.mistakes).unwrap_or_default();
        let accounts = self.accounts(accounts, currencies);
        let endpoints = section.texts("endpoints", &mut self.mistakes);
        section.end(&mut self.mistakes);
        Defaults { base_url, accounts, endpoints }
    }

    fn dfsps(
        &mut self,
        file: &mut Section<'_>,
        hub: &Spanned<String>,
        defaults: &Defaults,
        currencies: &[Currency],
    ) -> Vec<Dfsp> {
        let mut dfsps: Vec<Dfsp> = Vec::new();
        for section in file.sections("dfsp", &mut self.mistakes) {
            let Some((name, dfsp)) = self.dfsp(section, defaults, currencies) else { continue };
            let others = dfsps.iter().map(|other| &other.name).chain([hub.get_ref()]);
            if let Some(other) = others.into_iter().find(|other| other.eq_ignore_ascii_case(&dfsp.name)) {
                let text = if *other == dfsp.name {
                    format!("{:?} is listed twice", dfsp.name)
                } else {
                    format!("{:?} differs from {other:?} only in case", dfsp.name)
                };
                self.mistake(name, text);
            }
            for binding in dfsp.bindings.iter().flatten() {
                let has_it = |other: &&Dfsp| other.bindings.iter().flatten().any(|one| one == binding);
                if let Some(other) = dfsps.iter().find(has_it) {
                    self.mistake(name, format!("{:?} has the binding {binding}, too", other.name));
                }
            }
            if let Some(key) = &dfsp.signature_key {
                let has_it = |other: &&Dfsp| {
                    other.signature_key.as_ref().is_some_and(|other| other.sha256 == key.sha256)
                };
                if let Some(other) = dfsps.iter().find(has_it) {
                    self.mistake(name, format!("{:?} has the same signature_key", other.name));
                }
            }
            self.check_proxied(name, &dfsp, &dfsps);
            dfsps.push(dfsp);
        }
        dfsps
    }

    /// A DFSP, and the position of its name.
    fn dfsp(
        &mut self,
        mut section: Section<'_>,
        defaults: &Defaults,
        currencies: &[Currency],
    ) -> Option<(usize, Dfsp)> {
        let name = section.required::<String>("name", &mut self.mistakes);
        let is_active = section.optional("is_active", &mut self.mistakes).map(Spanned::into_inner);
        let is_proxy = section.optional("is_proxy", &mut self.mistakes).map(Spanned::into_inner);
        let proxied =
            section.optional("proxied", &mut self.mistakes).map(|list| self.proxied(list, is_proxy));
        let base_url = section.optional("base_url", &mut self.mistakes);
        let bindings = self.bindings(&mut section);
        let signature_key = self.signature_key(&mut section);
        let own_accounts =
            section.tables("accounts", &mut self.mistakes).map(|tables| self.accounts(tables, currencies));
        let own_endpoints = section.texts("endpoints", &mut self.mistakes);
        section.end(&mut self.mistakes);
        let name = name?;
        self.check_name(&name);
        let (start, name) = (name.span().start, name.into_inner());
        let mut endpoints = BTreeMap::new();
        if let Some(base) = base_url.as_ref().or(defaults.base_url.as_ref()) {
            endpoints.extend(self.expanded(base, &name));
        }
        endpoints.extend(self.endpoints(&defaults.endpoints, &name));
        endpoints.extend(self.endpoints(&own_endpoints, &name));
        let accounts = own_accounts.as_ref().unwrap_or(&defaults.accounts);
        if accounts.is_empty() {
            let hint = "write [dfsp.accounts.CODE] or [defaults.accounts.CODE]";
            self.mistake(start, format!("{name:?} has no account: {hint}"));
        }
        let accounts = self.checked_accounts(accounts, currencies);
        let place = self.place(start);
        let dfsp =
            Dfsp { name, place, is_active, is_proxy, proxied, bindings, signature_key, accounts, endpoints };
        Some((start, dfsp))
    }

    /// The DFSPs behind a proxy.
    fn proxied(&mut self, list: Spanned<Vec<Spanned<String>>>, is_proxy: Option<bool>) -> Vec<String> {
        if is_proxy != Some(true) {
            self.mistake(list.span().start, "only a proxy has DFSPs behind it: add is_proxy = true");
        }
        let names = list.into_inner();
        for name in &names {
            self.check_name(name);
        }
        for (index, name) in names.iter().enumerate() {
            if names[..index].iter().any(|before| before.get_ref() == name.get_ref()) {
                self.mistake(name.span().start, format!("{:?} is listed twice", name.get_ref()));
            }
        }
        names.into_iter().map(Spanned::into_inner).collect()
    }

    /// Checks that each DFSP is behind one proxy only, and is not a DFSP of this scheme.
    fn check_proxied(&mut self, start: usize, dfsp: &Dfsp, others: &[Dfsp]) {
        let is_behind = |name: &String, proxy: &Dfsp| proxy.proxied.iter().flatten().any(|one| one == name);
        let own = dfsp.proxied.iter().flatten();
        for name in own.filter(|name| others.iter().chain([dfsp]).any(|other| other.name == **name)) {
            self.mistake(start, format!("{name:?} is behind {:?} and a DFSP of this scheme", dfsp.name));
        }
        for other in others {
            if is_behind(&dfsp.name, other) {
                let text = format!("{:?} is behind {:?} and a DFSP of this scheme", dfsp.name, other.name);
                self.mistake(start, text);
            }
            for name in dfsp.proxied.iter().flatten().filter(|name| is_behind(name, other)) {
                self.mistake(start, format!("{name:?} is behind {:?}, too", other.name));
            }
        }
    }

    /// The bindings in the file, and the bindings of the keys in certificates.
    fn bindings(&mut self, section: &mut Section<'_>) -> Option<Vec<Binding>> {
        let texts = section.optional::<Vec<Spanned<String>>>("bindings", &mut self.mistakes);
        let files = section.optional::<Vec<Spanned<String>>>("certificate_files", &mut self.mistakes);
        let list_start = texts.as_ref().or(files.as_ref())?.span().start;
        let texts = texts.map(Spanned::into_inner).unwrap_or_default();
        let files = files.map(Spanned::into_inner).unwrap_or_default();
        if texts.len() + files.len() > Limits::SHIPPED.bindings {
            self.mistake(list_start, format!("a DFSP has at most {} bindings", Limits::SHIPPED.bindings));
            return Some(Vec::new());
        }
        let written = texts.iter().map(|text| (text, self.binding(text))).collect::<Vec<_>>();
        let named = files.iter().map(|name| (name, self.binding_of_certificate(name))).collect::<Vec<_>>();
        let mut bindings: Vec<Binding> = Vec::new();
        for (text, binding) in written.into_iter().chain(named) {
            let Some(binding) = binding else { continue };
            if bindings.contains(&binding) {
                self.mistake(text.span().start, format!("binding {:?} is listed twice", text.get_ref()));
            } else {
                bindings.push(binding);
            }
        }
        Some(bindings)
    }

    fn binding(&mut self, text: &Spanned<String>) -> Option<Binding> {
        let (start, text) = (text.span().start, text.get_ref());
        let binding = Binding::parse(text);
        if binding.is_none() {
            let kind = text.split_once(':').and_then(|(kind, _)| BindingKind::parse(kind));
            let demand = kind.map_or_else(kinds_of_bindings, |kind| {
                format!("the value after {}: {}", kind.name(), kind.demand())
            });
            self.mistake(start, format!("{text:?} is not a binding: {demand}"));
        }
        binding
    }

    /// The binding of the key in a client certificate.
    fn binding_of_certificate(&mut self, name: &Spanned<String>) -> Option<Binding> {
        let (start, name) = (name.span().start, name.get_ref());
        let facts = self.file_beside(name).and_then(|text| read_client_certificate(text.as_bytes()));
        match facts {
            Ok(facts) => Binding::new(BindingKind::SpkiSha256, &facts.spki_sha256.to_string()),
            Err(problem) => {
                self.mistake(start, format!("certificate_files: {name:?} {problem}"));
                None
            }
        }
    }

    /// The hub decides whether keys on P-256 are accepted.
    fn signature_key(&mut self, section: &mut Section<'_>) -> Option<SigningKey> {
        let text = section.optional::<String>("signature_key", &mut self.mistakes);
        let file = section.optional::<String>("signature_key_file", &mut self.mistakes);
        let (start, what, text) = match (text, file) {
            (None, None) => return None,
            (Some(_), Some(file)) => {
                self.mistake(file.span().start, "give signature_key or signature_key_file, not both");
                return None;
            }
            (Some(text), None) => (text.span().start, "signature_key".to_owned(), Ok(text.into_inner())),
            (None, Some(file)) => {
                let name = file.get_ref();
                (file.span().start, format!("signature_key_file: {name:?}"), self.file_beside(name))
            }
        };
        let key = text.and_then(|text| {
            SubmittedKey::read(&text, true).map(|key| SigningKey { text, sha256: key.sha256 })
        });
        key.map_err(|problem| self.mistake(start, format!("{what} {problem}"))).ok()
    }

    /// The text of a file that the scheme file names, or the reason why it cannot be read.
    fn file_beside(&self, name: &str) -> Result<String, String> {
        let directory = self.directory.ok_or("is a file, and no files are read here")?;
        beside::read(directory, name)
    }

    fn accounts(&mut self, tables: Vec<(String, Section<'_>)>, currencies: &[Currency]) -> Vec<AccountEntry> {
        tables
            .into_iter()
            .map(|(code, section)| {
                if !currencies.iter().any(|currency| currency.as_str() == code) {
                    self.mistake(section.start, format!("{code:?} is not among the scheme's currencies"));
                }
                (code, self.terms(section))
            })
            .collect()
    }

    fn checked_accounts(
        &mut self,
        accounts: &[AccountEntry],
        currencies: &[Currency],
    ) -> BTreeMap<Currency, AccountTerms> {
        let known = |code: &str| currencies.iter().copied().find(|currency| currency.as_str() == code);
        accounts.iter().filter_map(|(code, terms)| Some((known(code)?, (*terms)?))).collect()
    }

    /// An amount that is not negative.
    fn amount(&mut self, key: &str, text: Spanned<DecimalText>) -> Option<Amount> {
        let (start, text) = (text.span().start, text.into_inner().0);
        match Amount::parse_decimal(&text) {
            Ok(amount) if !amount.is_negative() => return Some(amount),
            Ok(_) => self.mistake(start, format!("{key} {text} must not be negative")),
            Err(error) => self.mistake(start, format!("{key} {text:?} {error}")),
        }
        None
    }

    fn terms(&mut self, mut section: Section<'_>) -> Option<AccountTerms> {
        let cap = section.required::<DecimalText>("net_debit_cap", &mut self.mistakes);
        let alarm = section.optional::<DecimalText>("alarm_percentage", &mut self.mistakes);
        let funds = section.optional::<DecimalText>("funds", &mut self.mistakes);
        section.end(&mut self.mistakes);
        let net_debit_cap = cap.and_then(|text| self.amount("net_debit_cap", text));
        let funds = funds.map_or(Some(Amount::ZERO), |text| self.amount("funds", text));
        let alarm_start = alarm.as_ref().map_or(0, |text| text.span().start);
        let alarm_percentage = alarm.and_then(|text| self.amount("alarm_percentage", text));
        if alarm_percentage.is_some_and(|percentage| !is_percentage(percentage)) {
            self.mistake(alarm_start, "alarm_percentage must be 0 to 100 with at most two decimal places");
        }
        Some(AccountTerms { net_debit_cap: net_debit_cap?, alarm_percentage, funds: funds? })
    }

    /// The endpoints of a base URL.
    fn expanded(&mut self, base: &Spanned<String>, name: &str) -> Vec<(String, String)> {
        let url = base.get_ref().replace("{name}", &url_part(name));
        let start = base.span().start;
        if let Some(text) = stray_brace(&url, false) {
            self.mistake(start, text);
            return Vec::new();
        }
        if let Err(error) = check_address(&url).and_then(|()| Target::parse(&url)) {
            self.mistake(start, error);
            return Vec::new();
        }
        let endpoints: Vec<_> = file::endpoints_of(&url).collect();
        let refused = endpoints.iter().find_map(|(kind, value)| {
            let refusal = upesi_admin::check_endpoint(EndpointType::parse(kind)?, value).err()?;
            Some(format!("{value:?} {refusal}"))
        });
        if let Some(text) = refused {
            self.mistake(start, text);
        }
        endpoints
    }

    fn endpoints(&mut self, given: &[(String, Spanned<String>)], name: &str) -> BTreeMap<String, String> {
        let mut endpoints = BTreeMap::new();
        for (kind, value) in given {
            let text = value.get_ref().replace("{name}", name);
            let start = value.span().start;
            match EndpointType::parse(kind) {
                None => {
                    let meant = nearest(kind, EndpointType::all().map(EndpointType::name));
                    let hint = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
                    self.mistake(start, format!("{kind:?} is not an endpoint type{hint}"));
                }
                Some(known) => {
                    let stray = stray_brace(&text, true).filter(|_| known.is_url());
                    let refusal = || upesi_admin::check_endpoint(known, &text).err();
                    if let Some(text) = stray.or_else(|| refusal().map(|why| format!("{text:?} {why}"))) {
                        self.mistake(start, text);
                    }
                }
            }
            endpoints.insert(kind.clone(), text);
        }
        endpoints
    }
}

fn kinds_of_bindings() -> String {
    format!("write KIND:VALUE, where KIND is one of {}", BindingKind::ALL.map(BindingKind::name).join(", "))
}

/// The fault of the braces in a URL with the placeholder `{name}`. The hub replaces `{{these}}`, if they are allowed.
fn stray_brace(url: &str, are_filled_in: bool) -> Option<String> {
    let rest = if are_filled_in { file::without_placeholders(url) } else { url.to_owned() };
    let from = rest.find(['{', '}'])?;
    let name: String = rest[from..].trim_start_matches('{').chars().take_while(|c| *c != '}').collect();
    Some(if are_filled_in {
        format!(
            "{url:?} has an unknown {{{name}}}: the file replaces {{name}} with the DFSP's name, and the hub fills in names between \
             two braces, such as {{{{transferId}}}}"
        )
    } else {
        format!(
            "{url:?} has an unknown {{{name}}}: the only placeholder of base_url is {{name}}, the DFSP's name"
        )
    })
}

/// Whether an amount is a valid percentage: hundredths of a percent, up to 100. Amounts count ten-thousandths.
fn is_percentage(amount: Amount) -> bool {
    (0..=100 * 10_000).contains(&amount.units()) && amount.units() % 100 == 0
}

fn is_kind_of_settlement(model: &Model) -> bool {
    let parsed = (
        Granularity::parse(&model.granularity),
        Interchange::parse(&model.interchange),
        Delay::parse(&model.delay),
    );
    match parsed {
        (Some(granularity), Some(interchange), Some(delay)) => {
            SettlementModel::is_combination_allowed(granularity, interchange, delay)
        }
        _ => false,
    }
}
