//! Names of branches.

/// A name for a branch of ours, made of parts that may be any text: no part becomes several, and the
/// name is one that git takes. What had to be changed is told apart by a checksum.
pub fn branch_name(parts: &[&str]) -> String {
    let parts = parts.iter().map(|part| plain(part));
    ["autoloop".to_owned()].into_iter().chain(parts).collect::<Vec<_>>().join("/")
}

pub(super) fn plain(part: &str) -> String {
    const LONGEST: usize = 80;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name: String =
        part.chars().take(LONGEST).map(|c| if is_plain(c) { c } else { '-' }).collect();
    let name = name.trim_start_matches('-');
    match name == part && !name.is_empty() {
        true => name.to_owned(),
        false => format!(
            "{name}{}{:08x}",
            if name.is_empty() { "" } else { "-" },
            crc32fast::hash(part.as_bytes())
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_stay_parts() {
        assert_eq!(
            branch_name(&["swift-otter-wave-1", "branch-2"]),
            "autoloop/swift-otter-wave-1/branch-2"
        );
        assert_eq!(branch_name(&["a.lock"]), "autoloop/a-lock-aa50a82b");
        assert_ne!(branch_name(&["a.b"]), branch_name(&["a-b"]));
        assert_ne!(branch_name(&["a.b"]), branch_name(&["a@b"]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn git_takes_every_name(first in ".{0,90}", second in "[-.@{/~^:a]{0,9}") {
            let name = branch_name(&[&first, &second]);
            prop_assert_eq!(name.matches('/').count(), 2);
            let checked = Command::new("git").args(["check-ref-format", "--branch", &name]).output();
            prop_assert!(checked.unwrap().status.success(), "{name}");
        }
    }
}
