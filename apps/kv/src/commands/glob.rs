//! Patterns of names, as Redis has them.

/// True if a name is one of a pattern: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a byte that is
/// meant.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // The last star, and up to where it stands for something: only it ever has to be tried anew.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match one(&pattern[p..], name[n]) {
            One::Star => {
                star = Some((p + 1, n));
                p += 1;
                continue;
            }
            One::Is(length) => {
                p += length;
                n += 1;
                continue;
            }
            One::No => {}
        }
        let Some((after, from)) = &mut star else { return false };
        *from += 1;
        (p, n) = (*after, *from);
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

enum One {
    Star,
    /// The byte is one of it, which has so many bytes.
    Is(usize),
    No,
}

fn one(pattern: &[u8], byte: u8) -> One {
    let is = |is, length| if is { One::Is(length) } else { One::No };
    match pattern {
        [] => One::No,
        [b'*', ..] => One::Star,
        [b'?', ..] => One::Is(1),
        [b'[', rest @ ..] => {
            let (is_not, mut at) = (rest.first() == Some(&b'^'), 0);
            at += usize::from(is_not);
            let mut is_in = false;
            loop {
                match rest.get(at..).unwrap_or_default() {
                    // It ends with the pattern, too.
                    [] => break,
                    [b'\\', meant, ..] => {
                        is_in |= *meant == byte;
                        at += 2;
                    }
                    [b']', ..] => {
                        at += 1;
                        break;
                    }
                    [low, b'-', high, ..] => {
                        let (low, high) = (*low.min(high), *low.max(high));
                        is_in |= (low..=high).contains(&byte);
                        at += 3;
                    }
                    [meant, ..] => {
                        is_in |= *meant == byte;
                        at += 1;
                    }
                }
            }
            is(is_in != is_not, 1 + at)
        }
        [b'\\', meant, ..] => is(*meant == byte, 2),
        [meant, ..] => is(*meant == byte, 1),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn patterns_are_those_of_redis() {
        for (pattern, name, is_one) in [
            ("*", "", true),
            ("*", "abc", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            (r"\*", "*", true),
            (r"\*", "a", false),
            ("[abc", "b", true),
            ("", "", true),
            ("", "a", false),
            ("a*b*c*d", "aXbXcXd", true),
            ("**", "x", true),
            (r"[\]]", "]", true),
        ] {
            assert_eq!(
                super::matches(pattern.as_bytes(), name.as_bytes()),
                is_one,
                "{pattern} {name}"
            );
        }
        // It would take for ever if each star were tried anew.
        let pattern = "*a".repeat(50) + "b";
        assert!(!super::matches(pattern.as_bytes(), "a".repeat(5000).as_bytes()));
    }
}
