//! Sharing work: the two threads sum one half each. Below some thousand
//! elements the sum is not worth a cache line's way and stays here.

use std::time::Instant;

use kumiki_shadow::Team;

/// Elements that one thread sums in about the time of a fork and join.
const GRAIN: usize = 8 << 10;

fn main() {
    let mut team = Team::create(2).unwrap_or_else(|error| {
        eprintln!("without a helper: {error}");
        Team::inline()
    });
    for n in [1 << 10, 16 << 10, 256 << 10, 1 << 20] {
        let data: Vec<f32> = (0..n).map(|i| (i % 16) as f32).collect();
        let repeat = ((64 << 20) / n).min(2000);
        let time = |sum: &mut dyn FnMut() -> f32| {
            let first = sum();
            let start = Instant::now();
            for _ in 0..repeat {
                assert_eq!(sum(), first);
            }
            (first, start.elapsed().as_nanos() as f64 / repeat as f64)
        };
        let (alone, alone_ns) = time(&mut || sum(&data));
        let (shared, shared_ns) = time(&mut || {
            team.reduce(n, GRAIN, |range| sum(&data[range]), |a, b| a + b).unwrap_or(0.0)
        });
        assert_eq!(alone, shared, "small integers are summed exactly");
        println!("{n:>8} elements: alone {alone_ns:>9.0} ns, shared {shared_ns:>9.0} ns");
    }
}

/// Eight sums side by side, so that the compiler can use vectors.
fn sum(data: &[f32]) -> f32 {
    let chunks = data.chunks_exact(8);
    let rest = chunks.remainder();
    let mut lanes = [0.0_f32; 8];
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().sum::<f32>()
}
