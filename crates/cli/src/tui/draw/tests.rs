use autoloop_core::record::Glance;
use autoloop_core::view::View as _;
use autoloop_core::views::board::Board;
use autoloop_core::views::usage::Usages;
use autoloop_testkit::shorthand;
use insta::assert_snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::tui::view::Role;

fn board(id: &str, story: &str) -> Board {
    let mut board = Board::new(id);
    for line in shorthand::lines(story) {
        board.apply(&Glance::read(line.as_bytes()).unwrap());
    }
    board
}

/// What a window of this size shows, ten minutes after the beginning.
struct Window {
    board: Board,
    status: Status,
    lines: Vec<&'static str>,
    left: Option<u64>,
    output: Option<String>,
    usages: Usages,
    view: View,
}

impl Window {
    fn of(board: Board) -> Window {
        let view = View::new(Role::Watcher);
        let status = Status::Running;
        let (lines, usages) = (vec![], Usages::default());
        Window { board, status, lines, left: None, output: None, usages, view }
    }

    fn buffer(&self, (width, height): (u16, u16)) -> Buffer {
        let last_lines: Vec<String> = self.lines.iter().map(|line| (*line).to_owned()).collect();
        let picture = Picture {
            board: &self.board,
            status: self.status,
            progress: self.board.progress_in_words(self.left),
            moment: "2026-01-02T03:10:00.000Z".parse().unwrap(),
            usage: self.usages.total(Some(&self.board.id)).known(),
            usage_of: &|row| self.board.usage_of(row, &self.usages),
            last_lines: &last_lines,
            output: self.output.as_ref().map(|text| Output {
                text,
                left_out: 0,
                path: ".autoloop/runs/otter/iteration-2.out",
            }),
        };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let drawn = |frame: &mut ratatui::Frame<'_>| {
            draw(&picture, &self.view, style::Color::No, frame.buffer_mut());
        };
        terminal.draw(drawn).unwrap();
        terminal.backend().buffer().clone()
    }

    /// The same as text, between bars that show where it ends.
    fn shown(&self, size: (u16, u16)) -> String {
        let buffer = self.buffer(size);
        let mut lines = Vec::new();
        for y in 0..size.1 {
            let mut line = String::new();
            let mut x = 0;
            while x < size.0 {
                let symbol = buffer[(x, y)].symbol();
                line.push_str(symbol);
                x += u16::try_from(autoloop_core::table::width(symbol).max(1)).unwrap();
            }
            lines.push(line);
        }
        let is_empty = |line: &String| line.trim().is_empty();
        // What is empty says the same in one line.
        let mut text = String::new();
        let mut skipped = 0;
        for line in lines {
            if is_empty(&line) {
                skipped += 1;
                continue;
            }
            if skipped > 0 {
                text += &format!("({skipped} empty)\n");
                skipped = 0;
            }
            text += &format!("|{}|\n", line);
        }
        text
    }
}

const SMALL: (u16, u16) = (40, 12);
const USUAL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (200, 50);

fn slots() -> Window {
    let board = board(
        "calm-crow",
        "
        calm-crow slot.run.start iterations=4; parallel_agents=4; max_fix_attempts=5; source=builtin
        calm-crow#1 slot.start slot=1; item_id=t-7; title=mend the parser
        calm-crow#1 slot.start slot=2; item_id=t-8; title=write the tests that are missing for the importer
        calm-crow#1 slot.start slot=3; item_id=t-9; title=漢字 in names
        calm-crow#1 slot.start slot=4; item_id=
        calm-crow#1 slot.finish slot=4; item_id=; outcome=no_item; reason=nothing is ready
        calm-crow#1 slot.phase slot=1; item_id=t-7; phase=fix; attempt=2
        calm-crow#1 slot.phase slot=2; item_id=t-8; phase=review; attempt=0
        calm-crow#1 slot.finish slot=3; item_id=t-9; outcome=drift; reason=not mended after 5 fixes
        ",
    );
    let lines = vec![
        "test parser::empty_file ... ok",
        "\u{1b}[32mreading\u{1b}[0m src/importer.rs \u{202e}and turning around",
        "not mended after 5 fixes",
        "nothing is ready",
    ];
    Window { lines, left: Some(12), ..Window::of(board) }
}

