//! What the golden tests need of a gateway. The `replay` library is behind it in earnest, a naive model in the
//! harness' own tests.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// An Ethernet port of the recording rig.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Port {
    /// Where the clients are.
    Wan,
    /// Where the servers are.
    Lan,
}

/// A frame that the gateway sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Where it went out.
    pub port: Port,
    /// From the Ethernet header on.
    pub frame: Vec<u8>,
}

/// What became of a frame.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Injected {
    /// What was sent because of it, in order.
    pub sent: Vec<Sent>,
    /// The reasons of what was dropped, for messages only.
    pub drops: Vec<String>,
}

/// What a command printed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The exit status.
    pub exit: u8,
}

/// A row of the connection table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connection {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The client's endpoint.
    pub client: SocketAddr,
    /// The VIP and its port.
    pub service: SocketAddr,
    /// The server's endpoint.
    pub server: SocketAddr,
    /// The state's name, as IPVS spells it; `UDP` for UDP.
    pub state: String,
    /// Time left.
    pub remaining: Duration,
}

/// The connections of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Those that count as active.
    pub active: u32,
    /// The others.
    pub inactive: u32,
}

/// A gateway with a virtual clock, whose packets are bytes.
pub trait Gateway {
    /// Runs `ipvsadm LINE`.
    fn command(&mut self, line: &str) -> Output;
    /// Sets what IPVS has as `net.ipv4.vs.NAME`; false when there is no such setting.
    fn sysctl(&mut self, name: &str, value: i64) -> bool;
    /// Makes an address unreachable, or reachable again.
    ///
    /// # Errors
    /// The gateway cannot do that.
    fn unreachable(&mut self, address: IpAddr, on: bool) -> Result<(), String>;
    /// A frame arrives.
    fn inject(&mut self, port: Port, frame: &[u8]) -> Injected;
    /// Lets workers see what the others have, as they do every 10 ms; no time passes in the recording.
    fn look_round(&mut self);
    /// Time passes.
    fn advance(&mut self, by: Duration);
    /// The connection table, in any order.
    fn connections(&mut self) -> Vec<Connection>;
    /// The connections that a server has in all services; `None` when no service has it.
    fn counts(&mut self, server: IpAddr) -> Option<Counts>;
}
