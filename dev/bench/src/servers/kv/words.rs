//! What is said to a store, and what it has to answer.

/// Keys that are in each store.
pub(super) const KEYS: usize = 100_000;

/// The language of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// Redis'.
    Resp,
    /// memcached's, as text.
    Memcached,
}

/// Operation on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Get,
    Set,
}

/// Commands that are sent together, and all that has to come back.
pub(super) struct Batch {
    pub(super) asked: Vec<u8>,
    pub(super) answer: Vec<u8>,
}

impl Batch {
    /// A command on each of these keys, whose values are of 32 bytes and always the same. Of memcached
    /// several keys are got by one command, as its documents advise: it answers each by a call of its own.
    pub(super) fn of(words: Words, op: Op, keys: &[usize]) -> Self {
        let name = |key: &usize| format!("key:{key:012}");
        let value = |key: &usize| format!("{key:032}");
        let joined = |each: &dyn Fn(&usize) -> String| keys.iter().map(each).collect::<String>();
        let (asked, answer) = match (words, op) {
            (Words::Resp, Op::Get) => (
                joined(&|key| format!("*2\r\n$3\r\nGET\r\n$16\r\n{}\r\n", name(key))),
                joined(&|key| format!("$32\r\n{}\r\n", value(key))),
            ),
            (Words::Resp, Op::Set) => {
                let set = "*3\r\n$3\r\nSET\r\n$16";
                let asked =
                    joined(&|key| format!("{set}\r\n{}\r\n$32\r\n{}\r\n", name(key), value(key)));
                (asked, joined(&|_| "+OK\r\n".to_owned()))
            }
            (Words::Memcached, Op::Get) => {
                let found = |key: &usize| format!("VALUE {} 0 32\r\n{}\r\n", name(key), value(key));
                let asked = joined(&|key| format!(" {}", name(key)));
                (format!("get{asked}\r\n"), joined(&found) + "END\r\n")
            }
            (Words::Memcached, Op::Set) => (
                joined(&|key| format!("set {} 0 0 32\r\n{}\r\n", name(key), value(key))),
                joined(&|_| "STORED\r\n".to_owned()),
            ),
        };
        Batch { asked: asked.into_bytes(), answer: answer.into_bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(words: Words, op: Op) -> [String; 2] {
        let Batch { asked, answer } = Batch::of(words, op, &[7, 8]);
        [asked, answer].map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn a_batch_is_its_commands_and_their_answers() {
        let [asked, answer] = batch(Words::Resp, Op::Get);
        assert!(asked.ends_with("*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000008\r\n"), "{asked:?}");
        assert_eq!(answer, format!("$32\r\n{:032}\r\n$32\r\n{:032}\r\n", 7, 8));
        let [asked, answer] = batch(Words::Memcached, Op::Get);
        assert_eq!(asked, "get key:000000000007 key:000000000008\r\n");
        assert!(answer.ends_with(&format!("{:032}\r\nEND\r\n", 8)), "{answer:?}");
        assert_eq!(batch(Words::Memcached, Op::Set)[1], "STORED\r\nSTORED\r\n");
    }
}
