//! Matching a name with a pattern, in time that is bounded by both their lengths.
//!
//! The `glob` crate says what is a pattern and what it means; it goes back for each `*`, so that eight of them before
//! a part that is not there take longer than anybody waits. Here all that may match so far goes forward together:
//! one bit a token, over the name's characters once.

/// A piece of a pattern.
#[derive(Clone, Debug)]
enum Token {
    Char(char),
    /// `?`
    Any,
    /// `*`
    Within,
    /// `**`, with the separator behind it
    Across,
    /// `[a-c]` or `[!a-c]`
    Among {
        ranges: Vec<(char, char)>,
        is_not: bool,
    },
}

const SEPARATOR: char = '/';

/// A pattern, in pieces.
#[derive(Clone, Debug)]
pub(crate) struct Tokens(Vec<Token>);

impl Tokens {
    /// Takes apart what the `glob` crate has taken for a pattern.
    pub(crate) fn of(pattern: &str) -> Tokens {
        let mut rest: &[char] = &pattern.chars().collect::<Vec<_>>();
        let mut tokens = Vec::new();
        while let [first, more @ ..] = rest {
            let (token, after) = match (first, more) {
                ('?', _) => (Token::Any, more),
                ('*', ['*', SEPARATOR, after @ ..] | ['*', after @ ..]) => (Token::Across, after),
                ('*', _) => (Token::Within, more),
                ('[', _) => class(more).unwrap_or((Token::Char('['), more)),
                (char, _) => (Token::Char(*char), more),
            };
            tokens.push(token);
            rest = after;
        }
        Tokens(tokens)
    }

    /// True if a name is one of the pattern's.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let tokens = &self.0;
        // At which tokens a match of the name so far may stand.
        let (mut at, mut next) = (vec![false; tokens.len() + 1], vec![false; tokens.len() + 1]);
        at[0] = true;
        let mut is_begin = true;
        for char in name.chars() {
            // `*` may be nothing, and `**` no part at all.
            skip(tokens, &mut at, is_begin);
            next.fill(false);
            for (index, token) in tokens.iter().enumerate().filter(|(index, _)| at[*index]) {
                match token {
                    Token::Within | Token::Across => next[index] |= token.takes(char),
                    token => next[index + 1] |= token.takes(char),
                }
            }
            std::mem::swap(&mut at, &mut next);
            is_begin = char == SEPARATOR;
        }
        // At its end `**` may be in the middle of a part.
        skip(tokens, &mut at, true);
        at[tokens.len()]
    }
}

impl Token {
    fn takes(&self, char: char) -> bool {
        match self {
            Token::Char(its) => *its == char,
            Token::Among { ranges, is_not } => {
                let is_in = ranges.iter().any(|(from, to)| (*from..=*to).contains(&char));
                char != SEPARATOR && is_in != *is_not
            }
            Token::Any | Token::Within => char != SEPARATOR,
            Token::Across => true,
        }
    }
}

fn skip(tokens: &[Token], at: &mut [bool], is_begin: bool) {
    for (index, token) in tokens.iter().enumerate() {
        let may_be_nothing = match token {
            Token::Within => true,
            Token::Across => is_begin,
            _ => false,
        };
        at[index + 1] |= at[index] && may_be_nothing;
    }
}

/// A class, and what stands behind it.
fn class(after: &[char]) -> Option<(Token, &[char])> {
    let (is_not, body) = match after {
        ['!', body @ ..] => (true, body),
        body => (false, body),
    };
    // The first of them may be a bracket itself.
    let end = 1 + body.get(1..)?.iter().position(|char| *char == ']')?;
    let mut ranges = Vec::new();
    let mut inside = &body[..end];
    loop {
        inside = match inside {
            [from, '-', to, rest @ ..] => {
                ranges.push((*from, *to));
                rest
            }
            [one, rest @ ..] => {
                ranges.push((*one, *one));
                rest
            }
            [] => return Some((Token::Among { ranges, is_not }, &body[end + 1..])),
        };
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    /// The crate that says what a pattern means.
    fn by_the_crate(pattern: &::glob::Pattern, name: &str) -> bool {
        let options =
            ::glob::MatchOptions { require_literal_separator: true, ..::glob::MatchOptions::new() };
        pattern.matches_with(name, options)
    }

    #[test]
    fn it_is_what_the_crate_says_of_short_ones() {
        let mut random = Rng::with_seed(59);
        let mut text = |of: &[&str], most: usize| -> String {
            (0..random.usize(..most)).map(|_| of[random.usize(..of.len())]).collect()
        };
        let (mut patterns, mut matched) = (0, 0);
        let pieces = ["a", "b", "/", "?", "*", "**/", "/**", "[a-b]", "[!a]", "[]]", "ä"];
        while patterns < 20_000 {
            let pattern = text(&pieces, 8);
            let Ok(known) = ::glob::Pattern::new(&pattern) else { continue };
            patterns += 1;
            let tokens = Tokens::of(&pattern);
            for _ in 0..10 {
                let name = text(&["a", "b", "/", "]", "ä", "aa"], 7);
                let is_one = by_the_crate(&known, &name);
                matched += usize::from(is_one);
                assert_eq!(tokens.matches(&name), is_one, "{pattern:?} {name:?}");
            }
        }
        assert!(matched > 1000, "{matched}: hardly any was one");
    }

    /// The crate takes for ever for these.
    #[test]
    fn many_stars_before_a_part_that_is_not_there_end() {
        let name = format!("{}/counter/x", "a".repeat(200));
        let tokens = Tokens::of(&format!("{}b/**", "*a".repeat(400)));
        assert!((0..100).all(|_| !tokens.matches(&name)));
    }
}
