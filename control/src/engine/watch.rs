//! What the operator should read about while the gateway runs: the workers' events, and frames that a software peer
//! left unfinished. One line for each kind, and then silence for a while; the counters say how much there is of it.

use crate::gateway::Gateway;
use dataplane::drops::DropReason;
use dataplane::worker::{Event, WorkerStats};
use std::net::SocketAddr;
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

/// Kinds of lines: those of [`UNFINISHED`], then events.
const KINDS: usize = UNFINISHED.len() + 3;

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
        for (number, worker) in gateway.workers().iter().enumerate() {
            while let Some(event) = worker.mailbox.events.pop() {
                let (kind, text) = line(&event);
                if self.gate.opens(kind, now) {
                    tracing::warn!(worker = number, "{text}");
                }
            }
        }
    }
}

/// An event's kind and its text.
fn line(event: &Event) -> (usize, String) {
    let (kind, text) = match event {
        Event::LocalPortsExhausted {
            virtual_address,
            virtual_port,
            server,
            server_port,
        } => (
            0,
            format!(
                "no local port is left from {} to server {}: new connections are dropped; give the service more \
                 local_addresses, or spread it over more servers",
                SocketAddr::new(*virtual_address, *virtual_port),
                SocketAddr::new(*server, *server_port)
            ),
        ),
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
    (UNFINISHED.len() + kind, text)
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

    #[test]
    fn exhaustion_names_vip_and_server() {
        let event = Event::LocalPortsExhausted {
            virtual_address: [203, 0, 113, 100].into(),
            virtual_port: 80,
            server: [10, 0, 0, 11].into(),
            server_port: 8080,
        };
        let (kind, text) = line(&event);
        assert!(
            text.contains("203.0.113.100:80") && text.contains("10.0.0.11:8080"),
            "{text}"
        );
        let kinds = [kind, line(&Event::TableFull).0, line(&Event::NeighbourFailed).0];
        assert_eq!(kinds, [2, 3, 4]);
        assert!(kinds.iter().all(|kind| *kind < KINDS));
    }
}
