//! JSON-RPC messages as the bytes that arrived plus the places of their parts; server-sent events in and out; error
//! codes.
//!
//! Payloads are never parsed into values: numbers of any size, duplicate keys, key order and unknown fields leave as
//! they came. No sockets, no clocks, no tasks.

mod build;
mod code;
mod edit;
mod grow;
mod member;
mod message;
mod passage;
mod scan;
mod sse;

pub use build::{
    array, error, error_with, failure, flat, notification, quoted, request, response, response_of,
};
pub use code::Code;
pub use edit::{Edit, Member, cuts, edited, every_member, members_of};
pub use grow::grow;
pub use member::{Malformed, Span, Text, elements, members};
pub use message::{Kind, Message};
pub use passage::Passage;
pub use sse::{Event, SseDecoder, SseTooLong, comment, frame, frame_as, priming};
