//! The turn of a reviewer, of metareviews and of slots: confined, run, and checked for what it changed.

use std::io;

use autoloop_core::record::ReviewViolation;
use autoloop_core::slot::HeldBy;

use super::DriveError;
use crate::git::HeadState;
use crate::ipc::Handler;
use crate::process::Interrupts;
use crate::review::{Confined, ReviewSandbox, ReviewSite, Subject, Violations, not_started};
use crate::site::Site;
use crate::turn::{Ended, Launch, Waiting};

pub(super) struct ReviewTurn<'r, 'a> {
    pub(super) site: Site<'a>,
    pub(super) sandbox: &'r ReviewSandbox,
    pub(super) launch: Launch,
    pub(super) ends: Interrupts,
}

pub(super) struct Reviewed {
    pub(super) ended: Ended,
    pub(super) changes: Violations,
    /// `None` where the reviewer was not started, because it could not be confined.
    pub(super) held_by: Option<HeldBy>,
}

/// The checkout that a reviewer works in. What is checked out is restored with the files.
pub(super) trait Checkout {
    fn head(&self) -> Option<HeadState>;

    fn rewind(&self, head: &HeadState, violations: &mut Violations);
}

impl ReviewTurn<'_, '_> {
    pub(super) fn confine(
        &mut self,
        subject: impl FnOnce() -> io::Result<(Subject, Handler)>,
    ) -> io::Result<Option<Confined>> {
        let Site { world, program, .. } = self.site;
        let site = ReviewSite { world, program, client: self.launch.client() };
        self.sandbox.confine(subject, &mut self.launch.job, site)
    }

    /// Runs the reviewer to its end. One that could not be confined is not started. `have_slots_worked` is whether
    /// agents of other slots wrote to the same tree since.
    pub(super) fn run(
        self,
        confined: io::Result<Option<Confined>>,
        checkout: Option<&dyn Checkout>,
        have_slots_worked: impl Fn() -> bool,
        report: impl FnMut(&Waiting) -> Result<(), DriveError>,
    ) -> Result<Reviewed, DriveError> {
        let world = self.site.world;
        let hold = |confined: Confined| {
            let checkout = checkout.filter(|_| confined.needs_snapshot());
            let head = checkout.and_then(|checkout| Some((checkout, checkout.head()?)));
            Ok((self.sandbox.hold(confined, &self.launch.job, world)?, head))
        };
        let held = match confined.and_then(|confined| confined.map(hold).transpose()) {
            Ok(held) => held,
            Err(error) => {
                let (ended, changes) = (not_started(&error), Violations::default());
                return Ok(Reviewed { ended, changes, held_by: None });
            }
        };
        let ended = self.launch.run(&self.site, &self.ends, report);
        let (changes, held_by) = match held {
            Some((held, head)) => {
                let rewind = |violations: &mut Violations| {
                    if let Some((checkout, head)) = head {
                        checkout.rewind(&head, violations);
                    }
                };
                self.sandbox.release(held, world, rewind, have_slots_worked)
            }
            None => (Violations::default(), HeldBy::Nothing),
        };
        Ok(Reviewed { ended: ended?, changes, held_by: Some(held_by) })
    }
}

/// Names the files that a reviewer was not allowed to change; `about` is put before each.
pub(super) fn note_violations(violations: &[ReviewViolation], about: &str, site: &Site<'_>) {
    for ReviewViolation { path, what, .. } in violations {
        site.note(&format!("{about}reviewer modified a protected file: {path} ({what})"));
    }
}
