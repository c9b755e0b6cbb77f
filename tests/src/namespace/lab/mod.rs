//! The network that tests run in: a client, the gateway, a switch and two servers, each a network namespace.
//!
//! ```text
//!                     wan                    lan
//!     client ------------- [ gateway ] ------------- switch --+-- server1  10.0.0.11
//!     203.0.113.1          .2       10.0.0.1                  +-- server2  10.0.0.12
//!       |                                                           |
//!       +------------- the servers' own way to the client ----------+   192.0.2.4/30, 192.0.2.8/30
//! ```

mod capture;
mod dual;
mod gateway;
mod host;
mod nginx;
mod process;
mod raw;
mod reaper;
mod rough;
mod several;
mod taps;
mod udp;
mod wait;

pub(crate) use capture::{Capture, Captured};
pub(crate) use dual::{CLIENT6, authority};
pub(crate) use gateway::{Gateway, number};
pub(crate) use host::Host;
pub(crate) use nginx::{LARGE, Nginx, Request, large};
pub(crate) use process::Process;
pub(crate) use raw::RawSocket;
pub(crate) use rough::{Fate, Rough, Side};
pub(crate) use several::several;
pub(crate) use taps::on_taps;
pub(crate) use udp::Echo;
pub(crate) use wait::{PATIENCE, until};

use reaper::Reaper;
use std::fs;
use std::path::PathBuf;
use std::process::id;
use std::sync::atomic::{AtomicU32, Ordering};
use tidegate_tests::tunnel_end::TunnelEnd;

/// The VIP of the services in FULLNAT.
pub(crate) const FULLNAT: &str = "203.0.113.100";
/// The VIP of the service in DR.
pub(crate) const DR: &str = "203.0.113.101";
/// The client's own address, which is also the gateway's default route.
pub(crate) const CLIENT: &str = "203.0.113.1";

/// The namespaces, by what they are.
const HOSTS: [&str; 6] = ["client", "gateway", "gateway2", "switch", "server1", "server2"];

static LABS: AtomicU32 = AtomicU32::new(0);

/// A network of its own, removed when this goes away: at the end, in a panic, and when the process is killed.
pub(crate) struct Lab {
    id: String,
    folder: PathBuf,
    _reaper: Reaper,
}

impl Lab {
    /// Empty namespaces.
    pub(crate) fn bare() -> Lab {
        let id = format!("tgt{}x{}", id(), LABS.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(&id);
        let reaper = Reaper::start(&id, &HOSTS, &folder);
        fs::create_dir(&folder).unwrap();
        let lab = Lab {
            id,
            folder,
            _reaper: reaper,
        };
        for name in HOSTS {
            let host = lab.host(name);
            host::ip(&["netns", "add", host.namespace()]);
            // No IPv6 chatter, and no waiting for addresses where there is IPv6; packets of the direct way back are no
            // forgeries.
            for key in ["all", "default"] {
                host.run(&format!(
                    "sysctl -qw net.ipv6.conf.{key}.disable_ipv6=1 net.ipv6.conf.{key}.accept_dad=0 \
                     net.ipv4.conf.{key}.rp_filter=0"
                ));
            }
            host.run("ip link set lo up");
        }
        lab
    }

    /// The whole network, with everything that a veth would leave to a NIC switched off, and servers ready for DR.
    pub(crate) fn new() -> Lab {
        let lab = Lab::cabled();
        for number in [1, 2] {
            let server = lab.server(number);
            server.run("sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2");
            server.run(&format!("ip address add {DR}/32 dev lo"));
        }
        lab
    }

    /// The whole network, with servers that have no VIP.
    fn cabled() -> Lab {
        let lab = Lab::bare();
        let switch = lab.host("switch");
        switch.run("ip link add lan type bridge mcast_snooping 0");
        switch.run("ip link set lan up");
        lab.link("client", "wan0", "gateway", "wan0");
        lab.link("gateway", "lan0", "switch", "gateway");
        switch.run("ip link set gateway master lan");
        lab.client().run("ip address add 203.0.113.1/24 dev wan0");
        for number in [1, 2] {
            lab.join_server(number);
        }
        lab
    }

    /// A server's two cables.
    fn join_server(&self, number: usize) {
        let (name, direct) = (format!("server{number}"), format!("direct{number}"));
        let (ours, theirs) = (4 * number + 1, 4 * number + 2);
        self.link(&name, "lan0", "switch", &name);
        self.host("switch").run(&format!("ip link set {name} master lan"));
        self.link(&name, "out0", "client", &direct);
        self.client()
            .run(&format!("ip address add 192.0.2.{ours}/30 dev {direct}"));
        let server = self.server(number);
        server.run(&format!("ip address add 10.0.0.1{number}/24 dev lan0"));
        server.run(&format!("ip address add 192.0.2.{theirs}/30 dev out0"));
        server.run(&format!("ip route add default via 192.0.2.{ours}"));
    }

    /// A cable whose ends compute their own checksums and cut their own segments.
    pub(crate) fn link(&self, host: &str, interface: &str, other: &str, peer: &str) {
        let (host, other) = (self.host(host), self.host(other));
        host::ip(&[
            "link",
            "add",
            interface,
            "netns",
            host.namespace(),
            "type",
            "veth",
            "peer",
            "name",
            peer,
            "netns",
            other.namespace(),
        ]);
        for (host, interface) in [(&host, interface), (&other, peer)] {
            host.run(&format!("ethtool -K {interface} tx off tso off gso off gro off"));
            host.run(&format!("ip link set {interface} up"));
        }
    }

    /// Makes a server the end of tunnels, with VIPs behind it.
    pub(crate) fn tunnel_end(&self, number: usize, vips: &[&str]) -> TunnelEnd {
        let server = self.server(number);
        let end = server.inside(|| TunnelEnd::open().expect("a TUN device and raw sockets"));
        server.run("ip link set tg0 up");
        for vip in vips {
            let (length, flags) = if vip.contains(':') {
                (128, "nodad preferred_lft 0")
            } else {
                (32, "")
            };
            server.run(&format!("ip address add {vip}/{length} dev tg0 {flags}"));
        }
        end
    }

    /// One of [`HOSTS`].
    pub(crate) fn host(&self, name: &str) -> Host {
        Host::new(format!("{}-{name}", self.id))
    }

    /// Where curl, wrk and dig run.
    pub(crate) fn client(&self) -> Host {
        self.host("client")
    }

    /// Server 1 or 2.
    pub(crate) fn server(&self, number: usize) -> Host {
        self.host(&format!("server{number}"))
    }

    /// A file in a folder that goes away with the lab.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}
