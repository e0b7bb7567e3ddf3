//! Installing tools with real folders, archives, repositories and interrupted processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value as Json, json};
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_core::codes::install as code;
use toolcrib_host::local::hash_folder;
use toolcrib_host::local::import::{Bundle, from_entry, from_mcp_tools};
use toolcrib_host::local::install::{
    AddOptions, Change, GitOptions, InstallError, Installer, LockFile, LockState, Source, ToolFile, UpdateOptions,
};

const NOW: FixedClock = FixedClock(UnixTime::from_seconds(1_800_000_000));

struct Setup {
    folder: tempfile::TempDir,
}

impl Setup {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tools(&self) -> PathBuf {
        self.path("tools")
    }

    fn installer(&self) -> Installer<FixedClock> {
        Installer::new(self.tools(), self.path("state/lock.json"), NOW)
    }

    fn lock(&self) -> LockFile {
        LockFile::read(&self.path("state/lock.json")).unwrap()
    }

    /// The names in the folder of tools. Checks that the staging folder is empty.
    fn visible(&self) -> Vec<String> {
        let staging = self.path(".tools.toolcrib-staging");
        let left: Vec<_> =
            fs::read_dir(staging).unwrap().map(|entry| entry.unwrap().file_name()).filter(|name| name != "mutex").collect();
        assert!(left.is_empty(), "{left:?}");
        names(&self.tools())
    }

    fn source(&self, id: &str, body: &str) -> Source {
        let path = self.path(&format!("source-{id}"));
        write_tool(&path, id, body);
        Source::Folder { path }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn manifest(id: &str, functions: &[&str]) -> String {
    let functions: Vec<_> =
        functions.iter().map(|name| json!({"name": name, "description": "d", "parameters": {"type": "object"}})).collect();
    json!({"id": id, "name": "T", "description": "d", "version": "1.0.0", "functions": functions}).to_string()
}

fn write_tool(folder: &Path, id: &str, body: &str) {
    fs::create_dir_all(folder.join("lib")).unwrap();
    fs::write(folder.join("manifest.json"), manifest(id, &["run"])).unwrap();
    fs::write(folder.join("lib/index.mjs"), body).unwrap();
}

#[test]
fn a_folder_is_added_verified_and_removed() {
    let place = Setup::new();
    let source = place.source("demo", "1");
    let installed = place.installer().add(&source, &AddOptions::default()).unwrap();
    assert_eq!((installed.id.as_str(), place.visible()), ("demo", vec!["demo".to_owned()]));
    assert_eq!(installed.entry.content, hash_folder(&installed.folder).unwrap());
    assert_eq!(installed.entry.time, "2027-01-15T08:00:00Z");
    assert_eq!(place.lock().tools["demo"], installed.entry);
    assert_eq!(place.installer().verify_lock().unwrap(), [("demo".to_owned(), LockState::Unchanged)]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(place.path("state/lock.json")), mode(place.path(".tools.toolcrib-staging"))), (0o600, 0o700));
    }

    // Installing it again is refused, also with different case.
    let error = place.installer().add(&source, &AddOptions::default()).unwrap_err();
    assert_eq!(error.code(), code::EXISTS);
    let error = place.installer().add(&place.source("DEMO", "1"), &AddOptions::default()).unwrap_err();
    assert_eq!(error.code(), code::EXISTS);

    // Local modifications are detected, and not removed without an option.
    fs::write(installed.folder.join("lib/index.mjs"), "changed").unwrap();
    write_tool(&place.tools().join("by-hand"), "by-hand", "x");
    let states = place.installer().verify_lock().unwrap();
    assert_eq!(states[0], ("by-hand".to_owned(), LockState::Unlocked));
    assert!(matches!(states[1].1, LockState::Changed { .. }));
    assert_eq!(place.installer().remove("demo", false).unwrap_err().code(), code::CHANGED_LOCALLY);
    assert_eq!(place.installer().remove("by-hand", true).unwrap_err().code(), code::NOT_INSTALLED);
    assert_eq!(place.installer().remove("../demo", true).unwrap_err().code(), code::NOT_INSTALLED);
    place.installer().remove("demo", true).unwrap();
    assert_eq!(place.visible(), ["by-hand"]);
    assert!(place.lock().tools.is_empty());
}

