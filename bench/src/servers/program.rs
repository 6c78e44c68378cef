//! Servers as programs, on one cpu.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{CONFINED, PLAIN, THREADS, URING};
use crate::pair::Pair;

const PATIENCE: Duration = Duration::from_secs(20);

/// A server, ended when this is dropped.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    child: Child,
    _settings: Option<tempfile::TempDir>,
}

impl Program {
    /// Every server that is to be had here.
    pub(super) fn all(folder: &Path, pair: Pair) -> Result<Vec<Program>> {
        let mut all = vec![
            Program::kumiki("kumiki", 1, false, folder, pair)?,
            Program::kumiki("kumiki/2", 2, false, folder, pair)?,
            Program::own("plain", PLAIN, folder, pair)?,
            Program::own("threads", THREADS, folder, pair)?,
        ];
        if cfg!(feature = "peers") {
            all.push(Program::kumiki("kumiki/confined", 1, true, folder, pair)?);
        }
        for (name, word) in ["io_uring", "io_uring/untried"].into_iter().zip(URING) {
            // Another one might do without; not where there is none, or it is forbidden.
            match Program::own(name, word, folder, pair) {
                Ok(program) => all.push(program),
                Err(error) => eprintln!("left out: {error:#}"),
            }
        }
        if Command::new("nginx").arg("-v").stderr(Stdio::null()).status().is_ok() {
            all.push(Program::nginx("nginx", 1, "sendfile on;", folder, pair)?);
            all.push(Program::nginx("nginx/2", 2, "sendfile on;", folder, pair)?);
            all.push(Program::nginx("nginx/aio", 1, "sendfile on; aio threads;", folder, pair)?);
            let direct = "aio threads; directio 16k;";
            all.push(Program::nginx("nginx/directio", 1, direct, folder, pair)?);
        } else {
            eprintln!("left out: nginx, which is not installed");
        }
        Ok(all)
    }

    fn kumiki(
        name: &'static str,
        workers: u16,
        confined: bool,
        folder: &Path,
        pair: Pair,
    ) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("kumiki-httpd");
        ensure!(program.exists(), "{} is not built: cargo xtask bench does so", program.display());
        let mut command = if confined {
            let mut command = on_cpu(pair, &std::env::current_exe()?);
            command.arg(CONFINED).arg(&program);
            command
        } else {
            on_cpu(pair, &program)
        };
        let workers = format!("--workers={workers}");
        command.arg(folder).args(["--listen", "127.0.0.1:0", &workers]).stderr(Stdio::piped());
        let mut child = command.spawn().context("starting kumiki-httpd")?;
        let said = child.stderr.take().context("its words")?;
        let lines = BufReader::new(said).lines().map_while(Result::ok);
        let address = |line: String| Some(line.split(" on ").nth(1)?.split(',').next()?.parse());
        let address = { lines }.find_map(address).context("kumiki-httpd has ended")??;
        Ok(Program { name, address, child, _settings: None })
    }

    /// One of this program's.
    fn own(name: &'static str, word: &str, folder: &Path, pair: Pair) -> Result<Self> {
        let mut command = on_cpu(pair, &std::env::current_exe()?);
        let mut child = command.arg(word).arg(folder).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let said = child.stdout.take().context("its words")?;
        BufReader::new(said).read_line(&mut line)?;
        let address = line.trim().parse();
        let address = address.with_context(|| format!("the server {name} has ended"))?;
        Ok(Program { name, address, child, _settings: None })
    }

    fn nginx(
        name: &'static str,
        workers: u16,
        how: &str,
        folder: &Path,
        pair: Pair,
    ) -> Result<Self> {
        let settings = tempfile::tempdir()?;
        let place = settings.path().display();
        // A port that was free just now.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let text = format!(
            "daemon off; worker_processes {workers}; pid {place}/pid; error_log {place}/error;\n\
             user root; events {{ worker_connections 1024; }}\n\
             http {{ access_log off; {how} tcp_nodelay on; keepalive_requests 100000000;\n\
             client_body_temp_path {place}/a; proxy_temp_path {place}/b; fastcgi_temp_path \
             {place}/c; uwsgi_temp_path {place}/d; scgi_temp_path {place}/e;\n\
             server {{ listen {address}; root {}; }} }}\n",
            folder.display()
        );
        let file = settings.path().join("nginx.conf");
        fs::write(&file, text)?;
        let mut command = on_cpu(pair, Path::new("nginx"));
        command.arg("-c").arg(&file).args(["-e", "/dev/null"]).stderr(Stdio::null());
        let child = command.spawn().context("starting nginx")?;
        let mut server = Program { name, address, child, _settings: Some(settings) };
        let begin = Instant::now();
        while TcpStream::connect(address).is_err() {
            ensure!(server.child.try_wait()?.is_none(), "nginx has ended: {}", file.display());
            ensure!(begin.elapsed() < PATIENCE, "nginx does not listen on {address}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// Nanoseconds on a cpu so far, of all its threads and of its children's.
    pub(super) fn cpu_ns(&self) -> Result<u64> {
        let own = self.child.id();
        let children = format!("/proc/{own}/task/{own}/children");
        let children = fs::read_to_string(children).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        let mut ns = 0;
        for pid in children.chain([own]) {
            for task in fs::read_dir(format!("/proc/{pid}/task"))? {
                // One that has ended meanwhile has not served.
                let times = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
                ns += times.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
            }
        }
        Ok(ns)
    }
}

/// Servers on the helper's cpu, clients on main's.
fn on_cpu(pair: Pair, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &pair.helper.to_string()]).arg(program).stdin(Stdio::null());
    command
}

impl Drop for Program {
    fn drop(&mut self) {
        // nginx ends its workers when it is told to end.
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(3) {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
