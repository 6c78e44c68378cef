//! Words of its command line: those of `kumiki`, as far as a node has them.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use lexopt::prelude::{Long, Value, ValueExt};
use lexopt::{Arg, Parser};

use super::Role;

/// Order of a command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Version,
    Agent { window: u64, role: Role },
    Take { target: OsString, name: OsString, mode: u32, bytes: u64, time: Option<String> },
    Give { source: OsString },
    TakeFolder { target: OsString, name: OsString },
    GiveFolder { source: OsString },
    Listen { port: u32, echo: bool },
    Connect { cid: u32, port: u32 },
    Relay { name: String },
    Attach { name: String },
    Ls { json: bool },
    Start(Start),
}

/// Start of another node from here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) name: String,
    pub(crate) from: Option<String>,
    pub(crate) bzimage: bool,
    pub(crate) limit: Duration,
    pub(crate) json: bool,
    /// Also one that runs.
    pub(crate) again: bool,
}

const START_LIMIT: Duration = Duration::from_secs(60);

/// Reads them.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Order> {
    let mut said = words.iter().map(|word| word.to_string_lossy());
    let (first, second) = (said.next().unwrap_or_default(), said.next().unwrap_or_default());
    let third = said.next().unwrap_or_default();
    let rest = |from: usize| Words(Parser::from_args(words[from..].iter().cloned()));
    match (&*first, &*second, &*third) {
        ("--version", "", _) => Ok(Order::Version),
        ("node", "agent", _) => agent(rest(2)),
        ("node", "file", what) => file(what, &words[3.min(words.len())..]),
        ("node", "vsock", "listen") => listen(rest(3)),
        ("node", "vsock", "connect") => {
            let [cid, port] = rest(3).all("CID PORT")?;
            Ok(Order::Connect { cid: cid.parse()?, port: port.parse()? })
        }
        ("node", "ls", _) => ls(rest(2)),
        ("node", "start" | "restart", _) => start(rest(2), second == "restart"),
        ("place", "relay", _) => {
            let [name] = rest(2).all("NAME")?;
            Ok(Order::Relay { name: name.string()? })
        }
        ("place", "attach", _) => attach(rest(2)),
        _ => bail!(
            "{first} {second}: a node's own kumiki has node ls, start, restart and vsock, and what its \
             host asks of it; where an image is made, kumiki image add --program brings the whole \
             command"
        ),
    }
}

/// Words after those that say what is to be done.
struct Words(Parser);

impl Words {
    fn next(&mut self) -> Result<Option<Arg<'_>>> {
        Ok(self.0.next()?)
    }

    /// Takes so many values and nothing else.
    fn all<const N: usize>(mut self, what: &str) -> Result<[OsString; N]> {
        let mut all = Vec::new();
        while let Some(word) = self.next()? {
            match word {
                Value(value) => all.push(value),
                other => return Err(other.unexpected().into()),
            }
        }
        all.try_into().map_err(|_| anyhow!("{what} is expected"))
    }
}

fn agent(mut words: Words) -> Result<Order> {
    let (mut window, mut role) = (None, Role::Agent);
    // The kernel adds words of its command line that it does not know.
    loop {
        // One of those with a value is an error first.
        let Ok(word) = words.next() else { continue };
        let Some(word) = word else { break };
        match word {
            Long("window") => window = Some(address(&words.0.value()?.string()?)?),
            Long("keeps") => role = Role::Keeper,
            Long("watches") => role = Role::Watcher,
            Long("watchman") => role = Role::Watchman,
            Long("releases") => role = Role::Releases(address(&words.0.value()?.string()?)?),
            _ => {}
        }
    }
    Ok(Order::Agent { window: window.context("--window ADDRESS is expected")?, role })
}

fn address(text: &str) -> Result<u64> {
    let digits = text.strip_prefix("0x").context("an address is expected, such as 0x40000000")?;
    Ok(u64::from_str_radix(digits, 16)?)
}

/// Names of files may be anything.
fn file(what: &str, words: &[OsString]) -> Result<Order> {
    let text = |word: &OsString| word.clone().string();
    match (what, words) {
        ("take", [target, name, mode, bytes, time @ ..]) => Ok(Order::Take {
            target: target.clone(),
            name: name.clone(),
            mode: u32::from_str_radix(&text(mode)?, 8)?,
            bytes: bytes.parse()?,
            time: time.first().map(text).transpose()?,
        }),
        ("give", [source]) => Ok(Order::Give { source: source.clone() }),
        ("take-folder", [target, name]) => {
            Ok(Order::TakeFolder { target: target.clone(), name: name.clone() })
        }
        ("give-folder", [source]) => Ok(Order::GiveFolder { source: source.clone() }),
        _ => bail!("node file {what}: kumiki node cp on the host starts it"),
    }
}

