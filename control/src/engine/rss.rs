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
pub(crate) fn is_client_facing(port: PortId, snapshot: &Snapshot) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Model, with_vlans};
    use dataplane::packet::MacAddr;
    use dataplane::service::PortSettings;

    /// Which of the devices `wan` and `lan` are client-facing, with these services and rules.
    fn facing(rest: &str) -> [bool; 2] {
        let text = format!(
            "ports:
  - {{ name: wan, device: net_null0, addresses: [203.0.113.2/24] }}
  - {{ name: lan, device: net_null1, addresses: [10.0.0.1/24] }}
  - {{ name: dmz, parent: lan, vlan: 5, addresses: [10.2.0.1/24] }}
pools: [{{ name: web, servers: [{{ address: 10.0.0.11 }}] }}]
{rest}"
        );
        let config = crate::config::parse("gw.yaml", &text).unwrap();
        let devices = super::super::devices_of(&config);
        let settings = devices.map(|(port, _)| PortSettings {
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            any_mac: false,
            vlan: None,
            mtu: 1500,
            addresses: port.own_addresses(),
            check_partial: false,
            exception_rate: 0,
        });
        let settings = with_vlans(&config, settings.collect());
        let mut model = Model::new(settings, 2, 16, 16);
        model.apply_file(&config).unwrap();
        let snapshot = model.snapshot();
        [0, 1].map(|port| is_client_facing(PortId(port), &snapshot))
    }

    #[test]
    fn a_port_faces_those_whose_packets_arrive_there() {
        let service = |vip: &str, more: &str| {
            format!(
                "services: [{{ name: web, listen: \"{vip}:80/tcp\", pool: web, scheduler: rr, {more} }}]\n"
            )
        };
        let inside = "local_addresses: [{ name: in, port: lan, addresses: [10.0.0.200] }]\n";
        let fullnat = |vip| inside.to_owned() + &service(vip, "mode: fullnat, local_addresses: in");
        assert_eq!(facing(&fullnat("203.0.113.100")), [true, false]);
        assert_eq!(facing(&service("203.0.113.100", "mode: nat")), [true, false]);
        assert_eq!(
            facing(&fullnat("10.2.0.100")),
            [false, true],
            "a VIP on a VLAN of it"
        );
        let snat = "local_addresses: [{ name: out, port: wan, addresses: [203.0.113.200] }]
snat: [{ name: office, source: 10.2.0.0/24, local_addresses: out }]
";
        assert_eq!(
            facing(snat),
            [false, true],
            "hosts inside, and answers from outside"
        );
    }
}
