//! Each subject for half a minute, and for ten minutes where that was asked for; an OS node only so.
#![forbid(unsafe_code)]

use std::process::Command;

/// Runs a subject and has the test fail with all that it has said, which has the seed in it.
fn soak(subject: &str, minutes: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kumiki-soak"));
    command.args([subject, "--minutes", minutes, "--folder", env!("CARGO_TARGET_TMPDIR")]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    print!("{said}");
}

macro_rules! subjects {
    ($($subject:ident)*) => {$(
        mod $subject {
            #[test]
            fn half_a_minute() {
                super::soak(stringify!($subject), "0.5");
            }

            #[test]
            #[ignore = "ten minutes"]
            fn ten_minutes() {
                super::soak(stringify!($subject), "10");
            }
        }
    )*};
}

/// Its machine alone takes a minute to be ready.
mod node {
    #[test]
    #[ignore = "ten minutes and a machine of the lab"]
    fn ten_minutes() {
        super::soak("node", "10");
    }
}

/// RocksDB 7.8 ends by an assertion of its own (file_prefetch_buffer.cc:45) in some runs, seen twice.
mod rocksdb {
    #[test]
    #[ignore = "ten minutes; `cargo xtask test long`"]
    fn ten_minutes() {
        super::soak("rocksdb", "10");
    }
}

subjects! { aio completions httpd kv kv_durable place spawn tokio }
