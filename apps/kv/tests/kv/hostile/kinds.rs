//! What they do. Each gives back its connections, which stay open until all kinds of a round are done.

use std::net::SocketAddr;

use fastrand::Rng;

use super::scene::{Client, command};

type Kind = fn(SocketAddr, &mut Rng) -> Vec<Client>;

pub(super) const KINDS: &[(&str, Kind)] = &[
    ("half commands", half_commands),
    ("commands of nothing", words_of_nothing),
    ("MGET bombs", mget_bombs),
    ("readers that do not read", deaf),
    ("answers that nobody reads", unread),
    ("pipelines without pause", pipelines),
    ("idle ones", idle),
    ("EXPIRE of all keys", expire_all),
    ("WATCH of many keys", watch_many),
    ("MULTI without EXEC", multi_without_exec),
    ("SETRANGE far out", setrange),
    ("APPEND loops", append),
    ("values of 2,100 and 3,000 bytes", awkward_values),
    ("the smallest keys", smallest_keys),
    ("the longest keys", longest_keys),
    ("AUTH floods", auth_floods),
    ("names and lists", names_and_lists),
    ("walks over all keys", walks),
    ("MSET of thousands", mset),
    ("keys that come and go", come_and_go),
    ("room that has to be made", room_to_make),
];

fn some(at: SocketAddr, count: usize) -> Vec<Client> {
    (0..count).map(|_| Client::open(at)).collect()
}

/// Fewer than a soft limit of 1,024 descriptors has room for, of all kinds of a round.
const MANY: usize = 150;

fn half_commands(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, MANY);
    for client in &mut clients {
        let bytes = match rng.u8(..6) {
            0 => [b"*2\r\n$3\r\nGET\r\n$1000000\r\n".to_vec(), vec![b'a'; rng.usize(..900_000)]]
                .concat(),
            1 => [b"*2\r\n$3\r\nGET\r\n$40000\r\n".to_vec(), vec![b'a'; 31_000]].concat(),
            2 => vec![b'i'; rng.usize(..65_000)],
            3 => [b"*65000\r\n".to_vec(), b"$0\r\n\r\n".repeat(rng.usize(..64_000))].concat(),
            4 => [b"*65000\r\n".to_vec(), b"$10\r\n0123456789\r\n".repeat(rng.usize(..64_000))]
                .concat(),
            _ => [
                b"*3\r\n$3\r\nSET\r\n$900000\r\n".to_vec(),
                vec![b'k'; 900_000],
                b"\r\n$9".to_vec(),
            ]
            .concat(),
        };
        client.send(&bytes);
    }
    clients
}

fn words_of_nothing(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, MANY);
    for client in &mut clients {
        let name = ["DEL", "MGET", "EXISTS", "NOSUCH", "WATCH", "MSET"][rng.usize(..6)];
        let head = format!("*65536\r\n${}\r\n{name}\r\n", name.len()).into_bytes();
        client.pour(&[head, b"$0\r\n\r\n".repeat(65_535)].concat());
    }
    clients
}

fn mget_bombs(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 12);
    let value = vec![b'v'; 1 << 20];
    clients[0].pour(&command(&[b"SET", b"bomb", &value]));
    for client in &mut clients {
        let count = rng.usize(100..20_000);
        let mut words: Vec<&[u8]> = vec![b"MGET"];
        words.resize(count, b"bomb");
        client.send(&command(&words));
    }
    clients
}

fn deaf(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 30);
    let value = vec![b'v'; 900_000];
    clients[0].pour(&command(&[b"SET", b"large", &value]));
    for client in &mut clients {
        client.send(&command(&[b"GET", b"large"]).repeat(rng.usize(10..2000)));
    }
    clients
}

fn unread(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 30);
    for client in &mut clients {
        let all = [
            "INFO",
            "COMMAND",
            "COMMAND DOCS",
            "CLIENT LIST",
            "CONFIG GET *",
            "KEYS *",
            "NOSUCH",
            "HELLO 3",
        ];
        let line = format!("{}\r\n", all[rng.usize(..all.len())]);
        client.send(line.repeat(5000).as_bytes());
    }
    clients
}

