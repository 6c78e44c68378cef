//! `kumiki place serve`, and `kumiki resource` with places behind a real NATS server.

#[allow(dead_code, reason = "tests of other subjects use the rest")]
#[path = "../cli/common.rs"]
mod common;
#[path = "../nats/mod.rs"]
mod nats;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};

use common::Home;
use nats::NatsServer;
use serde_json::Value;

/// A place that serves, until it is dropped.
struct Serving(Child);

impl Serving {
    fn start(home: &Home, args: &[&str]) -> Serving {
        Serving::of(home, &[&["place", "serve", "--host", "hostb"], args].concat())
    }

    fn of(home: &Home, args: &[&str]) -> Serving {
        let mut command = home.start(args);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("serving hostb.core"), "{line:?}");
        Serving(child)
    }

    /// Ends it as a person does; its exit status.
    fn end(&mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_durable_place_that_is_killed_has_its_values_when_it_is_served_again() {
    let home = Home::new();
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap().to_string();
    let allow = "list = true\n[kind.counter]\ncreate = true\nparts = [\"add\"]\n";
    let allow = home.write("allow", allow);
    let folder = home.path("kept");
    let more = ["--cpu-list", &cpu, "--durable", folder.to_str().unwrap()];
    let serve =
        || Serving::start(&home, &[&more[..], &["--allow", allow.to_str().unwrap()]].concat());
    let hits = format!("hostb.core{cpu}/counter/hits");
    let text = |args: &[&str]| {
        let mut command = home.kumiki(&[&["resource"], args].concat());
        String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap()
    };
    let serving = serve();
    let id = text(&["create", &hits, "41"]);
    assert_eq!(text(&["call", &hits, "add", "1"]), "42\n");
    // Killed, and not ended.
    drop(serving);
    let serving = serve();
    assert_eq!(text(&["call", &hits, "add", "1"]), "43\n");
    // Another process stands by while this one serves, and serves when it has been killed.
    let standby = [&more[..], &["--standby", "--allow", allow.to_str().unwrap()]].concat();
    let mut serving = std::thread::scope(|scope| {
        let stands_by = scope.spawn(|| Serving::start(&home, &standby));
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert_eq!(text(&["call", &hits, "add", "0"]), "43\n");
        assert!(!stands_by.is_finished(), "two serve it");
        drop(serving);
        stands_by.join().unwrap()
    });
    assert!(text(&["ls", "*/counter/*", "--json"]).contains(id.trim()));
    // Another process takes it over.
    let allowed = allow.to_str().unwrap();
    let mut taken = Serving::start(&home, &[&more[..], &["--take", "--allow", allowed]].concat());
    assert_eq!(serving.0.wait().unwrap().code(), Some(0), "it has handed its place over");
    assert_eq!(text(&["call", &hits, "add", "1"]), "44\n");
    // It moves to another folder, and to another core if there is one, if it may.
    let away = home.path("away");
    let last = kumiki_sys::affinity::current().unwrap().iter().last().unwrap().to_string();
    let place = format!("hostb.core{cpu}");
    let moves = ["place", "move", &place, "--durable", away.to_str().unwrap(), "--cpu", &last];
    let moves = [&moves[..], &["--allow", allowed]].concat();
    let said = home.kumiki(&moves).assert().code(2).get_output().stderr.clone();
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("`move = true` in its allow-list"), "{said}");
    assert_eq!(taken.end(), Some(0));
    let list = std::fs::read_to_string(&allow).unwrap();
    std::fs::write(&allow, format!("move = true\n{list}")).unwrap();
    let mut left = serve();
    // A mistake in the list of where it is to be leaves it where it is.
    let wrong = home.write("wrong", "list = true\n[kind.conuter]\ncreate = true\n");
    let args = [&moves[..moves.len() - 1], &[wrong.to_str().unwrap()]].concat();
    let said = home.kumiki(&args).assert().code(2).get_output().stderr.clone();
    assert!(String::from_utf8(said).unwrap().contains("conuter"));
    assert_eq!(text(&["call", &hits, "add", "0"]), "44\n");
    let mut moved = Serving::of(&home, &moves);
    assert_eq!(left.0.wait().unwrap().code(), Some(0), "it has handed its place over");
    let again = ["--timeout", "30s"];
    assert_eq!(text(&[&["call", &hits, "add", "1"][..], &again].concat()), "45\n");
    assert_eq!(moved.end(), Some(0));
    let args = [&["place", "serve", "--host", "hostb"], &more[..]].concat();
    let said = home.kumiki(&args).assert().code(2).get_output().stderr.clone();
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("has left") && said.contains("away"), "{said}");
    let _again = Serving::of(&home, &moves);
    assert_eq!(text(&["call", &hits, "add", "1"]), "46\n");
    // Kinds that cannot be kept are told before anything is served.
    let process = home.write("process", "[kind.process]\ncreate = true\n");
    let args = [&["place", "serve", "--host", "hostb"], &more[..]].concat();
    let mut refused = home.kumiki(&[&args[..], &["--allow", process.to_str().unwrap()]].concat());
    let said = refused.assert().code(2).get_output().clone();
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("kind process, whose resources cannot be kept"), "{said}");
}

