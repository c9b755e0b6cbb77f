//! How connections of a service come, live and end, where it is to be otherwise than in LVS.

/// What becomes of the connections of a server that is removed from its service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum OnRemove {
    /// As in LVS: what comes from their clients is dropped, until the server comes back or they time out. The setting
    /// `expire_nodest_conn` makes it [`OnRemove::Reschedule`] at their next packet.
    #[default]
    Keep,
    /// They go on until they end, or until the deadline ([`Policy::drain_deadline`]).
    Drain,
    /// They end at once, and both ends of TCP connections are told so by a reset.
    Reset,
    /// They end at once: the next datagram, SYN or INIT goes to another server, and what else comes is refused.
    Reschedule,
}

impl OnRemove {
    /// All of them.
    pub const ALL: [OnRemove; 4] = [
        OnRemove::Keep,
        OnRemove::Drain,
        OnRemove::Reset,
        OnRemove::Reschedule,
    ];

    /// As written in configuration and listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            OnRemove::Keep => "keep",
            OnRemove::Drain => "drain",
            OnRemove::Reset => "reset",
            OnRemove::Reschedule => "reschedule",
        }
    }
}

/// How many connections a service takes. 0 = no limit, for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Limits {
    /// Connections at once.
    pub connections: u32,
    /// New connections in a second.
    pub rate: u32,
    /// Connections at once of one client address.
    pub client_connections: u32,
    /// New connections in a second of one client address.
    pub client_rate: u32,
}

impl Limits {
    /// Whether there is none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Limits::default()
    }

    /// Whether clients are counted one by one.
    #[must_use]
    pub const fn by_client(&self) -> bool {
        self.client_connections != 0 || self.client_rate != 0
    }
}

/// What a service wants otherwise than LVS does. The default is LVS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Policy {
    /// What becomes of the connections of a server that is removed.
    pub on_remove: OnRemove,
    /// How long connections of a removed server may drain, in ticks; 0 = until they end.
    pub drain_deadline: u32,
    /// Whether both ends of a TCP connection that times out are told so by a reset.
    pub reset_idle: bool,
    /// Whether a UDP connection leaves a server of weight 0 with its next datagram.
    pub expire_quiescent: bool,
    /// How many connections it takes.
    pub limits: Limits,
    /// How long the weight of a server that joins takes to rise to what it should be, in ticks; 0 = it has it at once.
    /// Control's: snapshots hold the weights of their time.
    pub slow_start: u32,
    /// Scheduler `mh`: how many connections a server may have, in percent of its share of all; 0 = any number.
    pub bound: u32,
}

impl Policy {
    /// Whether the sequence numbers of TCP connections have to be known, because they may be reset.
    #[must_use]
    pub const fn may_reset(&self) -> bool {
        self.reset_idle || matches!(self.on_remove, OnRemove::Reset)
    }
}
