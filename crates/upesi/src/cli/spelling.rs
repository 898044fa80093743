//! Old spellings of commands. They work for one release, and the new spelling is printed.

use std::ffi::OsString;

use upesi_process::terminal::note;

use super::help::is_group;

/// The old spellings, each with the new one.
const OLD: [(&[&str], &[&str]); 5] = [
    (&["audit", "trail"], &["trail"]),
    (&["audit", "verify"], &["trail", "verify"]),
    (&["completions"], &["help", "completions"]),
    (&["man"], &["help", "man"]),
    (&["exit-codes"], &["help", "exit-codes"]),
];

/// The arguments in the new spelling. Prints it on stderr if they have an old one.
pub fn renewed(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let words: Vec<&str> = arguments.iter().skip(1).map_while(|one| one.to_str()).collect();
    let Some((length, new)) = new_spelling(&words) else { return arguments };
    let old = words[..length].join(" ");
    note(format_args!(
        "`upesi {old}` is now `upesi {}`; the old spelling works for one more release",
        new.join(" ")
    ));
    let new: Vec<OsString> = new.into_iter().map(OsString::from).collect();
    arguments.splice(1..=length, new);
    arguments
}

/// The number of words of an old spelling, and the new spelling.
fn new_spelling(words: &[&str]) -> Option<(usize, Vec<String>)> {
    let old = OLD.iter().find(|(old, _)| words.starts_with(old));
    if let Some((old, new)) = old {
        return Some((old.len(), owned(new)));
    }
    let commands = words.iter().take_while(|word| !word.starts_with('-') && **word != "help").count();
    if words.get(commands) != Some(&"help") {
        return None;
    }
    let (group, rest) = (&words[..commands], &words[commands + 1..]);
    if group.is_empty() {
        // The manual of a command with an old spelling. The topics of `upesi help` have their new one.
        let (length, new) = new_spelling(rest).filter(|(_, new)| new[0] != "help")?;
        return Some((length + 1, [vec!["help".to_owned()], new].concat()));
    }
    // `upesi scheme help apply` is `upesi help scheme apply`.
    is_group(group).then(|| (commands + 1, [vec!["help".to_owned()], owned(group)].concat()))
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_spellings_have_a_new_one() {
        for (old, new) in [
            ("audit trail DIR --json", "trail DIR --json"),
            ("audit verify EXPORT", "trail verify EXPORT"),
            ("completions bash", "help completions bash"),
            ("man --out DIR", "help man --out DIR"),
            ("exit-codes", "help exit-codes"),
            ("help audit trail", "help trail"),
            ("scheme help apply", "help scheme apply"),
            ("lab help", "help lab"),
        ] {
            let arguments = |text: &str| -> Vec<OsString> {
                format!("upesi {text}").split(' ').map(OsString::from).collect()
            };
            assert_eq!(renewed(arguments(old)), arguments(new), "{old}");
            assert_eq!(renewed(arguments(new)), arguments(new), "{new}");
        }
    }

    #[test]
    fn other_arguments_stay_as_they_are() {
        for same in [
            "",
            "audit DIR",
            "audit DIR trail",
            "serve --data help",
            "transfer show help",
            "help scheme apply",
            "help help",
            "--help",
        ] {
            let words: Vec<_> = same.split(' ').filter(|word| !word.is_empty()).collect();
            assert_eq!(new_spelling(&words), None, "{same}");
        }
    }
}
