//! A machine from its start to its end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant, SystemTime};

use kumiki_boot::Placed;
use kumiki_stream::frame::decode;
use kumiki_stream::{Kind, Link, MuxLink};

use crate::apt::Archive;
use crate::arch::Arch;
use crate::cache::Cache;
use crate::config::{Accelerator, CPUS_MAX, Config, MEMORY_MIN_BYTES};
use crate::error::{Error, Result};
use crate::guest::{Guest, reason};
use crate::initramfs::{self, AGENT, Parts};
use crate::kernel::Kernel;
use crate::kvm;
use crate::log::{KernelLog, is_emulation};
use crate::modules::Module;
use crate::place::Place;
use crate::qemu::{self, Files, Qemu};
use crate::talk::Talk;
use crate::wish::{Hello, Wish};

/// The kernel log in a machine's folder.
pub(crate) const LOG: &str = "kernel.log";
/// Number of tries of a start that QEMU's own fault spoilt.
const STARTS: u32 = 3;
/// Time that QEMU may take to end when the agent has been told to.
const END_LIMIT: Duration = Duration::from_secs(10);
/// COMMAND_LINE_SIZE of x86 without the zero; what comes behind is lost.
const COMMAND_LINE_BYTES: usize = 2047;
/// Logs of failed runs that are kept, the newest.
const LOGS_KEPT: usize = 20;
/// Modules that the agent cannot do without.
const OWN_MODULES: [&str; 2] = ["virtio_pci", "virtio_console"];

/// A machine that runs. It ends with this value, with the process, and with the
/// thread of nobody: QEMU is killed even if we are.
pub struct Machine {
    // In the order in which they are to go.
    guest: Guest,
    qemu: Qemu,
    place: Place,
    kernel: Kernel,
    cache: Cache,
    times: Times,
    /// True if its end has a code.
    debug_exit: bool,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("kernel", &self.kernel).finish_non_exhaustive()
    }
}

/// Times of the parts of a start.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Times {
    /// Finding or fetching packages, composing the initramfs.
    pub prepare: Duration,
    /// Time from QEMU's start to the agent's first word.
    pub start: Duration,
    /// Part of that since the kernel began to count.
    pub kernel: Duration,
    /// Starts that were given up because of QEMU's own fault.
    pub retries: u32,
    /// True if the processor ran it, not QEMU's emulation.
    pub kvm: bool,
}

impl Machine {
    /// Starts one and waits until commands can be run.
    pub fn start(cache: &Cache, config: &Config, talk: Talk<'_>) -> Result<Self> {
        Self::start_at(Place::unnamed, cache, config, talk)
    }

    pub(crate) fn start_at(
        place: impl Fn() -> Result<Place>,
        cache: &Cache,
        config: &Config,
        talk: Talk<'_>,
    ) -> Result<Self> {
        let begin = Instant::now();
        check(config)?;
        let arch = config.kernel.arch();
        let program = qemu::program(arch)?;
        let kernel = config.kernel.get(cache, talk)?;
        let initramfs = initramfs(cache, config, &kernel, talk)?;
        let kvm = match config.accelerator {
            // Of another processor's code KVM runs nothing.
            Accelerator::Auto if arch != Arch::own() => false,
            Accelerator::Auto => kvm::works(cache, config, talk, |plain| {
                Machine::start(cache, plain, Talk::nowhere()).is_ok()
            }),
            Accelerator::Kvm => true,
            Accelerator::Tcg | Accelerator::OneThread => false,
        };
        let mut times = Times { prepare: begin.elapsed(), kvm, ..Times::default() };
        let start_limit = config.start_limit * kernel.slowness();
        loop {
            let place = place()?;
            let image = place.folder().join("initramfs");
            fs::write(&image, &initramfs).map_err(Error::file("writing", &image))?;
            let log = KernelLog::at(place.folder().join(LOG));
            let files = Files { kernel: kernel.started(), initramfs: &image, log: log.path() };
            let words = qemu::arguments(config, kvm, &files);
            let begin = Instant::now();
            let (qemu, input, output) = Qemu::start(&program, &words)?;
            let end = Some(qemu.end_cell());
            let (guest, incoming) = Guest::over(output, input, log.clone(), end)?;
            let hello = incoming.next_within(start_limit).map(|link| said(&link));
            times.start = begin.elapsed();
            let failed = match hello {
                Ok(Ok(Hello { uptime_ms, debug_exit })) => {
                    times.kernel = Duration::from_millis(uptime_ms);
                    let faults = log.faults(0, 0);
                    if faults.is_empty() {
                        // It has been read, and it is the larger part of the folder.
                        let _ = fs::remove_file(&image);
                        let (kernel, cache) = (kernel.clone(), cache.clone());
                        return Ok(Machine {
                            guest,
                            qemu,
                            place,
                            kernel,
                            cache,
                            times,
                            debug_exit,
                        });
                    }
                    let again = is_emulation(&faults);
                    (Error::Faulty { lines: faults }, again)
                }
                Ok(Err(error)) => (Error::Agent(format!("its first word: {error}")), false),
                Err(RecvTimeoutError::Timeout) => {
                    let limit = start_limit.as_secs();
                    let hint = "; KVM hangs on some machines, TCG on none: --accelerator tcg";
                    let hint = if kvm { hint } else { "" };
                    let reason = format!("its agent said nothing within {limit} s{hint}");
                    (Error::NotStarted { reason, log: log.tail() }, false)
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let reason = reason(&log, qemu.end(END_LIMIT).as_ref());
                    let again = is_emulation(&log.faults_so_far());
                    (Error::NotStarted { reason, log: log.tail() }, again)
                }
            };
            let (error, again) = failed;
            if let Some(path) = keep_log(cache, &log) {
                talk.say(format_args!("the kernel log is kept in {}", path.display()));
            }
            if !again || times.retries + 1 == STARTS {
                return Err(error);
            }
            times.retries += 1;
            talk.say(format_args!(
                "QEMU's emulation failed while the kernel patched itself; start {} of {STARTS}",
                times.retries + 1
            ));
        }
    }

