//! The state of the view, and the effect of keys on it. Independent of a terminal.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The process that carries out the run. The run continues when the view is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Another process.
    Watcher,
    /// This process, so Ctrl-C stops the run.
    Harness,
}

/// Shown after the first `q` in the process that carries out the run.
pub(super) const CONTINUES: &str = "the run continues; Ctrl-C stops it; q again closes this view";

/// Printed when the view of such a process is closed.
pub(super) const CLOSED: &str = "the run continues; `autoloop watch` shows it, Ctrl-C stops it";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    Board,
    /// The output of the selected row.
    Output {
        /// The first visible line; `None` to follow the end.
        top: Option<usize>,
    },
    Help,
}

/// What a key requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Stay,
    Leave,
    /// Close the view and stop the run.
    Stop,
    Suspend,
    Redraw,
}

/// The sizes of the last drawing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// Rows of the board.
    pub(super) rows: usize,
    /// Lines of the output.
    pub(super) lines: usize,
    /// Visible rows or lines.
    pub(super) height: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) role: Role,
    pub(super) pane: Pane,
    /// The pane below the help.
    behind: Pane,
    /// Shown until the next key.
    pub(super) notice: Option<&'static str>,
    /// Index of the selected row.
    pub(super) picked: usize,
    /// The rows of the run, and the number of finished rows ever, at the last drawing.
    active: usize,
    finished: u64,
    pub(super) room: Room,
}

impl View {
    pub(super) fn new(role: Role) -> View {
        let (pane, behind) = (Pane::Board, Pane::Board);
        View {
            role,
            pane,
            behind,
            notice: None,
            picked: 0,
            active: 0,
            finished: 0,
            room: Room::default(),
        }
    }

