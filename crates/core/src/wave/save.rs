//! The waves of a run, as bytes that can be kept.

use super::state::{Branch, Outcome, Request, Told, Wave, Waves};
use crate::excerpt::Shortened;
use crate::merge::{Merge, MergeOutcome};
use crate::view::bytes::{Taker, put_number, put_text};

impl Waves {
    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        put_number(self.count, out);
        save_requests(&self.requests, out);
        for wave in [&self.open, &self.joined] {
            put_number(wave.is_some().into(), out);
            if let Some(wave) = wave {
                save_wave(wave, out);
            }
        }
    }

    pub(crate) fn load(taker: &mut Taker<'_>) -> Option<Waves> {
        let count = taker.number()?;
        let requests = load_requests(taker)?;
        let wave = |taker: &mut Taker<'_>| match taker.number()? {
            1 => load_wave(taker).map(Some),
            _ => Some(None),
        };
        Some(Waves { count, requests, open: wave(taker)?, joined: wave(taker)? })
    }
}

pub(crate) fn save_requests(requests: &[Request], out: &mut Vec<u8>) {
    put_number(requests.len() as u64, out);
    for Request { topic, payload } in requests {
        put_text(topic, out);
        put_text(payload, out);
    }
}

pub(crate) fn load_requests(taker: &mut Taker<'_>) -> Option<Vec<Request>> {
    let count = taker.count()?;
    let mut text = || taker.text().map(str::to_owned);
    (0..count).map(|_| Some(Request { topic: text()?, payload: text()? })).collect()
}

fn save_wave(wave: &Wave, out: &mut Vec<u8>) {
    let texts = [&wave.id, &wave.trigger, &wave.opening_event, &wave.resume_event, &wave.base];
    for text in texts {
        put_text(text, out);
    }
    let Told { start, timeout, failed } = wave.told;
    put_number(u64::from(start) | u64::from(timeout) << 1 | u64::from(failed) << 2, out);
    put_number(wave.branches.len() as u64, out);
    for Branch { objective, is_begun, outcome, merge } in &wave.branches {
        put_text(objective, out);
        let flags = [*is_begun, outcome.is_some(), merge.is_some()];
        let bits = flags.iter().enumerate().map(|(place, is_set)| u64::from(*is_set) << place);
        put_number(bits.sum(), out);
        if let Some(Outcome { stop_reason, elapsed_ms, tree, output, detail }) = outcome {
            for text in [stop_reason, tree, &output.head, &output.tail, detail] {
                put_text(text, out);
            }
            put_number(output.left_out, out);
            put_number(*elapsed_ms, out);
        }
        if let Some(Merge { outcome, branch, commit, tree, files, detail }) = merge {
            for text in [outcome.name(), branch, commit, tree, files, detail] {
                put_text(text, out);
            }
        }
    }
}

fn load_wave(taker: &mut Taker<'_>) -> Option<Wave> {
    let mut text = || taker.text().map(str::to_owned);
    let (id, trigger, opening_event) = (text()?, text()?, text()?);
    let (resume_event, base) = (text()?, text()?);
    let told = taker.number()?;
    let told = Told { start: told & 1 != 0, timeout: told & 2 != 0, failed: told & 4 != 0 };
    let branches = (0..taker.count()?).map(|_| load_branch(taker)).collect::<Option<Vec<_>>>()?;
    Some(Wave { id, trigger, opening_event, base, branches, told, resume_event })
}

fn load_branch(taker: &mut Taker<'_>) -> Option<Branch> {
    let objective = taker.text()?.to_owned();
    let flags = taker.number()?;
    let outcome = match flags & 2 {
        0 => None,
        _ => {
            let mut text = || taker.text().map(str::to_owned);
            let (stop_reason, tree, head, tail) = (text()?, text()?, text()?, text()?);
            let detail = text()?;
            let output = Shortened { head, tail, left_out: taker.number()? };
            Some(Outcome { stop_reason, elapsed_ms: taker.number()?, tree, output, detail })
        }
    };
    let merge = match flags & 4 {
        0 => None,
        _ => {
            let mut text = || taker.text().map(str::to_owned);
            Some(Merge {
                outcome: MergeOutcome::from_word(&text()?)?,
                branch: text()?,
                commit: text()?,
                tree: text()?,
                files: text()?,
                detail: text()?,
            })
        }
    };
    Some(Branch { objective, is_begun: flags & 1 == 1, outcome, merge })
}
