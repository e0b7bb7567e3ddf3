//! The audit log: the chain, tampering, crashes, several processes, rotation.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolcrib_core::clock::Clock as _;
use toolcrib_host::local::audit::{
    AUDIT_FILE, AuditError, AuditLog, BreakCause, Event, Filter, Head, MAX_LINE_BYTES, Options, Record, verify,
};
use toolcrib_host::local::permissions::{Decision, Reason, RuleId, Verdict};
use toolcrib_host::local::secrets::{Redactor, Secret};

use crate::local_support::{assert_success, child, child_with_small_files, content, private_folder};
use toolcrib_testkit::clock::MovingClock;

const CHILD: &str = "TOOLCRIB_TEST_LOCAL_AUDIT";

fn log(folder: &Path) -> AuditLog {
    AuditLog::new(folder, Arc::new(MovingClock::new()), Options::default())
}

fn small(folder: &Path, max_bytes: u64) -> AuditLog {
    AuditLog::new(folder, Arc::new(MovingClock::new()), Options::default().with_max_bytes(max_bytes))
}

fn loaded(tool: &str) -> Record {
    Record::new(Event::ToolLoaded).tool(tool).content(content(1))
}

/// A log with `count` lines.
fn filled(folder: &Path, count: usize) -> Head {
    let log = log(folder);
    log.append((0..count).map(|index| loaded(&format!("tool{index}")))).unwrap()
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

fn write_lines(path: &Path, lines: &[String]) {
    fs::write(path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
}

fn broken(path: &Path) -> (u64, BreakCause) {
    match verify(path, None) {
        Err(AuditError::Broken(broken)) => (broken.line, broken.why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_is_recorded_without_its_arguments() {
    let place = private_folder();
    let clock = Arc::new(MovingClock::new());
    let log = AuditLog::new(place.path(), clock.clone(), Options::default());
    let arguments = json!({"command": "echo sekret-value"});
    let secret = Secret::new("sekret-value".to_owned());
    let redactor = Redactor::new([&secret]).unwrap();
    let verdict = Verdict { decision: Decision::Allow, reason: Reason::AllowRule, rule: Some(RuleId::Stored(3)) };
    let about = |event| {
        Record::new(event)
            .call("c1")
            .client("inspector")
            .tool("shell")
            .function("execute")
            .content(content(1))
            .arguments(&arguments)
    };
    let started = about(Event::CallStarted).sandbox("landlock, seccomp").recorded_arguments(&arguments, &redactor);
    log.append([about(Event::Decision).verdict(&verdict), started]).unwrap();
    clock.advance(2);
    let finished = about(Event::CallFinished).duration(Duration::from_millis(1_500)).exit("ok").sizes(20, 4_096);
    let head = log.append([finished]).unwrap();
    assert_eq!((head.seq, log.head().unwrap()), (3, head));

    let text = fs::read_to_string(log.path()).unwrap();
    assert!(!text.contains("echo") && !text.contains("sekret"), "{text}");
    assert_eq!(fs::metadata(log.path()).unwrap().permissions().mode() & 0o777, 0o600);
    let found = log.read(&Filter::default(), 10).unwrap();
    assert_eq!((found.entries.len(), found.invalid), (3, 0));
    let [decision, started, finished] = found.entries.try_into().unwrap();
    assert_eq!(
        (decision.event, decision.details.decision.as_deref(), decision.details.rule.as_deref()),
        (Event::Decision, Some("allow"), Some("3"))
    );
    assert_eq!(decision.details.reason.as_deref(), Some("allow_rule"));
    assert_eq!(started.details.arguments_hash, finished.details.arguments_hash);
    assert_eq!(started.details.sandbox.as_deref(), Some("landlock, seccomp"));
    assert_eq!((finished.details.duration_us, finished.details.output_bytes), (Some(1_500_000), Some(4_096)));
    assert_eq!((started.time.as_str(), finished.time.as_str()), ("2027-01-15T08:00:00Z", "2027-01-15T08:00:02Z"));
    assert_eq!((started.prev, finished.hash), (decision.hash, head.hash));

    let summary = verify(place.path(), Some(&head)).unwrap();
    assert_eq!((summary.lines, summary.files, summary.head, summary.torn_bytes), (3, 1, head, 0));
}

#[test]
fn arguments_are_recorded_redacted_on_request() {
    let place = private_folder();
    let log = AuditLog::new(place.path(), Arc::new(MovingClock::new()), Options::default().with_recorded_arguments());
    let secret = Secret::new("sekret-value".to_owned());
    let redactor = Redactor::new([&secret]).unwrap();
    log.append([Record::new(Event::CallStarted).recorded_arguments(&json!({"a": "x sekret-value"}), &redactor)]).unwrap();
    assert_eq!(log.read(&Filter::default(), 1).unwrap().entries[0].details.arguments, Some(json!({"a": "x [redacted]"})));
    verify(place.path(), None).unwrap();
}

#[test]
fn every_kind_of_tampering_inside_is_found() {
    let place = private_folder();
    let path = place.path().join(AUDIT_FILE);
    let head = filled(place.path(), 6);
    let original = lines(&path);
    assert_eq!(verify(&path, Some(&head)).unwrap().lines, 6);

    let mut changed = original.clone();
    changed[2] = changed[2].replace("tool2", "tool9");
    write_lines(&path, &changed);
    assert_eq!(broken(&path), (3, BreakCause::Hash));

    let mut changed = original.clone();
    changed[2] = changed[2].replace("\"tool\":", "\"tool\": ");
    write_lines(&path, &changed);
    assert_eq!(broken(&path), (3, BreakCause::NotCanonical));

    for removed in 0..5 {
        let mut changed = original.clone();
        changed.remove(removed);
        write_lines(&path, &changed);
        if removed == 0 {
            // The rest looks like a log whose older files were removed, and the summary shows that.
            assert_eq!(verify(&path, None).unwrap().starts_after.seq, 1);
        } else {
            assert_eq!(broken(&path), (removed as u64 + 1, BreakCause::Previous));
        }
    }

    let mut changed = original.clone();
    changed.swap(1, 3);
    write_lines(&path, &changed);
    assert_eq!(broken(&path), (2, BreakCause::Previous));

    let mut changed = original.clone();
    changed.insert(3, original[2].clone());
    write_lines(&path, &changed);
    assert_eq!(broken(&path), (4, BreakCause::Previous));

    let mut changed = original.clone();
    changed.insert(3, "not a line".to_owned());
    write_lines(&path, &changed);
    assert_eq!(broken(&path), (4, BreakCause::NotALine));

    let mut changed = original.clone();
    changed.insert(3, "x".repeat(MAX_LINE_BYTES + 10));
    write_lines(&path, &changed);
    assert_eq!(broken(&path), (4, BreakCause::TooLong));

    // After a removed tail the chain is still valid. Only the noted head detects it.
    write_lines(&path, &original[..4]);
    assert_eq!(verify(&path, None).unwrap().lines, 4);
    let error = verify(&path, Some(&head)).unwrap_err();
    assert_eq!(error.code().id(), "audit.head_mismatch");
    assert!(error.to_string().contains("line 6") && error.to_string().contains("line 4"), "{error}");
    // The same for a log that was rewritten.
    fs::remove_file(&path).unwrap();
    filled(place.path(), 5);
    log(place.path()).append([loaded("other")]).unwrap();
    assert_eq!(verify(&path, None).unwrap().lines, 6);
    assert!(verify(&path, Some(&head)).is_err());
}

#[test]
fn every_changed_byte_is_found() {
    let place = private_folder();
    let path = place.path().join(AUDIT_FILE);
    let head = filled(place.path(), 3);
    let original = fs::read(&path).unwrap();
    for index in 0..original.len() {
        let mut changed = original.clone();
        changed[index] ^= 1;
        fs::write(&path, &changed).unwrap();
        assert!(verify(&path, Some(&head)).is_err(), "byte {index}");
    }
}

#[test]
fn a_torn_line_is_moved_aside_and_the_chain_goes_on() {
    let place = private_folder();
    let path = place.path().join(AUDIT_FILE);
    let cases: [(usize, &[u8]); 4] = [(3, b"{\"event\":\"call_sta"), (0, b"{"), (2, &[0; 5_000]), (1, &[b'x'; 200_000])];
    for (count, torn) in cases {
        let _ = fs::remove_dir_all(place.path());
        fs::create_dir(place.path()).unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o700)).unwrap();
        filled(place.path(), count);
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(torn).unwrap();
        let summary = verify(&path, None);
        if torn.len() < MAX_LINE_BYTES {
            assert_eq!(summary.unwrap().torn_bytes, torn.len() as u64);
        }
        let log = log(place.path());
        let head = log.append([loaded("next")]).unwrap();
        let summary = verify(place.path(), Some(&head)).unwrap();
        assert_eq!((summary.lines, summary.torn_bytes), (count as u64 + 2, 0));
        let entries = log.read(&Filter { events: vec![Event::TornLine], ..Filter::default() }, 10).unwrap().entries;
        assert!(entries[0].details.detail.as_ref().unwrap().starts_with(&format!("{} bytes moved to", torn.len())));
        let aside = place.path().join(format!("audit-{:012}.torn", count + 1));
        assert_eq!(fs::read(aside).unwrap(), torn);
    }
}

#[test]
fn a_log_whose_end_was_changed_is_not_continued() {
    let place = private_folder();
    let path = place.path().join(AUDIT_FILE);
    filled(place.path(), 3);
    let mut changed = lines(&path);
    changed[2] = changed[2].replace("tool2", "tool9");
    write_lines(&path, &changed);
    let log = log(place.path());
    let error = log.append([loaded("next")]).unwrap_err();
    assert_eq!(error.code().id(), "audit.tail_invalid");
    assert_eq!(lines(&path), changed, "nothing is written");
    let aside = log.restart("looked at by hand").unwrap();
    assert_eq!(lines(&aside), changed);
    log.append([loaded("next")]).unwrap();
    let summary = verify(place.path(), None).unwrap();
    assert_eq!((summary.lines, summary.restarts, summary.head.seq), (2, 1, 5));
}

#[test]
fn files_are_rotated_and_the_chain_goes_on() {
    let place = private_folder();
    let log = small(place.path(), 2_000);
    let mut head = Head::START;
    for index in 0..40 {
        head = log.append([loaded(&format!("tool{index}"))]).unwrap();
    }
    let names = || -> Vec<PathBuf> {
        let entries = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")).collect();
        files.sort();
        files
    };
    let files = names();
    assert!(files.len() > 3, "{files:?}");
    let summary = verify(place.path(), Some(&head)).unwrap();
    assert_eq!((summary.files, summary.head, summary.starts_after), (files.len(), head, Head::START));
    assert_eq!(log.read(&Filter::default(), 1_000).unwrap().entries.len() as u64, summary.lines);
    let last: Vec<_> = log.read(&Filter { events: vec![Event::ToolLoaded], ..Filter::default() }, 3).unwrap().entries;
    assert_eq!(
        last.iter().map(|entry| entry.details.tool.as_deref().unwrap()).collect::<Vec<_>>(),
        ["tool37", "tool38", "tool39"]
    );

    // A process that ended between moving the file and creating the new one.
    fs::remove_file(place.path().join(AUDIT_FILE)).unwrap();
    let before = verify(place.path(), None).unwrap().head;
    let after = small(place.path(), 2_000).append([loaded("next")]).unwrap();
    assert_eq!(after.seq, before.seq + 1);
    verify(place.path(), Some(&after)).unwrap();

    // Old files may be removed; a file in the middle may not.
    fs::remove_file(&files[0]).unwrap();
    let summary = verify(place.path(), Some(&after)).unwrap();
    assert!(summary.starts_after.seq > 0);
    fs::remove_file(&files[2]).unwrap();
    assert_eq!(verify(place.path(), None).unwrap_err().code().id(), "audit.chain_broken");
}

#[test]
fn entries_are_filtered() {
    let place = private_folder();
    let clock = Arc::new(MovingClock::new());
    let log = AuditLog::new(place.path(), clock.clone(), Options::default());
    log.append([loaded("a"), loaded("b"), Record::new(Event::CallStarted).tool("a").function("f").call("c1")]).unwrap();
    clock.advance(10);
    log.append([Record::new(Event::CallFinished).tool("a").function("f").call("c1"), loaded("a")]).unwrap();
    let count = |filter: Filter| log.read(&filter, 100).unwrap().entries.len();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(count(Filter { tool: text("a"), ..Filter::default() }), 4);
    assert_eq!(count(Filter { tool: text("a"), function: text("f"), ..Filter::default() }), 2);
    assert_eq!(count(Filter { call: text("c1"), ..Filter::default() }), 2);
    assert_eq!(count(Filter { events: vec![Event::ToolLoaded], ..Filter::default() }), 3);
    assert_eq!(count(Filter { without: vec![Event::ToolLoaded], ..Filter::default() }), 2);
    assert_eq!(count(Filter { since: Some(clock.now()), ..Filter::default() }), 2);
    assert_eq!(count(Filter { after: Some(4), ..Filter::default() }), 1);
    assert_eq!(log.read(&Filter::default(), 2).unwrap().entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [4, 5]);
    assert!(log.read(&Filter::default(), 0).unwrap().entries.is_empty());
}

#[test]
fn a_log_that_others_can_read_or_replace_is_not_written() {
    let place = private_folder();
    let path = place.path().join(AUDIT_FILE);
    filled(place.path(), 1);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(log(place.path()).append([loaded("a")]).unwrap_err().code().id(), "audit.exposed");
    fs::rename(&path, place.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", &path).unwrap();
    assert_eq!(log(place.path()).append([loaded("a")]).unwrap_err().code().id(), "audit.not_a_file");
}

#[test]
fn threads_and_processes_append_to_one_chain() {
    let place = private_folder();
    let children: Vec<_> = (0..3)
        .map(|number| {
            child("local_audit::child_process", CHILD, &format!("many,{number},{}", place.path().display())).spawn().unwrap()
        })
        .collect();
    let log = small(place.path(), 8_000);
    std::thread::scope(|scope| {
        for number in 3..6 {
            let log = &log;
            scope.spawn(move || append_many(log, number));
        }
    });
    for process in children {
        assert_success(&process.wait_with_output().unwrap());
    }
    let summary = verify(place.path(), None).unwrap();
    assert!(summary.files > 1);
    let entries =
        log.read(&Filter { events: vec![Event::ToolLoaded, Event::Decision], ..Filter::default() }, 10_000).unwrap().entries;
    assert_eq!(entries.len(), 6 * 40);
    for number in 0..6 {
        let own: Vec<_> =
            entries.iter().filter(|entry| entry.details.tool.as_deref() == Some(&format!("tool{number}"))).collect();
        let details: Vec<_> = own.iter().map(|entry| entry.details.detail.clone().unwrap()).collect();
        assert_eq!(details, (0..40).map(|index| index.to_string()).collect::<Vec<_>>(), "each writer's lines keep their order");
    }
}

fn append_many(log: &AuditLog, number: u32) {
    for index in 0..40 {
        let event = if index % 10 == 0 { Event::Decision } else { Event::ToolLoaded };
        log.append([Record::new(event).tool(&format!("tool{number}")).detail(&index.to_string())]).unwrap();
    }
}

// Processes are killed with SIGKILL at random times; every line that they acknowledged is in the log, and the chain is valid.
#[test]
fn a_killed_process_loses_no_line_that_was_acknowledged() {
    let place = private_folder();
    let mut acknowledged = Vec::new();
    for round in 0..12 {
        let mut children: Vec<_> = (0..2)
            .map(|number| {
                let task = format!("endless,{number},{}", place.path().display());
                child("local_audit::child_process", CHILD, &task).stderr(Stdio::null()).spawn().unwrap()
            })
            .collect();
        // The first lines of both are awaited, so that each is killed during its work.
        let mut outputs: Vec<_> = children.iter_mut().map(|process| BufReader::new(process.stdout.take().unwrap())).collect();
        for output in &mut outputs {
            let mut line = String::new();
            while !line.starts_with("ack ") {
                line.clear();
                assert_ne!(output.read_line(&mut line).unwrap(), 0, "the process ended early");
            }
            acknowledged.push(line.trim().to_owned());
        }
        std::thread::sleep(Duration::from_millis(3 * round + 1));
        for process in &mut children {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        for output in outputs {
            let ends: Vec<_> = output.split(b'\n').map(Result::unwrap).collect();
            // The last line may be incomplete.
            let text: Vec<_> = ends.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
            acknowledged.extend(text.into_iter().filter(|line| line.starts_with("ack ") && line.ends_with(" ok")));
        }
        let head = small(place.path(), 50_000).append([Record::new(Event::HostStarted)]).unwrap();
        verify(place.path(), Some(&head)).unwrap();
    }
    let log = small(place.path(), 50_000);
    let mut heads = std::collections::HashMap::new();
    for entry in log.read(&Filter::default(), 10_000).unwrap().entries {
        heads.insert(entry.seq, entry.hash.to_string());
    }
    assert!(acknowledged.len() >= 24, "{}", acknowledged.len());
    let summary = verify(place.path(), None).unwrap();
    let oldest = summary.head.seq.saturating_sub(9_999);
    for line in &acknowledged {
        let mut parts = line.split(' ').skip(1);
        let (seq, hash) = (parts.next().unwrap().parse::<u64>().unwrap(), parts.next().unwrap());
        assert!(seq <= summary.head.seq, "{line}");
        if seq >= oldest {
            assert_eq!(heads.get(&seq).map(String::as_str), Some(hash), "{line}");
        }
    }
}

#[test]
fn a_full_disk_is_an_error_and_leaves_whole_lines() {
    let place = private_folder();
    let head = filled(place.path(), 1);
    assert_success(&child_with_small_files("local_audit::child_process", CHILD, &format!("full,0,{}", place.path().display())));
    let summary = verify(place.path(), None).unwrap();
    assert_eq!((summary.head, summary.torn_bytes), (head, 0));
    log(place.path()).append([loaded("next")]).unwrap();
}

/// The child processes of the test above.
#[test]
fn child_process() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let mut parts = task.splitn(3, ',');
    let (action, number, place) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    match action {
        "many" => append_many(&small(Path::new(place), 8_000), number.parse().unwrap()),
        "endless" => {
            let log = small(Path::new(place), 50_000);
            let mut out = std::io::stdout();
            // The name of the test is on the same line.
            writeln!(out).unwrap();
            loop {
                let head =
                    log.append([Record::new(Event::Decision).tool("t"), Record::new(Event::CallStarted).tool("t")]).unwrap();
                writeln!(out, "ack {head} ok").unwrap();
            }
        }
        "full" => {
            let log = log(Path::new(place));
            let error = log.append([loaded("a").detail(&"x".repeat(1_000)), loaded("b")]).unwrap_err();
            assert_eq!(error.code().id(), "audit.storage", "{error}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn lines_have_a_limit() {
    let place = private_folder();
    let log = AuditLog::new(place.path(), Arc::new(MovingClock::new()), Options::default().with_recorded_arguments());
    let none: [&Secret; 0] = [];
    let redactor = Redactor::new(none).unwrap();
    // Texts and arguments are truncated, so that the largest record fits in a line.
    let text = "\u{1}".repeat(5_000);
    let record = Record::new(Event::CallFinished)
        .call(&text)
        .client(&text)
        .tool(&text)
        .function(&text)
        .exit(&text)
        .sandbox(&text)
        .detail(&text)
        .decision(&text, &text)
        .recorded_arguments(&json!("x".repeat(16_000)), &redactor);
    log.append([record]).unwrap();
    assert!(fs::metadata(log.path()).unwrap().len() <= MAX_LINE_BYTES as u64);
    log.append([loaded("a")]).unwrap();
    verify(place.path(), None).unwrap();
}
