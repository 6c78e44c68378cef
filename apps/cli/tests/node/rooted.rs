//! Nodes whose root is a container image: Debian's own nginx, as `docker save` packs it.

use std::path::Path;

use kumiki_lab::{Cache, Config, Talk, saved_nginx};

use crate::devices::bring;
use crate::pool::Turn;
use crate::{Host, built, chosen_kernel, had};

/// Of the nodes' kernel, for their root.
pub(crate) const DRIVERS: [&str; 5] = ["libnvdimm", "nd_e820", "nd_pmem", "erofs", "overlay"];
const PAGE: &str = "a page from an image";
/// Machines of their own: the image is in its memory several times while it is made.
const HOST_BYTES: u64 = 4 << 30;

/// A machine with an image that serves pages, on which two nodes do; `None` where there can be
/// none.
pub(crate) fn two_servers() -> Option<Host> {
    let wanted = |config: &mut Config| {
        config.memory_bytes = HOST_BYTES;
        config
            .files
            .extend(built(&chosen_kernel()).unwrap().kernel.driver_files(&DRIVERS).unwrap());
    };
    let host = had(Host::start(&chosen_kernel(), wanted, Turn::wait()))?;
    let folder = tempfile::tempdir().unwrap();
    let talk = Talk::to(&|text| eprintln!("{text}"));
    let saved = saved_nginx(&Cache::of_user().unwrap(), folder.path(), PAGE, talk).unwrap();
    host.machine.guest().put(&saved, Path::new("saved.tar")).unwrap();
    let add = "kumiki image add web --kernel /boot/vmlinux --guest-module osnode-guest.ko --rootfs";
    let said = host.refused(&format!("{add} docker-archive:saved.tar"));
    assert!(said.contains("install the package erofs-utils"), "{said}");
    bring(&host, "erofs-utils", "/usr/bin/mkfs.erofs", "/opt/erofs");
    host.ok(&format!("{add} docker-archive:saved.tar; rm saved.tar; kumiki image verify web"));

    let create = |n: u32| {
        format!(
            "kumiki node create n{n} --memory 256M --image web \
             --net auto,address=10.77.{n}.2/24,host=10.77.{n}.1/24"
        )
    };
    for n in [1, 2] {
        host.ok(&format!("{}; kumiki node start n{n} --timeout 120", create(n)));
        let tries = format!(
            "for n in $(seq 30); do {} > page; [ -s page ] && exit 0; done; kumiki node logs n{n} | \
             tail -n 40; kumiki node exec n{n} -- ls /; false",
            get(n, "")
        );
        host.ok(&tries);
        assert_eq!(host.ok("cat page"), PAGE);
    }
    Some(host)
}

#[test]
fn nodes_serve_pages_from_one_container_image() {
    let Some(host) = two_servers() else { return };
    within(&host);
    one_copy(&host);
    ends_with_its_program(&host);
    // Nobody's root any more.
    host.ok("kumiki node rm n1; kumiki node rm n2 --force; kumiki image rm web");
    host.machine.shut_down(0).unwrap();
}

/// A line that prints a page of a node's; nothing if there is none.
fn get(node: u32, path: &str) -> String {
    // nc(1) ends with its input.
    format!(
        "(printf 'GET /{path} HTTP/1.0\\r\\n\\r\\n'; sleep 1) | nc -w 5 10.77.{node}.2 80 | \
         sed '1,/^\\r$/d'"
    )
}

