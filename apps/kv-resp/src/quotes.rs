//! Words of a line that was typed, with the quotes that redis-cli and the server know.

/// Splits a line into `words`, one behind the other, and says where each begins and ends; `false`
/// if a quote does not end, or something stands right behind its end.
pub(super) fn split(line: &[u8], words: &mut Vec<u8>, mut each: impl FnMut(usize, usize)) -> bool {
    // As in C: what is behind a zero is not there.
    let end = line.iter().position(|byte| *byte == 0).unwrap_or(line.len());
    let mut rest = &line[..end];
    // A form feed or a vertical tab stands between words, and ends none that has begun.
    let ends_word = |byte: u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    let is_space = |byte: u8| ends_word(byte) || matches!(byte, 0x0b | 0x0c);
    loop {
        while let [first, more @ ..] = rest
            && is_space(*first)
        {
            rest = more;
        }
        if rest.is_empty() {
            return true;
        }
        let begin = words.len();
        let mut quote = None;
        loop {
            rest = match (quote, rest) {
                (None, []) => break,
                (Some(_), []) => return false,
                (None, [byte, ..]) if ends_word(*byte) => break,
                (None, [mark @ (b'"' | b'\''), more @ ..]) => {
                    quote = Some(*mark);
                    more
                }
                (Some(b'"'), [b'\\', b'x', high, low, more @ ..])
                    if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
                {
                    words.push(hex(*high) << 4 | hex(*low));
                    more
                }
                (Some(b'"'), [b'\\', byte, more @ ..]) => {
                    words.push(match byte {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'b' => 8,
                        b'a' => 7,
                        other => *other,
                    });
                    more
                }
                (Some(b'\''), [b'\\', b'\'', more @ ..]) => {
                    words.push(b'\'');
                    more
                }
                (Some(mark), [byte, more @ ..]) if *byte == mark => match more.first() {
                    Some(next) if !is_space(*next) => return false,
                    _ => {
                        rest = more;
                        break;
                    }
                },
                (_, [byte, more @ ..]) => {
                    words.push(*byte);
                    more
                }
            };
        }
        each(begin, words.len());
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20).wrapping_sub(b'a').wrapping_add(10),
    }
}

#[cfg(test)]
mod tests {
    fn split(line: &str) -> Option<Vec<String>> {
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        super::split(line.as_bytes(), &mut bytes, |from, to| spans.push((from, to)))
            .then(|| spans.iter().map(|(a, b)| bytes[*a..*b].escape_ascii().to_string()).collect())
    }

    #[test]
    fn quotes_hold_words_together() {
        for (line, words) in [
            ("", &[][..]),
            ("  set  a b ", &["set", "a", "b"]),
            (r#"SET q "b c""#, &["SET", "q", "b c"]),
            (r#"SET q 'b' "" ''"#, &["SET", "q", "b", "", ""]),
            (r#""\x41\n\"\q" '\'\n'"#, &[r#"A\n\"q"#, r"\'\\n"]),
            (r#"a"b c" d'e'"#, &["ab c", "de"]),
            ("a\0b c", &["a"]),
            ("\x0ca\x0cb\x0bc\td \x0b \"e\"\x0cf", &["a\\x0cb\\x0bc", "d", "e", "f"]),
        ] {
            assert_eq!(
                split(line).as_deref(),
                Some(words).map(|w| w.iter().map(|w| w.to_string()).collect::<Vec<_>>()).as_deref(),
                "{line}"
            );
        }
        for line in ["\"", "'a", "\"a\"b", "'a'b", r#""a\""#] {
            assert_eq!(split(line), None, "{line}");
        }
    }
}
