//! Sessions of the clients that people use, each by its defaults: with redis, whose answers are the
//! measure, and with this server, of one shard and of two.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::redis::Redis;
use crate::scene::Server;

mod debian;
mod newest;

/// A session takes a second; one that waits for an answer that does not come is ended.
const PATIENCE_S: &str = "120";

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kv/clients").join(name)
}

/// Runs a session, whose last argument is the port, with each server. It says "fine" of each client.
fn holds(session: &[&str], clients: usize) {
    let run = |at: SocketAddr, with: &str| {
        let output = Command::new("timeout")
            .arg(PATIENCE_S)
            .args(session)
            .arg(at.port().to_string())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.matches("fine: ").count() == clients,
            "{session:?} with {with}: {}\n{said}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        eprintln!("with {with}: {}", said.trim().replace('\n', ", "));
    };
    if let Some(redis) = Redis::start(&[]) {
        run(redis.address, "redis");
    }
    for shards in [1, 2] {
        run(Server::start(shards, &[]).address, &format!("{shards} shards"));
    }
}

/// Whether a command is there and ends well; where not, that what needs it is passed over.
fn is_there(command: &[&str], package: &str) -> bool {
    let output = Command::new(command[0]).args(&command[1..]).output();
    let is_there = output.is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("passed over: `{}` does not run; package {package} has it", command.join(" "));
    }
    is_there
}
