//! What a new session offers to choose from: modes and models.
//!
//! There are two generations of the protocol here. Older programs list `modes` and `models`, with a request for each;
//! newer ones list options, with one request for all. A program may do both.

use agent_client_protocol::UntypedMessage;
use agent_client_protocol::v1::schema::{SetSessionConfigOptionRequest, SetSessionModeRequest};
use serde_json::{Value, json};

/// The mode in which codex asks for nothing; it begins in one that may not write. All other programs ask for
/// permissions, which are answered.
const FULL_ACCESS: &str = "full-access";

/// The answer to `session/new`.
pub(super) struct Offers {
    pub(super) session: String,
    answer: Value,
}

impl Offers {
    /// `None` if there is no session.
    pub(super) fn new(answer: Value) -> Option<Offers> {
        let session = answer["sessionId"].as_str()?.to_owned();
        Some(Offers { session, answer })
    }

    /// The request for the mode that may do everything, where there is one and it is not the current one.
    pub(super) fn full_access(&self) -> Option<UntypedMessage> {
        let modes = &self.answer["modes"];
        if ids(&modes["availableModes"], "id").contains(&FULL_ACCESS) {
            let request = SetSessionModeRequest::new(self.session.clone(), FULL_ACCESS);
            return match modes["currentModeId"] == FULL_ACCESS {
                true => None,
                false => UntypedMessage::new("session/set_mode", request).ok(),
            };
        }
        let option = self.option("mode")?;
        let is_offered = values(option).contains(&FULL_ACCESS);
        (is_offered && option["currentValue"] != FULL_ACCESS)
            .then(|| self.set(option, FULL_ACCESS))?
    }

    /// The model that the session uses.
    pub(super) fn current_model(&self) -> Option<&str> {
        let option = self.option("model").and_then(|option| option["currentValue"].as_str());
        option.or_else(|| self.answer["models"]["currentModelId"].as_str())
    }

    /// The request for a model; `None` where the program does not offer a choice.
    pub(super) fn choose_model(&self, model: &str) -> Option<UntypedMessage> {
        if let Some(option) = self.option("model") {
            return self.set(option, model);
        }
        // The types of the crate do not have this request any more.
        let request = json!({ "sessionId": self.session, "modelId": model });
        let is_offered = self.answer["models"].is_object();
        is_offered.then(|| UntypedMessage::new("session/set_model", request).ok())?
    }

    /// The models to choose from.
    pub(super) fn models(&self) -> Vec<&str> {
        match self.option("model") {
            Some(option) => values(option),
            None => ids(&self.answer["models"]["availableModels"], "modelId"),
        }
    }

    fn option(&self, category: &str) -> Option<&Value> {
        let options = self.answer["configOptions"].as_array()?;
        let of_category = options.iter().find(|option| option["category"] == category);
        of_category.or_else(|| options.iter().find(|option| option["id"] == category))
    }

    fn set(&self, option: &Value, value: &str) -> Option<UntypedMessage> {
        let id = option["id"].as_str()?.to_owned();
        let request = SetSessionConfigOptionRequest::new(self.session.clone(), id, value);
        UntypedMessage::new("session/set_config_option", request).ok()
    }
}

fn ids<'v>(list: &'v Value, name: &str) -> Vec<&'v str> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|entry| entry[name].as_str()).collect()
}

/// The values of an option, which may be in groups.
fn values(option: &Value) -> Vec<&str> {
    let entries = option["options"].as_array().into_iter().flatten();
    let values = entries.flat_map(|entry| match entry["options"].is_array() {
        true => ids(&entry["options"], "value"),
        false => entry["value"].as_str().into_iter().collect(),
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(more: Value) -> Offers {
        let mut answer = json!({ "sessionId": "s" });
        for (name, value) in more.as_object().unwrap() {
            answer[name] = value.clone();
        }
        Offers::new(answer).unwrap()
    }

    fn shown(request: Option<UntypedMessage>) -> String {
        request.map_or("none".to_owned(), |it| format!("{} {}", it.method, it.params))
    }

    #[test]
    fn a_session_needs_an_id() {
        assert!(Offers::new(json!({ "modes": {} })).is_none());
    }

    #[test]
    fn the_mode_is_chosen_among_those_that_are_offered() {
        let modes = |current: &str| json!({ "modes": { "currentModeId": current, "availableModes": [{ "id": "read-only" }, { "id": "full-access" }] } });
        let option = |current: &str| json!({ "configOptions": [{ "id": "m", "category": "mode", "currentValue": current, "options": [{ "value": "read-only" }, { "value": "full-access" }] }] });
        let gemini = json!({ "modes": { "currentModeId": "default", "availableModes": [{ "id": "yolo" }] } });
        let cases = [
            modes("read-only"),
            modes("full-access"),
            option("read-only"),
            option("full-access"),
            gemini,
            json!({}),
        ];
        let requests = cases.map(|case| shown(offers(case).full_access()));
        insta::assert_snapshot!(requests.join("\n"), @r#"
        session/set_mode {"sessionId":"s","modeId":"full-access"}
        none
        session/set_config_option {"sessionId":"s","configId":"m","value":"full-access"}
        none
        none
        none
        "#);
    }

    #[test]
    fn the_model_is_an_option_or_has_its_own_request() {
        let option = json!({ "configOptions": [
            { "id": "other", "options": [] },
            { "id": "model", "category": "model", "currentValue": "a/1", "options": [{ "value": "a/1" }, { "group": "b", "options": [{ "value": "b/1" }] }] },
        ] });
        let models = json!({ "models": { "currentModelId": "m1", "availableModels": [{ "modelId": "m1" }, { "modelId": "m2" }] } });
        let told = [option, models, json!({})].map(|case| {
            let offers = offers(case);
            let models = offers.models().join(", ");
            format!(
                "{:?} of [{models}]: {}",
                offers.current_model(),
                shown(offers.choose_model("x"))
            )
        });
        insta::assert_snapshot!(told.join("\n"), @r#"
        Some("a/1") of [a/1, b/1]: session/set_config_option {"sessionId":"s","configId":"model","value":"x"}
        Some("m1") of [m1, m2]: session/set_model {"sessionId":"s","modelId":"x"}
        None of []: none
        "#);
    }
}
