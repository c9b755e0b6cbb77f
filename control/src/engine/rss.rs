//! RSS: a port that can is told to bring packets to their owners by itself, with a key and a redirection table of ours.
//! Nothing depends on it: what arrives elsewhere is handed over.

use crate::gateway::Spread;
use dataplane::neighbour::AddressClass;
use dataplane::packet::PortId;
use dataplane::service::Snapshot;
use dataplane::worker::shard::{Shard, ShardKey};
use dpdk::{Port, PortError};

/// Tells a started port which queue each packet is for; what it got.
pub(super) fn spread(port: &Port, number: u8, snapshot: &Snapshot, key: &ShardKey, name: &str) -> Spread {
    let queues = port.rx_queues();
    if queues < 2 || snapshot.shards.workers() < 2 {
        return Spread::OneQueue;
    }
    if !port.rss() {
        return Spread::Unknown;
    }
    let to_source = is_client_facing(PortId(number), snapshot);
    match set(port, snapshot, key, to_source) {
        Ok(()) if to_source => Spread::BySource,
        Ok(()) => Spread::ByDestination,
        Err(error) => {
            tracing::info!(port = name, "the device spreads packets its own way: {error}");
            Spread::Unknown
        }
    }
}

fn set(port: &Port, snapshot: &Snapshot, key: &ShardKey, to_source: bool) -> Result<(), PortError> {
    let (client_facing, server_facing) = key.rss_keys();
    port.set_rss_key(if to_source { &client_facing } else { &server_facing })?;
    let queues = port.rx_queues();
    port.set_redirection(|entry| {
        let owner = snapshot.shards.owner(Shard::from_low_bits(entry.into()));
        u16::from(owner) % queues
    })
}

/// Whether packets that arrive at a device belong to the owner of their source: those to VIPs, and those that SNAT lets
/// out. Else they are answers, and belong to that of their destination. A port that has both has one of them right.
fn is_client_facing(port: PortId, snapshot: &Snapshot) -> bool {
    let is_on = |other: PortId| {
        let settings = snapshot.ports.get(usize::from(other.0));
        let parent = settings
            .and_then(|settings| settings.vlan)
            .map(|vlan| vlan.parent);
        other == port || parent == Some(port)
    };
    let has = |wanted: fn(AddressClass) -> bool| {
        let mut announced = snapshot.addresses.announcements();
        announced.any(|(on, address)| is_on(on) && wanted(snapshot.addresses.class_of(address)))
    };
    if has(|class| class == AddressClass::Vip) {
        return true;
    }
    let has_locals = has(|class| class == AddressClass::Local);
    !has_locals && !snapshot.has_nat() && !snapshot.snat.is_empty()
}
