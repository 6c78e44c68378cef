//! A server and its clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The seeds of a long test, or the one that KUMIKI_KV_SEED says: what one has found is tried again.
pub(crate) fn seeds(all: Range<u64>) -> Range<u64> {
    let said = std::env::var("KUMIKI_KV_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    said.map_or(all, |seed| seed..seed + 1)
}

/// A server of this build.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(cpus: usize, args: &[&str]) -> Server {
        let allowed = kumiki_sys::affinity::current().unwrap();
        let cpus: Vec<String> = allowed.iter().take(cpus).map(|cpu| cpu.to_string()).collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kumiki-kv"));
        command.args(["--port", "0", "--cpu-list", &cpus.join(",")]).args(args);
        Server::of(command)
    }

    /// One that a command starts, which says where it serves.
    pub(crate) fn of(mut command: Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split(' ').nth(2).unwrap_or_else(|| panic!("{line:?}"));
        Server { address: address.parse().unwrap(), child }
    }

    pub(crate) fn client(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        client
    }

    /// What it answers to these bytes until it closes the connection.
    pub(crate) fn ask(&self, bytes: &[u8]) -> String {
        let mut client = self.client();
        let mut writer = client.try_clone().unwrap();
        let bytes = bytes.to_vec();
        // It may stop reading: what has not been read when it closes resets the connection.
        let write = std::thread::spawn(move || _ = writer.write_all(&bytes));
        let mut seen = Vec::new();
        let _ = client.read_to_end(&mut seen);
        let _ = client.shutdown(Shutdown::Both);
        write.join().unwrap();
        String::from_utf8_lossy(&seen).into_owned()
    }

    /// Standard output of redis-cli.
    pub(crate) fn cli(&self, args: &[&str]) -> String {
        let port = self.address.port().to_string();
        let mut command = Command::new("redis-cli");
        let output = command.args(["-p", &port, "--no-raw"]).args(args).output();
        let output = output.expect("redis-tools has redis-cli");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Processor time that it has taken, ticks.
    pub(crate) fn cpu_time(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields = stat.rsplit(") ").next().unwrap().split(' ');
        fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }

    /// Memory of its that is resident, bytes: all but its program's and libraries' own text, which is
    /// larger in a build for tests than in one for use.
    pub(crate) fn resident(&self) -> usize {
        self.memory("RssAnon:") + self.memory("RssShmem:")
    }

    /// The most memory that it ever had resident, bytes, its program's text among it.
    pub(crate) fn peak(&self) -> usize {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
