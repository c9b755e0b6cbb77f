//! What a worker counts. Each counter has one writer, the worker, and is read by control at any time: relaxed
//! loads and stores, never a read-modify-write.

use crate::drops::DropReason;
use crate::flow::Direction;
use crate::packet::{Headers, PortId};
use crate::scheduler::Load;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A count that only its worker changes.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `by`; only for the owning worker.
    #[inline]
    pub fn add(&self, by: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(by), Relaxed);
    }

    /// Sets the value; only for the owning worker.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// The value now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number of things that exist now; only its worker changes it.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU32);

impl Gauge {
    /// One more; only for the owning worker.
    #[inline]
    pub fn up(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// One less; only for the owning worker.
    #[inline]
    pub fn down(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(1), Relaxed);
    }

    /// Sets the value; only for the owning worker.
    #[inline]
    pub fn set(&self, value: u32) {
        self.0.store(value, Relaxed);
    }

    /// The value now.
    #[inline]
    pub fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

/// Traffic and connections of one server slot on one worker: one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct ServerStats {
    /// Packets from clients, forwarded.
    pub inbound_packets: Counter,
    /// Bytes of these, counted from the IP header on.
    pub inbound_bytes: Counter,
    /// Packets from the server, forwarded.
    pub outbound_packets: Counter,
    /// Bytes of these, counted from the IP header on.
    pub outbound_bytes: Counter,
    /// Connections ever opened.
    pub connections: Counter,
    /// Connections that an SNAT rule has refused, since their host has as many as it may.
    pub refused: Counter,
    /// Connections that count as active now.
    pub active: Gauge,
    /// Connections that count as inactive now.
    pub inactive: Gauge,
    /// Templates of persistent clients now.
    pub templates: Gauge,
}

impl ServerStats {
    /// Counts a packet that is forwarded.
    #[inline(always)]
    pub(super) fn count(&self, direction: Direction, headers: &Headers) {
        let bytes = u64::from(headers.end - headers.l3);
        match direction {
            Direction::Inbound => {
                self.inbound_packets.add(1);
                self.inbound_bytes.add(bytes);
            }
            Direction::Outbound => {
                self.outbound_packets.add(1);
                self.outbound_bytes.add(bytes);
            }
        }
    }

    /// Connections now, active and inactive.
    #[inline]
    #[must_use]
    pub fn now(&self) -> u64 {
        u64::from(self.active.get()) + u64::from(self.inactive.get())
    }

    /// The same as schedulers weigh it.
    #[inline]
    #[must_use]
    pub fn load(&self) -> Load {
        Load {
            active: self.active.get(),
            inactive: self.inactive.get(),
        }
    }

    /// Records that name the slot now: connections and templates.
    #[must_use]
    pub fn named(&self) -> u64 {
        self.now() + u64::from(self.templates.get())
    }
}

/// What one worker hands over to another one.
#[derive(Debug, Default)]
pub struct SteerStats {
    /// Packets handed over.
    pub handed_over: Counter,
    /// Packets dropped, because the ring to that worker was full.
    pub full: Counter,
    /// Of those dropped, questions of that worker, with their answers.
    pub unanswered: Counter,
}

