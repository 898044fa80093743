//! Requests of operators.

use upesi_ledger::command::{
    Deposit, EndpointValue, FundsAction, FundsEnd, FundsPrepare, NewSettlementModel, NewSignatureKey,
};
use upesi_ledger::{
    AccountId, AdminCommand, BindingKind, Block, ChangeSet, Delay, EndpointType, FundsDirection, Granularity,
    Interchange, KEY_OVERLAP_HOURS, PublicKeyDer, SIGNATURE_KEY_BYTES_MAX, SetChange,
};
use upesi_types::{Amount, Currency, FspId};

use super::actions::policy;
use super::words::{Parsed, Words};
use super::{Story, fees, words};

impl Story {
    /// An operator's command, if the verb is one.
    pub(super) fn admin_command(&mut self, verb: &str, words: &mut Words) -> Parsed<Option<AdminCommand>> {
        Ok(Some(match verb {
            "create" => create(words)?,
            "open" => open(words)?,
            "limit" => AdminCommand::SetLimit {
                alarm_basis_points: basis_points(words.option("alarm")?)?,
                name: words.name()?,
                net_debit_cap: words.amount()?,
                currency: words.currency()?,
            },
            "endpoint" => AdminCommand::SetEndpoint {
                name: words.name()?,
                kind: EndpointType::parse(&words.next("a type")?).ok_or("no type of endpoint")?,
                value: words.next("a value")?.replace("LONG", &"x".repeat(512)).into(),
            },
            "endpoints" => endpoints(words)?,
            "fund" => self.deposit(words)?,
            "set" => self.change_set(words)?,
            "bind" => {
                let (name, (kind, value)) = (words.name()?, binding(words)?);
                AdminCommand::AddBinding { name, kind, value }
            }
            "unbind" => {
                let (name, (kind, value)) = (words.name()?, binding(words)?);
                AdminCommand::RemoveBinding { name, kind, value }
            }
            "sign" => signature_key(words)?,
            "revoke" => {
                let (name, key) = (words.name()?, public_key(words)?);
                AdminCommand::RevokeSignatureKey { name, sha256: key.sha256() }
            }
            "block" => AdminCommand::SetBlock { block: block(words)? },
            "lift" => AdminCommand::LiftBlock { block: block(words)? },
            "proxied" => {
                let (name, proxy) = (words.name()?, words.name()?);
                AdminCommand::AddProxied { proxy, name }
            }
            "unproxied" => {
                let (name, proxy) = (words.name()?, words.name()?);
                AdminCommand::RemoveProxied { proxy, name }
            }
            "activate" | "deactivate" => self.activity(verb == "activate", words)?,
            "deposit" => self.prepare_funds(FundsDirection::In, words)?,
            "withdraw" => self.prepare_funds(FundsDirection::Out, words)?,
            "close" => self.close_window(words)?,
            "settle" => self.create_settlement(words)?,
            "advance" => self.advance_settlement(words)?,
            "cover" => self.move_cover(words)?,
            "abort-settlement" => self.abort_settlement(words)?,
            "end" => fees::end(words)?,
            "commit" => self.end_funds(FundsAction::Commit, words)?,
            "cancel" => self.end_funds(FundsAction::Abort, words)?,
            "policy" => policy(words)?,
            _ => return Ok(None),
        }))
    }

    /// `set NAME STEP ; STEP ; …`: an operator's steps, approved together.
    fn change_set(&mut self, words: &mut Words) -> Parsed<AdminCommand> {
        let name = words.next("a name")?.into();
        let mut changes = Vec::new();
        while let Some(mut step) = words.next_step() {
            let verb = step.next("a step")?;
            let command = self.admin_command(&verb, &mut step)?.ok_or("no step of an operator")?;
            step.finish()?;
            changes.push(SetChange::new(command));
        }
        Ok(AdminCommand::ChangeSet(ChangeSet { name, changes }))
    }

    /// `fund f1 greenbank 3000 KES`: a deposit whose account is determined when it is decided.
    fn deposit(&mut self, words: &mut Words) -> Parsed<AdminCommand> {
        let id = self.id(&words.next("a movement of funds")?);
        let (name, amount, currency) = (words.name()?, words.amount()?, words.currency()?);
        Ok(AdminCommand::Deposit(Deposit {
            id,
            name,
            amount,
            currency,
            external_reference: "bank".into(),
            reason: "fund".into(),
            extensions: None,
            fingerprint: words::digest(&format!("{amount} {currency}")),
        }))
    }

    /// `activate participant NAME`, `activate account NAME TYPE KES`, `activate model NAME`.
    fn activity(&mut self, is_active: bool, words: &mut Words) -> Parsed<AdminCommand> {
        Ok(match words.next("what")?.as_str() {
            "participant" => AdminCommand::SetParticipantActivity { name: words.name()?, is_active },
            "account" => {
                let path = words.option("account")?;
                let name = words.name()?;
                let account = match path {
                    Some(path) => self.account_path(&path)?,
                    None => self.account_id(&name, &words.next("a type")?, words.currency()?)?,
                };
                AdminCommand::SetAccountActivity { name, account, is_active }
            }
            "model" => {
                AdminCommand::SetSettlementModelActivity { name: words.next("a model")?.into(), is_active }
            }
            other => return Err(format!("\"{other}\" cannot be activated")),
        })
    }

