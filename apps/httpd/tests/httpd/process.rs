//! Start, signals, log, end.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use super::scene::{Server, wait_until};

#[test]
fn it_finishes_what_is_under_way_and_ends() {
    let mut server = Server::start_with(&[], |folder| {
        std::fs::write(folder.join("large"), vec![7; 20_000_000]).unwrap();
    });
    let mut under_way = server.connect();
    under_way.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut some = [0; 1000];
    under_way.read_exact(&mut some).unwrap();
    let mut idle = server.connect();
    server.signal("TERM");
    let mut rest = Vec::new();
    assert_eq!(idle.read_to_end(&mut rest).unwrap(), 0);
    under_way.read_to_end(&mut rest).unwrap();
    assert!(rest.len() > 19_999_000, "{}", rest.len());
    assert_eq!(server.wait().code(), Some(0));
    assert!(std::net::TcpStream::connect(server.address).is_err());
}

#[test]
fn a_client_that_takes_nothing_does_not_keep_it_from_ending() {
    let mut server = Server::start_with(&["--grace", "1"], |folder| {
        std::fs::write(folder.join("large"), vec![7; 50_000_000]).unwrap();
    });
    let mut deaf = server.connect();
    deaf.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut some = [0; 10];
    deaf.read_exact(&mut some).unwrap();
    server.signal("INT");
    assert_eq!(server.wait().code(), Some(0));
}

/// Who does not want to wait for what is under way tells it once more.
#[test]
fn a_second_signal_ends_it_at_once() {
    let mut server = Server::start_with(&["--grace", "600"], |folder| {
        std::fs::write(folder.join("large"), vec![7; 50_000_000]).unwrap();
    });
    let mut deaf = server.connect();
    deaf.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut some = [0; 10];
    deaf.read_exact(&mut some).unwrap();
    server.signal("TERM");
    // It hears the second one only when it has heard the first, for which a busy machine has its time.
    std::thread::sleep(std::time::Duration::from_millis(500));
    server.signal("TERM");
    assert_eq!(server.wait().signal(), Some(15));
}

#[test]
fn told_to_reload_it_serves_the_new_folder_and_writes_to_a_new_log() {
    let place = tempfile::tempdir().unwrap();
    for release in ["one", "two"] {
        std::fs::create_dir(place.path().join(release)).unwrap();
        std::fs::write(place.path().join(release).join("a"), release).unwrap();
    }
    let current = place.path().join("current");
    std::os::unix::fs::symlink("one", &current).unwrap();
    let (log, old) = (place.path().join("log"), place.path().join("log.old"));
    // The first folder named is another one: the last counts, so it is given by a link.
    let mut server = Server::start_with(&["--log", log.to_str().unwrap()], |folder| {
        std::fs::remove_dir(folder).unwrap();
        std::os::unix::fs::symlink(&current, folder).unwrap();
    });
    assert_eq!(server.get("/a", "").body, b"one");
    let mut kept = server.connect();
    std::fs::remove_file(&current).unwrap();
    std::os::unix::fs::symlink("two", &current).unwrap();
    std::fs::rename(&log, &old).unwrap();
    server.signal("HUP");
    let start = std::time::Instant::now();
    while server.get("/a", "").body != b"two" {
        assert!(start.elapsed() < super::scene::PATIENCE);
    }
    // A connection from before goes on.
    kept.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    kept.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("two"), "{answer}");
    server.signal("TERM");
    server.wait();
    let lines = |path| std::fs::read_to_string(path).unwrap().lines().count();
    assert!(lines(&log) > 0);
    let _ = lines(&old);
    drop(server);
    // The folder is a link now, which the test has made.
}

#[test]
fn it_listens_on_a_socket_that_it_is_handed() {
    // systemd-socket-activate's own way: descriptor 3, and whose it is.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "handed").unwrap();
    let program = env!("CARGO_BIN_EXE_kumiki-httpd");
    let script = format!("LISTEN_FDS=1 LISTEN_PID=$$ exec '{program}' . 3<&0");
    let socket = std::os::fd::OwnedFd::from(listener);
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .stdin(std::process::Stdio::from(socket))
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /a HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(read.is_ok() && answer.ends_with("handed"), "{answer}");
}

