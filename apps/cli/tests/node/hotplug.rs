//! Memory that goes to a node and comes back while it runs, and what does not let go.

use std::fs::File;
use std::os::unix::fs::FileExt;

use kumiki_lab::Config;

use crate::Host;
use crate::devices::{folder, vsock};
use crate::pool::Kind;

/// KiB that the node's kernel has.
fn there(host: &Host) -> u64 {
    let line = host.ok("kumiki node exec n1 -- grep MemTotal /proc/meminfo");
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Bytes that the module gives the node.
fn module_mib(host: &Host) -> u64 {
    let memory = host.ok("cat /sys/class/misc/kumiki-osnode/nodes/n1/memory");
    let bytes = |line: &str| {
        let word = line.split_whitespace().nth(1).unwrap();
        u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap()
    };
    memory.lines().map(bytes).sum::<u64>() >> 20
}

fn set(host: &Host, memory: &str) -> String {
    host.ok(&format!("kumiki node set n1 --memory {memory}"))
}

/// A node of 256 MiB that gets as much again and gives it back, its disk and card at work.
fn memory_comes_and_goes(host: &Host, rounds: usize) {
    host.ok("truncate -s 512M disk; dd if=/dev/urandom of=disk bs=1M count=160 conv=notrunc; \
             kumiki node create n1 --cpus 1 --memory 256M --image deb --disk disk \
             --net auto,address=10.77.0.2/24,host=10.77.0.1/24");
    let refusal = host.refused("kumiki node set n1 --memory 512M");
    assert!(refusal.contains("has not run since it was made"), "{refusal}");
    host.ok("kumiki node start n1 --timeout 240");
    let before = there(host);
    let refusal = host.refused("kumiki node set n1 --memory 254M");
    assert!(refusal.contains("256M to 8320M are possible, in steps of 128M"), "{refusal}");
    host.ok("(ping -i 0.05 10.77.0.2 > pings 2>&1 & echo $! > ping.pid)");
    for _ in 0..rounds {
        // The next step above.
        assert_eq!(set(host, "500M"), "512M\n");
        assert!(there(host) > before + (250 << 10) && module_mib(host) == 512);
        // More than it had free before, read and written by its disk past all caches.
        host.ok(
            "kumiki node exec n1 -- dd if=/dev/vda iflag=fullblock,direct of=/dev/vda bs=160M \
             count=1 seek=1 oflag=direct conv=notrunc",
        );
        host.ok(
            "dd if=disk of=copy bs=160M count=1 skip=1; dd if=disk bs=160M count=1 | cmp - copy",
        );
        assert_eq!(set(host, "384M"), "384M\n");
        assert_eq!(set(host, "256M"), "256M\n");
        let now = there(host);
        assert!(
            now.abs_diff(before) < 8 << 10 && module_mib(host) == 256,
            "{now} KiB, was {before}"
        );
    }
    host.ok("kill -INT $(cat ping.pid); until grep -q 'packets transmitted' pings; do sleep 0.1; \
             done; grep ' 0% packet loss' pings");
    let log = host.ok("kumiki node logs n1");
    assert!(!log.contains("WARNING") && !log.contains("BUG"), "{log}");
}

#[test]
fn memory_comes_and_goes_while_a_node_runs() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    memory_comes_and_goes(&host, 1);
    assert_eq!(set(&host, "384M"), "384M\n");
    // A kernel that cannot do without is told, and not hurt.
    host.ok(
        "kumiki node exec n1 -- sh -c 'mkdir /full && mount -t tmpfs -o size=300M none /full && \
             yes kumiki | head -c 230000000 > /full/a'",
    );
    let refusal = host.refused("kumiki node set n1 --memory 256M");
    assert!(refusal.contains("does not let go of 128M of its memory"), "{refusal}");
    assert_eq!(module_mib(&host), 384);
    host.ok("kumiki node exec n1 -- sh -c 'yes kumiki | head -c 230000000 | cmp - /full/a'");
    host.ok("kumiki node exec n1 -- rm /full/a");
    assert_eq!(set(&host, "256M"), "256M\n");
    host.ok("kumiki node rm n1 --force");
    host.leave();
}

/// Over a start from the image, and over a sleep; it goes after either.
fn memory_stays(host: &Host) {
    assert_eq!(set(host, "384M"), "384M\n");
    let more = there(host);
    host.ok("kumiki node restart n1 --timeout 240");
    assert!(there(host).abs_diff(more) < 8 << 10);
    host.ok("kumiki node keep n1 warm; kumiki node start n1 --from warm --timeout 240");
    assert!(there(host).abs_diff(more) < 8 << 10);
    assert_eq!(set(host, "256M"), "256M\n");
    let refusal = host.refused("kumiki node stop n1; kumiki node start n1 --from warm");
    assert!(refusal.contains("memory at"), "{refusal}");
    // One that rests has it with its next start.
    assert_eq!(set(host, "384M"), "384M\n");
    host.ok("kumiki image rm warm; kumiki node start n1 --timeout 240");
    assert!(there(host).abs_diff(more) < 8 << 10);
    host.ok("kumiki node rm n1 --force");
}

