//! Local ports against a naive model.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::tests::{LIP, LIP6, ports_of, range, small};
use super::*;
use crate::flow::RecordId;
use crate::worker::shard::{Shard, ShardSet};

#[derive(Clone, Debug)]
enum Step {
    /// A connection opens: pair, shard of the client.
    Open(usize, u32),
    /// The chosen connection ends, enters TIME_WAIT or CLOSE, or leaves it.
    End(prop::sample::Index),
    Close(prop::sample::Index),
    Reopen(prop::sample::Index),
}

fn steps(pairs: usize, shards: u32) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..pairs, 0..shards).prop_map(|(pair, shard)| Step::Open(pair, shard)),
        3 => any::<prop::sample::Index>().prop_map(Step::End),
        2 => any::<prop::sample::Index>().prop_map(Step::Close),
        1 => any::<prop::sample::Index>().prop_map(Step::Reopen),
    ];
    prop::collection::vec(step, 1..400)
}

/// One pair, told plainly.
struct NaivePair {
    pair: Pair,
    unused: BTreeSet<u16>,
    released: HashMap<Shard, VecDeque<u16>>,
    closing: Vec<RecordId>,
}

/// Pair `i`: the odd ones are IPv6's.
fn pair_of(i: usize, server_port: u16) -> Pair {
    let server = Ipv4Addr::new(10, 0, 0, i as u8);
    let (local, server) = match i % 2 {
        0 => (LIP, server.into()),
        _ => (
            LIP6,
            Ipv6Addr::from_bits(0x2001_0db8 << 96 | server.to_ipv6_mapped().to_bits()).into(),
        ),
    };
    Pair {
        local,
        server,
        server_port,
        protocol: 6,
    }
}

struct Model {
    ports: LocalPorts,
    range: PortRange,
    mine: ShardSet,
    /// Memory is ample: order is exact, and nothing is ever forgotten.
    exact: bool,
    pairs: Vec<NaivePair>,
    open: Vec<(RecordId, usize, u16)>,
    spare: Vec<RecordId>,
}

impl Model {
    fn new(config: &LocalPortsConfig, range: PortRange, mine: ShardSet, pairs: usize, exact: bool) -> Model {
        let ports = ports_of(config);
        let naive = |i: usize| {
            let pair = pair_of(i, 80);
            NaivePair {
                pair,
                unused: range
                    .ports()
                    .filter(|port| mine.contains(ports.key.shard_of(pair.local, *port)))
                    .collect(),
                released: HashMap::new(),
                closing: vec![],
            }
        };
        let pairs = (0..pairs).map(naive).collect();
        let spare = (1..=config.connections).rev().map(RecordId).collect();
        Model {
            ports,
            range,
            mine,
            exact,
            pairs,
            open: vec![],
            spare,
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Open(pair, shard) => self.open(*pair, Shard::from_low_bits(*shard), true),
            Step::End(index) if !self.open.is_empty() => self.end(index.index(self.open.len())),
            Step::Close(index) if !self.open.is_empty() => {
                let (record, pair, _) = self.open[index.index(self.open.len())];
                let naive = &mut self.pairs[pair];
                let listed = naive.closing.contains(&record);
                assert_eq!(self.ports.closing(&naive.pair, record), !listed);
                if !listed {
                    naive.closing.push(record);
                }
            }
            Step::Reopen(index) if !self.open.is_empty() => {
                let (record, pair, _) = self.open[index.index(self.open.len())];
                let naive = &mut self.pairs[pair];
                assert_eq!(self.ports.reopened(record), naive.closing.contains(&record));
                naive.closing.retain(|other| *other != record);
            }
            _ => {}
        }
    }

