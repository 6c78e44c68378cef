//! What to start, and how.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use kumiki_sys::affinity;

use crate::child::{Child, Output};
use crate::request::{Request, string};
use crate::server;
use crate::stdio::{Kind, Stdio};

/// Where a program is searched for without PATH, as confstr(3) has it.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// As `std::process::Command`, made by the spawn server. What has the same name does the
/// same; there is no `pre_exec`, as there is no fork of this program in which to run it.
#[derive(Debug)]
pub struct Command {
    program: OsString,
    args: Vec<OsString>,
    /// `None`: taken away.
    env: BTreeMap<OsString, Option<OsString>>,
    clear: bool,
    folder: Option<PathBuf>,
    group: Option<i32>,
    standard: [Option<Stdio>; 3],
}

impl Command {
    /// A program: a path, or a name that PATH finds.
    pub fn new(program: impl AsRef<OsStr>) -> Command {
        let program = program.as_ref().to_owned();
        Command {
            args: vec![program.clone()],
            program,
            env: BTreeMap::new(),
            clear: false,
            folder: None,
            group: None,
            standard: [None, None, None],
        }
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
        self.env.insert(key.as_ref().to_owned(), Some(value.as_ref().to_owned()));
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

    /// Without this variable.
    pub fn env_remove(&mut self, key: impl AsRef<OsStr>) -> &mut Command {
        self.env.insert(key.as_ref().to_owned(), None);
        self
    }

    /// Without the caller's variables and those set so far.
    pub fn env_clear(&mut self) -> &mut Command {
        self.clear = true;
        self.env.clear();
        self
    }

    /// Where it runs.
    pub fn current_dir(&mut self, folder: impl AsRef<Path>) -> &mut Command {
        self.folder = Some(folder.as_ref().to_owned());
        self
    }

    /// The process group that it joins; 0 for one of its own.
    pub fn process_group(&mut self, group: i32) -> &mut Command {
        self.group = Some(group);
        self
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
    /// With the kernel's number, as posix_spawn(3) has it: `ENOENT` without such a program
    /// or folder, `EACCES` for one that may not be executed, `ENOEXEC` for what is no
    /// program, `E2BIG`, `EAGAIN` at a limit of processes. A string with a zero byte is
    /// [`InvalidInput`](io::ErrorKind::InvalidInput).
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.start([Kind::Inherit, Kind::Inherit, Kind::Inherit])
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
        self.start([Kind::Null, Kind::Piped, Kind::Piped])?.wait_with_output()
    }

    /// The program's name for messages.
    pub(crate) fn shown(&self) -> std::path::Display<'_> {
        Path::new(&self.program).display()
    }

    fn start(&self, unsaid: [Kind; 3]) -> io::Result<Child> {
        let request = self.request()?;
        let kinds = self.standard.iter().zip(&unsaid);
        let kinds = kinds.map(|(said, unsaid)| said.as_ref().map_or(unsaid, |Stdio(kind)| kind));
        let ends: Vec<_> =
            kinds.zip(0..).map(|(kind, number)| kind.open(number)).collect::<io::Result<_>>()?;
        let theirs = [0, 1, 2].map(|number| ends[number].theirs.as_ref().map(AsFd::as_fd));
        let pid = server::spawn(&request, &theirs)?;
        let mut ours = ends.into_iter().map(|ends| ends.ours);
        Child::new(pid, [(); 3].map(|()| ours.next().flatten()))
    }

    fn request(&self) -> io::Result<Request> {
        let own = if self.clear { Vec::new() } else { env::vars_os().collect() };
        let mut env: BTreeMap<OsString, OsString> = own.into_iter().collect();
        for (key, value) in &self.env {
            match value {
                Some(value) => _ = env.insert(key.clone(), value.clone()),
                None => _ = env.remove(key),
            }
        }
        let variable = |(key, value): (&OsString, &OsString)| {
            string(&OsString::from_vec([key.as_bytes(), b"=", value.as_bytes()].concat()))
        };
        Ok(Request {
            programs: self.programs(&env)?,
            args: self.args.iter().map(|arg| string(arg)).collect::<io::Result<_>>()?,
            env: env.iter().map(variable).collect::<io::Result<_>>()?,
            folder: self.folder.as_deref().map(|folder| string(folder.as_os_str())).transpose()?,
            group: self.group,
            cpus: affinity::unbound().map_err(io::Error::other)?,
        })
    }

    /// Where the program may be. As the standard library, by the child's PATH if that was
    /// set, else by the caller's.
    fn programs(&self, env: &BTreeMap<OsString, OsString>) -> io::Result<Vec<CString>> {
        if self.program.is_empty() || self.program.as_bytes().contains(&b'/') {
            return Ok(vec![string(&self.program)?]);
        }
        let path = env.get(OsStr::new("PATH")).cloned();
        let path = path.or_else(|| env::var_os("PATH")).unwrap_or_else(|| DEFAULT_PATH.into());
        env::split_paths(&path)
            // An empty one is the working folder.
            .map(|folder| string(Path::new(".").join(folder).join(&self.program).as_os_str()))
            .collect()
    }
}
