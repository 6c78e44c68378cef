//! Hands half of some microseconds of work to the cpu beside this one. Feature `shadow`.
//!
//! ```console
//! $ cargo run --release -p kumiki --features shadow --example two_halves
//! ```

use kumiki::shadow::{Error, Shadow};

fn main() -> Result<(), Error> {
    // The helper: it spins for a while for its next job, then sleeps. On a single cpu, jobs run in
    // this thread.
    let mut shadow = Shadow::create_or_inline()?;
    let numbers: Vec<f64> = (0..20_000).map(f64::from).collect();
    let (left, right) = numbers.split_at(numbers.len() / 2);
    let length = |half: &[f64]| half.iter().map(|x| x * x).sum::<f64>();

    // `both` returns when both have ended, so the closures may borrow.
    let (a, b) = shadow.both(|| length(left), || length(right));
    println!("{}", a + b);
    Ok(())
}