#[test]
fn a_durable_place_moves_behind_a_server_to_another_folder_and_is_called_as_before() {
    let (home, nats) = (Home::new(), NatsServer::start());
    let url = nats.url();
    let cpus = kumiki_sys::affinity::current().unwrap();
    let first = cpus.iter().next().unwrap().to_string();
    let last = cpus.iter().last().unwrap().to_string();
    let list = "move = true\nlist = true\n[kind.counter]\ncreate = true\nparts = [\"add\"]\n";
    let allow = home.write("allow", list);
    let common = ["--nats", &url, "--allow", allow.to_str().unwrap(), "--durable"];
    let (from, to) = (home.path("from"), home.path("to"));
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    let place = format!("hostb.core{first}");
    let hits = format!("{place}/counter/hits");
    let text = |args: &[&str]| {
        let args = [&["resource"], args, &["--nats", &url]].concat();
        let mut command = home.kumiki(&args);
        String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap()
    };
    let serve = [&common[..], &[from, "--cpu-list", &first]].concat();
    let mut left = Serving::start(&home, &serve);
    let id = text(&["create", &hits, "41"]);
    assert_eq!(text(&["call", &hits, "add", "1"]), "42\n");
    // A name that nobody serves, and one that is no name.
    for (wrong, word) in [("hostb.core4711", "nobody answers"), ("hostb", "HOST.coreN is meant")] {
        let args = [&["place", "move", wrong], &common[..], &[to, "--cpu", &last]].concat();
        let said = home.kumiki(&args).assert().code(2).get_output().stderr.clone();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains(word), "{wrong}: {said}");
    }
    let moves = [&["place", "move", &place], &common[..], &[to, "--cpu", &last]].concat();
    let mut moved = Serving::of(&home, &moves);
    assert_eq!(left.0.wait().unwrap().code(), Some(0), "it has handed its place over");
    assert_eq!(text(&["call", &hits, "add", "1", "--timeout", "30s"]), "43\n");
    // The same resource, by the same name and id.
    assert!(text(&["ls", "*/counter/*", "--json"]).contains(id.trim()));
    // Its former folder is refused, by the name of the new one, and the command goes on where it was.
    let args = [&["place", "serve", "--host", "hostb"], &serve[..]].concat();
    let said = home.kumiki(&args).assert().code(2).get_output().stderr.clone();
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("has left") && said.contains(to), "{said}");
    assert_eq!(moved.end(), Some(0));
    let _again = Serving::of(&home, &moves);
    assert_eq!(text(&["call", &hits, "add", "1"]), "44\n");
}

