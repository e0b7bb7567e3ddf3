//! The seccomp filter: system calls that Landlock does not restrict, and those that no tool needs.
//!
//! A denylist and not an allowlist: third-party programs, in any language, use all calls that their runtime uses. Denied calls fail with
//! "operation not permitted", as they would without privileges. Calls of another architecture (i386, x32) kill the program: their numbers
//! have other meanings.

use crate::policy::Policy;

/// Whether there is a filter for this architecture.
pub(crate) const IS_SUPPORTED: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Whether filters work, measured on a thread that then ends.
pub(crate) fn measure() -> bool {
    if !IS_SUPPORTED {
        return false;
    }
    let thread = std::thread::Builder::new().name("seccomp-probe".to_owned());
    let probe = thread.spawn(|| {
        restrict(&Policy::default()).is_ok()
            && std::net::UdpSocket::bind("127.0.0.1:0").is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    });
    probe.is_ok_and(|thread| thread.join().unwrap_or(false))
}

/// Restricts the calling thread and what it starts.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn restrict(_policy: &Policy) -> Result<(), String> {
    Err("seccomp: there is no filter for this architecture".to_owned())
}

/// Restricts the calling thread and what it starts.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) fn restrict(policy: &Policy) -> Result<(), String> {
    for program in filter::programs(policy).map_err(|error| format!("seccomp filter: {error}"))? {
        seccompiler::apply_filter(&program).map_err(|error| format!("seccomp: {error}"))?;
    }
    Ok(())
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod filter {
    use std::collections::BTreeMap;

    use seccompiler::{
        BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
        sock_filter,
    };

    use crate::policy::{Network, Policy};

    /// Calls that are denied with any arguments.
    const DENIED: &[libc::c_long] = &[
        // Memory, registers and file descriptors of other processes.
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_kcmp,
        libc::SYS_move_pages,
        libc::SYS_migrate_pages,
        // Memory, semaphores and queues that all processes of a user share, and that Landlock does not restrict.
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_shmctl,
        libc::SYS_semget,
        libc::SYS_semctl,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_msgget,
        libc::SYS_msgctl,
        libc::SYS_msgsnd,
        libc::SYS_msgrcv,
        libc::SYS_mq_open,
        libc::SYS_mq_unlink,
        // Subsystems of the kernel with a long history of escapes. io_uring could also do what this filter denies.
        libc::SYS_bpf,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_userfaultfd,
        libc::SYS_perf_event_open,
        // Keyrings of the user.
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        // Namespaces and mounts: in its own user namespace a process is root.
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_fsopen,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fspick,
        libc::SYS_mount_setattr,
        // Files by handle, which bypasses all paths.
        libc::SYS_open_by_handle_at,
        libc::SYS_name_to_handle_at,
        // Watching of file names and events anywhere: Landlock does not restrict it.
        libc::SYS_fanotify_init,
        libc::SYS_inotify_add_watch,
        // The whole machine.
        libc::SYS_kexec_load,
        KEXEC_FILE_LOAD,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_acct,
        libc::SYS_quotactl,
        libc::SYS_quotactl_fd,
        libc::SYS_syslog,
        libc::SYS_sethostname,
        libc::SYS_setdomainname,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_clock_adjtime,
        libc::SYS_adjtimex,
        libc::SYS_vhangup,
        libc::SYS_lookup_dcookie,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_iopl,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_ioperm,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_modify_ldt,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_uselib,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_ustat,
        #[cfg(target_arch = "x86_64")]
        libc::SYS__sysctl,
    ];

    /// Calls that change modes, owners, times and attributes of a file by its path. Landlock does not restrict them. Those on an open file
    /// are not listed: only an allowed file can be opened.
    const BY_PATH: &[libc::c_long] = &[
        libc::SYS_fchmodat,
        libc::SYS_fchownat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        FCHMODAT2,
        SETXATTRAT,
        REMOVEXATTRAT,
        FILE_SETATTR,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chown,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_lchown,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_utime,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_utimes,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_futimesat,
    ];

    // Newer than some versions of the C libraries, and the same number on all architectures.
    const FCHMODAT2: libc::c_long = 452;
    const SETXATTRAT: libc::c_long = 463;
    const REMOVEXATTRAT: libc::c_long = 466;
    const FILE_SETATTR: libc::c_long = 469;

    /// Calls on other processes of the user, which need no privilege. Their first argument is the PID, 0 for the calling process.
    const ON_PROCESS: &[libc::c_long] =
        &[libc::SYS_sched_setscheduler, libc::SYS_sched_setparam, libc::SYS_sched_setattr, libc::SYS_sched_setaffinity];

    /// The same with the PID as the second argument, and its kind as the first.
    const ON_KIND_AND_PROCESS: &[libc::c_long] = &[libc::SYS_setpriority, libc::SYS_ioprio_set];

    /// The flags of `clone` that create a namespace. `CLONE_NEWTIME` cannot be passed to `clone`.
    const NAMESPACES: [libc::c_int; 7] = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];

    /// The bits of a socket type that hold the type. The others are flags.
    const SOCKET_TYPE: u64 = 0xf;

    /// Opens a TCP connection with `sendto`, which bypasses the rules of Landlock.
    const MSG_FASTOPEN: u64 = 0x2000_0000;

    /// Injects input into a terminal.
    const TIOCSTI: u64 = 0x5412;

    /// Selects and pastes text on a console.
    const TIOCLINUX: u64 = 0x541c;

    /// musl does not define it on all architectures.
    const KEXEC_FILE_LOAD: libc::c_long = if cfg!(target_arch = "x86_64") { 320 } else { 294 };

    /// The numbers of x32, a second system call table of x86-64, have this bit.
    const X32: u32 = 0x4000_0000;

    type Rules = BTreeMap<i64, Vec<SeccompRule>>;

    /// The filters; all of them are applied.
    pub(super) fn programs(policy: &Policy) -> Result<Vec<BpfProgram>, BackendError> {
        // The flags of clone3 are in memory, which a filter cannot read. The C library falls back to clone if clone3 does not exist.
        let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        Ok(vec![program(rules(policy)?, libc::EPERM)?, program(clone3, libc::ENOSYS)?])
    }

    fn program(rules: Rules, errno: i32) -> Result<BpfProgram, BackendError> {
        let architecture = std::env::consts::ARCH.try_into()?;
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno.unsigned_abs()), architecture)?;
        let program: BpfProgram = filter.try_into()?;
        Ok(without_x32(program))
    }

    /// Prepends a check to a filter: calls of x32 kill the process. The filter itself kills it for calls of i386.
    fn without_x32(program: BpfProgram) -> BpfProgram {
        if cfg!(not(target_arch = "x86_64")) {
            return program;
        }
        let instruction = |code: u32, jt, jf, k| sock_filter { code: u16::try_from(code).unwrap_or_default(), jt, jf, k };
        let mut checked = vec![
            // The number of the call is the first field of the data.
            instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
            instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        ];
        checked.extend(program);
        checked
    }

    fn rules(policy: &Policy) -> Result<Rules, BackendError> {
        let mut rules: Rules = DENIED.iter().map(|call| (*call, Vec::new())).collect();
        if !policy.file_modes {
            rules.extend(BY_PATH.iter().map(|call| (*call, Vec::new())));
            // Without a path it applies to an open file.
            rules.insert(libc::SYS_utimensat, vec![all([pointer_is_set(1)?])?]);
        }
        for call in ON_PROCESS {
            rules.insert(*call, vec![all([not(0, 0)?])?]);
        }
        for call in ON_KIND_AND_PROCESS {
            rules.insert(*call, vec![all([not(1, 0)?])?]);
        }
        // Limits of another process may be read, but not set.
        rules.insert(libc::SYS_prlimit64, vec![all([not(0, 0)?, pointer_is_set(2)?])?]);
        // Only the default personality, and querying it, are allowed.
        rules.insert(libc::SYS_personality, vec![all([not(0, 0)?, not(0, 0xffff_ffff)?])?]);
        // Terminal input that the user did not type.
        rules.insert(libc::SYS_ioctl, vec![all([is(1, TIOCSTI)?])?, all([is(1, TIOCLINUX)?])?]);
        let namespaces = NAMESPACES.iter().map(|flag| all([has(0, u64::from(flag.unsigned_abs()))?]));
        rules.insert(libc::SYS_clone, namespaces.collect::<Result<_, _>>()?);
        rules.insert(libc::SYS_socket, sockets(policy)?);
        rules.insert(libc::SYS_socketpair, socket_pairs(policy)?);
        if policy.network != Network::Any {
            for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
                rules.insert(call, vec![all([has(flags, MSG_FASTOPEN)?])?]);
            }
        }
        Ok(rules)
    }

    /// Denied sockets: all families that the policy does not allow, and all but TCP if it allows ports.
    fn sockets(policy: &Policy) -> Result<Vec<SeccompRule>, BackendError> {
        let internet = [libc::AF_INET, libc::AF_INET6];
        let mut allowed = Vec::new();
        if policy.unix_sockets {
            allowed.push(libc::AF_UNIX);
        }
        if policy.network != Network::None {
            allowed.extend(internet);
        }
        if policy.network == Network::Any {
            allowed.push(libc::AF_NETLINK);
        }
        let mut denied = Vec::new();
        if allowed.is_empty() {
            // A rule for all calls has no condition, and an empty list means the same.
            return Ok(denied);
        }
        denied.push(all(allowed.iter().map(|family| not(0, family.unsigned_abs().into())).collect::<Result<Vec<_>, _>>()?)?);
        if policy.network == Network::Any {
            // Network interfaces and addresses, which resolvers query.
            let route = u64::from(libc::NETLINK_ROUTE.unsigned_abs());
            denied.push(all([is(0, libc::AF_NETLINK.unsigned_abs().into())?, not(2, route)?])?);
        }
        if matches!(policy.network, Network::Ports(_)) {
            for family in internet {
                let family = || is(0, family.unsigned_abs().into());
                for kind in (0..=SOCKET_TYPE).filter(|kind| *kind != u64::from(libc::SOCK_STREAM.unsigned_abs())) {
                    denied.push(all([family()?, has_value(1, SOCKET_TYPE, kind)?])?);
                }
                // Stream sockets that are not TCP, such as MPTCP and SCTP, are outside the rules of Landlock.
                denied.push(all([family()?, not(2, 0)?, not(2, libc::IPPROTO_TCP.unsigned_abs().into())?])?);
            }
        }
        Ok(denied)
    }

    /// Denied socket pairs. A datagram socket could still be connected to a service of the user; a stream socket could not.
    fn socket_pairs(policy: &Policy) -> Result<Vec<SeccompRule>, BackendError> {
        let unix = u64::from(libc::AF_UNIX.unsigned_abs());
        let mut denied = vec![all([not(0, unix)?])?];
        if !policy.unix_sockets {
            for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
                denied.push(all([has_value(1, SOCKET_TYPE, u64::from(kind.unsigned_abs()))?])?);
            }
        }
        Ok(denied)
    }

    fn all(conditions: impl IntoIterator<Item = SeccompCondition>) -> Result<SeccompRule, BackendError> {
        SeccompRule::new(conditions.into_iter().collect())
    }

    // Most arguments have 32 bits in the kernel, which ignores the rest. A 64-bit comparison could be bypassed by setting the upper bits.

    fn is(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
    }

    fn not(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
    }

    fn has(argument: u8, flag: u64) -> Result<SeccompCondition, BackendError> {
        has_value(argument, flag, flag)
    }

    fn has_value(argument: u8, mask: u64, value: u64) -> Result<SeccompCondition, BackendError> {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value)
    }

    fn pointer_is_set(argument: u8) -> Result<SeccompCondition, BackendError> {
        SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn every_policy_has_a_filter_that_fits_into_the_kernel() {
            for network in [Network::None, Network::Ports(vec![443]), Network::Any] {
                for unix_sockets in [false, true] {
                    let policy = Policy { network: network.clone(), unix_sockets, ..Policy::default() };
                    let programs = programs(&policy).expect("filters");
                    assert_eq!(programs.len(), 2);
                    assert!(programs.iter().all(|program| (4..4_096).contains(&program.len())));
                }
            }
        }
    }
}
