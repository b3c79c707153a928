//! `plan.toml`: the tasks and groups of a squad, written by the user.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::Task;
use crate::queue::Refusal;
use crate::suggest::suggest;
use crate::toml_file::{Invalid, TomlFile};

/// A plan of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenPlan {
    pub tasks: Vec<Task>,
    /// The ids of tasks, group by group.
    pub groups: Vec<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PlanFile {
    task: Vec<TaskTable>,
    group: Vec<GroupTable>,
}

#[derive(Deserialize)]
#[serde(expecting = "a table: [[task]]")]
struct TaskTable {
    id: Spanned<String>,
    title: String,
    #[serde(default)]
    description: String,
    acceptance: Option<String>,
    /// The tasks that have to be merged before it.
    #[serde(default)]
    after: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(expecting = "a table: [[group]]")]
struct GroupTable {
    tasks: Spanned<Vec<Spanned<String>>>,
}

impl GivenPlan {
    /// Reads a plan in which every task is in exactly one group. An unknown key is a mistake: a plan runs for hours.
    pub fn read(text: &str) -> Result<GivenPlan, Invalid> {
        let file = TomlFile::parse(text)?;
        let tables: &[(&str, &[&str])] = &[
            ("", &["task", "group"]),
            ("task", &["id", "title", "description", "acceptance", "after"]),
            ("group", &["tasks"]),
        ];
        let (plan, unknown): (PlanFile, _) = file.read(tables)?;
        if let Some(key) = unknown.first() {
            let message = format!("{key}; {}", key.advice());
            return Err(Invalid { span: key.span.clone(), message });
        }
        plan.check()
    }
}

impl PlanFile {
    fn check(self) -> Result<GivenPlan, Invalid> {
        let whole = |message: &str| Err(Invalid { span: 0..0, message: message.to_owned() });
        if self.task.is_empty() {
            return whole("the plan has no task: expected a table [[task]] for each");
        }
        if self.group.is_empty() {
            return whole("the plan has no group: expected [[group]] with tasks = [\"…\"]");
        }
        let invalid = |at: &Spanned<String>, message: String| Invalid { span: at.span(), message };
        let mut ids: Vec<&str> = Vec::new();
        for TaskTable { id, title, description, acceptance, .. } in &self.task {
            let checked =
                Refusal::of_task(id.get_ref(), title, Some(description), acceptance.as_deref());
            checked.map_err(|refusal| invalid(id, refusal.to_string()))?;
            if ids.contains(&id.get_ref().as_str()) {
                return Err(invalid(id, format!("two tasks have the id '{}'", id.get_ref())));
            }
            ids.push(id.get_ref());
        }
        let known = |at: &Spanned<String>| {
            if ids.contains(&at.get_ref().as_str()) {
                return Ok(());
            }
            let meant = suggest(at.get_ref(), ids.iter().copied());
            let meant = meant.map(|id| format!("; did you mean '{id}'?")).unwrap_or_default();
            let id = at.get_ref().escape_debug();
            Err(invalid(at, format!("unknown task '{id}': no [[task]] has this id{meant}")))
        };
        let mut group_of: BTreeMap<&str, usize> = BTreeMap::new();
        for (number, group) in (1..).zip(&self.group) {
            if group.tasks.get_ref().is_empty() {
                let message = format!("group {number} has no task");
                return Err(Invalid { span: group.tasks.span(), message });
            }
            for task in group.tasks.get_ref() {
                known(task)?;
                if let Some(first) = group_of.insert(task.get_ref(), number) {
                    let id = task.get_ref();
                    return Err(invalid(
                        task,
                        format!("task '{id}' is in group {first} and again in group {number}"),
                    ));
                }
            }
        }
        for task in &self.task {
            task.after.iter().try_for_each(known)?;
        }
        if let Some((at, way)) = self.cycle() {
            return Err(invalid(at, format!("the tasks depend on each other in a cycle: {way}")));
        }
        for task in &self.task {
            let id = task.id.get_ref().as_str();
            let Some(group) = group_of.get(id) else {
                return Err(invalid(&task.id, format!("no group has task '{id}'")));
            };
            for before in &task.after {
                let other = before.get_ref().as_str();
                if group_of.get(other).is_some_and(|of| of >= group) {
                    return Err(invalid(
                        before,
                        format!("task '{id}' is in group {group}, which is not after '{other}'"),
                    ));
                }
            }
        }
        let tasks = self.task.into_iter().map(|task| Task {
            id: task.id.into_inner(),
            title: task.title,
            description: task.description,
            acceptance: task.acceptance.filter(|text| !text.trim().is_empty()),
        });
        let groups = self
            .group
            .into_iter()
            .map(|group| group.tasks.into_inner().into_iter().map(Spanned::into_inner).collect());
        Ok(GivenPlan { tasks: tasks.collect(), groups: groups.collect() })
    }

