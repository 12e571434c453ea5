//! HTTP towards clients and operators: one match over a few paths.
//!
//! Knows sessions and HTTP; what a message means is the relay's business.

mod accept;
mod admin;
mod body;
mod direct;
mod endpoint;
mod era;
mod guard;
mod listen;
mod modern;
mod post;
mod refuse;
mod reply;
mod serve;
mod status;
mod stream;
mod tail;
mod worker;

pub use admin::{Admin, LastReload};
pub use endpoint::Endpoint;
pub use guard::knows;
pub use serve::{Serve, Server};
pub use worker::Workers;
