//! A setting, the groups in which settings are declared, and the reader that fills a group.

use std::collections::{BTreeMap, BTreeSet};

use super::kind::Kind;
use super::mistake::{Mistake, ValueOrigin};
use super::raw::Raw;

/// Name of the tables with settings of single DFSPs.
pub const DFSP: &str = "dfsp";

/// One setting of the catalogue.
#[derive(Clone, Debug)]
pub struct Setting {
    /// `section.name`.
    pub key: String,
    /// The section of the TOML file.
    pub section: &'static str,
    /// The name within the section.
    pub name: &'static str,
    /// The permitted values in words.
    pub values: String,
    /// The default, as it is written in TOML.
    pub default: String,
    /// Whether a first installation does not need the setting.
    pub is_expert: bool,
    /// Meaning of the setting, line by line.
    pub help: &'static [&'static str],
}

impl Setting {
    /// The environment variable that sets it. For a setting of a single DFSP, `NAME` stands for the DFSP.
    pub fn variable(&self) -> String {
        let dfsp = if self.section == DFSP { "__NAME" } else { "" };
        format!("UPESI__{}{dfsp}__{}", self.section.to_uppercase(), self.name.to_uppercase())
    }

    /// The help as one paragraph.
    pub fn help_text(&self) -> String {
        self.help.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }
}

/// A section of the TOML file.
#[derive(Debug)]
pub struct Section {
    pub name: &'static str,
    /// Meaning of the section, line by line.
    pub help: &'static [&'static str],
    /// Fields of its group with a fixed value, which are not settings of this section: name and value.
    pub fixed: &'static [(&'static str, &'static str)],
    /// Whether a first installation does not need the section.
    pub is_expert: bool,
}

impl Section {
    fn fixed(&self, name: &str) -> Option<&'static str> {
        self.fixed.iter().find(|(fixed, _)| *fixed == name).map(|(_, value)| *value)
    }

    /// The setting of a field of the section's group; `None` if the section fixes its value.
    pub(crate) fn setting<K: Kind>(&'static self, field: &Field) -> Option<Setting> {
        let Field { name, default, is_expert, help } = *field;
        self.fixed(name).is_none().then(|| Setting {
            key: format!("{}.{name}", self.name),
            section: self.name,
            name,
            values: K::wanted(),
            default: K::show(&read_default::<K>(name, default)).to_string(),
            is_expert: is_expert || self.is_expert,
            help,
        })
    }
}

/// A field of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub name: &'static str,
    /// The default, in the form of an environment variable's value.
    pub default: &'static str,
    pub is_expert: bool,
    pub help: &'static [&'static str],
}