#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to how memory comes and goes"]
fn memory_comes_and_goes_on_debian_13() {
    let memory = |config: &mut Config| config.memory_bytes = 3 << 30;
    let Some(host) = Host::own("6.12", memory) else { return };
    host.add_image();
    memory_comes_and_goes(&host, 2);
    memory_stays(&host);
    host.ok("kumiki image rm deb");
    host.leave();
}

/// A page of this was written by the node alone: no command line has it.
const PATTERN: &[u8] = b"kumiki\nkumiki\nkumiki\nkumiki\nkumiki\n";

/// Pages in this range of a machine's memory that hold what the node has written.
fn pages_of_the_node(memory: &File, address: u64, bytes: u64) -> u64 {
    let mut part = vec![0; 1 << 20];
    let mut found = 0;
    for at in (address..address + bytes).step_by(part.len()) {
        memory.read_exact_at(&mut part, at).unwrap();
        let holds = |page: &&[u8]| page.windows(PATTERN.len()).any(|some| some == PATTERN);
        found += part.chunks(4096).filter(holds).count() as u64;
    }
    found
}

/// What a node had in memory that it gives back nobody reads: the machine's memory is looked at from
/// outside, whatever its kernel does when it gives it to somebody.
#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to how memory comes back"]
fn what_comes_back_is_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory");
    let Some(host) = Host::own(&crate::chosen_kernel(), |config| {
        config.memory_bytes = 2 << 30;
        let memory =
            format!("memory-backend-file,id=all,size=2G,share=on,mem-path={}", file.display());
        let words = ["-object", &memory, "-machine", "memory-backend=all"];
        config.qemu.extend(words.map(Into::into));
        // The kernel would clear what it gives, and what it gets.
        config.append.extend(["init_on_alloc=0".to_owned(), "init_on_free=0".to_owned()]);
    }) else {
        return;
    };
    host.add_image();
    host.ok("kumiki node create n1 --memory 256M --image deb; kumiki node start n1 --timeout 240");
    assert_eq!(set(&host, "384M"), "384M\n");
    let pieces = host.ok("cat /sys/class/misc/kumiki-osnode/nodes/n1/memory");
    let last = pieces.lines().last().unwrap().split_once(' ').unwrap().0;
    let address = u64::from_str_radix(last.trim_start_matches("0x"), 16).unwrap();
    let bytes = 128 << 20;
    host.ok(
        "kumiki node exec n1 -- sh -c 'mkdir /full && mount -t tmpfs -o size=200M none /full && \
             yes KUMIKI | tr A-Z a-z | head -c 100000000 > /full/a && sync'",
    );
    let memory = File::open(&file).unwrap();
    let before = pages_of_the_node(&memory, address, bytes);
    // Freed, and not cleared by the node's kernel.
    host.ok("kumiki node exec n1 -- rm /full/a");
    let freed = pages_of_the_node(&memory, address, bytes);
    eprintln!("{before} pages of the node's in what came, {freed} when they were free");
    assert!(before > 10_000 && freed > 10_000, "{before} {freed}");
    assert_eq!(set(&host, "256M"), "256M\n");
    assert_eq!(pages_of_the_node(&memory, address, bytes), 0);
    host.ok("kumiki node rm n1 --force; kumiki image rm deb");
    host.leave();
}

