//! The sum that all subjects compute, alone or in two halves.

/// Independent sums: enough for the adders' latency times their width.
const LANES: usize = 64;

/// Sum of `data`, vectorised as wide as this processor can.
#[inline]
pub(crate) fn sum(data: &[f32]) -> f32 {
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        unsafe { sum_avx2(data) }
    } else {
        lanes(data)
    }
}

#[target_feature(enable = "avx2")]
fn sum_avx2(data: &[f32]) -> f32 {
    lanes(data)
}

#[inline(always)]
fn lanes(data: &[f32]) -> f32 {
    let (chunks, rest) = data.as_chunks::<LANES>();
    let mut sums = [0.0f32; LANES];
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += value;
        }
    }
    sums.iter().sum::<f32>() + rest.iter().sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_counts_once() {
        for n in [0usize, 1, 63, 64, 65, 1000, 4096] {
            let data: Vec<f32> = (0..n).map(|i| i as f32).collect();
            assert_eq!(sum(&data), (n * n.saturating_sub(1) / 2) as f32, "{n} elements");
        }
    }
}
