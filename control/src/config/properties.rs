//! Whatever a file holds, reading it ends with a configuration or with errors; and what is done cleverly gives the
//! same as what is done naively.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::{Prefix, parse, parse_bytes};

const EXAMPLES: [&str; 4] = [
    include_str!("../../../configs/fullnat.yaml"),
    include_str!("../../../configs/dr.yaml"),
    include_str!("../../../configs/lab.yaml"),
    include_str!("../../../configs/snat.yaml"),
];

/// Errors have places inside the text and come in their order.
fn check_shape(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n').count() + bytes.split(|byte| *byte == b'\r').count();
    if let Err(found) = parse_bytes("t", bytes) {
        assert!(!found.errors.is_empty());
        assert!(found.errors.is_sorted_by_key(|error| error.place));
        for error in &found.errors {
            assert!((error.place.line as usize) <= lines + 1, "{error}");
            assert!(!error.to_string().contains('\n'), "{error:?}");
            assert!(!error.problem.is_empty() && !error.remedy.is_empty(), "{error:?}");
        }
    }
}

/// What YAML and this configuration give a meaning to.
const TOKENS: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    ",",
    "- ",
    "\n",
    "\n  ",
    "\n    ",
    "\t",
    "&a ",
    "*a ",
    "!t ",
    "|\n",
    ">-\n",
    "'",
    "\"",
    "#",
    "%",
    "---\n",
    "...\n",
    "? ",
    "<<: ",
    "~",
    "\u{feff}",
    "\\",
    "\r",
    "ports",
    "services",
    "pools",
    "servers",
    "listen",
    "address",
    "name",
    "10.0.0.1/24",
    "-1",
    "é",
    "\u{0}",
];

fn example() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(&EXAMPLES[..]).prop_map(|text| text.as_bytes().to_vec())
}

