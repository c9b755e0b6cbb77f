//! "Did you mean": the known word most like an unknown one.

/// Words longer than this are not compared: no name that a person mistypes is.
const LONGEST: usize = 64;

/// The candidate that the fewest edits (insert, delete, replace, swap neighbours) make of `word`, if so few that
/// a slip explains them: one in three characters. The first of several.
pub(super) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word
        .chars()
        .flat_map(char::to_lowercase)
        .take(LONGEST + 1)
        .collect();
    if word.len() > LONGEST {
        return None;
    }
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let other: Vec<char> = candidate
            .chars()
            .flat_map(char::to_lowercase)
            .take(LONGEST + 1)
            .collect();
        let slips = (word.len().max(other.len()) / 3).max(1);
        let allowed = best.map_or(slips, |(distance, _)| slips.min(distance.saturating_sub(1)));
        if other.len() > LONGEST || word.len().abs_diff(other.len()) > allowed {
            continue;
        }
        let distance = edits(&word, &other);
        if distance <= allowed && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Edits between two words: Levenshtein's distance with swaps of neighbours, by three rows of its table.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised() {
        let keys = ["name", "listen", "pool", "mode", "scheduler", "local_addresses"];
        let nearest = |word| nearest(word, keys.into_iter());
        assert_eq!(nearest("lsiten"), Some("listen"));
        assert_eq!(nearest("schedular"), Some("scheduler"));
        assert_eq!(nearest("Pool"), Some("pool"));
        assert_eq!(nearest("local_address"), Some("local_addresses"));
        assert_eq!(nearest("pools"), Some("pool"));
        assert_eq!(nearest("weight"), None);
        assert_eq!(nearest("icmp"), None);
        assert_eq!(nearest(""), None);
        assert_eq!(nearest(&"x".repeat(1000)), None);
    }

    #[test]
    fn edits_count_what_a_hand_does() {
        let count = |a: &str, b: &str| edits(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        assert_eq!(count("", ""), 0);
        assert_eq!(count("abc", ""), 3);
        assert_eq!(count("", "abc"), 3);
        assert_eq!(count("kitten", "sitting"), 3);
        assert_eq!(count("ab", "ba"), 1);
    }
}
