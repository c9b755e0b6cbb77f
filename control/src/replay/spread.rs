//! How the ports of a replay spread frames over the queues of several workers.

use crate::engine::rss;
use clap::ValueEnum;
use dataplane::packet::PortId;
use dataplane::service::Snapshot;
use dataplane::worker::shard::{SHARDS, Shard, ShardKey};
use dataplane::worker::{Device, Rss};

/// Where the random queues of each port begin.
const SEED: u64 = 0x7175_6575_6573;

/// How ports spread frames. What comes out is the same, only who hands what to whom is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Spread {
    /// By RSS with the gateway's keys: what can arrive at its owner does
    Rss,
    /// Each frame to any queue
    Random,
    /// By RSS with a wrong hash: what should arrive at its owner does not
    WrongHash,
}

impl Spread {
    /// The device behind a port, as the engine sets up a NIC.
    pub(super) fn device(self, port: PortId, snapshot: &Snapshot, key: &ShardKey) -> Device {
        let workers = snapshot.shards.workers();
        let rss = || {
            let (client_facing, server_facing) = key.rss_keys();
            let to_source = rss::is_client_facing(port, snapshot);
            let key = if to_source { client_facing } else { server_facing };
            Rss::new(key, SHARDS as u16, |entry| {
                snapshot.shards.owner(Shard::from_low_bits(entry.into())).into()
            })
        };
        match self {
            Spread::Rss => Device::Rss(rss()),
            Spread::WrongHash => Device::WrongHash(rss()),
            Spread::Random => Device::Random {
                queues: workers.into(),
                state: SEED ^ u64::from(port.0) << 56,
            },
        }
    }
}
