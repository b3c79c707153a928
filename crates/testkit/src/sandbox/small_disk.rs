//! Small disks that fill up.

use std::fs;
use std::process::Command;

use super::Sandbox;

/// Mounts a disk of the given size as `small`, in a namespace that ends with the process.
const ON_A_SMALL_DISK: &str =
    "mkdir small && mount -t tmpfs -o size=\"$1\" tmpfs small && shift && exec \"$@\"";

impl Sandbox {
    /// Has this test binary play a part where `small` is a disk of this size, as in `20m`; `None` where no
    /// disk may be mounted.
    pub fn play_on_small_disk(&self, part: &str, size: &str) -> Option<Command> {
        let in_namespace = |options: &[&str]| {
            let mut unshare = self.at_home("unshare");
            unshare.args(options).args(["sh", "-c", ON_A_SMALL_DISK, "sh", size]);
            unshare
        };
        // The superuser needs no user namespace; most systems give one to other users.
        let options = [&["--mount"][..], &["--mount", "--map-root-user"]];
        let works = |options: &&&[&str]| {
            let probe = in_namespace(options).arg("true").output();
            let _ = fs::remove_dir(self.path("small"));
            probe.is_ok_and(|output| output.status.success())
        };
        let ours = self.play(part);
        let mut command = in_namespace(options.iter().find(works)?);
        command.arg(ours.get_program()).args(ours.get_args());
        command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Some(command)
    }
}
