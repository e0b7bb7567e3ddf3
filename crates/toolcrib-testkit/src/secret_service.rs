//! A D-Bus session with a Secret Service, for tests of keychains.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::skip;

/// The password of the tests' collection.
const PASSWORD: &str = "a password for tests";

/// Timeout of starting a program.
const START: Duration = Duration::from_secs(20);

/// A separate bus with GNOME Keyring, whose default collection is unlocked. Both stop when this is dropped.
#[derive(Debug)]
pub struct SecretService {
    folder: PathBuf,
    bus: Child,
    keyring: Option<Child>,
}

impl SecretService {
    /// Starts both in `folder`, or records the calling test as skipped if the programs are not installed.
    ///
    /// # Panics
    ///
    /// If a program is installed and does not start.
    #[must_use]
    pub fn start(folder: &Path) -> Option<Self> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        for program in ["dbus-daemon", "dbus-send", "gnome-keyring-daemon"] {
            if !std::env::split_paths(&paths).any(|folder| folder.join(program).is_file()) {
                skip("secret-service", &format!("{program} is not installed"));
                return None;
            }
        }
        for name in ["run", "data"] {
            fs::create_dir_all(folder.join(name)).expect("a folder");
            #[cfg(unix)]
            fs::set_permissions(folder.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("a mode");
        }
        // The default configuration would start services by name, with an unknown keyring.
        let config = folder.join("bus.conf");
        let text = format!(
            "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\" \
             \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n<busconfig><type>session</type><listen>{}</listen>\
             <auth>EXTERNAL</auth><policy context=\"default\"><allow send_destination=\"*\" eavesdrop=\"true\"/>\
             <allow eavesdrop=\"true\"/><allow own=\"*\"/></policy></busconfig>\n",
            address(folder)
        );
        fs::write(&config, text).expect("a file");
        let bus = command(folder, "dbus-daemon").arg("--nofork").arg("--nopidfile").arg("--config-file").arg(config).spawn();
        let mut service = Self { folder: folder.to_owned(), bus: bus.expect("dbus-daemon starts"), keyring: None };
        service.unlock();
        Some(service)
    }

    /// Returns the environment variable by which programs find the bus.
    #[must_use]
    pub fn variable(&self) -> (&'static str, String) {
        ("DBUS_SESSION_BUS_ADDRESS", address(&self.folder))
    }

    /// Locks the default collection.
    ///
    /// # Panics
    ///
    /// If the service refuses.
    pub fn lock(&self) {
        let collection = "array:objpath:/org/freedesktop/secrets/aliases/default";
        let locked =
            self.send("org.freedesktop.secrets", "/org/freedesktop/secrets", "org.freedesktop.Secret.Service.Lock", collection);
        assert!(locked.is_some(), "the collection is not locked");
    }

    /// Restarts the keyring, unlocked.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn unlock(&mut self) {
        self.stop();
        let mut keyring = command(&self.folder, "gnome-keyring-daemon");
        keyring.args(["--foreground", "--unlock", "--components=secrets"]).stdin(Stdio::piped());
        let mut keyring = keyring.spawn().expect("gnome-keyring-daemon starts");
        // Closed at once: the password ends with the input.
        keyring.stdin.take().expect("a pipe").write_all(PASSWORD.as_bytes()).expect("the password is read");
        self.keyring = Some(keyring);
        let began = Instant::now();
        while !self.has_collection() {
            assert!(began.elapsed() < START, "the keyring does not answer");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Stops the keyring, but not the bus.
    pub fn stop(&mut self) {
        if let Some(mut keyring) = self.keyring.take() {
            let _ = keyring.kill();
            let _ = keyring.wait();
        }
    }

    fn has_collection(&self) -> bool {
        let service = ("org.freedesktop.secrets", "/org/freedesktop/secrets");
        let alias = self.send(service.0, service.1, "org.freedesktop.Secret.Service.ReadAlias", "string:default");
        alias.is_some_and(|answer| answer.contains("/org/freedesktop/secrets/collection/"))
    }

    /// Returns a method's reply. `None` for an error.
    fn send(&self, destination: &str, object: &str, method: &str, argument: &str) -> Option<String> {
        let mut send = command(&self.folder, "dbus-send");
        send.args([
            "--session",
            "--print-reply",
            "--reply-timeout=5000",
            &format!("--dest={destination}"),
            object,
            method,
            argument,
        ]);
        let output = send.stdout(Stdio::piped()).output().expect("dbus-send runs");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for SecretService {
    fn drop(&mut self) {
        self.stop();
        let _ = self.bus.kill();
        let _ = self.bus.wait();
    }
}

fn address(folder: &Path) -> String {
    format!("unix:path={}", folder.join("bus").display())
}

/// Returns a program with a minimal environment, without output.
fn command(folder: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", folder);
    command.env("XDG_RUNTIME_DIR", folder.join("run")).env("XDG_DATA_HOME", folder.join("data"));
    command.env("DBUS_SESSION_BUS_ADDRESS", address(folder));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
