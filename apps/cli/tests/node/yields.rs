//! What takes long in the module lets others run meanwhile: by how often, and for how much each time, the
//! machine's kernel is asked, which its own probes say.

use crate::Host;
use crate::pool::Kind;

/// Asked for by the module, with what: the kernel clears in each of the first two and does not schedule.
const PROBES: &str = "mkdir -p /t; mount -t tracefs none /t; cd /t; \
     taken=$(grep -o -m 1 -w -e alloc_contig_range_noprof -e alloc_contig_range /proc/kallsyms); \
     echo \"p:taken $taken from=%di end=%si\" > kprobe_events; \
     echo 'p:back free_contig_range from=%di pages=%si' >> kprobe_events; \
     echo 'p:slept msleep ms=%di' >> kprobe_events; \
     echo 'p:settled usleep_range_state from=%di to=%si' >> kprobe_events; \
     echo 1 > events/kprobes/enable";

/// The largest block of free memory, which is cleared in some ms on a real machine.
const MOST_PAGES: u64 = 1024;

/// The two numbers of each probe of this name since the last look, and their lines.
fn hits(said: &str, name: &str) -> Vec<(u64, u64)> {
    let number = |word: &str| {
        let hexadecimal = word.split_once("=0x").expect(word).1;
        u64::from_str_radix(hexadecimal, 16).unwrap()
    };
    let of_it = said.lines().filter(|line| line.contains(&format!(" {name}: (")));
    let numbers = |line: &str| {
        let mut words = line.split_once(") ").unwrap().1.split(' ').map(number);
        (words.next().unwrap(), words.next().unwrap_or_default())
    };
    of_it.map(numbers).collect()
}

#[test]
fn what_takes_long_lets_others_run() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    let traced =
        |line: &str| host.ok(&format!("echo > /t/trace; {line}; grep -v '^#' /t/trace; true"));
    host.ok(PROBES);
    // Memory is taken, and given back, by parts.
    let said =
        traced("kumiki node create n1 --cpus 2 --memory 256M --image deb; kumiki node rm n1");
    let taken = hits(&said, "taken").into_iter().map(|(from, end)| end - from);
    let back = hits(&said, "back").into_iter().map(|(_, pages)| pages);
    for (way, parts) in [("taken", Vec::from_iter(taken)), ("back", Vec::from_iter(back))] {
        let all: u64 = parts.iter().sum();
        assert!(all >= 256 << 8, "{way}: {all} pages: {said}");
        assert!(parts.iter().all(|&pages| pages <= MOST_PAGES), "{way}: {parts:?}");
    }
    // Two cpus are stopped with one wait, which is no spin.
    host.ok("kumiki node create n1 --cpus 2 --memory 256M --image deb; \
             kumiki node create n2 --memory 256M --image deb; \
             kumiki node start n1 n2 --timeout 240");
    let said = traced("kumiki node kill n1");
    let waits = hits(&said, "slept").into_iter().filter(|&(ms, _)| ms == 10).count();
    assert_eq!(waits, 1, "{said}");
    host.ok("kumiki node start n1 --timeout 240");
    host.ok(
        "kumiki node rm n1 --force; kumiki node create n1 --cpu-list 3 --memory 256M --image deb; \
             kumiki node start n1 --timeout 240",
    );
    // The bells of two nodes have settled after one wait when a cpu has gone.
    let said = traced("echo 0 > /sys/devices/system/cpu/cpu2/online");
    let waits = hits(&said, "settled").into_iter().filter(|&all| all == (1000, 2000)).count();
    assert_eq!(waits, 1, "{said}");
    host.ok("echo 1 > /sys/devices/system/cpu/cpu2/online; kumiki node exec n1 -- true; \
             kumiki node exec n2 -- true; kumiki node rm n1 --force; kumiki node rm n2 --force; \
             echo 0 > /t/events/kprobes/enable; echo > /t/kprobe_events; umount /t; rmdir /t");
    host.leave();
}
