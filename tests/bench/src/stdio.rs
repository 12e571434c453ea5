//! The fast server on standard input and output: a message a line, answered in the order it came.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::thread::sleep;

use anyhow::bail;

use crate::mcp::Request;
use crate::server::{Reply, Server};

/// Room for a burst of small messages.
const BUFFER: usize = 64 << 10;

/// Serves until standard input ends. Answers are written together as long as more requests are there already.
///
/// # Errors
/// When a line is no message, or the other side is gone.
pub fn serve(server: &Server, input: impl std::io::Read, output: impl Write) -> anyhow::Result<()> {
    let mut input = BufReader::with_capacity(BUFFER, input);
    let mut output = BufWriter::with_capacity(BUFFER, output);
    let mut line = Vec::new();
    loop {
        if input.buffer().is_empty() {
            output.flush()?;
        }
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let request: Request<'_> = serde_json::from_slice(&line)?;
        let pieces = match server.answer(&request) {
            None => continue,
            Some(Reply::Now(pieces)) => pieces,
            Some(Reply::After(time, pieces)) => {
                sleep(time);
                pieces
            }
            Some(Reply::Events(..)) => bail!("no progress over stdio"),
        };
        for piece in pieces {
            output.write_all(&piece)?;
        }
        output.write_all(b"\n")?;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::{self, Read};

    use super::*;
    use crate::mcp::Manner;

    /// Gives its text at once; asked for more, it looks whether that was answered, and ends.
    struct Asker<'a>(Option<&'a [u8]>, &'a RefCell<Vec<u8>>);

    impl Read for Asker<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(mut text) = self.0.take() else {
                assert!(!self.1.borrow().is_empty(), "it waits for more and holds an answer back");
                return Ok(0);
            };
            text.read(buffer)
        }
    }

    struct Told<'a>(&'a RefCell<Vec<u8>>);

    impl Write for Told<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_answer_waits_behind_a_notification() {
        let told = RefCell::default();
        let text = b"{\"id\":1,\"method\":\"ping\"}\n{\"method\":\"notifications/x\"}\n";
        serve(&Server::new(4, Manner::default()), Asker(Some(text), &told), Told(&told)).unwrap();
    }

    #[test]
    fn lines_are_answered_in_order_and_notifications_are_not() {
        let input = b"{\"id\":1,\"method\":\"ping\"}\n{\"method\":\"notifications/x\"}\n{\"id\":\"b\",\"method\":\"ping\"}\n";
        let mut output = Vec::new();
        serve(&Server::new(4, Manner::default()), &input[..], &mut output).unwrap();
        let told = String::from_utf8(output).unwrap();
        let wanted = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":\"b\",\"result\":{}}\n";
        assert_eq!(told, wanted);
    }
}
