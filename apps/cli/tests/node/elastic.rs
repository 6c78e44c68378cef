//! Cpus that go to a node and come back while it runs, and one that it may not have.

use kumiki_lab::Config;

use crate::Host;
use crate::devices::bring;
use crate::pool::Kind;

/// What a node's kernel has on line, in its own numbers.
fn there(host: &Host, node: &str) -> String {
    host.ok(&format!("kumiki node exec {node} -- cat /sys/devices/system/cpu/online"))
}

fn here(host: &Host) -> String {
    host.ok("cat /sys/devices/system/cpu/online")
}

/// A node of one to three cpus, with pings and a disk's reads and writes meanwhile.
fn cpus_come_and_go(host: &Host, rounds: usize) {
    host.ok("truncate -s 64M disk; kumiki node create n1 --cpu-list 3 --max-cpus 3 --memory 320M \
             --image deb --disk disk --net auto,address=10.77.0.2/24,host=10.77.0.1/24");
    let refusal = host.refused("kumiki node set n1 --cpus 4");
    assert!(refusal.contains("1 to 3 are possible"), "{refusal}");
    host.ok("kumiki node start n1 --timeout 240");
    assert_eq!((there(host, "n1"), here(host)), ("0\n".into(), "0-2\n".into()));
    // Its kernel knows of the host's, and is kept off them.
    let own =
        host.run("kumiki node exec n1 -- sh -c 'echo 1 > /sys/devices/system/cpu/cpu1/online'");
    assert_ne!(own.exit.code(), 0);
    assert!(host.ok("kumiki node logs n1").contains("cpu 1 is not this node's"));
    host.ok("(ping -i 0.05 10.77.0.2 > pings 2>&1 & echo $! > ping.pid); \
             kumiki node exec n1 -- sh -c '(setsid sh -c \"while ! test -e /enough; do \
             dd if=/dev/zero of=/dev/vda bs=64k count=200 oflag=direct; \
             dd if=/dev/vda of=/dev/null bs=64k iflag=direct; done\" > /dev/null 2>&1 &)'");
    for _ in 0..rounds {
        assert_eq!(host.ok("kumiki node set n1 --cpus 3"), "3,1,2\n");
        // Nearest first, in the order of the host.
        assert_eq!((there(host, "n1"), here(host)), ("0-2\n".into(), "0\n".into()));
        // In the node's own order: each of its cpus does something.
        host.ok("kumiki node exec n1 -- sh -c 'for mask in 1 2 4; do \
                 taskset $mask true || exit 1; done'");
        assert_eq!(host.ok("kumiki node set n1 --cpus 2"), "3,1\n");
        assert_eq!((there(host, "n1"), here(host)), ("0-1\n".into(), "0,2\n".into()));
        assert_eq!(host.ok("kumiki node set n1 --cpus 1"), "3\n");
        assert_eq!((there(host, "n1"), here(host)), ("0\n".into(), "0-2\n".into()));
        host.ok("for mask in 2 4; do taskset $mask true || exit 1; done");
    }
    host.ok("kumiki node exec n1 -- touch /enough; kill -INT $(cat ping.pid); \
             until grep -q 'packets transmitted' pings; do sleep 0.1; done; tail -n 3 pings >&2");
    all_came(host, "pings");
}

/// Each ping was answered, but for those that were under way at the end.
fn all_came(host: &Host, file: &str) {
    let pings = host.ok(&format!("grep -o 'seq=[0-9]*' {file}"));
    let mut all: Vec<u32> = pings.lines().map(|line| line[4..].parse().unwrap()).collect();
    all.sort_unstable();
    let gaps: Vec<_> = all.windows(2).filter(|two| two[1] != two[0] + 1).collect();
    assert!(all.len() > 50 && all[0] <= 1 && gaps.is_empty(), "{file}: around {gaps:?}");
}

