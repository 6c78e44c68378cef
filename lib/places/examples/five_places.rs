//! One program whose resources are here, at another core, in another process, in an OS node or on another machine: its
//! calls are the same, and so are the lines that it prints.
//!
//! ```text
//! cargo run --package kumiki-places --example five_places -- --at home
//! cargo run … -- --at core
//! cargo run … -- --at process
//! cargo run … -- --at node --place n1.core0           # a node with `kumiki place serve`, attached here
//! cargo run … -- --at machine --nats nats://127.0.0.1
//! ```
//!
//! For `process` and `machine` it runs itself once more as the one that serves; in a node, and on a machine that you
//! name by `--place`, `five_places --serve HOST` or `--serve HOST --nats URL` is that.

use std::error::Error as AnyError;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use kumiki_places::standard::{Add, Counter, Get, Read as ReadMemory, Stretch, Write, Written};
use kumiki_places::wire::Why;
use kumiki_places::{
    Allow, Block, Control, Error, Lease, Nats, News, Part, Parts, Result, Run, Server, Work,
};
use kumiki_resource::{Interface, Memory, Name};

/// Gives back what it takes.
#[derive(Debug)]
pub(crate) struct Echo;

impl Part for Echo {
    type Kind = Counter;
    const NAME: &'static str = "echo";
    type In = Vec<u8>;
    type Out = Vec<u8>;
}

impl Run for Echo {
    fn run(_: &mut Counter, (): &mut (), bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }
}

/// Gives a counter's value after so many milliseconds, and holds up nobody.
#[derive(Debug)]
pub(crate) struct Later;

impl Part for Later {
    type Kind = Counter;
    const NAME: &'static str = "later";
    type In = u64;
    type Out = i64;
}

impl Block for Later {
    fn begin(counter: &mut Counter, (): &mut (), ms: u64) -> Work<i64> {
        let value = counter.0;
        Box::new(move || {
            thread::sleep(Duration::from_millis(ms));
            value
        })
    }
}

/// Panics.
#[derive(Debug)]
pub(crate) struct Fails;

impl Part for Fails {
    type Kind = Counter;
    const NAME: &'static str = "fails";
    type In = ();
    type Out = ();
}

impl Run for Fails {
    fn run(_: &mut Counter, (): &mut (), (): ()) {
        // Its text is told to the caller; the hook's words are not for this program.
        std::panic::resume_unwind(Box::new("as it was asked to"));
    }
}

/// A part that no place has.
#[derive(Debug)]
pub(crate) struct Missing;

impl Part for Missing {
    type Kind = Counter;
    const NAME: &'static str = "missing";
    type In = ();
    type Out = ();
}

/// What a place has for this program.
pub(crate) fn parts() -> Parts {
    kumiki_places::standard::parts().part::<Echo>().part::<Fails>().blocking::<Later>()
}

