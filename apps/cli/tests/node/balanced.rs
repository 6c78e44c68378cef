//! Two servers behind a balancer of the host's, while each is crashed and replaced under way.

use crate::Host;
use crate::devices::bring;
use crate::rooted::two_servers;

/// A request that one server has not answered is asked of the other one. A check is slow where the
/// emulated nodes share two cpus, one of them starting: slow is not down.
const BALANCER: &str = "
global
    maxconn 200
    log stdout format raw local0 notice
defaults
    mode http
    log global
    option log-health-checks
    timeout check 20s
    timeout connect 5s
    timeout client 60s
    timeout server 20s
    retries 4
    option redispatch 1
    retry-on all-retryable-errors
frontend all
    bind 127.0.0.1:8080
    monitor-uri /both
    acl less_than_both nbsrv(nodes) lt 2
    monitor fail if less_than_both
    default_backend nodes
backend nodes
    balance roundrobin
    option httpchk GET /
    default-server check inter 5s fastinter 2s downinter 1s fall 3 rise 1 \
                   observe layer4 error-limit 3 on-error mark-down
    server n1 10.77.1.2:80
    server n2 10.77.2.2:80
";
/// How often each node is crashed; `KUMIKI_CRASHES` of them.
const CRASHES: u32 = 2;

fn crashes() -> u32 {
    let asked = std::env::var("KUMIKI_CRASHES").ok();
    asked.map_or(CRASHES, |text| text.parse().expect("KUMIKI_CRASHES: a number"))
}

/// A file of both nodes, their kernels given this word.
fn machine(word: &str) -> String {
    let node = |n: u32| {
        format!(
            "[node.n{n}]\nimage = \"web\"\nmemory = \"256M\"\nrestart = true\n\
             health = \"http:80/\"\nappend = \"{word}\"\n\
             net = [\"auto,address=10.77.{n}.2/24,host=10.77.{n}.1/24\"]\n"
        )
    };
    format!("cat > two.toml <<'EOF'\n{}{}EOF\n", node(1), node(2))
}

/// Until who watches them knows that both serve.
fn both_up(host: &Host) {
    host.ok("for n in $(seq 300); do \
             [ $(kumiki node ls --json | grep -o '\"state\":\"up\"' | wc -l) = 2 ] && exit 0; \
             sleep 1; done; kumiki node ls; cat watched; false");
}

/// Until the balancer knows it, too.
fn both_known(host: &Host) {
    host.ok(
        "for n in $(seq 100); do (printf 'GET /both HTTP/1.0\\r\\n\\r\\n'; sleep 0.5) | \
         nc -w 5 127.0.0.1 8080 | grep '^HTTP/1.* 200' && exit 0; sleep 0.5; done; cat checks; false",
    );
}

#[test]
#[ignore = "minutes: `cargo xtask test long`, after a change to watch, apply or what a node's network does at its end"]
fn no_request_is_lost_while_servers_crash_and_are_replaced() {
    let Some(host) = two_servers() else { return };
    bring(&host, "haproxy", "/usr/sbin/haproxy", "/opt/haproxy");
    bring(&host, "apache2-utils", "/usr/bin/ab", "/opt/ab");
    host.ok(&format!("{}kumiki node apply two.toml --yes --timeout 120", machine("quiet")));
    host.ok("kumiki node supervise two.toml > watched 2>&1 & echo $! > watch.pid");
    both_up(&host);
    host.ok(&format!(
        "cat > balancer <<'EOF'{BALANCER}EOF\nhaproxy -db -f balancer > checks 2>&1 &"
    ));
    both_known(&host);
    host.ok("rm -f over; (while [ ! -e over ]; do ab -q -s 60 -n 200 -c 2 http://127.0.0.1:8080/ \
             || echo 'ab has ended'; done; touch ended) > asked 2>&1 &");
    for crash in 1..=crashes() {
        for n in [1, 2] {
            host.ok(&format!("kumiki node exec n{n} -- sh -c 'kill $(cat /run/nginx.pid)'; true"));
            host.ok(&format!(
                "for n in $(seq 100); do [ $(grep -c 'n{n}: it has ended' watched) = {crash} ] && \
                 exit 0; sleep 0.5; done; cat watched; false"
            ));
            both_up(&host);
            both_known(&host);
        }
    }
    for word in ["debug", "quiet"] {
        let how = "--yes --timeout 120 --min-ready 10";
        host.ok(&format!("{}kumiki node apply two.toml {how}", machine(word)));
        both_up(&host);
        both_known(&host);
    }
    host.ok("touch over; for n in $(seq 120); do [ -e ended ] && exit 0; sleep 1; done; false");
    let asked = host.ok("cat asked");
    let sum = |what: &str| -> u64 {
        let lines = asked.lines().filter_map(|line| line.strip_prefix(what));
        lines.filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).sum()
    };
    let restarts = host.ok("kumiki node ls");
    eprintln!("{}", host.ok("cat checks"));
    eprintln!("{} requests; {restarts}", sum("Complete requests:"));
    assert!(sum("Complete requests:") > 1000, "{asked}");
    assert_eq!((sum("Failed requests:"), sum("Non-2xx responses:")), (0, 0), "{asked}");
    assert!(!asked.contains("ab has ended"), "{asked}");
    host.ok("kill $(cat watch.pid); kumiki node rm n1 --force; kumiki node rm n2 --force");
    host.machine.shut_down(0).unwrap();
}
