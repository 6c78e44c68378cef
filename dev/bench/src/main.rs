//! Kumiki's parts beside their peers, all in one interleaved run.
//!
//! ```text
//! kumiki-bench shadow          starts a process for each subject, all stopped
//!   round 1   raw · rayon_join · raw · futex · raw · kumiki · raw …
//!   round 2   raw · kumiki · raw · rayon_join · raw · …          (new order)
//!       each turn: SIGCONT, a request by pipe, samples back, SIGSTOP
//! ```
//!
//! Run it by `cargo xtask bench shadow`, `parasc` or `resource`; `node`, which has no peers,
//! and `lab` run in a machine of the lab. Prints the result as JSON. With
//! `--against PROGRAM` only Kumiki's subjects take part, each as it is here and as it is
//! in that program, built from another commit.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use kumiki_bench_peers::against::Against;
use kumiki_bench_peers::pair::Pair;
use kumiki_bench_peers::raw::RAW;
use kumiki_bench_peers::shadow::Shadow;
use kumiki_bench_peers::{busy, case, child, pair, parasc, raw, run, shadow, subject};
use kumiki_measure::stopwatch;

#[cfg(feature = "peers")]
mod ahead;
mod lab;
mod node;
mod python;
mod resource;
mod servers;

fn main() -> ExitCode {
    match bench() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["shadow", "--against", program, ref only @ ..] => {
            let plan = |pair| Against::new(Shadow::new()?, Path::new(program), pair);
            print(&run::document(|pair| run::run(&mut plan(pair)?, pair, only))?)
        }
        ["shadow", ref only @ ..] => {
            print(&run::document(|pair| run::run(&mut Shadow::new()?, pair, only))?)
        }
        ["parasc", "--against", program, ref only @ ..] => {
            let program = Path::new(program);
            print(&run::document(|pair| parasc::rows(pair, only, Some(program)))?)
        }
        ["parasc", ref only @ ..] => print(&run::document(|pair| parasc::rows(pair, only, None))?),
        ["node", folder, rounds, ref only @ ..] => {
            let rounds = rounds.parse()?;
            print(&run::document(|_| node::rows(Path::new(folder), rounds, only))?)
        }
        ["lab", rounds] => {
            let rounds = rounds.parse()?;
            print(&run::document(|_| lab::rows(rounds))?)
        }
        [node::peer::WORD, ref words @ ..] => node::peer::serve(words),
        [node::call::WORD, base] => node::call::serve(base.parse()?),
        [node::devices::READ, path, how, ref piece @ ..] => {
            let piece = match *piece {
                [piece] => piece.parse().with_context(|| format!("{piece:?} bytes"))?,
                _ => node::devices::READ_BYTES,
            };
            println!("{}", node::devices::read(Path::new(path), how, piece)?);
            Ok(())
        }
        [busy::WORD] => busy::work(),
        ["servers", ref only @ ..] => print(&run::document(|pair| servers::rows(pair, only))?),
        [servers::PLAIN, folder] => servers::serve_plainly(Path::new(folder)),
        [servers::THREADS, folder] => servers::serve_by_threads(Path::new(folder)),
        #[cfg(feature = "peers")]
        [servers::CONFINED, program, ref words @ ..] => servers::execute_confined(program, words),
        #[cfg(feature = "peers")]
        [word, folder] if servers::URING.contains(&word) => {
            servers::serve_by_uring(Path::new(folder), word == servers::URING[0])
        }
        #[cfg(feature = "peers")]
        [ahead::WORD] => ahead::serve(),
        #[cfg(feature = "peers")]
        ["ahead", ref only @ ..] => print(&run::document(|_| ahead::rows(only))?),
        ["python", ref only @ ..] => print(&run::document(|_| python::rows(only))?),
        ["resource", ref only @ ..] => print(&run::document(|pair| resource::rows(pair, only))?),
        [resource::durable::PEER, host, home, cpu, folder, how] => {
            let cpus = [home.parse()?, cpu.parse()?];
            resource::durable::serve_peer(host, cpus, Path::new(folder), how)
        }
        [resource::control::PEER, host, cpu] => resource::control::serve_peer(host, cpu.parse()?),
        ["walk", name, tree] => parasc::walk(name, Path::new(tree)),
        ["subject", bench, name, main, helper, argument] => {
            let pair = Pair { main: main.parse()?, helper: helper.parse()? };
            child::serve(|| subject(bench, name, pair, Path::new(argument)))
        }
        _ => bail!(
            "{words:?}: takes the name of a bench and of cases, if not all; run it by `cargo xtask bench NAME`"
        ),
    }
}

fn print(document: &kumiki_measure::bench::Document) -> Result<()> {
    println!("{}", serde_json::to_string(document)?);
    Ok(())
}

fn subject(bench: &str, name: &str, pair: Pair, argument: &Path) -> Result<()> {
    match bench {
        _ if name == RAW => child::raw(pair),
        "shadow" => shadow::serve(name, pair, argument),
        "parasc" => parasc::serve(name, pair, argument),
        "resource" => resource::serve(name, pair),
        "process" => resource::process::serve(name, argument, pair),
        "durable" => resource::durable::serve(name, argument, pair),
        _ => bail!("there is no bench {bench:?}"),
    }
}
