//! What a person looks at, and what keys do to it. Nothing here touches a terminal.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What ends with the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing: the work is another process's.
    Watcher,
    /// Nothing either, but the work is done by this process, and a person could mean to end it.
    Beside,
}

/// What is said to a person who closes the view beside the work.
pub(super) const GOES_ON: &str = "the work goes on; Ctrl-C stops it; q again closes this view";

/// What is said when it is closed.
pub(super) const CLOSED: &str =
    "the work goes on; `autoloop watch` shows it again, Ctrl-C stops it";

/// What a person looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    /// All rows.
    Board,
    /// The output of the row that was picked.
    Output {
        /// The line at the top; `None` to follow the end.
        top: Option<usize>,
    },
    /// The keys.
    Help,
}

/// What has to be done about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Nothing but to look again.
    Stay,
    /// To close the view.
    Leave,
    /// To close the view and to stop the work.
    Stop,
    /// To let the shell have the terminal.
    Suspend,
    /// To draw everything anew.
    Redraw,
}

/// How much there is to look at, as it was drawn last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// The rows of the board.
    pub(super) rows: usize,
    /// The lines of the output.
    pub(super) lines: usize,
    /// How many of them are seen at once.
    pub(super) height: usize,
}

/// The state of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) role: Role,
    pub(super) pane: Pane,
    /// What the keys were asked for in, and what they go back to.
    behind: Pane,
    /// What has to be said until the next key.
    pub(super) notice: Option<&'static str>,
    /// The row that is picked.
    pub(super) picked: usize,
    pub(super) room: Room,
}

impl View {
    pub(super) fn new(role: Role) -> View {
        let (pane, behind) = (Pane::Board, Pane::Board);
        View { role, pane, behind, notice: None, picked: 0, room: Room::default() }
    }

    /// A key was pressed.
    pub(super) fn press(&mut self, key: KeyEvent) -> Wish {
        let notice = self.notice.take();
        let is_plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        match (key.code, self.pane) {
            (KeyCode::Char('c'), _) if key.modifiers == KeyModifiers::CONTROL => {
                return if self.role == Role::Beside { Wish::Stop } else { Wish::Leave };
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
                self.notice = Some(GOES_ON);
            }
            (key, Pane::Board) => self.press_on_board(key),
            (key, Pane::Output { top }) => self.press_on_output(key, top),
        }
        Wish::Stay
    }

    fn press_on_board(&mut self, key: KeyCode) {
        let last = self.room.rows.saturating_sub(1);
        let page = self.room.height.max(1);
        match key {
            KeyCode::Up | KeyCode::Char('k') => self.picked = self.picked.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.picked = (self.picked + 1).min(last),
            KeyCode::PageUp => self.picked = self.picked.saturating_sub(page),
            KeyCode::PageDown => self.picked = (self.picked + page).min(last),
            KeyCode::Home | KeyCode::Char('g') => self.picked = 0,
            KeyCode::End | KeyCode::Char('G') => self.picked = last,
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => {
                self.pane = Pane::Output { top: None }
            }
            _ => {}
        }
    }

    fn press_on_output(&mut self, key: KeyCode, top: Option<usize>) {
        let Room { lines, height, .. } = self.room;
        let last = lines.saturating_sub(height);
        let at = top.unwrap_or(last);
        let page = height.saturating_sub(1).max(1);
        let to = match key {
            KeyCode::Char('q' | 'h') | KeyCode::Esc | KeyCode::Left => {
                self.pane = Pane::Board;
                return;
            }
            KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => at + 1,
            KeyCode::PageUp | KeyCode::Char('b') => at.saturating_sub(page),
            KeyCode::PageDown | KeyCode::Char(' ') => at + page,
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last,
            _ => return,
        };
        // Whoever is at the end wants to see what comes.
        self.pane = Pane::Output { top: (to < last).then_some(to) };
    }
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
    fn an_output_follows_its_end_until_somebody_scrolls_up() {
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
        let mut view = View { role: Role::Beside, ..view() };
        assert_eq!(press(&mut view, "q"), Wish::Stay);
        assert_eq!(view.notice, Some(GOES_ON));
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
