//! What the kernel offers to bind agents with.

use std::fs;

use autoloop_core::config::Sandbox;
use autoloop_runtime::project::Loaded;
use autoloop_runtime::sandbox::{Support, probe};

use super::finding::Finding;

/// Looks at the kernel's sandboxes.
pub(super) fn check(loaded: Option<&Loaded>) -> Vec<Finding> {
    let review = loaded.and_then(|loaded| loaded.plan.review.as_ref());
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse().ok();
    vec![
        sandbox(probe(), review.map(|review| review.sandbox)),
        namespaces(&Limits {
            most: number("/proc/sys/user/max_user_namespaces"),
            clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            apparmor: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        }),
    ]
}

fn sandbox(support: Support, wanted: Option<Sandbox>) -> Finding {
    const NAME: &str = "sandbox";
    let advice =
        "use Linux 5.13 or later with `landlock` in the kernel's list of security modules (lsm=)";
    match (support, wanted) {
        (Support::Landlock { abi }, _) => {
            Finding::ok(NAME, format!("Landlock, version {abi} of its interface"))
        }
        (Support::None(why), Some(Sandbox::Required)) => Finding::problem(
            NAME,
            format!("review.sandbox is \"required\", and there is none: {why}"),
            format!("{advice}, or set review.sandbox to \"auto\""),
        ),
        (Support::None(why), _) => Finding::warning(
            NAME,
            format!(
                "there is none ({why}): what a metareview may not change is put back afterwards"
            ),
            advice,
        ),
    }
}

/// What the kernel says about user namespaces; `None` for what it does not say.
struct Limits {
    most: Option<u64>,
    clone: Option<u64>,
    apparmor: Option<u64>,
}

fn namespaces(limits: &Limits) -> Finding {
    const NAME: &str = "namespaces";
    let refused = match limits {
        Limits { most: None, .. } => {
            return Finding::ok(NAME, "this kernel says nothing about user namespaces");
        }
        Limits { most: Some(0), .. } => "user.max_user_namespaces",
        Limits { clone: Some(0), .. } => "kernel.unprivileged_userns_clone",
        Limits { apparmor: Some(1..), .. } => "kernel.apparmor_restrict_unprivileged_userns",
        Limits { most: Some(_), .. } => {
            return Finding::ok(NAME, "users may make namespaces, as sandboxes of agents do");
        }
    };
    Finding::warning(
        NAME,
        format!(
            "{refused} keeps users from making namespaces; agents with a sandbox of their own may refuse to work"
        ),
        format!(
            "change it with `sysctl {refused}` if your agent asks for it; autoloop does without"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::report;
    use super::*;

    #[test]
    fn a_sandbox_that_is_missing_is_a_problem_only_where_it_is_required() {
        let none = Support::None("the kernel has no Landlock");
        let findings = [
            sandbox(Support::Landlock { abi: 4 }, Some(Sandbox::Required)),
            sandbox(none, Some(Sandbox::Auto)),
            sandbox(none, Some(Sandbox::Required)),
        ];
        insta::assert_snapshot!(report(&findings, crate::style::Color::No), @r#"
        ok       sandbox  Landlock, version 4 of its interface
        warning  sandbox  there is none (the kernel has no Landlock): what a metareview may not change is put back afterwards
                          -> use Linux 5.13 or later with `landlock` in the kernel's list of security modules (lsm=)
        problem  sandbox  review.sandbox is "required", and there is none: the kernel has no Landlock
                          -> use Linux 5.13 or later with `landlock` in the kernel's list of security modules (lsm=), or set review.sandbox to "auto"
        "#);
    }

    #[test]
    fn each_way_to_forbid_namespaces_is_named() {
        let told = |most, clone, apparmor| namespaces(&Limits { most, clone, apparmor }).found;
        assert!(told(Some(0), None, None).starts_with("user.max_user_namespaces"));
        assert!(told(Some(9), Some(0), None).starts_with("kernel.unprivileged_userns_clone"));
        assert!(told(Some(9), Some(1), Some(1)).starts_with("kernel.apparmor"));
        assert!(told(Some(9), Some(1), Some(0)).starts_with("users may"));
        assert!(told(None, None, None).starts_with("this kernel says nothing"));
    }
}
