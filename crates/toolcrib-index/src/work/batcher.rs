//! Groups concurrent calls into batches.
//!
//! A call that arrives while others run waits, and the next batch takes all waiting calls: under load one round trip to the database
//! serves many calls, and a single call does not wait.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, oneshot};

use crate::Error;

/// Groups calls of one kind.
pub(super) struct Batcher<I, O> {
    waiting: Mutex<Vec<Waiting<I, O>>>,
    leading: Semaphore,
    /// The maximum number of calls in one batch.
    most: usize,
}

struct Waiting<I, O> {
    item: I,
    done: oneshot::Sender<O>,
}

impl<I, O> Batcher<I, O> {
    /// Creates a batcher with at most `most` calls in a batch, and at most `leaders` concurrent batches.
    pub(super) fn new(most: usize, leaders: usize) -> Self {
        Self { waiting: Mutex::default(), leading: Semaphore::new(leaders), most }
    }

    /// Runs a call together with others. `run` takes a batch and returns an outcome for each call, in their order; the caller that leads
    /// the batch runs it, and does nothing when all calls are done already. `None` when the batch failed: the call must be run alone.
    pub(super) async fn call<F>(&self, item: I, run: impl FnOnce(Vec<I>) -> F) -> Option<O>
    where
        F: Future<Output = Result<Vec<O>, Error>>,
    {
        let (done, outcome) = oneshot::channel();
        self.lock().push(Waiting { item, done });
        {
            // In order of arrival: a call is taken at the latest when it acquires the permit itself.
            let _leading = self.leading.acquire().await.ok()?;
            let batch: Vec<_> = {
                let mut waiting = self.lock();
                let count = waiting.len().min(self.most);
                waiting.drain(..count).collect()
            };
            if !batch.is_empty() {
                let (items, senders): (Vec<I>, Vec<_>) = batch.into_iter().map(|waiting| (waiting.item, waiting.done)).unzip();
                match run(items).await {
                    // A dropped caller does not receive its outcome.
                    Ok(outcomes) => senders.into_iter().zip(outcomes).for_each(|(sender, outcome)| drop(sender.send(outcome))),
                    Err(error) => {
                        tracing::debug!(code = error.code().id(), %error, calls = senders.len(), "batch failed, running each call separately");
                    }
                }
            }
        }
        // The leading caller may have been cancelled.
        outcome.await.ok()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waiting<I, O>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn calls_that_wait_share_a_batch_and_each_gets_its_own_outcome() {
        let batcher: Batcher<usize, usize> = Batcher::new(8, 1);
        let runs = AtomicUsize::new(0);
        let calls = (0..20).map(|item| {
            batcher.call(item, |items| {
                runs.fetch_add(1, Ordering::Relaxed);
                async move {
                    assert!(items.len() <= 8);
                    tokio::task::yield_now().await;
                    Ok(items.into_iter().map(|item| item * 10).collect())
                }
            })
        });
        let outcomes = futures_util::future::join_all(calls).await;
        assert_eq!(outcomes, (0..20).map(|item| Some(item * 10)).collect::<Vec<_>>());
        assert!(runs.load(Ordering::Relaxed) <= 4, "the first alone, the others by eight");
    }

    #[tokio::test]
    async fn a_batch_that_fails_is_told_to_each_of_its_calls_and_to_no_other() {
        let batcher: Batcher<bool, ()> = Batcher::new(1, 1);
        let run =
            |items: Vec<bool>| async move { if items == [true] { Ok(vec![()]) } else { Err(Error::Corrupt { what: "test" }) } };
        assert_eq!(batcher.call(true, run).await, Some(()));
        assert_eq!(batcher.call(false, run).await, None);
        assert_eq!(batcher.call(true, run).await, Some(()), "the next batch has its turn");
    }

    #[tokio::test]
    async fn a_leader_that_goes_away_leaves_no_call_waiting() {
        let batcher: Arc<Batcher<u8, u8>> = Arc::new(Batcher::new(8, 1));
        let leader = tokio::spawn({
            let batcher = Arc::clone(&batcher);
            async move { batcher.call(1, |_| std::future::pending()).await }
        });
        while batcher.leading.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let follower = tokio::spawn({
            let batcher = Arc::clone(&batcher);
            async move { batcher.call(2, |items| async move { Ok(items) }).await }
        });
        while batcher.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        leader.abort();
        assert_eq!(follower.await.expect("it ends"), Some(2));
    }
}
