//! `kumiki-kv` with two shards: clients that each know what their keys hold, pipeline, leave, and
//! fill the memory; and the same with `--durable`, whose disk is full at times.

mod disk;
mod resp;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use fastrand::Rng;

use crate::child::Server;
use crate::content::File;
use crate::faults::{self, Calm, Fault};
use crate::ground::Ground;
use crate::soak::Soak;
use resp::{Connection, PATIENCE, Value, words};

const CLIENTS: u64 = 8;
/// Keys of a client.
const KEYS: u32 = 40;
/// Bytes of a value, at most.
const MOST: usize = 20_000;
/// Descriptors that the server may have, so that they can be used up.
const DESCRIPTORS: usize = 200;

/// One client is alone.
static QUIET: AtomicBool = AtomicBool::new(false);

pub(crate) fn serve(words: &[String]) -> Result<()> {
    kumiki_kv::server::run(&kumiki_kv::args::Args::parse_from(words))
}

/// `kept`: where it is to keep its keys.
pub(crate) fn soak(soak: &'static Soak, kept: Option<&Ground>) -> Result<()> {
    let cpus = rustix::thread::sched_getaffinity(None).context("its cpus")?;
    let cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| cpus.is_set(*cpu)).take(2);
    let cpus = cpus.map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(",");
    let mut words = vec!["kv", "--port", "0", "--cpu-list", &cpus, "--memory", "32M"];
    let folder = kept.map(disk::made).transpose()?;
    if let Some(folder) = &folder {
        words.extend(["--durable", folder.to_str().context("a folder's name is UTF-8")?]);
    }
    // Only a disk of its own is filled.
    let full = folder.as_deref().filter(|_| kept.is_some_and(Ground::has_memory));
    let (server, address) = Server::at_address(&words, DESCRIPTORS, "serving ")?;
    soak.watch_process(server.pid());
    std::thread::scope(|threads| {
        let server = &server;
        for number in 0..CLIENTS {
            threads.spawn(move || {
                let mut client = KvClient::new(soak, address, number);
                while !soak.is_over() {
                    if let Err(error) = client.act() {
                        soak.fail(&format!("client {number}: {error:#}"));
                    }
                }
            });
        }
        threads.spawn(move || {
            if let Some(folder) = full {
                // Once in each run, whatever is drawn.
                let made = (disk::full(soak, folder, address).make)(&mut soak.rng(1 << 34));
                made.unwrap_or_else(|error| soak.fail(&format!("a full disk: {error:#}")));
            }
            let mut all = vec![
                faults::stopped(server),
                faults::descriptors_out(soak, address, DESCRIPTORS),
                memory_full(soak, address),
            ];
            all.extend(full.map(|folder| disk::full(soak, folder, address)));
            faults::draw_with_rests(soak, &Calm::default(), all, Duration::from_millis(400));
        });
        threads.spawn(move || server.look_until_over(soak));
        soak.guard();
    });
    let refused = full.map(|_| disk::REFUSED);
    server.finish(soak, &[&["answers", "pipelines", "cut"], refused.as_slice()].concat())
}

/// Fills the memory by keys of nobody, and frees it again.
fn memory_full<'a>(soak: &'a Soak, address: SocketAddr) -> Fault<'a> {
    const FILLS: usize = 1000;
    let key = |key: usize| format!("fill:{key}").into_bytes();
    let pass = move |command: &dyn Fn(usize) -> Vec<u8>, stops_at_error: bool| -> Result<()> {
        let mut connection = Connection::new(address)?;
        for number in 0..FILLS {
            // Beyond the time of a request, too: who fills is not who asks.
            soak.excuse(Duration::from_secs(1));
            let is_full = matches!(connection.ask(&command(number))?, Value::Error(_));
            // At the end nobody needs the keys any more: the server goes.
            if is_full && stops_at_error || soak.is_over() {
                break;
            }
            // A full disk: the keys are there.
            ensure!(!is_full, "a deletion was refused");
        }
        Ok(())
    };
    Fault::new("memory full", move |_| {
        let value = vec![b'x'; 60_000];
        let _ = pass(&|number| words(&[b"SET", &key(number), &value]), true);
        // However many descriptors there are just now.
        while pass(&|number| words(&[b"DEL", &key(number)]), false).is_err() && !soak.is_over() {
            soak.excuse(Duration::from_secs(1));
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    })
}

