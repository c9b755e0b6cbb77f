//! A tournament over the servers of one service: who comes first by a key, and by place in the list among equals.
//! A changed key is replayed up the tree, so that a service with 1,000 servers costs ten comparisons and not a
//! thousand. Control allocates it; the worker fills it.

use crate::service::Server;

/// What servers are ranked by: the least comes first. Below 2^105.
pub(super) type Key = u128;

/// The key of a server that must not be picked.
pub(super) const NEVER: Key = Key::MAX;

/// Bits below a key that hold the server's position, so that one comparison settles ties too. 105 and 23 make 128.
const POSITION_BITS: u32 = 23;

/// A server as the tournament knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entrant {
    /// Its slot, to know it by.
    pub(super) slot: u32,
    /// Its weight.
    pub(super) weight: u32,
}

/// The tournament. Servers are known by their position in the list.
#[derive(Clone, Debug)]
pub(super) struct Ranking {
    entrants: Box<[Entrant]>,
    /// A binary tree as an array: node `i` has the children `2i` and `2i + 1`, the root is node 1, the server at
    /// position `p` is leaf `servers + p`. A leaf holds its key over its position, a node the least of its children.
    nodes: Box<[u128]>,
}

impl Ranking {
    /// A tournament of these servers, none of which may be picked yet. The position of one beyond the first
    /// 8,388,608 does not fit: it takes no part.
    pub(super) fn new(servers: &[Server]) -> Ranking {
        let entrants = servers.iter().take(1 << POSITION_BITS).map(|server| Entrant {
            slot: server.slot,
            weight: server.weight,
        });
        let entrants: Box<[Entrant]> = entrants.collect();
        Ranking {
            nodes: vec![NEVER; 2 * entrants.len()].into(),
            entrants,
        }
    }

    /// The server at that position.
    pub(super) fn entrant(&self, position: usize) -> Option<Entrant> {
        self.entrants.get(position).copied()
    }

    /// Plays everything anew, with the keys that `key` gives by position.
    pub(super) fn fill(&mut self, key: impl Fn(usize) -> Key) {
        let servers = self.entrants.len();
        for position in 0..servers {
            self.nodes[servers + position] = placed(key(position), position);
        }
        for node in (1..servers).rev() {
            self.nodes[node] = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
        }
    }

    /// Gives the server at `position`, which has to take part, another key.
    #[inline]
    pub(super) fn set(&mut self, position: usize, key: Key) {
        let mut node = self.entrants.len() + position;
        let mut least = placed(key, position);
        while self.nodes[node] != least {
            self.nodes[node] = least;
            if node == 1 {
                return;
            }
            // The sibling's place is known without looking at any value, so that these loads do not wait for each
            // other.
            least = least.min(self.nodes[node ^ 1]);
            node /= 2;
        }
    }

    /// The position of the first server by rank; none when none may be picked.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        let first = *self.nodes.get(1)?;
        (first != NEVER).then_some((first & ((1 << POSITION_BITS) - 1)) as usize)
    }
}

/// A key with the position under it.
#[inline]
fn placed(key: Key, position: usize) -> u128 {
    if key == NEVER {
        return NEVER;
    }
    debug_assert!(
        key >> (Key::BITS - POSITION_BITS) == 0,
        "a key of more than 105 bits"
    );
    key << POSITION_BITS | position as u128
}

#[cfg(test)]
mod tests {
    use super::super::testing::server;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nobody_wins_without_entrants_or_before_keys_are_known() {
        assert_eq!(Ranking::new(&[]).first(), None);
        let mut alone = Ranking::new(&[server(5, 1)]);
        assert_eq!(alone.first(), None);
        alone.set(0, 7);
        assert_eq!((alone.first(), alone.entrant(0).unwrap().slot), (Some(0), 5));
        alone.set(0, NEVER);
        assert_eq!((alone.first(), alone.entrant(1)), (None, None));
    }

    proptest! {
        #[test]
        fn the_winner_is_the_first_of_the_least(
            servers in 1usize..70,
            steps in proptest::collection::vec((any::<usize>(), prop_oneof![0u128..4, Just((1 << 105) - 1), Just(NEVER)]), 1..200),
            anew in any::<usize>(),
        ) {
            let list: Vec<_> = (0..servers as u32).map(|slot| server(slot, 1)).collect();
            let mut ranking = Ranking::new(&list);
            let mut keys = vec![NEVER; servers];
            for (step, (position, key)) in steps.into_iter().enumerate() {
                keys[position % servers] = key;
                if step == anew % 200 {
                    ranking.fill(|position| keys[position]);
                } else {
                    ranking.set(position % servers, key);
                }
                let least = (0..servers).filter(|&at| keys[at] != NEVER).min_by_key(|&at| (keys[at], at));
                prop_assert_eq!(ranking.first(), least);
            }
        }
    }
}
