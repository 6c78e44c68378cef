//! `kumiki-httpd`: clients that read whole and in part, pipeline, leave, stall and cut.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use fastrand::Rng;

use crate::child::Server;
use crate::faults::{self, Calm, Fault};
use crate::ground::{Ground, Hanging};
use crate::http::{Answer, Http};
use crate::site::{Page, Site};
use crate::soak::Soak;
use crate::watch::LOST;

const CLIENTS: u64 = 24;
/// Descriptors that the server may have, so that they can be used up.
const DESCRIPTORS: usize = 400;
/// A file system that hangs does so for so long, and so many are asked of it a moment.
const HANGS: Duration = Duration::from_secs(2);
const HANGING: u64 = 3;

pub(crate) fn serve(words: &[String]) -> Result<()> {
    kumiki_httpd::run(&kumiki_httpd::args::Args::parse_from(words))
}

pub(crate) fn soak(soak: &'static Soak, ground: &Ground) -> Result<()> {
    let site = Site::new(ground)?;
    let logs = ground.path("logs");
    // Full after some seconds: what cannot be written there is to hold up nobody.
    ground.memory(&logs, 1 << 20)?;
    let folder = site.folder.to_string_lossy().into_owned();
    let log = logs.join("log").to_string_lossy().into_owned();
    let words = ["httpd", &*folder, "--listen", "127.0.0.1:0", "-w", "2", "--log", &*log];
    let (server, address) = Server::at_address(&words, DESCRIPTORS, " on ")?;
    soak.watch_process(server.pid());
    let hanging: Mutex<Option<Hanging>> = Mutex::default();
    std::thread::scope(|threads| {
        for number in 0..CLIENTS {
            let (site, hanging) = (&site, &hanging);
            threads.spawn(move || HttpClient::run(soak, site, address, number, hanging));
        }
        let (server, site, hanging) = (&server, &site, &hanging);
        threads.spawn(move || faults::draw(soak, site.faults(), Duration::from_millis(50)));
        // What is handed over, not what is in memory, can be lost.
        threads.spawn(move || faults::draw(soak, vec![site.cold()], Duration::from_millis(2)));
        threads.spawn(move || {
            let anew = |_: &mut Rng| server.signal(nix::sys::signal::SIGHUP);
            let all = vec![
                faults::stopped(server),
                faults::descriptors_out(soak, address, DESCRIPTORS),
                hangs(ground, site, hanging),
                Fault::new("the log opened anew", anew),
            ];
            faults::draw_with_rests(soak, &Calm::default(), all, Duration::from_millis(500));
        });
        threads.spawn(move || server.look_until_over(soak));
        soak.guard();
    });
    server.finish(soak, &["read", "read in part", "not there", "cut"])
}

/// Mounts a file system that answers nothing, or has all who wait for it go.
fn hangs<'a>(ground: &'a Ground, site: &'a Site, hanging: &'a Mutex<Option<Hanging>>) -> Fault<'a> {
    Fault::new("a file system hangs", move |_| {
        let made = ground.hang(&site.folder.join("hangs"))?;
        *hanging.lock().expect("nobody panics with it") = made;
        std::thread::sleep(HANGS);
        hanging.lock().expect("nobody panics with it").take();
        Ok(())
    })
}

struct HttpClient<'a> {
    soak: &'a Soak,
    site: &'a Site,
    address: SocketAddr,
    rng: Rng,
    kept: Option<Http>,
    /// A page, the version that it had, and its tag.
    tag: Option<(usize, u32, String)>,
    hanging: &'a Mutex<Option<Hanging>>,
    number: u64,
}

/// A connection and what it was asked, for the words of a failure.
type Asked = Result<Option<Answer>>;

impl<'a> HttpClient<'a> {
    fn run(
        soak: &'a Soak,
        site: &'a Site,
        address: SocketAddr,
        number: u64,
        hanging: &'a Mutex<Option<Hanging>>,
    ) {
        let rng = soak.rng(number);
        let mut client =
            HttpClient { soak, site, address, rng, kept: None, tag: None, hanging, number };
        while !soak.is_over() {
            if let Err(error) = client.act() {
                soak.fail(&format!("client {number}: {error:#}"));
            }
        }
    }

    fn act(&mut self) -> Result<()> {
        match self.rng.u32(..100) {
            0..40 => self.whole(),
            40..60 => self.part(),
            60..70 => self.pipeline(),
            70..76 => self.conditional(),
            76..82 => self.missing(),
            82..88 => self.cut(),
            88..93 => self.half(),
            93..97 => self.slow(),
            _ if self.number < HANGING => self.hang(),
            _ => self.whole(),
        }
    }