#[test]
fn a_place_behind_a_server_is_listed_and_answers_a_call() {
    let (home, nats) = (Home::new(), NatsServer::start());
    let url = nats.url();
    let at = ["--nats", url.as_str()];
    let kumiki = |args: &[&str]| {
        let mut command = home.kumiki(&[&["resource"], args, &at].concat());
        command.env("XDG_RUNTIME_DIR", home.path("run"));
        command
    };
    let said = kumiki(&["ls"]).assert().code(1).get_output().clone();
    assert!(String::from_utf8(said.stderr).unwrap().contains("no place behind"));

    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap().to_string();
    let allow = home.write(
        "allow",
        "list = true\n[kind.counter]\ncreate = true\ndestroy = true\nparts = [\"add\"]\n",
    );
    let allow = allow.to_str().unwrap();
    let more = ["--cpu-list", &cpu, "--allow", allow];
    let mut serving = Serving::start(&home, &[&at[..], &more].concat());
    let place = format!("hostb.core{cpu}");
    let hits = format!("{place}/counter/hits");
    let text = |args: &[&str]| {
        String::from_utf8(kumiki(args).assert().success().get_output().stdout.clone()).unwrap()
    };
    assert!(text(&["create", &hits, "41"]).starts_with("0x"));
    assert_eq!(text(&["call", &hits, "add", "1"]), "42\n");
    assert_eq!(text(&["call", &hits, "add", "-2"]), "40\n");
    let listed = text(&["ls"]);
    for part in ["hostb\n", &format!("  {place}\n"), "counter/hits", "place/", "serving"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let json: Value = serde_json::from_str(&text(&["ls", "*/counter/*", "--json"])).unwrap();
    assert_eq!((json[0]["name"].as_str(), json[0]["state"].as_str()), (Some(&*hits), Some("40")));
    assert!(text(&["top", "--count", "1"]).contains("counter/hits"));

    let refused = |args: &[&str], word: &str| {
        let said = kumiki(args).assert().code(2).get_output().stderr.clone();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains(word), "{args:?}: {said}");
    };
    // The server is named once for all commands, and an empty name is this machine.
    let by_variable = |args: &[&str]| {
        let mut command = home.kumiki(&[&["resource"], args].concat());
        command.env("XDG_RUNTIME_DIR", home.path("run")).env("KUMIKI_NATS", &url);
        command
    };
    let said = by_variable(&["call", &hits, "add", "0"]).assert().success().get_output().clone();
    assert_eq!(said.stdout, b"40\n");
    let here = by_variable(&["call", &hits, "add", "0", "--nats", ""]).assert().code(2);
    let said = String::from_utf8(here.get_output().stderr.clone()).unwrap();
    assert!(said.contains("nobody answers") && said.contains("of this machine"), "{said}");
    // A process is one of here.
    let process = by_variable(&["ls", "--pid", "1"]).assert().code(2).get_output().stderr.clone();
    let said = String::from_utf8(process).unwrap();
    assert!(said.contains("run/kumiki/1.sock"), "{said}");
    let mut nowhere = home.kumiki(&["resource", "ls", "--creds", "/nowhere"]);
    let nowhere = nowhere.env_remove("KUMIKI_NATS").assert().code(2).get_output().stderr.clone();
    let said = String::from_utf8(nowhere).unwrap();
    assert!(said.contains("--creds") && said.contains("KUMIKI_NATS"), "{said}");

    refused(&["call", &hits, "get"], "not in this place's allow-list");
    refused(&["call", &hits, "grow"], "it has: add, get");
    refused(&["call", &hits, "add", "\"x\""], "takes something else");
    refused(&["call", &hits, "add", "x"], "is not JSON");
    refused(&["call", "hosta.core0/counter/hits", "add", "1"], "nobody answers");
    refused(&["create", &format!("{place}/memory/m"), "1"], "not in this place's allow-list");
    refused(&["create", &hits, "1"], "exists already");

    // In a process of its own, as a person watches while another works.
    let mut watch = home.start(&[&["resource", "watch", &place, "**/counter/*"], &at[..]].concat());
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    let heard = lines.next().unwrap();
    assert!(heard.starts_with(&format!("  {place} is here")), "{heard}");
    text(&["create", &format!("{place}/counter/more"), "1"]);
    assert_eq!(lines.next().unwrap(), format!("+ {place}/counter/more"));
    text(&["rm", &hits]);
    assert_eq!(lines.next().unwrap(), format!("- {hits}"));
    refused(&["call", &hits, "add", "1"], "no resource is called");
    assert_eq!(serving.end(), Some(0));
    let heard = lines.next().unwrap();
    assert!(heard.contains("is gone"), "{heard}");
    assert_eq!(watch.wait().unwrap().code(), Some(1));
    kumiki(&["ls"]).assert().code(1);
}

#[test]
fn a_mistake_in_an_allow_list_is_told_before_anything_is_served() {
    let (home, nats) = (Home::new(), NatsServer::start());
    let path = home.write("allow", "list = true\n\n[kind.conuter]\ncreate = true\n");
    let path = path.to_str().unwrap();
    let url = nats.url();
    let args = ["place", "serve", "--nats", &url, "--allow", path];
    let said = home.kumiki(&args).assert().code(2).get_output().stderr.clone();
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("allow:3:7: there is no kind \"conuter\" here"), "{said}");
    let absent = home.kumiki(&["place", "serve", "--nats", "nats://127.0.0.1:1"]).assert().code(2);
    let said = String::from_utf8(absent.get_output().stderr.clone()).unwrap();
    assert!(said.contains("connecting to NATS at nats://127.0.0.1:1"), "{said}");
}