#[test]
fn digests_pin_the_content() {
    let place = Setup::new();
    let source = place.source("demo", "1");
    let other = hash_folder(&place.path("source-demo/lib")).unwrap();
    let error = place.installer().add(&source, &AddOptions { digest: Some(other), ..AddOptions::default() }).unwrap_err();
    assert_eq!(error.code(), code::DIGEST);
    assert!(place.visible().is_empty());
    let right = hash_folder(&place.path("source-demo")).unwrap();
    place.installer().add(&source, &AddOptions { digest: Some(right), ..AddOptions::default() }).unwrap();
}

#[test]
fn what_is_not_a_tool_is_refused_and_leaves_nothing() {
    let place = Setup::new();
    let path = place.path("bad");
    fs::create_dir(&path).unwrap();
    let source = Source::Folder { path: path.clone() };
    let add = || place.installer().add(&source, &AddOptions::default()).unwrap_err().code();
    assert_eq!(add(), code::MANIFEST);
    for text in ["", "{}", "[", &manifest("../evil", &["run"]), &manifest("demo", &[]), &" ".repeat(2 << 20)] {
        fs::write(path.join("manifest.json"), text).unwrap();
        assert_eq!(add(), code::MANIFEST, "{}", &text[..text.len().min(60)]);
    }
    fs::write(path.join("manifest.json"), manifest("demo", &["run"])).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("/etc/passwd", path.join("link")).unwrap();
        assert_eq!(add(), code::FOLDER_LINK);
        fs::remove_file(path.join("link")).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(path.join("socket")).unwrap();
        assert_eq!(add(), code::FOLDER_SPECIAL);
        drop(socket);
    }
    assert!(place.visible().is_empty());
    assert!(place.lock().tools.is_empty());
    fs::write(place.path("state/lock.json"), "{").unwrap();
    assert_eq!(place.installer().verify_lock().unwrap_err().code(), code::LOCK);
}

#[cfg(unix)]
#[test]
fn modes_are_reduced_and_links_within_are_kept() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let place = Setup::new();
    let Source::Folder { path } = place.source("demo", "1") else { unreachable!() };
    fs::write(path.join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(path.join("run.sh"), fs::Permissions::from_mode(0o4777)).unwrap();
    symlink("lib/index.mjs", path.join("main.mjs")).unwrap();
    fs::create_dir(path.join(".git")).unwrap();
    fs::write(path.join(".git/config"), "x").unwrap();
    let installed = place.installer().add(&Source::Folder { path: path.clone() }, &AddOptions::default()).unwrap();
    assert_eq!(names(&installed.folder), ["lib", "main.mjs", "manifest.json", "run.sh"]);
    assert_eq!(fs::metadata(installed.folder.join("run.sh")).unwrap().permissions().mode() & 0o7022, 0);
    assert_eq!(installed.entry.content, hash_folder(&path).unwrap());
}

