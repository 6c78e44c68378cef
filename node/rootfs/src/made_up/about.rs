//! What a file system says of a folder's files, to be held against another one's.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// All that is known of a file but where its folder is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct About {
    kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    size: u64,
    /// Hash of its bytes, or where it leads.
    content: String,
    attributes: BTreeMap<String, Vec<u8>>,
    /// The first of its names.
    same_as: PathBuf,
}

impl About {
    /// Whether it is a link that tar makes only at the end, since it leads out: over whatever has
    /// come in its place since.
    fn is_put_off(&self) -> bool {
        self.kind == "link" && (self.content.starts_with("\"/") || self.content.contains(".."))
    }

    /// Whether tar's file is the same. A folder that no entry tells of has no time of its own.
    /// `folders`: whether times of others count. tar's differ where one folder has several entries.
    pub(crate) fn is(&self, tars: &About, folders: bool) -> bool {
        let is_implied = self.kind == "folder" && (!folders || self.modified == (0, 0));
        let modified = if is_implied { tars.modified } else { self.modified };
        let About { modified: _, kind, mode, owner, size, content, attributes, same_as } = self;
        modified == tars.modified
            && (*kind, *mode, *owner, *size) == (tars.kind, tars.mode, tars.owner, tars.size)
            && (content, attributes, same_as) == (&tars.content, &tars.attributes, &tars.same_as)
    }
}

/// Everything below a folder, by its name.
pub(crate) fn all(folder: &Path) -> BTreeMap<PathBuf, About> {
    let mut found = BTreeMap::new();
    let mut first = BTreeMap::new();
    visit(folder, Path::new("."), &mut first, &mut found);
    found
}

fn visit(
    folder: &Path,
    name: &Path,
    first: &mut BTreeMap<u64, PathBuf>,
    found: &mut BTreeMap<PathBuf, About>,
) {
    let path = folder.join(name);
    let about = fs::symlink_metadata(&path).expect("it is there");
    let kind = about.file_type();
    let (kind, size, content) = match kind {
        _ if kind.is_dir() => ("folder", 0, String::new()),
        _ if kind.is_symlink() => {
            ("link", 0, format!("{:?}", fs::read_link(&path).expect("it is there")))
        }
        _ if kind.is_fifo() => ("fifo", 0, String::new()),
        _ => ("file", about.size(), hash(&path)),
    };
    let same_as = first.entry(about.ino()).or_insert_with(|| name.to_owned()).clone();
    let owner = (about.uid(), about.gid());
    let modified = (about.mtime(), about.mtime_nsec());
    let attributes = attributes(&path);
    let mode = about.mode() & 0o7777;
    let it = About { kind, mode, owner, modified, size, content, attributes, same_as };
    found.insert(name.to_owned(), it);
    if kind == "folder" {
        let mut names: Vec<_> = fs::read_dir(&path)
            .expect("it is there")
            .map(|entry| entry.expect("it is there").file_name())
            .collect();
        names.sort();
        names.iter().for_each(|within| visit(folder, &name.join(within), first, found));
    }
}

fn hash(path: &Path) -> String {
    format!("{:x?}", Sha256::digest(fs::read(path).expect("it is there")))
}

fn attributes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 65_536];
    let length = rustix::fs::llistxattr(path, &mut names[..]).expect("it is there");
    let names = names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let name = String::from_utf8_lossy(name).into_owned();
        let mut value = vec![0; 65_536];
        let length =
            rustix::fs::lgetxattr(path, name.as_str(), &mut value[..]).expect("it is there");
        value.truncate(length);
        (name, value)
    };
    names.map(value).collect()
}

/// Differences between a folder of ours and what tar has made; `folders`: the times of folders, too,
/// and the links that tar puts off.
pub(crate) fn differences(ours: &Path, theirs: &Path, folders: bool) -> Vec<String> {
    let (ours, theirs) = (all(ours), all(theirs));
    let mut differences = Vec::new();
    for (path, theirs) in &theirs {
        let shown = path.display();
        match ours.get(path) {
            None => differences.push(format!("{shown} is missing")),
            Some(_) if !folders && theirs.is_put_off() => {}
            Some(ours) if !ours.is(theirs, folders) => {
                differences.push(format!("{shown}:\n  {ours:?}\n  tar: {theirs:?}"));
            }
            Some(_) => {}
        }
    }
    for path in ours.keys().filter(|path| !theirs.contains_key(*path)) {
        differences.push(format!("tar does not make {}", path.display()));
    }
    differences
}
