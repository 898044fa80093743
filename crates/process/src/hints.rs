//! Hints for mistakes in what operators write: the known name closest to a misspelt one, and the language of a file
//! that is not TOML.

/// The candidate closest to `name`, if it is close enough to be a misspelling.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near_enough = 1 + name.len() / 4;
    candidates
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= near_enough)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edit distance: number of letters to add, remove, replace or swap with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut before = vec![0; right.len() + 1];
    let mut previous: Vec<usize> = (0..=right.len()).collect();
    for (row, from) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, to) in right.iter().enumerate() {
            let replaced = previous[column] + usize::from(from != to);
            let mut cost = replaced.min(previous[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *from == right[column - 1] && left[row - 1] == *to {
                cost = cost.min(before[column - 1] + 1);
            }
            current.push(cost);
        }
        before = std::mem::replace(&mut previous, current);
    }
    previous[right.len()]
}

/// The language of a text that begins like JSON or YAML instead of TOML. YAML begins with `---`, a list item, or a name
/// and a colon.
pub fn other_language(text: &str) -> Option<&'static str> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let is_name = |name: &str| {
        let name = name.trim_matches(['"', '\'']);
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let key = line.split_once(':').filter(|(_, rest)| rest.is_empty() || rest.starts_with(' '));
    match line {
        "---" => Some("YAML"),
        _ if line.starts_with('{') => Some("JSON"),
        _ if line.starts_with("- ") || key.is_some_and(|(name, _)| is_name(name)) => Some("YAML"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_only_similar_names() {
        let known = ["listen", "workers", "body_bytes_max", "head_bytes_max"];
        for (name, expected) in [
            ("listne", Some("listen")),
            ("worker", Some("workers")),
            ("body_byte_max", Some("body_bytes_max")),
            ("head_max", None),
            ("port", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
    }
}
