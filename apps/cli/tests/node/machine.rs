//! A whole machine by one file.

use std::path::Path;

use crate::Host;
use crate::pool::Kind;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/machine.toml");

#[test]
fn a_file_makes_a_machine_and_a_failed_step_gives_all_back() {
    let Some(host) = Host::shared_without_image(Kind::Debian12) else { return };
    let before = host.resources();
    host.ok("mkdir -p /lib/modules/$(uname -r)/updates && \
             cp osnode-guest.ko /lib/modules/$(uname -r)/updates");
    host.machine.guest().put(Path::new(EXAMPLE), Path::new("machine.toml")).unwrap();

    assert!(
        host.ok("kumiki node plan")
            .starts_with("free cpus: 3,2,1, room for 16 more nodes\nfree memory: ")
    );
    let steps = host.ok("kumiki node plan machine.toml | grep -v ^free");
    let [add, rest @ ..] = &steps.lines().collect::<Vec<_>>()[..] else { panic!("{steps}") };
    assert!(add.starts_with("add image deb ("), "{steps}");
    assert_eq!(
        rest,
        [
            "create node web (cpus 3,2, 256 MiB, image deb)",
            "create node batch (cpus 1, 256 MiB, image deb)",
            "start node web",
        ]
    );
    // The plan has touched nothing.
    assert_eq!(host.ok("kumiki node ls --json; kumiki image ls --json"), "[]\n[]\n");

    refused(&host);
    // From here on nothing is unpacked.
    host.ok("sed -i s/vmlinuz/vmlinux/ machine.toml");
    // Of the last steps, which are begun together, one fails: a kernel without init panics.
    host.ok("sed 's/start = false/start = true/; s/quiet/rdinit=none root=none/' machine.toml \
             > bad.toml");
    let said = host.refused("kumiki node apply bad.toml --timeout 120");
    assert!(said.contains("start node batch: ") && said.contains("undone: 4 steps"), "{said}");
    // Before its module was loaded: from its own memory.
    assert!(said.contains("Kernel panic - not syncing"), "{said}");
    assert_eq!(host.ok("kumiki node ls --json; kumiki image ls --json"), "[]\n[]\n");
    let after = host.resources();
    assert_eq!(after.0, before.0);
    assert!(after.1 + 24 * 1024 > before.1, "{} KiB free, {} before", after.1, before.1);

    host.ok("kumiki node apply machine.toml --timeout 120");
    assert_eq!(host.ok("kumiki node exec web -- nproc"), "2\n");
    top(&host);
    let list = host.ok("kumiki node ls --json");
    // Again: nothing changes.
    assert_eq!(host.ok("kumiki node apply machine.toml --json"), "[]\n");
    assert!(host.ok("kumiki node plan machine.toml").ends_with("nothing to do\n"));
    assert_eq!(host.ok("kumiki node ls --json"), list);
    // What has stopped is started, and what is there may not be something else.
    host.ok("kumiki node kill web");
    let steps = host.ok("kumiki node apply machine.toml --timeout 120 --json");
    assert_eq!(steps, "[{\"step\":\"start\",\"node\":\"web\"}]\n");
    let said = host.refused(
        "sed 's/cpus = 2/cpus = 1/' machine.toml > other.toml; \
                             kumiki node apply other.toml",
    );
    assert!(said.contains("other.toml:17: node.web.cpus: node web exists with cpus 3,2"), "{said}");
    replaced(&host);
    host.ok("kumiki node rm web --force; kumiki node rm batch; kumiki image rm deb");

    killed(&host);
    host.ok("rm /lib/modules/$(uname -r)/updates/osnode-guest.ko");
    host.leave();
}

/// Files that no step is begun of.
fn refused(host: &Host) {
    for (change, says) in [
        ("s/cpus = 2/cpus = 4/", "17: node.web.cpus: 4 cpus, and 2 of 3 that are free (3,2,1)"),
        ("s/\\[1\\]/[9]/", "34: node.batch.cpus: cpu 9 is not on line in the host"),
        ("s/vmlinuz/none/", "/boot/none: No such file"),
        ("s/cpus = 2/cpu = 2/", "17: unknown field `cpu`"),
    ] {
        let said = host.refused(&format!("sed '{change}' machine.toml > m; kumiki node apply m"));
        assert!(said.contains(says), "{change}: {said}");
    }
    assert_eq!(host.ok("kumiki node ls --json; kumiki image ls --json"), "[]\n[]\n");
}

