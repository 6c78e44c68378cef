//! The files of a root as they will be, before any of them is made.

use std::collections::BTreeMap;

use crate::error::Fault;
use crate::pax::Time;

/// Index of a node in the tree.
pub(crate) type Id = usize;
pub(crate) const ROOT: Id = 0;

/// NAME_MAX of Linux.
const NAME_BYTES: usize = 255;
/// PATH_MAX of Linux, without the zero.
pub(crate) const PATH_BYTES: usize = 4095;
/// Folders within each other: as many as are walked without a thought for the stack.
const DEPTH: usize = 256;
/// Links on one way, as Linux counts them.
const LINKS: u32 = 40;

/// Owner, permissions and the like of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct About {
    /// Permissions with set-user-ID and the like.
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) modified: Time,
    pub(crate) attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Default for About {
    /// A folder that no entry tells of.
    fn default() -> Self {
        let modified = Time::default();
        About { mode: 0o755, user: 0, group: 0, modified, attributes: BTreeMap::new() }
    }
}

/// A name in a folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    pub(crate) id: Id,
    /// The layer that it came with.
    layer: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Folder(BTreeMap<Vec<u8>, Name>),
    /// A file by its number in the store.
    File(u64),
    Link(Vec<u8>),
    Fifo,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) what: What,
    pub(crate) about: About,
    /// Layer that has taken away all that lower ones had in this folder, if one has.
    /// Whatever came since is of that layer or of a later one.
    cleared: Option<u32>,
}

/// A root's files. The first node is the root itself.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    linked_names: u64,
    /// Names that whiteouts have looked at.
    #[cfg(test)]
    looked_at: u64,
}

/// Parts of a path, without what leads nowhere.
pub(crate) fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

/// A path's names; `..` and what no file can be called are refused.
pub(crate) fn names(path: &[u8]) -> Result<Vec<Vec<u8>>, Fault> {
    let shown = || String::from_utf8_lossy(path).into_owned();
    if path.len() > PATH_BYTES {
        let length = path.len();
        return Err(format!("a name of {length} bytes, of {PATH_BYTES} at most: {}", shown()));
    }
    let mut names = Vec::new();
    for name in parts(path) {
        match name {
            b".." => return Err(format!("{}: a name with `..`, which leaves the root", shown())),
            name if name.contains(&0) => return Err(format!("{:?}: a name with a zero", shown())),
            name if name.len() > NAME_BYTES => {
                let length = name.len();
                return Err(format!("{}: {length} bytes, of {NAME_BYTES} at most", shown()));
            }
            name => names.push(name.to_vec()),
        }
    }
    if names.len() > DEPTH {
        return Err(format!("{}: below {} folders, of {DEPTH} at most", shown(), names.len()));
    }
    Ok(names)
}

