//! What is served: the folder, open, and how.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::args::Args;
use crate::beneath::BENEATH;
use crate::encoding::Encoding;
use crate::held::Held;
use crate::request::Head;

/// The folder of one time: who has it keeps it open, also if it is opened anew meanwhile.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) folder: Arc<Held>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
}

/// Folder that is served, and how.
#[derive(Debug)]
pub(crate) struct Site {
    args: Args,
    root: Mutex<Arc<Root>>,
}

/// Path at which a request's file may be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) path: CString,
    /// The coding that it is in.
    pub(crate) encoding: Option<Encoding>,
    pub(crate) kind: Kind,
}

/// Kind that a candidate must be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A file; a folder is at the target with a slash.
    File,
    /// The file that answers for a folder.
    Index,
    /// A folder, whose entries are the answer.
    Folder,
}

impl Site {
    /// # Errors
    /// The folder cannot be opened, or the kernel does not keep paths beneath it.
    pub(crate) fn open(args: &Args) -> Result<Self> {
        if args.index.contains(['/', '\0']) || matches!(&args.index[..], "" | "." | "..") {
            bail!("--index {:?} is not the name of a file: give one without a slash", args.index);
        }
        let root = Mutex::new(Arc::new(Root::open(args)?));
        Ok(Site { args: args.clone(), root })
    }

    /// Opens it all anew; what is under way goes on with the old.
    ///
    /// # Errors
    /// As [`open`](Self::open); then everything stays as it was.
    pub(crate) fn reload(&self) -> Result<()> {
        let root = Arc::new(Root::open(&self.args)?);
        *self.root.lock().unwrap_or_else(PoisonError::into_inner) = root;
        Ok(())
    }

    pub(crate) fn root(&self) -> Arc<Root> {
        Arc::clone(&self.root.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn args(&self) -> &Args {
        &self.args
    }

    /// Candidate number `at` for the answer to a request: the first that is there is it.
    pub(crate) fn candidate(&self, head: &Head<'_>, at: usize) -> Option<Candidate> {
        let target = &head.target;
        if self.args.hide_dot && target.is_hidden() {
            return None;
        }
        let is_folder = target.is_folder || target.path.is_empty();
        let kind = if is_folder { Kind::Index } else { Kind::File };
        let accepted = Some(&head.fields.accept_encoding).filter(|_| self.args.precompressed);
        let mut encodings = Encoding::ALL.into_iter().filter(|encoding| {
            accepted.is_some_and(|lines| lines.iter().any(|line| encoding.is_taken_by(line)))
        });
        let encodings_count = encodings.clone().count();
        let path = |suffix: &str| match kind {
            Kind::Index => target.joined(&format!("{}{suffix}", self.args.index)),
            _ => target.with_suffix(suffix),
        };
        match at.checked_sub(encodings_count) {
            None => {
                let encoding = encodings.nth(at)?;
                Some(Candidate { path: path(encoding.suffix()), encoding: Some(encoding), kind })
            }
            Some(0) => Some(Candidate { path: path(""), encoding: None, kind }),
            Some(1) if is_folder => {
                Some(Candidate { path: target.joined(""), encoding: None, kind: Kind::Folder })
            }
            Some(_) => None,
        }
    }
}

impl Root {
    fn open(args: &Args) -> Result<Self> {
        let folder = open_folder(&args.folder)?;
        // Everything relies on it, so it is asked for before anything is served.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let own = rustix::fs::openat2(&folder, c".", flags, Mode::empty(), BENEATH);
        match own {
            Ok(_) => (),
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => bail!(
                "openat2(2) with RESOLVE_BENEATH, which keeps requests inside of the folder, is \
                 not to be had: it needs Linux 5.6, and a seccomp profile that allows it (Docker's \
                 since 20.10)"
            ),
            Err(errno) => {
                return Err(errno).with_context(|| format!("reaching {}", args.folder.display()));
            }
        }
        Ok(Root {
            folder: Arc::new(Held::folder(folder)),
            #[cfg(feature = "tls")]
            tls: args.tls.as_deref().map(crate::tls::configuration).transpose()?,
        })
    }
}

fn open_folder(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
        .with_context(|| format!("opening the folder {}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::request::{Parsed, parse};

    fn candidates(args: &[&str], target: &str, accepted: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().to_str().unwrap();
        let args = Args::parse_from([&["kumiki-httpd", folder], args].concat());
        let site = Site::open(&args).unwrap();
        let input =
            format!("GET {target} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {accepted}\r\n\r\n");
        let Parsed::Head(head) = parse(input.as_bytes()) else { panic!() };
        (0..)
            .map_while(|at| site.candidate(&head, at))
            .map(|it| it.path.into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_target_s_file_is_looked_for_in_the_codings_that_are_taken() {
        assert_eq!(candidates(&[], "/a/b", "br, gzip"), ["a/b"]);
        let with = &["--precompressed"];
        assert_eq!(candidates(with, "/a/b", "gzip, br"), ["a/b.br", "a/b.gz", "a/b"]);
        assert_eq!(candidates(with, "/a/b", "gzip;q=0"), ["a/b"]);
        assert_eq!(candidates(with, "/a/", "zstd"), ["a/index.html.zst", "a/index.html", "a"]);
        assert_eq!(candidates(&["--index", "x"], "/", ""), ["x", "."]);
    }

    #[test]
    fn what_cannot_be_served_is_said() {
        let open = |args: &[&str]| {
            let args = Args::parse_from([&["kumiki-httpd"], args].concat());
            format!("{:#}", Site::open(&args).unwrap_err())
        };
        assert!(open(&["/no/such/folder"]).contains("opening the folder /no/such/folder"));
        assert!(open(&["/etc/passwd"]).contains("Not a directory"));
        assert!(open(&["/", "--index", "../x"]).contains("not the name of a file"));
    }
}
