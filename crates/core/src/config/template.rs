//! Placeholders in prompts: `{{STATE_DIR}}` and its like.
//!
//! Only capitals in double braces are taken for one. A placeholder that is not known stays as it is:
//! prompts talk about all sorts of templates, and what an agent reads literally does no harm.

use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filled {
    pub text: String,
    pub unknown: Vec<UnknownPlaceholder>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPlaceholder {
    pub name: String,
    /// In the original text.
    pub span: Range<usize>,
}

/// Replaces placeholders. Inserted values are not searched for placeholders.
pub fn fill(text: &str, values: &[(&str, &str)]) -> Filled {
    let mut filled = Filled { text: String::with_capacity(text.len()), unknown: Vec::new() };
    let mut done = 0;
    while let Some(open) = text[done..].find("{{").map(|at| done + at) {
        let Some(name) = name_at(&text[open + 2..]) else {
            // One brace further: in `{{{X}}` the placeholder begins at the second.
            filled.text.push_str(&text[done..=open]);
            done = open + 1;
            continue;
        };
        let close = open + 2 + name.len() + 2;
        filled.text.push_str(&text[done..open]);
        match values.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => filled.text.push_str(value),
            None => {
                filled.text.push_str(&text[open..close]);
                let name = name.to_owned();
                filled.unknown.push(UnknownPlaceholder { name, span: open..close });
            }
        }
        done = close;
    }
    filled.text.push_str(&text[done..]);
    filled
}

fn name_at(text: &str) -> Option<&str> {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let name = &text[..text.find(|c| !is_name(c))?];
    (!name.is_empty() && text[name.len()..].starts_with("}}")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VALUES: [(&str, &str); 2] =
        [("STATE_DIR", "/p/.autoloop"), ("TOOL_PATH", "{{STATE_DIR}}/x")];

    #[test]
    fn fills_in_what_is_known() {
        for (text, filled) in [
            ("", ""),
            ("see {{STATE_DIR}}/plan.md", "see /p/.autoloop/plan.md"),
            ("{{STATE_DIR}}{{STATE_DIR}}", "/p/.autoloop/p/.autoloop"),
            ("{{{STATE_DIR}}}", "{/p/.autoloop}"),
            // What is filled in is not looked at again.
            ("{{TOOL_PATH}}", "{{STATE_DIR}}/x"),
            // None of ours.
            (
                "{{ name }} {{state_dir}} {{STATE DIR}} {{}} {{STATE_DIR} {{STATE_DIR",
                "{{ name }} {{state_dir}} {{STATE DIR}} {{}} {{STATE_DIR} {{STATE_DIR",
            ),
            ("raw .autoloop/context.md", "raw .autoloop/context.md"),
        ] {
            assert_eq!(
                fill(text, &VALUES),
                Filled { text: filled.to_owned(), unknown: vec![] },
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_unknown_stays_and_is_told() {
        let text = "é {{STATEDIR}} and {{STATE_DIR}}";
        let filled = fill(text, &VALUES);
        assert_eq!(filled.text, "é {{STATEDIR}} and /p/.autoloop");
        let [unknown] = &filled.unknown[..] else { panic!("one: {filled:?}") };
        assert_eq!((&unknown.name[..], &text[unknown.span.clone()]), ("STATEDIR", "{{STATEDIR}}"));
    }

    proptest! {
        #[test]
        fn without_values_nothing_changes(text in "[{}A_é]{0,30}") {
            let filled = fill(&text, &[]);
            prop_assert_eq!(&filled.text, &text);
            for unknown in filled.unknown {
                prop_assert_eq!(&text[unknown.span], format!("{{{{{}}}}}", unknown.name));
            }
        }
    }
}
