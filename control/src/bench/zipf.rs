//! Numbers by Zipf's law with exponent 1: rank n is drawn as often as 1/n says. By rejection from the area under 1/x
//! (W. Hörmann and G. Derflinger, 1996), which needs no table, however many ranks there are.

use super::flows::Draws;

/// Draws ranks from 1 to a number.
pub(super) struct Zipf {
    ranks: f64,
    /// The area that is drawn from, as the integral of 1/x: from here to `end`.
    start: f64,
    end: f64,
}

/// 2^32.
const DRAWN: f64 = 4_294_967_296.0;

impl Zipf {
    /// From 1 to `ranks`, at least 1.
    pub(super) fn new(ranks: u32) -> Zipf {
        let ranks = f64::from(ranks.max(1));
        Zipf {
            ranks,
            // Rank 1 has exactly the area that is due to it: 1.
            start: 1.5f64.ln() - 1.0,
            end: (ranks + 0.5).ln(),
        }
    }

    /// The next rank.
    pub(super) fn draw(&self, draws: &mut Draws) -> u32 {
        loop {
            let part = f64::from(draws.next()) / DRAWN;
            let area = self.end - part * (self.end - self.start);
            let rank = area.exp().round().clamp(1.0, self.ranks);
            // The last 1/n of what lies between n - 1/2 and n + 1/2, which is a little more than that.
            if area >= (rank + 0.5).ln() - 1.0 / rank {
                return rank as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_drawn_as_often_as_the_law_says() {
        const DRAWN: u32 = 1_000_000;
        for ranks in [1u32, 2, 10, 1000] {
            let (zipf, mut draws) = (Zipf::new(ranks), Draws::new());
            let mut counts = vec![0u32; ranks as usize];
            for _ in 0..DRAWN {
                counts[zipf.draw(&mut draws) as usize - 1] += 1;
            }
            let all: f64 = (1..=ranks).map(|rank| 1.0 / f64::from(rank)).sum();
            for (rank, count) in (1..=ranks).zip(counts) {
                let due = f64::from(DRAWN) / (f64::from(rank) * all);
                // Six standard deviations.
                assert!(
                    (f64::from(count) - due).abs() < 6.0 * due.sqrt(),
                    "{rank} of {ranks}: {count}, {due}"
                );
            }
        }
    }
}
