//! What the operator should read about while the gateway runs: the workers' events, and frames that a software peer
//! left unfinished. One line for each kind, and then silence for a while; the counters say how much there is of it.

use super::snat_words;
use crate::gateway::Gateway;
use dataplane::drops::DropReason;
use dataplane::local::Pressure;
use dataplane::service::Protocol;
use dataplane::worker::{Event, WorkerStats};
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Silence after a line, for each kind.
const SILENCE: Duration = Duration::from_secs(30);

/// What points at an offload of the peer, with what to say.
const UNFINISHED: [(Sign, &str); 2] = [
    (
        |stats| stats.completed_checksums.get(),
        "frames arrive with unfinished checksums: their sender leaves them to an offload that never runs, and they are \
         computed here; switch it off there to save the work (ethtool -K DEV tx off tso off gso off gro off)",
    ),
    (
        |stats| {
            let cut = [DropReason::TruncatedFrame, DropReason::OversizedFrame];
            cut.iter().map(|reason| stats.drops[*reason as usize].get()).sum()
        },
        "frames arrive too long for this port's MTU, or cut short: most likely joined or not yet cut up by an offload; \
         switch it off at both ends (ethtool -K DEV tx off tso off gso off gro off), or raise the port's mtu",
    ),
];

/// How many frames of a kind a worker has seen.
type Sign = fn(&WorkerStats) -> u64;

/// Kinds of lines: those of [`UNFINISHED`], then events, of which the two of SNAT are last.
const KINDS: usize = UNFINISHED.len() + 5;

/// Servers that one look tells of because their local ports run low; of more than these, only how many.
const SERVERS_AT_ONCE: usize = 8;

/// Lets a line of each kind through, then none until [`SILENCE`] is over.
#[derive(Default)]
struct Gate {
    spoke: [Option<Instant>; KINDS],
}

impl Gate {
    fn opens(&mut self, kind: usize, now: Instant) -> bool {
        let open = self.spoke[kind].is_none_or(|spoke| now.duration_since(spoke) >= SILENCE);
        if open {
            self.spoke[kind] = Some(now);
        }
        open
    }
}

/// Looks at a gateway once in a while.
#[derive(Default)]
pub(super) struct Watch {
    gate: Gate,
    seen: [u64; UNFINISHED.len()],
    low: Low,
}

/// Servers whose local ports run low. Each is told of at each mark, however many there are; two services or workers that
/// find the same are one line.
#[derive(Default)]
struct Low {
    told: HashMap<(IpAddr, u16, u8, Pressure), Instant>,
}

impl Low {
    /// The lines for what workers have said since the last look.
    fn lines(&mut self, events: &[Event], now: Instant) -> Vec<String> {
        self.told.retain(|_, told| now.duration_since(*told) < SILENCE);
        let mut lines = Vec::new();
        let mut more = 0;
        for event in events {
            let Event::LocalPortsLow {
                server,
                server_port,
                protocol,
                pressure,
                used,
                capacity,
            } = *event
            else {
                continue;
            };
            if self
                .told
                .insert((server, server_port, protocol, pressure), now)
                .is_some()
            {
                continue;
            }
            if lines.len() == SERVERS_AT_ONCE {
                more += 1;
                continue;
            }
            let server = SocketAddr::new(server, server_port);
            let protocol = Protocol::from_number(protocol).map_or("", Protocol::name);
            let percent = pressure.percent();
            lines.push(format!(
                "local ports run low: {percent} % or more of those towards server {server}/{protocol} are in use, \
                 {used} of {capacity}; with none left new connections are dropped: give the service more \
                 local_addresses, or spread it over more servers"
            ));
        }
        if more > 0 {
            lines.push(format!(
                "local ports run low towards {more} more servers: see tidegate show local-addresses --servers"
            ));
        }
        lines
    }
}

impl Watch {
    /// Logs what has come up since the last look. To be called about once a second.
    pub(super) fn look(&mut self, gateway: &Gateway, now: Instant) {
        for (kind, (sign, text)) in UNFINISHED.iter().enumerate() {
            let count = gateway.workers().iter().map(|worker| sign(&worker.stats)).sum();
            if count > self.seen[kind] && self.gate.opens(kind, now) {
                tracing::warn!(frames = count, "{text}");
            }
            self.seen[kind] = count;
        }
        let (mut low, mut failed) = (Vec::new(), BTreeSet::new());
        for (number, worker) in gateway.workers().iter().enumerate() {
            while let Some(event) = worker.mailbox.events.pop() {
                if let Some((none_left, text)) =
                    snat_words::words(&event, |slot| snat_words::name(gateway, slot))
                {
                    let kind = KINDS - 1 - usize::from(none_left);
                    if self.gate.opens(kind, now) {
                        tracing::warn!(worker = number, "{text}");
                    }
                    continue;
                }
                if let Event::NextHopFailed { port, address } = event {
                    failed.insert((port.0, address));
                    continue;
                }
                match line(&event) {
                    None => low.push(event),
                    Some((kind, text)) if self.gate.opens(kind, now) => {
                        tracing::warn!(worker = number, "{text}");
                    }
                    Some(_) => {}
                }
            }
        }
        for text in self.low.lines(&low, now) {
            tracing::warn!("{text}");
        }
        // Once for all workers.
        for (port, address) in failed {
            let state = gateway.state();
            let port = state.config.ports.get(usize::from(port)).map(|port| &*port.name);
            tracing::warn!(
                port,
                "next hop {address} does not answer ARP or neighbour discovery: its flows go by the others until it \
                 does; see tidegate show routes"
            );
        }
    }
}

