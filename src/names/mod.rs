//! How things are called from outside: exposed server names, `<tool>_mcp_<server>`, and URIs.
//!
//! Pure functions of a raw name, a server and a [`Naming`], so the same input has the same name whatever the order of
//! the servers or who else is there. Nothing here ever splits a name: routing is a look-up in the catalog.

mod naming;
mod server_name;
pub mod uri;

pub use naming::{Exposed, Naming, Style};
pub use server_name::ServerName;
