//! The command line: arguments, the log, the exit code.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use trunkline::app::{self, Exit, Origin, log};

/// See Cargo.toml for why.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Joins many MCP servers into one streamable-HTTP endpoint.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// The configuration file [default: config/trunkline.yaml, or else a built-in demo]
    #[arg(long, global = true, env = "TRUNKLINE_CONFIG")]
    config: Option<PathBuf>,
    /// What to log: error, warn, info, debug, trace, or one room alone as in `trunkline::upstream=debug`
    #[arg(long, global = true, env = "TRUNKLINE_LOG", default_value = "info")]
    log: String,
    /// How log lines look
    #[arg(long, global = true, env = "TRUNKLINE_LOG_FORMAT", default_value = "text")]
    log_format: log::Format,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the endpoint (what happens without a subcommand)
    Serve,
    /// Tell what is wrong with the configuration: exit 0, or 2 if it cannot be used
    Check {
        /// Also connect to each server
        #[arg(long)]
        connect: bool,
    },
    /// Connect to one configured server directly and tell what it has
    Probe {
        /// Its key in the configuration
        server: String,
    },
    /// List the tools of a running trunkline
    Tools {
        /// Only those of this server, under its own names
        server: Option<String>,
        /// The endpoint, if it is not the one in the configuration
        #[arg(long)]
        url: Option<String>,
    },
    /// Call a tool of a running trunkline and print its result
    Call {
        /// Its name as listed
        tool: String,
        /// Its arguments, a JSON object
        #[arg(default_value = "{}")]
        arguments: String,
        /// The endpoint, if it is not the one in the configuration
        #[arg(long)]
        url: Option<String>,
    },
    /// Ask a running trunkline whether it is healthy, for container probes
    Healthcheck {
        /// Which probe
        #[arg(long, default_value = "livez", value_parser = ["livez", "startz", "readyz"])]
        probe: String,
    },
    /// Print the configuration's JSON Schema
    Schema,
    /// Run the embedded demo server on standard input and output
    DemoServer,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(exit) => exit.into(),
        Err(error) => {
            report(&error);
            match error.downcast_ref() {
                Some(app::ServeError::Config(_)) => Exit::Misused.into(),
                Some(
                    app::ServeError::Bind(..) | app::ServeError::Certificate(_) | app::ServeError::Machine(_),
                )
                | None => Exit::Failed.into(),
            }
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    // Fails only where a provider is installed already, and nobody else does that.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    // Clients are served by threads of their own; this one keeps the servers connected.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let origin = Origin::new(arguments.config);
    Ok(match arguments.command.unwrap_or(Command::Serve) {
        Command::Serve => {
            let log = log::start(&arguments.log, arguments.log_format).map_err(anyhow::Error::msg)?;
            let greet = arguments.log_format == log::Format::Text;
            runtime.block_on(app::serve(origin, greet, log.lost()))?;
            Exit::Done
        }
        Command::Check { connect } => runtime.block_on(app::check(&origin, connect)),
        Command::Probe { server } => runtime.block_on(app::probe(&origin, &server)),
        Command::Tools { server, url } => runtime.block_on(app::tools(&origin, url, server.as_deref())),
        Command::Call { tool, arguments, url } => {
            runtime.block_on(app::call(&origin, url, &tool, &arguments))
        }
        Command::Healthcheck { probe } => runtime.block_on(app::healthcheck(&origin, &probe)),
        Command::Schema => {
            print(&trunkline::config::schema());
            Exit::Done
        }
        Command::DemoServer => {
            runtime.block_on(app::demo::run()).context("the demo server")?;
            runtime.shutdown_background(); // a read of standard input may still block
            Exit::Done
        }
    })
}

fn print(text: &str) {
    use std::io::Write as _;
    drop(std::io::stdout().lock().write_all(text.as_bytes()));
}

fn report(error: &anyhow::Error) {
    use std::io::Write as _;
    drop(writeln!(std::io::stderr().lock(), "trunkline: {error:#}"));
}