#[test]
fn an_update_shows_what_changes_before_it_does() {
    let place = Setup::new();
    let source = place.source("demo", "1");
    let installed = place.installer().add(&source, &AddOptions::default()).unwrap();
    let installer = place.installer();
    let nothing = installer.update("demo", &UpdateOptions::default()).unwrap();
    assert!(nothing.diff().is_empty() && nothing.diff().permissions_asked_again.is_empty());
    drop(nothing);

    let folder = place.path("source-demo");
    let mut changed: Json = serde_json::from_str(&manifest("demo", &["run", "more"])).unwrap();
    changed["version"] = "2.0.0".into();
    changed["description"] = "another".into();
    changed["functions"][0]["parameters"] = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    fs::write(folder.join("manifest.json"), changed.to_string()).unwrap();
    fs::write(folder.join("new.txt"), "n").unwrap();
    fs::remove_file(folder.join("lib/index.mjs")).unwrap();
    let update = installer.update("demo", &UpdateOptions::default()).unwrap();
    let diff = update.diff();
    let files: Vec<_> = diff.files.iter().map(|file| (file.path.as_str(), file.change)).collect();
    assert_eq!(files, [("lib/index.mjs", Change::Removed), ("manifest.json", Change::Changed), ("new.txt", Change::Added)]);
    let fields: Vec<_> = diff.fields.iter().map(|field| field.field.as_str()).collect();
    assert_eq!((fields, diff.new_version.as_str()), (vec!["description", "version"], "2.0.0"));
    let functions: Vec<_> =
        diff.functions.iter().map(|function| (function.name.as_str(), function.change, function.members.clone())).collect();
    assert_eq!(functions, [("more", Change::Added, vec![]), ("run", Change::Changed, vec!["parameters".to_owned()])]);
    assert_eq!(diff.permissions_asked_again, ["run", "more"]);
    assert_eq!(hash_folder(&installed.folder).unwrap(), installed.entry.content, "nothing changed yet");

    // A concurrent run does not treat the staged folder as abandoned.
    place.installer().recover().unwrap();
    let applied = update.apply().unwrap();
    assert_eq!(applied.entry.content, hash_folder(&folder).unwrap());
    assert_eq!(place.visible(), ["demo"]);
    assert_eq!(place.installer().verify_lock().unwrap(), [("demo".to_owned(), LockState::Unchanged)]);

    // The old version stays if the new one is invalid, has another id or does not have the pinned content.
    let refused = |options: &UpdateOptions| installer.update("demo", options).map(drop).unwrap_err().code();
    let pinned = UpdateOptions { digest: Some(installed.entry.content), ..UpdateOptions::default() };
    assert_eq!(refused(&pinned), code::DIGEST);
    fs::write(folder.join("manifest.json"), manifest("other", &["run"])).unwrap();
    assert_eq!(refused(&UpdateOptions::default()), code::ID_CHANGED);
    fs::write(folder.join("manifest.json"), "{").unwrap();
    assert_eq!(refused(&UpdateOptions::default()), code::MANIFEST);
    assert_eq!(installer.update("none", &UpdateOptions::default()).map(drop).unwrap_err().code(), code::NOT_INSTALLED);
    assert_eq!(place.installer().verify_lock().unwrap(), [("demo".to_owned(), LockState::Unchanged)]);

    // Modified locally between the two steps.
    fs::write(folder.join("manifest.json"), manifest("demo", &["run"])).unwrap();
    let update = installer.update("demo", &UpdateOptions::default()).unwrap();
    fs::write(place.tools().join("demo/by-hand"), "x").unwrap();
    assert_eq!(update.apply().unwrap_err().code(), code::CHANGED_LOCALLY);
    assert_eq!(refused(&UpdateOptions::default()), code::CHANGED_LOCALLY);
    installer.update("demo", &UpdateOptions { discard_changes: true, ..UpdateOptions::default() }).unwrap().apply().unwrap();
    assert_eq!(names(&place.tools().join("demo")), ["manifest.json", "new.txt"]);
}

const STEPS: [&str; 4] = ["staged", "journal", "renamed", "locked"];

/// The child process of the test below: exits without cleanup.
#[test]
fn interrupted_child() {
    let Some(folder) = std::env::var_os("TOOLCRIB_INSTALL_CHILD").map(PathBuf::from) else { return };
    let installer = Installer::new(folder.join("tools"), folder.join("state/lock.json"), NOW).with_interrupt(|step| {
        if std::env::var("TOOLCRIB_INSTALL_STEP").is_ok_and(|wanted| wanted == step) {
            std::process::abort();
        }
    });
    match std::env::var("TOOLCRIB_INSTALL_DO").as_deref() {
        Ok("add") => drop(installer.add(&Source::Folder { path: folder.join("source-demo") }, &AddOptions::default())),
        Ok("update") => drop(installer.update("demo", &UpdateOptions::default()).unwrap().apply()),
        Ok("remove") => drop(installer.remove("demo", false)),
        other => panic!("{other:?}"),
    }
}

fn interrupt(place: &Setup, what: &str, step: &str) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["local_install::interrupted_child", "--exact", "--test-threads=1"])
        .env("TOOLCRIB_INSTALL_CHILD", place.folder.path())
        .env("TOOLCRIB_INSTALL_DO", what)
        .env("TOOLCRIB_INSTALL_STEP", step)
        .output()
        .unwrap()
        .status;
    assert!(!status.success(), "{what} at {step} was not interrupted");
}

