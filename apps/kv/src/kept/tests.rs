//! A server on a disk that flushes when it is let, and forgets what it has not flushed.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use clap::Parser;
use kumiki_journal::{Disk, DiskFile};

use super::{Kept, Noted};
use crate::args::Args;
use crate::server::Server;

/// Bytes of a file as they were written, and as they are flushed.
#[derive(Clone, Default)]
struct Inode {
    written: Vec<u8>,
    flushed: Vec<u8>,
}

#[derive(Default)]
struct Held {
    files: Mutex<BTreeMap<String, Arc<Mutex<Inode>>>>,
    is_full: AtomicBool,
    /// True while it has less room than a file of the log takes.
    is_short: AtomicBool,
    /// True while nothing but the head of a snapshot is taken; and how many of them were begun.
    refuses_snapshots: Arc<AtomicBool>,
    snapshots: AtomicU64,
    flushes: Arc<AtomicU64>,
    /// True while nothing is flushed.
    gate: Arc<(Mutex<bool>, Condvar)>,
}

struct HeldFile {
    /// True while it takes no more than a head.
    is_refused: Option<Arc<AtomicBool>>,
    inode: Arc<Mutex<Inode>>,
    flushes: Arc<AtomicU64>,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Held {
    /// The disk of a machine that has ended now.
    fn after_its_end(&self) -> Held {
        let files = self.files.lock().unwrap();
        let files = files.iter().map(|(name, inode)| {
            let flushed = inode.lock().unwrap().flushed.clone();
            let inode = Inode { written: flushed.clone(), flushed };
            (name.clone(), Arc::new(Mutex::new(inode)))
        });
        Held { files: Mutex::new(files.collect()), ..Held::default() }
    }

    /// Copy of the disk as a kill of its process leaves it: all that was written, flushed or not.
    fn after_a_kill(&self) -> Held {
        let files = self.files.lock().unwrap();
        let files = files.iter().map(|(name, inode)| {
            (name.clone(), Arc::new(Mutex::new(inode.lock().unwrap().clone())))
        });
        Held { files: Mutex::new(files.collect()), ..Held::default() }
    }

    fn close(&self, is_closed: bool) {
        *self.gate.0.lock().unwrap() = is_closed;
        self.gate.1.notify_all();
    }

    fn change(&self, beginning: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let files = self.files.lock().unwrap();
        let (_, inode) = files.iter().rfind(|(name, _)| name.starts_with(beginning)).unwrap();
        change(&mut inode.lock().unwrap().written);
    }

    fn names(&self) -> Vec<String> {
        self.files.lock().unwrap().keys().cloned().collect()
    }
}

impl Disk for Held {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let files = self.files.lock().unwrap();
        let inode = files.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(inode.lock().unwrap().written.clone())
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let is_short = bytes >= self.file_bytes() && self.is_short.load(SeqCst);
        if is_short || self.is_full.load(SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let zeros = vec![0; bytes as usize];
        let inode = Arc::new(Mutex::new(Inode { written: zeros.clone(), flushed: zeros }));
        self.files.lock().unwrap().insert(name.to_owned(), Arc::clone(&inode));
        let (flushes, gate) = (Arc::clone(&self.flushes), Arc::clone(&self.gate));
        let is_snapshot = name == "unfinished";
        self.snapshots.fetch_add(u64::from(is_snapshot), SeqCst);
        let is_refused = is_snapshot.then(|| Arc::clone(&self.refuses_snapshots));
        Ok(Box::new(HeldFile { is_refused, inode, flushes, gate }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let files = self.files.lock().unwrap();
        let inode = Arc::clone(files.get(name).ok_or(io::ErrorKind::NotFound)?);
        let (flushes, gate) = (Arc::clone(&self.flushes), Arc::clone(&self.gate));
        Ok(Box::new(HeldFile { is_refused: None, inode, flushes, gate }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files.lock().unwrap();
        let inode = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = self.files.lock().unwrap().remove(name);
        removed.map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn name(&self) -> String {
        "held".to_owned()
    }

    fn file_bytes(&self) -> u64 {
        256 << 10
    }
}

impl DiskFile for HeldFile {
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let end = at as usize + bytes.len();
        if end > 1000 && self.is_refused.as_ref().is_some_and(|is| is.load(SeqCst)) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let written = &mut self.inode.lock().unwrap().written;
        if written.len() < end {
            written.resize(end, 0);
        }
        written[at as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut is_closed = self.gate.0.lock().unwrap();
        while *is_closed {
            is_closed = self.gate.1.wait(is_closed).unwrap();
        }
        self.flushes.fetch_add(1, SeqCst);
        let mut inode = self.inode.lock().unwrap();
        inode.flushed = inode.written.clone();
        Ok(())
    }

    fn end(&mut self, bytes: u64) -> io::Result<()> {
        self.inode.lock().unwrap().written.truncate(bytes as usize);
        Ok(())
    }
}

/// A server of so many shards on this disk; its threads live as long as this process.
fn serve(disk: &Arc<Held>, shards: usize) -> anyhow::Result<Server> {
    serve_on(Arc::clone(disk) as Arc<dyn Disk>, shards)
}

fn serve_on(disk: Arc<dyn Disk>, shards: usize) -> anyhow::Result<Server> {
    serve_longest(disk, shards, "4K", "16M")
}

fn serve_longest(
    disk: Arc<dyn Disk>,
    shards: usize,
    longest: &str,
    memory: &str,
) -> anyhow::Result<Server> {
    let cpus: Vec<String> =
        kumiki_sys::affinity::current()?.iter().take(shards).map(|cpu| cpu.to_string()).collect();
    let cpus = cpus.join(",");
    let args =
        ["kumiki-kv", "--port", "0", "--cpu-list", &cpus, "--longest", longest, "--memory", memory];
    let args = Args::try_parse_from(args)?;
    Server::start_on(&args, |workers| Ok(Some(Arc::new(Kept::on(disk, workers)?))))
}

fn client(server: &Server) -> TcpStream {
    let client = TcpStream::connect(server.addresses()[0]).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    client
}

/// The answers to these commands, in one read each of as many bytes as they have.
fn ask(client: &mut TcpStream, commands: &str, answers: &str) {
    client.write_all(commands.as_bytes()).unwrap();
    let mut seen = vec![0; answers.len()];
    client.read_exact(&mut seen).unwrap();
    assert_eq!(String::from_utf8_lossy(&seen), answers, "{commands}");
}

#[test]
fn no_answer_leaves_before_it_is_flushed_and_one_flush_is_for_all_that_wait() {
    let disk = Arc::new(Held::default());
    let server = serve(&disk, 1).unwrap();
    let mut clients: Vec<_> = (0..64).map(|_| client(&server)).collect();
    for client in &mut clients {
        ask(client, "PING\r\n", "+PONG\r\n");
    }
    let before = disk.flushes.load(SeqCst);
    disk.close(true);
    for (number, client) in clients.iter_mut().enumerate() {
        write!(client, "SET k{number} {number}\r\n").unwrap();
    }
    // Nobody has an answer, and nobody who reads sees what is not flushed.
    clients[0].set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(clients[0].read(&mut [0]).is_err(), "an answer has left before the flush");
    assert!(
        !disk
            .after_its_end()
            .files
            .lock()
            .unwrap()
            .values()
            .any(|inode| { inode.lock().unwrap().flushed.windows(2).any(|two| two == b"k0") })
    );
    disk.close(false);
    clients[0].set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    for client in &mut clients {
        ask(client, "", "+OK\r\n");
    }
    // The first is for what had come when it began.
    let flushes = disk.flushes.load(SeqCst) - before;
    assert!(flushes <= 2, "{flushes} flushes for 64 under way");
    // A machine that ends now has all of it.
    let again = serve(&Arc::new(disk.after_its_end()), 1).unwrap();
    for number in 0..64 {
        let text = number.to_string();
        let answer = format!("${}\r\n{text}\r\n", text.len());
        ask(&mut client(&again), &format!("GET k{number}\r\n"), &answer);
    }
}

#[test]
fn what_a_killed_server_has_not_flushed_is_flushed_before_anybody_is_answered_by_it() {
    let disk = Arc::new(Held::default());
    let server = serve(&disk, 1).unwrap();
    ask(&mut client(&server), "SET a 1\r\n", "+OK\r\n");
    disk.close(true);
    client(&server).write_all(b"SET b 2\r\n").unwrap();
    let is_written = || {
        let files = disk.files.lock().unwrap();
        files.values().any(|inode| inode.lock().unwrap().written.windows(2).any(|two| two == b"b2"))
    };
    while !is_written() {
        std::thread::yield_now();
    }
    // Killed, it has what was written; then the machine ends.
    let killed = Arc::new(disk.after_a_kill());
    disk.close(false);
    let again = serve(&killed, 1).unwrap();
    ask(&mut client(&again), "GET b\r\nSET c 3\r\n", "$1\r\n2\r\n+OK\r\n");
    let last = serve(&Arc::new(killed.after_its_end()), 1).unwrap();
    ask(&mut client(&last), "MGET a b c\r\n", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
}

#[test]
fn a_full_disk_refuses_before_anything_has_run_and_goes_on_when_there_is_room() {
    let disk = Arc::new(Held::default());
    let server = serve(&disk, 1).unwrap();
    let mut client = client(&server);
    ask(&mut client, "SET a 1\r\n", "+OK\r\n");
    disk.is_full.store(true, SeqCst);
    let value = "v".repeat(4000);
    let refused = "-MISCONF The disk has no room for the log (--durable): nothing was done\r\n";
    let mut written = 0;
    loop {
        client.write_all(format!("SET k{written} {value}\r\n").as_bytes()).unwrap();
        let mut first = [0];
        client.read_exact(&mut first).unwrap();
        if first == *b"-" {
            ask(&mut client, "", &refused[1..]);
            break;
        }
        ask(&mut client, "", "OK\r\n");
        written += 1;
        assert!(written < 1000, "it is never full");
    }
    assert!(written > 10, "{written}");
    // What is smaller finds room for longer.
    for count in 1.. {
        client.write_all(b"INCR b\r\n").unwrap();
        let mut first = [0];
        client.read_exact(&mut first).unwrap();
        if first == *b"-" {
            ask(&mut client, "", &refused[1..]);
            break;
        }
        ask(&mut client, "", &format!("{count}\r\n"));
        assert!(count < 10_000, "it is never full");
    }
    ask(&mut client, &format!("EXISTS k{written}\r\n"), ":0\r\n");
    ask(&mut client, "INCR a\r\nGET a\r\n", &format!("{refused}$1\r\n1\r\n"));
    ask(&mut client, "MULTI\r\nINCR a\r\nEXEC\r\n", &format!("+OK\r\n+QUEUED\r\n{refused}"));
    let after = Arc::new(disk.after_its_end());
    disk.is_full.store(false, SeqCst);
    ask(&mut client, "INCR a\r\nGET a\r\n", ":2\r\n$1\r\n2\r\n");
    let again = serve(&after, 1).unwrap();
    ask(
        &mut self::client(&again),
        "GET a\r\nDBSIZE\r\n",
        &format!("$1\r\n1\r\n:{}\r\n", written + 2),
    );
}

/// Logs had filled a disk by themselves, and what would have taken their place waited for room for another one.
#[test]
fn where_logs_fill_the_disk_a_snapshot_takes_their_place_though_nothing_can_be_written() {
    let disk = Arc::new(Held::default());
    let server = serve(&disk, 1).unwrap();
    let mut client = client(&server);
    disk.refuses_snapshots.store(true, SeqCst);
    let set = |value: &str| format!("SET k {value}\r\n");
    let (value, last) = ("v".repeat(4000), "w".repeat(4000));
    let logs = || disk.names().iter().filter(|name| name.starts_with("log-")).count();
    while logs() < 6 {
        ask(&mut client, &set(&value), "+OK\r\n");
    }
    // Less than a file of the log is left, and more than a snapshot takes.
    disk.is_short.store(true, SeqCst);
    while !is_refused(&mut client, &set(&last), "+OK\r\n") {}
    let begun = std::time::Instant::now();
    disk.refuses_snapshots.store(false, SeqCst);
    while is_refused(&mut client, &set(&last), "+OK\r\n") {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", disk.names());
        // What they had is free again.
        disk.is_short.fetch_and(logs() > 2, SeqCst);
        std::thread::sleep(Duration::from_millis(50));
    }
    let again = serve(&Arc::new(disk.after_its_end()), 1).unwrap();
    let answer = format!("$4000\r\n{last}\r\n:1\r\n");
    ask(&mut self::client(&again), "GET k\r\nDBSIZE\r\n", &answer);
}

/// A file that nothing was written to is not closed: another one would need room that a full disk has not.
#[test]
fn a_snapshot_that_has_failed_begins_again_where_it_was() {
    let disk = Arc::new(Held::default());
    let kept = Arc::new(Kept::on(Arc::clone(&disk) as Arc<dyn Disk>, 1).unwrap());
    let mut noted = Noted::default();
    noted.set(b"a", &[b"1"], 0);
    kept.append(0, &mut noted.bytes);
    disk.refuses_snapshots.store(true, SeqCst);
    let (mut part, mut files) = (super::Part::default(), None);
    for _ in 0..3 {
        super::held(&kept.files).back_off_until = None;
        assert!(kept.begin_save());
        kept.save_some(&mut part, 0, |table, noted| {
            noted.set(b"a", &[&[b'v'; 2 << 20]], 0);
            table == 0
        });
        assert!(!kept.is_saving(), "it has not failed");
        let now = (disk.names(), super::held(&kept.files).closed);
        assert_eq!(files.get_or_insert_with(|| now.clone()), &now);
    }
}

#[test]
fn a_command_asks_for_the_room_that_it_needs_and_not_for_the_longest_value() {
    // 512 MiB were more than a record might have: all that changes a part of a value was refused.
    for (shards, longest, memory) in [(1, "1M", "16M"), (1, "512M", "5G"), (2, "512M", "10G")] {
        let disk = Arc::new(Held::default());
        let server = serve_longest(Arc::clone(&disk) as Arc<dyn Disk>, shards, longest, memory);
        let server = server.unwrap();
        // No file is made for what nobody writes.
        disk.is_full.store(true, SeqCst);
        let mut client = client(&server);
        ask(&mut client, "APPEND a 12\r\nSETRANGE a 1 3\r\n", ":2\r\n:2\r\n");
        let all = "MULTI\r\nAPPEND a 4\r\nSETRANGE a 3 5\r\nEXEC\r\nGET a\r\n";
        let answers = "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:3\r\n:4\r\n$4\r\n1345\r\n";
        ask(&mut client, all, answers);
        if shards == 1 {
            ask(&mut client, "COPY a b\r\nRENAME b c\r\nGET c\r\n", ":1\r\n+OK\r\n$4\r\n1345\r\n");
        }
    }
}

/// The first byte of a refusal or another answer, of which the rest is read, too.
fn is_refused(client: &mut TcpStream, command: &str, answer: &str) -> bool {
    client.write_all(command.as_bytes()).unwrap();
    let mut first = [0];
    client.read_exact(&mut first).unwrap();
    let is_refused = first == *b"-";
    let rest = if is_refused { &format!("-{}\r\n", crate::room::NO_ROOM) } else { answer };
    ask(client, "", &rest[1..]);
    is_refused
}

#[test]
fn taking_all_away_again_and_again_on_a_full_disk_is_refused_whole_and_ends_no_server() {
    for shards in [1, 2] {
        let disk = Arc::new(Held::default());
        let server = serve(&disk, shards).unwrap();
        let mut client = client(&server);
        disk.is_full.store(true, SeqCst);
        let value = "v".repeat(4000);
        while !is_refused(&mut client, &format!("SET k {value}\r\n"), "+OK\r\n") {}
        // It takes less, and is done where others are refused.
        let mut done = 0;
        while !is_refused(&mut client, "FLUSHALL\r\n", "+OK\r\n") {
            done += 1;
            assert!(done < 100_000, "it is never full");
        }
        assert!(done > 100, "{done}");
        let again = (0..5000).all(|_| is_refused(&mut client, "FLUSHALL\r\n", "+OK\r\n"));
        assert!(again, "it is done where there is no room");
        disk.is_full.store(false, SeqCst);
        ask(&mut client, "MSET a 1 b 2 c 3 d 4\r\nDBSIZE\r\n", "+OK\r\n:4\r\n");
        let after = serve(&Arc::new(disk.after_its_end()), 3 - shards).unwrap();
        ask(&mut self::client(&after), "DBSIZE\r\n", ":4\r\n");
    }
}

/// Names of keys, as the log says them.
#[derive(Default)]
struct Names(std::collections::BTreeSet<Vec<u8>>);

impl super::Loads for Names {
    fn clear(&mut self) {
        self.0.clear();
    }

    fn set(&mut self, key: &[u8], _: &[u8], _: u64) -> bool {
        self.0.insert(key.to_vec());
        true
    }

    fn goes(&mut self, _: &[u8], _: u64) {}

    fn remove(&mut self, key: &[u8]) {
        self.0.remove(key);
    }
}

#[test]
fn what_has_expired_is_gone_in_the_log_too_whatever_the_next_clock_says() {
    let names = |disk: &Held| {
        let kept = Kept::on(Arc::new(disk.after_its_end()), 1).unwrap();
        let mut names = Names::default();
        super::load(&kept, &mut names, |_| true).unwrap();
        names.0.into_iter().map(|name| String::from_utf8(name).unwrap()).collect::<Vec<_>>()
    };
    let until = |what: &dyn Fn() -> bool| {
        let begin = std::time::Instant::now();
        while !what() {
            assert!(begin.elapsed() < Duration::from_secs(60), "it never is");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let disk = Arc::new(Held::default());
    let server = serve(&disk, 1).unwrap();
    let mut client = client(&server);
    ask(&mut client, "SET a 1 PX 20\r\nSET b 2\r\n", "+OK\r\n+OK\r\n");
    // Nobody asks for it, and nobody has anything flushed.
    until(&|| names(&disk) == ["b"]);
    // One that has expired when nobody served is so, too, for who starts after that.
    ask(&mut client, "SET c 3 PX 300\r\n", "+OK\r\n");
    let later = Arc::new(disk.after_its_end());
    assert_eq!(names(&later), ["b", "c"]);
    std::thread::sleep(Duration::from_millis(400));
    let _later = serve(&later, 1).unwrap();
    until(&|| names(&later) == ["b"]);
}

#[test]
fn snapshots_take_the_place_of_logs_while_keys_change_and_any_number_of_shards_reads_them() {
    let disk = Arc::new(Held::default());
    let server = serve(&disk, 2).unwrap();
    let mut client = client(&server);
    let value = "v".repeat(2000);
    for number in 0..150 {
        ask(&mut client, &format!("SET k{number} {value}\r\n"), "+OK\r\n");
        if number % 3 == 0 {
            ask(&mut client, &format!("DEL k{number}\r\n"), ":1\r\n");
        }
        if number % 3 == 1 {
            ask(&mut client, &format!("PEXPIREAT k{number} 99999999999999\r\n"), ":1\r\n");
        }
    }
    ask(
        &mut client,
        "SET gone 1\r\nFLUSHALL\r\nSET a 1\r\nBGSAVE\r\n",
        "+OK\r\n+OK\r\n+OK\r\n+Background saving started\r\n",
    );
    while !disk.names().iter().any(|name| name.starts_with("snapshot-")) {
        ask(&mut client, "INCR a\r\n", ":2\r\n");
        ask(&mut client, "DECR a\r\n", ":1\r\n");
    }
    // The next one comes by itself.
    let first = disk.names();
    while !disk.names().iter().any(|name| name.starts_with("snapshot-") && !first.contains(name)) {
        ask(&mut client, &format!("SET a {value}\r\nSET a 1\r\n"), "+OK\r\n+OK\r\n");
    }
    ask(&mut client, "SET b 2\r\nPEXPIREAT b 99999999999999\r\n", "+OK\r\n:1\r\n");
    for shards in [1, 2] {
        let again = serve(&Arc::new(disk.after_its_end()), shards).unwrap();
        let mut client = self::client(&again);
        ask(&mut client, "DBSIZE\r\n", ":2\r\n");
        ask(&mut client, "GET a\r\nGET b\r\n", "$1\r\n1\r\n$1\r\n2\r\n");
        ask(&mut client, "PEXPIRETIME a\r\nPEXPIRETIME b\r\n", ":-1\r\n:99999999999999\r\n");
        ask(&mut client, "FLUSHALL\r\nSET c 3\r\nDBSIZE\r\n", "+OK\r\n+OK\r\n:1\r\n");
    }
}

#[test]
fn more_than_memory_has_room_for_is_there_again_and_more_is_refused() {
    let disk: Arc<dyn Disk> = Arc::new(Held::default());
    let kept = Kept::on(Arc::clone(&disk), 1).unwrap();
    let mut noted = Noted::default();
    for number in 0..5000 {
        noted.set(format!("k{number}").as_bytes(), &[&[b'v'; 4000]], 0);
        if number % 10 == 9 {
            assert!(kept.has_room(0, noted.bytes.len() as u64));
            kept.append(0, &mut noted.bytes);
            assert!(kept.flush());
        }
    }
    kept.end();
    drop(kept);
    let again = serve_on(disk, 1).unwrap();
    let mut client = client(&again);
    ask(&mut client, "DBSIZE\r\nSTRLEN k4999\r\n", ":5000\r\n:4000\r\n");
    ask(
        &mut client,
        "SET more 1\r\n",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    );
    ask(&mut client, "FLUSHALL\r\nSET more 1\r\n", "+OK\r\n+OK\r\n");
}

#[test]
fn what_is_torn_is_cut_and_what_is_rotten_or_another_s_is_told() {
    let disk = Arc::new(Held::default());
    let server = serve(&disk, 1).unwrap();
    let mut client = client(&server);
    for number in 0..3 {
        ask(&mut client, &format!("SET k{number} value\r\n"), "+OK\r\n");
    }
    let end = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let torn = Arc::new(disk.after_its_end());
    torn.change("log-", |bytes| {
        let end = end(bytes);
        bytes[end - 3..end].fill(0);
    });
    let again = serve(&torn, 1).unwrap();
    ask(&mut self::client(&again), "DBSIZE\r\n", ":2\r\n");
    let refused = |beginning: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let disk = Arc::new(disk.after_its_end());
        disk.change(beginning, change);
        format!("{:#}", serve(&disk, 1).unwrap_err())
    };
    let rotten = refused("log-", &|bytes| {
        let at = bytes.windows(2).position(|two| two == b"k0").unwrap();
        bytes[at] ^= 1;
    });
    assert!(rotten.contains("is not what was written, at byte"), "{rotten}");
    let other = Held::default();
    let disk: Arc<dyn Disk> = Arc::new(other);
    kumiki_journal::Segments::begin(&disk, b"kumiki-kv\x09\0\0\0".to_vec(), 1).unwrap();
    let error = format!("{:#}", Kept::on(Arc::clone(&disk), 1).unwrap_err());
    assert!(error.contains("is of form 9, and 1 is known here"), "{error}");
    let disk: Arc<dyn Disk> = Arc::new(Held::default());
    kumiki_journal::Segments::begin(&disk, b"something else".to_vec(), 1).unwrap();
    let error = format!("{:#}", Kept::on(disk, 1).unwrap_err());
    assert!(error.contains("is no file of kumiki-kv"), "{error}");
}

/// Bytes that a flush under way takes are no room for the next command.
#[test]
fn what_is_being_flushed_counts_until_it_is_known_what_is_left() {
    let disk = Arc::new(Held::default());
    let kept = Arc::new(Kept::on(Arc::clone(&disk) as Arc<dyn Disk>, 2).unwrap());
    disk.is_full.store(true, SeqCst);
    // Until the file that was made ahead is in use, too.
    for bytes in [190_000, 100_000] {
        assert!(kept.has_room(0, bytes));
        kept.append(0, &mut vec![b'r'; bytes as usize]);
        assert!(kept.flush());
    }
    disk.close(true);
    let most = super::held(&kept.pending).fits - super::SLACK;
    assert!(kept.has_room(0, most - 1000));
    kept.append(0, &mut vec![b'r'; most as usize - 1000]);
    let flushes = std::thread::spawn({
        let kept = Arc::clone(&kept);
        move || kept.flush()
    });
    while !super::held(&kept.pending).bytes.is_empty() {
        std::thread::yield_now();
    }
    let (tell, told) = std::sync::mpsc::channel();
    let asks = std::thread::spawn({
        let kept = Arc::clone(&kept);
        move || tell.send(kept.has_room(1, 50_000)).unwrap()
    });
    let early = told.recv_timeout(Duration::from_millis(200));
    assert!(early.is_err(), "{early:?} before the flush has ended");
    disk.close(false);
    assert!(!told.recv_timeout(Duration::from_secs(60)).unwrap(), "there is no room");
    assert!(flushes.join().unwrap());
    asks.join().unwrap();
    assert!(kept.has_room(1, 100), "what is small still fits");
}

/// A snapshot that fails, at its end or while its keys are gathered, is not begun anew with each flush.
#[test]
fn a_snapshot_that_fails_is_not_begun_again_at_once() {
    for before in [0, 400] {
        let disk = Arc::new(Held::default());
        let server = serve(&disk, 1).unwrap();
        let mut client = client(&server);
        let value = "v".repeat(4000);
        let mut set = |numbers: std::ops::Range<usize>| {
            for number in numbers {
                ask(&mut client, &format!("SET k{number} {value}\r\n"), "+OK\r\n");
            }
        };
        set(0..before);
        disk.refuses_snapshots.store(true, SeqCst);
        let (begun, start) = (disk.snapshots.load(SeqCst), std::time::Instant::now());
        while disk.snapshots.load(SeqCst) == begun {
            set(0..1);
            assert!(start.elapsed() < Duration::from_secs(60), "none is begun");
        }
        let start = std::time::Instant::now();
        set(0..300);
        let more = disk.snapshots.load(SeqCst) - begun;
        let most = 1 + start.elapsed().as_secs() / 10;
        assert!(more <= most, "{more} were begun where {most} may be");
        while disk.names().iter().any(|name| name == "unfinished") {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_snapshot_closes_no_file_that_has_the_room_that_was_promised() {
    let disk = Arc::new(Held::default());
    let kept = Kept::on(Arc::clone(&disk) as Arc<dyn Disk>, 2).unwrap();
    // A file of a mebibyte is written to, and the next one has a quarter of that.
    assert!(kept.has_room(0, 1 << 20));
    kept.append(0, &mut vec![1; 300 << 10]);
    assert!(kept.flush());
    let files = |kept: &Kept| super::held(&kept.files).segments.fits_ahead();
    assert!(files(&kept) < 256 << 10, "{}", files(&kept));
    // What a command of one worker was promised has room in the first alone, when another worker has all saved.
    let promised = 600 << 10;
    assert!(kept.has_room(0, promised));
    disk.is_full.store(true, SeqCst);
    assert!(!kept.begin_save(), "the file is closed in which it has room");
    kept.append(0, &mut vec![2; promised as usize]);
    assert!(kept.flush());
    // Where the disk has room, there is a longer one.
    disk.is_full.store(false, SeqCst);
    assert!(kept.has_room(1, promised));
    assert!(kept.begin_save());
    disk.is_full.store(true, SeqCst);
    kept.append(1, &mut vec![3; promised as usize]);
    assert!(kept.flush());
}

/// Workers go on while the server ends: what they do behind the log's end is written nowhere.
#[test]
fn what_comes_behind_the_end_of_the_log_is_never_said_to_be_flushed() {
    let disk = Arc::new(Held::default());
    let kept = Arc::new(Kept::on(Arc::clone(&disk) as Arc<dyn Disk>, 1).unwrap());
    let mut noted = Noted::default();
    noted.set(b"before", &[b"1"], 0);
    kept.append(0, &mut noted.bytes);
    kept.end();
    assert!(kept.flush(), "the end has flushed it");
    noted.set(b"behind", &[b"1"], 0);
    kept.append(0, &mut noted.bytes);
    assert!(!kept.flush() && kept.is_behind());
    assert!(!kept.begin_save(), "nor does a snapshot begin");
    drop(kept);
    let again = serve(&Arc::new(disk.after_its_end()), 1).unwrap();
    ask(&mut client(&again), "DBSIZE\r\nEXISTS behind\r\n", ":1\r\n:0\r\n");
}