#[test]
fn cpus_come_and_go_while_a_node_runs() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    cpus_come_and_go(&host, 3);
    // It rests, sleeps and starts with what it has by then.
    assert_eq!(host.ok("kumiki node set n1 --cpus 2"), "3,1\n");
    host.ok("kumiki node snapshot n1 warm; kumiki node start n1 --from warm --timeout 240");
    assert_eq!(there(&host, "n1"), "0-1\n");
    assert_eq!(host.ok("kumiki node set n1 --cpus 1"), "3\n");
    host.ok("kumiki node stop n1; kumiki image rm warm");
    assert_eq!(host.ok("kumiki node set n1 --cpus 2"), "3,1\n");
    host.ok("kumiki node start n1 --timeout 240");
    assert_eq!(there(&host, "n1"), "0-1\n");
    // A kernel that does not let go is told, and not hurt.
    host.ok("kumiki node exec n1 -- sh -c 'cd /sys/devices/system/cpu; \
             sed -n \"s/: *sched:active//p\" hotplug/states > cpu1/hotplug/fail'");
    let refusal = host.refused("kumiki node set n1 --cpus 1");
    assert!(
        refusal.contains("does not let go of cpu 1 (node n1: the cpu of APIC id 1: "),
        "{refusal}"
    );
    assert_eq!((there(&host, "n1"), here(&host)), ("0-1\n".into(), "0,2\n".into()));
    host.ok("kumiki node exec n1 -- taskset 2 true");
    // It fails once.
    assert_eq!(host.ok("kumiki node set n1 --cpus 1"), "3\n");
    host.ok("kumiki node rm n1 --force");
    host.leave();
}

#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to how cpus come and go"]
fn cpus_come_and_go_on_debian_13() {
    let memory = |config: &mut Config| config.memory_bytes = 3 << 30;
    let Some(host) = Host::own("6.12", memory) else { return };
    host.add_image();
    cpus_come_and_go(&host, 3);
    host.ok("kumiki node rm n1 --force; kumiki image rm deb");
    host.leave();
}

/// A node of two cpus that was told of no others gives one and gets it again.
#[test]
fn a_node_without_limits_has_again_what_it_gave() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok("kumiki node create n1 --cpu-list 3,2 --memory 256M --image deb; \
             kumiki node start n1 --timeout 240");
    assert_eq!(host.ok("kumiki node set n1 --cpus 1"), "3\n");
    assert_eq!(host.ok("kumiki node set n1 --cpus 2"), "3,2\n");
    assert_eq!(there(&host, "n1"), "0-1\n");
    let refusal = host.refused("kumiki node set n1 --cpus 3");
    assert!(
        refusal.contains("1 to 2 are possible, as its kernel was told of no others"),
        "{refusal}"
    );
    host.ok("kumiki node rm n1 --force");
    host.leave();
}

/// Prints how long a move takes, beside the two kernels' own switching of a cpu off and on: a cpu that
/// goes there and comes back is switched off and on once by each.
fn how_long(host: &Host) {
    const TIMES: u32 = 5;
    let seconds = |text: &str| -> f64 {
        let words: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        words[1] - words[0]
    };
    let here = |line: &str| {
        seconds(&host.ok(&format!(
            "a=$(cut -d ' ' -f 1 /proc/uptime); for n in $(seq {TIMES}); do {line} || exit 1; done; \
             b=$(cut -d ' ' -f 1 /proc/uptime); echo $a $b"
        )))
    };
    // There and back, of two.
    let moved =
        here("kumiki node set n1 --cpus 3 > /dev/null && kumiki node set n1 --cpus 1 > /dev/null");
    let nothing = here("kumiki node set n1 --cpus 1 > /dev/null");
    let off_and_on = "echo 0 > $c/online && echo 1 > $c/online";
    let of_host = here(&format!("c=/sys/devices/system/cpu/cpu1; {off_and_on}"));
    host.ok("kumiki node set n1 --cpus 2");
    let of_node = seconds(&host.ok(&format!(
        "kumiki node exec n1 -- sh -c 'c=$(ls -d /sys/devices/system/cpu/cpu*/ | \
         while read c; do [ \"$(cat $c/online 2> /dev/null)\" = 1 ] && echo $c; done | head -n 1); \
         a=$(cut -d \" \" -f 1 /proc/uptime); for n in $(seq {TIMES}); do {off_and_on} || exit 1; done; \
         echo $a $(cut -d \" \" -f 1 /proc/uptime)'"
    )));
    host.ok("kumiki node set n1 --cpus 1");
    let each = |time: f64, moves: u32| 1e3 * time / f64::from(moves * TIMES);
    let (moved, plain) = (each(moved, 4), each(of_host + of_node, 2));
    eprintln!(
        "a cpu moved in {moved:.0} ms; the kernels' own share of it {plain:.0} ms: {:.2}, {:.0} ms more, of \
         which {:.0} ms are half of a program that finds nothing to do",
        moved / plain,
        moved - plain,
        each(nothing, 2)
    );
}

