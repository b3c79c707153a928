//! The columns of the board that fit into a width.

/// Columns between two columns.
const GAP: u16 = 2;
/// The width of a time: `59m59s`.
const TIME: u16 = 6;
/// The maximum width of a name and of a badge.
const NAME: u16 = 24;
const BADGE: u16 = 12;
/// The maximum width of a cost: `~$1234.50`.
const COST: u16 = 9;
/// The maximum width of a review: `failed, revision 2/3`.
const REVIEW: u16 = 22;
/// The minimum width of an item and of a last line, and of an item beside a review.
const ITEM: u16 = 6;
const LINE: u16 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) x: u16,
    pub(super) width: u16,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Widest {
    pub(super) name: usize,
    pub(super) badge: usize,
    /// 0 where no cost is known.
    pub(super) cost: usize,
    /// 0 where nothing is reviewed.
    pub(super) review: usize,
    pub(super) item: usize,
}

/// Divides a line into name, badge, time, cost, review, item and last line. In a narrow window the last line is omitted
/// first, then the cost, the review, the item and the time; the badge is always visible as a whole.
pub(super) fn fit(x: u16, width: u16, widest: Widest) -> [Option<Column>; 7] {
    let narrow = |width: usize, most: u16| u16::try_from(width).unwrap_or(most).min(most);
    let badge = narrow(widest.badge, BADGE);
    let mut rest = Rest { x, width };
    let name = narrow(widest.name, NAME).min(width.saturating_sub(badge + GAP));
    let name = rest.column(name);
    let badge = rest.column(badge);
    let time = (rest.width >= TIME).then(|| rest.column(TIME));
    let (cost, review) = (narrow(widest.cost, COST), narrow(widest.review, REVIEW));
    let with_item = |least: u16| if widest.item > 0 { GAP + least } else { 0 };
    let after_review = with_item(LINE);
    let after_cost = if review > 0 { GAP + review + after_review } else { with_item(ITEM) };
    let fits = cost > 0 && rest.width >= cost + after_cost;
    let cost = fits.then(|| rest.column(cost));
    let fits = review > 0 && rest.width >= review + after_review;
    let review = fits.then(|| rest.column(review));
    let line_too = rest.width >= ITEM + GAP + LINE + LINE;
    // A last line is more useful than the end of a long title.
    let share = if line_too { (rest.width * 2 / 5).max(LINE) } else { rest.width };
    let item = narrow(widest.item, share).max(ITEM.min(rest.width));
    let item = (rest.width >= ITEM && widest.item > 0).then(|| rest.column(item));
    let line = (rest.width >= LINE).then(|| rest.column(rest.width));
    [Some(name), Some(badge), time, cost, review, item, line]
}

/// The rest of a line.
struct Rest {
    x: u16,
    width: u16,
}

impl Rest {
    fn column(&mut self, width: u16) -> Column {
        let column = Column { x: self.x, width: width.min(self.width) };
        let taken = (column.width + GAP).min(self.width);
        self.x += taken;
        self.width -= taken;
        column
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns as a ruler: a letter for every cell.
    fn ruler(width: u16, cost: usize, review: usize) -> String {
        let widest = Widest { name: 6, badge: 7, cost, review, item: 30 };
        let mut cells = vec!['.'; width.into()];
        for (column, letter) in fit(0, width, widest).into_iter().zip("nbtcril".chars()) {
            let Some(Column { x, width }) = column else { continue };
            cells[usize::from(x)..usize::from(x + width)].fill(letter);
        }
        String::from_iter(cells)
    }

    #[test]
    fn the_narrower_the_fewer() {
        let rulers = [90, 60, 50, 40, 30, 24, 18, 12].map(|width| ruler(width, 0, 0)).join("\n");
        insta::assert_snapshot!(rulers, @r"
    nnnnnn..bbbbbbb..tttttt..iiiiiiiiiiiiiiiiiiiiiiiiii..lllllllllllllllllllllllllllllllllllll
    nnnnnn..bbbbbbb..tttttt..iiiiiiiiiiiiii..lllllllllllllllllll
    nnnnnn..bbbbbbb..tttttt..iiiiiiiiiiiiiiiiiiiiiiiii
    nnnnnn..bbbbbbb..tttttt..iiiiiiiiiiiiiii
    nnnnnn..bbbbbbb..tttttt.......
    nnnnnn..bbbbbbb..tttttt.
    nnnnnn..bbbbbbb...
    nnn..bbbbbbb
    ");
        let rulers = [90, 60, 40, 38, 30].map(|width| ruler(width, 5, 0)).join("\n");
        insta::assert_snapshot!(rulers, @r"
    nnnnnn..bbbbbbb..tttttt..ccccc..iiiiiiiiiiiiiiiiiiiiiii..lllllllllllllllllllllllllllllllll
    nnnnnn..bbbbbbb..tttttt..ccccc..iiiiiiiiiiiiiiiiiiiiiiiiiiii
    nnnnnn..bbbbbbb..tttttt..ccccc..iiiiiiii
    nnnnnn..bbbbbbb..tttttt..ccccc..iiiiii
    nnnnnn..bbbbbbb..tttttt.......
    ");
        let rulers = [120, 80, 65, 55, 40, 30].map(|width| ruler(width, 5, 20)).join("\n");
        insta::assert_snapshot!(rulers, @r"
        nnnnnn..bbbbbbb..tttttt..ccccc..rrrrrrrrrrrrrrrrrrrr..iiiiiiiiiiiiiiiiiiiiiiiiii..llllllllllllllllllllllllllllllllllllll
        nnnnnn..bbbbbbb..tttttt..ccccc..rrrrrrrrrrrrrrrrrrrr..iiiiiiiiiiiiiiiiiiiiiiiiii
        nnnnnn..bbbbbbb..tttttt..rrrrrrrrrrrrrrrrrrrr..iiiiiiiiiiiiiiiiii
        nnnnnn..bbbbbbb..tttttt..iiiiiiiiiiiiiiiiiiiiiiiiiiiiii
        nnnnnn..bbbbbbb..tttttt..iiiiiiiiiiiiiii
        nnnnnn..bbbbbbb..tttttt.......
        ");
    }
}