    fn open(&mut self, at: usize, wanted: Shard, may_recycle: bool) {
        // A client's shard is one of the worker's.
        let Some(wanted) = self.mine.next_from(wanted) else {
            return;
        };
        let naive = &self.pairs[at];
        match self.ports.take(&naive.pair, self.range, wanted, self.mine) {
            Ok(taken) => self.opened(at, wanted, taken),
            Err(TakeError::Exhausted { recyclable }) => {
                let released = naive.released.values().all(VecDeque::is_empty);
                assert!(
                    naive.unused.is_empty() && released,
                    "refused while ports are free"
                );
                assert_eq!(recyclable, naive.closing.first().copied());
                if let Some(record) = recyclable {
                    assert!(may_recycle, "the recycled port was not to be had");
                    let place = self.open.iter().position(|(other, ..)| *other == record).unwrap();
                    self.end(place);
                    self.open(at, wanted, false);
                }
            }
            Err(TakeError::Memory) => assert!(!self.exact),
        }
    }

    fn opened(&mut self, at: usize, wanted: Shard, taken: Taken) {
        let key = &self.ports.key;
        let naive = &mut self.pairs[at];
        let shard = key.shard_of(naive.pair.local, taken.port);
        let free_in = |naive: &NaivePair, shard: Shard| {
            let released = naive.released.get(&shard).is_some_and(|queue| !queue.is_empty());
            released
                || naive
                    .unused
                    .iter()
                    .any(|port| key.shard_of(naive.pair.local, *port) == shard)
        };
        assert_eq!(taken.borrowed, shard != wanted);
        assert!(
            !taken.borrowed || !free_in(naive, wanted),
            "borrowed without need"
        );
        assert!(self.mine.contains(shard));
        let queue = naive.released.entry(shard).or_default();
        if self.exact {
            let fresh_left = naive
                .unused
                .iter()
                .any(|port| key.shard_of(naive.pair.local, *port) == shard);
            match fresh_left {
                true => assert!(naive.unused.contains(&taken.port), "a port comes again too early"),
                false => assert_eq!(queue.front(), Some(&taken.port), "not the least recently used"),
            }
        }
        let fresh = naive.unused.remove(&taken.port);
        let place = queue.iter().position(|port| *port == taken.port);
        assert!(fresh != place.is_some(), "port {} is in use", taken.port);
        place.map(|place| queue.remove(place));
        let record = self.spare.pop().unwrap();
        self.open.push((record, at, taken.port));
    }

    fn end(&mut self, place: usize) {
        let (record, at, port) = self.open.swap_remove(place);
        let naive = &mut self.pairs[at];
        assert!(self.ports.release(&naive.pair, port, record));
        naive.closing.retain(|other| *other != record);
        naive
            .released
            .entry(self.ports.key.shard_of(naive.pair.local, port))
            .or_default()
            .push_back(port);
        self.spare.push(record);
    }

    fn check(&mut self) {
        audit(&mut self.ports);
        for (at, naive) in self.pairs.iter().enumerate() {
            let used = self.open.iter().filter(|(_, pair, _)| *pair == at).count();
            let released: usize = naive.released.values().map(VecDeque::len).sum();
            if let Some(usage) = self.ports.usage(&naive.pair, self.mine) {
                assert_eq!(usage.used as usize, used);
                assert_eq!(usage.capacity as usize, used + released + naive.unused.len());
            } else {
                assert_eq!(used, 0);
            }
        }
    }
}

