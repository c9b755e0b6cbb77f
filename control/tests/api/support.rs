//! A gateway without devices, served on a socket in a directory of its own.

use dataplane::flow::TagIndex;
use dataplane::packet::{MacAddr, PortId, checksum};
use dataplane::service::PortSettings;
use dataplane::time::{Tick, seconds};
use dataplane::worker::{Mailbox, MemoryIo, Worker, WorkerStats};
use serde::de::DeserializeOwned;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use tempfile::TempDir;
use tidegate::api::Server;
use tidegate::config::{self, Config, Metrics};
use tidegate::gateway::{Gateway, Look, PortCounters, PortDevice, Spread, WorkerHandle};
use tidegate::model::{Model, with_vlans};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// Two services share a server, and TCP and UDP share a VIP and port.
pub(crate) const BASE: &str = r#"
node: { name: gw1, limits: { connections: 1000, services: 16, servers: 32, neighbours: 64 } }
ports:
  - { name: wan, device: net_null0, addresses: [203.0.113.2/24] }
  - { name: lan, device: net_null1, addresses: [10.0.0.1/24] }
neighbours:
  - { address: 203.0.113.50, mac: 02:00:00:00:00:50, port: wan }
  - { address: 10.0.0.11, mac: 02:00:00:00:00:11, port: lan }
  - { address: 10.0.0.12, mac: 02:00:00:00:00:12, port: lan }
local_addresses: [{ name: dip, port: lan, addresses: [10.0.0.200-201], ports: 2000-2999 }]
pools:
  - { name: web, servers: [{ address: 10.0.0.11, port: 8080 }, { address: 10.0.0.12, port: 8080, weight: 2 }] }
  - { name: one, servers: [{ address: 10.0.0.11, port: 8080 }] }
services:
  - { name: web, listen: "203.0.113.100:80/tcp", pool: web, mode: fullnat, scheduler: wrr, local_addresses: dip }
  - { name: also, listen: "203.0.113.101:80/tcp", pool: one, mode: fullnat, scheduler: rr, local_addresses: dip }
  - { name: dgram, listen: "203.0.113.100:80/udp", pool: one, mode: fullnat, scheduler: rr, local_addresses: dip }
"#;

/// Services of both families, a VLAN, tunnels, and a port that a command has named in vain.
pub(crate) const MODES: &str = r#"
node: { limits: { connections: 1000, services: 16, servers: 32, neighbours: 64 } }
ports:
  - { name: wan, device: net_null0, addresses: [203.0.113.2/24, 2001:db8::1/64] }
  - { name: dmz, parent: wan, vlan: 20, addresses: [10.20.0.1/24], mtu: 1400 }
pools:
  - name: web
    servers:
      - { address: 203.0.113.11 }
      - { address: "2001:db8::12", mode: tun, tunnel: { type: gue, checksum: remote } }
      - { address: 203.0.113.13, mode: tun }
      - { address: 203.0.113.14, port: 8080, mode: nat }
  - { name: six, servers: [{ address: "2001:db8::11", port: 8080 }] }
services:
  - { name: web, listen: "203.0.113.100:80/tcp", pool: web, mode: dr, mss_clamp: 1400 }
  - { name: six, listen: "[2001:db8::100]:80/sctp", pool: six, mode: nat }
"#;

/// The client of all frames.
pub(crate) const CLIENT: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 50);
pub(crate) const VIP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 100);

struct Device;

impl PortDevice for Device {
    fn driver(&self) -> String {
        "net_memory".to_owned()
    }

    fn queues(&self) -> u16 {
        1
    }

    fn spread(&self) -> Spread {
        Spread::OneQueue
    }

    fn look(&self) -> Look {
        Look {
            up: true,
            members: Vec::new(),
        }
    }

    fn counters(&self) -> PortCounters {
        PortCounters {
            received_packets: 7,
            missed: 1,
            ..PortCounters::default()
        }
    }
}

/// A served gateway with one worker, whose clock stands still unless it is moved.
pub(crate) struct Fake {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) directory: TempDir,
    pub(crate) metrics_address: Option<SocketAddr>,
    frames: Option<Frames>,
    now: Arc<AtomicU32>,
    worker: Option<JoinHandle<()>>,
    runtime: Runtime,
    serving: Option<(oneshot::Sender<()>, tokio::task::JoinHandle<std::io::Result<()>>)>,
}