/// A command, and how its answer is judged.
struct Command {
    words: Vec<u8>,
    what: What,
}

enum What {
    Set(u32, Vec<u8>),
    Get(u32),
    Delete(u32),
    Exists(u32),
    Count(i64),
    Many(Vec<u32>),
    Ping,
}

struct KvClient {
    soak: &'static Soak,
    address: SocketAddr,
    number: u64,
    rng: Rng,
    kept: Option<Connection>,
    /// The keys that a cut connection has left in doubt are used no more: a new name for all.
    life: u32,
    holds: HashMap<u32, Vec<u8>>,
    counted: i64,
}

impl KvClient {
    fn new(soak: &'static Soak, address: SocketAddr, number: u64) -> KvClient {
        let (rng, holds) = (soak.rng(number), HashMap::new());
        KvClient { soak, address, number, rng, kept: None, life: 0, holds, counted: 0 }
    }

    fn key(&self, key: u32) -> Vec<u8> {
        self.key_of(self.life, key)
    }

    fn key_of(&self, life: u32, key: u32) -> Vec<u8> {
        format!("{}:{}:{key}", self.number, life).into_bytes()
    }

    fn act(&mut self) -> Result<()> {
        if self.number > 0 && QUIET.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
            return Ok(());
        }
        match self.rng.u32(..100) {
            0 if self.number == 0 => self.alone(),
            0..3 => self.cut(),
            3..6 => self.half(),
            _ => {
                let many = if self.rng.bool() { 1 } else { self.rng.usize(2..40) };
                self.ask(many)
            }
        }
    }

    /// Asks while no other client does: a shard that was not woken is woken by nobody else then.
    fn alone(&mut self) -> Result<()> {
        QUIET.store(true, Relaxed);
        for _ in 0..2000 {
            self.ask(1)?;
            std::thread::sleep(Duration::from_micros(self.rng.u64(..60)));
            if self.soak.is_over() {
                break;
            }
        }
        QUIET.store(false, Relaxed);
        self.soak.count("alone");
        Ok(())
    }

    /// Begins anew, where nobody knows what has been done.
    fn forget(&mut self) -> Result<()> {
        self.kept = None;
        // What is left of it is freed, as soon as the server takes that; and of the one before: what was sent by a
        // connection that was cut may have run after its keys were deleted.
        let lives = self.life.saturating_sub(1)..=self.life;
        let old = lives.flat_map(|life| (0..=KEYS).map(move |key| (life, key)));
        let old: Vec<_> = old.map(|(life, key)| self.key_of(life, key)).collect();
        let mut delete: Vec<&[u8]> = vec![b"DEL"];
        delete.extend(old.iter().map(|key| &**key));
        let delete = words(&delete);
        let begun = Instant::now();
        for number in 1.. {
            let what = format!("a deletion of what client {} has, try {number}", self.number);
            let waits = self.soak.request(what);
            let deleted = Connection::new(self.address).and_then(|mut it| it.ask(&delete));
            drop(waits);
            match deleted {
                Ok(Value::Number(0..)) => break,
                Ok(other) if self.is_refused(&other) => self.soak.count("refused"),
                Ok(other) => bail!("{other:?} to a deletion"),
                Err(_) if self.soak.is_excused() && begun.elapsed() < PATIENCE => {
                    self.soak.count("refused");
                }
                Err(error) => return Err(error).context("a deletion of all keys"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.life += 1;
        self.holds.clear();
        self.counted = 0;
        Ok(())
    }

    fn command(&mut self) -> Command {
        let key = self.rng.u32(..KEYS);
        let name = self.key(key);
        let (words, what) = match self.rng.u32(..12) {
            0..4 => {
                let file = File { number: key, most: MOST };
                let value = file.whole(self.rng.u32(..));
                (words(&[b"SET", &name, &value]), What::Set(key, value))
            }
            4..7 => (words(&[b"GET", &name]), What::Get(key)),
            7 => (words(&[b"DEL", &name]), What::Delete(key)),
            8 => (words(&[b"EXISTS", &name]), What::Exists(key)),
            9 => {
                let by = self.rng.i64(-5..50);
                (words(&[b"INCRBY", &self.key(KEYS), by.to_string().as_bytes()]), What::Count(by))
            }
            10 => {
                let keys: Vec<u32> =
                    (0..self.rng.usize(1..6)).map(|_| self.rng.u32(..KEYS)).collect();
                let names: Vec<_> = keys.iter().map(|key| self.key(*key)).collect();
                let mut all: Vec<&[u8]> = vec![b"MGET"];
                all.extend(names.iter().map(|name| &**name));
                (words(&all), What::Many(keys))
            }
            _ => (words(&[b"PING"]), What::Ping),
        };
        Command { words, what }
    }

    /// Sends so many at once, and looks at each answer.
    fn ask(&mut self, many: usize) -> Result<()> {
        let commands: Vec<_> = (0..many).map(|_| self.command()).collect();
        let bytes: Vec<u8> = commands.iter().flat_map(|command| command.words.clone()).collect();
        let mut connection = match self.kept.take() {
            Some(kept) => kept,
            None => Connection::new(self.address)?,
        };
        let waits = self.soak.request(format!("{many} commands of client {}", self.number));
        let mut asked = connection.send(&bytes);
        for command in commands {
            match asked.and_then(|()| connection.answer()) {
                Ok(answer) => self.judge(command.what, answer)?,
                Err(_) if self.soak.is_excused() => {
                    self.soak.count("refused");
                    drop(waits);
                    return self.forget();
                }
                Err(error) => return Err(error).context("in the midst of answers"),
            }
            asked = Ok(());
        }
        drop(waits);
        self.soak.count(if many > 1 { "pipelines" } else { "commands" });
        self.kept = Some(connection);
        Ok(())
    }

    fn judge(&mut self, what: What, answer: Value) -> Result<()> {
        self.soak.count("answers");
        if self.is_refused(&answer) {
            self.soak.count("refused");
            return Ok(());
        }
        let holds = |key: &u32| Value::Bytes(self.holds.get(key).cloned());
        let expected = match &what {
            What::Set(key, value) => {
                self.holds.insert(*key, value.clone());
                Value::Text("OK".to_owned())
            }
            What::Get(key) => holds(key),
            What::Many(keys) => Value::List(keys.iter().map(holds).collect()),
            What::Delete(key) => Value::Number(self.holds.remove(key).is_some().into()),
            What::Exists(key) => Value::Number(self.holds.contains_key(key).into()),
            What::Count(by) => {
                self.counted += by;
                Value::Number(self.counted)
            }
            What::Ping => Value::Text("PONG".to_owned()),
        };
        let short = |value: &Value| format!("{value:?}").chars().take(200).collect::<String>();
        ensure!(answer == expected, "{} in place of {}", short(&answer), short(&expected));
        Ok(())
    }

    /// True if this is of a full memory or disk: nothing has changed.
    fn is_refused(&self, answer: &Value) -> bool {
        let is_full = |text: &str| text.starts_with("OOM") || text.starts_with(disk::FULL);
        matches!(answer, Value::Error(text) if is_full(text)) && self.soak.is_excused()
    }

    /// Leaves before the answers have come.
    fn cut(&mut self) -> Result<()> {
        let bytes: Vec<u8> = (0..20).flat_map(|_| self.command().words).collect();
        if let Ok(mut connection) = Connection::new(self.address) {
            let _ = connection.send(&bytes[..self.rng.usize(..bytes.len())]);
        }
        self.soak.count("cut");
        self.forget()
    }

    /// Sends a command in two pieces.
    fn half(&mut self) -> Result<()> {
        let Ok(mut connection) = Connection::new(self.address) else { return Ok(()) };
        let _waits = self.soak.request("a command in two pieces");
        let command = words(&[b"ECHO", b"in two pieces"]);
        let (first, second) = command.split_at(self.rng.usize(1..command.len()));
        let mut asked = connection.send(first);
        std::thread::sleep(Duration::from_millis(self.rng.u64(..10)));
        asked = asked.and_then(|()| connection.send(second));
        match asked.and_then(|()| connection.answer()) {
            Ok(answer) => {
                let whole = Value::Bytes(Some(b"in two pieces".to_vec()));
                ensure!(answer == whole, "{answer:?} to a command in two pieces");
                self.soak.count("in two pieces");
            }
            Err(_) if self.soak.is_excused() => self.soak.count("refused"),
            Err(error) => return Err(error).context("a command in two pieces"),
        }
        Ok(())
    }
}
