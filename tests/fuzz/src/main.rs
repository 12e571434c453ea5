//! Feeds what peers send, changed at random, to what reads it: `tests/fuzz/run [SECONDS]`.
//!
//! Every input has a seed of its own, so a finding is an input that comes again: `--seed N --only TARGET` feeds it alone.
//! A finding that was mended goes into the corpus as a file, which is fed before all else.

mod drive;
mod mutate;
mod random;
mod targets;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use clap::Parser;

use drive::{Finding, Target, again, drive};
use targets::TARGETS;

/// Feeds what peers send, changed at random, to what reads it.
#[derive(Debug, Parser)]
struct Args {
    /// For how many seconds each target is fed.
    #[arg(default_value_t = 10)]
    seconds: u64,
    /// One target.
    #[arg(long)]
    only: Option<String>,
    /// Feeds this seed's input alone.
    #[arg(long)]
    seed: Option<u64>,
}

#[expect(clippy::print_stdout, reason = "it is for whoever runs it")]
fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let mut found = false;
    let mut known = false;
    for (name, target) in TARGETS {
        if args.only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        known = true;
        match run(name, target, &args)? {
            Ok(count) => println!("{name:10} {count:>9} inputs, nothing found"),
            Err(finding) => {
                found = true;
                println!("{name:10} FOUND: {}", finding.why);
                println!("    input {:?}", String::from_utf8_lossy(&finding.input));
                println!("    again with: tests/fuzz/run --only {name} --seed {}", finding.seed);
            }
        }
    }
    anyhow::ensure!(known, "no such target");
    Ok(if found { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn run(name: &str, target: Target, args: &Args) -> anyhow::Result<Result<u64, Finding>> {
    let corpus = corpus(name)?;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {})); // the finding tells it
    let result = if let Some(seed) = args.seed {
        again(target, &corpus, seed).map(|()| 1)
    } else {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        drive(target, &corpus, since.as_secs() << 32, Duration::from_secs(args.seconds))
    };
    std::panic::set_hook(hook);
    Ok(result)
}

/// What is in the files of a target's corpus, by their names.
fn corpus(name: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let entries = std::fs::read_dir(&folder).with_context(|| format!("no corpus for {name}"))?;
    let mut paths: Vec<_> = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.sort();
    let read =
        |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let corpus: Vec<_> = paths.iter().map(read).collect::<Result<_, _>>()?;
    anyhow::ensure!(!corpus.is_empty(), "the corpus of {name} is empty");
    Ok(corpus)
}
