//! Files, folders, parts, conditions.

use std::io::{Read, Write};
use std::path::Path;

use super::scene::{Answer, Server};

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 % 251) as u8).collect()
}

fn fill(folder: &Path) {
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    write("page.html", b"<p>page");
    write("page.html.gz", b"as gzip");
    write("page.html.br", b"as brotli");
    write("large", &content(1_000_000));
    write("empty.txt", b"");
    std::fs::create_dir_all(folder.join("folder/below")).unwrap();
    write("folder/<&>.txt", b"x");
    std::fs::create_dir(folder.join("indexed")).unwrap();
    write("indexed/index.html", b"index");
    std::os::unix::fs::symlink("page.html", folder.join("within")).unwrap();
}

/// Has the kernel forget all contents, as far as the file system does so.
fn make_cold(server: &Server) {
    for name in ["page.html", "large", "indexed/index.html"] {
        let file = std::fs::File::open(server.path(name)).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

#[test]
fn files_are_served_whole_warm_and_cold() {
    let server = Server::start_with(&[], fill);
    for _ in 0..3 {
        make_cold(&server);
        let large = server.get("/large", "");
        assert!(large.status == 200 && large.body == content(1_000_000));
        let page = server.get("/page.html?v=1", "Accept-Encoding: gzip\r\n");
        assert_eq!((page.status, &page.body[..]), (200, &b"<p>page"[..]));
        assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(server.get("/within", "").body, b"<p>page");
        let empty = server.get("/empty.txt", "");
        assert_eq!((empty.status, empty.body.len()), (200, 0));
        let head = server.ask("HEAD", "/large", "");
        assert_eq!((head.status, head.field("Content-Length")), (200, Some("1000000")));
    }
    for (target, status) in
        [("/none", 404), ("/page.html/", 404), ("/page.html/x", 404), ("/large/../page.html", 400)]
    {
        assert_eq!(server.get(target, "").status, status, "{target}");
    }
}

#[test]
fn folders_have_an_index_or_a_list() {
    let server = Server::start_with(&[], fill);
    assert_eq!(server.get("/indexed/", "").body, b"index");
    let redirect = server.get("/folder", "");
    assert_eq!((redirect.status, redirect.field("Location")), (301, Some("/folder/")));
    let list = String::from_utf8(server.get("/folder/", "").body).unwrap();
    assert!(
        list.contains("./below/") && list.contains("&lt;&amp;&gt;.txt") && list.contains("../")
    );
    let linked = list.split("href=\"./").nth(2).unwrap().split('"').next().unwrap();
    assert_eq!(server.get(&format!("/folder/{linked}"), "").body, b"x");
    let without = Server::start_with(&["--no-list"], fill);
    assert_eq!(without.get("/folder/", "").status, 403);
    assert_eq!(without.get("/indexed/", "").status, 200);
}

#[test]
fn parts_of_files_are_served() {
    let server = Server::start_with(&[], fill);
    let all = content(1_000_000);
    for (range, part) in [
        ("0-0", 0..1),
        ("500000-", 500_000..1_000_000),
        ("-5", 999_995..1_000_000),
        ("70000-200000", 70_000..200_001),
        ("999999-2000000", 999_999..1_000_000),
    ] {
        make_cold(&server);
        let answer = server.get("/large", &format!("Range: bytes={range}\r\n"));
        assert_eq!(answer.status, 206, "{range}");
        let told = format!("bytes {}-{}/1000000", part.start, part.end - 1);
        assert_eq!(answer.field("Content-Range"), Some(&told[..]));
        assert!(answer.body == all[part], "{range}");
    }
    let behind = server.get("/large", "Range: bytes=1000000-\r\n");
    assert_eq!((behind.status, behind.field("Content-Range")), (416, Some("bytes */1000000")));
    assert_eq!(server.get("/large", "Range: bytes=1-2,4-5\r\n").status, 200);
    let tag = server.get("/large", "").field("ETag").unwrap().to_owned();
    let part = |validator: &str| {
        server.get("/large", &format!("Range: bytes=5-9\r\nIf-Range: {validator}\r\n"))
    };
    assert_eq!(part(&tag).body, all[5..10]);
    assert!(part("\"other\"").body == all);
}

#[test]
fn conditions_are_judged_by_tag_and_date() {
    let server = Server::start_with(&[], fill);
    let whole = server.get("/page.html", "");
    let (tag, date) = (whole.field("ETag").unwrap(), whole.field("Last-Modified").unwrap());
    for (fields, status) in [
        (format!("If-None-Match: {tag}\r\n"), 304),
        (format!("If-Modified-Since: {date}\r\n"), 304),
        (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {date}\r\n"), 200),
        (format!("If-Match: {tag}\r\n"), 200),
        ("If-Match: \"x\"\r\n".to_owned(), 412),
    ] {
        let answer = server.get("/page.html", &fields);
        assert_eq!(answer.status, status, "{fields}");
        assert_eq!(answer.body == b"<p>page", status == 200);
    }
    std::fs::write(server.path("page.html"), "another").unwrap();
    assert_eq!(server.get("/page.html", &format!("If-None-Match: {tag}\r\n")).body, b"another");
}

#[test]
fn files_in_a_coding_are_served_to_who_takes_it() {
    let server = Server::start_with(&["--precompressed"], fill);
    for (accepted, coding, body) in [
        ("gzip", Some("gzip"), &b"as gzip"[..]),
        ("gzip, br", Some("br"), b"as brotli"),
        ("br;q=0, zstd", None, b"<p>page"),
    ] {
        let answer = server.get("/page.html", &format!("Accept-Encoding: {accepted}\r\n"));
        assert_eq!((answer.field("Content-Encoding"), &answer.body[..]), (coding, body));
        assert_eq!(answer.field("Content-Type"), Some("text/html; charset=utf-8"));
        assert_eq!(answer.field("Vary"), Some("Accept-Encoding"));
    }
}

#[test]
fn requests_in_a_row_are_answered_in_their_order() {
    let server = Server::start_with(&[], fill);
    let mut requests = String::new();
    for at in 0..50 {
        let target = ["/page.html", "/large", "/none", "/empty.txt"][at % 4];
        let last = if at == 49 { "Connection: close\r\n" } else { "" };
        requests += &format!("GET {target} HTTP/1.1\r\nHost: x\r\n{last}\r\n");
    }
    make_cold(&server);
    let mut stream = server.connect();
    // In parts that end within a head.
    let writer = {
        let mut stream = stream.try_clone().unwrap();
        std::thread::spawn(move || {
            for part in requests.as_bytes().chunks(37) {
                stream.write_all(part).unwrap();
            }
        })
    };
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    writer.join().unwrap();
    let mut rest = &bytes[..];
    for at in 0..50 {
        let (answer, after) = Answer::parse(rest, false);
        rest = after;
        let (status, length) = [(200, 7), (200, 1_000_000), (404, 64), (200, 0)][at % 4];
        assert_eq!(answer.status, status, "{at}");
        assert!(answer.body.len() == length || status == 404, "{at}");
    }
    assert!(rest.is_empty());
}

#[test]
fn a_variant_that_cannot_be_served_does_not_hide_its_file() {
    let server = Server::start_with(&["--precompressed"], |folder| {
        let names = ["mode", "fifo", "out", "loop", "folder", "device", "absolute", "dangling"];
        for name in names {
            std::fs::write(folder.join(name), name).unwrap();
        }
        let variant = |name: &str| folder.join(format!("{name}.gz"));
        let link = |to: &str, name| std::os::unix::fs::symlink(to, variant(name)).unwrap();
        std::fs::write(variant("mode"), "x").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o0);
        std::fs::set_permissions(variant("mode"), mode).unwrap();
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mkfifoat(rustix::fs::CWD, variant("fifo"), mode).unwrap();
        link("../../../../../../../../../etc/passwd", "out");
        link("loop.gz", "loop");
        std::fs::create_dir(variant("folder")).unwrap();
        link("/dev/null", "device");
        link("/etc/passwd", "absolute");
        link("nowhere", "dangling");
    });
    let is_root = std::fs::read(server.path("mode.gz")).is_ok();
    for name in ["mode", "fifo", "out", "loop", "folder", "device", "absolute", "dangling"] {
        let answer = server.get(&format!("/{name}"), "Accept-Encoding: gzip\r\n");
        if name == "mode" && is_root {
            continue;
        }
        assert_eq!((answer.status, &answer.body[..]), (200, name.as_bytes()), "{name}");
        assert_eq!(answer.field("Content-Encoding"), None, "{name}");
    }
}

#[test]
fn an_absolute_link_within_the_folder_is_followed_and_one_out_of_it_is_not() {
    let server = Server::start_with(&[], |folder| {
        let link = |to: &Path, name: &str| {
            std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
        };
        std::fs::create_dir_all(folder.join("real/below")).unwrap();
        std::fs::write(folder.join("real/file"), "real").unwrap();
        std::fs::write(folder.join("real/index.html"), "index").unwrap();
        std::fs::write(folder.join("real/below/file"), "below").unwrap();
        link(&folder.join("real/file"), "file");
        link(&folder.join("real"), "folder");
        link(&folder.join("real/below"), "real/again");
        link(folder, "self");
        link(&folder.join("nowhere"), "dangling");
        link(Path::new("/etc"), "etc");
        // Its name begins as the folder's does.
        link(&folder.with_extension("other"), "beside");
    });
    for (target, body) in [
        ("/file", "real"),
        ("/folder/file", "real"),
        ("/folder/", "index"),
        ("/folder/below/file", "below"),
        ("/folder/again/file", "below"),
        ("/self/self/file", "real"),
    ] {
        let answer = server.get(target, "");
        assert_eq!((answer.status, &answer.body[..]), (200, body.as_bytes()), "{target}");
    }
    let redirect = server.get("/folder/below", "");
    assert_eq!((redirect.status, redirect.field("Location")), (301, Some("/folder/below/")));
    assert!(server.get("/folder/below/", "").body.windows(4).any(|four| four == b"file"));
    for target in ["/folder/none", "/folder/none/none", "/folder/below/none"] {
        assert_eq!(server.get(target, "").status, 404, "{target}");
    }
    // What is not there out of the folder is told as what is.
    for target in
        ["/etc/passwd", "/etc/no-such-file", "/etc/no/such", "/etc/", "/dangling", "/beside"]
    {
        assert_eq!(server.get(target, "").status, 403, "{target}");
    }
    // Not looked at to its start, nor is anybody's stack.
    let long = "/a".repeat(1700);
    assert_eq!(server.get(&format!("/folder{long}"), "").status, 403);
    assert_eq!(server.get("/file", "").body, b"real");
}

#[test]
fn a_file_that_somebody_has_a_lease_of_is_waited_for() {
    const HOLD: &str = "
import fcntl, os, signal, sys
signal.alarm(100)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('held', flush=True)
signal.sigwait([signal.SIGIO])
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
print('given back', flush=True)
";
    let server = Server::start_with(&[], fill);
    let mut holder = std::process::Command::new("python3");
    holder.args(["-c", HOLD]).arg(server.path("page.html")).stdout(std::process::Stdio::piped());
    let Ok(mut holder) = holder.spawn() else { return eprintln!("skipped: no python3 here") };
    let mut said = std::io::BufReader::new(holder.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    if line != "held\n" {
        holder.wait().unwrap();
        return eprintln!("skipped: no lease can be had here");
    }
    assert_eq!(server.get("/page.html", "").body, b"<p>page");
    line.clear();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert_eq!(line, "given back\n");
    assert!(holder.wait().unwrap().success());
}

#[test]
fn names_with_a_dot_are_hidden_if_that_is_asked_for() {
    let fill = |folder: &Path| {
        for name in [".git", ".well-known"] {
            std::fs::create_dir(folder.join(name)).unwrap();
            std::fs::write(folder.join(name).join("file"), name).unwrap();
        }
        std::fs::write(folder.join("seen"), "seen").unwrap();
    };
    let (shown, hidden) =
        (Server::start_with(&[], fill), Server::start_with(&["--hide-dot"], fill));
    assert_eq!(shown.get("/.git/file", "").body, b".git");
    for (target, status) in [
        ("/.git/file", 404),
        ("/.git/", 404),
        ("/.git", 404),
        ("/seen", 200),
        ("/.well-known/file", 200),
    ] {
        assert_eq!(hidden.get(target, "").status, status, "{target}");
    }
    let list = |server: &Server| String::from_utf8(server.get("/", "").body).unwrap();
    assert!(list(&shown).contains(".git") && list(&hidden).contains("seen"));
    assert!(!list(&hidden).contains(".git"));
}