/// The program: it knows a place by its name, and nothing else of it.
pub(crate) fn program(control: &Control, place: &str) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut say = |line: String| lines.push(line);
    let hits = control.create::<Counter>(place, Some("hits"), 40)?;
    say(format!("made with 40, 2 more: {}", control.call::<Add>(&hits, 2)?));

    let name: Name = format!("{place}/counter/hits").parse().map_err(Error::Resource)?;
    let mut add = control.bind_name::<Add>(&name)?;
    let mut last = 0;
    for _ in 0..1000 {
        last = add.call(1)?;
    }
    say(format!("1000 times 1 more: {last}"));

    let opened = control.open::<Counter>(&name)?;
    say(format!("opened by its name: {}", control.call::<Get>(&opened, ())?));
    say(format!("destroyed by who may not: {}", shown(control.destroy(opened))));
    say(format!("made once more: {}", shown(control.create::<Counter>(place, Some("hits"), 0))));
    say(format!("a part that nobody has: {}", shown(control.call::<Missing>(&hits, ()))));
    say(format!("a part that panics: {}", shown(control.call::<Fails>(&hits, ()))));
    say(format!("a part that blocks: {}", control.call::<Later>(&hits, 5)?));
    let (slow, quick) = (control.start::<Later>(&hits, 20), control.start::<Add>(&hits, 0));
    say(format!("two that were started: {}, {}", quick.wait()?, slow.wait()?));

    let bytes: Vec<u8> = (0..40_000_u32).map(|n| n as u8).collect();
    let back = control.call::<Echo>(&hits, bytes.clone())?;
    say(format!("{} bytes there and back are the same: {}", back.len(), back == bytes));

    let many = (0..100).map(|n| control.create::<Counter>(place, None, n));
    let many: Vec<_> = many.collect::<Result<_>>()?;
    let sums = control.each::<Add>(many.iter().zip(0..));
    let sums: i64 = sums.into_iter().sum::<Result<i64>>()?;
    say(format!("100 counters together: {sums}"));
    for one in many {
        control.destroy(one)?;
    }

    let first = control.create::<Counter>(place, None, 1)?;
    let second = control.create::<Counter>(place, None, 100)?;
    let chain = control.chain::<Add>(&first).then::<Add>(&second).then::<Add>(&hits);
    say(format!("a chain of three: {}", chain.call(1)?));
    control.destroy(second)?;
    say(format!("a chain whose second one is destroyed: {}", shown(chain.call(1))));
    control.destroy(first)?;

    let memory = control.create::<Memory>(place, Some("page"), 1)?;
    let written = Written { frame: 0, at: 0, bytes: vec![7; 4096].into() };
    let refused = |text| Error::Value { what: "a memory".to_owned(), why: text };
    control.call::<Write>(&memory, written)?.map_err(refused)?;
    let stretch = Stretch { frame: 0, at: 0, bytes: 4096 };
    let read = control.call::<ReadMemory>(&memory, stretch)?.map_err(refused)?;
    say(format!("a frame written and read: {}", read.iter().all(|byte| *byte == 7)));

    let mut news = control.watch(place, &format!("{place}/counter/*"))?;
    let seen = control.create::<Counter>(place, Some("seen"), 0)?;
    control.destroy(seen)?;
    let heard: Vec<_> = (0..3).map(|_| heard(news.wait())).collect();
    say(format!("watched: {}", heard.join(", ")));

    let listed = control.list(place, "**/*/*")?;
    let own = |name: &str| name.split_once('/').map(|(_, own)| own.to_owned());
    let names = listed.iter().filter(|one| one.named).filter_map(|one| own(&one.name));
    let mut names: Vec<_> = names.filter(|name| !name.starts_with("lease/")).collect();
    names.sort();
    say(format!("names: {}", names.join(", ")));

    control.destroy(memory)?;
    let other = hits.share(hits.rights())?;
    control.destroy(hits)?;
    say(format!("called when it is destroyed: {}", shown(control.call::<Add>(&other, 1))));
    say(format!("a call by a binding then: {}", shown(add.call(1))));
    say(format!("opened then: {}", shown(control.open::<Counter>(&name))));
    Ok(lines)
}

/// News in a word or two, without the place's name.
fn heard(news: News) -> String {
    match news {
        News::Here { .. } => "it is here".to_owned(),
        News::Changed(change) => {
            let sign = if change.created { '+' } else { '-' };
            let own = change.name.split_once('/').map_or("", |(_, own)| own);
            format!("{sign} {own}")
        }
        other => format!("{other:?}"),
    }
}

/// An outcome that is an error, in a word or two.
fn shown<T>(outcome: Result<T>) -> String {
    match outcome {
        Ok(_) => "done".to_owned(),
        Err(Error::Step(step)) => {
            let (number, run) = (step.number(), step.has_run());
            format!("step {number}: {}, and {run} has run", shown::<()>(Err(step.into_error())))
        }
        Err(Error::Refused { why, .. }) => match why {
            Why::Taken => "the name is taken".to_owned(),
            Why::NoPart => "there is none".to_owned(),
            Why::Panicked => "it has panicked".to_owned(),
            Why::Stale => "it is stale".to_owned(),
            Why::NotFound => "it is not found".to_owned(),
            other => format!("{other:?}"),
        },
        Err(Error::Rights { needs, .. }) => format!("the reference lacks {needs}"),
        Err(other) => other.to_string(),
    }
}

