//! Section D: servers that misbehave.
