//! Somebody at a terminal of the host works in a node.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kumiki_lab::Control;

use crate::Host;
use crate::pool::Kind;

const PATIENCE: Duration = Duration::from_secs(60);

/// Somebody who types at a terminal and reads it.
struct Typist {
    keys: Sender<Vec<u8>>,
    screen: Arc<Screen>,
    /// Where in what was shown the next look begins.
    at: usize,
    control: Control,
    end: JoinHandle<u8>,
}

#[derive(Default)]
struct Screen {
    shown: Mutex<Vec<u8>>,
    news: Condvar,
}

struct Keys(Receiver<Vec<u8>>, Vec<u8>);

impl Read for Keys {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.1.is_empty() {
            self.1 = self.0.recv().unwrap_or_default();
        }
        let length = self.1.len().min(into.len());
        into[..length].copy_from_slice(&self.1[..length]);
        self.1.drain(..length);
        Ok(length)
    }
}

impl Write for &Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.shown.lock().unwrap().extend_from_slice(bytes);
        self.news.notify_all();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Typist {
    /// Runs a line of shell of the host at a terminal of 30 lines of 100.
    fn run(host: &Host, line: &str) -> Self {
        let command = host.machine.command("sh").args(["-c", line]).env("TERM", "vt100");
        let running = command.terminal(30, 100).spawn().unwrap();
        let (keys, typed) = channel();
        let screen = Arc::new(Screen::default());
        let (control, shows) = (running.control(), Arc::clone(&screen));
        let end = thread::spawn(move || {
            let outcome = running.pass(Keys(typed, Vec::new()), &*shows, io::sink()).unwrap();
            outcome.exit.code()
        });
        Typist { keys, screen, at: 0, control, end }
    }

    fn types(&self, keys: &str) {
        self.keys.send(keys.as_bytes().to_vec()).unwrap();
    }

    /// Waits until this is shown.
    fn sees(&mut self, text: &str) {
        let begin = Instant::now();
        let mut shown = self.screen.shown.lock().unwrap();
        loop {
            let rest = String::from_utf8_lossy(&shown[self.at..]).into_owned();
            if let Some(at) = rest.find(text) {
                self.at += at + text.len();
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "no {text:?} in {rest:?}");
            shown = self.screen.news.wait_timeout(shown, PATIENCE / 60).unwrap().0;
        }
    }

    fn ends(self) -> u8 {
        drop(self.keys);
        self.end.join().unwrap()
    }
}

#[test]
fn a_node_has_terminals_signals_and_a_console() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok("kumiki node create n1 --cpus 1 --memory 256M --image deb");
    host.ok("kumiki node start n1 --timeout 120");
    signals(&host);
    let place = "kumiki node exec n1 --env A=1 -e 'B=two words' -e HOME --cwd /sys/kernel \
                 -- sh -c 'echo $A $B $HOME $PWD'";
    assert_eq!(host.ok(place), "1 two words /root /sys/kernel\n");
    let missing = host.refused("kumiki node exec n1 --cwd /no/such -- true");
    assert!(missing.contains("/no/such"), "{missing}");
    // Pipes at either end: no terminal, unless it is asked for.
    assert_eq!(host.run("kumiki node exec n1 -- tty").exit.code(), 1);
    let asked = host.ok("echo 'stty size; exit' | kumiki node exec -t n1 -- sh");
    assert!(asked.contains("24 80"), "{asked}");
    terminal(&host);
    console(&host);
    follow(&host);
    host.ok("kumiki node rm n1");
    host.leave();
}

/// What is sent to the client arrives at the command.
fn signals(host: &Host) {
    let heard = "rm -f said; kumiki node exec n1 -- sh -c \"\
                 for s in HUP USR1 USR2; do trap 'echo '\\$s \\$s; done; echo on; \
                 while :; do sleep 0.1; done\" > said & \
                 until grep -qs on said; do sleep 0.2; done; \
                 for s in USR2 USR1 HUP; do kill -$s $!; \
                 until grep -q $s said; do sleep 0.2; done; done; kill -9 $!; cat said";
    assert_eq!(host.ok(heard), "on\nUSR2\nUSR1\nHUP\n");
    // Past input that nobody reads.
    let client = "echo $$ > pid; exec kumiki node exec n1 -- sleep 300";
    let unread = format!(
        "{{ yes | sh -c '{client}'; echo $? > code; }} & \
         until kumiki node exec n1 -- ps | grep -q 'sleep 300'; do sleep 0.2; done; \
         sleep 1; kill -TERM $(cat pid); wait; cat code"
    );
    assert_eq!(host.ok(&unread), "143\n");
    // Both stop, both go on.
    let state = |state: &str| {
        format!(
            "until kumiki node exec n1 -- ps -o stat,args | grep -q '^{state}.*sleep 300'; \
                 do sleep 0.2; done; until grep -q 'State:.{state}' /proc/$!/status; \
                 do sleep 0.2; done;"
        )
    };
    let stops = format!(
        "kumiki node exec n1 -- sleep 300 & {} kill -TSTP $!; {} kill -CONT $!; {} \
         kill -TERM $!; wait $!",
        state("S"),
        state("T"),
        state("S"),
    );
    assert_eq!(host.run(&stops).exit.code(), 128 + 15);
}

