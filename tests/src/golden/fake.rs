//! A naive gateway, for the harness' own tests: rr over IPv4, DR, NAT and FULLNAT, TCP states looked up in the
//! recordings themselves. It shows that the harness sends and reads what the recordings mean.

use super::frames;
use super::gateway::{Connection, Counts, Gateway, Injected, Output, Port, Sent};
use super::recording::{self, Shape};
use dataplane::scheduler::SchedulerKind;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;
use tidegate::ipvsadm::{self, Command, Endpoint, Forwarding, Protocol, Refusal, Server, ServiceId};

type Transitions = HashMap<(String, String, u8), (Option<String>, u64)>;

struct Entry {
    service: ServiceId,
    client: SocketAddrV4,
    vip: SocketAddrV4,
    server: Endpoint,
    /// Whether it sees both directions: NAT or FULLNAT.
    translated: bool,
    /// Whom the server answers.
    local: SocketAddrV4,
    state: String,
    expires: Duration,
}

struct Listed {
    id: ServiceId,
    one_packet: bool,
    servers: Vec<Server>,
    last: Option<IpAddr>,
}

pub(super) struct Fake {
    services: Vec<Listed>,
    entries: Vec<Entry>,
    tables: [Transitions; 2],
    sloppy: bool,
    udp: u64,
    now: Duration,
    next_local: u16,
}

fn refused(refusal: Refusal) -> Output {
    Output {
        stderr: format!("{refusal}\n"),
        exit: Refusal::EXIT,
        ..Output::default()
    }
}

fn transitions(folder: &Path, mode: &str) -> Transitions {
    let mut table = Transitions::new();
    for recording in recording::load(&folder.join("tcp_states.json")).unwrap() {
        if let Shape::States(s) = recording.shape
            && s.fwd == mode
            && s.sysctl.is_empty()
            && s.note.find("--set").is_none()
        {
            for event in s.events {
                let flags = event.flags.unwrap();
                let class = flags
                    .chars()
                    .fold(0, |bits, c| bits | 1 << "SAFR-".find(c).unwrap());
                table.insert(
                    (event.from, event.dir, class & 15),
                    (event.to, event.timeout.unwrap_or(0)),
                );
            }
        }
    }
    table
}

impl Fake {
    pub(super) fn new(recordings: &Path) -> Fake {
        let tables = [transitions(recordings, "dr"), transitions(recordings, "nat")];
        Fake {
            services: Vec::new(),
            entries: Vec::new(),
            tables,
            sloppy: false,
            udp: 300,
            now: Duration::ZERO,
            next_local: 5000,
        }
    }