fn pipelines(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 3);
    for client in &mut clients {
        let mut bytes = Vec::new();
        for _ in 0..4000 {
            let key = rng.u32(..20_000).to_string();
            let value = vec![b'p'; rng.usize(..6000)];
            bytes.extend(command(&[b"SET", key.as_bytes(), &value]));
            bytes.extend(command(&[b"GET", key.as_bytes()]));
        }
        client.pour(&bytes);
    }
    clients
}

fn idle(at: SocketAddr, _: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, MANY);
    for client in &mut clients {
        client.send(b"PING\r\n");
    }
    clients
}

/// Sets keys until memory is full, or so many are there.
fn fill(client: &mut Client, prefix: &str, count: usize, bytes: usize) {
    let value = vec![b'f'; bytes];
    let set = |n| command(&[b"SET", format!("{prefix}{n}").as_bytes(), &value]);
    client.pour(&(0..count).flat_map(set).collect::<Vec<_>>());
}

/// The same command for each of them.
fn each(client: &mut Client, prefix: &str, count: usize, words: impl Fn(&[u8]) -> Vec<u8>) {
    let one = |n| words(format!("{prefix}{n}").as_bytes());
    client.pour(&(0..count).flat_map(one).collect::<Vec<_>>());
}

fn expire_all(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 1);
    let bytes = [0, 8, 100, 1000][rng.usize(..4)];
    let count = (40 << 20) / (bytes + 100);
    fill(&mut clients[0], "e", count, bytes);
    for time in [&b"10000"[..], b"20000", b"5000"] {
        each(&mut clients[0], "e", count, |key| command(&[b"EXPIRE", key, time]));
    }
    clients
}

fn watch_many(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 20);
    for client in &mut clients {
        let bytes = [10, 100, 5000][rng.usize(..3)];
        let key = |n: u32| [format!("w{n}").as_bytes(), &vec![b'w'; bytes][..]].concat();
        for n in 0..5_000_000 / (bytes as u32 + 40) / 20 {
            let keys: Vec<Vec<u8>> = (0..20).map(|m| key(n * 20 + m)).collect();
            let words: Vec<&[u8]> =
                std::iter::once(&b"WATCH"[..]).chain(keys.iter().map(|key| &key[..])).collect();
            if !client.pour(&command(&words)) {
                break;
            }
        }
    }
    clients
}

fn multi_without_exec(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 20);
    for client in &mut clients {
        client.send(b"MULTI\r\n");
        let one = match rng.u8(..3) {
            0 => b"PING\r\n".to_vec(),
            1 => command(&[b"SET", b"multi", &vec![b'm'; 10_000]]),
            _ => command(&[b"MGET", b"a", b"b", b"c", b"d", b"e"]),
        };
        client.pour(&one.repeat(8_000_000 / one.len()));
    }
    clients
}

fn setrange(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 1);
    let far = ["1048575", "900000", "100000"][rng.usize(..3)].as_bytes();
    each(&mut clients[0], "r", 300, |key| command(&[b"SETRANGE", key, far, b"x"]));
    each(&mut clients[0], "s", 300, |key| {
        (1..10)
            .flat_map(|n| command(&[b"SETRANGE", key, (n * 50_000).to_string().as_bytes(), b"x"]))
            .collect()
    });
    clients
}

fn append(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 1);
    let piece = vec![b'a'; rng.usize(1..5000)];
    // Many values that grow side by side.
    for _ in 0..(48 << 20) / (200 * piece.len()) {
        each(&mut clients[0], "p", 200, |key| command(&[b"APPEND", key, &piece]));
    }
    clients
}