/// At any time the folder of tools contains the old or the new version, never a part, and the next run agrees with the lock file.
#[test]
fn an_interrupted_run_is_finished_or_undone() {
    for what in ["add", "update", "remove"] {
        for step in STEPS {
            if what == "remove" && step == "staged" {
                continue;
            }
            let place = Setup::new();
            let source = place.source("demo", "1");
            let old = hash_folder(&place.path("source-demo")).unwrap();
            if what != "add" {
                place.installer().add(&source, &AddOptions::default()).unwrap();
                place.source("demo", "2");
            }
            let new = hash_folder(&place.path("source-demo")).unwrap();
            interrupt(&place, what, step);
            let done = matches!(step, "renamed" | "locked");
            let expected = match (what, done) {
                ("add", true) | ("update", true) => Some(new),
                ("add", false) | ("remove", true) => None,
                _ => Some(old),
            };
            let folder = place.tools().join("demo");
            let found = folder.exists().then(|| hash_folder(&folder).unwrap());
            assert_eq!(found, expected, "{what} at {step}: before the next run");
            place.installer().recover().unwrap();
            let found = folder.exists().then(|| hash_folder(&folder).unwrap());
            assert_eq!(found, expected, "{what} at {step}: after it");
            assert_eq!(place.lock().tools.get("demo").map(|entry| entry.content), expected, "{what} at {step}: the lock file");
            assert_eq!(place.visible().len(), usize::from(expected.is_some()), "{what} at {step}");
        }
    }
}

/// Concurrent runs of several processes and threads are serialized.
#[test]
fn of_many_at_once_one_installs() {
    let place = Setup::new();
    let source = place.source("demo", "1");
    let others: Vec<_> = (0..4).map(|n| place.source(&format!("other-{n}"), "1")).collect();
    let added: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> =
            (0..4).map(|_| scope.spawn(|| place.installer().add(&source, &AddOptions::default()).map(drop))).collect();
        let beside: Vec<_> =
            others.iter().map(|other| scope.spawn(|| place.installer().add(other, &AddOptions::default()).map(drop))).collect();
        for run in beside {
            run.join().unwrap().unwrap();
        }
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(added.iter().filter(|result| result.is_ok()).count(), 1);
    assert!(added.iter().filter_map(|result| result.as_ref().err()).all(|error| error.code() == code::EXISTS));
    assert_eq!(place.visible().len(), 5);
    assert_eq!(place.lock().tools.len(), 5);
}

/// Without an atomic exchange, the old version is missing for a moment.
#[test]
fn a_version_that_was_moved_away_comes_back() {
    let place = Setup::new();
    let source = place.source("demo", "1");
    let installed = place.installer().add(&source, &AddOptions::default()).unwrap();
    let run = place.path(".tools.toolcrib-staging/run-x");
    fs::create_dir_all(run.join("old")).unwrap();
    let mut entry = installed.entry.clone();
    entry.content = hash_folder(&place.path("source-demo/lib")).unwrap();
    fs::write(run.join("journal.json"), json!({"id": "demo", "entry": entry}).to_string()).unwrap();
    fs::rename(&installed.folder, run.join("old/demo")).unwrap();
    place.installer().recover().unwrap();
    assert_eq!(place.visible(), ["demo"]);
    assert_eq!(place.installer().verify_lock().unwrap(), [("demo".to_owned(), LockState::Unchanged)]);
    // Journals with paths outside the folder are ignored.
    for journal in [json!({"id": "../state", "entry": null}).to_string(), "{".to_owned(), String::new()] {
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join("journal.json"), journal).unwrap();
        place.installer().recover().unwrap();
        assert!(place.path("state/lock.json").exists());
    }
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.com",
            "-c",
            "init.defaultBranch=main",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn has_git() -> bool {
    let there = Command::new("git").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        toolcrib_testkit::skip("git", "git is not installed");
    }
    there
}

fn repository(place: &Setup) -> (PathBuf, String) {
    let folder = place.path("repository");
    fs::create_dir(&folder).unwrap();
    git(&folder, &["init", "-q"]);
    write_tool(&folder.join("tools/demo"), "demo", "1");
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "-qm", "one"]);
    git(&folder, &["tag", "-a", "v1", "-m", "v1"]);
    let url = format!("file://{}", folder.display());
    (folder, url)
}

