//! Bells between kernels: heard wherever their vector is, and on every kernel that is served.

use kumiki_lab::Config;

use crate::Host;
use crate::pool::Kind;

/// Where a node's bell is on the host, and the host's in a node.
const OF_NODE: &str = "kumiki-n1";
const OF_HOST: &str = "kumiki-host";

/// Number and count of an interrupt, by its name.
fn line_of(name: &str) -> String {
    format!("grep -w {name} /proc/interrupts | sed 's/^ *//; s/:.*//'")
}

/// Programs and a disk's reads and writes, with both bells moved meanwhile.
fn heard_everywhere(host: &Host) {
    host.ok("truncate -s 64M disk; kumiki node create n1 --cpus 2 --memory 320M --image deb --disk disk");
    host.ok("kumiki node start n1 --timeout 240");
    let load = "(for n in 1 2 3; do (while ! test -e enough; do kumiki node exec n1 -- \
                sh -c 'dd if=/dev/zero bs=64k count=50' > /dev/null 2>> failed || echo no >> failed; \
                done) & done; wait; echo > over) > /dev/null 2>&1 &";
    host.ok(&format!("rm -f enough over; : > failed; {load}"));
    host.ok("kumiki node exec n1 -- sh -c 'for n in 1 2 3; do \
             (setsid sh -c \"while ! test -e /enough; do dd if=/dev/vda of=/dev/null bs=64k iflag=direct; \
             dd if=/dev/zero of=/dev/vda bs=64k count=200 oflag=direct; done\" > /dev/null 2>&1 &); done'");
    for mask in [2, 1, 2] {
        host.ok(&format!("echo {mask} > /proc/irq/$({})/smp_affinity; sleep 1", line_of(OF_NODE)));
        host.ok("kumiki node exec n1 -- true");
        let there = format!("echo {mask} > /proc/irq/$({})/smp_affinity", line_of(OF_HOST));
        host.ok(&format!("cat > line <<'EOF'\n{there}\nEOF\nkumiki node exec n1 -- sh < line"));
        host.ok("kumiki node exec n1 -- true");
    }
    // Both are at the second cpu, which goes.
    host.ok("kumiki node exec n1 -- sh -c 'echo 0 > /sys/devices/system/cpu/cpu1/online'");
    host.ok("kumiki node exec n1 -- true; echo 0 > /sys/devices/system/cpu/cpu1/online; \
             kumiki node exec n1 -- true; echo 1 > /sys/devices/system/cpu/cpu1/online; \
             kumiki node exec n1 -- sh -c 'echo 1 > /sys/devices/system/cpu/cpu1/online'");
    host.ok("kumiki node exec n1 -- touch /enough; touch enough; \
             until test -e over; do sleep 0.1; done; cat failed >&2; ! grep -q no failed");
    // On those cpus that the host still has.
    let rung = host.ok(&format!("awk '/{OF_NODE}/ {{print $2 + $3}}' /proc/interrupts"));
    assert!(rung.trim().parse::<u64>().unwrap() > 100, "{rung}");
    host.ok("kumiki node snapshot n1 warm; kumiki node start n1 --from warm --timeout 240; \
             kumiki node exec n1 -- dd if=/dev/vda of=/dev/null bs=64k count=100 iflag=direct");
    host.ok("kumiki node rm n1 --force; kumiki image rm warm");
    assert_eq!(host.ok(&format!("grep -c {OF_NODE} /proc/interrupts || true")), "0\n");
}

#[test]
#[ignore = "a minute: as those below; each test of a node rings bells where they lie at its start"]
fn bells_are_heard_where_their_vectors_are() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    heard_everywhere(&host);
    host.leave();
}

fn on_a_kernel_of_its_own(kernel: &str) {
    let memory = |config: &mut Config| config.memory_bytes = 3 << 30;
    let Some(host) = Host::own(kernel, memory) else { return };
    host.add_image();
    heard_everywhere(&host);
    host.ok("kumiki image rm deb");
    host.leave();
}

#[test]
#[ignore = "two minutes each: `cargo xtask test long`, after a change to how bells are sent or heard"]
fn bells_are_heard_on_debian_13() {
    on_a_kernel_of_its_own("6.12");
}

#[test]
#[ignore = "as the one above; there what is woken in a bell may sleep"]
fn bells_are_heard_where_interrupts_are_threads() {
    on_a_kernel_of_its_own("6.12-rt");
}

#[test]
#[ignore = "as the one above, on the newest kernel that Debian makes for a release"]
fn bells_are_heard_on_the_newest_kernel() {
    on_a_kernel_of_its_own("backports");
}