/// Programs have the image's files, and write what is theirs alone.
fn within(host: &Host) {
    let exec = |line: &str| host.ok(&format!("kumiki node exec n1 -- sh -c '{line}'"));
    assert!(exec("cat /etc/os-release; id -u").contains("bookworm"));
    assert!(!host.ok("kumiki node logs n1").contains("through the page cache"));
    assert_eq!(exec("ls /usr/share/doc /kumiki 2>&1 | grep -c No"), "2\n");
    assert!(exec("cat /proc/[0-9]*/status | grep -A9 nginx | grep Uid").contains("\t33\t"));
    // Variables of the image, and of the node.
    assert_eq!(exec("echo $IN $PATH $HOSTNAME"), "image /usr/sbin:/usr/bin n1\n");
    // As its image asks how it is.
    host.ok("kumiki node exec n1 --health");
    exec("echo sick > /srv/www/index.html");
    assert_eq!(host.run("kumiki node exec n1 --health").exit.code(), 1);
    exec("echo mine > /etc/mine; echo changed > /srv/www/index.html");
    host.ok("kumiki node exec n2 -- sh -c '! ls /etc/mine'");
    host.ok("echo brought > brought; kumiki node cp brought n1:/srv/www/; \
             kumiki node cp n1:/etc/mine back; grep -q mine back");
    assert_eq!(host.ok(&get(1, "brought")), "brought\n");
    assert_eq!(host.ok(&get(1, "")), "changed\n");
    assert_eq!(host.ok(&get(2, "")), PAGE);
}

/// What is read is where it was: nothing of it is in a node's page cache.
fn one_copy(host: &Host) {
    let cached = "grep ^Cached: /proc/meminfo | tr -dc 0-9";
    let before = host.ok(&format!("kumiki node exec n2 -- sh -c '{cached}'"));
    let read = "find /usr -type f -exec cat {} + | wc -c";
    let bytes = host.ok(&format!("kumiki node exec n2 -- sh -c '{read}'"));
    let after = host.ok(&format!("kumiki node exec n2 -- sh -c '{cached}'"));
    let number = |text: &str| text.trim().parse::<u64>().unwrap();
    let kib = number(&bytes) >> 10;
    assert!(kib > 8 << 10, "{kib} KiB");
    assert!(number(&after) < number(&before) + kib / 8, "{before} {after} {kib}");
    let said = host.refused("kumiki image rm web --force");
    assert!(said.contains("is the root of n1, n2"), "{said}");
    host.ok("kumiki image verify web");
}

/// As a container does; and starts again, by itself if it is to be kept up.
fn ends_with_its_program(host: &Host) {
    let crash = "kumiki node exec n1 -- sh -c 'kill $(cat /run/nginx.pid)'";
    host.run(crash);
    host.ok(
        r#"for n in $(seq 100); do kumiki node ls --json | grep -q '"state":"ended"' && exit 0; sleep 0.2; done; false"#,
    );
    let log = host.ok("kumiki node logs n1");
    assert!(log.contains("the image's program has ended: /usr/sbin/nginx"), "{log}");
    host.ok(
        "cat > web.toml <<'EOF'\n[node.n1]\nimage = \"web\"\nmemory = \"256M\"\nrestart = true\n\
             health = \"http:80/\"\nnet = [\"auto,address=10.77.1.2/24\"]\nEOF\n\
             kumiki node supervise web.toml > watched 2>&1 & echo $! > watch.pid",
    );
    let up =
        format!("for n in $(seq 60); do {} > page; [ -s page ] && exit 0; done; false", get(1, ""));
    host.ok(&up);
    assert_eq!(host.ok("cat page"), PAGE);
    host.ok(
        "for n in $(seq 50); do kumiki node ls --json | grep -q '\"state\":\"up\"' && exit 0; \
             sleep 0.2; done; false",
    );
    host.run(crash);
    host.ok(
        "for n in $(seq 100); do kumiki node ls | grep -q 'restarts: 1' && exit 0; sleep 0.2; \
             done; cat watched; false",
    );
    host.ok(&format!("{up}; kill $(cat watch.pid); grep 'n1: it has ended' watched"));
    // By the signal that its image names, which for nginx is the end in order.
    host.ok("kumiki node stop n1");
    let log = host.ok("kumiki node logs n1");
    assert!(log.contains("signal 3 (SIGQUIT) received") && log.contains("gracefully"), "{log}");
}