/// A changed file replaces what has changed and nothing else, and the file before comes back.
fn replaced(host: &Host) {
    let batch = host.ok("kumiki node ls --json | tr '}' '\\n' | grep '\"batch\"'");
    let steps = host.ok("cp machine.toml kept.toml; cp other.toml machine.toml; \
                         kumiki node plan machine.toml | grep -v ^free");
    assert_eq!(
        steps,
        "stop and delete node web (cpus: node web exists with cpus 3,2)\n\
         create node web (cpus 3, 256 MiB, image deb)\nstart node web\n"
    );
    host.ok("kumiki node apply machine.toml --yes --timeout 120");
    assert_eq!(host.ok("kumiki node exec web -- nproc"), "1\n");
    let status = host.ok("kumiki node rollout status");
    assert!(status.contains("machine.toml: applied, begun at 20"), "{status}");
    assert_eq!(status.matches("\ndone ").count(), 3, "{status}");
    // A new one that does not start: the old one is back.
    host.ok("sed '/node.web/a append = \"rdinit=none root=none\"' other.toml > machine.toml");
    let said = host.refused("kumiki node apply machine.toml --yes --timeout 120");
    assert!(said.contains("start node web: ") && said.contains("undone: 2 steps"), "{said}");
    assert_eq!(host.ok("kumiki node exec web -- nproc"), "1\n");
    host.ok("kumiki node rollout status | grep -q 'failed, what was done is undone'");
    host.ok("cp other.toml machine.toml; kumiki node apply machine.toml; \
             kumiki node rollout undo --timeout 120; cp kept.toml machine.toml");
    assert_eq!(host.ok("kumiki node exec web -- nproc"), "2\n");
    assert!(host.ok("kumiki node plan machine.toml").ends_with("nothing to do\n"));
    assert_eq!(host.ok("kumiki node ls --json | tr '}' '\\n' | grep '\"batch\"'"), batch);
}

/// The machine itself and its nodes, with what they are used for.
fn top(host: &Host) {
    let text = host.ok("kumiki node top --every 1 --count 2");
    let [_, second] = &text.split("2 nodes, 1 ready").skip(1).collect::<Vec<_>>()[..] else {
        panic!("{text}")
    };
    let row = |name: &str| {
        let line = second.lines().find(|line| line.contains(name));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert!(row("0 (host)").contains(" % ") && row(" web ").contains(" % "), "{text}");
    assert!(!row(" batch ").contains('%'), "{text}");
    assert!(host.ok("kumiki node ls").contains("0 (host)"));
}

/// Killed at some moments, it leaves what is shown and can be given back.
fn killed(host: &Host) {
    for seconds in ["2", "6"] {
        host.run(&format!("timeout -s KILL {seconds} kumiki node apply machine.toml"));
        host.ok("for n in $(ls /sys/class/misc/kumiki-osnode/nodes); do \
                 kumiki node rm $n --force || exit; done");
        host.ok("for n in $(ls /sys/class/misc/kumiki-osnode/images); do \
                 kumiki image rm $n || exit; done");
        assert_eq!(host.ok("kumiki node ls --json; kumiki image ls --json"), "[]\n[]\n");
        assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0-3\n", "after {seconds} s");
    }
}

/// Cpus and memory that a node got as it ran are given back where a later step fails.
#[test]
#[ignore = "a minute: `cargo xtask test long`, after a change to apply or to how cpus and memory move"]
fn what_a_node_got_is_given_back_where_a_later_step_fails() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    let file = |cpus: u32, mib: u32, more: &str| {
        host.ok(&format!(
            "cat > one.toml <<'EOF'\n[node.n1]\nimage = \"deb\"\ncpus = {cpus}\nmin_cpus = 1\nmax_cpus = 2\n\
             memory = \"{mib}M\"\nmax_memory = \"512M\"\n{more}EOF\n"
        ))
    };
    let has = || {
        let cpus = host.ok("kumiki node exec n1 -- nproc; cat /sys/devices/system/cpu/online");
        let pieces = host.ok("cat /sys/class/misc/kumiki-osnode/nodes/n1/memory | wc -l");
        (cpus, pieces)
    };
    file(1, 256, "");
    host.ok("kumiki node apply one.toml --timeout 240");
    let before = has();
    assert_eq!(before.0, "1\n0-2\n");
    // Its kernel has no init, and panics.
    file(
        2,
        384,
        "[node.n2]\nimage = \"deb\"\nmemory = \"256M\"\nappend = \"rdinit=none root=none\"\n",
    );
    let steps = host.ok("kumiki node plan one.toml");
    assert!(steps.contains("resize node n1 (cpus 3,"), "{steps}");
    assert!(steps.contains("resize node n1 (384 MiB after 256)"), "{steps}");
    let said = host.refused("kumiki node apply one.toml --timeout 240");
    assert!(said.contains("start node n2: ") && said.contains("undone: 3 steps"), "{said}");
    assert_eq!(has(), before);
    // It ran all the time, and can have them later.
    file(2, 384, "");
    host.ok("kumiki node apply one.toml --timeout 240");
    assert_eq!(host.ok("kumiki node exec n1 -- nproc"), "2\n");
    host.ok("kumiki node rm n1 --force");
    host.leave();
}
