//! Times a read of what is in memory: plainly, by this crate, and by tokio's own file.
//!
//! ```console
//! $ cargo run --release --package kumiki-tokio --example read_at
//! ```

use std::io::SeekFrom;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use kumiki_tokio::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

const READS: u32 = 200;
const ROUNDS: usize = 51;

/// Nanoseconds of one read, the median of the rounds.
fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

fn each(begin: Instant) -> f64 {
    begin.elapsed().as_nanos() as f64 / f64::from(READS)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    for bytes in [4096, 65_536] {
        let path = std::env::temp_dir().join(format!("kumiki-read-at-{}", std::process::id()));
        std::fs::write(&path, vec![7; bytes])?;
        let plain = std::fs::File::open(&path)?;
        let ours = File::open(&path).await?;
        let mut theirs = tokio::fs::File::open(&path).await?;
        theirs.set_max_buf_size(bytes);
        std::fs::remove_file(&path)?;
        let mut buffer = vec![0; bytes];
        let mut times = [(); 3].map(|()| Vec::new());
        // In turns, as what else the machine does changes all the time.
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            for _ in 0..READS {
                plain.read_exact_at(&mut buffer, 0)?;
            }
            times[0].push(each(begin));
            let begin = Instant::now();
            for _ in 0..READS {
                ours.read_exact_at(&mut buffer, 0).await?;
            }
            times[1].push(each(begin));
            let begin = Instant::now();
            for _ in 0..READS {
                theirs.seek(SeekFrom::Start(0)).await?;
                theirs.read_exact(&mut buffer).await?;
            }
            times[2].push(each(begin));
        }
        let [plain, ours, theirs] = times.map(median);
        println!(
            "{bytes} bytes: plain {plain:.0} ns, kumiki {ours:.0} ns, tokio::fs {theirs:.0} ns"
        );
    }
    Ok(())
}
