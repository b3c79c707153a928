//! The simulated disk against the real one: the same calls must have the same answers.
#![cfg(target_os = "linux")]

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use autoloop_runtime::world::{Access, Disk, DiskFile, FileKind, RealDisk};
use autoloop_testkit::{Dice, SimClock, SimDisk, simulate};

/// Names that are files, directories, links of all sorts, a pipe, or nothing at all.
const NAMES: [&str; 22] = [
    "f",
    "g",
    "new",
    "dir",
    "dir/f",
    "dir/new",
    "dir/sub",
    "dir/sub/f",
    "missing/f",
    "f/x",
    "f/..",
    "to-f",
    "to-f/x",
    "to-dir",
    "to-dir/f",
    "to-dir/sub/f",
    "to-nothing",
    "round",
    "pipe",
    "dir/back",
    "chain-40",
    "chain-41",
];

#[test]
fn the_simulated_disk_answers_like_the_real_one() {
    simulate("like linux", 60, |_, dice| {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let sim = SimDisk::new(SimClock::default());
        prepare(&root, &sim).unwrap();
        let (mut real_files, mut sim_files) = (Vec::new(), Vec::new());
        for _ in 0..60 {
            if dice.chance(1, 2) {
                let call = NameCall::any(dice, &root);
                let real = call.on(&RealDisk, &mut real_files);
                assert_eq!(call.on(&sim, &mut sim_files), real, "{call:?}");
            } else if !real_files.is_empty() {
                let index = dice.index(real_files.len());
                let call = FileCall::any(dice);
                let real = call.on(&*real_files[index]);
                assert_eq!(call.on(&*sim_files[index]), real, "{call:?} on file {index}");
                if dice.chance(1, 5) {
                    real_files.remove(index);
                    sim_files.remove(index);
                }
            }
        }
    });
}

fn prepare(root: &Path, sim: &SimDisk) -> io::Result<()> {
    let at = |name: &str| root.join(name);
    sim.plant_dir(root);
    for dir in ["dir", "dir/sub"] {
        fs::create_dir(at(dir))?;
        sim.plant_dir(at(dir));
    }
    for file in ["f", "dir/f", "dir/sub/f"] {
        fs::write(at(file), file)?;
        sim.set_contents(at(file), file.as_bytes());
    }
    fs::hard_link(at("f"), at("g"))?;
    sim.plant_hard_link(at("g"), at("f"));
    let link = |name: &str, target: &Path| {
        sim.plant_symlink(at(name), target);
        symlink(target, at(name))
    };
    link("to-f", Path::new("dir/../f"))?;
    link("to-dir", Path::new("dir"))?;
    link("to-nothing", Path::new("nil"))?;
    link("round", Path::new("round"))?;
    link("dir/back", &at("f"))?;
    link("chain-1", Path::new("f"))?;
    for length in 2..=41 {
        link(&format!("chain-{length}"), &at(&format!("chain-{}", length - 1)))?;
    }
    assert!(Command::new("mkfifo").arg(at("pipe")).status()?.success());
    sim.plant_special(at("pipe"));
    Ok(())
}

/// What a call came to, without what may differ between two disks.
type Answer = Result<String, Option<i32>>;

fn answer<T>(result: io::Result<T>, print: impl FnOnce(T) -> String) -> Answer {
    result.map(print).map_err(|error| error.raw_os_error())
}

fn print_stat(stat: autoloop_runtime::world::FileStat) -> String {
    match stat.kind {
        // Each file system has its own idea of the size of a directory.
        FileKind::Directory => "directory".to_owned(),
        kind => format!("{kind:?} of {} bytes with {} names", stat.len, stat.links),
    }
}

#[derive(Debug)]
enum NameCall {
    Open(PathBuf, Access),
    Stat(PathBuf),
    CreateDir(PathBuf),
    SyncDir(PathBuf),
    Replace(PathBuf, Vec<u8>),
    List(PathBuf),
    RenameNew(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl NameCall {
    fn any(dice: &mut Dice, root: &Path) -> Self {
        let path = root.join(dice.pick(&NAMES));
        match dice.below(11) {
            0 => NameCall::Open(path, Access::Read),
            1 => NameCall::Open(path, Access::ReadNoFollow),
            2..=3 => NameCall::Open(path, Access::Append),
            4 => NameCall::CreateDir(path),
            // The real one would wait until the other end of a pipe is opened.
            5 if !path.ends_with("pipe") => NameCall::SyncDir(path),
            6 => NameCall::Replace(path, dice.bytes(5)),
            7 => NameCall::List(path),
            // A directory is never moved.
            8 if !path.ends_with("dir") && !path.ends_with("sub") && !path.ends_with("new") => {
                NameCall::RenameNew(path, root.join(dice.pick(&NAMES)))
            }
            9 => NameCall::Remove(path),
            _ => NameCall::Stat(path),
        }
    }

    fn on(&self, disk: &dyn Disk, files: &mut Vec<Box<dyn DiskFile>>) -> Answer {
        match self {
            NameCall::Open(path, access) => answer(disk.open(path, *access), |file| {
                files.push(file);
                String::new()
            }),
            NameCall::Stat(path) => answer(disk.stat(path), print_stat),
            NameCall::CreateDir(path) => answer(disk.create_dir(path), |()| String::new()),
            NameCall::SyncDir(path) => answer(disk.sync_dir(path), |()| String::new()),
            NameCall::Replace(path, bytes) => answer(disk.replace(path, bytes), |()| String::new()),
            NameCall::List(path) => answer(disk.list(path), |mut names| {
                names.sort_unstable();
                format!("{names:?}")
            }),
            NameCall::RenameNew(from, to) => answer(disk.rename_new(from, to), |()| String::new()),
            NameCall::Remove(path) => answer(disk.remove(path), |()| String::new()),
        }
    }
}

#[derive(Debug)]
enum FileCall {
    Stat,
    TryLock,
    Unlock,
    Read { len: usize, offset: u64 },
    Append(Vec<u8>),
    Cut(u64),
    Sync,
}

impl FileCall {
    fn any(dice: &mut Dice) -> Self {
        match dice.below(7) {
            0 => FileCall::Stat,
            1 => FileCall::TryLock,
            2 => FileCall::Unlock,
            3 => FileCall::Read { len: dice.index(20), offset: dice.below(20) },
            4 => {
                let len = dice.index(8);
                FileCall::Append(dice.bytes(len))
            }
            5 => FileCall::Cut(dice.below(15)),
            _ => FileCall::Sync,
        }
    }

    fn on(&self, file: &dyn DiskFile) -> Answer {
        match self {
            FileCall::Stat => answer(file.stat(), print_stat),
            FileCall::TryLock => answer(file.try_lock(), |got| got.to_string()),
            FileCall::Unlock => answer(file.unlock(), |()| String::new()),
            FileCall::Read { len, offset } => {
                let mut buffer = vec![0; *len];
                let count = file.read_at(&mut buffer, *offset);
                answer(count, |count| format!("{:?}", &buffer[..count]))
            }
            FileCall::Append(bytes) => answer(file.append(bytes), |count| count.to_string()),
            FileCall::Cut(len) => answer(file.cut(*len), |()| String::new()),
            FileCall::Sync => answer(file.sync(), |()| String::new()),
        }
    }
}
