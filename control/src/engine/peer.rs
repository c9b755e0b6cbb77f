//! Warns of a veth whose ends offload. On veth no NIC completes a checksum or cuts a large segment: what the kernel
//! at the other end leaves to one arrives here as it is, and its connections stall. Runs once, at start; asks the
//! kernel and changes nothing. What cannot be seen, such as the end in a container's own namespace, is passed over.

use super::netlink::{Netlink, attribute, attributes, number, push, push_nested, text};
use crate::config::{Config, Device};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::SockProtocol;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const GET_LINK: u16 = 18;
const LINK_HEADER: usize = 16;
const LINK_NAME: u16 = 3;
const LINK_PEER: u16 = 5;
const LINK_INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const LINK_PEER_NAMESPACE: u16 = 37;

const GET_NAMESPACE_ID: u16 = 90;
const NAMESPACE_ID: u16 = 1;
const NAMESPACE_FD: u16 = 3;

const GENERIC_CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const GET_FEATURES: u8 = 11;
const FEATURES_DEVICE: u16 = 1;
const DEVICE_INDEX: u16 = 1;
const FEATURES_ACTIVE: u16 = 4;
const BITS: u16 = 3;
const BIT: u16 = 1;
const BIT_NAME: u16 = 2;

/// Where named network namespaces are.
const NAMED: &str = "/run/netns";

/// Logs one warning for each end of a port's veth that offloads.
pub(super) fn warn(config: &Config) {
    for port in config.ports.iter().filter(|port| port.check_peer_offload) {
        let parts = port.device().map_or(&[][..], Device::parts);
        for end in parts.iter().filter_map(interface).flat_map(ends) {
            if let Some(advice) = advice(&end) {
                tracing::warn!(port = port.name, "{advice}");
            }
        }
    }
}

/// The kernel's interface that a device takes its frames from.
pub(super) fn interface(device: &Device) -> Option<&str> {
    let Device::Vdev(argument) = device else {
        return None;
    };
    let mut parts = argument.split(',');
    let driver = parts.next()?;
    if !driver.starts_with("net_af_packet") && !driver.starts_with("net_af_xdp") {
        return None;
    }
    parts.find_map(|part| part.strip_prefix("iface="))
}

/// One end of a veth.
struct End {
    name: String,
    /// What to write before a command for it to work there: empty, or `ip netns exec NAME `.
    enter: String,
    /// Whether it is the other end, not the port's own.
    far: bool,
    /// Names of the features that are on, as the kernel has them.
    features: Vec<String>,
}

/// What to tell of an end that offloads.
fn advice(end: &End) -> Option<String> {
    let is_on = |test: fn(&str) -> bool| end.features.iter().any(|name| test(name));
    let kinds = [
        ("tx", is_on(|name| name.starts_with("tx-checksum"))),
        ("tso", is_on(|name| name.starts_with("tx-tcp"))),
        ("gso", is_on(|name| name == "tx-generic-segmentation")),
        ("gro", is_on(|name| name == "rx-gro")),
    ];
    let on: Vec<&str> = kinds.iter().filter(|kind| kind.1).map(|kind| kind.0).collect();
    if on.is_empty() {
        return None;
    }
    Some(format!(
        "{}{} has offloads on ({}): frames arrive with unfinished checksums or too long and are dropped; switch them \
         off: {}ethtool -K {} tx off tso off gso off gro off",
        if end.far { "the veth peer " } else { "" },
        end.name,
        on.join(", "),
        end.enter,
        end.name
    ))
}

/// The ends that can be seen of the veth that `interface` is one of.
fn ends(interface: &str) -> Vec<End> {
    let mut ends = Vec::new();
    let Some(near) = link(0, Some(interface)).filter(|near| near.veth) else {
        return ends;
    };
    ends.extend(features(near.index).map(|features| End {
        name: near.name.clone(),
        enter: enter(own_namespace().as_deref()),
        far: false,
        features,
    }));
    let far = match near.peer_namespace {
        None => end_of(near.peer, own_namespace().as_deref()),
        Some(id) => {
            let namespace = namespaces()
                .into_iter()
                .find(|path| namespace_id(path) == Some(id));
            namespace.and_then(|path| within(&path, || end_of(near.peer, Some(&path))))
        }
    };
    ends.extend(far);
    ends
}