fn awkward_values(at: SocketAddr, _: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 1);
    for bytes in [2100, 3000, 2100, 4097, 65, 3000] {
        fill(&mut clients[0], "v", 30_000, bytes);
        // Every other one goes, and others come into the gaps.
        each(&mut clients[0], "v", 15_000, |key| command(&[b"DEL", key, &[key, b"0"].concat()]));
    }
    clients
}

fn smallest_keys(at: SocketAddr, _: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 1);
    fill(&mut clients[0], "", 600_000, 0);
    clients
}

/// What each segment of memory has lost is worth to be gathered, and no more: each new value moves what stays.
fn room_to_make(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 3);
    fill(&mut clients[0], "x", 600_000, 0);
    let goes = |n| command(&[b"DEL", format!("x{n}").as_bytes()]);
    clients[0].pour(&(0..600_000).step_by(11).flat_map(goes).collect::<Vec<_>>());
    let piece = vec![b'a'; rng.usize(100..10_000)];
    for client in &mut clients {
        for _ in 0..40 {
            each(client, "y", 50, |key| command(&[b"APPEND", key, &piece]));
        }
    }
    clients
}

fn longest_keys(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 1);
    let long = vec![b'k'; rng.usize(1000..1_000_000)];
    for n in 0..(60 << 20) / long.len() {
        let key = [format!("{n}").as_bytes(), &long].concat();
        clients[0].pour(&command(&[b"SET", &key, b"1"]));
    }
    clients
}

fn auth_floods(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 20);
    for client in &mut clients {
        let word = vec![b'x'; rng.usize(1..500_000)];
        let one = [command(&[b"AUTH", &word]), command(&[b"HELLO", b"3", b"AUTH", &word, &word])]
            .concat();
        client.pour(&one.repeat(1 + 3_000_000 / one.len()));
    }
    clients
}

fn names_and_lists(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 60);
    for client in &mut clients {
        client.pour(&command(&[b"CLIENT", b"SETNAME", &vec![b'n'; rng.usize(1..1_000_000)]]));
        client.pour(&command(&[
            b"CLIENT",
            b"SETINFO",
            b"lib-name",
            &vec![b'n'; rng.usize(1..1_000_000)],
        ]));
    }
    for client in &mut clients[..10] {
        client.send(&b"CLIENT LIST\r\n".repeat(200));
    }
    clients
}

fn walks(at: SocketAddr, _: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 10);
    fill(&mut clients[0], "walked:by:many:", 50_000, 10);
    for client in &mut clients {
        client.send(&b"KEYS *\r\nSCAN 0 COUNT 1000000000\r\nKEYS *******a*b*\r\n".repeat(20));
    }
    clients
}

fn mset(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 2);
    for client in &mut clients {
        let value = vec![b'm'; rng.usize(1..500)];
        for n in 0..4 {
            let keys: Vec<Vec<u8>> =
                (0..30_000).map(|m| format!("m{}", n * 30_000 + m).into_bytes()).collect();
            let words: Vec<&[u8]> = std::iter::once(&b"MSET"[..])
                .chain(keys.iter().flat_map(|key| [&key[..], &value]))
                .collect();
            client.pour(&command(&words));
        }
    }
    clients
}

fn come_and_go(at: SocketAddr, rng: &mut Rng) -> Vec<Client> {
    let mut clients = some(at, 1);
    let mut bytes = Vec::new();
    for n in 0..60_000 {
        let (key, other) = (format!("c{}", rng.u16(..5000)), format!("c{}", rng.u16(..5000)));
        let most = 1 << rng.usize(4..13);
        let value = vec![b'c'; rng.usize(..most)];
        bytes.extend(match n % 5 {
            0 | 1 => command(&[b"SET", key.as_bytes(), &value, b"PX", b"500"]),
            2 => command(&[b"RENAME", key.as_bytes(), other.as_bytes()]),
            3 => command(&[b"COPY", key.as_bytes(), other.as_bytes(), b"REPLACE"]),
            _ => command(&[b"GETDEL", key.as_bytes()]),
        });
    }
    clients[0].pour(&bytes);
    clients
}