fn from_git(url: &str, revision: Option<&str>, subfolder: Option<&str>) -> Source {
    Source::Git { url: url.to_owned(), revision: revision.map(str::to_owned), subfolder: subfolder.map(str::to_owned) }
}

fn git_options() -> AddOptions {
    AddOptions { git: GitOptions { allow_file: true, ..GitOptions::default() }, ..AddOptions::default() }
}

#[test]
fn repositories() {
    if !has_git() {
        return;
    }
    let place = Setup::new();
    let (folder, url) = repository(&place);
    let first = git(&folder, &["rev-parse", "HEAD"]);
    let source = from_git(&url, None, Some("tools/demo"));
    // `file:` URLs need an option.
    assert_eq!(place.installer().add(&source, &AddOptions::default()).unwrap_err().code(), code::GIT_URL);
    let installed = place.installer().add(&source, &git_options()).unwrap();
    assert_eq!(installed.entry.resolved.as_deref(), Some(first.as_str()));
    assert_eq!(names(&installed.folder), ["lib", "manifest.json"]);

    fs::write(folder.join("tools/demo/lib/index.mjs"), "2").unwrap();
    git(&folder, &["commit", "-qam", "two"]);
    let second = git(&folder, &["rev-parse", "HEAD"]);
    let options = UpdateOptions { git: git_options().git, ..UpdateOptions::default() };
    let installer = place.installer();
    let update = installer.update("demo", &options).unwrap();
    assert_eq!(update.diff().files.len(), 1);
    assert_eq!(update.apply().unwrap().entry.resolved, Some(second.clone()));

    // Revisions: an annotated tag, a branch, a commit.
    git(&folder, &["config", "uploadpack.allowAnySHA1InWant", "true"]);
    for (revision, commit) in [("v1", &first), ("main", &second), (first.as_str(), &first)] {
        place.installer().remove("demo", false).unwrap();
        let installed = place.installer().add(&from_git(&url, Some(revision), Some("tools/demo")), &git_options()).unwrap();
        assert_eq!(installed.entry.resolved.as_ref(), Some(commit), "{revision}");
    }
    place.installer().remove("demo", false).unwrap();
    for (source, expected) in [
        (from_git(&url, Some("none"), Some("tools/demo")), code::GIT),
        (from_git(&url, None, Some("tools/none")), code::SOURCE),
        (from_git(&url, None, Some("../..")), code::GIT_URL),
        (from_git(&url, None, None), code::MANIFEST),
        (from_git("file:///nonexistent", None, None), code::GIT),
        (from_git(&url, Some("--upload-pack=touch x"), None), code::GIT_URL),
        (from_git("ext::sh -c touch% x", None, None), code::GIT_URL),
        (from_git("--upload-pack=x", None, None), code::GIT_URL),
    ] {
        let error = place.installer().add(&source, &git_options()).unwrap_err();
        assert_eq!(error.code(), expected, "{source:?}: {error}");
        assert!(place.visible().is_empty());
    }
}

