//! What a core does again and again.

use std::path::{Path, PathBuf};

use kumiki_cases::ways::{Target, posix_spawn};
use kumiki_measure::Result;
use kumiki_resource::{
    Attach, Handle, Interface, Manager, Memory, Region, RegionSpec, Space, UserSpace,
};
use kumiki_spawn::{Command, Process, Program};
use kumiki_sys::shm::{Anon, Huge, Populate};

use crate::resource::refused;

/// Things that are made and deleted, again and again.
#[derive(Clone, Debug)]
pub enum What {
    /// A frame of 4 KiB, with a name.
    Frame,
    /// The paper's memory: a region of 4 KiB made and attached as a user space, written to,
    /// both deleted.
    Memory,
    /// A process of the program at this path, started from there.
    Started(PathBuf),
    /// The paper's process: of a program that is resident as a resource.
    Process(PathBuf),
}

/// Work of one core, with one type.
pub(super) struct One {
    interface: Interface,
    place: kumiki_resource::Place,
    name: String,
    what: Prepared,
    /// Manager of the type that has one for each place.
    _manager: Option<Manager>,
}

/// With what is there before.
enum Prepared {
    Frame,
    Memory(Handle<Space>),
    Started(PathBuf),
    Process(Handle<Program>),
}

/// Addresses of each core's space: more than one attachment.
const SPACE: usize = 1 << 20;

/// With all kinds that it may be about.
pub(super) fn builder() -> kumiki_resource::Builder {
    let builder = Interface::builder()
        .policy(crate::chosen())
        .kind::<Memory>()
        .kind::<Region>()
        .kind::<Space>();
    builder.kind::<UserSpace>().kind::<Program>().kind::<Process>()
}

impl One {
    /// For the calling thread, which runs on `cpu`; of the shared type or the other one.
    pub(super) fn new(
        interface: &Interface,
        cpu: usize,
        shared: bool,
        what: &What,
    ) -> kumiki_resource::Result<Self> {
        let interface = interface.clone();
        let place =
            if shared { interface.places()[0] } else { interface.place(&format!("core{cpu}"))? };
        let manager = if shared { None } else { Some(interface.manage(place)?) };
        // One tree of names has them all.
        let name = if shared { format!("own-{cpu}") } else { "own".to_owned() };
        let what = match what {
            What::Frame => Prepared::Frame,
            What::Memory => {
                Prepared::Memory(interface.create::<Space>(place, Some(&name), SPACE)?)
            }
            What::Started(path) => Prepared::Started(path.clone()),
            What::Process(path) => {
                Prepared::Process(interface.create::<Program>(place, Some(&name), path.clone())?)
            }
        };
        Ok(One { interface, place, name, what, _manager: manager })
    }

    pub(super) fn once(&self) -> Result<()> {
        self.try_once().map_err(refused)
    }

    fn try_once(&self) -> kumiki_resource::Result<()> {
        let One { interface, place, name, what, .. } = self;
        let name = Some(name.as_str());
        match what {
            Prepared::Frame => interface.destroy(interface.create::<Memory>(*place, name, 1)?),
            Prepared::Memory(space) => {
                let region = interface.create::<Region>(*place, name, RegionSpec::Frames(1))?;
                let memory = interface.attach(*place, name, &region, space, Attach::default())?;
                interface.with(&memory, |memory, _| memory.write(0, &[1]))??;
                interface.destroy(memory)?;
                interface.destroy(region)
            }
            Prepared::Started(path) => {
                let mut command = Command::new(path);
                command.env_clear();
                self.process(command)
            }
            Prepared::Process(program) => {
                let mut command = interface.with(program, |program, ()| program.command())?;
                command.env_clear();
                self.process(command)
            }
        }
    }

    fn process(&self, command: Command) -> kumiki_resource::Result<()> {
        let One { interface, place, name, .. } = self;
        let process = interface.create::<Process>(*place, Some(name), command)?;
        Process::wait(interface, &process)?;
        interface.destroy(process)
    }
}

/// Work by the operating system's own calls, with no table of ours: the cost of a further core by
/// Linux's own locks.
pub(super) enum PlainWork {
    /// mmap(2) of 4 KiB, written to, and munmap(2).
    Memory,
    /// posix_spawn(3) and waitpid(2).
    Process(Target),
}

const PAGE: usize = 4096;

impl PlainWork {
    pub(super) fn new(what: &What) -> Result<Self> {
        Ok(match what {
            What::Frame | What::Memory => PlainWork::Memory,
            What::Started(path) | What::Process(path) => PlainWork::Process(Target::new(path)?),
        })
    }

    pub(super) fn once(&self) -> Result<()> {
        match self {
            PlainWork::Memory => {
                let memory = Anon::new(PAGE, Huge::Policy, Populate::OnTouch)?;
                memory.write(0, &[1]);
                Ok(())
            }
            PlainWork::Process(target) => posix_spawn(target),
        }
    }
}

/// The paper's program: 1,000 bytes of text, 220 of data, 8 of bss.
///
/// # Errors
/// The folder cannot be written.
pub fn program(folder: &Path) -> Result<PathBuf> {
    kumiki_cases::ways::program(folder, [1000, 220, 8])
}
