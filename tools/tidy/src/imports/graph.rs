//! The modules of a crate, and the arrows between them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use super::ModulePath;
use super::tokens::{self, Content, Import, Written};

/// A module uses another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    /// The module that uses.
    pub from: ModulePath,
    /// The module that is used.
    pub to: ModulePath,
    /// The used name; empty for the module itself.
    pub name: String,
    /// The file of the using module.
    pub file: PathBuf,
    pub line: usize,
}

impl Arrow {
    /// The modules directly below a parent that contain its two ends, if these are two.
    pub fn beside_each_other(&self, parent: &[String]) -> Option<(&String, &String)> {
        let [from, to] = [&self.from, &self.to].map(|path| path.strip_prefix(parent).and_then(<[_]>::first));
        from.zip(to).filter(|(from, to)| from != to)
    }
}

impl fmt::Display for Arrow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, name, file, line } = self;
        let (from, to) = (from.join("::"), to.join("::"));
        let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
        write!(formatter, "{}:{line}: {from} uses {to}{name}", file.display())
    }
}

/// The modules of a crate, and the arrows between them.
#[derive(Debug, Default)]
pub struct Graph {
    modules: Vec<Module>,
}

/// Index of a module in [`Graph::modules`]. The root is the first.
type Index = usize;

#[derive(Debug)]
struct Module {
    path: ModulePath,
    parent: Option<Index>,
    file: PathBuf,
    /// The module whose file contains this one, if this one is inline.
    of_file: Option<Index>,
    children: BTreeMap<String, Index>,
    content: Content,
}

impl Module {
    fn new(path: ModulePath, file: &Path) -> Self {
        Self {
            path,
            parent: None,
            file: file.to_owned(),
            of_file: None,
            children: BTreeMap::new(),
            content: Content::default(),
        }
    }
}

impl Graph {
    /// Reads the modules of a crate from its root file. `sources` are the files of the tree.
    ///
    /// # Panics
    /// If a file is not valid Rust.
    pub fn read(sources: &BTreeMap<PathBuf, String>, root: &Path) -> Self {
        let mut graph = Self::default();
        if let Some(text) = sources.get(root) {
            let folder = root.parent().unwrap_or(Path::new(""));
            graph.add(sources, folder, Module::new(Vec::new(), root), tokens::read(text));
        }
        graph
    }

    /// Adds a module and the modules below it. `folder` contains the files of its modules.
    fn add(
        &mut self,
        sources: &BTreeMap<PathBuf, String>,
        folder: &Path,
        module: Module,
        mut content: Content,
    ) -> Index {
        let index = self.modules.len();
        let (path, file, of_file) = (module.path.clone(), module.file.clone(), module.of_file);
        self.modules.push(module);
        for declared in std::mem::take(&mut content.modules) {
            let below: ModulePath = path.iter().cloned().chain([declared.name.clone()]).collect();
            let folder = folder.join(&declared.name);
            let child = if let Some(content) = declared.content {
                let of_file = Some(of_file.unwrap_or(index));
                let module = Module { of_file, ..Module::new(below, &file) };
                Some((module, folder, content))
            } else {
                let candidates = match &declared.path {
                    Some(path) => vec![file.parent().unwrap_or(Path::new("")).join(path)],
                    None => vec![folder.with_extension("rs"), folder.join("mod.rs")],
                };
                let found = candidates.into_iter().find_map(|path| sources.get_key_value(&path));
                found.map(|(path, text)| {
                    let folder = if path.ends_with("mod.rs") { folder } else { path.with_extension("") };
                    (Module::new(below, path), folder, tokens::read(text))
                })
            };
            if let Some((mut module, folder, content)) = child {
                module.parent = Some(index);
                let child = self.add(sources, &folder, module, content);
                self.modules[index].children.insert(declared.name, child);
            }
        }
        self.modules[index].content = content;
        index
    }

