//! The model of a view: a board that follows the journal, and the output of its agents.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use autoloop_core::config::ItemSource;
use autoloop_core::coordinator::{Holder, Kind, Status};
use autoloop_core::plan::Files;
use autoloop_core::queue::Tasks;
use autoloop_core::record::Glance;
use autoloop_core::timestamp::Timestamp;
use autoloop_core::views::board::{Board, Boards, Row};
use autoloop_core::views::usage::{Sum, Usages};
use autoloop_runtime::journal::sidecar::Kept;
use autoloop_runtime::journal::{Journal, Position, ReadError};
use autoloop_runtime::runs::{RunList, WatchedRun, holder};
use autoloop_runtime::world::World;

use super::output_tail::Outputs;
use crate::failure::Failure;

pub(crate) struct Feed {
    world: World,
    files: Files,
    journal: Box<dyn Journal>,
    board: Board,
    /// How far the journal was read.
    position: Position,
    /// Tells the harness's records of slots and squads from forged ones.
    own: Option<WatchedRun>,
    /// The task queue of slots, if it is in the same journal.
    tasks: Option<Kept<Tasks>>,
    usages: Kept<Usages>,
    pub(super) outputs: Outputs,
}

impl Feed {
    /// Opens the board of a run: by its id, by a prefix, or by the id of a run that is a part of it. Without a name, the
    /// running one or the latest.
    pub(crate) fn open(
        files: &Files,
        journal: Box<dyn Journal>,
        name: Option<&str>,
        world: &World,
    ) -> Result<Feed, Failure> {
        let Kept { view: boards, position } = journal.fold::<Boards>()?;
        let usages = journal.fold()?;
        let outputs = Outputs::new(Arc::clone(&world.disk), files.state_dir.to_path_buf());
        let mut feed = Feed {
            world: world.clone(),
            files: files.clone(),
            journal,
            board: Board::default(),
            position,
            own: None,
            tasks: None,
            usages,
            outputs,
        };
        let list = RunList::read(&*feed.journal, &files.state_dir, world)?;
        feed.open_board(&boards, list.named_or_current(name)?.id())?;
        if matches!(feed.board.kind, Some(Kind::Slots | Kind::Squad)) {
            // The view contains records that an agent may have forged, so the journal is read again without these.
            feed.restart();
            feed.read_on(&mut |_, _| {})?;
        }
        if feed.board.source == ItemSource::Builtin.to_string() {
            feed.tasks = Some(feed.journal.fold()?);
        }
        Ok(feed)
    }

    fn restart(&mut self) {
        let board = Board::new(std::mem::take(&mut self.board.id));
        let kind = self.own.as_ref().map(|own| own.kind).or(self.board.kind);
        if let (Some(kind @ (Kind::Slots | Kind::Squad)), Ok(id)) = (kind, board.id.parse()) {
            self.own = Some(WatchedRun::new(&self.files.state_dir, kind, &id, &self.world));
        }
        (self.board, self.position) = (board, Position::START);
    }

    /// Opens the board of a run, or the one that it is a part of. The view keeps recent runs only; for others the journal
    /// is read again.
    fn open_board(&mut self, boards: &Boards, id: &str) -> Result<(), Failure> {
        let all: Vec<&Board> = boards.iter().collect();
        let exact = all.iter().rev().find(|board| board.id == id);
        match exact.or_else(|| all.iter().rev().find(|board| board.has(id))) {
            Some(board) => self.board = Board::clone(board),
            None => {
                self.board = Board::new(id);
                self.position = Position::START;
                self.read_on(&mut |_, _| {})?;
            }
        }
        Ok(())
    }

    pub(crate) fn board(&self) -> &Board {
        &self.board
    }

    /// The number of items that slots can still claim, now or later; `None` where it is unknown or the run has ended.
    pub(crate) fn left(&self, status: Status) -> Option<u64> {
        let tasks = self.tasks.as_ref().filter(|_| status == Status::Running)?;
        let progress = tasks.view.progress(self.world.clock.now());
        Some((progress.ready + progress.blocked) as u64)
    }

    pub(crate) fn progress(&self, status: Status) -> String {
        self.board.progress_in_words(self.left(status))
    }

    /// What the agents of the run used so far; `None` where none reported it.
    pub(crate) fn usage(&self) -> Option<Sum> {
        self.usages.view.total(Some(&self.board.id)).known()
    }

    pub(crate) fn usage_of(&self, row: &Row) -> Option<Sum> {
        self.board.usage_of(row, &self.usages.view)
    }

    /// The time of the view: now, or that of the last record if the run is not running.
    pub(crate) fn moment(&self, status: Status) -> Timestamp {
        let heard = self.board.times.1.parse().ok();
        let now = self.world.clock.now();
        if status == Status::Running { now } else { heard.unwrap_or(now) }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.world.clock.elapsed()
    }

    /// Reads new records and visits those of the board; returns whether there were any.
    pub(crate) fn read_on(
        &mut self,
        visit: &mut dyn FnMut(&Board, &Glance<'_>),
    ) -> Result<bool, Failure> {
        let is_changed = match self.read_from(self.position, visit) {
            Err(ReadError::Changed { .. }) => {
                self.restart();
                self.read_from(Position::START, visit)?;
                true
            }
            read => read?,
        };
        if let Some(tasks) = self.tasks.take_if(|tasks| tasks.position != self.position) {
            self.tasks = Some(self.journal.fold_on(tasks)?);
        }
        if self.usages.position != self.position {
            self.usages = self.journal.fold_on(std::mem::take(&mut self.usages))?;
        }
        Ok(is_changed)
    }

    fn read_from(
        &mut self,
        from: Position,
        visit: &mut dyn FnMut(&Board, &Glance<'_>),
    ) -> Result<bool, ReadError> {
        let Feed { journal, board, position, own, .. } = self;
        let mut is_changed = false;
        *position = journal.read(from, &mut |line| {
            line.records(|record| {
                let is_own = record.run() == board.id;
                if own.as_mut().is_some_and(|own| is_own && !own.counts(record)) {
                    return;
                }
                if board.apply(record) {
                    is_changed = true;
                    visit(board, record);
                }
            });
            ControlFlow::Continue(())
        })?;
        Ok(is_changed)
    }

    /// Waits until the journal grows, at most this long.
    pub(crate) fn wait(&self, time: Duration) -> Result<(), Failure> {
        self.journal.wait(self.position, time)?;
        Ok(())
    }

    pub(crate) fn status(&self) -> Status {
        let kind = self.board.kind.unwrap_or(Kind::Loop);
        let dir = self.board.id.parse().map(|id| self.files.state_dir.run(kind, &id));
        let holder = dir.map_or(Holder::None, |dir| holder(&dir, &*self.world.disk));
        self.board.status().with_holder(holder)
    }

    /// The status after reading everything that the harness wrote before it exited.
    pub(crate) fn settle(
        &mut self,
        visit: &mut dyn FnMut(&Board, &Glance<'_>),
    ) -> Result<Status, Failure> {
        let status = self.status();
        if status == Status::Running {
            return Ok(status);
        }
        self.read_on(visit)?;
        Ok(self.status())
    }

    /// The last line of each shown row.
    pub(crate) fn last_lines(&mut self) -> Vec<String> {
        self.outputs.last_lines(self.board.shown())
    }
}