/// A server, a place behind it that runs processes, and a home.
struct Runs {
    home: Home,
    nats: NatsServer,
    place: String,
    serving: Serving,
}

impl Runs {
    fn start() -> Runs {
        Runs::start_with(&[])
    }

    /// With more options of `kumiki place serve`.
    fn start_with(more: &[&str]) -> Runs {
        let (home, nats) = (Home::new(), NatsServer::start());
        let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap().to_string();
        let rules = "list = true\n[kind.process]\ncreate = true\ndestroy = true\nparts = [\"*\"]\n";
        let allow = home.write("allow", rules);
        let (url, allow) = (nats.url(), allow.to_str().unwrap().to_owned());
        let args = ["--nats", &url, "--cpu-list", &cpu, "--allow", &allow];
        let serving = Serving::start(&home, &[&args[..], more].concat());
        Runs { home, nats, place: format!("hostb.core{cpu}"), serving }
    }

    /// `kumiki run`, to be started.
    fn command(&self, more: &[&str], words: &[&str]) -> std::process::Command {
        let url = self.nats.url();
        let args = [&["run", "--nats", &url], more, &["--"], words].concat();
        let mut command = self.home.start(&args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

#[test]
fn a_command_runs_at_a_place_with_its_streams_and_its_exit_status() {
    use std::io::Write;
    let runs = Runs::start();
    let text = "cat; echo to err >&2; echo $WORD; pwd; exit 3";
    let more = ["-e", "WORD=value", "-w", "/", &*runs.place];
    let mut child = runs.command(&more, &["sh", "-c", text]).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&[b'x'; 200_000]).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), err.as_str()), (Some(3), "to err\n"));
    assert_eq!(output.stdout.len(), 200_000 + "value\n/\n".len());
    assert!(output.stdout.ends_with(b"xvalue\n/\n"));

    // Where the place is chosen, too, and where it cannot start.
    let chosen =
        runs.command(&["hostb.*", "--choose", "least-loaded"], &["true"]).output().unwrap();
    assert_eq!(chosen.status.code(), Some(0), "{chosen:?}");
    let refused = runs.command(&[&*runs.place], &["/nowhere/program"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("No such file"), "{refused:?}");
    let refused = runs.command(&[&*runs.place], &["/etc/passwd"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(126), "{refused:?}");
    let no_folder = ["-w", "/nowhere", &*runs.place];
    let refused = runs.command(&no_folder, &["true"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let nobody = runs.command(&["hosta.core0"], &["true"]).output().unwrap();
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("nobody answers"), "{nobody:?}");
}

#[test]
fn a_place_that_listens_is_called_by_a_connection_of_the_callers_own() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("metrics");
    let told = format!("unix:{}", at.display());
    let runs = Runs::start_with(&["--listen", "127.0.0.1:0", "--metrics", &told]);
    let mut child = runs.command(&[&*runs.place], &["cat"]).spawn().unwrap();
    let (mut to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut from = BufReader::new(from);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let one = format!("kumiki_place_own_connections{{place=\"{}\"}} 1\n", runs.place);
    while !metrics(&at).contains(&one) {
        assert!(std::time::Instant::now() < end, "{}", metrics(&at));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    for n in 0..50 {
        let line = format!("line {n}\n");
        to.write_all(line.as_bytes()).unwrap();
        let mut read = String::new();
        from.read_line(&mut read).unwrap();
        assert_eq!(read, line);
    }
    drop(to);
    assert_eq!(child.wait().unwrap().code(), Some(0));

    let refused = |more: &[&str], word: &str| {
        let mut command = runs.home.kumiki(&[&["place", "serve"], more].concat());
        let said = command.assert().code(2).get_output().stderr.clone();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains(word), "{more:?}: {said}");
    };
    let url = runs.nats.url();
    refused(&["--listen", "127.0.0.1:0"], "give --nats URL");
    refused(&["--nats", &url, "--reached-at", "127.0.0.1:1"], "--listen");
    let all = ["--nats", &url, "--host", "hostc", "--listen", "0.0.0.0:0"];
    refused(&all, "name the address by which they reach it");
}

#[test]
fn what_a_command_prints_arrives_or_kumiki_run_says_so() {
    let runs = Runs::start();
    let says = |to: &str, words: &[&str]| {
        let url = runs.nats.url();
        let script = format!("exec \"$0\" \"$@\" {to}");
        let kumiki = ["-c", &script, env!("CARGO_BIN_EXE_kumiki")];
        let args = ["run", "--nats", &url, &*runs.place, "--"];
        runs.home
            .run_by("sh", &[&kumiki[..], &args, words].concat())
            .output()
            .unwrap()
            .status
            .code()
    };
    for to in [">&-", ">/dev/full"] {
        assert_eq!(says(to, &["echo", "text"]), Some(2), "{to}");
        assert_eq!(says(to, &["true"]), Some(0), "{to}");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut unread = runs.command(&[&*runs.place], &["echo", "text"]);
    assert_eq!(unread.stdout(writer).status().unwrap().code(), Some(141));
}

#[test]
fn a_signal_to_kumiki_run_is_the_commands_and_its_end_by_one_is_told() {
    let mut runs = Runs::start();
    let text = "trap 'echo heard; exit 5' INT; echo ready; while :; do sleep 0.05; done";
    let signal = |child: &Child, signal| {
        let pid = rustix::process::Pid::from_child(child);
        rustix::process::kill_process(pid, signal).unwrap();
    };
    let mut child = runs.command(&[&*runs.place], &["sh", "-c", text]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "ready");
    signal(&child, rustix::process::Signal::INT);
    assert_eq!(lines.next().unwrap(), "heard");
    assert_eq!(child.wait().unwrap().code(), Some(5));

    let text = "echo ready; exec sleep 1000";
    let mut child = runs.command(&[&*runs.place], &["sh", "-c", text]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "ready");
    signal(&child, rustix::process::Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));

    // One that does not end by it is left by the second one, and ends.
    let text = "trap '' TERM INT; echo $$; while :; do sleep 0.05; done";
    let mut child = runs.command(&[&*runs.place], &["sh", "-c", text]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let pid = lines.next().unwrap();
    signal(&child, rustix::process::Signal::TERM);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(child.try_wait().unwrap(), None, "the first one is the command's");
    signal(&child, rustix::process::Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    let path = std::path::Path::new("/proc").join(pid);
    common::wait_until("the command that was left ends", || !path.exists());

    let text = "echo ready; exec sleep 1000";
    // Its place ends: nobody knows how the command has.
    let mut child = runs.command(&[&*runs.place], &["sh", "-c", text]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "ready");
    assert_eq!(runs.serving.end(), Some(0));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(!output.stderr.is_empty());
}

/// What came of a command is not its place's child, and may be in any group and session.
#[test]
fn a_place_that_is_killed_takes_along_what_came_of_its_commands() {
    use std::fs;
    use std::time::{Duration, Instant};
    let mut runs = Runs::start();
    let begin = [
        "sleep 4711.1 & setsid sleep 4711.2 & (setsid sh -c 'sleep 4711.3 & sleep 4711.4' &)",
        "(env -i setsid sleep 4711.5; true) & echo ready; sleep 4711.6",
    ];
    let mut child =
        runs.command(&[&*runs.place], &["sh", "-c", &begin.join("; ")]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "ready");
    let sleeping = || {
        let line = |pid: String| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let all = fs::read_dir("/proc").unwrap();
        let all = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        all.filter(|pid| line(pid.clone()).starts_with(b"sleep\x004711.")).count()
    };
    let wait_for = |wanted: usize| {
        let end = Instant::now() + Duration::from_secs(60);
        while sleeping() != wanted {
            assert!(Instant::now() < end, "{} of them sleep, not {wanted}", sleeping());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait_for(6);
    runs.serving.0.kill().unwrap();
    wait_for(0);
    let _ = child.kill();
    child.wait().unwrap();
}

/// The list that a package brings to be edited.
#[test]
fn the_example_of_an_allow_list_is_one() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/place.toml");
    let (home, nats) = (Home::new(), NatsServer::start());
    let url = nats.url();
    let mut serving = Serving::start(&home, &["--nats", &url, "--allow", example]);
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn a_process_of_this_machine_is_a_place_without_any_server() {
    let home = Home::new();
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap().to_string();
    let rules = "list = true\n[kind.counter]\ncreate = true\ndestroy = true\nparts = [\"*\"]\n\
                 [kind.process]\ncreate = true\ndestroy = true\nparts = [\"*\"]\n";
    let allow = home.write("allow", rules).to_str().unwrap().to_owned();
    std::fs::create_dir(home.path("run")).unwrap();
    let here = |args: &[&str]| {
        let mut command = home.kumiki(args);
        command.env("XDG_RUNTIME_DIR", home.path("run"));
        command
    };
    let text = |args: &[&str]| {
        String::from_utf8(here(args).assert().success().get_output().stdout.clone()).unwrap()
    };
    let start = || {
        let args = ["place", "serve", "--host", "web", "--cpu-list", &cpu, "--allow", &allow];
        let mut command = home.start(&args);
        command.env("XDG_RUNTIME_DIR", home.path("run")).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, format!("serving web.core{cpu}\n"));
        Serving(child)
    };
    let mut serving = start();
    let hits = format!("web.core{cpu}/counter/hits");
    text(&["resource", "create", &hits, "41"]);
    assert_eq!(text(&["resource", "call", &hits, "add", "1"]), "42\n");
    let chosen = text(&["resource", "create", "web.*/counter/more", "1", "--choose", "any"]);
    assert!(chosen.starts_with(&format!("web.core{cpu} 0x")), "{chosen}");
    assert_eq!(text(&["run", &format!("web.core{cpu}"), "--", "echo", "hello"]), "hello\n");
    // Its process lists what it has itself, and the place is listed beside.
    let listed = text(&["resource", "ls"]);
    assert_eq!(listed.matches("counter/hits").count(), 1, "{listed}");
    let by = format!("serving by {}", serving.0.id());
    assert!(listed.contains("place/") && listed.contains(&by), "{listed}");
    // By its former name, which goes on for a version and says so.
    let former = here(&["resource", "delete", &hits]).assert().success().get_output().clone();
    let said = String::from_utf8(former.stderr).unwrap();
    assert!(said.contains("`delete` of `kumiki resource` is called `rm`"), "{said}");
    assert_eq!(serving.end(), Some(0));
    let gone = here(&["resource", "call", &hits, "add"]).assert().code(2).get_output().clone();
    let gone = String::from_utf8(gone.stderr).unwrap();
    // The cure is one of here: there is no server.
    let cure = "`kumiki resource ls` shows those of this machine";
    assert!(gone.contains("nobody answers") && gone.contains(cure), "{gone}");
}

/// What stands in an answer of `GET /metrics` at a socket.
fn metrics(path: &std::path::Path) -> String {
    let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn what_places_have_done_is_told_to_collectors_and_what_happens_to_a_trace() {
    let home = Home::new();
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap().to_string();
    std::fs::create_dir(home.path("run")).unwrap();
    let start = |trace: &str| {
        let at = format!("unix:{}", home.path("metrics").display());
        let args = ["place", "serve", "--host", "web", "--cpu-list", &cpu, "--metrics", &at];
        let mut command = home.start(&args);
        command.env("XDG_RUNTIME_DIR", home.path("run")).env("KUMIKI_TRACE", trace);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let trace = home.path("trace");
    let trace = if cfg!(feature = "trace") { trace.to_str().unwrap() } else { "" };
    let mut child = start(trace);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, format!("serving web.core{cpu}\n"));
    let mut serving = Serving(child);
    let messages = format!("kumiki_place_messages_total{{place=\"web.core{cpu}\"}} ");
    let count = || {
        let told = metrics(&home.path("metrics"));
        let found = told.lines().find_map(|line| line.strip_prefix(&messages)?.parse::<u64>().ok());
        found.unwrap_or_else(|| panic!("{told}"))
    };
    let before = count();
    let mut ls = home.kumiki(&["resource", "ls", "web.*"]);
    ls.env("XDG_RUNTIME_DIR", home.path("run")).assert().success();
    assert!(count() > before, "a listing is a message");
    assert_eq!(serving.end(), Some(0));
    if cfg!(feature = "trace") {
        let told = std::fs::read_to_string(trace).unwrap();
        assert!(told.contains("start a thread") || told.contains("kumiki_"), "{told}");
    } else {
        // Silence would say that nothing has happened.
        let refused = start("somewhere").wait_with_output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("KUMIKI_TRACE") && said.contains("`trace`"), "{said}");
    }
}

#[test]
fn places_that_a_command_reaches_are_called_here_and_go_with_it() {
    let home = Home::new();
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap().to_string();
    let rules = "list = true\n[kind.counter]\ncreate = true\ndestroy = true\nparts = [\"*\"]\n";
    let allow = home.write("allow", rules).to_str().unwrap().to_owned();
    let runtime = |name: &str| {
        let folder = home.path(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder.to_str().unwrap().to_owned()
    };
    let (near, far) = (runtime("near"), runtime("far"));
    let start = |runtime: &str, args: &[&str]| {
        let mut command = home.start(args);
        command.env("XDG_RUNTIME_DIR", runtime).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let args = ["place", "serve", "--host", "box", "--cpu-list", &cpu, "--allow", &allow];
    let mut serving = Serving(start(&far, &args));
    let kumiki = env!("CARGO_BIN_EXE_kumiki");
    let there = format!("XDG_RUNTIME_DIR={far}");
    let args = ["place", "attach", "box", "--", "env", &there, kumiki, "place", "relay", "box"];
    let mut attach = start(&near, &args);
    let mut lines = BufReader::new(attach.stdout.take().unwrap()).lines().map(Result::unwrap);
    let place = format!("box.core{cpu}");
    assert_eq!(lines.next().unwrap(), format!("+ {place}"));
    let here = |args: &[&str]| {
        let mut command = home.kumiki(&[&["resource"], args].concat());
        command.env("XDG_RUNTIME_DIR", &near);
        command
    };
    let hits = format!("{place}/counter/hits");
    here(&["create", &hits, "41"]).assert().success();
    here(&["call", &hits, "add", "1"]).assert().success().stdout("42\n");
    here(&["create", "box.*/counter/x", "1", "--choose", "least-loaded"]).assert().success();
    let listed = here(&["ls"]).assert().success().get_output().stdout.clone();
    let listed = String::from_utf8(listed).unwrap();
    // A place alone means all that it has.
    let alone = here(&["ls", &place]).assert().success().get_output().stdout.clone();
    assert!(String::from_utf8(alone).unwrap().contains("counter/hits"));
    // Names are those that were typed, and what was wrong is said in words.
    let twice = here(&["create", &hits, "1"]).assert().code(2).get_output().stderr.clone();
    assert!(String::from_utf8(twice).unwrap().contains(&hits));
    let text = here(&["call", &hits, "add", "\"one\""]).assert().code(2).get_output().clone();
    assert!(String::from_utf8_lossy(&text.stderr).contains("a text stands where"), "{text:?}");
    for part in ["box\n", &format!("  {place}\n"), "counter/hits", "serving by"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    // Lent on to a third, as one node calls another by its host.
    let third = runtime("third");
    let there = format!("XDG_RUNTIME_DIR={third}");
    let args = ["place", "lend", "box", "--", "env", &there, kumiki, "place", "attach", "box"];
    let mut lend = start(&near, &[&args[..], &["--stdio"]].concat());
    let mut said = BufReader::new(lend.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().unwrap(), format!("kumiki: + {place}"));
    let from_third = |args: &[&str]| {
        let mut command = home.kumiki(&[&["resource"], args].concat());
        command.env("XDG_RUNTIME_DIR", &third);
        command
    };
    from_third(&["call", &hits, "add", "1"]).assert().success().stdout("43\n");
    // A person watches at the socket, too.
    let mut watch = start(&near, &["resource", "watch", &place, "**/counter/*"]);
    let mut news = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(news.next().unwrap().contains("is here"));
    here(&["create", &format!("{place}/counter/more"), "1"]).assert().success();
    assert_eq!(news.next().unwrap(), format!("+ {place}/counter/more"));
    assert_eq!(serving.end(), Some(0));
    assert_eq!(lines.next().unwrap(), format!("- {place}"));
    assert_eq!(said.next().unwrap(), format!("kumiki: - {place}"));
    from_third(&["call", &hits, "add"]).assert().code(2);
    assert_eq!(Serving(lend).end(), Some(0));
    assert!(news.next().unwrap().contains("is gone"));
    assert_eq!(watch.wait().unwrap().code(), Some(1));
    here(&["call", &hits, "add"]).assert().code(2);
    // Ended by a person, and by its command.
    let mut attach = Serving(attach);
    assert_eq!(attach.end(), Some(0));
    let failed =
        start(&near, &["place", "attach", "box", "--", "false"]).wait_with_output().unwrap();
    assert_eq!(failed.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("the places of box are gone"));
}
