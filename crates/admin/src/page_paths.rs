//! The paths of pages for which a follower has other rules.

/// The paths of pages to which a follower applies other rules than to operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct PagePaths {
    /// Forms that change nothing.
    pub(crate) forms: Vec<&'static str>,
    /// Files that need no state of the hub. The last segment may be variable.
    pub(crate) files: Vec<&'static str>,
}

impl PagePaths {
    /// Whether a request with a body to this path changes nothing.
    pub(crate) fn is_reading_form(&self, path: &str) -> bool {
        self.forms.contains(&path)
    }

    /// Whether the path is of a file.
    pub(crate) fn is_file(&self, path: &str) -> bool {
        let is_of = |file: &&str| match file.split_once('{') {
            Some((folder, _)) => path.strip_prefix(folder).is_some_and(|name| !name.contains('/')),
            None => **file == *path,
        };
        self.files.iter().any(is_of)
    }
}
