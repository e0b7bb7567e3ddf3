//! One request at a time to an origin, and a pause between two, however many workers there are.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_index::work::{WorkOptions, Worker};

use super::{World, hash_of, manifest};
use toolcrib_testkit::servers::{NOW, Script, Step, ok};

/// A clock on which seconds last a tenth of a second, so that tests end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hurried(pub(crate) Instant);

impl Clock for Hurried {
    fn now(&self) -> UnixTime {
        NOW.plus(i64::try_from(self.0.elapsed().as_millis() / 100).expect("small"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_is_asked_by_one_worker_at_a_time() {
    const TOOLS: usize = 6;
    let world = World::start().await;
    let asked: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let bytes = manifest("busy.example").to_string().into_bytes();
    let hash = hash_of(&bytes);
    let seen = asked.clone();
    let steps = vec![
        Step::ReadRequest,
        Step::Sleep(Duration::from_millis(80)),
        Step::answer(move |_| {
            seen.lock().expect("unpoisoned").push(Instant::now());
            ok(&bytes)
        }),
    ];
    let leaf = world.net.authority.leaf(&["busy.example"]);
    let _server = world.net.serve("busy.example", Script::tls(&leaf, steps)).await;
    let mut ids = Vec::new();
    for number in 0..TOOLS {
        let uri = format!("https://busy.example/.well-known/ai-tool/t{number}.json");
        ids.push(world.register(0, &uri, hash, None));
    }
    let (other, _other) = world.tool("other.example", |_| {}).await;
    for stage in world.stages().await {
        asked.lock().expect("unpoisoned").clear();
        for id in ids.iter().copied().chain([other]) {
            stage.follow(&world, id).await;
        }
        let (clock, poll) = (Hurried(Instant::now()), Duration::from_millis(20));
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let options = WorkOptions { pause: 2, poll, ..WorkOptions::default() };
                let worker = Worker::new(stage.queue.clone(), world.live(), Arc::new(clock), options);
                let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
                (stop, tokio::spawn(async move { worker.run(async { drop(stopped.await) }).await }))
            })
            .collect();
        let begun = Instant::now();
        while stage.listed().await.len() < TOOLS + 1 {
            assert!(begun.elapsed() < Duration::from_secs(60), "it goes on");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for (stop, running) in workers {
            drop(stop);
            running.await.expect("it ends");
        }
        let mut times = asked.lock().expect("unpoisoned").clone();
        times.sort();
        assert_eq!(times.len(), TOOLS, "each tool was looked at once");
        let shortest = times.windows(2).map(|pair| pair[1] - pair[0]).min().expect("some");
        // Two of the clock's seconds after the one before was answered, and the server takes its own time.
        assert!(shortest >= Duration::from_millis(200 + 80), "{shortest:?}");
    }
}