/// A shell at a terminal, whose modes are the same before and afterwards.
fn terminal(host: &Host) {
    let around = |command: &str| {
        format!(
            "trap : INT; stty -g > before; {command}; echo ended-$?; stty -g > after; \
             cmp before after && echo modes-$((1 + 1))"
        )
    };
    let mut typist = Typist::run(host, &around("kumiki node exec -i n1 -- sh"));
    typist.sees("# ");
    typist.types("hostname; tty; stty size; echo $TERM\n");
    typist.sees("n1\r\n/dev/pts/0\r\n30 100\r\nvt100\r\n");
    typist.control.resize(40, 120).unwrap();
    typist.types("until stty size | grep ^40; do sleep 0.2; done\n");
    typist.sees("40 120\r\n");
    // Ctrl-C is the node's terminal's affair, and ends what is in front there.
    typist.types("sleep 1000\n");
    thread::sleep(Duration::from_secs(1));
    typist.types("\x03echo after-$?\n");
    typist.sees("after-130");
    typist.types("exit 5\n");
    typist.sees("ended-5");
    typist.sees("modes-2");
    assert_eq!(typist.ends(), 0);

    // What is typed ahead is the next command's.
    let ahead = "kumiki node exec n1 -- sh -c 'touch /on; until test -e /go; do sleep 0.1; done'; \
                 read line; echo next-$line";
    let mut typist = Typist::run(host, &around(ahead));
    host.ok("until kumiki node exec n1 -- test -e /on; do sleep 0.2; done");
    typist.types("ahead\n");
    typist.sees("ahead\r\n");
    host.ok("kumiki node exec n1 -- touch /go");
    typist.sees("next-ahead");
    typist.sees("modes-2");
    assert_eq!(typist.ends(), 0);

    // Without a terminal there Ctrl-C is a signal here.
    let trapped = "kumiki node exec -T n1 -- sh -c \
                   'trap \"exit 9\" INT; echo on; while :; do sleep 0.1; done'";
    let mut typist = Typist::run(host, &around(trapped));
    typist.sees("on");
    typist.types("\x03");
    typist.sees("ended-9");
    assert_eq!(typist.ends(), 0);

    // The node ends below a terminal.
    let mut typist = Typist::run(host, &around("kumiki node exec -i n1 -- sh"));
    typist.sees("# ");
    typist.types("poweroff -f\n");
    typist.sees("has ended (halted)");
    typist.sees("ended-2");
    typist.sees("modes-2");
    assert_eq!(typist.ends(), 0);
    host.ok("kumiki node restart n1 --timeout 120");
}

/// The kernel's lines and a shell, until Ctrl-].
fn console(host: &Host) {
    let mut typist = Typist::run(host, "kumiki node console n1; echo ended-$?");
    typist.sees("Ctrl-] leaves");
    typist.sees("# ");
    typist.types("echo hel''lo\n");
    typist.sees("hello");
    // The log comes before, between or after what the shell writes.
    typist.types("echo '<0>told by' the kernel > /dev/kmsg\n");
    typist.sees("] told by the kernel\r\n");
    typist.types("\x1d");
    typist.sees("left node n1");
    typist.sees("ended-0");
    assert_eq!(typist.ends(), 0);
    // Its shell has gone with it.
    host.ok("until ! kumiki node exec n1 -- ps | grep -q ' sh$'; do sleep 0.2; done");
    // A refusal comes before anything is said.
    assert!(host.refused("kumiki node console n9").contains("there is no node n9"));
    assert!(host.refused("kumiki node console n1").contains("are no terminal"));
}

/// Follows the log to the node's end.
fn follow(host: &Host) {
    let output = host.ok("kumiki node logs -f n1 > log & \
         until grep -q 'Run /bin/kumiki' log; do sleep 0.2; done; \
         kumiki node exec n1 -- sh -c 'echo and more > /dev/kmsg'; \
         until grep -q 'and more' log; do sleep 0.2; done; kumiki node stop n1; wait $!; echo $?");
    assert_eq!(output, "0\n");
    // What has ended is not waited for.
    assert!(host.ok("kumiki node logs --follow n1").contains("and more"));
}
