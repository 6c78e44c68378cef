//! Processes at a place: their streams, signals and ends, from afar.

use std::io::Write;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use kumiki_places::run::{self, Process, Program};
use kumiki_places::wire::Why;
use kumiki_places::{Client, Error, Remote, Served, program};
use kumiki_resource::Interface;
use kumiki_stream::exec::{Beside, Client as Near, Ending, Outcome};
use kumiki_stream::frame::{HEADER_BYTES, Header};
use kumiki_stream::{Kind, Stream, pair};

use crate::nats::{Line, NatsServer};
use crate::scene::{PATIENCE, block_on, client, managed};

/// A machine that has processes.
fn machine(url: &str) -> (Interface, Served, String) {
    managed(url, "p")
}

fn shell(text: &str) -> Program {
    Program { words: ["sh", "-c", text].map(str::to_owned).into(), ..Program::default() }
}

/// All that it writes until it ends, with this input.
async fn whole(
    client: &Client,
    process: &Remote<Process>,
    input: Vec<u8>,
) -> (Vec<u8>, Vec<u8>, Ending) {
    let (near, far) = pair(run::WINDOW).unwrap();
    let near = near.with_chunk(client.room() - HEADER_BYTES);
    let attending = thread::spawn(move || {
        let (reader, mut writer) = kumiki_sys::descriptors::pipe().unwrap();
        thread::spawn(move || drop(writer.write_all(&input)));
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let input = Some(reader.as_fd());
        let mut near_end = Near { input, out: &mut out, err: &mut err, orders: None };
        let outcome = near_end.attend(&mut Stream::new(near), &mut Beside::default()).unwrap();
        let Outcome::Ended(ending) = outcome else { panic!("{outcome:?}") };
        (out, err, ending)
    });
    program::carry(client, process, far).await.unwrap();
    attending.join().unwrap()
}

/// What it writes first.
async fn said(client: &Client, process: &Remote<Process>) -> String {
    loop {
        let wish = run::Wish { wait_ms: 5000, most: None };
        let taken = client.call::<run::Take>(process, wish).await.unwrap();
        if let Some((Header { kind: Kind::Output, .. }, body)) =
            Header::read(&taken.frames[..]).unwrap()
        {
            return String::from_utf8(body).unwrap();
        }
        assert!(!taken.over);
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
        let ((out, err, ended), ()) = tokio::join!(whole(&client, &process, Vec::new()), cuts);
        let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
        assert!(out == expected.as_bytes(), "{} bytes of {}", out.len(), expected.len());
        assert_eq!((&*err, ended), (&b"end\n"[..], Ending::Exited(7)));
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
        // More than a pipe has room for, and than a window.
        let (out, _, ended) = whole(&client, &process, vec![7; 700_000]).await;
        assert_eq!(
            (String::from_utf8(out).unwrap().as_str(), ended),
            ("/\nvalue\n700000\n", Ending::Exited(0))
        );
        // What comes late is nobody's, and what is no frame is refused by that.
        program::tell(&client, &process, Kind::Signal, &15).await.unwrap();
        let odd = client.call::<run::Give>(&process, vec![9; 12].into()).await.unwrap();
        assert!(odd.unwrap_err().contains("(Close) of 151587081 bytes"));
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
        let child: u32 = said(&client, &process).await.trim().parse().unwrap();
        assert!(is_there(child));
        program::tell(&client, &process, Kind::Signal, &15).await.unwrap();
        let (_, _, ended) = whole(&client, &process, Vec::new()).await;
        assert_eq!(ended, Ending::Signalled(15));
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
            let child: u32 = said(&client, &process).await.trim().parse().unwrap();
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
        let (_, _, ended) = whole(&client, &process, Vec::new()).await;
        assert_eq!(ended, Ending::Signalled(9));
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
        let nowhere = Program { folder: Some("/nowhere".to_owned()), ..program(&["true"]) };
        for (program, expected, words) in [
            (program(&["/nowhere/program"]), Why::NoProgram, "/nowhere/program: No such file"),
            (program(&["/etc/passwd/program"]), Why::NoProgram, "Not a directory"),
            (program(&["/etc/passwd"]), Why::NotExecutable, "/etc/passwd: Permission denied"),
            (program(&[]), Why::Kind, "no words"),
            (nowhere, Why::Kind, "its working folder /nowhere: No such file"),
        ] {
            let error = client.create::<Process>(&place, None, program).await.unwrap_err();
            assert!(matches!(error, Error::Refused { why, .. } if why == expected), "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    });
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
        let room = Some(client.room());
        let program = Program { room, ..shell("cat; seq 1 2000 >&2") };
        let process = client.create::<Process>(&place, None, program).await.unwrap();
        let given: Vec<u8> = (0..30_000_u32).map(|number| number as u8).collect();
        let (out, err, ended) = whole(&client, &process, given.clone()).await;
        assert_eq!((ended, out == given), (Ending::Exited(0), true));
        let lines: Vec<u8> = (1..=2000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        assert!(err == lines);
    });
}
