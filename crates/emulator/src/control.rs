//! The control socket: many clients, none of which can make the server wait.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::commands::{self, Answer};

const MAX_CLIENTS: usize = 32;
const MAX_LINE_BYTES: usize = 1024 * 1024;
/// Answers that a client has not read; beyond it, its next commands wait.
const MAX_UNREAD_BYTES: usize = 1024 * 1024;
const READ_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    received: Vec<u8>,
    unsent: Vec<u8>,
    /// What the next answer comes with; until then no more commands are taken.
    ticket: Option<u64>,
    /// Nothing more will come; what is unsent still goes.
    at_end: bool,
}

impl Control {
    /// Makes the socket; one that a dead server left is replaced, a live one's is not.
    pub fn new(path: &Path) -> Result<Self, Error> {
        let name = path.display();
        if let Ok(metadata) = path.symlink_metadata() {
            if UnixStream::connect(path).is_ok() {
                return Err(Error::Config(format!("another server answers on {name:?}")));
            }
            if !std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type()) {
                return Err(Error::Config(format!("{name:?} exists and is no socket")));
            }
            fs::remove_file(path).map_err(Error::system(format!("cannot replace {name:?}")))?;
        }
        let what = || format!("cannot make the control socket {name:?}");
        let listener = UnixListener::bind(path).map_err(Error::system(what()))?;
        let control = Self {
            listener,
            path: path.to_owned(),
            clients: vec![],
        };
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))
            .map_err(Error::system(what()))?;
        control
            .listener
            .set_nonblocking(true)
            .map_err(Error::system(what()))?;
        Ok(control)
    }

    /// What to poll, the listener first, and for which events.
    pub fn polled(&self) -> impl Iterator<Item = (RawFd, i16)> {
        let listener = (self.listener.as_raw_fd(), libc::POLLIN);
        let clients = self.clients.iter().map(|client| {
            let reading = if client.wants_input() {
                libc::POLLIN
            } else {
                0
            };
            let writing = if client.unsent.is_empty() {
                0
            } else {
                libc::POLLOUT
            };
            match client.ticket {
                // poll(2) passes it over: one that hangs up meanwhile must not keep the loop busy.
                Some(_) => (-1, 0),
                None => (client.stream.as_raw_fd(), reading | writing),
            }
        });
        std::iter::once(listener).chain(clients)
    }

    /// Serves whoever is ready; true when the server is to end.
    pub fn serve(&mut self, mut execute: impl FnMut(&[u8]) -> Answer) -> bool {
        self.accept();
        let mut ends_server = false;
        self.clients
            .retain_mut(|client| match client.serve(&mut execute) {
                Ok(ends) => {
                    ends_server |= ends;
                    !(client.at_end && client.unsent.is_empty() && client.ticket.is_none())
                }
                Err(_) => false,
            });
        ends_server
    }

    /// Gives the answer that a client waits for, if it still does. What the client sends after that
    /// is looked at when something is served next.
    pub fn answer(&mut self, ticket: u64, answer: &Answer) {
        let mut clients = self.clients.iter_mut();
        if let Some(client) = clients.find(|client| client.ticket == Some(ticket)) {
            client.ticket = None;
            client.answer(answer);
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() >= MAX_CLIENTS {
                // The oldest has had the longest time to say something.
                self.clients.remove(0);
            }
            if stream.set_nonblocking(true).is_ok() {
                self.clients.push(Client {
                    stream,
                    received: vec![],
                    unsent: vec![],
                    ticket: None,
                    at_end: false,
                });
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Client {
    fn wants_input(&self) -> bool {
        !self.at_end && self.ticket.is_none() && self.unsent.len() < MAX_UNREAD_BYTES
    }

    fn serve(&mut self, execute: &mut impl FnMut(&[u8]) -> Answer) -> io::Result<bool> {
        self.receive()?;
        let mut ends_server = false;
        while self.ticket.is_none() && self.unsent.len() < MAX_UNREAD_BYTES {
            let Some(end) = self.received.iter().position(|&byte| byte == b'\n') else {
                break;
            };
            let line: Vec<u8> = self.received.drain(..=end).collect();
            if line.trim_ascii().is_empty() {
                continue;
            }
            ends_server |= self.answer(&execute(&line));
        }
        if self.received.len() > MAX_LINE_BYTES {
            self.answer(&commands::refused("a command is one line of at most 1 MiB"));
            self.received.clear();
            self.at_end = true;
        }
        self.send()?;
        Ok(ends_server)
    }

    fn answer(&mut self, answer: &Answer) -> bool {
        if answer.ticket.is_some() {
            self.ticket = answer.ticket;
            return false;
        }
        self.unsent.extend_from_slice(answer.line.as_bytes());
        self.unsent.push(b'\n');
        answer.ends_server
    }

    /// Takes what has come, but no more than one buffer, so that nobody holds up the volumes.
    fn receive(&mut self) -> io::Result<()> {
        if !self.wants_input() {
            return Ok(());
        }
        let mut buffer = [0; READ_BYTES];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.at_end = true,
            Ok(count) => self.received.extend_from_slice(&buffer[..count]),
            Err(error) if is_not_now(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if is_not_now(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn is_not_now(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    fn socket_path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("pgstow-control-{name}-{}", std::process::id()))
    }

    fn echo(line: &[u8]) -> Answer {
        let line = String::from_utf8_lossy(line).trim().to_owned();
        Answer {
            ends_server: line == "end",
            line,
            ticket: None,
        }
    }

    #[test]
    fn clients_that_hang_or_leave_hold_up_nobody() {
        let path = socket_path("hang");
        let mut control = Control::new(&path).unwrap();
        assert!(
            Control::new(&path)
                .unwrap_err()
                .to_string()
                .contains("another server")
        );
        control.serve(echo);
        let mut half = UnixStream::connect(&path).unwrap();
        half.write_all(b"half a li").unwrap();
        drop(UnixStream::connect(&path).unwrap());
        let mut whole = UnixStream::connect(&path).unwrap();
        whole.write_all(b"one\n\ntwo\nend\n").unwrap();
        assert!(control.serve(echo));
        let mut lines = BufReader::new(whole).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "one");
        assert_eq!(lines.next().unwrap().unwrap(), "two");
        half.write_all(b"ne\n").unwrap();
        control.serve(echo);
        assert_eq!(
            BufReader::new(half).lines().next().unwrap().unwrap(),
            "half a line"
        );
        drop(control);
        assert!(!path.exists());
    }

    #[test]
    fn a_client_that_never_reads_is_given_only_so_much() {
        let path = socket_path("deaf");
        let mut control = Control::new(&path).unwrap();
        let mut deaf = UnixStream::connect(&path).unwrap();
        deaf.set_nonblocking(true).unwrap();
        for _ in 0..100 {
            let _ = deaf.write(&b"x\n".repeat(4096));
            control.serve(|_| Answer {
                line: "y".repeat(1000),
                ends_server: false,
                ticket: None,
            });
        }
        assert!(control.clients[0].unsent.len() <= MAX_UNREAD_BYTES + 1001);
    }

    #[test]
    fn an_endless_line_and_a_crowd_are_turned_away() {
        let path = socket_path("crowd");
        let mut control = Control::new(&path).unwrap();
        let mut endless = UnixStream::connect(&path).unwrap();
        endless.set_nonblocking(true).unwrap();
        for _ in 0..200 {
            let _ = endless.write(&[b'x'; 16 * 1024]);
            control.serve(echo);
        }
        assert!(control.clients.is_empty());
        let crowd: Vec<_> = (0..50)
            .map(|_| {
                let stream = UnixStream::connect(&path).unwrap();
                control.serve(echo);
                stream
            })
            .collect();
        assert_eq!(control.clients.len(), MAX_CLIENTS);
        drop(crowd);
    }

    #[test]
    fn a_socket_left_behind_is_replaced_and_a_file_is_not() {
        let path = socket_path("left");
        drop(UnixListener::bind(&path).unwrap());
        drop(Control::new(&path).unwrap());
        fs::write(&path, "precious").unwrap();
        assert!(
            Control::new(&path)
                .unwrap_err()
                .to_string()
                .contains("no socket")
        );
        fs::remove_file(&path).unwrap();
    }
}