/// Four nodes, a network and disks at work, and cpus that go from each to the next.
#[test]
#[ignore = "hours: `cargo xtask test long` with KUMIKI_MOVES=10000; without it a hundred moves"]
fn thousands_of_cpus_move_under_load() {
    let Some(host) = Host::own(&crate::chosen_kernel(), |config| {
        config.cpus = 7;
        config.memory_bytes = 4 << 30;
    }) else {
        return;
    };
    host.add_image();
    // Busybox' own has room for some twenty answers, and hears those to all others: at load it loses
    // what came.
    bring(&host, "iputils-ping", "/usr/bin/ping", "/opt/ping");
    for n in 1..=4 {
        host.ok(&format!(
            "truncate -s 64M disk{n}; kumiki node create n{n} --cpu-list {} --max-cpus 3 --memory 288M \
             --image deb --disk disk{n} --net auto,address=10.7{n}.0.2/24,host=10.7{n}.0.1/24",
            n + 2
        ));
    }
    host.ok("kumiki node start n1 n2 n3 n4 --timeout 600");
    // What is written is read again and compared, round after round.
    let work = "n=0; while ! test -e /enough; do n=$((n + 1)); \
                dd if=/dev/urandom of=/data bs=64k count=64 2> /dev/null; \
                dd if=/data of=/dev/vda bs=64k oflag=direct 2> /dev/null; \
                dd if=/dev/vda bs=64k count=64 iflag=direct 2> /dev/null | cmp - /data || echo $n >> /wrong; \
                done; echo $n > /over";
    let idle = echoes(&host, 4);
    for n in 1..=4 {
        host.ok(&format!(
            "cat > work <<'EOF'\n{work}\nEOF\nkumiki node cp work n{n}:/work; \
             kumiki node exec n{n} -- sh -c '(setsid sh /work > /dev/null 2>&1 &)'; \
             (/opt/ping/run -i 0.05 10.7{n}.0.2 > pings{n} 2>&1 & echo $! > ping{n}.pid); \
             (busybox ping -i 0.05 10.7{n}.0.2 > others{n} 2>&1 & echo $! > other{n}.pid)"
        ));
    }
    let moves = std::env::var("KUMIKI_MOVES").map_or(100, |text| text.parse().unwrap());
    let rounds = moves / 16;
    // Two spare cpus, that each node has for a while: a round has 16 moves.
    for round in 0..rounds {
        host.ok("for n in 1 2 3 4; do kumiki node set n$n --cpus 3 > /dev/null && \
                 kumiki node set n$n --cpus 1 > /dev/null || exit 1; done");
        if round % 20 == 19 {
            eprintln!("{} moves", (round + 1) * 16);
        }
    }
    if rounds > 0 {
        how_long(&host);
    }
    if rounds == 0 {
        // What is lost without any.
        host.ok("sleep 100");
    }
    // Of what each socket had no room for its last column counts.
    let unheard = host.ok("awk 'NR > 1 {n += $NF} END {print n + 0}' /proc/net/raw");
    host.ok("kill -INT $(cat ping?.pid other?.pid); \
             for f in pings? others?; do until grep -q 'packets transmitted' $f; do sleep 0.1; done; done");
    none_is_lost(&host, &idle);
    for n in 1..=4 {
        let of = |file: &str| {
            let line = host.ok(&format!("grep 'packets transmitted' {file}{n}"));
            let mut words = line.split_whitespace();
            let sent: u64 = words.next().unwrap().parse().unwrap();
            let heard: u64 = words.nth(2).unwrap().parse().unwrap();
            (sent, sent - heard)
        };
        eprintln!(
            "node n{n}: sent, and not heard when it ended: {:?} by iputils' ping, {:?} by busybox', whose \
             receive buffer has room for some twenty answers, to anybody's; sockets had no room {} times",
            of("pings"),
            of("others"),
            unheard.trim()
        );
        host.ok(&format!(
            "kumiki node exec n{n} -- touch /enough; \
             until kumiki node exec n{n} -- test -e /over; do sleep 0.2; done; \
             kumiki node exec n{n} -- sh -c '! test -e /wrong && cat /over'"
        ));
        let log = host.ok(&format!("kumiki node logs n{n}"));
        assert!(!log.contains("WARNING") && !log.contains("BUG"), "{log}");
        host.ok(&format!("kumiki node rm n{n} --force"));
    }
    host.ok("! dmesg | grep -e WARNING -e BUG; kumiki image rm deb");
}

/// Echoes by the kernels' own counts: sent by the host, heard and answered by each node, and the
/// answers that the host has heard.
#[derive(Debug, PartialEq)]
struct Echoes {
    sent: u64,
    nodes: Vec<(u64, u64)>,
    heard: u64,
}

