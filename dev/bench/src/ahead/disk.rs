//! A disk that answers each request after a set time, any number at once: ext4 on a loop device, below which another process serves
//! a file.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::SlowFolder;
use super::image::{BYTES, IMAGE, ran};
use super::served::{SERVES, apart};

/// The process that serves it, until its input ends.
struct Server {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn begin(mut command: Command, folder: &Path) -> Result<Self> {
        command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        // What a terminal sends to end this process does not end it, which is to serve until this one is no more.
        let mut process = command.process_group(0).spawn().context("the disk's server")?;
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().context("its output is a pipe")?);
        Ok(Server { process, input, output })
    }

    /// Rest of its next line.
    fn said(&mut self) -> Result<String> {
        loop {
            let mut line = String::new();
            ensure!(self.output.read_line(&mut line)? > 0, "the disk's server has ended");
            if let Some((_, said)) = line.split_once(SERVES) {
                return Ok(said.trim().to_owned());
            }
        }
    }

    fn answer(&mut self, after: Duration) -> Result<()> {
        writeln!(self.input.as_mut().context("it serves")?, "{}", after.as_nanos())?;
        self.said().map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.process.wait();
    }
}

/// The disk; its file system is mounted anew before each run.
pub(super) struct Disk {
    device: String,
    is_mounted: bool,
    // In this order they are given back.
    _device_open: File,
    server: Server,
    folder: TempDir,
}

impl Disk {
    /// Makes one that this command serves.
    pub(super) fn new(server: Command) -> Result<Self> {
        apart()?;
        let folder = tempfile::tempdir()?;
        let image = folder.path().join(IMAGE);
        File::create(&image)?.set_len(BYTES)?;
        ran(Command::new("mkfs.ext4").args(["-q", "-N", "200000"]).arg(&image))?;
        fs::create_dir(folder.path().join("mnt"))?;
        let mut server = Server::begin(server, folder.path())?;
        let device = server.said()?;
        let _device_open = File::open(&device).with_context(|| device.clone())?;
        // While somebody has it open it stays; however this process ends, it is free then.
        ran(Command::new("losetup").args(["--detach", &device]))?;
        let mut disk = Disk { device, is_mounted: false, _device_open, server, folder };
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&mut self) -> Result<()> {
        ran(Command::new("mount").arg(&self.device).arg(self.path()))?;
        self.is_mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> Result<()> {
        if self.is_mounted {
            ran(Command::new("umount").arg(self.path()))?;
            self.is_mounted = false;
        }
        Ok(())
    }
}

impl SlowFolder for Disk {
    fn path(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    fn anew(&mut self, answer: Duration) -> Result<()> {
        self.server.answer(Duration::ZERO)?;
        self.unmount()?;
        self.mount()?;
        self.server.answer(answer)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.server.answer(Duration::ZERO);
        let _ = self.unmount();
    }
}

/// Fills a folder with files of 500 bytes to 12 KiB, 30 in each of some folders, in three levels.
pub(super) fn fill(folder: &Path, files: usize) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(67);
    let bytes: Vec<u8> = (0..12 << 10).map(|_| random.alphanumeric() as u8).collect();
    for at in 0..files {
        let (number, of) = (at / 30, at % 30);
        let above = folder.join(format!("a{}/b{}/c{number}", number / 100, number / 10));
        if of == 0 {
            fs::create_dir_all(&above)?;
        }
        fs::write(above.join(format!("file{of}")), &bytes[..random.usize(500..bytes.len())])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Instant;

    use super::*;
    use crate::ahead::served;

    const SERVER: &str = "ahead::disk::tests::the_server";
    const KILLED: &str = "ahead::disk::tests::a_disk_until_its_process_is_killed";

    /// Set where a test is a process of another one; else these have nothing to do.
    const IS_PROCESS: &str = "KUMIKI_TEST_DISK";

    /// A test of this program, as a process.
    fn process(name: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--nocapture"]).env(IS_PROCESS, "1");
        command
    }

    #[test]
    fn the_server() {
        if std::env::var_os(IS_PROCESS).is_some() {
            served::serve().unwrap();
        }
    }

    #[test]
    fn a_disk_until_its_process_is_killed() {
        if std::env::var_os(IS_PROCESS).is_none() {
            return;
        }
        let disk = Disk::new(process(SERVER)).unwrap();
        println!("{SERVES}");
        // As a bench fills it: there is always something that is not written yet.
        for at in 0.. {
            fs::write(disk.path().join(format!("file{}", at % 100)), vec![1; 1 << 20]).unwrap();
        }
    }

    /// Kills a process that uses a disk, some time after that is there; none where there can be no such disk, else whether it has ended
    /// soon.
    fn ends_when_killed(after: Duration) -> Option<bool> {
        let mut bench =
            process(KILLED).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(bench.stdout.take().unwrap()).lines().map_while(Result::ok);
        if !{ lines }.any(|line| line.contains(SERVES)) {
            println!("passed over: no such disk here: {:?}", bench.wait());
            return None;
        }
        sleep(after);
        bench.kill().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        let mut has_ended = || bench.try_wait().unwrap().is_some();
        while !has_ended() && Instant::now() < until {
            sleep(Duration::from_millis(10));
        }
        Some(has_ended())
    }

    /// Served by itself, it would wait for its own answers for ever.
    #[test]
    fn a_bench_that_is_killed_ends() {
        // How its threads end is another matter each time.
        for at in 0..10 {
            match ends_when_killed(Duration::from_millis(40 * at)) {
                Some(has_ended) => assert!(has_ended, "round {at}: it has not ended"),
                None => return,
            }
        }
    }
}