/// An interface of one place: the calling thread's own, or another one's.
pub(crate) fn interface(own: bool) -> Result<Interface> {
    let allowed = kumiki_sys::affinity::current().map_err(kumiki_resource::Error::from)?;
    // The last one: the first has the rest of the machine's work.
    let cpu = allowed.iter().last().unwrap_or(0);
    let builder = Interface::builder().kind::<Counter>().kind::<Memory>().kind::<Lease>();
    let builder = match own {
        true => builder.cores([]).adopted([cpu]),
        false => builder.cores([cpu]),
    };
    Ok(builder.per_core()?)
}

/// Serves a place until there is nothing more to read: behind a NATS server if one is named.
pub(crate) fn serve(host: &str, nats: Option<&str>) -> Result<()> {
    let interface = interface(true)?;
    let server = match nats {
        Some(url) => Server::new(Nats::at(url), host),
        None => Server::here(host),
    };
    let served = server.parts(parts()).allow(Allow::everything()).managing().serve(&interface)?;
    println!("serves {}", served.names().join(" "));
    let _ = std::io::stdin().read(&mut [0]);
    Ok(())
}

/// This program as the one that serves; it ends with the value.
struct Other {
    child: Child,
    place: String,
}

impl Other {
    fn start(host: &str, nats: Option<&str>) -> Result<Other, Box<dyn AnyError>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--serve", host]);
        command.args(nats.into_iter().flat_map(|url| ["--nats", url]));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut said = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut said)?;
        }
        let place = said.trim().strip_prefix("serves ").unwrap_or_default().to_owned();
        Ok(Other { child, place })
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the program with its resources there, and gives its lines.
fn at(
    at: &str,
    place: Option<String>,
    nats: Option<&str>,
) -> Result<Vec<String>, Box<dyn AnyError>> {
    let host = format!("five{}", std::process::id());
    let mut builder = Control::builder();
    if let Some(url) = nats {
        builder = builder.nats(Nats::at(url));
    }
    match (at, place) {
        ("home" | "core", None) => {
            let interface = interface(at == "home")?;
            let core = interface.places()[0];
            let _manager = (at == "home").then(|| interface.manage(core)).transpose()?;
            let control = builder.home(&interface, parts()).build()?;
            Ok(program(&control, &interface.place_name(core)?)?)
        }
        ("process", None) => {
            let other = Other::start(&host, None)?;
            Ok(program(&builder.build()?, &other.place)?)
        }
        ("machine", None) => {
            let other = Other::start(&host, Some(nats.ok_or("--at machine needs --nats URL")?))?;
            Ok(program(&builder.build()?, &other.place)?)
        }
        ("process" | "node" | "machine", Some(place)) => Ok(program(&builder.build()?, &place)?),
        ("node", None) => Err("--at node needs --place: the place that is attached here".into()),
        _ => Err(format!("--at {at}: it is home, core, process, node or machine").into()),
    }
}

#[allow(dead_code, reason = "a test includes this file for its program")]
fn main() -> Result<(), Box<dyn AnyError>> {
    let (mut where_, mut place, mut nats, mut host) = (None, None, None, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let slot = match word.as_str() {
            "--at" => &mut where_,
            "--place" => &mut place,
            "--nats" => &mut nats,
            "--serve" => &mut host,
            other => {
                return Err(format!("{other:?}: --at PLACEMENT [--place NAME] [--nats URL]").into());
            }
        };
        *slot = Some(words.next().ok_or_else(|| format!("{word} takes a word"))?);
    }
    if let Some(host) = host {
        return Ok(serve(&host, nats.as_deref())?);
    }
    let where_ = where_.ok_or("--at home|core|process|node|machine")?;
    for line in at(&where_, place, nats.as_deref())? {
        println!("{line}");
    }
    Ok(())
}
