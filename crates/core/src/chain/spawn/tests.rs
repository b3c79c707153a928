use proptest::prelude::*;

use super::*;
use crate::chain::{Budget, Chain, ChainStep};
use crate::coordinator::Fold;
use crate::record::{ChainStart, LoopStart};
use crate::run::Asker;

/// A chain with these steps, of which the first began as this run.
fn chain(id: &str, parent: Option<&str>, steps: &str) -> Chain {
    let step = ChainStep { number: 1, run: Some(format!("{id}-run")), ..ChainStep::default() };
    Chain {
        start: Some(ChainStart {
            name: id.to_owned(),
            steps: steps.to_owned(),
            parent_id: parent.map(str::to_owned),
            ..ChainStart::default()
        }),
        steps: vec![step],
        ..Chain::new(id)
    }
}

fn context(chains: &str) -> SpawnContext {
    let (definitions, _) = Definitions::read(chains).unwrap();
    SpawnContext { definitions, ..SpawnContext::default() }
}

fn ask(payload: &str, context: &SpawnContext) -> String {
    match admit(&Run::new("r"), &SpawnRequest::new(payload, Asker::Agent), context) {
        Ok(Proposal { spawned, steps }) => {
            let steps: Vec<_> = steps.iter().map(|step| step.preset.as_str()).collect();
            format!("{}: {}", spawned.chain_id, steps.join(" "))
        }
        Err(refusal) => {
            let record = refusal.record();
            let limit = record.limit.map_or(String::new(), |limit| format!(" {limit}"));
            format!("{}{limit}: {}", record.reason, record.detail)
        }
    }
}

#[test]
fn what_can_be_is_granted_and_the_harness_knows_the_parent() {
    let mut context = context("[[chain]]\nname = 'both'\nsteps = ['x', 'y']\n");
    assert_eq!(ask("steps=a, both ; justification=z;", &context), "r-chain-1: a x y");
    assert_eq!(ask("chain_id=mine; steps=a;", &context), "mine: a");
    context.ids.insert("r-chain-1".to_owned());
    assert_eq!(ask("steps=a;", &context), "r-chain-2: a");
    let long = Run::new(&"r".repeat(60));
    let refused = admit(&long, &SpawnRequest::new("steps=a;", Asker::Agent), &context).unwrap_err();
    assert_eq!(refused.reason(), "bad_id");
    let request = SpawnRequest::new("steps=a; parent_id=other; justification= why ;", Asker::Agent);
    let spawned = admit(&Run::new("r"), &request, &context).unwrap().spawned;
    assert_eq!((spawned.parent_id.as_str(), spawned.justification.as_str()), ("r", "why"));
}

