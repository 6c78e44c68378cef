//! What a core does again and again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kumiki_cases::ways::{Target, posix_spawn};
use kumiki_measure::Result;
use kumiki_resource::{
    Attach, Handle, Interface, Manager, Memory, Region, RegionSpec, Space, UserSpace, UserSpaceSpec,
};
use kumiki_spawn::{Command, Process, Program};
use kumiki_sys::shm::{Anon, Huge, Populate};

use crate::resource::refused;
use crate::resource::shared::{self, Serial, SharedKind};

/// Things that are made and deleted, again and again.
#[derive(Clone, Debug)]
pub enum What {
    /// A frame of 4 KiB, with a name.
    Frame,
    /// The paper's memory: a region of 4 KiB made and attached as a user space, written to,
    /// both deleted.
    Memory,
    /// Memory likewise, in a space that is mapped once, over its core's frames.
    MappedMemory,
    /// A process of the program at this path, started from there.
    Started(PathBuf),
    /// The paper's process: of a program that is resident as a resource.
    Process(PathBuf),
}

impl What {
    /// Maps its spaces once.
    pub(super) fn mapped_once(self) -> What {
        match self {
            What::Memory => What::MappedMemory,
            other => other,
        }
    }
}

/// Work of one core with tables of its own.
pub(super) struct One {
    interface: Interface,
    place: kumiki_resource::Place,
    what: Prepared,
    _manager: Manager,
}

/// Operation, with the things that are there before.
enum Prepared {
    Frame,
    Memory(Handle<Space>),
    Started(PathBuf),
    Process(Handle<Program>),
}

/// Name of what each core makes in its own tree.
const NAME: &str = "own";

/// Addresses of each core's space: more than one attachment, and all of a pool's first frames.
const SPACE: usize = 4 << 20;

/// Builder with all kinds that it may be about.
pub(super) fn builder() -> kumiki_resource::Builder {
    let builder = Interface::builder()
        .policy(crate::chosen())
        .kind::<Memory>()
        .kind::<Region>()
        .kind::<Space>();
    builder.kind::<UserSpace>().kind::<Program>().kind::<Process>()
}

impl One {
    /// Makes the work of the calling thread, which runs on `cpu`.
    pub(super) fn new(
        interface: &Interface,
        cpu: usize,
        what: &What,
    ) -> kumiki_resource::Result<Self> {
        let interface = interface.clone();
        let place = interface.place(&format!("core{cpu}"))?;
        let manager = interface.manage(place)?;
        let what = match what {
            What::Frame => Prepared::Frame,
            What::Memory => {
                Prepared::Memory(interface.create::<Space>(place, Some(NAME), SPACE)?)
            }
            What::MappedMemory => {
                Prepared::Memory(interface.space_of_frames(place, Some(NAME), SPACE)?)
            }
            What::Started(path) => Prepared::Started(path.clone()),
            What::Process(path) => {
                Prepared::Process(interface.create::<Program>(place, Some(NAME), path.clone())?)
            }
        };
        Ok(One { interface, place, what, _manager: manager })
    }

    pub(super) fn once(&self) -> Result<()> {
        self.try_once().map_err(refused)
    }

    fn try_once(&self) -> kumiki_resource::Result<()> {
        let One { interface, place, what, .. } = self;
        let name = Some(NAME);
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
        let One { interface, place, .. } = self;
        let process = interface.create::<Process>(*place, Some(NAME), command)?;
        Process::wait(interface, &process)?;
        interface.destroy(process)
    }
}

/// Tables that all cores have together.
pub(super) struct Tables {
    memory: SharedKind<Memory>,
    regions: SharedKind<Region>,
    spaces: SharedKind<Space>,
    users: SharedKind<UserSpace>,
    programs: SharedKind<Program>,
    processes: SharedKind<Process>,
}

impl Tables {
    pub(super) fn new() -> kumiki_resource::Result<Self> {
        Ok(Tables {
            memory: SharedKind::new()?,
            regions: SharedKind::new()?,
            spaces: SharedKind::new()?,
            users: SharedKind::new()?,
            programs: SharedKind::new()?,
            processes: SharedKind::new()?,
        })
    }
}

/// Work of one core with tables that all have.
pub(super) struct OneOfAll {
    tables: Arc<Tables>,
    /// One tree of names has them all.
    name: String,
    what: MadeOfAll,
}

/// Operation, with the things that are there before.
enum MadeOfAll {
    Frame,
    Memory(Serial),
    Started(PathBuf),
    Process(Serial),
}

impl OneOfAll {
    /// Makes the work of the calling thread, which runs on `cpu`.
    pub(super) fn new(
        tables: &Arc<Tables>,
        cpu: usize,
        what: &What,
    ) -> kumiki_resource::Result<Self> {
        let (tables, name) = (Arc::clone(tables), format!("own-{cpu}"));
        let what = match what {
            What::Frame => MadeOfAll::Frame,
            What::Memory | What::MappedMemory => {
                MadeOfAll::Memory(tables.spaces.create(Some(&name), SPACE)?)
            }
            What::Started(path) => MadeOfAll::Started(path.clone()),
            What::Process(path) => {
                MadeOfAll::Process(tables.programs.create(Some(&name), path.clone())?)
            }
        };
        Ok(OneOfAll { tables, name, what })
    }

    pub(super) fn once(&self) -> Result<()> {
        self.try_once().map_err(refused)
    }

    fn try_once(&self) -> kumiki_resource::Result<()> {
        let OneOfAll { tables, name, what } = self;
        let name = Some(name.as_str());
        match what {
            MadeOfAll::Frame => tables.memory.destroy(tables.memory.create(name, 1)?),
            MadeOfAll::Memory(space) => {
                let region = tables.regions.create(name, RegionSpec::Frames(1))?;
                let attached = |region: &Region, space: &mut Space| {
                    UserSpaceSpec::attached(region, space, Attach::default())
                };
                let spec = tables.regions.with(region, |region, _| {
                    tables.spaces.with(*space, |space, ()| attached(region, space))
                })???;
                let memory = tables.users.create(name, spec)?;
                tables.users.with(memory, |memory, _| memory.write(0, &[1]))??;
                tables.users.destroy(memory)?;
                tables.regions.destroy(region)
            }
            MadeOfAll::Started(path) => self.process(Command::new(path)),
            MadeOfAll::Process(program) => {
                self.process(tables.programs.with(*program, |program, ()| program.command())?)
            }
        }
    }

    fn process(&self, mut command: Command) -> kumiki_resource::Result<()> {
        command.env_clear();
        let processes = &self.tables.processes;
        let process = processes.create(Some(&self.name), command)?;
        shared::wait(processes, process)?;
        processes.destroy(process)
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
            What::Frame | What::Memory | What::MappedMemory => PlainWork::Memory,
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
