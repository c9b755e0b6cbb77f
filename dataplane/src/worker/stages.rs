//! What the stages of a worker take, in a build with the feature `stages`. In any other build there is nothing here: the
//! type is empty, and so is the function.

/// What a worker does in a turn, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Takes bursts from the ports, and what other workers hand over.
    Receive,
    /// Validates packets.
    Parse,
    /// Looks connections up.
    Track,
    /// Steers, schedules, moves state machines, rewrites, and finds neighbours.
    Forward,
    /// Everything that is due between bursts.
    Housekeeping,
    /// Gives bursts to the ports.
    Transmit,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Stage; 6] = [
        Stage::Receive,
        Stage::Parse,
        Stage::Track,
        Stage::Forward,
        Stage::Housekeeping,
        Stage::Transmit,
    ];

    /// Its name.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Stage::Receive => "receive",
            Stage::Parse => "parse",
            Stage::Track => "track",
            Stage::Forward => "forward",
            Stage::Housekeeping => "housekeeping",
            Stage::Transmit => "transmit",
        }
    }
}

/// Whether workers of this build time their stages.
pub const STAGES_ARE_TIMED: bool = cfg!(all(feature = "stages", target_arch = "x86_64"));

#[cfg(all(feature = "stages", target_arch = "x86_64"))]
pub(super) use timed::Stages;
#[cfg(not(all(feature = "stages", target_arch = "x86_64")))]
pub(super) use untimed::Stages;

#[cfg(all(feature = "stages", target_arch = "x86_64"))]
mod timed {
    use super::Stage;
    use crate::arch::cycles;

    /// The sums so far.
    pub(in super::super) struct Stages {
        sums: [u64; Stage::ALL.len()],
        /// When the last stage ended.
        last: u64,
    }

    impl Stages {
        pub(in super::super) fn new() -> Stages {
            Stages {
                sums: [0; Stage::ALL.len()],
                last: 0,
            }
        }

        /// What follows is no stage's before.
        #[inline(always)]
        pub(in super::super) fn begin(&mut self) {
            self.last = cycles();
        }

        /// What has passed since the last stage ended is this one's.
        #[inline(always)]
        pub(in super::super) fn end(&mut self, stage: Stage) {
            let now = cycles();
            self.sums[stage as usize] += now - self.last;
            self.last = now;
        }

        /// The sums, in the order of [`Stage::ALL`].
        pub(in super::super) fn sums(&self) -> Option<[u64; Stage::ALL.len()]> {
            Some(self.sums)
        }
    }
}

#[cfg(not(all(feature = "stages", target_arch = "x86_64")))]
mod untimed {
    use super::Stage;

    pub(in super::super) struct Stages;

    #[allow(clippy::unused_self, reason = "as where stages are timed")]
    impl Stages {
        pub(in super::super) fn new() -> Stages {
            Stages
        }

        #[inline(always)]
        pub(in super::super) fn begin(&mut self) {}

        #[inline(always)]
        pub(in super::super) fn end(&mut self, _stage: Stage) {}

        pub(in super::super) fn sums(&self) -> Option<[u64; Stage::ALL.len()]> {
            None
        }
    }
}
