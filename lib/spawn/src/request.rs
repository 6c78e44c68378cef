//! A request, written where the server reads it.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use kumiki_sys::descriptors;
use rustix::io::Errno;

use kumiki_spawn_wire::{BASE, BYTES, DATA, FOLDER, Header, OWN, PLACES, SENT, Step};

/// Writes a request.
pub(crate) type Write<'w, 'a> = dyn Fn(&mut Draft<'a>) -> io::Result<()> + 'w;

/// The maker of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maker {
    /// The calling thread itself: the child has all of it that nobody changes.
    Caller,
    /// A server. `takes`: it takes what it can of the caller's itself.
    Server { takes: bool },
}

/// Writes one. Addresses are those that its maker sees.
pub(crate) struct Draft<'a> {
    memory: NonNull<u8>,
    /// Address at which its maker has the memory.
    base: usize,
    pub(crate) maker: Maker,
    /// Offset of the next string.
    at: usize,
    /// Descriptors that the message brings.
    pub(crate) fds: Vec<BorrowedFd<'a>>,
    pub(crate) steps: Vec<Step>,
    pub(crate) clone_flags: u64,
    pub(crate) cgroup: u32,
    pub(crate) image: u32,
    pub(crate) maps: [u64; 2],
    /// Signals that the calling thread blocks.
    pub(crate) mask: u64,
    own: u32,
    brings: [u32; 3],
    programs: Vec<u64>,
    argv: Vec<u64>,
    envp: Vec<u64>,
}

