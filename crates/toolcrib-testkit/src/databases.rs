//! A PostgreSQL server for tests, and stores on every backend.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256};
use toolcrib_core::clock::UnixTime;
use toolcrib_store::replay::{Limits, MemoryReplay, ReplayKey, ReplayStore, Reservation, SqlReplay};
use toolcrib_store::{Database, Location};

/// The start time of tests.
pub const NOW: UnixTime = at(0);

/// Returns the time this number of seconds after the start.
pub const fn at(seconds: i64) -> UnixTime {
    UnixTime::from_seconds(1_800_000_000 + seconds)
}

/// Returns the key of a payment with this nonce.
pub fn key(nonce: u64) -> ReplayKey {
    ReplayKey {
        chain: 8453,
        asset: Address::repeat_byte(0xa5),
        from: Address::repeat_byte(0xf0),
        nonce: B256::left_padding_from(&nonce.to_be_bytes()),
    }
}

/// Returns a reservation for 900 seconds and the skew, with a lease of a minute.
pub fn reservation(now: UnixTime) -> Reservation<'static> {
    let after = |seconds| UnixTime::from_seconds(now.seconds() + seconds);
    Reservation {
        expires_at: after(960),
        lease_until: after(60),
        route: "weather",
        body_hash: B256::repeat_byte(0xb0),
        proof: None,
        payment_id: None,
    }
}

/// The backend of a test's stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// In memory, without a database.
    Memory,
    /// SQLite in memory.
    SqliteMemory,
    /// A SQLite file.
    SqliteFile,
    /// PostgreSQL.
    Postgres,
}

/// All backends.
pub const ALL: [Backend; 4] = [Backend::Memory, Backend::SqliteMemory, Backend::SqliteFile, Backend::Postgres];
/// Backends that survive their process and are shared by several.
pub const DURABLE: [Backend; 2] = [Backend::SqliteFile, Backend::Postgres];

/// A database for one test: its own file, or its own schema.
#[derive(Debug)]
pub struct TestStore {
    backend: Backend,
    /// The setting, for other processes.
    pub setting: String,
    _folder: Option<tempfile::TempDir>,
}

impl TestStore {
    /// Creates it. `None`, recorded as a skip of the calling test, if PostgreSQL is needed and not installed.
    pub async fn new(backend: Backend) -> Option<Self> {
        let (setting, folder) = match backend {
            Backend::Memory | Backend::SqliteMemory => ("memory".to_owned(), None),
            Backend::SqliteFile => {
                let folder = tempfile::tempdir().expect("a folder");
                (format!("sqlite:{}", folder.path().join("store.db").display()), Some(folder))
            }
            Backend::Postgres => (Server::shared()?.schema().await, None),
        };
        Some(Self { backend, setting, _folder: folder })
    }

    /// Returns a SQLite file at a path.
    pub fn at(path: &Path) -> Self {
        Self { backend: Backend::SqliteFile, setting: format!("sqlite:{}", path.display()), _folder: None }
    }

    /// Returns the same database again.
    pub fn again(other: &Self) -> Self {
        Self { backend: other.backend, setting: other.setting.clone(), _folder: None }
    }

    /// Creates a schema on a server that is not shared.
    pub async fn on(server: &Server) -> Self {
        Self { backend: Backend::Postgres, setting: server.schema().await, _folder: None }
    }

    /// Returns the same schema on another server, such as a replica of the first.
    pub fn again_at(other: &Self, server: &Server, at: &Server) -> Self {
        Self { backend: other.backend, setting: server.setting_at(&other.setting, at), _folder: None }
    }

    /// Whether it is SQLite.
    pub fn is_sqlite(&self) -> bool {
        matches!(self.backend, Backend::SqliteMemory | Backend::SqliteFile)
    }

    /// Returns the location in the setting.
    pub fn location(&self) -> Location {
        Location::parse(&self.setting).expect("a location")
    }

    /// Opens the database.
    pub async fn database(&self) -> Database {
        Database::open(&self.location()).await.expect("an open database")
    }

    /// Opens a replay store.
    pub async fn store(&self, limits: Limits) -> Arc<dyn ReplayStore> {
        match self.backend {
            Backend::Memory => Arc::new(MemoryReplay::new(limits)),
            _ => Arc::new(SqlReplay::open(self.database().await, limits).await.expect("an open store")),
        }
    }
}

