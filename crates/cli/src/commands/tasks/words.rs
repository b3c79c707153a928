//! Texts that people and agents give as arguments.

/// Takes a text that may begin with a hyphen, as a list does, but is no flag that stands where a text was
/// forgotten.
pub(super) fn words(given: &str) -> Result<String, String> {
    let name = given.trim_start_matches('-');
    let is_flag = name.len() < given.len()
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && !name.contains(char::is_whitespace);
    match is_flag {
        true => Err("this looks like a flag, and a text is missing; a text that begins so needs a space in front".to_owned()),
        false => Ok(given.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_a_text_and_a_flag_is_none() {
        for text in
            ["", "plain", "- one\n- two", "--", "---\n# Heading", "-5 degrees", "--all of it"]
        {
            assert_eq!(words(text).as_deref(), Ok(text));
        }
        for flag in ["--json", "-h", "--after=t-1"] {
            assert!(words(flag).is_err(), "{flag}");
        }
    }
}