#[test]
fn what_cannot_be_served_is_said_and_ends_with_1() {
    let program = env!("CARGO_BIN_EXE_kumiki-httpd");
    let output = Command::new(program).arg("/no/such/folder").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("opening the folder /no/such/folder"), "{said}");
    assert_eq!(Command::new(program).arg("--workers=0").output().unwrap().status.code(), Some(2));
}

#[test]
fn threads_serve_on_the_cpus_of_a_list() {
    let cpu = kumiki_sys::affinity::current().unwrap().iter().last().unwrap();
    let list = cpu.to_string();
    let mut server = Server::start(&["--cpu-list", &list]);
    assert_eq!(server.get("/none", "").status, 404);
    let mut found = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap() {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim_start_matches(':').trim().to_owned()
        };
        if field("Name").starts_with("worker-") {
            found.push(field("Cpus_allowed_list"));
        }
    }
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(found, [list]);

    let program = env!("CARGO_BIN_EXE_kumiki-httpd");
    let refused = Command::new(program).args(["--cpu-list", "99999"]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("--cpu-list: ") && said.contains("99999"), "{said}");
    let both = ["--cpu-list", "0", "--workers", "2"];
    assert_eq!(Command::new(program).args(both).output().unwrap().status.code(), Some(2));
}

#[test]
fn its_log_tells_each_request() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let mut server = Server::start(&["--log", log.to_str().unwrap(), "--workers", "1"]);
    server.get("/none", "User-Agent: a\"b\r\nReferer: r\r\n");
    server.ask("HEAD", "/", "");
    server.ask("POST", "/", "");
    server.send(b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n");
    server.send(b"\x16\x03\x01\"\r\n\r\n");
    server.signal("TERM");
    server.wait();
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(
        lines[0].contains("\"GET /none HTTP/1.1\" 404 ") && lines[0].ends_with("\"r\" \"a\\x22b\"")
    );
    assert!(lines[1].contains("\"HEAD / HTTP/1.1\" 200 0 "), "{text}");
    assert!(lines[2].contains("\"POST / HTTP/1.1\" 405 "), "{text}");
    // What was refused is told, too, and writes nothing else than its line.
    assert!(lines[3].contains("\"GET /a b HTTP/1.1\" 400 "), "{text}");
    assert!(lines[4].contains("\"\\x16\\x03\\x01\\x22\" 400 "), "{text}");
}

