//! One shim for several jobs, and when it has to be replaced.

use super::*;

/// Jobs without a mark, which can therefore share a shim.
struct Again {
    trial: Trial,
    world: World,
}

impl Again {
    fn new() -> Again {
        Again { trial: Trial::new(), world: world() }
    }

    fn sh(&self, script: &str) -> Job {
        Job { token: String::new(), ..self.trial.sh(script) }
    }

    /// Runs a job to its end, and returns its shim.
    fn run(&self, job: Job) -> (Finished, u32) {
        let running = self.world.spawner.spawn(job).unwrap();
        (end(&running), running.id)
    }

    fn true_by(&self) -> u32 {
        let (finished, shim) = self.run(self.sh("true"));
        assert_eq!(code(&finished), 0);
        shim
    }

    /// The notes about shims.
    fn notes(&self) -> usize {
        fs::read_dir(notes_dir(self.trial.dir.path())).into_iter().flatten().count()
    }
}

fn is_there(shim: u32) -> bool {
    Path::new(&format!("/proc/{shim}")).exists()
}

#[test]
fn jobs_that_leave_nothing_share_a_shim() {
    let again = Again::new();
    let shim = again.true_by();
    fs::create_dir(again.trial.path("sub")).unwrap();
    let mut job = again.sh("pwd; echo $COLOUR; exit 3");
    job.dir = Some(again.trial.path("sub"));
    job.env.push(("COLOUR".into(), "red".into()));
    let (finished, same) = again.run(job);
    assert_eq!((code(&finished), same), (3, shim));
    let sub = again.trial.path("sub").canonicalize().unwrap();
    assert_eq!(finished.stdout.text(), format!("{}\nred\n", sub.display()));
    // Nothing of it is left for the next job, which starts in our directory.
    let (finished, same) = again.run(Job { dir: None, ..again.sh("pwd; echo =$COLOUR=") });
    let here = std::env::current_dir().unwrap();
    assert_eq!(finished.stdout.text(), format!("{}\n==\n", here.display()));
    assert_eq!(same, shim);
    // The shim is also reused after a deadline, a giant input and a failed start.
    let (finished, same) = again.run(deadline(again.sh("sleep 60"), 50));
    assert!(finished.timed_out() && same == shim);
    let job = Job { stdin: vec![b'x'; 1 << 20], ..again.sh("wc -c") };
    assert_eq!(again.run(job).0.stdout.text().trim(), "1048576");
    let (finished, same) = again.run(Job { program: "/no/such".into(), ..again.sh("") });
    never_started(&finished);
    assert_eq!((same, again.true_by(), again.notes()), (shim, shim, 1));
    drop(again.world);
    assert!(!is_there(shim), "it is gone with the last who could need it");
}

#[test]
fn jobs_at_the_same_time_have_shims_of_their_own() {
    let again = Again::new();
    let one = again.world.spawner.spawn(again.sh("sleep 300")).unwrap();
    let other = again.true_by();
    assert_ne!(one.id, other);
    one.signals.send(Signal::Kill).unwrap();
    end(&one);
    assert_eq!(again.true_by(), other, "the one that had to be killed is not used again");
}

#[test]
fn an_orphan_of_one_job_is_not_ended_by_the_next() {
    let again = Again::new();
    let first = again.true_by();
    let mut job = again.sh("sleep 300 & echo $!");
    job.leftovers = Leftovers::Keep;
    let (finished, same) = again.run(job);
    assert_eq!(same, first);
    let sleeper: u32 = finished.stdout.text().trim().parse().unwrap();
    // The next job ends with every process that it started, and the sleeper is not one of them.
    let (_, next) = again.run(again.sh("sleep 300 & true"));
    assert_ne!(next, first);
    assert!(!is_there(first) && is_there(sleeper));
    kill(sleeper, Unix::KILL);
}

#[test]
fn a_late_request_does_not_affect_the_next_job() {
    let again = Again::new();
    let early = again.world.spawner.spawn(again.sh("true")).unwrap();
    end(&early);
    for _ in 0..20 {
        let late = early.signals.send(Signal::Kill);
        let (finished, shim) = again.run(again.sh("sleep 0.02"));
        assert_eq!((code(&finished), shim), (0, early.id), "{late:?}");
    }
}

#[test]
fn a_shim_that_was_killed_while_it_waited_is_replaced() {
    let again = Again::new();
    for signal in [Unix::KILL, Unix::TERM] {
        let shim = again.true_by();
        kill(shim, signal);
        waitid(WaitId::Pid(pid(shim)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert_ne!(again.true_by(), shim);
        assert_eq!(again.notes(), 1);
    }
}

#[test]
fn a_shim_stopped_while_waiting_delays_nothing() {
    let again = Again::new();
    let shim = again.true_by();
    let stop = || {
        kill(shim, Unix::STOP);
        waitid(WaitId::Pid(pid(shim)), WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT).unwrap();
    };
    stop();
    assert_eq!(again.true_by(), shim);
    // The same where the order is longer than a pipe holds before it is read.
    stop();
    let job = Job { stdin: vec![b'x'; 1 << 20], ..again.sh("wc -c") };
    let (finished, same) = again.run(job);
    assert_eq!((finished.stdout.text().trim(), same), ("1048576", shim));
    stop();
    drop(again.world);
    assert!(!is_there(shim));
}

#[test]
fn a_note_that_an_agent_took_away_is_there_again_for_the_next_job() {
    let again = Again::new();
    again.run(again.sh("rm -rf shims"));
    let (finished, _) = again.run(again.sh("ls shims | wc -l"));
    assert_eq!(finished.stdout.text().trim(), "1");
}
