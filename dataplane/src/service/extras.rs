//! What few services have, a bit each: asked when a connection opens or ends, so that one of a plain service looks no
//! further than that.

use super::{ClientAddress, Service};

/// A set of such things.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extras(u8);

impl Extras {
    /// Its clients are kept on their servers.
    pub const PERSISTENCE: Extras = Extras(1);
    /// It takes so many connections and no more, in all or of each client.
    pub const LIMITS: Extras = Extras(1 << 1);
    /// The sequence numbers of its connections have to be known.
    pub const RESETS: Extras = Extras(1 << 2);
    /// Its FULLNAT servers learn the client's address.
    pub const CLIENT_ADDRESS: Extras = Extras(1 << 3);
    /// It has timeouts of its own.
    pub const TIMEOUTS: Extras = Extras(1 << 4);

    /// What a service has.
    #[must_use]
    pub fn of(service: &Service) -> Extras {
        let has = [
            (Extras::PERSISTENCE, service.persistence.is_some()),
            (Extras::LIMITS, !service.policy.limits.is_none()),
            (Extras::RESETS, service.policy.may_reset()),
            (
                Extras::CLIENT_ADDRESS,
                service.client_address != ClientAddress::None,
            ),
            (Extras::TIMEOUTS, service.timeouts.is_some()),
        ];
        let bits = has.iter().filter(|(_, has)| *has).map(|(extra, _)| extra.0);
        Extras(bits.sum())
    }

    /// Whether it has any of these.
    #[inline]
    #[must_use]
    pub const fn has_any(self, others: Extras) -> bool {
        self.0 & others.0 != 0
    }

    /// These and those.
    #[inline]
    #[must_use]
    pub const fn with(self, others: Extras) -> Extras {
        Extras(self.0 | others.0)
    }
}