/// An attack that takes answers slowly, or a disk that fails, is seen there.
#[test]
fn its_log_tells_answers_that_end_amid_their_body() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let args =
        ["--log", log.to_str().unwrap(), "--workers", "1", "--send-time", "2", "--grace", "1"];
    let mut server = Server::start_with(&args, |folder| {
        std::fs::write(folder.join("large"), vec![7; 50_000_000]).unwrap();
    });
    let deaf = |name: &str| {
        let mut stream = server.connect();
        stream
            .write_all(format!("GET /large?{name} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
            .unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        stream
    };
    let text = || std::fs::read_to_string(&log).unwrap();
    let _first = deaf("late");
    wait_until("the first has taken nothing for too long", || text().lines().count() == 1);
    let _second = deaf("ends");
    server.signal("TERM");
    server.wait();
    let text = text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    for (line, name) in lines.iter().zip(["late", "ends"]) {
        let (_, rest) = line.split_once(&format!("\"GET /large?{name} HTTP/1.1\" 200 ")).unwrap();
        let bytes: u64 = rest.split(' ').next().unwrap().parse().unwrap();
        assert!((1..50_000_000).contains(&bytes), "{line}");
    }
}

#[test]
fn a_standard_error_that_nobody_reads_does_not_end_it() {
    let place = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (mut server, said) = Server::start_heard(place, &["--workers", "1"], |folder| {
        std::fs::write(folder.join("a"), "a").unwrap();
    });
    drop(said);
    // The folder cannot be opened anew, which is said.
    let folder = server.path("a").parent().unwrap().to_owned();
    let away = folder.with_extension("away");
    std::fs::rename(&folder, &away).unwrap();
    for _ in 0..3 {
        server.signal("HUP");
        assert_eq!(server.get("/a", "").body, b"a");
    }
    std::fs::rename(&away, &folder).unwrap();
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_log_that_nobody_reads_does_not_keep_it_from_ending() {
    let (reader, writer) = std::io::pipe().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "a").unwrap();
    let program = env!("CARGO_BIN_EXE_kumiki-httpd");
    let mut child = Command::new(program)
        .arg(folder.path())
        .args(["--listen", "127.0.0.1:0", "--log", "-", "--workers", "1"])
        .stdout(writer)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    let address = line.split(" on ").nth(1).unwrap().split(',').next().unwrap();
    // Each line some kilobytes: more than a pipe takes.
    let long = "x".repeat(8000);
    for _ in 0..40 {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let request = format!("GET /a HTTP/1.0\r\nUser-Agent: {long}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(rest.contains("the end of the log is lost"), "{rest}");
    drop(reader);
}

/// A figure by its name, of a page of metrics.
fn figure(page: &str, name: &str) -> u64 {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}: {page}")).parse().unwrap()
}

#[test]
fn its_figures_are_openmetrics() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("metrics");
    // One that was killed has left it.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let at = format!("unix:{}", socket.display());
    let server = Server::start_with(&["--metrics", &at, "--connections", "77"], |folder| {
        std::fs::write(folder.join("a"), "abc").unwrap();
        std::fs::write(folder.join("cold"), vec![7; 100_000]).unwrap();
    });
    let ask = |target: &str| {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for _ in 0..5 {
        server.get("/a", "");
    }
    server.get("/none", "");
    let file = std::fs::File::open(server.path("cold")).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    server.get("/cold", "");
    let mut held = server.connect();
    held.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    held.read_exact(&mut [0; 12]).unwrap();
    // An answer is counted once all of it is given to the kernel, which the client may see before.
    super::scene::wait_until("all are counted", || {
        figure(&ask("/metrics"), "kumiki_httpd_answers_total{code=\"2xx\"}") == 7
    });
    super::scene::wait_until("one connection is left", || {
        figure(&ask("/metrics"), "kumiki_httpd_connections") == 1
    });
    let page = ask("/metrics");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text;"));
    assert!(page.ends_with("\n# EOF\n"), "{page}");
    assert_eq!(figure(&page, "kumiki_httpd_answers_total{code=\"4xx\"}"), 1);
    assert_eq!(figure(&page, "kumiki_httpd_connections_max"), 77);
    assert_eq!(figure(&page, "kumiki_httpd_connections_accepted_total"), 8);
    assert_eq!(figure(&page, "kumiki_httpd_cold_calls_under_way"), 0);
    let (hits, cold) =
        (figure(&page, "kumiki_httpd_hits_total"), figure(&page, "kumiki_httpd_cold_calls_total"));
    // Where the file system keeps what was read, none is cold.
    assert!((6..=8).contains(&hits) && (hits == 8 || cold > 0), "{hits} {cold}");
    assert!(figure(&page, "kumiki_httpd_body_bytes_total") >= 100_000 + 6 * 3);
    assert!(figure(&page, "kumiki_httpd_resident_memory_bytes") > 100_000);
    // Each is described before it is told, and none twice.
    let mut names = std::collections::BTreeSet::new();
    for line in page.split_once("\r\n\r\n").unwrap().1.lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            assert!(names.insert(described.split(' ').next().unwrap()), "{line}");
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(names.contains(name.strip_suffix("_total").unwrap_or(name)), "{line}");
        }
    }
    assert!(ask("/other").starts_with("HTTP/1.1 404 "));
}
