//! Prices of models, for clients that report tokens and no cost.

use super::{Dollars, Usage};

/// When the table was last compared with the public price lists.
pub const DATE: &str = "2026-11";

/// Dollars per million tokens.
struct Price {
    /// The name of the model begins with it, after the provider.
    model: &'static str,
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
}

const fn price(model: &'static str, input: f64, output: f64) -> Price {
    Price { model, input, output, cache_read: input / 10.0, cache_write: input * 1.25 }
}

/// More specific names come first.
const PRICES: &[Price] = &[
    price("claude-opus-4-1", 15.0, 75.0),
    price("claude-opus-4-0", 15.0, 75.0),
    price("claude-opus-4-2025", 15.0, 75.0),
    price("claude-opus", 5.0, 25.0),
    price("opus", 5.0, 25.0),
    price("claude-sonnet", 3.0, 15.0),
    price("sonnet", 3.0, 15.0),
    price("claude-haiku", 1.0, 5.0),
    price("haiku", 1.0, 5.0),
    price("gpt-5-nano", 0.05, 0.4),
    price("gpt-5-mini", 0.25, 2.0),
    price("gpt-5", 1.25, 10.0),
    price("gpt-4.1-mini", 0.4, 1.6),
    price("gpt-4.1", 2.0, 8.0),
    price("o3", 2.0, 8.0),
    price("o4-mini", 1.1, 4.4),
    price("gemini-2.5-flash-lite", 0.1, 0.4),
    price("gemini-2.5-flash", 0.3, 2.5),
    price("gemini-2.5-pro", 1.25, 10.0),
    price("gemini-3", 2.0, 12.0),
    price("gemini", 1.25, 10.0),
];

/// For a model that is not in the table: rather too much than too little.
const UNKNOWN: Price = price("", 5.0, 25.0);

/// What the tokens of a turn cost, estimated.
pub fn estimate(usage: &Usage, model: Option<&str>) -> Dollars {
    let model = model.unwrap_or_default().to_lowercase();
    let name = model.rsplit('/').next().unwrap_or_default();
    let price = PRICES.iter().find(|price| name.starts_with(price.model)).unwrap_or(&UNKNOWN);
    let parts = [
        (usage.input, price.input),
        (usage.output, price.output),
        (usage.cache_read, price.cache_read),
        (usage.cache_write, price.cache_write),
    ];
    let cost: f64 = parts.iter().map(|(tokens, price)| *tokens as f64 * price).sum();
    Dollars::new(cost / 1e6).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_that_fits_has_the_price() {
        let million = Usage { input: 1_000_000, output: 1_000_000, ..Usage::default() };
        let cost = |model: Option<&str>| estimate(&million, model).amount();
        for (model, dollars) in [
            (Some("claude-sonnet-4-5-20250929"), 18.0),
            (Some("claude-opus-4-1-20250805"), 90.0),
            (Some("claude-opus-4-5"), 30.0),
            (Some("openrouter/anthropic/claude-haiku-4.5"), 6.0),
            (Some("GPT-5-mini"), 2.25),
            (Some("gpt-5.5"), 11.25),
            (Some("gemini-2.5-flash-lite"), 0.5),
            (Some("something-new"), 30.0),
            (None, 30.0),
        ] {
            assert_eq!(cost(model), dollars, "{model:?}");
        }
        let cached = Usage { cache_read: 1_000_000, cache_write: 1_000_000, ..Usage::default() };
        assert_eq!(estimate(&cached, Some("claude-sonnet-4-5")).amount(), 0.3 + 3.75);
    }
}
