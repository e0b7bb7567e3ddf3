//! Limits of concurrent requests, in total and per host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use toolcrib_core::codes;
use toolcrib_judge::evidence::Failure;

use crate::Concurrency;

/// The concurrency limiter. A host has an entry only while a request to it waits or runs.
#[derive(Debug)]
pub(crate) struct HostLimits {
    all: Arc<Semaphore>,
    hosts: Mutex<HashMap<Box<str>, Arc<Semaphore>>>,
    each: usize,
}

/// A permit. It is released when dropped, however the request ended.
#[derive(Debug)]
pub(crate) struct HostPermit<'t> {
    // Dropped in this order: first the total permit is released, then the host's, then the host's entry is removed.
    _all: Option<OwnedSemaphorePermit>,
    host: Host<'t>,
}

impl HostLimits {
    pub(crate) fn new(limits: Concurrency) -> Self {
        Self {
            all: Arc::new(Semaphore::new(limits.total.clamp(1, Semaphore::MAX_PERMITS))),
            hosts: Mutex::default(),
            each: limits.host.clamp(1, Semaphore::MAX_PERMITS),
        }
    }

    /// Waits for a permit until `until`. Takes the host's permit first, so that requests that wait for a slow host take nothing from
    /// the others.
    pub(crate) async fn enter(&self, host: &str, until: Instant) -> Result<HostPermit<'_>, Failure> {
        let (host, semaphore) = self.host(host);
        let mut place = HostPermit { _all: None, host };
        let busy = |what: &str| Failure::new(codes::fetch::BUSY, format!("the limit of concurrent requests {what} is reached"));
        match timeout_at(until, semaphore.acquire_owned()).await {
            Ok(Ok(permit)) => place.host.permit = Some(permit),
            _ => return Err(busy("to this host")),
        }
        match timeout_at(until, self.all.clone().acquire_owned()).await {
            Ok(Ok(permit)) => place._all = Some(permit),
            _ => return Err(busy("in total")),
        }
        Ok(place)
    }

    fn host(&self, host: &str) -> (Host<'_>, Arc<Semaphore>) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let semaphore = match hosts.get(host) {
            Some(semaphore) => semaphore.clone(),
            None => hosts.entry(host.into()).or_insert_with(|| Arc::new(Semaphore::new(self.each))).clone(),
        };
        (Host { turnstile: self, name: host.into(), permit: None }, semaphore)
    }

    #[cfg(test)]
    fn known(&self) -> usize {
        self.hosts.lock().unwrap().len()
    }
}

#[derive(Debug)]
struct Host<'t> {
    turnstile: &'t HostLimits,
    name: Box<str>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        let mut hosts = self.turnstile.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        // Release under the lock, so that of several concurrent drops the last one sees that the entry is unused.
        self.permit = None;
        if hosts.get(&self.name).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            hosts.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    #[tokio::test]
    async fn places_are_given_back_and_hosts_forgotten() {
        let turnstile = HostLimits::new(Concurrency { total: 3, host: 2 });
        let first = turnstile.enter("a", soon()).await.unwrap();
        let second = turnstile.enter("a", soon()).await.unwrap();
        assert_eq!(turnstile.enter("a", soon()).await.unwrap_err().code, codes::fetch::BUSY);
        let third = turnstile.enter("b", soon()).await.unwrap();
        assert_eq!(turnstile.enter("c", soon()).await.unwrap_err().code, codes::fetch::BUSY);
        assert_eq!(turnstile.known(), 2, "a host whose request gave up is forgotten");
        drop(first);
        assert_eq!(turnstile.known(), 2);
        let fourth = turnstile.enter("a", soon()).await.unwrap();
        drop((second, third, fourth));
        assert_eq!(turnstile.known(), 0);
        // A waiting request that is dropped leaves no entry either.
        let held = (turnstile.enter("a", soon()).await.unwrap(), turnstile.enter("a", soon()).await.unwrap());
        assert!(tokio::time::timeout(Duration::from_millis(5), turnstile.enter("a", soon())).await.is_err());
        drop(held);
        assert_eq!(turnstile.known(), 0);
        assert_eq!(turnstile.all.available_permits(), 3);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn hosts_are_forgotten_when_many_leave_at_once() {
        let turnstile = Arc::new(HostLimits::new(Concurrency { total: 64, host: 8 }));
        let tasks: Vec<_> = (0..400)
            .map(|number| {
                let turnstile = turnstile.clone();
                tokio::spawn(async move {
                    let until = Instant::now() + Duration::from_secs(5);
                    drop(turnstile.enter(["a", "b", "c"][number % 3], until).await.unwrap());
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!((turnstile.known(), turnstile.all.available_permits()), (0, 64));
    }
}
