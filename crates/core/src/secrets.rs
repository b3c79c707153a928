//! Values that have to stay out of records, logs and views: which names and texts look like those of secrets.

/// What is in the names of variables with secrets.
const PARTS: [&str; 7] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY"];

/// Whether the name of a variable looks like that of a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_word = |word: &str| matches!(word, "KEY" | "AUTH" | "PAT");
    name.split('_').any(is_word) || PARTS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_by_their_words() {
        for name in [
            "ANTHROPIC_API_KEY",
            "GITHUB_TOKEN",
            "npm_config__authToken",
            "DB_PASSWORD",
            "KEY",
            "MY_SECRET_1",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["PATH", "KEYBOARD", "XDG_CACHE_HOME", "GIT_AUTHOR_NAME", "CARGO_HOME"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
