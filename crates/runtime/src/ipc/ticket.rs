//! What a client has to send first.

use std::fmt;

use crate::world::Entropy;

/// 128 random bits that only the harness and the agent it started know.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket(String);

impl Ticket {
    /// Draws a new one.
    pub fn draw(entropy: &dyn Entropy) -> Ticket {
        let mut bits = [0; 16];
        entropy.fill(&mut bits);
        Ticket(bits.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// As text, for `AUTOLOOP_TICKET`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is what was sent. Every byte is compared, so the time it takes does not tell how
    /// much of a guess was right.
    pub(super) fn is(&self, sent: &[u8]) -> bool {
        let ours = self.0.as_bytes();
        let differing = |sum: u8, (a, b): (&u8, &u8)| std::hint::black_box(sum | (a ^ b));
        ours.len() == sent.len() && ours.iter().zip(sent).fold(0, differing) == 0
    }
}

/// Never shown by accident.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::OsEntropy;

    #[test]
    fn only_the_whole_ticket_is_the_ticket() {
        let ticket = Ticket::draw(&OsEntropy);
        assert_eq!(ticket.as_str().len(), 32);
        assert!(ticket.is(ticket.as_str().as_bytes()));
        assert_ne!(ticket, Ticket::draw(&OsEntropy));
        assert!(!ticket.is(b""));
        assert!(!ticket.is(&ticket.as_str().as_bytes()[1..]));
        for at in 0..32 {
            let mut guess = ticket.as_str().as_bytes().to_vec();
            guess[at] ^= 1;
            assert!(!ticket.is(&guess), "{at}");
        }
        assert_eq!(format!("{ticket:?}"), "Ticket(…)");
    }
}
