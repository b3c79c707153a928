//! What somebody probably meant to write.

/// The candidate that was most likely meant by a word, if one is close enough.
///
/// Close is a slip or two of the pen (more in long words), the right name in the wrong table
/// (`max_iterations` for `event_loop.max_iterations`), or the beginning of only one candidate.
pub fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let word = folded(word);
    let length = word.chars().count();
    // In a short word three slips would make any other word of it.
    let slips = (length / 4).clamp(1, 3);
    let by_slips = candidates
        .clone()
        .into_iter()
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= slips)
        .map(|candidate| (distance(&word, &folded(candidate)), candidate))
        .filter(|(distance, _)| *distance <= slips)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate);
    by_slips.or_else(|| {
        let tail = word.rsplit('.').next().unwrap_or_default();
        let has_tail = |candidate: &&str| candidate.rsplit_once('.').is_some_and(|c| c.1 == tail);
        only(candidates.clone().into_iter().filter(has_tail))
            .or_else(|| only(candidates.into_iter().filter(|c| length > 2 && c.starts_with(&word))))
    })
}

/// The one there is.
fn only<'a>(mut of: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    of.next().filter(|_| of.next().is_none())
}

/// Neither case nor the kind of dash is worth a slip.
fn folded(word: &str) -> String {
    word.to_ascii_lowercase().replace('-', "_")
}

/// How many letters have to be added, dropped, replaced or swapped with their neighbour to make one
/// word of the other.
fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().collect();
    let other: Vec<char> = other.chars().collect();
    // Three rows of the table are enough: a swap looks two letters back.
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let replaced = above[j] + usize::from(a != b);
            let mut least = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEYS: [&str; 6] = [
        "event_loop.max_iterations",
        "backend.timeout_ms",
        "review.timeout_ms",
        "review.every_iterations",
        "core.log_level",
        "journal.sync",
    ];

    #[test]
    fn finds_what_was_meant() {
        for (word, meant) in [
            ("event_loop.max_iteration", Some("event_loop.max_iterations")),
            ("event-loop.Max-Iterations", Some("event_loop.max_iterations")),
            ("backend.timeuot_ms", Some("backend.timeout_ms")),
            ("bakend.timeout_ms", Some("backend.timeout_ms")),
            ("journal.snyc", Some("journal.sync")),
            ("log_level", Some("core.log_level")),
            ("loop.max_iterations", Some("event_loop.max_iterations")),
            ("review.every", Some("review.every_iterations")),
            // Two have this name, so neither was surely meant.
            ("timeout_ms", None),
            ("worktree.enabled", None),
            ("co", None),
            ("", None),
        ] {
            let found = nearest(word, KEYS);
            assert_eq!(found, meant, "{word}");
        }
    }

    #[test]
    fn counts_slips() {
        for (one, other, slips) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("abc", "ab", 1),
            ("abc", "xbc", 1),
            ("arg", "args", 1),
            ("kitten", "sitting", 3),
            ("é", "e", 1),
        ] {
            assert_eq!(distance(one, other), slips, "{one} {other}");
            assert_eq!(distance(other, one), slips, "{other} {one}");
        }
    }

    #[test]
    fn a_huge_word_costs_nothing() {
        assert_eq!(nearest(&"x".repeat(1 << 20), KEYS), None);
    }

    proptest! {
        #[test]
        fn a_key_is_nearest_to_itself_and_one_slip_away_still_meant(
            key in prop::sample::select(KEYS.to_vec()), at: prop::sample::Index, letter in "[a-z]",
        ) {
            prop_assert_eq!(nearest(key, KEYS), Some(key));
            let mut slipped = key.to_owned();
            slipped.insert_str(at.index(key.len()), &letter);
            prop_assert_eq!(nearest(&slipped, KEYS), Some(key));
        }
    }
}
