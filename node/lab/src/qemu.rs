//! QEMU: the program, its command line, and the thread that keeps it.

use std::ffi::OsString;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kumiki_sys::clock::Clock;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::agent::{DEBUG_EXIT, PORT};
use crate::arch::Arch;
use crate::config::{Accelerator, Config};
use crate::error::{Error, Result};
use crate::tied::{SETPRIV, tied};

/// The files that a machine is started from and writes to.
pub(crate) struct Files<'a> {
    pub(crate) kernel: &'a Path,
    pub(crate) initramfs: &'a Path,
    pub(crate) log: &'a Path,
}

/// A QEMU that runs, and ends with this value.
pub(crate) struct Qemu {
    process: OwnedFd,
    keeper: Option<JoinHandle<()>>,
    end: Arc<OnceLock<End>>,
}

/// End of QEMU.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    /// Message of QEMU.
    pub(crate) said: String,
}

/// Path of the program for this processor.
pub(crate) fn program(arch: Arch) -> Result<PathBuf> {
    let (name, package) = arch.qemu();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found.into_iter().find(|file| file.is_file()).ok_or_else(|| Error::Program {
        program: name.to_owned(),
        reason: format!(
            "it is in no folder of PATH ({}); a lab needs it: apt-get install {package}",
            path.display()
        ),
    })
}

/// The command line after the program's name.
pub(crate) fn arguments(config: &Config, kvm: bool, files: &Files<'_>) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |line: &str| words.extend(line.split(' ').map(OsString::from));
    add("-nodefaults -no-user-config -display none -monitor none -no-reboot");
    let accelerator = match config.accelerator {
        _ if kvm => "kvm",
        Accelerator::OneThread => "tcg,thread=single",
        _ => "tcg",
    };
    let arch = config.kernel.arch();
    add(match arch {
        Arch::Amd64 => "-machine q35 -cpu max",
        // Pointers are signed by QARMA5 otherwise, which takes most of an emulated machine's time.
        Arch::Arm64 if !kvm => "-machine virt,gic-version=3 -cpu max,pauth-impdef=on",
        Arch::Arm64 => "-machine virt,gic-version=max -cpu max",
    });
    add(&format!("-accel {accelerator}"));
    add(&format!("-smp {} -m {}M", config.cpus, config.memory_bytes >> 20));
    if arch == Arch::Amd64 {
        add(&format!("-device isa-debug-exit,iobase={DEBUG_EXIT:#x},iosize=4"));
    }
    add("-chardev stdio,id=lab,signal=off -device virtio-serial-pci");
    add(&format!("-device virtserialport,chardev=lab,name={PORT}"));
    add("-serial chardev:log -chardev");
    words.push(option("file,id=log,path=", files.log));
    words.extend(["-kernel".into(), files.kernel.into()]);
    words.extend(["-initrd".into(), files.initramfs.into()]);
    words.extend(["-append".into(), append(config, kvm).into()]);
    words.extend(config.qemu.iter().cloned());
    words
}

/// The kernel's command line.
///
/// It logs everything on the serial line, lets the agent write to the log as
/// often as it must, and ends the machine on a panic at once (QEMU does not
/// reboot). The time stamp counter of a machine is not worth a second of
/// comparing it with the timer. Whether the timer interrupts at all the kernel
/// tries in a loop of instructions, which on a busy host ends before QEMU has run
/// its timers: it is told not to, as it does by itself under KVM.
///
/// QEMU keeps what it has translated by address. Where programs lie at random it
/// translates each anew at every start, which takes four fifths of a short one's time.
/// An emulated cpu is a thread that a busy host may leave aside for longer than the 21 s
/// after which the kernel reports a stall: it waits for a minute. Its time stamp counter is this machine's,
/// and the kernel is told how fast that is: what it measured itself, on a busy host, was a tenth of it,
/// so that its clock ran ten times too fast.
///
/// A word that the kernel does not know is the first process's. Ours comes before those of
/// the user; behind "--" it would be lost with any parameter that has a wrong value.
pub(crate) fn append(config: &Config, kvm: bool) -> String {
    const OWN: &str = "loglevel=7 printk.devkmsg=on panic=-1";
    let arch = config.kernel.arch();
    let of_arch = match arch {
        Arch::Amd64 => "console=ttyS0 tsc=reliable no_timer_check",
        Arch::Arm64 => "console=ttyAMA0",
    };
    const EMULATED: &str = " norandmaps rcupdate.rcu_cpu_stall_timeout=60";
    let emulated = if kvm { "" } else { EMULATED };
    let rate = tsc_khz()
        .filter(|_| !kvm && arch == Arch::Amd64)
        .map_or(String::new(), |khz| format!(" tsc_early_khz={khz}"));
    let (program, word) = (crate::initramfs::AGENT, crate::agent::WORD);
    let mut line = format!("{of_arch} {OWN}{emulated}{rate} rdinit={program} {word}");
    for words in &config.append {
        line = format!("{line} {words}");
    }
    line
}

