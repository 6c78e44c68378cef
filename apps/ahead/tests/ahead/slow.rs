//! A disk that answers after a set time, any number at once, and keeps who has asked for what.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEntry, ReplyOpen, Request,
};

use crate::attributes::attributes;

/// The kernel keeps what it was told.
const LONG: Duration = Duration::from_secs(3600);
const THREADS: usize = 40;
/// Number that libfuse tells for one that it does not know.
const UNKNOWN: INodeNo = INodeNo(0xffff_ffff);

/// What was asked of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Its name was looked up, which tells its attributes.
    Looked,
    Listed,
    Read,
}

/// A request, and the thread that made it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) what: What,
    pub(crate) file: u64,
    pub(crate) by: u32,
}

/// A file, or a folder with the numbers of what is in it.
#[derive(Debug)]
enum Content {
    File(Vec<u8>),
    Folder(Vec<u64>),
}

/// A tree in memory; a file's number is its place and one.
#[derive(Debug)]
pub(crate) struct Tree {
    files: Vec<(OsString, Content)>,
}

impl Tree {
    pub(crate) fn new() -> Self {
        Tree { files: vec![(OsString::new(), Content::Folder(Vec::new()))] }
    }

    fn add(&mut self, above: u64, name: String, content: Content) -> u64 {
        self.files.push((name.into(), content));
        let number = self.files.len() as u64;
        if let Content::Folder(names) = &mut self.files[above as usize - 1].1 {
            names.push(number);
        }
        number
    }

    pub(crate) fn folder(&mut self, above: u64, name: String) -> u64 {
        self.add(above, name, Content::Folder(Vec::new()))
    }

    pub(crate) fn file(&mut self, above: u64, name: String, bytes: usize) -> u64 {
        let content = (0..bytes).map(|at| (at % 251) as u8).collect();
        self.add(above, name, Content::File(content))
    }

    /// Folders below the root with as many files each.
    pub(crate) fn wide(folders: usize, files: usize, bytes: usize) -> Self {
        let mut tree = Tree::new();
        for folder in 0..folders {
            let above = tree.folder(1, format!("folder{folder}"));
            for file in 0..files {
                tree.file(above, format!("file{file}"), bytes);
            }
        }
        tree
    }

    pub(crate) fn is_folder(&self, number: u64) -> bool {
        matches!(self.files[number as usize - 1].1, Content::Folder(_))
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    fn attributes(&self, number: u64) -> Option<FileAttr> {
        let (_, content) = self.files.get(usize::try_from(number).ok()?.checked_sub(1)?)?;
        let (kind, size, perm) = match content {
            Content::File(bytes) => (FileType::RegularFile, bytes.len() as u64, 0o644),
            Content::Folder(_) => (FileType::Directory, 4096, 0o755),
        };
        Some(attributes(INodeNo(number), kind, size, perm))
    }
}

/// What the kernel keeps of a file or folder when it is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    /// Its contents, as a disk's.
    All,
    /// The same, and it need not even say that it opens a folder: one that it has listed is its own.
    Untold,
    /// The same, and listings tell the attributes of their names; each opening of a file is asked (NFS).
    Told,
    /// The same as a disk's, and listings tell no numbers of files (FUSE by libfuse's paths).
    Unnumbered,
    /// Listings alone: what has been read of a file is forgotten when somebody opens it.
    Listings,
}

struct Served {
    tree: Arc<Tree>,
    keeps: Keeps,
    answer_after: Duration,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// Threads that asked for the attributes of the root, which no name leads to.
    root: Arc<Mutex<Vec<u32>>>,
}

impl Served {
    fn keep(&self, request: &Request, what: What, file: u64) {
        self.asked.lock().unwrap().push(Asked { what, file, by: request.pid() });
        sleep(self.answer_after);
    }

