//! The file system that is examined: the running machine's, or a test's.

use std::fs;
use std::path::{Path, PathBuf};

/// Files by absolute path, below a root.
pub(crate) struct Host {
    root: PathBuf,
}

impl Host {
    pub(crate) fn running() -> Self {
        Self::at(Path::new("/"))
    }

    pub(crate) fn at(root: &Path) -> Self {
        Host { root: root.to_owned() }
    }

    /// Path at which the file really is.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The text without the end of line, or why there is none.
    pub(crate) fn read(&self, path: &str) -> Result<String, String> {
        match fs::read_to_string(self.path(path)) {
            Ok(text) => Ok(text.trim_end().to_owned()),
            Err(error) => Err(format!("{path}: {error}")),
        }
    }

    /// A number, or why there is none.
    pub(crate) fn number(&self, path: &str) -> Result<u64, String> {
        let text = self.read(path)?;
        let number = text.trim().parse();
        number.map_err(|_| format!("{path}: {text:?} is not a number"))
    }

    /// The sorted names in a folder; none if it cannot be read.
    pub(crate) fn names(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(dir)).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
        names.sort();
        names
    }
}

/// The value of a field of `/proc/PID/status`.
pub(crate) fn status_field<'a>(status: &'a str, field: &str) -> Option<&'a str> {
    status.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name == field).then_some(value.trim())
    })
}

/// A host with these files.
#[cfg(test)]
pub(crate) fn host_with(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
    let dir = tempfile::TempDir::new().unwrap();
    let host = Host::at(dir.path());
    for (path, content) in files {
        let path = host.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    }
    (dir, host)
}
