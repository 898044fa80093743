//! Parties come into the hub's directory as they do in life: each DFSP registers its own over FSPIOP.

use std::sync::Arc;

use upesi_http::Workers;
use upesi_sim::ExchangeError;

use crate::drive::onboard::OnboardError;
use crate::drive::operation::Generator;
use crate::observe::tally::Step;

/// Parties of one registration: small enough for the body limits of other hubs.
const BATCH_PARTIES: u64 = 1_000;

/// Registers the parties of every DFSP, unless `is_needed` is false, and looks some of them up.
///
/// # Errors
/// When the hub does not take a registration, or a lookup does not find the DFSP that has the party.
pub(crate) async fn register(
    workers: &Arc<Workers>,
    generator: &Arc<Generator>,
    is_needed: bool,
) -> Result<(), OnboardError> {
    let generator = generator.clone();
    // The simulators' connections belong to their workers.
    let registering = workers.get(0).spawn(async move {
        for dfsp in 0..generator.names.len() {
            register_dfsp(&generator, dfsp, is_needed).await?;
        }
        Ok(())
    });
    registering.await.map_err(|_| OnboardError::Stopped)?
}

async fn register_dfsp(generator: &Generator, dfsp: usize, is_needed: bool) -> Result<(), OnboardError> {
    let (first, end) = (generator.parties_from, generator.parties_from + generator.parties);
    let mut from = first;
    while is_needed && from < end {
        let count = BATCH_PARTIES.min(end - from);
        if register_batch(generator, dfsp, from, count).await? > 0 {
            // Refused most often because it was there before. Whoever has it then has to be the right one.
            tracing::warn!(dfsp, from, count, "the hub refused to register some parties");
            for number in from..from + count {
                check(generator, dfsp, number).await?;
            }
        }
        from += count;
    }
    check(generator, dfsp, first).await?;
    check(generator, dfsp, end - 1).await
}

/// Gives how many were refused.
async fn register_batch(
    generator: &Generator,
    dfsp: usize,
    from: u64,
    count: u64,
) -> Result<usize, OnboardError> {
    let not_registered =
        |reason: ExchangeError| OnboardError::NotRegistered { dfsp: generator.names[dfsp], reason };
    let sent = generator.originator.register(dfsp, from, count).await;
    let awaiting = sent.map_err(|error| not_registered(error.into()))?;
    let answer = awaiting.answer(generator.callback_timeout).await;
    Ok(answer.result.map_err(not_registered)?.refused)
}

/// Looks a party up from another DFSP.
async fn check(generator: &Generator, dfsp: usize, number: u64) -> Result<(), OnboardError> {
    let asker = (dfsp + 1) % generator.names.len();
    match generator.discover(number, asker, dfsp, &mut None).await {
        Step::Done(_) => Ok(()),
        _ => Err(OnboardError::NotFound {
            dfsp: generator.names[dfsp],
            party: generator.originator.party(dfsp, number),
        }),
    }
}
