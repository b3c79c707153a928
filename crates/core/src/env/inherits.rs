//! The variables that an agent inherits from the harness: those that builds need, those of its client, and those
//! that the settings name.

use std::ffi::{OsStr, OsString};

use crate::agents::Adapter;
use crate::secrets::is_secret_name;

/// What a process inherits of the harness's environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Inherits {
    #[default]
    All,
    /// What every agent needs, and the variables that match these patterns.
    Agent { client: Option<&'static Adapter>, more: Vec<String> },
}

/// What every agent inherits. Where a pattern has a `*`, names that look like those of secrets are left out, such as
/// `CARGO_REGISTRY_TOKEN`.
const USUAL: [&str; 6] = [SYSTEM, NETWORK, GIT, OWN, C, LANGUAGES];

const SYSTEM: &str = "\
    PATH HOME USER LOGNAME SHELL HOSTNAME PWD TMPDIR TMP TEMP TZ LANG LANGUAGE LC_* LOCPATH LOCALE_ARCHIVE TERM \
    TERMINFO TERMINFO_DIRS COLORTERM NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE COLUMNS LINES EDITOR VISUAL \
    PAGER BASH_ENV ENV ZDOTDIR XDG_* DISPLAY WAYLAND_DISPLAY XAUTHORITY DBUS_SESSION_BUS_ADDRESS WSL_DISTRO_NAME \
    CI SOURCE_DATE_EPOCH DEBIAN_FRONTEND GNUPGHOME GPG_TTY DOCKER_HOST";
const NETWORK: &str = "\
    http_proxy https_proxy ftp_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY \
    SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS CURL_CA_BUNDLE REQUESTS_CA_BUNDLE NIX_SSL_CERT_FILE";
/// Without those that contain credentials, or name a program that has them.
const GIT: &str = "\
    EMAIL GIT_AUTHOR_* GIT_COMMITTER_* GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_NOSYSTEM GIT_DIR \
    GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_COMMON_DIR \
    GIT_NAMESPACE GIT_CEILING_DIRECTORIES GIT_DISCOVERY_ACROSS_FILESYSTEM GIT_SSH GIT_SSH_COMMAND GIT_SSL_* \
    GIT_TERMINAL_PROMPT GIT_EDITOR GIT_PAGER GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_LFS_* GIT_TRACE* \
    GIT_OPTIONAL_LOCKS";
/// Ourselves, and the queue.
const OWN: &str = "\
    AUTOLOOP_* BEADS_* BD_*";
const C: &str = "\
    CC CXX CPP LD AR RANLIB CFLAGS CXXFLAGS CPPFLAGS LDFLAGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH \
    LD_* DYLD_* PKG_CONFIG* CMAKE_* MAKEFLAGS MFLAGS CCACHE_* SCCACHE_DIR LIBCLANG_PATH LLVM_* OPENSSL_* \
    ASAN_OPTIONS LSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS MACOSX_DEPLOYMENT_TARGET SDKROOT DEVELOPER_DIR";
const LANGUAGES: &str = "\
    CARGO_* RUSTUP_* RUST_* RUSTC RUSTC_* RUSTFLAGS RUSTDOCFLAGS GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOPROXY \
    GOSUMDB GONOSUMDB GONOPROXY GOPRIVATE GOFLAGS GOTOOLCHAIN GOOS GOARCH GO111MODULE GOWORK CGO_* JAVA_HOME \
    JDK_HOME JAVA_OPTS JAVA_TOOL_OPTIONS MAVEN_* M2_HOME GRADLE_* SDKMAN_* ANDROID_* KOTLIN_HOME SCALA_HOME \
    SBT_OPTS NVM_* FNM_* VOLTA_HOME NODE_ENV NODE_PATH NODE_OPTIONS NODE_VERSION npm_config_* NPM_CONFIG_* \
    COREPACK_* PNPM_HOME YARN_* BUN_INSTALL DENO_DIR VIRTUAL_ENV CONDA_* PYENV_* PYTHON* PIP_* PIPX_* UV_* \
    POETRY_* PIPENV_* RBENV_* GEM_HOME GEM_PATH BUNDLE_PATH BUNDLE_GEMFILE BUNDLE_WITHOUT BUNDLE_APP_CONFIG \
    RUBYOPT RUBYLIB COMPOSER_HOME PHP_INI_SCAN_DIR PERL5LIB DOTNET_* NUGET_PACKAGES MIX_* HEX_HOME OPAM* OCAML* \
    CAML_* GHCUP_* STACK_* CABAL_* ZIG_* NIX_PATH NIX_PROFILES IN_NIX_SHELL MISE_* ASDF_* HOMEBREW_* PLAYWRIGHT_* \
    PUPPETEER_* CHROME_BIN CHROME_PATH CUDA_* HF_HOME";

