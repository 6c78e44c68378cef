//! Processes at a place: their streams, signals and ends, from afar.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kumiki_places::run::{self, Ended, Input, Output, Process, Program};
use kumiki_places::{Client, Remote, Served};
use kumiki_resource::Interface;

use crate::nats::{Line, NatsServer};
use crate::scene::{PATIENCE, block_on, client, managed};

/// A machine that has processes.
fn machine(url: &str) -> (Interface, Served, String) {
    managed(url, "p")
}

fn shell(text: &str) -> Program {
    Program { words: ["sh", "-c", text].map(str::to_owned).into(), ..Program::default() }
}

/// All that it writes until it ends.
async fn whole(client: &Client, process: &Remote<Process>) -> (Vec<u8>, Vec<u8>, Ended) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    loop {
        let part: Output = client.call::<run::Read>(process, wish(1000)).await.unwrap();
        out.extend_from_slice(&part.out);
        err.extend_from_slice(&part.err);
        if let Some(ended) = part.ended {
            return (out, err, ended);
        }
    }
}

fn is_there(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| !rest.starts_with('Z')))
}

/// Waits until a process has gone.
fn wait_gone(pid: u32) {
    let end = Instant::now() + PATIENCE;
    while is_there(pid) {
        assert!(Instant::now() < end, "process {pid} goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_it_writes_comes_whole_though_the_line_is_cut() {
    let nats = NatsServer::start();
    let line = Line::to(&nats);
    let (_interface, _served, place) = machine(&nats.url());
    block_on(async {
        let client = client(&line.url()).await;
        let process = client.create(&place, None, shell("seq 1 200000; echo end >&2; exit 7"));
        let process = process.await.unwrap();
        let cuts = async {
            for n in 0..5 {
                tokio::time::sleep(Duration::from_millis(20)).await;
                line.cut_after(5000 * n);
            }
        };
        let ((out, err, ended), ()) = tokio::join!(whole(&client, &process), cuts);
        let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
        assert!(out == expected.as_bytes(), "{} bytes of {}", out.len(), expected.len());
        assert_eq!((&*err, ended), (&b"end\n"[..], Ended { status: Some(7), signal: None }));
        client.destroy(process).await.unwrap();
    });
}

#[test]
fn it_takes_input_and_has_its_folder_and_variables() {
    let nats = NatsServer::start();
    let (_interface, _served, place) = machine(&nats.url());
    block_on(async {
        let client = client(&nats.url()).await;
        let program = Program {
            environment: vec![("WORD".to_owned(), "value".to_owned())],
            folder: Some("/".to_owned()),
            ..shell("pwd; echo $WORD; wc -c")
        };
        let process = client.create(&place, Some("w"), program).await.unwrap();
        // More than a pipe has room for.
        let mut left = Bytes::from(vec![7; 300_000]);
        while !left.is_empty() {
            let input = Input { bytes: left.clone(), wait_ms: 1000 };
            let written = client.call::<run::Write>(&process, input).await.unwrap();
            assert!(!written.closed);
            let _ = left.split_to(written.bytes);
        }
        client.call::<run::Close>(&process, ()).await.unwrap();
        let (out, _, ended) = whole(&client, &process).await;
        assert_eq!(
            (String::from_utf8(out).unwrap().as_str(), ended.status),
            ("/\nvalue\n300000\n", Some(0))
        );
        let input = Input { bytes: Bytes::from_static(b"more"), wait_ms: 0 };
        let written = client.call::<run::Write>(&process, input).await.unwrap();
        assert!(written.closed && written.bytes == 0);
        assert_eq!(client.call::<run::Send>(&process, 15).await.unwrap(), Ok(false));
        client.call::<run::Send>(&process, 9999).await.unwrap().unwrap_err();
        let listed = client.ls(&place, "**/process/w").await.unwrap();
        assert_eq!(listed[0].about.state, "exit status 0");
    });
}

#[test]
fn a_signal_reaches_it_and_what_it_has_started() {
    let nats = NatsServer::start();
    let (_interface, _served, place) = machine(&nats.url());
    block_on(async {
        let client = client(&nats.url()).await;
        let text = "sleep 1000 & echo $!; wait";
        let process = client.create(&place, None, shell(text)).await.unwrap();
        let said = client.call::<run::Read>(&process, wish(5000)).await.unwrap();
        let child: u32 = String::from_utf8(said.out.to_vec()).unwrap().trim().parse().unwrap();
        assert!(is_there(child));
        assert_eq!(client.call::<run::Send>(&process, 15).await.unwrap(), Ok(true));
        let (_, _, ended) = whole(&client, &process).await;
        assert_eq!(ended, Ended { status: None, signal: Some(15) });
        wait_gone(child);
    });
}

#[test]
fn it_ends_with_what_it_has_started_when_it_is_destroyed_or_unheard() {
    let nats = NatsServer::start();
    let (_interface, _served, place) = machine(&nats.url());
    block_on(async {
        let client = client(&nats.url()).await;
        let begin = async |program| {
            let process: Remote<Process> = client.create(&place, None, program).await.unwrap();
            let said = client.call::<run::Read>(&process, wish(5000)).await.unwrap();
            let child: u32 = String::from_utf8(said.out.to_vec()).unwrap().trim().parse().unwrap();
            (process, child)
        };
        // What is left of it when it has ended, too.
        let (process, child) = begin(shell("sleep 1000 & echo $!")).await;
        client.destroy(process).await.unwrap();
        wait_gone(child);
        let unheard_ms = Some(100);
        let (process, child) =
            begin(Program { unheard_ms, ..shell("sleep 1000 & echo $!; wait") }).await;
        wait_gone(child);
        let (_, _, ended) = whole(&client, &process).await;
        assert_eq!(ended.signal, Some(9));
    });
}

#[test]
fn what_cannot_start_is_refused_with_its_reason() {
    let nats = NatsServer::start();
    let (_interface, _served, place) = machine(&nats.url());
    block_on(async {
        let client = client(&nats.url()).await;
        let program = |words: &[&str]| Program {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            ..Program::default()
        };
        for (words, said) in [(&["/nowhere/program"][..], "No such file"), (&[], "no words")] {
            let made = client.create::<Process>(&place, None, program(words)).await;
            let error = made.unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let elsewhere = Program { folder: Some("/nowhere".to_owned()), ..program(&["true"]) };
        let error = client.create::<Process>(&place, None, elsewhere).await.unwrap_err();
        assert!(error.to_string().contains("/nowhere"), "{error}");
    });
}

/// A wish to read, that waits for so long.
fn wish(wait_ms: u64) -> run::Wish {
    run::Wish { wait_ms, most: None }
}

/// A server whose messages are small cuts what is written into pieces, and no work short.
#[test]
fn small_messages_carry_all_of_it_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, "max_payload: 4096\n").unwrap();
    let nats = NatsServer::start_with(&["-c", path.to_str().unwrap()]);
    let (_interface, _served, place) = machine(&nats.url());
    block_on(async {
        let client = client(&nats.url()).await;
        let process = client.create::<Process>(&place, None, shell("cat; seq 1 2000 >&2"));
        let process = process.await.unwrap();
        let given: Vec<u8> = (0..30_000_u32).map(|number| number as u8).collect();
        for bytes in given.chunks(client.room()) {
            let mut bytes = Bytes::copy_from_slice(bytes);
            while !bytes.is_empty() {
                let input = Input { bytes: bytes.clone(), wait_ms: 1000 };
                let written = client.call::<run::Write>(&process, input).await.unwrap();
                assert!(!written.closed);
                let _ = bytes.split_to(written.bytes);
            }
        }
        client.call::<run::Close>(&process, ()).await.unwrap();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let most = Some(client.room() / 2);
        let ended = loop {
            let wish = run::Wish { wait_ms: 1000, most };
            let part = client.call::<run::Read>(&process, wish).await.unwrap();
            out.extend_from_slice(&part.out);
            err.extend_from_slice(&part.err);
            if let Some(ended) = part.ended {
                break ended;
            }
        };
        assert_eq!((ended.status, out == given), (Some(0), true));
        let lines: Vec<u8> = (1..=2000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        assert!(err == lines);
    });
}