    fn content(&self, number: INodeNo) -> Option<&Content> {
        self.tree.files.get(usize::try_from(number.0).ok()? - 1).map(|(_, content)| content)
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Else the kernel has one request a folder under way.
        let mut wanted = InitFlags::FUSE_PARALLEL_DIROPS | InitFlags::FUSE_ASYNC_READ;
        if self.keeps == Keeps::Told {
            wanted |= InitFlags::FUSE_DO_READDIRPLUS;
        }
        config.add_capabilities(wanted).map_err(|_| std::io::ErrorKind::Unsupported.into())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let Some(Content::Folder(names)) = self.content(parent) else {
            return reply.error(Errno::ENOTDIR);
        };
        let number = names.iter().find(|number| self.tree.files[**number as usize - 1].0 == name);
        let Some(number) = number else { return reply.error(Errno::ENOENT) };
        self.keep(request, What::Looked, *number);
        match self.tree.attributes(*number) {
            Some(attributes) => reply.entry(&LONG, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, request: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        if number == INodeNo::ROOT {
            self.root.lock().unwrap().push(request.pid());
        }
        match self.tree.attributes(number.0) {
            // That it is asked is to be seen each time.
            Some(attributes) if number == INodeNo::ROOT => reply.attr(&Duration::ZERO, &attributes),
            Some(attributes) => reply.attr(&LONG, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if self.keeps == Keeps::Untold {
            return reply.error(Errno::ENOSYS);
        }
        // A listing is kept as a disk's is.
        let kept = FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE;
        reply.opened(FileHandle(0), kept);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if self.keeps == Keeps::Told {
            sleep(self.answer_after);
        }
        let kept = match self.keeps {
            Keeps::Listings => FopenFlags::empty(),
            _ => FopenFlags::FOPEN_KEEP_CACHE,
        };
        reply.opened(FileHandle(0), kept);
    }

    fn read(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.keep(request, What::Read, number.0);
        let Some(Content::File(bytes)) = self.content(number) else {
            return reply.error(Errno::EISDIR);
        };
        let from = (offset as usize).min(bytes.len());
        let to = (from + size as usize).min(bytes.len());
        reply.data(&bytes[from..to]);
    }

    fn readdirplus(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let Some(Content::Folder(names)) = self.content(number) else {
            return reply.error(Errno::ENOTDIR);
        };
        if offset == 0 {
            self.keep(request, What::Listed, number.0);
        }
        for (at, number) in names.iter().enumerate().skip(offset as usize) {
            let name = &self.tree.files[*number as usize - 1].0;
            let Some(attributes) = self.tree.attributes(*number) else { continue };
            let place = at as u64 + 1;
            if reply.add(INodeNo(*number), place, name, &LONG, &attributes, Generation(0)) {
                break;
            }
        }
        reply.ok();
    }

    fn readdir(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let Some(Content::Folder(names)) = self.content(number) else {
            return reply.error(Errno::ENOTDIR);
        };
        if offset == 0 {
            self.keep(request, What::Listed, number.0);
        }
        for (at, number) in names.iter().enumerate().skip(offset as usize) {
            let kind = match self.tree.is_folder(*number) {
                true => FileType::Directory,
                false => FileType::RegularFile,
            };
            let name = &self.tree.files[*number as usize - 1].0;
            // Of a name that was looked at before libfuse may tell it.
            let is_told = self.keeps != Keeps::Unnumbered
                || self.asked.lock().unwrap().iter().any(|asked| asked.file == *number);
            let told = if is_told { INodeNo(*number) } else { UNKNOWN };
            if reply.add(told, at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}

/// The disk, mounted until it is dropped.
pub(crate) struct Slow {
    at: PathBuf,
    _folder: Option<tempfile::TempDir>,
    pub(crate) tree: Arc<Tree>,
    asked: Arc<Mutex<Vec<Asked>>>,
    root: Arc<Mutex<Vec<u32>>>,
    session: Option<BackgroundSession>,
}

impl Slow {
    /// Mounts a tree in a folder of its own; none, said why, where this user may not.
    pub(crate) fn mount(tree: Tree, answer_after: Duration) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().to_owned();
        Self::mount_as(tree, answer_after, Keeps::All, at, Some(folder))
    }

    /// Mounts one whose listings tell all attributes.
    pub(crate) fn mount_told(tree: Tree, answer_after: Duration) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().to_owned();
        Self::mount_as(tree, answer_after, Keeps::Told, at, Some(folder))
    }

    /// Mounts one whose listings tell no numbers.
    pub(crate) fn mount_unnumbered(tree: Tree, answer_after: Duration) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().to_owned();
        Self::mount_as(tree, answer_after, Keeps::Unnumbered, at, Some(folder))
    }

    /// Mounts one whose files' contents are forgotten when they are opened.
    pub(crate) fn mount_forgetful(tree: Tree, answer_after: Duration) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().to_owned();
        Self::mount_as(tree, answer_after, Keeps::Listings, at, Some(folder))
    }

    /// Mounts one whose listings are asked for once, without a request for each opening.
    pub(crate) fn mount_kept(tree: Tree) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().to_owned();
        Self::mount_as(tree, Duration::ZERO, Keeps::Untold, at, Some(folder))
    }

    /// Mounts one on a folder of another one.
    pub(crate) fn mount_on(tree: Tree, at: &Path) -> Option<Self> {
        Self::mount_as(tree, Duration::ZERO, Keeps::All, at.to_owned(), None)
    }

    fn mount_as(
        tree: Tree,
        answer_after: Duration,
        keeps: Keeps,
        at: PathBuf,
        folder: Option<tempfile::TempDir>,
    ) -> Option<Self> {
        let (tree, asked, root) = (Arc::new(tree), Arc::default(), Arc::default());
        let served = Served {
            tree: Arc::clone(&tree),
            keeps,
            answer_after,
            asked: Arc::clone(&asked),
            root: Arc::clone(&root),
        };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::RO, MountOption::FSName("slow".to_owned())];
        config.n_threads = Some(THREADS);
        config.clone_fd = true;
        match fuser::spawn_mount(served, &at, &config) {
            Ok(session) => {
                Some(Slow { at, _folder: folder, tree, asked, root, session: Some(session) })
            }
            Err(error) => {
                println!("passed over: a FUSE file system cannot be mounted here ({error})");
                None
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.at
    }

    /// Threads that asked for the attributes of the root.
    pub(crate) fn asked_of_root(&self) -> Vec<u32> {
        self.root.lock().unwrap().clone()
    }

    /// All requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        // Before its folder is removed.
        drop(self.session.take());
    }
}