    fn apply(&mut self, command: Command) -> Result<(), Refusal> {
        let at = |services: &[Listed], id| services.iter().position(|s| s.id == id);
        match command {
            Command::AddService(s) | Command::EditService(s)
                if SchedulerKind::from_name(&s.scheduler).is_none() =>
            {
                return Err(Refusal::NoSuchScheduler);
            }
            Command::AddService(s) if at(&self.services, s.id).is_some() => {
                return Err(Refusal::ServiceExists);
            }
            Command::AddService(s) => {
                let (id, one_packet) = (s.id, s.one_packet);
                self.services.push(Listed {
                    id,
                    one_packet,
                    servers: Vec::new(),
                    last: None,
                });
            }
            Command::EditService(s) => {
                let found = at(&self.services, s.id).ok_or(Refusal::NoSuchService)?;
                self.services[found].one_packet = s.one_packet;
            }
            Command::DeleteService(id) => {
                let found = at(&self.services, id).ok_or(Refusal::NoSuchService)?;
                self.services.remove(found);
            }
            Command::AddServer(id, server) => {
                let found = at(&self.services, id).ok_or(Refusal::ServiceNotDefined)?;
                if self.services[found]
                    .servers
                    .iter()
                    .any(|s| s.endpoint == server.endpoint)
                {
                    return Err(Refusal::ServerExists);
                }
                let unicast = match server.endpoint.address {
                    IpAddr::V4(v4) => !(v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast()),
                    IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_multicast()),
                };
                if !unicast {
                    return Err(Refusal::NotUnicast);
                }
                if server.lower_threshold > server.upper_threshold {
                    return Err(Refusal::OutOfRange);
                }
                self.services[found].servers.insert(0, server);
            }
            Command::EditServer(id, server) => {
                let found = at(&self.services, id).ok_or(Refusal::ServiceNotDefined)?;
                let mut servers = self.services[found].servers.iter_mut();
                let old = servers
                    .find(|s| s.endpoint == server.endpoint)
                    .ok_or(Refusal::NoSuchServer)?;
                *old = server;
            }
            Command::DeleteServer(id, endpoint) => {
                let found = at(&self.services, id).ok_or(Refusal::ServiceNotDefined)?;
                let service = &mut self.services[found];
                let gone = service
                    .servers
                    .iter()
                    .position(|s| s.endpoint == endpoint)
                    .ok_or(Refusal::NoSuchServer)?;
                // The turn goes back to the one before.
                if service.last == Some(endpoint.address) {
                    service.last = gone
                        .checked_sub(1)
                        .map(|before| service.servers[before].endpoint.address);
                }
                service.servers.remove(gone);
            }
            Command::Clear => self.services.clear(),
            Command::SetTimeouts { udp, .. } if udp != 0 => self.udp = udp.into(),
            Command::SetTimeouts { .. } => {}
        }
        Ok(())
    }

    fn counted(&self, server: IpAddr) -> Counts {
        let mine = |e: &&Entry| e.server.address == server;
        let active = self
            .entries
            .iter()
            .filter(mine)
            .filter(|e| ["SYN_RECV", "ESTABLISHED"].contains(&&*e.state));
        let active = active.count() as u32;
        Counts {
            active,
            inactive: self.entries.iter().filter(mine).count() as u32 - active,
        }
    }

    fn pick(&mut self, service: usize) -> Option<Server> {
        let Listed { servers, last, .. } = &self.services[service];
        let start = servers
            .iter()
            .position(|s| Some(s.endpoint.address) == *last)
            .map_or(0, |i| i + 1);
        let mut turn = (0..servers.len()).map(|i| servers[(start + i) % servers.len()]);
        let usable = |s: &Server| {
            let counts = self.counted(s.endpoint.address);
            s.weight > 0 && (s.upper_threshold == 0 || counts.active + counts.inactive < s.upper_threshold)
        };
        let picked = turn.find(usable)?;
        self.services[service].last = Some(picked.endpoint.address);
        Some(picked)
    }

    fn step(&mut self, entry: usize, direction: &str, flags: Option<u8>) {
        let udp = self.udp;
        let Some(flags) = flags else {
            self.entries[entry].expires = self.now + Duration::from_secs(udp);
            return;
        };
        // The recordings name the flags in another order than the header has them; PSH does not count.
        let class = [2, 16, 1, 4]
            .iter()
            .enumerate()
            .fold(0, |c, (i, bit)| c | (u8::from(flags & bit != 0) << i));
        let e = &mut self.entries[entry];
        if let Some((to, timeout)) =
            self.tables[usize::from(e.translated)].get(&(e.state.clone(), direction.to_owned(), class))
        {
            e.state = to.clone().unwrap_or_default();
            e.expires = self.now + Duration::from_secs(*timeout);
        }
        self.entries.retain(|e| !e.state.is_empty());
    }

    fn client_packet(&mut self, l3: &[u8]) -> Vec<Sent> {
        if l3[0] >> 4 != 4 || ![frames::TCP, frames::UDP].contains(&l3[9]) {
            return Vec::new();
        }
        let (src, dst, flags) = header(l3);
        let protocol = if flags.is_some() {
            Protocol::Tcp
        } else {
            Protocol::Udp
        };
        let id = ServiceId::Address {
            protocol,
            address: (*dst.ip()).into(),
            port: dst.port(),
        };
        let listed = self.services.iter().position(|s| s.id == id);
        let known = self
            .entries
            .iter()
            .position(|e| (e.client, e.vip, e.service) == (src, dst, id));
        let entry = match (known, listed) {
            (Some(known), _) => known,
            (None, Some(listed)) if flags.is_none_or(|f| f & 2 != 0 || self.sloppy && f & 4 == 0) => {
                let Some(server) = self.pick(listed) else {
                    return vec![to_client(icmp_unreachable(l3))];
                };
                let translated = matches!(server.forwarding, Forwarding::Nat | Forwarding::Fullnat);
                self.next_local += 1;
                let local = match server.forwarding {
                    Forwarding::Fullnat => {
                        SocketAddrV4::new(Ipv4Addr::new(192, 168, 1, 200), self.next_local)
                    }
                    _ => src,
                };
                let (state, expires) = if flags.is_some() {
                    ("SYN_RECV", 60)
                } else {
                    ("UDP", self.udp)
                };
                let state = if flags.is_some_and(|f| f & 2 == 0) {
                    "ESTABLISHED"
                } else {
                    state
                };
                self.entries.push(Entry {
                    service: id,
                    client: src,
                    vip: dst,
                    server: server.endpoint,
                    translated,
                    local,
                    state: state.to_owned(),
                    expires: self.now + Duration::from_secs(expires),
                });
                self.entries.len() - 1
            }
            (None, _) if flags.is_some_and(|f| f & 4 == 0) => {
                return vec![to_client(frames::tcp(dst.into(), src.into(), 4, 0, 0))];
            }
            _ => return Vec::new(),
        };
        let e = &self.entries[entry];
        let here = self
            .services
            .iter()
            .any(|s| s.id == id && s.servers.iter().any(|s| s.endpoint == e.server));
        let sent = here.then(|| forwarded(e, l3));
        let one_packet = listed.is_some_and(|listed| self.services[listed].one_packet);
        let opening = known.is_none() && flags.is_none_or(|f| f & 2 != 0);
        if one_packet {
            self.entries.remove(entry);
        } else if here && !opening {
            self.step(entry, "in", flags);
        }
        sent.into_iter().collect()
    }
}

