//! What to start, and how: program, arguments, streams, environment. What the kernel lets a process
//! be is in `command/attributes.rs`.

use std::cell::OnceCell;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kumiki_sys::affinity;
use kumiki_sys::cancellation::Held;

use crate::actions::{self, Action};
use crate::attributes::{Attributes, Descriptor};
use crate::child::{Child, Output};
use crate::itself::{self, In};
use crate::outcome::Refused;
use crate::refusal::Refusal;
use crate::request::{Draft, Write, os_error};
use crate::servers::{SpawnServer, with_shared};
use crate::stdio::{Ends, Kind, Stdio};
use crate::steps::{self, ChildSpec, Inherited};
use crate::tree::Cgroup;
use crate::valgrind;
use kumiki_spawn_wire::{EXECUTE, MAKE};

use environment::Environment;

mod attributes;
mod environment;
mod shown;
mod zygote;

/// Number of tries where other threads close descriptors that were to be sent to a server.
const TURNS: usize = 100;
/// Milliseconds between tries to execute a program that somebody has open for writing: a child that
/// another thread is just making has a copy of its descriptor until it executes something itself.
const BUSY_PAUSES_MS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Folders that are searched for a program without PATH, as confstr(3) has it.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A command, as `std::process::Command`. The child is made by the calling thread without a fork,
/// or by a spawn server ([`by_server`](Command::by_server)).
///
/// | `std::process::Command`, `CommandExt` | here |
/// |---|---|
/// | `new`, `arg`, `args`, `arg0` | same |
/// | `env`, `envs`, `env_remove`, `env_clear` | same |
/// | `current_dir` | same: after the change of user, and before a relative program is looked for |
/// | `stdin`, `stdout`, `stderr` | same; a pipe's other end is a `File` |
/// | `spawn`, `status`, `output` | same; `spawn` at a cost that does not grow with the caller, and [`refused_at`](Self::refused_at) tells what was refused |
/// | `uid`, `gid`, `process_group` | same, without a fork |
/// | `groups`, `setsid`, `chroot` (unstable there) | same; `chroot` before the change of user |
/// | `create_pidfd` (unstable there) | better: every [`Child`] has a [`pidfd`](Child::pidfd) |
/// | `pre_exec`, `before_exec` | **refused**: nothing of the caller runs in the child. What hooks are written for is a method: [`umask`](Self::umask), [`nice`](Self::nice), [`limit`](Self::limit), [`cgroup`](Self::cgroup), [`namespaces`](Self::namespaces), [`affinity`](Self::affinity), [`signal_mask`](Self::signal_mask), [`signal_default`](Self::signal_default), [`signal_ignore`](Self::signal_ignore), [`parent_death_signal`](Self::parent_death_signal), [`controlling_terminal`](Self::controlling_terminal), [`fd`](Self::fd) |
/// | `exec` | **refused**: it replaces the caller, and makes no process; use the standard library's |
/// | `get_program`, `get_args`, `get_envs`, `get_current_dir` | same |
/// | descriptors without FD_CLOEXEC | better: they do not leak into children; [`close_others(false)`](Self::close_others) as there |
///
/// What else is inherited from whom: `docs/design/spawn.md`.
pub struct Command {
    program: OsString,
    args: Vec<OsString>,
    /// Executed instead of what the name finds.
    image: Option<Arc<OwnedFd>>,
    pub(crate) environment: Environment,
    folder: Option<PathBuf>,
    pub(crate) attributes: Attributes,
    standard: [Option<Stdio>; 3],
    pub(crate) actions: Vec<Action>,
    /// Paths at which the program may be, and whether the search goes on behind one that cannot be
    /// executed; else its name says it.
    candidates: Option<Vec<OsString>>,
    /// The step that the last start was refused at.
    refused: Option<String>,
    /// Ended with all that comes of it.
    kill_tree: bool,
}

impl Command {
    /// A program: a path, or a name that PATH finds.
    pub fn new(program: impl AsRef<OsStr>) -> Command {
        let program = program.as_ref().to_owned();
        Command {
            args: vec![program.clone()],
            program,
            image: None,
            environment: Environment::default(),
            folder: None,
            attributes: Attributes::default(),
            standard: [None, None, None],
            actions: Vec::new(),
            candidates: None,
            refused: None,
            kill_tree: false,
        }
    }

