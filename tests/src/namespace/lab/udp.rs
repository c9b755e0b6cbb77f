//! A UDP service on a real kernel: whatever comes goes back.

use super::Host;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the thread looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);

/// An echo server. It ends with this value.
pub(crate) struct Echo {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// Starts it at an address of a host.
    pub(crate) fn start(host: &Host, address: SocketAddr) -> Echo {
        let socket = host.inside(move || UdpSocket::bind(address).unwrap());
        socket.set_read_timeout(Some(LOOK)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut datagram = vec![0; 65_536];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut datagram) {
                    // A client that has gone is nobody's fault.
                    let _ = socket.send_to(&datagram[..len], from);
                }
            }
        });
        Echo {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
