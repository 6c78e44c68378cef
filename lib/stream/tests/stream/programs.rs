//! Programs through a stream within this process.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kumiki_stream::exec::{Beside, Client, Ending, Order, Orders, Outcome, Running, Size};
use kumiki_stream::{Kind, Paired, Stream, pair};

/// Serves a shell's script; the thread ends with it.
fn served(script: &str, terminal: Option<Size>) -> (Stream<Paired>, JoinHandle<Option<Ending>>) {
    let (near, far) = pair(48 << 10).unwrap();
    let script = script.to_owned();
    let server = thread::spawn(move || {
        let mut stream = Stream::new(far);
        let running = Running::start(Command::new("sh").args(["-c", &script]), terminal).unwrap();
        let ending = running.attend(&mut stream).unwrap_or(None);
        if let Some(ending) = &ending {
            stream.send(Kind::Close, ending).unwrap();
        }
        ending
    });
    (Stream::new(near), server)
}

fn run(
    script: &str,
    terminal: Option<Size>,
    input: Option<BorrowedFd<'_>>,
) -> (Outcome, String, String) {
    let (mut stream, server) = served(script, terminal);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut client = Client { input, out: &mut out, err: &mut err, orders: None };
    let outcome = client.attend(&mut stream, &mut Beside::default()).unwrap();
    server.join().unwrap();
    (outcome, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

fn exited(status: u8) -> Outcome {
    Outcome::Ended(Ending::Exited(status))
}

/// A pipe with these bytes, written by a thread, and then its end.
fn typed(bytes: Vec<u8>) -> std::fs::File {
    let (reader, mut writer) = kumiki_sys::descriptors::pipe().unwrap();
    thread::spawn(move || drop(writer.write_all(&bytes)));
    reader
}

#[test]
fn outputs_stay_apart_and_ends_come_as_they_are() {
    let (outcome, out, err) = run("echo out; echo err >&2; exit 7", None, None);
    assert_eq!((outcome, out.as_str(), err.as_str()), (exited(7), "out\n", "err\n"));
    let (outcome, ..) = run("kill -9 $$", None, None);
    assert_eq!(outcome, Outcome::Ended(Ending::Signalled(9)));
    let (outcome, out, _) = run("cat; echo end", None, None);
    assert_eq!((outcome, out.as_str()), (exited(0), "end\n"));
}

#[test]
fn every_byte_goes_in_and_comes_out() {
    let bytes: Vec<u8> =
        (0..3_000_000_u32).map(|n| b' ' + ((n * 7 + n / 251) % 90) as u8).collect();
    let input = typed(bytes.clone());
    let (outcome, out, _) = run("cat", None, Some(input.as_fd()));
    assert!(outcome == exited(0) && out.as_bytes() == bytes, "{} of {}", out.len(), bytes.len());
    // One that reads nothing, and one that closes its input, end all the same.
    let (outcome, ..) = run("true", None, Some(typed(bytes.clone()).as_fd()));
    assert_eq!(outcome, exited(0));
    let (outcome, out, _) = run("exec <&-; sleep 0.1; echo on", None, Some(typed(bytes).as_fd()));
    assert_eq!((outcome, out.as_str()), (exited(0), "on\n"));
}

#[test]
fn a_program_has_a_terminal_of_its_own_and_typed_ends() {
    let size = Size { rows: 33, columns: 101 };
    let (outcome, out, _) = run("tty; stty size", Some(size), Some(typed(Vec::new()).as_fd()));
    assert!(
        outcome == exited(0) && out.contains("/dev/pts/") && out.ends_with("33 101\r\n"),
        "{out}"
    );
    let typed = typed(b"first\n".to_vec());
    let (outcome, out, _) =
        run("read a; echo got $a; read b || echo end", Some(size), Some(typed.as_fd()));
    assert!(
        outcome == exited(0) && out.contains("got first\r\n") && out.ends_with("end\r\n"),
        "{out:?}"
    );
}

/// Orders that are there from the beginning.
struct ReadyOrders(Vec<Order>, File);

impl Orders for ReadyOrders {
    fn ready(&self) -> BorrowedFd<'_> {
        self.1.as_fd()
    }

    fn next(&mut self) -> io::Result<Option<Order>> {
        Ok(self.0.pop())
    }
}

#[test]
fn a_signal_and_a_size_pass_input_that_nobody_reads() {
    let script = "trap 'stty size; exit 5' USR1; echo go; while :; do sleep 0.01; done";
    let (mut stream, server) = served(script, Some(Size { rows: 10, columns: 10 }));
    struct Seen<'a>(&'a mut Vec<u8>, File);
    impl Write for Seen<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend(bytes);
            // The trap is there once it has said so.
            if self.0.windows(2).any(|two| two == b"go") {
                self.1.write_all(b"!")?;
            }
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    struct Later(std::fs::File, Vec<Order>);
    impl Orders for Later {
        fn ready(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
        fn next(&mut self) -> io::Result<Option<Order>> {
            let waits = rustix_readable(self.0.as_fd());
            Ok(if waits { self.1.pop() } else { None })
        }
    }
    let (ready, tell) = kumiki_sys::descriptors::pipe().unwrap();
    let orders = vec![Order::Signal(10), Order::Resize(Size { rows: 20, columns: 70 })];
    let mut out = Vec::new();
    let mut seen = Seen(&mut out, File::from(std::os::fd::OwnedFd::from(tell)));
    let mut orders = Later(ready, orders);
    // More than a terminal takes, and a window has.
    let input = typed(b"x".repeat(200_000));
    let mut client = Client {
        input: Some(input.as_fd()),
        out: &mut seen,
        err: &mut io::sink(),
        orders: Some(&mut orders),
    };
    let outcome = client.attend(&mut stream, &mut Beside::default()).unwrap();
    server.join().unwrap();
    let out = String::from_utf8_lossy(&out).into_owned();
    assert!(outcome == exited(5) && out.contains("20 70"), "{outcome:?} {out}");
}

fn rustix_readable(fd: BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
}

#[test]
fn a_signal_reaches_a_program_whose_output_nobody_takes() {
    let (mut stream, server) = served("yes", None);
    // Nothing is read, so all credit is used up.
    thread::sleep(Duration::from_millis(50));
    let nothing = File::open("/dev/null").unwrap();
    let mut orders = ReadyOrders(vec![Order::Signal(15)], nothing);
    let mut seen = Vec::new();
    let mut client =
        Client { input: None, out: &mut seen, err: &mut io::sink(), orders: Some(&mut orders) };
    let outcome = client.attend(&mut stream, &mut Beside::default()).unwrap();
    assert_eq!(outcome, Outcome::Ended(Ending::Signalled(15)));
    server.join().unwrap();
}

#[test]
fn what_a_program_leaves_behind_does_not_hold_it_up_and_its_last_words_come() {
    let begin = Instant::now();
    let (outcome, out, _) =
        run("sleep 60 & head -c 300000 /dev/zero | tr '\\0' x; exit 3", None, None);
    assert_eq!((outcome, out.len()), (exited(3), 300_000));
    assert!(begin.elapsed() < Duration::from_secs(50));
}

/// Waits until the process that a script has named has gone.
fn gone(pid: &str) {
    let stat = format!("/proc/{}/stat", pid.trim());
    let begin = Instant::now();
    // A zombie whom nobody has waited for yet has gone, too.
    while std::fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z ")) {
        assert!(begin.elapsed() < Duration::from_secs(30), "{stat} is there");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_client_that_is_gone_ends_the_program_and_its_group() {
    for terminal in [None, Some(Size { rows: 24, columns: 80 })] {
        let (stream, server) = served("sleep 60 & echo $!; wait", terminal);
        let mut stream = stream;
        let said = loop {
            match stream.receive().unwrap() {
                Some(kumiki_stream::Message::Data(_, bytes)) => {
                    break String::from_utf8(bytes).unwrap();
                }
                _ => kumiki_stream::Link::wait(stream.link(), &[], None).unwrap(),
            }
        };
        drop(stream);
        assert_eq!(server.join().unwrap(), None);
        gone(&said);
    }
}

#[test]
fn a_time_limit_kills_and_a_key_leaves() {
    let (mut stream, server) = served("trap '' TERM; sleep 60", None);
    let mut client =
        Client { input: None, out: &mut io::sink(), err: &mut io::sink(), orders: None };
    let mut beside = Beside { limit: Some(Duration::from_millis(100)), ..Beside::default() };
    assert_eq!(client.attend(&mut stream, &mut beside).unwrap(), Outcome::TimedOut);
    assert_eq!(server.join().unwrap(), Some(Ending::Signalled(9)));
    for (typed_bytes, leave, expected) in [
        (&b"ab\x1dcd"[..], None, (Outcome::Ended(Ending::Exited(0)), "ab\x1dcd")),
        (b"ab\x1dcd", Some(0x1d), (Outcome::Left, "ab")),
        (b"\x1d", Some(0x1d), (Outcome::Left, "")),
    ] {
        let (seen, mut writer) = kumiki_sys::descriptors::pipe().unwrap();
        let (mut stream, server) = served("cat >&2", None);
        let input = typed(typed_bytes.to_vec());
        let mut client = Client {
            input: Some(input.as_fd()),
            out: &mut io::sink(),
            err: &mut writer,
            orders: None,
        };
        let mut beside = Beside { leave, ..Beside::default() };
        let outcome = client.attend(&mut stream, &mut beside).unwrap();
        // What was sent before the key arrives, as long as somebody is there.
        while outcome == Outcome::Left && !expected.1.is_empty() {
            match stream.receive().unwrap() {
                Some(kumiki_stream::Message::Data(_, bytes)) => {
                    writer.write_all(&bytes).unwrap();
                    break;
                }
                _ => kumiki_stream::Link::wait(stream.link(), &[], None).unwrap(),
            }
        }
        drop((stream, writer));
        server.join().unwrap();
        let mut text = String::new();
        let mut seen = seen;
        seen.read_to_string(&mut text).unwrap();
        assert_eq!((outcome, text.as_str()), expected);
    }
}

#[test]
fn a_program_that_is_not_there_says_so() {
    for terminal in [None, Some(Size { rows: 24, columns: 80 })] {
        let error = Running::start(&mut Command::new("/no/such/program"), terminal).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let error = Running::start(&mut Command::new("/etc/passwd"), terminal).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
