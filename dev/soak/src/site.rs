//! Files that clients read while others replace, cut and date them.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use anyhow::{Context, Result};
use fastrand::Rng;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};

use crate::content::File;
use crate::faults::Fault;
use crate::ground::{Ground, make_cold};

/// A file that is there.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) file: File,
    /// Its path below the site's folder.
    pub(crate) name: String,
    path: PathBuf,
    /// True if it may be shorter than it should be, as it is cut in place.
    pub(crate) is_cut: bool,
    /// The version that is there, and the one that comes or has come.
    there: AtomicU32,
    coming: AtomicU32,
}

impl Page {
    /// The oldest version that who asks now may find.
    pub(crate) fn oldest(&self) -> u32 {
        self.there.load(Acquire)
    }

    /// The newest version that who has asked until now may have found.
    pub(crate) fn newest(&self) -> u32 {
        self.coming.load(Acquire)
    }

    /// Says what is wrong with all bytes, of somebody who has asked when `oldest` was there.
    pub(crate) fn check(&self, oldest: u32, bytes: &[u8]) -> Result<()> {
        self.compare(oldest, 0, bytes, |size| size == bytes.len())
    }

    /// Says what is wrong with bytes from `start` on, of which so many were asked for. There may be
    /// fewer, but none only at the end.
    pub(crate) fn check_part(
        &self,
        oldest: u32,
        start: usize,
        asked: usize,
        bytes: &[u8],
    ) -> Result<()> {
        self.compare(oldest, start, bytes, |size| {
            let most = asked.min(size.saturating_sub(start));
            bytes.len() <= most && bytes.is_empty() == (most == 0)
        })
    }

    fn compare(
        &self,
        oldest: u32,
        start: usize,
        bytes: &[u8],
        fits: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let versions = oldest..=self.newest();
        let checked = self.file.check(versions, start, bytes, |size| self.is_cut || fits(size));
        checked.map_err(anyhow::Error::msg).with_context(|| self.name.clone())
    }
}

/// All files, in folders on a disk and in memory.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) folder: PathBuf,
    pub(crate) pages: Vec<Page>,
}

/// Folders: whether in memory, how many files, bytes of the largest.
const FOLDERS: [(&str, bool, usize, usize); 6] = [
    ("disk", false, 300, 40 << 10),
    ("large", false, 6, 2 << 20),
    ("swap", false, 40, 60 << 10),
    ("cut", false, 20, 200 << 10),
    ("memory", true, 60, 60 << 10),
    ("dated", true, 20, 8 << 10),
];
/// The last files, which are in memory: reading them is handed over.
const IN_MEMORY: usize = 60 + 20;
/// Bytes of the file system in memory.
const MEMORY: usize = 64 << 20;

impl Site {
    pub(crate) fn new(ground: &Ground) -> Result<Site> {
        let folder = ground.path("site");
        let mut pages = Vec::new();
        for (name, in_memory, files, most) in FOLDERS {
            let within = folder.join(name);
            match in_memory {
                true => ground.memory(&within, MEMORY)?,
                false => fs::create_dir_all(&within).context("making a folder")?,
            }
            for number in 0..files {
                let name = format!("{name}/{number}");
                let path = folder.join(&name);
                let file = File { number: pages.len() as u32, most };
                fs::write(&path, file.whole(1))
                    .with_context(|| format!("writing {}", path.display()))?;
                let is_cut = name.starts_with("cut/");
                let (there, coming) = (AtomicU32::new(1), AtomicU32::new(1));
                pages.push(Page { file, name, path, is_cut, there, coming });
            }
        }
        Ok(Site { folder, pages })
    }

    /// Any file: as often one that is in memory as one that is on a disk.
    pub(crate) fn page(&self, rng: &mut Rng) -> &Page {
        &self.pages[self.any(rng)]
    }

    /// The number of any file.
    pub(crate) fn any(&self, rng: &mut Rng) -> usize {
        let in_memory = self.pages.len() - IN_MEMORY;
        if rng.bool() { rng.usize(..in_memory) } else { rng.usize(in_memory..self.pages.len()) }
    }

    fn page_in(&self, folder: &str, rng: &mut Rng) -> &Page {
        let pages: Vec<_> =
            self.pages.iter().filter(|page| page.name.starts_with(folder)).collect();
        pages[rng.usize(..pages.len())]
    }

    /// Faults of the files.
    pub(crate) fn faults(&self) -> Vec<Fault<'_>> {
        vec![
            self.cold(),
            Fault::new("a file replaced", |rng| self.replace(self.page_in("swap/", rng))),
            Fault::new("a file cut and grown", |rng| self.cut(self.page_in("cut/", rng), rng)),
            Fault::new("a file dated", |rng| self.date(&self.page_in("dated/", rng).path, rng)),
        ]
    }

    /// Has the kernel forget some files.
    pub(crate) fn cold(&self) -> Fault<'_> {
        Fault::new("files cold", |rng| {
            let many = rng.usize(1..200);
            (0..many).try_for_each(|_| Ok(make_cold(&self.page(rng).path)?))
        })
    }

    fn replace(&self, page: &Page) -> Result<()> {
        let version = page.newest() + 1;
        let new = page.path.with_extension("new");
        fs::write(&new, page.file.whole(version)).context("writing a new version")?;
        page.coming.store(version, Release);
        fs::rename(&new, &page.path).context("replacing a file")?;
        page.there.store(version, Release);
        Ok(())
    }

    fn cut(&self, page: &Page, rng: &mut Rng) -> Result<()> {
        let file = OpenOptions::new().write(true).open(&page.path).context("opening a file")?;
        let bytes = page.file.whole(1);
        let rest = rng.usize(..=bytes.len());
        file.set_len(rest as u64).context("cutting a file")?;
        std::thread::sleep(std::time::Duration::from_millis(rng.u64(..20)));
        // Never with a hole: from the front on.
        file.write_all_at(&bytes[rest..], rest as u64).context("growing a file")
    }

    /// Dates that file systems can keep and others than clocks show.
    fn date(&self, path: &Path, rng: &mut Rng) -> Result<()> {
        // The end of the years of four digits, and around it; the ends of what a file system keeps.
        const YEAR_10000: i64 = 253_402_300_800;
        let dates =
            [YEAR_10000 - 1, YEAR_10000, i64::MAX, i64::MIN, -1, 0, 1 << 31, 1 << 34, -(1 << 40)];
        let time =
            Timespec { tv_sec: rng.choice(dates).unwrap_or(0), tv_nsec: rng.i64(0..1_000_000_000) };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, path, &times, AtFlags::empty()).context("dating a file")
    }
}
