//! Requests about which only counts who sends them.

use upesi_fspiop::Operation;

use super::World;
use super::message::{Message, Sent, Terms};
use super::secure::Caller;

/// The status of an answer, and its FSPIOP code, if it has one.
pub fn answered(world: &World, caller: &Caller, sent: &Sent) -> (u16, u16) {
    let answer = world
        .wait(caller.send(sent))
        .unwrap_or_else(|error| panic!("{} {}: {error}", sent.method, sent.path));
    let code = answer.body.split("\"errorCode\":\"").nth(1).map_or("0", |rest| &rest[..4]);
    (answer.status, code.parse().unwrap())
}

/// A payment from greenbank to bluewallet by these callers.
pub fn pay(world: &World, payer: &Caller, payee: &Caller, amount: &str) {
    let as_it_is = |message| message;
    pay_with(world, (payer, &as_it_is), (payee, &as_it_is), amount);
}

/// A caller, and what it does to its messages.
pub type By<'a> = (&'a Caller, &'a dyn Fn(Message) -> Message);

/// The same with messages that are changed before they are sent.
pub fn pay_with(world: &World, (payer, of_payer): By<'_>, (payee, of_payee): By<'_>, amount: &str) {
    let id = world.new_id();
    let terms = Terms { amount: amount.to_owned(), ..Terms::new(&id, world.now()) };
    assert_eq!(answered(world, payer, &of_payer(Message::prepare(&terms)).into_sent()), (202, 0));
    world.dfsp("bluewallet").next(&id);
    assert_eq!(answered(world, payee, &of_payee(Message::fulfil(&id, "COMMITTED")).into_sent()), (200, 0));
    world.dfsp("greenbank").next(&id);
}

/// After requests that were refused: nobody was told of them, no id is used up, and the transfer is as it was.
pub fn nothing_was_changed(world: &World, [green, blue]: [&Caller; 2], reserved: &str, new: &Terms) {
    world.expect_silence();
    assert_eq!(answered(world, blue, &Message::fulfil(reserved, "COMMITTED").into_sent()), (200, 0));
    assert_eq!(answered(world, green, &Message::prepare(new).into_sent()), (202, 0));
    world.dfsp("greenbank").next(reserved);
    world.dfsp("bluewallet").next(&new.id);
    assert_eq!(world.position("greenbank"), "15.75");
    assert_eq!(world.position("redmoney"), "0");
}

/// A message of every operation of the API, sound but for who sends it: an answer by bluewallet to greenbank,
/// everything else by greenbank to bluewallet. The transfer of `reserved` waits for its fulfil, that of `new` does not
/// exist.
pub fn of_every_operation(reserved: &str, new: &Terms) -> Vec<Message> {
    let message = |operation: Operation| {
        let (template, method) = (operation.path().template(), operation.method().as_str());
        let is_answer = matches!(method, "PUT" | "PATCH");
        let (source, destination) =
            if is_answer { ("bluewallet", "greenbank") } else { ("greenbank", "bluewallet") };
        let path = template
            .replace("{Type}", "MSISDN")
            .replace("{SubId}", "HOME")
            .replace("{SourceCurrency}", "KES")
            .replace("{TargetCurrency}", "TZS")
            .replace("{ID}", if template.contains("{Type}") { "254711000001" } else { reserved });
        match (method, template) {
            ("POST", "/transfers") => Message::prepare(new),
            ("PUT", "/transfers/{ID}") => Message::fulfil(reserved, "COMMITTED"),
            ("PUT", "/transfers/{ID}/error") => Message::abort(reserved, "5104", "not this one"),
            ("POST", "/participants/{Type}/{ID}") => {
                Message::of(method, &path, source, None, r#"{"fspId":"greenbank","currency":"KES"}"#)
            }
            ("PUT", "/parties/{Type}/{ID}") => {
                let party = r#"{"party":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"254711000001","fspId":"bluewallet"}}}"#;
                Message::of(method, &path, source, Some(destination), party)
            }
            ("GET" | "DELETE", _) => Message::of(method, &path, source, Some(destination), ""),
            _ => Message::of(method, &path, source, Some(destination), "{}"),
        }
    };
    Operation::all().map(message).collect()
}

pub fn source_of(message: &Message) -> String {
    message.headers.iter().find(|(name, _)| name == "fspiop-source").unwrap().1.clone()
}

/// Number of the journal's last record, once one more has been written by an operator.
pub fn last_record(world: &World, cap: u32) -> u64 {
    let limit = format!(
        r#"{{"currency":"KES","limit":{{"type":"NET_DEBIT_CAP","value":{cap},"alarmPercentage":80}}}}"#
    );
    world.operate("PUT", "/participants/redmoney/limits", &limit);
    let journal = world.journal();
    journal.lines().last().and_then(|line| line.split_whitespace().next()?.parse().ok()).expect(&journal)
}
