//! The answer of an agent, between harness and shim.

use std::io;

use autoloop_core::agents::{Answer, Dollars, Outcome, Usage};

use super::{Body, Text, garbled};

impl Body {
    pub(super) fn answer(&mut self, answer: &Answer) {
        self.bytes(answer.text.as_bytes());
        let (number, text) = match &answer.outcome {
            Outcome::Done => (0, ""),
            Outcome::CutShort => (1, ""),
            Outcome::Failed(why) => (2, &why[..]),
            Outcome::Aborted => (3, ""),
            Outcome::Unfinished => (4, ""),
            Outcome::Unknown(status) => (5, &status[..]),
            Outcome::Silent => (6, ""),
            Outcome::Strayed(text) => (7, &text[..]),
        };
        self.number(number);
        self.bytes(text.as_bytes());
        self.maybe(answer.usage.as_ref(), |body, usage| {
            body.number(usage.input);
            body.number(usage.output);
            body.number(usage.cache_read);
            body.number(usage.cache_write);
            body.number(usage.total);
            body.maybe(usage.cost.as_ref(), |body, Dollars(cost)| body.number(*cost));
        });
        self.number(answer.unreadable);
    }
}

impl Text<'_> {
    pub(super) fn answer(&mut self) -> io::Result<Answer> {
        let text = self.string()?;
        let (number, more) = (self.number()?, self.string()?);
        let outcome = match number {
            0 => Outcome::Done,
            1 => Outcome::CutShort,
            2 => Outcome::Failed(more),
            3 => Outcome::Aborted,
            4 => Outcome::Unfinished,
            5 => Outcome::Unknown(more),
            6 => Outcome::Silent,
            7 => Outcome::Strayed(more),
            _ => return Err(garbled()),
        };
        let usage = |body: &mut Self| {
            Ok(Usage {
                input: body.number()?,
                output: body.number()?,
                cache_read: body.number()?,
                cache_write: body.number()?,
                total: body.number()?,
                cost: body.maybe(|body| body.number().map(Dollars))?,
            })
        };
        Ok(Answer { text, outcome, usage: self.maybe(usage)?, unreadable: self.number()? })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn outcome() -> impl Strategy<Value = Outcome> {
        prop_oneof![
            prop::sample::select(vec![
                Outcome::Done,
                Outcome::CutShort,
                Outcome::Aborted,
                Outcome::Unfinished,
                Outcome::Silent,
            ]),
            any::<String>().prop_map(Outcome::Failed),
            any::<String>().prop_map(Outcome::Unknown),
            any::<String>().prop_map(Outcome::Strayed),
        ]
    }

    prop_compose! {
        fn usage()(counts: [u64; 5], cost in option::of(any::<u64>().prop_map(Dollars))) -> Usage {
            let [input, output, cache_read, cache_write, total] = counts;
            Usage { input, output, cache_read, cache_write, total, cost }
        }
    }

    prop_compose! {
        pub(crate) fn answer()(
            text: String, outcome in outcome(), usage in option::of(usage()), unreadable: u64,
        ) -> Answer {
            Answer { text, outcome, usage, unreadable }
        }
    }
}
