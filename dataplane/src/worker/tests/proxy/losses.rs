//! The header is lost.

use super::*;

/// The client is silent: the timer sends the header again, twice as late each time, and in the end not at all.
#[test]
fn the_timer_repairs_a_loss() {
    for family in Family::BOTH {
        for lost in [1u32, 3] {
            let mut line = Line::opened(family);
            for number in 0..lost {
                let wait = seconds(1 << number);
                assert_eq!(line.pass(wait - 1), [], "too early");
                // A slot of the wheel is 8 ticks.
                let seen = line.pass(9);
                line.is_header(&only(seen), ANSWER);
                line.gateway.now = Tick(line.gateway.now.0);
            }
            let len = line.len();
            let seen = only(line.server(ACK, ANSWER, line.first + len, b""));
            assert_eq!(numbers(&seen), (ACK, ANSWER, FIRST, 0));
            assert_eq!(line.pass(seconds(100)), []);
            assert_eq!(line.counts(), [1, u64::from(lost), 0]);
        }
    }
}
