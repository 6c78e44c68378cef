//! A page that is shown again and again, as `top` does.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::Result;

use crate::{interrupt, output};

/// The other screen of the terminal, without a cursor; and back.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// Shows what `page` says again and again, `every` so long, until a signal comes, or `count` times.
pub(crate) fn run(
    every: Duration,
    count: Option<u64>,
    mut page: impl FnMut() -> Result<String>,
) -> Result<()> {
    let (tell, ended) = channel();
    interrupt::each(move |_| _ = tell.send(()))?;
    // What is wrong with the question is said on the screen that stays.
    let mut text = page()?;
    let terminal = io::stdout().is_terminal();
    if terminal {
        output::data(ENTER)?;
    }
    let outcome = (1..).try_for_each(|shown: u64| {
        let outcome = show(&text, terminal).and_then(|()| {
            if count.is_some_and(|count| shown >= count) {
                return Ok(None);
            }
            match ended.recv_timeout(every) {
                Err(RecvTimeoutError::Timeout) => page().map(Some),
                _ => Ok(None),
            }
        });
        match outcome {
            Ok(Some(next)) => {
                text = next;
                Ok(())
            }
            Ok(None) => Err(None),
            Err(error) => Err(Some(error)),
        }
    });
    if terminal {
        output::data(LEAVE)?;
    }
    match outcome {
        Err(Some(error)) => Err(error),
        _ => Ok(()),
    }
}

fn show(text: &str, terminal: bool) -> Result<()> {
    if terminal { output::data(fitted(text).as_bytes()) } else { output::text(text) }
}

/// Lines of a table for the whole screen: its first lines, none longer than a line of the screen.
fn fitted(text: &str) -> String {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let (lines, columns) = size.map_or((24, 80), |size| (size.ws_row, size.ws_col));
    let (lines, columns) = (usize::from(lines.max(2)), usize::from(columns.max(20)));
    let mut screen = "\x1b[H".to_owned();
    for (n, line) in text.lines().take(lines).enumerate() {
        let line: String = line.chars().take(columns).collect();
        screen += if n > 0 { "\r\n" } else { "" };
        screen += &line;
        screen += "\x1b[K";
    }
    screen + "\x1b[J"
}