/// No code of a repository runs: hooks, filters, submodules, links.
#[cfg(unix)]
#[test]
fn hostile_repositories() {
    if !has_git() {
        return;
    }
    let place = Setup::new();
    let (folder, url) = repository(&place);
    let marker = place.path("marker");
    let command = format!("touch {}", marker.display());
    // Hostile content: attributes with filters, and submodules.
    fs::write(folder.join(".gitattributes"), "* filter=evil\n*.mjs filter=lfs diff=lfs merge=lfs -text\n").unwrap();
    fs::write(folder.join(".gitmodules"), format!("[submodule \"x\"]\n\tpath = x\n\turl = {url}\n")).unwrap();
    fs::create_dir(folder.join("hooks")).unwrap();
    fs::write(folder.join("hooks/post-checkout"), format!("#!/bin/sh\n{command}\n")).unwrap();
    std::os::unix::fs::symlink("/etc", folder.join("outside")).unwrap();
    std::os::unix::fs::symlink("tools/demo", folder.join("inside")).unwrap();
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "-qm", "hostile"]);
    // The user's git configuration must have no effect either.
    let home = place.path("home");
    fs::create_dir(&home).unwrap();
    fs::write(
        home.join(".gitconfig"),
        format!("[filter \"evil\"]\n\tsmudge = {command}\n[core]\n\thooksPath = {}\n", folder.join("hooks").display()),
    )
    .unwrap();
    let mut options = git_options();
    options.git.environment.extend([
        ("HOME".into(), home.into()),
        ("GIT_CONFIG_COUNT".into(), "1".into()),
        ("GIT_CONFIG_KEY_0".into(), "core.fsmonitor".into()),
        ("GIT_CONFIG_VALUE_0".into(), command.into()),
    ]);
    let error = place.installer().add(&from_git(&url, None, Some("outside")), &options).unwrap_err();
    assert_eq!(error.code(), code::SOURCE, "{error}");
    assert!(matches!(
        place.installer().add(&from_git(&url, None, None), &options),
        Err(InstallError::Folder(_) | InstallError::Manifest { .. })
    ));
    let installed = place.installer().add(&from_git(&url, None, Some("inside")), &options).unwrap();
    assert_eq!(installed.id, "demo");
    assert!(!marker.exists(), "something of the repository or of the user's settings ran");

    // git refuses some repositories before a checkout.
    let update = format!("[submodule \"x\"]\n\tpath = x\n\turl = {url}\n\tupdate = !touch {}\n", marker.display());
    fs::write(folder.join(".gitmodules"), update).unwrap();
    git(&folder, &["commit", "-qam", "worse"]);
    let error = place.installer().add(&from_git(&url, None, Some("inside")), &options).unwrap_err();
    assert_eq!(error.code(), code::GIT, "{error}");
}

#[cfg(unix)]
#[test]
fn git_that_hangs_or_floods_is_ended() {
    use std::os::unix::fs::PermissionsExt as _;

    let place = Setup::new();
    fs::create_dir(place.path("bin")).unwrap();
    let program = |name: &str, body: &str| {
        let path = place.path(&format!("bin/{name}"));
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let source = from_git("https://example.com/x", None, None);
    let pids = place.path("pid");
    let hanging = program("hanging", &format!("sleep 600 & echo $! > {}; trap '' TERM; wait", pids.display()));
    let mut options = git_options();
    options.git.program = hanging;
    options.git.time_limit = Duration::from_millis(500);
    assert_eq!(place.installer().add(&source, &options).unwrap_err().code(), code::GIT_LIMIT);
    let pid = fs::read_to_string(&pids).unwrap();
    let gone = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        // A zombie counts as exited.
        fs::read_to_string(format!("/proc/{}/stat", pid.trim())).map_or(true, |stat| stat.contains(") Z "))
    });
    assert!(gone, "the child of git is still there");

    options.git.program = program("flooding", "cat /dev/zero > flood");
    options.git.time_limit = Duration::from_secs(60);
    options.git.max_bytes = 4 * 1024 * 1024;
    assert_eq!(place.installer().add(&source, &options).unwrap_err().code(), code::GIT_LIMIT);
    options.git.program = program("failing", "printf 'fatal: \\033[31mred\\n' >&2; exit 128");
    let error = place.installer().add(&source, &options).unwrap_err();
    assert!(error.to_string().contains("fatal: \\u{1b}[31mred"), "{error}");
    options.git.program = place.path("bin/none");
    assert_eq!(place.installer().add(&source, &options).unwrap_err().code(), code::GIT);
    assert!(place.visible().is_empty());
}

