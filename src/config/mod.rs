//! The configuration file's model: as written → checked [`Config`], every problem at once with its place.
//!
//! Nothing here watches files or knows that time passes.

mod model;

pub use model::{Config, Http, HttpTransport, Limits, Protocol, Reach, Server, Stdio, Tls, Tools};
