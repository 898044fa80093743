//! Shows settings: as a TOML file with origins, as JSON, as the reference of all settings.

use serde_json::json;

use super::setting::Setting;
use super::{CATALOGUE, Effective, Origin, SECTIONS};

/// Width at which the origins stand in the TOML form.
const ORIGIN_COLUMN: usize = 48;

/// A TOML file that has exactly this effect, with the origin of each value as a comment.
pub fn to_toml(effective: &Effective) -> String {
    let mut page = String::new();
    for (section, _) in SECTIONS {
        if !page.is_empty() {
            page.push('\n');
        }
        page.push_str(&format!("[{section}]\n"));
        for (setting, value, origin) in
            effective.entries.iter().filter(|(setting, ..)| setting.section == *section)
        {
            let line = format!("{} = {}", setting.name, value.to_toml());
            page.push_str(&format!("{line:<ORIGIN_COLUMN$} # {origin}\n"));
        }
    }
    page
}

/// One JSON array; each element has `key`, `value` and `origin`.
pub fn to_json(effective: &Effective) -> String {
    let entries: Vec<_> = effective
        .entries
        .iter()
        .map(|(setting, value, origin)| {
            let origin = match origin {
                Origin::Default => json!({"kind": "default"}),
                Origin::File { path, line } => json!({"kind": "file", "path": path, "line": line}),
                Origin::Environment(name) => json!({"kind": "environment", "name": name}),
                Origin::Flag(flag) => json!({"kind": "flag", "flag": flag}),
            };
            json!({"key": setting.key, "value": value.to_json(), "origin": origin})
        })
        .collect();
    format!("{:#}\n", serde_json::Value::from(entries))
}

/// Every setting with its default, values and meaning, as Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "# Configuration\n\n\
         `upesi serve` needs no configuration. Settings come from, later ones winning:\n\n\
         1. the defaults below;\n\
         2. a TOML file, named with `--config FILE` or the variable `UPESI_CONFIG`;\n\
         3. environment variables `UPESI__SECTION__NAME`, such as `UPESI__FSPIOP__LISTEN=0.0.0.0:4000`;\n\
         4. flags: `--data`, `--fspiop`, `--admin`, `--log-level`, `--log-format`, and `--set section.name=value` for \
         any\n   setting.\n\n\
         Everything is validated before a port is bound or a file is made. Every mistake is named with its place, and\n\
         the command ends with code 64.\n\n\
         `upesi config` prints the settings in effect with the origin of each, as a TOML file that can be used again;\n\
         `--json` prints them for programs.\n\n\
         Units stand in the names: `_ms` milliseconds, `_s` seconds, `_bytes` bytes. Numbers may have underscores: \
         `5_242_880`.\n",
    );
    for (section, help) in SECTIONS {
        let help: Vec<_> = help.iter().map(|line| line.trim()).collect();
        page.push_str(&format!("\n## [{section}]\n\n{}\n\n", help.join("\n")));
        page.push_str("| name | default | values | meaning |\n|---|---|---|---|\n");
        for setting in CATALOGUE.iter().filter(|setting| setting.section == *section) {
            page.push_str(&row(setting));
        }
    }
    page
}

fn row(setting: &Setting) -> String {
    let default = match setting.kind.read(&super::Raw::Plain(setting.default.to_owned())) {
        Ok(value) => value.to_toml(),
        Err(_) => setting.default.to_owned(),
    };
    let values =
        setting.kind.to_string().replace("a whole number from ", "").replace("a text of at most ", "text, ");
    format!("| `{}` | `{default}` | {values} | {} |\n", setting.name, setting.help_text())
}