fn zip_of(files: &[(&str, &str)]) -> Vec<u8> {
    use std::io::Write as _;
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in files {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(content.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn archives_and_bundles() {
    let place = Setup::new();
    let manifest = manifest("demo", &["run"]);
    let path = place.path("demo.zip");
    let source = Source::Archive { path: path.clone() };
    fs::write(&path, zip_of(&[("demo-1.0/manifest.json", &manifest), ("demo-1.0/lib/a.mjs", "1")])).unwrap();
    let installed = place.installer().add(&source, &AddOptions::default()).unwrap();
    assert_eq!(names(&installed.folder), ["lib", "manifest.json"]);
    assert!(installed.entry.resolved.as_deref().is_some_and(|resolved| resolved.starts_with("sha256:")));
    place.installer().remove("demo", false).unwrap();

    // A bundle from an export contains the unchanged folder.
    let Source::Folder { path: folder } = place.source("demo", "1") else { unreachable!() };
    let tool = toolcrib_core::checked::parse::<toolcrib_core::local::LocalManifest>(
        manifest.as_bytes(),
        toolcrib_core::finding::Mode::Consumer,
    );
    let tool = tool.into_result().unwrap();
    let content = hash_folder(&folder).unwrap();
    let exported = toolcrib_host::local::export::export(
        toolcrib_host::local::export::Target::Mcpb,
        &[toolcrib_host::local::export::ExportTool { manifest: tool.value(), folder: &folder, content }],
        &toolcrib_host::local::export::ExportOptions::default(),
    )
    .unwrap();
    fs::write(&path, &exported.files[0].bytes).unwrap();
    let installed = place.installer().add(&source, &AddOptions { digest: Some(content), ..AddOptions::default() }).unwrap();
    assert_eq!(installed.entry.content, content);
    place.installer().remove("demo", false).unwrap();

    // A third-party bundle has to be imported.
    let bundle = json!({"manifest_version": "0.3", "name": "Other Server", "version": "1.0.0", "description": "d", "author": {"name": "a"},
        "server": {"type": "node", "entry_point": "server/index.js", "mcp_config": {"command": "node", "args": ["${__dirname}/server/index.js", "${user_config.dir}"],
            "env": {"KEY": "${user_config.key}", "MODE": "fast"}}},
        "user_config": {"key": {"type": "string", "title": "Key", "description": "The key.", "sensitive": true, "required": true},
            "dir": {"type": "directory", "title": "Folder", "description": "Where."}},
        "tools": [{"name": "go", "description": "Goes."}]});
    let bytes = zip_of(&[("manifest.json", &bundle.to_string()), ("server/index.js", "1")]);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(place.installer().add(&source, &AddOptions::default()).unwrap_err().code(), code::NEEDS_LISTING);
    let error = Bundle::read(&bytes, &Default::default()).unwrap_err();
    assert_eq!(error.code().id(), "import.variable");
    let settings = [("dir".to_owned(), vec!["/data".to_owned(), "/more".to_owned()])].into();
    let bundle = Bundle::read(&bytes, &settings).unwrap();
    assert_eq!(bundle.tools, [("go".to_owned(), Some("Goes.".to_owned()))]);
    let (tool, files) = bundle
        .into_files(&json!({"tools": [{"name": "go", "description": "Goes.", "inputSchema": {"type": "object"}}]}))
        .unwrap();
    let made: Json = serde_json::from_str(&tool.manifest).unwrap();
    assert_eq!(made["runtime"], json!({"kind": "mcp", "command": ["node", "./server/index.js", "/data", "/more"]}));
    assert_eq!(made["credentials"][0]["env"], "KEY");
    let installed = place.installer().add_files(&files, &source).unwrap();
    assert_eq!(
        (installed.id.as_str(), names(&installed.folder)),
        ("other-server", vec!["bundle.manifest.json".into(), "manifest.json".into(), "server".into()])
    );
}

/// The value of a secret is only written to the secret store.
#[test]
fn an_entry_of_a_client_becomes_a_folder_without_its_secrets() {
    let place = Setup::new();
    let secret = "hunter2-hunter2-hunter2";
    let (server, values) = from_entry("notes", &json!({"command": "notes-server", "env": {"NOTES_TOKEN": secret}})).unwrap();
    let tool =
        from_mcp_tools(&server, &json!([{"name": "list", "description": "Lists.", "inputSchema": {"type": "object"}}])).unwrap();
    let file = |path: &str, bytes| ToolFile { path: path.to_owned(), bytes, executable: false };
    let files = [file("manifest.json", tool.manifest.into_bytes())];
    let installed = place.installer().add_files(&files, &Source::Folder { path: place.path("none") }).unwrap();
    assert_eq!(values[0].value.as_str(), secret);
    for path in [installed.folder.join("manifest.json"), place.path("state/lock.json")] {
        assert!(!fs::read_to_string(path).unwrap().contains(secret));
    }
    let outside = [file("../evil", vec![])];
    assert_eq!(
        place.installer().add_files(&outside, &Source::Folder { path: place.path("none") }).unwrap_err().code(),
        code::ARCHIVE_NAME
    );
}
