//! A child process that joins its standard input and output to a fake server in the test: this very binary, run again.

use std::fs::File;
use std::io::{Read, Write, stdin};
use std::net::{Shutdown, SocketAddr, TcpStream};

const VARIABLE: &str = "TRUNKLINE_TEST_BRIDGE";

/// The entry of a child that bridges to `address`. The test harness writes to standard output, so the child's is kept
/// from it as descriptor 3.
pub(super) fn entry(address: SocketAddr, more: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let run = r#"exec 3>&1 >/dev/null; exec \"$0\" --exact support::bridge::child --ignored --nocapture"#;
    format!(
        r#"{{"command": "sh", "args": ["-c", "{run}", "{}"], "env": {{"{VARIABLE}": "{address}"}}{more}}}"#,
        program.display()
    )
}

#[test]
#[ignore = "a child process of other tests"]
fn child() {
    let Ok(address) = std::env::var(VARIABLE) else { return };
    let mut input = TcpStream::connect(address).unwrap();
    let output = input.try_clone().unwrap();
    input.set_nodelay(true).unwrap();
    writeln!(input, "{}", std::process::id()).unwrap();
    std::thread::spawn(move || {
        pump(stdin(), &input);
        drop(input.shutdown(Shutdown::Write));
    });
    // Ends with the connection, and the process with it.
    pump(output, File::options().write(true).open("/dev/fd/3").unwrap());
}

/// Unlike `std::io::copy` it passes on every piece as soon as it is there, whatever the descriptors are.
fn pump(mut from: impl Read, mut to: impl Write) {
    let mut piece = [0; 8192];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        if to.write_all(&piece[..length]).is_err() {
            return;
        }
    }
}