    /// A program whose image is open.
    pub(crate) fn of_image(path: &Path, image: Arc<OwnedFd>) -> Command {
        Command { image: Some(image), ..Command::new(path) }
    }

    /// One more argument.
    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Command {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// More arguments.
    pub fn args(&mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Command {
        args.into_iter().for_each(|arg| _ = self.arg(arg));
        self
    }

    /// The name that the program gets as its own.
    pub fn arg0(&mut self, arg: impl AsRef<OsStr>) -> &mut Command {
        self.args[0] = arg.as_ref().to_owned();
        self
    }

    /// A variable of its environment; the others are the caller's.
    pub fn env(&mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Command {
        let value = Some(value.as_ref().to_owned());
        self.environment.changes.insert(key.as_ref().to_owned(), value);
        self
    }

    /// Several variables.
    pub fn envs(
        &mut self,
        variables: impl IntoIterator<Item = (impl AsRef<OsStr>, impl AsRef<OsStr>)>,
    ) -> &mut Command {
        variables.into_iter().for_each(|(key, value)| _ = self.env(key, value));
        self
    }

    /// Takes this variable out.
    pub fn env_remove(&mut self, key: impl AsRef<OsStr>) -> &mut Command {
        self.environment.changes.insert(key.as_ref().to_owned(), None);
        self
    }

    /// Takes the caller's variables out, and those set so far.
    pub fn env_clear(&mut self) -> &mut Command {
        self.environment.clear = true;
        self.environment.changes.clear();
        self
    }

    /// Its whole environment, as strings that execve(2) takes: whatever they are and in their
    /// order, in place of what else was said of it.
    pub fn environment<'a>(&mut self, strings: impl IntoIterator<Item = &'a CStr>) -> &mut Command {
        let mut whole = Vec::new();
        strings.into_iter().for_each(|string| whole.extend_from_slice(string.to_bytes_with_nul()));
        self.environment.whole = Some(whole);
        self
    }

    /// Sets the working folder.
    pub fn current_dir(&mut self, folder: impl AsRef<Path>) -> &mut Command {
        self.folder = Some(folder.as_ref().to_owned());
        self.attributes.folder = None;
        self
    }

    /// Gives paths at which the program may be, in place of its name: the first of these that can
    /// be executed is, by one child, which tries them as it is by then. As execvp(3) it goes on
    /// behind those that are not there or may not be executed.
    pub fn candidates(
        &mut self,
        programs: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> &mut Command {
        let programs = programs.into_iter().map(|program| program.as_ref().to_owned()).collect();
        self.candidates = Some(programs);
        self
    }

    /// The program.
    pub fn get_program(&self) -> &OsStr {
        &self.program
    }

    /// Its arguments, without its own name.
    pub fn get_args(&self) -> impl ExactSizeIterator<Item = &OsStr> {
        self.args[1..].iter().map(OsString::as_os_str)
    }

    /// Variables that were set; `None` is one that was taken away.
    pub fn get_envs(&self) -> impl ExactSizeIterator<Item = (&OsStr, Option<&OsStr>)> {
        let changes = self.environment.changes.iter();
        changes.map(|(key, value)| (key.as_os_str(), value.as_deref()))
    }

    /// Working folder, if one was set.
    pub fn get_current_dir(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Its standard input; the caller's, if nothing is said.
    pub fn stdin(&mut self, stdio: impl Into<Stdio>) -> &mut Command {
        self.standard[0] = Some(stdio.into());
        self
    }

    /// Its standard output; the caller's, if nothing is said, and a pipe for
    /// [`Command::output`].
    pub fn stdout(&mut self, stdio: impl Into<Stdio>) -> &mut Command {
        self.standard[1] = Some(stdio.into());
        self
    }

    /// Its standard error, as [`Command::stdout`].
    pub fn stderr(&mut self, stdio: impl Into<Stdio>) -> &mut Command {
        self.standard[2] = Some(stdio.into());
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// What was refused is named, with its value: a program that there is not, a folder, a user. The
    /// error has the kind of the kernel's own, and that itself in a [`Refusal`], so that its number comes
    /// from [`Refusal::number`], and not from `raw_os_error`: as of posix_spawn(3), `ENOENT` without such
    /// a program, `EACCES` for one that may not be executed, `ENOEXEC` for what is no program, `E2BIG`,
    /// `EAGAIN` at a limit of processes. A string with a zero byte is
    /// [`InvalidInput`](io::ErrorKind::InvalidInput). `ETXTBSY`, of a program that was just
    /// written, only after eight tries in an eighth of a second: another thread's child may have
    /// the file open until it executes its own program.
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.start([Kind::Inherit, Kind::Inherit, Kind::Inherit], None)
    }

    /// Starts it by a server that is the caller's own.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn spawn_by(&mut self, server: &mut SpawnServer) -> io::Result<Child> {
        self.start([Kind::Inherit, Kind::Inherit, Kind::Inherit], Some(server))
    }

    /// Starts it and waits for its end.
    ///
    /// # Errors
    /// As [`Command::spawn`] and [`Child::wait`].
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// Starts it, waits for its end, and hands back what it has written. It reads
    /// nothing, if nothing else was said.
    ///
    /// # Errors
    /// As [`Command::spawn`] and [`Child::wait_with_output`].
    pub fn output(&mut self) -> io::Result<Output> {
        self.start([Kind::Null, Kind::Piped, Kind::Piped], None)?.wait_with_output()
    }

    /// Lets [`Child::kill`] end all descendants, too, if true: by a cgroup of its own within the
    /// caller's or the one that was set, where the caller may make one (cgroup.kill, Linux 5.14),
    /// and else by a process group of its own, which a process can leave. What is left when the
    /// [`Child`] is dropped goes on, in the cgroup around.
    ///
    /// Has no effect on [`spawn_async`](Self::spawn_async).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use kumiki_spawn::Command;
    ///
    /// let mut sleeps = Command::new("sh").args(["-c", "sleep 1000 & sleep 1000"]).kill_tree(true).spawn()?;
    /// if sleeps.wait_timeout(Duration::from_millis(10))?.is_none() {
    ///     sleeps.kill()?;
    ///     sleeps.wait()?;
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn kill_tree(&mut self, kill_tree: bool) -> &mut Command {
        self.kill_tree = kill_tree;
        self
    }

    /// Begins the spawn as [`Command::spawn_by`] does; the caller's ends of pipes.
    pub(crate) fn begin(&mut self, server: &mut SpawnServer) -> Option<[Option<File>; 3]> {
        self.refused = None;
        // Who only looks now and then writes no maps.
        if self.attributes.has_maps() {
            return None;
        }
        let nothing = || Refused::from(io::Error::from_raw_os_error(libc::EAGAIN));
        let unsaid = [Kind::Inherit, Kind::Inherit, Kind::Inherit];
        let begun = self.prepared(&unsaid, |write| server.begin(write).ok_or_else(nothing));
        begun.ok().map(|((), pipes)| pipes)
    }

    /// Keeps where a start was refused, and returns its outcome.
    pub(crate) fn made(&mut self, made: Result<Child, Refused>) -> io::Result<Child> {
        made.map_err(|refused| {
            let Some(step) = refused.step else { return refused.error };
            let said = match step {
                MAKE => "making the process".to_owned(),
                EXECUTE => format!("executing the program {}", self.shown()),
                step => steps::said(step, &self.said()),
            };
            self.refused = Some(said.clone());
            Refusal::new(said, step, refused.error).into()
        })
    }

    /// The step of the child that the last start was refused at, in words and with its value:
    /// `its user 0`, `executing the program no-such`. `None` if it was not the kernel.
    pub fn refused_at(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// The program's name for messages.
    pub(crate) fn shown(&self) -> std::path::Display<'_> {
        Path::new(&self.program).display()
    }

    fn start(
        &mut self,
        unsaid: [Kind; 3],
        mut server: Option<&mut SpawnServer>,
    ) -> io::Result<Child> {
        self.refused = None;
        // A cancellation would go through what is half done.
        let _held = Held::new();
        if self.kill_tree {
            return self.start_tree(&unsaid, server);
        }
        let made = self.turns(&unsaid, &mut server);
        self.made(made)
    }

    /// Starts it in a cgroup of its own, if one can be made and begun in, else in a process group
    /// of its own.
    fn start_tree(
        &mut self,
        unsaid: &[Kind; 3],
        mut server: Option<&mut SpawnServer>,
    ) -> io::Result<Child> {
        if self.attributes.group.is_some_and(|group| group != 0) {
            let why = "kill_tree and the process group of others: its group is ended with it";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let within = self.attributes.cgroup.take();
        let cgroup = Cgroup::make(within.as_ref().map(AsFd::as_fd));
        if let Some(folder) = cgroup.as_ref().and_then(|cgroup| cgroup.folder().ok()) {
            self.attributes.cgroup = Some(Descriptor::Own(folder));
            let made = self.turns(unsaid, &mut server);
            self.attributes.cgroup = None;
            match made {
                // It is the cgroup in which it may not begin.
                Err(Refused { step: Some(MAKE), .. }) => {}
                made => {
                    self.attributes.cgroup = within;
                    return self.made(made).map(|child| child.in_tree(cgroup));
                }
            }
        }
        drop(cgroup);
        self.attributes.cgroup = within;
        let group = self.attributes.group;
        if !self.attributes.session {
            self.attributes.group = Some(0);
        }
        let made = self.turns(unsaid, &mut server);
        self.attributes.group = group;
        self.made(made).map(|child| child.in_tree(None))
    }

    /// Tries again as often as the obstacle is soon over.
    fn turns(
        &self,
        unsaid: &[Kind; 3],
        server: &mut Option<&mut SpawnServer>,
    ) -> Result<Child, Refused> {
        let mut pauses = BUSY_PAUSES_MS.into_iter();
        for _ in 1..TURNS {
            match self.make(unsaid, server.as_deref_mut()) {
                // One that was to be sent was closed by another thread.
                Err(Refused { step: None, error, .. })
                    if error.raw_os_error() == Some(libc::EBADF) => {}
                Err(refused)
                    if refused.step == Some(EXECUTE)
                        && refused.error.raw_os_error() == Some(libc::ETXTBSY) =>
                {
                    match pauses.next() {
                        Some(ms) => thread::sleep(Duration::from_millis(ms)),
                        None => return Err(refused),
                    }
                }
                made => return made,
            }
        }
        self.make(unsaid, server.as_deref_mut())
    }

    fn make(&self, unsaid: &[Kind; 3], server: Option<&mut SpawnServer>) -> Result<Child, Refused> {
        if let Some(wrong) = &self.attributes.wrong {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, wrong.as_str()).into());
        }
        let in_valgrind = valgrind::runs_in_it();
        if server.is_none() && !self.attributes.wants_server() && !in_valgrind {
            return self.make_itself(unsaid, In::Caller);
        }
        let may_copy = server.is_none() && !self.attributes.has_maps() && !in_valgrind;
        let made = self.prepared(unsaid, |write| match server {
            Some(server) => server.spawn(write),
            // The signal is sent when the thread ends that has started the server.
            None if self.attributes.parent_death.is_some() => SpawnServer::new().spawn(write),
            None => with_shared(|server| server.spawn(write)),
        });
        match made {
            Ok((pid, pipes)) => Ok(Child::new(pid, pipes)),
            // Then it is done as the standard library does it.
            Err(refused) if may_copy && is_the_server_s(&refused) => {
                self.make_itself(unsaid, In::Copy)
            }
            Err(refused) => Err(refused),
        }
    }

    /// Makes the child by the calling thread, without a server.
    fn make_itself(&self, unsaid: &[Kind; 3], place: In) -> Result<Child, Refused> {
        let (ends, folder, parent) = (self.ends(unsaid)?, OnceCell::new(), OnceCell::new());
        let caller = Inherited {
            folder: &folder,
            parent: &parent,
            standard: [0, 1, 2].map(|number| ends[number].theirs.as_ref()),
            others: Vec::new(),
            cpus: affinity::unbound_if_other().map_err(os_error)?,
        };
        let (pid, _) = itself::spawn(place, false, |draft| self.write(draft, &caller))?;
        drop(caller);
        Ok(Child::new(pid, ends.map(|ends| ends.ours)))
    }

    /// Writes the request for `make`; its outcome, and the caller's ends of pipes.
    fn prepared<T>(
        &self,
        unsaid: &[Kind; 3],
        make: impl for<'w, 'a> FnOnce(&Write<'w, 'a>) -> Result<T, Refused>,
    ) -> Result<(T, [Option<File>; 3]), Refused> {
        let (ends, folder, parent) = (self.ends(unsaid)?, OnceCell::new(), OnceCell::new());
        let caller = Inherited {
            folder: &folder,
            parent: &parent,
            standard: [0, 1, 2].map(|number| ends[number].theirs.as_ref()),
            others: self.others()?,
            cpus: affinity::unbound_if_other().map_err(os_error)?,
        };
        let made = make(&|draft| self.write(draft, &caller))?;
        drop(caller);
        Ok((made, ends.map(|ends| ends.ours)))
    }

    fn ends<'a>(&'a self, unsaid: &'a [Kind; 3]) -> io::Result<[Ends<'a>; 3]> {
        let mut ends = [const { Ends { theirs: None, ours: None } }; 3];
        for (number, end) in ends.iter_mut().enumerate() {
            let said = self.standard[number].as_ref().map(|Stdio(kind)| kind);
            *end = said.unwrap_or(&unsaid[number]).open(number as i32)?;
        }
        Ok(ends)
    }

    /// The caller's descriptors above the standard ones that a server's child begins with.
    fn others(&self) -> io::Result<Vec<(BorrowedFd<'static>, bool)>> {
        let mut all = actions::begin_with(&self.actions);
        if self.attributes.keep_others {
            all.retain(|(_, at_exec)| *at_exec);
            all.extend(open_at_exec()?.into_iter().map(|fd| (fd, false)));
        }
        Ok(all)
    }

    fn said(&self) -> ChildSpec<'_> {
        let (attributes, actions) = (&self.attributes, &self.actions[..]);
        ChildSpec { attributes, folder: self.folder.as_deref(), actions }
    }