#[test]
fn every_refusal_says_what_to_do() {
    let mut context = context("[[chain]]\nname = 'both'\nsteps = ['x', 'y']\n");
    context.ids.insert("old".to_owned());
    let ask = |payload: &str| ask(payload, &context);
    insta::assert_snapshot!(ask("autofix please"), @r#"no_steps: the request has no steps: emit chain.spawn "steps=first,second; justification=why;""#);
    insta::assert_snapshot!(ask("steps= ;"), @r#"no_steps: the request has no steps: emit chain.spawn "steps=first,second; justification=why;""#);
    insta::assert_snapshot!(ask("steps=a,,b;"), @"bad_step: invalid step '': expected a preset, a chain or a directory, without commas");
    insta::assert_snapshot!(ask("steps=a\u{1b}[2Jb;"), @r"bad_step: invalid step 'a\u{1b}[2Jb': expected a preset, a chain or a directory, without commas");
    insta::assert_snapshot!(ask("steps=a,../b;"), @"outside: step '../b' is outside of the project; name a preset, a chain or a directory of the project");
    insta::assert_snapshot!(ask("steps=/etc;"), @"outside: step '/etc' is outside of the project; name a preset, a chain or a directory of the project");
    insta::assert_snapshot!(ask("steps=a; chain_id=../x;"), @"bad_id: invalid chain id '../x': expected lower-case letters, digits, '.', '_' and '-', or no id");
    insta::assert_snapshot!(ask("steps=a; chain_id=a\nb;"), @"bad_id: invalid chain id 'a b': expected lower-case letters, digits, '.', '_' and '-', or no id");
    insta::assert_snapshot!(ask("steps=a; chain_id=old;"), @"used_id: duplicate id 'old': a chain or a run has it; choose another, or none");
    insta::assert_snapshot!(ask(&"x".repeat(10_000_000)), @"too_long: the request exceeds 10000 characters; move the rest to a file");
    insta::assert_snapshot!(ask(&format!("steps={};", vec!["a"; 51].join(","))), @"max_steps 50: chain 'a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,...' has more steps than budget.max_steps = 50 allows");
    assert_eq!(Refusal::Unfit("x\ny".to_owned()).record().detail, "x y");
    let bad = Refusal::BadFile("invalid TOML".to_owned()).record();
    insta::assert_snapshot!(format!("{}: {}", bad.reason, bad.detail), @"bad_file: chains.toml cannot be used: invalid TOML");
}

#[test]
fn who_may_not_ask_is_told() {
    let context = context("");
    let branch = LoopStart { parent: Some("p".to_owned()), ..LoopStart::default() };
    let branch = Run { start: Some(branch), ..Run::new("b") };
    let told = |run: &Run, asker: Asker| {
        admit(run, &SpawnRequest::new("steps=a;", asker), &context).unwrap_err().to_string()
    };
    insta::assert_snapshot!(told(&branch, Asker::Agent), @"a branch of a wave cannot start chains; report in your answer what should follow");
    insta::assert_snapshot!(told(&Run::new("r"), Asker::Review), @"a metareview cannot start chains");
    insta::assert_snapshot!(told(&Run::new("r"), Asker::Replay), @"a replay cannot start chains: it starts no agents");
    insta::assert_snapshot!(ask("steps=a;", &self::context("[budget]\nmax_children = 0")), @"off: this loop cannot start chains");
    insta::assert_snapshot!(Refusal::RunEnds, @"the run ended with the turn that requested it");
}

#[test]
fn a_run_gets_so_many_chains_and_so_many_failures() {
    let context = context("[budget]\nmax_children = 4\nmax_consecutive_failures = 2");
    let after = |count: u64, failures: u64| {
        let mut run = Run::new("r");
        (run.spawns.count, run.spawns.failures) = (count, failures);
        admit(&run, &SpawnRequest::new("steps=a;", Asker::Agent), &context)
            .map_or_else(|refusal| refusal.to_string(), |it| it.spawned.chain_id)
    };
    assert_eq!(after(3, 1), "r-chain-4");
    insta::assert_snapshot!(after(4, 0), @"this run has started as many chains as it may: budget.max_children = 4");
    insta::assert_snapshot!(after(3, 2), @"the last 2 chains of this run failed: budget.max_consecutive_failures = 2");
}

/// `ship` was started by a person, its first step asked for `a`, whose first step asked for `b`.
fn tree() -> Vec<Chain> {
    vec![
        chain("other", None, "x,x,x"),
        chain("ship", None, "x,y"),
        chain("a", Some("ship-run"), "x,y,z"),
        chain("b", Some("a-run"), "x"),
        chain("alone", Some("other"), "x,x"),
    ]
}

#[test]
fn relatives_share_depth_steps_and_time() {
    let mut chains = tree();
    for chain in &mut chains {
        chain.steps[0].elapsed_ms = 100;
    }
    let ancestry = Ancestry::of("b-run", &chains);
    assert_eq!(ancestry.above, ["ship", "a", "b"]);
    assert_eq!((ancestry.steps, ancestry.spent_ms), (6, 300));
    // The step of `ship` ended, and with it all that belongs to its run.
    chains[1].steps[0].stop_reason = Some("completion_event".into());
    assert_eq!(Ancestry::of("b-run", &chains).spent_ms, 100);
    let ancestry = Ancestry::of("other", &chains);
    assert_eq!((ancestry.above.len(), ancestry.steps, ancestry.spent_ms), (0, 2, 100));
    assert_eq!(Ancestry::of("stranger", &chains), Ancestry::default());

    let mut context = context(
        "[budget]\nmax_depth = 4\nmax_steps = 8\nmax_runtime_ms = 301\n[[chain]]\nname = 'ship'\nsteps = ['x', 'y']\n[[chain]]\nname = 'deep'\nsteps = ['x']\n[[chain]]\nname = 'again'\nsteps = ['ship']\n",
    );
    chains[1].steps[0].stop_reason = None;
    context.ancestry = Ancestry::of("b-run", &chains);
    assert_eq!(ask("steps=x,y;", &context), "r-chain-1: x y");
    insta::assert_snapshot!(ask("steps=x,y,z;", &context), @"max_steps 8: 3 more steps make 9 in all related chains: budget.max_steps = 8");
    insta::assert_snapshot!(ask("steps=ship;", &context), @"circle: chain 'ship' would run itself, through a, b");
    insta::assert_snapshot!(ask("steps=x,deep;", &context), @"max_depth 4: chain 'x,deep' is nested deeper than budget.max_depth = 4 allows");
    let budget = context.definitions.budget;
    assert!(context.ancestry.has_room(budget));
    for less in [
        Budget { max_depth: 3, ..budget },
        Budget { max_steps: 6, ..budget },
        Budget { max_runtime_ms: 300, ..budget },
    ] {
        assert!(!context.ancestry.has_room(less), "{less:?}");
    }
    context.definitions.budget.max_depth = 3;
    insta::assert_snapshot!(ask("steps=x;", &context), @"max_depth 3: chain 'x' is nested deeper than budget.max_depth = 3 allows");
    context.definitions.budget = Budget { max_runtime_ms: 300, ..Budget::default() };
    insta::assert_snapshot!(ask("steps=x;", &context), @"max_runtime_ms 300: all related chains took longer than budget.max_runtime_ms = 300");
    insta::assert_snapshot!(ask("steps=again;", &context), @"circle: chain 'ship' would run itself, through a, b, again");
}

proptest! {
    /// Forged records may make any chain the parent of any other.
    #[test]
    fn a_family_is_found_whatever_the_records_say(
        parents in prop::collection::vec(prop::option::of(0..6usize), 1..6),
        run in 0..6usize,
    ) {
        let chains: Vec<Chain> = parents.iter().enumerate().map(|(place, parent)| {
            chain(&place.to_string(), parent.map(|it| format!("{it}-run")).as_deref(), "x")
        }).collect();
        let ancestry = Ancestry::of(&format!("{run}-run"), &chains);
        prop_assert!(ancestry.steps <= chains.len() as u64);
        prop_assert!(ancestry.above.len() <= chains.len());
    }

    #[test]
    fn any_request_is_granted_or_refused_in_one_line(payload in any::<String>(), steps in "[a-c,/. \u{7}]{0,12}") {
        let context = context("");
        for payload in [payload, format!("steps={steps};")] {
            if let Err(refusal) = admit(&Run::new("r"), &SpawnRequest::new(&payload, Asker::Agent), &context) {
                let detail = refusal.record().detail;
                prop_assert!(!detail.contains(char::is_control), "{detail:?}");
                prop_assert!(detail.chars().count() <= 400);
            }
        }
    }
}