impl Fake {
    /// The gateway of that configuration, to which its socket is added.
    pub(crate) fn new(text: &str) -> Fake {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("gateway.yaml");
        let text = with_socket(text, &directory.path().join("run/api.sock"));
        std::fs::write(&file, text).unwrap();
        let config = config::load(&file).unwrap_or_else(|errors| panic!("{errors}"));
        let now = Arc::new(AtomicU32::new(0));
        let (gateway, frames, worker) = start(file, config, Arc::clone(&now));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let mut fake = Fake {
            gateway,
            directory,
            metrics_address: None,
            frames: Some(frames),
            now,
            worker: Some(worker),
            runtime,
            serving: None,
        };
        fake.serve();
        fake
    }

    fn serve(&mut self) {
        let config = self.config();
        let listen = Some((Ipv4Addr::LOCALHOST, 0).into());
        let server = Server::bind(
            &config.api,
            &Metrics {
                listen,
                ..config.metrics
            },
        )
        .unwrap();
        self.metrics_address = server.metrics_address();
        let (stop, stopped) = oneshot::channel();
        let gateway = Arc::clone(&self.gateway);
        let served = self.runtime.spawn(server.run(gateway, async {
            let _ = stopped.await;
        }));
        self.serving = Some((stop, served));
    }

    /// Ends the API as a signal would.
    /// Changes the model by a command, and leaves workers as they are.
    pub(crate) fn command(&self, line: &str) {
        let command = tidegate::ipvsadm::parse_line(line).unwrap();
        self.gateway.state().model.apply_command(&command).unwrap();
    }

    pub(crate) fn stop_serving(&mut self) {
        let (stop, served) = self.serving.take().unwrap();
        stop.send(()).unwrap();
        self.runtime.block_on(served).unwrap().unwrap();
    }

    pub(crate) fn config(&self) -> Config {
        self.gateway.state().config.clone()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("run/api.sock")
    }

    /// Writes another configuration, for a reload.
    pub(crate) fn write(&self, text: &str) {
        let text = with_socket(text, &self.socket());
        std::fs::write(self.directory.path().join("gateway.yaml"), text).unwrap();
    }

    /// Lets a frame arrive at `wan`, and waits until the worker is done with it.
    pub(crate) fn arrive(&self, frame: Vec<u8>) {
        let (tell, told) = mpsc::channel();
        self.frames.as_ref().unwrap().send((frame, tell)).unwrap();
        told.recv().unwrap();
    }

    /// Lets that many seconds pass, and the worker do what is due then.
    pub(crate) fn pass(&self, duration: u32) {
        self.now.fetch_add(seconds(duration), Ordering::Relaxed);
        let turns = &self.gateway.workers()[0].stats.turns;
        let before = turns.get();
        while turns.get() < before + 10 {
            std::thread::yield_now();
        }
    }

    /// Lets a client open a TCP connection from that port.
    pub(crate) fn open(&self, client_port: u16) {
        self.arrive(syn(client_port, VIP));
    }

    /// Asks, and gives status and body.
    pub(crate) fn ask(&self, method: &str, path: &str) -> (u16, String) {
        exchange(UnixStream::connect(self.socket()).unwrap(), method, path)
    }

    /// Asks at the metrics address, and gives status and body.
    pub(crate) fn ask_metrics_address(&self, path: &str) -> (u16, String) {
        exchange(
            TcpStream::connect(self.metrics_address.unwrap()).unwrap(),
            "GET",
            path,
        )
    }

    /// What a path answers when all is well.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        let (status, body) = self.ask("GET", path);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    }