/// The rate of this machine's time stamp counter, if it has one that can be relied on.
fn tsc_khz() -> Option<u64> {
    static RATE: OnceLock<Option<u64>> = OnceLock::new();
    *RATE.get_or_init(|| {
        let clock = Clock::new();
        clock.is_tsc().then(|| (clock.hz() / 1e3).round() as u64)
    })
}

/// A comma would end a value of QEMU's options.
fn option(prefix: &str, path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut bytes = prefix.as_bytes().to_vec();
    for &byte in path.as_os_str().as_bytes() {
        bytes.push(byte);
        if byte == b',' {
            bytes.push(byte);
        }
    }
    OsString::from_vec(bytes)
}

impl Qemu {
    /// Starts it. What it reads and writes is the agent's port.
    pub(crate) fn start(
        program: &Path,
        words: &[OsString],
    ) -> Result<(Self, ChildStdin, ChildStdout)> {
        // The kernel ends QEMU with the *thread* that started it, so that one
        // must stay as long as the machine.
        let (to_us, from_keeper) = sync_channel(1);
        let end = Arc::new(OnceLock::new());
        let ended = end.clone();
        let mut command = tied(program);
        // Ctrl-C is for us: we end the machine when the command in it has ended.
        command.args(words).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let keeper = thread::spawn(move || {
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => return drop(to_us.send(Err(error))),
            };
            let (input, output) = (child.stdin.take(), child.stdout.take());
            let errors = child.stderr.take();
            let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
            let handles = process.map_err(std::io::Error::from).map(|process| {
                (process, input.expect("it was asked for"), output.expect("it was asked for"))
            });
            let _ = to_us.send(handles);
            let mut said = String::new();
            if let Some(mut errors) = errors {
                let _ = errors.read_to_string(&mut said);
            }
            let status = child.wait().unwrap_or_else(|_| ExitStatus::from_raw(-1));
            let _ = ended.set(End { status, said: said.trim().to_owned() });
        });
        let failed = |reason: String| Error::Program { program: SETPRIV.to_owned(), reason };
        let handles = from_keeper.recv().map_err(|error| failed(error.to_string()))?;
        let (process, input, output) = handles.map_err(|error| {
            failed(format!("{error}; a lab starts QEMU by it, it is in util-linux"))
        })?;
        Ok((Qemu { process, keeper: Some(keeper), end }, input, output))
    }

    /// Returns its end, waiting a moment if it only just has.
    pub(crate) fn end(&self, limit: Duration) -> Option<End> {
        let begin = Instant::now();
        while self.end.get().is_none() && begin.elapsed() < limit {
            thread::sleep(Duration::from_millis(2));
        }
        self.end.get().cloned()
    }

    /// The cell that has its end, for those who may outlive it.
    pub(crate) fn end_cell(&self) -> Arc<OnceLock<End>> {
        self.end.clone()
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_paths_are_doubled() {
        assert_eq!(option("path=", Path::new("/a,b")), "path=/a,,b");
    }

    #[test]
    fn a_machine_of_arm64_has_neither_ports_nor_a_time_stamp_counter() {
        let mut config = Config::new("/x");
        config.kernel = config.kernel.on(Arch::Arm64);
        let path = Path::new("/f");
        let words = arguments(&config, false, &Files { kernel: path, initramfs: path, log: path });
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        assert!(words.iter().any(|word| word.starts_with("virt,")), "{words:?}");
        assert!(!words.iter().any(|word| word.contains("isa-debug-exit")), "{words:?}");
        let line = append(&config, false);
        assert!(line.starts_with("console=ttyAMA0 ") && !line.contains("tsc"), "{line}");
        assert!(
            Arch::Arm64 == Arch::own()
                || program(Arch::Arm64)
                    .is_ok_and(|program| program.ends_with("qemu-system-aarch64"))
                || program(Arch::Arm64).unwrap_err().to_string().contains("qemu-system-arm")
        );
    }

    #[test]
    fn our_words_come_before_the_users() {
        let mut config = Config::new("/x");
        config.append = vec!["nokaslr".into(), "quiet".into()];
        config.qemu = vec!["-s".into()];
        let path = Path::new("/f");
        let files = Files { kernel: path, initramfs: path, log: path };
        let words = arguments(&config, false, &files);
        assert_eq!(words.last().unwrap(), "-s");
        let line = append(&config, false);
        assert!(line.contains(" norandmaps rcupdate.rcu_cpu_stall_timeout=60 "), "{line}");
        assert!(line.ends_with(" rdinit=/bin/kumiki lab-agent nokaslr quiet"), "{line}");
        assert!(!append(&config, true).contains("norandmaps"));
    }
}
