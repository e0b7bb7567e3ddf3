//! Files outside the allowed paths.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use toolcrib_process::Policy;

use crate::{allowed, attack, attack_if, program, quoted, run, sandboxed, shell};

#[tokio::test]
async fn files_outside_the_allowed_paths_cannot_be_read_written_or_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    fs::write(&secret, "secret").expect("written");
    let (inside, path) = (folder.path().join("new"), quoted(&secret));
    attack(&format!("assert open({path}).read() == 'secret'"), Policy::default()).await;
    attack(&format!("open({path}, 'a').write('x')"), Policy::default()).await;
    attack(&format!("open({}, 'w').write('x')\nos.unlink({0})", quoted(&inside)), Policy::default()).await;
    attack(&format!("os.truncate({path}, 3)"), Policy::default()).await;
    attack(&format!("os.listdir({})", quoted(folder.path())), Policy::default()).await;
    let home = std::env::var("HOME").expect("a home");
    attack(&format!("os.listdir({home:?})"), Policy::default()).await;
    for path in ["/etc/passwd", "/proc/1/cmdline", "/proc/self/environ", "/proc/self/maps"] {
        attack(&format!("open({path:?}).read()"), Policy::default()).await;
    }
    attack("os.listdir('/tmp')", Policy::default()).await;
    attack("os.listdir('/')", Policy::default()).await;
}

#[tokio::test]
async fn allowed_paths_give_what_they_say_and_no_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let (read, write, other) = (folder.path().join("read"), folder.path().join("write"), folder.path().join("other"));
    for path in [&read, &write, &other] {
        fs::create_dir(path).expect("made");
        fs::write(path.join("file"), "text").expect("written");
    }
    let policy = || Policy { read: vec![read.clone()], write: vec![write.clone()], ..Policy::default() };
    allowed(&format!("assert open({}).read() == 'text'", quoted(&read.join("file"))), policy()).await;
    allowed(&format!("os.listdir({})", quoted(&read)), policy()).await;
    let new = quoted(&write.join("new"));
    allowed(&format!("open({new}, 'w').write('x')\nos.rename({new}, {new} + '2')\nos.unlink({new} + '2')"), policy()).await;
    attack(&format!("open({}, 'w')", quoted(&read.join("new"))), policy()).await;
    attack(&format!("open({}).read()", quoted(&other.join("file"))), policy()).await;
    // A symlink out of an allowed folder does not help.
    let link = quoted(&write.join("link"));
    let statements =
        format!("os.path.islink({link}) or os.symlink({}, {link})\nopen({link}).read()", quoted(&other.join("file")));
    attack(&statements, policy()).await;
    // Nor does a hard link to the file, or moving it.
    let hard = quoted(&write.join("hard"));
    attack(&format!("os.link({}, {hard})\nos.unlink({hard})", quoted(&other.join("file"))), policy()).await;
    attack(&format!("os.rename({}, {hard})\nos.rename({hard}, {0})", quoted(&other.join("file"))), policy()).await;
}

#[tokio::test]
async fn modes_times_and_events_of_files_elsewhere_are_out_of_reach() {
    let folder = tempfile::tempdir().expect("a folder");
    let (inside, outside) = (folder.path().join("inside"), folder.path().join("outside"));
    fs::create_dir(&inside).expect("made");
    fs::write(&outside, "text").expect("written");
    let policy = || Policy { write: vec![inside.clone()], ..Policy::default() };
    let path = quoted(&outside);
    attack(&format!("os.chmod({path}, 0o600)"), policy()).await;
    attack(&format!("os.chmod({path}, 0o600, dir_fd=os.open('/usr', os.O_RDONLY))"), policy()).await;
    attack(&format!("os.utime({path}, (0, 0))"), policy()).await;
    attack(&format!("os.chown({path}, os.getuid(), os.getgid())"), policy()).await;
    attack_if(&format!("os.setxattr({path}, 'user.x', b'x')"), policy(), Some("this file system has no attributes")).await;
    attack_if(&format!("call((452, 452), -100, {path}.encode(), 0o600, 0)"), policy(), Some("this kernel has no fchmodat2"))
        .await;
    let watch = format!("fd = call((294, 26), 0)\ncall((254, 27), fd, {}.encode(), 0x100)", quoted(folder.path()));
    attack(&watch, policy()).await;
    // On open files it works, and only allowed ones can be opened.
    let own = quoted(&inside.join("own"));
    let statements =
        format!("with open({own}, 'w') as file:\n    os.fchmod(file.fileno(), 0o600)\n    os.utime(file.fileno(), (0, 0))");
    allowed(&statements, policy()).await;
    allowed(&format!("os.chmod({own}, 0o640)"), Policy { file_modes: true, ..policy() }).await;
}

#[tokio::test]
async fn a_program_that_was_just_written_is_not_executed() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    let policy = || Policy { write: vec![folder.path().to_path_buf()], ..Policy::default() };
    let path = quoted(&script);
    let statements = format!(
        "import subprocess\n\
         with open({path}, 'w') as file: file.write('#!/bin/sh\\nexit 0\\n'); os.fchmod(file.fileno(), 0o755)\n\
         subprocess.run([{path}], check=True)"
    );
    attack(&statements, policy()).await;
    // It works if the folder may be written and executed.
    let both = Policy { execute: vec![folder.path().to_path_buf()], ..policy() };
    allowed(&statements, both).await;
}

#[tokio::test]
async fn devices_cannot_be_made_in_a_folder_that_may_be_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = quoted(&folder.path().join("disk"));
    let policy = Policy { write: vec![folder.path().to_path_buf()], ..Policy::default() };
    let statements = format!("import stat\nos.mknod({path}, stat.S_IFBLK | 0o600, os.makedev(8, 0))\nos.unlink({path})");
    attack_if(&statements, policy, Some("only root can make devices")).await;
}

#[tokio::test]
async fn a_script_gets_its_interpreter_and_its_own_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("tool");
    for (text, expected) in [("#!/bin/sh\necho $1\n", "one"), ("#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1])\n", "one")]
    {
        fs::write(&script, text).expect("written");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("executable");
        let spec = sandboxed(program(script.to_str().expect("UTF-8"), &["one"]), Policy::default());
        assert_eq!(run(&spec).await.succeeded(), expected);
    }
}

#[tokio::test]
async fn everyday_devices_and_pipes_work() {
    let script = "echo a >/dev/null; echo text | cat </dev/stdin | sed s/t/T/; head -c 4 /dev/urandom | wc -c; echo $((1+1)) >&2";
    let outcome = run(&sandboxed(shell(script), Policy::default())).await;
    assert_eq!(outcome.succeeded(), "Text\n4", "{outcome:?}");
    assert_eq!(outcome.stderr, "2\n");
}