/// One change of a file: cut out a part and put something in its place.
fn change() -> impl Strategy<Value = (prop::sample::Index, usize, Vec<u8>)> {
    let token = prop::sample::select(&TOKENS[..]).prop_map(|token| token.as_bytes().to_vec());
    let noise = prop::collection::vec(any::<u8>(), 0..4);
    (
        any::<prop::sample::Index>(),
        0..12usize,
        prop_oneof![4 => token, 1 => noise],
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check_shape(&bytes);
    }

    #[test]
    fn any_text_of_yaml_tokens_is_answered(tokens in prop::collection::vec(prop::sample::select(&TOKENS[..]), 0..60)) {
        check_shape(tokens.concat().as_bytes());
    }

    #[test]
    fn a_changed_example_is_answered(mut bytes in example(), changes in prop::collection::vec(change(), 1..4)) {
        for (index, cut, put) in changes {
            let start = index.index(bytes.len() + 1);
            let end = (start + cut).min(bytes.len());
            bytes.splice(start..end, put);
        }
        check_shape(&bytes);
    }

    /// The text of any scalar, in every place where a scalar stands.
    #[test]
    fn any_scalar_is_answered(text in "[0-9a-f.:/\\[\\]_+-]{0,24}|\\PC{0,12}") {
        let text = text.replace('\'', "''");
        check_shape(format!(
            "node: {{ workers: ['{text}'], hugepages: '{text}', seed: '{text}' }}\napi: {{ mode: '{text}' }}\n\
             metrics: {{ listen: '{text}' }}\n\
             ports: [{{ name: '{text}', device: '{text}', addresses: ['{text}', 10.0.0.1/8], mac: '{text}' }}, \
             {{ name: b, parent: '{text}', vlan: '{text}' }}]\n\
             routes: [{{ to: '{text}', via: ['{text}', {{ address: '{text}', weight: '{text}' }}], port: '{text}' }}]\n\
             kernel_routes: '{text}'\n\
             local_addresses: [{{ name: a, port: '{text}', addresses: ['{text}'], ports: '{text}' }}]\n\
             pools: [{{ name: a, servers: [{{ address: '{text}', port: '{text}', weight: '{text}', \
             tunnel: {{ type: '{text}', port: '{text}', checksum: '{text}' }} }}] }}]\n\
             snat: [{{ name: a, source: '{text}', destination: ['{text}'], protocol: '{text}', ports: '{text}', \
             local_addresses: '{text}', timeouts: {{ icmp: '{text}' }}, connections_per_client: '{text}' }}]\n\
             vips: [{{ address: '{text}', no_server: '{text}' }}]\nsettings: {{ tunnel_source: '{text}' }}\n\
             services: [{{ name: a, listen: '{text}', pool: a, mode: '{text}', scheduler: '{text}', \
             mss_clamp: '{text}', client_address: '{text}' }}]\n"
        ).as_bytes());
    }

    /// Overlapping prefixes of ports are found, and only they.
    #[test]
    fn overlaps_are_those_of_all_pairs(
        ports in prop::collection::vec((any::<bool>(), any::<u8>(), any::<u8>(), 8..=30u8), 2..8)
    ) {
        let mut text = "ports:\n".to_owned();
        let mut prefixes = Vec::new();
        for (index, (ipv6, second, third, length)) in ports.iter().enumerate() {
            // The first address of each prefix, from few prefixes so that some meet.
            let start = Prefix::around(Ipv4Addr::new(10, second & 3, third & 7, 0).into(), *length).address();
            let host = 1 + index as u32 % 2;
            let (prefix, host) = match start {
                IpAddr::V4(start) if *ipv6 => {
                    let bits = (0xfd00 << 112) | (u128::from(start.to_bits()) << 80);
                    let host = Ipv6Addr::from_bits(bits + u128::from(host));
                    (Prefix::around(Ipv6Addr::from_bits(bits).into(), 16 + length), host.into())
                }
                IpAddr::V4(start) => {
                    (Prefix::around(start.into(), *length), Ipv4Addr::from_bits(start.to_bits() + host).into())
                }
                IpAddr::V6(start) => (Prefix::around(start.into(), *length), IpAddr::from(start)),
            };
            let length = prefix.length();
            writeln!(text, "  - {{ name: p{index}, device: net_null{index}, addresses: \"{host}/{length}\" }}").unwrap();
            prefixes.push(prefix);
        }
        let mut pairs = (0..prefixes.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        let overlap = pairs.any(|(a, b)| prefixes[a].covers(prefixes[b]) || prefixes[b].covers(prefixes[a]));
        let found = parse("t", &text).err().is_some_and(|found| {
            found.errors.iter().any(|error| error.problem.contains("overlaps"))
        });
        prop_assert_eq!(found, overlap, "{}", text);
    }

    /// Local addresses that are in two ranges are found, and only they.
    #[test]
    fn shared_local_addresses_are_those_of_all_pairs(ranges in prop::collection::vec((2..200u8, 0..20u8), 2..8)) {
        let mut text = "ports: [{ name: p, device: net_null0, addresses: 10.0.0.1/24 }]\nlocal_addresses:\n".to_owned();
        for (index, (first, more)) in ranges.iter().enumerate() {
            writeln!(text, "  - {{ name: g{index}, port: p, addresses: 10.0.0.{first}-{} }}", first + more).unwrap();
        }
        let mut pairs = (0..ranges.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        let shared = pairs.any(|(a, b)| {
            let (a, b) = (ranges[a], ranges[b]);
            a.0 <= b.0 + b.1 && b.0 <= a.0 + a.1
        });
        prop_assert_eq!(parse("t", &text).is_err(), shared, "{}", text);
    }

    /// The next hop is that of the longest prefix: a DR server behind a more specific route is not on the link.
    #[test]
    fn the_longest_prefix_wins(routes in prop::collection::btree_set((0..8u8, 16..=32u8), 0..6), host in 0..8u8) {
        let address = Ipv4Addr::new(10, 0, 0, 16 + host);
        let mut text = "ports: [{ name: p, device: net_null0, addresses: 10.0.0.1/24 }]\nroutes:\n".to_owned();
        let mut prefixes: Vec<Prefix> =
            routes.iter().map(|(at, length)| Prefix::around(Ipv4Addr::new(10, 0, 0, 16 + at).into(), *length)).collect();
        prefixes.sort();
        prefixes.dedup();
        for prefix in &prefixes {
            writeln!(text, "  - {{ to: {prefix}, via: 10.0.0.254 }}").unwrap();
        }
        if prefixes.is_empty() {
            text.push_str("  []\n");
        }
        write!(text, "pools: [{{ name: w, servers: [{{ address: {address} }}] }}]\n\
            services: [{{ name: w, listen: 10.0.0.100:80/tcp, pool: w, mode: dr }}]\n").unwrap();
        let routed = prefixes.iter().any(|prefix| prefix.length() > 24 && prefix.contains(address.into()));
        prop_assert_eq!(parse("t", &text).is_err(), routed, "{}", text);
    }
}

/// Ten thousand services, with a pool each and one for all: right ones, and each of them wrong. It takes a moment;
/// with an algorithm that compares each with each, it would take minutes.
#[test]
fn ten_thousand_services() {
    let mut text = "ports: [{ name: p, device: net_null0, addresses: 10.0.0.1/8 }]\npools:\n".to_owned();
    for index in 0..10_000u32 {
        let [_, _, high, low] = index.to_be_bytes();
        writeln!(text, "  - name: pool{index}\n    servers:").unwrap();
        for server in 1..5 {
            writeln!(
                text,
                "      - {{ address: 10.{server}.{high}.{low}, weight: {server} }}"
            )
            .unwrap();
        }
    }
    text.push_str("services:\n");
    for index in 0..10_000u32 {
        let [_, _, high, low] = index.to_be_bytes();
        let listen = format!("10.100.{high}.{low}:80/tcp");
        writeln!(
            text,
            "  - {{ name: s{index}, listen: \"{listen}\", pool: pool{index}, mode: dr }}"
        )
        .unwrap();
    }
    let config = parse("big", &text).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!((config.services.len(), config.pools.len()), (10_000, 10_000));
    assert_eq!(config.pools[9_999].servers.len(), 4);

    let wrong = text
        .replace("mode: dr", "mod: dr")
        .replace("pool: pool", "pool: pond");
    let found = parse("big", &wrong).expect_err("each service has two mistakes");
    assert_eq!(found.errors.len(), 20_000);
}