/// Settings that are declared together. A section consists of one group; several sections may have the same one.
pub(crate) trait Group: Sized {
    /// Adds the settings of a section.
    fn list(section: &'static Section, settings: &mut Vec<Setting>);

    /// Reads the values in a place.
    fn read(place: SettingGroup<'_>, reader: &mut Reader) -> Self;
}

/// Adds the settings of a section: [`Group::list`] of its group.
pub(crate) type List = fn(&'static Section, &mut Vec<Setting>);

/// Where the values of a group are: a section, or a table for one DFSP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettingGroup<'a> {
    /// Beginning of the keys, without the dot.
    pub prefix: &'a str,
    pub section: &'static Section,
}

/// The value of a setting in effect.
#[derive(Clone, Debug)]
pub struct SettingValue {
    /// `section.name`, or `dfsp.NAME.name`.
    pub key: String,
    /// The name alone.
    pub name: &'static str,
    /// The value, as it is written in TOML.
    pub value: toml::Value,
    /// The source of the value.
    pub origin: ValueOrigin,
}

/// Parses the given values, each once.
#[derive(Debug)]
pub(crate) struct Reader {
    pub given: BTreeMap<String, (Raw, ValueOrigin)>,
    pub entries: Vec<SettingValue>,
    pub mistakes: Vec<Mistake>,
    /// The settings with a mistake. Their fields have the default, so that other mistakes are found, too.
    pub wrong: BTreeSet<String>,
}

impl Reader {
    pub fn new(given: BTreeMap<String, (Raw, ValueOrigin)>) -> Self {
        Self { given, entries: Vec::new(), mistakes: Vec::new(), wrong: BTreeSet::new() }
    }

    /// Reads a setting, or takes its default. A mistake is added to the list, and the default is used.
    pub fn read<K: Kind>(&mut self, place: SettingGroup<'_>, name: &'static str, default: &str) -> K::Value {
        if let Some(fixed) = place.section.fixed(name) {
            return read_default::<K>(name, fixed);
        }
        let key = format!("{}.{name}", place.prefix);
        let (value, origin) = match self.given.remove(&key) {
            None => (read_default::<K>(name, default), ValueOrigin::Default),
            Some((raw, origin)) => match K::read(&raw) {
                Ok(value) => (value, origin),
                Err(text) => {
                    self.mistakes.push(Mistake { origin: origin.clone(), text: format!("{key}: {text}") });
                    self.wrong.insert(key.clone());
                    (read_default::<K>(name, default), origin)
                }
            },
        };
        self.entries.push(SettingValue { key, name, value: K::show(&value), origin });
        value
    }
}

/// A default, or a value that a section fixes. A test reads all of them.
fn read_default<K: Kind>(name: &str, default: &str) -> K::Value {
    let read = K::read(&Raw::Plain(default.to_owned()));
    read.unwrap_or_else(|problem| unreachable!("{name} has a wrong default: {problem}"))
}

/// Declares a group: a struct, its documentation and its settings are generated from the same lines. A field is a
/// setting, with kind and default, or another group, without a default. `expert` after the default marks a setting
/// that a first installation does not need.
macro_rules! group {
    ($(
        $(#[doc = $about:literal])+
        $Name:ident {
            $($(#[doc = $help:literal])+ $field:ident: $kind:ty $(= $default:literal $($expert:ident)?)?,)+
        }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Clone, Debug)]
        pub struct $Name {
            $($(#[doc = $help])+ pub $field: $crate::setting::field_type!($kind $(, $default)?),)+
        }

        impl $crate::setting::Group for $Name {
            fn list(section: &'static $crate::setting::Section, settings: &mut Vec<$crate::setting::Setting>) {
                $($crate::setting::list_field!(
                    section, settings, [$($help),+] $kind $(, $field $default [$($expert)?])?
                );)+
            }

            fn read(place: $crate::setting::SettingGroup<'_>, reader: &mut $crate::setting::Reader) -> Self {
                Self { $($field: $crate::setting::read_field!(place, reader, $kind $(, $field $default)?),)+ }
            }
        }
    )+};
}

macro_rules! field_type {
    ($group:ty) => {
        $group
    };
    ($kind:ty, $default:literal) => {
        <$kind as $crate::kind::Kind>::Value
    };
}

macro_rules! list_field {
    ($section:ident, $settings:ident, [$($help:literal),+] $group:ty) => {
        <$group as $crate::setting::Group>::list($section, $settings)
    };
    (
        $section:ident, $settings:ident, [$($help:literal),+]
        $kind:ty, $field:ident $default:literal [$($expert:ident)?]
    ) => {
        $settings.extend($section.setting::<$kind>(&$crate::setting::Field {
            name: stringify!($field),
            default: $default,
            is_expert: $crate::setting::is_expert!($($expert)?),
            help: &[$($help),+],
        }))
    };
}

macro_rules! read_field {
    ($place:ident, $reader:ident, $group:ty) => {
        <$group as $crate::setting::Group>::read($place, $reader)
    };
    ($place:ident, $reader:ident, $kind:ty, $field:ident $default:literal) => {
        $reader.read::<$kind>($place, stringify!($field), $default)
    };
}

macro_rules! is_expert {
    () => {
        false
    };
    (expert) => {
        true
    };
}

/// Declares the sections: name, group, and the fields of the group that this section fixes.
macro_rules! sections {
    ($(
        $(#[doc = $help:literal])+
        $section:ident: $Group:ident $({ $($fixed:ident = $value:literal),+ })? $($expert:ident)?,
    )+) => {
        /// The settings of a hub, parsed and validated.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $($(#[doc = $help])+ pub $section: $Group,)+
            /// Settings of single DFSPs.
            pub dfsps: Vec<Dfsp>,
        }

        /// The sections, in the order of the documentation.
        pub static SECTIONS: &[$crate::setting::Section] = &[$($crate::setting::Section {
            name: stringify!($section),
            help: &[$($help),+],
            fixed: &[$($((stringify!($fixed), $value)),+)?],
            is_expert: $crate::setting::is_expert!($($expert)?),
        },)+];

        impl Settings {
            /// Reads the sections and the tables of these DFSPs.
            pub(crate) fn read(dfsps: &[FspId], reader: &mut $crate::setting::Reader) -> Self {
                let mut sections = SECTIONS.iter();
                let mut place = || {
                    let section = sections.next().unwrap_or_else(|| unreachable!("a section for each group"));
                    $crate::setting::SettingGroup { prefix: section.name, section }
                };
                Self {
                    $($section: <$Group as $crate::setting::Group>::read(place(), reader),)+
                    dfsps: dfsps.iter().map(|name| Dfsp::read(*name, reader)).collect(),
                }
            }
        }

        fn list_sections(settings: &mut Vec<$crate::setting::Setting>) {
            let lists: &[$crate::setting::List] = &[$(<$Group as $crate::setting::Group>::list),+];
            for (section, list) in SECTIONS.iter().zip(lists) {
                list(section, settings);
            }
        }
    };
}

pub(crate) use {field_type, group, is_expert, list_field, read_field, sections};
