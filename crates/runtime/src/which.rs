//! Finds the file of a program as the system finds it when it starts the program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    At(PathBuf),
    /// Here, and it may not be executed.
    NotExecutable(PathBuf),
    Nowhere,
}

/// Looks for a program: a path from the directory that it is started in, a name on `PATH`.
pub fn find(command: &OsStr, path: &OsStr, dir: &Path) -> Found {
    if command.is_empty() {
        return Found::Nowhere;
    }
    let places: Vec<PathBuf> = match command.as_encoded_bytes().contains(&b'/') {
        true => vec![within(dir, command)],
        false => std::env::split_paths(path).map(|place| dir.join(place).join(command)).collect(),
    };
    let files: Vec<PathBuf> = places.into_iter().filter(|file| file.is_file()).collect();
    let executable = files.iter().find(|file| access(*file, Access::EXEC_OK).is_ok());
    match (executable, files.first()) {
        (Some(file), _) => Found::At(file.clone()),
        (None, Some(file)) => Found::NotExecutable(file.clone()),
        (None, None) => Found::Nowhere,
    }
}

/// A file in a directory, named as a person would.
pub fn within(dir: &Path, name: impl AsRef<Path>) -> PathBuf {
    if dir == Path::new(".") { name.as_ref().to_owned() } else { dir.join(name) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_program_is_found_as_it_would_be_started() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, mode: u32| {
            let file = dir.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            file
        };
        let (plain, good) = (write("one/agent", 0o644), write("two/agent", 0o755));
        write("own.sh", 0o755);
        let path = std::env::join_paths([dir.path().join("one"), "two".into()]).unwrap();
        let find = |command: &str| find(OsStr::new(command), &path, dir.path());
        assert_eq!(find("agent"), Found::At(good));
        assert_eq!(find("one/agent"), Found::NotExecutable(plain));
        assert_eq!(find("./own.sh"), Found::At(dir.path().join("./own.sh")));
        assert_eq!(find("own.sh"), Found::Nowhere, "a name is looked for on PATH alone");
        assert_eq!(find(""), Found::Nowhere);
        assert_eq!(find("two"), Found::Nowhere);
    }
}
