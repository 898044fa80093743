//! Compares the ratios between the counts of the hub's stages with the expected ratios, for each phase of an operation.
//! In a valid window, as many operations end as begin.
#![expect(clippy::float_arithmetic, reason = "ratios of counts; no money")]

use upesi_sim::{Flavour, Phase};

use crate::judge::thresholds::fails_on_purpose;
use crate::plan::options::{Role, RunOptions};
use crate::plan::scenario::Scenario;
use crate::result::LabResult;

/// Maximum deviation of a ratio from its expected value, as in Mojaloop's performance work.
const TOLERANCE: f64 = 0.02;
/// Number of operations in progress that the timeline may have missed.
const UNSEEN: f64 = 10.0;
/// The setting that sends payees a copy of their own answer: one more notification for each transfer.
const PAYEE_CONFIRMATION: &str = "--set=hub.payee_confirmation=";

/// The count of one stage divided by the count of another.
struct Ratio {
    stage: &'static str,
    per: &'static str,
    /// The right values.
    wanted: &'static [f64],
    /// Whether failed operations may explain the difference, because they reach only the first stage.
    is_before_failures: bool,
}

/// The ratios that differ from the expected ones. There are none if faults change the counts, or for stages that the
/// hub does not report.
pub(super) fn findings(options: &RunOptions, result: &LabResult) -> Vec<String> {
    let repeats = [options.behaviour.duplicate_per_mille, options.behaviour.repeat_prepare_per_mille];
    if fails_on_purpose(options) || repeats != [0; 2] {
        return Vec::new();
    }
    let operations = |name: &str| {
        let stage = result.stages.iter().find(|stage| stage.stage == name)?;
        Some(stage.operations as f64)
    };
    let under_way = under_way(options, result);
    let finding = |ratio: Ratio| {
        let (count, per) = (operations(ratio.stage)?, operations(ratio.per).filter(|per| *per > 0.0)?);
        let failed = if ratio.is_before_failures { result.failed as f64 } else { 0.0 };
        let fits = |wanted: &f64| {
            // Operations in progress at either end of the window are on one side of the ratio only.
            (count - per * wanted).abs() <= (per * TOLERANCE + under_way + failed) * wanted
        };
        if ratio.wanted.iter().any(fits) {
            return None;
        }
        let wanted = ratio.wanted.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
        let [stage, each] = [ratio.stage, ratio.per].map(|name| name.replace('_', " "));
        Some(format!("{:.3} {stage}s per {each} instead of {wanted}: the window is not steady", count / per))
    };
    ratios(options).into_iter().filter_map(finding).collect()
}

fn ratios(options: &RunOptions) -> Vec<Ratio> {
    let phases = options.phases();
    let has = |phase| phases.contains(&phase);
    // Other generators of the same hub, and parallel loads, may have other operations.
    let is_alone = options.scenario == Scenario::Payments && options.role == Role::Whole;
    let notifications = notifications(options);
    let all: [(bool, &'static str, &'static str, &'static [f64], bool); 6] = [
        (has(Phase::Lookup), "lookup_answer", "lookup", &[1.0], true),
        (has(Phase::Quote), "quote_answer", "quote", &[1.0], true),
        (is_alone, "lookup", "prepare", &[1.0], true),
        (is_alone, "quote", "prepare", &[1.0], true),
        (has(Phase::Transfer), "fulfil", "prepare", &[1.0], false),
        (has(Phase::Transfer), "notification", "prepare", notifications, false),
    ];
    let applying = all.into_iter().filter(|(applies, ..)| *applies);
    let ratio =
        |(_, stage, per, wanted, is_before_failures)| Ratio { stage, per, wanted, is_before_failures };
    applying.map(ratio).collect()
}

/// The possible numbers of notifications of a transfer: the prepare to the payee and the outcome to the payer, and in
/// some schemes a third, to the payee again.
fn notifications(options: &RunOptions) -> &'static [f64] {
    let confirmation =
        options.hub_arguments.iter().rev().find_map(|set| set.strip_prefix(PAYEE_CONFIRMATION));
    // Every hub sends the PATCH to a payee that waits for it.
    let tells_payee = options.behaviour.flavour == Flavour::Reserved || confirmation == Some("true");
    if options.scenario == Scenario::Bulks {
        // A bulk transfer has three notifications: to the payee, to the payer, and the outcome to the payee.
        &[3.0]
    } else if options.scenario == Scenario::ConvertedTransfers {
        // Two prepares each, and one more message: the FXP is notified of the outcome.
        if tells_payee { &[3.0] } else { &[2.5] }
    } else if tells_payee {
        &[3.0]
    } else if options.target.is_some() {
        // The settings of a hub that was already running are not known.
        &[2.0, 3.0]
    } else {
        &[2.0]
    }
}

