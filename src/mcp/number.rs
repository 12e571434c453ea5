//! Numbers as they are written, of any size.

/// A number without the freedom of writing it: whether it is below zero, its digits without zeros at either end, and the
/// power of ten to multiply them by.
#[derive(Debug, PartialEq, Eq)]
struct Number {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Number {
    /// Reads `text`, written as JSON has it; `None` where it is not.
    fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !are_digits(whole) || !are_digits(part) || mantissa.ends_with('.') {
            return None;
        }
        let exponent: i64 = exponent.parse().ok()?;
        let digits = format!("{whole}{part}");
        let digits = digits.trim_start_matches('0');
        let significant = digits.trim_end_matches('0');
        if significant.is_empty() {
            return Some(Self { negative: false, digits: String::new(), exponent: 0 });
        }
        let shift = i64::try_from(digits.len() - significant.len()).ok()? - i64::try_from(part.len()).ok()?;
        let exponent = exponent.checked_add(shift)?;
        Some(Self { negative: text.starts_with('-'), digits: significant.into(), exponent })
    }
}

/// Whether both texts are numbers, and the same one: `42.0` and `42` are.
pub(super) fn same_number(one: &str, other: &str) -> bool {
    Number::parse(one).is_some_and(|number| Some(number) == Number::parse(other))
}

/// How many digits of a whole number we write out at the most. JavaScript's safe ones have 16.
const LONGEST: i64 = 40;

/// The whole number that `text` is, in plain decimal; `None` where it is none, or a very long one.
pub(super) fn integer(text: &str) -> Option<String> {
    let number = Number::parse(text)?;
    let zeros = usize::try_from(number.exponent).ok().filter(|_| number.exponent <= LONGEST)?;
    let sign = if number.negative { "-" } else { "" };
    let digits = if number.digits.is_empty() { "0" } else { &number.digits };
    Some(format!("{sign}{digits}{}", "0".repeat(zeros)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_compared_as_numbers() {
        for (one, other) in [
            ("42", "42.0"),
            ("-7", "-7.00"),
            ("100", "1e2"),
            ("100", "1E+2"),
            ("0", "-0.0"),
            ("0.5", "5e-1"),
            ("007", "7"),
            ("123456789012345678901234567890", "1234567890123456789012345678.90e2"),
        ] {
            assert!(same_number(one, other), "{one} {other}");
        }
        for (one, other) in
            [("1", "-1"), ("1", "10"), ("x", "x"), ("", ""), ("1.", "1"), (".5", "0.5"), ("1e", "1")]
        {
            assert!(!same_number(one, other), "{one} {other}");
        }
        for (text, written) in [
            ("42.0", Some("42")),
            ("1e2", Some("100")),
            ("-0", Some("0")),
            ("0.5", None),
            ("1e999999999999", None),
        ] {
            assert_eq!(integer(text).as_deref(), written, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_whole_number_is_itself(number in any::<i64>(), zeros in 0..9_usize) {
            let text = number.to_string();
            let point = format!("{text}.{}", "0".repeat(zeros + 1));
            prop_assert!(same_number(&text, &point));
            prop_assert_eq!(integer(&point), Some(text));
            prop_assert!(!same_number(&number.to_string(), &number.wrapping_add(1).to_string()));
        }
    }
}