/// A PostgreSQL server that stops when this process ends, however it ends: it waits for the end of a pipe.
#[derive(Debug)]
pub struct Server {
    keeper: Child,
    folder: PathBuf,
    /// Its TCP port.
    pub port: u16,
}

/// The password of the test server's only TCP user.
pub const PASSWORD: &str = "correct-horse-battery";

static SERVER: OnceLock<Server> = OnceLock::new();
static SCHEMA: AtomicU32 = AtomicU32::new(0);

/// Creates the cluster as a user other than root, starts the server, and stops it when its input ends.
const KEEPER: &str = r#"
set -e
folder=$1 binaries=$2 port=$3 source=$4 source_port=$5 disk=$6; shift 6
if [ "$(id -u)" = 0 ]; then
    owner=nobody; getent passwd postgres >/dev/null && owner=postgres
    chown -R "$owner" "$folder"
    as() { setpriv --reuid="$owner" --regid="$(id -g "$owner")" --clear-groups env HOME="$folder" "$@"; }
else
    as() { "$@"; }
fi
cd "$folder"
if [ -n "$source" ]; then
    as "$binaries/pg_basebackup" -D data -R -X stream -c fast -h "$source" -p "$source_port" -U toolcrib --no-sync >initdb.log 2>&1
else
    log=
    if [ -n "$disk" ]; then
        ln -s "$disk" data
        log=--waldir=$folder/wal
    fi
    as "$binaries/initdb" -D data $log -U toolcrib --pwfile=password --auth-local=trust --auth-host=scram-sha-256 -E UTF8 --locale=C --no-sync >initdb.log 2>&1
    # A checkpoint on a full disk ends the server.
    [ -z "$disk" ] || echo "checkpoint_timeout = 1d" >>data/postgresql.conf
fi
# A process of the list may be gone when it gets its signal, which `kill` calls a failure.
all() {
    postmaster=$(head -n 1 data/postmaster.pid)
    echo "$postmaster" $(cat "/proc/$postmaster/task/$postmaster/children")
}
start() {
    as "$binaries/postgres" -D data -k "$folder" -p "$port" -c listen_addresses=127.0.0.1 -c max_connections=200 >server.log 2>&1 </dev/null &
}
start
while read -r command; do
    case $command in
    kill)
        segment=$(sed -n 7p data/postmaster.pid | { read -r key id; echo "$id"; })
        kill -KILL $(all) || true
        wait
        ipcrm -m "$segment" 2>/dev/null || true
        ;;
    freeze) kill -STOP $(all) || true ;;
    thaw) kill -CONT $(all) || true ;;
    stop)
        kill -QUIT "$(head -n 1 data/postmaster.pid)"
        wait
        ;;
    start) start ;;
    esac
done
# Not the last background process: that is the shell that started the server.
kill -CONT $(all) 2>/dev/null || true
kill -INT "$(head -n 1 data/postmaster.pid)" || true
wait || true
rm -rf "$folder"
"#;