    /// The connection that is kept, or a new one.
    fn connection(&mut self) -> Result<(Http, bool)> {
        if self.rng.u32(..10) == 0 {
            self.kept = None;
        }
        if let Some(kept) = self.kept.take() {
            return Ok((kept, true));
        }
        let _waits = self.soak.request("a connection");
        Ok((Http::connect(self.address).context("connecting")?, false))
    }

    /// True if it says no, as a fault is under way, or so late that it is for others to judge: on a
    /// machine that gives it no cpu, a server's own time for an answer is over, too.
    fn is_refused(&self, answer: &Answer, asked: Instant) -> bool {
        answer.status >= 500 && (self.soak.is_excused() || asked.elapsed() > LOST)
    }

    /// Asks once, on a connection that is kept if it can be; `None` if the server would not.
    fn ask(&mut self, method: &str, target: &str, fields: &str) -> Asked {
        loop {
            let (mut http, was_kept) = self.connection()?;
            let asked = Instant::now();
            let waits = self.soak.request(format!("{method} {target} {}", fields.trim_end()));
            let sent = http.send(method, target, fields);
            let answer = match sent {
                Ok(()) => {
                    http.answer(method == "HEAD").with_context(|| format!("{method} {target}"))?
                }
                Err(_) => None,
            };
            drop(waits);
            match answer {
                Some(answer) => {
                    let closes = answer.field("Connection") == Some("close") || !answer.is_whole();
                    self.kept = (!closes || method == "HEAD").then_some(http);
                    if self.is_refused(&answer, asked) {
                        self.soak.count("refused");
                        return Ok(None);
                    }
                    return Ok(Some(answer));
                }
                // It may close one that it has kept at any time.
                None if was_kept => self.soak.count("closed between two requests"),
                None if self.soak.is_excused() => {
                    self.soak.count("refused");
                    return Ok(None);
                }
                None => bail!("closed without an answer: {method} {target}"),
            }
        }
    }

    /// Checks that as many bytes came as were said to come; all of a file that is cut need not.
    fn is_all(page: &Page, answer: &Answer) -> Result<()> {
        let is_all = page.is_cut || answer.is_whole();
        ensure!(is_all, "{}: {} bytes of {}", page.name, answer.body.len(), answer.length);
        Ok(())
    }

    fn check(page: &Page, oldest: u32, answer: &Answer) -> Result<()> {
        Self::is_all(page, answer)?;
        page.check(oldest, &answer.body)
    }

    fn whole(&mut self) -> Result<()> {
        let at = self.site.any(&mut self.rng);
        let page = &self.site.pages[at];
        let oldest = page.oldest();
        let Some(answer) = self.ask("GET", &format!("/{}", page.name), "")? else { return Ok(()) };
        ensure!(answer.status == 200, "{}: {}", page.name, answer.status);
        Self::check(page, oldest, &answer)?;
        if let Some(tag) = answer.field("ETag").filter(|_| !page.is_cut && oldest == page.newest())
        {
            self.tag = Some((at, oldest, tag.to_owned()));
        }
        self.soak.count("read");
        Ok(())
    }

    fn part(&mut self) -> Result<()> {
        let page = self.site.page(&mut self.rng);
        let oldest = page.oldest();
        let most = page.file.most.max(1);
        let start = self.rng.usize(..most);
        let length = self.rng.usize(1..=most);
        let range = format!("Range: bytes={start}-{}\r\n", start + length - 1);
        let Some(answer) = self.ask("GET", &format!("/{}", page.name), &range)? else {
            return Ok(());
        };
        match answer.status {
            206 => {
                let told = answer.field("Content-Range").context("no Content-Range")?;
                let (span, total) =
                    told.trim_start_matches("bytes ").split_once('/').context(told.to_owned())?;
                let first = span.split('-').next().unwrap_or("").parse::<usize>();
                ensure!(first == Ok(start), "{}: {told}, asked for {start}", page.name);
                let total: usize = total.parse().context("Content-Range")?;
                let all = answer.length == length.min(total.saturating_sub(start));
                ensure!(all, "{}: {} bytes, asked for {length}: {told}", page.name, answer.length);
                Self::is_all(page, &answer)?;
                page.check_part(oldest, start, length, &answer.body)?;
            }
            416 => {
                let is_short = |version| page.file.size(version) <= start;
                let may = page.is_cut || (oldest..=page.newest()).any(is_short);
                ensure!(may, "{}: 416 for {start}", page.name);
            }
            status => bail!("{}: {status} for {range}", page.name),
        }
        self.soak.count("read in part");
        Ok(())
    }

