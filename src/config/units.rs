//! Durations, sizes and times as people write them.

use std::time::Duration;

/// `1500ms`, `60s`, `5m`, `2h`, `1d`, or a bare number of milliseconds (as in `LibreChat`'s files). At most ten years.
pub(super) fn duration(text: &str) -> Option<Duration> {
    const TEN_YEARS: u64 = 10 * 365 * 86_400_000;
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let millis = number.checked_mul(factor).filter(|&millis| millis <= TEN_YEARS)?;
    Some(Duration::from_millis(millis))
}

/// A bare number of bytes, or `512KiB`, `4MiB`, `1GiB`.
pub(super) fn size(text: &str) -> Option<usize> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    usize::try_from(number.checked_mul(factor)?).ok()
}

/// A number and what follows it.
fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    Some((number.parse().ok()?, unit.trim_start()))
}

/// A time as RFC 3339 writes it, or milliseconds since 1970: as milliseconds since 1970.
pub(super) fn time(text: &str) -> Option<u64> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok();
    }
    let (date, clock) = text.split_once(['T', 't', ' '])?;
    let (clock, offset) = zone(clock)?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hour, minute, second] = numbers(whole, ':', [2, 2, 2])?;
    let in_range = (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60; // a leap second is in the standard
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset * 60;
    let millis = in_range.then_some(seconds)?.checked_mul(1_000)? + thousandths(fraction)?;
    u64::try_from(millis).ok()
}

/// The clock without its zone, and the zone's minutes east of Greenwich.
fn zone(clock: &str) -> Option<(&str, i64)> {
    if let Some(clock) = clock.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let sign = clock.rfind(['+', '-'])?;
    let (clock, zone) = clock.split_at_checked(sign)?;
    let [hours, minutes] = numbers(zone.get(1..)?, ':', [2, 2])?;
    let east = hours * 60 + minutes;
    (hours < 24 && minutes < 60).then_some((clock, if zone.starts_with('-') { -east } else { east }))
}

/// Exactly `N` numbers of these many digits.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(between);
    let mut numbers = [0; N];
    for (number, width) in numbers.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == width)?;
        *number = part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(numbers)
}

/// `.5` is 500; digits below a millisecond are cut.
fn thousandths(fraction: &str) -> Option<i64> {
    let digits = fraction.bytes().all(|b| b.is_ascii_digit()) && !fraction.is_empty();
    let three: String = fraction.chars().chain("00".chars()).take(3).collect();
    digits.then(|| three.parse().ok())?
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01. Years are counted from March, so that the leap day is a year's last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leaps + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in
            [("1500ms", 1_500), ("60s", 60_000), ("5m", 300_000), ("2h", 7_200_000), ("250", 250)]
        {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "-1s", "1.5s", "5 parsecs", "99999999999999999999", "9999999d"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("17", 17), ("4KiB", 4096), ("4 MiB", 4 << 20), ("1GiB", 1 << 30)] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "4MB", "-4", "4mib", "99999999999999GiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn times() {
        // the figures are GNU date's
        for (text, millis) in [
            ("0", 0),
            ("1764460800000", 1_764_460_800_000),
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-30T12:34:56.789Z", 1_796_042_096_789),
            ("2024-02-29T23:59:59.5+05:30", 1_709_231_399_500),
            ("2000-03-01 00:00:00-01:00", 951_872_400_000),
            ("2100-02-28t00:00:00.1234567z", 4_107_456_000_123),
        ] {
            assert_eq!(time(text), Some(millis), "{text}");
        }
        for text in [
            "",
            "soon",
            "2026-11-30",
            "2026-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2026-11-31T00:00:00Z",
            "2026-11-30T24:00:00Z",
            "2026-11-30T00:00:00",
            "2026-11-30T00:00:00.Z",
            "1969-12-31T23:59:59Z",
            "2026-1-30T00:00:00Z",
            "2026-11-30T00:00:00+5:30",
            "-5",
            "1e12",
            "2026-11-30T00:00:00.1_0Z",
        ] {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