/// The end with this index in the calling thread's namespace, which is that of `path`.
fn end_of(index: u32, path: Option<&Path>) -> Option<End> {
    let link = link(index, None).filter(|link| link.veth)?;
    Some(End {
        features: features(link.index)?,
        name: link.name,
        enter: enter(path),
        far: true,
    })
}

/// The words that lead a command into a namespace.
fn enter(path: Option<&Path>) -> String {
    match path.and_then(|path| path.strip_prefix(NAMED).ok()) {
        Some(name) => format!("ip netns exec {} ", name.display()),
        None if path.is_some() => "nsenter -t 1 -n ".to_owned(),
        None => String::new(),
    }
}

/// The namespaces that can be entered: those with a name, and that of the first process.
fn namespaces() -> Vec<PathBuf> {
    let named = fs::read_dir(NAMED).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
    paths.push(PathBuf::from("/proc/1/ns/net"));
    paths
}

/// The namespace of this process, when it is one with a name.
fn own_namespace() -> Option<PathBuf> {
    let own = fs::metadata("/proc/self/ns/net").ok()?;
    let named = namespaces().into_iter().filter(|path| path.starts_with(NAMED));
    named.into_iter().find(|path| {
        fs::metadata(path).is_ok_and(|other| (other.dev(), other.ino()) == (own.dev(), own.ino()))
    })
}

/// Runs `look` in another namespace, on a thread of its own, which never comes back from there.
fn within<T: Send>(path: &Path, look: impl FnOnce() -> Option<T> + Send) -> Option<T> {
    let file = File::open(path).ok()?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("peer".to_owned());
        let looked = thread.spawn_scoped(scope, || {
            setns(file, CloneFlags::CLONE_NEWNET).ok()?;
            look()
        });
        looked.ok()?.join().ok().flatten()
    })
}

/// A link of the calling thread's namespace.
#[derive(PartialEq, Eq, Debug)]
struct Link {
    index: u32,
    name: String,
    veth: bool,
    /// The index of the other end.
    peer: u32,
    /// Which namespace the other end is in, by our numbering; none when it is in this one.
    peer_namespace: Option<u32>,
}

fn link(index: u32, name: Option<&str>) -> Option<Link> {
    let mut request = vec![0; LINK_HEADER];
    request[4..8].copy_from_slice(&index.to_ne_bytes());
    if let Some(name) = name {
        push(&mut request, LINK_NAME, format!("{name}\0").as_bytes());
    }
    let mut route = Netlink::open(SockProtocol::NetlinkRoute).ok()?;
    read_link(&route.ask(GET_LINK, &request).ok()?)
}

fn read_link(answer: &[u8]) -> Option<Link> {
    let attributes = answer.get(LINK_HEADER..)?;
    let value = |kind| attribute(attributes, kind).and_then(|value| number(value, 0));
    let info = attribute(attributes, LINK_INFO).unwrap_or_default();
    Some(Link {
        index: number(answer, 4)?,
        name: text(attribute(attributes, LINK_NAME)?),
        veth: attribute(info, INFO_KIND).is_some_and(|kind| text(kind) == "veth"),
        peer: value(LINK_PEER).unwrap_or_default(),
        peer_namespace: value(LINK_PEER_NAMESPACE),
    })
}

/// The number by which the calling thread's namespace knows the one at `path`.
fn namespace_id(path: &Path) -> Option<u32> {
    let file = File::open(path).ok()?;
    let mut request = vec![0; 4];
    push(&mut request, NAMESPACE_FD, &file.as_raw_fd().to_ne_bytes());
    let mut route = Netlink::open(SockProtocol::NetlinkRoute).ok()?;
    let answer = route.ask(GET_NAMESPACE_ID, &request).ok()?;
    let id = attribute(answer.get(4..)?, NAMESPACE_ID).and_then(|value| number(value, 0))?;
    // -1: not known here.
    (id != u32::MAX).then_some(id)
}

/// The names of a link's features that are on.
fn features(index: u32) -> Option<Vec<String>> {
    let mut generic = Netlink::open(SockProtocol::NetlinkGeneric).ok()?;
    let mut request = vec![GET_FAMILY, 1, 0, 0];
    push(&mut request, FAMILY_NAME, b"ethtool\0");
    let answer = generic.ask(GENERIC_CONTROL, &request).ok()?;
    let family = attribute(answer.get(4..)?, FAMILY_ID)?;
    let family = u16::from_ne_bytes(family.try_into().ok()?);

    let mut device = Vec::new();
    push(&mut device, DEVICE_INDEX, &index.to_ne_bytes());
    let mut request = vec![GET_FEATURES, 1, 0, 0];
    push_nested(&mut request, FEATURES_DEVICE, &device);
    read_features(&generic.ask(family, &request).ok()?)
}

