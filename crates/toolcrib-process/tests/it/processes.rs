//! Other processes, file descriptors, privileges, and rarely used system calls.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;

use rustix::io::{FdFlags, fcntl_setfd};
use toolcrib_process::{Policy, spawn};

use crate::{attack, attack_if, outcome, program, python, run, sandboxed, unsandboxed};

/// A policy with `/proc`, so that not only the file rules prevent the attack.
fn with_proc() -> Policy {
    Policy { read: vec![PathBuf::from("/proc")], ..Policy::default() }
}

#[tokio::test]
async fn other_processes_cannot_be_read_traced_or_robbed() {
    let host = std::process::id();
    let hardened = Some("this kernel restricts tracing");
    for process in [host.to_string(), "os.getppid()".to_owned()] {
        for file in ["environ", "maps", "mem"] {
            attack_if(&format!("open(f'/proc/{{{process}}}/{file}', 'rb').read(0)"), with_proc(), hardened).await;
        }
        attack_if(&format!("os.readlink(f'/proc/{{{process}}}/fd/0')"), with_proc(), hardened).await;
        let pidfd = format!("fd = os.pidfd_open({process})\ncall((438, 438), fd, 0, 0)");
        attack_if(&pidfd, with_proc(), hardened).await;
    }
    // The target is the supervisor and not this test, which must not be stopped.
    attack_if("call((101, 117), 0x4206, os.getppid(), 0, 0)", Policy::default(), hardened).await;
    let read = "buffer = ctypes.create_string_buffer(8)\n\
                class Vector(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]\n\
                local = Vector(ctypes.addressof(buffer), 8)\n\
                remote = Vector(int(open(f'/proc/{os.getppid()}/maps').read().split('-')[0], 16), 8)\n\
                call((310, 270), os.getppid(), ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)";
    attack_if(read, with_proc(), hardened).await;
}

#[tokio::test]
async fn other_processes_cannot_be_signalled_or_limited() {
    let host = std::process::id();
    for process in [host.to_string(), "os.getppid()".to_owned()] {
        attack(&format!("os.kill({process}, 18)"), Policy::default()).await;
        attack(&format!("import signal\nsignal.pidfd_send_signal(os.pidfd_open({process}), 18)"), Policy::default()).await;
    }
    attack("import resource\nresource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0))", Policy::default()).await;
    attack("os.setpriority(os.PRIO_PROCESS, os.getppid(), 1)", Policy::default()).await;
    attack("os.sched_setaffinity(os.getppid(), os.sched_getaffinity(0))", Policy::default()).await;
}

#[tokio::test]
async fn inherited_descriptors_do_not_reach_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("secret");
    std::fs::write(&path, "secret").expect("written");
    let file = File::open(&path).expect("opened");
    // As if it had been open when this process was started.
    fcntl_setfd(&file, FdFlags::empty()).expect("set");
    let number = std::os::fd::AsRawFd::as_raw_fd(&file);
    let statements = format!("assert os.pread({number}, 6, 0) == b'secret'");
    let spec = unsandboxed(python(&statements));
    let direct = outcome(spawn(&spec, None).expect("it starts")).await;
    assert_eq!(direct.succeeded(), "reached");
    for spec in [spec, sandboxed(python(&statements), Policy::default())] {
        let outcome = run(&spec).await;
        assert!(outcome.succeeded().starts_with("denied OSError [Errno 9]"), "{outcome:?}");
    }
}

