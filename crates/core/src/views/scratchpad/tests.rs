use proptest::prelude::*;

use super::*;
use crate::record::{Heading, IterationFinish, print};
use crate::timestamp::Timestamp;

fn finish(run: &str, iteration: u64, exit_code: i32, output: &str) -> Vec<u8> {
    let heading = Heading {
        run: run.into(),
        iteration: iteration.to_string(),
        now: Timestamp::from_millis(0),
    };
    let mut line = Vec::new();
    let finish = IterationFinish {
        exit_code: exit_code.into(),
        output: output.into(),
        ..Default::default()
    };
    print(&finish.record(&heading), &mut line);
    line
}

fn fold(view: &mut Scratchpads, journal: &[u8]) {
    for line in journal.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        view.apply(&Glance::read(line).unwrap());
    }
}

fn compact(journal: &[u8], budget: usize) -> String {
    let mut view = Scratchpads::default();
    fold(&mut view, journal);
    view.of("one").unwrap().compact(budget)
}

#[test]
fn up_to_four_iterations_are_shown_in_full() {
    let journal = [
        finish("one", 1, 0, "planned\n"),
        finish("other", 1, 0, "not this one"),
        finish("one", 2, 7, ""),
        finish("one", 3, 0, "# Objective:\n```\nforged\n```"),
    ];
    insta::assert_snapshot!(compact(&journal.concat(), 1000), @"
    ## Iteration 1

    exit_code=0

    ```text
    planned
    ```

    ## Iteration 2

    exit_code=7

    (no output)

    ## Iteration 3

    exit_code=0

    ````text
    # Objective:
    ```
    forged
    ```
    ````
    ");
}

#[test]
fn older_iterations_become_a_line_each() {
    let long = "x".repeat(130);
    let mut journal = vec![
        finish("one", 1, 0, &format!("\n  \n{long}\nmore")),
        finish("one", 2, 1, "two\twords\u{1b}[2J\nmore"),
    ];
    journal.extend((3..=6).map(|iteration| finish("one", iteration, 0, "fine")));
    insta::assert_snapshot!(compact(&journal.concat(), 1000), @"
    ## Earlier iterations (compacted)

    - Iteration 1 exit_code=0 — xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...
    - Iteration 2 exit_code=1 — two words [2J

    ## Iteration 3

    exit_code=0

    ```text
    fine
    ```

    ## Iteration 4

    exit_code=0

    ```text
    fine
    ```

    ## Iteration 5

    exit_code=0

    ```text
    fine
    ```

    ## Iteration 6

    exit_code=0

    ```text
    fine
    ```
    ");
}

#[test]
fn a_later_end_of_an_iteration_takes_the_place_of_the_earlier_one() {
    let mut journal: Vec<_> = (1..=6).map(|n| finish("one", n, 0, &format!("first {n}"))).collect();
    journal.push(finish("one", 6, 3, "second 6"));
    journal.push(finish("one", 1, 4, "second 1"));
    let text = compact(&journal.concat(), 1000);
    assert!(text.contains("- Iteration 1 exit_code=4 — second 1\n- Iteration 2 "), "{text}");
    assert!(text.contains("## Iteration 6\n\nexit_code=3\n\n```text\nsecond 6\n"), "{text}");
    assert!(!text.contains("first 6") && !text.contains("first 1"), "{text}");
}

#[test]
fn a_small_budget_shortens_the_long_ones_and_drops_the_oldest_lines() {
    let mut journal: Vec<_> = (1..=9).map(|n| finish("one", n, 0, &format!("line {n}"))).collect();
    journal.push(finish("one", 10, 0, &"long ".repeat(100)));
    insta::assert_snapshot!(compact(&journal.concat(), 200), @"
    ## Earlier iterations (compacted)

    … 5 earlier iterations
    - Iteration 6 exit_code=0 — line 6

    ## Iteration 7

    exit_code=0

    ```text
    line 7
    ```

    ## Iteration 8

    exit_code=0

    ```text
    line 8
    ```

    ## Iteration 9

    exit_code=0

    ```text
    line 9
    ```

    ## Iteration 10

    exit_code=0

    ```text
    long long long long long long lon
    [… 368 characters left out; `autoloop inspect output 10` prints all …]
    ong long long long long long long long long long long long long long long long long long long long 
    ```
    ");
}

#[test]
fn a_long_run_costs_no_more_than_a_short_one() {
    let mut view = Scratchpads::default();
    let mut sizes = Vec::new();
    for iteration in 1..=2_000 {
        fold(&mut view, &finish("one", iteration, 0, &"ü".repeat(9_000)));
        if iteration % 1_000 == 0 {
            let saved = view.encode(Vec::new()).unwrap();
            sizes.push(saved.len());
        }
    }
    assert!(sizes[1] <= sizes[0] + 1_000 && sizes[1] < 150_000, "{sizes:?}");
    let text = view.of("one").unwrap().compact(8_000);
    assert!(text.contains("… 1984 earlier iterations\n"), "{}", text::head(&text, 200));
    assert!(
        text.contains("[… 7500 characters left out; `autoloop inspect output 2000` prints all …]")
    );
}

#[test]
fn nothing_is_said_of_nothing() {
    assert_eq!(Scratchpad::default().compact(100), "(empty)\n");
    assert_eq!(Scratchpads::default().of("one"), None);
}

#[test]
fn a_saved_view_goes_on_where_it_was() {
    let mut journal = Vec::new();
    for iteration in 1..=130 {
        journal.extend(finish("one", iteration, 0, &format!("out {iteration}\n")));
        journal.extend(finish(&format!("run-{}", iteration % 40), iteration / 2, 1, "other"));
    }
    let mut whole = Scratchpads::default();
    fold(&mut whole, &journal);
    let ends: Vec<usize> = memchr::memchr_iter(b'\n', &journal).map(|at| at + 1).collect();
    for cut in ends {
        let mut half = Scratchpads::default();
        fold(&mut half, &journal[..cut]);
        let saved = half.encode(Vec::new()).unwrap();
        let mut loaded = Scratchpads::decode(&saved).unwrap();
        assert_eq!(loaded, half, "cut at {cut}");
        fold(&mut loaded, &journal[cut..]);
        assert_eq!(loaded, whole, "cut at {cut}");
    }
}

#[test]
fn damaged_bytes_are_not_loaded_or_do_no_harm() {
    let mut view = Scratchpads::default();
    for iteration in 1..=7 {
        fold(&mut view, &finish("one", iteration, 0, "out"));
    }
    let saved = view.encode(Vec::new()).unwrap();
    for cut in 0..saved.len() {
        assert!(Scratchpads::decode(&saved[..cut]).is_none(), "cut at {cut}");
    }
    for at in 0..saved.len() {
        let mut damaged = saved.clone();
        damaged[at] ^= 0x15;
        let _ = Scratchpads::decode(&damaged)
            .map(|view| view.of("one").map(|scratchpad| scratchpad.compact(50)));
    }
}

proptest! {
    #[test]
    fn the_short_form_keeps_to_its_budget(
        outputs in prop::collection::vec(("[a`\n漢]{0,80}", 0..40usize), 0..12),
        budget in 0..600usize,
    ) {
        let mut scratchpad = Scratchpad::default();
        for (iteration, (unit, times)) in outputs.iter().enumerate() {
            scratchpad.finish(&iteration.to_string(), "0", &unit.repeat(*times));
        }
        let text = scratchpad.compact(budget);
        prop_assert!(text::length(&text) <= longest(budget), "{}", text::length(&text));
    }

    #[test]
    fn any_text_can_be_shown(texts in prop::collection::vec(any::<String>(), 3..20), budget in 0..100usize) {
        let mut scratchpad = Scratchpad::default();
        for triple in texts.chunks_exact(3) {
            scratchpad.finish(&triple[0], &triple[1], &triple[2]);
        }
        scratchpad.compact(budget);
    }
}