fn listen(mut words: Words) -> Result<Order> {
    let (mut port, mut echo) = (None, false);
    while let Some(word) = words.next()? {
        match word {
            Value(value) if port.is_none() => port = Some(value.parse()?),
            Long("echo") => echo = true,
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Order::Listen { port: port.context("PORT is expected")?, echo })
}

fn ls(mut words: Words) -> Result<Order> {
    let mut json = false;
    while let Some(word) = words.next()? {
        match word {
            Long("json") => json = true,
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Order::Ls { json })
}

fn start(mut words: Words, again: bool) -> Result<Order> {
    let (mut name, mut from, mut bzimage, mut json) = (None, None, false, false);
    let mut limit = START_LIMIT;
    while let Some(word) = words.next()? {
        match word {
            Value(value) if name.is_none() => name = Some(value.string()?),
            Long("from") => from = Some(words.0.value()?.string()?),
            Long("bzimage") => bzimage = true,
            Long("json") if !again => json = true,
            Long("timeout") => limit = Duration::from_secs(words.0.value()?.parse()?),
            Value(_) | Long("kernel" | "no-wait") => bail!(
                "a node starts one other node, from the image or the snapshot that it was lent with, \
                 and waits for it: no --kernel, no --no-wait"
            ),
            other => return Err(other.unexpected().into()),
        }
    }
    let name = name.context("the name of a node is expected")?;
    Ok(Order::Start(Start { name, from, bzimage, limit, json, again }))
}

fn attach(mut words: Words) -> Result<Order> {
    let (mut name, mut by_stdio) = (None, false);
    while let Some(word) = words.next()? {
        match word {
            Value(value) if name.is_none() => name = Some(value.string()?),
            Long("stdio") => by_stdio = true,
            other => return Err(other.unexpected().into()),
        }
    }
    match name {
        Some(name) if by_stdio => Ok(Order::Attach { name }),
        _ => bail!("in a node it is kumiki place attach NAME --stdio, which its host starts"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Order> {
        parse(line.split(' ').map(OsString::from).collect())
    }

    #[test]
    fn the_kernel_s_own_words_are_passed_over() {
        let order = |role| Order::Agent { window: 0x4fe0_0000, role };
        let line = "node agent --window 0x4fe00000 nokaslr quiet=1 --odd=2 -x last";
        assert_eq!(of(line).unwrap(), order(Role::Agent));
        for (word, role) in [
            ("--keeps", Role::Keeper),
            ("--watches", Role::Watcher),
            ("--watchman", Role::Watchman),
        ] {
            assert_eq!(of(&format!("node agent --window=0x4fe00000 {word}")).unwrap(), order(role));
        }
        assert!(of("node agent").unwrap_err().to_string().contains("--window"));
        assert!(
            of("node agent --window=7").unwrap_err().to_string().contains("such as 0x40000000")
        );
    }

    #[test]
    fn words_of_the_command_mean_what_they_mean_there() {
        let start = Start {
            name: "n2".into(),
            from: Some("warm".into()),
            bzimage: false,
            limit: Duration::from_secs(120),
            json: true,
            again: false,
        };
        let line = "node start n2 --timeout 120 --json --from warm";
        assert_eq!(of(line).unwrap(), Order::Start(start));
        let again = of("node restart n2 --bzimage").unwrap();
        assert!(matches!(again, Order::Start(Start { again: true, bzimage: true, .. })));
        assert_eq!(of("node ls --json").unwrap(), Order::Ls { json: true });
        let take = of("node file take /root/ -a 644 12").unwrap();
        assert!(matches!(take, Order::Take { mode: 0o644, bytes: 12, time: None, .. }));
        let folder = of("node file give-folder --odd").unwrap();
        assert_eq!(folder, Order::GiveFolder { source: "--odd".into() });
        assert_eq!(
            of("node vsock listen 5000 --echo").unwrap(),
            Order::Listen { port: 5000, echo: true }
        );
        assert_eq!(of("node vsock connect 2 5001").unwrap(), Order::Connect { cid: 2, port: 5001 });
        assert_eq!(of("place attach web --stdio").unwrap(), Order::Attach { name: "web".into() });
    }

    #[test]
    fn what_a_node_does_not_have_is_told_with_the_way_to_have_it() {
        let said = of("resource ls").unwrap_err().to_string();
        assert!(said.contains("image add --program"), "{said}");
        let said = of("node start n1 n2").unwrap_err().to_string();
        assert!(said.contains("one other node"), "{said}");
        assert!(of("node file take x").unwrap_err().to_string().contains("kumiki node cp"));
        assert!(of("node start").unwrap_err().to_string().contains("name of a node"));
        assert!(of("node start n2 --froom x").unwrap_err().to_string().contains("--froom"));
    }
}