    pub(crate) fn metrics(&self) -> String {
        let (status, text) = self.ask("GET", "/metrics");
        assert_eq!(status, 200, "{text}");
        text
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if self.serving.is_some() {
            self.stop_serving();
        }
        self.frames = None;
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

fn exchange(mut stream: impl Read + Write, method: &str, path: &str) -> (u16, String) {
    // HTTP/1.0: the body ends with the connection, and is not chunked.
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: gateway\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

pub(crate) fn with_socket(text: &str, socket: &std::path::Path) -> String {
    format!(
        "{text}\napi: {{ socket: \"{}\", mode: 0660 }}\n",
        socket.display()
    )
}

type Frames = mpsc::Sender<(Vec<u8>, mpsc::Sender<()>)>;

fn start(file: PathBuf, config: Config, now: Arc<AtomicU32>) -> (Arc<Gateway>, Frames, JoinHandle<()>) {
    let limits = config.node.limits;
    let ports = config.ports[..config.devices()]
        .iter()
        .enumerate()
        .map(|(number, port)| PortSettings {
            mac: MacAddr([2, 0, 0, 0, 0, number as u8]),
            any_mac: false,
            vlan: None,
            mtu: port.mtu,
            addresses: port.own_addresses(),
            check_partial: false,
            exception_rate: 0,
        });
    let ports = with_vlans(&config, ports.collect());
    let mut model = Model::new(ports, 1, limits.services, limits.servers);
    model.apply_file(&config).unwrap();
    let stats = Arc::new(WorkerStats::new(config.ports.len(), limits.servers as usize));
    let mailbox = Arc::new(Mailbox::default());
    let sizes = limits.sizes(1, false, 1);
    let index = TagIndex::new(2 * limits.connections as usize, false).unwrap();
    let (snapshot, io) = (model.snapshot(), MemoryIo::new(config.ports.len()));
    let mut worker = Worker::new(
        0,
        io,
        index,
        sizes,
        snapshot,
        Arc::clone(&stats),
        Arc::clone(&mailbox),
    )
    .unwrap();
    let devices = config.ports[..config.devices()]
        .iter()
        .map(|_| Box::new(Device) as Box<dyn PortDevice>)
        .collect();
    let handle = WorkerHandle {
        cpu: 3,
        mailbox,
        stats: Arc::clone(&stats),
    };
    let gateway = Arc::new(Gateway::new(file, config, model, vec![handle], devices));
    let (frames, arriving) = mpsc::channel::<(Vec<u8>, mpsc::Sender<()>)>();
    let thread = std::thread::spawn(move || {
        loop {
            let done = match arriving.try_recv() {
                Ok((frame, done)) => {
                    worker.io_mut().arrive(PortId(0), &frame);
                    Some(done)
                }
                Err(mpsc::TryRecvError::Empty) => None,
                Err(mpsc::TryRecvError::Disconnected) => return,
            };
            worker.turn(Tick(now.load(Ordering::Relaxed)));
            stats.turns.add(1);
            if let Some(done) = done {
                let _ = done.send(());
            }
            std::thread::yield_now();
        }
    });
    (gateway, frames, thread)
}

/// A SYN to port 80 of `vip`.
pub(crate) fn syn(client_port: u16, vip: Ipv4Addr) -> Vec<u8> {
    segment(client_port, vip, 0x02)
}

/// A reset of the connection that [`syn`] has opened to [`VIP`].
pub(crate) fn reset(client_port: u16) -> Vec<u8> {
    segment(client_port, VIP, 0x04)
}

fn segment(client_port: u16, vip: Ipv4Addr, flags: u8) -> Vec<u8> {
    let mut segment = [0; 20];
    segment[..2].copy_from_slice(&client_port.to_be_bytes());
    segment[2..4].copy_from_slice(&80u16.to_be_bytes());
    segment[4..8].copy_from_slice(&1000u32.to_be_bytes());
    segment[12..16].copy_from_slice(&[0x50, flags, 0xff, 0xff]);
    let sum = !checksum::l4_sum(CLIENT, vip, 6, &segment);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    frame(6, vip, &segment)
}

/// A datagram to port 80 of `vip`.
pub(crate) fn datagram(client_port: u16, vip: Ipv4Addr) -> Vec<u8> {
    let mut datagram = [0; 12];
    datagram[..2].copy_from_slice(&client_port.to_be_bytes());
    datagram[2..4].copy_from_slice(&80u16.to_be_bytes());
    datagram[4..6].copy_from_slice(&12u16.to_be_bytes());
    frame(17, vip, &datagram)
}

fn frame(protocol: u8, vip: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0x50, 8, 0];
    let length = (20 + payload.len()) as u16;
    let mut header = [0; 20];
    header[..4].copy_from_slice(&[0x45, 0, (length >> 8) as u8, length as u8]);
    header[8..10].copy_from_slice(&[64, protocol]);
    header[12..16].copy_from_slice(&CLIENT.octets());
    header[16..20].copy_from_slice(&vip.octets());
    let sum = !checksum::sum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(header);
    frame.extend(payload);
    frame
}
