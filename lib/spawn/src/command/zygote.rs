//! What of a command a child gets that is there already.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{Command, Ends};
use crate::actions;
use crate::request::no_zero;
use crate::stdio::{Kind, Theirs};
use crate::steps::here;

impl Command {
    /// True if it gives descriptor `number`.
    pub(crate) fn gives(&self, number: i32) -> bool {
        self.attributes.fds.iter().any(|(_, taken)| *taken == number)
    }

    /// Gives it no more, and closes it here.
    pub(crate) fn take_back(&mut self, number: i32) {
        self.attributes.fds.retain(|(_, taken)| *taken != number);
    }

    /// Reason for which a zygote of another command cannot become what this one describes.
    pub(crate) fn differs_from_zygote(&self, zygote: &Command) -> Option<String> {
        if self.program != zygote.program {
            let (own, its) = (self.shown(), zygote.shown());
            return Some(format!("{own} was asked for, of a pool of {its}"));
        }
        let actions = (!self.actions.is_empty()).then_some("file actions");
        let said = self.attributes.first_said().or(actions)?;
        Some(format!("{said} of a process that is there already: say it to the pool's command"))
    }

    /// Hands over what stands in a message for a zygote; the other ends of pipes.
    pub(crate) fn hand_over(
        &self,
        send: impl FnOnce(&[u8], &[BorrowedFd<'_>]) -> io::Result<()>,
    ) -> io::Result<[Option<File>; 3]> {
        let unsaid = [const { Kind::Inherit }; 3];
        let ends = self.ends(&unsaid)?;
        let folder = here()?;
        let is_there = |number| actions::flags(number) == Some(false);
        let standard = ends.iter().zip(0..).map(|(Ends { theirs, .. }, number)| {
            let theirs = theirs.as_ref();
            let theirs = theirs.filter(|end| !matches!(end, Theirs::Caller(_)) || is_there(number));
            theirs.map(AsFd::as_fd)
        });
        let bits = standard.clone().zip(0..).map(|(fd, place)| u8::from(fd.is_some()) << place);
        let into = self.folder.as_deref().map(Path::as_os_str);
        let content = content(bits.sum(), into.map(OsStr::new), &self.args, |put| {
            self.environment.each(|variable| put(variable))
        })?;
        let fds: Vec<_> = [Some(folder.as_fd())].into_iter().chain(standard).flatten().collect();
        send(&content, &fds)?;
        Ok(ends.map(|ends| ends.ours))
    }
}

/// The strings of a message, each with a zero at its end: the folder, arguments, variables;
/// before them which standard descriptors follow, and how many arguments there are.
fn content(
    standard: u8,
    folder: Option<&OsStr>,
    args: &[OsString],
    each_variable: impl FnOnce(&mut dyn FnMut(&[&[u8]]) -> io::Result<()>) -> io::Result<()>,
) -> io::Result<Vec<u8>> {
    let mut all = vec![standard];
    all.extend((args.len() as u32).to_ne_bytes());
    let mut put = |parts: &[&[u8]]| {
        // Each would be two, and those behind it others.
        parts.iter().try_for_each(|part| no_zero(part))?;
        parts.iter().for_each(|part| all.extend_from_slice(part));
        all.push(0);
        Ok(())
    };
    put(&[folder.map_or(b"".as_slice(), OsStr::as_bytes)])?;
    args.iter().try_for_each(|arg| put(&[arg.as_bytes()]))?;
    each_variable(&mut put)?;
    Ok(all)
}