/// The maximum number of operations that may have been in progress at either end of the window: twice the maximum that
/// the timeline saw at the end of any second, limited to the allowed number. An open loop allows thousands, and with
/// that number no ratio would ever be wrong.
fn under_way(options: &RunOptions, result: &LabResult) -> f64 {
    let allowed = options.load.outstanding_max() as f64;
    let rows = result.rows();
    // The operations in progress of other generators are not in this timeline.
    if rows.is_empty() || options.role == Role::Load {
        return allowed;
    }
    let mut now = 0.0;
    let at_ends = rows.iter().map(|row| {
        now += row.offered as f64 - (row.completed + row.failed) as f64;
        now
    });
    allowed.min(2.0 * at_ends.fold(0.0, f64::max) + UNSEEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::hub_metrics::{Snapshot, stages};
    use crate::plan::load_profile::Load;
    use crate::plan::target::TargetHub;
    use crate::result::schema::{Queues, StageResult, TimelineResult, TimelineRow};

    /// The hub's metrics before ten seconds of payments, cut to the counts.
    const BEFORE: &str = "\
moja_als_ing_getPartiesByTypeAndID_count{success=\"true\"} 31
moja_als_ing_getPartiesByTypeAndID_count{success=\"false\"} 2
moja_als_ing_putPartiesByTypeAndID_count{success=\"true\"} 31
moja_qs_quotes_post_count{success=\"true\"} 16
moja_qs_quotes_id_put_count{success=\"true\"} 16
moja_cl_transfer_prepare_count{success=\"true\"} 16
moja_cl_transfer_fulfil_count{success=\"true\"} 15
moja_ml_notification_event_delivery_count{serviceName=\"x\",success=\"true\",dest=\"dfsp-1\"} 20
moja_ml_notification_event_delivery_count{serviceName=\"x\",success=\"true\",dest=\"dfsp-2\"} 11
";
    /// The metrics afterwards.
    const AFTER: &str = "\
moja_als_ing_getPartiesByTypeAndID_count{success=\"true\"} 9168
moja_als_ing_getPartiesByTypeAndID_count{success=\"false\"} 2
moja_als_ing_putPartiesByTypeAndID_count{success=\"true\"} 9166
moja_qs_quotes_post_count{success=\"true\"} 9137
moja_qs_quotes_id_put_count{success=\"true\"} 9140
moja_cl_transfer_prepare_count{success=\"true\"} 9145
moja_cl_transfer_fulfil_count{success=\"true\"} 9138
moja_ml_notification_event_delivery_count{serviceName=\"x\",success=\"true\",dest=\"dfsp-1\"} 9150
moja_ml_notification_event_delivery_count{serviceName=\"x\",success=\"true\",dest=\"dfsp-2\"} 9145
";

    fn stages_of(before: &str, after: &str) -> Vec<StageResult> {
        stages(&[(Snapshot::read(before), Snapshot::read(after))], 10.0, &Queues::default())
    }

    fn payments() -> (RunOptions, LabResult) {
        let options = RunOptions { scenario: Scenario::Payments, ..RunOptions::default() };
        (options, LabResult { stages: stages_of(BEFORE, AFTER), ..LabResult::new() })
    }

    #[test]
    fn each_phase_of_a_payment_has_a_ratio() {
        let (options, result) = payments();
        assert_eq!(result.stages.len(), 7);
        assert_eq!(findings(&options, &result), Vec::<String>::new());
        for (stage, operations, text) in [
            ("lookup_answer", 8_000, "0.876 lookup answers per lookup instead of 1"),
            ("quote_answer", 8_000, "0.877 quote answers per quote instead of 1"),
            ("lookup", 10_500, "1.150 lookups per prepare instead of 1"),
            ("quote", 8_000, "0.876 quotes per prepare instead of 1"),
            ("fulfil", 8_000, "0.876 fulfils per prepare instead of 1"),
            ("notification", 20_000, "2.191 notifications per prepare instead of 2"),
        ] {
            let (options, mut result) = payments();
            let place = result.stages.iter_mut().find(|found| found.stage == stage).unwrap();
            place.operations = operations;
            let found = findings(&options, &result);
            assert!(found.iter().any(|finding| finding.starts_with(text)), "{text}: {found:?}");
            // Stages that the hub does not report are not checked.
            result.stages.retain(|found| found.stage != stage);
            assert_eq!(findings(&options, &result), Vec::<String>::new(), "{stage}");
        }
    }

    #[test]
    fn failed_payments_explain_queries_without_a_transfer() {
        let (options, mut result) = payments();
        let count = |result: &mut LabResult, stage: &str, operations| {
            result.stages.iter_mut().find(|found| found.stage == stage).unwrap().operations = operations;
        };
        count(&mut result, "lookup", 10_000);
        assert_eq!(findings(&options, &result).len(), 2, "a thousand lookups too many");
        result.failed = 900;
        assert_eq!(findings(&options, &result), Vec::<String>::new());
        // The outcome of a transfer is a separate question.
        count(&mut result, "fulfil", 8_400);
        assert_eq!(findings(&options, &result).len(), 1);
        // Another generator at the same hub may only look parties up.
        result.failed = 0;
        count(&mut result, "fulfil", 9_129);
        count(&mut result, "lookup_answer", 10_000);
        assert_eq!(findings(&options, &result).len(), 1);
        let one_of_many = RunOptions { role: Role::Load, ..options };
        assert_eq!(findings(&one_of_many, &result), Vec::<String>::new());
    }

    #[test]
    fn lookups_and_quotes_have_ratios_of_their_own() {
        for scenario in [Scenario::Lookups, Scenario::Quotes] {
            let options = RunOptions { scenario, ..RunOptions::default() };
            let (_, mut result) = payments();
            assert_eq!(findings(&options, &result), Vec::<String>::new());
            result.stages.iter_mut().filter(|stage| stage.stage.ends_with("_answer")).for_each(|stage| {
                stage.operations /= 2;
            });
            assert_eq!(findings(&options, &result).len(), 1, "{}", scenario.name());
        }
    }

    fn stage(name: &str, operations: u64) -> StageResult {
        StageResult { stage: name.to_owned(), operations, ..StageResult::default() }
    }

    fn transfers(notifications: u64) -> LabResult {
        let stages =
            vec![stage("prepare", 10_000), stage("fulfil", 9_990), stage("notification", notifications)];
        LabResult { stages, ..LabResult::new() }
    }

    #[test]
    fn only_operations_in_progress_excuse_a_ratio() {
        let load = Load::Open { rate_per_s: 1_000, outstanding_max: 10_000 };
        let options = RunOptions { load, ..RunOptions::default() };
        let row = |offered, completed| TimelineRow { offered, completed, ..TimelineRow::default() };
        let mut result = transfers(20_000);
        result.stages[1].operations = 9_500;
        assert_eq!(findings(&options, &result), Vec::<String>::new(), "without a timeline nothing is known");
        let timeline = |rows| Some(TimelineResult { rows, ..TimelineResult::default() });
        result.timeline = timeline(vec![row(1_000, 990), row(1_000, 1_000), row(1_000, 1_005)]);
        assert_eq!(findings(&options, &result).len(), 1, "ten were under way, and 500 are missing");
        result.timeline = timeline(vec![row(1_000, 800), row(1_000, 1_200)]);
        assert_eq!(findings(&options, &result), Vec::<String>::new());
    }

    #[test]
    fn notified_payees_add_a_third_notification() {
        let reserved = |options: &mut RunOptions| options.behaviour.flavour = Flavour::Reserved;
        let confirmed = |options: &mut RunOptions| {
            options.hub_arguments = vec!["--set=hub.payee_confirmation=true".to_owned()];
        };
        let unconfirmed = |options: &mut RunOptions| {
            options.hub_arguments =
                ["true", "false"].map(|flag| format!("--set=hub.payee_confirmation={flag}")).to_vec();
        };
        let target = |options: &mut RunOptions| {
            options.target = Some(TargetHub::at("http://127.0.0.1:1", "http://127.0.0.1:1"));
        };
        type Change = fn(&mut RunOptions);
        for (change, notifications, is_steady) in [
            (reserved as Change, 30_000, true),
            (reserved, 20_000, false),
            (confirmed, 30_010, true),
            (confirmed, 20_000, false),
            (unconfirmed, 20_000, true),
            (unconfirmed, 30_000, false),
            (target, 20_000, true),
            (target, 30_000, true),
            (target, 25_000, false),
        ] {
            let mut options = RunOptions::default();
            change(&mut options);
            let found = findings(&options, &transfers(notifications));
            assert_eq!(found.is_empty(), is_steady, "{notifications}: {found:?}");
        }
    }

    #[test]
    fn bulk_transfer_has_three_notifications() {
        let options = RunOptions { scenario: Scenario::Bulks, ..RunOptions::default() };
        assert_eq!(findings(&options, &transfers(30_000)), Vec::<String>::new());
        assert_eq!(findings(&options, &transfers(20_000)).len(), 1, "the payee did not receive the outcome");
    }

    #[test]
    fn fx_transfer_has_five_notifications_for_two_prepares() {
        let mut options = RunOptions { scenario: Scenario::ConvertedTransfers, ..RunOptions::default() };
        assert_eq!(findings(&options, &transfers(25_000)), Vec::<String>::new());
        let found = findings(&options, &transfers(20_000));
        assert_eq!(
            found,
            ["2.000 notifications per prepare instead of 2.5: the window is not steady"],
            "the FXP did not receive the outcome"
        );
        options.behaviour.flavour = Flavour::Reserved;
        assert_eq!(findings(&options, &transfers(30_000)), Vec::<String>::new());
    }

    #[test]
    fn faults_excuse_the_ratios() {
        let mut options = RunOptions::default();
        let mut result = transfers(20_000);
        result.stages[1].operations = 5_000;
        assert_eq!(findings(&options, &result).len(), 1);
        options.behaviour.abort_per_mille = 500;
        assert_eq!(findings(&options, &result), Vec::<String>::new());
        let mut options = RunOptions::default();
        options.behaviour.repeat_prepare_per_mille = 20;
        assert_eq!(findings(&options, &result), Vec::<String>::new());
    }
}
