//! A server in the kernel's TCP that closes when it is told to: first, or after its client.

use crate::lab::Host;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// What a client asks for: an answer and the server's FIN at once.
pub(super) const CLOSE: u8 = b'c';
/// An answer now, and the FIN after the client's.
pub(super) const WAIT: u8 = b'w';
/// What the server answers.
pub(super) const ANSWER: &[u8] = b"bye";

/// A listening server in a host of the lab.
pub(super) struct Server {
    listener: Arc<TcpListener>,
    /// Whom it has seen.
    clients: Arc<Mutex<HashSet<SocketAddr>>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to listen at that address and port.
    pub(super) fn start(host: &Host, end: SocketAddr) -> Server {
        let listener = Arc::new(host.inside(|| TcpListener::bind(end).unwrap()));
        let clients = Arc::new(Mutex::new(HashSet::new()));
        let (listening, seen) = (listener.clone(), clients.clone());
        let thread = std::thread::spawn(move || {
            // Until the listener is shut down.
            while let Ok((stream, client)) = listening.accept() {
                seen.lock().unwrap().insert(client);
                std::thread::spawn(move || serve(stream));
            }
        });
        Server {
            listener,
            clients,
            thread: Some(thread),
        }
    }

    /// The clients that it has seen, each once.
    pub(super) fn clients(&self) -> HashSet<SocketAddr> {
        self.clients.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: a system call without pointers, on a descriptor that is open.
        unsafe { libc::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR) };
        if let Some(thread) = self.thread.take() {
            // It has ended, which is what is wanted.
            let _ = thread.join();
        }
    }
}

/// Answers one client; one that resets or leaves is no fault of the server's.
fn serve(mut stream: TcpStream) {
    let mut asked = [0];
    if stream.read_exact(&mut asked).is_err() {
        return;
    }
    if stream.write_all(ANSWER).is_ok() && asked[0] == WAIT {
        let mut rest = vec![];
        let _ = stream.read_to_end(&mut rest);
    }
}
