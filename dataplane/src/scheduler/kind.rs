//! The names of the algorithms, and the flags that some of them take.

use super::ranked::Rank;

/// The algorithms by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SchedulerKind {
    /// Round robin.
    Rr,
    /// Weighted round robin.
    Wrr,
    /// Least connections.
    Lc,
    /// Weighted least connections.
    Wlc,
    /// Shortest expected delay.
    Sed,
    /// Never queue: an idle server first, else as [`SchedulerKind::Sed`].
    Nq,
    /// Weighted failover: the server of the greatest weight.
    Fo,
    /// Weighted overflow: the server of the greatest weight that is not full.
    Ovf,
    /// Source hashing.
    Sh,
    /// Destination hashing.
    Dh,
    /// Maglev hashing of the source.
    Mh,
    /// Locality-based least connections: a server for each destination.
    Lblc,
    /// Locality-based least connections with replication: a set of servers for each destination.
    Lblcr,
    /// The less loaded of two servers that are drawn by weight.
    Twos,
}

impl SchedulerKind {
    /// Every algorithm that exists.
    pub const ALL: &'static [SchedulerKind] = &[
        SchedulerKind::Rr,
        SchedulerKind::Wrr,
        SchedulerKind::Lc,
        SchedulerKind::Wlc,
        SchedulerKind::Sed,
        SchedulerKind::Nq,
        SchedulerKind::Sh,
        SchedulerKind::Dh,
        SchedulerKind::Mh,
        SchedulerKind::Lblc,
        SchedulerKind::Lblcr,
        SchedulerKind::Fo,
        SchedulerKind::Ovf,
        SchedulerKind::Twos,
    ];

    /// The name that ipvsadm and the configuration use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SchedulerKind::Rr => "rr",
            SchedulerKind::Wrr => "wrr",
            SchedulerKind::Lc => "lc",
            SchedulerKind::Wlc => "wlc",
            SchedulerKind::Sed => "sed",
            SchedulerKind::Nq => "nq",
            SchedulerKind::Fo => "fo",
            SchedulerKind::Ovf => "ovf",
            SchedulerKind::Sh => "sh",
            SchedulerKind::Dh => "dh",
            SchedulerKind::Mh => "mh",
            SchedulerKind::Lblc => "lblc",
            SchedulerKind::Lblcr => "lblcr",
            SchedulerKind::Twos => "twos",
        }
    }

    /// The algorithm of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<SchedulerKind> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// How the algorithm ranks servers by their load, if it does.
    pub(super) const fn rank(self) -> Option<Rank> {
        match self {
            SchedulerKind::Lc => Some(Rank::Lc),
            SchedulerKind::Wlc | SchedulerKind::Lblc | SchedulerKind::Lblcr => Some(Rank::Wlc),
            SchedulerKind::Sed => Some(Rank::Sed),
            SchedulerKind::Nq => Some(Rank::Nq),
            SchedulerKind::Fo => Some(Rank::Fo),
            SchedulerKind::Ovf => Some(Rank::Ovf),
            _ => None,
        }
    }

    /// Whether picks depend on how many connections servers have.
    pub(super) const fn goes_by_load(self) -> bool {
        matches!(self, SchedulerKind::Twos) || self.rank().is_some() && !matches!(self, SchedulerKind::Fo)
    }

    /// Whether the algorithm remembers destinations.
    pub(super) const fn remembers_destinations(self) -> bool {
        matches!(self, SchedulerKind::Lblc | SchedulerKind::Lblcr)
    }

    /// The name of a flag as this algorithm has it, such as `sh-port`; none when it has no such flag.
    #[must_use]
    pub const fn flag_name(self, flag: SchedulerFlags) -> Option<&'static str> {
        match (self, flag) {
            (SchedulerKind::Sh, SchedulerFlags::FALLBACK) => Some("sh-fallback"),
            (SchedulerKind::Sh, SchedulerFlags::PORT) => Some("sh-port"),
            (SchedulerKind::Mh, SchedulerFlags::FALLBACK) => Some("mh-fallback"),
            (SchedulerKind::Mh, SchedulerFlags::PORT) => Some("mh-port"),
            _ => None,
        }
    }
}

/// The three flags of a scheduler, as LVS numbers them. Only `sh` and `mh` heed any.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct SchedulerFlags(u8);

impl SchedulerFlags {
    /// None of them.
    pub const NONE: SchedulerFlags = SchedulerFlags(0);
    /// `sh-fallback`, `mh-fallback`: when the server of a client is not usable, it gets another one.
    pub const FALLBACK: SchedulerFlags = SchedulerFlags(1);
    /// `sh-port`, `mh-port`: the client's port is part of what is hashed.
    pub const PORT: SchedulerFlags = SchedulerFlags(2);
    /// The third one, which no algorithm heeds.
    pub const THIRD: SchedulerFlags = SchedulerFlags(4);
    /// Each of them.
    pub const EACH: [SchedulerFlags; 3] = [Self::FALLBACK, Self::PORT, Self::THIRD];

    /// The flags of these bits; others are left out.
    #[must_use]
    pub const fn from_bits(bits: u8) -> SchedulerFlags {
        SchedulerFlags(bits & 7)
    }

    /// Bit 0 is [`SchedulerFlags::FALLBACK`], bit 1 [`SchedulerFlags::PORT`].
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all flags of `other` are set.
    #[must_use]
    pub const fn has(self, other: SchedulerFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and those of `other`.
    #[must_use]
    pub const fn with(self, other: SchedulerFlags) -> SchedulerFlags {
        SchedulerFlags(self.0 | other.0)
    }

    /// Their names for an algorithm: its own, else `flag-1` to `flag-3`.
    pub fn names(self, kind: SchedulerKind) -> impl Iterator<Item = &'static str> {
        Self::EACH
            .into_iter()
            .zip(["flag-1", "flag-2", "flag-3"])
            .filter(move |(flag, _)| self.has(*flag))
            .map(move |(flag, number)| kind.flag_name(flag).unwrap_or(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_kinds_are_one_to_one() {
        let kinds: std::collections::HashSet<_> = SchedulerKind::ALL.iter().collect();
        assert_eq!(kinds.len(), 14);
        for kind in SchedulerKind::ALL {
            assert_eq!(SchedulerKind::from_name(kind.name()), Some(*kind));
        }
        assert_eq!(SchedulerKind::from_name("WLC"), None);
    }

    #[test]
    fn flags_are_called_as_the_algorithm_calls_them() {
        let names = |kind, bits| SchedulerFlags::from_bits(bits).names(kind).collect::<Vec<_>>();
        assert_eq!(names(SchedulerKind::Sh, 3), ["sh-fallback", "sh-port"]);
        assert_eq!(names(SchedulerKind::Mh, 6), ["mh-port", "flag-3"]);
        assert_eq!(names(SchedulerKind::Rr, 255), ["flag-1", "flag-2", "flag-3"]);
        assert_eq!(names(SchedulerKind::Rr, 8), [""; 0]);
    }
}