fn read_features(answer: &[u8]) -> Option<Vec<String>> {
    let active = attribute(answer.get(4..)?, FEATURES_ACTIVE)?;
    let bits = attribute(active, BITS).unwrap_or_default();
    let names = attributes(bits).filter(|(kind, _)| *kind == BIT);
    Some(
        names
            .filter_map(|(_, bit)| attribute(bit, BIT_NAME).map(text))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(features: &[&str]) -> End {
        End {
            name: "eth0".to_owned(),
            enter: enter(Some(Path::new("/run/netns/client"))),
            far: true,
            features: features.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn advice_names_the_command_and_the_namespace() {
        let on = end(&[
            "tx-checksum-ip-generic",
            "tx-tcp6-segmentation",
            "rx-gro",
            "highdma",
        ]);
        let text = advice(&on).unwrap();
        assert!(
            text.starts_with("the veth peer eth0 has offloads on (tx, tso, gro): "),
            "{text}"
        );
        let command = ": ip netns exec client ethtool -K eth0 tx off tso off gso off gro off";
        assert!(text.ends_with(command), "{text}");
        assert!(advice(&end(&["rx-checksum", "tx-scatter-gather", "tx-gre-segmentation"])).is_none());
        assert_eq!(enter(Some(Path::new("/proc/1/ns/net"))), "nsenter -t 1 -n ");
        assert_eq!(enter(None), "");
    }

    #[test]
    fn only_drivers_over_an_interface_have_one() {
        let vdev = |text: &str| Device::Vdev(text.to_owned());
        let packet = vdev("net_af_packet0,qpairs=1,iface=wan0");
        assert_eq!(interface(&packet), Some("wan0"));
        assert_eq!(
            interface(&vdev("net_af_xdp0,iface=wan1,start_queue=0")),
            Some("wan1")
        );
        // A TAP completes checksums before it hands frames over.
        assert_eq!(interface(&vdev("net_tap0,iface=tap0")), None);
        assert_eq!(interface(&vdev("net_af_packet0")), None);
        assert_eq!(interface(&Device::Pci("0000:03:00.0".to_owned())), None);
    }

    #[test]
    fn a_link_is_read_with_its_peer() {
        let mut answer = vec![0; 16];
        answer[4] = 7;
        push(&mut answer, LINK_NAME, b"wan0\0");
        push(&mut answer, LINK_PEER, &2_u32.to_ne_bytes());
        let mut info = Vec::new();
        push(&mut info, INFO_KIND, b"veth");
        push_nested(&mut answer, LINK_INFO, &info);
        let mut link = Link {
            index: 7,
            name: "wan0".to_owned(),
            veth: true,
            peer: 2,
            peer_namespace: None,
        };
        assert_eq!(read_link(&answer).unwrap(), link);
        push(&mut answer, LINK_PEER_NAMESPACE, &0_u32.to_ne_bytes());
        link.peer_namespace = Some(0);
        assert_eq!(read_link(&answer).unwrap(), link);
        assert_eq!(read_link(&answer[..10]), None);
    }

    #[test]
    fn features_are_read_by_name() {
        let (mut bit, mut bits, mut active) = (Vec::new(), Vec::new(), Vec::new());
        push(&mut bit, BIT_NAME, b"rx-gro\0");
        push_nested(&mut bits, BIT, &bit);
        push(&mut active, 1, &[]);
        push_nested(&mut active, BITS, &bits);
        let mut answer = vec![GET_FEATURES, 1, 0, 0];
        push_nested(&mut answer, FEATURES_ACTIVE, &active);
        assert_eq!(read_features(&answer).unwrap(), ["rx-gro"]);
        assert_eq!(read_features(&answer[..8]), None);
    }

    #[test]
    fn the_kernel_answers() {
        let lo = link(0, Some("lo")).unwrap();
        assert!(lo.index > 0 && !lo.veth && lo.name == "lo");
        assert!(
            features(lo.index)
                .unwrap()
                .iter()
                .any(|name| name.starts_with("tx-checksum"))
        );
        assert_eq!(link(0, Some("tg-absent")), None);
    }
}
