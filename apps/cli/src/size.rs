//! Sizes as people write them.

/// Bytes, from a number with or without a binary multiple.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    parse_size::Config::new()
        .with_binary()
        .parse_size(text)
        .map_err(|error| format!("{error}; write bytes, or K, M, G for their binary multiples"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary() {
        assert_eq!(size("64K"), Ok(65_536));
        assert_eq!(size("1MiB"), Ok(1 << 20));
        assert!(size("99999999999T").is_err());
        assert!(size("much").is_err());
    }
}
