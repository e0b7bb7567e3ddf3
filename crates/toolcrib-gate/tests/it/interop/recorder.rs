//! A proxy between a client and a gate that may be killed: it keeps one address, forwards everything, and records payments byte for byte.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::attacks::http::read_message;

/// Tells calls apart. Gates do not read it.
pub(crate) const CALL: &str = "x-call";

/// Headers that carry a payment.
const PAYMENTS: [&str; 2] = ["x-payment", "payment-signature"];

/// A request with a payment.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) call: String,
    /// The header that has the payment, and the payment.
    pub(crate) payment: (&'static str, String),
}

/// The recorder. It ends with the test.
#[derive(Clone)]
pub(crate) struct Recorder {
    pub(crate) at: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    target: Mutex<Option<SocketAddr>>,
    sent: Mutex<Vec<Sent>>,
    /// How many payments have come.
    count: watch::Sender<usize>,
    /// How long the last payment took that was answered, in milliseconds.
    took: AtomicU64,
}

impl Recorder {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let (at, state) = (listener.local_addr().expect("bound"), Arc::<State>::default());
        let recording = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass(stream, recording.clone()));
            }
        });
        Self { at, state }
    }

    /// Passes requests on to this address from now on.
    pub(crate) fn set(&self, target: SocketAddr) {
        *self.state.target.lock().expect("no panic") = Some(target);
    }

    /// Changes with each payment that comes from now on.
    pub(crate) fn arrivals(&self) -> watch::Receiver<usize> {
        self.state.count.subscribe()
    }

    /// How long the last payment took that was answered; `None` before the first.
    pub(crate) fn took(&self) -> Option<Duration> {
        let took = self.state.took.load(Ordering::Relaxed);
        (took > 0).then(|| Duration::from_millis(took))
    }

    /// Payments that a call has sent.
    pub(crate) fn of(&self, call: &str) -> Vec<Sent> {
        self.state.sent.lock().expect("no panic").iter().filter(|sent| sent.call == call).cloned().collect()
    }
}

async fn pass(mut stream: TcpStream, state: Arc<State>) -> Option<()> {
    let _ = stream.set_nodelay(true);
    let mut asked = Vec::new();
    loop {
        let (head, body) = read_message(&mut stream, &mut asked, false).await?;
        let header = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
        };
        let payment = PAYMENTS.into_iter().find_map(|name| Some((name, header(name)?)));
        let (began, is_payment) = (Instant::now(), payment.is_some());
        if let (Some(call), Some(payment)) = (header(CALL), payment) {
            state.sent.lock().expect("no panic").push(Sent { call, payment });
            state.count.send_modify(|count| *count += 1);
        }
        let target = (*state.target.lock().expect("no panic"))?;
        let mut onward = TcpStream::connect(target).await.ok()?;
        let _ = onward.set_nodelay(true);
        onward.write_all(&[head.as_bytes(), &body].concat()).await.ok()?;
        let (head, body) = read_message(&mut onward, &mut Vec::new(), false).await?;
        if is_payment {
            state.took.store(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1), Ordering::Relaxed);
        }
        stream.write_all(&[head.as_bytes(), &body].concat()).await.ok()?;
    }
}
