//! A machine's interrupt controllers, looked at from outside: QEMU tells what is
//! programmed into them, whatever the kernels in the machine believe.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};

/// Bits of a redirection entry that say how an interrupt stands at the moment:
/// it is being delivered, or was accepted and not ended yet.
const MOMENTARY: u64 = 1 << 12 | 1 << 14;

/// Words of a local APIC that say how it is set up, not what it is doing.
const LOCAL: [&str; 6] = ["LVT0", "LVT1", "LVTPC", "LVTERR", "LVTTHMR", "SPIV"];

/// QEMU's words for a monitor at this socket.
pub(super) fn monitor(socket: &Path) -> [OsString; 4] {
    let socket = format!("socket,id=monitor,path={},server=on,wait=off", socket.display());
    ["-chardev".into(), socket.into(), "-mon".into(), "chardev=monitor,mode=control".into()]
}

/// How the controllers are set up: a line for each pin of the IO-APIC, each PIC
/// and each local APIC.
pub(super) fn settings(socket: &Path, cpus: u32) -> Vec<String> {
    let mut monitor = Monitor::open(socket);
    let mut lines: Vec<String> = monitor.ask("info pic").lines().filter_map(setting).collect();
    assert!(lines.len() > 24, "an IO-APIC of 24 pins and PICs: {lines:?}");
    for cpu in 0..cpus {
        let text = monitor.ask(&format!("info lapic {cpu}"));
        lines.push(format!("cpu {cpu}: {}", local(&text)));
    }
    lines
}

/// What every cpu executes, and which interrupts it has or waits for.
pub(super) fn registers(socket: &Path, cpus: u32) -> String {
    let mut monitor = Monitor::open(socket);
    let registers = monitor.ask("info registers -a");
    let whole = |line: &&str| !["FPR", "YMM", "XMM"].iter().any(|name| line.starts_with(name));
    let mut said: String = registers.lines().filter(whole).collect::<Vec<_>>().join("\n");
    for cpu in 0..cpus {
        said.push_str(&monitor.ask(&format!("info lapic {cpu}")));
    }
    said
}

/// Physical memory of the machine.
pub(super) fn memory(socket: &Path, address: u64, bytes: u64) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let to = file.path().display();
    let said = Monitor::open(socket).ask(&format!("pmemsave {address:#x} {bytes:#x} \"{to}\""));
    assert_eq!(said, "");
    std::fs::read(file.path()).unwrap()
}

/// What a line of `info pic` says that lasts.
fn setting(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    match words.next()? {
        "pin" => {
            let pin = words.next()?;
            let entry = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
            Some(format!("pin {pin} {:#018x}", entry & !MOMENTARY))
        }
        pic @ ("pic0:" | "pic1:") => {
            let lasting = |word: &&str| {
                ["imr=", "irq_base=", "elcr="].iter().any(|name| word.starts_with(name))
            };
            Some(format!("{pic} {}", words.filter(lasting).collect::<Vec<_>>().join(" ")))
        }
        _ => None,
    }
}

fn local(text: &str) -> String {
    let mut said = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [name, value, ..] if LOCAL.contains(&name) => said.push(format!("{name} {value}")),
            ["APR", _, "TPR", _, "DFR", dfr, "LDR", ldr, ..] => {
                said.push(format!("DFR {dfr} LDR {ldr}"));
            }
            _ => {}
        }
    }
    assert_eq!(said.len(), LOCAL.len() + 1, "{text}");
    said.join(", ")
}

struct Monitor {
    to: UnixStream,
    from: BufReader<UnixStream>,
}

impl Monitor {
    fn open(socket: &Path) -> Self {
        let to = UnixStream::connect(socket).unwrap();
        let from = BufReader::new(to.try_clone().unwrap());
        let mut monitor = Monitor { to, from };
        monitor.execute(&json!({ "execute": "qmp_capabilities" }));
        monitor
    }

    fn ask(&mut self, line: &str) -> String {
        let arguments = json!({ "command-line": line });
        let command = json!({ "execute": "human-monitor-command", "arguments": arguments });
        self.execute(&command).as_str().unwrap().to_owned()
    }

    fn execute(&mut self, command: &Value) -> Value {
        writeln!(self.to, "{command}").unwrap();
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "QEMU's monitor has gone");
            // Others are its greeting and events.
            let mut answer: Value = serde_json::from_str(&line).unwrap();
            assert!(answer.get("error").is_none(), "{command}: {answer}");
            if let Some(value) = answer.get_mut("return") {
                return value.take();
            }
        }
    }
}

#[test]
fn what_lasts_is_compared_and_what_passes_is_not() {
    let pin = |entry: &str| setting(&format!("  pin 9  {entry} dest=1 vec=33")).unwrap();
    assert_eq!(pin("0x0100000000008821"), pin("0x010000000000d821"));
    assert_ne!(pin("0x0100000000008821"), pin("0x0200000000008821"));
    let pic = |line: &str| setting(line).unwrap();
    assert_eq!(
        pic("pic0: irr=13 imr=ff isr=00 irq_base=30 elcr=00"),
        pic("pic0: irr=00 imr=ff isr=01 irq_base=30 elcr=00")
    );
    assert_ne!(pic("pic0: irr=13 imr=ff elcr=00"), pic("pic0: irr=13 imr=fe elcr=00"));
    assert_eq!(setting("  IRR      (none)"), None);
}