#[tokio::test]
async fn corners_of_the_kernel_are_closed() {
    let missing = "this kernel or user cannot do it";
    let calls = [
        ("io_uring_setup", "call((425, 425), 8, ctypes.create_string_buffer(256))"),
        ("add_key", "call((248, 217), b'user', b'toolcrib', b'x', 1, -3)"),
        ("keyctl", "call((250, 219), 0, -3, 1)"),
        ("unshare", "assert libc.unshare(0x10000000) == 0"),
        ("clone", "pid = call((56, 220), 0x10000000 | 17, 0, 0, 0, 0)\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)"),
        ("userfaultfd", "call((323, 282), 0)"),
        ("perf_event_open", "call((298, 241), ctypes.create_string_buffer(b'\\1\\0\\0\\0\\x70\\0\\0\\0', 112), 0, -1, -1, 0)"),
        ("bpf", "call((321, 280), 0, ctypes.create_string_buffer(b'\\1\\0\\0\\0\\4\\0\\0\\0\\4\\0\\0\\0\\1', 128), 128)"),
        ("shmget", "identifier = call((29, 194), 0, 4096, 0o1600)\ncall((31, 195), identifier, 0, 0)"),
        ("mq_open", "call((240, 180), b'toolcrib', 0o102, 0o600, 0)\ncall((241, 181), b'toolcrib')"),
        (
            "name_to_handle_at",
            "call((303, 264), -100, b'/', ctypes.create_string_buffer(b'\\x80', 200), ctypes.create_string_buffer(8), 0)",
        ),
        ("personality", "call((135, 92), 0x0040000)"),
        ("chroot", "os.chroot('/usr')"),
    ];
    for (name, statements) in calls {
        let open = run(&unsandboxed(python(statements))).await;
        if open.succeeded() != "reached" {
            toolcrib_testkit::skip("attack", &format!("{name}: {missing}: {}", open.stdout.trim()));
        }
        let closed = run(&sandboxed(python(statements), Policy::default())).await;
        let expected = if name == "unshare" { "denied AssertionError" } else { "denied PermissionError [Errno 1]" };
        assert!(closed.succeeded().starts_with(expected), "{name}: {closed:?}");
    }
}

#[tokio::test]
async fn text_cannot_be_typed_into_a_terminal() {
    let policy = Policy { write: vec!["/dev/ptmx".into(), "/dev/pts".into()], ..Policy::default() };
    let statements = "import fcntl, pty, termios\nmaster, slave = pty.openpty()\nfcntl.ioctl(slave, termios.TIOCSTI, b'x')";
    attack_if(statements, policy, Some("this kernel has turned TIOCSTI off for this user")).await;
}

#[tokio::test]
async fn root_is_without_its_powers() {
    let only_root = Some("only root has privileges to lose");
    attack_if("os.setuid(12345)", Policy::default(), only_root).await;
    attack_if("os.setgroups([12345])", Policy::default(), only_root).await;
    attack_if("import resource\nresource.setrlimit(resource.RLIMIT_CORE, (1, 1))", Policy::default(), only_root).await;
    let status =
        "text = open('/proc/self/status').read()\nassert 'CapEff:\\t0000000000000000' not in text or 'NoNewPrivs:\\t0' in text";
    attack(status, with_proc()).await;
}

#[tokio::test]
#[cfg(target_arch = "x86_64")]
async fn calls_of_another_architecture_end_the_program() {
    // getpid of x32. Kernels without x32 return that there is no such call.
    let statements = "libc.syscall(ctypes.c_long(0x40000000 + 39))";
    assert_eq!(run(&unsandboxed(python(statements))).await.succeeded(), "reached");
    let closed = run(&sandboxed(python(statements), Policy::default())).await;
    assert_eq!(closed.ended.as_ref().expect("it ran").status.signal(), Some(31), "{closed:?}");
    // getpid of i386, by machine code: mov eax, 20; int 0x80; ret.
    let statements = "import mmap\n\
                      memory = mmap.mmap(-1, 4096, prot=7)\n\
                      memory.write(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3')\n\
                      address = ctypes.addressof(ctypes.c_char.from_buffer(memory))\n\
                      assert ctypes.CFUNCTYPE(ctypes.c_long)(address)() == os.getpid()";
    let open = run(&unsandboxed(python(statements))).await;
    if open.ended.as_ref().is_ok_and(|ended| ended.status.success()) {
        assert_eq!(open.succeeded(), "reached");
        let closed = run(&sandboxed(python(statements), Policy::default())).await;
        assert_eq!(closed.ended.as_ref().expect("it ran").status.signal(), Some(31), "{closed:?}");
    } else {
        toolcrib_testkit::skip("attack", "this kernel has no i386 calls");
    }
}

#[tokio::test]
async fn the_terminal_of_the_host_is_out_of_reach() {
    // A new session has no terminal, with or without a sandbox.
    let spec = unsandboxed(program("/usr/bin/python3", &["-c", "import os; print(os.getsid(0) == os.getppid())"]));
    assert_eq!(run(&spec).await.succeeded(), "True");
}