    fn write<'a>(&'a self, draft: &mut Draft<'a>, caller: &Inherited<'a>) -> io::Result<()> {
        self.environment.each(|variable| draft.variable(variable))?;
        self.args.iter().try_for_each(|arg| draft.arg(arg.as_bytes()))?;
        match &self.image {
            Some(image) => draft.image = draft.descriptor(image.as_fd()) + 1,
            None => self.programs(draft)?,
        }
        steps::write(draft, &self.said(), caller)
    }

    /// Writes the paths at which the program may be. As the standard library, by the PATH that the
    /// child has; where that was taken from it, by execvp(3)'s own.
    fn programs(&self, draft: &mut Draft<'_>) -> io::Result<()> {
        if let Some(candidates) = &self.candidates {
            return candidates.iter().try_for_each(|program| draft.program(&[program.as_bytes()]));
        }
        let program = self.program.as_bytes();
        if program.is_empty() || program.contains(&b'/') {
            return draft.program(&[program]);
        }
        let path = self.environment.path().unwrap_or_else(|| DEFAULT_PATH.into());
        path.as_bytes().split(|byte| *byte == b':').try_for_each(|folder| {
            // An empty one is the working folder.
            let folder = if folder.is_empty() { b"." } else { folder };
            draft.program(&[folder, b"/", program])
        })
    }
}

/// True if a child that the caller makes itself may be had all the same: there is no server, or it
/// cannot give the child what the caller's own has without it, or is the first process of a pid
/// namespace, which has no siblings.
fn is_the_server_s(refused: &Refused) -> bool {
    let errno = refused.error.raw_os_error();
    let by_its_place = || errno == Some(libc::EINVAL);
    refused.lacks_server
        // What has to be opened to be sent to it; not what is wrong with the request itself.
        || refused.step.is_none() && !matches!(errno, None | Some(libc::E2BIG | libc::EBADF))
        || refused.step.is_some_and(steps::is_of_server)
        || refused.step == Some(MAKE) && by_its_place()
}

/// The calling process's descriptors that stay open at exec, the standard ones apart.
fn open_at_exec() -> io::Result<Vec<BorrowedFd<'static>>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|number| number.parse().ok());
        let Some(number) = number.filter(|number| *number > 2) else { continue };
        // SAFETY: only asks.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        if flags >= 0 && flags & libc::FD_CLOEXEC == 0 {
            // SAFETY: it was just open. Who closes it meanwhile has that race with every exec.
            all.push(unsafe { BorrowedFd::borrow_raw(number) });
        }
    }
    Ok(all)
}
