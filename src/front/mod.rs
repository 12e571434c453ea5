//! HTTP towards clients and operators: one match over a few paths.
//!
//! Knows sessions and HTTP; what a message means is the relay's business.

mod accept;
mod admin;
mod body;
mod connection;
mod direct;
mod endpoint;
mod era;
mod framing;
mod guard;
mod intake;
mod listen;
mod modern;
mod peer;
mod post;
mod refuse;
mod reply;
mod sent;
mod serve;
mod socket;
mod spoken;
mod status;
mod stream;
mod tail;
mod tls;
mod worker;

pub use admin::{Admin, LastReload};
pub use endpoint::Endpoint;
pub use guard::knows;
pub use peer::Peer;
pub use serve::{Serve, Server};
pub use tls::Tls;
pub use worker::Workers;