#[test]
fn slots_in_windows_of_three_sizes() {
    let window = slots();
    assert_snapshot!(window.shown(USUAL), @r"
    |slots calm-crow  running  items from builtin                                    |
    |3 taken, 0 passed, 1 failed, 12 left  iteration 1/4                             |
    |  WHO     PHASE    TIME    WHAT                   LAST LINE                     |
    |> slot 1  FIX 2/5  9m54s   t-7 mend the parser    test parser::empty_file ... ok|
    |  slot 2  REVIEW   9m53s   t-8 write the tests …  reading src/importer.rs and t…|
    |  slot 3  FAILED   5s      t-9 漢字 in names      not mended after 5 fixes      |
    |  slot 4  IDLE     1s                             nothing is ready              |
    (16 empty)
    |q quit  j/k select  Enter output  ? keys                                        |
    ");
    assert_snapshot!(window.shown(SMALL), @r"
    |slots calm-crow  running  items from bui|
    |3 taken, 0 passed, 1 failed, 12 left  it|
    |  WHO     PHASE    TIME    WHAT         |
    |> slot 1  FIX 2/5  9m54s   t-7 mend the…|
    |  slot 2  REVIEW   9m53s   t-8 write th…|
    |  slot 3  FAILED   5s      t-9 漢字 in …|
    |  slot 4  IDLE     1s                   |
    (4 empty)
    |q quit  j/k select  Enter output  ? keys|
    ");
    assert_snapshot!(window.shown(LARGE), @r"
    |slots calm-crow  running  items from builtin                                                                                                                                                            |
    |3 taken, 0 passed, 1 failed, 12 left  iteration 1/4                                                                                                                                                     |
    |  WHO     PHASE    TIME    WHAT                                                   LAST LINE                                                                                                             |
    |> slot 1  FIX 2/5  9m54s   t-7 mend the parser                                    test parser::empty_file ... ok                                                                                        |
    |  slot 2  REVIEW   9m53s   t-8 write the tests that are missing for the importer  reading src/importer.rs and turning around                                                                            |
    |  slot 3  FAILED   5s      t-9 漢字 in names                                      not mended after 5 fixes                                                                                              |
    |  slot 4  IDLE     1s                                                             nothing is ready                                                                                                      |
    (42 empty)
    |q quit  j/k select  Enter output  ? keys                                                                                                                                                                |
    ");
}

#[test]
fn the_end_of_the_output_that_is_picked_fills_what_is_left() {
    let text = (1..30).map(|number| format!("line {number}\n")).collect::<String>();
    let window = Window { output: Some(text), ..slots() };
    assert_snapshot!(window.shown((60, 14)), @r"
    |slots calm-crow  running  items from builtin                |
    |3 taken, 0 passed, 1 failed, 12 left  iteration 1/4         |
    |  WHO     PHASE    TIME    WHAT           LAST LINE         |
    |> slot 1  FIX 2/5  9m54s   t-7 mend the…  test parser::empt…|
    |  slot 2  REVIEW   9m53s   t-8 write th…  reading src/impor…|
    |  slot 3  FAILED   5s      t-9 漢字 in …  not mended after …|
    |  slot 4  IDLE     1s                     nothing is ready  |
    (1 empty)
    |slot 1  FIX 2/5  t-7  .autoloop/runs/otter/iteration-2.out  |
    |line 26                                                     |
    |line 27                                                     |
    |line 28                                                     |
    |line 29                                                     |
    |q quit  j/k select  Enter output  ? keys                    |
    ");
    assert!(!window.shown((60, 12)).contains("line 29"), "too little is nothing");
}

#[test]
fn more_rows_than_there_is_room_for_are_counted() {
    let mut window = slots();
    assert!(
        window
            .shown((60, 7))
            .ends_with("|q quit  j/k select  Enter output  ? keys  1-3 of 4          |\n")
    );
    window.view.picked = 3;
    assert!(window.shown((60, 7)).contains("  2-4 of 4 "));
}

fn a_loop() -> Window {
    let board = board(
        "otter",
        "
        otter loop.start max_iterations=9; objective=write a parser
        otter#2 iteration.start suggested_roles=builder
        ",
    );
    Window { lines: vec!["running the tests"], ..Window::of(board) }
}

#[test]
fn a_loop_in_windows_of_three_sizes() {
    assert_snapshot!(a_loop().shown(USUAL), @r"
    |loop otter  running  write a parser                                             |
    |iteration 2/9                                                                   |
    |  WHO   PHASE    TIME    WHAT     LAST LINE                                     |
    |> loop  RUN 2/9  9m59s   builder  running the tests                             |
    (19 empty)
    |q quit  j/k select  Enter output  ? keys                                        |
    ");
    assert_snapshot!(a_loop().shown(SMALL), @r"
    |loop otter  running  write a parser     |
    |iteration 2/9                           |
    |  WHO   PHASE    TIME    WHAT           |
    |> loop  RUN 2/9  9m59s   builder        |
    (7 empty)
    |q quit  j/k select  Enter output  ? keys|
    ");
    assert_snapshot!(a_loop().shown(LARGE), @r"
    |loop otter  running  write a parser                                                                                                                                                                     |
    |iteration 2/9                                                                                                                                                                                           |
    |  WHO   PHASE    TIME    WHAT     LAST LINE                                                                                                                                                             |
    |> loop  RUN 2/9  9m59s   builder  running the tests                                                                                                                                                     |
    (45 empty)
    |q quit  j/k select  Enter output  ? keys                                                                                                                                                                |
    ");
}

const USAGE: &str = "role=builder; input_tokens=1000; output_tokens=200";

/// A loop in its fourth iteration, whose agents report what they use.
fn a_long_loop(last: &str) -> Window {
    let story = format!(
        "
        otter loop.start max_iterations=9; objective=write a parser
        otter#1 iteration.start suggested_roles=planner
        otter#1 tasks.ready said three of them
        otter#1 backend.usage {USAGE}; total_tokens=41234; cost_usd=0.38
        otter#1 iteration.finish exit_code=0
        otter#2 iteration.start suggested_roles=builder
        otter#2 backend.usage {USAGE}; total_tokens=1200000; cost_usd=12.5; estimated=true
        otter#2 iteration.finish exit_code=0
        otter#3 iteration.start suggested_roles=builder
        otter#3 iteration.finish exit_code=7
        otter#4 iteration.start suggested_roles=builder
        {last}
        "
    );
    let mut usages = Usages::default();
    for line in shorthand::lines(&story) {
        usages.apply(&Glance::read(line.as_bytes()).unwrap());
    }
    let text = (1..30).map(|number| format!("Bash step {number}\n")).collect();
    let lines = vec![
        "Bash step 29",
        "the agent failed (exit code 7)",
        "no event",
        "tasks.ready  three of them",
    ];
    Window { lines, output: Some(text), usages, ..Window::of(board("otter", &story)) }
}

#[test]
fn earlier_iterations_and_their_cost_in_windows_of_three_sizes() {
    let mut window = a_long_loop("");
    assert_snapshot!(window.shown(USUAL), @r"
    |loop otter  running  write a parser                         1.2M tokens, ~$12.88|
    |iteration 4/9                                                                   |
    |  WHO          PHASE    TIME    COST     WHAT     LAST LINE                     |
    |> loop         RUN 4/9  9m50s   ~$12.88  builder  Bash step 29                  |
    |  iteration 3  FAILED   1s               builder  the agent failed (exit code 7)|
    |  iteration 2  DONE     2s      ~$12.50  builder  no event                      |
    |  iteration 1  DONE     3s      $0.38    planner  tasks.ready  three of them    |
    (1 empty)
    |loop  RUN 4/9  builder  .autoloop/runs/otter/iteration-2.out                    |
    |Bash step 16                                                                    |
    |Bash step 17                                                                    |
    |Bash step 18                                                                    |
    |Bash step 19                                                                    |
    |Bash step 20                                                                    |
    |Bash step 21                                                                    |
    |Bash step 22                                                                    |
    |Bash step 23                                                                    |
    |Bash step 24                                                                    |
    |Bash step 25                                                                    |
    |Bash step 26                                                                    |
    |Bash step 27                                                                    |
    |Bash step 28                                                                    |
    |Bash step 29                                                                    |
    |q quit  j/k select  Enter output  ? keys                                        |
    ");
    assert_snapshot!(window.shown((40, 10)), @r"
    |loop otter  running  write a pa  ~$12.88|
    |iteration 4/9                           |
    |  WHO          PHASE    TIME    WHAT    |
    |> loop         RUN 4/9  9m50s   builder |
    |  iteration 3  FAILED   1s      builder |
    |  iteration 2  DONE     2s      builder |
    |  iteration 1  DONE     3s      planner |
    (2 empty)
    |q quit  j/k select  Enter output  ? keys|
    ");
    assert_snapshot!(window.shown((120, 16)), @r"
    |loop otter  running  write a parser                                                                 1.2M tokens, ~$12.88|
    |iteration 4/9                                                                                                           |
    |  WHO          PHASE    TIME    COST     WHAT     LAST LINE                                                             |
    |> loop         RUN 4/9  9m50s   ~$12.88  builder  Bash step 29                                                          |
    |  iteration 3  FAILED   1s               builder  the agent failed (exit code 7)                                        |
    |  iteration 2  DONE     2s      ~$12.50  builder  no event                                                              |
    |  iteration 1  DONE     3s      $0.38    planner  tasks.ready  three of them                                            |
    (1 empty)
    |loop  RUN 4/9  builder  .autoloop/runs/otter/iteration-2.out                                                            |
    |Bash step 24                                                                                                            |
    |Bash step 25                                                                                                            |
    |Bash step 26                                                                                                            |
    |Bash step 27                                                                                                            |
    |Bash step 28                                                                                                            |
    |Bash step 29                                                                                                            |
    |q quit  j/k select  Enter output  ? keys                                                                                |
    ");
    // A row that does not fit is scrolled to.
    window.view.picked = 3;
    assert_snapshot!(window.shown((60, 7)), @r"
    |loop otter  running  write a parser     1.2M tokens, ~$12.88|
    |iteration 4/9                                               |
    |  WHO          PHASE    TIME    COST     WHAT               |
    |  iteration 3  FAILED   1s               builder            |
    |  iteration 2  DONE     2s      ~$12.50  builder            |
    |> iteration 1  DONE     3s      $0.38    planner            |
    |q quit  j/k select  Enter output  ? keys  2-4 of 4          |
    ");
}

#[test]
fn a_run_that_waits_shows_the_time_left() {
    let parked = "otter#4 backend.parked client=claude; class=rate_limit; detail=slow down; until=2026-01-02T03:12:30.000Z";
    let lines = vec!["claude is unavailable (rate_limit): slow down"];
    let window = Window { lines, output: None, ..a_long_loop(parked) };
    assert_snapshot!(window.shown((80, 8)), @r"
    |loop otter  parked, 2m30s left  write a parser              1.2M tokens, ~$12.88|
    |iteration 4/9                                                                   |
    |  WHO          PHASE   TIME    COST     WHAT     LAST LINE                      |
    |> loop         PARKED  2m30s   ~$12.88  builder  claude is unavailable (rate_li…|
    |  iteration 3  FAILED  1s               builder                                 |
    |  iteration 2  DONE    2s      ~$12.50  builder                                 |
    |  iteration 1  DONE    3s      $0.38    planner                                 |
    |q quit  j/k select  Enter output  ? keys                                        |
    ");
}

#[test]
fn a_wave_in_windows_of_three_sizes() {
    let board = board(
        "otter",
        r"
        otter loop.start max_iterations=9; objective=write a parser
        otter#1 iteration.start suggested_roles=planner
        otter#1 iteration.finish exit_code=0
        otter#1 wave.start wave_id=otter-wave-1; objectives=- look at the lexer\n- look at the tests
        otter#1 wave.branch.start wave_id=otter-wave-1; branch_id=branch-1
        otter-wave-1-1 loop.start max_iterations=1; parent=otter
        otter-wave-1-1#1 iteration.start suggested_roles=planner
        ",
    );
    let window = Window { lines: vec!["", "grep -rn token src", ""], ..Window::of(board) };
    assert_snapshot!(window.shown(USUAL), @r"
    |loop otter  running  write a parser                                             |
    |iteration 1/9                                                                   |
    |  WHO          PHASE    TIME    WHAT               LAST LINE                    |
    |> loop         WAVE     9m57s   planner                                         |
    |    branch-1   RUN 1/1  9m54s   look at the lexer  grep -rn token src           |
    |    branch-2   WAIT             look at the tests                               |
    |  iteration 1  DONE     1s      planner                                         |
    (16 empty)
    |q quit  j/k select  Enter output  ? keys                                        |
    ");
    assert_snapshot!(window.shown(SMALL), @r"
    |loop otter  running  write a parser     |
    |iteration 1/9                           |
    |  WHO          PHASE    TIME    WHAT    |
    |> loop         WAVE     9m57s   planner |
    |    branch-1   RUN 1/1  9m54s   look at…|
    |    branch-2   WAIT             look at…|
    |  iteration 1  DONE     1s      planner |
    (4 empty)
    |q quit  j/k select  Enter output  ? keys|
    ");
    assert_snapshot!(window.shown(LARGE), @r"
    |loop otter  running  write a parser                                                                                                                                                                     |
    |iteration 1/9                                                                                                                                                                                           |
    |  WHO          PHASE    TIME    WHAT               LAST LINE                                                                                                                                            |
    |> loop         WAVE     9m57s   planner                                                                                                                                                                 |
    |    branch-1   RUN 1/1  9m54s   look at the lexer  grep -rn token src                                                                                                                                   |
    |    branch-2   WAIT             look at the tests                                                                                                                                                       |
    |  iteration 1  DONE     1s      planner                                                                                                                                                                 |
    (42 empty)
    |q quit  j/k select  Enter output  ? keys                                                                                                                                                                |
    ");
}

#[test]
fn an_old_run_in_windows_of_three_sizes() {
    let board = board(
        "otter",
        "
        otter loop.start max_iterations=1; objective=write a parser
        otter#1 iteration.start suggested_roles=builder
        otter#1 iteration.finish exit_code=7
        otter loop.stop reason=backend_failed
        ",
    );
    let lines = vec!["the agent failed (exit code 7)"];
    let window = Window { lines, status: Status::Failed, ..Window::of(board) };
    assert_snapshot!(window.shown(USUAL), @r"
    |loop otter  failed: backend_failed  write a parser                              |
    |iteration 1/1                                                                   |
    |  WHO          PHASE   TIME    WHAT     LAST LINE                               |
    |> loop         FAILED  3s      builder  the agent failed (exit code 7)          |
    |  iteration 1  FAILED  1s      builder                                          |
    (18 empty)
    |q quit  j/k select  Enter output  ? keys                                        |
    ");
    assert_snapshot!(window.shown(SMALL), @r"
    |loop otter  failed: backend_failed  writ|
    |iteration 1/1                           |
    |  WHO          PHASE   TIME    WHAT     |
    |> loop         FAILED  3s      builder  |
    |  iteration 1  FAILED  1s      builder  |
    (6 empty)
    |q quit  j/k select  Enter output  ? keys|
    ");
    assert_snapshot!(window.shown(LARGE), @r"
    |loop otter  failed: backend_failed  write a parser                                                                                                                                                      |
    |iteration 1/1                                                                                                                                                                                           |
    |  WHO          PHASE   TIME    WHAT     LAST LINE                                                                                                                                                       |
    |> loop         FAILED  3s      builder  the agent failed (exit code 7)                                                                                                                                  |
    |  iteration 1  FAILED  1s      builder                                                                                                                                                                  |
    (44 empty)
    |q quit  j/k select  Enter output  ? keys                                                                                                                                                                |
    ");
}

#[test]
fn an_output_is_scrolled_through() {
    let text: String = (1..=30).map(|n| format!("{n} of 30 \u{1b}[31mlines\u{1b}[0m\n")).collect();
    let mut window = Window { output: Some(text), ..a_loop() };
    window.view.pane = Pane::Output { top: None };
    assert_snapshot!(window.shown(SMALL), @r"
    |loop otter  running  write a parser     |
    |loop  RUN 2/9  builder  .autoloop/runs/o|
    |22 of 30 lines                          |
    |23 of 30 lines                          |
    |24 of 30 lines                          |
    |25 of 30 lines                          |
    |26 of 30 lines                          |
    |27 of 30 lines                          |
    |28 of 30 lines                          |
    |29 of 30 lines                          |
    |30 of 30 lines                          |
    |q back  j/k scroll  (at the end)        |
    ");
    window.view.pane = Pane::Output { top: Some(4) };
    assert_snapshot!(window.shown((40, 5)), @r"
    |loop otter  running  write a parser     |
    |loop  RUN 2/9  builder  .autoloop/runs/o|
    |5 of 30 lines                           |
    |6 of 30 lines                           |
    |q back  j/k scroll  G end               |
    ");
    window.output = Some(String::new());
    assert_snapshot!(window.shown((40, 5)), @r"
    |loop otter  running  write a parser     |
    |loop  RUN 2/9  builder  .autoloop/runs/o|
    |(no output)                             |
    (1 empty)
    |q back  j/k scroll  G end               |
    ");
}

#[test]
fn keys_are_told_and_notices_come_first() {
    let mut window = a_loop();
    window.view.pane = Pane::Help;
    assert_snapshot!(window.shown(SMALL), @r"
    |loop otter  running  write a parser     |
    (1 empty)
    | up, down, j, k  select a row, scroll   |
    | PgUp, PgDn      scroll by a page       |
    | g, G            go to the start, end   |
    | Enter, right    open the output        |
    | q, Esc, left    back, or quit          |
    | Ctrl-C          quit                   |
    | Ctrl-Z          suspend                |
    | Ctrl-L          redraw                 |
    (1 empty)
    |press any key to go back                |
    ");
    window.view.role = Role::Harness;
    let beside = window.shown(SMALL);
    assert!(beside.contains("back, or close view") && beside.contains("stop the run"), "{beside}");
    window.view.pane = Pane::Board;
    window.view.notice = Some(crate::tui::view::CONTINUES);
    assert!(
        window
            .shown(USUAL)
            .contains("the run continues; Ctrl-C stops it; q again closes this view")
    );
}

#[test]
fn a_window_that_is_too_small_says_what_it_needs() {
    assert_snapshot!(slots().shown((19, 10)), @"|needs 20x4         |");
    assert_snapshot!(slots().shown((3, 1)), @"|nee|");
    assert_snapshot!(slots().shown((20, 4)), @r"
    |slots calm-crow  run|
    |> slot 1  FIX 2/5   |
    |  slot 2  REVIEW    |
    |q quit  j/k select  |
    ");
    // No size at all makes it fall over.
    for size in (1..60).flat_map(|width| (1..12).map(move |height| (width, height))) {
        slots().buffer(size);
    }
}

#[test]
fn what_is_picked_can_be_seen_without_colours() {
    let mut window = slots();
    window.view.picked = 3;
    assert_snapshot!(window.shown((40, 5)), @r"
    |slots calm-crow  running  items from bui|
    |  slot 2  REVIEW   9m53s   t-8 write th…|
    |  slot 3  FAILED   5s      t-9 漢字 in …|
    |> slot 4  IDLE     1s                   |
    |q quit  j/k select  Enter output  ? keys|
    ");
}

/// Where the screen cannot be told by its letters, it is told by colours too.
#[test]
fn colours_are_used_only_when_they_are_wanted() {
    let window = slots();
    let coloured = |colours: style::Color| {
        let picture = Picture {
            board: &window.board,
            status: Status::Running,
            progress: String::new(),
            moment: "2026-01-02T03:10:00.000Z".parse().unwrap(),
            usage: None,
            usage_of: &|_| None,
            last_lines: &[],
            output: None,
        };
        let mut buffer = Buffer::empty(Rect::new(0, 0, 80, 24));
        draw(&picture, &window.view, colours, &mut buffer);
        buffer.content.iter().filter(|cell| cell.fg != Color::Reset).count()
    };
    assert_eq!(coloured(style::Color::No), 0);
    assert!(coloured(style::Color::Yes) > 10);
}

/// A squad with a loop in every state, and agents that report what they use.
const SQUAD: &str = "
    crow squad.start spec=# A parser; effort=medium; max_loops=4
    crow squad.task task_id=t1; title=parse the header
    crow squad.task task_id=t2; title=漢字 in names
    crow squad.task task_id=t3; title=print it
    crow squad.task task_id=t4; title=write the manual
    crow squad.group tasks=t1,t2,t3
    crow squad.group tasks=t4
    crow squad.loop loop_id=crow-1; task_id=t1; group=1
    crow squad.loop loop_id=crow-2; task_id=t2; group=1
    crow squad.loop loop_id=crow-3; task_id=t3; group=1
    crow squad.turn turn=1; phase=build; loop_id=crow-1; task_id=t1; attempt=0
    crow squad.turn turn=2; phase=build; loop_id=crow-2; task_id=t2; attempt=0
    crow squad.turn turn=3; phase=build; loop_id=crow-3; task_id=t3; attempt=0
    crow squad.report turn=1; task_id=t1; claim=complete
    crow backend.usage role=build; input_tokens=1000; output_tokens=200; total_tokens=41234; cost_usd=0.38
    crow squad.turn.finish turn=1; loop_id=crow-1; exit_code=0; commit=d; tree=e
    crow squad.review review_id=crow-1; subject=task; loop_id=crow-1; turn=1; verdict=drift
    crow squad.turn turn=4; phase=revise; loop_id=crow-1; task_id=t1; attempt=1
    crow squad.report turn=2; task_id=t2; claim=complete
    crow backend.usage role=build; input_tokens=1000; output_tokens=200; total_tokens=1200; cost_usd=0.02
    crow squad.turn.finish turn=2; loop_id=crow-2; exit_code=0; commit=d; tree=e
    crow squad.turn turn=5; phase=review; subject=task; loop_id=crow-2; task_id=t2; attempt=0
    crow squad.turn.finish turn=3; loop_id=crow-3; exit_code=0; commit=d; tree=e
    crow squad.loop.finish loop_id=crow-3; outcome=stuck; reason=no new state of its files in 3 iterations
";

fn squad() -> Window {
    let mut usages = Usages::default();
    for line in shorthand::lines(SQUAD) {
        usages.apply(&Glance::read(line.as_bytes()).unwrap());
    }
    let lines = vec!["", "", "cargo test", "reading src/names.rs", "", "", ""];
    Window { lines, usages, ..Window::of(board("crow", SQUAD)) }
}

#[test]
fn a_squad_in_windows_of_four_sizes() {
    assert_snapshot!(squad().shown(USUAL), @r"
    |squad crow  running  # A parser                              42.4k tokens, $0.40|
    |0/4 tasks merged, 1 blocked                                                     |
    |  WHO       PHASE     TIME    COST   REVIEW                WHAT                 |
    |> squad     BUILD     9m53s                                group 1 of 2         |
    |  group 1   BUILD     9m53s                                0/3 merged, 1 blocked|
    |    crow-1  REVISE 2  9m43s   $0.38  failed, revision 1/3  t1 parse the header  |
    |    crow-2  REVIEW    9m39s   $0.02                        t2 漢字 in names     |
    |    crow-3  STUCK     14s                                  t3 no new state of i…|
    |  group 2   WAIT                                           0/1 merged           |
    |    t4      WAIT                                           t4 write the manual  |
    |  crow-3    DONE      10s                                  t3 build             |
    |  crow-2    DONE      9s      $0.02                        t2 build             |
    |  crow-1    FAILED    5s      $0.38                        t1 build             |
    (10 empty)
    |q quit  j/k select  Enter output  ? keys                                        |
    ");
    assert_snapshot!(squad().shown((60, 14)), @r"
    |squad crow  running  # A parser          42.4k tokens, $0.40|
    |0/4 tasks merged, 1 blocked                                 |
    |  WHO       PHASE     TIME    WHAT                          |
    |> squad     BUILD     9m53s   group 1 of 2                  |
    |  group 1   BUILD     9m53s   0/3 merged, 1 blocked         |
    |    crow-1  REVISE 2  9m43s   t1 parse the header           |
    |    crow-2  REVIEW    9m39s   t2 漢字 in names              |
    |    crow-3  STUCK     14s     t3 no new state of its files …|
    |  group 2   WAIT              0/1 merged                    |
    |    t4      WAIT              t4 write the manual           |
    |  crow-3    DONE      10s     t3 build                      |
    |  crow-2    DONE      9s      t2 build                      |
    |  crow-1    FAILED    5s      t1 build                      |
    |q quit  j/k select  Enter output  ? keys                    |
    ");
    assert_snapshot!(squad().shown(SMALL), @r"
    |squad crow  running  42.4k tokens, $0.40|
    |0/4 tasks merged, 1 blocked             |
    |  WHO       PHASE     TIME    WHAT      |
    |> squad     BUILD     9m53s   group 1 o…|
    |  group 1   BUILD     9m53s   0/3 merge…|
    |    crow-1  REVISE 2  9m43s   t1 parse …|
    |    crow-2  REVIEW    9m39s   t2 漢字 i…|
    |    crow-3  STUCK     14s     t3 no new…|
    |  group 2   WAIT              0/1 merged|
    |    t4      WAIT              t4 write …|
    |  crow-3    DONE      10s     t3 build  |
    |q quit  j/k select  Enter output  ? keys|
    ");
    assert_snapshot!(squad().shown((150, 16)), @r"
    |squad crow  running  # A parser                                                                                                    42.4k tokens, $0.40|
    |0/4 tasks merged, 1 blocked                                                                                                                           |
    |  WHO       PHASE     TIME    COST   REVIEW                WHAT                                  LAST LINE                                            |
    |> squad     BUILD     9m53s                                group 1 of 2                                                                               |
    |  group 1   BUILD     9m53s                                0/3 merged, 1 blocked                                                                      |
    |    crow-1  REVISE 2  9m43s   $0.38  failed, revision 1/3  t1 parse the header                   cargo test                                           |
    |    crow-2  REVIEW    9m39s   $0.02                        t2 漢字 in names                      reading src/names.rs                                 |
    |    crow-3  STUCK     14s                                  t3 no new state of its files in 3 i…                                                       |
    |  group 2   WAIT                                           0/1 merged                                                                                 |
    |    t4      WAIT                                           t4 write the manual                                                                        |
    |  crow-3    DONE      10s                                  t3 build                                                                                   |
    |  crow-2    DONE      9s      $0.02                        t2 build                                                                                   |
    |  crow-1    FAILED    5s      $0.38                        t1 build                                                                                   |
    (2 empty)
    |q quit  j/k select  Enter output  ? keys                                                                                                              |
    ");
}

#[test]
fn a_loop_that_is_stuck_says_how_it_is_resolved() {
    let mut window = Window { output: Some("one\ntwo\n".to_owned()), ..squad() };
    window.view.picked = 4;
    assert_snapshot!(window.shown((80, 24)), @r#"
    |squad crow  running  # A parser                              42.4k tokens, $0.40|
    |0/4 tasks merged, 1 blocked                                                     |
    |  WHO       PHASE     TIME    COST   REVIEW                WHAT                 |
    |  squad     BUILD     9m53s                                group 1 of 2         |
    |  group 1   BUILD     9m53s                                0/3 merged, 1 blocked|
    |    crow-1  REVISE 2  9m43s   $0.38  failed, revision 1/3  t1 parse the header  |
    |    crow-2  REVIEW    9m39s   $0.02                        t2 漢字 in names     |
    |>   crow-3  STUCK     14s                                  t3 no new state of i…|
    |  group 2   WAIT                                           0/1 merged           |
    |    t4      WAIT                                           t4 write the manual  |
    |  crow-3    DONE      10s                                  t3 build             |
    |  crow-2    DONE      9s      $0.02                        t2 build             |
    |  crow-1    FAILED    5s      $0.38                        t1 build             |
    (1 empty)
    |crow-3  STUCK  t3  .autoloop/runs/otter/iteration-2.out                         |
    |one                                                                             |
    |two                                                                             |
    (1 empty)
    |stuck: no new state of its files in 3 iterations                                |
    |resolve it with `autoloop squad resolve crow-3 --retry|--skip|--accept "reason"`|
    (3 empty)
    |q quit  j/k select  Enter output  ? keys                                        |
    "#);
}

#[test]
fn thirty_loops_are_scrolled() {
    let numbers = 1..=30;
    let tasks = numbers.clone().map(|number| format!("t{number}")).collect::<Vec<_>>();
    let mut story = String::from("crow squad.start spec=x; effort=low\n");
    for task in &tasks {
        story += &format!("crow squad.task task_id={task}; title=task {task}\n");
    }
    story += &format!("crow squad.group tasks={}\n", tasks.join(","));
    for number in numbers {
        story += &format!("crow squad.loop loop_id=crow-{number}; task_id=t{number}; group=1\n");
        story += &format!("crow squad.turn turn={number}; phase=build; loop_id=crow-{number}\n");
    }
    let mut window = Window { lines: vec![], ..Window::of(board("crow", &story)) };
    assert_snapshot!(window.shown((80, 12)), @r"
    |squad crow  running  x                                                          |
    |0/30 tasks merged                                                               |
    |  WHO        PHASE    TIME    WHAT          LAST LINE                           |
    |> squad      BUILD    9m28s   group 1 of 1                                      |
    |  group 1    BUILD    9m28s   0/30 merged                                       |
    |    crow-1   BUILD 1  9m27s   t1 task t1                                        |
    |    crow-2   BUILD 1  9m25s   t2 task t2                                        |
    |    crow-3   BUILD 1  9m23s   t3 task t3                                        |
    |    crow-4   BUILD 1  9m21s   t4 task t4                                        |
    |    crow-5   BUILD 1  9m19s   t5 task t5                                        |
    |    crow-6   BUILD 1  9m17s   t6 task t6                                        |
    |q quit  j/k select  Enter output  ? keys  1-8 of 32                             |
    ");
    window.view.picked = 31;
    assert_snapshot!(window.shown((80, 12)), @r"
    |squad crow  running  x                                                          |
    |0/30 tasks merged                                                               |
    |  WHO        PHASE    TIME    WHAT          LAST LINE                           |
    |    crow-23  BUILD 1  8m43s   t23 task t23                                      |
    |    crow-24  BUILD 1  8m41s   t24 task t24                                      |
    |    crow-25  BUILD 1  8m39s   t25 task t25                                      |
    |    crow-26  BUILD 1  8m37s   t26 task t26                                      |
    |    crow-27  BUILD 1  8m35s   t27 task t27                                      |
    |    crow-28  BUILD 1  8m33s   t28 task t28                                      |
    |    crow-29  BUILD 1  8m31s   t29 task t29                                      |
    |>   crow-30  BUILD 1  8m29s   t30 task t30                                      |
    |q quit  j/k select  Enter output  ? keys  25-32 of 32                           |
    ");
}
