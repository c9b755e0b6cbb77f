//! TAP devices that the gateway makes itself, moved to where a cable would end: unlike `net_af_packet` they carry
//! fragments and large frames as they are on a wire.

use super::{Host, Lab};

/// The devices of a gateway in `yaml`, which has `net_af_packet` ones.
pub(crate) fn on_taps(yaml: &str) -> String {
    yaml.replace("net_af_packet0,iface=wan0", "net_tap0,iface=tgwan")
        .replace("net_af_packet1,iface=lan0", "net_tap1,iface=tglan")
}

impl Lab {
    /// Moves the running gateway's device to a host, and gives that its addresses there.
    pub(crate) fn plug(&self, device: &str, host: &Host, addresses: &[&str]) {
        self.host("gateway")
            .run(&format!("ip link set {device} netns {}", host.namespace()));
        host.run(&format!("ethtool -K {device} tx off tso off gso off gro off"));
        for address in addresses {
            host.run(&format!("ip address add {address} dev {device}"));
        }
        host.run(&format!("ip link set {device} up"));
    }
}
