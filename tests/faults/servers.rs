//! Section D: servers that misbehave.

mod away;
mod broken;
