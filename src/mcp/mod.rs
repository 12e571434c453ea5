//! The protocol's own facts: revisions, headers, methods, and the handshake's messages as text.
//!
//! Pure functions over text; nothing here knows sockets, clocks or tasks.

mod caching;
mod client;
mod content;
mod discover;
mod elicitation;
mod envelope;
mod extension;
mod failure;
mod feature;
pub mod header;
mod hello;
mod leg;
mod letter;
mod level;
mod listen;
pub mod meta;
pub mod method;
mod mirror;
mod number;
mod offers;
mod param_header;
mod project;
mod revision;
mod round;
mod task;
mod task_support;

pub use caching::{Caching, Scope};
pub use client::{Abilities, Unable, abilities_for, all_abilities, is_leg};
pub use discover::{discover_result, newest_modern, supported_versions, unsupported_data};
pub use envelope::{
    Envelope, TASKS_EXTENSION, client_info, envelope_cuts, envelope_members, enveloped, enveloped_params,
    missing_envelope, modern_capabilities,
};
pub use extension::{UI_EXTENSION, declares, declaring, lacking};
pub use failure::{URL_ELICITATION_REQUIRED, code_of, error_for};
pub use feature::{Feature, Features};
pub use hello::{Asked, Hello, IDENTITY, initialize_params, initialize_result};
pub use leg::{input_params, leg_params};
pub use letter::Letter;
pub use level::Level;
pub use listen::{Filter, acknowledged, ended, subscription, tagged};
pub use mirror::{BadHeader, Mirror, decode_header, encode_header, named_by};
pub use offers::Offers;
pub use param_header::{BadAnnotation, ParamHeader, Shown};
pub use project::{Answer, completed, to_legacy, to_modern};
pub use revision::Revision;
pub use round::{InputRequest, Retry, Round, input_required, retried};
pub use task::{Task, TaskStatus, task_members, task_notice, wants_tasks, without_related};
pub use task_support::TaskSupport;
