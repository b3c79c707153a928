//! Suggestions for misspelled names.

use strsim::osa_distance;

/// Returns the candidate most likely meant by a word, if one is close enough.
///
/// Close is one to three edits, depending on the length of the word; the right name in the wrong table
/// (`max_iterations` for `event_loop.max_iterations`); or the prefix of exactly one candidate.
pub fn suggest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let word = folded(word);
    let length = word.chars().count();
    // Three edits turn a short word into any other.
    let edits = (length / 4).clamp(1, 3);
    let by_edits = candidates
        .clone()
        .into_iter()
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= edits)
        .map(|candidate| (osa_distance(&word, &folded(candidate)), candidate))
        .filter(|(distance, _)| *distance <= edits)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate);
    by_edits.or_else(|| {
        let tail = word.rsplit('.').next().unwrap_or_default();
        let has_tail = |candidate: &&str| candidate.rsplit_once('.').is_some_and(|c| c.1 == tail);
        only(candidates.clone().into_iter().filter(has_tail))
            .or_else(|| only(candidates.into_iter().filter(|c| length > 2 && c.starts_with(&word))))
    })
}

fn only<'a>(mut of: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    of.next().filter(|_| of.next().is_none())
}

/// Ignores case and the kind of dash.
fn folded(word: &str) -> String {
    word.to_ascii_lowercase().replace('-', "_")
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
    fn suggests_what_was_meant() {
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
            let found = suggest(word, KEYS);
            assert_eq!(found, meant, "{word}");
        }
    }

    #[test]
    fn a_huge_word_costs_nothing() {
        assert_eq!(suggest(&"x".repeat(1 << 20), KEYS), None);
    }

    proptest! {
        #[test]
        fn a_key_is_suggested_for_itself_and_for_one_edit_of_it(
            key in prop::sample::select(KEYS.to_vec()), at: prop::sample::Index, letter in "[a-z]",
        ) {
            prop_assert_eq!(suggest(key, KEYS), Some(key));
            let mut edited = key.to_owned();
            edited.insert_str(at.index(key.len()), &letter);
            prop_assert_eq!(suggest(&edited, KEYS), Some(key));
        }
    }
}
