//! The lab with both families.
//!
//! ```text
//!     client  2001:db8:1::1 --- ::2 [ gateway ] fd00::1 --- switch --- fd00::11, fd00::12
//!       2001:db8:2:1::1, 2001:db8:2:2::1 ------- the servers' own way ------- ...::2
//! ```

use super::Lab;

/// The client's IPv6 address.
pub(crate) const CLIENT6: &str = "2001:db8:1::1";

/// An address as it stands in a URL.
pub(crate) fn authority(address: &str) -> String {
    if address.contains(':') {
        format!("[{address}]")
    } else {
        address.to_owned()
    }
}

impl Lab {
    /// The whole network with IPv4 and IPv6. No server has a VIP, and all of them answer by their own way.
    pub(crate) fn dual() -> Lab {
        let lab = Lab::cabled();
        let client = lab.client();
        client.enable_ipv6();
        client.run(&format!("ip -6 address add {CLIENT6}/64 dev wan0"));
        for number in [1, 2] {
            let server = lab.server(number);
            server.enable_ipv6();
            server.run(&format!("ip -6 address add fd00::1{number}/64 dev lan0"));
            server.run(&format!("ip -6 address add 2001:db8:2:{number}::2/64 dev out0"));
            client.run(&format!(
                "ip -6 address add 2001:db8:2:{number}::1/64 dev direct{number}"
            ));
            server.run(&format!("ip -6 route add default via 2001:db8:2:{number}::1"));
        }
        lab
    }
}