impl Server {
    /// Returns the server of this process. `None`, recorded as a skip of the calling test, if PostgreSQL is not installed.
    ///
    /// # Panics
    ///
    /// If it is installed and does not start: that is a failure, not a missing input.
    pub fn shared() -> Option<&'static Self> {
        let binaries = crate::postgres()?;
        Some(SERVER.get_or_init(|| Self::start(&binaries, None, None).unwrap_or_else(|reason| panic!("PostgreSQL: {reason}"))))
    }

    /// Starts a server for one test, which may stop it. `None` as for [`shared`](Self::shared).
    pub fn own() -> Option<Self> {
        let binaries = crate::postgres()?;
        Some(Self::start(&binaries, None, None).unwrap_or_else(|reason| panic!("PostgreSQL: {reason}")))
    }

    /// Starts a server for one test with its tables on another disk, in this empty folder that belongs to the user of this process. The
    /// write-ahead log is on the normal disk, and checkpoints are delayed: without room for these the server crashes. `None` as for
    /// [`shared`](Self::shared).
    pub fn on_disk(disk: &Path) -> Option<Self> {
        let binaries = crate::postgres()?;
        Some(Self::start(&binaries, None, Some(disk)).unwrap_or_else(|reason| panic!("PostgreSQL: {reason}")))
    }

    /// Starts a replica of this server: a base backup that then follows its write-ahead log.
    pub fn replica(&self) -> Self {
        let binaries = crate::postgres().expect("it runs");
        Self::start(&binaries, Some(self), None).unwrap_or_else(|reason| panic!("PostgreSQL: {reason}"))
    }

    /// Returns the setting of the same schema on another server.
    pub fn setting_at(&self, setting: &str, other: &Self) -> String {
        assert!(setting.contains(&self.place()), "{setting} is not at this server");
        setting.replace(&self.place(), &other.place())
    }

    /// Runs a statement with no or one result row, as the server's superuser.
    pub async fn admin(&self, sql: &'static str) {
        let url = format!("postgres://toolcrib@{}/postgres", self.place());
        let database = Database::open(&Location::postgres(url).expect("a URL").connections(1)).await.expect("the server");
        database.fetch(sql, &[]).await.expect("done");
        database.close().await;
    }

    /// Kills all processes of the server at once, and waits until connections are refused.
    pub fn kill(&mut self) {
        self.tell("kill");
        self.wait_for(false);
    }

    /// Suspends or resumes all processes of the server: while suspended, connections stay open without a response.
    pub fn freeze(&mut self, is_frozen: bool) {
        self.tell(if is_frozen { "freeze" } else { "thaw" });
    }

    /// Returns where it listens, as in URLs.
    fn place(&self) -> String {
        format!("{}:{}", self.folder.display().to_string().replace('/', "%2F"), self.port)
    }

    /// Stops the server as a crash does, and waits until connections are refused.
    pub fn stop(&mut self) {
        self.tell("stop");
        self.wait_for(false);
    }

    /// Starts it again.
    pub fn restart(&mut self) {
        self.tell("start");
        self.wait_for(true);
    }

    fn tell(&mut self, command: &str) {
        use std::io::Write as _;
        let keeper = self.keeper.stdin.as_mut().expect("a keeper");
        writeln!(keeper, "{command}").expect("told");
    }

    /// Waits until connections are accepted, or refused.
    fn wait_for(&self, is_there: bool) {
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() != is_there {
            assert!(begun.elapsed() < Duration::from_secs(60), "the server neither stops nor starts");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the server of this process, if it was started.
    pub fn running() -> Option<&'static Self> {
        SERVER.get()
    }

    fn start(binaries: &Path, source: Option<&Self>, disk: Option<&Path>) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("toolcrib-pg-").tempdir().map_err(|error| error.to_string())?.keep();
        std::fs::write(folder.join("password"), PASSWORD).map_err(|error| error.to_string())?;
        let port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
            listener.local_addr().map_err(|error| error.to_string())?.port()
        };
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(&folder)
            .arg(binaries)
            .arg(port.to_string())
            .arg(source.map(|source| source.folder.clone()).unwrap_or_default())
            .arg(source.map(|source| source.port.to_string()).unwrap_or_default())
            .arg(disk.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let begun = Instant::now();
        while !std::fs::read_to_string(folder.join("server.log")).is_ok_and(|log| log.contains("ready to accept")) {
            let ended = keeper.try_wait().map_err(|error| error.to_string())?.is_some();
            if ended || begun.elapsed() > Duration::from_secs(120) {
                let log = |name| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
                return Err(format!("the server did not start: {} {}", log("initdb.log"), log("server.log")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self { keeper, folder, port })
    }

    /// Returns its process ID.
    pub fn process(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.folder.join("data/postmaster.pid")).ok()?;
        text.lines().next().map(str::to_owned)
    }

    /// Creates an empty schema and returns its URL.
    async fn schema(&self) -> String {
        let name = format!("t{}_{}", std::process::id(), SCHEMA.fetch_add(1, Ordering::Relaxed));
        let base = format!("postgres://toolcrib@{}/postgres", self.place());
        let database = Database::open(&Location::postgres(&base).expect("a URL").connections(1)).await.expect("the server");
        // The name is a constant; statements accept no names as parameters.
        let statement: &'static str = Box::leak(format!("CREATE SCHEMA {name}").into_boxed_str());
        database.execute(statement, &[]).await.expect("a schema");
        database.close().await;
        format!("{base}?options=-c%20search_path%3D{name}")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
