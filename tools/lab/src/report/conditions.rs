//! The conditions and settings of runs: the common ones, and for each run only the differences.

use std::collections::BTreeMap;

use crate::figures::plain;
use crate::report::run::Run;

/// A name and its text, in the order of the report.
pub(crate) type Conditions = Vec<(&'static str, String)>;

const SHARING: &str = "sharing";
/// The names, in that order.
const NAMES: [&str; 9] =
    ["cores", SHARING, "processor", "memory", "kernel", "storage", "durability", "version", "commit"];

pub(crate) fn of(run: &Run) -> Conditions {
    let member = |name: &str| run.environment.get(name).map(plain).filter(|text| !text.is_empty());
    let durable = run.durable.map(|durable| if durable { "durable" } else { "NOT durable" }.to_owned());
    let texts = [
        member("cores").map(|cores| format!("{cores} cores")),
        sharing(run),
        member("cpu"),
        member("memory_mb").map(|memory| format!("{memory} MiB")),
        member("kernel").map(|kernel| format!("Linux {kernel}")),
        member("storage").map(|storage| format!("storage {storage}")),
        member("durability").or(durable),
        member("version").map(|version| format!("version {version}")),
        member("commit").map(|commit| format!("commit {commit}")),
    ];
    NAMES.into_iter().zip(texts).filter_map(|(name, text)| Some((name, text?))).collect()
}

/// Whether hub and load generator share the cores, and whether any capacity was left; without figures, so that most
/// runs have the same text.
fn sharing(run: &Run) -> Option<String> {
    let machine = run.machine.as_ref()?;
    let whose =
        if machine.shared { "shared by hub and load generator" } else { "of the load generator alone" };
    Some(format!("{whose}, {}", if machine.full { "full" } else { "not full" }))
}

/// The common conditions: for each name the most frequent text, or the first one if two are equally frequent.
pub(crate) fn shared<'a>(all: impl Iterator<Item = &'a Conditions> + Clone) -> Conditions {
    let usual = |name: &'static str| {
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let texts = all.clone().flatten().filter(|(known, _)| *known == name);
        for (place, (_, text)) in texts.enumerate() {
            counts.entry(text).or_insert((0, place)).0 += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, (count, place))| (*count, usize::MAX - place));
        most.map(|(text, _)| (name, text.to_owned()))
    };
    NAMES.into_iter().filter_map(usual).collect()
}

pub(crate) fn differing(own: &Conditions, shared: &Conditions) -> Vec<String> {
    let find = |conditions: &Conditions, name: &str| {
        conditions.iter().find(|(known, _)| *known == name).map(|(_, text)| text.clone())
    };
    let differs = |name: &&str| find(own, name) != find(shared, name);
    // An isolated stage shares the cores with no other program, and its own text contains this.
    let said =
        |name: &str| find(own, name).or_else(|| (name != SHARING).then(|| format!("{name} does not apply")));
    NAMES.into_iter().filter(differs).filter_map(said).collect()
}

pub(crate) fn text(conditions: &Conditions) -> String {
    conditions.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(cores: &str, durability: Option<&str>) -> Conditions {
        let durability = durability.map(|text| ("durability", text.to_owned()));
        [("cores", cores.to_owned())].into_iter().chain(durability).collect()
    }

    #[test]
    fn missing_sharing_condition_is_not_a_difference() {
        let alone = conditions("2 cores", None);
        let mut beside = alone.clone();
        beside.push((SHARING, "shared".to_owned()));
        assert_eq!(differing(&alone, &beside), Vec::<String>::new());
        assert_eq!(differing(&beside, &alone), ["shared"]);
    }

    #[test]
    fn common_conditions_are_reported_once() {
        let all = [
            conditions("2 cores", None),
            conditions("2 cores", Some("synced")),
            conditions("2 cores", Some("synced")),
            conditions("4 cores", Some("none")),
        ];
        let shared = shared(all.iter());
        assert_eq!(text(&shared), "2 cores · synced");
        let texts: Vec<_> = all.iter().map(|own| differing(own, &shared).join("; ")).collect();
        assert_eq!(texts, ["durability does not apply", "", "", "4 cores; none"]);
        assert_eq!(
            super::shared([conditions("a", None), conditions("b", None)].iter()),
            [("cores", "a".to_owned())]
        );
    }
}