    /// `deposit f1 greenbank 3000 KES`, with `account OWNER/TYPE/CURRENCY` in the path, `body`.
    fn prepare_funds(&mut self, direction: FundsDirection, words: &mut Words) -> Parsed<AdminCommand> {
        let body = words.option("body")?;
        let path = words.option("account")?;
        let id = self.id(&words.next("a movement of funds")?);
        let (name, amount, currency) = (words.name()?, words.amount()?, words.currency()?);
        let account = match path {
            Some(path) => self.account_path(&path)?,
            None => self.account_id(&name, "SETTLEMENT", currency)?,
        };
        let fingerprint = words::digest(&format!("{direction:?} {amount} {currency} {body:?}"));
        Ok(AdminCommand::PrepareFunds(FundsPrepare {
            direction,
            id,
            name,
            account,
            amount,
            currency,
            external_reference: "bank-1".into(),
            reason: "as the bank reported".into(),
            extensions: None,
            fingerprint,
        }))
    }

    /// `commit f1 greenbank`, `cancel f1 greenbank`, with `account OWNER/TYPE/CURRENCY` in the path.
    fn end_funds(&mut self, action: FundsAction, words: &mut Words) -> Parsed<AdminCommand> {
        let path = words.option("account")?;
        let id = self.id(&words.next("a movement of funds")?);
        let name = words.name()?;
        let account = match path {
            Some(path) => self.account_path(&path)?,
            None => self.account_id(&name, "SETTLEMENT", words.currency()?)?,
        };
        let reason = "as the bank reported".into();
        Ok(AdminCommand::EndFunds(FundsEnd { action, id, name, account, reason }))
    }

    /// `participant greenbank KES cap 5000 position 1200 funds 3000`: created, opened, funded.
    pub(super) fn onboard(&mut self, words: &mut Words) -> Parsed<()> {
        let cap = words.option("cap")?.map(|text| words::amount(&text)).transpose()?;
        let position = words.option("position")?.map_or(Ok(Amount::ZERO), |text| words::amount(&text))?;
        let funds = words.option("funds")?;
        let (name, currency) = (words.name()?, words.currency()?);
        self.must(AdminCommand::CreateParticipant { name, currency, is_proxy: false })?;
        let (net_debit_cap, initial_position) = (cap.unwrap_or(position.max(Amount::ZERO)), position);
        self.must(AdminCommand::OpenAccounts { name, currency, net_debit_cap, initial_position })?;
        if let Some(funds) = funds {
            let line = format!("funds-of-{name}-in-{currency} {name} {funds} {currency}");
            let deposit = self.prepare_funds(FundsDirection::In, &mut Words::split(&line))?;
            self.must(deposit)?;
        }
        Ok(())
    }

    pub(super) fn account_id(&self, name: &FspId, kind: &str, currency: Currency) -> Parsed<AccountId> {
        let owner = self.participant(name.as_str())?;
        let kind = self.twin.live.account_type_named(kind).ok_or("no type of account")?.id;
        owner.account(currency, kind).ok_or_else(|| format!("{name} has no such account"))
    }

    /// `OWNER/TYPE/CURRENCY`, or a number.
    pub(super) fn account_path(&self, path: &str) -> Parsed<AccountId> {
        match path.split('/').collect::<Vec<_>>()[..] {
            [owner, kind, currency] => {
                let currency = Currency::parse(currency).ok_or("no currency")?;
                self.account_id(&words::name(owner)?, kind, currency)
            }
            [number] => number.parse().ok().and_then(AccountId::new).ok_or("no account".to_owned()),
            _ => Err("an account is OWNER/TYPE/CURRENCY or a number".to_owned()),
        }
    }
}

/// `create participant NAME KES`, `create hub account KES TYPE`, `create account type NAME`, `create model …`.
fn create(words: &mut Words) -> Parsed<AdminCommand> {
    let what = words.next("what")?;
    Ok(match what.as_str() {
        "participant" => AdminCommand::CreateParticipant {
            is_proxy: words.flag("as", "proxy"),
            name: words.name()?,
            currency: words.currency()?,
        },
        "hub" if words.next_if("account") => AdminCommand::CreateHubAccount {
            name: words::name(words.option("of")?.as_deref().unwrap_or("Hub"))?,
            kind: words.next("a type")?.into(),
            currency: words.currency()?,
        },
        "account" if words.next_if("type") => AdminCommand::CreateLedgerAccountType {
            name: words.next("a name")?.into(),
            description: "for the test".into(),
            is_active: true,
            is_settleable: false,
        },
        "model" => create_model(words)?,
        "fee-rule" => fees::create(words)?,
        other => return Err(format!("\"{other}\" cannot be created")),
    })
}

