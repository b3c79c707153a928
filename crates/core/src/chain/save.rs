//! The chains of a run, as bytes that can be kept.

use super::spawn::{Asker, Request, Returned, Spawns};
use crate::excerpt::Shortened;
use crate::record::ChainSpawned;
use crate::view::bytes::{Taker, put_number, put_text};

impl Spawns {
    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        put_number(self.count, out);
        put_number(self.failures, out);
        save_asked(&self.requests, out);
        put_number(self.open.is_some().into(), out);
        if let Some(ChainSpawned { chain_id, parent_id, steps, justification }) = &self.open {
            for text in [chain_id, parent_id, steps, justification] {
                put_text(text, out);
            }
        }
        put_number(self.returned.len() as u64, out);
        for Returned { chain, outcome, output } in &self.returned {
            for text in [chain, outcome, &output.head, &output.tail] {
                put_text(text, out);
            }
            put_number(output.left_out, out);
        }
    }

    pub(crate) fn load(taker: &mut Taker<'_>) -> Option<Spawns> {
        let (count, failures) = (taker.number()?, taker.number()?);
        let requests = load_asked(taker)?;
        let open = match taker.number()? {
            1 => {
                let mut text = || taker.text().map(str::to_owned);
                Some(ChainSpawned {
                    chain_id: text()?,
                    parent_id: text()?,
                    steps: text()?,
                    justification: text()?,
                })
            }
            _ => None,
        };
        let returned = (0..taker.count()?).map(|_| load_returned(taker)).collect::<Option<_>>()?;
        Some(Spawns { requests, open, returned, count, failures })
    }
}

fn load_returned(taker: &mut Taker<'_>) -> Option<Returned> {
    let mut text = || taker.text().map(str::to_owned);
    let (chain, outcome, head, tail) = (text()?, text()?, text()?, text()?);
    let output = Shortened { head, tail, left_out: taker.number()? };
    Some(Returned { chain, outcome, output })
}

pub(crate) fn save_asked(requests: &[Request], out: &mut Vec<u8>) {
    put_number(requests.len() as u64, out);
    for Request { payload, asker } in requests {
        put_text(payload, out);
        put_number(*asker as u64, out);
    }
}

pub(crate) fn load_asked(taker: &mut Taker<'_>) -> Option<Vec<Request>> {
    (0..taker.count()?)
        .map(|_| {
            let payload = taker.text()?.to_owned();
            let askers = [Asker::Agent, Asker::Replay, Asker::Review];
            let number = taker.number()?;
            let asker = askers.into_iter().find(|asker| *asker as u64 == number)?;
            Some(Request { payload, asker })
        })
        .collect()
}
