//! Memory that the host's allocator does not hand out.

use crate::Host;
use crate::pool::Kind;

const STATES: &str = "cat /sys/devices/system/memory/memory*/state | sort | uniq -c";

#[test]
fn blocks_taken_off_line_make_a_node_and_come_back() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    let before = host.ok(STATES);
    assert!(!before.contains("offline"), "{before}");
    // Twice: what has come back can go again.
    for starts in [true, false] {
        host.ok("kumiki node create n1 --memory 256M --memory-from offline --image deb");
        assert!(host.ok(STATES).contains("2 offline"));
        // The guard: the host may not bring on line what a node has.
        host.ok("for block in /sys/devices/system/memory/memory*; do \
                 grep -q offline $block/state && ! echo online > $block/state && exit 0; \
                 done 2> /dev/null; exit 1");
        assert!(host.ok(STATES).contains("2 offline"));
        if starts {
            host.ok("kumiki node start n1 --timeout 240");
            let total = host.ok("kumiki node exec n1 -- grep MemTotal: /proc/meminfo");
            let kib: u64 = total.split_whitespace().nth(1).unwrap().parse().unwrap();
            assert!((150 << 10..256 << 10).contains(&kib), "{total}");
        }
        host.ok("kumiki node rm n1 --force");
        assert_eq!(host.ok(STATES), before);
    }
    // Killed on the way: what is off line is known, and comes back.
    for seconds in ["0.3", "0.6", "1.0", "1.5"] {
        let create = "kumiki node create n1 --memory 384M --memory-from offline --image deb";
        host.run(&format!("timeout -s KILL {seconds} {create}"));
        if host.ok("kumiki node ls --json") != "[]\n" {
            host.ok("kumiki node rm n1");
        }
        assert_eq!(host.ok(STATES), before, "after {seconds} s");
    }
    // A node has what was asked for, of whole blocks too; nothing less comes back.
    host.ok("kumiki node create n1 --memory 376M --memory-from offline --image deb");
    let memory = host.ok("cat /sys/class/misc/kumiki-osnode/nodes/n1/memory");
    let bytes = |line: &str| u64::from_str_radix(line.split_once(" 0x").unwrap().1, 16).unwrap();
    assert_eq!(memory.lines().map(bytes).sum::<u64>(), 376 << 20, "{memory}");
    // Killed after the module had given the memory back: whoever comes next helps.
    host.ok("cp /run/kumiki-osnode/node-n1.blocks blocks; kumiki node rm n1; \
             for block in $(cat blocks); do \
             echo offline > /sys/devices/system/memory/memory$block/state; done; \
             mv blocks /run/kumiki-osnode/node-gone.blocks");
    assert_ne!(host.ok(STATES), before);
    host.ok("kumiki node create n2 --memory 256M --image deb");
    assert_eq!(host.ok(STATES), before);
    host.ok("kumiki node rm n2");
    let create = "kumiki node create n1 --memory 4G --memory-from offline --image deb";
    let said = host.refused(create);
    assert!(said.contains("the host has"), "{said}");
    host.leave();
}

/// Two NUMA nodes of two cpus and 1 GiB each.
const NUMA: &str = "-smp 4,sockets=2,cores=2,threads=1 \
                    -object memory-backend-ram,id=near,size=1G \
                    -object memory-backend-ram,id=far,size=1G \
                    -numa node,nodeid=0,cpus=0-1,memdev=near \
                    -numa node,nodeid=1,cpus=2-3,memdev=far";