fn echoes(host: &Host, nodes: u32) -> Echoes {
    let counts = |node: Option<u32>| {
        let cat = "cat /proc/net/snmp";
        let text = host.ok(&node.map_or(cat.into(), |n| format!("kumiki node exec n{n} -- {cat}")));
        let mut lines = text.lines().filter(|line| line.starts_with("Icmp: "));
        let (names, numbers) = (lines.next().unwrap(), lines.next().unwrap());
        let at = |name: &str| names.split(' ').position(|word| word == name).unwrap();
        let number = |name| numbers.split(' ').nth(at(name)).unwrap().parse().unwrap();
        let [sent, answers, echoes, answered] =
            ["OutEchos", "InEchoReps", "InEchos", "OutEchoReps"].map(number);
        (sent, answers, (echoes, answered))
    };
    let nodes = (1..=nodes).map(|n| counts(Some(n)).2).collect();
    let (sent, heard, _) = counts(None);
    Echoes { sent, nodes, heard }
}

/// Each echo has arrived, was answered, and its answer has arrived: whatever the programs that sent them
/// have read of that.
fn none_is_lost(host: &Host, before: &Echoes) {
    for turn in 0.. {
        let now = echoes(host, before.nodes.len() as u32);
        let sent = now.sent - before.sent;
        let since =
            now.nodes.iter().zip(&before.nodes).map(|(now, then)| (now.0 - then.0, now.1 - then.1));
        let (arrived, answered) = since.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let heard = now.heard - before.heard;
        if turn == 10 || (arrived, answered, heard) == (sent, sent, sent) {
            eprintln!(
                "{sent} echoes: {arrived} arrived, {answered} were answered, {heard} answers heard"
            );
            assert!(sent > 200 && (arrived, answered, heard) == (sent, sent, sent));
            return;
        }
        // The last ones are under way.
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
}

/// More nodes than have room below 1 MiB of their own: those of one cpu need it in turns.
#[test]
#[ignore = "a minute: `cargo xtask test long`, after a change to what is kept below 1 MiB"]
fn nodes_of_one_cpu_share_their_room_below_1_mib() {
    let Some(host) = Host::own(&crate::chosen_kernel(), |config| {
        config.cpus = 8;
        config.memory_bytes = 3 << 30;
    }) else {
        return;
    };
    host.add_image();
    let before = host.ok("cat /sys/class/misc/kumiki-osnode/slices_free");
    for n in 1..=6 {
        host.ok(&format!("kumiki node create n{n} --cpus 1 --memory 256M --image deb"));
    }
    let slices = host.ok("cat /sys/class/misc/kumiki-osnode/nodes/*/slice | sort -u | wc -l");
    assert_eq!(slices, "4\n");
    let after = host.ok("cat /sys/class/misc/kumiki-osnode/slices_free");
    let number = |text: &str| text.trim().parse::<u32>().unwrap();
    assert_eq!(number(&before) - number(&after), 4);
    // All at once: two of them wait for their turn.
    host.ok("kumiki node start n1 n2 n3 n4 n5 n6 --timeout 240");
    for n in 1..=6 {
        assert_eq!(host.ok(&format!("kumiki node exec n{n} -- hostname")), format!("n{n}\n"));
    }
    let refusal = host.refused("kumiki node set n1 --cpus 2");
    assert!(refusal.contains("1 to 1 are possible"), "{refusal}");
    host.ok("kumiki node restart n5 --timeout 240; kumiki node exec n1 -- true");
    host.ok("for n in 1 2 3 4 5 6; do kumiki node rm n$n --force || exit 1; done");
    assert_eq!(host.ok("cat /sys/class/misc/kumiki-osnode/slices_free"), before);
    host.ok("kumiki image rm deb");
}

/// All at the same time, each with an answer.
#[test]
#[ignore = "ten minutes and more: `cargo xtask test long`, by itself; KUMIKI_NODES is how many, 24 without it"]
fn as_many_nodes_as_cpus() {
    let nodes = std::env::var("KUMIKI_NODES").map_or(24, |text| text.parse::<u32>().unwrap());
    let Some(host) = Host::own(&crate::chosen_kernel(), |config| {
        config.cpus = nodes + 1;
        config.memory_bytes = u64::from(nodes * 280 + 1024) << 20;
    }) else {
        return;
    };
    host.add_image();
    for n in 1..=nodes {
        host.ok(&format!("kumiki node create n{n} --memory 256M --image deb"));
    }
    let names: Vec<String> = (1..=nodes).map(|n| format!("n{n}")).collect();
    for some in names.chunks(4) {
        host.ok(&format!("kumiki node start {} --timeout 600", some.join(" ")));
    }
    for name in &names {
        assert_eq!(host.ok(&format!("kumiki node exec {name} -- hostname")), format!("{name}\n"));
    }
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0\n");
    for name in &names {
        host.ok(&format!("kumiki node rm {name} --force"));
    }
    host.ok("kumiki image rm deb");
}

/// A load that goes from node to node takes the spare cpus along.
#[test]
fn a_load_that_moves_takes_the_spare_cpus_along() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    let apply = |cpus: u32| {
        host.ok(&format!(
            "cat > two.toml <<'EOF'\n[node.n1]\nimage = \"deb\"\ncpus = {cpus}\nmin_cpus = 1\nmax_cpus = 2\n\
             memory = \"256M\"\n[node.n2]\nimage = \"deb\"\nmax_cpus = 2\nmemory = \"256M\"\nEOF\n\
             kumiki node apply two.toml --timeout 240 2>&1"
        ))
    };
    assert!(apply(1).contains("done: start node n2"));
    // Another number in the file is had as they run.
    let said = apply(2);
    assert!(said.contains("done: resize node n1 (cpus 3,1 after 3)"), "{said}");
    assert_eq!((there(&host, "n1"), here(&host)), ("0-1\n".into(), "0\n".into()));
    assert!(
        apply(2).contains("nothing to do")
            && apply(1).contains("done: resize node n1 (cpus 3 after 3,1)")
    );
    host.ok("(kumiki node balance --every 300ms > moves 2>&1 & echo $! > balance.pid)");
    for node in ["n1", "n2", "n1"] {
        host.ok(&format!(
            "cut -d ' ' -f 1 /proc/uptime >&2; kumiki node exec {node} -- sh -c 'for n in 1 2 3; do \
             (setsid sh -c \"while ! test -e /enough; do :; done\" > /dev/null 2>&1 &); done'; \
             for n in $(seq 100); do \
             kumiki node exec {node} -- grep -qx 0-1 /sys/devices/system/cpu/online && break; \
             sleep 0.2; done; cut -d ' ' -f 1 /proc/uptime >&2; cat moves >&2; \
             kumiki node exec {node} -- grep -x 0-1 /sys/devices/system/cpu/online"
        ));
        host.ok(&format!("kumiki node exec {node} -- sh -c 'touch /enough; sleep 2; rm /enough'"));
    }
    host.ok("kill -TERM $(cat balance.pid); while kill -0 $(cat balance.pid); do sleep 0.1; done");
    host.ok("kumiki node balance --once; kumiki node rm n1 --force; kumiki node rm n2 --force");
    host.leave();
}