/// Everything that one worker counts.
#[derive(Debug)]
pub struct WorkerStats {
    /// Packets received from the ports.
    pub received: Counter,
    /// Packets taken over from other workers.
    pub taken_over: Counter,
    /// Packets that the gateway made itself, or that the kernel sent by it.
    pub made: Counter,
    /// Packets sent.
    pub sent: Counter,
    /// Packets handed over to other workers.
    pub handed_over: Counter,
    /// The same by the worker that owns them; empty with a worker that is alone.
    pub steered: Vec<SteerStats>,
    /// Packets that ended here on purpose: ARP and neighbour discovery, fragments that became a whole packet, a packet
    /// that went on in fragments, what the kernel was given.
    pub consumed: Counter,
    /// Packets that wait for a neighbour, for the other fragments, or in a transmit buffer now.
    pub held: Counter,
    /// Packets given to the kernel: they count as consumed.
    pub to_kernel: Counter,
    /// Packets of the kernel's, to be sent: they count as made.
    pub from_kernel: Counter,
    /// Packets whose checksum the sender had left to an offload, completed here.
    pub completed_checksums: Counter,
    /// Client segments that went to a server with the client's address in an option.
    pub toa_added: Counter,
    /// Client segments that were due to carry that option and went without, for want of room.
    pub toa_no_room: Counter,
    /// SNAT connections that got another local address than the one that their host has, because that was dry.
    pub snat_moved: Counter,
    /// Connections whose server was sent the header of the PROXY protocol.
    pub proxy_headers_sent: Counter,
    /// Headers of the PROXY protocol that were sent again.
    pub proxy_headers_resent: Counter,
    /// Headers of the PROXY protocol that no server acknowledged in all the time that the gateway tried.
    pub proxy_headers_unacknowledged: Counter,
    /// Packets dropped, by reason.
    pub drops: [Counter; DropReason::COUNT],
    /// Packets received, by port.
    pub port_received: Vec<Counter>,
    /// Packets sent, by port.
    pub port_sent: Vec<Counter>,
    /// Per server slot.
    pub servers: Vec<ServerStats>,
    /// Connections in the table now.
    pub connections: Counter,
    /// Templates of persistent clients in the table now.
    pub templates: Counter,
    /// Connections opened, ever.
    pub opened: Counter,
    /// Turns of the loop.
    pub turns: Counter,
    /// Turns that found packets.
    pub busy_turns: Counter,
    /// TSC cycles spent in turns that found packets.
    pub busy_cycles: Counter,
    /// TSC cycles since the worker started.
    pub total_cycles: Counter,
    /// The epoch of the snapshot in use.
    pub epoch: Counter,
}

impl WorkerStats {
    /// Counters at zero for `ports` Ethernet ports and `servers` server slots.
    #[must_use]
    pub fn new(ports: usize, servers: usize) -> WorkerStats {
        fn zeroes<T: Default>(count: usize) -> Vec<T> {
            std::iter::repeat_with(T::default).take(count).collect()
        }
        WorkerStats {
            received: Counter::default(),
            taken_over: Counter::default(),
            made: Counter::default(),
            sent: Counter::default(),
            handed_over: Counter::default(),
            steered: Vec::new(),
            consumed: Counter::default(),
            held: Counter::default(),
            to_kernel: Counter::default(),
            from_kernel: Counter::default(),
            completed_checksums: Counter::default(),
            toa_added: Counter::default(),
            toa_no_room: Counter::default(),
            snat_moved: Counter::default(),
            proxy_headers_sent: Counter::default(),
            proxy_headers_resent: Counter::default(),
            proxy_headers_unacknowledged: Counter::default(),
            drops: std::array::from_fn(|_| Counter::default()),
            port_received: zeroes(ports),
            port_sent: zeroes(ports),
            servers: zeroes(servers),
            connections: Counter::default(),
            templates: Counter::default(),
            opened: Counter::default(),
            turns: Counter::default(),
            busy_turns: Counter::default(),
            busy_cycles: Counter::default(),
            total_cycles: Counter::default(),
            epoch: Counter::default(),
        }
    }

    /// The same for one of `workers` workers.
    #[must_use]
    pub fn among(mut self, workers: u8) -> WorkerStats {
        if workers > 1 {
            self.steered.resize_with(workers.into(), SteerStats::default);
        }
        self
    }

    /// Counts one packet that went to `owner`, or did not because the ring was full.
    pub(super) fn count_steered(&self, owner: u8, went: bool) {
        if let Some(steered) = self.steered.get(usize::from(owner)) {
            let count = if went { &steered.handed_over } else { &steered.full };
            count.add(1);
        }
    }

    /// Counts one packet that ended here.
    #[inline]
    pub fn count_drop(&self, reason: DropReason) {
        self.drops[reason as usize].add(1);
    }

    /// Counts packets received from `port`.
    #[inline]
    pub fn receive(&self, port: PortId, packets: u64) {
        self.received.add(packets);
        self.port_received[usize::from(port.0)].add(packets);
    }

    /// All drops together.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(Counter::get).sum()
    }

    /// Whether every packet is accounted for: what came in or was made here has been sent, dropped, consumed,
    /// handed over, or is held.
    #[must_use]
    pub fn conserves(&self) -> bool {
        self.received.get() + self.taken_over.get() + self.made.get()
            == self.sent.get()
                + self.dropped()
                + self.consumed.get()
                + self.handed_over.get()
                + self.held.get()
    }
}
