//! Where packets go next: routes, the neighbours' MAC addresses (ARP, RFC 826; neighbour discovery, RFC 4861), and
//! which addresses are ours. Both families share every table.
//!
//! [`RouteTable`] and [`AddressTable`] are immutable parts of the snapshot. [`NeighbourTable`] belongs to one
//! worker, its only writer; every worker reads the resolved entries through [`NeighbourWords`]. Called by the
//! worker's steer and resolve stages and by its ARP and neighbour discovery handling. Nothing here parses, builds or sends a frame: the
//! tables take facts and give back requests.

mod address;
mod announce;
mod map;
mod prefix;
mod route;
mod table;
mod waiting;
mod words;

pub use address::{AddressClass, AddressError, AddressTable, Vip, VipArp};
pub use announce::{Announcement, Announcer};
pub use prefix::{Prefix, PrefixError};
pub use route::{Connected, Hops, NextHop, Route, RouteError, RouteTable, Several, WeightedHop};
pub use table::{
    Ask, Event, Full, Heard, Hold, Learnt, Means, NeighbourTable, NeighbourView, Request, Settings,
};
pub use words::{NeighbourId, NeighbourState, NeighbourWords};