fn header(l3: &[u8]) -> (SocketAddrV4, SocketAddrV4, Option<u8>) {
    let ip = |at: usize| Ipv4Addr::new(l3[at], l3[at + 1], l3[at + 2], l3[at + 3]);
    let port = |at: usize| u16::from_be_bytes([l3[at], l3[at + 1]]);
    let flags = (l3[9] == 6).then(|| l3[33] & 0x17);
    (
        SocketAddrV4::new(ip(12), port(20)),
        SocketAddrV4::new(ip(16), port(22)),
        flags,
    )
}

fn to_client(l3: Vec<u8>) -> Sent {
    let mut frame = frames::frame(Port::Wan, &l3);
    frame[..6].copy_from_slice(&super::rig::ROUTER_MAC);
    Sent {
        port: Port::Wan,
        frame,
    }
}

fn icmp_unreachable(l3: &[u8]) -> Vec<u8> {
    let mut packet = l3.to_vec();
    packet[9] = 1;
    packet[20..22].copy_from_slice(&[3, 3]);
    packet
}

fn forwarded(entry: &Entry, l3: &[u8]) -> Sent {
    let IpAddr::V4(server) = entry.server.address else {
        panic!("IPv6")
    };
    let packet = if entry.translated {
        frames::tcp(
            entry.local.into(),
            SocketAddr::new(server.into(), entry.server.port),
            l3[33],
            0,
            0,
        )
    } else {
        // Only the TTL changes; in a sum of ones' complements one less there is 256 more here.
        let mut packet = l3.to_vec();
        packet[8] -= 1;
        let sum = u32::from(u16::from_be_bytes([packet[10], packet[11]])) + 0x100;
        packet[10..12].copy_from_slice(&((sum + (sum >> 16)) as u16).to_be_bytes());
        packet
    };
    let mut frame = frames::frame(Port::Lan, &packet);
    frame[..6].copy_from_slice(&[2, 0, 0, 1, 0, server.octets()[3] - 10]);
    Sent {
        port: Port::Lan,
        frame,
    }
}

impl Gateway for Fake {
    fn command(&mut self, line: &str) -> Output {
        match ipvsadm::parse_line(line) {
            Ok(command) => self.apply(command).map_or_else(refused, |()| Output::default()),
            Err(e) => Output {
                stderr: format!("{e}\n"),
                exit: e.exit,
                ..Output::default()
            },
        }
    }

    fn sysctl(&mut self, name: &str, value: i64) -> bool {
        self.sloppy = name == "sloppy_tcp" && value != 0;
        name == "sloppy_tcp"
    }

    fn unreachable(&mut self, address: IpAddr, _on: bool) -> Result<(), String> {
        Err(format!("no routes, so none to {address}"))
    }

    fn inject(&mut self, port: Port, frame: &[u8]) -> Injected {
        let l3 = frames::packet(frame).unwrap();
        let sent = match port {
            Port::Wan => self.client_packet(l3),
            Port::Lan => {
                let (_, dst, flags) = header(l3);
                if let Some(entry) = self.entries.iter().position(|e| e.local == dst) {
                    self.step(entry, "out", flags);
                }
                Vec::new()
            }
        };
        Injected {
            sent,
            drops: Vec::new(),
        }
    }

    fn look_round(&mut self) {}

    fn advance(&mut self, by: Duration) {
        self.now += by;
        let now = self.now;
        self.entries.retain(|e| e.expires > now);
    }

    fn connections(&mut self) -> Vec<Connection> {
        let row = |e: &Entry| Connection {
            protocol: if e.state == "UDP" { "UDP" } else { "TCP" }.to_owned(),
            client: e.client.into(),
            service: e.vip.into(),
            server: (e.server.address, e.server.port).into(),
            state: e.state.clone(),
            remaining: e.expires - self.now,
        };
        self.entries.iter().map(row).collect()
    }

    fn counts(&mut self, server: IpAddr) -> Option<Counts> {
        let mut servers = self.services.iter().flat_map(|s| &s.servers);
        servers
            .any(|s| s.endpoint.address == server)
            .then(|| self.counted(server))
    }
}