/// Everything that the parts say about each other.
fn audit(ports: &mut LocalPorts) {
    let pairs: Vec<u32> = (1..=ports.pairs.touched())
        .filter(|id| !ports.pairs[*id].sets().is_empty())
        .collect();
    assert_eq!(pairs.len() as u32, ports.pairs.live());
    let (mut sets, mut blocks, mut promised) = (0, 0, 0);
    let (mut idle_pairs, mut idle_sets) = (BTreeSet::new(), BTreeSet::new());
    for id in &pairs {
        let pair = ports.pair(*id);
        let sought = ports.hasher.seek(&pair);
        assert_eq!(ports.find_pair(&sought), Some(*id));
        let mut used = 0;
        for shard in ShardSet::ALL.iter() {
            let set = ports.find_set(&sought, shard);
            assert_eq!(set.is_some(), ports.pairs[*id].sets().contains(shard));
            let Some(set) = set else { continue };
            let slot = &ports.sets[set];
            assert_eq!(ports.pairs[*id].free().contains(shard), slot.has_free());
            assert!(!slot.is_new());
            used += slot.used();
            sets += 1;
            blocks += slot.blocks().0;
            promised += slot.blocks().1;
            if slot.is_idle() {
                idle_sets.insert(set);
            }
        }
        assert_eq!(used, ports.pairs[*id].used);
        if used == 0 {
            idle_pairs.insert(*id);
        }
    }
    assert_eq!(sets, ports.sets.live());
    assert_eq!((blocks, promised), ports.blocks.in_use());
    let listed = ports.idle_pairs.ids(&mut ports.pairs);
    assert_eq!(
        (listed.len(), listed.into_iter().collect()),
        (idle_pairs.len(), idle_pairs)
    );
    let listed = ports.idle_sets.ids(&mut ports.sets);
    assert_eq!(
        (listed.len(), listed.into_iter().collect()),
        (idle_sets.len(), idle_sets)
    );
}

fn run(mut model: Model, steps: &[Step]) {
    for (i, step) in steps.iter().enumerate() {
        model.step(step);
        if i % 16 == 0 {
            model.check();
        }
    }
    while !model.open.is_empty() {
        model.end(model.open.len() / 2);
    }
    model.check();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn agrees_with_the_model(
        steps in steps(3, 128), first in 1u16..400, count in 1u16..80, mine in prop_oneof![Just(u128::MAX), any::<u128>()],
    ) {
        let range = range(first, first + count - 1);
        run(Model::new(&small(), range, ShardSet::from_bits(mine), 3, true), &steps);
    }

    #[test]
    fn agrees_with_the_model_over_few_shards_and_many_blocks(steps in steps(2, 3), first in 60_000u16..62_000) {
        let mine = ShardSet::from_bits(0b111);
        run(Model::new(&small(), range(first, first + 3200), mine, 2, true), &steps);
    }

    #[test]
    fn short_memory_never_hands_out_a_port_twice(
        steps in steps(6, 8), blocks in 1usize..40, sets in 1u32..12, pairs in 1u32..6,
    ) {
        let config = LocalPortsConfig { port_memory: blocks * 32, sets, pairs, ..small() };
        run(Model::new(&config, range(3000, 3900), ShardSet::ALL, 6, false), &steps);
    }

    /// A reload may change an address's range at any time.
    #[test]
    fn a_changing_range_never_hands_out_a_port_twice(
        steps in steps(3, 16), ranges in prop::collection::vec((1u16..2000, 1u16..600), 2..5),
    ) {
        let mut ports = ports_of(&LocalPortsConfig { sets: 24, ..small() });
        let pair = |i: usize| pair_of(i, 443);
        let mut open: Vec<(Pair, u16)> = vec![];
        for (i, step) in steps.iter().enumerate() {
            let (first, more) = ranges[i / 40 % ranges.len()];
            match step {
                Step::Open(at, shard) => {
                    let wanted = Shard::from_low_bits(*shard);
                    let taken = ports.take(&pair(*at), range(first, first + more), wanted, ShardSet::ALL);
                    let entry = taken.map(|taken| (pair(*at), taken.port));
                    prop_assert!(entry.is_err() || !open.contains(&entry.unwrap()));
                    open.extend(entry);
                }
                Step::End(index) | Step::Close(index) if !open.is_empty() => {
                    let (pair, port) = open.swap_remove(index.index(open.len()));
                    prop_assert!(ports.release(&pair, port, RecordId(1)));
                }
                _ => {}
            }
            if i % 16 == 0 {
                audit(&mut ports);
            }
        }
        for (pair, port) in open {
            prop_assert!(ports.release(&pair, port, RecordId(1)));
        }
        audit(&mut ports);
        prop_assert_eq!(ports.addresses().map(|address| address.used).sum::<u32>(), 0);
    }
}