/// Hundreds of times there and back, with a disk, a card and programs at work: all is given back.
#[test]
#[ignore = "minutes: `cargo xtask test long`; KUMIKI_ROUNDS is how often, 20 without it"]
fn memory_comes_and_goes_under_load() {
    let asked = std::env::var("KUMIKI_ROUNDS").map_or(20, |text| text.parse::<u32>().unwrap());
    let memory = |config: &mut Config| config.memory_bytes = 3 << 30;
    let Some(host) = Host::own(&crate::chosen_kernel(), memory) else { return };
    host.add_image();
    host.ok(
        "truncate -s 64M disk; kumiki node create n1 --memory 256M --max-memory 1G --image deb \
             --disk disk --net auto,address=10.77.0.2/24,host=10.77.0.1/24; \
             kumiki node start n1 --timeout 240",
    );
    // What is written is read again and compared, round after round; programs come and go.
    let work = "n=0; while ! test -e /enough; do n=$((n + 1)); \
                dd if=/dev/urandom of=/data bs=64k count=64 2> /dev/null; \
                dd if=/data of=/dev/vda bs=64k oflag=direct 2> /dev/null; \
                dd if=/dev/vda bs=64k count=64 iflag=direct 2> /dev/null | cmp - /data || echo $n >> /wrong; \
                done; echo $n > /over";
    host.ok(&format!(
        "cat > work <<'EOF'\n{work}\nEOF\nkumiki node cp work n1:/work; \
         kumiki node exec n1 -- sh -c '(setsid sh /work > /dev/null 2>&1 &)'; \
         (ping -i 0.05 10.77.0.2 > pings 2>&1 & echo $! > ping.pid)"
    ));
    // With what a cpu keeps of freed pages on a list of its own, which since 6.7 may be much.
    let available = || -> u64 {
        let text = host.ok("sync; echo 3 > /proc/sys/vm/drop_caches; sleep 0.2; \
             awk '/MemAvailable/ {print $2}' /proc/meminfo; \
             awk '$1 == \"count:\" {n += $2} END {print n * 4}' /proc/zoneinfo");
        text.lines().map(|line| line.parse::<u64>().unwrap()).sum()
    };
    // The first time makes what stays: a kernel's tables, a server's threads.
    assert_eq!((set(&host, "1G"), set(&host, "256M")), ("1024M\n".into(), "256M\n".into()));
    let before = available();
    let script = "n=0; while [ $n -lt 10 ]; do n=$((n + 1)); \
                  kumiki node set n1 --memory 1G > /dev/null || exit 1; \
                  m=0; until kumiki node set n1 --memory 256M > /dev/null 2>> kept; do \
                  m=$((m + 1)); [ $m -lt 20 ] || exit 1; sleep 0.1; done; done";
    for round in 0..asked.div_ceil(10) {
        host.ok(script);
        assert_eq!(module_mib(&host), 256, "after {round} times ten");
    }
    let after = available();
    let kept = host.ok("wc -l < kept");
    eprintln!("{before} KiB before, {after} after; asked again {} times", kept.trim());
    assert!(after.abs_diff(before) * 100 <= before, "{before} KiB before, {after} after");
    host.ok("kill -INT $(cat ping.pid); until grep -q 'packets transmitted' pings; do sleep 0.1; \
             done; tail -n 3 pings >&2; grep ' 0% packet loss' pings");
    host.ok("kumiki node exec n1 -- touch /enough; \
             until kumiki node exec n1 -- test -e /over; do sleep 0.2; done; \
             kumiki node exec n1 -- sh -c '! test -e /wrong && cat /over'");
    let log = host.ok("kumiki node logs n1");
    assert!(!log.contains("WARNING") && !log.contains("BUG"), "{log}");
    host.ok("kumiki node rm n1 --force; kumiki image rm deb; ! dmesg | grep -e WARNING -e BUG");
    host.leave();
}

/// A folder's pages and a stream's buffers lie in memory that came while they were served, and where
/// they were before.
#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to who is told of a node's memory"]
fn folders_and_streams_reach_what_came() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok("dd if=/dev/urandom of=sent bs=64k count=160 2> /dev/null; \
             kumiki node create n1 --memory 256M --image deb --vsock 42; \
             kumiki node start n1 --timeout 240");
    folder(&host);
    vsock(&host);
    let reads = "kumiki node exec n1 -- sh -c 'echo 3 > /proc/sys/vm/drop_caches; \
                 md5sum < /mnt/shared/large; head -c 1000000 /mnt/shared/large > /mnt/shared/part; sync'";
    let sum = host.ok("md5sum < shared/large");
    for memory in ["384M", "256M"] {
        assert_eq!(set(&host, memory), format!("{memory}\n"));
        host.ok("rm -f shared/part");
        assert_eq!(host.ok(reads), sum);
        host.ok("head -c 1000000 sent | cmp - shared/part");
        vsock(&host);
    }
    host.ok("kumiki node rm n1 --force; rm -rf /opt/virtiofsd /usr/libexec/virtiofsd");
    host.leave();
}

/// By a file as it runs, and by itself to who has little left.
#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to apply, balance or how memory comes and goes"]
fn memory_follows_a_file_and_who_has_little_left() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    let apply = |mib: u32| {
        host.ok(&format!(
            "cat > one.toml <<'EOF'\n[node.n1]\nimage = \"deb\"\nmemory = \"{mib}M\"\n\
             max_memory = \"512M\"\nEOF\nkumiki node apply one.toml --timeout 240 2>&1"
        ))
    };
    assert!(apply(256).contains("done: start node n1"));
    let said = apply(384);
    assert!(said.contains("done: resize node n1 (384 MiB after 256)"), "{said}");
    assert_eq!(module_mib(&host), 384);
    assert!(apply(384).contains("nothing to do"));
    assert!(apply(256).contains("done: resize node n1 (256 MiB after 384)"));
    let refusal = host.refused("kumiki node set n1 --memory 640M");
    assert!(refusal.contains("256M to 512M are possible"), "{refusal}");
    assert!(refusal.contains("within its min_memory and max_memory"), "{refusal}");
    host.ok("(kumiki node balance --every 300ms > moves 2>&1 & echo $! > balance.pid)");
    host.ok(
        "kumiki node exec n1 -- sh -c 'mkdir /full && mount -t tmpfs -o size=400M none /full && \
         yes kumiki | head -c 150000000 > /full/a'; for n in $(seq 100); do \
         grep ' MiB from 0 to n1$' moves && exit 0; sleep 0.2; done; cat moves; false",
    );
    assert!((384..=512).contains(&module_mib(&host)));
    host.ok("kumiki node exec n1 -- sh -c 'yes kumiki | head -c 150000000 | cmp - /full/a'");
    host.ok("kill -TERM $(cat balance.pid); while kill -0 $(cat balance.pid); do sleep 0.1; done");
    host.ok("kumiki node rm n1 --force");
    host.leave();
}