/// `create model NAME CURRENCY|default`, with `settles TYPE`, `covered by TYPE`, `as DELAY-GRANULARITY-INTERCHANGE`,
/// `without liquidity-check`, `without position-reset`.
fn create_model(words: &mut Words) -> Parsed<AdminCommand> {
    let ledger_account_type = words.option("settles")?.unwrap_or_else(|| "POSITION".to_owned()).into();
    let settlement_account_type =
        words.option("covered-by")?.unwrap_or_else(|| "SETTLEMENT".to_owned()).into();
    let require_liquidity_check = !words.flag("without", "liquidity-check");
    let auto_position_reset = !words.flag("without", "position-reset");
    let combination = words.option("as")?.unwrap_or_else(|| "DEFERRED-NET-MULTILATERAL".to_owned());
    let [delay, granularity, interchange] = combination.split('-').collect::<Vec<_>>()[..] else {
        return Err("a model is DELAY-GRANULARITY-INTERCHANGE".to_owned());
    };
    Ok(AdminCommand::CreateSettlementModel(NewSettlementModel {
        name: words.next("a name")?.into(),
        granularity: Granularity::parse(granularity).ok_or("no granularity")?,
        interchange: Interchange::parse(interchange).ok_or("no interchange")?,
        delay: Delay::parse(delay).ok_or("no delay")?,
        currency: if words.next_if("default") { None } else { Some(words.currency()?) },
        require_liquidity_check,
        ledger_account_type,
        settlement_account_type,
        auto_position_reset,
    }))
}

/// `open NAME KES cap 5000`, with `position`.
fn open(words: &mut Words) -> Parsed<AdminCommand> {
    let cap = words.option("cap")?.ok_or("which cap?")?;
    let position = words.option("position")?.map_or(Ok(Amount::ZERO), |text| words::amount(&text))?;
    Ok(AdminCommand::OpenAccounts {
        name: words.name()?,
        currency: words.currency()?,
        net_debit_cap: words::amount(&cap)?,
        initial_position: position,
    })
}

/// `KIND:VALUE`, where `DIGEST` stands for 64 digits.
fn binding(words: &mut Words) -> Parsed<(BindingKind, Box<str>)> {
    let word = words.next("a binding")?.replace("DIGEST", &"0123456789ABCDEF".repeat(4));
    let (kind, value) = word.split_once(':').ok_or("no KIND:VALUE")?;
    Ok((BindingKind::parse(kind).ok_or("no kind of binding")?, value.into()))
}

/// `KIND:VALUE`, where `DIGEST` stands for 64 digits.
fn block(words: &mut Words) -> Parsed<Block> {
    let word = words.next("a block")?.replace("DIGEST", &"0123456789ABCDEF".repeat(4));
    let (kind, value) = word.split_once(':').ok_or("no KIND:VALUE")?;
    Block::parse(kind, value).ok_or_else(|| format!("{word} is not a block"))
}

/// `sign NAME KEY`, with `starts 12:00:30`, `overlap 2` in hours, `valid-from`, `valid-until`.
fn signature_key(words: &mut Words) -> Parsed<AdminCommand> {
    let instant = |text: Option<String>| text.map(|text| words::instant(&text)).transpose();
    let hours = words.option("overlap")?.map_or(Ok(KEY_OVERLAP_HOURS), |text| text.parse());
    Ok(AdminCommand::AddSignatureKey(NewSignatureKey {
        starts_at: instant(words.option("starts")?)?,
        not_before: instant(words.option("valid-from")?)?,
        not_after: instant(words.option("valid-until")?)?,
        overlap_hours: hours.map_err(|_| "no hours")?,
        name: words.name()?,
        public_key: public_key(words)?,
    }))
}

/// `endpoints NAME TYPE VALUE TYPE VALUE …`.
fn endpoints(words: &mut Words) -> Parsed<AdminCommand> {
    let (name, mut endpoints) = (words.name()?, Vec::new());
    while !words.is_empty() {
        let kind = EndpointType::parse(&words.next("a type")?).ok_or("no type of endpoint")?;
        endpoints.push(EndpointValue { kind, value: words.next("a value")?.into() });
    }
    Ok(AdminCommand::SetEndpoints { name, endpoints })
}

/// A word stands for the bytes of a key; `LONG` for too many, `""` for none.
fn public_key(words: &mut Words) -> Parsed<PublicKeyDer> {
    let word = words.next("a key")?.replace("LONG", &"x".repeat(SIGNATURE_KEY_BYTES_MAX + 1));
    Ok(PublicKeyDer(word.into_bytes().into()))
}

/// A percentage with at most two decimals, in hundredths of a percent. The default is 10.
fn basis_points(percentage: Option<String>) -> Parsed<u16> {
    let percentage = words::amount(percentage.as_deref().unwrap_or("80"))?;
    u16::try_from(percentage.units() / 100).map_err(|_| "no percentage".to_owned())
}