impl<'a> Draft<'a> {
    /// # Safety
    /// The memory is [`BYTES`] long, and until the request has been answered nobody else
    /// writes there.
    pub(crate) unsafe fn new(memory: NonNull<Header>, maker: Maker) -> Draft<'a> {
        Draft {
            memory: memory.cast(),
            base: if maker == Maker::Caller { memory.addr().get() } else { BASE },
            maker,
            at: DATA,
            fds: Vec::with_capacity(4),
            steps: Vec::with_capacity(16),
            clone_flags: 0,
            cgroup: 0,
            image: 0,
            maps: [0; 2],
            mask: 0,
            own: 0,
            brings: [0; 3],
            programs: Vec::with_capacity(8),
            argv: Vec::with_capacity(8),
            envp: Vec::with_capacity(64),
        }
    }

    /// Bytes of the memory that it has so far.
    pub(crate) fn len(&self) -> usize {
        self.at
    }

    fn takes(&self) -> bool {
        self.maker == Maker::Server { takes: true }
    }

    /// A descriptor for a message, or of the caller where that makes the child; its place.
    pub(crate) fn descriptor(&mut self, fd: BorrowedFd<'a>) -> u32 {
        self.fds.push(fd);
        (SENT + self.fds.len() - 1) as u32
    }

    /// The caller's own descriptor 0, 1 or 2; its place.
    pub(crate) fn standard(&mut self, number: usize, fd: BorrowedFd<'a>) -> u32 {
        if self.takes() {
            self.own |= 1 << number;
            return (OWN + number) as u32;
        }
        let place = self.descriptor(fd);
        self.brings[number] = place + 1;
        place
    }

    /// The caller's working folder, opened if it has to be sent; its place.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn folder(
        &mut self,
        open: impl FnOnce() -> io::Result<BorrowedFd<'a>>,
    ) -> io::Result<u32> {
        if self.takes() {
            self.own |= 1 << FOLDER;
            return Ok((OWN + FOLDER) as u32);
        }
        Ok(self.descriptor(open()?))
    }

    /// One step of the child's; `what` is handed back if it is refused.
    pub(crate) fn step<const N: usize>(
        &mut self,
        what: u32,
        call: u32,
        flags: u32,
        args: [u64; N],
    ) {
        let mut all = [0; 4];
        all[..N].copy_from_slice(&args);
        self.steps.push(Step { call, flags, what, unused: 0, args: all });
    }

    pub(crate) fn program(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let at = self.string(parts)?;
        self.programs.push(at);
        Ok(())
    }

    pub(crate) fn arg(&mut self, arg: &[u8]) -> io::Result<()> {
        let at = self.string(&[arg])?;
        self.argv.push(at);
        Ok(())
    }

    pub(crate) fn variable(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let at = self.string(parts)?;
        self.envp.push(at);
        Ok(())
    }

    /// Puts a string there; its address.
    ///
    /// # Errors
    /// `E2BIG`; it has a zero byte.
    pub(crate) fn string(&mut self, parts: &[&[u8]]) -> io::Result<u64> {
        parts.iter().try_for_each(|part| no_zero(part))?;
        let start = self.at;
        parts.iter().try_for_each(|part| self.put(part))?;
        self.put(&[0])?;
        Ok((self.base + start) as u64)
    }

    /// Puts numbers there; their address.
    ///
    /// # Errors
    /// `E2BIG`.
    pub(crate) fn words(&mut self, words: impl IntoIterator<Item = u64>) -> io::Result<u64> {
        self.at = self.at.next_multiple_of(8);
        let start = self.at;
        words.into_iter().try_for_each(|word| self.put(&word.to_ne_bytes()))?;
        Ok((self.base + start) as u64)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > BYTES - self.at {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        let to = self.memory.as_ptr().wrapping_add(self.at);
        // SAFETY: within the memory, as just checked, which is ours to write (`new`).
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.at += bytes.len();
        Ok(())
    }

    /// Completes it, but for its state.
    ///
    /// # Errors
    /// `E2BIG`.
    pub(crate) fn finish(mut self) -> io::Result<Vec<BorrowedFd<'a>>> {
        if SENT + self.fds.len() > PLACES {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        let (steps, programs) =
            (std::mem::take(&mut self.steps), std::mem::take(&mut self.programs));
        let (argv, envp) = (std::mem::take(&mut self.argv), std::mem::take(&mut self.envp));
        let step = self.words(steps.iter().flat_map(|step| {
            let first = u64::from(step.call) | u64::from(step.flags) << 32;
            [first, step.what.into()].into_iter().chain(step.args)
        }))?;
        let program = self.words(programs.iter().copied())?;
        let argv = self.words(argv.into_iter().chain([0]))?;
        let envp = self.words(envp.into_iter().chain([0]))?;
        // SAFETY: at the memory's beginning, and ours as the rest of it.
        let header = unsafe { self.memory.cast::<Header>().as_mut() };
        header.only_look = 0;
        header.clone_flags = self.clone_flags;
        header.cgroup = self.cgroup;
        header.mask = self.mask;
        (header.image, header.maps) = (self.image, self.maps);
        (header.own, header.brings) = (self.own, self.brings);
        (header.step, header.steps) = (step, steps.len() as u32);
        (header.program, header.programs) = (program, programs.len() as u32);
        (header.argv, header.envp) = (argv, envp);
        Ok(self.fds)
    }
}

/// Refuses a zero within what is to end with one.
///
/// # Errors
/// `InvalidInput`.
pub(crate) fn no_zero(part: &[u8]) -> io::Result<()> {
    if !part.contains(&0) {
        return Ok(());
    }
    let text = String::from_utf8_lossy(part);
    let why = format!("{text:?} has a zero byte, which no argument of a program can have");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Sends a message with descriptors, for the request with that number.
///
/// # Errors
/// Nobody is there to get it.
pub(crate) fn send(socket: &OwnedFd, number: u32, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    descriptors::send(socket, &number.to_ne_bytes(), fds).map(drop)
}

/// Turns an error into the kernel's number where there is one.
pub(crate) fn os_error(error: kumiki_sys::Error) -> io::Error {
    match error {
        kumiki_sys::Error::Os { source, .. } => source,
        other => io::Error::other(other),
    }
}
