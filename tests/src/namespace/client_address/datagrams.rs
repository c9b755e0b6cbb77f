//! UDP: a server that reads the header of each datagram, as name servers do, over TAP devices, whose frames are those of
//! a wire.

use super::site::{self, CLIENTS, SERVERS, VIPS, end};
use crate::lab::{Gateway, Host, Lab, PATIENCE, on_taps, until};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Its port.
pub(super) const PORT: u16 = 5353;
/// How often its thread looks whether it is still wanted, and how often a client asks again.
const LOOK: Duration = Duration::from_millis(100);
const ASKS: Duration = Duration::from_millis(500);

/// A server whose answer is whom the header names, and what came behind it. It ends with this value.
struct Reader {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    fn start(host: &Host, address: SocketAddr) -> Reader {
        let socket = host.inside(move || UdpSocket::bind(address).unwrap());
        socket.set_read_timeout(Some(LOOK)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut datagram = vec![0; 65_536];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut datagram) {
                    let (client, vip, header) = site::header(&datagram[..len], true).unwrap();
                    let mut answer = format!("{client} asked {vip}\n").into_bytes();
                    answer.extend(&datagram[header..len]);
                    // A client that has gone is nobody's fault.
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        Reader {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends `sent` until its answer is there: a datagram that is too long is lost while its sender learns so.
fn ask(socket: &UdpSocket, sent: &[u8], expected: &[u8]) {
    let mut room = vec![0; 65_536];
    until(&format!("the answer to {} bytes", sent.len()), PATIENCE, || {
        // The kernel tells what it has learnt by an error.
        let _ = socket.send(sent);
        let len = socket.recv(&mut room).ok()?;
        // One to an earlier question may be late.
        (room[..len] == *expected).then_some(())
    });
}

/// Datagrams of all lengths from several ports, up to those that need fragments and those that just do not fit.
#[test]
fn each_datagram_names_its_client() {
    let lab = Lab::bare();
    lab.client().enable_ipv6();
    lab.server(1).enable_ipv6();
    let gateway = Gateway::start(&lab, &on_taps(&site::yaml()));
    lab.plug("tgwan", &lab.client(), &["203.0.113.1/24", "2001:db8:1::1/64"]);
    lab.plug("tglan", &lab.server(1), &["10.0.0.11/24", "fd00::11/64"]);
    for ((server, vip), client) in SERVERS.into_iter().zip(VIPS).zip(CLIENTS) {
        let _reader = Reader::start(&lab.server(1), end(server, PORT));
        for _ in 0..3 {
            let socket = lab.client().inside(|| {
                let socket = UdpSocket::bind(end(client, 0)).unwrap();
                socket.connect(end(vip, 53)).unwrap();
                socket
            });
            socket.set_read_timeout(Some(ASKS)).unwrap();
            let own = socket.local_addr().unwrap();
            for len in [0, 1, 28, 100, 1400, 1444, 1445, 1472, 1473, 3000, 9000, 60_000] {
                let sent: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
                let mut expected = format!("{own} asked {}\n", end(vip, 53)).into_bytes();
                expected.extend(&sent);
                ask(&socket, &sent, &expected);
            }
        }
        // What just does not fit was told to the client, with room for the header.
        let header = if vip.contains(':') { 52 } else { 28 };
        assert_eq!(lab.client().learnt_mtu(vip), Some(1500 - header));
    }
    until("no fragment to be held", PATIENCE, || {
        let workers = gateway.rows("workers");
        workers.iter().all(|row| row["held"] == 0).then_some(())
    });
    site::finish(&lab, gateway);
}
