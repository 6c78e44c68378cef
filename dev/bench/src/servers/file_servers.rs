//! Who serves files: Kumiki's server, this program's own, and nginx.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};

use super::program::{Program, built, first_line, free_address, is_here, on_cpu};
use super::{CONFINED, PLAIN, THREADS, URING};
use crate::pair::Pair;

/// Every server that is to be had here.
pub(super) fn all(folder: &Path, pair: Pair) -> Result<Vec<Program>> {
    let mut all = vec![
        kumiki("kumiki", 1, false, folder, pair)?,
        kumiki("kumiki/2", 2, false, folder, pair)?,
        own("plain", PLAIN, folder, pair)?,
        own("threads", THREADS, folder, pair)?,
    ];
    if cfg!(feature = "peers") {
        all.push(kumiki("kumiki/confined", 1, true, folder, pair)?);
    }
    for (name, word) in ["io_uring", "io_uring/untried"].into_iter().zip(URING) {
        // Another one might do without; not where there is none, or it is forbidden.
        match own(name, word, folder, pair) {
            Ok(program) => all.push(program),
            Err(error) => eprintln!("left out: {error:#}"),
        }
    }
    all.extend(nginxes(folder, pair)?);
    Ok(all)
}

/// Kumiki's server and nginx alone.
pub(super) fn kumiki_and_nginx(folder: &Path, pair: Pair) -> Result<Vec<Program>> {
    let mut all = vec![
        kumiki("kumiki", 1, false, folder, pair)?,
        kumiki("kumiki/2", 2, false, folder, pair)?,
    ];
    all.extend(nginxes(folder, pair)?);
    Ok(all)
}

/// Files that stay open, as nginx's guides have it: found again by name for a minute.
const CACHE: &str = "open_file_cache max=20000 inactive=60s; open_file_cache_valid 60s; \
                     open_file_cache_min_uses 1; open_file_cache_errors on;";

/// As it comes and as its guides set it up: the best one of a row is what counts.
fn nginxes(folder: &Path, pair: Pair) -> Result<Vec<Program>> {
    if !is_here("nginx", "-v") {
        return Ok(Vec::new());
    }
    let settings = [
        ("nginx", 1, "sendfile on;", ""),
        ("nginx/2", 2, "sendfile on;", ""),
        ("nginx/copy", 1, "sendfile off;", ""),
        ("nginx/cache", 1, "sendfile on;", CACHE),
        ("nginx/cache/2", 2, "sendfile on;", CACHE),
        ("nginx/cache/copy", 1, "sendfile off;", CACHE),
        ("nginx/aio", 1, "sendfile on; aio threads;", ""),
        ("nginx/directio", 1, "aio threads; directio 16k;", ""),
    ];
    let start =
        |(name, workers, how, cache)| nginx(name, workers, &format!("{how} {cache}"), folder, pair);
    settings.into_iter().map(start).collect()
}

fn kumiki(
    name: &'static str,
    workers: u16,
    confined: bool,
    folder: &Path,
    pair: Pair,
) -> Result<Program> {
    let program = built("kumiki-httpd")?;
    let mut command = if confined {
        let mut command = on_cpu(pair, &std::env::current_exe()?);
        command.arg(CONFINED).arg(&program);
        command
    } else {
        on_cpu(pair, &program)
    };
    let workers = format!("--workers={workers}");
    command.arg(folder).args(["--listen", "127.0.0.1:0", &workers]).stderr(Stdio::piped());
    let child = command.spawn().context("starting kumiki-httpd")?;
    Program::saying(name, child, |child| {
        let said = child.stderr.take().context("its words")?;
        let lines = BufReader::new(said).lines().map_while(Result::ok);
        let address = |line: String| Some(line.split(" on ").nth(1)?.split(',').next()?.parse());
        Ok({ lines }.find_map(address).context("kumiki-httpd has ended")??)
    })
}

/// Server of this program.
fn own(name: &'static str, word: &str, folder: &Path, pair: Pair) -> Result<Program> {
    let mut command = on_cpu(pair, &std::env::current_exe()?);
    let child = command.arg(word).arg(folder).stdout(Stdio::piped()).spawn()?;
    Program::saying(name, child, |child| {
        let address = first_line(child)?.trim().parse();
        address.with_context(|| format!("the server {name} has ended"))
    })
}

fn nginx(
    name: &'static str,
    workers: u16,
    how: &str,
    folder: &Path,
    pair: Pair,
) -> Result<Program> {
    let settings = tempfile::tempdir()?;
    let place = settings.path().display();
    let address = free_address()?;
    let text = format!(
        "daemon off; worker_processes {workers}; pid {place}/pid; error_log {place}/error;\n\
         user root; worker_rlimit_nofile 40000; events {{ worker_connections 1024; }}\n\
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
    Program::listening(name, address, command.spawn().context("starting nginx")?, settings)
}
