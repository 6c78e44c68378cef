//! Redis itself, whose answers are the measure.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The program of the package redis-tools that is `redis-server` by that name. The package
/// redis-server would start one at its usual port for good.
const PROGRAM: &str = "redis-check-rdb";

/// A server of one database that keeps nothing, ended when it is dropped.
pub(crate) struct Redis {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) version: String,
}

impl Redis {
    /// `None` where it is not installed, which is said.
    pub(crate) fn start(args: &[&str]) -> Option<Redis> {
        let version = Command::new(PROGRAM).arg0("redis-server").arg("--version").output();
        let Ok(version) = version else {
            eprintln!("passed over: {PROGRAM} of the package redis-tools is missing");
            return None;
        };
        let version = String::from_utf8(version.stdout).unwrap();
        let version = version.split("v=").nth(1).unwrap_or_default();
        let version = version.split(' ').next().unwrap_or_default().to_owned();
        // Another program may take the port in between.
        (0..5).find_map(|_| Redis::at_a_free_port(args, &version)).or_else(|| panic!("no redis"))
    }

    fn at_a_free_port(args: &[&str], version: &str) -> Option<Redis> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let child = Command::new(PROGRAM)
            .arg0("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
            .args(["--save", "", "--appendonly", "no", "--databases", "1"])
            .args(args)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut redis = Redis { child, address, version: version.to_owned() };
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(60) {
            if redis.child.try_wait().unwrap().is_some() {
                return None;
            }
            if TcpStream::connect(address).is_ok() {
                return Some(redis);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("redis {version} does not serve {address}")
    }

    /// Major and minor number.
    pub(crate) fn release(&self) -> (u32, u32) {
        let mut numbers = self.version.split('.').map(|part| part.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "redis {} at {}", self.version, self.address)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