    /// The names of the modules directly below a module.
    pub fn children(&self, path: &[String]) -> Vec<String> {
        let module = self.modules.iter().find(|module| module.path == path);
        module.map(|module| module.children.keys().cloned().collect()).unwrap_or_default()
    }

    /// All arrows between files. An arrow between a file and a file below it is left out.
    pub fn arrows(&self) -> BTreeSet<Arrow> {
        let mut arrows = BTreeSet::new();
        for (index, module) in self.modules.iter().enumerate() {
            let imports = module.content.imports.iter().map(|import| &import.path);
            for written in imports.chain(&module.content.paths) {
                let Some((found, name)) = self.resolve(index, &written.segments, &mut Vec::new()) else {
                    continue;
                };
                let [from, to] = [index, found].map(|index| self.path_of_file(index));
                if from.starts_with(to) || to.starts_with(from) {
                    continue;
                }
                let (from, to) = (from.clone(), to.clone());
                let (file, line) = (module.file.clone(), written.line);
                arrows.insert(Arrow { from, to, name: name.unwrap_or_default(), file, line });
            }
        }
        arrows
    }

    /// The path of the module whose file contains a module.
    fn path_of_file(&self, index: Index) -> &ModulePath {
        &self.modules[self.modules[index].of_file.unwrap_or(index)].path
    }

    /// The module that a path from a module leads to, with the name of an item in it; `None` if the path leads out of
    /// the crate. `seen` contains the imports on the way, which may form a circle.
    fn resolve(
        &self,
        from: Index,
        segments: &[String],
        seen: &mut Vec<(Index, String)>,
    ) -> Option<(Index, Option<String>)> {
        let (first, rest) = segments.split_first()?;
        match first.as_str() {
            "crate" => self.look_up(0, rest, seen),
            "self" => self.look_up(from, rest, seen),
            "super" => {
                let mut rest = segments;
                let mut module = from;
                while let Some((_, after)) = rest.split_first().filter(|(first, _)| *first == "super") {
                    (module, rest) = (self.modules[module].parent?, after);
                }
                self.look_up(module, rest, seen)
            }
            // A name in scope: a module below, or an import.
            name if self.modules[from].children.contains_key(name) => self.look_up(from, segments, seen),
            name => {
                let is_known = self.import(from, name).is_some_and(|import| import.path.segments[0] != name);
                is_known.then(|| self.look_up(from, segments, seen)).flatten()
            }
        }
    }

    fn import(&self, module: Index, name: &str) -> Option<&Import> {
        let mut imports = self.modules[module].content.imports.iter();
        imports.find(|import| import.is_of_module && import.name.as_deref() == Some(name))
    }

    /// Follows the segments from a module on, through re-exports.
    fn look_up(
        &self,
        from: Index,
        segments: &[String],
        seen: &mut Vec<(Index, String)>,
    ) -> Option<(Index, Option<String>)> {
        let Some((name, rest)) = segments.split_first() else { return Some((from, None)) };
        let module = &self.modules[from];
        if let Some(child) = module.children.get(name) {
            return self.look_up(*child, rest, seen);
        }
        let here = (from, Some(name.clone()));
        let key = (from, name.clone());
        if module.content.items.contains(name) || seen.contains(&key) {
            return Some(here);
        }
        seen.push(key);
        if let Some(Import { path: Written { segments, .. }, .. }) = self.import(from, name) {
            return match self.resolve(from, segments, seen)? {
                (module, None) => self.look_up(module, rest, seen),
                found => Some(found),
            };
        }
        let mut globs = module.content.imports.iter().filter(|import| import.name.is_none());
        let through = |glob: &Import| {
            let (module, _) = self.resolve(from, &glob.path.segments, &mut Vec::new())?;
            let found = self.look_up(module, segments, seen)?;
            let is_defined = match &found {
                (_, None) => true,
                (module, Some(name)) => self.modules[*module].content.items.contains(name),
            };
            is_defined.then_some(found)
        };
        globs.find_map(through).or(Some(here))
    }
}