impl Tree {
    pub(crate) fn new() -> Self {
        let mut tree = Tree {
            nodes: Vec::new(),
            linked_names: 0,
            #[cfg(test)]
            looked_at: 0,
        };
        tree.add(What::Folder(BTreeMap::new()), About::default());
        tree
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node(&self, id: Id) -> &Node {
        &self.nodes[id]
    }

    /// Names that links on the ways to its files have led through, so far.
    pub(crate) fn linked_names(&self) -> u64 {
        self.linked_names
    }

    fn add(&mut self, what: What, about: About) -> Id {
        self.nodes.push(Node { what, about, cleared: None });
        self.nodes.len() - 1
    }

    fn folder(&mut self, id: Id) -> Option<&mut BTreeMap<Vec<u8>, Name>> {
        match &mut self.nodes[id].what {
            What::Folder(names) => Some(names),
            _ => None,
        }
    }

    /// Walks as a program in this root would: links lead on, from the root if they begin with a
    /// slash, and `..` there is the root. A folder that is missing is made if this is the way of
    /// a layer's entry. `None` if it leads nowhere.
    fn walk(&mut self, names: &[Vec<u8>], follows_last: bool, makes: Option<u32>) -> Option<Id> {
        let mut way = vec![ROOT];
        let mut rest: Vec<Vec<u8>> = names.iter().rev().cloned().collect();
        let mut links = 0;
        while let Some(name) = rest.pop() {
            if name == b".." {
                way.truncate(way.len().saturating_sub(1).max(1));
                continue;
            }
            let at = *way.last()?;
            let known = self.folder(at)?.get(&name).map(|name| name.id);
            let id = match (known, makes) {
                (Some(id), _) => id,
                (None, None) => return None,
                (None, Some(layer)) => {
                    let id = self.add(What::Folder(BTreeMap::new()), About::default());
                    self.folder(at)?.insert(name, Name { id, layer });
                    id
                }
            };
            match &self.nodes[id].what {
                What::Link(target) if follows_last || !rest.is_empty() => {
                    links += 1;
                    if links > LINKS {
                        return None;
                    }
                    if target.starts_with(b"/") {
                        way.truncate(1);
                    }
                    let way: Vec<Vec<u8>> = parts(target).map(<[u8]>::to_vec).collect();
                    self.linked_names = self.linked_names.saturating_add(1 + way.len() as u64);
                    rest.extend(way.into_iter().rev());
                }
                _ if way.len() > DEPTH => return None,
                _ => way.push(id),
            }
        }
        way.last().copied()
    }

    /// The folder that an entry goes to, and the entry's own name there; `None` if it is the root.
    fn place(&mut self, path: &[u8], layer: u32) -> Result<Option<(Id, Vec<u8>)>, Fault> {
        let mut names = names(path)?;
        let Some(last) = names.pop() else { return Ok(None) };
        // What it goes through may be a link, which leads to a folder.
        let folder = self.walk(&names, true, Some(layer));
        let folder = folder.filter(|&id| matches!(self.nodes[id].what, What::Folder(_)));
        let folder = folder.ok_or_else(|| {
            format!("{}: what it is to lie in is no folder", String::from_utf8_lossy(path))
        })?;
        Ok(Some((folder, last)))
    }

    fn name(&mut self, folder: Id, name: Vec<u8>, id: Id, layer: u32) {
        if let Some(names) = self.folder(folder) {
            names.insert(name, Name { id, layer });
        }
    }

    /// An entry of a layer; what had this name is gone, but a folder stays with what is in it.
    pub(crate) fn put(
        &mut self,
        path: &[u8],
        what: What,
        about: About,
        layer: u32,
    ) -> Result<(), Fault> {
        let is_folder = matches!(what, What::Folder(_));
        let Some((folder, last)) = self.place(path, layer)? else {
            if !is_folder {
                return Err("the root itself is no folder".to_owned());
            }
            self.nodes[ROOT].about = about;
            return Ok(());
        };
        let known = self.folder(folder).and_then(|names| names.get(&last)).map(|name| name.id);
        let stays = known.filter(|&id| is_folder && matches!(self.nodes[id].what, What::Folder(_)));
        let id = match stays {
            Some(id) => {
                self.nodes[id].about = about;
                id
            }
            None => self.add(what, about),
        };
        self.name(folder, last, id, layer);
        Ok(())
    }

    /// One more name for a file that is there.
    pub(crate) fn hard_link(
        &mut self,
        path: &[u8],
        target: &[u8],
        layer: u32,
    ) -> Result<(), Fault> {
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let found = names(target).map_err(|fault| format!("{}: linked to {fault}", shown(path)))?;
        let found = self.walk(&found, false, None);
        let found = found.filter(|&id| !matches!(self.nodes[id].what, What::Folder(_)));
        let id = found.ok_or_else(|| {
            format!(
                "{}: a hard link to {}, which is no file of this image",
                shown(path),
                shown(target)
            )
        })?;
        match self.place(path, layer)? {
            Some((folder, last)) => {
                self.name(folder, last, id, layer);
                Ok(())
            }
            None => Err("the root itself is no folder".to_owned()),
        }
    }

    /// A whiteout: what lower layers have of this name is gone; without a name, all that they
    /// have in this folder. A link on the way leads nowhere: what is behind it was not named.
    pub(crate) fn hide(
        &mut self,
        folder: &[u8],
        name: Option<&[u8]>,
        layer: u32,
    ) -> Result<(), Fault> {
        let mut id = ROOT;
        for name in names(folder)? {
            let Some(next) = self.folder(id).and_then(|there| there.get(&name)) else {
                return Ok(());
            };
            id = next.id;
        }
        match name {
            Some(name) => {
                self.purge(id, name, layer);
            }
            None => self.clear(id, layer),
        }
        Ok(())
    }

    /// Takes all that is not of this layer away from a folder; once, as nothing of a lower layer
    /// comes after.
    fn clear(&mut self, folder: Id, layer: u32) {
        if self.nodes[folder].cleared == Some(layer) {
            return;
        }
        let Some(there) = self.folder(folder) else { return };
        let within: Vec<_> = there.keys().cloned().collect();
        for name in within {
            self.purge(folder, &name, layer);
        }
        self.nodes[folder].cleared = Some(layer);
    }

    /// Takes what is not of this layer away from a name.
    fn purge(&mut self, folder: Id, name: &[u8], layer: u32) {
        #[cfg(test)]
        {
            self.looked_at += 1;
        }
        let known = self.folder(folder).and_then(|names| names.get(name)).copied();
        let Some(Name { id, layer: of }) = known else { return };
        self.clear(id, layer);
        let has_some = self.folder(id).is_some_and(|within| !within.is_empty());
        let is_left = of == layer || has_some;
        if let Some(names) = self.folder(folder).filter(|_| !is_left) {
            names.remove(name);
        }
    }

    /// The file that a program in this root would find here.
    pub(crate) fn find(&mut self, path: &[u8]) -> Option<&Node> {
        let names: Vec<_> = parts(path).map(<[u8]>::to_vec).collect();
        let id = self.walk(&names, true, None)?;
        Some(&self.nodes[id])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> What {
        What::Folder(BTreeMap::new())
    }

    fn link(to: &str) -> What {
        What::Link(to.as_bytes().to_vec())
    }

    fn has(tree: &mut Tree, path: &str) -> bool {
        tree.find(path.as_bytes()).is_some()
    }

    #[test]
    fn a_name_that_leaves_the_root_is_refused_and_a_link_cannot() {
        for (path, says) in [
            ("a/../../etc", "a/../../etc: a name with `..`"),
            ("..", "`..`"),
            (&"x".repeat(256) as &str, "256 bytes, of 255"),
            (&"x/".repeat(257), "below 257 folders"),
            (&"x".repeat(4096), "4096 bytes, of 4095"),
        ] {
            let fault = Tree::new().put(path.as_bytes(), What::Fifo, About::default(), 0);
            assert!(fault.unwrap_err().contains(says), "{path}");
        }
        let mut tree = Tree::new();
        tree.put(b"out", link("/../../etc"), About::default(), 0).unwrap();
        tree.put(b"/out/passwd", What::File(1), About::default(), 0).unwrap();
        assert!(matches!(tree.find(b"etc/passwd").unwrap().what, What::File(1)));
        tree.put(b"a", link("b"), About::default(), 0).unwrap();
        tree.put(b"b", link("a"), About::default(), 0).unwrap();
        assert!(!has(&mut tree, "a"));
        assert!(tree.put(b"a/c", What::Fifo, About::default(), 0).is_err());
    }

    #[test]
    fn layers_lie_over_one_another_and_whiteouts_hide_lower_ones_only() {
        let mut tree = Tree::new();
        for path in ["a/one", "a/two", "b/three", "c/d/four", "e"] {
            tree.put(path.as_bytes(), What::File(0), About::default(), 0).unwrap();
        }
        // In whatever order they come.
        tree.put(b"a/new", What::File(1), About::default(), 1).unwrap();
        tree.hide(b"a", None, 1).unwrap();
        tree.put(b"a/later", What::File(1), About::default(), 1).unwrap();
        tree.hide(b"c", Some(b"d"), 1).unwrap();
        tree.hide(b"", Some(b"b"), 1).unwrap();
        tree.hide(b"nowhere", Some(b"b"), 1).unwrap();
        // A folder instead of a file, and the other way.
        tree.put(b"e", folder(), About::default(), 1).unwrap();
        tree.put(b"e/in", What::File(1), About::default(), 1).unwrap();
        for (path, there) in [
            ("a/one", false),
            ("a/new", true),
            ("a/later", true),
            ("b", false),
            ("c", true),
            ("c/d", false),
            ("e/in", true),
        ] {
            assert_eq!(has(&mut tree, path), there, "{path}");
        }
        tree.put(b"a", What::File(2), About::default(), 2).unwrap();
        assert!(matches!(tree.find(b"a").unwrap().what, What::File(2)));
        // What stays is as it was.
        let about = About { mode: 0o700, user: 7, ..About::default() };
        tree.put(b"e", folder(), about.clone(), 2).unwrap();
        assert!(has(&mut tree, "e/in"));
        assert_eq!(tree.find(b"e").unwrap().about, about);
    }

    #[test]
    fn a_whiteout_names_what_it_hides_and_no_link_leads_it_elsewhere() {
        let mut tree = Tree::new();
        tree.put(b"data/keep", What::File(0), About::default(), 0).unwrap();
        tree.put(b"l", link("data"), About::default(), 0).unwrap();
        // As an overlay, where a whiteout's folder hides the link of its name.
        tree.hide(b"l", Some(b"keep"), 1).unwrap();
        tree.hide(b"l", None, 1).unwrap();
        assert!(has(&mut tree, "data/keep"));
        tree.hide(b"", Some(b"l"), 1).unwrap();
        assert!(has(&mut tree, "data/keep") && !has(&mut tree, "l"));
    }

    #[test]
    fn as_many_whiteouts_as_files_look_at_each_file_once() {
        const MANY: u64 = 2000;
        let mut tree = Tree::new();
        let file = |tree: &mut Tree, name: String, layer| {
            tree.put(name.as_bytes(), What::File(0), About::default(), layer).unwrap();
        };
        (0..MANY).for_each(|n| file(&mut tree, format!("d/e/lower{n}"), 0));
        for n in 0..MANY {
            file(&mut tree, format!("d/e/{n}"), 1);
            tree.hide(b"d/e", None, 1).unwrap();
            tree.hide(b"d", Some(b"e"), 1).unwrap();
            tree.hide(b"", Some(b"d"), 1).unwrap();
        }
        assert!(has(&mut tree, "d/e/7") && !has(&mut tree, "d/e/lower7"));
        // Each whiteout looks at its own name, and the first at all that was there before.
        assert!(tree.looked_at <= 4 * MANY + 10, "{}", tree.looked_at);
    }

    #[test]
    fn a_hard_link_is_to_a_file_of_the_image() {
        let mut tree = Tree::new();
        tree.put(b"a/b", What::File(3), About::default(), 0).unwrap();
        tree.hard_link(b"c", b"./a/b", 0).unwrap();
        assert!(matches!(tree.find(b"c").unwrap().what, What::File(3)));
        for (target, says) in
            [("../etc/shadow", "`..`"), ("/etc/shadow", "no file of this image"), ("a", "no file")]
        {
            let fault = tree.hard_link(b"d", target.as_bytes(), 0).unwrap_err();
            assert!(fault.starts_with("d: ") && fault.contains(says), "{fault}");
        }
        // A new file of its name leaves the other name what it was.
        tree.put(b"a/b", What::File(4), About::default(), 1).unwrap();
        assert!(matches!(tree.find(b"c").unwrap().what, What::File(3)));
    }
}
