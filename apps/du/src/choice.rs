//! One of some words, which may be shortened as long as only one thing can be meant.

use crate::quote::in_words;

/// Words that mean the same thing stand one after the other.
pub(crate) type Choices<T> = [(&'static str, T)];

/// Reason for which a word is no choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoChoice {
    Invalid,
    Ambiguous,
}

/// Value that `word` names.
pub(crate) fn choose<T: Copy + PartialEq>(
    word: &[u8],
    choices: &Choices<T>,
) -> Result<T, NoChoice> {
    if let Some((_, meant)) = choices.iter().find(|(name, _)| name.as_bytes() == word) {
        return Ok(*meant);
    }
    let mut meant = choices.iter().filter(|(name, _)| name.as_bytes().starts_with(word));
    let (_, first) = meant.next().ok_or(NoChoice::Invalid)?;
    if meant.all(|(_, other)| other == first) { Ok(*first) } else { Err(NoChoice::Ambiguous) }
}

impl NoChoice {
    /// Message about the fault and the choices: a line each, in the words of GNU's programs.
    pub(crate) fn text<T: PartialEq>(
        self,
        word: &[u8],
        what: &str,
        choices: &Choices<T>,
    ) -> Vec<u8> {
        let wrong = match self {
            NoChoice::Invalid => "invalid",
            NoChoice::Ambiguous => "ambiguous",
        };
        let mut text = format!("{wrong} argument ").into_bytes();
        text.extend(in_words(word));
        text.extend(b" for ");
        text.extend(in_words(what.as_bytes()));
        text.extend(b"\nValid arguments are:");
        for (number, (name, meant)) in choices.iter().enumerate() {
            let same = number > 0 && choices[number - 1].1 == *meant;
            text.extend(if same { &b", "[..] } else { b"\n  - " });
            text.extend(in_words(name.as_bytes()));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_what_they_are_short_for() {
        let choices = [("atime", 1), ("access", 1), ("ctime", 2), ("a", 3)];
        assert_eq!(choose(b"ctime", &choices), Ok(2));
        assert_eq!(choose(b"a", &choices), Ok(3));
        assert_eq!(choose(b"at", &choices[..3]), Ok(1));
        assert_eq!(choose(b"a", &choices[..3]), Ok(1));
        assert_eq!(choose(b"", &choices), Err(NoChoice::Ambiguous));
        assert_eq!(choose(b"times", &choices), Err(NoChoice::Invalid));
    }
}
