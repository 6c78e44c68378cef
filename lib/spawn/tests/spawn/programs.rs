//! Images in memory, and what is none.

use std::fs;
use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Wake, Waker};

use kumiki_spawn::{Command, NoProgram, Program, Refusal, Stdio};

#[test]
fn it_runs_without_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy");
    fs::copy("/bin/echo", &path).unwrap();
    let program = Program::load(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let output = program.command().args(["a", "b"]).output().unwrap();
    assert_eq!(output.stdout, b"a b\n");
    assert_eq!(program.path(), path);
    // Nobody can change it.
    use std::os::fd::AsFd;
    let write = rustix::io::pwrite(program.as_fd(), b"x", 0);
    assert_eq!(write, Err(rustix::io::Errno::PERM));
    assert_eq!(program.clone().command().status().unwrap().code(), Some(0));
}

fn refused(folder: &Path, content: &[u8]) -> (NoProgram, Option<i32>) {
    let path = folder.join("file");
    let _ = fs::remove_file(&path);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let spawned = Command::new(&path).spawn();
    (Program::load(&path).unwrap_err(), spawned.err().and_then(|error| Refusal::number(&error)))
}

#[test]
fn what_is_no_program_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |content: &[u8]| refused(folder.path(), content);
    let (error, _) = refused(b"#! /bin/sh -e\nexit 0\n");
    assert!(matches!(&error, NoProgram::Script { interpreter, .. } if interpreter == "/bin/sh"));
    assert!(error.to_string().contains("give it the script"), "{error}");
    let (error, number) = refused(b"text");
    assert!(matches!(error, NoProgram::NoElf { .. }), "{error}");
    assert_eq!((error.errno(), number), (libc::ENOEXEC, Some(libc::ENOEXEC)));
    let echo = fs::read("/bin/echo").unwrap();
    let (error, _) = refused(&echo[..echo.len() / 4]);
    assert!(error.to_string().contains("in the middle"), "{error}");
    let (error, number) = refused(&echo[..30]);
    assert!(matches!(error, NoProgram::NoElf { .. }), "{error}");
    assert_eq!(number, Some(libc::ENOEXEC));
    let mut other = echo.clone();
    let (machine, name) =
        if cfg!(target_arch = "x86_64") { (183_u16, "64-bit ARM") } else { (62, "x86-64") };
    other[18..20].copy_from_slice(&machine.to_le_bytes());
    let (error, number) = refused(&other);
    assert!(error.to_string().contains(&format!("for {name}, and this machine")), "{error}");
    assert_eq!(number, Some(libc::ENOEXEC));
    // What loads it is named in the image, in a place of its own.
    let loader = b"/lib64/ld-linux";
    let at = echo.windows(loader.len()).position(|bytes| bytes == loader);
    let mut orphan = echo;
    orphan[at.unwrap() + 1] = b'X';
    let (error, number) = refused(&orphan);
    assert!(error.to_string().contains("/Xib64/ld-linux"), "{error}");
    assert_eq!((error.errno(), number), (libc::ENOENT, Some(libc::ENOENT)));
    let error = Program::load("/no/such/program").unwrap_err();
    assert_eq!(error.errno(), libc::ENOENT);
    assert_eq!(Program::load("/").unwrap_err().errno(), libc::EACCES);
}

struct Flag(AtomicBool, std::thread::Thread);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
        self.1.unpark();
    }
}

/// The least of runtimes.
fn block_on<F: Future>(future: F) -> F::Output {
    let flag = Arc::new(Flag(AtomicBool::new(false), std::thread::current()));
    let waker = Waker::from(Arc::clone(&flag));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        while !flag.0.swap(false, SeqCst) {
            std::thread::park();
        }
    }
}

#[test]
fn ends_are_awaited() {
    for code in 0..20 {
        let script = format!("exit {code}");
        let mut child = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        assert_eq!(block_on(child.wait_async()).unwrap().code(), Some(code));
        assert_eq!(block_on(child.wait_async()).unwrap().code(), Some(code));
    }
    // One that is awaited no more can be awaited again.
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(child.wait_async()).poll(&mut context).is_pending());
    child.kill().unwrap();
    assert_eq!(block_on(child.wait_async()).unwrap().code(), None);
}

/// One waker that panics is not to leave all others asleep.
#[test]
fn a_waker_that_panics_keeps_nobody_else_from_being_woken() {
    struct Broken;
    impl Wake for Broken {
        fn wake(self: Arc<Self>) {
            panic!("made up: a waker that panics");
        }
    }
    let mut first = Command::new("sleep").arg("0.1").spawn().unwrap();
    let waker = Waker::from(Arc::new(Broken));
    let mut its = pin!(first.wait_async());
    assert!(its.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut second = Command::new("sleep").arg("0.5").spawn().unwrap();
        tell.send(block_on(second.wait_async()).unwrap().code()).unwrap();
    });
    let ended = told.recv_timeout(std::time::Duration::from_secs(20));
    assert_eq!(ended.expect("the thread that wakes has ended"), Some(0));
}

#[test]
fn making_is_awaited() {
    let mut server = kumiki_spawn::SpawnServer::new();
    server.start().unwrap();
    for code in 0..20 {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("echo {code}; exit {code}")]).stdout(Stdio::piped());
        let child = block_on(command.spawn_async(&mut server)).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(output.stdout, format!("{code}\n").as_bytes());
        let mut missing = Command::new("/no/such/program");
        let error = block_on(missing.spawn_async(&mut server)).unwrap_err();
        assert_eq!(Refusal::number(&error), Some(libc::ENOENT));
        assert_eq!(missing.refused_at(), Some("executing the program /no/such/program"));
    }
    // One that nobody awaits any more is made all the same, and the server is free again.
    let (mut reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    let mut command = Command::new("echo");
    command.arg("made").stdout(writer);
    let mut context = Context::from_waker(Waker::noop());
    let _ = pin!(command.spawn_async(&mut server)).poll(&mut context);
    drop(command);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
    assert_eq!(text, "made\n");
    assert!(block_on(Command::new("true").spawn_async(&mut server)).unwrap().wait().is_ok());
}