/// A node that got a cpu sleeps and wakes with it, and without it once it gave it back.
#[test]
#[ignore = "a minute: `cargo xtask test long`, after a change to idle nodes or to how cpus come and go"]
fn an_idle_node_wakes_with_the_cpus_that_it_has_by_then() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok("kumiki node create n1 --cpu-list 3 --max-cpus 2 --memory 256M --max-memory 512M --image deb; \
             kumiki node start n1 --timeout 240; kumiki node set n1 --memory 384M");
    assert_eq!(host.ok("kumiki node set n1 --cpus 2"), "3,1\n");
    host.ok("kumiki node idle n1 --after 3s 2> said & echo $! > idle.pid");
    let asleep = |times: usize| {
        host.ok(&format!(
            "for n in $(seq 240); do test $(grep -c 'n1: asleep' said) -ge {times} && exit; \
             sleep 0.25; done; cat said; exit 1"
        ));
        assert_eq!(here(&host), crate::ALL_CPUS);
    };
    asleep(1);
    for size in ["--cpus 1", "--memory 256M"] {
        let said = host.refused(&format!("kumiki node set n1 {size}"));
        assert!(said.contains("it sleeps, its cpus with this machine"), "{said}");
    }
    assert_eq!((there(&host, "n1"), here(&host)), ("0-1\n".into(), "0,2\n".into()));
    assert_eq!(
        host.ok("kumiki node set n1 --cpus 1; kumiki node set n1 --memory 256M"),
        "3\n256M\n"
    );
    asleep(2);
    assert_eq!((there(&host, "n1"), here(&host)), ("0\n".into(), "0-2\n".into()));
    assert_eq!(host.ok("kumiki node set n1 --cpus 2"), "3,1\n");
    host.ok(
        "kill $(cat idle.pid); while kill -0 $(cat idle.pid) 2> /dev/null; do sleep 0.1; done; \
             cat said >&2; kumiki node rm n1 --force",
    );
    host.leave();
}
