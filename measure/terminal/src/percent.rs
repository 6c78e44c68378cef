//! Percentages as people write them.

/// Reads one of 0 or more, with or without its sign.
///
/// # Errors
/// It is none, in a sentence for the person.
pub fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("a percentage of 0 or more, e.g. 5".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_a_percentage() {
        assert_eq!(percent("7.5%"), Ok(7.5));
        assert!(percent("-1").is_err());
        assert!(percent("NaN").is_err());
    }
}