    fn pipeline(&mut self) -> Result<()> {
        let pages: Vec<_> =
            (0..self.rng.usize(2..8)).map(|_| self.site.page(&mut self.rng)).collect();
        let (mut http, _) = self.connection()?;
        let begun = Instant::now();
        let asked: Vec<_> = pages.into_iter().map(|page| (page, page.oldest())).collect();
        let heads = asked
            .iter()
            .map(|(page, _)| format!("GET /{} HTTP/1.1\r\nHost: soak\r\n\r\n", page.name));
        let heads: String = heads.collect();
        if http.stream.write_all(heads.as_bytes()).is_err() {
            self.soak.count("closed between two requests");
            return Ok(());
        }
        for (page, oldest) in asked {
            let waits = self.soak.request(format!("{} in a pipeline", page.name));
            let answer = http.answer(false)?;
            drop(waits);
            // One that was cut ends the connection.
            let Some(answer) = answer else {
                self.soak.count("closed between two requests");
                return Ok(());
            };
            if self.is_refused(&answer, begun) {
                self.soak.count("refused");
                continue;
            }
            ensure!(answer.status == 200, "{}: {}", page.name, answer.status);
            Self::check(page, oldest, &answer)?;
            self.soak.count("read, pipelined");
            if !answer.is_whole() {
                return Ok(());
            }
        }
        self.kept = Some(http);
        Ok(())
    }

    fn conditional(&mut self) -> Result<()> {
        let Some((at, version, tag)) = self.tag.take() else { return self.whole() };
        let page = &self.site.pages[at];
        let oldest = page.oldest();
        let field = format!("If-None-Match: {tag}\r\n");
        let Some(answer) = self.ask("GET", &format!("/{}", page.name), &field)? else {
            return Ok(());
        };
        match answer.status {
            304 => {
                ensure!(version >= oldest, "{}: 304 for {version}, there is {oldest}", page.name)
            }
            200 => Self::check(page, oldest, &answer)?,
            status => bail!("{}: {status}", page.name),
        }
        self.soak.count("read if changed");
        Ok(())
    }

    fn missing(&mut self) -> Result<()> {
        let method = if self.rng.bool() { "HEAD" } else { "GET" };
        let target = format!("/disk/none-{}", self.rng.u8(..));
        let Some(answer) = self.ask(method, &target, "")? else { return Ok(()) };
        ensure!(answer.status == 404, "{target}: {}", answer.status);
        self.soak.count("not there");
        Ok(())
    }

    /// Leaves within the answer.
    fn cut(&mut self) -> Result<()> {
        let page = self.site.page(&mut self.rng);
        let mut http = Http::connect(self.address).context("connecting")?;
        let _ = http.send("GET", &format!("/{}", page.name), "");
        if self.rng.bool() {
            http.stream.set_read_timeout(Some(Duration::from_millis(self.rng.u64(1..30))))?;
            let mut some = vec![0; self.rng.usize(1..5000)];
            let _ = http.stream.read(&mut some);
        }
        self.soak.count("cut");
        Ok(())
    }

    /// Leaves within the request.
    fn half(&mut self) -> Result<()> {
        let mut http = Http::connect(self.address).context("connecting")?;
        let head = b"GET /disk/1 HTTP/1.1\r\nHost: soak\r\nX: y\r\n";
        let _ = http.stream.write_all(&head[..self.rng.usize(..head.len())]);
        std::thread::sleep(Duration::from_millis(self.rng.u64(..10)));
        self.soak.count("half a request");
        Ok(())
    }

    /// Takes the answer in small pieces.
    fn slow(&mut self) -> Result<()> {
        let page = self.site.page(&mut self.rng);
        let oldest = page.oldest();
        let mut http = Http::connect(self.address).context("connecting")?;
        let begun = Instant::now();
        let waits = self.soak.request(format!("GET /{} slowly", page.name));
        let _ = http.send("GET", &format!("/{}", page.name), "");
        std::thread::sleep(Duration::from_millis(self.rng.u64(..200)));
        let answer = http.answer(false)?;
        drop(waits);
        match answer {
            Some(answer) if self.is_refused(&answer, begun) => {
                self.soak.count("refused");
            }
            Some(answer) => {
                ensure!(answer.status == 200, "{}: {}", page.name, answer.status);
                Self::check(page, oldest, &answer)?;
                self.soak.count("read slowly");
            }
            None if self.soak.is_excused() => self.soak.count("refused"),
            None => bail!("closed without an answer: {}", page.name),
        }
        Ok(())
    }

    /// Asks for what hangs, and leaves.
    fn hang(&mut self) -> Result<()> {
        if self.hanging.lock().expect("nobody panics with it").is_none() {
            return self.whole();
        }
        let mut http = Http::connect(self.address).context("connecting")?;
        let _ = http.send("GET", "/hangs/file", "");
        std::thread::sleep(Duration::from_millis(self.rng.u64(50..200)));
        self.soak.count("asked for what hangs");
        Ok(())
    }
}
