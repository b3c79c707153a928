//! The form of the signature of a message: its last line.
//!
//! The signature itself is not verified: the keys are outside of the project. A line that cannot be a signature is
//! refused, because a reader that verifies would refuse the message too.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::envelope::AgentName;

pub(super) const MAX_VALUE: usize = 16_384;
const MAX_HEADER: usize = 4_096;
const MAX_SIGNATURES: usize = 8;

// The fields of these are sorted, because the compact form has sorted keys.

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Container {
    signatures: Vec<Signature>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Signature {
    protected: String,
    signature: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Header {
    alg: String,
    crit: Vec<String>,
    kid: String,
    oacp: Claims,
    typ: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    agent: String,
    domain: String,
    instance: String,
    scheme: String,
}

/// Checks the value of `auth` in a file with these bytes, from this sender.
pub(super) fn check(value: &str, file: &[u8], from: Option<&AgentName>) -> Result<(), String> {
    if !file.ends_with(format!("\nauth: \"{value}\"\n").as_bytes()) {
        return Err("it must be the last line: auth: \"…\" and one line feed".to_owned());
    }
    let container: Container = compact(value, "the value")?;
    if !(1..=MAX_SIGNATURES).contains(&container.signatures.len()) {
        return Err(format!("expected 1 to {MAX_SIGNATURES} signatures"));
    }
    container.signatures.iter().try_for_each(|signature| check_signature(signature, from))
}

fn check_signature(signature: &Signature, from: Option<&AgentName>) -> Result<(), String> {
    if signature.protected.len() > MAX_HEADER {
        return Err(format!("a header is longer than {MAX_HEADER} characters"));
    }
    let header: Header = compact(&signature.protected, "a header")?;
    let is_kid = header.kid.len() == 43 && URL_SAFE_NO_PAD.decode(&header.kid).is_ok();
    let is_profile = header.alg == "EdDSA"
        && header.typ == "oacp-message+yaml"
        && header.crit == ["oacp"]
        && header.oacp.scheme == "raw-prefix-v1"
        && header.oacp.domain == "urn:oacp:message:v1"
        && header.oacp.instance.starts_with("urn:uuid:");
    if !is_kid || !is_profile {
        return Err("a header is not of the profile EdDSA, oacp, raw-prefix-v1".to_owned());
    }
    if URL_SAFE_NO_PAD.decode(&signature.signature).map_or(0, |bytes| bytes.len()) != 64 {
        return Err("a signature does not have 64 bytes".to_owned());
    }
    let agent = header.oacp.agent.strip_prefix("urn:oacp:agent:");
    let signer = agent.and_then(|rest| rest.split_once(':')).map(|(_, name)| name);
    match (signer, from) {
        (None, _) => Err("a header does not name its agent".to_owned()),
        (Some(signer), Some(from)) if signer != from.as_str() => {
            Err(format!("forged sender: '{from}' in from, '{signer}' in the signature"))
        }
        _ => Ok(()),
    }
}

/// Decodes base64url of JSON in the one compact form.
fn compact<T: for<'de> Deserialize<'de> + Serialize>(text: &str, what: &str) -> Result<T, String> {
    let bytes = URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|error| format!("{what} is not base64url: {error}"))?;
    let value: T =
        serde_json::from_slice(&bytes).map_err(|error| format!("{what} is not valid: {error}"))?;
    match serde_json::to_vec(&value) {
        Ok(again) if again == bytes => Ok(value),
        _ => Err(format!("{what} is not compact JSON with sorted keys")),
    }
}