    /// Keeps a finished row selected when rows appear above it.
    pub(super) fn follow(&mut self, active: usize, finished: u64) {
        if self.active > 0 && self.picked >= self.active {
            let new = usize::try_from(finished.saturating_sub(self.finished)).unwrap_or(0);
            self.picked = self.picked - self.active + active + new;
        }
        (self.active, self.finished) = (active, finished);
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Wish {
        let notice = self.notice.take();
        let is_plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        match (key.code, self.pane) {
            (KeyCode::Char('c'), _) if key.modifiers == KeyModifiers::CONTROL => {
                return if self.role == Role::Harness { Wish::Stop } else { Wish::Leave };
            }
            (KeyCode::Char('z'), _) if key.modifiers == KeyModifiers::CONTROL => {
                return Wish::Suspend;
            }
            (KeyCode::Char('l'), _) if key.modifiers == KeyModifiers::CONTROL => {
                return Wish::Redraw;
            }
            (_, Pane::Help) => self.pane = self.behind,
            (KeyCode::Char(_), _) if !is_plain => {}
            (KeyCode::Char('?'), _) => {
                self.behind = self.pane;
                self.pane = Pane::Help;
            }
            (KeyCode::Char('q') | KeyCode::Esc, Pane::Board) => {
                if self.role == Role::Watcher || notice.is_some() {
                    return Wish::Leave;
                }
                self.notice = Some(CONTINUES);
            }
            (key, Pane::Board) => self.press_on_board(key),
            (key, Pane::Output { top }) => self.press_on_output(key, top),
        }
        Wish::Stay
    }

    fn press_on_board(&mut self, key: KeyCode) {
        if matches!(key, KeyCode::Enter | KeyCode::Right | KeyCode::Char('l')) {
            self.pane = Pane::Output { top: None };
            return;
        }
        let Room { rows, height, .. } = self.room;
        let to = moved(key, self.picked, rows.saturating_sub(1), height);
        self.picked = to.unwrap_or(self.picked);
    }

    fn press_on_output(&mut self, key: KeyCode, top: Option<usize>) {
        if matches!(key, KeyCode::Char('q' | 'h') | KeyCode::Esc | KeyCode::Left) {
            self.pane = Pane::Board;
            return;
        }
        let Room { lines, height, .. } = self.room;
        let last = lines.saturating_sub(height);
        if let Some(to) = moved(key, top.unwrap_or(last), last, height.saturating_sub(1)) {
            // At the end, new lines are followed.
            self.pane = Pane::Output { top: (to < last).then_some(to) };
        }
    }
}

/// The place that a key moves to; `None` for other keys.
fn moved(key: KeyCode, at: usize, last: usize, page: usize) -> Option<usize> {
    let page = page.max(1);
    Some(match key {
        KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => (at + 1).min(last),
        KeyCode::PageUp | KeyCode::Char('b') => at.saturating_sub(page),
        KeyCode::PageDown | KeyCode::Char(' ') => (at + page).min(last),
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => last,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        View { room: Room { rows: 3, lines: 100, height: 10 }, ..View::new(Role::Watcher) }
    }

    fn press(view: &mut View, keys: &str) -> Wish {
        keys.chars().map(|key| view.press(KeyCode::Char(key).into())).last().unwrap()
    }

    fn ctrl(letter: char) -> KeyEvent {
        KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL)
    }

    #[test]
    fn a_letter_with_another_key_is_not_that_letter() {
        let mut view = view();
        for modifiers in [KeyModifiers::CONTROL, KeyModifiers::ALT] {
            assert_eq!(view.press(KeyEvent::new(KeyCode::Char('q'), modifiers)), Wish::Stay);
        }
        assert_eq!(view.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::ALT)), Wish::Stay);
        view.press(KeyEvent::new(KeyCode::Char('G'), KeyModifiers::SHIFT));
        assert_eq!(view.picked, 2);
    }

    #[test]
    fn rows_are_picked_within_what_there_is() {
        let mut view = view();
        press(&mut view, "jjjjj");
        assert_eq!(view.picked, 2);
        press(&mut view, "k");
        assert_eq!(view.picked, 1);
        view.press(KeyCode::Home.into());
        view.press(KeyCode::Up.into());
        assert_eq!(view.picked, 0);
        view.press(KeyCode::End.into());
        assert_eq!(view.picked, 2);
    }

    #[test]
    fn a_finished_row_stays_selected() {
        let mut view = view();
        view.follow(1, 4);
        view.picked = 2;
        view.follow(1, 5);
        assert_eq!(view.picked, 3);
        view.follow(4, 5);
        assert_eq!(view.picked, 6);
        view.picked = 0;
        view.follow(4, 9);
        assert_eq!(view.picked, 0);
    }

    #[test]
    fn an_output_follows_its_end_until_the_user_scrolls_up() {
        let mut view = view();
        view.press(KeyCode::Enter.into());
        assert_eq!(view.pane, Pane::Output { top: None });
        view.press(KeyCode::PageUp.into());
        assert_eq!(view.pane, Pane::Output { top: Some(81) });
        press(&mut view, "g");
        assert_eq!(view.pane, Pane::Output { top: Some(0) });
        press(&mut view, "jj");
        assert_eq!(view.pane, Pane::Output { top: Some(2) });
        press(&mut view, "G");
        assert_eq!(view.pane, Pane::Output { top: None });
        view.press(KeyCode::Up.into());
        view.press(KeyCode::Down.into());
        assert_eq!(view.pane, Pane::Output { top: None });
        assert_eq!(press(&mut view, "q"), Wish::Stay);
        assert_eq!(view.pane, Pane::Board);
    }

    #[test]
    fn beside_the_work_a_person_is_asked_first() {
        let mut view = View { role: Role::Harness, ..view() };
        assert_eq!(press(&mut view, "q"), Wish::Stay);
        assert_eq!(view.notice, Some(CONTINUES));
        assert_eq!(press(&mut view, "jq"), Wish::Stay);
        assert_eq!(press(&mut view, "q"), Wish::Leave);
        assert_eq!(view.press(ctrl('c')), Wish::Stop);
    }

    #[test]
    fn every_pane_can_be_left() {
        for key in [KeyCode::Char('q').into(), KeyCode::Esc.into(), ctrl('c')] {
            assert_eq!(view().press(key), Wish::Leave);
        }
        let mut view = view();
        press(&mut view, "?");
        assert_eq!(view.pane, Pane::Help);
        assert_eq!(press(&mut view, "q"), Wish::Stay);
        assert_eq!(view.pane, Pane::Board);
        view.press(KeyCode::Right.into());
        press(&mut view, "g?x");
        assert_eq!(view.pane, Pane::Output { top: Some(0) }, "where it was");
        assert_eq!(view.press(ctrl('c')), Wish::Leave);
        assert_eq!(view.press(ctrl('z')), Wish::Suspend);
    }
}
