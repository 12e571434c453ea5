//! Feeds inputs to a target until the time is up or one of them is a finding.

#![expect(clippy::disallowed_types, reason = "there is no runtime here whose time could be paused")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::mutate::input;
use crate::random::Random;

/// Reads an input and looks whether what must hold does. Tells what does not; what panics is a finding as well.
pub(crate) type Target = fn(&[u8]) -> Result<(), String>;

/// An input that a target cannot take.
#[derive(Debug)]
pub(crate) struct Finding {
    /// What makes it again, with the same corpus.
    pub(crate) seed: u64,
    /// The input.
    pub(crate) input: Vec<u8>,
    /// What is wrong.
    pub(crate) why: String,
}

/// Feeds the inputs of `seed` and those after it for `time`, those of the corpus themselves first. Gives their count.
///
/// # Errors
/// The first finding.
pub(crate) fn drive(target: Target, corpus: &[Vec<u8>], seed: u64, time: Duration) -> Result<u64, Finding> {
    for input in corpus {
        feed(target, input).map_err(|why| Finding { seed, input: input.clone(), why })?;
    }
    let end = Instant::now() + time;
    let mut count = 0;
    while Instant::now() < end {
        for _ in 0..64 {
            again(target, corpus, seed.wrapping_add(count))?;
            count += 1;
        }
    }
    Ok(count)
}

/// Feeds the one input of `seed`.
///
/// # Errors
/// Where it is a finding.
pub(crate) fn again(target: Target, corpus: &[Vec<u8>], seed: u64) -> Result<(), Finding> {
    let input = input(corpus, &mut Random::new(seed));
    feed(target, &input).map_err(|why| Finding { seed, input, why })
}

fn feed(target: Target, input: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| target(input))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panicked: {}", text.unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planted_is_found_and_comes_again() {
        let planted: [Target; 2] = [
            |input| if input.contains(&0) { Err("a zero".into()) } else { Ok(()) },
            |input| {
                assert!(!input.windows(2).any(|two| two == b"{}"), "braces");
                Ok(())
            },
        ];
        for target in planted {
            let corpus = [b"[1, 2, 3]".to_vec()];
            let found = drive(target, &corpus, 7, Duration::from_secs(50)).unwrap_err();
            assert!(found.why.contains("zero") || found.why.contains("braces"), "{}", found.why);
            let second = again(target, &corpus, found.seed).unwrap_err();
            assert_eq!((second.input, second.why), (found.input, found.why));
        }
        let corpus = [vec![0]];
        assert_eq!(drive(planted[0], &corpus, 7, Duration::ZERO).unwrap_err().input, [0]);
        assert!(drive(|_| Ok(()), &corpus, 7, Duration::from_millis(5)).unwrap() > 0);
    }
}
