//! Several pieces of work at once, each in a thread of its own.

use std::sync::mpsc;
use std::thread;

/// Does a piece of work for each order, all at once, and passes on each result as it arrives.
/// Where the system gives no more threads, this one does the work, before it starts others.
pub(super) fn together<O, R>(orders: Vec<O>, work: impl Fn(O) -> R + Sync, mut ended: impl FnMut(R))
where
    O: Clone + Send,
    R: Send,
{
    crate::process::allow_many_files();
    let (sender, ends) = mpsc::channel();
    let work = &work;
    thread::scope(|scope| {
        for order in orders {
            let (sender, again) = (sender.clone(), order.clone());
            let told = sender.clone();
            // The receivers of the ends live as long as this scope.
            let apart = move || drop(sender.send(work(order)));
            if thread::Builder::new().spawn_scoped(scope, apart).is_err() {
                drop(told.send(work(again)));
            }
        }
        drop(sender);
        ends.iter().for_each(&mut ended);
    });
}
