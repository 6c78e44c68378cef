//! A connection to the program that serves a database: words there and back, as `server.cc` has it.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Longer than a request may go without an answer, which is found elsewhere.
const PATIENCE: Duration = Duration::from_secs(180);
/// Words of an answer, and bytes of one, at most.
const MOST: u32 = 1 << 20;

/// A word of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Value(Vec<u8>),
    None,
    Done,
    Error(String),
}

#[derive(Debug)]
pub(super) struct Words(UnixStream);

impl Words {
    /// None while nobody listens there.
    pub(super) fn connect(path: &Path) -> Result<Option<Words>> {
        match UnixStream::connect(path) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                Ok(Some(Words(stream)))
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
            {
                Ok(None)
            }
            Err(error) => Err(error).context("connecting"),
        }
    }

    /// None if it was cut, so that nobody knows what was done.
    pub(super) fn ask(&mut self, words: &[&[u8]]) -> Result<Option<Vec<Word>>> {
        match self.exchange(words) {
            Ok(answer) => answer.into_iter().map(parsed).collect::<Result<_>>().map(Some),
            Err(error) => match error.kind() {
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => {
                    Ok(None)
                }
                _ => Err(error).context("an exchange"),
            },
        }
    }

    fn exchange(&mut self, words: &[&[u8]]) -> std::io::Result<Vec<Vec<u8>>> {
        let mut bytes = (words.len() as u32).to_le_bytes().to_vec();
        for word in words {
            bytes.extend((word.len() as u32).to_le_bytes());
            bytes.extend_from_slice(word);
        }
        self.0.write_all(&bytes)?;
        let count = self.number()?;
        (0..count)
            .map(|_| {
                let mut word = vec![0; self.number()? as usize];
                self.0.read_exact(&mut word)?;
                Ok(word)
            })
            .collect()
    }

    fn number(&mut self) -> std::io::Result<u32> {
        let mut number = [0; 4];
        self.0.read_exact(&mut number)?;
        let number = u32::from_le_bytes(number);
        if number > MOST {
            return Err(std::io::Error::other(format!("{number} words or bytes in an answer")));
        }
        Ok(number)
    }
}

fn parsed(word: Vec<u8>) -> Result<Word> {
    let (kind, rest) = word.split_first().context("an empty word")?;
    Ok(match kind {
        b'v' => Word::Value(rest.to_vec()),
        b'n' => Word::None,
        b'k' => Word::Done,
        b'e' => Word::Error(String::from_utf8_lossy(rest).into_owned()),
        other => bail!("a word that begins with {other}"),
    })
}

/// The one word of an answer.
pub(super) fn one(answer: Vec<Word>) -> Result<Word> {
    let count = answer.len();
    let word = answer.into_iter().next().filter(|_| count == 1);
    word.with_context(|| format!("{count} words in place of one"))
}

/// Checks that a change was done.
pub(super) fn done(answer: Vec<Word>) -> Result<()> {
    let word = one(answer)?;
    ensure!(word == Word::Done, "{word:?} in place of what was to be done");
    Ok(())
}
