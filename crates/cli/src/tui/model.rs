//! What a view shows: a board that is read on as the journal grows, and what its agents print.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use autoloop_core::config::ItemSource;
use autoloop_core::coordinator::{Holder, Kind, Status};
use autoloop_core::plan::Files;
use autoloop_core::queue::Tasks;
use autoloop_core::record::Glance;
use autoloop_core::timestamp::Timestamp;
use autoloop_core::views::board::{Board, Boards, Row};
use autoloop_runtime::files::Tail;
use autoloop_runtime::journal::sidecar::Kept;
use autoloop_runtime::journal::{Journal, Position, ReadError};
use autoloop_runtime::runs::{self, WatchedSlots, holder};
use autoloop_runtime::world::World;

use super::output_tail::Printed;
use crate::failure::Failure;

/// A board, and how far its journal was read.
pub(crate) struct Feed {
    world: World,
    files: Files,
    journal: Box<dyn Journal>,
    board: Board,
    position: Position,
    /// Which records of slots count.
    own: Option<WatchedSlots>,
    /// The tasks that slots take from, where they are in the same journal.
    tasks: Option<Kept<Tasks>>,
    printed: Printed,
}

impl Feed {
    /// The board of a run, a chain or slots: by its id, by the beginning of it, or by the id of a run
    /// that is a part of it. Without a name the one that is under way, or else the latest.
    pub(crate) fn open(
        files: &Files,
        journal: Box<dyn Journal>,
        name: Option<&str>,
        world: &World,
    ) -> Result<Feed, Failure> {
        let Kept { view: boards, position } = journal.fold::<Boards>()?;
        let printed = Printed {
            disk: Arc::clone(&world.disk),
            state_dir: files.state_dir.to_path_buf(),
            lines: HashMap::new(),
            page: Default::default(),
        };
        let mut feed = Feed {
            world: world.clone(),
            files: files.clone(),
            journal,
            board: Board::default(),
            position,
            own: None,
            tasks: None,
            printed,
        };
        match name {
            None => feed.board = feed.usual(&boards)?.clone(),
            Some(name) => {
                let run = runs::find(&*feed.journal, name)?;
                feed.open_board(&boards, run.id())?;
            }
        }
        if feed.board.kind == Some(Kind::Slots) {
            // Only what counts, this time: an agent may have written other things.
            feed.begin_anew();
            feed.read_on(&mut |_, _| {})?;
        }
        if feed.board.source == ItemSource::Builtin.to_string() {
            feed.tasks = Some(feed.journal.fold()?);
        }
        Ok(feed)
    }

    /// Forgets what was read.
    fn begin_anew(&mut self) {
        let board = Board::new(std::mem::take(&mut self.board.id));
        let is_slots = self.own.is_some() || self.board.kind == Some(Kind::Slots);
        if let (true, Ok(id)) = (is_slots, board.id.parse()) {
            self.own = Some(WatchedSlots::new(&self.files.state_dir, &id, &self.world));
        }
        (self.board, self.position) = (board, Position::START);
    }

    fn usual<'b>(&self, boards: &'b Boards) -> Result<&'b Board, Failure> {
        let is_running = |board: &&&Board| self.status_of(board) == Status::Running;
        let all: Vec<&Board> = boards.iter().collect();
        let found = all.iter().rev().find(is_running).or(all.last());
        found.copied().ok_or_else(|| {
            Failure::failed(format!("no run has begun in {} yet", self.journal.path().display()))
                .hint("`autoloop run DIR` begins one")
        })
    }

    /// The board of a run, or the one that it is a part of. The journal is read again for a run that is
    /// not among the latest.
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

    /// How many items slots could still take, now or later. `None` where nobody knows, and when they are
    /// at work no more.
    pub(crate) fn left(&self, status: Status) -> Option<u64> {
        let tasks = self.tasks.as_ref().filter(|_| status == Status::Running)?;
        let progress = tasks.view.progress(self.world.clock.now());
        Some((progress.ready + progress.blocked) as u64)
    }

    /// How far the board is, in words.
    pub(crate) fn progress(&self, status: Status) -> String {
        self.board.progress_in_words(self.left(status))
    }

    /// The moment that the board is seen at: now, or when it was last heard of if nobody is at it.
    pub(crate) fn moment(&self, status: Status) -> Timestamp {
        let heard = self.board.times.1.parse().ok();
        let now = self.world.clock.now();
        if status == Status::Running { now } else { heard.unwrap_or(now) }
    }

    /// Time since some fixed moment.
    pub(crate) fn elapsed(&self) -> Duration {
        self.world.clock.elapsed()
    }

    /// Takes in what came since, tells of every record that belongs here, and says whether one did.
    pub(crate) fn read_on(
        &mut self,
        tell: &mut dyn FnMut(&Board, &Glance<'_>),
    ) -> Result<bool, Failure> {
        let heard = match self.read_from(self.position, tell) {
            Err(ReadError::Changed { .. }) => {
                self.begin_anew();
                self.read_from(Position::START, tell)?;
                true
            }
            heard => heard?,
        };
        if let Some(tasks) = self.tasks.take_if(|tasks| tasks.position != self.position) {
            self.tasks = Some(self.journal.fold_on(tasks)?);
        }
        Ok(heard)
    }

    fn read_from(
        &mut self,
        from: Position,
        tell: &mut dyn FnMut(&Board, &Glance<'_>),
    ) -> Result<bool, ReadError> {
        let Feed { journal, board, position, own, .. } = self;
        let mut heard = false;
        *position = journal.read(from, &mut |line| {
            line.records(|record| {
                let is_own = record.run() == board.id;
                if own.as_mut().is_some_and(|own| is_own && !own.counts(record)) {
                    return;
                }
                if board.apply(record) {
                    heard = true;
                    tell(board, record);
                }
            });
            ControlFlow::Continue(())
        })?;
        Ok(heard)
    }

    /// Returns when the journal has grown, or when the time is up.
    pub(crate) fn wait(&self, time: Duration) -> Result<(), Failure> {
        self.journal.wait(self.position, time)?;
        Ok(())
    }

    pub(crate) fn status(&self) -> Status {
        self.status_of(&self.board)
    }

    /// How it is, with all that its harness wrote before it exited.
    pub(crate) fn settle(
        &mut self,
        tell: &mut dyn FnMut(&Board, &Glance<'_>),
    ) -> Result<Status, Failure> {
        let status = self.status();
        if status == Status::Running {
            return Ok(status);
        }
        self.read_on(tell)?;
        Ok(self.status())
    }

    fn status_of(&self, board: &Board) -> Status {
        let kind = board.kind.unwrap_or(Kind::Loop);
        let dir = board.id.parse().map(|id| self.files.state_dir.run(kind, &id));
        let holder = dir.map_or(Holder::None, |dir| holder(&dir, &*self.world.disk));
        board.status().with_holder(holder)
    }

    /// The last thing that was said in each row.
    pub(crate) fn last_lines(&mut self) -> Vec<String> {
        self.printed.last_lines(&self.board.rows)
    }

    /// Where the output of a row is.
    pub(crate) fn output_path(&self, row: &Row) -> Option<PathBuf> {
        self.printed.path(row)
    }

    /// The end of an output; nothing where there is none.
    pub(crate) fn output(&mut self, path: &Path) -> Tail {
        self.printed.page(path).clone()
    }
}
