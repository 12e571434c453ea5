//! Section A: the edge towards clients, HTTP and TLS.
