//! A server that speaks first, as those of mail and databases do (PP-01): it has read the header when it greets, and its
//! client has said nothing.

use super::site::{self, CLIENTS, SERVERS, VIPS, end};
use crate::lab::{Lab, PATIENCE};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Its port.
pub(super) const PORT: u16 = 2525;
/// How often its thread looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// What one connection has brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Heard {
    /// The client and the VIP, by the header.
    pub(super) client: SocketAddr,
    pub(super) vip: SocketAddr,
    /// What came behind it.
    pub(super) bytes: Vec<u8>,
}

/// The server: `hello CLIENT`, then it listens to the client's end, and says it all again.
pub(super) struct Greeter {
    stop: Arc<AtomicBool>,
    heard: Arc<Mutex<Vec<Heard>>>,
    thread: Option<JoinHandle<()>>,
}

impl Greeter {
    /// Starts it on server 1.
    pub(super) fn start(lab: &Lab, address: SocketAddr) -> Greeter {
        let listener = lab.server(1).inside(move || TcpListener::bind(address).unwrap());
        listener.set_nonblocking(true).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (stopped, known) = (Arc::clone(&stop), Arc::clone(&heard));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let known = Arc::clone(&known);
                        // It ends with its connection, whose reads have an end.
                        std::thread::spawn(move || serve(stream, &known));
                    }
                    Err(_) => std::thread::park_timeout(LOOK),
                }
            }
        });
        Greeter {
            stop,
            heard,
            thread: Some(thread),
        }
    }

    /// What the connections that are over have brought.
    pub(super) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }
}

impl Drop for Greeter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut stream: TcpStream, known: &Mutex<Vec<Heard>>) {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(4 * PATIENCE)).unwrap();
    let mut header = vec![0; 16];
    stream.read_exact(&mut header).unwrap();
    let len = u16::from_be_bytes([header[14], header[15]]);
    header.resize(16 + usize::from(len), 0);
    stream.read_exact(&mut header[16..]).unwrap();
    let (client, vip, _) = site::header(&header, false).unwrap();
    stream.write_all(format!("hello {client}\n").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let heard = Heard {
        client,
        vip,
        bytes: bytes.clone(),
    };
    known.lock().unwrap().push(heard);
    // A client that has gone is nobody's fault.
    let _ = stream.write_all(&bytes);
}

/// Connects from the client, and reads the greeting before it says a word; the connection and its own end.
pub(super) fn greeted(lab: &Lab, vip: SocketAddr) -> (BufReader<TcpStream>, SocketAddr) {
    let stream = lab
        .client()
        .inside(|| TcpStream::connect_timeout(&vip, 2 * PATIENCE).unwrap());
    stream.set_read_timeout(Some(4 * PATIENCE)).unwrap();
    let own = stream.local_addr().unwrap();
    let mut reader = BufReader::new(stream);
    let mut greeting = String::new();
    reader.read_line(&mut greeting).unwrap();
    assert_eq!(greeting, format!("hello {own}\n"));
    (reader, own)
}

/// Says `bytes` and that they are all, while it reads what comes back to its end.
pub(super) fn say(reader: &mut BufReader<TcpStream>, bytes: &[u8]) -> Vec<u8> {
    let mut writer = reader.get_ref().try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            writer.write_all(bytes).unwrap();
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut answer = Vec::new();
        reader.read_to_end(&mut answer).unwrap();
        answer
    })
}

/// PP-01: many clients that wait for the server's first word.
#[test]
fn a_server_that_speaks_first_knows_its_silent_client() {
    let lab = Lab::dual();
    let gateway = site::gateway(&lab);
    for ((server, vip), client) in SERVERS.into_iter().zip(VIPS).zip(CLIENTS) {
        let greeter = Greeter::start(&lab, end(server, PORT));
        for round in 0..20 {
            let (mut reader, own) = greeted(&lab, end(vip, 25));
            assert_eq!(own.ip(), end(client, 0).ip());
            let said = format!("quit {round}\n").into_bytes();
            assert_eq!(say(&mut reader, &said), said);
            let expected = Heard {
                client: own,
                vip: end(vip, 25),
                bytes: said,
            };
            assert_eq!(greeter.heard().last(), Some(&expected));
        }
    }
    site::finish(&lab, gateway);
}