    /// A dependency that closes a cycle, and the way around it.
    fn cycle(&self) -> Option<(&Spanned<String>, String)> {
        let after = |id: &str| {
            let task = self.task.iter().find(|task| task.id.get_ref() == id);
            task.map(|task| task.after.as_slice()).unwrap_or_default()
        };
        self.task.iter().find_map(|task| {
            let start = task.id.get_ref().as_str();
            let mut seen = vec![start];
            let mut open: Vec<Vec<&Spanned<String>>> =
                after(start).iter().map(|next| vec![next]).collect();
            while let Some(way) = open.pop() {
                let last = way.last()?;
                if last.get_ref() == start {
                    let names = way.iter().map(|step| step.get_ref().as_str());
                    let names: Vec<&str> = [start].into_iter().chain(names).collect();
                    return Some((*last, names.join(" after ")));
                }
                if !seen.contains(&last.get_ref().as_str()) {
                    seen.push(last.get_ref());
                    let longer = |next| way.iter().copied().chain([next]).collect();
                    open.extend(after(last.get_ref()).iter().map(longer));
                }
            }
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        GivenPlan::read(text).unwrap_err().to_string()
    }

    fn task(id: &str, more: &str) -> String {
        format!("[[task]]\nid = '{id}'\ntitle = 'do {id}'\n{more}\n")
    }

    #[test]
    fn a_plan_is_read() {
        let text = task("t1", "description = 'd'\nacceptance = 'a'")
            + &task("t2", "after = ['t1']")
            + "[[group]]\ntasks = ['t1']\n[[group]]\ntasks = ['t2']\n";
        let plan = GivenPlan::read(&text).unwrap();
        assert_eq!(plan.groups, [["t1"], ["t2"]]);
        let task = |id: &str, description: &str, acceptance: Option<&str>| Task {
            id: id.to_owned(),
            title: format!("do {id}"),
            description: description.to_owned(),
            acceptance: acceptance.map(str::to_owned),
        };
        assert_eq!(plan.tasks, [task("t1", "d", Some("a")), task("t2", "", None)]);
    }

    #[test]
    fn a_plan_that_cannot_be_built_is_refused_with_the_reason() {
        let two = task("t1", "") + &task("t2", "");
        let group = |ids: &str| format!("[[group]]\ntasks = [{ids}]\n");
        let texts = [
            String::new(),
            two.clone(),
            task("a,b", "") + &group("'a,b'"),
            task("t1", "") + &two + &group("'t1'"),
            two.clone() + &group(""),
            two.clone() + &group("'t1', 'tt2'"),
            two.clone() + &group("'t1'"),
            two.clone() + &group("'t1', 't2'") + &group("'t1'"),
            two.clone() + &group("'t1', 't2'") + "x = 1\n",
            two + &group("'t1', 't2'") + "task = 1\n",
            task("t1", "after = ['t2']") + &task("t2", "after = ['t1']") + &group("'t1', 't2'"),
            task("t1", "") + &task("t2", "after = ['t1']") + &group("'t1', 't2'"),
            task("t1", "after = ['t9']") + &group("'t1'"),
            task("t1", "after = ['t1']") + &group("'t1'"),
            "[[task]]\nid = 't1'\n".to_owned(),
            "task = 1".to_owned(),
        ];
        insta::assert_snapshot!(texts.map(|text| refusal(&text)).join("\n"), @r#"
        the plan has no task: expected a table [[task]] for each
        the plan has no group: expected [[group]] with tasks = ["…"]
        invalid task id 'a,b': expected one word of at most 200 bytes
        two tasks have the id 't1'
        group 1 has no task
        unknown task 'tt2': no [[task]] has this id; did you mean 't2'?
        no group has task 't2'
        task 't1' is in group 1 and again in group 2
        unknown key group.x; no such key
        unknown key group.task; did you mean tasks?
        the tasks depend on each other in a cycle: t1 after t2 after t1
        task 't2' is in group 1, which is not after 't1'
        unknown task 't9': no [[task]] has this id; did you mean 't1'?
        the tasks depend on each other in a cycle: t1 after t1
        missing field `title`, in `task`
        invalid type: integer `1`, expected a sequence, in `task`
        "#);
    }
}
