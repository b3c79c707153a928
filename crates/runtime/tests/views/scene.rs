//! Journals that others wrote to as well, and the views over them.

use super::*;

pub(crate) fn journal(disk: &SimDisk) -> FileJournal {
    let world = World { disk: Arc::new(disk.clone()), ..SimWorld::new(Seed(0)).world() };
    FileJournal::new(PATH, &world, FileSettings::default())
}

pub(crate) fn holding(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(SimClock::default());
    disk.set_contents(PATH, bytes);
    disk
}

pub(crate) fn record(run: &str, topic: &str, body: Body) -> Record {
    Record {
        run: run.into(),
        iteration: "1".into(),
        topic: Topic::new(topic),
        body,
        ts: None,
        version: None,
        seal: None,
        extra: Object::new(),
    }
}

pub(crate) fn system(run: &str, topic: &str, fields: &[(&str, &str)]) -> Record {
    let fields = fields
        .iter()
        .map(|(key, value)| ((*key).to_owned(), Value::Text((*value).to_owned())))
        .collect();
    record(run, topic, Body::System(fields))
}

pub(crate) fn said(payload: &str) -> Record {
    let body = Body::Agent { payload: payload.into(), source: "agent".into() };
    record("r", "review.ready", body)
}

pub(crate) fn line_of(record: &Record) -> Vec<u8> {
    let mut line = Vec::new();
    print(record, &mut line);
    line
}

pub(crate) fn lines_of(records: &[Record]) -> Vec<u8> {
    records.iter().flat_map(line_of).collect()
}

/// A record of the sort that the views look at, of few runs and iterations so that they meet.
pub(crate) fn viewed_record(dice: &mut Dice) -> Record {
    let run = *dice.pick(&["one", "two", "", "drei ü\n"]);
    let mut new = match dice.below(8) {
        0 => system(run, "loop.start", &[("objective", "x")]),
        1 | 2 => system(run, "iteration.start", &[("suggested_roles", "builder")]),
        3 => {
            let code = *dice.pick(&["0", "1", "-1", "no number", "99999999999"]);
            let elapsed = *dice.pick(&["4", "18446744073709551615", "18446744073709551614", "x"]);
            let out = *dice.pick(&["true", "false", "perhaps"]);
            let fields = [("exit_code", code), ("elapsed_s", elapsed), ("timed_out", out)];
            system(run, "iteration.finish", &fields)
        }
        4 => system(run, "event.invalid", &[]),
        5 => {
            let topic = *dice.pick(&["loop.stop", "loop.complete"]);
            system(run, topic, &[("reason", "why, \"so\"")])
        }
        6 => autoloop_testkit::records::record(dice),
        _ => {
            let topic =
                *dice.pick(&["tasks.ready", "review.ready", "loop.start", "slice.verified"]);
            record(run, topic, Body::Agent { payload: text(dice), source: "agent".into() })
        }
    };
    new.iteration = dice.below(3).to_string();
    new.extra.retain(|(key, _)| key != "iteration");
    new
}

/// Folds records that are known to have been written.
pub(crate) fn folded<V: View>(records: &[Record]) -> V {
    let mut view = V::default();
    for record in records {
        let line = line_of(record);
        view.apply(&Glance::read(&line[..line.len() - 1]).unwrap());
    }
    view
}

/// Folds all whole lines, in the simplest way.
pub(crate) fn from_scratch<V: View>(bytes: &[u8]) -> V {
    let mut view = V::default();
    let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    for line in bytes[..end].split(|&byte| byte == b'\n') {
        for piece in pieces(line) {
            if let Ok(record) = &piece.content {
                view.apply(record);
            }
        }
    }
    view
}

/// Continues where it stopped.
pub(crate) fn fold_on<V: View>(journal: &FileJournal, kept: &mut Kept<V>) {
    let Kept { view, position } = kept;
    let end = journal.read(*position, &mut |line| {
        line.records(|record| view.apply(record));
        ControlFlow::Continue(())
    });
    *position = end.unwrap();
}

/// Another writer of the file.
pub(crate) struct Foreign<'a> {
    pub(crate) disk: &'a SimDisk,
    pub(crate) records: Vec<Record>,
}

impl Foreign<'_> {
    pub(crate) fn is_torn(&self) -> bool {
        self.disk.exists(PATH) && !matches!(self.disk.contents(PATH).last(), None | Some(b'\n'))
    }

    pub(crate) fn write(&mut self, dice: &mut Dice) {
        let new = viewed_record(dice);
        let line = line_of(&new);
        let body = &line[..line.len() - 1];
        match dice.below(9) {
            0 => self.raw(b"no JSON at all\n"),
            1 => self.raw(b"\n \r\n"),
            2 => self.raw(b"\0\0\0\xff\xfe\n"),
            3 => self.raw(b"{\"topic\": \"loop.start\", \"run\": 3}\n"),
            4 => self.raw(&body[..dice.index(body.len())]),
            // Glued to a fragment it is found again, because it is written in our form.
            5 => self.own(&[body, b"\r\n"].concat(), new),
            6 => self.own(&line, new),
            // Another form is only found on a line of its own.
            _ if self.is_torn() => self.raw(b"\n"),
            7 => self.own(&[b"\xef\xbb\xbf", body, b"\n"].concat(), new),
            _ => {
                let value: serde_json::Value = serde_json::from_slice(body).unwrap();
                self.own(format!("{value}\n").as_bytes(), new);
            }
        }
    }

    pub(crate) fn raw(&self, bytes: &[u8]) {
        self.disk.write_raw(PATH, bytes);
    }

    pub(crate) fn own(&mut self, bytes: &[u8], record: Record) {
        self.raw(bytes);
        self.records.push(record);
    }
}
