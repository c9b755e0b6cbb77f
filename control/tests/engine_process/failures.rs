//! What stops a start: exit code 1, and one line with the place in the file, the reason and the remedy.

use std::fs;

use super::gateway::{Gateway, NO_HUGE, config, folder, port, root_only};

/// The last words of a gateway with these keys of `node` and this device, without the file's name.
fn refused(node: &str, device: &str) -> String {
    let folder = folder();
    let path = config(folder.path(), node, &port(device));
    let (code, text) = Gateway::fail(&path);
    assert_eq!(code, 1, "{text}");
    let start = format!("tidegate: {}:", path.display());
    text.strip_prefix(&start)
        .unwrap_or_else(|| panic!("{text}"))
        .to_owned()
}

#[test]
fn keys_of_node_name_what_the_machine_lacks() {
    let with = |key: &str| refused(&format!("{NO_HUGE}\n  {key}"), "net_null0");
    let text = with("workers: [1023]");
    assert!(
        text.starts_with("2:3: node.workers: there is no CPU 1023"),
        "{text}"
    );
    assert!(text.contains("write one of [0"), "{text}");
    let text = with("control_cpu: 1023");
    assert!(
        text.starts_with("2:3: node.control_cpu: there is no CPU 1023"),
        "{text}"
    );
    let text = with("mbufs: 1000000");
    assert!(
        text.starts_with("2:3: node.mbufs: no memory for 1000000 packet buffers; lower it"),
        "{text}"
    );
    let text = with("user: tg-absent");
    assert!(
        text.contains("node.user: there is no user `tg-absent`; create it"),
        "{text}"
    );
    let text = with("drivers: [/nonexistent/pmd.so]");
    assert!(
        text.starts_with("2:3: node.drivers: ") && text.contains("/nonexistent/pmd.so: cannot open"),
        "{text}"
    );
    let text = with("eal: [--nonsense]");
    assert!(
        text.starts_with("2:3: node.eal: DPDK does not accept its arguments"),
        "{text}"
    );
}

#[test]
fn memory_that_is_not_there_is_named() {
    let text = refused("  hugepages: 1048576", "net_null0");
    assert!(
        text.starts_with("2:3: node.hugepages: no hugepages: 1048576 MB wanted, "),
        "{text}"
    );
    assert!(text.contains("echo 524288 > /proc/sys/vm/nr_hugepages"), "{text}");
    let folder = folder();
    let path = config(folder.path(), NO_HUGE, &port("net_null0"));
    let text = fs::read_to_string(&path).unwrap();
    for (from, to, message) in [
        (
            "connections: 5000",
            "connections: 2000000000",
            "node.limits.connections: tables and packets need 15",
        ),
        (
            "memory: 128",
            "memory: 1048576",
            "node.memory: 1048576 MB do not fit: ",
        ),
    ] {
        fs::write(&path, text.replace(from, to)).unwrap();
        let (code, text) = Gateway::fail(&path);
        assert!(
            code == 1 && text.contains(message) && text.contains("lower it"),
            "{text}"
        );
    }
}

#[test]
fn a_device_that_cannot_be_had_is_named() {
    let at = |device: &str| refused(NO_HUGE, device);
    let text = at("net_af_packet0,iface=tg-absent");
    assert!(
        text.contains(": port a: there is no interface `tg-absent`"),
        "{text}"
    );
    let text = at("0000:ff:1f.7");
    assert!(
        text.contains(": port a: there is no PCI device 0000:ff:1f.7; `lspci -D`"),
        "{text}"
    );
    let text = at("net_pcap0,rx_pcap=/nonexistent");
    assert!(text.contains("/nonexistent: No such file or directory"), "{text}");
    let text = at("net_null0,nonsense=1");
    assert!(
        text.contains(": port a: device net_null0,nonsense=1: ") && text.contains("arguments"),
        "{text}"
    );
}

#[test]
fn what_another_gateway_has_is_named() {
    root_only!();
    let (first, second) = (folder(), folder());
    let prefix = format!("tg-test-{}", std::process::id());
    let node = format!("{NO_HUGE}\n  user: root\n  file_prefix: {prefix}");
    let running = Gateway::start(&config(first.path(), &node, &port("net_null0")));
    let (code, text) = Gateway::fail(&config(second.path(), &node, &port("net_null0")));
    let owner = format!("is in use by process {}: stop it", running.pid());
    assert!(
        code == 1 && text.contains("node.file_prefix: ") && text.contains(&owner),
        "{text}"
    );
    let (code, text) = Gateway::fail(&config(first.path(), NO_HUGE, &port("net_null0")));
    assert!(code == 1 && text.contains("another gateway answers on"), "{text}");
    drop(running);
    // The first one was killed: the folder with its name is taken over, and goes in the end.
    let again = Gateway::start(&config(first.path(), &node, &port("net_null0")));
    again.signal("INT");
    let mut again = again;
    again.wait_for("the gateway has stopped");
    drop(again);
    assert!(!std::path::Path::new("/var/run/dpdk").join(prefix).exists());
}