impl Inherits {
    pub fn includes(&self, name: &OsStr, is_set: impl Fn(&str) -> bool) -> bool {
        let Inherits::Agent { client, more } = self else { return true };
        // A name that is not UTF-8 matches no pattern but `*`.
        let name = &*name.to_string_lossy();
        let is_usual = |pattern: &str| {
            matches(pattern, name) && !(pattern.contains('*') && is_secret_name(name))
        };
        USUAL.iter().flat_map(|names| names.split(' ')).any(is_usual)
            || more.iter().any(|pattern| matches(pattern, name))
            || client.is_some_and(|client| client.inherits(name, is_set))
    }

    /// These variables, as far as they are inherited.
    pub fn select(&self, variables: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
        let is_set = |wanted: &str| {
            variables.iter().any(|(name, value)| name == wanted && !value.is_empty())
        };
        variables.iter().filter(|(name, _)| self.includes(name, is_set)).cloned().collect()
    }
}

impl Adapter {
    /// Whether the client needs this variable. Those of a cloud provider are needed where another one selects it.
    fn inherits(&self, name: &str, is_set: impl Fn(&str) -> bool) -> bool {
        self.inherits.iter().any(|pattern| matches(pattern, name))
            || self.providers.iter().any(|(by, pattern)| matches(pattern, name) && is_set(by))
            || self.is_credential(name)
            || self.state.iter().any(|dir| dir.variable == name)
    }
}

/// Whether a name is this one, or begins or ends as this pattern with a `*` says.
fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_suffix('*'), pattern.strip_prefix('*')) {
        (Some(start), _) => name.starts_with(start),
        (None, Some(end)) => name.ends_with(end),
        (None, None) => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of these variables an agent inherits.
    fn inherited(client: &str, more: &[&str], variables: &str) -> String {
        let more = more.iter().map(ToString::to_string).collect();
        let inherits = Inherits::Agent { client: Adapter::by_program(client), more };
        let variables = variables.split(' ').map(|name| (name.into(), "x".into())).collect();
        let names = inherits.select(variables).into_iter().map(|(name, _)| name);
        names.map(|name| name.into_string().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_command_inherits_what_builds_need() {
        let needed = "PATH HOME LC_ALL XDG_CACHE_HOME https_proxy CARGO_HOME npm_config_cache VIRTUAL_ENV CI";
        assert_eq!(inherited("sh", &[], needed), needed);
        let secrets = "ANTHROPIC_API_KEY AWS_SECRET_ACCESS_KEY AWS_PROFILE GITHUB_TOKEN DATABASE_URL SSH_AUTH_SOCK \
                       CARGO_REGISTRY_TOKEN npm_config__authToken GIT_ASKPASS GIT_CONFIG_VALUE_0 OLDPWD";
        assert_eq!(inherited("sh", &[], secrets), "");
    }

    #[test]
    fn a_client_inherits_its_own_variables_and_no_others() {
        let variables = "ANTHROPIC_API_KEY CLAUDE_CONFIG_DIR IS_SANDBOX OPENAI_API_KEY CODEX_HOME GEMINI_API_KEY \
                         GOOGLE_CLOUD_PROJECT OPENCODE_CONFIG PI_CODING_AGENT_DIR MISTRAL_API_KEY GITHUB_TOKEN AWS_PROFILE";
        let all = ["claude", "codex", "gemini", "opencode", "pi"]
            .map(|client| format!("{client}: {}", inherited(client, &[], variables)));
        insta::assert_snapshot!(all.join("\n"), @"
        claude: ANTHROPIC_API_KEY CLAUDE_CONFIG_DIR IS_SANDBOX
        codex: OPENAI_API_KEY CODEX_HOME
        gemini: GEMINI_API_KEY GOOGLE_CLOUD_PROJECT
        opencode: ANTHROPIC_API_KEY OPENAI_API_KEY GEMINI_API_KEY GOOGLE_CLOUD_PROJECT OPENCODE_CONFIG MISTRAL_API_KEY AWS_PROFILE
        pi: ANTHROPIC_API_KEY OPENAI_API_KEY GEMINI_API_KEY GOOGLE_CLOUD_PROJECT PI_CODING_AGENT_DIR MISTRAL_API_KEY AWS_PROFILE
        ");
    }

    #[test]
    fn a_provider_that_is_selected_brings_its_variables() {
        assert_eq!(inherited("claude", &[], "AWS_REGION AWS_SECRET_ACCESS_KEY"), "");
        let selected = "CLAUDE_CODE_USE_BEDROCK AWS_REGION AWS_SECRET_ACCESS_KEY";
        assert_eq!(inherited("claude", &[], selected), selected);
    }

    #[test]
    fn settings_add_names_and_patterns() {
        let variables = "MY_TOKEN MYAPP_ONE MYAPP YOUR_TOKEN A_KEY";
        assert_eq!(inherited("sh", &["MY_TOKEN"], variables), "MY_TOKEN");
        assert_eq!(inherited("sh", &["MYAPP_*", "*_KEY"], variables), "MYAPP_ONE A_KEY");
        assert_eq!(inherited("sh", &["*"], variables), variables);
        assert_eq!(Inherits::All.select(vec![("ANY".into(), "x".into())]).len(), 1);
    }
}