#[test]
#[ignore = "a minute: `cargo xtask test long`, after a change to where a node's memory is taken"]
fn memory_is_of_the_numa_node_that_the_cpus_are_of() {
    let wanted = |config: &mut kumiki_lab::Config| {
        config.qemu.extend(NUMA.split_whitespace().map(Into::into));
    };
    let Some(host) = Host::own("6.1", wanted) else { return };
    host.add_image();
    assert_eq!(host.ok("cat /sys/devices/system/node/has_memory"), "0-1\n");
    let address = |name: &str| {
        let pieces = host.ok(&format!("cat /sys/class/misc/kumiki-osnode/nodes/{name}/memory"));
        u64::from_str_radix(pieces[2..].split(' ').next().unwrap(), 16).unwrap()
    };
    // By number they are of one NUMA node; all of these are below 4 GiB.
    host.ok("kumiki node create far --cpus 2 --memory 256M --image deb");
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0-1\n");
    assert!(address("far") >= 1 << 30);
    host.ok("kumiki node create near --cpu-list 1 --memory 256M --image deb");
    assert!(address("near") < 1 << 30);
    host.ok("kumiki node start far --timeout 120");
    assert_eq!(host.ok("kumiki node exec far -- nproc"), "2\n");
    host.ok("kumiki node rm far --force; kumiki node rm near");
    // Unless said.
    host.ok("kumiki node create n1 --numa 0 --memory 256M --image deb");
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0,2-3\n");
    assert!(address("n1") < 1 << 30);
    host.ok(
        "kumiki node rm n1; kumiki node create n1 --cpu-list 1 --numa 1 --memory 256M --image deb",
    );
    assert!(address("n1") >= 1 << 30);
    host.ok("kumiki node start n1 --timeout 120; kumiki node set n1 --memory 384M");
    let pieces = host.ok("cat /sys/class/misc/kumiki-osnode/nodes/n1/memory");
    let is_far = |piece: &str| {
        u64::from_str_radix(piece[2..].split(' ').next().unwrap(), 16).unwrap() >= 1 << 30
    };
    assert!(pieces.lines().count() > 1 && pieces.lines().all(is_far), "{pieces}");
    host.ok("kumiki node rm n1 --force");
    let said = host.refused("kumiki node create n1 --numa 0 --cpus 2 --memory 256M --image deb");
    assert!(said.contains("1 online in NUMA node 0"), "{said}");
    let said = host.refused("kumiki node create n1 --numa 7 --memory 256M --image deb");
    assert!(said.contains("NUMA node 7 has no memory: name one of 0,1"), "{said}");
    // The other NUMA node has so much; this one has not.
    for from in ["contig", "offline"] {
        let said = host.refused(&format!(
            "kumiki node create n1 --cpu-list 3 --memory 1G --memory-from {from} --image deb"
        ));
        assert!(said.contains("in NUMA node 1, whose cpus these are"), "{said}");
    }
    host.ok("kumiki node create n1 --cpu-list 2 --memory 256M --memory-from offline --image deb");
    assert!(address("n1") >= 1 << 30);
    host.ok("kumiki node rm n1");
    host.leave();
}

#[test]
fn memory_kept_from_the_host_at_its_start_makes_a_node() {
    let wanted = |config: &mut kumiki_lab::Config| {
        config.append.extend(["memmap=256M$0x30000000".to_owned(), "mem=1792M".to_owned()]);
    };
    let Some(host) = Host::own("6.1", wanted) else { return };
    host.add_image();
    let create = "kumiki node create n1 --memory-from boot --image deb";
    host.ok(&format!("{create} --memory 256M,128M"));
    let memory = host.ok("cat /sys/class/misc/kumiki-osnode/nodes/n1/memory");
    assert_eq!(memory, "0x30000000 0x10000000\n0x70000000 0x8000000\n");
    host.ok("kumiki node start n1 --timeout 240");
    let total = host.ok("kumiki node exec n1 -- grep MemTotal: /proc/meminfo");
    let kib: u64 = total.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib > 256 << 10, "{total}");
    host.ok("kumiki node stop n1; kumiki node start n1 --timeout 240; kumiki node kill n1");
    // Beside those who look at it: its window is mapped for the module alone.
    host.ok("cd /sys/class/misc/kumiki-osnode/nodes; \
             for n in 1 2 3; do while cat n1/word; do :; done > /dev/null 2>&1 & done; sleep 1; \
             kumiki node rm n1 && wait");
    let said = host.refused(&format!("{create} --memory 512M"));
    assert!(said.contains("memmap=SIZE$ADDRESS"), "{said}");

    // What another one uses is passed over.
    host.ok("echo 'memmap=256M$0x20000000,256M$0x30000000' > line; \
             mount --bind line /proc/cmdline");
    host.ok(&format!("{create} --memory 256M; kumiki node rm n1"));

    // Where the command line and the firmware's map lie, the module knows better:
    // memory in use, and what is no memory at all.
    host.ok("echo 'memmap=256M$0x20000000' > line");
    let said = host.refused(&format!("{create} --memory 256M"));
    assert!(said.contains("memory at 0x20000000") && said.contains("uses some of it"), "{said}");
    host.ok("mount -t tmpfs none /sys/firmware/memmap; mkdir /sys/firmware/memmap/0; \
             cd /sys/firmware/memmap/0; echo 'System RAM' > type; echo 0xe0000000 > start; \
             echo 0xefffffff > end; echo 'memmap=256M$0xe0000000' > /root/line");
    let said = host.refused(&format!("{create} --memory 256M"));
    assert!(said.contains("memory at 0xe0000000") && said.contains("no RAM"), "{said}");
    assert_eq!(host.ok("kumiki node ls --json"), "[]\n");
    host.machine.shut_down(0).unwrap();
}