/// The local addresses of a service, by their first.
fn local_addresses(first: Option<IpAddr>, count: u32) -> String {
    match (first, count) {
        (None, _) => "its local addresses".to_owned(),
        (Some(first), 0 | 1) => format!("local address {first}"),
        (Some(first), count) => format!("{count} local addresses from {first} on"),
    }
}

/// An event's kind and its text; none for those that [`Low`] words.
fn line(event: &Event) -> Option<(usize, String)> {
    let (kind, text) = match event {
        Event::LocalPortsExhausted {
            virtual_address,
            virtual_port,
            server,
            server_port,
            local,
            locals,
        } => (
            0,
            format!(
                "no local port is left from {} to server {}: those of {} are all in use, and new connections are refused; \
                 give the service more local_addresses, or spread it over more servers",
                SocketAddr::new(*virtual_address, *virtual_port),
                SocketAddr::new(*server, *server_port),
                local_addresses(*local, *locals)
            ),
        ),
        // Those of SNAT have been put into words before.
        Event::LocalPortsLow { .. } | Event::SnatPortsExhausted { .. } | Event::SnatPortsLow { .. } => return None,
        // Told one by one.
        Event::NextHopFailed { .. } => return None,
        Event::TableFull => (
            1,
            "the connection table is full: new connections are dropped; raise node.limits.connections"
                .to_owned(),
        ),
        Event::NeighbourFailed => (
            2,
            "a neighbour does not answer ARP or neighbour discovery: packets to it are dropped; `tidegate show \
             neighbours` names it"
                .to_owned(),
        ),
    };
    Some((UNFINISHED.len() + kind, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_told_once_in_a_while() {
        let (mut gate, start) = (Gate::default(), Instant::now());
        assert!(gate.opens(0, start) && gate.opens(1, start));
        assert!(!gate.opens(0, start + SILENCE / 2));
        assert!(gate.opens(0, start + SILENCE) && !gate.opens(0, start + SILENCE));
    }

    fn low(server: u8, pressure: Pressure) -> Event {
        Event::LocalPortsLow {
            server: [10, 0, 0, server].into(),
            server_port: 8080,
            protocol: 6,
            pressure,
            used: 80,
            capacity: 100,
        }
    }

    #[test]
    fn each_server_whose_ports_run_low_is_told_of_at_each_mark() {
        let (mut gate, start) = (Low::default(), Instant::now());
        let high = [
            low(11, Pressure::High),
            low(12, Pressure::High),
            low(11, Pressure::High),
        ];
        let lines = gate.lines(&high, start);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].contains("80 %")
                && lines[0].contains("10.0.0.11:8080/tcp")
                && lines[0].contains("80 of 100"),
            "{lines:?}"
        );
        assert_eq!(gate.lines(&high, start + SILENCE / 2), Vec::<String>::new());
        let critical = gate.lines(&[low(11, Pressure::Critical)], start + SILENCE / 2);
        assert!(critical[0].contains("95 %"), "{critical:?}");
        assert_eq!(gate.lines(&high, start + SILENCE * 2).len(), 2);
    }

    #[test]
    fn many_servers_at_once_are_counted() {
        let events: Vec<Event> = (0..20).map(|server| low(server, Pressure::High)).collect();
        let lines = Low::default().lines(&events, Instant::now());
        assert_eq!(lines.len(), SERVERS_AT_ONCE + 1);
        assert!(lines[SERVERS_AT_ONCE].contains("12 more servers"), "{lines:?}");
    }

    #[test]
    fn exhaustion_names_vip_server_and_local_address() {
        let event = Event::LocalPortsExhausted {
            virtual_address: [203, 0, 113, 100].into(),
            virtual_port: 80,
            server: [10, 0, 0, 11].into(),
            server_port: 8080,
            local: Some([10, 0, 0, 200].into()),
            locals: 1,
        };
        let (kind, text) = line(&event).unwrap();
        for name in [
            "203.0.113.100:80",
            "10.0.0.11:8080",
            "of local address 10.0.0.200 are",
        ] {
            assert!(text.contains(name), "{text}");
        }
        let several = local_addresses(Some([10, 0, 0, 200].into()), 4);
        assert_eq!(several, "4 local addresses from 10.0.0.200 on");
        let others = [Event::TableFull, Event::NeighbourFailed].map(|event| line(&event).unwrap().0);
        let kinds = [kind, others[0], others[1]];
        assert_eq!(kinds, [2, 3, 4]);
        assert!(kinds.iter().all(|kind| *kind < KINDS));
    }
}