    /// The way to run commands in it.
    pub fn guest(&self) -> &Guest {
        &self.guest
    }

    /// A command to run in it.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> crate::Command {
        self.guest.command(program)
    }

    /// Its kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Times of its start.
    pub fn times(&self) -> Times {
        self.times
    }

    /// Keeps its kernel log beyond its end, and says where.
    pub fn keep_log(&self) -> Option<PathBuf> {
        keep_log(&self.cache, self.guest.log())
    }

    /// Ends it through its agent, which reports `code` by the debug-exit port if
    /// its kernel lets it; an error if it ends in another way.
    pub fn shut_down(self, code: u8) -> Result<()> {
        // QEMU's exit status has eight bits, of which one says "by that port".
        let code = code & 0x7f;
        let expected = if self.debug_exit { i32::from(code) << 1 | 1 } else { 0 };
        let _asked = self.guest.open(&Wish::PowerOff(code))?;
        match self.qemu.end(END_LIMIT) {
            Some(end) if end.status.code() == Some(expected) => Ok(()),
            Some(_) => Err(self.guest.ended()),
            None => {
                Err(Error::TimeLimit { what: "switching the machine off".into(), limit: END_LIMIT })
            }
        }
    }

    /// Ends it and lets its folder stay, as one that nobody keeps.
    pub(crate) fn leave_place(mut self) {
        self.place.leave();
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }
}

/// The agent's first word.
fn said(link: &MuxLink) -> kumiki_stream::Result<Hello> {
    match link.receive()? {
        Some((Kind::Open, body)) => decode(Kind::Open, &body),
        other => Err(kumiki_stream::Error::Protocol(format!("{other:?}"))),
    }
}

fn check(config: &Config) -> Result<()> {
    let bad = |what: String, why: String| Err(Error::Malformed { what, reason: why });
    if !(1..=CPUS_MAX).contains(&config.cpus) {
        return bad(format!("{} cpus", config.cpus), format!("a machine has 1 to {CPUS_MAX}"));
    }
    if config.memory_bytes < MEMORY_MIN_BYTES {
        let least = MEMORY_MIN_BYTES >> 20;
        return bad(
            format!("{} bytes of memory", config.memory_bytes),
            format!("a machine with a stock kernel needs {least} MiB at least"),
        );
    }
    let arch = config.kernel.arch();
    if config.accelerator == Accelerator::Kvm && arch != Arch::own() {
        let own = Arch::own().name();
        return bad(
            format!("an {} machine by KVM", arch.name()),
            format!("this machine's processor is {own}: take --accelerator tcg, or none"),
        );
    }
    let line = qemu::append(config, false).len();
    if line > COMMAND_LINE_BYTES {
        return bad(
            format!("{line} bytes of kernel command line, our own words among them"),
            format!("Linux reads {COMMAND_LINE_BYTES}"),
        );
    }
    Ok(())
}

fn initramfs(cache: &Cache, config: &Config, kernel: &Kernel, talk: Talk<'_>) -> Result<Vec<u8>> {
    let own = OWN_MODULES.iter().map(|name| name.parse());
    let mut modules = own.collect::<Result<Vec<Module>>>()?;
    modules.extend(config.modules.iter().cloned());
    let modules = kernel.modules()?.in_order(&modules)?;
    let busybox = |arch| {
        let archive = Archive::new(cache, talk, kernel.name.release()).of(arch);
        let package = archive.unpacked("busybox-static")?;
        let in_usr = package.join("usr/bin/busybox");
        Ok::<_, Error>(if in_usr.exists() { in_usr } else { package.join("bin/busybox") })
    };
    let (lister, busybox) = (busybox(Arch::own())?, busybox(kernel.name.arch())?);
    let placed = |(source, place): &(PathBuf, PathBuf)| {
        let bytes = fs::read(source).map_err(Error::file("reading", source))?;
        Ok(Placed { path: place.clone(), bytes })
    };
    let mut programs = kumiki_boot::with_libraries(&config.agent, AGENT.as_ref())?;
    for path in &config.programs {
        let name = path.file_name().unwrap_or(path.as_os_str());
        programs.extend(kumiki_boot::with_libraries(path, &Path::new("/bin").join(name))?);
    }
    initramfs::compose(&Parts {
        programs: &programs,
        busybox: &busybox,
        lister: &lister,
        modules: &modules,
        files: &config.files.iter().map(placed).collect::<Result<Vec<_>>>()?,
    })
}

/// Copies a log into the cache, and removes the oldest there.
fn keep_log(cache: &Cache, log: &KernelLog) -> Option<PathBuf> {
    if log.length() == 0 {
        return None;
    }
    let folder = cache.folder().join("logs");
    fs::create_dir_all(&folder).ok()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let path = folder.join(format!("{:013}-{:04x}.log", now.as_millis(), fastrand::u16(..)));
    fs::copy(log.path(), &path).ok()?;
    let mut all: Vec<_> = fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.path()).collect();
    all.sort();
    for old in &all[..all.len().saturating_sub(LOGS_KEPT)] {
        let _ = fs::remove_file(old);
    }
    Some(path)
}
